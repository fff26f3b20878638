# SPDX-License-Identifier: Apache-2.0
"""Tests efa_aq_fetch: commands in ring order, anomaly reports, reads of a replaced ring dropped."""

import cocotb
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge

from efa_cosim.layouts.defs import AdminAqEntry, AnomalyAdmin
from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive

BASE = 0xF_FFFF_FFFF_0000  # its low 32 bits wrap in the larger rings


def quiet(dut):
    drive(dut, s_cfg_rings_on=0, s_aq_start=0, s_cfg_aq_base=BASE, s_cfg_aq_log=0, s_aq_producer=0,
          s_cfg_aq_wide=0)  # fmt: skip


class Ring:
    """Models a host whose memory holds the posted AQEs; reads are completed in order."""

    def __init__(self, dut, log=3, gaps=0.0, stalls=0.0):
        quiet(dut)
        self.dut, self.log, self.rng = dut, log, rng_for("aq_fetch")
        self.entries, self.posted, self.requested, self.responses = [], [], 0, True
        self.wide = 0  # 1 for AQEs of two lines
        self.first = 0  # number of the first command, so that a test can begin before a wrap
        self.waiting, self.base = [], BASE
        self.lines = StreamDriver(dut, "s_line", gaps, ["data", "err", "bad"])
        self.reads = StreamMonitor(dut, "m_line", stalls, ["addr", "wide"], self.requests)
        self.commands = StreamMonitor(dut, "m_cmd", stalls, ["data", "err", "bad"])
        self.anomaly = StreamMonitor(dut, "ev_anomaly", fields=["data"])
        self.consumed = 0
        cocotb.start_soon(self.count())

    async def count(self):
        while True:
            await RisingEdge(self.dut.clk)
            self.consumed += int(self.dut.m_aq_consumed.value == 1)

    def requests(self, beat):
        slot = (self.first + self.requested) % (1 << self.log)
        place = (self.base >> 6) + (slot << self.wide)
        due = {"addr": place % (1 << 58) << 6, "wide": self.wide}
        assert beat == due, (self.requested, beat)
        self.waiting.append(self.entries[self.requested])
        self.requested += 1
        self.response()

    def response(self):
        while self.responses and self.waiting:
            self.lines.post(self.waiting.pop(0))

    def cancel(self, log):
        """Resets the model of the ring after a new set-up."""
        self.entries, self.requested, self.log, self.first = [], 0, log, 0

    async def set_up(self, log=3, wide=0):
        self.wide = wide
        drive(self.dut, s_cfg_rings_on=1, s_aq_start=1, s_cfg_aq_log=log, s_aq_producer=0,
              s_cfg_aq_wide=wide, s_cfg_aq_base=self.base)  # fmt: skip
        await RisingEdge(self.dut.clk)
        quiet_now = (self.dut.m_cmd_valid, self.dut.m_line_valid, self.dut.s_line_ready)
        assert all(port.value == 0 for port in quiet_now), (
            "output of the old ring in the cycle of aq_start"
        )
        self.dut.s_aq_start.value = 0
        self.cancel(log)

    def command(self, share_anomaly=0.0):
        """Appends an AQE with random faults; returns its line completion and its expected report
        or None."""
        number = self.first + len(self.entries)
        entry = AdminAqEntry(request_payload=[self.rng.getrandbits(32) for _ in range(15)])
        wrong, err, bad = (self.rng.random() < share_anomaly for _ in range(3))
        entry.aq_common_descriptor.phase = (1 - (number >> self.log) % 2) ^ wrong
        self.entries.append({"data": int.from_bytes(entry.pack(64), "little"), "err": int(err),
                             "bad": int(bad)})  # fmt: skip
        faults = {AnomalyAdmin.AQ_READ: err, AnomalyAdmin.AQ_CHECKSUM: bad,
                  AnomalyAdmin.AQ_PHASE: wrong}  # fmt: skip
        what = next((kind for kind, there in faults.items() if there), None)
        return self.entries[-1], None if what is None else what | number % 65536 << 4

    async def ring(self, count, share_anomaly=0.0):
        """Posts commands with doorbells as space allows; returns after all commands are checked."""
        posted = [self.command(share_anomaly) for _ in range(count)]
        end, doorbells, start = self.first + len(self.entries), 0, self.consumed
        first = end - count
        for _ in range(100 * count):
            await RisingEdge(self.dut.clk)
            if self.consumed - start == count:
                break
            space = (1 << self.log) - (doorbells - (self.consumed - start))
            if doorbells < count and space and self.rng.random() < 0.5:
                doorbells += min(self.rng.randrange(1, space + 1), count - doorbells)
                self.dut.s_aq_producer.value = (first + doorbells) % 65536
        assert self.consumed - start == count, "not all posted commands were consumed"
        await ClockCycles(self.dut.clk, 2)
        assert [*self.commands.beats] == [beat for beat, _ in posted]
        reported = [beat["data"] for beat in self.anomaly.beats]
        assert reported == [report for _, report in posted if report is not None]
        self.commands.beats.clear()
        self.anomaly.beats.clear()


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0), (0.6, 0.0), (0.0, 0.7)])
async def commands_come_in_ring_order(dut, pace):
    """admin.aq_fetch.order: commands leave in ring order over several wraps, some with a wrong
    phase or a failed read."""
    ring = Ring(dut, 3, *pace)
    await clock_and_reset(dut)
    await ring.set_up(3)
    await ring.ring(150, 0.15)
    for log in range(11):
        ring.base = ring.rng.getrandbits(64)
        await ring.set_up(log, log % 2)
        wraps = (2 << log) + 12 if log else 1 << 10  # log 0 wraps at every command
        await ring.ring(wraps if pace == (0.0, 0.0) else 12, 0.1)
    ring.base = (1 << 64) - 64 * 40
    await ring.set_up(10)
    await ring.ring(80)


