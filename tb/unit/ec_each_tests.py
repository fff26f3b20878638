# SPDX-License-Identifier: Apache-2.0
"""Tests efa_ec: independent counters of every QP; orders and completions at full load."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import EVENTS
from tb.lib.stream import reset
from tb.lib.waits import drive
from tb.unit.ec_tests import (
    ADD,
    ATTACH,
    BUSY,
    COUNTERS,
    CREATE,
    DESTROY,
    DETACH,
    FORGET,
    OK,
    Bench,
    Counters,
)
from tb.unit.queue_bench import Pulses


@cocotb.test()
async def every_queue_pair_has_counters_of_its_own(dut):
    """queue.ec.each: counters are attached to every QP, detached and cleared independently; a
    reset clears all"""
    bench = Bench(dut, stalls=0.3)
    rng, qps = bench.rng, range(bench.qps)
    await bench.start()
    numbers = rng.sample(range(COUNTERS), min(COUNTERS, 40))
    for number in numbers:
        await bench.order(CREATE, number, value=8 * rng.getrandbits(61))
    order = rng.sample(qps, bench.qps)
    for qpn in order:
        for events in rng.choice(((0b0101, 0b1010), (0b1111,), (0b0010,), (0b1001, 0b0100))):
            await bench.order(ATTACH, rng.choice(numbers), qpn, events)
    # Attach to each QP once more, in reverse order.
    for qpn in reversed(order):
        kind, number = next((kind, n) for (one, kind), n in bench.rule.counts.items() if one == qpn)
        await bench.order(ATTACH, number, qpn, 1 << kind)

    # The event of a value names the counter.
    reported, wrote = Pulses(dut, "ev_ecw", "data"), []
    bench.wr.on_beat = lambda beat: (bench.wrote(beat), wrote.append(beat))

    async def completions(counted=None):
        for qpn in rng.sample(qps, bench.qps):
            for kind in rng.sample(range(4), 2):
                bench.complete(qpn, kind, counted=counted)
        await bench.settle()
        events = [EVENTS.ecw.unpack(raw) for raw in reported.values()]
        assert [(bench.rule.there[e.counter][0], e.value) for e in events] == [
            (beat["addr"], beat["data"] & (1 << 48) - 1) for beat in wrote
        ]
        reported.seen.clear()
        wrote.clear()

    await completions()
    for qpn in rng.sample(qps, bench.qps // 2):
        if rng.random() < 0.5:
            await bench.order(FORGET, 0, qpn)
        else:
            held = {kind: n for (one, kind), n in bench.rule.counts.items() if one == qpn}
            kind = rng.choice(sorted(held))
            await bench.order(DETACH, held[kind], qpn, 1 << kind)
    await completions()
    await bench.look()
    await reset(dut)
    await bench.swept()
    bench.rule = Counters()
    await completions(counted=1)
    await bench.look()


@cocotb.test()
async def a_counter_of_every_event_is_busy_until_the_last(dut):
    """queue.ec.refs: a counter attached to all events of all QPs is busy until the last of them is
    detached or its QP is destroyed"""
    bench = Bench(dut)
    await bench.start()
    rng, number = bench.rng, bench.rng.randrange(COUNTERS)
    await bench.order(CREATE, number, value=8 * rng.getrandbits(61))
    for qpn in rng.sample(range(bench.qps), bench.qps):
        for kind in rng.sample(range(4), 4):
            await bench.order(ATTACH, number, qpn, 1 << kind)
    for qpn in rng.sample(range(bench.qps), bench.qps):
        assert await bench.order(DESTROY, number) == BUSY
        if rng.random() < 0.5:
            await bench.order(FORGET, rng.randrange(COUNTERS), qpn)
        else:
            await bench.order(DETACH, number, qpn, 0b1111)
    assert await bench.order(DESTROY, number) == OK


@cocotb.test()
async def orders_and_completions_without_a_pause_take_turns(dut):
    """queue.ec.quanta: orders and completions at full load alternate, independently of which came
    first"""
    bench = Bench(dut)
    await bench.start()
    await bench.order(CREATE, 9, value=512)
    await bench.order(ATTACH, 9, 3, 0b1111)
    for number in range(24):
        bench.commits.post({"cqn": 1, "total": number, "qpn": 3, "kind": number % 4, "counted": 1,
                            "intr": 0})  # fmt: skip
    drive(dut, s_ec_valid=1, s_ec_op=ADD, s_ec_counter=9, s_ec_value=1000)
    responses = 0
    for _ in range(1000):
        await RisingEdge(dut.clk)
        responses += int(dut.s_ec_ready.value)
        if responses == 20:
            break
    assert responses == 20, "orders without a response"
    dut.s_ec_valid.value = 0
    await bench.commits.idle()
    await ClockCycles(dut.clk, 40)
    values = [one[2] for one in bench.seen]
    steps = [b - a for a, b in zip(values, values[1:], strict=False)]
    assert sorted(steps[:2]) == [1, 1000] and steps[:36] == 18 * steps[:2]
    assert values[-1] == 20 * 1000 + 24


@cocotb.test()
async def a_drain_ends_once(dut):
    """queue.ec.drained: s_drained without a drain, or of the previous drain, does not end a
    later drain"""
    bench = Bench(dut)
    await bench.start()
    await bench.order(CREATE, 9, value=512)
    await bench.order(ATTACH, 9, 3, 0b1111)
    for requested in (0, 1):
        bench.complete(3, 1, counted=1, intr=1)
        await ClockCycles(dut.clk, 3)
        drive(dut, s_drain_valid=requested, s_drained=1)
        await RisingEdge(dut.clk)
        dut.s_drained.value = 0
        ended = 0
        for _ in range(20):
            await RisingEdge(dut.clk)
            ended += int(dut.m_drained.value)
        # The next drain starts immediately and needs its own s_drained.
        dut.s_drain_valid.value = 1
        for _ in range(20):
            await RisingEdge(dut.clk)
            ended += int(dut.m_drained.value)
        assert ended == requested
        dut.s_drain_valid.value = 0
        await bench.settle()
