# SPDX-License-Identifier: Apache-2.0
"""Tests that every RTL message is attributed to the cycle and that wrong data is refused."""

from dataclasses import replace
from functools import cache
from random import Random

import numpy as np
import pytest

from efa_cosim.attribution import retransmitted
from efa_cosim.attribution.views import histogram
from efa_cosim.attribution.waterfall import WaterfallError, attribute
from efa_cosim.boundary.events import field
from efa_cosim.cycle.record import WRITE_PORT, from_rtl
from efa_cosim.cycle.stages import Stages
from efa_cosim.cycle.timelines import TimelineError
from efa_cosim.cycle.workload import Workload
from efa_cosim.layouts import defs
from efa_cosim.layouts.defs import Perf, PerfStream
from tb.cycle.test_timed import IDLE, LOADED, LOADED_READS, LOADED_WRITES, READS, WRITES
from tb.cycle.timed import run_timed
from tb.runner import RunFailed

# Conditions beyond those of the comparison with the model: no free contexts, full stores, long
# packets of many queues, two buffers, full fabric buffers, pending datagrams, receive descriptors
# not yet fetched, more host reads than tags, a full message list (of datagrams, as a window limits
# the packets of SRD), WQEs of 128 bytes, a congestion window that shrinks while packets wait for
# it. The model has no retransmissions, so the receive descriptors of each workload come within the
# device's timeout.
BUSY = [
    Workload(size=32, queues=32, depth=64, batch=16, messages=2048),
    Workload(size=8, queues=16, depth=64, batch=4, policy="pressure", messages=2048, seed=7),
    Workload(size=4096, queues=16, depth=16, batch=2, messages=256, read_latency=60),
    Workload(size=512, queues=64, depth=4, batch=4, buffers=2, messages=1024, read_latency=250),
    Workload(size=200, queues=64, depth=16, batch=16, policy="random", messages=2048),
    Workload(kind="UD", size=4096, queues=16, depth=4, batch=4, buffers=2, messages=512,
             policy="in_order", seed=713705968),
    Workload(size=64, queues=2, depth=64, gap=40, messages=1024),
    Workload(size=0, queues=4, depth=16, batch=4, messages=512),
    Workload(size=0, depth=128, batch=16, messages=1024, read_latency=500),
    Workload(size=32, queues=4, depth=512, batch=16, messages=4096, read_latency=1000),
    Workload(size=32, queues=4, depth=512, batch=16, messages=4096, net_latency=10),
    Workload(size=8, queues=16, depth=224, batch=2, messages=4096, read_latency=5900),
    Workload(size=8, queues=6, depth=192, batch=4, messages=4096, read_latency=2000),
    Workload(size=64, queues=8, depth=256, batch=8, messages=2048, read_latency=2000),
    Workload(kind="UD", size=32, depth=512, batch=16, messages=1024, read_latency=1000),
    Workload(kind="UD", size=64, queues=32, depth=64, batch=16, messages=2048),
    Workload(size=80, queues=4, depth=64, batch=8, entry_bytes=128, messages=1024),
    Workload(size=32, queues=2, depth=8, batch=2, entry_bytes=128, cq_batch=4, messages=512),
    Workload(size=512, queues=8, depth=16, batch=4, entry_bytes=128, messages=512),
]
# Send queues in host memory: separate reads of lines, all line slots used, all tags used.
HOST = [
    Workload(size=64, messages=3, sq_host=1),
    Workload(size=80, entry_bytes=128, messages=3, sq_host=1),
    Workload(size=32, depth=16, messages=64, sq_host=1),
    Workload(size=32, queues=8, depth=16, batch=16, messages=256, sq_host=1),
    Workload(size=64, queues=8, depth=64, batch=16, messages=512, sq_host=1),
    Workload(size=8, queues=16, depth=32, messages=1024, read_latency=500, sq_host=1),
    Workload(size=512, queues=8, depth=32, batch=8, entry_bytes=128, messages=256, sq_host=1),
    Workload(kind="UD", size=64, queues=4, depth=16, batch=4, messages=256, sq_host=1),
]
# Workloads of the golden scenarios of tb/perf, here in a ring of queues.
GOLDEN = [Workload(size=size, messages=3, read_latency=250) for size in (8, 32, 64, 65, 4096)]
GOLDEN += [Workload(kind="UD", size=size, messages=3, read_latency=250) for size in (32, 64)]
GOLDEN += [
    Workload(size=512, buffers=2, messages=3, read_latency=250),
    Workload(size=32, depth=16, batch=16, messages=16, read_latency=250),
    Workload(size=32, depth=16, messages=16, read_latency=250),
    Workload(size=32, queues=8, depth=4, messages=32, read_latency=250),
    Workload(size=64, queues=4, depth=8, batch=8, messages=32, read_latency=250),
    Workload(size=4096, queues=2, depth=4, batch=4, messages=8, read_latency=250),
]
# Messages of one packet with payload, alone; those of several packets wait for their own packets.
# A read of 0 bytes has no response, whose stages the waterfall needs.
ALONE = IDLE + [work for work in WRITES + READS if work.parts == 1]
LONG = [work for work in WRITES + READS + LOADED_WRITES + LOADED_READS if work.parts > 1]
LOADED_ALONE = LOADED + [work for work in LOADED_WRITES + LOADED_READS if work.parts == 1]
# Reads that wait for the segmenter, for free read tags and for look-ups; of 128-byte WQEs; of send
# queues in host memory. Long operations whose packets wait for the PSN window and the immediate.
RDMA = [
    Workload(size=8, operation="READ", queues=12, depth=16, batch=2, messages=768),
    Workload(size=64, operation="READ", queues=4, depth=4, batch=2, entry_bytes=128, messages=64),
    Workload(size=1024, operation="READ", queues=4, depth=8, batch=4, gap=60, messages=256,
             net_latency=300),
    Workload(size=64, operation="READ", queues=4, depth=8, batch=2, sq_host=1, messages=128),
    Workload(size=16384, operation="WRITE_IMM", queues=8, depth=8, batch=4, messages=64,
             read_latency=400, net_latency=300),
    Workload(size=8192, operation="WRITE", queues=4, depth=8, messages=64, sq_host=1),
]
# The fabric loses packets and acknowledgements, also several in a row and before the first
# measurement of a round-trip time; short and long fabric, payload inline and from host memory.
LOSSES = [
    Workload(size=32, messages=100, loss=6554),
    Workload(size=256, messages=100, loss=6554),
    Workload(size=0, messages=30, loss=13_107, net_latency=300),
    Workload(size=64, messages=60, loss=6554, net_latency=10),
    # Acknowledgements that arrive during a look at the peer.
    Workload(size=1, messages=100, loss=6554, net_latency=5),
    Workload(size=80, messages=60, loss=6554, entry_bytes=128, read_latency=400),
    Workload(size=512, messages=60, loss=6554, buffers=2, gap=1000),
    Workload(size=64, messages=60, loss=6554, sq_host=1),
    Workload(size=64, operation="WRITE", messages=100, loss=6554),
    Workload(size=4096, operation="WRITE_IMM", messages=60, loss=13_107),
]
# Receives posted before the first retransmission, behind one, two and three of them. The gaps are
# little longer than the messages.
LATE = [
    Workload(size=32, messages=6, gap=18_000, late=3000),
    Workload(size=256, messages=4, gap=52_000, late=20_000, entry_bytes=128),
    Workload(size=0, messages=3, gap=119_000, late=70_000, net_latency=300),
    Workload(size=64, messages=2, gap=249_000, late=130_000, sq_host=1),
]
# Changes of depths that no run uses whole. The most packets in the store of a run are 179 of 256;
# the unit bench of efa_net_rx holds the exact number.
LESS = {"efa_net_rx.slot": -128}
PROBED, IN_LOOK = "without the probes of paths", "look at the peer in progress"
AGAIN, REFUSED = "retransmission after a timeout", "retransmission after RNR"
ENOUGH = 20_000
# Messages of a run on an idle device, at most.
FEW = 64
# Streams whose stalls the device counts and the replays find.
STREAMS = ("TXC", "RXC", "WR_CQ", "WR_RX", "RD_TX", "S_NET")


