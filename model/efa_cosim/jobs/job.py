# SPDX-License-Identifier: Apache-2.0
"""Describes jobs, their limits and results, and the interface of everything that runs jobs.

A job is data: the name of an entry point and a JSON value. The group `efa_cosim.jobs` of entry
points names a module for each; the module runs as a program with the JSON text as its argument. It
prints the result as JSON and exits with 0. Otherwise the last line of its standard error is the
reason, and exit code 2 means that no job of this kind can run here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, NamedTuple, Protocol, Self

ENTRIES = "efa_cosim.jobs"
UNUSABLE, OVER_TIME, OVER_MEMORY = 2, 124, 125


class NoSuchEntry(Exception):
    """No package registers an entry point of this name; the text lists the known names."""


class Job(Protocol):
    """A job as an executor uses it."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, the argument of the job's process."""


@dataclass(frozen=True)
class Limits:
    """The limits of one job, with all processes that it starts: seconds, and megabytes of memory.

    A job beyond a limit is ended and fails with code OVER_TIME or OVER_MEMORY.
    """

    seconds: float = 3600.0
    megabytes: int = 8192


@dataclass(frozen=True)
class Group:
    """Jobs too short for a process each; one process returns measurements or error of each."""

    jobs: tuple[Any, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"jobs": [job.as_dict() for job in self.jobs]}


class Result(NamedTuple):
    """The result of one job: measurements, or the reason of its failure."""

    job: Any
    measurements: list[Any]
    reason: str


@dataclass
class Finished:
    """A finished job or group: its measurements, or exit code and reason of the failure.

    `seconds` is the time of its process.
    """

    job: Any
    code: int
    seconds: float
    measurements: list[Any]
    reason: str = ""

    @property
    def jobs(self) -> tuple[Any, ...]:
        """The finished jobs: one, or those of a group."""
        return self.job.jobs if isinstance(self.job, Group) else (self.job,)

    def each(self) -> list[Result]:
        """The result of each job."""
        if not isinstance(self.job, Group) or self.code:
            return [Result(job, self.measurements, self.reason) for job in self.jobs]
        return [Result(job, text.get("measurements", []), text.get("reason", ""))
                for job, text in zip(self.jobs, self.measurements, strict=True)]


class Executor(Protocol):
    """Runs jobs of one entry point. `with` ends the jobs that still run at its end."""

    @property
    def width(self) -> int:
        """The number of jobs that run at a time."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_exc: object) -> None: ...

    def add(self, job: Job) -> None:
        """Adds a job, also while results() is in use."""

    def results(self) -> Iterator[Finished]:
        """Yields each job once, in the order in which the jobs finish."""


def module_of(entry: str) -> str:
    """Returns the name of the module of an entry point; raises NoSuchEntry."""
    found = entry_points(group=ENTRIES, name=entry)
    if not found:
        names = ", ".join(sorted(entry_points(group=ENTRIES).names)) or "none"
        raise NoSuchEntry(f"no job {entry!r}: expected one of {names}; `make setup` registers the "
                          "jobs of this tree")
    return next(iter(found)).value


def finished(job: Any, code: int, seconds: float, output: str, errors: str) -> Finished:
    """Returns the result of a process from its exit code, output and standard error."""
    lines, measurements = errors.strip().splitlines(), []
    if code == 0:
        try:
            measurements = json.loads(output)
        except ValueError:
            code, lines = 1, ["the job printed no measurements"]
        if isinstance(job, Group) and len(measurements) != len(job.jobs):
            lines = [f"{len(measurements)} of {len(job.jobs)} jobs returned measurements"]
            code, measurements = 1, []
    reason = lines[-1] if lines else f"the job ended with code {code}"
    return Finished(job, code, seconds, measurements, "" if code == 0 else reason)
