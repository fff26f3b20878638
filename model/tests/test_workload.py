# SPDX-License-Identifier: Apache-2.0
"""Tests the sweeps: every message is checked, every measurement names its message count and limit.
"""

import pytest
from timed import TimedModel

from efa_cosim.host.endpoints import SRD, UD
from efa_cosim.measure import workload
from efa_cosim.measure.latencies import EventsMissing
from efa_cosim.measure.workload import (
    Mismatch,
    flits,
    latency_point,
    latency_sweep,
    new_node,
    per_queue_of,
    rate_limit,
    rate_point,
    rate_sweep,
)

BATCH = 16
KINDS = pytest.mark.parametrize("kind", [UD, SRD], ids=["UD", "SRD"])


@pytest.fixture(autouse=True)
def _short_bursts(monkeypatch):
    monkeypatch.setattr(workload, "LEAST_PER_QUEUE", 8)
    monkeypatch.setattr(workload, "BURST", 16)


def node(**options):
    return new_node(TimedModel(**options))


def corrupting(change):
    """Returns a node whose device writes corrupted data where `change(data)` applies."""
    made = node()
    device = made.backend.device
    write = device.dma_write
    device.dma_write = lambda address, data: write(address, change(bytes(data)))
    return made


@KINDS
@pytest.mark.parametrize("size", [0, 8, 33, 4096])
def test_latency_is_a_median_over_checked_messages(kind, size):
    measurement = latency_point(node(), kind, size)
    assert (measurement.metric, measurement.unit) == ("latency", "cycles")
    assert measurement.messages == workload.MESSAGES
    assert (measurement.kind, measurement.size, measurement.limit) == (kind.name, size, None)
    assert measurement.value > 0


def test_latency_sweep_goes_through_kinds_and_sizes():
    text = []
    measurements = latency_sweep(node(), (8, 64), (UD, SRD), progress=text.append)
    assert [(one.kind, one.size) for one in measurements] == [
        ("UD", 8), ("UD", 64), ("SRD", 8), ("SRD", 64)]
    assert text[-1] == "latency, SRD, 64 bytes"


@KINDS
def test_rate_counts_every_message_and_stays_below_its_limit(kind):
    measurement = rate_point(node(), kind, 64, 2)
    assert (measurement.unit, measurement.messages) == ("messages/cycle", 16)
    assert 0 < measurement.value <= measurement.limit


def test_rate_sweep_has_sizes_at_the_most_queues_and_queues_at_32_bytes():
    measurements = rate_sweep(node(), (8, 64), (1, 2), (UD,))
    assert [(f.size, f.queues) for f in measurements] == [(8, 2), (64, 2), (32, 1)]


def test_a_rate_above_its_limit_is_refused(monkeypatch):
    monkeypatch.setattr(workload, "rate_limit", lambda *_: 1e-6)
    with pytest.raises(Mismatch, match="at most the limit 0.000001"):
        rate_point(node(), SRD, 64, 1)


@KINDS
def test_a_wrong_byte_of_a_message_is_found(kind):
    def last_byte(data):
        return data[:-1] + bytes([data[-1] ^ 1]) if len(data) >= 1000 else data

    with pytest.raises(Mismatch, match="message 0 of 8"):
        latency_point(corrupting(last_byte), kind, 1000)
    with pytest.raises(Mismatch, match="1000 bytes, 1 queues: data differs"):
        rate_point(corrupting(last_byte), kind, 1000, 1)


def test_events_that_do_not_come_are_reported():
    with pytest.raises(EventsMissing, match="0 messages out"):
        rate_point(
            node(corrupt=lambda name, values: None if name == "tx_first" else values), SRD, 8, 1
        )
    with pytest.raises(EventsMissing, match="8 doorbells, 0 completions"):
        latency_point(node(corrupt=lambda name, values: None if name == "cqe" else values), UD, 8)


@pytest.mark.parametrize(("size", "beats"), [(0, 1), (32, 1), (33, 2), (96, 2), (4096, 65)])
def test_flits_hold_header_and_payload(size, beats):
    assert flits(size) == beats


@pytest.mark.parametrize(("kind", "size", "beats"), [
    (SRD, 4096, 66),  # 64 of payload and two completions; 65 flits and an acknowledgement
    (UD, 4096, 67),   # the GRH is a separate write
    (SRD, 8, 3), (UD, 8, 4), (SRD, 256, 6),
])  # fmt: skip
def test_limit_is_that_of_the_busiest_port(kind, size, beats):
    assert rate_limit(kind, size, BATCH) == 1 / beats


def test_bursts_are_long_and_fit_the_rings(monkeypatch):
    monkeypatch.undo()
    counts = [per_queue_of(queues) for queues in workload.QUEUES]
    assert counts == [512, 512, 256, 128, 128]
