# SPDX-License-Identifier: Apache-2.0
"""Tests efa_eq: arms and commits in every order, drains, the wrap of the EQE count.

The distance of two actions covers all cycles in which the engine may still process the first:
SPAN is larger than the longest path from idle to idle.
"""

from collections import Counter
from itertools import permutations, product

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge

from efa_cosim.layouts.defs import DOORBELL_BITS, INTERNAL, LIMITS, REG_BITS, AdminEqe
from tb.lib.stream import rng_for
from tb.lib.timing import timing
from tb.lib.waits import high, pulse, until
from tb.unit.eq_bench import BASES, Bench

SPAN = 8


class Script:
    """Plays actions at chosen cycles: commits, arms of CQs and arms of EQs."""

    def __init__(self, bench):
        self.bench, self.dut = bench, bench.dut
        bench.commits._task.cancel()

    def commit(self, cqn):
        """Drives a commit that is accepted at the end of this cycle."""
        assert self.dut.s_commit_ready.value == 1
        self.bench.totals[cqn] += 1
        self.dut.s_commit_cqn.value, self.dut.s_commit_valid.value = cqn, 1
        self.dut.s_commit_total.value = self.bench.totals[cqn]

    async def play(self, steps):
        """Plays `steps`: {cycle: [(kind, number, index)]} with at most one action of a kind per
        cycle."""
        dut = self.dut
        for now in range(max(steps) + 1):
            await FallingEdge(dut.clk)
            dut.s_cqdb_valid.value = dut.s_eqdb_valid.value = dut.s_commit_valid.value = 0
            for kind, number, index in steps.get(now, ()):
                if kind == "arm":
                    value = DOORBELL_BITS.CQ_DB.pack(CONSUMER_INDEX=index, ARM=1)
                    dut.s_cqdb_cqn.value, dut.s_cqdb_value.value = number, value
                    dut.s_cqdb_valid.value = 1
                elif kind == "eq":
                    dut.s_eqdb_value.value = REG_BITS.EQ_DB.pack(EQN=number, ARM=1)
                    dut.s_eqdb_valid.value = 1
                else:
                    self.commit(number)
        await FallingEdge(dut.clk)
        dut.s_cqdb_valid.value = dut.s_eqdb_valid.value = dut.s_commit_valid.value = 0
        await self.bench.settle()


@cocotb.test()
async def an_arm_around_a_completion(dut):
    """eq.order.arm: an arm before, with and after a commit gives one event, or none if all CQEs
    are consumed"""
    bench = Bench(dut)
    await bench.start()
    script = Script(bench)
    for eq_armed, (consumed, before), distance in product(
        (0, 1), ((0, 0), (1, 1), (1, 0)), range(-SPAN, SPAN + 1)
    ):
        cqn = 40 + distance
        await bench.cq(cqn)
        if eq_armed:
            await bench.arm_eq(0)
        await script.play({number: [("commit", cqn, 0)] for number in range(before)} or {0: []})
        assert bench.events() == [] and bench.interrupts() == []
        at = {SPAN: [("commit", cqn, 0)]}
        at.setdefault(SPAN + distance, []).append(("arm", cqn, consumed))
        await script.play(at)
        # The host consumes a CQE only after the commit; then no CQE is unconsumed. An earlier arm
        # is compared with the total of its cycle; up to 3 cycles earlier, with that after the
        # commit.
        once = bench.events()
        if (consumed, before) == (1, 0):
            assert once == ([cqn] if distance < 0 else []) or distance in (-1, -2, -3), distance
        else:
            assert once == [cqn], (eq_armed, consumed, distance, once)
        assert bench.interrupts() == ([1] if eq_armed and once else [])
        await bench.arm_eq(0)
        assert bench.events() == []
        assert bench.interrupts() == ([] if eq_armed or not once else [1])
        await bench.cq(cqn, intr=0)


