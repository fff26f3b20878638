# SPDX-License-Identifier: Apache-2.0
"""Tests received packets: validation errors, payload placement, and the completions of both sides.
"""

import pytest
from rig import QKEY, SRD, UD, Comp, Opcode, Pair, State, wqe

from efa_cosim.layouts import defs

KINDS = pytest.mark.parametrize("kind", [SRD, UD], ids=["srd", "ud"])
SEND, RECV = defs.IoQueueType.SEND_QUEUE, defs.IoQueueType.RECV_QUEUE
INVALID_LKEY = Comp.LOCAL_ERROR_INVALID_LKEY


def grh(kind):
    return 40 if kind == UD else 0


class Receiver(Pair):
    """A pair on two devices; refused() sends one message that must not be delivered."""

    def __init__(self, kind=SRD, **options):
        super().__init__(kind, two=True, **options)
        self.kind = kind

    def refused(self, expected, *, completion=None, cause=None, **values):
        """Checks the sender's status and the receive completion, if any; no other byte may be
        written."""
        values.setdefault("inline", b"payload")
        self.b.writes.clear()
        self.b.names()
        drops = self.b.device.stats.rx_drops
        self.send(**values)
        assert self.status() == (expected if self.kind == SRD else Comp.OK)
        assert self.b.device.stats.rx_drops == drops + 1
        found = [(status, queue) for _, status, queue in self.rcq.results()]
        assert found == ([(completion, RECV)] if completion else [])
        assert len(self.b.writes) == len(found)
        errors = self.b.names("qperr")
        assert [error["cause"] for error in errors] == ([cause] if cause else [])
        return self.rx.query().qp_state


@KINDS
def test_a_message_arrives_with_every_field_of_its_completion(kind):
    pair = Receiver(kind)
    sender = pair.b.ah(pair.pd_b, 1)
    pair.rx.post(pair.sink(0x123, 200), req_id=0xBEEF)
    pair.send(inline=b"hello", imm=0xCAFE)
    [entry] = pair.rcq.poll()
    common = entry.common
    assert (common.req_id, common.status, common.q_type) == (0xBEEF, Comp.OK, RECV)
    assert (common.op_type, common.has_imm, common.unsolicited) == (0, 1, 0)
    assert common.qp_num == pair.rx.number
    assert (entry.length, entry.ah, entry.imm) == (5 + grh(kind), sender, 0xCAFE)
    assert entry.src_qp_num == pair.tx.number
    assert pair.received(0x123 + grh(kind), 6) == b"hello\0"
    assert pair.status() == Comp.OK


def test_a_datagram_carries_both_gids_in_front():
    pair = Receiver(UD)
    pair.rx.post(pair.sink(0, 64))
    pair.send(inline=b"x" * 24)
    gids = pair.a.device.gid + pair.b.device.gid
    assert pair.received(0, 64) == bytes(8) + gids + b"x" * 24


def test_the_grh_may_be_cut_by_a_buffers_end():
    pair = Receiver(UD)
    pair.rx.post(pair.sink(0, 10), pair.sink(0x1000, 64))
    pair.send(inline=b"tail")
    assert pair.received(8, 2) == b"\xfe\x80"
    assert pair.received(0x1000 + 30, 4) == b"tail"


@pytest.mark.parametrize("src_addr", [0, 1])
@pytest.mark.parametrize("known", [0, 1])
def test_the_source_gid_is_given_for_strangers_when_requested(src_addr, known):
    pair = Receiver(entry_words=8, cq_values={"set_src_addr": src_addr})
    if known:
        pair.b.ah(pair.pd_b, 1)
    else:
        pair.b.ah(pair.b.pd(), 1)
    pair.rx.post(pair.sink(0, 64))
    pair.send(inline=b"x")
    [entry] = pair.rcq.poll()
    assert entry.base.ah == (0 if known else 0xFFFF)
    expected = pair.a.device.gid if src_addr and not known else bytes(16)
    assert entry.u.src_addr == expected


def test_a_payload_is_scattered_over_pages_and_buffers():
    pair = Receiver()
    pages = [0x90_0000, 0x70_0000]
    key = pair.b.mr(pair.pd_b, 0, 0x1F00, pages=pages, iova=0x5_0100)
    pair.rx.post((0x5_0F00, 0x200, key), pair.sink(0, 100))
    data = bytes(n & 0xFF for n in range(0x220))
    pair.fill(0, data)
    pair.b.writes.clear()
    pair.send(pair.buffer(0, len(data)))
    read = pair.b.memory.read
    assert read(0x90_0F00, 0x100) + read(0x70_0000, 0x100) == data[:0x200]
    assert pair.received(0, 0x21) == data[0x200:] + b"\0"
    assert [len(d) for _, d in pair.b.writes] == [0x100, 0x100, 0x20, 16]


def test_an_empty_message_uses_a_receive_and_writes_nothing():
    pair = Receiver()
    pair.rx.post((0, 0, 0), req_id=3)
    pair.send()
    assert pair.rcq.results() == [(3, Comp.OK, RECV)]
    assert pair.status() == Comp.OK


