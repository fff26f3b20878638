# SPDX-License-Identifier: Apache-2.0
"""Runs send queues in host memory: ring placement, failing reads, queues without service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from efa_cosim.host.admin_queue import DriverError
from efa_cosim.host.endpoints import QKEY, SRD, UD, Endpoint, Node, pattern
from efa_cosim.layouts import defs
from tb.scenarios.send import exchange

if TYPE_CHECKING:
    from random import Random

STATE, STATUS = defs.AdminQpState, defs.IoCompStatus
PAGE = 4096
INLINE = {64: 32, 128: 80}


def _unreachable(end: Endpoint, peer: Endpoint, count: int) -> dict[str, Any]:
    """Returns work requests that the peer drops: the peer has no receive WQE."""
    return {**end.towards(peer), "inline": np.arange(count, dtype="u1")[:, None]}


def _pour(end: Endpoint, peer: Endpoint, count: int) -> None:
    """Sends `count` datagrams that are completed and dropped."""
    while count:
        run = min(count, end.depth)
        end.qp.post_send_many(np.arange(run), **_unreachable(end, peer, run))
        end.cq.wait_for(run)
        count -= run
    end.node.backend.settle()


def _ring_ahead(qp: Any, wqes: Any) -> None:
    """Posts in a state in which verbs would refuse."""
    qp.name(wqes, np.arange(len(wqes)))
    qp.context.provider.post(qp, wqes)
    qp.context.push()


def rings_anywhere(backends: Sequence[Any], rng: Random) -> None:
    """Places rings at any line of a page, of every depth and both WQE sizes.

    Batches span several reads, pages and wraps.
    """
    node = Node(backends[0])
    to = Endpoint(node, UD, depth=64)
    for depth in (1, 2, 8, 64, 256, 1024):
        for entry in (64, 128):
            offset = 64 * rng.randrange(PAGE // 64)
            end = Endpoint(node, UD, depth=depth, max_inline=INLINE[entry], ring_offset=offset)
            for count in (rng.randrange(1, depth + 1), depth, rng.randrange(1, depth + 1)):
                _pour(end, to, count)
            exchange(end, to, pattern(INLINE[entry], depth), inline=True)
            end.qp.destroy()


def created_where_valid(backends: Sequence[Any], _rng: Random) -> None:
    """Creates rings at valid addresses; the device refuses address 0 and unaligned addresses."""
    node = Node(backends[0])
    a, b = Endpoint(node), Endpoint(node)
    base = node.driver.allocator.alloc(PAGE)
    for at, good in ((0, False), (base + 32, False), (base + 1, False), (base + 64, True)):
        try:
            made = node.driver.create_qp(
                pd=node.pd.number, qp_type=SRD, uar=node.context.uar, send_cq_idx=a.cq.number,
                recv_cq_idx=a.cq.number, sq_base_addr=at,
                qp_alloc_size={"send_queue_ring_size": 512, "send_queue_depth": 8})  # fmt: skip
            assert good
            node.driver.destroy_qp(made.qp_handle)
        except DriverError:
            assert not good
    exchange(a, b, b"goes on")


def llq_stores_change_nothing(backends: Sequence[Any], rng: Random) -> None:
    """Stores to the LLQ pages of host rings: the stores change and break no queue."""
    node, backend = Node(backends[0]), backends[0]
    a, b = Endpoint(node, depth=8), Endpoint(node, depth=8)
    assert a.qp.llq != b.qp.llq
    a.qp.modify(STATE.SQD)
    b.receive(64)
    a.send(b, b"as it was written", inline=True)
    for _ in range(20):
        size = rng.choice((1, 4, 7, 64))
        backend.store(2, a.qp.llq + 64 * rng.randrange(8) + rng.randrange(65 - size),
                      rng.randbytes(size))  # fmt: skip
    a.qp.modify(STATE.RTS)
    assert a.cq.wait_for(1)[0]["status"] == STATUS.OK
    assert b.cq.wait_for(1)[0]["byte_len"] == 17
    assert b.buffer.read(0, 17) == b"as it was written"
    exchange(a, b, b"goes on", inline=True)


def posted_before_rts(backends: Sequence[Any], _rng: Random) -> None:
    """Posts WQEs in INIT and RTR: RTS fetches them, ERR flushes them."""
    node = Node(backends[0])
    to = Endpoint(node, UD)
    for steps in ((STATE.INIT,), (STATE.INIT, STATE.RTR)):
        for end in (STATE.RTS, STATE.ERR):
            cq = node.context.create_cq(64)
            qp = node.pd.create_qp(cq, cq, UD, max_send_wr=16)
            for step in steps:
                qp.modify(step, **({"qkey": QKEY} if step == STATE.INIT else {}))
            _ring_ahead(qp, qp.sends(9, ah=node.ah_of(node.backend.node_id),
                                     dest_qp=to.qp.number, qkey=QKEY, inline=b"early"))  # fmt: skip
            backends[0].settle()
            assert not len(cq.poll_array())
            if end == STATE.RTS and STATE.RTR not in steps:
                qp.modify(STATE.RTR)
            qp.modify(end, **({"sq_psn": 0} if end == STATE.RTS else {}))
            done = cq.wait_for(9)
            assert set(done["status"]) == {STATUS.OK if end == STATE.RTS else STATUS.FLUSHED}


def entry_read_fails(backends: Sequence[Any], _rng: Random) -> None:
    """Makes a page of the ring unreadable: that queue breaks, others work."""
    node, backend = Node(backends[0]), backends[0]
    to = Endpoint(node, UD)
    # The first and the last failing WQE of 128 bytes lie in two pages.
    for entry, offset, good, bad in ((64, 0, 64, 64), (128, 64, 31, 33)):
        for state in (STATE.RTS, STATE.SQD):
            a = Endpoint(node, UD, depth=128, max_inline=INLINE[entry], ring_offset=offset)
            a.receive(64, wr_id=1)
            # All WQEs of the first page have left, so the next failing WQE is the first of its
            # batch.
            _pour(a, to, good)
            if state == STATE.SQD:
                a.qp.modify(state)
            backend.fail_reads(a.qp.sq_base - offset + PAGE, PAGE)
            # One at a time: a read of several lines may deliver some lines before it fails.
            for _ in range(bad):
                a.qp.post_send_many(np.arange(1), **_unreachable(a, to, 1))
                backend.settle()
            assert a.qp.query().qp_state == STATE.ERR
            rest = a.depth - bad
            a.qp.post_send_many(np.arange(rest), **_unreachable(a, to, rest))
            backend.settle()
            exchange(Endpoint(node), Endpoint(node), b"the others go on", inline=True)


def others_pass_queues_that_wait(backends: Sequence[Any], _rng: Random) -> None:
    """Fills rings of queues that are not served; WQEs of other queues pass."""
    node = Node(backends[0])
    to = Endpoint(node, UD)
    waiting = [Endpoint(node, UD, depth=depth) for depth in (1024, 256, 64)]
    for end in waiting:
        end.qp.modify(STATE.SQD)
        end.qp.post_send_many(np.arange(end.depth), **_unreachable(end, to, end.depth))
    a, b = Endpoint(node), Endpoint(node)
    for turn in range(20):
        exchange(a, b, pattern(24, turn), inline=True)
    for end in waiting:
        end.qp.modify(STATE.RTS)
        assert set(end.cq.wait_for(end.depth)["status"]) == {STATUS.OK}


def cancelled_in_flight(backends: Sequence[Any], rng: Random) -> None:
    """Resets or destroys a queue directly after a doorbell.

    WQE reads in flight are cancelled, the host may reuse the ring memory at once, and the queue
    starts anew.
    """
    node = Node(backends[0])
    to = Endpoint(node, UD)
    for turn in range(8):
        a = Endpoint(node, UD, depth=32, max_inline=rng.choice((32, 80)))
        size = a.qp.wqe.SIZE
        _pour(a, to, rng.randrange(32))
        a.qp.modify(STATE.SQD)
        count = rng.randrange(1, 33)
        a.qp.post_send_many(np.arange(count), **_unreachable(a, to, count))
        backends[0].pause(rng.randrange(40))
        if turn % 2:
            a.qp.destroy()
            node.driver.memory.write(a.qp.sq_base, rng.randbytes(32 * size))
            continue
        a.qp.modify(STATE.RESET)
        node.driver.memory.write(a.qp.sq_base, rng.randbytes(32 * size))
        a.qp.to_rts(QKEY)
        exchange(a, to, pattern(20, turn), inline=True)
