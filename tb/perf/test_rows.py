# SPDX-License-Identifier: Apache-2.0
"""Tests the rows of make perf: a wrong message fails its row; status line, page, plot."""

import csv
import json
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import numpy as np
import pyarrow.parquet
import pytest

from efa_cosim.jobs.progress import Progress
from efa_cosim.layouts import defs
from efa_cosim.measure import record
from efa_cosim.measure.record import stamped
from tb.lib import requests as host
from tb.lib.backends import open_simulator
from tb.perf import page, rates, rdma, rows, run, work
from tb.perf.latencies import doorbell_to_flit
from tb.perf.observe import Seen, steady
from tb.perf.queues import NODE, PEER, QKEY, Device, PerfError
from tb.perf.records import built, of_row

FEW = 256
SCHEMA = Path(record.__file__).parent / "record.schema.json"


@pytest.fixture(scope="module")
def backend():
    with open_simulator("verilator") as opened:
        yield opened


@pytest.fixture
def few(monkeypatch):
    """Shortens the runs: enough for correctness, too short for a rate."""
    for name, value in (("MESSAGES", FEW), ("IDLE_MESSAGES", 16), ("WARM", 16), ("TAIL", 16)):
        monkeypatch.setattr(work, name, value)
    for name, value in (("PACKETS", FEW), ("PACKETS_WARM", 16), ("PACKETS_TAIL", 16)):
        monkeypatch.setattr(rdma, name, value)


class Planted(Device):
    """A device whose host makes one error: `corrupt` changes the requests of every post."""

    corrupt = None

    def post(self, requests):
        if isinstance(requests, np.ndarray) and self.corrupt is not None:
            requests = self.corrupt(requests.copy())
        super().post(requests)


def make_planted(backend, corrupt=None, **more):
    def make(**knobs):
        device = Planted(backend, **{**knobs, **more})
        device.corrupt = corrupt
        return device

    return make


def of_bar(requests, bar):
    return np.flatnonzero((requests["kind"] == 0) & (requests["bar"] == bar))


def other_byte(requests):
    """Changes one payload byte of a WQE."""
    requests["data"][of_bar(requests, defs.EFA_MEM_BAR)[100], 40] ^= 1
    return requests


def other_at(name):
    """Returns a change of bit 6 of a field of the RDMA part of a WQE: another key, or the next
    message."""
    remote, local = defs.IoRdmaReq.remote_mem.offset, defs.IoRdmaReq.local_mem.offset
    at = defs.IoTxWqe.data.offset + {
        "rkey": remote + defs.IoRemoteMemAddr.rkey.offset,
        "remote": remote + defs.IoRemoteMemAddr.buf_addr_lo.offset,
        "local": local + defs.IoTxBufDesc.buf_addr_lo.offset,
    }[name]  # fmt: skip

    def change(requests):
        requests["data"][of_bar(requests, defs.EFA_MEM_BAR)[100], at] ^= 0x40
        return requests

    return change


def doorbell_left_out(requests):
    return np.delete(requests, of_bar(requests, defs.LIMITS.db_bar)[-1])


def other_handle(requests):
    """Names an invalid address handle in a WQE."""
    at = defs.IoTxMetaDesc.ah.offset
    requests["data"][of_bar(requests, defs.EFA_MEM_BAR)[100], at] ^= 0x40
    return requests


def count_too_far(requests):
    requests["data"][of_bar(requests, defs.LIMITS.db_bar)[3]] ^= 0x80
    return requests


def test_a_right_run_is_measured(backend, few):
    measured = rates.inline_sends(8, 16)(make_planted(backend))
    assert measured.messages == 160, "ten batches of 16"
    assert measured.setting == {"size": 32, "queues": 8, "batch": 16, "wqe_bytes": 64}
    assert 0 < measured.value <= 1


