"""efa_sq: each entry once, in order, with its turn; broken queues, contexts, barriers, cycles."""

from collections import deque
from itertools import groupby, permutations

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, Lock, RisingEdge, Timer

from efa.defs import EVENTS, INTERNAL, LIMITS, AdminQpState, IoTxWqe128, PktHdr
from tb.lib.stream import PERIOD_NS, StreamMonitor, clock_and_reset, cycle, pauses, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import hold, pulse, until, zero
from tb.unit.queue_bench import Pulses, Table

RTS, SQD = AdminQpState.RTS, AdminQpState.SQD
CONTEXTS = 1 << LIMITS.msg_w
ALL = 0xFFFF
INPUTS = ("work_valid", "s_again_valid", "s_mark_valid", "s_clear_valid", "credit_freed",
          "credit_unused", "down", "flush_ok", "taken_addr", "m_void_ready", "rd_data")  # fmt: skip
# The producer count is in its table so much later than the doorbell's pulse.
LAG = timing("efa_doorbell", "count").latency - 1 - timing("efa_doorbell", "store").latency


class Queue:
    """A send queue: its context, its entries as they were written, how far it was taken."""

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
        """The context, worked out once for each state."""
        key = self.state, self.live
        if key not in self.images:
            self.images[key] = INTERNAL.qpc.pack(
                state=self.state, live=self.live, sq_line=self.line, sq_log=self.log,
                long_id=self.long_id, **self.same
            )  # fmt: skip
        return self.images[key]

    def begin(self):
        self.produced = self.taken = 0
        self.rung, self.entries = [(-100, 0)], {}
        self.broken = self.flushing = self.ended = False
        self.phase = None
        self.torn = None  # the edge at which it was reported

    def count(self, edge):
        """What a read at this edge finds in the table of producer counts."""
        return next(value for at, value in reversed(self.rung) if at + LAG <= edge)


def phase_bit():
    """The bit of an entry that is its phase."""
    wqe = IoTxWqe128()
    wqe.meta.phase = 1
    return int.from_bytes(bytes(wqe.pack()), "little")


PHASE = phase_bit()


