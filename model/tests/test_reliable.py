# SPDX-License-Identifier: Apache-2.0
"""Tests devices of the model on a fabric that loses, duplicates, reorders and delays packets."""

import random
from collections import Counter

import pytest

from efa_cosim.backends.model import open_model
from efa_cosim.boundary.backend import DeviceTimeout
from efa_cosim.fabric.description import FabricFileError, parse_fabric
from efa_cosim.host.driver_objects import Access
from efa_cosim.host.endpoints import QKEY, UD, Endpoint, Node
from efa_cosim.host.queue_pair import RdmaWr, SendWr, Sge
from efa_cosim.layouts import defs
from efa_cosim.transport.monitor import Monitor
from efa_cosim.transport.packets import Start

Status = defs.IoCompStatus
READ, WRITE = defs.IoSendOpType.RDMA_READ, defs.IoSendOpType.RDMA_WRITE
STATE = defs.AdminQpState
TICK = defs.TRANSPORT.tick_cycles
ALL = Access(local_write=True, remote_write=True, remote_read=True)
REGION = 1 << 20
# The first cycle after the quiet time of the devices.
BEGIN = defs.TRANSPORT.quiet_ticks * TICK + 1

CLEAN = {"latency": 200}
LOSS = {**CLEAN, "loss": 0.03}
FABRICS = {
    "clean": CLEAN,
    "loss": LOSS,
    "bursts": {**CLEAN, "burst": {"enter": 0.01, "length": 20}},
    "reordering": {**CLEAN, "reorder": {"probability": 0.3, "depth": 30, "delay": 4000}},
    "duplicates": {**CLEAN, "duplicate": {"probability": 1, "delay": 3000}},
    "tail drop": {**CLEAN, "rate": 0.25, "buffer": {"packets": 3}},
    "everything": {
        "latency": 200, "loss": 0.02, "corrupt": 0.01, "burst": {"enter": 0.001, "length": 8},
        "duplicate": {"probability": 0.1, "delay": 2000},
        "reorder": {"probability": 0.2, "depth": 20, "delay": 3000}},
}


def fabric(properties, nodes=2, paths=4, seed=1, overrides=()):
    text = {"seed": seed, "nodes": [1 + n for n in range(nodes)],
            "paths": {"count": paths, "default": properties, "overrides": list(overrides)}}
    return parse_fabric(str(text))


class Side(Endpoint):
    """A queue pair, and a region that every peer may access if the device has RDMA."""

    def __init__(self, node, **options):
        super().__init__(node, **options)
        if node.driver.device_attr.rdma_write:
            self.memory = node.pd.reg_mr(REGION, ALL, scattered=True)

    def rdma(self, peer, length, at=0, to=0, **values):
        sges = [self.sge(at, length)] if length else []
        return RdmaWr(**self.towards(peer), remote_addr=peer.memory.addr + to,
                      r_key=peer.memory.r_key, sges=sges, **values)

    def done(self, count=1, **limits):
        return [(int(one["wr_id"]), Status(int(one["status"])))
                for one in self.cq.wait_for(count, **limits)]


def sides(properties=CLEAN, profile="default", kind=defs.AdminQpType.SRD, **options):
    """Returns a side on each node of a fabric; every node knows every other one."""
    depth = options.pop("depth", 64)
    monitor = Monitor(paths=options.get("paths", 4), start=Start())
    nodes = [Node(backend) for backend in
             open_model(fabric=fabric(properties, **options), profile=profile, observer=monitor)]
    found = [Side(node, kind=kind, depth=depth) for node in nodes]
    for node in nodes:
        for other in nodes:
            node.ah_of(other.backend.node_id)
    # The drivers have reset the devices.
    network(found[0]).run(until=BEGIN)
    return found


def counters(side):
    return side.node.backend.device.transport.endpoint.counters


def network(side):
    return side.node.backend.fabric


# Exactly once, on every fabric.


