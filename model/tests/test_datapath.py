# SPDX-License-Identifier: Apache-2.0
"""Tests the queues: doorbells, LLQ memory, flushes, states, and the wrap of every counter."""

import random

import pytest
from rig import SRD, UD, Comp, Host, Opcode, Pair, Reg, State, wqe

from efa_cosim.layouts import defs

SEND, RECV = defs.IoQueueType.SEND_QUEUE, defs.IoQueueType.RECV_QUEUE
BAD_WQE = Comp.LOCAL_ERROR_QP_INTERNAL_ERROR
TAKEN, FOREIGN, BEYOND, WRONG_STATE = range(4)


class Quiet(Pair):
    """A pair whose packets are dropped, so SRD sends stay outstanding."""

    def __init__(self, kind=SRD, **options):
        super().__init__(kind, **options)
        self.packets = []
        self.a.device.on_packet = self.packets.append

    def acknowledge(self, count=1):
        for _ in range(count):
            sent = defs.PktHdr.unpack(self.packets.pop(0))
            ack = defs.PktHdr(
                opcode=defs.PktOpcode.SRD_ACK, dst_qpn=sent.src_qpn, msg_id=sent.msg_id,
                src_node=1, dst_node=1,
            )  # fmt: skip
            self.a.device.receive(ack.pack())

    def statuses(self):
        return [event["status"] for event in self.a.names("db")]

    def causes(self):
        return [event["cause"] for event in self.a.names("qperr")]

    def state(self):
        return self.tx.query().qp_state


# Doorbells.


def test_a_doorbell_beyond_the_ring_takes_that_qp_alone_to_err():
    pair = Quiet()
    for req_id in range(3):
        pair.tx.send(pair.wqe(inline=b"x", req_id=req_id))
    pair.rx.post(pair.sink(0, 8), req_id=30)
    pair.a.names()
    pair.tx.ring(9)
    assert pair.a.device.objects.qps.get(0).sq.produced == 3
    assert pair.state() == State.ERR
    assert pair.rx.query().qp_state == State.RTS
    assert [v["cause"] for n, v in pair.a.events if n == "qperr"] == [1]
    assert pair.statuses() == [BEYOND]
    assert pair.cq.results() == [(n, Comp.FLUSHED, SEND) for n in range(3)]
    assert pair.rcq.results() == []


@pytest.mark.parametrize("value", [2, 0, 0xFFFF, 0x8000, 9])
def test_a_send_doorbell_may_only_move_ahead_within_the_free_space(value):
    pair = Quiet()
    pair.tx.sent = 3
    for number in range(3):
        pair.tx.store(pair.wqe(inline=b"x"), number)
    pair.tx.ring()
    assert pair.state() == State.RTS
    pair.tx.ring(value)
    assert pair.state() == State.ERR


def test_each_completion_frees_a_slot_in_any_order():
    pair = Quiet(sq_depth=4)
    for _ in range(4):
        pair.tx.send(pair.wqe(inline=b"x"))
    pair.packets.reverse()
    pair.acknowledge()
    pair.tx.send(pair.wqe(inline=b"x"))
    assert pair.state() == State.RTS
    pair.tx.send(pair.wqe(inline=b"x"))
    assert pair.state() == State.ERR


@pytest.mark.parametrize("depth", [0, 4])
def test_a_receive_doorbell_beyond_the_ring(depth):
    pair = Quiet(rq_depth=depth)
    pair.tx.ring_rq(depth)
    assert pair.state() == State.RTS
    pair.a.names()
    pair.tx.ring_rq(depth + 1)
    assert pair.causes() == [2]
    assert pair.state() == State.ERR


def test_an_unchanged_count_and_upper_bits_mean_nothing():
    pair = Quiet()
    pair.tx.send(pair.wqe(inline=b"x"))
    pair.a.doorbell(pair.tx.response.sq_db_offset, 0xFFFF0001)
    pair.tx.ring_rq(0)
    assert (len(pair.packets), pair.state()) == (1, State.RTS)