@pytest.mark.parametrize(("row", "corrupt", "reported"), [
    (rates.inline_sends(8, 16), other_byte, "payload on the wire differs"),
    (rates.inline_sends(8, 16), doorbell_left_out, "not within"),
    (rates.inline_sends(8, 16), other_handle, "status"),
    (rates.inline_sends(8, 16), count_too_far, "refused|not within|qperr"),
    (rates.memory_sends(16, 64, 16), other_handle, "status"),
    (rdma.writes(16, 64, 16), other_at("rkey"), "an RDMA header is wrong"),
    (rdma.writes(16, 64, 16), other_at("remote"), "or of other places"),
    (rdma.reads(16, 64, 16), other_at("remote"), "bytes that were read differ"),
    (rdma.reads(16, 64, 16), other_at("local"), "payload beats at .*, expected 1 times"),
])  # fmt: skip
def test_a_wrong_message_fails_its_row(backend, few, row, corrupt, reported):
    with pytest.raises(PerfError, match=reported):
        row(make_planted(backend, corrupt))


@pytest.mark.parametrize(("row", "knobs", "reported"), [
    (rates.both_ways(16, 64, 16), {"net_loss": 20_000}, "m_net: .* packets of 256 messages"),
    (rates.both_ways(16, 64, 16), {"net_dup": 20_000}, "s_net: .* packets of 256 messages"),
    (doorbell_to_flit(64), {"rd_latency_max": 300}, "host reads took"),
])  # fmt: skip
def test_a_fabric_or_host_that_is_not_as_agreed_fails_its_row(backend, few, row, knobs, reported):
    with pytest.raises(PerfError, match=reported):
        row(make_planted(backend, **knobs))


@pytest.mark.parametrize("row", [rates.receives(16, 64), rdma.writes_received(16, 64)])
def test_received_bytes_are_compared(backend, few, row):
    with pytest.raises(PerfError, match="received bytes differ"):
        row(make_injecting(backend, -1, 1))


def test_a_wrong_read_request_of_the_peer_fails_its_row(backend, few):
    at = defs.SrdHdr.SIZE + defs.PktRdma.remote_addr.offset
    with pytest.raises(PerfError, match="payload on the wire differs"):
        rdma.reads_answered(16, 64)(make_injecting(backend, at, 0x40))


def make_injecting(backend, at, flip):
    """Returns a factory of devices whose peer sends a wrong byte in the last packet of a batch."""
    class Injecting(Planted):
        def inject(self, packets, delay=1):
            packets = [bytearray(packet) for packet in packets]
            if packets[5:]:
                packets[-1][at] ^= flip
            super().inject([bytes(packet) for packet in packets], delay)

    return lambda **knobs: Injecting(backend, **knobs)


@pytest.mark.parametrize(("row", "messages"), [
    (rdma.writes(2, 16_384, 16), 96),
    (rdma.reads(2, 16_384, 16), 48),
    (rdma.reads_answered(2, 16_384), 104),
])  # fmt: skip
def test_operations_of_several_packets_are_measured(backend, few, monkeypatch, row, messages):
    monkeypatch.setattr(rdma, "PACKETS", 512)
    measured = row(make_planted(backend))
    assert measured.messages == messages, "whole batches, without both ends"
    assert 0.5 < measured.value <= 64 / 65


def test_the_host_stream_has_no_gaps(backend):
    """The bench must not limit the measured rate of the device."""
    device = Device(backend)
    device.cancel()
    store = host.store(defs.EFA_REG_BAR, int(defs.Reg.AENQ_CONS_DB), bytes(4))
    device.post(store * 500)
    device.settle()
    pins = device.link.log("pins")
    assert len(pins) == 500
    assert set(np.diff(pins["cycle"].astype("i8"))) == {1}


def test_steady_leaves_both_ends_out():
    times = [*range(0, 1000, 10), *range(1000, 1200), *range(1200, 2000, 10)]
    found = steady(times, 100, 81)
    assert (found.messages, found.begin, found.end) == (135, 1000, 1135)
    assert found.rate == 1.0
    with pytest.raises(PerfError, match="too few .* expected at least 75"):
        steady(range(10), 5, 5)


