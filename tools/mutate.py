# SPDX-License-Identifier: Apache-2.0
"""Plants faults in all of rtl/, runs the tests on each fault, and reports the detected faults.

    tools/mutate.py [--block efa_llq ...] [--count 200] [--seed 1] [--jobs 2] [--fresh]
                    [--cluster ADDRESS]

Two kinds of rows:

- A block, by its name: faults that Yosys plants in its logic (tools/mutants.py), detected by its
  unit benches. A block without a bench uses the bench of the module that contains it (INSIDE of
  tb/unit/units.py).
- `efa_nic.wiring` and the others of WIRING (tools/wiring.py): wrong, exchanged and tied connections
  and dropped terms of a wiring module, detected by the tests of the complete device (AREAS of
  tb/system/test_system.py, in the default build). All wiring rows of a run share one simulation.

Without --block: all blocks of FOLDERS and all wiring rows. The list of a row is drawn with --seed
and --count; the default count of a wiring row gives each connected input one fault.

Each mutant runs on Verilator until the first test fails (tools/mutant_bench.py). The unmutated
design starts each batch and must pass. Batches and proofs of all rows are jobs of this machine, or
with --cluster of other machines (tools/mutant_rows.py, docs/jobs.md). The score of a row is
killed / (mutants - proven equal). A timeout is a mutant without an error message: it is reported
separately and does not count as killed.

Yosys's SAT solver examines each survivor of a block. A survivor of the wiring is proven equal if
the changed bits have the same source or no reader; the solver also examines faults of the glue
logic, and tools/init_sweeps.py those of m_init_done. tb/mutants.yaml gives the reason why each
other survivor is accepted; a verdict without a survivor is an error. The results of each job are
stored (sim/out/mutate/results), so the same command resumes an interrupted run. A run without
--block also reads complete rows from tb/mutation.json, the record of passed rows: a digest of RTL
and tests, and the counts. --fresh runs everything. Results: reports/mutate/summary.json, .txt and
.svg, by folder and by row.

Exit status 1 if fewer than 95 % of the mutants not proven equal were killed, a survivor has no
verdict or a verdict is stale; 2 if a row is unknown, a job failed, for example because the tests do
not pass on the unmutated design, or the simulator or the cluster is missing.
"""

import argparse
import json
import re
import sys
from collections import Counter
from pathlib import Path

import mutant_page
import mutants as netlists
import wiring
import yaml
from mutant_bench import KILLED, SURVIVED, TIMEOUT
from mutant_rows import LIMITS, Examination, run, state_of

from efa_cosim.boundary.backend import BackendUnavailable
from efa_cosim.cli.options import cluster
from efa_cosim.cli.regress import SOURCES
from efa_cosim.jobs.cluster import SYNTAX, ClusterError
from efa_cosim.jobs.executor import open_executor
from efa_cosim.jobs.files import atomic_write
from efa_cosim.jobs.progress import Progress
from tb.mutant_job import WIRED, Design, wired
from tb.system.test_system import AREAS
from tb.unit.units import INSIDE, UNITS

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "reports/mutate"
VERDICTS = ROOT / "tb/mutants.yaml"
RECORD = ROOT / "tb/mutation.json"
RECORDED = ("state", "folder", "count", "seed", "mutants", "killed", "timeouts", "survived",
            "equivalent", "score", "listed")  # fmt: skip
COUNT, SEED, GOAL = 200, 1, 95.0
FOLDERS = ("rtl/admin", "rtl/common", "rtl/data", "rtl/host", "rtl/queue", "rtl/rdma",
           "rtl/transport")  # fmt: skip
# The module checks streams and has no logic in a netlist.
WATCHERS = ("efa_stream_check",)
ENTRY = "mutate"
TOOLS = ("tools/mutant*.py", "tools/wiring.py", "tools/init_sweeps.py", "tools/formal_job.py")


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


def rows():
    """Returns {name: names of its units, or areas of tb/system} of all rows."""
    return blocks() | {top + WIRED: list(AREAS) for top in wiring.WIRING}


def folder_of(name):
    """Returns the folder of rtl/ to which a row belongs."""
    file = next((ROOT / "rtl").rglob(f"{wired(name) or name}.v"))
    return file.parent.relative_to(ROOT).as_posix()


def read_record():
    """Returns {name: row} of the rows whose last run passed."""
    return json.loads(RECORD.read_text()) if RECORD.exists() else {}


def note(name, row):
    """Writes a row of the standard list without errors into the record."""
    if row["wrong"] or (row["count"], row["seed"]) != standard_list(name):
        return
    text = read_record() | {name: {key: row[key] for key in RECORDED if key in row}}
    lines = ",\n".join(f'"{key}": {json.dumps(text[key])}' for key in sorted(text))
    atomic_write(RECORD, f"{{\n{lines}\n}}\n")


def noted(name, benches):
    """Returns the row of the record, None unless it belongs to the current sources."""
    row = read_record().get(name)
    if row is None or row["state"] != state_of(name, benches, row["count"], row["seed"]).whole:
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


