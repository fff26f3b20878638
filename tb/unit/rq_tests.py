# SPDX-License-Identifier: Apache-2.0
"""Tests efa_rq: receive rings from doorbell to claim, flush and restart; its cycles."""

from collections import deque

import cocotb
from cocotb.triggers import RisingEdge

from efa_cosim.layouts.defs import INTERNAL, AdminQpState
from tb.lib.bundles import Bundles
from tb.lib.dont_care import dont_care
from tb.lib.stream import clock_and_reset, cycle, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import high, pulse, until, zero
from tb.unit.rq_bench import context, desc, length

STATES = AdminQpState
INIT, CLEAR, FREE = range(3)
WRONG, FAILED = 2, 6
CLAIM, DOORBELL, OP = (timing("efa_rq", path) for path in ("claim", "doorbell", "op"))
INPUTS = (
    "s_rqdb_valid",
    "s_rq_ctrl_valid",
    "s_rq_ctrl_kind",
    "s_qpchg_valid",
    "m_rd_ready",
    "s_rd_cpl_valid",
    "s_rd_cpl_last",
    "s_rd_cpl_err",
    "s_rd_cpl_cookie",
    "s_next_qpn",
    "s_claim_valid",
    "s_claim_data",
    "s_claim_done",
    "m_rsp_ready",
    "s_done_valid",
    "m_flush_ready",
    "m_err_ready",
    "s_drain",
    "qpc_rd_data",
)
SETTLED = 8  # cycles after which a doorbell has taken effect


class Ring:
    """Models a ring as the host sees it; counts exceed 16 bits."""

    def __init__(self, qpn):
        self.qpn, self.log, self.state, self.live = qpn, 0, STATES.RESET, 1
        self.base = rng_for("base").getrandbits(28) << 36 | (qpn + 1) << 24
        self.rest = dont_care(INTERNAL.qpc, rng_for(f"ring{qpn}"))
        self.begin()

    def begin(self):
        self.prod = self.cons = self.done = 0
        self.descs, self.doorbells, self.broken_at, self.pending = {}, [], None, 0

    def context(self, state=None):
        state = self.state if state is None else state
        return context(self.base, self.log, state, rq_live=self.live, rest=self.rest)

    def space(self):
        return (1 << self.log) - (self.prod - self.done)

    def entry(self, prod):
        """Returns the number of descriptors of the complete WQE at the head, or 0."""
        if self.cons >= prod:
            return 0
        if self.descs[self.cons] >> 127:
            return 1
        return 2 if self.cons + 1 < prod else 0

    def failed(self, cycles=0):
        """Returns whether a read failed at least that many cycles ago."""
        return self.broken_at is not None and self.broken_at + cycles <= cycle()

    def posted(self):
        """Returns the highest producer index that has surely taken effect by now."""
        return max([prod for at, prod in self.doorbells if at + SETTLED <= cycle()], default=0)


