# SPDX-License-Identifier: Apache-2.0
"""Runs resets within traffic, and long random traffic of all kinds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from efa_cosim.host.endpoints import QKEY, SRD, UD, Endpoint, Node, pattern
from efa_cosim.layouts import defs
from tb.lib.at_once import at_once
from tb.scenarios.reliable import nodes_of

if TYPE_CHECKING:
    from random import Random
STATUS, STATE = defs.IoCompStatus, defs.AdminQpState
QPS_PER_CQ = 8
SLOT_BYTES = 256


def resets_under_load(backends: Sequence[Any], rng: Random) -> None:
    """Resets the device by register or FLR under sends, receives and commands."""
    for turn in range(8):
        node = Node(backends[0], seed=turn)
        a, b = Endpoint(node), Endpoint(node)
        for number in range(30):
            b.receive(2000, wr_id=number, offset=2048 * number)
        for number in range(20):
            a.send(
                b, pattern(rng.choice((20, 500, 2000)), number), wr_id=number, offset=2048 * number
            )
        for _ in range(5):
            node.driver.submit(defs.AdminAllocPdCmd())
        backends[0].pause(rng.randrange(600))
        if turn % 2:
            backends[0].flr()
        else:
            node.driver.reset()
        backends[0].settle()
        backends[0].interrupts()


def every_queue(backends: Sequence[Any], rng: Random, share: int = 1) -> None:
    """Sends on all queue pairs of the device to near and far peers.

    Then moves all queue pairs to ERR with outstanding receives, and to RESET. With a `share`, it
    creates all queue pairs and uses one of so many, with their completion queues.
    """
    node = Node(backends[0])
    most = node.driver.queue_attr.max_qp
    first = rng.randrange(share)
    all_cqs = [node.context.create_cq(8 * QPS_PER_CQ) for _ in range(most // QPS_PER_CQ)]
    created = at_once(node.driver, [
        partial(node.pd.create_qp, cq, cq, UD if n == 0 else SRD, max_send_wr=4, max_recv_wr=4)
        for cq in all_cqs for n in (*range(4), *range(4))
    ])  # fmt: skip
    cqs = all_cqs[first::share]
    qps = [qp for qp in created if qp.send_cq in cqs]
    count = len(qps)
    at_once(node.driver, [partial(qp.to_rts, QKEY) for qp in qps])
    buffer = node.pd.reg_mr(SLOT_BYTES * count)
    ids = np.arange(2)
    buffer.write(0, pattern(SLOT_BYTES * count, 1))
    # A multiple of four: the peer is of the same kind.
    for step in (4, count // 2 + 4):
        for n, qp in enumerate(qps):
            at = buffer.addr + SLOT_BYTES * n + 128 + 64 * ids
            qp.post_recv_many(ids, at, 64, buffer.l_key)
        order = list(range(count))
        rng.shuffle(order)
        for n in order:
            piece = (buffer.addr + SLOT_BYTES * n, 24, buffer.l_key)
            peer = qps[(n + step) % count]
            qps[n].post_send_many(ids, ah=node.ah_of(node.backend.node_id), dest_qp=peer.number,
                                  qkey=QKEY, sges=[piece])  # fmt: skip
        for cq in cqs:
            assert not cq.wait_for(4 * QPS_PER_CQ)["status"].any()
    for n, qp in enumerate(qps):
        qp.post_recv_many(ids, buffer.addr + SLOT_BYTES * n + 64 * ids, 64, buffer.l_key)
    at_once(node.driver, [partial(qp.modify, STATE.ERR) for qp in qps])
    for cq in cqs:
        assert (cq.wait_for(2 * QPS_PER_CQ)["status"] == STATUS.FLUSHED).all()
    at_once(node.driver, [partial(qp.modify, STATE.RESET) for qp in qps])


def everything(backends: Sequence[Any], rng: Random, rounds: int = 40, queues: int = 12) -> None:
    """Sends on queues of all kinds and depths, all sizes, all devices; each round is checked."""
    nodes = nodes_of(backends)
    limit = nodes[0].driver.mtu
    ends = [
        Endpoint(nodes[n % len(nodes)], rng.choice((UD, SRD)), depth=32,
                 entry_bytes=rng.choice((16, 32)), max_inline=rng.choice((32, 80)),
                 max_recv_sge=rng.choice((1, 2)))
        for n in range(queues)
    ]  # fmt: skip
    for turn in range(rounds):
        expected = dict.fromkeys(ends, 0)
        plan: list[Any] = []
        for a in ends:
            peers = [end for end in ends if end.kind == a.kind]
            b = rng.choice(peers)
            if any(b is other for _, other, _ in plan):
                continue
            plan.append((a, b, rng.randrange(1, 9)))
        for a, b, count in plan:
            for number in range(count):
                split = rng.randrange(limit) if b.qp.max_recv_sge == 2 else None
                b.receive(limit, wr_id=number, offset=9100 * number, split=split)
            expected[a] += count
            expected[b] += count
        for a, b, count in plan:
            for number in range(count):
                size = rng.choice((0, 7, 32, 64, 200, 1500, limit))
                inline = size <= a.qp.max_inline
                a.send(b, pattern(size, turn * 64 + number), wr_id=number,
                       offset=100_000 + 9000 * number, inline=inline,
                       split=rng.randrange(size) if size and not inline else None,
                       imm=rng.choice((None, turn)))  # fmt: skip
        for end, count in expected.items():
            if count:
                done = end.cq.wait_for(count)
                assert set(np.unique(done["status"])) == {STATUS.OK}
    for backend in backends:
        backend.settle()
