# SPDX-License-Identifier: Apache-2.0
"""Runs the receive path: forms of receive WQEs, every refusal, unexpected packets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from efa_cosim.host.endpoints import QKEY, SRD, UD, Endpoint, Node, pattern
from efa_cosim.host.queue_pair import Sge
from efa_cosim.layouts import defs
from tb.scenarios.collisions import beyond_sq
from tb.scenarios.send import exchange

if TYPE_CHECKING:
    from random import Random

STATUS = defs.IoCompStatus
STATE = defs.AdminQpState


def two_buffers(backends: Sequence[Any], rng: Random) -> None:
    """Receives into two buffers with any split, exactly as long as the message or longer."""
    node = Node(backends[0])
    for kind in (UD, SRD):
        a, b = Endpoint(node, kind), Endpoint(node, kind, max_recv_sge=2)
        for turn in range(24):
            size = rng.choice((1, 30, 64, 100, 1000, 4096))
            space = size + rng.choice((0, 0, 200))
            offset, split = rng.randrange(5000), rng.randrange(space + b.skip + 1)
            b.receive(space, wr_id=turn, offset=offset, split=split)
            a.send(b, pattern(size, turn), wr_id=turn)
            done: Any = b.cq.wait_for(1)[0]
            assert (done["wr_id"], done["byte_len"]) == (turn, size + b.skip)
            assert b.buffer.read(offset + b.skip, size) == pattern(size, turn)
            a.cq.wait_for(1)


def direct_path_descriptors(backends: Sequence[Any], _rng: Random) -> None:
    """Sets req_id and `first` in every descriptor of a WQE, as libfabric does."""
    node = Node(backends[0])
    a, b = Endpoint(node), Endpoint(node, max_recv_sge=2)
    write = b.qp.post_descriptors

    def direct(descriptors: Any) -> None:
        descriptors["req_id"] = descriptors["req_id"][0]
        descriptors["lkey_ctrl"] |= 1 << 30
        write(descriptors)

    # Replaces the method on this object, to change the descriptors.
    b.qp.post_descriptors = direct  # type: ignore[method-assign]
    for turn in range(5):
        b.receive(500, wr_id=turn, split=100)
        a.send(b, pattern(500, turn), wr_id=turn)
        assert b.cq.wait_for(1)[0]["wr_id"] == turn
        a.cq.wait_for(1)


def refused_srd(backends: Sequence[Any], _rng: Random) -> None:
    """Provokes each refusal of a receiver and checks the sender's status; queues stay intact."""
    node = Node(backends[0])
    a, b, ud = Endpoint(node), Endpoint(node, max_recv_sge=2), Endpoint(node, UD)
    fresh = node.pd.create_qp(b.cq, b.cq, SRD)
    read_only = node.pd.reg_mr(4096, access=no_write())

    def status_of(**changes: Any) -> Any:
        a.qp.post_send_many([5], **{**a.towards(b), "inline": pattern(20, 1), **changes})
        backends[0].settle()
        return STATUS(int(a.cq.wait_for(1)[0]["status"]))

    bad_qpn = STATUS.REMOTE_ERROR_BAD_DEST_QPN
    assert status_of(dest_qp=0xFFF0) == bad_qpn
    assert status_of(dest_qp=b.qp.number + 64) == bad_qpn, "an old number"
    assert status_of(dest_qp=ud.qp.number) == bad_qpn
    assert status_of(dest_qp=fresh.number) == bad_qpn, "RESET"
    assert status_of(qkey=QKEY + 1) == bad_qpn
    assert status_of() == STATUS.REMOTE_ERROR_RNR
    b.receive(10, wr_id=1)
    assert status_of() == STATUS.REMOTE_ERROR_BAD_LENGTH
    assert status_of(inline=pattern(10, 1)) == STATUS.OK, "the receive WQE is still posted"
    b.cq.wait_for(1)
    b.qp.post_recv([key_of(read_only)], wr_id=2)
    assert status_of() == STATUS.REMOTE_ERROR_BAD_STATUS
    assert b.cq.wait_for(1)[0]["status"] == STATUS.LOCAL_ERROR_INVALID_LKEY
    foreign = node.context.alloc_pd().reg_mr(4096)
    b.qp.post_recv([key_of(foreign)], wr_id=2)
    assert status_of() == STATUS.REMOTE_ERROR_BAD_STATUS, "another protection domain"
    assert b.cq.wait_for(1)[0]["status"] == STATUS.LOCAL_ERROR_INVALID_LKEY
    b.receive(100, wr_id=3)
    assert status_of() == STATUS.OK
    b.cq.wait_for(1)
    descriptors = np.zeros(2, defs.IoRxDesc.DTYPE)
    descriptors["length"], descriptors["lkey_ctrl"] = 64, b.buffer.l_key
    descriptors["req_id"][0] = b.qp.rq.take(np.array([9]))[0]
    b.qp.post_descriptors(descriptors)
    assert status_of() == STATUS.REMOTE_ERROR_BAD_STATUS, "two descriptors and no last"
    assert b.cq.wait_for(1)[0]["status"] == STATUS.LOCAL_ERROR_QP_INTERNAL_ERROR
    assert b.qp.query().qp_state == STATE.ERR
    assert status_of() == bad_qpn, "in ERR"
    stats = node.driver.get_stats()
    assert stats.qkey_viol == 1 and stats.rx_drops == 11


