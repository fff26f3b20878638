# SPDX-License-Identifier: Apache-2.0
"""Tests efa_dispatch: each opcode goes to its command unit in order; other opcodes are refused."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import AdminAqCompletionStatus, AdminAqEntry, AdminAqOpcode
from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, high, span, until

FAMILIES = (
    ("ALLOC_PD", "DEALLOC_PD", "ALLOC_UAR", "DEALLOC_UAR"),
    ("CREATE_AH", "DESTROY_AH"),
    ("CREATE_CQ", "DESTROY_CQ", "CREATE_EQ", "DESTROY_EQ"),
    ("REG_MR", "DEREG_MR", "ALLOC_MR"),
    ("CREATE_QP", "MODIFY_QP", "QUERY_QP", "DESTROY_QP"),
    ("GET_FEATURE", "SET_FEATURE", "GET_STATS"),
    tuple(f"{verb}_EVENT_COUNTER" for verb in "CREATE DESTROY ATTACH DETACH MODIFY".split()),
)
UNIT = {int(AdminAqOpcode[name]): unit for unit, names in enumerate(FAMILIES) for name in names}


def command(opcode, number, rng):
    entry = AdminAqEntry(request_payload=[rng.getrandbits(32) for _ in range(15)])
    entry.aq_common_descriptor.opcode = opcode
    entry.aq_common_descriptor.command_id__command_id = number
    return int.from_bytes(entry.pack(64), "little")


# Families whose objects reference each other: the later command waits for the earlier command.
CONFLICTS = {0: {1, 2, 3, 4, 6}, 1: {0}, 2: {0, 4}, 3: {0}, 4: {0, 2, 6}, 5: set(), 6: {0, 4}}


class Units:
    """Models the command units: records accepted commands with their unit in `came`.

    `share` is the probability per cycle that a busy unit ends its command; 0 never ends a command.
    """

    def __init__(self, dut, share):
        self.dut, self.share, self.rng, self.came = dut, share, rng_for("units"), []
        # Busy units as the device sees them in this cycle (`busy`) and in the next cycle
        # (`working`).
        self.busy, self.working = set(), set()
        dut.m_cmd_ready.value = dut.s_unit_idle.value = 0
        cocotb.start_soon(self.run())

    async def run(self):
        dut, ready, held = self.dut, 0, None
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value != 0:
                ready, held = 0, None
                self.working.clear()
                continue
            valid = int(dut.m_cmd_valid.value)
            assert valid & (valid - 1) == 0, "commands for two units at once"
            now = (valid, int(dut.m_cmd_data.value)) if valid else None
            assert held is None or now == held, "a pending command changed"
            held = now if now and not valid & ready else None
            self.working = {unit for unit in self.working if self.rng.random() >= self.share}
            if valid & ready:
                unit = valid.bit_length() - 1
                assert not CONFLICTS[unit] & self.busy, "a conflicting unit is busy"
                self.came.append((unit, now[1]))
                self.working.add(unit)
            self.busy = set(self.working)
            ready = sum(1 << unit for unit in range(7) if unit not in self.working)
            dut.m_cmd_ready.value = dut.s_unit_idle.value = ready


async def start(dut, share=1.0, gaps=0.0, stalls=0.0):
    source = StreamDriver(dut, "s_cmd", gaps, ["data", "err", "bad"])
    refusals = StreamMonitor(dut, "m_rsp", stalls, ["id", "status"])
    events = StreamMonitor(dut, "ev_aqcmd", fields=["data"])
    units = Units(dut, share)
    await clock_and_reset(dut)
    return source, refusals, events, units


@cocotb.test()
@cocotb.parametrize(pace=[(1.0, 0.0, 0.0), (0.3, 0.0, 0.7), (0.8, 0.6, 0.2)])
async def every_opcode_goes_where_it_belongs(dut, pace):
    """admin.dispatch.family"""
    source, refusals, events, units = await start(dut, *pace)
    rng = rng_for("commands")
    opcodes = [*range(256), *[rng.choice(list(UNIT)) for _ in range(100)]]
    rng.shuffle(opcodes)
    beats = [
        (opcode, rng.randrange(4096), int(rng.random() < 0.1), int(rng.random() < 0.1))
        for opcode in opcodes
    ]
    datas = [command(opcode, number, rng) for opcode, number, _, _ in beats]
    for data, (_, _, err, bad) in zip(datas, beats, strict=True):
        source.post({"data": data, "err": err, "bad": bad})
    await source.idle()
    await ClockCycles(dut.clk, 60)
    good = [(UNIT[o], data) for data, (o, _, err, bad) in zip(datas, beats, strict=True)
            if o in UNIT and not err | bad]  # fmt: skip
    status = AdminAqCompletionStatus
    refused = [{"id": 0 if err else n,
                "status": int(status.UNKNOWN_ERROR if err else
                              status.MALFORMED_REQUEST if bad else status.UNSUPPORTED_OPCODE)}
               for o, n, err, bad in beats if err or bad or o not in UNIT]  # fmt: skip
    assert units.came == good
    assert list(refusals.beats) == refused
    reported = [(beat["data"] & 0xFFF, beat["data"] >> 12) for beat in events.beats]
    assert reported == [(n, o) for o, n, err, _ in beats if not err]


@cocotb.test()
async def a_busy_unit_holds_those_behind(dut):
    """admin.dispatch.order"""
    source, refusals, _, units = await start(dut, share=0.0)
    rng = rng_for("commands")
    source.post(*({"data": command(AdminAqOpcode.REG_MR, n, rng)} for n in (1, 2)),
                {"data": command(255, 3, rng)})  # fmt: skip
    await refusals.none(20)
    assert dut.s_cmd_ready.value == 0 and int(dut.m_cmd_valid.value) == 1 << 3
    units.share = 1.0
    assert (await refusals.take())[0]["id"] == 3
    assert len(units.came) == 2


@cocotb.test()
async def a_busy_unit_accepts_one_more_command(dut):
    """admin.dispatch.space: a unit at work has consumed its command, so the next command for any
    unit is accepted."""
    source, _, _, units = await start(dut, share=0.0)
    rng = rng_for("room")
    for unit, names in enumerate(FAMILIES):
        await source.send({"data": command(AdminAqOpcode[names[0]], unit, rng)})
        units.share = 0.0
        await until(dut, lambda: units.came and units.came[-1][0] == unit, "its command")  # noqa: B023
        await ClockCycles(dut.clk, 2)
        assert dut.s_cmd_ready.value == 1
        units.share = 1.0
        await ClockCycles(dut.clk, 4)


@cocotb.test()
async def conflicting_families_wait(dut):
    """admin.dispatch.conflicts: for each pair of families, the second command waits while the
    first is executed if they conflict."""
    source, _, _, units = await start(dut, share=0.0)
    rng = rng_for("conflicts")
    for first in range(7):
        for second in range(7):
            units.share = 1.0
            await ClockCycles(dut.clk, 4)
            units.share = 0.0
            before = len(units.came)
            for unit in (first, second):
                name = rng.choice(FAMILIES[unit])
                source.post({"data": command(AdminAqOpcode[name], unit, rng)})
            await ClockCycles(dut.clk, 12)
            held = second == first or second in CONFLICTS[first]
            assert len(units.came) - before == (1 if held else 2), (first, second)
            units.share = 1.0
            await ClockCycles(dut.clk, 8)
            assert len(units.came) - before == 2


@cocotb.test()
async def its_cycles(dut):
    """admin.dispatch.time"""
    promised = timing("efa_dispatch", "command")
    source, _, _, units = await start(dut)
    turns = (AdminAqOpcode.GET_FEATURE, AdminAqOpcode.REG_MR, AdminAqOpcode.CREATE_QP)
    beats = [{"data": command(turns[n % 3], n, rng_for("commands"))} for n in range(50)]
    source.post(*beats)
    there = lambda: int(dut.m_cmd_valid.value) == 1 << UNIT[turns[0]]  # noqa: E731
    assert await span(dut, high(dut.s_cmd_valid, dut.s_cmd_ready), there) == promised.latency
    await ClockCycles(dut.clk, 50 * promised.interval)
    assert len(units.came) == 50


@cocotb.test()
async def reset_in_traffic(dut):
    """admin.dispatch.reset"""
    source, refusals, events, units = await start(dut, share=0.0)
    rng = rng_for("commands")
    source.post(*[{"data": command(AdminAqOpcode.ALLOC_PD, n, rng)} for n in range(3)])
    await ClockCycles(dut.clk, 5)
    source.clear()
    await reset(dut)
    units.came.clear()
    events.beats.clear()
    units.share = 1.0
    await ClockCycles(dut.clk, 5)
    assert not units.came and not refusals.beats and not events.beats
    await source.send({"data": command(AdminAqOpcode.CREATE_AH, 9, rng)})
    await ClockCycles(dut.clk, 3)
    assert [unit for unit, _ in units.came] == [1]
    # A command that leaves in the cycle of the reset is not reported.
    for wait in range(4, 12):
        drive(dut, s_cmd_valid=1, m_cmd_ready=127, s_unit_idle=127)
        await ClockCycles(dut.clk, wait)
        dut.rst.value = 1
        await RisingEdge(dut.clk)
        for _ in range(4):
            await RisingEdge(dut.clk)
            assert dut.ev_aqcmd_valid.value == 0 and int(dut.m_cmd_valid.value) == 0
        drive(dut, rst=0, s_cmd_valid=0)
        await RisingEdge(dut.clk)
