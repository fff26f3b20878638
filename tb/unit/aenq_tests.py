# SPDX-License-Identifier: Apache-2.0
"""Tests efa_aenq: events written, dropped or held; keep-alives; consumer index validation."""

import cocotb
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge

from efa_cosim.layouts.defs import LIMITS, REG_BITS, AdminAenqEntry, AnomalyAdmin, Reg
from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, cycle, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, high, low, until

CONSUMER, DROPPED = AnomalyAdmin.AENQ_CONSUMER, AnomalyAdmin.AENQ_DROPPED
GROUPS, KEEP_ALIVE = 0x1E, 4
REGISTERS = [int(register) for register in (
    Reg.AENQ_BASE_LO, Reg.AENQ_BASE_HI, Reg.AENQ_CAPS, Reg.AENQ_CONS_DB)]  # fmt: skip
BASE = 0x12_FFFF_F000  # its low 32 bits wrap in the larger rings


def first(dut):
    """Returns the initial count of a ring, which leaves EVENTS_LEFT counts to the 32-bit wrap."""
    return (1 << 32) - int(dut.EVENTS_LEFT.value)


class Ring:
    """Models the host side of the AENQ: checks each AEQE written and advances the consumer
    index."""

    def __init__(self, dut, gaps=0.0, stalls=0.0):
        self.dut, self.rng = dut, rng_for("aenq")
        drive(dut, s_reg_wr_valid=0, s_reg_wr_offset=0, s_reg_wr_data=0, s_cfg_keep_alive=0,
              s_groups=0, s_uptime=0)  # fmt: skip
        self.events = StreamDriver(dut, "s_aenq", gaps)
        self.wr = StreamMonitor(dut, "m_wr", stalls, on_beat=self.written)
        self.notes = StreamMonitor(dut, "m_note")
        self.reported = StreamMonitor(dut, "ev_aenq")
        self.anomaly = StreamMonitor(dut, "ev_anomaly")
        self.entries, self.consumed, self.depth, self.vector, self.stamp = [], 0, 16, 0, -1
        self.base = BASE
        # Cycles since power-on; the low 32 bits wrap soon.
        self.born = self.rng.getrandbits(31) + 1 << 32
        self.born -= 500
        cocotb.start_soon(self.clock())

    async def clock(self):
        while True:
            await RisingEdge(self.dut.clk)
            self.dut.s_uptime.value = self.uptime()

    def uptime(self):
        """Returns the current number of cycles since power-on."""
        return (self.born + cycle()) % (1 << 64)

    async def store(self, register, value):
        drive(self.dut, s_reg_wr_valid=1, s_reg_wr_offset=int(register), s_reg_wr_data=value)
        await RisingEdge(self.dut.clk)
        # Offset and data are don't-care without valid.
        drive(self.dut, s_reg_wr_valid=0, s_reg_wr_offset=self.rng.choice(REGISTERS),
              s_reg_wr_data=self.rng.getrandbits(32))  # fmt: skip

    async def store_beside(self, most):
        """Stores random values at up to `most` offsets that differ in one bit from a register."""
        for _ in range(self.rng.randrange(most + 1)):
            offset = self.rng.choice(REGISTERS) ^ 1 << self.rng.randrange(16)
            if offset not in list(Reg):
                await self.store(offset, self.rng.getrandbits(32))

    async def set_up(self, depth=16, vector=0, size=64, beside=0):
        """Stores the ring registers, with up to `beside` other stores after each."""
        self.entries, self.consumed, self.depth, self.vector = [], 0, depth, vector
        halves = [(Reg.AENQ_BASE_LO, self.base & 0xFFFF_FFFF), (Reg.AENQ_BASE_HI, self.base >> 32)]
        for register, value in self.rng.sample(halves, 2):
            await self.store(register, value)
            await self.store_beside(beside)
        await self.store(Reg.AENQ_CAPS, REG_BITS.AENQ_CAPS.pack(
            AENQ_DEPTH=depth, AENQ_ENTRY_SIZE=size, AENQ_MSIX_VECTOR=vector))  # fmt: skip
        await self.store_beside(beside)

    def place(self, number):
        """Returns the address of the AEQE with this number."""
        return ((self.base >> 6) + number % self.depth) % (1 << 58) << 6

    def written(self, beat):
        number = len(self.entries)
        entry = AdminAenqEntry.unpack(beat["data"].to_bytes(64, "little"))
        header = entry.aenq_common_desc
        assert beat["addr"] == self.place(number)
        assert header.flags == 1 - number // self.depth % 2, "phase"
        assert number + 1 - self.consumed <= self.depth, "AEQE written to a full ring"
        stamp = header.timestamp_high << 32 | header.timestamp_low
        assert stamp > self.stamp, "timestamp is not monotonic"
        assert (self.uptime() - stamp) % (1 << 64) < 256, "timestamp differs from the uptime"
        self.stamp = stamp
        data = beat["data"] >> 128
        self.entries.append((int(header.group), int(header.syndrome), data))

    def post(self, group):
        beat = {"group": group, "syndrome": self.rng.getrandbits(16),
                "data": self.rng.getrandbits(384)}  # fmt: skip
        self.events.post(beat)
        return (group, beat["syndrome"], beat["data"])

    async def consume(self, count):
        await self.store(Reg.AENQ_CONS_DB, (first(self.dut) + count) % (1 << 32))
        self.consumed = count

    def odds(self):
        found = [(beat["data"] & 15, beat["data"] >> 4) for beat in self.anomaly.beats]
        self.anomaly.beats.clear()
        return found


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0), (0.6, 0.0), (0.2, 0.8)])
async def events_go_into_their_ring(dut, pace):
    """admin.aenq.ring: events of all groups and syndromes are written in rings of several depths
    over wraps, with one note per write."""
    ring = Ring(dut, *pace)
    await clock_and_reset(dut)
    dut.s_groups.value = GROUPS
    for depth in (1, 2, 16, LIMITS.max_aq_depth):
        vector = ring.rng.getrandbits(8)
        await ring.set_up(depth, vector)
        due = [ring.post(ring.rng.randrange(1, 4)) for _ in range(min(5 * depth, 100))]
        for _ in range(4000):
            await ClockCycles(dut.clk, ring.rng.randrange(1, 8))
            if ring.consumed < len(ring.entries):
                await ring.consume(ring.rng.randrange(ring.consumed, len(ring.entries)) + 1)
            if len(ring.entries) == len(due):
                break
        assert ring.entries == due
        await ClockCycles(dut.clk, 3)
        assert len(ring.notes.beats) == len(due) and dut.m_vector.value == vector
        reported = [(beat["data"] & 0xFFFF, beat["data"] >> 16) for beat in ring.reported.beats]
        assert reported == [(group, syndrome) for group, syndrome, _ in due]
        for monitor in (ring.notes, ring.reported, ring.wr):
            monitor.beats.clear()
    assert not ring.odds()


