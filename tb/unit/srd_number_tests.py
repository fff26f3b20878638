# SPDX-License-Identifier: Apache-2.0
"""Tests efa_srd_number: numbers of incarnations and sessions."""

import cocotb
from cocotb.triggers import RisingEdge

from tb.lib.stream import POWER_ON, clock_and_reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive


class RefModel:
    """Models the counter; checks the outputs at each edge."""

    def __init__(self, dut):
        self.dut, self.rst, self.wraps = dut, 1, 0
        left = int(dut.NUMBERS_LEFT.value)
        self.last = self.incarnation = -left & 0xFFFF if left else 1
        self.next = self._after(self.last)

    def _after(self, number):
        self.wraps += number == 0xFFFF
        return 1 if number == 0xFFFF else number + 1

    async def step(self, take=0, rst=0):
        drive(self.dut, s_take=take, rst=rst)
        await RisingEdge(self.dut.clk)
        shown = [int(getattr(self.dut, name).value)
                 for name in ("m_number", "m_last", "m_incarnation")]  # fmt: skip
        assert shown == [self.next, self.last, self.incarnation]
        begins = rst and not self.rst
        self.rst = rst
        if begins or (take and not rst):
            self.last, self.next = self.next, self._after(self.next)
        if begins:
            self.incarnation = self.last


async def start(dut):
    drive(dut, s_take=0)
    await clock_and_reset(dut, resets=POWER_ON)
    ref = RefModel(dut)
    # The reset of power-on takes the first number, and no other.
    ref.rst = 0
    await ref.step()
    return ref


@cocotb.test()
async def sessions_and_resets(dut):
    """transport.srd_number.take: A session and the beginning of a reset each take the next number;
    a reset of any length takes one, and no session begins within it. The counter leaves out 0."""
    ref = await start(dut)
    for _ in range(6):
        await ref.step(take=1)
    for length in (1, 2, 5):
        for take in (0, 1):
            for _ in range(length):
                await ref.step(take=take, rst=1)
            for taken in (1, 0, 0, 1, 1):
                await ref.step(take=taken)
    assert ref.wraps == (int(dut.NUMBERS_LEFT.value) != 0)
    assert timing("efa_srd_number", "number") == (1, 1, None)


@cocotb.test()
async def power_on_within_a_reset(dut):
    """transport.srd_number.power_on: A power-on reset restores the first number; a reset that
    lasts longer takes no other."""
    await start(dut)
    drive(dut, s_take=1)
    for _ in range(5):
        await RisingEdge(dut.clk)
    drive(dut, rst_por=1, rst=1)
    for _ in range(3):
        await RisingEdge(dut.clk)
    drive(dut, rst_por=0)
    ref = RefModel(dut)
    for rst in (1, 1, 0, 0, 1, 0):
        await ref.step(take=1, rst=rst)


@cocotb.test()
async def random_numbers(dut):
    """transport.srd_number.random: Random sessions and resets."""
    ref, rng = await start(dut), rng_for("random")
    for _ in range(1000):
        await ref.step(take=rng.getrandbits(1), rst=int(rng.random() < 0.2))
