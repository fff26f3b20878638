# SPDX-License-Identifier: Apache-2.0
"""Runs jobs on the workers of a Dask scheduler, or on workers that it starts under Slurm.

A worker starts each job as the local pool does (`efa_cosim.jobs.process`). Dask starts a job again
on another worker if its worker dies. The watchdog of the client submits a job again if the
scheduler no longer has the job, or if the job outlasts its own time limit. The client takes one
result for each job. Under Slurm it requests another worker for each one whose Slurm job ended.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import queue
import re
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from importlib import import_module
from typing import Any, Self

from efa_cosim.jobs import remote
from efa_cosim.jobs.job import Finished, Job, Limits, finished, module_of
from efa_cosim.jobs.store import digest_of
from efa_cosim.tree import ROOT

SYNTAX = "tcp://HOST:PORT of a Dask scheduler, slurm or slurm:PARTITION"
ADDRESS = re.compile(r"(tcp|tls)://[^/\s:]+:\d+|slurm(:[\w.-]+)?")
CONNECT_SECONDS = 10.0
# Without a worker for so long, a run on a scheduler ends; Slurm may queue its workers for hours.
NO_WORKER_SECONDS = 60.0
WATCH_SECONDS = 2.0
RENEW_SECONDS = 10.0
# A pending job that the scheduler gave to no worker for so long, while one is idle, is lost.
LOST_SECONDS = 30.0
# Jobs at a worker that wait for its threads; they start without a round trip to the client.
AHEAD = 2
ATTEMPTS = 3
WALLTIME = "12:00:00"
SLURM_LOGS = ROOT / "sim/out/slurm"


class ClusterError(Exception):
    """The cluster cannot run the jobs; the text names the reason and what to do.

    Results that the client received are stored: the same command resumes.
    """


@dataclass
class _Pending:
    """A submitted job: its future, its attempt, and the times at which the watchdog first saw it at
    a worker, and first saw it at none."""

    job: Job
    future: Any
    attempt: int
    taken: float | None = None
    missing: float | None = None


class Cluster:
    """Runs jobs of an entry point on a cluster; an `Executor`.

    `where` is an address (SYNTAX), `width` the number of workers to start under Slurm. `sources`
    are patterns below the folder of the sources: a worker with other sources refuses the jobs.
    Raises NoSuchEntry, and ClusterError as `results()` does.
    """

    def __init__(
        self, where: str, width: int, entry: str, sources: tuple[str, ...],
        limits: Limits | None = None,
    ) -> None:
        module_of(entry)
        self._where, self._entry, self._limits = where, entry, limits or Limits()
        self._sources, self._digest = sources, digest_of(ROOT, sources)
        self._waiting: deque[tuple[Job, int]] = deque()
        self._pending: dict[str, _Pending] = {}
        self._done: queue.SimpleQueue[str] = queue.SimpleQueue()
        distributed = _extra("distributed")
        self._slurm: Any = _slurm(where, width, self._limits) if where[:5] == "slurm" else None
        try:
            self._client: Any = distributed.Client(
                self._slurm or where, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ClusterError(f"no Dask scheduler at {where} ({_line(error)}); start it with "
                               "`.venv/bin/dask scheduler`, its first lines print the address"
                               ) from None
        self._threads, self._alone, self._watched = 0, time.monotonic(), 0.0
        self._width = width if self._slurm else 0
        self._renewed, self._ended_early = time.monotonic(), 0

    @property
    def width(self) -> int:
        """The number of threads of all workers; waits for the first worker. With Slurm, the number
        of workers that were requested."""
        while not self._width:
            self._count()
            self._width = self._threads
            if not self._width:
                time.sleep(0.1)
        return self._width

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        """Ends the jobs that still run, and the workers under Slurm."""
        keys = tuple(self._pending)
        # A lost scheduler leaves nothing to end; its workers end their jobs when they end.
        with contextlib.suppress(OSError, TimeoutError, RuntimeError):
            if keys and self._client.status == "running":
                self._client.cancel([one.future for one in self._pending.values()])
                self._client.run(remote.end, keys, on_error="ignore")
        self._client.close(timeout=CONNECT_SECONDS)
        if self._slurm:
            self._slurm.close()

    def add(self, job: Job) -> None:
        """Adds a job, also while results() is in use."""
        self._waiting.append((job, 1))

    def results(self) -> Iterator[Finished]:
        """Yields each job once, in the order in which the jobs finish; raises ClusterError."""
        try:
            yield from self._results()
        except Exception:
            # The calls of a client that loses its scheduler fail with errors of several types.
            self._check()
            raise

    def _results(self) -> Iterator[Finished]:
        while self._waiting or self._pending:
            if time.monotonic() >= self._watched + WATCH_SECONDS:
                yield from self._watch()
            while self._waiting and len(self._pending) < AHEAD * self._threads:
                self._submit(*self._waiting.popleft())
            try:
                key = self._done.get(timeout=WATCH_SECONDS)
            except queue.Empty:
                continue
            done = self._taken(key)
            if done is not None:
                self._ended_early = 0
                yield done

    def _submit(self, job: Job, attempt: int) -> None:
        values = job.as_dict()
        limits = astuple(self._limits)
        # A name by content: a client that was killed and starts again finds its running jobs.
        text = json.dumps([self._entry, values, limits, self._digest, attempt], sort_keys=True)
        key = f"efa-cosim-{self._entry}-{hashlib.sha256(text.encode()).hexdigest()[:24]}"
        if key in self._pending:
            raise ValueError(f"the job {job} was added a second time")
        future = self._client.submit(
            remote.run, key, self._entry, values, limits, self._sources, self._digest, key=key,
            pure=False)
        self._pending[key] = _Pending(job, future, attempt)
        future.add_done_callback(lambda _future: self._done.put(key))

    def _taken(self, key: str) -> Finished | None:
        """Returns the result of a finished job; None if it was taken or is submitted again."""
        one = self._pending.pop(key, None)
        if one is None:
            return None
        if one.future.status == "finished":
            try:
                values = one.future.result()
            except Exception as error:  # the scheduler, or the worker, died with the result
                self._check()
                return self._again(one, f"its result did not arrive ({_line(error)})")
            one.future.release()
            return finished(one.job, *values)
        if one.future.status == "error":
            return Finished(one.job, 1, 0.0, [], self._reason(one.future.exception()))
        self._check()
        return self._again(one, "the scheduler cancelled it")

    def _reason(self, error: Any) -> str:
        """Returns the text of an error of a worker; raises ClusterError if no job can run."""
        if isinstance(error, ImportError) or "deserialization" in str(error):
            raise ClusterError(f"scheduler or workers of {self._where} lack this program "
                               f"({_line(error)}); start both with the programs of this tree: "
                               "`.venv/bin/dask scheduler`, `.venv/bin/dask worker ADDRESS`")
        if type(error).__name__ == "KilledWorker":
            return f"each worker that ran the job died, {error.allowed_failures + 1} in all"
        return _line(error)

    def _again(self, one: _Pending, why: str) -> Finished | None:
        """Submits a lost job again; returns a failure after the last attempt."""
        if one.attempt == ATTEMPTS:
            return Finished(one.job, 1, 0.0, [], f"lost by the cluster {ATTEMPTS} times: {why}")
        self._waiting.appendleft((one.job, one.attempt + 1))
        return None

    def _check(self) -> None:
        if self._client.status != "running":
            raise ClusterError(
                f"lost the connection to the scheduler of {self._where}; finished jobs are stored: "
                "start the scheduler and its workers again, then run the same command again")

    def _count(self) -> None:
        """Counts the threads of all workers; raises ClusterError without one for too long."""
        self._check()
        try:
            self._threads = sum(self._client.nthreads().values())
        except Exception as error:
            self._check()
            if not isinstance(error, OSError):
                raise
        now = time.monotonic()
        self._alone = now if self._threads else self._alone
        if not self._slurm and now - self._alone > NO_WORKER_SECONDS:
            raise ClusterError(
                f"no worker at {self._where} for {NO_WORKER_SECONDS:.0f} s; finished jobs are "
                f"stored: start workers with `.venv/bin/dask worker {self._where} --nthreads 1`, "
                "then run the same command again")
        if self._slurm and self._threads < self._width:
            self._renew()

    def _renew(self) -> None:
        """Requests Slurm jobs in place of those that ended; raises ClusterError if all end early.

        `scale` alone requests nothing: it counts a Slurm job that ended before its worker started.
        """
        now = time.monotonic()
        listed = _listed_by_slurm() if now - self._renewed >= RENEW_SECONDS else None
        if listed is None:
            return
        workers = dict(self._slurm.workers)
        ended = [name for name, one in workers.items() if one.job_id not in listed]
        missing = self._width - len(workers) + len(ended)
        if not missing:
            return
        self._renewed, self._ended_early = now, self._ended_early + missing
        if self._ended_early > ATTEMPTS * self._width:
            raise ClusterError(
                f"{self._ended_early} Slurm jobs of {self._where} ended, and no job of this "
                f"command finished meanwhile; their output is in {SLURM_LOGS}; results are stored: "
                "run the same command again")
        for name in ended:
            self._slurm.loop.add_callback(self._slurm.workers.pop, name, None)
        self._slurm.scale(self._width)

    def _watch(self) -> list[Finished]:
        """Counts the workers, and submits lost jobs again; returns those lost too often."""
        self._watched = time.monotonic()
        self._count()
        try:
            at = self._client.processing()
        except OSError:
            self._check()
            return []
        failed = []
        taken = {key for keys in at.values() for key in keys}
        idle = self._threads > len(taken)
        for key, one in list(self._pending.items()):
            if one.future.done():
                continue
            why = self._lost(one, key in taken, idle)
            if why:
                del self._pending[key]
                self._client.cancel([one.future])
                done = self._again(one, why)
                failed += [done] if done else []
        return failed

    def _lost(self, one: _Pending, taken: bool, idle: bool) -> str:
        """Returns why a job is lost, an empty text if it is not."""
        now = self._watched
        if taken:
            one.missing, one.taken = None, one.taken or now
            # Others of its worker run before it, at most AHEAD - 1.
            most = AHEAD * self._limits.seconds + LOST_SECONDS
            return f"no result after {most:.0f} s at a worker" if now - one.taken > most else ""
        one.taken, one.missing = None, (one.missing or now) if idle else None
        if one.missing is not None and now - one.missing > LOST_SECONDS:
            return f"at no worker for {LOST_SECONDS:.0f} s while one is idle"
        return ""


def _extra(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ClusterError(f"--cluster needs the package {error.name}, which is not installed; "
                           f"install the extra: {sys.executable} -m pip install '.[cluster]'"
                           ) from None


def _slurm(where: str, width: int, limits: Limits) -> Any:
    """Returns a cluster of `width` Slurm jobs, each one worker with one thread."""
    _, _, partition = where.partition(":")
    SLURM_LOGS.mkdir(parents=True, exist_ok=True)
    try:
        return _extra("dask_jobqueue").SLURMCluster(
            queue=partition or None, cores=1, processes=1, memory=f"{limits.megabytes}MiB",
            walltime=WALLTIME, python=sys.executable, log_directory=str(SLURM_LOGS),
            local_directory="/tmp", n_workers=width)
    except (OSError, RuntimeError, ValueError) as error:
        raise ClusterError(f"{where}: no Slurm job started ({_line(error)}); `sinfo` lists the "
                           "partitions") from None


def _listed_by_slurm() -> set[str] | None:
    """Returns the numbers of all waiting and running Slurm jobs, None if Slurm does not answer."""
    try:
        found = subprocess.run(["squeue", "-h", "-o", "%A"], capture_output=True, text=True,
                               timeout=CONNECT_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return set(found.stdout.split()) if found.returncode == 0 else None


def _line(error: BaseException) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:300]
