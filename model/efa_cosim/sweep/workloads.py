# SPDX-License-Identifier: Apache-2.0
"""Runs a sweep job with host parameters: the same workloads on the cycle model and on the RTL.

    measurements = measure(job)                  # the cycle model, milliseconds
    measurements = measure(job, on_the_rtl)      # timelines of Workloads from another source
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from efa_cosim.backends import run_workloads
from efa_cosim.cycle.lossy import of_run
from efa_cosim.cycle.network import Retransmission, Stuck, simulate
from efa_cosim.cycle.timelines import MessageTimelines, TimelineError
from efa_cosim.cycle.workload import LOSS_SHARE, Workload
from efa_cosim.layouts import defs
from efa_cosim.measure.record import Measurement
from efa_cosim.measure.workload import MESSAGES, flits, rate_limit
from efa_cosim.sweep.grid import LATENCY, RATE, Job

# A receive ring can hold the smaller number even if one queue gets all messages.
SMALL, LARGE, LARGE_BYTES = defs.LIMITS.max_rq_depth, 1024, 1024
# A source of the timelines of Workloads, in their order.
Source: TypeAlias = Callable[[Sequence[Workload]], list[MessageTimelines]]


def simulated(works: Sequence[Workload]) -> list[MessageTimelines]:
    """Returns the MessageTimelines of Workloads from the cycle model; raises RuntimeError if the
    model cannot run one."""
    try:
        return [simulate(work) for work in works]
    except (Retransmission, Stuck) as error:
        raise RuntimeError(str(error)) from error


def on_backend(name: str, seed: int) -> Source:
    """Returns a function like `simulated` for a backend with time, such as the RTL on a simulator;
    it raises RuntimeError or BackendUnavailable."""

    def timelines_of(works: Sequence[Workload]) -> list[MessageTimelines]:
        try:
            return [of_run(work, run) for work, run in
                    zip(works, run_workloads(name, works, seed), strict=True)]
        except TimelineError as error:
            raise RuntimeError(str(error)) from error

    return timelines_of


def measure(job: Job, timelines_of: Source = simulated) -> list[Measurement]:
    """Measures a Job of grid.py: latency of one message at a time; per queue count, rate and
    latency in a closed loop with `depth` outstanding messages per queue and `batch` WQEs per
    doorbell.

    timelines_of returns the MessageTimelines of a list of Workloads. Raises as timelines_of does.
    """
    works = workloads(job)
    found = []
    # Metric, statistic, value, unit and limit.
    values: list[tuple[str, str, float, str, float]]
    for work, timelines in zip(works, timelines_of(works), strict=True):
        if work.depth == 1 and work.messages == MESSAGES:
            values = [
                ("latency", "median", float(np.median(timelines.latency)), "cycles",
                 least_latency(work))  # fmt: skip
            ]
        else:
            # With losses no event tells the message of a packet.
            first = timelines["db" if work.loss else "tx_first"]
            cycles = int(timelines.end.max()) - int(first.min()) + 1
            least = least_latency(work)
            values = [
                ("message rate", "mean", work.total / cycles, "messages/cycle",
                 most_rate(job, work)),
                ("loaded latency", "median", float(np.median(timelines.latency)), "cycles", least),
                ("loaded latency", "p99", float(np.percentile(timelines.latency, 99)), "cycles",
                 least),
            ]  # fmt: skip
        found += [
            Measurement(metric, statistic, value, unit, work.total, limit, backend=job.backend,
                        **work.setting() | {"loss": job.loss})
            for metric, statistic, value, unit, limit in values
        ]
    return found


def workloads(job: Job) -> list[Workload]:
    """Returns the Workloads of a job; the workload of the latency comes first."""
    same: dict[str, Any] = {
        "kind": job.kind, "size": job.size, "read_latency": job.host_read_latency,
        "policy": job.store_buffer, "seed": job.seed, "sq_host": job.sq_host,
        "loss": max(1, round(job.loss * LOSS_SHARE)) if job.loss else 0}  # fmt: skip
    found = [Workload(**same, messages=MESSAGES)] if LATENCY in job.measure else []
    messages = LARGE if job.size >= LARGE_BYTES else SMALL
    if RATE in job.measure:
        found += [
            Workload(**same, queues=queues, depth=job.depth, batch=job.batch,
                     messages=max(messages, queues * job.batch))
            for queues in job.queues
        ]  # fmt: skip
    return found


def least_latency(work: Workload) -> int:
    """Returns the lower limit of a message's latency in cycles, from host and fabric only: the
    reads of its WQE and payload, the packet over the fabric, and for SRD the way back."""
    return least_departure(work) + (2 if work.kind == "SRD" else 1) * work.net_latency


def least_departure(work: Workload) -> int:
    """Returns the lower limit in cycles until the last flit is sent, when the send of a datagram
    completes."""
    reads = (0 if work.inline else 1) + work.sq_host
    return reads * work.read_latency + flits(work.size) - 1


def most_rate(job: Job, work: Workload) -> float:
    """Returns the upper limit of messages per cycle, from the busiest port and the host's window.

    A queue posts a message when that of `depth` messages before is complete, so its messages take
    that many round trips one after the other. The rate counts from the first packet on, which
    follows its reads.
    """
    complete = least_latency(work) if work.kind == "SRD" else least_departure(work)
    round_trip = complete + work.write_latency
    trips = -(-work.total // (work.queues * work.depth))
    cycles = max(1, trips * round_trip - work.write_latency - least_departure(work))
    return min(rate_limit(job.kind_number, work.size, work.batch, work.sq_host),
               work.total / cycles)  # fmt: skip
