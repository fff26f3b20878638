"""efa_rq_claim: the entry at a ring's head, or the reason why there is none; its cycles."""

import itertools

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from tb.lib.stream import StreamMonitor, clock_and_reset, cycle, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import until, zero
from tb.unit.queue_bench import Table
from tb.unit.rq_bench import ONE_DESC, desc

NONE, BROKEN, WHOLE, ENDLESS = "none", "broken", "whole", "endless"
CLAIM = timing("efa_rq_claim", "claim")
WANT = timing("efa_rq_claim", "want")


class Ring:
    """What counts and cache say of one ring; `here` holds the two descriptors at its head."""

    def __init__(self, rng, cons=0, posted=0, here=0, lasts=3):
        self.cons, self.posted, self.here, self.broken = cons, posted, here, 0
        self.lasts = lasts
        self.descs = desc(rng, lasts & 1) | desc(rng, lasts >> 1) << 128

    def verdict(self):
        """(kind, descriptors), or None as long as they must come first."""
        if self.broken:
            return BROKEN, 0
        if self.posted == 0:
            return NONE, 0
        if not self.here & 1:
            return None
        if self.lasts & 1:
            return WHOLE, 1
        if self.posted == 1:
            return NONE, 0
        if not self.here & 2:
            return None
        return (WHOLE if self.lasts & 2 else ENDLESS), 2


class Bench:
    def __init__(self, dut, stalls=0.0):
        self.dut, self.rng, self.rings, self.ring = dut, rng_for("rq_claim"), {}, None
        self.wanted = []
        zero(dut, "s_claim_valid", "s_claim_qpn", "s_claim_done", "s_claim_take", "s_broken",
             "s_refused")  # fmt: skip
        StreamMonitor(dut, "want", stalls, ["qpn"],
                      on_beat=lambda beat: self.wanted.append((cycle(), beat["qpn"])))  # fmt: skip

    async def start(self):
        dut, nothing = self.dut, Ring(self.rng)
        Table(dut, "s_claim_qpn", "s_cons", lambda qpn: self.rings.get(qpn, nothing).cons)
        Table(dut, "s_claim_qpn", "s_prod", self._prod)
        Table(dut, "head", "s_descs", lambda head: self._at(head).descs)
        Table(dut, "head", "s_here", lambda head: self._at(head).here)
        await clock_and_reset(dut)

    def _prod(self, qpn):
        ring = self.rings.get(qpn)
        return (ring.cons + ring.posted) % 65536 if ring else 0

    def _at(self, head):
        """The claimed ring; at another count it has other descriptors, none of them here."""
        return self.ring if self.ring and head == self.ring.cons else Ring(self.rng)

    def claim(self, qpn):
        """Begin one; its first cycle is the next edge."""
        self.dut.s_claim_qpn.value, self.dut.s_claim_valid.value = qpn, 1
        self.ring = self.rings[qpn]
        self.dut.s_broken.value = self.ring.broken

    async def answer(self, cycles=200):
        """Cycles to it, its kind and its count; its descriptors are what they should be."""
        dut, begun = self.dut, cycle()
        await RisingEdge(dut.clk)
        await until(dut, lambda: dut.m_claim_valid.value == 1, "an answer", cycles)
        return cycle() - begun - 1, *self.told()

    def told(self):
        dut, ring = self.dut, self.ring
        if dut.m_claim_broken.value == 1:
            return BROKEN, 0
        if dut.m_claim_none.value == 1:
            return NONE, 0
        count = int(dut.m_claim_count.value)
        used = ONE_DESC if count == 1 else ONE_DESC << 128 | ONE_DESC
        assert (int(dut.m_claim_descs.value) ^ ring.descs) & used == 0
        return (WHOLE if dut.m_claim_whole.value == 1 else ENDLESS), count

    async def done(self, take=0):
        """End the claim; what is taken shows at once."""
        dut, ring = self.dut, self.ring
        dut.s_claim_done.value, dut.s_claim_take.value = 1, take
        await RisingEdge(dut.clk)
        assert dut.take_valid.value == int(take > 0)
        if take:
            assert dut.take_value.value == (ring.cons + take) % 65536
            ring.cons, ring.posted = (ring.cons + take) % 65536, ring.posted - take
        zero(dut, "s_claim_valid", "s_claim_done", "s_claim_take")


