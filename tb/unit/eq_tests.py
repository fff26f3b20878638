# SPDX-License-Identifier: Apache-2.0
"""Tests efa_eq: arms, EQEs, interrupts."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import DOORBELL_BITS, INTERNAL, LIMITS, REG_BITS
from tb.lib.stream import cycle, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import high, pulse, until
from tb.unit.eq_bench import BASES, Bench
from tb.unit.queue_bench import Pulses


@cocotb.test()
async def completion_of_an_unarmed_queue_is_silent(dut):
    """eq.cq.unarmed"""
    bench = Bench(dut)
    await bench.start()
    await bench.cq(3)
    bench.commit(3)
    await bench.settle()
    assert bench.events() == [] and bench.interrupts() == []


@cocotb.test()
async def arm_is_one_shot(dut):
    """eq.cq.one_shot"""
    bench = Bench(dut)
    await bench.start()
    await bench.cq(3)
    await bench.arm_eq(0)
    await bench.arm_cq(3, 0)
    await bench.settle()
    for _ in range(3):
        bench.commit(3)
    await bench.settle()
    assert bench.events() == [3] and bench.interrupts() == [1]
    assert bench.order == ["eqe", "irq"]


@cocotb.test()
async def arm_with_unread_entries_fires_at_once(dut):
    """eq.cq.pending"""
    bench = Bench(dut)
    await bench.start()
    await bench.cq(7)
    await bench.arm_eq(0)
    bench.commit(7)
    bench.commit(7)
    await bench.settle()
    await bench.arm_cq(7, 1)
    await bench.settle()
    assert bench.events() == [7] and bench.interrupts() == [1]
    await bench.arm_eq(0)
    await bench.arm_cq(7, 2)
    await bench.settle()
    assert bench.events() == [], "all CQEs are consumed"
    bench.commit(7)
    await bench.settle()
    assert bench.events() == [7] and bench.interrupts() == [1]


@cocotb.test()
async def queue_without_interrupt_mode_never_posts(dut):
    """eq.cq.polled"""
    bench = Bench(dut)
    await bench.start()
    await bench.cq(7, intr=0)
    await bench.arm_eq(0)
    await bench.arm_cq(7, 5)
    await bench.settle()
    assert bench.events() == []


@cocotb.test()
async def event_queue_not_armed_keeps_its_interrupt(dut):
    """eq.eq.new"""
    bench = Bench(dut)
    await bench.start()
    await bench.cq(1)
    await bench.arm_cq(1, 0)
    await bench.settle()
    bench.commit(1)
    await bench.settle()
    assert bench.events() == [1] and bench.interrupts() == []
    await bench.arm_eq(0)
    assert bench.interrupts() == [1], (
        "a new EQE since the last message must raise a message immediately"
    )
    await bench.arm_eq(0)
    assert bench.interrupts() == [], "without a new EQE the arm must wait"


@cocotb.test()
async def second_event_of_a_queue_waits_for_the_arm(dut):
    """eq.eq.pending"""
    bench = Bench(dut)
    await bench.start()
    await bench.cq(1)
    await bench.cq(2)
    await bench.arm_eq(0)
    for _ in range(3):
        await bench.arm_cq(1, 0xFFFF)
        await bench.settle()
    assert bench.events() == [1] and bench.interrupts() == [1]
    await bench.arm_cq(2, 0xFFFF)
    await bench.settle()
    assert bench.events() == [2] and bench.interrupts() == []
    await bench.arm_eq(0)
    await bench.settle()
    # The message announces the EQE of CQ 2; the pending event of CQ 1 is posted after it.
    assert bench.events() == [1] and bench.interrupts() == [1]
    await bench.arm_eq(0)
    assert bench.events() == [] and bench.interrupts() == [1]


@cocotb.test()
async def arm_frees_only_the_queues_of_its_event_queue(dut):
    """eq.eq.separate"""
    bench = Bench(dut)
    await bench.start(eqs=(0, 5))
    await bench.cq(40, eqn=5)
    await bench.cq(100, eqn=0)
    for cqn in (40, 100):
        await bench.arm_cq(cqn, 1)
        await bench.arm_cq(cqn, 1)
        await bench.settle()
        await bench.arm_cq(cqn, 1)
        await bench.settle()
    assert bench.events() == [40, 100]
    await bench.arm_eq(5)
    await bench.settle()
    assert bench.events() == [40] and bench.interrupts() == [6]


@cocotb.test()
async def ring_wraps_with_its_phase(dut):
    """eq.ring.wrap"""
    bench = Bench(dut, stalls=0.4)
    await bench.start(log=1)
    await bench.cq(9)
    for number in range(9):
        await bench.arm_eq(0)
        await bench.arm_cq(9, 0xFFFF)
        beat = (await bench.wr.take(1))[0]
        assert beat["addr"] == BASES[0] + 16 * (number % 2)
        assert beat["data"] & 1 == 1 - (number // 2) % 2
        await bench.settle()


@cocotb.test()
async def storm_of_arms_does_not_starve_commits(dut):
    """eq.storm"""
    bench = Bench(dut, stalls=0.3)
    await bench.start()
    rng = rng_for("storm")
    cqns = list(range(0, 128, 3))
    for cqn in cqns:
        await bench.cq(cqn)
    for _ in range(300):
        bench.commit(rng.choice(cqns))
        value = DOORBELL_BITS.CQ_DB.pack(CONSUMER_INDEX=0, ARM=1)
        await pulse(dut, "s_cqdb_valid", s_cqdb_cqn=rng.choice(cqns), s_cqdb_value=value)
        if rng.random() < 0.05:
            await bench.arm_eq(0)
    await ClockCycles(dut.clk, 3000)
    assert bench.commits.sent == 300
    seen = set(bench.events())
    await bench.arm_eq(0)
    await bench.settle()
    seen |= set(bench.events())
    assert seen <= set(cqns) and len(seen) > 10


@cocotb.test()
async def reset_in_the_middle_of_events(dut):
    """eq.reset"""
    bench = Bench(dut, stalls=0.8)
    await bench.start()
    for _ in range(3):
        for cqn in range(20):
            await bench.cq(cqn)
            await bench.arm_cq(cqn, 1)
        await reset(dut)
        bench.wr.beats.clear()
        await bench.swept()
        await bench.configure()
        await bench.cq(30)
        await bench.arm_cq(30, 1)
        await bench.settle()
        assert bench.events() == [30]


@cocotb.test()
async def events_come_in_time(dut):
    """queue.eq.cycles: commits, EQEs, interrupts and both kinds of arms have the specified
    latencies and intervals."""
    bench = Bench(dut)
    await bench.start()
    consumed = Pulses(dut, "s_commit", consumed=True)
    offered, requested = Pulses(dut, "m_wr"), Pulses(dut, "m_irq")
    paths = ("commit", "event", "irq", "arm", "eq_arm", "scan", "drain")
    promised = {path: timing("efa_eq", path) for path in paths}

    def cancel():
        for pulses in (consumed, offered, requested):
            pulses.seen.clear()

    await bench.cq(3)
    await bench.arm_eq(0)
    await bench.arm_cq(3, 0)
    await bench.settle()
    bench.commit(3)
    await bench.settle()
    (entry,), (irq,) = offered.seen[0], requested.seen[0]
    assert entry - consumed.seen[0][0] == promised["event"].latency
    assert irq - entry == promised["irq"].latency
    # A CQ has at most one EQE until its EQ is armed again; another CQ gets its own EQE.
    cancel()
    await bench.arm_cq(3, 0)
    await bench.settle()
    assert not offered.seen and not requested.seen
    await bench.cq(4)
    await bench.arm_cq(4, 9)
    armed = cycle()
    await bench.settle()
    assert offered.seen[0][0] - armed == promised["arm"].latency
    await pulse(dut, "s_eqdb_valid", s_eqdb_value=REG_BITS.EQ_DB.pack(EQN=0, ARM=1))
    armed = cycle()
    await bench.settle()
    assert requested.seen[0][0] - armed == promised["eq_arm"].latency
    # An EQ arm without a pending CQ delays commits during its scan; otherwise one commit per cycle
    # is accepted. The specified latency is that of 128 CQs.
    await reset(dut)
    await bench.swept()
    await bench.configure()
    await bench.cq(5)
    await bench.arm_cq(5, 0)
    await bench.settle()
    cancel()
    await pulse(dut, "s_eqdb_valid", s_eqdb_value=REG_BITS.EQ_DB.pack(EQN=0, ARM=1))
    armed = cycle()
    bench.commit(5)
    await bench.settle()
    longer = bench.scan_cycles - 8
    assert offered.seen[0][0] - armed == promised["scan"].latency + longer
    cancel()
    for _ in range(40):
        bench.commit(5)
    await bench.settle()
    cycles = [cycle for (cycle,) in consumed.seen]
    steps = [b - a for a, b in zip(cycles, cycles[1:], strict=False)]
    assert steps == [promised["commit"].interval] * 39
    dut.s_drain_valid.value = dut.s_drained.value = 1
    requested = cycle() + 1
    await RisingEdge(dut.clk)
    dut.s_drained.value = 0
    await until(dut, high(dut.s_drain_ready), cycles=20)
    assert cycle() - requested == promised["drain"].latency
    dut.s_drain_valid.value = 0


@cocotb.test()
async def an_arm_is_of_the_event_queue_it_names(dut):
    """eq.number: an arm with an out-of-range EQ number does not act on the EQ with the same low
    bits."""
    bench = Bench(dut)
    await bench.start()
    await bench.cq(3)
    for bit in range(LIMITS.eqn_w, 16):
        await bench.arm_eq(1 << bit)
    await bench.completion(3)
    assert bench.events() == [3] and not bench.interrupts()


@cocotb.test()
async def a_queue_made_anew_has_nothing_of_the_one_before(dut):
    """eq.anew: a CQ created again keeps no arm, posted event or pending event of its
    predecessor."""
    bench = Bench(dut)
    await bench.start()
    await bench.cq(3)
    await bench.arm_cq(3, 0)
    await bench.settle()
    await bench.cq(3)
    bench.commit(3)
    await bench.settle()
    assert not bench.events(), "the arm of the previous CQ is still active"
    await bench.arm_cq(3, 0)
    await bench.settle()
    assert bench.events() == [3]
    await bench.cq(3)
    await bench.completion(3)
    assert bench.events() == [3], "blocked by the EQE of the previous CQ"
    await bench.arm_cq(3, 0)
    await bench.settle()
    await bench.cq(3)
    await bench.arm_eq(0)
    assert not bench.events(), "a pending event of the previous CQ was posted"


@cocotb.test()
async def what_waits_for_an_arm_goes_with_its_queue(dut):
    """eq.goes: pending events of a destroyed CQ, and an EQ arm queued behind a stuck event, are
    dropped."""
    held = {"on": False}
    bench = Bench(dut, lambda: held["on"])
    await bench.start(eqs=(0, 4))
    await bench.cq(3)
    for _ in range(2):
        await bench.completion(3)
    assert bench.events() == [3]
    await pulse(dut, "s_cqc_valid", s_cqc_cqn=3, s_cqc_data=INTERNAL.cqc.pack(live=0))
    await bench.arm_eq(0)
    assert not bench.events()
    held["on"] = True
    await bench.cq(5)
    await bench.completion(5)
    await bench.arm_eq(4)
    await bench.end(4)
    await bench.configure([4])
    held["on"] = False
    await bench.settle()
    assert bench.events() == [5] and bench.interrupts() == [1]
    await bench.cq(8, 4)
    await bench.completion(8)
    assert bench.events() == [8] and not bench.interrupts()


@cocotb.test()
async def what_is_gone_requests_nothing(dut):
    """eq.gone: arms of a CQ created again, events without a queue and arms of a destroyed EQ
    have no effect"""
    held = {"on": False}
    bench = Bench(dut, lambda: held["on"])
    await bench.start(eqs=range(8))
    for cqn, eqn in ((3, 1), (5, 1), (6, 2), (7, 1)):
        await bench.cq(cqn, eqn)
    await bench.arm_cq(3, 0, arm=0)
    bench.commit(3)
    await bench.settle()
    assert not bench.events(), "a doorbell without the arm bit must not arm"
    # The arm of CQ 5 is queued behind a stuck event.
    held["on"] = True
    await bench.completion(7)
    await bench.arm_cq(5, 0)
    await bench.cq(5, 1)
    held["on"] = False
    bench.commit(5)
    await bench.settle()
    assert bench.events() == [7]
    await bench.arm_cq(6, 0)
    await bench.settle()
    await bench.end(2)
    bench.commit(6)
    await bench.settle()
    assert not bench.events()
    await pulse(dut, "s_cqc_valid", s_cqc_cqn=9, s_cqc_data=INTERNAL.cqc.pack(live=0, intr=1))
    bench.totals[9] = 0
    await bench.arm_cq(9, 5)
    bench.commit(9)
    await bench.settle()
    assert not bench.events(), "an absent CQ must not be armed"
    for cycles in range(5):
        await bench.configure([4])
        await pulse(dut, "s_eqdb_valid", s_eqdb_value=REG_BITS.EQ_DB.pack(EQN=4, ARM=1))
        await ClockCycles(dut.clk, cycles)
        await bench.end(4)
        await ClockCycles(dut.clk, 40)
        await bench.configure([4])
        await bench.cq(8, 4)
        await bench.completion(8)
        assert bench.events() == [8] and not bench.interrupts(), "armed by the previous EQ"
        await bench.end(4)


@cocotb.test()
async def every_event_queue_is_armed_beside_commits(dut):
    """eq.all: all EQs are armed back to back while commits continue"""
    bench = Bench(dut)
    await bench.start(eqs=range(8), log=4)
    rng = rng_for("all")
    for eqn in range(8):
        await bench.cq(10 + eqn, eqn)
    await bench.cq(20, 0)
    for wrap in range(12):
        for eqn in range(8):
            await bench.arm_cq(10 + eqn, wrap)
        await bench.settle()
        for _ in range(60):
            bench.commit(20)
        for eqn in rng.sample(range(8), 8):
            await pulse(dut, "s_eqdb_valid", s_eqdb_value=REG_BITS.EQ_DB.pack(EQN=eqn, ARM=1))
        await ClockCycles(dut.clk, 1500)
        for eqn in range(8):
            bench.commit(10 + eqn)
        await bench.settle()
        assert sorted(bench.events()) == list(range(10, 18))
        assert sorted(bench.interrupts()) == list(range(1, 9))
