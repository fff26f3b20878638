# SPDX-License-Identifier: Apache-2.0
"""Tests efa_admin: rings, commands and refusals, with slow hosts and engines."""

import cocotb
from cocotb.triggers import ClockCycles

from efa_cosim.host.page_list import mem_addr
from efa_cosim.layouts.defs import (
    LIMITS,
    PROFILES,
    AdminAcqEntry,
    AdminAllocPdCmd,
    AdminAllocPdResp,
    AdminAllocUarCmd,
    AdminAllocUarResp,
    AdminAqCompletionStatus,
    AdminAqEntry,
    AdminAqFeatureId,
    AdminAqGetStatsCmd,
    AdminAqOpcode,
    AdminCreateEqCmd,
    AdminCreateEqResp,
    AdminDeallocPdCmd,
    AdminDeallocUarCmd,
    AdminDestroyEqCmd,
    AdminGetFeatureCmd,
    AdminGetFeatureResp,
    AdminSetFeatureCmd,
    Reg,
)  # fmt: skip
from tb.lib.stream import cycle
from tb.lib.waits import hold
from tb.unit.admin_bench import BROKEN, FREE, AdminBench, host_info, settings

Op, Status, Feature = AdminAqOpcode, AdminAqCompletionStatus, AdminAqFeatureId
OK, ILLEGAL = Status.SUCCESS, Status.ILLEGAL_PARAMETER
SPEC = {name: strap for strap, name in enumerate(PROFILES)}


class Objects:
    """Provides short methods for the commands without required fields."""

    def __init__(self, bench):
        self.bench = bench

    async def pd(self):
        status, response = await self.bench.run(AdminAllocPdCmd(), Op.ALLOC_PD, AdminAllocPdResp)
        return status, response.pd

    async def uar(self):
        status, response = await self.bench.run(AdminAllocUarCmd(), Op.ALLOC_UAR, AdminAllocUarResp)
        return status, response.uar

    async def drop_pd(self, number):
        return (await self.bench.run(AdminDeallocPdCmd(pd=number), Op.DEALLOC_PD))[0]

    async def drop_uar(self, number):
        return (await self.bench.run(AdminDeallocUarCmd(uar=number), Op.DEALLOC_UAR))[0]


async def get_feature(bench, number):
    command = AdminGetFeatureCmd()
    command.feature_common.feature_id = number
    return await bench.run(command, Op.GET_FEATURE, AdminGetFeatureResp)


@cocotb.test(timeout_time=500, timeout_unit="us")
async def features_of_the_default_profile(dut):
    """admin.info.features"""
    await features(dut, "default")


@cocotb.test(timeout_time=500, timeout_unit="us")
async def features_of_the_recorded_profile(dut):
    """admin.info.features.recorded"""
    await features(dut, "recorded")


@cocotb.test(timeout_time=500, timeout_unit="us")
async def features_of_the_profile_for_virtual_machines(dut):
    """admin.info.features.cosim"""
    await features(dut, "cosim")


async def features(dut, name):
    bench = AdminBench(dut, profile=SPEC[name], node=0x0102)
    await bench.start()
    profile = PROFILES[name]
    status, response = await get_feature(bench, Feature.DEVICE_ATTR)
    attr = response.u.device_attr
    assert status == OK and attr.supported_features == profile.supported_features
    assert attr.page_size_cap == profile.page_size_cap and attr.db_bar == LIMITS.db_bar
    assert attr.device_caps == profile.device_caps
    assert attr.max_rdma_size == profile.max_rdma_size
    assert attr.guid.to_bytes(8, "little") == LIMITS.gid_prefix[-6:] + b"\1\2"
    assert attr.max_link_speed_gbps == profile.max_link_speed_gbps
    status, response = await get_feature(bench, Feature.QUEUE_ATTR_1)
    attr = response.u.queue_attr_1
    assert status == OK
    for field in ("max_sq_depth", "max_rq_depth", "max_cq_depth"):
        assert getattr(attr, field) == LIMITS[field]
    most = min(profile.mr_pages_w, int(dut.MTT_W.value))
    assert attr.max_mr_pages == (1 << most) - 1
    for field in ("inline_buf_size", "sub_cqs_per_cq", "min_sq_depth", "max_wr_send_sges",
                  "max_wr_recv_sges", "max_wr_rdma_sges", "max_tx_batch"):  # fmt: skip
        assert getattr(attr, field) == profile[field], field
    for field, width in (("max_qp", "qpn_w"), ("max_cq", "cqn_w"), ("max_mr", "mr_w"),
                         ("max_pd", "pd_w"), ("max_ah", "ah_w")):  # fmt: skip
        assert getattr(attr, field) == 1 << LIMITS[width], field
    assert attr.max_llq_size == LIMITS.max_sq_depth * 64
    status, response = await get_feature(bench, Feature.QUEUE_ATTR_2)
    assert status == OK and response.u.queue_attr_2.inline_buf_size_ex == profile.inline_buf_size_ex
    status, response = await get_feature(bench, Feature.NETWORK_ATTR)
    assert bytes(response.u.network_attr.addr) == LIMITS.gid_prefix + b"\1\2"
    assert response.u.network_attr.mtu == profile.mtu
    status, response = await get_feature(bench, Feature.EVENT_QUEUE_ATTR)
    attr = response.u.event_queue_attr
    assert (attr.max_eq, attr.max_eq_depth) == (profile.max_eq, LIMITS.max_eq_depth)
    status, response = await get_feature(bench, Feature.HW_HINTS)
    assert status == OK and not any(response.pack()[10:])
    assert response.u.hw_hints.mmio_read_timeout == profile.mmio_read_timeout
    for number in (0, 6, 8, 10, 255):
        assert (await get_feature(bench, number))[0] == ILLEGAL


