# SPDX-License-Identifier: Apache-2.0
"""efa-cosim sweep: measures latency and rate over a grid, from a file or from options."""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

from efa_cosim.backends import open_backend
from efa_cosim.boundary.backend import Backend, BackendUnavailable
from efa_cosim.cli.options import (
    RTL,
    Commands,
    absent,
    cluster,
    job_count,
    number,
    numbers,
    seed,
    width_of,
)
from efa_cosim.host.endpoints import SRD, UD
from efa_cosim.jobs.cluster import SYNTAX, ClusterError
from efa_cosim.jobs.executor import open_executor
from efa_cosim.jobs.job import UNUSABLE, Group
from efa_cosim.jobs.progress import Progress
from efa_cosim.measure.failures import DEVICE_WRONG, one_line
from efa_cosim.measure.origin import origin
from efa_cosim.measure.record import stamped
from efa_cosim.measure.workload import LATENCY_SIZES, QUEUES, latency_sweep, new_node, rate_sweep
from efa_cosim.report.folder import ReportError
from efa_cosim.report.page import check_target, write_report
from efa_cosim.sweep import cache
from efa_cosim.sweep.grid import CYCLE, Grid, GridError, Job, read_grid
from efa_cosim.sweep.point import measure
from efa_cosim.tree import REPORTS, ROOT

MOST_BYTES, MOST_QUEUES, MOST_WAIT = 4096, 16, 10_000
MODELLED = "of the cycle model"
MOST_IN_GROUP = 24
ENTRY = "sweep"
TITLE = "Sweep of message sizes and queues"
TEXT = """\
Measures latency and message rate on the RTL with the project's own driver and checks every
message. With FILE, a YAML grid, every combination of its values is a job; jobs run in parallel
processes. Finished jobs are cached (sim/out/sweeps) until a source changes, so an interrupted
sweep resumes.
"""
EPILOG = """\
a FILE, as sim/sweeps/example.yaml (only sizes is required, a single value needs no brackets):
  sizes: [8, 64, 1024, 4096]        # bytes, 0 to 4096
  queues: [1, 8]                    # for rates, 1 to 16
  kinds: [UD, SRD]
  host_read_latency: [125, 500]     # cycles, 1 to 10000
  seeds: [1, 2]                     # plots show the median
  measure: [latency, rate]
  backend: [verilator, cycle]       # or icarus; cycle: the cycle model, in milliseconds
parameters of host and fabric; with one of them, or with `cycle`, rates are those of a closed loop
with the same messages on every backend, and queues may be 1 to 64:
  depth: [16, 64]                   # outstanding messages per queue, 1 to 1024; default 64
  batch: [1, 16]                    # WQEs per doorbell, 1 to 16; default 16
  store_buffer: [ideal, pressure]   # eviction policy of the CPU's store buffer; default ideal
  sq_host: [0, 1]                   # 1: the build with send queues in host memory; default 0
  loss: [0, 0.001, 0.01]            # share of lost packets and acknowledgements, SRD, 0 to 1/2

output, in the folder --out: summary.json with every measurement, its unit and its number of
messages; measurements.csv and measurements.parquet, one row per measurement; the pictures
latency.svg, loaded.svg, rates.svg and queues.svg (LLQ against host memory, with sq_host);
index.html with all of them

examples:
  efa-cosim sweep sim/sweeps/example.yaml --jobs 2
  efa-cosim sweep sim/sweeps/host.yaml            the cycle model, every axis of the host
  efa-cosim sweep sim/sweeps/loss.yaml            the cycle model, a fabric that loses packets
  efa-cosim sweep sim/sweeps/host.yaml --cluster tcp://10.0.0.1:8786   on other machines
  efa-cosim sweep --sizes 8,64,4096 --queues 1,8 --rd-latency 500 --out reports/slow_host
"""


