# SPDX-License-Identifier: Apache-2.0
"""Models a host and the engines around efa_admin for its unit tests.

    bench = AdminBench(dut); await bench.start()
    status, response = await bench.run(AdminAllocPdCmd(), AdminAqOpcode.ALLOC_PD, AdminAllocPdResp)

The host completes reads late, in any order and in several beats. The engines respond after random
delays. `bench.reported` holds every table write and engine order of the device, in order.
"""

from types import SimpleNamespace

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge

from efa_cosim.host.page_list import mem_addr
from efa_cosim.layouts.codec import crc16
from efa_cosim.layouts.defs import (
    INTERNAL,
    REG_BITS,
    AdminAcqEntry,
    AdminAqFeatureId,
    AdminHostInfo,
    AdminSetFeatureCmd,
    Reg,
)
from tb.lib.bundles import Bundles
from tb.lib.stream import rng_for, start_clock
from tb.lib.waits import high, until

AQ, ACQ, FREE = 0x10_0000, 0x18_0000, 0x20_0000
MEMORY = 0x40_0000
BROKEN = 0x1_0000_0000  # reads from this address fail
DRAINS = ("drain_send", "drain_recv", "drain_cpl")
ENGINES = ("queue_op_send", "queue_op_recv", *DRAINS)
TABLES = {"cqc": "cqn", "eqc": "eqn", "mr": "index", "mtt": "index", "ah": "index"}


def settings(feature):
    """Returns a SET_FEATURE command for a feature; the caller fills in its values."""
    command = AdminSetFeatureCmd()
    command.feature_common.feature_id = feature
    return command


def host_info(place, length=AdminHostInfo.SIZE):
    """Returns the SET_FEATURE command that makes the device read a host info structure at
    `place`."""
    command = settings(AdminAqFeatureId.HOST_INFO)
    command.control_buffer = {"length": length, "address": mem_addr(place)}
    return command


