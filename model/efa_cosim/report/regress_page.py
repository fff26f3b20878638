# SPDX-License-Identifier: Apache-2.0
"""Writes the report folder of a regression: tables, a picture of its tests, and the page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from efa_cosim.jobs.job import Limits
from efa_cosim.measure.origin import origin
from efa_cosim.regress import table
from efa_cosim.report.document import Row, Rows, Section
from efa_cosim.report.document import table as table_of
from efa_cosim.report.publish import SUMMARY, Picture, publish

MOST_CHARACTERS = 160


def write(
    folder: Path, title: str, command: str, limits: Limits, results: Sequence[table.Result]
) -> Path:
    """Writes the files of some Results into a folder; returns the path of the page.

    `limits` are those of each run. Raises OSError.
    """
    setting = f"at most {limits.seconds:,.0f} s and {limits.megabytes:,} MB for each run"
    summary = {**table.summary_of(title, command, results), "setting": setting, "origin": origin()}
    return publish(folder, summary, parts(summary), table.files(results))


def parts(summary: Row) -> list[Section | Picture]:
    """Returns picture and tables of the page."""
    from efa_cosim.report import regress_plots

    rows = [[row["test"], row["simulator"], row[table.PASSED], row[table.FAILED] or "",
             row[table.FLAKY] or "", f"{row['seconds']:,.1f}"]
            for row in sorted(summary["tests"], key=table.worst_first)]  # fmt: skip
    return [
        Picture("runs", "Tests", partial(regress_plots.runs, summary["tests"]),
                "The failed tests, then the flaky ones, then the slowest ones; at most "
                f"{regress_plots.MOST_TESTS}. The seconds contain second runs, and the builds that "
                f"a run waited for. Data: {table.RESULTS}, {table.SECONDS}."),
        _bad(summary["runs"]),
        table_of("Tests and simulators", ["test", "simulator", "passed", "failed", "flaky",
                                          "seconds"], rows, SUMMARY),
    ]  # fmt: skip


def _bad(runs: Rows) -> Section:
    """Returns the section of failed and flaky runs, the failed ones first."""
    chosen = [run for verdict in (table.FAILED, table.FLAKY) for run in runs
              if run["verdict"] == verdict]  # fmt: skip
    if not chosen:
        return Section("Failed and flaky runs", ["None."])
    rows = [[f"{run['test']}, {run['simulator']}, seed {run['seed']}", run["verdict"],
             _cut(run["reason"]), run["repeat"]] for run in chosen]  # fmt: skip
    names = ["run", "verdict", "first failure", "command that repeats the run"]
    return table_of("Failed and flaky runs", names, rows, SUMMARY, prose=True)


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "\u2026"
