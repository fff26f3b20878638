# SPDX-License-Identifier: Apache-2.0
"""Tests efa_fifo: order, free space, level, latency, reset."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge, Timer

from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing


def depth(dut):
    return 1 << int(dut.DEPTH_LOG2.value)


def words(count):
    rng = rng_for("words")
    return [{"data": rng.getrandbits(8)} for _ in range(count)]


def idle(dut):
    dut.s_valid.value = 0
    dut.s_data.value = 0
    dut.m_ready.value = 0


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0), (0.0, 0.7), (0.7, 0.0), (0.3, 0.4)])
async def order(dut, pace):
    """common.fifo.order"""
    src, snk = StreamDriver(dut, "s", pace[0]), StreamMonitor(dut, "m", pace[1], ["data"])
    await clock_and_reset(dut)
    sent = words(6 * depth(dut) + 3)
    src.post(*sent)
    assert await snk.take(len(sent)) == sent
    await ClockCycles(dut.clk, 4)
    assert dut.m_level.value == 0 and dut.m_valid.value == 0


@cocotb.test()
async def fill(dut):
    """common.fifo.full: the FIFO accepts exactly its depth and reports the correct level."""
    idle(dut)
    await clock_and_reset(dut)
    dut.s_valid.value = 1
    consumed = 0
    for _ in range(depth(dut) + 8):
        await RisingEdge(dut.clk)
        consumed += int(dut.s_ready.value)
    assert consumed == depth(dut)
    await Timer(1, "ns")
    assert dut.m_level.value == depth(dut) and dut.s_ready.value == 0
    assert dut.m_valid.value == 1, "m_valid must not depend on m_ready"


@cocotb.test()
async def rate(dut):
    """common.fifo.rate: the FIFO passes one item per cycle at the specified latency."""
    idle(dut)
    await clock_and_reset(dut)
    dut.m_ready.value = 1
    dut.s_valid.value = 1
    size = "small" if int(dut.DEPTH_LOG2.value) <= 5 else "large"
    latency, out = timing("efa_fifo", size).latency, 0
    for cycle in range(50):
        dut.s_data.value = cycle
        await RisingEdge(dut.clk)
        assert dut.s_ready.value == 1
        if dut.m_valid.value == 1:
            assert dut.m_data.value == out, (cycle, out)
            out += 1
        assert out == max(0, cycle + 1 - latency)


@cocotb.test()
async def reset_in_traffic(dut):
    """common.fifo.reset"""
    src, snk = StreamDriver(dut, "s"), StreamMonitor(dut, "m", 0.9, ["data"])
    await clock_and_reset(dut)
    src.post(*words(3 * depth(dut)))
    await ClockCycles(dut.clk, depth(dut) + 2)
    src.clear()
    await reset(dut)
    snk.beats.clear()
    await snk.none(3)
    sent = words(5)
    src.post(*sent)
    assert await snk.take(5) == sent
