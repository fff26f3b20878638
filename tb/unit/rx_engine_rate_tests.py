# SPDX-License-Identifier: Apache-2.0
"""Tests the throughput of efa_rx_engine and the latency of one packet through the engine.

The host completes reads after a fixed time, one beat per cycle, and accepts every write and
completion at once. With `shared` both use one stream, as in the device. Consumed descriptors are
posted again.
"""

from collections import deque

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from tb.lib.stream import cycle
from tb.lib.timing import timing
from tb.unit.data_bench import Moments
from tb.unit.rx_engine_bench import IOVA, MR_BYTES, Bench

READ_CYCLES = 250
ENTRY_CYCLES = 3  # efa_cq: completion to CQE
BUFFER = 4096


class Host(Bench):
    """Models an ideal host; `shared` merges writes and CQEs into one stream."""

    def __init__(self, dut, shared=True, batch=8):
        super().__init__(dut)
        self.shared, self.batch = shared, batch
        self.waiting, self.beats = deque(), deque()
        self.entries = deque()
        self.claimed, self.dues = {}, deque()
        self.done, self.reads = [], 0

    async def queue(self, qpn, log=8, depth=None):
        """Creates a queue with all descriptors posted."""
        await self.qp(qpn, log=log)
        self.claimed[qpn] = 0
        for number in range(depth or 1 << log):
            self.put(qpn, IOVA + BUFFER * (number * 16 + qpn) % MR_BYTES, BUFFER, number, 1)
        await self.ring(qpn)

    def _completed(self, beat):
        super()._completed(beat)
        cpl = self.unpack_cpl(beat["data"])
        self.done.append(cycle())
        if cpl.qpn not in self.claimed:
            return
        self.claimed[cpl.qpn] += 1
        if self.claimed[cpl.qpn] % self.batch == 0:
            self.rings[cpl.qpn]["produced"] += self.batch
            self.dues.append((cpl.qpn, self.rings[cpl.qpn]["produced"]))

    async def _host(self):
        dut = self.dut
        dut.m_rd_rq_ready.value = dut.m_qperr_ready.value = 1
        while True:
            await RisingEdge(dut.clk)
            now = cycle()
            if dut.m_rd_rq_valid.value == 1:
                self.reads += 1
                self._request(now, int(dut.m_rd_rq_addr.value), int(dut.m_rd_rq_len.value),
                          int(dut.m_rd_rq_cookie.value))  # fmt: skip
            assert dut.m_qperr_valid.value == 0
            dut.s_rd_cpl_rq_valid.value = 0
            if self.beats and self.beats[0][0] <= now:
                _, addr, count, offset, cookie, last = self.beats.popleft()
                data = bytes(self.memory.get(addr + n, 0) for n in range(count))
                dut.s_rd_cpl_rq_valid.value, dut.s_rd_cpl_err.value = 1, 0
                dut.s_rd_cpl_cookie.value, dut.s_rd_cpl_offset.value = cookie, offset
                dut.s_rd_cpl_bytes.value, dut.s_rd_cpl_last.value = count, last
                dut.s_rd_cpl_data.value = int.from_bytes(data, "little")
            self._entries(now)
            dut.s_rqdb_valid.value = int(bool(self.dues))
            if self.dues:
                qpn, value = self.dues.popleft()
                dut.s_rqdb_qpn.value, dut.s_rqdb_value.value = qpn, value & 0xFFFF

    def _request(self, now, addr, size, cookie):
        at = 0
        while at < size:
            count = min(64 - (addr + at) % 64, size - at)
            self.beats.append((now + READ_CYCLES - 1, addr + at, count, at, cookie,
                               int(at + count == size)))  # fmt: skip
            at += count

    def _entries(self, now):
        """Reports CQEs some cycles after their completions; CQEs and payload share one stream."""
        dut = self.dut
        while self._done:
            self._done -= 1
            self.entries.append(now + ENTRY_CYCLES)
        due = bool(self.entries) and self.entries[0] <= now
        # The write stream grants its clients in round robin.
        turn = due and not (self.shared and self.wr_pending and not self.entry_turn)
        self.entry_turn = not turn
        dut.s_rxdone_valid.value = int(turn)
        if turn:
            self.entries.popleft()
        self.wr_open = not (self.shared and turn)
        self.wr_pending = dut.m_wr_rx_valid.value == 1

    entry_turn = wr_open = True
    wr_pending = False


