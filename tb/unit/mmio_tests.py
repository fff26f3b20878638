# SPDX-License-Identifier: Apache-2.0
"""Tests efa_mmio: bus accesses become register, LLQ and doorbell accesses in bus order; loads
complete."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import EFA_MEM_BAR, EFA_REG_BAR, LIMITS
from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, low, rises, steady, until

REG, LLQ, DB = EFA_REG_BAR, EFA_MEM_BAR, LIMITS.db_bar
OTHERS = tuple(sorted({*range(8)} - {REG, LLQ, DB}))  # BARs without a function
DWORDS = 16
WHOLE = 0xF


def register(offset):
    """Returns the value of a register of the bench."""
    return ((offset + 1) * 0x9E37_79B1_85EB_CA87 >> 21) & 0xFFFF_FFFF


class Bench:
    """Drives the host side and records all accesses behind the module in cycle order."""

    def __init__(self, dut, stalls=0.0):
        self.dut = dut
        self.bytes = 64 << len(dut.m_llq_line)
        drive(dut, s_opened=1, s_in_reset=0, s_acc_rdata=0)
        self.bus = StreamDriver(dut, "s_mmio", fields=["write", "bar", "addr", "be", "data", "tag"])
        self.cpl = StreamMonitor(dut, "m_mmio_cpl", stalls)
        self.acts = []
        fields = {
            "llq": ["line", "dwen", "part", "data"], "db": ["offset", "data"],
            "acc": ["write", "offset", "data"], "part": ["offset"],
        }  # fmt: skip
        for name, seen in fields.items():
            StreamMonitor(dut, f"m_{name}", fields=seen, on_beat=self.note(name))
        cocotb.start_soon(self.response())

    def note(self, name):
        return lambda beat: self.acts.append((name, beat))

    async def response(self):
        """Returns register values one cycle after the request."""
        while True:
            await RisingEdge(self.dut.clk)
            if self.dut.m_acc_valid.value == 1:
                self.dut.s_acc_rdata.value = register(int(self.dut.m_acc_offset.value))

    def expected(self, line):
        """Returns the expected accesses of a line and the data of its completion."""
        enables = [line["be"] >> 4 * n & WHOLE for n in range(DWORDS)]
        dwords = [line["data"] >> 32 * n & 0xFFFF_FFFF for n in range(DWORDS)]
        touched = [n for n in range(DWORDS) if enables[n]]
        acts, response = [], 0
        for n in touched:
            offset = line["addr"] + 4 * n
            if line["bar"] == REG and not line["write"]:
                acts.append(("acc", {"write": 0, "offset": offset}))
                response |= register(offset) << 32 * n
            elif line["bar"] in (REG, DB) and line["write"]:
                beat = {"offset": offset, "data": dwords[n]}
                if line["bar"] == REG:
                    beat["write"] = 1
                name = "acc" if line["bar"] == REG else "db"
                complete = enables[n] == WHOLE
                acts.append((name, beat) if complete else ("part", {"offset": offset}))
        if line["bar"] == LLQ and line["write"] and touched and line["addr"] < self.bytes:
            complete = sum(1 << n for n in range(DWORDS) if enables[n] == WHOLE)
            some = sum(1 << n for n in touched)
            beat = {"line": line["addr"] // 64, "dwen": complete, "part": int(complete != some)}
            acts.append(("llq", beat | {"data": line["data"]}))
        return acts, None if line["write"] else response


def any_line(rng, tag):
    """Returns a load or store of random bytes of a line of a random BAR."""
    first, last = sorted((rng.randrange(64), rng.randrange(64)))
    other = rng.choice(OTHERS)
    enables = rng.choice(((2 << last) - (1 << first), rng.getrandbits(64), (1 << 64) - 1, 0xF, 0))
    return {
        "write": int(rng.random() < 0.8), "bar": rng.choice((REG, LLQ, LLQ, DB, other)),
        "addr": 64 * rng.choice((rng.randrange(64), rng.getrandbits(26))), "be": enables,
        "data": rng.getrandbits(512), "tag": tag,
    }  # fmt: skip


def matches(seen, wanted):
    """Compares accesses with the expected ones; the data of a load is don't-care."""
    return len(seen) == len(wanted) and all(
        name == want and {key: beat[key] for key in fields} == fields
        for (name, beat), (want, fields) in zip(seen, wanted, strict=True)
    )


@cocotb.test()
@cocotb.parametrize(stalls=[0.0, 0.7])
async def any_lines(dut, stalls):
    """host.mmio.order: random stores and loads act per dword, in order; every load completes."""
    bench = Bench(dut, stalls)
    rng = rng_for("any_lines")
    await clock_and_reset(dut)
    lines = [any_line(rng, n % 256) for n in range(600)]
    # The pins keep the last line: this partial store acts once.
    lines[-1] |= {"write": 1, "bar": REG, "be": 1}
    bench.bus.post(*lines)
    wanted, responses = [], []
    for line in lines:
        acts, response = bench.expected(line)
        wanted += acts
        if response is not None:
            responses.append({"tag": line["tag"], "data": response})
    assert await bench.cpl.take(len(responses), 60000) == responses
    await bench.bus.idle()
    await ClockCycles(dut.clk, 24)
    assert matches(bench.acts, wanted)


