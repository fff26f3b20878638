# SPDX-License-Identifier: Apache-2.0
"""Runs one laboratory seed: a process sends over several queues; a tap and a checker observe."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

import numpy as np

from efa_cosim.boundary.backend import Backend
from efa_cosim.host.completion_queue import VerbsError
from efa_cosim.host.endpoints import QKEY, SRD, Node
from efa_cosim.host.queue_pair import INLINE_64
from efa_cosim.host.verbs import Context
from efa_cosim.host.wc import StoreBuffer
from efa_cosim.layouts import defs
from efa_cosim.wclab.bugs import planted
from efa_cosim.wclab.checker import Checker
from efa_cosim.wclab.explain import breach
from efa_cosim.wclab.trace import DB, LLQ, Item, Tap
from efa_cosim.wclab.verdict import CLEAN, name

# Depth and WQE size of the queues of a run; some rings hold more than max_tx_batch WQEs.
SHAPES = ((4, 64), (8, 64), (32, 64), (8, 128), (16, 128))
LEAST_BYTES, ROOM = 8, 128
_DATA = {defs.PktOpcode.SRD_SEND, defs.PktOpcode.UD_SEND}


@dataclass
class Run:
    """Parameters and results of one run.

    breach: why correct code cannot produce this trace, empty if it can. garbage: packets with a
    payload that was not sent. beats: stores to LLQ memory. digest: of these stores and of
    doorbells, in order.
    """

    bug: str | None
    buffer: str
    seed: int
    backend: str
    verdict: str = CLEAN
    why: str = ""
    breach: str = ""
    device: dict[str, int] = field(default_factory=dict)
    sent: int = 0
    arrived: int = 0
    garbage: int = 0
    entries: int = 0
    units: int = 0
    beats: int = 0
    doorbells: int = 0
    digest: str = ""

    @property
    def right(self) -> bool:
        """Returns True if each message arrived once, in order and unchanged."""
        return self.sent == self.arrived and not self.garbage

    @property
    def found(self) -> bool:
        """Returns True if checker or device report an error."""
        return self.verdict != CLEAN or bool(self.device)

    @property
    def hidden(self) -> bool:
        """Returns True if the bug is not observable: a permitted trace, correct results, no error.
        """
        return not self.breach and self.right and not self.device

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values for JSON."""
        return asdict(self)


def run(backend: Backend, bug: str | None, buffer: StoreBuffer | str, seed: int) -> Run:
    """Plays one seed on a backend opened with record=True; returns the Run. Raises DriverError."""
    buffer = StoreBuffer.of(buffer)
    text = Run(bug, str(buffer), seed, backend.name)
    rng = random.Random(f"laboratory {seed}")
    tap = Tap(backend)
    # A Tap is a backend: it passes all other calls through.
    node = Node(cast(Backend, tap), buffer, seed, planted(bug, seed))
    shapes = rng.sample(SHAPES, len(SHAPES))
    while shapes:
        # One separate queue, or two queues whose WQEs share the lines of the store buffer.
        together, shapes = shapes[:2], shapes[2:]
        flows = [_Flow(node, tap, rng, *shape) for shape in together]
        _play(node.context, tap, rng, flows)
        for flow in flows:
            flow.end(text)
    findings = Checker().check(tap.items)
    text.verdict, text.why = name(findings)
    text.breach = breach(tap.items) or ""
    text.device = dict(findings.device)
    text.beats = sum(item.kind == LLQ for item in tap.items)
    text.doorbells = sum(item.kind == DB for item in tap.items)
    text.digest = _digest(tap.items)
    return text


def _digest(items: Iterable[Item]) -> str:
    state = hashlib.sha256()
    for item in items:
        if item.kind == LLQ:
            state.update(item.what.to_bytes(4, "little") + item.data)
        elif item.kind == DB:
            state.update(f"{item.what.doorbell}:{item.data}".encode())
    return state.hexdigest()[:16]


