# SPDX-License-Identifier: Apache-2.0
"""Tests RDMA reads and writes of the model: packets, checks of both sides, completions."""

import random

import pytest
from rig import QKEY, SRD, UD, Comp, Opcode, Pair, State, put, wqe

from efa_cosim.device import rdma
from efa_cosim.layouts import defs

READ, WRITE = defs.IoSendOpType.RDMA_READ, defs.IoSendOpType.RDMA_WRITE
SEND, RECV = defs.IoQueueType.SEND_QUEUE, defs.IoQueueType.RECV_QUEUE
Packet = defs.PktOpcode
HEADERS = defs.PktHdr.SIZE + defs.PktRdma.SIZE
MTU = defs.PROFILES.recorded.mtu
SPACE = 1 << 20
UNSUPPORTED = Comp.LOCAL_ERROR_UNSUPPORTED_OP
BAD_WQE = Comp.LOCAL_ERROR_QP_INTERNAL_ERROR
BAD_LENGTH = Comp.LOCAL_ERROR_BAD_LENGTH
BAD_KEY = Comp.LOCAL_ERROR_INVALID_LKEY
BAD_ADDRESS = Comp.REMOTE_ERROR_BAD_ADDRESS


class Peers(Pair):
    """Two devices; a reads and writes the region `remote` of b. b knows a by an address handle."""

    def __init__(self, kind=SRD, profile="recorded", known=True, **options):
        options.setdefault("entry_words", 8)
        super().__init__(kind, two=True, profile=profile, **options)
        self.local = self.a.allocate(SPACE)
        self.local_key = self.a.mr(self.pd, self.local, SPACE, shift=20)
        self.remote = self.b.allocate(SPACE)
        self.rkey = self.region() if profile == "recorded" else 0
        if known:
            self.back = self.b.ah(self.pd_b, 1)
        self.packets = []
        self.fabric.on_packet = self.packets.append

    def region(self, write=1, read=1, pd=None):
        """Registers the memory of the responder; returns the key."""
        return self.b.mr(
            self.pd_b if pd is None else pd, self.remote, SPACE, shift=20,
            remote_write_enable=write, remote_read_enable=read)

    def request(self, op, length, at=0, to=0, inline=None, imm=None, **values):
        """Returns a WQE; `values` override fields: those of the metadata by name, `total`, `rkey`,
        `remote`, `lkey`, `local`, `size` of the buffer and `buffers`, the length of the metadata.
        """
        own = {name: values.pop(name) for name in ("total", "rkey", "remote", "lkey", "local",
                                                   "size", "buffers") if name in values}
        size = own.get("size", length)
        buffers = [(0, size, 0)] if size and inline is None else []
        image = bytearray(wqe(
            values.pop("dest", self.rx.number), values.pop("ah", self.ah), buffers,
            size=self.tx.wqe_bytes, imm=imm, **({"op_type": op} | values)))
        layout = defs.IoTxWqe if self.tx.wqe_bytes == 64 else defs.IoTxWqe128
        entry = layout.over(image)
        if inline is not None:
            entry.meta.inline_msg, entry.meta.length = 1, len(inline)
        if "buffers" in own:
            entry.meta.length = own["buffers"]
        address = own.get("remote", self.remote + to)
        entry.data.rdma_req.remote_mem = {
            "length": own.get("total", length), "rkey": own.get("rkey", self.rkey),
            "buf_addr_lo": address & 0xFFFFFFFF, "buf_addr_hi": address >> 32}
        if inline is None and size:
            local = own.get("local", self.local + at)
            entry.data.rdma_req.local_mem = [{
                "length": size, "lkey": own.get("lkey", self.local_key),
                "buf_addr_lo": local & 0xFFFFFFFF, "buf_addr_hi": local >> 32}]
        elif inline is not None and self.tx.wqe_bytes == 128:
            entry.data.rdma_req.inline_data = inline
        return bytes(image)

    def post(self, *args, run=True, **values):
        self.tx.send(self.request(*args, **values))
        if run:
            self.fabric.run()

    def outcome(self, sub=0):
        """Status and operation of the one new send completion."""
        [entry] = self.cq.poll(sub)
        common = entry.base.common
        assert common.q_type == SEND
        return common.status, common.op_type

    def headers(self):
        """Header and RDMA header of the packets so far, acknowledgements without the second."""
        found = []
        for packet in self.packets:
            header = defs.PktHdr.unpack(packet)
            more = None
            if header.opcode != Packet.SRD_ACK:
                more = defs.PktRdma.unpack(packet[defs.PktHdr.SIZE : HEADERS])
            found.append((header, more))
        self.packets.clear()
        return found

    def arrive(self, opcode, payload=b"", **values):
        """Gives b a packet of node 1 (a); returns the status of the acknowledgement."""
        header = {
            "src_qpn": self.tx.number, "dst_qpn": self.rx.number, "qkey": QKEY, "src_node": 1,
            "dst_node": 2} | {name: values.pop(name) for name in list(values)
                              if name in defs.PktHdr.FIELDS or name == "has_imm"}
        more = {"remote_addr": self.remote, "rkey": self.rkey, "total": len(payload)} | values
        header.setdefault("length", defs.PktRdma.SIZE + len(payload))
        responses = []
        before, self.b.device.on_packet = self.b.device.on_packet, responses.append
        self.b.device.receive(
            defs.PktHdr(opcode=opcode, **header).pack() + defs.PktRdma(**more).pack() + payload)
        self.b.device.on_packet = before
        if not responses:
            return None
        return defs.PktHdr.unpack(responses[0]).status


