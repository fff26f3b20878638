# SPDX-License-Identifier: Apache-2.0
"""Tests efa_cmd_ah: one reference-counted address handle for each PD and GID."""

import cocotb
from cocotb.triggers import ClockCycles

from efa_cosim.layouts.defs import (
    INTERNAL,
    LIMITS,
    AdminAqCompletionStatus,
    AdminAqOpcode,
    AdminCreateAhCmd,
    AdminCreateAhResp,
    AdminDestroyAhCmd,
)
from tb.lib.stream import StreamMonitor, clock_and_reset
from tb.lib.timing import timing
from tb.lib.waits import drive
from tb.unit.cmd_bench import Kind, Op, Unit, cycles_of, entry

Code, Status = AdminAqOpcode, AdminAqCompletionStatus
PREFIX = LIMITS.gid_prefix


def gid(node):
    return PREFIX + node.to_bytes(2, "big")


class Handles(Unit):
    """Drives efa_cmd_ah and records the reported address handle contexts."""
    def __init__(self, dut, slow=False):
        super().__init__(dut, slow)
        self.table = StreamMonitor(dut, "m_ah", fields=["index", "data"])
        self.numbers.give(Kind.PD, 1, 2)

    async def create(self, pd, address):
        command = AdminCreateAhCmd(pd=pd, dest_addr=address)
        status, response = await self.run(command, Code.CREATE_AH, AdminCreateAhResp)
        assert status == Status.SUCCESS
        return response.ah

    async def destroy(self, number, pd):
        command = AdminDestroyAhCmd(ah=number, pd=pd)
        return (await self.run(command, Code.DESTROY_AH))[0]

    def reported(self):
        beats = [(beat["index"], INTERNAL.ahc.unpack(beat["data"])) for beat in self.table.beats]
        self.table.beats.clear()
        return [(n, c.live, c.pd, c.fabric, c.node) for n, c in beats]


@cocotb.test()
@cocotb.parametrize(slow=[False, True])
async def one_handle_for_each_pd_and_gid(dut, slow):
    """admin.cmd_ah.lifetime"""
    unit = Handles(dut, slow)
    await unit.start()
    far, other = gid(1 << LIMITS.node_w), bytes(14) + b"\0\3"
    assert [await unit.create(*request) for request in (
        (1, gid(3)), (2, gid(3)), (1, far), (1, other), (1, gid(3)), (1, far),
    )] == [0, 1, 2, 3, 0, 2]  # fmt: skip
    assert unit.reported() == [(0, 1, 1, 1, 3), (1, 1, 2, 1, 3), (2, 1, 1, 0, 1 << LIMITS.node_w),
                           (3, 1, 1, 0, 3)]  # fmt: skip
    assert unit.numbers.consumed[Kind.PD, 1] == 3 and unit.numbers.consumed[Kind.PD, 2] == 1
    assert await unit.destroy(0, 1) == Status.SUCCESS
    assert not unit.reported() and unit.numbers.consumed[Kind.PD, 1] == 3
    assert await unit.destroy(0, 1) == Status.SUCCESS
    assert unit.reported() == [(0, 0, 1, 1, 3)] and unit.numbers.consumed[Kind.PD, 1] == 2
    assert await unit.create(1, gid(3)) == 0
    assert unit.reported() == [(0, 1, 1, 1, 3)], "a destroyed handle is created again"


