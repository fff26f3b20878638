"""efa_host: MSI-X vectors, masks, pending bits, order of messages."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa.defs import LIMITS
from tb.lib.stream import cycle
from tb.lib.timing import timing
from tb.lib.waits import rises
from tb.unit.host_bench import HostBench, packet

TABLE, PBA = LIMITS.msix_table_offset, LIMITS.msix_pba_offset


@cocotb.test()
async def vectors(dut):
    """irq.mask: masks hold a message as pending, unmasking sends one, disabled loses it."""
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
async def masked_while_waiting(dut):
    """irq.mask.waiting: a message that has not left is held back by a mask stored meanwhile."""
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
    """irq.order: the write a message announces is in front of it, whatever stalls."""
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
    """irq.cycles: a message is offered so long after its request, and one in so many cycles."""
    bench = await HostBench(dut).start()
    bench.vector(0, 0xFEE0_0000, 0x10)
    await bench.settle()
    promised, stream = timing("efa_irq", "message"), timing("efa_dma_wr", "beat")
    dut.irq_adm_vector.value, dut.irq_adm_valid.value = 0, 1
    await RisingEdge(dut.clk)
    assert dut.irq_adm_ready.value == 1
    dut.irq_adm_valid.value = 0
    await rises(dut, dut.m_dma_wr_valid, promised.latency + stream.latency)
    await bench.wr.take()
    times = []
    bench.wr.on_beat = lambda beat: times.append(cycle())
    bench.irq["adm"].post(*[{"vector": 0}] * 20)
    await bench.wr.take(20)
    assert times[-1] - times[0] == 19 * promised.interval
