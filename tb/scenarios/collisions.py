# SPDX-License-Identifier: Apache-2.0
"""Provokes rare collisions: simultaneous QP errors, destruction during reads, a draining QP.

The offset between the two sides of a collision is swept, so that each relative cycle occurs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from efa_cosim.host.endpoints import QKEY, SRD, UD, Endpoint, Node, pattern
from efa_cosim.layouts import defs
from tb.scenarios.send import exchange

if TYPE_CHECKING:
    from random import Random

    from efa_cosim.boundary.backend import Store

STATUS, STATE, ERROR = defs.IoCompStatus, defs.AdminQpState, defs.QpError
# Upper bound of the cycles from the doorbell of a send until the scheduler has consumed its WQE.
CONSUMED = 400
DOORBELL_BYTES = 4


def index_of(qp: Any) -> int:
    """Returns the index of a queue pair as events report it."""
    return qp.number & (1 << defs.LIMITS.qpn_w) - 1


def doorbell(end: Endpoint, offset: int, value: int) -> Store:
    """Returns a doorbell store through the page of an endpoint's own UAR."""
    return end.node.driver.db_bar, offset, (value & 0xFFFF).to_bytes(DOORBELL_BYTES, "little")


def beyond_sq(end: Endpoint) -> Store:
    """Returns a doorbell store beyond the depth of the send queue."""
    return doorbell(end, end.qp.sq_db, end.qp.sq.produced + end.depth + 1)


def beyond_rq(end: Endpoint) -> Store:
    """Returns a doorbell store beyond the depth of the receive queue."""
    return doorbell(end, end.qp.rq_db, end.qp.rq.produced + end.depth + 1)


def cancel(end: Endpoint) -> None:
    """Frees an endpoint whose queue pair a bare command has destroyed."""
    del end.node.context.qps[end.qp.number]
    end.qp.free_rings()
    end.buffer.dereg()
    end.cq.destroy()


def draining_shows(backends: Sequence[Any], _rng: Random) -> None:
    """Checks sq_draining of QUERY_QP in SQD: set before the acknowledgement, clear after it.

    The network latency must be much longer than two admin commands.
    """
    node, backend = Node(backends[0]), backends[0]
    a, b = Endpoint(node), Endpoint(node)
    for turn in range(3):
        b.receive(64, wr_id=turn)
        a.send(b, pattern(40, turn), wr_id=turn)
        backend.pause(CONSUMED)
        a.qp.modify(STATE.SQD)
        response = a.qp.query()
        assert (response.qp_state, response.sq_draining) == (STATE.SQD, 1), (
            f"turn {turn}: {response}"
        )
        assert a.cq.wait_for(1)[0]["status"] == b.cq.wait_for(1)[0]["status"] == STATUS.OK
        backend.settle()
        response = a.qp.query()
        assert (response.qp_state, response.sq_draining) == (STATE.SQD, 0), (
            f"turn {turn}: {response}"
        )
        a.qp.modify(STATE.RTS)


