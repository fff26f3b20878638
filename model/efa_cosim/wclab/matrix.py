# SPDX-License-Identifier: Apache-2.0
"""Defines the runs of the matrix store buffer x bug and summarizes their results."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from efa_cosim.host.wc import POLICIES, StoreBuffer
from efa_cosim.wclab.bugs import BUGS
from efa_cosim.wclab.verdict import CLEAN, VERDICTS

# Each policy in two variants: uncached stores overtake collected stores, or drain them.
ROWS = tuple((policy, overtakes) for policy in POLICIES for overtakes in (True, False))
# With very few lines, no fence and a fence one WQE too early have the same effect.
LINES_OF_BUGS = (4, 8, 12)
LINES = (1, 2, 4, 8, 12)
# Sheet 12.2: repeated writes are permitted, so the device cannot detect two writers of a slot.
UNKNOWABLE = ("two_threads",)
NAMED, DEVICE, MISNAMED, HIDDEN, MISSED = "named", "device", "misnamed", "hidden", "missed"
FOUND, NOT_OBSERVABLE, FAILED = "found", "not observable", "failed"
# Runs per process: enough to outweigh the start of a process, few enough for frequent progress.
MOST_RUNS, MOST_RUNS_ON_RTL = 250, 30


@dataclass(frozen=True)
class Job:
    """Runs of one process: a bug (None: correct code), rows of the matrix, seeds first to end - 1.

    cost: measures the cost of each policy with correct code instead."""

    backend: str
    bug: str | None = None
    rows: tuple[tuple[str, bool], ...] = ROWS
    first: int = 0
    end: int = 1
    cost: bool = False

    def __str__(self) -> str:
        if self.cost:
            return f"{self.backend}: cost of each policy"
        rows = f"{len(self.rows)} store buffers" if len(self.rows) > 1 else row_name(*self.rows[0])
        return f"{self.backend}: {self.bug or 'correct code'}, {rows}, " \
               f"seeds {self.first} to {self.end - 1}"

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values for JSON."""
        return asdict(self)


class _Cell(NamedTuple):
    """A cell of the matrix; without a bug, its runs are those of correct code."""

    backend: str
    bug: str | None
    policy: str
    overtakes: bool


def row_name(policy: str, overtakes: bool) -> str:
    """Returns a row as readable text."""
    return f"{policy.replace('_', ' ')}, doorbell {'overtakes' if overtakes else 'drains'}"


def buffer_of(bug: str | None, policy: str, overtakes: bool, seed: int) -> StoreBuffer:
    """Returns the store buffer of one run of a row; the seed selects the number of lines."""
    lines = LINES_OF_BUGS if bug else LINES
    return StoreBuffer(policy, lines[seed % len(lines)], overtakes)


def jobs(
    seeds: int,
    correct: int,
    rtl: str | None,
    rtl_seeds: int,
    bugs: Sequence[str] = BUGS,
    first: int = 0,
) -> list[Job]:
    """Returns all jobs: many seeds on the model, fewer on a simulator (rtl None: none)."""
    found = [Job("model", cost=True)]
    if rtl:
        found.append(Job(rtl, cost=True))
        for bug in (None, *bugs):
            found += _cut(rtl, bug, first, rtl_seeds, MOST_RUNS_ON_RTL)
    for bug in (None, *bugs):
        found += _cut("model", bug, first, seeds if bug else correct, MOST_RUNS)
    return found


