# SPDX-License-Identifier: Apache-2.0
"""Tests efa_regs: effect of stores, values of loads, read-less responses through memory."""

import cocotb
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge

from efa_cosim.layouts import defs
from efa_cosim.layouts.defs import LIMITS, PROFILES, REG_BITS, AnomalyHost, Reg
from tb.lib.stream import StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, rises

INVALID = defs.EFA_MMIO_READ_INVALID
READ_ONLY = (Reg.VERSION, Reg.CONTROLLER_VERSION, Reg.CAPS, Reg.DEV_STS)
STORED = [reg for reg in Reg if reg not in READ_ONLY]
RESP = 0x12_3456_7880


class Bench:
    """Drives BAR 0 dwords in order, as efa_mmio delivers them."""

    def __init__(self, dut, stalls=0.0, profile=0):
        self.dut = dut
        for name in ("s_in_reset", "s_in_flr", "s_resp_clear", "s_sts_progress", "s_sts_finished",
                     "s_acc_valid", "s_acc_write", "s_acc_offset", "s_acc_data"):  # fmt: skip
            getattr(dut, name).value = 0
        dut.s_cfg_profile.value = profile
        dut.s_cfg_sampled_interface.value = 0
        self.wr = StreamMonitor(dut, "m_wr_reg", stalls)
        self.reg = StreamMonitor(dut, "m_reg_wr")
        self.anomaly = StreamMonitor(dut, "m_anomaly")

    async def store(self, offset, value):
        dut = self.dut
        dut.s_acc_offset.value, dut.s_acc_data.value = int(offset), value
        dut.s_acc_valid.value = dut.s_acc_write.value = 1
        await RisingEdge(dut.clk)
        dut.s_acc_valid.value = dut.s_acc_write.value = 0

    async def load(self, offset):
        dut = self.dut
        dut.s_acc_offset.value, dut.s_acc_valid.value = int(offset), 1
        await RisingEdge(dut.clk)
        dut.s_acc_valid.value = 0
        await RisingEdge(dut.clk)
        return int(dut.m_acc_rdata.value)

    async def point(self, address):
        await self.store(Reg.MMIO_RESP_LO, address & 0xFFFF_FFFF)
        await self.store(Reg.MMIO_RESP_HI, address >> 32)

    async def request(self, register, number):
        request = REG_BITS.MMIO_REG_READ.pack(REQ_ID=number, REG_OFF=int(register))
        await self.store(Reg.MMIO_REG_READ, request)

    def odds(self):
        found = [(beat["kind"], beat["detail"]) for beat in self.anomaly.beats]
        self.anomaly.beats.clear()
        return found


def value_of(register, profile, interface=0, progress=0, finished=0):
    """Returns the read value of a register (fact sheet, registers); `interface` is the strap, 0
    selects the version of the profile."""
    reported = list(PROFILES.values())[profile]
    if register == Reg.VERSION:
        return interface or reported.version
    if register == Reg.CONTROLLER_VERSION:
        return reported.controller_version
    if register == Reg.CAPS:
        return REG_BITS.CAPS.pack(
            CONTIGUOUS_QUEUE_REQUIRED=1, RESET_TIMEOUT=reported.reset_timeout,
            DMA_ADDR_WIDTH=reported.dma_addr_width, ADMIN_CMD_TO=reported.admin_cmd_to,
        )  # fmt: skip
    if register == Reg.DEV_STS:
        return REG_BITS.DEV_STS.pack(READY=1, RESET_IN_PROGRESS=progress, RESET_FINISHED=finished)
    return 0 if register in list(Reg) else INVALID


@cocotb.test()
@cocotb.parametrize(profile=range(len(PROFILES)))
async def reads(dut, profile):
    """host.regs.read: A load and a read-less read of every offset return the same value."""
    bench = Bench(dut, profile=profile)
    await clock_and_reset(dut)
    await bench.point(RESP)
    for number, offset in enumerate([*Reg, 0x7C, 0x100, 0x1FFC]):
        assert await bench.load(offset) == value_of(offset, profile), hex(offset)
        await bench.request(offset, number)
        beat = (await bench.wr.take())[0]
        response = defs.AdminMmioReqReadLessResp.unpack(beat["data"].to_bytes(8, "little"))
        assert beat["addr"] == RESP
        assert (response.req_id, response.reg_off) == (number, offset)
        assert response.reg_val == value_of(offset, profile), hex(offset)


