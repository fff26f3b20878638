# SPDX-License-Identifier: Apache-2.0
"""Tests the write-combine laboratory: every bug is found and named, correct code raises no alarm,
and a bug without observable effect leaves a trace that correct code can produce."""

import json
import os
import subprocess
import sys

import pytest

from efa_cosim.backends import open_backend
from efa_cosim.cli import lab
from efa_cosim.cli import main as cli
from efa_cosim.device.datapath import Datapath
from efa_cosim.host.wc import POLICIES, StoreBuffer
from efa_cosim.report import lab_plots as plots
from efa_cosim.wclab import matrix
from efa_cosim.wclab.bench import run
from efa_cosim.wclab.bugs import BUGS
from efa_cosim.wclab.matrix import LINES, LINES_OF_BUGS, ROWS, buffer_of, outcome
from efa_cosim.wclab.verdict import VERDICTS

pytestmark = pytest.mark.slow

SEEDS = 3
# Bugs that no store buffer hides: their trace differs from a correct trace under each policy.
ALWAYS_SEEN = [bug for bug in BUGS if bug not in ("no_fence", "fence_early")]
DEVICE_REPORTS = [bug for bug in BUGS if bug not in ("batch_over", "doorbell_lost")]


@pytest.fixture
def seed():
    """A fixed seed; `make wc-lab SEED=` uses other seeds."""
    return 1


def played(bug, buffer, seed):
    with open_backend("model", record=True) as backend:
        return run(backend, bug, buffer, seed)


def record(text, **more):
    return text.as_dict() | {"hidden": text.hidden, "right": text.right, "identical": False} | more


@pytest.mark.parametrize("row", ROWS, ids=lambda row: matrix.row_name(*row))
def test_correct_code_raises_no_alarm(row, seed):
    for number in range(len(LINES)):
        text = played(None, buffer_of(None, *row, seed + number), seed + number)
        assert not matrix.false_alarm(record(text)), text
        assert text.sent > 200


@pytest.mark.parametrize("policy", [policy for policy in POLICIES if policy != "ideal"])
@pytest.mark.parametrize("bug", BUGS)
def test_every_bug_is_found_and_named(bug, policy, seed):
    for number in range(SEEDS):
        text = played(bug, buffer_of(bug, policy, True, seed + number), seed + number)
        assert text.verdict == bug, text
        assert text.breach
        assert bool(text.device) == (bug in DEVICE_REPORTS)
        assert not text.garbage or bug in matrix.UNKNOWABLE


@pytest.mark.parametrize("bug", ALWAYS_SEEN)
def test_no_store_buffer_hides_what_is_wrong_in_the_program(bug, seed):
    for policy, overtakes in (("ideal", True), ("ideal", False), ("random", False)):
        text = played(bug, buffer_of(bug, policy, overtakes, seed), seed)
        assert (text.verdict, bool(text.breach)) == (bug, True)


@pytest.mark.parametrize("row", [row for row in ROWS if row[0] == "ideal" or not row[1]],
                         ids=lambda row: matrix.row_name(*row))
def test_a_missing_fence_that_nothing_needs_leaves_the_trace_of_correct_code(row, seed):
    buffer = buffer_of("no_fence", *row, seed)
    text = played("no_fence", buffer, seed)
    assert text.hidden and text.verdict == "clean"
    assert text.digest == played(None, buffer, seed).digest
    early = played("fence_early", buffer, seed)
    assert early.hidden and early.verdict == "clean"


def test_two_threads_can_mix_wqes_in_a_slot_without_an_error(seed):
    # Two threads write at the same time: after enough runs, a packet carries bytes of both.
    garbage = [played("two_threads", StoreBuffer("ideal"), seed + n).garbage for n in range(10)]
    assert any(garbage)


def test_a_device_that_sends_incomplete_wqes_fails_the_cell(monkeypatch):
    take = Datapath.take_wqe
    monkeypatch.setattr(Datapath, "take_wqe", lambda self, qp: (take(self, qp)[0], True))
    runs = [record(played("half_entry", "random/4/overtakes", seed)) for seed in range(2)]
    assert all(one["garbage"] and one["verdict"] == "half_entry" for one in runs)
    found = matrix.summary(runs)
    [cell] = found["cells"]
    assert cell["state"] == matrix.FAILED and "never sent" in cell["reason"]


def test_the_same_run_again_is_the_same():
    first, again = (played("two_threads", "adversarial/8/overtakes", 5) for _ in range(2))
    assert first == again
    assert first.digest != played("two_threads", "adversarial/8/overtakes", 6).digest


# Combined results of runs

SILENT = {"verdict": "clean", "why": "", "device": {}, "breach": "incomplete", "hidden": False,
          "garbage": 0}


