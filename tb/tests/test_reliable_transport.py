# SPDX-License-Identifier: Apache-2.0
"""Tests the comparison of packets of the reliable transport, without and with planted faults.

The device is a model with the transport, on a fabric that loses, duplicates and reorders.
"""

import random

import pytest

from efa_cosim.backends.model import ModelBackend
from efa_cosim.boundary.backend import DeviceTimeout
from efa_cosim.fabric.description import parse_fabric
from efa_cosim.fabric.network import Network
from efa_cosim.host.endpoints import QKEY, Endpoint, Node, create_all_handles, pattern
from efa_cosim.layouts import defs
from efa_cosim.layouts.fields import PktRdmaFields, SrdAckFields, SrdHdrFields
from tb.env.difference import Difference
from tb.env.model_dut import ReliableDut, no_fault
from tb.env.rdma_packets import REQUEST, RESPONSE, WRITE
from tb.env.transactions import DmaWrite
from tb.scenarios import rdma_pair, reliable

STATUS, STATE = defs.IoCompStatus, defs.AdminQpState
SEND, ACK = defs.PktOpcode.SRD_SEND, defs.PktOpcode.SRD_ACK
HEADER = defs.SrdHdr.SIZE
CLEAN = {"latency": 200}
LOSS = {**CLEAN, "loss": 0.1}
FABRICS = {
    "clean": CLEAN,
    "loss": LOSS,
    "duplicates": {**CLEAN, "duplicate": {"probability": 1, "delay": 3000}},
    "reordering": {**CLEAN, "reorder": {"probability": 0.3, "depth": 30, "delay": 4000}},
    "everything": {**LOSS, "duplicate": {"probability": 0.2, "delay": 2000},
                   "reorder": {"probability": 0.2, "depth": 20, "delay": 3000}},
}  # fmt: skip


def fabric(properties, overrides=()):
    text = {"seed": 1, "nodes": [1, 2],
            "paths": {"count": 8, "default": properties, "overrides": list(overrides)}}
    return parse_fabric(str(text))


def devices(properties=CLEAN, fault=no_fault, profile="basic", overrides=()):
    return ReliableDut.on_fabric(fabric(properties, overrides), fault, profile)


def ends(duts):
    nodes = [Node(dut) for dut in duts]
    create_all_handles(nodes)
    return [Endpoint(node) for node in nodes]


def stream(duts, count=60):
    """Sends messages from the first device to the second one."""
    a, b = ends(duts)
    for number in range(count):
        b.receive(200, wr_id=number, offset=number * 256)
        a.send(b, pattern(100 + number, number), wr_id=number, offset=number * 256, imm=number)
    a.cq.wait_for(count)
    b.cq.wait_for(count)
    duts[0].settle()
    return duts[0].board.check()


@pytest.mark.parametrize("name", FABRICS)
def test_the_transport_of_the_model_agrees_with_the_comparison(name):
    duts = devices(FABRICS[name])
    reliable.exchange(duts, random.Random(name))
    counts = duts[0].board.check()
    assert counts["packets"] > 200 and counts["acknowledgements"] > 50
    assert counts["retransmissions"] > 0


class Paused(ModelBackend):
    """A model whose fabric moves while the software pauses."""

    def pause(self, cycles):
        self.advance(cycles)


@pytest.mark.parametrize("name", FABRICS)
def test_messages_of_others_arrive_while_objects_end(name):
    network = Network(fabric(FABRICS[name]))
    devices = [Paused(node_id=node, fabric=network) for node in (1, 2)]
    reliable.endings(devices, random.Random(name))


@pytest.mark.parametrize("name", FABRICS)
def test_messages_arrive_after_a_reset(name):
    network = Network(fabric(FABRICS[name]))
    devices = [Paused(node_id=node, fabric=network) for node in (1, 2)]
    reliable.peer_resets(devices, random.Random(name))


@pytest.mark.parametrize("name", FABRICS)
def test_messages_are_sent_again_after_rnr(name):
    duts = devices(FABRICS[name], profile="default")
    reliable.not_ready(duts, random.Random(name))
    assert duts[0].board.check()["packets"] > 200


@pytest.mark.parametrize("name", FABRICS)
def test_rdma_operations_agree(name):
    duts = devices(FABRICS[name], profile="recorded")
    assert mixed(duts)["packets"] > 100


@pytest.mark.parametrize(("scenario", "profile"), [
    (rdma_pair.refusals, "recorded"), (rdma_pair.not_ready, "default")])  # fmt: skip
def test_failed_rdma_operations_agree(scenario, profile):
    duts = devices(FABRICS["everything"], profile=profile)
    scenario(duts, random.Random(3))
    assert duts[0].board.check()["packets"] > 100