@cocotb.test()
async def any_ring_at_any_place(dut):
    """admin.aenq.setup: random depths, AEQE sizes, bases and vectors follow the rules; offsets
    that differ in one bit from a register have no effect."""
    ring = Ring(dut)
    rng = ring.rng
    await clock_and_reset(dut)
    dut.s_groups.value = GROUPS
    for turn in range(120):
        depth = 1 << rng.randrange(16) if turn % 3 else 1 << rng.randrange(11)
        if rng.random() < 0.2:
            depth |= 1 << rng.randrange(16)
        size = 64
        if turn % 5 == 4:
            depth, size = 1 << rng.randrange(11), 64 ^ 1 << turn // 5 % 8
        ring.base, ring.born, ring.stamp = rng.getrandbits(64), rng.getrandbits(64), -1
        await ring.set_up(depth, rng.getrandbits(8), size, beside=3)
        valid = size == 64 and depth <= LIMITS.max_aq_depth and not depth & depth - 1
        due = [ring.post(rng.randrange(1, 4)) for _ in range(3 if depth > 2 else 1)]
        await ring.events.idle(250)
        await ClockCycles(dut.clk, 6)
        assert ring.entries == (due if valid else []), (depth, size)
        assert len(ring.odds()) == (0 if valid else len(due))
        assert int(dut.m_vector.value) == ring.vector


