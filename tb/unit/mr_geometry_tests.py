# SPDX-License-Identifier: Apache-2.0
"""Tests efa_mr_geometry: the page count by the specified formula, and every refusal."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.host.page_list import mem_addr
from efa_cosim.layouts.defs import PROFILES, AdminFeatureDeviceAttrDesc, AdminRegMrCmd
from tb.lib.stream import rng_for, start_clock
from tb.lib.timing import timing

TOP = 1 << 64


def drawn(rng):
    """Returns a random REG_MR command near the limits of valid commands."""
    shift = rng.choice((12, 12, 16, 21, 31, 32, rng.randrange(64)))
    cmd = AdminRegMrCmd(phys_page_size_shift=shift)
    size = 1 << cmd.phys_page_size_shift
    pages = rng.choice((1, 2, 4, 5, 8192, rng.randrange(1, 1 << 20)))
    cmd.iova = rng.choice((0, size, rng.getrandbits(64), TOP - size, TOP - 1)) % TOP
    to_end = TOP - cmd.iova
    cmd.mr_length = min(TOP - 1, max(0, rng.choice((
        0, 1, pages * size - cmd.iova % size, to_end, rng.getrandbits(64), rng.getrandbits(13),
        to_end + (1 << rng.randrange(64)),
    )) + rng.choice((-1, 0, 0, 0, 1))))  # fmt: skip
    cmd.mem_addr_phy_mode_en = rng.random() < 0.2
    cmd.remote_read_enable = rng.random() < 0.1
    cmd.remote_write_enable = rng.random() < 0.1
    cmd.local_write_enable = rng.getrandbits(1)
    cmd.aq_common.ctrl_data = rng.getrandbits(1)
    cmd.aq_common.ctrl_data_indirect = rng.getrandbits(1)
    cmd.pbl.inline_pbl_array = [rng.getrandbits(64) for _ in range(4)]
    if cmd.aq_common.ctrl_data:
        cmd.pbl.pbl.length = min(0xFFFF_FFFF, max(0, 8 * span(cmd) + rng.choice((-1, 0, 0, 8))))
        address = rng.getrandbits(50) & ~7 | (rng.randrange(8) if rng.random() < 0.1 else 0)
        cmd.pbl.pbl.address = mem_addr(address)
    return cmd


def span(cmd):
    """Returns the number of pages by the specified formula."""
    size = 1 << cmd.phys_page_size_shift
    return -(-(cmd.iova % size + cmd.mr_length) // size)


def invalid(cmd, profile):
    """Returns whether REG_MR is invalid by decision 0001, from its fields alone."""
    reported = list(PROFILES.values())[profile]
    caps = AdminFeatureDeviceAttrDesc(device_caps=reported.device_caps)
    wrong = cmd.mr_length == 0 or cmd.iova + cmd.mr_length > TOP
    wrong |= bool(cmd.remote_read_enable and not caps.rdma_read)
    wrong |= bool(cmd.remote_write_enable and not caps.rdma_write)
    if cmd.mem_addr_phy_mode_en:
        return wrong
    wrong |= not reported.page_size_cap >> cmd.phys_page_size_shift & 1
    if cmd.aq_common.ctrl_data:
        low = cmd.pbl.pbl.address.mem_addr_low
        short = cmd.pbl.pbl.length < 8 * span(cmd) and not cmd.aq_common.ctrl_data_indirect
        return wrong or short or low % 8 != 0
    return wrong or span(cmd) > 4


@cocotb.test()
async def pages_and_statuses_by_the_rule(dut):
    """admin.mr_geometry.rule: random commands at the specified interval match the rule in both
    profiles."""
    promised, rng = timing("efa_mr_geometry", "command"), rng_for("mr_pages")
    assert promised.latency == promised.interval
    start_clock(dut.clk)
    await RisingEdge(dut.clk)
    statuses, before = set(), None
    for _ in range(3000):
        cmd, profile = drawn(rng), rng.randrange(len(PROFILES))
        dut.s_cmd.value = int.from_bytes(cmd.pack(64), "little")
        dut.s_cfg_profile.value = profile
        await RisingEdge(dut.clk)
        if before is not None:
            was, wrong = before
            assert int(dut.m_illegal.value) == wrong, (was, wrong)
            statuses.add((wrong, int(was.mem_addr_phy_mode_en), int(was.aq_common.ctrl_data)))
            if not was.mem_addr_phy_mode_en:
                assert int(dut.m_pages.value) == span(was), was
                assert int(dut.m_mask.value) == (1 << was.phys_page_size_shift) - 1
        before = cmd, invalid(cmd, profile)
        await ClockCycles(dut.clk, promised.interval - 1)
    assert len(statuses) == 8, "not every format was seen both valid and invalid"


@cocotb.test()
async def every_page_size(dut):
    """admin.mr_geometry.sizes: exactly the page sizes of the profile are valid."""
    start_clock(dut.clk)
    for shift in range(64):
        for profile in range(len(PROFILES)):
            cmd = AdminRegMrCmd(phys_page_size_shift=shift, mr_length=(3 << shift) % TOP)
            dut.s_cmd.value = int.from_bytes(cmd.pack(64), "little")
            dut.s_cfg_profile.value = profile
            await ClockCycles(dut.clk, timing("efa_mr_geometry", "command").latency + 1)
            assert int(dut.m_illegal.value) == invalid(cmd, profile), (shift, profile)
            assert int(dut.m_pages.value) == span(cmd)


@cocotb.test()
async def every_bit_of_a_length_and_of_an_end(dut):
    """admin.mr_geometry.bits: a length of each power of two is valid; an end beyond 2^64 by each
    power of two is invalid."""
    start_clock(dut.clk)
    for bit in range(64):
        for iova, length in ((0, 1 << bit), (TOP - 1, 1 + (1 << bit))):
            cmd = AdminRegMrCmd(phys_page_size_shift=12, iova=iova, mr_length=length)
            cmd.mem_addr_phy_mode_en = 1
            dut.s_cmd.value, dut.s_cfg_profile.value = int.from_bytes(cmd.pack(64), "little"), 0
            await ClockCycles(dut.clk, timing("efa_mr_geometry", "command").latency + 1)
            assert int(dut.m_illegal.value) == invalid(cmd, 0) == (iova != 0), (iova, length)


@cocotb.test()
async def every_two_bits_of_a_list_length(dut):
    """admin.mr_geometry.list: a page list whose length has any one or two bits is valid for as many
    pages, and invalid for one page more."""
    start_clock(dut.clk)
    lengths = {1 << high | 1 << low for high in range(3, 32) for low in range(3, high + 1)}
    for length in sorted(lengths):
        for pages, wrong in ((length // 8, 0), (length // 8 + 1, 1)):
            cmd = AdminRegMrCmd(phys_page_size_shift=12, mr_length=pages << 12)
            cmd.aq_common.ctrl_data, cmd.pbl.pbl.length = 1, length
            dut.s_cmd.value, dut.s_cfg_profile.value = int.from_bytes(cmd.pack(64), "little"), 0
            await ClockCycles(dut.clk, timing("efa_mr_geometry", "command").latency + 1)
            assert int(dut.m_illegal.value) == invalid(cmd, 0) == wrong, (length, pages)


@cocotb.test()
async def it_takes_three_cycles(dut):
    """admin.mr_geometry.time: the result is stable while the command is held, and changes with the
    specified latency."""
    latency = timing("efa_mr_geometry", "command").latency
    start_clock(dut.clk)
    dut.s_cfg_profile.value = 0
    bad = AdminRegMrCmd(phys_page_size_shift=12)
    good = AdminRegMrCmd(phys_page_size_shift=12, mr_length=3 * 4096)
    dut.s_cmd.value = int.from_bytes(good.pack(64), "little")
    await ClockCycles(dut.clk, 6)
    for cmd in (bad, good):
        dut.s_cmd.value = int.from_bytes(cmd.pack(64), "little")
        await ClockCycles(dut.clk, latency)
        assert dut.m_illegal.value == int(cmd is good), "the result changed too early"
        for _ in range(4):
            await RisingEdge(dut.clk)
            assert dut.m_illegal.value == int(cmd is bad) and int(dut.m_pages.value) == span(cmd)
