# SPDX-License-Identifier: Apache-2.0
"""Tests efa_cq: slots, phases, CQE formats, commits, drain."""

import random

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge, Timer

from efa_cosim.layouts import defs
from efa_cosim.layouts.defs import INTERNAL, LIMITS, IoQueueType, IoTxCdesc
from tb.lib.stream import (
    PERIOD_NS,
    StreamDriver,
    StreamMonitor,
    clock_and_reset,
    cycle,
    reset,
    rng_for,
)
from tb.lib.timing import timing
from tb.lib.waits import high, hold, pulse, until, zero
from tb.unit.cq_bench import serve_counted
from tb.unit.queue_bench import Pulses, completion_entry

BASE = 0x12_3400_0000


def context(**fields):
    return INTERNAL.cqc.pack(**{"live": 1, "base": BASE >> 6, "log": 4, **fields})


class Bench:
    """Drives contexts and completions into efa_cq and models the expected CQEs."""
    def __init__(self, dut, gaps=0.0, stalls=0.0):
        self.dut = dut
        self.contexts = {}
        self.counts = {}
        for name in ("s_cqc_valid", "s_cqdb_valid", "s_drain_valid", "counted_rd_data"):
            getattr(dut, name).value = 0
        self.tx = StreamDriver(dut, "s_txc", gaps)
        self.rx = StreamDriver(dut, "s_rxc", gaps)
        self.wr = StreamMonitor(dut, "m_wr", stalls)
        self.commit = StreamMonitor(dut, "m_commit", stalls, ["cqn", "total"])

    async def start(self):
        await clock_and_reset(self.dut)
        await until(self.dut, high(self.dut.m_init_done))

    async def write_context(self, cqn, **fields):
        self.contexts[cqn] = fields
        self.counts[cqn] = [0, 0]
        self.dut.s_cqc_valid.value = 1
        self.dut.s_cqc_cqn.value = cqn
        self.dut.s_cqc_data.value = context(**fields)
        await RisingEdge(self.dut.clk)
        self.dut.s_cqc_valid.value = 0
        await RisingEdge(self.dut.clk)

    def expect(self, item):
        """Returns address and bytes of the CQE for this completion."""
        cqn, sub = item["cqn"], item["sub"]
        fields = self.contexts[cqn]
        log, wide = fields.get("log", 4), fields.get("wide", 0)
        count = self.counts[cqn][sub]
        self.counts[cqn][sub] = (count + 1) & 0xFFFF
        size = 32 if wide else 16
        address = BASE + ((sub << log) + (count & ((1 << log) - 1))) * size
        phase = 1 - ((count >> log) & 1)
        return address, completion_entry(item, phase, wide, fields.get("src_addr", 0))


def random_item(rng, cqns, rx):
    return {
        "rx": rx,
        "qpn": rng.randrange(64),
        "qp_num": rng.randrange(1 << 16),
        "cqn": rng.choice(cqns),
        "sub": rng.randrange(2),
        "req_id": rng.randrange(1 << 16),
        "status": rng.choice([0, 0, 0, 1, 9]),
        "op_type": rng.choice([0, 1, 2]),
        "has_imm": rng.randrange(2),
        "length": rng.randrange(1 << 16),
        "ah": rng.choice([3, LIMITS.reserved_ah]),
        "src_qpn": rng.randrange(1 << 16),
        "imm": rng.randrange(1 << 32),
        "src_node": rng.randrange(1 << 16),
    }


def beat(item):
    return {"data": INTERNAL.cpl.pack(**item)}


def check_beat(got, want):
    address, entry = want
    assert got["addr"] == address, f"CQE at {got['addr']:#x}, expected {address:#x}"
    assert got["len"] == len(entry)
    data = got["data"].to_bytes(32, "little")[: len(entry)]
    assert data == entry, f"CQE {data.hex()}, expected {entry.hex()}"


