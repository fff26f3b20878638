# SPDX-License-Identifier: Apache-2.0
"""efa-cosim lab: planted provider bugs under each store buffer, found and named by a checker."""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, cast

from efa_cosim.backends import backend_names, open_backend
from efa_cosim.boundary.backend import Backend
from efa_cosim.cli.options import RTL, Commands, cluster, job_count, number, width_of
from efa_cosim.cli.options import seed as seed_of
from efa_cosim.host.wc import OVERTAKING, POLICIES, StoreBuffer
from efa_cosim.jobs.cluster import SYNTAX, ClusterError
from efa_cosim.jobs.executor import open_executor
from efa_cosim.jobs.job import UNUSABLE
from efa_cosim.jobs.progress import Progress
from efa_cosim.measure import record
from efa_cosim.measure.failures import DEVICE_WRONG, one_line
from efa_cosim.measure.origin import origin
from efa_cosim.measure.record import stamped
from efa_cosim.report.document import Section, physical, table
from efa_cosim.report.publish import Picture, publish
from efa_cosim.sweep.cache import sources
from efa_cosim.tree import REPORTS
from efa_cosim.wclab import matrix
from efa_cosim.wclab.bugs import BUGS

ENTRY = "lab"
# The packages that a job uses. Commands and pictures do not affect its runs.
USED = ("backends", "boundary", "device", "fabric", "host", "layouts", "measure", "transport",
        "wclab")
MOST_SEEDS = 100_000
TEXT = """\
The write-combine laboratory. A CPU's store buffer is between the provider and the bus; a correct
provider works with each policy of the buffer. Ten provider bugs are planted, one at a time. A
checker that sees only the bus, the device's events and the results must find and name each bug,
and must report nothing for correct code. The reference model plays many seeds, the RTL a few.
Results: matrix of bugs and store buffers, confusion of bug and verdict, cost of each policy, in a
page and as summary.json, CSV and Parquet.
"""
EPILOG = f"""\
bugs: {', '.join(BUGS)}
store buffers: {', '.join(POLICIES)}, as POLICY/LINES/{OVERTAKING} or POLICY/LINES/drains

examples:
  efa-cosim lab                                   everything, writes reports/wc_lab
  efa-cosim lab --correct 50 --rtl none           the model only, in a minute
  efa-cosim lab --cluster tcp://10.0.0.1:8786     on other machines
  efa-cosim lab --one --bug no_fence --buffer random/8/overtakes --seed 3
  efa-cosim lab --one --bug two_threads --buffer ideal --backend verilator

exit codes: 0 every observable bug found and named, no false alarm; 1 otherwise; 2 usage
"""


def add_command(commands: Commands) -> None:
    """Adds the command to the program."""
    parser = commands.add_parser("lab", help="write-combine laboratory: planted provider bugs",
                                 description=TEXT, epilog=EPILOG,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=number(1, MOST_SEEDS), default=20,
                        help="seeds per bug and store buffer on the model (default: 20)")
    parser.add_argument("--correct", type=number(1, MOST_SEEDS), default=1000,
                        help="seeds per store buffer of correct code, on the model (default: 1000)")
    parser.add_argument("--rtl", choices=("verilator", "icarus", "none"), default=RTL,
                        help="simulator for the RTL, or none (default: %(default)s)")
    parser.add_argument("--rtl-seeds", type=number(1, MOST_SEEDS), default=3,
                        help="seeds per cell on the RTL, correct code included (default: 3)")
    parser.add_argument("--jobs", type=job_count, metavar="N",
                        help="parallel processes, or workers under Slurm (default: number of "
                             "cores, at most 4)")
    parser.add_argument("--cluster", type=cluster, metavar="ADDRESS",
                        help=f"run the jobs on other machines; {SYNTAX}")
    parser.add_argument("--out", type=Path, default=REPORTS / "wc_lab", metavar="FOLDER",
                        help="output folder of the report (default: reports/wc_lab)")
    parser.add_argument("--seed", type=seed_of, default=0,
                        help="first seed, or with --one the seed of the run (default: 0)")
    parser.add_argument("--bug", choices=BUGS,
                        help="plant only this bug (default: all; with --one: correct code)")
    one = parser.add_argument_group("one run, reported in words")
    one.add_argument("--one", action="store_true", help="play one run only")
    one.add_argument("--buffer", type=_buffer, default="adversarial",
                     help="store buffer of the run (default: %(default)s)")
    one.add_argument("--backend", choices=backend_names(), default="model",
                     help="backend of the run (default: %(default)s)")
    parser.set_defaults(work=work)


