# SPDX-License-Identifier: Apache-2.0
"""Tests efa_msg_id_alloc: allocation order and latency of message contexts."""

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge, Timer

from tb.lib.stream import POWER_ON, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import zero

NEXT, SKIP = (timing("efa_msg_id_alloc", path) for path in ("next", "skip"))
ROUND = 1 << 32


class Bench:
    """Allocates and releases contexts at the ports; models the next id and its latency. Ids
    count from 0; the ids of the module start ID_LEFT before their wrap."""

    def __init__(self, dut):
        self.dut, self.rng = dut, rng_for("msg_id_alloc")
        self.count = 1 << len(dut.s_release_place)
        self.left = int(dut.ID_LEFT.value)
        self.columns = 1 << (self.count.bit_length() - 1) // 2
        self.used, self.given, self.waits = set(), [-1], []
        # Cycles since the last allocation; `still` means that no context became free since then.
        self.waited, self.still = SKIP.interval, False
        zero(dut, "s_give", "s_release_valid", "s_release_place")

    async def start(self):
        await clock_and_reset(self.dut, resets=POWER_ON)
        await FallingEdge(self.dut.clk)

    def number(self):
        """Returns the next id, counted from 0."""
        return (int(self.dut.m_next_id.value) + self.left) % ROUND

    def place(self, back=1):
        """Returns the context of the last allocation, or of an earlier one."""
        return self.given[-back] % self.count

    def _due(self):
        """Returns the next id and its latency after the previous one, without a release."""
        after = self.given[-1] + 1
        found = next(number for number in range(after, after + self.count)
                     if number % self.count not in self.used)  # fmt: skip
        if found == after:
            return found, NEXT.interval
        behind = found >= after - after % self.columns + self.columns
        return found, SKIP.interval - (not behind)

    async def step(self, give=True, release=None):
        """Runs one cycle with an optional allocation and release; returns True if an id was
        allocated."""
        dut = self.dut
        ready, number = dut.m_next_free.value == 1, self.number()
        if self.still and len(self.used) < self.count:
            due, cycles = self._due()
            assert ready == (self.waited >= cycles)
            assert number == due or not ready
        assert ready or self.waited < SKIP.interval or len(self.used) == self.count
        assert not ready or number % self.count not in self.used
        assert 0 <= number - self.given[-1] - ready <= self.count
        give = give and ready
        dut.s_give.value, dut.s_release_valid.value = int(give), int(release is not None)
        if release is not None:
            dut.s_release_place.value = release
        await Timer(1, "ns")
        passes = not give and number % self.count in self.used
        assert dut.m_passes.value == int(passes), f"passes at {number % self.count}"
        await FallingEdge(dut.clk)
        if give:
            self.used.add(number % self.count)
            self.given.append(number)
            self.waits.append(self.waited)
            self.waited = 0
        self.waited += 1
        self.used.discard(release)
        if release is not None and len(self.used) >= self.count - 1:
            self.waited = 0
        self.still = release is None and (give or self.still)
        return give

    async def pass_to(self, place):
        """Allocates the next context in the cycle of a release."""
        while not await self.step(release=place if self.dut.m_next_free.value == 1 else None):
            pass

    async def give(self, number):
        """Allocates `number` contexts as early as possible."""
        while number > 0:
            number -= await self.step()


@cocotb.test()
@cocotb.parametrize(share=[0.1, 0.5, 0.95, 1.0])
async def given_and_released_at_random(dut, share):
    """transport.msg_id_alloc.next: random allocations and releases give the next free context in
    round-robin order."""
    bench = Bench(dut)
    await bench.start()
    most = int(bench.count * share)
    for turn in range(min(8 * bench.count, 3000)):
        full = len(bench.used) >= most
        give = not full and bench.rng.random() < (0.5, 0.95)[turn >> 6 & 1]
        back = bench.rng.random() < (0.7 if full else 0.3) and bench.used
        await bench.step(give, bench.rng.choice(sorted(bench.used)) if back else None)
    await bench.step(False)


@cocotb.test()
async def one_is_free_anywhere(dut):
    """transport.msg_id_alloc.past: a single free context is found within the specified cycles,
    also across the wrap"""
    bench = Bench(dut)
    await bench.start()
    await bench.give(bench.count - 1)
    order = list(range(bench.count - 1))
    bench.rng.shuffle(order)
    for place in order[:100]:
        await bench.pass_to(place)
    assert max(bench.waits) == SKIP.interval and bench.given[-1] > 4 * bench.count
    await bench.step(False)


@cocotb.test()
async def one_is_free_in_each_row(dut):
    """transport.msg_id_alloc.rows: a single free context in each row is found from every row,
    forward and across the wrap"""
    bench = Bench(dut)
    await bench.start()
    await bench.give(bench.count - 1)
    rows = list(range(0, bench.count, bench.columns))
    for order in (rows, rows[::-1], bench.rng.sample(rows, len(rows))):
        # The first, a random and the last column of a row; the next row follows the last column.
        for column in (0, bench.rng.randrange(bench.columns), bench.columns - 1):
            for row in order:
                if row + column in bench.used:
                    await bench.pass_to(row + column)
    await bench.step(False)


