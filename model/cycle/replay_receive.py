"""The fabric and the receiving side once more: from the wire to the last byte written (see
cycle.gaps)."""

import numpy as np

from cycle.gaps import Busy, Gap, Pipe

# Places of the line of packets that stay free, and how much later what left makes room.
SPARE, BACK = 2, 2
# Beats that are on their way from the store of packets to the write stream, at most.
STORED = 8
BYTES = "bytes of packets before it"


class Receiving:
    """Replays of one run: what comes in, and what is written before its completion."""

    def __init__(self, record, table, services):
        self.record, self.table, self.services = record, table, services
        self.lives, self.work, self.made = record.lives, record.lives.work, record.made
        self.order = np.argsort(self.lives["rxl"], kind="stable").tolist()
        self.srd = self.work.kind == "SRD"
        self.gaps = {}
        # Cycles in which a flit waited for room, and a beat of payload for the write stream.
        self.flit_stalls = self.write_stalls = 0

    def _gap(self, begin, end):
        gap = self.gaps[begin, end] = Gap(self.lives[begin], self.services[begin, end])
        return gap

    def judge(self):
        """rxl to rxv: packets judged with the descriptors they claim, their buffers checked."""
        lives, at, depth = self.lives, self.table.latency, self.table.depth
        gap = self._gap("rxl", "rxv")
        work, order = self.work, self.order
        ring = (np.arange(work.total) // work.batch + 1) % work.queues
        ring = ring.tolist()
        rxl, rxv, rxw = (lives[name].tolist() for name in ("rxl", "rxv", "rxw"))
        empty = "empty" in self.made.facts
        check = at("efa_rx_check.unasked" if empty else "efa_rx_check.job")
        jobs, line = depth("efa_rx_check.job"), depth("efa_rx_scatter.job")
        apart = self.table.interval("efa_rq_claim.ring")
        stored = at("efa_pkt_in.packet")
        # Cycles from each step to the verdict on an idle device.
        to_end = at("efa_rx_judge.packet") + check
        self.bytes = self._gap("rxv", "rxw")
        scatter = None if empty else Scatter(self, self.bytes)
        # When the bytes of each packet count as written; there may be none.
        self.written = [int(cycle) for cycle in lives["rxv"]]
        self.fronts, self.pasts, claims, steps, answers, taken = [], [], [], [], [], []
        for number, message in enumerate(order):
            last = rxl[message]
            past = (number == 0 or self.fronts[-1] < last) and (
                number < 2 or claims[number - 2] < last)
            front = last if past else max(last + 2, self.fronts[-1] + 1,
                                          claims[number - 2] + 1 if number > 1 else 0)
            self.fronts.append(front)
            self.pasts.append(past)
            claim = front + stored
            if number:
                claim = max(claim, steps[-1], claims[-1] + 1)
            gap.until(message, claim + to_end, "packets before it")
            step = claim + 1
            if number:
                same = ring[order[number - 1]] == ring[message]
                gap.until(message, answers[-1] + to_end - 1, "packets before it")
                step = max(step, answers[-1] + (apart - 1 if same else 0))
                gap.until(message, step + to_end - 1, "the entry of its ring before it")
            answer = max(step + 1, taken[-1] if number else 0)
            job = max(answer + 1, taken[-1] + 1 if number else 0)
            if number >= jobs:
                job = max(job, rxv[order[number - jobs]] + 1)
            gap.until(message, job + check, "checks of packets before it")
            verdict = job + check
            if number:
                verdict = max(verdict, rxv[order[number - 1]] + 1)
            gap.until(message, verdict, "checks of packets before it")
            if number >= line:
                verdict = max(verdict, rxw[order[number - line]] + 1)
                gap.until(message, verdict, "packets before it that are not complete")
            if scatter is not None:
                gap.until(message, scatter.free, "a place behind the bytes of packets before it")
                self.written[message] = scatter.take(message, rxv[message]) + at("efa_dma_wr.beat")
            claims.append(claim)
            steps.append(step)
            answers.append(answer)
            taken.append(job)
        self.wrong = scatter.wrong if scatter is not None else []
        self.write_stalls = scatter.stalls if scatter is not None else 0

    def fabric(self):
        """txl to rxf to rxl, and acknowledgements from ackout to ack: in the order in which they
        left, a flit a cycle, while the store of packets has room."""
        lives, work = self.lives, self.work
        away = work.net_latency + self.table.parameters["bus"]
        inward, through = self._gap("txl", "rxf"), self._gap("rxf", "rxl")
        back = self._gap("ackout", "ack") if self.srd else None
        left = [(int(cycle), False, message) for message, cycle in enumerate(lives["txl"])]
        if self.srd:
            left += [(int(cycle), True, message) for message, cycle in enumerate(lives["ackout"])]
        left.sort()
        store, rxf, rxl, ack = _Store(self), lives["rxf"], lives["rxl"], lives["ack"]
        before = -1
        for cycle, is_ack, message in left:
            gap = back if is_ack else inward
            gap.until(message, before + 1, "packets before it in the fabric")
            offered = max(cycle + away, before + 1)
            gap.until(message, store.room(offered), "a full store at the receiver")
            before = int(ack[message] if is_ack else rxf[message])
            self.flit_stalls += before - offered
            if is_ack:
                continue
            store.flit(before)
            for flit in range(1, self.made.flits):
                came = store.room(before + 1)
                self.flit_stalls += came - before - 1
                through.until(message, came + self.made.flits - 1 - flit,
                              "a full store at the receiver")
                before = came if flit < self.made.flits - 1 else int(rxl[message])
                store.flit(before)


    def acknowledge(self, gap):
        """cqe to ackout: behind the acknowledgements before it, between packets of data."""
        lives = self.lives
        data = Busy(cycle for first, last in zip(lives["txf"].tolist(), lives["txl"].tolist(),
                                                 strict=True) for cycle in range(first, last + 1))
        before = -1
        for message in np.argsort(lives["ackout"], kind="stable").tolist():
            gap.until(message, before + 1, "acknowledgements before it")
            gap.until(message, data.free(gap.at(message)), "packets of data on the wire")
            before = int(lives["ackout"][message])


class _Store:
    """What the store of packets holds when a flit comes."""

    def __init__(self, receiving):
        table, lives = receiving.table, receiving.lives
        self._lines = table.depth("efa_pkt_in.line")
        self._slots = table.depth("efa_pkt_in.slot")
        self._places = table.depth("efa_pkt_in.packet") - SPARE
        self._flits = receiving.made.flits
        order = receiving.order
        self._gone = (np.sort(lives["rxw"]) + BACK).tolist()
        # Packets that stand in line: those that did not go past it, until they come to the front.
        self._comes = [int(lives["rxl"][message]) + 1 for message, past in
                       zip(order, receiving.pasts, strict=True) if not past]
        self._goes = [front + 1 for front, past in
                      zip(receiving.fronts, receiving.pasts, strict=True) if not past]
        self._in_line = [0, 0]
        self._taken, self._left, self._last_flits = 0, 0, []

    def _fits(self, cycle):
        for place, events in enumerate((self._comes, self._goes)):
            while self._in_line[place] < len(events) and events[self._in_line[place]] <= cycle:
                self._in_line[place] += 1
        while self._left < len(self._gone) and self._gone[self._left] <= cycle:
            self._left += 1
        lines = self._taken - self._left * self._flits
        slots = self._taken // self._flits - self._left
        line = self._in_line[0] - self._in_line[1]
        return lines < self._lines and slots < self._slots and line < self._places

    def room(self, cycle):
        """The first cycle from `cycle` on in which a flit is taken."""
        while not self._fits(cycle):
            cycle += 1
        return cycle

    def flit(self, cycle):
        """A flit of data came."""
        self._taken += 1


class Scatter:
    """Bytes from the store of packets to the host's write stream.

    free   first cycle in which the next packet is taken
    stalls cycles in which a beat waited for the write stream
    wrong  beats that were not at the pins when they should: (stage, message, replayed, seen)"""

    def __init__(self, receiving, gap):
        record, table = receiving.record, receiving.table
        made, lives = record.made, record.lives
        self._gap, self._first = gap, table.latency("efa_rx_scatter.job")
        pages = table.latency("efa_mr_walk.piece")
        self._walk, self._behind = Pipe(pages), self._first - pages - 1
        # A datagram's GRH is a range of its own.
        writes = list(made.writes)
        self._ranges = [writes] if receiving.srd else [writes[:1], writes[1:]]
        self._entries = Busy(np.concatenate([lives["cqe"], lives["done"]]).tolist())
        self._payload, self._place, self._issued = record.payload.tolist(), 0, -1
        self.free, self.wrong, self.stalls = -1, [], 0

    def take(self, message, cycle):
        """The bytes of a packet go out, from the verdict on it on; the cycle of the last beat."""
        due, starts = cycle + self._first, cycle + 1
        for writes in self._ranges:
            for piece, beats in enumerate(writes):
                start = self._walk.ready(starts if piece == 0 else 0)
                if piece == 0:
                    self.free = start
                shown = self._walk.enter(start)
                for _ in range(beats):
                    self._beat(message, shown, due)
                    due += 1
                self._walk.leave(shown, self._issued)
            starts = self.free + 1
        return self._payload[self._place - 1]

    def _beat(self, message, shown, due):
        place, payload = self._place, self._payload
        self._late(message, shown + self._behind - due, BYTES)
        issue = max(shown, self._issued + 1)
        self._late(message, issue + self._behind - due, BYTES)
        if place >= STORED:
            issue = max(issue, payload[place - STORED] + 1)
            self._late(message, issue + self._behind - due, "bytes that wait for the write stream")
        self._issued = issue
        beat = max(issue + self._behind, payload[place - 1] + 1 if place else 0)
        self._late(message, beat - due, BYTES)
        self.stalls += payload[place] - beat
        beat = self._entries.free(beat)
        self._late(message, beat - due, "completion entries written first")
        if beat != payload[place]:
            self.wrong.append((("rxv", "rxw"), message, beat, payload[place]))
        self._place += 1

    def _late(self, message, cycles, cause):
        gap = self._gap
        gap.until(message, int(gap.begins[message] + gap.service[message]) + cycles, cause)
