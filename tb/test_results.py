# SPDX-License-Identifier: Apache-2.0
"""Tests the result of each line of the plan; a hole fails a complete run."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from testplan import Entry, Test

from tb import results, times
from tb.simulators import ROOT

BENCH = Test("order", "tb/unit/skid_tests.py", "unit", "common.skid.order")
PLAIN = Test("test_order", "model/tests/test_skid.py", "pytest", None)
SIMS = ["verilator", "icarus"]


def rows(found, tests=(BENCH,), by=None):
    """Returns the rows of a plan of one line."""
    entry = Entry("common.skid", "order stays", by=by)
    keyed = {(t.file, t.name, sim): verdicts for t, sim, verdicts in found}
    return results.on_the_plan([(entry, list(tests))], keyed, SIMS)


def test_a_line_has_the_worst_status_of_its_tests():
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


def test_statuses_of_simulations_are_collected(tmp_path, monkeypatch):
    monkeypatch.setenv(results.FOLDER, str(tmp_path))
    results.note("tb.unit.skid_tests", "icarus", {"order": "passed"})
    results.note("tb.unit.skid_tests", "icarus", {"order": "failed"})
    found = results.collect(tmp_path)
    assert sorted(found[BENCH.file, "order", "icarus"]) == ["failed", "passed"]
    monkeypatch.delenv(results.FOLDER)
    results.note("tb.unit.skid_tests", "icarus", {"order": "passed"})
    assert len(list(tmp_path.iterdir())) == 2


def test_the_page_reports_holes_and_what_was_left_out(tmp_path):
    table = rows([(BENCH, "verilator", ["passed"]), (BENCH, "icarus", ["skipped"])])
    page = results.write(tmp_path / "test", table, SIMS, 7, ["common.skid: a hole"],
                         "verdict: failed on one simulator")  # fmt: skip
    text = page.read_text()
    assert "Verdict: failed on one simulator." in text
    assert "common.skid: a hole" in text and "order (icarus)" in text and "Seed 7" in text
    summary = json.loads((tmp_path / "test" / "summary.json").read_text())
    assert summary["counts"]["verilator"]["passed"] == 1
    assert summary["plan"][0]["tests"]["tb/unit/skid_tests.py: order"]["icarus"] == "skipped"


@pytest.mark.parametrize(
    ("passed", "counts", "unused", "line"),
    [
        (True, {"verilator": {"passed": 3}, "icarus": {"passed": 2, "skipped": 1}}, {},
         "verdict: passed on two simulators"),
        (False, {"verilator": {"passed": 3}, "icarus": {"failed": 1}}, {},
         "verdict: failed on two simulators"),
        (True, {"verilator": {"passed": 3}, "icarus": {"skipped": 170}},
         {"icarus": "not installed"},
         "verdict: passed on one simulator (verilator only; icarus: not installed), "
         "170 tests skipped for it"),
        (True, {"verilator": {"passed": 3}}, {"icarus": "not requested"},
         "verdict: passed on one simulator (verilator only; icarus: not requested)"),
        (False, {"icarus": {"skipped": 9}}, {"icarus": "not installed"},
         "verdict: failed, no simulator ran (icarus: not installed)"),
    ],
)  # fmt: skip
def test_the_status_says_on_how_many_simulators(passed, counts, unused, line):
    assert results.verdict(passed, counts, unused) == line


@pytest.fixture
def run_tests(tmp_path):
    """Runs two tests that need a simulator under the bench's conftest; returns code and lines."""
    (tmp_path / "test_toy.py").write_text(
        "def test_one(sim):\n    pass\n\n\ndef test_two(sim):\n    pass\n"
    )

    def run(*arguments, programs=("g++", "make", "iverilog", "vvp")):
        path = tmp_path / "bin"
        path.mkdir()
        for program in programs:
            (path / program).symlink_to(shutil.which(program) or "/bin/true")
        paths = os.pathsep.join(str(ROOT / part) for part in ("", "model", "tools"))
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "tb.conftest", "-p", "no:cacheprovider",
             "-c", os.devnull, f"--rootdir={tmp_path}", str(tmp_path / "test_toy.py"), *arguments],
            env={"PATH": str(path), "PYTHONPATH": paths}, capture_output=True, text=True,
        )  # fmt: skip
        return done.returncode, (done.stdout + done.stderr).strip().splitlines()

    return run


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "workers"])
def test_a_run_ends_with_the_status(run_tests, workers):
    code, lines = run_tests(*workers)
    assert (code, lines[-1]) == (0, "verdict: passed on two simulators")


