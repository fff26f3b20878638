# SPDX-License-Identifier: Apache-2.0
"""Tests efa_stream_check: a valid stream passes (violations: tb/test_stream_check.py)."""

import cocotb
from cocotb.triggers import RisingEdge

from tb.lib.stream import StreamDriver, clock_and_reset, rng_for


@cocotb.test()
async def lawful(dut):
    """common.stream_check.lawful: A stream with gaps and stalls runs to its end without a
    violation."""
    rng = rng_for("lawful")
    dut.s_ready.value = 0
    source = StreamDriver(dut, "s", gaps=0.3, fields=["data"])
    await clock_and_reset(dut)
    source.post(*({"data": rng.getrandbits(8)} for _ in range(200)))
    while source.waiting:
        dut.s_ready.value = rng.getrandbits(1)
        await RisingEdge(dut.clk)
    assert source.sent == 200