def data_of(size, seed=1):
    return random.Random(seed).randbytes(size)


# Data.


@pytest.mark.parametrize("op", [READ, WRITE])
@pytest.mark.parametrize("length", [
    1, 63, 64, 4095, 4096, MTU - 1, MTU, MTU + 1, 3 * MTU, 65535, 65536, 65537, 300001])
def test_bytes_arrive_at_any_size(op, length):
    peers = Peers()
    data = data_of(length)
    source, target = (peers.b, peers.a) if op == READ else (peers.a, peers.b)
    from_at, to_at = peers.local + 5, peers.remote + 77
    if op == READ:
        from_at, to_at = to_at, from_at
    source.memory.write(from_at, data)
    target.memory.write(to_at - 1, b"\xaa" * (length + 2))
    peers.post(op, length, at=5, to=77, req_id=0x1234)
    assert target.memory.read(to_at - 1, length + 2) == b"\xaa" + data + b"\xaa"
    assert peers.outcome() == (Comp.OK, op)
    assert peers.rcq.results(1) == []


@pytest.mark.parametrize("op", [READ, WRITE])
def test_an_operation_without_bytes_needs_no_key(op):
    peers = Peers()
    peers.post(op, 0, rkey=0x55555, remote=0)
    assert peers.outcome() == (Comp.OK, op)
    kinds = [header.opcode for header, _ in peers.headers()]
    assert kinds == [Packet.READ_REQUEST if op == READ else Packet.RDMA_WRITE, Packet.SRD_ACK]


def test_a_write_is_cut_at_the_mtu_and_each_packet_names_the_operation():
    peers = Peers()
    peers.post(WRITE, 2 * MTU + 9, to=3)
    sent = [(one, more) for one, more in peers.headers() if one.opcode == Packet.RDMA_WRITE]
    assert [(more.offset, one.length) for one, more in sent] == [
        (0, 32 + MTU), (MTU, 32 + MTU), (2 * MTU, 32 + 9)]
    for number, (one, more) in enumerate(sent):
        assert (one.src_qpn, one.dst_qpn, one.qkey, one.psn, one.msg_id, one.src_node,
                one.dst_node, one.flags, one.imm) == (
                    peers.tx.number, peers.rx.number, QKEY, number, 0, 1, 2, 0, 0)
        assert (more.remote_addr, more.rkey, more.total, more.count, more.read_id, more.status) == (
            peers.remote + 3, peers.rkey, 2 * MTU + 9, 0, 0, 0)


