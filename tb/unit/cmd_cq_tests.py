# SPDX-License-Identifier: Apache-2.0
"""Tests efa_cmd_cq: creation and destruction of CQs and EQs, their references, the drain."""

from itertools import combinations

import cocotb

from efa_cosim.host.page_list import mem_addr
from efa_cosim.layouts.defs import (
    INTERNAL,
    LIMITS,
    AdminAqCompletionStatus,
    AdminAqOpcode,
    AdminCreateCqCmd,
    AdminCreateCqResp,
    AdminCreateEqCmd,
    AdminCreateEqResp,
    AdminDestroyCqCmd,
    AdminDestroyEqCmd,
)
from tb.lib.stream import StreamMonitor, clock_and_reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive
from tb.unit.cmd_bench import Kind, Op, Unit, cycles_of, entry

Code, Status = AdminAqOpcode, AdminAqCompletionStatus
ILLEGAL = Status.ILLEGAL_PARAMETER
BASE = 0x12_3456_7000


def cq(base=BASE, **fields):
    reported = {"cq_entry_size_words": 4, "sub_cq_depth": 64, "num_sub_cqs": 1, "uar": 2} | fields
    command = AdminCreateCqCmd(**reported)
    command.cq_ba = mem_addr(base)
    return command


def eq(base=BASE, **fields):
    command = AdminCreateEqCmd(**{"entry_size_words": 4, "depth": 32, "msix_vec": 3} | fields)
    command.ba = mem_addr(base)
    return command


class Queues(Unit):
    """Drives efa_cmd_cq and records the reported CQ and EQ contexts and the drains."""
    def __init__(self, dut, slow=False):
        super().__init__(dut, slow)
        self.cqs = StreamMonitor(dut, "m_cqc", fields=["cqn", "data"])
        self.eqs = StreamMonitor(dut, "m_eqc", fields=["eqn", "data"])
        self.drains = StreamMonitor(dut, "m_drain", 0.8 if slow else 0.0, [])
        self.numbers.give(Kind.UAR, 2, 3)
        self.body = 0

    def with_body(self, beat):
        super().with_body(beat)
        self.body = beat["body"]

    async def create(self, command):
        kind = AdminCreateCqResp if isinstance(command, AdminCreateCqCmd) else AdminCreateEqResp
        code = Code.CREATE_CQ if kind is AdminCreateCqResp else Code.CREATE_EQ
        status, response = await self.run(command, code, kind)
        assert status == Status.SUCCESS
        assert not self.body >> 8 * (kind.SIZE - 8), "non-zero bytes behind the response structure"
        return response

    def reported(self, monitor, layout):
        beats = [(next(v for n, v in beat.items() if n != "data"), layout.unpack(beat["data"]))
                 for beat in monitor.beats]  # fmt: skip
        monitor.beats.clear()
        return beats


@cocotb.test()
@cocotb.parametrize(slow=[False, True])
async def queues_live_and_go(dut, slow):
    """admin.cmd_cq.lifetime"""
    unit = Queues(dut, slow)
    await unit.start()
    assert [(await unit.create(eq(msix_vec=n))).eqn for n in (8, 0)] == [0, 1]
    assert unit.reported(unit.eqs, INTERNAL.eqc)[0] == (0, INTERNAL.eqc.unpack(INTERNAL.eqc.pack(
        live=1, base=BASE >> 6, log=5, vector=8)))  # fmt: skip
    plain = await unit.create(cq())
    loud = await unit.create(cq(cq_entry_size_words=8, set_src_addr=1, interrupt_mode_enabled=1,
                                eqn=1, sub_cq_depth=8192, uar=3, sq_comp_64_bit_req_id=1,
                                base=BASE + 64))  # fmt: skip
    for number, (response, uar, depth) in enumerate(((plain, 2, 64), (loud, 3, 8192))):
        place = uar * LIMITS.db_page_bytes + LIMITS.db_cq_base + 4 * number
        assert (response.cq_idx, response.sub_cq_actual_depth) == (number, depth)
        assert (response.db_offset, response.db_valid) == (place, 1)
    pack, unpack = INTERNAL.cqc.pack, INTERNAL.cqc.unpack
    assert unit.reported(unit.cqs, INTERNAL.cqc) == [
        (0, unpack(pack(live=1, uar=2, base=BASE >> 6, log=6))),
        (1, unpack(pack(live=1, uar=3, base=(BASE >> 6) + 1, log=13, wide=1, src_addr=1, intr=1,
                        eqn=1, long_id=1)))]  # fmt: skip
    assert unit.numbers.consumed[Kind.EQ, 1] == unit.numbers.consumed[Kind.UAR, 3] == 1
    assert not unit.drains.beats
    for number in (1, 0):
        assert (await unit.run(AdminDestroyCqCmd(cq_idx=number), Code.DESTROY_CQ))[0] == 0
        assert [(n, c.live) for n, c in unit.reported(unit.cqs, INTERNAL.cqc)] == [(number, 0)]
    for number in (0, 1):
        assert (await unit.run(AdminDestroyEqCmd(eqn=number), Code.DESTROY_EQ))[0] == 0
    assert len(unit.drains.beats) == 4, "each destruction of a queue must drain"
    assert unit.numbers.consumed == {(Kind.UAR, 2): 0, (Kind.UAR, 3): 0}


