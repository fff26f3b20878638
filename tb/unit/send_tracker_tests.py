# SPDX-License-Identifier: Apache-2.0
"""Tests efa_send_tracker: completions of sends, their status and order, and the release of
contexts."""

from collections import deque

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge

from efa_cosim.layouts.defs import INTERNAL, LIMITS, AdminQpState, IoCompStatus
from tb.lib.dont_care import dont_care
from tb.lib.fast_values import reader
from tb.lib.stream import (
    POWER_ON,
    StreamDriver,
    StreamMonitor,
    clock_and_reset,
    cycle,
    reset,
    rng_for,
)
from tb.lib.timing import timing
from tb.lib.waits import high, until, zero
from tb.unit.data_bench import Moments, consumed
from tb.unit.queue_bench import RefCounts, Table

N = timing("efa_send_tracker", "ack").depth  # sends that may be outstanding
CONTEXTS = timing("efa_msg_id_alloc", "next").depth
QUEUES = 6
PACKET, DONE, BARRIER = range(3)
OK, FLUSHED = IoCompStatus.OK, IoCompStatus.FLUSHED
SAME = ("qpn", "qp_num", "req_id", "req_id_ex", "op_type", "length")
IDS = 1 << 32
ALIVE = [state for state in AdminQpState if state != AdminQpState.RESET]


