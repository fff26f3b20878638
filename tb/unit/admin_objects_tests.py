"""efa_admin: queues, handles, regions and queue pairs - made, used, refused and destroyed."""

import cocotb

from efa.defs import (
    LIMITS,
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
    AdminModifyQpCmd,
    AdminQpState,
    AdminQueryQpCmd,
    AdminQueryQpResp,
    AdminRegMrCmd,
    AdminRegMrResp,
)  # fmt: skip
from tb.unit.admin_bench import BROKEN, FREE, AdminBench

Op, Status, State = AdminAqOpcode, AdminAqCompletionStatus, AdminQpState
OK, ILLEGAL = Status.SUCCESS, Status.ILLEGAL_PARAMETER
MALFORMED, BUSY = Status.MALFORMED_REQUEST, Status.RESOURCE_BUSY
NONE = Status.RESOURCE_ALLOCATION_FAILURE
RECORDED = 1
PAGES = 1 << LIMITS.mtt_w
GID = LIMITS.gid_prefix


class Objects:
    """Commands with sound defaults; a test changes the field it is about."""

    def __init__(self, bench):
        self.bench = bench

    async def pd(self):
        return (await self.bench.run(AdminAllocPdCmd(), Op.ALLOC_PD, AdminAllocPdResp))[1].pd

    async def uar(self):
        return (await self.bench.run(AdminAllocUarCmd(), Op.ALLOC_UAR, AdminAllocUarResp))[1].uar

    async def drop_pd(self, number):
        return (await self.bench.run(AdminDeallocPdCmd(pd=number), Op.DEALLOC_PD))[0]

    async def drop_uar(self, number):
        return (await self.bench.run(AdminDeallocUarCmd(uar=number), Op.DEALLOC_UAR))[0]

    async def eq(self, base=0x7000_0040, **fields):
        values = {"depth": 512, "msix_vec": 1, "entry_size_words": 4, "event_bitmask": 1} | fields
        command = AdminCreateEqCmd(**values)
        command.ba.mem_addr_low = base
        return await self.bench.run(command, Op.CREATE_EQ, AdminCreateEqResp)

    async def drop_eq(self, number):
        return (await self.bench.run(AdminDestroyEqCmd(eqn=number), Op.DESTROY_EQ))[0]

    async def cq(self, uar=0, base=0x7001_0000, **fields):
        values = {"cq_entry_size_words": 8, "sub_cq_depth": 256, "num_sub_cqs": 1, "uar": uar}
        command = AdminCreateCqCmd(**(values | fields))
        command.cq_ba.mem_addr_low = base
        return await self.bench.run(command, Op.CREATE_CQ, AdminCreateCqResp)

    async def drop_cq(self, number):
        return (await self.bench.run(AdminDestroyCqCmd(cq_idx=number), Op.DESTROY_CQ))[0]

    async def ah(self, gid, pd=0):
        command = AdminCreateAhCmd(dest_addr=gid, pd=pd)
        return await self.bench.run(command, Op.CREATE_AH, AdminCreateAhResp)

    async def drop_ah(self, ah, pd=0):
        return (await self.bench.run(AdminDestroyAhCmd(ah=ah, pd=pd), Op.DESTROY_AH))[0]

    async def mr(self, pages=(), listed=None, flags=0, **fields):
        values = {"pd": 0, "mr_length": 4096 * max(1, len(pages)), "phys_page_size_shift": 12,
                  "local_write_enable": 1, "iova": 0x7F00_0000_0000}  # fmt: skip
        command = AdminRegMrCmd(**(values | fields))
        if listed is None:
            command.pbl.inline_pbl_array = list(pages)
            return await self.bench.run(command, Op.REG_MR, AdminRegMrResp)
        place, length = listed
        data = b"".join(page.to_bytes(8, "little") for page in pages)
        if place < BROKEN:
            self.bench.memory[place : place + len(data)] = data
        command.pbl.pbl.length = length
        command.pbl.pbl.address.mem_addr_low = place & 0xFFFF_FFFF
        command.pbl.pbl.address.mem_addr_high = place >> 32
        return await self.bench.run(
            command, Op.REG_MR, AdminRegMrResp, ctrl_data=1, ctrl_data_indirect=flags
        )

    async def drop_mr(self, key):
        return (await self.bench.run(AdminDeregMrCmd(l_key=key), Op.DEREG_MR))[0]

    async def qp(self, sizes=(64 * 64, 64, 16 * 128, 128), **fields):
        values = {"pd": 0, "qp_type": 2, "rq_base_addr": 0x7100_0000, "uar": 0} | fields
        command = AdminCreateQpCmd(**values)
        for name, value in zip(
            (
                "send_queue_ring_size",
                "send_queue_depth",
                "recv_queue_ring_size",
                "recv_queue_depth",
            ),
            sizes,
            strict=True,
        ):
            setattr(command.qp_alloc_size, name, value)  # fmt: skip
        return await self.bench.run(command, Op.CREATE_QP, AdminCreateQpResp)

    async def modify(self, handle, **fields):
        command = AdminModifyQpCmd(qp_handle=handle, **fields)
        for name in fields:
            if name != "modify_mask":
                setattr(command, "modify_mask__" + name, 1)
        return (await self.bench.run(command, Op.MODIFY_QP))[0]

    async def query(self, handle):
        command = AdminQueryQpCmd(qp_handle=handle)
        return await self.bench.run(command, Op.QUERY_QP, AdminQueryQpResp)

    async def drop_qp(self, handle):
        return (await self.bench.run(AdminDestroyQpCmd(qp_handle=handle), Op.DESTROY_QP))[0]