def test_a_read_is_requested_in_parts_and_answered_by_the_mtu():
    peers = Peers()
    length = rdma.READ_REQUEST_BYTES + MTU + 1
    peers.post(READ, length, to=3)
    headers = peers.headers()
    asked = [more for one, more in headers if one.opcode == Packet.READ_REQUEST]
    assert [(more.offset, more.count, more.total) for more in asked] == [
        (0, rdma.READ_REQUEST_BYTES, length), (rdma.READ_REQUEST_BYTES, MTU + 1, length)]
    came = [(one, more) for one, more in headers if one.opcode == Packet.READ_RESPONSE]
    assert sum(one.length - 32 for one, _ in came) == length
    for one, more in came:
        assert (one.src_qpn, one.dst_qpn, one.qkey, one.psn, one.msg_id, one.src_node,
                one.dst_node) == (peers.rx.number, peers.tx.number, 0, 0, 0, 2, 1)
        assert (more.remote_addr, more.rkey, more.total, more.count) == (0, 0, length, 0)


def test_inline_bytes_are_written():
    peers = Peers(wqe_bytes=128)
    for size in (0, 1, 79, 80):
        data = data_of(size)
        peers.post(WRITE, size, to=9, inline=data)
        assert peers.b.memory.read(peers.remote + 9, size) == data
        assert peers.outcome() == (Comp.OK, WRITE)


def test_a_few_packets_are_in_flight_whatever_the_size():
    peers = Peers()
    peers.post(WRITE, SPACE, run=False)
    assert len(peers.fabric) == rdma.WRITE_PACKETS
    peers.fabric.run()
    peers.post(READ, SPACE, run=False)
    assert len(peers.fabric) == rdma.READ_BYTES // rdma.READ_REQUEST_BYTES
    peers.fabric.run()
    assert [status for _, status, _ in peers.cq.results()] == [Comp.OK] * 2


# Immediate.


@pytest.mark.parametrize("length", [0, 7, 2 * MTU, 200000])
@pytest.mark.parametrize("unsolicited", [0, 1])
def test_an_immediate_is_reported_when_all_bytes_are_written(length, unsolicited):
    peers = Peers(unsolicited_write_recv=unsolicited)
    data = data_of(length)
    peers.a.memory.write(peers.local, data)
    peers.rx.post(peers.sink(0, 8), req_id=0x77)
    seen = []
    peers.b.device.on_dma_write = lambda address, _: seen.append(address)
    peers.post(WRITE, length, imm=0xCAFE0123)
    assert peers.b.memory.read(peers.remote, length) == data
    [entry] = peers.rcq.poll(1)
    common = entry.base.common
    assert (common.status, common.op_type, common.has_imm, common.unsolicited) == (
        Comp.OK, WRITE, 1, unsolicited)
    assert common.req_id == (0 if unsolicited else 0x77)
    assert (entry.base.length, entry.u.rdma_write.length_hi) == (length & 0xFFFF, length >> 16)
    assert (entry.base.imm, entry.base.src_qp_num, entry.base.ah) == (
        0xCAFE0123, peers.tx.number, peers.back)
    # The CQE is the last write: all bytes are visible before it.
    assert seen[-1] == peers.rcq.subs[1].base
    assert peers.outcome() == (Comp.OK, WRITE)
    assert peers.b.device.objects.qps.get(0).rq.waiting == unsolicited


def test_a_read_has_no_immediate():
    peers = Peers()
    peers.post(READ, 8, imm=5)
    assert [one.imm for one, _ in peers.headers()] == [0, 0, 0]
    assert (peers.outcome(), peers.rcq.results(1)) == ((Comp.OK, READ), [])


def test_an_immediate_without_a_receive_writes_nothing_of_its_packet():
    peers = Peers()
    peers.a.memory.write(peers.local, b"\x55" * (MTU + 4))
    peers.post(WRITE, MTU + 4, imm=1)
    assert peers.outcome() == (Comp.REMOTE_ERROR_RNR, WRITE)
    assert peers.b.memory.read(peers.remote + MTU, 4) == bytes(4)
    assert peers.rx.query().qp_state == State.RTS


def test_a_receive_without_last_takes_the_responder_to_err():
    peers = Peers()
    for _ in range(2):
        peers.rx.post(peers.sink(0, 8), req_id=4, last=False)
    peers.post(WRITE, 4, imm=1)
    assert peers.outcome() == (Comp.REMOTE_ERROR_BAD_STATUS, WRITE)
    assert peers.rcq.results(1) == [(4, BAD_WQE, RECV)]
    assert peers.rx.query().qp_state == State.ERR


