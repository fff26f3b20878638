# SPDX-License-Identifier: Apache-2.0
"""Tests efa_cmd_mr: memory regions in all three formats, their keys, the drain at
deregistration."""

import cocotb

from efa_cosim.boundary.backend import profile_strap
from efa_cosim.host.page_list import mem_addr
from efa_cosim.layouts.defs import (
    INTERNAL,
    LIMITS,
    PROFILES,
    AdminAllocMrCmd,
    AdminAqCompletionStatus,
    AdminAqOpcode,
    AdminDeregMrCmd,
    AdminRegMrCmd,
    AdminRegMrResp,
)
from tb.lib.stream import StreamMonitor, clock_and_reset
from tb.lib.timing import timing
from tb.lib.waits import drive
from tb.unit.cmd_bench import Kind, Lines, Op, Unit, cycles_of, entry

Code, Status = AdminAqOpcode, AdminAqCompletionStatus
ILLEGAL, FULL = Status.ILLEGAL_PARAMETER, Status.RESOURCE_ALLOCATION_FAILURE
POOL_LOG, PAGE = PROFILES.default.mr_pages_w, 4096
POOL = 1 << POOL_LOG
LIST = 0xA5C3_B9E7_5234_5FC8
KEY_W = 20


def region(pages=(PAGE,), listed=False, unused=(0, 0, 0, 0), **fields):
    reported = {"pd": 1, "phys_page_size_shift": 12, "mr_length": PAGE * len(pages)} | fields
    command = AdminRegMrCmd(**reported)
    if listed:
        command.pbl.pbl = {"length": 8 * len(pages), "address": mem_addr(LIST)}
    else:
        command.pbl.inline_pbl_array = [*pages, *unused][:4]
    return command


def key(index, generation):
    return generation << LIMITS.mr_w | index


class Regions(Unit):
    """Drives efa_cmd_mr and records page translations, region contexts and drains."""
    def __init__(self, dut, slow=False):
        super().__init__(dut, slow)
        self.order = []
        self.lines = Lines(dut, "m_mr", 0.5 if slow else 0.0, 0.5 if slow else 0.0)
        self.mtt = StreamMonitor(dut, "m_mtt", fields=["index", "data"])
        self.regions = StreamMonitor(
            dut, "m_mr", 0, ["index", "data"], lambda _: self.order.append("reported")
        )
        self.drains = StreamMonitor(dut, "m_drain", 0.8 if slow else 0.0, [], self.drained)
        self.numbers.give(Kind.PD, 1)

    def drained(self, _):
        self.order.append("drained")
        self.named = self.numbers.consumed[Kind.PD, 1]

    async def reg(self, pages=(PAGE,), listed=False, **fields):
        """Registers a region; returns its key and reported context after a check of its
        translations."""
        image = b"".join(page.to_bytes(8, "little") for page in pages)
        self.lines.memory = {LIST + i: byte for i, byte in enumerate(image)} if listed else {}
        command = region(pages, listed, **fields)
        status, response = await self.run(
            command, Code.REG_MR, AdminRegMrResp, ctrl_data=int(listed)
        )
        assert status == Status.SUCCESS and response.l_key == response.r_key
        (beat,) = self.regions.beats
        self.regions.beats.clear()
        reported = INTERNAL.mrc.unpack(beat["data"])
        assert beat["index"] == response.l_key % (1 << LIMITS.mr_w)
        got = [(beat["index"], beat["data"]) for beat in self.mtt.beats]
        self.mtt.beats.clear()
        wanted = (
            []
            if reported.phys
            else [(reported.mtt + n, page >> 12) for n, page in enumerate(pages)]
        )
        assert got == wanted
        return response.l_key, reported

    async def alloc(self, pages):
        """Allocates a region; returns its key. The region has no context and no translation yet."""
        command = AdminAllocMrCmd(pd=1, max_pages=pages)
        flags = {name: self.rng.getrandbits(1) for name in ("ctrl_data", "ctrl_data_indirect")}
        status, response = await self.run(command, Code.ALLOC_MR, AdminRegMrResp, **flags)
        assert status == Status.SUCCESS and response.l_key == response.r_key
        reported = [(beat["index"], beat["data"]) for beat in self.regions.beats]
        self.regions.beats.clear()
        assert reported == [(response.l_key % (1 << LIMITS.mr_w), 0)] and not self.mtt.beats
        return response.l_key

    async def dereg(self, number):
        return (await self.run(AdminDeregMrCmd(l_key=number), Code.DEREG_MR))[0]