class AdminBench:
    """Models the host, the engines and the tables around efa_admin."""
    def __init__(self, dut, profile=0, node=5, slow=True):
        self.dut = Bundles(
            dut, m_rd_adm=INTERNAL.dma_rd, m_wr_adm=INTERNAL.dma_wr, s_rd_cpl=INTERNAL.dma_rd_cpl,
            m_qpc_admin=INTERNAL.qpc_admin, s_reg_wr=INTERNAL.reg_wr, m_ec=INTERNAL.ec_cmd,
            s_aenq=INTERNAL.aenq,
        ).events("admin").tables("m_table")
        self.dut.lanes("m_queue_op", ("send", "recv"), shared=INTERNAL.queue_op)
        self.dut.lanes("m_drain", ("send", "recv", "cpl"))
        self.profile, self.node, self.slow = profile, node, slow
        self.rng = rng_for("admin")
        self.memory = bytearray(MEMORY)
        self.reported = []  # (name, key, value) of every table write, engine order and ACQ write
        self.contexts = {}
        self.irqs = []
        self.anomaly_data = []
        self.posted, self.commands = [], []  # (opcode, id) as posted and as reported by the device
        # (id, status) of ACQEs and as reported by the device.
        self.completed, self.responded = [], []
        self.events, self.counted = [], []  # reported events, orders to the event counters
        self.stats = [self.rng.getrandbits(64) for _ in range(32)]
        self.far = 0  # bits in which bus addresses differ from offsets in the memory of the bench
        self.busy, self.crc, self.wide, self.corrupt = 0, 1, 0, None
        self.wr_stalled = False
        self.tasks = []

    @property
    def anomaly(self):
        """Returns the anomaly codes of the reports."""
        return [data & 15 for data in self.anomaly_data]

    async def start(self, depth=32, vector=0, rings=True):
        dut = self.dut
        for name in (
            "s_reg_wr_valid",
            "s_rd_cpl_adm_valid",
            "m_qpc_admin_ready",
            "s_qpc_admin_rvalid",
            "s_queue_op_busy",
            "m_rd_adm_ready",
            "m_wr_adm_ready",
            "m_irq_adm_ready",
            "s_reg_wr_offset",
            "s_reg_wr_data",
            "s_rd_cpl_cookie",
            "s_rd_cpl_offset",
            "s_rd_cpl_data",
            "s_rd_cpl_bytes",
            "s_rd_cpl_last",
            "s_rd_cpl_err",
            "s_qpc_admin_rdata",
            "stat_rd_data",
            "s_cfg_keep_alive",
            "s_aenq_valid",
            "s_aenq_group",
            "s_aenq_syndrome",
            "s_aenq_data",
            "s_uptime",
        ):
            getattr(dut, name).value = 0
        for name in ENGINES:
            getattr(dut, f"m_{name}_ready").value = 0
        dut.s_cfg_profile.value = self.profile
        dut.s_cfg_node_id.value = self.node
        dut.s_cfg_acq_crc.value = self.crc
        dut.m_ec_ready.value, dut.s_ec_code.value = 0, 0
        start_clock(dut.clk)
        await self.reset()
        if rings:
            await self.rings(depth, vector)

    async def reset(self):
        for task in self.tasks:
            task.cancel()
        for name in ("s_rd_cpl_adm_valid", "m_rd_adm_ready", "m_wr_adm_ready", "m_irq_adm_ready",
                     "m_qpc_admin_ready", "s_qpc_admin_rvalid", "m_ec_ready"):  # fmt: skip
            getattr(self.dut, name).value = 0
        for name in ENGINES:
            getattr(self.dut, f"m_{name}_ready").value = 0
        self.dut.rst.value = 1
        await ClockCycles(self.dut.clk, 4)
        self.dut.rst.value = 0
        await until(self.dut, high(self.dut.m_init_done))
        self.tasks = [cocotb.start_soon(task) for task in (
            self._reads(), self._writes(), self._interrupts(), self._watch(), self._contexts(),
            self._statistics(), self._counters(),
            *(self._engine(name) for name in ENGINES))]  # fmt: skip

    async def store(self, register, value):
        self.dut.s_reg_wr_valid.value = 1
        self.dut.s_reg_wr_offset.value = int(register)
        self.dut.s_reg_wr_data.value = value
        await RisingEdge(self.dut.clk)
        self.dut.s_reg_wr_valid.value = 0

    async def place(self, low, high, place):
        """Stores the base address of a ring in its two registers."""
        await self.store(low, (place ^ self.far) & 0xFFFF_FFFF)
        await self.store(high, (place ^ self.far) >> 32)

    async def rings(self, depth, vector):
        self.depth, self.produced, self.consumed = depth, 0, 0
        self.next_id = self.rng.getrandbits(12)
        self.memory[ACQ : ACQ + 64 * depth] = bytes(64 * depth)
        await self.place(Reg.AQ_BASE_LO, Reg.AQ_BASE_HI, AQ)
        caps = REG_BITS.AQ_CAPS.pack(AQ_DEPTH=depth, AQ_ENTRY_SIZE=64 << self.wide)
        await self.store(Reg.AQ_CAPS, caps)
        await self.place(Reg.ACQ_BASE_LO, Reg.ACQ_BASE_HI, ACQ)
        caps = REG_BITS.ACQ_CAPS.pack(ACQ_DEPTH=depth, ACQ_ENTRY_SIZE=64, ACQ_MSIX_VECTOR=vector)
        await self.store(Reg.ACQ_CAPS, caps)

    def post(self, command, opcode, **flags):
        """Writes an AQE without a doorbell; returns its command id."""
        header = command.aq_common
        header.opcode = opcode
        header.command_id__command_id = self.next_id
        header.phase = 1 - (self.produced // self.depth) % 2
        for name, value in flags.items():
            setattr(header, name, value)
        size = 64 << self.wide
        place = AQ + size * (self.produced % self.depth)
        body = command.pack()
        # The device ignores the bytes behind a command.
        self.memory[place : place + size] = self.image(body + self.rng.randbytes(64 - len(body)))
        self.produced = (self.produced + 1) % 65536
        number, self.next_id = self.next_id, (self.next_id + 1) % 4096
        self.posted.append((int(opcode), number))
        return number

    def image(self, short):
        """Returns an AQE in the format of the ring: a wide AQE gets a checksum and the
        corruption of `corrupt`."""
        if not self.wide:
            return short
        wide = bytearray(short[:4] + bytes(8) + short[4:] + self.rng.randbytes(56))
        wide[7:12] = self.rng.randbytes(5)
        wide[4:6] = crc16(bytes(wide)).to_bytes(2, "little")
        if self.corrupt is not None:
            wide[self.corrupt] ^= 1
        return bytes(wide)

    async def ring(self):
        await self.store(Reg.AQ_PROD_DB, self.produced)

    async def completion(self, cycles=20000):
        """Returns the next ACQE after checks of its phase, checksum and refusal format."""
        place = ACQ + 64 * (self.consumed % self.depth)
        phase = 1 - (self.consumed // self.depth) % 2
        for _ in range(cycles):
            image = bytes(self.memory[place : place + 64])
            if image[3] & 1 == phase:
                break
            await RisingEdge(self.dut.clk)
        else:
            raise AssertionError(f"ACQE {self.consumed} is not written within {cycles} cycles")
        self.consumed = (self.consumed + 1) % 65536
        entry = AdminAcqEntry.unpack(image)
        checksum = entry.acq_common_descriptor.checksum
        sealed = crc16(image[:4] + b"\0\0" + image[6:]) if self.crc else 0
        assert checksum == sealed, "ACQE checksum is wrong"
        if entry.acq_common_descriptor.status:
            assert not any(image[8:]), "an ACQE with an error status has a non-zero body"
        header = entry.acq_common_descriptor
        self.completed.append((int(header.command_id), int(header.status)))
        return image

    async def run(self, command, opcode, response=AdminAcqEntry, **flags):
        number = self.post(command, opcode, **flags)
        await self.ring()
        image = await self.completion()
        header = AdminAcqEntry.unpack(image).acq_common_descriptor
        assert header.command_id == number
        result = response.unpack(image)
        assert response is AdminAcqEntry or not any(image[response.SIZE :]), (
            "non-zero bytes behind the response structure"
        )
        return int(header.status), result

    # The host.

    async def _reads(self):
        dut, waiting = self.dut, []
        ready = 0
        while True:
            await RisingEdge(dut.clk)
            if ready and dut.m_rd_adm_valid.value == 1:
                addr, size = int(dut.m_rd_adm_addr.value) ^ self.far, int(dut.m_rd_adm_len.value)
                assert addr < BROKEN << 1, "read address is outside the host memory"
                assert 1 <= size <= 64 and addr % 64 + size <= 64
                late = self.rng.randrange(5, 120) if self.slow else 40
                waiting.append(SimpleNamespace(addr=addr, size=size, at=0, late=late,
                                               cookie=int(dut.m_rd_adm_cookie.value)))  # fmt: skip
            ready = int(not self.slow or self.rng.random() < 0.8)
            dut.m_rd_adm_ready.value = ready
            for read in waiting:
                read.late -= 1
            due = [read for read in waiting if read.late <= 0]
            dut.s_rd_cpl_adm_valid.value = int(bool(due))
            # Completion signals are random while no beat is valid and beyond the valid bytes.
            junk = self.rng.getrandbits(512)
            dut.s_rd_cpl_data.value, dut.s_rd_cpl_cookie.value = junk, junk & 0xFFFF_FFFF
            if due:
                read = self.rng.choice(due) if self.slow else due[0]
                left = read.size - read.at
                take = self.rng.randrange(1, left + 1) if self.slow else left
                err = int(read.addr >= BROKEN)
                start = read.addr + read.at
                data = b"" if err else bytes(self.memory[start : start + take])
                dut.s_rd_cpl_cookie.value = read.cookie
                dut.s_rd_cpl_offset.value = read.at
                dut.s_rd_cpl_bytes.value = take
                known = (1 << 8 * len(data)) - 1
                dut.s_rd_cpl_data.value = int.from_bytes(data, "little") | junk & ~known
                read.at += take
                dut.s_rd_cpl_last.value = int(read.at == read.size)
                dut.s_rd_cpl_err.value = err if read.at == read.size else 0
                if read.at == read.size:
                    waiting.remove(read)

    async def _writes(self):
        dut, ready, waiting = self.dut, 0, None
        while True:
            await RisingEdge(dut.clk)
            valid, offered = dut.m_wr_adm_valid.value == 1, None
            if valid:
                offered = int(dut.m_wr_adm_addr.value), int(dut.m_wr_adm_data.value)
            assert waiting in (None, offered), "a write changes while it waits for ready"
            waiting = None if ready else offered
            if ready and valid:
                assert dut.m_wr_adm_last.value == 1 and int(dut.m_wr_adm_len.value) == 64
                place = int(dut.m_wr_adm_addr.value) ^ self.far
                assert place < MEMORY and place % 64 == 0, hex(place)
                line = int(dut.m_wr_adm_data.value)
                self.memory[place : place + 64] = line.to_bytes(64, "little")
                self.reported.append(("acq", place, None))
            ready = int(not self.wr_stalled and self.rng.random() < 0.7)
            dut.m_wr_adm_ready.value = ready

    async def _interrupts(self):
        dut, ready = self.dut, 0
        while True:
            await RisingEdge(dut.clk)
            if ready and dut.m_irq_adm_valid.value == 1:
                self.irqs.append(int(dut.m_irq_adm_vector.value))
            ready = int(self.rng.random() < 0.5)
            dut.m_irq_adm_ready.value = ready

    # The engines.

    async def _engine(self, name):
        dut = self.dut
        valid, ready = getattr(dut, f"m_{name}_valid"), getattr(dut, f"m_{name}_ready")
        while True:
            await RisingEdge(dut.clk)
            if valid.value == 1:
                await ClockCycles(dut.clk, self.rng.randrange(0, 12))
                key = value = None
                if name.startswith("queue_op"):
                    key = int(getattr(dut, f"m_{name}_qpn").value)
                    value = int(getattr(dut, f"m_{name}_kind").value)
                    assert int(getattr(dut, f"m_{name}_qpc").value) == self.contexts.get(key, 0)
                    assert int(getattr(dut, f"m_{name}_base").value) == 0, (
                        "the SQ base must be 0 because SQs are in the LLQ"
                    )
                dut.s_queue_op_busy.value = self.busy
                ready.value = 1
                await RisingEdge(dut.clk)
                assert valid.value == 1, f"{name} valid drops before ready"
                ready.value = 0
                self.reported.append((name, key, value))
                await FallingEdge(dut.clk)

    async def _contexts(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            if dut.m_qpc_admin_valid.value != 1:
                continue
            await ClockCycles(dut.clk, self.rng.randrange(0, 6))
            dut.m_qpc_admin_ready.value = 1
            await RisingEdge(dut.clk)
            dut.m_qpc_admin_ready.value = 0
            qpn = int(dut.m_qpc_admin_qpn.value)
            if dut.m_qpc_admin_write.value == 1:
                self.contexts[qpn] = int(dut.m_qpc_admin_wdata.value)
                self.reported.append(("qpc", qpn, INTERNAL.qpc.unpack(self.contexts[qpn])))
            else:
                assert dut.m_qpc_admin_lock.value == 1
                dut.s_qpc_admin_rdata.value = self.contexts.get(qpn, 0)
                dut.s_qpc_admin_rvalid.value = 1
                await RisingEdge(dut.clk)
                dut.s_qpc_admin_rvalid.value = 0
                dut.s_qpc_admin_rdata.value = (1 << INTERNAL.qpc.width) - 1

    async def _statistics(self):
        while True:
            await RisingEdge(self.dut.clk)
            if self.dut.stat_rd_addr.value.is_resolvable:
                self.dut.stat_rd_data.value = self.stats[int(self.dut.stat_rd_addr.value)]

    async def _counters(self):
        """Accepts orders to the event counters after a random delay."""
        dut, names = self.dut, ("op", "counter", "qpn", "events", "value")
        while True:
            await RisingEdge(dut.clk)
            if dut.m_ec_valid.value != 1:
                continue
            await ClockCycles(dut.clk, self.rng.randrange(0, 6))
            dut.m_ec_ready.value, dut.s_ec_code.value = 1, 0
            await RisingEdge(dut.clk)
            assert dut.m_ec_valid.value == 1, "ec valid drops before ready"
            self.counted.append(tuple(int(getattr(dut, f"m_ec_{name}").value) for name in names))
            dut.m_ec_ready.value, dut.s_ec_code.value = 0, 1
            await FallingEdge(dut.clk)

    async def _watch(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            for name, key in TABLES.items():
                if getattr(dut, name + "_valid").value == 1:
                    value = int(getattr(dut, name + "_data").value)
                    index = int(getattr(dut, f"{name}_{key}").value)
                    if name != "mtt":
                        value = getattr(
                            INTERNAL, {"mr": "mrc", "ah": "ahc"}.get(name, name)
                        ).unpack(value)
                    self.reported.append((name, index, value))
            drains = [name for name in DRAINS if getattr(dut, f"m_{name}_valid").value == 1]
            assert len(drains) < 2, f"{drains} are requested at once"
            if dut.ev_anomaly_admin_valid.value == 1:
                self.anomaly_data.append(int(dut.ev_anomaly_admin_data.value))
            if dut.ev_aqcmd_valid.value == 1:
                reported = int(dut.ev_aqcmd_data.value)
                self.commands.append((reported >> 12, reported & 0xFFF))
            if dut.ev_acq_valid.value == 1:
                reported = int(dut.ev_acq_data.value)
                self.responded.append((reported & 0xFFF, reported >> 12))
            if dut.ev_aenq_valid.value == 1:
                self.events.append(int(dut.ev_aenq_data.value))
