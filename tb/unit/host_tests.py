# SPDX-License-Identifier: Apache-2.0
"""Tests efa_host: BARs, registers, read-less reads, resets."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import EVENTS, LIMITS, PROFILES, REG_BITS, Engine, Reg
from tb.lib.stream import reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import high, low, steady, until
from tb.unit.host_bench import (
    FINISHED,
    INIT_DONE,
    PROGRESS,
    READERS,
    RESET_BIT,
    RESP,
    HostBench,
    chunks,
    packet,
)

ALL_ONES = 0xFFFF_FFFF
TABLE = LIMITS.msix_table_offset
DB_BAR = LIMITS.db_bar


def profile_of(number):
    return list(PROFILES.values())[number]


@cocotb.test()
@cocotb.parametrize(profile=range(len(PROFILES)))
async def identity(dut, profile):
    """regs.identity: each read-only register has its value by load and by read-less read, in
    every profile."""
    bench = await HostBench(dut, profile=profile).start()
    reported = profile_of(profile)
    caps = REG_BITS.CAPS.pack(
        CONTIGUOUS_QUEUE_REQUIRED=1, RESET_TIMEOUT=reported.reset_timeout,
        DMA_ADDR_WIDTH=reported.dma_addr_width, ADMIN_CMD_TO=reported.admin_cmd_to,
    )  # fmt: skip
    expected = dict.fromkeys(range(0, 0x80, 4), ALL_ONES)
    expected |= {int(register): 0 for register in Reg}
    expected |= {
        Reg.VERSION: reported.version, Reg.CONTROLLER_VERSION: reported.controller_version,
        Reg.CAPS: caps, Reg.DEV_STS: 1, 0x2: ALL_ONES, 0x3FFC: ALL_ONES, 0x1000: ALL_ONES,
    }  # fmt: skip
    bench.set_resp()
    for offset, value in expected.items():
        assert await bench.register(offset) == value, hex(offset)
        if offset % 4 == 0:
            assert await bench.read(offset) == value, hex(offset)
    line = await bench.read(0, 64)
    for lane in range(16):
        assert line >> (32 * lane) & ALL_ONES == expected[4 * lane]
    assert await bench.read(0, 64, bar=2) == 0 and await bench.read(64, 8, bar=4) == 0


@cocotb.test()
@cocotb.parametrize(engine=[engine for engine in Engine if engine != Engine.COUNT])
async def power_on(dut, engine):
    """reset.power_on: stores wait for the initialised tables, for any initialisation time of an
    engine."""
    bench = HostBench(dut)
    dut.s_init_done.value = INIT_DONE ^ 1 << engine
    cocotb.start_soon(bench.start())
    await ClockCycles(dut.clk, 3)
    assert dut.rst.value == 1
    bench.store(Reg.INTR_MASK, 1)
    await ClockCycles(dut.clk, 4)
    await steady(dut, 300, s_mmio_ready=0, m_cfg_flr_done=0)
    assert dut.rst.value == 0
    dut.s_init_done.value = INIT_DONE
    assert (await bench.reg.take())[0] == {"offset": int(Reg.INTR_MASK), "data": 1}
    assert dut.m_cfg_flr_done.value == 1


@cocotb.test()
async def dwords(dut):
    """mmio.dwords: stores of every size act per complete dword in ascending order; other bytes
    are reported."""
    bench = await HostBench(dut).start()
    bench.store(Reg.AQ_BASE_LO, 0x2222_2222_1111_1111, 8)
    bench.store(Reg.AQ_CAPS + 1, 0xAA, 1)
    bench.store(Reg.VERSION, 5)
    values = list(range(100, 132, 2))  # DEV_CTL is included; the value starts no reset
    bench.store(0x40, sum(value << (32 * i) for i, value in enumerate(values)), 64)
    await bench.settle()
    stores = [(beat["offset"], beat["data"]) for beat in bench.reg.beats]
    expected = [(0x10, 0x1111_1111), (0x14, 0x2222_2222), (0, 5)]
    expected += [(0x40 + 4 * i, value) for i, value in enumerate(values)]
    assert stores == expected
    known = {int(register) for register in Reg} - {int(Reg.DEV_STS)}
    anomaly = [(1, int(Reg.AQ_CAPS)), (2, 0)]
    anomaly += [(2, offset) for offset in range(0x40, 0x80, 4) if offset not in known]
    # Bits of an event beyond its fields are 0.
    images = [EVENTS.anomaly_host.pack(what=what, detail=detail) for what, detail in anomaly]
    assert [beat["data"] for beat in bench.anomaly.beats] == images


@cocotb.test()
async def every_address_bit(dut):
    """mmio.address: an access with any other address bit acts neither on a register nor on the
    vector table, and is reported with its complete offset; BARs without a function have none."""
    bench, rng = await HostBench(dut).start(), rng_for("address")
    near = [TABLE // 2 + 4 * rng.randrange(TABLE // 8) for _ in range(20)]
    far = [(TABLE + 4) ^ 1 << bit for bit in range(14, 32)]
    parts = [4 * rng.getrandbits(30) for _ in range(20)]
    stores = [(offset, rng.getrandbits(32)) for offset in near]
    for offset, value in stores:
        bench.store(offset, value)
    for offset in far:
        bench.store(offset, ALL_ONES)
    for offset in parts:
        bench.store(offset + rng.randrange(4), rng.getrandbits(8), 1, rng.choice((0, DB_BAR)))
    for bar in (1, 3, 5, 6, 7):
        bench.store(Reg.INTR_MASK, 1, bar=bar)
    await bench.settle()
    assert [(beat["offset"], beat["data"]) for beat in bench.reg.beats] == stores
    assert not bench.llq.beats and not bench.db.beats
    assert bench.odds() == [(2, at) for at in (*near, *far)] + [(1, at) for at in parts]
    assert await bench.read(TABLE, 16) == 1 << 96


@cocotb.test()
async def reads_return_to_their_client(dut):
    """dma.read.client: a read completion reaches the client of its request and no other."""
    bench = await HostBench(dut).start()
    clients = [client for client in READERS if client != "sq" or int(dut.SQ_HOST.value)]
    for cookie, client in enumerate(clients):
        bench.request[client].post({"addr": 0x1000, "len": 64, "cookie": cookie})
        (request,) = await bench.rd.take()
        bench.rdcpl.post(*chunks(request["tag"], bytes(64), [64]))
        await bench.rdcpl.idle()
        await ClockCycles(dut.clk, 8)
        got = [(name, beat["cookie"]) for name, one in bench.rd_cpl.items() for beat in one.beats]
        assert got == [(client, cookie)]
        bench.rd_cpl[client].beats.clear()


@cocotb.test()
async def llq_before_doorbell(dut):
    """mmio.order: LLQ lines and doorbells keep their order at one per cycle."""
    bench = await HostBench(dut).start()
    rng = rng_for("llq")
    seen, expected = [], []
    bench.llq.on_beat = lambda beat: seen.append(("llq", beat["line"], beat["data"], beat["dwen"]))
    bench.db.on_beat = lambda beat: seen.append(("db", beat["offset"], beat["data"]))
    for _ in range(200):
        if rng.random() < 0.5:
            line, data = rng.randrange(LIMITS.llq_bytes // 64), rng.getrandbits(512)
            bench.store(64 * line, data, 64, bar=2)
            expected.append(("llq", line, data, 0xFFFF))
        else:
            offset, data = 4 * rng.randrange(1 << 30), rng.getrandbits(32)
            bench.store(offset, data, bar=DB_BAR)
            expected.append(("db", offset, data))
    await bench.mmio.idle()
    await ClockCycles(dut.clk, 5)
    assert seen == expected
    assert bench.odds() == []


@cocotb.test()
async def llq_pieces(dut):
    """mmio.llq.pieces: dword enables are correct; partial dwords are reported."""
    bench = await HostBench(dut).start()
    bench.store(64 + 8, 0x1122_3344_5566_7788, 8, bar=2)
    bench.store(128 + 6, 0xABCD_1234, 4, bar=2)
    bench.store(12, 0xEE, 1, bar=DB_BAR)
    await bench.settle()
    first, second = bench.llq.beats
    assert (first["line"], first["dwen"], first["part"]) == (1, 0b1100, 0)
    assert first["data"] >> 64 == 0x1122_3344_5566_7788
    assert (second["line"], second["dwen"], second["part"]) == (2, 0, 1)
    assert not bench.db.beats and bench.odds() == [(1, 12)]


@cocotb.test()
async def store_rate(dut):
    """mmio.rate: one line or single dword per cycle, with the latency of spec/timing.yaml."""
    bench = await HostBench(dut).start()
    for index in range(100):
        bench.store(64 * index, index, 64, bar=2)
        bench.store(8 * index, index, bar=DB_BAR)
    first, count, late = None, 0, timing("efa_mmio", "store").latency
    for cycle in range(260):
        await RisingEdge(dut.clk)
        if dut.s_mmio_valid.value == 1 and first is None:
            first = cycle
        count += int(dut.m_llq_valid.value) + int(dut.m_db_valid.value)
        if count == 1 and first is not None:
            assert cycle <= first + late, "latency"
        if count == 200:
            break
    assert count == 200 and cycle == first + late + 199


@cocotb.test()
async def posted_never_blocked(dut):
    """mmio.posted: stores are accepted within 64 cycles while loads, DMA and messages are
    stalled."""
    bench = HostBench(dut, stalls=1.0)
    await bench.start()
    bench.vector(0, 0xFEE0_0000, 1)
    bench.irq["adm"].post({"vector": 0})
    bench.set_resp()
    for number in range(12):
        bench.request_register(Reg.VERSION, number)
    for _ in range(32):
        bench.load(0, 64)
    worst, waited = 0, 0
    for _ in range(40):
        bench.store(0x40, 1, 64)
        bench.store(0, 3, 4, bar=DB_BAR)
    while bench.mmio.waiting:
        await RisingEdge(dut.clk)
        waited = waited + 1 if dut.s_mmio_ready.value == 0 else 0
        worst = max(worst, waited)
    assert 0 < worst < 64
    await bench.settle()
    assert len(bench.db.beats) == 40


@cocotb.test()
async def loads_in_order(dut):
    """mmio.loads: a load sees all earlier stores and no later store; responses keep their order."""
    bench = await HostBench(dut, stalls=0.6).start()
    rng = rng_for("loads")
    table = [0] * (4 * LIMITS.msix_vectors)
    for entry in range(LIMITS.msix_vectors):
        table[4 * entry + 3] = 1
    expected = []
    for _ in range(150):
        index = rng.randrange(len(table))
        if rng.random() < 0.5:
            value = rng.getrandbits(32)
            bench.store(TABLE + 4 * index, value)
            table[index] = value & (~3, ALL_ONES, ALL_ONES, 1)[index % 4]
        else:
            line = index & ~15
            words = (table + [ALL_ONES] * 16)[line : line + 16]
            complete = rng.random() < 0.3
            value = sum(
                word << (32 * i) for i, word in enumerate(words) if complete or line + i == index
            )
            tag = bench.load(TABLE + (4 * line if complete else 4 * index), 64 if complete else 4)
            expected.append({"tag": tag, "data": value})
    assert await bench.cpl.take(len(expected)) == expected


@cocotb.test()
async def readless_address(dut):
    """regs.readless.address: a response is written to the MMIO_RESP address valid at its
    request."""
    bench = await HostBench(dut, stalls=0.8).start()
    for seq in range(6):
        bench.set_resp(RESP + 0x1_0000_1000 * seq)
        bench.request_register(Reg.VERSION, seq)
    for seq in range(6):
        assert await bench.response(Reg.VERSION, seq, RESP + 0x1_0000_1000 * seq) == 2


@cocotb.test()
async def readless_lost(dut):
    """regs.readless.lost: pending read-less reads are bounded; an excess read is reported; the
    others complete."""
    bench = await HostBench(dut).start()
    dut.s_cfg_bme.value = 0
    bench.set_resp()
    total = LIMITS.mmio_reads + 3
    for seq in range(total):
        bench.request_register(Reg.CAPS, seq)
    await bench.settle()
    assert not bench.wr.beats
    lost = [(3, int(Reg.CAPS) << 16 | seq) for seq in range(LIMITS.mmio_reads, total)]
    assert bench.odds() == lost
    dut.s_cfg_bme.value = 1
    for seq in range(LIMITS.mmio_reads):
        await bench.response(Reg.CAPS, seq)
    await bench.wr.none(20)


async def handshake(bench):
    """Performs the driver reset: request, response address, poll, release, poll."""
    bench.store(Reg.DEV_CTL, RESET_BIT)
    bench.set_resp()
    assert await bench.register(Reg.DEV_STS, 1) & (PROGRESS | FINISHED) == PROGRESS
    bench.store(Reg.DEV_CTL, 0)
    for seq in range(2, 200):
        status = await bench.register(Reg.DEV_STS, seq)
        if not status & PROGRESS:
            return status
    raise AssertionError("the reset does not end within 200 polls")


@cocotb.test()
async def reset_handshake(dut):
    """reset.handshake: two resets complete, then AQ registers reach the engines again."""
    bench = await HostBench(dut).start()
    for _ in range(2):
        assert await handshake(bench) == 1 | FINISHED
        assert bench.taken_steps() == [0, 1, 2]
    bench.reg.beats.clear()
    bench.store(Reg.INTR_MASK, 1)
    assert (await bench.reg.take())[0]["data"] == 1


@cocotb.test()
@cocotb.parametrize(cause=["read", "packet", "net"])
async def reset_drains(dut, cause):
    """reset.drain: each of an open read, an open packet and a busy network port delays rst."""
    bench = await HostBench(dut).start()
    bench.set_resp()
    beats = packet(0x4000, bytes(range(192)))
    if cause == "read":
        bench.request["tx"].post({"addr": 0x1000, "len": 64, "cookie": 9})
        request = (await bench.rd.take())[0]
    elif cause == "packet":
        bench.put["rx"].post(*beats[:1])
        await bench.wr.take()
    else:
        dut.s_net_quiet.value = 0
    bench.store(Reg.DEV_CTL, RESET_BIT)
    bench.set_resp()
    bench.store(Reg.DEV_CTL, 0)
    await until(dut, high(dut.m_quiesce))
    bench.request["adm"].post({"addr": 0x2000, "len": 64, "cookie": 1})
    bench.put["cq"].post(*packet(0x5000, bytes(16)))
    bench.irq["adm"].post({"vector": 0})
    await steady(dut, 60, rst=0, m_quiesce=1)
    assert not bench.rd.beats and not bench.wr.beats
    if cause != "packet":
        assert await bench.register(Reg.DEV_STS) & PROGRESS
    if cause == "read":
        bench.rdcpl.post(*chunks(request["tag"], bytes(64), [64]))
    elif cause == "packet":
        bench.put["rx"].post(*beats[1:])
        await bench.wr.take(2)
    else:
        dut.s_net_quiet.value = 1
    await until(dut, high(dut.rst), cycles=40)
    assert len(bench.rd_cpl["tx"].beats) == (cause == "read")
    assert not bench.rd.beats and not bench.wr.beats
    cycles = 0
    while dut.rst.value == 1:
        cycles += 1
        await RisingEdge(dut.clk)
    assert cycles >= 4
    await until(dut, low(dut.m_quiesce))
    assert bench.taken_steps() == [0, 1, 2]


@cocotb.test()
async def stores_during_reset(dut):
    """reset.stores: during a reset only DEV_CTL, MMIO and the vector table act; MMIO_RESP starts
    at zero."""
    bench = await HostBench(dut).start()
    bench.set_resp()
    bench.vector(1, 0xFEE0_1000, 0x55)
    bench.store(Reg.DEV_CTL, RESET_BIT)
    bench.request_register(Reg.VERSION, 3)
    assert await bench.response(Reg.VERSION, 3, 0) == 2
    bench.set_resp()
    bench.reg.beats.clear()
    bench.store(Reg.INTR_MASK, 1)
    bench.store(0, 1, bar=DB_BAR)
    bench.store(0, 1, 64, bar=2)
    bench.store(Reg.DEV_CTL, RESET_BIT)
    bench.vector(2, 0xFEE0_2000, 0x66)
    await bench.settle(60)
    assert not bench.reg.beats and not bench.db.beats and not bench.llq.beats
    assert await bench.register(Reg.DEV_STS) & PROGRESS
    bench.store(Reg.DEV_CTL, 0)
    await until(dut, high(dut.m_cfg_flr_done))
    assert await bench.read(TABLE + 16, 16) == 0x55 << 64 | 0xFEE0_1000
    assert await bench.read(TABLE + 32, 16) == 0x66 << 64 | 0xFEE0_2000
    assert bench.taken_steps() == [0, 1, 2]


@cocotb.test()
async def flr(dut):
    """reset.flr: a function-level reset clears registers, pending responses and the vector
    table, and ends by itself."""
    bench = await HostBench(dut).start()
    bench.set_resp()
    bench.vector(0, 0xFEE0_0000, 0x11)
    await bench.settle()
    dut.s_cfg_bme.value = 0
    bench.request_register(Reg.VERSION, 1)
    await bench.settle()
    dut.s_cfg_flr.value = 1
    await RisingEdge(dut.clk)
    dut.s_cfg_flr.value = 0
    await ClockCycles(dut.clk, 2)
    assert dut.m_cfg_flr_done.value == 0
    bench.store(Reg.INTR_MASK, 1)
    bench.reg.beats.clear()
    await until(dut, high(dut.m_cfg_flr_done))
    dut.s_cfg_bme.value = 1
    await bench.wr.none(40)
    assert not bench.reg.beats and bench.taken_steps() == [0, 1, 2]
    assert await bench.read(TABLE, 16) == 1 << 96
    assert await bench.read(Reg.DEV_STS) == 1
    bench.request_register(Reg.VERSION, 2)
    await bench.response(Reg.VERSION, 2, 0)


@cocotb.test()
async def flr_takes_over(dut):
    """reset.flr.takeover: a function-level reset in each step of a register reset ends both
    resets."""
    bench = await HostBench(dut).start()
    for delay in range(0, 40, 3):
        bench.store(Reg.DEV_CTL, RESET_BIT)
        await bench.mmio.idle()
        await ClockCycles(dut.clk, delay)
        dut.s_cfg_flr.value = 1
        await ClockCycles(dut.clk, 3)
        await until(dut, high(dut.m_cfg_flr_done))
        dut.s_cfg_flr.value = 0
        assert await bench.read(Reg.DEV_STS) == 1, delay
        assert bench.taken_steps()[-1] == 2


@cocotb.test()
async def power_on_in_traffic(dut):
    """reset.power_on.traffic: rst_por during full traffic gives a device in its initial state."""
    bench = await HostBench(dut, stalls=0.5).start()
    bench.set_resp()
    for seq in range(5):
        bench.request_register(Reg.VERSION, seq)
        bench.load(0, 64)
    bench.put["rx"].post(*packet(0x4000, bytes(256)))
    bench.request["tx"].post({"addr": 0x1000, "len": 64, "cookie": 9})
    await ClockCycles(dut.clk, 12)
    for driver in (bench.mmio, bench.put["rx"], bench.request["tx"]):
        driver.clear()
    await reset(bench.pins)
    for monitor in (bench.wr, bench.rd, bench.cpl):
        monitor.beats.clear()
    await until(dut, high(dut.s_mmio_ready))
    await bench.wr.none(20)
    assert not bench.rd.beats and not bench.cpl.beats
    bench.set_resp()
    assert await bench.register(Reg.DEV_STS) == 1


def uptime(dut):
    """Returns the cycles since power-on; the counter starts UPTIME_LEFT before its wrap."""
    return (int(dut.m_uptime.value) + int(dut.UPTIME_LEFT.value)) % (1 << 64)


@cocotb.test()
async def interface_and_uptime(dut):
    """regs.interface: the interface version is sampled from the pins at the end of a reset, or
    taken from the profile; uptime counts from power-on."""
    bench = await HostBench(dut).start()
    for interface in (3, 0, 1, 2):
        dut.s_cfg_interface.value = interface
        await reset(bench.pins)
        assert uptime(dut) <= 2
        await until(dut, high(dut.s_mmio_ready))
        version = interface or PROFILES.default.version
        assert await bench.read(Reg.VERSION) == version
        assert dut.m_cfg_acq_crc.value == (version >= 2)
        before = uptime(dut)
        await ClockCycles(dut.clk, 70)
        assert uptime(dut) == before + 70 < 1000
