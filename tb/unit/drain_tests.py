# SPDX-License-Identifier: Apache-2.0
"""Tests efa_drain: one unit at a time, engines in order, only the completion engine for a late
drain."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from tb.lib.bundles import Bundles
from tb.lib.round_robin import RoundRobin
from tb.lib.stream import StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, high, low, until

ENGINES = ("send", "recv", "cpl")


class Bench:
    """Models the requesting units and the three engines around efa_drain."""
    def __init__(self, dut, stalls):
        dut = Bundles(dut).lanes("m_drain", ENGINES)
        self.dut, self.units, self.done, self.said = dut, int(dut.UNITS.value), [], []
        drive(dut, s_drain_valid=0, s_drain_late=0)
        self.engines = [StreamMonitor(
            dut, "m_drain_" + name, stalls, [], lambda _, name=name: self.said.append(name)
        ) for name in ENGINES]  # fmt: skip
        cocotb.start_soon(self.watch())

    async def watch(self):
        """Checks that one requesting unit is acknowledged at a time, in round-robin order."""
        dut, turns, unit = self.dut, RoundRobin(self.units), 0
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value != 0:
                turns.reset()
                continue
            busy = sum(int(getattr(dut, f"m_drain_{name}_valid").value) for name in ENGINES)
            assert busy <= 1, "drains of two engines at once"
            ready, requested = int(dut.s_drain_ready.value), int(dut.s_drain_valid.value)
            if requested and not busy and not ready:
                unit = turns.next(requested)
            if ready:
                assert ready == 1 << unit and ready & requested
                self.done.append((unit, tuple(self.said)))
                self.said.clear()
                dut.s_drain_valid.value = requested & ~ready


@cocotb.test()
@cocotb.parametrize(stalls=[0.0, 0.8])
async def each_unit_gets_a_whole_drain(dut, stalls):
    """admin.drain.order"""
    bench, rng = Bench(dut, stalls), rng_for("drain")
    await clock_and_reset(dut)
    for _ in range(60):
        requested, late = rng.randrange(1, 1 << bench.units), rng.getrandbits(bench.units)
        drive(dut, s_drain_valid=requested, s_drain_late=late)
        await RisingEdge(dut.clk)
        await until(dut, low(dut.s_drain_valid))
        assert sorted(unit for unit, _ in bench.done) == [
            unit for unit in range(bench.units) if requested >> unit & 1
        ]
        for unit, said in bench.done:
            assert said == (ENGINES[2:] if late >> unit & 1 else ENGINES)
        bench.done.clear()
        await ClockCycles(dut.clk, rng.randrange(3))


@cocotb.test()
async def no_client_starves(dut):
    """admin.drain.fair"""
    bench = Bench(dut, 0.3)
    await clock_and_reset(dut)
    every = (1 << bench.units) - 1
    for _ in range(200):
        dut.s_drain_valid.value = every
        await RisingEdge(dut.clk)
    turns = [unit for unit, _ in bench.done]
    assert len(turns) >= 3 * bench.units
    for at in range(len(turns) - bench.units + 1):
        assert len(set(turns[at : at + bench.units])) == bench.units


@cocotb.test()
async def its_cycles(dut):
    """admin.drain.time: with immediate engine responses a drain takes the specified cycles."""
    drive(dut, s_drain_valid=0, s_drain_late=0, m_drain_ready=(1 << len(ENGINES)) - 1)
    await clock_and_reset(dut)
    for late, path in ((0, "all_engines"), (1, "completions")):
        drive(dut, s_drain_valid=1, s_drain_late=late)
        await RisingEdge(dut.clk)
        cycles = await until(dut, high(dut.s_drain_ready))
        assert cycles == timing("efa_drain", path).latency
        dut.s_drain_valid.value = 0
        await RisingEdge(dut.clk)


@cocotb.test()
async def reset_in_a_drain(dut):
    """admin.drain.reset"""
    bench = Bench(dut, 0.5)
    await clock_and_reset(dut)
    for wait in range(1, 12):
        drive(dut, s_drain_valid=2, s_drain_late=0)
        await ClockCycles(dut.clk, wait)
        dut.s_drain_valid.value = 0
        await reset(dut)
        await ClockCycles(dut.clk, 4)
        assert dut.m_drain_valid.value == 0
        assert dut.s_drain_ready.value == 0
        bench.said.clear()
        bench.done.clear()
