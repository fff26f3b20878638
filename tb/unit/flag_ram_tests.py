# SPDX-License-Identifier: Apache-2.0
"""Tests efa_flag_ram: set, clear and read in every order of cycles."""

import cocotb
from cocotb.triggers import RisingEdge

from tb.lib.stream import rng_for, start_clock
from tb.lib.timing import timing


@cocotb.test()
async def flags(dut):
    """common.flag_ram.order: each read returns the flag of all earlier cycles; a clear wins over a
    set in the same cycle; the flag stays while no read is requested; an init clears its flag."""
    rng, count = rng_for("flag_ram"), 1 << len(dut.set_addr)
    assert timing("efa_flag_ram", "read").latency == 1
    for name in ("set_en", "clear_en", "rd_en", "init_en"):
        getattr(dut, name).value = 0
    start_clock(dut.clk)
    stored, shown, last = [None] * count, None, {}
    for step in range(6000):
        if step % 1000 == 0:
            # A reset with accesses, then an init in any order; a flag without init is unknown.
            dut.rst.value, dut.rd_en.value, last = 1, 0, {}
            for name in ("set", "clear"):
                getattr(dut, f"{name}_en").value = int(step > 0)
                getattr(dut, f"{name}_addr").value = rng.randrange(count)
            await RisingEdge(dut.clk)
            await RisingEdge(dut.clk)
            dut.rst.value = dut.set_en.value = dut.clear_en.value = 0
            stored = [None] * count
            for addr in rng.sample(range(count), count * 3 // 4 if step else count):
                dut.init_en.value, dut.init_addr.value = 1, addr
                await RisingEdge(dut.clk)
                stored[addr] = 0
            dut.init_en.value = 0
        # In most steps all three ports use one of two flags.
        near = rng.randrange(count)
        pool = (near, near ^ 1) if step % 500 < 400 else range(count)
        ports = {}
        for name in ("set", "clear", "rd"):
            addr = rng.choice(pool)
            if name in last and rng.random() < 0.6:
                addr = last[name][1]
            ports[name] = (int(rng.random() < 0.6), addr)
        last = ports
        for name, (enable, addr) in ports.items():
            getattr(dut, f"{name}_en").value, getattr(dut, f"{name}_addr").value = enable, addr
        await RisingEdge(dut.clk)
        if shown is not None:
            assert dut.rd_flag.value == shown, step
        if ports["rd"][0]:
            shown = stored[ports["rd"][1]]
        for name, flag in (("set", 1), ("clear", 0)):
            if ports[name][0]:
                stored[ports[name][1]] = flag
