# SPDX-License-Identifier: Apache-2.0
"""Tests efa_tx_route: which items take a message context, what is stored and posted for it, and
which contexts are held."""

from collections import deque

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import INTERNAL, LIMITS, PROFILES, IoSendOpType, IoTxWqe128
from tb.lib.dont_care import dont_care
from tb.lib.stream import (
    StreamMonitor,
    clock_and_reset,
    pauses,
    periodic,
    reset,
    rng_for,
)
from tb.lib.waits import high, until, zero
from tb.unit.data_bench import Moments, consumed

NODES, HANDLES = 1 << LIMITS.node_w, 1 << LIMITS.ah_w
READ, WRITE = IoSendOpType.RDMA_READ, IoSendOpType.RDMA_WRITE
REQUEST = 1 << 16  # bytes of a read request, but the last
# Bytes of a packet of a write, except the last one.
UNIT = [1 << profile.mtu.bit_length() - 1 for profile in PROFILES.values()]
MESSAGE = ("qpn", "qp_num", "scqn", "ssub", "req_id", "req_id_ex")
STORED = (*MESSAGE, "msg", "pd", "wqe128", "op_type", "entry")


class Items:
    """Drives items; s_next_data has the one that follows, if its pause is over, or any bits."""

    prefix = "s_item"

    def __init__(self, dut, gaps):
        self.dut, self.rng, self.waiting = dut, rng_for("items"), deque()
        self._pause = pauses(gaps, "items")
        self.clear()

    def clear(self):
        """Drops the pending items."""
        self.waiting.clear()
        self._next = None
        self._show("s_item", None)
        self._show("s_next", None)

    def _show(self, name, data):
        pins = getattr(self.dut, name + "_data")
        pins.value = self.rng.getrandbits(len(pins)) if data is None else data
        if name == "s_item":
            self.dut.s_item_valid.value = int(data is not None)

    def step(self):
        """Follows a cycle; returns True if the next item is at s_item from now on."""
        moves = self.dut.s_item_valid.value == 0
        if not moves and self.dut.s_item_ready.value == 1:
            moves = True
            self.waiting.popleft()
        moved = moves and self._next is not None
        if moves:
            self._show("s_item", self._next)
            self._next = None
        # The first one that waits is at s_item, unless that is empty.
        at = int(moved or not moves)
        if self._next is None and len(self.waiting) > at and not self._pause():
            self._next = self.waiting[at]
        self._show("s_next", self._next)
        return moved


