# SPDX-License-Identifier: Apache-2.0
"""Tests simulated devices on a fabric file, beside devices of the reference model."""

from contextlib import contextmanager
from random import Random

import pytest

from efa_cosim.backends.model import ModelBackend
from efa_cosim.fabric.description import parse_fabric
from efa_cosim.host.queue_pair import RdmaWr
from efa_cosim.layouts.defs import TRANSPORT, IoCompStatus
from tb.lib.fabric_link import chosen_nodes
from tb.lib.watched_fabric import watched
from tb.peer_fuzz import fuzz
from tb.scenarios import rdma, reliable

FEATURE_MISMATCH = IoCompStatus.REMOTE_ERROR_FEATURE_MISMATCH
NODES = "nodes: [{node: 4, backend: verilator}, {node: 7, backend: verilator}, 9]\n"
FAULTS = f"""
seed: 5
{NODES}paths:
  count: 8
  default: {{latency: 100, loss: 0.03, reorder: {{probability: 0.05, depth: 8, delay: 3000}}}}
  overrides:
    # Set-up ends before; a packet that is lost before the first measurement waits longer.
    - {{path: 2, down: [{{from: 35000, to: 10000000}}]}}
    - {{path: 5, duplicate: {{probability: 0.2, delay: 500}}}}
"""


@pytest.mark.parametrize("pair", [(0, 1), (1, 2)], ids=["two simulated", "simulated and model"])
def test_messages_arrive_once_over_a_fabric_with_faults(pair, sim, unless_long):
    unless_long("fabric")
    with watched(sim, parse_fabric(FAULTS), profile="recorded", cancels=False) as devices:
        names = [device.name for device in devices]
        assert names == [sim, sim, "model"]
        assert [device.node_id for device in devices] == [4, 7, 9]
        reliable.exchange([devices[place] for place in pair], Random(3), rounds=2)
        assert packets_lost(devices[0]) > 0


def test_a_reset_of_a_simulated_peer_ends_messages(sim, unless_long):
    unless_long("fabric")
    fabric = parse_fabric(f"{NODES}paths: {{count: 8, default: {{latency: 100}}}}\n")
    with watched(sim, fabric, profile="recorded") as devices:
        nodes = reliable.nodes_of(devices[:2])
        out, into = reliable.streams(nodes, Random(7))
        for way in (out, into):
            way.post_receives()
            for slot in range(reliable.SLOTS):
                way.send(slot)
        for node in nodes:
            node.context.enter_kernel()
        devices[0].pause(400)
        devices[1].flr()
        reliable.poll_sends(out, into)
        statuses = set(out.ended.values())
        assert {IoCompStatus.REMOTE_ERROR_ABORT} <= statuses <= {
            IoCompStatus.OK, IoCompStatus.REMOTE_ERROR_ABORT}  # fmt: skip


def packets_lost(device):
    """Returns how many packets the fabric of a simulated device has lost."""
    return sum(one.lost for one in device.link.network.path_counters())


@contextmanager
def open_pair(sim, profile="default"):
    """Opens a device of the model with RDMA, and a simulated one with a profile, the target."""
    fabric = parse_fabric("nodes: [9, 4, 7]\npaths: {count: 8}\n")
    # All tests have the build with two devices.
    with watched(sim, fabric, profile, simulated=[4, 7], model=False) as (target, _):
        yield [ModelBackend(9, fabric=target.link.network, tick=target.tick_cycles), target]


def test_rdma_that_a_simulated_device_does_not_know_is_refused(sim, unless_long):
    unless_long("fabric")
    with open_pair(sim, "basic") as devices:
        a, b = (reliable.Endpoint(reliable.Node(device)) for device in devices)
        target = {**a.towards(b), "remote_addr": b.buffer.addr, "r_key": b.buffer.r_key}
        begin = devices[1].cycles
        for post in (a.qp.post_read, a.qp.post_write):
            for size in (0, 8, 20_000):
                post(RdmaWr(**target, sges=[a.sge(0, size)] if size else [], wr_id=size))
                done = a.cq.wait_for(1, **reliable.PATIENCE)
                assert (done["wr_id"][0], done["status"][0]) == (size, FEATURE_MISMATCH)
        # Each packet was refused at once: none was sent until the peer counts as dead.
        assert devices[1].cycles - begin < 40_000


def test_a_model_writes_memory_of_a_simulated_device(sim, unless_long):
    unless_long("fabric")
    with open_pair(sim) as devices:
        rdma.write(devices, Random(3))


