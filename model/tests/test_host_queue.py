# SPDX-License-Identifier: Apache-2.0
"""Tests send queues in host memory: the time of each WQE read, and invalid WQEs."""

import pytest
from rig import SRD, UD, Comp, Host, Opcode, Pair, State, Status

from efa_cosim.layouts import defs

IN_HOST = {"sq_host": 1}
SEND, RECEIVE = defs.IoQueueType.SEND_QUEUE, defs.IoQueueType.RECV_QUEUE
FLUSHED, OK = Comp.FLUSHED, Comp.OK
ENTRY_READ = 8


class HostPair(Pair):
    """A pair on a device with send queues in host memory; packets are held, not delivered."""

    def __init__(self, kind=SRD, **options):
        super().__init__(kind, limits=IN_HOST, **options)
        self.packets = []
        self.a.device.on_packet = self.packets.append

    def entry(self, number, **values):
        return self.wqe(inline=bytes([number]), req_id=100 + number, **values)

    def slot_address(self, number):
        return self.tx.sq_base + number % self.tx.sq_depth * self.tx.wqe_bytes

    def fail_slot(self, number):
        self.a.memory.fail(self.slot_address(number), 1)

    def state(self):
        return self.tx.query().qp_state


def ends(pair):
    """Returns (req_id, status) of the new send completions in order."""
    return [(req_id, status) for req_id, status, queue in pair.cq.results() if queue == SEND]


@pytest.mark.parametrize("kind", [SRD, UD], ids=["srd", "ud"])
@pytest.mark.parametrize(("wqe_bytes", "length"), [(64, 0), (64, 32), (128, 33), (128, 80)])
def test_wqes_of_both_sizes_are_fetched(kind, wqe_bytes, length):
    pair = Pair(kind, limits=IN_HOST, wqe_bytes=wqe_bytes)
    data = bytes(range(1, length + 1))
    pair.rx.post(pair.sink(0, 256))
    pair.send(inline=data)
    assert (0, OK) in ends(pair)
    assert pair.received(40 if kind == UD else 0, length) == data


def test_a_wqe_is_read_once_after_its_doorbell():
    pair = HostPair()
    pair.tx.modify(State.SQD)
    pair.tx.store(pair.entry(1))
    pair.tx.store(pair.entry(2))
    pair.tx.ring(1)
    # The WQE was posted, so a later store of the host to its slot has no effect.
    pair.tx.store(pair.entry(3))
    pair.tx.modify(State.RTS)
    assert pair.packets[0][-1] == 2