async def begin(dut, **options):
    bench = AdminBench(dut, **options)
    await bench.start()
    return bench, Objects(bench)


def last(bench, what):
    return next((index, value) for name, index, value in reversed(bench.told) if name == what)


@cocotb.test(timeout_time=1000, timeout_unit="us")
async def queues_live_and_die(dut):
    """admin.cq.life"""
    bench, make = await begin(dut)
    uar = [await make.uar(), await make.uar()][1]
    status, answer = await make.eq(msix_vec=8, depth=64)
    assert (status, answer.eqn) == (OK, 0)
    eqn, context = last(bench, "eqc")
    assert (context.live, context.log, context.vector) == (1, 6, 8)
    assert context.base == 0x7000_0040 >> 6
    status, answer = await make.cq(uar, interrupt_mode_enabled=1, set_src_addr=1)
    assert (status, answer.cq_idx, answer.sub_cq_actual_depth) == (OK, 0, 256)
    assert answer.db_offset == uar * LIMITS.db_page_bytes + LIMITS.db_cq_base
    assert answer.db_valid == 1
    _, context = last(bench, "cqc")
    assert (context.live, context.uar, context.log, context.wide) == (1, uar, 8, 1)
    assert (context.two, context.src_addr, context.intr, context.eqn) == (0, 1, 1, 0)
    assert await make.drop_eq(0) == BUSY
    assert await make.drop_uar(uar) == BUSY
    assert await make.drop_cq(0) == OK
    assert last(bench, "cqc")[1].live == 0
    assert [name for name, *_ in bench.told[-3:]] == ["cqc", "drain_cpl", "acq"]
    assert await make.drop_cq(0) == ILLEGAL
    assert await make.drop_eq(0) == OK
    assert last(bench, "eqc")[1].live == 0
    assert await make.drop_eq(0) == ILLEGAL
    assert await make.drop_uar(uar) == OK