def add_command(commands: Commands) -> None:
    """Adds the command to the program."""
    parser = commands.add_parser("sweep", help="latency and rate over sizes, queues, hosts, seeds",
                                 description=TEXT, epilog=EPILOG,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="grid in YAML")
    parser.add_argument("--jobs", type=job_count, metavar="N",
                        help="with FILE: parallel processes, or workers under Slurm (default: "
                             "number of cores, at most 4)")
    parser.add_argument("--cluster", type=cluster, metavar="ADDRESS",
                        help=f"with FILE: run the jobs on other machines; {SYNTAX}")
    parser.add_argument("--fresh", action="store_true",
                        help="with FILE: measure everything again, ignore cached jobs")
    parser.add_argument("--sizes", type=numbers(0, MOST_BYTES),
                        help="without FILE: message sizes in bytes, comma-separated")
    parser.add_argument("--queues", type=numbers(1, MOST_QUEUES),
                        help="without FILE: queue counts, comma-separated")
    parser.add_argument("--rd-latency", type=number(1, MOST_WAIT), metavar="CYCLES",
                        help="without FILE: host read latency (default: 125)")
    parser.add_argument("--backend", choices=("verilator", "icarus", CYCLE),
                        help=f"without FILE: simulator, or the cycle model (default: {RTL})")
    parser.add_argument("--seed", type=seed,
                        help="without FILE: seed of every random choice (default: 1)")
    parser.add_argument("--out", type=Path, metavar="FOLDER",
                        help="output folder of the results (default: reports/sweep, or "
                             "reports/sweep-NAME for NAME.yaml)")
    parser.set_defaults(work=work)


def work(options: argparse.Namespace) -> int:
    """Runs the sweep, writes the report, returns the exit code."""
    refusal = options.file and absent(options.file, (ROOT / "sim/sweeps").glob("*.yaml"))
    if refusal:
        print(f"efa-cosim: {refusal}", file=sys.stderr)
        return 2
    name = f"sweep-{options.file.stem}" if options.file else "sweep"
    folder = options.out or REPORTS / name
    try:
        _check_together(options)
        check_target(folder)
        summary = _of_file(options) if options.file else _of_options(options)
        page = write_report(folder, summary)
    except DEVICE_WRONG as error:
        print(f"failed: {one_line(error)}", file=sys.stderr)
        return 1
    except (ClusterError, GridError, ReportError) as error:
        print(f"efa-cosim: {error}", file=sys.stderr)
        return 2
    print(f"{summary['verdict']}: {summary['text']}, report: {page}")
    return 0 if summary["verdict"] == "passed" else 1


def _check_together(options: argparse.Namespace) -> None:
    """Refuses options that would be ignored: a file defines the whole sweep."""
    if options.file is None:
        for name in ("jobs", "cluster"):
            if getattr(options, name) is not None:
                raise GridError(f"--{name} needs a FILE; `efa-cosim sweep --help` shows an example")
        if options.fresh:
            raise GridError("--fresh needs a FILE: without FILE no job is cached")
        return
    for name in ("sizes", "queues", "rd_latency", "backend", "seed"):
        if getattr(options, name) is not None:
            raise GridError(f"--{name.replace('_', '-')} does not go with a FILE; "
                            f"write it into {options.file}")


def _of_options(options: argparse.Namespace) -> dict[str, Any]:
    """Measures on one device after the other in this process."""
    wait, one_seed = options.rd_latency or 125, 1 if options.seed is None else options.seed
    sizes, queues = options.sizes or LATENCY_SIZES, options.queues or QUEUES
    if options.backend == CYCLE:
        grid = Grid(sizes=tuple(sizes), queues=tuple(queues), host_read_latency=(wait,),
                    seeds=(one_seed,), backend=(CYCLE,))
        rows = [measurement.as_dict() for job in grid.jobs() for measurement in measure(job)]
        return _summary(options.command, rows, [],
                        {"seed": one_seed, "title": TITLE, "setting": "cycle model"}, MODELLED)
    with (Progress("sweep") as progress,
          cast(Backend, open_backend(options.backend or RTL, seed=one_seed, rd_latency_min=wait,
                                     rd_latency_max=wait)) as backend):
        node = new_node(backend, one_seed)
        measurements = latency_sweep(node, sizes, (UD, SRD), progress=progress.phase)
        measurements += rate_sweep(node, [size for size in sizes if size], queues,
                                   progress=progress.phase)
    rows = [replace(one, host_read_latency=wait, seed=one_seed).as_dict() for one in measurements]
    setting = f"RTL on {options.backend or RTL}, host read latency {wait} cycles"
    return _summary(options.command, rows, [],
                    {"seed": one_seed, "title": TITLE, "setting": setting})


