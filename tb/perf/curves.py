# SPDX-License-Identifier: Apache-2.0
"""Rates and latencies against the latency of host memory: what the store into the device saves.

An inline message never waits for host memory; one whose payload lies there waits for a round trip,
and its rate falls where the reads in flight no longer cover the latency.
"""

from dataclasses import dataclass
from functools import partial

from efa import defs
from tb.perf.latencies import doorbell_to_flit
from tb.perf.rates import inline_sends, memory_sends, receives
from tb.perf.work import INLINE

CYCLES = (50, 125, 250, 500, 1000)
LATENCY, RATE = "cycles", "per cycle"


@dataclass(frozen=True)
class Curve:
    """One line of the picture; `limit` gives what is possible at a latency, None: nothing general.

    `beside` is what of the measurement's further figures is drawn instead of its value."""

    what: str
    unit: str
    measure: object
    limit: object = None
    beside: str | None = None


def _in_flight(latency):
    return min(1 / 2, defs.LIMITS.tags / latency)


ALL = (
    Curve("doorbell to first flit, inline", LATENCY, doorbell_to_flit(INLINE)),
    Curve("doorbell to first flit, 64 bytes from memory", LATENCY, doorbell_to_flit(64),
          lambda latency: latency, "with_round_trip"),
    Curve("inline sends, 8 QPs, a doorbell for 16", RATE, inline_sends(8, 16),
          lambda latency: 16 / 17),
    Curve("64-byte sends from memory, 16 QPs", RATE, memory_sends(16, 64, 16), _in_flight),
    Curve("64-byte receives, 16 QPs", RATE, receives(16, 64), lambda latency: 1 / 2),
)  # fmt: skip


def measure(make, say):
    """A dictionary for each curve and latency of host memory; every message was checked."""
    found = []
    for curve in ALL:
        say(f"  {curve.what}, host memory {CYCLES[0]} to {CYCLES[-1]} cycles away ...")
        for latency in CYCLES:
            measured = curve.measure(partial(make, dma_latency=latency))
            value = measured.more[curve.beside] if curve.beside else measured.value
            limit = curve.limit(latency) if curve.limit else None
            found.append({"what": curve.what, "dma_latency": latency, "value": value,
                          "unit": curve.unit, "limit": limit, "messages": measured.messages})
    return found
