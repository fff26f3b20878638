"""efa_arb: one grant, everybody's turn, holding."""

import cocotb
from cocotb.triggers import RisingEdge, Timer

from tb.lib.stream import clock_and_reset, rng_for


async def cycle(dut, request, hold=0):
    """Grant of one cycle."""
    dut.s_request.value = request
    dut.s_hold.value = hold
    await Timer(1, "ns")
    grant = int(dut.m_grant.value)
    await RisingEdge(dut.clk)
    return grant


async def start(dut):
    dut.s_request.value = 0
    dut.s_hold.value = 0
    await clock_and_reset(dut)
    return int(dut.N.value)


@cocotb.test()
async def turns(dut):
    """common.arb.fair: all asking, each is served once a round, in order."""
    n = await start(dut)
    for turn in range(5 * n):
        assert await cycle(dut, (1 << n) - 1) == 1 << (turn % n)


@cocotb.test()
async def waits_at_most_a_round(dut):
    """common.arb.bound: whoever asks is served before anybody else is served twice."""
    n = await start(dut)
    rng = rng_for("arb")
    waiting = [0] * n
    request = 0
    for _ in range(600):
        request |= rng.getrandbits(n)
        grant = await cycle(dut, request)
        assert bin(grant).count("1") == (1 if request else 0) and grant & ~request == 0
        for index in range(n):
            waited = request >> index & 1 and not grant >> index & 1
            waiting[index] = waiting[index] + 1 if waited else 0
            assert waiting[index] < n
        request &= ~grant


@cocotb.test()
async def hold(dut):
    """common.arb.hold: a held grant stays whatever is asked, and ends with the hold."""
    n = await start(dut)
    everybody = (1 << n) - 1
    assert await cycle(dut, everybody, 1) == 1
    for request in (0, everybody, everybody & ~1):
        assert await cycle(dut, request, 1) == 1
    assert await cycle(dut, everybody, 0) == 1
    assert await cycle(dut, everybody, 0) == (2 if n > 1 else 1)
    assert await cycle(dut, 0, 1) == 0
    assert await cycle(dut, 1, 0) == 1
