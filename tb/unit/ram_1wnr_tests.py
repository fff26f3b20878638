# SPDX-License-Identifier: Apache-2.0
"""Tests efa_ram_1wnr: every read port reads every word in the same cycle."""

import cocotb
from cocotb.triggers import RisingEdge

from tb.lib.stream import rng_for, start_clock
from tb.lib.timing import timing


def lanes(words, width):
    """Packs words side by side, the first in the lowest bits."""
    return sum(word << width * n for n, word in enumerate(words))


@cocotb.test()
async def readers(dut):
    """common.ram_1wnr.readers: Each read port matches a plain memory at its own address."""
    rng = rng_for("ram_1wnr")
    reads, addr_w, width = int(dut.READS.value), len(dut.wr_addr), len(dut.wr_data)
    count = 1 << addr_w
    assert timing("efa_ram_1wnr", "read").latency == 1
    start_clock(dut.clk)
    # The clock may rise before the first inputs take effect.
    await RisingEdge(dut.clk)
    memory, shown = {}, None
    for step in range(80 * count):
        addr, data = step if step < count else rng.randrange(count), rng.getrandbits(width)
        write = int(step < count or rng.random() < 0.7)
        where = [rng.choice((addr, rng.randrange(count))) for _ in range(reads)]
        dut.wr_en.value, dut.wr_addr.value, dut.wr_data.value = write, addr, data
        dut.rd_addr.value = lanes(where, addr_w)
        await RisingEdge(dut.clk)
        if shown is not None:
            assert dut.rd_data.value == shown
        if step >= count:
            shown = lanes([memory[one] for one in where], width)
        if write:
            memory[addr] = data
