# SPDX-License-Identifier: Apache-2.0
"""Removes each protection check of the RTL and verifies that its test then fails.

    tools/check_mutation.py [--check ID ...] [--sim icarus] [--seed 1] [--jobs 2] [--find]

tb/check_mutations.yaml lists the checks and the test of each check. A test first runs on the
unmodified RTL and must pass. The test then runs on a copy of the RTL (sim/out/check_mutation)
without the check and must fail; a build error or a timeout does not count as a failure. If a second
check rejects the same input, the test must still pass when only the first check is removed. --check
accepts patterns; --find runs every test of the bench and prints the tests that fail. The default
simulator is Icarus because of its short builds, or Verilator where Icarus is not installed.
Results: reports/check_mutation/summary.json, summary.svg.

Exit status 1 if a check survives or its test fails on the unmodified RTL; 2 if the list does not
match the tree, or the simulator is missing.
"""

import argparse
import fnmatch
import multiprocessing
import os
import re
import shutil
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import check_mutation_page  # noqa: E402 - needs the path above
from check_mutation_list import LIST, ROOT, ListFault, planted, problems, read_checks, state  # noqa: E402

from tb import runner  # noqa: E402
from tb.simulators import SIMULATORS, simulator_missing  # noqa: E402
from tb.unit.units import UNITS  # noqa: E402

OUT = ROOT / "sim/out/check_mutation"
REPORT = ROOT / "reports/check_mutation"
KILLED, SURVIVED, BROKEN = "killed", "survived", "error"
# Non-default builds of areas, as in tb/system/test_system.py.
BUILDS = {"pair": {"DEVICES": 2}, "sq_host": {"SQ_HOST": 1}}
LIMIT = 900  # seconds for a build and its run, against benches that do not end


def attempt(check, changes, folder, sim, seed, name):
    """Runs a test, or the bench without `name`, on the RTL with these changes. Returns the failed
    tests as (test, reason), and the error that prevented the run."""
    shutil.rmtree(folder, ignore_errors=True)
    files = planted(changes, folder)
    # Builds and runs of the modified RTL are deleted with their folder.
    runner.OUT = folder if changes else runner.OUT
    test = name and rf"\b{name}\b"
    try:
        if check.kind == "unit":
            unit = UNITS[check.bench]
            sources = [path.relative_to(ROOT).as_posix() for path in
                       runner.closure(unit.top, tuple(files))]  # fmt: skip
            runner.run_unit(check.bench, unit.top, sources, check.module, sim, seed,
                            check.params or unit.mutated, test)  # fmt: skip
        else:
            from tb.system_run import run_system

            # The complete device takes minutes on Icarus.
            run_system(check.module, "verilator", seed, BUILDS.get(check.bench), test,
                       extra=tuple(files))  # fmt: skip
    except runner.RunFailed as error:
        if not error.wrong:
            return [], str(error)
        # Only the log contains the message of an EFA_CHECK.
        said = re.search(r"CHECK FAILED .*", str(error))
        lines = [line.partition(": ") for line in error.wrong]
        kinds = {one: why.partition(" ")[0] for one, _, why in lines}
        if set(kinds.values()) - {"failure", "error"} or "simulator" in kinds:
            return [], str(error)  # tests did not run, or the simulator crashed
        return [(one, said.group() if said else why.partition(" ")[2]) for one, _, why in lines], ""
    return [], ""


def _child(pipe, arguments):
    """Executes a run in a process session of its own, so that all its processes can be ended."""
    os.setsid()
    try:
        pipe.send(attempt(*arguments))
    except Exception as error:  # any exception is reported to the parent
        pipe.send(([], f"{type(error).__name__}: {error}"))


def guarded(*arguments):
    """Executes `attempt` with a time limit."""
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.Process(target=_child, args=(theirs, arguments), daemon=True)
    child.start()
    theirs.close()
    try:
        found = ours.recv() if ours.poll(LIMIT) else None
    except EOFError:
        found = [], "ended without a word"
    if found is None:
        os.killpg(child.pid, signal.SIGKILL)
        found = [], f"no end in {LIMIT} s"
    child.join()
    return found