@cocotb.test(timeout_time=500, timeout_unit="us")
async def settings_and_statistics(dut):
    """admin.info.set"""
    bench = AdminBench(dut)
    await bench.start()
    command = settings(Feature.AENQ_CONFIG)
    command.u.aenq.enabled_groups = 0x3E
    assert (await bench.run(command, Op.SET_FEATURE))[0] == ILLEGAL  # bit 5 is not supported
    command.u.aenq.enabled_groups = 0x1E
    assert (await bench.run(command, Op.SET_FEATURE))[0] == OK
    _, response = await get_feature(bench, Feature.AENQ_CONFIG)
    assert response.u.aenq.supported_groups == response.u.aenq.enabled_groups == 0x1E
    command.feature_common.feature_id = 3
    assert (await bench.run(command, Op.SET_FEATURE))[0] == ILLEGAL
    for info, listed, status in (
        (host_info(FREE), 1, OK), (host_info(FREE + 0x31), 1, OK), (host_info(FREE + 0x3F), 1, OK),
        (host_info(BROKEN), 1, Status.UNKNOWN_ERROR),
        (host_info(FREE), 0, Status.MALFORMED_REQUEST), (host_info(FREE, 179), 1, ILLEGAL),
    ):  # fmt: skip
        assert (await bench.run(info, Op.SET_FEATURE, ctrl_data=listed))[0] == status
    for kind, first, count in ((0, 0, 6), (1, 6, 4), (2, 10, 4), (3, 14, 4), (4, 0, 0), (9, 0, 0)):
        command = AdminAqGetStatsCmd(type=kind)
        status, response = await bench.run(command, Op.GET_STATS)
        values = [int.from_bytes(response.pack()[8 + 8 * i :][:8], "little") for i in range(7)]
        assert status == OK
        assert values == bench.stats[first : first + count] + [0] * (7 - count)
    assert (await bench.run(AdminAqGetStatsCmd(scope=1), Op.GET_STATS))[0] == ILLEGAL


@cocotb.test(timeout_time=500, timeout_unit="us")
async def a_driver_probes(dut):
    """admin.probe"""
    bench = AdminBench(dut, profile=SPEC["recorded"])
    await bench.start()
    dut = bench.dut
    for number in (Feature.DEVICE_ATTR, Feature.QUEUE_ATTR_1, Feature.QUEUE_ATTR_2,
                   Feature.NETWORK_ATTR, Feature.EVENT_QUEUE_ATTR, Feature.HW_HINTS,
                   Feature.AENQ_CONFIG):  # fmt: skip
        assert (await get_feature(bench, number))[0] == OK
    groups = settings(Feature.AENQ_CONFIG)
    groups.u.aenq.enabled_groups = 0x1E
    assert (await bench.run(groups, Op.SET_FEATURE))[0] == OK
    for number in range(2):
        queue = AdminCreateEqCmd(depth=512, msix_vec=number + 1, entry_size_words=4)
        queue.ba = mem_addr(FREE + 0x2000 * number)
        status, response = await bench.run(queue, Op.CREATE_EQ, AdminCreateEqResp)
        assert (status, response.eqn) == (OK, number)
    assert (await bench.run(host_info(FREE), Op.SET_FEATURE, ctrl_data=1))[0] == OK
    for kind in range(5):
        assert (await bench.run(AdminAqGetStatsCmd(type=kind), Op.GET_STATS))[0] == OK
    for number in range(2):
        status, _ = await bench.run(AdminDestroyEqCmd(eqn=number), Op.DESTROY_EQ)
        assert status == OK
    await ClockCycles(dut.clk, 30)
    assert len(bench.irqs) == bench.consumed and bench.anomaly == []