@cocotb.test()
async def in_a_reset(dut):
    """host.mmio.reset: during a reset, LLQ and doorbell stores are discarded and register
    accesses continue."""
    bench = Bench(dut)
    await clock_and_reset(dut)
    dut.s_in_reset.value = 1
    full = {"write": 1, "addr": 0, "be": (1 << 64) - 1, "data": 1}
    await bench.bus.send(*(full | {"bar": bar} for bar in (LLQ, DB, REG)))
    await ClockCycles(dut.clk, 48)
    assert [name for name, _ in bench.acts] == ["acc"] * DWORDS


@cocotb.test()
async def not_open(dut):
    """host.mmio.closed: no access is accepted before the tables are initialised."""
    bench = Bench(dut)
    dut.s_opened.value = 0
    await clock_and_reset(dut)
    bench.bus.post({"write": 1, "bar": REG, "addr": 0, "be": WHOLE, "data": 7})
    await steady(dut, 40, s_mmio_ready=0)
    dut.s_opened.value = 1
    await bench.bus.idle()
    await ClockCycles(dut.clk, 4)
    assert matches(bench.acts, [("acc", {"write": 1, "offset": 0, "data": 7})])


@cocotb.test()
async def loads_wait(dut):
    """host.mmio.loads: completions are buffered up to the specified depth, then loads wait and
    stores before them pass; none is lost."""
    bench = Bench(dut, stalls=1.0)
    await clock_and_reset(dut)
    depth = timing("efa_mmio", "load").depth
    loads = [{"bar": REG, "addr": 64 * n, "be": WHOLE, "tag": n} for n in range(80)]
    bench.bus.post(*loads[:depth])
    await ClockCycles(dut.clk, depth + 20)
    bench.bus.post({"write": 1, "bar": REG, "addr": 0, "be": WHOLE, "data": 7})
    await ClockCycles(dut.clk, 8)
    assert [beat["write"] for _, beat in bench.acts] == [0] * depth + [1]
    bench.bus.post(*loads[depth:])
    await ClockCycles(dut.clk, 40)
    assert len(bench.acts) == depth + 1, "a load acts although the specified number waits"
    bench.cpl._pause = lambda: False
    responses = await bench.cpl.take(80)
    assert responses == [{"tag": n, "data": register(64 * n)} for n in range(80)]
    bench.cpl._pause = lambda: True
    bench.acts.clear()
    bench.bus.post(*loads)
    await ClockCycles(dut.clk, 200)
    requested = len(bench.acts)
    assert depth <= requested <= depth + 4
    assert dut.s_mmio_ready.value == 0
    bench.cpl._pause = lambda: False
    responses = await bench.cpl.take(80)
    assert responses == [{"tag": n, "data": register(64 * n)} for n in range(80)]


@cocotb.test()
@cocotb.parametrize(bar=[REG, LLQ, DB])
async def cycles(dut, bar):
    """host.mmio.cycles: a store acts with the specified latency; single dwords act every cycle."""
    bench = Bench(dut)
    promised = timing("efa_mmio", "store")
    await clock_and_reset(dut)
    name = {REG: "acc", LLQ: "llq", DB: "db"}[bar]
    valid = getattr(dut, f"m_{name}_valid")
    drive(dut, s_mmio_valid=1, s_mmio_write=1, s_mmio_bar=bar, s_mmio_addr=0, s_mmio_be=WHOLE)
    await RisingEdge(dut.clk)
    await rises(dut, valid, promised.latency)
    for _ in range(50):
        assert valid.value == 1 and dut.s_mmio_ready.value == 1
        await ClockCycles(dut.clk, promised.interval)
    dut.s_mmio_valid.value = 0
    await until(dut, low(valid))
    before = len(bench.acts)
    bench.bus.post(*[{"write": 1, "bar": bar, "addr": 64 * n, "be": (1 << 64) - 1} for n in (0, 1)])
    await bench.bus.idle()
    wanted = before + (2 if bar == LLQ else 2 * DWORDS)
    consumed = await until(dut, lambda: len(bench.acts) >= wanted, "all of both stores")
    assert consumed <= 2 * DWORDS + promised.latency


@cocotb.test()
async def response_cycles(dut):
    """host.mmio.response: a load of one dword completes with the specified latency."""
    Bench(dut)
    await clock_and_reset(dut)
    drive(dut, s_mmio_valid=1, s_mmio_write=0, s_mmio_bar=REG, s_mmio_addr=64, s_mmio_be=WHOLE)
    await RisingEdge(dut.clk)
    dut.s_mmio_valid.value = 0
    await rises(dut, dut.m_mmio_cpl_valid, timing("efa_mmio", "load").latency)


