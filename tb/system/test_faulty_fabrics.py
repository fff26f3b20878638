# SPDX-License-Identifier: Apache-2.0
"""Tests sends, writes and reads over each fabric file of sim/fabrics/faulty.

A monitor checks each packet. `make test` skips them, `make faulty-fabrics` runs them.
"""

from functools import partial
from random import Random

import pytest

from efa_cosim.fabric.description import read_fabric
from efa_cosim.tree import ROOT
from tb.lib.watched_fabric import watched
from tb.scenarios import rdma_load, reliable
from tb.system.test_rdma import PAIRS

FILES = sorted((ROOT / "sim/fabrics/faulty").glob("*.yaml"))
SCENARIOS = {
    "sends": partial(reliable.exchange, rounds=2),
    "writes": partial(rdma_load.operations, reads=False),
    "reads": partial(rdma_load.operations, reads=True),
}
# Packets of an operation have 8,192 bytes with the one profile, 4,096 with the other.
PROFILES = {"sends": "recorded", "writes": "default", "reads": "default"}


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_a_faulty_fabric(file, pair, scenario, sim, seed, unless_long, request):
    unless_long("fabric")
    if request.config.getoption("--short"):
        pytest.skip("faulty fabrics take long: `make faulty-fabrics` runs them")
    fabric = read_fabric(file)
    assert len(fabric.nodes) == 3, f"{file}: needs three nodes, two with `backend: verilator`"
    with watched(sim, fabric, PROFILES[scenario], cancels=False) as devices:
        SCENARIOS[scenario]([devices[place] for place in PAIRS[pair]], Random(seed))
        paths = devices[0].link.network.path_counters()
    harmed = sum(path.lost + path.duplicated + path.reordered for path in paths)
    # A slow path alone harms no packet.
    slow = any("rate" in override.properties for override in fabric.overrides)
    assert harmed or slow, f"{file}: its faults came too late for the packets of the test"
