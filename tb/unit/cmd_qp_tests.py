# SPDX-License-Identifier: Apache-2.0
"""Tests efa_cmd_qp: queue pairs, their contexts, the orders to the engines, their references."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import (
    INTERNAL,
    LIMITS,
    PROFILES,
    AdminAqCompletionStatus,
    AdminAqOpcode,
    AdminCreateQpCmd,
    AdminCreateQpResp,
    AdminDestroyQpCmd,
    AdminModifyQpCmd,
    AdminQpState,
    AdminQueryQpCmd,
    AdminQueryQpResp,
)
from tb.lib.bundles import Bundles
from tb.lib.stream import StreamMonitor, clock_and_reset
from tb.lib.timing import timing
from tb.lib.waits import drive
from tb.unit.cmd_bench import Kind, Op, Unit, cycles_of, entry

Code, Status, S = AdminAqOpcode, AdminAqCompletionStatus, AdminQpState
ILLEGAL, FULL = Status.ILLEGAL_PARAMETER, Status.RESOURCE_ALLOCATION_FAILURE
INIT, CLEAR, FREE, QUERY = range(4)
RQ, SQ = 0x1_2345_6780_0000, 0x9_8765_4321_0FC0


def qp(depth=64, stride=64, rq=32, **fields):
    reported = {"pd": 1, "uar": 2, "send_cq_idx": 3, "recv_cq_idx": 4, "qp_type": 2,
            "rq_base_addr": RQ, "sq_base_addr": SQ} | fields  # fmt: skip
    command = AdminCreateQpCmd(**reported)
    command.qp_alloc_size.send_queue_depth = depth
    command.qp_alloc_size.send_queue_ring_size = depth * stride
    command.qp_alloc_size.recv_queue_ring_size = 16 * rq
    return command


def modify(handle, to=None, **fields):
    """Returns a MODIFY_QP command with a state change, attributes or both."""
    command = AdminModifyQpCmd(qp_handle=handle, **fields)
    for name in fields:
        setattr(command, "modify_mask__" + name, 1)
    if to is not None:
        command.modify_mask__qp_state, command.qp_state = 1, to
    return command


def index_of(response):
    """Returns the index of a queue pair."""
    return response.qp_num & (1 << LIMITS.qpn_w) - 1


class Pairs(Unit):
    """Models the neighbours of efa_cmd_qp; `order` records context writes, drains and engine
    orders."""

    def __init__(self, dut, slow=False):
        dut = Bundles(dut, m_qpc_admin=INTERNAL.qpc_admin)
        dut.lanes("m_queue_op", ("send", "recv"), shared=INTERNAL.queue_op)
        super().__init__(dut, slow)
        self.contexts, self.order = {}, []
        stalls = 0.7 if slow else 0.0
        self.monitors = [StreamMonitor(dut, "m_drain", stalls, [], lambda _: self.saw("drain"))]
        # With SQs in host memory the send engine receives the base address.
        self.sq, self.at_host = SQ, int(dut.SQ_HOST.value) != 0
        for name in ("send", "recv"):
            self.monitors.append(StreamMonitor(
                dut, f"m_queue_op_{name}", stalls, ["kind", "qpn", "qpc", "base"],
                lambda beat, name=name: self.engine(name, beat)
            ))  # fmt: skip
        dut.s_queue_op_busy.value = 0
        drive(
            dut,
            m_qpc_admin_ready=0,
            s_qpc_admin_rvalid=0,
            s_qpc_admin_rdata=0,
            s_cqc_valid=0,
            s_cqc_cqn=0,
            s_cqc_long_id=0,
        )
        self.give()

    async def start(self):
        await super().start()
        cocotb.start_soon(self.serve())
        cocotb.start_soon(self.unlocked())
        for number in (3, 4, 6):
            await self.cq_made(number, long_id=0)

    async def cq_made(self, number, long_id):
        """Reports a new CQ, with or without 64-bit request ids."""
        drive(self.dut, s_cqc_valid=1, s_cqc_cqn=number, s_cqc_long_id=long_id)
        await RisingEdge(self.dut.clk)
        # The payload is don't-care without valid.
        drive(self.dut, s_cqc_valid=0, s_cqc_cqn=number, s_cqc_long_id=1 - long_id)
        await RisingEdge(self.dut.clk)

    def give(self):
        self.numbers.give(Kind.PD, 1)
        self.numbers.give(Kind.UAR, 2, 5)
        self.numbers.give(Kind.CQ, 3, 4, uar=2)
        self.numbers.give(Kind.CQ, 6, uar=5)

    def saw(self, *what):
        self.order.append(what)

    def engine(self, name, beat):
        assert beat["qpc"] == self.contexts[beat["qpn"]]
        if beat["kind"] == INIT:
            assert beat["base"] == (self.sq >> 6) * self.at_host
        self.saw(name, beat["kind"], beat["qpn"])

    async def serve(self):
        """Serves context reads and writes. One command holds one lock for its read and write.
        Ready is set before the request or later."""
        dut = self.dut
        while True:
            dut.m_qpc_admin_ready.value = int(not self.slow)
            await RisingEdge(dut.clk)
            if dut.rst.value != 0 or dut.m_qpc_admin_valid.value != 1:
                continue
            assert dut.m_qpc_admin_lock.value == 1
            if self.slow:
                await ClockCycles(dut.clk, self.rng.randrange(6))
                dut.m_qpc_admin_ready.value = 1
                await RisingEdge(dut.clk)
            dut.m_qpc_admin_ready.value = 0
            number = int(dut.m_qpc_admin_qpn.value)
            if dut.m_qpc_admin_valid.value != 1:
                continue  # a reset cancelled the request
            if dut.m_qpc_admin_write.value == 1:
                self.contexts[number] = int(dut.m_qpc_admin_wdata.value)
                self.saw("write", number)
                continue
            for _ in range(self.rng.randrange(5) if self.slow else 0):
                await RisingEdge(dut.clk)
                assert dut.m_qpc_admin_lock.value == 1 or dut.rst.value == 1
            drive(dut, s_qpc_admin_rvalid=1, s_qpc_admin_rdata=self.contexts.get(number, 0))
            await RisingEdge(dut.clk)
            other = self.rng.getrandbits(INTERNAL.qpc.width)
            drive(dut, s_qpc_admin_rvalid=0, s_qpc_admin_rdata=other)
            await RisingEdge(dut.clk)
            assert dut.m_qpc_admin_lock.value == 1 or dut.rst.value == 1, (
                "lock released before the context is validated"
            )

    async def unlocked(self):
        """Checks that no lock is held without a command."""
        while True:
            await RisingEdge(self.dut.clk)
            if self.dut.s_cmd_ready.value == 1:
                assert self.dut.m_qpc_admin_lock.value == 0

    def context(self, number):
        return INTERNAL.qpc.unpack(self.contexts[number])

    def observed(self):
        """Returns the records of the neighbours since the last call."""
        reported, self.order = self.order, []
        return reported

    async def create(self, **fields):
        status, response = await self.run(qp(**fields), Code.CREATE_QP, AdminCreateQpResp)
        assert status == Status.SUCCESS
        return response

    async def modify(self, handle, to=None, **fields):
        return (await self.run(modify(handle, to, **fields), Code.MODIFY_QP))[0]

    async def query(self, handle):
        command = AdminQueryQpCmd(qp_handle=handle)
        status, response = await self.run(command, Code.QUERY_QP, AdminQueryQpResp)
        assert status == Status.SUCCESS
        return (
            response.qp_state,
            response.qkey,
            response.sq_psn,
            response.rnr_retry,
            response.sq_draining,
        )

    async def destroy(self, handle):
        return (await self.run(AdminDestroyQpCmd(qp_handle=handle), Code.DESTROY_QP))[0]


@cocotb.test()
@cocotb.parametrize(slow=[False, True])
async def pairs_live_and_go(dut, slow):
    """admin.cmd_qp.lifetime: numbers, LLQ positions and contexts are correct; a destruction drains
    and releases all references."""
    unit = Pairs(dut, slow)
    await unit.start()
    before = dict(unit.numbers.consumed)
    first = await unit.create(depth=1024, stride=128)
    assert unit.observed() == [("write", 0), ("send", INIT, 0), ("recv", INIT, 0)]
    second = await unit.create(qp_type=1, rq=0, depth=1, send_cq_idx=4)
    generation = unit.numbers.gens[Kind.QP, 0]
    assert (first.qp_num, second.qp_num) == (generation << 6, generation << 6 | 1)
    for index, response in enumerate((first, second)):
        assert response.qp_handle == response.qp_num
        assert (response.send_sub_cq_idx, response.recv_sub_cq_idx) == (0, 0)
        assert response.sq_db_offset == 2 * LIMITS.db_page_bytes + 8 * index
        assert response.rq_db_offset == response.sq_db_offset + 4
    requested = [n for _, kind, n in unit.numbers.reported if kind == Kind.LLQ]
    assert requested == [0, 0, 32, 32] and first.llq_descriptors_offset == 0
    assert second.llq_descriptors_offset == 32 * LIMITS.llq_page_bytes
    pack, unpack = INTERNAL.qpc.pack, INTERNAL.qpc.unpack
    common = {"live": 1, "pd": 1, "uar": 2, "rcqn": 4}
    assert unit.context(0) == unpack(pack(
        **common, srd=1, qp_num=first.qp_num, scqn=3, sq_log=10, wqe128=1, rq_live=1,
        rq_base=RQ >> 6, rq_log=5, rnr_retry=PROFILES.default.rnr_retry))  # fmt: skip
    assert unit.context(1) == unpack(pack(**common, qp_num=second.qp_num, scqn=4, sq_line=2048))
    unit.observed()
    assert unit.numbers.consumed[Kind.CQ, 4] == 3 and unit.numbers.consumed[Kind.PD, 1] == 2
    for index, response in enumerate((first, second)):
        assert await unit.destroy(response.qp_handle) == Status.SUCCESS
        assert unit.context(index).live == 0
        assert unit.observed() == [("write", index), ("drain",), ("send", FREE, index),
                                ("recv", FREE, index)]  # fmt: skip
        assert await unit.destroy(response.qp_handle) == ILLEGAL
        unit.observed()
    assert unit.numbers.consumed == before
    assert (await unit.create()).qp_num == generation + 1 << 6


@cocotb.test()
async def request_ids_of_64_bits(dut):
    """admin.cmd_qp.long_id: 64-bit request ids need a send CQ that currently supports them."""
    unit = Pairs(dut)
    await unit.start()
    await unit.cq_made(3, long_id=1)
    assert unit.context(index_of(await unit.create(sq_64_bit_req_id=1))).long_id == 1
    assert unit.context(index_of(await unit.create())).long_id == 0
    await unit.refused(qp(sq_64_bit_req_id=1, send_cq_idx=4), Code.CREATE_QP, ILLEGAL)
    await unit.cq_made(3, long_id=0)
    await unit.refused(qp(sq_64_bit_req_id=1), Code.CREATE_QP, ILLEGAL)
    await unit.cq_made(3, long_id=1)
    dut.s_cfg_profile.value = 1
    await unit.refused(qp(sq_64_bit_req_id=1), Code.CREATE_QP, ILLEGAL)


@cocotb.test()
@cocotb.parametrize(profile=range(len(PROFILES)))
async def any_pairs(dut, profile):
    """admin.cmd_qp.any: random references, sizes, addresses and attributes are accepted; handles
    with one wrong bit are refused."""
    unit = Pairs(dut)
    await unit.start()
    dut.s_cfg_profile.value = profile
    offers = list(PROFILES.values())[profile]
    rdma, long_ids, sub = bool(offers.max_rdma_size), profile != 1, offers.sub_cqs_per_cq - 1
    rng, numbers, qpn_w = unit.rng, unit.numbers, int(dut.QPN_W.value)
    numbers.slow = profile == 1
    uars = rng.sample([1 << bit for bit in range(10)] + [0, 1023], 7)
    pds = [1 << bit for bit in range(10)] + [0, 1023]
    numbers.consumed.clear()
    numbers.give(Kind.PD, *pds)
    numbers.give(Kind.UAR, *uars)
    of_uar, with_long = {uar: [] for uar in uars}, set()
    bits = range(len(dut.s_cqc_cqn))
    cqns = {1 << bit for bit in bits} | set(range(3, 16, 2))
    for at, cqn in enumerate(cqns):
        uar = uars[at % len(uars)]
        numbers.give(Kind.CQ, cqn, uar=uar)
        of_uar[uar].append(cqn)
    # A number with a wrong bit is that of a CQ without.
    if long_ids:
        with_long = {cqn for cqn in cqns if cqn.bit_count() == 1}
    for cqn in range(1 << len(bits)):
        await unit.cq_made(cqn, long_id=int(cqn in with_long))
    live, pack, unpack = {}, INTERNAL.qpc.pack, INTERNAL.qpc.unpack
    attributes = {}
    for _ in range(90):
        index, generation = rng.randrange(1 << qpn_w), rng.getrandbits(16)
        if (Kind.QP, index) in numbers.consumed:
            continue
        numbers.first[Kind.QP], numbers.gens[Kind.QP, index] = index, generation - 1
        pd, uar = rng.choice(pds), rng.choice(uars)
        scqn, rcqn = rng.choice(of_uar[uar]), rng.choice(of_uar[uar])
        log, wide, srd = rng.randrange(11), rng.getrandbits(1), rng.getrandbits(1)
        rq_log = rng.choice((None, rng.randrange(11)))
        base, unit.sq = rng.getrandbits(58) << 6, rng.getrandbits(58) << 6 | 1 << 63
        pages_log = max(0, log + 6 + wide - 12)
        numbers.first[Kind.LLQ] = rng.randrange((1 << 14) - 32)
        fields = {"pd": pd, "uar": uar, "send_cq_idx": scqn, "recv_cq_idx": rcqn,
                  "qp_type": 1 + srd, "rq_base_addr": base, "depth": 1 << log,
                  "sq_base_addr": unit.sq, "stride": 64 << wide,
                  "unsolicited_write_recv": rdma & rng.getrandbits(1),
                  "rq": 0 if rq_log is None else 1 << rq_log}  # fmt: skip
        if scqn not in with_long:
            await unit.refused(qp(**fields, sq_64_bit_req_id=1), Code.CREATE_QP, ILLEGAL)
            assert unit.observed() == []
        fields["sq_64_bit_req_id"] = int(scqn in with_long) & rng.getrandbits(1)
        name, width = rng.choice((("pd", 16), ("uar", 16), ("send_cq_idx", 32),
                                  ("recv_cq_idx", 32)))  # fmt: skip
        wrong = fields | {name: fields[name] ^ 1 << rng.randrange(width)}
        theirs = of_uar.get(wrong["uar"], [])
        if (wrong["pd"] not in pds or wrong["send_cq_idx"] not in theirs
                or wrong["recv_cq_idx"] not in theirs):  # fmt: skip
            await unit.refused(qp(**wrong), Code.CREATE_QP, ILLEGAL)
            assert unit.observed() == []
        numbers.reported.clear()
        response = await unit.create(**fields)
        number = (generation << qpn_w | index) % 65536
        assert (response.qp_num, response.qp_handle) == (number, number)
        assert (response.send_sub_cq_idx, response.recv_sub_cq_idx) == (0, sub)
        place = uar * LIMITS.db_page_bytes + 8 * index
        assert (response.sq_db_offset, response.rq_db_offset) == (place, place + 4)
        page, found = (n for op, kind, n in numbers.reported if kind == Kind.LLQ)
        assert page == found, "the LLQ page allocated differs from the page found"
        assert response.llq_descriptors_offset == page * LIMITS.llq_page_bytes
        reported = {"live": 1, "pd": pd, "uar": uar, "scqn": scqn, "rcqn": rcqn, "srd": srd,
                "qp_num": number, "sq_log": log, "wqe128": wide, "sq_line": 64 * page,
                "rsub": sub, "rnr_retry": offers.rnr_retry * srd,
                "unsolicited": fields["unsolicited_write_recv"],
                "long_id": fields["sq_64_bit_req_id"]}  # fmt: skip
        if rq_log is not None:
            reported |= {"rq_live": 1, "rq_base": base >> 6, "rq_log": rq_log}
        assert unit.context(index) == unpack(pack(**reported))
        assert unit.observed() == [
            ("write", index),
            ("send", INIT, index),
            ("recv", INIT, index),
        ]
        live[index] = number, pd, uar, scqn, rcqn, srd, page, pages_log
        qkey, psn, rnr = rng.getrandbits(32), rng.getrandbits(32), rng.randrange(8)
        assert await unit.modify(number, S.INIT, qkey=qkey, cur_qp_state=S.RESET) == 0
        assert await unit.modify(number, S.RTR, cur_qp_state=S.INIT) == 0
        retry = {"rnr_retry": rnr} if srd and rdma else {}
        assert await unit.modify(number, S.RTS, sq_psn=psn, **retry) == 0
        left = rnr if retry else offers.rnr_retry * srd
        assert await unit.query(number) == (S.RTS, qkey, psn, left, 0)
        reported |= {"state": S.RTS, "qkey": qkey, "rnr_retry": left}
        assert unit.context(index) == unpack(pack(**reported))
        # A change of one attribute does not change the others.
        name, value = rng.choice((("qkey", rng.getrandbits(32)), *retry.items()))
        assert await unit.modify(number, **{name: value}) == 0
        qkey = value if name == "qkey" else qkey
        left = value if name == "rnr_retry" else left
        reported |= {"qkey": qkey, "rnr_retry": left}
        attributes[index] = S.RTS, qkey, psn, left, 0
        for other in (index, rng.choice(list(live))):
            assert await unit.query(live[other][0]) == attributes[other]
        assert unit.context(index) == unpack(pack(**reported))
        unit.observed()
        for beside in (number ^ 1 << rng.randrange(32) for _ in range(3)):
            if beside % (1 << qpn_w) in live and live[beside % (1 << qpn_w)][0] == beside:
                continue
            for command, code in ((AdminQueryQpCmd(qp_handle=beside), Code.QUERY_QP),
                                  (modify(beside, S.ERR), Code.MODIFY_QP),
                                  (AdminDestroyQpCmd(qp_handle=beside),
                                   Code.DESTROY_QP)):  # fmt: skip
                await unit.refused(command, code, ILLEGAL)
        assert unit.observed() == []
        if rng.random() < 0.6:
            index = rng.choice(list(live))
            assert await unit.destroy(live[index][0]) == Status.SUCCESS
            assert (unit.context(index).live, unit.context(index).state) == (0, S.RESET)
            assert unit.observed() == [("write", index), ("drain",), ("send", FREE, index),
                                    ("recv", FREE, index)]  # fmt: skip
            del live[index]
        named = [name for _, pd, uar, scqn, rcqn, *_ in live.values() for name in
                 ((Kind.PD, pd), (Kind.UAR, uar), (Kind.CQ, scqn), (Kind.CQ, rcqn))]  # fmt: skip
        for name, count in numbers.consumed.items():
            if name[0] in (Kind.PD, Kind.UAR, Kind.CQ):
                assert count == named.count(name), name
        held = {(Kind.LLQ, page + n) for *_, page, log in live.values() for n in range(1 << log)}
        assert {name for name in numbers.consumed if name[0] == Kind.LLQ} == held


@cocotb.test()
@cocotb.parametrize(slow=[False, True])
async def states_and_attributes(dut, slow):
    """admin.cmd_qp.modify: states and attributes are modified and queried;
    qp_param_check_tests.py checks the transitions."""
    unit = Pairs(dut, slow)
    await unit.start()
    dut.s_cfg_profile.value = 1
    response = await unit.create()
    handle = response.qp_handle
    assert (response.send_sub_cq_idx, response.recv_sub_cq_idx) == (0, 1)
    assert await unit.query(handle) == (S.RESET, 0, 0, 0, 0)
    assert await unit.modify(handle, S.RTR) == ILLEGAL
    assert await unit.modify(handle, S.INIT, qkey=0x8001_0203) == 0
    assert await unit.modify(handle, S.RTR) == 0
    assert await unit.modify(handle, S.RTS, sq_psn=0xFEDC_BA98, rnr_retry=5) == 0
    assert await unit.query(handle) == (S.RTS, 0x8001_0203, 0xFEDC_BA98, 5, 0)
    for _ in range(12):
        # The neighbours respond after any time, and the command stays as it is.
        assert await unit.modify(handle, qkey=7, cur_qp_state=S.RTS) == 0
    assert await unit.modify(handle, qkey=7, rnr_retry=0) == 0
    assert await unit.modify(handle, rnr_retry=8) == ILLEGAL
    assert unit.observed()[-2:] == [("write", 0)] * 2, (
        "only a transition to RESET may clear the queues"
    )
    dut.s_queue_op_busy.value = 1
    assert await unit.query(handle) == (S.RTS, 7, 0xFEDC_BA98, 0, 0)
    assert await unit.modify(handle, S.SQD) == 0
    assert unit.observed() == [("write", 0)]
    assert await unit.query(handle) == (S.SQD, 7, 0xFEDC_BA98, 0, 1)
    assert unit.observed() == [("send", QUERY, 0)]
    dut.s_queue_op_busy.value = 0
    assert await unit.query(handle) == (S.SQD, 7, 0xFEDC_BA98, 0, 0)
    unit.observed()
    assert await unit.modify(handle, S.RESET) == 0
    assert unit.observed() == [("write", 0), ("drain",), ("send", CLEAR, 0), ("recv", CLEAR, 0)]
    assert await unit.query(handle) == (S.RESET, 7, 0xFEDC_BA98, 0, 0)
    other = await unit.create(qp_type=1)
    assert await unit.query(other.qp_handle) == (S.RESET, 0, 0, 0, 0)


@cocotb.test()
@cocotb.parametrize(slow=[False, True])
async def refusals_change_nothing(dut, slow):
    """admin.cmd_qp.refused"""
    unit = Pairs(dut, slow)
    await unit.start()
    handle = (await unit.create()).qp_handle
    unit.observed()
    for fields in ({"qp_type": 3}, {"pd": 2}, {"uar": 4}, {"send_cq_idx": 5}, {"recv_cq_idx": 5},
                   {"send_cq_idx": 6}, {"recv_cq_idx": 6}, {"uar": 5}, {"send_cq_idx": 0x1_0003},
                   {"depth": 3},
                   {"pd": 0x101}, {"uar": 0x102}, {"recv_cq_idx": 4 | 1 << LIMITS.cqn_w},
                   {"stride": 32}, {"rq": 3}, {"rq_base_addr": RQ + 16},
                   {"sq_64_bit_req_id": 1}):  # fmt: skip
        await unit.refused(qp(**fields), Code.CREATE_QP, ILLEGAL)
    # Sizes, type and positions with one wrong bit. Without a receive queue the command would be
    # valid.
    for bit in range(32):
        for name in ("send_queue_depth", "send_queue_ring_size", "recv_queue_ring_size"):
            command = qp()
            size = getattr(command.qp_alloc_size, name) ^ 1 << bit
            setattr(command.qp_alloc_size, name, size)
            if size:
                await unit.refused(command, Code.CREATE_QP, ILLEGAL)
    for bit in range(8):
        await unit.refused(qp(qp_type=2 ^ 1 << bit), Code.CREATE_QP, ILLEGAL)
    # The reference requests carry all bits of the object numbers in the command.
    for name, kind, width in (("pd", Kind.PD, 16), ("uar", Kind.UAR, 16),
                              ("send_cq_idx", Kind.CQ, 32),
                              ("recv_cq_idx", Kind.CQ, 32)):  # fmt: skip
        there = getattr(qp(), name)
        for wrong in (*(there ^ 1 << bit for bit in range(width)), (1 << width) - 1):
            unit.numbers.reported.clear()
            if (kind, wrong) not in unit.numbers.consumed:
                await unit.refused(qp(**{name: wrong}), Code.CREATE_QP, ILLEGAL)
                assert wrong in [
                    n for op, of, n in unit.numbers.reported if of == kind and op != Op.UNREF
                ]
    # Only the send CQ must support 64-bit request ids.
    await unit.cq_made(4, long_id=1)
    await unit.refused(qp(sq_64_bit_req_id=1), Code.CREATE_QP, ILLEGAL)
    for flag in ("sq_virt", "rq_virt"):
        await unit.refused(qp(**{flag: 1}, pd=2), Code.CREATE_QP, Status.MALFORMED_REQUEST)
    for kind in (Kind.LLQ, Kind.QP):
        unit.numbers.full = {kind}
        await unit.refused(qp(), Code.CREATE_QP, FULL)
    unit.numbers.full = set()
    await unit.every_response(
        qp(), Code.CREATE_QP, (Op.REF, Kind.PD), (Op.REF, Kind.UAR), (Op.REF_OF_UAR, Kind.CQ),
        (Op.FIND, Kind.QP), (Op.FIND, Kind.LLQ),
    )  # fmt: skip
    for wrong in (handle ^ 1, handle ^ 1 << 6, handle | 1 << 16, handle | 1 << 31):
        await unit.refused(modify(wrong, S.ERR), Code.MODIFY_QP, ILLEGAL)
        await unit.refused(AdminQueryQpCmd(qp_handle=wrong), Code.QUERY_QP, ILLEGAL)
        await unit.refused(AdminDestroyQpCmd(qp_handle=wrong), Code.DESTROY_QP, ILLEGAL)
    assert unit.observed() == []
    assert await unit.modify(handle, S.INIT, qkey=1) == Status.SUCCESS


@cocotb.test()
async def its_cycles(dut):
    """admin.cmd_qp.time"""
    drive(dut, s_cmd_valid=0, s_cfg_profile=0, s_queue_op_busy=0, s_cqc_valid=0)
    await clock_and_reset(dut)
    idle = {"m_obj_ready": 1, "s_obj_rsp_code": 0, "s_obj_rsp_index": 0, "s_obj_rsp_gen": 0,
            "m_drain_ready": 1, "m_qpc_admin_ready": 1, "s_qpc_admin_rvalid": 1,
            "m_queue_op_ready": 3}  # fmt: skip
    query = AdminQueryQpCmd()
    for path, state, command, code in (
        ("create", S.RESET, qp(), Code.CREATE_QP),
        ("modify", S.RESET, modify(0, S.INIT, qkey=1), Code.MODIFY_QP),
        ("to_reset", S.RTS, modify(0, S.RESET), Code.MODIFY_QP),
        ("query", S.RTS, query, Code.QUERY_QP), ("query_sqd", S.SQD, query, Code.QUERY_QP),
        ("destroy", S.RTS, AdminDestroyQpCmd(), Code.DESTROY_QP),
    ):  # fmt: skip
        dut.s_qpc_admin_rdata.value = INTERNAL.qpc.pack(live=1, state=state)
        cycles = await cycles_of(dut, entry(command, code), **idle)
        assert cycles == timing("efa_cmd_qp", path).latency, (path, cycles)


@cocotb.test()
async def reset_in_a_command(dut):
    """admin.cmd_qp.reset"""
    unit = Pairs(dut)
    await unit.start()
    for cycles in range(1, 36, 2):
        await unit.cut_off(qp(), Code.CREATE_QP, cycles)
        unit.give()
        await ClockCycles(dut.clk, 3)
        unit.order.clear()
        response = await unit.create()
        assert unit.observed() == [("write", 0), ("send", INIT, 0), ("recv", INIT, 0)]
        await unit.cut_off(AdminDestroyQpCmd(qp_handle=response.qp_handle), Code.DESTROY_QP, cycles)
        unit.give()
