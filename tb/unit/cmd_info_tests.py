# SPDX-License-Identifier: Apache-2.0
"""Tests efa_cmd_info: features, settings, statistics. features_tests.py checks the response
bodies."""

import cocotb
from cocotb.triggers import RisingEdge

from efa_cosim.host.page_list import mem_addr
from efa_cosim.layouts.defs import (
    PROFILES,
    AdminAcqEntry,
    AdminAcqGetStatsResp,
    AdminAqCompletionStatus,
    AdminAqFeatureId,
    AdminAqGetStatsCmd,
    AdminAqOpcode,
    AdminGetFeatureCmd,
    AdminGetFeatureResp,
    AdminGetStatsType,
    AdminHostInfo,
    AdminSetFeatureCmd,
)
from tb.lib.stream import clock_and_reset
from tb.lib.timing import timing
from tb.lib.waits import drive
from tb.unit.cmd_bench import Lines, Unit, cycles_of, entry
from tb.unit.features_tests import response

Code, Status, Id = AdminAqOpcode, AdminAqCompletionStatus, AdminAqFeatureId
ILLEGAL = Status.ILLEGAL_PARAMETER
GROUPS = PROFILES.default.aenq_supported_groups


def get(feature):
    command = AdminGetFeatureCmd()
    command.image[17] = feature
    return command


def groups(wanted):
    command = AdminSetFeatureCmd()
    command.feature_common.feature_id = Id.AENQ_CONFIG
    command.u.aenq.enabled_groups = wanted
    return command


def host_info(addr, length=AdminHostInfo.SIZE, feature=Id.HOST_INFO):
    command = AdminSetFeatureCmd()
    command.image[17] = feature
    command.control_buffer = {"length": length, "address": mem_addr(addr)}
    return command


# First index and number of the counters of a kind of statistics.
COUNTERS = {0: (0, 6), 1: (6, 4), 2: (10, 4), 3: (14, 4)}


def stats(kind, scope=0):
    command = AdminAqGetStatsCmd()
    command.image[16:18] = bytes((kind, scope))
    return command


class Info(Unit):
    """Drives efa_cmd_info with models of the host memory and of the statistics counters."""
    def __init__(self, dut, slow=False):
        super().__init__(dut, slow)
        dut.s_cfg_node_id.value = 5
        share = 0.6 if slow else 0.0
        self.lines = Lines(dut, "info", share, share)
        self.counters = [self.rng.getrandbits(64) for _ in range(32)]
        cocotb.start_soon(self.count())

    async def count(self):
        """Returns a statistics counter one cycle after its index."""
        while True:
            await RisingEdge(self.dut.clk)
            idle = self.dut.rst.value == 0 and self.dut.s_cmd_ready.value == 1
            assert not idle or self.dut.s_line_ready.value == 0, "line accepted without a request"
            number = self.dut.stat_rd_addr.value
            if number.is_resolvable:
                self.dut.stat_rd_data.value = self.counters[int(number)]

    async def enabled(self):
        _, response = await self.run(get(Id.AENQ_CONFIG), Code.GET_FEATURE, AdminGetFeatureResp)
        assert response.u.aenq.supported_groups == GROUPS
        return response.u.aenq.enabled_groups


@cocotb.test()
@cocotb.parametrize(slow=[False, True])
async def features_and_settings(dut, slow):
    """admin.cmd_info.features"""
    unit = Info(dut, slow)
    await unit.start()
    reported = {1, 2, 3, 4, 5, 7, 9}
    for feature in (*range(12), 64, 255):
        status, response = await unit.run(get(feature), Code.GET_FEATURE, AdminGetFeatureResp)
        assert status == (Status.SUCCESS if feature in reported else ILLEGAL), feature
        if feature == Id.NETWORK_ATTR:
            assert response.u.network_attr.addr[-2:] == b"\0\5"
    assert await unit.enabled() == 0
    assert (await unit.run(groups(GROUPS), Code.SET_FEATURE))[0] == Status.SUCCESS
    assert await unit.enabled() == GROUPS
    for wrong in (1 << bit for bit in range(32) if not GROUPS >> bit & 1):
        await unit.refused(groups(wrong), Code.SET_FEATURE, ILLEGAL)
    for feature in (0, 1, 3, 9, 255):
        await unit.refused(host_info(0, feature=feature), Code.SET_FEATURE, ILLEGAL, ctrl_data=1)
    assert await unit.enabled() == GROUPS
    assert not unit.lines.requested