def spread(rng, width, count):
    """Returns different random numbers, in pairs that differ in every bit."""
    pairs = rng.sample(range(1 << width - 1), -(-count // 2))
    turned = [(one, ~one) if rng.getrandbits(1) else (~one, one) for one in pairs]
    return [one & (1 << width) - 1 for pair in turned for one in pair][:count]


class Bench:
    """Models the modules around efa_send_tracker. Tests name queues by their place in `qpns`, and
    sends by the number of contexts that were allocated before."""

    def __init__(self, dut, stalls=0.0, gaps=0.0, predicts=True, qpns=None):
        self.dut, self.rng = dut, rng_for("srd")
        rng, width = self.rng, len(dut.s_cancel_qpn)
        self.qpns = qpns or spread(rng, width, QUEUES)
        self.places = {qpn: place for place, qpn in enumerate(self.qpns)}
        self.queues = range(len(self.qpns))
        tags = spread(rng, 16 - width, len(self.qpns))
        self.qp_nums = [tag << width | qpn for qpn, tag in zip(self.qpns, tags, strict=True)]
        states = rng.sample(ALIVE, len(ALIVE)) * len(self.qpns)
        self.live = [dont_care(INTERNAL.qpc, rng, live=1, state=state, qp_num=number)
                     for state, number in zip(states, self.qp_nums, strict=False)]  # fmt: skip
        self.nodes = spread(rng, 16, len(self.qpns))
        self.gens = [rng.getrandbits(4) for _ in range(1 << LIMITS.ah_w)]
        self.first_id = -int(dut.ID_LEFT.value) % IDS
        self.hold = 0.0  # share of the sends whose context becomes held
        self.held = set()  # contexts
        self.in_use = set()  # contexts of sends that have not ended
        self.kept = set()  # contexts that were held at the end of their sends
        self.frees = deque()  # contexts that are to be freed
        self.index = RefCounts()  # the completed counts of efa_sq_index
        self.open = {}  # number: message that waits for its acknowledgement
        self.expected, self.fences, self.wanted_fences = deque(), [], []
        self.came = []  # completions, unpacked
        self.completed = [0] * len(self.qpns)
        self.freed = 0
        self.give = deque()  # messages that wait for a context
        self.given = []  # (number, message) in order
        self.predicts, self.req_id, self._next_give = predicts, 0, 0.0
        zero(dut, "s_ctx_take", "s_ctx_msg", "s_ctx_bytes", "s_scan_valid", "s_ah_gen",
             "qpc_rd_data", "s_cancel_valid", "s_cancel_qpn", "completed_rd_data",
             "s_ctx_free_valid", "s_ctx_free_index")  # fmt: skip
        self.handles()
        self.scan_set = set()  # QP numbers
        Table(dut, "scan_set_rd_addr", "scan_set_rd_data", lambda qpn: int(qpn in self.scan_set))
        self.acks = StreamDriver(dut, "s_outcome", gaps)
        self.done = StreamDriver(dut, "s_done", gaps)
        self.txc = StreamMonitor(dut, "m_txc", stalls, on_beat=self._completion)

    async def start(self):
        await clock_and_reset(self.dut, resets=POWER_ON)
        cocotb.start_soon(self._contexts())
        cocotb.start_soon(self._ends())
        cocotb.start_soon(self._qps())
        cocotb.start_soon(self._counts())
        cocotb.start_soon(self._watch())

    def id(self, number):
        """Returns the id of a send."""
        return (self.first_id + number) % IDS

    def number(self, taken_id):
        """Returns the number of the send with this id."""
        return (taken_id - self.first_id) % IDS

    def place(self, message):
        """Returns the place of the queue of a message."""
        return self.places[message["qpn"]]

    def handles(self, gone=()):
        """Drives the generations of all handles, after the destruction of some."""
        for ah in gone:
            self.gens[ah] ^= self.rng.choice((1, 2, 4, 8, 3, 15))
        self.dut.s_ah_gen.value = sum(gen << 4 * ah for ah, gen in enumerate(self.gens))

    async def silent(self, cycles=20):
        """Checks that pending inputs cause no completion."""
        await consumed(self.acks)
        before = self.txc.consumed
        await ClockCycles(self.dut.clk, cycles)
        assert self.txc.consumed == before

    def message(self, place, **changes):
        """Returns a checked send of a queue, as from efa_tx."""
        rng = self.rng
        # Steps of an odd number: every value once, in all bits.
        self.req_id = self.req_id + 0x9E37 & 0xFFFF
        message = {"kind": PACKET, "qpn": self.qpns[place], "srd": 1, "qp_num": self.qp_nums[place],
                   "scqn": rng.getrandbits(12), "ssub": rng.getrandbits(1), "req_id": self.req_id,
                   "op_type": rng.getrandbits(3), "node": self.nodes[place],
                   "req_id_ex": rng.getrandbits(48), "length": rng.getrandbits(16),
                   "length_hi": rng.getrandbits(16),  # of an RDMA operation with a context
                   "ah": rng.randrange(len(self.gens)), **changes}  # fmt: skip
        return {"ah_gen": self.gens[message["ah"]], **message}

    @staticmethod
    def packed(message):
        """Returns a message as the port has it."""
        return INTERNAL.tx_msg.pack(**{
            name: value for name, value in message.items() if name != "length_hi"})  # fmt: skip

    def completion(self, message, status):
        return INTERNAL.cpl.pack(status=status, cqn=message["scqn"], sub=message["ssub"],
                                 length_hi=message.get("length_hi", 0),
                                 **{name: message[name] for name in SAME})  # fmt: skip

    def is_live(self, message):
        qp = self.live[self.place(message)]
        return (qp["live"] and qp["state"] != AdminQpState.RESET
                and qp["qp_num"] == message["qp_num"])  # fmt: skip

    def expect(self, message, status):
        if self.is_live(message):
            self.expected.append(self.completion(message, status))

    def ack(self, number, message, status=OK, **changes):
        self.acks.post({"data": INTERNAL.send_outcome.pack(**{
            "status": status, "msg_id": self.id(number), **changes})})  # fmt: skip

    def drop(self, *contexts):
        """Holds contexts no more, and frees those of them whose sends have ended."""
        self.held.difference_update(contexts)
        free = self.kept.intersection(contexts)
        self.kept -= free
        self.frees.extend(sorted(free))

    def left(self, message, status=OK, **changes):
        message = {**message, "kind": DONE, "status": status, **changes}
        self.done.post({"msg": self.packed(message)})

    async def send(self, *messages):
        """Starts sends; each message gets a context. Returns their numbers."""
        before = len(self.given)
        self.give.extend(messages)
        await until(self.dut, lambda: not self.give, "contexts")
        return [number for number, _ in self.given[before:]]

    async def settle(self):
        """Waits until every expected completion has left."""
        await consumed(self.acks)
        await consumed(self.done)
        await until(self.dut, lambda: not self.expected, f"{len(self.expected)} completions")
        await ClockCycles(self.dut.clk, 12)
        assert not self.expected and self.fences == self.wanted_fences
        assert self.in_use == {number % CONTEXTS for number in self.open}

    async def scan(self, queues=()):
        self.scan_set = {self.qpns[place] for place in queues}
        self.dut.s_scan_valid.value = 1
        await RisingEdge(self.dut.clk)
        # Two passes for each generation out of place.
        await until(self.dut, high(self.dut.s_scan_ready), cycles=60_000)
        self.dut.s_scan_valid.value = 0

    async def cancel(self, place):
        self.dut.s_cancel_qpn.value, self.dut.s_cancel_valid.value = self.qpns[place], 1
        await RisingEdge(self.dut.clk)
        await until(self.dut, high(self.dut.s_cancel_ready))
        self.dut.s_cancel_valid.value = 0

    def counts(self):
        """Returns the completed sends of each queue."""
        return [self.index[qpn] for qpn in self.qpns]

    async def _contexts(self):
        """Starts sends: a send uses the context that is offered in the cycle in which it leaves."""
        dut = self.dut
        while True:
            await FallingEdge(dut.clk)
            take = self.give and dut.m_ctx_free.value == 1 and dut.rst.value == 0
            dut.s_ctx_take.value = int(bool(take))
            if take:
                message = self.give.popleft()
                number = self.number(int(dut.m_ctx_id.value))
                place = number % CONTEXTS
                assert number not in self.open and place not in self.held | self.in_use
                self.in_use.add(place)
                assert not self.given or number > self.given[-1][0]
                self.given.append((number, message))
                self.open[number] = message
                dut.s_ctx_msg.value = self.packed(message)
                dut.s_ctx_bytes.value = message["length_hi"] << 16 | message["length"]
                if self.rng.random() < self.hold:
                    self.held.add(place)

    async def _ends(self):
        """Frees each context in the cycle after its end, or when it is held no more; one per cycle.
        """
        dut, edge = self.dut, RisingEdge(self.dut.clk)
        while True:
            await edge
            if dut.rst.value == 1:
                for places in (self.in_use, self.kept, self.frees):
                    places.clear()
            elif dut.m_ctx_end_valid.value == 1:
                place = int(dut.m_ctx_end_index.value)
                self.in_use.remove(place)
                if place in self.held:
                    self.kept.add(place)
                else:
                    self.frees.appendleft(place)
            dut.s_ctx_free_valid.value = int(bool(self.frees))
            if self.frees:
                dut.s_ctx_free_index.value = self.frees.popleft()

    async def _qps(self):
        """Models a copy of the QP contexts with a read latency of one cycle."""
        edge, requested, shown = RisingEdge(self.dut.clk), reader(self.dut.qpc_rd_addr), None
        while True:
            await edge
            bits = requested()
            place = None if bits.strip("01") else self.places.get(int(bits, 2))
            fields = {} if place is None else self.live[place]
            # A test changes the state of a queue in place.
            if fields != shown:
                shown = dict(fields)
                self.dut.qpc_rd_data.value = INTERNAL.qpc.pack(**fields)

    async def _counts(self):
        """Models the completed counts of efa_sq_index; checks that each completion advances that of
        its queue by one."""
        dut, edge, address = self.dut, RisingEdge(self.dut.clk), reader(self.dut.completed_rd_addr)
        while True:
            await edge
            if dut.rst.value == 0:
                handed = dut.m_txc_valid.value == 1 and dut.m_txc_ready.value == 1
                assert dut.m_completed_valid.value == int(handed)
                if handed:
                    cpl = INTERNAL.cpl.unpack(int(dut.m_txc_data.value))
                    assert dut.m_completed_qpn.value == cpl.qpn
                    assert dut.m_completed_count.value == self.index[cpl.qpn] + 1 & 0xFFFF
                    self.index.update((cpl.qpn, self.index[cpl.qpn] + 1 & 0xFFFF))
            bits = address()
            dut.completed_rd_data.value = 0 if bits.strip("01") else self.index[int(bits, 2)]

    async def _watch(self):
        """Derives the expected outputs from the accepted inputs, in their order."""
        dut, edge = self.dut, RisingEdge(self.dut.clk)
        while True:
            await edge
            if dut.rst.value == 1:
                continue
            self.freed += int(dut.m_freed.value)
            if dut.m_fence_valid.value == 1:
                self.fences.append(int(dut.m_fence_id.value))
            if not self.predicts:
                continue
            if dut.s_outcome_valid.value == 1 and dut.s_outcome_ready.value == 1:
                ack = INTERNAL.send_outcome.unpack(int(dut.s_outcome_data.value))
                number = self.number(ack.msg_id)
                message = self.open.get(number)
                if message:
                    del self.open[number]
                    self.expect(message, ack.status)
            if dut.s_done_valid.value == 1 and dut.s_done_ready.value == 1:
                raw = INTERNAL.tx_msg.unpack(int(dut.s_done_msg.value))
                if raw.kind == BARRIER:
                    self.wanted_fences.append(raw.fence)
                else:
                    self.expect(vars(raw), raw.status)

    def _completion(self, beat):
        if self.predicts:
            assert self.expected, f"unexpected completion: {INTERNAL.cpl.unpack(beat['data'])}"
            assert beat["data"] == self.expected.popleft()
        self.came.append(INTERNAL.cpl.unpack(beat["data"]))
        assert beat["srd"] == self.live[self.places[self.came[-1].qpn]]["srd"]
        self.completed[self.places[self.came[-1].qpn]] += 1


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0), (0.5, 0.3)])
async def acknowledged_sends_complete(dut, pace):
    """transport.send_tracker.ack: Acknowledged sends complete, in any order and with any status,
    among completions of sent messages."""
    bench = Bench(dut, *pace)
    await bench.start()
    for _ in range(12):
        messages = [bench.message(bench.rng.randrange(QUEUES)) for _ in range(20)]
        numbers = await bench.send(*messages)
        pairs = list(zip(numbers, messages, strict=True))
        bench.rng.shuffle(pairs)
        for number, message in pairs[3:]:
            bench.ack(number, message, bench.rng.choice((OK, bench.rng.getrandbits(8))))
            if bench.rng.random() < 0.4:
                message = bench.message(bench.rng.randrange(QUEUES))
                bench.left(message, bench.rng.choice((OK, bench.rng.getrandbits(8))))
            if bench.rng.random() < 0.1:
                bench.left(bench.message(0, fence=bench.rng.getrandbits(1)), kind=BARRIER)
    await bench.settle()
    assert bench.freed == 12 * 17
    assert bench.counts() == bench.completed and all(bench.completed)