@pytest.mark.parametrize("unsolicited", [False, True], ids=["receives", "unsolicited"])
def test_a_write_with_immediate_completes_at_a_simulated_device(unsolicited, sim, unless_long):
    unless_long("fabric")
    with open_pair(sim) as devices:
        rdma.write_with_immediate(devices, Random(4), unsolicited)


def test_a_simulated_device_refuses_wrong_writes(sim, unless_long):
    unless_long("fabric")
    with open_pair(sim) as devices:
        rdma.refusals(devices, Random(5))


def test_no_byte_is_written_after_the_end_of_a_region_or_queue_pair(sim, unless_long):
    unless_long("fabric")
    with open_pair(sim) as devices:
        network = devices[1].link.network
        rdma.endings(devices, Random(6), lambda cycles: network.run(until=network.now + cycles))


def test_sends_to_a_silent_peer_hold_up_no_other_queue(sim, unless_long):
    unless_long("fabric")
    fabric = parse_fabric("nodes: [9, 4, 7]\npaths: {count: 8}\n")
    with watched(sim, fabric, "recorded", simulated=[4, 7], model=False) as devices:
        reliable.others_go_on(devices, silent=9)


def test_refused_sends_hold_up_no_other_send_to_their_peer(sim, unless_long):
    unless_long("fabric")
    fabric = parse_fabric("nodes: [9, 4, 7]\npaths: {count: 8}\n")
    with watched(
        sim, fabric, "recorded", simulated=[4, 7], model=False, refusals=TRANSPORT.replies,
    ) as devices:  # fmt: skip
        reliable.refused_sends_hold_up_no_other(devices)


def test_a_node_of_the_model_waits_no_longer_than_for_its_completion(sim, unless_long):
    unless_long("fabric")
    with open_pair(sim) as devices:
        a, b = (reliable.Endpoint(reliable.Node(device)) for device in devices)
        target = {**a.towards(b), "remote_addr": b.buffer.addr, "r_key": b.buffer.r_key}
        ends = []
        for number in range(8):
            a.qp.post_read(RdmaWr(**target, sges=[a.sge(0, 4096)], wr_id=number))
            a.cq.wait_for(1, **reliable.PATIENCE)
            devices[0].settle()
            ends.append(devices[1].cycles)
        # The first one finds the peer in the quiet time after its reset. The others take hundreds
        # of cycles, the silence of a dead peer 362,144.
        assert ends[-1] - ends[0] < 7 * 4000


def test_the_fabric_gives_a_packet_its_cycles(sim, unless_long):
    unless_long("fabric")
    found = []
    for latency in (500, 1700):
        text = f"nodes: [1, 2]\npaths: {{count: 3, default: {{latency: {latency}}}}}\n"
        with watched(sim, parse_fabric(text), cancels=False) as devices:
            out, into = reliable.streams(
                [reliable.Node(device) for device in devices], Random(1))  # fmt: skip
            out.post_receives()
            # The first packet finds the peer in the quiet time after its reset.
            for slot in range(2):
                out.send(slot)
                begin = devices[0].cycles
                reliable.poll_sends(out, into)
            found.append(devices[0].cycles - begin)
    # There and back.
    assert abs(found[1] - found[0] - 2 * (1700 - 500)) <= 8


def test_an_untrusted_node_harms_nobody(sim, unless_long):
    unless_long("fabric")
    result = fuzz(sim, seed=1, packets=3000)
    assert result["verdict"] == "passed", result
    assert result["sends_the_peer_ended"] > 0
    assert result["reported"].keys() == {"OPCODE", "LENGTH", "FIELD", "SESSION", "PSN"}
    # Refused packets count, too.
    assert result["rx_drops"] > sum(result["reported"].values())


def test_the_nodes_to_simulate_must_exist_and_fit():
    mixed = parse_fabric("nodes: [1, {node: 2, backend: verilator}, 3]\npaths: {count: 8}\n")
    assert chosen_nodes(mixed, None) == [2]
    description = parse_fabric("nodes: [1, 2, 3]\npaths: {count: 8}\n")
    assert chosen_nodes(description, [3, 1]) == [3, 1]
    with pytest.raises(ValueError, match="no node 4 in the fabric: expected one of"):
        chosen_nodes(description, [4])
    for wrong in (None, [], [1, 1]):
        with pytest.raises(ValueError, match="simulated nodes: name 1 to 2 different ones"):
            chosen_nodes(description, wrong)
