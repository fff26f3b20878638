# SPDX-License-Identifier: Apache-2.0
"""Tests efa_rd_timeout: reads without a completion time out once, in time; other reads never do."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from tb.lib.stream import clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, high, until


class Bench:
    """Models the writers of both tables and grants slots on request."""

    def __init__(self, dut, slots=1.0):
        self.dut, self.rng, self.slots = dut, rng_for("rd_timeout"), slots
        self.tags = 1 << int(dut.TAG_W.value)
        self.timeout = int(dut.TIMEOUT_CYCLES.value)
        self.phase = [0] * self.tags
        self.given_up = []
        self.now = 0
        for name in ("s_req_wr", "s_have_wr", "s_slot_done", "s_now", "s_req_tag", "s_req_phase",
                     "s_have_tag", "s_have_phase", "s_have_given_up"):  # fmt: skip
            getattr(dut, name).value = 0

    async def start(self):
        # efa_dma_rd, which writes both tables, writes them for the first time during reset.
        await clock_and_reset(self.dut)
        self.dut.rst.value = 1
        for tag in range(self.tags):
            await self.have(tag, 0)
            await self.request(tag, 0)
        cocotb.start_soon(self.watch())
        await reset(self.dut)
        self._task = cocotb.start_soon(self._run())
        return self

    async def watch(self):
        """Checks the scan: each tag is read, compared by age, and requests a slot when it timed
        out."""
        dut = self.dut
        requested, have = [(0, 0)] * self.tags, [(0, 0)] * self.tags
        tag, step, seen = 0, 0, None
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value != 0:
                tag, step = 0, 0
                continue
            assert int(dut.m_slot_tag.value) == tag
            assert int(dut.m_slot_req.value) == (step == 2), tag
            now, before = int(dut.s_now.value), step
            if step == 0:
                seen, step = (*requested[tag], *have[tag]), 1
            elif step == 1:
                phase, at, done, given_up = seen
                old = (now - at) % (1 << 32) >= self.timeout
                step = 2 if phase != done and not given_up and old else 0
            elif dut.s_slot_done.value == 1:
                assert int(dut.m_slot_phase.value) == seen[0]
                step = 0
            if before and not step:
                tag = (tag + 1) % self.tags
            if dut.s_req_wr.value == 1:
                requested[int(dut.s_req_tag.value)] = int(dut.s_req_phase.value), now
            if dut.s_have_wr.value == 1:
                written = int(dut.s_have_phase.value), int(dut.s_have_given_up.value)
                have[int(dut.s_have_tag.value)] = written

    async def _run(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            self.now = (self.now + 1) & 0xFFFF_FFFF
            dut.s_now.value = self.now
            if dut.s_slot_done.value == 1 and dut.m_slot_req.value == 1:
                tag, phase = int(dut.m_slot_tag.value), int(dut.m_slot_phase.value)
                self.given_up.append((tag, phase, self.now))
                dut.s_slot_done.value = 0
                cocotb.start_soon(self.have(tag, 1 - phase, given_up=1))
            elif dut.m_slot_req.value == 1 and dut.s_slot_done.value == 0:
                dut.s_slot_done.value = int(self.rng.random() < self.slots)
            else:
                dut.s_slot_done.value = 0

    async def request(self, tag, phase):
        dut = self.dut
        dut.s_req_tag.value, dut.s_req_phase.value, dut.s_req_wr.value = tag, phase, 1
        await RisingEdge(dut.clk)
        # Without a write the other inputs are don't-care.
        dut.s_req_wr.value = 0
        dut.s_req_tag.value, dut.s_req_phase.value = self.rng.randrange(self.tags), 1 - phase

    async def have(self, tag, phase, given_up=0):
        dut = self.dut
        dut.s_have_tag.value, dut.s_have_phase.value = tag, phase
        dut.s_have_given_up.value, dut.s_have_wr.value = given_up, 1
        await RisingEdge(dut.clk)
        dut.s_have_wr.value = 0
        dut.s_have_tag.value, dut.s_have_phase.value = self.rng.randrange(self.tags), 1 - phase
        dut.s_have_given_up.value = 1 - given_up

    async def use(self, tag):
        """Issues a read with this tag; returns the cycle."""
        self.phase[tag] ^= 1
        await self.request(tag, self.phase[tag])
        return self.now


@cocotb.test()
async def each_once_in_time(dut):
    """host.rd_timeout.found: Each read without a completion times out once, within one scan round
    of the limit."""
    bench = await Bench(dut).start()
    round_trip = timing("efa_rd_timeout", "tag").interval * bench.tags
    for _ in range(12):
        bench.slots = bench.rng.choice((1.0, 0.5))
        some = bench.rng.sample(range(bench.tags), bench.rng.randrange(1, bench.tags + 1))
        requested = {tag: await bench.use(tag) for tag in some}
        await ClockCycles(dut.clk, bench.timeout + 8 * round_trip)
        assert sorted(tag for tag, _, _ in bench.given_up) == sorted(requested)
        for tag, phase, at in bench.given_up:
            assert phase == bench.phase[tag]
            # A slot costs one or two cycles of the round, plus its own delay.
            late = at - requested[tag] - bench.timeout
            assert -4 <= late <= round_trip + (4 + 8 * (bench.slots < 1)) * len(requested), (
                tag,
                late,
            )
        bench.given_up.clear()
        for tag in some:
            await bench.have(tag, bench.phase[tag])


@cocotb.test()
async def responded_in_time(dut):
    """host.rd_timeout.answered: A completed read never times out, nor does a completed read whose
    tag is reused."""
    bench = await Bench(dut).start()
    for _ in range(3):
        for tag in range(bench.tags):
            await bench.use(tag)
        for tag in range(bench.tags):
            await bench.have(tag, bench.phase[tag])
        await ClockCycles(dut.clk, bench.timeout // 2)
    await ClockCycles(dut.clk, 2 * bench.timeout)
    assert not bench.given_up


@cocotb.test()
async def clock_wraps(dut):
    """host.rd_timeout.wrap: The timeout works across a wrap of the cycle counter."""
    bench = await Bench(dut).start()
    bench.now = 0xFFFF_FFF0
    await ClockCycles(dut.clk, 2)
    await bench.use(2)
    await ClockCycles(dut.clk, bench.timeout // 2)
    assert not bench.given_up
    await ClockCycles(dut.clk, bench.timeout + 8 * bench.tags)
    assert [tag for tag, _, _ in bench.given_up] == [2]


@cocotb.test()
async def each_carry_of_the_clock(dut):
    """host.rd_timeout.carry: A read issued before any carry of the cycle counter times out after
    the carry, not earlier."""
    bench = await Bench(dut).start()
    for bit in range(9, 33):
        bench.now = (1 << bit) - bench.rng.randrange(20, bench.timeout - 20)
        await ClockCycles(dut.clk, 2)
        tag = bench.rng.randrange(bench.tags)
        requested = await bench.use(tag)
        await ClockCycles(dut.clk, bench.timeout + 3 * bench.tags + 8)
        ((found, phase, at),) = bench.given_up
        assert (found, phase) == (tag, bench.phase[tag])
        late = (at - requested) % (1 << 32) - bench.timeout
        assert -4 <= late <= 2 * bench.tags + 4, bit
        bench.given_up.clear()
        await bench.have(tag, phase)


@cocotb.test()
async def any_delay_at_any_time(dut):
    """host.rd_timeout.generation: Ages around the limit and one bit away from it are decided
    correctly while both tables are written, including the entry of the scanned tag."""
    bench = await Bench(dut).start()
    bench._task.cancel()
    rng, requested, found = bench.rng, {}, 0
    for _ in range(4000):
        await RisingEdge(dut.clk)
        # The scan reads this tag now, or the next tag soon.
        shown = int(dut.m_slot_tag.value)
        gen = bench.timeout - rng.getrandbits(1) + rng.choice((0, 1 << rng.randrange(32)))
        now = requested.get(shown, 0) + gen & 0xFFFF_FFFF
        tag, have = (rng.choice((shown, rng.randrange(bench.tags))) for _ in range(2))
        request = rng.random() < 0.3
        done = dut.m_slot_req.value == 1 and dut.s_slot_done.value == 0 and rng.random() < 0.3
        found += done
        drive(dut, s_now=now, s_req_wr=int(request), s_req_tag=tag, s_req_phase=rng.getrandbits(1),
              s_have_wr=int(rng.random() < 0.3), s_have_tag=have, s_have_phase=rng.getrandbits(1),
              s_have_given_up=int(rng.random() < 0.2), s_slot_done=int(done))  # fmt: skip
        if request:
            requested[tag] = now
    assert found > 100


@cocotb.test()
async def slot_held(dut):
    """host.rd_timeout.slot: The slot request stays until its grant, and names the use that timed
    out even when the tag is reused."""
    bench = await Bench(dut, slots=0.02).start()
    for tag in range(4):
        await bench.use(tag)
    await ClockCycles(dut.clk, bench.timeout + 1200)
    assert sorted(tag for tag, _, _ in bench.given_up) == [0, 1, 2, 3]
    bench.slots = 0
    await bench.use(5)
    await until(dut, high(dut.m_slot_req))
    found = bench.phase[5]
    await bench.have(5, found)
    await bench.use(5)
    await ClockCycles(dut.clk, 3)
    assert (int(dut.m_slot_tag.value), int(dut.m_slot_phase.value)) == (5, found)


@cocotb.test()
async def reset_in_traffic(dut):
    """host.rd_timeout.reset: A reset restarts the scan; the tables stay with their owner."""
    bench = await Bench(dut).start()
    await bench.use(1)
    await ClockCycles(dut.clk, bench.timeout // 2)
    await reset(dut)
    assert dut.m_slot_req.value == 0
    await ClockCycles(dut.clk, bench.timeout + 8 * bench.tags)
    assert [tag for tag, _, _ in bench.given_up] == [1]
