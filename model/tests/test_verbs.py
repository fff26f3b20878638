# SPDX-License-Identifier: Apache-2.0
"""Tests the provider side on two reference models joined by a fabric, with every store buffer."""

from dataclasses import replace

import numpy as np
import pytest

from efa_cosim.backends import open_backend
from efa_cosim.boundary.backend import DeviceTimeout
from efa_cosim.host.admin_queue import DriverError
from efa_cosim.host.completion_counter import RECEIVES, SENDS
from efa_cosim.host.completion_queue import VerbsError, round_up_pow2
from efa_cosim.host.driver import Driver
from efa_cosim.host.driver_objects import Access
from efa_cosim.host.queue_pair import RdmaWr, SendWr, Sge
from efa_cosim.host.verbs import Context, gid_of
from efa_cosim.host.wc import POLICIES
from efa_cosim.layouts import defs

UD, SRD = defs.AdminQpType.UD, defs.AdminQpType.SRD
Status = defs.IoCompStatus
State = defs.AdminQpState
QKEY = 0x1234
GRH = defs.LIMITS.grh_bytes


class Side:
    """One process on one node: all objects needed to send and to receive."""

    def __init__(self, backend, buffer="ideal", kind=SRD, depth=64, entry_bytes=32, events=False,
                 seed=1, **qp_options):
        self.backend = backend
        self.driver = Driver(backend, seed=seed).probe()
        self.context = Context(self.driver, buffer, seed)
        self.pd = self.context.alloc_pd()
        self.cq = self.context.create_cq(4 * depth, entry_bytes=entry_bytes, events=events)
        self.qp = self.pd.create_qp(self.cq, self.cq, kind, max_send_wr=depth, max_recv_wr=depth,
                                    **qp_options).to_rts(QKEY)
        self.buffer = self.pd.reg_mr(1 << 18, scattered=True)

    def towards(self, peer):
        self.ah = self.pd.create_ah(gid_of(peer.backend.node_id))
        self.to = {"ah": self.ah.number, "dest_qp": peer.qp.number, "qkey": QKEY}
        return self

    def sge(self, offset, length):
        return Sge(self.buffer.addr + offset, length, self.buffer.l_key)

    def close(self):
        self.ah.destroy()
        self.qp.destroy()
        self.cq.destroy()
        self.buffer.dereg()
        self.pd.dealloc()
        self.context.close()
        self.driver.remove()
        assert len(self.driver.allocator._live) == 1


def pair(profile="default", **options):
    """Returns two connected sides."""
    left, right = (Side(backend, seed=n, **options)
                   for n, backend in enumerate(open_backend("model", nodes=2, profile=profile)))
    return left.towards(right), right.towards(left)


def pattern(size, seed=0):
    return np.random.default_rng(seed).integers(0, 256, size, "u1").tobytes()


@pytest.mark.parametrize("profile", ["default", "recorded"])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", [UD, SRD])
def test_ping_pong_arrives_byte_for_byte(kind, policy, profile):
    sides = pair(profile, buffer=policy, kind=kind)
    skip = GRH if kind == UD else 0
    for turn, size in enumerate([1, 63, 64, 500, 4096, 8, 33, 4000]):
        a, b = sides[turn % 2], sides[1 - turn % 2]
        data = pattern(size, turn)
        a.buffer.write(7, data)
        b.qp.post_recv([b.sge(10_001, skip + size)], wr_id=turn)
        a.qp.post_send(SendWr(**a.to, sges=[a.sge(7, size)], wr_id=turn + 100, imm=turn or None))
        got, sent = b.cq.wait_for(1)[0], a.cq.wait_for(1)[0]
        assert (got["wr_id"], got["status"], got["byte_len"]) == (turn, Status.OK, skip + size)
        assert (got["src_qp"], got["ah"]) == (a.qp.number, b.ah.number)
        assert (got["has_imm"], got["imm"]) == (turn > 0, turn)
        assert (sent["wr_id"], sent["status"], sent["receive"]) == (turn + 100, Status.OK, False)
        assert b.buffer.read(10_001 + skip, size) == data
    for side in sides:
        side.close()


