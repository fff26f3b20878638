# SPDX-License-Identifier: Apache-2.0
"""Compares the cycle model with the RTL on one workload: measurements, bounds, first difference.

    found = compare(work, rtl_timelines, model_timelines)
    found["met"], found["parts_at"]
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from efa_cosim.cycle.timelines import MILESTONES, NEVER, MessageTimelines
from efa_cosim.cycle.workload import Workload

# Maximum difference: a share, or a number of cycles if that is more.
BOUNDS = {"rate": (0.02, 0.0), "median": (0.02, 1.0), "p99": (0.05, 3.0)}
# The same of a run with losses.
LOSSY_BOUNDS = {"rate": (0.05, 0.0), "median": (0.05, 1.0), "p99": (0.1, 3.0)}


class Difference(NamedTuple):
    """The first difference of two runs: the milestone, its first cycle, the number of messages that
    differ, and the maximum difference in cycles."""

    stage: str
    cycle: int
    messages: int
    cycles: int


def measurements(timelines: MessageTimelines) -> dict[str, float]:
    """Messages per cycle, median and 99th percentile of the latency in cycles.

    The rate is over the whole run, from the first validated doorbell to the last completion."""
    latency = timelines.latency
    span = int(timelines.end.max()) - int(timelines["db"].min()) + 1
    return {"rate": len(latency) / span, "median": float(np.median(latency)),
            "p99": float(np.percentile(latency, 99))}


def within(name: str, real: float, found: float, lossy: bool = False) -> bool:
    """Returns True if a measurement is within its bound of the RTL measurement."""
    share, least = (LOSSY_BOUNDS if lossy else BOUNDS)[name]
    return abs(found - real) <= max(share * abs(real), least)


def parting(real: MessageTimelines, found: MessageTimelines) -> Difference | None:
    """Returns the earliest milestone that differs, or None if every milestone of every message is
    equal."""
    earliest = None
    for name in MILESTONES:
        a, b = real[name], found[name]
        differs = np.flatnonzero(a != b)
        if not len(differs) or a[0] == NEVER:
            continue
        at = int(np.minimum(a[differs], b[differs]).min())
        if earliest is None or at < earliest.cycle:
            earliest = Difference(name, at, len(differs), int(np.abs(a - b).max()))
    return earliest


def compare(work: Workload, real: MessageTimelines, found: MessageTimelines) -> dict[str, Any]:
    """Compares one point; returns plain values. `stages`: mean cycles of each stage in both."""
    a, b = measurements(real), measurements(found)
    parts = parting(real, found)
    return {
        "workload": work.as_dict(), "messages": work.total, "rtl": a, "model": b,
        "error": {"rate": b["rate"] / a["rate"] - 1,
                  **{name: b[name] - a[name] for name in ("median", "p99")}},
        "met": {name: within(name, a[name], b[name], work.loss > 0) for name in BOUNDS},
        "exact": parts is None,
        "parts_at": None if parts is None else parts._asdict(),
        "stages": stages(real, found),
    }  # fmt: skip


def stages(real: MessageTimelines, found: MessageTimelines) -> list[dict[str, Any]]:
    """Returns the mean cycles between consecutive milestones, for both runs of one workload."""
    passed = [name for name in MILESTONES if real[name][0] != NEVER]
    if real.work.kind == "UD":
        passed.remove("done")
    return [{"from": a, "to": b, "rtl": float((real[b] - real[a]).mean()),
             "model": float((found[b] - found[a]).mean())}
            for a, b in zip(passed, passed[1:], strict=False)]
