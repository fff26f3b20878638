# SPDX-License-Identifier: Apache-2.0
"""Tests efa_admin as a whole: object references, drains, exhaustion of object numbers."""

import cocotb

from efa_cosim.host.page_list import mem_addr
from efa_cosim.layouts.defs import (
    LIMITS,
    PROFILES,
    AdminAllocPdCmd,
    AdminAllocPdResp,
    AdminAllocUarCmd,
    AdminAllocUarResp,
    AdminAqCompletionStatus,
    AdminAqOpcode,
    AdminCreateAhCmd,
    AdminCreateAhResp,
    AdminCreateCqCmd,
    AdminCreateCqResp,
    AdminCreateEqCmd,
    AdminCreateEqResp,
    AdminCreateQpCmd,
    AdminCreateQpResp,
    AdminDeallocPdCmd,
    AdminDeallocUarCmd,
    AdminDeregMrCmd,
    AdminDestroyAhCmd,
    AdminDestroyCqCmd,
    AdminDestroyEqCmd,
    AdminDestroyQpCmd,
    AdminGetFeatureCmd,
    AdminQueryQpCmd,
    AdminRegMrCmd,
    AdminRegMrResp,
)  # fmt: skip
from tb.unit.admin_bench import BROKEN, FREE, AdminBench

Op, Status = AdminAqOpcode, AdminAqCompletionStatus
OK, ILLEGAL, BUSY = Status.SUCCESS, Status.ILLEGAL_PARAMETER, Status.RESOURCE_BUSY
NONE = Status.RESOURCE_ALLOCATION_FAILURE
PAGES = 1 << PROFILES.default.mr_pages_w
GID = LIMITS.gid_prefix


class Objects:
    """Issues commands with valid defaults; a test overrides single fields."""

    def __init__(self, bench):
        self.bench = bench

    async def pd(self):
        return (await self.bench.run(AdminAllocPdCmd(), Op.ALLOC_PD, AdminAllocPdResp))[1].pd

    async def uar(self):
        return (await self.bench.run(AdminAllocUarCmd(), Op.ALLOC_UAR, AdminAllocUarResp))[1].uar

    async def eq(self, **fields):
        values = {"depth": 512, "msix_vec": 1, "entry_size_words": 4, "event_bitmask": 1} | fields
        return await self.bench.run(AdminCreateEqCmd(**values), Op.CREATE_EQ, AdminCreateEqResp)

    async def cq(self, uar=0, **fields):
        values = {"cq_entry_size_words": 8, "sub_cq_depth": 256, "num_sub_cqs": 1, "uar": uar}
        command = AdminCreateCqCmd(**(values | fields))
        return await self.bench.run(command, Op.CREATE_CQ, AdminCreateCqResp)

    async def ah(self, gid, pd=0):
        command = AdminCreateAhCmd(dest_addr=gid, pd=pd)
        return await self.bench.run(command, Op.CREATE_AH, AdminCreateAhResp)

    def region(self, pages=(), listed=False, **fields):
        """Returns a REG_MR command with an inline page list or a page list in host memory."""
        values = {"pd": 0, "mr_length": 4096 * max(1, len(pages)), "phys_page_size_shift": 12,
                  "iova": 0x7F00_0000_0000}  # fmt: skip
        command = AdminRegMrCmd(**(values | fields))
        if listed:
            data = b"".join(page.to_bytes(8, "little") for page in pages)
            self.bench.memory[FREE : FREE + len(data)] = data
            place = mem_addr(FREE ^ self.bench.far)
            command.pbl.pbl = {"length": len(data), "address": place}
        else:
            command.pbl.inline_pbl_array = list(pages)
        return command

    async def mr(self, pages=(), listed=False, **fields):
        command = self.region(pages, listed, **fields)
        return await self.bench.run(command, Op.REG_MR, AdminRegMrResp, ctrl_data=int(listed))

    async def qp(self, depth=64, stride=64, rq=2048, **fields):
        values = {"pd": 0, "qp_type": 2, "rq_base_addr": 0x7100_0000, "uar": 0} | fields
        command = AdminCreateQpCmd(**values)
        command.qp_alloc_size.send_queue_ring_size = depth * stride
        command.qp_alloc_size.send_queue_depth = depth
        command.qp_alloc_size.recv_queue_ring_size = rq
        command.qp_alloc_size.recv_queue_depth = rq // 16
        return await self.bench.run(command, Op.CREATE_QP, AdminCreateQpResp)

    async def drop(self, what, number, **fields):
        """Returns the status of the destroy command of an object: drop("ah", 3, pd=1)."""
        command, opcode, name = {
            "pd": (AdminDeallocPdCmd, Op.DEALLOC_PD, "pd"),
            "uar": (AdminDeallocUarCmd, Op.DEALLOC_UAR, "uar"),
            "eq": (AdminDestroyEqCmd, Op.DESTROY_EQ, "eqn"),
            "cq": (AdminDestroyCqCmd, Op.DESTROY_CQ, "cq_idx"),
            "ah": (AdminDestroyAhCmd, Op.DESTROY_AH, "ah"),
            "mr": (AdminDeregMrCmd, Op.DEREG_MR, "l_key"),
            "qp": (AdminDestroyQpCmd, Op.DESTROY_QP, "qp_handle"),
        }[what]
        return (await self.bench.run(command(**{name: number}, **fields), opcode))[0]