def _of_file(options: argparse.Namespace) -> dict[str, Any]:
    """Runs every job of the grid that is not cached, in parallel processes."""
    grid = read_grid(options.file)
    jobs = grid.jobs()
    width = width_of(options)
    found = {} if options.fresh else {job: cache.find(job) for job in jobs}
    done = {job: measurements for job, measurements in found.items() if measurements is not None}
    missing = [job for job in jobs if job not in done]
    estimate = Estimate(missing)
    with Progress("sweep", len(jobs), done=len(done), left=estimate.left) as progress:
        progress.say(f"{len(jobs)} jobs, {len(done)} of them cached" if done else
                     f"{len(jobs)} jobs")
        failed = _run(missing, options, width, done, progress, estimate) if missing else {}
    wrong = [f"{job}: {failed[job]}" for job in jobs if job in failed]
    rows = [row for job in jobs for row in done[job]]
    # Without options: the records have the same bytes on any number of processes or machines.
    return _summary(f"efa-cosim sweep {options.file}", rows, wrong,
                    {"title": f"Sweep {options.file.stem}", "grid": asdict(grid)},
                    MODELLED if grid.backend == (CYCLE,) else "checked")


def _run(
    missing: Sequence[Job],
    options: argparse.Namespace,
    width: int,
    done: dict[Job, list[dict[str, Any]]],
    progress: Progress,
    estimate: Estimate,
) -> dict[Job, str]:
    """Runs jobs, caches their measurements and adds them to `done`; returns {failed job: reason}.
    """
    on_the_rtl = any(job.backend != CYCLE for job in missing)
    failed: dict[Job, str] = {}
    with open_executor(options.cluster, width, ENTRY, cache.sources(on_the_rtl)) as executor:
        width = estimate.width = executor.width
        if on_the_rtl:
            progress.say(f"{min(width, len(missing))} at a time; the first may build the RTL")
        for job in in_groups(missing, width):
            executor.add(job)
        for finished in executor.results():
            if finished.code == UNUSABLE:
                raise BackendUnavailable(finished.reason)
            for job, measurements, reason in finished.each():
                done[job] = measurements
                if reason:
                    failed[job] = reason
                else:
                    cache.keep(job, measurements)
                estimate.count(job, finished.seconds / len(finished.jobs))
                progress.advance(note=f"{job}: {reason}" if reason else str(job),
                                 failed=bool(reason))
    return failed


def in_groups(jobs: Sequence[Job], width: int) -> list[Job | Group]:
    """The jobs for the pool: short jobs of the cycle model in groups, one process a group."""
    short = [job for job in jobs if job.backend == CYCLE]
    each = max(1, min(MOST_IN_GROUP, -(-len(short) // width)))
    groups = [Group(tuple(short[at : at + each])) for at in range(0, len(short), each)]
    return [*(job for job in jobs if job.backend != CYCLE), *groups]


class Estimate:
    """Estimates the time left from finished jobs of the same backend: a job on the RTL takes a
    thousand times as long as one of the cycle model. `width` jobs run at a time."""

    def __init__(self, missing: Iterable[Job], width: int = 1) -> None:
        self.width = width
        self._left = Counter(job.backend for job in missing)
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._ended: Counter[str] = Counter()

    def count(self, job: Job, seconds: float) -> None:
        """Records a job that finished after so many seconds of a process."""
        self._left[job.backend] -= 1
        self._seconds[job.backend] += seconds
        self._ended[job.backend] += 1

    def left(self) -> float:
        """Estimated seconds until the end."""
        mean = sum(self._seconds.values()) / sum(self._ended.values())
        work = sum(count * (self._seconds[name] / self._ended[name] if self._ended[name] else mean)
                   for name, count in self._left.items())
        return work / min(self.width, max(1, sum(self._left.values())))


def _summary(
    command: str,
    rows: Sequence[dict[str, Any]],
    wrong: Sequence[str],
    more: dict[str, Any],
    how: str = "checked",
) -> dict[str, Any]:
    counts = Counter(row["metric"] for row in rows)
    message = ", ".join(f"{count} of {name}" for name, count in sorted(counts.items()))
    messages = sum(row["messages"] for row in rows)
    text = f"{len(rows)} measurements ({message}), {messages} messages {how}"
    if wrong:
        text = wrong[0] + (f" (and {len(wrong) - 1} more jobs)" if len(wrong) > 1 else "")
    return {"verdict": "failed" if wrong else "passed", "text": text, "command": command,
            "differences": wrong, "sessions": [], "measurements": stamped(rows, command),
            "waterfall": [], "origin": origin(), **more}
