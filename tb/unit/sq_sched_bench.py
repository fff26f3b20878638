# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the benches of efa_sq_sched: queues, LLQ memory with their WQEs, and a model of
the surrounding modules."""

from collections import deque

import cocotb
from cocotb.triggers import ClockCycles, Lock, RisingEdge

from efa_cosim.layouts.defs import (
    EVENTS,
    INTERNAL,
    LIMITS,
    TRANSPORT,
    AdminQpState,
    IoTxWqe128,
    PktHdr,
)
from tb.lib.stream import StreamMonitor, clock_and_reset, cycle, pauses, rng_for
from tb.lib.timing import timing
from tb.lib.waits import hold, pulse, until, zero
from tb.unit.queue_bench import Pulses, RefCounts, Table

RTS, SQD = AdminQpState.RTS, AdminQpState.SQD
SHARED = 1 << LIMITS.msg_w
SHARE_W = TRANSPORT.send_share_w
CONTEXTS = SHARED + TRANSPORT.guaranteed_sends
ALL = 0xFFFF
INPUTS = (
    "s_work_valid",
    "s_again_valid",
    "s_fence_valid",
    "s_clear_valid",
    "s_credit_freed",
    "s_credit_unused",
    "halted_rd_data",
    "flush_ok_rd_data",
    "consumed_rd_data",
    "completed_rd_data",
    "m_void_ready",
    "line_rd_data",
)
# Delay from the doorbell pulse until a lookup returns the producer index.
LAG = timing("efa_doorbell", "count").latency - 1 - timing("efa_doorbell", "store").latency


def share_of_one():
    """Returns the most open sends of one queue while no other has any, with messages of one flit
    and 64 queues."""
    visit, shared = timing("efa_sq_sched", "cut").depth, SHARED
    own = 0
    while (room := shared - (own >> SHARE_W)) > 0:
        taken = max(1, min(visit, room // 2))
        shared, own = shared - taken, own + taken
    return own


class ConsumedCounts:
    """Models the consumed counts of efa_sq_index: the updates and clears of the scheduler."""

    def __init__(self, dut):
        self.dut, self.ref = dut, RefCounts()
        cocotb.start_soon(self._serve())

    async def _serve(self):
        dut, ref = self.dut, self.ref
        dut.consumed_rd_data.value = 0
        while True:
            await RisingEdge(dut.clk)
            new = cleared = None
            if dut.rst.value == 0 and dut.m_consumed_valid.value == 1:
                new = int(dut.m_consumed_qpn.value), int(dut.m_consumed_count.value)
            if dut.s_clear_valid.value == 1:
                cleared = int(dut.s_clear_qpn.value)
            ref.update(new, cleared)
            requested = dut.qpc_rd_addr.value
            dut.consumed_rd_data.value = ref[int(requested)] if requested.is_resolvable else 0


class Queue:
    """Models a send queue: its context, its WQEs as written, and the consumer index."""

    def __init__(self, qpn, line, log, wide=0, srd=1):
        self.qpn, self.line, self.log, self.wide, self.srd = qpn, line, log, wide, srd
        self.depth, self.lines = 1 << log, 1 << log + wide
        self.same = {"srd": srd, "pd": qpn * 5, "qp_num": qpn + 0x7700, "scqn": qpn * 3,
                     "ssub": qpn & 1, "wqe128": wide}  # fmt: skip
        self.long_id = qpn >> 1 & 1
        self.state, self.live = RTS, 1
        self.images = {}
        self.begin()

    @property
    def image(self):
        """Returns the packed context, cached per state."""
        key = self.state, self.live
        if key not in self.images:
            self.images[key] = INTERNAL.qpc.pack(
                state=self.state, live=self.live, sq_line=self.line, sq_log=self.log,
                long_id=self.long_id, **self.same
            )  # fmt: skip
        return self.images[key]

    def begin(self):
        self.produced = self.consumed = self.completed = self.open = 0
        self.posted, self.entries = [(-100, 0)], {}
        self.failed = self.flushing = self.ended = False
        self.phase = None
        self.incomplete = None  # the edge of its report

    def count(self, edge):
        """Returns the producer index that a read at this edge returns."""
        return next(value for at, value in reversed(self.posted) if at + LAG <= edge)


def phase_bit():
    """Returns the mask of the phase bit of a WQE."""
    wqe = IoTxWqe128()
    wqe.meta.phase = 1
    return int.from_bytes(bytes(wqe.pack()), "little")


PHASE = phase_bit()


def message(rng, flits):
    """Returns the first line of a WQE whose message takes that many flits, in one of several
    forms."""
    wqe = IoTxWqe128()
    wqe.meta.req_id, wqe.meta.op_type = rng.getrandbits(16), rng.getrandbits(4)
    wqe.meta.req_id_ex.w = [rng.getrandbits(16) for _ in range(3)]
    size = 64 * flits - PktHdr.SIZE - rng.randrange(min(64, 64 * flits - PktHdr.SIZE + 1))
    buffers = rng.randrange(5 if flits == 1 else 3)
    if buffers == 0:
        wqe.meta.inline_msg, wqe.meta.length = 1, size
    elif buffers == 3:
        # No buffer: the SGE fields are don't-care.
        for sge in wqe.data.sgl:
            sge.length = rng.getrandbits(13)
    elif buffers == 4:
        # Longer than the MTU, in one buffer or in the sum: the WQE is refused and counts as one
        # flit.
        half = LIMITS.max_mtu // 2 + 1
        for sge in wqe.data.sgl:
            sge.length = rng.randrange(half, 8192)
        wqe.meta.length = 2
        if rng.getrandbits(1):
            wqe.data.sgl[0].length = 1 << rng.randrange(14, 32)
            wqe.meta.length = 1
    else:
        first = size if buffers == 1 else rng.randrange(size + 1)
        wqe.meta.length = buffers
        wqe.data.sgl[0].length = first
        wqe.data.sgl[1].length = size - first if buffers == 2 else rng.getrandbits(32)
    return int.from_bytes(bytes(wqe.pack())[:64], "little")


class Bench:
    def __init__(self, dut, stalls=0.0):
        self.dut, self.rng, self.queues, self.lines = dut, rng_for("sq"), {}, {}
        self.down = self.flush_ok = self.outstanding = 0
        self.order, self.fences, self.consumed, self.rounds = [], [], [], deque()
        self.stall = stalls
        self.again_lock, self.mark_lock = Lock(), Lock()

    async def start(self):
        dut = self.dut
        zero(dut, *INPUTS)
        Table(dut, "qpc_rd_addr", "qpc_rd_data", lambda n: self.get(n, lambda q: q.image))
        Table(dut, "qpc_rd_addr", "halted_rd_data", lambda n: self.down >> n & 1)
        Table(dut, "qpc_rd_addr", "flush_ok_rd_data", lambda n: self.flush_ok >> n & 1)
        Table(dut, "qpc_rd_addr", "prod_rd_data",
              lambda n: self.get(n, lambda q: q.count(cycle())))  # fmt: skip
        Table(dut, "qpc_rd_addr", "completed_rd_data",
              lambda n: self.get(n, lambda q: q.completed & 0xFFFF))  # fmt: skip
        self.counts = ConsumedCounts(dut).ref
        self.numbers = 1 << len(dut.qpc_rd_addr)
        await clock_and_reset(dut)
        self.items = StreamMonitor(dut, "m_item", self.stall, ["data"], self.item)
        self.ev = Pulses(dut, "ev_wqe", "data")
        for task in (self.memory, self.voids, self.incomplete, self.flushes):
            cocotb.start_soon(task())

    def get(self, qpn, what):
        return what(self.queues[qpn]) if qpn in self.queues else 0

    # Models of the surrounding modules

    async def memory(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            if dut.line_rd_en.value == 1 and dut.line_rd_addr.value.is_resolvable:
                data, parity = self.lines.get(int(dut.line_rd_addr.value), (0, ALL))
                dut.line_rd_data.value, dut.line_rd_parity.value = data, parity

    async def voids(self):
        dut, pause = self.dut, pauses(self.stall, "void")
        while True:
            await RisingEdge(dut.clk)
            if dut.m_void_valid.value == 1 and dut.m_void_ready.value == 1:
                line = int(dut.m_void_line.value)
                data, parity = self.lines[line]
                void = ALL * int(dut.m_void_parity.value)
                assert parity != void, f"line {line:#x} was complete"
                self.lines[line] = data, void
            dut.m_void_ready.value = int(not pause())

    async def incomplete(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value == 0 and dut.m_incomplete_valid.value == 1:
                queue = self.queues[int(dut.m_incomplete_qpn.value)]
                assert queue.incomplete is None and not queue.flushing, "incomplete twice"
                queue.incomplete = cycle()
                if not queue.failed:
                    self.fail(queue)

    def fail(self, queue):
        """Halts the queue; its flush follows."""
        queue.failed, queue.state = True, AdminQpState.ERR
        self.down |= 1 << queue.qpn
        self.rounds.append(queue)

    async def flushes(self):
        """Sends a fence behind the consumed WQEs, then reschedules the queue for its flush."""
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            if self.rounds:
                queue = self.rounds.popleft()
                await self.fence(1)
                queue.flushing = True
                self.flush_ok |= 1 << queue.qpn
                await self.again(queue)

    async def again(self, queue):
        async with self.again_lock:
            await hold(self.dut, "s_again_valid", "s_again_ready", s_again_qpn=queue.qpn)

    async def fence(self, number):
        """Sends a fence and waits until it has passed behind all consumed WQEs."""
        async with self.mark_lock:
            seen = len(self.fences)
            await hold(self.dut, "s_fence_valid", "s_fence_ready", s_fence_id=number)
            await until(self.dut, lambda: len(self.fences) > seen, what="the fence")
            assert self.fences[-1] == number

    # Actions of the host

    async def make(self, queue):
        before = self.queues.get(queue.qpn)
        if before and before.open:
            await self.free(before.open, before)
        for line in range(queue.lines):
            self.lines[queue.line + line] = self.rng.getrandbits(512), ALL
        queue.begin()
        state, queue.state = queue.state, AdminQpState.RESET
        self.down &= ~(1 << queue.qpn)
        self.flush_ok &= ~(1 << queue.qpn)
        self.queues[queue.qpn] = queue
        await pulse(self.dut, "s_clear_valid", s_clear_qpn=queue.qpn)
        # A context is live from the third cycle after the clear on.
        await ClockCycles(self.dut.clk, 2)
        queue.state = state

    def space(self, queue):
        """Returns the number of WQEs that may be written; 0 while a void is pending."""
        void = self.dut.m_void_valid.value == 1
        return 0 if void else queue.depth - (queue.produced - queue.consumed & 0xFFFF)

    def write(self, queue, missing=0, flits=None, first=None):
        """Writes the next WQE without the dwords of `missing`; its message has `flits` flits, or
        its first line is `first`."""
        count = queue.produced
        wrap, image = count >> queue.log & 1, 0
        wanted = first if flits is None else message(self.rng, flits)
        for half in range(1 + queue.wide):
            line = queue.line + (count % queue.depth << queue.wide) + half
            skip = missing >> 16 * half & ALL
            data, parity = self.rng.getrandbits(512), self.lines[line][1]
            if wanted is not None and not half:
                data = wanted
            parity = parity & skip | ALL * wrap & ~skip
            self.lines[line] = data, parity
            image |= data << 512 * half
        queue.entries[count] = image, missing & (1 << (16 << queue.wide)) - 1
        queue.produced = count + 1 & 0xFFFF

    async def ring(self, queue):
        queue.posted = [*queue.posted[-3:], (cycle() + 1, queue.produced)]
        return await pulse(self.dut, "s_work_valid", s_work_qpn=queue.qpn)

    async def post(self, queue, entries, missing=0, flits=None):
        for _ in range(entries):
            self.write(queue, missing, flits)
        return await self.ring(queue)

    async def free(self, count, queue=None):
        """Frees contexts through either input, of this queue or of any. The completion of each
        follows."""
        while count:
            both = int(count > 1 and self.rng.random() < 0.3)
            kind = self.rng.getrandbits(1)
            self.dut.s_credit_freed.value = kind | both
            self.dut.s_credit_unused.value = 1 - kind | both
            await RisingEdge(self.dut.clk)
            self.dut.s_credit_freed.value = self.dut.s_credit_unused.value = 0
            for _ in range(1 + both):
                self.complete(queue)
            count -= 1 + both
            self.outstanding -= 1 + both

    def complete(self, queue=None):
        """Counts a completion of an open send, of this queue or of any."""
        queue = queue or self.rng.choice([q for q in self.queues.values() if q.open])
        queue.completed += 1
        queue.open -= 1

    # Checks of the outputs

    def item(self, beat):
        item = INTERNAL.wqe_in.unpack(beat["data"])
        if item.barrier:
            self.fences.append(item.fence)
            return
        queue = self.queues[item.qpn]
        count = queue.consumed
        assert item.msg == count and count in queue.entries, f"{item.msg} of {item.qpn} for {count}"
        image, missing = queue.entries.pop(count)
        first = image & (1 << 512) - 1
        req_id, op_type = (0, 0) if missing & 1 else (first & ALL, first >> 16 & 15)
        # Bits 63:16 of the request id: the upper half of dword 6 and dword 7.
        upper = (first >> 208 & ALL) * (not missing >> 6 & 1)
        upper |= (first >> 224 & 0xFFFF_FFFF) * (not missing >> 7 & 1) << 16
        wanted = {"flush": queue.flushing, "incomplete": missing != 0, "req_id": req_id,
                  "req_id_ex": upper * queue.long_id,
                  "op_type": op_type, **queue.same}  # fmt: skip
        for name, value in wanted.items():
            assert getattr(item, name) == value, f"{name} of WQE {count} of queue {item.qpn}"
        if not missing:
            width = 1024 if queue.wide else 512
            assert item.entry & (1 << width) - 1 == image & (1 << width) - 1
        # The first incomplete WQE halts its queue; no WQE behind it is consumed until the flush.
        if not queue.flushing:
            assert not queue.ended, "consumed behind an incomplete WQE"
            queue.ended = missing != 0
            assert not missing or (queue.incomplete is not None and queue.incomplete < cycle())
        if queue.srd and not queue.flushing:
            self.outstanding += 1
            queue.open += 1
            busy = sum(q.open > 0 for q in self.queues.values())
            assert CONTEXTS - self.outstanding >= self.numbers - busy, "a guaranteed context"
        else:
            queue.completed += 1
        queue.consumed = count + 1 & 0xFFFF
        self.order.append(queue.qpn)
        anomaly = False
        if not missing and not queue.flushing:
            # The phase is compared as of wrap 0; the first WQE after a clear sets the reference.
            phase = bool(image & PHASE) ^ (count >> queue.log & 1)
            queue.phase = phase if queue.phase is None else queue.phase
            anomaly = phase != queue.phase
        self.consumed.append((item.qpn, item.msg, req_id, anomaly))

    def empty(self):
        return all(queue.consumed == queue.produced for queue in self.queues.values())

    async def finished(self, cycles=4000):
        await until(self.dut, self.empty, "the last WQE", cycles)
        await ClockCycles(self.dut.clk, 6)
        seen = [EVENTS.wqe.unpack(raw) for raw in self.ev.values()]
        assert [(e.qpn, e.msg, e.req_id, e.wrong_phase) for e in seen] == self.consumed
        assert self.dut.m_sends_open.value == self.outstanding
        for queue in self.queues.values():
            assert self.counts[queue.qpn] == queue.consumed

    async def all_contexts(self, queues, flits=None):
        """Fills the queues with WQEs, and checks that each gets its share of the contexts."""
        for queue in queues:
            await self.make(queue)
            await self.post(queue, queue.depth, flits=flits)
        await self.settled()

    async def settled(self, visits=30):
        """Waits until no WQE is consumed, and checks that each queue has what it may have.

        A queue may first pay a deficit, which takes a visit of all queues for each quantum.
        """
        dut, seen = self.dut, None
        while seen != len(self.order):
            seen = len(self.order)
            await ClockCycles(dut.clk, visits * self.numbers)
        assert dut.m_sends_open.value == self.outstanding
        shared = SHARED - self.outstanding
        for queue in self.queues.values():
            if queue.srd and not queue.flushing and queue.consumed != queue.produced:
                assert queue.open and queue.open >> SHARE_W >= shared, queue.qpn
