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


def test_a_seed_repeats_and_another_differs(digest_of, seed):
    first = digest_of("verilator", seed)
    assert digest_of("verilator", seed) == first
    other = digest_of("verilator", seed + 1)
    assert all(one != two for one, two in zip(first, other, strict=True))


def test_both_simulators_agree_to_the_cycle(digest_of, seed):
    reason = simulator_missing("icarus")
    if reason is not None:
        pytest.skip(reason)
    assert digest_of("icarus", seed) == digest_of("verilator", seed)


def test_optimised_and_plain_build_agree_to_the_cycle(digest_of, seed):
    """Random initial values, also of memories, do not reach the boundary."""
    assert digest_of("verilator", seed, plain=True) == digest_of("verilator", seed)
