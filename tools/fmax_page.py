# SPDX-License-Identifier: Apache-2.0
"""Writes the results of make fmax: reports/fmax/summary.json, index.md and fmax.svg."""

import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt  # noqa: E402 - the backend is chosen before

from efa_cosim.jobs.files import atomic_write  # noqa: E402
from efa_cosim.report.plots import DEFAULTS, GREY, INK, headed, svg  # noqa: E402

COLOURS = {"met": "#059669", "below": "#dc2626", "waived": "#d97706", "no start": "#2563eb"}
# The hatch carries the same information as the colour.
HATCHES = {"met": "", "below": "xx", "waived": "//", "no start": ".."}
NOTE = """\
MHz of a single block between registers on an FPGA (LFE5UM5G-85F, speed 8, nextpnr): the median of
the seeds. The result compares a block with its own start value. It is no sign-off and no clock of
the device; 250 MHz stays nominal. See `docs/timing.md`.
"""


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _end(end: dict[str, str]) -> str:
    return f"`{end['signal']}`" + (f" ({end['module']})" if end["module"] else "")


def table(rows: list[dict[str, Any]]) -> str:
    """Formats the rows as a page: a table of results and a table of critical paths."""
    lines = [
        "# Fmax of each block", "", NOTE, "![Fmax of each block](fmax.svg)", "",
        "| block | median | seeds | start | target | result | LUT4 | FF | block RAM |",
        "|---|---:|---|---:|---:|---|---:|---:|---:|",
    ]  # fmt: skip
    for row in rows:
        counts = row["counts"]
        seeds = " ".join(_number(one) for one in row["mhz"].values())
        lines.append(
            f"| `{row['block']}` | {_number(row['median'])} | {seeds} | {_number(row['start'])}"
            f" | {_number(row['target'])} | {row['result']} | {counts['lut4']:,}"
            f" | {counts['flip_flops']:,} | {counts['block_rams']} |"
        )
    lines += [
        "", "Critical path of the median seed. Levels: LUT, multiplexer, carry cells on the path.",
        "", "| block | ns | levels | logic | routing | from | to | over |",
        "|---|---:|---:|---:|---:|---|---|---|",
    ]  # fmt: skip
    for row in rows:
        path = row["path"]
        via = ", ".join(f"`{one['signal']}`" for one in path["via"])
        lines.append(
            f"| `{row['block']}` | {path['ns']:.1f} | {path['levels']} | {path['logic_percent']} %"
            f" | {path['routing_percent']} % | {_end(path['from'])} | {_end(path['to'])} | {via} |"
        )
    waived = [row for row in rows if row["waiver"]]
    lines += ["", "Waivers:", ""] * bool(waived)
    lines += [f"- `{row['block']}`: {row['waiver']}" for row in waived]
    return "\n".join([*lines, ""])


def picture(rows: list[dict[str, Any]]) -> str:
    """Draws a bar per block with its start value and its target as markers; returns SVG text."""
    with plt.rc_context(DEFAULTS):
        figure, axis = plt.subplots(figsize=(9, 0.26 * len(rows) + 1.6))
        for result, colour in COLOURS.items():
            mine = [place for place, row in enumerate(rows) if row["result"] == result]
            if mine:
                axis.barh(mine, [rows[place]["median"] for place in mine], height=0.66,
                          color=colour, hatch=HATCHES[result], edgecolor="white",
                          label={"below": "below the target"}.get(result, result))  # fmt: skip
        for key, mark, colour in (("start", "|", INK), ("target", "D", GREY)):
            found = [(row[key], place) for place, row in enumerate(rows) if row[key] is not None]
            if found:
                axis.plot(*zip(*found, strict=True), mark, color=colour, label=key, linestyle="",
                          markersize=9 if mark == "|" else 5, markeredgewidth=2)  # fmt: skip
        axis.set_yticks(range(len(rows)), [row["block"] for row in rows], fontsize=9)
        axis.set_ylim(len(rows) - 0.4, -0.6)
        axis.set_xlim(left=0)
        axis.set_xlabel("MHz, median of the seeds")
        headed(figure, "Fmax of single blocks between registers, LFE5UM5G-85F")
        handles = axis.get_legend_handles_labels()
        figure.legend(*handles, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=6, fontsize=9)
    return svg(figure)


def write(folder: Path, message: dict[str, Any]) -> None:
    """Writes the summary ({..., "blocks": rows}), the page and the picture."""
    folder.mkdir(parents=True, exist_ok=True)
    atomic_write(folder / "summary.json", json.dumps(message, indent=1) + "\n")
    atomic_write(folder / "index.md", table(message["blocks"]))
    atomic_write(folder / "fmax.svg", picture(message["blocks"]))