def test_each_outcome_has_its_name():
    text = record(played("no_fence", "random/8/overtakes", 1))
    assert outcome(text) == matrix.NAMED
    assert outcome(text | {"verdict": "fence_early"}) == matrix.DEVICE
    assert outcome(text | {"verdict": "fence_early", "device": {}}) == matrix.MISNAMED
    assert outcome(text | SILENT) == matrix.MISSED
    assert outcome(text | {"hidden": True}) == matrix.HIDDEN


def test_a_missed_bug_fails_with_the_line_that_repeats_it():
    runs = [record(played("no_fence", "random/8/overtakes", seed)) for seed in range(2)]
    runs[1] |= SILENT
    found = matrix.summary(runs)
    [wrong] = matrix.failures(found, [], ["no_fence"])
    assert "1 missed" in wrong
    assert "efa-cosim lab --one --bug no_fence --buffer random/8/overtakes --seed 1" in wrong


def test_a_bug_that_no_store_buffer_shows_fails():
    runs = [record(played("no_fence", "ideal", seed)) for seed in range(2)]
    found = matrix.summary(runs)
    assert found["cells"][0]["state"] == matrix.NOT_OBSERVABLE
    assert "possible with correct code" in found["cells"][0]["reason"]
    [wrong] = matrix.failures(found, [], ["no_fence"])
    assert "under no store buffer" in wrong
    assert not any(found["confusion"]["model"]["no_fence"].values())


@pytest.mark.parametrize("change", [
    {"verdict": "two_threads"}, {"device": {"doorbell refused": 1}}, {"breach": "stored twice"},
    {"right": False}])
def test_a_false_alarm_fails(change):
    found = matrix.summary([record(played(None, "random/8/overtakes", 1), **change)])
    assert found["correct"][0]["false_alarms"] == 1
    assert any("false alarms" in line for line in matrix.failures(found, [], []))


def test_jobs_cover_every_row_and_seed_once():
    for seeds, correct in ((20, 1000), (1, 1), (300, 30)):
        requested = [(job.backend, job.bug, row, seed)
                 for job in matrix.jobs(seeds, correct, "verilator", 3) if not job.cost
                 for row in job.rows for seed in range(job.first, job.end)]
        assert len(requested) == len(set(requested))
        assert len(requested) == len(ROWS) * (len(BUGS) * (seeds + 3) + correct + 3)


def test_the_sources_of_a_job_are_all_packages_that_it_uses():
    # A worker of a cluster compares these sources.
    program = ("import sys\nfrom efa_cosim.wclab.worker import Job, work\n"
               "work(Job('model', 'no_fence'))\n"
               "print(*{name.split('.')[1] for name in sys.modules if name[:10] == 'efa_cosim.'})")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    used = subprocess.run([sys.executable, "-c", program], env=environment, check=True, text=True,
                          capture_output=True).stdout.split()  # fmt: skip
    # Two modules that read files affect no result.
    assert {*used} - {"tree", "yaml_file"} == {*lab.USED}


def test_checker_and_switches_name_the_same_bugs():
    assert {*VERDICTS} == {*BUGS, "clean"}
    assert {*plots.TITLES} == {*VERDICTS, "correct"}
    assert min(LINES_OF_BUGS) > min(LINES)


# The command

def test_one_run_is_reported_in_words(capsys):
    assert cli.main(["lab", "--one", "--bug", "stale_phase", "--seed", "4"]) == 0
    out = capsys.readouterr().out
    assert "checker: stale_phase (queue" in out and "phase reported" in out
    assert cli.main(["lab", "--one"]) == 0
    assert "trace: possible with correct code" in capsys.readouterr().out


def test_a_store_buffer_that_is_none_is_usage(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["lab", "--one", "--buffer", "kind"])
    assert stop.value.code == 2
    assert "adversarial" in capsys.readouterr().err


def test_the_laboratory_writes_its_pictures_and_measurements(tmp_path, capsys):
    assert cli.main(["lab", "--bug", "no_fence", "--seeds", "1", "--correct", "1", "--rtl", "none",
                     "--jobs", "2", "--out", str(tmp_path)]) == 0
    assert "passed: 4 cells found, 6 not observable, 4 of 4" in capsys.readouterr().out
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["verdict"] == "passed" and summary["runs"] == 20
    assert len(summary["cells"]) == 10 and len(summary["cost"]) == 20
    for row in summary["cost"]:
        assert row["beats"] + row["doorbells"] >= row["limit"]
        assert row["policy"] in ("pressure", "adversarial") or row["beats"] * 64 == \
            row["entry_bytes"]
    for name, text in (("matrix", "not observable"), ("confusion", "no fence"),
                       ("cost", "Cost of a store buffer")):
        assert text in (tmp_path / f"{name}_model.svg").read_text()


def test_a_folder_that_cannot_be_is_usage(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert cli.main(["lab", "--out", str(tmp_path / "file" / "x")]) == 2
    assert "name another folder" in capsys.readouterr().err
