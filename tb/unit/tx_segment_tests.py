# SPDX-License-Identifier: Apache-2.0
"""Tests efa_tx_segment: packets of long messages are posted one after the other, their outcomes are
joined to one, and contexts are held until no packet is or will be posted."""

from collections import Counter, deque
from dataclasses import dataclass, field

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import INTERNAL, IoCompStatus, PacketKind
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
from tb.lib.waits import drive, high, ticks, until, zero
from tb.unit.data_bench import Moments

OK, RNR = IoCompStatus.OK, IoCompStatus.REMOTE_ERROR_RNR
ABORT = IoCompStatus.REMOTE_ERROR_ABORT
BAD_ADDRESS = IoCompStatus.REMOTE_ERROR_BAD_ADDRESS
INTERNAL_ERROR = IoCompStatus.LOCAL_ERROR_QP_INTERNAL_ERROR
INVALID_LKEY = IoCompStatus.LOCAL_ERROR_INVALID_LKEY
UNRESPONSIVE = IoCompStatus.LOCAL_ERROR_UNRESP_REMOTE
ERRORS = [one for one in IoCompStatus if one not in (OK, IoCompStatus.FLUSHED, INTERNAL_ERROR)]
POST, NOTE, ACK = INTERNAL.srd_post, INTERNAL.srd_note, INTERNAL.send_outcome
PLACED, MORE = INTERNAL.read_placed, INTERNAL.read_more
PARTS = 1 << POST.fields["part"][1]
EMPTY = PARTS - 1  # number of a request of 0 bytes
WHOLE = 1 << 16  # bytes of a request, but the last
SLOTS = 4  # requests of a read whose bytes have not all been placed
TRACED = 12  # events of a message that a failure shows


@dataclass(eq=False)
class Message:
    """A message context with its part of the reference.

    - `response`: one of a read response; `rest`: of a read, bytes of its last request
    - `next`: its next packet; `posted`: the packet that is posted, until `popped_at`
    - `flights`: packets without an outcome that are not posted any more
    - `open`: packets without an outcome; `status`: the first error
    - `waiting`: its packet waits after RNR; `again`: it will be posted again
    - `used`: the send has not ended; `acked`: status of its outcome
    - `failed`: a second outcome may come, which has no effect
    - `left`: bytes that were not placed of each slot of requests; `due`: of each request that was
      sent, bytes that responses will bring; `placed_at`: when bytes came, or none was the reason
      of the last request of 0 bytes; `asks`, `stalls`: these requests, those without progress
    - `more`: the request that was announced, and its cycle
    """

    id: int
    node: int
    last: int
    waits: int
    response: bool
    read: bool
    rest: int
    next: int = 0
    posted: int | None = None
    popped_at: int = 0
    flights: list = field(default_factory=list)
    open: int = 0
    status: int = OK
    waiting: bool = False
    again: bool = False
    used: bool = False
    unused_at: int = 1 << 62
    acked: int | None = None
    failed: bool = False
    begun: bool = False
    left: list = field(default_factory=lambda: [0] * SLOTS)
    due: dict = field(default_factory=dict)
    placed_at: int = 0
    more: deque = field(default_factory=deque)
    more_at: int = 0
    asks: int = 0
    stalls: int = 0
    events: list = field(default_factory=list)

    @property
    def long(self):
        """Returns True if the message may have several packets."""
        return self.last > 0 or self.read

    def kind(self, part):
        """Returns what a packet is to its message."""
        if self.response:
            return PacketKind.RESPONSE
        alone = not self.long or (self.waits and part == self.last)
        return PacketKind.ALONE if alone else PacketKind.PART

    def bytes(self, part):
        """Returns the bytes of a request of a read."""
        return 0 if not self.read or part == EMPTY else self.rest if part == self.last else WHOLE

    @property
    def complete(self):
        """Returns True if no packet follows, and none is posted or without an outcome."""
        all_sent = self.next > self.last and not any(self.left)
        return not self.open and self.posted is None and bool(self.status or all_sent)

    def add(self, now, what):
        """Adds an event to those that a failure shows."""
        self.events.append((now, what))
        del self.events[:-TRACED]


