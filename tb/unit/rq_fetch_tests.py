# SPDX-License-Identifier: Apache-2.0
"""Tests efa_rq_fetch: prefetch, flush of queues in ERR, end of rings; its cycles."""

import itertools
from collections import deque

import cocotb
from cocotb.triggers import RisingEdge, SimTimeoutError, with_timeout

from efa_cosim.layouts.defs import INTERNAL, AdminQpState
from tb.lib.dont_care import dont_care
from tb.lib.stream import clock_and_reset, cycle, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import high, hold, until, zero
from tb.unit.rq_bench import desc

STATES = AdminQpState
LOOK, USED, READ, FLUSH = (
    timing("efa_rq_fetch", path) for path in ("look", "used", "read", "flush"))  # fmt: skip
INPUTS = ("s_move_valid", "s_used_valid", "s_chg_valid", "s_rd_cpl_end", "s_rd_cpl_failed",
          "s_held_valid", "s_held_qpn", "failed_rd_addr", "m_rd_ready", "m_flush_ready",
          "s_clear_valid", "s_drain", "qpc_rd_data", "prod_rd_data", "cons_rd_data",
          "desc_rd_data", "desc_rd_present")  # fmt: skip


class Ring:
    """Models a receive ring as seen by host, counters and cache; counts exceed 16 bits."""

    def __init__(self, qpn, log, live=1, rq_live=1):
        self.qpn, self.size = qpn, 1 << log
        rng = rng_for(f"ring{qpn}")
        self.base = (rng.getrandbits(47) << 16) + 64 * qpn
        # Other context fields pass through a flush unchanged.
        self.others = dont_care(INTERNAL.qpc, rng)
        self.log, self.live, self.rq_live = log, live, rq_live
        self.begin()

    def begin(self):
        self.state, self.broken_at = STATES.RESET, None
        self.prod = self.cons = self.requested = 0
        self.descs, self.fetched, self.flushed, self.reads = {}, set(), 0, []

    @property
    def failed(self):
        return self.broken_at is not None

    def offers(self, at, cycles):
        """Returns whether a read or flush first offered at `at`, `cycles` after its lookup, may
        have begun before the ring failed."""
        return not self.failed or at <= self.broken_at + cycles

    def context(self, state=None):
        state = self.state if state is None else state
        mine = {"live": self.live, "state": state, "rq_live": self.rq_live,
                "rq_base": self.base >> 6, "rq_log": self.log}  # fmt: skip
        return INTERNAL.qpc.pack(**(self.others | mine))

    def entry(self):
        """Returns the number of descriptors of the complete posted WQE at the head, or 0."""
        if self.cons == self.prod:
            return 0
        if self.descs[self.cons] >> 127:
            return 1
        return 2 if self.cons + 1 < self.prod else 0

    def next_read(self):
        """Returns the size of the next read, bounded by line, ring end and posted descriptors."""
        at = self.requested % self.size
        line = 8 - (self.base + 16 * at) // 16 % 8
        return min(self.prod - self.requested, self.size - at, line)


