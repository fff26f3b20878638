# SPDX-License-Identifier: Apache-2.0
"""Runs one job of a sweep in its own process and prints its measurements as JSON.

    python -m efa_cosim.sweep.point '{"backend": "verilator", "kind": "SRD", "size": 64, ...}'

`{"jobs": [...]}` is a group of short jobs: prints the measurements or the error of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, cast

from efa_cosim.backends import open_backend
from efa_cosim.boundary.backend import Backend
from efa_cosim.host.endpoints import SRD, UD
from efa_cosim.measure.failures import DEVICE_WRONG, one_line
from efa_cosim.measure.process import answer, serve
from efa_cosim.measure.record import Measurement
from efa_cosim.measure.workload import latency_point, new_node, rate_point
from efa_cosim.sweep.grid import CYCLE, LATENCY, RATE, Job

KINDS = {"UD": UD, "SRD": SRD}


def measure(job: Job) -> list[Measurement]:
    """Runs a `Job` in this process; returns a list of `Measurement`.

    Raises BackendUnavailable if the backend cannot run here. A wrong device is a Mismatch,
    DeviceTimeout, DriverError, VerbsError, EventsMissing, RuntimeError or AssertionError
    (DEVICE_WRONG in `efa_cosim.measure.failures`).
    """
    if job.depth:
        return _with_host_parameters(job)
    wait, kind, found = job.host_read_latency, KINDS[job.kind], []
    opened = open_backend(job.backend, seed=job.seed, rd_latency_min=wait, rd_latency_max=wait)
    with cast(Backend, opened) as backend:
        node = new_node(backend, job.seed)
        if LATENCY in job.measure:
            found.append(latency_point(node, kind, job.size))
        if RATE in job.measure:
            found += [rate_point(node, kind, job.size, queues) for queues in job.queues]
    return [replace(measurement, host_read_latency=wait, seed=job.seed, backend=job.backend)
            for measurement in found]


def _with_host_parameters(job: Job) -> list[Measurement]:
    """The workloads with host parameters, on the cycle model or in a separate RTL simulation."""
    # The import of the cycle model's compiler takes a second: other jobs avoid it.
    from efa_cosim.sweep.workloads import measure as of_workloads
    from efa_cosim.sweep.workloads import on_backend

    if job.backend == CYCLE:
        return of_workloads(job)
    return of_workloads(job, on_backend(job.backend, job.seed))


def _each(several: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The measurements or the error of each job."""
    for values in several:
        try:
            yield {"measurements": [one.as_dict() for one in measure(Job(**values))]}
        except DEVICE_WRONG as error:
            yield {"reason": one_line(error)}


def main(argument: str) -> int:
    """Prints the measurements of a job or of a group; returns the exit code."""
    return answer(_measured, argument)


def _measured(values: dict[str, Any]) -> list[dict[str, Any]]:
    if "jobs" in values:
        return list(_each(values["jobs"]))
    return [measurement.as_dict() for measurement in measure(Job(**values))]


if __name__ == "__main__":
    serve(main)
