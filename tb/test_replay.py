# SPDX-License-Identifier: Apache-2.0
"""Tests that a failing run prints a command that repeats it, and that WAVES=1 writes a trace."""

import os
import re
import shlex
import subprocess
import sys
from types import SimpleNamespace

import pytest

from efa_cosim.host.wc import StoreBuffer
from tb import runner, system_run
from tb.simulators import ROOT, simulator_missing

SKID = ROOT / "rtl" / "common" / "efa_skid.v"


def run_skid(sources, seed, test=None):
    """Runs the skid's own bench on Icarus if installed, else on Verilator."""
    sim = "icarus" if simulator_missing("icarus") is None else "verilator"
    return runner.run_unit(
        "skid", "efa_skid", sources, "tb.unit.skid_tests", sim, seed, {"WIDTH": 16}, test
    )


@pytest.fixture
def broken():
    """Returns a skid that loses its lowest bit."""
    text, count = re.subn(r"assign m_data\s*=", "assign m_data = ~1 &", SKID.read_text())
    assert count == 1
    path = ROOT / "sim" / "out" / "control" / "broken" / "efa_skid.v"
    runner.write_once(path, text)
    return [path.relative_to(ROOT).as_posix()]


def test_a_failure_ends_with_five_lines(broken):
    with pytest.raises(runner.RunFailed) as failure:
        run_skid(broken, seed=11)
    names, values = zip(*(line.split(":", 1) for line in str(failure.value).splitlines()[-5:]),
                        strict=True)  # fmt: skip
    assert names == ("field", "expected", "found", "waves", "repeat")
    assert all(value.strip() for value in values)
    expected, found = (re.findall(r"\d+", value)[:1] for value in values[1:3])
    assert expected and found and expected != found


def test_a_failure_prints_the_line_that_repeats_it(broken):
    with pytest.raises(runner.RunFailed) as failure:
        run_skid(broken, seed=11)
    line = str(failure.value).rpartition("repeat: ")[2]
    command = shlex.split(line)
    assert command[0] == ".venv/bin/python" and "11" in command and "WIDTH=16" in command
    done = subprocess.run(
        [sys.executable, *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "seed 11" in done.stdout and "skid-WIDTH16" in done.stdout


def test_a_test_that_does_not_run_fails_its_run():
    with pytest.raises(runner.RunFailed, match="no test that matches nothing_like_it"):
        run_skid(None, seed=11, test="nothing_like_it")


def test_waves_on_demand(monkeypatch):
    monkeypatch.setitem(os.environ, "WAVES", "1")
    outcome = run_skid(None, seed=11)
    waves = [path for path in outcome.folder.iterdir() if path.suffix in (".fst", ".vcd")]
    assert waves and all(path.stat().st_size for path in waves)
    assert any(path.name in runner.report(outcome) for path in waves)


@pytest.mark.parametrize(("waves", "line"), [(False, "building top for icarus; log: "),
                                             (True, "building top for icarus, with waves; log: ")])
def test_a_build_is_announced_with_its_log(waves, line, tmp_path, monkeypatch, capsys):
    started = []
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    monkeypatch.setattr(runner, "OUT", tmp_path / "out")
    monkeypatch.setattr(runner, "_digest", lambda *_: "0")
    monkeypatch.setattr(runner, "make_runner", lambda _sim: SimpleNamespace(
        build=lambda **_: started.append(capsys.readouterr().out)))
    for _ in range(2):
        folder = runner.build("icarus", "top", [], {}, [], waves)
    path = (folder / "build.log").relative_to(tmp_path)
    assert started == [f"{line}{path}\n"] and capsys.readouterr().out == ""


def test_a_run_of_the_device_draws_its_store_buffer_from_the_seed(monkeypatch):
    runs = []
    monkeypatch.setattr(system_run, "build_system", lambda *_: (ROOT, []))
    monkeypatch.setattr(system_run, "run", lambda *_, **given: runs.append(given))
    monkeypatch.setattr(system_run, "waves_wanted", lambda: False)
    given = StoreBuffer("random", 3, overtakes=True)
    for seed, buffer in ((7, None), (8, None), (7, given)):
        system_run.run_system("tb.system.send_tests", "verilator", seed, store_buffer=buffer)
    drawn = [str(StoreBuffer.drawn(7)), str(StoreBuffer.drawn(8)), str(given)]
    assert [run["options"] for run in runs] == [f" --store-buffer {text}" for text in drawn]
