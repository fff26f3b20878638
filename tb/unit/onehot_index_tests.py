# SPDX-License-Identifier: Apache-2.0
"""Tests efa_onehot_index: the index of the set bit of a one-hot vector."""

import cocotb
from cocotb.triggers import Timer


@cocotb.test()
async def each_bit_has_its_index(dut):
    """common.onehot_index.bits: Each bit gives its index, and an empty vector gives 0."""
    for bits, index in ((0, 0), *((1 << place, place) for place in range(len(dut.s_bits)))):
        dut.s_bits.value = bits
        await Timer(1, "ns")
        assert dut.m_index.value == index, f"{bits:#x}: {dut.m_index.value}, expected {index}"