def message(rng, flits):
    """The first line of an entry whose message takes so many flits, in one of its ways."""
    wqe = IoTxWqe128()
    wqe.meta.req_id, wqe.meta.op_type = rng.getrandbits(16), rng.getrandbits(4)
    wqe.meta.req_id_ex.w = [rng.getrandbits(16) for _ in range(3)]
    size = 64 * flits - PktHdr.SIZE - rng.randrange(min(64, 64 * flits - PktHdr.SIZE + 1))
    buffers = rng.randrange(4 if flits == 1 else 3)
    if buffers == 0:
        wqe.meta.inline_msg, wqe.meta.length = 1, size
    elif buffers == 3:
        # None at all: of what it says of buffers nothing counts.
        for sge in wqe.data.sgl:
            sge.length = rng.getrandbits(32)
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
        self.order, self.marks, self.taken, self.rounds = [], [], [], deque()
        self.stall = stalls
        self.again_lock, self.mark_lock = Lock(), Lock()

    async def start(self):
        dut = self.dut
        zero(dut, *INPUTS)
        Table(dut, "qpc_addr", "qpc_data", lambda n: self.get(n, lambda q: q.image))
        Table(dut, "prod_addr", "prod_data", lambda n: self.get(n, lambda q: q.count(cycle())))
        await clock_and_reset(dut)
        self.items = StreamMonitor(dut, "m_item", self.stall, ["data"], self.item)
        self.ev = Pulses(dut, "ev_wqe", "data")
        for task in (self.memory, self.voids, self.torn, self.flushes):
            cocotb.start_soon(task())

    def get(self, qpn, what):
        return what(self.queues[qpn]) if qpn in self.queues else 0

    # what stands around the module

    async def memory(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            if dut.rd_en.value == 1 and dut.rd_line.value.is_resolvable:
                data, parity = self.lines.get(int(dut.rd_line.value), (0, ALL))
                dut.rd_data.value, dut.rd_parity.value = data, parity

    async def voids(self):
        dut, pause = self.dut, pauses(self.stall, "void")
        while True:
            await RisingEdge(dut.clk)
            if dut.m_void_valid.value == 1 and dut.m_void_ready.value == 1:
                line = int(dut.m_void_line.value)
                data, parity = self.lines[line]
                void = ALL * int(dut.m_void_parity.value)
                assert parity != void, f"line {line:#x} was whole"
                self.lines[line] = data, void
            dut.m_void_ready.value = int(not pause())

    async def torn(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value == 0 and dut.torn_valid.value == 1:
                queue = self.queues[int(dut.torn_qpn.value)]
                assert queue.torn is None and not queue.flushing, "torn twice"
                queue.torn = cycle()
                if not queue.broken:
                    self.fail(queue)

    def fail(self, queue):
        """The queue is down from now on; its flush follows."""
        queue.broken, queue.state = True, AdminQpState.ERR
        self.down |= 1 << queue.qpn
        self.dut.down.value = self.down
        self.rounds.append(queue)

    async def flushes(self):
        """A barrier behind what was taken, then the queue may be taken from again."""
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            if self.rounds:
                queue = self.rounds.popleft()
                await self.mark(1)
                queue.flushing = True
                self.flush_ok |= 1 << queue.qpn
                dut.flush_ok.value = self.flush_ok
                await self.again(queue)

    async def again(self, queue):
        async with self.again_lock:
            await hold(self.dut, "s_again_valid", "s_again_ready", s_again_qpn=queue.qpn)

    async def mark(self, number):
        """A barrier has come out behind everything taken before."""
        async with self.mark_lock:
            seen = len(self.marks)
            await hold(self.dut, "s_mark_valid", "s_mark_ready", s_mark_id=number)
            await until(self.dut, lambda: len(self.marks) > seen, what="the barrier")
            assert self.marks[-1] == number

    # what the host does

    async def make(self, queue):
        for line in range(queue.lines):
            self.lines[queue.line + line] = self.rng.getrandbits(512), ALL
        queue.begin()
        state, queue.state = queue.state, AdminQpState.RESET
        self.down &= ~(1 << queue.qpn)
        self.flush_ok &= ~(1 << queue.qpn)
        self.dut.down.value, self.dut.flush_ok.value = self.down, self.flush_ok
        self.queues[queue.qpn] = queue
        await hold(self.dut, "s_clear_valid", "s_clear_ready", s_clear_qpn=queue.qpn)
        queue.state = state

    def room(self, queue):
        """Entries that may be written; none while a line is yet to be voided."""
        void = self.dut.m_void_valid.value == 1
        return 0 if void else queue.depth - (queue.produced - queue.taken & 0xFFFF)

    def write(self, queue, missing=0, flits=None):
        """The next entry, without the dwords of `missing`; its message of so many flits."""
        count = queue.produced
        lap, image = count >> queue.log & 1, 0
        wanted = None if flits is None else message(self.rng, flits)
        for half in range(1 + queue.wide):
            line = queue.line + (count % queue.depth << queue.wide) + half
            skip = missing >> 16 * half & ALL
            data, parity = self.rng.getrandbits(512), self.lines[line][1]
            if wanted is not None and not half:
                data = wanted
            parity = parity & skip | ALL * lap & ~skip
            self.lines[line] = data, parity
            image |= data << 512 * half
        queue.entries[count] = image, missing & (1 << (16 << queue.wide)) - 1
        queue.produced = count + 1 & 0xFFFF

    async def ring(self, queue):
        queue.rung = [*queue.rung[-3:], (cycle() + 1, queue.produced)]
        return await pulse(self.dut, "work_valid", work_qpn=queue.qpn)

    async def post(self, queue, entries, missing=0, flits=None):
        for _ in range(entries):
            self.write(queue, missing, flits)
        return await self.ring(queue)

    async def free(self, count):
        """Contexts come free, by either input."""
        while count:
            both = int(count > 1 and self.rng.random() < 0.3)
            kind = self.rng.getrandbits(1)
            self.dut.credit_freed.value = kind | both
            self.dut.credit_unused.value = 1 - kind | both
            await RisingEdge(self.dut.clk)
            self.dut.credit_freed.value = self.dut.credit_unused.value = 0
            count -= 1 + both
            self.outstanding -= 1 + both

    # what comes out

    def item(self, beat):
        item = INTERNAL.wqi.unpack(beat["data"])
        if item.barrier:
            self.marks.append(item.mark)
            return
        queue = self.queues[item.qpn]
        count = queue.taken
        assert item.msg == count and count in queue.entries, f"{item.msg} of {item.qpn} for {count}"
        image, missing = queue.entries.pop(count)
        first = image & (1 << 512) - 1
        req_id, op_type = (0, 0) if missing & 1 else (first & ALL, first >> 16 & 15)
        # Bits 63:16 of the id: the upper half of dword 6, all of dword 7.
        upper = (first >> 208 & ALL) * (not missing >> 6 & 1)
        upper |= (first >> 224 & 0xFFFF_FFFF) * (not missing >> 7 & 1) << 16
        wanted = {"flush": queue.flushing, "torn": missing != 0, "req_id": req_id,
                  "req_id_ex": upper * queue.long_id,
                  "op_type": op_type, **queue.same}  # fmt: skip
        for name, value in wanted.items():
            assert getattr(item, name) == value, f"{name} of entry {count} of queue {item.qpn}"
        if not missing:
            width = 896 if queue.wide else 512
            assert item.entry & (1 << width) - 1 == image & (1 << width) - 1
        # The first torn entry breaks its queue; behind it nothing is taken until the flush.
        if not queue.flushing:
            assert not queue.ended, "taken behind a torn entry"
            queue.ended = missing != 0
            assert not missing or (queue.torn is not None and queue.torn < cycle())
        if queue.srd and not queue.flushing:
            self.outstanding += 1
            assert self.outstanding <= CONTEXTS
        queue.taken = count + 1 & 0xFFFF
        self.order.append(queue.qpn)
        odd = False
        if not missing and not queue.flushing:
            # As in lap 0; the first one after a clear teaches it.
            phase = bool(image & PHASE) ^ (count >> queue.log & 1)
            queue.phase = phase if queue.phase is None else queue.phase
            odd = phase != queue.phase
        self.taken.append((item.qpn, item.msg, req_id, odd))

    def empty(self):
        return all(queue.taken == queue.produced for queue in self.queues.values())

    async def finished(self, cycles=4000):
        await until(self.dut, self.empty, "the last entry", cycles)
        await ClockCycles(self.dut.clk, 6)
        seen = [EVENTS.wqe.unpack(raw) for raw in self.ev.values()]
        assert [(e.qpn, e.msg, e.req_id, e.odd_phase) for e in seen] == self.taken
        assert self.dut.sends_open.value == self.outstanding
        width = len(self.dut.work_qpn)
        queues = list(self.queues.values())
        for queue in self.rng.sample(queues, min(6, len(queues))):
            self.dut.taken_addr.value = queue.qpn << width | queue.qpn
            await ClockCycles(self.dut.clk, 2)
            assert int(self.dut.taken_data.value) == queue.taken << 16 | queue.taken

    async def all_contexts(self, queues):
        """Just as many entries are taken as there are contexts that are free."""
        for queue in queues:
            await self.make(queue)
            await self.post(queue, queue.depth)
        left = CONTEXTS - self.outstanding
        seen = len(self.order)
        await until(self.dut, lambda: len(self.order) == seen + left, "every context", 4000)
        await ClockCycles(self.dut.clk, 40)
        assert len(self.order) == seen + left and self.outstanding == CONTEXTS


@cocotb.test()
@cocotb.parametrize(stalls=[0.0, 0.6])
async def entries_are_taken_once_and_in_order(dut, stalls):
    """queue.sq.order: queues of all kinds at once, torn entries, states, flushes, beginnings."""
    bench = Bench(dut, stalls)
    await bench.start()
    rng = bench.rng
    queues = [Queue(0, 0, 0), Queue(1, 64, 0, wide=1, srd=0), Queue(5, 128, 2, srd=0),
              Queue(62, 192, 3, wide=1), Queue(63, 32640, 6)]  # fmt: skip
    for queue in queues:
        await bench.make(queue)
    for _ in range(1200):
        queue = rng.choice(queues)
        kind = rng.random()
        if kind < 0.6:
            for _ in range(min(bench.room(queue), rng.choice((1, 1, 2, 20)))):
                odd = rng.choice((1, 0x8000, 1 << 31, rng.getrandbits(32)))
                bench.write(queue, odd if rng.random() < (0.5 if queue.broken else 0.02) else 0)
            await bench.ring(queue)
        elif kind < 0.7 and queue.state in (RTS, SQD):
            queue.state = rng.choice((RTS, SQD))
            await bench.again(queue)
        elif kind < 0.75 and queue.flushing and queue.taken == queue.produced:
            # As admin does it: nothing of the queue is inside when its counts are cleared.
            await bench.mark(0)
            queue.state = RTS
            await bench.make(queue)
        elif kind < 0.76 and not queue.broken:
            bench.fail(queue)
        elif bench.outstanding:
            await bench.free(rng.randrange(bench.outstanding + 1))
        else:
            await RisingEdge(dut.clk)
    for queue in queues:
        if queue.state == SQD:
            queue.state = RTS
            await bench.again(queue)
    await bench.finished()
    assert len(bench.order) > 300 and sum(queue.broken for queue in queues)


class Backlog:
    """Queues that have work all the time, each with messages of its own size; what was taken.

    Queue n has ring n of 512 lines, so a line tells its queue; an entry is in its lap's parity.
    Those of `wide` take two lines each."""

    LOG = 9

    def __init__(self, dut, flits, stalled=None, wide=()):
        self.dut, self.flits, self.wide = dut, flits, wide
        self.rng = rng_for("backlog")
        self.images = {
            qpn: INTERNAL.qpc.pack(live=1, state=RTS, sq_line=qpn << self.LOG,
                                   sq_log=self.LOG - (qpn in wide), wqe128=int(qpn in wide),
                                   srd=int(qpn == stalled))
            for qpn in flits
        }  # fmt: skip
        self.data = {qpn: message(self.rng, size) for qpn, size in flits.items()}
        self.taken = dict.fromkeys(flits, 0)
        self.trace = []

    async def start(self):
        dut = self.dut
        zero(dut, *INPUTS)
        dut.prod_data.value, dut.m_void_ready.value = 0x7FFF, 1
        dut.m_item_ready.value = 0
        Table(dut, "qpc_addr", "qpc_data", lambda qpn: self.images.get(qpn, 0))
        await clock_and_reset(dut)
        for qpn in self.flits:
            await hold(dut, "s_clear_valid", "s_clear_ready", s_clear_qpn=qpn)
        cocotb.start_soon(self.memory())
        dut.m_item_ready.value = 1

    async def stalls(self, share):
        """What comes out is taken in so many of its cycles."""
        while True:
            await RisingEdge(self.dut.clk)
            self.dut.m_item_ready.value = int(self.rng.random() >= share)

    async def memory(self):
        dut, edge = self.dut, RisingEdge(self.dut.clk)
        field = INTERNAL.wqi.unpack
        while True:
            await edge
            if dut.m_item_valid.value == 1 and dut.m_item_ready.value == 1:
                item = field(int(dut.m_item_data.value))
                assert item.msg == self.taken[item.qpn] and not item.torn
                self.taken[item.qpn] += 1
                self.trace.append(item.qpn)
            if dut.rd_en.value == 1 and dut.rd_line.value.is_resolvable:
                qpn, slot = divmod(int(dut.rd_line.value), 1 << self.LOG)
                if qpn in self.taken:
                    taken, wide = self.taken[qpn], qpn in self.wide
                    log, slot = self.LOG - wide, slot >> wide
                    count = taken + (slot - taken) % (1 << log)
                    dut.rd_data.value = self.data[qpn]
                    dut.rd_parity.value = ALL * (count >> log & 1)

    async def sent(self, flits):
        """The trace of so many flits."""
        done, total = 0, 0
        while total < flits:
            await ClockCycles(self.dut.clk, 64)
            total += sum(self.flits[qpn] for qpn in self.trace[done:])
            done = len(self.trace)
        return self.trace


MIX = (1, 65, 2, 3, 65, 5, 9, 17, 33, 1)  # flits: 8 bytes to 4 KB


@cocotb.test()
@cocotb.parametrize((("count", "quanta"), [(2, 100), (7, 100), (63, 8)]))
async def queues_share_the_wire_in_flits(dut, count, quanta):
    """queue.sq.fair: within 1 % of 100 quanta, mixed sizes, a queue without contexts."""
    quantum = int(dut.QUANTUM.value)
    stalled = count
    flits = {qpn: MIX[qpn % len(MIX)] for qpn in range(count)}
    backlog = Backlog(dut, {**flits, stalled: 1}, stalled)
    await backlog.start()
    # The queue without contexts gets them all, then none comes back.
    await pulse(dut, "work_valid", work_qpn=stalled)
    await until(dut, lambda: backlog.taken[stalled] == CONTEXTS, "its contexts", 3000)
    for qpn in flits:
        await pulse(dut, "work_valid", work_qpn=qpn)
    window = quanta * count * quantum
    trace = await backlog.sent(CONTEXTS + window + 2 * quantum * count)
    assert backlog.taken[stalled] == CONTEXTS
    start = CONTEXTS + backlog.rng.randrange(count * quantum // 8)
    order = np.array(trace[start:])
    size = np.array([flits.get(qpn, 0) for qpn in range(count + 1)])[order]
    size = size[: np.searchsorted(np.cumsum(size), window) + 1]
    sent = np.array([np.cumsum(size * (order[: len(size)] == qpn)) for qpn in flits])
    off = sent[:, -1] - quanta * quantum
    dut._log.info("%d queues, flits from their share: %s", count, off)
    assert abs(off).max() <= quantum, off
    # No pair gains more on each other than the header says, in any part of it.
    bound = quantum // 10 + 2 * (max(flits.values()) - 1)
    assert bound <= quantum, "more than 1 % of 100 quanta"
    for one, other in permutations(range(count), 2):
        ahead = sent[one] - sent[other]
        gained = (ahead - np.minimum.accumulate(ahead)).max()
        assert gained <= bound, (one, other, gained)


def turns_of(flits, turn, entries):
    """The order in which queues that all have work are served: each turn of the circle pays what
    its queue owes first; then it sends until it is used up."""
    debts, order = dict.fromkeys(flits, 0), []
    while len(order) < entries:
        for qpn, size in flits.items():
            left = turn - debts[qpn]
            while left > 0:
                order.append(qpn)
                left -= size
            debts[qpn] = -left
    return order[:entries]


@cocotb.test()
@cocotb.parametrize((("stalls", "draw"), [(0.0, 1), (0.0, 2), (0.4, 3), (0.4, 4)]))
async def turns_are_as_long_as_promised(dut, stalls, draw):
    """queue.sq.exact: any sizes, narrow and wide, the very order in which entries are taken"""
    rng = rng_for(f"exact{draw}")
    turn = int(dut.QUANTUM.value) // 10
    numbers = sorted(rng.sample(range(1 << len(dut.work_qpn)), 6))
    flits = {qpn: rng.choice((1, 2, 7, turn, turn + 1, 2 * turn + 4, 65, rng.randrange(1, 66)))
             for qpn in numbers}  # fmt: skip
    # The first one is at work before there are others: it may not get far.
    flits[numbers[0]] = 1
    backlog = Backlog(dut, flits, wide=rng.sample(numbers[1:], 3))
    await backlog.start()
    dut.m_item_ready.value = 0
    for qpn in numbers:
        await pulse(dut, "work_valid", work_qpn=qpn)
    await ClockCycles(dut.clk, 10)
    dut.m_item_ready.value = 1
    if stalls:
        cocotb.start_soon(backlog.stalls(stalls))
    await until(dut, lambda: len(backlog.trace) >= 600, "entries", 4000)
    assert backlog.trace[:600] == turns_of(flits, turn, 600)


@cocotb.test()
async def every_queue_has_its_own_phase(dut):
    """queue.sq.phase: and is down or not, flushed or not, whatever the others are"""
    bench = Bench(dut)
    await bench.start()
    rng = bench.rng
    queues = [Queue(n, 32 * n, 3, wide=rng.getrandbits(1), srd=0)
              for n in range(1 << len(dut.work_qpn))]  # fmt: skip
    for _ in range(4):
        rng.shuffle(queues)
        for queue in queues:
            if queue.broken or not queue.images or rng.random() < 0.3:
                queue.state, queue.torn = RTS, None
                await bench.make(queue)
        for queue in rng.sample(queues, len(queues)):
            await bench.post(queue, rng.randrange(1, 4))
        for queue in rng.sample(queues, 12):
            if not queue.broken:
                bench.fail(queue)
            await bench.post(queue, rng.randrange(1, 4))
        await bench.finished()
        await until(dut, lambda: not bench.rounds, "flushes", 4000)
        await bench.mark(0)


@cocotb.test()
async def a_flush_takes_its_turns(dut):
    """queue.sq.flush: an entry that is flushed counts as one flit against its queue's turn"""
    bench = Bench(dut)
    await bench.start()
    turn = int(dut.QUANTUM.value) // 10
    dead, other = Queue(6, 0, 7, srd=0), Queue(7, 256, 7, srd=0)
    for queue in (dead, other):
        await bench.make(queue)
    bench.fail(dead)
    await until(dut, lambda: dead.flushing, "the flush", 500)
    await bench.post(other, 100, flits=1)
    await bench.post(dead, 100)
    before = len(bench.order)
    await bench.finished()
    runs = [(n, len(list(group))) for n, group in groupby(bench.order[before:])]
    assert max(length for _, length in runs[1:-2]) == turn


@cocotb.test()
async def no_queue_waits_longer_than_its_bound(dut):
    """queue.sq.wait: every queue has work, long and short messages, the longest on most of them."""
    turn = int(dut.QUANTUM.value) // 10
    count = 1 << len(dut.work_qpn)
    longest = 65
    flits = {qpn: longest if qpn % 4 else 1 for qpn in range(count)}
    backlog = Backlog(dut, flits)
    await backlog.start()
    for qpn in flits:
        await pulse(dut, "work_valid", work_qpn=qpn)
    rounds = 1 + -(-(longest - 1) // turn)
    bound = count * rounds * (2 * turn + 6)
    seen, last, worst = 0, dict.fromkeys(flits, 0), 0
    for now in range(4 * bound // rounds):
        await RisingEdge(dut.clk)
        for qpn in backlog.trace[seen:]:
            worst = max(worst, now - last[qpn])
            last[qpn] = now
        seen = len(backlog.trace)
    worst = max(worst, *(now - at for at in last.values()))
    dut._log.info("longest wait %d cycles of at most %d", worst, bound)
    assert 2 * count < worst <= bound
    # What most turns only pay for does not hold up the others' turns.
    turns = [a for a, b in zip(backlog.trace, [None, *backlog.trace], strict=False) if a != b]
    assert turns.count(0) >= 4


@cocotb.test()
async def a_queue_alone_is_not_held_up(dut):
    """queue.sq.alone: whatever it owes, it goes on; with another it pays."""
    bench = Bench(dut)
    await bench.start()
    beats = Pulses(dut, "m_item", "data")
    numbers = bench.rng.sample(range(1 << len(dut.work_qpn)), 2)
    alone, other = (Queue(n, 128 * at, 6, srd=0) for at, n in enumerate(numbers))
    for queue in (alone, other):
        await bench.make(queue)
    await bench.post(alone, 40, flits=65)
    await bench.finished()
    cycles = [beat[0] for beat in beats.seen]
    assert cycles[-1] - cycles[0] == 39
    for _ in range(3):
        beats.seen.clear()
        rung = await bench.post(alone, 1, flits=65)
        await bench.finished()
        assert beats.seen[0][0] - rung == timing("efa_sq", "entry").latency
    # It owes 64 flits, four turns of the other.
    await bench.post(other, 64, flits=1)
    await bench.post(other, 0)
    before = len(bench.order)
    await until(dut, lambda: len(bench.order) > before + 2, "the other's turn")
    await bench.post(alone, 2, flits=65)
    await bench.finished()
    assert bench.order[before:].count(other.qpn) == 64 and bench.order[-1] == alone.qpn


@cocotb.test()
async def turns_go_around(dut):
    """queue.sq.turns: TURN flits a turn, in a circle; a latecomer waits a lap at most."""
    bench = Bench(dut)
    await bench.start()
    turn = int(dut.QUANTUM.value) // 10
    queues = [Queue(n, 128 * n, 6, srd=0) for n in range(4)]
    for queue in queues:
        await bench.make(queue)
    for queue in queues:
        await bench.post(queue, turn + 1, flits=1)
    late = Queue(9, 1024, 0, srd=0)
    await bench.make(late)
    for lap in range(3):
        await until(dut, lambda lap=lap: len(bench.order) >= 4 * turn * lap + 9, "a lap")
        for queue in queues:
            await bench.post(queue, turn, flits=1)
    posted = len(bench.order)
    await bench.post(late, 1, flits=1)
    await bench.finished()
    at = bench.order.index(9)
    assert posted < at <= posted + 6 * turn
    bench.order.remove(9)
    turns = [(n, len(list(group))) for n, group in groupby(bench.order)]
    assert all(length <= turn for _, length in turns)
    assert [n for n, _ in turns[:16]] == [*range(4)] * 4


@cocotb.test()
async def only_a_live_queue_in_rts_is_taken_from(dut):
    """queue.sq.states"""
    bench = Bench(dut)
    await bench.start()
    for state in AdminQpState:
        for live in (0, 1):
            queue = Queue(7, 256, 3)
            queue.state, queue.live = state, live
            await bench.make(queue)
            await bench.post(queue, 5)
            await ClockCycles(dut.clk, 20)
            takes = state == RTS and live
            assert queue.taken == (5 if takes else 0), (state, live)
            queue.state, queue.live = RTS, 1
            await bench.again(queue)
            await bench.finished()


@cocotb.test()
async def a_queue_that_broke_is_not_taken_from(dut):
    """queue.sq.down: from its break on, though its context still says RTS."""
    bench = Bench(dut)
    await bench.start()
    queue = Queue(7, 256, 3)
    await bench.make(queue)
    dut.down.value = 1 << queue.qpn
    await bench.post(queue, 5)
    await ClockCycles(dut.clk, 40)
    assert queue.taken == 0
    dut.down.value = 0
    await bench.again(queue)
    await bench.finished()
    assert queue.taken == 5


@cocotb.test()
async def contexts_limit_srd_only(dut):
    """queue.sq.contexts: all in use, one for each that comes back, none for UD and flushes."""
    bench = Bench(dut)
    await bench.start()
    srd = [Queue(1, 0, 10), Queue(2, 1024, 6), Queue(3, 2048, 7, wide=1)]
    await bench.all_contexts(srd)
    other = Queue(4, 4096, 5, srd=0)
    await bench.make(other)
    await bench.post(other, 32)
    await until(dut, lambda: other.taken == 32, "UD", 200)
    for count in (1, 2, 17):
        seen = len(bench.order)
        await bench.free(count)
        await ClockCycles(dut.clk, 60)
        assert len(bench.order) == seen + count
    waiting = next(queue for queue in srd if queue.taken != queue.produced)
    bench.fail(waiting)
    await until(dut, lambda: waiting.taken == waiting.produced, "flush", 1000)
    # A few more than a visit takes at most: it takes no more.
    most = timing("efa_sq", "cut").depth
    await bench.free(most + 9)
    lone = Queue(9, 6144, 7)
    await bench.make(lone)
    beats = Pulses(dut, "m_item", "data")
    await bench.post(lone, most + 9, flits=1)
    await bench.finished()
    cycles = [beat[0] for beat in beats.seen]
    steps = [b - a for a, b in zip(cycles, cycles[1:], strict=False)]
    assert [place for place, step in enumerate(steps, 1) if step > 1] == [most]


@cocotb.test()
async def a_torn_entry_ends_its_visit(dut):
    """queue.sq.torn: anywhere in a visit, of either kind, of one or two lines."""
    bench = Bench(dut)
    await bench.start()
    other = Queue(4, 512, 6, srd=0)
    await bench.make(other)
    for at in range(44):
        queue = Queue(3, 64, 6, wide=at & 1, srd=at >> 1 & 1)
        await bench.make(queue)
        # With another one its turns end before their entries do.
        if at % 3:
            await bench.post(other, 40, flits=1)
        for count in range(at + 20):
            bench.write(queue, 1 << at % 16 if count == at else 0)
        await bench.ring(queue)
        await bench.finished()
        assert queue.torn is not None
    # What a visit had set aside and did not need was given back, once.
    await bench.all_contexts([Queue(10, 1024, 10)])


@cocotb.test()
async def a_clear_gives_way_to_entries(dut):
    """queue.sq.clear: counts go to 0 beside traffic of another queue."""
    bench = Bench(dut)
    await bench.start()
    cleared, busy = (
        [Queue(n, 64 * n, 3, srd=0) for n in range(4)],
        Queue(20, 1024, 6, wide=1, srd=0),
    )
    for queue in [*cleared, busy]:
        await bench.make(queue)
    for queue in cleared:
        await bench.post(queue, 7)
    await bench.finished()
    await bench.post(busy, 64)
    await ClockCycles(dut.clk, 12)
    for queue in cleared:
        await bench.make(queue)
    assert busy.taken < 32
    await bench.finished()
    for queue in cleared:
        await bench.post(queue, 8)
    await bench.finished()


@cocotb.test()
async def a_barrier_comes_behind_what_was_taken(dut):
    """queue.sq.barrier: nothing is looked at while it waits; then all goes on."""
    held = {"on": False}
    bench = Bench(dut)
    bench.stall = lambda: held["on"]
    await bench.start()
    queues = [Queue(n, 128 * n, 6, wide=n & 1) for n in range(3)]
    for queue in queues:
        await bench.make(queue)
        await bench.post(queue, 64)
    await until(dut, lambda: len(bench.order) == 20, "all of them")
    held["on"] = True
    barrier = cocotb.start_soon(bench.mark(1))
    await ClockCycles(dut.clk, 40)
    assert not barrier.done() and len(bench.ev.seen) - len(bench.order) <= 2
    held["on"] = False
    await barrier
    assert 20 < len(bench.order) < 64 and len(bench.ev.seen) - len(bench.order) <= 1
    await bench.finished()
    await bench.mark(0)


@cocotb.test()
async def entries_leave_in_time(dut):
    """queue.sq.cycles: idle and at full load, one queue and several, narrow and wide."""
    bench = Bench(dut)
    await bench.start()
    beats = Pulses(dut, "m_item", "data")
    for wide, path in ((0, "entry"), (1, "entry_128")):
        promised = timing("efa_sq", path)
        queue = Queue(20 + wide, 1024 * wide, 6, wide)
        await bench.make(queue)
        for entries in (1, 60):
            beats.seen.clear()
            rung = await bench.post(queue, entries)
            await bench.finished()
            cycles = [beat[0] for beat in beats.seen]
            assert cycles[0] - rung == promised.latency, path
            steps = [b - a for a, b in zip(cycles, cycles[1:], strict=False)]
            assert steps == [promised.interval] * (entries - 1), path
        await bench.free(bench.outstanding)
    queue = Queue(30, 2048, 8, srd=0)
    await bench.make(queue)
    beats.seen.clear()
    await bench.post(queue, 130, flits=1)
    await bench.finished()
    cycles = [beat[0] for beat in beats.seen]
    steps = [b - a for a, b in zip(cycles, cycles[1:], strict=False)]
    most = timing("efa_sq", "cut").depth
    again = [place for place, step in enumerate(steps, 1) if step > 1]
    assert again == [most, 2 * most] and steps[most - 1] == timing("efa_sq", "visit").interval
    # Each entry uses its turn up: what was read behind it is read again in the next one.
    pair = [Queue(40 + n, 2560 + 256 * n, 6, srd=0) for n in range(2)]
    for queue in pair:
        await bench.make(queue)
    beats.seen.clear()
    for queue in pair:
        await bench.post(queue, 20, flits=timing("efa_sq", "visit").depth)
    await bench.finished()
    cycles = [beat[0] for beat in beats.seen]
    steps = [b - a for a, b in zip(cycles[8:], cycles[9:30], strict=False)]
    assert set(steps) == {timing("efa_sq", "cut").interval}
    for entries in (1, 3, 16):
        queues = [Queue(n, 4096 + 128 * n, 6, srd=0) for n in range(6)]
        for queue in queues:
            await bench.make(queue)
        held = Queue(33, 8192, 6)
        await bench.make(held)
        beats.seen.clear()
        await bench.post(held, 16, flits=1)
        for queue in queues:
            await bench.post(queue, entries, flits=1)
        await bench.finished()
        cycles = [beat[0] for beat in beats.seen]
        interval = timing("efa_sq", "entry").interval
        assert cycles[-1] - cycles[0] == (6 * entries + 15) * interval, entries
        await bench.free(bench.outstanding)


@cocotb.test()
@cocotb.parametrize((("wide", "near"), [(0, 0xFFF0), (1, 0x27F0)]))
async def the_count_goes_on_past_its_end(dut, wide, near):
    """queue.sq.wrap: entry 65,535 is followed by entry 0, and slots go on; wide ones as far."""
    bench, queue = Bench(dut), Queue(12, 64, 10, wide, srd=0)
    # In a flush an entry is taken whatever its slot holds, so nothing but the clock has to move.
    zero(dut, *INPUTS)
    dut.qpc_data.value, dut.prod_data.value = queue.image, near
    dut.m_void_ready.value, dut.m_item_ready.value, dut.rd_parity.value = 1, 1, 0
    dut.down.value = dut.flush_ok.value = 1 << 12
    dut.taken_addr.value = 12 << len(dut.work_qpn) | 12
    await clock_and_reset(dut)
    await hold(dut, "s_clear_valid", "s_clear_ready", s_clear_qpn=12)
    await pulse(dut, "work_valid", work_qpn=12)
    await Timer(near * (1 + wide) * PERIOD_NS * 21 // 20, "ns")
    await RisingEdge(dut.clk)
    assert int(dut.taken_data.value) == near << 16 | near
    bench.lines = {64 + line: (64 + line, 0) for line in range(queue.lines)}
    cocotb.start_soon(bench.memory())
    items = StreamMonitor(dut, "m_item", 0.3, ["data"])
    dut.prod_data.value = near + 64 & 0xFFFF
    await pulse(dut, "work_valid", work_qpn=12)
    for count in range(near, near + 64):
        item = INTERNAL.wqi.unpack((await items.take())[0]["data"])
        assert (item.msg, item.entry & 0xFFFF) == (count & 0xFFFF, 64 + (count % 1024 << wide))
    await items.none(20)


@cocotb.test()
async def reset_forgets_queues_and_entries(dut):
    """queue.sq.reset: with queues and entries at every stage, contexts in use, a void waiting."""
    bench = Bench(dut, 0.5)
    await bench.start()
    for cycles in range(2, 34, 5):
        for n in range(4):
            queue = Queue(n, 128 * n, 5, wide=n & 1)
            await bench.make(queue)
            for count in range(32):
                bench.write(queue, 1 if count > 20 else 0)
            await bench.ring(queue)
        await ClockCycles(dut.clk, cycles)
        dut.rst.value = 1
        await RisingEdge(dut.clk)
        bench.queues.clear()
        bench.rounds.clear()
        await reset(dut, 1)
        bench.order.clear()
        bench.outstanding = bench.down = bench.flush_ok = 0
        dut.down.value = dut.flush_ok.value = 0
        await ClockCycles(dut.clk, 12)
        assert not bench.order
        bench.taken.clear()
        bench.ev.seen.clear()
    await bench.all_contexts([Queue(3, 4096, 10), Queue(1, 8192, 3)])
