# SPDX-License-Identifier: Apache-2.0
"""Tests regressions: the list and its errors, verdicts, table and page, stored results."""

import csv
import json
from types import SimpleNamespace

import pytest

from efa_cosim.cli import regress
from efa_cosim.cli.main import main
from efa_cosim.jobs.job import Limits
from efa_cosim.regress import table
from efa_cosim.regress.runs import Run, read_list
from efa_cosim.report import regress_page
from efa_cosim.report.document import MOST_ROWS
from efa_cosim.sweep.grid import GridError

BOTH = ("verilator", "icarus")
BENCH = SimpleNamespace(variants=({},), simulators=BOTH)
DEEP = SimpleNamespace(variants=({"DEPTH": 1}, {"DEPTH": 3}), simulators=BOTH)
FUZZ = SimpleNamespace(variants=({},), simulators=("model",))
KINDS = {"unit": {"arb": BENCH, "fifo": DEEP}, "system": {"send": BENCH}, "fuzz": {"short": FUZZ}}
# A run fails by its seed: 2 always, 3 at the first attempt, 4 without an answer.
TEXT = """
open(f"{folder}/{{job['name']}}-{{job['simulator']}}-{{job['seed']}}-{{job['attempt']}}", "x")
if job["seed"] == 4:
    time.sleep(600)
failed = job["seed"] == 2 or (job["seed"] == 3 and job["attempt"] == 1)
print(json.dumps([{{"verdict": "failed" if failed else "passed", "machine": "here",
                   "reason": "count: expected 1, found 2" if failed else ""}}]))
"""
LIST = """\
simulators: [verilator, icarus]
seeds: [1, 2, 3]
seconds: 5
tests:
  - unit: arb
  - system: send
    simulators: icarus
    seeds: [1, 5]
"""


@pytest.fixture
def listed(tmp_path):
    """Returns a function that writes a list; returns its path."""

    def made(text):
        path = tmp_path / "some.yaml"
        path.write_text(text)
        return path

    return made


# The list

def test_a_list_is_tests_by_parameters_simulators_and_seeds(listed):
    found = read_list(listed("seeds: [1, 7]\nseconds: 60\nmegabytes: 500\ntests:\n"
                             "  - unit: [arb, fifo]\n    simulators: [icarus]\n"
                             "  - fuzz: short\n    simulators: model\n    seeds: 3\n"), KINDS)
    deep = [("unit", "fifo", (("DEPTH", depth),), "icarus", seed)
            for depth in (1, 3) for seed in (1, 7)]
    assert found.runs == tuple(Run(*one) for one in (
        ("unit", "arb", (), "icarus", 1), ("unit", "arb", (), "icarus", 7), *deep,
        ("fuzz", "short", (), "model", 3)))  # fmt: skip
    assert found.limits == Limits(60.0, 500)
    assert [run.seed for run in found.from_seed(100).runs] == [100, 101, 100, 101, 100, 101, 100]


@pytest.mark.parametrize(("text", "error"), [
    ("tests: 3", "1: `tests` must be a list, such as `- unit: [fifo, skid]`"),
    ("seeds: 1", "1: `tests` must be a list"),
    ("", "1: expected a mapping with keys of "),
    ("test:\n  - unit: arb", "1: unknown key 'test'; did you mean 'tests'?"),
    ("tests:\n  - unit: arb\n    units: fifo", "3: unknown key 'units'; did you mean 'unit'?"),
    ("tests:\n  - unit: arp", "2: unit: 'arp' is not allowed, must be a test of kind unit; did you "
     "mean 'arb'?"),
    ("tests:\n  - unit: [arb,\n           5]", "3: unit: '5' is not allowed, must be a test of "
     "kind unit; known are arb, fifo"),
    ("tests:\n  - seeds: 1", "2: the entry names no test; expected one of unit, system, fuzz"),
    ("tests:\n  - unit: arb\n    system: send", "3: 'system' beside 'unit'; write an entry for"),
    ("tests:\n  - fuzz: short", "2: fuzz short does not run on verilator; write `simulators: [model"
     "]` into its entry"),
    ("tests:\n  - unit: arb\n  - unit: arb", "2: unit arb, verilator, seed 1 is in the list twice"),
    ("seconds: [1, 2]\ntests:\n  - unit: arb", "1: seconds: expected one value"),
    ("seeds: -1\ntests:\n  - unit: arb", "1: seeds: '-1' is not allowed, must be a whole number"),
    ("tests:\n  - unit: arb\n    seeds: [1", "3: no YAML: "),
    ("tests:\n  - unit: arb\ntests: []", "3: 'tests' a second time"),
])
def test_a_wrong_list_is_refused_with_line_and_key(listed, text, error):
    path = listed(text)
    with pytest.raises(GridError) as refused:
        read_list(path, KINDS)
    assert str(refused.value).startswith(f"{path}:{error}")


