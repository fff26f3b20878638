# SPDX-License-Identifier: Apache-2.0
"""Draws the report's pictures as SVG text with matplotlib, from measurements and stages only."""

from __future__ import annotations

import io
import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt  # noqa: E402 - the backend is chosen before
from matplotlib.artist import Artist  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.patches import Patch  # noqa: E402
from matplotlib.ticker import LogLocator, NullLocator, ScalarFormatter  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

from efa_cosim.report.document import Row, Rows  # noqa: E402

COLOURS = {"UD": "#2563eb", "SRD": "#059669"}
MARKERS = "os^Dv<>"
STAGE_COLOURS = {"sending device": "#2563eb", "receiving device": "#059669", "host": "#d97706",
                 "fabric": "#9ca3af"}
INK, GREY = "#374151", "#6b7280"
WAIT_HATCH = "////"  # Fill of bars that show waits.
# Zero cannot be shown on a logarithmic axis; it is drawn here with the label 0.
ZERO_AT = 4
# matplotlib lists all names of settings in its type.
DEFAULTS: dict[Any, Any] = {
    "svg.hashsalt": "efa", "svg.fonttype": "none", "font.size": 10, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.color": "#e5e7eb",
    "axes.edgecolor": GREY, "axes.axisbelow": True, "legend.frameon": False,
}  # fmt: skip


ENDS = {"UD": "receive", "SRD": "send"}


def latency(measurements: Rows) -> str:
    """Draws latency against message size: a panel for each QP type, whose messages end with
    different completions, with a line for each host read latency."""
    kinds = sorted({f["kind"] for f in measurements}, reverse=True)
    figure, axes = axes_of(5.0 * len(kinds) + 1.0, 3.8, len(kinds))
    top = 1.08 * max(f["value"] for f in measurements)
    for axis, kind in zip(axes, kinds, strict=True):
        mine = [f for f in measurements if f["kind"] == kind]
        for label, style, points in _series(mine, "size"):
            _line(axis, [max(size, ZERO_AT) for size in points], points.values(), label, style)
        sizes = sorted({f["size"] for f in mine})
        log_axis(axis, [max(size, ZERO_AT) for size in sizes], sizes, "message size, bytes")
        axis.set_ylim(0, top)
        end = f"doorbell to {ENDS[kind]} completion" if kind in ENDS else "doorbell to completion"
        axis.set_title(f"{kind}: {end}", fontsize=10, color=INK)
    axes[0].set_ylabel("latency, cycles")
    figure.tight_layout()
    legend(figure, *axes)
    return svg(figure)


def rates(measurements: Rows) -> str:
    """Draws message rate against size and against queues, with the port limits."""
    most = max(f["queues"] for f in measurements)
    sizes = sorted({f["size"] for f in measurements},
                   key=lambda size: (-len({f["queues"] for f in measurements if f["size"] == size}),
                                     abs(size - 32)))
    figure, axes = axes_of(10.0, 4.0, 2)
    for axis, chosen, over, label in (
            (axes[0], [f for f in measurements if f["queues"] == most], "size",
             f"message size, bytes ({most} queue{'s' if most > 1 else ''})"),
            (axes[1], [f for f in measurements if f["size"] == sizes[0]], "queues",
             f"queues ({sizes[0]} bytes)")):
        for name, style, points in _series(chosen, over):
            _line(axis, points, points.values(), name, style)
        for kind in sorted({f["kind"] for f in chosen}):
            limit = {f[over]: f["limit"] for f in chosen if f["kind"] == kind}
            # Above the curves, which may reach it.
            axis.plot(sorted(limit), [limit[x] for x in sorted(limit)], "--", linewidth=1.2,
                      color=COLOURS.get(kind, GREY), alpha=0.6, zorder=3,
                      label=f"{kind}, port limit")
        where = sorted({f[over] for f in chosen})
        log_axis(axis, where, where, label)
        axis.set_ylabel("messages per cycle")
    # Over sizes the rates span decades: a linear axis would hide the distance to the limit.
    axes[0].set_yscale("log")
    axes[0].yaxis.set_major_formatter(ScalarFormatter())
    axes[0].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes[0].yaxis.set_minor_locator(NullLocator())
    axes[1].set_ylim(bottom=0)
    figure.tight_layout()
    legend(figure, axes[0])
    return svg(figure)


def waterfall(shown: Row, who: str) -> str:
    """Draws single messages of one run side by side: bars of service and waits per stage."""
    stages = shown["of"][0]["stages"]
    many = len(shown["of"])
    figure, axes = axes_of(4.0 + 5.5 * many, 0.42 * len(stages) + 1.9, many)
    reach = max(one["latency"] for one in shown["of"])
    for axis, one in zip(axes, shown["of"], strict=True):
        _message(axis, one, reach)
        axis.set_yticklabels([])
    axes[0].set_yticks(range(len(stages)), [row["stage"] for row in stages], fontsize=9)
    load = "alone on the device" if many == 1 else loop(shown)
    marks = [Patch(color=colour, label=place) for place, colour in STAGE_COLOURS.items()]
    marks.append(Patch(facecolor="white", edgecolor=INK, hatch=WAIT_HATCH, label="waits there"))
    headed(figure, f"{load}: {shown['setting']}\n{who}, {shown['messages']:,} messages")
    figure.legend(handles=marks, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=5, fontsize=9)
    return svg(figure)


