# SPDX-License-Identifier: Apache-2.0
"""Tests efa_wr_arb: two sources of single-beat writes, each in order, none starved."""

import cocotb
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge

from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0), (0.7, 0.2), (0.2, 0.8)])
async def both_get_through_in_order(dut, pace):
    """common.wr_arb.order: Writes of both sources leave in order; an offered write stays
    unchanged."""
    gaps, stalls = pace
    rng = rng_for("wr_arb")
    sources = {n: StreamDriver(dut, f"s_{n}", max(gaps, 0.4)) for n in ("first", "second")}
    out = StreamMonitor(dut, "m_wr", stalls)
    await clock_and_reset(dut)
    due = {name: [] for name in sources}
    for number, (name, source) in enumerate(sources.items()):
        for _ in range(150):
            beat = {"data": 2 * rng.getrandbits(len(dut.m_wr_data) - 1) + number}
            due[name].append(beat)
            source.post(beat)
    got = await out.take(300)
    assert [beat for beat in got if not beat["data"] & 1] == due["first"]
    assert [beat for beat in got if beat["data"] & 1] == due["second"]


@cocotb.test()
async def same_cycle_and_reset(dut):
    """common.wr_arb.time: A write passes in the same cycle; a reset removes an offered write
    without trace."""
    assert timing("efa_wr_arb", "write").latency == 0
    drive(dut, s_first_valid=0, s_first_data=0, s_second_valid=0, s_second_data=1, m_wr_ready=0)
    await clock_and_reset(dut)
    dut.s_second_valid.value = 1
    await ReadOnly()
    assert dut.m_wr_valid.value == 1 and int(dut.m_wr_data.value) == 1
    await RisingEdge(dut.clk)
    dut.rst.value = 1
    await ClockCycles(dut.clk, 2)
    drive(dut, rst=0, s_first_valid=1, s_second_valid=1)
    await ReadOnly()
    assert dut.m_wr_valid.value == 1 and int(dut.m_wr_data.value) == 0