def test_statistics_of_all_operations_agree():
    duts = devices(CLEAN, profile="recorded")
    rdma_pair.statistics(duts, random.Random(4))
    assert duts[0].board.check()["admin responses"] > 30


class PausedDut(ReliableDut):
    """A compared model whose fabric moves while the software pauses."""

    def pause(self, cycles):
        self.advance(cycles)


@pytest.mark.parametrize("name", FABRICS)
def test_regions_may_go_while_operations_use_them(name):
    duts = PausedDut.on_fabric(fabric(FABRICS[name]), profile="recorded")
    rdma_pair.regions_go(duts, random.Random(name))
    assert duts[0].board.check()["packets"] > 100


@pytest.mark.parametrize("name", FABRICS)
def test_packets_of_ended_messages_need_not_be_sent(name):
    duts = devices(FABRICS[name])
    a, b = ends(duts)
    for _ in range(3):
        a.qp.post_send_many(range(60), **a.towards(b), inline=b"forgotten")
        a.qp.modify(STATE.RESET)
        a.qp.to_rts(QKEY)
    a.send(b, b"as new", inline=True)
    b.receive(64)
    assert a.cq.wait_for(1)[0]["status"] in (STATUS.OK, STATUS.REMOTE_ERROR_RNR)
    duts[0].settle()
    assert duts[0].board.check()["packets"] < 180


def changed(packet, layout, **fields):
    """Returns the packet with other header fields."""
    header = layout.read(packet)
    values = {name: change(getattr(header, name)) for name, change in fields.items()}
    image = layout.pack(**header._replace(**values)._asdict())
    return image + packet[len(image) :]


class Again:
    """Changes the second transmission of a packet."""

    def __init__(self, change):
        self.seen, self.change, self.changed = set(), change, 0

    def __call__(self, kind, packet):
        if kind != "packet" or packet[0] != SEND:
            return packet
        head = SrdHdrFields.read(packet)
        key = head.src_node, head.session, head.psn
        if key not in self.seen or self.changed:
            self.seen.add(key)
            return packet
        self.changed += 1
        return self.change(packet)


class Once:
    """Changes the packet number `at` of an opcode with a PSN other than 0; an acknowledgement with
    such a PSN is not one of the quiet time."""

    def __init__(self, opcode, change, at=5, kind="packet"):
        self.opcode, self.change, self.at = opcode, change, at
        self.kind, self.count = kind, 0

    def __call__(self, kind, packet):
        if kind != self.kind or packet[0] != self.opcode or not SrdHdrFields.read(packet).psn:
            return packet
        self.count += 1
        return self.change(packet) if self.count == self.at else packet


def header(**fields):
    return lambda packet: changed(packet, SrdHdrFields, **fields)


def ack(**fields):
    return lambda packet: changed(packet, SrdAckFields, **fields)


def last_byte(packet):
    return packet[:-1] + bytes((packet[-1] ^ 1,))


