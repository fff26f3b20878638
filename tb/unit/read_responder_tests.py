# SPDX-License-Identifier: Apache-2.0
"""Tests efa_read_responder: each accepted read request is posted once, its context is readable
until its responses have an outcome, nodes are full in time, and the requests of a QP that is reset
or destroyed are cancelled."""

from collections import Counter, deque

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import INTERNAL, PROFILES, PacketKind
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
from tb.lib.waits import drive, high, until, zero
from tb.unit.data_bench import Moments, consumed

JOB, RESPONSE, POST = INTERNAL.read_job, INTERNAL.read_response, INTERNAL.srd_post
QPS = 5  # QPs of the requests
# Bytes of a response, except the last one of a request.
UNIT = [1 << profile.mtu.bit_length() - 1 for profile in PROFILES.values()]


class Bench:
    """Stores packets of peers, of which some are read requests, frees contexts and reads them.

    A packet is stored only if its node was not full in the cycle before. Checks each post, each
    context that is read, and in each cycle which nodes are full and which contexts are live.

    - `store`, `free`: share of cycles in which a packet is stored, and a context is freed
    - `request`: share of cycles in which a stored packet leaves; `other`: share of those that are
      no requests
    - `shown_live`: live contexts; `either`: contexts that a cancel is ending
    """

    def __init__(self, dut, name, gaps=0.0, stalls=0.0, store=0.0, free=0.0, request=0.7,
                 profile=1):  # fmt: skip
        self.dut, self.rng = dut, rng_for(name)
        self.width, self.qpn_w = int(dut.CTX_W.value), int(dut.QPN_W.value)
        self.reads = int(dut.READS_W.value)
        self.nodes, self.stored = 1 << int(dut.NODE_W.value), 1 << int(dut.SLOT_W.value)
        self.unit = UNIT[profile]
        dut.s_cfg_profile.value = profile
        self.store, self.free, self.request, self.other = store, free, request, 0.1
        self.favorite = None
        self.most = (1 << self.reads) - self.stored - 2  # contexts that make all nodes full
        self.seen = Counter()
        zero(dut, "s_responded_valid", "s_responded_index", "response_rd_en", "response_rd_addr",
             "s_cancel_valid", "s_cancel_qpn")  # fmt: skip
        self.jobs = StreamDriver(dut, "s_job", gaps, ["data"])
        self.posts = StreamMonitor(dut, "m_post", stalls, ["data"])
        self.forget()

    def forget(self):
        """Forgets all requests, for a reset."""
        self.jobs.clear()
        self.posts.beats.clear()
        self.packets = Counter()  # stored ones by node, which may be requests
        self.taken = deque()  # jobs that are not posted
        self.live = {}  # context to its job and id
        self.ids = set()
        self.used = Counter()  # contexts by node, until one cycle after they are freed
        self.leaving = []
        self.history = [(Counter(), 0)] * 2
        self.reading, self.shown = None, None
        self.shown_live, self.either = set(), set()
        self.posting, self.ending = None, None
        zero(self.dut, "s_responded_valid", "response_rd_en", "s_cancel_valid")

    async def start(self):
        cocotb.start_soon(self._watch())
        await clock_and_reset(self.dut)
        await until(self.dut, high(self.dut.m_init_done))

    def job(self, node=None, count=None):
        """Posts an accepted request."""
        rng, unit = self.rng, self.unit
        near = rng.choice((1, unit, 2 * unit, 1 << 16, rng.randrange(1, 1 << 16)))
        some = min(max(1, near + rng.choice((-1, 0, 1))), 1 << 16)
        node = rng.randrange(self.nodes) if node is None else node
        qpn = self._index(rng.choice([one for one in range(QPS) if one != self.ending]))
        qpn |= rng.getrandbits(12 - self.qpn_w) << self.qpn_w  # don't-care bits
        fields = dont_care(JOB, rng, node=node, count=some if count is None else count, qpn=qpn)
        self.jobs.post({"data": JOB.pack(**fields)})

    def free_one(self, index):
        """Frees a context in the next cycle."""
        drive(self.dut, s_responded_valid=1, s_responded_index=index)

    def _index(self, number):
        """Returns the index of a QP."""
        return (1 << self.qpn_w) - 1 - number

    def _is_of(self, job, number):
        return job.qpn % (1 << self.qpn_w) == self._index(number)

    async def cancel(self, number):
        """Cancels the requests of QP `number`; returns the cycles until it is done."""
        dut = self.dut
        self.ending = number
        waiting = self.jobs.waiting
        await until(dut, lambda: not any(self._is_of(JOB.unpack(one["data"]), number)
                                         for one in waiting), "requests of the QP")  # fmt: skip
        await RisingEdge(dut.clk)
        self.either = {index for index, (job, _) in self.live.items() if self._is_of(job, number)}
        if self.taken and self._is_of(self.taken[0], number):
            self.either.add(self.posting)
        drive(dut, s_cancel_valid=1, s_cancel_qpn=self._index(number))
        begin = cycle() + 1
        await until(dut, high(dut.s_cancel_ready), "the cancel", 3 << self.reads)
        taken = cycle() - begin
        self.shown_live -= self.either
        self.seen["cancelled"] += len(self.either)
        self.either = set()
        await ClockCycles(dut.clk, self.rng.choice((0, 1, 5)))
        drive(dut, s_cancel_valid=0, s_cancel_qpn=self.rng.getrandbits(self.qpn_w))
        await ClockCycles(dut.clk, 2)
        self.ending = None
        return taken

    async def settle(self):
        await consumed(self.jobs)
        await until(self.dut, lambda: not self.taken, "posts")
        await ClockCycles(self.dut.clk, 4)

    async def empty(self):
        """Frees all contexts."""
        store, free = self.store, self.free
        self.store, self.free = 0.0, 1.0
        await until(self.dut, lambda: not self.packets.total(), "stored packets")
        await self.settle()
        await until(self.dut, lambda: not self.live, "free contexts")
        await ClockCycles(self.dut.clk, 4)
        assert self.dut.m_full.value == 0
        self.store, self.free = store, free

    # Reference.

    def _full(self):
        """Returns the nodes that are full by the state of two cycles before."""
        used, total = self.history[0]
        # Two packets more may be stored before their node is seen to be full.
        if total >= self.most:
            return (1 << self.nodes) - 1
        return sum(1 << node for node, count in used.items() if count >= 1 << self.reads - 2)

    async def _watch(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value != 0:
                continue
            if dut.m_init_done.value != 1:
                assert (dut.s_job_ready.value, dut.m_post_valid.value) == (0, 0)
                continue
            self.seen["cycles"] += 1
            full = self._full()
            assert int(dut.m_full.value) == full, (
                f"cycle {cycle()}: m_full {int(dut.m_full.value):#x}, not {full:#x}")  # fmt: skip
            self.seen["all full"] += full == (1 << self.nodes) - 1
            self.seen["one full"] += full.bit_count() == 1
            self._check_live()
            self._read()
            self._freed()
            waits = bool(self.taken)  # before the post of this cycle
            if dut.m_post_valid.value == 1 and dut.m_post_ready.value == 1:
                self._posted(POST.unpack(int(dut.m_post_data.value)))
            elif self.taken:
                assert dut.m_post_valid.value == 1, "no post one cycle after its request"
            ready = dut.s_job_ready.value == 1
            assert ready != waits, f"cycle {cycle()}: ready {ready}, a post waits: {waits}"
            takes = dut.s_job_valid.value == 1 and ready
            assert dut.st_request_valid.value == int(takes)
            if takes:
                job = JOB.unpack(int(dut.s_job_data.value))
                assert int(dut.st_request_bytes.value) == job.count
                self.taken.append(job)
                self.used[job.node] += 1
            self.history = [self.history[1], (self.used.copy(), self.used.total())]
            self._traffic(full)

    def _check_live(self):
        """Compares the live contexts: from 2 cycles after their request to one after their end."""
        dut = self.dut
        maybe = sum(1 << index for index in self.either)
        found = int(dut.m_live.value) & ~maybe
        wanted = sum(1 << index for index in self.shown_live) & ~maybe
        assert found == wanted, f"cycle {cycle()}: m_live differs in {found ^ wanted:#x}"
        if dut.m_post_valid.value == 1 and self.posting is None:
            self.posting = POST.unpack(int(dut.m_post_data.value)).id % (1 << self.reads)
            self.shown_live.add(self.posting)
        if dut.m_post_valid.value == 1 and dut.m_post_ready.value == 1:
            self.posting = None
        if dut.s_responded_valid.value == 1:
            self.shown_live.discard(int(dut.s_responded_index.value))
            self.either.discard(int(dut.s_responded_index.value))

    def _posted(self, post):
        """Checks the post of the oldest request."""
        job = self.taken.popleft()
        index = post.id % (1 << self.width)
        expected = POST.pack(node=job.node, id=post.id, kind=PacketKind.RESPONSE,
                             last=-(-job.count // self.unit) - 1)  # fmt: skip
        assert POST.pack(**vars(post)) == expected, f"{post} of {job}"
        assert index < 1 << self.reads and index not in self.live, f"context {index} is in use"
        assert post.id not in self.ids, f"id {post.id:#x} comes again"
        self.ids.add(post.id)
        self.live[index] = (job, post.id)
        self.seen["posts"] += 1

    def _read(self):
        """Checks the context that was read, and reads another one."""
        dut, rng = self.dut, self.rng
        if self.shown is not None:
            job, own = self.shown
            response = RESPONSE.unpack(int(dut.response_rd_data.value))
            assert response.id == own
            assert vars(JOB.unpack(response.job)) == vars(job), f"context {own:#x}"
            self.seen["reads"] += 1
        self.shown, self.reading = self.reading, None
        reads = bool(self.live) and rng.random() < 0.7
        if reads:
            index = rng.choice(list(self.live)) if rng.random() < 0.7 else next(reversed(self.live))
            self.reading = self.live[index]
            dut.response_rd_addr.value = index
        else:
            dut.response_rd_addr.value = rng.getrandbits(self.width)
        dut.response_rd_en.value = int(reads)

    def _freed(self):
        """Takes the context that is freed in this cycle, and frees another one."""
        dut, rng = self.dut, self.rng
        self.used.subtract(self.leaving)
        self.leaving = []
        if dut.s_responded_valid.value == 1:
            self.leaving.append(self.live.pop(int(dut.s_responded_index.value))[0].node)
        dut.s_responded_valid.value = 0
        dut.s_responded_index.value = rng.getrandbits(self.width)
        if self.live and rng.random() < self.free:
            self.free_one(rng.choice(list(self.live)))

    def _traffic(self, full):
        """Stores a packet, and makes one a request or discards it."""
        rng = self.rng
        if rng.random() < self.store:
            node = rng.randrange(self.nodes) if self.favorite is None else self.favorite
            waiting = self.packets.total() + len(self.jobs.waiting)
            if waiting < self.stored and not full >> node & 1:
                self.packets[node] += 1
        if self.packets.total() and len(self.jobs.waiting) < 2 and rng.random() < self.request:
            node = rng.choice(list(self.packets.elements()))
            self.packets[node] -= 1
            if rng.random() >= self.other:
                self.job(node)


PACES = [(0.0, 0.0, 1.0, 0.3), (0.4, 0.0, 0.6, 0.1), (0.0, 0.6, 0.5, 0.6),
         (0.2, periodic(30, 5), 0.9, 0.02)]  # fmt: skip


@cocotb.test()
@cocotb.parametrize(pace=PACES)
async def random_requests(dut, pace):
    """transport.read_responder.random: Each request is posted once with the number of its last
    response, with any stalls. Its context is read until it is freed, and is not used twice."""
    bench = Bench(dut, f"random {pace}", *pace)
    await bench.start()
    await ClockCycles(dut.clk, 6000)
    await bench.empty()
    assert bench.seen["posts"] > 100 and bench.seen["reads"] > 500, bench.seen


@cocotb.test()
@cocotb.parametrize(profile=range(len(PROFILES)))
async def responses_of_a_request(dut, profile):
    """transport.read_responder.last: A request has as many responses as its bytes need, for each
    magnitude of its bytes and each MTU."""
    bench = Bench(dut, "last", profile=profile, free=0.5)
    await bench.start()
    counts = {near + more for near in (1, *range(0, 1 << 16, bench.unit), 1 << 16)
              for more in (-1, 0, 1)}  # fmt: skip
    counts |= {1 << bit for bit in range(17)}
    for count in sorted(counts & set(range(1, (1 << 16) + 1))):
        bench.job(count=count)
        await bench.settle()
    await bench.empty()


@cocotb.test()
async def one_node_is_full(dut):
    """transport.read_responder.node: A node with a quarter of the contexts is full until one of
    them is freed; the other nodes are not."""
    bench = Bench(dut, "node", store=1.0, request=1.0)
    await bench.start()
    quarter = 1 << bench.reads - 2
    for node in bench.rng.sample(range(bench.nodes), 2):
        bench.favorite = node
        await until(dut, lambda node=node: bench.used[node] >= quarter, "a quarter", 20_000)
        await ClockCycles(dut.clk, 4)
        assert dut.m_full.value == 1 << node
        bench.store = 0.0
        await bench.settle()
        for _ in range(3):
            await until(dut, lambda: not bench.packets.total(), "stored packets")
            await bench.settle()
            bench.free = 1.0
            await until(dut, lambda node=node: bench.used[node] < quarter, "one freed")
            bench.free = 0.0
            await ClockCycles(dut.clk, 4)
            assert dut.m_full.value == 0
            while bench.used[node] < quarter:
                bench.job(node)
                await bench.settle()
            assert dut.m_full.value == 1 << node
        await bench.empty()
        bench.store = 1.0
    assert bench.seen["one full"] > 10


@cocotb.test()
@cocotb.parametrize(rounds=range(3))
async def each_stored_packet_has_a_place(dut, rounds):
    """transport.read_responder.places: All nodes are full as soon as the stored packets may need
    all free contexts; each of them finds one."""
    bench = Bench(dut, f"places {rounds}", store=1.0, request=1.0)
    bench.other = 0.0
    await bench.start()
    # The nodes share the contexts, so no node has a quarter of them first.
    below = bench.most - 1 - rounds
    await until(dut, lambda: bench.used.total() >= below, "contexts", 20_000)
    bench.request = 0.0
    await until(dut, lambda: bench.packets.total() + len(bench.jobs.waiting) == bench.stored
                or bench.used.total() >= bench.most, "stored packets")  # fmt: skip
    bench.request = 1.0
    await until(dut, lambda: not bench.packets.total(), "requests", 20_000)
    await bench.settle()
    assert bench.used.total() > bench.most and bench.seen["all full"], bench.used
    assert dut.m_full.value == (1 << bench.nodes) - 1
    await bench.empty()


@cocotb.test()
@cocotb.parametrize(pace=PACES)
async def requests_of_a_cancelled_qp(dut, pace):
    """transport.read_responder.cancel: After the cancel of a QP no context of its requests is live;
    those of other QPs stay, also those that are taken meanwhile. A later request of the QP is
    live."""
    bench = Bench(dut, f"cancel {pace}", *pace)
    bench.free = min(bench.free, 0.05)
    await bench.start()
    for turn in range(30):
        await ClockCycles(dut.clk, bench.rng.randrange(200))
        await bench.cancel(turn % QPS)
    await bench.empty()
    assert bench.seen["cancelled"] > 20, bench.seen


@cocotb.test()
async def cycles(dut):
    """transport.read_responder.time: A request is posted after one cycle, one in two cycles; its
    node is full 2 cycles after its last context is taken, and 3 cycles after one is freed. A cancel
    takes a cycle for each context."""
    bench = Bench(dut, "time")
    await bench.start()
    moments = Moments(dut, "s_job", "m_post")
    quarter = 1 << bench.reads - 2
    for _ in range(quarter):
        bench.job(node=1)
    await bench.settle()
    moments.hold("efa_read_responder", "post", "s_job", "m_post")
    # The bench checks m_full in each cycle by these times.
    assert (timing("efa_read_responder", "full").latency,
            timing("efa_read_responder", "freed").latency) == (2, 3)  # fmt: skip
    assert dut.m_full.value == 1 << 1
    assert await bench.cancel(0) == (1 << bench.reads) + 1
    await bench.empty()
    assert await bench.cancel(0) == timing("efa_read_responder", "cancel").latency


@cocotb.test()
async def reset_in_the_middle_of_traffic(dut):
    """transport.read_responder.reset: A reset frees all contexts, and ends what was posted; the
    initialisation takes one cycle for each context."""
    bench = Bench(dut, "reset", stalls=0.3)
    await bench.start()
    for turn in range(3):
        bench.store, bench.free = 1.0, 0.2
        await ClockCycles(dut.clk, 300 + turn)
        bench.store = bench.free = 0.0
        dut.rst.value = 1
        await RisingEdge(dut.clk)
        bench.forget()
        await reset(dut)
        begin = cycle()
        await until(dut, high(dut.m_init_done))
        assert cycle() - begin == 1 << bench.reads
    bench.store, bench.request, bench.other = 1.0, 1.0, 0.0
    await until(dut, lambda: bench.used.total() >= bench.most, "contexts", 20_000)
    await bench.empty()
