# SPDX-License-Identifier: Apache-2.0
"""Plants faults in all of rtl/, runs the tests on each fault, and reports the detected faults.

    tools/mutate.py [--block efa_llq ...] [--count 200] [--seed 1] [--jobs 2] [--fresh]

Two kinds of rows:

- A block, by its name: faults that Yosys plants in its logic (tools/mutants.py), detected by its
  unit benches. A block without a bench uses the bench of the module that contains it (INSIDE of
  tb/unit/units.py).
- `efa_nic.wiring` and the others of WIRING (tools/wiring.py): wrong, exchanged and tied connections
  and dropped terms of a wiring module, detected by the tests of the complete device (AREAS of
  tb/system/test_system.py, in the default build). All wiring rows of a run share one simulation.

Without --block: all blocks of FOLDERS and all wiring rows. The list of a row is drawn with --seed
and --count; the default count of a wiring row gives each connected input one fault.

Each mutant runs on Verilator until the first test fails (tools/mutant_runs.py). The unmutated
design starts each batch and must pass. The score of a row is killed / (mutants - proven equal). A
timeout is a mutant without an error message: it is reported separately and does not count as
killed.

Yosys's SAT solver examines each survivor of a block. A survivor of the wiring is proven equal if
the changed bits have the same source or no reader; the solver also examines faults of the glue
logic, and tools/init_sweeps.py those of m_init_done. tb/mutants.yaml gives the reason why each
other survivor is accepted; a verdict without a survivor is an error. Valid results of an earlier
run are read from reports/mutate/blocks. A run without --block also reads complete rows from
tb/mutation.json, the record of passed rows: a digest of RTL and tests, and the counts. --fresh runs
everything. Results: reports/mutate/summary.json, .txt and .svg, by folder and by row.

Exit status 1 if fewer than 95 % of the mutants not proven equal were killed, a survivor has no
verdict or a verdict is stale; 2 if a row is unknown or its tests do not pass on the unmutated
design.
"""

import argparse
import json
import re
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import init_sweeps
import mutant_page
import mutant_proofs
import mutants as netlists
import wiring
import yaml
from mutant_runs import (
    KILLED,
    SURVIVED,
    TIMEOUT,
    Bench,
    Kept,
    SystemBench,
    system_state,
    unit_state,
)

from efa_cosim.jobs.progress import Progress
from tb.runner import RunFailed
from tb.system.test_system import AREAS
from tb.unit.units import INSIDE, UNITS

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "reports/mutate"
VERDICTS = ROOT / "tb/mutants.yaml"
RECORD = ROOT / "tb/mutation.json"
RECORDED = ("state", "folder", "count", "seed", "mutants", "killed", "timeouts", "survived",
            "equivalent", "score", "listed")  # fmt: skip
COUNT, SEED, GOAL = 200, 1, 95.0
FOLDERS = ("rtl/admin", "rtl/common", "rtl/data", "rtl/host", "rtl/queue", "rtl/transport")
# The module checks streams and has no logic in a netlist.
WATCHERS = ("efa_stream_check",)
WIRED = ".wiring"  # ends the name of a wiring row


def blocks():
    """Returns {block: names of its units}, those of FOLDERS first. All units run with the
    parameters of the first, so units with other initial parameters are left out."""
    found = {block: [unit] for block, (unit, _) in INSIDE.items()}
    for name, unit in UNITS.items():
        units = found.setdefault(unit.top, [])
        if not units or UNITS[units[0]].mutated == unit.mutated:
            units.append(name)
    return dict(sorted(found.items(), key=lambda item: (not counted(item[0]), item[0])))


def counted(top):
    """Returns True if a run without --block includes the block."""
    return top not in WATCHERS and any((ROOT / one / f"{top}.v").exists() for one in FOLDERS)


def wired(name):
    """Returns the module of a wiring row, None for a block."""
    return name.removesuffix(WIRED) if name.endswith(WIRED) else None


def rows():
    """Returns {name: names of its units, or areas of tb/system} of all rows."""
    return blocks() | {top + WIRED: list(AREAS) for top in wiring.WIRING}