@cache
def simulated(seed):
    """Returns workload and run of each point, from one simulation."""
    works = ALONE + GOLDEN + BUSY + LOADED_ALONE + HOST + LONG + RDMA
    return list(zip(works, run_timed(works, "verilator", seed), strict=True))


@pytest.fixture
def runs(sim, seed):
    if sim != "verilator":
        pytest.skip("the device's cycles are the same on every simulator: one of them is enough")
    try:
        return simulated(seed)
    except RunFailed as error:
        pytest.fail(str(error), pytrace=False)


@cache
def recorded(seed):
    return [from_rtl(work, run) for work, run in simulated(seed)]


@cache
def attributed(seed):
    """Returns the attribution of each record and the numbers of the table that it has read."""
    found = []
    for record in recorded(seed):
        table = Planted()
        found.append((attribute(record, table), frozenset(table.read)))
    return found


@pytest.fixture
def records(runs, seed):
    return recorded(seed)


@pytest.fixture
def found(runs, seed):
    return [attribution for attribution, _ in attributed(seed)]


@pytest.fixture
def numbers(runs, seed):
    return [read for _, read in attributed(seed)]


def test_service_and_named_waits_make_up_every_latency(records, found):
    messages = 0
    for record, attribution in zip(records, found, strict=True):
        total = sum(part.service + part.wait for part in attribution.parts)
        assert (total == record.timelines.latency).all(), str(record.timelines.work)
        messages += record.timelines.work.total
    print(f"{messages} messages of {len(records)} runs attributed to the cycle")
    assert messages > ENOUGH


