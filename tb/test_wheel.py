# SPDX-License-Identifier: Apache-2.0
"""Installs the project's wheel in an empty environment and uses it as a user does.

pip takes the dependencies from the package index or from its cache.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tb.simulators import ROOT, SIMULATORS, simulator_missing


def run(*command: str | Path, **options) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Returns a function that runs a program of the installed wheel in an empty folder."""
    place = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    run(*pip, "wheel", "--no-build-isolation", "--no-deps", "-w", place, ROOT)
    run(sys.executable, "-m", "venv", "--without-pip", place / "env")
    (wheel,) = place.glob("*.whl")
    # Each module that a program imports is compiled then, others never.
    run(*pip, "--python", place / "env/bin/python", "install", "--no-compile", wheel)
    work = place / "work"
    work.mkdir()
    # PYTHONPATH would lead to the checkout; the other one would compile modules again and again.
    left_out = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    environment["EFA_COSIM_HOME"] = str(place / "home")

    def program(name: str, *arguments: str | Path) -> str:
        return run(place / "env/bin" / name, *arguments, cwd=work, env=environment)

    program.work = work
    return program


def test_it_uses_no_file_of_the_checkout(installed):
    code = "import tb; from efa_cosim import tree; print(tb.__file__, tree.__file__, tree.ROOT)"
    paths = installed("python", "-c", code).split()
    assert len(paths) == 3
    assert not any(Path(path).is_relative_to(ROOT) for path in paths)


def test_it_plays_a_session_on_the_model(installed):
    session = ROOT / "model/tests/data/sessions/pingpong.jsonl.gz"
    assert "passed pingpong.jsonl.gz on model" in installed("efa-cosim", "play", session)


def test_it_sweeps_on_the_cycle_model(installed):
    text = installed("efa-cosim", "sweep", "--backend", "cycle", "--sizes", "64", "--queues", "1")
    assert text.splitlines()[-1].startswith("passed: ")
    assert (installed.work / "reports/sweep/index.html").exists()


def test_it_builds_and_runs_the_rtl(installed):
    """On Icarus if it is here: its build takes seconds, that of Verilator minutes."""
    missing = {name: simulator_missing(name) for name in reversed(SIMULATORS)}
    name = next((name for name, reason in missing.items() if reason is None), None)
    if name is None:
        pytest.skip("; ".join(missing.values()))
    text = installed("python", ROOT / "examples/hello_verbs.py", name)
    assert f"received b'Hello, verbs!' on {name}" in text


def test_it_refuses_what_needs_a_checkout(installed):
    with pytest.raises(AssertionError, match="an installed package has no tests"):
        installed("efa-cosim", "test")
