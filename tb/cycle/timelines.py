# SPDX-License-Identifier: Apache-2.0
"""Provides the message timelines of workloads on the RTL, for sweeps."""

from cycle.timelines import TimelineError, from_events

from efa.backend import BackendUnavailable
from tb.cycle.timed import run_timed
from tb.lib.simulation import brief
from tb.runner import RunFailed
from tb.simulators import simulator_missing


def timelines_of(works, sim, seed):
    """Returns MessageTimelines of some Workloads; raises RuntimeError or BackendUnavailable."""
    reason = simulator_missing(sim)
    if reason is not None:
        raise BackendUnavailable(reason)
    try:
        return [
            from_events(work, run.events, run.timestamps, run.queues, run.numbers)
            for work, run in zip(works, run_timed(works, sim, seed), strict=True)
        ]
    except (RunFailed, TimelineError) as error:
        raise RuntimeError(brief(str(error))) from error
