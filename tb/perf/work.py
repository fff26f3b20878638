# SPDX-License-Identifier: Apache-2.0
"""Shares the common steps of make perf: queues, payload, and the end of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from efa_cosim.host.driver_objects import LOCAL_ACCESS, Access
from efa_cosim.layouts import defs
from tb.lib import requests as host
from tb.perf import traffic
from tb.perf.observe import EVENT_MASK, Seen, Steady, steady
from tb.perf.queues import PEER, Buffer, Completions, Device, Make, PerfError, Queue

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

MESSAGES = 16_384
# Messages at the begin and the end of a run that no rate counts. The first wait for the congestion
# window to open, those behind them leave faster than they were posted.
WARM, TAIL = 5_120, 512
IDLE_MESSAGES, IDLE_OPERATIONS = 1_024, 256  # one at a time, operations of RDMA
INLINE = 32  # bytes
# Queues beyond these numbers share completion queues and memory regions.
MOST_CQS, MOST_RECEIVE_CQS, MOST_REGIONS = 64, 16, 32
CQE = int(defs.Ev.CQE)
SEND, RECEIVE = int(defs.IoQueueType.SEND_QUEUE), int(defs.IoQueueType.RECV_QUEUE)
# Far more cycles than a message may take: a hung device fails after this time.
PATIENCE_PER_MESSAGE = 200


@dataclass
class Measured:
    """A value over a number of messages; `more` has additional measurements, `setting` the values
    of the traffic: size in bytes, queues, batch (WQEs per doorbell), wqe_bytes, cqe_bytes, cqs."""

    value: float
    messages: int
    more: dict[str, Any] = field(default_factory=dict)
    setting: dict[str, Any] = field(default_factory=dict)


# Measures one row of make perf on fresh devices.
Measure: TypeAlias = Callable[[Make], Measured]


def opened(make: Make, **knobs: int) -> Device:
    """Returns a fresh device that logs the checked events."""
    device = make(ev_mask=EVENT_MASK, **knobs)
    device.cancel()
    return device


def each_of(queues: int, messages: int | None = None) -> int:
    """Returns the messages per queue, a multiple of every batch."""
    return -(-(messages or MESSAGES) // (queues * 16)) * 16


def pow2(value: int) -> int:
    """Returns the smallest power of two that is not less than `value`."""
    return 1 << max(0, value - 1).bit_length()


def make_queues(
    device: Device,
    queues: int,
    each: int,
    wqe_bytes: int = 64,
    entry_bytes: int = 16,
    cqs: int = MOST_CQS,
    depth: int = 1024,
    rq_depth: int = 1,
) -> list[Queue]:
    """Creates queues for `each` messages, with up to `cqs` send CQs, in the LLQ memory."""
    def rings(most: int) -> list[Completions]:
        count = min(queues, most)
        total = -(-queues // count) * each
        ring = pow2(min(total, defs.LIMITS.max_cq_depth))
        return [device.completions(ring, entry_bytes) for _ in range(count)]

    send, recv = rings(cqs), rings(MOST_RECEIVE_CQS)
    depth = min(depth, device.llq_bytes // wqe_bytes // queues)
    pairs = [(send[n % len(send)], recv[n % len(recv)]) for n in range(queues)]
    return device.queues(pairs, depth, rq_depth, wqe_bytes)


def buffers(
    device: Device, queues: Sequence[Queue], size: int, access: Access = LOCAL_ACCESS
) -> list[Buffer]:
    """Returns `size` bytes of registered memory per queue; neighbours share a region."""
    together = -(-len(queues) // MOST_REGIONS)
    found: list[Buffer] = []
    for first in range(0, len(queues), together):
        count = min(together, len(queues) - first)
        region = device.buffer(count * size, access)
        found += [
            replace(region, base=region.base + n * size, iova=region.iova + n * size, length=size)
            for n in range(count)
        ]
    return found


def send_cqs(queues: Sequence[Queue]) -> list[Completions]:
    """Returns the send CQs of some queues, each once."""
    return list({queue.send_cq.number: queue.send_cq for queue in queues}.values())


def recv_cqs(queues: Sequence[Queue]) -> list[Completions]:
    """Returns the receive CQs of some queues, each once."""
    return list({queue.recv_cq.number: queue.recv_cq for queue in queues}.values())


def inline_requests(
    device: Device,
    queues: Sequence[Queue],
    each: int,
    size: int = INLINE,
    peers: Sequence[int] = (PEER,),
) -> list[np.ndarray]:
    """Returns inline WQEs of each queue; the queues send to the peers in turn."""
    handles = [device.address_of(node) for node in peers]
    return [
        traffic.work_requests(queue, each, handles[place % len(peers)], 0x100 + queue.index,
                              inline=traffic.pattern(queue, np.arange(each), size))
        for place, queue in enumerate(queues)
    ]  # fmt: skip


def memory_requests(
    device: Device, queues: Sequence[Queue], each: int, size: int
) -> list[np.ndarray]:
    """Returns WQEs to the peer with payload in host memory, one buffer per message."""
    ah = device.address_of(PEER)
    found: list[np.ndarray] = []
    for queue, source in zip(queues, buffers(device, queues, each * size), strict=True):
        rows = traffic.pattern(queue, np.arange(each), size)
        device.memory.write(source.base, rows.tobytes())
        iovas = source.iova + np.arange(each) * size
        found.append(traffic.work_requests(queue, each, ah, 0x100 + queue.index,
                                           pieces=[(iovas, size, source.l_key)]))  # fmt: skip
    return found


def post_all_receives(
    device: Device, queues: Sequence[Queue], each: int, size: int
) -> list[Buffer]:
    """Posts a descriptor and a buffer for every message; returns the buffers."""
    spaces = buffers(device, queues, each * size)
    device.post(b"".join(
        traffic.post_receives(device, queue, space.iova + np.arange(each) * size, size, space.l_key)
        for queue, space in zip(queues, spaces, strict=True)
    ))  # fmt: skip
    return spaces


def finish(device: Device, completions: int, what: str, packets: int = 1) -> None:
    """Runs the clock until `completions` CQEs of messages of `packets` packets are written and the
    device is idle."""
    patience = 20_000 + PATIENCE_PER_MESSAGE * completions * packets
    device.run_until(host.events_are(CQE, completions), patience, what)
    device.settle()


def payload(size: int) -> Callable[[Queue, np.ndarray], np.ndarray]:
    """Returns the expected payload for check_sent."""
    return lambda queue, numbers: traffic.pattern(queue, numbers, size)


def stalls(seen: Seen) -> int:
    """Returns the stall cycles of stores over the run."""
    return int(seen.port(host.PIN_MMIO)["b"].sum())


def middle(times: ArrayLike, whole: int = 1) -> Steady:
    """Returns the Steady of a run, over a multiple of `whole` messages."""
    return steady(times, WARM, TAIL, whole)


def sent(
    device: Device,
    ends: Sequence[Queue],
    stream: traffic.Stream,
    whole: int,
    peers: Sequence[int] = (PEER,),
    **setting: int,
) -> Measured:
    """Posts a stream of sends, checks all messages and returns their rate over a multiple of
    `whole` messages; `setting` has the size of a message and more for the record."""
    device.settle()
    device.cancel()
    device.post(stream.requests())
    finish(device, sum(queue.sent for queue in ends), "sends")
    seen = Seen(device.link)
    seen.check_quiet()
    seen.check_completions(ends, device.memory)
    seen.check_sent(ends, payload(setting["size"]), peers)
    out = middle(seen.first_flits_out(), whole)
    seen.check_events("tx_first", out)
    done = middle(seen.completion_times(send_cqs(ends)), whole)
    seen.check_events("cqe", done)
    return Measured(min(out.rate, done.rate), out.messages,
                    {"out": out.rate, "completed": done.rate, "stalled_cycles": stalls(seen),
                     **seen.busy(out)}, setting)  # fmt: skip


def check_received(
    device: Device,
    queues: Sequence[Queue],
    spaces: Sequence[Buffer],
    each: int,
    size: int,
    sender: Mapping[int, Queue] | None = None,
) -> None:
    """Checks that each queue's buffers hold the messages sent to the queue."""
    for queue, space in zip(queues, spaces, strict=True):
        source = queue if sender is None else sender[queue.number]
        wanted = traffic.pattern(source, np.arange(each), size).tobytes()
        if device.memory.read(space.base, each * size) != wanted:
            raise PerfError(f"queue {queue.number}: received bytes differ")
