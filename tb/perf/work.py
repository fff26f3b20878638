# SPDX-License-Identifier: Apache-2.0
"""What the measurements of make perf have in common: queues, payload, and the end of a run."""

from dataclasses import dataclass, field, replace

import numpy as np

from efa import defs
from tb.lib import requests as host
from tb.perf import traffic
from tb.perf.observe import EVENT_MASK, Seen, steady
from tb.perf.queues import PEER, PerfError

MESSAGES = 12_288
# Messages at both ends of a run that no rate counts.
WARM, TAIL = 1_024, 512
IDLE_MESSAGES = 1_024  # one at a time
INLINE = 32  # bytes
# More queues than this share completion queues and memory regions: there are not so many.
MOST_CQS, MOST_RECEIVE_CQS, MOST_REGIONS = 64, 16, 32
CQE = int(defs.Ev.CQE)
SEND, RECEIVE = int(defs.IoQueueType.SEND_QUEUE), int(defs.IoQueueType.RECV_QUEUE)
# Far more cycles than any message may take: a device that stands still is found by it.
PATIENCE_PER_MESSAGE = 200


@dataclass
class Measured:
    """A value over so many messages; `more` are figures beside it."""

    value: float
    messages: int
    more: dict = field(default_factory=dict)


def opened(make, **knobs):
    """A fresh device that keeps the events which are looked at."""
    device = make(ev_mask=EVENT_MASK, **knobs)
    device.cancel()
    return device


def each_of(queues, messages=None):
    """Messages of each queue, a multiple of every batch."""
    return -(-(messages or MESSAGES) // (queues * 16)) * 16


def pow2(value):
    """The power of two that is at least value."""
    return 1 << max(0, value - 1).bit_length()


def make_queues(device, queues, each, wqe_bytes=64, entry_bytes=16, cqs=MOST_CQS, depth=1024,
                rq_depth=1):  # fmt: skip
    """Queues for `each` messages, with up to `cqs` send CQs; the ring is cut to the LLQ memory."""
    def rings(most):
        count = min(queues, most)
        total = -(-queues // count) * each
        ring = pow2(min(total, defs.LIMITS.max_cq_depth))
        return [device.completions(ring, entry_bytes) for _ in range(count)]

    send, recv = rings(cqs), rings(MOST_RECEIVE_CQS)
    depth = min(depth, device.llq_bytes // wqe_bytes // queues)
    pairs = [(send[n % len(send)], recv[n % len(recv)]) for n in range(queues)]
    return device.queues(pairs, depth, rq_depth, wqe_bytes)


def buffers(device, queues, size):
    """So many bytes of registered memory for each queue, in regions that neighbours share."""
    together = -(-len(queues) // MOST_REGIONS)
    found = []
    for first in range(0, len(queues), together):
        count = min(together, len(queues) - first)
        region = device.buffer(count * size)
        found += [
            replace(region, base=region.base + n * size, iova=region.iova + n * size, length=size)
            for n in range(count)
        ]
    return found


def send_cqs(queues):
    """The send completion queues of some queues, each once."""
    return list({queue.send_cq.number: queue.send_cq for queue in queues}.values())


def recv_cqs(queues):
    """The receive completion queues of some queues, each once."""
    return list({queue.recv_cq.number: queue.recv_cq for queue in queues}.values())


def inline_requests(device, queues, each, size=INLINE):
    """Work requests of each queue towards the peer, payload inside."""
    ah = device.address_of(PEER)
    return [
        traffic.work_requests(queue, each, ah, 0x100 + queue.index,
                              inline=traffic.pattern(queue, np.arange(each), size))
        for queue in queues
    ]  # fmt: skip


def memory_requests(device, queues, each, size):
    """Work requests towards the peer that are gathered from host memory, a buffer a message."""
    ah, found = device.address_of(PEER), []
    for queue, source in zip(queues, buffers(device, queues, each * size), strict=True):
        rows = traffic.pattern(queue, np.arange(each), size)
        device.memory.write(source.base, rows.tobytes())
        iovas = source.iova + np.arange(each) * size
        found.append(traffic.work_requests(queue, each, ah, 0x100 + queue.index,
                                           pieces=[(iovas, size, source.l_key)]))  # fmt: skip
    return found


def post_all_receives(device, queues, each, size):
    """A descriptor and a buffer for every message to come; the buffers."""
    spaces = buffers(device, queues, each * size)
    device.post(b"".join(
        traffic.post_receives(device, queue, space.iova + np.arange(each) * size, size, space.l_key)
        for queue, space in zip(queues, spaces, strict=True)
    ))  # fmt: skip
    return spaces


def finish(device, completions, what):
    """Clocks until so many completions were written and all is quiet."""
    patience = 20_000 + PATIENCE_PER_MESSAGE * completions
    device.run_until(host.events_are(CQE, completions), patience, what)
    device.settle()


def payload(size):
    """What check_sent compares messages with."""
    return lambda queue, numbers: traffic.pattern(queue, numbers, size)


def stalls(seen):
    """Cycles in which stores waited, over the whole run."""
    return int(seen.port(host.PIN_MMIO)["b"].sum())


def middle(times):
    """The Steady of a run."""
    return steady(times, WARM, TAIL)


def sent(device, queues, stream, size):
    """Posts a stream of sends; their rate, when all were right."""
    device.settle()
    device.cancel()
    device.post(stream.requests())
    finish(device, sum(queue.sent for queue in queues), "sends")
    seen = Seen(device.link)
    seen.check_quiet()
    seen.check_completions(queues, device.memory)
    seen.check_sent(queues, payload(size))
    out = middle(seen.first_flits_out())
    seen.check_events("tx_first", out)
    done = middle(seen.completion_times(send_cqs(queues)))
    seen.check_events("cqe", done)
    return Measured(min(out.rate, done.rate), out.messages,
                    {"out": out.rate, "completed": done.rate, "stalled_cycles": stalls(seen),
                     **seen.busy(out)})  # fmt: skip


def check_received(device, queues, spaces, each, size, sender=None):
    """What each queue's buffers hold is what was sent to it, message for message."""
    for queue, space in zip(queues, spaces, strict=True):
        source = queue if sender is None else sender[queue.number]
        wanted = traffic.pattern(source, np.arange(each), size).tobytes()
        if device.memory.read(space.base, each * size) != wanted:
            raise PerfError(f"queue {queue.number}: received bytes differ")