@pytest.mark.parametrize("queue", ["sq", "rq", "cq"])
def test_doorbells_through_a_foreign_page_or_of_dead_numbers_change_nothing(queue):
    pair = Quiet()
    pair.a.uar()
    page = pair.a.device.limits.db_page_bytes
    offset = {
        "sq": pair.tx.response.sq_db_offset, "rq": pair.tx.response.rq_db_offset,
        "cq": pair.cq.doorbell,
    }[queue]  # fmt: skip
    before = pair.a.device.snapshot()
    pair.a.names()
    dead = offset + (4 * 60 if queue == "cq" else 8 * 60)
    for place in (offset + page, offset + 5 * page, dead, 0x7FFC, page - 4):
        pair.a.doorbell(place, 1)
    assert pair.statuses() == [FOREIGN] * 5
    assert pair.a.device.snapshot() == before


def test_partial_doorbells_are_ignored():
    pair = Quiet()
    pair.tx.store(pair.wqe(inline=b"x"))
    pair.a.device.store(4, pair.tx.response.sq_db_offset, b"\1\0")
    pair.a.device.store(4, pair.tx.response.sq_db_offset + 1, b"\0\0\0")
    assert pair.packets == []
    pair.tx.ring(1)
    assert len(pair.packets) == 1


def test_doorbells_wait_for_the_state_that_takes_them():
    pair = Quiet()
    qp = pair.tx.modify(State.RESET)
    pair.a.names()
    qp.ring(1)
    qp.ring_rq(1)
    assert pair.statuses() == [WRONG_STATE] * 2
    qp.modify(State.INIT, qkey=1)
    qp.send(pair.wqe(inline=b"a"))
    qp.modify(State.RTR)
    qp.send(pair.wqe(inline=b"b"))
    assert pair.packets == []
    qp.modify(State.RTS, sq_psn=0)
    assert [packet[32:] for packet in pair.packets] == [b"a", b"b"]


# States.


def test_in_sqd_taken_sends_finish_and_others_wait():
    pair = Quiet()
    pair.tx.send(pair.wqe(inline=b"a"))
    pair.tx.modify(State.SQD)
    pair.tx.send(pair.wqe(inline=b"b"))
    assert (len(pair.packets), pair.tx.query().sq_draining) == (1, 1)
    pair.acknowledge()
    assert pair.tx.query().sq_draining == 0
    assert len(pair.cq.results()) == 1
    pair.tx.modify(State.RTS)
    assert pair.packets[0][32:] == b"b"
    assert pair.tx.query().sq_draining == 0


def test_err_flushes_sends_then_receives_in_posting_order():
    pair = Pair(SRD)
    pair.a.device.on_packet = None
    cq, tx = pair.cq, pair.tx
    for req_id in (5, 3):
        tx.send(pair.wqe(inline=b"x", req_id=req_id))
    tx.modify(State.SQD)
    for req_id in (9, 1):
        tx.send(pair.wqe(inline=b"x", req_id=req_id))
    for req_id in (7, 2):
        tx.post(pair.sink(0, 8), pair.sink(8, 8), req_id=req_id)
    tx.post(pair.sink(0, 8), req_id=6, last=False)
    tx.modify(State.ERR)
    expected = [(n, Comp.FLUSHED, SEND) for n in (5, 3, 9, 1)]
    expected += [(n, Comp.FLUSHED, RECV) for n in (7, 2)]
    assert cq.results() == expected
    tx.modify(State.ERR)
    assert cq.results() == []


@pytest.mark.parametrize("held", [State.RTS, State.SQD])
def test_a_broken_qp_is_taken_out_with_the_state_its_driver_holds(held):
    pair = Quiet()
    if held == State.SQD:
        pair.tx.modify(State.SQD)
    pair.tx.ring(9)
    pair.tx.send(pair.wqe(inline=b"x", req_id=4))
    assert pair.state() == State.ERR
    assert pair.cq.results() == [(4, Comp.FLUSHED, SEND)]
    pair.tx.modify(State.ERR, cur_qp_state=held)
    assert (pair.state(), pair.cq.results()) == (State.ERR, [])
    pair.tx.modify(State.RESET, cur_qp_state=held).to(State.RTS)
    pair.tx.send(pair.wqe(inline=b"again"))
    assert pair.packets[0][32:] == b"again"