@pytest.mark.parametrize("phase", range(17))
@pytest.mark.parametrize("late", [(), (3,), (0, 15)])
def test_a_rate_never_exceeds_its_limit(phase, late):
    """16 messages in 17 cycles; the run begins anywhere, and some messages of a batch are late."""
    cycles = [17 * batch + place for batch in range(100) for place in range(16)]
    times = [at + (at % 17 in late) for at in cycles[phase:]]
    assert steady(times, 32, 7, 16).rate <= 16 / 17
    part = times[32:-7]
    assert phase or (len(part) - 1) / (part[-1] - part[0]) > 16 / 17, "a part of a batch is faster"


def test_a_row_above_its_limit_fails_and_has_no_record():
    def gives(value):
        return lambda make: work.Measured(value, 10_000, {"least": 9, "median": 9.5}, {"size": 32})

    above = rows.Row("a", "a", "messages/cycle", 0.4, 0.5, "", gives(0.5001))
    right = rows.Row("b", "b", "messages/cycle", 0.4, 0.5, "", gives(0.5))
    slow = rows.Row("c", "c", "cycles", 12, 11, "", gives(11), False)
    found = run.measure(Nothing(), [above, right, slow], {}, Progress("perf"))
    assert "expected at most the limit 0.5" in found[0]["error"] and "records" not in found[0]
    assert [one.value for one in found[1]["records"]] == [0.5]
    assert [(one.statistic, one.value, one.limit) for one in found[2]["records"]] == [
        ("max", 11.0, 11.0), ("min", 9.0, None), ("median", 9.5, None)]


def row_of(value, met, **more):
    return {"key": "k", "what": "w", "value": value, "unit": "messages/cycle", "target": 0.5,
            "target_is": "at least", "limit": 1.0, "ratio_to_limit": value, "met": met,
            "messages": 10_000, **more}  # fmt: skip


def test_the_status_names_what_misses(tmp_path):
    good, bad = row_of(0.6, True), row_of(0.4, False)
    failed = row_of(None, False, error="sends: not within 5 cycles")
    assert run.status([good]) == "passed: all 1 rows meet their targets"
    line = run.status([good, bad, failed])
    assert line.startswith("failed: 2 of 3 rows miss their targets: k 0.4 of 0.5; k sends: not")
    records = stamped(built(of_row(rows.ROWS[5], 0.75, work.Measured(0.9, 10_000, {}, {
        "size": 32, "queues": 8, "batch": 16, "wqe_bytes": 64})), "icarus", 3, "sq_host"),
        "make perf")
    summary = {"verdict": line, "conditions": {"kind": "SRD"}, "rows": [good, bad, failed],
               "command": "make perf", "measurements": records}  # fmt: skip
    text = page.write(tmp_path / "new", summary, "Title").read_text()
    assert "failed: 2 of 3" in text and "<svg" in text
    assert "10,000 messages" in (tmp_path / "new/rows.svg").read_text()
    verdict, text = line.split(": ", 1)
    assert json.loads((tmp_path / "new/summary.json").read_text()) == summary | {
        "title": "Title", "verdict": verdict, "text": text, "setting": "kind SRD"}
    jsonschema.validate(records, json.loads(SCHEMA.read_text()))
    with (tmp_path / "new" / record.CSV).open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["subject"], row["unit"], row["limit"], row["target"], row["seed"]) == (
        "inline-db16", "messages/cycle", str(16 / 17), "0.75", "3")
    assert json.loads(row["configuration"]) == {
        "SQ_HOST": 1, "request_bytes": 512, "wqe_bytes": 64}
    assert pyarrow.parquet.read_table(tmp_path / "new" / record.PARQUET).num_rows == 1


class Nothing:
    """Replaces run.Source where no device is needed."""

    renewed = 0

    def renew(self):
        self.renewed += 1


