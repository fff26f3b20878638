# SPDX-License-Identifier: Apache-2.0
"""Tests efa_mr_check: every reason for a refusal, against a Python model of the rule."""

import cocotb
from cocotb.triggers import ClockCycles

from efa_cosim.layouts.defs import INTERNAL, LIMITS, MrAccess
from tb.lib.dont_care import dont_care
from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.waits import high, pulse, until
from tb.unit.data_bench import Moments

TOP = 1 << 64
# The permission that a kind of access needs.
RIGHTS = {
    MrAccess.READ: None, MrAccess.LOCAL_WRITE: "local_write",
    MrAccess.REMOTE_READ: "remote_read", MrAccess.REMOTE_WRITE: "remote_write",
}  # fmt: skip


async def start(dut, stalls=0.0, gaps=0.0):
    dut.s_mr_valid.value = 0
    source = StreamDriver(dut, "s", gaps, ["key", "pd", "addr", "len", "access", "user"])
    sink = StreamMonitor(dut, "m", stalls, ["ok", "loc", "len", "user"])
    await clock_and_reset(dut)
    await cleared(dut)
    return source, sink


async def cleared(dut):
    await until(dut, high(dut.m_init_done))


async def put(dut, rng, index, **fields):
    image = INTERNAL.mrc.pack(**dont_care(INTERNAL.mrc, rng, **fields))
    await pulse(dut, "s_mr_valid", s_mr_index=index, s_mr_data=image)
    # The data is don't-care without valid.
    dut.s_mr_data.value = image ^ rng.getrandbits(len(dut.s_mr_data))


def allowed(regions, request):
    if request["len"] == 0:
        return 1
    region = regions.get(request["key"] % (1 << LIMITS.mr_w))
    if region is None or region["key"] != request["key"] or region["pd"] != request["pd"]:
        return 0
    right = RIGHTS[request["access"]]
    if right is not None and not region[right]:
        return 0
    inside = request["addr"] - region["iova"]
    return int(0 <= inside and inside + request["len"] <= region["length"])


def near(rng, *values):
    return max(0, rng.choice(values) + rng.choice((-1, 0, 0, 1)))


@cocotb.test()
async def statuses_match_the_rule(dut):
    """data.mr_check.rule"""
    rng = rng_for("mr_check")
    source, sink = await start(dut, stalls=0.3, gaps=0.2)
    regions = {}
    for index in rng.sample(range(1 << LIMITS.mr_w), 200):
        length = rng.choice((1, 4096, rng.randrange(1, 1 << rng.randrange(1, 34)),
                             rng.randrange(1, 1 << rng.randrange(33, 64))))  # fmt: skip
        iova = rng.choice((0, TOP - length, rng.randrange(TOP - length)))
        regions[index] = {"live": 1, "key": rng.randrange(1, 1 << 12) << LIMITS.mr_w | index,
                          "pd": rng.getrandbits(10),
                          **{right: rng.getrandbits(1) for right in filter(None, RIGHTS.values())},
                          "phys": rng.getrandbits(1), "shift": rng.randrange(12, 64),
                          "mtt": rng.getrandbits(16), "iova": iova, "length": length}  # fmt: skip
        await put(dut, rng, index, **regions[index])
    requests = []
    for user in range(3000):
        region = rng.choice(list(regions.values()))
        size = near(rng, 0, 1, region["length"], rng.getrandbits(rng.randrange(33))) & 0xFFFFFFFF
        end = region["iova"] + region["length"]
        addr = near(rng, region["iova"], end, end - size) % TOP
        wrong = rng.random()
        key = region["key"] ^ (1 << rng.randrange(24) if wrong < 0.2 else 0)
        pd = region["pd"] ^ (1 << rng.randrange(10) if wrong > 0.9 else 0)
        requests.append({"key": key, "pd": pd, "addr": addr, "len": size,
                     "access": rng.choice(list(RIGHTS)), "user": user & 1})  # fmt: skip
    source.post(*requests)
    good = 0
    for request in requests:
        beat = (await sink.take(1))[0]
        assert beat["ok"] == allowed(regions, request), request
        assert (beat["len"], beat["user"]) == (request["len"], request["user"])
        if beat["ok"] and request["len"]:
            good += 1
            region = regions[request["key"] % (1 << LIMITS.mr_w)]
            loc = INTERNAL.mr_loc.unpack(beat["loc"])
            assert (loc.phys, loc.shift, loc.mtt) == (
                region["phys"], region["shift"], region["mtt"])  # fmt: skip
            page = region["iova"] >> region["shift"] << region["shift"]
            assert loc.start == request["addr"] - (0 if region["phys"] else page)
    assert good > 300