def test_in_err_later_doorbells_flush():
    pair = Quiet()
    pair.tx.modify(State.ERR)
    pair.tx.send(pair.wqe(inline=b"x", req_id=4, first=0))
    pair.tx.post(pair.sink(0, 8), req_id=5, last=False)
    assert pair.cq.results() == [(4, Comp.FLUSHED, SEND)]
    pair.tx.post(pair.sink(0, 8), req_id=6)
    assert pair.cq.results() == [(5, Comp.FLUSHED, RECV)]
    pair.tx.ring(pair.tx.sent + 1)
    assert pair.cq.results() == [(0, Comp.FLUSHED, SEND)]
    assert pair.packets == []


def test_flushed_entries_are_zero_behind_the_qp_number():
    pair = Quiet()
    pair.tx.send(pair.wqe(inline=b"x", req_id=0x1234, imm=5))
    pair.tx.modify(State.ERR)
    [entry] = pair.cq.poll()
    assert entry.pack()[4:] == pair.tx.number.to_bytes(12, "little")
    assert (entry.common.op_type, entry.common.has_imm) == (0, 0)


@pytest.mark.parametrize("how", ["reset", "destroy"])
def test_reset_and_destroy_complete_nothing_and_clear_acknowledgements(how):
    pair = Quiet()
    for _ in range(2):
        pair.tx.send(pair.wqe(inline=b"x"))
        pair.tx.post(pair.sink(0, 8))
    if how == "reset":
        pair.tx.modify(State.RESET)
    else:
        pair.tx.destroy()
    pair.acknowledge(2)
    assert pair.cq.results() == []


def test_after_reset_counters_start_at_zero_and_the_llq_is_unwritten():
    pair = Quiet()
    pair.tx.send(pair.wqe(inline=b"x"))
    pair.tx.store(pair.wqe(inline=b"old"), 0)
    pair.tx.modify(State.RESET).to(State.RTS)
    pair.a.names()
    pair.tx.ring(1)
    assert pair.causes() == [3]
    assert pair.cq.results() == [(0, BAD_WQE, SEND)]


# LLQ memory.


@pytest.mark.parametrize("wqe_bytes", [64, 128])
def test_a_wqe_may_arrive_in_any_pieces_in_any_order(wqe_bytes):
    rng = random.Random(wqe_bytes)
    pair = Quiet(wqe_bytes=wqe_bytes)
    image = pair.wqe(inline=bytes(range(30)))
    for _ in range(20):
        cuts = [0, *sorted(rng.sample(range(4, wqe_bytes, 4), 5)), wqe_bytes]
        pieces = [(a, b) for a, b in zip(cuts, cuts[1:], strict=False)]
        pieces += rng.sample(pieces, 2)
        rng.shuffle(pieces)
        for start, stop in pieces:
            pair.a.device.store(2, pair.tx.slot() + start, image[start:stop])
        pair.tx.sent += 1
        pair.tx.ring()
        assert pair.packets[0][32:] == bytes(range(30))
        pair.acknowledge()


@pytest.mark.parametrize("missing", [*range(0, 128, 20), 124])
def test_an_incomplete_wqe_sends_nothing_and_earlier_wqes_continue(missing):
    pair = Quiet(UD, wqe_bytes=128)
    for number in range(3):
        image = pair.wqe(inline=b"x", req_id=number + 5)
        if number == 1:
            pair.a.device.store(2, pair.tx.slot(1), image[:missing])
            pair.a.device.store(2, pair.tx.slot(1) + missing + 4, image[missing + 4 :])
        else:
            pair.tx.store(image, number)
    pair.a.names()
    pair.tx.ring(3)
    assert pair.causes() == [3]
    assert len(pair.packets) == 1
    incomplete = 0 if missing == 0 else 6
    assert pair.cq.results() == [
        (5, Comp.OK, SEND), (incomplete, BAD_WQE, SEND), (7, Comp.FLUSHED, SEND),
    ]  # fmt: skip


