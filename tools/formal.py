# SPDX-License-Identifier: Apache-2.0
"""Proves the properties of formal/ about the RTL, and checks that each property can fail.

    tools/formal.py [--block NAME ...] [--bugs] [--quick] [--changed SECONDS] [--fresh] [--jobs 2]

formal/BLOCK.v is a wrapper with assumptions `a_<label>`, assertions `p_<property>` and covers
`c_<property>`. formal/BLOCK.yaml states the claim of the block, its properties, the sizes and the
engine of each proof, the assumptions, the constant inputs, the exclusions, and the planted bugs
(textual changes of the RTL) that must break each property. A property proven at three sizes is one
property and three proofs. A bug is searched from reset. A bug with `step: true` is too many cycles
from reset for the solver; it must break the induction step of its job instead.

--changed proves the most recently changed blocks, as many as fit into that many seconds, or the
latest one if none fits. --fresh proves all blocks without earlier results and compares with
formal/proven.json, which it does not write; any other complete run of a block writes that file.
Results: reports/formal/summary.json and claims.md, traces in sim/out/formal. Exit status 1 if a
property fails, a cover is not reached, a planted bug survives, or formal/proven.json differs from
the result of --fresh; 2 if a job cannot run; 130 after an interrupt.
"""

import argparse
import concurrent.futures
import json
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import formal_claims  # noqa: E402
import interrupt  # noqa: E402
import proven  # noqa: E402
from formal_job import (  # noqa: E402
    BIN,
    HOME,
    OUT,
    ROOT,
    PlanFault,
    Verdict,
    broken,
    build,
    hunt,
    kept,
    passed,
    prove,
    read_block,
    smtbmc,
)

from efa_cosim.jobs.progress import Progress, close_all  # noqa: E402

STATUS = ("proven", "bounded", "failed")


def rows_of(block, job, verdict):
    """Returns a summary row for each property of a finished job."""
    rows = []
    for name in kept(block, job):
        own = f"p_{name}"
        status = verdict.status
        why = verdict.why
        # The failed assertions are named; the other assertions of the same run are then undecided.
        if verdict.broken:
            others = ", ".join(label for label in verdict.broken if label != own)
            why = why or ("" if own in verdict.broken else f"undecided, for {others} fails")
        cover = verdict.covers.get(name)
        if status != "failed" and cover is None and job.get("covers", True):
            why = f"its cover is not reached in {job.get('cover_depth', 20)} cycles"
        rows.append({
            "name": f"{block.name}.{name}", "block": block.name, "job": job["name"],
            "says": " ".join(block.properties[name]["says"].split()), "status": status,
            "engine": job["engine"], "depth": verdict.depth, "seconds": verdict.seconds,
            "parameters": job.get("parameters", {}), "defines": job.get("defines", {}),
            "assumes": block.assumes, "ties": block.ties, "outside": block.outside,
            "covers": job.get("covers", True), "cover": cover is not None, "cover_step": cover,
            "why": why, "trace": verdict.trace,
        })  # fmt: skip
    return rows


def bad(row):
    """Returns True if a row of the summary makes the run fail."""
    return row["status"] == "failed" or "not reached" in row["why"]


def report(row):
    """Prints one line for a property, more if it failed."""
    depth = f"{row['depth']} cycles" if row["status"] == "bounded" else ""
    place = f"{row['name']} [{row['job']}]"
    print(f"  {row['status']:8} {place:44} {row['engine']:9} {depth}".rstrip(), flush=True)
    if row["why"] or row["trace"]:
        seen = f"; trace {row['trace']}" if row["trace"] else ""
        print(f"           {row['why'] or 'fails'}{seen}", flush=True)