class Env:
    """Models counts, cache, contexts, host and claims around the module.

    `cycle` updates all of it once per cycle: an edge samples the values of the previous cycle.
    """

    def __init__(self, dut, responses=0.3, ready=1.0, flush=1.0):
        self.dut, self.rng = dut, rng_for("rq_fetch")
        self.slots = 1 << int(dut.SLOT_W.value)
        self.rings, self.moves, self.wants, self.chgs = {}, deque(), deque(), deque()
        self.qpn_w = len(dut.ring_rd_addr)
        self.responses, self.ready, self.flush = responses, ready, flush
        self.out, self.before_drain, self.claim, self.take = [], [], None, None
        self.response, self.fail, self.clearing = None, set(), None
        self.times = {"read": [], "flush": [], "end": [], "used": []}
        self.drained, self.offered, self.stays = False, None, None
        self._drain = 0
        self.ending, self.shown, self.looked_up = False, None, None
        self.lanes = None  # (valid, queue) of each packet that may move a head, when a test sets it

    async def start(self):
        zero(self.dut, *INPUTS)
        await clock_and_reset(self.dut)
        await until(self.dut, high(self.dut.m_init_done))

    async def ring(self, qpn, log, state=STATES.RTS, **fields):
        """Creates and clears a new ring."""
        ring = self.rings[qpn] = Ring(qpn, log, **fields)
        await self.clear(ring, state)
        return ring

    async def clear(self, ring, state):
        self.clearing = ring
        await self.cycles(2)
        assert not self.clearing
        ring.state = state

    def post(self, ring, *lasts):
        """Posts descriptors and rings the doorbell."""
        for last in lasts:
            ring.descs[ring.prod] = desc(self.rng, last)
            ring.prod += 1
        self.moves.append(ring.qpn)

    def state(self, ring, state):
        ring.state = state
        self.chgs.append(ring.qpn)

    def drain(self, on):
        """Requests a drain: the reads outstanding now must be complete when it ends."""
        self._drain = int(on)
        self.before_drain = list(self.out) if on else []

    async def cycles(self, count=1, step=None):
        for _ in range(count):
            if step:
                step()
            await self.cycle()

    async def rest(self, limit=6000, quiet=30):
        """Runs until nothing has happened for `quiet` cycles."""
        idle = 0
        for _ in range(limit):
            busy = self.out or self.moves or self.wants or self.chgs or self.response
            before = len(self.times["read"]) + len(self.times["flush"])
            await self.cycle()
            after = len(self.times["read"]) + len(self.times["flush"])
            idle = 0 if busy or before != after else idle + 1
            if idle == quiet:
                return
        raise AssertionError("activity does not end")

    async def cycle(self):
        dut = self.dut
        await RisingEdge(dut.clk)
        requested, head = dut.ring_rd_addr.value, dut.desc_rd_count.value
        ring = self.rings.get(int(requested)) if requested.is_resolvable else None
        self._memories(ring, head)
        if dut.rst.value == 0:
            self._outputs(ring)
            self._taken()
        self._inputs()

    def _memories(self, ring, head):
        """Drives memory outputs: a read returns the content before this edge."""
        dut = self.dut
        if ring is None:
            zero(dut, "qpc_rd_data", "prod_rd_data", "cons_rd_data", "desc_rd_present")
            return
        dut.qpc_rd_data.value = ring.context()
        dut.prod_rd_data.value, dut.cons_rd_data.value = ring.prod % 65536, ring.cons % 65536
        if head.is_resolvable:
            at = ring.cons + (int(head) - ring.cons + 32768) % 65536 - 32768
            words = [ring.descs[at + n] if at + n in ring.fetched else self.rng.getrandbits(128)
                     for n in (0, 1)]  # fmt: skip
            dut.desc_rd_data.value = words[1] << 128 | words[0]
            dut.desc_rd_present.value = sum((at + n in ring.fetched) << n for n in (0, 1))

    def _outputs(self, ring):
        dut = self.dut
        offer = dut.m_rd_valid.value == 1 or dut.m_flush_valid.value == 1
        self.offered = (self.offered or cycle()) if offer else None
        pins = (dut.m_rd_addr, dut.m_rd_len, dut.m_rd_count) if dut.m_rd_valid.value == 1 else ()
        read = tuple(int(pin.value) for pin in pins) or None
        assert self.stays is None or read == self.stays, "an offered read changed"
        self.stays = read if dut.m_rd_ready.value == 0 else None
        if dut.m_rd_valid.value == 1 and dut.m_rd_ready.value == 1:
            self._read(ring)
        if dut.m_flush_valid.value == 1 and dut.m_flush_ready.value == 1:
            used = ring.entry()
            assert used and ring.offers(self.offered, 2)
            # A look that began before the drain may still use the previous state.
            late = ring.state == STATES.RESET and dut.m_idle.value == 0
            assert ring.state == STATES.ERR or late
            assert self.claim != ring.qpn, "a packet holds this WQE"
            assert dut.m_flush_qpc.value == ring.context(STATES.ERR)
            assert dut.m_flush_req_id.value == ring.descs[ring.cons] >> 64 & 0xFFFF
            assert dut.m_flush_count.value == used
            assert dut.m_take_valid.value == 1
            assert dut.m_take_value.value == (ring.cons + used) % 65536
            ring.cons += used
            ring.flushed += used
            self.times["flush"].append(cycle())
        else:
            assert dut.m_take_valid.value == 0
        self.drained = all(
            pin.value == 1 for pin in (dut.s_drain, dut.m_idle, dut.m_drained))  # fmt: skip
        assert not (self.drained and any(read in self.out for read in self.before_drain))
        if self.looked_up is not None:
            assert dut.failed_rd_data.value == int(self.rings[self.looked_up].failed)
        self.looked_up = self.shown

    def _read(self, ring):
        dut = self.dut
        size = int(dut.m_rd_len.value)
        number = size // 16
        addr = ring.base + 16 * (ring.requested % ring.size)
        assert (dut.m_rd_addr.value, dut.m_rd_count.value) == (addr, ring.requested % 65536)
        assert size % 16 == 0 and 0 < number <= ring.next_read()
        assert ring.requested + number <= ring.cons + self.slots, "more than the cache holds"
        assert ring.offers(self.offered, 1)
        read = (ring, ring.requested, number, int(dut.m_rd_epoch.value))
        self.out.append(read)
        ring.reads.append(number)
        ring.requested += number
        self.times["read"].append(cycle())

    def _taken(self):
        """Models the inputs that the device accepted at this edge."""
        dut = self.dut
        if self.ending:
            self.times["used"].append(cycle())
            self.rings[self.claim].cons += self.take
            self.claim = self.take = None
        elif dut.s_used_valid.value == 1:
            self.wants.popleft()
        if self.response:
            ring, begin, number, _ = self.response
            self.response = None
            if dut.s_rd_cpl_failed.value == 1:
                ring.broken_at = cycle()
            else:
                # A consumed descriptor stays in the cache until it is overwritten.
                ring.fetched -= set(range(begin - self.slots, begin + number - self.slots))
                ring.fetched |= set(range(begin, begin + number))
        if dut.s_chg_valid.value == 1 and dut.s_chg_ready.value == 1:
            self.chgs.popleft()
        if dut.s_move_valid.value == 1:
            self.moves.popleft()
        if self.clearing and dut.s_clear_ready.value == 1:
            self.clearing.begin()
            self.clearing = None

    def _inputs(self):
        dut, rng = self.dut, self.rng
        for queue, name in ((self.moves, "s_move"), (self.chgs, "s_chg")):
            getattr(dut, name + "_valid").value = int(bool(queue))
            if queue:
                getattr(dut, name + "_qpn").value = queue[0]
        dut.s_rd_cpl_end.value = 0
        if self.out and rng.random() < self.responses:
            self.response = self.out.pop(rng.randrange(len(self.out)))
            ring, _, _, epoch = self.response
            dut.s_rd_cpl_end.value, dut.s_rd_cpl_qpn.value = 1, ring.qpn
            dut.s_rd_cpl_epoch.value = epoch
            dut.s_rd_cpl_failed.value = int(ring.qpn in self.fail)
            self.times["end"].append(cycle())
        self.shown = self.claim
        # The packet that may move a head is in one of three stages; the others are invalid.
        lane = rng.randrange(3)
        held = [rng.getrandbits(self.qpn_w) for _ in range(3)]
        valid = int(self.claim is not None) << lane
        if self.claim is not None:
            held[lane] = dut.failed_rd_addr.value = self.claim
        if self.lanes is not None:
            valid = sum(one << n for n, (one, _) in enumerate(self.lanes))
            held = [qpn for _, qpn in self.lanes]
        dut.s_held_valid.value = valid
        dut.s_held_qpn.value = sum(qpn << self.qpn_w * n for n, qpn in enumerate(held))
        self.ending = self.take is not None
        spare = self.wants[0] if self.wants and not self.ending else None
        used = self.claim if self.take else spare
        dut.s_used_valid.value = int(used is not None)
        if used is not None:
            dut.s_used_qpn.value = used
        dut.m_rd_ready.value = int(rng.random() < self.ready)
        dut.m_flush_ready.value = int(rng.random() < self.flush)
        dut.s_clear_valid.value = int(self.clearing is not None)
        if self.clearing:
            dut.s_clear_qpn.value = self.clearing.qpn
        dut.s_drain.value = self._drain

    def is_served(self, ring):
        """Returns whether no work is left for this ring."""
        if ring.failed or ring.state == STATES.RESET or not (ring.live and ring.rq_live):
            return True
        fetched = ring.requested == ring.prod or (
            ring.requested + ring.next_read() > ring.cons + self.slots)  # fmt: skip
        return fetched and not (ring.state == STATES.ERR and ring.entry())


