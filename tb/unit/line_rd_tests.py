# SPDX-License-Identifier: Apache-2.0
"""efa_line_rd: pieces of host memory, answered in any order and split, handed on in order."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, high, span, until

BROKEN = 1 << 40


class Host:
    """Takes reads, answers them late, in any order, in several beats; while `answers` is off the
    test drives the answers."""

    def __init__(self, dut, patience=12, busy=0.0, answers=True):
        self.dut, self.rng, self.patience = dut, rng_for("host"), patience
        self.memory = self.rng.randbytes(1 << 16)
        self.open, self.most, self.answers = [], 0, answers
        self.reads = StreamMonitor(
            dut, "rd", busy, ["addr", "len", "slot"], lambda beat: self.open.append([beat, 0])
        )
        drive(dut, rdc_valid=0, rdc_slot=0, rdc_offset=0, rdc_data=0, rdc_bytes=0, rdc_last=0,
              rdc_err=0)  # fmt: skip
        cocotb.start_soon(self.run())

    def bytes_at(self, addr, length):
        addr %= 1 << 16
        return int.from_bytes(self.memory[addr : addr + length], "little")

    async def run(self):
        dut, rng = self.dut, self.rng
        while True:
            if self.answers:
                dut.rdc_valid.value = 0
            self.most = max(self.most, len(self.open))
            if self.answers and self.open and rng.randrange(self.patience) == 0:
                entry = rng.choice(self.open)
                beat, done = entry
                assert beat["addr"] % 64 + beat["len"] <= 64
                left = beat["len"] - done
                err = bool(beat["addr"] & BROKEN)
                size = left if rng.random() < 0.6 else rng.randrange(1, left + 1)
                last = size == left or err
                drive(dut, rdc_valid=1, rdc_slot=beat["slot"], rdc_offset=done, rdc_err=int(err),
                      rdc_bytes=0 if err else size, rdc_last=int(last),
                      rdc_data=self.bytes_at(beat["addr"] + done, size)
                      | rng.getrandbits(512) << 8 * size & (1 << 512) - 1)  # fmt: skip
                entry[1] += size
                if last:
                    self.open.remove(entry)
            await RisingEdge(dut.clk)


def low(beat, length):
    """The first bytes of a line as a number."""
    return int(beat["data"][-8 * length :], 2)


async def start(dut, gaps=0.0, stalls=0.0, **host):
    source = StreamDriver(dut, "s_line", gaps, ["addr", "len"])
    # Bits beyond a line's length say nothing, so the data is kept as text.
    sink = StreamMonitor(dut, "m_line", stalls, ["err"],
                         lambda beat: beat.update(data=str(dut.m_line_data.value)))  # fmt: skip
    host = Host(dut, **host)
    await clock_and_reset(dut)
    return source, sink, host


def asks(rng, count):
    for _ in range(count):
        offset = rng.choice((0, rng.randrange(64)))
        base = rng.getrandbits(58) << 6 & ~BROKEN | BROKEN * (rng.random() < 0.1)
        length = rng.choice((64 - offset, rng.randrange(1, 65 - offset)))
        yield {"addr": base + offset, "len": length}


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0, 1), (0.0, 0.7, 3), (0.5, 0.0, 12), (0.8, 0.0, 1)])
async def lines_in_order_from_answers_in_any(dut, pace):
    """admin.line_rd.order"""
    source, sink, host = await start(dut, pace[0], pace[1], patience=pace[2], busy=pace[1])
    wanted = list(asks(rng_for("asks"), 150))
    source.post(*wanted)
    asked = []
    answer = host.reads.on_beat
    host.reads.on_beat = lambda beat: (asked.append((beat["addr"], beat["len"])), answer(beat))
    for ask in wanted:
        beat = (await sink.take())[0]
        assert beat["err"] == bool(ask["addr"] & BROKEN)
        if not beat["err"]:
            assert low(beat, ask["len"]) == host.bytes_at(ask["addr"], ask["len"]), ask
    assert asked == [(ask["addr"], ask["len"]) for ask in wanted]


@cocotb.test()
async def one_waits_at_each_end(dut):
    """admin.line_rd.waits: a read that nobody takes yet, and a line; neither is needed to ask."""
    source, sink, host = await start(dut)
    free, busy = host.reads._pause, lambda: True
    for end in (host.reads, sink):
        end._pause = busy
    source.post({"addr": 0, "len": 64})
    await ClockCycles(dut.clk, 6)
    assert dut.rd_valid.value == 1 and dut.s_line_ready.value == 0
    host.reads._pause = free
    await until(dut, high(dut.m_line_valid))
    sink._pause = free
    assert low((await sink.take())[0], 64) == host.bytes_at(0, 64)


@cocotb.test()
async def as_many_as_slots(dut):
    """admin.line_rd.depth"""
    promised = timing("efa_line_rd", "ask")
    source, sink, host = await start(dut, answers=False)
    source.post(*asks(rng_for("asks"), 40))
    await ClockCycles(dut.clk, 60)
    assert len(host.open) == promised.depth
    assert len({beat["slot"] for beat, _ in host.open}) == promised.depth
    assert dut.s_line_ready.value == 0
    host.answers = True
    assert len(await sink.take(40)) == 40
    assert host.most == promised.depth


@cocotb.test()
async def its_cycles(dut):
    """admin.line_rd.time"""
    ask, answer = timing("efa_line_rd", "ask"), timing("efa_line_rd", "answer")
    source, sink, host = await start(dut, answers=False)
    source.post(*[{"addr": 0, "len": 64}] * 8)
    cycles = await span(dut, high(dut.s_line_valid, dut.s_line_ready), high(dut.rd_valid))
    assert cycles == ask.latency
    for _ in range(7 // ask.interval):
        assert dut.rd_valid.value == 1
        await RisingEdge(dut.clk)
    await ClockCycles(dut.clk, 4)
    for beat, _ in list(host.open):
        drive(dut, rdc_valid=1, rdc_slot=beat["slot"], rdc_offset=0, rdc_bytes=64, rdc_last=1)
        await RisingEdge(dut.clk)
        if beat is host.open[0][0]:
            cocotb.start_soon(measure(dut, answer))
    dut.rdc_valid.value = 0
    await ClockCycles(dut.clk, 8)
    assert sink.taken == 8


async def measure(dut, answer):
    assert dut.m_line_valid.value == 0
    assert await until(dut, high(dut.m_line_valid)) == answer.latency
    for _ in range(7 // answer.interval):
        assert dut.m_line_valid.value == 1
        await RisingEdge(dut.clk)


@cocotb.test()
async def reset_in_traffic(dut):
    """admin.line_rd.reset"""
    source, sink, host = await start(dut, stalls=0.8, patience=4)
    source.post(*asks(rng_for("asks"), 60))
    await ClockCycles(dut.clk, 60)
    source.clear()
    host.answers = False
    dut.rdc_valid.value = 0
    await reset(dut)
    host.open.clear()
    sink.beats.clear()
    await sink.none(10)
    host.answers = True
    source.post({"addr": 192, "len": 9})
    assert low((await sink.take())[0], 9) == host.bytes_at(192, 9)
    await sink.none(10)