async def together(bench, commands, opcode, response):
    """Runs the commands in batches of the ring size; returns the status and response of each."""
    responses, commands = [], list(commands)
    while commands:
        now, commands = commands[: bench.depth - 1], commands[bench.depth - 1 :]
        ids = [bench.post(command, opcode) for command in now]
        await bench.ring()
        for number in ids:
            rsp = response.unpack(await bench.completion())
            assert rsp.acq_common_desc.command_id == number
            responses.append((int(rsp.acq_common_desc.status), rsp))
    return responses


async def begin(dut, **options):
    bench = AdminBench(dut, **options)
    await bench.start()
    return bench, Objects(bench)


def last(bench, what):
    return next((index, value) for name, index, value in reversed(bench.reported) if name == what)


def names(bench):
    return [name for name, *_ in bench.reported]


@cocotb.test(timeout_time=1000, timeout_unit="us")
async def queues_keep_what_they_name(dut):
    """admin.cq.lifetime: a CQ holds its EQ and its UAR until its destruction, which drains before
    the response."""
    bench, make = await begin(dut)
    uar = [await make.uar(), await make.uar()][1]
    assert (await make.eq())[1].eqn == 0
    status, rsp = await make.cq(uar, interrupt_mode_enabled=1)
    assert (status, rsp.cq_idx) == (OK, 0)
    assert rsp.db_offset == uar * LIMITS.db_page_bytes + LIMITS.db_cq_base
    assert last(bench, "cqc")[1].uar == uar
    assert await make.drop("eq", 0) == BUSY
    assert await make.drop("uar", uar) == BUSY
    assert await make.drop("cq", 0) == OK
    assert last(bench, "cqc")[1].live == 0
    assert names(bench)[-3:] == ["cqc", "drain_cpl", "acq"]
    assert await make.drop("cq", 0) == ILLEGAL
    assert await make.drop("eq", 0) == OK
    assert last(bench, "eqc")[1].live == 0
    assert await make.drop("eq", 0) == ILLEGAL
    assert await make.drop("uar", uar) == OK


@cocotb.test(timeout_time=1000, timeout_unit="us")
async def queues_run_out(dut):
    """admin.cq.refused: a refused CQ or EQ holds no reference, before and after the numbers are
    exhausted."""
    bench, make = await begin(dut)
    uar = await make.uar()
    assert (await make.cq(uar, sub_cq_depth=3))[0] == ILLEGAL
    assert (await make.cq(uar, interrupt_mode_enabled=1, eqn=0))[0] == ILLEGAL
    assert (await make.eq(depth=24))[0] == ILLEGAL
    assert not {"cqc", "eqc"} & set(names(bench))
    assert await make.drop("uar", uar) == OK
    uar = await make.uar()
    for _ in range(1 << LIMITS.eqn_w):
        assert (await make.eq())[0] == OK
    assert (await make.eq())[0] == NONE
    for _ in range(1 << LIMITS.cqn_w):
        assert (await make.cq(uar, interrupt_mode_enabled=1, eqn=7))[0] == OK
    assert (await make.cq(uar, interrupt_mode_enabled=1, eqn=6))[0] == NONE
    assert await make.drop("eq", 6) == OK
    assert await make.drop("eq", 7) == BUSY