def judge(check, sim, seed):
    """Returns (verdict, evidence) of a check whose test passes on the unmodified RTL."""
    folder = OUT / check.id
    if check.beside:
        failed, error = guarded(check, [check.own], folder, sim, seed, check.name)
        if failed or error:
            return BROKEN, "fails without this check alone: it needs no other beside it"
    failed, error = guarded(check, check.changes, folder, sim, seed, check.name)
    if error:
        return BROKEN, error
    if not failed:
        return SURVIVED, ""
    shutil.rmtree(folder / "build", ignore_errors=True)
    return KILLED, failed[0][1]


def ran_by(check):
    """Returns the test of a check and the parameters of the run."""
    return " ".join([check.test, *(f"{name}={value}" for name, value in check.params.items())])


class Progress:
    """Prints a line for each finished run, with the remaining time."""

    def __init__(self, total):
        self.total, self.done, self.started = total, 0, time.monotonic()

    def __call__(self, text):
        self.done += 1
        spent = time.monotonic() - self.started
        left = spent / self.done * (self.total - self.done)
        print(f"[{self.done}/{self.total}, {left:.0f} s left] {text}", flush=True)


def examine(checks, args):
    """Returns a summary row for each check; the runs on the unmodified RTL come first."""
    tests = {ran_by(check): check for check in checks}
    progress = Progress(len(tests) + len(checks))
    unfit, rows = {}, []
    with ThreadPoolExecutor(args.jobs) as pool:
        waiting = {pool.submit(guarded, check, [], OUT / "as_it_is" / name, args.sim, args.seed,
                               check.name): name for name, check in tests.items()}  # fmt: skip
        for future in as_completed(waiting):
            failed, error = future.result()
            name = waiting[future]
            if failed or error:
                unfit[name] = error or failed[0][1]
            progress(f"{name}: {'FAILS on the RTL as it is' if name in unfit else 'passes'}")

        def row(check):
            began = time.monotonic()
            if ran_by(check) in unfit:
                verdict, what = BROKEN, f"fails on the RTL as it is: {unfit[ran_by(check)]}"
            else:
                verdict, what = judge(check, args.sim, args.seed)
            return {
                "id": check.id, "protects": " ".join(check.protects.split()),
                "place": check.own.place, "old": check.old, "new": check.new,
                "beside": [each.place for each in check.changes[1:]], "because": check.because,
                "test": check.test, "verdict": verdict, "what": what, "sim": args.sim,
                "seed": args.seed, "state": state(check),
                "seconds": round(time.monotonic() - began, 1),
            }  # fmt: skip

        for future in as_completed([pool.submit(row, check) for check in checks]):
            rows.append(future.result())
            text = rows[-1]
            progress(f"{text['id']}: {text['verdict']} by {text['test']} ({text['seconds']} s)")
            if text["verdict"] != KILLED:
                print(f"  {text['place']}: {text['what'] or 'no test failed'}", flush=True)
    return rows, unfit


def find(checks, args):
    """Prints the tests of the bench that fail without the check."""
    with ThreadPoolExecutor(args.jobs) as pool:
        waiting = {pool.submit(guarded, check, check.changes, OUT / check.id, args.sim, args.seed,
                               None): check for check in checks}  # fmt: skip
        for future in as_completed(waiting):
            failed, error = future.result()
            check = waiting[future]
            print(f"{check.id}: {len(failed)} tests of {check.bench}", flush=True)
            for name, why in failed:
                print(f"  {name}: {why[:100]}", flush=True)
            if error:
                print(f"  {error[:1500]}", flush=True)
            shutil.rmtree(OUT / check.id, ignore_errors=True)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", nargs="*", default=[], help="ids, with * for any text")
    parser.add_argument("--sim", choices=SIMULATORS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
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
    if args.find:
        find(chosen, args)
        return 0
    began = time.monotonic()
    rows, unfit = examine(chosen, args)
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
