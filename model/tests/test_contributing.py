# SPDX-License-Identifier: Apache-2.0
"""Tests that CONTRIBUTING.md names every file that an admin command touches."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("docs", "formal", "model", "rtl", "spec", "tb", "tools")
TEXTS = (".h", ".md", ".py", ".v", ".vh", ".yaml")
SECTION = (ROOT / "CONTRIBUTING.md").read_text().partition("## Adding an admin command")[2]


def named():
    """Returns the files that the section names; a name without a folder is in that of its row."""
    found = set()
    for line in SECTION.split("\n"):
        folder = "."
        for quote in re.findall(r"`([^`]+)`", line):
            if "/" in quote:
                folder = quote.rpartition("/")[0]
            place = quote if "/" in quote else f"{folder}/{quote}"
            if re.fullmatch(r"[\w./*-]+", place):
                found |= {path for path in ROOT.glob(place) if path.is_file()}
                found |= {path for path in ROOT.glob(f"{place}/*.md") if path.is_file()}
    return found


# Commands that no test uses as a means to another end.
@pytest.mark.parametrize("command", ["detach_event_counter", "modify_event_counter"])
def test_every_file_of_a_command_is_named(command):
    pattern = re.compile(f"{command}|{command.replace('_', '')}", re.I)
    texts = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")
             if path.suffix in TEXTS]  # fmt: skip
    touched = {path for path in texts if pattern.search(path.read_text())}
    assert len(touched) > 10
    missing = sorted(path.relative_to(ROOT).as_posix() for path in touched - named())
    assert missing == []


def test_every_place_of_the_list_is_there():
    rows = re.findall(r"^\|[^|]*\|([^|]*)\|", SECTION, re.M)
    places = [place for row in rows for place in re.findall(r"`([^`]+)`", row) if "/" in place]
    assert len(places) > 25
    assert [place for place in places if not list(ROOT.glob(place.rstrip("/")))] == []