@cocotb.test()
async def rst_in_traffic(dut):
    """host.mmio.rst: after rst no earlier access acts or completes, and the module works from
    its initial state."""
    bench = Bench(dut)
    rng = rng_for("rst_in_traffic")
    await clock_and_reset(dut)
    bench.bus.post(*(any_line(rng, n) for n in range(60)))
    await ClockCycles(dut.clk, 50)
    bench.bus.clear()
    await reset(dut)
    bench.acts.clear()
    bench.cpl.beats.clear()
    await bench.cpl.none(40)
    assert not bench.acts
    bench.bus.post({"bar": REG, "addr": 128, "be": WHOLE << 8, "tag": 9})
    assert await bench.cpl.take() == [{"tag": 9, "data": register(136) << 64}]


def some_dwords(rng, bar, tag, write):
    """Returns a line with random complete dwords of registers or LLQ memory."""
    dwords = rng.choice((rng.getrandbits(DWORDS), 1 << rng.randrange(DWORDS)))
    enables = sum(WHOLE << 4 * n for n in range(DWORDS) if dwords >> n & 1)
    return {"write": write, "bar": bar, "addr": 64 * rng.randrange(64), "be": enables,
            "data": rng.getrandbits(512), "tag": tag}  # fmt: skip


@cocotb.test()
async def loads_of_many_dwords(dut):
    """host.mmio.gather: each dword is in its lane, also when completions stall in the middle of
    a load."""
    bench, rng = Bench(dut), rng_for("gather")
    await clock_and_reset(dut)
    waits = [False]
    bench.cpl._pause = lambda: waits[0]
    for _ in range(3):
        lines = [some_dwords(rng, REG, n, 0) for n in range(90)]
        for line in lines:  # the position of the first dword is random
            line["be"] &= -1 << 4 * rng.choice((0, rng.randrange(DWORDS - 1)))
        waits[0] = True
        bench.bus.post(*lines)
        await ClockCycles(dut.clk, 600)
        for _ in range(40):  # one completion leaves, then loads continue until they wait again
            waits[0] = False
            await ClockCycles(dut.clk, rng.choice((1, 1, 1, 3)))
            waits[0] = True
            await ClockCycles(dut.clk, rng.randrange(12, 30))
        waits[0] = False
        responses = await bench.cpl.take(len(lines))
        assert responses == [
            {"tag": line["tag"], "data": bench.expected(line)[1]} for line in lines
        ]
        assert matches(bench.acts, [act for line in lines for act in bench.expected(line)[0]])
        bench.acts.clear()


@cocotb.test()
async def a_cycle_for_each_dword(dut):
    """host.mmio.rate: a register line takes one cycle per dword; an LLQ line takes one cycle."""
    bench, rng = Bench(dut), rng_for("rate")
    await clock_and_reset(dut)
    for write in (1, 0):
        lines = [some_dwords(rng, REG, 0, write) for _ in range(50)]
        wanted = [act for line in lines for act in bench.expected(line)[0]]
        due = sum(max(1, len(bench.expected(line)[0])) for line in lines)
        bench.acts.clear()
        bench.bus.post(*lines)
        await until(dut, lambda: len(bench.acts) > 0, "the first")
        last = max(n for n, line in enumerate(lines) if line["be"])
        due -= len(lines) - 1 - last
        first = min(n for n, line in enumerate(lines) if line["be"])
        count = len(wanted)
        consumed = await until(dut, lambda count=count: len(bench.acts) == count, "the last")
        assert consumed == due - first - 1, write
        await bench.bus.idle()
        await ClockCycles(dut.clk, 24)
        assert matches(bench.acts, wanted)
    lines = [some_dwords(rng, LLQ, 0, 1) for _ in range(50)]
    bench.acts.clear()
    await bench.bus.send(*lines)
    await ClockCycles(dut.clk, 4)
    assert matches(bench.acts, [act for line in lines for act in bench.expected(line)[0]])


@cocotb.test()
async def a_short_reset(dut):
    """host.mmio.rst: a reset of one cycle in any cycle of a load leaves no completion behind."""
    bench = Bench(dut)
    await clock_and_reset(dut)
    for wait in range(1, 12):
        bench.bus.post({"bar": REG, "addr": 0, "be": WHOLE << 4 | WHOLE, "tag": 1})
        await ClockCycles(dut.clk, wait)
        bench.bus.clear()
        dut.rst.value = 1
        await RisingEdge(dut.clk)
        dut.rst.value = 0
        bench.cpl.beats.clear()
        await bench.cpl.none(12)
    bench.bus.post({"bar": REG, "addr": 128, "be": WHOLE << 8, "tag": 9})
    assert await bench.cpl.take() == [{"tag": 9, "data": register(136) << 64}]
