# SPDX-License-Identifier: Apache-2.0
"""Tests efa_irq: vector table, messages of every vector, masks, moderation, resets."""

from collections import Counter

import cocotb
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge

from efa_cosim.layouts.defs import LIMITS
from tb.lib.bundles import Bundles
from tb.lib.stream import clock_and_reset, cycle, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, high, rises, until

TABLE, PBA = LIMITS.msix_table_offset, LIMITS.msix_pba_offset
ENTRY, MASK = 16, 12
WORD = 0xFFFF_FFFF


class Bench:
    """Drives stores and requests; checks each message against table, masks and moderation
    interval."""

    def __init__(self, dut, stalls=0.0):
        dut = Bundles(dut).lanes("s_irq", ("adm", "eq"), vector=8)
        self.dut, self.rng, self.stalls = dut, rng_for("msix"), stalls
        self.vectors = int(dut.VECTORS.value)
        drive(dut, s_cfg_msix_enable=1, s_cfg_msix_fmask=0, s_cfg_moderation=0, s_acc_valid=0,
              s_acc_write=0, s_acc_offset=0, s_acc_data=0, s_irq_adm_valid=0, s_irq_adm_vector=0,
              s_irq_eq_valid=0, s_irq_eq_vector=0, m_wr_irq_ready=1)  # fmt: skip
        self.odds = []
        self.cancel()
        self.cancel_table()

    def cancel(self):
        """Clears the state that a core reset clears; `requested` and `left` are counts, `last`
        is in cycles."""
        self.requested, self.left, self.last = Counter(), Counter(), {}
        self.requested_at, self.waiting = {}, None

    def cancel_table(self):
        self.table = [[0, 0, 0] for _ in range(self.vectors)]
        self.masked = [1] * self.vectors

    async def reset(self):
        await clock_and_reset(self.dut, resets=("s_host_rst", "rst"))
        self.cancel()
        await until(self.dut, high(self.dut.m_init_done))

    async def start(self):
        await self.reset()
        cocotb.start_soon(self.watch())
        return self

    async def watch(self):
        """Checks every cycle that only permitted messages leave, with the address and data of
        their vector."""
        dut, edge = self.dut, RisingEdge(self.dut.clk)
        while True:
            await edge
            now = cycle()
            if dut.rst.value == 1:
                self.cancel()
                continue
            self.message(now)
            assert (dut.s_irq_adm_ready.value, dut.s_irq_eq_ready.value) != (1, 1)
            for name in ("adm", "eq"):
                consumed = getattr(dut, f"s_irq_{name}_ready").value == 1
                if consumed:
                    assert getattr(dut, f"s_irq_{name}_valid").value == 1
                    vector = int(getattr(dut, f"s_irq_{name}_vector").value)
                    self.requested[vector] += 1
                    self.requested_at[vector] = now
            if dut.m_anomaly_valid.value == 1:
                self.odds.append(int(dut.m_anomaly_vector.value))
            dut.m_wr_irq_ready.value = int(self.rng.random() >= self.stalls)

    def message(self, now):
        """Checks the offered message and records a message that leaves."""
        dut = self.dut
        if dut.m_wr_irq_valid.value == 0:
            assert dut.ev_irq_valid.value == 0
            return
        vector = int(dut.ev_irq_data.value)
        assert vector < self.vectors
        closed = not self.enabled() or self.masked[vector]
        assert not closed, "message offered while masked"
        low, high_, data = self.table[vector]
        assert int(dut.m_wr_irq_addr.value) == high_ << 32 | low
        assert int(dut.m_wr_irq_data.value) == data
        moderation = int(dut.s_cfg_moderation.value)
        assert now - self.last.get(vector, -1 << 20) >= moderation, (
            "message before the end of the moderation interval"
        )
        assert dut.ev_irq_valid.value == dut.m_wr_irq_ready.value
        if dut.m_wr_irq_ready.value == 1:
            self.left[vector] += 1
            assert self.left[vector] <= self.requested[vector], "message without a request"
            self.last[vector] = now

    def enabled(self):
        return self.dut.s_cfg_msix_enable.value == 1 and self.dut.s_cfg_msix_fmask.value == 0

    async def access(self, offset, write=0, data=0):
        drive(self.dut, s_acc_valid=1, s_acc_write=write, s_acc_offset=offset, s_acc_data=data)
        await RisingEdge(self.dut.clk)
        if write and TABLE <= offset < TABLE + ENTRY * self.vectors:
            entry, place = divmod(offset - TABLE, ENTRY)
            if place == MASK:
                self.masked[entry] = data & 1
            else:
                self.table[entry][place // 4] = data & ~3 & WORD if place == 0 else data
        self.dut.s_acc_valid.value = 0

    async def store(self, offset, data):
        await self.access(offset, 1, data)

    async def load(self, offset):
        """Returns (hit, value): whether the offset belongs to this module, and the data."""
        await self.access(offset, data=self.rng.getrandbits(32))
        await ReadOnly()
        found = int(self.dut.m_acc_hit.value), int(self.dut.m_acc_rdata.value)
        await RisingEdge(self.dut.clk)
        return found

    async def fill(self, masked=0):
        """Stores a random message for every vector."""
        for entry in range(self.vectors):
            for place in range(0, ENTRY, 4):
                value = masked if place == MASK else self.rng.getrandbits(32)
                await self.store(TABLE + ENTRY * entry + place, value)

    async def shows(self):
        """Checks that the table reads back as stored."""
        for entry in range(self.vectors):
            wanted = [*self.table[entry], self.masked[entry]]
            for at, value in enumerate(wanted):
                assert await self.load(TABLE + ENTRY * entry + 4 * at) == (1, value), (entry, at)

    async def pending(self):
        """Returns all pending bits; the bits of absent vectors are 0."""
        value = 0
        for at in range(2 * ((self.vectors + 63) // 64)):
            hit, word = await self.load(PBA + 4 * at)
            assert hit == 1
            value |= word << 32 * at
        return value

    async def request(self, name, vector):
        drive(self.dut, **{f"s_irq_{name}_valid": 1, f"s_irq_{name}_vector": vector})
        await RisingEdge(self.dut.clk)
        await until(self.dut, high(getattr(self.dut, f"s_irq_{name}_ready")))
        drive(self.dut, **{f"s_irq_{name}_valid": 0, f"s_irq_{name}_vector": 0})

    async def settle(self):
        """Waits long enough for every vector to send."""
        await ClockCycles(self.dut.clk, 20 + 12 * self.vectors)

    def none_lost(self):
        """Checks that each request was followed by a message of its vector."""
        for vector, at in self.requested_at.items():
            if vector < self.vectors:
                assert self.last.get(vector, -1) > at, f"vector {vector}: a message was lost"


@cocotb.test()
async def the_table_is_memory(dut):
    """host.irq.table: every field of every vector is stored in any order; other offsets neither
    change nor show the table."""
    bench = await Bench(dut).start()
    rng, end = bench.rng, TABLE + ENTRY * bench.vectors
    await bench.shows()
    await bench.fill()
    await bench.shows()
    for _ in range(20 * bench.vectors):
        await bench.store(TABLE + 4 * rng.randrange(4 * bench.vectors), rng.getrandbits(32))
    await bench.shows()
    pba_end = PBA + 8 * ((bench.vectors + 63) // 64)
    near = [0, 4, TABLE - 4, TABLE - 16, end, end + 4, PBA - 4, pba_end, PBA + 64]
    near += [place ^ 1 << bit for place in (TABLE, PBA, end, pba_end) for bit in range(2, 32)]
    others = [at for at in near if not (TABLE <= at < end or PBA <= at < pba_end)]
    for offset in [*others, PBA, PBA + 4]:
        await bench.store(offset, rng.getrandbits(32) | 1)
    drive(dut, s_acc_offset=TABLE, s_acc_write=1, s_acc_data=WORD)
    await RisingEdge(dut.clk)
    for offset in others:
        assert (await bench.load(offset))[0] == 0, hex(offset)
    assert await bench.pending() == 0
    await bench.shows()


@cocotb.test()
@cocotb.parametrize(source=["adm", "eq"])
async def every_vector_has_its_message(dut, source):
    """host.irq.vectors: each vector sends its own message; a request for an absent vector is
    reported without a message."""
    bench = await Bench(dut).start()
    await bench.fill()
    for vector in range(256):
        await bench.request(source, vector)
        await ClockCycles(dut.clk, 8)
        known = vector < bench.vectors
        assert (bench.left[vector], bench.odds) == (known, [] if known else [vector]), vector
        bench.odds.clear()


@cocotb.test()
@cocotb.parametrize(moderation=[0, 37], stalls=[0.0, 0.6])
async def any_order(dut, moderation, stalls):
    """host.irq.any: mixed requests, vector masks, function masks and loads lose no message and
    add none."""
    bench = await Bench(dut, stalls).start()
    rng = bench.rng
    dut.s_cfg_moderation.value = moderation
    await bench.fill()
    busy = [rng.randrange(bench.vectors) for _ in range(3)]

    async def requests(name):
        for _ in range(150):
            vector = rng.choice((*busy, rng.randrange(bench.vectors), rng.randrange(256)))
            await bench.request(name, vector)
            await ClockCycles(dut.clk, rng.choice((1, 1, 2, 9, 40)))

    async def masks():
        for _ in range(160):
            vector = rng.choice((*busy, rng.randrange(bench.vectors)))
            what = rng.randrange(6)
            if what == 0:
                dut.s_cfg_msix_fmask.value = 1 - int(dut.s_cfg_msix_fmask.value)
            elif what < 5:
                await bench.store(TABLE + ENTRY * vector + MASK, rng.getrandbits(32))
            else:
                await bench.load(rng.choice((PBA, TABLE + ENTRY * vector)))
            await ClockCycles(dut.clk, rng.choice((1, 3, 10, 60)))

    tasks = [cocotb.start_soon(requests("adm")), cocotb.start_soon(requests("eq")),
             cocotb.start_soon(masks())]  # fmt: skip
    for task in tasks:
        await task
    dut.s_cfg_msix_fmask.value = 0
    for vector in range(bench.vectors):
        await bench.store(TABLE + ENTRY * vector + MASK, 0)
    bench.stalls = 0.0
    await ClockCycles(dut.clk, 2 * moderation)
    await bench.settle()
    bench.none_lost()
    assert await bench.pending() == 0 and sum(bench.left.values()) > 10


@cocotb.test()
async def pending_bits_are_those_requested(dut):
    """host.irq.pending: a masked vector has one pending bit for any kind of mask; its message
    leaves once when unmasked."""
    bench = await Bench(dut).start()
    rng = bench.rng
    await bench.fill(masked=1)
    some = []
    for turn in range(6 if bench.vectors < 32 else 2):
        # Each vector is in one of two consecutive sets.
        some = [v for v in range(bench.vectors)
                if (v not in some if turn % 2 else rng.random() < 0.4)]  # fmt: skip
        for vector in some + some[::-1]:
            await bench.request(rng.choice(("adm", "eq")), vector)
        await bench.settle()
        wanted = sum(1 << v for v in some)
        assert await bench.pending() == wanted
        # A pending bit that falls for a cycle in each round of the vectors is wrong, too.
        for word in range(2 * ((bench.vectors + 63) // 64)):
            drive(dut, s_acc_valid=1, s_acc_write=0, s_acc_offset=PBA + 4 * word)
            await RisingEdge(dut.clk)
            for _ in range(bench.vectors + 8):
                await ReadOnly()
                assert int(dut.m_acc_rdata.value) == wanted >> 32 * word & WORD
                await RisingEdge(dut.clk)
        dut.s_acc_valid.value = 0
        dut.s_cfg_msix_fmask.value = 1
        for vector in range(bench.vectors):
            await bench.store(TABLE + ENTRY * vector + MASK, 0)
        await bench.settle()
        assert await bench.pending() == sum(1 << v for v in some)
        dut.s_cfg_msix_enable.value = 0
        dut.s_cfg_msix_fmask.value = 0
        await bench.settle()
        assert await bench.pending() == sum(1 << v for v in some) and not bench.left
        dut.s_cfg_msix_enable.value = 1
        await bench.settle()
        assert await bench.pending() == 0
        assert bench.left == Counter(some)
        bench.cancel()
        for vector in range(bench.vectors):
            await bench.store(TABLE + ENTRY * vector + MASK, 1)


@cocotb.test()
async def disabled_it_loses_messages(dut):
    """host.irq.disabled: a disabled function loses new requests and the message waiting for the
    bus."""
    bench = await Bench(dut).start()
    await bench.fill()
    dut.s_cfg_msix_enable.value = 0
    for vector in range(bench.vectors):
        await bench.request("adm", vector)
    await bench.settle()
    dut.s_cfg_msix_enable.value = 1
    await bench.settle()
    bench.stalls = 1.0
    await ClockCycles(dut.clk, 3)
    await bench.request("eq", 1)
    await ClockCycles(dut.clk, 6)
    assert dut.m_wr_irq_valid.value == 1
    dut.s_cfg_msix_enable.value = 0
    await ClockCycles(dut.clk, 3)
    assert dut.m_wr_irq_valid.value == 0
    dut.s_cfg_msix_enable.value, bench.stalls = 1, 0.0
    await bench.settle()
    assert not bench.left and await bench.pending() == 0


@cocotb.test()
@cocotb.parametrize(moderation=[1, 2, 5, 64, 500])
async def a_held_message_leaves_in_time(dut, moderation):
    """host.irq.distance: a moderated message leaves not before the end of the interval and at
    most the specified cycles later, with requests of other vectors."""
    bench = await Bench(dut).start()
    await bench.fill()
    dut.s_cfg_moderation.value = moderation
    late, other = 4 + 2 * bench.vectors, None
    for turn in range(10):
        vector = bench.rng.choice([one for one in range(bench.vectors) if one != other])
        await ClockCycles(dut.clk, bench.rng.randrange(1, 40))
        await bench.request("adm", vector)
        await ClockCycles(dut.clk, 4)
        first = bench.last[vector]
        assert first > cycle() - 6, "the first message must leave immediately"
        await bench.request("eq", vector)
        other, waits = (vector + bench.vectors // 2) % bench.vectors, late
        if turn % 2:  # both requests alternate, and another moderated message may be first
            drive(bench.dut, s_irq_adm_valid=1, s_irq_adm_vector=other, s_irq_eq_valid=1,
                  s_irq_eq_vector=other)  # fmt: skip
            waits += 24
        await ClockCycles(dut.clk, moderation + waits)
        drive(bench.dut, s_irq_adm_valid=0, s_irq_eq_valid=0)
        assert moderation <= bench.last[vector] - first <= moderation + waits, turn
        assert bench.left[vector] == bench.requested[vector] == 2
        await ClockCycles(dut.clk, moderation + late)
        bench.requested.clear()
        bench.left.clear()


@cocotb.test()
async def any_vectors_rest_together(dut):
    """host.irq.together: vectors requested twice are moderated independently, and each sends two
    messages."""
    bench = await Bench(dut).start()
    await bench.fill()
    dut.s_cfg_moderation.value = 12 * bench.vectors
    every = list(range(bench.vectors))
    bench.rng.shuffle(every)
    for often in (0.9, 0.9, 0.5, 0.9):
        every.reverse()  # changes the order of the vectors
        some = [vector for vector in every if bench.rng.random() < often]
        for vectors, apart in ((every, 4), (some, 1)):
            for vector in vectors:
                await bench.request(bench.rng.choice(("adm", "eq")), vector)
                await ClockCycles(dut.clk, apart)
        await bench.settle()
        await bench.settle()
        assert bench.left == Counter(every + some)
        assert await bench.pending() == 0
        bench.left.clear()
        bench.requested.clear()
        await ClockCycles(dut.clk, 12 * bench.vectors)


@cocotb.test()
async def a_held_message_holds_back_no_other(dut):
    """host.irq.held: while any vectors hold a message, the others send immediately; held messages
    leave in a random order and in its reverse."""
    bench = await Bench(dut).start()
    await bench.fill()
    order = bench.rng.sample(range(bench.vectors), bench.vectors)
    for vectors in (order, order[::-1]):
        # Longer than the requests of all vectors take: at the end each vector holds a message.
        moderation = dut.s_cfg_moderation.value = 40 * bench.vectors
        for vector in vectors:
            begun = cycle()
            for name in ("adm", "eq"):
                await bench.request(name, vector)
                await ClockCycles(dut.clk, 8)
                assert bench.left[vector] == 1 and cycle() - begun < 32, vector
        await ClockCycles(dut.clk, moderation + 4 * bench.vectors)
        assert bench.left == Counter(vectors + vectors)
        dut.s_cfg_moderation.value = 0  # ends all intervals
        await bench.settle()
        bench.last.clear()
        bench.left.clear()
        bench.requested.clear()


@cocotb.test()
async def any_set_behind_the_function_mask(dut):
    """host.irq.sets: random sets of vectors requested under the function mask send one message
    each, no other vector does."""
    bench = await Bench(dut).start()
    await bench.fill()
    for _ in range(12):
        some = [vector for vector in range(bench.vectors) if bench.rng.random() < 0.5]
        dut.s_cfg_msix_fmask.value = 1
        for vector in some:
            await bench.request("eq", vector)
        await ClockCycles(dut.clk, 8 + bench.rng.randrange(bench.vectors))
        dut.s_cfg_msix_fmask.value = 0
        await ClockCycles(dut.clk, 6 * bench.vectors + 20)
        assert bench.left == Counter(some)
        bench.left.clear()
        bench.requested.clear()


@cocotb.test()
async def any_set_of_masks(dut):
    """host.irq.masks: with random masks and requests, unmasked vectors send and masked vectors
    become pending."""
    bench = await Bench(dut).start()
    await bench.fill()
    rng, every, pending = bench.rng, range(bench.vectors), set()
    for _ in range(14):
        often = rng.choice((0.1, 0.5, 0.9))
        for vector in rng.sample(every, rng.randrange(1, bench.vectors + 1)):
            masked = int(rng.random() < often)
            await bench.store(TABLE + ENTRY * vector + MASK, rng.getrandbits(31) << 1 | masked)
        await ClockCycles(dut.clk, rng.randrange(1, 3 * bench.vectors))
        requested = set(rng.sample(every, bench.vectors // 2))
        for vector in requested:
            await bench.request(rng.choice(("adm", "eq")), vector)
        await bench.settle()
        for vector in every:
            most = (vector in pending) + (vector in requested)
            if bench.masked[vector]:
                assert bench.left[vector] == 0, vector
            else:
                assert min(most, 1) <= bench.left[vector] <= most, vector
        pending = {vector for vector in pending | requested if bench.masked[vector]}
        assert await bench.pending() == sum(1 << vector for vector in pending)
        bench.requested, bench.left = Counter(pending), Counter()


@cocotb.test()
async def held_and_pending_together(dut):
    """host.irq.both: vectors that are moderated, pending or both send one or two messages, then
    none."""
    bench = await Bench(dut).start()
    await bench.fill()
    moderation = dut.s_cfg_moderation.value = 10 * bench.vectors
    every = list(range(bench.vectors))
    for _ in range(8):
        held, pending = ({v for v in every if bench.rng.random() < 0.4} for _ in range(2))
        order = [*bench.rng.sample(every, len(every)), *bench.rng.sample(sorted(held), len(held))]
        for vector in order:
            await bench.request("adm", vector)
        dut.s_cfg_msix_fmask.value = 1
        for vector in pending:
            await bench.request("eq", vector)
        await ClockCycles(dut.clk, bench.rng.randrange(2 * moderation))
        dut.s_cfg_msix_fmask.value = 0
        await ClockCycles(dut.clk, 3 * moderation)
        for vector in every:
            requested = 1 + (vector in held) + (vector in pending)
            assert min(requested, 2) <= bench.left[vector] <= requested, vector
        bench.none_lost()
        bench.left.clear()
        bench.requested.clear()


@cocotb.test()
@cocotb.parametrize(turn=[0, 1])
async def a_message_leaves_at_any_moment(dut, turn):
    """host.irq.moment: at every position of the vector scan, the next message keeps the
    interval, for single and continuous requests."""
    bench = await Bench(dut).start()
    await bench.fill()
    # Bits 2 to 5 are 1: with one of these bits wrongly 1, an age ends the interval early at some
    # position. A continuous request is examined every three cycles, also one cycle before the end.
    moderation = dut.s_cfg_moderation.value = 61
    # The scan is at the vector, or `ahead` positions before it.
    for ahead in range(bench.vectors):
        vector = bench.rng.randrange(bench.vectors)
        while (cycle() + ahead) % bench.vectors != vector:
            await RisingEdge(dut.clk)
        if turn:
            bench.left[vector] = bench.requested[vector] = 0
            drive(bench.dut, s_irq_adm_valid=1, s_irq_adm_vector=vector)
            await until(dut, lambda vector=vector: bench.left[vector] == 2, "the next")
            drive(bench.dut, s_irq_adm_valid=0)
            await ClockCycles(dut.clk, moderation + 2 * bench.vectors + 10)
            assert bench.left[vector] == 3, (
                "requests during the interval must merge into one message"
            )
            continue
        for _ in range(2):
            await bench.request("adm", vector)
        await ClockCycles(dut.clk, 2 * moderation + 2 * bench.vectors + 10)
        assert bench.left[vector] == bench.requested[vector]


@cocotb.test()
async def the_longest_distance(dut):
    """host.irq.clock: an interval longer than half the range of the cycle counter is kept at any
    counter value; then many short intervals in its upper half are kept."""
    bench = Bench(dut)
    await bench.reset()
    moderation, late, vector = 65535, 4 + 2 * bench.vectors, bench.rng.randrange(bench.vectors)
    dut.s_cfg_moderation.value = moderation
    await bench.fill()
    await ClockCycles(dut.clk, bench.rng.randrange(3000))
    left = []
    for _ in range(4):
        drive(bench.dut, s_irq_eq_valid=1, s_irq_eq_vector=vector)
        await RisingEdge(dut.ev_irq_valid)
        left.append(cycle())
        bench.dut.s_irq_eq_valid.value = 0
        await RisingEdge(dut.clk)
    for first, then in zip(left, left[1:], strict=False):
        assert moderation <= then - first <= moderation + late
    await ClockCycles(dut.clk, moderation + late)
    moderation = dut.s_cfg_moderation.value = 41
    last = {}
    for turn in range(300):
        vector = turn % 2
        await bench.request("adm", vector)
        await RisingEdge(dut.ev_irq_valid)
        assert int(dut.ev_irq_data.value) == vector
        assert cycle() - last.get(vector, -1 << 20) >= moderation, turn
        last[vector] = cycle()


@cocotb.test()
async def each_bit_of_the_distance(dut):
    """host.irq.bits: intervals that are powers of two are kept from any position of the vector
    scan."""
    bench = await Bench(dut).start()
    await bench.fill()
    late = 4 + 2 * bench.vectors
    for bit in (*range(7), 9, 12):
        moderation = dut.s_cfg_moderation.value = 1 << bit
        bench.last.clear()  # vectors past the previous interval may send
        vector = bench.rng.randrange(bench.vectors)
        await ClockCycles(dut.clk, bench.rng.randrange(1, 70))
        left = []
        for name in ("adm", "eq"):
            await bench.request(name, vector)
            for _ in range(moderation + late):
                await RisingEdge(dut.clk)
                if bench.left[vector] == bench.requested[vector]:
                    break
            left.append(bench.last[vector])
        assert moderation <= max(left[1] - left[0], moderation) <= moderation + late
        assert bench.left[vector] == bench.requested[vector] and len(set(left)) == 2
        await ClockCycles(dut.clk, moderation + late)


@cocotb.test()
async def disabled_it_keeps_what_is_pending(dut):
    """host.irq.pending: a disabled function keeps pending bits, also of a vector that loses its
    moderated message; a vector number without a request is not reported."""
    bench = await Bench(dut).start()
    await bench.fill()
    moderation = dut.s_cfg_moderation.value = 300
    for vector in bench.rng.sample(range(bench.vectors), min(3, bench.vectors)):
        for _ in range(2):
            await bench.request("adm", vector)
            await ClockCycles(dut.clk, 8)
        await bench.store(TABLE + ENTRY * vector + MASK, 1)
        await bench.request("eq", vector)
        await ClockCycles(dut.clk, 8)
        dut.s_cfg_msix_enable.value = 0
        await ClockCycles(dut.clk, moderation + 4 * bench.vectors)
        assert await bench.pending() == 1 << vector
        dut.s_cfg_msix_enable.value = 1
        await bench.store(TABLE + ENTRY * vector + MASK, 0)
        await ClockCycles(dut.clk, moderation + 4 * bench.vectors)
        assert await bench.pending() == 0 and bench.left[vector] == 2
        drive(bench.dut, s_irq_eq_vector=255, s_irq_adm_vector=255)
        await ClockCycles(dut.clk, 4)
        assert not bench.odds


@cocotb.test()
async def resets(dut):
    """host.irq.reset: a core reset clears requests; a host reset clears the table, one entry per
    cycle, and stores have no effect meanwhile."""
    bench = await Bench(dut).start()
    await bench.fill()
    last = bench.vectors - 1
    for turn in range(6):
        # One vector pending, one moderated, one message waiting for the bus.
        await bench.store(TABLE + MASK, 1)
        dut.s_cfg_moderation.value = 200
        for vector in (0, last, last):
            await bench.request("eq", vector)
            await ClockCycles(dut.clk, 6)
        bench.stalls = 1.0
        await ClockCycles(dut.clk, 2)
        await bench.request("adm", 1)
        await ClockCycles(dut.clk, turn)
        drive(dut, rst=1)
        await ClockCycles(dut.clk, 2)
        dut.rst.value = 0
        bench.stalls = 0.0
        await bench.store(TABLE + MASK, 0)
        await ClockCycles(dut.clk, 260)
        await bench.settle()
        assert not bench.left and await bench.pending() == 0
        await bench.shows()
        # No vector is moderated after the reset.
        await bench.request("adm", last)
        await ClockCycles(dut.clk, 5)
        assert bench.left[last] == 1
        dut.s_cfg_moderation.value = 0
        await ClockCycles(dut.clk, 250)
    drive(dut, s_host_rst=1, rst=1)
    await ClockCycles(dut.clk, 3)
    assert dut.m_init_done.value == 0
    drive(dut, s_host_rst=0, rst=0)
    drive(dut, s_acc_valid=1, s_acc_write=1, s_acc_offset=TABLE + MASK, s_acc_data=0)
    await ClockCycles(dut.clk, 4)
    dut.s_acc_valid.value = 0
    bench.cancel_table()
    await until(dut, high(dut.m_init_done), cycles=1 << (bench.vectors - 1).bit_length() + 1)
    await bench.shows()


@cocotb.test()
async def its_cycles(dut):
    """host.irq.time"""
    promised = timing("efa_irq", "message")
    bench = await Bench(dut).start()
    await bench.fill()
    drive(bench.dut, s_irq_adm_valid=1, s_irq_adm_vector=0)
    await RisingEdge(dut.clk)
    assert bench.dut.s_irq_adm_ready.value == 1
    bench.dut.s_irq_adm_valid.value = 0
    await rises(dut, dut.m_wr_irq_valid, promised.latency)
    await ClockCycles(dut.clk, 6)
    drive(bench.dut, s_irq_adm_valid=1, s_irq_eq_valid=1, s_irq_eq_vector=1)
    await until(dut, high(dut.m_wr_irq_valid))
    before = Counter(bench.left)
    await ClockCycles(dut.clk, 20 * promised.interval)
    assert bench.left[0] - before[0] == bench.left[1] - before[1] == 10
    drive(bench.dut, s_irq_adm_valid=0, s_irq_eq_valid=0)
