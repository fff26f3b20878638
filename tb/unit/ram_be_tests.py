# SPDX-License-Identifier: Apache-2.0
"""Tests efa_ram_be: write lanes, read during write, read data held without a read."""

import cocotb
from cocotb.triggers import RisingEdge, Timer

from tb.lib.stream import rng_for
from tb.lib.timing import timing


@cocotb.test()
async def lanes(dut):
    """common.ram_be.lanes: Lane writes and reads match a plain memory; a read during a write
    returns the old word."""
    rng = rng_for("ram")
    assert timing("efa_ram_be", "read").latency == 1
    width, lanes = int(dut.WIDTH.value), int(dut.LANES.value)
    words, lane_w = 1 << int(dut.ADDR_W.value), width // lanes
    cocotb.start_soon(clock(dut))
    memory, shown = {}, None
    for step in range(120 * words):
        addr = step % words if step < words else rng.randrange(words)
        chosen = (1 << lanes) - 1 if step < words else rng.getrandbits(lanes)
        write, data = step < words or rng.random() < 0.7, rng.getrandbits(width)
        read, where = rng.random() < 0.7 and step > words, rng.choice([addr, rng.randrange(words)])
        dut.wr_en.value, dut.wr_lanes.value = int(write), chosen
        dut.wr_addr.value, dut.wr_data.value = addr, data
        dut.rd_en.value, dut.rd_addr.value = int(read), where
        await RisingEdge(dut.clk)
        if read:
            shown = memory[where]
        if write:
            mask = sum(((1 << lane_w) - 1) << lane_w * i for i in range(lanes) if chosen >> i & 1)
            memory[addr] = (memory.get(addr, 0) & ~mask) | (data & mask)
        await Timer(1, "ns")
        if shown is not None:
            assert dut.rd_data.value == shown


async def clock(dut):
    while True:
        dut.clk.value = 0
        await Timer(2, "ns")
        dut.clk.value = 1
        await Timer(2, "ns")