def run(jobs, tasks, work, progress):
    """Yields (task, result) as the tasks end, `jobs` at a time; each is an item of `progress`."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(work, *task): task for task in tasks}
        for future in concurrent.futures.as_completed(futures):
            task, result = futures[future], future.result()
            name = task[1]["name"] if isinstance(task[1], dict) else task[1]
            progress.advance(note=f"{task[0].name} {name} ({result.seconds} s)")
            yield task, result


def proofs(blocks, options):
    """Runs the jobs; returns the summary rows."""
    tasks = [(b, j) for b in blocks for j in b.jobs if j.get("quick") or not options.quick]
    # The longest task starts first.
    tasks.sort(key=lambda task: -task[1].get("seconds", 300))
    rows, seconds = [], dict.fromkeys(blocks, 0.0)
    with Progress("formal", len(tasks)) as progress:
        for (block, job), verdict in run(options.jobs, tasks, prove, progress):
            seconds[block] += verdict.seconds
            for row in rows_of(block, job, verdict):
                rows.append(row)
                report(row)
    return sorted(rows, key=lambda row: (row["name"], row["job"])), seconds


def verdict_of(rows):
    """Returns the last lines of a run: properties and proofs counted separately, covers, missing
    items."""
    names = {row["name"]: [] for row in rows}
    for row in rows:
        names[row["name"]].append(row["status"])
    whole = sum("proven" in each and "failed" not in each for each in names.values())
    counts = ", ".join(f"{sum(r['status'] == s for r in rows)} {s}" for s in STATUS)
    uncovered = sum(not row["covers"] for row in rows)
    lines = [
        f"formal: {whole} of {len(names)} properties proven;"
        f" {len(rows)} proofs: {counts}; {sum(r['cover'] for r in rows)} covers reached,"
        f" {uncovered} proofs of larger sizes without a cover of their own"
    ]
    missed = [row["name"] for row in rows if bad(row) and row["status"] != "failed"]
    return lines + [f"formal: cover not reached: {', '.join(missed)}"] * bool(missed)


def break_step(block, name, number):
    """Plants a bug marked `step` and tries the induction step of its job with all invariants.
    Returns a Verdict: failed with the labels that the bug breaks, or with no labels if the proof
    passes. Raises PlanFault if the RTL does not build."""
    started = time.monotonic()
    bug = block.properties[name]["bugs"][number]
    job = next(job for job in block.jobs if job["name"] == bug["job"])
    place = OUT / block.name / f"bug-{name}-{number}"
    if complaint := build(block, job, place, bug=bug):
        raise PlanFault(f"{block.name}: planted bug of {name} does not build: {complaint}")
    text = smtbmc(place, "step", job["seconds"], "-i", "-t", str(job["depth"]))
    why = "the induction step holds" if passed(text) else "" if text else "no verdict on the step"
    verdict = Verdict("failed", job["depth"], 0.0, broken(text), why, f"{place}/step.vcd")
    verdict.seconds = round(time.monotonic() - started, 1)
    return verdict


def find(block, name, number):
    """Searches a planted bug with the engine that its description names."""
    step = block.properties[name]["bugs"][number].get("step")
    return (break_step if step else hunt)(block, name, number)


def bugs(blocks, options):
    """Plants every bug; returns the summary rows."""
    tasks = [(b, name, number) for b in blocks for name, each in b.properties.items()
             for number in range(len(each["bugs"]))]  # fmt: skip
    rows = []
    with Progress("formal", len(tasks)) as progress:
        for (block, name, number), verdict in run(options.jobs, tasks, find, progress):
            bug = block.properties[name]["bugs"][number]
            step = bool(bug.get("step"))
            killed = bool(verdict.broken) if step else f"p_{name}" in verdict.broken
            rows.append({
                "property": f"{block.name}.{name}", "bug": number, "file": bug["file"],
                "old": bug["old"], "new": bug["new"], "killed": killed,
                "cycle": None if step else verdict.depth, "step": verdict.broken if step else None,
                "seconds": verdict.seconds, "trace": verdict.trace,
            })  # fmt: skip
            labels = ", ".join(verdict.broken)
            where = f"by the step ({labels})" if step else f"in cycle {verdict.depth}"
            word = f"killed {where}" if killed else f"SURVIVED {verdict.why}"
            print(f"  {block.name}.{name} {number}: {word}", flush=True)
    return sorted(rows, key=lambda row: (row["property"], row["bug"]))


def write(key, rows, names, path):
    """Replaces the rows of the same blocks in the summary."""
    message = json.loads(path.read_text()) if path.exists() else {}
    field = "block" if key == "properties" else "property"
    old = [row for row in message.get(key, []) if row[field].split(".")[0] not in names]
    message[key] = sorted(old + rows, key=lambda row: str(row.get("name") or row.get("property")))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(message, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--block", action="append", help="only this block (again for more)")
    parser.add_argument("--bugs", action="store_true", help="plant the bugs instead of proving")
    parser.add_argument("--quick", action="store_true", help="the jobs marked quick")
    parser.add_argument("--changed", type=int, metavar="SECONDS", help="what changed last")
    parser.add_argument("--fresh", action="store_true", help="from nothing, and compare the note")
    parser.add_argument("--jobs", type=int, default=2, help="proofs at a time (default 2)")
    parser.add_argument("--out", type=Path, default=ROOT / "reports/formal/summary.json")
    options = parser.parse_args()
    interrupt.leave_on_interrupt("formal", close_all)
    names = sorted(path.stem for path in HOME.glob("*.yaml"))
    chosen = options.block or names
    unknown = sorted(set(chosen) - set(names))
    if unknown:
        print(f"no such block: {', '.join(unknown)}; expected one of {', '.join(names)}",
              file=sys.stderr)  # fmt: skip
        return 2
    if not (BIN / "yices-smt2").exists():
        print("yices is missing: run `make setup`", file=sys.stderr)
        return 2
    try:
        blocks = [read_block(HOME / f"{name}.yaml") for name in chosen]
        if options.changed is not None:
            blocks = proven.changed_last(blocks, options.changed)
            print(f"formal: proving recently changed blocks: {', '.join(b.name for b in blocks)}")
        if options.bugs:
            rows = bugs(blocks, options)
            write("bugs", rows, chosen, options.out)
            alive = [row for row in rows if not row["killed"]]
            print(f"formal: {len(rows) - len(alive)} of {len(rows)} planted bugs killed")
            return int(bool(alive))
        if options.fresh:
            shutil.rmtree(ROOT / OUT, ignore_errors=True)
        rows, seconds = proofs(blocks, options)
    except PlanFault as fault:
        print(fault)
        return 2
    print("\n".join(verdict_of(rows)))
    if options.quick or options.changed is not None:
        return int(any(bad(row) for row in rows))
    write("properties", rows, chosen, options.out)
    options.out.with_name("claims.md").write_text(formal_claims.page(HOME, rows))
    failed = {row["block"] for row in rows if bad(row)}
    good = {block: each for block, each in seconds.items() if block.name not in failed}
    if not options.fresh:
        proven.write(good)
        return int(bool(failed))
    noted = proven.read()
    wrong = [b.name for b in good if noted.get(b.name, {}).get("digest") != proven.digest(b)]
    wrong += sorted(set(noted) - {block.name for block in good}) if not options.block else []
    for name in sorted(set(wrong)):
        print(f"formal/proven.json: {name} differs from the proofs of this run")
    message = f"{len(good)} blocks proven, {len(set(wrong))} differ from formal/proven.json"
    print(f"formal: without earlier results: {message}")
    return int(bool(failed or wrong))


if __name__ == "__main__":
    sys.exit(main())
