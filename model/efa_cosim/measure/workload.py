# SPDX-License-Identifier: Apache-2.0
"""Sweeps message size and queue count with the project's own driver; measures by events.

The data or the completion of every message is checked. Times are device cycles from the device's
events, not from the host's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import numpy as np

from efa_cosim.boundary.backend import Backend
from efa_cosim.host.endpoints import SRD, UD, Endpoint, Node, pattern
from efa_cosim.layouts import defs
from efa_cosim.measure.latencies import latencies, rate
from efa_cosim.measure.record import Measurement, Mismatch

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Reports the point that is measured next.
Progress: TypeAlias = Callable[[str], object]

FLIT_BYTES = 64
HEADER_BYTES = defs.PktHdr.SIZE
INLINE_BYTES = defs.LIMITS.inline_64
LATENCY_SIZES = (0, 8, 32, 33, 64, 256, 1024, 2048, 4096)
RATE_SIZES = (8, 32, 64, 256, 1024, 4096)
HOST_READ_LATENCY = 125
QUEUES = (1, 2, 4, 8, 16)
MESSAGES = 8
# The burst is long enough that the latency of its first message has little effect.
LEAST_PER_QUEUE, MOST_PER_QUEUE, BURST = 128, 512, 1024


class _Observed(Protocol):
    """A backend with the events of its device, which are no part of the interface."""

    def settle(self) -> None:
        """Runs device and fabric until nothing is outstanding."""

    def events(self) -> NDArray[Any]:
        """Returns the events since the last call."""


def flits(size: int) -> int:
    """64-byte beats of a data packet with `size` bytes of payload."""
    return -(-(HEADER_BYTES + size) // FLIT_BYTES)


def rate_limit(kind: int, size: int, batch: int, sq_host: int = 0) -> float:
    """Messages per cycle that the busiest port permits if both ends are the same device.

    m_net carries data and, for SRD, a one-flit acknowledgement. m_dma_wr carries the payload (the
    GRH of a datagram is a separate write) and two CQEs. s_mmio carries a WQE, unless it is in host
    memory, and its share of a doorbell."""
    srd = kind == SRD
    net = flits(size) + (1 if srd else 0)
    writes = -(-size // FLIT_BYTES) + (0 if srd else 1) + 2
    mmio = (0 if sq_host else 1) + 1 / batch
    return 1 / max(net, writes, mmio)


def latency_point(
    node: Node, kind: defs.AdminQpType, size: int, count: int = MESSAGES
) -> Measurement:
    """Median latency in cycles of one message at a time on an idle device; raises Mismatch."""
    backend, (a, b) = cast(_Observed, node.backend), (Endpoint(node, kind), Endpoint(node, kind))
    backend.settle()
    backend.events()
    for number in range(count):
        data = pattern(size, number)
        b.receive(size, wr_id=number)
        backend.settle()
        a.send(b, data, wr_id=number, inline=size <= INLINE_BYTES)
        got, sent = b.cq.wait_for(1)[0], a.cq.wait_for(1)[0]
        if got["status"] or sent["status"] or b.buffer.read(b.skip, size) != data:
            raise Mismatch(f"latency, {kind.name}, {size} bytes: message {number} of {count}: "
                           f"expected status 0 and equal data, got status {sent['status']} (send) "
                           f"and {got['status']} (receive), or other data")
    backend.settle()
    cycles = latencies(backend.events(), index_of(a), index_of(b), kind == SRD)
    destroy(a, b)
    return Measurement("latency", "median", float(np.median(cycles)), "cycles", count,
                       **setting(node, kind, size, 1))


def setting(node: Node, kind: defs.AdminQpType, size: int, queues: int) -> dict[str, Any]:
    """Returns the configuration of messages that the driver posts at once, as Measurement has it.
    """
    return {"kind": kind.name, "size": size, "queues": queues, "depth": 0, "batch": 0,
            "host_read_latency": HOST_READ_LATENCY, "backend": node.backend.name}


def latency_sweep(
    node: Node,
    sizes: Sequence[int] = LATENCY_SIZES,
    kinds: Sequence[defs.AdminQpType] = (UD, SRD),
    progress: Progress | None = None,
) -> list[Measurement]:
    """Measurements of latency_point for each QP type and size; raises as latency_point does."""
    measurements = []
    for kind in kinds:
        for size in sizes:
            _report(progress, f"latency, {kind.name}, {size} bytes")
            measurements.append(latency_point(node, kind, size))
    return measurements


def per_queue_of(queues: int) -> int:
    """Number of messages that each queue posts at once."""
    return max(LEAST_PER_QUEUE, min(MOST_PER_QUEUE, BURST // queues))


def rate_point(node: Node, kind: defs.AdminQpType, size: int, queues: int) -> Measurement:
    """Message rate of queues that send to their neighbours, all messages posted at once.

    Raises Mismatch."""
    backend, per_queue = cast(_Observed, node.backend), per_queue_of(queues)
    ends = [Endpoint(node, kind, depth=2 * per_queue) for _ in range(queues)]
    ids = np.arange(per_queue)
    for end in ends:
        end.buffer.write(0, pattern(size, 1))
        end.qp.post_recv_many(ids, end.buffer.addr + 8192, end.skip + size, end.buffer.l_key)
    backend.settle()
    backend.events()
    for end, peer in zip(ends, ends[1:] + ends[:1], strict=True):
        how = {"inline": pattern(size, 1)} if size <= INLINE_BYTES else {
            "sges": [(end.buffer.addr, size, end.buffer.l_key)]}
        end.qp.post_send_many(ids, **end.towards(peer), **how)
    what = f"rate, {kind.name}, {size} bytes, {queues} queues"
    for end in ends:
        done = end.cq.wait_for(2 * per_queue)
        if done["status"].any():
            raise Mismatch(f"{what}: completions with status {sorted(set(done['status']) - {0})}, "
                           "expected 0")
    backend.settle()
    value, messages = rate(backend.events())
    if messages != queues * per_queue:
        raise Mismatch(f"{what}: {messages} messages arrived, {queues * per_queue} were sent")
    if any(end.buffer.read(8192 + end.skip, size) != pattern(size, 1) for end in ends):
        raise Mismatch(f"{what}: data differs from the data sent")
    destroy(*ends)
    limit = rate_limit(kind, size, node.driver.queue_attr.max_tx_batch)
    return Measurement("message rate", "mean", value, "messages/cycle", messages, limit,
                       **setting(node, kind, size, queues))


def rate_sweep(
    node: Node,
    sizes: Iterable[int] = RATE_SIZES,
    queues: Sequence[int] = QUEUES,
    kinds: Sequence[defs.AdminQpType] = (UD, SRD),
    progress: Progress | None = None,
) -> list[Measurement]:
    """Rates against size with the most queues, and against queues at 32 bytes; raises Mismatch."""
    most = max(queues)
    points = [(kind, size, most) for kind in kinds for size in sizes]
    points += [(kind, INLINE_BYTES, count) for kind in kinds for count in queues if count != most]
    measurements = []
    for kind, size, count in points:
        _report(progress, f"rate, {kind.name}, {size} bytes, {count} queues")
        measurements.append(rate_point(node, kind, size, count))
    return measurements


def _report(progress: Progress | None, text: str) -> None:
    if progress:
        progress(text)


def new_node(backend: Backend, seed: int = 1) -> Node:
    """Creates a driver and one process on a backend; raises DriverError if the device refuses."""
    return Node(backend, seed=seed)


def index_of(end: Endpoint) -> int:
    """Index of a queue pair, as in events."""
    index: int = end.qp.number & ((1 << defs.LIMITS.qpn_w) - 1)
    return index


def destroy(*ends: Endpoint) -> None:
    """Destroys the endpoints."""
    for end in ends:
        end.qp.destroy()
        end.cq.destroy()
        end.buffer.dereg()