@cocotb.test()
@cocotb.parametrize(slow=[False, True])
async def regions_of_every_form(dut, slow):
    """admin.cmd_mr.lifetime"""
    unit = Regions(dut, slow)
    await unit.start()
    rng = unit.rng
    pages = [rng.getrandbits(52) << 12 for _ in range(21)]
    number, reported = await unit.reg(pages[:3], local_write_enable=1, iova=PAGE * 5)
    assert number == key(0, 1)
    assert reported == INTERNAL.mrc.unpack(INTERNAL.mrc.pack(
        live=1, key=key(0, 1), pd=1, local_write=1, shift=12, iova=PAGE * 5, length=3 * PAGE,
        mtt=0))  # fmt: skip
    number, reported = await unit.reg(pages, listed=True, iova=1, mr_length=20 * PAGE + 17)
    assert (number, reported.mtt) == (key(1, 1), 3)
    number, reported = await unit.reg(
        mem_addr_phy_mode_en=1, phys_page_size_shift=0, mr_length=1 << 52
    )
    assert (number, reported.phys, reported.mtt, reported.length) == (key(2, 1), 1, 0, 1 << 52)
    number, reported = await unit.reg(pages[:1])
    assert (number, reported.mtt) == (key(3, 1), 24)
    for index in (1, 2):
        unit.order.clear()
        assert await unit.dereg(key(index, 1)) == Status.SUCCESS
        assert unit.order == ["reported", "drained"] and unit.named == 4 - index + 1
        (beat,) = unit.regions.beats
        unit.regions.beats.clear()
        assert (beat["index"], INTERNAL.mrc.unpack(beat["data"]).live) == (index, 0)
    assert unit.numbers.consumed[Kind.PD, 1] == 2
    number, reported = await unit.reg(pages[:4])
    assert (number, reported.mtt) == (key(1, 2), 3), (
        "expected the next generation and the first block that fits"
    )
    number, reported = await unit.reg(pages[:20], listed=True)
    assert (number, reported.mtt) == (key(2, 2), 25)


@cocotb.test()
@cocotb.parametrize(slow=[False, True])
async def lists_in_chunks(dut, slow):
    """admin.cmd_mr.chunks: an indirect page list is read completely; the length of the first
    chunk is don't-care."""
    unit = Regions(dut, slow)
    await unit.start()
    pages = [unit.rng.getrandbits(52) << 12 for _ in range(1023)]
    memory = {}
    for at, words in ((LIST, (0x5A3C_4618_ADCB_A008, 0x7_0000_0FF0)),
                      (0x5A3C_4618_ADCB_A008, pages[:512]),
                      (0x7_0000_0FF0, pages[512:])):  # fmt: skip
        image = b"".join(word.to_bytes(8, "little") for word in words)
        memory.update({at + i: byte for i, byte in enumerate(image)})
    unit.lines.memory = memory
    command = region(pages, listed=True)
    command.pbl.pbl.length = 12
    status, _ = await unit.run(
        command, Code.REG_MR, AdminRegMrResp, ctrl_data=1, ctrl_data_indirect=1
    )
    assert status == Status.SUCCESS
    assert [beat["data"] for beat in unit.mtt.beats] == [page >> 12 for page in pages]


@cocotb.test()
@cocotb.parametrize(slow=[False, True])
async def allocated_regions_hold_a_block(dut, slow):
    """admin.cmd_mr.alloc"""
    unit = Regions(dut, slow)
    await unit.start()
    assert await unit.alloc(POOL) == key(0, 1), "a region may have the whole pool"
    assert await unit.dereg(key(0, 1)) == Status.SUCCESS
    unit.regions.beats.clear()
    assert await unit.alloc(5) == key(0, 2)
    assert (await unit.reg([PAGE] * 3))[1].mtt == 5
    assert await unit.alloc(POOL - 8) == key(2, 1)
    await unit.refused(region(), Code.REG_MR, FULL)
    assert unit.numbers.consumed[Kind.PD, 1] == 3
    assert await unit.dereg(key(0, 2)) == Status.SUCCESS
    assert unit.numbers.consumed[Kind.PD, 1] == 2
    unit.regions.beats.clear()
    assert (await unit.reg([PAGE] * 2))[1].mtt == 0, (
        "the MTT block of the deregistered region must be free"
    )
    await unit.refused(AdminDeregMrCmd(l_key=key(0, 2)), Code.DEREG_MR, ILLEGAL)


