"""Every message's stages sum to its latency, in service and named waits."""

import json

import numpy as np
import pytest
from cycle.lifelines import Lifelines
from cycle.network import simulate
from cycle.waterfall import WaterfallError, attribute, message_at, of_message, shares, trace
from cycle.workload import Workload

BUSY = Workload(size=64, queues=8, depth=32, batch=8, messages=1024)


@pytest.mark.parametrize("work", [
    Workload(size=64, messages=8), BUSY, Workload(size=32, queues=4, depth=16, messages=256),
    Workload(size=4096, queues=4, depth=8, messages=128),
    Workload(kind="UD", size=128, queues=2, depth=16, batch=4, messages=256),
], ids=str)  # fmt: skip
def test_parts_sum_to_the_latency_of_every_message(work):
    lives = simulate(work)
    parts = attribute(lives)
    assert (sum(part.service + part.wait for part in parts) == lives.latency).all()
    assert all(part.cause or not part.wait.any() for part in parts)


def test_an_idle_device_makes_nobody_wait():
    parts = attribute(simulate(Workload(size=256, messages=8)))
    assert not any(part.wait.any() for part in parts)


def test_a_busy_device_does():
    lives = simulate(BUSY)
    parts = attribute(lives)
    slow, fast = (sum(row["wait"] for row in of_message(parts, message_at(lives, percent)))
                  for percent in (99, 50))
    assert slow > fast > 0
    assert sum(row["wait"] + row["service"] for row in shares(parts)) == pytest.approx(
        lives.latency.mean())


def test_stages_that_do_not_meet_are_refused():
    lives = simulate(BUSY)
    table = {name: column.copy() for name, column in lives.table.items()}
    table["rxw"][5] = table["rxv"][5] - 1
    with pytest.raises(WaterfallError, match="before it begins"):
        attribute(Lifelines(BUSY, table))


def test_a_trace_holds_every_cycle_of_a_message():
    lives = simulate(BUSY)
    slices = json.loads(trace(lives, attribute(lives), most=16))["traceEvents"]
    cycles = np.zeros(16, int)
    for one in slices:
        cycles[one["args"]["message"]] += one["args"]["cycles"]
    assert (cycles == lives.latency[:16]).all()
