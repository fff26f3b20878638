# SPDX-License-Identifier: Apache-2.0
"""Builds host accesses ahead as arrays: stores, doorbells, and waits for completions.

The native host makes one access per cycle and reads host memory in between. It therefore reuses a
slot only after its completion, without Python in the loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from efa_cosim.host.queue_pair import meta_desc
from efa_cosim.layouts import defs
from efa_cosim.layouts.codec import set_column
from tb.lib import requests as host
from tb.perf.queues import NODE, PEER, QKEY, SESSION, Device, Queue, entries_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

COUNTER_MASK = 0xFFFF
# Most packets before a packet of the peer that are not acknowledged.
MOST_BEHIND = (1 << defs.TRANSPORT.psn_window_w) - 1
STORE, OWN_MEMORY = 0, 5
ALL_LANES = np.uint64(host.U64)
DOORBELL = defs.LIMITS.db_bar


def pattern(queue: Queue, numbers: ArrayLike, size: int) -> np.ndarray:
    """Returns the payload of messages of a queue, (count, size); the bytes differ by message."""
    numbers = np.asarray(numbers, "u8")
    words = -(-size // 8)
    row = numbers[:, None] * np.uint64(0x9E3779B97F4A7C15) + np.arange(words, dtype="u8")
    row += np.uint64(queue.number) << np.uint64(40)
    row *= np.uint64(0xD6E8FEB86659FD93)
    return row.view(np.uint8)[:, :size]


def peer_bytes(addresses: ArrayLike, size: int) -> np.ndarray:
    """Returns `size` bytes of the peer's memory from each address on, (count, size).

    Bytes follow from their address, in words of 8 (tb/native/fabric.cpp). Addresses are multiples
    of 8.
    """
    words = np.asarray(addresses, "u8")[:, None] // np.uint64(8)
    words = words + np.arange(-(-size // 8), dtype="u8")
    return (words * np.uint64(0x9E3779B97F4A7C15)).view(np.uint8)[:, :size]


def work_requests(
    queue: Queue,
    count: int,
    ah: int,
    dest: int,
    inline: np.ndarray | None = None,
    pieces: Sequence[tuple[ArrayLike, int, int]] = (),
) -> np.ndarray:
    """Returns the next `count` send WQEs of a queue.

    `inline` has rows of bytes; `pieces` has (iova array, length, l_key).
    """
    columns: dict[str, Any] = {"length": len(pieces)}
    if inline is not None:
        columns = {"inline_msg": 1, "length": inline.shape[1]}
    wqes = _requests(queue, count, ah, dest, columns)
    if inline is not None:
        wqes["data"]["inline_data"][:, : inline.shape[1]] = inline
    for index, piece in enumerate(pieces):
        _set_buffer(wqes["data"]["sgl"][:, index], *piece)
    return wqes


def rdma_requests(
    queue: Queue,
    count: int,
    ah: int,
    dest: int,
    op: defs.IoSendOpType,
    local: tuple[ArrayLike, int, int],
    remote: tuple[ArrayLike, int],
) -> np.ndarray:
    """Returns the next `count` RDMA WQEs of a queue.

    `local` is (iova array, length, l_key), `remote` (address array, r_key).
    """
    wqes = _requests(queue, count, ah, dest, {"op_type": op, "length": 1})
    rdma = wqes["data"]["rdma_req"]
    _set_buffer(rdma["local_mem"][:, 0], *local)
    addresses, r_key = remote
    rdma["remote_mem"]["length"], rdma["remote_mem"]["rkey"] = local[1], r_key
    _set_address(rdma["remote_mem"], addresses)
    return wqes


def _requests(
    queue: Queue, count: int, ah: int, dest: int, columns: Mapping[str, Any]
) -> np.ndarray:
    """Returns the next `count` WQEs of a queue without data; `columns` are more fields of `meta`.
    """
    wqes = np.zeros(count, queue.wqe.DTYPE)
    wqes[:] = np.frombuffer(queue.wqe(meta=meta_desc()).pack(), queue.wqe.DTYPE)
    numbers = queue.sent + np.arange(count)
    fields: dict[str, Any]
    fields = {"ah": ah, "dest_qp_num": dest, "qkey": QKEY, "req_id": numbers & COUNTER_MASK,
              "phase": numbers // queue.depth % 2, **columns}  # fmt: skip
    for name, values in fields.items():
        set_column(queue.wqe, wqes, f"meta.{name}", np.broadcast_to(values, count))
    return wqes


def _set_buffer(piece: np.ndarray, iova: ArrayLike, length: int, l_key: int) -> None:
    piece["length"], piece["lkey"] = length, l_key
    _set_address(piece, iova)


def _set_address(piece: np.ndarray, address: ArrayLike) -> None:
    address = np.asarray(address, "u8")
    piece["buf_addr_lo"], piece["buf_addr_hi"] = address & 0xFFFF_FFFF, address >> np.uint64(32)


def slot_stores(queue: Queue, first: int, wqes: np.ndarray) -> np.ndarray:
    """Returns stores of complete WQEs from index `first` on, line by line.

    These are LLQ stores, or CPU writes for a queue in host memory.
    """
    lines = entries_of(queue, wqes)
    slots = (first + np.arange(len(wqes))) % queue.depth
    at = slots[:, None] * queue.wqe.SIZE + np.arange(lines.shape[1]) * host.LINE
    at += queue.sq_base or queue.llq
    found = np.zeros(lines.shape[:2], host.REQUEST)
    if queue.sq_base:
        found["kind"], found["a"] = OWN_MEMORY, host.LINE
    else:
        found["kind"], found["bar"], found["be"] = STORE, defs.EFA_MEM_BAR, ALL_LANES
    found["addr"], found["data"] = at, lines
    return found.reshape(-1)


def doorbell(offset: int, value: int) -> bytes:
    """Returns one doorbell store."""
    return host.store(DOORBELL, offset, int(value).to_bytes(4, "little"))


class Stream:
    """Collects accesses in the host's order; `requests` returns all of them."""

    def __init__(self) -> None:
        self._parts: list[np.ndarray] = []

    def add(self, *items: bytes | np.ndarray) -> None:
        """Adds accesses of tb.lib.requests, or arrays of them."""
        for item in items:
            if isinstance(item, bytes):
                item = np.frombuffer(item, host.REQUEST)
            self._parts.append(item)

    def requests(self) -> np.ndarray:
        """Returns all accesses as one array."""
        return np.concatenate(self._parts)

    def send(self, queue: Queue, wqes: np.ndarray) -> None:
        """Stores WQEs to their slots, when the slots are free, and rings one doorbell."""
        self._space(queue, len(wqes))
        self.add(slot_stores(queue, queue.sent, wqes))
        queue.sent += len(wqes)
        queue.send_cq.posted += len(wqes)
        self.ring_sq(queue, queue.sent)

    def ring_all(self, queue: Queue, count: int) -> None:
        """Rings the send doorbell for `count` WQEs that are already in their slots."""
        queue.send_cq.posted += count - queue.sent
        queue.sent = count
        self.ring_sq(queue, count)

    def ring_sq(self, queue: Queue, count: int) -> None:
        """Rings the send doorbell with the producer index `count`."""
        self.add(doorbell(queue.sq_db, count & COUNTER_MASK))

    def _space(self, queue: Queue, count: int) -> None:
        """Waits until the CQ has at most `queue.depth - count` outstanding completions."""
        cq = queue.send_cq
        needed = cq.posted + count - queue.depth
        if needed <= 0:
            return
        self.add(cq.visible(needed - 1))
        # The host reports its consumer index before the device regards the CQ as full.
        if needed - cq.posted >= cq.depth // 2:
            cq.posted = needed
            value = defs.DOORBELL_BITS.CQ_DB.pack(CONSUMER_INDEX=needed & COUNTER_MASK)
            self.add(doorbell(cq.db_offset, value))


