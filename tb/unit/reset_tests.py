# SPDX-License-Identifier: Apache-2.0
"""Tests efa_reset: one sequence for power-on, DEV_CTL and function-level reset, and its wait
conditions."""

from types import SimpleNamespace

import cocotb
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge

from tb.lib.stream import Ports, StreamMonitor, clock_and_reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, high, pulse, rises, steady, until

BEGUN, DRAINED, DONE = 0, 1, 2
ROUND = 1 << 64  # wrap of the cycle counter
QUIET = {"s_cfg_interface": 0, "net_quiet": 1, "rd_idle": 1, "wr_idle": 1, "wr_core_idle": 1,
         "init_done": 1}  # fmt: skip


class Cycle(SimpleNamespace):
    """Holds every port in one cycle."""


class Bench:
    """Models a device whose engines are as idle as a test requests; `steps` are the reported
    events."""

    def __init__(self, dut, **state):
        self.dut, self.pins = dut, Ports(dut, rst="rst_por")
        drive(dut, s_cfg_flr=0, ctl_valid=0, ctl_reset=0, **(QUIET | state))
        self.events = StreamMonitor(self.pins, "ev_reset")
        cocotb.start_soon(self.watch())

    async def watch(self):
        """Checks the invariants of every cycle."""
        dut, before, held, last = self.dut, None, 0, DONE
        wanted = edge = False
        names = ("uptime rst host_rst quiesce in_reset in_flr opened resp_clear sts_progress "
                 "sts_finished m_cfg_flr_done sampled_interface ev_reset_valid ev_reset_data "
                 "s_cfg_flr s_cfg_interface ctl_valid ctl_reset init_done").split()  # fmt: skip
        settle = timing("efa_reset", "core").latency
        while True:
            await RisingEdge(dut.clk)
            if dut.rst_por.value != 0:
                before, held, last = None, 0, DONE
                wanted = edge = False
                continue
            now = Cycle(**{name: int(getattr(dut, name).value) for name in names},
                        quiet=[int(getattr(dut, name).value) for name in QUIET])  # fmt: skip
            assert now.quiesce == now.in_reset and not (now.m_cfg_flr_done and now.quiesce)
            assert now.host_rst == (now.rst and (now.in_flr or not now.opened))
            assert now.resp_clear == (now.m_cfg_flr_done and now.ctl_valid and now.ctl_reset)
            assert now.sts_progress <= (now.in_reset and not now.in_flr)
            assert not (now.sts_progress and now.sts_finished)
            if before is None:
                counted = (now.uptime + int(dut.UPTIME_LEFT.value)) % ROUND
                assert counted <= 1, "uptime started before power-on"
            else:
                last = self.follows(before, now, last)
                # A request is served by a sequence that begins after its edge.
                if now.ev_reset_valid and now.ev_reset_data == BEGUN and now.in_flr:
                    wanted = False
                wanted = wanted or edge
                assert not (wanted and now.m_cfg_flr_done), "an FLR request was lost"
                if before.rst and not now.rst:
                    assert not held or held == settle
                    held = 0
                elif now.rst and (held or not before.rst):
                    held += 1
            edge = bool(now.s_cfg_flr and not (before and before.s_cfg_flr))
            before = now

    def follows(self, before, now, last):
        """Checks a cycle against the previous one; returns the last reported step."""
        assert now.uptime == (before.uptime + 1) % ROUND
        assert now.opened >= before.opened
        if now.sampled_interface != before.sampled_interface:
            assert before.quiesce and not now.quiesce
        if before.quiesce and not now.quiesce:
            assert now.sampled_interface == before.s_cfg_interface
        if before.resp_clear:
            assert (now.sts_progress, now.sts_finished) == (1, 0)
            assert now.ev_reset_valid and now.ev_reset_data == BEGUN
        assert now.rst <= (before.rst or now.ev_reset_valid)
        if now.opened and not before.opened:
            assert before.init_done and not now.ev_reset_valid
        if not now.ev_reset_valid:
            return last
        step = now.ev_reset_data
        if step == BEGUN:
            assert not now.sts_finished and now.quiesce
        elif step == DRAINED:
            _, net_quiet, rd_idle, wr_idle, wr_core_idle, _ = before.quiet
            assert last == BEGUN and now.rst and not before.rst
            assert net_quiet and rd_idle and (wr_idle if now.in_flr else wr_core_idle)
        else:
            assert last == DRAINED and not now.quiesce and not now.in_flr
            assert now.sts_finished == before.sts_progress
        return step

    @property
    def steps(self):
        return [beat["data"] for beat in self.events.beats]

    async def idle(self):
        """Powers the device on and clears the reported events."""
        await clock_and_reset(self.pins)
        await until(self.dut, high(self.dut.m_cfg_flr_done))
        self.events.beats.clear()

    async def store(self, value):
        """Stores to DEV_CTL."""
        await pulse(self.dut, "ctl_valid", ctl_reset=value)
        self.dut.ctl_reset.value = 0

    async def flr(self):
        """Drives a rising edge of the FLR request, which stays high."""
        self.dut.s_cfg_flr.value = 0
        await RisingEdge(self.dut.clk)
        self.dut.s_cfg_flr.value = 1
        await RisingEdge(self.dut.clk)