async def stream(dut, queues, size, count, shared=True, log=8, batch=8):
    """Returns (receives per cycle in steady state, bench)."""
    host = Host(dut, shared, batch)
    await host.start()
    host.wr._pause = lambda: not host.wr_open
    for qpn in queues:
        await host.queue(qpn, log)
    await ClockCycles(dut.clk, 400)
    while host.beats:
        await RisingEdge(dut.clk)
    host.reads = 0
    for number in range(count):
        host.send(queues[number % len(queues)], bytes(size))
    for _ in range(count * 70):
        await RisingEdge(dut.clk)
        if len(host.done) == count:
            break
    assert len(host.done) == count, len(host.done)
    warm = count // 4
    rate = (count - warm - 1) / (host.done[-1] - host.done[warm])
    dut._log.info(f"{len(queues)} queues, {size} bytes: {rate:.3f} receives per cycle")
    return rate, host


def promised(path):
    """Returns the specified receives per cycle (spec/timing.yaml)."""
    return 1 / timing("efa_rx_engine", path).interval


@cocotb.test()
@cocotb.parametrize(queues=[16, 64])
async def small_receives_on_many_queues(dut, queues):
    """rx_engine.rate.small: 64-byte receives on many queues reach the specified rate with a read
    latency of 250 cycles."""
    rate, host = await stream(dut, list(range(queues)), 64, 2000)
    assert rate == promised("small")
    # Most reads return a whole line of descriptors.
    assert host.reads <= 2000 / 7, host.reads


@cocotb.test()
async def packets_of_one_flit(dut):
    """rx_engine.rate.flit: 32-byte receives with a separate completion stream reach one packet per
    cycle."""
    rate, _ = await stream(dut, list(range(16)), 32, 2000, shared=False)
    assert rate == promised("flit")


@cocotb.test()
async def one_queue_alone(dut):
    """rx_engine.rate.one: One queue reaches the rate that its prefetched descriptors allow at a
    read latency of 250 cycles."""
    rate, _ = await stream(dut, [7], 64, 2000)
    assert 0.97 * promised("one") <= rate <= 1.03 * promised("one"), rate


@cocotb.test()
async def large_receives(dut):
    """rx_engine.rate.large: 4096-byte receives take 64 beats and one completion each."""
    rate, _ = await stream(dut, list(range(16)), 4096, 120)
    assert rate * 65 >= 0.99, rate * 65


@cocotb.test()
async def a_queue_without_descriptors_does_not_slow_the_others(dut):
    """rx_engine.rate.others: A queue that posts late does not slow the other queues."""
    host = Host(dut)
    await host.start()
    host.wr._pause = lambda: not host.wr_open
    for qpn in range(16):
        await host.queue(qpn)
    await host.qp(20, log=8)  # posted separately
    await ClockCycles(dut.clk, 400)
    for number in range(1600):
        if number % 80 == 79:
            # Posted in the cycle of its packet: the descriptor read is still outstanding.
            host.send(20, bytes(64))
        host.send(number % 16, bytes(64))
    posted = 0
    for _ in range(20000):
        await RisingEdge(dut.clk)
        if posted < 20 and host.net.sent >= 160 * posted + 20:
            host.put(20, IOVA, BUFFER, posted, 1)
            posted += 1
            host.dues.append((20, posted))
        if len(host.done) == 1620:
            break
    assert len(host.done) == 1620
    span = host.done[1500] - host.done[100]
    assert 1400 / span >= 0.98 * promised("small"), 1400 / span


@cocotb.test()
async def one_packet_on_an_idle_device(dut):
    """rx_engine.rate.idle: One packet on an idle device meets the specified latency to payload and
    completion."""
    host = Host(dut)
    await host.start()
    await host.queue(3)
    await ClockCycles(dut.clk, 400)
    moments = Moments(dut, "s_net", "m_wr_rx", "m_cpl")
    for _ in range(3):
        moments.clear()
        host.send(3, bytes(64))
        await ClockCycles(dut.clk, 60)
        last = moments["s_net"][-1]
        assert moments["m_wr_rx"][0] - last == timing("efa_rx_engine", "write").latency
        assert moments["m_cpl"][0] - last == timing("efa_rx_engine", "completion").latency
