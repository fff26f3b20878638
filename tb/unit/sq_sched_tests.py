# SPDX-License-Identifier: Apache-2.0
"""Tests efa_sq_sched: each WQE once and in order; failed queues, contexts, fences, cycles."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge, Timer

from efa_cosim.layouts.defs import INTERNAL, AdminQpState
from tb.lib.stream import PERIOD_NS, StreamMonitor, clock_and_reset, reset
from tb.lib.timing import timing
from tb.lib.waits import pulse, until, zero
from tb.unit.queue_bench import Pulses
from tb.unit.sq_sched_bench import (
    INPUTS,
    RTS,
    SHARED,
    SQD,
    Bench,
    ConsumedCounts,
    Queue,
    share_of_one,
)


@cocotb.test()
@cocotb.parametrize(stalls=[0.0, 0.6])
async def entries_are_taken_once_and_in_order(dut, stalls):
    """queue.sq_sched.order: WQEs of all kinds of queues are consumed once and in order, with
    incomplete WQEs, state changes, flushes and restarts."""
    bench = Bench(dut, stalls)
    await bench.start()
    rng = bench.rng
    queues = [Queue(0, 0, 0), Queue(1, 64, 0, wide=1, srd=0), Queue(5, 128, 2, srd=0),
              Queue(62, 192, 3, wide=1), Queue(63, 32640, 6)]  # fmt: skip
    for queue in queues:
        await bench.make(queue)
    for _ in range(1200):
        queue = rng.choice(queues)
        kind = rng.random()
        if kind < 0.6:
            for _ in range(min(bench.space(queue), rng.choice((1, 1, 2, 20)))):
                anomaly = rng.choice((1, 0x8000, 1 << 31, rng.getrandbits(32)))
                bench.write(queue, anomaly if rng.random() < (0.5 if queue.failed else 0.02) else 0)
            await bench.ring(queue)
            # Also a doorbell in the cycle after the first one.
            if rng.random() < 0.4 and bench.space(queue):
                bench.write(queue)
                await bench.ring(queue)
        elif kind < 0.7 and queue.state in (RTS, SQD):
            queue.state = rng.choice((RTS, SQD))
            await bench.again(queue)
        elif kind < 0.75 and queue.flushing and queue.consumed == queue.produced:
            # As the admin side does: no WQE of the queue is in flight when its counts are cleared.
            await bench.fence(0)
            queue.state = RTS
            await bench.make(queue)
        elif kind < 0.76 and not queue.failed:
            bench.fail(queue)
        elif bench.outstanding:
            await bench.free(rng.randrange(bench.outstanding + 1))
        else:
            await RisingEdge(dut.clk)
    for queue in queues:
        if queue.state == SQD:
            queue.state = RTS
            await bench.again(queue)
    await bench.finished()
    assert len(bench.order) > 300 and sum(queue.failed for queue in queues)


@cocotb.test()
async def every_queue_has_its_own_phase(dut):
    """queue.sq_sched.phase: Phase, halt and flush state of each queue are independent of other
    queues."""
    bench = Bench(dut)
    await bench.start()
    rng = bench.rng
    queues = [Queue(n, 32 * n, 3, wide=rng.getrandbits(1), srd=0)
              for n in range(1 << len(dut.s_work_qpn))]  # fmt: skip
    for _ in range(7):
        rng.shuffle(queues)
        for queue in queues:
            if queue.failed or not queue.images or rng.random() < 0.3:
                queue.state, queue.incomplete = RTS, None
                await bench.make(queue)
        for queue in rng.sample(queues, len(queues)):
            await bench.post(queue, rng.randrange(1, 4))
        for queue in rng.sample(queues, 20):
            if not queue.failed:
                bench.fail(queue)
            await bench.post(queue, rng.randrange(1, 4))
        await bench.finished()
        await until(dut, lambda: not bench.rounds, "flushes", 4000)
        await bench.fence(0)


@cocotb.test()
async def a_queue_does_not_depend_on_others(dut):
    """queue.sq_sched.others: Each queue is consumed while any other queue is halted and was just
    cleared.

    Two queue numbers differ in at least one bit, so each pair is separated in one of the rounds.
    """
    bench = Bench(dut)
    await bench.start()
    width = len(dut.s_work_qpn)
    queues = [Queue(n, 8 * n, 3, srd=0) for n in range(1 << width)]
    for queue in queues:
        await bench.make(queue)
    for bit in range(width):
        for value in range(2):
            chosen = [queue for queue in queues if queue.qpn >> bit & 1 == value]
            others = [queue for queue in queues if queue not in chosen]
            # These queues have consumed a WQE and hold its phase.
            for queue in chosen:
                await bench.post(queue, 1)
            await bench.finished()
            for queue in others:
                await bench.make(queue)
            bench.down = sum(1 << queue.qpn for queue in others)
            for queue in chosen:
                await bench.post(queue, 3)
            await bench.finished()
            bench.down = 0


@cocotb.test()
async def only_a_live_queue_in_rts_is_taken_from(dut):
    """queue.sq_sched.states: Only a live queue in RTS is consumed."""
    bench = Bench(dut)
    await bench.start()
    for state in AdminQpState:
        for live in (0, 1):
            queue = Queue(7, 256, 3)
            queue.state, queue.live = state, live
            await bench.make(queue)
            await bench.post(queue, 5)
            await ClockCycles(dut.clk, 20)
            consumes = state == RTS and live
            assert queue.consumed == (5 if consumes else 0), (state, live)
            queue.state, queue.live = RTS, 1
            await bench.again(queue)
            await bench.finished()


@cocotb.test()
async def a_queue_that_broke_is_not_taken_from(dut):
    """queue.sq_sched.down: A halted queue is not consumed, even while its context is still RTS."""
    bench = Bench(dut)
    await bench.start()
    queue = Queue(7, 256, 3)
    await bench.make(queue)
    bench.down = 1 << queue.qpn
    await bench.post(queue, 5)
    await ClockCycles(dut.clk, 40)
    assert queue.consumed == 0
    bench.down = 0
    await bench.again(queue)
    await bench.finished()
    assert queue.consumed == 5


@cocotb.test()
async def contexts_limit_srd_only(dut):
    """queue.sq_sched.contexts: SRD stops when its share of the contexts is in use and goes on with
    freed ones; UD and flushes need none."""
    bench = Bench(dut)
    await bench.start()
    most = timing("efa_sq_sched", "cut").depth
    srd = Queue(1, 0, 10)
    await bench.all_contexts([srd], flits=1)
    assert srd.open == share_of_one()
    await bench.all_contexts([Queue(2, 1024, 6), Queue(3, 2048, 7, wide=1)])
    other = Queue(4, 4096, 5, srd=0)
    await bench.make(other)
    await bench.post(other, 32)
    await until(dut, lambda: other.consumed == 32, "UD", 200)
    for count in (1, 2, 17):
        await bench.free(count)
        await bench.settled()
    bench.fail(srd)
    await until(dut, lambda: srd.consumed == srd.produced, "flush", 1000)
    # A visit takes as many as it may at most, with more free contexts than that.
    await bench.free(4 * most)
    lone = Queue(9, 6144, 7)
    await bench.make(lone)
    beats = Pulses(dut, "m_item", "data")
    await bench.post(lone, most + 9, flits=1)
    await bench.finished()
    cycles = [beat[0] for beat in beats.seen]
    steps = [b - a for a, b in zip(cycles, cycles[1:], strict=False)]
    assert [place for place, step in enumerate(steps, 1) if step > 1] == [most]


@cocotb.test()
async def each_queue_has_a_context(dut):
    """queue.sq_sched.few: While other queues fill the contexts, each queue sends: from the last
    shared contexts, and with none of them one WQE after the other."""
    bench = Bench(dut)
    await bench.start()
    await bench.all_contexts([Queue(n, 512 * n, 8, wide=n & 1) for n in range(4)])
    rests = []
    for qpn in range(10, 34):
        lone = Queue(qpn, 5120 + 64 * qpn, 5, wide=qpn & 1)
        await bench.make(lone)
        for count in (9, 8):
            while lone.consumed != lone.produced:
                await bench.settled(4)
                rests.append(SHARED - bench.outstanding)
                await bench.free(lone.open, lone)
            # The last sends stay open, so the next queue finds fewer contexts.
            await bench.post(lone, count, flits=1)
        await bench.settled(4)
    assert rests[0] > 8 and rests[-1] < -8, rests


@cocotb.test()
async def an_incomplete_entry_ends_its_visit(dut):
    """queue.sq_sched.incomplete: An incomplete WQE ends its visit, at any position, in SRD and UD
    queues, with one or two lines."""
    bench = Bench(dut)
    await bench.start()
    other = Queue(4, 512, 6, srd=0)
    await bench.make(other)
    for at in range(44):
        queue = Queue(3, 64, 6, wide=at & 1, srd=at >> 1 & 1)
        await bench.make(queue)
        # With a competitor the quanta end before the WQEs of the queue.
        if at % 3:
            await bench.post(other, 40, flits=1)
        for count in range(at + 20):
            bench.write(queue, 1 << at % 16 if count == at else 0)
        await bench.ring(queue)
        await bench.finished()
        assert queue.incomplete is not None
    # Contexts that a visit reserved and did not use were returned, once.
    await bench.all_contexts([Queue(10, 1024, 10)])


@cocotb.test()
async def a_clear_stalls_for_one_cycle(dut):
    """queue.sq_sched.clear: A clear beside WQEs of another queue stalls them for its cycle and is
    never delayed."""
    bench = Bench(dut)
    await bench.start()
    cleared, busy = (
        [Queue(n, 64 * n, 3, srd=0) for n in range(4)],
        Queue(20, 1024, 6, wide=1, srd=0),
    )
    for queue in [*cleared, busy]:
        await bench.make(queue)
    for queue in cleared:
        await bench.post(queue, 7)
    await bench.finished()
    beats = Pulses(dut, "m_item", "data")
    await bench.post(busy, 64)
    await ClockCycles(dut.clk, 12)
    for queue in cleared:
        await bench.make(queue)
    assert busy.consumed < 32
    await bench.finished()
    cycles = [beat[0] for beat in beats.seen]
    interval = timing("efa_sq_sched", "entry_128").interval
    assert cycles[-1] - cycles[0] == 63 * interval + len(cleared)
    for queue in cleared:
        await bench.post(queue, 8)
    await bench.finished()


@cocotb.test()
async def a_queue_comes_again_beside_visits_cut_short(dut):
    """queue.sq_sched.again: A queue that is scheduled again while visits of others are cut short
    is consumed."""
    bench = Bench(dut)
    await bench.start()
    pair = [Queue(40 + n, 256 * n, 6, srd=0) for n in range(2)]
    paused = Queue(7, 1024, 6, srd=0)
    for queue in (*pair, paused):
        await bench.make(queue)
    for _ in range(80):
        paused.state = SQD
        for queue in pair:
            # Each WQE uses up its quantum.
            if bench.space(queue) >= 8:
                await bench.post(queue, 8, flits=timing("efa_sq_sched", "visit").depth)
        await bench.post(paused, 1, flits=1)
        await ClockCycles(dut.clk, 8 + bench.rng.randrange(12))
        assert paused.consumed != paused.produced
        paused.state = RTS
        await bench.again(paused)
        await until(dut, lambda: paused.consumed == paused.produced, "the WQE", 400)
    await bench.finished()


@cocotb.test()
async def a_barrier_comes_behind_what_was_taken(dut):
    """queue.sq_sched.barrier: A fence follows the WQEs consumed before it; no WQE is consumed while
    the fence waits."""
    held = {"on": False}
    bench = Bench(dut)
    bench.stall = lambda: held["on"]
    await bench.start()
    queues = [Queue(n, 128 * n, 6, wide=n & 1) for n in range(3)]
    for queue in queues:
        await bench.make(queue)
        await bench.post(queue, 64)
    await until(dut, lambda: len(bench.order) == 20, "20 WQEs")
    held["on"] = True
    barrier = cocotb.start_soon(bench.fence(1))
    await ClockCycles(dut.clk, 40)
    assert not barrier.done() and len(bench.ev.seen) - len(bench.order) <= 2
    held["on"] = False
    await barrier
    assert 20 < len(bench.order) < 64 and len(bench.ev.seen) - len(bench.order) <= 1
    await bench.finished()
    await bench.fence(0)


@cocotb.test()
async def entries_leave_in_time(dut):
    """queue.sq_sched.cycles: WQEs meet their specified cycles, idle and at full load, with one
    queue and several, narrow and wide."""
    bench = Bench(dut)
    await bench.start()
    beats = Pulses(dut, "m_item", "data")
    for wide, path in ((0, "entry"), (1, "entry_128")):
        promised = timing("efa_sq_sched", path)
        queue = Queue(20 + wide, 1024 * wide, 6, wide)
        await bench.make(queue)
        for entries in (1, 60):
            beats.seen.clear()
            posted = await bench.post(queue, entries)
            await bench.finished()
            cycles = [beat[0] for beat in beats.seen]
            assert cycles[0] - posted == promised.latency, path
            steps = [b - a for a, b in zip(cycles, cycles[1:], strict=False)]
            assert steps == [promised.interval] * (entries - 1), path
        await bench.free(bench.outstanding)
    queue = Queue(30, 2048, 8, srd=0)
    await bench.make(queue)
    beats.seen.clear()
    await bench.post(queue, 130, flits=1)
    await bench.finished()
    cycles = [beat[0] for beat in beats.seen]
    steps = [b - a for a, b in zip(cycles, cycles[1:], strict=False)]
    most = timing("efa_sq_sched", "cut").depth
    again = [place for place, step in enumerate(steps, 1) if step > 1]
    assert again == [most, 2 * most] and steps[most - 1] == timing("efa_sq_sched", "visit").interval
    # Each WQE uses up its quantum: lines read behind it are read again in the next visit.
    pair = [Queue(40 + n, 2560 + 256 * n, 6, srd=0) for n in range(2)]
    for queue in pair:
        await bench.make(queue)
    beats.seen.clear()
    for queue in pair:
        await bench.post(queue, 20, flits=timing("efa_sq_sched", "visit").depth)
    await bench.finished()
    cycles = [beat[0] for beat in beats.seen]
    steps = [b - a for a, b in zip(cycles[8:], cycles[9:30], strict=False)]
    assert set(steps) == {timing("efa_sq_sched", "cut").interval}
    for entries in (1, 3, 16):
        queues = [Queue(n, 4096 + 128 * n, 6, srd=0) for n in range(6)]
        for queue in queues:
            await bench.make(queue)
        held = Queue(33, 8192, 6)
        await bench.make(held)
        beats.seen.clear()
        await bench.post(held, 16, flits=1)
        for queue in queues:
            await bench.post(queue, entries, flits=1)
        await bench.finished()
        cycles = [beat[0] for beat in beats.seen]
        interval = timing("efa_sq_sched", "entry").interval
        assert cycles[-1] - cycles[0] == (6 * entries + 15) * interval, entries
        await bench.free(bench.outstanding)


@cocotb.test()
@cocotb.parametrize((("wide", "near"), [(0, 0xFFF0), (1, 0x27F0)]))
async def the_count_goes_on_past_its_end(dut, wide, near):
    """queue.sq_sched.wrap: The WQE count wraps at 65,536 while slots continue; with wide WQEs a
    shorter range of counts is covered."""
    bench, queue = Bench(dut), Queue(12, 64, 10, wide, srd=0)
    # A flush consumes WQEs regardless of the content of their slots, so all inputs are constant.
    zero(dut, *INPUTS)
    dut.qpc_rd_data.value, dut.prod_rd_data.value = queue.image, near
    dut.m_void_ready.value, dut.m_item_ready.value, dut.line_rd_parity.value = 1, 1, 0
    dut.halted_rd_data.value = dut.flush_ok_rd_data.value = 1
    counts = ConsumedCounts(dut).ref
    await clock_and_reset(dut)
    await pulse(dut, "s_clear_valid", s_clear_qpn=12)
    await pulse(dut, "s_work_valid", s_work_qpn=12)
    await Timer(near * (1 + wide) * PERIOD_NS * 21 // 20, "ns")
    await RisingEdge(dut.clk)
    assert counts[12] == near
    bench.lines = {64 + line: (64 + line, 0) for line in range(queue.lines)}
    cocotb.start_soon(bench.memory())
    items = StreamMonitor(dut, "m_item", 0.3, ["data"])
    consumed = Pulses(dut, "m_consumed", "qpn", "count")
    dut.prod_rd_data.value = near + 64 & 0xFFFF
    await pulse(dut, "s_work_valid", s_work_qpn=12)
    for count in range(near, near + 64):
        item = INTERNAL.wqe_in.unpack((await items.take())[0]["data"])
        assert (item.msg, item.entry & 0xFFFF) == (count & 0xFFFF, 64 + (count % 1024 << wide))
    await items.none(20)
    assert consumed.values() == [(12, near + one & 0xFFFF) for one in range(1, 65)]


@cocotb.test()
async def reset_clears_queues_and_entries(dut):
    """queue.sq_sched.reset: A reset with WQEs in every stage, contexts in use and a void pending
    clears all of them."""
    bench = Bench(dut, 0.5)
    await bench.start()
    for cycles in range(2, 34, 5):
        for n in range(4):
            queue = Queue(n, 128 * n, 5, wide=n & 1)
            await bench.make(queue)
            for count in range(32):
                bench.write(queue, 1 if count > 20 else 0)
            await bench.ring(queue)
        await ClockCycles(dut.clk, cycles)
        dut.rst.value = 1
        await RisingEdge(dut.clk)
        bench.queues.clear()
        bench.rounds.clear()
        await reset(dut, 1)
        bench.order.clear()
        bench.outstanding = bench.down = bench.flush_ok = 0
        await ClockCycles(dut.clk, 12)
        assert not bench.order
        bench.consumed.clear()
        bench.ev.seen.clear()
    await bench.all_contexts([Queue(3, 4096, 10), Queue(1, 8192, 3)])