@cocotb.test()
async def rows_begin_with_a_free_or_used_context(dut):
    """transport.msg_id_alloc.begins: the context after the end of a row is available at once only
    if it is free, at random in each row"""
    bench = Bench(dut)
    await bench.start()
    await bench.give(bench.count - 1)
    for _ in range(2):
        for row in range(0, bench.count, bench.columns):
            for place in (row + bench.columns - 1, *[row] * bench.rng.getrandbits(1)):
                if place in bench.used:
                    await bench.step(False, place)
        while len(bench.used) < bench.count - 1:
            await bench.step()
    await bench.step(False)


@cocotb.test()
async def rows_become_free_while_all_others_are_used(dut):
    """transport.msg_id_alloc.few: two or three rows, then all rows, with one free context each
    are searched in order"""
    bench = Bench(dut)
    await bench.start()
    await bench.give(bench.count - 1)
    rng, rows = bench.rng, range(0, bench.count, bench.columns)
    for row in 2 * rng.sample(rows, len(rows)):
        # This row and two random rows.
        for first in (row, *rng.sample(rows, 2)):
            used = [place for place in range(first, first + bench.columns) if place in bench.used]
            if used:
                await bench.step(False, rng.choice(used))
        for _ in range(rng.randrange(4)):
            await bench.step(False)
        while len(bench.used) < bench.count - 1:
            await bench.step()
    # One free context in each row. Each context is released when the next context, of the next row,
    # is ready.
    for first in rows:
        place = first + rng.randrange(bench.columns)
        if place in bench.used:
            await bench.step(False, place)
    await bench.give(1)
    for _ in range(3 * len(rows)):
        while dut.m_next_free.value == 0:
            await bench.step(False)
        await bench.step(False, bench.place())
        await bench.give(1)
    await bench.step(False)


@cocotb.test()
async def all_are_allocated(dut):
    """transport.msg_id_alloc.none: While each context is allocated, none is offered and no id is
    left out; the first one that is freed is offered."""
    bench = Bench(dut)
    await bench.start()
    rng = bench.rng
    await bench.give(bench.count)
    for place in rng.sample(range(bench.count), min(bench.count, 40)):
        last = bench.given[-1]
        for _ in range(rng.randrange(4, 3 * SKIP.interval + 8)):
            await bench.step()
        assert bench.given[-1] == last, "allocated a context twice"
        await bench.step(release=place)
        for _ in range(rng.randrange(3 * SKIP.interval)):
            await bench.step(False)
        await bench.give(1)
        assert bench.place() == place and 0 < bench.given[-1] - last <= bench.count
    await bench.step(False)


@cocotb.test()
async def ids_count_wraps(dut):
    """transport.msg_id_alloc.wraps: two contexts alternate; the context number wraps every two
    allocations"""
    bench = Bench(dut)
    await bench.start()
    await bench.give(bench.count - 1)
    one, two = 0, bench.count // 2
    wraps = 1024 if bench.count == NEXT.depth else 64
    place = one
    for _ in range(2 * wraps):
        await bench.pass_to(place)
        place = two if place == one else one
    await bench.step(False)
    assert bench.given[-1] >= wraps * bench.count


@cocotb.test()
async def cycles(dut):
    """transport.msg_id_alloc.cycles: allocations of the next context, past used contexts of a
    row and past used rows take the specified cycles"""
    bench = Bench(dut)
    await bench.start()
    if bench.count == NEXT.depth:
        assert bench.columns == SKIP.depth
    for pending, expected in (((), {NEXT.interval}), ((1,), {NEXT.interval, SKIP.interval - 1}),
                           (range(bench.columns, 3 * bench.columns),
                            {NEXT.interval, SKIP.interval})):  # fmt: skip
        # One pass releases every context that is not in `pending`; the second pass is measured.
        for number in range(2 * bench.count - len(pending)):
            if number == bench.count:
                bench.waits.clear()
            last = bench.place() if bench.used else None
            while not await bench.step(release=last if last not in pending else None):
                last = None
        assert set(bench.waits) == expected, (pending, set(bench.waits))
        for place in sorted(bench.used):
            await bench.step(False, place)
        while bench.place() != bench.count - 1:
            await bench.step(release=bench.place() if bench.used else None)
        await bench.step(False, bench.place() if bench.used else None)


@cocotb.test()
async def a_reset_frees_all_and_counts_on(dut):
    """transport.msg_id_alloc.reset: a reset frees all contexts and keeps the id count; a
    power-on reset restarts the count"""
    bench = Bench(dut)
    await bench.start()
    await bench.give(5)
    dut.s_give.value = 0
    await reset(dut)
    await FallingEdge(dut.clk)
    assert bench.number() == 5
    bench.used, bench.still = set(), False
    # Behind the wrap of the id, the bits above the contexts are 0; before it, they are 1.
    await bench.give(bench.count - 1)
    one, two = 5, bench.count // 2 + 5
    while bench.given[-1] <= bench.left:
        await bench.pass_to(one)
        one, two = two, one
    kept = bench.number()
    for resets, number in ((("rst",), kept), (POWER_ON, 0)):
        dut.s_give.value = dut.s_release_valid.value = 0
        await reset(dut, resets=resets)
        await ClockCycles(dut.clk, 2)
        assert bench.number() == number and dut.m_next_free.value == 1
        # All contexts are free.
        await FallingEdge(dut.clk)
        bench.used, bench.still, bench.given = set(), False, [number - 1]
        for step in range(bench.count):
            assert await bench.step(), step
            assert bench.given[-1] == number + step