@cocotb.test(timeout_time=1000, timeout_unit="us")
async def refused_queues_change_nothing(dut):
    """admin.cq.refused"""
    bench, make = await begin(dut)
    uar = await make.uar()
    for fields in ({"depth": 0}, {"depth": 24}, {"depth": 1024}, {"entry_size_words": 8},
                   {"msix_vec": LIMITS.msix_vectors}, {"base": 0x7000_0020}):  # fmt: skip
        assert (await make.eq(**fields))[0] == ILLEGAL, fields
    for fields in ({"cq_entry_size_words": 5}, {"cq_entry_size_words": 4, "set_src_addr": 1},
                   {"sq_comp_64_bit_req_id": 1}, {"sub_cq_depth": 3}, {"sub_cq_depth": 0},
                   {"sub_cq_depth": 16384}, {"num_sub_cqs": 2}, {"uar": 5}, {"uar": 0xFFFF},
                   {"interrupt_mode_enabled": 1, "eqn": 0}, {"base": 0x7001_0010},
                   {"interrupt_mode_enabled": 1, "eqn": 0x100}):  # fmt: skip
        assert (await make.cq(**({"uar": uar} | fields)))[0] == ILLEGAL, fields
    assert (await make.cq(uar, virt=1, cq_entry_size_words=9))[0] == MALFORMED
    assert not [name for name, *_ in bench.told if name in ("cqc", "eqc")]
    assert await make.drop_uar(uar) == OK
    uar = await make.uar()
    for _ in range(1 << LIMITS.eqn_w):
        assert (await make.eq())[0] == OK
    assert (await make.eq())[0] == NONE
    for _ in range(1 << LIMITS.cqn_w):
        assert (await make.cq(uar, interrupt_mode_enabled=1, eqn=7))[0] == OK
    assert (await make.cq(uar, interrupt_mode_enabled=1, eqn=6))[0] == NONE
    assert await make.drop_eq(6) == OK
    assert await make.drop_eq(7) == BUSY


@cocotb.test(timeout_time=1000, timeout_unit="us")
async def handles_are_counted(dut):
    """admin.ah.count"""
    bench, make = await begin(dut)
    pds = [await make.pd(), await make.pd()]
    near, far = GID + b"\0\x07", bytes(range(16))
    for _ in range(3):
        status, answer = await make.ah(near, pds[0])
        assert (status, answer.ah) == (OK, 0)
    tells = [(index, value) for name, index, value in bench.told if name == "ah"]
    assert len(tells) == 1
    assert (tells[0][1].live, tells[0][1].fabric, tells[0][1].node) == (1, 1, 7)
    assert (await make.ah(near, pds[1]))[1].ah == 1
    assert last(bench, "ah")[1].pd == pds[1]
    assert (await make.ah(far, pds[0]))[1].ah == 2
    assert last(bench, "ah")[1].fabric == 0
    assert (await make.ah(GID + b"\0\x40", pds[0]))[1].ah == 3
    assert last(bench, "ah")[1].fabric == 0
    assert (await make.ah(near, 9))[0] == ILLEGAL
    assert await make.drop_ah(0, pds[1]) == ILLEGAL
    assert await make.drop_ah(4, pds[0]) == ILLEGAL
    assert await make.drop_pd(pds[1]) == BUSY
    assert await make.drop_ah(0, pds[0]) == OK
    assert await make.drop_ah(0, pds[0]) == OK
    assert last(bench, "ah")[1].live == 1
    assert await make.drop_ah(0, pds[0]) == OK
    index, value = last(bench, "ah")
    assert (index, value.live, value.pd, value.node) == (0, 0, pds[0], 7)
    assert await make.drop_ah(0, pds[0]) == ILLEGAL
    assert await make.drop_ah(1, pds[1]) == OK
    assert await make.drop_pd(pds[1]) == OK
    assert (await make.ah(near, pds[0]))[1].ah == 0


@cocotb.test(timeout_time=3000, timeout_unit="us")
async def handles_run_out(dut):
    """admin.ah.numbers"""
    bench, make = await begin(dut, slow=False)
    pd = await make.pd()
    for number in range(1 << LIMITS.ah_w):
        assert (await make.ah(GID + number.to_bytes(2, "big"), pd))[1].ah == number
    assert (await make.ah(bytes(16), pd))[0] == NONE
    assert (await make.ah(GID + b"\0\x11", pd))[1].ah == 0x11


def key(index, gen):
    return gen << LIMITS.mr_w | index


