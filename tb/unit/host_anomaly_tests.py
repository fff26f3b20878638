# SPDX-License-Identifier: Apache-2.0
"""Tests efa_host_anomaly: every report becomes one event; stores have priority."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import EVENTS
from tb.lib.stream import StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import high, until

PART, REGISTER, LATE, VECTOR = 1, 2, 4, 5


class Bench:
    """Drives reports per cycle and records the resulting events."""

    def __init__(self, dut):
        self.dut = dut
        self.quiet()
        self.events = StreamMonitor(dut, "ev_anomaly_host")

    def quiet(self):
        for name in ("part", "anomaly", "late", "vector"):
            getattr(self.dut, f"s_{name}_valid").value = 0

    async def report(self, part=None, anomaly=None, late=None, vector=None):
        """Drives the reports of one cycle."""
        dut = self.dut
        dut.s_part_valid.value = part is not None
        dut.s_part_offset.value = part or 0
        dut.s_anomaly_valid.value = anomaly is not None
        dut.s_anomaly_kind.value, dut.s_anomaly_detail.value = anomaly or (0, 0)
        dut.s_late_valid.value = late is not None
        dut.s_late_tag.value = late or 0
        dut.s_vector_valid.value = vector is not None
        dut.s_vector_number.value = vector or 0
        await RisingEdge(dut.clk)
        self.quiet()

    def seen(self):
        found = [EVENTS.anomaly_host.unpack(beat["data"]) for beat in self.events.beats]
        self.events.beats.clear()
        return [(event.what, event.detail) for event in found]


@cocotb.test()
async def each_report_once(dut):
    """host.host_anomaly.each: reports of all kinds in random cycles give one event each; late tags
    stay in order."""
    bench, rng = Bench(dut), rng_for("anomaly")
    await clock_and_reset(dut)
    stores, late, waiting = [], [], 0
    for _ in range(400):
        part = anomaly = tag = None
        kind = rng.randrange(4)
        if kind == 0:
            part = rng.getrandbits(32)
            stores.append((PART, part))
        elif kind == 1:
            anomaly = (rng.choice((REGISTER, 3, 8 | rng.getrandbits(3))), rng.getrandbits(32))
            stores.append(anomaly)
        waiting = max(0, waiting - (kind > 1))
        if waiting < 12 and rng.random() < 0.4:
            tag = rng.randrange(256)
            late.append((LATE, tag))
            waiting += 1
        await bench.report(part, anomaly, tag)
    await ClockCycles(dut.clk, 40)
    seen = bench.seen()
    assert [one for one in seen if one[0] != LATE] == stores
    assert [one for one in seen if one[0] == LATE] == late


@cocotb.test()
async def a_vector_waits_for_stores(dut):
    """host.host_anomaly.vector"""
    bench = Bench(dut)
    await clock_and_reset(dut)
    for vector in (9, 200):
        await bench.report(part=4, vector=vector, late=3)
        await bench.report(part=8)
        await ClockCycles(dut.clk, 5)
        assert bench.seen() == [(PART, 4), (PART, 8), (VECTOR, vector), (LATE, 3)]


@cocotb.test()
async def any_vector(dut):
    """host.host_anomaly.vectors: every vector is reported once, after the stores of consecutive
    cycles."""
    bench, rng = Bench(dut), rng_for("vectors")
    await clock_and_reset(dut)
    for vector in rng.sample(range(256), 256):
        stores = [rng.getrandbits(32) for _ in range(rng.randrange(4))]
        await bench.report(part=stores[0] if stores else None, vector=vector)
        for offset in stores[1:]:
            dut.s_vector_number.value = rng.getrandbits(8)
            await bench.report(part=offset)
        await ClockCycles(dut.clk, 3)
        assert bench.seen() == [*((PART, offset) for offset in stores), (VECTOR, vector)]


@cocotb.test()
async def sixteen_wait(dut):
    """host.host_anomaly.store: sixteen late completions wait during sixteen cycles of stores and
    follow them."""
    bench = Bench(dut)
    await clock_and_reset(dut)
    depth = timing("efa_host_anomaly", "late").depth
    for number in range(depth):
        await bench.report(part=4 * number, late=number)
    await ClockCycles(dut.clk, depth + 4)
    stores = [(PART, 4 * number) for number in range(depth)]
    assert bench.seen() == stores + [(LATE, number) for number in range(depth)]


@cocotb.test()
async def cycles(dut):
    """host.host_anomaly.cycles: the events of a store and of a late completion in an idle module
    have the specified latency."""
    bench = Bench(dut)
    await clock_and_reset(dut)
    for path, report in (("store", {"part": 64}), ("late", {"late": 3})):
        await bench.report(**report)
        waited = await until(dut, high(dut.ev_anomaly_host_valid), cycles=9)
        assert waited == timing("efa_host_anomaly", path).latency, path


@cocotb.test()
async def reset_cancels(dut):
    """host.host_anomaly.reset: a reset discards pending reports."""
    bench = Bench(dut)
    await clock_and_reset(dut)
    for number in range(8):
        await bench.report(part=number, late=number)
    await reset(dut)
    bench.seen()
    await ClockCycles(dut.clk, 20)
    assert bench.seen() == []
    await bench.report(anomaly=(REGISTER, 5))
    await ClockCycles(dut.clk, 3)
    assert bench.seen() == [(REGISTER, 5)]
    # A report in the cycle of the reset is discarded.
    dut.rst.value = dut.s_part_valid.value = 1
    await RisingEdge(dut.clk)
    for _ in range(3):
        await RisingEdge(dut.clk)
        assert dut.ev_anomaly_host_valid.value == 0
