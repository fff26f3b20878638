# SPDX-License-Identifier: Apache-2.0
"""Exercises the send side with errors, resets and commands at the same time: each effect belongs to
the queue pair, page or handle that caused it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from efa_cosim.boundary.events import of_kind
from efa_cosim.host.endpoints import QKEY, UD, Endpoint, Node
from efa_cosim.host.verbs import gid_of
from efa_cosim.layouts import defs
from tb.scenarios.collisions import beyond_sq, doorbell, moved
from tb.scenarios.send import exchange

if TYPE_CHECKING:
    from random import Random

    from efa_cosim.host.driver import Driver

STATUS, STATE = defs.IoCompStatus, defs.AdminQpState
PAGE_SLOTS = defs.LIMITS.llq_page_bytes // 64


def meanwhile(driver: Driver, act: Callable[[], object]) -> None:
    """Makes a driver call `act` between its next command and the wait for the response."""

    def submit(*arguments: Any) -> Any:
        del driver.submit
        command = driver.submit(*arguments)
        act()
        return command

    # Replaces the method on this object, until its first call.
    driver.submit = submit  # type: ignore[method-assign, assignment]


def pages_beside_an_error(
    backends: Sequence[Any],
    _rng: Random,
    depth: int = 1024,
    delays: Iterable[int] = range(100, 2000, 300),
) -> None:
    """Creates queue pairs while another breaks: all pages belong to the new queue pair.

    The other queue pair is destroyed before the sends. The host's read latency must be short.
    """
    node, backend = Node(backends[0]), backends[0]
    cq = node.context.create_cq(depth)
    there = {"ah": node.ah_of(20), "dest_qp": 5, "qkey": QKEY}
    for delay in delays:
        breaking = Endpoint(node)

        def breaks(breaking: Any = breaking, delay: int = delay) -> None:
            backend.pause(delay)
            backend.stores([beyond_sq(breaking)])

        node.context.enter_kernel()
        meanwhile(node.driver, breaks)
        qp = node.pd.create_qp(cq, cq, UD, max_send_wr=depth)
        backend.settle()
        assert breaking.qp.query().qp_state == STATE.ERR, delay
        breaking.qp.destroy()
        qp.to_rts(QKEY)
        qp.post_send_many(np.arange(depth), **there, inline=b"to nobody")
        assert set(cq.wait_for(depth)["status"]) == {STATUS.OK}, delay
        qp.destroy()


def wrong_phases(backend: Any) -> tuple[int, int]:
    """Returns the number of WQEs, and of those with a wrong phase, that were consumed since the
    last events."""
    backend.settle()
    wqes = of_kind(backend.events(), "wqe")
    return len(wqes), sum(defs.EVENTS.wqe.unpack(int(data)).wrong_phase for data in wqes["data"])


def phases_begin_anew(
    backends: Sequence[Any],
    _rng: Random,
    latency: int = 1200,
    sends: int = 4,
) -> None:
    """Uses another first phase after RESET of a queue pair: RESET clears the expected phase.

    Another queue pair breaks while RESET waits for payload reads. The host's read latency must be
    `latency` cycles.
    """
    node, backend = Node(backends[0]), backends[0]
    cq = node.context.create_cq(256)
    end, breaking, busy = (Endpoint(node, UD, cq=cq) for _ in range(3))
    there = {"ah": node.ah_of(20), "dest_qp": 5, "qkey": QKEY}

    def consumed(phase: int) -> tuple[int, int]:
        """Sends WQEs with this phase in the first wrap; returns wrong_phases of them."""
        end.qp.first_phase = phase
        end.qp.post_send_many(np.arange(sends), **there, inline=b"to nobody")
        assert set(cq.wait_for(sends)["status"]) == {STATUS.OK}
        return wrong_phases(backend)

    for phase in (0, 1):
        assert consumed(phase) == (sends, 0), f"first phase {phase}"
        assert consumed(1 - phase) == (sends, sends), f"first phase {phase}"
        node.context.enter_kernel()
        command = node.driver.submit(moved(end, STATE.RESET))
        backend.pause(latency - 300)
        piece = busy.buffer.addr, 700, busy.buffer.l_key
        busy.qp.post_send_many(np.arange(sends), **there, sges=[piece])
        backend.pause(700)
        backend.stores([beyond_sq(breaking)])
        node.driver.finish(command)
        assert set(cq.wait_for(sends)["status"]) == {STATUS.OK}
        assert breaking.qp.query().qp_state == STATE.ERR
        breaking.qp.modify(STATE.RESET)
        breaking.qp.to_rts(QKEY)
        wrong_phases(backend)
        # As QueuePair.modify does for its own command.
        end.qp.state = STATE.RESET
        end.qp.sq.clear()
        end.qp.to_rts(QKEY)


def nothing_consumed_behind_an_error(
    backends: Sequence[Any],
    _rng: Random,
    queues: int = 8,
    wqes: Any = 24,
) -> None:
    """Posts WQEs without an address handle behind an incomplete WQE: all are flushed unchecked.

    Each WQE has its own doorbell, so that some doorbells come between the error and its report.
    """
    node, backend = Node(backends[0]), backends[0]
    for _ in range(queues):
        end = Endpoint(node, depth=32)
        posted = end.qp.sends(wqes, ah=0xFFFF, dest_qp=5, qkey=QKEY, inline=b"no handle")
        end.qp.name(posted, np.arange(wqes))
        lines = [wqe.tobytes() for wqe in posted]
        lines[0] = lines[0][:32]
        backend.stores([(2, end.qp.llq + 64 * slot, line) for slot, line in enumerate(lines)])
        backend.settle()
        backend.stores([doorbell(end, end.qp.sq_db, count) for count in range(1, wqes + 1)])
        done = end.cq.wait_for(wqes)
        assert list(done["wr_id"]) == list(range(wqes))
        assert done[0]["status"] == STATUS.LOCAL_ERROR_QP_INTERNAL_ERROR
        assert set(done["status"][1:]) == {STATUS.FLUSHED}, done["status"]


def pages_of_an_earlier_session(backends: Sequence[Any], _rng: Random) -> None:
    """Stores to the LLQ pages of a queue pair from before a reset whose number a new queue pair on
    fewer pages has: the pages have no owner."""
    backend = backends[0]
    old = Node(backend)
    gone = Endpoint(old, depth=8 * PAGE_SLOTS)
    number, pages = gone.qp.number, gone.qp.llq
    exchange(gone, gone, b"before the reset")
    old.driver.reset()
    node = Node(backend)
    end = Endpoint(node, depth=PAGE_SLOTS)
    index = (1 << defs.LIMITS.qpn_w) - 1
    assert end.qp.number & index == number & index and end.qp.llq == pages
    for slot in range(PAGE_SLOTS, 8 * PAGE_SLOTS, 37):
        backend.stores([(2, pages + 64 * slot, bytes(64))])
    backend.settle()
    exchange(end, end, b"after the reset")


def one_missing_dword(backends: Sequence[Any], rng: Random, queues: int = 24) -> None:
    """Posts WQEs that lack one dword each in new queue pairs: all are incomplete."""
    node, backend = Node(backends[0]), backends[0]
    cq = node.context.create_cq(256)
    for number in range(queues):
        end = Endpoint(node, depth=4, cq=cq)
        wqe = end.qp.sends(1, **end.towards(end), inline=bytes(32))
        end.qp.name(wqe, np.array([number], "u8"))
        data = wqe.tobytes()
        cut = 32 + 4 * rng.randrange(8)
        parts = [(0, data[:cut]), (cut + 4, data[cut + 4 :])]
        backend.stores([(2, end.qp.llq + at, part) for at, part in parts if part])
        backend.settle()
        backend.stores([doorbell(end, end.qp.sq_db, 1)])
        done = cq.wait_for(1)[0]
        assert done["status"] == STATUS.LOCAL_ERROR_QP_INTERNAL_ERROR, (number, cut, done)


def handles_under_sends(
    backends: Sequence[Any],
    _rng: Random,
    latency: int = 2000,
    times: int = 8,
    sends: int = 4,
    blocks: int = 24,
) -> None:
    """Destroys and creates an address handle several times while its sends are in flight: they are
    flushed.

    The host's read latency must be `latency` cycles. The flush waits for payload reads that are
    more than the device can have outstanding, so that the last command precedes the flush.
    """
    node, backend = Node(backends[0]), backends[0]
    driver, end, busy = node.driver, Endpoint(node), Endpoint(node, UD)
    number = node.ah_of(20)
    there = {"dest_qp": 5, "qkey": QKEY}
    end.qp.post_send_many(np.arange(sends), ah=number, **there, inline=b"to nobody")
    piece, other = (busy.buffer.addr, 4000, busy.buffer.l_key), node.ah_of(21)
    backend.settle()
    node.context.enter_kernel()
    pair = (defs.AdminDestroyAhCmd(ah=number, pd=node.pd.number),
            defs.AdminCreateAhCmd(pd=node.pd.number, dest_addr=gid_of(20)))  # fmt: skip
    commands = [driver.submit(request) for request in pair * times]
    backend.pause(latency - 500)
    busy.qp.post_send_many(np.arange(blocks), ah=other, **there, sges=[piece])
    responses: list[Any] = [driver.finish(command) for command in commands]
    assert {response.ah for response in responses[1::2]} == {number}
    assert not len(end.cq.poll_array()), "flushed before the last command"
    assert set(end.cq.wait_for(sends)["status"]) == {STATUS.FLUSHED}
    assert set(busy.cq.wait_for(blocks)["status"]) == {STATUS.OK}
