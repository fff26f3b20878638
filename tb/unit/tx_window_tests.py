# SPDX-License-Identifier: Apache-2.0
"""Tests efa_tx_window: resolved, lost and repeated packets of a send window, and walks over it."""

import cocotb
from cocotb.triggers import RisingEdge

from efa_cosim.layouts.defs import TxSlots
from efa_cosim.transport.packets import PSN_MASK, psn_distance
from tb.lib.stream import clock_and_reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, zero

EVENTS = ("s_load", "s_clear", "s_begin", "s_add", "s_holds", "s_step", "s_resolve", "s_lose",
          "s_again", "s_sent", "s_advance")  # fmt: skip
STARTS = (0, 7, PSN_MASK, PSN_MASK - 4, (1 << 31) - 3)


class RefModel:
    """Models the window as sets of PSNs; checks all outputs at each edge."""

    def __init__(self, dut, name):
        self.dut, self.rng, self.window = dut, rng_for(name), len(dut.s_given)
        self.begin(0)

    def begin(self, first):
        self.oldest = self.next = first
        self.resolved, self.lost, self.again, self.todo = set(), set(), set(), None
        self.moves = None

    async def start(self):
        zero(self.dut, *EVENTS, "s_state", "s_first", "s_next", "s_begin_slots", "s_given",
             "s_slot")  # fmt: skip
        self.dut.s_clear.value = 1
        await clock_and_reset(self.dut)
        self.dut.s_clear.value = 0

    @property
    def sent(self):
        """Returns the PSNs from oldest to before the next one."""
        return [self.oldest + at & PSN_MASK for at in range(self.next - self.oldest & PSN_MASK)]

    @property
    def open(self):
        return [psn for psn in self.sent if psn not in self.resolved]

    def slots(self, psns):
        return sum(1 << psn % self.window for psn in psns)

    def state(self):
        packed = self.oldest
        for psns in (self.resolved, self.lost, self.again):
            packed = packed << self.window | self.slots(psns)
        return packed

    def send(self, count=None):
        free = self.window - len(self.sent)
        self.next = self.next + (free if count is None else min(count, free)) & PSN_MASK

    async def step(self, psn=None, **events):
        """Applies events, those of a packet to `psn`."""
        dut = self.dut
        slot = self.oldest if psn is None else psn
        raised = {f"s_{name}": 1 for name in events}
        drive(dut, s_next=self.next, s_slot=slot % self.window, **raised)
        if "add" in events:
            drive(dut, s_given=self.slots(events["add"]))
        if "begin" in events:
            which, psns = events["begin"]
            drive(dut, s_begin_slots=which, s_given=self.slots(psns))
        if "load" in events:
            drive(dut, s_state=events["load"].state())
        if "clear" in events:
            drive(dut, s_first=events["clear"])
        await RisingEdge(dut.clk)
        zero(dut, *raised)
        opens = self.open
        assert dut.m_state.value == self.state()
        assert dut.m_oldest.value == self.oldest
        assert dut.m_slot_open.value == (slot not in self.resolved)
        assert dut.m_slot_lost.value == (slot in self.lost)
        assert dut.m_slot_again.value == (slot in self.again)
        assert dut.m_any_lost.value == bool(self.lost)
        assert dut.m_any_again.value == bool(self.again.intersection(opens))
        last = self.next - 1 & PSN_MASK
        assert dut.m_last_in_flight.value == (last in opens and last not in self.lost)
        assert dut.m_unresolved.value == bool(opens)
        assert dut.m_any_resolved.value == bool(self.resolved)
        if self.todo is not None:
            assert dut.m_found.value == bool(self.todo)
            if self.todo:
                assert dut.m_slot.value == self.todo[0] % self.window
        self._apply(psn, events, opens)

    def _apply(self, psn, events, opens):
        first = self.todo[0] if self.todo else None
        if self.moves is not None:
            self.oldest, self.moves = self.moves, None
            for psns in (self.resolved, self.lost, self.again):
                psns.intersection_update(self.sent)
        if "add" in events:
            self.todo += [one for one in opens if one in events["add"] and one not in self.todo
                          and not ("holds" in events and one == psn)]  # fmt: skip
        if "step" in events:
            self.todo.remove(first)
        if self.todo is not None:
            self.todo.sort(key=self._place)
        if "begin" in events:
            which, psns = events["begin"]
            self.todo = [one for one in opens if {
                TxSlots.GIVEN: one in psns, TxSlots.IN_FLIGHT: one not in self.lost,
                TxSlots.LOST: one in self.lost, TxSlots.UNRESOLVED: True}[which]]  # fmt: skip
        if "advance" in events:
            self.moves = opens[0] if opens else self.next
        if "resolve" in events:
            self.resolved.add(psn)
        if "resolve" in events or "sent" in events:
            self.lost.discard(psn)
        if "lose" in events:
            self.lost.add(psn)
        if "again" in events:
            self.again.add(psn)
        if "clear" in events:
            self.begin(events["clear"])
        if "load" in events:
            other = events["load"]
            self.begin(other.oldest)
            self.next = other.next
            self.resolved, self.lost, self.again = (
                set(other.resolved), set(other.lost), set(other.again))  # fmt: skip

    def _place(self, psn):
        return psn - self.oldest & PSN_MASK

    async def advance(self):
        await self.step(advance=1)
        for _ in range(timing("efa_tx_window", "advance").latency):
            await self.step()