@cocotb.test()
async def any_access(dut):
    """host.regs.any: Random accesses, most to registers or one address bit beside them, act as
    specified in every state."""
    bench, rng = Bench(dut), rng_for("any")
    await clock_and_reset(dut)
    end = LIMITS.msix_table_offset + 16 * int(dut.VECTORS.value)
    places = [int(reg) for reg in (*Reg, *[Reg.MMIO_REG_READ] * 9, *[Reg.MMIO_RESP_HI] * 3)]
    edges = LIMITS.msix_table_offset - 4, LIMITS.msix_table_offset, end - 4, end
    beside = [reg ^ 1 << bit for reg in Reg for bit in range(16)] + [*edges]
    beside += [edge ^ 1 << bit for edge in edges for bit in range(32)]
    beside = [(offset, write) for offset in beside for write in (0, 1)]
    rng.shuffle(beside)
    requests = [*Reg, *(reg ^ 1 << bit for reg in Reg for bit in range(16))]
    rng.shuffle(requests)
    responses, address = [], 0
    for turn in range(5000):
        profile, interface = rng.randrange(len(PROFILES)), rng.getrandbits(2)
        progress, finished = rng.getrandbits(1), rng.getrandbits(1)
        in_reset, in_flr = rng.random() < 0.2, rng.random() < 0.1
        clear = rng.random() < 0.02
        offset = rng.choice(places)
        data, write = rng.getrandbits(32), rng.random() < 0.6
        if turn % 5 < 2 and beside:
            offset, write = beside.pop()
        if offset == Reg.MMIO_REG_READ:
            number, requested = rng.getrandbits(16), rng.choice(places)
            if requests and write and not in_flr:
                requested = requests.pop()
            data = REG_BITS.MMIO_REG_READ.pack(REQ_ID=number, REG_OFF=requested)
        drive(dut, s_cfg_profile=profile, s_cfg_sampled_interface=interface,
              s_sts_progress=progress, s_sts_finished=finished, s_in_reset=in_reset,
              s_in_flr=in_flr, s_resp_clear=clear, s_acc_valid=1, s_acc_write=write,
              s_acc_offset=offset, s_acc_data=data)  # fmt: skip
        await ReadOnly()
        stored = offset in STORED
        acts = write and stored and not in_flr
        seen = write and offset < LIMITS.msix_table_offset and not in_flr and not in_reset
        assert dut.m_reg_wr_valid.value == seen
        if acts and seen:
            assert int(dut.m_reg_wr_offset.value) == offset
            assert int(dut.m_reg_wr_data.value) == data
        assert dut.m_ctl_valid.value == (acts and offset == Reg.DEV_CTL)
        assert dut.m_ctl_reset.value == data & 1
        version = interface or list(PROFILES.values())[profile].version
        assert dut.m_cfg_acq_crc.value == (version >= 2)
        ignored = write and not stored and not LIMITS.msix_table_offset <= offset < end
        assert dut.m_anomaly_valid.value == ignored
        if ignored:
            assert (int(dut.m_anomaly_kind.value), int(dut.m_anomaly_detail.value)) == (
                AnomalyHost.REGISTER,
                offset,
            )
        state = interface, progress, finished
        if acts and offset == Reg.MMIO_REG_READ:
            low = REG_BITS.MMIO_REG_READ.unpack(data)
            responses.append({"addr": address & ~7, "data": defs.AdminMmioReqReadLessResp(
                req_id=low.REQ_ID, reg_off=low.REG_OFF,
                reg_val=value_of(low.REG_OFF, profile, *state)).pack()})  # fmt: skip
        if acts and offset == Reg.MMIO_RESP_LO:
            address = address >> 32 << 32 | data
        if acts and offset == Reg.MMIO_RESP_HI:
            address = address & 0xFFFF_FFFF | data << 32
        if clear:
            address = 0
        await RisingEdge(dut.clk)
        drive(dut, s_acc_valid=0, s_acc_write=write, s_resp_clear=0)
        await ReadOnly()
        assert int(dut.m_acc_rdata.value) == value_of(offset, profile, *state), hex(offset)
        assert dut.m_reg_wr_valid.value == dut.m_anomaly_valid.value == dut.m_ctl_valid.value == 0
        await ClockCycles(dut.clk, 1 + rng.getrandbits(1))
    await ClockCycles(dut.clk, 4)
    reported = [beat | {"data": beat["data"].to_bytes(8, "little")} for beat in bench.wr.beats]
    assert reported == responses and not requests and not beside