@pytest.mark.parametrize(("max_inline", "size"), [(32, 1), (32, 32), (80, 80), (80, 5)])
def test_inline_sends_of_both_wqe_sizes(max_inline, size):
    a, b = pair(max_inline=max_inline)
    data = pattern(size)
    b.qp.post_recv([b.sge(0, size)])
    a.qp.post_send(SendWr(**a.to, inline=data))
    assert b.cq.wait_for(1)["status"][0] == Status.OK
    assert b.buffer.read(0, size) == data


def test_gather_of_two_and_scatter_over_two():
    a, b = pair(max_recv_sge=2)
    data = pattern(5000)[:4000]
    a.buffer.write(100, data[:1500])
    a.buffer.write(9000, data[1500:])
    b.qp.post_recv([b.sge(3, 700), b.sge(20_000, 5000)])
    a.qp.post_send(SendWr(**a.to, sges=[a.sge(100, 1500), a.sge(9000, 2500)]))
    assert b.cq.wait_for(1)["byte_len"][0] == 4000
    assert b.buffer.read(3, 700) + b.buffer.read(20_000, 3300) == data


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("depth", [4, 64])
@pytest.mark.parametrize("max_inline", [32, 80])
def test_batches_wrap_every_ring_many_times(depth, max_inline, policy):
    a, b = pair(depth=depth, max_inline=max_inline, buffer=policy)
    size, wraps = 16, 16
    sent = 0
    for wrap in range(wraps):
        count = max(1, (wrap * 7) % depth)
        rows = np.frombuffer(pattern(count * size, wrap), "u1").reshape(count, size)
        ids = np.arange(sent, sent + count)
        b.qp.post_recv_many(ids, b.buffer.addr + np.arange(count) * size, size, b.buffer.l_key)
        a.qp.post_send_many(ids, inline=rows, imm=ids, **a.to)
        done, got = a.cq.wait_for(count), b.cq.wait_for(count)
        assert sorted(done["wr_id"]) == list(ids)
        assert list(got["wr_id"]) == list(got["imm"]) == list(ids)
        assert not done["status"].any()
        assert b.buffer.read(0, count * size) == rows.tobytes()
        sent += count
    assert sent > 4 * depth
    assert a.qp.sq.space == depth


def test_counters_wrap_at_16_bits():
    a, b = pair(depth=1024)
    sent = 0
    while sent < 0x10000 + 2048:
        ids = np.arange(sent, sent + 1024)
        b.qp.post_recv_many(ids, b.buffer.addr, 64, b.buffer.l_key)
        a.qp.post_send_many(ids, sges=[(a.buffer.addr, 8, a.buffer.l_key)], **a.to)
        assert not a.cq.wait_for(1024)["status"].any()
        assert list(b.cq.wait_for(1024)["wr_id"]) == list(ids)
        sent += 1024


def test_a_batch_beyond_max_tx_batch_rings_more_than_once():
    a, b = pair()
    posted = []
    stores = a.backend.stores
    a.backend.stores = lambda items: (posted.extend(
        int.from_bytes(data, "little") for bar, _, data in items if bar == a.driver.db_bar),
        stores(items))
    b.qp.post_recv_many(range(40), b.buffer.addr, 64, b.buffer.l_key)
    a.qp.post_send_many(range(40), inline=b"x", **a.to)
    assert posted[:3] == [16, 32, 40]


@pytest.mark.parametrize("entry_bytes", [16, 32])
def test_completion_events_wake_once_for_each_arm(entry_bytes):
    a, b = pair(events=True, entry_bytes=entry_bytes)
    b.qp.post_recv_many(range(3), b.buffer.addr, 64, b.buffer.l_key)
    b.cq.req_notify()
    with pytest.raises(DeviceTimeout):
        b.cq.get_event()
    a.qp.post_send(SendWr(**a.to, inline=b"one"))
    b.cq.get_event()
    assert len(b.cq.poll()) == 1
    a.qp.post_send(SendWr(**a.to, inline=b"two"))
    with pytest.raises(DeviceTimeout):
        b.cq.get_event()
    # Armed late: completions that are already in the CQ raise the event at once.
    b.cq.req_notify()
    b.cq.get_event()
    assert [c.byte_len for c in b.cq.poll()] == [3]
    assert not b.cq.poll()
    assert len(a.cq.poll()) == 2