@cocotb.test()
async def two_rings_in_the_recorded_profile(dut):
    """admin.cmd_cq.profile"""
    unit = Queues(dut)
    await unit.start()
    dut.s_cfg_profile.value = 1
    await unit.refused(cq(), Code.CREATE_CQ, ILLEGAL)
    # The recorded profile does not support 64-bit request ids.
    await unit.refused(cq(num_sub_cqs=2, sq_comp_64_bit_req_id=1), Code.CREATE_CQ, ILLEGAL)
    await unit.create(cq(num_sub_cqs=2))
    assert unit.reported(unit.cqs, INTERNAL.cqc)[0][1].two == 1


def one_bit(rng, value, width):
    """Returns the value with one random bit inverted."""
    return value ^ 1 << rng.randrange(width)


@cocotb.test()
@cocotb.parametrize(profile=[0, 1])
async def any_queues(dut, profile):
    """admin.cmd_cq.any: random valid queues are created; the same commands with one wrong bit in
    one field are refused."""
    unit, rng = Queues(dut), rng_for("any")
    await unit.start()
    dut.s_cfg_profile.value = profile
    subs = 1 + profile
    uars = [1 << bit for bit in range(10)] + [0, 1023]
    eqns = [1 << bit for bit in range(len(dut.m_eqc_eqn))]
    unit.numbers.consumed.clear()
    unit.numbers.give(Kind.UAR, *uars)
    unit.numbers.give(Kind.EQ, *eqns)
    there = {}
    for turn in range(160):
        base, log = rng.getrandbits(58) << 6, rng.randrange(14)
        wide, loud = rng.getrandbits(1), rng.getrandbits(1)
        src, long_id = wide & rng.getrandbits(1), (1 - profile) & rng.getrandbits(1)
        eqn, uar = rng.choice(eqns), rng.choice(uars)
        sound = {"cq_entry_size_words": 8 if wide else 4, "sub_cq_depth": 1 << log, "uar": uar,
                 "num_sub_cqs": subs, "set_src_addr": src, "interrupt_mode_enabled": loud,
                 "eqn": eqn if loud else rng.getrandbits(16),
                 "sq_comp_64_bit_req_id": long_id}  # fmt: skip
        wrong = dict(sound)
        name, width = rng.choice((("cq_entry_size_words", 5), ("sub_cq_depth", 16),
                                  ("num_sub_cqs", 16), ("uar", 16), ("eqn", 16),
                                  ("base", 6)))  # fmt: skip
        wrong["base"] = base
        wrong[name] = one_bit(rng, wrong[name], width)
        words = {4, 8} if not src else {8}
        refused = (
            wrong["cq_entry_size_words"] not in words or wrong["base"] % 64
            or wrong["sub_cq_depth"] not in [1 << n for n in range(14)]
            or wrong["num_sub_cqs"] != subs or wrong["uar"] not in uars
            or loud and (Kind.EQ, wrong["eqn"]) not in unit.numbers.consumed
        )  # fmt: skip
        if refused:
            await unit.refused(cq(**wrong), Code.CREATE_CQ, ILLEGAL)
            assert not unit.cqs.beats
        number = unit.numbers.first[Kind.CQ] = rng.randrange(1 << len(dut.m_cqc_cqn))
        if (Kind.CQ, number) in unit.numbers.consumed:
            continue
        response = await unit.create(cq(base=base, **sound))
        assert (response.cq_idx, response.sub_cq_actual_depth, response.db_valid) == (
            number,
            1 << log,
            1,
        )
        assert response.db_offset == uar * LIMITS.db_page_bytes + LIMITS.db_cq_base + 4 * number
        reported = {"live": 1, "uar": uar, "base": base >> 6, "log": log, "wide": wide,
                "two": profile, "src_addr": src, "intr": loud, "eqn": eqn * loud,
                "long_id": long_id}  # fmt: skip
        layout = INTERNAL.cqc
        assert unit.reported(unit.cqs, layout) == [(number, layout.unpack(layout.pack(**reported)))]
        there[number] = uar, eqn if loud else None
        if turn % 3:
            number = rng.choice(list(there))
            bit = rng.randrange(len(dut.m_cqc_cqn), 16)
            await unit.refused(AdminDestroyCqCmd(cq_idx=number ^ 1 << bit), Code.DESTROY_CQ,
                               ILLEGAL)  # fmt: skip
            command = AdminDestroyCqCmd(cq_idx=number)
            assert (await unit.run(command, Code.DESTROY_CQ))[0] == Status.SUCCESS
            assert unit.reported(unit.cqs, layout) == [(number, layout.unpack(0))]
            del there[number]
        named = [eqn for _, eqn in there.values()]
        assert all(unit.numbers.consumed[Kind.EQ, eqn] == named.count(eqn) for eqn in eqns)
        pages = [uar for uar, _ in there.values()]
        assert all(unit.numbers.consumed[Kind.UAR, uar] == pages.count(uar) for uar in uars)
    # A depth with two bits set is not a power of two.
    for low, high in combinations(range(16), 2):
        depth = 1 << low | 1 << high
        await unit.refused(cq(sub_cq_depth=depth, num_sub_cqs=subs, uar=uars[0]), Code.CREATE_CQ,
                           ILLEGAL)  # fmt: skip
        await unit.refused(eq(depth=depth), Code.CREATE_EQ, ILLEGAL)
    layout = INTERNAL.eqc
    for _ in range(80):
        base, log, vector = rng.getrandbits(58) << 6, rng.randrange(10), rng.randrange(9)
        sound = {"depth": 1 << log, "msix_vec": vector, "entry_size_words": 4}
        wrong = sound | {"base": base}
        name, width = rng.choice((("depth", 16), ("msix_vec", 8), ("entry_size_words", 5),
                                  ("base", 6)))  # fmt: skip
        wrong[name] = one_bit(rng, wrong[name], width)
        refused = (
            wrong["depth"] not in [1 << n for n in range(10)] or wrong["base"] % 64
            or wrong["entry_size_words"] != 4 or wrong["msix_vec"] >= LIMITS.msix_vectors
        )  # fmt: skip
        if refused:
            await unit.refused(eq(**wrong), Code.CREATE_EQ, ILLEGAL)
            assert not unit.eqs.beats
        # All bits of the number found are used in the command response and in the report.
        number = unit.numbers.first[Kind.EQ] = rng.getrandbits(16)
        if (Kind.EQ, number) in unit.numbers.consumed:
            continue
        assert (await unit.create(eq(base=base, **sound))).eqn == number
        reported = layout.pack(live=1, base=base >> 6, log=log, vector=vector)
        place = number % (1 << len(dut.m_eqc_eqn))
        assert unit.reported(unit.eqs, layout) == [(place, layout.unpack(reported))]
        command = AdminDestroyEqCmd(eqn=number)
        assert (await unit.run(command, Code.DESTROY_EQ))[0] == Status.SUCCESS
        assert unit.reported(unit.eqs, layout) == [(place, layout.unpack(0))]