class Bench:
    """Posts items, changes handles, allocates contexts in order and pops posted ones. An item whose
    handle is read in the cycle of a change may see either state."""

    def __init__(self, dut, stalls=0.0, gaps=0.0, post_stalls=None, free=0.0, profile=1):
        self.dut, self.rng = dut, rng_for("tx_route")
        self.unit = UNIT[profile]
        dut.s_cfg_profile.value = profile
        self.contexts = len(dut.m_ctx_held)
        self.handles, self.gens = {}, [self.rng.getrandbits(4) for _ in range(HANDLES)]
        self.given, self.wanted, self.posts = deque(), deque(), deque()
        self.passed = self.taken = 0
        self.held, self.pops, self.pop_rate = 0, deque(), 0.5
        self.id = self.rng.getrandbits(32)
        self.waits = pauses(free, "free")
        zero(dut, "s_ah_valid", "s_ctx_free", "s_popped_valid", "s_popped_index")
        self._drive_gens()
        self.items = Items(dut, gaps)
        self.out = StreamMonitor(dut, "m_item", stalls, ["data"], on_beat=self._passed)
        stalls = stalls if post_stalls is None else post_stalls
        self.post = StreamMonitor(dut, "m_post", stalls, ["data"], on_beat=self._posted)

    async def start(self):
        cocotb.start_soon(self._watch())
        await clock_and_reset(self.dut)
        await until(self.dut, high(self.dut.m_init_done))

    def _drive_gens(self):
        self.dut.s_ah_gen.value = sum(gen << 4 * index for index, gen in enumerate(self.gens))

    async def handle(self, index, **fields):
        """Creates or destroys a handle; its generation changes one cycle after it is destroyed."""
        context = dont_care(INTERNAL.ahc, self.rng, **fields)
        data = INTERNAL.ahc.pack(**context)
        self.dut.s_ah_index.value, self.dut.s_ah_data.value = index, data
        self.dut.s_ah_valid.value = 1
        await RisingEdge(self.dut.clk)
        self.dut.s_ah_valid.value = 0
        self.dut.s_ah_data.value = data ^ self.rng.getrandbits(len(self.dut.s_ah_data))
        if not context["live"]:
            self.gens[index] = self.gens[index] + 1 & 15
            self._drive_gens()

    def send(self, index, pd, total=None, has_imm=None, inlined=None, operation=WRITE, **item):
        """Posts an item with this handle; with `total` an RDMA operation of so many bytes."""
        rng = self.rng
        inlined = rng.getrandbits(1) if inlined is None else inlined
        count = rng.randrange(81) if inlined else rng.randrange(3)
        wqe = IoTxWqe128.unpack(rng.randbytes(128))
        wqe.meta.inline_msg, wqe.meta.length, wqe.meta.ah = inlined, count, index
        sizes = [rng.choice((0, 1, rng.randrange(1 << 14))) for _ in range(2)]
        if total is not None:
            wqe.meta.op_type = operation
            wqe.meta.has_imm = rng.getrandbits(1) if has_imm is None else has_imm
            wqe.data.rdma_req.remote_mem.length = total
        else:
            wqe.meta.op_type = rng.choice((IoSendOpType.SEND, rng.randrange(3, 16)))
            if not inlined:
                for number in range(count):
                    wqe.data.sgl[number].length = sizes[number]
        fields = {"barrier": 0, "flush": 0, "incomplete": 0, "srd": 1, "pd": pd, "sent": 0,
                  "op_type": wqe.meta.op_type, "entry": int.from_bytes(wqe.pack(), "little"),
                  **item}  # fmt: skip
        fields = dont_care(INTERNAL.wqe_in, rng, **fields)
        length = count if inlined else sum(sizes[:count])
        fields["length"] = length if total is None else total
        fields["ah"] = index
        # An operation is as many packets as its bytes need, at least one.
        reads = total is not None and operation == READ
        unit = REQUEST if reads else self.unit
        fields["last"] = max(0, total - 1) // unit if total else 0
        fields["waits"] = int(bool(total and wqe.meta.has_imm and not reads))
        fields["reads"] = None
        if reads:
            local = wqe.data.rdma_req.local_mem[0]
            fields["reads"] = {"qp_num": fields["qp_num"], "pd": pd, "lkey": local.lkey__lkey,
                               "addr": local.buf_addr_hi << 32 | local.buf_addr_lo,
                               "total": total}  # fmt: skip
        self.given.append(fields)
        self.items.waiting.append(INTERNAL.wqe_in.pack(
            **{name: value for name, value in fields.items()
               if name in INTERNAL.wqe_in.fields}))  # fmt: skip

    def _node(self, item, handle):
        """Returns the node of an item that takes a context, None for any other."""
        if item["barrier"] or item["flush"] or item["incomplete"] or not item["srd"]:
            return None
        if item["ah"] >= HANDLES or not handle["live"] or handle["pd"] != item["pd"]:
            return None
        return handle["node"] if handle["fabric"] and handle["node"] < NODES else None

    async def _watch(self):
        """Follows each cycle: items whose handle is read, contexts, and held ones."""
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value != 0:
                self.held = 0
                self.handles.clear()
                self.items.clear()
                for queue in (self.given, self.wanted, self.pops):
                    queue.clear()
                zero(dut, "s_popped_valid", "s_ctx_free")
                continue
            assert int(dut.m_ctx_held.value) == self.held
            changed, state = None, None
            if dut.s_ah_valid.value == 1:
                changed = int(dut.s_ah_index.value)
                state = vars(INTERNAL.ahc.unpack(int(dut.s_ah_data.value)))
            if self.items.step():
                item = self.given.popleft()
                index = item["ah"] % HANDLES
                states = [self.handles.get(index, {"live": 0}), *[state] * (changed == index)]
                ways = [self._node(item, one) for one in states]
                gen = int(dut.s_ah_gen.value) >> 4 * index & 15
                self.wanted.append((item, ways, gen))
            if changed is not None:
                self.handles[changed] = state
            self._contexts()

    def _contexts(self):
        """Allocates the next context, and pops one that was posted."""
        dut, popped = self.dut, None
        if dut.s_popped_valid.value == 1:
            popped = int(dut.s_popped_index.value)
            self.held &= ~(1 << popped)
        taken = dut.m_ctx_take.value == 1
        assert taken or dut.m_read_valid.value == 0, "a read without its post"
        posted = dut.m_post_valid.value == 1 and dut.m_post_ready.value == 1
        assert taken == posted
        free = dut.s_ctx_free.value == 1 and not taken
        if taken:
            assert dut.s_ctx_free.value == 1
            place = int(dut.s_ctx_id.value) % self.contexts
            self.held |= 1 << place
            self.pops.append(place)
            self.id += 1
        dut.s_popped_valid.value = 0
        if self.pops and self.rng.random() < self.pop_rate and (len(self.pops) > 1 or not taken):
            self.pops.rotate(-self.rng.randrange(max(len(self.pops) - taken, 1)))
            place = self.pops.popleft()
            dut.s_popped_valid.value, dut.s_popped_index.value = 1, place
        while self.held >> self.id % self.contexts & 1:
            self.id += 1
        self.id %= 1 << 32
        dut.s_ctx_free.value = int(free or not self.waits())
        dut.s_ctx_id.value = self.id

    def _passed(self, beat):
        item, ways, _ = self.wanted.popleft()
        assert None in ways, f"an item for node {ways} passes, expected a context"
        fields = {name: item[name] for name in INTERNAL.wqe_in.fields}
        assert beat["data"] == INTERNAL.wqe_in.pack(**fields)
        self.passed += 1

    def _posted(self, beat):
        dut = self.dut
        item, ways, gen = self.wanted.popleft()
        post = INTERNAL.srd_post.unpack(beat["data"])
        msg = INTERNAL.tx_msg.unpack(int(dut.m_ctx_msg.value))
        sent = INTERNAL.wqe_sent.unpack(int(dut.m_sent_data.value))
        taken_id = int(dut.s_ctx_id.value)
        assert post.node in ways, f"post to node {post.node}, expected {ways}"
        assert (post.again, post.id, sent.id) == (0, taken_id, taken_id)
        assert (msg.node, msg.ah, msg.ah_gen) == (post.node, item["ah"], gen)
        assert sent.ah_gen == gen
        for name in MESSAGE:
            assert getattr(msg, name) == item[name], name
        assert (msg.op_type, int(dut.m_ctx_bytes.value)) == (item["op_type"] & 7, item["length"])
        # The number of the last packet has 18 bits; a longer write is refused.
        assert (post.last, post.part) == (item["last"] & (1 << 18) - 1, 0), item
        # A message of one packet waits for no other.
        assert post.waits == item["waits"] or not post.last, item
        assert post.rnr_retry == item["rnr_retry"]
        reads = item["reads"]
        assert post.read == (reads is not None) and dut.m_read_valid.value == 1
        found = vars(INTERNAL.read_ctx.unpack(int(dut.m_read_data.value)))
        if reads is None:
            assert found["total"] == 0, "a response may fit an operation that is no read"
        else:
            rest = reads["total"] - item["last"] * REQUEST
            assert post.rest == rest, f"last request of {post.rest} bytes, expected {rest}"
            assert found == {"id": taken_id, "node": post.node, **reads}
        for name in STORED:
            assert getattr(sent, name) == item[name], name
        self.taken += 1

    async def settle(self):
        await consumed(self.items)
        await until(self.dut, lambda: not self.wanted, f"{len(self.wanted)} items")
        await ClockCycles(self.dut.clk, 4)
        assert not self.given and not self.wanted

    async def some_handles(self):
        """Creates some handles of all kinds; returns (number, PD)."""
        rng = self.rng
        for index in rng.sample(range(HANDLES), 40):
            await self.handle(index, live=int(rng.random() < 0.9), fabric=int(rng.random() < 0.8),
                              node=rng.choice((rng.randrange(NODES), rng.getrandbits(16))))
        await RisingEdge(self.dut.clk)
        return [(index, handle["pd"]) for index, handle in self.handles.items()]


