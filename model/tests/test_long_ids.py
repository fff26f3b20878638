# SPDX-License-Identifier: Apache-2.0
"""Tests 64-bit request ids: the QPs that can use them, and that each completion returns all bits.
"""

import numpy as np
import pytest
from rig import SRD, UD, Comp, Host, Opcode, Pair, State, Status, wqe
from test_verbs import pair as sides

from efa_cosim.device.completion import Completions
from efa_cosim.host.completion_queue import VerbsError
from efa_cosim.host.work_queue import WorkQueue
from efa_cosim.layouts import defs

ILLEGAL = Status.ILLEGAL_PARAMETER
ID = 0xFEDC_BA98_7654_3210
SHORT = {"cq_values": {"sq_comp_64_bit_req_id": 1}}
LONG = SHORT | {"sq_64_bit_req_id": 1}
KINDS = pytest.mark.parametrize("kind", [SRD, UD], ids=["srd", "ud"])
PLACES = pytest.mark.parametrize("limits", [{}, {"sq_host": 1}], ids=["llq", "host"])
WIDTHS = pytest.mark.parametrize("entry_words", [4, 8])


def words(number):
    """Returns the upper three words of an id."""
    return [number >> at & 0xFFFF for at in (16, 32, 48)]


def named(number):
    """Returns the WQE fields that carry this id."""
    upper = defs.IoReqIdEx(w=words(number))
    return {"inline": b"x", "req_id": number & 0xFFFF, "req_id_ex": upper}


def entry(pair, number=ID, **values):
    """Returns a send WQE with this id."""
    made = {"size": pair.tx.wqe_bytes, "ah": pair.ah, **named(number), **values}
    return wqe(pair.rx.number, **made)


def ends(pair):
    """Returns (id, status) of new send completions; all bytes after the id are zero."""
    [sub] = pair.cq.subs
    found = []
    for raw in sub.poll():
        assert len(raw) == pair.cq.entry_bytes and not any(raw[12:])
        one = defs.IoTxCdesc.unpack(raw)
        if one.common.q_type == defs.IoQueueType.SEND_QUEUE:
            upper = int.from_bytes(one.req_id_ex.pack(), "little")
            found.append((upper << 16 | one.common.req_id, one.common.status))
    return found


@PLACES
@WIDTHS
@KINDS
def test_all_64_bits_come_back_whatever_became_of_the_send(kind, entry_words, limits):
    pair = Pair(kind, entry_words=entry_words, limits=limits, sq_depth=16, **LONG)
    pair.rx.post(pair.sink(0, 64))
    pair.tx.send(entry(pair))
    pair.fabric.run()
    # Receive completions do not change: they carry the length where send completions carry the id.
    assert [status for _, status, _ in pair.rcq.results()] == [Comp.OK]
    assert ends(pair) == [(ID, Comp.OK)]
    pair.tx.send(entry(pair, ID + 1, ah=99))
    pair.tx.send(entry(pair, ID + 2, op_type=3))
    pair.tx.send(entry(pair, ID + 3, meta_desc=0))
    assert ends(pair) == [
        (ID + 1, Comp.LOCAL_ERROR_INVALID_AH), (ID + 2, Comp.LOCAL_ERROR_UNSUPPORTED_OP),
        (ID + 3, Comp.LOCAL_ERROR_QP_INTERNAL_ERROR),
    ]  # fmt: skip
    if kind == SRD:
        pair.send(**named(ID + 4))
        assert ends(pair) == [(ID + 4, Comp.REMOTE_ERROR_RNR)]
        # In flight when its queue enters ERR.
        pair.tx.send(entry(pair, ID + 5))
    pair.tx.modify(State.ERR)
    pair.tx.send(entry(pair, ID + 6))
    flushed = [ID + 5, ID + 6] if kind == SRD else [ID + 6]
    assert ends(pair) == [(number, Comp.FLUSHED) for number in flushed]


@pytest.mark.parametrize("state", [State.RTS, State.ERR], ids=["refused", "flushed"])
@pytest.mark.parametrize(
    ("missing", "left"),
    [(0, ~0xFFFF), (6, ~0xFFFF_0000), (7, 0xFFFF_FFFF), (9, ~0)],
)  # fmt: skip
def test_unwritten_dwords_of_an_id_count_as_0(missing, left, state):
    pair = Pair(UD, **LONG)
    if state == State.ERR:
        pair.tx.modify(state)
    image = entry(pair)
    for dword in range(16):
        if dword != missing:
            at = 4 * dword
            pair.a.device.store(2, pair.tx.slot() + at, image[at : at + 4])
    pair.tx.ring(1)
    status = Comp.FLUSHED if state == State.ERR else Comp.LOCAL_ERROR_QP_INTERNAL_ERROR
    assert ends(pair) == [(ID & left, status)]