def _buffer(text: str) -> StoreBuffer:
    try:
        found: StoreBuffer = StoreBuffer.of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return found


def work(options: argparse.Namespace) -> int:
    """Runs the laboratory, or one run of it; returns the exit code."""
    if options.one and options.cluster:
        print("efa-cosim: --cluster does not go with --one, which plays its run in this process",
              file=sys.stderr)
        return 2
    try:
        return _one(options) if options.one else _all(options)
    except ClusterError as error:
        print(f"efa-cosim: {error}", file=sys.stderr)
        return 2


def _one(options: argparse.Namespace) -> int:
    from efa_cosim.wclab.bench import run

    try:
        with cast(Backend, open_backend(options.backend, record=True)) as backend:
            result = run(backend, options.bug, options.buffer, options.seed)
    except DEVICE_WRONG as error:
        print(f"failed: {one_line(error)}", file=sys.stderr)
        return 1
    print(
        f"{options.bug or 'correct code'}, store buffer {result.buffer}, seed {result.seed}, "
        f"{result.backend}: {result.sent} messages, {result.beats} stores, "
        f"{result.doorbells} doorbells"
    )
    print(f"checker: {result.verdict}" + (f" ({result.why})" if result.why else ""))
    print("trace: " + (f"not possible with correct code: {result.breach}" if result.breach else
                       "possible with correct code"))
    errors = ", ".join(f"{name} ({count})" for name, count in sorted(result.device.items()))
    print(f"device: {errors or 'no error'}")
    print(
        f"results: {result.arrived} of {result.sent} messages arrived as sent, {result.garbage} "
        "arrived that were not sent"
    )
    record = result.as_dict() | {"hidden": result.hidden, "right": result.right}
    if options.bug is None:
        return int(bool(matrix.false_alarm(record)))
    return int(matrix.outcome(record) in (matrix.MISSED, matrix.MISNAMED))


def _all(options: argparse.Namespace) -> int:
    from efa_cosim.report.records import of_lab

    started = time.monotonic()
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"efa-cosim: {options.out}: {error.strerror or error}; name another folder",
              file=sys.stderr)
        return 2
    rtl = None if options.rtl == "none" else options.rtl
    bugs = (options.bug,) if options.bug else BUGS
    jobs = matrix.jobs(options.seeds, options.correct, rtl, options.rtl_seeds, bugs, options.seed)
    done: dict[matrix.Job, list[dict[str, Any]]] = {}
    failed: dict[matrix.Job, str] = {}
    count = 0
    with (Progress("lab", len(jobs)) as progress,
          open_executor(options.cluster, width_of(options), ENTRY,
                        sources(rtl is not None, USED)) as executor):  # fmt: skip
        for job in jobs:
            executor.add(job)
        for finished in executor.results():
            if finished.code:
                failed[finished.job] = f"{finished.job}: {finished.reason}"
            done[finished.job] = finished.measurements
            count += 0 if finished.job.cost else len(finished.measurements)
            progress.advance(note=failed.get(finished.job) or f"{count} runs; {finished.job}",
                             failed=bool(finished.code))
            if finished.code == UNUSABLE:
                print(f"efa-cosim: {failed[finished.job]}", file=sys.stderr)
                return 2
    # In the order of the jobs: the report has the same bytes on any number of machines.
    runs = [run for job in jobs if not job.cost for run in done[job]]
    costs = [row for job in jobs if job.cost for row in done[job]]
    found = matrix.summary(runs)
    wrong = matrix.failures(found, [failed[job] for job in jobs if job in failed], bugs)
    text, command = _text(found, runs, wrong), _command(options)
    summary: dict[str, Any] = {
        "verdict": "failed" if wrong else "passed", "text": text, "command": command,
        "title": "Write-combine laboratory", "origin": origin(), "seed": options.seed,
        "setting": f"{options.correct} seeds of correct code and {options.seeds} of each bug on "
                   f"the model, {options.rtl_seeds if rtl else 0} on the RTL ({options.rtl})",
        "runs": len(runs), "first_seed": options.seed, "differences": wrong,
        "seconds": round(time.monotonic() - started, 1), **found, "cost": costs,
    }  # fmt: skip
    summary["measurements"] = stamped(of_lab(summary), command)
    page = publish(options.out, summary, _parts(summary))
    print(f"{summary['verdict']}: {text} ({summary['seconds']:.0f} s), report: {page}")
    for line in wrong[:10]:
        print(f"  {line}", file=sys.stderr)
    return int(bool(wrong))


