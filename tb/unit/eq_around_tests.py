# SPDX-License-Identifier: Apache-2.0
"""Tests efa_eq: contexts, drains and waiting requests in any cycle around each other; EQs among
themselves."""

from itertools import product

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge

from efa_cosim.layouts.defs import DOORBELL_BITS, INTERNAL, LIMITS, REG_BITS, AdminEqe
from tb.lib.stream import cycle, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, high, pulse, until, zero
from tb.unit.eq_bench import BASES, Bench
from tb.unit.queue_bench import Pulses

EQS = 1 << LIMITS.eqn_w
VALIDS = ("s_cqc_valid", "s_cqdb_valid", "s_eqdb_valid", "s_commit_valid")


class Around(Bench):
    """Plays actions at chosen cycles; the host accepts no EQE while `held`."""

    def __init__(self, dut, name):
        self.held = False
        super().__init__(dut, lambda: self.held)
        self.irq._pause = lambda: False
        self.commits._task.cancel()
        self.rng = rng_for(name)
        zero(dut, *VALIDS)

    async def play(self, steps):
        """Plays `steps`: [(cycle, {pin: value})]."""
        for now in range(max(at for at, _ in steps) + 1):
            await FallingEdge(self.dut.clk)
            zero(self.dut, *VALIDS)
            for at, pins in steps:
                if at == now:
                    drive(self.dut, **pins)
        await FallingEdge(self.dut.clk)
        zero(self.dut, *VALIDS)
        await self.settle()

    def context(self, cqn, live=1):
        data = INTERNAL.cqc.pack(live=live, intr=1, eqn=0, log=4)
        return {"s_cqc_valid": 1, "s_cqc_cqn": cqn, "s_cqc_data": data}

    def armed(self, cqn, consumed):
        value = DOORBELL_BITS.CQ_DB.pack(CONSUMER_INDEX=consumed, ARM=1)
        return {"s_cqdb_valid": 1, "s_cqdb_cqn": cqn, "s_cqdb_value": value}

    def eq_armed(self, eqn=0):
        return {"s_eqdb_valid": 1, "s_eqdb_value": REG_BITS.EQ_DB.pack(EQN=eqn, ARM=1)}

    def committed(self, cqn, total):
        return {"s_commit_valid": 1, "s_commit_cqn": cqn, "s_commit_total": total}


ACTIONS = ("arm", "unread", "commit", "scan")


@cocotb.test()
@cocotb.parametrize(action=ACTIONS)
async def a_context_written_around_an_action(dut, action):
    """eq.around.context: an arm, a commit or an EQ arm has its effect although contexts of other
    CQs are written in any cycle around it; a CQ created again in any of these cycles keeps no
    state of its predecessor"""
    bench = Around(dut, f"around {action}")
    await bench.start()
    rng, width = bench.rng, len(dut.s_cqdb_cqn)
    span = 16 if action == "scan" else 8
    # A commit of a destroyed CQ waits for its drain, so no CQ of its number is created before.
    ways = [way for way in product((0, 1), (0, 1), (0, 1 << width - 1))
            if action != "commit" or not way[0]]  # fmt: skip
    for distance, (again, beside, top) in product(range(span), ways):
        cqn = rng.randrange(1 << width - 1) | top
        others = [cqn ^ 1 << bit for bit in rng.sample(range(width), 2)]
        for number in (cqn, *others):
            await bench.play([(0, bench.context(number))])
        if action == "commit":
            await bench.play([(0, bench.armed(cqn, 0))])
        if action == "unread":
            await bench.play([(0, bench.committed(cqn, 1))])
        if action == "scan":
            for _ in range(2):
                await bench.play([(0, bench.armed(cqn, 1))])
            await bench.play([(0, bench.armed(cqn, 0))])
            assert bench.events() == [cqn]
        pins = {"commit": bench.committed(cqn, 1), "scan": bench.eq_armed()}
        steps = [(1, pins.get(action, bench.armed(cqn, 0)))]
        if beside:
            steps.append((distance, bench.context(others[0])))
        if again or beside:
            steps.append((1 + distance, bench.context(cqn if again else others[1])))
        await bench.play(steps)
        seen = bench.events()
        where = (distance, again, beside, cqn)
        if again:
            # The event of the previous CQ may have left before.
            assert seen in ([], [cqn]) and (action != "arm" or not seen), where
            await bench.play([(0, bench.committed(cqn, 1))])
            assert not bench.events(), where
            await bench.play([(0, bench.armed(cqn, 1))])
            assert not bench.events(), where
            await bench.play([(0, bench.committed(cqn, 2))])
            assert bench.events() == [cqn], where
            # None of the two CQEs belongs to the next CQ of this number.
            await bench.play([(0, bench.context(cqn))])
            await bench.play([(0, bench.armed(cqn, 0))])
            await bench.play([(0, bench.eq_armed())])
            assert not bench.events(), where
        else:
            assert seen == ([] if action == "arm" else [cqn]), where
            if action in ("arm", "scan"):
                # The arm of the CQ remains after its pending event.
                await bench.play([(0, bench.eq_armed())])
                await bench.play([(0, bench.committed(cqn, 1))])
                assert bench.events() == [cqn], where
        for number in (cqn, *others):
            await bench.play([(0, bench.context(number, live=0))])


