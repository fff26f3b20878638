# SPDX-License-Identifier: Apache-2.0
"""Tests efa_qperr_arb: reports of all sources leave once, unchanged, round robin."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge, Timer

from tb.lib.bundles import Bundles
from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import zero
from tb.unit.data_bench import Moments

PORTS = ("s_err_valid", "s_err_qpn", "s_err_cause", "m_err_ready")


async def start(dut, gaps=0.0, stalls=0.0):
    """Returns a driver for each source, and the sink."""
    zero(dut, *PORTS)
    names = [str(lane) for lane in range(int(dut.N.value))]
    pins = Bundles(dut).lanes("s_err", names, qpn=int(dut.QPN_W.value), cause=4)
    sources = [StreamDriver(pins, f"s_err_{name}", gaps, ["qpn", "cause"]) for name in names]
    sink = StreamMonitor(dut, "m_err", stalls, ["qpn", "cause"])
    await clock_and_reset(dut)
    return sources, sink


def reports(rng, sources, count, dut):
    """Returns `count` reports for each source, all of them different."""
    codes = rng.sample(range(16 << int(dut.QPN_W.value)), sources * count)
    beats = [{"qpn": code >> 4, "cause": code & 15} for code in codes]
    return [beats[at::sources] for at in range(sources)]


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0), (0.4, 0.0), (0.0, 0.6), (0.4, 0.4)])
async def each_report_leaves_once(dut, pace):
    """queue.qperr_arb.order: Reports leave once and unchanged, those of a source in order."""
    sources, sink = await start(dut, *pace)
    rng = rng_for("reports")
    sent = reports(rng, len(sources), 40, dut)
    for source, beats in zip(sources, sent, strict=True):
        source.post(*beats)
    found = await sink.take(40 * len(sources))
    for beats in sent:
        assert [beat for beat in found if beat in beats] == beats


@cocotb.test()
async def sources_take_turns(dut):
    """queue.qperr_arb.turns: Sources alternate, one report per cycle."""
    sources, sink = await start(dut)
    rng, count = rng_for("turns"), len(sources)
    moments = Moments(dut, "m_err")
    sent = reports(rng, count, 20, dut)
    for source, beats in zip(sources, sent, strict=True):
        source.post(*beats)
    order = [next(number for number, beats in enumerate(sent) if beat in beats)
             for beat in await sink.take(20 * count)]  # fmt: skip
    turns = order[count : 10 * count]
    assert all(len(set(turns[at : at + count])) == count for at in range(len(turns) - count))
    assert moments.intervals("m_err") == {timing("efa_qperr_arb", "report").interval}


@cocotb.test()
async def same_cycle(dut):
    """queue.qperr_arb.time: A report passes in the same cycle."""
    zero(dut, *PORTS)
    await clock_and_reset(dut)
    assert timing("efa_qperr_arb", "report").latency == 0
    for lane in range(int(dut.N.value)):
        await RisingEdge(dut.clk)
        await Timer(1, "ns")
        assert dut.m_err_valid.value == 0 and dut.s_err_ready.value == 0
        dut.s_err_valid.value = 1 << lane
        dut.m_err_ready.value = 1
        await Timer(100, "ps")
        assert dut.m_err_valid.value == 1 and dut.s_err_ready.value == 1 << lane
        await RisingEdge(dut.clk)
        dut.s_err_valid.value = dut.m_err_ready.value = 0


@cocotb.test()
async def reset_clears_a_held_grant(dut):
    """queue.qperr_arb.reset: A reset clears a held grant."""
    held = {"on": True}
    sources, sink = await start(dut, 0.0, lambda: held["on"])
    sent, last = reports(rng_for("reset"), len(sources), 1, dut), len(sources) - 1
    sources[last].post(*sent[last])
    await ClockCycles(dut.clk, 5)
    sources[last].clear()
    await reset(dut)
    await sink.none(3)
    held["on"] = False
    sources[0].post(*sent[0])
    assert await sink.take(1) == sent[0]