class Bench:
    """Allocates contexts, holds posted packets, gives outcomes and ends messages.

    Checks each cycle what is posted, which outcomes leave, and which contexts are held.

    - `pop`: least and most cycles until a posted packet leaves
    - `end`: least and most cycles from the outcome of a message until its context is not used
    """

    def __init__(self, dut, name, gaps=0.0, post=0.0, ack=0.0, more=0.0, pop=(1, 12), end=(1, 20)):
        self.dut, self.rng = dut, rng_for(name)
        self.width = int(dut.CTX_W.value)
        self.count, self.nodes = 1 << self.width, 1 << int(dut.NODE_W.value)
        self.stalls = int(dut.READ_STALLS.value)
        self.most = int(dut.PACKETS.value)
        # Visits are rare beside the events whose cycles are measured.
        self.tick = 4 if self.count < 99 else 16
        self.period = int(dut.VISIT_TICKS.value) * self.tick * self.count
        # Reading many bits takes long: those of many contexts are not read in each cycle.
        self.held_each = 1 if self.count < 99 else 16
        self.pop, self.end_after = pop, end
        self.generation = [self.rng.getrandbits(32 - self.width) for _ in range(2 * self.count)]
        self.by_id, self.seen = {}, Counter()
        zero(dut, "s_ctx_used", "s_popped_valid", "s_popped_index")
        self.posts = StreamDriver(dut, "s_post", gaps, ["data"])
        self.notes = StreamDriver(dut, "s_note", gaps, ["data"])
        self.places = StreamDriver(dut, "s_placed", gaps, ["data"])
        self.m_post = StreamMonitor(dut, "m_post", post, ["data"])
        self.m_outcome = StreamMonitor(dut, "m_outcome", ack, ["data"])
        self.m_more = StreamMonitor(dut, "m_more", more, ["data"])
        self.forget()

    def forget(self):
        """Forgets all contexts, for a reset."""
        for stream in (self.posts, self.notes, self.places):
            stream.clear()
        self.by_id.clear()
        # Contexts of sends, then those of read responses.
        self.live, self.free = {}, set(range(2 * self.count))
        self.used, self.held, self.pops, self.ends = 0, 0, {}, {}
        self.rises = {"m_post": None, "m_more": None}
        self.outcome_stalls = self.outcome_waited = False  # of the last cycle, of that before
        self.outcome_due = 0
        zero(self.dut, "s_ctx_used", "s_popped_valid")

    async def start(self):
        cocotb.start_soon(self._watch())
        self.ticks = cocotb.start_soon(ticks(self.dut, self.tick))
        await clock_and_reset(self.dut)

    # Stimulus.

    def place(self, one):
        """Returns the number of the context of a message."""
        return one.id % self.count + self.count * one.response

    def new(self, last=0, waits=0, index=None, node=None, response=False, rest=None):
        """Posts a new message with packets 0 to `last`, with `rest` a read; returns it, or None if
        no context is free."""
        rng = self.rng
        if index is None:
            free = [one for one in self.free if (one >= self.count) == response]
            if not free:
                return None
            index = rng.choice(sorted(free)) if self.count < 99 else min(free)
        self.free.remove(index)
        self.generation[index] += 1
        new_id = (self.generation[index] << self.width | index % self.count) & 0xFFFFFFFF
        read = rest is not None
        # Only a read has a last request.
        rest = rest if read else rng.randrange(WHOLE + 1)
        one = Message(new_id, rng.randrange(self.nodes) if node is None else node, last, waits,
                      response, read, rest)  # fmt: skip
        self.by_id[response, one.id] = one
        kind = PacketKind.RESPONSE if response else rng.choice((PacketKind.PART, PacketKind.ALONE))
        self.posts.post({"data": POST.pack(
            again=0, rnr_retry=rng.getrandbits(3), node=one.node, id=one.id, last=last, waits=waits,
            kind=kind, read=int(read), rest=rest)})  # fmt: skip
        return one

    def note(self, one, part=None, status=OK, **fields):
        """Gives the outcome of a packet: with `own`, an error of this device, which resolves
        nothing; with `gone`, a packet that was not sent."""
        part = one.flights[0] if part is None else part
        if not fields.get("own"):
            one.flights.remove(part)
        self.notes.post({"data": NOTE.pack(ended=0, node=one.node, id=one.id, status=status,
                                           kind=one.kind(part), **fields)})  # fmt: skip

    def gone(self, one, part=None):
        """Gives a packet that was not sent."""
        self.note(one, part, gone=1)

    def own(self, one, status, part=None):
        """Gives an error of this device in a transmission of a packet."""
        self.note(one, part, status, own=1)

    def refuse(self, one):
        """Refuses the packet in flight with RNR: it waits, and is posted again if its message has
        not ended."""
        (part,) = one.flights
        assert one.kind(part) == PacketKind.ALONE and one.used
        one.flights.clear()
        one.waiting = True
        one.add(cycle(), "RNR")

    def post_again(self, one):
        """Posts a packet again after RNR."""
        assert one.waiting and one.used
        one.waiting, one.again = False, True
        self.posts.post({"data": POST.pack(again=1, node=one.node, id=one.id)})

    def respond(self, one, part, size=None, status=OK):
        """Places bytes of a request; one read response brings at most 8,192."""
        size = min(self.rng.randrange(1, 8193) if size is None else size, one.due[part])
        one.due[part] -= size
        if not one.due[part]:
            del one.due[part]
        self.places.post({"data": PLACED.pack(id=one.id, slot=part % SLOTS, bytes=size,
                                              status=status)})  # fmt: skip

    def unuse(self, one):
        """Ends a message: a packet that waits after RNR is dropped."""
        if one.used and not one.response:
            one.used, one.unused_at, one.waiting = False, cycle(), False
            one.add(cycle(), "unused")
            self.used &= ~(1 << self.place(one))
            self.dut.s_ctx_used.value = self.used

    def _release(self, now):
        """Frees the contexts of messages that have ended, when no packet is or will be posted."""
        for index, one in list(self.live.items()):
            idle = one.posted is None and now - one.popped_at > 1
            waits = one.used or one.waiting or one.again
            if idle and not waits and (one.response or not self.held >> index & 1):
                del self.live[index]
                self.free.add(index)

    # Reference.

    def _stream(self, prefix):
        """Returns payload and acceptance of a stream in this cycle."""
        dut = self.dut
        valid = getattr(dut, f"{prefix}_valid").value == 1
        if prefix in self.rises:
            if not valid:
                self.rises[prefix] = None
            elif self.rises[prefix] is None:
                self.rises[prefix] = cycle()
        if not valid or getattr(dut, f"{prefix}_ready").value != 1:
            return None
        return int(getattr(dut, f"{prefix}_data").value)

    def _outcome(self):
        """Returns the outcome that is offered for the first time: the block has stored it. It may
        have waited for the one before since cycle `outcome_due`."""
        dut, waits = self.dut, self.outcome_stalls
        valid = dut.m_outcome_valid.value == 1
        self.outcome_stalls = valid and dut.m_outcome_ready.value != 1
        if not self.outcome_waited:
            self.outcome_due = cycle()
        self.outcome_waited = waits
        return int(dut.m_outcome_data.value) if valid and not waits else None

    async def _watch(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            # The first edge may come before the reset is driven.
            if dut.rst.value != 0:
                continue
            now = cycle()
            if now % self.held_each == 0:
                value = dut.m_ctx_held.value
                assert value.is_resolvable, "m_ctx_held is unknown"
                self.held = int(value)
                self._release(now)
            note, new, placed = (self._stream(name) for name in ("s_note", "s_post", "s_placed"))
            post, ack, more = self._stream("m_post"), self._outcome(), self._stream("m_more")
            noted = None if note is None else NOTE.unpack(note)
            if noted is not None:
                self._noted(now, noted)
            if placed is not None:
                self._placed(now, PLACED.unpack(placed))
            if more is not None:
                self._more(now, MORE.unpack(more))
            if new is not None:
                self._new(now, POST.unpack(new), post)
            if post is not None:
                self._posted(now, POST.unpack(post), None if new is None else POST.unpack(new))
                self.rises["m_post"] = None
            self._acked(now, noted, None if ack is None else ACK.unpack(ack))
            if dut.m_responded_valid.value == 1:
                self._responded(now, int(dut.m_responded_index.value))
            self._drive(now)

    def _fail(self, one, condition, what):
        assert condition, f"cycle {cycle()}: {what}; {one}"

    def _noted(self, now, note):
        one = self.by_id[note.kind == PacketKind.RESPONSE, note.id]
        one.add(now, f"note {note.status}{' own' * note.own}{' gone' * note.gone}")
        if note.own:
            one.failed = True
        elif one.open or not one.failed:
            one.open -= 1
        if not one.status:
            one.status = note.status

    def _placed(self, now, placed):
        one = self.by_id.get((False, placed.id))
        if one is None:
            return
        one.add(now, f"placed {placed.bytes} of slot {placed.slot} status {placed.status}")
        one.placed_at = now
        one.left[placed.slot] -= placed.bytes
        one.stalls = 0
        if not one.status:
            one.status = placed.status

    def _more(self, now, more):
        one = self.live.get(more.index)
        self._fail(more, one is not None and one.read, "no such read")
        part = one.next
        self._fail(one, (more.slot, more.count) == (part % SLOTS, one.bytes(part)),
                   f"{more}, expected request {part} of {one.bytes(part)} bytes")  # fmt: skip
        self._fail(one, not one.more, "request twice")
        one.more.append(part)
        one.more_at, self.rises["m_more"] = self.rises["m_more"], None

    def _new(self, now, new, post):
        self._fail(new, post is not None, "a message is taken, and no packet is posted")
        one = self.by_id[new.kind == PacketKind.RESPONSE and not new.again, new.id]
        if not new.again:
            index = self.place(one)
            assert index not in self.live
            self.live[index] = one
            one.used, one.begun, one.placed_at = True, True, now
            if not one.response:
                self.used |= 1 << index
                self.dut.s_ctx_used.value = self.used

    def _may_post(self, one, part, now):
        """Checks that a message may post a further packet."""
        begin = one.more_at if one.more else self.rises["m_post"]
        self._fail(one, one.unused_at >= begin - 2, f"packet {part} of a message that has ended")
        self._fail(one, not one.status, f"packet {part} after an error")
        self._fail(one, one.long and one.next, f"packet {part} without a cause")
        self._fail(one, one.posted is None, f"packet {part} while another one is posted")
        self._fail(one, self.live.get(self.place(one)) is one, f"packet {part} of a free context")
        if part == EMPTY and one.read:
            self._fail(one, not one.open, f"asks with {one.open} packets in flight")
            self._fail(one, any(one.left) or one.next <= one.last, "asks, all is placed")
            idle = now - one.placed_at
            self._fail(one, idle > self.period - 60, f"asks after {idle} cycles")
            return
        held = one.response or int(self.dut.m_ctx_held.value) >> self.place(one) & 1
        self._fail(one, held, f"packet {part} of a context that is not held")
        most = 1 if one.waits and part == one.last else self.most
        self._fail(one, one.open < most, f"{one.open} packets without an outcome, most {most}")
        self._fail(one, not one.left[part % SLOTS], "a fifth request whose bytes are not placed")

    def _posted(self, now, post, new):
        response = post.kind == PacketKind.RESPONSE
        one = self.by_id.get((response, post.id))
        self._fail(post, one is not None and post.node == one.node, "no such message")
        again = new is not None and new.again
        part = one.last if again else one.next
        asks = one.read and post.part == EMPTY and new is None and part != EMPTY
        part = EMPTY if asks else part
        if new is not None:
            self._fail(one, new.id == post.id, f"{new} is taken, {post} leaves")
            self._fail(one, one.posted is None, "second packet is posted")
        else:
            self._may_post(one, part, now)
        self._fail(one, post.part == part, f"{post}, expected packet {part}")
        self._fail(one, post.kind == one.kind(part), f"{post}, expected {one.kind(part)!r}")
        if one.read and new is None and not asks:
            self._fail(one, list(one.more) == [part], f"request {part} was not announced")
            one.more.clear()
        if not again:
            one.open += 1
            if asks:
                one.asks += 1
                one.stalls += 1
                one.placed_at = now
            else:
                one.next += 1
                one.left[part % SLOTS] = one.bytes(part)
            self.seen["full"] += one.open == self.most
        one.again = False
        one.posted = part
        one.add(now, f"posted {part}")
        self.pops[self.place(one)] = now + self.rng.randint(*self.pop)
        self.seen["posted again" if again else "asks" if asks else "posted"] += 1

    def _acked(self, now, note, ack):
        one = None if note is None else self.live.get(note.id % self.count)
        response = note is not None and note.kind == PacketKind.RESPONSE
        current = one is not None and not response and one.id == note.id
        if ack is None:
            if current and not one.long and one.used:
                self._fail(one, note.gone, f"{note} gave no outcome")
            return
        one = self.live.get(ack.msg_id % self.count)
        if one is None or one.id != ack.msg_id:
            # That of a past message, which meets no context.
            past = self.by_id.get((False, ack.msg_id))
            if past is not None and past.long and past.unused_at >= self.outcome_due - 2:
                return
            self._fail(ack, note is not None and ack.msg_id == note.id, "outcome of no message")
            self._fail(ack, ack.status == note.status and not note.gone, f"outcome after {note}")
            return
        one.add(now, f"outcome {ack.status}")
        if one.long:
            if one.read and ack.status == UNRESPONSIVE and not one.status:
                idle = now - one.placed_at > self.period - 60 and not one.open
                self._fail(one, idle and one.stalls >= self.stalls, f"{ack} is early")
                one.status = UNRESPONSIVE
            halted = note is not None and current and note.own and note.status == INTERNAL_ERROR
            self._fail(one, one.complete or halted, f"{ack} is early")
            self._fail(one, ack.status == one.status, f"{ack}, expected status {one.status}")
            alive = one.unused_at >= self.outcome_due - 2
            self._fail(one, alive, f"{ack} of an ended message")
        else:
            self._fail(one, current and not note.gone, f"{ack} after {note}")
            self._fail(one, ack.status == note.status, f"{ack} after {note}")
        # Bytes and visits of a read give its outcome again until the end of its context is known.
        self._fail(one, one.acked is None or one.failed or one.read, f"second outcome {ack}")
        if one.acked is None:
            one.acked = ack.status
            self.seen["outcomes"] += 1
        if one.used:
            self.ends.setdefault(one, now + self.rng.randint(*self.end_after))

    def _responded(self, now, index):
        one = self.live.get(index + self.count)
        self._fail(index, one is not None, "no such read response")
        self._fail(one, one.used and one.complete, "a read response has not ended")
        one.used, one.acked = False, OK
        one.add(now, "responded")
        self.seen["responded"] += 1

    def _drive(self, now):
        """Pops a posted packet, and ends messages with an outcome."""
        dut = self.dut
        dut.s_popped_valid.value = 0
        due = [index for index, at in self.pops.items() if at <= now]
        if due:
            index = self.rng.choice(due)
            del self.pops[index]
            one = self.live[index]
            # A packet whose message has ended leaves unsent.
            if one.used:
                one.flights.append(one.posted)
                if one.bytes(one.posted):
                    one.due[one.posted] = one.bytes(one.posted)
            one.add(now, f"leaves {one.posted}{'' if one.used else ' unsent'}")
            one.posted, one.popped_at = None, now
            dut.s_popped_valid.value, dut.s_popped_index.value = 1, index
        for one in [one for one, at in self.ends.items() if at <= now]:
            del self.ends[one]
            self.unuse(one)

    # Waits of tests.

    def flying(self):
        """Returns the messages that have a packet in flight."""
        return [one for one in self.by_id.values() if one.flights]

    def reading(self):
        """Returns the reads in progress with requests that have been sent."""
        return [one for one in self.live.values() if one.due and one.used and not one.status]

    async def noted(self):
        """Waits until the notes have been taken."""
        await until(self.dut, lambda: not self.notes.waiting, "notes taken", 50000)
        await RisingEdge(self.dut.clk)

    async def settle(self):
        """Gives each packet an outcome, and each read its bytes, until all contexts are free."""
        for _ in range(40000 + 400 * self.count):
            if len(self.free) == 2 * self.count and not self.flying():
                break
            for one in list(self.live.values()):
                if one.waiting:
                    self.post_again(one)
            flying, reading = self.flying(), self.reading()
            if len(self.notes.waiting) < 2 and flying:
                one = self.rng.choice(flying)
                self.note(one, self.rng.choice(one.flights))
            if len(self.places.waiting) < 2 and reading:
                one = self.rng.choice(reading)
                self.respond(one, self.rng.choice(list(one.due)), 8192)
            await RisingEdge(self.dut.clk)
        await self.noted()
        left = [*self.live.values(), *self.flying()]
        assert not left, f"not free, or without an outcome: {left[:2]}"
        await ClockCycles(self.dut.clk, 12)
        self.by_id.clear()


@cocotb.test()
async def messages_of_one_packet(dut):
    """transport.tx_segment.short: A message of one packet and its outcome pass in the same cycle; a
    packet that was not sent has no outcome."""
    bench = Bench(dut, "short", 0.1, 0.3, 0.3)
    await bench.start()
    for _ in range(200):
        await ClockCycles(dut.clk, bench.rng.randrange(1, 6))
        bench.new(waits=bench.rng.getrandbits(1))
        for one in bench.flying()[:2]:
            if bench.rng.random() < 0.2:
                bench.unuse(one)
                bench.gone(one)
            else:
                bench.note(one, status=bench.rng.choice((OK, *ERRORS)))
    await bench.settle()
    assert bench.seen["outcomes"] > 100


@cocotb.test()
@cocotb.parametrize(waits=[0, 1])
async def each_count_of_packets(dut, waits):
    """transport.tx_segment.packets: Messages of each count of packets post them in order and end
    when all have an outcome, in any order. An immediate waits for all other packets."""
    bench = Bench(dut, f"packets {waits}", pop=(1, 3))
    await bench.start()
    lasts = [*range(6), bench.most - 1, bench.most, bench.most + 1, 3 * bench.most, 200]
    for last in lasts:
        one = bench.new(last, waits)
        limit = min(last + 1 - (waits and last > 0), bench.most)
        await until(dut, lambda one=one, limit=limit: len(one.flights) == limit, "all in flight")
        await ClockCycles(dut.clk, 20)
        assert len(one.flights) == limit and one.open == limit, one
        while one.acked is None:
            if one.flights and not bench.notes.waiting:
                bench.note(one, bench.rng.choice(one.flights))
            await RisingEdge(dut.clk)
        assert (one.acked, one.next) == (OK, last + 1)
        await bench.settle()
    assert bench.seen["posted"] == sum(last + 1 for last in lasts)


@cocotb.test()
async def errors_stop_further_packets(dut):
    """transport.tx_segment.error: The first error of a message stops its packets. The message ends
    with this status when all posted packets have an outcome, for each number of the last
    packet."""
    bench = Bench(dut, "error", pop=(1, 6))
    await bench.start()
    rng = bench.rng
    for turn in range(40):
        last = rng.choice((1, 5, 40, PARTS - 1, 1 << rng.randrange(1, 18)))
        one = bench.new(last, rng.getrandbits(1))
        for _ in range(rng.randrange(12)):
            await RisingEdge(dut.clk)
            if one.flights and rng.random() < 0.7:
                bench.note(one, rng.choice(one.flights))
        await until(dut, lambda one=one: one.flights or one.acked is not None, "a packet")
        if one.acked is None:
            status = rng.choice(ERRORS)
            bench.note(one, rng.choice(one.flights), status)
            await bench.noted()
            found = one.status
            while one.acked is None:
                if one.flights and rng.random() < 0.3:
                    later = rng.choice((OK, *ERRORS))
                    bench.note(one, rng.choice(one.flights), later)
                await RisingEdge(dut.clk)
            assert (one.acked, found) == (status, status), (turn, one)
        await bench.settle()


@cocotb.test()
@cocotb.parametrize(status=[INVALID_LKEY, INTERNAL_ERROR, None])
async def errors_of_this_device(dut, status):
    """transport.tx_segment.own: An error of this device stops the packets of its message, and the
    packets count until they are resolved. QP_INTERNAL_ERROR ends the message at once. A packet that
    was not sent is resolved, and is no error."""
    bench = Bench(dut, f"own {status}", pop=(1, 6), end=(60, 90))
    await bench.start()
    rng = bench.rng
    for _ in range(30):
        one = bench.new(rng.choice((1, 5, 40)), rng.getrandbits(1))
        await until(dut, lambda one=one: one.flights, "a packet")
        await ClockCycles(dut.clk, rng.randrange(20))
        part = rng.choice(one.flights)
        if status is None:
            bench.gone(one, part)
            await bench.noted()
            assert not one.status
            await bench.settle()
            assert one.acked == OK
            continue
        bench.own(one, status, part)
        await bench.noted()
        assert (one.acked == status) == (status == INTERNAL_ERROR), one
        # Its packets end in any order; the one that failed was not sent, or was sent before.
        while one.flights:
            some = rng.choice(one.flights)
            (bench.gone if some == part and rng.getrandbits(1) else bench.note)(one, some)
            await bench.noted()
            await ClockCycles(dut.clk, rng.randrange(8))
        await until(dut, lambda one=one: one.acked is not None, "the outcome")
        assert one.acked == status
        await bench.settle()


@cocotb.test()
async def packets_after_rnr(dut):
    """transport.tx_segment.rnr: A packet that is alone is posted again after RNR, with its number,
    also several times."""
    bench = Bench(dut, "rnr", pop=(1, 6))
    await bench.start()
    rng = bench.rng
    for last in (0, 1, 2, 70, 0, 3):
        one = bench.new(last, 1)
        for _ in range(last):
            await until(dut, lambda one=one: one.flights, "a packet")
            bench.note(one)
        for _ in range(3):
            await until(dut, lambda one=one: one.flights, "popped")
            assert one.flights == [last]
            bench.refuse(one)
            await ClockCycles(dut.clk, rng.randrange(1, 9))
            before = bench.seen["posted again"]
            bench.post_again(one)
            bench.new(rng.choice((0, 4)))
            await until(dut, lambda before=before: bench.seen["posted again"] > before, "again")
        await until(dut, lambda one=one, last=last: one.flights == [last], "popped")
        status = rng.choice((OK, RNR, ABORT))
        bench.note(one, status=status)
        await bench.noted()
        assert one.acked == status
        await bench.settle()
    assert bench.seen["posted again"] == 18


@cocotb.test()
async def a_session_ends_while_a_packet_is_posted_again(dut):
    """transport.tx_segment.ended: The end of a session ends a message whose packet is posted again.
    The packet may still be sent, and its outcome has no effect."""
    bench = Bench(dut, "ended", pop=(2, 40), end=(4, 20))
    await bench.start()
    for turn in range(24):
        last = turn % 3
        one = bench.new(last, 1)
        for _ in range(last):
            await until(dut, lambda one=one: one.flights, "a packet")
            bench.note(one)
        await until(dut, lambda one=one, last=last: one.flights == [last], "popped")
        bench.refuse(one)
        await RisingEdge(dut.clk)
        bench.post_again(one)
        # The end of the session comes at the same time, or later.
        if turn % 2:
            await until(dut, lambda one=one: one.posted is not None, "again")
        one.flights.append(last)
        one.failed = True  # its packet that is posted may have a second outcome
        bench.note(one, last, ABORT)
        await until(dut, lambda one=one: one.acked is not None, "the outcome")
        assert one.acked == ABORT
        await bench.settle()


@cocotb.test()
async def messages_end_by_a_flush(dut):
    """transport.tx_segment.flush: A message that ends by itself posts nothing more: while its
    packet is posted, while its packets are in flight, and while a packet waits at a stalled
    output. Its number is used again, and outcomes of its past have no effect."""
    held = {"on": False}
    bench = Bench(dut, "flush", post=lambda: held["on"], pop=(1, 9))
    await bench.start()
    rng = bench.rng
    for turn in range(60):
        index = turn % 3
        await until(dut, lambda index=index: index in bench.free, "free")
        one = bench.new(rng.choice((0, 1, 9, 99)), rng.getrandbits(1), index)
        await until(dut, lambda one=one: one.begun, "taken")
        if turn % 2:
            held["on"] = True
        await ClockCycles(dut.clk, rng.randrange(1, 40))
        bench.unuse(one)
        await ClockCycles(dut.clk, rng.randrange(1, 9))
        held["on"] = False
        before = one.next
        await ClockCycles(dut.clk, 30)
        assert one.next - before <= 1, one
        for flying in rng.sample(bench.flying(), min(3, len(bench.flying()))):
            some = rng.choice((bench.note, bench.gone))
            some(flying)
        await bench.noted()
    await bench.settle()


@cocotb.test()
async def outcomes_of_the_past_wait(dut):
    """transport.tx_segment.past: An outcome of an ended message of one packet that waits at a
    stalled output stays, also when its number is used again for a long message, which is not
    affected."""
    held = {"on": False}
    bench = Bench(dut, "past", ack=lambda: held["on"], pop=(1, 3))
    await bench.start()
    for turn in range(6):
        past = bench.new(index=1)
        await until(dut, lambda past=past: past.flights, "in flight")
        held["on"] = True
        await ClockCycles(dut.clk, 2)
        bench.unuse(past)
        await until(dut, lambda: 1 in bench.free, "free")
        if turn % 2:
            bench.note(past, status=BAD_ADDRESS)
            await until(dut, high(dut.m_outcome_valid))
        one = bench.new(3, index=1)
        await until(dut, lambda one=one: one.begun, "taken")
        if not turn % 2:
            bench.note(past, status=BAD_ADDRESS)
        await ClockCycles(dut.clk, 20)
        held["on"] = False
        await until(dut, lambda one=one: one.flights, "goes on")
        await bench.settle()
        assert (one.acked, one.next) == (OK, 4)


@cocotb.test()
async def messages_take_turns(dut):
    """transport.tx_segment.turns: A long message posts its next packet behind packets of others,
    so messages of one packet are not held up."""
    bench = Bench(dut, "turns", pop=(30, 30))
    await bench.start()
    first = bench.new(200)
    second = bench.new(200)
    await until(dut, lambda: second.next > 0, "two packets")
    for _ in range(min(bench.count - 2, 8)):
        bench.new()
    await until(dut, lambda: not bench.posts.waiting, "taken", 60)
    for _ in range(300):
        await RisingEdge(dut.clk)
        assert abs(first.next - second.next) <= 1, (first, second)
        for one in bench.flying():
            bench.note(one)
    await bench.settle()


@cocotb.test()
async def cycles(dut):
    """transport.tx_segment.time: A message of one packet passes in the same cycle, one per cycle;
    an event of a long message and a packet after RNR take their specified cycles."""
    bench = Bench(dut, "time", pop=(1, 1))
    await bench.start()
    # Without ticks no visit of a message delays its packets.
    bench.ticks.cancel()
    dut.s_tick.value = 0
    assert timing("efa_tx_segment", "post")[:2] == (0, 1)
    assert timing("efa_tx_segment", "note")[:2] == (0, 1)
    moments = Moments(dut, "s_post", "s_note", "m_outcome", "m_post", "s_popped_valid")
    shorts = [bench.new() for _ in range(min(bench.count - 1, 12))]
    await until(dut, lambda: all(one.flights for one in shorts), "in flight")
    for one in shorts:
        bench.note(one)
    await bench.settle()
    for name in ("s_post", "s_note"):
        assert moments.intervals(name) == {1}, moments.seen
    # From the pop of a packet to the next one.
    moments.clear()
    one = bench.new(bench.most)
    await until(dut, lambda: len(one.flights) == bench.most, "in flight")
    # The FIFO of pops is one cycle faster if it is small.
    latency = timing("efa_tx_segment", "next").latency - (bench.count < 99)
    for popped, post in zip(moments["s_popped_valid"], moments["m_post"][1:], strict=False):
        assert post - popped == latency, moments.seen
    assert len(moments["m_post"]) == bench.most
    # Outcomes that wait.
    await ClockCycles(dut.clk, 20)
    moments.clear()
    outcome = timing("efa_tx_segment", "outcome")
    for _ in range(bench.most):
        bench.note(one, status=BAD_ADDRESS)
    await until(dut, high(dut.s_note_valid))
    assert await until(dut, high(dut.s_note_ready)) == outcome.latency
    await bench.settle()
    assert bench.most == 1 or moments.intervals("s_note") == {outcome.interval}, moments.seen
    assert moments["m_outcome"] == moments["s_note"][-1:]
    # Packets after RNR.
    again = timing("efa_tx_segment", "again")
    shorts = [bench.new() for _ in range(4)]
    await until(dut, lambda: all(one.flights for one in shorts), "in flight")
    for one in shorts:
        bench.refuse(one)
    moments.clear()
    for one in shorts:
        bench.post_again(one)
    await until(dut, high(dut.s_post_valid))
    assert await until(dut, high(dut.s_post_ready)) == again.latency
    await until(dut, lambda: all(one.flights for one in shorts), "in flight")
    assert moments.intervals("s_post") == {again.interval}, moments.seen
    for one in shorts:
        bench.note(one)
    await bench.settle()


@cocotb.test()
async def reset_in_the_middle_of_traffic(dut):
    """transport.tx_segment.reset: A reset forgets all messages: nothing is posted or held."""
    bench = Bench(dut, "reset", 0.1, 0.3, 0.3)
    await bench.start()
    for wait in (3, 10, 40, 100):
        for _ in range(min(bench.count, 12)):
            bench.new(bench.rng.choice((0, 1, 50)), bench.rng.getrandbits(1))
        await ClockCycles(dut.clk, wait)
        drive(dut, rst=1)
        await RisingEdge(dut.clk)
        bench.forget()
        await reset(dut, 2)
        for _ in range(60):
            await RisingEdge(dut.clk)
            for name in ("m_post_valid", "m_outcome_valid", "m_more_valid", "m_responded_valid",
                         "m_ctx_held"):  # fmt: skip
                assert getattr(dut, name).value == 0, name
        for last in (0, 3):
            bench.new(last)
        await bench.settle()


@cocotb.test()
async def read_responses(dut):
    """transport.tx_segment.responses: The packets of a read response are posted like those of a
    write, whatever the send with the same number does; it ends when all have an outcome, also one
    that was not sent, and after an error."""
    bench = Bench(dut, "responses", pop=(1, 9), post=0.2)
    await bench.start()
    rng = bench.rng
    for _ in range(40):
        last = rng.choice((0, 0, 1, 2, bench.most, 3 * bench.most))
        one = bench.new(last, response=True)
        index = one.id % bench.count
        other = None
        if index in bench.free and rng.random() < 0.7:
            other = bench.new(rng.choice((0, 3)), rng.getrandbits(1), index)
        errs = rng.random() < 0.3
        while one.acked is None or (other and other.acked is None):
            for some in bench.flying():
                status = rng.choice(ERRORS) if errs and rng.random() < 0.2 else OK
                if rng.random() < 0.1 and some.response:
                    bench.gone(some, rng.choice(some.flights))
                else:
                    bench.note(some, rng.choice(some.flights), status)
            await RisingEdge(dut.clk)
        assert one.status or one.next == last + 1, one
    await bench.settle()
    assert bench.seen["responded"] == 40


@cocotb.test()
async def reads(dut):
    """transport.tx_segment.reads: A read announces and posts its requests, each but the last of
    65,536 bytes. At most 4 have bytes that were not placed. The read ends when all bytes are placed
    and all requests have an outcome, in any order."""
    bench = Bench(dut, "reads", more=0.3, pop=(1, 9))
    await bench.start()
    rng = bench.rng
    for last, rest in [(0, 0), (0, 1), (0, 777), (0, WHOLE), (1, 1), (3, 9), (4, WHOLE),
                       (12, 8193)]:
        one = bench.new(last, rest=rest)
        await until(dut, lambda one=one: one.flights, "the first request")
        await ClockCycles(dut.clk, 40)
        assert one.next == min(last + 1, SLOTS, bench.most), one
        while one.acked is None:
            assert one.unused_at > cycle()
            parts = list(one.due)
            if parts and not bench.places.waiting and rng.random() < 0.9:
                bench.respond(one, rng.choice(parts), 8192)
            if one.flights and not bench.notes.waiting and rng.random() < 0.3:
                bench.note(one, rng.choice(one.flights))
            await RisingEdge(dut.clk)
        assert (one.acked, one.next, any(one.left)) == (OK, last + 1, False), one
        await bench.settle()


@cocotb.test()
async def errors_of_reads(dut):
    """transport.tx_segment.read_error: A refused request, or a response with an error, ends a read
    when its requests have an outcome. A response with more bytes than are left is BAD_STATUS. A
    response after the end has no effect, nor one to another id."""
    bench = Bench(dut, "read error", pop=(1, 9))
    await bench.start()
    rng = bench.rng
    for turn in range(24):
        one = bench.new(rng.choice((0, 2, 9)), rest=rng.randrange(1, WHOLE + 1))
        await until(dut, lambda one=one: one.due and one.flights, "a request")
        await ClockCycles(dut.clk, rng.randrange(20))
        part = rng.choice(list(one.due))
        strange = {"id": one.id ^ 1 << rng.randrange(bench.width, 32), "slot": 0, "bytes": 1}
        bench.places.post({"data": PLACED.pack(status=BAD_ADDRESS, **strange)})
        if turn % 3 == 0:
            wanted = bench.rng.choice(ERRORS)
            bench.note(one, rng.choice(one.flights), wanted)
        elif turn % 3 == 1:
            wanted = bench.rng.choice(ERRORS)
            bench.respond(one, part, 0, status=wanted)
        else:
            wanted = IoCompStatus.REMOTE_ERROR_BAD_STATUS
            while one.due[part] > 9000:
                bench.respond(one, part, 9000)
            await until(dut, lambda: not bench.places.waiting, "placed")
            size = one.due.pop(part) + 1
            # The reference knows the status only.
            bench.places.post({"data": PLACED.pack(id=one.id, slot=part % SLOTS, bytes=size)})
            await until(dut, lambda: not bench.places.waiting, "placed")
            one.left[part % SLOTS] += size
            one.status = wanted
        while one.acked is None:
            if one.flights and not bench.notes.waiting:
                bench.note(one, rng.choice(one.flights))
            await RisingEdge(dut.clk)
        assert one.acked == wanted, one
        one.due.clear()
        bench.places.post({"data": PLACED.pack(id=one.id, slot=0, bytes=1, status=BAD_ADDRESS)})
        await bench.settle()


async def answer_requests_of_0_bytes(bench, one, count):
    """Gives outcomes of the next `count` requests of 0 bytes of a read."""
    wanted = one.asks + count
    while one.asks < wanted or one.posted is not None or one.flights:
        if one.flights:
            bench.note(one)
        await RisingEdge(bench.dut.clk)


@cocotb.test()
async def reads_that_stall(dut):
    """transport.tx_segment.stall: A read of which nothing is placed, with no packet of its own in
    flight, asks with a request of 0 bytes, once in each period, and goes on with the next bytes.
    After READ_STALLS answers without progress in a row it ends."""
    bench = Bench(dut, "stall", pop=(1, 9))
    if bench.count > 99:
        return  # a period takes too long
    await bench.start()
    rng, stalls = bench.rng, bench.stalls
    for last, goes_on in ((0, 0), (0, 1), (2, 0), (2, stalls - 1), (9, 2)):
        one = bench.new(last, rest=rng.randrange(2, 9000))
        while one.flights or len(one.due) < min(last + 1, SLOTS):
            if one.flights:
                bench.note(one)
            await ClockCycles(dut.clk, 9)

        await answer_requests_of_0_bytes(bench, one, goes_on)
        if goes_on:
            bench.respond(one, next(iter(one.due)), 1)
            await bench.noted()
        await answer_requests_of_0_bytes(bench, one, stalls)
        await until(dut, lambda one=one: one.acked is not None, "the end", 3 * bench.period)
        assert (one.acked, one.asks) == (UNRESPONSIVE, goes_on + stalls), one
        one.due.clear()
        await bench.settle()


# Gaps of the inputs, stalls of posts and outcomes, shares of cycles with: a new message, an
# outcome, an end of a message by itself.
PACES = [
    (0.0, 0.0, 0.0, 0.3, 0.9, 0.002),
    (0.0, 0.5, 0.5, 0.5, 0.9, 0.01),
    (0.3, 0.2, 0.8, 0.3, 0.5, 0.03),
    (0.0, periodic(60, 40), 0.1, 0.5, 0.7, 0.02),
    (0.0, 0.1, periodic(90, 60), 0.5, 0.7, 0.01),
    (0.5, 0.8, 0.0, 0.2, 0.5, 0.05),
]


@cocotb.test()
@cocotb.parametrize(pace=range(len(PACES)))
async def random_messages(dut, pace):
    """transport.tx_segment.random: Random sends, writes, reads and read responses of one to
    hundreds of packets with outcomes of all kinds in any order, packets after RNR and messages that
    end by themselves, with gaps and stalls."""
    gaps, post, ack, new, outcome, unuse = PACES[pace]
    rng = rng_for(f"pace {pace}")
    bench = Bench(dut, f"random {pace}", gaps, post, ack, gaps,
                  rng.choice(((1, 1), (1, 9), (1, 60))), rng.choice(((1, 1), (1, 20))))  # fmt: skip
    await bench.start()
    errors = rng.choice((0.01, 0.1))
    lasts = (0, 0, 0, 1, 1, 2, bench.most - 1, bench.most, 3 * bench.most)
    for _ in range(5000):
        await RisingEdge(dut.clk)
        if rng.random() < new and len(bench.posts.waiting) < 2 and len(bench.live) < 24:
            last = rng.choice((*lasts, rng.randrange(300)))
            read = rng.random() < 0.3
            bench.new(min(last, 9) if read else last, rng.getrandbits(1) & ~read,
                      response=not read and rng.random() < 0.3,
                      rest=rng.choice((1, WHOLE, rng.randrange(1, WHOLE))) if read else None)
        if rng.random() < unuse and bench.live:
            bench.unuse(rng.choice(list(bench.live.values())))
        for one in list(bench.live.values()):
            if one.waiting and rng.random() < 0.1:
                bench.post_again(one)
        reading = bench.reading()
        if reading and len(bench.places.waiting) < 2 and rng.random() < outcome:
            one = rng.choice(reading)
            bench.respond(one, rng.choice(list(one.due)), rng.choice((8192, None)),
                          rng.choice(ERRORS) if rng.random() < errors / 9 else OK)  # fmt: skip
        flying = bench.flying()
        if not flying or len(bench.notes.waiting) > 1 or rng.random() > outcome:
            continue
        random_note(bench, rng.choice(flying), rng.random() < errors)
    dut._log.info(f"seen {dict(bench.seen)}")
    await bench.settle()
    assert bench.seen["outcomes"] + bench.seen["responded"] > 5, bench.seen
    assert bench.seen["posted"] > 50, bench.seen


def random_note(bench, one, errs):
    """Gives an outcome of a packet, or an error of this device, or refuses it with RNR."""
    rng = bench.rng
    part = rng.choice(one.flights)
    if not one.used or (one.response and errs):
        rng.choice((bench.note, bench.gone))(one, part)
    elif one.kind(part) == PacketKind.ALONE and rng.random() < 0.3 and one.acked is None:
        bench.refuse(one)
    elif not errs:
        bench.note(one, part)
    elif rng.random() < 0.4:
        bench.note(one, part, rng.choice(ERRORS))
    elif rng.random() < 0.2:
        # Of a halted QP, whose flush follows.
        bench.gone(one, part)
        bench.ends.setdefault(one, cycle() + rng.randrange(1, 60))
    else:
        bench.own(one, rng.choice((INTERNAL_ERROR, *ERRORS)), part)
        rng.choice((bench.note, bench.gone))(one, part)
