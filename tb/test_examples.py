# SPDX-License-Identifier: Apache-2.0
"""Runs each program of examples/ as a user does."""

import re
import subprocess
import sys

import pytest

from tb.simulators import ROOT, simulator_missing

EXAMPLES = ROOT / "examples"
BACKENDS = pytest.mark.parametrize("backend", ["model", "verilator"])
MOST_LINES = 40


def ended(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def run(name, *arguments, code=0):
    done = ended(sys.executable, str(EXAMPLES / name), *arguments)
    assert done.returncode == code, done.stderr
    return done.stdout


def needs(backend):
    if backend != "model" and simulator_missing(backend):
        pytest.skip(simulator_missing(backend))


@BACKENDS
def test_hello_verbs_receives_its_message(backend):
    needs(backend)
    text = run("hello_verbs.py", backend)
    assert "received b'Hello, verbs!' on " + backend in text
    assert text.count("status 0") == 2


def test_own_test_compares_its_traffic():
    needs("verilator")
    # The command that its docstring states.
    text = (EXAMPLES / "own_test.py").read_text()
    command = re.search(r"^    \.venv/bin/python (-m tb\.runner .*)$", text, re.M)[1]
    done = ended(sys.executable, *command.split(), "--seed", "5")
    assert done.returncode == 0, done.stderr
    assert "own_test on verilator, seed 5: 1 tests passed" in done.stdout
    log = (ROOT / re.search(r"\((\S+)\)", done.stdout)[1]).read_text()
    assert "40 packets" in log and "40 completions" in log


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_is_short_and_says_how_to_call_it(path):
    _, text, code = path.read_text().split('"""', 2)
    assert len([line for line in code.splitlines() if line.strip()]) <= MOST_LINES
    assert f"examples/{path.name}" in text