# Runs

@pytest.fixture
def benches(tmp_path, entry, monkeypatch):
    """Makes a run write a file with its name and fail by its seed; returns the names so far."""
    (tmp_path / "ran").mkdir()
    monkeypatch.setattr(regress, "FOLDER", tmp_path / "stored")
    monkeypatch.setattr(regress, "ENTRY", entry(TEXT.format(folder=tmp_path / "ran")))
    known = SimpleNamespace(KINDS=KINDS, repeat=lambda run: f"again {run.name} {run.seed}")
    monkeypatch.setattr(regress, "benches", lambda: known)
    return lambda: sorted(path.name for path in (tmp_path / "ran").iterdir())


def rows_of(folder):
    return list(csv.DictReader((folder / "results.csv").open()))


def test_the_table_has_a_verdict_for_each_run_and_the_line_that_repeats_it(
        listed, benches, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["regress", str(listed(LIST)), "--jobs", "2", "--out", str(out)]) == 1
    assert [tuple(row.values()) for row in rows_of(out)] == [
        ("unit arb", "verilator", "1", "passed", ""),
        ("unit arb", "verilator", "2", "failed", "again arb 2"),
        ("unit arb", "verilator", "3", "flaky", "again arb 3"),
        ("unit arb", "icarus", "1", "passed", ""),
        ("unit arb", "icarus", "2", "failed", "again arb 2"),
        ("unit arb", "icarus", "3", "flaky", "again arb 3"),
        ("system send", "icarus", "1", "passed", ""),
        ("system send", "icarus", "5", "passed", ""),
    ]
    text = capsys.readouterr()
    assert text.out.splitlines()[-1] == (
        f"failed: 8 runs: 4 passed, 2 failed, 2 flaky, report: {out / 'index.html'}")
    assert "failed: unit arb, verilator, seed 2: count: expected 1, found 2\n    again arb 2" in (
        text.err)
    summary = json.loads((out / "summary.json").read_text())
    assert [run["attempts"] for run in summary["runs"]] == [1, 2, 2, 1, 2, 2, 1, 1]
    assert all(run["seconds"] > 0 and run["machine"] == "here" for run in summary["runs"])
    assert [{**row, "seconds": 0} for row in summary["tests"]] == [
        {"test": test, "simulator": simulator, "passed": passed, "failed": bad, "flaky": bad,
         "seconds": 0} for test, simulator, passed, bad in (
            ("unit arb", "verilator", 1, 1), ("unit arb", "icarus", 1, 1),
            ("system send", "icarus", 2, 0))]  # fmt: skip
    page = (out / "index.html").read_text()
    assert "failed: 8 runs: 4 passed, 2 failed, 2 flaky" in page
    assert "at most 5 s and 8,192 MB for each run" in page
    assert page.index(">again arb 2</td>") < page.index(">again arb 3</td>")
    assert "<td>unit arb</td><td>icarus</td><td>1</td><td>1</td><td>1</td>" in page
    for name in ("results.csv", "seconds.csv", "summary.json"):
        assert (out / name).exists() and f'href="{name}"' in page
    picture = (out / "runs.svg").read_text()
    assert "1 failed, 1 flaky of 3" in picture and "2 passed" in picture and picture in page
    assert [len(row) for row in csv.reader((out / "seconds.csv").open())] == [6] * 9


def test_the_page_of_a_long_list_is_short_and_shows_the_worst_tests_first(tmp_path):
    def result(number, seed):
        verdict = {(150, 2): table.FAILED, (170, 1): table.FLAKY}.get((number, seed), table.PASSED)
        bad = verdict != table.PASSED
        return table.Result(Run("unit", f"block_{number:03}", (), "icarus", seed), verdict, 1 + bad,
                            float(number), "here", "again <it>" * bad, "x" * 500 * bad)

    results = [result(number, seed) for number in range(200) for seed in range(10)]
    page = regress_page.write(tmp_path, "long", "command", Limits(), results)
    text = page.read_text()
    assert text.count("<tr>") == 2 + 2 + MOST_ROWS
    order = [text.index(f"block_{number}") for number in (150, 170, 199, 198)]
    assert order == sorted(order) and "block_000" not in text
    assert "The first 40 of 200 rows; summary.json has all of them." in text
    assert "again &lt;it&gt;" in text and "x" * 200 not in text
    assert len(json.loads((tmp_path / "summary.json").read_text())["runs"]) == 2000


