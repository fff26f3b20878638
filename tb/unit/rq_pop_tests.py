# SPDX-License-Identifier: Apache-2.0
"""Tests efa_rq_pop: the WQE at the head of a ring or the reason for its absence; its cycles."""

import itertools
from collections import deque

import cocotb
from cocotb.triggers import RisingEdge, Timer

from efa_cosim.layouts.defs import INTERNAL, IoRxDesc
from tb.lib.bundles import Bundles
from tb.lib.stream import clock_and_reset, cycle, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import zero
from tb.unit.rq_bench import ONE_DESC, desc

SKIPPED, NONE, BROKEN, MISSING = "skipped", "none", "failed", "missing"
SHORT, WHOLE, ENDLESS = "short", "complete", "endless"
CLAIM, RING = (timing("efa_rq_pop", path) for path in ("claim", "ring"))
INPUTS = ("s_claim_valid", "s_claim_data", "m_rsp_ready", "s_done", "prod_rd_data", "cons_rd_data",
          "desc_rd_data", "desc_rd_present", "failed_rd_data")  # fmt: skip
LAST = 1 << 127


def size_of(word):
    """Returns the buffer length of a descriptor."""
    return IoRxDesc.unpack(word.to_bytes(16, "little")).length


class Ring:
    """Models a ring by count: posted and cached descriptors.

    `cons` is the head after all claims, `reported` the value in the RAM of counts.
    """

    def __init__(self, first=0):
        self.prod = self.cons = self.reported = first
        self.descs, self.fetched, self.failed = {}, set(), 0

    def entry(self, prod=None):
        """Returns the number of descriptors of the complete WQE at the head, or 0."""
        prod = self.prod if prod is None else prod
        if self.cons >= prod:
            return 0
        if self.descs[self.cons] & LAST:
            return 1
        return 2 if self.cons + 1 < prod else 0


