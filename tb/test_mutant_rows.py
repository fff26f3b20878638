# SPDX-License-Identifier: Apache-2.0
"""Tests the jobs of a mutation run and their stored results, with a toy bench instead of Verilator.

Mutant n fails in test `m.TESTS[n % 4]`; where there is no such test, it survives.
"""

import json
from contextlib import suppress
from types import SimpleNamespace

import mutant_rows
import pytest
from mutant_bench import KILLED, SURVIVED, TIMEOUT
from mutant_rows import OPEN, Examination, Row

from efa_cosim.boundary.backend import BackendUnavailable
from efa_cosim.jobs.job import UNUSABLE, Finished, Group
from tb import mutant_job
from tb.mutant_job import Design, Listing, Proof, Reference, Trial

TESTS = ["m.short", "m.middle", "m.long"]
REFERENCE = [30.0, [["m.short", 1.0, 10], ["m.middle", 2.0, 20], ["m.long", 6.0, 60]]]
BLOCK = Design(("efa_toy",), ("toy",), 200, 1)
WIRING = Design(("efa_a.wiring", "efa_b.wiring"), ("send",), None, 1)


class Interrupted(Exception):
    """Ends a run as the death of the command does."""


class ToyState:
    """Digests of the sources; `edited` is a test whose text changed."""

    def __init__(self, edited=None):
        self.rtl, self.proof, self._edited = "rtl", "proof", edited
        self.whole = f"whole {edited}"

    def of(self, test):
        return f"{test} {'new' if test == self._edited else 'old'}"


class ToyExecutor:
    """Runs jobs in this process; `most` jobs, then the run is interrupted."""

    width = 2

    def __init__(self, most=None, broken=None):
        self.most, self.broken, self.waiting, self.done = most, broken, [], []

    def add(self, job):
        self.waiting.append(job)

    def results(self):
        while self.waiting:
            if len(self.done) == self.most:
                raise Interrupted
            # The last job first: a result must not depend on the order in which jobs finish.
            job = self.waiting.pop()
            self.done.append(job)
            jobs = job.jobs if isinstance(job, Group) else (job,)
            if any(isinstance(one, self.broken or ()) for one in jobs):
                yield Finished(job, 1, 0.0, [], "the simulator ended early")
            elif isinstance(job, Group):
                yield Finished(job, 0, 0.0, [{"measurements": result(one)} for one in jobs])
            else:
                yield Finished(job, 0, 0.0, result(job))


def result(job):
    """Returns what a job prints."""
    text = json.dumps(job.as_dict())
    assert json.dumps(mutant_job._decoded(json.loads(text)).as_dict()) == text
    if isinstance(job, Listing):
        return [3] if "wiring" in job.design.rows[0] else []
    if isinstance(job, Reference):
        return REFERENCE
    if isinstance(job, Proof):
        return [job.number % 8 == 3]
    names = [name for name, _ in job.tests]
    return [[one, *verdict(one, names)] for one in job.numbers]


def verdict(number, names):
    fails = TESTS[number % 4] if number % 4 < 3 else None
    return (KILLED, fails, "expected 1, found 0") if fails in names else (SURVIVED, "", "")


@pytest.fixture(autouse=True)
def toy(monkeypatch, tmp_path):
    """Replaces faults and digests; returns the digests, which a test may change."""
    states = SimpleNamespace(now=ToyState())

    def faults(design):
        begin = 1000 * (design.rows[0] == "efa_b.wiring") + 1
        drawn = [SimpleNamespace(number=begin + at) for at in range(130)]
        return drawn, drawn * 2

    monkeypatch.setattr(mutant_rows, "RESULTS", tmp_path)
    monkeypatch.setattr(mutant_rows, "state_of", lambda *_: states.now)
    monkeypatch.setattr(Design, "faults", faults)
    return states


def run(*designs, executor=None, fresh=False):
    """Runs designs; returns {row: {number: verdict}}, and the jobs that ran."""
    progress = SimpleNamespace(say=lambda _text: None, fail=lambda _text: None, at=lambda *_: None)
    executor, found = executor or ToyExecutor(), {}
    examinations = (Examination(one, fresh, progress) for one in designs)
    for one in mutant_rows.run(examinations, executor, progress):
        found |= {name: None if one.reason else row.verdicts for name, row in one.rows.items()}
    return found, executor.done


