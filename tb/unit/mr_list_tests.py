"""efa_mr_list: every page address to its translation, from the command or from a list in memory."""

import cocotb
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge

from efa.defs import LIMITS, AdminRegMrCmd
from tb.lib.stream import StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive
from tb.unit.cmd_bench import Lines

POOL = 1 << LIMITS.mtt_w


class Lister:
    def __init__(self, dut, gaps=0.0, stalls=0.0):
        self.dut, self.rng = dut, rng_for("mr_list")
        drive(dut, s_start=0, s_cmd=0, s_pages=0, s_mask=0, s_first=0)
        self.lines = Lines(dut, "mr_list", gaps, stalls)
        self.table = StreamMonitor(dut, "mtt", fields=["index", "data"])

    def begin(self, pages, shift, first, listed, at=0):
        """The command of these page addresses, started."""
        cmd = AdminRegMrCmd()
        cmd.aq_common.ctrl_data = int(listed)
        if listed:
            cmd.pbl.pbl.address.mem_addr_low = at & 0xFFFF_FFFF
            cmd.pbl.pbl.address.mem_addr_high = at >> 32
            cmd.pbl.pbl.length = 8 * len(pages)
            image = b"".join(page.to_bytes(8, "little") for page in pages)
            self.lines.memory = {at + i: byte for i, byte in enumerate(image)}
        else:
            cmd.pbl.inline_pbl_array = pages + [self.rng.getrandbits(64)] * (4 - len(pages))
        drive(self.dut, s_start=1, s_cmd=int.from_bytes(cmd.pack(64), "little"), s_first=first,
              s_pages=len(pages), s_mask=(1 << shift) - 1)  # fmt: skip

    async def verdict(self, pages):
        """(misaligned, failed) of what was begun."""
        await RisingEdge(self.dut.clk)
        self.dut.s_start.value = 0
        for _ in range(200 + 60 * pages):
            await RisingEdge(self.dut.clk)
            if self.dut.m_done.value == 1:
                verdict = self.dut.m_misaligned.value, self.dut.m_failed.value
                await RisingEdge(self.dut.clk)
                assert self.dut.m_done.value == 0, "done for more than a cycle"
                return verdict
        raise AssertionError("not done")

    async def take_in(self, count, shift, listed, odd=(), broken=None):
        """One region of random pages, those of `odd` not aligned, the list broken from one on."""
        rng = self.rng
        pages = [rng.getrandbits(64 - shift) << shift for _ in range(count)]
        for place in odd:
            pages[place] |= 1 << rng.randrange(shift)
        at = 8 * rng.getrandbits(49)
        self.lines.broken = None if broken is None else at + 8 * broken
        first = rng.randrange(POOL - count + 1)
        self.lines.asked.clear()
        self.begin(pages, shift, first, listed, at)
        misaligned, failed = await self.verdict(count)
        assert failed == (broken is not None)
        assert broken is not None or misaligned == bool(odd), (pages, shift)
        got = [(beat["index"], beat["data"]) for beat in self.table.beats]
        self.table.beats.clear()
        assert [index for index, _ in got] == list(range(first, first + count))
        assert broken is not None or [data for _, data in got] == [page >> 12 for page in pages]
        end = at
        for addr, size in self.lines.asked:
            assert addr == end, "a gap in what was read"
            end += size
        assert end == (at + 8 * count if listed else at)
        assert not self.lines.answers.waiting


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0), (0.7, 0.0), (0.2, 0.7)])
async def lists_of_any_length_and_place(dut, pace):
    """admin.mr_list.listed"""
    lister, rng = Lister(dut, *pace), rng_for("lists")
    await clock_and_reset(dut)
    for count in (1, 2, 7, 8, 9, 16, 100, *(rng.randrange(1, 40) for _ in range(20))):
        odd = {rng.choice((0, count - 1, rng.randrange(count)))} if rng.random() < 0.3 else ()
        broken = rng.randrange(count) if rng.random() < 0.2 else None
        await lister.take_in(count, rng.choice((12, 16, 31)), 1, odd, broken)


@cocotb.test()
async def pages_in_the_command(dut):
    """admin.mr_list.inline"""
    lister = Lister(dut)
    await clock_and_reset(dut)
    for count in (1, 2, 3, 4):
        await lister.take_in(count, 12, 0)
        for place in range(count):
            await lister.take_in(count, 20, 0, {place})


@cocotb.test()
async def its_cycles(dut):
    """admin.mr_list.time"""
    page, read = timing("efa_mr_list", "page"), timing("efa_mr_list", "read")
    line, done = timing("efa_mr_list", "line"), timing("efa_mr_list", "done")
    lister = Lister(dut)
    await clock_and_reset(dut)
    lister.lines.answers.clear()
    for listed, count in ((0, 4), (1, 24)):
        lister.begin([4096 * n for n in range(count)], 12, 0, listed, 64)
        drive(dut, s_line_valid=0, s_line_err=0, s_line_data=0)
        starts = page.latency
        pieces = -(-count // 8) if listed else 0
        if listed:  # the lines are there all the time, so they come in when they are looked at
            lister.lines.answer = lambda beat: None
            lister.lines.reads.on_beat = lambda beat: None
            drive(dut, s_line_valid=1)
            starts = 1 + line.latency
        for cycle in range(starts + count + done.latency):
            await ReadOnly()
            due = 0 <= cycle - read.latency < pieces * read.interval
            assert dut.m_line_valid.value == int(due), (listed, cycle)
            due = 0 <= cycle - starts < count * page.interval
            assert dut.mtt_valid.value == int(due), (listed, cycle)
            assert dut.m_done.value == int(cycle == starts + count - 1 + done.latency)
            await RisingEdge(dut.clk)
            dut.s_start.value = 0
        dut.s_line_valid.value = 0
        await ClockCycles(dut.clk, 3)


@cocotb.test()
async def reset_in_a_list(dut):
    """admin.mr_list.reset"""
    lister, rng = Lister(dut, gaps=0.5, stalls=0.5), rng_for("reset")
    await clock_and_reset(dut)
    for _ in range(12):
        lister.begin([4096] * 30, 12, 0, 1, 72)
        await RisingEdge(dut.clk)
        dut.s_start.value = 0
        await ClockCycles(dut.clk, rng.randrange(1, 60))
        lister.lines.answers.clear()
        await reset(dut)
        lister.lines.answers.clear()
        await ClockCycles(dut.clk, 3)
        assert dut.m_line_valid.value == 0 and dut.mtt_valid.value == 0
        lister.table.beats.clear()
        await lister.take_in(11, 12, 1)
