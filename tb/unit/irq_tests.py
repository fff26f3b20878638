# SPDX-License-Identifier: Apache-2.0
"""Tests the interrupts of efa_host: MSI-X vectors, masks, pending bits, order of messages."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import EVENTS, LIMITS
from tb.lib.stream import StreamMonitor, cycle, rng_for
from tb.lib.timing import timing
from tb.lib.waits import rises
from tb.unit.host_bench import HostBench, packet

TABLE, PBA = LIMITS.msix_table_offset, LIMITS.msix_pba_offset


@cocotb.test()
async def vectors(dut):
    """irq.mask: a mask holds messages as pending, unmasking sends one message, a disabled
    function loses messages."""
    bench = await HostBench(dut).start()
    bench.vector(0, 0xFEE0_0000, 0x10)
    bench.vector(3, 0x1_FEE0_0030, 0x13)
    await bench.settle()

    async def message(vector):
        beat = (await bench.wr.take())[0]
        addr, data = (0xFEE0_0000, 0x10) if vector == 0 else (0x1_FEE0_0030, 0x13)
        assert (beat["addr"], beat["len"], beat["data"], beat["last"]) == (addr, 4, data, 1)

    await bench.irq["adm"].send({"vector": 0})
    await message(0)
    await bench.irq["eq"].send({"vector": 3}, {"vector": 3})
    await message(3)
    await message(3)

    def mask_entry(masked):
        bench.store(TABLE + 3 * 16 + 12, masked)

    def mask_function(masked):
        dut.s_cfg_msix_fmask.value = masked

    for mask in (mask_entry, mask_function):
        mask(1)
        await bench.settle()
        await bench.irq["eq"].send({"vector": 3}, {"vector": 3})
        await bench.wr.none(30)
        assert await bench.read(PBA, 8) == 1 << 3
        mask(0)
        await message(3)
        await bench.wr.none(60)
        assert await bench.read(PBA, 8) == 0
    dut.s_cfg_msix_enable.value = 0
    await bench.irq["eq"].send({"vector": 3})
    await ClockCycles(dut.clk, 20)
    dut.s_cfg_msix_enable.value = 1
    await bench.wr.none(60)
    assert await bench.read(PBA, 8) == 0


@cocotb.test()
async def every_bit_of_a_message(dut):
    """irq.message: a message has each bit of the address and of the data of its vector."""
    bench, rng = await HostBench(dut).start(), rng_for("message")
    first = rng.getrandbits(64), rng.getrandbits(32)
    every = [first, tuple(~value for value in first)]  # each bit has both values
    every += [(rng.getrandbits(64), rng.getrandbits(32)) for _ in range(20)]
    for addr, data in every:
        addr, data = addr & (1 << 64) - 4, data & 0xFFFF_FFFF
        bench.vector(2, addr, data)
        await bench.settle()
        await bench.irq["adm"].send({"vector": 2})
        beat = (await bench.wr.take())[0]
        assert (beat["addr"], beat["len"], beat["data"], beat["last"]) == (addr, 4, data, 1)


@cocotb.test()
async def a_vector_that_is_not_there(dut):
    """irq.unknown: a request for an absent vector is reported without a message; later requests
    proceed."""
    bench = await HostBench(dut).start()
    vectors = int(dut.VECTORS.value)
    last = 0x2_FEE0_0000
    bench.vector(vectors - 1, last, 0x77)
    await bench.settle()
    for source, vector in (("adm", vectors), ("eq", 255), ("adm", vectors + 1)):
        await bench.irq[source].send({"vector": vector}, {"vector": vectors - 1})
        beat = (await bench.wr.take())[0]
        assert (beat["addr"], beat["data"]) == (last, 0x77)
        await ClockCycles(dut.clk, 5)
        assert bench.odds() == [(5, vector)]
    await bench.wr.none(20)


@cocotb.test()
@cocotb.parametrize(moderation=[1, 7, 100, 804])
async def messages_keep_their_distance(dut, moderation):
    """irq.moderation: messages of one vector keep the moderation interval; earlier requests
    merge and leave in time. Each message is reported."""
    bench, rng = await HostBench(dut).start(), rng_for("moderation")
    events = StreamMonitor(bench.pins, "ev_irq")
    vectors = int(dut.VECTORS.value)
    for vector in range(vectors):
        bench.vector(vector, 0xFEE0_0000 + 16 * vector, vector)
    await bench.settle()
    dut.s_cfg_moderation.value = moderation
    sent, requested, late = {}, {}, 4 + 2 * vectors + 40

    def leaves(beat):
        vector, now = beat["data"], cycle()
        assert now - sent.get(vector, -moderation) >= moderation, (
            "message before the end of the moderation interval"
        )
        due = max(requested.pop(vector, now), sent.get(vector, -moderation) + moderation)
        assert now - due <= late, (vector, now - due)
        sent[vector] = now

    bench.wr.on_beat = leaves
    for _ in range(40):
        vector = rng.choice((0, 1, vectors - 1, rng.randrange(vectors)))
        await bench.irq[rng.choice(("adm", "eq"))].send({"vector": vector})
        if sent.get(vector, 0) < cycle() - 1:
            requested.setdefault(vector, cycle())
        await ClockCycles(dut.clk, rng.choice((1, 5, 40, moderation, 2 * moderation)))
    await ClockCycles(dut.clk, 2 * moderation + late)
    assert not requested, "a message was lost"
    left = [EVENTS.irq.pack(vector=beat["data"]) for beat in bench.wr.beats]
    assert [beat["data"] for beat in events.beats] == left


@cocotb.test()
async def masks_and_distance(dut):
    """irq.moderation.mask: a moderated message that is masked becomes pending; unmasking sends
    one message. Moderation 0 releases a held message."""
    bench = await HostBench(dut).start()
    bench.vector(1, 0xFEE0_0000, 0x11)
    await bench.settle()
    dut.s_cfg_moderation.value = 300
    await bench.irq["eq"].send({"vector": 1})
    await bench.wr.take()
    await bench.irq["eq"].send({"vector": 1})
    await ClockCycles(dut.clk, 20)
    assert await bench.read(PBA, 8) == 0, "a moderated message must not be pending"
    bench.store(TABLE + 16 + 12, 1)
    await bench.settle(400)
    await bench.wr.none(1)
    assert await bench.read(PBA, 8) == 2
    bench.store(TABLE + 16 + 12, 0)
    assert (await bench.wr.take())[0]["data"] == 0x11
    await bench.irq["eq"].send({"vector": 1})
    dut.s_cfg_moderation.value = 0
    assert (await bench.wr.take())[0]["data"] == 0x11
    await bench.wr.none(60)


@cocotb.test()
async def masked_while_waiting(dut):
    """irq.mask.waiting: a mask stored before a message leaves holds the message."""
    bench = await HostBench(dut).start()
    bench.vector(0, 0xFEE0_0000, 0x10)
    await bench.settle()
    dut.s_cfg_bme.value = 0
    await bench.irq["adm"].send({"vector": 0})
    bench.store(TABLE + 12, 1)
    await bench.settle()
    dut.s_cfg_bme.value = 1
    await bench.wr.none(40)
    bench.store(TABLE + 12, 0)
    assert (await bench.wr.take())[0]["addr"] == 0xFEE0_0000


@cocotb.test()
async def message_after_its_write(dut):
    """irq.order: a message leaves after the write that it announces, with any stalls."""
    bench = await HostBench(dut, gaps=0.2, stalls=0.6).start()
    bench.vector(0, 0xFEE0_0000, 0x10)
    await bench.settle()
    for index in range(30):
        await bench.put["adm"].send(*packet(0x1000 + 64 * index, bytes([index] * 64)))
        bench.irq["adm"].post({"vector": 0})
    written = 0
    for beat in await bench.wr.take(60):
        written += beat["len"] == 64
        if beat["len"] == 4:
            assert written > 0
    await bench.wr.none(30)


@cocotb.test()
async def cycles(dut):
    """irq.cycles: a message has the specified latency and interval."""
    bench = await HostBench(dut).start()
    bench.vector(0, 0xFEE0_0000, 0x10)
    await bench.settle()
    promised, stream = timing("efa_irq", "message"), timing("efa_dma_wr", "beat")
    bench.dut.s_irq_adm_vector.value, bench.dut.s_irq_adm_valid.value = 0, 1
    await RisingEdge(dut.clk)
    assert bench.dut.s_irq_adm_ready.value == 1
    bench.dut.s_irq_adm_valid.value = 0
    await rises(dut, dut.m_dma_wr_valid, promised.latency + stream.latency)
    await bench.wr.take()
    times = []
    bench.wr.on_beat = lambda beat: times.append(cycle())
    bench.irq["adm"].post(*[{"vector": 0}] * 20)
    await bench.wr.take(20)
    assert times[-1] - times[0] == 19 * promised.interval
