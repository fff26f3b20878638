# SPDX-License-Identifier: Apache-2.0
"""efa-cosim regress: runs a list of tests with many seeds, on this machine or on a cluster."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from efa_cosim.boundary.backend import BackendUnavailable
from efa_cosim.cli.options import Commands, absent, cluster, job_count, seed, width_of
from efa_cosim.jobs import store
from efa_cosim.jobs.cluster import SYNTAX, ClusterError
from efa_cosim.jobs.executor import open_executor
from efa_cosim.jobs.job import UNUSABLE, Finished
from efa_cosim.jobs.progress import Progress
from efa_cosim.regress import table
from efa_cosim.regress.runs import Run, TestList, benches, read_list
from efa_cosim.report import regress_page
from efa_cosim.sweep.cache import NO_SOURCES
from efa_cosim.sweep.grid import GridError
from efa_cosim.tree import REPORTS, ROOT

ENTRY = "regress"
FOLDER = ROOT / "sim/out/regress"
LISTS = ROOT / "sim/regress"
# All that affects a test. Commands and reports do not.
PACKAGES = ("attribution", "backends", "boundary", "cycle", "device", "fabric", "host", "layouts",
            "measure", "session", "sweep", "transport", "wclab")
SOURCES = ("spec/*.yaml", "requirements.lock", "rtl/**/*.v", "rtl/**/*.vh", "tb/**/*.py",
           "tb/hdl/*", "tb/native/*", *(f"model/efa_cosim/{one}/*.py" for one in PACKAGES),
           *NO_SOURCES)
TEXT = """\
Runs tests x seeds x simulators of a list. Each run is a job with limits of time and memory. A test
that fails runs again with its seed: if it passes then, it is flaky. Results are stored
(sim/out/regress) until a source changes, so the same command resumes an interrupted regression.
"""
EPILOG = """\
a LIST, as sim/regress/quick.yaml:
  simulators: [verilator, icarus]   # default verilator
  seeds: [1, 2, 3]                  # default 1
  seconds: 600                      # limit of a run, default 1800
  megabytes: 4096                   # memory of a run with its simulator, default 8192
  tests:
    - unit: [fifo, skid]            # units of tb/unit/units.py, each with all its parameter sets
    - system: [bringup, send]       # areas of tb/system; an entry may have its own seeds and
      simulators: verilator         # simulators
      seeds: [1, 2]
    - isolation_fuzz: short         # short: 10,000 stores of the tenant, long: 1,000,000
      simulators: [model, verilator]

output, in the folder --out: results.csv, one row per run with its verdict and the command that
repeats it; seconds.csv with attempts, time and machine; summary.json with both, and the counts of
each test; index.html, a page with runs.svg, the failed and flaky runs and a table of the tests