@cocotb.test()
async def the_answer_follows_from_the_ring(dut):
    """queue.rq_claim.rule: every kind of ring; what is missing is awaited and asked for."""
    bench = Bench(dut, 0.3)
    await bench.start()
    kinds = set()
    for number, (posted, here, lasts, broken) in enumerate(
        itertools.product((0, 1, 2, 9), range(4), range(4), (0, 1))
    ):
        qpn = bench.rng.randrange(64)
        here &= (1 << min(posted, 2)) - 1
        cons = bench.rng.choice((0, 0x7FFF, 0xFFFE, 0xFFFF))
        ring = bench.rings[qpn] = Ring(bench.rng, cons, posted, here, lasts)
        ring.broken = broken
        bench.wanted.clear()
        bench.claim(qpn)
        if ring.verdict() is None:
            await ClockCycles(dut.clk, 9)
            assert dut.m_claim_valid.value == 0
            await until(dut, lambda: bench.wanted, "the wish for a look", 20)
            assert [asked for _, asked in bench.wanted] == [qpn]
            ring.here = 3 if posted > 1 else 1
        cycles, *told = await bench.answer()
        assert tuple(told) == ring.verdict(), (number, told, ring.verdict())
        assert cycles <= CLAIM.latency + 3
        # It stays, whatever the ring looks like by then.
        was, ring.here, ring.posted = (ring.here, ring.posted), 0, 0
        await ClockCycles(dut.clk, bench.rng.randrange(6))
        assert dut.m_claim_valid.value == 1 and bench.told() == tuple(told)
        ring.here, ring.posted = was
        kinds.add(told[0])
        bench.wanted.clear()
        take = told[1] if bench.rng.random() < 0.7 else 0
        await bench.done(take)
        await ClockCycles(dut.clk, 6 + 6 * bool(take))
        assert [asked for _, asked in bench.wanted] == [qpn] * bool(take)
    assert kinds == {NONE, BROKEN, WHOLE, ENDLESS}


@cocotb.test()
async def missing_descriptors_are_asked_for_again_and_again(dut):
    """queue.rq_claim.want: and taken in as soon as they are here"""
    held = {"on": False}
    bench = Bench(dut, lambda: held["on"])
    await bench.start()
    bench.rings[5] = Ring(bench.rng, 77, 2, 0, 2)
    bench.claim(5)
    await ClockCycles(dut.clk, 3 * WANT.interval + 10)
    times = [at for at, _ in bench.wanted]
    assert len(times) == 4
    assert {b - a for a, b in itertools.pairwise(times)} == {WANT.interval}
    for here in (1, 3):
        bench.rings[5].here = here
        await ClockCycles(dut.clk, CLAIM.latency + 3)
        assert dut.m_claim_valid.value == int(here == 3)
    # With nobody to take the wishes in, a few wait and the claims go on.
    await ClockCycles(dut.clk, 4)
    held["on"] = True
    await ClockCycles(dut.clk, 2)
    bench.wanted.clear()
    await bench.done(2)
    for qpn in range(10, 10 + 2 * WANT.depth):
        bench.rings[qpn] = Ring(bench.rng, 0, 1, 1, 1)
        bench.claim(qpn)
        assert (await bench.answer())[1:] == (WHOLE, 1)
        await bench.done(1)
    held["on"] = False
    await ClockCycles(dut.clk, 4 + WANT.depth)
    assert [qpn for _, qpn in bench.wanted] == [5, *range(10, 9 + WANT.depth)]


