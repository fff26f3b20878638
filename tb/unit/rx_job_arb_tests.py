# SPDX-License-Identifier: Apache-2.0
"""Tests efa_rx_job_arb: merges packet jobs and flush jobs; builds the FLUSHED completion."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge, Timer

from efa_cosim.layouts.defs import INTERNAL, IoCompStatus, IoSendOpType
from tb.lib.dont_care import dont_care
from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import zero
from tb.unit.data_bench import Moments

FLUSH = ["qpn", "qpc", "req_id", "count"]


async def start(dut, gaps=0.0, stalls=0.0):
    packets = StreamDriver(dut, "s_job", gaps, ["data", "check"])
    flushes = StreamDriver(dut, "s_flush", gaps, FLUSH)
    sink = StreamMonitor(dut, "m_job", stalls, ["data", "check"])
    await clock_and_reset(dut)
    return packets, flushes, sink


def packet(rng):
    image = INTERNAL.rx_job.pack(**dont_care(INTERNAL.rx_job, rng, packet=1))
    return {"data": image, "check": rng.getrandbits(INTERNAL.rx_check.width)}


def flush(rng, dut):
    return {"qpn": rng.getrandbits(int(dut.QPN_W.value)), "qpc": rng.getrandbits(187),
            "req_id": rng.getrandbits(16), "count": rng.randrange(1, 3)}  # fmt: skip


def flushed(request):
    """Returns the job of a flushed receive WQE: a FLUSHED completion and nothing else."""
    qpc = INTERNAL.qpc.unpack(request["qpc"])
    cpl = INTERNAL.cpl.pack(
        rx=1, qpn=request["qpn"], qp_num=qpc.qp_num, cqn=qpc.rcqn, sub=qpc.rsub,
        req_id=request["req_id"], status=IoCompStatus.FLUSHED, op_type=IoSendOpType.SEND,
    )  # fmt: skip
    return INTERNAL.rx_job.pack(complete=1, count=request["count"], cpl=cpl)


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0), (0.4, 0.0), (0.0, 0.6), (0.4, 0.4)])
async def both_arrive_whole_and_in_order(dut, pace):
    """data.rx_job_arb.order: Jobs of both inputs leave complete and in order."""
    packets, flushes, sink = await start(dut, *pace)
    rng = rng_for("jobs")
    sent = [packet(rng) for _ in range(60)]
    ended = [flush(rng, dut) for _ in range(60)]
    packets.post(*sent)
    flushes.post(*ended)
    got = await sink.take(120)
    assert [beat for beat in got if INTERNAL.rx_job.unpack(beat["data"]).packet] == sent
    others = [beat for beat in got if not INTERNAL.rx_job.unpack(beat["data"]).packet]
    assert [beat["data"] for beat in others] == [flushed(request) for request in ended]
    assert not any(beat["check"] for beat in others)


@cocotb.test()
async def they_take_turns(dut):
    """data.rx_job_arb.quanta: Both inputs alternate; one input alone reaches one job per cycle."""
    packets, flushes, sink = await start(dut)
    rng = rng_for("turns")
    moments = Moments(dut, "s_job", "s_flush", "m_job")
    packets.post(*[packet(rng) for _ in range(30)])
    flushes.post(*[flush(rng, dut) for _ in range(20)])
    kinds = [INTERNAL.rx_job.unpack(beat["data"]).packet for beat in await sink.take(50)]
    assert kinds[:40] in ([0, 1] * 20, [1, 0] * 20)
    assert moments.intervals("m_job") == {timing("efa_rx_job_arb", "job").interval}


@cocotb.test()
async def same_cycle(dut):
    """data.rx_job_arb.time: A job passes in the same cycle."""
    zero(dut, "s_job_valid", "s_job_data", "s_job_check", "s_flush_valid", "s_flush_qpn",
         "s_flush_qpc", "s_flush_req_id", "s_flush_count", "m_job_ready")  # fmt: skip
    await clock_and_reset(dut)
    assert timing("efa_rx_job_arb", "job").latency == 0
    for valid in (dut.s_job_valid, dut.s_flush_valid):
        await RisingEdge(dut.clk)
        await Timer(1, "ns")
        assert dut.m_job_valid.value == 0
        valid.value = 1
        await Timer(100, "ps")
        assert dut.m_job_valid.value == 1
        dut.m_job_ready.value = 1
        await RisingEdge(dut.clk)
        valid.value = 0
        dut.m_job_ready.value = 0


@cocotb.test()
async def reset_in_the_middle_of_traffic(dut):
    """data.rx_job_arb.reset: A reset clears a held grant."""
    held = {"on": True}
    packets, flushes, sink = await start(dut, 0.0, lambda: held["on"])
    rng = rng_for("reset")
    flushes.post(flush(rng, dut))
    await ClockCycles(dut.clk, 5)
    flushes.clear()
    await reset(dut)
    sink.beats.clear()
    await sink.none(3)
    assert dut.m_job_valid.value == 0
    held["on"] = False
    job = packet(rng)
    packets.post(job)
    assert await sink.take(1) == [job]
