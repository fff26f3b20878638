# SPDX-License-Identifier: Apache-2.0
"""Tests that service and named waits of every message sum to its latency, replayed per stage."""

import json
from dataclasses import replace

import numpy as np
import pytest

from efa_cosim.attribution.gaps import Busy, Gap, Ledger, Pipe
from efa_cosim.attribution.views import causes, message_at, of_message, shares, trace
from efa_cosim.attribution.waterfall import WaterfallError, attribute
from efa_cosim.cli.main import main
from efa_cosim.cycle.network import recorded
from efa_cosim.cycle.timelines import MILESTONES, NEVER, MessageTimelines
from efa_cosim.cycle.workload import Workload

pytestmark = pytest.mark.slow

BUSY = Workload(size=64, queues=4, depth=16, batch=4, gap=40, messages=1024)


@pytest.mark.parametrize("work", [
    *(Workload(kind=kind, size=size, messages=8) for kind in ("SRD", "UD")
      for size in (0, 32, 64, 512, 4096)),
    Workload(size=1024, buffers=2, messages=8), BUSY,
    Workload(size=32, depth=64, batch=16, messages=1024),
    Workload(size=64, queues=8, depth=64, batch=16, messages=2048),
    Workload(size=4096, queues=4, depth=8, messages=256),
    Workload(size=32, queues=32, depth=64, batch=16, messages=2048),
    Workload(size=8, queues=16, depth=64, batch=4, policy="pressure", messages=2048),
    Workload(size=200, queues=64, depth=16, batch=16, policy="random", messages=2048),
    Workload(size=80, queues=4, depth=64, batch=8, entry_bytes=128, messages=1024),
    Workload(kind="UD", size=128, queues=4, depth=32, batch=2, messages=1024),
    Workload(kind="UD", size=32, queues=32, depth=64, batch=16, messages=2048),
    Workload(kind="UD", size=65, queues=64, depth=64, batch=16, messages=4096),
    Workload(size=0, depth=128, batch=16, messages=1024, read_latency=500),
    Workload(size=32, queues=4, gap=20, depth=16, messages=4096),
    Workload(size=64, queues=8, batch=2, depth=16, gap=40, messages=4096, policy="in_order"),
    Workload(size=64, queues=8, depth=64, batch=16, messages=2048, sq_host=1),
    *(Workload(operation=operation, size=size, messages=8) for operation in ("WRITE", "WRITE_IMM")
      for size in (0, 64, 4096)),
    Workload(operation="WRITE", size=64, queues=8, depth=64, batch=16, messages=1024),
    Workload(operation="WRITE", size=80, queues=8, depth=16, batch=4, entry_bytes=128,
             messages=512),
    Workload(operation="WRITE", size=4096, queues=4, depth=8, messages=256),
    Workload(operation="WRITE", size=0, queues=4, depth=16, batch=4, messages=512),
    Workload(operation="WRITE_IMM", size=64, queues=8, depth=64, batch=16, messages=1024),
    Workload(operation="WRITE_IMM", size=0, depth=512, batch=16, read_latency=1000, messages=256),
    Workload(operation="WRITE_IMM", size=512, queues=4, depth=16, batch=2, messages=256),
    *(Workload(operation="READ", size=size, messages=8) for size in (1, 64, 65, 2048)),
    Workload(operation="READ", size=4096, messages=8, net_latency=500),
    Workload(operation="READ", size=64, queues=8, depth=16, batch=4, messages=512),
    Workload(operation="READ", size=8, queues=12, depth=16, batch=2, messages=1024),
    Workload(operation="READ", size=64, queues=4, depth=8, batch=2, messages=256, sq_host=1),
    Workload(operation="READ", size=100, queues=4, depth=8, batch=2, entry_bytes=128, messages=256),
    Workload(operation="READ", size=8192, queues=8, depth=8, batch=4, messages=64, net_latency=500),
    Workload(operation="READ", size=65536, queues=2, depth=2, messages=16, read_latency=500,
             net_latency=500),
    *(Workload(operation=operation, size=size, messages=8) for operation in ("WRITE", "WRITE_IMM")
      for size in (8192, 65536)),
    Workload(operation="WRITE", size=65536, queues=4, depth=4, messages=64),
    Workload(operation="WRITE", size=65536, queues=4, depth=4, messages=64, sq_host=1),
    Workload(operation="WRITE_IMM", size=16384, queues=8, depth=16, batch=4, messages=256,
             read_latency=400, net_latency=300),
], ids=str)  # fmt: skip
def test_parts_sum_to_the_latency_of_every_message(work):
    record = recorded(work)
    parts = attribute(record).parts
    assert (sum(part.service + part.wait for part in parts) == record.timelines.latency).all()
    assert all(cause for part in parts for cause in part.waits)