@pytest.mark.parametrize(("profile", "retries"), [("basic", None), ("default", 0), ("default", 6)])
def test_a_send_without_a_receive_completes_rnr(profile, retries):
    a, b = pair(profile)
    if retries is not None:
        a.qp.modify(a.qp.state, rnr_retry=retries)
    a.qp.post_send(SendWr(**a.to, inline=b"early", wr_id=9))
    sent = a.cq.wait_for(1)[0]
    assert (sent["status"], sent["wr_id"]) == (Status.REMOTE_ERROR_RNR, 9)


def test_a_send_with_endless_retries_waits_for_its_receive():
    a, b = pair()
    for number, data in enumerate((b"first", b"other")):
        a.qp.post_send(SendWr(**a.to, inline=data, wr_id=number))
    with pytest.raises(DeviceTimeout):
        a.cq.wait_for(1)
    for number in range(2):
        b.qp.post_recv([b.sge(8 * number, 8)], wr_id=number)
    assert list(a.cq.wait_for(2)["status"]) == [Status.OK] * 2
    assert sorted(b.buffer.read(8 * number, 5) for number in range(2)) == [b"first", b"other"]


def test_a_waiting_send_leaves_again_for_a_receive_only():
    a, b = pair()
    for number in range(20):
        a.qp.post_send(SendWr(**a.to, inline=b"early", wr_id=number))
    a.backend.settle()
    left: list[bytes] = []
    a.backend.fabric.on_packet = left.append
    a.qp.post_send(SendWr(**a.to, inline=b"late", wr_id=20))
    a.backend.settle()
    assert len(left) == 2, "a send and its refusal"
    b.qp.post_recv([b.sge(0, 8)])
    b.backend.settle()
    assert a.cq.wait_for(1)[0]["status"] == Status.OK
    assert len(left) > 2 * 21


def test_a_waiting_send_ends_with_the_queue_pair_of_either_side():
    a, b = pair()
    a.qp.post_send(SendWr(**a.to, inline=b"early", wr_id=1))
    b.qp.destroy()
    assert a.cq.wait_for(1)[0]["status"] == Status.REMOTE_ERROR_BAD_DEST_QPN
    a, b = pair()
    a.qp.post_send(SendWr(**a.to, inline=b"early", wr_id=1))
    a.backend.settle()
    a.qp.modify(State.ERR)
    assert a.cq.wait_for(1)[0]["status"] == Status.FLUSHED
    b.qp.post_recv([b.sge(0, 64)])
    b.backend.settle()
    assert len(b.cq.poll(1)) == 0


def test_payload_of_a_waiting_send_is_read_when_it_leaves():
    a, b = pair()
    a.qp.post_send(SendWr(**a.to, sges=[a.sge(0, 8)], wr_id=1))
    a.backend.settle()
    a.buffer.write(0, b"changed!")
    b.qp.post_recv([b.sge(0, 64)])
    assert a.cq.wait_for(1)[0]["status"] == Status.OK
    assert b.buffer.read(0, 8) == b"changed!"
    a.qp.post_send(SendWr(**a.to, sges=[a.sge(0, 8)], wr_id=2))
    a.backend.settle()
    a.buffer.dereg()
    assert a.cq.wait_for(1)[0]["status"] == Status.LOCAL_ERROR_INVALID_LKEY


@pytest.mark.parametrize(("corrupt", "status"), [
    ({"dest_qp": 0x7F3F}, Status.REMOTE_ERROR_BAD_DEST_QPN),
    ({"qkey": QKEY + 1}, Status.REMOTE_ERROR_BAD_DEST_QPN),
    ({"ah": 200}, Status.LOCAL_ERROR_INVALID_AH)])
def test_bad_destinations_fail_that_send_alone(corrupt, status):
    a, b = pair()
    b.qp.post_recv_many(range(2), b.buffer.addr, 64, b.buffer.l_key)
    a.qp.post_send(SendWr(**{**a.to, **corrupt}, inline=b"lost"), SendWr(**a.to, inline=b"found"))
    assert list(a.cq.wait_for(2)["status"]) == [status, Status.OK]
    assert len(b.cq.wait_for(1)) == 1