@cocotb.test()
@cocotb.parametrize(slow=[False, True])
async def host_information_is_read_whole(dut, slow):
    """admin.cmd_info.host: the complete host info structure is read from any address; a failed
    read is an unknown error."""
    unit = Info(dut, slow)
    await unit.start()
    size = AdminHostInfo.SIZE
    for turn in range(90):
        addr = unit.rng.getrandbits(50) if turn else (1 << 40) - 1
        if turn > 9:  # the structure begins or ends near a line boundary
            border = unit.rng.choice((0, 0, *range(-9, 3), 32)) - size * (turn % 2)
            addr = (addr >> 6 << 6) + border
        unit.lines.requested.clear()
        unit.lines.failed = addr + unit.rng.randrange(size) if turn % 3 == 2 else None
        command = host_info(addr, size + turn % 2)
        status, _ = await unit.run(command, Code.SET_FEATURE, ctrl_data=1)
        assert status == (Status.UNKNOWN_ERROR if unit.lines.failed else Status.SUCCESS)
        end = addr
        for start, length in unit.lines.requested:
            assert start == end
            end += length
        assert end == addr + size and not unit.lines.responses.waiting
    unit.lines.requested.clear()
    malformed = Status.MALFORMED_REQUEST
    await unit.refused(host_info(0), Code.SET_FEATURE, malformed, ctrl_data=0)
    await unit.refused(host_info(0, size - 1), Code.SET_FEATURE, ILLEGAL, ctrl_data=1)
    assert not unit.lines.requested
    for bit in range(32):
        due = Status.SUCCESS if 1 << bit >= size else ILLEGAL
        command = host_info(0, 1 << bit)
        assert (await unit.run(command, Code.SET_FEATURE, ctrl_data=1))[0] == due, bit


@cocotb.test()
@cocotb.parametrize(slow=[False, True])
async def statistics_by_type(dut, slow):
    """admin.cmd_info.statistics: basic, message, read and write counters have their positions; all
    other statistics are 0."""
    unit = Info(dut, slow)
    await unit.start()
    for kind in (*AdminGetStatsType, 5, 255, AdminGetStatsType.BASIC):
        status, response = await unit.run(stats(int(kind)), Code.GET_STATS, AdminAcqGetStatsResp)
        assert status == Status.SUCCESS
        at, count = COUNTERS.get(int(kind), (0, 0))
        words = b"".join(value.to_bytes(8, "little") for value in unit.counters[at : at + count])
        assert response.pack()[8:] == words.ljust(48, b"\0"), kind
    await unit.refused(stats(0, 1), Code.GET_STATS, ILLEGAL)


