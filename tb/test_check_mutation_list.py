# SPDX-License-Identifier: Apache-2.0
"""Tests that the list of protection checks fits the tree, that misfits are reported, and how the
runs of a check give its verdict."""

import json
from types import SimpleNamespace

import check_mutation
import check_mutation_list
import check_mutation_page
import pytest

from efa_cosim.jobs.cluster import ClusterError
from efa_cosim.jobs.job import Finished
from tb import check_mutation_job, runner
from tb.check_mutation_job import Trial
from tb.runner import RunFailed

SOUND = check_mutation_list.read_checks()[0]


def changed(**fields):
    """Returns the first entry of the list, with changed fields."""
    return check_mutation_list.Check(**{**SOUND.__dict__, **fields})


def test_every_check_is_there_and_has_its_test():
    assert check_mutation_list.problems(check_mutation_list.read_checks()) == []


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"old": "no such text"}, "has 0 times 'no such text'"),
        ({"old": "wire"}, "times 'wire': it must be there once"),
        ({"file": "rtl/none.v"}, "rtl/none.v is not there"),
        ({"file": "rtl/queue/efa_cq.v", "old": "module efa_cq"}, "is no part of"),
        ({"new": SOUND.old}, "nothing is taken out"),
        ({"test": "unit.mmio.absent"}, "has no test absent"),
        ({"test": "unit.absent.one"}, "no unit absent"),
        ({"test": "mmio"}, "write unit.UNIT.TEST"),
        ({"test": "system.nowhere.One"}, "tb.system.nowhere_tests is not there"),
        ({"params": {"NONE": 1}}, "mmio has no variant {'NONE': 1}"),
        ({"protects": " "}, "does not state what it protects"),
        ({"because": "of another"}, "beside and because belong together"),
    ],
)
def test_an_entry_that_does_not_fit_is_reported(fields, text):
    (wrong,) = check_mutation_list.problems([changed(**fields)])
    assert f"tb/check_mutations.yaml: {SOUND.id}: " in wrong and text in wrong


def test_an_id_stands_once():
    (wrong,) = check_mutation_list.problems([SOUND, SOUND])
    assert f"{SOUND.id} stands there twice" in wrong


# A run

ARGS = SimpleNamespace(sim="icarus", seed=7, jobs=1, cluster=None)


def test_a_check_is_taken_out_of_a_copy(tmp_path, monkeypatch):
    monkeypatch.setattr(check_mutation_job, "ROOT", tmp_path)
    (tmp_path / "a.v").write_text("one\ntwo\nthree\n")
    changes = [("a.v", "two", "2"), ("a.v", "one", "1")]
    (copy,) = check_mutation_job.planted(changes, tmp_path / "out")
    assert (tmp_path / copy).read_text() == "1\n2\nthree\n"
    assert (tmp_path / "a.v").read_text() == "one\ntwo\nthree\n"
    with pytest.raises(RuntimeError, match="a.v has 0 times 'four', expected once"):
        check_mutation_job.planted([("a.v", "four", "")], tmp_path / "out")


@pytest.mark.parametrize(
    ("error", "failed", "text"),
    [
        (RunFailed("log", ("one: failure count is 2", "two: error why")),
         [["one", "count is 2"], ["two", "why"]], ""),
        (RunFailed("log\nCHECK FAILED of efa_cq\n", ("one: failure ended",)),
         [["one", "CHECK FAILED of efa_cq"]], ""),
        (RunFailed("it does not build"), [], "it does not build"),
        (RunFailed("it crashed", ("simulator: error crash",)), [], "it crashed"),
        (None, [], ""),
    ],
)  # fmt: skip
def test_only_failed_tests_are_failures(monkeypatch, tmp_path, capsys, error, failed, text):
    def run_unit(*_arguments):
        if error:
            raise error

    monkeypatch.setattr(runner, "run_unit", run_unit)
    monkeypatch.setattr(runner, "OUT", runner.OUT)
    monkeypatch.setattr(check_mutation_job, "simulator_missing", lambda _: None)
    monkeypatch.setattr(check_mutation_job, "planted", lambda *_: [])
    monkeypatch.setattr(check_mutation_job, "OUT", tmp_path)
    job = check_mutation.trial(SOUND, SOUND.changes, ARGS)
    assert check_mutation_job.main(json.dumps(job.as_dict())) == 0
    assert json.loads(capsys.readouterr().out) == [[failed, text]]
    assert runner.OUT == tmp_path / SOUND.id


def test_a_run_without_simulator_cannot_run_here(monkeypatch, capsys):
    monkeypatch.setattr(check_mutation_job, "simulator_missing", lambda name: f"{name}: absent")
    job = check_mutation.trial(SOUND, [], ARGS)
    assert check_mutation_job.main(json.dumps(job.as_dict())) == 2
    assert capsys.readouterr().err == "icarus: absent\n"