def bytes_near(rng, value, count):
    """Returns a number with bytes near those of `value`, the extremes, or random bytes."""
    own = value.to_bytes(8, "little")
    return int.from_bytes(
        bytes(rng.choice((byte, byte, (byte + 1) % 256, (byte - 1) % 256, 0, 255,
                          rng.getrandbits(8))) for byte in own[:count]), "little")  # fmt: skip


@cocotb.test()
async def borrows_pass_every_byte(dut):
    """data.mr_check.borrow: differences whose borrows begin, propagate and end at each byte give
    the correct result"""
    rng = rng_for("mr_check borrow")
    source, sink = await start(dut)
    good = 0
    for _ in range(12):
        regions, requests = {}, []
        for index in rng.sample(range(1 << LIMITS.mr_w), 16):
            iova = bytes_near(rng, rng.choice((0, TOP - 1)), 8) % (TOP >> 1)
            length = min(max(1, bytes_near(rng, rng.getrandbits(63), 8)), TOP - iova)
            length = rng.choice((length, length % (1 << 40) or 1, length % (1 << 33) or 1))
            regions[index] = {"live": 1, "key": rng.randrange(1, 1 << 12) << LIMITS.mr_w | index,
                              "pd": rng.getrandbits(10), "local_write": 1, "phys": 0,
                              "shift": rng.randrange(12, 64), "mtt": rng.getrandbits(16),
                              "iova": iova, "length": length}  # fmt: skip
            await put(dut, rng, index, **regions[index])
        for user in range(400):
            region = rng.choice(list(regions.values()))
            size = bytes_near(rng, region["length"], 4)
            last = region["iova"] + region["length"] - size
            addr = rng.choice((bytes_near(rng, region["iova"], 8), bytes_near(rng, last % TOP, 8),
                               near(rng, last))) % TOP  # fmt: skip
            requests.append({"key": region["key"], "pd": region["pd"], "addr": addr, "len": size,
                         "access": MrAccess.LOCAL_WRITE, "user": user & 1})  # fmt: skip
        source.post(*requests)
        for request in requests:
            beat = (await sink.take(1))[0]
            assert beat["ok"] == allowed(regions, request), request
            if beat["ok"] and request["len"]:
                good += 1
                region = regions[request["key"] % (1 << LIMITS.mr_w)]
                page = region["iova"] >> region["shift"] << region["shift"]
                assert INTERNAL.mr_loc.unpack(beat["loc"]).start == request["addr"] - page, request
    assert good > 300


@cocotb.test()
async def removed_and_reset_regions_are_dead(dut):
    """data.mr_check.removed"""
    source, sink = await start(dut)
    region = {"key": 0x107, "pd": 1, "shift": 12, "iova": 0x1000, "length": 0x1000}
    request = {"key": 0x107, "pd": 1, "addr": 0x1000, "len": 1}
    for live in (1, 0, 1):
        await put(dut, rng_for("removed"), 7, live=live, **region)
        source.post(request)
        assert (await sink.take(1))[0]["ok"] == live
    source.post(*[request] * 20)
    await ClockCycles(dut.clk, 6)
    await reset(dut)
    source.clear()
    await cleared(dut)
    sink.beats.clear()
    source.post(request)
    assert (await sink.take(1))[0]["ok"] == 0


@cocotb.test()
async def every_region_is_dead_after_a_reset(dut):
    """data.mr_check.cleared"""
    source, sink = await start(dut)
    rng, count = rng_for("cleared"), 1 << LIMITS.mr_w
    region = {"live": 1, "pd": 1, "shift": 12, "iova": 0x1000, "length": 0x1000}
    requests = [{"key": count | index, "pd": 1, "addr": 0x1000, "len": 1} for index in range(count)]
    for index in range(count):
        await put(dut, rng, index, key=count | index, **region)
    for there in (1, 0):
        source.post(*requests)
        assert all(status["ok"] == there for status in await sink.take(count))
        await reset(dut)
        await cleared(dut)


@cocotb.test()
async def a_status_does_not_wait_to_be_taken(dut):
    """data.mr_check.valid: a check result is valid without ready, and further requests are
    accepted behind it"""
    held = {"on": True}
    source, sink = await start(dut, lambda: held["on"])
    source.post(*[{"len": 0, "user": n & 1} for n in range(6)])
    await ClockCycles(dut.clk, 12)
    assert (dut.m_valid.value, dut.s_ready.value) == (1, 0)
    held["on"] = False
    await sink.take(6)


@cocotb.test()
async def cycles(dut):
    """data.mr_check.time"""
    source, sink = await start(dut)
    moments = Moments(dut, "s", "m")
    source.post(*[{"len": 0, "user": n & 1} for n in range(100)])
    await sink.take(100)
    early = int(dut.EARLY.value)
    moments.hold("efa_mr_check", "early" if early else "question", "s", "m")