@cocotb.test(timeout_time=2000, timeout_unit="us")
async def regions_live_and_die(dut):
    """admin.mr.life"""
    bench, make = await begin(dut)
    pd = await make.pd()
    status, answer = await make.mr([0x1000, 0x9000], iova=0x5000_0800, mr_length=4097)
    assert status == OK and answer.l_key == answer.r_key == key(0, 1)
    assert [t for t in bench.told if t[0] == "mtt"] == [("mtt", 0, 1), ("mtt", 1, 9)]
    _, context = last(bench, "mr")
    assert (context.live, context.key, context.pd, context.local_write) == (1, key(0, 1), pd, 1)
    assert (context.phys, context.shift, context.mtt) == (0, 12, 0)
    assert (context.iova, context.length) == (0x5000_0800, 4097)
    # Lists of every alignment inside a line.
    places, first = {}, 2
    for count in (1, 7, 8, 9, 30):
        place = FREE + 0x1008 * count
        pages = [bench.rng.getrandbits(40) << 12 for _ in range(count)]
        bench.told.clear()
        status, answer = await make.mr(pages, (place, 8 * count + 5))
        assert status == OK
        assert [t for t in bench.told if t[0] == "mtt"] == [
            ("mtt", first + i, page >> 12) for i, page in enumerate(pages)
        ]
        assert last(bench, "mr")[1].mtt == first
        places[count] = answer.l_key
        first += count
    assert await make.drop_pd(pd) == BUSY
    bench.told.clear()
    assert await make.drop_mr(places[8]) == OK
    assert [name for name, *_ in bench.told] == [
        "mr", "drain_send", "drain_recv", "drain_cpl", "acq"
    ]  # fmt: skip
    assert bench.told[0][2].live == 0
    for wrong in (places[8], places[9] | 1 << 20, places[9] ^ 1 << LIMITS.mr_w, 0, 0xFFFFFFFF):
        assert await make.drop_mr(wrong) == ILLEGAL
    # The gap of 8 takes 7, not 9.
    status, answer = await make.mr([0x1000] * 9, (FREE, 72))
    assert last(bench, "mr")[1].mtt == first and answer.l_key == key(3, 2)
    status, answer = await make.mr([0x1000] * 7, (FREE, 56))
    assert last(bench, "mr")[1].mtt == 10
    status, answer = await make.mr([0x1000])
    assert last(bench, "mr")[1].mtt == 17


@cocotb.test(timeout_time=2000, timeout_unit="us")
async def physical_regions_have_no_pages(dut):
    """admin.mr.physical"""
    bench, make = await begin(dut)
    await make.pd()
    fields = {"mem_addr_phy_mode_en": 1, "phys_page_size_shift": 0, "iova": 0}
    status, answer = await make.mr(mr_length=1 << 52, **fields)
    assert status == OK
    assert last(bench, "mr")[1].phys == 1
    assert not [t for t in bench.told if t[0] == "mtt"]
    assert await make.drop_mr(answer.l_key) == OK
    assert await make.drop_pd(0) == OK


@cocotb.test(timeout_time=3000, timeout_unit="us")
async def refused_regions_change_nothing(dut):
    """admin.mr.refused"""
    bench, make = await begin(dut)
    await make.pd()
    top = (1 << 64) - 4096
    listed = (FREE, 40)
    cases = [
        (ILLEGAL, {"pd": 1}), (ILLEGAL, {"mr_length": 0}), (ILLEGAL, {"phys_page_size_shift": 11}),
        (ILLEGAL, {"phys_page_size_shift": 32}), (ILLEGAL, {"phys_page_size_shift": 44}),
        (ILLEGAL, {"iova": top, "mr_length": 4097}), (ILLEGAL, {"remote_read_enable": 1}),
        (ILLEGAL, {"remote_write_enable": 1}), (ILLEGAL, {"mr_length": 4 * 4096 + 1}),
        (ILLEGAL, {"mr_length": (1 << 64) - 1, "iova": 1}), (ILLEGAL, {"pages": [0x1000, 0x1800]}),
        (ILLEGAL, {"pages": [0x1000] * 6, "listed": listed}),
        (ILLEGAL, {"pages": [0x1000] * 5, "listed": (FREE + 4, 40)}),
        (ILLEGAL, {"pages": [0x1000] * 4 + [1], "listed": listed}),
        (MALFORMED, {"pages": [0x1000] * 5, "listed": listed, "flags": 1}),
        (Status.UNKNOWN_ERROR, {"pages": [0x1000] * 20, "listed": (BROKEN, 160)}),
        (NONE, {"mr_length": PAGES * 4096 + 1, "listed": (BROKEN, 1 << 31)}),
        (NONE, {"mr_length": 1 << 40, "listed": (BROKEN, (1 << 32) - 1)}),
    ]  # fmt: skip
    for want, fields in cases:
        status, _ = await make.mr(**fields)
        assert status == want, (want, fields)
    assert not [t for t in bench.told if t[0] == "mr"]
    assert (await make.mr([0x1000], iova=top))[1].l_key == key(0, 1)
    assert last(bench, "mr")[1].mtt == 0
    assert await make.drop_mr(key(0, 1)) == OK
    assert await make.drop_pd(0) == OK


