# SPDX-License-Identifier: Apache-2.0
"""Draws the tests of a regression as SVG text: seeds by verdict, and seconds. Each cell has text,
readable without colour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt  # noqa: E402 - the backend is chosen before
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.patches import Rectangle  # noqa: E402

from efa_cosim.regress.table import FAILED, FLAKY, PASSED, worst_first  # noqa: E402
from efa_cosim.report.document import Row, Rows  # noqa: E402
from efa_cosim.report.plots import DEFAULTS, GREY, INK, svg  # noqa: E402

MOST_TESTS = 40
COLOURS = {FAILED: "#fca5a5", FLAKY: "#fde68a", PASSED: "#bbf7d0"}
SIMULATORS = {"verilator": "#2563eb", "icarus": "#d97706", "model": "#9ca3af"}
WIDTH, ROW, CELL, CHARACTER = 10.5, 0.28, 1.2, 0.075  # inches
TOP, BOTTOM = 0.55, 0.5
# {test: {simulator: row}}
_Shown: TypeAlias = dict[str, dict[str, Row]]


def runs(tests: Rows) -> str:
    """Draws rows of efa_cosim.regress.table.tests_of, the worst MOST_TESTS tests of them: a cell
    for each simulator with its seeds by verdict, and a bar with the seconds of each simulator."""
    shown = _worst(tests)
    used = {name for of in shown.values() for name in of}
    names = [name for name in SIMULATORS if name in used] + sorted(used - {*SIMULATORS})
    height, left = TOP + BOTTOM + ROW * len(shown), 0.2 + CHARACTER * max(map(len, shown))
    with plt.rc_context(DEFAULTS):
        figure = plt.figure(figsize=(WIDTH, height))
        low, tall, middle = BOTTOM / height, ROW * len(shown) / height, left + CELL * len(names)
        cells = figure.add_axes((left / WIDTH, low, (middle - left) / WIDTH, tall))
        bars = figure.add_axes((middle / WIDTH + 0.02, low, 0.97 - middle / WIDTH, tall))
    _cells(cells, shown, names)
    _bars(bars, shown, names)
    return svg(figure)


def _worst(tests: Rows) -> _Shown:
    """Returns {test: {simulator: row}} of the MOST_TESTS worst tests, the worst one first."""
    by_test: _Shown = {}
    totals: dict[str, Counter[str]] = {}
    for row in tests:
        by_test.setdefault(row["test"], {})[row["simulator"]] = row
        totals.setdefault(row["test"], Counter()).update(
            {name: row[name] for name in (FAILED, FLAKY, "seconds")})  # fmt: skip
    names = sorted(by_test, key=lambda name: worst_first(totals[name]))[:MOST_TESTS]
    return {name: by_test[name] for name in names}


def _cells(axis: Axes, shown: _Shown, names: Sequence[str]) -> None:
    axis.set_xlim(0, len(names))
    axis.set_ylim(len(shown), 0)
    axis.grid(visible=False)
    axis.set_xticks([x + 0.5 for x in range(len(names))], names, fontsize=9)
    axis.set_yticks([y + 0.5 for y in range(len(shown))], shown, fontsize=8.5)
    axis.set_title("seeds by verdict", fontsize=10, color=INK)
    axis.xaxis.tick_top()
    axis.tick_params(length=0)
    for side in axis.spines.values():
        side.set_visible(False)
    for y, of in enumerate(shown.values()):
        for x, name in enumerate(names):
            if name in of:
                worst = next(verdict for verdict in COLOURS if of[name][verdict])
                axis.add_patch(Rectangle((x, y), 1, 1, facecolor=COLOURS[worst],
                                         edgecolor="white", linewidth=1))  # fmt: skip
                axis.text(x + 0.5, y + 0.53, _text(of[name]), ha="center", va="center",
                          fontsize=7.5, color=INK)  # fmt: skip


def _text(row: Row) -> str:
    """Returns the counts of a row in words: of all seeds those that failed or are flaky."""
    bad = [f"{row[verdict]} {verdict}" for verdict in (FAILED, FLAKY) if row[verdict]]
    total = sum(row[verdict] for verdict in COLOURS)
    return f"{', '.join(bad)} of {total}" if bad else f"{total} {PASSED}"


def _bars(axis: Axes, shown: _Shown, names: Sequence[str]) -> None:
    ends = [0.0] * len(shown)
    for name in names:
        seconds = [of[name]["seconds"] if name in of else 0.0 for of in shown.values()]
        axis.barh([y + 0.5 for y in range(len(shown))], seconds, 0.6, left=ends, label=name,
                  color=SIMULATORS.get(name, INK), edgecolor="white", linewidth=0.6)  # fmt: skip
        ends = [end + one for end, one in zip(ends, seconds, strict=True)]
    for y, end in enumerate(ends):
        axis.annotate(f"{end:,.1f} s", (end, y + 0.5), (4, 0), textcoords="offset points",
                      va="center", fontsize=8, color=GREY)  # fmt: skip
    axis.tick_params(left=False, labelleft=False)
    axis.grid(axis="y", visible=False)
    axis.spines["left"].set_visible(False)
    axis.set_xlim(0, 1.15 * max(ends) or 1)
    axis.set_ylim(len(shown), 0)
    axis.set_xlabel("seconds", fontsize=9)
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(names), fontsize=9,
                frameon=False)  # fmt: skip