def test_a_taken_slot_must_be_written_again():
    pair = Quiet(UD, sq_depth=2)
    for _ in range(2):
        pair.tx.send(pair.wqe(inline=b"x"))
    pair.tx.ring(3)
    assert pair.state() == State.ERR


def test_a_store_to_a_posted_slot_is_not_taken_in():
    pair = Quiet()
    pair.tx.modify(State.SQD)
    pair.tx.send(pair.wqe(inline=b"x", req_id=7))
    pair.a.names()
    pair.tx.store(pair.wqe(inline=b"y", req_id=8), 1)
    pair.a.device.store(2, pair.tx.slot(0) + 61, b"ab")
    assert pair.causes() == []
    pair.a.device.store(2, pair.tx.slot(0), pair.wqe(inline=b"y", req_id=9)[:4])
    assert pair.causes() == [4]
    assert pair.cq.results() == [(7, Comp.FLUSHED, SEND)]


def test_partial_dwords_are_not_taken():
    pair = Quiet()
    image = pair.wqe(inline=b"x")
    pair.a.names()
    pair.a.device.store(2, pair.tx.slot(), image[:61])
    pair.a.device.store(2, pair.tx.slot() + 61, image[61:])
    assert [event["status"] for event in pair.a.names("llq")] == [3, 3]
    pair.tx.ring(1)
    assert pair.state() == State.ERR


def test_stores_to_pages_without_owner_are_dropped():
    pair = Quiet(sq_depth=8)
    before = pair.a.device.snapshot()
    pair.a.names()
    for offset in (pair.tx.llq + 8 * 64, 0x10000, 0x1FFFC0, 0x200000, 1 << 31):
        pair.a.device.store(2, offset, bytes(64))
    assert [event["status"] for event in pair.a.names("llq")] == [1] * 5
    assert pair.a.device.snapshot() == before


# Wraps.


@pytest.mark.parametrize("kind", [SRD, UD])
@pytest.mark.parametrize(("sq_depth", "rq_depth", "buffers"), [(4, 8, 2), (1, 1, 1), (16, 2, 2)])
def test_all_queue_counters_wrap_at_16_bits(kind, sq_depth, rq_depth, buffers):
    pair = Pair(kind, sq_depth=sq_depth, rq_depth=rq_depth, cq_depth=4)
    start = 0x10000 - 16
    for qp in (pair.a.device.objects.qps.get(0), pair.a.device.objects.qps.get(1)):
        for ring in (qp.sq, qp.rq):
            ring.produced = ring.consumed = ring.completed = start
    pair.tx.sent = pair.rx.posted = start
    for number in range(40):
        sinks = [pair.sink(100 * b, 50) for b in range(buffers)]
        pair.rx.post(*sinks, req_id=number)
        pair.send(inline=bytes([number]), req_id=number)
        assert pair.cq.results() == [(number, Comp.OK, SEND)]
        assert pair.rcq.results() == [(number, Comp.OK, RECV)]
    assert pair.a.device.objects.qps.get(0).sq.produced == 24
    assert pair.a.device.objects.qps.get(1).rq.completed == (40 * buffers - 16) & 0xFFFF


@pytest.mark.parametrize("entry_words", [4, 8])
@pytest.mark.parametrize("depth", [1, 2, 8])
def test_completions_wrap_with_their_phase(entry_words, depth):
    pair = Pair(UD, entry_words=entry_words, cq_depth=depth)
    for number in range(3 * depth + 1):
        pair.tx.send(pair.wqe(inline=b"x", req_id=number))
        assert pair.cq.results() == [(number, Comp.OK, SEND)]