@cocotb.test(timeout_time=1000, timeout_unit="us")
async def handles_keep_their_domain(dut):
    """admin.ah.count: a protection domain stays until its last address handle is destroyed."""
    bench, make = await begin(dut)
    pds = [await make.pd(), await make.pd()]
    near = GID + b"\0\x07"
    assert [(await make.ah(near, pd))[1].ah for pd in (pds[0], pds[0], pds[1])] == [0, 0, 1]
    assert (await make.ah(near, 9))[0] == ILLEGAL
    for pd, handle in ((pds[1], 1), (pds[0], 0)):
        assert await make.drop("pd", pd) == BUSY
        assert await make.drop("ah", handle, pd=pd) == OK
    assert last(bench, "ah")[0] == 1, (
        "only handle 1 is removed because handle 0 has one reference left"
    )
    assert await make.drop("pd", pds[1]) == OK
    assert await make.drop("pd", pds[0]) == BUSY
    assert await make.drop("ah", 0, pd=pds[0]) == OK
    index, context = last(bench, "ah")
    assert (index, context.live) == (0, 0)
    assert await make.drop("ah", 0, pd=pds[0]) == ILLEGAL
    assert await make.drop("pd", pds[0]) == OK


@cocotb.test(timeout_time=3000, timeout_unit="us")
async def handles_run_out(dut):
    """admin.ah.numbers: every handle number is allocated in order; a lookup finds one among all
    handles."""
    bench, make = await begin(dut, slow=False)
    pd, every = await make.pd(), range(1 << LIMITS.ah_w)
    commands = [AdminCreateAhCmd(dest_addr=GID + n.to_bytes(2, "big"), pd=pd) for n in every]
    responses = await together(bench, commands, Op.CREATE_AH, AdminCreateAhResp)
    assert [(status, rsp.ah) for status, rsp in responses] == [(OK, n) for n in every]
    assert (await make.ah(bytes(16), pd))[0] == NONE
    assert (await make.ah(GID + b"\0\x11", pd))[1].ah == 0x11


def key(index, gen):
    return gen << LIMITS.mr_w | index


@cocotb.test(timeout_time=2000, timeout_unit="us")
async def regions_keep_their_domain(dut):
    """admin.mr.lifetime: a region holds its domain; its destruction drains all engines before the
    response."""
    bench, make = await begin(dut)
    pd = await make.pd()
    assert (await make.mr([0x1000, 0x1800], pd=pd))[0] == ILLEGAL
    unread = make.region([0x1000] * 5, listed=True, pd=pd)
    unread.pbl.pbl.address = mem_addr(BROKEN)
    status, _ = await bench.run(unread, Op.REG_MR, ctrl_data=1)
    assert status == Status.UNKNOWN_ERROR, "the page list could not be read"
    bench.reported.clear()
    pages = [bench.rng.getrandbits(40) << 12 for _ in range(9)]
    status, rsp = await make.mr(pages, listed=True, pd=pd)
    assert status == OK and rsp.l_key == key(0, 1)
    assert [t for t in bench.reported if t[0] == "mtt"] == [
        ("mtt", number, page >> 12) for number, page in enumerate(pages)
    ]
    assert await make.drop("pd", pd) == BUSY
    bench.reported.clear()
    assert await make.drop("mr", rsp.l_key) == OK
    assert names(bench) == ["mr", "drain_send", "drain_recv", "drain_cpl", "acq"]
    assert bench.reported[0][2].live == 0
    for wrong in (rsp.l_key, key(0, 2), 0xFFFF_FFFF):
        assert await make.drop("mr", wrong) == ILLEGAL
    assert (await make.mr([0x1000], pd=pd))[1].l_key == key(0, 2)
    assert await make.drop("mr", key(0, 2)) == OK
    assert await make.drop("pd", pd) == OK


@cocotb.test(timeout_time=8000, timeout_unit="us")
async def regions_fill_the_pool(dut):
    """admin.mr.pool"""
    bench, make = await begin(dut, slow=False)
    await make.pd()
    status, rsp = await make.mr([0x1000 * i for i in range(PAGES)], listed=True)
    assert status == OK
    assert [t[1:] for t in bench.reported if t[0] == "mtt"] == [(i, i) for i in range(PAGES)]
    assert (await make.mr([0]))[0] == NONE
    assert await make.drop("mr", rsp.l_key) == OK
    bench.reported.clear()
    one = AdminRegMrCmd(mr_length=4096, phys_page_size_shift=12, iova=0x7F00_0000_0000)
    responses = await together(bench, [one] * (1 << LIMITS.mr_w), Op.REG_MR, AdminRegMrResp)
    assert {status for status, _ in responses} == {OK}
    found = [context.mtt for name, _, context in bench.reported if name == "mr"]
    assert found == list(range(1 << LIMITS.mr_w))
    assert (await make.mr([0x1000]))[0] == NONE
    assert (await make.mr([0x1000], mem_addr_phy_mode_en=1))[0] == NONE


async def queue_pair(dut):
    bench, make = await begin(dut)
    await make.pd()
    for _ in range(2):
        await make.uar()
    for uar in (0, 0, 1):
        await make.cq(uar)
    return bench, make


