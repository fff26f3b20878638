# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of the laboratory as SVG text: matrix, confusion, cost. Each cell has text,
readable without colour."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt  # noqa: E402 - the backend is chosen before
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.patches import Rectangle  # noqa: E402

from efa_cosim.host.wc import POLICIES  # noqa: E402
from efa_cosim.report.document import Row, Rows  # noqa: E402
from efa_cosim.report.plots import DEFAULTS, GREY, INK, svg  # noqa: E402
from efa_cosim.wclab.bugs import BUGS  # noqa: E402
from efa_cosim.wclab.matrix import FAILED, FOUND, ROWS, row_name  # noqa: E402
from efa_cosim.wclab.verdict import VERDICTS  # noqa: E402

TITLES = {
    "no_fence": "no fence", "fence_early": "fence too early", "doorbell_early":
    "doorbell before last store", "batch_over": "more than max_tx_batch",
    "slot_reused": "slot reused too early", "wrap_wrong": "producer wrap wrong",
    "stale_phase": "stale phase", "half_entry": "half an entry",
    "doorbell_lost": "doorbell coalesced away", "two_threads": "two threads",
    "clean": "clean", "correct": "correct code",
}  # fmt: skip
COLOURS = {FOUND: "#bbf7d0", FAILED: "#fca5a5"}
UNSEEN = "#f3f4f6"
CELL: dict[str, Any] = {"edgecolor": "#9ca3af", "linewidth": 0.6}


def matrix(found: Row, backend: str) -> str:
    """Draws store buffer against bug: the number of seeds in which each bug was found and named."""
    cells = {(c["bug"], c["policy"], c["overtakes"]): c for c in found["cells"]
             if c["backend"] == backend}
    correct = {(r["policy"], r["overtakes"]): r for r in found["correct"]
               if r["backend"] == backend}
    columns = ["correct", *BUGS]
    figure, axis = _grid(columns, [row_name(*row) for row in ROWS], 1.12, 0.5)
    for y, row in enumerate(ROWS):
        message = correct.get(row)
        if message:
            good = not message["false_alarms"]
            _cell(axis, 0, y, COLOURS[FOUND if good else FAILED],
                  f"{message['false_alarms']} false alarms\nin {message['seeds']:,} seeds")
        for x, bug in enumerate(BUGS, 1):
            cell = cells.get((bug, *row))
            if cell:
                colour = COLOURS.get(cell["state"], UNSEEN)
                _cell(
                    axis, x, y, colour, _reported(cell), None if cell["state"] in COLOURS else "///"
                )
    runs = sum(c["seeds"] for c in cells.values()) + sum(r["seeds"] for r in correct.values())
    figure.suptitle(f"Planted provider bugs under each store buffer, {device(backend)}: "
                    f"{runs:,} runs", x=0.5, y=1.0, fontsize=12)
    _note(axis, len(ROWS), "Green: found, with the number of seeds in which the checker named the "
          "bug or only the device reported it; `device reports`: the device also refuses or "
          "reports it. Hatched: not observable, every trace is possible with correct code and "
          "every message arrived. Red: missed, named wrongly, or a false alarm.")
    return svg(figure)


def _reported(cell: Row) -> str:
    seen = cell["seeds"] - cell["hidden"]
    if not seen:
        return f"not observable\npermitted {cell['hidden']}/{cell['seeds']}"
    lines = [f"named {cell['named']}/{seen}"]
    if cell["device"]:
        lines.append(f"device only {cell['device']}")
    if cell["device_errors"]:
        lines.append("device reports")
    if cell["hidden"]:
        lines.append(f"{cell['hidden']} not observable")
    if cell["state"] == FAILED:
        lines.append("FAILED")
    return "\n".join(lines)


def confusion(found: Row, backend: str) -> str:
    """Draws planted bug against verdict, without runs that are not observable."""
    counts = found["confusion"][backend]
    rows = [*BUGS, "correct"]
    figure, axis = _grid(VERDICTS, [TITLES[bug] for bug in rows], 0.95, 0.42)
    for y, bug in enumerate(rows):
        total = sum(counts[bug].values())
        for x, verdict in enumerate(VERDICTS):
            number = counts[bug][verdict]
            right = verdict == bug or (bug, verdict) == ("correct", "clean")
            share = number / total if total else 0
            colour = UNSEEN if not number else (
                (1 - 0.5 * share, 1 - 0.1 * share, 1 - 0.4 * share) if right else COLOURS[FAILED])
            _cell(axis, x, y, colour, f"{number:,}" if number else "")
    total = sum(sum(one.values()) for one in counts.values())
    figure.suptitle(f"Planted bug (rows) and verdict of the checker (columns), "
                    f"{device(backend)}: {total:,} observable runs", x=0.5, y=1.0, fontsize=12)
    _note(axis, len(rows), "The input of the checker is the bus, the device's events and the "
          "results, not the planted bug or the store buffer. Red: a wrong verdict.")
    return svg(figure)