@cocotb.test()
async def an_arm_around_an_arm(dut):
    """eq.order.again: a second arm of a CQ takes effect in every state of the first arm"""
    bench = Bench(dut)
    await bench.start()
    script = Script(bench)
    for distance in range(1, 2 * SPAN):
        cqn = 20 + distance
        await bench.cq(cqn)
        for first, second in ((0, 1), (1, 0), (1, 2)):
            await bench.arm_eq(0)
            # Without commits, index 0 means all CQEs are consumed and any other index means
            # unconsumed CQEs. Arms of a pending CQ merge and use the last index.
            await script.play({0: [("arm", cqn, first)], distance: [("arm", cqn, second)]})
            for _ in range(2):
                await bench.arm_eq(0)
            events = bench.events()
            each = bool(first) + bool(second)
            merged = distance < SPAN and len(events) == bool(second)
            assert len(events) == each or merged, (distance, first, second)
            assert set(events) <= {cqn}
            # The next arm always takes effect.
            await bench.arm_cq(cqn, 3)
            await bench.settle()
            assert bench.events() == [cqn], (distance, first, second)
        await bench.cq(cqn, intr=0)


@cocotb.test()
async def an_arm_behind_commits_that_wait(dut):
    """eq.order.read: already consumed CQEs raise no event, even when commits are queued behind a
    stuck event"""
    held = {"on": True}
    bench = Bench(dut, lambda: held["on"])
    await bench.start()
    depth = timing("efa_eq", "commit").depth
    for commits in range(depth + 2):
        await bench.cq(1)
        await bench.cq(2)
        held["on"] = True
        await bench.completion(1)
        sent = bench.commits.sent
        for _ in range(commits):
            bench.commit(2)
        await bench.settle()
        # The event of CQ 1 is stuck; the commit FIFO is full and one more commit is offered.
        assert bench.commits.sent == sent + min(commits, depth)
        await bench.arm_cq(2, commits)
        held["on"] = False
        await bench.settle()
        assert bench.events() == [1], commits
        bench.commit(2)
        await bench.settle()
        assert bench.events() == [2], commits


@cocotb.test()
async def several_queues_on_one_event_queue(dut):
    """eq.order.shared: three CQs of one EQ get one event each for any order of arms and commits"""
    bench = Bench(dut)
    await bench.start(log=6)
    script, rng = Script(bench), rng_for("shared")
    cqns = (7, 8, 64)
    orders = list(permutations([(kind, cqn) for kind in ("arm", "commit") for cqn in cqns]))
    rng.shuffle(orders)
    for number, order in enumerate(orders[:240]):
        for cqn in cqns:
            await bench.cq(cqn)
        at, now = {}, 0
        for kind, cqn in order:
            now += rng.choice((0, 1, 1, 2, 3, 5))
            while any(step[0] == kind for step in at.get(now, ())):
                now += 1
            at.setdefault(now, []).append((kind, cqn, 0))
        if number % 3:
            at.setdefault(rng.randrange(now + 6), []).append(("eq", 0, 0))
        await script.play(at)
        await bench.arm_eq(0)
        await bench.settle()
        assert sorted(bench.events()) == list(cqns), order
        # Each EQE is followed by a message, at most one per arm of the EQ. The arm of the previous
        # round is still active.
        tail = len(bench.order) - 1 - bench.order[::-1].index("irq")
        assert "eqe" not in bench.order[tail:], order
        assert 1 <= len(bench.interrupts()) <= 3
        bench.order.clear()


