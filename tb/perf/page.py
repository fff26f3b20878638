# SPDX-License-Identifier: Apache-2.0
"""Draws the plots and the page of make perf: measurements against target and limit."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt  # noqa: E402 - the backend is chosen before

from efa_cosim.measure import record  # noqa: E402
from efa_cosim.report.document import physical, table  # noqa: E402
from efa_cosim.report.plots import DEFAULTS, GREY, INK, headed, svg  # noqa: E402
from efa_cosim.report.publish import Picture, publish  # noqa: E402
from tb.perf.rows import CYCLES  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from efa_cosim.report.document import Row, Rows, Section

MET, MISSED, FREE = "#059669", "#dc2626", "#2563eb"
PANELS = ((False, "Rates: more is better", "per clock cycle"),
          (True, "Latencies on an idle device: less is better", "clock cycles"))  # fmt: skip
LINES = ("#2563eb", "#d97706", "#059669")
CURVES_TITLE = "Rates and latencies over the latency of host memory"
COLUMNS = ("what", "value", "unit", "target", "limit", "ratio_to_limit", "met", "messages",
           "limit_set_by", "busiest_port")  # fmt: skip


def draw(rows: Rows, title: str) -> str:
    """Draws all rows as bars, the target as a tick, the limit as a line; returns SVG text."""
    panels = [(label, axis_label, [row for row in rows if (row["unit"] == CYCLES) == latency])
              for latency, label, axis_label in PANELS]  # fmt: skip
    panels = [panel for panel in panels if panel[2]]
    heights = [len(panel[2]) + 1.6 for panel in panels]
    with plt.rc_context(DEFAULTS):
        figure, axes = plt.subplots(
            len(panels), 1, figsize=(11, 0.36 * sum(heights) + 0.9), squeeze=False,
            gridspec_kw={"height_ratios": heights},
        )  # fmt: skip
        for axis, (label, axis_label, mine) in zip(axes[:, 0], panels, strict=True):
            _panel(axis, mine, label, axis_label)
        headed(figure, title)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=4,
                      fontsize=9)  # fmt: skip
    return svg(figure)


def _panel(axis: Axes, rows: Rows, label: str, axis_label: str) -> None:
    reach = max([v for row in rows for v in (row["value"], row["target"], row["limit"]) if v])
    named: set[str] = set()

    def once(name: str) -> str:
        fresh = name not in named
        named.add(name)
        return name if fresh else ""

    for place, row in enumerate(rows):
        colour, status = {None: (FREE, "no target"), True: (MET, "target met"),
                           False: (MISSED, "target missed")}[row["met"]]  # fmt: skip
        # Hatched, so that the status is visible in print without colour.
        axis.barh(place, row["value"] or 0, height=0.62, color=colour, alpha=0.75,
                  hatch="//" if row["met"] is False else "", edgecolor="white",
                  label=once(status))  # fmt: skip
        for key, style, name in (("target", ":", "target"), ("limit", "-", "limit")):
            if row[key] is not None:
                axis.plot([row[key]] * 2, [place - 0.42, place + 0.42], style, color=INK,
                          linewidth=2.0, label=once(name))  # fmt: skip
        axis.annotate(_beside(row), (1.01 * reach, place), va="center", fontsize=8.5, color=INK,
                      annotation_clip=False)  # fmt: skip
    axis.set_yticks(range(len(rows)), [row["what"] for row in rows], fontsize=8.5)
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.set_xlim(0, reach)
    axis.grid(axis="y", visible=False)
    axis.set_xlabel(axis_label, color=GREY)
    axis.set_title(label, loc="left", fontsize=10, color=INK)


def _beside(row: Row) -> str:
    if "error" in row:
        return "failed: " + row["error"][:48]
    limit = "" if row["limit"] is None else f", limit {row['limit']:.3g}"
    target = "" if row["target"] is None else f", target {row['target']:g}"
    return f"{row['value']:.4g}{target}{limit}; {row['messages']:,} messages"


def curves(points: Rows, title: str) -> str:
    """Draws latencies and rates over the latency of host memory; returns SVG text."""
    with plt.rc_context(DEFAULTS):
        figure, axes = plt.subplots(1, 2, figsize=(11, 5.4))
        for axis, latency, label in zip(axes, (True, False),
                                        ("cycles, the slowest message", "messages per cycle"),
                                        strict=True):  # fmt: skip
            _lines(axis, [point for point in points if (point["unit"] == CYCLES) == latency])
            axis.set_xlabel("latency of host memory, cycles", color=GREY)
            axis.set_ylabel(label, color=GREY)
            axis.set_ylim(bottom=0)
            axis.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14))
        headed(figure, title)
    return svg(figure)


def _lines(axis: Axes, points: Rows) -> None:
    for place, what in enumerate(dict.fromkeys(point["what"] for point in points)):
        mine = [point for point in points if point["what"] == what]
        where = [point["dma_latency"] for point in mine]
        colour = LINES[place % len(LINES)]
        axis.plot(where, [point["value"] for point in mine], marker="os^"[place % 3],
                  color=colour, markersize=5, label=f"{what} ({mine[0]['messages']:,} messages)")
        if mine[0]["limit"] is not None:
            axis.plot(where, [point["limit"] for point in mine], "--", linewidth=1.0,
                      color=colour, alpha=0.7, zorder=3, label=f"{what}: limit")  # fmt: skip
    axis.set_xlim(left=0)
    axis.set_xticks(where)


def write(folder: Path, summary: dict[str, Any], title: str) -> Path:
    """Writes the report folder; returns the path of its page."""
    conditions = ", ".join(f"{name} {value}" for name, value in summary["conditions"].items())
    parts: list[Section | Picture]
    parts = [Picture("rows", "Against targets and limits", partial(draw, summary["rows"], title),
                     "Line: the limit; dotted: the target.")]  # fmt: skip
    if summary.get("curves"):
        parts.append(Picture(
            "curves", "Against the latency of host memory",
            partial(curves, summary["curves"], CURVES_TITLE),
            "Inline payload is in the device with its work request; other payload waits for host "
            "memory. Dashed: limit by reads in flight and ports."))  # fmt: skip
    rows = [[*(row.get(name) for name in COLUMNS), _physical(row)] for row in summary["rows"]]
    names = [*(name.replace("_", " ") for name in COLUMNS), "at the nominal clock"]
    whole = table("All rows", names, rows, record.CSV)
    whole.lines.append("The busiest port is the one nearest to a beat in every cycle.")
    parts.append(whole)
    verdict, _, text = summary["verdict"].partition(": ")
    shown = {**summary, "title": title, "verdict": verdict, "text": text, "setting": conditions}
    return publish(folder, shown, parts)


def _physical(row: Row) -> str:
    return "" if row["value"] is None else physical(row["value"], row["unit"])
