# SPDX-License-Identifier: Apache-2.0
"""Tests that one seed gives one trace: a digest of all boundary activity, cycle by cycle."""

import pytest

from tb.runner import RunFailed
from tb.simulators import simulator_missing
from tb.system_run import run_system


@pytest.fixture
def digest_of(tmp_path):
    """Returns the digests of a run with a seed on a simulator, one for each test."""

    def run(sim, seed, **how):
        trace = tmp_path / "digest"
        trace.unlink(missing_ok=True)
        try:
            run_system("tb.system.trace_tests", sim, seed, env={"EFA_TRACE": str(trace)}, **how)
        except RunFailed as error:
            pytest.fail(str(error), pytrace=False)
        return trace.read_text().split()

    return run


def test_a_seed_gives_one_trace_and_another_differs(digest_of, seed):
    """The plain build draws initial values, also of memories: they do not reach the boundary."""
    first = digest_of("verilator", seed)
    runs = {"second run": ("verilator", {}), "plain build": ("verilator", {"plain": True})}
    missing = simulator_missing("icarus")
    if missing is None:
        runs["icarus"] = "icarus", {}
    for name, (sim, how) in runs.items():
        assert digest_of(sim, seed, **how) == first, f"{name}: another trace"
    other = digest_of("verilator", seed + 1)
    assert all(one != two for one, two in zip(first, other, strict=True))
    if missing is not None:
        pytest.skip(f"all but Icarus agree; {missing}")