def _command(options: argparse.Namespace) -> str:
    """Returns the command that gives the same results; the place of the jobs is no part of it."""
    bug = f" --bug {options.bug}" if options.bug else ""
    return (f"efa-cosim lab --seeds {options.seeds} --correct {options.correct} --rtl {options.rtl}"
            f" --rtl-seeds {options.rtl_seeds} --seed {options.seed}{bug}")


def _text(found: dict[str, Any], runs: list[dict[str, Any]], wrong: list[str]) -> str:
    if wrong:
        return f"{len(wrong)} failures in {len(runs)} runs, the first: {wrong[0]}"
    cells, correct = found["cells"], found["correct"]
    seen = [cell for cell in cells if cell["state"] == matrix.FOUND]
    named, of = sum(c["named"] for c in seen), sum(c["seeds"] - c["hidden"] for c in seen)
    return (f"{len(seen)} cells found, {len(cells) - len(seen)} not observable, {named} of {of} "
            f"observable runs named, no false alarm in {sum(r['seeds'] for r in correct)} runs of "
            "correct code")


def _parts(summary: dict[str, Any]) -> list[Section | Picture]:
    """Returns pictures and tables of the page; a backend after the other."""
    from efa_cosim.report import lab_plots as plots

    parts: list[Section | Picture] = [Section("How to read it", [
        "A checker sees the bus, the device's events and the results of a run, but not the planted "
        "bug. A bug is not observable under a store buffer if correct code can leave the same "
        "trace and every message arrives."])]  # fmt: skip
    for backend in summary["confusion"]:
        name = plots.device(backend)
        parts += [
            Picture(f"matrix_{backend}", f"Bugs and store buffers, {name}",
                    partial(plots.matrix, summary, backend),
                    "Runs of each planted bug by store buffer."),
            Picture(f"confusion_{backend}", f"Bug and verdict, {name}",
                    partial(plots.confusion, summary, backend),
                    "Observable runs by planted bug and verdict of the checker."),
        ]  # fmt: skip
    for backend in sorted({row["backend"] for row in summary["cost"]}):
        parts.append(Picture(f"cost_{backend}", f"Cost of a store buffer, {plots.device(backend)}",
                             partial(plots.cost, summary["cost"], backend),
                             "Dashed: whole lines and one doorbell per batch, the least."))
    costs = [(row["backend"], row["policy"], row["entry_bytes"], row["batch"], row["beats"],
              row["doorbells"], row["limit"], row.get("out_cycles"),
              physical(row["out_cycles"], "cycles") if row.get("out_cycles") else "",
              row["entries"]) for row in summary["cost"]]  # fmt: skip
    columns = ("backend", "store buffer", "WQE bytes", "batch", "LLQ beats per WQE", "doorbells "
               "per WQE", "least beats", "cycles per message out", "time", "messages")  # fmt: skip
    return [*parts, table("Cost", columns, costs, record.CSV)]