def test_a_run_without_icarus_ends_with_one_simulator(run_tests):
    code, lines = run_tests(programs=("g++", "make"))
    assert code == 0
    assert lines[-1] == (
        "verdict: passed on one simulator (verilator only; icarus: iverilog is not installed "
        "(apt install iverilog)), 2 tests skipped for it"
    )


def test_a_run_in_which_no_simulator_ran_is_not_green(run_tests):
    code, lines = run_tests("--sim", "icarus", programs=("g++", "make"))
    assert code == 2
    assert lines[-1].startswith("verdict: failed, no simulator ran (")


@pytest.mark.parametrize("chosen", ["foo", "verilator,foo", ""])
def test_an_unknown_simulator_is_wrong_usage(run_tests, chosen):
    code, lines = run_tests("--sim", chosen)
    assert code == 2
    assert "is no simulator; expected verilator or icarus" in "\n".join(lines)
    make = ["make", "-n", f"SIM={chosen}", "test"]
    done = subprocess.run(make, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert f"SIM={chosen}" in done.stderr and "expected verilator or icarus" in done.stderr


def test_a_run_measures_each_test_with_the_programs_that_it_starts(tmp_path):
    (tmp_path / "test_toy.py").write_text(
        "import subprocess, sys\n\n\n"
        "def test_busy():\n"
        "    code = 'sum(range(20_000_000))'\n"
        "    subprocess.run([sys.executable, '-c', code], check=True)\n\n\n"
        "def test_idle():\n    pass\n"
    )
    (tmp_path / "conftest.py").write_text(
        "from tb import times\nfrom tb.conftest import CLOCK\n\n\n"
        "def pytest_unconfigure(config):\n"
        "    if not hasattr(config, 'workerinput'):\n"
        "        found = config.stash[CLOCK].tests\n"
        "        times.write(config.rootpath, found)\n"
        "        print('\\n'.join(times.lines(found)))\n"
    )
    paths = os.pathsep.join(str(ROOT / part) for part in ("", "model", "tools"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tb.conftest", "-p", "no:cacheprovider",
         "-c", os.devnull, f"--rootdir={tmp_path}", str(tmp_path / "test_toy.py"), "-n", "2"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": paths}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    head, first, second = (tmp_path / "times.csv").read_text().splitlines()
    assert head == "test,simulator,processor_seconds"
    assert first.startswith("test_toy.py::test_busy,,") and float(first.rpartition(",")[2]) > 0.05
    assert second.startswith("test_toy.py::test_idle,,")
    assert float(second.rpartition(",")[2]) < float(first.rpartition(",")[2])
    assert "processor time of the tests: " in done.stdout and "    2 tests" in done.stdout


def test_the_table_of_times_has_the_share_of_each_part():
    found = [("tb/unit/test_unit.py::test_unit[icarus-cq]", "icarus", 6.0),
             ("tb/unit/test_unit.py::test_unit[verilator-cq]", "verilator", 1.0),
             ("model/tests/test_ring.py::test_one", None, 1.0),
             ("model/tests/test_send.py::test_two", None, 2.0)]  # fmt: skip
    assert times.lines(found) == [
        "processor time of the tests: 10 s",
        "   60.0 %      6.0 s      1 tests  tb/unit icarus",
        "   30.0 %      3.0 s      2 tests  model/tests",
        "   10.0 %      1.0 s      1 tests  tb/unit verilator",
    ]