@pytest.mark.parametrize("name", FABRICS)
def test_every_message_arrives_once(name):
    a, b = sides(FABRICS[name], depth=256)
    rng = random.Random(name)
    sizes = [rng.choice((0, 1, 63, 1000, 4096)) for _ in range(200)]
    for number in range(200):
        b.receive(4096, wr_id=1000 + number)
    for number, size in enumerate(sizes):
        a.send(b, bytes(size), wr_id=number, imm=number)
    assert Counter(a.done(200)) == Counter((n, Status.OK) for n in range(200))
    network(a).run()
    got = b.cq.poll(256)
    assert Counter((one.imm, one.byte_len) for one in got) == Counter(enumerate(sizes))
    assert sorted(one.wr_id for one in got) == list(range(1000, 1200))
    lossless = name in ("clean", "reordering", "duplicates")
    assert (counters(a).lost == 0) == lossless
    if name == "duplicates":
        assert counters(b).duplicates + counters(b).stale >= 200


@pytest.mark.parametrize("name", FABRICS)
@pytest.mark.parametrize("length", [1, 8929, 200_000])
def test_memory_is_written_and_read_byte_for_byte(name, length):
    a, b = sides(FABRICS[name])
    data = random.Random(length).randbytes(length)
    a.buffer.write(0, data)
    a.qp.post_write(a.rdma(b, length, to=3, wr_id=1))
    assert a.done() == [(1, Status.OK)]
    assert b.memory.read(3, length) == data
    a.buffer.write(0, bytes(length))
    a.qp.post_read(a.rdma(b, length, to=3, wr_id=2))
    assert a.done() == [(2, Status.OK)]
    assert a.buffer.read(0, length) == data


def test_an_immediate_is_reported_after_all_bytes():
    a, b = sides(FABRICS["everything"], depth=32)
    b.receive(8, wr_id=7)
    length = 150_000
    data = random.Random(1).randbytes(length)
    a.buffer.write(0, data)
    a.qp.post_write(a.rdma(b, length, imm=0xABC, wr_id=1))
    [got] = b.cq.wait_for(1)
    # Checked when the completion of the receiver is there, not later.
    assert b.memory.read(0, length) == data
    assert (int(got["wr_id"]), int(got["byte_len"]), int(got["imm"])) == (7, length, 0xABC)
    assert a.done() == [(1, Status.OK)]


def test_several_nodes_exchange_everything_at_once():
    found = sides(FABRICS["everything"], nodes=4, depth=64)
    rng = random.Random(5)
    expected = Counter()
    for number, side in enumerate(found):
        for n in range(24):
            peer = found[rng.choice([i for i in range(4) if i != number])]
            if n % 3 == 0:
                peer.receive(4096, wr_id=n)
                side.send(peer, bytes(rng.randrange(4000)), wr_id=n)
            elif n % 3 == 1:
                side.qp.post_write(side.rdma(peer, rng.randrange(40_000), wr_id=n))
            else:
                side.qp.post_read(side.rdma(peer, rng.randrange(40_000), wr_id=n))
            expected[number, n] += 1
    network(found[0]).run()
    for number, side in enumerate(found):
        for one in side.cq.poll(256):
            if not one.receive:
                assert one.status == Status.OK
                expected[number, one.wr_id] -= 1
    assert not +expected and not -expected


def test_the_same_seed_gives_the_same_run():
    def run(seed):
        a, b = sides(LOSS, seed=seed)
        a.qp.post_write(a.rdma(b, 200_000))
        a.done()
        return network(a).now, counters(a)

    assert run(1) == run(1) != run(2)


def test_datagrams_are_lost_and_never_repeated():
    a, b = sides({**CLEAN, "loss": 0.5}, kind=UD)
    for number in range(60):
        b.receive(8, wr_id=number)
        a.send(b, b"datagram", wr_id=number)
    assert len(a.done(60)) == 60
    network(a).run()
    assert 10 < len(b.cq.poll(64)) < 50


# RNR.


@pytest.mark.parametrize("retries", [0, 1, 6])
def test_rnr_ends_after_its_retries(retries):
    a, b = sides(CLEAN)
    a.qp.modify(STATE.RTS, rnr_retry=retries)
    a.send(b, b"nobody receives", wr_id=1)
    assert a.done() == [(1, Status.REMOTE_ERROR_RNR)]
    assert b.node.backend.device.stats.rx_drops == 1 + retries
    assert network(a).now - BEGIN >= retries * defs.TRANSPORT.rnr_ticks * TICK