def broken_at_once(backends: Sequence[Any], rng: Random, rounds: int = 2, queues: int = 40) -> None:
    """Moves many queue pairs to ERR within a few cycles; each flushes all its WQEs.

    The send engine receives a state change every few cycles while it hands flushed queues back to
    its scheduler, so that some changes fall in the cycle of a hand-back. In every second round
    DEREG_MR commands drain the engines, so that fences of a drain and of a flush coincide.
    """
    node, backend = Node(backends[0]), backends[0]
    cqs = [node.context.create_cq(256) for _ in range(queues // 8)]
    ends = [Endpoint(node, (UD, SRD)[n % 2], depth=4, cq=cqs[n % len(cqs)]) for n in range(queues)]
    for turn in range(rounds):
        due = dict.fromkeys(cqs, 0)
        for end in ends:
            end.qp.modify(STATE.SQD)
            count = rng.randrange(1, 5)
            end.qp.post_send_many(np.arange(count), **end.towards(end), inline=b"waits")
            end.receive(64, wr_id=turn)
            due[end.cq] += count + 1
        backend.settle()
        rng.shuffle(ends)
        # Some queue pairs fail by command, the others by doorbell stores to either ring, back to
        # back or with pauses.
        count = 12 * (turn % 2)
        node.context.enter_kernel()
        regions = [node.pd.reg_mr(64) for _ in range(20 * (turn % 2))]
        requests = [moved(end, STATE.ERR) for end in ends[:count]]
        requests += [defs.AdminDeregMrCmd(l_key=region.l_key) for region in regions]
        rng.shuffle(requests)
        commands = [node.driver.submit(request) for request in requests[:30]]
        for end in ends[count:]:
            backend.stores([rng.choice((beyond_sq, beyond_rq))(end)])
            if turn:
                backend.pause(rng.randrange(80))
        commands += [node.driver.submit(request) for request in requests[30:]]
        for command in commands:
            node.driver.finish(command)
        for cq, count in due.items():
            assert set(cq.wait_for(count)["status"]) == {STATUS.FLUSHED}
        for end in ends:
            end.qp.modify(STATE.RESET)
            end.qp.to_rts(QKEY)
    # The peer uses another CQ, so that each side's completion is the first in its CQ.
    first = ends[0]
    peer = next(end for end in ends if end.kind == first.kind and end.cq is not first.cq)
    exchange(first, peer, b"as new")


def contexts_come_back(backends: Sequence[Any], _rng: Random) -> None:
    """Clears unacknowledged sends by RESET, more in total than there are message contexts.

    Afterwards the device sends as many messages at once as before. The network latency must exceed
    the sends of a round and four admin commands.
    """
    node, backend = Node(backends[0]), backends[0]
    a, b = Endpoint(node, depth=256), Endpoint(node)
    ids = np.arange(250)
    for _ in range((2 << defs.LIMITS.msg_w) // len(ids) + 1):
        a.qp.post_send_many(ids, **a.towards(b), inline=b"forgotten")
        backend.pause(6000)
        a.qp.modify(STATE.RESET)
        a.qp.to_rts(QKEY)
    backend.settle()
    a.qp.post_send_many(ids, **a.towards(b), inline=b"no receive posted")
    assert set(a.cq.wait_for(len(ids))["status"]) == {STATUS.REMOTE_ERROR_RNR}
    exchange(a, b, b"as new")


def handle_goes_under_sends(backends: Sequence[Any], _rng: Random) -> None:
    """Destroys an AH with sends in flight to its peer.

    All of the sends flush and late acknowledgements are ignored. Sends by a new handle of the same
    number complete. The network latency must exceed an admin command.
    """
    node, backend = Node(backends[0]), backends[0]
    a, b = Endpoint(node), Endpoint(node)
    exchange(a, b, b"the quiet time after the reset has ended")
    for turn in range(3):
        for number in range(4):
            b.receive(64, wr_id=number, offset=64 * number)
        a.qp.post_send_many(np.arange(4), **a.towards(b), inline=b"in flight")
        backend.pause(CONSUMED)
        node.destroy_ah_of(backend.node_id)
        assert set(a.cq.wait_for(4)["status"]) == {STATUS.FLUSHED}, f"turn {turn}"
        assert set(b.cq.wait_for(4)["status"]) == {STATUS.OK}
        exchange(a, b, b"by a new handle")
        backend.settle()


def other_handles_go_under_sends(
    backends: Sequence[Any], _rng: Random, peers: Iterable[int] = range(20, 26)
) -> None:
    """Destroys other AHs, then the AH itself, with sends in flight.

    The AH has the number of an earlier one. Its sends complete until it is destroyed. The network
    latency must exceed an admin command.
    """
    node, backend = Node(backends[0]), backends[0]
    for peer in peers:
        node.ah_of(peer)
    a, b = Endpoint(node), Endpoint(node)
    exchange(a, b, b"by the first handle")
    node.destroy_ah_of(backend.node_id)
    exchange(a, b, b"by a handle of its number")
    for gone in (*peers, backend.node_id):
        for number in range(4):
            b.receive(64, wr_id=number, offset=64 * number)
        a.qp.post_send_many(np.arange(4), **a.towards(b), inline=b"in flight")
        backend.pause(CONSUMED)
        node.destroy_ah_of(gone)
        expected = STATUS.FLUSHED if gone == backend.node_id else STATUS.OK
        assert set(a.cq.wait_for(4)["status"]) == {expected}, f"peer {gone}"
        assert set(b.cq.wait_for(4)["status"]) == {STATUS.OK}
        backend.settle()


def nothing_leaves_of_a_broken_queue(backends: Sequence[Any], _rng: Random) -> None:
    """Breaks a queue pair during payload reads of its sends.

    All sends flush and no packet leaves, although the read data arrives. The host's read latency
    must exceed the device's doorbell latency.
    """
    node, backend = Node(backends[0]), backends[0]
    for kind in (UD, SRD):
        end = Endpoint(node, kind)
        piece = end.buffer.addr, 700, end.buffer.l_key
        before = backend.counters()
        end.qp.post_send_many(np.arange(8), **end.towards(end), sges=[piece])
        backend.pause(CONSUMED)
        reads = backend.counters()["reads"] - before["reads"]
        backend.stores([beyond_sq(end)])
        done = end.cq.wait_for(8)
        assert reads >= 8 and set(done["status"]) == {STATUS.FLUSHED}, done["status"]
        backend.settle()
        assert backend.counters()["packets"] == before["packets"]


def breaks_while_another_goes(
    backends: Sequence[Any],
    rng: Random,
    rounds: int = 30,
    longest: int = 900,
) -> None:
    """Breaks a queue pair while another is destroyed.

    Its sends in flight and its pending sends all flush, once. The engines receive both state
    changes at once and must apply each step to the right queue pair. The network latency must
    exceed four admin commands. A round begins with an idle fabric, so that its sends leave at once.
    """
    node, backend = Node(backends[0]), backends[0]
    driver, b, peer = node.driver, Endpoint(node, depth=16), Endpoint(node)
    step = longest // rounds
    for delay in range(0, longest, step):
        a = Endpoint(node, depth=4)
        b.qp.post_send_many(np.arange(8), **b.towards(peer), inline=b"in flight")
        backend.pause(CONSUMED)
        b.qp.modify(STATE.SQD)
        b.qp.post_send_many(np.arange(8, 11), **b.towards(peer), inline=b"waits")
        backend.pause(CONSUMED)
        node.context.enter_kernel()
        command = driver.submit(defs.AdminDestroyQpCmd(qp_handle=a.qp.handle))
        backend.pause(delay + rng.randrange(step))
        backend.stores([rng.choice((beyond_sq, beyond_rq))(b)])
        driver.finish(command)
        done = b.cq.wait_for(11)
        assert set(done["status"]) == {STATUS.FLUSHED}
        assert list(done["wr_id"]) == list(range(11))
        # Doorbells of the destroyed queue pair have no effect.
        backend.stores([doorbell(a, a.qp.sq_db, 1), doorbell(a, a.qp.rq_db, 1)])
        b.qp.modify(STATE.RESET)
        b.qp.to_rts(QKEY)
        cancel(a)
        backend.settle()
    exchange(b, Endpoint(node), b"as new")


def reset_beside_a_query(backends: Sequence[Any], _rng: Random, sends: int = 60) -> None:
    """Resets one queue pair directly before a QUERY_QP of another.

    MODIFY_QP to RESET clears the sends in flight of its own queue pair only; sends of the other
    queue pair complete. The network latency must exceed a few admin commands.
    """
    node, backend = Node(backends[0]), backends[0]
    gone, stays, peer = (Endpoint(node, depth=64) for _ in range(3))
    for turn in range(3):
        for number in range(sends):
            peer.receive(64, wr_id=number)
        for end in (gone, stays):
            end.qp.post_send_many(np.arange(sends), **end.towards(peer), inline=b"in flight")
        backend.pause(4 * CONSUMED)
        node.context.enter_kernel()
        commands = [node.driver.submit(request) for request in (
            moved(gone, STATE.RESET), defs.AdminQueryQpCmd(qp_handle=stays.qp.handle))]  # fmt: skip
        for command in commands:
            node.driver.finish(command)
        done = stays.cq.wait_for(sends)
        assert sorted(done["wr_id"]) == list(range(sends)), f"turn {turn}"
        backend.settle()
        assert not len(gone.cq.poll_array()), f"turn {turn}: a completion after RESET"
        peer.cq.poll_array()
        for end in (gone, stays, peer):
            end.qp.modify(STATE.RESET)
            end.qp.to_rts(QKEY)


def moved(end: Endpoint, state: int) -> Any:
    """Returns MODIFY_QP to ERR or RESET."""
    request = defs.AdminModifyQpCmd(qp_handle=end.qp.handle, qp_state=state)
    request.modify_mask__qp_state = 1
    return request


def destroyed_while_fetching(
    backends: Sequence[Any],
    rng: Random,
    longest: int = 1500,
    step: int = 100,
) -> None:
    """Destroys or resets queue pairs during descriptor reads; the responses follow the reads."""
    node, backend = Node(backends[0]), backends[0]
    driver = node.driver
    for turn, delay in enumerate(range(0, longest, step)):
        end = Endpoint(node, depth=64)
        node.context.enter_kernel()
        destroy = defs.AdminDestroyQpCmd(qp_handle=end.qp.handle)
        command = driver.submit(destroy if turn % 2 else moved(end, STATE.RESET))
        backend.pause(delay + rng.randrange(step))
        ids = np.arange(64)
        end.qp.post_recv_many(ids, end.buffer.addr + 64 * ids, 64, end.buffer.l_key)
        driver.finish(command)
        # The host owns the ring again.
        ring, size = end.qp.receive_ring, 64 * defs.IoRxDesc.SIZE
        driver.memory.write(ring, rng.randbytes(size))
        if not turn % 2:
            driver.destroy_qp(end.qp.handle)
        cancel(end)
    backend.settle()


def causes(backends: Sequence[Any], rng: Random, report: Any) -> None:
    """Breaks queue pairs of both engines at the same time, each for its own cause.

    Appends (queue pair, cause) of each to `report`.
    """
    node, backend = Node(backends[0]), backends[0]
    good = Endpoint(node), Endpoint(node)

    def expect(end: Endpoint, cause: int) -> None:
        report.append((index_of(end.qp), cause))

    for turn in range(3):
        sends, receives = ([Endpoint(node, depth=4) for _ in range(6)] for _ in range(2))
        endless = [Endpoint(node, depth=4) for _ in range(2)]
        for end in endless:
            two_without_last(end)
            expect(end, ERROR.NO_LAST)
        stores = [beyond_sq(end) for end in sends] + [beyond_rq(end) for end in receives]
        rng.shuffle(stores)
        for cause, ends in ((ERROR.SQ_DOORBELL, sends), (ERROR.RQ_DOORBELL, receives)):
            for end in ends:
                expect(end, cause)
        # The messages claim the invalid receive WQEs while the doorbells break the other queue
        # pairs.
        for end in endless:
            good[0].send(end, b"meets no end", inline=True)
        backend.pause(20 + 50 * turn)
        for store in stores:
            backend.stores([store])
        statuses = good[0].cq.wait_for(len(endless))["status"]
        assert set(statuses) == {STATUS.REMOTE_ERROR_BAD_STATUS}
        backend.settle()
        for end in (*sends, *receives, *endless):
            assert end.qp.query().qp_state == STATE.ERR
            end.qp.destroy()
    a, b = Endpoint(node), Endpoint(node)
    unwritten(a)
    expect(a, ERROR.INCOMPLETE_WQE)
    a = Endpoint(node)
    closed_slot(a, b)
    expect(a, ERROR.POSTED_STORE)
    a = Endpoint(node)
    page = next(iter(a.buffer.pieces(0, 64)))[0] & ~4095
    backend.fail_reads(page, 4096)
    a.send(b, pattern(64, 1))
    expect(a, ERROR.PAYLOAD_READ)
    backend.fail_reads(b.qp.receive_ring, 4096)
    b.receive(64)
    expect(b, ERROR.DESC_READ)
    backend.settle()
    exchange(*good, b"the others go on")


def two_without_last(end: Endpoint) -> None:
    """Posts a receive WQE of two descriptors without `last`."""
    descriptors = np.zeros(2, defs.IoRxDesc.DTYPE)
    descriptors["length"], descriptors["lkey_ctrl"] = 64, end.buffer.l_key
    descriptors["req_id"][0] = end.qp.rq.take(np.array([9]))[0]
    end.qp.post_descriptors(descriptors)


def unwritten(end: Endpoint) -> None:
    """Posts a slot of which no dword was written."""
    end.node.backend.stores([doorbell(end, end.qp.sq_db, 1)])
    end.node.backend.settle()


def closed_slot(end: Endpoint, peer: Endpoint) -> None:
    """Stores to a slot whose WQE is posted and pending."""
    end.qp.modify(STATE.SQD)
    end.send(peer, b"waits", inline=True)
    end.node.backend.settle()
    end.node.backend.store(2, end.qp.llq, bytes(4))
    end.node.backend.settle()
