# SPDX-License-Identifier: Apache-2.0
"""Tests efa_rx_scatter: every payload byte is written to its buffer, done comes with the last
beat."""

from collections import deque

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import INTERNAL, LIMITS
from tb.lib.dont_care import dont_care
from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import until, zero
from tb.unit.data_bench import Moments, Regions, consumed

HEADER, RDMA_HEADER = 32, 64


class Bench:
    def __init__(self, dut, stalls=0.0, gaps=0.0, log=9):
        self.dut, self.log, self.rng = dut, log, rng_for("rx_scatter")
        self.bytes = 64 << int(dut.LINE_W.value)
        self.store = bytearray(self.rng.randbytes(self.bytes))  # the packet buffer
        self.regions, self.memory, self.wanted = Regions(self.rng), {}, deque()
        self.line, self.at, self.ended, self.free, self.lasts = 0, 0, 0, 0, 0
        zero(dut, "s_mtt_valid", "s_win_data")
        self.node = self.rng.getrandbits(16)
        dut.s_cfg_node_id.value, dut.s_cfg_mps_log.value = self.node, log
        self.jobs = StreamDriver(dut, "s_job", gaps, ["data"])
        self.wr = StreamMonitor(dut, "m_wr", stalls, ["addr", "len", "data", "last"],
                                on_beat=self._write)  # fmt: skip

    async def start(self):
        await clock_and_reset(self.dut)
        for index, fields in enumerate(({}, {"phys": 1}, {}, {"shift": 13}, {"shift": 33})):
            self.regions.make(index, 1, 1 << 17, **fields)
        for index in self.regions.pages:
            self.regions.pages[index] |= self.rng.getrandbits(1) << 51
        await self.regions.report_pages(self.dut)
        cocotb.start_soon(self._window())

    def job(self, length, first, second=0, grh=0, node=5, begin=None):
        """Posts a packet for two buffers and records where its bytes are written."""
        rng = self.rng
        payload = rng.randbytes(length)
        for number, byte in enumerate(payload):
            self.store[(64 * self.line + HEADER + number) % self.bytes] = byte
        data = payload
        if grh:
            gid = lambda node: LIMITS.gid_prefix + node.to_bytes(2, "big")  # noqa: E731
            data = bytes(8) + gid(node) + gid(self.node) + payload
        locs, where = [], []
        for size in (first, second):
            region = rng.choice(list(self.regions.table.values()))
            # Buffers do not overlap; some begin just before the end of a page.
            at = rng.choice((0, 1, 63, 4096 - size % 4096)) if begin is None else begin
            start = (self.free + 63) // 64 * 64 + at
            self.free = (start + size) % (1 << 16)
            loc = self.regions.loc(region["key"], region["iova"] + start)
            locs.append(INTERNAL.mr_loc.pack(**loc))
            where += [self.regions.host(loc, at) for at in range(size)]
        cpl = INTERNAL.cpl.pack(**dont_care(INTERNAL.cpl, rng, src_node=node))
        self.jobs.post(
            {
                "data": INTERNAL.rx_job.pack(
                    **dont_care(
                        INTERNAL.rx_job,
                        rng,
                        packet=1,
                        write=1,
                        grh=grh,
                        rdma=0,
                        offset=0,
                        length=length,
                        line=self.line,
                        size0=first,
                        size1=second,
                        sge0_loc=locs[0],
                        sge1_loc=locs[1],
                        cpl=cpl,
                    )
                )
            }
        )
        self.wanted.append(dict(zip(where, data, strict=False)))
        assert len(where) >= len(data)
        self.line = (self.line + (length + 95) // 64) % (self.bytes // 64)

    def write(self, length, begin=None):
        """Posts an RDMA write and records where its bytes are written."""
        rng = self.rng
        payload = rng.randbytes(length)
        for number, byte in enumerate(payload):
            self.store[(64 * self.line + RDMA_HEADER + number) % self.bytes] = byte
        region = rng.choice(list(self.regions.table.values()))
        at = rng.choice((0, 1, 63, 4096 - length % 4096)) if begin is None else begin
        start = (self.free + 63) // 64 * 64 + at
        self.free = (start + length) % (1 << 16)
        # The operation begins before these bytes, in a region without translation up to 4 GB.
        offset = rng.choice((0, start, rng.randrange(start + 1)))
        first = region["iova"] + start - offset
        if region["phys"] and rng.random() < 0.5:
            more = min(region["iova"], (1 << 32) - 1 - offset)
            offset, first = offset + more, first - more
        loc = self.regions.loc(region["key"], region["iova"] + start)
        fields = dont_care(
            INTERNAL.rx_job, rng, packet=1, write=1, grh=0, rdma=1, length=length, line=self.line,
            size0=length, offset=offset,
            sge0_loc=INTERNAL.mr_loc.pack(**self.regions.loc(region["key"], first)))  # fmt: skip
        self.jobs.post({"data": INTERNAL.rx_job.pack(**fields)})
        where = [self.regions.host(loc, number) for number in range(length)]
        self.wanted.append(dict(zip(where, payload, strict=True)))
        self.line = (self.line + (length + RDMA_HEADER + 63) // 64) % (self.bytes // 64)

    def random_job(self, largest):
        rng = self.rng
        if rng.random() < 0.3:
            self.write(rng.choice((1, 32, 64, 65, 4096, rng.randrange(1, largest))))
            return
        grh = rng.getrandbits(1)
        length = rng.choice((0, 1, 32, 64, 65, rng.randrange(largest)))
        length += not (grh or length)
        need = length + 40 * grh
        first = rng.choice((0, need, min(need, 17), min(need, 40), rng.randrange(need + 1)))
        self.job(length, first, need - first + rng.choice((0, 0, 9)), grh, rng.getrandbits(16))

    async def _window(self):
        """Models the packet buffer: 64 bytes, two cycles after their position."""
        requested = "x"
        while True:
            await RisingEdge(self.dut.clk)
            if set(requested) <= {"0", "1"}:
                at = int(requested, 2)
                window = (self.store[at:] + self.store[:64])[:64]
                self.dut.s_win_data.value = int.from_bytes(window, "little")
            requested = str(self.dut.m_win_pos.value)

    def _write(self, beat):
        count = min(64, beat["len"] - self.at)
        start, end = beat["addr"], beat["addr"] + beat["len"] - 1
        assert beat["len"] and start >> self.log == end >> self.log, "a write crosses a boundary"
        assert beat["last"] == int(self.at + count == beat["len"])
        self.lasts += beat["last"]
        assert beat["data"] >> 8 * count == 0, "data behind the last byte"
        for number, byte in enumerate(beat["data"].to_bytes(64, "little")[:count]):
            assert self.wanted[0].pop(start + self.at + number, None) == byte
        self.at = 0 if beat["last"] else self.at + count
        ends = self.dut.m_done.value == 1
        assert ends == (not self.wanted[0]), "done does not match the last beat"
        if ends:
            assert beat["last"] == 1
            self.wanted.popleft()
            self.ended += 1

    async def settle(self):
        await consumed(self.jobs)
        await until(self.dut, lambda: not self.wanted, "writes", 30000)
        before = self.wr.consumed
        await ClockCycles(self.dut.clk, 15)
        assert self.wr.consumed == before and self.dut.m_done.value == 0


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0, 9), (0.6, 0.0, 7), (0.5, 0.4, 12), (0.3, 0.3, 8)])
async def every_byte_in_its_place(dut, pace):
    """data.rx_scatter.place: Payload is placed with and without GRH, with any split between the
    buffers, also empty ones."""
    bench = Bench(dut, *pace)
    await bench.start()
    for turn in range(10):
        for _ in range(4):
            bench.random_job(1500 if turn else LIMITS.max_mtu)
        await bench.settle()
    assert bench.ended == 40