@cocotb.test()
async def no_event_is_lost_or_doubled(dut):
    """eq.order.random: with two EQs and a stalling host, every waiting CQ gets exactly one event"""
    bench = Bench(dut, stalls=0.4)
    await bench.start(eqs=(0, 3), log=6)
    script, rng = Script(bench), rng_for("order")
    homes = {cqn: rng.choice((0, 3)) for cqn in rng.sample(range(128), 12)}
    for cqn, eqn in homes.items():
        await bench.cq(cqn, eqn)
    heard = Counter()
    for _ in range(60):
        # Arms with the current totals and commits in random order; each CQ is armed at most once.
        read, now, at = dict(bench.totals), 0, {}
        steps = [("arm", cqn, read[cqn]) for cqn in homes if rng.random() < 0.5]
        armed = {cqn for _, cqn, _ in steps}
        steps += [("commit", rng.choice(list(homes)), 0) for _ in range(rng.randrange(8))]
        steps += [("eq", rng.choice((0, 3)), 0) for _ in range(rng.randrange(3))]
        rng.shuffle(steps)
        for step in steps:
            now += rng.choice((0, 1, 1, 4))
            while any(other[0] == step[0] for other in at.get(now, ())):
                now += 1
            at.setdefault(now, []).append(step)
        await script.play(at or {0: []})
        for _ in range(2):
            for eqn in (0, 3):
                await bench.arm_eq(eqn)
        await ClockCycles(dut.clk, 300)
        wanted = {cqn for cqn in armed if bench.totals[cqn] != read[cqn]}
        events = Counter(bench.events())
        # An arm without unconsumed CQEs stays active and is used by a later commit.
        assert all(1 <= events[cqn] <= 1 + heard[cqn] for cqn in wanted), (wanted, events)
        stale = set(events) - wanted
        assert all(heard[cqn] > 0 for cqn in stale), (stale, wanted)
        for cqn in armed - wanted:
            heard[cqn] = 1
        for cqn in events:
            heard[cqn] = 0
        bench.interrupts()


@cocotb.test()
async def a_drain_waits_for_events_of_what_was_there(dut):
    """eq.drain: a drain waits for a started EQE or interrupt although its CQ and EQ are
    destroyed"""
    held = set()
    bench = Bench(dut)
    bench.wr._pause = lambda: "wr" in held
    bench.irq._pause = lambda: "irq" in held
    await bench.start()
    for waits, commits in product(("wr", "irq"), (1, 4)):
        await bench.cq(5)
        await bench.arm_eq(0)
        await bench.arm_cq(5, 0)
        await bench.settle()
        held.add(waits)
        for _ in range(commits):
            bench.commit(5)
        await bench.settle()
        dut.s_drain_valid.value = dut.s_drained.value = 1
        await RisingEdge(dut.clk)
        dut.s_drained.value = 0
        # CQ and EQ are destroyed while the EQE or its message is offered; the output stays
        # unchanged.
        gone = INTERNAL.cqc.pack(live=0)
        await pulse(dut, "s_cqc_valid", s_cqc_cqn=5, s_cqc_data=gone)
        await pulse(dut, "s_eqc_valid", s_eqc_eqn=0, s_eqc_data=INTERNAL.eqc.pack(live=0))
        for _ in range(40):
            await RisingEdge(dut.clk)
            assert dut.s_drain_ready.value == 0, waits
        held.clear()
        await until(dut, high(dut.s_drain_ready), "the drain", cycles=40)
        dut.s_drain_valid.value = 0
        assert [beat["addr"] for beat in bench.wr.beats] == [BASES[0]]
        bench.events()
        await bench.settle()
        assert bench.interrupts() == ([1] if waits == "irq" else [])
        await bench.configure()


@cocotb.test()
async def a_drain_does_not_wait_for_what_came_later(dut):
    """eq.drain.later: a drain completes while commits continue"""
    bench = Bench(dut)
    await bench.start()
    await bench.cq(5)
    dut.s_commit_valid.value = 1
    bench.commits._task.cancel()
    dut.s_commit_cqn.value = 5
    await ClockCycles(dut.clk, 40)
    dut.s_drain_valid.value = dut.s_drained.value = 1
    await until(dut, high(dut.s_drain_ready), "the drain", cycles=30)
    # An s_drained pulse without a drain does not end a later drain.
    dut.s_drain_valid.value = dut.s_drained.value = 0
    await ClockCycles(dut.clk, 5)
    dut.s_drain_valid.value = 1
    for _ in range(20):
        await RisingEdge(dut.clk)
        assert dut.s_drain_ready.value == 0
    dut.s_drain_valid.value = dut.s_commit_valid.value = 0