@cocotb.test()
async def foreign_acknowledgements_are_dropped(dut):
    """transport.send_tracker.stranger: Outcomes of a context that is free or has another
    generation, and duplicates, are dropped."""
    bench = Bench(dut)
    await bench.start()
    messages = [bench.message(number % 4) for number in range(1 << LIMITS.msg_w)]
    numbers = await bench.send(*messages)
    # Without a scan, destroyed handles and a scan set flush nothing.
    bench.handles(gone={message["ah"] for message in messages})
    bench.scan_set = set(bench.qpns)
    some = bench.rng.sample(range(len(messages)), 8)
    for at in some:
        number, message = numbers[at], messages[at]
        # These bits change the context to a free one, or the generation.
        for bit in range(LIMITS.msg_w, 32):
            bench.ack(number, message, msg_id=bench.id(number) ^ 1 << bit)
    await bench.silent()
    assert bench.freed == 0
    # The second acknowledgement of each is a duplicate, in the next cycle or later.
    for at in some:
        bench.ack(numbers[at], messages[at])
        bench.ack(numbers[at], messages[at])
    for at in some:
        bench.ack(numbers[at], messages[at])
    await bench.settle()
    assert bench.txc.consumed == bench.freed == len(some)


@cocotb.test()
async def flush_in_posting_order(dut):
    """transport.send_tracker.flush: A scan flushes the queues of its set in posting order across
    the wrap of the contexts; other sends stay."""
    bench = Bench(dut, 0.4)
    await bench.start()
    old = bench.message(5)
    (keep,) = await bench.send(old)
    # Nearly one wrap of the contexts, so that the next sends lie on both sides of the wrap.
    for _ in range(20):
        messages = [bench.message(bench.rng.randrange(3)) for _ in range(101)]
        for number, message in zip(await bench.send(*messages), messages, strict=True):
            bench.ack(number, message)
        await bench.settle()
    messages = [bench.message(bench.rng.randrange(4)) for _ in range(60)]
    numbers = await bench.send(*messages)
    assert numbers[0] < CONTEXTS < numbers[-1] and CONTEXTS + keep not in numbers
    for number, message in zip(numbers, messages, strict=True):
        if bench.place(message) in (1, 3):
            del bench.open[number]
            bench.expect(message, FLUSHED)
    await bench.scan([1, 3])
    await bench.settle()
    for number, message in [*zip(numbers, messages, strict=True), (keep, old)]:
        bench.ack(number, message)
    await bench.settle()
    assert not bench.open