def test_a_receive_that_cannot_be_read_takes_the_responder_to_err():
    peers = Peers()
    peers.rx.post(peers.sink(0, 8))
    peers.b.memory.fail(peers.rx.rq_base, 16)
    peers.post(WRITE, 4, imm=1)
    assert peers.outcome() == (Comp.REMOTE_ERROR_BAD_DEST_QPN, WRITE)
    assert peers.rx.query().qp_state == State.ERR


# Checks of the initiator.


@pytest.mark.parametrize("op", [READ, WRITE])
def test_datagrams_have_no_rdma(op):
    peers = Peers(UD)
    peers.post(op, 8)
    assert (peers.outcome(), peers.packets) == ((UNSUPPORTED, op), [])


@pytest.mark.parametrize("op", [READ, WRITE])
def test_a_device_that_does_not_report_rdma_has_none(op):
    peers = Peers(profile="basic")
    peers.post(op, 8)
    assert (peers.outcome(), peers.packets) == ((UNSUPPORTED, op), [])
    stats = peers.a.device.stats
    assert (stats.read_wr_err, stats.write_wr_err) == (0, 0)


WRONG = {
    "control bits": ({"first": 0}, BAD_WQE),
    "two buffers": ({"buffers": 2}, BAD_WQE),
    "handle": ({"ah": 99}, Comp.LOCAL_ERROR_INVALID_AH),
    "local shorter than remote": ({"total": 65}, BAD_LENGTH),
    "local longer than remote": ({"total": 63}, BAD_LENGTH),
    "longer than max_rdma_size": ({"total": (1 << 30) + 1, "size": (1 << 30) + 1}, BAD_LENGTH),
    "key": ({"lkey": 0x12345}, BAD_KEY),
    "begins before the region": ({"at": -1}, BAD_KEY),
    "ends behind the region": ({"at": SPACE - 63}, BAD_KEY),
    "wraps the address space": ({"local": (1 << 64) - 32}, BAD_KEY),
}


@pytest.mark.parametrize("op", [READ, WRITE])
@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_request_ends_at_home(what, op):
    values, status = WRONG[what]
    peers = Peers()
    place = {"at": values["at"]} if "at" in values else {}
    rest = {name: value for name, value in values.items() if name != "at"}
    peers.tx.send(peers.request(op, 64, **place, **rest))
    assert (peers.outcome(), peers.packets) == ((status, op), [])
    assert peers.tx.query().qp_state == State.RTS
    stats = peers.a.device.stats
    assert (stats.read_wr_err, stats.write_wr_err) == ((1, 0) if op == READ else (0, 1))


def test_inline_bytes_need_a_write_and_a_long_wqe():
    for op, wqe_bytes, size in ((READ, 128, 8), (WRITE, 64, 1), (WRITE, 128, 81)):
        peers = Peers(wqe_bytes=wqe_bytes)
        peers.post(op, size, inline=bytes(min(size, 80)), buffers=size)
        assert peers.outcome() == (BAD_WQE, op)


def test_a_read_needs_a_local_region_that_may_be_written():
    peers = Peers()
    key = peers.a.mr(peers.pd, peers.local, SPACE, shift=20, local_write=0)
    peers.post(READ, 8, lkey=key)
    assert peers.outcome() == (BAD_KEY, READ)
    peers.post(WRITE, 8, lkey=key)
    assert peers.outcome() == (Comp.OK, WRITE)


def test_a_region_of_another_pd_is_none():
    peers = Peers()
    other = peers.a.mr(peers.a.pd(), peers.local, SPACE, shift=20)
    peers.post(WRITE, 8, lkey=other)
    assert peers.outcome() == (BAD_KEY, WRITE)


def test_a_gid_outside_the_fabric_cannot_be_reached():
    peers = Peers()
    far = peers.a.ah(peers.pd, gid=bytes(16))
    peers.post(WRITE, 8, ah=far)
    assert peers.outcome() == (Comp.LOCAL_ERROR_UNREACH_REMOTE, WRITE)


# Checks of the responder.


