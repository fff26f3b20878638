# SPDX-License-Identifier: Apache-2.0
"""Tests efa_rq_cache: descriptors arrive in any order; a reader never gets one of the previous
wrap."""

import itertools

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from tb.lib.stream import clock_and_reset, cycle, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import hold, pulse, until, zero
from tb.unit.rq_bench import LAST, ONE_DESC, desc

BEAT, READ, CLEAR = (timing("efa_rq_cache", path) for path in ("beat", "read", "clear"))
BRIEF = LAST | 0xFFFF << 64  # fields of a descriptor that the second reader returns
FIRST = 65536 - 70  # counts start at 0; this start value reaches their wrap


class Bench:
    def __init__(self, dut):
        self.dut, self.rng = dut, rng_for("rq_cache")
        self.slots = 1 << int(dut.SLOT_W.value)
        self.qpn_w = len(dut.s_clear_qpn)

    async def start(self):
        zero(self.dut, "s_rd_cpl_valid", "s_rd_cpl_err", "s_clear_valid", "desc_rd_qpn",
             "desc_rd_count")  # fmt: skip
        await clock_and_reset(self.dut)

    async def clear(self, qpn):
        return await hold(self.dut, "s_clear_valid", "s_clear_ready", s_clear_qpn=qpn)

    def beat(self, qpn, count, offset, descs, err=0):
        """Drives a beat of a read that began at `count`, `offset` descriptors into the read."""
        dut = self.dut
        data = sum(word << 128 * number for number, word in enumerate(descs))
        spare = self.rng.getrandbits(512) >> 128 * len(descs) << 128 * len(descs)
        dut.s_rd_cpl_valid.value, dut.s_rd_cpl_qpn.value, dut.s_rd_cpl_err.value = 1, qpn, err
        dut.s_rd_cpl_count.value, dut.s_rd_cpl_offset.value = count % 65536, 16 * offset
        dut.s_rd_cpl_data.value, dut.s_rd_cpl_bytes.value = data | spare, 16 * len(descs)

    def request(self, *pairs):
        """Drives the (ring, count) of each reader."""
        self.dut.desc_rd_qpn.value = sum(q << self.qpn_w * n for n, (q, _) in enumerate(pairs))
        self.dut.desc_rd_count.value = sum(c % 65536 << 16 * n for n, (_, c) in enumerate(pairs))

    def reported(self, reader, known=None):
        """Returns the two descriptors of a reader, None for an absent one.

        Fields that the second reader does not return are filled from `known`.
        """
        fetched = int(self.dut.desc_rd_present.value) >> 2 * reader
        text = str(self.dut.desc_rd_data.value)
        words = [text[len(text) - 128 * n - 128 : len(text) - 128 * n] for n in range(4)]
        if reader:
            assert all(int(words[2 + n], 2) & ~BRIEF == 0 for n in (0, 1) if fetched >> n & 1)
        got = [int(words[2 * reader + n], 2) if fetched >> n & 1 else None for n in (0, 1)]
        if reader and known:
            got = [word if word is None or want is None or want is ... else word | want & ~BRIEF
                   for word, want in zip(got, known, strict=True)]  # fmt: skip
        return got


class Ring:
    """Models a ring: reads requested in order, completed in pieces, consumed from the head."""

    def __init__(self, first=0):
        self.head = self.requested = first
        self.fetched, self.pieces = {}, []

    def read(self, bench):
        """Requests more descriptors, up to the cache size; their beats begin at any descriptor and
        may arrive in any order."""
        space = self.head + bench.slots - self.requested
        size = min(space, bench.rng.randrange(1, 9))
        at = 0
        while at < size:
            piece = min(size - at, bench.rng.randrange(1, 5))
            words = [desc(bench.rng, bench.rng.getrandbits(1)) for _ in range(piece)]
            self.pieces.append((self.requested, at, words))
            at += piece
        self.requested += size


