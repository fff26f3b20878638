# SPDX-License-Identifier: Apache-2.0
"""Tests efa_tx_alloc: ring space of messages, the reads that fill it, and stalls without free
space."""

import itertools
from collections import deque

import cocotb
from cocotb.triggers import ClockCycles

from efa_cosim.layouts.defs import INTERNAL, LIMITS, IoSendOpType
from tb.lib.dont_care import dont_care
from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import pulse, until, zero
from tb.unit.data_bench import Moments, Regions, consumed, pieces

HEADER, RDMA_HEADERS = 32, 64
WRITE = IoSendOpType.RDMA_WRITE
PACKET, DONE, BARRIER = range(3)
SLOTS, LINES = timing("efa_tx_alloc", "message").depth, timing("efa_tx_alloc", "line").depth


def sge(loc, size):
    """Packs a validated buffer."""
    return INTERNAL.sge.pack(loc=INTERNAL.mr_loc.pack(**loc), len=size)


class Bench:
    def __init__(self, dut, stalls=0.0, gaps=0.0, log=9, frees=0.0):
        self.dut, self.log, self.rng = dut, log, rng_for("tx_alloc")
        self.regions = Regions(self.rng)
        self.frees = frees
        self.wanted, self.reads = deque(), deque()
        self.held = deque()  # lines of each message that has not left
        self.slot = self.line = 0
        zero(dut, "s_mtt_valid", "s_free_slot", "s_free_lines")
        dut.s_cfg_mrrs_log.value = log
        self.source = StreamDriver(dut, "s", gaps, ["msg", "first", "second", "inline"])
        self.slots = StreamMonitor(dut, "m_slot", 0, ["index", "reads", "msg", "inline"],
                                   on_beat=self._enter)  # fmt: skip
        self.rd = StreamMonitor(dut, "m_rd", stalls, ["addr", "len", "cookie"], on_beat=self._read)

    async def start(self):
        await clock_and_reset(self.dut)
        kinds = ({}, {"phys": 1}, {"shift": 13}, {"shift": 33}, {"shift": 44})
        for index, fields in enumerate(kinds):
            self.regions.make(index, 1, 1 << 16, **fields)
        await self.regions.report_pages(self.dut)
        cocotb.start_soon(self._free())

    def message(self, *sizes, kind=PACKET, inlined=0, begin=None, op_type=IoSendOpType.SEND):
        """Posts a message that gathers these buffers and records the expected output.

        `begin` is the offset of their first bytes in a read block.
        """
        rng, parts = self.rng, []
        header = RDMA_HEADERS if op_type == WRITE else HEADER
        for size in sizes:
            region = rng.choice(list(self.regions.table.values()))
            near = rng.choice((0, 4096 - rng.randrange(70), rng.randrange(1 << 15)))
            if begin is not None:
                block = self.regions.host(self.regions.loc(region["key"], region["iova"]), 0)
                near = (begin - block) % (1 << self.log)
            parts.append((self.regions.loc(region["key"], region["iova"] + near), size))
        gathers = kind == PACKET and not inlined
        msg = INTERNAL.tx_msg.pack(**dont_care(INTERNAL.tx_msg, rng, kind=kind, inlined=inlined,
                                        length=sum(sizes), op_type=op_type))  # fmt: skip
        beat = {"msg": msg, "inline": rng.getrandbits(768)}
        for name in ("first", "second"):
            # Fields of an unused buffer are don't-care.
            none = {"len": 0} if gathers else {}
            beat[name] = INTERNAL.sge.pack(**dont_care(INTERNAL.sge, rng, **none))
        for name, (loc, size) in zip(("first", "second"), parts, strict=False):
            beat[name] = sge(loc, size)
        lines = (sum(sizes) + header + 63) // 64 if gathers else 0
        reads, at = [], 64 * self.line + header
        for place, size in parts if gathers else ():
            host = lambda byte, place=place: self.regions.host(place, byte)  # noqa: E731
            for addr, length in pieces(host, size, self.log):
                cookie = self.slot * 64 * LINES + at % (64 * LINES)
                reads.append({"addr": addr, "len": length, "cookie": cookie})
                at += length
        self.wanted.append(({"index": self.slot, "reads": len(reads), "msg": msg,
                             "inline": beat["inline"]}, lines))  # fmt: skip
        self.reads.extend(reads)
        self.slot = (self.slot + 1) % SLOTS
        self.line = (self.line + lines) % LINES
        self.source.post(beat)

    def _enter(self, beat):
        entry, lines = self.wanted.popleft()
        assert beat == entry
        self.held.append(lines)
        assert len(self.held) <= SLOTS and sum(self.held) <= LINES, "message without free space"

    def _read(self, beat):
        assert beat == self.reads.popleft()

    async def free(self):
        await pulse(self.dut, "s_free_slot", s_free_lines=self.held.popleft())
        self.dut.s_free_lines.value = self.rng.getrandbits(len(self.dut.s_free_lines))

    async def _free(self):
        while True:
            await ClockCycles(self.dut.clk, 1)
            if self.held and self.rng.random() < self.frees:
                await self.free()

    async def settle(self):
        await consumed(self.source)
        await until(self.dut, lambda: not self.wanted and not self.reads, "messages", 20000)
        await ClockCycles(self.dut.clk, 20)