def test_an_idle_device_causes_no_wait(records, found):
    for record, attribution in zip(records[: len(ALONE)], found, strict=False):
        for part in attribution.parts:
            assert not part.waits, f"{record.timelines.work}: {part.start}, {part.waits}"


def test_the_device_counts_the_waits_that_the_replays_found(runs, found):
    waited = dict.fromkeys(STREAMS, 0)
    for (work, run), attribution in zip(runs, found, strict=True):
        counted, own = run.perf_counters
        for name in STREAMS:
            waits = int(counted[Perf.STREAM + 2 * PerfStream[name] + 1])
            assert waits == attribution.stalls[name], f"{work}: {name}"
            waited[name] += waits
        if work.kind == "SRD":
            first = int(Perf.SENDS_OPEN)
            shown = histogram(attribution.open_sends, run.cycles)
            assert shown[1:] == counted[first + 1 : first + len(shown)].tolist(), str(work)
        assert (counted[: Perf.SENDS_OPEN] == own[: Perf.SENDS_OPEN]).all()
    assert all(waited.values()), waited


class Planted(Stages):
    """A table that records the requested numbers and changes one of them."""

    def __init__(self, path=None, key=None, more=0):
        self.read, self._changed, self._more = set(), (path, key), more
        super().__init__()

    def _entry(self, path, key):
        self.read.add((path, key))
        return super()._entry(path, key) + (self._more if (path, key) == self._changed else 0)

    def plant(self, path, key, more):
        """Changes another number instead."""
        self._changed, self._more = (path, key), more
        return self


def refused(records, table):
    """Returns the error of the first record that does not fit the table, None if all fit."""
    for record in records:
        try:
            attribute(record, table)
        except WaterfallError as error:
            return str(error)
    return None