def some_item(bench, handles):
    """Posts an item of any kind."""
    rng = bench.rng
    index, pd = rng.choice(handles)
    if rng.random() < 0.1:
        pd ^= 1 << rng.randrange(10)
    if rng.random() < 0.1:
        index |= 1 << rng.randrange(LIMITS.ah_w, 16)
    kind = rng.choice(("", "", "", "", "srd", "barrier", "flush", "incomplete"))
    unit = bench.unit
    totals = (None, None, 0, 1, unit, unit + 1, 5 * unit, rng.getrandbits(30))
    bench.send(index, pd, rng.choice(totals), operation=rng.choice((READ, WRITE)),
               **({"srd": 0} if kind == "srd" else {kind: 1} if kind else {}))  # fmt: skip


@cocotb.test()
@cocotb.parametrize(
    pace=[(0.0, 0.0, None, 0.0), (0.5, 0.3, None, 0.3), (0.8, 0.0, 0.1, 0.0), (0.1, 0.0, 0.8, 0.0),
          (periodic(30, 3), 0.0, periodic(3, 30), 0.9)],
)  # fmt: skip
async def each_item_goes_its_way(dut, pace):
    """transport.tx_route.ways: An SRD send with a live handle of its PD to a node of the fabric
    takes a context; all other items pass in order and unchanged."""
    bench = Bench(dut, *pace)
    await bench.start()
    handles = await bench.some_handles()
    for _ in range(500):
        some_item(bench, handles)
    await bench.settle()
    assert bench.taken > 20 and bench.passed > 20


