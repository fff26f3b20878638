# SPDX-License-Identifier: Apache-2.0
"""Tests efa_ctx_flags: contexts in use, and when each context may be used again."""

import cocotb
from cocotb.triggers import FallingEdge, Timer

from tb.lib.stream import clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import zero


class Bench:
    """Uses contexts that are free, ends their sends and holds them; checks each cycle which
    contexts are in use and which one is freed."""

    def __init__(self, dut):
        self.dut, self.rng = dut, rng_for("ctx_flags")
        self.count = len(dut.m_used)
        self.free = set(range(self.count))
        self.used, self.held = set(), set()
        self.used_bits = self.held_bits = 0
        self.late = {}  # contexts that were held at their end: cycles that they are held no more
        self.waits, self.freed = [], 0
        self._ended = None  # the context whose send ended one cycle before
        zero(dut, "s_take_valid", "s_take_index", "s_end_valid", "s_end_index", "s_held")

    async def start(self):
        assert timing("efa_ctx_flags", "end").latency == 1
        await clock_and_reset(self.dut)
        await FallingEdge(self.dut.clk)

    async def clear(self):
        """Resets the module; all contexts are free."""
        zero(self.dut, "s_take_valid", "s_end_valid", "s_held")
        await reset(self.dut)
        await FallingEdge(self.dut.clk)
        self.free = set(range(self.count))
        self.used, self.held, self.late, self._ended = set(), set(), {}, None
        self.used_bits = self.held_bits = 0

    async def step(self, take=None, end=None, hold=False, drops=()):
        """Runs one cycle: a context is used, a send ends. `hold`: the context becomes held with its
        use; `drops`: these are held no more from this cycle on."""
        dut = self.dut
        self.held.difference_update(drops)
        self.held_bits &= ~sum(1 << place for place in drops)
        dut.s_held.value = self.held_bits
        dut.s_take_valid.value, dut.s_end_valid.value = int(take is not None), int(end is not None)
        if take is not None:
            dut.s_take_index.value = take
        if end is not None:
            dut.s_end_index.value = end
        await Timer(1, "ns")
        assert int(dut.m_used.value) == self.used_bits
        self._frees()
        await FallingEdge(dut.clk)
        if take is not None:
            self.free.remove(take)
            self.used.add(take)
            self.used_bits |= 1 << take
            if hold:
                self.held.add(take)
                self.held_bits |= 1 << take
        if end is not None:
            self.used.remove(end)
            self.used_bits &= ~(1 << end)
        self._ended = end

    def _frees(self):
        """Checks which context is freed in this cycle."""
        place, ended = None, self._ended
        if self.dut.m_free_valid.value == 1:
            place = int(self.dut.m_free_index.value)
        if ended is not None and ended not in self.held:
            assert place == ended, "an ended context is not freed in the next cycle"
        elif place is not None:
            assert place in self.late and place not in self.held, f"freed: {place}"
            self.waits.append(self.late.pop(place))
        if ended in self.held:
            self.late[ended] = 0
        for one in self.late:
            self.late[one] = 0 if one in self.held else self.late[one] + 1
        if place is not None:
            self.free.add(place)
            self.freed += 1

    async def settle(self):
        """Drops all contexts and ends all sends; each context is freed."""
        for place in sorted(self.used):
            await self.step(end=place)
        await self.step(drops=list(self.held))
        for _ in range(self.count + 4):
            await self.step()
        assert not self.late and self.free == set(range(self.count))


@cocotb.test()
@cocotb.parametrize(hold=[0.0, 0.3, 1.0])
async def contexts_are_freed_once(dut, hold):
    """transport.ctx_flags.free: A context is freed in the cycle after its end, or, if a block holds
    it, when it is held no more; each one once."""
    bench = Bench(dut)
    await bench.start()
    rng, taken = bench.rng, 0
    for turn in range(min(12 * bench.count, 4000)):
        busy = (0.9, 0.3, 0.6)[turn // 200 % 3]
        take = rng.choice(sorted(bench.free)) if bench.free and rng.random() < 0.8 else None
        end = rng.choice(sorted(bench.used)) if bench.used and rng.random() < busy else None
        held = sorted(bench.held)
        drops = rng.sample(held, min(len(held), rng.randrange(4))) if rng.random() < 0.5 else ()
        taken += take is not None
        await bench.step(take, end, rng.random() < hold, drops)
    await bench.settle()
    assert bench.freed == taken > bench.count
    assert bool(bench.waits) == bool(hold)


@cocotb.test()
async def dropped_contexts_wait_for_their_turn(dut):
    """transport.ctx_flags.turn: Contexts that were held at their end are freed within the specified
    cycles, also while others are still held, and behind those that end."""
    bench = Bench(dut)
    await bench.start()
    rng, most = bench.rng, timing("efa_ctx_flags", "late").latency
    for place in range(bench.count):
        await bench.step(take=place, hold=True)
    order = rng.sample(range(bench.count), bench.count)
    few, others = order[:8], order[8:]
    for place in few:
        await bench.step(end=place)
    # One after the other, beside those that stay held.
    for place in few[:4]:
        await bench.step(drops=[place])
        while place in bench.late:
            await bench.step()
    # Contexts that are not held end in each cycle, and come first.
    await bench.step(drops=order[4:])
    for place in others:
        await bench.step(end=place)
    await bench.settle()
    # Each context is held at its end; all are dropped at once.
    for place in order:
        await bench.step(take=place, hold=True)
    for place in order:
        await bench.step(end=place)
    await bench.step()
    bench.waits.clear()
    await bench.settle()
    assert len(bench.waits) == bench.count and max(bench.waits) <= most


@cocotb.test()
async def a_reset_frees_all(dut):
    """transport.ctx_flags.reset: After a reset no context is in use, and none is freed."""
    bench = Bench(dut)
    await bench.start()
    for _ in range(3):
        for place in bench.rng.sample(sorted(bench.free), bench.count // 2):
            await bench.step(take=place, hold=True)
        for place in bench.rng.sample(sorted(bench.used), bench.count // 4):
            await bench.step(end=place)
        await bench.clear()
        freed = bench.freed
        for _ in range(bench.count + 4):
            await bench.step()
        assert bench.freed == freed