@cocotb.test()
async def counts_go_on_over_65535(dut):
    """admin.aq_fetch.wrap"""
    quiet(dut)
    drive(dut, s_line_valid=0, s_line_data=0, s_line_err=0, s_line_bad=0, m_line_ready=1,
          m_cmd_ready=1)  # fmt: skip
    await clock_and_reset(dut)
    # Both indices advance by one per cycle, without bench agents.
    first = 65450
    drive(dut, s_cfg_rings_on=1, s_cfg_aq_log=10, s_aq_producer=first, s_line_valid=1)
    await ClockCycles(dut.clk, first)
    dut.s_line_valid.value = 0
    await ClockCycles(dut.clk, 3)
    assert dut.m_line_valid.value == 0
    ring = Ring(dut, 10, gaps=0.4)
    drive(dut, s_cfg_rings_on=1, s_cfg_aq_log=10, s_aq_producer=first)
    ring.first = first
    await ring.ring(120, 0.3)


@cocotb.test()
async def nothing_while_a_ring_is_off(dut):
    """admin.aq_fetch.off: a disabled ring reads nothing and holds read completions until it is
    enabled again."""
    ring = Ring(dut)
    await clock_and_reset(dut)
    await ring.set_up()
    dut.s_cfg_rings_on.value = 0
    ring.command()
    ring.command()
    dut.s_aq_producer.value = 1
    await ring.reads.none(20)
    ring.responses = False
    dut.s_cfg_rings_on.value = 1
    await ring.reads.take()
    dut.s_cfg_rings_on.value = 0
    ring.responses = True
    ring.response()
    dut.s_aq_producer.value = 2
    await ring.commands.none(20)
    await ring.reads.none(1)
    dut.s_cfg_rings_on.value = 1
    assert await ring.commands.take(2) == ring.entries


