# SPDX-License-Identifier: Apache-2.0
"""Tests efa_llq: line ownership, posted slots, valid dwords of a WQE, creation and destruction
of rings."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import EVENTS, INTERNAL, LIMITS
from tb.lib.dont_care import dont_care
from tb.lib.stream import clock_and_reset, cycle, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, high, hold, pulse, until, zero
from tb.unit.queue_bench import Pulses, Table

TAKEN, NO_OWNER, POSTED, PARTIAL = range(4)
PAGE = LIMITS.llq_page_bytes // 64
ALL = 0xFFFF
MOST_WAIT = 100_000  # in cycles; the init sweep takes a third of this time
# The producer index of a doorbell is in the table of efa_doorbell this many cycles later. The bench
# reads the WQE in the earliest cycle possible for a scheduler that sees the index immediately.
DB_TABLE = timing("efa_doorbell", "count").latency - 1
DB_READ = DB_TABLE + 1
# Cycles from the init sweep of the last line of a ring to the end of the ring's creation: 2 of the
# power-on reset, and 3 for the comparison, the clear and its handshake.
HEELS = 5


class Ring:
    """Models a send queue: its context, its indices, the dwords written per WQE."""

    def __init__(self, qpn, page, log, wide=0, start=0):
        self.qpn, self.line, self.log, self.wide = qpn, page * PAGE, log, wide
        self.depth, self.lines = 1 << log, 1 << log + wide
        self.live = 1
        self.rest = dont_care(INTERNAL.qpc, rng_for(f"ring{qpn}"))
        self.begin(start)

    def begin(self, start):
        """Sets the indices of an empty ring; a start two wraps after 0 has the same phase as 0."""
        self.consumed = self.produced = start
        self.doorbells, self.written = [(-100, start)], {}
        self.stored, self.taking = {}, None

    @property
    def image(self):
        fields = {"live": self.live, "sq_line": self.line, "sq_log": self.log, "wqe128": self.wide}
        return INTERNAL.qpc.pack(**(self.rest | fields))

    def posted(self, edge):
        """Returns the producer index in the table of the doorbell unit at this edge."""
        while len(self.doorbells) > 1 and self.doorbells[1][0] + DB_TABLE <= edge:
            self.doorbells.pop(0)
        return self.doorbells[0][1]

    def waits(self, slot):
        """Returns whether the slot holds a posted WQE that is not consumed."""
        return (slot - self.consumed) % self.depth < (self.produced - self.consumed) & 0xFFFF


class Bench:
    """Models the tables around efa_llq and the expected result of each store."""
    def __init__(self, dut):
        self.dut, self.rings, self.expected, self.errors = dut, {}, [], []
        self.rng, self.wrapped = rng_for("llq"), False
        self.latency = timing("efa_llq", "store").latency

    async def start(self):
        dut = self.dut
        zero(dut, "s_void_valid", "s_llq_valid", "s_op_valid", "s_op_own", "s_op_disown",
             "line_rd_en", "s_llq_dwen")  # fmt: skip
        Table(dut, "qpc_rd_addr", "qpc_rd_data", lambda n: self.get(n, lambda r: r.image))
        Table(dut, "prod_rd_addr", "prod_rd_data",
              lambda n: self.get(n, lambda r: r.posted(cycle())))  # fmt: skip
        Table(dut, "consumed_rd_addr", "consumed_rd_data",
              lambda n: self.get(n, lambda r: r.consumed))  # fmt: skip
        dut.rst_por.value = 1
        began = cocotb.start_soon(clock_and_reset(dut))
        await ClockCycles(dut.clk, 2)
        dut.rst_por.value = 0
        await began
        self.ev, self.err = Pulses(dut, "ev_llq", "data"), Pulses(dut, "m_err", "qpn")
        await self.ready()

    async def ready(self):
        await until(self.dut, high(self.dut.m_init_done), cycles=2000)

    async def all_equal(self):
        """Waits until the init sweep over all lines ends, if no store delays the sweep."""
        await ClockCycles(self.dut.clk, 1 << len(self.dut.line_rd_addr))

    def get(self, qpn, what):
        return what(self.rings[qpn]) if qpn in self.rings else 0

    async def op(self, ring, own=0, disown=0):
        return await hold(self.dut, "s_op_valid", "s_op_ready", s_op_own=own, s_op_disown=disown,
                          s_op_qpn=ring.qpn, s_op_qpc=ring.image, cycles=MOST_WAIT)  # fmt: skip

    async def make(self, *rings):
        for ring in rings:
            self.rings[ring.qpn] = ring
            await self.op(ring, own=1)

    async def store(self, line, dwen=ALL, part=0, owner=None):
        """Performs one store; `owner` is the ring that owns the line, or None."""
        data = self.rng.getrandbits(512)
        if owner is not None:
            owner.stored[(line - owner.line) >> owner.wide] = cycle() + 1
        edge = await pulse(self.dut, "s_llq_valid", s_llq_line=line, s_llq_dwen=dwen,
                           s_llq_part=part, s_llq_data=data)  # fmt: skip
        outcome = NO_OWNER
        if owner is not None and 0 <= line - owner.line < owner.lines:
            slot, half = divmod(line - owner.line, 1 + owner.wide)
            outcome = PARTIAL if part else TAKEN
            if owner.waits(slot) and dwen:
                outcome = POSTED
                self.errors.append((edge + self.latency, owner.qpn))
            elif dwen:
                count = owner.produced + (slot - owner.produced) % owner.depth & 0xFFFF
                entry = owner.written.setdefault(count, {})
                for lane in range(16):
                    if dwen >> lane & 1:
                        entry[16 * half + lane] = data >> 32 * lane & 0xFFFFFFFF
        self.expected.append((edge + self.latency, outcome, line, dwen))
        return edge

    async def complete(self, ring, count):
        """Stores the missing dwords of a WQE."""
        for half in range(1 + ring.wide):
            there = [lane for lane in ring.written.get(count, {}) if lane // 16 == half]
            missing = ALL & ~sum(1 << lane % 16 for lane in there)
            line = ring.line + (count % ring.depth << ring.wide) + half
            if missing:
                await self.store(line, missing, owner=ring)

    def ring_bell(self, ring, entries):
        """Rings a doorbell in the next cycle."""
        ring.produced = ring.produced + entries & 0xFFFF
        ring.doorbells.append((cycle() + 1, ring.produced))

    async def line(self, line):
        """Returns the parity and the dwords (None where unknown) of a line, read at the next
        edge."""
        dut = self.dut
        dut.line_rd_en.value, dut.line_rd_addr.value = 1, line
        await RisingEdge(dut.clk)
        dut.line_rd_en.value, dut.line_rd_addr.value = 0, 0
        await RisingEdge(dut.clk)
        data, parity = str(dut.line_rd_data.value)[::-1], int(dut.line_rd_parity.value)
        words = [data[at : at + 32][::-1] for at in range(0, 512, 32)]
        return parity, [int(word, 2) if set(word) <= {"0", "1"} else None for word in words]

    async def entry(self, ring, count):
        """Reads a WQE and checks that exactly the written dwords have the parity of its wrap."""
        wrap, found = count >> ring.log & 1, {}
        at = ring.line + (count % ring.depth << ring.wide)
        for half in range(1 + ring.wide):
            parity, words = await self.line(at + half)
            for lane in range(16):
                if parity >> lane & 1 == wrap:
                    found[16 * half + lane] = words[lane]
        wanted = ring.written.get(count, {})
        assert found == wanted, (ring.qpn, count, found, wanted)

    async def take(self, ring):
        """Consumes the oldest WQE, unless a store to its slot is in flight."""
        slot = ring.consumed % ring.depth
        if cycle() - ring.stored.get(slot, -100) < self.latency:
            return False
        ring.taking, count = slot, ring.consumed
        await self.entry(ring, count)
        entire = len(ring.written.pop(count, {})) == 16 << ring.wide
        ring.consumed = count + 1 & 0xFFFF
        self.wrapped |= ring.consumed == 0
        for half in range(0 if entire else 1 + ring.wide):
            line, wrap = ring.line + (slot << ring.wide) + half, count >> ring.log & 1
            await hold(self.dut, "s_void_valid", "s_void_ready", s_void_line=line,
                       s_void_parity=wrap)  # fmt: skip
        await RisingEdge(self.dut.clk)
        ring.taking = None
        return True

    async def check(self):
        await ClockCycles(self.dut.clk, self.latency + 1)
        seen = [(cycle, EVENTS.llq.unpack(raw)) for cycle, raw in self.ev.seen]
        got = [(cycle, e.status, e.line, e.dwords) for cycle, e in seen]
        assert got == self.expected, next(
            pair for pair in zip(got, self.expected, strict=False) if pair[0] != pair[1]
        )
        assert self.err.seen == self.errors


async def taker(bench, rings):
    """Consumes posted WQEs as early as a scheduler can."""
    rng = rng_for("taker")
    while True:
        ring = rng.choice(rings)
        due = ring.consumed != ring.produced and cycle() + 1 >= ring.doorbells[-1][0] + DB_READ
        if not due or rng.random() < 0.3 or not await bench.take(ring):
            await RisingEdge(bench.dut.clk)


@cocotb.test()
async def wqes_are_complete_from_any_pieces(dut):
    """queue.llq.pieces: random stores, doorbells and consumed WQEs, complete or incomplete, are
    correct over wraps."""
    bench = Bench(dut)
    await bench.start()
    rng, last = bench.rng, (1 << len(dut.line_rd_addr)) // PAGE
    rings = [Ring(0, 0, 0), Ring(1, 1, 0, wide=1, start=65534), Ring(9, 7, 1, start=65528),
             Ring(62, 20, 5, wide=1), Ring(63, last - 32, 10, start=31 << 11)]  # fmt: skip
    dead = Ring(30, 40, 3)
    await bench.make(*rings, dead)
    dead.live = 0
    cocotb.start_soon(taker(bench, rings))
    for _ in range(2500):
        ring = rng.choice(rings)
        space = ring.depth - (ring.produced - ring.consumed & 0xFFFF)
        slot = (ring.produced + rng.randrange(3) - (rng.random() < 0.05)) % ring.depth
        line = ring.line + (slot << ring.wide) + rng.randrange(1 + ring.wide)
        dwen = rng.choice((ALL, 0xFF, 0xFF00, rng.getrandbits(16), 1 << rng.randrange(16), 0))
        kind = rng.random()
        if kind < 0.2 and space:
            if rng.random() < 0.8:
                await bench.complete(ring, ring.produced)
            bench.ring_bell(ring, rng.randrange(1, min(space, 2) + 1))
            await RisingEdge(dut.clk)
        elif kind < 0.8 and slot != ring.taking:
            await bench.store(line, dwen, int(dwen == 0 or rng.random() < 0.05), ring)
        elif kind < 0.85:
            owner, line = rng.choice(((ring, ring.line + ring.lines), (None, dead.line),
                                      (None, 50 * PAGE + 3)))  # fmt: skip
            await bench.store(line, dwen, int(dwen == 0), owner)
        else:
            await RisingEdge(dut.clk)
    await bench.check()
    assert {event[1] for event in bench.expected} == {TAKEN, NO_OWNER, POSTED, PARTIAL}
    assert bench.wrapped, "no count wrapped"


@cocotb.test()
async def rings_of_every_depth_begin_at_any_index(dut):
    """queue.llq.depths: stores to rings of every depth have the wrap of their slot and leave posted
    WQEs unchanged, at any producer index, before and after the ring wraps."""
    bench = Bench(dut)
    await bench.start()
    rng = bench.rng
    for log in range(11):
        turn = 2 << log
        ring = Ring(log, 1, log, wide=rng.getrandbits(1), start=rng.randrange(turn, 1 << 16, turn))
        await bench.make(ring)
        first = ring.produced
        while ring.produced - first & 0xFFFF <= ring.depth * 3 // 2 + 4:
            # Few doorbells, also of the longest ring, and stores to some of their WQEs.
            entries = min(ring.depth, rng.randint(1, 1 + ring.depth // 4))
            stored = rng.sample(range(entries), min(entries, 4))
            for slot in [ring.produced + ahead for ahead in stored] + [ring.produced - 1]:
                line = ring.line + (slot % ring.depth << ring.wide) + rng.randrange(1 + ring.wide)
                await bench.store(line, rng.getrandbits(16), owner=ring)
            bench.ring_bell(ring, entries)
            await ClockCycles(dut.clk, max(DB_READ, bench.latency))
            slot = (ring.consumed + rng.randrange(entries)) % ring.depth
            await bench.store(ring.line + (slot << ring.wide), owner=ring)
            await ClockCycles(dut.clk, bench.latency)
            for _ in range(entries):
                assert await bench.take(ring)
        await bench.check()


@cocotb.test()
async def a_store_sees_just_the_doorbells_before_it(dut):
    """queue.llq.order: a store takes effect according to the doorbells before it, for every
    distance to a doorbell of its slot."""
    bench = Bench(dut)
    await bench.start()
    ring = Ring(5, 3, 2)
    bench.rings[5] = ring
    for distance in range(-4, 5):
        await bench.op(ring, own=1)
        ring.begin(0)
        if distance < 0:
            bench.ring_bell(ring, 1)
            await ClockCycles(dut.clk, -distance)
        await bench.store(ring.line, owner=ring)
        if distance >= 0:
            await ClockCycles(dut.clk, distance)
            bench.ring_bell(ring, 1)
        await until(dut, lambda: cycle() + 1 >= ring.doorbells[-1][0] + DB_READ, "time")
        await bench.entry(ring, 0)
        await bench.check()
    assert [event[1] for event in bench.expected] == [POSTED] * 4 + [TAKEN] * 5


@cocotb.test()
async def a_store_behind_a_void_stays(dut):
    """queue.llq.void: a store in any cycle around the void of the previous WQE of its slot is
    kept, at any line."""
    bench = Bench(dut)
    await bench.start()
    rest, last = Ring(18, 8, 10), (1 << len(dut.line_rd_addr)) // PAGE - 1
    bench.rings[18] = rest
    for distance in range(-2, 4):
        for turn in range(10):
            page = bench.rng.choice((5, last, bench.rng.randrange(24, last)))
            ring, busy = Ring(17, page, 2), turn % 2
            await bench.make(ring)
            ring.begin(0)
            # The first WQE lacks some dwords; the WQE of the next wrap has other dwords.
            first, second = (bench.rng.randrange(1, ALL) for _ in range(2))
            await bench.store(ring.line, first, owner=ring)
            bench.ring_bell(ring, 1)
            await ClockCycles(dut.clk, DB_READ + 1)
            await bench.entry(ring, 0)
            ring.written.clear()
            # The clear of another ring uses every second cycle of the write port.
            dut.s_op_valid.value, dut.s_op_own.value, dut.s_op_qpc.value = busy, 0, rest.image
            ring.consumed = 1
            if distance < 0:
                await bench.store(ring.line, second, owner=ring)
                await ClockCycles(dut.clk, -distance - 1)
            void = cocotb.start_soon(hold(dut, "s_void_valid", "s_void_ready",
                                          s_void_line=ring.line, s_void_parity=0))  # fmt: skip
            if distance >= 0:
                await ClockCycles(dut.clk, distance)
                await bench.store(ring.line, second, owner=ring)
            await void
            dut.s_op_valid.value = 0
            await ClockCycles(dut.clk, bench.latency + 2)
            await bench.entry(ring, 4)
            await bench.check()
            await reset(dut)
            bench.ev.seen.clear()
            bench.expected.clear()
            await bench.ready()


@cocotb.test()
async def any_store_beside_a_void_of_another_line(dut):
    """queue.llq.beside: a void of a line that differs in one bit does not change a store in any
    cycle around the void."""
    bench = Bench(dut)
    await bench.start()
    rng, ring = bench.rng, Ring(11, 21, 0)
    for bit in range(len(dut.line_rd_addr)):
        for distance in range(-2, 4):
            await bench.make(ring)
            ring.begin(0)
            await bench.store(ring.line, rng.getrandbits(16), owner=ring)
            await ClockCycles(dut.clk, bench.latency)
            if distance < 0:
                await bench.store(ring.line, rng.getrandbits(16), owner=ring)
                await ClockCycles(dut.clk, -distance - 1)
            await pulse(dut, "s_void_valid", s_void_line=ring.line ^ 1 << bit,
                        s_void_parity=rng.getrandbits(1))  # fmt: skip
            if distance >= 0:
                await ClockCycles(dut.clk, distance)
                await bench.store(ring.line, rng.getrandbits(16), owner=ring)
            await ClockCycles(dut.clk, bench.latency)
            await bench.entry(ring, 0)
    await bench.check()


@cocotb.test()
async def stores_and_reads_keep_their_time(dut):
    """queue.llq.cycles"""
    bench = Bench(dut)
    await bench.start()
    await bench.all_equal()
    ring = Ring(2, 0, 6)
    _, made = await bench.op(ring, own=1)
    bench.rings[2] = ring
    store, read = timing("efa_llq", "store"), timing("efa_llq", "read")
    edges = [await bench.store(line, owner=ring) for line in range(64)]
    assert [b - a for a, b in zip(edges, edges[1:], strict=False)] == [store.interval] * 63
    await bench.check()
    first_wrap = ring.written
    # Read in the cycle of the write and in the next cycle.
    for late in (0, 1):
        ring.begin(ring.consumed + 64)
        edge = await bench.store(7, owner=ring)
        await ClockCycles(dut.clk, store.latency + late - 1)
        if not late:
            ring.written.clear()
        await bench.entry(ring, ring.consumed + 7)
        assert cycle() - edge == store.latency + late + read.latency
    # One line per cycle; the data is stable while no line is read.
    dut.line_rd_en.value = 1
    seen = []
    for line in range(6):
        dut.line_rd_addr.value = line
        await RisingEdge(dut.clk)
        seen.append(str(dut.line_rd_data.value))
    dut.line_rd_en.value = 0
    for line in range(6, 9):
        dut.line_rd_addr.value = line
        await RisingEdge(dut.clk)
        seen.append(str(dut.line_rd_data.value))
    for line in range(6):
        data = int(seen[line + read.latency], 2)
        assert [data >> 32 * lane & 0xFFFFFFFF for lane in range(16)] == [
            first_wrap[line][lane] for lane in range(16)
        ]
    assert seen[6] == seen[7] == seen[8]


@cocotb.test()
@cocotb.parametrize(rate=[0.0, 0.5, 1.0])
async def rings_come_and_go_beside_stores(dut, rate):
    """queue.llq.rings: rings are created, cleared and freed at one line per cycle, alternating
    with voids."""
    bench = Bench(dut)
    await bench.start()
    await bench.all_equal()
    last = (1 << len(dut.line_rd_addr)) // PAGE - 1
    other, unowned = Ring(1, last, 6, start=128), (last - 11) * PAGE
    await bench.make(other)
    promised = timing("efa_llq", "ring")
    stop, voided, slots = [], [], iter(range(1 << 16))

    async def stores():
        while not stop:
            if bench.rng.random() < rate:
                await bench.store(other.line + next(slots) % 64, owner=other)
            else:
                await RisingEdge(dut.clk)

    async def voids():
        # Lines without an owner: the voids have no visible effect.
        while not stop:
            await hold(dut, "s_void_valid", "s_void_ready", s_void_line=unowned, s_void_parity=0)
            voided.append(cycle())
            await ClockCycles(dut.clk, bench.rng.randrange(1, 9))

    flow = [cocotb.start_soon(stores())]
    if rate:
        flow.append(cocotb.start_soon(voids()))
    rings = [Ring(0, 0, 0), Ring(63, 64, 10, wide=rate == 0), Ring(20, 8, 3, wide=1)]
    for ring in rings:
        bench.rings[ring.qpn] = ring
        for own, disown in ((1, 0), (0, 0), (0, 1), (1, 0)):
            first, done = await bench.op(ring, own, disown)
            await ClockCycles(dut.clk, 2 + bench.latency)
            between = sum(first <= at <= done for at in voided)
            assert done - first == promised.latency + (ring.lines - 1) * promised.interval + between
            ring.written.clear()
            ends = [ring.line, ring.line + ring.lines - 1]
            for line in [] if rate else ends + [ring.line + ring.lines]:
                await bench.store(line, 0x0180, owner=None if disown else ring)
            await ClockCycles(dut.clk, bench.latency)
            for count in (0, ring.depth // 2, ring.depth - 1):
                await bench.entry(ring, count)
    stop.append(1)
    for task in flow:
        await task
    await bench.check()
    assert not bench.errors


@cocotb.test()
async def rings_of_every_size_take_their_time(dut):
    """queue.llq.sizes: ring operations of every size take one cycle per line, and two with
    continuous voids."""
    bench = Bench(dut)
    await bench.start()
    await bench.all_equal()
    promised = timing("efa_llq", "ring")
    for log in range(11):
        ring = Ring(4, 8, log, wide=log == 10)
        for voids in (0, 1):
            drive(dut, s_void_valid=voids, s_void_line=0, s_void_parity=0)
            first, done = await bench.op(ring, own=1)
            wanted = promised.latency + (ring.lines - 1) * (promised.interval + voids)
            assert wanted <= done - first <= wanted + voids, (log, done - first)


@cocotb.test()
async def a_void_is_seen_in_its_time(dut):
    """queue.llq.void_time: a void is visible to reads from the specified cycle on and not
    earlier."""
    bench = Bench(dut)
    await bench.start()
    await bench.all_equal()
    ring = Ring(2, 0, 0)
    await bench.op(ring, own=1)
    promised, parity = timing("efa_llq", "void"), 1
    for early in (1, 0):
        parity ^= 1
        _, edge = await hold(dut, "s_void_valid", "s_void_ready", s_void_line=ring.line,
                             s_void_parity=parity)  # fmt: skip
        for _ in range(promised.latency - 1 - early):
            await RisingEdge(dut.clk)
        seen, _ = await bench.line(ring.line)
        assert cycle() - edge == promised.latency - early + timing("efa_llq", "read").latency
        assert seen == 0xFFFF * (parity ^ early)


@cocotb.test()
async def a_ring_on_the_heels_of_the_scan(dut):
    """queue.llq.heels: a ring directly behind the init sweep is cleared at one line per cycle; the
    next ring waits for its own lines.

    Each store delays the sweep by one cycle, at any position of the sweep.
    """
    bench, began = Bench(dut), cycle()
    await bench.start()
    near, half = (cycle() - began) // PAGE + 1, (1 << len(dut.line_rd_addr)) // PAGE // 2
    rings = [Ring(5, near, 8), Ring(6, near + 5, 4), Ring(7, near + 6, 6), Ring(8, half + 1, 7)]
    # The first of these rings has one line and starts in the cycle after the previous ring.
    rings += [Ring(9 + n, half + 4 + n, n) for n in range(6)]
    stored = 0
    for ring in rings:
        bench.rings[ring.qpn] = ring
        _, done = await bench.op(ring, own=1)
        behind = done - began - (ring.line + ring.lines) - stored
        assert behind == HEELS, (ring.qpn, behind)
        if ring.qpn > 8:
            for slot in range(1, 4):
                await bench.store(rings[0].line + slot, owner=rings[0])
                stored += 1
    for ring in rings:
        await bench.store(ring.line, 0x5A0F, owner=ring)
        await ClockCycles(dut.clk, bench.latency)
        for count in range(ring.depth):
            await bench.entry(ring, count)
    # The sweep does not run again.
    for _ in range(3):
        await bench.all_equal()
    for ring in rings:
        await bench.entry(ring, 0)


@cocotb.test()
@cocotb.parametrize(rate=[0.0, 0.7])
async def memories_may_hold_anything_at_power_on(dut, rate):
    """queue.llq.power: rings created before the init sweep passes their lines are correct, also
    while stores delay the sweep."""
    bench, began = Bench(dut), cycle()
    await bench.start()
    last = (1 << len(dut.line_rd_addr)) // PAGE - 1
    other = Ring(1, 0, 6)
    rings = [Ring(5, 7, 8, wide=1), Ring(6, 16, 3), Ring(7, 24, 10), Ring(8, last, 0)]
    await bench.make(other)
    stop = []

    async def stores():
        while not stop:
            if bench.rng.random() < rate:
                await bench.store(other.line + bench.rng.randrange(64), 1, owner=other)
            else:
                await RisingEdge(dut.clk)

    # Stores delay the sweep for the first rings only; the last ring waits for the end of the sweep.
    flow = cocotb.start_soon(stores())
    for ring in rings:
        if ring is rings[-1]:
            stop.append(1)
            await flow
        bench.rings[ring.qpn] = ring
        _, done = await bench.op(ring, own=1)
        await ClockCycles(dut.clk, 2 * bench.latency)
        for count in range(ring.depth):
            await bench.entry(ring, count)
    await bench.store(ring.line, 0x0FF0, owner=ring)
    await ClockCycles(dut.clk, bench.latency)
    await bench.entry(ring, 0)
    assert done - began > rings[-1].line, "the last ring was ready before the sweep passed its line"
    await bench.check()


@cocotb.test()
async def reset_clears_owners_and_stores_under_way(dut):
    """queue.llq.reset: a reset clears owners, a store in each pipeline stage, a store in its cycle
    and a partially created ring."""
    bench = Bench(dut)
    await bench.start()
    ring = Ring(3, 2, 4)
    for gen in range(bench.latency - 1):
        await bench.make(ring)
        await bench.store(ring.line, owner=ring)
        await ClockCycles(dut.clk, gen)
        dut.s_op_valid.value = 1
        await RisingEdge(dut.clk)
        dut.s_op_valid.value = 0
        cocotb.start_soon(pulse(dut, "s_llq_valid", s_llq_line=ring.line, s_llq_dwen=ALL))
        await reset(dut, 1)
        await ClockCycles(dut.clk, 10)
        assert not bench.ev.seen, (
            f"a store took effect although a reset followed {gen + 1} cycles later"
        )
        await bench.ready()
        bench.expected.clear()
        ring.written.clear()
        await bench.store(ring.line, owner=None)
        await bench.make(ring)
        await bench.store(ring.line + 15, 0xF, owner=ring)
        await bench.check()
        for count in (0, 14, 15):
            await bench.entry(ring, count)
        ring.written.clear()
        bench.ev.seen.clear()
        bench.expected.clear()
    pages = range((1 << len(dut.line_rd_addr)) // PAGE)
    await bench.make(*(Ring(1, page, 0) for page in pages))
    await reset(dut, 1)
    await bench.ready()
    for page in pages:
        await bench.store(page * PAGE)
    await bench.check()
