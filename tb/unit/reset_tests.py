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
QUIET = {"s_cfg_interface": 0, "s_net_quiet": 1, "s_rd_idle": 1, "s_wr_idle": 1,
         "s_wr_core_idle": 1, "s_init_done": 1}  # fmt: skip


class Cycle(SimpleNamespace):
    """Holds every port in one cycle."""


class Bench:
    """Models a device whose engines are as idle as a test requests; `steps` are the reported
    events."""

    def __init__(self, dut, **state):
        self.dut, self.pins = dut, Ports(dut, rst="rst_por")
        drive(dut, s_cfg_flr=0, s_ctl_valid=0, s_ctl_reset=0, **(QUIET | state))
        self.events = StreamMonitor(self.pins, "ev_reset")
        cocotb.start_soon(self.watch())

    async def watch(self):
        """Checks the invariants of every cycle."""
        dut, before, held, last = self.dut, None, 0, DONE
        wanted = edge = False
        names = ("rst m_uptime m_host_rst m_quiesce m_in_reset m_in_flr m_opened m_resp_clear "
                 "m_sts_progress m_sts_finished m_cfg_flr_done m_cfg_sampled_interface "
                 "ev_reset_valid ev_reset_data s_cfg_flr s_cfg_interface s_ctl_valid s_ctl_reset "
                 "s_init_done").split()  # fmt: skip
        settle = timing("efa_reset", "core").latency
        while True:
            await RisingEdge(dut.clk)
            if dut.rst_por.value != 0:
                before, held, last = None, 0, DONE
                wanted = edge = False
                continue
            now = Cycle(**{name: int(getattr(dut, name).value) for name in names},
                        quiet=[int(getattr(dut, name).value) for name in QUIET])  # fmt: skip
            assert now.m_quiesce == now.m_in_reset and not (now.m_cfg_flr_done and now.m_quiesce)
            assert now.m_host_rst == (now.rst and (now.m_in_flr or not now.m_opened))
            assert now.m_resp_clear == (now.m_cfg_flr_done and now.s_ctl_valid and now.s_ctl_reset)
            assert now.m_sts_progress <= (now.m_in_reset and not now.m_in_flr)
            assert not (now.m_sts_progress and now.m_sts_finished)
            if before is None:
                counted = (now.m_uptime + int(dut.UPTIME_LEFT.value)) % ROUND
                assert counted <= 1, "uptime started before power-on"
            else:
                last = self.follows(before, now, last)
                # A request is served by a sequence that begins after its edge.
                if now.ev_reset_valid and now.ev_reset_data == BEGUN and now.m_in_flr:
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
        assert now.m_uptime == (before.m_uptime + 1) % ROUND
        assert now.m_opened >= before.m_opened
        if now.m_cfg_sampled_interface != before.m_cfg_sampled_interface:
            assert before.m_quiesce and not now.m_quiesce
        if before.m_quiesce and not now.m_quiesce:
            assert now.m_cfg_sampled_interface == before.s_cfg_interface
        if before.m_resp_clear:
            assert (now.m_sts_progress, now.m_sts_finished) == (1, 0)
            assert now.ev_reset_valid and now.ev_reset_data == BEGUN
        assert now.rst <= (before.rst or now.ev_reset_valid)
        if now.m_opened and not before.m_opened:
            assert before.s_init_done and not now.ev_reset_valid
        if not now.ev_reset_valid:
            return last
        step = now.ev_reset_data
        if step == BEGUN:
            assert not now.m_sts_finished and now.m_quiesce
        elif step == DRAINED:
            _, net_quiet, rd_idle, wr_idle, wr_core_idle, _ = before.quiet
            assert last == BEGUN and now.rst and not before.rst
            assert net_quiet and rd_idle and (wr_idle if now.m_in_flr else wr_core_idle)
        else:
            assert last == DRAINED and not now.m_quiesce and not now.m_in_flr
            assert now.m_sts_finished == before.m_sts_progress
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
        await pulse(self.dut, "s_ctl_valid", s_ctl_reset=value)
        self.dut.s_ctl_reset.value = 0

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
    assert dut.m_cfg_sampled_interface.value == 3
    dut.s_cfg_interface.value = 1
    await steady(dut, 5, m_cfg_sampled_interface=3)
    await bench.store(1)
    await steady(dut, 40, m_cfg_sampled_interface=3)
    await bench.store(0)
    await until(dut, high(dut.m_cfg_flr_done))
    assert dut.m_cfg_sampled_interface.value == 1
    dut.s_cfg_interface.value = 2
    await bench.flr()
    await steady(dut, 3, m_cfg_sampled_interface=1)
    await until(dut, high(dut.m_cfg_flr_done))
    assert dut.m_cfg_sampled_interface.value == 2
    before = int(dut.m_uptime.value)
    await ClockCycles(dut.clk, 20)
    assert int(dut.m_uptime.value) == before + 20


@cocotb.test()
async def power_on(dut):
    """host.reset.power_on: Power-on resets core and host side, waits for the tables and reports no
    event."""
    bench = Bench(dut, s_init_done=0)
    await clock_and_reset(bench.pins)
    while dut.rst.value == 1:
        assert dut.m_host_rst.value == 1
        await RisingEdge(dut.clk)
    assert dut.m_host_rst.value == 0
    await steady(dut, 50, m_in_reset=1, m_opened=0, m_cfg_flr_done=0, m_sts_progress=0)
    dut.s_init_done.value = 1
    await until(dut, high(dut.m_opened, dut.m_cfg_flr_done))
    await steady(dut, 5, m_in_reset=0, m_quiesce=0, m_sts_progress=0, m_sts_finished=0)
    assert not bench.steps


