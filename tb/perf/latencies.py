# SPDX-License-Identifier: Apache-2.0
"""Measures the latencies of make perf: one message at a time on an idle device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tb.lib import requests as host
from tb.perf import rdma, traffic, work
from tb.perf.observe import Seen
from tb.perf.queues import PEER, Device, Make, PerfError, Queue
from tb.perf.work import INLINE, Measure, Measured

QUEUES = 16


def doorbell_to_flit(size: int) -> Measure:
    """Measures the cycles from the doorbell's handshake to the handshake of the first flit.

    One round trip to host memory is deducted if payload or send queue (not both) lie there.
    """

    def measure(make: Make) -> Measured:
        device = work.opened(make)
        each = work.IDLE_MESSAGES // QUEUES
        ends = work.make_queues(device, QUEUES, each)
        if size <= INLINE:
            wqes = work.inline_requests(device, ends, each, size)
        else:
            wqes = work.memory_requests(device, ends, each, size)
        seen = _one_at_a_time(device, ends, wqes)
        seen.check_completions(ends, device.memory)
        seen.check_sent(ends, work.payload(size))
        waits = _one_for_one(seen.stores(traffic.DOORBELL)["cycle"], seen.first_flits_out())
        if size <= INLINE and not device.sq_host:
            return _slowest(waits, size)
        return _slowest(waits, size, _host_trips(seen, device))

    return measure


def flit_to_completion(size: int) -> Measure:
    """Measures the cycles from the last flit in to the CQE out."""

    def measure(make: Make) -> Measured:
        device = work.opened(make)
        each = work.IDLE_MESSAGES // QUEUES
        ends = work.make_queues(device, QUEUES, each, depth=16, rq_depth=work.pow2(each))
        device.address_of(PEER)
        spaces = work.post_all_receives(device, ends, each, size)
        incarnation = device.incarnation()
        device.cancel()
        order = 0
        for number in range(each):
            for queue in ends:
                rows = traffic.pattern(queue, [number], size)
                device.inject(traffic.data_packets(queue, [order], rows, incarnation))
                device.settle()
                order += 1
        seen = Seen(device.link)
        seen.check_quiet()
        seen.check_completions(ends, device.memory)
        seen.check_responses(order)
        work.check_received(device, ends, spaces, each, size)
        came = seen.last_flits_in()
        return _slowest(_one_for_one(came, seen.completion_times(work.recv_cqs(ends))), size)

    return measure


def rdma_write_to_flit(size: int) -> Measure:
    """Measures the cycles from the doorbell's handshake to that of the first flit of an RDMA write
    of one packet, without the round trip to host memory."""

    def measure(make: Make) -> Measured:
        device = work.opened(make)
        each = work.IDLE_OPERATIONS // QUEUES
        ends = work.make_queues(device, QUEUES, each)
        spaces = work.buffers(device, ends, each * size)
        rdma.fill(device, ends, spaces, size)
        wqes = rdma.operations(device, ends, each, size, rdma.WRITE, spaces)
        seen = _one_at_a_time(device, ends, wqes)
        seen.check_completions(ends, device.memory)
        rdma.check_writes(seen, ends, each, size, spaces)
        waits = _one_for_one(seen.stores(traffic.DOORBELL)["cycle"], seen.first_flits_out())
        return _slowest(waits, size, _host_trips(seen, device))

    return measure


def rdma_write_to_memory(size: int) -> Measure:
    """Measures the cycles from the last flit in of an RDMA write of one packet to its last payload
    beat out to host memory."""

    def measure(make: Make) -> Measured:
        device = work.opened(make)
        each = work.IDLE_OPERATIONS // QUEUES
        ends, spaces, packets = rdma.writes_of_peer(device, QUEUES, each, each, size)
        _inject_one_at_a_time(device, packets)
        seen = Seen(device.link)
        rdma.check_writes_of_peer(seen, device, ends, spaces, each, size)
        cycles = np.concatenate([seen.payload_written(space)["cycle"] for space in spaces])
        beats = -(-size // host.LINE)
        last = np.sort(cycles)[beats - 1 :: beats]
        return _slowest(_one_for_one(seen.last_flits_in(), last), size)

    return measure


def rdma_read(size: int) -> Measure:
    """Measures the cycles from the doorbell's handshake to the CQE out of an RDMA read of one
    packet, without the time from the request out to the first flit of the response in."""

    def measure(make: Make) -> Measured:
        device = work.opened(make)
        each = work.IDLE_OPERATIONS // QUEUES
        ends = work.make_queues(device, QUEUES, each)
        spaces = work.buffers(device, ends, each * size)
        wqes = rdma.operations(device, ends, each, size, rdma.READ, spaces)
        device.incarnation()  # the peer learns it
        seen = _one_at_a_time(device, ends, wqes)
        rdma.check_reads(seen, device, ends, spaces, each, size)
        done = seen.completion_times(work.send_cqs(ends))
        waits = _one_for_one(seen.stores(traffic.DOORBELL)["cycle"], done)
        away = _one_for_one(seen.first_flits_out(), seen.first_flits_in())
        return _slowest(waits, size, away)

    return measure


def rdma_response(size: int) -> Measure:
    """Measures the cycles from a read request of a peer in to the first flit of its response out,
    without the round trip to host memory."""

    def measure(make: Make) -> Measured:
        device = work.opened(make)
        each = work.IDLE_OPERATIONS // QUEUES
        ends, spaces, packets = rdma.reads_of_peer(device, QUEUES, each, each, size)
        _inject_one_at_a_time(device, packets)
        seen = Seen(device.link)
        rdma.check_reads_of_peer(seen, ends, spaces, each, size)
        waits = _one_for_one(seen.last_flits_in(), seen.first_flits_out())
        return _slowest(waits, size, _host_trips(seen, device))

    return measure


def _one_at_a_time(
    device: Device, queues: Sequence[Queue], wqes: Sequence[np.ndarray]
) -> Seen:
    """Posts one WQE after the other on an idle device, of each queue in turn; returns the logs."""
    device.settle()
    device.cancel()
    for number in range(len(wqes[0])):
        for queue, mine in zip(queues, wqes, strict=True):
            stream = traffic.Stream()
            stream.send(queue, mine[number : number + 1])
            device.post(stream.requests())
            device.settle()
    seen = Seen(device.link)
    seen.check_quiet()
    return seen


def _inject_one_at_a_time(device: Device, packets: Sequence[bytes]) -> None:
    for packet in packets:
        device.inject([packet])
        device.settle()


def _host_trips(seen: Seen, device: Device) -> np.ndarray:
    """Returns the cycles of the only host read of each message; all take the latency of the host.
    """
    requested, responses = seen.port(host.PIN_READ), seen.port(host.PIN_RESPONSE)
    trips = _one_for_one(requested["cycle"], responses["cycle"])
    if set(trips.tolist()) != {device.dma_latency}:
        raise PerfError(f"host reads took {sorted(set(trips.tolist()))} cycles")
    return trips


def _one_for_one(starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Returns the cycles between pairs of events; both sides have the same number of events."""
    if len(starts) != len(ends):
        raise PerfError(f"{len(starts)} began, {len(ends)} ended")
    return ends.astype("i8") - starts.astype("i8")


def _slowest(cycles: np.ndarray, size: int, away: np.ndarray | None = None) -> Measured:
    """Returns the slowest message, without the cycles `away` from the device: an idle device has no
    variable delay."""
    more: dict[str, Any] = {}
    if away is not None:
        more, cycles = {"with_round_trip": int(cycles.max())}, cycles - away
    return Measured(int(cycles.max()), len(cycles),
                    {"least": int(cycles.min()), "median": float(np.median(cycles)),
                     **more}, {"size": size, "queues": QUEUES, "batch": 1})  # fmt: skip