def test_rnr_without_end_waits_for_a_receive_and_holds_nobody_up():
    a, b = sides(LOSS)
    a.send(b, b"patient", wr_id=1)
    a.qp.post_write(a.rdma(b, 100_000, wr_id=2))
    assert a.done() == [(2, Status.OK)]
    with pytest.raises(DeviceTimeout, match="completions arrived"):
        a.cq.wait_for(1, timeout_cycles=200_000)
    b.receive(64, wr_id=9)
    assert a.done() == [(1, Status.OK)]
    assert b.buffer.read(0, 7) == b"patient"


def test_a_device_without_the_capability_does_not_retry():
    a, b = sides(CLEAN, profile="basic")
    a.send(b, b"x", wr_id=1)
    assert a.done() == [(1, Status.REMOTE_ERROR_RNR)]
    assert network(a).now - BEGIN < defs.TRANSPORT.rnr_ticks * TICK


# Peers that do not answer, and those that were reset.


DOWN = [{"path": [0, 1, 2, 3], "down": [{"from": BEGIN + 100_000}]}]


def test_a_peer_that_never_answered_is_unreachable():
    a, b = sides(CLEAN, overrides=[{"path": [0, 1, 2, 3], "down": [{"from": 0}]}])
    a.send(b, b"x", wr_id=1)
    a.qp.post_read(a.rdma(b, 8, wr_id=2))
    done = a.done(2, timeout_cycles=1 << 30)
    assert sorted(done) == [(n, Status.LOCAL_ERROR_UNREACH_REMOTE) for n in (1, 2)]


def test_a_peer_that_stops_answering_is_unresponsive():
    a, b = sides(CLEAN, overrides=DOWN)
    a.qp.post_write(a.rdma(b, 100, wr_id=1))
    assert a.done() == [(1, Status.OK)]
    network(a).run(until=BEGIN + 100_000)
    a.qp.post_write(a.rdma(b, 100_000, wr_id=2))
    assert a.done(timeout_cycles=1 << 30) == [(2, Status.LOCAL_ERROR_UNRESP_REMOTE)]


def test_a_fabric_that_heals_delivers_all():
    a, b = sides(CLEAN, overrides=[
        {"path": [0, 1, 2, 3], "down": [{"from": BEGIN + 2_000, "to": BEGIN + 400_000}]}])
    a.qp.post_write(a.rdma(b, 200_000, wr_id=1))
    a.qp.post_read(a.rdma(b, 200_000, wr_id=2))
    assert sorted(a.done(2, timeout_cycles=1 << 30)) == [(1, Status.OK), (2, Status.OK)]


def test_a_reset_of_the_peer_aborts_what_is_in_flight():
    a, b = sides(CLEAN)
    a.qp.post_write(a.rdma(b, 8, wr_id=0))
    a.done()
    a.qp.post_write(a.rdma(b, 200_000, wr_id=1))
    network(a).run(limit=60)
    b.node.backend.flr()
    assert a.done() == [(1, Status.REMOTE_ERROR_ABORT)]
    # The new incarnation has no queue pair.
    a.qp.post_write(a.rdma(b, 8, wr_id=2))
    assert a.done() == [(2, Status.REMOTE_ERROR_BAD_DEST_QPN)]


def test_a_read_whose_responder_was_reset_ends():
    a, b = sides({"latency": 5000})
    a.qp.post_read(a.rdma(b, 8, wr_id=0))
    a.done()
    a.qp.post_read(a.rdma(b, 100_000, wr_id=1))
    # The request is acknowledged, the responses are lost with the responder.
    while not b.node.backend.device.stats.read_resp_bytes > 8:
        network(a).run(limit=1)
    b.node.backend.flr()
    assert a.done(timeout_cycles=1 << 30) == [(1, Status.REMOTE_ERROR_ABORT)]


def test_a_device_that_was_reset_begins_again():
    a, b = sides(LOSS)
    for number in range(3):
        a.qp.post_write(a.rdma(b, 50_000, wr_id=number))
        network(a).run(limit=30)
        a.node.backend.flr()
        again = Node(a.node.backend)
        a = Side(again)
        again.ah_of(b.node.backend.node_id)
        a.qp.post_write(a.rdma(b, 50_000, wr_id=10 + number))
        assert a.done() == [(10 + number, Status.OK)]