@cocotb.test()
async def a_full_ring_holds_events(dut):
    """admin.aenq.full: a full ring holds events until the host consumes, the group is disabled
    or the ring is disabled."""
    ring = Ring(dut)
    await clock_and_reset(dut)
    dut.s_groups.value = GROUPS

    async def fill():
        await ring.set_up(4)
        due = [ring.post(2) for _ in range(4)]
        waits = ring.post(3)
        await ClockCycles(dut.clk, 40)
        assert ring.entries == due and dut.s_aenq_ready.value == 0
        return waits

    waits = await fill()
    assert not ring.odds()
    await ring.consume(1)
    await ClockCycles(dut.clk, 10)
    assert ring.entries[-1] == waits
    waits = await fill()
    dut.s_groups.value = GROUPS & ~(1 << 3)
    await ClockCycles(dut.clk, 10)
    assert len(ring.entries) == 4 and ring.odds() == [(DROPPED, waits[1] << 16 | 3)]
    dut.s_groups.value = GROUPS
    waits = await fill()
    await ring.set_up(3)
    await ClockCycles(dut.clk, 10)
    assert not ring.entries and ring.odds() == [(DROPPED, waits[1] << 16 | 3)]


@cocotb.test()
async def events_of_disabled_groups_are_dropped(dut):
    """admin.aenq.dropped: events of invalid or disabled groups, or without a ring, are dropped
    and reported; a keep-alive of a disabled group is not reported."""
    ring = Ring(dut)
    await clock_and_reset(dut)
    dut.s_groups.value = 0xFFFF_FFFF
    lost = [ring.post(group) for group in (1, 4, 0, 5)]
    await ClockCycles(dut.clk, 20)
    await ring.set_up(16)
    lost += [ring.post(group) for group in (0, 5, 31, 32, 33, 36, 0x8001, 0xFFFF)]
    await ClockCycles(dut.clk, 30)
    dut.s_groups.value = 1 << 2
    lost += [ring.post(group) for group in (1, 3)]
    ring.post(KEEP_ALIVE)
    pending = ring.post(2)
    await ClockCycles(dut.clk, 20)
    assert ring.entries == [pending]
    assert ring.odds() == [(DROPPED, syndrome << 16 | group) for group, syndrome, _ in lost]
    for depth, size in ((12, 64), (0, 64), (16, 128), (2 * LIMITS.max_aq_depth, 64)):
        await ring.set_up(depth, size=size)
        ring.post(2)
        await ClockCycles(dut.clk, 6)
        assert not ring.entries and len(ring.odds()) == 1


@cocotb.test()
async def consumer_counts_by_the_rule(dut):
    """admin.aenq.consumer: a consumer index ahead of the producer or behind the last consumer
    index is ignored and reported."""
    ring, depth = Ring(dut), 8
    await clock_and_reset(dut)
    begins, complete = first(dut), 1 << 32
    for count in (0, 3):
        await ring.store(Reg.AENQ_CONS_DB, (begins + count) % complete)
    await ClockCycles(dut.clk, 2)
    assert ring.odds() == [(CONSUMER, (begins + 3) % complete)]
    dut.s_groups.value = GROUPS
    await ring.set_up(depth)
    refused = 0
    for _ in range(300):
        for _ in range(ring.rng.randrange(3)):
            if len(ring.entries) - ring.consumed < depth:
                ring.post(1)
                await ClockCycles(dut.clk, 4)
        there = len(ring.entries)
        steps = (0, 1, -1, there - ring.consumed, depth + 1, 1 << ring.rng.randrange(3, 32))
        value = ring.consumed + ring.rng.choice(steps)
        if ring.consumed <= value <= there:
            await ring.consume(value)
            await ClockCycles(dut.clk, 2)
            assert not ring.odds()
        else:
            await ring.store(Reg.AENQ_CONS_DB, (begins + value) % complete)
            await ClockCycles(dut.clk, 2)
            assert ring.odds() == [(CONSUMER, (begins + value) % complete)]
            refused += 1
    assert refused > 50


@cocotb.test()
async def keep_alives_at_their_period(dut):
    """admin.aenq.keep_alive: keep-alives follow the configured period once the group is enabled
    and are dropped in a full ring."""
    ring = Ring(dut)
    await clock_and_reset(dut)
    await ring.set_up(4)
    dut.s_cfg_keep_alive.value = 50
    await ring.wr.none(200)
    dut.s_groups.value = 1 << KEEP_ALIVE
    times = []
    ring.wr.on_beat = lambda beat: (times.append(cycle()), ring.written(beat))
    await RisingEdge(dut.clk)
    start = cycle()
    await ClockCycles(dut.clk, 500)
    assert len(times) == 4 and ring.entries == [(KEEP_ALIVE, 0, 0)] * 4 and not ring.odds()
    assert {b - a for a, b in zip(times, times[1:], strict=False)} == {50}
    assert 50 <= times[0] - start <= 54
    for _ in range(3):
        ring.post(KEEP_ALIVE)
    await ClockCycles(dut.clk, 20)
    assert not ring.events.waiting and len(ring.entries) == 4 and not ring.odds()
    await ring.consume(4)
    await ClockCycles(dut.clk, 120)
    assert 6 <= len(ring.entries) <= 7
    dut.s_cfg_keep_alive.value = 0
    await ClockCycles(dut.clk, 60)
    count = len(ring.entries)
    await ClockCycles(dut.clk, 200)
    assert len(ring.entries) == count
    dut.s_cfg_keep_alive.value = 30
    await ring.set_up(0)
    await ClockCycles(dut.clk, 100)
    assert not ring.entries and ring.odds() == [(DROPPED, KEEP_ALIVE)] * 3
    dut.s_groups.value = 0
    await ClockCycles(dut.clk, 100)
    assert not ring.odds()


