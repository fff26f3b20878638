# SPDX-License-Identifier: Apache-2.0
"""Tests efa_tx_rnr: contexts after RNR are posted again when their back-off ends, or end with their
session."""

from collections import defaultdict, deque
from dataclasses import dataclass, field

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge, Timer

from efa_cosim.layouts.defs import INTERNAL, TRANSPORT, IoCompStatus, PacketKind
from tb.lib.dont_care import dont_care
from tb.lib.stream import (
    StreamDriver,
    StreamMonitor,
    clock_and_reset,
    cycle,
    periodic,
    reset,
    rng_for,
)
from tb.lib.timing import timing
from tb.lib.waits import drive, high, rises, ticks, until, zero

RNR = IoCompStatus.REMOTE_ERROR_RNR
NO_END = 7  # of rnr_retry
TICK_CYCLES = 3
KINDS = list(PacketKind)
POST, NOTE = INTERNAL.srd_post, INTERNAL.srd_note
SEEN = 4  # cycles after which an event at an input has its effect on a valid that is not up
# Of a context: posted and not popped, its packet is in flight, after RNR, posted again.
POSTED, FLYING, WAITING, AGAIN = "posted", "flying", "waiting", "again"


@dataclass
class Context:
    """A message context with its part of the reference: where it is, and since when."""

    id: int
    node: int
    limit: int
    state: str = POSTED
    retries: int = 0
    used: bool = True
    noted: bool = False  # an outcome of its packet is on its way
    ended: bool = False  # by an outcome
    unused_at: int = -99
    popped_at: int = -99
    left_at: int = 0  # was posted again
    earliest: int = 0  # of the next post
    latest: int = 0
    posts: list = field(default_factory=list)  # cycles of valid of its posts after RNR


@dataclass
class Waits:
    """A context in the list of its back-off time; `sure` unless it ended as it entered."""

    context: Context
    index: int
    sure: bool


