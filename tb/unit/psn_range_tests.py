# SPDX-License-Identifier: Apache-2.0
"""Tests efa_psn_range: the window slots of a range of sequence numbers."""

import cocotb
from cocotb.triggers import Timer

from efa_cosim.transport.packets import PSN_MASK, psn_distance
from tb.lib.stream import rng_for
from tb.lib.waits import drive


async def check(dut, first, last):
    """Checks the slots of `first` to before `last`."""
    window = 1 << int(dut.WINDOW_W.value)
    drive(dut, s_from=first, s_to=last)
    await Timer(1, "ns")
    wanted = 0
    for at in range(min(max(psn_distance(last, first), 0), window)):
        wanted |= 1 << (first + at) % window
    assert dut.m_slots.value == wanted, f"{first:#x} to {last:#x}"


@cocotb.test()
async def each_range_up_to_two_windows(dut):
    """transport.psn_range.short: Ranges of up to two windows from each slot, forwards and
    backwards, also over the wrap of the numbers."""
    rng, window = rng_for("short"), 1 << int(dut.WINDOW_W.value)
    for begin in (0, 5 * window, (1 << 31) - window, (1 << 32) - window):
        for slot in range(0, window, max(1, window // 16)):
            first = begin + slot + rng.randrange(max(1, window // 16)) & PSN_MASK
            for length in {0, 1, 2, window - 1, window, window + 1, 2 * window,
                           *(rng.randrange(2 * window) for _ in range(20))}:  # fmt: skip
                await check(dut, first, first + length & PSN_MASK)
                await check(dut, first, first - length & PSN_MASK)


@cocotb.test()
async def ranges_of_any_length(dut):
    """transport.psn_range.long: A range of a window or more is the whole window, up to half of the
    numbers; from there on it is empty. Each bit of the length counts."""
    rng = rng_for("long")
    for bit in range(32):
        for offset in (-1, 0, 1):
            for _ in range(8):
                first = rng.getrandbits(32)
                await check(dut, first, first + (1 << bit) + offset & PSN_MASK)
    for _ in range(2000):
        await check(dut, rng.getrandbits(32), rng.getrandbits(32))
