# SPDX-License-Identifier: Apache-2.0
"""Replays the reliable transport of the sending device: WQEs from the scheduler to the checks, and
acknowledgements to the outcomes of packets (see efa_cosim.attribution.gaps).

The engines are those of the cycle model. Their inputs are the recorded WQEs, acknowledgements and
stalls of the checks; with reads also the accepted requests and the placed responses.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np

from efa_cosim.attribution.gaps import Gap, Ledger
from efa_cosim.attribution.rows import Rows
from efa_cosim.cycle import compiled
from efa_cosim.cycle.acknowledgements import outcomes
from efa_cosim.cycle.costs import RESPONSE_STAGES, Costs, costs, packed, sending
from efa_cosim.cycle.record import Record
from efa_cosim.cycle.resolving import WALKS, departs, resolve
from efa_cosim.cycle.segmenting import (
    ACT_KIND,
    ENDED_N,
    PLACED,
    PLACED_HEAD,
    REQUEST_AT,
    REQUEST_ROW,
    RESTS,
)
from efa_cosim.cycle.stages import Stages, standard
from efa_cosim.cycle.state import ENGINES, FAR, R, State, new_state
from efa_cosim.cycle.timelines import Ints
from efa_cosim.cycle.transmitting import DIRECT, RECALL, space_left, transmit

CHECK_N, CHECK_STUCK, CHECK_PT = R["check_n"], R["check_stuck"], R["check_pt"]
INTO_CHECK_N, ROUTED_N, POSTED = R["into_check_n"], R["routed_n"], R["posted_packet"]
PLACED_TAIL = R["placed_tail"]
SENT_N, TURN_1, TURN_2 = R["sent_n"], R["turn_1"], R["turn_2"]
QUEUED, LOOKED = R["queued"], R["looked"]
RECALL_1, RECALL_2, RECALLED = R["recall_1"], R["recall_2"], R["recalled"]
LIMITS_AT, SETTLED, WINDOW = R["limits_at"], R["show_settled"], R["show_window"]
SETTLED_0, WINDOW_0 = R["old_settled"], R["old_window"]
RESOLVED_N, STATE, RECORD = R["resolved_n"], R["state"], R["record"]
# Activity of efa_tx_space and of efa_tx_resolve in a cycle.
SENDS, CONGESTED, FULL, BEHIND, TURNS = range(5)
RESOLVES, DIVIDES, LOOKS = range(3)
CHECKS = "earlier WQEs at the checks"
TO_SEND = {SENDS: "earlier packets to the same peer",
           CONGESTED: "congestion window of the peer full", FULL: "PSN window of the peer full",
           BEHIND: CHECKS, TURNS: "turn of the peer"}  # fmt: skip
TO_RESOLVE = {RESOLVES: "earlier packets of the peer resolved",
              DIVIDES: "division of the congestion window",
              LOOKS: "look at the peer in progress"}  # fmt: skip
READ_BACK = "WQE read back"
# Activity of efa_tx_segment in a cycle: the post of a message, of another packet, an event.
MESSAGES, OTHERS, EVENTS, NOTHING = range(4)
TO_POST = {MESSAGES: "earlier WQEs posted", OTHERS: "packets of other operations posted",
           EVENTS: "events of other operations", NOTHING: "turn of the posts"}  # fmt: skip
OTHER_PACKETS = "other packets of the message"
# Steps of a packet: cycles in which it was posted, was sent, entered the checks.
POST, SENT, ENTERED = range(3)
SETTLES = 256  # Cycles after the last time stamp in which a replay of this run must end.


@compiled
def _limit(now: int, c: Costs, r: Ints) -> int:
    """Returns what the first packet of the list waits for."""
    fresh = r[LIMITS_AT] < now
    settled, window = (r[SETTLED], r[WINDOW]) if fresh else (r[SETTLED_0], r[WINDOW_0])
    if r[SENT_N] - settled >= window:
        return CONGESTED if window < c.psns else FULL
    return BEHIND if r[TURN_1] == 1 and not space_left(r) else TURNS


@compiled
def _run(c: Costs, s: State, wake: Ints, checked: Ints, departures: Ints, requests: Ints,
         accepted: Ints, steps: Ints, routed: Ints, past: Ints, moved: Ints, chosen: Ints,
         taken: Ints, sends: Ints, looks: Ints, posts: Ints) -> None:  # fmt: skip
    """Executes cycle by cycle until all packets were checked and resolved and all messages ended,
    or sends has no more cycles."""
    r = s.r
    total, asked, waits_for, out = len(checked), 0, 0, 0
    for now in range(len(sends)):
        k = r[CHECK_N]
        r[CHECK_STUCK] = 0
        if k < r[INTO_CHECK_N] and s.check_due[k] <= r[CHECK_PT]:
            if checked[s.sent[k]] <= now:
                r[CHECK_N] += 1
            else:
                r[CHECK_STUCK] = 1
        if asked < len(requests) and accepted[asked] <= now and r[REQUEST_ROW] < 0:
            r[REQUEST_ROW], r[REQUEST_AT] = requests[asked], now + c.accepts
            asked += 1
        resolved, state, waits = r[RESOLVED_N], r[STATE], r[RECORD] >= 0
        if c.srd:
            while out < total and departures[out] <= now:
                departs(c, r, out, departures[out], s.departed_at, wake)
                out += 1
            resolve(now, c, r, s.sent, s.departed_at, s.resolved_at, s.incoming, s.note_due, s.todo,
                    s.outcome_k, s.ack_shows, s.ack_in_at, None, wake)  # fmt: skip
            looks[now] = LOOKS
            if r[RESOLVED_N] > resolved:
                looks[now] = RESOLVES
            elif state == WALKS and waits:
                looks[now] = DIVIDES
        left, sent, entered, acts = r[ROUTED_N], r[SENT_N], r[INTO_CHECK_N], r[ACT_KIND]
        placed = r[PLACED_HEAD]
        free = r[QUEUED] == 0 and r[RECALL_1] == 0 and r[RECALL_2] == 0 and r[RECALLED] == 0
        direct = free and r[TURN_2] == DIRECT and r[LOOKED] == 1
        sends[now] = _limit(now, c, r)
        transmit(now, c, r, s.items, s.sent, s.number_of, s.skid_in, s.check_due, s.pushed_at,
                 s.seg_next, s.seg_open, s.seg_posted, s.seg_left,
                 s.live_until, s.pop_row, s.pop_due, s.placed, s.placed_at, s.incoming,
                 s.note_due, s.at, s.departed_at, s.outgoing, None, wake)
        if acts != RESTS:
            posts[now] = EVENTS
        if r[POSTED] >= 0:
            steps[POST, r[POSTED]] = now
            posts[now] = OTHERS
        if r[ROUTED_N] > left:
            routed[left] = now
            posts[now] = MESSAGES
        if waits_for < asked and r[REQUEST_ROW] < 0:
            moved[waits_for] = now
            waits_for += 1
        if acts == RESTS and r[ACT_KIND] == PLACED:
            chosen[placed] = now
        if r[PLACED_HEAD] > placed:
            taken[placed] = now
        if r[SENT_N] > sent:
            steps[SENT, sent] = now
            # Only the WQE of a message that was just posted need not be read back.
            fresh = not c.segments or s.sent[sent] % c.packets == 0
            past[sent] = 1 if direct and fresh else 0
            sends[now] = SENDS
        if r[INTO_CHECK_N] > entered:
            steps[ENTERED, entered] = now
        if r[CHECK_STUCK] == 0:
            r[CHECK_PT] += 1
        if r[CHECK_N] == total and (not c.srd or (
                r[RESOLVED_N] == total and r[ENDED_N] == c.total)):
            break
        if r[ENDED_N] > c.total:
            # Inputs that do not match each other end a message twice.
            break


class Transport:
    """Replay of one run.

    order     messages in the order of the scheduler; routed: cycle in which each left the skid
    sent      rows of packets in the order of their posts; entered: cycle in which each entered the
              checks
    resolved  messages in the order of their outcomes; noted: cycles of the outcomes
    moved_at  {row of a read request: cycle in which it was moved to the post of its responses}
    taken     cycle in which the segmenter has taken each read response that was placed
    """

    def __init__(self, record: Record, table: Stages, rows: Rows) -> None:
        timelines, work = record.timelines, record.timelines.work
        self.table, self.rows = table, rows
        # Only the numbers that the replay depends on come from this table.
        own: Any = sending(table, work)
        numbers = replace(costs(standard(), work, False, record.clocks), **own,
                          skid=table.latency("efa_skid.beat"),
                          check=table.latency("efa_wqe_check.entry"))
        self._numbers = numbers
        state = new_state(numbers, record.made, np.zeros(1, np.int64))
        wqe = timelines["wqe"][:: rows.packets]
        order = np.argsort(wqe, kind="stable")
        self.order, total = order, work.total
        state.items[:] = order
        state.skid_in[:] = wqe[order]
        self._skid_in = wqe
        state.r[R["item_n"]] = total
        number_of = np.empty(rows.count, np.int64)
        number_of[np.argsort(timelines["tx_first"], kind="stable")] = np.arange(rows.count)
        if work.kind == "SRD":
            state.outcome_k[:] = number_of[np.argsort(outcomes(timelines.table), kind="stable")]
        count = state.r[R["ack_come_n"]] = min(len(record.acks.came), rows.count)
        state.ack_shows[:count] = record.acks.shows[:count]
        state.ack_in_at[:count] = record.acks.came[:count]
        self._accepted = record.accepted
        requests = np.flatnonzero(rows.request)
        requests = requests[np.argsort(record.accepted[requests], kind="stable")]
        responses = np.flatnonzero(~rows.request) if work.reads else np.zeros(0, np.int64)
        placed = timelines["rx_data_done"][responses]
        self.placed = responses[np.argsort(placed, kind="stable")]
        state.placed[: len(placed)] = self.placed
        state.placed_at[: len(placed)] = np.sort(placed) + (
            table.latency("efa_rx_retire.job") + table.latency("efa_fifo.small"))
        state.r[PLACED_TAIL] = len(placed)
        cycles = int(max(timelines.end.max(), timelines["done"].max(), timelines["ack"].max())
                     ) + SETTLES
        steps, past = np.full((3, rows.count), FAR, np.int64), np.zeros(rows.count, np.int64)
        routed, moved = np.full(total, FAR, np.int64), np.full(len(requests), FAR, np.int64)
        chosen, taken = (np.full(len(placed), FAR, np.int64) for _ in range(2))
        sends, looks, posts = (np.full(cycles, fill, np.int64) for fill in (0, 0, NOTHING))
        # Compiled code reads the fields of the record by their names.
        _run(cast(Costs, packed(numbers)), state, np.zeros(ENGINES, np.int64), timelines["check"],
             np.sort(timelines["tx_first"]), requests, record.accepted[requests], steps, routed,
             past, moved, chosen, taken, sends, looks, posts)  # fmt: skip
        for found in (steps, routed, moved, chosen, taken):
            found[found == FAR] = cycles
        self._steps, self._past, self._chosen = steps, past, chosen
        self.routed, self.entered = routed.tolist(), steps[ENTERED].tolist()
        self.moved_at = dict(zip(requests.tolist(), moved.tolist(), strict=True))
        self.taken = taken.tolist()
        noted = int(state.r[ENDED_N])
        self.resolved, self.noted = state.incoming[:noted], state.note_due[:noted]
        self.sent: list[int] = state.sent.tolist()
        self._at, self._number_of = state.resolved_at, state.number_of
        self._sends = Ledger(dict(enumerate(sends.tolist())), tuple(TO_SEND))
        self._looks = Ledger(dict(enumerate(looks.tolist())), tuple(TO_RESOLVE))
        self._posts = Ledger(dict(enumerate(posts.tolist())), tuple(TO_POST))

    @property
    def response_service(self) -> int:
        """Returns the cycles from the acceptance of a read request to the check of its response on
        an idle device."""
        numbers = self._numbers
        return numbers.accepts + numbers.responder + RESPONSE_STAGES + numbers.check

    def send(self, gap: Gap, number: int) -> None:
        """Books the waits of a packet, by its number in the order of the posts, until it enters
        the checks."""
        at, row = self.table.latency, self.sent[number]
        posted, sent, entered = self._steps[:, number].tolist()
        behind = at("efa_tx_recall.now") + at("efa_wqe_check.entry")
        if self._numbers.segments:
            self._post(gap, row, posted)
        for kind, cycles in self._sends.count(posted + 1, sent).items():
            gap.book(row, cycles, TO_SEND[kind])
        if not self._past[number]:
            gap.until(row, sent + RECALL + behind, READ_BACK)
        gap.until(row, entered + behind, CHECKS)

    def _post(self, gap: Gap, row: int, posted: int) -> None:
        """Books the waits of a packet until its post: those of the first packet of its operation,
        then those for the packets before it."""
        numbers, rows = self._numbers, self.rows
        message, part = divmod(row, rows.packets)
        request = message * rows.packets
        response = bool(rows.request[request]) and part > 0
        first = int(self._steps[POST, self._number_of[request + response]])
        if response:
            accepted = int(self._accepted[request])
            moved = self.moved_at[request]
            gap.book(row, moved - accepted - numbers.accepts, "earlier requests")
            ready = moved + numbers.responder
        else:
            ready = int(self._skid_in[message]) + numbers.skid + numbers.route
        for kind, cycles in self._posts.count(ready, first).items():
            gap.book(row, cycles, TO_POST[kind])
        gap.book(row, posted - first, OTHER_PACKETS)

    def resolve(self, gap: Gap) -> None:
        """Books the waits from the arrival of an acknowledgement to the outcome of the message.

        An acknowledgement that joins another one is faster than one alone: its service is less."""
        at, rows = self.table.latency, self.rows
        alone = at("efa_net_rx.acknowledgement") + at("efa_srd_sender.outcome")
        for message, noted in zip(self.resolved.tolist(), self.noted.tolist(), strict=True):
            row = message * rows.packets + rows.packets - 1
            begin = int(gap.begins[row])
            gap.faster(row, begin + alone - noted)
            resolved = int(self._at[self._number_of[row]])
            for kind, cycles in self._looks.count(begin + alone - 1, resolved).items():
                gap.book(row, cycles, TO_RESOLVE[kind])
            if self._numbers.segments:
                gap.until(row, begin + int(gap.service[row]) + max(0, noted - begin - alone),
                          "outcomes counted one by one")

    def place(self, gap: Gap) -> None:
        """Books the waits from the payload of the last response to the end of its read."""
        numbers, rows = self._numbers, self.rows
        noted = dict(zip(self.resolved.tolist(), self.noted.tolist(), strict=True))
        # From the choice of the last event of a message to its outcome.
        known = 1 + numbers.noted + numbers.tracked
        begins = self.table.latency("efa_rx_retire.job") + self.table.latency("efa_fifo.small")
        for row, chosen in zip(self.placed.tolist(), self._chosen.tolist(), strict=True):
            message, part = divmod(row, rows.packets)
            if part == rows.packets - 1:
                idle = int(gap.begins[row] + gap.service[row])
                due = int(gap.begins[row]) + begins
                gap.until(row, idle + chosen - due, "events of other operations")
                gap.until(row, idle + noted.get(message, chosen + known) - known - due,
                          "outcomes of the packets of the message")
