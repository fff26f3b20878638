# SPDX-License-Identifier: Apache-2.0
"""Tests RDMA between simulated devices and devices of the reference model."""

from functools import partial
from random import Random

import pytest

from efa_cosim.fabric.description import parse_fabric
from efa_cosim.layouts.defs import IoCompStatus as STATUS
from tb.lib.watched_fabric import watched
from tb.scenarios import rdma_load

FABRIC = """
seed: 2
nodes: [{{node: 4, backend: verilator}}, {{node: 7, backend: verilator}}, 9]
paths:
  count: 8
  default: {{latency: 100, loss: {0}, reorder: {{probability: {0}, depth: 8, delay: 3000}}}}
"""
CLEAN, LOSSY = FABRIC.format(0), FABRIC.format(0.05)
# Rounds with --short: one of operations, one of each way to end.
FEWER = {rdma_load.operations: 1, rdma_load.endings: 4}
PAIRS = {"simulated to model": (0, 2), "model to simulated": (2, 0), "two simulated": (0, 1)}


def run(sim, text, pair, scenario, cancels=True):
    """Runs a scenario between two nodes of a watched fabric; returns its result."""
    # Packets of an operation have 8,192 bytes with the one profile, 4,096 with the other.
    profile = "recorded" if pair == "two simulated" else "default"
    with watched(sim, parse_fabric(text), profile, cancels) as devices:
        return scenario([devices[place] for place in PAIRS[pair]], Random(7))


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("scenario", FEWER)
@pytest.mark.parametrize("reads", [False, True], ids=["writes", "reads"])
def test_operations_over_a_lossy_fabric(reads, scenario, pair, sim, unless_long, request):
    unless_long("fabric")
    cancels = scenario is rdma_load.endings
    rounds = {"rounds": FEWER[scenario]} if request.config.getoption("--short") else {}
    run(sim, LOSSY, pair, partial(scenario, reads=reads, **rounds), cancels)


@pytest.mark.parametrize("pair", PAIRS)
def test_a_removed_queue_pair_returns_no_further_bytes(pair, sim, unless_long):
    unless_long("fabric")
    seen = run(sim, LOSSY, pair, rdma_load.removed_targets)
    assert seen <= {STATUS.OK, STATUS.REMOTE_ERROR_BAD_ADDRESS, STATUS.REMOTE_ERROR_BAD_DEST_QPN}
    # The model reads all bytes of a request at once.
    assert STATUS.REMOTE_ERROR_BAD_ADDRESS in seen or pair == "simulated to model"


@pytest.mark.parametrize("pair", ["simulated to model", "model to simulated"])
@pytest.mark.parametrize("reads", [False, True], ids=["writes", "reads"])
def test_wrong_operations_are_refused(reads, pair, sim, unless_long):
    unless_long("fabric")
    run(sim, CLEAN, pair, partial(rdma_load.refusals, reads=reads))


@pytest.mark.parametrize("pair", ["simulated to model", "model to simulated"])
def test_a_write_with_immediate_waits_for_a_receive(pair, sim, unless_long):
    unless_long("fabric")
    run(sim, CLEAN, pair, rdma_load.not_ready, cancels=False)
