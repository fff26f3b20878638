# SPDX-License-Identifier: Apache-2.0
"""Tests efa_tx_times: smoothed, shortest and longest round-trip times, and the timeout."""

import cocotb
from cocotb.triggers import RisingEdge

from efa_cosim.layouts.defs import INTERNAL, TRANSPORT
from tb.lib.stream import rng_for, start_clock
from tb.lib.timing import timing
from tb.lib.waits import drive, zero

TICKS = 0xFFFFFF
STATE = INTERNAL.tx_times


class RefModel:
    """Models the times of decision 0009; checks the outputs at each edge."""

    def __init__(self, dut, now=0):
        self.dut, self.now = dut, now
        self.timeouts = []  # of the last states
        self.clear()

    def clear(self):
        self.srtt8 = self.rttvar4 = 0
        self.known, self.end = False, 0
        self.before = self.current = (0, 0)  # (shortest, longest) of the two periods

    def _timeout(self):
        if not self.known:
            return int(self.dut.RTO_INITIAL.value)
        srtt = self.srtt8 // 8
        bounded = min(max(srtt + self.rttvar4, srtt + srtt // 2), 3 * srtt)
        return min(max(bounded, srtt + TRANSPORT.rto_margin), TICKS)

    def add(self, time):
        if self.known:
            error = time - self.srtt8 // 8
            self.srtt8 += error
            self.rttvar4 += abs(error) - self.rttvar4 // 4
        else:
            # rttvar begins with half of the time.
            self.srtt8, self.rttvar4 = 8 * time, 4 * time // 2
        if not self.known or self.now >= self.end:
            self.before = self.current if self.known else (time, time)
            self.current, self.end = (time, time), self.now + TRANSPORT.time_period
        self.current = min(self.current[0], time), max(self.current[1], time)
        self.known = True

    def state(self):
        return {"known": int(self.known), "srtt8": self.srtt8, "rttvar4": self.rttvar4,
                "previous_shortest": self.before[0], "previous_longest": self.before[1],
                "shortest": self.current[0], "longest": self.current[1],
                "period_end": self.end & TICKS}  # fmt: skip

    async def start(self):
        zero(self.dut, "s_load", "s_state", "s_time_valid", "s_time", "s_ticks")
        drive(self.dut, s_clear=1)
        start_clock(self.dut.clk)
        for _ in range(3):
            await RisingEdge(self.dut.clk)
        self.timeouts = [self._timeout()] * 2

    async def step(self, time=None, after=0, clear=0, load=None):
        """Passes `after` ticks, then adds a time, clears or loads a state."""
        dut = self.dut
        self.now += after
        drive(dut, s_ticks=self.now & TICKS, s_time_valid=int(time is not None), s_time=time or 0,
              s_clear=clear, s_load=int(load is not None),
              s_state=STATE.pack(**load.state()) if load else 0)  # fmt: skip
        await RisingEdge(dut.clk)
        assert vars(STATE.unpack(int(dut.m_state.value))) == self.state(), self.now
        assert dut.m_shortest.value == min(self.before[0], self.current[0])
        assert dut.m_longest.value == max(self.before[1], self.current[1])
        assert dut.m_timeout.value == self.timeouts[0], self.state()
        if load is not None:
            vars(self).update(vars(load) | {"timeouts": self.timeouts})
        elif clear:
            self.clear()
        elif time is not None:
            self.add(time)
        self.timeouts = [self.timeouts[1], self._timeout()]


@cocotb.test()
async def smoothed_times_and_timeout(dut):
    """transport.tx_times.timeout: The timeout is srtt + 4 x deviation, within 3/2 and 3 times srtt,
    not below its minimum, for constant, rising and scattered times of any size."""
    ref, rng = RefModel(dut), rng_for("timeout")
    await ref.start()
    for time in (1, 2, 7, 8, 40, 1000, 100_000, 4_000_000, TICKS // 3 + 1, TICKS):
        await ref.step(clear=1)
        for _ in range(30):
            await ref.step(time, rng.randrange(3))
        for _ in range(60):
            await ref.step(rng.randrange(1, time + 1), rng.randrange(20))
            await ref.step(time=None)
    # The first measurement replaces the initial timeout, one and two cycles later.
    await ref.step(clear=1)
    for time in (500, None, None, None):
        await ref.step(time)
    assert timing("efa_tx_times", "state").latency == 1
    assert timing("efa_tx_times", "timeout") == (2, 1, None)


@cocotb.test()
async def two_periods(dut):
    """transport.tx_times.periods: Shortest and longest time are those of the current and the
    previous period; a period is over exactly at its end, also over the wrap of the ticks."""
    period = TRANSPORT.time_period
    ref = RefModel(dut, (1 << 24) - 5 * period // 2)
    await ref.start()
    for _ in range(6):
        for time, after in ((100, 0), (20, 5), (900, period - 6), (50, 0), (60, 1)):
            await ref.step(time, after)
        await ref.step(70, period)
        await ref.step(80, 3 * period + 1)
    # Pauses of more than half of the range of ticks.
    await ref.step(30, (1 << 23) + 5 * period)
    await ref.step(40, period)
    for bit in range(23):
        await ref.step(50 + bit, period)
        await ref.step(20, (1 << 24) - (1 << bit))


@cocotb.test()
async def first_times(dut):
    """transport.tx_times.first: The first time of a session begins a period at any tick, also just
    before the ticks wrap."""
    period = TRANSPORT.time_period
    ref = RefModel(dut)
    await ref.start()
    for left in (0, 1, period // 2, period, period + 1, 1 << 23):
        for time in (1, 500, TICKS):
            await ref.step(clear=1, after=-(ref.now + left) % (1 << 24))
            await ref.step(time)
            await ref.step(time=None)
            await ref.step(400, 1)
            await ref.step(time=None)


@cocotb.test()
async def random_times(dut):
    """transport.tx_times.random: Random times, pauses, new sessions and other peers."""
    ref, rng = RefModel(dut, rng_for("now").getrandbits(24)), rng_for("random")
    await ref.start()
    for _ in range(4000):
        most = rng.choice((3, 300, 30_000))
        await ref.step(rng.choice((None, rng.randrange(1, most))),
                       rng.choice((0, 1, rng.randrange(30_000))),
                       clear=int(rng.random() < 0.004))  # fmt: skip
        if rng.random() < 0.02:
            other = RefModel(dut, ref.now)
            for _ in range(3):
                other.add(rng.randrange(1, most))
            # Loads another peer, and adds or clears nothing.
            await ref.step(7, load=other, clear=rng.getrandbits(1))


@cocotb.test()
async def loaded_times(dut):
    """transport.tx_times.loaded: The shortest and longest time of a loaded peer are those of both
    its periods, in either order, and those of the next time, even if they differ in one bit."""
    ref, rng = RefModel(dut, rng_for("now").getrandbits(24)), rng_for("loaded")
    await ref.start()

    def near(bit):
        low = rng.randrange(1, 1 << 24) & ~(1 << bit)
        return rng.sample((low, low | 1 << bit), 2)

    for bit in 8 * [*range(24)]:
        other = RefModel(dut, ref.now)
        shortest, longest = near(bit), near(bit)
        other.before, other.current = zip(shortest, longest, strict=True)
        other.known, other.srtt8 = True, 8 * min(shortest)
        other.end = ref.now + rng.randrange(1, TRANSPORT.time_period)
        await ref.step(load=other)
        await ref.step(max(1, rng.choice((*shortest, *longest))),
                       rng.choice((0, TRANSPORT.time_period)))  # fmt: skip
        await ref.step()