class Env:
    """Models counts, cache, packet validation and jobs around the module, once per cycle."""

    def __init__(self, dut, gaps=0.0, slow=0.0, holds=0.0):
        self.dut = Bundles(dut, s_claim=INTERNAL.rx_claim, m_rsp=INTERNAL.rx_claim_rsp)
        self.rng = rng_for("rq_pop")
        self.gaps, self.slow, self.holds = gaps, slow, holds
        self.qpn_w = len(dut.desc_rd_qpn)
        self.rings, self.packets = {}, deque()
        self.stages, self.kinds = [None, None, None], []
        self.times = {"claim": [], "rsp": []}
        self.shown, self.offered = None, False

    async def start(self):
        zero(self.dut, *INPUTS)
        await clock_and_reset(self.dut)

    def ring(self, qpn, first=0):
        return self.rings.setdefault(qpn, Ring(first))

    def post(self, ring, *lasts, fetched=True):
        for last in lasts:
            ring.descs[ring.prod] = desc(self.rng, last)
            if fetched:
                ring.fetched.add(ring.prod)
            ring.prod += 1

    def claim(self, qpn, skip=0, need=0, blocked=0):
        self.packets.append({"qpn": qpn, "skip": skip | blocked, "need": need, "blocked": blocked})

    async def cycles(self, count=1, step=None):
        for _ in range(count):
            if step:
                step()
            await self.cycle()

    async def settle(self, limit=2000):
        for _ in range(limit):
            if not self.packets and self.stages == [None, None, None]:
                return
            await self.cycle()
        raise AssertionError("claims without response")

    async def cycle(self):
        dut = self.dut
        await RisingEdge(dut.clk)
        self._memories()
        if dut.rst.value == 1:
            self.stages = [None, None, None]
        else:
            self._edge()
        self._inputs()
        await Timer(1, "ns")
        # A packet that is blocked or has missing descriptors is parked and blocks no other packet.
        parked = dut.m_rsp_valid.value == 1 and (
            self.stages[1]["blocked"] or dut.m_rsp_missing.value == 1)  # fmt: skip
        dut.m_rsp_ready.value = int(parked or self.ready)

    def _memories(self):
        """Drives memory outputs: a read returns the content before this edge."""
        dut = self.dut
        at, head = dut.desc_rd_qpn.value, dut.desc_rd_count.value
        # The packet of stage 1 stays, or the next one enters.
        stays = self.stages[0] and dut.s_claim_ready.value == 0
        packet = self.stages[0] if stays else self.packets[0] if self.packets else None
        ring = self.rings.get(packet["qpn"]) if packet else None
        if ring:
            dut.prod_rd_data.value = ring.prod % 65536
            dut.cons_rd_data.value = ring.reported % 65536
        ring = self.rings.get(int(at)) if at.is_resolvable else None
        # The descriptors of a ring without packets are don't-care.
        dut.failed_rd_data.value = ring.failed if ring else self.rng.getrandbits(1)
        dut.desc_rd_data.value = self.rng.getrandbits(256)
        dut.desc_rd_present.value = self.rng.getrandbits(2)
        if ring and head.is_resolvable:
            first = ring.cons + (int(head) - ring.cons + 32768) % 65536 - 32768
            words = [ring.descs.get(first + n, self.rng.getrandbits(128)) for n in (0, 1)]
            dut.desc_rd_data.value = words[1] << 128 | words[0]
            dut.desc_rd_present.value = sum((first + n in ring.fetched) << n for n in (0, 1))

    def _edge(self):
        dut, stages = self.dut, self.stages
        held, bits = str(dut.m_held_qpn.value), self.qpn_w
        for number, packet in enumerate(stages):
            if packet and (number < 2 or packet["used"]):
                end = len(held) - bits * number
                assert int(dut.m_held_valid.value) >> number & 1
                assert int(held[end - bits : end], 2) == packet["qpn"]
        used = stages[2]["used"] if stages[2] else 0
        consumed = int(dut.s_done.value == 1 and used > 0)
        assert dut.m_take_valid.value == consumed
        if consumed:
            ring = self.rings[stages[2]["qpn"]]
            ring.reported += used
            assert (dut.m_take_qpn.value, dut.m_take_value.value) == (
                stages[2]["qpn"], ring.reported % 65536)  # fmt: skip
        if dut.s_done.value == 1:
            stages[2] = None
        if dut.m_rsp_valid.value == 1:
            self.shown = self.shown or cycle()
            if dut.m_rsp_ready.value == 1:
                if not self._respond(stages[1]):
                    stages[2] = stages[1]
                stages[1], self.shown = None, None
        if dut.s_claim_valid.value == 1 and dut.s_claim_ready.value == 1:
            stages[:2] = None, stages[0]
        if stages[0] is None and self.offered:
            packet = stages[0] = self.packets.popleft()
            ring = self.rings[packet["qpn"]]
            packet["prod"], packet["present"] = ring.prod, set(ring.fetched)
            self.times["claim"].append(cycle())

    def _respond(self, packet):
        """Checks a response against the ring; returns whether the packet is parked."""
        dut, ring = self.dut, self.rings[packet["qpn"]]
        packet["used"] = 0
        self.times["rsp"].append(self.shown)
        assert dut.m_rsp_skipped.value == packet["skip"]
        if packet["skip"]:
            self.kinds.append(SKIPPED)
            return bool(packet["blocked"])
        assert dut.m_rsp_failed.value == ring.failed
        if ring.failed:
            assert dut.m_rsp_missing.value == 0, "a failed ring reports missing descriptors"
            self.kinds.append(BROKEN)
            return False
        if dut.m_rsp_none.value == 1:
            assert not ring.entry(packet["prod"])
            self.kinds.append(NONE)
            return False
        if dut.m_rsp_missing.value == 1:
            used = max(1, ring.entry())
            assert not all(ring.cons + n in packet["present"] for n in range(used))
            self.kinds.append(MISSING)
            return True
        count = ring.entry()
        assert count and dut.m_rsp_count.value == count
        words = [ring.descs[ring.cons + n] for n in range(count)]
        assert all(ring.cons + n in ring.fetched for n in range(count))
        reported = int(dut.m_rsp_descs.value)
        assert [reported >> 128 * n & ONE_DESC for n in range(count)] == words
        complete = words[-1] >> 127
        assert dut.m_rsp_complete.value == complete
        short = sum(map(size_of, words)) < packet["need"]
        if complete:
            assert dut.m_rsp_short.value == short
        if not (complete and short):
            packet["used"] = count
            ring.cons += count
        self.kinds.append(ENDLESS if not complete else SHORT if short else WHOLE)
        return False

    def _inputs(self):
        dut, rng = self.dut, self.rng
        # The packet before stage 1; it stays until it enters.
        waiting = self.offered and bool(self.packets)
        self.offered = waiting or (bool(self.packets) and rng.random() >= self.gaps)
        packet = self.stages[0]
        dut.s_claim_valid.value = int(packet is not None)
        if packet:
            dut.s_claim_qpn.value, dut.s_claim_need.value = packet["qpn"], packet["need"]
            dut.s_claim_skip.value, dut.s_claim_blocked.value = packet["skip"], packet["blocked"]
        dut.s_claim_hold.value = int(rng.random() < self.holds)
        done = self.stages[2] is not None and rng.random() >= self.slow
        dut.s_done.value = int(done)
        self.ready = done or self.stages[2] is None


