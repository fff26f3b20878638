# SPDX-License-Identifier: Apache-2.0
"""Measures the simulation speed of the whole device in cycles per CPU second (make bench-sim).

The runs on the same RTL, on Verilator and on Icarus if installed:

- clocks only
- checked traffic on all queues
- a baseline bench that wakes Python at every clock, makes register stores and checks nothing: an
  upper bound for such benches

The report gives the share of each part of the bench in the time of checked traffic: simulator with
transactors, monitors, order, predictor, scoreboard, host software.

Writes reports/bench_sim/summary.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from efa_cosim.jobs.progress import Progress
from tb.runner import RunFailed, run_unit
from tb.simulators import ROOT, SIMULATORS, simulator_missing
from tb.system_run import run_system
from tb.unit.units import BENCHES

OUT = ROOT / "reports/bench_sim/summary.json"
TARGET = 100_000  # cycles per second with traffic, Verilator
SHARE = 0.6  # of the simulator in the time of checked traffic


def measure(sim: str, progress: Progress) -> dict[str, Any]:
    """Returns the measurements of one simulator."""
    progress.phase(f"{sim}: building and running the whole device")
    outcome = run_system("tb.system.speed_tests", sim, 1)
    measurements = json.loads((outcome.folder / "speed.json").read_text())
    progress.phase(f"{sim}: building and running the baseline bench")
    return {**measurements, **baseline(sim)}


def baseline(sim: str, short: bool = False) -> dict[str, Any]:
    """Returns the cycles per second of the baseline bench, and the measured cycles: 8,000, with
    `short` 500.
    """
    bench = BENCHES["baseline"]
    outcome = run_unit("baseline", bench.top, None, bench.module("baseline"), sim, 1,
                       short=short)  # fmt: skip
    return json.loads((outcome.folder / "speed.json").read_text())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sim", choices=SIMULATORS, action="append", help="default: all present")
    options = parser.parse_args()
    rows = {}
    for sim in options.sim or SIMULATORS:
        reason = simulator_missing(sim)
        if reason:
            print(f"skipped: {reason}")
            continue
        try:
            with Progress(sim) as progress:
                rows[sim] = measure(sim, progress)
        except RunFailed as error:
            print(error, file=sys.stderr)
            return 1
    for sim, row in rows.items():
        share = row["traffic"] / row["clocks_only"]
        print(
            f"{sim}: {row['traffic']:,.0f} cycles/s with traffic ({row['messages']} messages, "
            f"{row['compared']} comparisons), {row['clocks_only']:,.0f} with clocks only "
            f"({share:.0%}), baseline bench with register stores alone {row['baseline']:,.0f}"
        )
        parts = sorted(row["shares"].items(), key=lambda part: -part[1])
        print(f"{sim}: " + ", ".join(f"{name} {part:.0%}" for name, part in parts)
              + f" (target: simulator {SHARE:.0%})")  # fmt: skip
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(
        json.dumps({"target": TARGET, "share": SHARE, "simulators": rows}, indent=2) + "\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
