# SPDX-License-Identifier: Apache-2.0
"""Executes the runs of the waterfall report and derives its data: messages, stages, counters.

A runner takes workloads and returns for each a Record and the device's counters (None for the
model).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from efa_cosim.attribution.views import (
    causes,
    distribution,
    histogram,
    message_at,
    of_message,
    sample,
    shares,
    trace,
)
from efa_cosim.attribution.waterfall import Attribution, attribute
from efa_cosim.cycle.compare import measurements
from efa_cosim.cycle.costs import responder_contexts
from efa_cosim.cycle.record import Record
from efa_cosim.cycle.timelines import Ints
from efa_cosim.cycle.workload import Workload
from efa_cosim.layouts.defs import Perf, PerfStream

Ran: TypeAlias = tuple[Record, Ints | None]
Runner: TypeAlias = Callable[[Sequence[Workload]], list[Ran]]

LOADS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
DEPTHS = (1, 4, 16, 64)
PERCENTS = (50, 99)
ALONE = 8  # Messages sent one after the other.
BUCKETS = 16
HISTOGRAMS = {"RD_LATENCY": "cycles from a host read's request to its last beat, reads",
              "RD_OUT": "host reads outstanding, cycles",
              "SENDS_OPEN": "SRD message contexts in use, cycles"}  # fmt: skip


@dataclass(frozen=True)
class Point:
    """One run: a workload and its name. load: share of the closed loop's rate, or None."""

    work: Workload
    name: str
    load: float | None = None


class Attributed(NamedTuple):
    """An attributed run, the device's counters (None for the model), and its row of the report."""

    point: Point
    record: Record
    attribution: Attribution
    counters: Ints | None
    row: dict[str, Any]


def closed(work: Workload, depths: Iterable[int] = DEPTHS) -> list[Point]:
    """Returns the closed loops of a workload with these numbers of outstanding messages per queue.
    """
    return [Point(replace(work, depth=depth, batch=min(work.batch, depth), gap=0), f"{depth} open")
            for depth in depths]


def fitting(work: Workload, depths: Iterable[int]) -> list[int]:
    """Returns those numbers of outstanding messages per queue for which the device has contexts:
    each read needs one at the responder."""
    return [depth for depth in depths
            if not work.reads or depth * work.queues <= responder_contexts()]


def opened(work: Workload, capacity: float, loads: Iterable[float] = LOADS) -> list[Point]:
    """Returns the open loops at shares of a rate in messages per cycle."""
    return [Point(replace(work, gap=max(1, round(work.batch / (capacity * load)))), f"{load:.0%}",
                  load)
            for load in loads]


def ways(work: Workload, runner: Runner) -> list[dict[str, Any]]:
    """Returns the data of a single message on the device, and of the median and 99th-percentile
    message of a closed loop, in the form of `study`. Raises WaterfallError."""
    alone = Point(replace(work, queues=1, depth=1, batch=1, messages=ALONE, gap=0), "alone")
    found = zip(((50,), PERCENTS),
                _attributed([alone, *closed(work, (work.depth,))], runner), strict=True)
    return [_messages(point, record, attribution, row, percents)
            for percents, (point, record, attribution, _, row) in found]


