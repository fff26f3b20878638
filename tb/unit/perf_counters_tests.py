# SPDX-License-Identifier: Apache-2.0
"""Tests efa_perf_counters: beats, stalls, reads and gauges are counted in every cycle."""

from collections import deque

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge, Timer

from efa_cosim.layouts.defs import Perf, PerfStream
from tb.lib.stream import PERIOD_NS, clock_and_reset, cycle, rng_for
from tb.lib.timing import timing

BUCKETS = 16
COUNTERS = Perf.STREAM + 2 * len(PerfStream)
ASKED, ANSWERED = PerfStream.M_DMA_RD, PerfStream.S_DMA_RD_CPL


def bucket(number):
    """Returns the bucket of a value as in spec/perf_counters.yaml: 0, one per power of two, the
    last for all values above."""
    return min(number.bit_length(), BUCKETS - 1)


class Host:
    """Drives reads with live tags and random beats, and models the expected counts."""

    def __init__(self, dut, seed):
        self.dut, self.rng = dut, rng_for(seed)
        self.tags = 1 << (int(dut.TAGS.value) - 1).bit_length()
        self.live, self.open = {}, 0
        self.counted = [0] * COUNTERS

    def cycle(self, run=True, busy=0.5):
        """Drives one cycle and counts it."""
        rng, dut, now = self.rng, self.dut, cycle()
        valid, ready = (rng.getrandbits(len(PerfStream)) for _ in range(2))
        if rng.random() > busy:
            valid = 0
        tag = rng.randrange(self.tags)
        if tag in self.live:
            valid &= ~(1 << ASKED)
        done = rng.choice(list(self.live)) if self.live else None
        last = done is not None and rng.random() < 0.5
        # Now and then the gauge drops, so that small values occur too.
        self.open = rng.choice((self.open, 0, rng.getrandbits(rng.randrange(1, 11)), 1024))
        dut.s_valids.value, dut.s_readies.value = valid, ready
        dut.s_sends_open.value = self.open
        dut.s_rd_tag.value, dut.s_cpl_tag.value = tag, done or 0
        dut.s_cpl_last.value, dut.s_cnt_run.value = int(last), int(run)
        beats, waits, counts = valid & ready, valid & ~ready, []
        counts += [Perf.RD_OUT + bucket(len(self.live)), Perf.SENDS_OPEN + bucket(self.open)]
        for stream in PerfStream:
            counts += [Perf.STREAM + 2 * stream] * (beats >> stream & 1)
            counts += [Perf.STREAM + 2 * stream + 1] * (waits >> stream & 1)
        if beats >> ANSWERED & 1 and last:
            counts.append(Perf.RD_LATENCY + bucket(now - self.live.pop(done)))
        if beats >> ASKED & 1:
            self.live[tag] = now
        for index in counts:
            self.counted[index] += run

    def quiet(self, run):
        """Drives idle streams."""
        dut = self.dut
        dut.s_valids.value, dut.s_readies.value, dut.s_cpl_last.value = 0, 0, 0
        dut.s_cnt_run.value = int(run)


async def start(dut):
    for name in ("s_valids", "s_readies", "s_rd_tag", "s_cpl_tag", "s_cpl_last",
                 "s_sends_open", "s_cnt_run", "s_cnt_clear", "cnt_rd_addr"):  # fmt: skip
        getattr(dut, name).value = 0
    await clock_and_reset(dut)


def counted(dut, value):
    """Returns the distance of a counter from its initial value."""
    return (value + int(dut.COUNT_LEFT.value)) % (1 << 32)


async def counters(dut):
    """Reads all counters, one index per cycle."""
    promised = timing("efa_perf_counters", "read")
    assert promised.interval == 1
    shown = []
    for index in range(128 + promised.latency):
        dut.cnt_rd_addr.value = index % 128
        await RisingEdge(dut.clk)
        if index > promised.latency - 1:
            shown.append(int(dut.cnt_rd_data.value))
    assert shown[COUNTERS:] == [0] * (128 - COUNTERS)
    return [counted(dut, value) for value in shown[:COUNTERS]]


@cocotb.test()
async def everything_is_counted_once(dut):
    """host.perf_counters.count: Random traffic is counted exactly once in every counter."""
    await start(dut)
    assert await counters(dut) == [0] * COUNTERS
    host = Host(dut, "count")
    settle = timing("efa_perf_counters", "completed").latency
    lag = timing("efa_perf_counters", "gauge").latency - 1
    # Several reads of the counters: a fault of a count can cancel itself after an even number.
    for _ in range(8):
        # A gauge lags: in the first cycles the old value counts, and the last value is not counted.
        for first, value in ((Perf.RD_OUT, len(host.live)), (Perf.SENDS_OPEN, host.open)):
            host.counted[first + bucket(value)] += lag
        # First far more reads than completions, then far more completions.
        cycles = host.rng.randrange(300, 600)
        for step in range(cycles):
            host.cycle(busy=0.9 if step < 0.7 * cycles else 0.4)
            await RisingEdge(dut.clk)
        host.quiet(True)
        await ClockCycles(dut.clk, settle)
        host.quiet(False)
        for first, value in ((Perf.RD_OUT, len(host.live)), (Perf.SENDS_OPEN, host.open)):
            host.counted[first + bucket(value)] += settle - lag
        shown = await counters(dut)
        assert shown == host.counted
    assert await counters(dut) == shown
    assert all(shown[at] for at in range(Perf.STREAM, COUNTERS))