@cocotb.test()
async def oldest_moves(dut):
    """transport.tx_window.oldest: Oldest moves to the first PSN that is not resolved, over any
    number of PSNs of a full window, and over the wrap; an empty window moves nothing."""
    ref = RefModel(dut, "oldest")
    await ref.start()
    for first in STARTS:
        await ref.step(clear=first)
        await ref.advance()
        for count in (1, 2, ref.window // 2, ref.window - 1, ref.window):
            ref.send()
            for psn in ref.rng.sample(ref.sent[:count], count):
                await ref.step(psn, resolve=1)
            await ref.advance()
            assert len(ref.sent) == ref.window - count and not ref.resolved
        # A PSN that is resolved behind a hole waits for it.
        ref.send()
        for psn in ref.sent[1:]:
            await ref.step(psn, resolve=1)
        await ref.advance()
        assert len(ref.sent) == ref.window
        await ref.step(ref.oldest, resolve=1)
        await ref.advance()
        assert not ref.sent
        # Oldest moves over a full window once, if it may move in each cycle.
        ref.send()
        for psn in ref.sent:
            await ref.step(psn, resolve=1)
        for _ in range(4):
            await ref.step(advance=1)
        await ref.advance()
        assert not ref.sent


@cocotb.test()
async def lost_and_sent_again(dut):
    """transport.tx_window.lost: A lost packet is lost until it is sent again or resolved; one that
    was sent again stays so until oldest has passed it."""
    ref = RefModel(dut, "lost")
    await ref.start()
    for first in STARTS:
        await ref.step(clear=first)
        ref.send()
        for psn in (ref.sent[0], ref.sent[-1], ref.sent[ref.window // 2]):
            await ref.step(psn, lose=1)
            await ref.step(psn, again=1)
            await ref.step(psn, sent=1)
            await ref.step(psn, lose=1)
            await ref.step(psn, resolve=1)
            await ref.step(psn)
            await ref.advance()
    assert timing("efa_tx_window", "state") == (1, 1, None)


@cocotb.test()
async def walks(dut):
    """transport.tx_window.walk: A walk passes the given, lost, unresolved slots or those in flight,
    from oldest on, one per cycle, also round the end of the window."""
    ref = RefModel(dut, "walk")
    await ref.start()
    rng = ref.rng
    for first in STARTS:
        await ref.step(clear=first)
        for _ in range(4):
            ref.send(rng.choice((3, ref.window)))
            for psn in ref.open:
                await ref.step(psn, **rng.choice(({}, {"resolve": 1}, {"lose": 1}))
                               if psn not in ref.lost else {})  # fmt: skip
            for which in TxSlots:
                given = [psn for psn in ref.sent if rng.random() < 0.4]
                await ref.step(begin=(which, given))
                while ref.todo:
                    await ref.step(**rng.choice(({}, {"step": 1}, {"step": 1})))
                await ref.step()
            await ref.advance()


@cocotb.test()
async def random_events(dut):
    """transport.tx_window.random: Random packets of several peers in turn, several events in a
    cycle; slots join walks, and oldest moves meanwhile."""
    ref = RefModel(dut, "random")
    await ref.start()
    rng, peers = ref.rng, [RefModel(dut, "other") for _ in range(3)]
    for peer, first in zip(peers, STARTS[2:], strict=True):
        peer.begin(first)
    for _ in range(3000):
        ref.send(rng.choice((0, 0, 1, 2)))
        psn = rng.choice(ref.sent or [ref.oldest])
        events = {}
        kind = rng.random()
        if psn in ref.open:
            if kind < 0.5 and psn not in (ref.todo or ()):
                events["resolve"] = 1
            elif psn in ref.lost:
                events["sent"] = 1
            elif kind < 0.7:
                events["lose"] = 1
            if rng.random() < 0.2:
                events["again"] = 1
        if ref.todo and kind > 0.2:
            events["step"] = 1
        elif kind > 0.7:
            events["begin"] = rng.choice(list(TxSlots)), ref.open[::2]
        if ref.todo is not None and "begin" not in events and rng.random() < 0.2:
            events["add"] = rng.sample(ref.open, len(ref.open) // 3)
            if rng.random() < 0.5:
                events["holds"] = 1
        if rng.random() < 0.3:
            events["advance"] = 1
        await ref.step(psn, **events)
        if ref.moves is None and not ref.todo and rng.random() < 0.03:
            at = rng.randrange(3)
            other = peers[at]
            peers[at] = saved = RefModel(dut, "other")
            saved.begin(ref.oldest)
            saved.next = ref.next
            saved.resolved, saved.lost, saved.again = ref.resolved, ref.lost, ref.again
            await ref.step(load=other)
            ref.todo = None
    assert psn_distance(ref.next, ref.oldest) >= 0
