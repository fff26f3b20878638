# SPDX-License-Identifier: Apache-2.0
"""Tests efa_arb: one grant, round-robin order, hold."""

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge, Timer

from tb.lib.stream import clock_and_reset, rng_for
from tb.lib.waits import drive


async def cycle(dut, request, hold=0):
    """Drives one cycle; returns its grant."""
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
    """common.arb.fair: with all requests active, each requester is granted once per round, in
    order."""
    n = await start(dut)
    for turn in range(5 * n):
        assert await cycle(dut, (1 << n) - 1) == 1 << (turn % n)


@cocotb.test()
async def waits_at_most_a_round(dut):
    """common.arb.bound: a requester is granted within one round."""
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
    """common.arb.hold: a held grant stays for any request and ends with the hold."""
    n = await start(dut)
    everybody = (1 << n) - 1
    assert await cycle(dut, everybody, 1) == 1
    for request in (0, everybody, everybody & ~1):
        assert await cycle(dut, request, 1) == 1
    assert await cycle(dut, everybody, 0) == 1
    assert await cycle(dut, everybody, 0) == (2 if n > 1 else 1)
    assert await cycle(dut, 0, 1) == 0
    assert await cycle(dut, 1, 0) == 1


def expected(n, request, last):
    """Returns the first request above the last winner, else the lowest request."""
    above = request & -(2 << last) if last is not None else request
    pick = above or request
    return (pick & -pick) & ((1 << n) - 1)


@cocotb.test()
async def every_choice_follows_the_last_winner(dut):
    """common.arb.order: random requests, holds and resets match the model; the grant changes
    only at rising edges."""
    n = await start(dut)
    rng = rng_for("arb order")
    last, held = None, None
    for _ in range(1500):
        if rng.random() < 0.01:
            drive(dut, rst=1, s_request=rng.getrandbits(n), s_hold=1)
            await RisingEdge(dut.clk)
            dut.rst.value = 0
            last, held = None, None
        request = rng.getrandbits(n) & rng.choice((rng.getrandbits(n), -1))
        hold = int(rng.random() < 0.4)
        grant = held if held is not None else expected(n, request, last)
        drive(dut, s_request=request, s_hold=hold)
        await Timer(1, "ns")
        assert int(dut.m_grant.value) == grant
        await FallingEdge(dut.clk)
        await Timer(1, "ns")
        assert int(dut.m_grant.value) == grant
        await RisingEdge(dut.clk)
        if grant:
            last = grant.bit_length() - 1
        held = grant if hold and grant else None
