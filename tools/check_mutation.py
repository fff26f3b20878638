# SPDX-License-Identifier: Apache-2.0
"""Whether each protection check of the RTL has a test that notices when it is gone.

    tools/check_mutation.py [--check ID ...] [--sim icarus] [--seed 1] [--jobs 2] [--find]

tb/check_mutations.yaml lists the checks and the test of each. A test first runs on the RTL as it is
and must pass, then on a copy of it (sim/out/check_mutation) without the check, and must fail, by
itself: what does not build, or does not end, kills nothing. Where another check refuses the same,
the test must still pass without this one alone. --check takes patterns; --find runs every test of
the bench and says which of them fail. Without --sim it is Icarus, which builds in no time, or
Verilator where that is not installed. Results: reports/check_mutation/summary.json, summary.svg.

Exit status 1 when a check survives or its test fails on the RTL as it is; 2 when the list does not
fit the tree, or the simulator is missing.
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
# The builds of areas that are not the default one, as tb/system/test_system.py has them.
BUILDS = {"pair": {"DEVICES": 2}, "sq_host": {"SQ_HOST": 1}}
LIMIT = 900  # seconds of a build and its run: a net under what a bench leaves without an end


def attempt(check, changes, folder, sim, seed, name):
    """Runs a test, all of its bench without `name`, on the RTL with these changes. What failed as
    (test, why) and what kept it from running."""
    shutil.rmtree(folder, ignore_errors=True)
    files = planted(changes, folder)
    # Builds and runs of what is changed leave with it.
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

            # The whole device takes minutes on Icarus.
            run_system(check.module, "verilator", seed, BUILDS.get(check.bench), test,
                       extra=tuple(files))  # fmt: skip
    except runner.RunFailed as error:
        if not error.wrong:
            return [], str(error)
        # What a check of the RTL says stands in the log alone.
        said = re.search(r"CHECK FAILED .*", str(error))
        lines = [line.partition(": ") for line in error.wrong]
        kinds = {one: why.partition(" ")[0] for one, _, why in lines}
        if set(kinds.values()) - {"failure", "error"} or "simulator" in kinds:
            return [], str(error)  # tests that did not run, a simulator that fell
        return [(one, said.group() if said else why.partition(" ")[2]) for one, _, why in lines], ""
    return [], ""


def _child(pipe, arguments):
    """A run in a session of its own, so that it can be ended with all it started."""
    os.setsid()
    try:
        pipe.send(attempt(*arguments))
    except Exception as error:  # whatever it is, the parent tells it
        pipe.send(([], f"{type(error).__name__}: {error}"))


def guarded(*arguments):
    """`attempt` with an end."""
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
    """(verdict, what was seen) of a check whose test passes on the RTL as it is."""
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
    """Its test, and the parameters that it runs with."""
    return " ".join([check.test, *(f"{name}={value}" for name, value in check.params.items())])


class Progress:
    """A line for each run that ended, with the time left."""

    def __init__(self, total):
        self.total, self.done, self.started = total, 0, time.monotonic()

    def __call__(self, text):
        self.done += 1
        spent = time.monotonic() - self.started
        left = spent / self.done * (self.total - self.done)
        print(f"[{self.done}/{self.total}, {left:.0f} s left] {text}", flush=True)


def examine(checks, args):
    """A row of the summary for each check, baselines first."""
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
                print(f"  {text['place']}: {text['what'] or 'no test noticed'}", flush=True)
    return rows, unfit


def find(checks, args):
    """Prints which tests of its bench notice that a check is gone."""
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
    if not chosen:
        wrong = [f"no check {' '.join(args.check)} in {LIST}"]
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
