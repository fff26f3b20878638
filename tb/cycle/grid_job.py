# SPDX-License-Identifier: Apache-2.0
"""Measures some workloads of the cycle grid on RTL and model in one process; prints the rows as
JSON.

    python -m tb.cycle.grid_job '{"works": [{"size": 64, ...}], "seed": 1}'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from efa_cosim.cycle.compare import compare
from efa_cosim.cycle.lossy import of_run
from efa_cosim.cycle.network import Retransmission, simulate
from efa_cosim.cycle.timelines import MessageTimelines, TimelineError
from efa_cosim.cycle.workload import Workload
from efa_cosim.measure.process import answer, serve
from tb.cycle.timed import Timed, run_timed
from tb.runner import RunFailed


@dataclass(frozen=True)
class Chunk:
    """A job: some Workloads, and the seed of the RTL."""

    works: tuple
    seed: int

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values for JSON."""
        return {"works": [work.as_dict() for work in self.works], "seed": self.seed}


def both(work: Workload, run: Timed) -> tuple[MessageTimelines, MessageTimelines]:
    """Returns the timelines of RTL and model. With losses, both lose the same packets and
    acknowledgements, and those of the RTL have doorbells and send completions only."""
    losses = run.lost.astype(np.int64) if work.loss else None
    return of_run(work, run), simulate(work, run.beats, clocks=run.clocks, losses=losses)


def measure(works: Sequence[Workload], seed: int) -> list[dict[str, Any]]:
    """Returns a row per workload: RTL and model on the same host accesses."""
    rows = []
    for work, run in zip(works, run_timed(works, "verilator", seed), strict=True):
        real, modelled = both(work, run)
        rows.append({**compare(work, real, modelled), "cycles": run.cycles,
                     "beats": float(np.mean(run.beats)) / work.batch})
    return rows


def _measured(values: dict[str, Any]) -> list[dict[str, Any]]:
    try:
        return measure([Workload(**work) for work in values["works"]], values["seed"])
    except (RunFailed, TimelineError, Retransmission) as error:
        raise RuntimeError(str(error)) from error


def main(argument: str) -> int:
    """Prints the rows of a job; returns the exit code."""
    return answer(_measured, argument)


if __name__ == "__main__":
    serve(main)