@cocotb.test()
async def reads_of_every_length(dut):
    """host.perf_counters.long: Reads with all tags outstanding and latencies of every bucket are
    counted, and nothing else."""
    await start(dut)
    rng, events, at = rng_for("long"), {}, 0
    tags = int(dut.TAGS.value)
    for tag in range(tags):
        # Both ends of each bucket and values between; bucket 1 is a latency of one cycle.
        at_bucket = 1 + tag % (BUCKETS - 1)
        low = 1 << at_bucket - 1
        others = (low - 1, rng.randrange(low)) if at_bucket < BUCKETS - 1 else (low, 1)
        wait = low + rng.choice((0, *others))
        while wait + at in events and ANSWERED in events[wait + at]:
            at += 1
        events.setdefault(at, {})[ASKED] = tag
        events.setdefault(at + wait, {})[ANSWERED] = tag
        at += 1
    wanted, requested, out, before = [0] * COUNTERS, {}, 0, 0
    dut.s_cnt_run.value = dut.s_cpl_last.value = 1
    for at in [*sorted(events), max(events) + 8]:
        if at > before:
            dut.s_valids.value = 0
            await ClockCycles(dut.clk, at - before)
        wanted[Perf.RD_OUT + bucket(out)] += at - before
        now = events.get(at, {})
        dut.s_valids.value = dut.s_readies.value = sum(1 << stream for stream in now)
        dut.s_rd_tag.value, dut.s_cpl_tag.value = (now.get(which, 0) for which in (ASKED, ANSWERED))
        await RisingEdge(dut.clk)
        wanted[Perf.RD_OUT + bucket(out)] += 1
        before = at + 1
        out += (ASKED in now) - (ANSWERED in now)
        for stream, tag in now.items():
            wanted[Perf.STREAM + 2 * stream] += 1
            if stream == ASKED:
                requested[tag] = at
            else:
                wanted[Perf.RD_LATENCY + bucket(at - requested[tag])] += 1
    wanted[Perf.SENDS_OPEN] = before
    dut.s_cnt_run.value = 0
    # Before the first and after the last cycle the gauges are 0, so their lag cancels out.
    for _ in range(2):
        assert await counters(dut) == wanted
    assert min(wanted[Perf.RD_LATENCY + 1 :][: BUCKETS - 1]) >= tags // BUCKETS


@cocotb.test()
async def reads_longer_than_all_buckets(dut):
    """host.perf_counters.longest: Reads of 2^14 to 2^18 cycles count in the last bucket, and one
    whose lower bits are all 1; a build with another number of tags stops at 2^15."""
    await start(dut)
    longest = 18 if int(dut.COUNT_LEFT.value) else 15
    dut.s_cnt_run.value = dut.s_cpl_last.value = 1
    dut.s_readies.value = 1 << ASKED | 1 << ANSWERED
    lengths = sorted([*(1 << bits for bits in range(14, longest + 1)), (1 << 15) - 1])
    for tag in range(len(lengths)):
        dut.s_valids.value, dut.s_rd_tag.value = 1 << ASKED, tag
        await RisingEdge(dut.clk)
    dut.s_valids.value, gone = 0, len(lengths)
    for tag, length in enumerate(lengths):
        # All inputs are constant: only time advances.
        await Timer((length + tag - gone) * PERIOD_NS - 2, "ns")
        await RisingEdge(dut.clk)
        dut.s_valids.value, dut.s_cpl_tag.value = 1 << ANSWERED, tag
        await RisingEdge(dut.clk)
        dut.s_valids.value, gone = 0, length + tag + 1
    await ClockCycles(dut.clk, timing("efa_perf_counters", "completed").latency)
    dut.s_cnt_run.value = 0
    shown = await counters(dut)
    latencies = shown[Perf.RD_LATENCY : Perf.RD_LATENCY + BUCKETS]
    assert latencies == [0] * (BUCKETS - 1) + [len(lengths)]


