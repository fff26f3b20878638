# SPDX-License-Identifier: Apache-2.0
"""Replays the reliable transport of the sending device: WQEs from the scheduler to the checks, and
acknowledgements to the outcomes of packets (see efa_cosim.attribution.gaps).

The engines are those of the cycle model. Their inputs are the recorded WQEs, acknowledgements and
stalls of the checks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np

from efa_cosim.attribution.gaps import Gap, Ledger
from efa_cosim.cycle import compiled
from efa_cosim.cycle.acknowledgements import outcomes
from efa_cosim.cycle.costs import Costs, costs, packed, sending
from efa_cosim.cycle.record import Record
from efa_cosim.cycle.resolving import WALKS, resolve
from efa_cosim.cycle.stages import Stages, standard
from efa_cosim.cycle.state import ENGINES, FAR, R, State, new_state
from efa_cosim.cycle.timelines import Ints
from efa_cosim.cycle.transmitting import DIRECT, RECALL, space_left, transmit

CHECK_N, CHECK_STUCK, CHECK_PT = R["check_n"], R["check_stuck"], R["check_pt"]
INTO_CHECK_N, ROUTED_N, POSTED = R["into_check_n"], R["routed_n"], R["posted_packet"]
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
# Steps of a packet: cycles in which it left the skid, was posted, was sent, entered the checks.
ROUTED, POST, SENT, ENTERED = range(4)
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
def _run(c: Costs, s: State, wake: Ints, checked: Ints, steps: Ints, past: Ints, sends: Ints,
         looks: Ints) -> None:  # fmt: skip
    """Executes cycle by cycle until all packets were checked and resolved, or sends has no more
    cycles."""
    r = s.r
    total = len(checked)
    for now in range(len(sends)):
        k = r[CHECK_N]
        r[CHECK_STUCK] = 0
        if k < r[INTO_CHECK_N] and s.check_due[k] <= r[CHECK_PT]:
            if checked[k] <= now:
                r[CHECK_N] += 1
            else:
                r[CHECK_STUCK] = 1
        resolved, state, waits = r[RESOLVED_N], r[STATE], r[RECORD] >= 0
        if c.srd:
            resolve(now, c, r, s.sent, s.sent_ticks, s.resolved_at, s.incoming, s.note_due, s.todo,
                    s.outcome_k, s.ack_shows, s.ack_in_at, wake)  # fmt: skip
            looks[now] = LOOKS
            if r[RESOLVED_N] > resolved:
                looks[now] = RESOLVES
            elif state == WALKS and waits:
                looks[now] = DIVIDES
        routed, sent, entered = r[ROUTED_N], r[SENT_N], r[INTO_CHECK_N]
        free = r[QUEUED] == 0 and r[RECALL_1] == 0 and r[RECALL_2] == 0 and r[RECALLED] == 0
        direct = free and r[TURN_2] == DIRECT and r[LOOKED] == 1
        sends[now] = _limit(now, c, r)
        transmit(now, c, r, s.items, s.sent, s.number_of, s.skid_in, s.check_due, s.pushed_at,
                 s.sent_ticks, s.seg_next, s.seg_open, s.seg_posted, s.seg_left,
                 s.live_until, s.pop_row, s.pop_due, s.placed, s.placed_at, s.incoming,
                 s.note_due, wake)
        if r[ROUTED_N] > routed:
            steps[ROUTED, routed] = now
        if r[POSTED] >= 0:
            steps[POST, r[POSTED]] = now
        if r[SENT_N] > sent:
            steps[SENT, sent] = now
            past[sent] = 1 if direct else 0
            sends[now] = SENDS
        if r[INTO_CHECK_N] > entered:
            steps[ENTERED, entered] = now
        if r[CHECK_STUCK] == 0:
            r[CHECK_PT] += 1
        if r[CHECK_N] == total and (not c.srd or r[RESOLVED_N] == total):
            break


class Transport:
    """Replay of one run.

    order     messages in the order of the scheduler
    routed, entered  cycles in which each, in this order, left the skid and entered the checks
    resolved  messages in the order of their outcomes; noted: cycles of the outcomes
    """

    def __init__(self, record: Record, table: Stages) -> None:
        timelines, work = record.timelines, record.timelines.work
        self.table = table
        # Only the numbers that the replay depends on come from this table.
        own: Any = sending(table, work)
        numbers = replace(costs(standard(), work, False, record.clocks), **own,
                          skid=table.latency("efa_skid.beat"),
                          check=table.latency("efa_wqe_check.entry"))
        state = new_state(numbers, record.made, np.zeros(1, np.int64))
        order = np.argsort(timelines["wqe"], kind="stable")
        self.order, total = order, work.total
        state.items[:] = order
        state.skid_in[:] = timelines["wqe"][order]
        state.r[R["item_n"]] = total
        number_of = np.empty(total, np.int64)
        number_of[order] = np.arange(total)
        if work.kind == "SRD":
            state.outcome_k[:] = number_of[np.argsort(outcomes(timelines.table), kind="stable")]
        count = state.r[R["ack_come_n"]] = min(len(record.acks.came), total)
        state.ack_shows[:count] = record.acks.shows[:count]
        state.ack_in_at[:count] = record.acks.came[:count]
        steps, past = np.full((4, total), FAR, np.int64), np.zeros(total, np.int64)
        cycles = int(max(timelines.end.max(), timelines["done"].max())) + SETTLES
        sends, looks = np.zeros(cycles, np.int64), np.zeros(cycles, np.int64)
        # Compiled code reads the fields of the record by their names.
        _run(cast(Costs, packed(numbers)), state, np.zeros(ENGINES, np.int64),
             timelines["check"][order], steps, past, sends, looks)
        steps[steps == FAR] = cycles
        self._steps, self._past = steps, past
        self.routed, self.entered = steps[ROUTED].tolist(), steps[ENTERED].tolist()
        noted = int(state.r[R["resolved_n"]])
        self.resolved, self.noted = state.incoming[:noted], state.note_due[:noted]
        self._at = state.resolved_at
        self._sends = Ledger(dict(enumerate(sends.tolist())), tuple(TO_SEND))
        self._looks = Ledger(dict(enumerate(looks.tolist())), tuple(TO_RESOLVE))

    def send(self, gap: Gap, number: int) -> None:
        """Books the waits of a packet, by its number in the order of the scheduler, until it enters
        the checks."""
        at, message = self.table.latency, int(self.order[number])
        _, posted, sent, entered = self._steps[:, number].tolist()
        behind = at("efa_tx_recall.now") + at("efa_wqe_check.entry")
        for kind, cycles in self._sends.count(posted + 1, sent).items():
            gap.book(message, cycles, TO_SEND[kind])
        if not self._past[number]:
            gap.until(message, sent + RECALL + behind, READ_BACK)
        gap.until(message, entered + behind, CHECKS)

    def resolve(self, gap: Gap) -> None:
        """Books the waits from the arrival of an acknowledgement to the outcome of the packet.

        An acknowledgement that joins another one is faster than one alone: its service is less."""
        at = self.table.latency
        alone = at("efa_net_rx.acknowledgement") + at("efa_srd_sender.outcome")
        number_of = np.argsort(self.order, kind="stable")
        for message, noted in zip(self.resolved.tolist(), self.noted.tolist(), strict=True):
            begin = int(gap.begins[message])
            gap.faster(message, begin + alone - noted)
            resolved = int(self._at[number_of[message]])
            for kind, cycles in self._looks.count(begin + alone - 1, resolved).items():
                gap.book(message, cycles, TO_RESOLVE[kind])
