# SPDX-License-Identifier: Apache-2.0
"""efa_stream_check: a lawful stream passes (broken ones: tb/test_check_mutation.py)."""

import cocotb
from cocotb.triggers import RisingEdge

from tb.lib.stream import StreamDriver, clock_and_reset, rng_for


@cocotb.test()
async def lawful(dut):
    """common.stream_check.lawful: a stream with gaps and stalls goes on to its end."""

    class Watched:
        """The watched wires as a stream without a prefix."""

        clk, rst, s_valid, s_ready, s_data = dut.clk, dut.rst, dut.valid, dut.ready, dut.data

    rng = rng_for("lawful")
    dut.ready.value = 0
    source = StreamDriver(Watched, "s", gaps=0.3, fields=["data"])
    await clock_and_reset(dut)
    source.post(*({"data": rng.getrandbits(8)} for _ in range(200)))
    while source.waiting:
        dut.ready.value = rng.getrandbits(1)
        await RisingEdge(dut.clk)
    assert source.sent == 200
