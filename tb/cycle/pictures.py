# SPDX-License-Identifier: Apache-2.0
"""Plots the comparison of cycle model and RTL: SVG text from summary.json."""

from __future__ import annotations

from typing import Any

from efa_cosim.cycle.compare import BOUNDS
from efa_cosim.report.plots import GREY, INK, axes_of, headed, svg

NAMES = {"rate": "messages per cycle", "median": "median latency, cycles",
         "p99": "99th percentile of latency, cycles"}  # fmt: skip
MET, MISSED = "#059669", "#dc2626"


def draw(summary: dict[str, Any]) -> dict[str, str]:
    """Returns the text of each file by file name."""
    return {"errors.svg": errors(summary), "agreement.svg": agreement(summary)}


def _share(row: dict[str, Any], name: str) -> float:
    return 100 * (row["model"][name] / row["rtl"][name] - 1)


def errors(summary: dict[str, Any]) -> str:
    """Plots the error of each point in per cent, sorted, with the bound of each measurement."""
    figure, axes = axes_of(11.0, 3.8, 3)
    for axis, (name, (bound, least)) in zip(axes, BOUNDS.items(), strict=True):
        # The default binds this name; mypy infers no lambda with defaults.
        rows = sorted(summary["rows"], key=lambda row, name=name: _share(row, name))  # type: ignore[misc]
        colours = [MET if row["met"][name] else MISSED for row in rows]
        axis.scatter(range(len(rows)), [_share(row, name) for row in rows], s=10, c=colours)
        for edge in (-100 * bound, 100 * bound):
            axis.axhline(edge, linestyle="--", color=GREY, linewidth=1)
        beside = f" or {least:.0f} cycle{'s' if least > 1 else ''}" if least else ""
        axis.set_title(f"{NAMES[name]}\nbound {bound:.0%}{beside}", fontsize=9, color=INK)
        axis.set_xlabel("points, sorted")
        axis.set_ylabel("model less RTL, %")
    headed(figure, f"Cycle model against RTL: {summary['within']} of {summary['points']} points "
                   f"within bounds, {summary['messages']:,} messages")  # fmt: skip
    return svg(figure)


def agreement(summary: dict[str, Any]) -> str:
    """Plots the model over the RTL for each measurement, on logarithmic axes."""
    figure, axes = axes_of(11.0, 3.8, 3)
    for axis, name in zip(axes, BOUNDS, strict=True):
        real = [row["rtl"][name] for row in summary["rows"]]
        found = [row["model"][name] for row in summary["rows"]]
        ends = [min(real) * 0.8, max(real) * 1.25]
        axis.plot(ends, ends, "--", color=GREY, linewidth=1, label="equal")
        axis.scatter(real, found, s=10, color=MET)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel(f"RTL: {NAMES[name]}")
        axis.set_ylabel("cycle model")
    headed(figure, f"Cycle model and RTL on the same {summary['points']} workloads, "
                   f"{summary['messages']:,} messages")  # fmt: skip
    return svg(figure)
