# SPDX-License-Identifier: Apache-2.0
"""Tests efa_rx_window: each packet leaves by one way, under stalls of each; reads of the state."""

from collections import defaultdict, deque

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import INTERNAL
from efa_cosim.layouts.fields import SrdAckFields, SrdHdrFields
from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import high, until, zero
from tb.unit.data_bench import Moments
from tb.unit.srd_receiver_bench import ABORT, Peer, RefModel, header, outcome

READ = timing("efa_rx_window", "read")
WAYS = ("pkt", "again", "reply")


class Bench:
    """Compares each way of a packet with the model; `stalls` are those of m_pkt, m_again,
    m_reply."""

    def __init__(self, dut, name, gaps=0.0, stalls=(0.0, 0.0, 0.0)):
        self.dut, self.rng = dut, rng_for(name)
        self.nodes, self.window = 1 << int(dut.NODE_W.value), 1 << int(dut.WINDOW_W.value)
        self.reads = int(dut.READS.value)
        zero(dut, "s_quiet", "s_cfg_incarnation", "window_rd_addr")
        self.packets = StreamDriver(dut, "s_pkt", gaps, ["data"])
        self.ways = {
            way: StreamMonitor(dut, f"m_{way}", stall, ["data"])
            for way, stall in zip(WAYS, stalls, strict=True)
        }  # fmt: skip
        self.restart()

    def restart(self):
        self.node, self.incarnation = self.rng.getrandbits(16), self.rng.randrange(2, 0xFFFF)
        self.dut.s_cfg_incarnation.value = self.incarnation
        self.model = RefModel(self.node, self.nodes, self.window.bit_length() - 1,
                              self.incarnation)  # fmt: skip
        self.sent, self.inside = deque(), deque()
        self.wanted = {way: deque() for way in WAYS}
        self.places, self.expected = defaultdict(int), None
        self.is_new, self.read = True, 0

    async def start(self):
        await clock_and_reset(self.dut)
        await until(self.dut, high(self.dut.m_init_done))
        cocotb.start_soon(self._watch())

    def send(self, *packets):
        for packet in packets:
            slot = self.rng.getrandbits(8)
            data = INTERNAL.rx_pkt.pack(header=header(packet), line=self.rng.getrandbits(9),
                                        slot=slot)  # fmt: skip
            self.sent.append((packet, data, slot))
            self.packets.post({"data": data})

    def _left(self):
        """Compares the beats that have left."""
        for way, wanted in self.wanted.items():
            while self.ways[way].beats:
                beat = self.ways[way].beats.popleft()
                assert wanted, f"m_{way}: unexpected {beat['data']:#x}"
                assert beat["data"] == wanted.popleft(), f"m_{way}"

    async def _watch(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value == 1 or dut.m_init_done.value == 0:
                self.is_new, self.expected = True, None
                continue
            passes = dut.m_pkt_valid.value == 1
            if dut.m_free_valid.value == 1 or (passes and self.is_new):
                self._judge(freed=dut.m_free_valid.value == 1)
            self.is_new = not passes or dut.m_pkt_ready.value == 1
            self._left()
            if self.expected is not None:
                assert dut.window_rd_data.value == self.expected
                self.read += 1
            nodes = [self.rng.randrange(self.nodes) for _ in range(self.reads)]
            # The address of this edge is the one driven before; its data follows.
            self.expected = sum(self.places[node] << INTERNAL.rx_window.width * lane
                                for lane, node in enumerate(self._addresses()))  # fmt: skip
            bits = self.nodes.bit_length() - 1
            dut.window_rd_addr.value = sum(node << bits * lane for lane, node in enumerate(nodes))
            if dut.s_pkt_valid.value == 1 and dut.s_pkt_ready.value == 1:
                self.inside.append(self.sent.popleft())

    def _addresses(self):
        bits, value = self.nodes.bit_length() - 1, int(self.dut.window_rd_addr.value)
        return [value >> bits * lane & self.nodes - 1 for lane in range(self.reads)]

    def _judge(self, freed):
        """Processes the packet whose check is visible."""
        packet, data, slot = self.inside.popleft()
        model = self.model
        duplicates = model.endpoint.counters.duplicates
        passes = model.receive(packet, int(self.dut.s_quiet.value), 0)
        assert passes != freed, SrdHdrFields.read(packet)
        fields = SrdHdrFields.read(packet)
        if passes:
            self.wanted["pkt"].append(data)
        else:
            assert self.dut.m_free_slot.value == slot
        if model.stateless:
            ack = SrdAckFields.read(model.stateless.popleft())
            self.wanted["reply"].append(INTERNAL.srd_reply.pack(
                stateless=1, node=ack.dst_node, src_qpn=ack.src_qpn, dst_qpn=ack.dst_qpn,
                refused_psn=ack.refused_psn, psn=ack.psn, session=ack.session, path=ack.path,
                status=ack.status))  # fmt: skip
        elif model.endpoint.counters.duplicates > duplicates:
            self.wanted["again"].append(outcome(fields, 0, again=1))
        receiver = model.endpoint.receivers.get(fields.src_node)
        if receiver is not None and receiver.session:
            self.places[fields.src_node] = INTERNAL.rx_window.pack(
                session=receiver.session, oldest=receiver.oldest)

    async def settle(self):
        await until(self.dut, lambda: not self.sent and not self.inside, "packets", 60_000)
        await until(self.dut, lambda: not any(self.wanted.values()), "outputs", 1000)
        await ClockCycles(self.dut.clk, 6)


@cocotb.test()
@cocotb.parametrize(stalls=[(0.0, 0.0, 0.0), (0.6, 0.0, 0.0), (0.0, 0.7, 0.2), (0.2, 0.1, 0.8)])
async def each_packet_leaves_once(dut, stalls):
    """transport.rx_window.ways: Each packet leaves by the way of the model, in order, also while
    any of the ways is stalled; reads show session and oldest of the packets that have left."""
    bench = Bench(dut, f"ways {stalls}", 0.1, stalls)
    await bench.start()
    peers = [Peer(bench, node) for node in range(min(bench.nodes, 5))]
    for turn in range(4):
        dut.s_quiet.value = turn & 1
        for _ in range(500):
            bench.send(bench.rng.choice(peers).any(aborts=0.1, sessions=0.02))
        await bench.settle()
    assert bench.read > 1000 and READ.latency == 1


@cocotb.test()
async def cycles(dut):
    """transport.rx_window.time: Packets, duplicates, replies, freed slots and reads meet their
    specified cycles, one packet per cycle."""
    bench = Bench(dut, "time")
    await bench.start()
    module = "efa_rx_window"
    seen = Moments(dut, "s_pkt", "m_pkt", "m_again", "m_reply", "m_free")
    peers = [Peer(bench, node % bench.nodes) for node in range(12)]
    for count, (path, out) in enumerate(
            (("packet", "m_pkt"), ("again", "m_again"), ("reply", "m_reply"))):  # fmt: skip
        seen.clear()
        for node, peer in enumerate(peers[: bench.nodes]):
            wrong = bench.incarnation ^ 1 << node
            bench.send(peer.packet(peer.oldest, incarnation=wrong if count == 2 else 0))
        await bench.settle()
        seen.hold(module, path, "s_pkt", out)
        if count:
            seen.hold(module, "free", "s_pkt", "m_free")
    bench.send(peers[0].packet(peers[0].oldest, incarnation=bench.incarnation ^ 1))
    await bench.settle()
    assert ABORT and READ.interval == 1


@cocotb.test()
async def reset_with_packets_at_each_way(dut):
    """transport.rx_window.reset: A reset while a packet waits at any way discards the packet and
    all peers."""
    blocked = {"way": None}
    bench = Bench(dut, "reset", 0.0, [lambda way=way: blocked["way"] == way for way in WAYS])
    await bench.start()
    peers = [Peer(bench, node) for node in range(min(bench.nodes, 4))]
    for way in (*WAYS, *WAYS):
        blocked["way"] = way
        for _ in range(60):
            bench.send(bench.rng.choice(peers).any(aborts=0.3, sessions=0.0))
        await until(dut, high(getattr(dut, f"m_{way}_valid")), f"m_{way}")
        await ClockCycles(dut.clk, 4)
        dut.rst.value = 1
        await RisingEdge(dut.clk)
        bench.packets.clear()
        for monitor in bench.ways.values():
            monitor.beats.clear()
        bench.restart()
        await reset(dut)
        assert all(getattr(dut, f"m_{one}_valid").value == 0 for one in WAYS)
        blocked["way"] = None
        await until(dut, high(dut.m_init_done))
        for peer in peers:
            peer.history.clear()
            peer.begin(peer.next)
            bench.send(peer.packet())
        await bench.settle()
