# SPDX-License-Identifier: Apache-2.0
"""Tests efa_read_table: a response is found once, and only for bytes that its read requested."""

from collections import Counter
from dataclasses import dataclass, field

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import INTERNAL
from tb.lib.dont_care import dont_care
from tb.lib.stream import StreamDriver, clock_and_reset, cycle, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import hold, pulse, zero
from tb.unit.data_bench import Moments, consumed

CTX, MORE, LOOK = INTERNAL.read_ctx, INTERNAL.read_more, INTERNAL.read_look
REQUEST = 1 << 16
PIECE = 1 << 12
SLOTS = 4
MTUS = (4096, 4097, 8192, 8928, 16_383)


@dataclass(eq=False)
class Read:
    """A read with its requests.

    - `made`: requests that were made; `slots`: number, bytes and begun pieces of the latest four
    - `coming`: (offset, bytes) of responses that were not generated; `came`: those that were
    """

    fields: dict
    mtu: int
    made: int = 0
    slots: dict = field(default_factory=dict)
    coming: list = field(default_factory=list)
    came: list = field(default_factory=list)

    @property
    def id(self):
        return self.fields["id"]

    @property
    def total(self):
        return self.fields["total"]

    def count(self, number):
        """Returns the bytes of a request."""
        return max(0, min(REQUEST, self.total - number * REQUEST))

    @property
    def requests(self):
        return max(1, -(-self.total // REQUEST))

    def plan(self, number):
        """Adds the responses of a request to the coming ones."""
        for at in range(0, self.count(number), self.mtu):
            size = min(self.mtu, self.count(number) - at)
            self.coming.append((number * REQUEST + at, size))

    def request(self):
        """Takes the next request."""
        self.slots[self.made % SLOTS] = (self.made, self.count(self.made), set())
        self.made += 1

    def find(self, offset, size):
        """Returns True if a response is one of this read; it is not found again."""
        number, at = divmod(offset, REQUEST)
        made, count, begun = self.slots.get(number % SLOTS, (None, 0, set()))
        piece = at // PIECE
        if made != number or at >= count or at + size > count or piece in begun:
            return False
        begun.add(piece)
        return True


class Bench:
    """Begins and ends reads, makes requests, looks up responses; checks each look.

    - `begins`: share of cycles in which a read begins, if a context is free
    - `ends`: share of cycles in which a read ends
    """

    def __init__(self, dut, name, gaps=0.0, begins=0.0, ends=0.0):
        self.dut, self.rng = dut, rng_for(name)
        self.width = int(dut.CTX_W.value)
        self.begins, self.ends = begins, ends
        self.generation = Counter()
        self.seen = Counter()
        zero(dut, "s_ctx_valid", "s_ctx_data", "s_ctx_used")
        self.more = StreamDriver(dut, "s_more", gaps, ["data"])
        self.looks = StreamDriver(dut, "s_look", gaps, ["data"])
        self.forget()

    def forget(self):
        """Forgets all reads, for a reset."""
        self.more.clear()
        self.looks.clear()
        self.reads = {}  # the latest read of each context
        self.past = []
        self.live = {}  # by context, those that have not ended
        self.asked = Counter()  # requests of a context that were not accepted
        self.starting = None
        self.used = 0
        self.shown = None
        zero(self.dut, "s_ctx_valid", "s_ctx_used")

    async def start(self):
        cocotb.start_soon(self._watch())
        await clock_and_reset(self.dut)

    # Stimulus.

    def fields(self, index, total):
        """Returns the fields of a new read."""
        self.generation[index] += self.rng.choice((1, 1, 1 << 20))
        ident = (self.generation[index] << self.width | index) & 0xFFFFFFFF
        return dont_care(CTX, self.rng, total=total, id=ident)

    def total(self):
        """Returns a length, often one around the bounds of pieces and requests."""
        rng = self.rng
        near = rng.choice((0, PIECE, 2 * PIECE, REQUEST, 2 * REQUEST, 4 * REQUEST, 5 * REQUEST))
        return max(0, rng.choice((near + rng.choice((-1, 0, 1)), rng.randrange(7 * REQUEST),
                                  rng.randrange(3 * PIECE))))  # fmt: skip

    def begin(self, index=None, total=None, mtu=None):
        """Begins a read in the next cycle, in a context that is not used."""
        rng = self.rng
        if index is None:
            # Rather that of the present look, then one of the past.
            often = [one for one in self.reads if rng.random() < 0.2]
            often.append(rng.getrandbits(self.width))
            if self.looks.waiting:
                look = LOOK.unpack(self.looks.waiting[0]["data"])
                often.insert(0, look.id % (1 << self.width))
            index = next((one for one in often if one not in self.live and not self.asked[one]), -1)
            if index < 0:
                return None
        read = Read(self.fields(index, self.total() if total is None else total),
                    rng.choice(MTUS) if mtu is None else mtu)  # fmt: skip
        self.live[index] = read
        self.starting = read
        self.dut.s_ctx_valid.value = 1
        self.dut.s_ctx_data.value = CTX.pack(**read.fields)
        return read

    def end(self, index):
        """Ends a read from the next cycle on."""
        self.used &= ~(1 << index)
        self.dut.s_ctx_used.value = self.used
        self.past.append(self.live.pop(index))
        del self.past[:-20]

    def ask(self, read):
        """Makes the next request of a read."""
        index = read.id % (1 << self.width)
        number = read.made + self.asked[index]
        self.asked[index] += 1
        self.more.post({"data": MORE.pack(index=index, slot=number % SLOTS,
                                          count=read.count(number))})  # fmt: skip

    def look(self, read, offset, size, **other):
        """Looks up a response."""
        fields = {"id": read.id, "node": read.fields["node"], "qp_num": read.fields["qp_num"]}
        self.looks.post({"data": LOOK.pack(**(fields | {"offset": offset, "bytes": size} | other))})

    def coming(self, read):
        """Looks up a response of a read in progress that did not come before."""
        if read.coming:
            one = read.coming.pop(self.rng.randrange(len(read.coming)))
            read.came.append(one)
            self.look(read, *one)

    def wrong(self, read):
        """Looks up a response that is likely not one of the read."""
        rng = self.rng
        offset, size = rng.choice(read.coming + read.came or [(0, 64)])
        number = offset // REQUEST
        end = min(read.total, (number + 1) * REQUEST)
        kind = rng.choice(("node", "qp", "id", "index", "again", "piece", "beyond", "after", "end",
                           "unasked", "past", "inside", "empty"))  # fmt: skip
        bit = 1 << rng.randrange(16)
        match kind:
            case "node":
                self.look(read, offset, size, node=read.fields["node"] ^ bit)
            case "qp":
                self.look(read, offset, size, qp_num=read.fields["qp_num"] ^ bit)
            case "id":
                self.look(read, offset, size, id=read.id ^ 1 << rng.randrange(self.width, 32))
            case "index":
                self.look(read, offset, size, id=read.id ^ 1 << rng.randrange(self.width))
            case "again" if read.came:
                self.look(read, *rng.choice(read.came))
            case "piece" if read.came:
                at = rng.choice(read.came)[0] // PIECE * PIECE + rng.randrange(PIECE)
                self.look(read, at, 1)
            case "beyond":
                over = rng.choice((1, rng.randrange(1, 5000)))
                self.look(read, offset, min(end - offset + over, 0xFFFF))
            case "after":
                over = rng.choice((0, 1, rng.randrange((1 << 32) - read.total)))
                self.look(read, min(read.total + over, 0xFFFFFFFF), rng.choice((0, 1, size)))
            case "end" if offset < end and end - offset <= 0xFFFF:
                # All bytes up to the end of the request.
                self.look(read, offset, end - offset)
            case "unasked" if read.made < SLOTS:
                # No request of its slot was made before.
                at = rng.randrange(read.made, SLOTS) * REQUEST + rng.randrange(REQUEST)
                self.look(read, at, rng.choice((0, 1, PIECE)))
            case "past" if self.past:
                old = rng.choice(self.past)
                self.look(old, *rng.choice(old.coming + old.came or [(0, 64)]))
            case "inside" if read.coming:
                at = rng.choice(read.coming)[0] // PIECE * PIECE + rng.randrange(PIECE)
                self.look(read, at, rng.randrange(64))
            case "empty":
                self.look(read, offset, 0)
            case _:
                return
        self.seen[kind] += 1

    def step(self, wrong=0.4):
        """Generates one response or request of a random read."""
        rng = self.rng
        if not self.live:
            return
        read = rng.choice(list(self.live.values()))
        index = read.id % (1 << self.width)
        if read is self.starting or not read.made:
            return
        following = read.made + self.asked[index]
        first = read.slots.get(following % SLOTS, (0, 0, set()))[0]
        # The slot of the next request is free: all responses of its last one have come.
        if following < read.requests and rng.random() < 0.3 and (
                following < SLOTS or not any(at // REQUEST == first for at, _ in read.coming)
                and not self.looks.waiting):  # fmt: skip
            self.ask(read)
        elif rng.random() < wrong:
            self.wrong(read)
        else:
            self.coming(read)

    async def run(self, looks):
        """Runs random reads until so many responses were looked up."""
        most = self.seen["looks"] + looks
        while self.seen["looks"] < most:
            await RisingEdge(self.dut.clk)
            if len(self.looks.waiting) < 3 and len(self.more.waiting) < 2:
                self.step()
        await self.settle()

    async def settle(self):
        await consumed(self.looks)
        await consumed(self.more)
        await ClockCycles(self.dut.clk, 3)

    # Reference.

    async def _watch(self):
        dut, rng = self.dut, self.rng
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value == 1:
                continue
            if dut.s_look_valid.value == 1:
                self._look()
            elif self.shown is not None:
                assert dut.m_read.value == self.shown, "m_read changes before the next look"
            if dut.s_more_valid.value == 1 and dut.s_more_ready.value == 1:
                assert dut.s_look_ready.value == 0, "a request and a look end together"
                more = MORE.unpack(int(dut.s_more_data.value))
                read = self.reads[more.index]
                read.plan(read.made)
                read.request()
                self.asked[more.index] -= 1
                self.seen["requests"] += 1
            if dut.s_ctx_valid.value == 1:
                self._begins()
            if self.starting is None and rng.random() < self.begins:
                self.begin()
            if self.live and rng.random() < self.ends:
                index = rng.choice(list(self.live))
                if self.live[index] is not self.starting and not self.asked[index]:
                    self.end(index)

    def _begins(self):
        """Takes the read that begins in this cycle."""
        dut, read = self.dut, self.starting
        index = read.id % (1 << self.width)
        looked_at = LOOK.unpack(int(dut.s_look_data.value)).id % (1 << self.width)
        self.seen["taken within a look"] += dut.s_look_valid.value == 1 and looked_at == index
        self.reads[index] = read
        read.request()
        read.plan(0)
        self.used |= 1 << index
        self.starting = None
        dut.s_ctx_used.value = self.used
        dut.s_ctx_valid.value = 0
        dut.s_ctx_data.value = self.rng.getrandbits(CTX.width)

    def _look(self):
        """Checks the end of a look."""
        dut = self.dut
        self.shown = None
        if dut.s_look_ready.value != 1:
            return
        look = LOOK.unpack(int(dut.s_look_data.value))
        read = self.reads.get(look.id % (1 << self.width))
        used = int(dut.s_ctx_used.value) >> look.id % (1 << self.width) & 1
        fits = read is not None and used == 1 and (
            (look.id, look.node, look.qp_num)
            == (read.id, read.fields["node"], read.fields["qp_num"]))  # fmt: skip
        wanted = fits and read.find(look.offset, look.bytes)
        found = dut.m_found.value == 1
        assert found == wanted, (
            f"cycle {cycle()}: found {found}, expected {wanted}: {look}, used {used}, {read}")
        self.seen["looks"] += 1
        self.seen["found" if found else "not found"] += 1
        if found:
            self.shown = CTX.pack(**read.fields)
            assert dut.m_read.value == self.shown, f"another read: {look}, {read}"


PACES = [(0.0, 0.02, 0.005), (0.6, 0.05, 0.01), (0.0, 0.3, 0.1)]


@cocotb.test()
@cocotb.parametrize(pace=PACES)
async def random_reads(dut, pace):
    """data.read_table.random: Of random responses of many reads, those are found that are of a read
    that has not ended, for bytes that were requested, and begin where none has begun before."""
    bench = Bench(dut, f"random {pace}", *pace)
    await bench.start()
    await bench.run(2500)
    seen = bench.seen
    assert seen["found"] > 200 and seen["not found"] > 200 and seen["requests"] > 10, seen


@cocotb.test()
async def all_responses_of_a_long_read(dut):
    """data.read_table.long: All responses of a read of many requests are found once each, in any
    order within its four latest requests."""
    bench = Bench(dut, "long")
    await bench.start()
    for mtu, total in ((16_383, 9 * REQUEST + 5), (4096, 5 * REQUEST), (8928, 6 * REQUEST - 1)):
        read = bench.begin(bench.rng.getrandbits(bench.width), total, mtu)
        await ClockCycles(dut.clk, 3)
        while read.coming or read.made < read.requests:
            oldest = min((at // REQUEST for at, _ in read.coming), default=read.made)
            if read.made < read.requests and read.made - oldest < SLOTS:
                bench.ask(read)
            else:
                bench.coming(read)
            await bench.settle()
        expected = sum(-(-read.count(number) // mtu) for number in range(read.requests))
        assert len(read.came) == expected == bench.seen["found"], bench.seen
        for one in bench.rng.sample(read.came[-8:], 8):
            bench.look(read, *one)
        await bench.settle()
        assert bench.seen["found"] == expected
        bench.end(read.id % (1 << bench.width))
        bench.seen.clear()


@cocotb.test()
async def bytes_that_were_not_requested(dut):
    """data.read_table.unasked: A response for bytes of a request that is not made yet, or of one
    whose responses have all come, is not found, whatever its slot holds."""
    bench = Bench(dut, "unasked")
    await bench.start()
    read = bench.begin(3, 9 * REQUEST, 8192)
    await ClockCycles(dut.clk, 3)
    for _ in range(9):
        for number in range(9):
            if not read.made - SLOTS <= number < read.made:
                bench.look(read, number * REQUEST + bench.rng.randrange(16) * PIECE, 64)
        await bench.settle()
        assert not bench.seen["found"], bench.seen
        while read.coming:
            bench.coming(read)
        await bench.settle()
        bench.seen.clear()
        if read.made < read.requests:
            bench.ask(read)
            await bench.settle()


@cocotb.test()
async def context_within_a_look(dut):
    """data.read_table.taken: A read that ends, or whose context is taken by a new read, in any
    cycle of a look is not found after it, and the new read has all of its bytes."""
    bench = Bench(dut, "taken")
    await bench.start()
    index = 5
    for size in (64, PIECE):
        for delay in range(1, 6):
            for takes in (False, True):
                old = bench.begin(index, size, PIECE)
                await ClockCycles(dut.clk, 4)
                if takes:
                    # Its send has ended just before.
                    bench.end(index)
                bench.coming(old)
                await ClockCycles(dut.clk, delay)
                new = None
                if takes:
                    new = bench.begin(index, size, PIECE)
                else:
                    bench.end(index)
                await bench.settle()
                if new is None:
                    new = bench.begin(index, size, PIECE)
                    await ClockCycles(dut.clk, 4)
                before = bench.seen["found"]
                bench.coming(new)
                await bench.settle()
                assert bench.seen["found"] == before + 1, f"{takes} after {delay} cycles"
                bench.end(index)
                await ClockCycles(dut.clk, 2)
    assert bench.seen["taken within a look"]


async def begin_reads(dut, lead, count):
    """Begins reads in `count` cycles, after `lead` cycles."""
    await ClockCycles(dut.clk, lead) if lead else None
    for _ in range(count):
        await pulse(dut, "s_ctx_valid", s_ctx_data=CTX.pack(id=9))


@cocotb.test()
async def reads_in_every_cycle(dut):
    """data.read_table.time: A look takes 3 cycles and a request 2, one of them at a time. Reads
    that begin at their end delay them by one cycle each."""
    inputs = {"s_look": ("look", LOOK.pack(id=1)), "s_more": ("request", MORE.pack(index=1))}
    zero(dut, "s_ctx_valid", "s_ctx_data", "s_ctx_used", "s_look_valid", "s_more_valid")
    await clock_and_reset(dut)
    for prefix, (path, data) in inputs.items():
        latency = timing("efa_read_table", path).latency
        for lead in range(4):
            for count in (0, 1, 2, 7):
                begins = cocotb.start_soon(begin_reads(dut, lead, count))
                first, last = await hold(dut, f"{prefix}_valid", f"{prefix}_ready",
                                         **{f"{prefix}_data": data})  # fmt: skip
                expected = lead + count if lead <= latency < lead + count else latency
                assert last - first == expected, f"{prefix}, {count} reads after {lead} cycles"
                await begins
                await ClockCycles(dut.clk, 2)
    moments = Moments(dut, "s_look", "s_more")
    for prefix, (path, data) in inputs.items():
        getattr(dut, f"{prefix}_data").value = data
        getattr(dut, f"{prefix}_valid").value = 1
        await ClockCycles(dut.clk, 40)
        zero(dut, f"{prefix}_valid")
        assert moments.intervals(prefix) == {timing("efa_read_table", path).interval}


@cocotb.test()
async def reset_in_the_middle_of_traffic(dut):
    """data.read_table.reset: A reset in any cycle of a look or of a request ends it."""
    bench = Bench(dut, "reset")
    await bench.start()
    for _ in range(12):
        bench.begins, bench.ends = 0.1, 0.02
        await bench.run(20)
        bench.begins = bench.ends = 0
        await ClockCycles(dut.clk, 2)
        for _ in range(4):
            bench.step()
        await ClockCycles(dut.clk, bench.rng.randrange(1, 6))
        dut.rst.value = 1
        await ClockCycles(dut.clk, 1)
        bench.forget()
        await reset(dut)
