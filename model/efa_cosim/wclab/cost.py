# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of a store buffer: beats on the bus and, on a simulator, cycles."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any, cast

import numpy as np

from efa_cosim.boundary.backend import Backend
from efa_cosim.host.endpoints import QKEY, SRD, Node
from efa_cosim.host.wc import POLICIES, StoreBuffer
from efa_cosim.wclab.trace import DB, LLQ, SHOWN, Item, Tap

LINES, DEPTH, WRAPS, ALONE = 10, 64, 6, 20
BATCHES = (1, 16)
INLINE = {64: 32, 128: 80}


def costs(backend: Backend) -> list[dict[str, Any]]:
    """Returns a row per policy, WQE size and batch; the backend must be opened with record=True.

    Raises AssertionError if a send fails."""
    return [_cost(backend, policy, entry_bytes, batch)
            for policy in POLICIES for entry_bytes in INLINE for batch in BATCHES]


def _cost(backend: Backend, policy: str, entry_bytes: int, batch: int) -> dict[str, Any]:
    tap = Tap(backend)
    # A Tap is a backend: it passes all other calls through.
    node = Node(cast(Backend, tap), StoreBuffer(policy, LINES), seed=1)
    context, pd = node.context, node.pd
    cqs = [context.create_cq(4 * DEPTH) for _ in range(2)]
    sender = pd.create_qp(cqs[0], cqs[0], SRD, max_send_wr=DEPTH, max_recv_wr=1,
                          max_inline=INLINE[entry_bytes]).to_rts(QKEY)
    receiver = pd.create_qp(cqs[1], cqs[1], SRD, max_send_wr=1, max_recv_wr=DEPTH).to_rts(QKEY)
    region = pd.reg_mr(128)
    to = {"ah": node.ah_of(tap.node_id), "dest_qp": receiver.number, "qkey": QKEY,
          "inline": bytes(INLINE[entry_bytes])}
    shape = tap.watch(sender)

    def wrap(count: int, batch: int) -> list[Item]:
        """Posts `count` messages in batches and waits until idle; returns the trace items."""
        receiver.post_recv_many(np.arange(count), region.addr, 128, region.l_key)
        tap.settle()
        tap.look()
        tap.items.clear()
        for _ in range(0, count, batch):
            sender.post_send_many(np.arange(batch), **to)
        tap.settle()
        tap.look()
        items = list(tap.items)
        if sender.send_cq.wait_for(count)["status"].any():
            raise AssertionError(f"cost, {policy}: a send failed, expected status 0 for each")
        receiver.recv_cq.wait_for(count)
        return items

    per_batch = min(batch, sender.batch)
    wraps = [wrap(DEPTH, per_batch) for _ in range(WRAPS)]
    alone = [wrap(1, 1) for _ in range(ALONE)] if batch == 1 else []
    tap.leave(shape)
    entries = WRAPS * DEPTH
    row: dict[str, Any] = {
        "backend": backend.name, "policy": policy, "lines": LINES, "entry_bytes": entry_bytes,
        "batch": per_batch, "entries": entries,
        "beats": _count(wraps, LLQ) / entries, "doorbells": _count(wraps, DB) / entries,
        "limit": entry_bytes / 64 + 1 / per_batch,
    }  # fmt: skip
    if backend.cycles:
        row["bus_cycles"] = sum(_span(one, "llq") + 1 for one in wraps) / entries
        row["out_cycles"] = statistics.median(
            (_span(one, "tx_last") - 1) / (DEPTH - 1) for one in wraps)
        row["alone_cycles"] = statistics.median(_first_to_out(one) for one in alone) \
            if alone else None
    for qp, cq in ((sender, cqs[0]), (receiver, cqs[1])):
        qp.destroy()
        cq.destroy()
    region.dereg()
    return row


def _count(wraps: Iterable[Iterable[Item]], kind: str) -> int:
    return sum(item.kind == kind for items in wraps for item in items)


def _cycles(items: Iterable[Item], name: str) -> list[int]:
    return [item.data["cycle"] for item in items if item.kind == SHOWN and item.what == name]


def _span(items: Iterable[Item], name: str) -> int:
    """Returns the cycles from the first to the last occurrence of an event, both included."""
    cycles = _cycles(items, name)
    return max(cycles) - min(cycles) + 1


def _first_to_out(items: Iterable[Item]) -> int:
    """Returns the cycles from the first store of a WQE to the last flit of its packet."""
    return _cycles(items, "tx_last")[0] - min(_cycles(items, "llq"))