def folder_of(name):
    """Returns the folder of rtl/ to which a row belongs."""
    file = next((ROOT / "rtl").rglob(f"{wired(name) or name}.v"))
    return file.parent.relative_to(ROOT).as_posix()


def state_of(name, benches, count, seed):
    """Returns the digest of all inputs of a row."""
    state = system_state if wired(name) else unit_state
    return state(wired(name) or name, benches, count, seed).whole


def read_record():
    """Returns {name: row} of the rows whose last run passed."""
    return json.loads(RECORD.read_text()) if RECORD.exists() else {}


def note(name, row):
    """Writes a row of the standard list without errors into the record."""
    if row["wrong"] or (row["count"], row["seed"]) != standard_list(name):
        return
    text = read_record() | {name: {key: row[key] for key in RECORDED if key in row}}
    lines = ",\n".join(f'"{key}": {json.dumps(text[key])}' for key in sorted(text))
    RECORD.write_text(f"{{\n{lines}\n}}\n")


def noted(name, benches):
    """Returns the row of the record, None unless it belongs to the current sources."""
    row = read_record().get(name)
    if row is None or row["state"] != state_of(name, benches, row["count"], row["seed"]):
        return None
    return row | {"units": benches, "survivors": [], "wrong": []}


def standard_list(name):
    """Returns count and seed of the list to which verdicts and record belong."""
    return None if wired(name) else COUNT, SEED


def read_verdicts():
    """Returns the entries of tb/mutants.yaml: block, mutant and line as patterns, verdict, reason.
    """
    return (yaml.safe_load(VERDICTS.read_text()) or []) if VERDICTS.exists() else []


def fits(entry, row):
    """Returns True if a verdict is for this mutant."""
    return re.search(entry["mutant"], row["mutant"]) and re.search(entry["line"], row["source"])


def judge_survivors(block, survivors, killed, verdicts, possible):
    """Gives each survivor its verdict; returns the errors of the verdicts. A verdict is for one of
    all `possible` mutants, also if this list does not contain it."""
    wrong = []
    for entry in verdicts:
        if entry["block"] != block:
            continue
        text = f"{VERDICTS.relative_to(ROOT)}: {block} /{entry['mutant']}/ /{entry['line']}/"
        mine = [row for row in survivors if not row["verdict"] and fits(entry, row)]
        for row in mine:
            row["verdict"], row["reason"] = entry["verdict"], entry["reason"].strip()
        if not entry["reason"].strip():
            wrong.append(f"{text}: has no reason")
        # A proven mutant needs no verdict but may have one: a proof can exceed its time limit.
        if not any(fits(entry, row) for row in possible):
            wrong.append(f"{text}: fits no fault of this module, take it out")
        wrong += [f"{text}: fits {row['mutant']}, which is killed" for row in killed
                  if fits(entry, row)]  # fmt: skip
    wrong += [
        f"{block}: mutant {row['number']} survived without a verdict: {row['mutant']}, "
        f"{row['file']}:{row['line']}" for row in survivors if not row["verdict"]
    ]  # fmt: skip
    return wrong


def bench_of(test):
    """Returns the unit or area of the module tb.unit.NAME_tests that contains a test; a simulation
    may end without a named test."""
    return test.split(".")[2].removesuffix("_tests") if test else "the simulator"


def resume(name, kept, listed, benches, progress):
    """Returns the numbers of the mutants of a row that must run."""
    for number, proof in kept.proofs.items():
        if proof["equal"] and number not in kept.rows:
            kept.add(number, SURVIVED, "", "")  # no bench can detect it
    numbers = [mutant.number for mutant in listed if mutant.number not in kept.rows]
    progress.say(f"{name}: {len(listed)} mutants, {len(listed) - len(numbers)} kept, "
                 f"benches {', '.join(benches)}")  # fmt: skip
    return numbers


