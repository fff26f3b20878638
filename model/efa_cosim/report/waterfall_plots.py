# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of the waterfall report as SVG text, from its summary only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from numpy.typing import NDArray

from efa_cosim.report.document import Row, Rows
from efa_cosim.report.plots import GREY, INK, WAIT_HATCH, axes_of, headed, loop, svg

# Groups of stages in the order of a message's path: (name, colour, last milestones); if two stages
# end at the same milestone, (milestone, place).
GROUPS: tuple[tuple[str, str, tuple[str | tuple[str, str], ...]], ...] = (
    ("WQE fetch", "#facc15", (("wqe", "host"),)),
    ("scheduler", "#1e3a8a", (("wqe", "sending device"),)),
    ("checks, allocation, read requests", "#3b82f6", ("check", "rd")),
    ("payload read", "#d97706", ("rd_cpl",)),
    ("wire", "#7c3aed", ("tx_first", "tx_last")),
    ("fabric", "#9ca3af", ("rx_first", "rx_last", "ack")),
    ("packet validation", "#065f46", ("rx_validated",)),
    ("payload write", "#10b981", ("rx_data_done",)),
    ("receive completion", "#be123c", ("cqe",)),
    ("acknowledgement", "#f472b6", ("ackout",)),
    ("send completion", "#78350f", ("done",)),
)
CAUSES_SHOWN = 14
LOAD = "left: open loop, share of capacity; right: closed loop, outstanding messages per queue"


def shares(rows: Rows, who: str) -> str:
    """Draws latency and the shares of its stages against load; a column per size."""
    sizes = sorted({(row["sq_host"], row["size"]) for row in rows})
    figure, axes = axes_of(4.6 * len(sizes), 7.4, len(sizes), 2)
    for place, key in enumerate(sizes):
        mine = [row for row in rows if (row["sq_host"], row["size"]) == key]
        _latencies(axes[place], mine)
        _stacks(axes[len(sizes) + place], mine)
    axes[0].set_ylabel("latency, cycles")
    axes[len(sizes)].set_ylabel("share of the mean latency, %")
    axes[len(sizes) + len(sizes) // 2].set_xlabel(LOAD)
    messages = sum(row["messages"] for row in rows)
    marks = [Patch(color=colour, label=name) for name, colour, _ in GROUPS]
    marks.append(Patch(facecolor="white", edgecolor=INK, hatch=WAIT_HATCH, label="waits"))
    headed(figure, f"Cycles by stage against load: {who}, {messages:,} messages")
    figure.legend(handles=marks, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=4, fontsize=9)
    return svg(figure)


def _ticks(axis: Axes, rows: Rows) -> None:
    axis.set_xticks(range(len(rows)), [row["name"] for row in rows], rotation=60, fontsize=8)
    split = sum(row["load"] is not None for row in rows) - 0.5
    axis.axvline(split, color=GREY, linewidth=1, linestyle=":")
    axis.grid(axis="x", visible=False)


def called(row: Row) -> str:
    """Describes the messages of a row: size and location of the send queues."""
    return f"{row['size']} bytes" + (", send queues in host memory" if row["sq_host"] else "")


def _latencies(axis: Axes, rows: Rows) -> None:
    where = range(len(rows))
    for name, mark, colour in (("p99", "^", "#dc2626"), ("median", "o", "#2563eb")):
        axis.plot(where, [row[name] for row in rows], mark, color=colour, markersize=5,
                  label="99th percentile" if name == "p99" else name)
    axis.set_yscale("log")
    axis.legend(fontsize=8, loc="upper left")
    axis.set_title(f"{called(rows[0])}\ncapacity {rows[0]['capacity']:.3f} messages per cycle",
                   fontsize=9.5, color=INK)
    _ticks(axis, rows)


def _stacks(axis: Axes, rows: Rows) -> None:
    where, below = np.arange(len(rows)), np.zeros(len(rows))
    for _, colour, ends in GROUPS:
        for kind in ("service", "wait"):
            share = np.array([100 * sum(stage[kind] for stage in row["stages"]
                                        if stage["to"] in ends
                                        or (stage["to"], stage["place"]) in ends) / row["mean"]
                              for row in rows])
            style = ({"color": colour} if kind == "service" else
                     {"facecolor": "white", "edgecolor": colour, "hatch": WAIT_HATCH,
                      "linewidth": 0.0})  # fmt: skip
            axis.bar(where, share, bottom=below, width=0.84, **style)
            below += share
    axis.set_ylim(0, 100)
    _ticks(axis, rows)


def order(rows: Rows) -> list[tuple[str, str]]:
    """Returns the causes that are drawn, as (cause, stage), the longest of all rows first."""
    most: dict[tuple[str, str], float] = {}
    for row in rows:
        for one in row["causes"]:
            key = one["cause"], one["stage"]
            most[key] = max(most.get(key, 0), one["cycles"])
    return [key for key in sorted(most, key=lambda key: -most[key])[:CAUSES_SHOWN]
            if most[key] >= 0.05]


def causes(rows: Rows, who: str, names: Sequence[tuple[str, str]]) -> str:
    """Draws the wait causes of messages of one size, mean cycles against load; a row for each of
    `names` (see `order`), and one for all others."""
    found: dict[tuple[str, str], NDArray[np.float64]] = {}
    for place, row in enumerate(rows):
        for one in row["causes"]:
            found.setdefault((one["cause"], one["stage"]), np.zeros(len(rows)))[place] = (
                one["cycles"])
    others = [cycles for key, cycles in found.items() if key not in names]
    table = np.array([found.get(key, np.zeros(len(rows))) for key in names]
                     + [np.sum(others, axis=0) if others else np.zeros(len(rows))])
    labels = [*(f"{cause}  ({stage})" for cause, stage in names), "all other causes"]
    figure, (axis,) = axes_of(12.0, 0.36 * len(labels) + 2.0)
    axis.imshow(np.log10(1 + table), aspect="auto", cmap="Blues", vmin=0, vmax=4)
    for (y, x), cycles in np.ndenumerate(table):
        if cycles >= 0.05:
            text = f"{cycles:.1f}" if cycles < 100 else f"{cycles:,.0f}"
            axis.text(x, y, text, ha="center", va="center", fontsize=8,
                      color="white" if cycles > 300 else INK)
    axis.set_yticks(range(len(labels)), labels, fontsize=8.5)
    axis.grid(visible=False)
    axis.set_xlabel(LOAD)
    _ticks(axis, rows)
    axis.set_title(f"Wait causes of a message of {called(rows[0])}, mean cycles\n{who}, "
                   f"{sum(row['messages'] for row in rows):,} messages", fontsize=10.5, color=INK)
    figure.tight_layout()
    return svg(figure)


LOOPS = ("#2563eb", "#059669", "#d97706", "#9333ea")


def distribution(shown: Rows, who: str) -> str:
    """Draws the share of messages against the latency of each run that is shown, its median and
    99th percentile as dots."""
    figure, (axis,) = axes_of(9.0, 4.4)
    for one, colour in zip(shown, LOOPS, strict=False):
        points = one["distribution"]
        host = ", send queues in host memory" if one["workload"]["sq_host"] else ""
        axis.step(points["cycles"], points["percent"], where="post", color=colour, linewidth=1.6,
                  label=f"{loop(one)}{host}: {one['messages']:,} messages")
        for percent in (50, 99):
            at = points["cycles"][points["percent"].index(percent)]
            axis.plot([at], [percent], "o", color=colour, markersize=5)
            axis.annotate(f"{at:,}", (at, percent), (5, -11), textcoords="offset points",
                          fontsize=8, color=colour)
    axis.set_xlim(left=0)
    axis.set_ylim(0, 101)
    axis.set_xlabel("latency, cycles")
    axis.set_ylabel("messages, %")
    headed(figure, f"Messages by latency: {who}")
    figure.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2, fontsize=8.5)
    return svg(figure)


