# SPDX-License-Identifier: Apache-2.0
"""Tests efa_mr_translate: pieces cover a range once, in order, each inside one block and one
page."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import INTERNAL, PROFILES
from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import high, span
from tb.unit.data_bench import TOP, Moments

POOL = 1 << PROFILES.default.mr_pages_w


class Source(StreamDriver):
    """Drives ranges {phys, shift, mtt, start, len, user}; a missing field is 0."""

    def __init__(self, dut, gaps):
        super().__init__(dut, "s", gaps, ["loc", "len", "user"])

    def post(self, *ranges):
        for one in ranges:
            loc = {name: one.get(name, 0) for name in ("phys", "shift", "mtt", "start")}
            super().post({"loc": INTERNAL.mr_loc.pack(**loc), "len": one["len"],
                          "user": one.get("user", 0)})  # fmt: skip


async def start(dut, max_log, stalls=0.0, gaps=0.0):
    dut.s_mtt_valid.value = 0
    dut.s_cfg_max_log.value = max_log
    source = Source(dut, gaps)
    sink = StreamMonitor(dut, "m", stalls)
    await clock_and_reset(dut)
    return source, sink


async def page(dut, index, address):
    dut.s_mtt_valid.value, dut.s_mtt_index.value, dut.s_mtt_data.value = 1, index, address >> 12
    await RisingEdge(dut.clk)
    dut.s_mtt_valid.value = 0


def host(pages, request, at):
    """Returns the host address of byte `at` of the range."""
    if request["phys"]:
        return request["start"] + at
    inside = (1 << request["shift"]) - 1
    # Only the page address bits above the page size count.
    return pages[index(request, at)] & ~inside | (request["start"] + at) & inside


def index(request, at):
    """Returns the MTT index of the page of byte `at`."""
    return (request["mtt"] + (request["start"] + at >> request["shift"])) % POOL


def some_range(rng, size):
    """Returns a random range, often across page ends, of a paged or a physical region."""
    shift = rng.choice((12, 12, 13, 21, 30, rng.randrange(12, 52)))
    near = rng.getrandbits(rng.randrange(shift, 63)) >> shift << shift
    phys = int(rng.random() < 0.3)
    start = rng.getrandbits(64) % (TOP - size) if phys else max(0, near - rng.randrange(size + 2))
    return {"phys": phys, "shift": shift, "mtt": rng.getrandbits(16), "start": start, "len": size,
            "user": rng.getrandbits(1)}  # fmt: skip


@cocotb.test()
@cocotb.parametrize(max_log=[7, 9, 12])
async def pieces_cover_the_range(dut, max_log):
    """data.mr_translate.cover"""
    rng = rng_for(f"mr_translate{max_log}")
    source, sink = await start(dut, max_log, stalls=0.3, gaps=0.3)
    pages, requests = {}, []
    for _ in range(200):
        size = rng.choice((1, 2, 64, 4096, 8928, rng.randrange(1, 9000)))
        request = some_range(rng, size)
        # An MTT index used by another range is not used again.
        places = (
            {}
            if request["phys"]
            else {index(request, at) for at in (*range(0, size, 4096), size - 1)}
        )
        if any(place in pages for place in places):
            continue
        for place in places:
            pages[place] = rng.getrandbits(52) << 12
            await page(dut, place, pages[place])
        requests.append(request)
    dut.s_mtt_data.value = rng.getrandbits(52)
    source.post(*requests)
    for request in requests:
        await covered(sink, request, pages, max_log)
    await sink.none(20)


async def covered(sink, request, pages, max_log):
    """Checks the pieces of a range: address, minimum number of pieces, `done` on the last piece."""
    at = 0
    while at < request["len"]:
        piece = (await sink.take(1))[0]
        assert piece["first_byte"] == at and piece["user"] == request["user"]
        assert piece["addr"] == host(pages, request, at)
        last = piece["addr"] + piece["len"] - 1
        assert piece["len"] and last >> max_log == piece["addr"] >> max_log
        at += piece["len"]
        assert piece["done"] == int(at == request["len"])
        assert piece["done"] or (last + 1) % (1 << max_log) == 0, "the piece is too short"
    assert at == request["len"]


@cocotb.test()
async def ranges_of_every_magnitude(dut):
    """data.mr_translate.magnitude: ranges that exceed a block end by each power of two are
    covered, in blocks of every size"""
    rng = rng_for("magnitude")
    source, sink = await start(dut, 12)
    for max_log in range(7, 13):
        dut.s_cfg_max_log.value = max_log
        block, requests = 1 << max_log, []
        for bits in range(max_log):
            # The remaining length exceeds the end of the first or of the next block by a power of
            # two.
            step = rng.randrange(1, block) & ~(1 << bits) or block
            begin = rng.getrandbits(50) * block
            requests += [{"phys": 1, "user": bits & 1, "start": begin + low,
                      "len": size + (1 << bits)}
                     for low, size in ((block - step, step), (block - step, step + block),
                                       (0, block))]  # fmt: skip
        if block == 4096:
            requests.append({"phys": 1, "start": block - 1, "len": 0xFFFF, "user": 1})
        source.post(*requests)
        for request in requests:
            await covered(sink, request, {}, max_log)
        await sink.none(5)


@cocotb.test()
async def ranges_over_every_carry(dut):
    """data.mr_translate.carry: ranges across multiples of every power of two are covered, in
    physical and paged regions"""
    rng = rng_for("carry")
    source, sink = await start(dut, 12)
    pages, requests = {}, []
    for place in range(POOL):
        pages[place] = rng.getrandbits(52) << 12
        await page(dut, place, pages[place])
    for bits in range(12, 64):
        end = rng.getrandbits(64 - bits) | 1
        size = rng.randrange(2, 9000)
        start_at = max(0, (end << bits) - rng.randrange(1, size))
        request = {"phys": 1, "shift": rng.randrange(12, 52), "mtt": rng.getrandbits(16),
               "start": start_at, "len": size, "user": bits & 1}  # fmt: skip
        requests += [request, request | {"phys": 0}]
    requests = [request for request in requests if request["start"] + request["len"] <= TOP]
    source.post(*requests)
    for request in requests:
        await covered(sink, request, pages, 12)
    await sink.none(5)


@cocotb.test()
async def pages_of_every_size(dut):
    """data.mr_translate.pages: ranges in pages of each size take the high bits of the page and the
    low bits of the offset, near and far from the begin of the range"""
    rng = rng_for("pages")
    source, sink = await start(dut, 12)
    pages, requests = {}, []
    for place in range(POOL):
        pages[place] = rng.getrandbits(52) << 12
        await page(dut, place, pages[place])
    for shift in range(12, 64):
        # The third length has every bit, so that each bit of a position changes.
        for size in (rng.randrange(1, 9000), 0x8000 + rng.randrange(0x8000), 0xFFFF):
            begin = rng.getrandbits(64) % (TOP - size)
            requests.append({"phys": 0, "shift": shift, "mtt": rng.getrandbits(16),
                             "start": begin, "len": size, "user": shift & 1})  # fmt: skip
    source.post(*requests)
    for request in requests:
        await covered(sink, request, pages, 12)
    await sink.none(5)


@cocotb.test()
async def cycles(dut):
    """data.mr_translate.time: ranges of one piece and of nine pieces, back to back, take the
    specified cycles"""
    source, sink = await start(dut, 9)
    moments = Moments(dut, "s", "m")
    source.post(*[{"phys": 1, "start": 100, "len": 1} for _ in range(50)],
                *[{"phys": 1, "start": 100, "len": 4096} for _ in range(10)])  # fmt: skip
    await sink.take(50 + 10 * 9)
    early = int(dut.EARLY.value)
    moments.hold("efa_mr_translate", "early" if early else "piece", "s", "m")


@cocotb.test()
async def a_piece_does_not_wait_to_be_taken(dut):
    """data.mr_translate.valid: a piece is valid without ready, at the specified latency"""
    held = {"on": True}
    source, sink = await start(dut, 9, lambda: held["on"])
    source.post({"phys": 1, "start": 100, "len": 1})
    path = timing("efa_mr_translate", "early" if int(dut.EARLY.value) else "piece")
    assert await span(dut, high(dut.s_valid, dut.s_ready), high(dut.m_valid)) == path.latency
    held["on"] = False
    await sink.take(1)


@cocotb.test()
async def reset_in_mid_range(dut):
    """data.mr_translate.reset"""
    source, sink = await start(dut, 7, stalls=0.5)
    source.post(*[{"phys": 1, "start": 0, "len": 8192} for _ in range(4)])
    await ClockCycles(dut.clk, 30)
    source.clear()
    await reset(dut)
    sink.beats.clear()
    await sink.none(5)
    source.post({"phys": 1, "start": 64, "len": 65})
    first, second = await sink.take(2)
    assert (first["addr"], first["len"], first["done"]) == (64, 64, 0)
    assert (second["addr"], second["len"], second["done"]) == (128, 1, 1)
    await sink.none(20)
