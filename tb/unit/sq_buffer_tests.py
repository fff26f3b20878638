# SPDX-License-Identifier: Apache-2.0
"""Tests efa_sq_buffer: fetched lines with their parity, ring clears, voids, LLQ stores."""

import cocotb
from cocotb.triggers import RisingEdge

from efa_cosim.layouts.defs import EVENTS, INTERNAL
from tb.lib.dont_care import dont_care
from tb.lib.stream import clock_and_reset, cycle, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, hold, pulse, zero
from tb.unit.queue_bench import Pulses

INPUTS = ("s_fill_valid", "s_fill_line", "s_fill_parity", "s_fill_data", "s_op_valid", "s_op_qpc",
          "line_rd_en", "line_rd_addr", "s_void_valid", "s_void_line", "s_void_parity",
          "s_llq_valid", "s_llq_line", "s_llq_dwen")  # fmt: skip
NO_OWNER = 1
STORE, RING = timing("efa_sq_buffer", "store"), timing("efa_sq_buffer", "ring")


async def start(dut):
    zero(dut, *INPUTS)
    await clock_and_reset(dut)


def context(line, log, wide):
    fields = {"sq_line": line, "sq_log": log, "wqe128": wide}
    return INTERNAL.qpc.pack(**(dont_care(INTERNAL.qpc, rng_for("lines")) | fields))


async def read(dut, line):
    """Reads a line and its parity; the request goes out in the next cycle."""
    dut.line_rd_en.value, dut.line_rd_addr.value = 1, line
    if dut.s_void_valid.value == 0:
        # Without valid the fields of a void are don't-care.
        dut.s_void_line.value, dut.s_void_parity.value = line, rng_for(str(line)).getrandbits(1)
    await RisingEdge(dut.clk)
    dut.line_rd_en.value, dut.line_rd_addr.value = 0, rng_for("idle").randrange(64)
    await RisingEdge(dut.clk)
    parity = int(dut.line_rd_parity.value)
    assert parity in (0, 0xFFFF)
    return dut.line_rd_data.value, parity & 1


async def fill(dut, line, parity, data):
    await pulse(dut, "s_fill_valid", s_fill_line=line, s_fill_parity=parity, s_fill_data=data)


@cocotb.test()
async def lines_are_those_of_their_wrap(dut):
    """queue.sq_buffer.wraps: The parity of each line shows its wrap, for filled, unfilled and
    voided lines over many wraps."""
    rng = rng_for("lines")
    await start(dut)
    rings = [(64, 3, 0), (128, 2, 1), (192, 0, 0), (1024, 4, 1)]
    for line, log, wide in rings:
        await hold(dut, "s_op_valid", "s_op_ready", s_op_qpc=context(line, log, wide))
    for wrap in range(6):
        for line, log, wide in rings:
            for index in range(1 << log + wide):
                place, here = line + index, wrap & 1
                assert (await read(dut, place))[1] == 1 - here, "not the previous parity"
                if rng.random() < 0.7:
                    data = rng.getrandbits(512)
                    await fill(dut, place, here, data)
                    assert await read(dut, place) == (data, here)
                else:
                    await hold(dut, "s_void_valid", "s_void_ready", s_void_line=place,
                               s_void_parity=here)  # fmt: skip
                    assert (await read(dut, place))[1] == here


