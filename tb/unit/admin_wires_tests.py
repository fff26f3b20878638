# SPDX-License-Identifier: Apache-2.0
"""Tests efa_admin: every port with values that use all its bits, and every report."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.host.page_list import mem_addr
from efa_cosim.layouts.defs import (
    LIMITS,
    AdminAenqEntry,
    AdminAllocPdCmd,
    AdminAllocPdResp,
    AdminAqCompletionStatus,
    AdminAqFeatureId,
    AdminAqGetStatsCmd,
    AdminAqOpcode,
    AdminAttachDetachEventCounterCmd,
    AdminCreateAhCmd,
    AdminCreateEventCounterCmd,
    AdminCreateEventCounterResp,
    AdminDeregMrCmd,
    AdminDestroyEventCounterCmd,
    AdminGetFeatureCmd,
    AdminGetFeatureResp,
    AdminHostInfo,
    AdminModifyEventCounterCmd,
    AdminModifyQpCmd,
    AdminQpState,
    AdminQueryQpCmd,
    AdminQueryQpResp,
    AdminRegMrResp,
    Reg,
)  # fmt: skip
from tb.lib.waits import hold
from tb.unit.admin_bench import BROKEN, FREE, AdminBench, host_info, settings
from tb.unit.admin_objects_tests import GID, Objects, key, last

Op, Status, Feature = AdminAqOpcode, AdminAqCompletionStatus, AdminAqFeatureId
OK = Status.SUCCESS
KEEP_ALIVE, GROUPS = 4, 0x1E
EQS = 1 << LIMITS.eqn_w
CREATE, DESTROY, ATTACH, DETACH, SET, ADD, FORGET = range(7)  # orders to the event counters


async def begin(dut):
    bench = AdminBench(dut)
    rng = bench.rng
    # No access of this test crosses a 64 KiB boundary; the BROKEN address bit selects failing
    # reads.
    bench.far = rng.getrandbits(64) & ~(BROKEN | (1 << 16) - 1)
    bench.node = rng.getrandbits(16)
    bench.vector = rng.getrandbits(8)
    await bench.start(depth=16, vector=bench.vector)
    return bench, rng


async def all_reported(bench):
    """Checks that each command and each response is reported completely and in order."""
    await ClockCycles(bench.dut.clk, 5)
    assert bench.commands == bench.posted
    assert bench.responded == bench.completed


@cocotb.test(timeout_time=500, timeout_unit="us")
async def events_of_every_bit(dut):
    """admin.wires.events: AEQEs, keep-alives, messages and reports have all bits correct, with
    the ring far from the other addresses."""
    bench, rng = await begin(dut)
    dut = bench.dut
    ring, vector = FREE + 0x8000, rng.getrandbits(8)
    await bench.place(Reg.AENQ_BASE_LO, Reg.AENQ_BASE_HI, ring)
    await bench.store(Reg.AENQ_CAPS, 16 | 64 << 16 | vector << 24)
    command = settings(Feature.AENQ_CONFIG)
    command.u.aenq.enabled_groups = GROUPS
    assert (await bench.run(command, Op.SET_FEATURE))[0] == OK
    due, lost = [], []
    bits = [None] * 8 + [*range(16)]
    rng.shuffle(bits)
    for bit in bits:
        group, syndrome = rng.randrange(1, 4), rng.getrandbits(16)
        data, uptime = rng.getrandbits(384), rng.getrandbits(64)
        dut.s_uptime.value = uptime
        if bit is not None:
            group ^= 1 << bit  # a group that is not supported
            if group in range(1, 5):
                continue
            lost.append(5 | group << 4 | syndrome << 20)
        else:
            due.append((group, syndrome, data, uptime))
        await hold(dut, "s_aenq_valid", "s_aenq_ready", s_aenq_group=group,
                   s_aenq_syndrome=syndrome, s_aenq_data=data)  # fmt: skip
    await ClockCycles(dut.clk, 60)
    assert bench.anomaly_data == lost
    dut.s_cfg_keep_alive.value = 150
    await ClockCycles(dut.clk, 500)
    dut.s_cfg_keep_alive.value = 0
    await ClockCycles(dut.clk, 60)
    due += [(KEEP_ALIVE, 0, 0, uptime)] * 3
    for number, event in enumerate(due):
        image = bytes(bench.memory[ring + 64 * number :][:64])
        head = AdminAenqEntry.unpack(image).aenq_common_desc
        data, stamp = int.from_bytes(image[16:], "little"), head.timestamp_low
        found = head.group, head.syndrome, data, head.timestamp_high << 32 | stamp
        assert found == event and head.flags == 1
    assert bench.memory[ring + 64 * len(due) :][:64] == bytes(64)
    assert bench.events == [group | syndrome << 16 for group, syndrome, *_ in due]
    # One message may announce two AEQEs.
    assert set(bench.irqs) == {vector, bench.vector}
    assert bench.irqs.count(vector) > len(due) // 2
    # An anomaly report contains the complete ignored value.
    bench.anomaly_data.clear()
    for kind, register in ((1, Reg.AQ_PROD_DB), (2, Reg.AENQ_CONS_DB)):
        for _ in range(4):
            value = rng.getrandbits(32) & ~0xFFFF | bench.produced + rng.randrange(100, 60000)
            await bench.store(register, value)
            await ClockCycles(dut.clk, 3)
            assert bench.anomaly_data.pop() == kind | value << 4
    number = bench.produced
    bench.post(AdminAllocPdCmd(), Op.ALLOC_PD, phase=0)
    await bench.ring()
    await bench.completion()
    assert bench.anomaly_data == [3 | number << 4]
    await all_reported(bench)


@cocotb.test(timeout_time=500, timeout_unit="us")
async def an_event_that_waits_stays_first(dut):
    """admin.wires.writes: an AEQE that waits for the write port is written unchanged, before the
    response of a later command."""
    bench, rng = await begin(dut)
    dut, ring = bench.dut, FREE + 0x8000
    await bench.place(Reg.AENQ_BASE_LO, Reg.AENQ_BASE_HI, ring)
    await bench.store(Reg.AENQ_CAPS, 16 | 64 << 16)
    command = settings(Feature.AENQ_CONFIG)
    command.u.aenq.enabled_groups = GROUPS
    assert (await bench.run(command, Op.SET_FEATURE))[0] == OK
    bench.wr_stalled = True
    bench.reported.clear()
    await hold(dut, "s_aenq_valid", "s_aenq_ready", s_aenq_group=1,
               s_aenq_syndrome=rng.getrandbits(16), s_aenq_data=rng.getrandbits(384))  # fmt: skip
    await ClockCycles(dut.clk, 20)
    bench.post(AdminAllocPdCmd(), Op.ALLOC_PD)
    await bench.ring()
    await ClockCycles(dut.clk, 200)
    bench.wr_stalled = False
    await bench.completion()
    first, second = [place for what, place, _ in bench.reported if what == "acq"]
    assert first == ring and second < FREE
    await all_reported(bench)


@cocotb.test(timeout_time=500, timeout_unit="us")
async def numbers_of_every_bit(dut):
    """admin.wires.responses: ids, opcodes, statistics and the node address are correct in all
    bits; the device reads exactly the requested host memory."""
    bench, rng = await begin(dut)
    dut = bench.dut
    make, read, dut = Objects(bench), [], bench.dut

    async def reads():
        while True:
            await RisingEdge(dut.clk)
            if dut.m_rd_adm_valid.value == 1 and dut.m_rd_adm_ready.value == 1:
                place = int(dut.m_rd_adm_addr.value) ^ bench.far
                read.extend(range(place, place + int(dut.m_rd_adm_len.value)))

    cocotb.start_soon(reads())
    assert (await bench.run(AdminAllocPdCmd(), Op.ALLOC_PD))[0] == OK
    for _ in range(3):
        for kind, first, count in ((0, 0, 6), (1, 6, 4), (3, 14, 4)):
            bench.next_id = rng.getrandbits(12)
            status, response = await bench.run(AdminAqGetStatsCmd(type=kind), Op.GET_STATS)
            values = bench.stats[first : first + count] + [0] * (7 - count)
            assert status == OK
            assert response.pack()[8:] == b"".join(one.to_bytes(8, "little") for one in values)
        bench.stats = [rng.getrandbits(64) for _ in range(32)]
        bench.next_id = rng.getrandbits(12)
        opcode = rng.choice([code for code in range(256) if code not in list(Op)])
        assert (await bench.run(AdminAllocPdCmd(), opcode))[0] == Status.UNSUPPORTED_OPCODE
        # Reads of host memory by several units are outstanding at the same time.
        pages = [rng.getrandbits(40) << 12 for _ in range(20)]
        place = FREE + 0x4000 + rng.getrandbits(14)
        read.clear()
        bench.post(make.region(pages, listed=True), Op.REG_MR, ctrl_data=1)
        bench.post(host_info(place ^ bench.far), Op.SET_FEATURE, ctrl_data=1)
        bench.post(AdminAllocPdCmd(), Op.ALLOC_PD)
        await bench.ring()
        for _ in range(3):
            await bench.completion()
        assert [status for _, status in bench.completed[-3:]] == [OK] * 3
        requested = [*range(FREE, FREE + 8 * len(pages)), *range(place, place + AdminHostInfo.SIZE)]
        assert sorted(at for at in read if at >= FREE) == requested
        found = [value for what, _, value in bench.reported if what == "mtt"]
        assert found == [page >> 12 for page in pages]
        bench.reported.clear()
    for node in (bench.node, bench.node ^ 0xFFFF):
        dut.s_cfg_node_id.value = node
        command = AdminGetFeatureCmd()
        command.feature_common.feature_id = Feature.NETWORK_ATTR
        status, response = await bench.run(command, Op.GET_FEATURE, AdminGetFeatureResp)
        assert bytes(response.u.network_attr.addr) == GID + node.to_bytes(2, "big")
    await all_reported(bench)


async def queues(bench, make, uar):
    """Creates all EQs and five CQs with random attributes."""
    rng = bench.rng
    for number in range(EQS):
        base, log = rng.getrandbits(58) << 6, rng.randrange(10)
        vector = rng.randrange(LIMITS.msix_vectors)
        status, response = await make.eq(depth=1 << log, msix_vec=vector, ba=mem_addr(base))
        assert (status, response.eqn) == (OK, number)
        index, eqc = last(bench, "eqc")
        assert (index, eqc.live, eqc.log, eqc.vector) == (number, 1, log, vector)
        assert eqc.base == base >> 6
    for number in range(5):
        base, eqn, log = rng.getrandbits(58) << 6, rng.randrange(EQS), rng.randrange(14)
        wide, source = rng.getrandbits(1), rng.getrandbits(1)
        status, response = await make.cq(
            uar, cq_ba=mem_addr(base), eqn=eqn, interrupt_mode_enabled=1, sub_cq_depth=1 << log,
            cq_entry_size_words=4 + 4 * (wide | source), set_src_addr=source,
        )  # fmt: skip
        assert (status, response.cq_idx) == (OK, number)
        index, cqc = last(bench, "cqc")
        assert (index, cqc.live, cqc.uar, cqc.eqn) == (number, 1, uar, eqn)
        assert (cqc.base, cqc.log, cqc.intr) == (base >> 6, log, 1)
        assert (cqc.wide, cqc.src_addr, cqc.two) == (wide | source, source, 0)


async def regions(bench, make, pd):
    """Creates and destroys address handles and memory regions, with inline pages and physical
    regions."""
    rng = bench.rng
    for number in range(6):
        node = rng.getrandbits(LIMITS.node_w if number % 2 else 16)
        assert (await make.ah(GID + node.to_bytes(2, "big"), pd))[1].ah == number
        index, ahc = last(bench, "ah")
        assert (index, ahc.live, ahc.pd, ahc.node) == (number, 1, pd, node)
        assert ahc.fabric == (node < 1 << LIMITS.node_w)
    mtt = 0
    for number in range(20):
        physical = number % 2
        pages = [rng.getrandbits(52) << 12 for _ in range(4)]
        iova, writes = rng.getrandbits(63), rng.getrandbits(1)
        if not physical:
            iova &= ~4095
        length = rng.getrandbits(51) | 1 if physical else 4 * 4096 - rng.randrange(4096)
        bench.reported.clear()
        status, response = await make.mr(
            pages, pd=pd, iova=iova, mr_length=length, mem_addr_phy_mode_en=physical,
            local_write_enable=writes,
        )  # fmt: skip
        assert (status, response.l_key, response.r_key) == (OK, key(number, 1), key(number, 1))
        index, mrc = last(bench, "mr")
        assert (index, mrc.live, mrc.key, mrc.pd) == (number, 1, response.l_key, pd)
        assert (mrc.iova, mrc.length, mrc.phys) == (iova, length, physical)
        assert (mrc.local_write, mrc.remote_write, mrc.remote_read) == (writes, 0, 0)
        if not physical:
            assert mrc.mtt == mtt and mrc.shift == 12
            reported = [one[1:] for one in bench.reported if one[0] == "mtt"]
            assert reported == [(mtt + at, page >> 12) for at, page in enumerate(pages)]
            mtt += 4
    await none_beyond(make, pd)
    for number in range(6):
        assert await make.drop("ah", number, pd=pd) == OK
        assert last(bench, "ah")[0] == number
    for number in range(20):
        assert await make.drop("mr", key(number, 1)) == OK
        assert last(bench, "mr")[0] == number


async def none_beyond(make, pd):
    """Checks that object numbers with a bit beyond the valid width are refused."""
    for what, width, fields in (
        ("pd", LIMITS.pd_w, {}), ("uar", LIMITS.uar_w, {}), ("ah", LIMITS.ah_w, {"pd": pd}),
        ("cq", LIMITS.cqn_w, {}), ("eq", LIMITS.eqn_w, {}),
    ):  # fmt: skip
        for bit in range(width, 16):
            assert await make.drop(what, 1 << bit, **fields) == Status.ILLEGAL_PARAMETER


async def pairs(bench, make, pd, uar):
    """Creates queue pairs with random attributes, modifies two and queries their state."""
    rng = bench.rng
    for number in range(9):
        base, log = rng.getrandbits(58) << 6, rng.randrange(5, 11)
        send, receive = rng.sample(range(4), 2)
        status, response = await make.qp(
            16, rq=16 << log, pd=pd, uar=uar, send_cq_idx=send, recv_cq_idx=receive,
            rq_base_addr=base,
        )  # fmt: skip
        assert (status, response.qp_num) == (OK, number)
        index, qpc = last(bench, "qpc")
        assert (index, qpc.live, qpc.state, qpc.srd) == (number, 1, 0, 1)
        assert (qpc.pd, qpc.uar, qpc.qp_num) == (pd, uar, number)
        assert (qpc.scqn, qpc.rcqn, qpc.ssub, qpc.rsub) == (send, receive, 0, 0)
        assert (qpc.rq_live, qpc.rq_base, qpc.rq_log) == (1, base >> 6, log)
        assert (qpc.sq_log, qpc.sq_line, qpc.wqe128) == (4, 64 * number, 0)
    for number in (8, 3):
        qkey, before = rng.getrandbits(32), bench.contexts[number]
        move = AdminModifyQpCmd(qp_handle=number, qkey=qkey, qp_state=AdminQpState.INIT,
                                modify_mask__qkey=1, modify_mask__qp_state=1)  # fmt: skip
        assert (await bench.run(move, Op.MODIFY_QP))[0] == OK
        assert bench.contexts[number] == before | 1 << 1 | qkey << 41
        state = AdminQpState.INIT
        for to in (AdminQpState.RTR, AdminQpState.RTS, AdminQpState.SQD) if number == 8 else ():
            move = AdminModifyQpCmd(qp_handle=number, qp_state=to, modify_mask__qp_state=1,
                                    modify_mask__sq_psn=to == AdminQpState.RTS)  # fmt: skip
            assert (await bench.run(move, Op.MODIFY_QP))[0] == OK
            state = to
        for bench.busy in (0, 1):
            command = AdminQueryQpCmd(qp_handle=number)
            status, response = await bench.run(command, Op.QUERY_QP, AdminQueryQpResp)
            assert (status, response.qp_state, response.qkey) == (OK, state, qkey)
            assert response.sq_draining == (bench.busy and state == AdminQpState.SQD)
        bench.busy = 0


async def counters(bench, uar, pair):
    """Creates event counters; returns the orders due. Queue pair `pair` is destroyed while
    attached."""
    rng, due = bench.rng, []
    for number in range(3):
        paddr = rng.getrandbits(61) << 3
        status, response = await bench.run(
            AdminCreateEventCounterCmd(uar=uar, paddr=paddr), Op.CREATE_EVENT_COUNTER,
            AdminCreateEventCounterResp,
        )  # fmt: skip
        assert (status, response.cntr_handle) == (OK, number)
        due.append((CREATE, number, None, None, paddr))
    for operation, order in ((0, SET), (1, ADD)):
        value = rng.getrandbits(64)
        command = AdminModifyEventCounterCmd(cntr_handle=2, operation=operation, value=value)
        assert (await bench.run(command, Op.MODIFY_EVENT_COUNTER))[0] == OK
        due.append((order, 2, None, None, value))
    for code, order, events in (
        (Op.ATTACH_EVENT_COUNTER, ATTACH, 5), (Op.DETACH_EVENT_COUNTER, DETACH, 1),
        (Op.ATTACH_EVENT_COUNTER, ATTACH, 10),
    ):  # fmt: skip
        command = AdminAttachDetachEventCounterCmd(cntr_handle=1)
        command.u.qp_events.qp_handle, command.u.qp_events.events = pair, events
        assert (await bench.run(command, code))[0] == OK
        due.append((order, 1, pair, events, None))
    return due


def orders(bench, due):
    """Checks that the event counters received exactly these orders; None fields are not
    compared."""
    found = [tuple(None if want is None else part for part, want in zip(one, order, strict=True))
             for one, order in zip(bench.counted, due, strict=True)]  # fmt: skip
    assert found == due


@cocotb.test(timeout_time=1000, timeout_unit="us")
async def objects_of_every_bit(dut):
    """admin.wires.objects: contexts, tables, orders and responses are correct field by field;
    every object is destroyed again."""
    bench, rng = await begin(dut)
    make = Objects(bench)
    pd, uar = [await make.pd() for _ in range(6)][-1], [await make.uar() for _ in range(10)][-1]
    assert (pd, uar) == (5, 9)
    await queues(bench, make, uar)
    await regions(bench, make, pd)
    await pairs(bench, make, pd, uar)
    due = await counters(bench, uar, 8)
    orders(bench, due)
    for number in range(8, -1, -1):
        assert await make.drop("qp", number) == OK
        due.append((FORGET, None, number, None, None))
    for number in range(3):
        command = AdminDestroyEventCounterCmd(cntr_handle=number)
        assert (await bench.run(command, Op.DESTROY_EVENT_COUNTER))[0] == OK
        due.append((DESTROY, number, None, None, None))
    orders(bench, due)
    for what, numbers in (("cq", range(5)), ("eq", range(EQS)), ("pd", [pd]), ("uar", [uar])):
        for number in numbers:
            assert await make.drop(what, number) == OK
    assert not bench.anomaly
    await all_reported(bench)


@cocotb.test()
async def ready_when_the_numbers_are(dut):
    """admin.wires.init: after a reset, init done is set only after the address handle and region
    tables are cleared."""
    await begin(dut)
    dut.rst.value = 1
    await ClockCycles(dut.clk, 4)
    dut.rst.value = 0
    for _ in range((1 << LIMITS.ah_w) + (1 << LIMITS.mr_w)):
        await RisingEdge(dut.clk)
        assert dut.m_init_done.value == 0


@cocotb.test(timeout_time=500, timeout_unit="us")
async def descriptions_of_hosts_in_a_row(dut):
    """admin.wires.host: consecutive HOST_INFO commands each read the complete structure; only
    those with a failing read are refused."""
    bench, _ = await begin(dut)
    for number in range(12):
        failed = number % 3 == 1
        info = host_info((FREE + 0x4000 + 0x100 * number | BROKEN * failed) ^ bench.far)
        status, _ = await bench.run(info, Op.SET_FEATURE, ctrl_data=1)
        assert status == (Status.UNKNOWN_ERROR if failed else OK), number


@cocotb.test(timeout_time=500, timeout_unit="us")
async def responses_wait_together(dut):
    """admin.wires.together: responses of any two units that wait for the same ACQ write are both
    written"""
    bench, rng = await begin(dut)
    dut = bench.dut
    make = Objects(bench)
    pd = await make.pd()
    attributes = AdminGetFeatureCmd()
    attributes.feature_common.feature_id = Feature.NETWORK_ATTR
    commands = [
        (AdminAllocPdCmd(), Op.ALLOC_PD), (attributes, Op.GET_FEATURE),
        (AdminCreateAhCmd(dest_addr=GID + bytes(2), pd=pd), Op.CREATE_AH), (AdminAllocPdCmd(), 255),
        (make.region([4096], pd=pd, mem_addr_phy_mode_en=1, iova=0), Op.REG_MR),
    ]  # fmt: skip
    for first in commands:
        for second in commands:
            bench.wr_stalled = True
            # The first command holds the write port while the two others wait.
            numbers = [bench.post(*one) for one in (commands[0], first, second)]
            await bench.ring()
            await ClockCycles(dut.clk, 150 + rng.randrange(50))
            bench.wr_stalled = False
            for _ in numbers:
                await bench.completion()
            statuses = dict(bench.completed[-3:])
            assert set(statuses) == set(numbers)
            for number, (_, opcode) in zip(numbers[1:], (first, second), strict=True):
                assert statuses[number] == (Status.UNSUPPORTED_OPCODE if opcode == 255 else OK)
    await all_reported(bench)


@cocotb.test(timeout_time=500, timeout_unit="us")
async def no_answer_without_a_ring(dut):
    """admin.wires.off: the ACQ is disabled during a command; no ACQE is written until a new ACQ
    is set up"""
    bench, _ = await begin(dut)
    dut = bench.dut
    make = Objects(bench)
    pd = await make.pd()
    bench.slow = False
    pages = [number << 12 for number in range(1, 300)]
    bench.post(make.region(pages, listed=True, pd=pd), Op.REG_MR, ctrl_data=1)
    await bench.ring()
    while not any(what == "mtt" for what, *_ in bench.reported):
        await RisingEdge(dut.clk)
    await bench.store(Reg.ACQ_CAPS, 0)
    bench.reported.clear()
    await ClockCycles(dut.clk, 1500)
    assert len([what for what, *_ in bench.reported if what == "mtt"]) > 200
    assert not [what for what, *_ in bench.reported if what == "acq"]
    await bench.rings(16, bench.vector)
    assert (await bench.run(AdminAllocPdCmd(), Op.ALLOC_PD))[0] == OK


@cocotb.test(timeout_time=1000, timeout_unit="us")
async def a_key_renewed(dut):
    """admin.wires.renewed: each generation of a key appears in its own response only; an anomaly
    report is correct after two thousand AQEs"""
    bench, _ = await begin(dut)
    dut = bench.dut
    make = Objects(bench)
    pd, gen = await make.pd(), 1
    bench.slow = False
    command = make.region([4096], pd=pd, mem_addr_phy_mode_en=1, iova=0)
    while gen < 1100:
        for turn in range(7):
            bench.post(command, Op.REG_MR)
            bench.post(AdminDeregMrCmd(l_key=key(0, gen + turn)), Op.DEREG_MR)
        await bench.ring()
        for turn in range(7):
            response = AdminRegMrResp.unpack(await bench.completion())
            assert response.l_key == response.r_key == key(0, gen + turn)
            await bench.completion()
        assert {status for _, status in bench.completed[-14:]} == {OK}
        gen += 7
        if gen % 128 < 7:
            # An ALLOC_PD response is written while the response with the key waits.
            bench.wr_stalled = True
            bench.post(AdminAllocPdCmd(), 255)  # refused at once
            number = bench.post(AdminAllocPdCmd(), Op.ALLOC_PD)
            bench.post(command, Op.REG_MR)
            await bench.ring()
            await ClockCycles(dut.clk, 250)
            bench.wr_stalled = False
            for image in [await bench.completion() for _ in range(3)]:
                response = AdminAllocPdResp.unpack(image)
                if response.acq_common_desc.command_id == number:
                    assert not any(image[AdminAllocPdResp.SIZE :])
            assert await make.drop("mr", key(0, gen)) == OK
            gen += 1
    number = bench.produced
    bench.post(AdminAllocPdCmd(), Op.ALLOC_PD, phase=number // bench.depth % 2)
    await bench.ring()
    await bench.completion()
    assert bench.anomaly_data == [3 | number << 4] and number > 2048


@cocotb.test(timeout_time=500, timeout_unit="us")
async def request_ids_of_a_queue(dut):
    """admin.wires.long: a CQ keeps its request id size when another CQ or EQ is created later"""
    bench = AdminBench(dut)
    await bench.start()
    make = Objects(bench)
    uar, pd = await make.uar(), await make.pd()
    for number, wide in enumerate((0, 1)):
        status, response = await make.cq(uar, sq_comp_64_bit_req_id=wide)
        assert (status, response.cq_idx) == (OK, number)
    for _ in range(3):
        for number, wide in enumerate((0, 1)):
            status, response = await make.qp(
                pd=pd, uar=uar, send_cq_idx=number, recv_cq_idx=0, sq_64_bit_req_id=1
            )
            assert status == (OK if wide else Status.ILLEGAL_PARAMETER)
            assert not wide or await make.drop("qp", response.qp_num) == OK
            assert (await make.eq())[0] == OK