@cocotb.test()
async def every_tag_at_once(dut):
    """host.perf_counters.tags: The gauge follows the outstanding reads up to all tags, up and down
    around half of them, and back, one count per cycle."""
    await start(dut)
    tags, lag = int(dut.TAGS.value), timing("efa_perf_counters", "gauge").latency
    dut.s_readies.value = (1 << len(PerfStream)) - 1
    dut.s_cnt_run.value, dut.s_cpl_last.value = 1, 1
    wanted, rng = [0] * BUCKETS, rng_for("tags")
    # With all tags, 20 cycles: the counter of this bucket must wrap.
    some = [ASKED, ANSWERED] * (tags // 4)
    rng.shuffle(some)
    moves = [ASKED] * tags + [None] * 20 + [ANSWERED] * (tags // 2) + some
    free, used = deque(range(tags)), deque()
    for move in [*moves, *[ANSWERED] * (tags // 2)]:
        wanted[bucket(len(used))] += 1
        dut.s_valids.value = 0 if move is None else 1 << move
        if move == ASKED:
            dut.s_rd_tag.value = free[0]
            used.append(free.popleft())
        elif move == ANSWERED:
            dut.s_cpl_tag.value = used[0]
            free.append(used.popleft())
        await RisingEdge(dut.clk)
    dut.s_valids.value = 0
    await ClockCycles(dut.clk, lag)
    dut.s_cnt_run.value = 0
    shown = await counters(dut)
    gauge = shown[Perf.RD_OUT : Perf.RD_OUT + BUCKETS]
    assert gauge[1:] == wanted[1:] and gauge[bucket(tags)] > 20


@cocotb.test()
async def each_count_of_sends_shows(dut):
    """host.perf_counters.sends: One cycle at each number of outstanding sends increments the
    counter of its bucket by one."""
    await start(dut)
    lag = timing("efa_perf_counters", "gauge").latency
    wanted = None
    for _ in range(3):
        for level in (1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024):
            dut.s_sends_open.value = level
            await ClockCycles(dut.clk, lag)
            dut.s_cnt_run.value = 1
            await RisingEdge(dut.clk)
            dut.s_cnt_run.value = 0
            shown = await counters(dut)
            if wanted is not None:
                wanted[Perf.SENDS_OPEN + bucket(level)] += 1
                wanted[Perf.RD_OUT] += 1
                assert shown == wanted, level
            wanted = shown


@cocotb.test()
async def counting_stops_and_starts_over(dut):
    """host.perf_counters.run: With counting off, reads are tracked but not counted; clear and reset
    zero all counters."""
    await start(dut)
    host = Host(dut, "run")
    for _ in range(300):
        host.cycle(run=False)
        await RisingEdge(dut.clk)
    host.quiet(False)
    assert await counters(dut) == [0] * COUNTERS
    for _ in range(50):
        host.cycle()
        await RisingEdge(dut.clk)
    host.quiet(False)
    counted = await counters(dut)
    assert any(counted) and counted == await counters(dut)
    dut.s_cnt_clear.value = 1
    await RisingEdge(dut.clk)
    dut.s_cnt_clear.value = 0
    assert await counters(dut) == [0] * COUNTERS
    for _ in range(50):
        host.cycle()
        await RisingEdge(dut.clk)
    # Traffic during a reset is not counted, not even in its last cycle.
    dut.s_valids.value = dut.s_readies.value = (1 << len(PerfStream)) - 1
    dut.s_cpl_last.value = dut.s_cnt_run.value = 1
    dut.s_sends_open.value = 0
    dut.rst.value = 1
    await RisingEdge(dut.clk)
    dut.rst.value = 0
    host.quiet(True)
    await ClockCycles(dut.clk, 20)
    host.quiet(False)
    shown = await counters(dut)
    # Gauges lag by one cycle, and the reset cycle counts nothing.
    assert shown[Perf.RD_OUT] == shown[Perf.SENDS_OPEN] == 19
    assert sum(shown) == 2 * 19


@cocotb.test()
async def each_in_its_time(dut):
    """host.perf_counters.time: Beats and completed reads meet their specified counter latency."""
    await start(dut)
    dut.s_cnt_run.value = 1
    for name, stream, index in (
        ("beat", PerfStream.M_NET, Perf.STREAM + 2 * PerfStream.M_NET),
        ("completed", ANSWERED, Perf.RD_LATENCY + bucket(8)),
    ):
        dut.s_valids.value = dut.s_readies.value = 1 << ASKED
        await RisingEdge(dut.clk)
        dut.s_valids.value = 0
        await ClockCycles(dut.clk, 7)
        dut.cnt_rd_addr.value = int(index)
        dut.s_cpl_last.value = 1
        dut.s_valids.value = dut.s_readies.value = 1 << stream
        await RisingEdge(dut.clk)
        dut.s_valids.value = 0
        # cnt_data follows the counter by one cycle.
        for _ in range(timing("efa_perf_counters", name).latency):
            await RisingEdge(dut.clk)
            assert counted(dut, int(dut.cnt_rd_data.value)) == 0, name
        await RisingEdge(dut.clk)
        assert counted(dut, int(dut.cnt_rd_data.value)) == 1, name