async def run_traffic(dut, gaps, stalls, count=300):
    bench = Bench(dut, gaps, stalls)
    await bench.start()
    rng = rng_for("traffic")
    await bench.write_context(1, log=2, two=1)
    await bench.write_context(5, log=3, wide=1, two=1, src_addr=1, intr=1)
    await bench.write_context(127, log=0, wide=1, two=1)
    sources = {0: [], 1: []}
    for _ in range(count):
        rx = rng.randrange(2)
        item = random_item(rng, [1, 5, 127], rx)
        sources[rx].append(item)
        (bench.rx if rx else bench.tx).post(beat(item))
    beats = await bench.wr.take(count, 40000)
    interrupts = 0
    for got in beats:
        # The order between the two sources is free; each source keeps its own order.
        rx = (got["data"] >> 25) & 3 == IoQueueType.RECV_QUEUE
        item = sources[int(rx)].pop(0)
        check_beat(got, bench.expect(item))
        interrupts += item["cqn"] == 5
    commits = await bench.commit.take(interrupts, 1000) if interrupts else []
    for number, commit in enumerate(commits, 1):
        assert (commit["cqn"], commit["total"]) == (5, number)
    assert interrupts > 0


@cocotb.test()
async def entries_of_both_sources_in_every_form(dut):
    """cq.entry.forms"""
    await run_traffic(dut, 0, 0)


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0), (0.5, 0.0), (0.1, 0.7)])
async def counted_entries_are_reported(dut, pace):
    """queue.cq.counted: completions of a counted QP and of CQs in interrupt mode are reported
    after their write, in order, with QP and kind; others are not reported."""
    bench, rng, happened = Bench(dut, *pace), rng_for("counted"), []
    await bench.start()
    await bench.write_context(1, log=5)
    await bench.write_context(2, log=5, intr=1)

    cocotb.start_soon(serve_counted(dut, lambda qpn: qpn % 3 == 0))
    reported = [getattr(dut, f"m_commit_{name}") for name in ("intr", "counted", "qpn", "kind")]
    bench.wr.on_beat = lambda beat: happened.append(("wr", beat["data"] & 0xFFFF))
    bench.commit.on_beat = lambda _: happened.append(
        ("reported", *(int(one.value) for one in reported))
    )
    due = []
    for number in range(200):
        rx = rng.randrange(2)
        item = random_item(rng, [1, 2], rx)
        item["req_id"], item["qpn"] = number, rng.randrange(1 << 12)
        intr, counted = int(item["cqn"] == 2), int(item["qpn"] % 3 == 0)
        kind = 2 * rx + (item["status"] != 0)
        due.append(
            (number, ("reported", intr, counted, item["qpn"], kind) if intr | counted else None)
        )
        await (bench.rx if rx else bench.tx).send(beat(item))
    await ClockCycles(dut.clk, 60)
    written = [one[1] for one in happened if one[0] == "wr"]
    # The order between the two sources is free.
    assert sorted(written) == list(range(200))
    expected = dict(due)
    assert [one for one in happened if one[0] == "reported"] == [
        expected[number] for number in written if expected[number]
    ]
    # No completion is reported before its CQE is written.
    owed = 0
    for what, *rest in happened:
        owed += bool(expected[rest[0]]) if what == "wr" else -1
        assert owed >= 0


@cocotb.test()
async def contexts_change_during_completions(dut):
    """cq.entry.beside: contexts of other CQs change continuously; no CQE is lost or duplicated"""
    bench = Bench(dut, 0.2, 0.3)
    await bench.start()
    rng = rng_for("beside")
    await bench.write_context(1, log=2)

    async def others():
        while True:
            other = context(live=rng.getrandbits(1), log=rng.randrange(8))
            await pulse(dut, "s_cqc_valid", s_cqc_cqn=rng.randrange(2, 5), s_cqc_data=other)
            for _ in range(rng.choice((0, 0, 1, 2))):
                await RisingEdge(dut.clk)

    cocotb.start_soon(others())
    items = [{**random_item(rng, [1], 0), "sub": 0} for _ in range(200)]
    bench.tx.post(*map(beat, items))
    for got, item in zip(await bench.wr.take(200, 40000), items, strict=True):
        check_beat(got, bench.expect(item))
    await bench.wr.none(20)


@cocotb.test()
async def slow_host_loses_nothing(dut):
    """cq.entry.stall"""
    await run_traffic(dut, 0.0, 0.7)


@cocotb.test()
async def gappy_sources(dut):
    """cq.entry.gaps"""
    await run_traffic(dut, 0.6, 0.2)


