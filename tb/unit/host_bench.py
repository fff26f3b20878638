# SPDX-License-Identifier: Apache-2.0
"""Shares the agents of the host-side unit tests: both ends of the bus and the engine ports."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import EVENTS, INTERNAL, LIMITS, Engine, Reg
from tb.lib.bundles import Bundles
from tb.lib.stream import Ports, StreamDriver, StreamMonitor, clock_and_reset
from tb.lib.waits import high, until

LINE = 64
INIT_DONE = (1 << Engine.COUNT) - 1  # of every engine
READERS = ("adm", "rq", "tx", "sq")
RESP = 0x1_2345_6780
RESET_BIT = 1
PROGRESS, FINISHED = 1 << 3, 1 << 4


class HostBench:
    """Connects agents to every stream of efa_host; the engines are initialised and idle."""

    def __init__(self, dut, gaps=0.0, stalls=0.0, profile=0):
        self.dut = dut = Bundles(
            dut, m_rd_cpl=INTERNAL.dma_rd_cpl, m_reg_wr=INTERNAL.reg_wr, m_llq=INTERNAL.llq,
            m_db=INTERNAL.db,
        )
        dut.lanes("s_rd", READERS, INTERNAL.dma_rd)
        dut.lanes("m_rd_cpl", READERS, valid_only=True)
        dut.lanes("s_wr", ("adm", "rx", "cq", "eq"), INTERNAL.dma_wr)
        dut.lanes("s_irq", ("adm", "eq"), vector=8)
        dut.events("host")
        self.pins = pins = Ports(dut, rst="rst_por")
        self.tag = 0
        self.fields("s_cfg", bme=1, flr=0, mps=2, mrrs=2, msix_enable=1, msix_fmask=0)
        dut.s_cfg_profile.value = profile
        dut.s_cfg_interface.value = dut.s_cfg_moderation.value = 0
        dut.s_net_quiet.value = 1
        dut.s_init_done.value = INIT_DONE
        self.mmio = StreamDriver(
            pins, "s_mmio", fields=["write", "bar", "addr", "be", "data", "tag"]
        )
        self.cpl = StreamMonitor(pins, "m_mmio_cpl", stalls)
        self.rd = StreamMonitor(pins, "m_dma_rd", stalls)
        self.rdcpl = StreamDriver(pins, "s_dma_rd_cpl", gaps)
        self.wr = StreamMonitor(pins, "m_dma_wr", stalls)
        self.request = {c: StreamDriver(pins, f"s_rd_{c}", gaps) for c in READERS}
        shared = ["cookie", "offset", "data", "bytes", "last", "err"]
        self.rd_cpl = {
            c: Beats(pins, f"m_rd_cpl_{c}_valid", "m_rd_cpl", shared) for c in READERS
        }
        self.put = {c: StreamDriver(pins, f"s_wr_{c}", gaps) for c in ("adm", "rx", "cq", "eq")}
        self.irq = {c: StreamDriver(pins, f"s_irq_{c}", gaps) for c in ("adm", "eq")}
        self.llq = StreamMonitor(pins, "m_llq")
        self.db = StreamMonitor(pins, "m_db")
        self.reg = StreamMonitor(pins, "m_reg_wr")
        self.anomaly = StreamMonitor(pins, "ev_anomaly_host")
        self.steps = StreamMonitor(pins, "ev_reset")

    def fields(self, prefix, **values):
        for name, value in values.items():
            getattr(self.dut, f"{prefix}_{name}").value = value

    async def start(self):
        await clock_and_reset(self.pins)
        await until(self.dut, high(self.dut.s_mmio_ready))
        return self

    # Host stores and loads; offsets may be anywhere in a line.
    def line(self, write, bar, offset, size, value, tag=0):
        lane = offset % LINE
        return {
            "write": write, "bar": bar, "addr": offset - lane, "be": ((1 << size) - 1) << lane,
            "data": value << (8 * lane), "tag": tag,
        }  # fmt: skip

    def store(self, offset, value, size=4, bar=0):
        self.mmio.post(self.line(1, bar, offset, size, value))

    def load(self, offset, size=4, bar=0):
        self.tag = (self.tag + 1) % 256
        self.mmio.post(self.line(0, bar, offset, size, 0, self.tag))
        return self.tag

    async def read(self, offset, size=4, bar=0):
        tag = self.load(offset, size, bar)
        beat = (await self.cpl.take())[0]
        assert beat["tag"] == tag
        lane = offset % LINE
        requested = ((1 << (8 * size)) - 1) << (8 * lane)
        assert beat["data"] & ~requested == 0, "data in lanes that were not requested"
        return beat["data"] >> (8 * lane)

    def request_register(self, offset, seq):
        self.store(Reg.MMIO_REG_READ, offset << 16 | seq)

    async def response(self, offset, seq, addr=RESP):
        beat = (await self.wr.take())[0]
        assert (beat["addr"], beat["len"], beat["last"]) == (addr, 8, 1), beat
        assert beat["data"] & 0xFFFF_FFFF == offset << 16 | seq, beat
        return beat["data"] >> 32

    async def register(self, offset, seq=7):
        self.request_register(offset, seq)
        return await self.response(offset, seq)

    def set_resp(self, addr=RESP):
        self.store(Reg.MMIO_RESP_HI, addr >> 32)
        self.store(Reg.MMIO_RESP_LO, addr & 0xFFFF_FFFF)

    def vector(self, number, addr, data, mask=0):
        entry = LIMITS.msix_table_offset + 16 * number
        for index, value in enumerate((addr & 0xFFFF_FFFF, addr >> 32, data, mask)):
            self.store(entry + 4 * index, value)

    async def settle(self, cycles=30):
        await self.mmio.idle()
        await ClockCycles(self.dut.clk, cycles)

    def odds(self):
        events = [EVENTS.anomaly_host.unpack(beat["data"]) for beat in self.anomaly.beats]
        self.anomaly.beats.clear()
        return [(event.what, event.detail) for event in events]

    def taken_steps(self):
        found = [beat["data"] for beat in self.steps.beats]
        self.steps.beats.clear()
        return found


class Beats:
    """Records beats without ready whose payload is shared by several valids."""

    def __init__(self, dut, valid, prefix, fields):
        self.beats = []
        self._task = cocotb.start_soon(self._watch(dut, valid, prefix, fields))

    async def _watch(self, dut, valid, prefix, fields):
        signals = {name: getattr(dut, f"{prefix}_{name}") for name in fields}
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value == 0 and getattr(dut, valid).value == 1:
                beat = {}
                for name, signal in signals.items():
                    known = signal.value.is_resolvable or name == "data"
                    assert known, f"{prefix}_{name} is unknown"
                    beat[name] = int(signal.value) if signal.value.is_resolvable else None
                self.beats.append(beat)


def packet(addr, payload, fields=None):
    """Returns the beats of a host write."""
    beats = []
    for at in range(0, len(payload), LINE):
        part = payload[at : at + LINE]
        beats.append({
            "addr": addr, "len": len(payload), "data": int.from_bytes(part, "little"),
            "last": int(at + LINE >= len(payload)), **(fields or {}),
        })  # fmt: skip
    return beats


def chunks(tag, payload, sizes):
    """Returns the completion beats of a read, split into `sizes`."""
    beats, at = [], 0
    for size in sizes:
        part = payload[at : at + size]
        at += size
        beats.append({
            "tag": tag, "data": int.from_bytes(part, "little"), "bytes": len(part),
            "last": int(at >= len(payload)), "err": 0,
        })  # fmt: skip
    assert at >= len(payload)
    return beats