@pytest.mark.parametrize("op", [READ, WRITE])
@pytest.mark.parametrize(("change", "status"), [
    ({"dest": 0x3F}, Comp.REMOTE_ERROR_BAD_DEST_QPN),
    ({"qkey": 1}, Comp.REMOTE_ERROR_BAD_DEST_QPN),
    ({"rkey": 0x12345}, BAD_ADDRESS),
    ({"to": -1}, BAD_ADDRESS),
    ({"to": SPACE - 7}, BAD_ADDRESS),
    ({"remote": (1 << 64) - 4}, BAD_ADDRESS),
])
def test_a_refusal_fails_that_request_alone(op, change, status):
    peers = Peers()
    peers.b.memory.write(peers.remote, b"\x11" * SPACE)
    peers.post(op, 8, **change)
    assert peers.outcome() == (status, op)
    assert peers.b.memory.read(peers.remote, SPACE) == b"\x11" * SPACE
    assert peers.b.device.stats.qkey_viol == ("qkey" in change)
    assert peers.b.device.stats.rx_drops == 1
    peers.post(op, 8)
    assert peers.outcome() == (Comp.OK, op)


@pytest.mark.parametrize(("op", "rights", "status"), [
    (READ, (1, 0), BAD_ADDRESS), (READ, (0, 1), Comp.OK),
    (WRITE, (0, 1), BAD_ADDRESS), (WRITE, (1, 0), Comp.OK)])
def test_each_operation_needs_its_right(op, rights, status):
    peers = Peers()
    peers.post(op, 8, rkey=peers.region(*rights))
    assert peers.outcome() == (status, op)


def test_a_region_serves_the_queue_pairs_of_its_pd():
    peers = Peers()
    peers.post(WRITE, 8, rkey=peers.region(pd=peers.b.pd()))
    assert peers.outcome() == (BAD_ADDRESS, WRITE)


def test_all_32_bits_of_a_remote_key_count():
    for bit in range(32):
        peers = Peers()
        peers.post(WRITE, 8, rkey=peers.rkey ^ 1 << bit)
        assert peers.outcome() == (BAD_ADDRESS, WRITE)


def test_a_responder_that_does_not_know_the_initiator_refuses():
    peers = Peers(known=False)
    peers.post(READ, 8)
    assert peers.outcome() == (Comp.REMOTE_ERROR_UNKNOWN_PEER, READ)


@pytest.mark.parametrize("state", [State.RESET, State.INIT, State.RTR, State.RTS, State.SQD,
                                   State.ERR])
def test_the_state_of_the_responder_decides(state):
    peers = Peers()
    if state == State.ERR:
        peers.rx.modify(State.ERR)
    else:
        peers.rx.modify(State.RESET)
        if state != State.RESET:
            peers.rx.to(state)
    peers.post(WRITE, 8)
    ready = state in (State.RTR, State.RTS, State.SQD)
    assert peers.outcome()[0] == (Comp.OK if ready else Comp.REMOTE_ERROR_BAD_DEST_QPN)


def test_a_responder_without_one_operation_says_so(monkeypatch):
    peers = Peers()
    monkeypatch.setitem(peers.b.device.datapath.responder._capable, READ, False)
    peers.post(READ, 8)
    assert peers.outcome() == (Comp.REMOTE_ERROR_FEATURE_MISMATCH, READ)
    peers.post(WRITE, 8)
    assert peers.outcome() == (Comp.OK, WRITE)


@pytest.mark.parametrize("opcode", [Packet.RDMA_WRITE, Packet.READ_REQUEST, Packet.READ_RESPONSE])
def test_a_device_without_rdma_does_not_know_the_packets(opcode):
    peers = Peers(profile="basic")
    peers.b.names()
    assert peers.arrive(opcode, b"x", rkey=0) is None
    reported = [event["what"] for event in peers.b.names("anomaly_net")]
    assert reported == [defs.TransportAnomaly.OPCODE]
    assert peers.b.device.stats.rx_drops == 1