@cocotb.test()
@cocotb.parametrize(profile=range(len(PROFILES)))
async def any_request(dut, profile):
    """admin.cmd_info.any: random features, groups, buffers and statistics match the model, many
    with one wrong bit."""
    unit = Info(dut, slow=bool(profile))
    await unit.start()
    rng, size = unit.rng, AdminHostInfo.SIZE
    dut.s_cfg_profile.value = profile
    supported = list(PROFILES.values())[profile].aenq_supported_groups
    widths = [int(getattr(dut, name).value) for name in ("QPN_W", "CQN_W", "MTT_W")]
    enabled = 0

    def beside(number, width, share=0.3):
        return number ^ 1 << rng.randrange(width) if rng.random() < share else number

    for turn in range(320):
        node = rng.getrandbits(16)
        dut.s_cfg_node_id.value = node
        unit.counters[:] = [rng.getrandbits(64) for _ in range(32)]
        if turn % 4 == 0:
            feature = beside(int(rng.choice(list(Id))), 8)
            body = response(feature, profile, node, enabled, *widths)
            status, reported = await unit.run(get(feature), Code.GET_FEATURE, AdminAcqEntry)
            assert status == (ILLEGAL if body is None else Status.SUCCESS), feature
            assert body is None or reported.pack()[8:] == body
        elif turn % 4 == 1:
            command = groups(beside(rng.getrandbits(32) & supported, 32))
            command.control_buffer.length = rng.getrandbits(32)  # of a buffer that is not read
            command.control_buffer.address.mem_addr_low = rng.getrandbits(32)
            command.image[17] = beside(int(Id.AENQ_CONFIG), 8)
            if command.image[17] == Id.HOST_INFO:
                continue
            wanted, good = command.u.aenq.enabled_groups, command.image[17] == Id.AENQ_CONFIG
            good = good and not wanted & ~supported
            status, _ = await unit.run(command, Code.SET_FEATURE)
            assert status == (Status.SUCCESS if good else ILLEGAL)
            enabled = wanted if good else enabled
            assert int(dut.m_groups.value) == enabled
        elif turn % 4 == 2:
            unit.lines.requested.clear()
            feature, length = beside(int(Id.HOST_INFO), 8), beside(size, 32)
            addr = rng.getrandbits(64) % ((1 << 64) - size)
            unit.lines.failed = addr + rng.randrange(size) if rng.random() < 0.2 else None
            command, with_buffer = host_info(addr, length, feature), int(rng.random() < 0.8)
            # The command-specific bytes belong to another feature.
            command.image[20:] = rng.randbytes(len(command.image) - 20)
            due = Status.UNKNOWN_ERROR if unit.lines.failed is not None else Status.SUCCESS
            if length < size:
                due = ILLEGAL
            if not with_buffer:
                due = Status.MALFORMED_REQUEST
            if feature == Id.AENQ_CONFIG:
                continue
            if feature != Id.HOST_INFO:
                due = ILLEGAL
            status, _ = await unit.run(command, Code.SET_FEATURE, ctrl_data=with_buffer)
            assert status == due
            read = due in (Status.SUCCESS, Status.UNKNOWN_ERROR)
            starts = [start for start, _ in unit.lines.requested]
            ends = [start + length for start, length in unit.lines.requested]
            assert starts == ([addr, *ends[:-1]] if read else [])
            assert not read or ends[-1] == addr + size
        else:
            kind, scope = beside(rng.choice(list(COUNTERS)), 8), beside(0, 8, 0.15)
            status, reported = await unit.run(stats(kind, scope), Code.GET_STATS, AdminAcqEntry)
            assert status == (ILLEGAL if scope else Status.SUCCESS)
            at, count = COUNTERS.get(kind, (0, 0))
            words = b"".join(value.to_bytes(8, "little") for value in unit.counters[at:][:count])
            assert scope or reported.pack()[8:] == words.ljust(56, b"\0"), kind


@cocotb.test()
async def its_cycles(dut):
    """admin.cmd_info.time: each command takes the specified cycles; the host memory completes in
    the cycle of the request."""
    drive(dut, s_cmd_valid=0, s_cfg_profile=0, s_cfg_node_id=1, stat_rd_data=0)
    drive(dut, m_line_ready=1, s_line_valid=0, s_line_err=0)
    await clock_and_reset(dut)
    for path, data in (
        ("short", entry(get(1), Code.GET_FEATURE)), ("short", entry(groups(2), Code.SET_FEATURE)),
        ("basic", entry(stats(0), Code.GET_STATS)), ("messages", entry(stats(1), Code.GET_STATS)),
        ("reads", entry(stats(2), Code.GET_STATS)),
        ("writes", entry(stats(3), Code.GET_STATS)),
    ):  # fmt: skip
        cycles = await cycles_of(dut, data)
        assert cycles == timing("efa_cmd_info", path).latency, path

    async def mirror():
        while True:
            await RisingEdge(dut.clk)
            dut.s_line_valid.value = int(dut.m_line_valid.value == 1)

    cocotb.start_soon(mirror())
    data = entry(host_info(64), Code.SET_FEATURE, ctrl_data=1)
    assert await cycles_of(dut, data) == timing("efa_cmd_info", "host").latency


@cocotb.test()
async def reset_in_a_command(dut):
    """admin.cmd_info.reset"""
    unit = Info(dut)
    await unit.start()
    for cycles in range(1, 12):
        assert (await unit.run(groups(GROUPS), Code.SET_FEATURE))[0] == Status.SUCCESS
        unit.lines.responses.clear()
        await unit.cut_off(host_info(77), Code.SET_FEATURE, cycles)
        unit.lines.responses.clear()
        assert await unit.enabled() == 0