def study(
    work: Workload,
    sizes: Iterable[int],
    runner: Runner,
    say: Callable[[str], object],
    loads: Sequence[float] = LOADS,
    depths: Iterable[int] = DEPTHS,
) -> tuple[dict[str, Any], str]:
    """Returns all data of the report as plain values, and the trace of the first run of `work`.

    work: closed loop of the single messages; its last open loop is shown too, and the same closed
    loop with send queues in host memory. sizes: message sizes against load. Raises WaterfallError
    if a message of a run cannot be attributed.
    """
    rows: list[dict[str, Any]] = []
    shown: list[dict[str, Any]] = []
    text, total = None, 0
    perf_counters: dict[str, Any] | None = None
    bases = [replace(work, size=size) for size in dict.fromkeys((work.size, *sizes))]
    if not work.sq_host:
        bases.append(replace(work, sq_host=1))
    for base in bases:
        size, where = base.size, ", send queues in host memory" if base.sq_host else ""
        loops = closed(base, sorted({*fitting(base, depths), work.depth}))
        say(f"{size} bytes{where}, closed loops of {', '.join(point.name for point in loops)}")
        found = list(_attributed(loops, runner))
        capacity = max(row["rate"] for *_, row in found)
        points = opened(base, capacity, loads)
        say(f"{size} bytes{where}, open loops of {points[0].name} to {points[-1].name} of "
            f"{capacity:.3f} messages per cycle")
        found = list(_attributed(points, runner)) + found
        rows += [{"size": size, "sq_host": base.sq_host, "capacity": capacity, **row}
                 for *_, row in found]
        total += sum(row["messages"] for *_, row in found)
        if size != work.size:
            continue
        first = base.sq_host == work.sq_host
        for point, record, attribution, counters, row in found:
            if not first and point.load is not None:
                continue
            if point.load == loads[-1] or (point.load is None and point.work.depth == work.depth):
                shown.append(_messages(point, record, attribution, row))
            if first and point.load is None and point.work.depth == work.depth:
                text = trace(record, attribution.parts)
                perf_counters = (
                    None if counters is None else _perf_counters(record, attribution, counters)
                )
    # Order: the closed loop, the open loop, the other build.
    shown.sort(key=lambda one: (one["workload"]["sq_host"] != work.sq_host,
                                one["load"] is not None))
    assert text is not None
    return {"rows": rows, "shown": shown, "perf_counters": perf_counters, "messages": total}, text


def _attributed(points: Sequence[Point], runner: Runner) -> Iterator[Attributed]:
    for point, (record, counters) in zip(points, runner([point.work for point in points]),
                                         strict=True):
        attribution = attribute(record)
        numbers = measurements(record.timelines)
        yield Attributed(point, record, attribution, counters, {
            "name": point.name, "load": point.load, "workload": point.work.as_dict(),
            "messages": point.work.total, **numbers, "mean": float(record.timelines.latency.mean()),
            "stages": shares(attribution.parts),
            "causes": [{"cause": cause, "stage": stage, "cycles": cycles}
                       for cause, stage, cycles in causes(attribution.parts)],
        })  # fmt: skip


def _messages(
    point: Point,
    record: Record,
    attribution: Attribution,
    row: dict[str, Any],
    percents: Iterable[int] = PERCENTS,
) -> dict[str, Any]:
    """Describes the median and the 99th-percentile message, stage by stage."""
    found = []
    for percent in percents:
        number = message_at(record.timelines, percent)
        found.append({"percent": percent, "message": number,
                      "latency": int(record.timelines.latency[number]),
                      "stages": of_message(attribution.parts, number)})
    return {"name": point.name, "load": point.load, "workload": row["workload"],
            "setting": str(point.work), "messages": row["messages"], "rate": row["rate"],
            "of": found, "distribution": distribution(record.timelines),
            "sample": sample(record.timelines, attribution.parts)}


def _perf_counters(record: Record, attribution: Attribution, counters: Ints) -> dict[str, Any]:
    """Lists the device's counters with the counts at the pins and of the replays."""
    counted, own = (side.tolist() for side in counters)
    streams, outside = [], int(PerfStream.S_NET)
    for stream in PerfStream:
        beats, waits = (Perf.STREAM + 2 * stream + more for more in (0, 1))
        streams.append({
            "stream": stream.name, "beats": counted[beats], "waits": counted[waits],
            "bench_beats": own[beats] if stream <= outside else None,
            "bench_waits": own[waits] if stream <= outside else None,
            "replayed_waits": attribution.stalls.get(stream.name)})
    histograms = []
    for name, unit in HISTOGRAMS.items():
        first = Perf[name]
        device = counted[first : first + BUCKETS]
        if name == "SENDS_OPEN":
            # The device counts from before the first message, when no context is in use.
            beside = histogram(attribution.open_sends, 0)
            beside[0] = sum(device) - sum(beside[1:])
        else:
            beside = own[first : first + BUCKETS]
        histograms.append({"name": name, "unit": unit, "device": device, "beside": beside,
                           "by": "replay" if name == "SENDS_OPEN" else "bench"})
    agree = all(one["device"] == one["beside"] for one in histograms) and all(
        beside is None or device == beside for row in streams for device, beside in
        ((row["beats"], row["bench_beats"]), (row["waits"], row["bench_waits"]),
         (row["waits"], row["replayed_waits"])))
    return {"streams": streams, "histograms": histograms, "agree": bool(agree),
            "messages": record.timelines.work.total,
            "cycles": int(np.sum(counted[Perf.RD_OUT : Perf.RD_OUT + BUCKETS]))}
