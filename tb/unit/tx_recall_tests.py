# SPDX-License-Identifier: Apache-2.0
"""Tests efa_tx_recall: each transmission gets its WQE back or is reported as not made, and merges
with the other items."""

from collections import Counter, deque

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import INTERNAL, LIMITS, IoSendOpType, IoTxWqe128, PacketKind
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
from tb.lib.waits import until, zero
from tb.unit.data_bench import Moments, consumed
from tb.unit.queue_bench import Table

HANDLES = 1 << LIMITS.ah_w
COPIED = ("qpn", "msg", "pd", "qp_num", "scqn", "ssub", "wqe128", "req_id", "op_type", "req_id_ex",
          "entry")  # fmt: skip


class Bench:
    """Stores WQEs of contexts, gives transmissions and items, and changes contexts, handles and QPs
    meanwhile.

    - `stored`: WQE of each context; `used`: bit mask of contexts in use; `down`: halted QPs
    - `responses`: read response of each context of responses; `live`: those that may carry payload
    - `past`: by cycle, what an output of the next cycle may know: used contexts and generations of
      this cycle, halted QPs of the cycle before, live responses of this cycle
    """

    def __init__(self, dut, stalls=0.0, gaps=0.0, gone_stalls=None):
        self.dut, self.rng = dut, rng_for("tx_recall")
        self.contexts, self.queues = len(dut.s_ctx_used), 1 << len(dut.halted_rd_addr)
        self.reads = len(dut.s_response_live)
        self.stored, self.used, self.down = {}, 0, set()
        self.responses, self.live, self.hollow = {}, set(), 0
        self.gens = [self.rng.getrandbits(4) for _ in range(HANDLES)]
        self.sends, self.items = deque(), deque()  # given, in order
        self.flying = deque()  # accepted transmissions: (fields, cycle, WQE at that time)
        self.waiting = deque()  # accepted items
        self.past = deque(maxlen=600)
        self.made, self.gone, self.other = [], [], 0
        self.fresh = True  # the output of this cycle was not there before
        zero(dut, "s_sent_valid", "s_ctx_used", "s_send_now", "response_rd_data")
        self._drive()
        Table(dut, "halted_rd_addr", "halted_rd_data", lambda qpn: int(qpn in self.down))
        self.send_in = StreamDriver(dut, "s_send", gaps, ["data"])
        self.item_in = StreamDriver(dut, "s_item", gaps, ["data"])
        self.out = StreamMonitor(dut, "m_item", stalls, ["data"])
        stalls = stalls if gone_stalls is None else gone_stalls
        self.gone_out = StreamMonitor(dut, "m_gone", stalls, ["data"])

    async def start(self):
        cocotb.start_soon(self._watch())
        cocotb.start_soon(self._serve())
        await clock_and_reset(self.dut)

    def _drive(self):
        self.dut.s_ah_gen.value = sum(gen << 4 * index for index, gen in enumerate(self.gens))
        self.dut.s_ctx_used.value = self.used
        self.dut.s_response_live.value = sum(1 << place for place in self.live)

    async def store(self, place, generation=None, **fields):
        """Stores a WQE at a context, which is then in use; returns its id."""
        rng = self.rng
        width = self.contexts.bit_length() - 1
        generation = rng.getrandbits(32 - width) if generation is None else generation
        wqe = IoTxWqe128.unpack(rng.randbytes(128))
        wqe.meta.ah = fields.pop("ah", rng.randrange(HANDLES))
        entry = int.from_bytes(wqe.pack(), "little")
        context = dont_care(INTERNAL.wqe_sent, rng, **{
            "id": generation << width | place, "qpn": rng.randrange(self.queues), "entry": entry,
            "ah_gen": self.gens[wqe.meta.ah], **fields})  # fmt: skip
        context["ah"] = wqe.meta.ah
        self.dut.s_sent_data.value = INTERNAL.wqe_sent.pack(
            **{name: context[name] for name in INTERNAL.wqe_sent.fields})
        self.dut.s_sent_valid.value = 1
        await RisingEdge(self.dut.clk)
        self.dut.s_sent_valid.value = 0
        self.dut.s_sent_data.value = rng.getrandbits(len(self.dut.s_sent_data))
        self.stored[place] = context
        self.used |= 1 << place
        self._drive()
        return context["id"]

    def release(self, place):
        """Ends the send of a context."""
        self.used &= ~(1 << place)
        self._drive()

    def destroy(self, ah):
        """Changes the generation of an address handle."""
        self.gens[ah] ^= self.rng.choice((1, 2, 4, 8, 15))
        self._drive()

    async def _serve(self):
        """Returns the read response of a context in the cycle after its address."""
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value == 0 and dut.response_rd_en.value == 1:
                found = {"id": 0} | self.responses.get(int(dut.response_rd_addr.value), {})
                taken_id = found.pop("id")
                dut.response_rd_data.value = INTERNAL.read_response.pack(
                    id=taken_id, job=INTERNAL.read_job.pack(**found))  # fmt: skip

    def respond(self, place, generation=None):
        """Stores a read response at a context of responses; returns its id."""
        width = self.contexts.bit_length() - 1
        high_bits = self.rng.getrandbits(32 - width) if generation is None else generation
        job = dont_care(INTERNAL.read_job, self.rng, qpn=self.rng.randrange(self.queues))
        found = self.responses[place] = {"id": high_bits << width | place, **job}
        self.live.add(place)
        self._drive()
        return found["id"]

    def cancel(self, place):
        """Ends the payload of the response of a context."""
        self.live.discard(place)
        self._drive()

    def send(self, taken_id, response=False):
        """Gives a transmission of a context of a send, or of a read response."""
        kind = PacketKind.RESPONSE
        if not response:
            kind = self.rng.choice((PacketKind.PART, PacketKind.ALONE))
        fields = dont_care(INTERNAL.srd_send, self.rng, id=taken_id, kind=kind)
        self.sends.append(fields)
        self.send_in.post({"data": INTERNAL.srd_send.pack(**fields)})

    def item(self, **fields):
        """Gives an item without a context."""
        data = INTERNAL.wqe_in.pack(**dont_care(INTERNAL.wqe_in, self.rng, sent=0, **fields))
        self.items.append(data)
        self.item_in.post({"data": data})

    async def send_now(self, taken_id):
        """Gives the transmission of a context that was stored in the cycle before, and nothing else
        meanwhile. If it does not leave at once, it waits like any other one. Returns True if it
        does."""
        dut = self.dut
        kind = self.rng.choice((PacketKind.PART, PacketKind.ALONE))
        fields = dont_care(INTERNAL.srd_send, self.rng, id=taken_id, kind=kind)
        self.sends.append(fields)
        dut.s_send_data.value = INTERNAL.srd_send.pack(**fields)
        dut.s_send_valid.value = dut.s_send_now.value = 1
        await RisingEdge(dut.clk)
        at_once = dut.s_send_ready.value == 1
        dut.s_send_now.value = 0
        while dut.s_send_ready.value != 1:
            await RisingEdge(dut.clk)
        dut.s_send_valid.value = 0
        return at_once

    def _may(self, fields, stored, past):
        """Returns True if a transmission may be made by this state."""
        used, gens, down, _ = past
        if fields["kind"] == PacketKind.RESPONSE:
            return stored["id"] == fields["id"]
        return (used >> fields["id"] % self.contexts & 1 and stored["id"] == fields["id"]
                and gens >> 4 * stored["ah"] & 15 == stored["ah_gen"]
                and stored["qpn"] not in down)  # fmt: skip

    async def _watch(self):
        """Compares each new output with what was accepted."""
        dut, ahead = self.dut, set()
        seen = {"m_item": False, "m_gone": False}
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value != 0:
                seen = dict.fromkeys(seen, False)
                for queue in (self.sends, self.items, self.flying, self.waiting, self.past):
                    queue.clear()
                continue
            state = (int(dut.s_ctx_used.value), int(dut.s_ah_gen.value), ahead,
                     int(dut.s_response_live.value))  # fmt: skip
            accepts = dut.s_send_valid.value == 1 and dut.s_send_ready.value == 1
            now = accepts and dut.s_send_now.value == 1
            if now:
                fields = self.sends.popleft()
                assert not self.flying, "a transmission overtakes another one"
                assert dut.m_item_valid.value == 1 and not seen["m_item"]
                self.past.append(state)
                self.flying.append((fields, cycle(), self.stored[fields["id"] % self.contexts]))
            if dut.m_gone_valid.value == 1 and not seen["m_gone"]:
                self._left(None)
            if dut.m_item_valid.value == 1 and not seen["m_item"]:
                self._left(int(dut.m_item_data.value))
            for name in seen:
                valid, ready = getattr(dut, name + "_valid"), getattr(dut, name + "_ready")
                seen[name] = valid.value == 1 and ready.value == 0
            if accepts and not now:
                fields = self.sends.popleft()
                responds = fields["kind"] == PacketKind.RESPONSE
                known = self.responses if responds else self.stored
                stored = known[fields["id"] % self.contexts]
                self.flying.append((fields, cycle(), stored))
            if dut.s_item_valid.value == 1 and dut.s_item_ready.value == 1:
                self.waiting.append(self.items.popleft())
            if not now:
                self.past.append(state)
            # A lookup returns what was known one cycle before.
            ahead = set(self.down)

    def _left(self, data):
        """Takes a new output: an item, or None for a transmission that is not made."""
        item = None if data is None else INTERNAL.wqe_in.unpack(data)
        if item is not None and not item.sent:
            assert self.waiting, "an item that was not given"
            assert data == self.waiting.popleft(), "an item has changed, or its order"
            self.other += 1
            return
        # Made ones leave in order, and so do the others.
        fields, accepted, stored = self._which(item)
        states = list(self.past)[-max(cycle() - accepted, 1):]
        if item is None:
            gone = INTERNAL.srd_gone.unpack(int(self.dut.m_gone_data.value))
            for name in ("node", "session", "psn"):
                assert getattr(gone, name) == fields[name], name
            assert not all(self._may(fields, stored, one) for one in states), (
                f"transmission {fields} is not made, expected it to be")
            self.gone.append(fields)
            return
        assert self._may(fields, stored, states[-1]), (
            f"transmission {fields} is made, its state does not permit it; stored {stored}")
        if fields["kind"] == PacketKind.RESPONSE:
            # From the cycle behind that of its acceptance to that in front of the output.
            place = fields["id"] % self.contexts
            hollow = not all(live >> place & 1 for *_, live in states[1:])
            self.hollow += hollow
            self._response(item, fields, {**stored, "rkey": 0} if hollow else stored)
            self.made.append(fields)
            return
        wanted = {name: stored[name] for name in COPIED}
        wanted.update(response=0, srd=1, sent=1, send=INTERNAL.srd_send.pack(**fields), barrier=0,
                      fence=0, flush=0, incomplete=0)  # fmt: skip
        for name, value in wanted.items():
            assert getattr(item, name) == value, name
        self.made.append(fields)

    @staticmethod
    def _response(item, fields, stored):
        """Checks an item of a read response: a WQE with its fields, whose buffer is the region."""
        wanted = {name: stored[name] for name in ("qpn", "pd", "qp_num")}
        wanted.update(response=1, srd=1, sent=1, send=INTERNAL.srd_send.pack(**fields), barrier=0,
                      fence=0, flush=0, incomplete=0, op_type=IoSendOpType.RDMA_READ)  # fmt: skip
        for name, value in wanted.items():
            assert getattr(item, name) == value, name
        wqe = IoTxWqe128.unpack(item.entry.to_bytes(128, "little"))
        remote, local = wqe.data.rdma_req.remote_mem, wqe.data.rdma_req.local_mem[0]
        found = {
            "dst_qpn": wqe.meta.dest_qp_num, "total": remote.length, "offset": remote.rkey,
            "count": remote.buf_addr_lo, "read_id": remote.buf_addr_hi, "rkey": local.lkey__lkey,
            "addr": local.buf_addr_hi << 32 | local.buf_addr_lo,
        }  # fmt: skip
        assert found == {name: stored[name] for name in found}
        assert local.length == stored["total"] and wqe.meta.length == 1
        assert not wqe.meta.inline_msg and not wqe.meta.qkey

    def _which(self, item):
        """Returns the accepted transmission of an output and forgets it."""
        assert self.flying, "a transmission that was not given"
        if item is None:
            gone = INTERNAL.srd_gone.unpack(int(self.dut.m_gone_data.value))
            key = [getattr(gone, name) for name in ("node", "session", "psn")]
        else:
            send = INTERNAL.srd_send.unpack(item.send)
            key = [send.node, send.session, send.psn]
        # Only the first two may leave in one cycle: one that is made and one that is not.
        for at in range(min(2, len(self.flying))):
            fields = self.flying[at][0]
            if [fields["node"], fields["session"], fields["psn"]] == key:
                found = self.flying[at]
                del self.flying[at]
                return found
        raise AssertionError(f"transmission {key} left, expected {self.flying[0][0]}")

    async def settle(self):
        """Waits until all that was given has left."""
        await consumed(self.send_in)
        await consumed(self.item_in)
        await until(self.dut, lambda: not (self.flying or self.waiting or self.sends or self.items),
                    "what was given")  # fmt: skip
        await ClockCycles(self.dut.clk, 4)


