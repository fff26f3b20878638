# SPDX-License-Identifier: Apache-2.0
"""Tests efa_eq_arms: armed CQs are queued once, with their last index; dropped arms are marked."""

import cocotb
from cocotb.triggers import ReadOnly, RisingEdge

from efa_cosim.layouts.defs import DOORBELL_BITS
from tb.lib.dont_care import dont_care
from tb.lib.stream import rng_for, start_clock
from tb.lib.waits import drive, zero

LATENCY = 2  # cycles from the effect of a doorbell to m_arm


class Env:
    """Drives the module cycle by cycle and compares each output with a model of the arms.

    line: [CQ, cycle of its arm] in order; wanted, index: of each CQ; doorbell: takes effect in this
    cycle; shown: outputs since the last accepted arm.
    """

    def __init__(self, dut):
        self.dut, self.rng = dut, rng_for("eq_arms")
        self.cqs = 1 << len(dut.s_cqdb_cqn)
        self.now = 0
        self.forget()

    def forget(self):
        self.line, self.wanted, self.index = [], {}, {}
        self.doorbell = self.shown = None

    async def start(self, share=0.5):
        """Resets the module for one cycle, while its inputs are in use; returns the CQs of the init
        sweep.

        The sweep passes a share of the CQs in any order: the flag of any other CQ is unknown.
        """
        dut, rng = self.dut, self.rng
        if self.now == 0:
            start_clock(dut.clk)
            await RisingEdge(dut.clk)
        self.forget()
        drive(dut, rst=1, s_init_run=0, m_arm_ready=0, s_clear_valid=1)
        self.doorbells(range(self.cqs), 1)
        await RisingEdge(dut.clk)
        drive(dut, rst=0, s_init_run=1)
        swept = rng.sample(range(self.cqs), round(self.cqs * share))
        for at in range(self.cqs):
            # No doorbell and no clear acts during the sweep; the last cycle has none of them.
            dut.s_init_cqn.value = swept[at % len(swept)]
            self.doorbells(swept, at < self.cqs - 1)
            dut.s_clear_valid.value = 0
            await ReadOnly()
            assert dut.m_arm_valid.value == 0, "an arm during the init sweep"
            await RisingEdge(dut.clk)
        zero(dut, "s_init_run", "s_cqdb_valid")
        return swept

    async def sweep(self, cqns):
        """Drives the sweep over these CQs without other traffic."""
        for cqn in cqns:
            drive(self.dut, s_init_run=1, s_init_cqn=cqn)
            self.wanted[cqn] = 0
            await RisingEdge(self.dut.clk)
            self.now += 1
        zero(self.dut, "s_init_run")

    def doorbells(self, cqns, share):
        """Drives a doorbell in this share of the cycles; returns it as (CQ, arm, index) or None."""
        rng, cqn = self.rng, self.rng.choice(cqns)
        value = dont_care(DOORBELL_BITS.CQ_DB, rng, ARM=int(rng.random() < 0.7))
        valid = int(rng.random() < share)
        drive(self.dut, s_cqdb_valid=valid, s_cqdb_cqn=cqn,
              s_cqdb_value=DOORBELL_BITS.CQ_DB.pack(**value))  # fmt: skip
        return (cqn, value["ARM"], value["CONSUMER_INDEX"]) if valid else None

    async def step(self, cqns, doorbells, clears, ready):
        """Drives one cycle on these CQs and checks it."""
        dut, rng = self.dut, self.rng
        received = self.doorbells(cqns, doorbells)
        clear, cleared = rng.random() < clears, rng.choice(cqns)
        accepted = not clear and rng.random() < ready
        drive(dut, s_clear_valid=int(clear), s_clear_cqn=cleared, m_arm_ready=int(accepted))
        await ReadOnly()
        due = bool(self.line) and self.line[0][1] + LATENCY <= self.now
        assert dut.m_arm_valid.value == due, self.line
        if due:
            assert dut.m_arm_cqn.value == self.line[0][0], self.line
        if self.shown:
            assert (dut.m_arm_wanted.value, dut.m_arm_index.value) == self.shown
        if due and accepted:
            cqn, _ = self.line.pop(0)
            self.shown = (self.wanted[cqn], self.index[cqn])
        if self.doorbell:
            cqn, arm, self.index[cqn] = self.doorbell
            if arm:
                self.wanted[cqn] = 1
                if all(cqn != other for other, _ in self.line):
                    self.line.append((cqn, self.now))
        if clear:
            self.wanted[cleared] = 0
        self.doorbell = received
        await RisingEdge(dut.clk)
        self.now += 1


@cocotb.test()
@cocotb.parametrize(share=[0.5, 1.0])
async def a_sweep_clears_the_flags_that_it_passes(dut, share):
    """queue.eq_arms.sweep: a sweep in any order clears the flag of each CQ that it passes and of no
    other; doorbells in the cycle of a reset or during the sweep have no effect"""
    env = Env(dut)
    for _ in range(2):
        swept = await env.start(share)
        for passed in ([], env.rng.sample(swept, len(swept) // 2)):
            for cqn in env.rng.sample(swept, len(swept)):
                await env.step([cqn], 1, 0, 0 if passed else 0.5)
            for _ in range(4):
                await env.step(swept, 0, 0, 0)
            await env.sweep(passed)
            for _ in range(4 * len(swept)):
                await env.step(swept, 0, 0, 0.9)
            assert not env.line


@cocotb.test()
@cocotb.parametrize(ready=[0.2, 0.9])
async def arms_in_any_order(dut, ready):
    """queue.eq_arms.order: doorbells and clears of few or all CQs give each armed CQ once, in order
    and in time; the result of an arm stays until the next one"""
    env = Env(dut)
    for few in (0, 1, 2, 4, 0):
        swept = await env.start()
        cqns = env.rng.sample(swept, few) if few else swept
        # A clear would also set an unknown flag.
        for _ in range(4 * len(cqns)):
            await env.step(cqns, 0.7, 0, ready)
        for _ in range(4 * len(cqns) + 100):
            await env.step(cqns, 0.7, 0.2, ready)
        for _ in range(2 * len(cqns) + 20):
            await env.step(cqns, 0.05, 0.05, 0.9)
