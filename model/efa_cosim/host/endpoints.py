# SPDX-License-Identifier: Apache-2.0
"""Sets up processes and kernel drivers that send and receive; used by sweeps and system tests."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypedDict

from efa_cosim.host.driver import Driver
from efa_cosim.host.queue_pair import SendWr, Sge
from efa_cosim.host.verbs import Context, gid_of
from efa_cosim.layouts import defs

if TYPE_CHECKING:
    from efa_cosim.boundary.backend import Backend
    from efa_cosim.host.completion_queue import CompletionQueue
    from efa_cosim.host.provider import Provider
    from efa_cosim.host.verbs import AddressHandle, ProtectionDomain
    from efa_cosim.host.wc import StoreBuffer

UD, SRD = defs.AdminQpType.UD, defs.AdminQpType.SRD
QKEY = 0x1234
GRH = defs.LIMITS.grh_bytes
BUFFER_BYTES = 1 << 18


class Destination(TypedDict):
    """The destination arguments of a send, as for `SendWr`."""

    ah: int
    dest_qp: int
    qkey: int


class Endpoint:
    """One queue pair in RTS with its CQ and 256 KiB of registered memory.

    - `node`: the `Node` that it belongs to
    - `kind`: SRD or UD
    - `depth`: outstanding sends, and outstanding receives
    - `entry_bytes`, `events`, `cq`: the CQ, a new one by default
    - `options`: as for `QueuePair`

    Attributes: `qp`, `cq`, `buffer` (a `RegisteredRegion`), `skip` (bytes before the payload of a
    receive: 40 for UD, else 0).
    """

    def __init__(
        self,
        node: Node,
        kind: defs.AdminQpType = SRD,
        depth: int = 64,
        entry_bytes: int = 32,
        events: bool = False,
        cq: CompletionQueue | None = None,
        **options: Any,
    ) -> None:
        self.node, self.kind, self.depth = node, kind, depth
        self.context, self.pd = node.context, node.pd
        self.cq = cq or node.context.create_cq(4 * depth, entry_bytes=entry_bytes, events=events)
        self.qp = node.pd.create_qp(
            self.cq, self.cq, kind, max_send_wr=depth, max_recv_wr=depth, **options
        ).to_rts(QKEY)
        self.buffer = node.pd.reg_mr(BUFFER_BYTES, scattered=True)
        self.skip = GRH if kind == UD else 0

    def towards(self, peer: Endpoint) -> Destination:
        """Returns the destination arguments of a send to a peer endpoint: ah, dest_qp, qkey."""
        return {
            "ah": self.node.ah_of(peer.node.backend.node_id),
            "dest_qp": peer.qp.number,
            "qkey": QKEY,
        }

    def sge(self, offset: int, length: int) -> Sge:
        """Returns the `Sge` of a range of the registered buffer."""
        return Sge(self.buffer.addr + offset, length, self.buffer.l_key)

    def send(
        self,
        peer: Endpoint,
        data: bytes,
        wr_id: int = 0,
        offset: int = 0,
        split: int | None = None,
        inline: bool = False,
        imm: int | None = None,
    ) -> None:
        """Sends one message (bytes) from the buffer at `offset`, in one or two ranges, or inline.

        `split` is the size of the first range. Raises as QueuePair.post_send does.
        """
        if inline:
            self.qp.post_send(SendWr(**self.towards(peer), inline=data, wr_id=wr_id, imm=imm))
            return
        self.buffer.write(offset, data)
        cut = len(data) if split is None else split
        pieces = [self.sge(offset, cut)]
        if split is not None:
            pieces.append(self.sge(offset + cut, len(data) - cut))
        self.qp.post_send(SendWr(**self.towards(peer), sges=pieces, wr_id=wr_id, imm=imm))

    def receive(
        self, size: int, wr_id: int = 0, offset: int = 0, split: int | None = None
    ) -> None:
        """Posts a receive for so many payload bytes at `offset` of the buffer; `split` is the size
        of the first range."""
        space = self.skip + size
        cut = space if split is None else split
        pieces = [self.sge(offset, cut)]
        if split is not None:
            pieces.append(self.sge(offset + cut, space - cut))
        self.qp.post_recv(pieces, wr_id=wr_id)


class Node:
    """A driver and one process on a device.

    - `buffer`, `seed`, `provider`: as for `Context`
    - `options`: as for `Driver`

    Attributes: `backend`, `driver`, `context`, `pd`. Raises DriverError if the device refuses.
    """

    def __init__(
        self,
        backend: Backend,
        buffer: StoreBuffer | str | None = None,
        seed: int = 1,
        provider: Provider | None = None,
        **options: Any,
    ) -> None:
        self.backend = backend
        self.driver = Driver(backend, seed=seed, **options).probe()
        self.context = Context(self.driver, buffer, seed, provider)
        self.use(self.context.alloc_pd())
        self.random = random.Random(seed)

    def ah_of(self, node_id: int) -> int:
        """Returns the number of the address handle of a fabric node; creates it at first use."""
        if node_id not in self._ahs:
            self._ahs[node_id] = self.pd.create_ah(gid_of(node_id))
        return self._ahs[node_id].number

    def destroy_ah_of(self, node_id: int) -> None:
        """Destroys the address handle of a node."""
        self._ahs.pop(node_id).destroy()

    def use(self, pd: ProtectionDomain) -> None:
        """Creates later endpoints and address handles in another protection domain."""
        self.pd = pd
        self._ahs: dict[int, AddressHandle] = {}


def create_all_handles(nodes: Iterable[Node]) -> None:
    """Creates handles of all nodes on all nodes: every receive completion then has a valid AH."""
    for node in nodes:
        for other in nodes:
            node.ah_of(other.backend.node_id)


def pattern(size: int, seed: int) -> bytes:
    """Returns pseudo-random bytes that identify a message."""
    return random.Random(seed).randbytes(size)