# Measurements of backends with time, and their markers.
TIMED = {
    "bus_cycles": ("D", INK, 5, "cycles of s_mmio"),
    "out_cycles": ("o", "#dc2626", 4, "cycles per message on m_net"),
}


def cost(rows: Rows, backend: str) -> str:
    """Draws beats of s_mmio per WQE for each policy, and cycles for a backend with time."""
    mine = [row for row in rows if row["backend"] == backend]
    shapes = sorted({(row["entry_bytes"], row["batch"]) for row in mine})
    timed = any("bus_cycles" in row for row in mine)
    with plt.rc_context(DEFAULTS):
        figure, axes = plt.subplots(1, len(shapes), figsize=(2.9 * len(shapes), 3.8), sharey=True)
    for axis, (entry_bytes, batch) in zip(axes, shapes, strict=True):
        here = {r["policy"]: r for r in mine if (r["entry_bytes"], r["batch"]) ==
                (entry_bytes, batch)}
        names = [policy for policy in POLICIES if policy in here]
        beats = [here[name]["beats"] for name in names]
        bells = [here[name]["doorbells"] for name in names]
        places = range(len(names))
        axis.bar(places, beats, 0.55, color="#93c5fd", edgecolor=INK, linewidth=0.6,
                 label="stores to LLQ memory")
        axis.bar(places, bells, 0.55, bottom=beats, color="#fde68a", edgecolor=INK, linewidth=0.6,
                 hatch="//", label="doorbells")
        if timed:
            for key, (mark, colour, size, label) in TIMED.items():
                axis.plot(places, [here[name][key] for name in names], mark, color=colour,
                          markersize=size, label=label)
        limit = here[names[0]]["limit"]
        axis.axhline(limit, linestyle="--", color=GREY, linewidth=1.1,
                     label="limit: whole lines")
        for place, name, beat, bell in zip(places, names, beats, bells, strict=True):
            above = max(beat + bell, *(here[name].get(key, 0) for key in TIMED))
            axis.annotate(f"{beat + bell:.2f}", (place, above), (0, 6), ha="center",
                          textcoords="offset points", fontsize=8, color=INK)
        axis.set_xticks(list(places), [name.replace("_", " ") for name in names], rotation=35,
                        ha="right")
        axis.set_title(f"{entry_bytes}-byte WQEs,\n{batch} per doorbell", fontsize=10)
        axis.margins(y=0.14)
    axes[0].set_ylabel("beats (bars) and cycles (marks) per WQE")
    entries = sum(row["entries"] for row in mine)
    lines = mine[0]["lines"]
    figure.suptitle(f"Cost of a store buffer, {device(backend)}: correct code, {lines} lines, "
                    f"{entries:,} messages", y=1.03, fontsize=12)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=5,
                  fontsize=9, frameon=False)
    return svg(figure)


def device(backend: str) -> str:
    """Returns a backend in words."""
    return "reference model" if backend == "model" else f"RTL on {backend.capitalize()}"


def _grid(
    columns: Sequence[str], rows: Sequence[str], width: float, height: float
) -> tuple[Figure, Axes]:
    with plt.rc_context(DEFAULTS):
        figure, axis = plt.subplots(figsize=(width * len(columns) + 2.2, height * len(rows) + 1.6))
    axis.set_xlim(0, len(columns))
    axis.set_ylim(len(rows), 0)
    axis.grid(visible=False)
    names = ["\n".join(textwrap.wrap(TITLES[name], 12)) for name in columns]
    axis.set_xticks([x + 0.5 for x in range(len(columns))], names, fontsize=8.5)
    axis.set_yticks([y + 0.5 for y in range(len(rows))], rows, fontsize=9)
    axis.xaxis.tick_top()
    axis.tick_params(length=0)
    for side in axis.spines.values():
        side.set_visible(False)
    return figure, axis


def _cell(
    axis: Axes,
    x: float,
    y: float,
    colour: str | tuple[float, float, float],
    text: str,
    hatch: str | None = None,
) -> None:
    axis.add_patch(Rectangle((x, y), 1, 1, facecolor=colour, **CELL))
    if hatch:
        axis.add_patch(Rectangle((x, y), 1, 1, fill=False, hatch=hatch, edgecolor="#e5e7eb",
                                 linewidth=0))
    axis.text(x + 0.5, y + 0.5, text, ha="center", va="center", fontsize=7.5, color=INK)


def _note(axis: Axes, rows: int, text: str) -> None:
    axis.text(0, rows + 0.35, "\n".join(textwrap.wrap(text, 150)), fontsize=8.5, color=GREY,
              va="top", clip_on=False)