@cocotb.test()
@cocotb.parametrize(pace=[(1.0, 1.0), (0.05, 0.3)])
async def descriptors_come_ahead_of_need(dut, pace):
    """queue.rq_fetch.ahead: Descriptors are prefetched for rings of any size, with completions in
    any order, at any rate of use."""
    env = Env(dut, *pace)
    await env.start()
    numbers = env.rng.sample(range(1 << env.qpn_w), 9)
    rings = [await env.ring(n, log)
             for n, log in zip(numbers, (0, 1, 3, 4, 5, 6, 9), strict=False)]  # fmt: skip
    await env.ring(numbers[7], 5, rq_live=0)
    await env.ring(numbers[8], 5, live=0)

    def step():
        ring = env.rng.choice(rings)
        if env.rng.random() < 0.1 and (space := ring.size - (ring.prod - ring.cons)):
            env.post(ring, *[1] * env.rng.randrange(1, space + 1))
        if env.claim is None:
            env.claim = ring.qpn
        elif env.take is None and env.rng.random() < 0.5:
            held = env.rings[env.claim]
            env.take = int(held.cons in held.fetched)

    await env.cycles(1800, step)
    for qpn in numbers[7:]:
        env.rings[qpn].descs[0], env.rings[qpn].prod = 1, 1
        env.moves.append(qpn)
    await env.rest(quiet=100)
    assert all(env.is_served(ring) for ring in env.rings.values())
    assert all(ring.prod > ring.size for ring in rings)
    assert sum(sum(ring.reads) for ring in rings) > 200