@cocotb.test()
async def entries_leave_in_time(dut):
    """queue.cq.cycles: one CQ at full load, in polling and interrupt mode, and a drain without
    pending CQEs take the specified cycles."""
    bench = Bench(dut)
    await bench.start()
    rng = rng_for("rate")
    consumed, done = Pulses(dut, "s_txc", consumed=True), Pulses(dut, "ev_cqe")
    offered, commits = Pulses(dut, "m_wr"), Pulses(dut, "m_commit")
    for cqn, intr, path in ((9, 0, "entry"), (10, 1, "entry_event")):
        promised = timing("efa_cq", path)
        await bench.write_context(cqn, log=4, intr=intr)
        for count in (1, 64):
            for pulses in (consumed, done, offered, commits):
                pulses.seen.clear()
            items = [{**random_item(rng, [cqn], 0), "sub": 0} for _ in range(count)]
            bench.tx.post(*[beat(item) for item in items])
            for got, item in zip(await bench.wr.take(count), items, strict=True):
                check_beat(got, bench.expect(item))
            await ClockCycles(dut.clk, 4)
            assert offered.seen[0][0] - consumed.seen[0][0] == promised.latency, path
            edges = [edge for (edge,) in done.seen]
            steps = [b - a for a, b in zip(edges, edges[1:], strict=False)]
            assert steps == [promised.interval] * (count - 1), path
            late = [edge + timing("efa_cq", "commit").latency for edge in edges]
            assert [edge for (edge,) in commits.seen] == (late if intr else [])
    dut.s_drain_valid.value = 1
    requested = cycle() + 1
    await RisingEdge(dut.clk)
    await until(dut, high(dut.s_drain_ready), cycles=20)
    assert cycle() - requested == timing("efa_cq", "drain").latency
    dut.s_drain_valid.value = 0


@cocotb.test()
async def the_count_goes_on_past_its_end(dut):
    """queue.cq.wrap: CQE 0 follows CQE 65,535; the overflow is computed from the index
    difference."""
    zero(dut, "s_cqc_valid", "s_cqdb_valid", "s_drain_valid", "s_rxc_valid", "counted_rd_data")
    dut.m_wr_ready.value, dut.s_txc_valid.value = 1, 0
    await clock_and_reset(dut)
    await until(dut, high(dut.m_init_done), cycles=5000)
    await pulse(dut, "s_cqc_valid", s_cqc_cqn=3, s_cqc_data=context(log=13))
    # Constant inputs until the last CQEs before the wrap.
    before = 0x10000 - 20
    dut.s_txc_data.value = INTERNAL.cpl.pack(cqn=3)
    dut.s_txc_valid.value = 1
    await Timer(before * PERIOD_NS - 2, "ns")
    await RisingEdge(dut.clk)
    dut.s_txc_valid.value = 0
    await ClockCycles(dut.clk, 4)
    await pulse(dut, "s_cqdb_valid", s_cqdb_cqn=3, s_cqdb_index=before)
    held = set()
    wr, events = StreamMonitor(dut, "m_wr", lambda: bool(held)), Pulses(dut, "ev_cqe", "data")
    tx, count = StreamDriver(dut, "s_txc"), before
    # A drain is requested for the two CQEs around the wrap.
    for entries in (19, 2, 19):
        drain = None
        if entries == 2:
            held.add("wr")
        tx.post(*[beat({"cqn": 3, "req_id": count + n & 0xFFFF}) for n in range(entries)])
        if entries == 2:
            await ClockCycles(dut.clk, 8)
            drain = cocotb.start_soon(hold(dut, "s_drain_valid", "s_drain_ready"))
            await ClockCycles(dut.clk, 8)
            assert not drain.done()
            held.clear()
        for _ in range(entries):
            got = (await wr.take())[0]
            common = IoTxCdesc.unpack(got["data"].to_bytes(32, "little")[:16]).common
            assert got["addr"] == BASE + 16 * (count % 8192)
            assert (common.req_id, common.phase) == (count & 0xFFFF, 1 - (count >> 13 & 1))
            count += 1
        if drain is not None:
            await drain
    assert not any(defs.EVENTS.cqe.unpack(raw).overflow for raw in events.values())


@cocotb.test()
async def counter_wraps_with_its_phase(dut):
    """cq.entry.wrap"""
    bench = Bench(dut)
    await bench.start()
    await bench.write_context(2, log=1)
    rng = rng_for("wrap")
    for _ in range(70):
        item = {**random_item(rng, [2], 1), "sub": 0}
        bench.rx.post(beat(item))
        check_beat((await bench.wr.take(1))[0], bench.expect(item))


