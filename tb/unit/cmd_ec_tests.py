# SPDX-License-Identifier: Apache-2.0
"""Tests efa_cmd_ec: event counter commands follow decision 0004; orders to efa_ec and their
timing."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import (
    LIMITS,
    AdminAqCompletionStatus,
    AdminAqOpcode,
    AdminAttachDetachEventCounterCmd,
    AdminCreateEventCounterCmd,
    AdminCreateEventCounterResp,
    AdminDestroyEventCounterCmd,
    AdminModifyEventCounterCmd,
)
from tb.lib.stream import StreamMonitor
from tb.lib.timing import timing
from tb.lib.waits import drive, pulse
from tb.unit.cmd_bench import Kind, Op, Unit, cycles_of, entry

Code, Status = AdminAqOpcode, AdminAqCompletionStatus
ILLEGAL, BUSY = Status.ILLEGAL_PARAMETER, Status.RESOURCE_BUSY
FULL = Status.RESOURCE_ALLOCATION_FAILURE
CREATE, DESTROY, ATTACH, DETACH, SET, ADD, FORGET = range(7)
CODES = {Status.SUCCESS: 0, ILLEGAL: 1, BUSY: 2}
COUNTERS = 1 << LIMITS.ec_w
UAR = 3


class Counters(Unit):
    """Models efa_ec: responds with the status `says` and records the orders."""

    def __init__(self, dut, slow=False):
        super().__init__(dut, slow)
        drive(dut, s_qp_gone_valid=0, s_qp_gone_qpn=0, m_ec_ready=0, s_ec_code=0)
        self.orders, self.says, self.log = [], Status.SUCCESS, []
        self.drains = StreamMonitor(
            dut, "m_drain", 0.5 if slow else 0.0, [], lambda _: self.log.append("drained")
        )
        self.numbers.give(Kind.UAR, UAR, 4)
        cocotb.start_soon(self.counters())

    async def counters(self):
        dut = self.dut

        def order():
            names = ("op", "counter", "qpn", "events", "value")
            return tuple(int(getattr(dut, f"m_ec_{name}").value) for name in names)

        while True:
            await RisingEdge(dut.clk)
            if self.orders is None or dut.m_ec_valid.value != 1 or dut.rst.value != 0:
                continue
            self.orders.append(order())
            if self.slow:
                await ClockCycles(dut.clk, self.rng.randrange(8))
                assert order() == self.orders[-1], "a pending order changed"
            self.log.append("ordered")
            drive(dut, m_ec_ready=1, s_ec_code=CODES[self.says])
            await RisingEdge(dut.clk)
            drive(dut, m_ec_ready=0, s_ec_code=self.rng.getrandbits(2))

    def qp(self, index, generation=0, uar=UAR):
        """Creates a QP in the model; returns its handle."""
        self.numbers.give(Kind.QP, index, uar=uar)
        self.numbers.gens[Kind.QP, index] = generation
        return (generation << int(self.dut.QPN_W.value) | index) % 65536

    async def create(self, paddr=0x1000, uar=UAR):
        status, response = await self.run(
            AdminCreateEventCounterCmd(uar=uar, paddr=paddr), Code.CREATE_EVENT_COUNTER,
            AdminCreateEventCounterResp,
        )  # fmt: skip
        assert status == Status.SUCCESS
        order = self.orders.pop()
        assert (order[0], order[1], order[4]) == (CREATE, response.cntr_handle, paddr)
        return response.cntr_handle


def tie(handle, qp, events=1, kind=0):
    command = AdminAttachDetachEventCounterCmd(cntr_handle=handle, attach_type=kind)
    command.u.qp_events.qp_handle, command.u.qp_events.events = qp, events
    return command


@cocotb.test()
@cocotb.parametrize(slow=[False, True])
async def counters_live_by_the_rules(dut, slow):
    """admin.cmd_ec.lifetime: counter numbers, orders and the references on the UAR follow the
    rules."""
    unit = Counters(dut, slow)
    await unit.start()
    assert [await unit.create(8 * n) for n in range(3)] == [0, 1, 2]
    assert unit.numbers.consumed[Kind.UAR, UAR] == 3
    handle = unit.qp(5, generation=9)
    for code, op in ((Code.ATTACH_EVENT_COUNTER, ATTACH), (Code.DETACH_EVENT_COUNTER, DETACH)):
        for events in range(1, 16):
            assert (await unit.run(tie(1, handle, events), code))[0] == Status.SUCCESS
            assert unit.orders.pop()[:4] == (op, 1, 5, events)
    assert unit.log.count("drained") == 15
    for operation, op in ((0, SET), (1, ADD)):
        value = unit.rng.getrandbits(64)
        command = AdminModifyEventCounterCmd(cntr_handle=2, operation=operation, value=value)
        assert (await unit.run(command, Code.MODIFY_EVENT_COUNTER))[0] == Status.SUCCESS
        order = unit.orders.pop()
        assert (order[0], order[1], order[4]) == (op, 2, value)
    destroy = AdminDestroyEventCounterCmd(cntr_handle=1)
    assert (await unit.run(destroy, Code.DESTROY_EVENT_COUNTER))[0] == Status.SUCCESS
    assert unit.orders.pop()[:2] == (DESTROY, 1)
    assert unit.numbers.consumed[Kind.UAR, UAR] == 2
    assert await unit.create(16, uar=4) == 1
    assert not unit.orders


@cocotb.test()
async def any_counters(dut):
    """admin.cmd_ec.any: random counters, QPs and values are accepted; each command with one
    wrong bit in a field is refused."""
    unit = Counters(dut)
    await unit.start()
    rng, qpn_w = unit.rng, int(dut.QPN_W.value)
    uars = [1 << bit for bit in range(16)] + [0xFFFF, 0]
    unit.numbers.consumed.clear()
    unit.numbers.give(Kind.UAR, *uars)
    live = {}
    for _ in range(260):
        if len(live) < COUNTERS and rng.random() < 0.4:
            uar, paddr = rng.choice(uars), rng.getrandbits(61) << 3
            wrong = AdminCreateEventCounterCmd(uar=uar, paddr=paddr | 1 << rng.randrange(3))
            await unit.refused(wrong, Code.CREATE_EVENT_COUNTER, ILLEGAL)
            handle = await unit.create(paddr, uar)
            assert handle == min(set(range(COUNTERS)) - set(live))
            live[handle] = uar
        if not live:
            continue
        handle = rng.choice(list(live))
        beside = handle ^ 1 << rng.randrange(32)
        if rng.random() < 0.5:
            index, generation = rng.randrange(1 << qpn_w), rng.getrandbits(16)
            qp = unit.qp(index, generation, live[handle])
            code, op = rng.choice(((Code.ATTACH_EVENT_COUNTER, ATTACH),
                                   (Code.DETACH_EVENT_COUNTER, DETACH)))  # fmt: skip
            events = rng.randrange(1, 16)
            wrong = [tie(handle, qp ^ 1 << rng.randrange(qpn_w, 32), events),
                     tie(handle, qp, events | 1 << rng.randrange(4, 32)),
                     tie(handle, qp, events, kind=1 << rng.randrange(8))]  # fmt: skip
            if beside not in live:
                wrong.append(tie(beside, qp, events))
            unit.numbers.uar_of[Kind.QP, index] ^= 1 << rng.randrange(16)
            await unit.refused(tie(handle, qp, events), code, ILLEGAL)
            unit.numbers.uar_of[Kind.QP, index] = live[handle]
            await unit.refused(rng.choice(wrong), code, ILLEGAL)
            drained = unit.log.count("drained")
            assert (await unit.run(tie(handle, qp, events), code))[0] == Status.SUCCESS
            assert unit.orders.pop()[:4] == (op, handle, index, events)
            assert unit.log.count("drained") == drained + (op == ATTACH)
            del unit.numbers.consumed[Kind.QP, index]
        elif rng.random() < 0.6:
            operation, value = rng.getrandbits(1), rng.getrandbits(64)
            other = operation ^ 1 << rng.randrange(1, 8)
            for number, way in ((beside, operation), (handle, other)):
                if number in live and way < 2:
                    continue
                command = AdminModifyEventCounterCmd(cntr_handle=number, operation=way)
                await unit.refused(command, Code.MODIFY_EVENT_COUNTER, ILLEGAL)
            command = AdminModifyEventCounterCmd(
                cntr_handle=handle, operation=operation, value=value
            )
            assert (await unit.run(command, Code.MODIFY_EVENT_COUNTER))[0] == Status.SUCCESS
            order = unit.orders.pop()
            assert (order[0], order[1], order[4]) == (ADD if operation else SET, handle, value)
        else:
            if beside not in live:
                command = AdminDestroyEventCounterCmd(cntr_handle=beside)
                await unit.refused(command, Code.DESTROY_EVENT_COUNTER, ILLEGAL)
            command = AdminDestroyEventCounterCmd(cntr_handle=handle)
            assert (await unit.run(command, Code.DESTROY_EVENT_COUNTER))[0] == Status.SUCCESS
            assert unit.orders.pop()[:2] == (DESTROY, handle)
            del live[handle]
        assert not unit.orders
        named = list(live.values())
        assert all(unit.numbers.consumed[Kind.UAR, uar] == named.count(uar) for uar in uars)


@cocotb.test()
async def every_number_by_itself(dut):
    """admin.cmd_ec.numbers: with all counters allocated, random ones are destroyed; creation
    reuses the lowest free number."""
    unit = Counters(dut)
    await unit.start()
    rng, free = unit.rng, []
    for number in range(COUNTERS):
        assert await unit.create() == number
    for number in range(COUNTERS):
        command = AdminDestroyEventCounterCmd(cntr_handle=number)
        assert (await unit.run(command, Code.DESTROY_EVENT_COUNTER))[0] == Status.SUCCESS
        assert await unit.create() == number
    for _ in range(30):
        for _ in range(rng.randrange(1, 8)):
            number = rng.choice([n for n in range(COUNTERS) if n not in free])
            command = AdminDestroyEventCounterCmd(cntr_handle=number)
            assert (await unit.run(command, Code.DESTROY_EVENT_COUNTER))[0] == Status.SUCCESS
            free.append(number)
        unit.orders.clear()
        for number in (rng.randrange(COUNTERS) for _ in range(4)):
            command = AdminModifyEventCounterCmd(cntr_handle=number)
            if number in free:
                await unit.refused(command, Code.MODIFY_EVENT_COUNTER, ILLEGAL)
            else:
                assert (await unit.run(command, Code.MODIFY_EVENT_COUNTER))[0] == 0
        unit.orders.clear()
        while free:
            assert await unit.create() == min(free)
            free.remove(min(free))


@cocotb.test()
@cocotb.parametrize(slow=[False, True])
async def refusals_change_nothing(dut, slow):
    """admin.cmd_ec.refused"""
    unit = Counters(dut, slow)
    await unit.start()
    for fields in ({"uar": 9, "paddr": 8}, {"uar": UAR, "paddr": 12}, {"uar": UAR, "paddr": 1}):
        await unit.refused(AdminCreateEventCounterCmd(**fields), Code.CREATE_EVENT_COUNTER, ILLEGAL)
    mine, other = await unit.create(), await unit.create(uar=4)
    good, foreign = unit.qp(2, 1), unit.qp(3, 1, uar=4)
    for code in (Code.ATTACH_EVENT_COUNTER, Code.DETACH_EVENT_COUNTER):
        for command in (tie(7, good), tie(mine | 1 << 31, good), tie(mine | COUNTERS, good),
                        tie(mine, good, 0), tie(mine, good, 16), tie(mine, good, 1 << 31 | 1),
                        tie(mine, good, 1, kind=1), tie(mine, foreign), tie(other, good),
                        tie(mine, good ^ 1 << 15), tie(mine, good | 1 << 16),
                        tie(mine, 4)):  # fmt: skip
            await unit.refused(command, code, ILLEGAL)
    for fields in ({"cntr_handle": 9}, {"cntr_handle": mine, "operation": 2},
                   {"cntr_handle": COUNTERS}):  # fmt: skip
        command = AdminModifyEventCounterCmd(**fields)
        await unit.refused(command, Code.MODIFY_EVENT_COUNTER, ILLEGAL)
    for handle in (5, COUNTERS, 1 << 30):
        command = AdminDestroyEventCounterCmd(cntr_handle=handle)
        await unit.refused(command, Code.DESTROY_EVENT_COUNTER, ILLEGAL)
    create = AdminCreateEventCounterCmd(uar=UAR, paddr=8)
    await unit.every_response(create, Code.CREATE_EVENT_COUNTER, (Op.REF, Kind.UAR))
    await unit.every_response(tie(mine, good), Code.DETACH_EVENT_COUNTER, (Op.CHECK, Kind.QP))
    assert not unit.orders and not unit.drains.beats, (
        "a refused command must send no order to efa_ec"
    )
    unit.says = BUSY
    destroy = AdminDestroyEventCounterCmd(cntr_handle=mine)
    await unit.refused(destroy, Code.DESTROY_EVENT_COUNTER, BUSY)
    await unit.refused(tie(mine, good), Code.ATTACH_EVENT_COUNTER, BUSY)
    unit.says = ILLEGAL
    await unit.refused(tie(mine, good), Code.DETACH_EVENT_COUNTER, ILLEGAL)
    assert len(unit.orders) == 3 and not unit.drains.beats
    unit.says = Status.SUCCESS
    unit.orders.clear()
    for number in range(2, COUNTERS):
        assert await unit.create() == number
    command = AdminCreateEventCounterCmd(uar=UAR, paddr=8)
    for _ in range(2):
        await unit.refused(command, Code.CREATE_EVENT_COUNTER, FULL)
    command = AdminCreateEventCounterCmd(uar=9, paddr=8)
    await unit.refused(command, Code.CREATE_EVENT_COUNTER, ILLEGAL)


@cocotb.test()
async def the_handle_of_a_qp_that_is_gone_is_refused(dut):
    """admin.cmd_ec.gone: a handle of a destroyed QP is refused, although its number is not
    reused."""
    unit = Counters(dut)
    await unit.start()
    mine, handle = await unit.create(), unit.qp(2, 1)
    del unit.numbers.consumed[Kind.QP, 2]
    for code in (Code.ATTACH_EVENT_COUNTER, Code.DETACH_EVENT_COUNTER):
        await unit.refused(tie(mine, handle), code, ILLEGAL)
    assert not unit.orders


@cocotb.test()
async def a_qp_that_goes_is_reported_first(dut):
    """admin.cmd_ec.clear: a QP destruction is reported to efa_ec before the next command."""
    unit = Counters(dut, slow=True)
    await unit.start()
    handles = [await unit.create() for _ in range(2)]
    for turn, qpn in enumerate((0, 7, (1 << int(dut.QPN_W.value)) - 1, 5, 6, 4)):
        await pulse(dut, "s_qp_gone_valid", s_qp_gone_qpn=qpn)
        command = AdminModifyEventCounterCmd(cntr_handle=handles[turn & 1], operation=1, value=1)
        assert (await unit.run(command, Code.MODIFY_EVENT_COUNTER))[0] == Status.SUCCESS
        assert [order[0] for order in unit.orders] == [FORGET, ADD]
        assert unit.orders[0][2] == qpn
        unit.orders.clear()


@cocotb.test()
async def its_cycles(dut):
    """admin.cmd_ec.time: each command takes the specified cycles when the neighbours respond
    immediately."""
    unit = Counters(dut)
    drive(dut, s_cmd_valid=0)
    unit.orders = None
    await unit.start()
    idle = {"m_obj_ready": 1, "s_obj_rsp_code": 0, "s_obj_rsp_uar": UAR, "s_obj_rsp_gen": 0,
            "m_drain_ready": 1, "m_ec_ready": 1, "s_ec_code": 0}  # fmt: skip
    create = AdminCreateEventCounterCmd(uar=UAR, paddr=8)
    modify = AdminModifyEventCounterCmd(cntr_handle=0, operation=0, value=1)
    for name, command, code in (
        ("create", create, Code.CREATE_EVENT_COUNTER),
        ("attach", tie(0, 5), Code.ATTACH_EVENT_COUNTER),
        ("detach", tie(0, 5), Code.DETACH_EVENT_COUNTER),
        ("modify", modify, Code.MODIFY_EVENT_COUNTER),
        ("destroy", AdminDestroyEventCounterCmd(cntr_handle=0), Code.DESTROY_EVENT_COUNTER),
    ):
        if name == "destroy":
            # A counter that is busy stays, also with a neighbour that is always ready.
            await cycles_of(dut, entry(command, code), **idle | {"s_ec_code": CODES[BUSY]})
        cycles = await cycles_of(dut, entry(command, code), **idle)
        assert cycles == timing("efa_cmd_ec", name).latency, (name, cycles)
    again = await cycles_of(dut, entry(command, code), **idle)
    assert again < cycles, "the destruction of an absent counter must be refused early"


@cocotb.test()
async def reset_in_a_command(dut):
    """admin.cmd_ec.reset"""
    unit = Counters(dut)
    await unit.start()
    for cycles in range(1, 16):
        await unit.cut_off(AdminCreateEventCounterCmd(uar=UAR, paddr=8),
                           Code.CREATE_EVENT_COUNTER, cycles)  # fmt: skip
        unit.orders.clear()
        unit.numbers.give(Kind.UAR, UAR, 4)
        assert await unit.create() == 0
        await unit.cut_off(AdminDestroyEventCounterCmd(cntr_handle=0),
                           Code.DESTROY_EVENT_COUNTER, cycles)  # fmt: skip
        unit.orders.clear()
        unit.numbers.give(Kind.UAR, UAR, 4)