@cocotb.test()
async def stores(dut):
    """host.regs.store: Stores to known registers are forwarded, other stores are reported; the
    MSI-X table is excluded."""
    bench = Bench(dut)
    await clock_and_reset(dut)
    for number, register in enumerate(STORED):
        if register != Reg.MMIO_REG_READ:
            await bench.store(register, number)
    await ClockCycles(dut.clk, 2)
    wanted = [(reg, n) for n, reg in enumerate(STORED) if reg != Reg.MMIO_REG_READ]
    assert [(beat["offset"], beat["data"]) for beat in bench.reg.beats] == wanted
    assert not bench.odds()
    ignored = [*READ_ONLY, 0x7C, 0x1FFC, LIMITS.msix_table_offset + 16 * int(dut.VECTORS.value)]
    for offset in ignored:
        await bench.store(offset, 1)
    await bench.store(LIMITS.msix_table_offset, 1)
    await ClockCycles(dut.clk, 2)
    assert bench.odds() == [(AnomalyHost.REGISTER, int(offset)) for offset in ignored]


@cocotb.test()
async def during_reset(dut):
    """host.regs.reset: During a reset only DEV_CTL and the read-less registers act; during an FLR
    none does."""
    bench = Bench(dut)
    await clock_and_reset(dut)
    dut.s_in_reset.value = 1
    await bench.point(RESP)
    await bench.store(Reg.AQ_CAPS, 5)
    await bench.request(Reg.VERSION, 9)
    assert (await bench.wr.take())[0]["addr"] == RESP
    assert not bench.reg.beats
    dut.s_acc_offset.value, dut.s_acc_data.value = int(Reg.DEV_CTL), 1
    dut.s_acc_valid.value = dut.s_acc_write.value = 1
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)
    assert dut.m_ctl_valid.value == 1 and dut.m_ctl_reset.value == 1
    dut.s_in_flr.value = 1
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)
    assert dut.m_ctl_valid.value == 0
    dut.s_acc_valid.value = dut.s_acc_write.value = 0
    await bench.request(Reg.VERSION, 10)
    await bench.wr.none(8)


@cocotb.test()
async def waiting_responses(dut):
    """host.regs.waiting: Read-less responses queue in order up to the limit; more requests are lost
    and reported."""
    bench = Bench(dut, stalls=1.0)
    rng = rng_for("regs")
    await clock_and_reset(dut)
    depth = timing("efa_regs", "rsp").depth
    assert depth == LIMITS.mmio_reads
    wanted = []
    for number in range(depth):
        address = rng.getrandbits(61) << 3
        await bench.point(address)
        await bench.request(Reg.VERSION, number)
        wanted.append(address)
    await bench.point(RESP)
    lost = [rng.getrandbits(32) for _ in range(20)]
    for request in lost:
        await bench.store(Reg.MMIO_REG_READ, request)
    await ClockCycles(dut.clk, 2)
    assert bench.odds() == [(AnomalyHost.READ_LOST, request) for request in lost]
    bench.wr._pause = lambda: False
    assert [beat["addr"] for beat in await bench.wr.take(depth)] == wanted
    await bench.wr.none(8)


@cocotb.test()
async def cycles(dut):
    """host.regs.cycles: A read-less response is offered in its specified time, and loads run at one
    per cycle."""
    bench, load = Bench(dut), timing("efa_regs", "load")
    await clock_and_reset(dut)
    requested = [Reg.VERSION, Reg.CAPS, 0x7C, Reg.DEV_STS] * 4
    assert load.interval == 1
    for at in range(len(requested) + load.latency):
        offset = int(requested[min(at, len(requested) - 1)])
        drive(dut, s_acc_valid=at < len(requested), s_acc_write=0, s_acc_offset=offset)
        await ReadOnly()
        if at >= load.latency:
            assert int(dut.m_acc_rdata.value) == value_of(requested[at - load.latency], 0)
        await RisingEdge(dut.clk)
    drive(dut, s_acc_valid=0)
    await bench.request(Reg.VERSION, 1)
    await rises(dut, dut.m_wr_reg_valid, timing("efa_regs", "rsp").latency)


@cocotb.test()
async def address_cancelled(dut):
    """host.regs.clear: A register reset and rst set the response address to zero."""
    bench = Bench(dut)
    await clock_and_reset(dut)
    await bench.point(RESP)
    dut.s_resp_clear.value = 1
    await RisingEdge(dut.clk)
    dut.s_resp_clear.value = 0
    await bench.request(Reg.VERSION, 1)
    assert (await bench.wr.take())[0]["addr"] == 0
    await bench.point(RESP)
    await bench.request(Reg.VERSION, 2)
    await reset(dut)
    bench.wr.beats.clear()
    await bench.wr.none(8)
    await bench.request(Reg.VERSION, 3)
    assert (await bench.wr.take())[0]["addr"] == 0
