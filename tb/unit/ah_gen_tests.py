# SPDX-License-Identifier: Apache-2.0
"""Tests efa_ah_gen: the number of removals of each address handle, modulo 16."""

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge, Timer

from efa_cosim.layouts.defs import INTERNAL, LIMITS
from tb.lib.stream import clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, pulse, zero

HANDLES = 1 << LIMITS.ah_w


def handle(rng, live):
    return INTERNAL.ahc.pack(live=live, pd=rng.getrandbits(10), fabric=rng.getrandbits(1),
                             node=rng.getrandbits(16))  # fmt: skip


def gens(dut):
    packed = int(dut.m_ah_gen.value)
    return [packed >> 4 * index & 15 for index in range(HANDLES)]


async def start(dut):
    zero(dut, "s_ah_valid", "s_ah_index", "s_ah_data")
    await clock_and_reset(dut)


@cocotb.test()
async def a_removal_makes_its_handle_older(dut):
    """transport.ah_gen.count: a removal increments the generation of its handle only; a creation
    changes no generation"""
    await start(dut)
    rng, wanted, few = rng_for("ah_gen"), [0] * HANDLES, [0, 1, 100, HANDLES - 1]
    assert gens(dut) == wanted
    removals = 0
    for _ in range(600):
        valid, live = int(rng.random() < 0.7), rng.getrandbits(1)
        index = rng.choice((*few, rng.randrange(HANDLES)))
        dut.s_ah_valid.value, dut.s_ah_index.value = valid, index
        dut.s_ah_data.value = handle(rng, live)
        await Timer(1, "ns")
        assert dut.m_ah_gone.value == int(valid and not live)
        await RisingEdge(dut.clk)
        assert gens(dut) == wanted
        if valid and not live:
            wanted[index] = (wanted[index] + 1) % 16
            removals += 1
    assert removals > 100


@cocotb.test()
async def a_handle_is_as_young_again_after_sixteen(dut):
    """transport.ah_gen.wrap: the generation of each handle wraps after 16 removals,
    independently and with the stated latency"""
    await start(dut)
    rng, cycles = rng_for("ah_gen"), timing("efa_ah_gen", "removal")
    for index in (0, 7, HANDLES - 1):
        for count in range(1, 35):
            await pulse(dut, "s_ah_valid", s_ah_index=index, s_ah_data=handle(rng, 0))
            for _ in range(cycles.latency):
                await RisingEdge(dut.clk)
            assert gens(dut)[index] == count % 16
            assert cycles.interval == 1
        assert sum(gen != 0 for gen in gens(dut)) == (0, 7, HANDLES - 1).index(index) + 1


@cocotb.test()
async def each_handle_counts_by_itself(dut):
    """transport.ah_gen.each: 17 removals of every handle in random order are counted separately"""
    await start(dut)
    rng, wanted = rng_for("ah_gen each"), [0] * HANDLES
    order = [index for _ in range(17) for index in rng.sample(range(HANDLES), HANDLES)]
    for turn, index in enumerate(order):
        await pulse(dut, "s_ah_valid", s_ah_index=index, s_ah_data=handle(rng, 0))
        wanted[index] = (wanted[index] + 1) % 16
        # An odd number of removals between checks: a bit that each removal inverts is seen.
        if turn % (HANDLES // 8 + 1) == HANDLES // 8:
            await RisingEdge(dut.clk)
            assert gens(dut) == wanted, turn
            # A removal at the inputs changes nothing at a falling clock edge.
            drive(dut, s_ah_valid=1, s_ah_index=rng.randrange(HANDLES), s_ah_data=handle(rng, 0))
            await FallingEdge(dut.clk)
            await Timer(1, "ns")
            assert gens(dut) == wanted, turn
            zero(dut, "s_ah_valid")
            await RisingEdge(dut.clk)
            assert gens(dut) == wanted, turn


@cocotb.test()
async def reset_makes_all_of_them_young(dut):
    """transport.ah_gen.reset"""
    await start(dut)
    rng = rng_for("ah_gen")
    for _ in range(2):
        for index in range(HANDLES):
            await pulse(dut, "s_ah_valid", s_ah_index=index, s_ah_data=handle(rng, 0))
        await RisingEdge(dut.clk)
        assert gens(dut) == [1] * HANDLES
        await reset(dut)
        assert gens(dut) == [0] * HANDLES
