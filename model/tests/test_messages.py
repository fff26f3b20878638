# SPDX-License-Identifier: Apache-2.0
"""Tests the messages of a page that a pointer explores: embedded data and script."""

import json
from html.parser import HTMLParser

from efa_cosim.report.document import Section, document, messages

SAMPLE = {
    "stages": [{"stage": "host read </script><b>", "place": "host"},
               {"stage": "to the receiver", "place": "fabric"}],
    "messages": [
        {"message": 4, "begin": 250, "latency": 60, "stages": [[50, {}], [10, {}]]},
        {"message": 9, "begin": 500, "latency": 100, "stages": [
            [50, {"earlier reads": 25, "tags & credits": 4}], [1, {"earlier packets": 20}]]},
    ],
}  # fmt: skip


def page(*sections):
    return document({"title": "t", "verdict": "passed"}, sections, ("summary.json",))


class Scripts(HTMLParser):
    """Collects the scripts of a page as (type, text), and its other elements."""

    def __init__(self, text):
        super().__init__()
        self.scripts, self.tags = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "script":
            self.scripts.append([dict(attrs).get("type"), ""])

    def handle_data(self, data):
        if self.tags and self.tags[-1] == "script":
            self.scripts[-1][1] += data

    def handle_endtag(self, tag):
        self.tags.append("/" + tag)


def test_the_data_is_embedded_and_cannot_end_its_element():
    found = Scripts(page(messages("One", SAMPLE), messages("Two", SAMPLE)))
    assert [kind for kind, _ in found.scripts] == ["application/json", "application/json", None]
    for _, text in found.scripts[:2]:
        assert json.loads(text) == {**SAMPLE, "ns": 4.0}
    assert "b" not in found.tags
    # The script finds its elements by these names.
    assert 'document.querySelectorAll(".messages")' in found.scripts[2][1]
    assert all(f"<div class={name}" in page(messages("One", SAMPLE))
               for name in ("messages", "bars", "tip", "list"))


def test_a_page_without_messages_has_no_script():
    assert Scripts(page(Section("Text", ["line"]))).scripts == []