@cocotb.test()
async def a_drain_waits_for_every_commit_that_waits(dut):
    """eq.drain.all: a drain waits for up to sixteen commits queued behind an event and ends with
    the event of the last one"""
    held, rng = {"on": False}, rng_for("drain")
    bench = Bench(dut, lambda: held["on"])
    await bench.start(log=6)
    for waiting in range(timing("efa_eq", "commit").depth + 1):
        numbers = rng.sample(range(128), 1 + waiting)
        for cqn in numbers:
            await bench.cq(cqn)
            await bench.arm_cq(cqn, 0)
        await bench.settle()
        held["on"] = True
        for cqn in numbers:
            bench.commit(cqn)
        await bench.settle()
        dut.s_drain_valid.value = dut.s_drained.value = 1
        await RisingEdge(dut.clk)
        dut.s_drained.value = 0
        await ClockCycles(dut.clk, 4)
        held["on"] = False
        await until(dut, high(dut.s_drain_ready), "the drain", cycles=10 * len(numbers) + 10)
        dut.s_drain_valid.value = 0
        assert bench.events() == numbers


@cocotb.test()
async def the_count_of_entries_passes_its_end(dut):
    """eq.wrap: slots and phases are correct over two wraps of the deepest EQ, for every depth
    and every EQ"""
    bench = Bench(dut)
    await bench.start(eqs=())
    bench.wr._task.cancel()
    bench.irq._task.cancel()
    dut.m_wr_ready.value = dut.m_irq_ready.value = 1
    for log in range(LIMITS.max_eq_depth.bit_length()):
        eqn = log % len(BASES)
        await bench.configure([eqn], log)
        await bench.cq(9, eqn)
        # Both arms are active in every cycle, so each round posts one event with constant inputs.
        dut.s_cqdb_cqn.value = 9
        dut.s_cqdb_value.value = DOORBELL_BITS.CQ_DB.pack(CONSUMER_INDEX=1, ARM=1)
        dut.s_eqdb_value.value = REG_BITS.EQ_DB.pack(EQN=eqn, ARM=1)
        dut.s_cqdb_valid.value = dut.s_eqdb_valid.value = 1
        for number in range(2 * LIMITS.max_eq_depth + 5):
            await RisingEdge(dut.m_wr_valid)
            await FallingEdge(dut.clk)
            entry = AdminEqe.unpack(int(dut.m_wr_data.value).to_bytes(16, "little"))
            wrap, slot = divmod(number, 1 << log)
            seen = (int(dut.m_wr_addr.value) - BASES[eqn], entry.phase)
            assert seen == (16 * slot, 1 - wrap % 2), (log, number)
        dut.s_cqdb_valid.value = dut.s_eqdb_valid.value = 0
        await bench.settle()


@cocotb.test()
async def an_event_queue_made_while_an_entry_is_written(dut):
    """eq.order.made: an EQ created in any cycle of an EQE write changes no slot of the other EQ"""
    bench = Bench(dut)
    await bench.start(log=5)
    fresh = INTERNAL.eqc.pack(live=1, base=BASES[6] >> 6, log=2)
    await bench.cq(5)
    for distance in range(SPAN + 4):
        await bench.arm_eq(0)
        await bench.arm_cq(5, 0xFFFF)
        for _ in range(distance):
            await RisingEdge(dut.clk)
        await pulse(dut, "s_eqc_valid", s_eqc_eqn=6, s_eqc_data=fresh)
        await bench.settle()
    slots = [(beat["addr"] - BASES[0]) // 16 for beat in bench.wr.beats]
    assert slots == list(range(SPAN + 4))