@cocotb.test()
@cocotb.parametrize(slow=[False, True])
async def refusals_change_nothing(dut, slow):
    """admin.cmd_cq.refused"""
    unit = Queues(dut, slow)
    await unit.start()
    intr = {"interrupt_mode_enabled": 1, "eqn": 0}
    for fields in ({"cq_entry_size_words": 5}, {"cq_entry_size_words": 0}, {"set_src_addr": 1},
                   {"sub_cq_depth": 0}, {"sub_cq_depth": 48},
                   {"sub_cq_depth": 16384}, {"num_sub_cqs": 2}, {"num_sub_cqs": 0}, {"uar": 4},
                   {"base": BASE + 32}, intr):  # fmt: skip
        await unit.refused(cq(**fields), Code.CREATE_CQ, ILLEGAL)
    await unit.refused(cq(virt=1, uar=4), Code.CREATE_CQ, Status.MALFORMED_REQUEST)
    for fields in ({"depth": 0}, {"depth": 3}, {"depth": 1024}, {"entry_size_words": 8},
                   {"msix_vec": LIMITS.msix_vectors}, {"base": BASE + 8}):  # fmt: skip
        await unit.refused(eq(**fields), Code.CREATE_EQ, ILLEGAL)
    unit.numbers.give(Kind.EQ, 0)
    for wide in (cq(interrupt_mode_enabled=1, eqn=0x100), cq(uar=0x102), cq(uar=0xFFFF)):
        await unit.refused(wide, Code.CREATE_CQ, ILLEGAL)
    assert unit.numbers.reported[-1] == (Op.REF, Kind.UAR, 0xFFFF)
    await unit.refused(cq(**intr | {"eqn": 0xFFFF}), Code.CREATE_CQ, ILLEGAL)
    assert unit.numbers.reported[-2] == (Op.REF, Kind.EQ, 0xFFFF)
    await unit.refused(AdminDestroyEqCmd(eqn=0x100), Code.DESTROY_EQ, ILLEGAL)
    unit.numbers.full = {Kind.CQ, Kind.EQ}
    full = Status.RESOURCE_ALLOCATION_FAILURE
    await unit.refused(cq(), Code.CREATE_CQ, full)
    await unit.refused(cq(**intr), Code.CREATE_CQ, full)
    await unit.refused(eq(), Code.CREATE_EQ, full)
    await unit.refused(AdminDestroyCqCmd(cq_idx=300), Code.DESTROY_CQ, ILLEGAL)
    await unit.refused(AdminDestroyEqCmd(eqn=1), Code.DESTROY_EQ, ILLEGAL)
    unit.numbers.consumed[Kind.EQ, 0] = 1
    await unit.refused(AdminDestroyEqCmd(eqn=0), Code.DESTROY_EQ, Status.RESOURCE_BUSY)
    unit.numbers.full = set()
    await unit.every_response(cq(**intr), Code.CREATE_CQ, (Op.REF, Kind.UAR), (Op.REF, Kind.EQ),
                            (Op.FIND, Kind.CQ))  # fmt: skip
    await unit.every_response(eq(), Code.CREATE_EQ, (Op.FIND, Kind.EQ))
    await unit.every_response(AdminDestroyCqCmd(), Code.DESTROY_CQ, (Op.FREE, Kind.CQ))
    assert not unit.cqs.beats and not unit.eqs.beats and not unit.drains.beats


