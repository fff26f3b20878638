# SPDX-License-Identifier: Apache-2.0
"""Measures the rates of RDMA operations for make perf, as initiator and as target of a peer.

Each function returns a measurement, as those of tb/perf/rates.py do. The rates of operations of
PACKET bytes and more are in payload beats per cycle, those of smaller ones in messages per cycle.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from efa_cosim.host.driver_objects import Access
from efa_cosim.layouts import defs
from tb.lib import requests as host
from tb.perf import traffic, work
from tb.perf.observe import Seen, Steady, steady
from tb.perf.queues import PEER, Buffer, Device, Make, PerfError, Queue
from tb.perf.work import Measure, Measured

WRITE, READ = defs.IoSendOpType.RDMA_WRITE, defs.IoSendOpType.RDMA_READ
# Bytes of the packets of a write, and of read responses.
PACKET = 4096
# Packets of a rate of operations of PACKET bytes and more, and those at both ends that it leaves
# out: the congestion window is open after a few of them.
PACKETS, PACKETS_WARM, PACKETS_TAIL = 4_096, 512, 128
# Buffers of a queue; messages that share one have the same bytes.
SLOTS = 16
WIRE = 500  # cycles through the fabric each way, where reads have to cover them
R_KEY = 0x4321  # of the region of the peer, which accepts any
# Responses that the peer has requested and not got, at most; it adds requests when half has come.
OPEN_RESPONSES = 192


def remote_address(queue: Queue, numbers: np.ndarray, size: int) -> np.ndarray:
    """Returns the addresses of messages of a queue in the memory of the peer."""
    return (np.uint64(1 + queue.number) << np.uint64(32)) + numbers.astype("u8") * np.uint64(size)


def packets_of(size: int) -> int:
    """Returns the packets of a message."""
    return max(1, size // PACKET)


def beats(size: int) -> int:
    """Returns the payload beats that a rate counts for a message, 1 for messages below PACKET."""
    return size // host.LINE if size >= PACKET else 1


def middle(times: np.ndarray, size: int, parts: int = 1, whole: int = 1) -> Steady:
    """Returns the Steady of a run from the times of events, of which a message has `parts`, over a
    multiple of `whole` events."""
    if size < PACKET:
        return work.middle(times, whole)
    packets = size // PACKET
    warm, tail = (count * parts // packets for count in (PACKETS_WARM, PACKETS_TAIL))
    return steady(times, warm, tail, whole)


def operations(
    device: Device,
    queues: Sequence[Queue],
    each: int,
    size: int,
    op: defs.IoSendOpType,
    spaces: Sequence[Buffer],
) -> list[np.ndarray]:
    """Returns RDMA WQEs of each queue to the peer, with the slots of its local buffer in turn."""
    ah = device.address_of(PEER)
    found: list[np.ndarray] = []
    for queue, space in zip(queues, spaces, strict=True):
        numbers = np.arange(each)
        slots = numbers % (space.length // size)
        remote = remote_address(queue, slots if op == READ else numbers, size)
        found.append(traffic.rdma_requests(
            queue, each, ah, 0x100 + queue.index, op,
            (space.iova + slots * size, size, space.l_key), (remote, R_KEY)))  # fmt: skip
    return found


def fill(device: Device, queues: Sequence[Queue], spaces: Sequence[Buffer], size: int) -> None:
    """Fills the buffers of the queues with their messages (traffic.pattern)."""
    for queue, space in zip(queues, spaces, strict=True):
        rows = traffic.pattern(queue, np.arange(space.length // size), size)
        device.memory.write(space.base, rows.tobytes())


def each_of(queues: int, size: int) -> int:
    """Returns the messages of `size` bytes per queue."""
    return work.each_of(queues, max(1, PACKETS * PACKET // size) if size >= PACKET else None)


def slots_of(size: int, each: int) -> int:
    """Returns the buffers per queue: one for each small message."""
    return min(SLOTS, each) if size >= PACKET else each


# Initiator


def writes(queues: int, size: int, batch: int) -> Measure:
    """Measures RDMA writes from host memory to the peer."""

    def measure(make: Make) -> Measured:
        device = work.opened(make)
        each = each_of(queues, size)
        ends = work.make_queues(device, queues, each)
        spaces = work.buffers(device, ends, slots_of(size, each) * size)
        fill(device, ends, spaces, size)
        stream = traffic.Stream()
        wqes = operations(device, ends, each, size, WRITE, spaces)
        traffic.sends_in_turn(stream, ends, wqes, batch)
        device.settle()
        device.cancel()
        device.post(stream.requests())
        work.finish(device, queues * each, "RDMA writes", packets_of(size))
        seen = Seen(device.link)
        seen.check_quiet()
        seen.check_completions(ends, device.memory)
        check_writes(seen, ends, each, size, spaces)
        packets = packets_of(size)
        whole = batch if size >= PACKET else math.lcm(batch, defs.LIMITS.tags)
        out = middle(seen.first_flits_out(), size, packets, packets * whole)
        seen.check_events("tx_first", out)
        rates = {"out": beats(size) * out.rate / packets}
        if packets == 1:
            # Longer messages take turns packet by packet, so many complete together.
            done = middle(seen.completion_times(work.send_cqs(ends)), size, 1, whole)
            seen.check_events("cqe", done)
            rates["completed"] = beats(size) * done.rate
        return Measured(min(rates.values()), out.messages // packets,
                        {**rates, "stalled_cycles": work.stalls(seen), **seen.busy(out)},
                        {"size": size, "queues": queues, "batch": batch})  # fmt: skip

    return measure


def reads(queues: int, size: int, batch: int, wire: int = WIRE) -> Measure:
    """Measures RDMA reads from the peer, which answers at line rate; the fabric takes `wire` cycles
    each way."""

    def measure(make: Make) -> Measured:
        device = work.opened(make, net_latency_min=wire, net_latency_max=wire)
        each = each_of(queues, size)
        ends = work.make_queues(device, queues, each)
        spaces = work.buffers(device, ends, slots_of(size, each) * size)
        stream = traffic.Stream()
        wqes = operations(device, ends, each, size, READ, spaces)
        traffic.sends_in_turn(stream, ends, wqes, batch)
        device.incarnation()  # the peer learns it
        device.cancel()
        device.post(stream.requests())
        work.finish(device, queues * each, "RDMA reads", packets_of(size))
        seen = Seen(device.link)
        seen.check_quiet()
        check_reads(seen, device, ends, spaces, each, size)
        placed = _placed(seen, spaces, size, batch)
        done = middle(seen.completion_times(work.send_cqs(ends)), size, 1, batch)
        seen.check_events("cqe", done)
        return Measured(min(placed.rate, beats(size) * done.rate), done.messages,
                        {"placed": placed.rate, "completed": beats(size) * done.rate,
                         **seen.busy(placed)},
                        {"size": size, "queues": queues, "batch": batch,
                         "wire_cycles": wire})  # fmt: skip

    return measure


def check_reads(
    seen: Seen, device: Device, queues: Sequence[Queue], spaces: Sequence[Buffer], each: int,
    size: int,
) -> None:  # fmt: skip
    """Checks that `each` reads per queue completed, and that the buffers hold the bytes of the
    peer, each written as often as it was read."""
    seen.check_completions(queues, device.memory)
    seen.check_requests(each * len(queues))
    seen.check_responses(each * len(queues) * packets_of(size))
    seen.check_written(spaces, size, each * size // spaces[0].length)
    for queue, space in zip(queues, spaces, strict=True):
        slots = np.arange(space.length // size)
        wanted = traffic.peer_bytes(remote_address(queue, slots, size), size)
        if device.memory.read(space.base, space.length) != wanted.tobytes():
            raise PerfError(f"queue {queue.number}: bytes that were read differ")


def check_writes(
    seen: Seen, queues: Sequence[Queue], each: int, size: int, spaces: Sequence[Buffer]
) -> None:
    """Checks that each byte of the RDMA writes of all queues left once, with its address and key.
    """
    slots = spaces[0].length // size

    def places(queue: Queue, rdma: np.ndarray) -> np.ndarray:
        first = remote_address(queue, np.zeros(1), size)
        return (rdma["remote_addr"] - first + rdma["offset"]).astype("i8")

    seen.check_rdma_sent(
        defs.PktOpcode.RDMA_WRITE, queues, each, size, R_KEY, places,
        lambda queue, numbers: traffic.pattern(queue, numbers % slots, size))  # fmt: skip


# Target


def writes_received(queues: int, size: int) -> Measure:
    """Measures RDMA writes of a peer at line rate, of one packet each."""

    def measure(make: Make) -> Measured:
        device = work.opened(make)
        each = each_of(queues, size)
        ends, spaces, packets = writes_of_peer(device, queues, each, slots_of(size, each), size)
        device.inject(packets)
        device.settle()
        seen = Seen(device.link)
        check_writes_of_peer(seen, device, ends, spaces, each, size)
        placed = _placed(seen, spaces, size, 1)
        return Measured(placed.rate, placed.messages // beats(size), seen.busy(placed),
                        {"size": size, "queues": queues})

    return measure


def writes_of_peer(
    device: Device, queues: int, each: int, slots: int, size: int
) -> tuple[list[Queue], list[Buffer], list[bytes]]:
    """Returns queues, their buffers, and RDMA writes of the peer, round robin over the queues."""
    ends, spaces = _targets(device, queues, slots * size, Access(remote_write=True))
    numbers = np.arange(each)
    incarnation = device.incarnation()
    packets: list[list[bytes]] = []
    for place, (queue, space) in enumerate(zip(ends, spaces, strict=True)):
        heads = traffic.rdma_headers(
            each, remote_addr=space.iova + numbers % slots * size, rkey=space.r_key, total=size)
        rows = np.hstack([heads, traffic.pattern(queue, numbers % slots, size)])
        packets.append(traffic.data_packets(queue, place + queues * numbers, rows, incarnation,
                                            defs.PktOpcode.RDMA_WRITE))  # fmt: skip
    device.cancel()
    return ends, spaces, _in_turn(packets)


def check_writes_of_peer(
    seen: Seen, device: Device, queues: Sequence[Queue], spaces: Sequence[Buffer], each: int,
    size: int,
) -> None:  # fmt: skip
    """Checks that `each` writes to every queue were acknowledged, and written once."""
    slots = spaces[0].length // size
    seen.check_quiet()
    seen.check_responses(each * len(queues))
    seen.check_written(spaces, size, each // slots)
    work.check_received(device, queues, spaces, slots, size)


def reads_answered(queues: int, size: int) -> Measure:
    """Measures responses to the read requests of a peer, which are open in sufficient number."""

    def measure(make: Make) -> Measured:
        device = work.opened(make)
        each = each_of(queues, size)
        ends, spaces, requests = reads_of_peer(device, queues, each, slots_of(size, each), size)
        packets = packets_of(size)
        most = max(2, OPEN_RESPONSES // packets)
        _ask(device, requests, packets, most)
        seen = Seen(device.link)
        check_reads_of_peer(seen, ends, spaces, each, size)
        out = middle(seen.first_flits_out(), size, packets, packets)
        seen.check_events("tx_first", out)
        return Measured(beats(size) * out.rate / packets, out.messages // packets, seen.busy(out),
                        {"size": size, "queues": queues, "requests": most})  # fmt: skip

    return measure


def reads_of_peer(
    device: Device, queues: int, each: int, slots: int, size: int
) -> tuple[list[Queue], list[Buffer], list[bytes]]:
    """Returns queues, their filled buffers, and read requests of the peer, round robin over the
    queues."""
    ends, spaces = _targets(device, queues, slots * size, Access(remote_read=True))
    fill(device, ends, spaces, size)
    numbers = np.arange(each)
    incarnation = device.incarnation()
    packets: list[list[bytes]] = []
    for place, (queue, space) in enumerate(zip(ends, spaces, strict=True)):
        heads = traffic.rdma_headers(
            each, remote_addr=space.iova + numbers % slots * size, rkey=space.r_key, total=size,
            count=size, read_id=numbers)  # fmt: skip
        packets.append(traffic.data_packets(queue, place + queues * numbers, heads, incarnation,
                                            defs.PktOpcode.READ_REQUEST))  # fmt: skip
    device.cancel()
    return ends, spaces, _in_turn(packets)


def check_reads_of_peer(
    seen: Seen, queues: Sequence[Queue], spaces: Sequence[Buffer], each: int, size: int
) -> None:
    """Checks that `each` requests to every queue were acknowledged, and that each byte left once.
    """
    slots = spaces[0].length // size
    seen.check_quiet()
    seen.check_responses(each * len(queues))
    seen.check_rdma_sent(
        defs.PktOpcode.READ_RESPONSE, queues, each, size, 0,
        lambda queue, rdma: rdma["read_id"].astype("i8") * size + rdma["offset"],
        lambda queue, numbers: traffic.pattern(queue, numbers % slots, size))  # fmt: skip


def _targets(
    device: Device, queues: int, size: int, access: Access
) -> tuple[list[Queue], list[Buffer]]:
    """Returns queues that know the peer, with `size` bytes each for its operations."""
    ends = work.make_queues(device, queues, 16)
    device.address_of(PEER)
    return ends, work.buffers(device, ends, size, access)


def _in_turn(packets: Sequence[Sequence[bytes]]) -> list[bytes]:
    """Returns packets round robin over the queues, as many initiators would mix them."""
    return [one for together in zip(*packets, strict=True) for one in together]


def _ask(device: Device, requests: Sequence[bytes], packets: int, most: int) -> None:
    """Injects read requests with `packets` responses each, at most `most` without their responses.
    """
    for asked in range(0, len(requests), most // 2):
        # Half of the requests before are open.
        wanted = max(0, asked - most // 2) * packets
        device.run_until(host.events_are(int(defs.Ev.TX_FIRST), wanted),
                         work.PATIENCE_PER_MESSAGE * most * packets, "read responses")
        device.inject(requests[asked : asked + most // 2])
    device.settle()


def _placed(seen: Seen, spaces: Sequence[Buffer], size: int, whole: int) -> Steady:
    """Returns the Steady of the payload beats in host memory."""
    times = np.concatenate([seen.payload_written(space)["cycle"] for space in spaces])
    return middle(np.sort(times), size, beats(size), whole * beats(size))
