# SPDX-License-Identifier: Apache-2.0
"""Compares the cycle model with the RTL over a grid of workloads (make cycle-grid).

    python -m tb.cycle.grid [--drawn N] [--seed N] [--jobs N] [--cluster ADDRESS] [--out FOLDER]

Writes plots and summary.json: a row per point with the measurements of both, the error, the bounds
met and the first differing stage. Exit status 0 if every point is within its bounds, 1 if not, 2 on
usage or environment.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from efa_cosim.cli.options import cluster
from efa_cosim.cycle.compare import BOUNDS
from efa_cosim.cycle.network import simulate
from efa_cosim.cycle.workload import Workload
from efa_cosim.jobs.cluster import SYNTAX, ClusterError
from efa_cosim.jobs.executor import open_executor
from efa_cosim.jobs.progress import Progress
from efa_cosim.sweep.cache import sources
from tb.cycle.grid_job import Chunk
from tb.cycle.pictures import draw
from tb.cycle.points import drawn, fixed
from tb.cycle.timed import parameters, run_timed
from tb.runner import RunFailed
from tb.simulators import ROOT, simulator_missing
from tb.system_run import build_system

OUT = ROOT / "reports/cycle"
CHUNK = 8
ENTRY = "cycle_grid"
# Speed of the model: a long run of each workload, and the RTL on its first messages.
SPEED = (Workload(size=32, queues=16, depth=64, batch=16, messages=1_000_000),
         Workload(size=64, queues=16, depth=64, batch=16, messages=1_000_000),
         Workload(size=64, queues=1, depth=64, batch=16, messages=1_000_000),
         Workload(kind="UD", size=64, queues=16, depth=64, batch=16, messages=1_000_000),
         Workload(size=4096, queues=8, depth=16, messages=200_000),
         Workload(size=32, messages=200_000))  # fmt: skip
TARGET = 1_000_000
RTL_MESSAGES = 4096


def speeds(seed: int) -> list[dict[str, Any]]:
    """Returns messages per second of one core: the model, and the RTL on Verilator."""
    simulate(SPEED[0])  # compiles the model and allocates its memory
    short = [replace(work, messages=min(work.messages, RTL_MESSAGES)) for work in SPEED]
    rows = []
    for work, part, run in zip(SPEED, short, run_timed(short, "verilator", seed, again=True),
                               strict=True):
        began = time.process_time()
        timelines = simulate(work)
        seconds = time.process_time() - began
        rate, rtl = work.total / seconds, part.total / run.seconds
        rows.append({"workload": work.as_dict(), "messages": work.total, "seconds": seconds,
                     "messages_per_second": rate, "met": rate >= TARGET,
                     "cycles_per_second": int(timelines.end.max()) / seconds,
                     "rtl_messages": part.total, "rtl_seconds": run.seconds,
                     "rtl_messages_per_second": rtl, "ratio_to_rtl": rate / rtl})
    return rows


class GridFailed(Exception):
    """A chunk of points has no measurements; the text is its reason."""


def run(
    points: Sequence[Workload],
    seed: int,
    jobs: int,
    where: str | None = None,
) -> list[dict[str, Any]]:
    """Returns rows in the order of the points; measures chunks in `jobs` processes, or on the
    cluster `where`. Raises GridFailed and ClusterError."""
    chunks = [Chunk(tuple(points[at : at + CHUNK]), seed) for at in range(0, len(points), CHUNK)]
    rows = {}
    with (Progress("points", len(points)) as progress,
          open_executor(where, jobs, ENTRY, sources(on_the_rtl=True)) as executor):
        for chunk in chunks:
            executor.add(chunk)
        for finished in executor.results():
            if finished.code:
                raise GridFailed(finished.reason)
            found = rows[finished.job] = finished.measurements
            missed = sum(not all(row["met"].values()) for row in found)
            progress.advance(len(found) - missed)
            if missed:
                progress.advance(missed, note=f"{missed} points out of bounds", failed=True)
    return [row for chunk in chunks for row in rows[chunk]]


def summarize(
    rows: Sequence[dict[str, Any]], speed: Sequence[dict[str, Any]], seed: int
) -> dict[str, Any]:
    """Returns the contents of summary.json."""
    missed = [row for row in rows if not all(row["met"].values())]
    messages = sum(row["messages"] for row in rows)
    worst = {name: max(abs(row["error"][name] if name == "rate"
                           else row["error"][name] / row["rtl"][name]) for row in rows)
             for name in BOUNDS}
    return {
        "title": "Cycle model against RTL", "seed": seed, "points": len(rows),
        "within": len(rows) - len(missed), "exact": sum(row["exact"] for row in rows),
        "messages": messages, "worst_share": worst,
        "bounds": {name: {"share": share, "cycles": least}
                   for name, (share, least) in BOUNDS.items()},
        "speed": speed, "speed_target": TARGET, "rows": rows,
    }  # fmt: skip


def report(summary: dict[str, Any]) -> None:
    """Prints every point out of bounds with its first differing stage, and the totals."""
    for row in summary["rows"]:
        if not all(row["met"].values()):
            error, parts = row["error"], row["parts_at"]
            print(f"out of bounds: {Workload(**row['workload'])}: rate {error['rate']:+.2%}, "
                  f"median {error['median']:+.1f} of {row['rtl']['median']:.0f} cycles, "
                  f"p99 {error['p99']:+.1f} of {row['rtl']['p99']:.0f}; first apart at "
                  f"'{parts['stage']}', cycle {parts['cycle']}")
    for row in summary["speed"]:
        print(f"{row['messages_per_second']:,.0f} messages/s, {row['ratio_to_rtl']:,.0f} times the "
              f"RTL on Verilator: {Workload(**row['workload'])}")
    print(f"{summary['within']} of {summary['points']} points within bounds, {summary['exact']} "
          f"exact to the cycle, {summary['messages']} messages; speed: "
          f"{sum(row['met'] for row in summary['speed'])} of {len(summary['speed'])} at "
          f"{TARGET:,} messages/s")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--drawn", type=int, default=0, metavar="N",
                        help="instead of the fixed grid N points drawn from --seed")
    parser.add_argument("--seed", type=int, default=1, help="of the draw and the RTL (default: 1)")
    parser.add_argument("--jobs", type=int, default=2, help="simulations at a time (default: 2)")
    parser.add_argument("--cluster", type=cluster, metavar="ADDRESS",
                        help=f"run the simulations on other machines; {SYNTAX}")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the report")
    options = parser.parse_args(arguments)
    reason = simulator_missing("verilator")
    if reason is not None:
        print(f"cannot run: {reason}", file=sys.stderr)
        return 2
    points = drawn(options.drawn, options.seed) if options.drawn > 0 else fixed()
    try:
        with Progress("cycle-grid") as progress:
            progress.phase(f"{len(points)} points; building the device")
            for sq_host in sorted({work.sq_host for work in points}):
                build_system("verilator", parameters(sq_host))
        rows = run(points, options.seed, options.jobs, options.cluster)
    except (RunFailed, GridFailed) as error:
        print(error, file=sys.stderr)
        return 1
    except ClusterError as error:
        print(f"cannot run: {error}", file=sys.stderr)
        return 2
    summary = summarize(rows, speeds(options.seed), options.seed)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    for name, text in draw(summary).items():
        (options.out / name).write_text(text)
    report(summary)
    print(f"report: {options.out / 'summary.json'}")
    return 0 if summary["within"] == summary["points"] else 1


if __name__ == "__main__":
    sys.exit(main())
