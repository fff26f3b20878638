# SPDX-License-Identifier: Apache-2.0
"""Tests efa_tx_engine at full load: rates, latencies, continuous stores, wrap of the counts."""

from itertools import cycle as again

import cocotb
from cocotb.triggers import ClockCycles

from efa_cosim.layouts.defs import LIMITS, AdminQpState, IoCompStatus
from tb.lib.timing import timing
from tb.lib.waits import until
from tb.unit.length import grid, rounds
from tb.unit.tx_engine_bench import ASK, CLEAR, FREE, PHYS_KEY, UAR, Bench, entry

FLUSHED = IoCompStatus.FLUSHED
BUFFER = 0x4_0000_0000


async def rate(dut, srd, count, batch, image, wide=False, messages=1024, log=7):
    """Returns messages per cycle at m_net, for `count` queues with a doorbell per `batch` WQEs."""
    bench = Bench(dut)
    dut = bench.dut
    await bench.start()
    # A ring is written at most half ahead of its consumption, as by a host.
    queues = [await bench.qp(n, log=log, wide=wide, srd=srd) for n in range(count)]
    posted = 0
    for queue in again(queues):
        if posted >= messages:
            break
        bench.post(queue, *[image] * batch)
        posted += batch
    # The congestion window opens.
    warm = messages // 2
    await until(dut, lambda: len(bench.packets) >= warm, "the first packets")
    start, seen = bench.cycle, len(bench.packets)
    await until(dut, lambda: len(bench.packets) >= messages - 32, "packets")
    value = (len(bench.packets) - seen) / (bench.cycle - start)
    dut._log.info("%.4f messages per cycle", value)
    return value


@cocotb.test()
@grid(
    path=[
        "inline_each", "inline_16", "inline_wide_8", "inline_one_queue", "gather_64", "gather_4096",
    ],
    srd=[0, 1],
)  # fmt: skip
async def rates(dut, path, srd):
    """tx_engine.rates: UD and SRD messages reach the specified rates."""
    inline = entry(inline=bytes(32))
    wide = entry(wide=True, inline=bytes(32))
    value = {
        "inline_each": lambda: rate(dut, srd, 8, 1, inline),
        "inline_16": lambda: rate(dut, srd, 8, 16, inline),
        "inline_wide_8": lambda: rate(dut, srd, 8, 8, wide, wide=True, log=6),
        "inline_one_queue": lambda: rate(dut, srd, 1, 16, inline, log=10),
        "gather_64": lambda: rate(dut, srd, 16, 16, entry(buffers=[(BUFFER, 64, PHYS_KEY)])),
        "gather_4096": lambda: rate(dut, srd, 2, 16, entry(buffers=[(BUFFER, 4096, PHYS_KEY)]),
                                    messages=128),
    }[path]()
    promised = timing("efa_tx_engine", path).interval
    assert abs(1 / await value - promised) <= 0.01 * promised


@cocotb.test()
async def latencies(dut):
    """tx_engine.latency: Inline and gathered sends on an idle device meet their specified
    latencies."""
    bench = Bench(dut)
    dut = bench.dut
    await bench.start()
    queue = await bench.qp(25)
    for wrap in range(3):
        await ClockCycles(dut.clk, 20 + wrap)
        bench.post(queue, entry(inline=bytes(8), req_id=1))
        await until(dut, lambda: dut.s_db_valid.value == 1, "doorbell")
        start = bench.cycle
        await until(dut, lambda: dut.m_net_valid.value == 1, "packet")
        assert bench.cycle - start == timing("efa_tx_engine", "inline").latency
        await bench.finished(1)
        bench.hold_reads = True
        bench.post(queue, entry(buffers=[(BUFFER, 64, PHYS_KEY)], req_id=2))
        await until(dut, lambda: dut.s_db_valid.value == 1, "doorbell")
        start = bench.cycle
        await until(dut, lambda: dut.m_rd_tx_valid.value == 1, "read")
        assert bench.cycle - start == timing("efa_tx_engine", "read").latency
        await ClockCycles(dut.clk, 30)
        bench.hold_reads = False
        await until(dut, lambda: dut.s_rd_cpl_tx_valid.value == 1, "read completion")
        start = bench.cycle
        await until(dut, lambda: dut.m_net_valid.value == 1, "packet")
        assert bench.cycle - start == timing("efa_tx_engine", "data").latency
        await bench.finished(1)