def test_unused_descriptors_of_a_receive_are_skipped():
    pair = Receiver()
    pair.rx.post(pair.sink(0, 64), (0, 64, 0), req_id=1)
    pair.rx.post(pair.sink(64, 64), req_id=2)
    pair.send(inline=b"one")
    pair.send(inline=b"two")
    assert [entry[0] for entry in pair.rcq.results()] == [1, 2]
    assert pair.received(64, 3) == b"two"


def test_the_data_is_written_before_its_completion_and_that_before_the_answer():
    pair = Receiver()
    order = []
    pair.b.device.on_dma_write = lambda address, data: order.append(len(data))
    deliver = pair.b.device.on_packet
    pair.b.device.on_packet = lambda packet: (order.append("ack"), deliver(packet))
    pair.rx.post(pair.sink(0, 64))
    pair.send(inline=b"hello")
    assert order == [5, 16, "ack"]


# Refusals in their order.


@KINDS
@pytest.mark.parametrize("number", [7, 64, 0xFFFF])
def test_no_such_qp(kind, number):
    pair = Receiver(kind)
    pair.rx.post(pair.sink(0, 100))
    pair.rx.number = number
    pair.refused(Comp.REMOTE_ERROR_BAD_DEST_QPN)


def test_a_stale_generation_is_no_such_qp():
    pair = Receiver()
    pair.b.qp(pair.pd_b, 0, pair.rcq).destroy()
    pair.b.qp(pair.pd_b, 0, pair.rcq).to(State.RTR)
    pair.rx.number = 1
    pair.refused(Comp.REMOTE_ERROR_BAD_DEST_QPN)


@KINDS
def test_a_qp_of_the_other_type(kind):
    pair = Receiver(kind)
    other = pair.b.qp(pair.pd_b, 0, pair.rcq, kind=UD if kind == SRD else SRD)
    other.to(State.RTS).post(pair.sink(0, 100))
    pair.rx.number = other.number
    pair.refused(Comp.REMOTE_ERROR_BAD_DEST_QPN)


@KINDS
@pytest.mark.parametrize("state", list(State))
def test_the_state_decides_whether_a_qp_receives(kind, state):
    pair = Receiver(kind)
    pair.rx.post(pair.sink(0, 100))
    pair.b.device.objects.qps.get(0).state = state
    if state in (State.RTR, State.RTS, State.SQD, State.SQE):
        pair.send(inline=b"x")
        assert len(pair.rcq.results()) == 1
    else:
        assert pair.refused(Comp.REMOTE_ERROR_BAD_DEST_QPN) == state


@KINDS
def test_a_wrong_qkey_is_counted(kind):
    pair = Receiver(kind)
    pair.rx.post(pair.sink(0, 100))
    pair.refused(Comp.REMOTE_ERROR_BAD_DEST_QPN, qkey=QKEY + 1)
    basic = pair.b.command(Opcode.GET_STATS, type=0).u.basic_stats
    assert (basic.qkey_viol, basic.rx_drops) == (1, 1)


@KINDS
def test_no_receive_is_posted(kind):
    pair = Receiver(kind)
    assert pair.refused(Comp.REMOTE_ERROR_RNR) == State.RTS
    pair.rx.post(pair.sink(0, 100), last=False)
    pair.refused(Comp.REMOTE_ERROR_RNR)
    pair.rx.post(pair.sink(100, 100), ring=False)
    pair.refused(Comp.REMOTE_ERROR_RNR)
    pair.rx.ring_rq()
    pair.send(inline=b"x")
    assert pair.rcq.results() == [(0, Comp.OK, RECV)]


@KINDS
def test_a_receive_without_last_takes_the_qp_to_err(kind):
    pair = Receiver(kind)
    pair.rx.post(pair.sink(0, 100), pair.sink(100, 100), last=False, req_id=8)
    state = pair.refused(
        Comp.REMOTE_ERROR_BAD_STATUS, completion=Comp.LOCAL_ERROR_QP_INTERNAL_ERROR, cause=7
    )
    assert state == State.ERR


@KINDS
@pytest.mark.parametrize("split", [False, True])
def test_a_receive_that_is_too_short_stays_for_the_next(kind, split):
    pair = Receiver(kind)
    free = grh(kind) + 6
    sinks = [pair.sink(0, 2), pair.sink(2, free - 2)] if split else [pair.sink(0, free)]
    pair.rx.post(*sinks, req_id=4)
    assert pair.refused(Comp.REMOTE_ERROR_BAD_LENGTH, inline=b"seven77") == State.RTS
    pair.send(inline=b"sixsix")
    assert pair.rcq.results() == [(4, Comp.OK, RECV)]


