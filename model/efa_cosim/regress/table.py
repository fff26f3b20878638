# SPDX-License-Identifier: Apache-2.0
"""Holds the results of a regression and returns its tables: results.csv, seconds.csv, summary.json.

results.csv depends on the results alone: it has the same bytes after an interruption, in another
order of the runs and on a cluster. Times are in the other files.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from efa_cosim.regress.runs import Run

PASSED, FAILED, FLAKY = "passed", "failed", "flaky"
RESULTS, SECONDS = "results.csv", "seconds.csv"


@dataclass
class Result:
    """The result of a run.

    - `verdict`: `passed`, `failed`, or `flaky`: failed, and passed when run again with its seed
    - `attempts`: runs of the test; `seconds`: their time; `machine`: that of the last one
    - `repeat`: the command line that repeats the run; `reason`: the first failure, in one line
    """

    run: Run
    verdict: str
    attempts: int
    seconds: float
    machine: str
    repeat: str
    reason: str

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values for JSON."""
        run = self.run
        return {"test": run.test, "simulator": run.simulator, "seed": run.seed,
                "verdict": self.verdict, "attempts": self.attempts,
                "seconds": round(self.seconds, 2), "machine": self.machine, "repeat": self.repeat,
                "reason": self.reason}


def count_of(results: Sequence[Result]) -> str:
    """Returns the sentence with the numbers of a regression."""
    counts = Counter(result.verdict for result in results)
    return (f"{len(results)} runs: {counts[PASSED]} passed, {counts[FAILED]} failed, "
            f"{counts[FLAKY]} flaky")


def tests_of(results: Iterable[Result]) -> list[dict[str, Any]]:
    """Returns a row for each test and simulator, in the order of the list: its runs by verdict, and
    the seconds of all their attempts."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for result in results:
        key = result.run.test, result.run.simulator
        row = rows.setdefault(key, {"test": key[0], "simulator": key[1], PASSED: 0, FAILED: 0,
                                    FLAKY: 0, "seconds": 0.0})
        row[result.verdict] += 1
        row["seconds"] = round(row["seconds"] + result.seconds, 2)
    return list(rows.values())


def worst_first(row: dict[str, Any]) -> tuple[int, int, float]:
    """Returns the key by which rows of tests_of are sorted: failed, flaky, then slow ones first."""
    return -row[FAILED], -row[FLAKY], -row["seconds"]


def summary_of(title: str, command: str, results: Sequence[Result]) -> dict[str, Any]:
    """Returns the contents of summary.json, without the origin of the results."""
    bad = any(result.verdict != PASSED for result in results)
    return {"title": f"Regression {title}", "command": command,
            "verdict": FAILED if bad else PASSED, "text": count_of(results),
            "tests": tests_of(results), "runs": [result.as_dict() for result in results]}


def files(results: Iterable[Result]) -> dict[str, str]:
    """Returns the tables of all runs as CSV, content by name."""
    rows = [result.as_dict() for result in results]
    return {RESULTS: _csv(rows, ("test", "simulator", "seed", "verdict", "repeat")),
            SECONDS: _csv(rows, ("test", "simulator", "seed", "attempts", "seconds", "machine"))}


def _csv(rows: Iterable[dict[str, Any]], columns: Sequence[str]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
