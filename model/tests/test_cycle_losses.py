# SPDX-License-Identifier: Apache-2.0
"""Tests losses in the cycle model without the RTL: each message completes, and what is lost is sent
again."""

from dataclasses import replace

import numpy as np
import pytest

from efa_cosim.cycle.network import Retransmission, recorded, simulate
from efa_cosim.cycle.timelines import MILESTONES, NEVER
from efa_cosim.cycle.workload import Workload
from efa_cosim.layouts import defs

pytestmark = pytest.mark.slow

ALONE = Workload(size=32, messages=256)
PERCENT = 655
WORKS = [ALONE, Workload(size=64, depth=16, messages=512),
         Workload(size=32, queues=4, depth=64, batch=16, messages=512),
         Workload(size=4096, operation="WRITE", queues=2, depth=8, messages=256),
         Workload(size=64, operation="WRITE_IMM", depth=16, batch=4, messages=256),
         Workload(size=64, depth=4, gap=60, messages=256),
         Workload(size=32, queues=2, depth=16, sq_host=1, messages=256)]  # fmt: skip
PACKET, ACKNOWLEDGEMENT = 0, 1  # The place of each in the order of leaving, of a message alone.


def losing(*places):
    """Returns what the fabric loses, by the places in the order of leaving."""
    return np.isin(np.arange(max(places, default=0) + 1), places).astype(np.int64)


@pytest.mark.parametrize("work", WORKS, ids=str)
@pytest.mark.parametrize("loss", [PERCENT, 5 * PERCENT, 30 * PERCENT])
def test_every_message_completes_once(work, loss):
    timelines = simulate(replace(work, loss=loss))
    passed = [name for name in MILESTONES if timelines[name][0] != NEVER]
    for before, after in zip(passed, passed[1:], strict=False):
        # A packet may be acknowledged before its retransmission is.
        assert (timelines[after] >= timelines[before]).all(), (before, after)
    assert len(np.unique(timelines["done"])) == work.total
    assert ("cqe" in passed) == work.receives


@pytest.mark.parametrize("work", WORKS, ids=str)
def test_a_fabric_that_loses_nothing_changes_nothing(work):
    timelines = simulate(replace(work, loss=PERCENT), losses=losing())
    plain = simulate(work)
    for name in MILESTONES:
        assert (timelines[name] == plain[name]).all(), name


@pytest.mark.parametrize("work", WORKS, ids=str)
def test_a_seed_repeats_its_losses(work):
    first, again, other = (simulate(replace(work, loss=5 * PERCENT, seed=seed))
                           for seed in (1, 1, 2))  # fmt: skip
    assert (first["done"] == again["done"]).all()
    assert (first["done"] != other["done"]).any()


@pytest.mark.parametrize("work", WORKS, ids=str)
def test_losses_are_never_faster(work):
    ends = [int(simulate(replace(work, loss=share * PERCENT)).end.max()) for share in (0, 5, 30)]
    assert ends[0] < min(ends[1:])


@pytest.mark.parametrize("lost", [PACKET, ACKNOWLEDGEMENT])
def test_a_loss_of_a_message_alone_ends_with_a_timeout(lost):
    work = replace(ALONE, loss=PERCENT)
    plain, timelines = simulate(ALONE), simulate(work, losses=losing(lost + 2 * 8))
    delay = timelines.latency - plain.latency
    # Round-trip times are known, so the timeout is not the first one of a session.
    least = defs.TRANSPORT.rto_margin * defs.TRANSPORT.tick_cycles
    assert least < delay[8] < 2 * least + work.net_latency and (np.delete(delay, 8) == 0).all()
    delayed = "tx_first" if lost == PACKET else "ackout"
    before = "wqe" if lost == PACKET else "cqe"
    assert timelines[delayed][8] - timelines[before][8] > least
    assert timelines["cqe"][8] - timelines["tx_first"][8] == plain["cqe"][8] - plain["tx_first"][8]


def test_the_first_timeout_is_that_before_a_measurement():
    timelines = simulate(replace(ALONE, loss=PERCENT), losses=losing(PACKET))
    assert timelines.latency[0] > defs.TRANSPORT.rto_initial * defs.TRANSPORT.tick_cycles


def test_later_acknowledgements_show_what_a_lost_one_did():
    work = Workload(size=32, depth=16, messages=128)
    plain = simulate(work)
    # The first acknowledgement; its message ends with the next one.
    place = int((plain["tx_last"] < plain["ackout"][0]).sum())
    timelines = simulate(replace(work, loss=PERCENT), losses=losing(place))
    assert timelines["ack"][0] == timelines["ack"][1] > plain["ack"][0]
    assert timelines.latency.max() < plain.latency.max() + 100


def test_a_loss_among_many_is_found_without_a_timeout():
    work = Workload(size=32, depth=16, loss=PERCENT, messages=4096)
    latency = simulate(work).latency
    # More than a period of the extent: losses are found by order.
    late = latency[2048:]
    again = late[late > 300]
    least = (defs.TRANSPORT.rto_margin * defs.TRANSPORT.tick_cycles)
    assert len(again) > 10 and np.median(again) < least


def test_a_peer_that_never_answers_is_refused():
    work = Workload(size=32, loss=PERCENT, messages=4)
    with pytest.raises(Retransmission, match="timeouts in a row"):
        simulate(work, losses=np.ones(1000, np.int64))


def test_a_record_with_losses_is_refused():
    with pytest.raises(Retransmission, match="a record of the cycle model"):
        recorded(replace(ALONE, loss=PERCENT))
