# SPDX-License-Identifier: Apache-2.0
"""Removes each protection check of the RTL and verifies that its test then fails.

    tools/check_mutation.py [--check ID ...] [--sim icarus] [--seed 1] [--jobs 2] [--find]
                            [--cluster ADDRESS]

tb/check_mutations.yaml lists the checks and the test of each check. A test first runs on the
unmodified RTL and must pass. The test then runs on a copy of the RTL (sim/out/check_mutation)
without the check and must fail; a build error or a timeout does not count as a failure. If a second
check rejects the same input, the test must still pass when only the first check is removed. --check
accepts patterns; --find runs every test of the bench and prints the tests that fail. The default
simulator is Icarus because of its short builds, or Verilator where Icarus is not installed. Each
run is a job of this machine, or with --cluster of other machines (docs/jobs.md). Results:
reports/check_mutation/summary.json, summary.svg.

Exit status 1 if a check survives or its test fails on the unmodified RTL; 2 if the list does not
match the tree, or the simulator or the cluster is missing.
"""

import argparse
import fnmatch
import sys
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

import check_mutation_page  # noqa: E402 - needs the path above
from check_mutation_list import LIST, ROOT, ListFault, problems, read_checks, state  # noqa: E402

from efa_cosim.boundary.backend import BackendUnavailable  # noqa: E402
from efa_cosim.cli.options import cluster  # noqa: E402
from efa_cosim.cli.regress import SOURCES  # noqa: E402
from efa_cosim.jobs.cluster import SYNTAX, ClusterError  # noqa: E402
from efa_cosim.jobs.executor import open_executor  # noqa: E402
from efa_cosim.jobs.job import UNUSABLE, Limits  # noqa: E402
from efa_cosim.jobs.progress import Progress  # noqa: E402
from tb.check_mutation_job import Trial  # noqa: E402
from tb.simulators import SIMULATORS, simulator_missing  # noqa: E402

ENTRY = "check_mutation"
REPORT = ROOT / "reports/check_mutation"
KILLED, SURVIVED, BROKEN = "killed", "survived", "error"
LIMITS = Limits(seconds=900.0)  # a build and its run, against benches that do not end


def trial(check, changes, args, name=None, whole=False):
    """Returns the job that runs the test of a check, or its whole bench, on a changed RTL."""
    # The complete device takes minutes on Icarus.
    simulator = args.sim if check.kind == "unit" else "verilator"
    return Trial(name or check.id, check.kind, check.bench, check.module,
                 None if whole else check.name, tuple(sorted(check.params.items())),
                 tuple((one.file, one.old, one.new) for one in changes), simulator,
                 args.seed)  # fmt: skip


class Ran(NamedTuple):
    """A finished run: failed tests as (test, reason), and the error that prevented the run."""

    trial: Trial
    failed: list[tuple[str, str]]
    error: str
    seconds: float


def results(executor):
    """Yields the Ran of each finished run. Raises BackendUnavailable and ClusterError."""
    for finished in executor.results():
        if finished.code == UNUSABLE:
            raise BackendUnavailable(finished.reason)
        failed, error = ([], finished.reason) if finished.code else finished.measurements[0]
        yield Ran(finished.job, failed, error, finished.seconds)


def judge(check, args):
    """Judges a check whose test passes on the unmodified RTL: yields each Trial that is needed,
    takes its failed tests and error, and returns (verdict, evidence)."""
    if check.beside:
        failed, error = yield trial(check, [check.own], args)
        if failed or error:
            return BROKEN, "fails without this check alone: it needs no other beside it"
    failed, error = yield trial(check, check.changes, args)
    if error:
        return BROKEN, error
    return (KILLED, failed[0][1]) if failed else (SURVIVED, "")


def ran_by(check):
    """Returns the test of a check and the parameters of the run."""
    return " ".join([check.test, *(f"{name}={value}" for name, value in check.params.items())])


