# SPDX-License-Identifier: Apache-2.0
"""Tests efa_tx_engine with send queues in host memory: drains."""

import cocotb
from cocotb.triggers import RisingEdge

from tb.lib.waits import drive, high, steady, until, zero
from tb.unit.tx_engine_bench import FREE, Bench


@cocotb.test()
async def a_drain_waits_for_reads_of_entries(dut):
    """tx_engine.host.drain: A drain waits for outstanding WQE reads of a destroyed queue."""
    bench = Bench(dut)
    dut = bench.dut
    zero(dut, "m_rd_sq_ready", "s_rd_cpl_sq_valid")
    dut.s_queue_op_base.value = 0x4_0000
    await bench.start()
    for number in range(3):
        queue = await bench.qp(1)
        bench.ring(queue, 1)
        await until(dut, high(dut.m_rd_sq_valid), cycles=60)
        read = int(dut.m_rd_sq_cookie.value), int(dut.m_rd_sq_len.value)
        drive(dut, m_rd_sq_ready=1)
        await RisingEdge(dut.clk)
        drive(dut, m_rd_sq_ready=0)
        queue.fields["live"], bench.contexts[1] = 0, 0
        drain = cocotb.start_soon(bench.drain())
        await steady(dut, 100, s_drain_ready=0, m_rd_sq_valid=0)
        drive(dut, s_rd_cpl_sq_valid=1, s_rd_cpl_cookie=read[0], s_rd_cpl_offset=0,
              s_rd_cpl_bytes=64, s_rd_cpl_last=1, s_rd_cpl_err=number & 1,
              s_rd_cpl_data=0)  # fmt: skip
        await RisingEdge(dut.clk)
        drive(dut, s_rd_cpl_sq_valid=0)
        await until(dut, lambda task=drain: task.done(), "the drain", 100)
        assert read[1] == 64
        await bench.op(queue, FREE)
