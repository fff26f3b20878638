# SPDX-License-Identifier: Apache-2.0
"""Tests that one seed gives one trace: a digest of all boundary activity, cycle by cycle.

Without --long, Icarus repeats the short tests of tb/system/trace_tests.py only. With --short, so do
all runs but the first; there is no plain build and no run on Icarus, where a run takes minutes.
"""

import pytest

from tb.runner import RunFailed, planned_tests
from tb.simulators import simulator_missing
from tb.system_run import run_system

TESTS = "tb.system.trace_tests"
SHORT = "TraceOfARoughHost|TraceOfTwoProcesses"


@pytest.fixture
def digest_of(tmp_path):
    """Returns {test: digest} of a run with a seed on a simulator."""

    def run(sim, seed, test=None, **how):
        trace = tmp_path / "digest"
        trace.unlink(missing_ok=True)
        try:
            run_system(TESTS, sim, seed, test=test, env={"EFA_TRACE": str(trace)}, **how)
        except RunFailed as error:
            pytest.fail(str(error), pytrace=False)
        return dict(zip(planned_tests(TESTS, test), trace.read_text().split(), strict=True))

    return run


def test_a_seed_gives_one_trace_and_another_differs(digest_of, seed, request):
    """The second run draws initial values, also of memories; the plain build draws all unknowns:
    they do not reach the boundary."""
    first = digest_of("verilator", seed)
    short = request.config.getoption("--short")
    part = {"test": SHORT} if short else {}
    runs = {"second run": ("verilator", {"unknowns": True, **part})}
    if not short:
        runs["plain build"] = "verilator", {"plain": True}
    missing = simulator_missing("icarus")
    if missing is None and not short:
        long = request.config.getoption("--long")
        runs["icarus"] = "icarus", {} if long else {"test": SHORT}
    for name, (sim, how) in runs.items():
        expected = {test: first[test] for test in planned_tests(TESTS, how.get("test"))}
        assert digest_of(sim, seed, **how) == expected, f"{name}: another trace"
    other = digest_of("verilator", seed + 1, **part)
    assert all(digest != first[test] for test, digest in other.items())
    if missing is not None and not short:
        pytest.skip(f"all but Icarus agree; {missing}")