# Verdicts

class Fake:
    """An executor; `ends` has the results of the runs in their order, or an exception."""

    def __init__(self, ends):
        self.ends, self.added, self.ran = list(ends), [], []

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        pass

    def add(self, job):
        self.added.append(job)

    def results(self):
        while self.added:
            job, found = self.added.pop(0), self.ends.pop(0)
            if isinstance(found, Exception):
                raise found
            self.ran.append(job)
            code, text = (found, "the reason") if isinstance(found, int) else (0, "")
            yield Finished(job, code, 1.5, [found], text)


PASSED, FAILED, BROKEN = ([], ""), ([["one", "1 is 2"]], ""), ([], "does not build")
TWO = changed(beside=[{"file": SOUND.file, "old": "module", "new": ""}], because="x")


@pytest.fixture
def executed(monkeypatch):
    """Returns a function that examines a check whose runs end with these results; returns verdict,
    evidence, seconds and the runs."""

    def of(check, *ends):
        fake = Fake(ends)
        monkeypatch.setattr(check_mutation, "open_executor", lambda *_: fake)
        monkeypatch.setattr(check_mutation, "state", lambda _: "state")
        (row,), _ = check_mutation.examine([check], ARGS)
        assert fake.ends == []
        return row["verdict"], row["what"], row["seconds"], fake.ran

    return of


def test_only_a_test_that_fails_kills(executed):
    verdict, what, seconds, ran = executed(SOUND, PASSED, FAILED)
    assert (verdict, what, seconds) == ("killed", "1 is 2", 1.5)
    whole = Trial(SOUND.id, SOUND.kind, SOUND.bench, SOUND.module, SOUND.name, (),
                  ((SOUND.file, SOUND.old, SOUND.new),), "icarus", 7)  # fmt: skip
    assert [job.changes for job in ran] == [(), whole.changes] and ran[1] == whole
    assert executed(SOUND, PASSED, PASSED)[0] == "survived"
    assert executed(SOUND, PASSED, BROKEN)[:2] == ("error", "does not build")
    # A limit of the executor, or a process that died.
    assert executed(SOUND, PASSED, 124)[:2] == ("error", "the reason")


def test_a_second_check_is_taken_out_after_the_first_one_alone(executed):
    verdict, _, seconds, ran = executed(TWO, PASSED, PASSED, FAILED)
    assert (verdict, seconds, [len(job.changes) for job in ran]) == ("killed", 3.0, [0, 1, 2])
    # A check that a test covers alone needs no second change.
    assert executed(TWO, PASSED, FAILED)[0] == "error"


def test_a_test_that_fails_on_the_unmodified_rtl_judges_no_check(executed, capsys):
    verdict, what, _, ran = executed(SOUND, FAILED)
    assert (verdict, what) == ("error", "fails on the RTL as it is: 1 is 2") and len(ran) == 1
    assert f"{SOUND.test}: fails on the RTL as it is" in capsys.readouterr().err


@pytest.mark.parametrize(("end", "text"), [
    (2, "the reason"), (ClusterError("no Dask scheduler"), "no Dask scheduler")])
def test_a_list_that_cannot_run_here_ends_with_2(monkeypatch, capsys, end, text):
    monkeypatch.setattr(check_mutation, "open_executor", lambda *_: Fake([end]))
    assert check_mutation.main(["--check", SOUND.id]) == 2
    assert capsys.readouterr().err == f"check-mutation: {text}\n"


def test_the_tests_that_notice_a_check_are_listed(monkeypatch, capsys):
    fake = Fake([FAILED])
    monkeypatch.setattr(check_mutation, "open_executor", lambda *_: fake)
    assert check_mutation.main(["--check", SOUND.id, "--find"]) == 0
    assert fake.ran[0].test is None
    assert capsys.readouterr().out == f"{SOUND.id}: 1 tests of {SOUND.bench}\n  one: 1 is 2\n"


def test_the_page_keeps_other_checks_in_the_order_of_the_list(tmp_path):
    def row(name, verdict):
        return {"id": name, "protects": "<who>", "place": "a.v:1", "test": "unit.a.b",
                "state": 1, "verdict": verdict}  # fmt: skip

    now = {"a": 1, "b": 1, "older": 1}
    check_mutation_page.write(tmp_path, [row("b", "killed"), row("older", "killed")], now)
    page = check_mutation_page.write(
        tmp_path, [row("a", "survived")], now | {"older": 2}
    ).read_text()
    assert "1 of 2 noticed" in page and "&lt;who&gt;" in page and "older" not in page


def test_a_list_that_cannot_be_run_is_reported(capsys):
    assert check_mutation.main(["--check", "absent"]) == 2
    assert "no check absent" in capsys.readouterr().err