@cocotb.test()
@cocotb.parametrize(profile=range(len(PROFILES)))
async def the_pool_of_each_profile(dut, profile):
    """admin.cmd_mr.pool: a region takes all translations of the profile, as far as the memory has
    them, and none more."""
    unit = Regions(dut)
    dut.s_cfg_profile.value = profile
    await unit.start()
    log = min(list(PROFILES.values())[profile].mr_pages_w, int(dut.MTT_W.value))
    over = AdminAllocMrCmd(pd=1, max_pages=(1 << log) + 1)
    await unit.refused(over, Code.ALLOC_MR, FULL)
    assert await unit.alloc(1 << log) == key(0, 1)
    await unit.refused(AdminAllocMrCmd(pd=1, max_pages=1), Code.ALLOC_MR, FULL)


@cocotb.test()
async def physical_regions_hold_no_block(dut):
    """admin.cmd_mr.physical: a physical region holds no MTT block; its deregistration does not
    free the former block of its number."""
    unit = Regions(dut)
    await unit.start()
    assert [(await unit.reg([PAGE] * n))[1].mtt for n in (1, 2)] == [0, 1]
    assert await unit.dereg(key(0, 1)) == Status.SUCCESS
    unit.regions.beats.clear()
    assert (await unit.reg(mem_addr_phy_mode_en=1))[0] == key(0, 2)
    assert (await unit.reg())[1].mtt == 0
    assert await unit.dereg(key(0, 2)) == Status.SUCCESS
    unit.regions.beats.clear()
    assert (await unit.reg())[1].mtt == 3


@cocotb.test()
async def physical_regions_keep_their_range(dut):
    """admin.cmd_mr.range: the context of a region has each bit of its address and its length, with
    any delay of the neighbours."""
    unit = Regions(dut, slow=True)
    await unit.start()
    for _ in range(40):
        iova, length = unit.rng.getrandbits(63), unit.rng.randrange(1, 1 << 62)
        _, reported = await unit.reg(mem_addr_phy_mode_en=1, iova=iova, mr_length=length)
        assert (reported.phys, reported.iova, reported.length) == (1, iova, length)


@cocotb.test()
async def pages_of_every_size_are_aligned(dut):
    """admin.cmd_mr.aligned: a region has pages of each size of the profile; a page address with a
    bit below the page size is refused, in the largest size for each bit."""
    unit = Regions(dut)
    await unit.start()
    sizes = [shift for shift in range(64) if PROFILES.default.page_size_cap >> shift & 1]
    for shift in sizes:
        page, fields = 3 << shift, {"phys_page_size_shift": shift, "mr_length": 1 << shift}
        assert (await unit.reg([page], **fields))[1].shift == shift
        bits = range(shift) if shift == max(sizes) else [unit.rng.randrange(shift)]
        for bit in bits:
            await unit.refused(region([page | 1 << bit], **fields), Code.REG_MR, ILLEGAL)
            unit.mtt.beats.clear()


