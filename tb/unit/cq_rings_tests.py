"""efa_cq: a ring of every depth and form, at its ends; who waits for an event that is stuck."""

from itertools import product

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge

from efa.defs import EVENTS, INTERNAL, LIMITS, IoTxCdesc
from tb.lib.stream import clock_and_reset
from tb.lib.waits import high, pulse, until, zero
from tb.unit.queue_bench import Pulses

BASE = 0x7_FFFF_0000_0040
MAX_LOG = LIMITS.max_cq_depth.bit_length() - 1


async def start(dut):
    """Out of reset, whatever leaves is taken."""
    zero(dut, "cqc_valid", "cqdb_valid", "drain_valid", "s_txc_valid", "s_rxc_valid",
         "look_counted")  # fmt: skip
    dut.m_wr_ready.value = dut.m_commit_ready.value = 1
    await clock_and_reset(dut)
    await until(dut, high(dut.init_done), cycles=5000)


async def create(dut, cqn, **fields):
    context = INTERNAL.cqc.pack(**{"live": 1, "base": BASE >> 6, **fields})
    await pulse(dut, "cqc_valid", cqc_cqn=cqn, cqc_data=context)


async def one_each_cycle(dut, side, count, item):
    """Completions back to back, all the same: nothing but the clock moves."""
    if not count:
        return
    await FallingEdge(dut.clk)
    getattr(dut, f"s_{side}c_data").value = INTERNAL.cpl.pack(**item)
    valid = getattr(dut, f"s_{side}c_valid")
    valid.value = 1
    await ClockCycles(dut.clk, count)
    await FallingEdge(dut.clk)
    valid.value = 0
    await ClockCycles(dut.clk, 4)


@cocotb.test()
async def every_depth_at_its_ends(dut):
    """cq.rings.depth: 1 to the largest, either entry size and ring; slot, phase, overflow"""
    await start(dut)
    for log, wide, sub in product(range(MAX_LOG + 1), (0, 1), (0, 1)):
        cqn, size, depth = log + 16 * wide + 32 * sub, 32 if wide else 16, 1 << log
        await create(dut, cqn, log=log, wide=wide, two=1)
        item = {"cqn": cqn, "sub": sub, "rx": sub}
        ring, number = BASE + sub * depth * size, 0
        # The beginning, then each end of the first two laps.
        for upto in (min(2, depth), depth + 2, 2 * depth + 2):
            few = min(4, upto - number)
            await one_each_cycle(dut, "rx" if sub else "tx", upto - number - few, item)
            writes = Pulses(dut, "m_wr", "addr", "data", "len")
            events = Pulses(dut, "ev_cqe", "data")
            await one_each_cycle(dut, "rx" if sub else "tx", few, item)
            number = upto - few
            for (addr, data, length), raw in zip(writes.values(), events.values(), strict=True):
                slot, lap = number & depth - 1, number >> log
                common = IoTxCdesc.unpack(data.to_bytes(32, "little")[:16]).common
                where = f"entry {number} of depth {depth}, {size} bytes, ring {sub}"
                assert (addr, length) == (ring + slot * size, size), where
                assert common.phase == 1 - (lap & 1), where
                # Nothing was read: more than both rings hold has overwritten something.
                assert EVENTS.cqe.unpack(raw).overflow == (number >= 2 * depth), where
                number += 1
            assert number == upto
            writes.stop()
            events.stop()


@cocotb.test()
async def the_consumer_index_holds_nothing_up(dut):
    """cq.rings.consumer: stale, right or absurd, entries come one a cycle, each at its place"""
    await start(dut)
    await create(dut, 3, log=2)
    writes, events = Pulses(dut, "m_wr", "addr"), Pulses(dut, "ev_cqe", "data")
    for index in (0, 5, 0xFFFF, 9, 0x8000):
        await pulse(dut, "cqdb_valid", cqdb_cqn=3, cqdb_index=index)
        await one_each_cycle(dut, "tx", 9, {"cqn": 3})
    cycles = [beat[0] for beat in writes.seen]
    assert all(b - a == 1 for n, (a, b) in enumerate(zip(cycles, cycles[1:], strict=False))
               if n % 9 != 8)  # fmt: skip
    assert writes.values() == [BASE + 16 * (n & 3) for n in range(45)]
    overflows = [EVENTS.cqe.unpack(raw).overflow for raw in events.values()]
    # Four entries may be unread; the count since the index goes modulo 65,536.
    index = [0, 5, 0xFFFF, 9, 0x8000]
    assert overflows == [(n + 1 - index[n // 9] & 0xFFFF) > 4 for n in range(45)]


@cocotb.test()
async def an_event_that_is_stuck_holds_up_few(dut):
    """cq.rings.stuck: polled queues go on behind one commit; a drain waits for that commit"""
    await start(dut)
    await create(dut, 4, log=6, intr=1)
    await create(dut, 5, log=6)
    dut.m_commit_ready.value = 0
    writes, commits = Pulses(dut, "m_wr", "addr"), Pulses(dut, "m_commit", "total", taken=True)
    await one_each_cycle(dut, "tx", 1, {"cqn": 4})
    await one_each_cycle(dut, "tx", 20, {"cqn": 5})
    assert len(writes.seen) == 21 and not commits.seen
    await FallingEdge(dut.clk)
    dut.drain_valid.value = 1
    for _ in range(20):
        await RisingEdge(dut.clk)
        assert dut.drain_ready.value == 0
    # The next one that would commit waits, unwritten, and stays what it is.
    await one_each_cycle(dut, "tx", 2, {"cqn": 4})
    assert len(writes.seen) == 21
    dut.m_commit_ready.value = 1
    await until(dut, high(dut.drain_ready), cycles=20)
    dut.drain_valid.value = 0
    await ClockCycles(dut.clk, 8)
    assert len(writes.seen) == 23 and commits.values() == [1, 2, 3]
