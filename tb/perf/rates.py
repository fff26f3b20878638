# SPDX-License-Identifier: Apache-2.0
"""Measures the rates of make perf: stores, sends, receives, both ways, held completions.

Each function returns a measurement: a function that receives a factory of fresh devices and returns
Measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from efa_cosim.layouts import defs
from tb.lib import requests as host
from tb.perf import traffic, work
from tb.perf.observe import Seen
from tb.perf.queues import NODE, PEER, Device, Make, PerfError, Queue
from tb.perf.work import INLINE, Measure, Measured

# Stores


def llq_stores(make: Make, queues: int = 8, depth: int = 1024) -> Measured:
    """Measures stores of complete lines to unposted slots, then sends the WQEs."""
    device = work.opened(make)
    ends = work.make_queues(device, queues, depth)
    wqes = work.inline_requests(device, ends, depth)
    device.settle()
    stream = traffic.Stream()
    wraps = -(-work.MESSAGES // (queues * depth)) + 1
    for wrap in range(wraps):
        for queue, mine in zip(ends, wqes, strict=True):
            # The last wrap stores the WQEs that are sent; earlier wraps store other data.
            stream.add(traffic.slot_stores(queue, 0, mine if wrap == wraps - 1 else mine[::-1]))
    count = wraps * queues * depth
    device.cancel()
    device.post(stream.requests())
    device.run_until(host.drained(), 64 * count, "LLQ stores")
    seen = Seen(device.link)
    seen.check_quiet()
    stores = seen.stores(defs.EFA_MEM_BAR)
    if len(stores) != count:
        raise PerfError(f"{len(stores)} LLQ stores of {count}")
    stream = traffic.Stream()
    for queue in ends:
        stream.ring_all(queue, depth)
    device.post(stream.requests())
    work.finish(device, queues * depth, "sends of what was stored")
    seen = Seen(device.link)
    seen.check_quiet()
    seen.check_completions(ends, device.memory)
    seen.check_sent(ends, work.payload(INLINE))
    return Measured(_per_cycle(stores), count, {"stalled_cycles": int(stores["b"].sum())},
                    {"size": INLINE, "queues": queues})


def _per_cycle(stores: np.ndarray) -> float:
    return len(stores) / (int(stores["cycle"][-1] - stores["cycle"][0]) + 1)


def doorbells(order: Callable[[int, int], np.ndarray], queues: int = 64) -> Measure:
    """Measures doorbells that post one WQE each; `order` gives the queue sequence."""

    def measure(make: Make) -> Measured:
        device = work.opened(make)
        each = work.each_of(queues)
        ends = work.make_queues(device, queues, each, depth=256)
        wqes = work.inline_requests(device, ends, each)
        stream = traffic.Stream()
        for queue, mine in zip(ends, wqes, strict=True):
            stream.add(traffic.slot_stores(queue, 0, mine))
        device.post(stream.requests())
        device.settle()
        device.cancel()
        stream = traffic.Stream()
        for number in order(queues, each):
            stream.ring_all(ends[number], ends[number].sent + 1)
        device.post(stream.requests())
        work.finish(device, queues * each, "doorbells")
        seen = Seen(device.link)
        seen.check_quiet()
        for queue in ends:
            seen.check_doorbells(queue, 0, np.arange(1, each + 1))
        seen.check_completions(ends, device.memory)
        seen.check_sent(ends, work.payload(INLINE))
        return Measured(_per_cycle(seen.stores(traffic.DOORBELL)), queues * each,
                        {"stalled_cycles": work.stalls(seen)},
                        {"size": INLINE, "queues": queues, "batch": 1})  # fmt: skip

    return measure


def back_to_back(queues: int, each: int) -> np.ndarray:
    """Orders all doorbells of a queue before those of the next."""
    return np.repeat(np.arange(queues), each)


def in_turn(queues: int, each: int) -> np.ndarray:
    """Orders the doorbells round robin."""
    return np.tile(np.arange(queues), each)


def at_random(queues: int, each: int) -> np.ndarray:
    """Orders the doorbells at random; a queue may follow itself."""
    return np.random.default_rng(1).permutation(back_to_back(queues, each))


# One way


def inline_sends(
    queues: int,
    batch: int,
    wqe_bytes: int = 64,
    size: int = INLINE,
    messages: int | None = None,
    peers: Sequence[int] = (PEER,),
) -> Measure:
    """Measures messages whose payload is in the WQE. The queues send to the peers, nodes without
    gap, in turn."""

    def measure(make: Make) -> Measured:
        device = work.opened(make, net_peer=peers[0], net_peers=len(peers))
        each = work.each_of(queues, messages)
        ends = work.make_queues(device, queues, each, wqe_bytes)
        stream = traffic.Stream()
        wqes = work.inline_requests(device, ends, each, size, peers)
        traffic.sends_in_turn(stream, ends, wqes, batch)
        return work.sent(device, ends, stream, batch, peers, size=size, queues=queues, batch=batch,
                         wqe_bytes=wqe_bytes)

    return measure


def memory_sends(queues: int, size: int, batch: int) -> Measure:
    """Measures messages gathered from host memory, one aligned buffer each."""

    def measure(make: Make) -> Measured:
        device = work.opened(make)
        each = work.each_of(queues)
        ends = work.make_queues(device, queues, each)
        stream = traffic.Stream()
        wqes = work.memory_requests(device, ends, each, size)
        traffic.sends_in_turn(stream, ends, wqes, batch)
        # A slow host limits the reads in flight, so their number is a period, too.
        return work.sent(device, ends, stream, math.lcm(batch, defs.LIMITS.tags), size=size,
                         queues=queues, batch=batch)

    return measure


def receives(queues: int, size: int, peers: Sequence[int] = (PEER,)) -> Measure:
    """Measures packets of peers at line rate, which send to the queues in turn; all descriptors are
    posted before."""

    def measure(make: Make) -> Measured:
        device = work.opened(make)
        each = work.each_of(queues)
        ends = work.make_queues(device, queues, each, depth=16, rq_depth=work.pow2(each))
        device.address_of(PEER)
        spaces = work.post_all_receives(device, ends, each, size)
        incarnation = device.incarnation()
        device.cancel()
        nodes = [peers[place % len(peers)] for place in range(queues)]
        psns = _psns(np.tile(nodes, each)).reshape(each, queues)
        packets = [
            traffic.data_packets(queue, psns[:, place],
                                 traffic.pattern(queue, np.arange(each), size), incarnation,
                                 node=nodes[place])
            for place, queue in enumerate(ends)
        ]  # fmt: skip
        # Round robin over the queues, as many senders would mix.
        device.inject([one for together in zip(*packets, strict=True) for one in together])
        work.finish(device, each * queues, "receives")
        seen = Seen(device.link)
        seen.check_quiet()
        seen.check_completions(ends, device.memory)
        seen.check_responses(each * queues)
        work.check_received(device, ends, spaces, each, size)
        done = work.middle(seen.completion_times(work.recv_cqs(ends)))
        seen.check_events("cqe", done)
        return Measured(done.rate, done.messages, seen.busy(done),
                        {"size": size, "queues": queues})

    return measure


def _psns(nodes: np.ndarray) -> np.ndarray:
    """Returns the sequence numbers of packets from their nodes, from 0 for each node."""
    found = np.zeros(len(nodes), "i8")
    for node in np.unique(nodes):
        mine = nodes == node
        found[mine] = np.arange(mine.sum())
    return found


# Both ways


def both_ways(
    queues: int,
    size: int,
    batch: int,
    messages: int | None = None,
    slots: int | None = None,
    unit: int = 1,
) -> Measure:
    """Measures sends of every queue to its neighbour through the fabric: a send and a receive each.

    `slots` is the number of buffers per queue, which are reused with the same bytes; None gives
    each message its buffer. The value counts `unit` per message.
    """

    def measure(make: Make) -> Measured:
        device = work.opened(make, log_data=int(slots is None))
        each = work.each_of(queues, messages)
        held = slots or each
        ends = work.make_queues(device, queues, each, depth=256, rq_depth=work.pow2(each))
        sources, spaces = (work.buffers(device, ends, held * size) for _ in range(2))
        ah = device.address_of(NODE)
        wqes: list[np.ndarray] = []
        rings: list[bytes] = []
        sender: dict[int, Queue] = {}
        places = np.arange(each) % held * size
        for queue, peer, source, space in zip(ends, ends[1:] + ends[:1], sources, spaces,
                                             strict=True):  # fmt: skip
            rows = traffic.pattern(queue, np.arange(held), size)
            device.memory.write(source.base, rows.tobytes())
            wqes.append(traffic.work_requests(queue, each, ah, peer.number,
                                              pieces=[(source.iova + places, size, source.l_key)]))
            rings.append(
                traffic.post_receives(device, queue, space.iova + places, size, space.l_key))
            sender[peer.number] = queue
        device.post(b"".join(rings))
        device.settle()
        device.cancel()
        stream = traffic.Stream()
        traffic.sends_in_turn(stream, ends, wqes, batch)
        device.post(stream.requests())
        work.finish(device, 2 * each * queues, f"{size} bytes both ways")
        seen = Seen(device.link, all_completions=slots is None)
        seen.check_quiet()
        seen.check_completions(ends, device.memory)
        seen.check_once(each * queues)
        work.check_received(device, ends, spaces, held, size, sender)
        there = work.middle(seen.completion_times(work.send_cqs(ends)), batch)
        back = work.middle(seen.completion_times(work.recv_cqs(ends)), batch)
        for done, kind in ((there, work.SEND), (back, work.RECEIVE)):
            seen.check_events("cqe", done, q_type=kind)
        return Measured(unit * min(there.rate, back.rate), there.messages,
                        {"sent": unit * there.rate, "received": unit * back.rate,
                         **seen.busy(back)},
                        {"size": size, "queues": queues, "batch": batch})  # fmt: skip

    return measure


# Completions


def drained(
    entry_bytes: int, cqs: int, queues: int = 16, held: int = 960, rounds: int = 10
) -> Measure:
    """Measures completions that are written after m_dma_wr was held for `held` acknowledgements."""

    def measure(make: Make) -> Measured:
        device = work.opened(make)
        each = held // queues
        ends = work.make_queues(device, queues, rounds * each, 64, entry_bytes, cqs,
                                depth=work.pow2(each))  # fmt: skip
        wqes = work.inline_requests(device, ends, rounds * each)
        device.settle()
        device.cancel()
        for number in range(rounds):
            device.knobs(wr_hold=1)
            stream = traffic.Stream()
            for mine, queue in zip(wqes, ends, strict=True):
                part = mine[number * each : (number + 1) * each]
                stream.add(traffic.slot_stores(queue, queue.sent, part))
                stream.ring_all(queue, queue.sent + each)
            device.post(stream.requests())
            _responded(device, held)
            device.knobs(wr_hold=0)
            device.settle()
        seen = Seen(device.link)
        seen.check_quiet()
        seen.check_completions(ends, device.memory)
        seen.check_sent(ends, work.payload(INLINE))
        times = np.sort(seen.completion_times(work.send_cqs(ends)))
        spans = [int(part[-1] - part[0]) + 1 for part in np.split(times, rounds)]
        return Measured(rounds * held / sum(spans), rounds * held,
                        {"slowest": held / max(spans), "fastest": held / min(spans)},
                        {"size": INLINE, "queues": queues, "cqe_bytes": entry_bytes,
                         "cqs": cqs})  # fmt: skip

    return measure


def _responded(device: Device, count: int) -> None:
    """Waits until all messages have left and the peer's acknowledgements have arrived."""
    done = device.link.call("counters")["packets"] + count
    device.run_until(host.packets_are(done), 200_000, "messages before the completions")
    device.link.run([], 500)
