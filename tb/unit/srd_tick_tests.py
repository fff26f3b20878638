# SPDX-License-Identifier: Apache-2.0
"""Tests efa_srd_tick: the ticks of the reliable transport."""

import cocotb
from cocotb.triggers import RisingEdge

from tb.lib.stream import clock_and_reset, reset, rng_for
from tb.lib.waits import drive


@cocotb.test()
@cocotb.parametrize(cycles=[1, 2, 3, 16, 255, 256])
async def ticks_last_the_cycles_of_the_strap(dut, cycles):
    """transport.srd_tick.time: A tick lasts the cycles of the strap, 256 for 0; the first one
    begins after a reset."""
    rng = rng_for(f"time {cycles}")
    drive(dut, s_cfg_tick=cycles % 256)
    await clock_and_reset(dut)
    for _ in range(4):
        # The reset ends with the edge of the first cycle.
        for passed in range(1, 3 * cycles + rng.randrange(cycles)):
            await RisingEdge(dut.clk)
            assert dut.m_tick.value == (passed % cycles == cycles - 1), passed
        await reset(dut, rng.randrange(1, 4))