@cocotb.test()
async def a_ring_that_is_no_more_ends_the_wait(dut):
    """queue.rq_claim.refused: told at any moment of the claim; the next one knows nothing of it"""
    bench = Bench(dut)
    await bench.start()
    bench.rings[3] = Ring(bench.rng, 9, 1, 0)
    bench.rings[4] = Ring(bench.rng, 9, 1, 1, 1)
    for wait in range(12):
        bench.claim(3)
        await ClockCycles(dut.clk, 1 + wait)
        dut.s_refused.value = 1
        await RisingEdge(dut.clk)
        dut.s_refused.value = 0
        assert (await bench.answer(CLAIM.latency + 3))[1] == BROKEN
        # In the last cycle of a claim it is too late to matter.
        dut.s_refused.value = wait % 2
        await bench.done()
        dut.s_refused.value = 0
        bench.claim(4)
        assert await bench.answer() == (CLAIM.latency, WHOLE, 1)
        await bench.done()
    # A ring that breaks while its descriptors are awaited.
    bench.claim(3)
    await ClockCycles(dut.clk, 20)
    dut.s_broken.value = 1
    assert (await bench.answer(CLAIM.latency + 3))[1] == BROKEN
    await bench.done()


@cocotb.test()
async def a_claim_may_end_in_any_cycle(dut):
    """queue.rq_claim.end: and the next one, of another ring, begins in the cycle after it."""
    bench = Bench(dut)
    await bench.start()
    for here, wait in itertools.product((0, 1), range(9)):
        bench.rings[1] = Ring(bench.rng, 65535, 3, here, 1)
        bench.rings[2] = Ring(bench.rng, 17, 5, 3, 2)
        bench.claim(1)
        if wait:
            await ClockCycles(dut.clk, wait)
        await bench.done()
        bench.claim(2)
        assert await bench.answer() == (CLAIM.latency, WHOLE, 2)
        await bench.done(2)
        assert bench.rings[2].cons == 19


@cocotb.test()
async def claims_follow_each_other_in_time(dut):
    """queue.rq_claim.cycles: each sees what the one before it has taken"""
    bench = Bench(dut)
    await bench.start()
    ring = bench.rings[8] = Ring(bench.rng, 65530, 40, 1, 1)
    bench.claim(8)
    begun = cycle()
    for _ in range(20):
        await ClockCycles(dut.clk, CLAIM.latency)
        bench.dut.s_claim_done.value, dut.s_claim_take.value = 1, 1
        await RisingEdge(dut.clk)
        # The first cycle of an answer may be the last one of its claim.
        assert dut.m_claim_valid.value == 1 and bench.told() == (WHOLE, 1)
        assert dut.take_value.value == (ring.cons + 1) % 65536
        ring.cons, ring.posted = (ring.cons + 1) % 65536, ring.posted - 1
        zero(dut, "s_claim_done", "s_claim_take")
    zero(dut, "s_claim_valid")
    assert cycle() - begun == 20 * CLAIM.interval
    await ClockCycles(dut.clk, 5)
    assert bench.wanted[0][0] - begun == CLAIM.latency + 1 + WANT.latency
    assert len(bench.wanted) == 20


@cocotb.test()
async def reset_forgets_claims_and_wishes(dut):
    """queue.rq_claim.reset"""
    held = {"on": True}
    bench = Bench(dut, lambda: held["on"])
    await bench.start()
    bench.rings[1] = Ring(bench.rng, 3, 2, 0)
    bench.rings[2] = Ring(bench.rng, 4, 2, 3, 2)
    for wait, qpn, refused in itertools.product((1, 2, 3, 4, 10), (1, 2), (0, 1)):
        bench.claim(qpn)
        await ClockCycles(dut.clk, wait)
        dut.s_refused.value = refused
        await RisingEdge(dut.clk)
        zero(dut, "s_claim_valid", "s_refused")
        await reset(dut)
        assert dut.m_claim_valid.value == 0 and dut.want_valid.value == 0
        # The first wish comes at once again, not after the rest of an old wait.
        held["on"] = False
        bench.wanted.clear()
        bench.claim(1)
        await ClockCycles(dut.clk, CLAIM.latency + 4)
        assert len(bench.wanted) == 1 and dut.m_claim_valid.value == 0
        await bench.done()
        bench.claim(2)
        assert await bench.answer() == (CLAIM.latency, WHOLE, 2)
        await bench.done()
        held["on"] = True
        await ClockCycles(dut.clk, 2)