@cocotb.test()
async def flush_of_sends_that_the_circle_passed(dut):
    """transport.send_tracker.flush.old: Sends that stayed outstanding over several wraps of the
    contexts are flushed in posting order."""
    bench = Bench(dut)
    await bench.start()
    old, handles = {}, spread(bench.rng, LIMITS.ah_w, 3)
    for turn in range(7):
        # Some sends of queues 1 and 2 stay outstanding, in other contexts in each wrap.
        mine = [bench.message(1 + (number & 1), ah=handles[number % 3]) for number in range(8)]
        old.update(zip(await bench.send(*mine), mine, strict=True))
        for _ in range(2):
            others = [bench.message(0) for _ in range(bench.rng.randrange(N // 2, N - 99))]
            for number, message in zip(await bench.send(*others), others, strict=True):
                bench.ack(number, message)
            await bench.settle()
        if turn == 4:
            for number in list(old)[3:20:5]:
                bench.ack(number, old.pop(number))
            await bench.settle()
    assert len({number // CONTEXTS for number in old}) > 3
    # First a destroyed handle, then one queue, then the other.
    bench.handles(gone=[handles[1]])
    for gone, queues in ((handles[1], ()), (None, (1,)), (None, (2,)), (None, (0,))):
        for number, message in sorted(old.items()):
            if message["ah"] == gone or bench.place(message) in queues:
                del bench.open[number], old[number]
                bench.expect(message, FLUSHED)
        await bench.scan(queues)
        await bench.settle()
    assert not old and not bench.open
    # No old send is left, so a scan has its normal length.
    moments = Moments(dut, "s_scan_valid", "s_scan")
    await bench.scan([3])
    await ClockCycles(dut.clk, 2)
    assert (
        moments.latency("s_scan_valid", "s_scan") < 2 * timing("efa_send_tracker", "scan").latency
    )


async def advance(bench, count):
    """Moves the allocation forward by `count` contexts: sends of queue 0 that are cancelled, in one
    pass over the contexts."""
    message = bench.message(0)
    numbers = await bench.send(*[message] * count)
    row = timing("efa_msg_id_alloc", "skip").depth
    rows = {number % CONTEXTS // row for number in bench.open}
    for number in numbers:
        del bench.open[number]
    first = cycle() + 1
    await bench.cancel(0)
    one = timing("efa_send_tracker", "scan").latency + (row - 1) * (1 + len(rows))
    assert cycle() - first <= one, "more than one pass"


@cocotb.test()
async def flush_over_many_generations(dut):
    """transport.send_tracker.flush.generations: Sends that stayed outstanding over up to ten wraps
    of the contexts, and through the wrap of the ids, are flushed in posting order, one pass for
    each generation."""
    bench = Bench(dut)
    await bench.start()
    rng, old = bench.rng, {}
    moments = Moments(dut, "s_scan_valid", "s_scan")
    for turn in range(25):
        await advance(bench, rng.randrange(700, N - 32))
        mine = [bench.message(rng.choice((1, 2, 3, 4))) for _ in range(6)]
        old.update(zip(await bench.send(*mine), mine, strict=True))
        # Queue 4 stays outstanding until the end.
        if turn % 3 < 2 and turn != 24:
            continue
        queues = range(1, 5) if turn == 24 else rng.sample(range(1, 4), rng.randrange(1, 3))
        start, rows = bench.given[-1][0] + 1, {number % CONTEXTS // 32 for number in old}
        generations = set()  # of the sends out of place
        for number, message in sorted(old.items()):
            if bench.place(message) in queues:
                del bench.open[number], old[number]
                bench.expect(message, FLUSHED)
                if number < start - CONTEXTS:
                    generations.add(number // CONTEXTS)
        moments.clear()
        await bench.scan(queues)
        await bench.settle()
        # A pass finds sends out of place, two for each of their generations, one for the others.
        passes = 2 * len(generations) + 2
        one = timing("efa_send_tracker", "scan").latency + 31 * (1 + len(rows))
        assert moments.latency("s_scan_valid", "s_scan") <= passes * one
    assert not old and not bench.open


@cocotb.test()
@cocotb.parametrize(busy=["", "s_done", "s_outcome"])
async def a_scan_without_old_sends_has_one_pass(dut, busy):
    """transport.send_tracker.scan.again: When no send out of place is left, the first scan finds
    this, beside any traffic, and the next scan has its normal length."""
    bench = Bench(dut)
    await bench.start()
    old = bench.message(1)
    [number] = await bench.send(old)
    for _ in range(3):
        await advance(bench, CONTEXTS // 3 + 9)
    bench.ack(number, old)
    await bench.settle()
    # Neither a fence nor an acknowledgement without a send causes a completion.
    for _ in range(400):
        if busy == "s_done":
            bench.left(bench.message(2, fence=bench.rng.getrandbits(1)), kind=BARRIER)
        elif busy == "s_outcome":
            bench.ack(number, old)
    await bench.scan([3])
    await bench.settle()
    moments = Moments(dut, "s_scan_valid", "s_scan")
    await bench.scan([3])
    await ClockCycles(dut.clk, 2)
    one = timing("efa_send_tracker", "scan").latency + timing("efa_msg_id_alloc", "skip").depth - 1
    assert moments.latency("s_scan_valid", "s_scan") <= one


@cocotb.test()
async def a_scan_among_new_sends_spares_other_queues(dut):
    """transport.send_tracker.scan.new: A scan that meets sends as they start, in contexts that its
    queue used before, flushes none of another queue."""
    bench = Bench(dut)
    await bench.start()
    for _ in range(3):
        await advance(bench, CONTEXTS // 3 + 9)
    for turn in range(12):
        messages = [bench.message(bench.rng.randrange(1, QUEUES)) for _ in range(60)]
        before = len(bench.given)
        bench.give.extend(messages)
        await ClockCycles(dut.clk, 2 + turn)
        await bench.scan([0])
        await until(dut, lambda: not bench.give, "contexts")
        await bench.settle()
        for number, message in bench.given[before:]:
            bench.ack(number, message)
        await bench.settle()
        assert not bench.open


@cocotb.test()
async def a_scan_begins_at_each_place_of_a_row(dut):
    """transport.send_tracker.scan: A scan that finds no context in use has its specified length,
    with 31 cycles more inside a row."""
    bench = Bench(dut)
    await bench.start()
    moments = Moments(dut, "s_scan_valid", "s_scan")
    latency = timing("efa_send_tracker", "scan").latency
    row = timing("efa_msg_id_alloc", "skip").depth
    for place in range(2 * row):
        moments.clear()
        await bench.scan([1])
        await ClockCycles(dut.clk, 2)
        expected = latency + (row - 1 if place % row else 0)
        assert moments.latency("s_scan_valid", "s_scan") == expected, place
        message = bench.message(1)
        [number] = await bench.send(message)
        assert number == place
        bench.ack(number, message)
        await bench.settle()


@cocotb.test()
@cocotb.parametrize(others=[0, 40])
async def a_scan_beside_other_traffic_skips_no_context(dut, others):
    """transport.send_tracker.scan.busy: With an acknowledgement in every cycle, and completions of
    sent messages in most, a scan still flushes every send of its set."""
    bench = Bench(dut, predicts=False)
    await bench.start()
    messages = [bench.message(1 + number % 2) for number in range(40)]
    numbers = await bench.send(*messages)
    for _ in range(600):
        # Matches no send.
        bench.ack(numbers[0], messages[0], msg_id=bench.id(numbers[0]) ^ 1 << 31)
    for _ in range(others):
        bench.left(bench.message(3))
    await bench.scan([1])
    await ClockCycles(dut.clk, 20)
    flushed = [one.req_id for one in bench.came if one.status == FLUSHED]
    assert flushed == [one["req_id"] for one in messages if bench.place(one) == 1]
    assert len(bench.came) == len(flushed) + others


@cocotb.test()
@cocotb.parametrize(half=[0, 1])
async def a_send_in_the_cycle_of_a_scan(dut, half):
    """transport.send_tracker.scan.now: A send that starts in the cycle in which a scan begins is
    flushed if its own queue is in the set; other queues differ in one bit of their number."""
    width = len(dut.s_cancel_qpn)
    qpn = spread(rng_for("now"), width, 2)[half]
    bench = Bench(dut, qpns=[qpn, *(qpn ^ 1 << bit for bit in range(width))])
    await bench.start()
    for place in [0] * 4 + list(bench.queues):
        message = bench.message(place)
        if place == 0:
            bench.expect(message, FLUSHED)
        sent = cocotb.start_soon(bench.send(message))
        await bench.scan([0])
        [number] = await sent
        if place == 0:
            del bench.open[number]
        else:
            bench.ack(number, message)
        await bench.settle()
        assert not bench.open


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0), (0.4, 0.3)])
async def flush_among_other_completions(dut, pace):
    """transport.send_tracker.flush.busy: Scans, acknowledgements and completions of sent messages
    collide: each send completes once, flushed sends in posting order, and only sends of the set are
    flushed."""
    bench = Bench(dut, *pace, predicts=False)
    await bench.start()
    rng, down = bench.rng, (1, 3)
    sent = {}  # number: message
    # Some sends stay outstanding over two wraps of the contexts.
    wraps = 0
    for _ in range(2):
        mine = [bench.message(1 + (number & 1)) for number in range(6)]
        sent.update(zip(await bench.send(*mine), mine, strict=True))
        for _ in range(3):
            others = [bench.message(0) for _ in range(CONTEXTS // 3)]
            for number in await bench.send(*others):
                bench.ack(number, bench.open.pop(number))
            wraps += len(others)
            await until(dut, lambda due=wraps: len(bench.came) == due, "acknowledged sends")
    freed = bench.freed
    fresh = [bench.message(rng.randrange(4)) for _ in range(120)]
    sent.update(zip(await bench.send(*fresh), fresh, strict=True))
    numbers = list(sent)
    rng.shuffle(numbers)
    # Some sends of each queue of the set have no acknowledgement before the scan.
    kept = [one for place in down
            for one in [one for one in numbers if bench.place(sent[one]) == place][:5]]  # fmt: skip
    numbers = [one for one in numbers if one not in kept] + kept
    gone = [bench.message(4) for _ in range(100)]
    for number, message in zip(numbers, gone, strict=False):
        bench.ack(number, sent[number])
        bench.left(message)
        for _ in range(8):
            # Matches no send, but uses a slot.
            bench.ack(number, sent[number], msg_id=bench.id(number) ^ 1 << rng.randrange(16, 32))
    late = [bench.message(5) for _ in range(40)]
    bench.give.extend(late)
    await bench.scan(down)
    await consumed(bench.acks)
    await consumed(bench.done)
    await until(dut, lambda: not bench.give, "contexts")
    await ClockCycles(dut.clk, 50)
    scanned = {one.req_id for one in bench.came[wraps:] if bench.places[one.qpn] in down}
    assert scanned == {one["req_id"] for one in sent.values() if bench.place(one) in down}
    for number, message in bench.given[-len(late):] + [(one, sent[one]) for one in numbers]:
        bench.ack(number, message)
    await consumed(bench.acks)
    await ClockCycles(dut.clk, 50)
    came = [(one.qp_num, one.req_id, one.status) for one in bench.came[wraps:]]
    for message in (*sent.values(), *gone, *late):
        mine = [status for qp, req, status in came
                if (qp, req) == (message["qp_num"], message["req_id"])]  # fmt: skip
        assert mine in ([OK], [FLUSHED] if bench.place(message) in down else [OK]), message
    for place in down:
        order = [one["req_id"] for one in sent.values() if bench.place(one) == place]
        mine = bench.qp_nums[place], FLUSHED
        flushed = [req for qp, req, status in came if (qp, status) == mine]
        assert 0 < len(flushed) < len(order)
        assert flushed == [req for req in order if req in flushed]
    assert len(came) == len(sent) + len(gone) + len(late)
    assert bench.freed - freed == len(sent) + len(late)
    assert bench.counts() == bench.completed


@cocotb.test()
async def sends_of_a_destroyed_handle_flush(dut):
    """transport.send_tracker.stale: A scan flushes the sends of each handle whose generation
    differs from the current one in any bit, and no other."""
    bench = Bench(dut)
    await bench.start()
    handles = list(range(len(bench.gens)))
    for turn in range(4):
        bench.rng.shuffle(handles)
        # No send is outstanding: every bit of a generation has both values.
        if turn:
            bench.gens = [gen ^ 15 if turn % 2 else bench.rng.getrandbits(4) for gen in bench.gens]
            bench.handles()
        messages = [bench.message(bench.rng.randrange(QUEUES), ah=ah) for ah in handles]
        numbers = await bench.send(*messages)
        gone = set(bench.rng.sample(handles, 40))
        for ah in gone:
            bench.gens[ah] ^= 1 << bench.rng.randrange(4)
        bench.handles()
        freed = bench.freed
        for number, message in zip(numbers, messages, strict=True):
            if message["ah"] in gone:
                del bench.open[number]
                bench.expect(message, FLUSHED)
        await bench.scan()
        await bench.settle()
        assert bench.freed - freed == len(gone)
        for number, message in zip(numbers, messages, strict=True):
            bench.ack(number, message)
        await bench.settle()
    assert bench.txc.consumed == 4 * len(handles)


@cocotb.test()
@cocotb.parametrize(half=[0, 1])
async def cancelled_sends_are_cancelled(dut, half):
    """transport.send_tracker.cancel: A cancel frees the contexts of a queue without completion or
    count; other sends stay."""
    width = len(dut.s_cancel_qpn)
    # The other queues differ from the cancelled one in one bit.
    qpn = spread(rng_for("cancelled"), width, 2)[half]
    bench = Bench(dut, 0.5, qpns=[qpn, *(qpn ^ 1 << bit for bit in range(width))])
    await bench.start()
    messages = [bench.message(number % (width + 1)) for number in range(8 * (width + 1))]
    numbers = await bench.send(*messages)
    for number, message in zip(numbers, messages, strict=True):
        if message["qpn"] == qpn:
            del bench.open[number]
    # A handle that is gone and a scan set are for the flush only.
    bench.handles(gone=[message["ah"] for message in messages])
    bench.scan_set = set(bench.qpns)
    await bench.cancel(0)
    await ClockCycles(dut.clk, 5)
    assert bench.freed == 8 and bench.txc.consumed == 0
    for number, message in zip(numbers, messages, strict=True):
        bench.ack(number, message)
    await bench.settle()
    assert bench.counts() == [0] + [8] * width


@cocotb.test()
async def dead_queues_complete_nothing(dut):
    """transport.send_tracker.dead: Sends of a QP that is destroyed, in RESET or recreated complete
    nothing, and their contexts are freed."""
    bench = Bench(dut)
    await bench.start()
    bench.live[1]["live"] = 0
    bench.live[2]["state"] = AdminQpState.RESET
    messages = [bench.message(place) for place in range(4)]
    for number, message in zip(await bench.send(*messages), messages, strict=True):
        bench.ack(number, message)
        bench.left(message)
    await bench.settle()
    assert bench.freed == 4 and bench.counts()[:4] == [2, 0, 0, 2]
    for bit in range(16):
        bench.live[3]["qp_num"] ^= 1 << bit
        bench.left(bench.message(3))
        await bench.settle()
        bench.live[3]["qp_num"] ^= 1 << bit
    assert bench.counts()[3] == 2
    # A completion in each state.
    for state in AdminQpState:
        bench.live[4]["state"] = state
        bench.left(bench.message(4))
        await bench.settle()
    assert bench.counts()[4] == len(ALIVE)


@cocotb.test()
async def as_many_open_as_may_be(dut):
    """transport.send_tracker.full: The specified number of sends can be outstanding; a freed
    context is reused one wrap later."""
    bench = Bench(dut)
    await bench.start()
    messages = [bench.message(number % QUEUES) for number in range(N)]
    waits = deque(zip(await bench.send(*messages), messages, strict=True))
    assert len(waits) == N
    given = [number for number, _ in waits]
    for _ in range(3 * N):
        bench.ack(*waits.popleft())
        await consumed(bench.acks)
        message = bench.message(bench.rng.randrange(QUEUES))
        [number] = await bench.send(message)
        waits.append((number, message))
        given.append(number)
    # No context was skipped, and no id was used twice.
    assert given == list(range(4 * N))
    old, message = given[77], messages[77]
    bench.ack(old, message)
    await bench.silent()


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0), (0.3, 0.2)])
async def held_contexts_are_not_reused(dut, pace):
    """transport.send_tracker.contexts: A context that is held is not used again, although its send
    has ended; each send still completes once, and a scan flushes in posting order."""
    bench = Bench(dut, *pace)
    await bench.start()
    rng, waits, most = bench.rng, {}, 0
    for turn in range(16):
        bench.hold = (0.9, 0.3, 0.0)[turn // 4 % 3]
        messages = [bench.message(rng.randrange(QUEUES)) for _ in range(rng.randrange(100, 500))]
        waits.update(zip(await bench.send(*messages), messages, strict=True))
        for number in rng.sample(list(waits), max(len(waits) - 40, 0)):
            bench.ack(number, waits.pop(number))
        await bench.settle()
        ended = bench.held - {number % CONTEXTS for number in bench.open}
        most = max(most, len(ended))
        # As many contexts may be held as leave one for each outstanding send.
        spare = max(len(bench.held) - N // 2, 0)
        bench.drop(*rng.sample(sorted(bench.held), max(spare, len(bench.held) // 8)))
        if turn % 5 == 4:
            place = rng.randrange(QUEUES)
            for number, message in sorted(waits.items()):
                if bench.place(message) == place:
                    del bench.open[number], waits[number]
                    bench.expect(message, FLUSHED)
            await bench.scan([place])
            await bench.settle()
    assert bench.given[-1][0] > CONTEXTS and most > N // 8


@cocotb.test()
async def one_context_is_not_held(dut):
    """transport.send_tracker.contexts: With all contexts but one held, sends follow each other
    through this one; with all of them held, a send waits until one is dropped."""
    bench = Bench(dut)
    await bench.start()
    bench.hold = 1.0
    for _ in range(4):
        messages = [bench.message(0) for _ in range(CONTEXTS // 4)]
        for number, message in zip(await bench.send(*messages), messages, strict=True):
            bench.ack(number, message)
        await bench.settle()
    assert len(bench.held) == CONTEXTS
    bench.hold, free = 0.0, bench.rng.sample(range(CONTEXTS), 8)
    for place in free:
        before, message = len(bench.given), bench.message(1)
        bench.give.append(message)
        await ClockCycles(dut.clk, 40)
        assert len(bench.given) == before and dut.m_ctx_free.value == 0
        bench.drop(place)
        await until(dut, lambda: not bench.give, "the context")
        for _ in range(3):
            number, message = bench.given[-1]
            assert number % CONTEXTS == place
            bench.ack(number, message)
            await bench.settle()
            await bench.send(bench.message(1))
        number, message = bench.given[-1]
        bench.held.add(place)
        bench.ack(number, message)
        await bench.settle()


@cocotb.test()
async def counts_wrap(dut):
    """transport.send_tracker.wrap: One completion per cycle; the completed count of a queue wraps
    at 65,536."""
    bench = Bench(dut, predicts=False)
    await bench.start()
    bench.txc._task.cancel()
    dut.m_txc_ready.value = 1
    bench.index.update((bench.qpns[4], 65536 - 300))
    dut.s_done_msg.value = bench.packed(bench.message(4, kind=DONE))
    dut.s_done_valid.value = 1
    await ClockCycles(dut.clk, 305)
    dut.s_done_valid.value = 0
    await ClockCycles(dut.clk, 10)
    assert bench.counts() == [0, 0, 0, 0, 5, 0]


@cocotb.test()
async def cycles(dut):
    """transport.send_tracker.time: Completions, acknowledgements and scans meet their specified
    cycles."""
    bench = Bench(dut)
    await bench.start()
    moments = Moments(dut, "s_done", "s_outcome", "m_txc", "s_scan_valid", "s_scan")
    for _ in range(20):
        bench.left(bench.message(0))
    await bench.settle()
    moments.hold("efa_send_tracker", "done", "s_done", "m_txc")
    moments.clear()
    messages = [bench.message(number % 3) for number in range(20)]
    for number, message in zip(await bench.send(*messages), messages, strict=True):
        bench.ack(number, message)
    await bench.settle()
    moments.hold("efa_send_tracker", "ack", "s_outcome", "m_txc")
    # The next context is the first of a row, so each step of the scan covers a row.
    messages = [bench.message(0) for _ in range(12)]
    for number, message in zip(await bench.send(*messages), messages, strict=True):
        bench.ack(number, message)
    assert (number + 1) % timing("efa_msg_id_alloc", "skip").depth == 0
    await bench.settle()
    await bench.scan([1])
    await ClockCycles(dut.clk, 2)
    moments.hold("efa_send_tracker", "scan", "s_scan_valid", "s_scan")


@cocotb.test()
async def reset_in_the_middle_of_traffic(dut):
    """transport.send_tracker.reset: A reset discards outstanding sends."""
    bench = Bench(dut, 0.5)
    await bench.start()
    for _ in range(3):
        messages = [bench.message(number % QUEUES) for number in range(30)]
        for number, message in zip(await bench.send(*messages), messages, strict=True):
            bench.ack(number, message)
        dut.s_scan_valid.value = 1
        await ClockCycles(dut.clk, 9)
        bench.acks.clear()
        bench.done.clear()
        dut.s_scan_valid.value = 0
        await reset(dut)
        bench.expected.clear()
        bench.open.clear()
        await bench.silent(5)
        before = bench.counts()
        message = bench.message(2)
        (number,) = await bench.send(message)
        bench.ack(number, message)
        await bench.settle()
        before[2] += 1
        assert bench.counts() == before


@cocotb.test()
async def acknowledgements_of_sends_before_a_reset(dut):
    """transport.send_tracker.epoch: Acknowledgements of sends before a reset complete nothing,
    although queue, peer and context are reused."""
    bench = Bench(dut)
    await bench.start()
    before = [bench.message(number % 2) for number in range(N - 5)]
    old = list(zip(await bench.send(*before), before, strict=True))
    await reset(dut)
    bench.open.clear()
    # The same queues send to the same nodes, from the same contexts.
    for number in range(CONTEXTS - len(old)):
        message = bench.message(number % 2)
        bench.ack(*await bench.send(message), message)
    await bench.settle()
    after = [bench.message(number % 2) for number in range(N)]
    new = list(zip(await bench.send(*after), after, strict=True))
    assert {number % CONTEXTS for number, _ in old} < {number % CONTEXTS for number, _ in new}
    for number, message in old:
        bench.ack(number, message)
    await bench.silent()
    for number, message in new:
        bench.ack(number, message)
    await bench.settle()
    assert bench.txc.consumed == CONTEXTS - len(old) + N


@cocotb.test()
async def an_old_acknowledgement_meets_a_new_send(dut):
    """transport.send_tracker.late: The acknowledgement of a flushed send completes nothing in the
    cycles around the next use of its context."""
    bench = Bench(dut)
    await bench.start()
    for offset in range(-3, 4):
        old = bench.message(1)
        [number] = await bench.send(old)
        bench.expect(bench.open.pop(number), FLUSHED)
        await bench.scan([1])
        await bench.settle()
        # The allocation wraps to the context of the flushed send.
        for _ in range(23):
            others = [bench.message(2) for _ in range(CONTEXTS // 23)]
            for other, taken_id in zip(others, await bench.send(*others), strict=True):
                bench.ack(taken_id, other)
            await bench.settle()
        new = bench.message(3)
        sent = cocotb.start_soon(bench.send(new)) if offset >= 0 else None
        await ClockCycles(dut.clk, abs(offset))
        bench.ack(number, old)
        if offset < 0:
            await ClockCycles(dut.clk, -offset)
            sent = cocotb.start_soon(bench.send(new))
        [again] = await sent
        assert again == number + CONTEXTS
        await bench.silent()
        bench.ack(again, new)
        await bench.settle()


@cocotb.test()
async def a_host_that_takes_nothing(dut):
    """transport.send_tracker.held: With completions stalled, acknowledgements and a flush never
    wait; other completions wait at their specified depth."""
    held = {"on": True}
    bench = Bench(dut, lambda: held["on"])
    await bench.start()
    moments = Moments(dut, "s_outcome", "m_txc")
    messages = [bench.message(number % QUEUES) for number in range(N - 1)]
    pairs = list(zip(await bench.send(*messages), messages, strict=True))
    bench.rng.shuffle(pairs)
    flushed = [pair for pair in pairs if bench.place(pair[1]) == 5]
    acked = [pair for pair in pairs if bench.place(pair[1]) != 5]
    for number, message in acked:
        bench.ack(number, message)
    await consumed(bench.acks)
    assert moments.intervals("s_outcome") == {1}
    await ClockCycles(dut.clk, 4)
    for number, message in sorted(flushed):
        del bench.open[number]
        bench.expect(message, FLUSHED)
    await bench.scan([5])
    # Two completions are behind the buffer; all others still count as outstanding sends.
    assert bench.freed == 2 and bench.txc.consumed == 0 and not bench.open
    for _ in range(N + 40):
        bench.left(bench.message(bench.rng.randrange(QUEUES)))
    bench.left(bench.message(0, fence=1), kind=BARRIER)
    depth = timing("efa_send_tracker", "rest").depth
    await ClockCycles(dut.clk, 2 * N)
    assert bench.done.sent == depth and bench.fences == []
    assert bench.counts() == [0] * QUEUES
    held["on"] = False
    await bench.settle()
    assert bench.txc.consumed == 2 * N + 39 and bench.freed == N - 1
    assert moments.intervals("m_txc") == {1}
    # The buffer has the same depth again, filled with gaps.
    held["on"], before = True, bench.done.sent
    busy = bench.rng.random
    bench.done._pause = lambda: busy() < 0.3
    for _ in range(N + 40):
        bench.left(bench.message(bench.rng.randrange(QUEUES)))
    await ClockCycles(dut.clk, 2 * N)
    # Two more completions are behind the buffer; one may be under way when the count begins.
    assert depth + 1 <= bench.done.sent - before <= depth + 2
    held["on"] = False
    await bench.settle()
