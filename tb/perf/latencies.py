# SPDX-License-Identifier: Apache-2.0
"""Measures the latencies of make perf: one message at a time on an idle device."""

from __future__ import annotations

from typing import Any

import numpy as np

from tb.lib import requests as host
from tb.perf import traffic, work
from tb.perf.observe import LAST, Seen
from tb.perf.queues import PEER, Make, PerfError
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
        device.settle()
        device.cancel()
        for number in range(each):
            for queue, mine in zip(ends, wqes, strict=True):
                stream = traffic.Stream()
                stream.send(queue, mine[number : number + 1])
                device.post(stream.requests())
                device.settle()
        seen = Seen(device.link)
        seen.check_quiet()
        seen.check_completions(ends, device.memory)
        seen.check_sent(ends, work.payload(size))
        waits = _one_for_one(seen.stores(traffic.DOORBELL)["cycle"], seen.first_flits_out())
        if size <= INLINE and not device.sq_host:
            return _slowest(waits, size)
        requested, responses = seen.port(host.PIN_READ), seen.port(host.PIN_RESPONSE)
        trip = _one_for_one(requested["cycle"], responses["cycle"])
        if set(trip.tolist()) != {device.dma_latency}:
            raise PerfError(f"host reads took {sorted(set(trip.tolist()))} cycles")
        return _slowest(waits - trip, size, {"with_round_trip": int(waits.max())})

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
        flits = seen.port(host.PIN_IN)
        came = flits["cycle"][(flits["b"] & LAST) != 0]
        return _slowest(_one_for_one(came, seen.completion_times(work.recv_cqs(ends))), size)

    return measure


def _one_for_one(starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Returns the cycles between pairs of events; both sides have the same number of events."""
    if len(starts) != len(ends):
        raise PerfError(f"{len(starts)} began, {len(ends)} ended")
    return ends.astype("i8") - starts.astype("i8")


def _slowest(cycles: np.ndarray, size: int, more: dict[str, Any] | None = None) -> Measured:
    """Returns the slowest message: an idle device has no variable delay."""
    return Measured(int(cycles.max()), len(cycles),
                    {"least": int(cycles.min()), "median": float(np.median(cycles)),
                     **(more or {})}, {"size": size, "queues": QUEUES, "batch": 1})  # fmt: skip
