# SPDX-License-Identifier: Apache-2.0
"""Tests efa_tx_pace: the congestion window by rounds of round-trip times."""

import cocotb
from cocotb.triggers import RisingEdge

from efa_cosim.layouts.defs import INTERNAL, TRANSPORT
from tb.lib.stream import clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, low, until, zero

STATE = INTERNAL.tx_pace


class RefModel:
    """Models the congestion window of decision 0009."""

    def __init__(self, dut):
        self.dut, self.most = dut, 1 << int(dut.WINDOW_W.value)
        self.first = int(dut.CWND_INITIAL.value)
        # The specified cycles are those of a window of 2^8.
        self.division = timing("efa_tx_pace", "division").latency - 8 + int(dut.WINDOW_W.value)
        self.shrunk = 0
        self.clear()

    def clear(self):
        self.window, self.fast, self.times = min(self.first, self.most), True, []

    def _add(self, time, shortest):
        """Adds a round-trip time; returns True if the round is above the target."""
        target = shortest + shortest // 8 + TRANSPORT.queue_target
        if self.fast and time <= target:
            self.window = min(self.window + 1, self.most)
        self.times.append(time)
        least = TRANSPORT.round_packets
        if len(self.times) < (least if self.fast else max(self.window, least)):
            return False
        time, self.times = min(self.times), []
        if time > target:
            self.fast = False
            self.window = max(2, self.window - self.window * (time - target) // (2 * time))
            self.shrunk += 1
            return True
        if not self.fast:
            self.window = min(self.window + 1, self.most)
        return False

    async def start(self):
        zero(self.dut, "s_load", "s_state", "s_time_valid", "s_time", "s_first", "s_shortest",
             "s_collapse")  # fmt: skip
        drive(self.dut, s_clear=1)
        await clock_and_reset(self.dut)
        self.dut.s_clear.value = 0
        await self.check()

    async def check(self):
        """Checks the state one cycle after the last input."""
        await RisingEdge(self.dut.clk)
        found = STATE.unpack(int(self.dut.m_state.value))
        assert self.dut.m_busy.value == 0
        assert (found.window, found.slow, found.round) == (
            self.window, not self.fast, len(self.times))  # fmt: skip
        if self.times:
            assert found.shortest == min(self.times)

    async def pulse(self, **values):
        drive(self.dut, **values)
        await RisingEdge(self.dut.clk)
        zero(self.dut, *values)

    async def time(self, time, shortest, first=False):
        """Adds a round-trip time, `shortest` before it or the `first` one."""
        divides = self._add(time, time if first else min(time, shortest))
        await self.pulse(s_time_valid=1, s_time=time, s_shortest=shortest, s_first=int(first))
        if divides:
            await RisingEdge(self.dut.clk)
            assert self.dut.m_busy.value == 1
            busy = await until(self.dut, low(self.dut.m_busy))
            assert busy == self.division, f"{busy} cycles"
        await self.check()

    async def clears(self):
        await self.pulse(s_clear=1)
        self.clear()
        await self.check()

    async def collapse(self):
        await self.pulse(s_collapse=1)
        self.window, self.fast = 2, True
        await self.check()

    async def load(self, window, fast, times):
        state = STATE.pack(window=window, slow=not fast, round=len(times),
                           shortest=min(times, default=0))  # fmt: skip
        await self.pulse(s_load=1, s_state=state)
        self.window, self.fast, self.times = window, fast, times
        await self.check()


@cocotb.test()
async def fast_growth_then_rounds(dut):
    """transport.tx_pace.growth: The window grows by each time not above the target up to the first
    round above it, then by one for each round, up to its largest value."""
    ref = RefModel(dut)
    await ref.start()
    for target in (0, 7, 8, 100, 1_000_000):
        await ref.clears()
        limit = target + target // 8 + TRANSPORT.queue_target
        for _ in range(ref.most + 4):
            await ref.time(limit, target)
        while ref.fast:
            await ref.time(limit + 1, target)
        # A single time that is not above the target is enough for a round.
        for _ in range(3 * max(ref.window, TRANSPORT.round_packets)):
            await ref.time(limit + 500, target)
            await ref.time(limit, target)
        if ref.most <= 16:
            assert ref.window == ref.most
    assert timing("efa_tx_pace", "time") == (1, 1, None)


@cocotb.test()
async def rounds_above_the_target(dut):
    """transport.tx_pace.shrink: A round above the target shrinks each window by its share, at
    least to 2 packets, in the specified cycles."""
    ref, rng = RefModel(dut), rng_for("shrink")
    await ref.start()
    for window in {2, 3, 4, 5, ref.most // 2, ref.most - 1, ref.most}:
        for shortest in (1, 60, 3000, 2_000_000):
            target = shortest + shortest // 8 + TRANSPORT.queue_target
            for time in (target + 1, target + target // 3, 2 * target, 5 * target, 0xFFFFFF):
                for fast in (True, False):
                    packets = TRANSPORT.round_packets if fast else max(window, 16)
                    await ref.load(window, fast, [time] * (packets - 1))
                    await ref.time(time + rng.randrange(2) * (0xFFFFFF - time), shortest)
                    assert not ref.fast and not ref.times
    assert ref.shrunk > 50


@cocotb.test()
async def collapse_and_new_session(dut):
    """transport.tx_pace.collapse: A repeated timeout sets 2 packets and begins the fast growth, a
    new session begins with the initial window; a reset ends a division."""
    ref = RefModel(dut)
    await ref.start()
    for fast in (True, False):
        for times in ([], [40, 30, 50]):
            await ref.load(ref.most, fast, list(times))
            await ref.collapse()
            for _ in range(20):
                await ref.time(33, 1)
    await ref.clears()
    await ref.load(ref.most, False, [1000] * (max(ref.most, 16) - 1))
    await ref.pulse(s_time_valid=1, s_time=1000, s_shortest=1)
    await reset(dut, 1)
    assert dut.m_busy.value == 0
    await ref.clears()


@cocotb.test()
async def random_times(dut):
    """transport.tx_pace.random: Random times, timeouts, sessions and peers."""
    ref, rng = RefModel(dut), rng_for("random")
    await ref.start()
    for _ in range(120):
        shortest = rng.choice((1, 30, rng.randrange(1 << 20)))
        above = shortest // 8 + TRANSPORT.queue_target
        least = shortest + rng.choice((0, above, above + 1, -shortest // 2))
        for at in range(rng.randrange(60)):
            await ref.time(least + rng.randrange(rng.choice((1, above + 2, 4 * above))), shortest,
                           first=at == 0 and rng.random() < 0.3)  # fmt: skip
        kind = rng.random()
        if kind < 0.2:
            await ref.collapse()
        elif kind < 0.4:
            await ref.clears()
        elif kind < 0.7:
            await ref.load(rng.randrange(2, ref.most + 1), rng.random() < 0.5,
                           [above + shortest + 9] * rng.randrange(15))  # fmt: skip
    assert ref.shrunk > 5
