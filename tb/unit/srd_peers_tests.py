# SPDX-License-Identifier: Apache-2.0
"""Tests efa_srd_receiver with the senders of the reference model over a fabric with faults."""

from collections import defaultdict, deque

import cocotb
from cocotb.triggers import RisingEdge

from efa_cosim.fabric.description import parse_fabric
from efa_cosim.fabric.network import Network
from efa_cosim.layouts.defs import INTERNAL, IoCompStatus, PktOpcode, SrdAck, SrdHdr
from efa_cosim.layouts.fields import SrdHdrFields
from efa_cosim.transport.endpoint import Endpoint
from efa_cosim.transport.message import Message
from efa_cosim.transport.packets import Start, constants_with
from tb.lib.bundles import Bundles
from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.waits import high, until, zero
from tb.unit.srd_receiver_bench import header, outcome

OK, ABORT, RNR = IoCompStatus.OK, IoCompStatus.REMOTE_ERROR_ABORT, IoCompStatus.REMOTE_ERROR_RNR
FATAL = IoCompStatus.REMOTE_ERROR_BAD_ADDRESS
SLOTS = 256
# Longer than a packet stays in the fabrics of these tests.
QUIET_CYCLES = 3000
LOSSY = """
seed: 5
nodes: 5
paths:
  count: 4
  default: {latency: 60, loss: 0.03}
"""
REORDERING = """
seed: 6
nodes: 5
paths:
  count: 8
  default:
    latency: 40
    duplicate: {probability: 0.2, delay: 300}
    reorder: {probability: 0.3, delay: 400}
"""
ALL = """
seed: 7
nodes: 9
paths:
  count: 8
  default:
    latency: 50
    loss: 0.02
    burst: {enter: 0.002, length: 8}
    duplicate: {probability: 0.1, delay: 500}
    reorder: {probability: 0.2, delay: 600}
  overrides:
    - {path: 3, latency: 400}
    - {path: 5, down: [{from: 4000, to: 9000}]}
"""


class Bench:
    """Node 0 of a fabric is the RTL, the others are senders of the model.

    - `judge`: returns the status of a packet from its name, the first eight bytes of its payload
    - `executed`: by packet name, (incarnation, status) of each execution
    - `done`: statuses by message
    """

    def __init__(self, dut, fabric, held=0.2):
        self.dut, self.rng = dut, rng_for("srd_peers")
        self.pins = Bundles(dut, s_pkt=INTERNAL.rx_pkt, m_pkt=INTERNAL.rx_pkt)
        zero(dut, "s_quiet", "s_cfg_node_id", "s_cfg_incarnation")
        self.packets = StreamDriver(self.pins, "s_pkt", 0, ["header", "line", "slot"])
        self.outcomes = StreamDriver(dut, "s_outcome", 0.1, ["data"])
        self.passes = StreamMonitor(self.pins, "m_pkt", 0.1, ["header", "line", "slot"],
                                    on_beat=self._pass)  # fmt: skip
        self.acks = StreamMonitor(dut, "m_ack", held, ["data"], on_beat=self._ack)
        description = parse_fabric(fabric)
        self.network = Network(description)
        # Short times: the tests begin with losses and have few cycles.
        constants = constants_with(psn_window_w=int(dut.WINDOW_W.value), rto_initial=150,
                                   path_probe=100, rnr_ticks=10)  # fmt: skip
        nodes = len(description.nodes)
        self.senders = {
            node: Endpoint(
                self.network, node, nodes, self._unexpected, anomaly=self._anomaly,
                paths=description.paths, constants=constants,
                start=Start(*self.rng.choice(((1, 0, 0), (0xFFFF, 0xFFFFFFF0, 0xFFF0)))))
            for node in range(1, nodes)
        }  # fmt: skip
        self.network.attach(0, self._arrive)
        self.incarnation = 0xFFFE
        self.judge = lambda name: OK
        self.executed, self.done = defaultdict(list), defaultdict(list)
        self.names, self.count = {}, 0  # packet names by message
        self.lost = 0
        self.restart()

    def restart(self):
        """Begins an incarnation, which the RTL has nothing stored of."""
        self.incarnation = self.incarnation + 1 & 0xFFFF or 1
        self.dut.s_cfg_incarnation.value = self.incarnation
        self.slots, self.stored, self.executing = deque(range(SLOTS)), {}, []

    async def start(self):
        await clock_and_reset(self.dut)
        await until(self.dut, high(self.dut.m_init_done))
        cocotb.start_soon(self._run())

    @staticmethod
    def _unexpected(packet):
        raise AssertionError("a sender received a data packet")

    @staticmethod
    def _anomaly(cause, packet):
        raise AssertionError(f"a sender rejects an acknowledgement: {cause!r}, {packet.hex()}")

    async def _run(self):
        cycle = 0
        while True:
            await RisingEdge(self.dut.clk)
            cycle += 1
            self.network.run(cycle)
            if self.dut.m_free_valid.value == 1 and self.dut.rst.value == 0:
                self._free(int(self.dut.m_free_slot.value))
            ready = [one for one in self.executing if one[0] <= cycle]
            for one in ready:
                self.executing.remove(one)
                self._execute(one[1])

    def _arrive(self, packet):
        if not self.slots or self.dut.rst.value == 1 or self.dut.m_init_done.value == 0:
            self.lost += 1
            return
        slot = self.slots.popleft()
        self.stored[slot] = packet
        self.packets.post({"header": header(packet), "line": slot, "slot": slot})

    def _free(self, slot):
        del self.stored[slot]
        self.slots.append(slot)

    def _pass(self, beat):
        slot = beat["slot"]
        assert beat["header"] == header(self.stored[slot])
        self.executing.append((self.network.now + self.rng.randrange(200), slot))

    def _execute(self, slot):
        packet = self.stored[slot]
        name = int.from_bytes(packet[SrdHdr.SIZE : SrdHdr.SIZE + 8], "little")
        status = self.judge(name)
        self.executed[name].append((self.incarnation, status))
        self.outcomes.post({"data": outcome(SrdHdrFields.read(packet), status)})
        self._free(slot)

    def _ack(self, beat):
        self.network.send(beat["data"].to_bytes(SrdAck.SIZE, "little"))

    def post(self, node, packets=1, **fields):
        """Posts a message to the RTL; returns it."""
        names = range(self.count, self.count + packets)
        self.count += packets
        payloads = [name.to_bytes(8, "little") + bytes(self.rng.randrange(200)) for name in names]
        message = Message(0, payloads, lambda one, status: self.done[one].append(status), **{
            "src_qpn": self.rng.getrandbits(16), "dst_qpn": self.rng.getrandbits(16),
            "opcode": PktOpcode.SRD_SEND, **fields})  # fmt: skip
        self.names[message] = names
        self.senders[node].post(message)
        return message

    async def finish(self, cycles=300_000):
        await until(self.dut, lambda: len(self.done) == len(self.names), "completions", cycles)
        # Retransmissions and probes that are still in the fabric.
        for _ in range(2000):
            await RisingEdge(self.dut.clk)
        assert all(len(found) == 1 for found in self.done.values()), "two completions"

    async def reset(self):
        """Resets the RTL: packets in the device are lost, a quiet time follows."""
        self.dut.rst.value = 1
        await RisingEdge(self.dut.clk)
        self.packets.clear()
        self.outcomes.clear()
        self.restart()
        self.dut.s_quiet.value = 1
        await reset(self.dut)
        await until(self.dut, high(self.dut.m_init_done))
        cocotb.start_soon(self._end_quiet())

    async def _end_quiet(self):
        for _ in range(QUIET_CYCLES):
            await RisingEdge(self.dut.clk)
        self.dut.s_quiet.value = 0