def test_the_ring_wraps_and_its_wraps_are_reported_apart():
    pair = HostPair(UD, sq_depth=4)
    for number in range(11):
        pair.tx.send(pair.entry(number, phase=(number // 4) & 1))
    assert [packet[-1] for packet in pair.packets] == list(range(11))
    assert [e["wrong_phase"] for e in pair.a.names("wqe")] == [0] * 11


def test_a_batch_across_the_end_of_the_ring():
    pair = HostPair(UD, sq_depth=4)
    for number in range(3):
        pair.tx.send(pair.entry(number))
    for number in range(3, 7):
        pair.tx.send(pair.entry(number), ring=number == 6)
    assert [packet[-1] for packet in pair.packets] == list(range(7))


def test_a_doorbell_beyond_the_ring_is_refused_as_ever():
    pair = HostPair(sq_depth=4)
    pair.tx.ring(5)
    assert pair.state() == State.ERR and not pair.packets
    [seen] = pair.a.names("qperr")
    assert seen["cause"] == 1


@pytest.mark.parametrize("state", [State.INIT, State.RTR], ids=["init", "rtr"])
def test_what_is_posted_before_rts_is_read_in_rts(state):
    pair = HostPair(UD)
    tx = pair.a.qp(pair.pd, pair.uar, pair.cq, kind=UD).to(state)
    tx.send(pair.entry(1))
    tx.store(pair.entry(2), 0)
    for step in (State.RTR, State.RTS)[state == State.RTR :]:
        tx.modify(step, **({"sq_psn": 0} if step == State.RTS else {}))
    assert [packet[-1] for packet in pair.packets] == [2]


def test_what_is_posted_before_rts_is_read_for_its_flush():
    pair = HostPair()
    tx = pair.a.qp(pair.pd, pair.uar, pair.cq).to(State.INIT)
    tx.send(pair.entry(1))
    tx.modify(State.ERR)
    tx.send(pair.entry(2))
    assert ends(pair) == [(101, FLUSHED), (102, FLUSHED)] and not pair.packets


def test_drained_wqes_are_read_and_wait_for_rts():
    pair = HostPair(UD)
    pair.tx.modify(State.SQD)
    pair.tx.send(pair.entry(1))
    assert not pair.packets and not pair.tx.query().sq_draining
    pair.tx.modify(State.RTS)
    assert len(pair.packets) == 1


@pytest.mark.parametrize("bad", [0, 32, 0x1001, 63], ids=hex)
def test_the_ring_must_lie_on_a_line(bad):
    host = Host(limits=IN_HOST)
    pd, uar = host.pd(), host.uar()
    cq = host.cq(uar)
    values = {
        "pd": pd, "uar": uar, "qp_type": SRD, "send_cq_idx": cq.number, "recv_cq_idx": cq.number,
        "qp_alloc_size.send_queue_ring_size": 512, "qp_alloc_size.send_queue_depth": 8,
    }  # fmt: skip
    assert host.refusal(Opcode.CREATE_QP, sq_base_addr=bad, **values) == Status.ILLEGAL_PARAMETER
    host.command(Opcode.CREATE_QP, sq_base_addr=0x40, **values)


def test_a_virtual_ring_is_malformed_as_ever():
    host = Host(limits=IN_HOST)
    refused = host.refusal(Opcode.CREATE_QP, sq_virt=1, sq_base_addr=0x40)
    assert refused == Status.MALFORMED_REQUEST


def test_the_ordinary_build_does_not_look_at_the_ring_address():
    pair = Pair(sq_base_addr=33)
    pair.rx.post(pair.sink(0, 64))
    pair.send(inline=b"x")
    assert pair.status() == OK


def test_llq_pages_are_given_and_stores_to_them_change_nothing():
    pair = HostPair(UD)
    pair.tx.modify(State.SQD)
    pair.tx.send(pair.entry(1))
    pair.a.names()
    before = pair.a.device.snapshot()
    for offset, data in ((0, bytes(64)), (0, b"\xff" * 4), (67, b"\xff" * 3)):
        pair.a.device.store(2, pair.tx.llq + offset, data)
    assert pair.a.device.snapshot() == before
    assert [seen["status"] for seen in pair.a.names("llq")] == [1, 1, 1]
    assert pair.tx.llq != pair.rx.llq
    pair.tx.modify(State.RTS)
    assert pair.packets[0][-1] == 1


@pytest.mark.parametrize("state", [State.RTS, State.SQD], ids=["rts", "sqd"])
def test_a_failed_read_breaks_the_queue_and_names_what_it_can(state):
    pair = HostPair(sq_depth=8)
    if state == State.SQD:
        pair.tx.modify(State.SQD)
    pair.tx.post(pair.buffer(0, 8), req_id=77)
    pair.fail_slot(0)
    pair.fail_slot(2)
    for number in range(4):
        pair.tx.send(pair.entry(number), ring=number == 3)
    assert pair.state() == State.ERR and not pair.packets
    assert pair.cq.results() == [
        (0, FLUSHED, SEND), (101, FLUSHED, SEND), (0, FLUSHED, SEND), (103, FLUSHED, SEND),
        (77, FLUSHED, RECEIVE),
    ]  # fmt: skip
    [seen] = pair.a.names("qperr")
    assert (seen["qpn"], seen["cause"]) == (pair.tx.number, ENTRY_READ)
    pair.tx.send(pair.entry(4))
    assert ends(pair) == [(104, FLUSHED)]


def test_wqes_before_a_failed_one_leave():
    pair = HostPair(UD)
    pair.fail_slot(1)
    for number in range(3):
        pair.tx.send(pair.entry(number), ring=number == 2)
    assert [packet[-1] for packet in pair.packets] == [0]
    assert ends(pair) == [(100, OK), (0, FLUSHED), (102, FLUSHED)]


def test_a_half_read_wqe_counts_as_unread():
    pair = HostPair(UD, wqe_bytes=128)
    pair.a.memory.fail(pair.slot_address(0) + 127, 1)
    pair.tx.send(pair.entry(1))
    assert ends(pair) == [(0, FLUSHED)]


def test_a_failed_read_in_err_only_loses_the_request_id():
    pair = HostPair()
    pair.tx.modify(State.ERR)
    pair.fail_slot(0)
    pair.tx.send(pair.entry(1))
    pair.tx.send(pair.entry(2))
    assert ends(pair) == [(0, FLUSHED), (102, FLUSHED)]
    assert pair.a.names("qperr") == []


def test_reads_wait_for_the_bus():
    pair = HostPair(UD)
    pair.a.device.set_bus_master(False)
    pair.tx.send(pair.entry(1))
    pair.tx.store(pair.entry(2), 0)
    pair.a.device.set_bus_master(True)
    assert [packet[-1] for packet in pair.packets] == [2]


def test_reset_clears_what_was_read():
    pair = HostPair(UD, sq_depth=4)
    pair.tx.modify(State.SQD)
    for number in range(3):
        pair.tx.send(pair.entry(number))
    pair.tx.modify(State.RESET)
    assert ends(pair) == []
    pair.tx.to(State.RTS)
    pair.tx.send(pair.entry(9))
    assert [packet[-1] for packet in pair.packets] == [9] and ends(pair) == [(109, OK)]


def test_a_queue_that_waits_for_message_contexts_keeps_what_it_read():
    pair = Pair(limits=IN_HOST | {"msg_w": 1}, sq_depth=8)
    for number in range(6):
        pair.rx.post(pair.sink(64 * number, 64))
    for number in range(6):
        pair.tx.send(pair.wqe(inline=bytes([number]), req_id=number), ring=number == 5)
    assert pair.a.device.snapshot()["objects"]["qps"]["live"][pair.tx.number]["fetched"]
    pair.fabric.run()
    assert [pair.received(64 * number, 1)[0] for number in range(6)] == list(range(6))
    assert sorted(ends(pair)) == [(number, OK) for number in range(6)]
