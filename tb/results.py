# SPDX-License-Identifier: Apache-2.0
"""Reports the results of a complete run by line of the plan: reports/test/summary.json and .md.

Bench tests run inside pytest cases. tb/runner stores the result of each in a folder that all
workers use; `collect` reads the results. All other tests have the result of pytest.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

FOLDER = "EFA_RESULTS"
# Tests without a simulator run in Python only.
PYTHON = "python"
VERDICTS = ("failed", "passed", "skipped", "not run")
NUMBERS = ("no", "one", "two")

# A line of the plan: its entry, the result of each test on each simulator, and of the line.
Row: TypeAlias = dict[str, Any]
# Results of the tests, by file, test and simulator.
Found: TypeAlias = Mapping[tuple[str, str, str], Sequence[str]]
# Number of tests, by simulator and result.
Counts: TypeAlias = Mapping[str, Mapping[str, int]]


def note(module: str, sim: str, verdicts: Mapping[str, str]) -> None:
    """Stores the results of a cocotb module's tests by name, during a complete run."""
    folder = os.environ.get(FOLDER)
    if folder:
        name = f"{module}-{sim}-{os.getpid()}-{os.urandom(4).hex()}.json"
        (Path(folder) / name).write_text(
            json.dumps({"file": module.replace(".", "/") + ".py", "sim": sim, "tests": verdicts})
        )


def collect(folder: str | Path) -> dict[tuple[str, str, str], list[str]]:
    """Returns the stored results of a folder by (file, test, simulator)."""
    found: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
    for path in sorted(Path(folder).glob("*.json")):
        run = json.loads(path.read_text())
        for name, verdict in run["tests"].items():
            found[run["file"], name, run["sim"]].append(verdict)
    return found


def worst(verdicts: Collection[str]) -> str:
    """Returns the worst result: failed, then passed, skipped, not run."""
    return next((one for one in VERDICTS if one in verdicts), VERDICTS[-1])


def on_the_plan(
    entries: Iterable[tuple[Any, Any]], found: Found, sims: Sequence[str]
) -> list[Row]:
    """Returns a row for each line of the plan.

    `entries` are pairs of an entry and its tests, `found` maps (file, test, sim) to results, `sims`
    are the requested simulators.
    """
    rows: list[Row] = []
    for entry, tests in entries:
        row = {"id": entry.id, "shows": entry.shows, "by": entry.by, "tests": {}}
        for test in tests:
            mine = {sim: found.get((test.file, test.name, sim)) for sim in (PYTHON, *sims)}
            if test.kind != "pytest":
                del mine[PYTHON]
            elif mine[PYTHON] or not any(mine.values()):
                mine = {PYTHON: mine[PYTHON]}
            else:
                del mine[PYTHON]
            row["tests"][f"{test.file}: {test.name}"] = {
                sim: worst(verdicts or ()) for sim, verdicts in mine.items()
            }
        for sim in (PYTHON, *sims):
            verdicts = [by_sim[sim] for by_sim in row["tests"].values() if sim in by_sim]
            row[sim] = worst(verdicts) if verdicts else None
        rows.append(row)
    return rows


def holes(rows: Iterable[Row], sims: Iterable[str]) -> list[str]:
    """Returns messages for plan lines without a passing test and for tests that did not run.

    Icarus may skip long tests; required tests run in Python and on Verilator.
    """
    binding = [PYTHON, *[sim for sim in sims if sim == "verilator"]]
    wrong: list[str] = []
    for row in rows:
        if row["by"]:
            continue
        requested = [sim for sim in binding if row[sim] is not None]
        passed = [sim for sim in requested if row[sim] == "passed"]
        if requested and not passed:
            text = ", ".join(f"{row[sim]} ({sim})" for sim in requested)
            wrong.append(f"{row['id']}: no passing test: {text}")
        for name, by_sim in row["tests"].items():
            wrong += [
                f"{row['id']}: {name} did not run ({sim})"
                for sim in requested
                if by_sim.get(sim) == "not run"
            ]
    return wrong


def simulators_used(counts: Counts) -> list[str]:
    """Returns simulators with a finished test; `counts` maps simulator to result to number."""
    return [sim for sim, seen in counts.items() if seen.get("passed") or seen.get("failed")]


def verdict(passed: bool, counts: Counts, unused: Mapping[str, str]) -> str:
    """Returns the last line of a run: its outcome, and the number of simulators.

    `counts` maps simulator to result to number of tests, `unused` maps each simulator that did not
    run to the reason.
    """
    used = simulators_used(counts)
    outcome = "passed" if passed else "failed"
    if not used:
        text = "; ".join(f"{sim}: {reason}" for sim, reason in unused.items())
        return f"verdict: failed, no simulator ran ({text})"
    if len(used) > 1:
        return f"verdict: {outcome} on {NUMBERS[len(used)]} simulators"
    reasons = "".join(f"; {sim}: {reason}" for sim, reason in unused.items())
    skipped = sum(counts.get(sim, {}).get("skipped", 0) for sim in unused)
    left_out = f", {skipped} tests skipped for it" if skipped else ""
    return f"verdict: {outcome} on one simulator ({used[0]} only{reasons}){left_out}"


def write(
    folder: Path,
    rows: Sequence[Row],
    sims: Sequence[str],
    seed: int,
    wrong: Sequence[str],
    text: str,
) -> Path:
    """Writes summary.json and summary.md to a folder; returns the path of summary.md.

    `text` is the outcome of the run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    columns = [PYTHON, *sims]
    counts = {
        sim: {v: sum(row[sim] == v for row in rows) for v in VERDICTS} for sim in columns
    }
    whole = {"seed": seed, "verdict": text, "simulators": list(sims), "holes": wrong}
    whole |= {"counts": counts, "plan": rows}
    (folder / "summary.json").write_text(json.dumps(whole, indent=1) + "\n")
    lines = ["# Test plan and results of a run", "", text.capitalize() + ".", ""]
    lines += [f"Seed {seed}.", ""]
    lines += ["| | " + " | ".join(VERDICTS) + " |", "|---|" + "---|" * len(VERDICTS)]
    for sim in columns:
        lines.append(f"| {sim} | " + " | ".join(str(counts[sim][v]) for v in VERDICTS) + " |")
    if wrong:
        lines += ["", "## Holes", "", *[f"- {line}" for line in wrong]]
    lines += ["", "## Lines", "", "| id | shows | " + " | ".join(columns) + " |"]
    lines.append("|---|---|" + "---|" * len(columns))
    for row in rows:
        cells = [row["id"], row["shows"].replace("|", "\\|")]
        cells += [f"by {row['by']}" if row["by"] else row[sim] or "" for sim in columns]
        lines.append("| " + " | ".join(cells) + " |")
    skipped = [
        f"- {name} ({sim})"
        for row in rows
        for name, by_sim in row["tests"].items()
        for sim, verdict in by_sim.items()
        if verdict == "skipped" or (verdict == "not run" and not row["by"])
    ]
    if skipped:
        lines += ["", "## Skipped or not run", "", *dict.fromkeys(skipped)]
    page = folder / "summary.md"
    page.write_text("\n".join(lines) + "\n")
    return page