def test_a_send_entry_of_32_bytes_is_zero_behind_its_first_half():
    pair = Pair(UD, entry_words=8)
    pair.a.memory.write(pair.cq.base, b"\xfe" * 32)
    pair.a.writes.clear()
    pair.tx.send(pair.wqe(inline=b"x"))
    [(address, data)] = pair.a.writes
    assert (address, len(data)) == (pair.cq.base, 32)
    assert data[6:] == bytes(26)


def test_an_overflowing_cq_is_overwritten_and_reported():
    pair = Pair(UD, cq_depth=2)
    for number in range(3):
        pair.tx.send(pair.wqe(inline=b"x", req_id=number))
    assert [event["overflow"] for event in pair.a.names("cqe")] == [0, 0, 1]
    raw = pair.a.memory.read(pair.cq.base, 2)
    assert raw == b"\2\0"


def test_sub_cqs_part_sends_from_receives():
    pair = Pair(SRD, profile="recorded", cq_depth=4)
    one = pair.a.qp(pair.pd, pair.uar, pair.cq).to(State.RTS)
    for number in range(10):
        one.post(pair.sink(0, 64), req_id=number)
        one.send(wqe(one.number, pair.ah, inline=b"x", req_id=100 + number))
        pair.fabric.run()
        assert pair.cq.results(0) == [(100 + number, Comp.OK, SEND)]
        assert pair.cq.results(1) == [(number, Comp.OK, RECV)]


def test_work_held_without_bus_mastering_follows_in_order():
    pair = Pair(SRD)
    pair.a.device.set_bus_master(False)
    pair.rx.post(pair.sink(0, 64))
    pair.tx.send(pair.wqe(inline=b"x"))
    pair.fabric.run()
    assert pair.cq.results() == []
    pair.a.device.set_bus_master(True)
    pair.fabric.run()
    assert pair.status() == Comp.OK


def test_a_reset_in_the_middle_of_traffic_leaves_nothing():
    pair = Quiet()
    pair.tx.send(pair.wqe(inline=b"x"))
    pair.tx.post(pair.sink(0, 8))
    pair.a.reg(Reg.DEV_CTL, 1)
    pair.a.writes.clear()
    pair.acknowledge()
    pair.tx.ring(2)
    pair.a.device.store(2, pair.tx.llq, bytes(64))
    pair.a.reg(Reg.DEV_CTL, 0)
    pair.tx.ring(2)
    assert pair.a.writes == []
    fresh = Host(up=False).device
    assert pair.a.device.snapshot()["objects"] == fresh.snapshot()["objects"]
    assert pair.a.device.snapshot()["datapath"] == fresh.snapshot()["datapath"]


def test_no_store_through_one_uar_changes_a_queue_of_another():
    rng = random.Random(11)
    host = Host()
    pd, mine, other = host.pd(), host.uar(), host.uar()
    cq = host.cq(mine)
    victim = host.qp(pd, mine, cq).to(State.RTS)
    victim.store(wqe(0, 0, inline=b"x"))
    attacker = host.qp(pd, other, host.cq(other)).to(State.RTS)
    page, llq_page = host.device.limits.db_page_bytes, host.device.limits.llq_page_bytes

    def victims():
        state = host.device.snapshot()
        objects = state["objects"]
        return objects["qps"]["live"][0], objects["cqs"]["live"][0], state["datapath"]["llq"][
            victim.llq : victim.llq + 512
        ]

    before = victims()
    for _ in range(3000):
        data = rng.randbytes(rng.choice([4, 8, 12, 64]))
        if rng.random() < 0.5:
            start = other * page + rng.randrange(0, page, 4)
            host.device.store(4, start, data[: other * page + page - start])
        else:
            host.device.store(2, attacker.llq + rng.randrange(0, llq_page - 63, 4), data)
    assert victims() == before
    assert host.command(Opcode.QUERY_QP, qp_handle=victim.handle).qp_state == State.RTS
