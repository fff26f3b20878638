# SPDX-License-Identifier: Apache-2.0
"""Tests efa_rq_report: a failed ring is reported once per cause while the report is pending."""

import itertools

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import QpError
from tb.lib.stream import StreamMonitor, clock_and_reset, cycle, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import high, pulse, until, zero

WRONG, FAILED = "s_wrong", "s_failed"
CAUSES = {WRONG: QpError.RQ_DOORBELL, FAILED: QpError.DESC_READ}
REPORT = timing("efa_rq_report", "report")


class Bench:
    def __init__(self, dut, stalls=0.0):
        self.dut, self.count = dut, 1 << len(dut.s_wrong_qpn)
        self.waiting = {cause: [] for cause in CAUSES.values()}
        self.reported, self.times = [], []
        zero(dut, "s_wrong_valid", "s_failed_valid")
        self.out = StreamMonitor(dut, "m_err", stalls, on_beat=self._beat)

    async def start(self):
        await clock_and_reset(self.dut)
        await until(self.dut, high(self.dut.m_init_done))
        cocotb.start_soon(self._inputs())

    def _beat(self, beat):
        """Checks that the report is the oldest of its cause."""
        line = self.waiting[beat["cause"]]
        assert line and line.pop(0) == beat["qpn"]
        self.reported.append((beat["cause"], beat["qpn"]))
        self.times.append(cycle())

    async def _inputs(self):
        while True:
            await RisingEdge(self.dut.clk)
            if self.dut.rst.value == 1:
                continue
            # A report that leaves at this edge may be inserted again at this edge.
            leaves = None
            if self.dut.m_err_valid.value == 1 and self.dut.m_err_ready.value == 1:
                leaves = int(self.dut.m_err_cause.value), int(self.dut.m_err_qpn.value)
            for name, cause in CAUSES.items():
                if getattr(self.dut, name + "_valid").value == 1:
                    qpn, line = int(getattr(self.dut, name + "_qpn").value), self.waiting[cause]
                    inside = line.count(qpn)
                    if leaves == (cause, qpn) and line and line[0] == qpn:
                        inside -= 1
                    if not inside:
                        line.append(qpn)

    async def empty(self, cycles=None):
        await ClockCycles(self.dut.clk, cycles or 10 * self.count)
        assert not any(self.waiting.values())
        assert self.dut.m_err_valid.value == 0


@cocotb.test()
@cocotb.parametrize(stalls=[0.0, 0.7])
async def each_is_reported_once_in_its_order(dut, stalls):
    """queue.rq_report.order: Random errors of both causes, on few and many rings, are reported once
    and in order."""
    bench = Bench(dut, stalls)
    await bench.start()
    rng = rng_for("rq_err")
    for step in range(1200):
        some = 4 if step < 600 else bench.count
        for name in CAUSES:
            getattr(dut, name + "_valid").value = int(rng.random() < 0.4)
            getattr(dut, name + "_qpn").value = rng.randrange(some)
        await RisingEdge(dut.clk)
    zero(dut, "s_wrong_valid", "s_failed_valid")
    await bench.empty()
    assert (
        min(sum(reported[0] == cause for reported in bench.reported) for cause in CAUSES.values())
        > 100
    )


@cocotb.test()
async def every_ring_may_wait_for_both_reasons(dut):
    """queue.rq_report.full: Every ring can be pending for both causes; the causes alternate."""
    held = {"on": True}
    bench = Bench(dut, lambda: held["on"])
    await bench.start()
    for _ in range(2):
        for qpn in range(bench.count):
            dut.s_wrong_valid.value = dut.s_failed_valid.value = 1
            dut.s_wrong_qpn.value, dut.s_failed_qpn.value = qpn, bench.count - 1 - qpn
            await RisingEdge(dut.clk)
    zero(dut, "s_wrong_valid", "s_failed_valid")
    held["on"] = False
    await bench.empty()
    assert len(bench.reported) == 2 * bench.count
    causes = [cause for cause, _ in bench.reported]
    assert all(one != other for one, other in itertools.pairwise(causes))


@cocotb.test()
async def reports_take_their_time(dut):
    """queue.rq_report.cycles: A report meets its specified cycles."""
    bench = Bench(dut)
    await bench.start()
    for name in CAUSES:
        bench.times.clear()
        put = await pulse(dut, name + "_valid", **{name + "_qpn": 5})
        await bench.empty(10)
        assert bench.times == [put + REPORT.latency]
    bench.times.clear()
    for qpn in range(20):
        dut.s_wrong_valid.value, dut.s_wrong_qpn.value = 1, qpn
        await RisingEdge(dut.clk)
    dut.s_wrong_valid.value = 0
    await bench.empty(30)
    first = bench.times[0]
    assert bench.times == [first + n * REPORT.interval for n in range(20)]


@cocotb.test()
async def reset_empties_it(dut):
    """queue.rq_report.reset: A reset discards pending reports; a ring that fails again is reported
    again."""
    held = {"on": True}
    bench = Bench(dut, lambda: held["on"])
    await bench.start()
    for _ in range(2):
        held["on"] = True
        for qpn in range(8):
            await pulse(dut, "s_wrong_valid", s_wrong_qpn=qpn)
            await pulse(dut, "s_failed_valid", s_failed_qpn=qpn)
        await reset(dut)
        for line in (*bench.waiting.values(), bench.reported):
            line.clear()
        assert dut.m_err_valid.value == 0 and dut.m_init_done.value == 0
        await until(dut, high(dut.m_init_done))
        await pulse(dut, "s_failed_valid", s_failed_qpn=3)
        held["on"] = False
        await bench.empty(10)
        assert bench.reported == [(CAUSES[FAILED], 3)]