def no_write() -> Any:
    from efa_cosim.host.driver_objects import Access

    return Access(local_write=False)


def key_of(region: Any) -> Any:
    from efa_cosim.host.queue_pair import Sge

    return Sge(region.addr, 64, region.l_key)


def dropped_ud(backends: Sequence[Any], _rng: Random) -> None:
    """Drops datagrams: the sender completes with OK, the receiver counts the drops."""
    node = Node(backends[0])
    a, b = Endpoint(node, UD), Endpoint(node, UD)
    for changes in ({"dest_qp": 0xFFF0}, {"qkey": 5}, {}):
        a.qp.post_send_many([1], **{**a.towards(b), "inline": b"nobody", **changes})
        assert a.cq.wait_for(1)[0]["status"] == STATUS.OK
        backends[0].settle()
    b.receive(2)
    a.send(b, b"too long", inline=True)
    a.cq.wait_for(1)
    backends[0].settle()
    assert node.driver.get_stats().rx_drops == 4
    a.send(b, b"ok", inline=True)
    assert b.cq.wait_for(1)[0]["byte_len"] == b.skip + 2
    a.cq.wait_for(1)


def unknown_peer(backends: Sequence[Any], _rng: Random) -> None:
    """Receives from a peer without AH: ah is 0xffff, and the CQE holds the GID on request."""
    first, second = (Node(backend, seed=n) for n, backend in enumerate(backends))
    for entry_bytes, with_source in ((32, True), (32, False), (16, False)):
        cq = second.context.create_cq(64, entry_bytes=entry_bytes, with_source=with_source)
        a, b = Endpoint(first), Endpoint(second, cq=cq)
        b.receive(64)
        a.send(b, b"who is it", inline=True)
        assert b.cq.wait_for(1)[0]["ah"] == defs.LIMITS.reserved_ah
        a.cq.wait_for(1)
    sender = first.backend.node_id
    second.ah_of(sender)
    b.receive(64)
    a.send(b, b"you again", inline=True)
    assert b.cq.wait_for(1)[0]["ah"] == second.ah_of(sender)
    a.cq.wait_for(1)


