"""Whether a block's unit benches notice faults planted in it: mutants killed and survived.

    tools/mutate.py [--block efa_llq ...] [--count 200] [--seed 1] [--jobs 2] [--fresh]

Each mutant runs the block's benches on Verilator until the first test fails (tools/mutant_runs.py).
What survives is offered to Yosys to be proven equal; tb/mutants.yaml says of the rest why it is
accepted, and a verdict that fits no survivor is an error. Which bench noticed how many is told; the
tests of the whole device are not asked, so no mutant counts on their account. A mutant whose test
ran three times as long as on the block itself without an end is a timeout; it counts as noticed and
is told apart. What still holds of an earlier run is taken from reports/mutate/blocks, unless
--fresh. Without --block all of rtl/admin, rtl/host, rtl/queue and rtl/data. A block without a bench
of its own has that of the module around it (INSIDE of tb/unit/units.py). Results:
reports/mutate/summary.json, .txt and .svg.

Exit status 1 when fewer than 95 % of the mutants not proven equal were killed, one has no verdict
or a verdict is stale; 2 when a block or its bench is not there or does not pass as it is.
"""

import argparse
import re
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mutant_page
import mutants as netlists
import yaml
from mutant_runs import KILLED, SURVIVED, TIMEOUT, Bench, Kept, State

from tb.runner import RunFailed
from tb.unit.units import INSIDE, UNITS

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "reports/mutate"
VERDICTS = ROOT / "tb/mutants.yaml"
COUNT, SEED, GOAL = 200, 1, 95.0
FOLDERS = ("rtl/admin", "rtl/host", "rtl/queue", "rtl/data")


def blocks():
    """{block: names of its units}, those of FOLDERS first. All run on the parameters of the first,
    so units that begin with others are left out."""
    found = {block: [unit] for block, (unit, _) in INSIDE.items()}
    for name, unit in UNITS.items():
        units = found.setdefault(unit.top, [])
        if not units or UNITS[units[0]].mutated == unit.mutated:
            units.append(name)
    return dict(sorted(found.items(), key=lambda item: (not counted(item[0]), item[0])))


def counted(top):
    """Whether a block is one of those that a run without --block is about."""
    return any((ROOT / folder / f"{top}.v").exists() for folder in FOLDERS)


def state_of(block, units, count, seed):
    """Digest of all that a block's row belongs to."""
    return State(block, units, count, seed).whole


class Progress:
    """One line every few seconds, with the time left."""

    def __init__(self, block, total):
        self.block, self.total, self.done, self.killed = block, total, 0, 0
        self.started = self.last = time.monotonic()

    def __call__(self, verdict):
        self.done += 1
        self.killed += verdict != SURVIVED
        now = time.monotonic()
        if now - self.last < 5 and self.done < self.total:
            return
        self.last = now
        left = (now - self.started) / self.done * (self.total - self.done)
        told = f"{self.done} of {self.total}, {self.killed} noticed, {left:.0f} s left"
        print(f"  {self.block}: {told}", flush=True)


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
        # One that is proven needs no verdict, and may have one: a proof can take too long.
        if standard and not any(fits(entry, row, standard) for row in survivors):
            wrong.append(f"{told}: fits no survivor, take it out")
        wrong += [f"{told}: fits {row['mutant']}, which is killed" for row in killed
                  if fits(entry, row, standard)]  # fmt: skip
    wrong += [
        f"{block}: mutant {row['number']} survived without a verdict: {row['mutant']}, "
        f"{row['file']}:{row['line']}" for row in survivors if not row["verdict"]
    ]  # fmt: skip
    return wrong


def bench_of(test):
    """The unit in whose bench, tb.unit.NAME_tests, a test stands; a simulation may end with no test
    to name."""
    return test.split(".")[2].removesuffix("_tests") if test else "the simulator"


