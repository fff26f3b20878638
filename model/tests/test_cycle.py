# SPDX-License-Identifier: Apache-2.0
"""Tests the cycle model without the RTL: the tables are the only source of its latencies."""

import itertools
import shutil
from copy import copy, deepcopy
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from efa_cosim.cycle.compare import compare, parting, within
from efa_cosim.cycle.network import Retransmission, simulate
from efa_cosim.cycle.stages import ROOT, StageError, Stages, cut, cut_at
from efa_cosim.cycle.timelines import MILESTONES, NEVER, Clocks, MessageTimelines
from efa_cosim.cycle.workload import Workload, WorkloadError, consumer_index, store_beats
from efa_cosim.host.wc import POLICIES
from efa_cosim.layouts import defs

pytestmark = pytest.mark.slow

SIZES = (0, 1, 32, 33, 64, 65, 512, 513, 1024, 4096)


def idle(work, table=None):
    """Returns the milestones of the second message relative to its doorbell store; those of a read
    as the table of stages names them."""
    timelines = simulate(work, table=table)
    found = {name: timelines[name][-1] for name in MILESTONES if timelines[name][-1] >= 0}
    if work.reads:
        del found["ackout"], found["ack"]
        for name, goal in (("check", "check"), ("tx_first", "req_out"), ("rx_last", "req_in")):
            found[goal] = timelines[name][-2]
    return {name: int(at - timelines["bell"][-1]) for name, at in found.items()}


@cache
def tables():
    """Reads the tables once."""
    return Stages()


def altered(module, path, key, by):
    """Returns the tables with one number changed."""
    found = copy(tables())
    found._timing = deepcopy(found._timing)
    found._timing[module][path][key] += by
    return found


@pytest.mark.parametrize("kind", ["SRD", "UD"])
@pytest.mark.parametrize("size", SIZES)
def test_an_idle_device_does_what_the_stages_define(kind, size):
    work = Workload(kind=kind, size=size, messages=2, read_latency=200, net_latency=30)
    expected = Stages().moments(work)
    expected.pop("seen")
    assert idle(work) == expected


@pytest.mark.parametrize("operation", ["WRITE", "WRITE_IMM"])
@pytest.mark.parametrize("size", SIZES)
def test_an_rdma_write_has_the_defined_stages(operation, size):
    work = Workload(operation=operation, size=size, messages=2, read_latency=200, net_latency=30)
    expected = Stages().moments(work)
    expected.pop("seen")
    assert idle(work) == expected and ("cqe" in expected) == (operation == "WRITE_IMM")


def test_the_packet_with_the_immediate_waits_for_the_outcomes_of_the_others():
    plain, last = (simulate(Workload(operation=operation, size=16384, messages=2))
                   for operation in ("WRITE", "WRITE_IMM"))  # fmt: skip
    assert (plain["check"][:3] == last["check"][:3]).all()
    assert last["check"][3] > last["ack"][:3].max() and plain["check"][3] < plain["ack"][0]
    assert (last["cqe"][:3] == NEVER).all() and last["cqe"][3] > last["rx_data_done"][3]


def test_packets_with_immediate_wait_for_descriptors_and_keep_their_order():
    work = Workload(operation="WRITE_IMM", size=0, depth=512, batch=16, read_latency=1000,
                    messages=256)  # fmt: skip
    timelines = simulate(work)
    waits = timelines["rx_validated"] - timelines["rx_last"]
    assert waits.max() > 500 and (np.diff(timelines["cqe"]) > 0).all()


@pytest.mark.parametrize("size", [1, 64, 65, 1024, 4096])
def test_an_rdma_read_has_the_defined_stages(size):
    work = Workload(operation="READ", size=size, messages=2, read_latency=200, net_latency=300)
    expected = Stages().moments(work)
    expected.pop("seen")
    assert idle(work) == expected