def _cut(backend: str, bug: str | None, first: int, seeds: int, most: int) -> list[Job]:
    """Returns every row with that many seeds, in jobs of at most `most` runs if possible."""
    rows_a_job = max(1, min(len(ROWS), most // seeds))
    return [Job(backend, bug, ROWS[row : row + rows_a_job], at, min(first + seeds, at + most))
            for row in range(0, len(ROWS), rows_a_job)
            for at in range(first, first + seeds, most)]


def outcome(run: dict[str, Any]) -> str:
    """Returns the outcome of a run with a bug."""
    if run["hidden"]:
        return HIDDEN
    if run["verdict"] == run["bug"]:
        return NAMED
    if run["device"]:
        return DEVICE
    return MISSED if run["verdict"] == CLEAN else MISNAMED


def false_alarm(run: dict[str, Any]) -> str:
    """Returns the reason why a run of correct code is a false alarm, empty if it is none."""
    if run["verdict"] != CLEAN:
        return f"verdict {run['verdict']}: {run['why']}"
    if run["device"]:
        return f"device errors: {', '.join(run['device'])}"
    if run["breach"]:
        return f"trace not possible with correct code: {run['breach']}"
    return "" if run["right"] else f"{run['arrived']} of {run['sent']} messages arrived as sent"


def summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns cells, correct and confusion of all runs; each run is a dictionary of the worker."""
    groups: defaultdict[_Cell, list[dict[str, Any]]] = defaultdict(list)
    for run in runs:
        buffer = StoreBuffer.of(run["buffer"])
        cell = _Cell(run["backend"], run["bug"], buffer.policy, buffer.overtakes)
        groups[cell].append(run)
    cells = [_cell(key, group) for key, group in groups.items() if key.bug is not None]
    correct = [_correct(key, group) for key, group in groups.items() if key.bug is None]
    confusion = {}
    for backend in sorted({run["backend"] for run in runs}):
        counts: dict[str, Counter[str]] = {
            bug or "correct": Counter() for bug in (*BUGS, None)
        }
        for run in runs:
            if run["backend"] == backend and not (run["bug"] and run["hidden"]):
                counts[run["bug"] or "correct"][run["verdict"]] += 1
        confusion[backend] = {bug: {verdict: count[verdict] for verdict in VERDICTS}
                              for bug, count in counts.items()}
    return {"cells": cells, "correct": correct, "confusion": confusion}


def _cell(key: _Cell, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    backend, bug, policy, overtakes = key
    counts = Counter(outcome(run) for run in runs)
    garbage = sum(run["garbage"] for run in runs)
    silent = garbage if bug not in UNKNOWABLE else 0
    wrong = counts[MISSED] + counts[MISNAMED] + silent
    if wrong:
        state = FAILED
    elif counts[HIDDEN] == len(runs):
        state = NOT_OBSERVABLE
    else:
        state = FOUND
    found = [run for run in runs if outcome(run) in (NAMED, DEVICE)]
    device = Counter(error for run in runs for error in run["device"])
    cell: dict[str, Any] = {
        "backend": backend, "bug": bug, "policy": policy, "overtakes": overtakes,
        "state": state, "seeds": len(runs), "messages": sum(run["sent"] for run in runs),
        **{name: counts[name] for name in (NAMED, DEVICE, MISNAMED, HIDDEN, MISSED)},
        "first_found": min((run["seed"] for run in found), default=None),
        "device_errors": dict(device), "garbage": garbage,
        "example": found[0]["why"] if found else "",
    }  # fmt: skip
    if state == NOT_OBSERVABLE:
        same = sum(run["identical"] for run in runs)
        cell["reason"] = (
            f"in all {len(runs)} seeds the trace is possible with correct code, and every message "
            f"arrived; in {same} seeds it equals that of correct code, store by store")
    elif state == FAILED:
        bad = next(run for run in runs if outcome(run) in (MISSED, MISNAMED) or run["garbage"])
        cell["reason"] = (f"{counts[MISSED]} missed, {counts[MISNAMED]} named wrongly, {garbage} "
                          f"packets that were never sent; repeat: {repeat(bad)}")
    return cell


def _correct(key: _Cell, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    backend, _, policy, overtakes = key
    alarms = [run for run in runs if false_alarm(run)]
    return {
        "backend": backend, "policy": policy, "overtakes": overtakes, "seeds": len(runs),
        "false_alarms": len(alarms), "messages": sum(run["sent"] for run in runs),
        "example": f"{false_alarm(alarms[0])}; repeat: {repeat(alarms[0])}" if alarms else "",
    }  # fmt: skip


def repeat(run: dict[str, Any]) -> str:
    """Returns the command that repeats one run."""
    bug = f" --bug {run['bug']}" if run["bug"] else ""
    return (f"efa-cosim lab --one{bug} --buffer {run['buffer']} --seed {run['seed']} "
            f"--backend {run['backend']}")


def failures(
    found: dict[str, Any], failed_jobs: Iterable[str], bugs: Sequence[str] = BUGS
) -> list[str]:
    """Returns all reasons why the laboratory fails, as texts."""
    wrong = list(failed_jobs)
    for cell in found["cells"]:
        if cell["state"] == FAILED:
            row = row_name(cell["policy"], cell["overtakes"])
            wrong.append(f"{cell['backend']}, {cell['bug']}, {row}: {cell['reason']}")
    for row in found["correct"]:
        if row["false_alarms"]:
            name = row_name(row["policy"], row["overtakes"])
            wrong.append(f"{row['backend']}, correct code, {name}: {row['false_alarms']} false "
                         f"alarms, {row['example']}")
    for backend in sorted({cell["backend"] for cell in found["cells"]}):
        for bug in bugs:
            states = {cell["state"] for cell in found["cells"]
                      if (cell["backend"], cell["bug"]) == (backend, bug)}
            if states <= {NOT_OBSERVABLE}:
                wrong.append(f"{backend}, {bug}: found under no store buffer")
    return wrong
