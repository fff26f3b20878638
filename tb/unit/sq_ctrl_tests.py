# SPDX-License-Identifier: Apache-2.0
"""Tests efa_sq_ctrl: the effect and order of each admin operation on a send queue; drains.

A second fence, behind the cancellation, ends an operation. The model of the pipeline
passes fences in order: `Fences`.
"""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from tb.lib.stream import StreamMonitor, clock_and_reset, cycle, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import high, hold, pulse, until, zero
from tb.unit.queue_bench import Pulses, Table

MAKE, CLEAR, FREE, ASK = range(4)


class Fences:
    """Models the pipeline: each fence passes some cycles after it has entered. `waits` returns
    these cycles; `entered` and `passed` are the cycles of the fences."""

    def __init__(self, dut, waits):
        self.dut, self.waits, self.entered, self.passed = dut, waits, [], []
        self._task = cocotb.start_soon(self._pass())

    def cancel(self):
        """Forgets all fences, in a reset."""
        self._task.cancel()
        self.dut.s_fence_done.value = 0
        self._task = cocotb.start_soon(self._pass())

    async def _pass(self):
        dut = self.dut
        while True:
            await until(dut, high(dut.m_fence_valid, dut.m_fence_ready), "a fence", 1 << 20)
            self.entered.append(cycle())
            await ClockCycles(dut.clk, self.waits())
            self.passed.append(await pulse(dut, "s_fence_done"))


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
        self.cancelled = Pulses(dut, "m_cancel", consumed=True)

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

    def fenced(self, fences, times, kind):
        """Checks that a fence has entered and passed between the cancellation and the end of a
        clear or free."""
        if kind in (MAKE, ASK):
            return
        (cancelled,) = self.cancelled.seen[-1]
        assert times[0] < cancelled < times[1]
        pairs = list(zip(fences.entered, fences.passed, strict=False))
        assert any(cancelled < entered and passed < times[1] for entered, passed in pairs), (
            f"cancelled in {cancelled}, ended in {times[1]}, fences {pairs[-3:]}")  # fmt: skip


async def drains(bench, fences, count):
    """Runs drains in sequence; each completes one cycle after a fence has passed that entered
    behind its request, not before."""
    dut = bench.dut
    for _ in range(count):
        first, done = await hold(dut, "s_drain_valid", "s_drain_ready")
        assert fences.passed[-1] == done - 1 and fences.entered[-1] >= first
        await ClockCycles(dut.clk, bench.rng.randrange(4))


@cocotb.test()
@cocotb.parametrize(stalls=[0.0, 0.7])
async def each_wish_reaches_its_parts_in_order(dut, stalls):
    """queue.sq_ctrl.wishes: Each operation reaches counts, ring and outstanding sends in order,
    while drains run."""
    bench = Bench(dut, stalls)
    await bench.start()
    fences = Fences(dut, lambda: bench.rng.randrange(1, 20))
    draining = cocotb.start_soon(drains(bench, fences, 60))
    requested = operations = 0
    while not draining.done():
        kind, qpn = bench.rng.randrange(4), bench.rng.randrange(1 << len(dut.s_op_qpn))
        consumed = bench.rng.getrandbits(16)
        bench.consumed = {qpn: consumed}
        bench.completed = {
            qpn: bench.rng.choice((consumed, consumed ^ 1 << bench.rng.randrange(16)))
        }
        times, busy = await bench.op(kind, qpn)
        bench.fenced(fences, times, kind)
        operations += kind in (CLEAR, FREE)
        if kind == ASK:
            assert busy == (consumed != bench.completed[qpn])
            requested += 1
        await ClockCycles(dut.clk, bench.rng.randrange(3))
    await draining
    assert requested
    await ClockCycles(dut.clk, 40)
    assert len(fences.entered) == len(fences.passed) == 60 + operations


