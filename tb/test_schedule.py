# SPDX-License-Identifier: Apache-2.0
"""Tests the distribution of tests among workers: a module fixture is set up once in a run."""

import subprocess
import sys

import pytest

from tb import schedule
from tb.simulators import ROOT

CONFTEST = """
from pathlib import Path

from tb import schedule

schedule.ROOT = Path(__file__).parent


def pytest_xdist_make_scheduler(config, log):
    config.option.loadscopereorder = False
    return schedule.Scheduler(config, log)
"""
SHARED = """
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def costly():
    with Path(__file__).with_name("set_up").open("a") as file:
        file.write("once ")


@pytest.mark.parametrize("number", range(6))
def test_it(costly, number):
    pass
"""
SINGLE = """
import pytest


@pytest.mark.parametrize("number", range(6))
def test_it(number):
    pass
"""


def test_workers_do_not_repeat_the_set_up_of_a_file(tmp_path):
    for name, text in {"conftest": CONFTEST, "test_shared": SHARED, "test_single": SINGLE}.items():
        (tmp_path / f"{name}.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider",
         "-o", f"pythonpath={ROOT}", "--rootdir", tmp_path, tmp_path],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "12 passed" in done.stdout, done.stdout + done.stderr
    assert (tmp_path / "set_up").read_text() == "once "


@pytest.mark.parametrize(("file", "shared"), [
    ("tb/test_wheel.py", True),
    ("tb/cycle/test_attribution.py", True),
    ("tb/unit/test_units.py", False),
    ("tb/system/test_system.py", False),
    ("tb/absent.py", False),
])  # fmt: skip
def test_only_a_file_with_a_common_set_up_stays_together(file, shared):
    assert schedule.shares(file) == shared