@cocotb.test()
@cocotb.parametrize(stalls=[0.0, 0.4])
async def handles_change_under_the_items(dut, stalls):
    """transport.tx_route.handle: A handle that is created, destroyed or created again for another
    node meets each item as a whole, with its generation."""
    bench = Bench(dut, stalls)
    await bench.start()
    rng, pd = bench.rng, 5
    for _ in range(60):
        for _ in range(12):
            bench.send(rng.choice((7, 7, 7, 8)), pd)
        await ClockCycles(dut.clk, rng.randrange(1, 8))
        for _ in range(3):
            live = rng.getrandbits(1)
            await bench.handle(7, live=live, pd=pd, fabric=1, node=rng.randrange(NODES))
            await ClockCycles(dut.clk, rng.randrange(4))
        await bench.settle()
    assert bench.taken > 20 and bench.passed > 20


@cocotb.test()
async def every_handle_is_itself(dut):
    """transport.tx_route.handles: Each of 256 handles has its own state, PD, node and generation;
    each bit of a node, a PD and a number counts."""
    bench = Bench(dut)
    await bench.start()
    rng = bench.rng
    for _ in range(2):
        for index in range(HANDLES):
            await bench.handle(index, live=int(rng.random() < 0.8), fabric=int(rng.random() < 0.9),
                               node=rng.randrange(NODES))  # fmt: skip
        await RisingEdge(dut.clk)
        for index in rng.sample(range(HANDLES), HANDLES):
            pd = bench.handles[index]["pd"]
            bench.send(index, pd)
            bench.send(index, pd ^ 1 << rng.randrange(10))
            bench.send(index | 1 << rng.randrange(LIMITS.ah_w, 16), pd)
        await bench.settle()
    for bit in range(16):
        await bench.handle(9, live=1, pd=3, fabric=1, node=1 << bit)
        bench.send(9, 3)
        await bench.settle()
    assert bench.taken > HANDLES


