"""efa_dispatch: every opcode to its family, in order; the rest refused here."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa.defs import AdminAqCompletionStatus, AdminAqEntry, AdminAqOpcode
from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.unit.module_bench import high, span

FAMILIES = (
    ("ALLOC_PD", "DEALLOC_PD", "ALLOC_UAR", "DEALLOC_UAR"),
    ("CREATE_AH", "DESTROY_AH"),
    ("CREATE_CQ", "DESTROY_CQ", "CREATE_EQ", "DESTROY_EQ"),
    ("REG_MR", "DEREG_MR"),
    ("CREATE_QP", "MODIFY_QP", "QUERY_QP", "DESTROY_QP"),
    ("GET_FEATURE", "SET_FEATURE", "GET_STATS"),
)
UNIT = {int(AdminAqOpcode[name]): unit for unit, names in enumerate(FAMILIES) for name in names}


def command(opcode, number, rng):
    entry = AdminAqEntry(request_payload=[rng.getrandbits(32) for _ in range(15)])
    entry.aq_common_descriptor.opcode = opcode
    entry.aq_common_descriptor.command_id__command_id = number
    return int.from_bytes(entry.pack(64), "little")


class Units:
    """Takes commands as each unit likes; keeps what came, with the unit."""

    def __init__(self, dut, share):
        self.dut, self.share, self.rng, self.came = dut, share, rng_for("units"), []
        dut.m_cmd_ready.value = 0
        cocotb.start_soon(self.run())

    async def run(self):
        dut, ready, held = self.dut, 0, None
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value != 0:
                ready, held = 0, None
                continue
            valid = int(dut.m_cmd_valid.value)
            assert valid & (valid - 1) == 0, "two units at once"
            now = (valid, int(dut.m_cmd_data.value)) if valid else None
            assert held is None or now == held, "a waiting command changed"
            held = now if now and not valid & ready else None
            if valid & ready:
                self.came.append((valid.bit_length() - 1, now[1]))
            ready = sum((self.rng.random() < self.share) << unit for unit in range(6))
            dut.m_cmd_ready.value = ready


async def start(dut, share=1.0, gaps=0.0, stalls=0.0):
    source = StreamDriver(dut, "s_cmd", gaps, ["data", "err"])
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
    beats = [(opcode, number, int(rng.random() < 0.1)) for number, opcode in enumerate(opcodes)]
    datas = [command(opcode, number, rng) for opcode, number, _ in beats]
    source.post(*[{"data": data, "err": beat[2]} for data, beat in zip(datas, beats, strict=True)])
    await source.idle()
    await ClockCycles(dut.clk, 60)
    good = [(UNIT[o], datas[n]) for o, n, err in beats if o in UNIT and not err]
    status = AdminAqCompletionStatus
    refused = [{"id": 0 if err else n,
                "status": int(status.UNKNOWN_ERROR if err else status.UNSUPPORTED_OPCODE)}
               for o, n, err in beats if err or o not in UNIT]  # fmt: skip
    assert units.came == good
    assert list(refusals.beats) == refused
    told = [(beat["data"] & 0xFFF, beat["data"] >> 12) for beat in events.beats]
    assert told == [(n, o) for o, n, err in beats if not err]


@cocotb.test()
async def a_busy_unit_holds_those_behind(dut):
    """admin.dispatch.order"""
    source, refusals, _, units = await start(dut, share=0.0)
    rng = rng_for("commands")
    source.post({"data": command(AdminAqOpcode.REG_MR, 1, rng)},
                {"data": command(255, 2, rng)})  # fmt: skip
    await refusals.none(20)
    assert dut.s_cmd_ready.value == 0 and int(dut.m_cmd_valid.value) == 1 << 3
    units.share = 1.0
    assert (await refusals.take())[0]["id"] == 2
    assert len(units.came) == 1


@cocotb.test()
async def its_cycles(dut):
    """admin.dispatch.time"""
    promised = timing("efa_dispatch", "command")
    source, _, _, units = await start(dut)
    data = command(AdminAqOpcode.ALLOC_PD, 1, rng_for("commands"))
    source.post(*[{"data": data}] * 50)
    there = lambda: int(dut.m_cmd_valid.value) == 1  # noqa: E731
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
    units.share = 1.0
    await ClockCycles(dut.clk, 5)
    assert not units.came and not refusals.beats and not events.beats
    await source.send({"data": command(AdminAqOpcode.CREATE_AH, 9, rng)})
    await ClockCycles(dut.clk, 3)
    assert [unit for unit, _ in units.came] == [1]