@PLACES
@KINDS
@pytest.mark.parametrize("options", [{}, SHORT], ids=["short cq", "long cq"])
def test_a_qp_without_the_flag_shows_16_bits(kind, options, limits):
    pair = Pair(kind, limits=limits, **options)
    pair.send(**named(ID))
    pair.tx.send(entry(pair, ah=99))
    pair.tx.modify(State.ERR)
    pair.tx.send(entry(pair))
    sent = Comp.REMOTE_ERROR_RNR if kind == SRD else Comp.OK
    statuses = [sent, Comp.LOCAL_ERROR_INVALID_AH, Comp.FLUSHED]
    assert ends(pair) == [(ID & 0xFFFF, status) for status in statuses]


def test_a_wqe_that_was_not_read_has_no_id():
    pair = Pair(UD, limits={"sq_host": 1}, **LONG)
    pair.a.memory.fail(pair.tx.sq_base, 1)
    pair.tx.send(entry(pair), ring=False)
    pair.tx.send(entry(pair, ID + 1))
    assert ends(pair) == [(0, Comp.FLUSHED), (ID + 1, Comp.FLUSHED)]


def test_64_bit_ids_need_a_send_cq_with_wide_entries():
    host = Host()
    pd, uar = host.pd(), host.uar()
    short, long = host.cq(uar), host.cq(uar, sq_comp_64_bit_req_id=1)
    wide = host.cq(uar, entry_words=8, sq_comp_64_bit_req_id=1)
    good = {
        "pd": pd, "uar": uar, "qp_type": SRD, "qp_alloc_size.send_queue_ring_size": 512,
        "qp_alloc_size.send_queue_depth": 8, "sq_64_bit_req_id": 1,
    }  # fmt: skip
    numbers = {"send_cq_idx": short.number, "recv_cq_idx": long.number}
    assert host.refusal(Opcode.CREATE_QP, **good, **numbers) == ILLEGAL
    for cq in (long, wide):
        numbers = {"send_cq_idx": cq.number, "recv_cq_idx": short.number}
        host.command(Opcode.CREATE_QP, **good, **numbers)


def test_the_recorded_profile_supports_16_bit_ids_only():
    host = Host(profile="recorded")
    pd, uar = host.pd(), host.uar()
    values = {
        "cq_entry_size_words": 4, "sub_cq_depth": 16, "num_sub_cqs": 2, "uar": uar,
        "cq_ba.mem_addr_low": 0x1000,
    }  # fmt: skip
    refused = host.refusal(Opcode.CREATE_CQ, sq_comp_64_bit_req_id=1, **values)
    assert refused == ILLEGAL
    cq = host.cq(uar)
    assert host.refusal(
        Opcode.CREATE_QP, pd=pd, uar=uar, qp_type=SRD, sq_64_bit_req_id=1,
        send_cq_idx=cq.number, recv_cq_idx=cq.number,
        **{"qp_alloc_size.send_queue_ring_size": 512, "qp_alloc_size.send_queue_depth": 8},
    ) == ILLEGAL  # fmt: skip


# The host's side.


@pytest.mark.parametrize("profile", [*defs.PROFILES])
def test_the_library_requests_long_ids_where_there_are_some(profile):
    a, b = sides(profile)
    known = profile != "recorded"
    b.qp.post_recv_many(range(3), b.buffer.addr, 64, b.buffer.l_key)
    ids = []
    take = a.qp.sq.take
    a.qp.sq.take = lambda wr_ids: ids.append(take(wr_ids)) or ids[-1]
    a.qp.post_send_many(range(3), inline=b"x", **a.to)
    done = a.cq.wait_for(3)
    assert sorted(done["wr_id"].tolist()) == [0, 1, 2]
    assert bool((ids[0] >> np.uint64(16)).any()) == known


def test_a_device_that_drops_upper_bits_is_found(monkeypatch):
    """Plants a bug: FLUSHED completions carry only 16 bits."""
    send = Completions.send

    def short(self, qp, req_id, status, op):
        send(self, qp, req_id & 0xFFFF if status == Comp.FLUSHED else req_id, status, op)

    monkeypatch.setattr(Completions, "send", short)
    a, _ = sides()
    for state in (State.SQD, State.ERR):
        a.qp.modify(state)
        if state == State.SQD:
            a.qp.post_send_many([7, 8], inline=b"x", **a.to)
    a.backend.settle()
    with pytest.raises(VerbsError, match="no outstanding work request"):
        a.cq.poll()


def test_ids_are_known_in_all_their_bits():
    queue = WorkQueue(8, 3, long_ids=True)
    ids = np.concatenate([queue.take(np.arange(3)), queue.take(np.arange(3, 8))])
    assert len(set((ids >> np.uint64(16)).tolist())) == 8
    assert queue.owns(ids).all()
    for bit in range(64):
        assert not queue.owns(ids ^ np.uint64(1 << bit)).any()
    assert queue.complete(ids[::-1]).tolist() == list(range(7, -1, -1))
    assert not queue.owns(ids).any()
    assert not np.isin(queue.take(np.arange(8)), ids).any()