def raw(dut, **values):
    """Drives the pins without bench agents, so that many cycles simulate quickly."""
    drive(dut, **dict.fromkeys((
        "s_reg_wr_valid", "s_reg_wr_offset", "s_reg_wr_data", "s_cfg_keep_alive", "s_groups",
        "s_uptime", "s_aenq_valid", "s_aenq_group", "s_aenq_syndrome", "s_aenq_data",
    ), 0), m_wr_ready=1)  # fmt: skip
    drive(dut, **values)


async def store(dut, register, value):
    drive(dut, s_reg_wr_valid=1, s_reg_wr_offset=int(register), s_reg_wr_data=value)
    await RisingEdge(dut.clk)
    dut.s_reg_wr_valid.value = 0


@cocotb.test()
async def a_long_period(dut):
    """admin.aenq.period: keep-alives follow periods of 1 to 70000 cycles exactly."""
    raw(dut)
    await clock_and_reset(dut)
    await store(dut, Reg.AENQ_CAPS, REG_BITS.AENQ_CAPS.pack(AENQ_DEPTH=64, AENQ_ENTRY_SIZE=64))
    for period in (1, 2, 3, 9, 64, 1000, 4097, 33000, 70000):
        drive(dut, s_groups=0, s_cfg_keep_alive=period)
        await ClockCycles(dut.clk, 4)
        dut.s_groups.value = 1 << KEEP_ALIVE
        times = []
        for _ in range(2 if period > 4000 else 4):
            await RisingEdge(dut.m_wr_valid)
            times.append(cycle())
        # The write of a keep-alive takes two cycles, which is the shortest distance.
        assert {b - a for a, b in zip(times, times[1:], strict=False)} == {max(period, 2)}, period


@cocotb.test()
async def a_due_keep_alive_waits(dut):
    """admin.aenq.due: a due keep-alive waits for the write before it and is cancelled when its
    group is disabled; no event is accepted in the cycle of a register store."""
    raw(dut, s_groups=GROUPS, s_aenq_group=1, m_wr_ready=0)
    await clock_and_reset(dut)
    await store(dut, Reg.AENQ_CAPS, REG_BITS.AENQ_CAPS.pack(AENQ_DEPTH=64, AENQ_ENTRY_SIZE=64))

    async def next_group():
        await until(dut, high(dut.m_wr_valid, dut.m_wr_ready), cycles=20)
        group = int(dut.ev_aenq_data.value) & 0xFFFF
        await RisingEdge(dut.clk)
        return group

    for enabled in (GROUPS, GROUPS & ~(1 << KEEP_ALIVE)):
        drive(dut, s_groups=GROUPS, s_aenq_valid=1, m_wr_ready=0)
        await until(dut, high(dut.m_wr_valid))
        drive(dut, s_aenq_valid=0, s_cfg_keep_alive=300)
        await ClockCycles(dut.clk, 320)
        dut.s_groups.value = enabled
        await ClockCycles(dut.clk, 3)
        drive(dut, m_wr_ready=1, s_aenq_valid=1)
        due = [1, KEEP_ALIVE, 1] if enabled == GROUPS else [1, 1, 1]
        assert [await next_group() for _ in due] == due
        dut.s_cfg_keep_alive.value = 0
        await ClockCycles(dut.clk, 4)
    for _ in range(5):
        await until(dut, low(dut.m_wr_valid))
        drive(dut, s_reg_wr_valid=1, s_reg_wr_offset=int(Reg.INTR_MASK))
        await ReadOnly()
        assert dut.s_aenq_ready.value == 0
        await RisingEdge(dut.clk)
        dut.s_reg_wr_valid.value = 0
        await ClockCycles(dut.clk, 2)