@cocotb.test(timeout_time=8000, timeout_unit="us")
async def regions_fill_the_pool(dut):
    """admin.mr.pool"""
    bench, make = await begin(dut, slow=False)
    await make.pd()
    pages = [0x1000 * i for i in range(PAGES)]
    status, answer = await make.mr(pages, (FREE, 8 * PAGES))
    assert status == OK
    tells = [t[1:] for t in bench.told if t[0] == "mtt"]
    assert tells == [(i, i) for i in range(PAGES)]
    assert (await make.mr([0]))[0] == NONE
    assert await make.drop_mr(answer.l_key) == OK
    for number in range(1 << LIMITS.mr_w):
        assert (await make.mr([0x1000]))[0] == OK
        assert last(bench, "mr")[1].mtt == number
    assert (await make.mr([0x1000]))[0] == NONE
    assert (await make.mr([0x1000], mem_addr_phy_mode_en=1))[0] == NONE


@cocotb.test(timeout_time=3000, timeout_unit="us")
async def random_regions_are_placed_first_fit(dut):
    """admin.mr.first_fit"""
    bench, make = await begin(dut, slow=False)
    await make.pd()
    held = {}
    for _ in range(150):
        if held and bench.rng.random() < 0.45:
            gone = bench.rng.choice(list(held))
            assert await make.drop_mr(gone) == OK
            del held[gone]
            continue
        count = bench.rng.randrange(1, 12)
        status, answer = await make.mr([0x1000] * count, (FREE, 8 * count))
        assert status == OK
        at = 0
        for start, size in sorted(held.values()):
            if start - at >= count:
                break
            at = start + size
        assert last(bench, "mr")[1].mtt == at
        held[answer.l_key] = (at, count)


async def queue_pair(dut, **options):
    bench, make = await begin(dut, **options)
    await make.pd()
    await make.uar()
    await make.uar()
    subs = 2 if options.get("profile") else 1
    for uar in (0, 0, 1):
        await make.cq(uar, num_sub_cqs=subs)
    return bench, make


