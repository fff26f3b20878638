# SPDX-License-Identifier: Apache-2.0
"""Tests the command line of the runner, and the baseline bench, which only a target runs."""

import fcntl
import os
import subprocess
import sys
import threading
import time

import pytest

from tb import choices, runner
from tb.bench_sim import baseline
from tb.runner import closure, planned_tests, system_module, system_name
from tb.simulators import ROOT, simulator_missing
from tb.unit.units import BENCHES, UNITS

UNIT_NAMES = ", ".join(sorted(UNITS | BENCHES))
AREAS = ", ".join(
    sorted(path.stem.removesuffix("_tests") for path in (ROOT / "tb/system").glob("*_tests.py"))
)


def declared_by(module):
    return ", ".join(planned_tests(module))


def test_an_include_is_no_instance():
    """efa_cmd_pd includes efa_admin.vh; the module efa_admin is not below it."""
    assert [path.stem for path in closure("efa_cmd_pd")] == ["efa_cmd_pd"]


def test_a_build_of_another_process_is_announced_and_used(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runner, "OUT", tmp_path)
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    monkeypatch.setattr(runner, "_digest", lambda *_: "0")
    folder = tmp_path / "build/icarus-efa_fifo-0"
    folder.mkdir(parents=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = threading.Thread(target=runner.build, args=("icarus", "efa_fifo", [], {}, []))
        waiting.start()
        text = ""
        while "\n" not in text:
            text += capsys.readouterr().out
            time.sleep(0.01)
        (folder / "built").touch()
    waiting.join()
    assert text == ("waiting for another process that builds efa_fifo for icarus; "
                    "log: build/icarus-efa_fifo-0/build.log\n")
    assert capsys.readouterr().out == ""


def test_a_build_that_another_process_removes_is_passed_over(tmp_path, monkeypatch):
    gone = tmp_path / "verilator-gone"
    old = tmp_path / "verilator-old"
    for path in (gone, old):
        path.mkdir()
        os.utime(path, (0, 0))

    def is_dir(path):
        if path == gone and path.exists():
            path.rmdir()
        return True

    monkeypatch.setattr(runner, "CACHED_BUILDS", 1)
    monkeypatch.setattr(type(tmp_path), "is_dir", is_dir)
    runner._prune(tmp_path, "verilator", tmp_path / "verilator-new")
    assert not old.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("unit absent", "no unit absent in tb/unit/units.py; expected one of " + UNIT_NAMES),
        ("system nowhere", "no test module tb.system.nowhere_tests; expected one of " + AREAS),
        (
            "system examples/absent.py",
            "no file examples/absent.py; expected a file of tests, such as examples/own_test.py",
        ),
        ("unit cq --params DEPTH", "--params DEPTH: write NAME=NUMBER"),
        ("unit cq --params DEPTH=much", "--params DEPTH=much: write NAME=NUMBER"),
        (
            "unit fifo --test absent",
            "tb.unit.fifo_tests has no test that matches absent; expected"
            " one of " + declared_by("tb.unit.fifo_tests"),
        ),
        (
            "unit fifo --test (",
            "--test ( is no regular expression: missing ), unterminated subpattern at position 0",
        ),
        (
            "system bringup --test absent",
            "tb.system.bringup_tests has no test that matches absent;"
            " expected one of " + declared_by("tb.system.bringup_tests"),
        ),
    ],
)
def test_a_run_that_is_not_there_is_reported_in_a_line(arguments, message):
    done = subprocess.run(
        [sys.executable, "-m", "tb.runner", *arguments.split(), "--sim", "verilator"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr.strip()) == (2, message)


def test_a_run_is_named_as_the_command_line_accepts_it(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("send", "examples/own_test.py"):
        assert system_name(system_module(name)) == name


NO_SETUP = ("-o", "simulators", "-o", ".venv/.installed")


def make(*arguments):
    done = subprocess.run(
        ["make", "--no-print-directory", *arguments], cwd=ROOT, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["system", "SIM=foo"], "SIM=foo: foo is no simulator; expected verilator or icarus"),
        (["system", "SIM="], "SIM=: nothing is no simulator; expected verilator or icarus"),
        ([*NO_SETUP, "system", "TEST=sned"],
         "TEST=sned: expected a name of tb/system, found sned; one of bringup, admin, "),
        ([*NO_SETUP, "unit", "UNIT=cq or absent"],
         "UNIT=cq or absent: expected a name of tb/unit, found absent; one of ack_build, "),
        ([*NO_SETUP, "cover-code", "UNIT=absent"],
         "UNIT=absent: expected a name of tb/unit, found absent; one of ack_build, "),
        ([*NO_SETUP, "formal", "BLOCK=fifo absent"],
         "no such block: absent; expected one of admin_response, "),
        ([*NO_SETUP, "mutate", "BLOCK=absent"], "no row ['absent']; rows: efa_ack_build, "),
        ([*NO_SETUP, "fmax", "BLOCK=absent"], "no such block: absent; expected one of efa_"),
        ([*NO_SETUP, "check-mutation", "CHECK=absent"],
         "no check absent in tb/check_mutations.yaml; expected one of "),
        ([*NO_SETUP, "perf", "ROW=absent"], "no row matches absent; there are llq, "),
        ([*NO_SETUP, "play", "FILE=absent"],
         "absent: no such file; expected a file such as model/tests/data/sessions/devinfo."),
        ([*NO_SETUP, "sweep", "FILE=absent"],
         "absent: no such file; expected a file such as sim/sweeps/both.yaml, "),
    ],
)  # fmt: skip
def test_make_refuses_a_name_that_is_not_there(arguments, message):
    code, reported = make(*arguments)
    assert code == 2 and message in reported


@pytest.mark.parametrize("kind_and_name", [("system", "send or (recv and not cq)"), ("unit", "cq"),
                                           ("system", "test_digest")])  # fmt: skip
def test_a_name_that_is_there_is_accepted(kind_and_name):
    assert choices.wrong_names(*kind_and_name) is None


@pytest.mark.skipif(simulator_missing("icarus") is not None, reason="icarus is missing")
def test_the_baseline_bench_runs():
    """With fewer cycles than `make bench-sim` measures."""
    measurements = baseline("icarus", short=True)
    assert measurements["baseline"] > 0 and measurements["baseline_cycles"] >= 500
