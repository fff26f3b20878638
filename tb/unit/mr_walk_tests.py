"""efa_mr_walk: pieces that cover a range once, in order, each inside one block and one page."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.unit.data_bench import Moments

FIELDS = ["phys", "shift", "mtt", "offset", "addr", "len", "user"]


async def start(dut, max_log, stalls=0.0, gaps=0.0):
    dut.mtt_valid.value = 0
    dut.max_log.value = max_log
    source = StreamDriver(dut, "s", gaps, FIELDS)
    sink = StreamMonitor(dut, "m", stalls)
    await clock_and_reset(dut)
    return source, sink


async def page(dut, index, address):
    dut.mtt_valid.value, dut.mtt_index.value, dut.mtt_data.value = 1, index, address >> 12
    await RisingEdge(dut.clk)
    dut.mtt_valid.value = 0


def host(pages, ask, at):
    """Host address of byte `at` of the range."""
    if ask["phys"]:
        return ask["addr"] + at
    where = ask["offset"] + at
    return pages[ask["mtt"] + (where >> ask["shift"])] + (where & (1 << ask["shift"]) - 1)


@cocotb.test()
@cocotb.parametrize(max_log=[7, 9, 12])
async def pieces_cover_the_range(dut, max_log):
    """data.mr_walk.cover"""
    rng = rng_for(f"mr_walk{max_log}")
    source, sink = await start(dut, max_log, stalls=0.3, gaps=0.3)
    shift, first = rng.choice((12, 14, 30)), rng.randrange(1000)
    pages = {}
    for index in range(first, first + 10):
        pages[index] = rng.getrandbits(51 - shift) << shift
        await page(dut, index, pages[index])
    asks = []
    for number in range(200):
        size = rng.choice((1, 2, 64, 4096, 8928, rng.randrange(1, 9000)))
        near = rng.randrange(1, 7) << shift
        offset = max(0, near - rng.randrange(size + 2))
        asks.append({"phys": int(rng.random() < 0.3), "shift": shift, "mtt": first,
                     "offset": offset, "addr": rng.getrandbits(52), "len": size,
                     "user": number & 1})  # fmt: skip
    source.post(*asks)
    for ask in asks:
        at = 0
        while at < ask["len"]:
            piece = (await sink.take(1))[0]
            assert piece["first_byte"] == at and piece["user"] == ask["user"]
            assert piece["addr"] == host(pages, ask, at)
            last = piece["addr"] + piece["len"] - 1
            assert piece["len"] and last >> max_log == piece["addr"] >> max_log
            at += piece["len"]
            assert piece["done"] == int(at == ask["len"])
            assert piece["done"] or (last + 1) % (1 << max_log) == 0, "a piece too short"
        assert at == ask["len"]
    await sink.none(20)


@cocotb.test()
async def cycles(dut):
    """data.mr_walk.time: ranges of one piece and of nine, back to back"""
    source, sink = await start(dut, 9)
    moments = Moments(dut, "s", "m")
    source.post(*[{"phys": 1, "addr": 100, "len": 1} for _ in range(50)],
                *[{"phys": 1, "addr": 100, "len": 4096} for _ in range(10)])  # fmt: skip
    await sink.take(50 + 10 * 9)
    early = int(dut.EARLY.value)
    moments.hold("efa_mr_walk", "early" if early else "piece", "s", "m")


@cocotb.test()
async def reset_in_mid_range(dut):
    """data.mr_walk.reset"""
    source, sink = await start(dut, 7, stalls=0.5)
    source.post(*[{"phys": 1, "addr": 0, "len": 8192} for _ in range(4)])
    await ClockCycles(dut.clk, 30)
    await reset(dut)
    source.clear()
    await ClockCycles(dut.clk, 2)
    sink.beats.clear()
    source.post({"phys": 1, "addr": 64, "len": 65})
    first, second = await sink.take(2)
    assert (first["addr"], first["len"], first["done"]) == (64, 64, 0)
    assert (second["addr"], second["len"], second["done"]) == (128, 1, 1)
    await sink.none(20)