def test_a_read_is_complete_with_its_last_response():
    work = Workload(operation="READ", size=16384, messages=2, net_latency=300)
    timelines = simulate(work)
    assert work.packets == 5 and (timelines["check"][1:5] == NEVER).all()
    requested, placed = timelines["rx_validated"][0], timelines["rx_data_done"][1:5]
    assert (timelines["tx_first"][1:5] > requested).all() and (np.diff(placed) > 0).all()
    assert placed[-1] < timelines["done"][4] < timelines["ack"][4]


def test_a_visit_of_an_open_read_delays_others():
    work = Workload(operation="READ", size=0, queues=8, depth=16, batch=4, messages=512)
    clocks = Clocks(31417, 3124143)
    none = simulate(work, clocks=clocks)
    first = simulate(work, clocks=replace(clocks, context=5))
    assert parting(none, first) is not None and abs(first["done"] - none["done"]).max() < 100
    # No message has the context of the first visits.
    far = simulate(work, clocks=replace(clocks, context=1024))
    assert parting(none, far) is None


def test_payload_that_comes_after_many_timeouts_is_sent_once():
    # The timeout follows from the requests: no packet of a run waits as long in the fabric.
    for depth in (1, 8):
        work = Workload(operation="READ", size=4096, depth=depth, messages=16, read_latency=5000)
        timelines = simulate(work)
        assert len(timelines["tx_first"]) == work.total * work.packets


def test_more_reads_than_the_responder_has_contexts_for_are_refused():
    work = Workload(operation="READ", size=64, queues=8, depth=64, batch=16, messages=1024,
                    net_latency=2000, read_latency=4000)  # fmt: skip
    with pytest.raises(Retransmission, match="more read requests than"):
        simulate(work)


def test_the_packets_of_a_long_write_follow_each_other():
    work = Workload(operation="WRITE", size=16384, messages=2)
    timelines = simulate(work)
    assert work.packets == 4 and len(timelines["tx_first"]) == 8
    for name in MILESTONES:
        one = timelines[name][4:]
        same = name in ("bell", "db", "wqe", "done", "cqe")
        assert (np.diff(one) == 0).all() if same else (np.diff(one) > 0).all(), name
    # The first packet is that of a message of one packet.
    first = simulate(Workload(operation="WRITE", size=4096, messages=2))
    for name in ("check", "tx_last", "rx_data_done"):
        assert timelines[name][0] == first[name][0], name
    assert (timelines.latency == timelines["done"][3::4] - timelines["db"][3::4]).all()


def test_the_table_of_stages_refuses_an_operation_of_several_packets():
    with pytest.raises(StageError, match="expected one packet with payload, found 2"):
        Stages().moments(Workload(operation="WRITE", size=8192))
    with pytest.raises(StageError, match="expected one packet with payload, found 0"):
        Stages().moments(Workload(operation="READ", size=0))


@pytest.mark.parametrize("size", [0, 32, 80, 81, 512])
def test_a_wqe_of_128_bytes_does_what_the_stages_define(size):
    work = Workload(size=size, entry_bytes=128, messages=2)
    expected = Stages().moments(work)
    expected.pop("seen")
    assert idle(work) == expected and work.inline == (size <= 80)


def test_every_stage_of_the_way_follows_its_module():
    plain = tables()
    for (kind, operation), size in itertools.product(
            (("SRD", "SEND"), ("UD", "SEND"), ("SRD", "WRITE"), ("SRD", "WRITE_IMM"),
             ("SRD", "READ")), (8, 64)):
        work = Workload(kind=kind, operation=operation, size=size, messages=2)
        for stage, _ in plain.way(work):
            modules = [path for path in stage.cost if path not in plain.parameters]
            for path in dict.fromkeys(modules):
                table = altered(*path.split("."), "latency", 3)
                expected = table.moments(work)
                assert expected[stage.end] > plain.moments(work)[stage.end], path
                expected.pop("seen")
                assert idle(work, table) == expected, path