def test_each_packet_leaves_once():
    """Two peers with two packets each, and one more."""
    queues = [SimpleNamespace(number=number, sent=2) for number in range(2)]

    def packet(queue, psn, data):
        head = defs.SrdHdr(opcode=defs.PktOpcode.SRD_SEND, length=1, src_qpn=queue, qkey=QKEY,
                           psn=psn, src_node=NODE, dst_node=PEER + queue)  # fmt: skip
        return head.pack() + bytes([data])

    def payload(queue, numbers):
        return (10 * queue.number + numbers[:, None]).astype("u1")

    def check(last):
        seen = Seen.__new__(Seen)
        parts = [packet(queue, psn, 10 * queue + psn) for psn in range(2) for queue in range(2)]
        seen._packets = (None, [*parts, *last])
        seen.check_sent(queues, payload, (PEER, PEER + 1))

    check([])
    for psn, reported in ((1, "1 packets were sent again"),
                          (3, f"node {PEER + 1}: sequence numbers have holes")):  # fmt: skip
        with pytest.raises(PerfError, match=reported):
            check([packet(1, psn, 13)])


def test_a_row_without_a_target_is_reported():
    assert run.reported(row_of(0.4, None, target=None)) == (
        "0.4 messages/cycle (no target, limit 1; 10000 messages)")
    assert run.status([row_of(0.6, True), row_of(0.4, None, target=None)]) == (
        "passed: all 1 rows meet their targets")


def test_after_a_broken_rule_the_next_row_has_a_new_simulation(few):
    """A violated boundary rule ends the simulation."""
    def breaks(make):
        device = make(mmio_accept_max=0, mmio_init_max=0)
        return rates.inline_sends(8, 16)(lambda **knobs: device)

    def row(key, function):
        return rows.Row(key, key, "messages/cycle", 0.1, 1.0, "", function)

    source = run.Source("verilator", 1)
    found = run.measure(source, [row("broken", breaks), row("whole", rates.inline_sends(8, 16))],
                        {}, Progress("perf"))  # fmt: skip
    source.close()
    assert "broken rules" in found[0]["error"]
    assert found[1]["met"], found[1]


def test_a_device_that_does_not_build_fails_its_rows(monkeypatch):
    monkeypatch.setitem(rows.PARAMETERS, "large", {"NO_SUCH_PARAMETER": 1})
    options = SimpleNamespace(sim="verilator", seed=1, row=["1024-llq"])
    picked = {"default": [], "large": run.chosen(["1024-llq"])["large"]}
    found = run.measure_all(picked, options, Progress("perf"))
    assert "does not build" in found.rows[0]["error"]
    assert not found.points and not found.wrong and not found.records


def test_a_row_that_fails_does_not_end_the_others():
    def fails(make):
        raise PerfError("as planned")

    row = rows.Row("x", "x", "cycles", 1, None, "", fails, False)
    found = run.measure(Nothing(), [row, row], {}, Progress("perf"))
    assert [one["error"] for one in found] == ["as planned"] * 2
    assert not any(one["met"] for one in found)


def test_a_large_build_is_held_to_the_rate_of_the_default_one():
    def gives(value):
        return lambda make: work.Measured(value, 10_000)

    base = rows.Row("x", "x", "messages/cycle", 0.3, 1.0, "", gives(0.4))
    large = [rows.Row(f"l{value}", "x", "messages/cycle", None, 1.0, "", gives(value), base="x")
             for value in (0.39, 0.37)]  # fmt: skip
    found = run.measure(Nothing(), [base, *large], {}, Progress("perf"))
    assert [one["met"] for one in found] == [True, True, False]
    assert found[1]["target"] == 0.38
    alone = run.measure(Nothing(), large[:1], {}, Progress("perf"))
    assert alone[0]["error"] == "no rate of x to compare with"


def test_rows_are_chosen_with_what_they_are_compared_with():
    found = run.chosen(["1024-both-64"])
    assert [row.key for row in found["large"]] == ["1024-both-64"]
    assert [row.key for row in found["default"]] == ["both-64"]
