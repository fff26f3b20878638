# SPDX-License-Identifier: Apache-2.0
"""Tests efa_ack_join: acknowledgements of a peer join while they wait; refusals wait in a FIFO."""

from collections import defaultdict, deque

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import INTERNAL, TRANSPORT
from efa_cosim.layouts.fields import SrdAckFields
from efa_cosim.transport.packets import PSN_MASK, psn_distance
from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive
from tb.unit.data_bench import Moments

SHOWN = ("session", "incarnation", "path", "status", "refused_psn", "psn", "bitmap_psn")


class Bench:
    """Sends acknowledgements; `held` blocks the output, with one of the last peer waiting there."""

    def __init__(self, dut, name, gaps=0.0, stalls=0.0):
        self.dut, self.rng, self.held = dut, rng_for(name), False
        self.nodes = 1 << int(dut.NODE_W.value)
        self.acks = StreamDriver(dut, "s_ack", gaps, ["data"])
        self.out = StreamMonitor(dut, "m_ack", stalls or (lambda: self.held), ["data"])
        self._posted = deque()

    async def start(self):
        cocotb.start_soon(self._ticks())
        await clock_and_reset(self.dut)

    async def _ticks(self):
        """Counts the time, and notes it for each acknowledgement that arrives."""
        ticks = self.rng.getrandbits(24)
        while True:
            drive(self.dut, s_ticks=ticks)
            await RisingEdge(self.dut.clk)
            if self.dut.s_ack_valid.value == 1 and self.dut.rst.value == 0:
                self._posted.popleft()["ticks"] = ticks
            ticks = ticks + (self.rng.random() < 0.4) & 0xFFFFFF

    def waiting(self):
        """Returns the peers whose acknowledgement waits or is offered."""
        return {node for node in range(self.nodes) if int(self.dut.m_waits.value) >> node & 1}

    def ack(self, node, **fields):
        """Posts an acknowledgement; returns what it says."""
        rng = self.rng
        known = {"session": 5, "incarnation": 3, "path": rng.randrange(8), "status": 0,
                 "refused_psn": rng.getrandbits(32), "psn": 0, "bitmap": rng.getrandbits(256)}
        known |= fields  # fmt: skip
        known.setdefault("bitmap_psn", known["psn"])
        data = SrdAckFields.pack(
            src_node=node, dst_node=rng.getrandbits(16), src_qpn=rng.getrandbits(16),
            dst_qpn=rng.getrandbits(16), bitmap=known["bitmap"].to_bytes(32, "little"),
            **{name: known[name] for name in SHOWN})  # fmt: skip
        self.acks.post({"data": int.from_bytes(data, "little")})
        known |= {"node": node}
        self._posted.append(known)
        return known

    async def hold(self):
        """Blocks the output with an acknowledgement of the last peer; returns it."""
        self.held = True
        ack = self.ack(self.nodes - 1)
        await self.settle()
        return ack

    async def settle(self):
        await self.acks.idle()
        await ClockCycles(self.dut.clk, 8)

    async def release(self, cycles=20):
        """Returns what leaves while the output is free."""
        self.held = False
        await ClockCycles(self.dut.clk, cycles)
        found = [vars(INTERNAL.tx_ack.unpack(beat["data"])) for beat in self.out.beats]
        self.out.beats.clear()
        return found


@cocotb.test()
async def a_later_one_replaces(dut):
    """transport.ack_join.replace: A waiting acknowledgement is replaced by a newer PSN or another
    session or incarnation, not by an older PSN; two for one PSN show their bits together."""
    bench = Bench(dut, "replace")
    await bench.start()
    rng = bench.rng
    for begin in (0, PSN_MASK - 2, (1 << 31) - 2, rng.getrandbits(32)):
        for fields, keeps in (({"psn": begin + 1}, False), ({"psn": begin - 1}, True),
                              ({"psn": begin + 1, "bitmap": 0}, False), ({}, None),
                              ({"psn": begin - (1 << 31) + 1}, True),
                              ({"bitmap_psn": begin + 256}, False), ({"session": 6}, False),
                              ({"psn": begin - 1, "session": None}, False),
                              ({"psn": begin - 1, "incarnation": None}, False)):  # fmt: skip
            for apart in (0, 1, 4):
                blocking, node = await bench.hold(), rng.randrange(bench.nodes - 1)
                known = {"psn": begin} | fields
                # Another number differs in any bit.
                known |= {name: 3 ^ 1 << rng.randrange(2, 16)
                          for name, value in fields.items() if value is None}  # fmt: skip
                known |= {name: known[name] & PSN_MASK for name in ("psn", "bitmap_psn")
                          if name in known}  # fmt: skip
                first = bench.ack(node, psn=begin, session=3)
                if apart:
                    await bench.acks.idle()
                    await ClockCycles(dut.clk, apart)
                second = bench.ack(node, **{"session": 3} | known)
                await bench.settle()
                if keeps is None:
                    second["bitmap"] |= first["bitmap"]
                assert await bench.release() == [blocking, first if keeps else second], fields


@cocotb.test()
async def an_older_one_leaves_if_none_waits(dut):
    """transport.ack_join.older: What has left replaces and holds back nothing, for each peer."""
    bench = Bench(dut, "older")
    await bench.start()
    for node in range(bench.nodes):
        for psn in (9, 8, 8):
            ack = bench.ack(node, psn=psn)
            assert await bench.release(9) == [ack]