@cocotb.test()
@cocotb.parametrize(first=[0, FIRST])
async def readers_see_what_came_and_nothing_older(dut, first):
    """queue.rq_cache.wrap: Readers see arrived descriptors and none of an older wrap, with
    completions in any order and failed ones between them."""
    bench = Bench(dut)
    await bench.start()
    rng, rings = bench.rng, {0: Ring(), 37: Ring(), 63: Ring()}
    for qpn, ring in rings.items():
        await bench.clear(qpn)
        # One whole wrap before the first count is enough.
        ring.head = ring.requested = max(0, first - bench.slots)
        for count in range(ring.head, first, 4):
            words = [desc(rng, 1) for _ in range(4)]
            bench.beat(qpn, count, 0, words)
            await RisingEdge(dut.clk)
        zero(dut, "s_rd_cpl_valid")
        ring.head = ring.requested = first
    await ClockCycles(dut.clk, 3)
    requested, landing, seen = [], [], [0, 0, 0]
    for _ in range(1500):
        # A request of this edge returns data at the next one.
        questions = []
        for reader in (0, 1):
            qpn = rng.choice(list(rings))
            ring = rings[qpn]
            count = ring.head + (rng.randrange(bench.slots - 1) if reader or rng.random() < 0.1
                                 else 0)  # fmt: skip
            wanted = [ring.fetched.get(count), ring.fetched.get(count + 1)]
            if count + 1 == ring.head + bench.slots:
                wanted[1] = ...
            questions.append((qpn, count, wanted))
        bench.request(*[(qpn, count) for qpn, count, _ in questions])
        qpn = rng.choice(list(rings))
        ring = rings[qpn]
        ring.read(bench)
        dut.s_rd_cpl_valid.value = dut.s_rd_cpl_err.value = 0
        arrived = None
        if ring.pieces and rng.random() < 0.7:
            if rng.random() < 0.1:
                bench.beat(qpn, ring.pieces[0][0], 0, [0] * rng.randrange(5), err=1)
            else:
                begin, at, words = ring.pieces.pop(rng.randrange(len(ring.pieces)))
                bench.beat(qpn, begin, at, words)
                arrived = ring, begin + at, words
        await RisingEdge(dut.clk)
        for reader, (_, count, wanted) in enumerate(requested):
            reported = bench.reported(reader, wanted)
            for number, (got, want) in enumerate(zip(reported, wanted, strict=True)):
                if want is not ...:
                    assert got == want, (reader, count + number)
                    seen[0 if want is None else 1] += 1
        requested = questions
        landing.append(arrived)
        if len(landing) == BEAT.latency - READ.latency and (fallen := landing.pop(0)):
            owner, begin, words = fallen
            owner.fetched |= {begin + number: word for number, word in enumerate(words)}
        for ring in rings.values():
            used = 0
            while used < 2 and ring.head in ring.fetched and rng.random() < 0.5:
                del ring.fetched[ring.head]
                ring.head += 1
                used += 1
            seen[2] += used
    assert seen[0] > 200 and seen[1] > 500 and seen[2] > 4 * bench.slots, seen


@cocotb.test()
async def a_cleared_ring_begins_again(dut):
    """queue.rq_cache.clear: A clear removes every descriptor of its ring; other rings keep
    theirs."""
    bench = Bench(dut)
    await bench.start()
    rng = bench.rng
    words = [desc(rng, 1) for _ in range(bench.slots)]

    async def fill(qpn):
        for at in range(0, bench.slots, 4):
            bench.beat(qpn, at, 0, words[at : at + 4])
            await RisingEdge(dut.clk)
        zero(dut, "s_rd_cpl_valid")
        await ClockCycles(dut.clk, 2)

    async def holds(qpn, fetched):
        for at in range(0, bench.slots, 2):
            bench.request((qpn, at), (qpn, at))
            await ClockCycles(dut.clk, 1 + READ.latency)
            for reader in (0, 1):
                wanted = words[at : at + 2] if fetched else [None, None]
                assert bench.reported(reader, wanted) == wanted

    for qpn in (4, 5, 6):
        await bench.clear(qpn)
        await holds(qpn, False)
        await fill(qpn)
    await bench.clear(5)
    for qpn in (4, 5, 6):
        await holds(qpn, qpn != 5)
    # A clear that collides with beats of another ring loses neither.
    cleared = cocotb.start_soon(bench.clear(6))
    for at in range(0, bench.slots, 4):
        bench.beat(5, at, 0, words[at : at + 4])
        await RisingEdge(dut.clk)
        zero(dut, "s_rd_cpl_valid")
        await ClockCycles(dut.clk, rng.randrange(3))
    await cleared
    await holds(5, True)
    await holds(6, False)


