# SPDX-License-Identifier: Apache-2.0
"""Tests efa_rx_retire: completion after payload, acknowledgement after both; read responses after
their payload; drains and statistics."""

from collections import deque

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import EVENTS, INTERNAL, IoCompStatus
from tb.lib.dont_care import dont_care
from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, high, pulse, steady, until, zero
from tb.unit.data_bench import Moments, consumed

OK = IoCompStatus.OK


class Bench:
    """Posts jobs; `written` and `s_done_entry` follow as from the write and completion paths."""

    def __init__(self, dut, stalls=0.0, gaps=0.0, rate=1.0):
        self.dut, self.rng, self.rate = dut, rng_for("rx_retire"), rate
        # Jobs whose payload may be written while they are still queued.
        self.most_ahead = 1 << int(dut.JOBS_LOG2.value)
        zero(dut, "s_written", "s_done_entry", "s_stored", "s_released", "s_flushed", "s_drain",
             "s_fetches_drained", "s_request_waits", "s_drops")  # fmt: skip
        self.jobs = StreamDriver(dut, "s_job", gaps, ["data"])
        self.rxc = StreamMonitor(dut, "m_rxc", stalls, ["data"], on_beat=self._completion)
        self.ack_tx = StreamMonitor(dut, "m_ack_tx", stalls, ["data"], on_beat=self._ack)
        self.free = StreamMonitor(dut, "m_free", 0, ["slot"])
        self.done = StreamMonitor(dut, "m_done", 0, ["qpn", "count"])
        self.stat = StreamMonitor(dut, "st_rx", 0, ["bytes"])
        self.written_stat = StreamMonitor(dut, "st_write", 0, ["bytes"])
        self.placed_stat = StreamMonitor(dut, "st_placed", 0, ["bytes"])
        self.placed = StreamMonitor(dut, "m_placed", stalls, ["data"], on_beat=self._placed)
        self.event = StreamMonitor(dut, "ev_rx_data_done", 0, ["data"])
        self.cancel()

    def cancel(self):
        self.cpls, self.acks, self.frees, self.dones, self.stats = deque(), deque(), [], [], []
        self.events, self.posted, self.number, self.write_stats = [], [], 0, []
        self.reads, self.placed_stats = deque(), []
        self.writes = self.to_write = self.written = self.ended = self.entries = self.owed = 0
        self.reports, self.held, self.freed = True, False, 0
        for monitor in (self.free, self.done, self.stat, self.written_stat, self.placed_stat,
                        self.placed, self.event, self.rxc, self.ack_tx):  # fmt: skip
            monitor.beats.clear()

    async def start(self):
        await clock_and_reset(self.dut)
        cocotb.start_soon(self._paths())

    def job(self, **fields):
        rng = self.rng
        qpn, number = rng.getrandbits(12), self.number
        self.number = (number + 1) & 0xFFFF
        status = fields.pop("status", OK)
        cpl = INTERNAL.cpl.pack(
            **dont_care(INTERNAL.cpl, rng, qpn=qpn, req_id=number, status=status)
        )
        outcome = fields.pop("outcome", OK)
        ack_tx = INTERNAL.ack_tx.pack(
            **dont_care(INTERNAL.ack_tx, rng, dst_qpn=number, status=outcome))  # fmt: skip
        fields = {"packet": 1, "slot": rng.getrandbits(8), "write": 0, "complete": 0, "ack": 0,
                  "rdma": 0, "read": 0, "drop": 0,
                  "placed": rng.getrandbits(INTERNAL.read_placed.width),
                  "length": rng.randrange(8929), "count": rng.randrange(1, 3),
                  **fields}  # fmt: skip
        self.jobs.post({"data": INTERNAL.rx_job.pack(cpl=cpl, ack_tx=ack_tx, **fields)})
        self.writes += fields["write"]
        self.to_write += fields["write"]
        completes = sum(c[0] is not None for c in self.posted) + fields["complete"]
        self.posted.append((cpl if fields["complete"] else None,))
        if fields["complete"]:
            self.cpls.append((cpl, self.writes))
            self.dones.append({"qpn": qpn, "count": fields["count"]})
            if status == OK and not fields["rdma"]:
                self.stats.append({"bytes": fields["length"]})
        request = (fields["packet"] and fields["ack"] and outcome == OK
                   and not (fields["complete"] or fields["read"] or fields["drop"]))
        if fields["rdma"] or request or (fields["complete"] and status == OK):
            self.events.append((qpn, number))
        if fields["ack"]:
            self.acks.append((ack_tx, completes if fields["complete"] else 0, self.writes))
        if fields["read"]:
            self.reads.append((fields["placed"], self.writes))
            if fields["rdma"]:
                self.placed_stats.append({"bytes": fields["length"]})
        elif fields["rdma"]:
            self.write_stats.append({"bytes": fields["length"]})
        if fields["packet"]:
            self.frees.append({"slot": fields["slot"]})

    def random_job(self):
        rng = self.rng
        if rng.random() < 0.2:
            self.job(packet=0, complete=1, length=0, status=IoCompStatus.FLUSHED)
        elif rng.random() < 0.3:
            # An RDMA write completes a receive only with an immediate, and perhaps without a WQE.
            self.job(rdma=1, write=rng.getrandbits(1), complete=rng.getrandbits(1), ack=1,
                     count=rng.randrange(3))  # fmt: skip
        elif rng.random() < 0.3:
            # A read response without rdma ends its read: no byte is placed.
            placed = rng.getrandbits(1)
            self.job(read=1, rdma=placed, write=placed & rng.getrandbits(1), ack=1)
        else:
            complete = int(rng.random() < 0.7)
            # Without a completion: a refused packet, a dropped one, or a read request.
            self.job(write=rng.getrandbits(1), complete=complete, ack=rng.getrandbits(1),
                     drop=rng.getrandbits(1) & (1 - complete),
                     outcome=OK if rng.random() < 0.5 else 1 << rng.randrange(8),
                     status=OK if rng.random() < 0.5 else 1 << rng.randrange(8))  # fmt: skip

    def _completion(self, beat):
        cpl, writes = self.cpls.popleft()
        assert beat["data"] == cpl
        assert self.written >= writes, "a completion before its payload"
        self.owed += 1

    def _placed(self, beat):
        placed, writes = self.reads.popleft()
        assert beat["data"] == placed
        assert self.written >= writes, "a read response is placed before its payload"

    def _ack(self, beat):
        ack_tx, entries, writes = self.acks.popleft()
        assert beat["data"] == ack_tx
        assert self.entries >= entries, "an acknowledgement before the CQE"
        assert self.written >= writes, "an acknowledgement before the payload"

    async def _paths(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value == 1:
                dut.s_written.value = dut.s_done_entry.value = dut.s_released.value = 0
                continue
            # The packet buffer releases at once unless an older packet is held.
            self.freed += int(dut.m_free_valid.value == 1)
            release = self.freed > 0 and not self.held
            self.freed -= release
            dut.s_released.value = int(release)
            # Inputs driven in the previous cycle have been sampled.
            self.written += int(dut.s_written.value)
            self.entries += int(dut.s_done_entry.value)
            if dut.s_job_valid.value == 1 and dut.s_job_ready.value == 1:
                self.ended += INTERNAL.rx_job.unpack(int(dut.s_job_data.value)).write
            ahead = self.writes - self.to_write - self.ended
            write = self.to_write and ahead < self.most_ahead and self.rng.random() < self.rate
            self.to_write -= int(bool(write))
            dut.s_written.value = int(bool(write))
            entry = self.owed and self.reports and self.rng.random() < self.rate
            self.owed -= int(bool(entry))
            dut.s_done_entry.value = int(bool(entry))

    async def drain(self, cycles=1 << 20):
        """Holds a drain until everything now inside has left."""
        self.dut.s_drain.value = 1
        await RisingEdge(self.dut.clk)
        await until(self.dut, high(self.dut.m_drained), cycles=cycles)
        self.dut.s_drain.value = 0
        await RisingEdge(self.dut.clk)
        assert self.dut.m_drained.value == 0, "drained for more than one cycle"

    async def settle(self):
        await consumed(self.jobs)
        await until(self.dut, lambda: not (self.cpls or self.acks or self.reads),
                    "completions, acks, read responses", 20000)  # fmt: skip
        await ClockCycles(self.dut.clk, 15)
        assert list(self.free.beats) == self.frees
        assert list(self.done.beats) == self.dones
        assert list(self.stat.beats) == self.stats
        assert list(self.written_stat.beats) == self.write_stats
        assert list(self.placed_stat.beats) == self.placed_stats
        reported = [EVENTS.rx_data_done.unpack(beat["data"]) for beat in self.event.beats]
        assert [(event.qpn, event.req_id) for event in reported] == self.events


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0, 1.0), (0.5, 0.0, 0.5), (0.0, 0.4, 0.2), (0.3, 0.3, 0.6)])
async def jobs_end_in_order(dut, pace):
    """data.rx_retire.order: No completion precedes its payload, no acknowledgement its CQE."""
    bench = Bench(dut, *pace)
    await bench.start()
    for _ in range(200):
        bench.random_job()
    await bench.settle()


