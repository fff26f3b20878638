# SPDX-License-Identifier: Apache-2.0
"""Installs the project's wheel in an empty environment and uses it as a user does.

pip takes the dependencies from the package index or from its cache.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from efa_cosim.cycle import CACHE
from efa_cosim.cycle.network import simulate
from efa_cosim.cycle.workload import Workload
from efa_cosim.layouts import defs
from tb.simulators import ROOT, SIMULATORS, simulator_missing

VERSION = defs.PROFILES.default.version


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


def numba_cache(installed):
    """Returns the empty folder in which the installed cycle model looks for its compiled code."""
    code = "from efa_cosim.cycle import CACHE, network; print(CACHE)"
    cache = Path(installed("python", "-c", code).strip())
    assert cache.name == CACHE.name, "the wheel has other sources of the cycle model"
    (folder,) = cache.glob("cycle_*")
    return folder


def test_it_sweeps_on_the_cycle_model(installed):
    """The checkout has the same cycle model, so its compiled code serves the wheel: to compile once
    more takes 35 processor seconds."""
    simulate(Workload(messages=8))
    folder = numba_cache(installed)
    (compiled,) = CACHE.glob("cycle_*")
    shutil.copytree(compiled, folder, dirs_exist_ok=True)
    text = installed("efa-cosim", "sweep", "--backend", "cycle", "--sizes", "64", "--queues", "1")
    assert len(list(folder.iterdir())) == len(list(compiled.iterdir())), "compiled once more"
    assert text.splitlines()[-1].startswith("passed: ")
    assert (installed.work / "reports/sweep/index.html").exists()


# The device writes the value of a register to the memory of the host.
READ = """
import sys
from efa_cosim.backends import open_backend
from efa_cosim.host.driver import Driver
from efa_cosim.layouts import defs
with open_backend(sys.argv[1]) as device:
    driver = Driver(device)
    device.set_bus_master(True)
    driver.set_response_address()
    print("version", driver.read_register(defs.Reg.VERSION))
"""


def test_it_builds_and_runs_the_rtl(installed):
    """On Icarus if it is here: its build takes seconds, that of Verilator minutes. The device
    answers a register read; `test_examples.py` runs whole programs on the RTL."""
    missing = {name: simulator_missing(name) for name in reversed(SIMULATORS)}
    name = next((name for name, reason in missing.items() if reason is None), None)
    if name is None:
        pytest.skip("; ".join(missing.values()))
    assert installed("python", "-c", READ, name).endswith(f"version {VERSION}\n")


def test_it_refuses_what_needs_a_checkout(installed):
    with pytest.raises(AssertionError, match="an installed package has no tests"):
        installed("efa-cosim", "test")