PACES = [(0.0, 0.0, None), (0.5, 0.3, None), (0.8, 0.0, 0.0), (0.0, 0.0, 0.8),
         (periodic(40, 3), 0.0, periodic(3, 50))]  # fmt: skip


@cocotb.test()
@cocotb.parametrize(pace=PACES)
async def stored_wqes_come_back(dut, pace):
    """transport.tx_recall.sends: Each transmission has the WQE of its context, any number of times,
    in order; other items pass unchanged in their order."""
    bench = Bench(dut, *pace)
    await bench.start()
    rng = bench.rng
    places = [0, bench.contexts - 1, *rng.sample(range(1, bench.contexts - 1), 10)]
    ids = [await bench.store(place) for place in places]
    for _ in range(300):
        if rng.random() < 0.6:
            bench.send(rng.choice(ids))
        if rng.random() < 0.5:
            bench.item()
    await bench.settle()
    assert not bench.gone and len(bench.made) > 100 and bench.other > 100


@cocotb.test()
@cocotb.parametrize(pace=PACES)
async def read_responses_come_back(dut, pace):
    """transport.tx_recall.responses: Each transmission of a read response has the fields of its
    request, in the order of all transmissions, whatever sends, handles and QPs do. It is not made
    if its context has another id."""
    bench = Bench(dut, *pace)
    await bench.start()
    rng = bench.rng
    width = bench.contexts.bit_length() - 1
    places = [0, bench.reads - 1, *rng.sample(range(1, bench.reads - 1), 8)]
    ids = [await bench.store(place) for place in places]
    # Ids of both kinds may be equal.
    responses = [bench.respond(place, rng.choice((taken_id >> width, None)))
                 for place, taken_id in zip(places, ids, strict=True)]  # fmt: skip
    bench.down = {bench.responses[places[0]]["qpn"]}
    for place in places[4:]:
        bench.release(place)
    await ClockCycles(dut.clk, 3)
    for _ in range(300):
        if rng.random() < 0.6:
            past = rng.random() < 0.1
            bench.send(rng.choice(responses) ^ past << rng.randrange(width, 32), response=True)
        if rng.random() < 0.3:
            bench.send(rng.choice(ids))
        if rng.random() < 0.3:
            bench.item()
    await bench.settle()
    made = [one for one in bench.made if one["kind"] == PacketKind.RESPONSE]
    assert len(made) > 100 and {one["id"] for one in made} <= set(responses)


