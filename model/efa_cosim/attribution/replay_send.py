# SPDX-License-Identifier: Apache-2.0
"""Replays the send side: WQEs from the scheduler to the wire (see efa_cosim.attribution.gaps).

Stages have the names of the events; numbers are the latencies and depths of spec/timing.yaml.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from efa_cosim.attribution.gaps import Busy, Ends, Gap, Ledger, Pipe, Services, Wrong
from efa_cosim.attribution.replay_fetch import Fetching
from efa_cosim.attribution.replay_schedule import (
    CONTEXTS,
    DEFICITS,
    HALVES,
    PLACE,
    SWITCHES,
    TAKES,
    schedule,
)
from efa_cosim.attribution.replay_transport import Transport
from efa_cosim.attribution.rows import Rows
from efa_cosim.cycle.record import Reads, Record
from efa_cosim.cycle.stages import LINE, Stages, cut

WAITS = {PLACE: "no free slot at the checks", CONTEXTS: "no free message context",
         HALVES: "first lines of earlier WQEs", DEFICITS: "visits skipped because of a deficit",
         SWITCHES: "change of queue in the scheduler"}  # fmt: skip

PACKET, ACKNOWLEDGEMENT, DATAGRAMS, IDLE = range(4)
ON_WIRE = {PACKET: "earlier packets on the wire",
           ACKNOWLEDGEMENT: "acknowledgements on the wire",
           DATAGRAMS: "datagrams waiting for their completions",
           IDLE: "read completion of an older message"}  # fmt: skip


OTHER_READS = {"payload": "payload reads", "entries": "send WQE reads",
               "descriptors": "receive descriptor reads"}  # fmt: skip


class _Others:
    """The client of the host read granted in each cycle."""

    def __init__(self, reads: Reads, out: int) -> None:
        granted, kinds = (reads.requested - out).tolist(), ["payload"] * len(reads.requested)
        for kind, which in (("entries", reads.of_entries), ("descriptors", reads.of_rings)):
            for place in np.flatnonzero(which).tolist():
                kinds[place] = kind
        self._kind: dict[int, str] = dict(zip(granted, kinds, strict=True))

    def at(self, cycle: int, mine: str) -> str | None:
        """Returns the wait cause if a read of another kind was granted in that cycle, else None."""
        kind = self._kind.get(cycle, mine)
        return None if kind == mine else OTHER_READS[kind]


class Sending:
    """Replays of one run. `gaps`: Gap by (first, last milestone)."""

    def __init__(
        self,
        record: Record,
        table: Stages,
        services: Services,
        looked_at: Sequence[int],
        transport: Transport,
        rows: Rows,
    ) -> None:
        """looked_at: cycles in which finished sends leave the output."""
        self.looked_at, self.transport, self.rows = looked_at, transport, rows
        self.record, self.table, self.services = record, table, services
        self.timelines, self.work, self.made = record.timelines, record.timelines.work, record.made
        self.order: list[int] = transport.order.tolist()
        self.gaps: dict[Ends, Gap] = {}
        # Reads that differ from the recording.
        self.wrong: list[Wrong] = []
        # Stalled cycles of payload reads; message contexts in use, as (from cycle, number).
        self.read_stalls, self.open_sends = 0, [(0, 0)]
        self.others = _Others(record.reads, table.latency("efa_dma_rd.request"))

    def _gap(self, begin: str, end: str) -> Gap:
        gap = self.gaps[begin, end] = Gap(self.timelines[begin], self.services[begin, end])
        return gap

    def checks(self) -> None:
        """Replays wqe to check, and to the last host read request or (inline) the first flit.

        All steps from the scheduler's skid to the wire keep one order, so one loop is enough.
        """
        timelines, work, at, rows = self.timelines, self.work, self.table.latency, self.rows
        check = self._checked()
        memory = not work.inline
        out = self._gap("rd_cpl" if memory else "check", "tx_first")
        # The request of a read leaves without payload.
        asks = self._gap("check", "req_out") if work.reads else out
        requests = _Requests(self, self._gap("check", "rd")) if memory else None
        rest = self._gap("tx_first", "tx_last")
        stages, space = Pipe(at("efa_wqe_check.entry")), _Room(self.table, rows)
        wire = _Wire(self, out, asks, rest)
        checks: list[int] = timelines["check"].tolist()
        for number, row in enumerate(self.transport.sent):
            if work.kind == "SRD":
                self.transport.send(check, number)
            shown = stages.enter(self.transport.entered[number])
            check.until(row, shown, "earlier WQEs at the checks")
            check.until(row, space.left, "earlier message without buffer space")
            checked = checks[row]
            stages.leave(shown, checked)
            gathers = bool(rows.gathers[row])
            past = not gathers and space.left < checked and wire.idle(checked)
            if past:
                wire.load(row, checked, None)
            else:
                entered = space.enter(checked, wire.ended, gathers)
                if gathers:
                    assert requests is not None
                    entered = requests.request(row, checked, entered, space, wire.ended)
                else:
                    space.left = entered
                wire.load(row, checked, entered)
            space.took(past, gathers)
            wire.leave(row)
        wire.book()

    def _checked(self) -> Gap:
        """Returns the gap of the checks: from the WQE, for responses from the acceptance of the
        read request."""
        begins = self.timelines["wqe"].copy()
        service = np.broadcast_to(np.asarray(self.services["wqe", "check"], np.int64),
                                  begins.shape).copy()
        if self.work.reads:
            response = ~self.rows.request
            first = np.arange(self.rows.count) - self.rows.part
            begins[response] = self.record.accepted[first][response]
            service[response] = self.transport.response_service
        gap = self.gaps["wqe", "check"] = Gap(begins, service)
        return gap

    def responses(self) -> list[int]:
        """Replays rd to rd_cpl: the host completes in order, one beat a cycle. Of a message's
        reads, the one completed last counts; overlap with its own other reads is no wait. Returns
        the cycle of the first beat of each host read."""
        reads, work, rows = self.record.reads, self.work, self.rows
        wait = work.read_latency + self.table.parameters["bus"]
        back = self.table.latency("efa_dma_rd.beat")
        total = rows.count
        alone, shared = [0] * total, [0] * total
        bus, own, begins = 0, [0] * total, []
        for number in range(len(reads.requested)):
            message, beats = int(reads.message[number]), int(reads.beats[number])
            first = int(reads.requested[number]) + wait
            begin = max(first, bus)
            begins.append(begin)
            bus = int(reads.ended[number]) - back + 1
            if begin + beats != bus:
                self.wrong.append(Wrong(("rd", "rd_cpl"), message, begin + beats - 1 + back,
                                        int(reads.ended[number])))
            if message >= 0:
                own[message] = max(first, own[message]) + beats
                alone[message] = own[message] - 1 + back
                shared[message] = begin + beats - 1 + back
        if work.inline:
            return begins
        rd = self.timelines["rd"]
        self.services["rd", "rd_cpl"] = np.minimum(
            self.services["rd", "rd_cpl"], np.array(alone, np.int64) - rd)
        gap = self._gap("rd", "rd_cpl")
        for row in np.flatnonzero(rows.gathers).tolist():
            gap.until(row, shared[row], "completions of earlier reads")
        return begins

    def scheduler(
        self, freed: Sequence[int], completed: Sequence[tuple[int, int]], begins: Sequence[int]
    ) -> None:
        """Replays db to wqe; freed: cycles in which a message context is freed; completed: (cycle,
        queue) of each send counted as completed; begins: first beats of the completions of all
        host reads."""
        timelines, work = self.timelines, self.work
        packets = self.rows.packets
        db = timelines["db"][::packets]
        gap = Gap(db, self.services["db", "wqe"])
        consumed = timelines["wqe"][::packets][self.order].tolist()
        blocked: set[int] = set()
        for number in range(len(consumed) - 1):
            blocked.update(range(consumed[number + 1] + 1, self.transport.routed[number] + 1))
        posts = range(0, work.total, work.batch)
        bells = [(int(db[post]), post // work.batch % work.queues) for post in posts]
        batch = work.batch
        if work.sq_host:
            bells, batch = Fetching(self, gap, begins).known, 1
            if len(bells) < work.total:
                self.gaps["db", "wqe"] = gap.repeated(packets)
                return
        contexts = self.table.depth("efa_send_tracker.ack") if work.kind == "SRD" else None
        depth = self.table.depth
        entries, did, self.open_sends = schedule(
            bells, batch, self.made.quantum, work.entry_bytes // LINE, depth("efa_sq_sched.visit"),
            depth("efa_sq_sched.cut"), contexts, blocked.__contains__, freed,
            completed)
        queue_of = np.arange(work.total) // work.batch % work.queues
        of_queue = [np.flatnonzero(queue_of == queue).tolist() for queue in range(work.queues)]
        ledger = Ledger(did, (TAKES, PLACE, CONTEXTS, DEFICITS, HALVES, SWITCHES))
        consumes = [Busy(cycle for cycle, queue in entries if queue == one)
                 for one in range(work.queues)]
        place = [0] * work.queues
        for cycle, queue in entries:
            message = of_queue[queue][place[queue]]
            begin = gap.at(message)
            counts = ledger.count(begin, cycle)
            own = consumes[queue].count(begin, cycle)
            gap.book(message, own, "earlier WQEs of the same queue")
            gap.book(message, counts.pop(TAKES, 0) - own, "visits to other queues")
            for kind, cycles in counts.items():
                gap.book(message, cycles, WAITS[kind])
            place[queue] += 1
        self.gaps["db", "wqe"] = gap.repeated(packets)


class _Room:
    """Entries of the message list and lines of the payload memory."""

    def __init__(self, table: Stages, rows: Rows) -> None:
        flits = int(rows.flits.max())
        self._latency = table.latency("efa_tx_alloc.message")
        self._places = table.depth("efa_tx_alloc.message")
        self._most = table.depth("efa_tx_alloc.line") // flits
        self._half = table.depth("efa_tx_alloc.line") // 2 // flits
        # Numbers of the packets with an entry in the list, and of those with lines, in order.
        self._inside: list[int] = []
        self._filled: list[int] = []
        self.number = 0
        self.left = -1  # Cycle in which the previous packet left the input.

    def enter(self, checked: int, ended: Sequence[int], gathers: bool) -> int:
        """Returns the cycle in which a packet gets its entry, and its lines if it gathers payload;
        ended: end of each earlier packet."""
        cycle = max(checked + self._latency, self.left + 1)
        for inside, most in self._limits(self._most, gathers):
            if len(inside) >= most:
                # A departure is counted two cycles later.
                cycle = max(cycle, ended[inside[len(inside) - most]] + 2)
        return cycle

    def _limits(self, lines: int, gathers: bool) -> list[tuple[list[int], int]]:
        places = [(self._inside, self._places)]
        return [*places, (self._filled, lines)] if gathers else places

    def half_free(self, cycle: int, ended: Sequence[int]) -> bool:
        """Returns True if half of the lines and an entry of the list are free in a cycle."""
        return all(len(inside) < most or ended[inside[-most]] + 2 <= cycle
                   for inside, most in self._limits(self._half + 1, True))

    def took(self, past: bool, gathers: bool) -> None:
        """Advances to the next packet; `past`: the packet bypassed the list."""
        if not past:
            self._inside.append(self.number)
        if gathers:
            self._filled.append(self.number)
        self.number += 1


class _Requests:
    """Cuts payload ranges into host reads, which share the read port with other clients."""

    def __init__(self, sending: Sending, gap: Gap) -> None:
        table, reads = sending.table, sending.record.reads
        self._sending, self._wrong = sending, sending.wrong
        self._gap, self._most = gap, table.depth("efa_tx_alloc.read")
        self._out = table.latency("efa_dma_rd.request")
        self._scan = Pipe(table.latency("efa_mr_translate.early"))
        self._queue: list[tuple[int, int]] = []
        send = sending.work.operation == "SEND"
        self._ranges = ([len(cut(piece)) for piece in sending.work.pieces] if send
                        else [len(sending.made.reads)])
        mine = reads.message >= 0
        self._others = sending.others
        order = np.argsort(reads.message[mine], kind="stable")
        payload = np.flatnonzero(sending.rows.gathers).tolist()
        requested = reads.requested[mine][order].reshape(len(payload), -1).tolist()
        self._requested: dict[int, list[int]] = dict(zip(payload, requested, strict=True))
        # Tags are used and freed in one order, including those of descriptor reads.
        self._tags = table.depth("efa_dma_rd.request")
        self._ended: list[int] = reads.ended.tolist()
        place = np.flatnonzero(mine)[order]
        self._place: dict[int, list[int]] = dict(
            zip(payload, place.reshape(len(payload), -1).tolist(), strict=True))
        self._granted = -1
        self._service = table.latency("efa_tx_alloc.read") + self._out

    def request(
        self, message: int, checked: int, entered: int, space: _Room, ended: Sequence[int]
    ) -> int:
        """Replays the reads of a message; returns the cycle in which it entered the list."""
        begin = checked + self._service
        free = space.half_free(checked, ended)
        at_once = (free and space.left < checked and not self._waiting(checked)
                   and self._scan.ready(checked) == checked)
        self._late(message, entered - checked - int(free), "no free payload buffer")
        number, cycle = 0, checked if at_once else entered
        for place, reads in enumerate(self._ranges):
            cycle, scans = self._straight(cycle)
            if place == 0:
                entered = max(entered, cycle)
            for piece in range(reads):
                scans = scans if piece == 0 else self._scan.ready(0)
                shown = self._scan.enter(scans)
                self._late(message, shown + self._out - begin - number,
                           "ranges of earlier messages")
                tag = self._tag(message, number)
                self._late(message, tag + self._out - begin - number,
                           "no free read tag")
                granted = max(shown, tag, self._granted + 1)
                self._late(message, granted + self._out - begin - number,
                           "earlier reads")
                while (cause := self._others.at(granted, "payload")) is not None:
                    granted += 1
                    self._late(message, granted + self._out - begin - number, cause)
                self._granted = self._requested[message][number] - self._out
                if granted != self._granted:
                    self._wrong.append(Wrong(("check", "rd"), message, granted + self._out,
                                             self._requested[message][number]))
                self._scan.leave(shown, self._granted)
                self._sending.read_stalls += self._granted - shown
                number += 1
            space.left = max(cycle, entered)
            cycle += 1
        return entered

    def _tag(self, message: int, number: int) -> int:
        """Returns the cycle in which the tag of this read is free again: the host completes in
        order."""
        place = self._place[message][number] - self._tags
        return self._ended[place] + 1 if place >= 0 else -1

    def _late(self, message: int, cycles: int, cause: str) -> None:
        gap = self._gap
        gap.until(message, int(gap.begins[message] + gap.service[message]) + cycles, cause)

    def _straight(self, cycle: int) -> tuple[int, int]:
        """Returns the cycles in which a range is accepted and its cut begins: by bypass or through
        a queue."""
        while len(self._waiting(cycle)) >= self._most:
            cycle += 1
        if not self._waiting(cycle) and self._scan.ready(cycle) == cycle:
            return cycle, cycle
        scans = self._scan.ready(cycle + 1)
        self._queue.append((cycle, scans))
        return cycle, scans

    def _waiting(self, cycle: int) -> list[tuple[int, int]]:
        return [one for one in self._queue[-self._most - 1 :] if one[0] < cycle <= one[1]]


class _Wire:
    """From the message list to flits at the pins, round robin of packets and acknowledgements."""

    def __init__(self, sending: Sending, gap: Gap, asks: Gap, rest: Gap) -> None:
        """gap: of packets with payload of their own; asks: of read requests."""
        table, timelines = sending.table, sending.timelines
        self._rest, self._space = rest, _Datagrams(sending)
        self._gap, self._asks, self._rows = gap, asks, sending.rows
        self._flits: list[int] = sending.rows.flits.tolist()
        self._tx_first: list[int] = timelines["tx_first"].tolist()
        self._tx_last: list[int] = timelines["tx_last"].tolist()
        self._rd_cpl: list[int] = timelines["rd_cpl"].tolist()
        left = sending.record.acks.left.tolist()
        self._acks = Busy(left)
        self._out = table.latency("efa_net_tx.flit") + 1
        self._past = table.latency("efa_tx.message") - 1
        self._data_latency = table.latency("efa_tx.data") - 1
        self.ended: list[int] = []  # Cycle in which each message made way for the next.
        self._loaded, self._last = -1, -1
        # Activity of the wire in each cycle; while idle, the oldest message is the cause.
        self._did: dict[int, int] = dict.fromkeys(left, ACKNOWLEDGEMENT)
        for first, last in zip(self._tx_first, self._tx_last, strict=True):
            self._did.update(dict.fromkeys(range(first, last + 1), PACKET))
        self._leaves: dict[int, int] = {}

    def idle(self, cycle: int) -> bool:
        """Returns True if a message of that cycle can bypass the list."""
        return self._loaded < cycle and (not self.ended or self.ended[-1] <= cycle)

    def load(self, message: int, checked: int, entered: int | None) -> None:
        """Moves a message to the front: from the list, or by bypass if entered is None."""
        if entered is None:
            self.step = checked + self._past
            return
        self._loaded = max(entered + 1, self.ended[-1] if self.ended else -1)
        self.step = self._loaded + 1
        if self._rows.gathers[message]:
            self.step = max(self.step, self._rd_cpl[message] + self._data_latency)

    def leave(self, message: int) -> None:
        """Sends the packet of a message when the wire is free."""
        self.step = max(self.step, self._last - 1)
        first = self._acks.free(max(self.step + self._out, self._last + 1))
        leaves = self._leaves[message] = self._space.free(first - 1) + 1
        self._did.update(dict.fromkeys(range(first, leaves), DATAGRAMS))
        last = before = self._tx_first[message]
        flits = self._flits[message]
        for _ in range(flits - 1):
            before, last = last, self._space.free(last) + 1
        self._rest.until(message, last, ON_WIRE[DATAGRAMS])
        self._last = self._tx_last[message]
        # The last flit is ready when the flit before it was sent.
        self.ended.append(self.step if flits == 1 else before - 1)

    def book(self) -> None:
        """Books the waits of each message by the activity of the wire until its packet was sent."""
        ledger = Ledger(self._did, (PACKET, ACKNOWLEDGEMENT, DATAGRAMS, IDLE))
        for message, cycle in self._leaves.items():
            gap = self._asks if self._rows.request[message] else self._gap
            for kind, cycles in ledger.count(gap.at(message), cycle).items():
                cause = ON_WIRE[kind]
                if kind == IDLE and not self._rows.gathers[message]:
                    cause = "earlier messages before the wire"
                gap.book(message, cycles, cause)


class _Datagrams:
    """Space for transmitted datagrams until their completions are consumed."""

    def __init__(self, sending: Sending) -> None:
        datagrams = sending.work.kind == "UD"
        self._left: list[int] = np.sort(sending.timelines["tx_last"]).tolist() if datagrams else []
        self._taken = sending.looked_at if datagrams else []
        # A datagram in flight when the last place is used has a place, too.
        self._most = sending.table.depth("efa_net_tx.done") - 1

    def free(self, cycle: int) -> int:
        """Returns the first cycle from `cycle` on in which a flit may be sent."""
        while bisect_left(self._left, cycle) - bisect_left(self._taken, cycle) >= self._most:
            cycle += 1
        return cycle
