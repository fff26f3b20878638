# SPDX-License-Identifier: Apache-2.0
"""Reads tools/fmax.yaml, the list of the blocks of `make fmax`, and applies the target rule.

    rows, exceptions = read(ROOT / "tools/fmax.yaml")
    verdict(rows["efa_cq"], 91.5)
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml

FACTOR, MOST = 1.5, 125.0  # the target is FACTOR times the start, at most MOST (MHz)
LIST = "tools/fmax.yaml"
KEYS = {"start", "parameters", "waiver", "why"}


class ListFault(Exception):
    """tools/fmax.yaml contradicts itself or the tree; the text has a line for each error."""


@dataclass(frozen=True)
class Row:
    """A block of the list. `start` is in MHz, None before the first record."""

    start: float | None = None
    parameters: dict[str, int] = field(default_factory=dict)
    waiver: str = ""

    @property
    def target(self) -> float | None:
        """The MHz that the block must reach, None without a start."""
        return None if self.start is None else round(min(FACTOR * self.start, MOST), 2)


def verdict(row: Row, mhz: float) -> str:
    """Returns "no start", "met", "waived" or "below" for a median of MHz."""
    if row.target is None:
        return "no start"
    if mhz >= row.target:
        return "met"
    return "waived" if row.waiver else "below"


def read(path: Path) -> tuple[dict[str, Row], dict[str, str]]:
    """Returns the rows and the exceptions {module: reason} of the list. Raises ListFault."""
    text = yaml.safe_load(path.read_text()) or {}
    rows, wrong = {}, []
    for name, given in (text.get("blocks") or {}).items():
        unknown = set(given) - KEYS
        wrong += [f"{LIST}: {name}: {key} is no key: expected {', '.join(sorted(KEYS))}"
                  for key in sorted(unknown)]  # fmt: skip
        start = given.get("start")
        if "start" not in given or not (start is None or isinstance(start, int | float)):
            wrong.append(f"{LIST}: {name}: expected start: MHz or null, found {start!r}")
            continue
        if "waiver" in given and not str(given["waiver"] or "").strip():
            wrong.append(f"{LIST}: {name}: the waiver has no text: give the reason")
        if given.get("parameters") and not str(given.get("why") or "").strip():
            wrong.append(f"{LIST}: {name}: parameters without why: give the reason")
        rows[name] = Row(start, given.get("parameters") or {}, str(given.get("waiver") or ""))
    exceptions = text.get("exceptions") or {}
    wrong += [f"{LIST}: exception {name} has no reason" for name, why in exceptions.items()
              if not str(why or "").strip()]  # fmt: skip
    wrong += [f"{LIST}: {name} is a block and an exception" for name in rows if name in exceptions]
    if wrong:
        raise ListFault("\n".join(wrong))
    return rows, exceptions


def misfits(root: Path) -> list[str]:
    """Returns a line for each module of rtl/ that is not in the list, and for each name of the
    list that is no module."""
    rows, exceptions = read(root / LIST)
    there = {path.stem for path in (root / "rtl").rglob("*.v")}
    listed = {*rows, *exceptions}
    wrong = [f"{LIST}: no row for {name}: add it to blocks with `start: null`, or the reason to"
             " exceptions" for name in sorted(there - listed)]  # fmt: skip
    return wrong + [f"{LIST}: {name} is no module of rtl/" for name in sorted(listed - there)]


def record(path: Path, medians: dict[str, float]) -> list[str]:
    """Writes the medians of measured blocks as starts where the start is null; returns the names
    of these blocks. Everything else in the file stays, comments included."""
    rows, _ = read(path)
    text, done = path.read_text(), []
    for name, mhz in medians.items():
        if name not in rows or rows[name].start is not None:
            continue
        text, count = re.subn(rf"^(  {name}:\s*\{{?\s*start: )null\b", rf"\g<1>{mhz:.1f}", text,
                              count=1, flags=re.M)  # fmt: skip
        if not count:
            raise ListFault(f"{path}: {name}: expected `{name}: {{start: null` in one line")
        done.append(name)
    if done:
        path.write_text(text)
    return done
