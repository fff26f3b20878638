# SPDX-License-Identifier: Apache-2.0
"""Compares LLQ with a send queue in host memory: the cost of a WQE read, on RTL and model."""

from dataclasses import replace

import pytest

from efa_cosim.cycle.compare import compare
from efa_cosim.cycle.network import simulate
from efa_cosim.cycle.stages import Stages
from efa_cosim.cycle.timelines import MILESTONES
from efa_cosim.cycle.workload import Workload
from efa_cosim.report.crossover import BUS, MOST_K
from efa_cosim.sweep.workloads import on_backend

# Four messages, as in test_timed.py.
ALONE = [Workload(kind=kind, size=size, read_latency=wait, messages=4, sq_host=1)
         for kind, size, wait in (("SRD", 32, 125), ("SRD", 64, 333), ("SRD", 4096, 125),
                                  ("UD", 64, 125), ("UD", 8, 500))]
ALONE += [Workload(size=80, entry_bytes=128, messages=4, sq_host=1)]
ALONE += [Workload(size=64, operation="WRITE", messages=4, sq_host=1)]
LOADED = [
    Workload(size=32, depth=16, batch=16, messages=1024, sq_host=1),
    Workload(size=32, queues=8, depth=64, batch=16, messages=2048, sq_host=1),
    Workload(size=64, queues=8, depth=16, batch=4, read_latency=250, messages=1024, sq_host=1),
    Workload(size=64, queues=4, depth=4, messages=512, sq_host=1),
    Workload(size=512, queues=4, depth=16, batch=2, messages=512, sq_host=1),
    Workload(size=4096, depth=4, batch=4, messages=256, sq_host=1),
    Workload(kind="UD", size=128, queues=4, depth=32, batch=2, messages=1024, sq_host=1),
    Workload(size=8192, operation="WRITE", queues=4, depth=8, batch=2, messages=128, sq_host=1),
    Workload(size=64, queues=4, depth=16, batch=4, entry_bytes=128, messages=512, sq_host=1),
]


def least(found):
    """Returns the latency of a message that nothing delays."""
    return int(found.latency.min())


@pytest.fixture
def timelines(sim, seed):
    """Returns the timelines of some workloads on the RTL."""
    if sim != "verilator":
        pytest.skip("the device's cycles are the same on every simulator: one of them is enough")
    return on_backend(sim, seed)


def test_llq_saves_one_round_trip_and_the_same_few_cycles_on_rtl_and_model(timelines):
    llq = [replace(work, sq_host=0) for work in ALONE]
    found = {}
    for work, slow, fast in zip(ALONE, timelines(ALONE), timelines(llq), strict=True):
        modelled = least(simulate(work)) - least(simulate(replace(work, sq_host=0)))
        real = least(slow) - least(fast)
        assert real == modelled, f"{work}: {real} cycles on the RTL, {modelled} modelled"
        found[str(work)] = real - work.read_latency - BUS
    extra = set(found.values())
    assert len(extra) <= 2 and max(extra) <= MOST_K and min(extra) >= 0, found


def test_a_message_alone_is_exact_stage_by_stage(timelines):
    table = Stages()
    for work, real in zip(ALONE, timelines(ALONE), strict=True):
        expected = table.moments(work)
        expected.pop("seen")
        found = {name: int((real[name][1:] - real["bell"][1:]).min()) for name in MILESTONES
                 if real[name][1] >= 0}
        assert found == expected, f"{work}: the RTL against the table"


def test_under_load_with_wqes_in_host_memory(timelines):
    for work, real in zip(LOADED, timelines(LOADED), strict=True):
        row = compare(work, real, simulate(work))
        assert all(row["met"].values()), (str(work), row["error"], row["rtl"], row["parts_at"])