def perf_counters(found: Row, who: str) -> str:
    """Draws the device's counters beside the counts of the bench and of the replays."""
    figure, axes = axes_of(13.0, 4.6, 4)
    for axis, one in zip(axes, found["histograms"], strict=False):
        last = max(number for number, count in enumerate(one["device"]) if count) + 1
        bins = range(last)
        axis.bar(bins, one["device"][:last], color="#93c5fd", width=0.8, label="device")
        axis.plot(bins, one["beside"][:last], "x", color=INK, markersize=7, label=one["by"])
        names = ["0", *(f"{1 << bit - 1}" for bit in range(1, last))]
        axis.set_xticks(bins, names, rotation=60, fontsize=8)
        what, unit = one["unit"].rsplit(", ", 1)
        axis.set_title(what, fontsize=9, color=INK)
        axis.set_ylabel(unit)
        axis.set_xlabel("from")
        axis.legend(fontsize=8)
        axis.grid(axis="x", visible=False)
    rows = [row for row in found["streams"] if row["beats"]]
    axis, where = axes[3], np.arange(len(rows))
    axis.barh(where, [row["waits"] for row in rows], color="#93c5fd", height=0.7, label="device")
    for key, mark, name in (("bench_waits", "+", "bench"), ("replayed_waits", "x", "replay")):
        points = [(row[key], place) for place, row in enumerate(rows) if row[key] is not None]
        axis.plot(*zip(*points, strict=True), mark, color=INK, markersize=7, label=name)
    axis.set_yticks(where, [row["stream"] for row in rows], fontsize=8)
    axis.invert_yaxis()
    axis.set_xscale("symlog")
    axis.margins(x=0.12)
    axis.set_xlabel("cycles in which a beat waited")
    axis.set_title("waits of each stream", fontsize=9, color=INK)
    axis.legend(fontsize=8)
    axis.grid(axis="y", visible=False)
    verdict = "agree" if found["agree"] else "DO NOT AGREE"
    headed(figure, f"Counters of the device and of the bench {verdict}: {who}, "
                   f"{found['messages']:,} messages, {found['cycles']:,} cycles")  # fmt: skip
    return svg(figure)
