"""Whether a block's unit benches notice faults planted in it: mutants killed and survived.

    tools/mutate.py [--block efa_llq ...] [--count 200] [--seed 1] [--jobs 2]

Each mutant runs the block's benches on Verilator until the first test fails. The block itself,
mutant 0, runs first and again every so often, and must pass. What survives is offered to Yosys to
be proven equal; tb/mutants.yaml says of the rest why it is accepted, and a verdict that fits no
survivor is an error. Results: reports/mutate/summary.json and summary.txt.

Exit status 1 when fewer than 95 % of the mutants not proven equal were killed, one has no verdict
or a verdict is stale; 2 when a block or its bench is not there or does not pass as it is.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import re
import shutil
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mutants as netlists
import yaml

from tb.runner import OUT as RUNS
from tb.runner import UNIT_BUILD, RunFailed, build, closure, run, write_once
from tb.unit.units import UNITS

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "reports/mutate"
VERDICTS = ROOT / "tb/mutants.yaml"
COUNT, SEED, GOAL = 200, 1, 95.0
CHECK_EACH = 50  # mutants between two runs of the block itself
KILLED, SURVIVED, TIMEOUT = "killed", "survived", "timeout"


def blocks():
    """{top: names of its units}, those of rtl/queue and rtl/data first."""
    found = {}
    for name, unit in UNITS.items():
        found.setdefault(unit.top, []).append(name)
    first = {path.stem for path in (ROOT / "rtl").glob("*/*.v")
             if path.parent.name in ("queue", "data")}  # fmt: skip
    return dict(sorted(found.items(), key=lambda item: (item[0] not in first, item[0])))


def digest(top, units):
    """What a result belongs to: the block, all below it and its benches."""
    state = hashlib.sha256()
    for path in [*closure(top), *(ROOT / "tb/unit").glob("*.py"), *(ROOT / "tb/lib").glob("*.py")]:
        state.update(path.read_bytes())
    return state.hexdigest()[:16]


class Bench:
    """The block's benches on the netlist of its mutants."""

    def __init__(self, top, units, count, seed):
        self.top, self.units, self.seed = top, units, seed
        self.parameters = UNITS[units[0]].variants[0]
        others = [path for path in closure(top) if path.stem != top]
        self.mutants, sources = netlists.make(top, self.parameters, others, count, seed)
        control = RUNS / "control" / f"{top}.vlt"
        write_once(control, f'`verilator_config\npublic_flat_rw -module "{top}" -var "*"\n')
        files = [control, *sources]
        self.folder = build("verilator", top, files, self.parameters, UNIT_BUILD["verilator"])
        self.limit = None  # seconds that a mutant may take

    def _child(self, number, pipe):
        """Runs the benches; tells what failed, or None."""
        os.setsid()
        failed = None
        for unit in self.units:
            title = f"mutant{number}-{unit}"
            seed = self.seed
            try:
                run(
                    "unit", title, "verilator", self.top, self.folder, UNITS[unit].module(unit),
                    seed, self.parameters, env={"COCOTB_MAX_FAILURES": "1"},
                    plusargs=[f"+verilator+seed+{seed}", "+verilator+rand+reset+2",
                              f"+mutant={number}"],
                )  # fmt: skip
            except RunFailed as error:
                lines = str(error).splitlines()
                failed = next((line.strip() for line in lines[1:]), lines[0])
            for path in (RUNS / "run").glob(f"{title}-*-{os.getpid()}-*"):
                shutil.rmtree(path, ignore_errors=True)
            if failed is not None:
                break
        pipe.send(failed)

    def judge(self, number):
        """(verdict, what noticed it, seconds) of one mutant."""
        ours, theirs = multiprocessing.Pipe()
        child = multiprocessing.get_context("fork").Process(
            target=self._child, args=(number, theirs)
        )
        started = time.monotonic()
        child.start()
        answered = ours.poll(self.limit)
        seconds = time.monotonic() - started
        if not answered:
            os.killpg(child.pid, signal.SIGKILL)
        child.join()
        if not answered:
            return TIMEOUT, "no end", seconds
        failed = ours.recv()
        return (SURVIVED if failed is None else KILLED), failed, seconds

    def baseline(self):
        """The block itself passes; seconds it takes."""
        verdict, failed, seconds = self.judge(0)
        if verdict != SURVIVED:
            raise RunFailed(f"{self.top}: its own bench fails on it unmutated: {failed}")
        return seconds