@cocotb.test()
async def beats_reads_and_clears_take_their_time(dut):
    """queue.rq_cache.cycles: Beats, reads and clears meet their specified cycles."""
    bench = Bench(dut)
    await bench.start()
    for qpn in (1, 2):
        first, last = await bench.clear(qpn)
        assert last - first + 1 == CLEAR.interval
    words = [desc(bench.rng, 1) for _ in range(12)]
    bench.request((1, 0), (1, 6))
    await ClockCycles(dut.clk, 4)
    started = cycle()
    for beat in range(3):
        bench.beat(1, 0, 4 * beat, words[4 * beat : 4 * beat + 4])
        await RisingEdge(dut.clk)
        assert cycle() == started + (beat + 1) * BEAT.interval
    zero(dut, "s_rd_cpl_valid")
    await until(dut, lambda: bench.reported(0) == words[:2], "the first beat", 5)
    assert cycle() - started - 1 == BEAT.latency
    await RisingEdge(dut.clk)
    assert bench.reported(1, words[6:8]) == words[6:8], "the second beat, one cycle later"
    for at in range(9):
        bench.request((1, at), (1, at + 1))
        await ClockCycles(dut.clk, 1)
        if at >= READ.latency:
            at -= READ.latency
            assert bench.reported(0) == words[at : at + 2]
            assert bench.reported(1, words[at + 1 : at + 3]) == words[at + 1 : at + 3]


@cocotb.test()
async def reset_in_the_middle_of_clears_and_beats(dut):
    """queue.rq_cache.reset: A clear after a reset is complete, and a beat during the reset is
    discarded."""
    bench = Bench(dut)
    await bench.start()
    old, new = ([desc(bench.rng, 1) for _ in range(4)] for _ in range(2))
    for wait in range(CLEAR.interval):
        await bench.clear(9)
        for at in range(0, bench.slots, 4):
            bench.beat(9, at, 0, old)
            await RisingEdge(dut.clk)
        zero(dut, "s_rd_cpl_valid")
        dut.s_clear_qpn.value, dut.s_clear_valid.value = 8, 1
        await ClockCycles(dut.clk, 1 + wait)
        dut.s_clear_valid.value = 0
        await reset(dut)
        first, last = await bench.clear(9)
        assert last - first + 1 == CLEAR.interval
        for at in range(0, bench.slots, 2):
            bench.request((9, at), (9, at))
            await ClockCycles(dut.clk, 1 + READ.latency)
            assert bench.reported(0) == [None, None]
        # A beat during a reset is discarded.
        dut.rst.value = 1
        bench.beat(9, 0, 0, new)
        await ClockCycles(dut.clk, 3)
        zero(dut, "s_rd_cpl_valid", "rst")
        bench.request((9, 0), (9, 2))
        await ClockCycles(dut.clk, BEAT.latency + 1)
        assert bench.reported(0) == bench.reported(1) == [None, None]


@cocotb.test()
async def both_readers_read_anything(dut):
    """queue.rq_cache.readers: Both readers return every ring, lane and row, with different words in
    neighbours."""
    bench = Bench(dut)
    await bench.start()
    words = {}
    for qpn in (0, 1, 31, 32, 63):
        await bench.clear(qpn)
        for at in range(bench.slots):
            words[qpn, at] = desc(bench.rng, 1)
            await pulse_beat(bench, qpn, at, words[qpn, at])
    await ClockCycles(dut.clk, 2)
    for (left, a), (right, b) in itertools.pairwise(sorted(words)):
        bench.request((left, a), (right, b))
        await ClockCycles(dut.clk, 1 + READ.latency)
        for reader, (qpn, at) in enumerate(((left, a), (right, b))):
            wanted = [words[qpn, at], words.get((qpn, at + 1))]
            assert bench.reported(reader, wanted) == wanted, "the next wrap is absent"


async def pulse_beat(bench, qpn, at, word):
    """Drives a beat of one descriptor at any offset of its read."""
    inside = bench.rng.randrange(min(at, 7) + 1)
    bench.beat(qpn, at - inside, inside, [word & ONE_DESC])
    await pulse(bench.dut, "s_rd_cpl_valid")
