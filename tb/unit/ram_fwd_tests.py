# SPDX-License-Identifier: Apache-2.0
"""Tests efa_ram_fwd: every read port sees each write, also one of the same cycle."""

import cocotb
from cocotb.triggers import RisingEdge

from tb.lib.stream import rng_for, start_clock
from tb.lib.timing import timing
from tb.lib.waits import drive


def lanes(words, width):
    """Packs words side by side, the first in the lowest bits."""
    return sum(word << width * n for n, word in enumerate(words))


@cocotb.test()
async def readers(dut):
    """common.ram_fwd.readers: Each read port returns the word of its own address one cycle later,
    the new word if it was written in the same cycle."""
    rng = rng_for("readers")
    reads, addr_w, width = int(dut.READS.value), len(dut.wr_addr), len(dut.wr_data)
    count, shared = 1 << addr_w, 0
    assert timing("efa_ram_fwd", "read") == (1, 1, None)
    start_clock(dut.clk)
    # The clock may rise before the first inputs take effect.
    await RisingEdge(dut.clk)
    memory, shown = {}, None
    for step in range(3000):
        addr, data = step if step < count else rng.randrange(count), rng.getrandbits(width)
        write = step < count or rng.random() < 0.6
        where = [rng.choice((addr, rng.randrange(count))) for _ in range(reads)]
        drive(dut, wr_en=int(write), wr_addr=addr, wr_data=data, rd_addr=lanes(where, addr_w))
        await RisingEdge(dut.clk)
        if shown is not None:
            assert dut.rd_data.value == shown, f"step {step}"
        if write:
            memory[addr] = data
        if step >= count:
            shown = lanes([memory[one] for one in where], width)
            shared += write and addr in where
    assert shared > 100