@cocotb.test()
async def any_regions(dut):
    """admin.cmd_mr.any: random fields, numbers, generations and domains are accepted; keys with
    one wrong bit are refused."""
    unit = Regions(dut)
    await unit.start()
    dut.s_cfg_profile.value = profile_strap("recorded")
    rng, numbers = unit.rng, unit.numbers
    domains = [1 << bit for bit in range(10)] + [0, 1023]
    numbers.consumed.clear()
    numbers.give(Kind.PD, 1, *domains)
    below = rng.randrange(POOL // 4, POOL // 2)
    assert await unit.alloc(below) == key(0, 1)
    size = rng.randrange(1, POOL // 2 - 800)
    large, blocks = await unit.alloc(size), {-1: (0, below), None: (below, below + size)}
    live = {}

    def first_fit(need):
        at = 0
        for begin, end in sorted(blocks.values()):
            if begin - at >= need:
                return at
            at = end
        return at

    for turn in range(150):
        number = numbers.first[Kind.MR] = rng.randrange(1 << LIMITS.mr_w)
        if (Kind.MR, number) in numbers.consumed:
            continue
        generation = rng.choice((rng.randrange(1 << 16), 1 << rng.randrange(16)))
        numbers.gens[Kind.MR, number] = generation - 1
        pages = [rng.getrandbits(52) << 12 for _ in range(rng.randrange(1, 5))]
        # Unused entries of the inline page list and the page count are don't-care.
        unused = [rng.getrandbits(64) for _ in range(4 - len(pages))]
        iova, physical = rng.getrandbits(63), int(rng.random() < 0.2)
        most = len(pages) * PAGE - iova % PAGE
        length = rng.randrange(max(1, most - PAGE + 1), most + 1)
        fields = {name: rng.getrandbits(1) for name in (
            "local_write_enable", "remote_read_enable", "remote_write_enable")}  # fmt: skip
        shift = 12
        if physical:
            length, shift = rng.randrange(1, 1 << 62), rng.randrange(64)
        reported_as = key(number, generation) % (1 << KEY_W)
        pd = rng.choice(domains)
        wrong = pd ^ 1 << rng.randrange(10, 16)
        await unit.refused(region(pages, pd=wrong, iova=iova, mr_length=length), Code.REG_MR,
                           ILLEGAL)  # fmt: skip
        found, reported = await unit.reg(
            pages, pd=pd, iova=iova, mr_length=length, mem_addr_phy_mode_en=physical,
            unused=unused, page_num=rng.getrandbits(32), phys_page_size_shift=shift, **fields,
        )  # fmt: skip
        assert found == reported_as
        assert reported == INTERNAL.mrc.unpack(INTERNAL.mrc.pack(
            live=1, key=reported_as, pd=pd, local_write=fields["local_write_enable"],
            remote_write=fields["remote_write_enable"], phys=physical,
            remote_read=fields["remote_read_enable"], shift=shift, iova=iova, length=length,
            mtt=reported.mtt))  # fmt: skip
        if not physical:
            assert reported.mtt == first_fit(len(pages))
            blocks[number] = reported.mtt, reported.mtt + len(pages)
        live[number] = reported_as, pd
        if turn % 10 == 9:
            assert await unit.dereg(large) == Status.SUCCESS
            unit.regions.beats.clear()
            numbers.first[Kind.MR] = 0
            del blocks[None]
            other = rng.randrange(1, POOL // 2 - 800)
            # The previous block fits in any case.
            size = other if first_fit(other) + other <= POOL else size
            blocks[None] = first_fit(size), first_fit(size) + size
            large = await unit.alloc(size)
        if rng.random() < 0.6:
            number = rng.choice(list(live))
            its, pd = live[number]
            # One wrong bit can make the key of another region.
            there = {found for found, _ in live.values()} | {key(0, 1), large}
            keys = [its ^ 1 << bit for bit in range(32)]
            wrong = rng.choice([one for one in keys if one not in there])
            await unit.refused(AdminDeregMrCmd(l_key=wrong), Code.DEREG_MR, ILLEGAL)
            assert await unit.dereg(its) == Status.SUCCESS
            del live[number]
            blocks.pop(number, None)
            (beat,) = unit.regions.beats
            assert beat == {"index": number, "data": 0}
            unit.regions.beats.clear()
            counts = [sum(of == pd for _, of in live.values()) for pd in domains]
            counts[0] += 2  # the two allocated regions
            assert [numbers.consumed[Kind.PD, pd] for pd in domains] == counts


@cocotb.test()
async def remote_permissions_with_the_capability(dut):
    """admin.cmd_mr.profile"""
    unit = Regions(dut)
    await unit.start()
    dut.s_cfg_profile.value = profile_strap("basic")
    for name in ("remote_read_enable", "remote_write_enable"):
        await unit.refused(region(**{name: 1}), Code.REG_MR, ILLEGAL)
    dut.s_cfg_profile.value = profile_strap("recorded")
    _, reported = await unit.reg(remote_read_enable=1, remote_write_enable=1)
    assert (reported.remote_read, reported.remote_write, reported.local_write) == (1, 1, 0)


@cocotb.test()
@cocotb.parametrize(slow=[False, True])
async def refusals_change_nothing(dut, slow):
    """admin.cmd_mr.refused"""
    unit = Regions(dut, slow)
    await unit.start()
    await unit.reg([PAGE] * 4)
    for fields in ({"pd": 2}, {"mr_length": 0}, {"phys_page_size_shift": 11},
                   {"mr_length": 5 * PAGE},
                   *({"pages": (PAGE, PAGE + (1 << bit))} for bit in range(12)),
                   {"iova": (1 << 64) - PAGE, "mr_length": PAGE + 1}):  # fmt: skip
        await unit.refused(region(**fields), Code.REG_MR, ILLEGAL)

    async def listed(status, **flags):
        command = region([PAGE] * 9, listed=True)
        unit.numbers.reported.clear()
        await unit.refused(command, Code.REG_MR, status, ctrl_data=1, **flags)
        # The number found is neither taken nor freed.
        requests = [(Op.REF, Kind.PD, 1), (Op.FIND, Kind.MR, 1), (Op.UNREF, Kind.PD, 1)]
        assert unit.numbers.reported == requests

    for fields in ({}, {"listed": True, "mem_addr_phy_mode_en": 1}):
        flags = {"ctrl_data": int("listed" in fields), "ctrl_data_indirect": 1}
        malformed = Status.MALFORMED_REQUEST
        await unit.refused(region(**fields), Code.REG_MR, malformed, **flags)
    assert not unit.lines.requested
    # The invalid pointer of an indirect list is found during the read.
    unit.lines.memory = {LIST: 4}
    await listed(ILLEGAL, ctrl_data_indirect=1)
    unit.lines.memory, unit.lines.failed = {}, LIST
    await listed(Status.UNKNOWN_ERROR, ctrl_data_indirect=1)
    unit.lines.requested.clear()
    too_many = [1 << bit for bit in range(POOL_LOG + 1, 32)]
    for pd, pages, status in ((2, 1, ILLEGAL), (1, 0, ILLEGAL), (1, POOL - 3, FULL),
                              *((1, pages, FULL) for pages in too_many)):  # fmt: skip
        await unit.refused(AdminAllocMrCmd(pd=pd, max_pages=pages), Code.ALLOC_MR, status)
    unit.lines.failed = LIST + 64
    await listed(Status.UNKNOWN_ERROR)
    unit.lines.failed = None
    unit.lines.memory = {LIST + 8 * 8: 1}
    await listed(ILLEGAL)
    unit.lines.requested.clear()
    for pages in (POOL - 3, POOL + 1, *(1 << bit for bit in range(POOL_LOG + 1, 52))):
        command = region(listed=True, mr_length=pages * PAGE)
        command.pbl.pbl.length = 8 * pages & 0xFFFF_FFFF
        chunks = int(8 * pages >= 1 << 32)
        await unit.refused(command, Code.REG_MR, FULL, ctrl_data=1, ctrl_data_indirect=chunks)
    assert not unit.lines.requested, "the page list must not be read when the MTT has no space"
    await unit.every_response(region(), Code.REG_MR, (Op.REF, Kind.PD), (Op.FIND, Kind.MR))
    unit.numbers.full = {Kind.MR}
    await unit.refused(region(), Code.REG_MR, FULL)
    for number in (key(0, 2), key(1, 1), key(0, 1) | 1 << 20, key(0, 1) | 1 << 31, 0):
        await unit.refused(AdminDeregMrCmd(l_key=number), Code.DEREG_MR, ILLEGAL)
    assert not unit.regions.beats and not unit.drains.beats


@cocotb.test()
async def its_cycles(dut):
    """admin.cmd_mr.time"""
    drive(dut, s_cmd_valid=0, s_cfg_profile=0, s_line_valid=0)
    await clock_and_reset(dut)
    idle = {"m_obj_ready": 1, "s_obj_rsp_code": 0, "s_obj_rsp_index": 0, "s_obj_rsp_gen": 1,
            "m_drain_ready": 1, "m_line_ready": 1}  # fmt: skip
    bare, page = timing("efa_cmd_mr", "reg"), timing("efa_cmd_mr", "page")
    dereg = entry(AdminDeregMrCmd(l_key=key(0, 1)), Code.DEREG_MR)
    for count in (1, 2, 4):
        data = entry(region([PAGE] * count), Code.REG_MR)
        assert await cycles_of(dut, data, **idle) == bare.latency + page.interval * count
        assert await cycles_of(dut, dereg, **idle) == timing("efa_cmd_mr", "dereg").latency
    data = entry(region(mem_addr_phy_mode_en=1), Code.REG_MR)
    assert await cycles_of(dut, data, **idle) == timing("efa_cmd_mr", "reg_physical").latency
    cycles = await cycles_of(dut, dereg, **idle)
    assert cycles == timing("efa_cmd_mr", "dereg_physical").latency
    data = entry(AdminAllocMrCmd(pd=1, max_pages=9), Code.ALLOC_MR)
    assert await cycles_of(dut, data, **idle) == timing("efa_cmd_mr", "alloc").latency


@cocotb.test()
async def reset_in_a_command(dut):
    """admin.cmd_mr.reset"""
    unit = Regions(dut)
    await unit.start()
    for cycles in range(1, 46, 2):
        await unit.cut_off(region([PAGE] * 12, listed=True), Code.REG_MR, cycles)
        unit.lines.responses.clear()
        unit.numbers.give(Kind.PD, 1)
        for monitor in (unit.mtt, unit.regions):
            monitor.beats.clear()
        number, reported = await unit.reg([PAGE])
        assert (number, reported.mtt) == (key(0, 1), 0)
        await unit.cut_off(AdminDeregMrCmd(l_key=number), Code.DEREG_MR, cycles % 15)
        unit.regions.beats.clear()
        unit.numbers.give(Kind.PD, 1)