@cocotb.test()
async def a_drain_waits_at_any_count(dut):
    """data.rx_retire.counts: At any value of the packet and flush counts a drain waits for the
    items inside and no others."""
    gates = {"s_stored": "s_released", "s_flushed": "s_job_valid"}
    zero(dut, "s_written", "s_done_entry", "s_drain", "s_drops", "m_rxc_ready", "m_ack_tx_ready")
    zero(dut, "s_request_waits", *gates, *gates.values())
    dut.s_fetches_drained.value = 1
    dut.s_job_data.value = INTERNAL.rx_job.pack(packet=0)
    await clock_and_reset(dut)

    async def move(cycles, *names):
        for level in (1, 0):
            for name in names:
                getattr(dut, name).value = level
            if level:
                # All inputs are constant: only time advances.
                await ClockCycles(dut.clk, cycles)
        await RisingEdge(dut.clk)

    for _ in range(24):
        await move(2900, *gates, *gates.values())
        for entry, end in gates.items():
            await move(2, entry)
            dut.s_drain.value = 1
            for _ in range(2):
                for _ in range(4):
                    await RisingEdge(dut.clk)
                    assert dut.m_drained.value == 0
                await move(1, end)
            await until(dut, high(dut.m_drained), "the drain", 4)
            dut.s_drain.value = 0
            await ClockCycles(dut.clk, 2)