def sends_in_turn(
    stream: Stream, queues: Sequence[Queue], wqes: Sequence[np.ndarray], batch: int
) -> None:
    """Posts a batch with a doorbell from each queue in turn, until all WQEs are posted.

    `wqes` has one array per queue; all have the same length, a multiple of `batch`.
    """
    for first in range(0, len(wqes[0]), batch):
        for queue, mine in zip(queues, wqes, strict=True):
            stream.send(queue, mine[first : first + batch])


def post_receives(
    device: Device, queue: Queue, iovas: list[int] | np.ndarray, length: int, l_key: int
) -> bytes:
    """Writes receive descriptors to the ring and returns the doorbell store."""
    count = len(iovas)
    descriptors = np.zeros(count, defs.IoRxDesc.DTYPE)
    iovas = np.asarray(iovas, "u8")
    numbers = queue.received + np.arange(count)
    descriptors["buf_addr_lo"] = iovas & 0xFFFF_FFFF
    descriptors["buf_addr_hi"] = iovas >> np.uint64(32)
    descriptors["length"], descriptors["req_id"] = length, numbers & COUNTER_MASK
    for name, value in (("lkey", l_key), ("first", 1), ("last", 1)):
        set_column(defs.IoRxDesc, descriptors, name, np.broadcast_to(np.uint32(value), count))
    ring = np.frombuffer(device.memory.read(queue.rq_base, queue.rq_depth * 16), "u1")
    ring = ring.reshape(queue.rq_depth, 16).copy()
    ring[numbers % queue.rq_depth] = descriptors.view("u1").reshape(count, 16)
    device.memory.write(queue.rq_base, ring.tobytes())
    queue.received += count
    queue.recv_cq.posted += count
    return doorbell(queue.rq_db, queue.received & COUNTER_MASK)


def rdma_headers(packets: int, **columns: ArrayLike) -> np.ndarray:
    """Returns RDMA headers of packets as rows of bytes; `columns` are their fields."""
    headers = np.zeros(packets, defs.PktRdma.DTYPE)
    for name, values in columns.items():
        headers[name] = values
    return headers.view("u1").reshape(packets, -1)


def data_packets(
    queue: Queue,
    psns: ArrayLike,
    payloads: np.ndarray,
    incarnation: int,
    opcode: defs.PktOpcode = defs.PktOpcode.SRD_SEND,
    node: int = PEER,
) -> list[bytes]:
    """Returns packets of a peer to one of our queues, as bytes; each is a whole message.

    `payloads` has the bytes after the header, with RDMA headers where the opcode has them. The peer
    regards a packet as acknowledged when the window has passed it.
    """
    head = defs.SrdHdr(
        opcode=opcode, length=payloads.shape[1], src_qpn=0x100 + queue.index,
        dst_qpn=queue.number, qkey=QKEY, session=SESSION, incarnation=incarnation, src_node=node,
        dst_node=NODE,
    )  # fmt: skip
    heads = np.frombuffer(head.pack() * len(payloads), defs.SrdHdr.DTYPE).copy()
    heads["psn"], heads["behind"] = psns, np.minimum(psns, MOST_BEHIND)
    packets = np.hstack([heads.view("u1").reshape(len(payloads), -1), payloads])
    return [row.tobytes() for row in packets]
