# SPDX-License-Identifier: Apache-2.0
"""Writes the summary of make mutate: reports/mutate/summary.json, summary.txt and summary.svg."""

import json
from collections import Counter
from typing import NamedTuple

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt  # noqa: E402 - the backend is chosen before

from efa_cosim.report.plots import DEFAULTS, INK, headed, svg  # noqa: E402


class Part(NamedTuple):
    """A part of the bar of a row: its key in the row, and how it is drawn."""

    key: str
    label: str
    colour: str
    hatch: str


PARTS = (Part("killed", "killed by a test", "#059669", ""),
         Part("timeouts", "timeout, not killed", "#2563eb", ".."),
         Part("equivalent", "proved equal", "#9ca3af", "//"),
         Part("open", "survived, verdict listed", "#dc2626", "xx"))  # fmt: skip


def _line(name, row):
    return (
        f"{name:22}{row['mutants']:9}{row['killed']:9}{row['timeouts']:9}"
        f"{row['survived']:9}{row['equivalent']:7}{row['score']:8.2f} %"
    )


def folders(blocks):
    """Returns {folder: sums of its rows}, with the score of the sum."""
    found = {}
    for row in blocks.values():
        total = found.setdefault(row["folder"], Counter())
        total.update({key: row[key] for key in ("mutants", "killed", "survived", "equivalent")})
        total["timeouts"] += len(row["timeouts"])
    for total in found.values():
        counted = total["mutants"] - total["equivalent"]
        total["score"] = 100 * total["killed"] / counted if counted else 100.0
    return dict(sorted(found.items()))


def table(blocks):
    """Formats {name: row} as a table by folder and a table by row."""
    columns = (f"{'mutants':>9}{'killed':>9}{'timeouts':>9}{'survived':>9}{'equal':>7}"
               f"{'score':>10}")  # fmt: skip
    text = [f"{'folder':22}{columns}"]
    text += [_line(name, row) for name, row in folders(blocks).items()]
    text += ["", f"{'row':22}{columns}{'seed':>6}{'listed':>8}"]
    for name, row in blocks.items():
        counted = row | {"timeouts": len(row["timeouts"])}
        text.append(f"{_line(name, counted)}{row['seed']:6}{row.get('listed', ''):>8}")
    return "\n".join(text) + "\n"


def _page(blocks):
    """Formats the tables, the benches that kill, each survivor and timeout."""
    text = [table(blocks), "Which bench killed how many:"]
    for block, row in blocks.items():
        benches = ", ".join(f"{bench} {count}" for bench, count in row.get("killed_by", {}).items())
        text.append(f"{block:22}  {benches}")
    text.append("")
    for block, row in blocks.items():
        for mutant in row["survivors"]:
            text += [
                f"{block} mutant {mutant['number']}: {mutant['mutant']}",
                f"  {mutant['file']}:{mutant['line']}  {mutant['source']}",
                f"  {mutant['verdict'] or 'NO VERDICT'}: {mutant['reason']}", "",
            ]  # fmt: skip
    for block, row in blocks.items():
        for mutant in row["timeouts"]:
            text += [
                f"{block} mutant {mutant['number']}: {mutant['mutant']}",
                f"  {mutant['file']}:{mutant['line']}  {mutant['source']}",
                f"  timeout in {mutant['by'] or 'the simulator'}: {mutant['what']}", "",
            ]  # fmt: skip
    return "\n".join(text)


def _draw(blocks, goal):
    """Draws a bar for each block with the results of its mutants, and the goal beside its score."""
    with plt.rc_context(DEFAULTS):
        figure, (bars, scores) = plt.subplots(
            1, 2, figsize=(11, 0.3 * len(blocks) + 1.4), sharey=True,
            gridspec_kw={"width_ratios": [2, 1]},
        )  # fmt: skip
        places = range(len(blocks))
        rows = [
            row | {"timeouts": len(row["timeouts"]), "open": row["survived"] - row["equivalent"]}
            for row in blocks.values()
        ]
        begin = [0] * len(rows)
        for part in PARTS:
            widths = [row[part.key] for row in rows]
            bars.barh(places, widths, left=begin, height=0.66, color=part.colour, label=part.label,
                      hatch=part.hatch, edgecolor="white")  # fmt: skip
            begin = [at + width for at, width in zip(begin, widths, strict=True)]
        bars.set_yticks(places, blocks)
        bars.set_ylim(len(blocks) - 0.4, -0.6)
        bars.set_xlabel("mutants")
        scores.plot([row["score"] for row in rows], places, "o", color=INK)
        scores.axvline(goal, color="#dc2626", linestyle="--", linewidth=1.2)
        scores.set_xlim(min([goal - 2, *(row["score"] - 1 for row in rows)]), 100.5)
        scores.set_xlabel(f"killed of those not proved equal, % (line: goal {goal:.0f})")
        total = sum(row["mutants"] for row in rows)
        title = "Mutants of blocks under unit benches, of the wiring under system tests"
        headed(figure, f"{title}: {total:,} in {len(rows)} rows")
        figure.legend(*bars.get_legend_handles_labels(), loc="upper center",
                      bbox_to_anchor=(0.5, 0.0), ncols=4, fontsize=9)  # fmt: skip
    return svg(figure)


def write(folder, block, row, holds, goal):
    """Replaces the row of a block in the summary; `holds` is True for other valid rows."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "summary.json"
    text = json.loads(file.read_text())["blocks"] if file.exists() else {}
    text = {name: text[name] for name in text if name != block and holds(name, text[name])}
    text = dict(sorted([*text.items(), (block, row)]))
    file.write_text(json.dumps({"goal": goal, "blocks": text}, indent=1) + "\n")
    (folder / "summary.txt").write_text(_page(text))
    (folder / "summary.svg").write_text(_draw(text, goal))
