# SPDX-License-Identifier: Apache-2.0
"""Runs jobs in parallel processes of this machine, each fresh; no process outlives the pool."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Self

from efa_cosim.jobs.job import Finished, Job, Limits, finished, module_of
from efa_cosim.jobs.process import JobProcess, end_all

POLL_SECONDS = 0.05


class Pool:
    """Runs up to `width` processes of an entry point at a time; an `Executor`.

    Raises NoSuchEntry.
    """

    def __init__(
        self, jobs: Iterable[Job], width: int, entry: str, limits: Limits | None = None
    ) -> None:
        self._waiting, self._width = deque(jobs), width
        self._module, self._limits = module_of(entry), limits or Limits()
        self._running: list[tuple[Job, JobProcess]] = []

    @property
    def width(self) -> int:
        """The number of processes at a time."""
        return self._width

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        """Ends running processes: SIGTERM, with which they end their simulators, then SIGKILL."""
        end_all(process for _, process in self._running)

    def add(self, job: Job) -> None:
        """Adds a job, also while results() is in use."""
        self._waiting.append(job)

    def results(self) -> Iterator[Finished]:
        """Yields jobs as they finish."""
        while self._waiting or self._running:
            while self._waiting and len(self._running) < self._width:
                self._start(self._waiting.popleft())
            ended = [one for one in self._running if one[1].ended()]
            self._running = [one for one in self._running if one not in ended]
            for job, process in ended:
                yield finished(job, *process.output())
            if not ended:
                time.sleep(POLL_SECONDS)

    def _start(self, job: Job) -> None:
        self._running.append((job, JobProcess(self._module, job.as_dict(), self._limits)))