def try_all(bench, jobs, told):
    """{number: (verdict, what noticed it)} of all mutants; `told` is called with the progress."""
    bench.limit = 30 + 10 * bench.baseline()
    found, checks = {}, 1
    with ThreadPoolExecutor(jobs) as pool:
        for begin in range(0, len(bench.mutants), CHECK_EACH):
            batch = bench.mutants[begin : begin + CHECK_EACH]
            for mutant, (verdict, what, _) in zip(
                batch, pool.map(bench.judge, [mutant.number for mutant in batch]), strict=True
            ):
                found[mutant.number] = (verdict, what)
                told(found)
            bench.baseline()
            checks += 1
    return found, checks


class Progress:
    """One line every few seconds, with the time left."""

    def __init__(self, block, total):
        self.block, self.total = block, total
        self.started = self.last = time.monotonic()

    def __call__(self, found):
        now = time.monotonic()
        if now - self.last < 5 and len(found) < self.total:
            return
        self.last = now
        left = (now - self.started) / len(found) * (self.total - len(found))
        killed = sum(verdict != SURVIVED for verdict, _ in found.values())
        print(f"  {self.block}: {len(found)} of {self.total}, {killed} killed, {left:.0f} s left",
              flush=True)  # fmt: skip


def read_verdicts():
    """Entries of tb/mutants.yaml: block, mutant and line as patterns, number, verdict, reason."""
    return (yaml.safe_load(VERDICTS.read_text()) or []) if VERDICTS.exists() else []


def fits(entry, row, standard):
    """Whether a verdict is for this mutant. One with a number is for that one of the standard
    list, where others of its name differ."""
    if "number" in entry and (not standard or entry["number"] != row["number"]):
        return False
    return re.search(entry["mutant"], row["mutant"]) and re.search(entry["line"], row["source"])


def judge_survivors(block, survivors, killed, verdicts, standard):
    """Gives each survivor its verdict; returns what is wrong with the verdicts. Only the list of
    the standard count and seed can say that a verdict is stale."""
    wrong = []
    for entry in verdicts:
        if entry["block"] != block:
            continue
        told = f"{VERDICTS.relative_to(ROOT)}: {block} /{entry['mutant']}/ /{entry['line']}/"
        mine = [row for row in survivors if not row["verdict"] and fits(entry, row, standard)]
        for row in mine:
            row["verdict"], row["reason"] = entry["verdict"], entry["reason"].strip()
        if not entry["reason"].strip():
            wrong.append(f"{told}: has no reason")
        if standard and not mine:
            wrong.append(f"{told}: fits no survivor, take it out")
        wrong += [f"{told}: fits {row['mutant']}, which is killed" for row in killed
                  if fits(entry, row, standard)]  # fmt: skip
    wrong += [
        f"{block}: mutant {row['number']} survived without a verdict: {row['mutant']}, "
        f"{row['file']}:{row['line']}" for row in survivors if not row["verdict"]
    ]  # fmt: skip
    return wrong


