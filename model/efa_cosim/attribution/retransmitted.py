# SPDX-License-Identifier: Apache-2.0
"""Replays runs in which messages are sent again, one message at a time: each transmission, and what
comes between one and the next.

Nothing else is in progress, so every stage of every transmission takes its service. The waits are
timeouts and back-offs, and a look at the peer in which an acknowledgement arrives. A timeout
follows from the round-trip times of the messages before, from the tick and from the scan of the
peers; a back-off from the tick and from the scan of its lists.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from efa_cosim.attribution.gaps import Ends, Gap, Services
from efa_cosim.cycle.costs import Costs, costs
from efa_cosim.cycle.pacing import round_trip, timeout
from efa_cosim.cycle.record import Record
from efa_cosim.cycle.stages import Stages, standard
from efa_cosim.cycle.state import REGISTERS
from efa_cosim.cycle.timelines import NEVER, Ints
from efa_cosim.cycle.transmitting import RECALL
from efa_cosim.layouts import defs

TIMEOUT, RNR = "retransmission after a timeout", "retransmission after RNR"
# Cycles from the scan that finds a peer with a new packet to the start of its timer: the look, the
# state of the peer, the request. From the scan that finds an expired timer to the retransmission:
# the same, the walk over the packet, its record, the turn of the peer. From a retransmission to the
# restart of the timer: its look, the state of the peer, the request.
TIMER_STARTS, SENT_AGAIN, RESTARTS = 5, 14, 6
# Cycles from a scan to the begin of the last acknowledgement that precedes the look, and to the end
# of the look; from the join of an acknowledgement to its begin; more of one behind a look.
COMES_FIRST, LOOK_ENDS, OFFERED, RELOADED = 2, 6, 3, 1
# Lists of efa_tx_rnr, one for each back-off; cycles in which a list without context is looked at,
# more for one with a context, for its post, from a new context to a look that finds it, from the
# end of its back-off to its transmission: its post, the list and the turn of its peer.
LISTS, LOOK, DUE, POST, LISTED, POSTED_AGAIN = 5, 3, 1, 2, 3, 6
# Milestones whose stages every transmission passes.
SENT = ("check", "rd", "rd_cpl", "tx_first", "tx_last", "rx_first", "rx_last", "ackout", "ack")
# Functions of the engines, not compiled.
_round_trip: Any = round_trip
_timeout: Any = timeout


# The replay has no probes, which are transmissions, too.
PROBE_CYCLES, NO_PROBE = defs.TRANSPORT.path_probe * defs.TRANSPORT.tick_cycles, 1 << 60


class _Timer:
    """The timer of a peer that has one packet in flight at most."""

    def __init__(self, numbers: Costs) -> None:
        self._c = numbers
        self._times = np.zeros(len(REGISTERS), np.int64)
        self._expires, self._backoff = 0, 0
        self._sent = self._from = 0
        # Cycle from which the device probes the paths that timeouts have made unusable.
        self.probes = NO_PROBE

    def _ticks(self, cycle: int) -> int:
        return cycle + self._c.ticks >> self._c.tick_log

    def _scan(self, cycle: int) -> int:
        """Returns the first cycle from `cycle` on in which the scan compares the time of the peer.
        """
        return cycle + (self._c.scan - cycle - self._c.clock) % self._c.scan_every

    def send(self, cycle: int) -> None:
        """Notes the cycle in which the first flit of a packet leaves for the first time."""
        self._sent, self._backoff = cycle, 0
        self._from = self._scan(cycle + 1) + 1
        self._start(self._from - 1 + TIMER_STARTS)

    def _start(self, cycle: int) -> None:
        wait: int = _timeout.py_func(self._c, self._times)
        self._expires = self._ticks(cycle) + (wait << self._backoff)

    def expire(self) -> int:
        """Returns the cycle of the next transmission of the packet, after a timeout."""
        found = self._scan(self._from)
        while self._ticks(found) < self._expires:
            found += self._c.scan_every
        self._from = found + 1
        self.probes = min(self.probes, found + PROBE_CYCLES)
        self._backoff = min(self._backoff + 1, defs.TRANSPORT.rto_backoff_max)
        self._start(found + SENT_AGAIN + RESTARTS)
        return found + SENT_AGAIN

    def held(self, came: int) -> int:
        """Returns the cycles that an acknowledgement of the first transmission waits for the look
        at the peer; came: cycle of its arrival."""
        look, offered = self._from - 1, came + self._c.join + OFFERED
        if not look + COMES_FIRST < offered <= look + LOOK_ENDS:
            return 0
        return look + LOOK_ENDS + RELOADED - offered

    def resolve(self, came: int) -> None:
        """Notes the acknowledgement of a packet that was sent once; came: cycle of its arrival."""
        ticks = self._ticks(came + self._c.join - 1)
        trip = max(1, ticks - self._ticks(self._sent))
        _round_trip.py_func(self._c, self._times, trip, ticks)


class _Backoff:
    """The lists of efa_tx_rnr, which are looked at in turns. One context waits at most."""

    def __init__(self, numbers: Costs) -> None:
        self._c = numbers
        # A cycle in which the first list is looked at, if no context waits.
        self._begins = -numbers.clock

    def again(self, refused: int, retries: int) -> int:
        """Returns the cycle of the next transmission of a packet; refused: cycle of its outcome;
        retries: how often it was sent again before."""
        c, level = self._c, min(retries, defs.TRANSPORT.rnr_backoff_max)
        ticks = (refused + c.ticks >> c.tick_log) + (defs.TRANSPORT.rnr_ticks << level)
        ends = (ticks << c.tick_log) - c.ticks
        # The look that first finds the context, then one look a round.
        found = self._begins + LOOK * level + LOOK - 1
        found += -((found - refused - LISTED) // (LISTS * LOOK)) * LISTS * LOOK
        due, every = found + DUE, LISTS * LOOK + DUE
        due += max(0, -((due - ends) // every)) * every
        # Behind the post the next list is looked at.
        self._begins = due + DUE + POST - LOOK * (level + 1)
        return due + POSTED_AGAIN


def replay(record: Record, table: Stages, services: Services) -> tuple[
        dict[Ends, Gap], list[tuple[int, int, Ends, str]]]:  # fmt: skip
    """Returns the gap of each stage of all messages, and the transmissions that differ from the
    recording: (recorded cycle, message, stage, text)."""
    timelines, attempts = record.timelines, record.attempts
    assert attempts is not None
    gaps = {(start, end): Gap(timelines[start], cycles)
            for (start, end), cycles in services.items()}
    check, ackout, done = (next(gap for (_, end), gap in gaps.items() if end == name)
                           for name in ("check", "ackout", "done"))
    sent, known = _Sent(table, services), attempts.table
    numbers = costs(standard(), timelines.work, False, record.clocks)
    timer, backoff, wrong = _Timer(numbers), _Backoff(numbers), sent.wrong
    behind = table.latency("efa_tx_recall.now") + table.latency("efa_wqe_check.entry")
    for message in range(timelines.work.total):
        mine = attempts.of(message).tolist()
        arrived = attempts.first("rx_validated", message)
        last = attempts.first("ack", message)
        due = int(check.begins[message] + check.service[message])
        timer.send(int(known["tx_first"][mine[0]]))
        for attempt in mine:
            if attempt > mine[0]:
                before = attempt - 1
                if attempts.refused[before]:
                    outcome = int(known["ack"][before]) + sent.outcome
                    due = backoff.again(outcome, before - mine[0])
                else:
                    due = timer.expire()
                due += RECALL + behind
            sent.at(message, attempt, "check", due, known, timer.probes)
            sent.follow(message, attempt, known, bool(attempts.refused[attempt]), attempt > arrived)
            if attempt == arrived:
                check.until(message, due, RNR if attempts.refused[mine[0]] else TIMEOUT)
        out = int(ackout.begins[message] + ackout.service[message])
        if last > arrived:
            out = int(known["rx_last"][last]) + sent.again
        ackout.until(message, out, TIMEOUT)
        if len(mine) == 1:
            came = int(known["ack"][last])
            done.book(message, timer.held(came), "look at the peer in progress")
            timer.resolve(came)
    return gaps, wrong


class _Sent:
    """Compares the milestones of each transmission with the services.

    again  cycles from the arrival of a packet that came before to its acknowledgement
    outcome  cycles from the arrival of an acknowledgement to the outcome of its packet
    wrong  (recorded cycle, message, stage, text) of each difference
    """

    def __init__(self, table: Stages, services: Services) -> None:
        self._services = services
        self.again = sum(map(table.latency, ("efa_net_rx.packet", "efa_srd_receiver.duplicate",
                                             "efa_net_tx.flit")))
        self._refused = [
            ("rx_last", "rx_validated", ("efa_net_rx.packet", "efa_srd_receiver.packet",
                                         "efa_rx_validate.packet", "efa_rx_mr_check.no_buffer")),
            ("rx_validated", "ackout", ("efa_fifo.small", "efa_rx_retire.acknowledgement",
                                        "efa_srd_receiver.refusal", "efa_net_tx.flit")),
        ]  # fmt: skip
        self._table = table
        self.outcome = sum(map(table.latency, ("efa_net_rx.acknowledgement",
                                               "efa_srd_sender.outcome")))
        self._way = [ends for ends in services if ends[0] in SENT and ends[1] in SENT]
        self.wrong: list[tuple[int, int, Ends, str]] = []

    def at(
        self, message: int, attempt: int, end: str, due: int, known: dict[str, Ints],
        probes: int = NO_PROBE,
    ) -> None:
        """Compares one milestone of a transmission; probes: cycle of the first probe of a path."""
        cycle = int(known[end][attempt])
        if cycle != due:
            stage = next(ends for ends in self._services if ends[1] == end)
            text = f"transmission {attempt} ends in cycle {cycle}, the replay in cycle {due}"
            if cycle >= probes:
                text += f", without the probes of paths from cycle {probes} on"
            self.wrong.append((cycle, message, stage, text))

    def follow(
        self, message: int, attempt: int, known: dict[str, Ints], refused: bool, again: bool
    ) -> None:
        """Compares the milestones behind the check; again: the packet has arrived before."""
        for start, end in self._way:
            begin = int(known[start][attempt])
            if begin != NEVER and known[end][attempt] != NEVER:
                self.at(message, attempt, end, begin + int(self._services[start, end]), known)
        arrived = int(known["rx_last"][attempt])
        if again and arrived != NEVER:
            self.at(message, attempt, "ackout", arrived + self.again, known)
        for start, end, cost in self._refused if refused else ():
            due = int(known[start][attempt]) + sum(map(self._table.latency, cost))
            self.at(message, attempt, end, due, known)
