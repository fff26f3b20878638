# SPDX-License-Identifier: Apache-2.0
"""Tests efa_ack_build: flits of acknowledgements and replies from given states of the peers."""

from collections import defaultdict

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import INTERNAL, PktOpcode, SrdAck
from efa_cosim.layouts.fields import SrdAckFields
from efa_cosim.transport.packets import BITMAP_BYTES, PSN_MASK
from tb.lib.dont_care import dont_care
from tb.lib.stream import StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, pulse, until, zero
from tb.unit.data_bench import Moments

REPLY = timing("efa_ack_build", "reply")


class Bench:
    """Models the states of the peers, which a test changes while nothing is built."""

    def __init__(self, dut, name, stalls=0.0):
        self.dut, self.rng = dut, rng_for(name)
        self.nodes, self.window = 1 << int(dut.NODE_W.value), 1 << int(dut.WINDOW_W.value)
        zero(dut, "s_due_valid", "s_due_data", "s_reply_valid", "s_reply_data",
             "window_rd_data", "accepted_rd_data")  # fmt: skip
        self.node, self.incarnation = self.rng.getrandbits(16), self.rng.getrandbits(16)
        dut.s_cfg_node_id.value, dut.s_cfg_incarnation.value = self.node, self.incarnation
        self.acks = StreamMonitor(dut, "m_ack", stalls, ["data"])
        self.states = {node: self.state() for node in range(self.nodes)}

    async def start(self):
        await clock_and_reset(self.dut)
        cocotb.start_soon(self._tables())

    def state(self):
        """Returns (session, oldest, oldest of the bits, bits by place)."""
        rng = self.rng
        before = rng.getrandbits(32)
        ahead = rng.choice((0, 1, self.window // 2, self.window - 1, self.window,
                            rng.randrange(3 * self.window)))  # fmt: skip
        return (rng.randrange(1, 1 << 16), before + ahead & PSN_MASK, before,
                rng.getrandbits(self.window))  # fmt: skip

    async def _tables(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            mask = self.nodes - 1
            if dut.rst.value == 1:
                continue
            session, oldest, _, _ = self.states[int(dut.window_rd_addr.value) & mask]
            dut.window_rd_data.value = INTERNAL.rx_window.pack(session=session, oldest=oldest)
            session, _, before, bits = self.states[int(dut.accepted_rd_addr.value) & mask]
            dut.accepted_rd_data.value = bits << INTERNAL.rx_window.width | INTERNAL.rx_window.pack(
                session=session, oldest=before)  # fmt: skip

    async def due(self, node, path=None, again=0, **fields):
        """Reports a due acknowledgement; returns its path."""
        path = self.rng.getrandbits(8) if path is None else path
        known = {"node": node, "path": path, "session": self.states[node][0], "due": 1,
                 "again": again}  # fmt: skip
        await pulse(self.dut, "s_due_valid", s_due_data=INTERNAL.srd_due.pack(**known | fields))
        return path

    async def reply(self, *both):
        """Reports replies at both inputs, None for nothing, until they are accepted."""
        dut, left = self.dut, list(both)
        while any(left):
            dut.s_reply_valid.value = sum((one is not None) << at for at, one in enumerate(left))
            width = INTERNAL.srd_reply.width
            dut.s_reply_data.value = sum(INTERNAL.srd_reply.pack(**one) << width * at
                                         for at, one in enumerate(left) if one)  # fmt: skip
            await RisingEdge(dut.clk)
            ready = int(dut.s_reply_ready.value)
            left = [None if ready >> at & 1 else one for at, one in enumerate(left)]
        dut.s_reply_valid.value = 0

    def flit(self, node, path, **fields):
        """Returns the acknowledgement that shows the state of a peer."""
        session, oldest, before, bits = self.states[node]
        places = 0
        for at in range(self.window):
            psn = before + at
            if psn - before >= (oldest - before & PSN_MASK):
                shown = psn - oldest & PSN_MASK
                places |= (bits >> psn % self.window & 1) << shown
        known = {"src_qpn": 0, "dst_qpn": 0, "refused_psn": 0, "psn": oldest, "session": session,
                 "status": 0, "bits": places}  # fmt: skip
        known |= fields
        return SrdAckFields.pack(
            opcode=PktOpcode.SRD_ACK, length=BITMAP_BYTES, src_qpn=known["src_qpn"],
            dst_qpn=known["dst_qpn"], refused_psn=known["refused_psn"], psn=known["psn"],
            session=known["session"], incarnation=self.incarnation, bitmap_psn=known["psn"],
            src_node=self.node, dst_node=node, path=path, status=known["status"],
            bitmap=known["bits"].to_bytes(BITMAP_BYTES, "little"))  # fmt: skip

    def refusal(self, node, **fields):
        """Returns a refusal that the peer has not passed, and its flit."""
        rng = self.rng
        session, oldest, _, _ = self.states[node]
        psn = oldest + rng.randrange(self.window) & PSN_MASK
        reply = dont_care(INTERNAL.srd_reply, rng, stateless=0, node=node, session=session,
                          refused_psn=psn) | fields  # fmt: skip
        return reply, self.flit(node, reply["path"], **{
            name: reply[name] for name in ("src_qpn", "dst_qpn", "refused_psn", "status")})

    def stateless(self, node):
        """Returns a reply that shows no state, and its flit."""
        reply = dont_care(INTERNAL.srd_reply, self.rng, stateless=1, node=node)
        return reply, self.flit(node, reply["path"], bits=0, **{
            name: reply[name]
            for name in ("src_qpn", "dst_qpn", "refused_psn", "status", "psn", "session")})

    async def check(self, wanted, cycles=60):
        """Checks that exactly these flits leave, in order."""
        found = await self.acks.take(len(wanted))
        assert [beat["data"].to_bytes(SrdAck.SIZE, "little") for beat in found] == wanted
        await self.acks.none(cycles)


@cocotb.test()
async def the_bitmap_begins_at_oldest(dut):
    """transport.ack_build.bitmap: The bitmap shows the stored bits from oldest on, for oldest at
    each place of the window and any number of PSNs passed since the bits were stored."""
    bench = Bench(dut, "bitmap")
    await bench.start()
    for ahead in (0, 1, bench.window // 2, bench.window - 1, bench.window, 1 << 20):
        for place in range(0, bench.window, max(1, bench.window // 32)):
            node = bench.rng.randrange(bench.nodes)
            session, _, before, bits = bench.state()
            before = before - before % bench.window + place
            oldest = before + ahead & PSN_MASK
            bench.states[node] = session, oldest, before & PSN_MASK, bits
            path = await bench.due(node)
            await bench.check([bench.flit(node, path)], 6)


@cocotb.test()
@cocotb.parametrize(stalls=[0.0, 0.5, 0.9])
async def replies_and_due_acknowledgements(dut, stalls):
    """transport.ack_build.random: Replies of both kinds and due acknowledgements leave with their
    fields; each due peer once, with the path of its first cause or its last duplicate."""
    bench = Bench(dut, f"random {stalls}", stalls)
    await bench.start()
    rng = bench.rng
    for _ in range(30):
        bench.states = {node: bench.state() for node in range(bench.nodes)}
        wanted = []
        for _ in range(rng.randrange(4)):
            both = [bench.refusal(rng.randrange(bench.nodes)),
                    bench.stateless(rng.randrange(bench.nodes))]  # fmt: skip
            drop = rng.choice((None, 0, 1))
            await bench.reply(*(None if at == drop else one[0] for at, one in enumerate(both)))
            wanted += [one[1] for at, one in enumerate(both) if at != drop]
        nodes = rng.sample(range(bench.nodes), rng.randrange(1, bench.nodes + 1))
        paths = {node: await bench.due(node) for node in nodes}
        await ClockCycles(dut.clk, 12 * len(wanted) + 40 * len(nodes) + 40)
        found = [beat["data"].to_bytes(SrdAck.SIZE, "little") for beat in bench.acks.beats]
        bench.acks.beats.clear()
        wanted += [bench.flit(node, path) for node, path in paths.items()]
        assert sorted(found) == sorted(wanted)


@cocotb.test()
async def replies_of_the_past_are_left_out(dut):
    """transport.ack_build.past: A refusal of another session or before oldest is left out, and a
    due acknowledgement of an older session; a session that begins clears what was due."""
    held = {"on": False}
    bench = Bench(dut, "past", lambda: held["on"])
    await bench.start()
    for node in range(min(bench.nodes, 8)):
        session, oldest = bench.states[node][:2]
        for fields in ({"session": session ^ 1 << node}, {"refused_psn": oldest - 1 & PSN_MASK},
                       {"refused_psn": oldest - (1 << 31) & PSN_MASK}):  # fmt: skip
            await bench.reply(bench.refusal(node, **fields)[0], None)
        await bench.due(node, session=session ^ 1 << node)
        reply, flit = bench.refusal(node, refused_psn=oldest)
        await bench.reply(reply, None)
        await bench.check([flit], 30)
        # The port waits; what was due is cleared, then due again with another path.
        held["on"] = True
        blocked = [bench.stateless(node) for _ in range(3)]
        for reply, _ in blocked:
            await bench.reply(None, reply)
        await ClockCycles(dut.clk, 12)
        other = (node + 1) % bench.nodes
        await bench.due(node)
        await bench.due(other)
        await bench.due(node, due=0, begins=1)
        await bench.due(other, again=0, begins=0)
        path = await bench.due(other, begins=1)
        later = await bench.due(node)
        held["on"] = False
        wanted = {node: later, other: path}
        found = [beat["data"].to_bytes(SrdAck.SIZE, "little") for beat in await bench.acks.take(5)]
        assert found[:3] == [flit for _, flit in blocked]
        assert sorted(found[3:]) == sorted(bench.flit(*one) for one in wanted.items())
        await bench.acks.none(30)


@cocotb.test()
async def peers_take_turns(dut):
    """transport.ack_build.turns: While all peers are due all the time, each has its turn once in a
    round."""
    bench = Bench(dut, "turns")
    await bench.start()
    bench.acks.beats.clear()
    for _ in range(6):
        for node in bench.rng.sample(range(bench.nodes), bench.nodes):
            await bench.due(node, again=1)
    await ClockCycles(dut.clk, bench.nodes + 20)
    last, gaps = {}, defaultdict(list)
    for number, beat in enumerate(bench.acks.beats):
        node = SrdAckFields.read(beat["data"].to_bytes(SrdAck.SIZE, "little")).dst_node
        gaps[node].append(number - last.get(node, number))
        last[node] = number
    assert len(last) == bench.nodes
    assert all(gap <= 2 * bench.nodes for found in gaps.values() for gap in found)


@cocotb.test()
async def cycles(dut):
    """transport.ack_build.time: Acknowledgements and replies meet their specified cycles, one per
    cycle."""
    bench = Bench(dut, "time")
    await bench.start()
    seen = Moments(dut, "s_due", "m_ack")
    dut.s_due_valid.value = 1
    for node in range(min(bench.nodes, 8)):
        data = INTERNAL.srd_due.pack(node=node, session=bench.states[node][0], due=1)
        dut.s_due_data.value = data
        await RisingEdge(dut.clk)
    dut.s_due_valid.value = 0
    await ClockCycles(dut.clk, 20)
    seen.hold("efa_ack_build", "due", "s_due", "m_ack")
    # A small queue of replies is faster: its items are in registers.
    if int(dut.REPLIES_LOG2.value) > 5:
        bench.acks.beats.clear()
        replies = [bench.stateless(1) for _ in range(5)]
        begin = bench.acks.consumed
        for reply, _ in replies:
            drive(dut, s_reply_valid=1, s_reply_data=INTERNAL.srd_reply.pack(**reply))
            await RisingEdge(dut.clk)
        dut.s_reply_valid.value = 0
        # The first edge after the last reply; a flit is counted at the edge that accepts it.
        for waited in range(REPLY.latency - len(replies) + 1):
            await RisingEdge(dut.clk)
            assert bench.acks.consumed == begin, waited
        for count in range(len(replies)):
            await RisingEdge(dut.clk)
            assert bench.acks.consumed - begin == count + REPLY.interval
        await bench.check([flit for _, flit in replies])


@cocotb.test()
async def reset_forgets_all(dut):
    """transport.ack_build.reset: A reset discards due acknowledgements, replies and the flits in
    progress."""
    held = {"on": True}
    bench = Bench(dut, "reset", lambda: held["on"])
    await bench.start()
    for wait in (0, 1, 2, 3, 4, 9):
        held["on"] = wait % 2 == 0
        for node in range(bench.nodes):
            await bench.due(node)
        await bench.reply(bench.refusal(0)[0], bench.stateless(1)[0])
        await ClockCycles(dut.clk, wait)
        await reset(dut)
        bench.acks.beats.clear()
        held["on"] = False
        await bench.acks.none(40)
        path = await bench.due(1)
        await bench.check([bench.flit(1, path)], 10)
    await until(dut, lambda: dut.m_ack_valid.value == 0, "no flit")