@cocotb.test()
@cocotb.parametrize(fabric=[LOSSY, REORDERING, ALL])
async def messages_complete_once(dut, fabric):
    """transport.srd_receiver.peers: Over a fabric that loses, duplicates and reorders, each message
    of all senders is executed exactly once and completes with success."""
    bench = Bench(dut, fabric)
    await bench.start()
    for _ in range(60):
        for node in bench.senders:
            bench.post(node, bench.rng.choice((1, 1, 3, 9)))
    await bench.finish()
    assert {found[0] for found in bench.done.values()} == {OK}
    for names in bench.names.values():
        assert all(len(bench.executed[name]) == 1 for name in names)
    assert sum(sender.counters.retransmitted for sender in bench.senders.values()) > 10 or (
        fabric is REORDERING)  # fmt: skip


@cocotb.test()
async def refusals_reach_their_senders(dut):
    """transport.srd_receiver.peers.refused: A message that is refused completes once with the
    status of the refusal; one that is refused with RNR is sent again until it is accepted."""
    bench = Bench(dut, ALL)
    await bench.start()
    fatal, later = set(), {}

    def judge(name):
        if later.get(name, 0):
            later[name] -= 1
            return RNR
        return FATAL if name in fatal else OK

    bench.judge = judge
    wanted = {}
    for number in range(40):
        for node in bench.senders:
            message = bench.post(node, bench.rng.choice((1, 3)))
            names = bench.names[message]
            kind = number % 4
            if kind == 1:
                fatal.add(names[-1])
            elif kind == 2:
                later[names[0]] = bench.rng.randrange(1, 4)
            wanted[message] = FATAL if kind == 1 else OK
    await bench.finish()
    assert {message: found[0] for message, found in bench.done.items()} == wanted
    for message, names in bench.names.items():
        for name in names:
            accepted = [status for _, status in bench.executed[name] if status == OK]
            assert len(accepted) == (name not in fatal) or wanted[message] == FATAL, name
            assert len(accepted) <= 1
    assert not any(later.values())


@cocotb.test()
async def messages_survive_resets(dut):
    """transport.srd_receiver.peers.reset: Over resets of the receiver each message completes once,
    with success or ABORT, and each packet is executed at most once in an incarnation."""
    bench = Bench(dut, ALL)
    await bench.start()
    for turn in range(4):
        for _ in range(25):
            for node in bench.senders:
                bench.post(node, bench.rng.choice((1, 4)))
        for _ in range(bench.rng.randrange(500, 3000)):
            await RisingEdge(dut.clk)
        if turn < 3:
            await bench.reset()
    await bench.finish()
    statuses = [found[0] for found in bench.done.values()]
    assert set(statuses) == {OK, ABORT} and statuses.count(OK) > 100, statuses
    for message, names in bench.names.items():
        for name in names:
            runs = [incarnation for incarnation, _ in bench.executed[name]]
            assert len(runs) == len(set(runs)), f"packet {name} twice in an incarnation"
            assert runs or bench.done[message] != [OK]
