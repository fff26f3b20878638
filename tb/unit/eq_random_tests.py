# SPDX-License-Identifier: Apache-2.0
"""Tests efa_eq against a reference model: every CQ and every EQ, independent of the others.

Actions run one at a time, so that the expected result is unique; sequences of arms are queued
behind an event that the host does not accept.
"""

from collections import deque

import cocotb
from cocotb.triggers import ClockCycles

from efa_cosim.layouts.defs import EVENTS, INTERNAL, LIMITS, REG_BITS, AdminEqe, AdminEqeU
from tb.lib.dont_care import dont_care
from tb.lib.stream import cycle, rng_for
from tb.lib.waits import hold, pulse, until
from tb.unit.eq_bench import Bench
from tb.unit.queue_bench import Pulses

EQS = 1 << LIMITS.eqn_w
COUNT = 0xFFFF


class Cq:
    """Holds the model state of a CQ."""

    def __init__(self, eqn=0, live=0):
        self.eqn, self.live = eqn, live
        self.armed = self.posted = self.pending = False
        self.total = self.consumed = 0


class Eq:
    """Holds the model state of an EQ."""

    def __init__(self, context):
        self.context, self.live = context, context["live"]
        self.armed = self.new = False
        self.count = 0


class RefModel:
    """Models the expected outputs in `log`: ("eqe", number, entry, event) and ("irq", vector)."""

    def __init__(self, cqs):
        self.cqs = [Cq() for _ in range(cqs)]
        self.eqs = [Eq({"live": 0}) for _ in range(EQS)]
        self.log = deque()

    def commit(self, cqn, total):
        cq = self.cqs[cqn]
        cq.total = total
        if cq.armed:
            cq.armed = False
            self.event(cqn)

    def arm(self, cqn):
        cq = self.cqs[cqn]
        if not cq.live:
            return
        cq.armed = cq.total == cq.consumed
        if not cq.armed:
            self.event(cqn)

    def event(self, cqn):
        cq = self.cqs[cqn]
        if cq.live and self.eqs[cq.eqn].live:
            if cq.posted:
                cq.pending = True
            else:
                self.post(cqn)

    def post(self, cqn):
        """Posts one EQE, and its message if the EQ is armed."""
        self.cqs[cqn].posted = True
        eqn = self.cqs[cqn].eqn
        eq = self.eqs[eqn]
        wrap, slot = divmod(eq.count, 1 << eq.context["log"])
        entry = AdminEqe(phase=1 - wrap % 2, u=AdminEqeU())
        entry.u.comp_event.cqn = cqn
        data = int.from_bytes(entry.pack(), "little")
        addr = (eq.context["base"] << 6) + 16 * slot & (1 << 64) - 1
        self.log.append(("eqe", addr, data, EVENTS.eqe.pack(eqn=eqn, cqn=cqn)))
        eq.count += 1
        eq.new = True
        if eq.armed:
            self.message(eq)

    def message(self, eq):
        self.log.append(("irq", eq.context["vector"]))
        eq.armed = eq.new = False

    def arm_eq(self, eqn):
        eq = self.eqs[eqn]
        if not eq.live:
            return
        if eq.new:
            self.message(eq)
        else:
            eq.armed = True
        for cqn, cq in enumerate(self.cqs):
            if cq.live and cq.eqn == eqn and cq.posted:
                again = cq.pending
                cq.posted = cq.pending = False
                if again:
                    self.post(cqn)


