# SPDX-License-Identifier: Apache-2.0
"""Tests send queues in host memory on the cycle model: cost and time of each WQE read."""

from dataclasses import replace

import numpy as np
import pytest
from test_cycle import altered, idle

from efa_cosim.cycle.network import simulate
from efa_cosim.cycle.stages import Stages
from efa_cosim.cycle.timelines import MILESTONES
from efa_cosim.cycle.workload import Workload, store_beats
from efa_cosim.report import crossover
from efa_cosim.sweep.grid import Job, read_grid
from efa_cosim.sweep.workloads import measure

pytestmark = pytest.mark.slow

MOST_K = 8
GRID = """\
sizes: [32, 512]
kinds: SRD
queues: 4
host_read_latency: [125, 500]
depth: [1, 16, 64]
batch: [1, 8]
store_buffer: [ideal, adversarial]
sq_host: [0, 1]
backend: cycle
"""


@pytest.fixture(scope="module")
def measurements(tmp_path_factory):
    path = tmp_path_factory.mktemp("grid") / "queue.yaml"
    path.write_text(GRID)
    return [measurement.as_dict() for job in read_grid(path).jobs() for measurement in measure(job)]


@pytest.mark.parametrize("kind", ["SRD", "UD"])
@pytest.mark.parametrize("size", [0, 32, 64, 1024])
def test_an_idle_device_reads_wqes_as_the_stages_define(kind, size):
    work = Workload(kind=kind, size=size, messages=2, read_latency=200, sq_host=1)
    expected = Stages().moments(work)
    expected.pop("seen")
    assert idle(work) == expected


@pytest.mark.parametrize("path", ["efa_sq_fetch.read", "efa_sq_reorder.beat", "efa_dma_rd.request"])
def test_the_read_of_a_wqe_follows_its_modules(path):
    work = Workload(size=8, messages=2, sq_host=1)
    table = altered(*path.split("."), "latency", 3)
    expected = table.moments(work)
    assert expected["wqe"] == Stages().moments(work)["wqe"] + 3
    expected.pop("seen")
    assert idle(work, table) == expected


def test_llq_saves_one_round_trip_and_a_few_cycles():
    extra = set()
    for kind, size, wait in (("SRD", 32, 125), ("SRD", 4096, 125), ("UD", 64, 333), ("SRD", 64, 1)):
        work = Workload(kind=kind, size=size, read_latency=wait, messages=4)
        cycles = simulate(replace(work, sq_host=1)).latency - simulate(work).latency
        extra |= set((cycles - wait - crossover.BUS).tolist())
    assert len(extra) == 1 and 0 <= extra.pop() <= MOST_K


def test_a_batch_pays_once():
    work = Workload(size=32, queues=1, depth=8, batch=8, messages=8, read_latency=500)
    llq, host = simulate(work), simulate(replace(work, sq_host=1))
    later = int(host["wqe"].max()) - int(llq["wqe"].max()) - 500 - crossover.BUS
    # The first line starts a scheduler visit before the other lines arrive; they share later
    # visits.
    assert 0 < later < 2 * MOST_K


def test_reads_of_one_queue_follow_each_other_as_the_table_says():
    work = Workload(size=32, depth=16, batch=16, messages=16, sq_host=1)
    slow = altered("efa_sq_fetch", "again", "interval", 40)
    before, after = (simulate(work, table=table)["wqe"] for table in (None, slow))
    assert after[8] - before[8] >= 20 and after[7] == before[7]


def test_messages_keep_their_order_with_reads_of_everybody():
    timelines = simulate(Workload(size=64, queues=4, depth=16, batch=4, messages=512, sq_host=1))
    passed = [timelines[name] for name in MILESTONES]
    for before, after in zip(passed, passed[1:], strict=False):
        assert (after >= before).all()
    assert len(np.unique(timelines["wqe"])) == 512


@pytest.mark.parametrize("depth", [1, 16, 64])
@pytest.mark.parametrize("batch", [1, 4])
def test_a_rate_that_host_memory_limits_is_below_its_limit(depth, batch, tmp_path):
    path = tmp_path / "grid.yaml"
    path.write_text(f"sizes: 64\nkinds: SRD\nqueues: 4\nhost_read_latency: 1000\ndepth: {depth}\n"
                    f"batch: {min(batch, depth)}\nsq_host: 1\nbackend: cycle\nmeasure: rate\n")
    [job] = read_grid(path).jobs()
    rates = [one for one in measure(job) if one.metric == "message rate"]
    assert rates and all(0.5 * one.limit < one.value <= one.limit for one in rates)


def test_wqes_in_host_memory_do_not_pass_the_bus():
    assert store_beats(Workload(batch=4, depth=4, messages=64, policy="random", sq_host=1)) == [0]
    job = Job("cycle", "SRD", 32, 125, 1, (8,), ("rate",), 64, 1, "ideal", 1)
    (rate, *_) = measure(job)
    assert rate.sq_host and rate.value <= rate.limit


def test_every_pair_of_a_sweep_is_one_read_apart(measurements):
    found = crossover.savings(measurements)
    assert {(wait, size) for wait, size, _ in found} == {
        (wait, size) for wait in (125, 500) for size in (32, 512)}
    extra = {cycles - wait - crossover.BUS for (wait, _, _), cycles in found.items()}
    assert len(extra) == 1
    assert f"one host read and {extra.pop():.0f} cycles" in crossover.queues(measurements)


def test_the_picture_shows_where_host_memory_draws_level(measurements):
    assert crossover.both(measurements)
    assert not crossover.both([one for one in measurements if one["sq_host"]])
    picture = crossover.queues(measurements)
    assert "diamond: equal rates" in picture and "LLQ, store buffer adversarial" in picture
    rates = [one for one in measurements if one["metric"] == "message rate"]
    assert "diamond" not in crossover.queues(
        [one for one in measurements if one not in rates or one["depth"] == 1])