def sizes(rng):
    return [rng.choice((0, 1, 63, 64, rng.randrange(700), rng.randrange(4400))) for _ in range(2)]


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0, 9, 1.0), (0.5, 0.3, 7, 0.2), (0.2, 0.0, 12, 0.05)])
async def each_byte_is_requested_once(dut, pace):
    """data.tx_alloc.reads: Each byte is requested once, over the end of slots and lines, with two,
    one or no buffers."""
    bench = Bench(dut, *pace)
    await bench.start()
    for number in range(300):
        dice = bench.rng.random()
        if dice < 0.2:
            bench.message(kind=bench.rng.choice((DONE, BARRIER)), op_type=bench.rng.getrandbits(3))
        elif dice < 0.4:
            bench.message(bench.rng.randrange(81), inlined=1, op_type=bench.rng.choice((0, WRITE)))
        elif dice < 0.6:
            # A write has its remote buffer in place of the first one.
            bench.message(0, max(1, sum(sizes(bench.rng))), op_type=WRITE)
        else:
            both = sizes(bench.rng)
            both[0] += sum(both) == 0
            bench.message(*(both if number % 3 else [sum(both)]))
    await bench.settle()


@cocotb.test()
@cocotb.parametrize(log=[7, 8, 12])
async def reads_of_every_magnitude(dut, log):
    """data.tx_alloc.magnitude: Reads of every power of two end at, before or behind the last byte
    of a line or read block."""
    bench = Bench(dut, log=log, frees=0.3)
    await bench.start()
    for bits in range(14):
        for more in (-1, 0, 1):
            bench.message(min((1 << bits) + more, LIMITS.max_mtu) or 1)
            bench.message(min(max(1, (1 << bits) - HEADER + more), 4400), 1 << min(bits, 12))
            bench.message(0, min((1 << bits) + more, 8192) or 1, op_type=WRITE)
    await bench.settle()


@cocotb.test()
@cocotb.parametrize(log=[7, 8, 9, 12])
async def reads_begin_at_the_edges_of_a_block(dut, log):
    """data.tx_alloc.edge: A buffer that begins at the first or last bytes of a read block is split
    correctly."""
    bench = Bench(dut, log=log, frees=0.3)
    await bench.start()
    block = 1 << log
    for begin in (0, 1, block - 2, block - 1):
        for size in (1, 2, 3, block - 1, block, block + 1):
            bench.message(min(size, 4300), begin=begin)
            bench.message(min(size, 4300), bench.rng.choice((1, 2)), begin=begin)
    await bench.settle()


