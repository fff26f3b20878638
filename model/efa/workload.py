"""Sweeps over message size and queue count with the project's own driver, measured by events.

Every message's data or completion is checked; times are cycles of the device, taken from what it
shows of itself, never from the host's clock.
"""

from dataclasses import asdict, dataclass

import numpy as np

from efa import defs
from efa.endpoints import SRD, UD, Endpoint, Node, pattern
from efa.waterfall import latencies, rate, waterfall

CLOCK_MHZ = 250
FLIT_BYTES = 64
HEADER_BYTES = defs.PktHdr.SIZE
INLINE_BYTES = defs.LIMITS.inline_64
LATENCY_SIZES = (0, 8, 32, 33, 64, 256, 1024, 2048, 4096)
RATE_SIZES = (8, 32, 64, 256, 1024, 4096)
QUEUES = (1, 2, 4, 8, 16)
DEPTH = 128


class Mismatch(Exception):
    """A message did not arrive as it was sent."""


@dataclass(frozen=True)
class Figure:
    """One measured number; limit: what the ports allow at best, None where nothing does."""

    name: str
    value: float
    unit: str
    messages: int
    limit: float | None = None
    kind: str = ""
    size: int = 0
    queues: int = 1

    def as_dict(self):
        """Plain values for JSON."""
        return asdict(self)


def flits(size):
    """64-byte beats of a data packet."""
    return -(-(HEADER_BYTES + size) // FLIT_BYTES)


def rate_limit(kind, size, batch):
    """Messages per cycle that the busiest port allows when both ends are the same device.

    m_net carries data and, for SRD, a one-flit acknowledgement; m_dma_wr the payload (a datagram's
    GRH is a write of its own) and two completion entries; s_mmio an entry and its share of a
    doorbell."""
    srd = kind == SRD
    net = flits(size) + (1 if srd else 0)
    writes = -(-size // FLIT_BYTES) + (0 if srd else 1) + 2
    mmio = 1 + 1 / batch
    return 1 / max(net, writes, mmio)


def latency_sweep(node, sizes=LATENCY_SIZES, kinds=(UD, SRD), count=8, progress=None):
    """Latency of one message at a time: Figures in cycles, and the waterfall of a 64-byte SRD."""
    figures, stages = [], []
    backend = node.backend
    for kind in kinds:
        a, b = Endpoint(node, kind), Endpoint(node, kind)
        for size in sizes:
            if progress:
                progress(f"latency, {kind.name}, {size} bytes")
            backend.settle()
            backend.events()
            for number in range(count):
                data = pattern(size, number)
                b.receive(size, wr_id=number)
                backend.settle()
                a.send(b, data, wr_id=number, inline=size <= INLINE_BYTES)
                got = b.cq.wait_for(1)[0]
                a.cq.wait_for(1)
                if got["status"] or b.buffer.read(b.skip, size) != data:
                    raise Mismatch(f"{kind.name}, {size} bytes, message {number}")
            backend.settle()
            qpn, peer = index_of(a), index_of(b)
            events = backend.events()
            cycles = latencies(events, qpn, peer, kind == SRD)
            figures.append(Figure(
                "latency", float(np.median(cycles)), "cycles", count, None, kind.name, size))
            if kind == SRD and size == 64:
                b.receive(size)
                backend.settle()
                backend.events()
                a.send(b, pattern(size, 99))
                b.cq.wait_for(1)
                a.cq.wait_for(1)
                backend.settle()
                stages = waterfall(backend.events(), qpn, peer, True)
        destroy(a, b)
    return figures, stages


def rate_point(node, kind, size, queues, per_queue=DEPTH):
    """Message rate of queues that send to their neighbours, everything posted at once."""
    backend = node.backend
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
    for end in ends:
        done = end.cq.wait_for(2 * per_queue)
        if done["status"].any():
            raise Mismatch(f"{kind.name}, {size} bytes, {queues} queues: status {done['status']}")
    backend.settle()
    value, messages = rate(backend.events())
    if any(end.buffer.read(8192 + end.skip, size) != pattern(size, 1) for end in ends):
        raise Mismatch(f"{kind.name}, {size} bytes, {queues} queues: data differs")
    destroy(*ends)
    batch = node.driver.queue_attr.max_tx_batch
    return Figure("message rate", value, "messages/cycle", messages,
                  rate_limit(kind, size, batch), kind.name, size, queues)


def rate_sweep(node, sizes=RATE_SIZES, queues=QUEUES, kinds=(SRD,), progress=None):
    """Rate against size at the most queues, and against queues at 32 bytes."""
    most = max(queues)
    points = [(kind, size, most) for kind in kinds for size in sizes]
    points += [(kind, INLINE_BYTES, count) for kind in kinds for count in queues if count != most]
    figures = []
    for kind, size, count in points:
        if progress:
            progress(f"rate, {kind.name}, {size} bytes, {count} queues")
        figures.append(rate_point(node, kind, size, count))
    return figures


def new_node(backend, seed=1):
    """Driver and one process on a backend."""
    return Node(backend, seed=seed)


def index_of(end):
    """Index of a queue pair, as events show it."""
    return end.qp.number & ((1 << defs.LIMITS.qpn_w) - 1)


def destroy(*ends):
    """Gives the endpoints back."""
    for end in ends:
        end.qp.destroy()
        end.cq.destroy()
        end.buffer.dereg()