class Env(Bench):
    """Drives the engine and its reference model."""

    def __init__(self, dut):
        self.held = False
        super().__init__(dut, lambda: self.held)
        self.commits._task.cancel()
        dut.s_commit_valid.value = 0
        self.rng = rng_for("eq_random")
        self.ref = RefModel(1 << len(dut.s_cqdb_cqn))
        self.numbers = range(len(self.ref.cqs))

    async def make_eq(self, eqn, live=1):
        context = dont_care(INTERNAL.eqc, self.rng, live=live, log=self.rng.randrange(10))
        if live or not self.ref.eqs[eqn].live:
            self.ref.eqs[eqn] = Eq(context)
        self.ref.eqs[eqn].live = live
        self.ref.eqs[eqn].armed = self.ref.eqs[eqn].new = False
        await pulse(self.dut, "s_eqc_valid", s_eqc_eqn=eqn, s_eqc_data=INTERNAL.eqc.pack(**context))

    async def make_cq(self, cqn, share=0.85, eqn=None):
        """Creates a CQ in interrupt mode, in polling mode or without a valid context."""
        live, eqn = self.rng.random() < share, self.rng.randrange(EQS) if eqn is None else eqn
        self.ref.cqs[cqn] = Cq(eqn, live)
        there = (1, 1) if live else self.rng.choice(((1, 0), (0, 1), (0, 0)))
        context = dont_care(INTERNAL.cqc, self.rng, live=there[0], intr=there[1], eqn=eqn)
        await pulse(self.dut, "s_cqc_valid", s_cqc_cqn=cqn, s_cqc_data=INTERNAL.cqc.pack(**context))

    async def commit(self, cqn, step=1):
        total = self.ref.cqs[cqn].total + step & COUNT
        self.ref.commit(cqn, total)
        await pulse(self.dut, "s_commit_valid", s_commit_cqn=cqn, s_commit_total=total)

    async def ring(self, cqn, consumed, arm):
        self.ref.cqs[cqn].consumed = consumed
        await self.arm_cq(cqn, consumed, arm)

    async def ring_eq(self, eqn, arm=1, number=None):
        # A store without an existing EQ, or without the arm bit, has no effect.
        value = REG_BITS.EQ_DB.pack(EQN=eqn if number is None else number, ARM=arm)
        await pulse(self.dut, "s_eqdb_valid", s_eqdb_value=value)

    def read(self, cqn):
        """Returns a consumer index: all CQEs consumed, or not."""
        total = self.ref.cqs[cqn].total
        return self.rng.choice((total, total, total ^ 1 << self.rng.randrange(16)))

    def scan(self):
        """Returns the maximum cycles of an EQ arm in the current state."""
        return 16 + 4 * sum(cq.posted for cq in self.ref.cqs)

    async def quiet(self, cycles=0):
        """Waits until the engine is idle, then checks all outputs against the model."""
        await ClockCycles(self.dut.clk, 14 + cycles)
        wanted = self.ref.log
        entries = [entry for entry in wanted if entry[0] == "eqe"]
        assert self.order == [entry[0] for entry in wanted], (self.order, [e[0] for e in wanted])
        assert [(b["addr"], b["data"]) for b in self.wr.beats] == [e[1:3] for e in entries]
        assert self.reported.values() == [entry[3] for entry in entries]
        assert self.interrupts() == [entry[1] for entry in wanted if entry[0] == "irq"]
        for seen in (self.order, self.wr.beats, self.reported.seen, wanted):
            seen.clear()

    async def anything(self):
        """Performs one random action and checks its outputs."""
        rng, cqn, eqn = self.rng, self.rng.choice(self.numbers), self.rng.randrange(EQS)
        kind = rng.random()
        if kind < 0.42:
            await self.ring(cqn, self.read(cqn), arm := int(rng.random() < 0.85))
            if arm:
                self.ref.arm(cqn)
        elif kind < 0.80:
            await self.commit(cqn, rng.choice((1, 1, 2, 256)))
        elif kind < 0.88:
            await self.make_cq(cqn)
        elif kind < 0.96:
            foreign = rng.choice((None, None, None, eqn | 1 << rng.randrange(LIMITS.eqn_w, 16)))
            arm, cycles = int(rng.random() < 0.9), self.scan()
            await self.ring_eq(eqn, arm, foreign)
            if arm and foreign is None:
                self.ref.arm_eq(eqn)
            await self.quiet(cycles)
        else:
            await self.make_eq(eqn, int(rng.random() < 0.8))
        await self.quiet()

    async def arm_eq(self, eqn):
        """Arms an EQ and checks the released events."""
        cycles = self.scan()
        await self.ring_eq(eqn)
        self.ref.arm_eq(eqn)
        await self.quiet(cycles)

    async def start_all(self):
        """Creates all EQs, every second one armed, and all CQs."""
        await super().start(eqs=())
        self.reported = Pulses(self.dut, "ev_eqe", "data")
        for eqn in range(EQS):
            await self.make_eq(eqn)
            if eqn % 2:
                await self.arm_eq(eqn)
        for cqn in self.numbers:
            await self.make_cq(cqn)

    def free(self):
        """Returns the CQs that can post an event."""
        return [n for n, cq in enumerate(self.ref.cqs)
                if cq.live and not cq.posted and self.ref.eqs[cq.eqn].live]  # fmt: skip

    async def stuck(self):
        """Starts an event that the host does not accept; returns its CQ, or None if no CQ can
        post."""
        free = self.free()
        if not free:
            return None
        cqn, self.held = self.rng.choice(free), True
        await ClockCycles(self.dut.clk, 3)
        await self.ring(cqn, self.ref.cqs[cqn].total ^ 1, 1)
        await ClockCycles(self.dut.clk, 8)
        self.ref.arm(cqn)
        return cqn


