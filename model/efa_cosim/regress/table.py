# SPDX-License-Identifier: Apache-2.0
"""Writes the results of a regression: results.csv, seconds.csv, summary.json and index.md.

results.csv depends on the results alone: it has the same bytes after an interruption, in another
order of the runs and on a cluster. Times are in the other files.
"""

import csv
import io
import json
from collections import Counter
from dataclasses import dataclass

from efa_cosim.jobs.files import atomic_write
from efa_cosim.regress.runs import Run

PASSED, FAILED, FLAKY = "passed", "failed", "flaky"


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

    def as_dict(self):
        """Returns plain values for JSON."""
        run = self.run
        return {"test": run.test, "simulator": run.simulator, "seed": run.seed,
                "verdict": self.verdict, "attempts": self.attempts,
                "seconds": round(self.seconds, 2), "machine": self.machine, "repeat": self.repeat,
                "reason": self.reason}


def count_of(results):
    """Returns the sentence with the numbers of a regression."""
    counts = Counter(result.verdict for result in results)
    return (f"{len(results)} runs: {counts[PASSED]} passed, {counts[FAILED]} failed, "
            f"{counts[FLAKY]} flaky")


def write(folder, title, command, results):
    """Writes the files into a folder; raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [result.as_dict() for result in results]
    bad = any(result.verdict != PASSED for result in results)
    summary = {"title": title, "command": command, "verdict": FAILED if bad else PASSED,
               "text": count_of(results), "runs": rows}
    atomic_write(folder / "results.csv",
                 _csv(rows, ("test", "simulator", "seed", "verdict", "repeat")))
    atomic_write(folder / "seconds.csv",
                 _csv(rows, ("test", "simulator", "seed", "attempts", "seconds", "machine")))
    atomic_write(folder / "summary.json", json.dumps(summary, indent=1) + "\n")
    atomic_write(folder / "index.md", _page(title, command, results))


def _csv(rows, columns):
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _page(title, command, results):
    lines = [f"# Regression {title}", "", f"{count_of(results)}. Command: `{command}`.", ""]
    for verdict, heading in ((FAILED, "Failed"), (FLAKY, "Flaky")):
        chosen = [result for result in results if result.verdict == verdict]
        if chosen:
            lines += [f"## {heading}", ""]
        for result in chosen:
            reason = result.reason.replace("`", "'")
            lines += [f"- {result.run} (on {result.machine or 'an unknown machine'}): `{reason}`",
                      f"  - `{result.repeat}`"]
        lines += [""] * bool(chosen)
    lines += ["## Tests", "", "| test | simulator | passed | failed | flaky | seconds |",
              "|---|---|---|---|---|---|"]
    tests = {}
    for result in results:
        tests.setdefault((result.run.test, result.run.simulator), []).append(result)
    for (test, simulator), mine in tests.items():
        counts = Counter(result.verdict for result in mine)
        seconds = sum(result.seconds for result in mine)
        lines.append(f"| {test} | {simulator} | {counts[PASSED]} | {counts[FAILED] or ''} | "
                     f"{counts[FLAKY] or ''} | {seconds:.1f} |")
    return "\n".join(lines) + "\n"