@cocotb.test()
@cocotb.parametrize(depth=[256, 512, LIMITS.max_aq_depth])
async def many_events(dut, depth):
    """admin.aenq.many: counts, addresses and phases are correct over nine passes of the deepest
    rings."""
    rng = rng_for("many")
    raw(dut, s_groups=GROUPS, s_aenq_group=1)
    await clock_and_reset(dut)
    await store(dut, Reg.AENQ_CAPS, REG_BITS.AENQ_CAPS.pack(AENQ_DEPTH=depth, AENQ_ENTRY_SIZE=64))
    dut.s_aenq_valid.value = 1
    for turn in range(1, 10):
        await ClockCycles(dut.clk, 2 * depth + 8)
        assert dut.m_wr_valid.value == 0 and dut.s_aenq_ready.value == 0
        assert int(dut.m_wr_addr.value) == 64 * (depth - 1)
        header = AdminAenqEntry.unpack(int(dut.m_wr_data.value).to_bytes(64, "little"))
        assert header.aenq_common_desc.flags == turn % 2
        before, there = (turn - 1) * depth, turn * depth
        beside = [before + sign * (1 << bit) for bit in range(depth.bit_length(), 32)
                  for sign in (1, -1)]  # fmt: skip
        for count in (*beside, before - 1, there + 1, there):
            await store(dut, Reg.AENQ_CONS_DB, (first(dut) + count) % (1 << 32))
            await RisingEdge(dut.clk)
            assert dut.ev_anomaly_valid.value == int(count != there), (turn, count)
            await ClockCycles(dut.clk, 1 + rng.getrandbits(1))


@cocotb.test()
async def a_waiting_event_stops_no_keep_alive(dut):
    """admin.aenq.both: waiting events and frequent keep-alives do not block each other."""
    ring = Ring(dut, stalls=0.3)
    await clock_and_reset(dut)
    dut.s_groups.value = GROUPS
    dut.s_cfg_keep_alive.value = 6
    await ring.set_up(512)
    due = [ring.post(1) for _ in range(40)]
    await ClockCycles(dut.clk, 700)
    assert [one for one in ring.entries if one[0] == 1] == due
    assert len(ring.entries) > 100


@cocotb.test()
async def its_cycles(dut):
    """admin.aenq.time"""
    promised = timing("efa_aenq", "event")
    ring = Ring(dut)
    await clock_and_reset(dut)
    await ring.set_up(64)
    dut.s_groups.value = GROUPS
    for _ in range(20):
        ring.post(1)
    accepted, written = [], []
    for at in range(60):
        await ReadOnly()
        if dut.s_aenq_valid.value == 1 and dut.s_aenq_ready.value == 1:
            accepted.append(at)
        if dut.m_wr_valid.value == 1:
            written.append(at)
            assert dut.m_note_valid.value == 1
        await RisingEdge(dut.clk)
    assert written[0] - accepted[0] == promised.latency
    assert written[19] - written[0] == 19 * promised.interval


@cocotb.test()
async def reset_drops_what_waits(dut):
    """admin.aenq.reset"""
    ring = Ring(dut, stalls=1.0)
    await clock_and_reset(dut)
    dut.s_groups.value = GROUPS
    dut.s_cfg_keep_alive.value = 20
    await ring.set_up(2)
    for _ in range(5):
        ring.post(1)
    await ClockCycles(dut.clk, 50)
    ring.events.clear()
    dut.s_groups.value = 0
    await reset(dut)
    ring.events.clear()
    await ClockCycles(dut.clk, 60)
    assert dut.m_wr_valid.value == 0 and not ring.reported.beats
    ahead = (first(dut) + 1) % (1 << 32)
    await ring.store(Reg.AENQ_CONS_DB, ahead)
    await ClockCycles(dut.clk, 2)
    assert ring.odds()[-1] == (CONSUMER, ahead), (
        "after reset the producer index must be at its initial value"
    )
    await ring.store(Reg.AENQ_CAPS, REG_BITS.AENQ_CAPS.pack(AENQ_DEPTH=4, AENQ_ENTRY_SIZE=64))
    dut.s_groups.value = GROUPS
    ring.post(1)
    await ClockCycles(dut.clk, 4)
    assert int(dut.m_wr_addr.value) == 0 and dut.m_wr_valid.value == 1