@cocotb.test()
async def completions_are_late(dut):
    """data.rx_retire.depth: Acknowledgements wait for their CQEs, up to the specified depth."""
    bench = Bench(dut)
    await bench.start()
    bench.reports = False
    depth = timing("efa_rx_retire", "acknowledgement").depth
    # A job with neither completion nor acknowledgement waits for none.
    bench.job(complete=1, ack=1)
    for _ in range(2 * depth):
        bench.job()
    await until(dut, lambda: bench.jobs.sent == 1 + 2 * depth, "jobs", 4 * depth)
    bench.reports = True
    await bench.settle()
    bench.reports, before = False, (bench.jobs.sent, bench.ack_tx.consumed)
    for _ in range(depth + 4):
        bench.job(complete=1, ack=1)
    await ClockCycles(dut.clk, depth + 30)
    assert (bench.jobs.sent, bench.ack_tx.consumed) == (before[0] + depth, before[1])
    assert dut.s_job_ready.value == 0
    bench.reports = True
    await bench.settle()


@cocotb.test()
async def the_data_of_a_whole_line_is_out(dut):
    """data.rx_retire.ahead: A stalled completion stays valid while the payload of all queued jobs
    is written."""
    bench = Bench(dut)
    await bench.start()
    stopped = True
    bench.rxc._pause = lambda: stopped
    for _ in range(3):
        stopped = True
        before = bench.rxc.consumed
        for _ in range(bench.most_ahead):
            bench.job(write=1, complete=1, ack=1)
        await until(dut, lambda: not bench.to_write, "the data of all jobs")
        await steady(dut, 4, m_rxc_valid=1)
        assert bench.rxc.consumed == before
        stopped = False
        await bench.settle()
        assert bench.rxc.consumed == before + bench.most_ahead


@cocotb.test()
async def a_drain_waits_for_each_power_of_two(dut):
    """data.rx_retire.powers: Each bit of both counts holds back a drain until the last one has
    left."""
    entries = {"s_stored": "s_released", "s_flushed": "s_job_valid"}
    zero(dut, "s_written", "s_done_entry", "s_drain", "s_drops", "m_rxc_ready", "m_ack_tx_ready")
    zero(dut, "s_request_waits", *entries, *entries.values())
    dut.s_job_data.value = INTERNAL.rx_job.pack(packet=0)
    dut.s_fetches_drained.value = 1
    await clock_and_reset(dut)
    for entry, leaves in entries.items():
        for inside in (1 << bit for bit in range(15)):
            drive(dut, **{entry: 1})
            await ClockCycles(dut.clk, inside)
            zero(dut, entry)
            await RisingEdge(dut.clk)
            dut.s_drain.value = 1
            await ClockCycles(dut.clk, 2)
            await steady(dut, 3, m_drained=0)
            drive(dut, **{leaves: 1})
            await ClockCycles(dut.clk, inside - 1)
            zero(dut, leaves)
            await RisingEdge(dut.clk)
            await steady(dut, 3, m_drained=0)
            await pulse(dut, leaves)
            await until(dut, high(dut.m_drained), "the last one", 3)
            dut.s_drain.value = 0
            await reset(dut, 1)