def test_a_read_without_response_is_refused():
    with pytest.raises(WaterfallError, match="READ of 0 bytes: expected a response"):
        attribute(recorded(Workload(operation="READ", size=0, messages=4)))


def test_reads_that_the_device_sends_again_are_refused():
    record = recorded(Workload(operation="READ", size=64, queues=4, depth=16, messages=512))
    # More read requests than the device has contexts for.
    work = replace(record.timelines.work, depth=128)
    with pytest.raises(WaterfallError, match="no retransmissions"):
        attribute(replace(record, timelines=MessageTimelines(work, record.timelines.table)))


@pytest.mark.parametrize("name", MILESTONES[1:])
def test_a_moved_stamp_of_a_read_is_reported_by_message(name):
    record = recorded(Workload(operation="READ", size=64, queues=4, depth=8, batch=2, messages=64))
    row = 2 * 40 + 1 - (name == "check")
    if record.timelines[name][row] == NEVER:
        assert name == "cqe"
        return
    record.timelines[name][row] += 1
    with pytest.raises(WaterfallError, match=f"message 40: '{name}' is in cycle"):
        attribute(record)


@pytest.mark.parametrize("name", ["wqe", "check", "rd_cpl", "tx_first", "rx_first", "rx_validated",
                                  "rx_data_done", "ackout", "ack", "done"])
def test_a_moved_stamp_of_any_packet_is_reported_by_message(name):
    record = recorded(Workload(operation="WRITE", size=16384, queues=2, depth=4, messages=32))
    record.timelines[name][4 * 11 + 3] += 1
    with pytest.raises(WaterfallError, match=f"message 11: .* to {name}"):
        attribute(record)


def test_packets_of_a_message_wait_for_each_other():
    for operation, latency in (("WRITE", 50), ("READ", 500)):
        work = Workload(operation=operation, size=16384, messages=3, net_latency=latency)
        found = {one.cause: one.cycles for one in causes(attribute(recorded(work)).parts)}
        assert found["other packets of the message"] > 0, operation


def test_waits_of_reads_have_their_causes():
    work = Workload(operation="READ", size=64, queues=8, depth=16, batch=4, messages=512)
    found = {one.cause for one in causes(attribute(recorded(work)).parts)}
    assert found >= {
        "events of other operations", "packets of other operations posted", "earlier WQEs posted",
        "look-ups of earlier packets", "begin of a read in the look-up",
        "earlier responses at the segmenter"}


def test_an_idle_device_causes_no_wait():
    parts = attribute(recorded(Workload(size=256, messages=3))).parts
    assert not any(part.wait.any() for part in parts)


def test_waits_of_the_reliable_transport_have_their_causes():
    work = Workload(size=64, queues=8, depth=64, batch=16, messages=2048)
    found = {one.cause for one in causes(attribute(recorded(work)).parts)}
    assert found >= {
        "congestion window of the peer full", "PSN window of the peer full", "turn of the peer",
        "earlier packets to the same peer", "WQE read back", "look at the peer in progress",
        "earlier packets of the peer resolved"}


def test_a_busy_device_does():
    record = recorded(BUSY)
    parts = attribute(record).parts
    slow, fast = (
        sum(row["wait"] for row in of_message(parts, message_at(record.timelines, percent)))
        for percent in (100, 0)
    )
    assert slow > fast
    assert sum(row["wait"] + row["service"] for row in shares(parts)) == pytest.approx(
        record.timelines.latency.mean())
    assert causes(parts)[0][2] >= causes(parts)[-1][2] > 0