@cocotb.test()
async def arms_beside_commits_without_a_pause(dut):
    """eq.around.commits: a commit in every cycle delays an arm of a CQ and an arm of an EQ by a
    bounded time"""
    bench = Around(dut, "pause")
    await bench.start()
    for cqn in (5, 7):
        await bench.cq(cqn)
    drive(dut, **bench.committed(5, 1))
    await ClockCycles(dut.clk, 40)
    await bench.arm_cq(7, 1)
    await ClockCycles(dut.clk, 20)
    assert bench.events() == [7] and not bench.interrupts()
    await pulse(dut, "s_eqdb_valid", s_eqdb_value=REG_BITS.EQ_DB.pack(EQN=0, ARM=1))
    await ClockCycles(dut.clk, 20)
    assert bench.interrupts() == [1]
    zero(dut, "s_commit_valid")
    await bench.settle()


@cocotb.test()
async def a_scan_takes_its_time_after_any_events(dut):
    """eq.around.scan: an arm of an EQ takes the specified cycles for each CQ with an EQE since the
    last arm, and none for a CQ of an earlier arm"""
    bench = Around(dut, "scan")
    await bench.start(log=9)
    rng, offered = bench.rng, Pulses(dut, "m_wr")
    cqs = range(1 << len(dut.s_cqdb_cqn))
    for cqn in cqs:
        await bench.cq(cqn)
    # The specified latency is that of 128 CQs. The interrupt of a new EQE takes one more cycle.
    promised = timing("efa_eq", "scan").latency + timing("efa_eq", "irq").latency
    promised += bench.scan_cycles - 8
    earlier = []
    for share in (0.4, 0.0, 0.3, 0.0, 0.0, 0.4, 0.1):
        free = [cqn for cqn in cqs if cqn not in earlier]
        last, one, *rest = rng.sample(free, len(free))
        some = [one, *(cqn for cqn in rest if rng.random() < share)]
        await bench.play([(0, bench.armed(last, 0))])
        for cqn in some:
            await bench.play([(0, bench.armed(cqn, 1))])
        offered.seen.clear()
        armed = cycle() + 1
        await bench.play([(0, bench.eq_armed()), (1, bench.committed(last, 1))])
        await ClockCycles(dut.clk, 2 * len(cqs))
        ((event, *_),) = offered.seen
        assert event - armed == promised + 2 * len(some + earlier)
        # The EQE of this CQ belongs to the next arm.
        await bench.cq(last)
        earlier = [last]