@cocotb.test(timeout_time=500, timeout_unit="us")
async def unknown_opcodes_are_refused(dut):
    """admin.dispatch.unsupported"""
    bench = AdminBench(dut)
    await bench.start()
    for opcode in (0, 21, 22, 23, 24, 30, 255):
        assert (await bench.run(AdminAqEntryCommand(), opcode))[0] == Status.UNSUPPORTED_OPCODE


class AdminAqEntryCommand:
    """Models an AQE that consists of a header only."""

    def __init__(self):
        self.entry = AdminAqEntry()
        self.aq_common = self.entry.aq_common_descriptor

    def pack(self):
        return self.entry.pack()


@cocotb.test(timeout_time=2000, timeout_unit="us")
async def numbers_run_out_and_come_back(dut):
    """admin.pd.numbers"""
    bench = AdminBench(dut, slow=False)
    await bench.start()
    objects = Objects(bench)
    for number in range(1 << LIMITS.pd_w):
        assert await objects.pd() == (OK, number)
    assert (await objects.pd())[0] == Status.RESOURCE_ALLOCATION_FAILURE
    assert await objects.drop_pd(17) == OK
    assert await objects.drop_pd(17) == ILLEGAL
    assert await objects.drop_pd(1 << LIMITS.pd_w) == ILLEGAL
    assert await objects.drop_pd(0xFFFF) == ILLEGAL
    assert await objects.pd() == (OK, 17)
    for number in range(1 << LIMITS.uar_w):
        assert await objects.uar() == (OK, number)
    assert (await objects.uar())[0] == Status.RESOURCE_ALLOCATION_FAILURE
    assert await objects.drop_uar(63) == OK
    assert await objects.drop_uar(63) == ILLEGAL


@cocotb.test(timeout_time=2000, timeout_unit="us")
async def a_full_ring_of_commands_is_answered_and_wraps(dut):
    """admin.aq.wrap"""
    bench = AdminBench(dut)
    await bench.start(depth=8, vector=2)
    dut = bench.dut
    for _ in range(5):
        ids = []
        for count in range(8):
            if count % 2:
                ids.append(bench.post(AdminAllocPdCmd(), Op.ALLOC_PD))
            else:
                ids.append(bench.post(AdminAqGetStatsCmd(), Op.GET_STATS))
        await bench.ring()
        responses = [AdminAcqEntry.unpack(await bench.completion()) for _ in range(8)]
        assert sorted(a.acq_common_descriptor.command_id for a in responses) == ids
    await ClockCycles(dut.clk, 50)
    assert bench.irqs and set(bench.irqs) == {2}
    assert bench.anomaly == [] and bench.commands == bench.posted


@cocotb.test(timeout_time=500, timeout_unit="us")
async def illegal_doorbells_change_nothing(dut):
    """admin.aq.doorbell"""
    bench = AdminBench(dut)
    await bench.start(rings=False)
    dut = bench.dut
    await bench.store(Reg.AQ_PROD_DB, 1)
    await ClockCycles(dut.clk, 5)
    assert bench.anomaly == [1]
    await bench.rings(8, 0)
    for value in (9, 0xFFFF):
        await bench.store(Reg.AQ_PROD_DB, value)
    await bench.store(Reg.AENQ_CONS_DB, 0)
    await bench.store(Reg.AENQ_CONS_DB, 1)
    await ClockCycles(dut.clk, 5)
    assert bench.anomaly == [1, 1, 1, 2]
    assert (await Objects(bench).pd())[0] == OK
    bench.produced += 8
    bench.post(AdminAllocPdCmd(), Op.ALLOC_PD)
    bench.produced -= 9
    bench.post(AdminAllocPdCmd(), Op.ALLOC_PD, phase=0)
    await bench.ring()
    await bench.completion()
    assert bench.anomaly == [1, 1, 1, 2, 3]
    await bench.store(Reg.AQ_CAPS, 8 | 96 << 16)
    await bench.store(Reg.AQ_PROD_DB, 3)
    await ClockCycles(dut.clk, 5)
    assert bench.anomaly[-1] == 1


