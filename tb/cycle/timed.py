"""Runs workloads of the cycle model on the RTL: one simulation, one workload after the other."""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tb.system_run import run_system


@dataclass(frozen=True)
class Timed:
    """What one workload showed on the RTL.

    events   efa.events.DTYPE; marks: cycle in which each doorbell store was driven
    pins     handshakes at every port (tb.lib.requests.PIN)
    rings    address of each queue pair's receive ring; reset: cycle in which the core's began
    meter    counters of efa_meter by index (defs.Meter): the device's, then the bench's own of
             what can be seen at the pins
    beats    bus beats of the stores before each doorbell
    queues, numbers  index and number of each queue pair; seconds of CPU for so many cycles
    """

    events: np.ndarray
    pins: np.ndarray
    meter: np.ndarray
    rings: np.ndarray
    reset: int
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
            values |= {key: values[key].item() for key in ("seconds", "cycles", "reset")}
            found.append(Timed(**values))
        return found
