# SPDX-License-Identifier: Apache-2.0
"""Writes a report folder: first every number, then each picture, then the page with all of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from efa_cosim.jobs.files import atomic_write
from efa_cosim.measure import record
from efa_cosim.report.document import Section, document
from efa_cosim.report.folder import replace

SUMMARY, PAGE = "summary.json", "index.html"


@dataclass(frozen=True)
class Picture:
    """A picture of a page: `draw` returns SVG text, which is also written to NAME.svg."""

    name: str
    heading: str
    draw: Callable[[], str]
    caption: str = ""


def publish(folder: Path, summary: Mapping[str, Any], parts: Iterable[Section | Picture],
            files: Mapping[str, str] | None = None, whole: bool = False) -> Path:
    """Writes summary.json, the tables of `summary["measurements"]` if it has any, and `files`
    (content by name), then the pictures and the page; returns the path of the page. Raises OSError.

    `parts` may be a generator: it starts when all numbers are written. `whole`: the numbers replace
    the folder with all its content. A picture that cannot be drawn is named in the page and on
    standard error; all else is written.
    """
    measured = record.files(summary["measurements"]) if "measurements" in summary else {}
    numbers = {SUMMARY: json.dumps(summary, indent=1) + "\n", **measured, **(files or {})}
    if whole:
        replace(folder, numbers)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in numbers.items():
            atomic_write(folder / name, content)
    sections = []
    for part in parts:
        if isinstance(part, Section):
            sections.append(part)
            continue
        try:
            drawn = part.draw()
        except Exception as error:  # noqa: BLE001 - the numbers and the other pictures stay
            reason = f"The picture {part.name} is not drawn: {type(error).__name__}: {error}"
            print(f"{folder}: {reason}", file=sys.stderr)
            (folder / f"{part.name}.svg").unlink(missing_ok=True)
            sections.append(Section(part.heading, [reason]))
        else:
            atomic_write(folder / f"{part.name}.svg", drawn)
            sections.append(Section(part.heading, picture=drawn, caption=part.caption))
    atomic_write(folder / PAGE, document(summary, sections, tuple(numbers)))
    return folder / PAGE