def examine(checks, args):
    """Returns a summary row for each check, and the error of each test that fails on the unmodified
    RTL; these runs come first. Raises BackendUnavailable and ClusterError."""
    users = {}
    for check in checks:
        users.setdefault(ran_by(check), []).append(check)
    progress = Progress("check-mutation", len(users) + len(checks))
    unfit, rows, waiting = {}, [], {}

    def note(check, verdict, what, seconds):
        rows.append({
            "id": check.id, "protects": " ".join(check.protects.split()),
            "place": check.own.place, "old": check.old, "new": check.new,
            "beside": [each.place for each in check.changes[1:]], "because": check.because,
            "test": check.test, "verdict": verdict, "what": what, "sim": args.sim,
            "seed": args.seed, "state": state(check), "seconds": round(seconds, 1),
        })  # fmt: skip
        text, failed = rows[-1], verdict != KILLED
        why = f": {text['place']}: {what or 'no test failed'}" if failed else ""
        progress.advance(note=f"{text['id']}: {verdict} by {text['test']} "
                         f"({text['seconds']} s){why}", failed=failed)  # fmt: skip

    def proceed(check, judgement, found, seconds):
        """Adds the next run of a check, or notes its verdict."""
        try:
            executor.add(judgement.send(found))
            waiting[check.id] = check, judgement, seconds
        except StopIteration as ended:
            note(check, *ended.value, seconds)

    with progress, open_executor(args.cluster, args.jobs, ENTRY, SOURCES, LIMITS) as executor:
        for name, (check, *_) in users.items():
            executor.add(trial(check, [], args, name))
        for ran in results(executor):
            name = ran.trial.name
            if ran.trial.changes:
                check, judgement, before = waiting.pop(name)
                proceed(check, judgement, (ran.failed, ran.error), before + ran.seconds)
                continue
            if ran.failed or ran.error:
                unfit[name] = ran.error or ran.failed[0][1]
            text = f"fails on the RTL as it is: {unfit[name]}" if name in unfit else "passes"
            progress.advance(note=f"{name}: {text}", failed=name in unfit)
            for check in users[name]:
                if name in unfit:
                    note(check, BROKEN, f"fails on the RTL as it is: {unfit[name]}", 0.0)
                else:
                    proceed(check, judge(check, args), None, 0.0)
    return rows, unfit


def find(checks, args):
    """Prints the tests of the bench that fail without the check."""
    known = {check.id: check for check in checks}
    with (Progress("check-mutation", len(checks)) as progress,
          open_executor(args.cluster, args.jobs, ENTRY, SOURCES, LIMITS) as executor):  # fmt: skip
        for check in checks:
            executor.add(trial(check, check.changes, args, whole=True))
        for ran in results(executor):
            own = ran.trial.name
            print(f"{own}: {len(ran.failed)} tests of {known[own].bench}", flush=True)
            for name, why in ran.failed:
                print(f"  {name}: {why[:100]}", flush=True)
            if ran.error:
                print(f"  {ran.error[:1500]}", flush=True)
            progress.advance(note=own)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", nargs="*", default=[], help="ids, with * for any text")
    parser.add_argument("--sim", choices=SIMULATORS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cluster", type=cluster, metavar="ADDRESS",
                        help=f"run the tests on other machines; {SYNTAX}")
    parser.add_argument("--find", action="store_true", help="which tests of the bench notice")
    args = parser.parse_args(arguments)
    args.sim = args.sim or ("verilator" if simulator_missing("icarus") else "icarus")
    try:
        checks = read_checks()
    except ListFault as fault:
        print(f"check-mutation: {fault}", file=sys.stderr)
        return 2
    chosen = [check for check in checks
              if any(fnmatch.fnmatch(check.id, one) for one in args.check or ["*"])]  # fmt: skip
    wrong = problems(chosen)
    unknown = [one for one in args.check
               if not any(fnmatch.fnmatch(check.id, one) for check in checks)]  # fmt: skip
    if unknown:
        wrong = [f"no check {', '.join(unknown)} in {LIST}; expected one of "
                 f"{', '.join(check.id for check in checks)}"]  # fmt: skip
    reason = simulator_missing(args.sim)
    if wrong or reason:
        print("\n".join([*wrong, *([reason] if reason else [])]), file=sys.stderr)
        return 2
    began = time.monotonic()
    try:
        if args.find:
            find(chosen, args)
            return 0
        rows, unfit = examine(chosen, args)
    except (BackendUnavailable, ClusterError) as error:
        print(f"check-mutation: {error}", file=sys.stderr)
        return 2
    page = check_mutation_page.write(REPORT, rows, {check.id: state(check) for check in checks})
    killed = sum(row["verdict"] == KILLED for row in rows)
    for row in rows:
        if row["verdict"] != KILLED:
            why = row["what"].partition("\n")[0] or "no test noticed"
            print(f"{row['id']}: {row['verdict']}: {row['place']}: {why}")
    print(f"check-mutation: {killed} of {len(rows)} killed by their tests in"
          f" {time.monotonic() - began:.0f} s, {page.relative_to(ROOT)}")  # fmt: skip
    return int(killed < len(rows) or bool(unfit))


if __name__ == "__main__":
    sys.exit(main())