@cocotb.test()
async def a_deep_ring_is_dropped_whole(dut):
    """admin.aq_fetch.deep: all outstanding reads of one or several old rings are dropped, even
    with the command port stalled and the ring disabled."""
    ring, log = Ring(dut, gaps=0.1), 10
    some = lambda: ring.rng.randrange(800, 1 << log)  # noqa: E731
    await clock_and_reset(dut)
    for counts in ([1 << log] * 4 + [some()], *([some() for _ in range(3)] for _ in range(4)),
                   [some()], [64], [3]):  # fmt: skip
        ring.responses = False
        for count in counts:
            await ring.set_up(log)
            ring.reads.beats.clear()
            for _ in range(count):
                ring.command()
            dut.s_aq_producer.value = count
            await ring.reads.take(count)
        ring.commands._pause = lambda: True
        await ring.set_up(3)
        dut.s_cfg_rings_on.value = 0
        ring.responses = True
        before = ring.lines.sent
        ring.response()
        await ring.lines.idle()
        assert ring.lines.sent == before + sum(counts)
        ring.commands._pause = lambda: False
        await ring.commands.none(4)
        await ring.set_up(3)
        await ring.ring(20, 0.2)


@cocotb.test()
async def a_ring_set_up_anew_begins_anew(dut):
    """admin.aq_fetch.restart: outstanding reads of old rings complete and are dropped."""
    ring, rng = Ring(dut, gaps=0.4), rng_for("restart")
    await clock_and_reset(dut)
    await ring.set_up()
    for turn in range(40):
        for _ in range(8):
            ring.command(0.3)
        ring.responses = bool(turn % 2)
        dut.s_aq_producer.value = rng.randrange(9)
        await ClockCycles(dut.clk, rng.randrange(12))
        ring.commands.beats.clear()
        ring.anomaly.beats.clear()
        await ring.set_up()
        if turn % 4 == 3:
            # A report of the previous command may leave in the cycle of the start.
            await RisingEdge(dut.clk)
            ring.commands.beats.clear()
            ring.anomaly.beats.clear()
            ring.responses = True
            ring.response()
            await ring.ring(10, 0.2)
            await ring.set_up()


@cocotb.test()
async def its_cycles(dut):
    """admin.aq_fetch.time"""
    doorbells, command = timing("efa_aq_fetch", "producer"), timing("efa_aq_fetch", "command")
    quiet(dut)
    drive(dut, s_line_valid=0, s_line_data=0, s_line_err=0, s_line_bad=0, m_line_ready=1,
          m_cmd_ready=1)  # fmt: skip
    await clock_and_reset(dut)
    drive(dut, s_cfg_rings_on=1, s_cfg_aq_log=5)
    await ClockCycles(dut.clk, 3)
    drive(dut, s_aq_producer=20)
    for path, valid in ((doorbells, dut.m_line_valid), (command, dut.m_cmd_valid)):
        if path is command:
            dut.s_line_valid.value = 1
        for cycle in range(path.latency + 20 * path.interval + 1):
            await ReadOnly()
            due = cycle - path.latency
            wanted = 0 <= due < 20 * path.interval and due % path.interval == 0
            assert valid.value == wanted, (path, cycle)
            await RisingEdge(dut.clk)
            if path is command and cycle == 19:
                dut.s_line_valid.value = 0


@cocotb.test()
async def reset_in_traffic(dut):
    """admin.aq_fetch.reset"""
    ring = Ring(dut, stalls=0.5, gaps=0.5)
    await clock_and_reset(dut)
    await ring.set_up()
    for _ in range(8):
        ring.command(0.5)
    ring.dut.s_aq_producer.value = 7
    await ClockCycles(dut.clk, 12)
    ring.responses = False
    ring.lines.clear()
    drive(dut, s_aq_producer=0, s_cfg_rings_on=0)
    await reset(dut)
    ring.cancel(3)
    ring.waiting.clear()
    ring.responses = True
    ring.commands.beats.clear()
    ring.anomaly.beats.clear()
    await ring.commands.none(10)
    await ring.set_up()
    await ring.ring(20, 0.1)
