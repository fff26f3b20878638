# SPDX-License-Identifier: Apache-2.0
"""Tests efa_mtt_alloc: first-fit allocation of contiguous blocks, against a list of used blocks."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import LIMITS, PROFILES
from tb.lib.stream import clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, high, until

POOL = 1 << PROFILES.default.mr_pages_w
REGIONS = 1 << LIMITS.mr_w


def idle(dut):
    drive(dut, s_find=0, s_insert=0, s_remove=0, s_index=0, s_need=0, s_pool=POOL)


class Pool:
    """Drives the module and models the used blocks as {region: (first, end)}. No gap lies before
    the hint, so a search starts at the hint."""

    def __init__(self, dut):
        self.dut, self.blocks, self.hint = dut, {}, 0
        idle(dut)

    def cancel(self):
        """Clears the model as a reset does."""
        self.blocks.clear()
        self.hint = 0

    async def request(self, what, **values):
        """Returns the cycles from the first cycle of the request to its ready."""
        drive(self.dut, **{what: 1}, **values)
        await RisingEdge(self.dut.clk)
        cycles = await until(self.dut, high(self.dut.s_ready), cycles=3 * REGIONS)
        getattr(self.dut, what).value = 0
        return cycles

    def first_fit(self, need):
        """Returns the position of the first fit (None without a fit) and the number of blocks
        passed from the hint. Moves the hint to the first gap."""
        at, passed = self.hint, [block for block in self.blocks.values() if block[0] >= self.hint]
        for count, (first, end) in enumerate(sorted(passed)):
            if first - at >= need:
                return at, count
            if first == at == self.hint:
                self.hint = end
            at = end
        return (at if POOL - at >= need else None), len(passed)

    async def find(self, need):
        cycles = await self.request("s_find", s_need=need)
        where, before = self.first_fit(need)
        find, step = timing("efa_mtt_alloc", "find"), timing("efa_mtt_alloc", "region")
        assert cycles == find.latency + step.interval * before, (need, self.hint, self.blocks)
        assert self.dut.m_fits.value == (where is not None), (need, self.blocks)
        if where is not None:
            assert int(self.dut.m_base.value) == where, (need, self.blocks)
        return where, before, cycles

    async def place(self, index, need):
        """Finds and inserts a block; returns whether the block fits."""
        where, _, _ = await self.find(need)
        if where is None:
            return False
        await self.request("s_insert", s_index=index, s_need=need)
        self.took(index, where, need)
        return True

    def took(self, index, where, need):
        self.blocks[index] = where, where + need
        if where == self.hint:
            self.hint += need

    async def remove(self, index):
        await self.request("s_remove", s_index=index)
        self.hint = min(self.hint, self.blocks.pop(index)[0])


@cocotb.test()
async def random_requests_are_first_fit(dut):
    """admin.mtt_alloc.first_fit"""
    pool, rng = Pool(dut), rng_for("mtt_alloc")
    await clock_and_reset(dut)
    full = 0
    for most, turns in ((40, 220), (400, 220), (4000, 220), (4000, 60), (POOL, 60), (60, 90)):
        if turns < 220:  # start with an empty pool
            for index in list(pool.blocks):
                await pool.remove(index)
        for _ in range(turns):
            free = [n for n in range(REGIONS) if n not in pool.blocks]
            if pool.blocks and (not free or rng.random() < 0.4):
                await pool.remove(rng.choice(list(pool.blocks)))
            else:
                need = rng.choice((1, 2, rng.randrange(1, most + 1)))
                full += not await pool.place(rng.choice(free), need)
            if rng.random() < 0.2:
                await ClockCycles(dut.clk, rng.randrange(4))
            for _ in range(rng.randrange(3)):
                await pool.find(rng.randrange(1, 2 * most))
    assert full > 5


@cocotb.test()
async def the_whole_pool_and_every_region(dut):
    """admin.mtt_alloc.extremes"""
    pool = Pool(dut)
    await clock_and_reset(dut)
    assert (await pool.find(POOL + 1))[0] is None
    assert await pool.place(REGIONS - 1, POOL)
    assert not await pool.place(0, 1)
    await pool.remove(REGIONS - 1)
    for index in range(REGIONS):
        assert await pool.place(index, POOL // REGIONS)
    assert not await pool.place(0, 1)
    for index in (7, 9, 8):
        await pool.remove(index)
    assert await pool.place(8, 3 * POOL // REGIONS)
    assert pool.blocks[8][0] == 7 * POOL // REGIONS
    for _ in range(2):
        assert (await pool.find(1))[0] is None
    # No gap exists after the last block of a pool that is used to its end.
    await pool.remove(8)
    assert (await pool.find(1 + 3 * POOL // REGIONS))[:2] == (None, REGIONS - 10)
    for index in list(pool.blocks):
        await pool.remove(index)
    assert await pool.place(3, POOL)


@cocotb.test()
async def a_block_of_any_size_and_the_rest(dut):
    """admin.mtt_alloc.sizes: blocks with one or two bits set in their size, and their
    complements, leave exactly the rest of the pool free"""
    pool = Pool(dut)
    await clock_and_reset(dut)
    bits = PROFILES.default.mr_pages_w
    for need in sorted({1 << one | 1 << other for one in range(bits) for other in range(bits)}):
        for block in (need, POOL - need):
            assert await pool.place(0, block)
            assert await pool.find(1) == (block, 0, timing("efa_mtt_alloc", "find").latency)
            for more in (0, 1):
                where, _, _ = await pool.find(POOL - block + more)
                assert where == (None if more else block)
            await pool.remove(0)


@cocotb.test()
async def its_cycles(dut):
    """admin.mtt_alloc.time: a search after the last gap is immediate; otherwise it takes the
    specified cycles per region passed."""
    find, step = timing("efa_mtt_alloc", "find"), timing("efa_mtt_alloc", "region")
    insert, remove = timing("efa_mtt_alloc", "insert"), timing("efa_mtt_alloc", "remove")
    pool = Pool(dut)
    await clock_and_reset(dut)
    await ClockCycles(dut.clk, 3)
    for index in range(10):
        where, _, cycles = await pool.find(8)
        assert cycles == find.latency, index
        assert await pool.request("s_insert", s_index=index, s_need=8) == insert.latency
        pool.took(index, where, 8)
        await RisingEdge(dut.clk)
    assert await pool.request("s_remove", s_index=0) == remove.latency
    pool.blocks.pop(0)
    pool.hint = 0
    for need, before in ((9, 9), (8, 0)):
        assert (await pool.find(need))[1:] == (before, find.latency + step.interval * before)


@cocotb.test()
async def reset_empties_the_pool(dut):
    """admin.mtt_alloc.reset: a reset in any cycle of any request empties the pool."""
    pool = Pool(dut)
    await clock_and_reset(dut)
    for what in ("s_find", "s_insert", "s_remove"):
        for wait in range(1, 7):
            for index, need in ((0, 5), (1, 9), (2, POOL // 2)):
                assert await pool.place(index, need)
            await pool.remove(1)
            drive(dut, **{what: 1}, s_index=0, s_need=6)
            await ClockCycles(dut.clk, wait)
            idle(dut)
            await reset(dut)
            pool.cancel()
            assert await pool.place(5, POOL)
            await pool.remove(5)
