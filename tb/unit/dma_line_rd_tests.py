# SPDX-License-Identifier: Apache-2.0
"""Tests efa_dma_line_rd: reads of host memory complete in any order and split; lines leave in
order."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, high, span, until

BROKEN = 1 << 40


class Host:
    """Models the host: completes reads late, in random order and in several beats. While
    `responses` is off the test drives the completions."""

    def __init__(self, dut, patience=12, busy=0.0, responses=True):
        self.dut, self.rng, self.patience = dut, rng_for("host"), patience
        self.memory = self.rng.randbytes(1 << 16)
        self.open, self.most, self.responses = [], 0, responses
        self.reads = StreamMonitor(
            dut, "m_rd", busy, ["addr", "len", "slot"], lambda beat: self.open.append([beat, 0])
        )
        drive(
            dut,
            s_rd_cpl_valid=0,
            s_rd_cpl_slot=0,
            s_rd_cpl_offset=0,
            s_rd_cpl_data=0,
            s_rd_cpl_bytes=0,
            s_rd_cpl_last=0,
            s_rd_cpl_err=0,
        )
        cocotb.start_soon(self.run())

    def bytes_at(self, addr, length):
        addr %= 1 << 16
        return int.from_bytes(self.memory[addr : addr + length], "little")

    async def run(self):
        dut, rng = self.dut, self.rng
        while True:
            if self.responses:
                # Without valid, the fields of a completion carry don't-care bits.
                for name in ("slot", "offset", "data", "bytes", "last", "err"):
                    port = getattr(dut, f"s_rd_cpl_{name}")
                    port.value = rng.getrandbits(len(port))
                dut.s_rd_cpl_valid.value = 0
            self.most = max(self.most, len(self.open))
            if self.responses and self.open and rng.randrange(self.patience) == 0:
                entry = rng.choice(self.open)
                beat, done = entry
                assert beat["addr"] % 64 + beat["len"] <= 64
                left = beat["len"] - done
                err = bool(beat["addr"] & BROKEN)
                size = left if rng.random() < 0.6 else rng.randrange(1, left + 1)
                last = size == left or err
                drive(
                    dut,
                    s_rd_cpl_valid=1,
                    s_rd_cpl_slot=beat["slot"],
                    s_rd_cpl_offset=done,
                    s_rd_cpl_err=int(err),
                    s_rd_cpl_bytes=0 if err else size,
                    s_rd_cpl_last=int(last),
                    s_rd_cpl_data=self.bytes_at(beat["addr"] + done, size)
                    | rng.getrandbits(512) << 8 * size & (1 << 512) - 1,
                )
                entry[1] += size
                if last:
                    self.open.remove(entry)
            await RisingEdge(dut.clk)


def low(beat, length):
    """Returns the first bytes of a line as an integer."""
    return int(beat["data"][-8 * length :], 2)


async def start(dut, gaps=0.0, stalls=0.0, **host):
    source = StreamDriver(dut, "s_line", gaps, ["addr", "len"])
    # Bits beyond the length of a line are don't-care, so the data is captured as text.
    sink = StreamMonitor(dut, "m_line", stalls, ["err"],
                         lambda beat: beat.update(data=str(dut.m_line_data.value)))  # fmt: skip
    host = Host(dut, **host)
    await clock_and_reset(dut)
    return source, sink, host


def requests(rng, count):
    for _ in range(count):
        offset = rng.choice((0, rng.randrange(64)))
        base = rng.getrandbits(58) << 6 & ~BROKEN | BROKEN * (rng.random() < 0.1)
        length = rng.choice((64 - offset, rng.randrange(1, 65 - offset)))
        yield {"addr": base + offset, "len": length}


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0, 1), (0.0, 0.7, 3), (0.5, 0.0, 12), (0.8, 0.0, 1)])
async def lines_in_order_from_responses_in_any(dut, pace):
    """admin.dma_line_rd.order"""
    source, sink, host = await start(dut, pace[0], pace[1], patience=pace[2], busy=pace[1])
    wanted = list(requests(rng_for("requests"), 150))
    source.post(*wanted)
    requested = []
    response = host.reads.on_beat
    host.reads.on_beat = lambda beat: (
        requested.append((beat["addr"], beat["len"])),
        response(beat),
    )
    for request in wanted:
        beat = (await sink.take())[0]
        assert beat["err"] == bool(request["addr"] & BROKEN)
        if not beat["err"]:
            assert low(beat, request["len"]) == host.bytes_at(request["addr"], request["len"]), (
                request
            )
    assert requested == [(request["addr"], request["len"]) for request in wanted]


@cocotb.test()
async def one_waits_at_each_end(dut):
    """admin.dma_line_rd.waits: one read request and one line are held at the ports; neither valid
    depends on its ready."""
    source, sink, host = await start(dut)
    free, busy = host.reads._pause, lambda: True
    for end in (host.reads, sink):
        end._pause = busy
    source.post({"addr": 0, "len": 64})
    await ClockCycles(dut.clk, 6)
    assert dut.m_rd_valid.value == 1 and dut.s_line_ready.value == 0
    host.reads._pause = free
    await until(dut, high(dut.m_line_valid))
    sink._pause = free
    assert low((await sink.take())[0], 64) == host.bytes_at(0, 64)


@cocotb.test()
async def as_many_as_slots(dut):
    """admin.dma_line_rd.depth"""
    promised = timing("efa_dma_line_rd", "req")
    source, sink, host = await start(dut, responses=False)
    source.post(*requests(rng_for("requests"), 40))
    await ClockCycles(dut.clk, 60)
    assert len(host.open) == promised.depth
    assert len({beat["slot"] for beat, _ in host.open}) == promised.depth
    assert dut.s_line_ready.value == 0
    host.responses = True
    assert len(await sink.take(40)) == 40
    assert host.most == promised.depth


@cocotb.test()
async def its_cycles(dut):
    """admin.dma_line_rd.time"""
    request, response = timing("efa_dma_line_rd", "req"), timing("efa_dma_line_rd", "rsp")
    source, sink, host = await start(dut, responses=False)
    source.post(*[{"addr": 0, "len": 64}] * 8)
    cycles = await span(dut, high(dut.s_line_valid, dut.s_line_ready), high(dut.m_rd_valid))
    assert cycles == request.latency
    for _ in range(7 // request.interval):
        assert dut.m_rd_valid.value == 1
        await RisingEdge(dut.clk)
    await ClockCycles(dut.clk, 4)
    for beat, _ in list(host.open):
        drive(
            dut,
            s_rd_cpl_valid=1,
            s_rd_cpl_slot=beat["slot"],
            s_rd_cpl_offset=0,
            s_rd_cpl_bytes=64,
            s_rd_cpl_last=1,
        )
        await RisingEdge(dut.clk)
        if beat is host.open[0][0]:
            cocotb.start_soon(measure(dut, response))
    dut.s_rd_cpl_valid.value = 0
    await ClockCycles(dut.clk, 8)
    assert sink.consumed == 8


async def measure(dut, response):
    assert dut.m_line_valid.value == 0
    assert await until(dut, high(dut.m_line_valid)) == response.latency
    for _ in range(7 // response.interval):
        assert dut.m_line_valid.value == 1
        await RisingEdge(dut.clk)


@cocotb.test()
async def reset_in_traffic(dut):
    """admin.dma_line_rd.reset"""
    source, sink, host = await start(dut, stalls=0.8, patience=4)
    source.post(*requests(rng_for("requests"), 60))
    await ClockCycles(dut.clk, 60)
    source.clear()
    host.responses = False
    dut.s_rd_cpl_valid.value = 0
    await reset(dut)
    host.open.clear()
    sink.beats.clear()
    await sink.none(10)
    host.responses = True
    source.post({"addr": 192, "len": 9})
    assert low((await sink.take())[0], 9) == host.bytes_at(192, 9)
    await sink.none(10)
