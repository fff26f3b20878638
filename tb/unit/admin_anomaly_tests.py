# SPDX-License-Identifier: Apache-2.0
"""Tests efa_admin_anomaly: three report sources share one port; one AQ fetch report can be
pending."""

import cocotb
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge

from tb.lib.stream import clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive


def idle(dut):
    drive(dut, s_ring_valid=0, s_ring_data=0, s_entry_valid=0, s_entry_data=0, s_aenq_valid=0,
          s_aenq_data=0)  # fmt: skip


@cocotb.test()
async def each_is_reported_once_in_its_turn(dut):
    """admin.admin_anomaly.turn: the register and AENQ reports have priority; an AQ fetch report
    is lost only while another one is pending."""
    rng, seen, waits, lost = rng_for("anomaly"), set(), None, 0
    idle(dut)
    await clock_and_reset(dut)
    for share in (0.2, 0.5, 0.8):
        for _ in range(400):
            ring, entry = (rng.random() < share for _ in range(2))
            events = rng.getrandbits(1)
            reported, of_entry = rng.getrandbits(64), rng.getrandbits(64)
            other = reported if ring else rng.getrandbits(64)
            drive(dut, s_ring_valid=int(ring and not events),
                  s_ring_data=rng.getrandbits(64) if events else other,
                  s_aenq_valid=int(ring and events),
                  s_aenq_data=other if events else rng.getrandbits(64),
                  s_entry_valid=int(entry), s_entry_data=of_entry)  # fmt: skip
            due = [reported] if ring else [] if waits is None else [waits]
            if not ring:
                waits = None
            if entry and not due:
                due = [of_entry]
            elif entry and waits is None:
                waits = of_entry
            elif entry:
                lost += 1
            await RisingEdge(dut.clk)
            assert dut.ev_anomaly_valid.value == bool(due)
            if due:
                assert int(dut.ev_anomaly_data.value) == due[0]
                seen.add(due[0])
    assert lost and len(seen) > 400


@cocotb.test()
async def its_cycles(dut):
    """admin.admin_anomaly.time"""
    both, waited = timing("efa_admin_anomaly", "report"), timing("efa_admin_anomaly", "waited")
    idle(dut)
    await clock_and_reset(dut)
    for one in ("s_ring_valid", "s_aenq_valid", "s_entry_valid"):
        drive(dut, **{one: 1})
        await ReadOnly()
        assert dut.ev_anomaly_valid.value == 1 and both.latency == 0
        await RisingEdge(dut.clk)
        idle(dut)
        await RisingEdge(dut.clk)
    drive(dut, s_ring_valid=1, s_entry_valid=1, s_entry_data=9)
    await RisingEdge(dut.clk)
    idle(dut)
    await ClockCycles(dut.clk, waited.latency)
    assert (dut.ev_anomaly_valid.value, dut.ev_anomaly_data.value) == (1, 9)
    await RisingEdge(dut.clk)
    assert dut.ev_anomaly_valid.value == 0


@cocotb.test()
async def reset_clears_what_waits(dut):
    """admin.admin_anomaly.reset"""
    idle(dut)
    await clock_and_reset(dut)
    drive(dut, s_ring_valid=1, s_entry_valid=1)
    await RisingEdge(dut.clk)
    drive(dut, s_entry_valid=0)
    await reset(dut)
    idle(dut)
    await RisingEdge(dut.clk)
    assert dut.ev_anomaly_valid.value == 0