@cocotb.test()
@cocotb.parametrize(kind=["lines", "doorbells", "both"])
async def endless_stores_hold_nothing(dut, kind):
    """tx_engine.endless: A store in every cycle does not delay sends, flushes, creation or
    destruction of queues."""
    bench = Bench(dut)
    dut = bench.dut
    await bench.start()
    flood = await bench.qp(60, log=6, state=AdminQpState.RTR)
    busy = await bench.qp(61, log=4, state=AdminQpState.ERR)
    bench.set_state(busy, AdminQpState.ERR)
    await ClockCycles(dut.clk, 200)
    bench.flushed = 0

    def line():
        at = flood.page * 64 + bench.rng.randrange(64)
        return "llq", at, 0xFFFF, bench.rng.getrandbits(512), 0

    def doorbell():
        # Each doorbell flushes an unwritten WQE as soon as the previous one has completed.
        if sum(done.qpn == 61 for done in bench.done) + bench.flushed > busy.produced - 8:
            busy.produced += 1
        return "db", UAR * LIMITS.db_page_bytes + 8 * 61, busy.produced & 0xFFFF

    bench.flood = {
        "lines": line, "doorbells": doorbell,
        "both": lambda: (line, doorbell)[bench.cycle & 1](),
    }[kind]  # fmt: skip

    async def mine(qpn, count):
        """Returns the next completions of a queue; completions of the flood are counted."""
        found = []
        await until(dut, lambda: sum(d.qpn == qpn for d in bench.done) >= count, "completions", 800)
        for done in bench.done:
            if done.qpn == qpn:
                found.append(done)
            else:
                bench.flushed += 1
        bench.done.clear()
        return found

    async def within(cycles, work):
        start = bench.cycle
        await work
        assert bench.cycle - start <= cycles, bench.cycle - start

    for wrap in range(4):
        queue = await bench.qp(7, log=3, wide=bool(wrap & 1))
        bench.post(queue, entry(queue.wide, inline=b"good", req_id=1))
        assert [d.status for d in await mine(7, 1)] == [0]
        # Incomplete WQEs in a whole ring, each with a void.
        queue.produced += 8
        bench.ring(queue)
        done = await mine(7, 8)
        assert [d.status for d in done[1:]] == [FLUSHED] * 7
        await within(120, bench.drain())
        bench.set_state(queue, AdminQpState.RESET)
        # Two scans at most: one in progress and its own; each may begin inside a row of contexts.
        scan = timing("efa_send_tracker", "scan").latency + timing("efa_msg_id_alloc", "skip").depth
        await within(2 * scan, bench.op(queue, CLEAR))
        bench.contexts[7] = 0
        await within(2 * scan, bench.op(queue, FREE))
    assert len([e for e in bench.events["llq"][-100:] if e.status]) == 0


@cocotb.test()
async def counts_wrap(dut):
    """queue.sq_sched.wrap: The WQE count of a queue wraps at 65,536. With --short only its ring
    wraps, several times: the benches of efa_doorbell, efa_sq_index, efa_llq and efa_sq_sched take
    the count past its end."""
    bench = Bench(dut)
    dut = bench.dut
    await bench.start()
    bench.read_rate = 1
    queue = await bench.qp(12, log=10, page=16)
    image = entry(inline=b"w")
    line = queue.page * 64
    total = rounds(66000, 8000)
    while queue.produced < total:
        bench.done.clear()
        bench.packets.clear()
        for _ in range(512):
            bench.store(line + queue.produced % 1024, 0xFFFF, int.from_bytes(image, "little"))
            queue.produced += 1
        bench.ring(queue)
        await until(dut, lambda: bench.completed > queue.produced - 500, "completions")
    await until(dut, lambda: bench.completed == queue.produced, "all completions")
    assert not bench.errors
    assert await bench.op(queue, ASK) == 0