@cocotb.test()
async def any_handles(dut):
    """admin.cmd_ah.any: random domains and addresses that differ in one bit get the expected
    handles and reports."""
    unit = Handles(dut)
    await unit.start()
    rng = unit.rng
    domains = [1 << bit for bit in range(10)] + [0, 1023, *rng.sample(range(1024), 4)]
    unit.numbers.consumed.clear()
    unit.numbers.give(Kind.PD, *domains)
    live, freed = {}, []

    def address():
        node = rng.choice((rng.randrange(1 << LIMITS.node_w), 1 << rng.randrange(16)))
        near = live and rng.random() < 0.5
        base = rng.choice(list(live))[1] if near else gid(node)
        if rng.random() < 0.6:
            base = (int.from_bytes(base, "big") ^ 1 << rng.randrange(128)).to_bytes(16, "big")
        return base

    def ahc(number, is_live, pd, where):
        near = where[:14] == PREFIX and int.from_bytes(where[14:], "big") < 1 << LIMITS.node_w
        return number, is_live, pd, int(near), int.from_bytes(where[14:], "big")

    for _ in range(220):
        key = rng.choice(domains), address()
        if live and rng.random() < 0.4:
            key = rng.choice(list(live))
        if live and rng.random() < 0.25:
            key = rng.choice(list(live))
            number, count = live[key]
            if rng.random() < 0.3:
                wrong = key[0] ^ 1 << rng.randrange(16)
                assert await unit.destroy(number, wrong) == Status.ILLEGAL_PARAMETER
                assert not unit.reported()
            assert await unit.destroy(number, key[0]) == Status.SUCCESS
            assert unit.reported() == ([ahc(number, 0, *key)] if count == 1 else [])
            live[key] = number, count - 1
            if count == 1:
                freed.append(live.pop(key))
            continue
        number = await unit.create(*key)
        if key in live:
            assert (number, unit.reported()) == (live[key][0], [])
            live[key] = number, live[key][1] + 1
        else:
            assert unit.reported() == [ahc(number, 1, *key)]
            live[key] = number, 1
    assert len(freed) > 10 and len(live) > 30
    counts = {pd: sum(of == pd for of, _ in live) for pd in domains}
    assert {pd: unit.numbers.consumed[Kind.PD, pd] for pd in domains} == counts


@cocotb.test()
async def every_handle_by_itself(dut):
    """admin.cmd_ah.all: all handles are allocated with addresses that differ in one bit; each is
    found again; two destroyed handles are allocated with exchanged addresses."""
    unit = Handles(dut)
    await unit.start()
    rng, ahs, inside = unit.rng, 1 << LIMITS.ah_w, int.from_bytes(gid(3), "big")
    where = [(inside ^ 1 << bit).to_bytes(16, "big") for bit in range(128)]
    where += [rng.randbytes(16) for _ in range(ahs - 128)]
    for number, address in enumerate(where):
        assert await unit.create(1, address) == number
        ((index, live, pd, fabric, node),) = unit.reported()
        assert (index, live, pd, node) == (number, 1, 1, int.from_bytes(address[14:], "big"))
        assert fabric == (address[:14] == PREFIX and node < 1 << LIMITS.node_w), number
        if number % 20 == 0:
            # A handle that is created again leaves the search for the higher ones as it is.
            again = rng.randrange(number + 1)
            assert await unit.destroy(again, 1) == Status.SUCCESS
            assert await unit.create(1, where[again]) == again
            assert await unit.create(1, address) == number
            assert await unit.destroy(number, 1) == Status.SUCCESS
            unit.reported()
    for number in (*range(128), ahs - 1):
        assert await unit.create(1, where[number]) == number
        assert await unit.destroy(number, 1) == Status.SUCCESS
    for _ in range(5):
        one, other = rng.sample(range(ahs), 2)
        for number in (one, other):
            assert await unit.destroy(number, 1) == Status.SUCCESS
            assert [reported[:3] for reported in unit.reported()] == [(number, 0, 1)]
        unit.numbers.first[Kind.AH] = other
        assert await unit.create(1, where[one]) == other
        unit.numbers.first[Kind.AH] = one
        assert await unit.create(1, where[other]) == one
        where[one], where[other] = where[other], where[one]
        unit.reported()
    assert unit.numbers.consumed[Kind.PD, 1] == ahs


@cocotb.test()
async def a_handle_that_went_is_found_no_more(dut):
    """admin.cmd_ah.gone: a destroyed handle is not found, not even when the bytes of the destroy
    command match its address."""
    unit = Handles(dut)
    await unit.start()
    # The address begins with the handle number and the PD of the destroy command.
    address = bytes((0, 0, 1, 0)) + unit.rng.randbytes(12)
    assert await unit.create(1, address) == 0
    data = entry(AdminDestroyAhCmd(ah=0, pd=1), Code.DESTROY_AH, 5)
    unit.commands.post({"data": data | int.from_bytes(address, "little") << 32})
    assert (await unit.responses.take())[0]["status"] == Status.SUCCESS
    assert unit.reported()[-1][:3] == (0, 0, 1)
    assert await unit.create(1, address) == 0
    assert unit.reported()[-1][:3] == (0, 1, 1), "a destroyed handle is created again"