@cocotb.test()
async def created_again_starts_from_phase_one(dut):
    """cq.entry.recreate: a created CQ starts empty with phase 1, independently of the consumer
    index of its predecessor."""
    bench = Bench(dut)
    await bench.start()
    rng = rng_for("recreate")
    events = Pulses(dut, "ev_cqe", "data")
    for _ in range(3):
        await bench.write_context(2, log=1)
        for _ in range(5):
            item = {**random_item(rng, [2], 0), "sub": 0}
            bench.tx.post(beat(item))
            check_beat((await bench.wr.take(1))[0], bench.expect(item))
        await pulse(dut, "s_cqdb_valid", s_cqdb_cqn=2, s_cqdb_index=40000)
        overflows = [defs.EVENTS.cqe.unpack(raw).overflow for raw in events.values()]
        assert overflows == [0, 0, 1, 1, 1]
        events.seen.clear()


@cocotb.test()
async def entry_of_a_dead_queue_is_dropped_but_done(dut):
    """cq.entry.dead"""
    bench = Bench(dut)
    await bench.start()
    rng = rng_for("dead")
    done = 0
    await bench.write_context(2, log=1)
    await bench.write_context(2, live=0)
    bench.rx.post(beat(random_item(rng, [2], 1)))
    for _ in range(20):
        await RisingEdge(dut.clk)
        done += int(dut.m_rxdone.value)
    assert done == 1
    await bench.wr.none(10)


@cocotb.test()
async def drain_waits_for_what_was_inside(dut):
    """cq.drain"""
    held = {"on": True}
    bench = Bench(dut, 0, lambda: held["on"])
    await bench.start()
    await bench.write_context(3, log=4)
    rng = rng_for("drain")
    items = [{**random_item(rng, [3], 0), "sub": 0} for _ in range(2)]
    bench.tx.post(*[beat(item) for item in items])
    await ClockCycles(dut.clk, 10)
    dut.s_drain_valid.value = 1
    for _ in range(30):
        await RisingEdge(dut.clk)
        assert dut.s_drain_ready.value == 0, "drain completed while a CQE is pending"
    held["on"] = False
    for _ in range(30):
        await RisingEdge(dut.clk)
        if dut.s_drain_ready.value == 1:
            break
    else:
        raise AssertionError("the drain did not complete")
    assert bench.wr.consumed == 2
    dut.s_drain_valid.value = 0


@cocotb.test()
async def overflow_is_reported(dut):
    """cq.overflow"""
    bench = Bench(dut)
    await bench.start()
    await bench.write_context(4, log=1)
    rng = rng_for("overflow")
    seen = []

    async def watch():
        while True:
            await RisingEdge(dut.clk)
            if dut.ev_cqe_valid.value == 1:
                seen.append(INTERNAL_EV.unpack(int(dut.ev_cqe_data.value)).overflow)

    INTERNAL_EV = defs.EVENTS.cqe
    cocotb.start_soon(watch())
    for number in range(6):
        if number == 3:
            dut.s_cqdb_cqn.value, dut.s_cqdb_index.value, dut.s_cqdb_valid.value = 4, 3, 1
            await RisingEdge(dut.clk)
            dut.s_cqdb_valid.value = 0
            await RisingEdge(dut.clk)
        bench.tx.post(beat({**random_item(rng, [4], 0), "sub": 0}))
        await bench.wr.take(1)
    await ClockCycles(dut.clk, 3)
    assert [int(bit) for bit in seen] == [0, 0, 1, 0, 0, 1]


@cocotb.test()
async def reset_in_the_middle_of_traffic(dut):
    """cq.reset"""
    bench = Bench(dut, 0, 0.5)
    await bench.start()
    rng = random.Random(1)
    for _ in range(3):
        await bench.write_context(6, log=2)
        items = [{**random_item(rng, [6], 0), "sub": 0} for _ in range(20)]
        bench.tx.post(*[beat(item) for item in items])
        await bench.wr.take(7)
        bench.tx.clear()
        await reset(dut)
        bench.wr.beats.clear()
        await until(dut, high(dut.m_init_done))
        await bench.write_context(6, log=2)
        item = {**random_item(rng, [6], 0), "sub": 0}
        bench.tx.post(beat(item))
        check_beat((await bench.wr.take(1))[0], bench.expect(item))
    await Timer(1, unit="ns")