exit codes: 0 all passed; 1 a run failed or is flaky; 2 usage or environment
"""


def add_command(commands: Commands) -> None:
    """Adds the command to the program."""
    parser = commands.add_parser("regress", help="a list of tests with many seeds",
                                 description=TEXT, epilog=EPILOG,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, metavar="LIST", help="list of tests in YAML")
    parser.add_argument("--jobs", type=job_count, metavar="N",
                        help="parallel processes, or workers under Slurm (default: number of "
                             "cores, at most 4)")
    parser.add_argument("--cluster", type=cluster, metavar="ADDRESS",
                        help=f"run the tests on other machines; {SYNTAX}")
    parser.add_argument("--seed", type=seed, metavar="N",
                        help="use seeds from N on; each test keeps its number of seeds")
    parser.add_argument("--fresh", action="store_true",
                        help="run everything again, ignore stored results")
    parser.add_argument("--out", type=Path, metavar="FOLDER",
                        help="output folder (default: reports/regress-NAME for NAME.yaml)")
    parser.set_defaults(work=work)


def work(options: argparse.Namespace) -> int:
    """Runs the list, writes tables and page, returns the exit code."""
    refusal = absent(options.file, LISTS.glob("*.yaml"))
    if refusal:
        print(f"efa-cosim: {refusal}", file=sys.stderr)
        return 2
    folder = options.out or REPORTS / f"regress-{options.file.stem}"
    try:
        known = benches()
        listed = read_list(options.file, known.KINDS)
        if options.seed is not None:
            listed = listed.from_seed(options.seed)
        folder.mkdir(parents=True, exist_ok=True)
        results = _Regression(listed, known.repeat, options).results()
    except (ClusterError, GridError) as error:
        print(f"efa-cosim: {error}", file=sys.stderr)
        return 2
    begun = f" --seed {options.seed}" if options.seed is not None else ""
    page = regress_page.write(folder, options.file.stem,
                              f"efa-cosim regress {options.file}{begun}", listed.limits, results)
    bad = [result for result in results if result.verdict != table.PASSED]
    for result in bad[:10]:
        print(f"  {result.verdict}: {result.run}: {result.reason}\n    {result.repeat}",
              file=sys.stderr)
    print(f"{table.FAILED if bad else table.PASSED}: {table.count_of(results)}, "
          f"report: {page}")
    return int(bool(bad))


class _Attempt(NamedTuple):
    """The result of one attempt of a run."""

    verdict: str
    seconds: float
    machine: str
    reason: str


class _Regression:
    """The runs of a list and what is known of each: {number of the attempt: its result}."""

    def __init__(
        self, listed: TestList, repeat: Callable[[Run], str], options: argparse.Namespace
    ) -> None:
        self._listed, self._repeat, self._options = listed, repeat, options
        self._digest = store.digest_of(ROOT, SOURCES)
        self._known: dict[Run, dict[int, _Attempt]] = {run: {} for run in listed.runs}

    def results(self) -> list[table.Result]:
        """Runs what is not stored; returns a Result for each run, in the order of the list."""
        if not self._options.fresh:
            for run in self._listed.runs:
                self._find(run)
        open_runs = [again for run in self._listed.runs for again in self._again(run)]
        total, stored = len(self._listed.runs), len(self._listed.runs) - len(open_runs)
        with Progress("regress", total, done=stored) as progress:
            progress.say(f"{total} runs, {stored} of them stored" if stored else f"{total} runs")
            if open_runs:
                self._run(open_runs, progress)
        return [self._result(run) for run in self._listed.runs]

    def _find(self, run: Run) -> None:
        for attempt in (1, 2):
            found = store.find(FOLDER, self._digest, replace(run, attempt=attempt))
            if found is not None:
                self._known[run][attempt] = _Attempt(*found)

    def _again(self, run: Run) -> list[Run]:
        """Returns the next attempt of a run: the first, the second after a failure, or none."""
        known = self._known[run]
        if 1 not in known:
            return [run]
        failed = known[1].verdict == table.FAILED
        return [replace(run, attempt=2)] if failed and 2 not in known else []

    def _run(self, runs: list[Run], progress: Progress) -> None:
        options = self._options
        width = width_of(options)
        with open_executor(options.cluster, width, ENTRY, SOURCES, self._listed.limits) as executor:
            progress.say(f"{min(executor.width, len(runs))} at a time; the first run of a bench "
                         "may build it")
            # The first seed of each test first: different benches are built at the same time.
            seeds: dict[Run, list[Run]] = {}
            for run in runs:
                seeds.setdefault(replace(run, seed=0), []).append(run)
            for each in zip_longest(*seeds.values()):
                for run in filter(None, each):
                    executor.add(run)
            for finished in executor.results():
                if finished.code == UNUSABLE:
                    raise BackendUnavailable(finished.reason)
                for again in self._note(finished, progress):
                    executor.add(again)

    def _note(self, finished: Finished, progress: Progress) -> list[Run]:
        """Notes and stores the result of an attempt; returns the attempt that follows."""
        run, first = finished.job, replace(finished.job, attempt=1)
        if finished.code:
            # Not stored: the machine, not the test, may be the reason.
            found = _Attempt(table.FAILED, finished.seconds, "", finished.reason)
        else:
            (text,) = finished.measurements
            found = _Attempt(text["verdict"], finished.seconds, text["machine"], text["reason"])
            store.keep(FOLDER, self._digest, run, list(found))
        self._known[first][run.attempt] = found
        again = self._again(first)
        if again:
            progress.fail(f"regress: runs again: {run}")
        else:
            progress.advance(note=str(run), failed=found.verdict != table.PASSED)
        return again

    def _result(self, run: Run) -> table.Result:
        first, *_ = tried = [known for _, known in sorted(self._known[run].items())]
        if first.verdict == table.PASSED:
            return table.Result(run, table.PASSED, 1, first.seconds, first.machine, "", "")
        verdict = table.FLAKY if tried[-1].verdict == table.PASSED else table.FAILED
        return table.Result(run, verdict, len(tried), sum(one.seconds for one in tried),
                            tried[-1].machine, self._repeat(run), first.reason)
