# SPDX-License-Identifier: Apache-2.0
"""Tests efa_slot_find: the first marked slot from a slot on, or behind it."""

import cocotb
from cocotb.triggers import Timer

from tb.lib.stream import rng_for
from tb.lib.waits import drive


async def check(dut, first, slots):
    window = len(dut.s_slots)
    drive(dut, s_from=first, s_slots=slots)
    await Timer(1, "ns")
    begin = first + int(dut.BEHIND.value)
    found = [at % window for at in range(begin, begin + window) if slots >> at % window & 1]
    what = f"{slots:#x} from {first}"
    assert dut.m_found.value == (slots != 0), what
    assert dut.m_bits.value == sum(1 << slot for slot in found[:1]), what
    slot = found[0] if found else 0
    assert dut.m_slot.value == slot, f"{what}: {dut.m_slot.value}, not {slot}"


@cocotb.test()
async def one_and_two_slots(dut):
    """common.slot_find.few: No slot, each single slot, and pairs around the first one are found
    from any slot on, also round the end and in the row of the first slot."""
    rng, window = rng_for("few"), len(dut.s_slots)
    for first in range(window):
        await check(dut, first, 0)
        await check(dut, first, (1 << window) - 1)
        for slot in {0, 1, window - 1, first, (first + 1) % window, (first - 1) % window,
                     *(rng.randrange(window) for _ in range(8))}:  # fmt: skip
            await check(dut, first, 1 << slot)
            await check(dut, first, 1 << slot | 1 << (first - 1) % window)
            await check(dut, first, 1 << slot | 1 << first)
    for slot in range(window):
        await check(dut, rng.randrange(window), 1 << slot)


@cocotb.test()
async def random_slots(dut):
    """common.slot_find.random: Of many or few random slots, the first one is found."""
    rng, window = rng_for("random"), len(dut.s_slots)
    for _ in range(3000):
        slots = rng.getrandbits(window)
        for _ in range(rng.randrange(6)):
            slots &= rng.getrandbits(window)
        await check(dut, rng.randrange(window), slots)