@cocotb.test()
async def the_interface_strap_is_sampled_where_a_reset_ends(dut):
    """host.reset.interface: The strap is sampled at the end of power-on, register and
    function-level reset; uptime continues."""
    bench = Bench(dut, s_cfg_interface=3)
    await bench.idle()
    assert dut.sampled_interface.value == 3
    dut.s_cfg_interface.value = 1
    await steady(dut, 5, sampled_interface=3)
    await bench.store(1)
    await steady(dut, 40, sampled_interface=3)
    await bench.store(0)
    await until(dut, high(dut.m_cfg_flr_done))
    assert dut.sampled_interface.value == 1
    dut.s_cfg_interface.value = 2
    await bench.flr()
    await steady(dut, 3, sampled_interface=1)
    await until(dut, high(dut.m_cfg_flr_done))
    assert dut.sampled_interface.value == 2
    before = int(dut.uptime.value)
    await ClockCycles(dut.clk, 20)
    assert int(dut.uptime.value) == before + 20


@cocotb.test()
async def power_on(dut):
    """host.reset.power_on: Power-on resets core and host side, waits for the tables and reports no
    event."""
    bench = Bench(dut, init_done=0)
    await clock_and_reset(bench.pins)
    while dut.rst.value == 1:
        assert dut.host_rst.value == 1
        await RisingEdge(dut.clk)
    assert dut.host_rst.value == 0
    await steady(dut, 50, in_reset=1, opened=0, m_cfg_flr_done=0, sts_progress=0)
    dut.init_done.value = 1
    await until(dut, high(dut.opened, dut.m_cfg_flr_done))
    await steady(dut, 5, in_reset=0, quiesce=0, sts_progress=0, sts_finished=0)
    assert not bench.steps


@cocotb.test()
async def register_reset(dut):
    """host.reset.register: A register reset drains, resets the core alone and finishes after a
    store of DEV_CTL = 0."""
    bench = Bench(dut)
    await bench.idle()
    drive(dut, ctl_valid=1, ctl_reset=1)
    await RisingEdge(dut.clk)
    assert dut.resp_clear.value == 1
    drive(dut, ctl_valid=0)
    await rises(dut, dut.sts_progress, timing("efa_reset", "store").latency)
    assert dut.quiesce.value == 1
    cycles = await until(dut, high(dut.rst))
    assert cycles == timing("efa_reset", "drain").latency
    length = 0
    while dut.rst.value == 1:
        assert dut.host_rst.value == 0
        length += 1
        await RisingEdge(dut.clk)
    assert length == timing("efa_reset", "core").latency
    await steady(dut, 40, sts_progress=1, sts_finished=0, quiesce=1, m_cfg_flr_done=0)
    await bench.store(0)
    await until(dut, high(dut.sts_finished))
    assert dut.sts_progress.value == 0
    await steady(dut, 5, quiesce=0, in_reset=0)
    assert bench.steps == [BEGUN, DRAINED, DONE]
    await bench.store(1)
    await RisingEdge(dut.clk)
    assert (dut.sts_progress.value, dut.sts_finished.value) == (1, 0)


@cocotb.test()
@cocotb.parametrize(what=["net_quiet", "rd_idle", "wr_core_idle"])
async def register_drain(dut, what):
    """host.reset.drain: A register reset waits for packets, reads and engine writes."""
    bench = Bench(dut, wr_idle=0)
    await bench.idle()
    drive(dut, **{what: 0})
    await bench.store(1)
    await bench.store(0)
    await steady(dut, 60, rst=0)
    assert bench.steps == [BEGUN]
    drive(dut, **{what: 1})
    await until(dut, high(dut.sts_finished))
    assert bench.steps == [BEGUN, DRAINED]
    await RisingEdge(dut.clk)
    assert bench.steps == [BEGUN, DRAINED, DONE]


