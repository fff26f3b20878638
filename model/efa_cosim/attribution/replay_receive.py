# SPDX-License-Identifier: Apache-2.0
"""Replays the fabric and the receive side: from the wire to the last byte written (see
efa_cosim.attribution.gaps)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from efa_cosim.attribution.gaps import Busy, Ends, Gap, Ledger, Pipe, Services, Wrong
from efa_cosim.attribution.replay_check import OPEN, PASSING, QUIET, validate
from efa_cosim.attribution.replay_transport import Transport
from efa_cosim.attribution.rows import Rows
from efa_cosim.cycle.acknowledgements import build, first_of, outcomes
from efa_cosim.cycle.record import DESCRIPTORS, Record
from efa_cosim.cycle.stages import Stages

# Places of the packet line that stay free; descriptors per beat; descriptor present at the start.
SPARE, A_BEAT, ALWAYS = 2, 4, -1
# Maximum number of beats between the packet store and the write stream.
STORED = 8
BYTES = "payload of earlier packets"
OLDER = "parked packets first"
LOOK_UPS, READ_BEGAN = "look-ups of earlier packets", "begin of a read in the look-up"
EARLIER_REQUESTS = "earlier requests"


class Receiving:
    """Replays of one run: arrival of packets and the writes before each receive completion."""

    def __init__(
        self, record: Record, table: Stages, services: Services, transport: Transport, rows: Rows
    ) -> None:
        self.record, self.table, self.services = record, table, services
        self.timelines, self.work, self.made = record.timelines, record.timelines.work, record.made
        self.transport, self.rows = transport, rows
        # Packets in order of arrival; `order` is the order of their jobs.
        self.arrived: list[int] = np.argsort(self.timelines["rx_last"], kind="stable").tolist()
        self.srd = self.work.kind == "SRD"
        self.gaps: dict[Ends, Gap] = {}
        # Stalled cycles of flits without space, and of payload beats at the write stream.
        self.flit_stalls = self.write_stalls = 0

    def _gap(self, begin: str, end: str) -> Gap:
        gap = self.gaps[begin, end] = Gap(self.timelines[begin], self.services[begin, end])
        return gap

    def validate(self) -> None:
        """Replays rx_last to rx_validated: packet validation with claimed descriptors, and the
        check of the buffers; of read requests to their acceptance, too."""
        timelines, at, work, rows = self.timelines, self.table.latency, self.work, self.rows
        gap = self._gap("rx_last", "rx_validated")
        rx_last = timelines["rx_last"].tolist()
        window = at("efa_srd_receiver.packet")
        rdma = work.operation != "SEND"
        before = at("efa_rx_validate.packet")
        look = np.full(rows.count, at("efa_rx_validate.write") - before if rdma else 0)
        if work.reads:
            look[~rows.request] = at("efa_rx_validate.response") - before
        looks: list[int] = look.tolist()
        ring = (rows.message // work.batch + 1) % work.queues
        ways, self.order, held = validate(
            [(rx_last[row], row) for row in self.arrived], ring.tolist(),
            self._descriptors(), self.record.passes, self._reads_over(), self._leaves(),
            self.table.depth("efa_rx_mr_check.job"), window, looks, rows.claims.tolist(),
            self._look_late(), self._held_until())
        self.ways = ways
        ledger = Ledger(held, (PASSING, QUIET, OPEN))
        checked = not rdma and "empty" not in self.made.facts
        check = at("efa_rx_mr_check.job" if checked else "efa_rx_mr_check.no_buffer")
        behind = LOOK_UPS if rdma else "earlier WQE of the same ring"
        # Cycles from each step to the end of validation on an idle device.
        to_end = before + check
        for row in self.arrived:
            way, look_up = ways[row], looks[row]
            begin = rx_last[row] + at("efa_net_rx.packet") + window
            assert way.first is not None
            counts = ledger.count(begin, way.first)
            gap.book(row, counts.get(PASSING, 0) + counts.get(QUIET, 0), OLDER)
            gap.until(row, way.first + look_up + to_end, "earlier packets")
            if way.parked is not None:
                fetched = min(way.here, way.response) + to_end - 2
                gap.until(row, fetched, "receive descriptor fetch")
                gap.until(row, way.claim + look_up + to_end, OLDER)
            gap.until(row, way.found - way.late + to_end - 1, behind)
            gap.until(row, way.found + to_end - 1, READ_BEGAN)
            gap.until(row, way.step + to_end - 1, EARLIER_REQUESTS)
            gap.until(row, way.response + to_end - 2, "checks of earlier packets")
            gap.until(row, way.job + check, "checks of earlier packets")
        if work.reads:
            self._accepts(looks)
        self._statuses(gap, {row: ways[row].job + check for row in self.order})

    def _look_late(self) -> Callable[[int, int], int]:
        """Returns a function of (row, cycle): cycles by which the look-up of a read that begins
        then is late, because the device begins reads of its own in the same cycles."""
        began, found = set(self.transport.routed), self.table.latency("efa_read_table.look")
        request = self.rows.request

        def late(row: int, cycle: int) -> int:
            more = 0
            while self.work.reads and not request[row] and cycle + found + more in began:
                more += 1
            return more

        return late

    def _held_until(self) -> Callable[[int], int]:
        """Returns a function of a row: cycle in which the read request before it has left for its
        responses, -1 for other packets."""
        moved = list(self.transport.moved_at.items())
        before = {row: moved[place - 1][1] if place else -1
                  for place, (row, _) in enumerate(moved)}
        return lambda row: before.get(row, -1)

    def _accepts(self, looks: Sequence[int]) -> None:
        """Replays the arrival of read requests to their acceptance."""
        at = self.table.latency
        window = at("efa_srd_receiver.packet")
        begins = self.timelines["rx_last"]
        gap = Gap(begins, at("efa_net_rx.packet") + window + 1 + np.array(looks, np.int64))
        for row in self.transport.moved_at:
            way, look = self.ways[row], looks[row]
            assert way.first is not None
            gap.until(row, way.first + look + 1, "earlier packets")
            gap.until(row, way.found, LOOK_UPS)
            gap.until(row, way.step, EARLIER_REQUESTS)
        self.accepts = gap

    def _leaves(self) -> list[int]:
        """Returns the cycle in which each job leaves the checks: its write has begun, and the job
        line has space."""
        leaves, done = self.timelines["rx_validated"].copy(), self.timelines["rx_data_done"]
        order = np.argsort(leaves, kind="stable")
        later = order[self.table.depth("efa_rx_scatter.job") :]
        leaves[later] = np.maximum(leaves[later], done[order[: len(later)]] + 1)
        cycles: list[int] = leaves.tolist()
        return cycles

    def _descriptors(self) -> Callable[[int, int], int]:
        """Returns a function of (ring, packet): cycle in which the descriptor is visible."""
        reads, shows = self.record.reads, self.table.latency("efa_rq_cache.beat")
        found: dict[int, list[int]] = {}
        for place in np.flatnonzero(reads.of_rings).tolist():
            beats = int(reads.beats[place])
            first = int(reads.ended[place]) - beats + 1 + shows
            found.setdefault(int(DESCRIPTORS - reads.message[place]), []).extend(
                first + one // A_BEAT for one in range(A_BEAT * beats))
        each = self.work.per_queue
        # Descriptors not read in this run were present before; a last read may be shorter.
        before = {ring: each - min(each, len(shown)) for ring, shown in found.items()}

        def here(ring: int, number: int) -> int:
            if ring not in found or number < before[ring]:
                return ALWAYS
            return found[ring][number - before[ring]]

        return here

    def _reads_over(self) -> list[int]:
        reads = self.record.reads
        return sorted(reads.ended[reads.of_rings].tolist())

    def _statuses(self, gap: Gap, known: Mapping[int, int]) -> None:
        """Replays the checks: jobs leave in order, when the job line has space and the scatter has
        begun their write; a packet is validated when its write begins."""
        rx_validated, rx_data_done = (
            self.timelines[name].tolist() for name in ("rx_validated", "rx_data_done")
        )
        leaves, line = self._leaves(), self.table.depth("efa_rx_scatter.job")
        self.bytes = self._gap("rx_validated", "rx_data_done")
        scatter = Scatter(self, self.bytes) if self.rows.written.any() else None
        # Cycle in which the payload of each packet counts as written; it may be empty.
        self.written = list(rx_validated)
        for number, message in enumerate(self.order):
            if number:
                verdict = max(known[message], rx_validated[self.order[number - 1]] + 1)
                gap.until(message, verdict, "checks of earlier packets")
            # A write begins without space in the line, but then the next packet waits for it.
            space = rx_data_done[self.order[number - line]] + 1 if number >= line else 0
            follows = leaves[self.order[number - 1]] + 1 if number else 0
            written = bool(self.rows.written[message])
            gap.until(message, follows if written else max(follows, space),
                      "earlier packets that are not complete")
            if written:
                assert scatter is not None
                gap.until(message, scatter.free, "no free slot behind earlier payload")
                last = scatter.take(message, rx_validated[message])
                self.written[message] = last + self.table.latency("efa_dma_wr.beat")
        self.wrong = scatter.wrong if scatter is not None else []
        self.write_stalls = scatter.stalls if scatter is not None else 0

    def fabric(self) -> None:
        """Replays tx_last to rx_first to rx_last, and ackout to ack: in the order of transmission,
        one flit a cycle, while the packet store has space."""
        timelines, work, flits = self.timelines, self.work, self.rows.flits.tolist()
        away = work.net_latency + self.table.parameters["bus"]
        inward, through = self._gap("tx_last", "rx_first"), self._gap("rx_first", "rx_last")
        back = self._gap("ackout", "ack") if self.srd else None
        # The cycle in which each packet leaves, the arrival of its first flit, its messages.
        left = [(int(cycle), False, first, [message]) for message, (cycle, first) in enumerate(
            zip(timelines["tx_last"], timelines["rx_first"].tolist(), strict=True))]
        left += [(cycle, True, came, shown) for cycle, came, shown in self._acknowledgements()]
        left.sort(key=lambda one: one[:2])
        store, rx_last = _Store(self), timelines["rx_last"]
        before = -1
        for cycle, is_ack, came_in, messages in left:
            gap = back if is_ack else inward
            assert gap is not None
            offered = max(cycle + away, before + 1)
            space = store.space(offered)
            for message in messages:
                gap.until(message, before + 1, "earlier packets in the fabric")
                gap.until(message, space, "receive buffer full")
            before = came_in
            self.flit_stalls += before - offered
            if is_ack:
                continue
            message = messages[0]
            store.flit(flits[message] == 1)
            for flit in range(1, flits[message]):
                came = store.space(before + 1)
                self.flit_stalls += came - before - 1
                through.until(message, came + flits[message] - 1 - flit,
                              "receive buffer full")
                last = flit == flits[message] - 1
                before = int(rx_last[message]) if last else came
                store.flit(last)

    def _acknowledgements(self) -> list[tuple[int, int, list[int]]]:
        """Returns the acknowledgements: cycles in which each left and arrived, and the messages
        that it is the first one of."""
        acks = self.record.acks
        order = np.argsort(outcomes(self.timelines.table), kind="stable")
        bounds = [0, *acks.shows.tolist()]
        return [(begin, end, order[first:last].tolist()) for begin, end, first, last in
                zip(acks.left.tolist(), acks.came.tolist(), bounds, bounds[1:], strict=False)]

    def acknowledge(self, gap: Gap) -> None:
        """Replays the stage that ends in ackout: after earlier acknowledgements, between data
        packets.

        An acknowledgement shows all outcomes before it. A packet whose outcome joins one that is
        due may be faster than alone.
        """
        timelines = self.timelines
        data = Busy(
            cycle
            for first, last in zip(
                timelines["tx_first"].tolist(), timelines["tx_last"].tolist(), strict=True
            )
            for cycle in range(first, last + 1)
        )
        at = self.table.latency
        known = outcomes(timelines.table, self.table)
        alone = sum(map(at, ("efa_rx_outcome.due", "efa_ack_build.due", "efa_net_tx.flit")))
        order = np.argsort(known, kind="stable")
        built = build(known[order], lambda cycle: cycle not in data, self.table)
        left = np.array(built, np.int64)
        first = left[first_of(left[:, 1], len(order)), 0].tolist()
        for message, ends in zip(order.tolist(), first, strict=True):
            gap.faster(message, int(known[message]) + alone - ends)
            begin = gap.at(message)
            if ends > begin:
                gap.book(message, data.count(begin, ends), "data packets on the wire")
            gap.until(message, ends, "earlier acknowledgements")


class _Store:
    """Occupancy of the packet store when a flit arrives."""

    def __init__(self, receiving: Receiving) -> None:
        table, timelines = receiving.table, receiving.timelines
        self._lines = table.depth("efa_net_rx.line")
        self._slots = table.depth("efa_net_rx.slot")
        self._places = table.depth("efa_net_rx.packet") - SPARE
        # Lines are freed in the order of arrival, one packet a cycle.
        self._gone: list[int] = []
        # Lines of the packets before each packet, in the order of arrival.
        self._before = [0, *np.cumsum(receiving.rows.flits[receiving.arrived]).tolist()]
        gone = -1
        for message in receiving.arrived:
            gone = max(int(timelines["rx_data_done"][message]) + 1, gone + 1)
            self._gone.append(gone + 1)
        # Packets in the line: those that did not bypass it, until they reach the front.
        lined = [receiving.ways[message] for message in receiving.arrived]
        self._comes = [int(timelines["rx_last"][message]) + 1
                       for message, way in zip(receiving.arrived, lined, strict=True)
                       if not way.past]
        self._goes = [way.front + 1 for way in lined if not way.past]
        self._in_line = [0, 0]
        self._taken, self._stored, self._left = 0, 0, 0

    def _fits(self, cycle: int) -> bool:
        for place, events in enumerate((self._comes, self._goes)):
            while self._in_line[place] < len(events) and events[self._in_line[place]] <= cycle:
                self._in_line[place] += 1
        while self._left < len(self._gone) and self._gone[self._left] <= cycle:
            self._left += 1
        lines = self._taken - self._before[self._left]
        slots = self._stored - self._left
        line = self._in_line[0] - self._in_line[1]
        return lines < self._lines and slots < self._slots and line < self._places

    def space(self, cycle: int) -> int:
        """Returns the first cycle from `cycle` on in which a flit is accepted."""
        while not self._fits(cycle):
            cycle += 1
        return cycle

    def flit(self, last: bool) -> None:
        """Adds a data flit; last: that of its packet."""
        self._taken += 1
        self._stored += last


class Scatter:
    """Replay of the payload path from the packet store to the host write stream.

    free   first cycle in which the next packet is accepted
    stalls cycles in which a beat waited for the write stream
    wrong  beats that differ from the pins: (stage, message, replayed cycle, recorded cycle)"""

    def __init__(self, receiving: Receiving, gap: Gap) -> None:
        record, table = receiving.record, receiving.table
        made, timelines = record.made, record.timelines
        self._gap, self._first = gap, table.latency("efa_rx_scatter.job")
        pages = table.latency("efa_mr_translate.piece")
        self._scan, self._behind = Pipe(pages), self._first - pages - 1
        # The GRH of a datagram is a separate range.
        writes = list(made.writes)
        self._ranges = [writes] if receiving.srd else [writes[:1], writes[1:]]
        self._entries = Busy(np.concatenate([timelines["cqe"], timelines["done"]]).tolist())
        self._payload: list[int] = record.payload.tolist()
        self._place, self._issued = 0, -1
        self.free, self.stalls = -1, 0
        self.wrong: list[Wrong] = []

    def take(self, message: int, cycle: int) -> int:
        """Writes the payload of a packet validated in `cycle`; returns its last beat's cycle."""
        due, starts = cycle + self._first, cycle + 1
        for writes in self._ranges:
            for piece, beats in enumerate(writes):
                start = self._scan.ready(starts if piece == 0 else 0)
                if piece == 0:
                    self.free = start
                shown = self._scan.enter(start)
                for _ in range(beats):
                    self._beat(message, shown, due)
                    due += 1
                self._scan.leave(shown, self._issued)
            starts = self.free + 1
        return self._payload[self._place - 1]

    def _beat(self, message: int, shown: int, due: int) -> None:
        place, payload = self._place, self._payload
        self._late(message, shown + self._behind - due, BYTES)
        issue = max(shown, self._issued + 1)
        self._late(message, issue + self._behind - due, BYTES)
        if place >= STORED:
            issue = max(issue, payload[place - STORED] + 1)
            self._late(message, issue + self._behind - due, "payload waiting for the write stream")
        self._issued = issue
        beat = max(issue + self._behind, payload[place - 1] + 1 if place else 0)
        self._late(message, beat - due, BYTES)
        self.stalls += payload[place] - beat
        beat = self._entries.free(beat)
        self._late(message, beat - due, "CQEs written first")
        if beat != payload[place]:
            self.wrong.append(Wrong(("rx_validated", "rx_data_done"), message, beat,
                                    payload[place]))  # fmt: skip
        self._place += 1

    def _late(self, message: int, cycles: int, cause: str) -> None:
        gap = self._gap
        gap.until(message, int(gap.begins[message] + gap.service[message]) + cycles, cause)
