# SPDX-License-Identifier: Apache-2.0
"""Tests that a sweep's job gives the same measurements on RTL and cycle model."""

import pytest

from efa_cosim.sweep.grid import Job
from efa_cosim.sweep.workloads import measure, on_backend

BOUNDS = {("latency", "median"): 0.0, ("message rate", "mean"): 0.02,
          ("loaded latency", "median"): 0.02, ("loaded latency", "p99"): 0.05}  # fmt: skip


def test_a_job_gives_the_same_measurements_on_rtl_and_model(sim):
    if sim != "verilator":
        pytest.skip("the device's cycles are the same on every simulator: one of them is enough")
    job = Job(sim, "SRD", 512, 250, 1, (1, 4), ("latency", "rate"), 8, 4, "ideal")
    real = measure(job, on_backend(sim, job.seed))
    found = measure(job)
    assert [(one.metric, one.statistic) for one in real] == [
        (one.metric, one.statistic) for one in found]  # fmt: skip
    for a, b in zip(real, found, strict=True):
        assert abs(b.value - a.value) <= BOUNDS[a.metric, a.statistic] * a.value, (a, b)
        assert (a.messages, a.limit) == (b.messages, b.limit)


def test_a_job_with_losses_is_measured_on_the_rtl(sim):
    """RTL and model lose other packets, so the values differ more than without losses."""
    if sim != "verilator":
        pytest.skip("the device's cycles are the same on every simulator: one of them is enough")
    job = Job(sim, "SRD", 32, 125, 1, (1,), ("rate",), 16, 4, "ideal", loss=0.05)
    real, found = measure(job, on_backend(sim, job.seed)), measure(job)
    for a, b in zip(real, found, strict=True):
        assert (a.metric, a.statistic, a.messages, a.limit, a.loss) == (
            b.metric, b.statistic, b.messages, b.limit, 0.05)  # fmt: skip
        assert 0.8 < b.value / a.value < 1.25, (a, b)