def loop(shown: Row) -> str:
    """Returns the load of a run in words."""
    return (f"open loop at {shown['name']} of capacity" if shown["load"] is not None
            else f"closed loop, {shown['name']} on each queue")


def _message(axis: Axes, one: Row, reach: float) -> None:
    """Draws one message; `reach` is the longest latency of the panels, which share their axis."""
    at = 0
    for row, stage in enumerate(one["stages"]):
        colour = STAGE_COLOURS.get(stage["place"], GREY)
        axis.barh(row, stage["wait"], left=at, height=0.62, facecolor="white", edgecolor=colour,
                  hatch=WAIT_HATCH, linewidth=0.8)
        axis.barh(row, stage["service"], left=at + stage["wait"], height=0.62, color=colour)
        at += stage["wait"] + stage["service"]
        text = f"{stage['service']}"
        if stage["wait"]:
            text += f" + {stage['wait']}"
            worst = max(stage["waits"], key=stage["waits"].get)
            many = len(stage["waits"])
            text += f": {worst}" + (f" and {many - 1} more" if many > 1 else "")
        axis.annotate(text, (at, row), (4, 0), textcoords="offset points", va="center",
                      fontsize=8, color=INK)
    axis.set_ylim(len(one["stages"]) - 0.4, -0.6)
    axis.set_yticks(range(len(one["stages"])))
    # Space for the text beside the last bars.
    axis.set_xlim(0, 2.1 * reach)
    axis.set_xticks([tick for tick in axis.get_xticks() if tick <= reach])
    axis.grid(axis="y", visible=False)
    name = {50: "median: ", 99: "99th percentile: "}.get(one["percent"], "")
    axis.set_title(f"{name}message {one['message']}, {one['latency']:,} cycles", fontsize=10,
                   color=INK)
    axis.set_xlabel("cycles since the doorbell; beside each bar: service + wait, wait cause")


class _Series(NamedTuple):
    """A line of a picture: its label, its style, and the median over the seeds at each place."""

    label: str
    style: dict[str, Any]
    points: dict[Any, float]


def _series(measurements: Rows, over: str) -> Iterator[_Series]:
    """Yields a line per QP type and host read latency."""
    keys = sorted({(f["kind"], f.get("host_read_latency", 0)) for f in measurements})
    waits = sorted({wait for _, wait in keys})
    for kind, wait in keys:
        found = [f for f in measurements
                 if (f["kind"], f.get("host_read_latency", 0)) == (kind, wait)]
        points = {place: statistics.median(f["value"] for f in found if f[over] == place)
                  for place in sorted({f[over] for f in found})}
        label = kind if len(waits) == 1 else f"{kind}, host read {wait} cycles"
        shade = 1.0 if len(waits) == 1 else 1.0 - 0.55 * waits.index(wait) / (len(waits) - 1)
        style = {"color": COLOURS.get(kind, GREY), "alpha": shade,
                 "marker": MARKERS[waits.index(wait) % len(MARKERS)]}
        yield _Series(label, style, points)


def _line(
    axis: Axes,
    where: Iterable[float],
    values: Iterable[float],
    label: str,
    style: dict[str, Any],
) -> None:
    axis.plot(list(where), list(values), label=label, markersize=5, linewidth=1.6, **style)


def log_axis(axis: Axes, where: Sequence[float], names: Iterable[object], label: str) -> None:
    """Sets ticks at measured places; omits labels that would overlap their neighbour."""
    axis.set_xscale("log", base=2)
    shown: list[str] = []
    last: float | None = None
    for place, name in zip(where, names, strict=True):
        apart = last is None or place >= 1.3 * last
        shown.append(str(name) if apart else "")
        last = place if apart else last
    axis.set_xticks(where, shown)
    axis.minorticks_off()
    axis.set_xlabel(label)


def legend(figure: Figure, *axes: Axes) -> None:
    """Draws one legend of some axes below them, where it covers no line."""
    shown: dict[str, Artist] = {}
    for axis in axes:
        handles, labels = axis.get_legend_handles_labels()
        shown |= dict(zip(labels, handles, strict=True))
    figure.legend(shown.values(), shown, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=4,
                  fontsize=9, frameon=False)


def axes_of(
    width: float, height: float, columns: int = 1, rows: int = 1
) -> tuple[Figure, NDArray[Any]]:
    """Creates a figure of this size in inches and its axes, row by row."""
    with plt.rc_context(DEFAULTS):
        figure, axes = plt.subplots(rows, columns, figsize=(width, height), squeeze=False)
    return figure, axes.ravel()


def headed(figure: Figure, title: str) -> None:
    """Lays out a figure with its title above the panels, independent of the panel height."""
    figure.tight_layout()
    figure.suptitle(title, y=1.0, va="bottom", fontsize=11, color=INK)


def svg(figure: Figure) -> str:
    """Returns a figure as deterministic SVG text and closes it."""
    stream = io.StringIO()
    with plt.rc_context(DEFAULTS):
        figure.savefig(stream, format="svg", metadata={"Date": None}, bbox_inches="tight",
                       facecolor="white")
    plt.close(figure)
    return stream.getvalue().split("?>", 1)[1].split("dtd\">", 1)[-1].strip() + "\n"
