# SPDX-License-Identifier: Apache-2.0
"""Tests the page of a report: one template, everything escaped, long tables cut, physical units."""

from html.parser import HTMLParser

import pytest

from efa_cosim.measure.origin import origin
from efa_cosim.report.document import MOST_ROWS, Section, document, facts, physical, table

VOID = {"meta", "link", "br"}
OPTIONAL = {"html", "p", "dt", "dd", "tr", "td", "th"}  # HTML lets their end tags be omitted


class Page(HTMLParser):
    """Collects the elements of a page; an end tag must close the last open element."""

    def __init__(self, text):
        super().__init__()
        self.open, self.found, self.links = [], [], []
        self.feed(text)
        assert set(self.open) <= {"html"}, self.open

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag not in VOID and not self.get_starttag_text().endswith("/>"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open and self.open[-1] != tag and self.open[-1] in OPTIONAL:
            self.open.pop()
        assert self.open and self.open[-1] == tag, (tag, self.open)
        self.open.pop()


def page(**more):
    summary = {"title": "A <title>", "verdict": "failed", "text": "one & two",
               "differences": ["one & two", "second <difference>"], "command": "efa-cosim run",
               "seed": 7, "setting": "RTL", "origin": origin(), **more}  # fmt: skip
    return document(summary, [
        Section("A <heading>", ["a <line>"], "<svg><g></g></svg>", "a <caption>"),
        table("Numbers", ["name", "value"], [["a<b", 1.23456], ["c", None], ["d", True]]),
    ], ("summary.json", "measurements.csv"))


def test_a_page_is_whole_and_escapes_all_text():
    text = page()
    found = Page(text)
    assert found.found.count("svg") == 1 and found.found.count("table") == 1
    assert found.links == ["summary.json", "measurements.csv"], "a page loads nothing"
    for name in ("title", "heading", "line", "caption", "difference"):
        assert f"<{name}>" not in text.replace("<title>A &lt;title&gt;</title>", "")
        assert f"&lt;{name}&gt;" in text
    for cell in ("<td>a&lt;b</td>", "<td>1.235</td>", "<td></td>", "<td>yes</td>"):
        assert cell in text
    # Dark mode and narrow windows.
    assert "prefers-color-scheme: dark" in text and "max-width: 40rem" in text


def test_the_facts_repeat_the_run():
    found = dict(facts({"command": "efa-cosim run", "seed": 0, "origin": origin(),
                        "measurements": []}))  # fmt: skip
    assert found["Command"] == "efa-cosim run" and found["Seed"] == "0"
    assert found["Source"].startswith("efa-cosim ") and "verilator " in found["Tools"]
    assert "a cycle is 4 ns" in found["Clock"]
    # What a summary does not have has no line.
    assert facts({}) == []


def test_a_long_table_is_cut_and_names_the_complete_one():
    rows = [[number] for number in range(1000)]
    short, long = table("t", ["n"], rows[:MOST_ROWS], "all.csv"), table("t", ["n"], rows, "all.csv")
    assert (len(short.rows), short.lines) == (MOST_ROWS, [])
    assert len(long.rows) == MOST_ROWS
    assert long.lines == [f"The first {MOST_ROWS} of 1,000 rows; all.csv has all of them."]


def test_a_table_of_texts_is_aligned_to_the_left():
    numbers, texts = table("t", ["n"], [[1]]), table("t", ["n"], [["a"]], prose=True)
    text = document({"title": "t", "verdict": "passed"}, [numbers, texts], ())
    assert text.count("<table>") == text.count("<table class=prose>") == 1
    assert "<td>1</td>" in text and '<td data-name="n">a</td>' in text


@pytest.mark.parametrize(("value", "unit", "size", "text"), [
    (390.0, "cycles", 64, "1,560 ns"), (19640.0, "cycles", 0, "78,560 ns"),
    (0.5, "messages/cycle", 0, "125 M messages/s"),
    (0.25, "messages/cycle", 1024, "62.5 M messages/s, 512 Gb/s"),
    (1.0, "stores/cycle", None, "250 M stores/s"), (3.0, "flits", 0, "")])
def test_measurements_have_physical_units(value, unit, size, text):
    assert physical(value, unit, size) == text