@cocotb.test()
async def all_entries_come_before_the_first_acknowledgement_leaves(dut):
    """data.rx_retire.full: A stalled acknowledgement stays valid while the CQEs of all jobs
    complete."""
    bench = Bench(dut)
    await bench.start()
    stopped = True
    bench.ack_tx._pause = lambda: stopped
    depth = timing("efa_rx_retire", "acknowledgement").depth
    for _ in range(depth):
        bench.job(complete=1, ack=1)
    await until(dut, lambda: bench.entries == depth, f"the CQEs of {depth} jobs", 2000)
    await ClockCycles(dut.clk, 4)
    assert bench.ack_tx.consumed == 0 and dut.m_ack_tx_valid.value == 1
    stopped = False
    await bench.settle()
    assert bench.ack_tx.consumed == depth


@cocotb.test()
async def a_stalled_acknowledgement_port_holds_back_acknowledgements_only(dut):
    """data.rx_retire.no_ack: Jobs without an acknowledgement retire while that port is stalled."""
    bench = Bench(dut)
    await bench.start()
    stopped = True
    bench.ack_tx._pause = lambda: stopped
    for _ in range(3 * timing("efa_rx_retire", "acknowledgement").depth):
        bench.job(complete=1)
    await bench.settle()
    stopped = False
    bench.job(complete=1, ack=1)
    await bench.settle()


@cocotb.test()
async def drain_waits_for_what_is_inside(dut):
    """data.rx_retire.drain: A drain waits for packets and flushed WQEs inside, and not for later
    ones."""
    bench = Bench(dut)
    await bench.start()
    for packets, flushed, fetches in ((0, 0, 0), (3, 0, 0), (0, 2, 0), (3, 2, 1)):
        for _ in range(packets):
            await pulse(dut, "s_stored")
        for _ in range(flushed):
            await pulse(dut, "s_flushed")
        dut.s_fetches_drained.value = int(not fetches)
        drain = cocotb.start_soon(bench.drain())
        await ClockCycles(dut.clk, 2)
        # Later items are not waited for, and leave after the earlier ones.
        for _ in range(4):
            await pulse(dut, "s_stored")
            await pulse(dut, "s_flushed")
        for left in range(packets + flushed, 0, -1):
            assert not drain.done(), f"{left} items still inside"
            packet = left > flushed
            bench.job(packet=int(packet), complete=int(not packet), length=0)
            await bench.settle()
        if fetches:
            # More items than were inside have left by the time the reads complete.
            bench.job(packet=1)
            bench.job(packet=0, complete=1)
            await bench.settle()
            assert not drain.done()
            dut.s_fetches_drained.value = 1
        await ClockCycles(dut.clk, 6)
        assert drain.done(), "never drained"
        for _ in range(4 - fetches):
            bench.job(packet=1)
            bench.job(packet=0, complete=1)
        await bench.settle()
        assert dut.m_drained.value == 0


@cocotb.test()
async def drain_waits_for_a_read_request(dut):
    """data.rx_retire.request: A drain waits until no accepted read request waits to leave; its
    packet may have left before."""
    bench = Bench(dut)
    await bench.start()
    dut.s_fetches_drained.value = 1
    for packets in (0, 1, 3):
        for _ in range(packets):
            await pulse(dut, "s_stored")
        dut.s_request_waits.value = 1
        drain = cocotb.start_soon(bench.drain())
        await ClockCycles(dut.clk, 2)
        for _ in range(packets):
            bench.job()
        await bench.settle()
        assert not drain.done(), f"drained with a read request, {packets} packets"
        dut.s_request_waits.value = 0
        await ClockCycles(dut.clk, 6)
        assert drain.done(), "never drained"


@cocotb.test()
async def drain_waits_for_a_packet_that_others_passed(dut):
    """data.rx_retire.passed: A drain waits for a packet that a later packet overtook."""
    bench = Bench(dut)
    await bench.start()
    dut.s_fetches_drained.value = 1
    await pulse(dut, "s_stored")
    drain = cocotb.start_soon(bench.drain())
    await ClockCycles(dut.clk, 3)
    await pulse(dut, "s_stored")
    # The later packet ends; the older packet still precedes it in the packet buffer.
    bench.held = True
    bench.job()
    await bench.settle()
    await ClockCycles(dut.clk, 20)
    assert not drain.done()
    bench.job()
    bench.held = False
    await bench.settle()
    await ClockCycles(dut.clk, 6)
    assert drain.done(), "never drained"