@cocotb.test()
async def register_reset(dut):
    """host.reset.register: A register reset drains, resets the core alone and finishes after a
    store of DEV_CTL = 0."""
    bench = Bench(dut)
    await bench.idle()
    drive(dut, s_ctl_valid=1, s_ctl_reset=1)
    await RisingEdge(dut.clk)
    assert dut.m_resp_clear.value == 1
    drive(dut, s_ctl_valid=0)
    await rises(dut, dut.m_sts_progress, timing("efa_reset", "store").latency)
    assert dut.m_quiesce.value == 1
    cycles = await until(dut, high(dut.rst))
    assert cycles == timing("efa_reset", "drain").latency
    length = 0
    while dut.rst.value == 1:
        assert dut.m_host_rst.value == 0
        length += 1
        await RisingEdge(dut.clk)
    assert length == timing("efa_reset", "core").latency
    await steady(dut, 40, m_sts_progress=1, m_sts_finished=0, m_quiesce=1, m_cfg_flr_done=0)
    await bench.store(0)
    await until(dut, high(dut.m_sts_finished))
    assert dut.m_sts_progress.value == 0
    await steady(dut, 5, m_quiesce=0, m_in_reset=0)
    assert bench.steps == [BEGUN, DRAINED, DONE]
    await bench.store(1)
    await RisingEdge(dut.clk)
    assert (dut.m_sts_progress.value, dut.m_sts_finished.value) == (1, 0)


@cocotb.test()
@cocotb.parametrize(what=["s_net_quiet", "s_rd_idle", "s_wr_core_idle"])
async def register_drain(dut, what):
    """host.reset.drain: A register reset waits for packets, reads and engine writes."""
    bench = Bench(dut, s_wr_idle=0)
    await bench.idle()
    drive(dut, **{what: 0})
    await bench.store(1)
    await bench.store(0)
    await steady(dut, 60, rst=0)
    assert bench.steps == [BEGUN]
    drive(dut, **{what: 1})
    await until(dut, high(dut.m_sts_finished))
    assert bench.steps == [BEGUN, DRAINED]
    await RisingEdge(dut.clk)
    assert bench.steps == [BEGUN, DRAINED, DONE]


@cocotb.test()
async def function_level(dut):
    """host.reset.flr: An FLR waits for every write, resets the host side too, and ends once,
    without a store."""
    bench = Bench(dut)
    await bench.idle()
    dut.s_wr_idle.value = 0
    await bench.flr()
    await until(dut, high(dut.m_in_flr))
    await steady(dut, 60, rst=0, m_sts_progress=0)
    dut.s_wr_idle.value = 1
    await until(dut, high(dut.rst))
    assert dut.m_host_rst.value == 1
    await until(dut, high(dut.m_cfg_flr_done))
    await steady(dut, 60, m_in_flr=0, m_quiesce=0, m_sts_finished=0)
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
    await until(dut, high(dut.m_host_rst), cycles=100)
    await until(dut, high(dut.m_cfg_flr_done), cycles=100)
    await RisingEdge(dut.clk)
    assert (dut.m_sts_progress.value, dut.m_sts_finished.value) == (0, 0)
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
        drive(dut, s_ctl_valid=rng.random() < stores, s_ctl_reset=rng.getrandbits(1))
        dut.s_cfg_flr.value = rng.random() < requests
        for name in QUIET:
            drive(dut, **{name: rng.random() < quiet})
        dut.s_cfg_interface.value = rng.getrandbits(2)
        await RisingEdge(dut.clk)
        if dut.rst.value == 1:
            assert dut.m_quiesce.value == 1
        assert dut.m_quiesce.value == dut.m_in_reset.value
    drive(dut, s_ctl_valid=0, s_cfg_flr=0, **QUIET)
    await ClockCycles(dut.clk, 100)
    await bench.store(0)
    await ClockCycles(dut.clk, 100)
    await steady(dut, 5, m_quiesce=0, m_sts_progress=0, m_cfg_flr_done=1)
    assert bench.steps.count(DRAINED) > 10


@cocotb.test()
async def as_soon_as_it_may(dut):
    """host.reset.soon: Each wait, for idle engines or for tables, ends in the cycle of its
    condition; a second request aborts nothing; rst_por resets both sides at once."""
    bench = Bench(dut)
    await bench.idle()
    for wait in range(20, 29):
        drive(dut, s_net_quiet=0, s_init_done=0)
        await bench.store(1)
        await ClockCycles(dut.clk, wait)
        dut.s_net_quiet.value = 1
        await RisingEdge(dut.clk)
        await rises(dut, dut.rst, 1)
        await bench.store(1)
        await ClockCycles(dut.clk, wait)
        dut.s_init_done.value = 1
        await steady(dut, 9, m_sts_finished=0)
        await bench.store(0)
        await until(dut, high(dut.m_sts_finished))
        dut.s_init_done.value = 0
        await bench.flr()
        dut.s_cfg_flr.value = 0
        await ClockCycles(dut.clk, 20 + wait)
        dut.s_init_done.value = 1
        await RisingEdge(dut.clk)
        await rises(dut, dut.m_cfg_flr_done, 1)
    for wait in range(2):
        await bench.store(1)
        await ClockCycles(dut.clk, 40 + wait)
        await bench.flr()
        await rises(dut, dut.m_in_flr, 2)
        await until(dut, high(dut.m_cfg_flr_done))
    dut.rst_por.value = 1
    await ReadOnly()
    assert (dut.rst.value, dut.m_host_rst.value) == (1, 1)
