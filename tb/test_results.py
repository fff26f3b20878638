"""The verdict beside each line of the plan is that of its tests; holes fail a whole run."""

import json

import pytest
from testplan import Entry, Test

from tb import results

BENCH = Test("order", "tb/unit/skid_tests.py", "unit", "common.skid.order")
PLAIN = Test("test_order", "model/tests/test_skid.py", "pytest", None)
SIMS = ["verilator", "icarus"]


def rows(found, tests=(BENCH,), by=None):
    """Rows of a plan of one line."""
    entry = Entry("common.skid", "order stays", by=by)
    keyed = {(t.file, t.name, sim): verdicts for t, sim, verdicts in found}
    return results.on_the_plan([(entry, list(tests))], keyed, SIMS)


def test_a_line_has_the_worst_verdict_of_its_tests():
    (row,) = rows(
        [(BENCH, "verilator", ["passed", "failed"]), (BENCH, "icarus", ["passed"]),
         (PLAIN, results.PYTHON, ["passed"])],
        (BENCH, PLAIN),
    )  # fmt: skip
    assert (row["verilator"], row["icarus"], row["python"]) == ("failed", "passed", "passed")


@pytest.mark.parametrize(
    ("found", "hole"),
    [
        ([(BENCH, "verilator", ["passed"])], None),
        ([(BENCH, "verilator", ["passed"]), (BENCH, "icarus", ["skipped"])], None),
        ([(BENCH, "icarus", ["passed"])], "did not run (verilator)"),
        ([(BENCH, "verilator", ["skipped"])], "no passing test"),
        ([], "no passing test"),
    ],
)
def test_what_must_run_runs_on_verilator(found, hole):
    wrong = results.holes(rows(found), SIMS)
    assert bool(wrong) == (hole is not None)
    assert hole is None or hole in wrong[0] or hole in wrong[-1]


def test_a_line_that_something_else_runs_is_no_hole():
    assert results.holes(rows([], by="make bench-sim"), SIMS) == []


def test_verdicts_of_simulations_are_collected(tmp_path, monkeypatch):
    monkeypatch.setenv(results.FOLDER, str(tmp_path))
    results.note("tb.unit.skid_tests", "icarus", {"order": "passed"})
    results.note("tb.unit.skid_tests", "icarus", {"order": "failed"})
    found = results.collect(tmp_path)
    assert sorted(found[BENCH.file, "order", "icarus"]) == ["failed", "passed"]
    monkeypatch.delenv(results.FOLDER)
    results.note("tb.unit.skid_tests", "icarus", {"order": "passed"})
    assert len(list(tmp_path.iterdir())) == 2


def test_the_page_tells_holes_and_what_was_left_out(tmp_path):
    table = rows([(BENCH, "verilator", ["passed"]), (BENCH, "icarus", ["skipped"])])
    page = results.write(tmp_path / "test", table, SIMS, 7, ["common.skid: a hole"])
    text = page.read_text()
    assert "common.skid: a hole" in text and "order (icarus)" in text and "Seed 7" in text
    summary = json.loads((tmp_path / "test" / "summary.json").read_text())
    assert summary["counts"]["verilator"]["passed"] == 1
    assert summary["plan"][0]["tests"]["tb/unit/skid_tests.py: order"]["icarus"] == "skipped"
