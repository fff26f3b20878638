# SPDX-License-Identifier: Apache-2.0
"""Tests that an interrupt (Ctrl-C) ends a program and its children with 130 and no traceback."""

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from tb.simulators import ROOT

TOY = """
import pathlib
import time

def test_one():
    pathlib.Path(__file__).with_name("begun").touch()
    time.sleep(600)
"""


def processes_with(mark):
    """Returns the numbers of the running processes whose environment contains a text."""
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in file.read_bytes():
                found.append(int(file.parent.name))
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            continue
    return found


def interrupted(command, log, begun, **more):
    """Starts a program that writes to the file `log`; when `begun` returns True, interrupts its
    process group, as a terminal does. Returns exit status and output. No process may be left."""
    mark = uuid.uuid4().hex
    with log.open("w") as stream:
        program = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, "EFA_MARK": mark, **more}, stdout=stream,
            stderr=subprocess.STDOUT, start_new_session=True,
            # A background job of a shell ignores SIGINT, and its children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
    try:
        while not begun():
            assert program.poll() is None, f"ended too early: {log.read_text()}"
            time.sleep(0.05)
        os.killpg(program.pid, signal.SIGINT)
        program.wait(timeout=120)
        time.sleep(0.5)
        assert processes_with(mark) == []
    finally:
        for number in processes_with(mark):
            os.kill(number, signal.SIGKILL)
        program.wait()
    return program.returncode, log.read_text()


@pytest.mark.parametrize(
    ("command", "begun", "last"),
    [
        # The other steps run while that of the generated files ends.
        ("lint.py --quick", "lint generated files", "lint: interrupted"),
        # A solver has a process group of its own, which the terminal does not interrupt.
        ("formal.py --block fifo --out {}/s.json", "proven", "formal: interrupted"),
    ],
)
def test_a_tool_ends_with_its_children(tmp_path, command, begun, last):
    name, *arguments = command.format(tmp_path).split()
    log = tmp_path / "log"
    code, output = interrupted([sys.executable, "-u", f"tools/{name}", *arguments], log,
                               lambda: begun in log.read_text())  # fmt: skip
    assert code == 130
    assert output.splitlines()[-1] == last and "Traceback" not in output


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "workers"])
def test_a_test_run_ends_without_a_verdict(tmp_path, workers):
    (tmp_path / "test_toy.py").write_text(TOY)
    paths = os.pathsep.join(str(ROOT / part) for part in ("", "model", "tools"))
    command = [sys.executable, "-m", "pytest", "-p", "tb.conftest", "-p", "no:cacheprovider",
               "-c", os.devnull, f"--rootdir={tmp_path}", *workers, "--plan",
               str(tmp_path / "test_toy.py")]  # fmt: skip
    code, output = interrupted(command, tmp_path / "log", (tmp_path / "begun").exists,
                               PYTHONPATH=paths)  # fmt: skip
    assert code == 130
    assert "Traceback" not in output and "plan: " not in output and "verdict" not in output