@cocotb.test()
async def its_cycles(dut):
    """admin.cmd_cq.time"""
    drive(dut, s_cmd_valid=0, s_cfg_profile=0)
    await clock_and_reset(dut)
    idle = {"m_obj_ready": 1, "s_obj_rsp_code": 0, "s_obj_rsp_index": 0, "m_drain_ready": 1}
    loud = cq(interrupt_mode_enabled=1)
    for path, command, code in (
        ("create_eq", eq(), Code.CREATE_EQ), ("create_cq", cq(), Code.CREATE_CQ),
        ("destroy_cq", AdminDestroyCqCmd(), Code.DESTROY_CQ),
        ("create_cq_intr", loud, Code.CREATE_CQ),
        ("destroy_cq", AdminDestroyCqCmd(), Code.DESTROY_CQ),
        ("destroy_eq", AdminDestroyEqCmd(), Code.DESTROY_EQ),
    ):  # fmt: skip
        cycles = await cycles_of(dut, entry(command, code), **idle)
        assert cycles == timing("efa_cmd_cq", path).latency, (path, cycles)


@cocotb.test()
async def reset_in_a_command(dut):
    """admin.cmd_cq.reset"""
    unit = Queues(dut)
    await unit.start()
    for cycles in range(1, 20):
        unit.numbers.give(Kind.UAR, 2)
        unit.numbers.give(Kind.EQ, 0)
        await unit.cut_off(cq(interrupt_mode_enabled=1), Code.CREATE_CQ, cycles)
        unit.numbers.give(Kind.UAR, 2)
        unit.cqs.beats.clear()
        assert (await unit.create(cq())).cq_idx == 0
        assert len(unit.cqs.beats) == 1
        await unit.cut_off(AdminDestroyCqCmd(cq_idx=0), Code.DESTROY_CQ, cycles)
