# SPDX-License-Identifier: Apache-2.0
"""Tests the report of the transport on fabrics with faults: measurements, targets, files."""

import csv
import json
from dataclasses import replace

import pytest

from efa_cosim.cli.main import main
from efa_cosim.measure import lossy
from efa_cosim.measure.record import Mismatch

OURS, TWIN = lossy.ENGINES


@pytest.mark.parametrize("loss", [0.0, 0.01])
def test_goodput_is_a_share_of_the_line_that_loss_leaves(loss):
    ours, twin = (lossy.goodput(8000, engine, loss, 1) for engine in (OURS, TWIN))
    for row in (ours, twin):
        assert 0.3 < row.value < 1.02 and row.unit == "of (1 - loss) x line"
        assert (row.configuration["lost"] > 0) == (loss > 0)
    assert (ours.target, twin.target) == (lossy.GOODPUT.get(loss), None)
    if loss:
        assert ours.value > 1.5 * twin.value
        assert ours.configuration["sent_again"] < twin.configuration["sent_again"] / 10
        assert lossy.sent_again(ours).value <= lossy.SENT_AGAIN
    else:
        assert ours.value == pytest.approx(1, abs=0.01) == twin.value


def test_completion_times_begin_at_a_round_trip():
    rows, curve = lossy.completion_times(3000, OURS, 0.0, 1)
    assert {row.value for row in rows} == {lossy.ROUND_TRIP}
    rows, curve = lossy.completion_times(3000, OURS, 0.01, 1)
    p50, p90, p99, p999 = (row.value for row in rows)
    assert lossy.ROUND_TRIP == p50 <= p90 <= p99 <= p999
    assert p999 > 1.5 * lossy.ROUND_TRIP
    assert (curve.x[0], curve.y[0], curve.y[-1]) == (1, 0, 1)


def test_a_path_fails_and_the_others_carry_on():
    row, curve = lossy.path_failure(2000, OURS, 1)
    first = row.configuration["fails"] // lossy.ROUND_TRIP
    assert 0 <= row.value <= lossy.RECOVERY_TRIPS
    # The failure is seen, and nothing is lost by it.
    assert min(curve.y[first : first + 6]) < 0.97 < max(curve.y[first + 6 : 2 * first])


def test_sixteen_senders_share_the_line():
    rows, shares = lossy.incast(8000, OURS, 1)
    assert len(shares) == lossy.SENDERS and sum(shares) == pytest.approx(1)
    fairness, goodput, queue = rows
    assert fairness.value > 0.9 and goodput.value > 0.9
    assert lossy.incast(8000, TWIN, 1)[0][2].value > 2 * queue.value


def test_a_missed_target_is_named():
    row = lossy.goodput(2000, OURS, 0.0, 1)
    assert lossy.misses([row]) == []
    [text] = lossy.misses([replace(row, value=0.5, target=0.99)])
    assert "goodput (mean), reliable transport" in text and "target at least 0.99" in text
    late = replace(row, metric="completion time", value=30_000, target=20_000, unit="cycles")
    assert "target at most 2e+04" in lossy.misses([late])[0]


@pytest.mark.parametrize(("engine", "text"), [(OURS, "ONCE"), (TWIN, "and 4000 executions")])
def test_a_message_that_arrives_twice_is_no_measurement(monkeypatch, engine, text):
    execute = lossy.Bench._execute

    def twice(bench, packet):
        execute(bench, packet)
        return execute(bench, packet)

    monkeypatch.setattr(lossy.Bench, "_execute", twice)
    with pytest.raises(Mismatch, match=text):
        lossy.goodput(2000, engine, 0.0, 1)


def test_the_command_writes_numbers_and_pictures(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(lossy, "LOSSES", (0.0, 1e-3))
    code = main(["fabric-report", "--packets", "3000", "--seed", "2", "--out", str(tmp_path)])
    summary = json.loads((tmp_path / "summary.json").read_text())
    missed = list(summary["differences"])
    assert code == bool(missed) and (summary["verdict"] == "failed") == bool(missed)
    out = capsys.readouterr().out
    assert out.count("missed: ") == len(missed) and ", 0 packets checked" not in out
    rows = list(csv.DictReader((tmp_path / "measurements.csv").open()))
    assert len(rows) == len(summary["measurements"])
    assert {row["subject"] for row in rows} == {OURS, TWIN}
    assert {row["seed"] for row in rows} == {"2"}
    for name in ("goodput", "completion", "failure", "incast"):
        assert "<svg" in (tmp_path / f"{name}.svg").read_text()
    assert "not drawn" not in (tmp_path / "index.html").read_text()


@pytest.mark.parametrize("arguments", [["--packets", "1999"], ["--packets", "x"], ["--seed", "-1"]])
def test_wrong_arguments_are_refused(arguments):
    with pytest.raises(SystemExit) as refused:
        main(["fabric-report", *arguments])
    assert refused.value.code == 2