@cocotb.test()
async def an_arm_behind_an_arm_and_commits(dut):
    """eq.around.arms: already consumed CQEs raise no event when their commits are queued between
    two arms"""
    bench = Around(dut, "arms")
    await bench.start()
    for commits in range(1, timing("efa_eq", "commit").depth):
        for cqn in (1, 2, 3):
            await bench.cq(cqn)
        bench.held = True
        await bench.play([(0, bench.armed(1, 1))])
        await bench.play([(0, bench.armed(3, 0))])
        await bench.play([(at, bench.committed(2, 1 + at)) for at in range(commits)])
        await bench.play([(0, bench.armed(2, commits))])
        bench.held = False
        await bench.settle()
        assert bench.events() == [1], commits
        await bench.play([(0, bench.committed(3, 1)), (1, bench.committed(2, commits + 1))])
        assert bench.events() == [3, 2], commits


@cocotb.test()
async def arms_of_both_kinds_alternate(dut):
    """eq.around.turns: arms of CQs and arms of EQs that wait at the same time alternate"""
    bench = Around(dut, "turns")
    await bench.start(eqs=range(EQS), log=6)
    for turn in range(4):
        cqns = bench.rng.sample(range(1 << len(dut.s_cqdb_cqn)), 2 * EQS)
        news, arms = cqns[: EQS - 1], cqns[EQS - 1 :]
        for eqn, cqn in enumerate(news):
            await bench.cq(cqn, eqn)
            await bench.play([(0, bench.armed(cqn, 1))])
        for cqn in arms:
            await bench.cq(cqn, EQS - 1)
        assert bench.events() == news and not bench.interrupts()
        bench.held = True
        await bench.play([(0, bench.armed(arms[0], 1))])
        waiting = [(at, bench.armed(cqn, 1)) for at, cqn in enumerate(arms[1:EQS])]
        waiting += [(at, bench.eq_armed(eqn)) for at, eqn in enumerate(range(EQS - 1))]
        await bench.play(waiting)
        bench.order.clear()
        bench.held = False
        await ClockCycles(dut.clk, EQS * (60 + bench.scan_cycles))
        order = bench.order[1:]
        assert sorted(bench.events()) == sorted(arms[:EQS]) and len(order) == 2 * (EQS - 1), turn
        assert sorted(bench.interrupts()) == list(range(1, EQS)), turn
        assert all(one != other for one, other in zip(order, order[1:], strict=False)), order
        bench.order.clear()


@cocotb.test()
async def a_drain_ends_once(dut):
    """eq.around.drained: s_drained without a drain, or of the previous drain, does not end a later
    drain"""
    bench = Around(dut, "drained")
    await bench.start()
    await bench.cq(3)
    bench.held = True
    await bench.play([(0, bench.armed(3, 1))])
    await pulse(dut, "s_drained")
    dut.s_drain_valid.value = 1
    await ClockCycles(dut.clk, 5)
    bench.held = False
    for ends in (0, 1, 0):
        ended = 0
        if ends:
            await pulse(dut, "s_drained")
        for _ in range(20):
            await RisingEdge(dut.clk)
            ended += int(dut.s_drain_ready.value)
        assert ended == ends


@cocotb.test()
async def a_drain_waits_for_the_commit_of_its_cycle(dut):
    """eq.around.drain: a drain that starts in any cycle from its commit on ends after the event"""
    bench = Around(dut, "drain")
    await bench.start()
    for distance in range(6):
        await bench.cq(3)
        await bench.play([(0, bench.armed(3, 0))])
        assert dut.s_commit_ready.value == 1
        drive(dut, **bench.committed(3, 1), s_drain_valid=1)
        for at in range(distance + 1):
            dut.s_drained.value = int(at == distance)
            await RisingEdge(dut.clk)
            zero(dut, "s_commit_valid", "s_drained")
        await until(dut, high(dut.s_drain_ready), "the drain", cycles=20)
        assert bench.events() == [3], distance
        zero(dut, "s_drain_valid")
        await bench.settle()


