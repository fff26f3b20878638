"""Runs workloads of the cycle model on the RTL: one simulation, one workload after the other."""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cycle.lifelines import LifelineError, from_events

from efa.backend import BackendUnavailable
from tb.lib.simulation import brief
from tb.runner import RunFailed
from tb.simulators import simulator_missing
from tb.system_run import run_system


@dataclass(frozen=True)
class Timed:
    """What one workload showed on the RTL.

    events   efa.events.DTYPE; marks: cycle in which each doorbell store was driven
    beats    bus beats of the stores before each doorbell
    queues, numbers  index and number of each queue pair; seconds of CPU for so many cycles
    """

    events: np.ndarray
    marks: np.ndarray
    beats: np.ndarray
    queues: np.ndarray
    numbers: np.ndarray
    seconds: float
    cycles: int


def run_timed(works, sim="verilator", seed=1, progress=None):
    """A Timed for each Workload; raises RunFailed when one does not pass."""
    with tempfile.TemporaryDirectory(prefix="efa-timed-") as name:
        folder = Path(name)
        listed = folder / "workloads.json"
        listed.write_text(json.dumps([work.as_dict() for work in works]))
        run_system("tb.system.timed_tests", sim, seed, {},
                   env={"EFA_WORKLOADS": str(listed), "EFA_TIMED": name})
        found = []
        for number in range(len(works)):
            with np.load(folder / f"{number:04d}.npz") as part:
                values = {key: part[key] for key in part.files}
            values |= {key: values[key].item() for key in ("seconds", "cycles")}
            found.append(Timed(**values))
        return found


def lives_of(works, sim, seed):
    """Lifelines of some Workloads on the RTL; raises RuntimeError, and BackendUnavailable."""
    reason = simulator_missing(sim)
    if reason is not None:
        raise BackendUnavailable(reason)
    try:
        return [
            from_events(work, run.events, run.marks, run.queues, run.numbers)
            for work, run in zip(works, run_timed(works, sim, seed), strict=True)
        ]
    except (RunFailed, LifelineError) as error:
        raise RuntimeError(brief(str(error))) from error