@cocotb.test()
async def peers_and_refusals_in_turn(dut):
    """transport.ack_join.turns: Waiting peers leave in round robin, refusals in their order, and
    peers and refusals in turn; a refusal joins nothing. A peer is shown until its acknowledgement
    is taken."""
    bench = Bench(dut, "turns")
    await bench.start()
    for refusals in (0, 3, 5):
        nodes = bench.rng.sample(range(bench.nodes - 1), min(bench.nodes - 1, 4))
        blocking = await bench.hold()
        waiting = {node: bench.ack(node) for node in nodes}
        refused = [bench.ack(nodes[0], status=7 + at) for at in range(refusals)]
        await bench.settle()
        assert bench.waiting() == {blocking["node"], *nodes}
        found = await bench.release(80)
        assert bench.waiting() == set()
        assert found.pop(0) == blocking
        assert [ack for ack in found if ack["status"]] == refused
        peers = [ack for ack in found if not ack["status"]]
        assert peers == [waiting[node] for node in sorted(nodes)]
        kinds = [bool(ack["status"]) for ack in found][: 2 * min(refusals, len(nodes))]
        assert all(one != other for one, other in zip(kinds, kinds[1:], strict=False)), kinds


@cocotb.test()
async def refusals_without_space_are_lost(dut):
    """transport.ack_join.lost: As many refusals as specified wait; further ones are lost, and
    acknowledgements are still accepted."""
    bench = Bench(dut, "lost")
    await bench.start()
    depth = 1 << int(dut.REFUSALS_LOG2.value)
    assert depth == 8 or timing("efa_ack_join", "refusal").depth == depth == TRANSPORT.replies
    for _ in range(2):
        blocking = await bench.hold()
        refused = [bench.ack(1, status=12) for _ in range(depth + 9)]
        last = bench.ack(0)
        await bench.settle()
        found = await bench.release(3 * depth + 20)
        assert found.pop(0) == blocking
        found.remove(last)
        assert found == refused[:depth]


@cocotb.test()
async def cycles(dut):
    """transport.ack_join.time: Acknowledgements and refusals meet their specified cycles."""
    bench = Bench(dut, "time")
    await bench.start()
    module, seen = "efa_ack_join", Moments(dut, "s_ack", "m_ack")
    bench.ack(1)
    await bench.release()
    assert seen.latency("s_ack", "m_ack") == timing(module, "ack").latency
    seen.clear()
    for node in range(min(bench.nodes, 8)):
        bench.ack(node)
    await bench.release(60)
    assert seen.intervals("s_ack") == {1}
    assert seen.intervals("m_ack") == {timing(module, "ack").interval}
    # A small FIFO is faster.
    if int(dut.REFUSALS_LOG2.value) > 5:
        seen.clear()
        for _ in range(8):
            bench.ack(1, status=9)
        await bench.release(60)
        refusal = timing(module, "refusal")
        assert seen.latency("s_ack", "m_ack") == refusal.latency
        assert seen.intervals("m_ack") == {refusal.interval}


@cocotb.test()
async def reset_forgets_all(dut):
    """transport.ack_join.reset: A reset discards what waits."""
    bench = Bench(dut, "reset")
    await bench.start()
    for wait in (0, 1, 2, 3, 12):
        await bench.hold()
        for node in range(3):
            bench.ack(node)
            bench.ack(node, status=9)
        await bench.acks.idle()
        await ClockCycles(dut.clk, wait)
        await reset(dut)
        assert bench.waiting() == set()
        assert await bench.release(30) == []
        ack = bench.ack(1, psn=PSN_MASK)
        assert await bench.release(30) == [ack]


@cocotb.test()
@cocotb.parametrize(stalls=[0.01, 0.5, 0.95], peers=[1, 3])
async def random_acknowledgements(dut, stalls, peers):
    """transport.ack_join.random: Under load, all that an acknowledgement shows leaves with it or
    later; nothing leaves that was not shown."""
    bench = Bench(dut, f"random {stalls} {peers}", 0.3, stalls)
    await bench.start()
    rng, sent = bench.rng, defaultdict(list)
    psns = {node: rng.getrandbits(32) for node in range(peers)}
    for _ in range(400):
        node = rng.randrange(peers)
        psns[node] += rng.choice((0, 0, 1, 3))
        psn = psns[node] - (rng.random() < 0.2) & PSN_MASK
        sent[node].append(bench.ack(node, psn=psn, bitmap=rng.getrandbits(8) << rng.randrange(9)))
    await bench.acks.idle()
    await ClockCycles(dut.clk, 400)
    found = [vars(INTERNAL.tx_ack.unpack(beat["data"])) for beat in bench.out.beats]
    for node, acks in sent.items():
        left = [ack for ack in found if ack["node"] == node]
        for ack in left:
            same = [one for one in acks if one["psn"] == ack["psn"]]
            shown = 0
            for one in same:
                shown |= one["bitmap"]
            assert same and not ack["bitmap"] & ~shown
            assert ack["path"] in [one["path"] for one in same]
        for ack in acks:
            assert any(psn_distance(one["psn"], ack["psn"]) > 0 or (
                one["psn"] == ack["psn"] and not ack["bitmap"] & ~one["bitmap"])
                for one in left), ack  # fmt: skip