@cocotb.test()
@cocotb.parametrize(slow=[False, True])
async def refusals_change_nothing(dut, slow):
    """admin.cmd_ah.refused"""
    unit = Handles(dut, slow)
    await unit.start()
    number = await unit.create(1, gid(3))
    unit.numbers.full = {Kind.AH}
    invalid, create, destroy = Status.ILLEGAL_PARAMETER, AdminCreateAhCmd, AdminDestroyAhCmd
    await unit.refused(create(pd=5, dest_addr=gid(3)), Code.CREATE_AH, invalid)
    full = Status.RESOURCE_ALLOCATION_FAILURE
    await unit.refused(create(pd=2, dest_addr=gid(3)), Code.CREATE_AH, full)
    for request in ({"ah": number, "pd": 2}, {"ah": number + 1, "pd": 1}, {"ah": 0xFFFF, "pd": 1},
                *({"ah": number | 1 << bit, "pd": 1} for bit in range(16))):  # fmt: skip
        await unit.refused(destroy(**request), Code.DESTROY_AH, invalid)
    for pd in (0xFFFF, *(1 ^ 1 << bit for bit in range(16))):
        await unit.refused(create(pd=pd, dest_addr=gid(3)), Code.CREATE_AH, invalid)
        assert unit.numbers.reported[-1] == (Op.REF, Kind.PD, pd)
    unit.numbers.full = set()
    await unit.every_response(create(pd=2, dest_addr=gid(3)), Code.CREATE_AH, (Op.REF, Kind.PD),
                            (Op.FIND, Kind.AH))  # fmt: skip
    await unit.every_response(create(pd=1, dest_addr=gid(3)), Code.CREATE_AH, (Op.REF, Kind.AH))
    await unit.every_response(destroy(pd=1, ah=number), Code.DESTROY_AH, (Op.CHECK, Kind.AH))
    assert len(unit.reported()) == 1
    assert await unit.create(1, gid(3)) == number


@cocotb.test()
async def its_cycles(dut):
    """admin.cmd_ah.time: the search for a GID visits every handle number used so far, one per
    interval."""
    idle = {"m_obj_ready": 1, "s_obj_rsp_code": 0, "s_obj_rsp_referenced": 0}
    first, create, search = (timing("efa_cmd_ah", path) for path in ("first", "create", "search"))
    drive(dut, s_cmd_valid=0)
    await clock_and_reset(dut)
    for count in range(140):
        data = entry(AdminCreateAhCmd(dest_addr=gid(count)), Code.CREATE_AH)
        cycles = await cycles_of(dut, data, **idle, s_obj_rsp_index=count)
        assert cycles == (create.latency + search.interval * count if count else first.latency)
    # After the highest handle number is used, the search visits all handle numbers.
    numbers = 1 << LIMITS.ah_w
    for passed in (140, numbers):
        data = entry(AdminCreateAhCmd(dest_addr=gid(passed)), Code.CREATE_AH)
        cycles = await cycles_of(dut, data, **idle, s_obj_rsp_index=numbers - 1)
        assert cycles == create.latency + search.interval * passed
    data = entry(AdminDestroyAhCmd(ah=4), Code.DESTROY_AH)
    assert await cycles_of(dut, data, **idle) == timing("efa_cmd_ah", "destroy").latency


@cocotb.test()
async def reset_in_a_command(dut):
    """admin.cmd_ah.reset: a reset in any cycle of a command clears all handles."""
    unit = Handles(dut)
    await unit.start()
    for cycles in range(1, 20, 2):
        unit.numbers.give(Kind.PD, 1)
        await unit.create(1, gid(7))
        await unit.create(1, gid(8))
        await unit.cut_off(AdminCreateAhCmd(pd=1, dest_addr=gid(9)), Code.CREATE_AH, cycles)
        unit.numbers.give(Kind.PD, 1)
        await ClockCycles(dut.clk, 2)
        unit.reported()
        assert await unit.create(1, gid(9)) == 0
        assert unit.reported() == [(0, 1, 1, 1, 9)]
        await unit.cut_off(AdminDestroyAhCmd(pd=1), Code.DESTROY_AH, cycles)
