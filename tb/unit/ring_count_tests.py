# SPDX-License-Identifier: Apache-2.0
"""Tests efa_ring_count: every lookup returns the newest count, in every order of cycles."""

from itertools import product

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from tb.lib.stream import clock_and_reset, cycle, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, high, rises, until, zero
from tb.unit.queue_bench import RefCounts, lanes

IDLE = 3  # an update that many cycles ago or more has no stage left


class Bench:
    """Drives sets, clears and lookups, one choice a cycle, and checks each lookup."""

    def __init__(self, dut):
        self.dut, self.rng, self.ref = dut, rng_for("ring_count"), RefCounts()
        self.width, self.reads = len(dut.s_set_count), int(dut.READS.value)
        self.ring_w = len(dut.s_set_ring)
        self.rings = range(1 << self.ring_w)
        self.shown = None
        self.ages = {}  # ring: cycles since its last set and its last clear
        self.seen = set()  # (age of the set, age of the clear) at a lookup

    async def start(self):
        zero(self.dut, "s_set_valid", "s_clear_valid", "count_rd_addr")
        await clock_and_reset(self.dut)
        await until(self.dut, high(self.dut.m_init_done))

    async def step(self, new=None, cleared=None, read=None):
        """One cycle; `read` are the rings of the readers, the first ring of `new` without it."""
        dut = self.dut
        read = list(read or [self.rng.choice(self.rings) for _ in range(self.reads)])
        drive(dut, s_set_valid=int(new is not None), s_clear_valid=int(cleared is not None))
        # The payload of an invalid port is don't-care: often that of the ring that is read.
        ring, count = new or (self.rng.choice(read), self.rng.getrandbits(self.width))
        drive(dut, s_set_ring=ring, s_set_count=count)
        dut.s_clear_ring.value = self.rng.choice(read) if cleared is None else cleared
        dut.count_rd_addr.value = lanes(read, self.ring_w)
        await RisingEdge(dut.clk)
        self.check()
        self.ref.update(new, cleared)
        self.shown = lanes([self.ref[one] for one in read], self.width)
        for ages in self.ages.values():
            ages[:] = [age + 1 for age in ages]
        for at, one in enumerate((new and new[0], cleared)):
            if one is not None:
                self.ages.setdefault(one, [IDLE, IDLE])[at] = 0
        for one in read:
            ages = self.ages.get(one, (IDLE, IDLE))
            self.seen.add(tuple(min(age, IDLE) for age in ages))

    def check(self):
        if self.shown is not None:
            assert self.dut.count_rd_data.value == self.shown, f"edge {cycle()}"

    async def read_all(self):
        for ring in self.rings:
            await self.step(read=[ring ^ lane for lane in range(self.reads)])
        await self.step()


@cocotb.test()
@cocotb.parametrize((("sets", "clears"), [(0.6, 0.4), (1.0, 0.1), (0.3, 1.0)]))
async def lookups_return_the_newest_count(dut, sets, clears):
    """queue.ring_count.order: random sets, clears and lookups of few rings and of all, one of each
    per cycle, in every order of up to four cycles."""
    bench = Bench(dut)
    await bench.start()
    rng = bench.rng
    for at in range(4000):
        if at % 40 == 0:
            # Two rings that differ in one bit, and sometimes all rings.
            one = rng.choice(bench.rings)
            pool = [one, one, one ^ 1 << rng.randrange(bench.ring_w)]
            pool = list(bench.rings) if at % 400 == 0 else pool
        new = (rng.choice(pool), rng.getrandbits(bench.width)) if rng.random() < sets else None
        cleared = rng.choice(pool) if rng.random() < clears else None
        await bench.step(new, cleared, [rng.choice(pool) for _ in range(bench.reads)])
    await bench.step()
    assert bench.seen == set(product(range(IDLE + 1), repeat=2))


