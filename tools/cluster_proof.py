# SPDX-License-Identifier: Apache-2.0
"""Shows that results of a cluster have the bytes of local ones, whatever dies meanwhile.

    tools/cluster_proof.py [--on slurm ...] [--kills 6] [--seed 1]

Runs a sweep of 500 jobs and a regression of 200 tests on local processes, then on each cluster that
this machine can start (tools/cluster_sites.py). On a cluster, processes end by SIGKILL at random
moments: workers, the scheduler, Slurm's controller, and the command itself, which is then run
again. With --kills 0 the rates compare the executors. Each command stores its results in a folder
of its own under sim/out/cluster_proof. A row passes if the table of results has the same bytes as
the local one, and exactly one result of each job is stored. Results: one line for each row,
reports/cluster_proof/summary.json.

Exit status 1 if a table differs or a command fails; 2 if a cluster cannot start here, which is
named with what to install. The other clusters run all the same.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from cluster_sites import SCHEDULER, SITES, WORKERS, Site, SiteError  # noqa: E402 - needs the path above
from interrupt import leave_on_interrupt  # noqa: E402

from efa_cosim.jobs.files import atomic_write  # noqa: E402
from efa_cosim.jobs.progress import Progress  # noqa: E402
from efa_cosim.measure.origin import origin  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "sim/out/cluster_proof"
REPORT = ROOT / "reports/cluster_proof/summary.json"
LOCAL, COMMAND = "local processes", "command"
IDENTICAL = "identical"
POLL_SECONDS = 0.1
END_SECONDS = 120.0
# A command that is started so often without an end has a fault of its own.
MOST_STARTS = 20
# The command line, with its stored results in another folder. Small groups of jobs of the cycle
# model make more processes that a kill can hit.
CLIENT = """
import sys
from pathlib import Path
from efa_cosim.cli import regress, sweep
from efa_cosim.cli.main import main
from efa_cosim.sweep import cache
cache.FOLDER = regress.FOLDER = Path(sys.argv[1])
sweep.MOST_IN_GROUP = 5
sys.exit(main(sys.argv[2:]))
"""


@dataclass(frozen=True)
class Work:
    """A command with many jobs, its number of jobs, and its table of results."""

    name: str
    file: str
    table: str
    jobs: int


WORKS = (Work("sweep", "sim/sweeps/cluster.yaml", "measurements.csv", 500),
         Work("regress", "sim/regress/cluster.yaml", "results.csv", 200))


@dataclass
class Row:
    """One command on one executor. `killed` counts the victims by name, `starts` the starts of the
    command, `rate` the own jobs per second divided by the local ones; `result` is IDENTICAL or says
    what is wrong."""

    work: str
    executor: str
    jobs: int
    seconds: float = 0.0
    rate: float = 1.0
    starts: int = 0
    killed: dict[str, int] = field(default_factory=dict)
    result: str = ""

    def __str__(self) -> str:
        killed = ", ".join(f"{name} {count}" for name, count in sorted(self.killed.items()))
        return (f"{self.work:8} {self.executor:22} {self.jobs} jobs  {self.seconds:5.0f} s, "
                f"{self.rate:.2f} of the local rate  started {self.starts} times  "
                f"killed: {killed or 'nothing'}  {self.result}")


class Run:
    """One command on one executor, whose results are stored in `folder`."""

    def __init__(self, work: Work, site: Site | None, folder: Path, progress: Progress) -> None:
        self._work, self._site, self._folder, self._progress = work, site, folder, progress
        self._log = folder / "log"
        folder.mkdir(parents=True)

    @property
    def table(self) -> Path:
        """The table of results."""
        return self._folder / "out" / self._work.table

    def stored(self) -> int:
        """The number of stored results."""
        return len(list((self._folder / "stored").glob("*/*.json")))

    def row(self, kills: int, rng: random.Random) -> Row:
        """Runs the command until it ends by itself, with so many kills in between."""
        work, site, began = self._work, self._site, time.monotonic()
        row = Row(work.name, site.name if site else LOCAL, work.jobs)
        victims = (*site.victims, COMMAND) if site else (COMMAND,)
        # Each victim as often as the others, at moments drawn by the results that exist by then.
        chosen = [victims[n % len(victims)] for n in range(kills)]
        rng.shuffle(chosen)
        moments = sorted(rng.sample(range(1, work.jobs * 9 // 10), kills))
        self._start(row)
        try:
            code = None
            for victim, moment in zip(chosen, moments, strict=True):
                code = self._ended(moment, row)
                if code is not None:
                    break
                time.sleep(rng.random())
                row.killed[victim] = row.killed.get(victim, 0) + 1
                self._kill(victim, rng, row)
            if code is None:
                code = self._ended(None, row)
            row.result = "" if code == 0 else f"the command ended with code {code} ({self._log})"
        except subprocess.TimeoutExpired:
            row.result = f"the command runs without its scheduler ({self._log})"
        finally:
            self._client.kill()
            self._client.wait()
        row.seconds = round(time.monotonic() - began, 1)
        return row

    def _kill(self, victim: str, rng: random.Random, row: Row) -> None:
        if victim == COMMAND:
            self._client.kill()
            self._client.wait()
            self._start(row)
            return
        self._site.kill(victim, rng)
        if victim == SCHEDULER:
            self._client.wait(END_SECONDS)

    def _ended(self, moment: int | None, row: Row) -> int | None:
        """Waits for a number of stored results and returns None, or for the end of the command and
        returns its exit code. With exit code 2 the command lost its cluster, and is run again."""
        while True:
            stored, code = self.stored(), self._client.poll()
            self._progress.at(min(stored, self._work.jobs), self._work.jobs)
            if code == 2 and self._site and row.starts < MOST_STARTS:
                self._site.restart()
                self._start(row)
            elif code is not None:
                return code
            elif moment is not None and stored >= moment:
                return None
            else:
                time.sleep(POLL_SECONDS)

    def _start(self, row: Row) -> None:
        row.starts += 1
        where = ("--cluster", self._site.address) if self._site else ()
        command = [sys.executable, "-c", CLIENT, self._folder / "stored", self._work.name,
                   self._work.file, "--jobs", WORKERS, *where, "--out", self._folder / "out"]
        with self._log.open("a") as log:
            self._client = subprocess.Popen(
                [str(word) for word in command], stdout=log, stderr=log, cwd=ROOT,
                env=self._site.environment if self._site else None)


def verdict(expected: bytes, found: bytes, jobs: int, stored: int) -> str:
    """Returns IDENTICAL, or the first difference between two tables of results, or the lost jobs.
    """
    if expected != found:
        pairs = zip(expected.splitlines(), found.splitlines(), strict=False)
        for number, (mine, other) in enumerate(pairs, 1):
            if mine != other:
                return (f"line {number} differs: expected {mine.decode()!r}, found "
                        f"{other.decode()!r}")
        return (f"expected {len(expected.splitlines())} lines, found "
                f"{len(found.splitlines())}")
    return IDENTICAL if jobs == stored else f"{stored} results stored, expected {jobs}"


def prove(sites: list[type[Site]], kills: int, seed: int) -> list[Row]:
    """Runs each command on local processes and on each cluster; returns and prints the rows."""
    shutil.rmtree(OUT, ignore_errors=True)
    rows = []
    with Progress("cluster-proof") as progress:
        expected: dict[Work, bytes] = {}
        seconds: dict[Work, float] = {}
        for make in (None, *sites):
            name = make.name if make else LOCAL
            short = name.replace(" ", "_")
            site = make(OUT / f"site_{short}") if make else None
            try:
                if site:
                    site.start()
                for work in WORKS:
                    progress.phase(f"{work.name}, {name}", work.jobs)
                    rng = random.Random(f"{seed} {work.name} {name}")
                    run = Run(work, site, OUT / f"{work.name}_{short}", progress)
                    row = run.row(kills if site else 0, rng)
                    row.rate = round(seconds.setdefault(work, row.seconds) / row.seconds, 2)
                    if not row.result:
                        table = run.table.read_bytes()
                        row.result = verdict(expected.setdefault(work, table), table, work.jobs,
                                             run.stored())
                    rows.append(row)
                    print(row, flush=True)
            finally:
                if site:
                    site.stop()
    return rows


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    names = {site.name.split()[0].lower(): site for site in SITES}
    parser.add_argument("--on", nargs="*", choices=sorted(names), default=list(names),
                        help="the clusters (default: all)")
    parser.add_argument("--kills", type=int, default=6, help="in each run (default: 6)")
    parser.add_argument("--seed", type=int, default=1, help="of the kills (default: 1)")
    options = parser.parse_args(arguments)
    chosen = [names[name] for name in options.on]
    absent = {site.name: site.missing() for site in chosen if site.missing()}
    try:
        rows = prove([site for site in chosen if site.name not in absent], options.kills,
                     options.seed)
    except SiteError as error:
        print(f"cluster-proof: {error}", file=sys.stderr)
        return 2
    for name, why in absent.items():
        print(f"{name}: skipped, {why}", flush=True)
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(REPORT, json.dumps({
        "rows": [asdict(row) for row in rows], "skipped": absent, "seed": options.seed,
        "origin": origin()}, indent=1) + "\n")
    print(f"report: {REPORT.relative_to(ROOT)}")
    if any(row.result != IDENTICAL for row in rows):
        return 1
    return 2 if absent else 0


if __name__ == "__main__":
    leave_on_interrupt("cluster-proof")
    sys.exit(main())