def test_a_region_is_reachable_only_inside_its_bounds():
    a, b = pair()
    b.qp.post_recv([b.sge(0, 64)])
    beyond = Sge(a.buffer.addr + a.buffer.length - 4, 8, a.buffer.l_key)
    a.qp.post_send(SendWr(**a.to, sges=[beyond]))
    assert a.cq.wait_for(1)["status"][0] == Status.LOCAL_ERROR_INVALID_LKEY


def test_a_receive_needs_local_write():
    a, b = pair()
    read_only = b.pd.reg_mr(100, Access(local_write=False))
    b.qp.post_recv([Sge(read_only.addr, 100, read_only.l_key)])
    a.qp.post_send(SendWr(**a.to, inline=b"no"))
    assert a.cq.wait_for(1)["status"][0] == Status.REMOTE_ERROR_BAD_STATUS
    assert b.cq.wait_for(1)["status"][0] == Status.LOCAL_ERROR_INVALID_LKEY


def test_err_flushes_everything_and_reset_starts_again():
    a, b = pair()
    b.qp.post_recv_many(range(5), b.buffer.addr, 64, b.buffer.l_key)
    b.qp.modify(State.ERR)
    flushed = b.cq.wait_for(5)
    assert set(flushed["status"]) == {Status.FLUSHED}
    assert list(flushed["wr_id"]) == list(range(5))
    with pytest.raises(VerbsError, match="ERR"):
        b.qp.post_recv([b.sge(0, 8)])
    b.qp.modify(State.RESET)
    b.qp.to_rts(QKEY)
    b.qp.post_recv([b.sge(0, 64)])
    a.qp.post_send(SendWr(**a.to, inline=b"again"))
    assert b.cq.wait_for(1)["status"][0] == Status.OK
    assert b.qp.query().qp_state == State.RTS


def test_a_queue_pair_that_broke_unnoticed_starts_again():
    a, b = pair(depth=4)
    a.context.ring(a.qp.sq_db, 5)
    a.context.push()
    assert (a.qp.state, a.qp.query().qp_state) == (State.RTS, State.ERR)
    a.qp.modify(State.RESET)
    a.qp.to_rts(QKEY)
    b.qp.post_recv([b.sge(0, 64)])
    a.qp.post_send(SendWr(**a.to, inline=b"again"))
    assert a.cq.wait_for(1)["status"][0] == Status.OK


def test_the_phase_goes_on_over_a_reset():
    a, b = pair(depth=4)
    for _ in range(3):
        for wrap in range(2):
            b.qp.post_recv_many(range(3), b.buffer.addr, 64, b.buffer.l_key)
            a.qp.post_send_many(range(3), inline=bytes([wrap]), **a.to)
            assert not a.cq.wait_for(3)["status"].any()
            assert len(b.cq.wait_for(3)) == 3
        a.qp.modify(State.RESET)
        a.qp.to_rts(QKEY)


def test_more_than_the_ring_holds_is_refused_here():
    a, b = pair(depth=4)
    with pytest.raises(VerbsError, match="space for 4"):
        a.qp.post_send_many(range(5), inline=b"x", **a.to)
    with pytest.raises(VerbsError, match="inline"):
        a.qp.post_send(SendWr(**a.to, inline=bytes(33)))
    with pytest.raises(VerbsError, match="pieces"):
        a.qp.post_send(SendWr(**a.to, sges=[a.sge(0, 1)] * 3))
    with pytest.raises(VerbsError, match="pieces"):
        a.qp.post_recv([])
    fresh = a.pd.create_qp(a.cq, a.cq)
    with pytest.raises(VerbsError, match="cannot send"):
        fresh.post_send(SendWr(**a.to, inline=b"x"))


def test_a_completion_without_owner_is_reported_once_and_skipped():
    a, b = pair()
    b.qp.post_recv_many(range(3), b.buffer.addr, 64, b.buffer.l_key)
    a.qp.post_send_many(range(3), inline=b"x", **a.to)
    a.backend.settle()
    entry = defs.IoRxCdescEx
    second = b.cq.base + entry.SIZE
    image = entry.unpack(b.driver.memory.read(second, entry.SIZE))
    image.base.common.qp_num = 0x5555
    b.driver.memory.write(second, image.pack())
    assert [c.wr_id for c in b.cq.poll()] == [0]
    with pytest.raises(VerbsError, match="no outstanding work request"):
        b.cq.poll()
    assert [c.wr_id for c in b.cq.poll()] == [2]


