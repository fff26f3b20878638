# SPDX-License-Identifier: Apache-2.0
"""Tests efa_srd_quiet: the quiet time after a reset."""

import cocotb
from cocotb.triggers import RisingEdge

from tb.lib.stream import rng_for, start_clock
from tb.lib.waits import drive

TICK_CYCLES = 5


class RefModel:
    """Models the quiet time; checks the output at each edge outside of a reset."""

    def __init__(self, dut):
        self.dut, self.cycles = dut, int(dut.TICKS.value) * TICK_CYCLES
        drive(dut, s_cfg_tick=TICK_CYCLES)
        self.left, self.is_power_on, self.ends = 0, False, 0

    async def step(self, rst=0, rst_por=0, cycles=1):
        for _ in range(cycles):
            drive(self.dut, rst=rst, rst_por=rst_por)
            await RisingEdge(self.dut.clk)
            self.is_power_on = bool(rst_por) or (self.is_power_on and bool(rst))
            if rst:
                self.left = 0 if self.is_power_on else self.cycles
                continue
            assert self.dut.m_quiet.value == (self.left > 0), f"{self.left} cycles are left"
            self.ends += self.left == 1
            self.left = max(self.left - 1, 0)


async def start(dut, longer=0):
    """Powers the module on; rst lasts `longer` cycles more than rst_por."""
    start_clock(dut.clk)
    ref = RefModel(dut)
    await ref.step(rst=1, rst_por=1, cycles=4)
    await ref.step(rst=1, cycles=longer)
    return ref


@cocotb.test()
@cocotb.parametrize(longer=[0, 1, 7])
async def none_after_power_on(dut, longer):
    """transport.srd_quiet.power_on: A power-on gives no quiet time, also if rst lasts longer; the
    next reset gives one."""
    ref = await start(dut, longer)
    await ref.step(cycles=ref.cycles + 3)
    assert ref.ends == 0
    await ref.step(rst=1)
    await ref.step(cycles=ref.cycles + 3)
    assert ref.ends == 1


@cocotb.test()
async def exact_after_a_reset(dut):
    """transport.srd_quiet.time: The quiet time lasts exactly its cycles after a reset of any
    length, and is over until the next one."""
    ref = await start(dut)
    for length in (1, 2, 5, ref.cycles + 9):
        await ref.step(cycles=3)
        await ref.step(rst=1, cycles=length)
        await ref.step(cycles=2 * ref.cycles + 5)
    assert ref.ends == 4


@cocotb.test()
async def a_reset_within_the_quiet_time(dut):
    """transport.srd_quiet.again: A reset within the quiet time starts it anew; a power-on ends
    it."""
    ref = await start(dut)
    for passed in (0, 1, 2, ref.cycles // 2, ref.cycles - 1, ref.cycles):
        await ref.step(rst=1, cycles=2)
        await ref.step(cycles=passed)
    await ref.step(rst=1)
    await ref.step(cycles=ref.cycles + 1)
    assert ref.ends == 2
    for longer in (0, 3):
        await ref.step(rst=1)
        await ref.step(cycles=2)
        await ref.step(rst=1, rst_por=1)
        await ref.step(rst=1, cycles=longer)
        await ref.step(cycles=ref.cycles + 1)
    assert ref.ends == 2


@cocotb.test()
async def random_resets(dut):
    """transport.srd_quiet.random: Random resets and power-ons."""
    ref, rng = await start(dut), rng_for("random")
    for _ in range(300):
        rst_por = int(rng.random() < 0.3)
        await ref.step(rst=1, rst_por=rst_por, cycles=rng.randrange(1, 4))
        if rng.random() < 0.5:
            await ref.step(rst=1, cycles=rng.randrange(1, 4))
        await ref.step(cycles=rng.choice((1, 2, rng.randrange(1, ref.cycles), ref.cycles + 2)))
    assert ref.ends > 20