@cocotb.test(timeout_time=2000, timeout_unit="us")
async def queue_pairs_keep_what_they_name(dut):
    """admin.qp.lifetime: a QP holds its objects; engine orders, drains and response occur in the
    specified order"""
    bench, make = await queue_pair(dut)
    bench.reported.clear()
    status, first = await make.qp(recv_cq_idx=1)
    assert status == OK
    assert (first.qp_handle, first.qp_num, first.llq_descriptors_offset) == (0, 0, 0)
    assert names(bench) == ["qpc", "queue_op_send", "queue_op_recv", "acq"]
    assert bench.reported[1][2] == bench.reported[2][2] == 0
    # 1024 WQEs of 128 bytes: 32 pages on their natural boundary.
    status, big = await make.qp(1024, 128, 0, qp_type=1, uar=1, send_cq_idx=2, recv_cq_idx=2)
    assert status == OK and big.llq_descriptors_offset == 32 * LIMITS.llq_page_bytes
    assert last(bench, "qpc")[1].sq_line == 2048
    assert (await make.qp())[1].llq_descriptors_offset == LIMITS.llq_page_bytes
    for what, number in (("pd", 0), ("uar", 0), ("cq", 0), ("cq", 2)):
        assert await make.drop(what, number) == BUSY
    bench.reported.clear()
    assert await make.drop("qp", 0) == OK
    assert names(bench) == [
        "qpc",
        "drain_send",
        "drain_recv",
        "drain_cpl",
        "queue_op_send",
        "queue_op_recv",
        "acq",
    ]
    assert bench.reported[0][2].live == 0 and bench.reported[4][2] == bench.reported[5][2] == 2
    assert await make.drop("qp", 0) == ILLEGAL
    # A QP of the other UAR does not reuse the number; the next QP of this UAR reuses it with the
    # next generation.
    assert (await make.qp(uar=1, send_cq_idx=2, recv_cq_idx=2))[1].qp_num == 3
    status, again = await make.qp()
    assert again.qp_num == again.qp_handle == 1 << LIMITS.qpn_w
    assert again.llq_descriptors_offset == 0
    for handle in (1, 2, 3, 1 << LIMITS.qpn_w):
        assert await make.drop("qp", handle) == OK
    for number in range(3):
        assert await make.drop("cq", number) == OK
    assert await make.drop("pd", 0) == OK
    assert await make.drop("uar", 0) == OK


@cocotb.test(timeout_time=2000, timeout_unit="us")
async def queue_pairs_run_out(dut):
    """admin.qp.refused: a refused QP holds no reference and uses no generation."""
    bench, make = await queue_pair(dut)
    bench.reported.clear()
    assert (await make.qp(rq=48))[0] == ILLEGAL
    assert (await make.qp(recv_cq_idx=2))[0] == ILLEGAL, "CQ 2 belongs to the other UAR"
    assert set(names(bench)) == {"acq"}
    for number in range(16):
        status, rsp = await make.qp(1024, 128, 0)
        assert (status, rsp.qp_num) == (OK, number)
    assert (await make.qp(1, rq=0))[0] == NONE, "no LLQ page is left"
    for number in (14, 15):
        assert await make.drop("qp", number) == OK
    for number in range(14, 1 << LIMITS.qpn_w):
        status, rsp = await make.qp(1, rq=0)
        again = 1 if number in (14, 15) else 0
        assert (status, rsp.qp_num) == (OK, number + (again << LIMITS.qpn_w))
    assert (await make.qp(1, rq=0))[0] == NONE
    assert await make.drop("cq", 0) == BUSY


@cocotb.test(timeout_time=3000, timeout_unit="us")
async def families_work_at_the_same_time(dut):
    """admin.concurrent"""
    bench, make = await queue_pair(dut)
    await make.qp()
    count = 0
    for _ in range(8):
        for command, opcode in (
            (AdminQueryQpCmd(qp_handle=0), Op.QUERY_QP),
            (AdminCreateAhCmd(dest_addr=GID + bytes([0, count % 60]), pd=0), Op.CREATE_AH),
            (AdminGetFeatureCmd(feature_common={"feature_id": 1}), Op.GET_FEATURE),
            (AdminDeregMrCmd(l_key=5), Op.DEREG_MR),
        ):
            bench.post(command, opcode)
            count += 1
        await bench.ring()
    images = [await bench.completion() for _ in range(count)]
    ids = [int.from_bytes(image[:2], "little") & 0xFFF for image in images]
    assert len(set(ids)) == count and ids != sorted(ids)