@cocotb.test()
async def header_of_a_datagram_cut_anywhere(dut):
    """data.rx_scatter.grh: The 40-byte GRH ends in the first buffer, in the second buffer, or spans
    both."""
    bench = Bench(dut, 0.2)
    await bench.start()
    for first in (*range(42), 63, 64):
        for length in (0, 1, 24, 25, 100)[first % 2 :: 2]:
            bench.job(length, min(first, 40 + length), 40 + length - min(first, 40 + length), 1,
                      bench.rng.getrandbits(16))  # fmt: skip
        await bench.settle()


@cocotb.test()
async def buffers_of_every_magnitude(dut):
    """data.rx_scatter.size: Buffers of every power of two are filled to the last byte or left
    nearly empty."""
    bench = Bench(dut, 0.2, log=12)
    await bench.start()
    for bits in range(16):
        size = 1 << bits
        bench.job(min(size, 65), size)
        if size < LIMITS.max_mtu:
            bench.job(size, size)
            bench.job(size, 2 * size)
            bench.job(size + 33, size, 33, 0)
        await bench.settle()


@cocotb.test()
async def a_packet_shorter_than_its_buffers(dut):
    """data.rx_scatter.short: The rest of a buffer is unchanged, and one write covers a block."""
    bench = Bench(dut, log=12)
    await bench.start()
    rng = bench.rng
    for _ in range(12):
        for _ in range(4):
            length = rng.choice((rng.randrange(1, 4000), 1 << rng.randrange(12)))
            bench.job(length, length + rng.randrange(1, 4000))
            bench.job(length + 40, 40, length + rng.randrange(1, 4000))
        await bench.settle()
    # Within one page, a packet is one write.
    for index in (0, 2, 3, 4):
        del bench.regions.table[index]
    moments = Moments(dut, "m_done")
    region = bench.regions.table[1]
    begin = -bench.regions.host(bench.regions.loc(region["key"], region["iova"]), 0) % 4096
    for length in (1 << bit for bit in range(12)):
        for size in (length, length + length // 2):
            bench.free, lasts = 0, bench.lasts
            bench.job(size, 4096, begin=begin)
            await bench.settle()
            assert bench.lasts == lasts + 1, f"{bench.lasts - lasts} writes for {size} bytes"
    assert len(moments["m_done"]) == 24


@cocotb.test()
async def cycles(dut):
    """data.rx_scatter.time: Jobs and beats meet their specified cycles."""
    bench = Bench(dut)
    await bench.start()
    for index in (0, 2, 3, 4):
        del bench.regions.table[index]
    moments = Moments(dut, "s_job", "m_wr", "m_done")
    for _ in range(16):
        bench.free = 0
        bench.job(32, 32)
    await bench.settle()
    moments.hold("efa_rx_scatter", "job", "s_job", "m_wr")
    moments.clear()
    bench.free = 0
    bench.job(4096, 4096)
    await bench.settle()
    assert len(moments["m_wr"]) in (64, 65)
    moments.hold("efa_rx_scatter", "beat", "s_job", "m_wr")


@cocotb.test()
async def nobody_takes_writes(dut):
    """data.rx_scatter.full: A stalled write stream stalls the jobs and loses no beat."""
    held = {"on": True}
    bench = Bench(dut, lambda: held["on"])
    await bench.start()
    for _ in range(6):
        bench.job(700, 300, 400)
    await ClockCycles(dut.clk, 100)
    assert bench.wr.consumed == 0 and dut.s_job_ready.value == 0
    held["on"] = False
    await bench.settle()


@cocotb.test()
async def so_many_beats_are_on_their_way(dut):
    """data.rx_scatter.store: The specified number of beats is buffered while writes stall; behind
    them the translation and one job wait."""
    held = {"on": True}
    bench = Bench(dut, lambda: held["on"])
    await bench.start()
    for index in (0, 2, 3, 4):
        del bench.regions.table[index]
    moments = Moments(dut, "s_job")
    region = bench.regions.table[1]
    begin = -bench.regions.host(bench.regions.loc(region["key"], region["iova"]), 0) % 4096
    for _ in range(32):
        bench.free = 0
        bench.job(32, 32, begin=begin)
    await ClockCycles(dut.clk, 100)
    depth, scan = (
        timing("efa_rx_scatter", "store").depth,
        timing("efa_mr_translate", "piece").latency,
    )
    assert len(moments["s_job"]) == depth + scan + 1
    held["on"] = False
    await bench.settle()


@cocotb.test()
async def a_job_behind_a_long_one_enters_the_scan_with_its_end(dut):
    """data.rx_scatter.scan: A job behind a long one enters the address translation when the long
    job ends, since the translation pipeline stalls as a whole."""
    bench = Bench(dut)
    await bench.start()
    for index in (0, 2, 3, 4):
        del bench.regions.table[index]
    moments = Moments(dut, "m_wr")
    # One write each: the buffer begins at a page.
    region = bench.regions.table[1]
    begin = -bench.regions.host(bench.regions.loc(region["key"], region["iova"]), 0) % 4096
    bench.job(512, 512, begin=begin)
    await until(dut, lambda: moments["m_wr"], "the first beat")
    bench.free = 0
    bench.job(512, 512, begin=begin)
    await bench.settle()
    beats = moments["m_wr"]
    scan = timing("efa_mr_translate", "piece").latency
    assert beats[7] - beats[0] == 7 and beats[8] - beats[7] == scan


@cocotb.test()
async def reset_in_the_middle_of_traffic(dut):
    """data.rx_scatter.reset: A reset discards the old jobs."""
    bench = Bench(dut, 0.5)
    await bench.start()
    for turn in range(16):
        for _ in range(8):
            bench.random_job(2000)
        await ClockCycles(dut.clk, 40 + 3 * turn)
        bench.jobs.clear()
        await reset(dut, 1 + turn % 2)
        bench.wanted.clear()
        bench.at = 0
        before = bench.wr.consumed
        await ClockCycles(dut.clk, 10)
        assert bench.wr.consumed == before
        bench.job(100, 30, 110, 1)
        bench.job(5, 5)
        await bench.settle()