def test_a_congestion_window_limits_the_packets_in_flight():
    work = Workload(size=32, depth=256, batch=16, messages=1024, net_latency=4000)
    timelines = simulate(work)
    # The first window of packets leaves together, the next one after a round trip.
    left = np.sort(timelines["tx_first"])
    window = defs.TRANSPORT.cwnd_initial
    assert left[window - 1] - left[0] < 100 and left[window] - left[0] > 2 * work.net_latency


def test_acknowledgements_show_several_packets():
    timelines = simulate(Workload(size=32, queues=8, depth=64, batch=16, messages=1024))
    left, arrived = timelines["ackout"], timelines["ack"]
    assert 1 < len(np.unique(left)) < 1024 and len(np.unique(left)) == len(np.unique(arrived))
    assert (left > timelines["cqe"]).all() and (timelines["done"] > arrived).all()


def test_a_packet_that_would_be_sent_again_is_an_error():
    # The receiver reads its descriptors from host memory.
    work = Workload(size=0, depth=256, batch=16, messages=1024, read_latency=1000)
    with pytest.raises(Retransmission, match="longer than the timeout"):
        simulate(work)


def test_a_longer_interval_slows_a_loaded_device():
    work = Workload(size=32, queues=8, depth=64, batch=16, messages=4096)
    slow = altered("efa_rx_validate", "packet", "interval", 6)
    before, after = (simulate(work, table=table).end.max() for table in (None, slow))
    assert after > 1.5 * before


def test_a_table_that_lacks_a_path_is_refused(tmp_path):
    for name in ("timing.yaml", "stages.yaml"):
        shutil.copy(ROOT / "spec" / name, tmp_path)
    text = (tmp_path / "stages.yaml").read_text()
    (tmp_path / "stages.yaml").write_text(text.replace("efa_tx.data", "efa_tx.question"))
    with pytest.raises(StageError, match="efa_tx.question"):
        Stages(tmp_path)


def test_messages_keep_their_order_and_every_stage_its_direction():
    timelines = simulate(Workload(size=64, queues=4, depth=8, batch=4, messages=512))
    passed = [timelines[name] for name in MILESTONES]
    for before, after in zip(passed, passed[1:], strict=False):
        assert (after >= before).all()
    for name in ("tx_first", "rx_last", "cqe", "done"):
        assert len(np.unique(timelines[name])) == 512


@pytest.mark.parametrize(("values", "text"), [
    ({"kind": "RC"}, "kind"), ({"size": 5000}, "size"), ({"policy": "kind"}, "policy"),
    ({"batch": 4, "depth": 2}, "batch"), ({"messages": 1, "queues": 2}, "messages"),
    ({"size": 64, "buffers": 2}, "buffers"), ({"queues": 1.5}, "queues"),
    ({"entry_bytes": 96}, "entry_bytes"), ({"cq_batch": -1}, "cq_batch"),
    ({"operation": "WRITE", "kind": "UD"}, "kind SRD"), ({"operation": "ATOMIC"}, "WRITE"),
    ({"operation": "SEND", "size": 8192}, "at most 4096"),
    ({"operation": "WRITE", "size": 5000}, "a multiple of it"),
    ({"operation": "WRITE", "size": 1 << 17}, "0 to 65536"),
    ({"operation": "WRITE", "size": 512, "buffers": 2}, "one buffer"),
    ({"entry_bytes": 128, "batch": 16, "depth": 16, "messages": 16}, "at most 8"),
    ({"loss": 1 << 16}, "loss"), ({"loss": 1, "kind": "UD"}, "of one packet"),
    ({"late": 5, "gap": 5, "queues": 2}, "queues 2"),
    ({"loss": 1, "operation": "READ"}, "sends or writes"), ({"late": 5}, "open loop"),
    ({"late": 5, "gap": 5, "operation": "WRITE"}, "expected sends"),
    ({"late": 5, "gap": 5, "loss": 5}, "without loss"), ({"late": 5, "depth": 2}, "depth 2"),
    ({"loss": 1, "operation": "WRITE", "size": 8192}, "2 packets"),
])  # fmt: skip
def test_a_workload_that_cannot_be_is_refused(values, text):
    with pytest.raises(WorkloadError, match=text):
        Workload(**values)


