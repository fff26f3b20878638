# SPDX-License-Identifier: Apache-2.0
"""Tests send work requests: the order of checks, the packets sent, and each completion status."""

import pytest
from rig import QKEY, SRD, UD, Comp, Host, Opcode, Pair, State, wqe

from efa_cosim.layouts import defs

KINDS = pytest.mark.parametrize("kind", [SRD, UD], ids=["srd", "ud"])
BAD_WQE = Comp.LOCAL_ERROR_QP_INTERNAL_ERROR
INVALID_LKEY = Comp.LOCAL_ERROR_INVALID_LKEY
SEND = defs.IoQueueType.SEND_QUEUE


def header(packet):
    return defs.PktHdr.unpack(packet)


def state_of(pair):
    return pair.tx.query().qp_state


class Sender(Pair):
    """A pair whose packets are held instead of delivered."""

    def __init__(self, kind=SRD, **options):
        super().__init__(kind, **options)
        self.packets = []
        self.a.device.on_packet = self.packets.append

    def refused(self, *buffers, **values):
        """Returns the status of a send that must fail without a packet; the QP stays in RTS."""
        self.tx.send(self.wqe(*buffers, **values))
        assert self.packets == []
        assert state_of(self) == State.RTS
        return self.status()


@KINDS
def test_a_packet_names_its_sender_and_its_receiver(kind):
    pair = Sender(kind)
    pair.fill(100, b"payload")
    pair.tx.send(pair.wqe(pair.buffer(100, 7), imm=0x11223344, qkey=99, req_id=5))
    [packet] = pair.packets
    expected = defs.PktHdr(
        opcode=defs.PktOpcode.SRD_SEND if kind == SRD else defs.PktOpcode.UD_SEND,
        has_imm=1, imm=0x11223344, length=7, src_qpn=pair.tx.number, dst_qpn=pair.rx.number,
        qkey=99, src_node=1, dst_node=1,
    )  # fmt: skip
    assert packet == expected.pack() + b"payload"


def test_an_immediate_that_is_not_announced_stays_at_home():
    pair = Sender()
    pair.tx.send(pair.wqe(inline=b"", immediate_data=77))
    assert (header(pair.packets[0]).has_imm, header(pair.packets[0]).imm) == (0, 0)


def test_sequence_numbers_run_for_each_destination_and_message_ids_for_all():
    pair = Sender()
    other = pair.a.ah(pair.pd, 5)
    for ah in (pair.ah, other, pair.ah, other):
        pair.tx.send(wqe(pair.rx.number, ah, inline=b"x"))
    headers = [header(packet) for packet in pair.packets]
    assert [(h.dst_node, h.psn) for h in headers] == [(1, 0), (5, 0), (1, 1), (5, 1)]
    assert len({h.msg_id for h in headers}) == 4


@KINDS
@pytest.mark.parametrize(
    ("wqe_bytes", "length"), [(64, 0), (64, 1), (64, 32), (128, 0), (128, 33), (128, 80)]
)
def test_inline_messages(kind, wqe_bytes, length):
    pair = Pair(kind, two=True, wqe_bytes=wqe_bytes)
    data = bytes(range(1, length + 1))
    start = 40 if kind == UD else 0
    pair.rx.post(pair.sink(0, 256))
    pair.send(inline=data)
    assert pair.status() == Comp.OK
    assert pair.received(start, 100) == data.ljust(100, b"\0")


@KINDS
@pytest.mark.parametrize(
    "lengths", [(), (0,), (1,), (4096,), (0, 5), (5, 0), (100, 3000), (2048, 2048)]
)
def test_messages_of_up_to_two_buffers(kind, lengths):
    pair = Pair(kind, two=True)
    data = bytes(n * 7 & 0xFF for n in range(8192))
    pair.fill(0, data)
    start = 40 if kind == UD else 0
    pair.rx.post(pair.sink(0, 8192))
    buffers = [pair.buffer(at, n) for at, n in zip((11, 4097), lengths, strict=False)]
    pair.send(*buffers)
    expected = b"".join(data[at : at + n] for at, n in zip((11, 4097), lengths, strict=False))
    assert pair.status() == Comp.OK
    assert pair.received(start, len(expected) + 1) == expected + b"\0"