@cocotb.test()
async def function_level(dut):
    """host.reset.flr: An FLR waits for every write, resets the host side too, and ends once,
    without a store."""
    bench = Bench(dut)
    await bench.idle()
    dut.wr_idle.value = 0
    await bench.flr()
    await until(dut, high(dut.in_flr))
    await steady(dut, 60, rst=0, sts_progress=0)
    dut.wr_idle.value = 1
    await until(dut, high(dut.rst))
    assert dut.host_rst.value == 1
    await until(dut, high(dut.m_cfg_flr_done))
    await steady(dut, 60, in_flr=0, quiesce=0, sts_finished=0)
    assert bench.steps == [BEGUN, DRAINED, DONE]


@cocotb.test()
@cocotb.parametrize(after=[0, 4, 12, 20, 28, 40])
async def flr_in_a_register_reset(dut, after):
    """host.reset.takeover: An FLR takes over a register reset at any step and ends without a
    store."""
    bench = Bench(dut)
    await bench.idle()
    await bench.store(1)
    await ClockCycles(dut.clk, after + 1)
    await bench.flr()
    await until(dut, high(dut.host_rst), cycles=100)
    await until(dut, high(dut.m_cfg_flr_done), cycles=100)
    await RisingEdge(dut.clk)
    assert (dut.sts_progress.value, dut.sts_finished.value) == (0, 0)
    assert bench.steps[0] == BEGUN and bench.steps[-1] == DONE
    assert bench.steps.count(BEGUN) == 2


@cocotb.test()
async def any_order(dut):
    """host.reset.any: Stores, FLR requests and busy engines in any order end in a running
    device."""
    bench = Bench(dut)
    rng = rng_for("any_order")
    await bench.idle()
    stores, requests, quiet = 0.1, 0.03, 0.95
    for turn in range(4000):
        if turn >= 3000 and turn % 100 == 0:  # stores and requests in the same cycle
            stores, requests, quiet = rng.choice((0.1, 0.7)), rng.choice((0.03, 0.5)), 1.0
        drive(dut, ctl_valid=rng.random() < stores, ctl_reset=rng.getrandbits(1))
        dut.s_cfg_flr.value = rng.random() < requests
        for name in QUIET:
            drive(dut, **{name: rng.random() < quiet})
        dut.s_cfg_interface.value = rng.getrandbits(2)
        await RisingEdge(dut.clk)
        if dut.rst.value == 1:
            assert dut.quiesce.value == 1
        assert dut.quiesce.value == dut.in_reset.value
    drive(dut, ctl_valid=0, s_cfg_flr=0, **QUIET)
    await ClockCycles(dut.clk, 100)
    await bench.store(0)
    await ClockCycles(dut.clk, 100)
    await steady(dut, 5, quiesce=0, sts_progress=0, m_cfg_flr_done=1)
    assert bench.steps.count(DRAINED) > 10


@cocotb.test()
async def as_soon_as_it_may(dut):
    """host.reset.soon: Each wait, for idle engines or for tables, ends in the cycle of its
    condition; a second request aborts nothing; rst_por resets both sides at once."""
    bench = Bench(dut)
    await bench.idle()
    for wait in range(20, 29):
        drive(dut, net_quiet=0, init_done=0)
        await bench.store(1)
        await ClockCycles(dut.clk, wait)
        dut.net_quiet.value = 1
        await RisingEdge(dut.clk)
        await rises(dut, dut.rst, 1)
        await bench.store(1)
        await ClockCycles(dut.clk, wait)
        dut.init_done.value = 1
        await steady(dut, 9, sts_finished=0)
        await bench.store(0)
        await until(dut, high(dut.sts_finished))
        dut.init_done.value = 0
        await bench.flr()
        dut.s_cfg_flr.value = 0
        await ClockCycles(dut.clk, 20 + wait)
        dut.init_done.value = 1
        await RisingEdge(dut.clk)
        await rises(dut, dut.m_cfg_flr_done, 1)
    for wait in range(2):
        await bench.store(1)
        await ClockCycles(dut.clk, 40 + wait)
        await bench.flr()
        await rises(dut, dut.in_flr, 2)
        await until(dut, high(dut.m_cfg_flr_done))
    dut.rst_por.value = 1
    await ReadOnly()
    assert (dut.rst.value, dut.host_rst.value) == (1, 1)