def test_the_table_has_the_same_bytes_in_another_order_of_the_runs(listed, benches, tmp_path):
    path = listed(LIST)
    for name, jobs in (("one", "1"), ("three", "3")):
        main(["regress", str(path), "--jobs", jobs, "--out", str(tmp_path / name)])
        for mark in (tmp_path / "ran").iterdir():
            mark.unlink()
        (tmp_path / "stored").rename(tmp_path / f"stored-{name}")
    assert (tmp_path / "one/results.csv").read_bytes() == (
        tmp_path / "three/results.csv").read_bytes()


def test_an_interrupted_regression_resumes(listed, benches, monkeypatch, tmp_path, capsys):
    path = listed(LIST)

    def interrupted(_progress, text):
        # The first attempt of a flaky run is stored, its second one is not.
        if "runs again: unit arb, icarus, seed 3" in text:
            raise KeyboardInterrupt

    fail = regress.Progress.fail
    monkeypatch.setattr(regress.Progress, "fail", interrupted)
    command = ["regress", str(path), "--jobs", "1", "--out", str(tmp_path / "out")]
    assert main(command) == 130
    before = benches()
    assert "arb-icarus-3-1" in before and "arb-icarus-3-2" not in before
    assert not (tmp_path / "out/results.csv").exists()
    monkeypatch.setattr(regress.Progress, "fail", fail)
    # Each run marks its start with a new file: one that runs twice would fail.
    assert main(command) == 1
    assert "stored" in capsys.readouterr().err
    assert [row["verdict"] for row in rows_of(tmp_path / "out")] == [
        "passed", "failed", "flaky", "passed", "failed", "flaky", "passed", "passed"]
    everything = benches()
    assert len(everything) == 12 and set(before) < set(everything)
    assert main(command) == 1 and benches() == everything
    assert main([*command, "--fresh"]) == 1
    # The marks are there: now every first attempt ends badly.
    assert "passed" not in {row["verdict"] for row in rows_of(tmp_path / "out")}


def test_a_run_beyond_its_time_fails_and_is_not_stored(listed, benches, tmp_path, capsys):
    path = listed("seconds: 1\ntests:\n  - unit: arb\n    seeds: 4\n")
    command = ["regress", str(path), "--out", str(tmp_path / "out")]
    assert main(command) == 1
    assert "the job exceeded its limit of 1 s and was ended" in capsys.readouterr().err
    assert not list((tmp_path / "stored").glob("*/*.json"))


def test_a_first_attempt_that_is_repeated_and_passes_is_not_flaky(listed, entry, benches,
                                                                  monkeypatch, tmp_path):
    path = listed("tests:\n  - unit: arb\n")
    command = ["regress", str(path), "--out", str(tmp_path / "out")]
    answer = "print('[{\"verdict\": \"passed\", \"machine\": \"\", \"reason\": \"\"}]')"
    entry(f"if job['attempt'] == 1: sys.exit('no memory')\n{answer}")
    assert main(command) == 1
    assert [row["verdict"] for row in rows_of(tmp_path / "out")] == ["flaky"]
    entry(answer)
    assert main(command) == 0
    assert [row["verdict"] for row in rows_of(tmp_path / "out")] == ["passed"]


def test_seeds_from_the_command_line_are_new_runs(listed, benches, tmp_path):
    path = listed("tests:\n  - unit: arb\n    seeds: [1, 5]\n")
    assert main(["regress", str(path), "--seed", "6", "--out", str(tmp_path / "out")]) == 0
    assert benches() == ["arb-verilator-6-1", "arb-verilator-7-1"]


def test_a_regression_without_simulator_ends_with_2(listed, entry, monkeypatch, benches, tmp_path,
                                                    capsys):
    monkeypatch.setattr(regress, "ENTRY", entry("sys.stderr.write('no g++'); sys.exit(2)"))
    assert main(["regress", str(listed(LIST)), "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "efa-cosim: no g++"


def test_a_list_that_is_not_there_is_answered_with_the_known_lists(capsys):
    assert main(["regress", "absent.yaml"]) == 2
    assert "no such file; expected a file such as sim/regress/cluster.yaml, " in (
        capsys.readouterr().err)
