# SPDX-License-Identifier: Apache-2.0
"""Measures the clock rate of each block: placed and routed between registers by nextpnr-ecp5.

    tools/fmax.py [--block efa_cq ...] [--jobs 1] [--record]

tools/fmax.yaml lists the blocks, in the order of the run, with the start value of each. A block
with a start value must reach 1.5 times that value, at most 125 MHz; a `waiver` states why a block
may miss it. The result of a block is the median of three seeds (tools/fmax_flow.py).

Each finished seed stays in sim/out/fmax under a digest of its inputs; an interrupted run resumes.
Results: reports/fmax/summary.json, index.md and fmax.svg, with all finished blocks of this tree.
--record measures nothing: it writes the medians of finished blocks into the list where the start
value is null.

Exit status 1 if a block is below its target or a tool fails; 2 if a block is unknown, the list
contradicts the tree, or a tool is missing.
"""

import argparse
import concurrent.futures
import statistics
import sys
from typing import Any

import fmax_list
import fmax_page
from fmax_flow import BIN, FREQUENCY, PART, ROOT, SEEDS, TOOLS, Flow, ToolFailed, versions

from efa_cosim.jobs.progress import Progress

HOME = ROOT / fmax_list.LIST
RESULTS = ROOT / "reports/fmax"


def row_of(flow: Flow, listed: fmax_list.Row) -> dict[str, Any] | None:
    """Returns the summary row of a block with all seeds, None before."""
    row = flow.row
    if row is None:
        return None
    mhz = {seed: row["seeds"][str(seed)]["mhz"] for seed in SEEDS}
    median = statistics.median(mhz.values())
    middle = next(seed for seed in SEEDS if mhz[seed] == median)
    return {
        "block": flow.block, "digest": flow.digest, "parameters": flow.parameters,
        "mhz": mhz, "median": median, "start": listed.start, "target": listed.target,
        "result": fmax_list.verdict(listed, median), "waiver": listed.waiver,
        "counts": row["counts"], "path_seed": middle, "path": row["seeds"][str(middle)]["path"],
        "seconds": {seed: row["seeds"][str(seed)]["seconds"] for seed in SEEDS},
    }  # fmt: skip


def measure(flow: Flow, seed: int) -> str:
    """Runs one seed of a block unless its result is cached; returns the line that reports it."""
    if result := flow.kept(seed):
        return f"{result['mhz']:.1f} MHz (cached)"
    counts = flow.netlist()
    result = flow.place(seed)
    return f"{result['mhz']:.1f} MHz, {counts['lut4']:,} LUT4 ({result['seconds']:.0f} s)"


def run(flows: list[Flow], jobs: int) -> list[str]:
    """Measures the blocks, each seed an item of the progress; returns the failures, each once."""
    tasks = [(flow, seed) for flow in flows for seed in SEEDS]
    failed = {}
    with (Progress("fmax", len(tasks)) as progress,
          concurrent.futures.ThreadPoolExecutor(jobs) as pool):
        futures = {pool.submit(measure, *task): task for task in tasks}
        try:
            for future in concurrent.futures.as_completed(futures):
                flow, seed = futures[future]
                wrong = None
                try:
                    text = future.result()
                except ToolFailed as fault:
                    text = wrong = str(fault)
                    failed[flow.block, wrong] = f"{flow.block}: {wrong}"
                progress.advance(note=f"{flow.block} seed {seed}: {text}", failed=bool(wrong))
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return list(failed.values())


def rows_of(listed: dict[str, fmax_list.Row], flows: dict[str, Flow]) -> list[dict[str, Any]]:
    """Returns the summary rows of all finished blocks, in the order of the list."""
    found = (row_of(flows[name], row) for name, row in listed.items())
    return [row for row in found if row]


def report(rows: list[dict[str, Any]], names: set[str]) -> int:
    """Prints the verdict of the measured blocks; returns the number of those below the target."""
    below = [row for row in rows if row["block"] in names and row["result"] == "below"]
    for row in below:
        path = row["path"]
        print(f"{row['block']}: expected at least {row['target']:.1f} MHz (start"
              f" {row['start']:.1f}), found {row['median']:.1f}: {path['from']['signal']} to"
              f" {path['to']['signal']}, {path['ns']} ns: shorten this path, or add a `waiver` to"
              f" {fmax_list.LIST}")  # fmt: skip
    for row in rows:
        if row["waiver"] and row["result"] == "met":
            print(f"{row['block']}: meets its target: take its waiver out of {fmax_list.LIST}")
    mine = [row for row in rows if row["block"] in names]
    counts = ", ".join(f"{sum(row['result'] == one for row in mine)} {one}"
                       for one in fmax_page.COLOURS)  # fmt: skip
    print(f"fmax: {len(mine)} of {len(names)} blocks measured: {counts};"
          f" {RESULTS.relative_to(ROOT)}/index.md")  # fmt: skip
    return len(below)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--block", nargs="+", help="only these blocks")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time (default 1)")
    parser.add_argument("--record", action="store_true", help="write null starts of the list")
    options = parser.parse_args(arguments)
    try:
        wrong = fmax_list.misfits(ROOT)
        listed, _ = fmax_list.read(HOME)
    except fmax_list.ListFault as fault:
        wrong = [str(fault)]
    if wrong:
        print(*wrong, sep="\n")
        return 2
    chosen = options.block or list(listed)
    if unknown := [name for name in chosen if name not in listed]:
        print(f"no such block: {', '.join(unknown)}; expected one of {', '.join(listed)}",
              file=sys.stderr)  # fmt: skip
        return 2
    if missing := [tool for tool in TOOLS if not (BIN / tool).exists()]:
        print(f"{' and '.join(missing)} missing: run `make setup`", file=sys.stderr)
        return 2
    flows = {name: Flow(name, row.parameters) for name, row in listed.items()}
    failed = []
    if options.record:
        medians = {row["block"]: row["median"] for row in rows_of(listed, flows)
                   if row["block"] in chosen}  # fmt: skip
        done = fmax_list.record(HOME, medians)
        print(f"fmax: start values recorded: {', '.join(done) or 'none'}")
        listed, _ = fmax_list.read(HOME)
    else:
        failed = run([flows[name] for name in listed if name in chosen], options.jobs)
    rows = rows_of(listed, flows)
    fmax_page.write(RESULTS, {"part": PART, "frequency": FREQUENCY, "seeds": SEEDS,
                              "tools": versions(), "blocks": rows})  # fmt: skip
    print(*failed, sep="\n", end="\n" if failed else "")
    below = report(rows, set(chosen))
    return int(bool(failed or (below and not options.record)))


if __name__ == "__main__":
    sys.exit(main())
