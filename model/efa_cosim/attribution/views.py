# SPDX-License-Identifier: Apache-2.0
"""Derives the views of an attributed run: single messages, shares of stages, a trace."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from efa_cosim.attribution.waterfall import Part
from efa_cosim.cycle.record import ENTRIES, Record
from efa_cosim.cycle.timelines import MessageTimelines

MICROSECONDS_PER_CYCLE = 0.004  # 250 MHz


def message_at(timelines: MessageTimelines, percent: float) -> int:
    """Returns the first message whose latency is the percentile."""
    wanted = np.percentile(timelines.latency, percent, method="nearest")
    return int(np.flatnonzero(timelines.latency == wanted)[0])


def of_message(parts: Sequence[Part], number: int) -> list[dict[str, Any]]:
    """Returns the rows of one message: stage, service in cycles, its waits as {cause: cycles}."""
    return [_row(part, int(part.service[number]),
                 {cause: int(cycles[number]) for cause, cycles in part.waits.items()
                  if cycles[number]})
            for part in parts]


MOST_SAMPLED = 100


def sample(timelines: MessageTimelines, parts: Sequence[Part]) -> dict[str, Any]:
    """Returns up to MOST_SAMPLED messages, from the fastest to the slowest in equal steps of their
    rank: number, cycle of the doorbell, latency, and [service, {cause: cycles}] of each stage."""
    found, ranked = [], np.argsort(timelines.latency, kind="stable")
    steps = np.linspace(0, len(ranked) - 1, min(len(ranked), MOST_SAMPLED)).round().astype(int)
    for number in ranked[steps].tolist():
        stages = [[row["service"], row["waits"]] for row in of_message(parts, number)]
        found.append({"message": number, "begin": int(parts[0].begins[number]),
                      "latency": int(timelines.latency[number]), "stages": stages})
    return {"stages": [{"stage": part.doc, "place": part.place} for part in parts],
            "messages": found}


SHARES = (*range(100), 99.5, 99.9, 100)


def distribution(timelines: MessageTimelines) -> dict[str, list[Any]]:
    """Returns the latency in cycles that each of SHARES percent of the messages do not exceed."""
    cycles = np.percentile(timelines.latency, SHARES, method="inverted_cdf")
    return {"percent": list(SHARES), "cycles": cycles.astype(int).tolist()}


def shares(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """Returns mean service and waits of each stage, in cycles; the fetch of a WQE from host memory
    is a separate row."""
    rows = []
    for part in parts:
        service = float(part.service.mean())
        waits = {cause: float(cycles.mean()) for cause, cycles in part.waits.items()}
        if part.rest is None:
            rows.append(_row(part, service, waits))
            continue
        read = {cause: cycles for cause, cycles in waits.items() if cause not in part.rest.waits}
        rows.append({**_row(part, service - part.ends_with, read), "stage": part.first})
        waits = {cause: cycles for cause, cycles in waits.items() if cause not in read}
        rows.append({**_row(part, float(part.ends_with), waits), "stage": part.rest.doc,
                     "place": part.rest.place})
    return rows


def _row(part: Part, service: float, waits: Mapping[str, float]) -> dict[str, Any]:
    return {"stage": part.doc, "from": part.start, "to": part.end, "place": part.place,
            "service": service, "waits": waits, "wait": sum(waits.values())}


class MeanWait(NamedTuple):
    """The wait for one cause in one stage, in cycles of the mean message."""

    cause: str
    stage: str
    cycles: float


def causes(parts: Sequence[Part]) -> list[MeanWait]:
    """Returns the mean wait per message for each cause, the longest first."""
    found = [MeanWait(cause, part.doc, float(cycles.mean()))
             for part in parts for cause, cycles in part.waits.items()]
    return sorted(found, key=lambda one: -one.cycles)


BUCKETS = 16


def histogram(steps: Sequence[tuple[int, int]], end: int) -> list[int]:
    """Returns the cycles per bucket of spec/perf_counters.yaml for a number given as [(from cycle,
    number)]."""
    counts = [0] * BUCKETS
    for (cycle, number), (until, _) in zip(steps, [*steps[1:], (end, 0)], strict=True):
        counts[min(int(number).bit_length(), BUCKETS - 1)] += max(0, until - cycle)
    return counts


def trace(record: Record, parts: Sequence[Part], most: int = 2000) -> str:
    """Returns JSON trace events (Perfetto, chrome://tracing) of the first `most` messages.

    A process per stage; in it a track per queue, and more tracks if several messages of the queue
    are in the stage at once; a slice per wait, then a slice for the service. A further process
    shows the host's ports: reads until completion, beats of received payload.
    """
    timelines, work = record.timelines, record.timelines.work
    events: list[dict[str, Any]] = []
    shown = range(min(most, work.total))
    for number, part in enumerate(parts, 1):
        _name(events, number, f"{number:02d} {part.doc} ({part.place})")
        tracks = _Tracks(events, number, "queue")
        ends = part.begins + part.service + part.wait
        begins: list[int] = part.begins.tolist()
        for message in sorted(shown, key=begins.__getitem__):
            at, end = begins[message], int(ends[message])
            queue = message // work.batch % work.queues
            track = tracks.take(queue, at, end)
            for cause, waited in part.waits.items():
                at = _slice(events, number, track, f"wait: {cause}", "wait", at,
                            int(waited[message]), message)
            _slice(events, number, track, part.doc, part.place, at, end - at, message)
    last = max((int(timelines.end[message]) for message in shown), default=0)
    _ports(events, record, len(parts) + 1, last)
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, separators=(",", ":"))


def _ports(events: list[dict[str, Any]], record: Record, process: int, last: int) -> None:
    _name(events, process, f"{process:02d} host ports")
    tracks = _Tracks(events, process, "reads of")
    reads = record.reads
    for requested, ended, beats, message in zip(
            reads.requested.tolist(), reads.ended.tolist(), reads.beats.tolist(),
            reads.message.tolist(), strict=True):
        if 0 <= requested <= last:
            kind = ("payload" if message >= 0 else "send WQEs" if message == ENTRIES
                    else "descriptors")
            track = tracks.take(kind, requested, ended)
            _slice(
                events,
                process,
                track,
                f"{beats} beats",
                "host",
                requested,
                ended - requested,
                message,
            )
    writes = _Tracks(events, process, "writes of", first=1 << 16)
    for beat in record.payload.tolist():
        if beat <= last:
            track = writes.take("payload", beat, beat + 1)
            _slice(events, process, track, "beat", "host", beat, 1, -1)


class _Tracks:
    """Tracks of a process; the slices of a track do not overlap."""

    def __init__(
        self, events: list[dict[str, Any]], process: int, title: str, first: int = 0
    ) -> None:
        self._events, self._process, self._title = events, process, title
        self._free: dict[int | str, list[list[int]]] = {}
        self._next = first

    def take(self, key: int | str, begin: int, end: int) -> int:
        """Returns a track of `key` that is free from `begin` on; the track is occupied until `end`.
        """
        rows = self._free.setdefault(key, [])
        for row in rows:
            if row[0] <= begin:
                row[0] = end
                return row[1]
        track, self._next = self._next, self._next + 1
        rows.append([end, track])
        self._events.append({"ph": "M", "name": "thread_name", "pid": self._process, "tid": track,
                             "args": {"name": f"{self._title} {key}, {len(rows)}"}})
        return track


def _name(events: list[dict[str, Any]], process: int, text: str) -> None:
    events.append({"ph": "M", "name": "process_name", "pid": process, "args": {"name": text}})
    events.append({"ph": "M", "name": "process_sort_index", "pid": process,
                   "args": {"sort_index": process}})


def _slice(
    events: list[dict[str, Any]],
    process: int,
    track: int,
    name: str,
    category: str,
    at: int,
    cycles: int,
    message: int,
) -> int:
    """Adds a slice if it has cycles; returns its end."""
    if cycles:
        events.append({"name": name, "cat": category, "ph": "X", "pid": process, "tid": track,
                       "ts": round(at * MICROSECONDS_PER_CYCLE, 3),
                       "dur": round(cycles * MICROSECONDS_PER_CYCLE, 3),
                       "args": {"message": message, "cycle": at, "cycles": cycles}})
    return at + cycles
