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
from efa_cosim.attribution.rows import Rows
from efa_cosim.cycle.costs import PLACED_PLACES
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
    completed  (cycle, queue) of each send counted as completed
    looked_at  cycles in which sends were consumed
    """

    def __init__(
        self, record: Record, table: Stages, receiving: Receiving, transport: Transport, rows: Rows
    ) -> None:
        timelines, work = record.timelines, record.timelines.work
        self.timelines, self.receiving, self.rows = timelines, receiving, rows
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
        # Packets in the order of their jobs, and the earliest cycle in which each retires.
        self._jobs, self._place = receiving.order, 0
        self._ready = [max(written[row], int(timelines["rx_validated"][row]) + 1)
                       for row in self._jobs]
        self._segmenter_takes(transport)
        self._writes = Busy(record.payload.tolist())
        # Cycle in which each packet retires.
        self.retired: dict[int, int] = {}
        self.completed: list[tuple[int, int]] = []
        self.entries: dict[int, dict[int, int]] = {SEND: {}, RECEIVE: {}}
        self.did: dict[int, int] = {}
        # Stalled cycles of a finished send, a finished receive, a CQE.
        self.stalls = {"TXC": 0, "RXC": 0, "WR_CQ": 0}
        self._run((1 + work.receives) * work.total)
        self.freed, self.looked_at = self._sends.left, self._sends.consumed

    def _segmenter_takes(self, transport: Transport) -> None:
        """Derives from the read responses that the segmenter has taken: cycle from which each
        packet may retire, as few responses may wait for the segmenter."""
        self._space = [-1] * len(self._jobs)
        if not self.timelines.work.reads:
            return
        placed = 0
        for place, row in enumerate(self._jobs):
            if placed >= PLACED_PLACES:
                self._space[place] = transport.taken[placed - PLACED_PLACES] + 1
            placed += not self.rows.request[row]

    def _retire(self, cycle: int) -> int | None:
        """Retires a packet without a receive completion; returns the packet that waits for the
        completion engine, or None."""
        place = self._place
        if place == len(self._jobs) or self._ready[place] > cycle:
            return None
        row = self._jobs[place]
        if self.rows.claims[row]:
            return row
        if self._space[place] <= cycle:
            self.retired[row] = cycle
            self._place += 1
        return None

    def _run(self, total: int) -> None:
        """Executes cycle by cycle until `total` CQEs are written."""
        ready, sends, done = self._ready, self._sends, 0
        last, work = None, self.timelines.work
        # Stages of the completion engine.
        first: tuple[int, int] | None = None
        second: tuple[int, int] | None = None
        held: int | None = None  # Choice not yet accepted.
        turn = SEND  # Side with priority.
        cycle = 0
        while done < total or self._place < len(ready):
            if first is None and second is None and sends.empty:
                place = self._place
                enters = [max(ready[place], self._space[place])] if place < len(ready) else []
                enters += [sends.due] if sends.due is not None else []
                if not enters:
                    break
                cycle = max(cycle, min(enters))
            receive = self._retire(cycle)
            leaves = second is not None and cycle not in self._writes
            self.did[cycle] = ENTRY if leaves else WRITES if second is not None else EMPTY
            moves = second is None or leaves
            second_waits = second is not None and not leaves
            wants = (sends.last is not None, receive is not None)
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
                    assert receive is not None
                    self.retired[receive] = cycle
                    first = (RECEIVE, receive)
                    self._place += 1
                elif consumed == SEND:
                    assert last is not None
                    first = (SEND, last)
                    self.completed.append((cycle, last // work.batch % work.queues))
            cycle += 1

    def attribute(self, gaps: Mapping[Ends, Gap]) -> None:
        """Books the waits of rx_validated to rx_data_done, of rx_data_done to cqe and of the stage
        that ends in done."""
        before = -1
        bytes_out = self.receiving.bytes
        for place, message in enumerate(self._jobs):
            bytes_out.until(message, before + 1, "earlier packets that are not complete")
            if not self.rows.claims[message]:
                space = self._space[place]
                bytes_out.until(message, space, "earlier responses at the segmenter")
            bytes_out.until(message, self.retired[message], "no free slot in the completion engine")
            before = int(self.timelines["rx_data_done"][message])
        if ("rx_data_done", "cqe") in gaps:
            self._wait(gaps["rx_data_done", "cqe"], self.entries[RECEIVE])
        sends = next(gap for (_, end), gap in gaps.items() if end == "done")
        last = self.rows.packets - 1
        self._wait(sends, {message * self.rows.packets + last: cycle
                           for message, cycle in self.entries[SEND].items()})

    def _wait(self, gap: Gap, entries: Mapping[int, int]) -> None:
        ledger = Ledger(self.did, (ENTRY, WRITES, EMPTY))
        for message, cycle in entries.items():
            for kind, cycles in ledger.count(gap.at(message), cycle).items():
                gap.book(message, cycles, CAUSES[kind])
