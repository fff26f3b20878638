# SPDX-License-Identifier: Apache-2.0
"""Tests efa_sq_ctrl: the effect and order of each admin operation on a send queue; drains."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from tb.lib.stream import StreamMonitor, clock_and_reset, cycle, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import high, hold, pulse, until, zero
from tb.unit.queue_bench import Pulses, Table

MAKE, CLEAR, FREE, ASK = range(4)


class Bench:
    """Models the connected modules as streams that may stall; `log` is the order of their
    requests."""

    def __init__(self, dut, stalls=0.0):
        self.dut, self.rng, self.log = dut, rng_for("sq_ctrl"), []
        self.consumed, self.completed = {}, {}
        self.stalls = stalls if callable(stalls) else lambda name: stalls

    async def start(self):
        dut = self.dut
        zero(dut, "s_op_valid", "s_drain_valid", "s_fence_done")
        Table(dut, "count_rd_addr", "consumed_rd_data", lambda n: self.consumed.get(n, 0))
        Table(dut, "count_rd_addr", "completed_rd_data", lambda n: self.completed.get(n, 0))
        await clock_and_reset(dut)
        for name in ("m_fetch", "m_llq", "m_cancel", "m_fence"):
            StreamMonitor(dut, name, self.stalls(name), on_beat=self.report(name))
        self.clears = Pulses(dut, "m_clear")

    def report(self, name):
        return lambda beat: self.log.append((name, beat) if beat else name)

    def reported(self, kind, first):
        """Checks that the log matches this operation, which began in cycle `first`."""
        log = [entry for entry in self.log if entry != "m_fence"]
        llq = "m_llq", {"own": int(kind == MAKE), "disown": int(kind == FREE)}
        assert log == ([] if kind == ASK else ["m_fetch", llq] + ["m_cancel"] * (kind != MAKE))
        # The clear has no handshake: once, in the cycle after the request.
        assert [at for (at,) in self.clears.seen] == [first + 1] * (kind != ASK)
        self.log[:] = [entry for entry in self.log if entry == "m_fence"]
        self.clears.seen.clear()

    async def op(self, kind, qpn=5):
        times = await hold(self.dut, "s_op_valid", "s_op_ready", s_op_kind=kind, s_op_qpn=qpn)
        busy = int(self.dut.m_op_busy.value) if kind == ASK else None
        self.reported(kind, times[0])
        return times, busy


async def drains(bench, count):
    """Runs drains in sequence; each completes after its fence has passed, not before."""
    dut = bench.dut
    for _ in range(count):
        task = cocotb.start_soon(hold(dut, "s_drain_valid", "s_drain_ready"))
        await until(dut, lambda: "m_fence" in bench.log, what="the fence")
        await ClockCycles(dut.clk, bench.rng.randrange(1, 20))
        assert not task.done()
        out = await pulse(dut, "s_fence_done")
        _, done = await task
        assert done - out == 1
        await ClockCycles(dut.clk, bench.rng.randrange(4))
        assert bench.log.count("m_fence") == 1
        bench.log.remove("m_fence")


@cocotb.test()
@cocotb.parametrize(stalls=[0.0, 0.7])
async def each_wish_reaches_its_parts_in_order(dut, stalls):
    """queue.sq_ctrl.wishes: Each operation reaches counts, ring and outstanding sends in order,
    while drains run."""
    bench = Bench(dut, stalls)
    await bench.start()
    draining = cocotb.start_soon(drains(bench, 60))
    requested = 0
    while not draining.done():
        kind, qpn = bench.rng.randrange(4), bench.rng.randrange(1 << len(dut.s_op_qpn))
        consumed = bench.rng.getrandbits(16)
        bench.consumed = {qpn: consumed}
        bench.completed = {
            qpn: bench.rng.choice((consumed, consumed ^ 1 << bench.rng.randrange(16)))
        }
        _, busy = await bench.op(kind, qpn)
        if kind == ASK:
            assert busy == (consumed != bench.completed[qpn])
            requested += 1
        await ClockCycles(dut.clk, bench.rng.randrange(3))
    await draining
    assert requested


@cocotb.test()
async def a_part_that_is_not_ready_holds_the_rest(dut):
    """queue.sq_ctrl.stalls: Each connected module that stalls blocks the later steps; every module
    gets one request."""
    shut = set()
    bench = Bench(dut, lambda name: lambda: name in shut)
    await bench.start()
    for part in ("m_fetch", "m_llq", "m_cancel"):
        shut.add(part)
        await RisingEdge(dut.clk)
        task = cocotb.start_soon(bench.op(FREE))
        await ClockCycles(dut.clk, 30)
        assert not task.done() and getattr(dut, part + "_valid").value == 1
        shut.clear()
        await task


@cocotb.test()
async def an_answer_comes_in_time(dut):
    """queue.sq_ctrl.cycles: Operations and drains meet their specified cycles."""
    bench = Bench(dut)
    await bench.start()
    await ClockCycles(dut.clk, 3)
    for path, kind in (("op", ASK), ("make", MAKE), ("clear", CLEAR), ("clear", FREE)):
        for _ in range(2):
            (first, done), _ = await bench.op(kind)
            assert done - first == timing("efa_sq_ctrl", path).latency, path
    first = cycle()
    task = cocotb.start_soon(hold(dut, "s_drain_valid", "s_drain_ready"))
    await until(dut, high(dut.m_fence_valid))
    assert cycle() - first == 1 + timing("efa_sq_ctrl", "fence").latency
    out = await pulse(dut, "s_fence_done")
    assert (await task)[1] - out == timing("efa_sq_ctrl", "drain").latency


@cocotb.test()
async def reset_clears_what_was_wished(dut):
    """queue.sq_ctrl.reset: A reset in each step of an operation and of a drain discards both."""
    bench = Bench(dut)
    await bench.start()
    for cycles in range(1, 7):
        for kind in (FREE, ASK):
            dut.s_op_valid.value, dut.s_op_kind.value, dut.s_op_qpn.value = 1, kind, 3
            dut.s_drain_valid.value = 1
            await ClockCycles(dut.clk, cycles)
            dut.s_op_valid.value = dut.s_drain_valid.value = 0
            dut.rst.value = 1
            await RisingEdge(dut.clk)
            await reset(dut, 1)
            bench.log.clear()
            bench.clears.seen.clear()
            for _ in range(10):
                assert dut.s_op_ready.value == 0 and dut.s_drain_ready.value == 0
                await RisingEdge(dut.clk)
            assert not bench.log and not bench.clears.seen
            await bench.op(MAKE)
            await drains(bench, 1)
