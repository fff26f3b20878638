# SPDX-License-Identifier: Apache-2.0
"""Runs workloads of the cycle model on the RTL, all in one simulation.

The results of a workload are cached under sim/out by a digest of the device and of all code that
drives it. A later run with the same digest uses the cache instead of a simulation.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from efa_cosim.boundary.backend import BackendUnavailable
from efa_cosim.cycle.stages import standard
from efa_cosim.cycle.timelines import Clocks
from tb.lib.simulation import brief
from tb.runner import OUT, RunFailed
from tb.simulators import ROOT, simulator_missing
from tb.system_run import build_system, run_system

if TYPE_CHECKING:
    from efa_cosim.cycle.workload import Workload

KEPT = OUT / "timed"
CACHED_DIGESTS = 4
POWER_ON_CYCLES = 8  # kResetCycles of tb/native/bench.h
# The host accesses depend on these files and on the built device: a change empties the cache.
DRIVERS = (
    *(f"model/efa_cosim/{one}/*.py" for one in ("boundary", "host", "layouts", "measure")),
    "model/efa_cosim/cycle/workload.py", "tb/lib/*.py", "tb/system/timed_tests.py",
)  # fmt: skip


@dataclass(frozen=True)
class Timed:
    """The results of one workload on the RTL.

    - `events`: boundary.events.DTYPE; `timestamps`: cycle in which each doorbell store was driven
    - `pins`: handshakes at every port (tb.lib.requests.PIN)
    - `lost`: whether the fabric lost each packet and acknowledgement, in the order of leaving
    - `rings`: address of each queue pair's receive ring
    - `reset`: cycle in which the reset of the core began
    - `context`: message context of the first message
    - `perf_counters`: counters of efa_perf_counters by index (defs.Perf): those of the device, then
      the bench's own counts at the pins
    - `beats`: bus beats of the stores before each doorbell
    - `queues`, `numbers`: index and number of each queue pair
    - `seconds`: CPU time of the run; `cycles`: length of the run
    """

    events: np.ndarray
    pins: np.ndarray
    lost: np.ndarray
    perf_counters: np.ndarray
    rings: np.ndarray
    reset: int
    context: int
    timestamps: np.ndarray
    beats: np.ndarray
    queues: np.ndarray
    numbers: np.ndarray
    seconds: float
    cycles: int

    @property
    def clocks(self) -> Clocks:
        """Returns the counters of the device in the cycle of the first doorbell store."""
        first = int(self.timestamps[0])
        reset = self.reset + standard().latency("efa_reset.core")
        return Clocks(first - reset, first - POWER_ON_CYCLES - 1, self.context)


def run_timed(
    works: Sequence[Workload],
    sim: str = "verilator",
    seed: int = 1,
    again: bool = False,
) -> list[Timed]:
    """Returns a Timed for each Workload; raises RunFailed when a workload does not pass.

    `again` simulates workloads that are cached, too.
    """
    builds = {work.sq_host for work in works}
    if len(builds) > 1:
        found = {}
        for build in builds:
            same = [work for work in works if work.sq_host == build]
            found[build] = iter(run_timed(same, sim, seed, again))
        return [next(found[work.sq_host]) for work in works]
    params = parameters(works[0].sq_host)
    folder = _kept(sim, params)
    places = [folder / f"{_digest(f'{seed} {json.dumps(work.as_dict())}')}.npz" for work in works]
    missing = {place: work for place, work in zip(places, works, strict=True)
               if again or not place.exists()}
    if missing:
        with tempfile.TemporaryDirectory(prefix="efa-timed-") as name:
            _simulate(list(missing.values()), sim, seed, params, Path(name))
            for number, place in enumerate(missing):
                with np.load(Path(name) / f"{number:04d}.npz") as part:
                    own = place.with_suffix(f".{Path(name).name}.npz")
                    np.savez_compressed(own, **part)
                    own.replace(place)
    return [_load(place) for place in places]


def parameters(sq_host: int) -> dict[str, int]:
    """Returns the RTL parameters of a build."""
    return {"SQ_HOST": 1} if sq_host else {}


def _simulate(
    works: Sequence[Workload], sim: str, seed: int, params: dict[str, int], folder: Path
) -> None:
    listed = folder / "workloads.json"
    listed.write_text(json.dumps([work.as_dict() for work in works]))
    run_system("tb.system.timed_tests", sim, seed, params,
               env={"EFA_WORKLOADS": str(listed), "EFA_TIMED": str(folder)})


def _load(place: Path) -> Timed:
    with np.load(place) as part:
        values = {key: part[key] for key in part.files}
    values |= {key: values[key].item() for key in ("seconds", "cycles", "reset", "context")}
    return Timed(**values)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _kept(sim: str, params: dict[str, int]) -> Path:
    """Returns the folder of this device's results; deletes the oldest folders of other devices."""
    build = build_system(sim, params)[0]
    state = hashlib.sha256(build.name.encode())
    for path in sorted(path for pattern in DRIVERS for path in ROOT.glob(pattern)):
        state.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    folder = KEPT / state.hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    others = sorted(KEPT.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in others[CACHED_DIGESTS:]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def run_workloads(sim: str, works: Sequence[Workload], seed: int) -> list[Timed]:
    """Returns a Timed for each Workload: serves run_workloads of efa_cosim.backends.

    Raises BackendUnavailable if the simulator is missing, RuntimeError if a workload fails.
    """
    reason = simulator_missing(sim)
    if reason is not None:
        raise BackendUnavailable(reason)
    try:
        return run_timed(works, sim, seed)
    except RunFailed as error:
        raise RuntimeError(brief(str(error))) from error


# Entry points of efa_cosim.workloads.
run_on_verilator = partial(run_workloads, "verilator")
run_on_icarus = partial(run_workloads, "icarus")
