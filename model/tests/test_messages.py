# SPDX-License-Identifier: Apache-2.0
"""Tests the messages of a page that a pointer explores: embedded data, script, and a browser.

The browser is Qt WebEngine (`pip install PySide6-WebEngine`, 0.5 GB, not part of the lock file);
without it, its test is skipped.
"""

import importlib.util
import json
import os
import subprocess
import sys
from html.parser import HTMLParser

import pytest

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


BROWSER = """\
import json, sys
from PySide6.QtCore import QTimer, QUrl
from PySide6.QtWebEngineCore import QWebEnginePage
from PySide6.QtWebEngineWidgets import QWebEngineView
from PySide6.QtWidgets import QApplication
app = QApplication([])
class Page(QWebEnginePage):
    def javaScriptConsoleMessage(self, level, message, line, source):
        print("console", message, line, flush=True)
view = QWebEngineView()
page = Page(view)
view.setPage(page)
view.resize(int(sys.argv[2]), 900)
view.show()
def show(result):
    print("result", result, flush=True)
    app.quit()
def loaded(ok):
    QTimer.singleShot(300, lambda: page.runJavaScript(sys.argv[3], show))
page.loadFinished.connect(loaded)
page.load(QUrl.fromLocalFile(sys.argv[1]))
QTimer.singleShot(60000, app.quit)
app.exec()
"""
LOOK = """\
(() => {
  const box = document.querySelector(".messages");
  const [first, second] = box.querySelectorAll(".bar"), tip = box.querySelector(".tip");
  const point = part => part.dispatchEvent(
    new PointerEvent("pointermove", { bubbles: true, clientX: 50, clientY: 50 }));
  const found = { bars: box.querySelectorAll(".bar").length, before: tip.hidden };
  point(second.querySelector(".wait"));
  found.tip = tip.textContent;
  found.shown = !tip.hidden;
  const parts = [...second.querySelectorAll(".line span")].map(one => one.getBoundingClientRect());
  found.share = parts[1].width / parts.reduce((sum, one) => sum + one.width, 0);
  point(second);
  found.beside = tip.hidden;
  second.click();
  found.list = box.querySelector(".list p").textContent;
  found.rows = [...box.querySelectorAll(".list tr")].slice(1).map(
    row => [...row.children].map(cell => cell.textContent));
  first.click();
  found.again = box.querySelector(".list p").textContent;
  found.pressed = [...box.querySelectorAll(".bar")].map(one => one.ariaPressed);
  found.wide = document.documentElement.scrollWidth <= innerWidth;
  return JSON.stringify(found);
})()
"""


@pytest.mark.skipif(importlib.util.find_spec("PySide6") is None,
                    reason="needs a browser: pip install PySide6-WebEngine")  # fmt: skip
@pytest.mark.parametrize("width", [400, 1600])
def test_a_browser_names_stages_and_lists_a_message(tmp_path, width):
    path = tmp_path / "index.html"
    path.write_text(page(messages("One", SAMPLE)))
    quiet = {"QT_QPA_PLATFORM": "offscreen", "QTWEBENGINE_DISABLE_SANDBOX": "1",
             "QTWEBENGINE_CHROMIUM_FLAGS": "--disable-gpu"}
    done = subprocess.run([sys.executable, "-c", BROWSER, str(path), str(width), LOOK],
                          env=os.environ | quiet, capture_output=True, text=True, check=False,
                          timeout=90)  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith(("console", "result"))]
    assert len(lines) == 1 and lines[0].startswith("result "), done.stdout + done.stderr
    found = json.loads(lines[0].removeprefix("result "))
    assert found["bars"] == 2 and found["before"] and found["shown"] and found["beside"]
    assert found["tip"] == (
        "Message 9, host read </script><b> (host): service 50 cycles (200 ns); waits: earlier "
        "reads 25 cycles (100 ns), tags & credits 4 cycles (16 ns)")
    assert found["share"] == pytest.approx(0.5, abs=0.02)
    assert found["list"].startswith("Message 9: 100 cycles (400 ns); its doorbell is 2 µs after")
    assert found["rows"] == [
        ["host read </script><b>", "host", "0", "50 cycles (200 ns)",
         "earlier reads 25 cycles (100 ns), tags & credits 4 cycles (16 ns)"],
        ["to the receiver", "fabric", "79", "1 cycle (4 ns)", "earlier packets 20 cycles (80 ns)"]]
    assert found["again"].startswith("Message 4: 60 cycles")
    assert found["pressed"] == ["true", "false"] and found["wide"]
