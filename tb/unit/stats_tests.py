# SPDX-License-Identifier: Apache-2.0
"""Tests efa_stats: every event of every cycle counts in the counter of its GET_STATS name."""

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge

from tb.lib.bundles import Bundles
from tb.lib.stream import clock_and_reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import zero

NAMES = ("tx_bytes", "tx_pkts", "rx_bytes", "rx_pkts", "rx_drops", "qkey_viol", "send_bytes",
         "send_wrs", "recv_bytes", "recv_wrs", "read_wrs", "read_bytes", "read_wr_err",
         "read_resp_bytes", "write_wrs", "write_bytes", "write_wr_err",
         "write_recv_bytes")  # fmt: skip
# The counters of the bytes and of the number of each event with bytes, None: no counter.
PAIRS = {"tx": ("tx_bytes", "tx_pkts"), "send": ("send_bytes", "send_wrs"),
         "read": ("read_bytes", "read_wrs"), "write": ("write_bytes", "write_wrs"),
         "response": ("read_resp_bytes", None), "rx": ("recv_bytes", "recv_wrs"),
         "recv_write": ("write_recv_bytes", None), "placed": (None, None)}  # fmt: skip
DELIVERED = ("rx", "recv_write", "placed")  # at most one in a cycle
SINGLE = {"read_err": "read_wr_err", "write_err": "write_wr_err", "drop": "rx_drops",
          "ack_drop": "rx_drops", "qkey": "qkey_viol"}  # fmt: skip
EVENTS = ["ack_drop", "read_err", "write_err", *PAIRS, "drop", "qkey"]


async def start(dut):
    # The valid bits of all events replace those of the first ones with bytes.
    dut = Bundles(dut).lanes("s_st", PAIRS, valid_only=True, bytes=32)
    dut.lanes("s_st", EVENTS, valid_only=True)
    zero(dut, "stat_rd_addr", *(f"s_st_{name}_bytes" for name in PAIRS))
    quiet(dut)
    await clock_and_reset(dut)
    return dut


def counted(dut, value, index=0):
    """Returns the distance of a counter from its initial value."""
    left = int(dut.COUNT_LEFT.value) * (index < len(NAMES))
    return (int(value) + left) % (1 << 64)


async def read(dut, index):
    dut.stat_rd_addr.value = index
    await ClockCycles(dut.clk, timing("efa_stats", "read").latency)
    await FallingEdge(dut.clk)
    return counted(dut, dut.stat_rd_data.value, index)


async def count(dut, rng, cycles, counts):
    """Drives random events for that many cycles and adds their expected counts."""
    for _ in range(cycles):
        events(dut, rng, counts)
        await RisingEdge(dut.clk)
    quiet(dut)


def quiet(dut):
    """Drives no event."""
    zero(dut, *(f"s_st_{name}_valid" for name in EVENTS))


def events(dut, rng, counts):
    """Drives one cycle of random events."""
    delivered = rng.choice(DELIVERED)
    for name in EVENTS:
        valid = int(rng.random() < 0.6 and (name not in DELIVERED or name == delivered))
        getattr(dut, f"s_st_{name}_valid").value = valid
        if name in PAIRS:
            size = rng.choice((0, 1, 0xFFFF, rng.getrandbits(16), rng.getrandbits(32)))
            getattr(dut, f"s_st_{name}_bytes").value = size
            for counter, more in zip(PAIRS[name], (size, 1), strict=True):
                if counter:
                    counts[counter] += more * valid
            if name in DELIVERED:
                counts["rx_bytes"] += size * valid
                counts["rx_pkts"] += valid
        else:
            counts[SINGLE[name]] += valid


def none_yet():
    """Returns counts before the first event."""
    return dict.fromkeys(NAMES, 0)


@cocotb.test()
async def every_event_is_counted(dut):
    """admin.stats.count: Random events of every cycle are counted."""
    dut = await start(dut)
    rng = rng_for("stats")
    counts = none_yet()
    for cycles in (0, 400, *[1] * 12, 2):
        await count(dut, rng, cycles, counts)
        for index in (*range(len(NAMES)), 0, *range(len(NAMES))):
            assert await read(dut, index) == counts[NAMES[index]], (cycles, index)
    for index in range(len(NAMES), 32):
        assert await read(dut, index) == 0


@cocotb.test()
async def bytes_count_beyond_32_bits(dut):
    """admin.stats.wide: Byte counters count beyond 32 bits."""
    dut = await start(dut)
    cycles = 65540
    for name in PAIRS:
        getattr(dut, f"s_st_{name}_valid").value = name not in DELIVERED or name == "recv_write"
        getattr(dut, f"s_st_{name}_bytes").value = 0xFFFF
    await ClockCycles(dut.clk, cycles)
    quiet(dut)
    assert cycles * 0xFFFF > 1 << 32
    for name in ("tx", "send", "read", "write", "response", "recv_write"):
        byte_count, count = PAIRS[name]
        assert await read(dut, NAMES.index(byte_count)) == cycles * 0xFFFF
        assert count is None or await read(dut, NAMES.index(count)) == cycles
    assert [await read(dut, index) for index in (2, 3)] == [cycles * 0xFFFF, cycles]


@cocotb.test()
async def reads_follow_each_other(dut):
    """admin.stats.time: A value is returned in its specified time, one per cycle."""
    promised = timing("efa_stats", "read")
    assert promised.interval == 1
    dut = await start(dut)
    rng = rng_for("time")
    counts = none_yet()
    await count(dut, rng, 50, counts)
    requested = [rng.randrange(len(NAMES)) for _ in range(40)]
    for cycle in range(len(requested) + promised.latency):
        dut.stat_rd_addr.value = requested[min(cycle, len(requested) - 1)]
        await RisingEdge(dut.clk)
        if cycle >= promised.latency:
            index = requested[cycle - promised.latency]
            value = counted(dut, dut.stat_rd_data.value, index)
            assert value == counts[NAMES[index]]


@cocotb.test()
async def reset_clears_all(dut):
    """admin.stats.reset: A reset clears all counters; events during the reset are not counted."""
    dut = await start(dut)
    rng = rng_for("reset")
    counts = none_yet()
    await count(dut, rng, 20, counts)
    dut.rst.value = 1
    for name in EVENTS:
        getattr(dut, f"s_st_{name}_valid").value = name not in DELIVERED or name == "placed"
    await ClockCycles(dut.clk, 3)
    quiet(dut)
    dut.rst.value = 0
    await RisingEdge(dut.clk)
    assert [await read(dut, index) for index in range(len(NAMES))] == [0] * len(NAMES)
    counts = none_yet()
    await count(dut, rng, 1, counts)
    assert [await read(dut, n) for n in range(len(NAMES))] == [counts[name] for name in NAMES]