@cocotb.test()
async def drain_past_the_wrap_of_its_counts(dut):
    """data.rx_retire.wrap: After a wrap of the counts a drain still waits for the packets
    inside."""
    bench = Bench(dut)
    await bench.start()
    bench.free._task.cancel()
    dut.s_job_data.value = INTERNAL.rx_job.pack(packet=1)
    dut.s_job_valid.value = dut.s_stored.value = 1
    await ClockCycles(dut.clk, (1 << 16) - 2)
    dut.s_job_valid.value = 0
    await ClockCycles(dut.clk, 4)
    dut.s_stored.value = 0
    await RisingEdge(dut.clk)
    # Four packets are inside, on both sides of the wrap.
    dut.s_fetches_drained.value = 1
    drain = cocotb.start_soon(bench.drain())
    await ClockCycles(dut.clk, 5)
    dut.s_job_valid.value = 1
    for _ in range(4):
        assert not drain.done()
        await RisingEdge(dut.clk)
    dut.s_job_valid.value = 0
    await ClockCycles(dut.clk, 4)
    assert drain.done()


@cocotb.test()
async def each_drop_counts(dut):
    """data.rx_retire.drops: Every drop is counted, also when malformed and refused packets end in
    the same cycle."""
    bench = Bench(dut)
    await bench.start()
    seen = Moments(dut, "st_drop_valid")
    # All stored packets may be refused while malformed packets arrive.
    for many in (40, 96, 190):
        seen.clear()
        dropped = 0
        for drops in [3] * many + [bench.rng.randrange(4) for _ in range(50)]:
            dut.s_drops.value = drops
            dropped += drops.bit_count()
            await RisingEdge(dut.clk)
        dut.s_drops.value = 0
        await ClockCycles(dut.clk, 300)
        assert len(seen["st_drop_valid"]) == dropped
    for cycles_of_two in range(1, 20):
        seen.clear()
        dut.s_drops.value = 3
        await ClockCycles(dut.clk, cycles_of_two)
        dut.s_drops.value = 0
        await ClockCycles(dut.clk, 2 * cycles_of_two + 4)
        assert len(seen["st_drop_valid"]) == 2 * cycles_of_two


@cocotb.test()
async def cycles(dut):
    """data.rx_retire.time: Jobs, acknowledgements and CQEs meet their specified cycles."""
    bench = Bench(dut)
    await bench.start()
    moments = Moments(dut, "s_job", "m_rxc", "s_done_entry", "m_ack_tx")
    for _ in range(20):
        bench.job(complete=1)
    await bench.settle()
    moments.hold("efa_rx_retire", "job", "s_job", "m_rxc")
    bench.cancel()
    moments.clear()
    for _ in range(20):
        bench.job(ack=1)
    await bench.settle()
    moments.hold("efa_rx_retire", "acknowledgement", "s_job", "m_ack_tx")
    bench.cancel()
    moments.clear()
    bench.job(complete=1, ack=1)
    await bench.settle()
    moments.hold("efa_rx_retire", "entry", "s_done_entry", "m_ack_tx")


@cocotb.test()
async def reset_in_the_middle_of_traffic(dut):
    """data.rx_retire.reset: A reset clears all counts of payload, CQEs, drops and drains."""
    bench = Bench(dut, 0.3, 0.0, 0.5)
    await bench.start()
    for turn in range(4):
        for _ in range(60):
            bench.random_job()
        dut.s_drain.value = 1
        dut.s_drops.value = 3
        await ClockCycles(dut.clk, 25 + turn)
        dut.s_drops.value = dut.s_drain.value = 0
        await pulse(dut, "s_stored")
        bench.jobs.clear()
        await reset(dut)
        bench.cancel()
        drops = Moments(dut, "st_drop_valid")
        dut.s_fetches_drained.value = 1
        await bench.drain(6)
        dut.s_fetches_drained.value = 0
        for _ in range(30):
            bench.random_job()
        await bench.settle()
        assert not drops["st_drop_valid"]
    # A drain that waits for packets begins again after the reset.
    for name, cycles_high in (("s_stored", 3), ("s_drain", 5)):
        getattr(dut, name).value = 1
        await ClockCycles(dut.clk, cycles_high)
        dut.s_stored.value = 0
    await reset(dut)
    dut.s_fetches_drained.value = 1
    await bench.drain(6)
