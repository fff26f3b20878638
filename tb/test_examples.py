# SPDX-License-Identifier: Apache-2.0
"""Runs each program of examples/ as a user does."""

import subprocess
import sys

import pytest

from tb.simulators import ROOT, simulator_missing

EXAMPLES = ROOT / "examples"


def run(name, *arguments):
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("backend", ["model", "verilator"])
def test_hello_verbs_receives_its_message(backend):
    if backend != "model" and simulator_missing(backend):
        pytest.skip(simulator_missing(backend))
    text = run("hello_verbs.py", backend)
    assert "received b'Hello, verbs!' on " + backend in text
    assert text.count("status 0") == 2


def test_hello_verbs_is_short():
    lines = (EXAMPLES / "hello_verbs.py").read_text().split('"""')[2].splitlines()
    assert len([line for line in lines if line.strip()]) < 30