def prove(kept, mutants, proof, jobs):
    """Passes mutants without an earlier proof result to `proof`; returns the numbers of those that
    are proven equal. A proof that exceeded its time limit is a result, too: --fresh repeats it."""
    unproved = [mutant for mutant in mutants if mutant.number not in kept.proofs]
    with ThreadPoolExecutor(jobs) as pool:
        for mutant, equal in zip(unproved, pool.map(proof, unproved), strict=True):
            kept.proved(mutant.number, equal)
    return {one.number for one in mutants if kept.proofs.get(one.number, {}).get("equal")}


def earlier_survivors(kept, listed, numbers):
    """Returns the mutants that survived an earlier run, without those that ran now."""
    now = set(numbers)
    return [one for one in listed
            if one.number not in now and kept.rows[one.number]["verdict"] == SURVIVED]  # fmt: skip


def summary(name, benches, kept, listed, args, verdicts, possible):
    """Returns a summary row from the stored results of its mutants."""
    found = [
        {**kept.rows[mutant.number], "mutant": mutant.name, "file": mutant.file,
         "line": mutant.line, "source": mutant.source, "reason": ""} for mutant in listed
    ]  # fmt: skip
    by_verdict = {verdict: [row for row in found if row["verdict"] == verdict]
                  for verdict in (KILLED, SURVIVED, TIMEOUT)}  # fmt: skip
    killed, survivors = by_verdict[KILLED], by_verdict[SURVIVED]
    for row in survivors:
        row["verdict"] = ""
        if kept.proofs.get(row["number"], {}).get("equal"):
            row["verdict"], row["reason"] = "proved equal", "Yosys"
    possible = [{"mutant": one.name, "source": one.source} for one in possible]
    wrong = judge_survivors(name, survivors, killed, verdicts, possible)
    proved = sum(row["verdict"] == "proved equal" for row in survivors)
    rate = score(len(found), len(killed), proved)
    if rate < GOAL:
        wrong.append(f"{name}: {rate} % killed, goal {GOAL:.0f} %")
    return {
        "state": kept.state.whole, "units": benches, "folder": folder_of(name),
        "count": args.count, "seed": args.seed, "mutants": len(found), "killed": len(killed),
        "killed_by": dict(Counter(bench_of(row["by"]) for row in killed).most_common()),
        "timeouts": by_verdict[TIMEOUT], "survived": len(survivors), "equivalent": proved,
        "score": rate, "listed": len(possible), "survivors": survivors, "wrong": wrong,
    }  # fmt: skip


def score(mutants, killed, equal):
    """Returns the percentage killed of the mutants not proven equal; a timeout is not killed."""
    total = mutants - equal
    return round(100 * killed / total, 2) if total else 100.0


def judged(bench, name, numbers, args, equal, progress):
    """Yields the results of bench.judge for the mutants of a row, a phase of `progress`."""
    def examined(alive):
        progress.say(f"{name}: {len(alive)} survivors to prove equal")
        return equal(alive)

    progress.phase(name, len(numbers))
    killed = 0
    for place, found in enumerate(bench.judge(numbers, args.jobs, examined)):
        if place == 0:
            progress.restart()  # without the build
        killed += found[1] == KILLED
        progress.advance(note=f"{killed} killed")
        yield found


def examine(block, units, args, verdicts, progress):
    """Returns the summary row of one block."""
    bench = Bench(block, units, args.count, args.seed)
    kept = Kept(block, bench.state, args.fresh)
    numbers = resume(block, kept, bench.mutants, units, progress)
    bench.kills += kept.kills()

    def proof(mutant):
        return mutant_proofs.proved_equal(block, mutant)

    def equal(alive):
        mutants = [mutant for mutant in bench.mutants if mutant.number in alive]
        return prove(kept, mutants, proof, args.jobs)

    for result in judged(bench, block, numbers, args, equal, progress):
        kept.add(*result)
    prove(kept, earlier_survivors(kept, bench.mutants, numbers), proof, args.jobs)
    return summary(block, units, kept, bench.mutants, args, verdicts, bench.possible)