@cocotb.test()
async def a_ring_that_is_not_there_is_not_read(dut):
    """queue.rq_fetch.gone: A ring whose QP is destroyed, has no RQ or is in RESET is not read,
    whatever is posted."""
    env = Env(dut)
    await env.start()
    rings = [await env.ring(5, 4, live=0), await env.ring(9, 4, rq_live=0),
             await env.ring(10, 4, state=STATES.RESET)]  # fmt: skip
    for ring in rings:
        env.post(ring, 1, 1, 1)
    await env.cycles(60)
    assert not any(ring.requested for ring in rings) and not env.out


@cocotb.test()
async def reads_are_as_long_as_they_can_be(dut):
    """queue.rq_fetch.reads: A read is as long as possible: 8 descriptors, a 128-byte line, the end
    of the ring."""
    env = Env(dut, 1.0)
    await env.start()
    for qpn, log, number, wanted in (
        (2, 6, 32, [8, 8, 8, 8]),
        (2, 6, 33, [8, 8, 8, 8]),
        (1, 6, 31, [4, 8, 8, 8, 3]),
        (1, 3, 8, [4, 4]),
        (2, 2, 4, [4]),
        (2, 0, 1, [1]),
        (2, 12, 5, [5]),
    ):
        ring = await env.ring(qpn, log, STATES.INIT)
        env.post(ring, *[1] * number)
        await env.rest()
        assert ring.reads == wanted, (qpn, log, number, ring.reads)


@cocotb.test()
async def counts_go_through_their_wrap(dut):
    """queue.rq_fetch.wrap: Counts wrap at 65,536; after each read its descriptors are consumed and
    more are posted."""
    zero(dut, *INPUTS)
    await clock_and_reset(dut)
    await until(dut, high(dut.m_init_done))
    ring = Ring(6, 12)
    ring.state = STATES.RTS
    dut.qpc_rd_data.value = ring.context()
    dut.s_used_qpn.value = dut.s_clear_qpn.value = ring.qpn
    await hold(dut, "s_clear_valid", "s_clear_ready")
    dut.m_rd_ready.value = dut.s_used_valid.value = 1
    dut.prod_rd_data.value = prod = 64
    few = 0
    while ring.requested < 65536 + 64:
        try:
            await with_timeout(RisingEdge(dut.m_rd_valid), 100, "ns")
        except SimTimeoutError:
            raise AssertionError(f"no read after {ring.requested} descriptors") from None
        number = min(8 - ring.requested % 8, prod - ring.requested)
        assert dut.m_rd_count.value == ring.requested % 65536
        assert dut.m_rd_addr.value == ring.base + 16 * (ring.requested % ring.size)
        assert dut.m_rd_len.value == 16 * number
        ring.requested += number
        if ring.requested // 8 % 37 == 1:
            # Nothing is posted for a while, then a few descriptors.
            dut.cons_rd_data.value = dut.prod_rd_data.value = ring.requested % 65536
            for _ in range(3 * LOOK.interval):
                await RisingEdge(dut.clk)
            assert dut.m_rd_valid.value == 0, "a read without posts"
            few = 2
        prod = ring.requested + (3 if few else 64)
        few = max(0, few - 1)
        dut.cons_rd_data.value, dut.prod_rd_data.value = ring.requested % 65536, prod % 65536