def deep_ring(backends: Sequence[Any], rng: Random) -> None:
    """Fills, drains and wraps a ring many times, with repeated doorbells and any batch size."""
    node = Node(backends[0])
    a, b = Endpoint(node, depth=32), Endpoint(node, depth=32)
    posted = received = 0
    while received < 400:
        count = rng.randrange(0, 33 - (posted - received))
        for number in range(count):
            b.receive(40, wr_id=posted + number, offset=64 * ((posted + number) % 512))
        posted += count
        if rng.random() < 0.3:
            node.context.ring(b.qp.rq_db, b.qp.rq.produced & 0xFFFF)
            node.context.push()
        backends[0].settle()
        take = rng.randrange(0, posted - received + 1)
        for number in range(take):
            a.send(b, pattern(32, received + number), inline=True)
        done: Any = b.cq.wait_for(take) if take else []
        assert [int(one["wr_id"]) for one in done] == list(range(received, received + take))
        if take:
            a.cq.wait_for(take)
        received += take
    backends[0].settle()


def descriptor_read_fails(backends: Sequence[Any], _rng: Random, responded: bool = True) -> None:
    """Fails descriptor reads: that queue breaks, others work.

    With responded=False the reads get no response.
    """
    node = Node(backends[0])
    a, b, c = Endpoint(node), Endpoint(node), Endpoint(node)
    backends[0].fail_reads(b.qp.receive_ring, 4096, responded)
    b.receive(64)
    if not responded:
        backends[0].pause(2 * defs.LIMITS.completion_timeout_cycles)
    backends[0].settle()
    a.send(b, b"nothing there", inline=True)
    backends[0].settle()
    assert a.cq.wait_for(1)[0]["status"] == STATUS.REMOTE_ERROR_BAD_DEST_QPN
    assert b.qp.query().qp_state == STATE.ERR
    exchange(a, c, b"goes on")


def descriptor_read_is_lost(backends: Sequence[Any], rng: Random) -> None:
    """Drops the responses of descriptor reads; see descriptor_read_fails."""
    descriptor_read_fails(backends, rng, responded=False)


def receives_in_err(backends: Sequence[Any], _rng: Random, depth: int = 8, rounds: int = 4) -> None:
    """Posts receives to a broken queue pair, more in total than the ring holds.

    Each flushes in its order.
    """
    node = Node(backends[0])
    end, *others = (Endpoint(node, depth=depth) for _ in range(3))
    backends[0].stores([beyond_sq(end)])
    backends[0].settle()
    for turn in range(rounds):
        ids = range(turn * depth, (turn + 1) * depth)
        for number in ids:
            end.receive(64, wr_id=number)
        done = end.cq.wait_for(depth)
        assert list(done["wr_id"]) == list(ids)
        assert set(done["status"]) == {STATUS.FLUSHED}
        # mypy does not know the number of endpoints after the star.
        exchange(*others, b"goes on")  # type: ignore[call-arg, arg-type]


def two_domains(backends: Sequence[Any], _rng: Random) -> None:
    """Exchanges between queue pairs of two PDs; memory of the other PD is refused as a buffer."""
    node = Node(backends[0])
    for kind in (UD, SRD):
        ends: list[Any] = []
        for _ in range(2):
            node.use(node.context.alloc_pd())
            end: Any = Endpoint(node, kind)
            end.handle = node.ah_of(node.backend.node_id)
            ends.append(end)
        for a, b in (ends, ends[::-1]):
            b.receive(700, wr_id=1)
            piece = a.buffer.addr, 700, a.buffer.l_key
            there = {"ah": a.handle, "dest_qp": b.qp.number, "qkey": QKEY}
            a.buffer.write(0, pattern(700, kind))
            a.qp.post_send_many([2], **there, sges=[piece])
            assert (a.cq.wait_for(1)[0]["status"], b.cq.wait_for(1)[0]["status"]) == (0, 0)
            assert b.buffer.read(b.skip, 700) == pattern(700, kind)
            if kind == UD:
                continue
            b.qp.post_recv([Sge(a.buffer.addr, 700, a.buffer.l_key)], wr_id=3)
            a.qp.post_send_many([4], **there, sges=[piece])
            assert b.cq.wait_for(1)[0]["status"] == STATUS.LOCAL_ERROR_INVALID_LKEY
            assert a.cq.wait_for(1)[0]["status"] == STATUS.REMOTE_ERROR_BAD_STATUS