@cocotb.test()
@cocotb.parametrize(profile=range(len(PROFILES)))
async def packets_of_writes(dut, profile):
    """transport.tx_route.writes: A write is posted with the number of its last packet, for each
    magnitude of its length, and waits for all others if it has an immediate; a send is one
    packet."""
    bench = Bench(dut, 0.2, profile=profile)
    bench.pop_rate = 1.0
    await bench.start()
    await bench.handle(1, live=1, pd=1, fabric=1, node=2)
    unit = bench.unit
    totals = {0, 1, unit - 1, unit, unit + 1, 2 * unit, 2 * unit + 1}
    totals |= {(1 << bit) + more for bit in range(32) for more in (-1, 0, 1)}
    for total in sorted(totals):
        for has_imm in (0, 1):
            bench.send(1, 1, total, has_imm, inlined=int(bench.rng.random() < 0.1))
    for _ in range(20):
        bench.send(1, 1)
    await bench.settle()
    assert bench.taken == 2 * len(totals) + 20


@cocotb.test()
async def requests_of_reads(dut):
    """transport.tx_route.reads: A read is posted with the number of its last request and the bytes
    of that, for each magnitude of its length, and reported with its local buffer."""
    bench = Bench(dut, 0.2)
    bench.pop_rate = 1.0
    await bench.start()
    await bench.handle(1, live=1, pd=1, fabric=1, node=2)
    totals = {(1 << bit) + more for bit in range(32) for more in (-1, 0, 1)}
    for total in sorted(totals):
        bench.send(1, 1, total, operation=READ)
        bench.send(1, 1, total, bench.rng.getrandbits(1), operation=WRITE)
    await bench.settle()
    assert bench.taken == 2 * len(totals)


@cocotb.test()
async def all_contexts_are_held(dut):
    """transport.tx_route.held: Each context is held from its post until it has left the posted
    ones, all of them at a time; in any order of leaving."""
    bench = Bench(dut)
    await bench.start()
    await bench.handle(1, live=1, pd=1, fabric=1, node=2)
    bench.pop_rate = 0.0
    for _ in range(bench.contexts - 1):
        bench.send(1, 1)
    await bench.settle()
    assert bench.held.bit_count() == bench.contexts - 1
    bench.pop_rate = 1.0
    await until(dut, lambda: not bench.held, "all popped")
    for _ in range(300):
        bench.send(1, 1)
    await bench.settle()
    await until(dut, lambda: not bench.held, "all popped")


@cocotb.test()
async def a_send_without_a_context_holds_the_others(dut):
    """transport.tx_route.wait: A send waits for a free context, and the items behind it wait, too;
    their order stays."""
    shut = {"on": True}
    bench = Bench(dut, free=lambda: shut["on"])
    await bench.start()
    await bench.handle(1, live=1, pd=1, fabric=1, node=2)
    for _ in range(3):
        shut["on"] = True
        await ClockCycles(dut.clk, 3)
        for _ in range(3):
            bench.send(1, 1)
            bench.send(1, 1, barrier=1)
        before = bench.taken + bench.passed
        await ClockCycles(dut.clk, 40)
        # A context that was offered before may have been taken.
        assert bench.taken + bench.passed - before <= 2
        shut["on"] = False
        await bench.settle()


@cocotb.test()
async def cycles(dut):
    """transport.tx_route.cycles: Items of both ways leave in the cycle of their acceptance, one per
    cycle."""
    bench = Bench(dut)
    await bench.start()
    await bench.handle(1, live=1, pd=1, fabric=1, node=2)
    bench.pop_rate = 1.0
    for srd, way in ((0, "m_item"), (1, "m_post")):
        moments = Moments(dut, "s_item", way)
        for _ in range(20):
            bench.send(1, 1, srd=srd)
        await bench.settle()
        moments.hold("efa_tx_route", "item", "s_item", way)


@cocotb.test()
async def reset_in_the_middle_of_traffic(dut):
    """transport.tx_route.reset: A reset discards the items, the held contexts and all handles."""
    bench = Bench(dut, 0.5)
    await bench.start()
    for turn in range(3):
        handles = await bench.some_handles()
        for _ in range(60):
            some_item(bench, handles)
        await ClockCycles(dut.clk, 20 + 3 * turn)
        await reset(dut)
        await until(dut, high(dut.m_init_done))
        taken = bench.taken
        for index, pd in handles:
            bench.send(index, pd)
        await bench.settle()
        assert bench.taken == taken
        assert int(dut.m_ctx_held.value) == 0