@pytest.mark.parametrize("design", [BLOCK, WIRING], ids=["block", "wiring"])
def test_each_mutant_gets_the_verdict_of_its_test(design):
    found, jobs = run(design)
    for verdicts in found.values():
        assert len(verdicts) == 130
        for number, row in verdicts.items():
            expected = verdict(number, TESTS)
            assert (row["verdict"], row["by"], row["what"]) == expected, number
            assert set(row) == {"number", "verdict", "by", "what", "state"}
    tried = [number for job in jobs if isinstance(job, Trial) and job.tests[0][0] == "m.short"
             for number in job.numbers]  # fmt: skip
    assert len(tried) == len(set(tried))
    # No test runs on a mutant that the listing finds equal.
    assert (3 in tried) == (design is BLOCK)


def test_only_survivors_run_under_the_long_tests():
    _, jobs = run(BLOCK)
    trials = [job for job in jobs if isinstance(job, Trial)]
    quick = [job for job in trials if ("m.long", 60) not in job.tests]
    assert sorted(len(job.numbers) for job in quick) == [5, 50, 75]
    proofs = {one.number for job in jobs if isinstance(job, Group) for one in job.jobs}
    assert proofs == {number for number in range(1, 131) if number % 4 >= 2}
    left = {number for job in trials if job not in quick for number in job.numbers}
    assert left == {number for number in proofs if number % 8 != 3}


@pytest.mark.parametrize("design", [BLOCK, WIRING], ids=["block", "wiring"])
def test_an_interrupted_run_resumes_with_the_same_jobs_and_verdicts(design, monkeypatch, tmp_path):
    whole, jobs = run(design)
    assert run(design) == (whole, [])  # everything is stored
    monkeypatch.setattr(mutant_rows, "RESULTS", tmp_path / "again")
    ran = []
    for _ in jobs:
        executor = ToyExecutor(most=1)
        with suppress(Interrupted):  # the run with the last job ends by itself
            run(design, executor=executor)
        ran += executor.done
    found, more = run(design)
    assert (found, more) == (whole, [])
    assert len(ran) == len(set(ran)) and set(ran) == set(jobs)


def test_fresh_takes_nothing_from_earlier_runs():
    whole, jobs = run(BLOCK)
    found, again = run(BLOCK, fresh=True)
    assert found == whole and set(again) == set(jobs)


def test_an_edited_test_leaves_the_kills_of_the_others(toy):
    whole, _ = run(BLOCK)
    toy.now = ToyState(edited="m.middle")
    row = Row("efa_toy", BLOCK, False)
    assert {one["by"] for one in row.verdicts.values()} == {"m.short", "m.long"}
    found, jobs = run(BLOCK)
    tried = {number for job in jobs if isinstance(job, Trial) for number in job.numbers}
    # A proof holds for any bench.
    assert tried == {number for number in range(1, 131) if number % 4 == 1 or number % 8 == 7}
    assert not any(isinstance(job, Group) for job in jobs)
    for number, one in found["efa_toy"].items():
        assert one["verdict"] == whole["efa_toy"][number]["verdict"]


def test_a_timeout_and_a_test_that_did_not_run_are_tried_again():
    row = Row("efa_toy", BLOCK, False)
    row.note(1, TIMEOUT, "m.short", "had to be ended")
    row.note(2, KILLED, "m.short", "RegressionTerminated")
    row.note(3, KILLED, "m.short", "expected 1, found 0")
    row.note(4, OPEN, passed=["m.short"])
    row.write()
    assert set(Row("efa_toy", BLOCK, False).verdicts) == {3, 4}


def test_a_failed_job_ends_its_row_alone():
    found, _ = run(WIRING, executor=ToyExecutor(broken=Proof))
    assert found == {"efa_a.wiring": None, "efa_b.wiring": None}
    found, _ = run(BLOCK)
    assert found["efa_toy"] and all(one["verdict"] != OPEN for one in found["efa_toy"].values())


def test_a_machine_without_a_simulator_ends_the_run(monkeypatch):
    def results(_self):
        yield Finished(Listing(BLOCK), UNUSABLE, 0.0, [], "verilator: needs g++ and make")

    monkeypatch.setattr(ToyExecutor, "results", results)
    with pytest.raises(BackendUnavailable, match="needs g"):
        run(BLOCK)