class Env:
    """Models host, packet validation, completions and the owner of contexts, once per cycle."""

    def __init__(self, dut, responses=0.5, ready=0.8, pace=0.5):
        self.dut = Bundles(dut, s_claim=INTERNAL.rx_claim, m_rsp=INTERNAL.rx_claim_rsp)
        self.rng = rng_for("rq")
        self.responses, self.ready, self.pace = responses, ready, pace
        self.rings, self.doorbells, self.chgs, self.reports = {}, deque(), deque(), deque()
        self.reads, self.fail, self.errs, self.wanted = [], set(), [], []
        self.op, self.claim, self.claimed, self.take = None, None, None, None
        self.need, self.stage, self.failed, self.offered = 0, None, set(), None
        self.drain, self.drained = False, False
        self.times = {"read": [], "rsp": [], "op": []}
        self.counts = dict.fromkeys(("complete", "none", "endless", "failed", "flush"), 0)

    async def start(self):
        zero(self.dut, *INPUTS)
        await clock_and_reset(self.dut)
        await until(self.dut, high(self.dut.m_init_done))

    async def make(self, qpn, log, state=STATES.RTS, kind=INIT):
        """Restarts a ring at 0, as the owner of contexts does."""
        ring = self.rings.setdefault(qpn, Ring(qpn))
        ring.log = log
        self.op = ring, kind
        for _ in range(60):
            if self.op:
                await self.cycle()
        assert not self.op, "the operation did not end"
        ring.state = state
        return ring

    def post(self, ring, *lasts):
        for last in lasts:
            ring.descs[ring.prod] = desc(self.rng, last)
            ring.prod += 1
        self.doorbells.append((ring, ring.prod))

    def ring_wrong(self, ring):
        """Rings a doorbell beyond the ring."""
        self.doorbells.append((ring, None))

    def to(self, ring, state):
        ring.state = state
        self.chgs.append(ring.qpn)

    async def cycles(self, count=1, step=None):
        for _ in range(count):
            if step:
                step()
            await self.cycle()

    async def cycle(self):
        dut = self.dut
        await RisingEdge(dut.clk)
        self.now = cycle()
        requested = dut.qpc_rd_addr.value
        ring = self.rings.get(int(requested)) if requested.is_resolvable else None
        dut.qpc_rd_data.value = ring.context() if ring else 0
        if dut.rst.value == 0:
            self._outputs()
            self._taken()
        self._inputs()

    def _outputs(self):
        dut = self.dut
        if dut.m_rd_valid.value == 1 and dut.m_rd_ready.value == 1:
            self._read(int(dut.m_rd_addr.value), int(dut.m_rd_len.value))
        if dut.m_flush_valid.value == 1:
            self.offered = self.offered or cycle()
            if dut.m_flush_ready.value == 1:
                self._flush(self.rings[int(dut.m_flush_qpn.value)])
                self.offered = None
        if dut.m_err_valid.value == 1 and dut.m_err_ready.value == 1:
            err = int(dut.m_err_qpn.value), int(dut.m_err_cause.value)
            # More reads of a ring may fail after its first report.
            assert err in self.wanted or (err[1] == FAILED and err[0] in self.failed), err
            if err in self.wanted:
                self.wanted.remove(err)
            self.errs.append(err)
            ring = self.rings[err[0]]
            if ring.state not in (STATES.RESET, STATES.ERR):
                self.to(ring, STATES.ERR)
        self._packets_out()
        self.drained = all(
            pin.value == 1 for pin in (dut.s_drain, dut.m_idle, dut.m_drained))  # fmt: skip

    def _packets_out(self):
        dut = self.dut
        if dut.m_rsp_valid.value == 1:
            self.times["rsp"].append(cycle())
            assert self.stage == "claimed", "a response without a claim"
            if dut.m_rsp_missing.value == 1:
                # A packet with missing descriptors is parked.
                assert self.claim.cons < self.claim.prod
                self.stage = None
            else:
                self.claimed, self.stage = self._respond(self.claim), "completed"
        elif self.stage == "next":
            self.stage = "offer"
        elif self.stage == "offer" and dut.s_claim_ready.value == 1:
            self.stage = "claimed"

    def _read(self, addr, size):
        ring = self.rings[(addr >> 24 & 0xFFF) - 1]
        at = (addr - ring.base) // 16
        number = size // 16
        assert at + number <= 1 << ring.log and 0 < number <= 8
        assert addr >> 7 == (addr + size - 1) >> 7
        # The newest descriptors at this address; all of them must have been posted.
        first = next(c for c in range(ring.prod - 1, -1, -1) if c % (1 << ring.log) == at)
        assert ring.cons <= first and first + number <= max(prod for _, prod in ring.doorbells)
        words = [ring.descs[first + n] for n in range(number)]
        beats, offset = [], 0
        while offset < size:
            piece = min(size - offset, 64 - (addr + offset) % 64)
            beats.append((offset, words[offset // 16 : (offset + piece) // 16]))
            offset += piece
        self.reads.append((ring, int(self.dut.m_rd_cookie.value), beats))
        self.times["read"].append(cycle())

    def _flush(self, ring):
        dut, used = self.dut, ring.entry(ring.prod)
        # A look that began before the drain may still use the previous state.
        late = ring.state == STATES.RESET and dut.m_idle.value == 0
        assert (ring.state == STATES.ERR or late) and used
        assert not ring.failed() or self.offered <= ring.broken_at + SETTLED
        assert dut.m_flush_req_id.value == ring.descs[ring.cons] >> 64 & 0xFFFF
        assert dut.m_flush_count.value == used
        assert dut.m_flush_qpc.value == ring.context(STATES.ERR)
        self._use(ring, used)
        self.counts["flush"] += 1

    def _use(self, ring, count):
        ring.cons += count
        ring.pending += 1
        self.reports.append((ring, count))

    def _respond(self, ring):
        """Checks a claim response against the posted descriptors; returns the consumed ones."""
        dut = self.dut
        if dut.m_rsp_skipped.value == 1:
            return 0
        if dut.m_rsp_failed.value == 1:
            assert ring.failed() or ring.state == STATES.RESET
            self.counts["failed"] += 1
            return 0
        assert not ring.failed(SETTLED)
        if dut.m_rsp_none.value == 1:
            assert not ring.entry(ring.posted())
            self.counts["none"] += 1
            return 0
        used = ring.entry(ring.prod)
        assert used and dut.m_rsp_count.value == used
        words, reported = (
            [ring.descs[ring.cons + n] for n in range(used)],
            int(dut.m_rsp_descs.value),
        )
        assert [reported >> 128 * n & (1 << 128) - 1 for n in range(used)] == words
        complete = words[-1] >> 127
        assert dut.m_rsp_complete.value == complete
        if complete:
            assert dut.m_rsp_short.value == int(self.need > sum(map(length, words)))
        self.counts["complete" if complete else "endless"] += 1
        return 0 if complete and dut.m_rsp_short.value == 1 else used

    def _taken(self):
        dut = self.dut
        if dut.s_claim_done.value == 1:
            self._packet_done()
        if dut.s_done_valid.value == 1:
            ring, count = self.reports.popleft()
            ring.done += count
            ring.pending -= 1
        if dut.s_qpchg_valid.value == 1 and dut.s_qpchg_ready.value == 1:
            self.chgs.popleft()
        if dut.s_rq_ctrl_valid.value == 1 and dut.s_rq_ctrl_ready.value == 1:
            self.op[0].begin()
            self.times["op"].append(cycle())
            self.op = None

    def _packet_done(self):
        if self.take:
            self._use(self.claim, self.take)
        self.claim, self.take, self.stage = None, None, None

    def _inputs(self):
        dut, rng = self.dut, self.rng
        ring, value = self.doorbells.popleft() if self.doorbells else (None, None)
        rings = ring is not None and ring.state != STATES.RESET
        dut.s_rqdb_valid.value = int(rings)
        if rings and value is None:
            value = ring.done + (1 << ring.log) + 1 + rng.randrange(9)
            if (ring.qpn, WRONG) not in self.wanted:
                self.wanted.append((ring.qpn, WRONG))
        elif rings:
            ring.doorbells.append((cycle() + 1, value))
        if rings:
            dut.s_rqdb_qpn.value, dut.s_rqdb_value.value = ring.qpn, value % 65536
        dut.s_qpchg_valid.value = int(bool(self.chgs))
        if self.chgs:
            dut.s_qpchg_qpn.value = self.chgs[0]
        self._host()
        ending = self._packets_in()
        dut.s_done_valid.value = int(bool(self.reports) and rng.random() < self.pace)
        if self.reports:
            ring, count = self.reports[0]
            dut.s_done_qpn.value, dut.s_done_count.value = ring.qpn, count
        dut.m_rd_ready.value = int(rng.random() < self.ready)
        # Claims and flushes share one port for consumption, hence never end in the same cycle.
        dut.m_flush_ready.value = int(rng.random() < self.pace and not ending)
        dut.m_err_ready.value = int(rng.random() < self.pace)
        dut.s_rq_ctrl_valid.value = int(self.op is not None)
        if self.op:
            ring, kind = self.op
            dut.s_rq_ctrl_qpn.value, dut.s_rq_ctrl_kind.value = ring.qpn, kind
            dut.s_rq_ctrl_qpc.value = ring.context()
        dut.s_drain.value = int(self.drain)

    def _packets_in(self):
        """Drives the claim; returns whether a claim ends in this cycle."""
        dut, ending = self.dut, self.take is not None
        if self.claim is None:
            self.claimed = None
        elif self.stage is None:
            self.stage = "next"
        dut.s_claim_valid.value = int(self.stage == "offer")
        if self.claim:
            dut.s_next_qpn.value = dut.s_claim_qpn.value = self.claim.qpn
            dut.s_claim_need.value = self.need
            dut.s_claim_skip.value = int(self.claim.state != STATES.RTS)
        dut.s_claim_done.value, dut.m_rsp_ready.value = int(ending), 1
        return ending

    def _host(self):
        """Drives one beat of an outstanding read; a failed beat ends its read."""
        dut, rng = self.dut, self.rng
        # The completion bus is shared: without valid its fields are don't-care.
        dut.s_rd_cpl_valid.value = 0
        dut.s_rd_cpl_err.value, dut.s_rd_cpl_last.value = rng.getrandbits(1), rng.getrandbits(1)
        if not self.reads or rng.random() >= self.responses:
            return
        at = rng.randrange(len(self.reads))
        ring, cookie, beats = self.reads[at]
        offset, words = beats.pop(0)
        failed = ring.qpn in self.fail
        if failed or not beats:
            del self.reads[at]
        if failed:
            ring.broken_at = cycle()
            self.failed.add(ring.qpn)
            if (ring.qpn, FAILED) not in self.wanted:
                self.wanted.append((ring.qpn, FAILED))
        dut.s_rd_cpl_valid.value, dut.s_rd_cpl_cookie.value = 1, cookie
        dut.s_rd_cpl_offset.value = offset
        dut.s_rd_cpl_data.value = sum(word << 128 * n for n, word in enumerate(words))
        dut.s_rd_cpl_bytes.value, dut.s_rd_cpl_err.value = 16 * len(words), int(failed)
        dut.s_rd_cpl_last.value = int(failed or not beats)

    def check(self, ring, share):
        """Acts as packet validation: claims the ring for a packet that fits or does not fit."""
        if self.claim is None:
            self.claim, self.need = ring, 0 if self.rng.random() < share else 0x1FFFF
            used = ring.entry(ring.prod)
            if used and self.need and self.rng.random() < 0.5:
                words = (ring.descs[ring.cons + n] for n in range(used))
                self.need = sum(map(length, words)) + self.rng.getrandbits(1)
        elif self.take is None and self.claimed is not None:
            self.take = self.claimed

    async def rest(self, cycles=150, limit=8000):
        quiet = 0
        for _ in range(limit):
            busy = (self.doorbells, self.chgs, self.reports, self.reads, self.wanted)
            before = len(self.times["read"]), self.counts["flush"]
            await self.cycle()
            after = len(self.times["read"]), self.counts["flush"]
            quiet = 0 if any(busy) or before != after else quiet + 1
            if quiet == cycles:
                return
        raise AssertionError("activity does not end")


def some_lasts(rng, count):
    return [int(rng.random() < 0.7) for _ in range(count)]


async def take_all(env, ring, limit=4000):
    """Claims until no complete WQE is left."""
    for _ in range(limit):
        none = env.counts["none"]
        env.check(ring, 1.0)
        await env.cycle()
        if env.counts["none"] > none:
            await env.cycles(4, lambda: env.check(ring, 1.0) if env.claim else None)
            return
    raise AssertionError("claims do not end")


@cocotb.test()
@cocotb.parametrize(pace=[(0.9, 1.0, 0.9), (0.15, 0.4, 0.3)])
async def rings_are_created_and_destroyed(dut, pace):
    """queue.rq.lifetime: Random posts, claims, invalid doorbells, failed reads, flushes and
    restarts match the model."""
    env = Env(dut, *pace)
    await env.start()
    rng = env.rng
    rings = [await env.make(n * 13 % 64, n % 7) for n in range(9)]
    ending, restarts = [], 0

    def step():
        nonlocal restarts
        ring = rng.choice(rings)
        if ring.state != STATES.RESET:
            space = ring.space()
            if space > 0 and rng.random() < 0.2:
                env.post(ring, *some_lasts(rng, rng.randrange(space) + 1))
            # One at a time: a second invalid doorbell may merge with a pending report.
            if rng.random() < 0.003 and (ring.qpn, WRONG) not in env.wanted:
                env.ring_wrong(ring)
            if rng.random() < 0.002:
                env.fail.add(ring.qpn)
        if rng.random() < 0.4:
            env.check(ring, 0.9)
        if not ending and rng.random() < 0.03 and ring.state == STATES.ERR:
            ending.append(ring)
            env.to(ring, STATES.RESET)
            env.drain = True
        elif ending and env.drain:
            ring = ending[0]
            if env.drained and env.claim is not ring and not ring.pending:
                assert not any(read[0] is ring for read in env.reads)
                env.drain = False
                if rng.random() < 0.5:
                    ending.append(INIT)
                    ring.log = rng.randrange(7)
                    env.op = ring, FREE
                else:
                    env.op = ring, CLEAR
        elif ending and not env.op:
            if len(ending) == 2:
                env.op = ending[0], ending.pop()
            else:
                env.fail.discard(ring.qpn)
                ring = ending.pop()
                env.fail.discard(ring.qpn)
                ring.state = STATES.RTS
                restarts += 1

    await env.cycles(5000, step)
    env.drain, env.responses, env.ready, env.pace = False, 1.0, 1.0, 1.0
    env.fail.clear()
    while env.claim:
        env.check(env.claim, 1.0)
        await env.cycle()
    await env.rest()
    for ring in rings:
        if ring.state == STATES.RTS and not ring.failed():
            await take_all(env, ring)
    await env.rest()
    for ring in rings:
        assert ring.state == STATES.RESET or ring.failed() or not ring.entry(ring.prod)
    del env.counts["failed"]
    assert restarts > 3 and min(env.counts.values()) > 3, (restarts, env.counts)


@cocotb.test()
async def a_ring_is_used_over_and_over(dut):
    """queue.rq.wraps: Each descriptor is delivered once and in order over many wraps of ring and
    cache."""
    env = Env(dut, 0.9, 1.0, 1.0)
    await env.start()
    rings = [await env.make(63, 5), await env.make(0, 2)]

    def step():
        for ring in rings:
            if ring.space() > 2 and not env.doorbells:
                env.post(ring, *some_lasts(env.rng, ring.space() - 1), 1)
        env.check(env.rng.choice(rings), 1.0)

    await env.cycles(2500, step)
    assert all(ring.cons > 3 << ring.log for ring in rings)
    assert env.counts["flush"] == env.counts["failed"] == 0 and not env.errs


@cocotb.test()
async def a_ring_is_fetched_as_far_as_it_was_posted(dut):
    """queue.rq.counts: Exactly the posted descriptors are fetched, at counts beyond 2,048."""
    env = Env(dut, 1.0, 1.0, 1.0)
    await env.start()
    ring = await env.make(9, 12)
    env.post(ring, *[0, 1] * 1028)
    await env.cycles(30)
    await env.cycles(6 * 1028, lambda: env.check(ring, 1.0))
    assert ring.cons == ring.prod, "not all descriptors were fetched"
    for count in (1, 3, 8, 20):
        env.post(ring, *[1] * count)
        await env.rest(40)
        await take_all(env, ring)
        assert ring.cons == ring.prod, count


@cocotb.test()
async def a_ring_is_fetched_in_every_state_but_reset(dut):
    """queue.rq.states: Descriptors are fetched at their doorbell in every state except RESET."""
    env = Env(dut, 1.0, 1.0, 1.0)
    await env.start()
    for state in STATES:
        ring = await env.make(26, 3, state=STATES.RTS)
        ring.state = state
        env.times["read"].clear()
        ring.descs, ring.prod = {n: desc(env.rng, 1) for n in range(4)}, 4
        ring.doorbells.append((cycle() + 1, 4))
        await pulse(dut, "s_rqdb_valid", s_rqdb_qpn=26, s_rqdb_value=4)
        await env.rest(40)
        assert len(env.times["read"]) == int(state != STATES.RESET), state
        ring.state = STATES.RESET


@cocotb.test()
async def broken_rings_are_reported_of(dut):
    """queue.rq.errors: A doorbell beyond the ring has no effect, a failed read breaks its ring;
    both are reported."""
    env = Env(dut, 1.0, 1.0, 1.0)
    await env.start()
    wrong, failed, fine = [await env.make(n, 3) for n in (10, 11, 12)]
    for ring in (wrong, failed, fine):
        env.post(ring, 1, 1)
    await env.rest()
    env.fail.add(11)
    env.ring_wrong(wrong)
    env.post(failed, 1)
    await env.rest()
    assert sorted(env.errs) == [(10, WRONG), (11, FAILED)]
    assert (wrong.cons, failed.cons, fine.cons) == (2, 0, 0), "flush stops at the producer index"
    assert failed.state == STATES.ERR
    failed.state = STATES.RTS
    env.check(failed, 1.0)
    for _ in range(1000):
        if env.counts["failed"]:
            break
        env.check(failed, 1.0)
        await env.cycle()
    assert env.counts["failed"], "the claim of a broken ring does not end"
    await env.cycles(3, lambda: env.check(failed, 1.0) if env.claim else None)
    await take_all(env, fine)
    assert (failed.cons, fine.cons) == (0, 2)


@cocotb.test()
async def without_a_ring_nothing_may_be_posted(dut):
    """queue.rq.none: A doorbell is an error when the QP has no RQ or its ring was freed; a cleared
    ring keeps its size."""
    env = Env(dut, 1.0, 1.0, 1.0)
    await env.start()
    for kind, live, reported in (
        (INIT, 0, WRONG),
        (INIT, 1, None),
        (CLEAR, 1, None),
        (FREE, 1, WRONG),
    ):
        ring = env.rings.setdefault(20, Ring(20))
        ring.live = live
        await env.make(20, 3, kind=kind)
        env.wanted = [(20, reported)] if reported else []
        dut.s_rqdb_valid.value, dut.s_rqdb_qpn.value, dut.s_rqdb_value.value = 1, 20, 8
        ring.descs, ring.prod = {n: desc(env.rng, 1) for n in range(8)}, 8
        ring.doorbells.append((cycle(), 8))
        await env.rest()
        assert bool(env.times["read"]) == (reported is None)
        env.to(ring, STATES.RESET)
        env.times["read"].clear()


@cocotb.test()
async def no_wqe_is_both_claimed_and_flushed(dut):
    """queue.rq.once: No WQE is both claimed and flushed, in whatever cycle of a flush a claim
    ends."""
    env = Env(dut, 1.0, 1.0, 1.0)
    await env.start()
    for wait in range(14):
        ring = await env.make(17, 4)
        env.post(ring, 1, 0, 1, 1)
        await env.rest(10)
        env.check(ring, 1.0)
        await env.cycles(CLAIM.latency + 3)
        env.to(ring, STATES.ERR)
        await env.cycles(wait)
        env.check(ring, 1.0)
        await env.rest(20)
        assert ring.cons == ring.done == 4
        ring.state = STATES.RESET


@cocotb.test()
async def a_waiting_claim_ends_with_its_ring(dut):
    """queue.rq.refuse: A reset of the QP ends a claim that waits for descriptors; the ring drains
    and restarts."""
    env = Env(dut, 0.0, 1.0, 1.0)
    await env.start()
    for kind in (CLEAR, INIT):
        ring = await env.make(33, 3)
        env.post(ring, 0, 1)
        await env.cycles(SETTLED)
        env.check(ring, 1.0)
        await env.cycles(30)
        assert env.claimed is None and env.claim is ring
        env.to(ring, STATES.RESET)
        env.drain = True
        await env.cycles(12)
        assert env.claimed == 0, "the claim must be refused"
        env.check(ring, 1.0)
        await env.cycles(30)
        assert not env.drained and len(env.reads) == 1
        env.responses = 1.0
        await env.cycles(6)
        assert env.drained
        env.drain, env.responses = False, 0.0
        await env.make(33, 3, kind=kind)
        await take_all(env, ring)
        assert ring.cons == 0, "a descriptor from before the restart"
        env.post(ring, 1)
        env.responses = 1.0
        await env.rest()
        await take_all(env, ring)
        assert ring.cons == 1
        env.responses = 0.0


@cocotb.test()
async def claims_doorbells_and_operations_take_their_time(dut):
    """queue.rq.cycles: Claims, doorbells and operations meet their specified cycles."""
    env = Env(dut, 1.0, 1.0, 1.0)
    await env.start()
    await env.cycle()
    for _ in range(3):
        started = env.now
        ring = await env.make(5, 5)
        assert env.times["op"][-1] - started - 2 == OP.latency, env.times["op"][-1] - started
    env.post(ring, *[1] * 8)
    started = env.now + 2
    await env.rest()
    assert env.times["read"][0] - started == DOORBELL.latency
    for _ in range(3):
        env.check(ring, 1.0)
        started = env.now + 2
        await env.cycles(CLAIM.latency + 2)
        assert env.times["rsp"].pop() - started == CLAIM.latency
        env.check(ring, 1.0)
        await env.cycles(3)


@cocotb.test()
async def reset_in_the_middle_of_traffic(dut):
    """queue.rq.reset: A reset discards all reports, reads and flushes; the rings then work
    again."""
    for wait in (2, 5, 9, 14, 23, 60):
        env = Env(dut, 0.3, 0.5, 0.3)
        if wait == 2:
            await env.start()
        rings = [await env.make(n, 4) for n in (1, 2, 3)]
        for ring in rings:
            env.post(ring, *some_lasts(env.rng, 15))
        env.ring_wrong(rings[0])
        env.fail.add(2)
        env.check(rings[2], 1.0)
        env.drain = wait % 2 == 0
        await env.cycles(wait)
        env.op = Ring(9), INIT
        await env.cycles(wait % 7)
        zero(dut, *INPUTS)
        await reset(dut)
        env = Env(dut, 1.0, 1.0, 1.0)
        env.rings[1] = Ring(1)
        for name in ("m_rd_valid", "m_rsp_valid", "m_flush_valid", "m_err_valid", "m_idle",
                     "m_drained", "s_rq_ctrl_ready"):  # fmt: skip
            assert getattr(dut, name).value == 0, name
        await until(dut, high(dut.m_init_done))
        await env.cycles(40)
        assert not env.times["read"] and not env.errs
        for qpn in (1, 2, 3):
            ring = await env.make(qpn, 4)
            env.post(ring, *[1] * 16)
        await env.rest()
        for ring in env.rings.values():
            await take_all(env, ring)
            assert ring.cons == 16


@cocotb.test()
async def changes_are_kept_beside_doorbells(dut):
    """queue.rq.changes: A QP that enters ERR in any cycle of a burst of doorbells is flushed."""
    env = Env(dut, 1.0, 1.0, 1.0)
    await env.start()
    others = [await env.make(qpn, 3) for qpn in range(8, 24)]
    for gap in range(8):
        ring = await env.make(40 + gap, 3)
        env.post(ring, 1, 1, 1, 1)
        await env.rest(cycles=20)
        for other in others:
            env.post(other, 1)
        await env.cycles(gap)
        env.to(ring, STATES.ERR)
        await env.rest(cycles=80)
        assert ring.cons == ring.prod, gap


@cocotb.test()
async def counts_reach_their_upper_bits(dut):
    """queue.rq.counts: A ring is flushed beyond 8,192 descriptors, and another ring is claimed
    beyond 4,096 until it is empty each time."""
    env = Env(dut, 1.0, 1.0, 1.0)
    await env.start()
    dead, busy = await env.make(3, 6, STATES.ERR), await env.make(60, 6)

    def step():
        if dead.space() >= 32:
            env.post(dead, *[0, 1] * 16)
        # The producer index is no multiple of a power of two.
        if busy.space() == 64 and busy.cons < 4_300:
            env.post(busy, *[0, 1] * 30)
        if busy.cons < busy.prod or env.claim:
            env.check(busy, 1.0)

    for _ in range(600):
        await env.cycles(100, step)
        if dead.cons > 8_300 and busy.cons > 4_300:
            break
    assert dead.cons > 8_300 and busy.cons > 4_300
