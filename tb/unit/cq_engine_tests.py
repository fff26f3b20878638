# SPDX-License-Identifier: Apache-2.0
"""Tests efa_cq_engine: a drain completes after the pending CQEs, counter values, events and
interrupts; a single instance of each."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa.defs import DOORBELL_BITS, INTERNAL, REG_BITS, Reg
from tb.lib.stream import start_clock
from tb.lib.waits import drive, high, hold, pulse, steady, until, zero
from tb.unit.ec_tests import ATTACH, CREATE

QPN, CQN, EQN, COUNTER = 5, 3, 1, 2
OUT = ("wr_cq", "wr_eq", "irq_eq")
INPUTS = ("reg_wr_valid", "cqc_valid", "eqc_valid", "drain_cpl_valid", "cqdb_valid", "txc_valid",
          "rxc_valid", "ec_valid")  # fmt: skip


async def start(dut):
    """Creates a CQ in interrupt mode and its EQ; the host accepts every write."""
    zero(dut, *INPUTS)
    drive(dut, **{f"{name}_ready": 1 for name in OUT}, core_rst=1)
    start_clock(dut.clk)
    await ClockCycles(dut.clk, 4)
    dut.core_rst.value = 0
    await until(dut, high(dut.cpl_init_done), cycles=5000)
    context = INTERNAL.eqc.pack(live=1, base=0x100, log=4, vector=7)
    await pulse(dut, "eqc_valid", eqc_eqn=EQN, eqc_data=context)
    context = INTERNAL.cqc.pack(live=1, base=0x200, log=4, intr=1, eqn=EQN)
    await pulse(dut, "cqc_valid", cqc_cqn=CQN, cqc_data=context)


async def arm(dut, total):
    """Arms the EQ and the CQ; all CQEs of the CQ are consumed."""
    value = REG_BITS.EQ_DB.pack(EQN=EQN, ARM=1)
    await pulse(dut, "reg_wr_valid", reg_wr_offset=Reg.EQ_DB, reg_wr_data=value)
    await ClockCycles(dut.clk, 60)
    value = DOORBELL_BITS.CQ_DB.pack(CONSUMER_INDEX=total, ARM=1)
    await pulse(dut, "cqdb_valid", cqdb_cqn=CQN, cqdb_value=value)
    await ClockCycles(dut.clk, 20)


@cocotb.test()
@cocotb.parametrize(stuck=["wr_cq", "value", "wr_eq", "irq_eq"])
async def a_drain_waits_for_all_that_entries_lead_to(dut, stuck):
    """queue.cq_engine.drain: a drain waits for a CQE, counter value, EQE or interrupt that the host
    does not accept."""
    await start(dut)
    if stuck == "value":
        for op in (CREATE, ATTACH):
            await hold(dut, "ec_valid", "ec_ready", ec_op=op, ec_counter=COUNTER, ec_qpn=QPN,
                       ec_events=1, ec_value=0x8000)  # fmt: skip
    held = getattr(dut, f"{'wr_eq' if stuck == 'value' else stuck}_ready")
    entry = INTERNAL.cpl.pack(qpn=QPN, qp_num=QPN, cqn=CQN, req_id=9)
    for total, cycles in enumerate(range(1, 12)):
        if stuck != "value":
            await arm(dut, total)
        held.value = 0
        await hold(dut, "txc_valid", "txc_ready", txc_data=entry)
        await ClockCycles(dut.clk, cycles)
        dut.drain_cpl_valid.value = 1
        await RisingEdge(dut.clk)
        await steady(dut, 60, drain_cpl_ready=0)
        held.value = 1
        await until(dut, high(dut.drain_cpl_ready), cycles=60)
        dut.drain_cpl_valid.value = 0
        await RisingEdge(dut.clk)
        await steady(dut, 60, **{f"{name}_valid": 0 for name in OUT})