def space(ring):
    """Returns the bytes of the WQE at the head of a ring."""
    return sum(size_of(ring.descs[ring.cons + n]) for n in range(ring.entry()))


@cocotb.test()
async def the_response_follows_from_the_ring(dut):
    """queue.rq_pop.rule: Every kind of ring and needs around the exact buffer size give the
    specified response."""
    env = Env(dut)
    await env.start()
    for number, (posted, fetched, lasts, failed, skip, spare) in enumerate(
        itertools.product((0, 1, 2, 9), range(4), range(4), (0, 1), (0, 1), (-1, 0, 1))
    ):
        qpn = number % 64
        env.rings.pop(qpn, None)
        ring = env.ring(qpn, env.rng.choice((0, 0x7FFF, 0xFFFE, 0xFFFF)))
        env.post(ring, *[lasts >> n & 1 if n < 2 else 1 for n in range(posted)], fetched=False)
        ring.fetched = {ring.cons + n for n in range(min(posted, 2)) if fetched >> n & 1}
        ring.failed = failed
        need = max(0, space(ring) - spare)
        env.claim(qpn, skip, need)
        await env.settle()
        assert len(env.kinds) == number + 1
        first, both = bool(fetched & 1 and posted), fetched == 3 and posted > 1
        ended = lasts & 1 or (posted == 1)
        if skip:
            wanted = {SKIPPED}
        elif failed:
            wanted = {BROKEN}
        elif posted == 0 or (posted == 1 and first and not lasts & 1):
            wanted = {NONE}
        elif not (first and (ended or both)):
            wanted = {MISSING}
        elif not lasts:
            wanted = {ENDLESS}
        else:
            wanted = {SHORT if spare < 0 and need else WHOLE}
        assert env.kinds[-1] in wanted, (posted, fetched, lasts, env.kinds[-1], wanted)
    assert len(set(env.kinds)) == 7


@cocotb.test()
async def needs_of_every_size_are_compared(dut):
    """queue.rq_pop.need: A need of any size is compared with buffers of any two sizes, bit by
    bit."""
    env = Env(dut)
    await env.start()
    for number in range(400):
        ring = env.rings.pop(number % 64, None)
        ring = env.ring(number % 64, number)
        env.post(ring, number & 1, 1, fetched=False)
        ring.fetched = {ring.cons, ring.cons + 1}
        step = 1 << env.rng.randrange(17)
        differs = env.rng.choice((-1, 0, 1, step, -step))
        size = space(ring)
        need = min(max(0, size + differs), (1 << 17) - 1)
        env.claim(number % 64, 0, need)
        await env.settle()
        assert env.kinds[-1] == (SHORT if need > size else WHOLE), (number, size, need)


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0, 0.0), (0.3, 0.5, 0.2), (0.0, 0.9, 0.0)])
async def packets_share_their_rings(dut, pace):
    """queue.rq_pop.stream: Each descriptor is assigned once and in order, whatever blocks."""
    env = Env(dut, *pace)
    await env.start()
    rng, speed = env.rng, 1 - max(pace)
    rings = {qpn: env.ring(qpn, 65536 - 60) for qpn in (0, 1, 32, 63)}
    steps = itertools.count()

    def step():
        # Posting pauses now and then, until packets find the rings empty.
        posting = next(steps) * speed % 200 < 160
        for ring in rings.values():
            if posting and rng.random() < speed / 4 and ring.prod - ring.cons < 20:
                env.post(ring, int(rng.random() < 0.7), fetched=False)
            missing = [count for count in range(ring.cons, ring.prod) if count not in ring.fetched]
            if missing and rng.random() < speed / 4:
                ring.fetched.add(rng.choice(missing))
        if len(env.packets) < 3:
            qpn = rng.choice((0, 0, 0, 1, 32, 63))
            need = rng.randrange(1 << 16) if rng.random() < 0.3 else 0
            env.claim(qpn, int(rng.random() < 0.1), need, int(rng.random() < 0.1))

    await env.cycles(round(1600 / speed), step)
    for ring in rings.values():
        env.post(ring, 1, 1)
        ring.fetched |= set(range(ring.cons, ring.prod))
    await env.settle()
    kinds = (SKIPPED, NONE, MISSING, SHORT, WHOLE, ENDLESS)
    counts = [env.kinds.count(kind) for kind in kinds]
    assert min(counts) > 4, counts
    assert all(ring.reported == ring.cons for ring in rings.values())
    assert any(ring.cons > 65536 for ring in rings.values())


