# SPDX-License-Identifier: Apache-2.0
"""Opens the page of each report in a browser: no error, no request, no page wider than its window.

Without a browser these tests are skipped.
"""

import json
import re
from itertools import product
from types import SimpleNamespace

import linux
import pytest
from native_stores import NULL, Rate

from efa_cosim.attribution.study import ways
from efa_cosim.cli.main import main
from efa_cosim.cycle.network import recorded
from efa_cosim.cycle.workload import Workload
from efa_cosim.jobs.job import Limits
from efa_cosim.measure.lossy import ENGINES, Curve, Results
from efa_cosim.measure.record import Measurement
from efa_cosim.regress import table
from efa_cosim.regress.runs import Run
from efa_cosim.report import fabric_page, regress_page
from efa_cosim.report.document import Section, document, messages
from efa_cosim.report.page import read_summary, write_report
from tb.lib.browser import MISSING, Browser, found
from tb.perf import page as perf_page

LOOKS = tuple(product((400, 1600), (False, True)))
BACKGROUND = {False: "rgb(255, 255, 255)", True: "rgb(15, 23, 42)"}
LONG = "a text that is as long as the reason of a failure and has no place in a narrow window, " * 3
SAMPLE = {
    "stages": [{"stage": "host read </script><b>", "place": "host"},
               {"stage": "to the receiver", "place": "fabric"}],
    "messages": [
        {"message": 4, "begin": 250, "latency": 60, "stages": [[50, {}], [10, {}]]},
        {"message": 9, "begin": 500, "latency": 100, "stages": [
            [50, {"earlier reads": 25, "tags & credits": 4}], [1, {"earlier packets": 20}]]},
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if found() is None:
        pytest.skip(MISSING)
    with Browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


def sweep(folder):
    assert main(["sweep", "--backend", "cycle", "--sizes", "8,4096", "--queues", "1,8",
                 "--out", str(folder)]) == 0
    return folder / "index.html"


def run(folder):
    """The measurements of a sweep, with sessions and waterfalls of the cycle model."""
    sweep(folder)
    work = Workload(size=64, queues=4, depth=4, batch=4, messages=256)
    shown = ways(work, lambda works: [(recorded(work), None) for work in works])
    row = {"name": "pingpong.jsonl.gz", "backend": "verilator", "verdict": "passed",
           "stores": 1234, "dma_writes": 567, "packets": 89, "interrupts": 10}
    return write_report(folder, {**read_summary(folder), "waterfall": shown, "sessions": [row] * 2})


def waterfall(folder):
    assert main(["waterfall", "--backend", "cycle", "--sizes", "64", "--queues", "4",
                 "--messages", "64", "--out", str(folder)]) == 0
    return folder / "index.html"


def laboratory(folder):
    assert main(["lab", "--bug", "no_fence", "--seeds", "1", "--correct", "1", "--rtl", "none",
                 "--jobs", "1", "--out", str(folder)]) == 0
    return folder / "index.html"


def regression(folder):
    results = [table.Result(Run("unit", f"block_{number:03}", (), "icarus", 1),
                            table.FAILED if number % 9 == 0 else table.PASSED, 1, float(number),
                            "here", f"make unit UNIT=block_{number:03} SEED=1", LONG)
               for number in range(60)]  # fmt: skip
    return regress_page.write(folder, "Regression", "efa-cosim regress", Limits(), results)


def perf(folder):
    rows = [{"what": f"{kind} sends in 128-byte WQEs, 8 QPs, a doorbell for 16", "value": value,
             "unit": "messages/cycle", "target": 0.5, "limit": 1.0, "ratio_to_limit": value,
             "met": value > 0.5, "messages": 10_000, "busiest_port": "s_dma_rd_cpl",
             "limit_set_by": "an entry is two beats of a host read, and one flit"}
            for kind in ("inline", "memory") for value in (0.4, 0.6)]  # fmt: skip
    summary = {"verdict": f"failed: 2 of 4 rows: {LONG}", "conditions": {"kind": "SRD"},
               "rows": rows, "command": "make perf", "measurements": []}  # fmt: skip
    return perf_page.write(folder, summary, "Rates")


def fabric(folder):
    rows = [Measurement("goodput", "mean", 0.9, "of (1 - loss) x line", 1000, subject=engine,
                        configuration={"loss": loss, "checked_packets": 1000})
            for engine in ENGINES for loss in (0.0, 0.001)]
    curves = [Curve(engine, [0.0, 1.0, 2.0], [0.1, 0.95, 1.0]) for engine in ENGINES]
    shares = {engine: [1 / 16] * 16 for engine in ENGINES}
    return fabric_page.write(folder, "efa-cosim fabric-report", 1000, 1,
                             Results(rows, curves, curves, shares))


def guest(folder):
    """The page of make linux."""
    lines = ["test_a (tests.test_efa.A.test_a) ... ok",
             f"test_b (tests.test_efa.A.test_b) ... skipped '{LONG}'"]
    steps = [linux.Result("rdma_core_tests", "passed", "", 33.2, lines, 122),
             linux.Result("srd_send_lat", "failed", LONG, 2.0, [], 1_234_567)]
    options = SimpleNamespace(command="tools/linux.py", guests=1, nodes=1, memory=1024,
                              map_llq=False, profile="cosim")  # fmt: skip
    rates = [Rate(NULL, 68_471.0, 6_224.6), Rate("model", 30_400.0, 2_763.6)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linux, "REPORT", folder)
        patch.setattr(linux, "versions", lambda _guest: {"Linux": "6.1", "rdma-core": "58.0"})
        return linux.write_report({"model": steps, "verilator": steps}, options, None, rates)


def fits(browser, path):
    """Opens a page at each width, light and dark; fails for errors, requests and a wide page."""
    for width, dark in LOOKS:
        page = browser.open(path, width, dark)
        where = f"{path.parent.name}, {width} pixels, {'dark' if dark else 'light'}"
        assert page.complaints() == [], where
        assert page.look("return document.documentElement.scrollWidth") <= width, where
        assert page.look("return getComputedStyle(document.body).backgroundColor") == (
            BACKGROUND[dark]), where  # fmt: skip
        assert page.look("return innerWidth") == width, where
        page.close()


@pytest.mark.parametrize("write", [run, sweep, laboratory, regression, perf, fabric, guest])
def test_a_page_fits_into_its_window_and_loads_nothing(browser, tmp_path, write):
    fits(browser, write(tmp_path / write.__name__))


def test_a_narrow_page_names_each_cell_of_a_row_of_texts(browser, tmp_path):
    path = guest(tmp_path)
    narrow, wide = (browser.open(path, width) for width in (400, 1600))
    cell = "document.querySelector('.prose td:nth-child(3)')"
    label = f"return getComputedStyle({cell}, '::before').content"
    assert narrow.look(label) == '"model: seconds in the guest: "'
    assert wide.look(label) == "none"


def test_a_page_with_faults_is_reported(browser, tmp_path):
    path = tmp_path / "index.html"
    path.write_text("<!doctype html><body><div style='width: 500px'>x</div><img src=no.png>"
                    "<script>console.error('said'); setTimeout(() => none(), 0)</script>")
    page = browser.open(path, 400)
    assert page.look("return document.documentElement.scrollWidth") == 508
    text = "\n".join(page.complaints())
    for wanted in ("console.error", "exception: ReferenceError: none", "request: file://"):
        assert wanted in text
    page.close()


@pytest.mark.parametrize("width", [400, 1600])
def test_a_pointer_names_stages_and_a_click_lists_a_message(browser, tmp_path, width):
    path = tmp_path / "index.html"
    path.write_text(document({"title": "t", "verdict": "passed"}, [
        Section("Text", ["line"] * 40), messages("One", SAMPLE)], ("summary.json",)))  # fmt: skip
    page = browser.open(path, width)
    bars = "document.querySelectorAll('.bar')"
    tip = "const tip = document.querySelector('.tip'); return tip.hidden ? '' : tip.textContent"
    assert page.look(f"return {bars}.length") == 2 and page.look(tip) == ""
    page.point(f"{bars}[1].querySelector('.wait')")
    assert page.look(tip) == (
        "Message 9, host read </script><b> (host): service 50 cycles (200 ns); waits: earlier "
        "reads 25 cycles (100 ns), tags & credits 4 cycles (16 ns)")
    page.point(f"{bars}[1].querySelector('.line').lastChild")
    box = page.look("const box = document.querySelector('.tip').getBoundingClientRect();"
                    "return [box.left, box.right]")  # fmt: skip
    assert 0 <= box[0] and box[1] <= width
    page.point(f"{bars}[1].querySelector('.name')")
    assert page.look(tip) == ""
    shares = page.look(f"return [...{bars}[1].querySelectorAll('.line span')].map("
                       "one => one.getBoundingClientRect().width)")  # fmt: skip
    assert shares[1] / sum(shares) == pytest.approx(0.5, abs=0.02)
    page.point(f"{bars}[1]", click=True)
    assert listed(page) == ("Message 9: 100 cycles (400 ns); its doorbell is 2 µs after the begin "
                            "of the run (time axis of a trace).", [
        ["host read </script><b>", "host", "0", "50 cycles (200 ns)",
         "earlier reads 25 cycles (100 ns), tags & credits 4 cycles (16 ns)"],
        ["to the receiver", "fabric", "79", "1 cycle (4 ns)", "earlier packets 20 cycles (80 ns)"]])
    page.point(f"{bars}[0]", click=True)
    assert listed(page)[0].startswith("Message 4: 60 cycles")
    assert page.look(f"return [...{bars}].map(one => one.ariaPressed)") == ["true", "false"]
    assert page.look("return document.documentElement.scrollWidth") <= width
    assert page.complaints() == []
    page.close()


def listed(page):
    """Returns the text above the list of a message, and the cells of its rows."""
    return (page.look("return document.querySelector('.list p').textContent"),
            page.look("return [...document.querySelectorAll('.list tr')].slice(1).map("
                      "row => [...row.children].map(cell => cell.textContent))"))  # fmt: skip


def test_a_message_of_the_waterfall_begins_where_its_trace_does(browser, tmp_path):
    path = waterfall(tmp_path / "waterfall")
    fits(browser, path)
    sample = json.loads((path.parent / "summary.json").read_text())["shown"][0]["sample"]
    trace = json.loads((path.parent / "trace.json").read_text())["traceEvents"]
    begins = {}
    for event in trace:
        if event["ph"] == "X":
            number = event["args"]["message"]
            begins[number] = min(event["ts"], begins.get(number, event["ts"]))
    page = browser.open(path, 1600)
    for place, message in enumerate(sample["messages"]):
        page.point(f"document.querySelectorAll('.bar')[{place}]", click=True)
        text, rows = listed(page)
        number, latency, begin = re.match(
            r"Message (\d+): (\d+) cycles .* is ([\d.]+) µs", text).groups()
        assert (int(number), int(latency)) == (message["message"], message["latency"])
        assert float(begin) == pytest.approx(begins[message["message"]], abs=0.001)
        assert [row[:2] for row in rows] == [[one["stage"], one["place"]]
                                             for one in sample["stages"]]  # fmt: skip
    assert page.complaints() == []
    page.close()