def test_each_number_of_the_table_is_held_by_some_run(records, numbers, seed, request):
    """A number that is too large by one, or too small, is refused. With --short, the seed draws
    half of the numbers and one of the two changes."""
    table, users, rng = Planted(), {}, Random(seed)
    short = request.config.getoption("--short")
    # Short runs first: idle devices show a cycle more or less at once.
    used = sorted(zip(records, numbers, strict=True), key=lambda one: len(one[0].timelines["db"]))
    for record, read in used:
        for number in read:
            users.setdefault(number, []).append(record)
    # The runs that refused a number, the last one first: the numbers of a module often need the
    # same run. A busy run costs a thousand times as much as an idle one.
    lately = []

    def turn(run):
        refused_at = (at for at, one in enumerate(lately) if one is run)
        return len(run.timelines["db"]) > FEW, next(refused_at, len(lately))

    missed = []
    for (path, key), runs in sorted(users.items(), key=lambda one: one[0]):
        if short and rng.random() < 0.5:
            continue
        changes = (LESS.get(path, -1),) if key == "depth" else (1, -1)
        for more in [rng.choice(changes)] if short else changes:
            table.plant(path, key, more)
            first = next((run for run in sorted(runs, key=turn) if refused([run], table)), None)
            if first is None:
                missed.append((path, key, more))
            else:
                lately = [first, *(run for run in lately if run is not first)]
    assert not missed


def test_a_wrong_service_is_reported_by_its_stage(records):
    own = next(record for record in records if record.timelines.work.size == 64)
    for stage, path in (
        ("db to wqe", "efa_sq_sched.entry"),
        ("wqe to check", "efa_wqe_check.entry"),
        ("check to rd", "efa_dma_rd.request"),
        ("ack to done", "efa_send_tracker.ack"),
        ("rx_last to rx_validated", "efa_rx_validate.packet"),
    ):
        with pytest.raises(WaterfallError, match=stage):
            attribute(own, Planted(path, "latency", 1))


def test_a_moved_stamp_is_reported_by_stage_and_message(records):
    record = next(record for record in records if record.timelines.work == LOADED[1])
    timelines = record.timelines
    for name, stage in (
        ("wqe", "db to wqe"),
        ("check", "wqe to check"),
        ("tx_first", "rd_cpl to tx_first"),
        ("rx_first", "tx_last to rx_first"),
        ("rx_validated", "rx_last to rx_validated"),
        ("rx_data_done", "rx_validated to rx_data_done"),
        ("ackout", "cqe to ackout"),
        ("ack", "ackout to ack"),
    ):
        message = 1500
        timelines[name][message] += 1
        with pytest.raises(WaterfallError, match=f"message .*{stage}") as found:
            attribute(record)
        timelines[name][message] -= 1
        assert f"message {message}:" in str(found.value), name


# Text of the error by lost event: the milestone, or the events it is counted with.
LOST = {"rd": "read", "rd_cpl": "read", "cqe": "done|cqe", "db": "doorbell events"}
EVENTS = (
    "db",
    "wqe",
    "check",
    "rd",
    "rd_cpl",
    "tx_first",
    "tx_last",
    "rx_first",
    "rx_last",
    "rx_validated",
    "rx_data_done",
    "cqe",
    "ackout",
)


def test_a_lost_event_is_reported(runs):
    work, run = next((work, run) for work, run in runs if work == LOADED[1])
    for kind in EVENTS:
        there = np.flatnonzero(run.events["kind"] == int(defs.Ev[kind.upper()]))
        pending = np.delete(run.events, there[0])
        with pytest.raises(TimelineError, match=LOST.get(kind, f"'{kind}'|'ack'")):
            from_rtl(work, replace(run, events=pending))


