# SPDX-License-Identifier: Apache-2.0
"""Tests the waterfall report: its data and its pictures."""

import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from efa_cosim.attribution.study import ALONE, study, ways
from efa_cosim.attribution.views import histogram
from efa_cosim.cli import main as cli
from efa_cosim.cycle.network import recorded
from efa_cosim.cycle.workload import Workload
from efa_cosim.layouts.defs import Perf, PerfStream
from efa_cosim.report import plots
from efa_cosim.report import waterfall_plots as pictures

pytestmark = pytest.mark.slow

WORK = Workload(size=64, queues=4, depth=4, batch=4, messages=256)


def counters(record):
    """Returns zero for every device counter."""
    return np.zeros((2, Perf.STREAM + 2 * len(PerfStream)), np.int64)


@pytest.fixture(scope="module")
def found():
    runner = lambda works: [(recorded(work), None) for work in works]  # noqa: E731
    return study(WORK, [64, 0], runner, lambda text: None, loads=(0.1, 0.4), depths=(1, 4))


def test_every_row_sums_to_its_mean_latency(found):
    summary, _ = found
    assert {(row["sq_host"], row["size"]) for row in summary["rows"]} == {(0, 0), (0, 64), (1, 64)}
    for row in summary["rows"]:
        parts = sum(stage["service"] + stage["wait"] for stage in row["stages"])
        assert parts == pytest.approx(row["mean"])
        assert row["messages"] == WORK.total
    assert summary["messages"] == sum(row["messages"] for row in summary["rows"])


def test_the_read_of_a_wqe_is_a_share_of_its_own(found):
    summary, _ = found
    consumed = set()
    for row in summary["rows"]:
        stages = [stage for stage in row["stages"] if stage["to"] == "wqe"]
        assert [stage["place"] for stage in stages] == ["host"] * row["sq_host"] + [
            "sending device"]
        consumed.add((stages[-1]["stage"], stages[-1]["service"]))
        if row["sq_host"]:
            assert stages[0]["service"] > WORK.read_latency
            assert "read" in stages[0]["stage"] and "scheduled" not in stages[0]["stage"]
            assert not stages[0]["waits"].keys() & stages[1]["waits"].keys()
        # Each share has exactly one colour.
        for stage in row["stages"]:
            keys = {stage["to"], (stage["to"], stage["place"])}
            assert sum(bool(keys & set(ends)) for _, _, ends in pictures.GROUPS) == 1
    # The scheduler stage is the same for both locations of the send queue.
    assert len(consumed) == 1


def test_the_messages_shown_sum_to_their_latency(found):
    summary, text = found
    assert [(one["workload"]["sq_host"], one["load"]) for one in summary["shown"]] == [
        (0, None), (0, 0.4), (1, None)]
    for shown in summary["shown"]:
        for one in shown["of"]:
            assert sum(s["service"] + s["wait"] for s in one["stages"]) == one["latency"]
            assert all(s["wait"] == sum(s["waits"].values()) for s in one["stages"])
    assert json.loads(text)["traceEvents"]


def test_the_ways_of_a_run_are_a_message_alone_and_two_under_load():
    alone, loaded = ways(WORK, lambda works: [(recorded(work), None) for work in works])
    assert alone["messages"] == ALONE and loaded["messages"] == WORK.total
    assert [len(one["of"]) for one in (alone, loaded)] == [1, 2]
    assert not any(stage["wait"] for stage in alone["of"][0]["stages"])
    assert any(stage["wait"] for stage in loaded["of"][1]["stages"])
    assert "alone on the device" in plots.waterfall(alone, "model")


def test_pictures_say_how_many_messages(found):
    summary, _ = found
    texts = [plots.waterfall(one, "model") for one in summary["shown"]]
    texts.append(pictures.shares(summary["rows"], "model"))
    rows = [row for row in summary["rows"] if row["size"] == 64]
    texts.append(pictures.causes(rows, "model", pictures.order(rows)))
    for text in texts:
        assert ET.fromstring(text).tag.endswith("svg")
        assert "messages" in text and "cycles" in text


def test_counters_that_differ_are_reported():
    def run(works):
        return [(recorded(work), counters(work)) for work in works]

    summary, _ = study(WORK, [], run, lambda text: None, loads=(0.1,), depths=(1,))
    assert summary["perf_counters"]["agree"] is False
    assert "DO NOT AGREE" in pictures.perf_counters(
        {**summary["perf_counters"], "histograms": summary["perf_counters"]["histograms"][2:],
         "streams": [{**row, "beats": 1} for row in summary["perf_counters"]["streams"]]}
        | {"histograms": [{"device": [1], "beside": [2], "name": "x", "unit": "a, b",
                           "by": "bench"}]}, "model")


def test_numbers_in_time_fall_into_buckets():
    assert histogram([(0, 0), (5, 1), (8, 3), (10, 40_000)], 11) == [5, 3, 2] + [0] * 12 + [1]


@pytest.mark.parametrize("wrong", [["--queues", "0"], ["--size", "65537"], ["--backend", "none"],
                                   ["--operation", "ATOMIC"]])
def test_wrong_usage_is_refused(wrong, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["waterfall", *wrong])
    assert ended.value.code == 2
    assert "efa-cosim" in capsys.readouterr().err


def test_a_size_beyond_the_operation_is_refused(capsys):
    assert cli.main(["waterfall", "--size", "5000"]) == 2
    assert "size 5000 with operation SEND: expected at most 4096" in capsys.readouterr().err


@pytest.mark.parametrize("operation", ["READ", "WRITE"])
def test_rdma_operations_have_a_report(operation, tmp_path, capsys):
    arguments = ["--backend", "cycle", "--operation", operation, "--size", "8192", "--sizes", "64",
                 "--queues", "4", "--depth", "4", "--messages", "64", "--net-latency", "500"]
    assert cli.main(["waterfall", *arguments, "--out", str(tmp_path)]) == 0, capsys.readouterr().err
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert {row["workload"]["operation"] for row in summary["rows"]} == {operation}
    waits = {one["cause"] for row in summary["rows"] for one in row["causes"]}
    assert "other packets of the message" in waits


def test_messages_that_are_sent_again_fail_the_report(tmp_path, capsys):
    arguments = ["--backend", "cycle", "--size", "8", "--sizes", "8", "--queues", "1",
                 "--depth", "128", "--messages", "256", "--rd-latency", "4000"]
    assert cli.main(["waterfall", *arguments, "--out", str(tmp_path)]) == 1
    assert "no retransmissions" in capsys.readouterr().err


def test_a_run_that_is_not_attributed_fails(monkeypatch, capsys, tmp_path):
    import efa_cosim.cycle.network

    def wrong(work):
        record = recorded(work)
        record.timelines["tx_first"][3] += 1
        return record

    monkeypatch.setattr(efa_cosim.cycle.network, "recorded", wrong)
    out = tmp_path / "report"
    assert cli.main(["waterfall", "--backend", "cycle", "--messages", "64", "--out", str(out)]) == 1
    assert "message 3" in capsys.readouterr().err
    assert not out.exists()