def examine_wiring(names, args, verdicts, progress):
    """Yields the rows of some wiring modules, which share a simulation, with their names."""
    bench = SystemBench([wired(name) for name in names], AREAS, args.count, args.seed)
    sweeps = init_sweeps.Sweeps()
    kept, owner, numbers, below = {}, {}, [], {}
    for name in names:
        top = wired(name)
        drawn, listed = bench.drawn[top], bench.listed[top]
        kept[name] = Kept(name, system_state(top, AREAS, args.count, args.seed), args.fresh)
        progress.say(f"{name}: {len(drawn)} of {len(listed)} faults drawn")
        below[name] = wiring.Below(top, netlists.files_below(top), sweeps=sweeps)
        # A survivor takes as long as fifty kills; a comparison of drivers takes no time.
        for mutant in drawn:
            if mutant.number not in kept[name].proofs and below[name].same(mutant):
                kept[name].proved(mutant.number, True)
        numbers += resume(name, kept[name], drawn, AREAS, progress)
        bench.kills += kept[name].kills()
        owner |= {mutant.number: name for mutant in drawn}
    numbers.sort(key=lambda number: number % wiring.NUMBERS)  # each module in turn
    proofs = {name: below[name].proof() for name in names}

    def equal(alive):
        found = set()
        for name in names:
            mutants = [one for one in bench.drawn[wired(name)] if one.number in alive]
            found |= prove(kept[name], mutants, proofs[name], 1)
        return found

    for result in judged(bench, "wiring", numbers, args, equal, progress):
        kept[owner[result[0]]].add(*result)
    for name in names:
        top, drawn = wired(name), bench.drawn[wired(name)]
        prove(kept[name], earlier_survivors(kept[name], drawn, numbers), proofs[name], 1)
        yield name, summary(name, AREAS, kept[name], drawn, args, verdicts, bench.listed[top])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--block", nargs="*", default=[])
    parser.add_argument("--count", type=int, help="of each row; default 200, wiring one an input")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--fresh", action="store_true", help="take nothing from earlier runs")
    args = parser.parse_args(arguments)
    known = rows()
    unknown = set(args.block) - set(known)
    least = min(1 << netlists.NUMBER_W, wiring.NUMBERS) - 1
    if unknown or not 0 < (args.count or 1) <= least:
        text = f"no row {sorted(unknown)}" if unknown else f"a count from 1 to {least}"
        print(f"mutate: {text}; rows: {', '.join(known)}", file=sys.stderr)
        return 2
    verdicts = read_verdicts()
    text = {}

    def holds(name, row):
        """Returns True if a row of an earlier run belongs to the current sources and has this form.
        """
        benches = known.get(name) if "folder" in row else None
        return benches is not None and row["state"] == state_of(
            name, benches, row["count"], row["seed"]
        )

    def each(names, progress):
        """Yields (name, row); rows of the record first, then blocks."""
        kept = {}
        if not args.block and not args.fresh and (args.count, args.seed) == (None, SEED):
            kept = {name: row for name in names if (row := noted(name, known[name]))}
            progress.say(f"{len(kept)} of {len(names)} rows are unchanged in "
                         f"{RECORD.relative_to(ROOT)}")
        yield from kept.items()
        names = [name for name in names if name not in kept]
        for name in names:
            if not wired(name):
                one = argparse.Namespace(**vars(args) | {"count": args.count or COUNT})
                yield name, examine(name, known[name], one, verdicts, progress)
        joined = [name for name in names if wired(name)]
        if joined:
            yield from examine_wiring(joined, args, verdicts, progress)

    names = args.block or [one for one in known if counted(one) or wired(one)]
    try:
        with Progress("mutate") as progress:
            for name, row in each(names, progress):
                text[name] = row
                note(name, row)
                mutant_page.write(OUT, name, row, holds, GOAL)
    except (RunFailed, netlists.YosysFailed) as error:
        print(f"mutate: {error}", file=sys.stderr)
        return 2
    print(mutant_page.table(text))
    wrong = [line for row in text.values() for line in row["wrong"]]
    print("\n".join(wrong))
    print(f"mutate: {len(text)} rows, {(OUT / 'summary.txt').relative_to(ROOT)}, summary.svg")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