def test_a_repeated_completion_has_no_owner():
    a, b = pair()
    b.qp.post_recv_many(range(2), b.buffer.addr, 64, b.buffer.l_key)
    a.qp.post_send_many(range(2), inline=b"x", **a.to)
    a.backend.settle()
    size = defs.IoRxCdescEx.SIZE
    first = b.driver.memory.read(b.cq.base, size)
    b.driver.memory.write(b.cq.base + size, first)
    assert [c.wr_id for c in b.cq.poll()] == [0]
    with pytest.raises(VerbsError, match="no outstanding work request"):
        b.cq.poll()


def test_objects_in_use_are_kept_by_the_device():
    a, b = pair()
    with pytest.raises(DriverError, match="RESOURCE_BUSY"):
        a.cq.destroy()
    with pytest.raises(DriverError, match="RESOURCE_BUSY"):
        a.pd.dealloc()
    with pytest.raises(DriverError, match="RESOURCE_BUSY"):
        a.context.close()


def test_events_need_an_event_queue():
    backend = open_backend("model")
    driver = Driver(backend, cpus=0).probe()
    with pytest.raises(VerbsError, match="no event queue"):
        Context(driver).create_cq(16, events=True)


@pytest.mark.parametrize(("value", "power"), [(1, 1), (2, 2), (3, 4), (64, 64), (65, 128)])
def test_depths_are_rounded_up(value, power):
    assert round_up_pow2(value) == power


@pytest.mark.parametrize("max_inline", [32, 80])
def test_rings_in_host_memory_are_given_back(max_inline):
    left, right = (
        Side(backend, seed=n, depth=8, max_inline=max_inline)
        for n, backend in enumerate(open_backend("model", nodes=2, limits={"sq_host": 1}))
    )
    left.towards(right)
    right.towards(left)
    live = len(left.driver.allocator._live)
    with pytest.raises(DriverError):
        left.pd.create_qp(left.cq, left.cq, SRD, ring_offset=32)
    assert len(left.driver.allocator._live) == live
    for turn in range(20):
        right.qp.post_recv([right.sge(0, 64)])
        left.qp.post_send(SendWr(**left.to, inline=bytes([turn]), wr_id=turn))
        assert left.cq.wait_for(1)[0]["wr_id"] == turn
        assert right.cq.wait_for(1)[0]["status"] == Status.OK
        assert right.buffer.read(0, 1) == bytes([turn])
    left.close()
    right.close()


def test_completion_counters_count_without_polling():
    left, right = pair()
    sends, receives = left.context.create_counter(), right.context.create_counter()
    sends.attach(left.qp, SENDS)
    receives.attach(right.qp, SENDS, RECEIVES)
    for turn in range(5):
        right.qp.post_recv([right.sge(0, 64)], wr_id=turn)
        left.qp.post_send(SendWr(**left.to, sges=[left.sge(0, 8)], wr_id=turn))
    left.driver.wait(lambda: sends.value == 5)
    assert (receives.value, receives.errors, sends.errors) == (5, 0, 0)
    left.qp.modify(left.qp.state, rnr_retry=0)
    left.qp.post_send(SendWr(**left.to, sges=[left.sge(0, 8)]))
    left.driver.wait(lambda: sends.errors == 1)
    sends.set(100)
    sends.add(5)
    sends.add(2, errors=True)
    assert (sends.value, sends.errors) == (105, 3)
    with pytest.raises(DriverError, match="RESOURCE_BUSY"):
        sends.destroy()
    sends.detach(left.qp, SENDS)
    sends.destroy()


def test_a_refused_counter_leaves_nothing_behind():
    left, _ = pair()
    counters = [left.context.create_counter() for _ in range(32)]
    live = len(left.driver.allocator._live)
    with pytest.raises(DriverError, match="RESOURCE_ALLOCATION_FAILURE"):
        left.context.create_counter()
    assert len(left.driver.allocator._live) == live
    for counter in counters:
        counter.destroy()


# RDMA.


EVERY_ACCESS = Access(local_write=True, remote_write=True, remote_read=True)


def rdma_pair(**options):
    """Returns two connected sides; `open_to_all` of each is memory that the peer may access."""
    sides = pair("recorded", **options)
    for side in sides:
        side.open_to_all = side.pd.reg_mr(1 << 18, EVERY_ACCESS, scattered=True)
    return sides


