# SPDX-License-Identifier: Apache-2.0
"""Tests the runs of a regression on the benches of the tree, and the lists of sim/regress."""

import json
import shlex

import pytest

from efa_cosim.regress.runs import Run, read_list
from tb import regress
from tb.runner import RunFailed
from tb.runner import __main__ as command
from tb.simulators import ROOT

RUN = Run("unit", "flag_ram", (), "icarus", 7)


@pytest.fixture
def any_simulator(monkeypatch):
    """Lets a test with planted runs pass on a machine that lacks the simulator of its run."""
    for module in (regress, command):
        monkeypatch.setattr(module, "simulator_missing", lambda _name: None)


def printed(capsys, run):
    code = regress.main(json.dumps(run.as_dict()))
    return code, capsys.readouterr()


@pytest.mark.parametrize("path", sorted((ROOT / "sim/regress").glob("*.yaml")),
                         ids=lambda path: path.stem)
def test_each_list_names_tests_of_the_tree(path):
    assert len(read_list(path, regress.KINDS).runs) > 50


def test_a_unit_bench_passes(sim, capsys):
    code, text = printed(capsys, Run("unit", "flag_ram", (), sim, 7))
    (result,) = json.loads(text.out.splitlines()[-1])
    assert (code, result["verdict"], result["reason"]) == (0, "passed", "")


def test_a_fuzz_of_the_model_passes(capsys, monkeypatch):
    monkeypatch.setitem(regress.STORES, "short", 500)
    code, text = printed(capsys, Run("isolation_fuzz", "short", (), "model", 7))
    assert (code, json.loads(text.out)[0]["verdict"]) == (0, "passed")


@pytest.mark.usefixtures("any_simulator")
def test_a_failed_test_is_a_result_with_its_first_failure(capsys, monkeypatch):
    def failing(*_arguments):
        raise RunFailed("long text", ("test_one: failure  count\n is 2", "test_two: failure"))

    monkeypatch.setattr(regress, "run_unit", failing)
    code, text = printed(capsys, RUN)
    (result,) = json.loads(text.out)
    assert (code, result["verdict"]) == (0, "failed")
    assert result["reason"] == "test_one: failure count is 2"


@pytest.mark.usefixtures("any_simulator")
def test_a_bench_that_does_not_build_is_an_error(capsys, monkeypatch):
    def failing(*_arguments):
        raise RunFailed("icarus: efa_flag_ram does not build")

    monkeypatch.setattr(regress, "run_unit", failing)
    code, text = printed(capsys, RUN)
    assert (code, text.err) == (1, "icarus: efa_flag_ram does not build\n")


def test_a_run_without_simulator_cannot_run_here(capsys, monkeypatch):
    monkeypatch.setattr(regress, "simulator_missing", lambda name: f"{name}: not installed")
    code, text = printed(capsys, RUN)
    assert (code, text.err) == (2, "icarus: not installed\n")


@pytest.mark.parametrize("run", [RUN, Run("unit", "fifo", (("DEPTH_LOG2", 3),), "verilator", 2)],
                         ids=["default", "parameters"])
@pytest.mark.usefixtures("any_simulator")
def test_the_repeat_line_runs_the_same_test(run, monkeypatch, capsys):
    called = []
    monkeypatch.setattr(command, "run_unit", lambda *given: called.append(given))
    monkeypatch.setattr(command, "report", lambda _outcome: "")
    program, *arguments = shlex.split(regress.repeat(run).removeprefix(".venv/bin/python -m "))
    assert (program, command.main(arguments)) == ("tb.runner", 0)
    ((name, *_, simulator, seed, parameters, test, short),) = called
    assert (name, simulator, seed, parameters, test, short) == (
        run.name, run.simulator, run.seed, dict(run.parameters), None, False)