@cocotb.test()
async def every_queue_by_itself(dut):
    """eq.random.each: any action on any CQ and EQ has exactly the expected outputs"""
    env = Env(dut)
    await env.start_all()
    for _ in range(700):
        await env.anything()


@cocotb.test()
async def every_queue_in_every_state_is_made_anew(dut):
    """eq.random.anew: a CQ created again in any state (armed, posted, pending) keeps no state of
    its predecessor"""
    env = Env(dut)
    await env.start_all()
    rng, cqs = env.rng, env.ref.cqs

    async def ring(cqn, read):
        total = cqs[cqn].total
        await env.ring(cqn, total if read else total ^ 1 << rng.randrange(16), 1)
        env.ref.arm(cqn)
        await env.quiet()

    for before in rng.sample(range(4), 4):
        for cqn in rng.sample(env.numbers, len(env.numbers)):
            # State before the creation: 0 a commit only, 1 armed, 2 event posted, 3 event pending.
            await env.commit(cqn, rng.choice((1, 256)))
            await env.quiet()
            for arm in range(before):
                await ring(cqn, arm == 0)
            await env.make_cq(cqn)
            await env.quiet()
            if rng.random() < 0.3:
                await env.commit(cqn)
                await env.quiet()
            await ring(cqn, rng.random() < 0.5)
            await env.commit(cqn)
            await env.quiet()
        for eqn in rng.sample(range(EQS), EQS):
            if rng.random() < 0.4:
                await env.make_eq(eqn)
            await env.arm_eq(eqn)


@cocotb.test()
@cocotb.parametrize(others=[False, True])
async def a_second_event_is_its_own_queues(dut, others):
    """eq.random.second: an arm of an EQ releases no second event of a CQ with one event, with
    and without pending events of CQs on other EQs"""
    env = Env(dut)
    await env.start_all()
    rng, own = env.rng, env.rng.randrange(EQS)

    async def events(cqn, eqn, count):
        """Creates the CQ on this EQ with `count` events."""
        await env.make_cq(cqn, 1, eqn)
        for _ in range(count):
            await env.ring(cqn, 1, 1)
            env.ref.arm(cqn)
            await env.quiet()

    async def elsewhere(cqn):
        await events(cqn, (own + rng.randrange(1, EQS)) % EQS, 2 * others)

    for cqn in env.numbers:
        await elsewhere(cqn)
    for cqn in rng.sample(env.numbers, len(env.numbers)):
        await events(cqn, own, 1)
        await env.arm_eq(own)
        await elsewhere(cqn)


