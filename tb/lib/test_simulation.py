# SPDX-License-Identifier: Apache-2.0
"""Tests simulations in their own process: failure reports, and that no child process remains."""

import os
import subprocess
import time

import pytest

from efa_cosim.boundary.backend import BackendUnavailable
from tb.lib import backends, simulation
from tb.lib.simulation import Simulation, _end_group, brief


@pytest.mark.parametrize(("text", "reported"), [
    ("", ""),
    ("verilator: efa_tb does not build\nmake: x\n%Error: a.v:3: bad\nmore\nlog: sim/out/b.log\n",
     "verilator: efa_tb does not build: %Error: a.v:3: bad (log: sim/out/b.log)"),
    ("serve on icarus, seed 1: FAILED\n  serve: failure boundary broken\nlog: r.log\nrepeat: x",
     "serve on icarus, seed 1: FAILED: serve: failure boundary broken (log: r.log)"),
    ("serve on icarus, seed 1: FAILED\n  no results file: it ended early\nINFO error\nlog: r.log",
     "serve on icarus, seed 1: FAILED: no results file: it ended early (log: r.log)"),
    ("Traceback (most recent call last):\n  File x\nOSError: [Errno 28] No space left on device",
     "OSError: [Errno 28] No space left on device"),
    ("one line", "one line"),
])
def test_a_failure_is_one_line(text, reported):
    assert brief(text) == reported


def test_a_simulation_that_cannot_start_says_why(tmp_path):
    simulation = Simulation("quantum", 1, {}, str(tmp_path / "socket"))
    assert "quantum: unknown simulator" in simulation.failure()
    assert not simulation.running


def test_opening_a_device_shows_its_build(tmp_path, monkeypatch, capsys):
    program, line = tmp_path / "python", "building efa_tb for verilator; log: sim/out/build.log"
    program.write_text(f"#!/bin/sh\necho '{line}'\nsleep 1\necho 'no compiler' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(simulation.sys, "executable", str(program))
    monkeypatch.setattr(backends, "simulator_missing", lambda _: None)
    with pytest.raises(BackendUnavailable, match="no compiler"):
        backends.open_simulator("verilator")
    assert capsys.readouterr().err == line + "\n"


def test_ending_takes_along_what_it_started(tmp_path):
    script = f"sleep 600 & echo $! > {tmp_path}/pid; wait"
    process = subprocess.Popen(["sh", "-c", script], start_new_session=True)
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().endswith("\n"):
        time.sleep(0.01)
    child = int((tmp_path / "pid").read_text())
    _end_group(process)
    assert process.poll() is not None
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