class Bench:
    """Owns the modules around efa_tx_rnr: allocates contexts, sends packets, ends messages.

    Checks each cycle: what leaves, when it leaves, and which contexts are held.
    """

    def __init__(self, dut, name, gaps=0.0, post=0.0, note=0.0, pop=(1, 30), end=(1, 20)):
        self.dut, self.rng = dut, rng_for(name)
        self.width = int(dut.CTX_W.value)
        self.count, self.nodes = 1 << self.width, 1 << int(dut.NODE_W.value)
        self.tick, self.first = TICK_CYCLES, int(dut.RNR_TICKS.value)
        # Reading many bits takes long: those of many contexts are not checked in each cycle.
        self.held_each = 1 if self.count < 99 else 16
        self.most = timing("efa_tx_rnr", "again").latency + self.held_each - 1
        self.pop, self.end_after = pop, end
        self.past = defaultdict(list)  # ids of a context number
        zero(dut, "s_ctx_used", "s_popped_valid", "s_popped_index")
        self.posts = StreamDriver(dut, "s_post", gaps, ["data"])
        self.notes = StreamDriver(dut, "s_note", gaps, ["data"])
        self.m_post = StreamMonitor(dut, "m_post", post, ["data"])
        self.m_note = StreamMonitor(dut, "m_note", note, ["data"])
        self.gap = timing("efa_tx_rnr", "again").interval
        self.last_again = -self.gap
        self.gaps = set()
        self.again = self.outcomes = self.ended = 0
        self.forget()

    async def start(self):
        cocotb.start_soon(ticks(self.dut, self.tick))
        await clock_and_reset(self.dut)
        await until(self.dut, high(self.dut.m_init_done))
        cocotb.start_soon(self._watch())

    def forget(self):
        """Forgets all contexts, for a reset."""
        for driver in (self.posts, self.notes):
            driver.clear()
        self.live, self.free = {}, set(range(self.count))
        self.lists = defaultdict(deque)
        self.list_since = defaultdict(int)
        self.used_bits = self.held_bits = 0
        self.pops, self.ends = {}, {}  # context number: cycle
        self.stalled_at = 0
        self.rises = {"m_post": None, "m_note": None, "s_note": None}
        self.session = None  # contexts that the present end of a session may end
        self.dut.s_ctx_used.value = 0
        self.dut.s_popped_valid.value = 0

    # Stimulus.

    def new(self, index=None, node=None, limit=None):
        """Posts a new context; returns it, or None if all are in use."""
        rng = self.rng
        if index is None:
            if not self.free:
                return None
            index = rng.choice(sorted(self.free)) if self.count < 99 else min(self.free)
        self.free.remove(index)
        while True:
            generation = rng.choice((rng.getrandbits(32), rng.getrandbits(3)))
            new_id = (generation << self.width | index) & 0xFFFFFFFF
            if new_id not in self.past[index]:
                break
        self.past[index].append(new_id)
        context = Context(
            new_id, rng.randrange(self.nodes) if node is None else node,
            rng.randrange(8) if limit is None else limit,
        )  # fmt: skip
        self.live[index] = context
        fields = dont_care(POST, rng, again=0, rnr_retry=context.limit, node=context.node,
                           id=new_id)  # fmt: skip
        self.posts.post({"data": POST.pack(**fields)})
        return context

    def note(self, context, status, kind=PacketKind.ALONE, **fields):
        """Gives the outcome of a packet in flight."""
        assert context.state == FLYING and not context.noted
        context.noted = True
        self._note(ended=0, node=context.node, id=context.id, status=status, kind=kind, **fields)

    def stale(self, index, status=RNR):
        """Gives an outcome of a past context of this number."""
        other = [one for one in self.past[index]
                 if index not in self.live or one != self.live[index].id]  # fmt: skip
        high_bits = self.rng.getrandbits(32 - self.width)
        if index in self.live:
            high_bits = (self.live[index].id >> self.width) ^ self.rng.choice((1, high_bits | 1))
        past = self.rng.choice(other or [high_bits << self.width | index])
        self._note(ended=0, node=self.rng.randrange(self.nodes), id=past, status=status,
                   kind=self.rng.choice(KINDS))  # fmt: skip

    def end(self, node, status):
        """Ends the session with a node."""
        self._note(ended=1, node=node, id=0, status=status, kind=self.rng.choice(KINDS))

    def _note(self, **fields):
        self.notes.post({"data": NOTE.pack(**fields)})

    def unuse(self, index):
        """Ends a send: its context number is free when it is not held."""
        context = self.live[index]
        if context.used:
            context.used, context.unused_at = False, cycle()
            self.used_bits &= ~(1 << index)
            self.dut.s_ctx_used.value = self.used_bits

    def contexts(self, *states):
        """Returns the contexts in these states by number; those in flight have no outcome yet."""
        return {
            index: one
            for index, one in self.live.items()
            if one.used and not one.ended and one.state in states and not one.noted
        }

    # Reference.

    async def _watch(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value == 1 or dut.m_init_done.value != 1:
                continue
            now = cycle()
            at = {}
            for prefix in ("s_post", "m_post", "s_note", "m_note"):
                valid = getattr(dut, f"{prefix}_valid").value
                at[prefix] = None
                if valid == 1:
                    data = int(getattr(dut, f"{prefix}_data").value)
                    at[prefix] = (data, getattr(dut, f"{prefix}_ready").value == 1)
                if prefix in self.rises:
                    if valid == 1 and self.rises[prefix] is None:
                        self.rises[prefix] = now
                    elif valid == 0:
                        self.rises[prefix] = None
            if now % self.held_each == 0:
                self._held(now)
            self._pops(now)
            if at["m_post"] and not at["m_post"][1]:
                self.stalled_at = now
            self._posts(now, at["s_post"], at["m_post"])
            self._notes(now, at["s_note"], at["m_note"])
            self._deadlines(now)
            for prefix in self.rises:
                if at[prefix] and at[prefix][1]:
                    self.rises[prefix] = None
            self._next(now)

    def _held(self, now):
        value = self.dut.m_ctx_held.value
        assert value.is_resolvable, "m_ctx_held is unknown"
        held = self.held_bits = int(value)
        must = may = 0
        for index, one in self.live.items():
            if one.state == AGAIN or (one.state == WAITING and one.used):
                must |= 1 << index
            if one.state in (AGAIN, WAITING) or now - one.popped_at < 2:
                may |= 1 << index
        missing, strange = must & ~held, held & ~may
        assert not missing, f"not held: {missing:x}, {self.live[missing.bit_length() - 1]}"
        assert not strange, f"held: {strange:x}, {self.live.get(strange.bit_length() - 1)}"
        # Contexts that have ended leave their list unseen.
        for level, waiting in self.lists.items():
            gone = [one for one in waiting if not held >> one.index & 1]
            for one in gone:
                assert not one.context.used
                self._leaves(level, one, now)
                one.context.state = FLYING

    def _leaves(self, level, waits, now):
        self.lists[level].remove(waits)
        self.list_since[level] = now

    def _pops(self, now):
        if self.dut.s_popped_valid.value == 1:
            one = self.live[int(self.dut.s_popped_index.value)]
            one.state, one.popped_at = FLYING, now

    def _posts(self, now, s_post, m_post):
        taken = s_post[0] if s_post and s_post[1] else None
        left = m_post[0] if m_post and m_post[1] else None
        if m_post and POST.unpack(m_post[0]).again:
            assert taken is None, "a new context is taken, but another one leaves"
            self._again(now, POST.unpack(m_post[0]), left is not None)
            return
        assert taken == left, f"new post {taken} taken, {left} left"
        if taken is not None:
            index = POST.unpack(taken).id % self.count
            assert self.live[index].id == POST.unpack(taken).id
            self.used_bits |= 1 << index
            self.dut.s_ctx_used.value = self.used_bits
            self.pops[index] = now + self.rng.randint(*self.pop)

    def _again(self, now, post, leaves):
        begin = self.rises["m_post"]
        one = self.live.get(post.id % self.count)
        assert one is not None and one.id == post.id, f"{post} has no context"
        assert one.state == WAITING, f"{post}: {one} does not wait"
        assert one.node == post.node, f"{post}: {one}"
        assert not post.part and not post.last, f"{post} is no new message"
        assert one.used or begin - one.unused_at <= SEEN, f"{post}: {one} has ended"
        assert begin >= one.earliest, f"{one} is posted again {one.earliest - begin} cycles early"
        if leaves:
            self.gaps.add(begin - self.last_again)
            assert begin - self.last_again >= self.gap, f"{begin - self.last_again} cycles apart"
            self.last_again = now
            index = post.id % self.count
            level = self._level(one)
            self._leaves(level, next(x for x in self.lists[level] if x.index == index), now)
            one.state, one.left_at = AGAIN, now
            one.posts.append(begin)
            self.pops[index] = now + self.rng.randint(*self.pop)
            self.again += 1

    def _level(self, one):
        return min(one.retries - 1, TRANSPORT.rnr_backoff_max)

    def _notes(self, now, s_note, m_note):
        if s_note is None:
            assert m_note is None, "an outcome without a cause"
            return
        note, taken = NOTE.unpack(s_note[0]), s_note[1]
        left = m_note[0] if m_note and m_note[1] else None
        if note.ended:
            self._session(now, note, taken, m_note, left)
            return
        if left is not None or taken:
            one = self.live.get(note.id % self.count)
            own = one is not None and one.id == note.id
            if left is not None:
                assert taken and left == s_note[0], "an outcome leaves that is not at the input"
            if note.status != RNR or note.kind != PacketKind.ALONE:
                assert left is not None, f"{note} was lost"
            elif own:
                self._refused(now, one, left is not None)
            # A past outcome may pass: it meets no context.
            if left is not None and own:
                self._outcome(now, one)

    def _outcome(self, now, one):
        self.outcomes += 1
        one.ended = True
        # An outcome that waits may leave when its context number is already used again.
        if one.used:
            self.ends.setdefault(one.id % self.count, now + self.rng.randint(*self.end_after))

    def _refused(self, now, one, passes):
        begin = self.rises["s_note"]
        more = one.limit == NO_END or one.retries < one.limit
        if passes:
            assert not more or one.unused_at >= begin - 1 or not one.used, f"{one} has retries left"
            return
        assert more or not one.used, f"{one} has no retries left"
        if not one.used and one.unused_at < begin - 1:
            return
        assert one.state == FLYING
        one.retries += 1
        ticks = self.first << self._level(one)
        one.earliest, one.latest = begin + (ticks - 1) * self.tick, now + ticks * self.tick + 1
        one.state, one.noted = WAITING, False
        self.lists[self._level(one)].append(Waits(one, one.id % self.count, one.used))

    def _session(self, now, note, taken, m_note, left):
        if self.session is None:
            self.session = {one.id: one for one in self.live.values()
                            if one.node == note.node and one.state in (WAITING, AGAIN)}  # fmt: skip
            self.session_from = now
        if m_note:
            found, begin = NOTE.unpack(m_note[0]), self.rises["m_note"]
            assert not found.ended and not found.gone and not found.own, (
                f"{found} is no outcome of a context")  # fmt: skip
            one = self.session.get(found.id)
            assert one is not None, f"{found} does not wait, or has ended before: {note}"
            assert (found.node, found.status) == (note.node, note.status), f"{found}: {note}"
            assert one.used or begin - one.unused_at <= SEEN, f"{found} had ended: {one}"
            flies = one.used and one.state == FLYING
            assert not flies or begin - one.popped_at <= SEEN, f"{found} is in flight: {one}"
            if left is not None:
                self.session.pop(found.id)
                self.ended += 1
                self._outcome(now, one)
        if taken:
            kept = [one for one in self.session.values()
                    if one.used and one.state in (WAITING, AGAIN)]  # fmt: skip
            assert not kept, f"the end of the session did not end {kept}"
            self.session = None

    def _deadlines(self, now):
        for level, waiting in self.lists.items():
            if waiting:
                one = waiting[0].context
                since = max(one.latest, self.list_since[level], self.stalled_at)
                at_output = self.dut.m_post_valid.value == 1
                assert at_output or now - since <= self.most, (
                    f"{one} was due {now - one.latest} cycles ago"
                )

    def _next(self, now):
        """Drives what the modules around do by themselves."""
        self.dut.s_popped_valid.value = 0
        for index, when in self.pops.items():
            if now >= when:
                del self.pops[index]
                drive(self.dut, s_popped_valid=1, s_popped_index=index)
                break
        for index in [index for index, when in self.ends.items() if now >= when]:
            del self.ends[index]
            self.unuse(index)
        for index in [
            index for index, one in self.live.items()
            if not one.used and one.state == FLYING and index not in self.ends
            and not self.held_bits >> index & 1 and now - one.popped_at > 1
        ]:  # fmt: skip
            del self.live[index]
            self.free.add(index)

    # Waits of tests.

    async def flying(self, *contexts):
        """Waits until the packets of contexts are in flight."""
        await until(self.dut, lambda: all(one.state == FLYING for one in contexts), "in flight")

    async def noted(self):
        """Waits until the outcomes have been taken."""
        await until(self.dut, lambda: not self.notes.waiting, "outcomes taken", 50000)
        await RisingEdge(self.dut.clk)

    async def settle(self):
        """Gives each packet an outcome until all contexts are free."""
        longest = self.first * self.tick << TRANSPORT.rnr_backoff_max
        for _ in range(longest + 40 * self.count + 2000):
            if len(self.free) == self.count:
                break
            if len(self.notes.waiting) < 2:
                for one in self.contexts(FLYING).values():
                    self.note(one, IoCompStatus.OK)
            await RisingEdge(self.dut.clk)
        assert not self.live, f"not free: {list(self.live.values())[:3]}"
        await ClockCycles(self.dut.clk, 20)


@cocotb.test()
async def same_cycle(dut):
    """transport.tx_rnr.time: New contexts and outcomes pass in the same cycle. An RNR takes two
    cycles more, the end of a session one cycle for each context, and the first initialisation the
    specified cycles."""
    zero(dut, "s_post_valid", "s_post_data", "s_note_valid", "s_note_data", "s_ctx_used",
         "s_popped_valid", "s_popped_index", "m_post_ready", "m_note_ready")  # fmt: skip
    await clock_and_reset(dut)
    await rises(dut, dut.m_init_done, timing("efa_tx_rnr", "init").latency)
    for path, prefix, layout, fields in (
        ("post", "post", POST, {"again": 0}),
        ("note", "note", NOTE, {"ended": 0, "status": IoCompStatus.OK}),
    ):
        assert timing("efa_tx_rnr", path)[:2] == (0, 1)
        for _ in range(20):
            rng = rng_for(f"time {prefix} {cycle()}")
            node = rng.randrange(1 << int(dut.NODE_W.value))
            data = layout.pack(**dont_care(layout, rng, node=node, **fields))
            await RisingEdge(dut.clk)
            await Timer(1, "ns")
            drive(dut, **{f"s_{prefix}_valid": 1, f"s_{prefix}_data": data, f"m_{prefix}_ready": 0})
            await Timer(100, "ps")
            assert getattr(dut, f"m_{prefix}_valid").value == 1
            assert getattr(dut, f"m_{prefix}_data").value == data
            assert getattr(dut, f"s_{prefix}_ready").value == 0
            drive(dut, **{f"m_{prefix}_ready": 1})
            await Timer(100, "ps")
            assert getattr(dut, f"s_{prefix}_ready").value == 1
        await RisingEdge(dut.clk)
        zero(dut, f"s_{prefix}_valid")


@cocotb.test()
async def cycles_of_notes(dut):
    """transport.tx_rnr.cycles: An RNR is taken after the specified cycles, also one that passes.
    The end of a session takes the specified cycles, and one more for each context that it ends."""
    bench = Bench(dut, "cycles", pop=(1, 1))
    await bench.start()

    async def taken():
        begin = await until(dut, high(dut.s_note_valid))
        begin = cycle()
        await until(dut, high(dut.s_note_valid, dut.s_note_ready))
        return cycle() - begin

    for limit in (NO_END, 0):
        one = bench.new(limit=limit)
        await bench.flying(one)
        for _ in range(3):
            await RisingEdge(dut.clk)
        bench.note(one, RNR)
        assert await taken() == timing("efa_tx_rnr", "rnr").latency
        await bench.noted()
    await bench.settle()
    # The specified cycles are those of 2,048 contexts.
    scan = timing("efa_tx_rnr", "end").latency - 2048 + bench.count
    for node in (0, bench.nodes - 1):
        bench.end(node, RNR)
        assert await taken() == scan
        await bench.noted()


@cocotb.test()
async def each_limit(dut):
    """transport.tx_rnr.limits: Contexts with each rnr_retry are posted again to their limit and not
    beyond, each time after twice the back-off, up to the longest one; 7 has no limit."""
    bench = Bench(dut, "limits", pop=(1, 3))
    await bench.start()
    counts = {}
    contexts = [bench.new(limit=limit) for limit in range(8)]
    await bench.flying(*contexts)
    while True:
        flying = bench.contexts(FLYING).values()
        for one in list(flying):
            if one.limit == NO_END and len(one.posts) == 11:
                bench.note(one, IoCompStatus.OK)
            else:
                bench.note(one, RNR)
        for one in contexts:
            if one.ended:
                counts[one.limit] = len(one.posts)
        if len(counts) == 8:
            break
        await RisingEdge(dut.clk)
    assert counts == {limit: limit if limit < NO_END else 11 for limit in range(8)}
    await bench.settle()


@cocotb.test()
async def packets_that_are_not_alone(dut):
    """transport.tx_rnr.alone: An RNR of a packet that is not alone is an outcome, as is any other
    status; so are packets that were not sent. None changes the retries of its context."""
    bench = Bench(dut, "alone", pop=(1, 3))
    await bench.start()
    for limit in (0, 1, 6, NO_END):
        for retries in range(min(limit, 2) + 1):
            one = bench.new(limit=limit)
            for _ in range(retries):
                await bench.flying(one)
                bench.note(one, RNR)
                await bench.noted()
                assert one.state == WAITING
                await until(dut, lambda one=one: one.state == AGAIN, "again")
            await bench.flying(one)
            before = bench.outcomes
            bench.note(one, RNR, bench.rng.choice((PacketKind.PART, PacketKind.RESPONSE)))
            await bench.noted()
            assert (bench.outcomes - before, one.ended) == (1, True)
        one = bench.new(limit=limit)
        await bench.flying(one)
        before = bench.outcomes
        bench.note(one, IoCompStatus.OK, bench.rng.choice(KINDS), gone=1)
        await bench.noted()
        assert bench.outcomes - before == 1
    await bench.settle()


@cocotb.test()
async def all_are_due_at_once(dut):
    """transport.tx_rnr.burst: All contexts wait and are due at once while the output stalls; they
    leave once each, those of the same back-off in the order of their outcomes."""
    held = {"post": False}
    bench = Bench(dut, "burst", post=lambda: held["post"], pop=(1, 3))
    await bench.start()
    count = min(bench.count, 64)
    contexts = [bench.new(limit=NO_END) for _ in range(count)]
    await until(dut, lambda: not bench.posts.waiting and not bench.pops, "popped")
    for retries in range(2):
        await bench.flying(*contexts)
        bench.rng.shuffle(contexts)
        held["post"] = True
        for one in contexts:
            bench.note(one, RNR)
        await bench.noted()
        await ClockCycles(dut.clk, (bench.first << retries) * bench.tick + 60)
        assert bench.again == retries * count and dut.m_post_valid.value == 1
        held["post"] = False
        await until(dut, lambda again=retries + 1: bench.again == again * count, "all again")
        order = sorted(contexts, key=lambda one: one.left_at)
        assert order == contexts, "one has overtaken another"
        assert bench.gap in bench.gaps
    await bench.settle()


@cocotb.test()
@cocotb.parametrize(status=[RNR, IoCompStatus.REMOTE_ERROR_ABORT, IoCompStatus.OK])
async def ends_of_sessions(dut, status):
    """transport.tx_rnr.ended: The end of a session ends each context of its node that waits, or is
    posted again and not popped, once and with the status of the end; no other one."""
    bench = Bench(dut, f"ended {status}", note=0.4)
    await bench.start()
    for ends, again in ((1, False), (2, True), (3, False)):
        bench.pop = (1, 3)
        nodes = [node % bench.nodes for node in range(3)]
        contexts = [bench.new(node=node, limit=NO_END) for node in nodes for _ in range(4)]
        await bench.flying(*contexts)
        # The last one of each node stays in flight.
        waiting = [one for place, one in enumerate(contexts) if place % 4 != 3]
        bench.pop = (20000, 20000)
        for one in waiting:
            bench.note(one, RNR)
        await bench.noted()
        if again:
            await until(dut, lambda waiting=waiting: all(one.state == AGAIN for one in waiting),
                        "posted again")  # fmt: skip
        before = bench.ended
        for node in nodes[:ends]:
            bench.end(node, status)
        await bench.noted()
        assert bench.ended - before == 3 * ends
        for one in contexts:
            assert one.ended == (one in waiting and one.node in nodes[:ends])
        # Nothing of the node waits any more.
        await until(dut, lambda: not bench.ends, "unused")
        bench.pop = (1, 3)
        bench.pops = dict.fromkeys(bench.pops, 0)
        await until(dut, lambda: not bench.pops, "popped")
        for node in nodes[:ends]:
            bench.end(node, status)
        await bench.noted()
        assert bench.ended - before == 3 * ends
        await bench.settle()


@cocotb.test()
async def stale_outcomes(dut):
    """transport.tx_rnr.stale: An RNR of a past context changes nothing, whatever the present
    context of its number does."""
    bench = Bench(dut, "stale", pop=(1, 3))
    await bench.start()
    for index in (0, bench.count - 1, 1):
        # No context has this number yet, or one that has ended.
        for _ in range(3):
            bench.stale(index)
            await bench.noted()
            one = bench.new(index, limit=2)
            await bench.flying(one)
            for retry in range(2):
                bench.stale(index)
                await bench.noted()
                bench.note(one, RNR)
                await bench.noted()
                for _ in range(5):
                    bench.stale(index)
                    await bench.noted()
                bench.pop = (40, 40)
                await until(dut, lambda one=one: one.state == AGAIN, "again")
                bench.stale(index)
                await bench.flying(one)
                assert len(one.posts) == retry + 1
            bench.pop = (1, 3)
            bench.note(one, RNR)
            await bench.noted()
            assert one.ended
            await until(dut, lambda index=index: index in bench.free, "free")


@cocotb.test()
async def contexts_end_while_they_wait(dut):
    """transport.tx_rnr.gone: A context that ends while it waits is not posted and holds no other
    one up. Its number is used again as soon as it is not held. The retries begin at the post."""
    bench = Bench(dut, "gone", pop=(1, 3))
    await bench.start()
    for keep in (0.0, 0.3, 0.6):
        for _ in range(4):
            contexts = [bench.new(limit=bench.rng.choice((1, 3, NO_END)))
                        for _ in range(min(len(bench.free), 14))]  # fmt: skip
            await bench.flying(*contexts)
            for one in contexts:
                bench.note(one, RNR)
            await bench.noted()
            order = list(bench.contexts(WAITING))
            bench.rng.shuffle(order)
            for index in order:
                if bench.rng.random() >= keep:
                    bench.unuse(index)
                    await ClockCycles(dut.clk, bench.rng.randrange(6))
            # Numbers are used again at once, and refused again.
            for _ in range(bench.first * bench.tick):
                await RisingEdge(dut.clk)
                if bench.free and len(bench.live) < 16:
                    bench.new(limit=bench.rng.choice((1, NO_END)))
                for one in list(bench.contexts(FLYING).values())[:2]:
                    bench.note(one, bench.rng.choice((RNR, RNR, IoCompStatus.OK)))
            await bench.settle()


@cocotb.test()
async def posts_do_not_hold_an_rnr_up(dut):
    """transport.tx_rnr.load: An RNR is taken under a load of new contexts, and the new contexts
    pass, one per cycle."""
    bench = Bench(dut, "load", pop=(1, 1))
    await bench.start()
    one = bench.new(limit=NO_END)
    await bench.flying(one)
    count = min(len(bench.free), 60)
    for _ in range(count):
        bench.new(limit=0)
    bench.note(one, RNR)
    await bench.noted()
    await until(dut, lambda: one.state == AGAIN, "again")
    await until(dut, lambda: not bench.posts.waiting and not bench.pops, "popped")
    await bench.settle()


@cocotb.test()
async def reset_in_the_middle_of_traffic(dut):
    """transport.tx_rnr.reset: A reset forgets contexts that wait, in all lists."""
    bench = Bench(dut, "reset", pop=(1, 3))
    await bench.start()
    for waits in (3, bench.first * bench.tick + 5, 2 * bench.first * bench.tick):
        contexts = [bench.new(limit=NO_END) for _ in range(8)]
        await bench.flying(*contexts)
        for one in contexts:
            bench.note(one, RNR)
        await bench.noted()
        for _ in range(waits):
            for one in list(bench.contexts(FLYING).values()):
                bench.note(one, RNR)
            await RisingEdge(dut.clk)
        drive(dut, rst=1)
        await RisingEdge(dut.clk)
        bench.forget()
        await reset(dut, 2)
        await until(dut, high(dut.m_init_done))
        assert dut.m_ctx_held.value == 0
        for _ in range(3 * bench.first * bench.tick):
            assert dut.m_post_valid.value == 0 and dut.m_note_valid.value == 0
            await RisingEdge(dut.clk)
        one = bench.new(limit=1)
        await bench.flying(one)
        bench.note(one, RNR)
        await bench.settle()
        assert len(one.posts) == 1


# Gaps of the inputs, stalls of both outputs, shares of cycles with: a new context, an outcome, an
# end of a session, a send that ends by itself.
PACES = [
    (0.0, 0.0, 0.0, 0.3, 0.5, 0.005, 0.003),
    (0.0, 0.5, 0.5, 0.5, 0.9, 0.01, 0.01),
    (0.3, 0.2, 0.8, 0.2, 0.5, 0.02, 0.05),
    (0.0, periodic(300, 100), 0.1, 0.5, 0.5, 0.002, 0.01),
    (0.0, 0.0, 0.3, 0.9, 0.9, 0.0, 0.0),
    (0.5, 0.9, 0.0, 0.2, 0.5, 0.01, 0.02),
]


@cocotb.test()
@cocotb.parametrize(pace=range(len(PACES)))
async def random_contexts(dut, pace):
    """transport.tx_rnr.random: Random contexts, outcomes, ends of sessions and sends that end by
    themselves, with gaps and stalls: nothing is lost or doubled, early or late."""
    gaps, post, note, new, outcome, ends, unuse = PACES[pace]
    bench = Bench(dut, f"random {pace}", gaps, post, note)
    await bench.start()
    rng = bench.rng
    nodes = rng.sample(range(bench.nodes), min(bench.nodes, 3))
    refused = rng.choice((0.5, 0.9))
    ended_at = dict.fromkeys(nodes, 0)
    for _ in range(6000):
        await RisingEdge(dut.clk)
        if rng.random() < new and len(bench.posts.waiting) < 2 and len(bench.live) < 60:
            bench.new(node=rng.choice(nodes))
        if len(bench.notes.waiting) < 2:
            flying = bench.contexts(FLYING)
            if flying and rng.random() < outcome:
                status = RNR if rng.random() < refused else rng.choice(list(IoCompStatus))
                bench.note(rng.choice(list(flying.values())), status,
                           PacketKind.ALONE if rng.random() < 0.9 else PacketKind.PART)
            elif rng.random() < 0.02:
                bench.stale(rng.randrange(bench.count) if rng.getrandbits(1) or not bench.live
                            else rng.choice(list(bench.live)),
                            rng.choice((RNR, rng.choice(list(IoCompStatus)))))  # fmt: skip
            node = rng.choice(nodes)
            # The sends of an end before have ended.
            if rng.random() < ends and cycle() - ended_at[node] > bench.count + 500:
                ended_at[node] = cycle()
                bench.end(node, rng.choice((RNR, rng.choice(list(IoCompStatus)))))
        if rng.random() < unuse:
            used = [index for index, one in bench.live.items()
                    if one.used and bench.used_bits >> index & 1]  # fmt: skip
            if used:
                bench.unuse(rng.choice(used))
    assert bench.again > 5 and bench.outcomes > 5
    assert bench.ended or not ends or bench.count > 99
    dut._log.info(f"again {bench.again}, outcomes {bench.outcomes}, ended {bench.ended}")
    await bench.settle()