def examine(block, units, args, verdicts):
    """One block's row of the summary."""
    started = time.monotonic()
    print(f"{block}: {args.count} mutants, benches {', '.join(units)}", flush=True)
    bench = Bench(block, units, args.count, args.seed)
    found, checks = try_all(bench, args.jobs, Progress(block, len(bench.mutants)))
    rows = {
        mutant.number: {
            "number": mutant.number, "mutant": mutant.name, "file": mutant.file,
            "line": mutant.line, "source": mutant.source, "verdict": "", "reason": "",
        } for mutant in bench.mutants
    }  # fmt: skip
    alive = [mutant for mutant in bench.mutants if found[mutant.number][0] == SURVIVED]
    survivors = [rows[mutant.number] for mutant in alive]
    print(f"  {block}: {len(alive)} survived, trying to prove them equal", flush=True)
    with ThreadPoolExecutor(args.jobs) as pool:
        for row, proved in zip(
            survivors, pool.map(lambda mutant: netlists.proved_equal(block, mutant), alive),
            strict=True,
        ):  # fmt: skip
            if proved:
                row["verdict"], row["reason"] = "proved equal", "Yosys, equiv_induct"
    killed = [row for row in rows.values() if found[row["number"]][0] != SURVIVED]
    standard = (args.count, args.seed) == (COUNT, SEED)
    wrong = judge_survivors(block, survivors, killed, verdicts, standard)
    proved = sum(row["verdict"] == "proved equal" for row in survivors)
    counted = len(rows) - proved
    score = round(100 * len(killed) / counted, 2) if counted else 100.0
    if score < GOAL:
        wrong.append(f"{block}: {score} % killed, goal {GOAL:.0f} %")
    return {
        "digest": digest(block, units), "units": units, "seed": args.seed, "mutants": len(rows),
        "killed": len(killed), "survived": len(survivors), "equivalent": proved,
        "timeouts": sum(verdict == TIMEOUT for verdict, _ in found.values()), "score": score,
        "baseline_runs": checks, "seconds": round(time.monotonic() - started, 1),
        "survivors": survivors, "wrong": wrong,
    }  # fmt: skip


def page(summary):
    """The summary as a table, each survivor below."""
    told = [f"{'block':16}{'mutants':>9}{'killed':>9}{'timeouts':>9}{'survived':>9}{'equal':>7}"
            f"{'score':>10}{'seed':>6}"]  # fmt: skip
    for block, row in summary.items():
        told.append(
            f"{block:16}{row['mutants']:9}{row['killed']:9}{row['timeouts']:9}{row['survived']:9}"
            f"{row['equivalent']:7}{row['score']:8.2f} %{row['seed']:6}"
        )
    for block, row in summary.items():
        for mutant in row["survivors"]:
            told += [
                "", f"{block} mutant {mutant['number']}: {mutant['mutant']}",
                f"  {mutant['file']}:{mutant['line']}  {mutant['source']}",
                f"  {mutant['verdict'] or 'NO VERDICT'}: {mutant['reason']}",
            ]  # fmt: skip
    return "\n".join(told) + "\n"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--block", nargs="*", default=[])
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args(arguments)
    known = blocks()
    unknown = set(args.block) - set(known)
    if unknown or not 0 < args.count < 1 << netlists.NUMBER_W:
        told = f"no block {sorted(unknown)}" if unknown else "a count from 1 to 65535"
        print(f"mutate: {told}; blocks: {', '.join(known)}", file=sys.stderr)
        return 2
    verdicts = read_verdicts()
    summary_file = OUT / "summary.json"
    kept = json.loads(summary_file.read_text())["blocks"] if summary_file.exists() else {}
    kept = {block: row for block, row in kept.items()
            if block in known and row["digest"] == digest(block, known[block])}  # fmt: skip
    for block in args.block or known:
        try:
            kept[block] = examine(block, known[block], args, verdicts)
        except (RunFailed, netlists.YosysFailed) as error:
            print(f"mutate: {block}: {error}", file=sys.stderr)
            return 2
        OUT.mkdir(parents=True, exist_ok=True)
        summary = {"count": args.count, "goal": GOAL, "blocks": dict(sorted(kept.items()))}
        summary_file.write_text(json.dumps(summary, indent=1) + "\n")
        (OUT / "summary.txt").write_text(page(summary["blocks"]))
    print(page({block: kept[block] for block in args.block or known}))
    wrong = [line for block in args.block or known for line in kept[block]["wrong"]]
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