def test_receives_that_are_posted_late_are_refused():
    with pytest.raises(Retransmission, match="has no RNR"):
        simulate(Workload(messages=4, late=100, gap=50_000))


def test_store_beats_are_what_the_policy_makes():
    ideal = store_beats(Workload(batch=4, depth=4, messages=64))
    assert set(ideal.tolist()) == {4}
    for policy in POLICIES:
        work = Workload(batch=4, depth=4, messages=64, policy=policy)
        assert store_beats(work).min() >= 4
        assert (store_beats(work) == store_beats(work)).all()
    assert store_beats(Workload(batch=4, depth=4, messages=64, policy="pressure")).mean() > 4


def test_wqes_of_128_bytes_are_two_lines():
    assert set(store_beats(Workload(batch=4, depth=4, messages=64, entry_bytes=128))) == {8}


def test_a_completion_queues_doorbell_costs_a_beat_when_enough_were_seen():
    work = Workload(batch=2, depth=4, cq_batch=4, messages=64)
    assert [consumer_index(work, must) for must in (-2, 0, 2, 4, 6, 8, 10)] == [0, 0, 0, 4, 0, 8, 0]
    every = Workload(batch=4, depth=4, cq_batch=1, messages=64)
    assert [consumer_index(every, must) for must in (0, 4, 8)] == [0, 4, 8]
    plain = Workload(size=32, depth=2, messages=64)
    posted = Workload(size=32, depth=2, messages=64, cq_batch=2)
    later = simulate(posted)["bell"] - simulate(plain)["bell"]
    assert later[2] == 0 and later[3] >= 1


def test_packets_wait_for_descriptors_and_keep_their_order():
    work = Workload(kind="UD", size=32, depth=64, batch=16, read_latency=3000, messages=1024)
    timelines = simulate(work)
    waits = timelines["rx_validated"] - timelines["rx_last"]
    assert waits.max() > 1000 and (np.diff(timelines["cqe"]) > 0).all()


def test_senders_wait_for_contexts_but_for_one_of_each_queue():
    work = Workload(size=32, queues=64, depth=32, batch=8, messages=4096)
    timelines = simulate(work)
    open_sends = [(timelines["wqe"] <= at).sum() - (timelines["done"] <= at).sum()
                  for at in range(0, int(timelines.end.max()), 97)]
    # Up to 16 sends have left their context and are on their way to the CQ.
    assert 1000 < max(open_sends) <= 1024 + 64 + 16


def test_an_open_loop_sends_at_its_own_pace():
    timelines = simulate(Workload(size=32, queues=2, depth=64, messages=64, gap=40))
    assert set(np.diff(timelines["bell"]).tolist()) == {40}


def test_pieces_are_cut_at_request_boundaries():
    assert cut(513) == (8, 1) and cut(0) == ()
    assert cut_at(40, 1024) == (8, 8, 1)


def test_bounds_are_a_share_or_some_cycles():
    assert within("rate", 0.1, 0.1019) and not within("rate", 0.1, 0.0979)
    assert within("median", 10, 11) and not within("median", 10, 11.5)
    assert within("median", 1000, 1020) and not within("median", 1000, 1021)
    assert within("p99", 10, 13) and not within("p99", 1000, 1051)


def test_the_comparison_names_the_stage_where_they_part():
    work = Workload(size=32, queues=2, depth=8, messages=64)
    real = simulate(work)
    assert compare(work, real, real)["exact"]
    late = MessageTimelines(work, {name: column.copy() for name, column in real.table.items()})
    late["rx_data_done"][10:] += 7
    name, cycle, count, most = parting(real, late)
    assert (name, count, most) == ("rx_data_done", 54, 7) and cycle == real["rx_data_done"][
        10:
    ].min()
    row = compare(work, real, late)
    assert row["parts_at"]["stage"] == "rx_data_done" and not row["exact"]