@pytest.mark.parametrize(
    "name",
    [
        "wqe",
        "check",
        "rd_cpl",
        "tx_first",
        "rx_first",
        "rx_validated",
        "rx_data_done",
        "cqe",
        "ackout",
        "ack",
        "done",
    ],
)
def test_a_moved_stamp_is_reported_by_message(name):
    record = recorded(BUSY)
    record.timelines[name][500] += 1
    with pytest.raises(WaterfallError, match=f"message 500: .* to {name}"):
        attribute(record)


def test_stages_that_do_not_meet_are_refused():
    record = recorded(BUSY)
    record.timelines["rx_data_done"][5] = record.timelines["rx_validated"][5] - 1
    with pytest.raises(WaterfallError, match="message 5: .*before it begins"):
        attribute(record)


def test_a_missing_milestone_is_refused():
    record = recorded(BUSY)
    record.timelines["tx_last"][7] = -1
    with pytest.raises(WaterfallError, match="message 7: .*has no 'tx_last'"):
        attribute(record)


def test_a_trace_holds_every_cycle_of_a_message():
    record = recorded(BUSY)
    events = json.loads(trace(record, attribute(record).parts, most=16))["traceEvents"]
    named = {one["pid"]: one["args"]["name"] for one in events if one["name"] == "process_name"}
    cycles = np.zeros(16, int)
    rows = {}
    for one in events:
        if one["ph"] != "X":
            continue
        rows.setdefault((one["pid"], one["tid"]), []).append((one["ts"], one["ts"] + one["dur"]))
        if "host ports" not in named[one["pid"]]:
            cycles[one["args"]["message"]] += one["args"]["cycles"]
    assert (cycles == record.timelines.latency[:16]).all()
    for row in rows.values():
        row.sort()
        assert all(end <= begin + 1e-9 for (_, end), (begin, _) in zip(row, row[1:], strict=False))


def test_a_pipe_stands_still_as_a_whole():
    pipe = Pipe(3)
    assert pipe.enter(pipe.ready(10)) == 13
    pipe.leave(13, 20)
    # The bubble after the first item stays: no stage moves from cycle 13 to cycle 20.
    assert pipe.ready(12) == 12
    assert pipe.enter(12) == 22
    assert pipe.ready(13) == 20


def test_a_gap_books_what_is_still_to_come():
    gap = Gap([0, 5], 3)
    gap.until(0, 3, "nothing")
    gap.until(0, 7, "one")
    gap.until(0, 6, "passed")
    assert gap.ends.tolist() == [7, 8] and list(gap.waits) == ["one"]
    assert gap.wait.tolist() == [4, 0]


def test_a_port_that_is_taken_and_a_ledger_of_what_was_done():
    port = Busy([3, 4, 6])
    assert (port.free(3), port.free(5), port.count(0, 5)) == (5, 5, 2)
    ledger = Ledger({5: 0, 6: 1, 8: 0}, (0, 1, 2))
    assert ledger.count(5, 9) == {0: 2, 1: 1, 2: 1}
    assert ledger.count(0, 20) == {0: 2, 1: 1, 2: 17}
    assert ledger.count(9, 9) == {}


def test_a_picture_that_fails_is_named_and_the_numbers_stand(tmp_path, monkeypatch, capsys):
    def fails(*_):
        raise ValueError("no room")

    monkeypatch.setattr("efa_cosim.report.waterfall_plots.shares", fails)
    arguments = ["--backend", "cycle", "--messages", "64", "--sizes", "64", "--out", str(tmp_path)]
    assert main(["waterfall", *arguments]) == 0
    reason = "The picture shares is not drawn: ValueError: no room"
    assert reason in capsys.readouterr().err
    page = (tmp_path / "index.html").read_text()
    assert reason in page and page.count("<svg") >= 4
    assert json.loads((tmp_path / "summary.json").read_text())["verdict"] == "passed"