def test_payload_is_gathered_from_scattered_pages():
    pair = Sender()
    pages = [0x90_0000, 0x70_0000, 0x80_0000]
    for number, page in enumerate(pages):
        pair.a.memory.write(page, bytes([number + 1]) * 4096)
    key = pair.a.mr(pair.pd, 0x900, 0x2000, pages=pages, iova=0xABC900)
    pair.tx.send(pair.wqe((0xABC900, 0x700, key), (0xABD100, 0x900, key)))
    expected = b"\1" * 0x700 + b"\2" * 0x900
    assert pair.packets[0][32:] == expected
    pair.tx.send(pair.wqe((0xABDFFF, 2, key)))
    assert pair.packets[1][32:] == b"\2\3"


@pytest.mark.parametrize("shift", [12, 16, 21, 31])
def test_pages_of_every_size_translate(shift):
    pair, size = Sender(), 1 << shift
    pages = [5 * size, 3 * size]
    key = pair.a.mr(pair.pd, 0, size + 8, pages=pages, iova=7 * size, shift=shift)
    pair.a.memory.write(6 * size - 4, b"abcd")
    pair.a.memory.write(3 * size, b"efgh")
    pair.tx.send(pair.wqe((8 * size - 4, 8, key)))
    assert pair.packets[0][32:] == b"abcdefgh"


def test_a_physical_region_is_not_translated():
    pair = Sender()
    key = pair.a.command(
        Opcode.REG_MR, pd=pair.pd, mr_length=1 << 52, mem_addr_phy_mode_en=1
    ).l_key
    pair.a.memory.write(0x4_5678_9FFE, b"wxyz")
    pair.tx.send(pair.wqe((0x4_5678_9FFE, 4, key)))
    assert pair.packets[0][32:] == b"wxyz"


# Each check, alone.


@pytest.mark.parametrize(
    "field",
    [{"meta_desc": 0}, {"first": 0}, {"last": 0}, {"comp_req": 0}, {"meta_extension": 1},
     {"reserved25": 1}, {"reserved29": 1}, {"reserved29": 4}],
)  # fmt: skip
def test_control_bits_that_are_not_as_they_must_be(field):
    assert Sender().refused(inline=b"x", **field) == BAD_WQE


def test_bits_without_a_meaning_are_ignored():
    pair = Sender()
    values = {"phase": 1, "ctrl3": 0xFF, "reserved": 0xFF, "reserved2": b"\xff" * 6}
    pair.tx.send(pair.wqe(inline=b"x", **values))
    assert len(pair.packets) == 1


