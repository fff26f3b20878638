# SPDX-License-Identifier: Apache-2.0
"""Tests efa_crc16: the checksum of random data, one result per cycle."""

import cocotb
from cocotb.triggers import RisingEdge

from efa_cosim.layouts.codec import crc16
from tb.lib.stream import rng_for, start_clock
from tb.lib.timing import timing


@cocotb.test()
async def checksums_of_a_stream_of_entries(dut):
    """admin.crc16.value: edge patterns, single bits and random data have correct checksums, one
    input per cycle."""
    promised = timing("efa_crc16", "entry")
    assert promised.interval == 1
    rng = rng_for("crc16")
    bits = int(dut.BITS.value)
    entries = [0, (1 << bits) - 1, *(1 << bit for bit in range(bits))]
    entries += [rng.getrandbits(bits) for _ in range(300)]
    start_clock(dut.clk)
    await RisingEdge(dut.clk)
    for number, entry in enumerate([*entries, *[0] * promised.latency]):
        dut.s_data.value = entry
        await RisingEdge(dut.clk)
        if number >= promised.latency:
            want = crc16(entries[number - promised.latency].to_bytes(bits // 8, "little"))
            assert int(dut.m_crc.value) == want, f"input {number - promised.latency}"
