"""efa_regs: which stores act, what reads give, answers through memory."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa import defs
from efa.defs import LIMITS, PROFILES, REG_BITS, Reg
from tb.lib.stream import StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import rises

INVALID = defs.EFA_MMIO_READ_INVALID
READ_ONLY = (Reg.VERSION, Reg.CONTROLLER_VERSION, Reg.CAPS, Reg.DEV_STS)
STORED = [reg for reg in Reg if reg not in READ_ONLY]
ODD_REGISTER, ODD_LOST = 2, 3
RESP = 0x12_3456_7880


class Bench:
    """Dwords of BAR 0 in order, as efa_mmio gives them."""

    def __init__(self, dut, stalls=0.0, profile=0):
        self.dut = dut
        for name in ("in_reset", "in_flr", "resp_clear", "sts_progress", "sts_finished",
                     "acc_valid", "acc_write", "acc_offset", "acc_data"):  # fmt: skip
            getattr(dut, name).value = 0
        dut.s_cfg_profile.value = profile
        dut.sampled_interface.value = 0
        self.wr = StreamMonitor(dut, "wr_reg", stalls)
        self.reg = StreamMonitor(dut, "reg_wr")
        self.odd = StreamMonitor(dut, "odd")

    async def store(self, offset, value):
        dut = self.dut
        dut.acc_offset.value, dut.acc_data.value = int(offset), value
        dut.acc_valid.value = dut.acc_write.value = 1
        await RisingEdge(dut.clk)
        dut.acc_valid.value = dut.acc_write.value = 0

    async def load(self, offset):
        dut = self.dut
        dut.acc_offset.value, dut.acc_valid.value = int(offset), 1
        await RisingEdge(dut.clk)
        dut.acc_valid.value = 0
        await RisingEdge(dut.clk)
        return int(dut.rdata.value)

    async def point(self, address):
        await self.store(Reg.MMIO_RESP_LO, address & 0xFFFF_FFFF)
        await self.store(Reg.MMIO_RESP_HI, address >> 32)

    async def ask(self, register, number):
        request = REG_BITS.MMIO_REG_READ.pack(REQ_ID=number, REG_OFF=int(register))
        await self.store(Reg.MMIO_REG_READ, request)

    def odds(self):
        found = [(beat["what"], beat["detail"]) for beat in self.odd.beats]
        self.odd.beats.clear()
        return found


def value_of(register, profile):
    """What a register reads as outside a reset (fact sheet, registers)."""
    told = list(PROFILES.values())[profile]
    if register == Reg.VERSION:
        return told.version
    if register == Reg.CONTROLLER_VERSION:
        return told.controller_version
    if register == Reg.CAPS:
        return REG_BITS.CAPS.pack(
            CONTIGUOUS_QUEUE_REQUIRED=1, RESET_TIMEOUT=told.reset_timeout,
            DMA_ADDR_WIDTH=told.dma_addr_width, ADMIN_CMD_TO=told.admin_cmd_to,
        )  # fmt: skip
    if register == Reg.DEV_STS:
        return REG_BITS.DEV_STS.pack(READY=1)
    return 0 if register in list(Reg) else INVALID


@cocotb.test()
@cocotb.parametrize(profile=[0, 1])
async def reads(dut, profile):
    """host.regs.read: every offset, by load and through memory, is the same value."""
    bench = Bench(dut, profile=profile)
    await clock_and_reset(dut)
    await bench.point(RESP)
    for number, offset in enumerate([*Reg, 0x7C, 0x100, 0x1FFC]):
        assert await bench.load(offset) == value_of(offset, profile), hex(offset)
        await bench.ask(offset, number)
        beat = (await bench.wr.take())[0]
        answer = defs.AdminMmioReqReadLessResp.unpack(beat["data"].to_bytes(8, "little"))
        assert beat["addr"] == RESP
        assert (answer.req_id, answer.reg_off) == (number, offset)
        assert answer.reg_val == value_of(offset, profile), hex(offset)


@cocotb.test()
async def stores(dut):
    """host.regs.store: known registers reach everybody, the rest is reported; tables aside."""
    bench = Bench(dut)
    await clock_and_reset(dut)
    for number, register in enumerate(STORED):
        if register != Reg.MMIO_REG_READ:
            await bench.store(register, number)
    await ClockCycles(dut.clk, 2)
    wanted = [(reg, n) for n, reg in enumerate(STORED) if reg != Reg.MMIO_REG_READ]
    assert [(beat["offset"], beat["data"]) for beat in bench.reg.beats] == wanted
    assert not bench.odds()
    ignored = [*READ_ONLY, 0x7C, 0x1FFC, LIMITS.msix_table_offset + 16 * LIMITS.msix_vectors]
    for offset in ignored:
        await bench.store(offset, 1)
    await bench.store(LIMITS.msix_table_offset, 1)
    await ClockCycles(dut.clk, 2)
    assert bench.odds() == [(ODD_REGISTER, int(offset)) for offset in ignored]


@cocotb.test()
async def during_reset(dut):
    """host.regs.reset: only DEV_CTL and the read-less registers act; none in a FLR."""
    bench = Bench(dut)
    await clock_and_reset(dut)
    dut.in_reset.value = 1
    await bench.point(RESP)
    await bench.store(Reg.AQ_CAPS, 5)
    await bench.ask(Reg.VERSION, 9)
    assert (await bench.wr.take())[0]["addr"] == RESP
    assert not bench.reg.beats
    dut.acc_offset.value, dut.acc_data.value = int(Reg.DEV_CTL), 1
    dut.acc_valid.value = dut.acc_write.value = 1
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)
    assert dut.ctl_valid.value == 1 and dut.ctl_reset.value == 1
    dut.in_flr.value = 1
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)
    assert dut.ctl_valid.value == 0
    dut.acc_valid.value = dut.acc_write.value = 0
    await bench.ask(Reg.VERSION, 10)
    await bench.wr.none(8)


@cocotb.test()
async def waiting_answers(dut):
    """host.regs.waiting: as many as the limit says wait as they were asked; one more is lost."""
    bench = Bench(dut, stalls=1.0)
    rng = rng_for("regs")
    await clock_and_reset(dut)
    depth = timing("efa_regs", "answer").depth
    assert depth == LIMITS.mmio_reads
    wanted = []
    for number in range(depth):
        address = rng.getrandbits(61) << 3
        await bench.point(address)
        await bench.ask(Reg.VERSION, number)
        wanted.append(address)
    await bench.point(RESP)
    await bench.ask(Reg.VERSION, 99)
    await ClockCycles(dut.clk, 2)
    (what, detail), *more = bench.odds()
    assert what == ODD_LOST and not more
    assert REG_BITS.MMIO_REG_READ.unpack(detail).REQ_ID == 99
    bench.wr._pause = lambda: False
    assert [beat["addr"] for beat in await bench.wr.take(depth)] == wanted
    await bench.wr.none(8)


@cocotb.test()
async def cycles(dut):
    """host.regs.cycles: an answer is offered the cycle after its store."""
    bench = Bench(dut)
    await clock_and_reset(dut)
    await bench.ask(Reg.VERSION, 1)
    await rises(dut, dut.wr_reg_valid, timing("efa_regs", "answer").latency)


@cocotb.test()
async def address_forgotten(dut):
    """host.regs.clear: a register reset, and rst, put the answer's address back to zero."""
    bench = Bench(dut)
    await clock_and_reset(dut)
    await bench.point(RESP)
    dut.resp_clear.value = 1
    await RisingEdge(dut.clk)
    dut.resp_clear.value = 0
    await bench.ask(Reg.VERSION, 1)
    assert (await bench.wr.take())[0]["addr"] == 0
    await bench.point(RESP)
    await bench.ask(Reg.VERSION, 2)
    await reset(dut)
    bench.wr.beats.clear()
    await bench.wr.none(8)
    await bench.ask(Reg.VERSION, 3)
    assert (await bench.wr.take())[0]["addr"] == 0