@cocotb.test()
async def all_queues_in_a_row(dut):
    """eq.random.row: arms of most CQs and commits of most CQs in random order give the expected
    events"""
    env = Env(dut)
    await env.start_all()
    rng = env.rng

    async def arms():
        for cqn in rng.sample(env.numbers, len(env.numbers) * 4 // 5):
            await env.ring(cqn, env.read(cqn), 1)
            env.ref.arm(cqn)
            await ClockCycles(dut.clk, 1)
        await env.quiet(8 * len(env.numbers))

    async def commits():
        for cqn in rng.choices(env.numbers, k=len(env.numbers)):
            cq = env.ref.cqs[cqn]
            env.ref.commit(cqn, total := cq.total + (1 << rng.randrange(16)) & COUNT)
            await hold(dut, "s_commit_valid", "s_commit_ready", s_commit_cqn=cqn,
                       s_commit_total=total)  # fmt: skip
        await env.quiet(100)

    for turn in range(12):
        for step in (arms, commits) if turn % 2 else (commits, arms):
            await step()
        for cqn in rng.sample(env.numbers, 10):
            await env.make_cq(cqn)
        for eqn in rng.sample(range(EQS), rng.choice((0, EQS - 2, EQS))):
            if rng.random() < 0.1:
                await env.make_eq(eqn)
            await env.arm_eq(eqn)


@cocotb.test()
async def arms_that_stand_in_line(dut):
    """eq.random.line: arms queued behind a stuck event act once per CQ with the last doorbell;
    arms of a CQ created again are dropped"""
    env = Env(dut)
    await env.start_all()
    rng = env.rng
    for _ in range(60):
        first = await env.stuck()
        if first is None:
            await env.make_eq(rng.randrange(EQS))
            continue
        line, requested = [], set()
        for _ in range(rng.choice((4, 20, 60))):
            cqn = rng.choice([n for n in env.numbers if n != first])
            if rng.random() < 0.1:
                await env.make_cq(cqn)
                requested.discard(cqn)
                continue
            arm = int(rng.random() < 0.9)
            await env.ring(cqn, env.read(cqn), arm)
            if arm:
                requested.add(cqn)
                line += [cqn] if cqn not in line else []
        eqn, cycles = rng.choice((None, rng.randrange(EQS))), env.scan()
        if eqn is not None:
            await env.ring_eq(eqn)
            env.ref.arm_eq(eqn)
        env.held = False
        for cqn in line:
            if cqn in requested:
                env.ref.arm(cqn)
        await env.quiet(8 * len(line) + cycles)
        # EQ arms act in ascending EQ number; arms of an EQ created again meanwhile are dropped.
        if rng.random() < 0.5 and (first := await env.stuck()) is not None:
            some, cycles = rng.sample(range(EQS), rng.randrange(1, EQS)), env.scan()
            for eqn in some:
                await env.ring_eq(eqn)
            gone = {eqn for eqn in some
                    if eqn != env.ref.cqs[first].eqn and rng.random() < 0.3}  # fmt: skip
            for eqn in gone:
                await env.make_eq(eqn)
            env.held = False
            for eqn in sorted(set(some) - gone):
                env.ref.arm_eq(eqn)
            await env.quiet(cycles * len(some))
        for _ in range(8):
            await env.commit(rng.choice(env.numbers))
            await env.quiet()


@cocotb.test()
async def a_queue_stands_in_line_once(dut):
    """eq.random.once: a CQ armed once or three times behind a stuck event is processed once"""
    env = Env(dut)
    await env.start_all()
    rng, cqs, took = env.rng, env.ref.cqs, []
    for times in (1, 3):
        for eqn in range(EQS):
            await env.make_eq(eqn)
        first = await env.stuck()
        then, last = rng.sample(env.free(), 2)
        line = [n for n in rng.sample(env.numbers, 128) if n not in (first, then, last)]
        for cqn in [then, *line * times]:
            await env.ring(cqn, cqs[cqn].total ^ (cqn == then), 1)
        # The engine continues to the next event and then to the end, with arms all the time.
        env.held = False
        await until(dut, lambda: env.reported.seen, "the first event", cycles=20)
        env.held = True
        await ClockCycles(dut.clk, 8)
        for cqn in line * (times - 1):
            await env.ring(cqn, cqs[cqn].total, 1)
        env.held, released = False, cycle()
        for cqn in line[-40:] * (times // 2):
            await env.ring(cqn, cqs[cqn].total, 1)
        await env.ring(last, cqs[last].total ^ 1, 1)
        for cqn in (then, *line, last):
            env.ref.arm(cqn)
        await ClockCycles(dut.clk, 4 * len(line))
        took.append(env.reported.seen[-1][0] - released)
        await env.quiet()
        # Each CQ gets an event, then a pending event; the arms of all EQs release all of them.
        for cqn in rng.sample(env.numbers, len(env.numbers)):
            await env.commit(cqn)
            await ClockCycles(dut.clk, 6)
        for cqn in rng.sample(env.numbers, len(env.numbers)):
            await env.ring(cqn, cqs[cqn].total ^ 1, 1)
            env.ref.arm(cqn)
            await ClockCycles(dut.clk, 6)
        await env.quiet()
        for eqn in [*rng.sample(range(EQS), EQS), *range(EQS)]:
            await env.arm_eq(eqn)
    assert took[0] == took[1]


@cocotb.test()
async def a_queue_made_anew_in_the_line_is_not_armed(dut):
    """eq.random.cleared: queued arms of a CQ created again are dropped; a CQ without interrupt
    mode posts no event"""
    env = Env(dut)
    await env.start_all()
    for _ in range(2):
        first = await env.stuck()
        others = [n for n in env.numbers if n != first]
        for cqn in others:
            await env.ring(cqn, 1, 1)
        for cqn in others:
            await env.make_cq(cqn, share=1)
        env.held = False
        await env.quiet(4 * len(others))
        for cqn in others:
            await env.commit(cqn)
        await env.quiet()
    # Totals of the previous CQ must not count for the new CQ.
    for cqn in env.numbers:
        await env.make_cq(cqn, share=1)
        await env.ring(cqn, 0, 1)
        env.ref.arm(cqn)
    await env.quiet(4 * len(others))
    for cqn in env.numbers:
        await env.make_cq(cqn, share=0)
        await env.ring(cqn, 1, 1)
        await env.commit(cqn)
    await env.quiet(4 * len(others))