@cocotb.test()
async def waits_for_lines(dut):
    """data.tx_alloc.lines: A message that needs more lines than are free issues no read."""
    bench = Bench(dut)
    await bench.start()
    big = (LIMITS.max_mtu + HEADER + 63) // 64
    for _ in range(LINES // big):
        bench.message(LIMITS.max_mtu)
    rest = LINES - big * (LINES // big)
    bench.message(64 * rest - HEADER + 1)
    bench.message(1)
    await ClockCycles(dut.clk, 600)
    assert len(bench.wanted) == 2 and dut.s_ready.value == 0
    await bench.free()
    await bench.settle()
    await fill_to_the_last_line(bench)


async def fill_to_the_last_line(bench):
    """Frees all messages, fills the ring exactly, and checks that one more message waits."""
    while bench.held:
        await bench.free()
    bench.message(64 * LINES // 4 - HEADER)
    for _ in range(3):
        bench.message(64 * LINES // 8 - HEADER, 64 * LINES // 8)
    await bench.settle()
    assert sum(bench.held) == LINES
    bench.message(1)
    await ClockCycles(bench.dut.clk, 20)
    assert len(bench.wanted) == 1
    await bench.free()
    await bench.settle()


@cocotb.test()
async def any_count_of_lines(dut):
    """data.tx_alloc.ring: Lines are allocated and freed in any interleaving; the free space is
    exact."""
    bench = Bench(dut)
    await bench.start()
    for frees in (0.02, 0.2, 0.05):
        bench.frees = frees
        for _ in range(60):
            first, second = sizes(bench.rng)
            bench.message(first + 1, second)
        await bench.settle()
        bench.frees = 0.0
        await ClockCycles(dut.clk, 4)
        await fill_to_the_last_line(bench)


@cocotb.test()
async def lines_of_rdma_packets(dut):
    """data.tx_alloc.rdma: An RDMA packet has a line for both headers and lines for its bytes, which
    begin in the second one; packets without RDMA in front of it and behind it are in place."""
    bench = Bench(dut)
    await bench.start()
    for size in (1, 63, 64, 65, 4096, 8191, 8192):
        for _ in range(2):
            bench.message(0, size, op_type=WRITE)
            bench.message(33)
        await bench.settle()
        wanted = 2 * (1 + (size + 63) // 64 + 2)
        assert sum(bench.held) == wanted
        while bench.held:
            await bench.free()
    # The last free line counts.
    for _ in range(4):
        bench.message(0, 64 * (LINES // 4 - 1), op_type=WRITE)
    await bench.settle()
    assert sum(bench.held) == LINES
    bench.message(0, 1, op_type=WRITE)
    await ClockCycles(dut.clk, 20)
    assert len(bench.wanted) == 1
    await bench.free()
    await bench.settle()


@cocotb.test()
async def waits_for_a_slot(dut):
    """data.tx_alloc.slots: Messages wait while all slots are in use."""
    bench = Bench(dut)
    await bench.start()
    for _ in range(SLOTS + 2):
        bench.message(kind=DONE)
    await ClockCycles(dut.clk, SLOTS + 30)
    assert len(bench.held) == SLOTS and len(bench.wanted) == 2 and dut.s_ready.value == 0
    for left in (1, 0):
        await bench.free()
        await ClockCycles(dut.clk, 4)
        assert len(bench.wanted) == left


@cocotb.test()
async def any_count_of_slots(dut):
    """data.tx_alloc.counts: Slots are allocated and freed in any interleaving; the depth is
    exact."""
    bench = Bench(dut)
    await bench.start()
    for frees in (0.6, 0.3, 0.9):
        bench.frees = frees
        for _ in range(200):
            bench.message(kind=DONE)
            if bench.rng.random() < 0.5:
                await ClockCycles(dut.clk, bench.rng.randrange(1, 4))
        await bench.settle()
        bench.frees = 0.0
        for _ in range(SLOTS + 3 - len(bench.held)):
            bench.message(kind=DONE)
        await ClockCycles(dut.clk, SLOTS + 30)
        assert len(bench.held) == SLOTS and len(bench.wanted) == 3 and dut.m_idle.value == 0
    bench.frees = 1.0
    await bench.settle()
    assert dut.m_idle.value == 1


@cocotb.test()
async def cycles(dut):
    """data.tx_alloc.time: Messages and reads meet their specified cycles."""
    bench = Bench(dut)
    await bench.start()
    moments = Moments(dut, "s", "m_slot", "m_rd")
    for _ in range(30):
        bench.message(8, inlined=1)
    await bench.settle()
    moments.hold("efa_tx_alloc", "message", "s", "m_slot")
    moments.clear()
    for index in (0, 2, 3, 4):
        del bench.regions.table[index]
    read, later = (timing("efa_tx_alloc", path) for path in ("read", "later_read"))
    for sizes in ((1,), (1, 1)):
        moments.clear()
        for _ in range(12):
            bench.message(*sizes)
        await bench.settle()
        reads = moments["m_rd"]
        assert moments.latency("s", "m_rd") == read.latency
        # The first of them is alone, and its read early.
        assert reads[-1] - moments["s"][-1] == later.latency + len(sizes) - 1
        assert {b - a for a, b in itertools.pairwise(reads[1:])} == {later.interval}
    assert moments["m_slot"][-1] - moments["m_slot"][1] == 10 * timing(
        "efa_tx_alloc", "two_buffers").interval


@cocotb.test()
async def reset_in_the_middle_of_traffic(dut):
    """data.tx_alloc.reset: A reset frees all slots and lines."""
    bench = Bench(dut, 0.6, frees=0.1)
    await bench.start()
    for turn in range(4):
        for _ in range(40):
            bench.message(bench.rng.randrange(1, 4400), sizes(bench.rng)[0])
        await ClockCycles(dut.clk, 60 + turn)
        bench.source.clear()
        bench.frees = 0.0
        await reset(dut)
        for noted in (bench.wanted, bench.reads, bench.held):
            noted.clear()
        bench.slot = bench.line = 0
        bench.frees = 0.1
        bench.message(3000, 1)
        bench.message(5)
        await bench.settle()