def rdma(a, b, length, at=0, to=0, **values):
    return RdmaWr(**a.to, remote_addr=b.open_to_all.addr + to, r_key=b.open_to_all.r_key,
                  sges=[a.sge(at, length)] if length else [], **values)


@pytest.mark.parametrize("length", [0, 1, 4097, 100_000])
def test_memory_of_a_peer_is_written_and_read(length):
    a, b = rdma_pair()
    data = pattern(length)
    a.buffer.write(3, data)
    a.qp.post_write(rdma(a, b, length, at=3, to=9, wr_id=7))
    a.qp.post_read(rdma(a, b, length, at=130_001, to=9, wr_id=8))
    done = a.cq.wait_for(2)
    assert [(int(one["wr_id"]), int(one["status"]), int(one["opcode"])) for one in done] == [
        (7, Status.OK, defs.IoSendOpType.RDMA_WRITE), (8, Status.OK, defs.IoSendOpType.RDMA_READ)]
    assert b.open_to_all.read(9, length) == data
    assert a.buffer.read(130_001, length) == data
    assert b.cq.poll() == []


@pytest.mark.parametrize("unsolicited", [False, True])
def test_a_write_with_immediate_completes_a_receive_of_the_peer(unsolicited):
    a, b = rdma_pair(unsolicited=unsolicited)
    b.qp.post_recv([b.sge(0, 8)], wr_id=33)
    a.qp.post_write(rdma(a, b, 70_000, imm=0x1234, wr_id=7))
    [sent] = a.cq.wait_for(1)
    [got] = b.cq.poll()
    assert (int(sent["status"]), got.status, got.wr_id) == (0, 0, 0 if unsolicited else 33)
    assert (got.byte_len, got.imm, got.src_qp, got.unsolicited) == (
        70_000, 0x1234, a.qp.number, unsolicited)
    assert got.opcode == defs.IoSendOpType.RDMA_WRITE
    assert b.qp.rq.outstanding == unsolicited


def test_unsolicited_and_consumed_receives_share_a_poll():
    a, b = rdma_pair(unsolicited=True)
    b.qp.post_recv([b.sge(0, 8)], wr_id=33)
    a.qp.post_write(rdma(a, b, 4, imm=1))
    a.qp.post_send(SendWr(**a.to, inline=b"x"))
    a.qp.post_write(rdma(a, b, 4, imm=2))
    a.cq.wait_for(3)
    assert [(one.wr_id, one.unsolicited, one.imm) for one in b.cq.poll()] == [
        (0, True, 1), (33, False, None), (0, True, 2)]


def test_inline_bytes_are_written_to_a_peer():
    a, b = rdma_pair(max_inline=80)
    request = rdma(a, b, 0, to=5)
    request.inline = b"inline bytes"
    a.qp.post_write(request)
    assert int(a.cq.wait_for(1)["status"][0]) == Status.OK
    assert b.open_to_all.read(5, 12) == b"inline bytes"


def test_wrong_rdma_requests_are_refused_here():
    a, b = rdma_pair()
    for call, change, text in (
            (a.qp.post_read, {"inline": b"x"}, "only a write can"),
            (a.qp.post_read, {"imm": 3}, "only a write can"),
            (a.qp.post_write, {"inline": b"x", "sges": []}, "needs WQEs of 128 bytes"),
            (a.qp.post_write, {"sges": [a.sge(0, 1)] * 2}, "at most 1"),
            (a.qp.post_write, {"remote_addr": -1}, "remote_addr is -1"),
            (a.qp.post_write, {"r_key": 1 << 32}, "r_key is 4294967296"),
            (a.qp.post_write, {"ah": "b"}, "address handle")):
        with pytest.raises(VerbsError, match=text):
            call(replace(rdma(a, b, 4), **change))
    assert a.qp.sq.outstanding == 0


def test_a_device_without_rdma_is_named():
    a, b = pair("basic")
    for call, text in ((a.qp.post_read, "RDMA READ"), (a.qp.post_write, "RDMA WRITE")):
        with pytest.raises(VerbsError, match=f"the device does not offer {text}: open it with"):
            call(RdmaWr(**a.to, remote_addr=0, r_key=b.buffer.r_key))