def test_a_lost_beat_is_reported(runs):
    work, run = next((work, run) for work, run in runs if work == LOADED[1])
    writes = np.flatnonzero(run.pins["port"] == WRITE_PORT)
    pending = np.delete(run.pins, writes[len(writes) // 2])
    with pytest.raises(TimelineError, match="payload|completion"):
        from_rtl(work, replace(run, pins=pending))


@pytest.fixture
def lossy(sim, seed):
    if sim != "verilator":
        pytest.skip("the device's cycles are the same on every simulator: one of them is enough")
    return with_losses(seed)


@cache
def with_losses(seed):
    works = LOSSES + LATE
    return list(zip(works, run_timed(works, "verilator", seed), strict=True))


def of_again(record):
    """Returns the parts of a run; None if the device has probed a path, which the replay has not.
    """
    try:
        return attribute(record).parts
    except WaterfallError as error:
        if PROBED in str(error):
            return None
        raise


def test_a_retransmitted_message_waits_for_the_cause(lossy):
    again = 0
    waited = dict.fromkeys((("check", AGAIN), ("ackout", AGAIN), ("check", REFUSED),
                            ("done", IN_LOOK)), 0)  # fmt: skip
    for work, run in lossy:
        record = from_rtl(work, run)
        parts = of_again(record)
        if parts is None:
            continue
        assert (sum(part.service + part.wait for part in parts) == record.timelines.latency).all()
        sent = np.bincount(record.attempts.message)
        # A message that was sent once takes its service.
        waits = sum((part.wait for part in parts if part.end != "done"), np.zeros(work.total, int))
        assert ((waits > 0) == (sent > 1)).all(), str(work)
        again += int(sent.sum()) - work.total
        for part in parts:
            for cause, cycles in part.waits.items():
                assert (cause == REFUSED) == (work.late > 0), str(work)
                waited[part.end, cause] += np.count_nonzero(cycles)
    print(f"{again} retransmissions attributed to the cycle")
    assert again > 80 and min(waited.values()) > 2, waited


@pytest.mark.parametrize("cause", [AGAIN, REFUSED])
def test_a_moved_stamp_of_a_retransmission_is_reported(lossy, cause):
    found = (from_rtl(work, run) for work, run in lossy
             if work.size > 80 and (work.late > 0) == (cause == REFUSED))
    record = next(one for one in found if of_again(one) is not None
                  and len(one.attempts.message) > one.timelines.work.total)
    attempts = record.attempts
    repeated = np.flatnonzero(np.diff(attempts.message, prepend=-1) == 0)
    names = ["check", "rd", "rd_cpl", "tx_first", "tx_last", "rx_first", "rx_last", "ackout", "ack"]
    for name in names + ["rx_validated"] * (cause == REFUSED):
        column = attempts.table[name]
        attempt = next(one for one in repeated if column[one] >= 0)
        column[attempt] += 1
        with pytest.raises(WaterfallError, match=f"message {attempts.message[attempt]}:"):
            attribute(record)
        column[attempt] -= 1
    attribute(record)


def test_each_number_of_a_retransmission_is_held(lossy):
    records = [record for record in (from_rtl(work, run) for work, run in lossy)
               if of_again(record) is not None]
    for path in ("efa_srd_receiver.duplicate", "efa_srd_receiver.refusal", "efa_wqe_check.entry",
                 "efa_rx_retire.acknowledgement", "efa_srd_sender.outcome", "efa_tx_recall.now"):
        for more in (1, -1):
            assert refused(records, Planted(path, "latency", more)), path


def test_a_lost_event_of_a_run_with_losses_is_reported(lossy):
    work, run = lossy[1]
    for kind in (*EVENTS, "ack"):
        if kind == "ack":
            there = np.flatnonzero((run.events["kind"] == int(defs.Ev.RX_LAST)) & (
                field(run.events, "rx_last", "opcode") == int(defs.PktOpcode.SRD_ACK)))
        else:
            there = np.flatnonzero(run.events["kind"] == int(defs.Ev[kind.upper()]))
        events = np.delete(run.events, there[len(there) // 2])
        with pytest.raises((TimelineError, WaterfallError)):
            attribute(from_rtl(work, replace(run, events=events)))


@pytest.mark.parametrize("name", ["TIMER_STARTS", "SENT_AGAIN", "POSTED_AGAIN", "LISTS"])
def test_waits_before_the_retransmission_are_not_taken_from_the_recording(lossy, name, monkeypatch):
    records = [record for record in (from_rtl(work, run) for work, run in lossy)
               if of_again(record) is not None]
    # The timer counts ticks of 16 cycles.
    more = 16 if name == "TIMER_STARTS" else 1
    monkeypatch.setattr(retransmitted, name, getattr(retransmitted, name) + more)
    error = refused(records, Stages())
    assert error and "(wqe to check)" in error and PROBED not in error
