# SPDX-License-Identifier: Apache-2.0
"""Tests efa_flag_rows: set, clear and read of flags in every order of cycles."""

import cocotb
from cocotb.triggers import FallingEdge, Timer

from tb.lib.stream import rng_for, start_clock
from tb.lib.timing import timing
from tb.lib.waits import zero


@cocotb.test()
async def flags(dut):
    """common.flag_rows.order: each read returns the flags of its row after all earlier cycles; sets
    and clears of other flags of the row, and of flags that are set or clear, keep them; a reset
    clears all."""
    rng, width = rng_for("flag_rows"), len(dut.set_addr)
    count, columns = 1 << width, 1 << int(dut.COL_W.value)
    rows = count // columns
    reads = len(dut.rd_data) // columns
    row_width = len(dut.rd_addr) // reads
    assert timing("efa_flag_rows", "read").latency == 0
    zero(dut, "set_en", "clear_en", "set_addr", "clear_addr", "rd_addr")
    start_clock(dut.clk)
    stored = set()
    for step in range(6000):
        await FallingEdge(dut.clk)
        # A reset with accesses, which are lost.
        resets = step % 1500 == 0
        near = rng.randrange(count)
        # In most steps all ports use one or two rows.
        pool = (near, near ^ 1, near ^ columns) if step % 500 < 350 else range(count)
        ports = {}
        for name in ("set", "clear"):
            ports[name] = rng.choice(pool) if rng.random() < 0.7 else None
        if ports["set"] == ports["clear"]:
            ports["clear"] = None
        looks = [rng.choice(pool) // columns if rng.random() < 0.8 else rng.randrange(rows)
                 for _ in range(reads)]  # fmt: skip
        dut.rst.value = int(resets)
        for name, place in ports.items():
            getattr(dut, f"{name}_en").value = int(place is not None)
            getattr(dut, f"{name}_addr").value = rng.randrange(count) if place is None else place
        dut.rd_addr.value = sum(row << row_width * port for port, row in enumerate(looks))
        await Timer(1, "ns")
        if step:
            expected = sum(1 << columns * port + column
                           for port, row in enumerate(looks) for column in range(columns)
                           if row * columns + column in stored)  # fmt: skip
            assert dut.rd_data.value == expected, step
        if resets:
            stored = set()
            continue
        stored |= {ports["set"]} - {None}
        stored -= {ports["clear"]}
    assert stored
