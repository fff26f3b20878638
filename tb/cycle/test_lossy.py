# SPDX-License-Identifier: Apache-2.0
"""Compares the cycle model with the RTL while the fabric loses packets and acknowledgements."""

from dataclasses import replace

import numpy as np
import pytest

from efa_cosim.cycle.compare import compare, within
from efa_cosim.cycle.network import simulate
from efa_cosim.cycle.workload import LOSS_SHARE, Workload
from tb.cycle.grid_job import both
from tb.cycle.timed import run_timed
from tb.runner import RunFailed

PERCENT = LOSS_SHARE // 100
# Alone: found by timeouts. Others outstanding: found by age, and by order once the sender has
# learned how deep the fabric reorders, with more messages than that takes.
EXACT = [
    Workload(size=32, loss=PERCENT, messages=256),
    Workload(size=32, loss=5 * PERCENT, messages=256),
    Workload(size=32, depth=16, loss=PERCENT, messages=1024),
    Workload(size=32, depth=16, loss=5 * PERCENT, messages=2048),
    Workload(size=64, operation="WRITE", loss=5 * PERCENT, messages=128),
    Workload(size=64, operation="WRITE", depth=16, loss=PERCENT, messages=1024),
    Workload(size=64, operation="WRITE", depth=16, loss=5 * PERCENT, messages=1024),
    Workload(size=64, operation="WRITE_IMM", depth=16, loss=PERCENT, messages=1024),
    Workload(size=4096, operation="WRITE", queues=2, depth=8, loss=2 * PERCENT, messages=512),
    Workload(size=32, queues=4, depth=64, batch=4, loss=PERCENT, messages=2048),
    Workload(size=64, queues=4, depth=16, loss=5 * PERCENT, messages=2048),
]
# The device probes paths that timeouts have made unusable; the model does not.
BOUNDED = [Workload(size=64, depth=4, gap=60, loss=PERCENT, messages=1024)]
# Medians over long runs, whose losses need not be the same.
DRAWS = 8
LONG = [
    Workload(size=32, loss=5 * PERCENT, messages=512),
    Workload(size=32, depth=16, loss=5 * PERCENT, messages=4096),
    Workload(size=64, operation="WRITE", depth=16, loss=5 * PERCENT, messages=4096),
]


@pytest.fixture
def rows(sim, seed):
    """Returns a function that yields workload, run and comparison of workloads."""
    if sim != "verilator":
        pytest.skip("the device's cycles are the same on every simulator: one of them is enough")

    def of(works):
        try:
            found = run_timed(works, sim, seed)
        except RunFailed as error:
            pytest.fail(str(error), pytrace=False)
        for work, run in zip(works, found, strict=True):
            yield work, run, compare(work, *both(work, run))

    return of


def test_with_losses_the_model_predicts_every_completion(rows):
    for work, run, row in rows(EXACT):
        assert run.lost.any(), f"{work}: no loss"
        assert row["exact"], f"{work}: {row['parts_at']}"


def test_with_probes_of_paths_the_measurements_are_within_their_bounds(rows):
    for work, run, row in rows(BOUNDED):
        assert run.lost.any() and all(row["met"].values()), (
            f"{work}: {row['rtl']}, modelled {row['model']}")


def test_other_losses_of_the_same_share_give_a_median_as_near_as_their_own(rows):
    """The fabric of the bench draws other losses than the model. A median depends on them, so the
    model draws several times."""
    for work, _, row in rows(LONG):
        medians = [float(np.median(simulate(replace(work, seed=seed)).latency))
                   for seed in range(DRAWS)]
        real = row["rtl"]["median"]
        assert any(within("median", real, found, True) for found in medians) or (
            min(medians) < real < max(medians)), f"{work}: {real}, modelled {medians}"
