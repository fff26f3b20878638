# SPDX-License-Identifier: Apache-2.0
"""Exercises receive and completion side while the host accepts writes slowly: nothing follows the
response to a command that ends it, and nothing waits for others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from efa_cosim.boundary.events import of_kind, where
from efa_cosim.host.completion_counter import RECEIVES, SENDS
from efa_cosim.host.endpoints import QKEY, Endpoint, Node, pattern
from efa_cosim.layouts import defs
from tb.scenarios.collisions import beyond_rq, beyond_sq, index_of, moved
from tb.scenarios.peer import Peer, await_quiet_end

if TYPE_CHECKING:
    from random import Random

STATUS, STATE = defs.IoCompStatus, defs.AdminQpState


def after_response(backend: Any, **wanted: Any) -> dict[str, Any]:
    """Returns the events since the last call that follow the last admin response and have these
    fields; `wanted` is {name of event: {field: value}}. The time of an event is that of its host
    write."""
    events = backend.events()
    last = of_kind(events, "acq")[-1]["cycle"]
    return {name: where(events[events["cycle"] > last], name, **fields)
            for name, fields in wanted.items()}  # fmt: skip


def nothing_after_a_reset(backends: Sequence[Any], rng: Random, turns: int = 12) -> None:
    """Resets a queue pair under sends and receives: neither a CQE nor a counter value follows the
    response.

    The host must accept writes so slowly that a RESET of an idle queue pair takes less time than
    a write.
    """
    node, backend = Node(backends[0]), backends[0]
    # Nothing polls the CQ, so that it has space for all CQEs.
    end = Endpoint(node, depth=4, cq=node.context.create_cq(8 * turns))
    counter = node.context.create_counter()
    counter.attach(end.qp, SENDS, RECEIVES)
    for turn in range(turns):
        for number in range(4):
            end.receive(64, wr_id=number)
        end.qp.post_send_many(np.arange(4), **end.towards(end), inline=b"completes or not")
        backend.pause(300 + rng.randrange(1000))
        backend.events()
        end.qp.modify(STATE.RESET)
        backend.settle()
        late = after_response(backend, cqe={"qpn": index_of(end.qp)}, ecw={})
        assert not any(map(len, late.values())), (turn, late)
        end.qp.to_rts(QKEY)


def nothing_after_a_reset_in_error(
    backends: Sequence[Any],
    rng: Random,
    turns: int = 6,
    receives: int = 32,
) -> None:
    """Resets a queue pair in ERR while its receives flush: no CQE follows the response.

    The host accepts no write until the device waits for the end of the flush, and then accepts
    writes slowly.
    """
    node, backend = Node(backends[0]), backends[0]
    native = backend.link.native
    # Nothing polls the CQ, so that it has space for all CQEs.
    end = Endpoint(node, depth=receives, cq=node.context.create_cq(receives * turns))
    for turn in range(turns):
        for number in range(receives):
            end.receive(64, wr_id=number)
        backend.settle()
        native.knobs(0, wr_hold=1)
        backend.stores([beyond_rq(end)])
        backend.pause(1000 + rng.randrange(100))
        backend.events()
        node.context.enter_kernel()
        command = node.driver.submit(moved(end, STATE.RESET))
        backend.pause(1000)
        native.knobs(0, wr_hold=0, wr_stall=65_300)
        node.driver.finish(command)
        native.knobs(0, wr_stall=0)
        backend.settle()
        late = after_response(backend, cqe={"qpn": index_of(end.qp)})["cqe"]
        assert not len(late), (turn, late)
        end.qp.modify(STATE.RESET)
        end.qp.to_rts(QKEY)


def regions_go_under_receives(
    backends: Sequence[Any],
    rng: Random,
    turns: int = 6,
    messages: int = 12,
    size: int = 2000,
) -> None:
    """Deregisters the memory of receives while payload is written; the host releases the memory at
    the response. The host must accept writes slowly."""
    node, backend = Node(backends[0]), backends[0]
    end, peer = Endpoint(node), Peer(backend)
    await_quiet_end(backend)
    for _ in range(turns):
        for number in range(messages):
            end.receive(size, wr_id=number, offset=number * size)
        backend.settle()
        for number in range(messages):
            peer.send(end, pattern(size, number))
        backend.pause(300 + rng.randrange(1500))
        end.buffer.dereg()
        end.cq.wait_for(messages)
        backend.settle()
        end.buffer = node.pd.reg_mr(messages * size)


def flushes_beside_receives(
    backends: Sequence[Any],
    _rng: Random,
    messages: int = 56,
    flushed: int = 8,
) -> None:
    """Flushes the receives of a queue pair while another receives many messages: the flushed ones
    do not wait for the end of the messages. The host must accept writes slowly."""
    node, backend = Node(backends[0]), backends[0]
    gone, stays, peer = Endpoint(node), Endpoint(node), Peer(backend)
    for number in range(flushed):
        gone.receive(64, wr_id=number)
    for number in range(messages):
        stays.receive(64, wr_id=number)
    await_quiet_end(backend)
    backend.events()
    for _ in range(messages):
        peer.send(stays)
    backend.stores([beyond_rq(gone)])
    assert set(gone.cq.wait_for(flushed)["status"]) == {STATUS.FLUSHED}
    assert set(stays.cq.wait_for(messages)["status"]) == {STATUS.OK}
    backend.settle()
    events = backend.events()
    last = {end: where(events, "cqe", qpn=index_of(end.qp))[-1]["cycle"] for end in (gone, stays)}
    assert last[gone] < last[stays], last


def completions_at_full_rate(backends: Sequence[Any], _rng: Random, sends: int = 250) -> None:
    """Flushes many sends while the host accepts no write: afterwards one CQE is written per cycle,
    also to a CQ in interrupt mode."""
    node, backend = Node(backends[0]), backends[0]
    native = backend.link.native
    there = {"ah": node.ah_of(20), "dest_qp": 5, "qkey": QKEY}
    for events in (False, True):
        end = Endpoint(node, depth=256, events=events)
        end.qp.post_send_many(np.arange(sends), **there, inline=b"to nobody")
        backend.settle()
        backend.events()
        native.knobs(0, wr_hold=1)
        backend.stores([beyond_sq(end)])
        backend.pause(4000)
        native.knobs(0, wr_hold=0)
        assert set(end.cq.wait_for(sends)["status"]) == {STATUS.FLUSHED}
        backend.settle()
        times = of_kind(backend.events(), "cqe")["cycle"]
        # The first CQE waits in the device for the host.
        span = times[-1] - times[4]
        assert span < 1.2 * sends, (events, span)


def rings_beside_errors(
    backends: Sequence[Any],
    rng: Random,
    rounds: int = 3,
    broken: int = 24,
) -> None:
    """Creates and resets queue pairs while others break: their receive rings work as before."""
    node, backend = Node(backends[0]), backends[0]
    cq = node.context.create_cq(1024)
    ends = [Endpoint(node, depth=4, cq=cq) for _ in range(broken + 8)]
    bad, good = ends[:broken], ends[broken:]
    for turn in range(rounds):
        node.context.enter_kernel()
        commands = [node.driver.submit(moved(end, STATE.RESET)) for end in good]
        backend.pause(rng.randrange(300))
        for end in bad:
            backend.stores([beyond_rq(end)])
        for command in commands:
            node.driver.finish(command)
        for end in ends:
            end.qp.modify(STATE.RESET)
            end.qp.to_rts(QKEY)
        for end in good:
            end.receive(64, wr_id=turn)
            end.send(end, pattern(40, turn), wr_id=turn)
            assert set(cq.wait_for(2)["status"]) == {STATUS.OK}, turn
