# SPDX-License-Identifier: Apache-2.0
"""Tests efa_sq_index: three counts of each send ring, each with its writer and its readers."""

import cocotb
from cocotb.triggers import RisingEdge

from tb.lib.stream import clock_and_reset, cycle, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, high, until, zero
from tb.unit.queue_bench import RefCounts, lanes

READERS = {"prod": 3, "consumed": 3, "completed": 4}
COUNTS = tuple(READERS)
WRAP = 65536
LOOKUP = timing("efa_sq_index", "lookup")


class Bench:
    """Drives updates, clears and all ten readers, and checks each lookup."""

    def __init__(self, dut):
        self.dut, self.rng, self.qpn_w = dut, rng_for("sq_index"), len(dut.s_clear_qpn)
        self.qpns = range(1 << self.qpn_w)
        self.forget()

    def forget(self):
        self.ref = {name: RefCounts() for name in COUNTS}
        self.shown = None

    async def start(self):
        names = [f"s_{name}_valid" for name in (*COUNTS, "clear")]
        zero(self.dut, *names, *(f"{name}_rd_addr" for name in COUNTS))
        await clock_and_reset(self.dut)
        await until(self.dut, high(self.dut.m_init_done))

    async def step(self, new=None, cleared=None, pool=None):
        """One cycle; `new` is {name: (qpn, count)}, the readers look up rings of the pool."""
        dut, rng, new = self.dut, self.rng, new or {}
        pool = pool or self.qpns
        read = {name: [rng.choice(pool) for _ in range(count)] for name, count in READERS.items()}
        for name in COUNTS:
            qpn, count = new.get(name, (rng.choice(pool), rng.randrange(WRAP)))
            drive(dut, **{f"s_{name}_valid": int(name in new), f"s_{name}_qpn": qpn,
                          f"s_{name}_count": count,
                          f"{name}_rd_addr": lanes(read[name], self.qpn_w)})  # fmt: skip
        dut.s_clear_valid.value = int(cleared is not None)
        dut.s_clear_qpn.value = rng.choice(pool) if cleared is None else cleared
        await RisingEdge(dut.clk)
        if self.shown is not None:
            for name, value in self.shown.items():
                assert getattr(dut, f"{name}_rd_data").value == value, (name, cycle())
        for name in COUNTS:
            self.ref[name].update(new.get(name), cleared)
        self.shown = {name: lanes([self.ref[name][qpn] for qpn in read[name]], 16)
                      for name in COUNTS}  # fmt: skip

    def advance(self, name, qpn, most=3):
        """Returns the next count of a ring, as its module writes it."""
        return qpn, (self.ref[name][qpn] + self.rng.randrange(1, most + 1)) % WRAP


@cocotb.test()
@cocotb.parametrize(rate=[0.4, 1.0])
async def every_reader_sees_every_count(dut, rate):
    """queue.sq_index.order: three counts advance at once, back to back too, beside clears; each of
    the readers returns the counts of its cycle."""
    bench = Bench(dut)
    await bench.start()
    rng = bench.rng
    for at in range(3000):
        if at % 60 == 0:
            one = rng.choice(bench.qpns)
            pool = [one, one, one ^ 1 << rng.randrange(bench.qpn_w)]
            pool = bench.qpns if at % 600 == 0 else pool
        new = {name: bench.advance(name, rng.choice(pool))
               for name in COUNTS if rng.random() < rate}  # fmt: skip
        await bench.step(new, rng.choice(pool) if rng.random() < 0.1 else None, pool)
    await bench.step()


@cocotb.test()
async def counts_and_rings_are_independent(dut):
    """queue.sq_index.own: an update changes its own count of its own ring only; a clear resets the
    three counts of its ring only."""
    bench = Bench(dut)
    await bench.start()
    for qpn in bench.qpns:
        await bench.step({name: (qpn, bench.rng.randrange(1, WRAP)) for name in COUNTS})
    for qpn in bench.rng.sample(bench.qpns, 16):
        for name in COUNTS:
            await bench.step({name: bench.advance(name, qpn, WRAP - 1)}, pool=[qpn, qpn ^ 1])
            await bench.step(pool=[qpn, qpn ^ 1])
        await bench.step(cleared=qpn, pool=[qpn, qpn ^ 1])
        for _ in range(3):
            await bench.step(pool=[qpn, qpn ^ 1])
    for _ in range(4):
        for _ in bench.qpns:
            await bench.step()


@cocotb.test()
async def counts_wrap(dut):
    """queue.sq_index.wrap: each count continues at 0 after 65,535."""
    bench = Bench(dut)
    await bench.start()
    qpn = bench.rng.choice(bench.qpns)
    await bench.step({name: (qpn, WRAP - 20 - at) for at, name in enumerate(COUNTS)}, pool=[qpn])
    for _ in range(60):
        await bench.step({name: bench.advance(name, qpn, 1) for name in COUNTS}, pool=[qpn])
    assert all(0 < bench.ref[name][qpn] < 100 for name in COUNTS)
    await bench.step(pool=[qpn])


@cocotb.test()
async def a_clear_is_never_delayed(dut):
    """queue.sq_index.clear: a clear in each cycle, beside updates of all counts, has its effect at
    once; the lookup has its specified latency."""
    bench = Bench(dut)
    await bench.start()
    # step() compares each lookup with the counts one cycle later.
    assert LOOKUP.latency == LOOKUP.interval == 1
    busy, cleared = bench.rng.sample(bench.qpns, 2)
    for at in range(200):
        new = {name: bench.advance(name, busy) for name in COUNTS}
        if at % 7 == 0:
            name = bench.rng.choice(COUNTS)
            new[name] = bench.advance(name, cleared)
        await bench.step(new, cleared, [busy, cleared])
    await bench.step()


@cocotb.test()
async def reset_clears_every_count(dut):
    """queue.sq_index.reset: after a reset within updates and clears every count is 0."""
    bench = Bench(dut)
    await bench.start()
    for lead in range(4):
        for qpn in bench.qpns:
            cleared = bench.rng.choice((None, qpn))
            await bench.step({name: (qpn, bench.rng.randrange(WRAP)) for name in COUNTS}, cleared)
        for _ in range(lead):
            await bench.step()
        dut.rst.value = 1
        await RisingEdge(dut.clk)
        zero(dut, *(f"s_{name}_valid" for name in (*COUNTS, "clear")))
        await reset(dut, 1)
        await until(dut, high(dut.m_init_done))
        bench.forget()
        for _ in range(1 << bench.qpn_w):
            await bench.step()
