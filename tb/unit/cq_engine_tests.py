# SPDX-License-Identifier: Apache-2.0
"""Tests efa_cq_engine: a drain completes after the pending CQEs, counter values, events and
interrupts; a single instance of each; completions are counted for their own QP."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import DOORBELL_BITS, INTERNAL, REG_BITS, Reg
from tb.lib.bundles import Bundles
from tb.lib.stream import rng_for, start_clock
from tb.lib.waits import drive, high, hold, pulse, steady, until, zero
from tb.unit.ec_tests import ATTACH, CREATE
from tb.unit.queue_bench import Pulses

QPN, CQN, EQN, COUNTER = 5, 3, 1, 2
OUT = ("m_wr_cq", "m_wr_eq", "m_irq_eq")
INPUTS = ("s_reg_wr_valid", "s_table_valid", "s_drain_valid", "s_cqdb_valid", "s_cpl_valid",
          "s_ec_valid")  # fmt: skip


async def start(dut):
    """Creates a CQ in interrupt mode and its EQ, returns the ports; the host accepts all writes."""
    dut = Bundles(dut, s_reg_wr=INTERNAL.reg_wr, s_cqdb=INTERNAL.cqdb, s_ec=INTERNAL.ec_cmd)
    dut.tables("s_table").lanes("m_wr", ("cq", "eq"), INTERNAL.dma_wr)
    dut.lanes("s_cpl", ("send", "recv"), data=INTERNAL.cpl.width)
    zero(dut, *INPUTS)
    drive(dut, **{f"{name}_ready": 1 for name in OUT}, rst=1)
    start_clock(dut.clk)
    await ClockCycles(dut.clk, 4)
    dut.rst.value = 0
    await until(dut, high(dut.m_init_done), cycles=5000)
    context = INTERNAL.eqc.pack(live=1, base=0x100, log=4, vector=7)
    await pulse(dut, "eqc_valid", eqc_eqn=EQN, eqc_data=context)
    context = INTERNAL.cqc.pack(live=1, base=0x200, log=4, intr=1, eqn=EQN)
    await pulse(dut, "cqc_valid", cqc_cqn=CQN, cqc_data=context)
    return dut


async def arm(dut, total):
    """Arms the EQ and the CQ; all CQEs of the CQ are consumed."""
    value = REG_BITS.EQ_DB.pack(EQN=EQN, ARM=1)
    await pulse(dut, "s_reg_wr_valid", s_reg_wr_offset=Reg.EQ_DB, s_reg_wr_data=value)
    await ClockCycles(dut.clk, 60)
    value = DOORBELL_BITS.CQ_DB.pack(CONSUMER_INDEX=total, ARM=1)
    await pulse(dut, "s_cqdb_valid", s_cqdb_cqn=CQN, s_cqdb_value=value)
    await ClockCycles(dut.clk, 20)


@cocotb.test()
@cocotb.parametrize(stuck=["m_wr_cq", "value", "m_wr_eq", "m_irq_eq"])
async def a_drain_waits_for_all_that_entries_lead_to(dut, stuck):
    """queue.cq_engine.drain: a drain waits for a CQE, counter value, EQE or interrupt that the host
    does not accept."""
    dut = await start(dut)
    if stuck == "value":
        for op in (CREATE, ATTACH):
            await hold(dut, "s_ec_valid", "s_ec_ready", s_ec_op=op, s_ec_counter=COUNTER,
                       s_ec_qpn=QPN, s_ec_events=1, s_ec_value=0x8000)  # fmt: skip
    held = getattr(dut, f"{'m_wr_eq' if stuck == 'value' else stuck}_ready")
    entry = INTERNAL.cpl.pack(qpn=QPN, qp_num=QPN, cqn=CQN, req_id=9)
    for total, cycles in enumerate(range(1, 12)):
        if stuck != "value":
            await arm(dut, total)
        held.value = 0
        await hold(dut, "s_cpl_send_valid", "s_cpl_send_ready", s_cpl_send_data=entry)
        await ClockCycles(dut.clk, cycles)
        dut.s_drain_valid.value = 1
        await RisingEdge(dut.clk)
        await steady(dut, 60, s_drain_ready=0)
        held.value = 1
        await until(dut, high(dut.s_drain_ready), cycles=60)
        dut.s_drain_valid.value = 0
        await RisingEdge(dut.clk)
        await steady(dut, 60, **{f"{name}_valid": 0 for name in OUT})


@cocotb.test()
async def each_entry_is_counted_for_its_own_queue_pair(dut):
    """queue.cq_engine.counted: while the host stalls, the completions of one QP are counted, those
    of the next QP number are not"""
    rng = rng_for("counted")
    dut = await start(dut)
    for op in (CREATE, ATTACH):
        await hold(dut, "s_ec_valid", "s_ec_ready", s_ec_op=op, s_ec_counter=COUNTER, s_ec_qpn=QPN,
                   s_ec_events=1, s_ec_value=0x8000)  # fmt: skip
    values = Pulses(dut, "m_wr_eq", consumed=True)

    async def stall():
        while True:
            dut.m_wr_cq_ready.value = int(rng.random() < 0.2)
            await RisingEdge(dut.clk)

    stalls = cocotb.start_soon(stall())
    qpns = [rng.choice((QPN, QPN + 1)) for _ in range(80)]
    for qpn in qpns:
        entry = INTERNAL.cpl.pack(qpn=qpn, qp_num=qpn, cqn=CQN, req_id=9)
        await hold(dut, "s_cpl_send_valid", "s_cpl_send_ready", s_cpl_send_data=entry)
    await ClockCycles(dut.clk, 100)
    stalls.cancel()
    assert len(values.seen) == qpns.count(QPN)