@pytest.mark.parametrize("wqe_bytes", [64, 128])
@pytest.mark.parametrize("first", [0, 1])
def test_a_phase_bit_of_another_wrap_is_reported_and_decides_nothing(first, wqe_bytes):
    pair = Sender(UD, sq_depth=4, wqe_bytes=wqe_bytes)
    anomaly = {2, 4, 5, 9}
    for number in range(12):
        phase = (first + number // 4 + (number in anomaly)) % 2
        pair.tx.send(pair.wqe(inline=b"x", phase=phase))
    text = pair.a.names("wqe")
    assert {number for number, one in enumerate(text) if one["wrong_phase"]} == anomaly
    assert len(pair.packets) == 12


def test_the_phase_is_learned_anew_after_reset_and_not_from_an_incomplete_entry():
    pair = Sender(UD, sq_depth=4)
    pair.tx.send(pair.wqe(inline=b"x", phase=0))
    pair.tx.modify(State.RESET)
    pair.tx.to(State.RTS)
    for phase in (1, 1, 0):
        pair.tx.send(pair.wqe(inline=b"x", phase=phase))
    assert [one["wrong_phase"] for one in pair.a.names("wqe")] == [0, 0, 0, 1]
    pair.tx.modify(State.RESET)
    pair.tx.to(State.RTS)
    pair.a.device.store(2, pair.tx.slot(), pair.wqe(inline=b"x", phase=1)[:32])
    pair.tx.ring(1)
    assert [one["wrong_phase"] for one in pair.a.names("wqe")] == [0]


@pytest.mark.parametrize("op", range(1, 16))
@KINDS
def test_operations_that_are_not_built(kind, op):
    assert Sender(kind).refused(inline=b"x", op_type=op) == Comp.LOCAL_ERROR_UNSUPPORTED_OP


@pytest.mark.parametrize("length", [3, 4, 0xFFFF])
def test_too_many_buffers(length):
    pair = Sender()
    assert pair.refused(pair.buffer(0, 8), pair.buffer(8, 8), length=length) == BAD_WQE


@pytest.mark.parametrize(("wqe_bytes", "length"), [(64, 33), (128, 81), (64, 0xFFFF)])
def test_too_many_inline_bytes(wqe_bytes, length):
    pair = Sender(wqe_bytes=wqe_bytes)
    assert pair.refused(inline=b"x", length=length) == BAD_WQE


@pytest.mark.parametrize("ah", [1, 0xFFFF])
def test_address_handles_that_are_not_there(ah):
    pair = Sender()
    pair.tx.send(wqe(pair.rx.number, ah, inline=b"x"))
    assert pair.status() == Comp.LOCAL_ERROR_INVALID_AH


def test_an_address_handle_of_another_pd():
    pair = Sender()
    foreign = pair.a.ah(pair.a.pd(), 1)
    pair.tx.send(wqe(pair.rx.number, foreign, inline=b"x"))
    assert pair.status() == Comp.LOCAL_ERROR_INVALID_AH
    assert pair.packets == []


@pytest.mark.parametrize("profile", [*defs.PROFILES])
@pytest.mark.parametrize("beyond", [0, 1])
def test_messages_up_to_the_mtu(profile, beyond):
    pair = Sender(profile=profile)
    half = defs.PROFILES[profile].mtu // 2
    buffers = pair.buffer(0, half), pair.buffer(half, half + beyond)
    if beyond:
        assert pair.refused(*buffers) == Comp.LOCAL_ERROR_BAD_LENGTH
    else:
        pair.tx.send(pair.wqe(*buffers))
        assert len(pair.packets[0]) == 32 + 2 * half


def test_huge_lengths_do_not_wrap():
    pair = Sender()
    buffers = (pair.space, 0xFFFFFFFF, pair.key), (pair.space, 2, pair.key)
    assert pair.refused(*buffers) == Comp.LOCAL_ERROR_BAD_LENGTH


@pytest.mark.parametrize(
    ("offset", "length"),
    [(-1, 1), (-1, 2), (0x8000, 1), (0x7FFF, 2), (-0x100000, 8), ((1 << 63), 8)],
)
@pytest.mark.parametrize("which", [0, 1])
def test_ranges_outside_the_region(offset, length, which):
    pair = Sender()
    bad = ((pair.space + offset) % (1 << 64), length, pair.key)
    buffers = [bad, pair.buffer(0, 8)] if which == 0 else [pair.buffer(0, 8), bad]
    assert pair.refused(*buffers) == INVALID_LKEY


def test_a_range_that_wraps_the_address_space():
    pair = Sender()
    key = pair.a.mr(pair.pd, 0x5000, 0x1000, iova=(1 << 64) - 0x1000)
    assert pair.refused(((1 << 64) - 4, 8, key)) == INVALID_LKEY
    pair.tx.send(pair.wqe(((1 << 64) - 4, 4, key)))
    assert len(pair.packets) == 1


@pytest.mark.parametrize("bit", [0, 8, 19, 20, 23])
def test_keys_must_match_in_24_bits(bit):
    pair = Sender()
    assert pair.refused((pair.space, 8, pair.key ^ 1 << bit)) == INVALID_LKEY


def test_the_upper_bits_of_a_key_are_not_looked_at():
    pair = Sender()
    pair.tx.send(pair.wqe((pair.space, 8, pair.key | 0xFF000000)))
    assert len(pair.packets) == 1


def test_keys_of_another_pd_and_dead_keys():
    pair = Sender()
    foreign = pair.a.mr(pair.a.pd(), 0x5000, 64)
    assert pair.refused((0x5000, 8, foreign)) == INVALID_LKEY
    pair.a.command(Opcode.DEREG_MR, l_key=pair.key)
    assert pair.refused(pair.buffer(0, 8)) == INVALID_LKEY
    renewed = pair.a.mr(pair.pd, pair.space, 0x8000)
    assert renewed != pair.key
    assert pair.refused(pair.buffer(0, 8)) == INVALID_LKEY


def test_an_empty_buffer_needs_no_key():
    pair = Sender()
    pair.tx.send(pair.wqe((0, 0, 0), pair.buffer(3, 4)))
    assert len(pair.packets) == 1


def test_a_send_source_needs_no_write_permission():
    pair = Sender()
    key = pair.a.mr(pair.pd, 0x5000, 64, local_write=0)
    pair.tx.send(pair.wqe((0x5000, 8, key)))
    assert len(pair.packets) == 1


FAR = [b"\0" * 16, bytes.fromhex("fe80000000000000020000fffe000040"),
       bytes.fromhex("fe80000000000000020000fffe01 0001")]  # fmt: skip


@pytest.mark.parametrize("gid", FAR)
def test_a_gid_outside_the_fabric(gid):
    pair = Sender(SRD)
    ah = pair.a.ah(pair.pd, gid=gid)
    pair.tx.send(wqe(pair.rx.number, ah, inline=b"x"))
    assert (pair.status(), pair.packets) == (Comp.LOCAL_ERROR_UNREACH_REMOTE, [])
    pair = Sender(UD)
    ah = pair.a.ah(pair.pd, gid=gid)
    pair.tx.send(wqe(pair.rx.number, ah, inline=b"x"))
    assert pair.status() == Comp.OK
    assert header(pair.packets[0]).dst_node == 0xFFFF


WRONG = [
    ({"first": 0}, BAD_WQE),
    ({"op_type": 1}, Comp.LOCAL_ERROR_UNSUPPORTED_OP),
    ({"length": 3}, BAD_WQE),
    ({"ah": 9}, Comp.LOCAL_ERROR_INVALID_AH),
    ({"size": 5000}, Comp.LOCAL_ERROR_BAD_LENGTH),
    ({"lkey": 0}, INVALID_LKEY),
    ({"far": True}, Comp.LOCAL_ERROR_UNREACH_REMOTE),
]


@pytest.mark.parametrize("first", range(len(WRONG)))
def test_the_first_failing_check_names_the_status(first):
    pair = Sender()
    wrong = {}
    for change, _ in reversed(WRONG[first:]):
        wrong |= change
    far = pair.a.ah(pair.pd, gid=FAR[0])
    buffer = (pair.space, wrong.pop("size", 8), wrong.pop("lkey", pair.key))
    wrong.setdefault("ah", far if wrong.pop("far", False) else pair.ah)
    pair.tx.send(wqe(pair.rx.number, wrong.pop("ah"), [buffer], **wrong))
    assert pair.status() == WRONG[first][1]


def test_a_payload_that_cannot_be_read_takes_the_qp_to_err():
    pair = Sender()
    pair.a.memory.fail(pair.space + 100, 1)
    for req_id, buffer in enumerate([(0, 8), (96, 8), (200, 8)]):
        pair.tx.send(pair.wqe(pair.buffer(*buffer), req_id=req_id), ring=False)
    pair.a.names()
    pair.tx.ring()
    assert len(pair.packets) == 1
    assert pair.a.names("qperr") == [{"qpn": 0, "cause": 5}]
    assert pair.cq.results() == [
        (1, BAD_WQE, SEND), (0, Comp.FLUSHED, SEND), (2, Comp.FLUSHED, SEND),
    ]  # fmt: skip
    assert state_of(pair) == State.ERR


# Ends.


def test_a_datagram_completes_when_it_has_left():
    pair = Sender(UD)
    pair.tx.send(pair.wqe(inline=b"x", req_id=0xABCD))
    assert pair.cq.results() == [(0xABCD, Comp.OK, SEND)]


@pytest.mark.parametrize("status", [Comp.OK, Comp.REMOTE_ERROR_RNR, 200])
def test_a_reliable_send_ends_with_its_acknowledgements_status(status):
    pair = Sender()
    for req_id in range(3):
        pair.tx.send(pair.wqe(inline=b"x", req_id=req_id))
    assert pair.cq.results() == []
    for packet in reversed(pair.packets):
        sent = header(packet)
        pair.a.device.receive(
            defs.PktHdr(
                opcode=defs.PktOpcode.SRD_ACK, src_qpn=sent.dst_qpn, dst_qpn=sent.src_qpn,
                msg_id=sent.msg_id, psn=sent.psn, src_node=1, dst_node=1, status=status,
            ).pack()
        )  # fmt: skip
    assert pair.cq.results() == [(n, status, SEND) for n in (2, 1, 0)]
    assert state_of(pair) == State.RTS


@pytest.mark.parametrize("change", [{"msg_id": 5}, {"dst_qpn": 1}, {"src_node": 2}])
def test_an_acknowledgement_of_nothing_is_dropped_and_reported(change):
    pair = Sender()
    pair.tx.send(pair.wqe(inline=b"x"))
    values = {"dst_qpn": pair.tx.number, "msg_id": 0, "src_node": 1} | change
    ack = defs.PktHdr(opcode=defs.PktOpcode.SRD_ACK, dst_node=1, **values)
    pair.a.names()
    pair.a.device.receive(ack.pack())
    assert pair.a.names("anomaly_net") == [{"what": 7, "detail": values["msg_id"]}]
    assert pair.cq.results() == []
    assert pair.a.device.stats.rx_drops == 0


def test_a_second_acknowledgement_is_one_of_nothing():
    pair = Sender()
    pair.tx.send(pair.wqe(inline=b"x"))
    ack = defs.PktHdr(opcode=defs.PktOpcode.SRD_ACK, dst_qpn=pair.tx.number, dst_node=1, src_node=1)
    pair.a.device.receive(ack.pack())
    pair.a.device.receive(ack.pack())
    assert len(pair.cq.results()) == 1


def test_destroying_an_address_handle_flushes_what_is_in_flight_to_it():
    pair = Sender()
    other = pair.a.ah(pair.pd, 5)
    for req_id, ah in enumerate([pair.ah, other, pair.ah]):
        pair.tx.send(wqe(pair.rx.number, ah, inline=b"x", req_id=req_id))
    pair.a.command(Opcode.DESTROY_AH, ah=pair.ah, pd=pair.pd)
    assert pair.cq.results() == [(0, Comp.FLUSHED, SEND), (2, Comp.FLUSHED, SEND)]
    assert state_of(pair) == State.RTS
    pair.tx.send(pair.wqe(inline=b"x"))
    assert pair.status() == Comp.LOCAL_ERROR_INVALID_AH


def test_sends_wait_for_message_contexts():
    pair = Sender(limits={"msg_w": 2})
    for req_id in range(6):
        pair.tx.send(pair.wqe(inline=b"x", req_id=req_id))
    assert len(pair.packets) == 4
    acks = [header(packet) for packet in pair.packets]
    for sent in acks[:2]:
        pair.a.device.receive(
            defs.PktHdr(
                opcode=defs.PktOpcode.SRD_ACK, dst_qpn=sent.src_qpn, msg_id=sent.msg_id,
                src_node=1, dst_node=1,
            ).pack()
        )  # fmt: skip
    assert len(pair.packets) == 6
    pair.tx.modify(State.ERR)
    assert [entry[0] for entry in pair.cq.results()] == [0, 1, 2, 3, 4, 5]


def test_a_queue_without_an_open_send_finds_a_context():
    pair = Sender(limits={"msg_w": 2})
    for req_id in range(6):
        pair.tx.send(pair.wqe(inline=b"x", req_id=req_id))
    before = len(pair.packets)
    assert before == 4
    for number in range(3):
        other = pair.a.qp(pair.pd, pair.uar, pair.cq, kind=SRD).to(State.RTS)
        other.send(pair.wqe(inline=b"first", req_id=number))
        other.send(pair.wqe(inline=b"second", req_id=number))
        assert len(pair.packets) == before + 1 + number


def test_statistics_count_what_left_and_what_ended_well():
    pair = Pair(SRD)
    pair.rx.post(pair.sink(0, 100))
    pair.send(inline=b"hello")
    pair.send(inline=b"lost")
    pair.send(inline=b"bad", first=0)
    basic = pair.a.command(Opcode.GET_STATS, type=0).u.basic_stats
    messages = pair.a.command(Opcode.GET_STATS, type=1).u.messages_stats
    assert (basic.tx_pkts, basic.tx_bytes) == (2, 9)
    assert (basic.rx_pkts, basic.rx_bytes, basic.rx_drops) == (1, 5, 1)
    assert (messages.send_wrs, messages.send_bytes) == (1, 5)
    assert (messages.recv_wrs, messages.recv_bytes) == (1, 5)


def test_a_wrong_qkey_goes_into_the_packet_as_it_is():
    pair = Sender()
    pair.tx.send(pair.wqe(inline=b"x", qkey=0xFFFF0000))
    assert header(pair.packets[0]).qkey == 0xFFFF0000 != QKEY


def test_limits_are_those_of_the_spec_or_overrides():
    assert Host(limits={"qpn_w": 10}).device.objects.qps.count == 1024
    with pytest.raises(ValueError, match="no such limits"):
        Host(limits={"qpn": 10})
