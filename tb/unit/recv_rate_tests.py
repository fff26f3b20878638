"""efa_recv at speed: receives per cycle in steady state, cycles of one packet through it all.

The host answers reads after a fixed time, one beat a cycle, takes every write and completion at
once (or gives both one place a cycle, as the device does) and posts again what was used.
"""

from collections import deque

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from tb.lib.stream import cycle

from tb.unit.recv_bench import IOVA, MR_BYTES, Bench

READ_CYCLES = 250
ENTRY_CYCLES = 3  # efa_cq: completion in to entry out
BUFFER = 4096


class Host(Bench):
    """A host that is as fast as the device lets it be; `shared` writes and entries in one stream"""

    def __init__(self, dut, shared=True, batch=8):
        super().__init__(dut)
        self.shared, self.batch = shared, batch
        self.waiting, self.beats = deque(), deque()
        self.entries = deque()
        self.counts, self.posted, self.claimed, self.dues = {}, {}, {}, deque()
        self.done, self.reads, self.first = [], 0, []

    async def queue(self, qpn, log=8, depth=None):
        """A queue with all its descriptors posted."""
        await self.qp(qpn, log=log)
        self.claimed[qpn] = 0
        for number in range(depth or 1 << log):
            self.put(qpn, IOVA + BUFFER * (number * 16 + qpn) % MR_BYTES, BUFFER, number, 1)
        await self.ring(qpn)

    def _completed(self, beat):
        super()._completed(beat)
        cpl = self.unpack_cpl(beat["data"])
        self.done.append(cycle())
        self.claimed[cpl.qpn] += 1
        if self.claimed[cpl.qpn] % self.batch == 0:
            self.rings[cpl.qpn]["produced"] += self.batch
            self.dues.append((cpl.qpn, self.rings[cpl.qpn]["produced"]))

    async def _host(self):
        dut = self.dut
        dut.rd_rq_ready.value = dut.qperr_recv_ready.value = 1
        while True:
            await RisingEdge(dut.clk)
            now = cycle()
            if dut.rd_rq_valid.value == 1:
                self.reads += 1
                self._ask(now, int(dut.rd_rq_addr.value), int(dut.rd_rq_len.value),
                          int(dut.rd_rq_cookie.value))  # fmt: skip
            assert dut.qperr_recv_valid.value == 0
            dut.rdc_rq_valid.value = 0
            if self.beats and self.beats[0][0] <= now:
                _, addr, count, offset, cookie, last = self.beats.popleft()
                data = bytes(self.memory.get(addr + n, 0) for n in range(count))
                dut.rdc_rq_valid.value, dut.rdc_err.value = 1, 0
                dut.rdc_cookie.value, dut.rdc_offset.value = cookie, offset
                dut.rdc_bytes.value, dut.rdc_last.value = count, last
                dut.rdc_data.value = int.from_bytes(data, "little")
            self._entries(now)
            dut.rqdb_valid.value = int(bool(self.dues))
            if self.dues:
                qpn, value = self.dues.popleft()
                dut.rqdb_qpn.value, dut.rqdb_value.value = qpn, value & 0xFFFF

    def _ask(self, now, addr, size, cookie):
        # The bench's doorbells at the start are awaited one by one; ring laps reuse what was put.
        at = 0
        while at < size:
            count = min(64 - (addr + at) % 64, size - at)
            self.beats.append((now + READ_CYCLES - 1, addr + at, count, at, cookie,
                               int(at + count == size)))  # fmt: skip
            at += count

    def _entries(self, now):
        """Entries go out some cycles after their completions; they and payload share a place."""
        dut = self.dut
        while self._done:
            self._done -= 1
            self.entries.append(now + ENTRY_CYCLES)
        due = bool(self.entries) and self.entries[0] <= now
        # The stream of writes serves its clients in turn.
        turn = due and not (self.shared and self.wr_pending and not self.entry_turn)
        self.entry_turn = not turn
        dut.rxdone_valid.value = int(turn)
        if turn:
            self.entries.popleft()
        self.wr_open = not (self.shared and turn)
        self.wr_pending = dut.wr_rx_valid.value == 1

    entry_turn = wr_open = True
    wr_pending = False


async def stream(dut, queues, size, count, shared=True, log=8, batch=8):
    """Receives per cycle in steady state, and the bench."""
    host = Host(dut, shared, batch)
    await host.start()
    host.wr._pause = lambda: not host.wr_open
    for qpn in queues:
        await host.queue(qpn, log)
    await ClockCycles(dut.clk, 400)
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


@cocotb.test()
async def one_queue_alone(dut):
    """recv.rate.one"""
    rate, _ = await stream(dut, [7], 64, 2000)