@cocotb.test()
async def every_order_of_updates(dut):
    """queue.ring_count.collisions: all sequences of four cycles, each with or without a set and a
    clear, read in each cycle and after them."""
    bench = Bench(dut)
    await bench.start()
    ring, lone = bench.rng.sample(bench.rings, 2)
    steps = list(product((0, 1), repeat=2))
    for sequence in product(steps, repeat=4):
        for sets, clears in sequence:
            new = (ring, bench.rng.randrange(1, 1 << bench.width)) if sets else None
            await bench.step(new, ring if clears else None, [ring] * bench.reads)
        for _ in range(2):
            await bench.step(None, None, [ring] * bench.reads)
        # The next sequence begins with either state of the marks and a count that is not 0.
        await bench.step((ring, 5), lone if bench.rng.getrandbits(1) else None)


@cocotb.test()
async def rings_are_independent(dut):
    """queue.ring_count.rings: each ring has its own count; a set or clear of one ring changes no
    other ring, in cycles with updates of others too."""
    bench = Bench(dut)
    await bench.start()
    for ring in bench.rings:
        await bench.step((ring, bench.rng.randrange(1, 1 << bench.width)))
    await bench.read_all()
    for bit in range(bench.ring_w):
        for value in range(2):
            for ring in bench.rings:
                cleared = ring if ring >> bit & 1 == value else None
                other = ring ^ 1 << bit
                new = (other, bench.rng.randrange(1, 1 << bench.width)) if cleared else None
                await bench.step(new, cleared)
            await bench.read_all()


@cocotb.test()
async def counts_have_every_bit(dut):
    """queue.ring_count.bits: each bit of a count is stored and forwarded, through the wrap of the
    count."""
    bench = Bench(dut)
    await bench.start()
    ring, top = bench.rng.choice(bench.rings), 1 << bench.width
    for count in (*(1 << bit for bit in range(bench.width)), *range(top - 3, top), 0, 1, 2):
        await bench.step((ring, count), None, [ring] * bench.reads)
        for _ in range(bench.rng.randrange(4)):
            await bench.step(None, None, [ring] * bench.reads)
    await bench.step()


@cocotb.test()
async def cycles(dut):
    """queue.ring_count.cycles: a lookup has its specified latency and includes the set or clear of
    its cycle; the init sweep takes its specified time."""
    bench = Bench(dut)
    zero(dut, "s_set_valid", "s_clear_valid", "count_rd_addr")
    await clock_and_reset(dut)
    sweep = timing("efa_ring_count", "init")
    assert sweep.depth == 64
    await rises(dut, dut.m_init_done, sweep.latency << bench.ring_w >> 6)
    lookup, ring = timing("efa_ring_count", "lookup"), bench.rng.choice(bench.rings)
    dut.count_rd_addr.value = lanes([ring] * bench.reads, bench.ring_w)
    for update in ("s_set", "s_clear", "s_set"):
        drive(dut, **{f"{update}_valid": 1, f"{update}_ring": ring, "s_set_count": 77})
        await RisingEdge(dut.clk)
        zero(dut, f"{update}_valid")
        await ClockCycles(dut.clk, lookup.latency)
        for _ in range(4):
            count = 77 if update == "s_set" else 0
            assert dut.count_rd_data.value == lanes([count] * bench.reads, bench.width)
            await RisingEdge(dut.clk)


@cocotb.test()
async def reset_clears_every_count(dut):
    """queue.ring_count.reset: after a reset in any cycle around a set or clear, or within the init
    sweep, every count is 0."""
    bench = Bench(dut)
    await bench.start()
    for lead in range(6):
        for ring in bench.rings:
            await bench.step((ring, bench.rng.getrandbits(bench.width)),
                             bench.rng.choice(bench.rings))  # fmt: skip
        for _ in range(lead % 3):
            await bench.step()
        if lead >= 3:
            # A reset in the middle of the init sweep starts it again.
            dut.s_set_valid.value = dut.s_clear_valid.value = 0
            await reset(dut, 1)
            await ClockCycles(dut.clk, bench.rng.randrange(1 << bench.ring_w))
        dut.rst.value = 1
        await RisingEdge(dut.clk)
        zero(dut, "s_set_valid", "s_clear_valid")
        await reset(dut, 1)
        await until(dut, high(dut.m_init_done))
        bench.ref, bench.shown, bench.ages = RefCounts(), None, {}
        await bench.read_all()
