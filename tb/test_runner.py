# SPDX-License-Identifier: Apache-2.0
"""Tests the command line of the runner, and the baseline bench, which only a target runs."""

import subprocess
import sys

import pytest

from tb.bench_sim import baseline
from tb.simulators import ROOT, simulator_missing


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("unit nobody", "no unit nobody in tb/unit/units.py"),
        ("system nowhere", "no test module tb.system.nowhere_tests"),
        ("unit cq --params DEPTH", "--params DEPTH: write NAME=NUMBER"),
        ("unit cq --params DEPTH=much", "--params DEPTH=much: write NAME=NUMBER"),
        ("unit fifo --test nobody", "tb.unit.fifo_tests has no test that matches nobody"),
        ("unit fifo --test (", "--test ( is no regular expression: missing ), unterminated"
                               " subpattern at position 0"),
        ("system bringup --test nobody", "tb.system.bringup_tests has no test that matches nobody"),
    ],
)
def test_a_run_that_is_not_there_is_reported_in_a_line(arguments, message):
    done = subprocess.run(
        [sys.executable, "-m", "tb.runner", *arguments.split(), "--sim", "verilator"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr.strip()) == (2, message)


@pytest.mark.skipif(simulator_missing("icarus") is not None, reason="icarus is missing")
def test_the_baseline_bench_runs():
    figures = baseline("icarus")
    assert figures["baseline"] > 0 and figures["baseline_cycles"] >= 8_000
