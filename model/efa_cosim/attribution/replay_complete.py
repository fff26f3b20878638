# SPDX-License-Identifier: Apache-2.0
"""Replays completions: from finished sends and receives to their CQEs (see gaps.py).

Receives arrive in the order of their packets, sends in that of their acknowledgements (datagrams:
of departure). The completion engine consumes them round robin and stalls while the host write
stream carries other beats.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np

from efa_cosim.attribution.gaps import Busy, Ends, Gap, Ledger
from efa_cosim.attribution.replay_receive import Receiving
from efa_cosim.attribution.replay_transport import Transport
from efa_cosim.cycle.acknowledgements import one_a_cycle
from efa_cosim.cycle.record import Record
from efa_cosim.cycle.stages import Stages

SEND, RECEIVE = 0, 1
ENTRY, WRITES, EMPTY = range(3)
CAUSES = {ENTRY: "earlier CQEs", WRITES: "received payload written first",
          EMPTY: "gap after stalled completions"}  # fmt: skip
# Cycles from the input to the output of the store of finished sends.
THROUGH_STORE = 2


class _Finished:
    """Finished sends: passed on directly, or through a store while the later stages stall.

    arrives, order  earliest cycle of each send, and its message
    most            maximum number of sends between here and the completion engine, None: no limit
    """

    def __init__(self, arrives: Sequence[int], order: Sequence[int], most: int | None) -> None:
        self._arrives, self._order, self._next, self._most = arrives, order, 0, most
        self._store: deque[tuple[int, int]] = deque()
        self._looked: int | None = None
        self._second: int | None = None
        self.last: int | None = None
        self._inside = 0
        # Cycle in which each send was consumed, and left the output, which frees its context.
        self.consumed: list[int] = []
        self.left: list[int] = []

    @property
    def empty(self) -> bool:
        return not self._store and (self._looked, self._second, self.last) == (None, None, None)

    @property
    def due(self) -> int | None:
        """Returns the arrival of the next send, None after the last."""
        return self._arrives[self._next] if self._next < len(self._arrives) else None

    def step(self, cycle: int, consumed: bool) -> None:
        """Executes one cycle; consumed: the item of the last stage is consumed."""
        enters, self._looked = self._looked, None
        inside = self._inside
        moves = self.last is None or consumed
        bypass = not self._store
        if bypass:
            item = enters
        else:
            put, item = self._store[0]
            item = item if put + THROUGH_STORE <= cycle else None
        if moves:
            self.last, self._second = self._second, item
            if item is not None:
                self.left.append(cycle)
                self._inside -= 1
                if not bypass:
                    self._store.popleft()
        if enters is not None and not (bypass and moves):
            self._store.append((cycle, enters))
        if self.due is not None and self.due <= cycle and (
                self._most is None or inside < self._most):
            self._looked = self._order[self._next]
            self._next += 1
            self._inside += 1
            self.consumed.append(cycle)


class Completing:
    """Replay of the completions of one run.

    freed      cycles in which message contexts are freed
    looked_at  cycles in which sends were consumed
    """

    def __init__(
        self, record: Record, table: Stages, receiving: Receiving, transport: Transport
    ) -> None:
        timelines, work = record.timelines, record.timelines.work
        self.timelines, self.receiving = timelines, receiving
        srd = work.kind == "SRD"
        order, arrives = transport.resolved, transport.noted
        if not srd:
            # The cycle at the output is part of the latency from departure to finished send.
            behind = table.latency("efa_net_tx.done") - table.latency("efa_net_tx.flit")
            order = np.argsort(timelines["tx_last"], kind="stable")
            arrives = timelines["tx_last"][order] + behind
        self._sends = _Finished(arrives.tolist(), order.tolist(),
                                None if srd else table.depth("efa_send_tracker.rest"))
        written = receiving.written
        ready = [max(written[message], int(timelines["rx_validated"][message]) + 1)
                 for message in receiving.order]
        self._receives, self._ready = (receiving.order, ready) if work.receives else ([], [])
        self._writes = Busy(record.payload.tolist())
        # A packet without a receive completion does not wait for the completion engine.
        self.retired: dict[int, int] = {} if work.receives else dict(
            zip(receiving.order, one_a_cycle(np.array(ready)).tolist(), strict=True))
        self.entries: dict[int, dict[int, int]] = {SEND: {}, RECEIVE: {}}
        self.did: dict[int, int] = {}
        # Stalled cycles of a finished send, a finished receive, a CQE.
        self.stalls = {"TXC": 0, "RXC": 0, "WR_CQ": 0}
        self._run((1 + work.receives) * work.total)
        self.freed, self.looked_at = self._sends.left, self._sends.consumed

    def _run(self, total: int) -> None:
        """Executes cycle by cycle until `total` CQEs are written."""
        ready, sends, done = self._ready, self._sends, 0
        place, last = 0, None
        # Stages of the completion engine.
        first: tuple[int, int] | None = None
        second: tuple[int, int] | None = None
        held: int | None = None  # Choice not yet accepted.
        turn = SEND  # Side with priority.
        cycle = 0
        while done < total:
            if first is None and second is None and sends.empty:
                enters = [ready[place]] if place < len(ready) else []
                enters += [sends.due] if sends.due is not None else []
                cycle = max(cycle, min(enters))
            leaves = second is not None and cycle not in self._writes
            self.did[cycle] = ENTRY if leaves else WRITES if second is not None else EMPTY
            moves = second is None or leaves
            second_waits = second is not None and not leaves
            wants = (sends.last is not None, place < len(ready) and ready[place] <= cycle)
            chosen = held
            if chosen is None and any(wants):
                chosen = turn if wants[turn] else 1 - turn
            if chosen is not None:
                # Round robin: the other side has priority after a choice.
                turn = RECEIVE if chosen == SEND else SEND
            if leaves:
                assert second is not None
                kind, message = second
                self.entries[kind][message] = cycle
                done += 1
            held = None if moves else chosen
            consumed = chosen if moves else None
            self.stalls["WR_CQ"] += second_waits
            self.stalls["TXC"] += wants[SEND] and consumed != SEND
            self.stalls["RXC"] += wants[RECEIVE] and consumed != RECEIVE
            last = sends.last
            sends.step(cycle, consumed == SEND)
            if moves:
                first, second = None, first
                if consumed == RECEIVE:
                    message = self._receives[place]
                    self.retired[message] = cycle
                    first = (RECEIVE, message)
                    place += 1
                elif consumed == SEND:
                    assert last is not None
                    first = (SEND, last)
            cycle += 1

    def attribute(self, gaps: Mapping[Ends, Gap]) -> None:
        """Books the waits of rx_validated to rx_data_done, of rx_data_done to cqe and of the stage
        that ends in done."""
        before = -1
        bytes_out = self.receiving.bytes
        for message in self.receiving.order:
            bytes_out.until(message, before + 1, "earlier packets that are not complete")
            bytes_out.until(message, self.retired[message], "no free slot in the completion engine")
            before = int(self.timelines["rx_data_done"][message])
        if ("rx_data_done", "cqe") in gaps:
            self._wait(gaps["rx_data_done", "cqe"], self.entries[RECEIVE])
        sends = ("ack", "done") if ("ack", "done") in gaps else ("tx_last", "done")
        self._wait(gaps[sends], self.entries[SEND])

    def _wait(self, gap: Gap, entries: Mapping[int, int]) -> None:
        ledger = Ledger(self.did, (ENTRY, WRITES, EMPTY))
        for message, cycle in entries.items():
            for kind, cycles in ledger.count(gap.at(message), cycle).items():
                gap.book(message, cycles, CAUSES[kind])
