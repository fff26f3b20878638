# SPDX-License-Identifier: Apache-2.0
"""Renders the page of a report from one template: verdict, facts of the run, pictures, tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

# Measurements and other rows of a summary, as JSON has them.
Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = Sequence[Row]

CLOCK_MHZ = 250
# A longer table is cut; the complete one is in a file beside the page.
MOST_ROWS = 40


@dataclass
class Section:
    """A part of a page: a heading, lines of text, a picture as SVG text, a table, or single
    messages (attribution.views.sample) as bars that name their stages.

    `prose`: the cells of the table are texts, aligned to the left, instead of numbers.
    """

    heading: str
    lines: list[str] = field(default_factory=list)
    picture: str = ""
    caption: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    prose: bool = False
    messages: Mapping[str, Any] | None = None


def document(summary: Mapping[str, Any], sections: Iterable[Section], files: Sequence[str]) -> str:
    """Returns a self-contained page as HTML text; all text is escaped, pictures are SVG.

    `summary` has title, verdict (passed or failed), text, differences, command, seed, setting and
    origin (`measure.origin`); what is missing is left out. `files` are the data files beside it.
    """
    # This import takes a tenth of a second, which help and refusals avoid.
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True,
        lstrip_blocks=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    return environment.get_template("page.html.jinja").render(
        title=summary["title"], verdict=summary["verdict"], text=summary.get("text", ""),
        wrong=list(summary.get("differences", ()))[1:], facts=facts(summary),
        sections=list(sections), files=files)


def facts(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns what a reader needs to repeat a run, as (name, value): command, setting, tools.

    The clock belongs to `summary["measurements"]`.
    """
    origin = summary.get("origin", {})
    clock = (f"cycles are device clock cycles; nominal {CLOCK_MHZ} MHz, so a cycle is "
             f"{1000 / CLOCK_MHZ:g} ns") if "measurements" in summary else None  # fmt: skip
    found = [("Command", summary.get("command")), ("Setting", summary.get("setting")),
             ("Seed", summary.get("seed")), ("Source", origin.get("source")),
             ("Tools", origin.get("tools")), ("Clock", clock)]  # fmt: skip
    return [(name, str(value)) for name, value in found if value not in (None, "")]


def messages(heading: str, sample: Mapping[str, Any]) -> Section:
    """Returns a section with single messages (attribution.views.sample) as bars."""
    lines = [f"{len(sample['messages'])} messages from the fastest to the slowest, in equal steps "
             "of their rank. A bar names stage, service and waits under the pointer. A click on a "
             "bar lists all stages of the message."]  # fmt: skip
    return Section(heading, lines, messages={**sample, "ns": 1000 / CLOCK_MHZ})


def table(heading: str, columns: Sequence[str], rows: Sequence[Sequence[Any]],
          complete: str = "", prose: bool = False) -> Section:
    """Returns a section with a table; of a long one the first rows, and where all rows are.

    `complete` is the file with all rows, `prose` is that of Section.
    """
    cells = [[cell(value) for value in row] for row in rows[:MOST_ROWS]]
    lines = []
    if len(rows) > MOST_ROWS:
        lines = [f"The first {MOST_ROWS} of {len(rows):,} rows; {complete} has all of them."]
    return Section(heading, lines, columns=list(columns), rows=cells, prose=prose)


def cell(value: Any) -> str:
    """Returns a value as the text of a table cell."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return four(value) if isinstance(value, float) else str(value)


def four(value: float) -> str:
    """Returns a number with four digits at least, without an exponent from 0.0001 on."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def physical(value: float, unit: str, size: int | None = 0) -> str:
    """Returns a measurement at the nominal clock: cycles in ns; messages (stores, beats and more)
    per cycle in millions per second and, for messages of `size` bytes, the payload in Gb/s."""
    what, _, per = unit.partition("/")
    if unit == "cycles":
        return f"{four(value * 1000 / CLOCK_MHZ)} ns"
    if per == "cycle":
        rate = f"{four(value * CLOCK_MHZ)} M {what}/s"
        return f"{rate}, {four(value * CLOCK_MHZ * size * 8 / 1000)} Gb/s" if size else rate
    return ""