@cocotb.test()
async def each_event_queue_exists_by_itself(dut):
    """eq.around.eqs: events of CQs of an absent EQ are lost, also while another EQ exists; the
    creation or destruction of an EQ leaves the arm of another one"""
    bench = Around(dut, "eqs")
    await bench.start(eqs=())
    rng = bench.rng
    cqns = rng.sample(range(1 << len(dut.s_cqdb_cqn)), EQS)

    async def events():
        for eqn, cqn in enumerate(cqns):
            await bench.cq(cqn, eqn)
            await bench.play([(0, bench.armed(cqn, 1))])
        return bench.events()

    assert await events() == []
    for eqn in rng.sample(range(EQS), EQS):
        await bench.configure([eqn])
        for other in range(EQS):
            await bench.arm_eq(other)
        assert await events() == [cqns[eqn]] and bench.interrupts() == [eqn + 1]
        await bench.end(eqn)
        assert await events() == [] and not bench.interrupts()
    await bench.configure(range(EQS))
    await events()
    for eqn in range(EQS):
        await bench.arm_eq(eqn)
    bench.interrupts()
    for eqn, other in product(range(EQS), repeat=2):
        if eqn == other:
            continue
        await bench.arm_eq(eqn)
        await bench.end(other)
        if rng.random() < 0.5:
            await bench.configure([other])
        await bench.play([(0, bench.armed(cqns[eqn], 1))])
        assert bench.events() == [cqns[eqn]] and bench.interrupts() == [eqn + 1], (eqn, other)
        await bench.configure([other])


@cocotb.test()
async def an_interrupt_arms_no_other_event_queue(dut):
    """eq.around.unarmed: an EQ that is not armed stays so while another EQ causes its interrupt"""
    bench = Around(dut, "unarmed")
    await bench.start(eqs=range(EQS), log=6)
    cqns = bench.rng.sample(range(1 << len(dut.s_cqdb_cqn)), EQS)

    async def event(eqn):
        await bench.cq(cqns[eqn], eqn)
        await bench.play([(0, bench.armed(cqns[eqn], 1))])
        assert bench.events() == [cqns[eqn]], eqn

    for eqn in range(EQS):
        await bench.arm_eq(eqn)
        await event(eqn)
        assert bench.interrupts() == [eqn + 1]
        for other in bench.rng.sample(range(EQS), EQS):
            await event(other)
            assert not bench.interrupts(), (eqn, other)
        # Otherwise an arm would report the EQEs written without an interrupt.
        await bench.configure(range(EQS), log=6)


@cocotb.test()
async def counts_of_event_queues_are_independent(dut):
    """eq.around.counts: EQEs of one EQ, up to the wrap of its count, leave the slots and phases of
    the others"""
    bench = Around(dut, "counts")
    deep = LIMITS.max_eq_depth
    log = deep.bit_length() - 1
    await bench.start(eqs=range(EQS), log=log)
    bench.wr._task.cancel()
    bench.irq._task.cancel()
    dut.m_wr_ready.value = dut.m_irq_ready.value = 1
    counts, order = [0] * EQS, bench.rng.sample(range(EQS), EQS)
    for eqn in range(EQS):
        await bench.cq(eqn, eqn)

    def check(eqn):
        entry = AdminEqe.unpack(int(dut.m_wr_data.value).to_bytes(16, "little"))
        wrap, slot = divmod(counts[eqn], deep)
        seen = (int(dut.m_wr_addr.value) - BASES[eqn], entry.phase)
        assert seen == (16 * slot, 1 - wrap % 2), (eqn, counts[eqn])
        counts[eqn] += 1

    async def post(eqn, entries):
        """Posts at least so many EQEs: both arms are active in every cycle."""
        drive(dut, **bench.armed(eqn, 1), **bench.eq_armed(eqn))
        for _ in range(entries):
            await RisingEdge(dut.m_wr_valid)
            await FallingEdge(dut.clk)
            check(eqn)
        zero(dut, *VALIDS)
        for _ in range(60 + bench.scan_cycles):
            await FallingEdge(dut.clk)
            if dut.m_wr_valid.value == 1:
                check(eqn)

    for eqn in order:
        await post(eqn, deep + 1)
        for other in order:
            await post(other, 2)