@cocotb.test()
async def a_missing_line_blocks_no_other_queue(dut):
    """queue.rq_pop.missing: A missing descriptor blocks no other packet; a WQE whose job is pending
    stays consumed."""
    env = Env(dut, slow=1.0)
    await env.start()
    good, late = env.ring(3), env.ring(4)
    env.post(good, 1, 1)
    env.post(late, 1, fetched=False)
    for qpn in (3, 4, 4, 4):
        env.claim(qpn)
    await env.cycles(20)
    assert env.kinds == [WHOLE, MISSING, MISSING, MISSING] and env.stages[2]["qpn"] == 3
    env.slow = 0.0
    late.fetched.add(0)
    env.claim(4)
    env.claim(3)
    await env.settle()
    assert env.kinds[4:] == [WHOLE, WHOLE] and (good.reported, late.reported) == (2, 1)


@cocotb.test()
async def a_packet_is_held_before_its_look(dut):
    """queue.rq_pop.hold: While a packet is held before its lookup, changes of the ring still
    count."""
    env = Env(dut, holds=1.0)
    await env.start()
    ring = env.ring(9)
    env.claim(9, skip=0)
    await env.cycles(10)
    assert env.stages[0] and not env.kinds
    env.post(ring, 1)
    env.stages[0]["skip"], env.stages[0]["prod"] = 0, 1
    await env.cycles(2)
    env.holds = 0.0
    await env.settle()
    assert env.kinds == [WHOLE]


@cocotb.test()
async def claims_follow_each_other_in_time(dut):
    """queue.rq_pop.cycles: Claims of different rings and of one ring meet their specified cycles;
    each sees the previous consumption."""
    env = Env(dut)
    await env.start()
    # Skipped packets consume nothing, so packets of one ring follow each other at once.
    for rings, skip, promised in (((1, 2, 3), 0, CLAIM), ((4,), 0, RING), ((5,), 1, CLAIM)):
        for qpn in rings:
            env.post(env.ring(qpn, 65530), *[1] * 30)
        for number in range(24):
            env.claim(rings[number % len(rings)], skip)
        await env.settle()
        claims, responses = env.times["claim"], env.times["rsp"]
        assert responses[0] - claims[0] == promised.latency
        assert {b - a for a, b in itertools.pairwise(responses)} == {promised.interval}
        claims.clear()
        responses.clear()


@cocotb.test()
async def reset_cancels_claims(dut):
    """queue.rq_pop.reset: A reset cancels claims at every stage."""
    env = Env(dut, slow=0.5)
    await env.start()
    for wait, fetched in itertools.product(range(1, 8), (0, 1)):
        for ring in env.rings.values():
            ring.cons = ring.reported = ring.prod
        env.post(env.ring(1), 0, 1, fetched=bool(fetched))
        env.claim(1)
        env.claim(1)
        await env.cycles(wait)
        zero(dut, *INPUTS)
        env.packets.clear()
        await reset(dut)
        assert dut.m_rsp_valid.value == 0 and dut.m_held_valid.value == 0
        env.stages, env.shown, env.offered = [None, None, None], None, False
        ring = env.ring(1)
        ring.cons = ring.reported = ring.prod
        env.post(ring, 1, 1)
        env.claim(1)
        await env.settle()
        assert env.kinds[-1] == WHOLE