def test_every_packet_is_checked_with_the_whole_operation():
    peers = Peers()
    write, read = Packet.RDMA_WRITE, Packet.READ_REQUEST
    assert peers.arrive(write, b"abcd", total=8, offset=4) == Comp.OK
    assert peers.b.memory.read(peers.remote, 8) == bytes(4) + b"abcd"
    # The packet alone would fit into the region.
    assert peers.arrive(write, b"abcd", total=SPACE + 1) == BAD_ADDRESS
    assert peers.arrive(write, b"abcd", total=3) == BAD_ADDRESS
    assert peers.arrive(write, b"abcd", total=8, offset=0xFFFFFFFE) == BAD_ADDRESS
    assert peers.arrive(read, total=8, count=9) == BAD_ADDRESS
    assert peers.arrive(read, total=SPACE, count=rdma.READ_REQUEST_BYTES + 1) == BAD_ADDRESS
    assert peers.arrive(read, b"x", total=8, count=8) == BAD_ADDRESS


@pytest.mark.parametrize("length", [0, 1, 31])
def test_a_packet_without_its_rdma_header_is_dropped(length):
    peers = Peers()
    header = defs.PktHdr(opcode=Packet.RDMA_WRITE, dst_node=2, length=length)
    peers.b.device.receive(header.pack() + bytes(length))
    assert peers.b.device.stats.rx_drops == 1


def test_memory_of_the_responder_that_cannot_be_read_is_a_bad_address():
    peers = Peers()
    peers.b.memory.fail(peers.remote + 100, 1)
    peers.post(READ, 200)
    assert peers.outcome() == (BAD_ADDRESS, READ)


# The initiator while an operation is in flight.


@pytest.mark.parametrize("op", [READ, WRITE])
@pytest.mark.parametrize(("side", "status"), [("a", BAD_KEY), ("b", BAD_ADDRESS)])
def test_a_region_that_goes_ends_the_operation(op, side, status):
    peers = Peers()
    peers.post(op, SPACE, run=False)
    peers.fabric.run(4)
    host, key = (peers.a, peers.local_key) if side == "a" else (peers.b, peers.rkey)
    host.command(Opcode.DEREG_MR, l_key=key)
    host.writes.clear()
    memory = peers.local if op == READ else peers.remote
    target = peers.a if op == READ else peers.b
    if (op, side) == (WRITE, "a"):
        # What has left may still be written; it has the bytes of the region.
        peers.fabric.run()
    else:
        peers.fabric.run()
        if host is target:
            assert not [at for at, _ in target.writes if memory <= at < memory + SPACE]
    assert peers.outcome() == (status, op)
    assert not peers.a.device.datapath.sends.messages
    assert peers.fabric.run() == 0


@pytest.mark.parametrize("how", ["destroyed", "reset"])
def test_a_response_of_a_removed_queue_pair_has_no_payload(how, monkeypatch):
    peers = Peers()
    sent = []
    link = peers.b.device.datapath.link
    monkeypatch.setattr(link, "transmit", lambda *args: sent.append(args))
    peers.arrive(Packet.READ_REQUEST, total=8, count=8)
    [(*_, body, _, again)] = sent
    assert again() == body and len(body) == defs.PktRdma.SIZE + 8
    if how == "reset":
        peers.rx.modify(State.RESET)
        peers.rx.to(State.RTS)
        assert peers.arrive(Packet.READ_REQUEST, total=8, count=8) == Comp.OK
        assert sent[-1][-1]() == body
    else:
        peers.rx.destroy()
    assert len(again()) == defs.PktRdma.SIZE
    assert defs.PktRdma.unpack(again()).status == BAD_ADDRESS


@pytest.mark.parametrize("op", [READ, WRITE])
def test_a_flushed_operation_places_nothing_more(op):
    peers = Peers()
    peers.post(op, SPACE, run=False)
    peers.fabric.run(6)
    peers.tx.modify(State.ERR)
    assert peers.outcome() == (Comp.FLUSHED, op)
    peers.a.writes.clear()
    peers.fabric.run()
    assert peers.cq.results() == []
    assert not [at for at, _ in peers.a.writes if peers.local <= at < peers.local + SPACE]


@pytest.mark.parametrize("op", [READ, WRITE])
def test_a_cancelled_operation_has_no_completion(op):
    peers = Peers()
    peers.post(op, SPACE, run=False)
    peers.fabric.run(6)
    peers.tx.modify(State.RESET)
    peers.fabric.run()
    assert peers.cq.results() == []
    assert not peers.a.device.datapath.sends.messages


