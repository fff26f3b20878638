# SPDX-License-Identifier: Apache-2.0
"""Processor time of the tests of a run, by part of the tree: reports/test/times.csv and lines.

Wall time depends on what else the machine does. Processor time of a test and of the programs that
it started says what the test costs.
"""

from __future__ import annotations

import csv
import os
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

PROPERTY = "efa_processor_seconds"


class Clock:
    """A pytest plugin that measures each test; `tests` are (node id, simulator, seconds).

    Workers measure, and their reports carry the figure to the controller, which collects.
    """

    def __init__(self) -> None:
        self.tests: list[tuple[str, str | None, float]] = []
        self._begun = 0.0

    def pytest_runtest_logstart(self) -> None:
        self._begun = spent()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, Any, None]:
        outcome = yield
        if call.when == "teardown":
            seconds = spent() - self._begun
            outcome.get_result().user_properties.append((PROPERTY, seconds))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        known: dict[str, Any] = dict(report.user_properties)
        if PROPERTY in known:
            self.tests.append((report.nodeid, known.get("efa_sim"), known[PROPERTY]))


def spent() -> float:
    """Returns the processor seconds of this process and of its ended children."""
    now = os.times()
    return now.user + now.system + now.children_user + now.children_system


def part_of(nodeid: str, sim: str | None) -> str:
    """Returns the part of a test: its folder, for system and unit tests with the simulator."""
    file = nodeid.partition("::")[0]
    folder = file.rpartition("/")[0]
    return f"{folder} {sim}" if sim else folder


def parts(tests: list[tuple[str, str | None, float]]) -> list[tuple[str, int, float]]:
    """Returns (part, number of tests, seconds), the most expensive part first.

    `tests` are (node id, simulator or None, processor seconds).
    """
    found = defaultdict(list)
    for nodeid, sim, seconds in tests:
        found[part_of(nodeid, sim)].append(seconds)
    rows = [(part, len(each), sum(each)) for part, each in found.items()]
    return sorted(rows, key=lambda row: (-row[2], row[0]))


def lines(tests: list[tuple[str, str | None, float]]) -> list[str]:
    """Returns the table of `parts` as lines of text, with each part's share of the time."""
    rows = parts(tests)
    total = sum(seconds for *_, seconds in rows)
    text = [f"processor time of the tests: {total:.0f} s"]
    for part, number, seconds in rows:
        share = 100 * seconds / total if total else 0.0
        text.append(f"  {share:5.1f} %  {seconds:7.1f} s  {number:5} tests  {part}")
    return text


def write(folder: Path, tests: list[tuple[str, str | None, float]]) -> None:
    """Writes times.csv to a folder: each test with its seconds, the most expensive first."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "times.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["test", "simulator", "processor_seconds"])
        for nodeid, sim, seconds in sorted(tests, key=lambda one: (-one[2], one[0])):
            table.writerow([nodeid, sim or "", f"{seconds:.2f}"])
