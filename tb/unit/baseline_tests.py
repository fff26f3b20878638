# SPDX-License-Identifier: Apache-2.0
"""Baseline bench for comparison: Python drivers and monitors wake on every clock.

`make bench-sim` compares its speed with the native bench on the same RTL. The bench only stores to
registers and checks nothing, because traffic and checks would reduce its speed.
"""

import json
import time

import cocotb
from cocotb.triggers import RisingEdge

from efa_cosim.layouts import defs
from tb.lib.stream import clock_and_reset
from tb.unit.length import rounds

CYCLES = rounds(8_000, 500)


async def host_writes(dut, seen):
    """Accepts every DMA write and samples the complete stream in each clock."""
    dut.m_dma_wr_ready.value = 1
    while True:
        await RisingEdge(dut.clk)
        if dut.m_dma_wr_valid.value == 1 and dut.m_dma_wr_ready.value == 1:
            seen.append((int(dut.m_dma_wr_addr.value), int(dut.m_dma_wr_data.value)))


async def host_reads(dut):
    """Completes DMA reads with zeros."""
    dut.m_dma_rd_ready.value = 1
    while True:
        await RisingEdge(dut.clk)
        dut.s_dma_rd_cpl_valid.value = int(dut.m_dma_rd_valid.value == 1)
        dut.s_dma_rd_cpl_data.value = 0


async def network(dut):
    """Loops transmitted packets back with zero data."""
    dut.m_net_ready.value = 1
    while True:
        await RisingEdge(dut.clk)
        dut.s_net_valid.value = int(dut.m_net_valid.value == 1)
        dut.s_net_data.value = 0


async def store(dut, offset, value):
    """Performs one register store."""
    lane = offset % 64
    dut.s_mmio_bar.value = 0
    dut.s_mmio_write.value = 1
    dut.s_mmio_addr.value = offset - lane
    dut.s_mmio_be.value = 0xF << lane
    dut.s_mmio_data.value = value << (8 * lane)
    dut.s_mmio_valid.value = 1
    await RisingEdge(dut.clk)
    while dut.s_mmio_ready.value != 1:
        await RisingEdge(dut.clk)
    dut.s_mmio_valid.value = 0


@cocotb.test()
async def register_reads(dut):
    """bench.speed.baseline"""
    for name in (
        "m_dma_wr_ready", "m_dma_rd_ready", "m_net_ready", "s_mmio_valid", "s_dma_rd_cpl_valid",
        "s_net_valid", "s_cfg_flr", "s_cfg_profile", "s_cfg_msix_fmask", "s_cfg_interface",
        "s_cfg_keep_alive", "s_cfg_moderation", "s_cfg_paths", "s_cfg_tick",
    ):  # fmt: skip
        getattr(dut, name).value = 0
    for name, value in (("bme", 1), ("msix_enable", 1), ("mps", 2), ("mrrs", 2), ("node_id", 1)):
        getattr(dut, f"s_cfg_{name}").value = value
    dut.m_mmio_cpl_ready.value = 1
    await clock_and_reset(dut, resets=("rst_por",))
    seen = []
    for task in (host_writes(dut, seen), host_reads(dut), network(dut)):
        cocotb.start_soon(task)
    while dut.m_cfg_flr_done.value != 1:
        await RisingEdge(dut.clk)
    await store(dut, int(defs.Reg.MMIO_RESP_LO), 0x1000)
    started, cycles = time.process_time(), 0
    while cycles < CYCLES:
        await store(dut, int(defs.Reg.MMIO_REG_READ), 1)
        for _ in range(20):
            await RisingEdge(dut.clk)
        cycles += 21
    seconds = time.process_time() - started
    assert len(seen) > CYCLES // 25
    with open("speed.json", "w") as stream:
        json.dump({"baseline": cycles / seconds, "baseline_cycles": cycles}, stream)
