# SPDX-License-Identifier: Apache-2.0
"""Measures rates and latencies over the latency of host memory.

The payload of an inline message is in the WQE, so the message never waits for host memory. A
message with payload in host memory waits for a round trip; its rate falls where the reads in flight
no longer cover the latency.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from efa_cosim.jobs.progress import Progress
from efa_cosim.layouts import defs
from tb.perf.latencies import doorbell_to_flit
from tb.perf.queues import Make
from tb.perf.rates import inline_sends, memory_sends, receives
from tb.perf.records import of_point
from tb.perf.rows import CYCLES, MESSAGES
from tb.perf.work import INLINE, Measure

LATENCIES = (50, 125, 250, 500, 1000)


@dataclass(frozen=True)
class Curve:
    """Describes one line of the plot; `limit` returns the bound at a latency, None without a bound.

    `beside` names the additional measurement that is drawn instead of the value.
    """

    what: str
    unit: str
    measure: Measure
    limit: Callable[[int], float] | None = None
    beside: str | None = None


def _in_flight(latency: int) -> float:
    return min(1 / 2, defs.LIMITS.tags / latency)


ALL = (
    Curve("doorbell to first flit, inline", CYCLES, doorbell_to_flit(INLINE)),
    Curve("doorbell to first flit, 64 bytes from memory", CYCLES, doorbell_to_flit(64),
          lambda latency: latency, "with_round_trip"),
    Curve("inline sends, 8 QPs, a doorbell for 16", MESSAGES, inline_sends(8, 16),
          lambda latency: 16 / 17),
    Curve("64-byte sends from memory, 16 QPs", MESSAGES, memory_sends(16, 64, 16), _in_flight),
    Curve("64-byte receives, 16 QPs", MESSAGES, receives(16, 64), lambda latency: 1 / 2),
)  # fmt: skip


def measure(make: Make, progress: Progress) -> list[dict[str, Any]]:
    """Returns a dictionary per curve and latency of host memory, with its `records`; every message
    was checked. Each curve is one item of `progress`."""
    found = []
    for curve in ALL:
        for latency in LATENCIES:
            measured = curve.measure(partial(make, dma_latency=latency))
            value = measured.more[curve.beside] if curve.beside else measured.value
            limit = curve.limit(latency) if curve.limit else None
            found.append({"what": curve.what, "dma_latency": latency, "value": value,
                          "unit": curve.unit, "limit": limit, "messages": measured.messages,
                          "records": [of_point(curve.what, curve.unit, latency, value, limit,
                                               measured)]})
        progress.advance(note=curve.what)
    return found