@cocotb.test()
async def a_part_that_is_not_ready_holds_the_rest(dut):
    """queue.sq_ctrl.stalls: Each connected module that stalls blocks the later steps; every module
    gets one request."""
    shut = set()
    bench = Bench(dut, lambda name: lambda: name in shut)
    await bench.start()
    Fences(dut, lambda: 3)
    for part in ("m_fetch", "m_llq", "m_cancel", "m_fence"):
        shut.add(part)
        await RisingEdge(dut.clk)
        task = cocotb.start_soon(bench.op(FREE))
        await ClockCycles(dut.clk, 30)
        assert not task.done() and getattr(dut, part + "_valid").value == 1
        shut.clear()
        await task


@cocotb.test()
async def an_answer_comes_in_time(dut):
    """queue.sq_ctrl.cycles: Operations and drains meet their specified cycles. The
    fence of a clear is requested in the cycle after its cancellation, as for a drain."""
    bench = Bench(dut)
    await bench.start()
    await ClockCycles(dut.clk, 3)
    fences = Fences(dut, lambda: 1)
    fence, drain = (timing("efa_sq_ctrl", path).latency for path in ("fence", "drain"))
    for path, kind in (("op", ASK), ("make", MAKE), ("clear", CLEAR), ("clear", FREE)):
        for _ in range(2):
            (first, done), _ = await bench.op(kind)
            latency = timing("efa_sq_ctrl", path).latency
            if path == "clear":
                # The end is that of the request without a fence, then the fence.
                assert fences.entered[-1] - first == latency + fence
                assert done - fences.passed[-1] == 1 + drain
            else:
                assert done - first == latency, path
    first, done = await hold(dut, "s_drain_valid", "s_drain_ready")
    assert fences.entered[-1] - first == fence
    assert done - fences.passed[-1] == drain


@cocotb.test()
@cocotb.parametrize(part=["m_fetch", "m_llq", "m_cancel", "m_fence", "passing", ""])
async def a_drain_at_any_time_of_a_clear(dut, part):
    """queue.sq_ctrl.both: A drain that is requested in any cycle of a clear has a fence behind its
    request, and the clear has one behind its cancellation; neither ends with a fence
    of the other that entered too early."""
    shut = set()
    bench = Bench(dut, lambda name: lambda: name in shut)
    await bench.start()
    waits = {"passing": 40}.get(part, 6)
    fences = Fences(dut, lambda: waits)
    for offset in range(-12, 30):
        shut.add(part)
        await RisingEdge(dut.clk)
        # The part stalls for a while: what is requested meanwhile collides behind it.
        task = [cocotb.start_soon(drains(bench, fences, 1))] if offset < 0 else []
        await ClockCycles(dut.clk, max(-offset, 0))
        clearing = cocotb.start_soon(bench.op(bench.rng.choice((CLEAR, FREE))))
        await ClockCycles(dut.clk, max(offset, 0))
        task = task or [cocotb.start_soon(drains(bench, fences, 1))]
        await ClockCycles(dut.clk, 12)
        shut.clear()
        times, _ = await clearing
        bench.fenced(fences, times, CLEAR)
        await task[0]
        await ClockCycles(dut.clk, 50)
        bench.log.clear()
    assert len(fences.entered) == len(fences.passed) == 84


@cocotb.test()
async def reset_clears_what_was_wished(dut):
    """queue.sq_ctrl.reset: A reset in each step of an operation and of a drain discards both."""
    bench = Bench(dut)
    await bench.start()
    fences = Fences(dut, lambda: 2)
    for cycles in range(1, 16):
        for kind in (FREE, ASK):
            dut.s_op_valid.value, dut.s_op_kind.value, dut.s_op_qpn.value = 1, kind, 3
            dut.s_drain_valid.value = 1
            await ClockCycles(dut.clk, cycles)
            dut.s_op_valid.value = dut.s_drain_valid.value = 0
            dut.rst.value = 1
            await RisingEdge(dut.clk)
            fences.cancel()
            await reset(dut, 1)
            bench.log.clear()
            bench.clears.seen.clear()
            for _ in range(10):
                assert dut.s_op_ready.value == 0 and dut.s_drain_ready.value == 0
                await RisingEdge(dut.clk)
            assert not bench.log and not bench.clears.seen
            await bench.op(MAKE)
            await drains(bench, fences, 1)
            bench.log.clear()