def bad_sinks(pair):
    """Returns an invalid receive buffer for each kind of error."""
    space, key = pair.space_b, pair.key_b
    foreign = pair.b.mr(pair.b.pd(), space, 0x1000)
    read_only = pair.b.mr(pair.pd_b, space, 0x1000, local_write=0)
    return {
        "no key": (space, 64, 0),
        "dead key": (space, 64, key ^ 1 << 19),
        "other pd": (space, 64, foreign),
        "read only": (space, 64, read_only),
        "before": (space - 1, 64, key),
        "behind": (space + 0x8000 - 63, 64, key),
        "wrapped": ((1 << 64) - 8, 64, key),
    }


@KINDS
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize(
    "name", ["no key", "dead key", "other pd", "read only", "before", "behind", "wrapped"]
)
def test_a_bad_receive_buffer_uses_up_the_receive_and_gets_no_byte(kind, which, name):
    pair = Receiver(kind)
    bad = bad_sinks(pair)[name]
    sinks = [bad, pair.sink(0, 64)] if which == 0 else [pair.sink(0, 3), bad]
    pair.rx.post(*sinks)
    pair.rx.post(pair.sink(0, 64))
    state = pair.refused(Comp.REMOTE_ERROR_BAD_STATUS, completion=INVALID_LKEY)
    assert state == State.RTS
    pair.send(inline=b"x")
    assert pair.rcq.results() == [(0, Comp.OK, RECV)]


def test_a_bad_buffer_that_gets_no_byte_does_no_harm():
    pair = Receiver()
    pair.rx.post((0, 0, 0), pair.sink(0, 64))
    pair.rx.post(pair.sink(0, 64), (0, 64, 0))
    for _ in range(2):
        pair.send(inline=b"x")
    assert [entry[1] for entry in pair.rcq.results()] == [Comp.OK, Comp.OK]


@KINDS
def test_a_descriptor_that_cannot_be_read_takes_the_qp_to_err(kind):
    pair = Receiver(kind)
    pair.rx.post(pair.sink(0, 100))
    pair.b.memory.fail(pair.rx.rq_base, 16)
    state = pair.refused(Comp.REMOTE_ERROR_BAD_DEST_QPN, cause=6)
    assert state == State.ERR
    pair.b.memory.heal()
    pair.rx.post(pair.sink(0, 100))
    assert pair.rcq.results() == []


# Packets that are none.


@pytest.mark.parametrize(
    ("change", "tail", "what"),
    [
        ({"opcode": 0}, b"", 1),
        ({"opcode": 4}, b"", 1),
        ({"dst_node": 3}, b"", 2),
        ({"dst_node": 0xFFFF}, b"", 2),
        ({"length": 1}, b"", 3),
        ({"length": 1}, b"ab", 3),
        ({}, b"a", 3),
    ],
)
def test_a_malformed_packet_is_dropped_and_counted(change, tail, what):
    pair = Receiver()
    pair.rx.post(pair.sink(0, 64))
    values = {"opcode": defs.PktOpcode.SRD_SEND, "dst_node": 2, "qkey": QKEY} | change
    pair.b.names()
    pair.b.device.receive(defs.PktHdr(**values).pack() + tail)
    assert [event["what"] for event in pair.b.names("anomaly_net")] == [what]
    assert pair.b.device.stats.rx_drops == 1
    assert pair.rcq.results() == [] and pair.fabric.run() == 0


def test_a_packet_shorter_than_its_header_is_dropped():
    pair = Receiver()
    pair.b.device.receive(bytes(31))
    assert pair.b.device.stats.rx_drops == 1


def test_an_acknowledgement_mirrors_its_packet():
    pair = Receiver()
    responses = []
    pair.b.device.on_packet = responses.append
    pair.b.device.receive(
        defs.PktHdr(
            opcode=defs.PktOpcode.SRD_SEND, src_qpn=0x11, dst_qpn=0x2222, qkey=3, psn=0x44,
            msg_id=0x55, imm=6, has_imm=1, src_node=7, dst_node=2, path=9, length=1,
        ).pack() + b"x"
    )  # fmt: skip
    expected = defs.PktHdr(
        opcode=defs.PktOpcode.SRD_ACK, src_qpn=0x2222, dst_qpn=0x11, psn=0x44, msg_id=0x55,
        src_node=2, dst_node=7, path=9, status=Comp.REMOTE_ERROR_BAD_DEST_QPN,
    )  # fmt: skip
    assert responses == [expected.pack()]


def test_the_fabric_loops_packets_to_the_own_node_back_and_loses_those_to_nowhere():
    pair = Pair(UD)
    pair.rx.post(pair.sink(0, 100))
    nowhere = pair.a.ah(pair.pd, 9)
    pair.tx.send(wqe(pair.rx.number, nowhere, inline=b"x"))
    pair.send(inline=b"y")
    assert pair.fabric.dropped == 1
    assert pair.received(40, 1) == b"y"


def test_nothing_is_received_during_a_reset():
    pair = Receiver()
    pair.rx.post(pair.sink(0, 64))
    pair.b.reg(defs.Reg.DEV_CTL, 1)
    pair.send(inline=b"x")
    assert pair.cq.results() == []
    assert pair.b.device.stats.rx_drops == 0
