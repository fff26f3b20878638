# SPDX-License-Identifier: Apache-2.0
"""Runs jobs in parallel processes, each fresh; no process outlives the pool."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any, Protocol, Self, TypeAlias

POLL_SECONDS = 0.05
END_SECONDS = 15.0


class Job(Protocol):
    """A job as the pool uses it."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, the argument of the job's process."""


# Job, process, start in seconds, standard output and standard error.
_Running: TypeAlias = "tuple[Any, subprocess.Popen[bytes], float, IO[str], IO[str]]"


@dataclass(frozen=True)
class Group:
    """Jobs too short for a process each; one process returns measurements or error of each."""

    jobs: tuple[Any, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"jobs": [job.as_dict() for job in self.jobs]}


@dataclass
class Finished:
    """A finished job or group: its measurements, or exit code and reason of the failure."""

    job: Any
    code: int
    seconds: float
    measurements: list[Any]
    reason: str = ""

    @property
    def jobs(self) -> tuple[Any, ...]:
        """The finished jobs: one, or those of a group."""
        return self.job.jobs if isinstance(self.job, Group) else (self.job,)

    def each(self) -> list[tuple[Any, list[Any], str]]:
        """(job, measurements, reason) of each job."""
        if not isinstance(self.job, Group) or self.code:
            return [(job, self.measurements, self.reason) for job in self.jobs]
        return [(job, text.get("measurements", []), text.get("reason", ""))
                for job, text in zip(self.jobs, self.measurements, strict=True)]


class Pool:
    """Runs up to `width` processes of `python -m module JSON` at a time."""

    def __init__(
        self, jobs: Iterable[Job], width: int, module: str = "efa_cosim.sweep.point"
    ) -> None:
        self._waiting, self._width, self._module = deque(jobs), width, module
        self._running: list[_Running] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        """Ends running processes: SIGTERM, with which they end their simulators, then SIGKILL."""
        for _, process, *_ in self._running:
            process.terminate()
        deadline = time.monotonic() + END_SECONDS
        for _, process, *_ in self._running:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def results(self) -> Iterator[Finished]:
        """Yields jobs as they finish."""
        while self._waiting or self._running:
            while self._waiting and len(self._running) < self._width:
                self._start(self._waiting.popleft())
            ended = [entry for entry in self._running if entry[1].poll() is not None]
            self._running = [entry for entry in self._running if entry not in ended]
            for entry in ended:
                yield self._finished(*entry)
            if not ended:
                time.sleep(POLL_SECONDS)

    def _start(self, job: Job) -> None:
        out = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in _finished
        err = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        # A separate session: the pool, not the terminal, passes interrupts on.
        process = subprocess.Popen(
            [sys.executable, "-m", self._module, json.dumps(job.as_dict())], env=environment,
            stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
        self._running.append((job, process, time.monotonic(), out, err))

    @staticmethod
    def _finished(
        job: Any, process: subprocess.Popen[bytes], started: float, out: IO[str], err: IO[str]
    ) -> Finished:
        with out, err:
            out.seek(0)
            err.seek(0)
            text = err.read().strip().splitlines()
            code, measurements = process.returncode, []
            if code == 0:
                try:
                    measurements = json.load(out)
                except ValueError:
                    code, text = 1, ["the job printed no measurements"]
                if isinstance(job, Group) and len(measurements) != len(job.jobs):
                    text = [f"{len(measurements)} of {len(job.jobs)} jobs returned measurements"]
                    code, measurements = 1, []
        reason = text[-1] if text else f"the job ended with code {code}"
        seconds = time.monotonic() - started
        return Finished(job, code, seconds, measurements, "" if code == 0 else reason)