@cocotb.test()
@cocotb.parametrize(flush=[1.0, 0.1])
async def a_dead_queue_is_flushed(dut, flush):
    """queue.rq_fetch.flush: A queue in ERR is flushed in order; an incomplete WQE stays until its
    rest is posted."""
    env = Env(dut, 0.3, flush=flush)
    await env.start()
    rings = [await env.ring(n, 5) for n in (1, 20, 63)]
    # The heads move beyond 256, by a number of wraps of the rings.
    for _ in range(env.rng.randrange(8, 16)):
        for ring in rings:
            env.post(ring, *[1] * 32)
        await env.rest(quiet=12)
        for ring in rings:
            ring.cons = ring.prod
            env.wants.append(ring.qpn)
    await env.rest(quiet=12)
    for ring in rings:
        env.post(ring, *[env.rng.getrandbits(1) for _ in range(20)], 1)
        env.post(ring, 0)
    await env.rest()
    assert not any(ring.flushed for ring in rings)
    # A packet holds the head of one ring; the packet consumes its WQE first.
    env.claim = 20
    await env.cycles(3)
    for ring in rings:
        env.state(ring, STATES.ERR)
    # Looks at other rings in the same cycles delay no flush for long.
    env.wants.extend((50, 51, 52))
    env.moves.extend((50, 51, 52))
    await env.cycles(400 if flush == 1 else 1500)
    held = rings[1]
    assert held.flushed == 0 and rings[0].flushed >= 21 and rings[2].flushed >= 21
    env.take = held.entry()
    await env.rest(quiet=300)
    assert held.flushed >= 19 and not any(ring.entry() for ring in rings)
    halves = [ring for ring in rings if ring.cons < ring.prod]
    assert halves, "no incomplete WQE"
    for ring in rings:
        env.post(ring, 0, 0, 0, 1)
    await env.rest(quiet=300)
    assert all(env.is_served(ring) for ring in rings)


@cocotb.test()
async def a_failed_read_breaks_its_ring(dut):
    """queue.rq_fetch.broken: After a failed read a ring is neither read nor flushed until it is
    cleared."""
    env = Env(dut, 0.2)
    await env.start()
    good, bad = await env.ring(7, 6), await env.ring(8, 6)
    env.claim = 8
    for _ in range(2):
        for ring in (good, bad):
            env.post(ring, *[1] * 24)
        await env.rest()
        env.fail.add(8)
    assert bad.failed
    env.take = 0
    await env.cycles(2)
    requested = bad.requested
    for ring in (good, bad):
        env.post(ring, 1, 1)
        env.state(ring, STATES.ERR)
    await env.rest()
    assert good.flushed == 50 and (bad.flushed, bad.requested) == (0, requested)
    env.fail.clear()
    await env.clear(bad, STATES.ERR)
    env.post(bad, 1, 1, 1)
    await env.rest()
    assert bad.flushed == 3