def summary(row, verdicts):
    """Returns the summary of a Row from the verdicts of its mutants."""
    found = [
        {**row.verdicts[mutant.number], "mutant": mutant.name, "file": mutant.file,
         "line": mutant.line, "source": mutant.source, "reason": ""} for mutant in row.drawn
    ]  # fmt: skip
    by_verdict = {verdict: [row for row in found if row["verdict"] == verdict]
                  for verdict in (KILLED, SURVIVED, TIMEOUT)}  # fmt: skip
    killed, survivors = by_verdict[KILLED], by_verdict[SURVIVED]
    for one in survivors:
        one["verdict"] = ""
        if row.equal(one["number"]):
            one["verdict"], one["reason"] = "proved equal", "Yosys"
    possible = [{"mutant": one.name, "source": one.source} for one in row.possible]
    wrong = judge_survivors(row.name, survivors, killed, verdicts, possible)
    proved = sum(one["verdict"] == "proved equal" for one in survivors)
    rate = score(len(found), len(killed), proved)
    if rate < GOAL:
        wrong.append(f"{row.name}: {rate} % killed, goal {GOAL:.0f} %")
    return {
        "state": row.state.whole, "units": list(row.design.benches), "folder": folder_of(row.name),
        "count": row.design.count, "seed": row.design.seed, "mutants": len(found),
        "killed": len(killed),
        "killed_by": dict(Counter(bench_of(one["by"]) for one in killed).most_common()),
        "timeouts": by_verdict[TIMEOUT], "survived": len(survivors), "equivalent": proved,
        "score": rate, "listed": len(possible), "survivors": survivors, "wrong": wrong,
    }  # fmt: skip


def score(mutants, killed, equal):
    """Returns the percentage killed of the mutants not proven equal; a timeout is not killed."""
    total = mutants - equal
    return round(100 * killed / total, 2) if total else 100.0


def designs(names, known, args):
    """Returns the Design of each block, then one of all wiring rows, which share a simulation."""
    found = [Design((name,), tuple(known[name]), args.count or COUNT, args.seed)
             for name in names if not wired(name)]  # fmt: skip
    joined = tuple(name for name in names if wired(name))
    return found + ([Design(joined, tuple(AREAS), args.count, args.seed)] if joined else [])


def examine(names, known, args, progress):
    """Yields the Examination of each design as it ends. Raises BackendUnavailable, YosysFailed and
    ClusterError."""
    if names:
        examinations = (Examination(one, args.fresh, progress)
                        for one in designs(names, known, args))  # fmt: skip
        with open_executor(args.cluster, args.jobs, ENTRY, SOURCES + TOOLS, LIMITS) as executor:
            yield from run(examinations, executor, progress)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--block", nargs="*", default=[])
    parser.add_argument("--count", type=int, help="of each row; default 200, wiring one an input")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--jobs", type=int, default=2, help="processes; default %(default)s")
    parser.add_argument("--cluster", type=cluster, metavar="ADDRESS",
                        help=f"run the mutants on other machines; {SYNTAX}")
    parser.add_argument("--fresh", action="store_true", help="take nothing from earlier runs")
    args = parser.parse_args(arguments)
    known = rows()
    unknown = set(args.block) - set(known)
    least = min(1 << netlists.NUMBER_W, wiring.NUMBERS) - 1
    if unknown or not 0 < (args.count or 1) <= least:
        text = f"no row {sorted(unknown)}" if unknown else f"a count from 1 to {least}"
        print(f"mutate: {text}; rows: {', '.join(known)}", file=sys.stderr)
        return 2

    def holds(name, row):
        """Returns True if a row of an earlier run belongs to the current sources and has this form.
        """
        benches = known.get(name) if "folder" in row else None
        return benches is not None and row["state"] == state_of(
            name, benches, row["count"], row["seed"]
        ).whole

    names = args.block or [one for one in known if counted(one) or wired(one)]
    verdicts, text, failed = read_verdicts(), {}, []

    def add(name, row):
        text[name] = row
        note(name, row)
        mutant_page.write(OUT, name, row, holds, GOAL)

    try:
        with Progress("mutants") as progress:
            if not args.block and not args.fresh and (args.count, args.seed) == (None, SEED):
                kept = {name: row for name in names if (row := noted(name, known[name]))}
                progress.say(f"{len(kept)} of {len(names)} rows are unchanged in "
                             f"{RECORD.relative_to(ROOT)}")
                for name, row in kept.items():
                    add(name, row)
            left = [name for name in names if name not in text]
            for one in examine(left, known, args, progress):
                if one.reason:
                    failed.append(f"{', '.join(one.rows)}: {one.reason}")
                    continue
                for name, row in one.rows.items():
                    add(name, summary(row, verdicts))
                    progress.say(f"{name}: {text[name]['killed']} of {text[name]['mutants']} "
                                 f"killed, {text[name]['equivalent']} equal")
    except (BackendUnavailable, ClusterError, netlists.YosysFailed) as error:
        print(f"mutate: {error}", file=sys.stderr)
        return 2
    text = {name: text[name] for name in names if name in text}
    print(mutant_page.table(text))
    wrong = [line for row in text.values() for line in row["wrong"]]
    print("\n".join(wrong))
    for line in failed:
        print(f"mutate: {line}", file=sys.stderr)
    print(f"mutate: {len(text)} rows, {(OUT / 'summary.txt').relative_to(ROOT)}, summary.svg")
    return 2 if failed else int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