@cocotb.test()
@cocotb.parametrize(pace=PACES)
async def cancelled_responses_have_no_region(dut, pace):
    """transport.tx_recall.cancelled: A response whose context is not live, in the cycle of the
    check at the latest, has key 0; also if the context is live again before the response leaves.
    No other field changes, and no other response."""
    bench = Bench(dut, *pace)
    await bench.start()
    rng = bench.rng
    places = [0, bench.reads - 1, *rng.sample(range(1, bench.reads - 1), 6)]
    responses = {place: bench.respond(place) for place in places}
    for _ in range(250):
        for _ in range(rng.randrange(3)):
            bench.send(responses[rng.choice(places)], response=True)
        if rng.random() < 0.3:
            bench.item(barrier=1)
        await ClockCycles(dut.clk, rng.choice((0, 1, 1, 2, 6)))
        place = rng.choice(places)
        if place in bench.live:
            bench.cancel(place)
        else:
            bench.live.add(place)
            bench._drive()
    await bench.settle()
    assert 40 < bench.hollow < len(bench.made) - 40 and not bench.gone, (
        bench.hollow, len(bench.made))  # fmt: skip


@cocotb.test()
@cocotb.parametrize(pace=PACES)
async def each_cause_ends_a_transmission(dut, pace):
    """transport.tx_recall.gone: A transmission is not made if its context is not in use, has
    another id, its handle another generation in any bit, or its QP is halted."""
    bench = Bench(dut, *pace)
    await bench.start()
    rng = bench.rng
    width = bench.contexts.bit_length() - 1
    ids, halted = [], rng.sample(range(bench.queues), bench.queues // 2)
    for number, place in enumerate(rng.sample(range(bench.contexts), 40)):
        kind = number % 5
        qpn = rng.choice([one for one in range(bench.queues) if (one in halted) == (kind == 1)])
        ah = HANDLES - 1 - number
        taken_id = await bench.store(place, qpn=qpn, ah=ah)
        if kind == 2:
            bench.release(place)
        elif kind == 3:
            bench.destroy(ah)
        elif kind == 4:
            taken_id ^= 1 << rng.randrange(width, 32)
        ids.append(taken_id)
    # The contexts in use are all others, too: only that of the transmission counts.
    bench.down = set(halted)
    await ClockCycles(dut.clk, 3)
    for _ in range(6):
        for taken_id in rng.sample(ids, len(ids)):
            bench.send(taken_id)
            if rng.random() < 0.3:
                bench.item()
    await bench.settle()
    made = {one["id"] for one in bench.made}
    assert made == {taken_id for number, taken_id in enumerate(ids) if number % 5 == 0}
    assert len(bench.gone) == 4 * len(bench.made)


@cocotb.test()
@cocotb.parametrize(pace=PACES)
async def causes_come_at_any_time(dut, pace):
    """transport.tx_recall.late: Contexts end, QPs halt and handles are destroyed while their
    transmissions are under way: one is made only if it may be one cycle before; each leaves
    once."""
    bench = Bench(dut, *pace)
    await bench.start()
    rng, ids = bench.rng, {}
    places = rng.sample(range(bench.contexts), 12)
    for turn in range(40):
        for place in places:
            if not bench.used >> place & 1:
                ids[place] = await bench.store(place, qpn=rng.randrange(4), ah=rng.randrange(4))
        for _ in range(16):
            bench.send(ids[rng.choice(places)])
            if rng.random() < 0.3:
                bench.item(barrier=1)
        for _ in range(4):
            await ClockCycles(dut.clk, rng.randrange(6))
            what = rng.randrange(3)
            if what == 0:
                bench.release(rng.choice(places))
            elif what == 1:
                bench.down ^= {rng.randrange(4)}
            elif turn % 4 == 0:
                bench.destroy(rng.randrange(4))
        await bench.settle()
        if turn % 4 == 3:
            # All begin anew.
            bench.down = set()
            for place in places:
                bench.release(place)
    assert len(bench.made) > 60 and len(bench.gone) > 60


@cocotb.test()
@cocotb.parametrize(stalls=[0.0, 0.3, 0.8])
async def new_contexts_leave_at_once(dut, stalls):
    """transport.tx_recall.now: The transmission of a new context leaves at once only if nothing
    waits and it may be made, with its own WQE; else it waits like all others."""
    bench = Bench(dut, stalls)
    await bench.start()
    rng, counts = bench.rng, Counter()
    for turn in range(400):
        place = turn % bench.contexts
        bench.release(place)
        before = rng.randrange(4)
        if before == 0 and bench.stored:
            bench.send(bench.stored[rng.choice(sorted(bench.stored))]["id"])
            await consumed(bench.send_in)
        elif before == 1:
            bench.item()
        bench.down = {rng.randrange(4)} if rng.random() < 0.5 else set()
        taken_id = await bench.store(place, qpn=rng.randrange(4), ah=rng.randrange(4))
        if rng.random() < 0.1:
            bench.release(place)
        if rng.random() < 0.1:
            bench.destroy(rng.randrange(4))
        counts[await bench.send_now(taken_id)] += 1
        for _ in range(rng.choice((0, 0, 8, 24))):
            await RisingEdge(dut.clk)
    await bench.settle()
    assert min(counts.values()) > 20, counts


@cocotb.test()
async def none_follows_a_fence(dut):
    """transport.tx_recall.fence: Once a QP is halted and a fence has left, no transmission of the
    QP leaves behind the fence."""
    bench = Bench(dut, 0.4)
    await bench.start()
    rng = bench.rng
    ids = [await bench.store(place, qpn=place % 2) for place in range(8)]
    for _ in range(30):
        for _ in range(12):
            bench.send(rng.choice(ids))
        await ClockCycles(dut.clk, rng.randrange(1, 12))
        bench.down = {1}
        # The next stage sees the cause one cycle later than the lookup.
        await RisingEdge(dut.clk)
        other = bench.other
        bench.item(barrier=1)
        await until(dut, lambda: bench.other > other, "the fence")  # noqa: B023
        made = len(bench.made)
        await bench.settle()
        assert all(one["id"] % 2 == 0 for one in bench.made[made:])
        bench.down = set()
        await ClockCycles(dut.clk, 3)


@cocotb.test()
async def neither_kind_waits_for_long(dut):
    """transport.tx_recall.turns: With both kinds at each cycle, they leave in turn; transmissions
    that are not made hold up no item."""
    bench = Bench(dut)
    await bench.start()
    good = await bench.store(1)
    moments = Moments(dut, "s_item", "s_send")
    for _ in range(60):
        bench.send(good)
        bench.item()
    await bench.settle()
    assert bench.other == len(bench.made) == 60
    assert abs(moments["s_item"][-1] - moments["s_send"][-1]) <= 4
    bench.release(1)
    moments.clear()
    for _ in range(60):
        bench.send(good)
        bench.item()
    await bench.settle()
    assert len(bench.gone) == 60 and moments.intervals("s_item") == {1}


@cocotb.test()
async def a_context_is_used_again_during_a_stall(dut):
    """transport.tx_recall.reuse: A transmission that waits while its context ends and is used again
    by another send is not made."""
    stall = {"on": False}
    bench = Bench(dut, lambda: stall["on"])
    await bench.start()
    for waits in range(8):
        old = await bench.store(5)
        stall["on"] = True
        await ClockCycles(dut.clk, 2)
        bench.item()
        bench.item()
        await ClockCycles(dut.clk, 4)
        bench.send(old)
        await ClockCycles(dut.clk, waits)
        bench.release(5)
        await ClockCycles(dut.clk, 2)
        await bench.store(5)
        await ClockCycles(dut.clk, 2)
        stall["on"] = False
        await bench.settle()
        assert not bench.made, f"made {waits} cycles before its context ended"


@cocotb.test()
async def cycles(dut):
    """transport.tx_recall.cycles: Transmissions and items meet their specified cycles."""
    bench = Bench(dut)
    await bench.start()
    good = await bench.store(3)
    moments = Moments(dut, "s_send", "s_item", "m_item", "m_gone")
    for _ in range(20):
        bench.send(good)
    await bench.settle()
    moments.hold("efa_tx_recall", "send", "s_send", "m_item")
    moments.clear()
    for _ in range(20):
        bench.item()
    await bench.settle()
    moments.hold("efa_tx_recall", "item", "s_item", "m_item")
    moments.clear()
    bench.release(3)
    for _ in range(20):
        bench.send(good)
    await bench.settle()
    moments.hold("efa_tx_recall", "send", "s_send", "m_gone")
    for place in range(8):
        moments.clear()
        assert await bench.send_now(await bench.store(place))
        await bench.settle()
        found = moments.latency("s_send", "m_item")
        assert found == timing("efa_tx_recall", "now").latency, found


@cocotb.test()
async def reset_in_the_middle_of_traffic(dut):
    """transport.tx_recall.reset: A reset discards transmissions and items."""
    bench = Bench(dut, 0.5)
    await bench.start()
    ids = [await bench.store(place) for place in range(8)]
    for turn in range(4):
        for _ in range(30):
            bench.send(bench.rng.choice(ids))
            bench.item()
        await ClockCycles(dut.clk, 15 + turn)
        bench.send_in.clear()
        bench.item_in.clear()
        await reset(dut)
        left = len(bench.made) + bench.other
        await ClockCycles(dut.clk, 10)
        assert len(bench.made) + bench.other == left
        bench.send(ids[0])
        await bench.settle()
        assert len(bench.made) + bench.other == left + 1