def test_a_destroyed_address_handle_flushes_its_operations():
    peers = Peers()
    peers.post(READ, SPACE, run=False)
    peers.a.command(Opcode.DESTROY_AH, ah=peers.ah, pd=peers.pd)
    assert peers.outcome() == (Comp.FLUSHED, READ)
    peers.fabric.run()
    assert peers.cq.results() == []


def test_local_memory_that_cannot_be_read_takes_the_qp_to_err():
    peers = Peers()
    peers.a.memory.fail(peers.local + 2 * MTU, 1)
    peers.post(WRITE, 4 * MTU, req_id=3)
    assert peers.cq.results() == [(3, BAD_WQE, SEND)]
    assert peers.tx.query().qp_state == State.ERR


@pytest.mark.parametrize("change", [
    {"read_id": 9}, {"dst_qpn": 9}, {"src_node": 3}, {"offset": 57}, {"offset": 1 << 31},
    {"payload": bytes(65)}])
def test_a_response_that_fits_no_read_is_dropped(change):
    peers = Peers()
    peers.post(READ, 64, run=False)
    peers.a.writes.clear()
    payload = change.get("payload", bytes(8))
    values = {"read_id": 0, "dst_qpn": peers.tx.number, "src_node": 2, "offset": 0} | change
    packet = defs.PktHdr(
        opcode=Packet.READ_RESPONSE, length=32 + len(payload), dst_node=1,
        dst_qpn=values["dst_qpn"], src_node=values["src_node"])
    more = defs.PktRdma(total=64, offset=values["offset"], read_id=values["read_id"])
    peers.a.device.receive(packet.pack() + more.pack() + payload)
    assert (peers.a.writes, peers.a.device.stats.rx_drops) == ([], 1)
    peers.fabric.run()
    assert peers.outcome() == (Comp.OK, READ)


@pytest.mark.parametrize("status", [7, 16, 200, 255])
def test_any_status_of_a_peer_ends_the_operation(status):
    peers = Peers()
    peers.post(WRITE, 8, run=False)
    ack = defs.PktHdr(opcode=Packet.SRD_ACK, dst_node=1, src_node=2, dst_qpn=peers.tx.number,
                      status=status)
    peers.a.device.receive(ack.pack())
    [entry] = peers.cq.poll()
    assert entry.base.common.status == status
    peers.fabric.run()
    peers.post(READ, 8, run=False)
    header = defs.PktHdr(opcode=Packet.READ_RESPONSE, length=32, dst_node=1, src_node=2,
                         dst_qpn=peers.tx.number)
    peers.a.device.receive(header.pack() + defs.PktRdma(total=8, read_id=1, status=status).pack())
    peers.fabric.run()
    [entry] = peers.cq.poll()
    assert entry.base.common.status == status


def test_a_write_takes_no_response():
    peers = Peers()
    peers.post(WRITE, 64, run=False)
    header = defs.PktHdr(opcode=Packet.READ_RESPONSE, length=40, dst_node=1, src_node=2,
                         dst_qpn=peers.tx.number)
    peers.a.device.receive(header.pack() + defs.PktRdma(total=64).pack() + bytes(8))
    assert peers.a.device.stats.rx_drops == 1


def test_more_acknowledgements_than_packets_are_dropped():
    peers = Peers()
    peers.post(READ, 64, run=False)
    ack = defs.PktHdr(opcode=Packet.SRD_ACK, dst_node=1, src_node=2, dst_qpn=peers.tx.number)
    for _ in range(3):
        peers.a.device.receive(ack.pack())
    peers.fabric.run()
    assert [status for _, status, _ in peers.cq.results()] == [Comp.OK]


def test_operations_share_the_contexts_of_sends():
    peers = Peers(limits={"msg_w": 1})
    for number in range(4):
        peers.tx.send(peers.request(WRITE if number & 1 else READ, 8, req_id=number))
    assert len(peers.a.device.datapath.sends.messages) == 2
    peers.fabric.run()
    assert sorted(peers.cq.results()) == [(n, Comp.OK, SEND) for n in range(4)]