@cocotb.test(timeout_time=2000, timeout_unit="us")
async def queue_pairs_live_and_die(dut):
    """admin.qp.life"""
    bench, make = await queue_pair(dut)
    bench.told.clear()
    status, first = await make.qp(recv_cq_idx=1)
    assert status == OK
    assert (first.qp_handle, first.qp_num, first.llq_descriptors_offset) == (0, 0, 0)
    assert (first.sq_db_offset, first.rq_db_offset) == (0, 4)
    assert [t[0] for t in bench.told] == ["qpc", "sqop", "rqop", "acq"]
    assert bench.told[1][2] == bench.told[2][2] == 0
    _, context = last(bench, "qpc")
    assert (context.live, context.state, context.srd, context.pd) == (1, State.RESET, 1, 0)
    assert (context.scqn, context.rcqn, context.ssub, context.rsub) == (0, 1, 0, 0)
    assert (context.sq_log, context.wqe128, context.rq_live, context.rq_log) == (6, 0, 1, 7)
    assert context.rq_base == 0x7100_0000 >> 6
    # 1024 entries of 128 bytes: 32 pages on their natural boundary; no receive ring.
    status, big = await make.qp(
        (1024 * 128, 1024, 0, 0), qp_type=1, uar=1, send_cq_idx=2, recv_cq_idx=2, rq_base_addr=1
    )
    assert status == OK and big.llq_descriptors_offset == 32 * LIMITS.llq_page_bytes
    assert big.sq_db_offset == LIMITS.db_page_bytes + 8
    _, context = last(bench, "qpc")
    assert (context.srd, context.sq_line, context.sq_log, context.wqe128) == (0, 2048, 10, 1)
    assert context.rq_live == 0
    assert (await make.qp())[1].llq_descriptors_offset == LIMITS.llq_page_bytes
    for call in (make.drop_pd(0), make.drop_uar(0), make.drop_cq(0), make.drop_cq(2)):
        assert await call == BUSY
    bench.told.clear()
    assert await make.drop_qp(0) == OK
    assert [t[0] for t in bench.told] == [
        "qpc", "drain_send", "drain_recv", "drain_cpl", "sqop", "rqop", "acq"
    ]  # fmt: skip
    assert bench.told[0][2].live == 0 and bench.told[4][2] == bench.told[5][2] == 2
    for wrong in (0, 3, 0x1_0001, 0xFFFF_FFFF):
        assert await make.drop_qp(wrong) == ILLEGAL
        assert (await make.query(wrong))[0] == ILLEGAL
    # The number is used again, with its next generation; not by the other UAR.
    assert (await make.qp(uar=1, send_cq_idx=2, recv_cq_idx=2))[1].qp_num == 3
    status, again = await make.qp()
    assert again.qp_num == again.qp_handle == 1 << LIMITS.qpn_w
    assert again.llq_descriptors_offset == 0
    for handle in (1, 2, 3, 1 << LIMITS.qpn_w):
        assert await make.drop_qp(handle) == OK
    for number in range(3):
        assert await make.drop_cq(number) == OK
    assert await make.drop_pd(0) == OK
    assert await make.drop_uar(0) == OK


@cocotb.test(timeout_time=2000, timeout_unit="us")
async def refused_queue_pairs_change_nothing(dut):
    """admin.qp.refused"""
    bench, make = await queue_pair(dut)
    bench.told.clear()
    sound = (4096, 64, 2048, 128)
    cases = [
        (MALFORMED, {"sq_virt": 1}), (MALFORMED, {"rq_virt": 1, "qp_type": 7}),
        (ILLEGAL, {"qp_type": 0}), (ILLEGAL, {"qp_type": 3}), (ILLEGAL, {"pd": 1}),
        (ILLEGAL, {"uar": 2}), (ILLEGAL, {"uar": 1}), (ILLEGAL, {"send_cq_idx": 3}),
        (ILLEGAL, {"recv_cq_idx": 2}), (ILLEGAL, {"send_cq_idx": 1 << 16}),
        (ILLEGAL, {"recv_cq_idx": 1 << LIMITS.cqn_w}), (ILLEGAL, {"unsolicited_write_recv": 1}),
        (ILLEGAL, {"sq_64_bit_req_id": 1}), (ILLEGAL, {"rq_base_addr": 0x20}),
        (ILLEGAL, {"sizes": (64 * 48, 48, 0, 0)}), (ILLEGAL, {"sizes": (0, 0, 0, 0)}),
        (ILLEGAL, {"sizes": (64 * 2048, 2048, 0, 0)}), (ILLEGAL, {"sizes": (96 * 64, 64, 0, 0)}),
        (ILLEGAL, {"sizes": (64, 1 << 26, 0, 0)}), (ILLEGAL, {"sizes": (4096, 64, 8, 1)}),
        (ILLEGAL, {"sizes": (4096, 64, 48, 3)}), (ILLEGAL, {"sizes": (4096, 64, 1 << 17, 1)}),
        (ILLEGAL, {"sizes": (4096, 64, 1 << 31, 1)}),
    ]  # fmt: skip
    for want, fields in cases:
        assert (await make.qp(**({"sizes": sound} | fields)))[0] == want, fields
    assert {t[0] for t in bench.told} == {"acq"}
    for number in range(16):
        status, answer = await make.qp((1024 * 128, 1024, 0, 0))
        assert (status, answer.qp_num) == (OK, number)
    assert (await make.qp((64, 1, 0, 0)))[0] == NONE, "no LLQ page is left"
    for number in (14, 15):
        assert await make.drop_qp(number) == OK
    # The refusal used up no generation.
    for number in range(14, 1 << LIMITS.qpn_w):
        status, answer = await make.qp((64, 1, 0, 0))
        again = 1 if number in (14, 15) else 0
        assert (status, answer.qp_num) == (OK, number + (again << LIMITS.qpn_w))
    assert (await make.qp((64, 1, 0, 0)))[0] == NONE
    assert await make.drop_cq(0) == BUSY


