# SPDX-License-Identifier: Apache-2.0
"""Tests efa_admin_rd_arb: several readers share one DMA client; a completion returns to its
reader."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from tb.lib.round_robin import RoundRobin
from tb.lib.stream import StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, high, until

FIELDS = ["addr", "len", "cookie"]


class Readers:
    """Models the readers with one request queue each; `gaps` is the share of cycles without a
    request."""

    def __init__(self, dut, gaps=0.0):
        self.dut, self.gaps = dut, gaps
        self.count, self.slot_w = int(dut.READERS.value), int(dut.SLOT_W.value)
        self.rng = rng_for("readers")
        self.queues = [[] for _ in range(self.count)]
        self.order = []
        self.turns = RoundRobin(self.count)
        drive(dut, s_rd_valid=0, s_rd_addr=0, s_rd_len=0, s_rd_slot=0, s_rd_cpl_valid=0,
              s_rd_cpl_cookie=0)  # fmt: skip
        cocotb.start_soon(self.run())

    def request(self):
        return (self.rng.getrandbits(64), self.rng.randrange(1, 65),
                self.rng.getrandbits(self.slot_w))  # fmt: skip

    async def run(self):
        dut, offered = self.dut, 0
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value != 0:
                offered = 0
                self.turns.reset()
                dut.s_rd_valid.value = 0
                continue
            consumed = int(dut.s_rd_ready.value) & offered
            if consumed:
                reader = self.turns.next(offered)
                assert consumed == 1 << reader, "granted out of round-robin order"
                self.order.append((reader, *self.queues[reader].pop(0)))
            offered &= ~consumed
            addr = length = slot = 0
            for reader, queue in enumerate(self.queues):
                if queue and self.rng.random() >= self.gaps:
                    offered |= 1 << reader
                if offered >> reader & 1:
                    addr |= queue[0][0] << 64 * reader
                    length |= queue[0][1] << 7 * reader
                    slot |= queue[0][2] << self.slot_w * reader
            drive(dut, s_rd_valid=offered, s_rd_addr=addr, s_rd_len=length, s_rd_slot=slot)


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0), (0.0, 0.6), (0.6, 0.0)])
async def every_request_once_and_its_answer_home(dut, pace):
    """admin.admin_rd_arb.order"""
    readers = Readers(dut, pace[0])
    sink = StreamMonitor(dut, "m_rd", pace[1], FIELDS)
    await clock_and_reset(dut)
    for queue in readers.queues:
        queue.extend(readers.request() for _ in range(40))
    beats = await sink.take(40 * readers.count)
    for (reader, addr, length, slot), beat in zip(readers.order, beats, strict=True):
        assert (beat["addr"], beat["len"]) == (addr, length)
        drive(dut, s_rd_cpl_valid=1, s_rd_cpl_cookie=beat["cookie"])
        await RisingEdge(dut.clk)
        await RisingEdge(dut.clk)
        assert int(dut.m_rd_cpl_valid.value) == 1 << reader
        assert int(dut.m_rd_cpl_slot.value) == slot
    drive(dut, s_rd_cpl_valid=0, s_rd_cpl_cookie=(1 << 32) - 1)
    await ClockCycles(dut.clk, 2)
    assert int(dut.m_rd_cpl_valid.value) == 0


@cocotb.test()
async def no_client_starves(dut):
    """admin.admin_rd_arb.fair: with requests of all readers pending, each reader is granted once
    per round."""
    readers = Readers(dut)
    sink = StreamMonitor(dut, "m_rd", 0.3, FIELDS)
    await clock_and_reset(dut)
    for queue in readers.queues:
        queue.extend(readers.request() for _ in range(20))
    await sink.take(18 * readers.count)
    turns = [reader for reader, *_ in readers.order[readers.count :]]
    for at in range(0, 15 * readers.count, readers.count):
        assert len(set(turns[at : at + readers.count])) == readers.count


@cocotb.test()
async def one_a_cycle(dut):
    """admin.admin_rd_arb.time"""
    promised = timing("efa_admin_rd_arb", "request")
    readers = Readers(dut)
    dut.m_rd_ready.value = 1
    await clock_and_reset(dut)
    readers.queues[0].extend(readers.request() for _ in range(30))
    await until(dut, lambda: int(dut.s_rd_ready.value) and int(dut.s_rd_valid.value), "a request")
    cycles = await until(dut, high(dut.m_rd_valid))
    assert cycles == promised.latency
    for _ in range(28 // promised.interval):
        assert dut.m_rd_valid.value == 1
        await RisingEdge(dut.clk)


@cocotb.test()
async def reset_clears_the_request(dut):
    """admin.admin_rd_arb.reset"""
    readers = Readers(dut)
    sink = StreamMonitor(dut, "m_rd", 1.0, FIELDS)
    await clock_and_reset(dut)
    readers.queues[1].extend(readers.request() for _ in range(3))
    await ClockCycles(dut.clk, 6)
    assert dut.m_rd_valid.value == 1 and len(readers.queues[1]) == 2, (
        "one request is accepted and pending"
    )
    dut.rst.value = 1
    await ClockCycles(dut.clk, 2)
    readers.queues[1].clear()
    await reset(dut)
    await ClockCycles(dut.clk, 3)
    assert dut.m_rd_valid.value == 0 and not sink.beats