def _play(context: Context, tap: Tap, rng: random.Random, flows: Sequence[_Flow]) -> None:
    """Fills the rings, queue by queue, until each queue has sent everything or is stuck."""
    going = list(flows)
    while going:
        flow = rng.choice(going)
        if flow.post() and rng.random() < 0.5:
            continue
        tap.settle()
        packets = tap.packets()
        for each in flows:
            each.take(packets)
        going = [each for each in going if each.poll()]
    context.enter_kernel()
    tap.settle()
    packets = tap.packets()
    for each in flows:
        each.take(packets)


class _Flow:
    """One send queue and its receiver, from creation to destruction; the ring wraps repeatedly."""

    def __init__(
        self, node: Node, tap: Tap, rng: random.Random, depth: int, entry_bytes: int
    ) -> None:
        context, pd = node.context, node.pd
        self._tap, self._rng = tap, rng
        self._most = INLINE_64 if entry_bytes == 64 else node.driver.inline_bytes
        self._cqs = [context.create_cq(4 * depth) for _ in range(2)]
        ours, theirs = self._cqs
        self._sender = pd.create_qp(ours, ours, SRD, max_send_wr=depth, max_recv_wr=1,
                                    max_inline=self._most).to_rts(QKEY)
        self._receiver = pd.create_qp(theirs, theirs, SRD, max_send_wr=1,
                                      max_recv_wr=4 * depth).to_rts(QKEY)
        self._region = pd.reg_mr(ROOM)
        self._to = {"ah": node.ah_of(tap.node_id), "dest_qp": self._receiver.number, "qkey": QKEY}
        self._total, self._done = 3 * depth + rng.randrange(depth), 0
        self._posted: list[bytes] = []
        self._went: dict[int, bytes] = {}
        self._shape = tap.watch(self._sender)

    def post(self) -> bool:
        """Posts messages while slots are free; returns True if more can be posted now."""
        rng, left = self._rng, self._total - len(self._posted)
        count = min(self._sender.sq.space, left, rng.randint(1, self._sender.sq_depth))
        if not count:
            return False
        size = rng.randrange(LEAST_BYTES, self._most + 1)
        rows = np.frombuffer(rng.randbytes(count * size), "u1").reshape(count, size)
        region = self._region
        self._receiver.post_recv_many(np.arange(count), region.addr, ROOM, region.l_key)
        self._sender.post_send_many(np.arange(count), **self._to, inline=rows)
        self._posted += [row.tobytes() for row in rows]
        return count < left and bool(self._sender.sq.space)

    def take(self, packets: Iterable[bytes]) -> None:
        """Records the packets of this queue, each of its first transmission."""
        for packet in packets:
            head = defs.PktHdr.unpack(packet)
            if head.opcode in _DATA and head.src_qpn == self._sender.number:
                self._went.setdefault(head.psn, packet[defs.PktHdr.SIZE :][: head.length])

    def poll(self) -> bool:
        """Consumes completions; returns False if all messages are sent, a send failed or is stuck.
        """
        self._receiver.recv_cq.poll_array()
        try:
            ended = self._sender.send_cq.poll_array()
        except VerbsError:
            # A WQE with an unwritten request id completes under another id: an error.
            return False
        self._done += len(ended)
        stuck = not len(ended) and self._done < len(self._posted)
        failed = bool(ended["status"].any())
        return not (stuck or failed or self._done == self._total)

    def end(self, text: Run) -> None:
        """Adds the results to the run and destroys the queue."""
        self._tap.leave(self._shape)
        posted, known = self._posted, set(self._posted)
        text.sent += len(posted)
        text.arrived += sum(a == b for a, b in zip(self._went.values(), posted, strict=False))
        text.garbage += sum(payload not in known for payload in self._went.values())
        text.entries += len(posted)
        text.units += len(posted) * self._shape.entry_bytes // 64
        for qp, cq in zip((self._sender, self._receiver), self._cqs, strict=True):
            qp.destroy()
            cq.destroy()
        self._region.dereg()