def examine(block, units, args, verdicts):
    """One block's row of the summary."""
    started = time.monotonic()
    bench = Bench(block, units, args.count, args.seed)
    kept = Kept(block, bench.state, args.fresh)
    for number, proof in kept.proofs.items():
        if proof["equal"] and number not in kept.rows:
            kept.add(number, SURVIVED, "", "")  # no bench can tell
    numbers = [mutant.number for mutant in bench.mutants if mutant.number not in kept.rows]
    print(f"{block}: {len(bench.mutants)} mutants, {len(bench.mutants) - len(numbers)} kept, "
          f"benches {', '.join(units)}", flush=True)  # fmt: skip
    progress = Progress(block, len(numbers))
    for number, verdict, by, what in bench.judge(numbers, args.jobs):
        kept.add(number, verdict, by, what)
        progress(verdict)
    rows = [
        {**kept.rows[mutant.number], "mutant": mutant.name, "file": mutant.file,
         "line": mutant.line, "source": mutant.source, "reason": ""} for mutant in bench.mutants
    ]  # fmt: skip
    alive = [mutant for mutant in bench.mutants
             if kept.rows[mutant.number]["verdict"] == SURVIVED]  # fmt: skip
    open_ones = [mutant for mutant in alive if mutant.number not in kept.proofs]
    with ThreadPoolExecutor(args.jobs) as pool:
        for mutant, equal in zip(
            open_ones, pool.map(lambda one: netlists.proved_equal(block, one), open_ones),
            strict=True,
        ):  # fmt: skip
            # What took too long may be proven when there is less else to do.
            if equal is not None:
                kept.proved(mutant.number, equal)
    survivors = [row for row in rows if row["verdict"] == SURVIVED]
    killed = [row for row in rows if row["verdict"] != SURVIVED]
    for row in survivors:
        row["verdict"] = ""
        if kept.proofs.get(row["number"], {}).get("equal"):
            row["verdict"], row["reason"] = "proved equal", "Yosys, sat"
    standard = (args.count, args.seed) == (COUNT, SEED)
    wrong = judge_survivors(block, survivors, killed, verdicts, standard)
    proved = sum(row["verdict"] == "proved equal" for row in survivors)
    total = len(rows) - proved
    score = round(100 * len(killed) / total, 2) if total else 100.0
    if score < GOAL:
        wrong.append(f"{block}: {score} % killed, goal {GOAL:.0f} %")
    return {
        "state": bench.state.whole, "units": units, "count": args.count, "seed": args.seed,
        "mutants": len(rows),
        "killed": sum(row["verdict"] == KILLED for row in killed),
        "killed_by": dict(Counter(bench_of(row["by"]) for row in killed).most_common()),
        "timeouts": [row for row in killed if row["verdict"] == TIMEOUT],
        "survived": len(survivors), "equivalent": proved, "score": score,
        "seconds": round(time.monotonic() - started, 1), "survivors": survivors, "wrong": wrong,
    }  # fmt: skip


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--block", nargs="*", default=[])
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--fresh", action="store_true", help="take nothing from earlier runs")
    args = parser.parse_args(arguments)
    known = blocks()
    unknown = set(args.block) - set(known)
    if unknown or not 0 < args.count < 1 << netlists.NUMBER_W:
        told = f"no block {sorted(unknown)}" if unknown else "a count from 1 to 65535"
        print(f"mutate: {told}; blocks: {', '.join(known)}", file=sys.stderr)
        return 2
    verdicts = read_verdicts()
    told = {}

    def holds(block, row):
        """Whether a row of an earlier run is that of the sources as they are."""
        units = known.get(block)
        return units is not None and row.get("state") == state_of(
            block, units, row["count"], row["seed"]
        )

    for block in args.block or [block for block in known if counted(block)]:
        try:
            told[block] = examine(block, known[block], args, verdicts)
        except (RunFailed, netlists.YosysFailed) as error:
            print(f"mutate: {block}: {error}", file=sys.stderr)
            return 2
        mutant_page.write(OUT, block, told[block], holds, GOAL)
    print(mutant_page.table(told))
    wrong = [line for row in told.values() for line in row["wrong"]]
    print("\n".join(wrong))
    print(f"mutate: {len(told)} blocks, {(OUT / 'summary.txt').relative_to(ROOT)}, summary.svg")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