@cocotb.test(timeout_time=500, timeout_unit="us")
async def a_wrong_entry_is_reported_beside_illegal_doorbells(dut):
    """admin.admin_anomaly.turn: an AQE with a wrong phase, found while every cycle has an illegal
    doorbell, is reported after the last doorbell."""
    bench = AdminBench(dut)
    await bench.start()
    dut = bench.dut
    number = bench.produced
    bench.post(AdminAllocPdCmd(), Op.ALLOC_PD, phase=0)
    await bench.ring()
    doorbells = [0x8000 + value for value in range(400)]
    for value in doorbells:
        await bench.store(Reg.AQ_PROD_DB, value)
    await bench.completion()
    await ClockCycles(dut.clk, 5)
    assert bench.anomaly_data == [*(1 | value << 4 for value in doorbells), 3 | number << 4]


@cocotb.test(timeout_time=500, timeout_unit="us")
async def a_failed_entry_read_is_answered(dut):
    """admin.aq.read_error"""
    bench = AdminBench(dut)
    await bench.start()
    dut = bench.dut
    await bench.store(Reg.AQ_BASE_HI, BROKEN >> 32)
    await bench.store(Reg.AQ_CAPS, 32 | 64 << 16)
    bench.next_id = 7
    bench.post(AdminAllocPdCmd(), Op.ALLOC_PD)
    await bench.ring()
    header = AdminAcqEntry.unpack(await bench.completion()).acq_common_descriptor
    assert (header.command_id, header.status) == (0, Status.UNKNOWN_ERROR)
    await ClockCycles(dut.clk, 5)
    assert bench.anomaly == [4]
    await bench.store(Reg.AQ_BASE_HI, 0)
    await bench.store(Reg.AQ_CAPS, 32 | 64 << 16)
    bench.produced = 0
    assert await Objects(bench).pd() == (OK, 0)


@cocotb.test(timeout_time=500, timeout_unit="us")
async def wide_entries_do_what_short_ones_do(dut):
    """admin.aq.wide: wide AQEs work with every version; a wrong checksum or payload version
    refuses the command."""
    bench = AdminBench(dut)
    dut = bench.dut
    bench.wide = 1
    await bench.start(depth=8)
    assert await Objects(bench).pd() == (OK, 0)
    for bench.corrupt in (4, 6, 9, 40, 127):
        assert (await Objects(bench).pd())[0] == Status.MALFORMED_REQUEST
        # No field of a corrupted AQE is used, not even the opcode.
        assert (await bench.run(AdminAqEntryCommand(), 255))[0] == Status.MALFORMED_REQUEST
        await ClockCycles(dut.clk, 5)
        assert bench.anomaly == [6, 6]
        bench.anomaly_data.clear()
    bench.corrupt = None
    assert (await bench.run(AdminAqEntryCommand(), 255))[0] == Status.UNSUPPORTED_OPCODE
    for _ in range(8):
        bench.post(AdminAllocPdCmd(), Op.ALLOC_PD)
    await bench.ring()
    for _ in range(8):
        await bench.completion()
    assert await Objects(bench).pd() == (OK, 9)
    bench.wide = 0
    await bench.rings(16, 0)
    assert await Objects(bench).pd() == (OK, 10)
    assert not bench.anomaly


@cocotb.test(timeout_time=500, timeout_unit="us")
async def version_0_1_has_no_checksums(dut):
    """admin.acq_write.version"""
    bench = AdminBench(dut)
    bench.crc = 0
    await bench.start()
    assert await Objects(bench).pd() == (OK, 0)
    assert (await Objects(bench).drop_pd(3)) == ILLEGAL


@cocotb.test(timeout_time=500, timeout_unit="us")
async def events_stand_beside_responses(dut):
    """admin.aenq: SET_FEATURE enables groups; AEQEs and ACQEs are interleaved, each with its
    MSI-X message."""
    bench = AdminBench(dut)
    await bench.start(vector=1)
    dut = bench.dut
    ring = FREE + 0x8000
    await bench.store(Reg.AENQ_BASE_LO, ring)
    await bench.store(Reg.AENQ_CAPS, 16 | 64 << 16 | 5 << 24)

    async def event(syndrome, data):
        await hold(dut, "s_aenq_valid", "s_aenq_ready", s_aenq_group=2, s_aenq_syndrome=syndrome,
                   s_aenq_data=data)  # fmt: skip

    await event(1, 1)
    await ClockCycles(dut.clk, 20)
    assert bench.anomaly == [5] and not bench.irqs
    command = AdminSetFeatureCmd()
    command.feature_common.feature_id = Feature.AENQ_CONFIG
    command.u.aenq.enabled_groups = 0x1E
    assert (await bench.run(command, Op.SET_FEATURE))[0] == OK
    for number in range(12):
        sent = cocotb.start_soon(event(number, number << 100))
        assert (await Objects(bench).pd())[0] == OK
        await sent
    await ClockCycles(dut.clk, 60)
    for number in range(12):
        image = bytes(bench.memory[ring + 64 * number :][:64])
        assert image[:5] == bytes([2, 0, number, 0, 1])
        assert int.from_bytes(image[16:], "little") == number << 100
    assert bench.irqs.count(5) == 12 and bench.irqs.count(1) == 13
    assert bench.anomaly == [5]