FAULTS = {
    "payload of a retransmission": (Again(last_byte), "byte 131 of"),
    "immediate of a retransmission": (Again(header(imm=lambda imm: imm + 1)), "imm of"),
    "receiver of a retransmission": (Again(header(dst_qpn=lambda qpn: qpn + 1)), "dst_qpn of"),
    "length of a retransmission": (Again(lambda packet: packet[:-1]), "of efa_srd_hdr"),
    "payload": (Once(SEND, last_byte), "byte .* of"),
    "immediate": (Once(SEND, header(imm=lambda imm: imm + 1)), "imm of"),
    "psn of another packet": (Once(SEND, header(psn=lambda psn: psn - 1)), "of efa_srd_hdr"),
    "path": (Once(SEND, header(path=lambda path: 8)), "path of"),
    "window": (Once(SEND, header(behind=lambda behind: 256)), "behind of"),
    "status": (Once(SEND, header(status=lambda status: 7)), "status of"),
    "no session": (Once(SEND, header(session=lambda session: 0)), "session of"),
    "new session": (Once(SEND, header(session=lambda session: session + 1)), "session of"),
    "incarnation": (Once(SEND, header(incarnation=lambda number: number + 1)), "incarnation of"),
    "acknowledged, never delivered": (
        Once(ACK, ack(psn=lambda psn: psn + 64)), "psn of efa_srd_ack"),
    "bit of a packet that was not delivered": (
        Once(ACK, ack(bitmap=lambda bits: bits[:-1] + b"\x80")), "bitmap of"),
    "refusal of an accepted packet": (
        Once(ACK, ack(status=lambda status: STATUS.REMOTE_ERROR_RNR)), "status of"),
    "session of an acknowledgement": (
        Once(ACK, ack(session=lambda session: session + 9)), "session of"),
    "incarnation of an acknowledgement": (
        Once(ACK, ack(incarnation=lambda number: number + 1)), "incarnation of"),
    "length of an acknowledgement": (
        Once(ACK, lambda packet: packet[:-1]), "length of"),
    "an unseen packet": (Once(SEND, lambda packet: None), "of efa_srd_hdr"),
    "a send completes without its acknowledgement": (
        Once(ACK, lambda packet: None, kind="arrival"), "outstanding|at rest|req_id|queue pair"),
    "a packet is executed that did not arrive": (
        Once(SEND, lambda packet: None, kind="arrival"), "efa_srd_ack|expected nothing|write"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_transport_is_found(name):
    fault, text = FAULTS[name]
    with pytest.raises(Difference, match=text):
        stream(devices(LOSS, fault))


def rdma(**fields):
    """Returns a function that changes fields of the RDMA header."""

    def change(packet):
        return packet[:HEADER] + changed(packet[HEADER:], PktRdmaFields, **fields)

    return change


def more(number):
    return number + 1


RDMA_FAULTS = {
    "bytes of a write": (Once(WRITE, last_byte), "byte .* of"),
    "place of a write": (Once(WRITE, rdma(offset=more)), "packet"),
    "address of a write": (Once(WRITE, rdma(remote_addr=more)), "packet"),
    "key of a write": (Once(WRITE, rdma(rkey=more)), "packet"),
    "immediate of a write": (Once(WRITE, header(imm=more)), "imm of"),
    "length of a write": (Once(WRITE, rdma(total=more)), "packet"),
    "a write without its immediate": (Once(WRITE, header(flags=lambda flags: flags ^ 1)), "flags"),
    "bytes of a read": (Once(RESPONSE, last_byte), "byte .* of"),
    "place of a response": (Once(RESPONSE, rdma(offset=more)), "packet"),
    "status of a response": (Once(RESPONSE, rdma(status=lambda _: 7)), "packet"),
    "read of a response": (Once(RESPONSE, rdma(read_id=more)), "packet"),
    "place of a request": (Once(REQUEST, rdma(offset=more)), "packet"),
    "bytes of a request": (Once(REQUEST, rdma(count=more)), "packet"),
    "an unseen response": (Once(RESPONSE, lambda packet: None), "outstanding|differ|packet"),
    "an unseen write": (Once(WRITE, lambda packet: None), "outstanding|differ|packet"),
    "a response is executed that did not arrive": (
        Once(RESPONSE, lambda packet: None, kind="arrival"), "nothing|write|queue pair"),
    "a write is executed that did not arrive": (
        Once(WRITE, lambda packet: None, kind="arrival"), "srd_ack|nothing|write"),
}  # fmt: skip


def mixed(duts):
    rdma_pair.mixed(duts, random.Random(5), rounds=2)
    return duts[0].board.check()


@pytest.mark.parametrize("name", RDMA_FAULTS)
def test_a_fault_of_an_rdma_operation_is_found(name):
    fault, text = RDMA_FAULTS[name]
    duts = devices(CLEAN, fault, "recorded")
    with pytest.raises(Difference, match=text):
        mixed(duts)


def test_a_read_without_progress_requests_no_bytes():
    asked = []

    def kept(kind, packet):
        if kind == "packet" and packet[0] == REQUEST:
            asked.append(PktRdmaFields.read(packet, HEADER).count)
        return packet

    duts = devices(CLEAN, kept, "recorded")
    pair = rdma_pair.Pair(*reliable.nodes_of(duts), random.Random(5))
    network = duts[1].device.transport.endpoint.network
    send, start = network.send, duts[0].cycles

    def losing(packet):
        if packet[0] != RESPONSE or duts[0].cycles - start > 600_000:
            send(packet)

    network.send = losing
    pair.rdma(rdma_pair.READ, 5000)
    pair.finish()
    duts[0].settle()
    assert 0 in asked
    assert duts[0].board.check()["completions"] == 1


class FirstPayload:
    """Drops the first payload write of a device."""

    dropped = False

    def __call__(self, kind, value):
        if self.dropped or kind != "write" or len(value) <= 64:
            return value
        self.dropped = True
        return None


def test_a_read_that_completes_before_its_bytes_is_found():
    duts = devices(CLEAN, FirstPayload(), "recorded")
    pair = rdma_pair.Pair(*reliable.nodes_of(duts), random.Random(5))
    pair.rdma(rdma_pair.READ, 5000)
    with pytest.raises(Difference, match="CQE was written before its payload"):
        pair.finish()


def test_a_write_that_is_acknowledged_before_its_bytes_is_found():
    duts = devices(CLEAN, FirstPayload(), "recorded")
    pair = rdma_pair.Pair(*reliable.nodes_of(duts), random.Random(5))
    pair.rdma(rdma_pair.WRITE, 100)
    pair.finish()
    [piece] = duts[0].models.devices[1].payload
    with pytest.raises(Difference, match="acknowledgement in cycle"):
        duts[1].publish(DmaWrite, piece.address, piece.data)


def test_the_payload_of_a_completed_message_may_change():
    packets = []

    def kept(kind, packet):
        if kind == "packet" and packet[0] == SEND:
            packets.append(packet)
        return packet

    duts = devices(CLEAN, kept)
    stream(duts)
    transport = duts[0].models.transport
    assert transport.compare((0, 1), last_byte(packets[-1])) == "retransmissions"
    for wrong in (header(imm=lambda imm: imm + 1)(packets[-1]), packets[-1][:-1]):
        with pytest.raises(Difference, match="transmission of PSN"):
            transport.compare((0, 1), wrong)


def test_a_missing_acknowledgement_is_found():
    way = {"source": 2, "destination": 1, "direction": "one", **CLEAN, "loss": 1}
    lost = [{"path": path, **way} for path in range(8)]
    duts = devices(CLEAN, overrides=lost)
    a, b = ends(duts)
    b.receive(64)
    a.send(b, b"without an end")
    with pytest.raises(DeviceTimeout):
        a.cq.wait_for(1, timeout_cycles=100_000)
    with pytest.raises(Difference, match="acknowledgement of PSN 0"):
        duts[0].board.check()


def refused(fault=no_fault):
    """Sends to queue pairs that do not exist, between good messages."""
    duts = devices(LOSS, fault)
    a, b = ends(duts)
    absent = {**a.towards(b), "dest_qp": 0xFFF0}
    for number in range(20):
        b.receive(64, wr_id=number)
        a.send(b, b"good", wr_id=number)
        a.qp.post_send_many([100 + number], **absent, inline=b"bad")
    done = a.cq.wait_for(40)
    for one in done:
        bad = one["wr_id"] >= 100
        assert one["status"] == (STATUS.REMOTE_ERROR_BAD_DEST_QPN if bad else STATUS.OK)
    b.cq.wait_for(20)
    duts[0].settle()
    return duts[0].board.check()


def test_refusals_agree():
    assert refused()["completions"] == 60


@pytest.mark.parametrize(("name", "value"), [
    ("status", STATUS.REMOTE_ERROR_BAD_ADDRESS), ("dst_qpn", 0xFFF0), ("src_qpn", 1),
])  # fmt: skip
def test_a_wrong_field_of_a_refusal_is_found(name, value):
    def other(kind, packet):
        if kind == "packet" and packet[0] == ACK and SrdAckFields.read(packet).status:
            return ack(**{name: lambda _: value})(packet)
        return packet

    with pytest.raises(Difference, match=f"{name} of efa_srd_ack"):
        refused(other)


def test_a_duplicate_that_is_executed_is_found():
    duts = devices(FABRICS["duplicates"])
    endpoint = duts[1].device.transport.endpoint
    execute, count = endpoint.execute, [0]

    def twice(packet):
        count[0] += 1
        if count[0] == 9:
            execute(packet)
        return execute(packet)

    endpoint.execute = twice
    with pytest.raises(Difference, match="expected nothing there"):
        stream(duts)


def test_forged_packets_change_nothing():
    duts = devices(LOSS)
    a, b = ends(duts)
    network = duts[0].fabric
    rng = random.Random(7)
    packet = SrdHdrFields.pack(
        opcode=SEND, length=4, src_qpn=a.qp.number, dst_qpn=0xFFF0, psn=3, session=40,
        src_node=2, dst_node=1, path=1, behind=2,
    ) + b"fake"  # fmt: skip
    good_ack = SrdAckFields.pack(
        opcode=ACK, length=32, psn=0, session=2, incarnation=2, src_node=2, dst_node=1
    )
    forged = [
        packet,
        header(behind=lambda _: 300)(packet),
        header(length=lambda _: 9)(packet),
        header(path=lambda _: 0, status=lambda _: 3)(packet),
        header(opcode=lambda _: 77)(packet),
        header(opcode=lambda _: defs.PktOpcode.RDMA_WRITE, psn=lambda _: 2)(packet),
        header(incarnation=lambda _: 999)(packet),
        ack(flags=lambda _: 1)(good_ack),
        ack(session=lambda _: 900)(good_ack),
        ack(psn=lambda _: 70, bitmap=lambda _: b"\xff" * 32)(good_ack),
    ]  # fmt: skip
    for number in range(40):
        b.receive(64, wr_id=number, offset=number * 64)
        a.send(b, pattern(50, number), wr_id=number, offset=number * 64)
        network.send(rng.choice(forged))
    a.cq.wait_for(40)
    b.cq.wait_for(40)
    for dut in duts:
        dut.settle()
    assert duts[0].board.check()["completions"] == 80
