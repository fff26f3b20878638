# SPDX-License-Identifier: Apache-2.0
"""Tests efa_cmd_pd: protection domains and UARs; a neighbour model owns their numbers."""

import cocotb

from efa_cosim.layouts.defs import (
    AdminAllocPdCmd,
    AdminAllocPdResp,
    AdminAllocUarCmd,
    AdminAllocUarResp,
    AdminAqCompletionStatus,
    AdminAqOpcode,
    AdminDeallocPdCmd,
    AdminDeallocUarCmd,
)
from tb.lib.stream import clock_and_reset
from tb.lib.timing import timing
from tb.lib.waits import drive
from tb.unit.cmd_bench import Kind, Op, Unit, cycles_of, entry

Code, Status = AdminAqOpcode, AdminAqCompletionStatus


async def alloc_pd(unit):
    status, response = await unit.run(AdminAllocPdCmd(), Code.ALLOC_PD, AdminAllocPdResp)
    assert status == Status.SUCCESS
    return response.pd


@cocotb.test()
@cocotb.parametrize(slow=[False, True])
async def numbers_are_found_taken_and_given_back(dut, slow):
    """admin.cmd_pd.lifetime"""
    unit = Unit(dut, slow)
    await unit.start()
    assert [await alloc_pd(unit) for _ in range(3)] == [0, 1, 2]
    status, response = await unit.run(AdminAllocUarCmd(), Code.ALLOC_UAR, AdminAllocUarResp)
    assert (status, response.uar) == (Status.SUCCESS, 0)
    assert (await unit.run(AdminDeallocPdCmd(pd=1), Code.DEALLOC_PD))[0] == Status.SUCCESS
    assert (await unit.run(AdminDeallocUarCmd(uar=0), Code.DEALLOC_UAR))[0] == Status.SUCCESS
    assert await alloc_pd(unit) == 1
    consumed = [(op, kind, n) for op, kind, n in unit.numbers.reported if op != Op.FIND]
    assert consumed[:4] == [*((Op.TAKE, Kind.PD, n) for n in range(3)), (Op.TAKE, Kind.UAR, 0)]
    assert consumed[4:] == [(Op.FREE, Kind.PD, 1), (Op.FREE, Kind.UAR, 0), (Op.TAKE, Kind.PD, 1)]


@cocotb.test()
async def any_number(dut):
    """admin.cmd_pd.numbers: all bits of a number are used in allocation and deallocation; an
    absent number is refused."""
    unit = Unit(dut)
    await unit.start()
    kinds = ((Kind.PD, Code.ALLOC_PD, Code.DEALLOC_PD, AdminAllocPdCmd, AdminAllocPdResp,
              AdminDeallocPdCmd, "pd"),
             (Kind.UAR, Code.ALLOC_UAR, Code.DEALLOC_UAR, AdminAllocUarCmd, AdminAllocUarResp,
              AdminDeallocUarCmd, "uar"))  # fmt: skip
    for turn in range(60):
        kind, alloc, dealloc, request, response, drop, name = kinds[turn % 2]
        number = unit.rng.getrandbits(16)
        unit.numbers.first[kind] = number
        status, reported = await unit.run(request(), alloc, response)
        assert (status, getattr(reported, name)) == (Status.SUCCESS, number)
        other = number ^ 1 << unit.rng.randrange(16)
        await unit.refused(drop(**{name: other}), dealloc, Status.ILLEGAL_PARAMETER)
        assert (await unit.run(drop(**{name: number}), dealloc))[0] == Status.SUCCESS
        assert not unit.numbers.consumed


@cocotb.test()
@cocotb.parametrize(slow=[False, True])
async def refusals_change_nothing(dut, slow):
    """admin.cmd_pd.refused"""
    unit = Unit(dut, slow)
    await unit.start()
    unit.numbers.give(Kind.PD, 3)
    unit.numbers.give(Kind.UAR, 65535)
    unit.numbers.full = {Kind.PD, Kind.UAR}
    unit.numbers.consumed[Kind.PD, 3] = unit.numbers.consumed[Kind.UAR, 65535] = 1
    full = Status.RESOURCE_ALLOCATION_FAILURE
    await unit.refused(AdminAllocPdCmd(), Code.ALLOC_PD, full)
    await unit.refused(AdminAllocUarCmd(), Code.ALLOC_UAR, full)
    for number, status in ((3, Status.RESOURCE_BUSY), (65535, Status.ILLEGAL_PARAMETER)):
        await unit.refused(AdminDeallocPdCmd(pd=number), Code.DEALLOC_PD, status)
    for number, status in ((65535, Status.RESOURCE_BUSY), (3, Status.ILLEGAL_PARAMETER)):
        await unit.refused(AdminDeallocUarCmd(uar=number), Code.DEALLOC_UAR, status)
    unit.numbers.full = set()
    await unit.every_response(AdminAllocPdCmd(), Code.ALLOC_PD, (Op.FIND, Kind.PD))
    await unit.every_response(AdminDeallocUarCmd(uar=9), Code.DEALLOC_UAR, (Op.FREE, Kind.UAR))


@cocotb.test()
async def its_cycles(dut):
    """admin.cmd_pd.time"""
    idle = {"m_obj_ready": 1, "s_obj_rsp_code": 0, "s_obj_rsp_index": 0}
    drive(dut, s_cmd_valid=0)
    await clock_and_reset(dut)
    for path, opcodes in (("alloc", ("ALLOC_PD", "ALLOC_UAR")),
                          ("dealloc", ("DEALLOC_PD", "DEALLOC_UAR"))):  # fmt: skip
        for name in opcodes:
            cycles = await cycles_of(dut, entry(AdminDeallocPdCmd(), Code[name]), **idle)
            assert cycles == timing("efa_cmd_pd", path).latency, name


@cocotb.test()
async def reset_in_a_command(dut):
    """admin.cmd_pd.reset"""
    unit = Unit(dut)
    await unit.start()
    for cycles in range(1, 9):
        await unit.cut_off(AdminAllocPdCmd(), Code.ALLOC_PD, cycles)
        assert await alloc_pd(unit) == 0