LEGAL = {
    State.RESET: {State.INIT}, State.INIT: {State.INIT, State.RTR, State.ERR},
    State.RTR: {State.RTS, State.ERR}, State.RTS: {State.RTS, State.SQD, State.ERR},
    State.SQD: {State.SQD, State.RTS, State.ERR}, State.SQE: {State.RTS, State.ERR},
    State.ERR: {State.ERR},
}  # fmt: skip


@cocotb.test(timeout_time=3000, timeout_unit="us")
async def only_the_known_transitions(dut):
    """admin.qp.transitions"""
    bench, make = await queue_pair(dut)
    await make.qp()
    for origin, legal in LEGAL.items():
        for target in range(9):
            bench.contexts[0] = bench.contexts[0] & ~(7 << 1) | origin << 1
            bench.told.clear()
            fields = {"cur_qp_state": origin, "qkey": 3, "sq_psn": 4, "qp_state": target}
            want = OK if target in legal or target == State.RESET else ILLEGAL
            assert await make.modify(0, **fields) == want, (origin, target)
            names = [t[0] for t in bench.told]
            if want != OK:
                assert names == ["acq"]
            elif target == State.RESET:
                assert names == [
                    "qpc", "drain_send", "drain_recv", "drain_cpl", "sqop", "rqop", "acq"
                ]  # fmt: skip
                assert bench.told[4][2] == 1
            else:
                assert names == ["qpc", "acq"]
                assert bench.told[0][2].state == target


@cocotb.test(timeout_time=2000, timeout_unit="us")
async def attributes_are_kept(dut):
    """admin.qp.attributes"""
    bench, make = await queue_pair(dut, profile=RECORDED)
    assert (await make.qp())[0] == OK
    assert last(bench, "qpc")[1].rsub == 1
    _, answer = await make.query(0)
    assert (answer.qp_state, answer.qkey, answer.sq_psn, answer.rnr_retry) == (0, 0, 0, 7)
    assert await make.modify(0, qp_state=State.INIT) == ILLEGAL
    assert await make.modify(0, cur_qp_state=1, qp_state=State.INIT, qkey=1) == ILLEGAL
    assert await make.modify(0, qp_state=State.INIT, qkey=0x1234_5678) == OK
    assert await make.modify(0, qp_state=State.RTR, rnr_retry=8) == ILLEGAL
    assert await make.modify(0, qp_state=State.RTR) == OK
    assert await make.modify(0, qp_state=State.RTS) == ILLEGAL
    assert await make.modify(0, qp_state=State.RTS, sq_psn=77, rnr_retry=3) == OK
    assert await make.modify(0, qkey=9) == OK
    assert last(bench, "qpc")[1].qkey == 9
    bench.busy = 1
    _, answer = await make.query(0)
    assert (answer.qp_state, answer.qkey, answer.sq_psn) == (State.RTS, 9, 77)
    assert (answer.rnr_retry, answer.sq_draining) == (3, 0)
    assert await make.modify(0, qp_state=State.SQD) == OK
    assert (await make.query(0))[1].sq_draining == 1
    bench.busy = 0
    assert (await make.query(0))[1].sq_draining == 0
    assert await make.modify(0, qp_state=State.RESET) == OK
    _, answer = await make.query(0)
    assert (answer.qp_state, answer.qkey, answer.sq_psn, answer.rnr_retry) == (0, 9, 77, 3)
    status, datagram = await make.qp(qp_type=1)
    assert (await make.query(datagram.qp_handle))[1].rnr_retry == 0
    assert await make.modify(datagram.qp_handle, rnr_retry=1) == ILLEGAL


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