@cocotb.test()
async def a_ring_is_cleared_and_no_other(dut):
    """queue.sq_buffer.ring: A ring of any size is cleared at one line per cycle without fills and
    voids; other lines keep their content."""
    rng = rng_for("rings")
    await start(dut)
    waited = []

    async def watch():
        while True:
            await RisingEdge(dut.clk)
            waited.append(int(dut.m_waits.value))

    cocotb.start_soon(watch())
    for total in range(12):
        size, wide = 1 << total, min(max(rng.getrandbits(1), total - 10), total)
        line, log = rng.randrange(1, 1 << 12), total - wide
        near = {line - 1, line + size, line, line + size - 1, line + size // 2}
        for place in near:
            await fill(dut, place, 0, rng.getrandbits(512))
        waited.clear()
        first, done = await hold(dut, "s_op_valid", "s_op_ready", s_op_qpc=context(line, log, wide))
        assert done - first == RING.latency + (size - 1) * RING.interval
        assert sum(waited) == RING.latency, "`waits` is high without a collision"
        for place in near:
            assert (await read(dut, place))[1] == int(line <= place < line + size), place


@cocotb.test()
async def fills_go_first_and_all_others_follow(dut):
    """queue.sq_buffer.waits: Fills never wait; ring clears and voids wait, report it in `waits`,
    and alternate."""
    rng = rng_for("waits")
    await start(dut)
    ring, voided, filled = 32, {}, {}
    dut.s_op_valid.value, dut.s_op_qpc.value = 1, context(640, 5, 0)
    left, busy, idle = ring, 0, 0
    void = None
    for _ in range(400):
        fills = rng.random() < 0.4
        dut.s_fill_valid.value = int(fills)
        if fills:
            place, parity, data = rng.randrange(64), rng.getrandbits(1), rng.getrandbits(512)
            filled[place] = parity, data
            dut.s_fill_line.value, dut.s_fill_parity.value = place, parity
            dut.s_fill_data.value = data
        if void is None:
            void = 128 + rng.randrange(64), rng.getrandbits(1)
        dut.s_void_valid.value = 1
        dut.s_void_line.value, dut.s_void_parity.value = void
        await RisingEdge(dut.clk)
        took = dut.s_void_ready.value == 1
        ended = dut.s_op_ready.value == 1
        assert not (fills and (took or ended))
        assert dut.m_waits.value == int(left > 0 or not took)
        if took:
            voided[void[0]] = void[1]
            void = None
            busy += 1
        elif not fills:
            # In the cycle after the end of the ring no client is granted.
            idle += left == 0
            left -= left > 0
        assert left == 0 or busy + left - ring in (0, 1), "clears and voids do not alternate"
        if ended:
            assert left == 0
            dut.s_op_valid.value = 0
        if left == 0 and busy > 3 * ring:
            break
    assert left == 0 and idle <= 1
    dut.s_void_valid.value = dut.s_fill_valid.value = 0
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)
    assert dut.m_waits.value == 0
    for place, (parity, data) in filled.items():
        assert await read(dut, place) == (data, parity)
    for place, parity in voided.items():
        assert (await read(dut, place))[1] == parity


@cocotb.test()
async def stores_change_nothing_and_are_reported(dut):
    """queue.sq_buffer.store: A store is reported as a store to a page without owner, in the
    specified time, and changes no line."""
    rng = rng_for("stores")
    await start(dut)
    reported = Pulses(dut, "ev_llq", "data")
    data = rng.getrandbits(512)
    await fill(dut, 77, 1, data)
    wanted = []
    for _ in range(60):
        line, dwen = rng.choice((77, rng.randrange(1 << 15))), rng.getrandbits(16)
        if rng.random() < 0.3:
            await RisingEdge(dut.clk)
        at = await pulse(dut, "s_llq_valid", s_llq_line=line, s_llq_dwen=dwen)
        event = EVENTS.llq.pack(status=NO_OWNER, line=line, dwords=dwen)
        wanted.append((at + STORE.latency, event))
    for _ in range(8):
        await RisingEdge(dut.clk)
    assert reported.seen == wanted
    assert await read(dut, 77) == (data, 1)


@cocotb.test()
async def a_fill_and_a_read_each_cycle(dut):
    """queue.sq_buffer.cycles: One fill and one read per cycle; a line is readable in the specified
    time after its fill."""
    filled, looked = timing("efa_sq_buffer", "fill"), timing("efa_sq_buffer", "read")
    assert filled.interval == looked.interval == 1
    rng = rng_for("cycles")
    await start(dut)
    lines = [(rng.getrandbits(512), rng.getrandbits(1)) for _ in range(24)]
    places = rng.sample(range(1 << len(dut.s_fill_line)), len(lines))
    lag = filled.latency + 1
    for at in range(len(lines) + lag + looked.latency):
        now = min(at, len(lines) - 1)
        data, parity = lines[now]
        drive(dut, s_fill_valid=at < len(lines), s_fill_line=places[now], s_fill_data=data,
              s_fill_parity=parity, line_rd_en=0 <= at - lag < len(lines),
              line_rd_addr=places[min(max(at - lag, 0), now)])  # fmt: skip
        await RisingEdge(dut.clk)
        shown = at - lag - looked.latency
        if shown >= 0:
            data, parity = lines[shown]
            assert int(dut.line_rd_data.value) == data
            assert int(dut.line_rd_parity.value) == 0xFFFF * parity


@cocotb.test()
async def reset_in_the_middle_of_a_ring(dut):
    """queue.sq_buffer.reset: A ring clear after a reset restarts at its first line; stores during a
    reset are not reported."""
    await start(dut)
    reported = Pulses(dut, "ev_llq", "data")
    dut.s_op_valid.value, dut.s_op_qpc.value = 1, context(64, 4, 0)
    for _ in range(6):
        await RisingEdge(dut.clk)
    dut.s_llq_valid.value = 1
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)
    zero(dut, *INPUTS)
    await reset(dut)
    for place in range(64, 80):
        await fill(dut, place, 0, place)
    first, done = await hold(dut, "s_op_valid", "s_op_ready", s_op_qpc=context(64, 4, 0))
    assert done - first == RING.latency + 15 * RING.interval
    for place in range(64, 80):
        assert (await read(dut, place))[1] == 1
    assert not reported.seen and cycle()
