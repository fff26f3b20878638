# SPDX-License-Identifier: Apache-2.0
"""Tests efa_skid: order, latency and rate at any pace of both sides, registered paths."""

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge, Timer

from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing


def words(count):
    rng = rng_for("words")
    return [{"data": rng.getrandbits(8)} for _ in range(count)]


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0), (0.0, 0.7), (0.7, 0.0), (0.4, 0.4)])
async def order(dut, pace):
    """common.skid.order: Items leave in order at any rate; each was announced."""
    src, snk = StreamDriver(dut, "s", pace[0]), StreamMonitor(dut, "m", pace[1], ["data"])
    await clock_and_reset(dut)
    cocotb.start_soon(announced(dut))
    sent = words(200)
    src.post(*sent)
    assert await snk.take(len(sent)) == sent


async def announced(dut):
    """Checks that m_next_data was the item that followed."""
    following = None
    while True:
        await RisingEdge(dut.clk)
        if following is not None and dut.m_valid.value == 1:
            assert dut.m_data.value == following
        moves = dut.m_valid.value == 0 or dut.m_ready.value == 1
        following = dut.m_next_data.value if moves else None


@cocotb.test()
async def rate(dut):
    """common.skid.rate: Items pass at one per cycle with the specified latency."""
    promised = timing("efa_skid", "beat")
    assert promised.interval == 1
    dut.s_valid.value = 1
    dut.m_ready.value = 1
    await clock_and_reset(dut)
    for cycle in range(20):
        dut.s_data.value = cycle
        await RisingEdge(dut.clk)
        assert dut.s_ready.value == 1
        if cycle >= promised.latency:
            assert dut.m_valid.value == 1 and dut.m_data.value == cycle - promised.latency


@cocotb.test()
async def cut(dut):
    """common.skid.cut: Neither side depends combinationally on the other."""
    dut.s_valid.value = 0
    dut.m_ready.value = 0
    await clock_and_reset(dut)
    await Timer(1, "ns")
    dut.s_valid.value = 1
    await Timer(100, "ps")
    assert dut.m_valid.value == 0
    await FallingEdge(dut.clk)
    await Timer(1, "ns")
    assert dut.m_valid.value == 0, "m_valid changed at the falling edge"
    await RisingEdge(dut.clk)
    for consumed in (1, 2):
        await Timer(1, "ns")
        assert dut.m_valid.value == 1, "m_valid depends on m_ready"
        assert dut.s_ready.value == int(consumed < 2), f"s_ready with {consumed} items"
        await FallingEdge(dut.clk)
        await Timer(1, "ns")
        assert dut.s_ready.value == int(consumed < 2), "s_ready changed at the falling edge"
        await RisingEdge(dut.clk)
    await ClockCycles(dut.clk, 4)
    await Timer(1, "ns")
    assert dut.s_ready.value == 0
    dut.m_ready.value = 1
    await Timer(100, "ps")
    assert dut.s_ready.value == 0


@cocotb.test()
@cocotb.parametrize(cycles=[1, 4])
async def reset_in_traffic(dut, cycles):
    """common.skid.reset: A reset discards the items."""
    src, snk = StreamDriver(dut, "s"), StreamMonitor(dut, "m", 1.0)
    await clock_and_reset(dut)
    src.post(*words(6))
    await ClockCycles(dut.clk, 6)
    src.clear()
    await reset(dut, cycles)
    await snk.none(4)
    assert dut.m_valid.value == 0 and dut.s_ready.value == 1