@cocotb.test(timeout_time=500, timeout_unit="us")
async def a_masked_interrupt_is_kept(dut):
    """admin.irq.mask"""
    bench = AdminBench(dut)
    await bench.start(vector=4)
    dut = bench.dut
    await bench.store(Reg.INTR_MASK, 1)
    for _ in range(3):
        await Objects(bench).pd()
    await ClockCycles(dut.clk, 100)
    assert bench.irqs == []
    await bench.store(Reg.INTR_MASK, 0)
    await ClockCycles(dut.clk, 30)
    assert bench.irqs == [4]
    await Objects(bench).pd()
    await ClockCycles(dut.clk, 30)
    assert bench.irqs == [4, 4]


@cocotb.test(timeout_time=500, timeout_unit="us")
async def a_ring_set_up_anew_starts_over(dut):
    """admin.aq.restart"""
    bench = AdminBench(dut)
    await bench.start()
    dut = bench.dut
    for _ in range(8):
        bench.post(AdminAllocPdCmd(), Op.ALLOC_PD)
    await bench.ring()
    await ClockCycles(dut.clk, 30)
    await bench.store(Reg.ACQ_CAPS, 0)
    await ClockCycles(dut.clk, 20)
    bench.reported.clear()
    await ClockCycles(dut.clk, 400)
    assert not bench.reported, "an ACQE is written without an ACQ"
    await bench.rings(16, 0)
    assert (await Objects(bench).pd())[0] == OK
    assert bench.consumed == 1


@cocotb.test(timeout_time=500, timeout_unit="us")
async def a_ring_switched_off_takes_nothing_more(dut):
    """admin.aq.off: AQEs still being fetched when the ring is disabled are not executed."""
    bench = AdminBench(dut)
    await bench.start(8)
    dut = bench.dut
    for wait in range(1, 40, 3):
        await bench.rings(8, 0)
        for _ in range(8):
            bench.post(AdminAllocPdCmd(), Op.ALLOC_PD)
        await bench.ring()
        await ClockCycles(dut.clk, wait)
        await bench.store(Reg.AQ_CAPS, 0)
        await ClockCycles(dut.clk, 4)
        accepted = len(bench.commands)
        await ClockCycles(dut.clk, 400)
        assert len(bench.commands) == accepted
    await bench.rings(8, 0)
    assert (await Objects(bench).pd()) == (OK, accepted)


@cocotb.test(timeout_time=500, timeout_unit="us")
async def a_reset_in_mid_traffic_clears_all(dut):
    """admin.reset"""
    bench = AdminBench(dut)
    await bench.start()
    dut = bench.dut
    for _ in range(20):
        bench.post(AdminAllocPdCmd(), Op.ALLOC_PD)
    await bench.ring()
    await ClockCycles(dut.clk, 150)
    await bench.reset()
    await bench.rings(32, 0)
    assert await Objects(bench).pd() == (OK, 0)


@cocotb.test(timeout_time=500, timeout_unit="us")
async def short_commands_take_tens_of_cycles(dut):
    """admin.time"""
    bench = AdminBench(dut, slow=False)
    await bench.start()
    await Objects(bench).pd()
    begin = cycle()
    await Objects(bench).pd()
    assert cycle() - begin < 40 + 45  # the host read takes 40 cycles


@cocotb.test(timeout_time=500, timeout_unit="us")
async def thirty_two_commands_overlap(dut):
    """admin.time: a full ring of commands overlaps the host reads and takes a few cycles per
    response."""
    bench = AdminBench(dut, slow=False)
    await bench.start(depth=32)
    dut = bench.dut
    await Objects(bench).pd()
    for family in ("one", "two"):
        begin = cycle()
        for number in range(31):
            if family == "one" or number % 2:
                bench.post(AdminAllocPdCmd(), Op.ALLOC_PD)
            else:
                bench.post(AdminDestroyEqCmd(eqn=7), Op.DESTROY_EQ)
        await bench.ring()
        for _ in range(31):
            await bench.completion()
        took = cycle() - begin
        dut._log.info(f"31 commands of {family} families: {took} cycles")
        # Up to eight reads of 40 cycles each are outstanding.
        assert took < 31 * 14