@cocotb.test()
async def every_ring_breaks_alone(dut):
    """queue.rq_fetch.each: Each ring fails and is cleared alone; `failed_rd_data` shows the state
    of each."""
    env = Env(dut, 1.0)
    await env.start()
    count = 1 << env.qpn_w
    order = env.rng.sample(range(count), count)
    rings = [await env.ring(qpn, 3) for qpn in order]

    async def look():
        for env.claim in range(count):
            await env.cycles(2)
        env.claim = None

    for group in (rings[: count // 2], rings[count // 2 :], rings):
        env.fail = {ring.qpn for ring in group}
        for ring in group:
            if not ring.failed:
                env.post(ring, 1)
        await env.rest()
        assert all(ring.failed for ring in group)
        await look()
        for ring in group[1::2] if group is not rings else rings:
            env.claim = ring.qpn
            await env.clear(ring, STATES.RTS)
        await look()
    env.fail = set()
    for ring in rings:
        env.post(ring, 1)
    await env.rest()
    assert all(ring.requested == 1 for ring in rings)
    # A reset clears the state of each ring.
    env.fail = set(range(count))
    for ring in rings:
        env.post(ring, 1)
    await env.rest()
    assert all(ring.failed for ring in rings)
    zero(dut, *INPUTS)
    await reset(dut)
    await until(dut, high(dut.m_init_done))
    for ring in rings:
        ring.begin()
    await look()


@cocotb.test()
async def a_read_that_fails_during_a_visit(dut):
    """queue.rq_fetch.fails: A read that fails in any cycle of a visit of its ring stops the visit
    from the next lookup on; the visit of another ring reads."""
    env = Env(dut, 0.0)
    await env.start()
    for gap, own in itertools.product(range(6), (0, 1)):
        bad, good = [await env.ring(qpn, 4) for qpn in env.rng.sample(range(1 << env.qpn_w), 2)]
        env.fail = {bad.qpn}
        env.post(bad, 1)
        await env.cycles(12)
        env.post(bad if own else good, *[1] * 8)
        await env.cycles(gap)
        env.responses = 1.0
        await env.cycles(1)
        env.responses = 0.0
        await env.cycles(12)
        assert bad.failed and good.requested == good.prod, (gap, own)
        env.responses = 1.0
        await env.rest()
        env.responses = 0.0


@cocotb.test()
async def a_head_that_a_packet_holds_stays(dut):
    """queue.rq_fetch.held: A head that a packet holds in any of three stages is not flushed;
    packets of other queues block nothing."""
    env = Env(dut, 1.0)
    await env.start()
    last = (1 << env.qpn_w) - 1
    for ring in (await env.ring(0, 5), await env.ring(last, 5)):
        for lane, bit in itertools.product(range(3), range(env.qpn_w)):
            ring.state = STATES.RTS
            env.post(ring, 1)
            await env.rest(quiet=12)
            before = ring.flushed
            env.lanes = [(int(n == lane), ring.qpn if n == lane else last - ring.qpn)
                           for n in range(3)]  # fmt: skip
            env.state(ring, STATES.ERR)
            await env.cycles(4 * FLUSH.interval)
            assert ring.flushed == before
            other = ring.qpn ^ 1 << bit
            env.lanes = [(int(n == lane), other if n == lane else ring.qpn) for n in range(3)]
            await env.cycles(2 * FLUSH.interval + 6)
            assert ring.flushed == before + 1


@cocotb.test()
async def a_flush_goes_on_while_reads_end(dut):
    """queue.rq_fetch.ends: A read completion in every cycle does not delay a flush."""
    env = Env(dut, 1.0)
    await env.start()
    # The second time the reads have the epoch after a drain.
    for qpn in (33, 34):
        dead = await env.ring(qpn, 5)
        env.post(dead, *[1] * 32)
        await env.rest()
        env.responses = 0.0
        for ring in [await env.ring(n, 6) for n in range(9)]:
            for _ in range(32):
                env.post(ring, 1)
                await env.cycles(READ.latency + 2)
        assert len(env.out) > 256
        env.state(dead, STATES.ERR)
        env.responses = 1.0
        await env.rest(quiet=100)
        assert dead.flushed == 32
        env.drain(True)
        await env.cycles(5)
        assert env.drained
        env.drain(False)


@cocotb.test()
async def a_drain_waits_for_what_was_out(dut):
    """queue.rq_fetch.drain: A drain waits for the reads outstanding at its start only, while other
    rings continue to read."""
    env = Env(dut, 0.0)
    await env.start()
    rings = [await env.ring(n, 5) for n in (10, 12, 14, 16)]
    for wrap in range(6):
        for ring in rings[:2]:
            env.post(ring, *[1] * 8)
        await env.cycles(60)
        assert len(env.out) == 2
        old = list(env.out)
        env.drain(True)
        await env.cycles(20)
        assert not env.drained
        for ring in rings[2:]:
            env.post(ring, *[1] * 8)
        await env.cycles(40)
        assert len(env.out) == 4 and not env.drained
        new = [read for read in env.out if read not in old]
        # The old reads complete one by one; the drain ends while new reads are outstanding.
        for number, read in enumerate(old):
            env.out, env.responses = [read], 1.0
            await env.cycles(1)
            env.out, env.responses = old[number + 1 :] + new, 0.0
            await env.cycles(3)
            assert env.drained == (number == 1)
        await env.cycles(wrap)
        assert env.drained
        env.drain(False)
        await env.cycles(1 + wrap % 2)
        env.drain(wrap % 3 == 0)
        await env.cycles(8)
        assert not env.drained
        env.responses = 0.5
        await env.rest()
        assert env.drained == (wrap % 3 == 0)
        env.drain(False)
        env.responses = 0.0
        for ring in rings:
            while ring.cons in ring.fetched:
                ring.cons += 1
            env.wants.append(ring.qpn)
        await env.cycles(40)


@cocotb.test()
async def any_number_of_reads_is_drained(dut):
    """queue.rq_fetch.drains: Any number of reads drains while others begin and end in the same
    cycles."""
    env = Env(dut, 0.0)
    await env.start()
    rng = env.rng
    rings = [await env.ring(qpn, 3) for qpn in rng.sample(range(1 << env.qpn_w), 16)]

    def step():
        ring = rng.choice(rings)
        while ring.cons in ring.fetched:
            ring.cons += 1
        if rng.random() < 0.7 and (space := ring.size - (ring.prod - ring.cons)):
            env.post(ring, *[1] * rng.randrange(1, space + 1))
        env.wants.append(ring.qpn)

    for _ in range(25):
        env.responses = 0.0
        await env.cycles(rng.randrange(60), step)
        env.drain(True)
        env.responses = rng.choice((0.3, 1.0))
        for _ in range(400):
            if env.drained:
                break
            await env.cycles(1, step)
        assert env.drained
        env.drain(False)
        await env.cycles(rng.randrange(2, 9), step)
        # Without outstanding reads the drain ends at once.
        env.responses = 1.0
        await env.rest(quiet=10)
        env.drain(True)
        await env.cycles(LOOK.interval * len(rings) + 8)
        assert env.drained
        env.drain(False)
    # Each of the three sets may hold all rings, most of them for a visit without a read.
    await env.rest(quiet=3 * LOOK.interval * len(rings) + 30)
    assert all(ring.requested == ring.prod for ring in rings)


@cocotb.test()
async def heads_that_move_at_once_are_all_looked_at(dut):
    """queue.rq_fetch.moves: Heads that move in neighbouring cycles each cause a look at their ring,
    while other looks run."""
    env = Env(dut, 1.0)
    await env.start()
    rings = [await env.ring(qpn, 6) for qpn in env.rng.sample(range(1 << env.qpn_w), 12)]
    for ring in rings:
        env.post(ring, *[1] * 64)
    for _ in range(4):
        await env.rest()
        for ring in env.rng.sample(rings, len(rings)):
            ring.cons += env.slots // 2
            env.wants.append(ring.qpn)
        await env.rest()
        assert all(env.is_served(ring) for ring in rings)


@cocotb.test()
async def a_drain_that_was_given_up_is_not_cancelled(dut):
    """queue.rq_fetch.drain_again: A drain after an aborted one waits for the reads outstanding at
    both."""
    env = Env(dut, 0.0)
    await env.start()
    for ring in [await env.ring(n, 3) for n in (2, 4, 6)]:
        env.post(ring, *[1] * 8)
        await env.cycles(20)
        env.drain(True)
        await env.cycles(5)
        env.drain(False)
        await env.cycles(1)
    env.drain(True)
    reads = env.out
    assert len(reads) == 3
    for order in (1, 2, 0):
        await env.cycles(10)
        assert not env.drained
        env.out, env.responses = [reads[order]], 1.0
        await env.cycles(1)
        reads = [read for read in reads if read is not env.response]
        env.out, env.responses = [read for read in reads if read], 0.0
        reads.insert(order, None)
    await env.cycles(10)
    assert env.drained


@cocotb.test()
async def flushes_do_not_keep_a_doorbell_waiting(dut):
    """queue.rq_fetch.fair: Flushes do not starve doorbells, nor doorbells a flush."""
    env = Env(dut, 1.0)
    await env.start()
    dead = [await env.ring(n, 5) for n in (1, 2, 3, 4)]
    busy = [await env.ring(n, 2) for n in (30, 31, 32, 33)]
    for ring in dead:
        env.post(ring, *[1] * 32)
    await env.rest()
    for ring in dead:
        env.state(ring, STATES.ERR)
    await env.cycles(30)
    for ring in busy:
        env.post(ring, 1)
    await env.cycles(80)
    assert all(ring.requested == 1 for ring in busy)
    assert all(ring.flushed < 32 for ring in dead)
    while any(ring.flushed < 20 for ring in dead):
        before = [ring.flushed for ring in dead]
        env.wants.extend(ring.qpn for ring in busy * 40)
        await env.cycles(160)
        assert all(ring.flushed > was for ring, was in zip(dead, before, strict=True))


@cocotb.test()
async def rings_are_created_and_destroyed(dut):
    """queue.rq_fetch.lifetime: Random posts, claims, errors, drains and restarts of many rings
    leave no work undone."""
    env = Env(dut, 0.2, 0.7, 0.5)
    await env.start()
    rng, rings = env.rng, [await env.ring(n * 7 % 64, n % 7) for n in range(12)]
    counts = dict.fromkeys(("claims", "flushed", "restarts"), 0)
    ending = None

    def step():
        nonlocal ending
        ring = rng.choice(rings)
        if ring.state != STATES.RESET:
            space = ring.size - (ring.prod - ring.cons)
            if space and rng.random() < 0.15:
                env.post(ring, *[rng.getrandbits(1) for _ in range(rng.randrange(space) + 1)])
            if rng.random() < 0.01:
                env.state(ring, STATES.ERR)
        if env.claim is None and ring.state == STATES.RTS:
            env.claim = ring.qpn
        elif env.claim is not None and env.take is None and rng.random() < 0.3:
            held, used = env.rings[env.claim], env.rings[env.claim].entry()
            there = used and all(held.cons + n in held.fetched for n in range(used))
            if held.state == STATES.RESET:
                env.take = 0
            else:
                env.take = used if there and rng.random() < 0.9 else 0
                counts["claims"] += bool(env.take)
        if ending is None and rng.random() < 0.05 and ring.state != STATES.RESET:
            ending = ring
            counts["flushed"] += ring.flushed
            env.state(ring, STATES.RESET)
            env.drain(True)
        elif ending and env.drained and not env.clearing and env.claim != ending.qpn:
            assert all(read[0] is not ending for read in env.out)
            env.drain(False)
            env.clearing = ending
        elif ending and not env._drain and not env.clearing:
            ending.state, ending = STATES.RTS, None
            counts["restarts"] += 1

    await env.cycles(3000, step)
    if env.claim is not None:
        env.take = 0
    env.drain(False)
    env.responses = env.flush = 1.0
    # Every ring may be queued for a look that finds nothing.
    await env.rest(quiet=12 * LOOK.interval + 30 * FLUSH.interval)
    assert all(env.is_served(ring) for ring in rings)
    assert min(counts.values()) > 3, counts


@cocotb.test()
async def a_head_that_moves_during_a_look_is_read_again(dut):
    """queue.rq_fetch.stale: A claim that ends in any cycle of a look makes the look stale; no WQE
    is consumed twice."""
    await Env(dut).start()
    states = (STATES.RTS, STATES.ERR)
    for wait, state, anomaly in itertools.product(range(14), states, (0, 1)):
        env = Env(dut, 1.0)
        zero(dut, *INPUTS)
        await reset(dut)
        await until(dut, high(dut.m_init_done))
        ring = await env.ring(env.rng.randrange(1 << env.qpn_w) & ~1 | anomaly, 4)
        env.post(ring, 0, 1, 1, 0, 1)
        await env.rest()
        env.claim = ring.qpn
        await env.cycles(4)
        env.state(ring, state)
        await env.cycles(wait)
        env.take = 2
        await env.cycles(1)
        await env.rest()
        assert ring.cons == (2 if state == STATES.RTS else 5)


@cocotb.test()
async def looks_reads_and_flushes_take_their_time(dut):
    """queue.rq_fetch.cycles: Looks, reads and flushes meet their specified cycles."""
    env = Env(dut, 1.0)
    await env.start()
    ring = await env.ring(40, 6)
    env.post(ring, *[1] * 32)
    await env.rest()
    assert {b - a for a, b in itertools.pairwise(env.times["read"])} == {READ.interval}
    # The cache is full; the eighth consumed descriptor frees the space for another read.
    env.post(ring, *[1] * 8)
    await env.rest()
    for _ in range(8):
        env.claim = ring.qpn
        await env.cycles(4)
        env.take = 1
        await env.cycles(10)
    assert env.times["read"][-1] - env.times["used"][-1] == USED.latency + READ.latency
    await env.rest()
    env.times["read"].clear()
    env.state(ring, STATES.ERR)
    await env.rest()
    assert {b - a for a, b in itertools.pairwise(env.times["flush"])} == {FLUSH.interval}
    # From a doorbell to its read.
    ring.state = STATES.RTS
    env.post(ring, 1)
    started = cycle() + 2
    env.responses = 0.0
    await env.cycles(20)
    assert env.times["read"][0] - started == READ.latency
    # Looks that find nothing, back to back; the last one finds a read.
    states = (STATES.ERR, STATES.RTS)
    others = [await env.ring(n, 3, states[n % 2]) for n in range(8)]
    await env.cycles(2)
    env.times["read"].clear()
    env.moves.extend(one.qpn for one in others[:-1])
    env.post(others[-1], 1)
    started = cycle() + 2
    await env.cycles(8 * LOOK.interval + 20)
    assert env.times["read"] == [started + READ.latency + 7 * LOOK.interval]


@cocotb.test()
async def reset_clears_looks_reads_and_drains(dut):
    """queue.rq_fetch.reset: A reset at any moment clears looks, reads and drains."""
    for wait in (1, 5, 8, 30):
        env = Env(dut, 0.05, 0.5, 0.2)
        zero(dut, *INPUTS)
        if wait == 1:
            await env.start()
        for ring in [await env.ring(n, 4) for n in (1, 2, 3)]:
            env.post(ring, *[1] * 16)
            env.state(ring, STATES.ERR)
        env.fail.add(2)
        env.drain(wait % 2)
        await env.cycles(wait + 40)
        zero(dut, *INPUTS)
        await reset(dut)
        for name in ("m_rd_valid", "m_flush_valid", "m_take_valid", "m_idle", "m_drained"):
            assert getattr(dut, name).value == 0
        await until(dut, high(dut.m_init_done))
        env = Env(dut, 0.0)
        await env.cycles(30)
        assert not env.times["read"]
        env.drain(True)
        await env.cycles(5)
        assert env.drained, "no read is outstanding"
        env.drain(False)
        env.responses = 0.3
        for qpn in (1, 2, 3):
            env.post(await env.ring(qpn, 4, STATES.ERR), *[1] * 16)
        await env.rest()
        assert all(ring.flushed == 16 for ring in env.rings.values())