def test_statistics_count_operations_and_their_bytes():
    peers = Peers()
    peers.post(READ, 2 * MTU)
    peers.post(WRITE, 3 * MTU)
    peers.post(READ, 5, rkey=1)
    peers.post(WRITE, 5, rkey=1)
    a, b = peers.a.device.stats, peers.b.device.stats
    assert (a.read_wrs, a.read_bytes, a.read_wr_err, a.read_resp_bytes) == (1, 2 * MTU, 1, 0)
    assert (a.write_wrs, a.write_bytes, a.write_wr_err, a.write_recv_bytes) == (1, 3 * MTU, 1, 0)
    assert (b.read_resp_bytes, b.write_recv_bytes) == (2 * MTU, 3 * MTU)
    assert (a.send_wrs, a.send_bytes, b.recv_wrs) == (0, 0, 0)
    assert (a.rx_bytes, a.tx_bytes, b.rx_bytes) == (2 * MTU, 3 * MTU + 5, 3 * MTU)
    for kind, field in (("RDMA_READ", "read_bytes"), ("RDMA_WRITE", "write_bytes")):
        response = peers.a.command(
            Opcode.GET_STATS, type=defs.AdminGetStatsType[kind], scope=defs.AdminGetStatsScope.ALL)
        assert getattr(getattr(response.u, f"{kind.lower()}_stats"), field) == getattr(a, field)


def test_a_node_reads_and_writes_itself():
    host = Pair(SRD, profile="recorded", entry_words=8)
    key = host.a.mr(host.pd, host.space, 0x8000, remote_write_enable=1, remote_read_enable=1)
    host.fill(0, b"itself")
    for op, at, to in ((WRITE, 0, 64), (READ, 128, 0)):
        image = bytearray(wqe(host.rx.number, host.ah, [(0, 6, 0)], op_type=op))
        entry = defs.IoTxWqe.over(image)
        put(entry, "data.rdma_req.remote_mem", {
            "length": 6, "rkey": key, "buf_addr_lo": host.space + to, "buf_addr_hi": 0})
        put(entry, "data.rdma_req.local_mem", [{
            "length": 6, "lkey": key, "buf_addr_lo": host.space + at, "buf_addr_hi": 0}])
        host.tx.send(bytes(image))
        host.fabric.run()
    assert host.a.memory.read(host.space + 64, 6) == b"itself"
    assert host.a.memory.read(host.space + 128, 6) == b"itself"


# Hostile peers.


@pytest.mark.parametrize("seed", range(4))
def test_no_packet_reaches_memory_outside_the_region(seed):
    """Random RDMA packets, most fields near valid ones: only the region with the right changes."""
    rng = random.Random(seed)
    peers = Peers()
    foreign = peers.b.allocate(SPACE)
    peers.b.mr(peers.pd_b, foreign, SPACE, shift=20)
    peers.b.writes.clear()
    for _ in range(3000):
        values = {
            "dst_qpn": rng.choice((peers.rx.number, rng.getrandbits(16))),
            "qkey": rng.choice((QKEY, QKEY, rng.getrandbits(32))),
            "msg_id": rng.getrandbits(32), "psn": rng.getrandbits(32), "imm": rng.getrandbits(32),
            "has_imm": rng.getrandbits(1), "src_node": rng.choice((1, 1, 2, rng.getrandbits(16))),
            "remote_addr": rng.choice((
                peers.remote, foreign, peers.remote + rng.randrange(-64, SPACE + 64),
                rng.getrandbits(64))),
            "rkey": rng.choice((peers.rkey, peers.rkey ^ 1 << rng.randrange(32),
                                peers.key_b, rng.getrandbits(32))),
            "total": rng.choice((64, SPACE, rng.getrandbits(32), rng.randrange(200))),
            "offset": rng.choice((0, 0, rng.randrange(SPACE), rng.getrandbits(32))),
            "count": rng.choice((0, 64, rng.randrange(1 << 17), rng.getrandbits(32))),
        }
        opcode = rng.choice((Packet.RDMA_WRITE, Packet.READ_REQUEST, Packet.READ_RESPONSE))
        peers.arrive(opcode, rng.randbytes(rng.choice((0, 1, 64, 100))), **values)
    queues = range(peers.rcq.base, peers.rcq.base + 0x2000)
    reached = {at for at, _ in peers.b.writes if at not in queues}
    assert reached and all(peers.remote <= at < peers.remote + SPACE for at in reached)
    peers.post(WRITE, 8)
    assert peers.outcome() == (Comp.OK, WRITE)
