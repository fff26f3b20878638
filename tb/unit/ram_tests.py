# SPDX-License-Identifier: Apache-2.0
"""Tests efa_ram: reads return written words, a read during a write the old word; data holds until
the next read."""

import cocotb
from cocotb.triggers import RisingEdge

from tb.lib.stream import rng_for, start_clock
from tb.lib.timing import timing


@cocotb.test()
async def words(dut):
    """common.ram.words: Random writes and reads match a plain memory, including the cycle of the
    data."""
    rng = rng_for("ram")
    count, width = 1 << len(dut.wr_addr), len(dut.wr_data)
    assert timing("efa_ram", "read").latency == 1
    start_clock(dut.clk)
    await RisingEdge(dut.clk)
    memory, shown = {}, None
    for step in range(80 * count):
        addr = step if step < count else rng.randrange(count)
        write, data = step < count or rng.random() < 0.7, rng.getrandbits(width)
        read, where = step >= count and rng.random() < 0.7, rng.choice((addr, rng.randrange(count)))
        dut.wr_en.value, dut.wr_addr.value, dut.wr_data.value = int(write), addr, data
        dut.rd_en.value, dut.rd_addr.value = int(read), where
        await RisingEdge(dut.clk)
        if shown is not None:
            assert dut.rd_data.value == shown
        if read:
            shown = memory[where]
        if write:
            memory[addr] = data