# Regions and queue pairs that go while packets are in flight.


@pytest.mark.parametrize("op", [READ, WRITE])
@pytest.mark.parametrize("side", ["initiator", "responder"])
def test_a_region_that_goes_ends_the_operation_once(op, side):
    for steps in range(20, 140, 24):
        a, b = sides(LOSS, seed=steps)
        source = a.node.pd.reg_mr(REGION, ALL)
        request = a.rdma(b, 0, wr_id=1)
        request.sges = [Sge(source.addr, 900_000, source.l_key)]
        (a.qp.post_write if op == WRITE else a.qp.post_read)(request)
        network(a).run(limit=steps)
        region = source if side == "initiator" else b.memory
        (a if side == "initiator" else b).node.driver.dereg_mr(region.l_key)
        [(number, status)] = a.done(timeout_cycles=1 << 30)
        expected = (Status.LOCAL_ERROR_INVALID_LKEY if side == "initiator"
                    else Status.REMOTE_ERROR_BAD_ADDRESS)
        assert (number, status) == (1, expected)
        network(a).run()
        assert a.cq.poll() == []
        assert a.node.backend.device.transport.endpoint.senders
        a.qp.post_send(SendWr(**a.towards(b), inline=b"x", wr_id=2))
        b.receive(8)
        assert a.done() == [(2, Status.OK)]


def test_a_retransmission_reads_memory_again():
    a, b = sides(CLEAN, paths=1, overrides=[
        {"path": 0, "source": 1, "destination": 2, "down": [
            {"from": 0, "to": 1, "unit": "packets"}]}])
    a.buffer.write(0, b"first")
    a.qp.post_write(a.rdma(b, 5, wr_id=1))
    network(a).run(limit=3)
    a.buffer.write(0, b"later")
    assert a.done(timeout_cycles=1 << 24) == [(1, Status.OK)]
    assert b.memory.read(0, 5) == b"later"
    b.receive(64)
    a.qp.post_send(SendWr(**a.towards(b), inline=b"inline", wr_id=2))
    assert a.done() == [(2, Status.OK)]


@pytest.mark.parametrize("state", [STATE.ERR, STATE.RESET])
def test_a_queue_pair_that_leaves_rts_places_nothing_more(state):
    a, b = sides(LOSS)
    a.qp.post_read(a.rdma(b, 200_000, wr_id=1))
    network(a).run(limit=100)
    a.qp.modify(state)
    before = a.buffer.read(0, 200_000)
    b.memory.write(0, b"\xff" * 200_000)
    network(a).run()
    assert a.buffer.read(0, 200_000) == before
    found = [(one.wr_id, one.status) for one in a.cq.poll()]
    assert found == ([(1, Status.FLUSHED)] if state == STATE.ERR else [])


# Opening.


def test_the_nodes_of_the_fabric_are_the_devices():
    backends = open_model(fabric=fabric(CLEAN, nodes=3), nodes=3)
    assert [one.node_id for one in backends] == [1, 2, 3]
    with pytest.raises(ValueError, match="2 nodes and a fabric of 3"):
        open_model(fabric=fabric(CLEAN, nodes=3), nodes=2)


def test_a_file_of_a_fabric_is_read(tmp_path):
    file = tmp_path / "fabric.yaml"
    file.write_text("nodes: 2\npaths: {default: {loss: 0.1}}\n")
    assert [one.node_id for one in open_model(fabric=file)] == [0, 1]
    file.write_text("nodes: 2\npaths: {default: {los: 0.1}}\n")
    with pytest.raises(FabricFileError, match="unknown key 'los'"):
        open_model(fabric=file)


def test_qkey_violations_are_refused_through_the_transport():
    a, b = sides(LOSS)
    request = a.rdma(b, 8, wr_id=1)
    request.qkey = QKEY + 1
    a.qp.post_write(request)
    assert a.done() == [(1, Status.REMOTE_ERROR_BAD_DEST_QPN)]
    assert b.node.backend.device.stats.qkey_viol == 1
