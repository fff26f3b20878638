# SPDX-License-Identifier: Apache-2.0
"""Computes the stages of one message on an idle device, from spec/stages.yaml and spec/timing.yaml.

table = Stages()
table.way(Workload(size=64))        # [(stage, cycles), ...] from doorbell store to completion
table.latency("efa_sq_sched.entry")       # latency in cycles of a module's path
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from efa_cosim.layouts import defs
from efa_cosim.tree import ROOT
from efa_cosim.yaml_file import contents

if TYPE_CHECKING:
    from efa_cosim.cycle.workload import Workload

LINE = 64
HEADER = defs.PktHdr.SIZE
RDMA_HEADERS = HEADER + defs.PktRdma.SIZE
GRH = defs.LIMITS.grh_bytes
# Default of the bench: 128 bytes shifted by the code of docs/boundary.md.
REQUEST_BYTES = 512
QUANTUM_BYTES = 8192
KNOWN = {"inline", "memory", "SRD", "UD", "SEND", "WRITE", "WRITE_IMM", "READ", "pushed",
         "received", "written", "empty", "narrow", "wide", "stored", "fetched"}  # fmt: skip


class StageError(ValueError):
    """The tables do not match each other; the text names the entry."""


@dataclass(frozen=True)
class Shape:
    """Composition of one message, or of each packet of an RDMA operation: number of flits, beats of
    each host read and of each host write; `facts`: the conditions for its stages; `entry`: lines of
    the send WQE; `quantum`: flits that the scheduler counts for the message."""

    flits: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    facts: frozenset[str]
    entry: int = 1
    quantum: int = 1

    @property
    def counts(self) -> dict[str, int]:
        """Returns the counts that `each` of a stage refers to."""
        return {
            "flits": self.flits,
            "entry": self.entry,
            "reads": len(self.reads),
            "completion_beats": sum(self.reads) - (len(self.reads) - 1),
            "writes": sum(self.writes),
        }


def cut(length: int, request: int = REQUEST_BYTES) -> tuple[int, ...]:
    """Returns the beats of the requests into which an aligned memory range is split."""
    return tuple(-(-min(request, length - at) // LINE) for at in range(0, length, request))


def shape(work: Workload) -> Shape:
    """Returns the Shape of every message of a workload; its buffers are aligned."""
    rdma = work.operation != "SEND"
    size = work.size // max(1, work.parts)
    pieces = (size,) if rdma else work.pieces
    reads = () if work.inline else tuple(b for piece in pieces for b in cut(piece))
    srd = work.kind == "SRD"
    # The GRH of a datagram is a separate first write; the payload then begins at byte 40.
    writes = cut(size) if srd else (1, *cut_at(GRH, size))
    facts = {work.kind, work.operation, "received" if work.receives else work.operation,
             "READ" if work.reads else "pushed", "inline" if work.inline else "memory",
             "written" if writes else "empty", "wide" if work.entry_bytes > LINE else "narrow",
             "fetched" if work.sq_host else "stored"}
    flits = -(-((RDMA_HEADERS if rdma else HEADER) + size) // LINE)
    # The scheduler counts the flits of a send, 1 for what no send can have.
    quantum = -(-(HEADER + work.size) // LINE) if work.size < QUANTUM_BYTES else 1
    return Shape(flits, reads, writes, frozenset(facts), work.entry_bytes // LINE, quantum)


def cut_at(start: int, length: int, request: int = REQUEST_BYTES) -> tuple[int, ...]:
    """Returns the beats of the requests for a range that starts `start` bytes after a request
    boundary."""
    beats, at, end = [], start, start + length
    while at < end:
        step = min(request - at % request, end - at)
        beats.append(-(-step // LINE))
        at += step
    return tuple(beats)


@dataclass(frozen=True)
class Stage:
    """One stage, from a milestone to the next: its latencies and its per-item intervals."""

    start: str
    end: str
    doc: str
    place: str
    when: frozenset[str]
    cost: tuple[str, ...]
    each: tuple[tuple[str, str], ...]
    early: str | None
    waits: tuple[str, ...]
    first: str | None


class Stages:
    """Both tables, checked for consistency; raises StageError."""

    def __init__(self, folder: Path = ROOT / "spec") -> None:
        timing: dict[str, Any] = contents(folder / "timing.yaml")
        spec: dict[str, Any] = contents(folder / "stages.yaml")
        self._timing = timing["modules"]
        # The value of a parameter of the workload is None.
        self.parameters: dict[str, Any] = {
            name: entry.get("value") for name, entry in spec["parameters"].items()
        }
        self.milestones = {entry["name"]: entry for entry in spec["milestones"]}
        self.stages = [self._stage(entry) for entry in spec["stages"]]

    def _stage(self, entry: dict[str, Any]) -> Stage:
        stage = Stage(
            entry["from"],
            entry["to"],
            entry["doc"],
            entry["place"],
            frozenset(entry.get("when", ())),
            tuple(entry["cost"]),
            tuple((each["path"], each["of"]) for each in entry.get("each", ())),
            entry.get("early"),
            tuple(entry.get("wait", ())),
            entry.get("first"),
        )
        for name in (stage.start, stage.end):
            if name not in self.milestones:
                raise StageError(f"spec/stages.yaml: no milestone {name!r}")
        if stage.when - KNOWN:
            raise StageError(
                f"spec/stages.yaml: {stage.start} to {stage.end}: no case "
                f"{', '.join(sorted(stage.when - KNOWN))}"
            )
        for path in stage.cost:
            if path not in self.parameters:
                self.latency(path)
        for path, _ in stage.each:
            self.interval(path)
        return stage

    def _entry(self, path: str, key: str) -> int:
        module, _, name = path.partition(".")
        try:
            value: int = self._timing[module][name][key]
        except (KeyError, TypeError):
            raise StageError(f"spec/timing.yaml: no {key} of {path}") from None
        return value

    def latency(self, path: str) -> int:
        """Returns the latency of a path through an idle module, in cycles; raises StageError."""
        return self._entry(path, "latency")

    def interval(self, path: str) -> int:
        """Returns the cycles between two items at full load, of a module's path or of a fixed
        parameter; raises StageError."""
        value = self.parameters.get(path)
        return value if value is not None else self._entry(path, "interval")

    def depth(self, path: str) -> int:
        """Returns the number of items that a module holds before it stalls; raises StageError."""
        return self._entry(path, "depth")

    @cached_property
    def early(self) -> dict[str, int]:
        """Returns the cycles by which the event of each milestone precedes the end of its stage."""
        return {name: entry.get("early", 0) for name, entry in self.milestones.items()}

    def cycles(self, stage: Stage, work: Workload, made: Shape) -> int:
        """Returns the cycles between the milestones of a stage, as shown by their events."""
        total = self.early[stage.start] - self.early[stage.end]
        if stage.early:
            total -= self.latency(stage.early)
        for path in stage.cost:
            value = self.parameters.get(path)
            if path in self.parameters and value is None:
                value = getattr(work, path)
            total += self.latency(path) if value is None else value
        counts = made.counts
        return total + sum(self.interval(path) * max(0, counts[of] - 1) for path, of in stage.each)

    def passed(self, made: Shape) -> list[Stage]:
        """Returns the stages of a message of this Shape, in order."""
        return [stage for stage in self.stages if stage.when <= made.facts]

    def rest(self, stage: Stage) -> Stage | None:
        """Returns the stage that continues a stage with a `first`; None for a stage without."""
        when = stage.when - {"fetched"} | {"stored"}
        same = [one for one in self.stages if (one.start, one.end) == (stage.start, stage.end)]
        return next((one for one in same if stage.first and one.when == when), None)

    def way(self, work: Workload) -> list[tuple[Stage, int]]:
        """Returns each stage of a message on an idle device, with its cycles.

        Raises StageError for a message of several packets, which wait for each other, and for a
        read without payload.
        """
        if work.parts != 1:
            raise StageError(f"{work}: expected one packet with payload, found {work.parts}; "
                             "simulate() of efa_cosim.cycle.network predicts each of them")
        made = shape(work)
        return [(stage, self.cycles(stage, work, made)) for stage in self.passed(made)]

    def moments(self, work: Workload) -> dict[str, int]:
        """Returns the cycle of each milestone; the doorbell store is cycle 0."""
        at = {"bell": 0}
        for stage, cycles in self.way(work):
            at[stage.end] = at[stage.start] + cycles
        return at


@cache
def standard() -> Stages:
    """Returns the Stages of spec/, read once; raises StageError."""
    return Stages()
