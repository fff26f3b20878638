# SPDX-License-Identifier: Apache-2.0
"""Tests efa_pbl_load: writes one translation per page, inline or from a direct or chunked page
list.

The variant with short chunks and list pages covers the sizes that a device of 2^18 translations
reaches.
"""

from itertools import product

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, RisingEdge

from efa_cosim.host.page_list import mem_addr
from efa_cosim.layouts.defs import PROFILES, AdminRegMrCmd
from tb.lib.stream import StreamMonitor, clock_and_reset, periodic, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive
from tb.unit.cmd_bench import Lines

POOL = 1 << PROFILES.default.mr_pages_w


class Lister:
    def __init__(self, dut, gaps=0.0, stalls=0.0):
        self.dut, self.rng = dut, rng_for("mr_list")
        drive(dut, s_start=0, s_cmd=0, s_pages=0, s_mask=0, s_first=0)
        self.lines = Lines(dut, "mr_list", gaps, stalls)
        self.table = StreamMonitor(dut, "m_mtt", fields=["index", "data"])

    def begin(self, pages, shift, first, listed, at=0, chunks=None):
        """Starts a command with these page addresses; with `chunks` the list is chunked."""
        cmd = AdminRegMrCmd()
        cmd.aq_common.ctrl_data = int(listed)
        if listed:
            cmd.pbl.pbl.address = mem_addr(at)
            cmd.pbl.pbl.length = 8 * len(pages)
            image = b"".join(page.to_bytes(8, "little") for page in pages)
            self.lines.memory = {at + i: byte for i, byte in enumerate(image)}
            if chunks:
                cmd.aq_common.ctrl_data_indirect = 1
                cmd.pbl.pbl.length = self.rng.getrandbits(32)  # don't-care
                self.lines.memory = chunks.memory
        else:
            cmd.pbl.inline_pbl_array = pages + [self.rng.getrandbits(64)] * (4 - len(pages))
        drive(self.dut, s_start=1, s_cmd=int.from_bytes(cmd.pack(64), "little"), s_first=first,
              s_pages=len(pages), s_mask=(1 << shift) - 1)  # fmt: skip

    async def status(self, pages):
        """Returns (misaligned, failed) of the started command."""
        await RisingEdge(self.dut.clk)
        self.dut.s_start.value = 0
        seen, since = (0, 0), 0
        for now in range(200 + 60 * pages):
            await RisingEdge(self.dut.clk)
            if seen != (len(self.lines.requested), self.table.consumed):
                seen, since = (len(self.lines.requested), self.table.consumed), now
            assert now - since < 1000, "no progress for 1000 cycles"
            if self.dut.m_done.value == 1:
                status = self.dut.m_misaligned.value, self.dut.m_failed.value
                await RisingEdge(self.dut.clk)
                assert self.dut.m_done.value == 0, "done is high for more than one cycle"
                return status
        raise AssertionError("no done within the limit")

    async def take_in(self, count, shift, listed, anomaly=(), in_error=None):
        """Loads one region of random pages.

        The pages in `anomaly` are misaligned; list reads fail from entry `in_error` on.
        """
        rng = self.rng
        pages = [rng.getrandbits(64 - shift) << shift for _ in range(count)]
        for place in anomaly:
            pages[place] |= 1 << rng.randrange(shift)
        at = min(8 * rng.getrandbits(61), (1 << 64) - 8 * count)
        self.lines.failed = None if in_error is None else at + 8 * in_error
        first = rng.randrange(POOL - count + 1)
        self.lines.requested.clear()
        self.begin(pages, shift, first, listed, at)
        misaligned, failed = await self.status(count)
        assert failed == (in_error is not None)
        assert in_error is not None or misaligned == bool(anomaly), (pages, shift)
        got = [(beat["index"], beat["data"]) for beat in self.table.beats]
        self.table.beats.clear()
        assert [index for index, _ in got] == list(range(first, first + count))
        assert in_error is not None or [data for _, data in got] == [page >> 12 for page in pages]
        end = at
        for addr, size in self.lines.requested:
            assert addr == end, "gap between list reads"
            end += size
        assert end == (at + 8 * count if listed else at)
        assert not self.lines.responses.waiting


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0), (0.7, 0.0), (0.2, 0.7)])
async def lists_of_any_length_and_place(dut, pace):
    """admin.pbl_load.listed: Direct lists of any length and address are loaded; misaligned pages
    and read errors are reported."""
    lister, rng = Lister(dut, *pace), rng_for("lists")
    await clock_and_reset(dut)
    for count in (1, 2, 7, 8, 9, 16, 100, *(rng.randrange(1, 40) for _ in range(20))):
        anomaly = {rng.choice((0, count - 1, rng.randrange(count)))} if rng.random() < 0.3 else ()
        in_error = rng.randrange(count) if rng.random() < 0.2 else None
        await lister.take_in(count, rng.choice((12, 16, 31)), 1, anomaly, in_error)


class Chunked:
    """Builds a chunked list: the addresses of its pointers, links and entries, in list order. A
    share `spread` of the parts has a random gap behind it; the next part begins at a line behind
    the others."""

    def __init__(self, dut, rng, pages, spread=1.0):
        self.pointers, self.entries = int(dut.POINTERS.value), int(dut.ENTRIES.value)
        self.memory, self.steps, self.free = {}, [], 64 * rng.getrandbits(58)
        self.rng, self.spread = rng, spread
        runs = [pages[i : i + self.entries] for i in range(0, len(pages), self.entries)]
        chunks = [runs[i : i + self.pointers] for i in range(0, len(runs), self.pointers)]
        self.at = at = self.place(8 * self.pointers + 12)
        for number, chunk in enumerate(chunks):
            for slot, run in enumerate(chunk):
                target = self.place(8 * len(run))
                self.put(at + 8 * slot, target, "pointer")
                for i, page in enumerate(run):
                    self.put(target + 8 * i, page, "entry")
            if number + 1 < len(chunks):
                link = self.place(8 * self.pointers + 12)
                self.put(at + 8 * self.pointers + 4, link, "link")
                at = link

    def place(self, size):
        """Returns an address for that many bytes; other data may share its line."""
        at, size = self.free, -(-size // 8) * 8
        gap = self.rng.random() < self.spread
        self.free += size
        self.free += 8 * self.rng.randrange(40) if gap else -self.free % 64
        return at

    def put(self, at, value, kind):
        for i, byte in enumerate(value.to_bytes(8, "little")):
            self.memory[at + i] = byte
        self.steps.append((kind, at, value))


async def take_in_chunks(lister, count, fault=None, shift=12, spread=1.0):
    """Loads a chunked list with at most one fault.

    `fault` is (kind, "anomaly" or "failed"), or None. Steps before the fault are done, steps behind
    it are not read. A misaligned page does not end the list.
    """
    rng = lister.rng
    pages = [rng.getrandbits(64 - shift) << shift for _ in range(count)]
    chunked = Chunked(lister.dut, rng, pages, spread)
    steps, stop, in_error = chunked.steps, None, None
    if fault is not None:
        kind, how = fault
        stop = rng.choice([i for i, step in enumerate(steps) if step[0] == kind])
        at = steps[stop][1]
        if how == "failed":
            in_error = at + rng.randrange(8)
        else:
            chunked.memory[at] |= 1 << rng.randrange(3)
    first = rng.randrange(POOL - count + 1)
    lister.lines.requested.clear()
    lister.begin(pages, shift, first, True, chunked.at, chunked)
    lister.lines.failed = in_error
    misaligned, failed = await lister.status(4 * count)
    reads = len(lister.lines.requested)
    await ClockCycles(lister.dut.clk, 6)
    assert len(lister.lines.requested) == reads, "list reads after done"
    assert failed == (in_error is not None), fault
    # `m_misaligned` says why a list ended; an entry line with a read error has arbitrary content.
    anomaly = fault is not None and fault[1] == "anomaly"
    assert misaligned == anomaly or fault == ("entry", "failed"), fault
    got = [(beat["index"], beat["data"]) for beat in lister.table.beats]
    lister.table.beats.clear()
    requested = {byte for addr, size in lister.lines.requested for byte in range(addr, addr + size)}
    assert len(requested) == sum(size for _, size in lister.lines.requested), "byte read twice"
    ends = fault is None or fault[0] == "entry"
    due = steps if ends else steps[: stop + 1]
    listed = [value for kind, _, value in due if kind == "entry"]
    indices = list(range(first, first + len(listed)))
    reported = [index for index, _ in got]
    # A read error fails a whole piece of pointers, including the pointers before the faulty one.
    complete = fault != ("pointer", "failed")
    assert reported == indices if complete else reported == indices[: len(reported)]
    if fault is None:
        assert [data for _, data in got] == [page >> 12 for page in listed]
    needed = {byte for _, at, _ in due for byte in range(at, at + 8)}
    assert needed <= requested or not complete
    later = [at for kind, at, _ in steps[len(due) :] if kind == "entry"]
    assert not requested & {*later}, "read through an invalid pointer"
    assert requested <= chunked.memory.keys(), "read outside the list"
    assert not lister.lines.responses.waiting


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0), (0.7, 0.0), (0.2, 0.7)])
async def lists_in_chunks(dut, pace):
    """admin.pbl_load.chunks: Chunks lie at any address; the first fault in list order ends the
    list."""
    lister, rng = Lister(dut, *pace), rng_for("chunks")
    await clock_and_reset(dut)
    entries, pointers = int(dut.ENTRIES.value), int(dut.POINTERS.value)
    small = entries < 64
    chunk = entries * pointers
    counts = [1, 7, entries - 1, entries, entries + 1]
    if small:
        counts += [chunk - 1, chunk, chunk + 1, 2 * chunk, 3 * chunk + 3]
        counts += [rng.randrange(1, 3 * chunk) for _ in range(5)]
    for count in counts:
        await take_in_chunks(lister, count)
        kinds = ["entry", "pointer", *(["link"] if count > chunk else [])]
        for kind in kinds:
            for how in ("anomaly", "failed"):
                if small or rng.random() < 0.5:
                    await take_in_chunks(lister, count, (kind, how))
        await lister.take_in(rng.randrange(1, 20), 12, 1)


@cocotb.test()
async def long_lists(dut):
    """admin.pbl_load.long: Direct and chunked lists of hundreds of pages, and of the whole pool,
    are loaded."""
    lister = Lister(dut)
    await clock_and_reset(dut)
    await lister.take_in(lister.rng.randrange(1024, 1100), 12, 1)
    small = int(dut.ENTRIES.value) == 8
    for least in (1024, POOL - 8) if small else (1024,):
        await take_in_chunks(lister, least + lister.rng.randrange(1, 9))
    if small:  # the count of pointers is a power of two
        await take_in_chunks(lister, POOL // 2)
    await lister.take_in(4096, 12, 1)


@cocotb.test()
async def each_bit_of_a_page(dut):
    """admin.pbl_load.bits: Each address bit of an inline page decides on alignment; `s_start` may
    stay high until done."""
    lister = Lister(dut)
    await clock_and_reset(dut)
    # The smallest and the largest page.
    for shift, place, bit in product((12, 33), range(4), range(34)):
        pages = [n << shift for n in range(4)]
        pages[place] ^= 1 << bit
        lister.begin(pages, shift, 0, False)
        for _ in range(9):
            await RisingEdge(dut.clk)
            if dut.m_done.value == 1:
                break
        assert (dut.m_done.value, dut.m_misaligned.value) == (1, int(bit < shift)), (place, bit)
        dut.s_start.value = 0
        await RisingEdge(dut.clk)
        assert len(lister.table.beats) == 4
        lister.table.beats.clear()


@cocotb.test()
async def many_reads_are_on_their_way(dut):
    """admin.pbl_load.in_flight: List reads are outstanding up to the depth of efa_dma_line_rd, and
    pointer reads beside them."""
    lister = Lister(dut)
    await clock_and_reset(dut)
    chunked = Chunked(dut, rng_for("flight"), [4096] * 200, spread=0.0)
    lister.begin([4096] * 200, 12, 0, True, chunked.at, chunked)
    held, response = [], lister.lines.response
    lister.lines.reads.on_beat = lambda beat: (held.append if lister.lines.requested else response)(
        beat
    )
    await RisingEdge(dut.clk)
    dut.s_start.value = 0
    await ClockCycles(dut.clk, 60)
    runs = min(int(dut.POINTERS.value), 8)
    assert len(held) >= min(16, runs), "too few outstanding reads"
    for beat in held:
        response(beat)
    lister.lines.reads.on_beat = response
    assert await lister.status(200) == (0, 0)


@cocotb.test()
async def pages_in_the_command(dut):
    """admin.pbl_load.inline: One to four inline pages are loaded, and a misaligned page is
    reported."""
    lister = Lister(dut)
    await clock_and_reset(dut)
    dut.s_line_err.value = 1  # don't-care without a line
    for count in (1, 2, 3, 4):
        await lister.take_in(count, 12, 0)
        for place in range(count):
            await lister.take_in(count, 20, 0, {place})


@cocotb.test()
async def its_cycles(dut):
    """admin.pbl_load.time: Reads, lines, translations and done meet their specified cycles."""
    assert timing("efa_pbl_load", "read").latency == timing("efa_pbl_fetch", "piece").latency
    page, read = timing("efa_pbl_load", "page"), timing("efa_pbl_load", "read")
    line, done = timing("efa_pbl_load", "line"), timing("efa_pbl_load", "done")
    lister = Lister(dut)
    await clock_and_reset(dut)
    lister.lines.responses.clear()
    for listed, count in ((0, 4), (1, 24)):
        lister.begin([4096 * n for n in range(count)], 12, 0, listed, 64)
        drive(dut, s_line_valid=0, s_line_err=0, s_line_data=0)
        starts = page.latency
        pieces = -(-count // 8) if listed else 0
        if listed:  # lines are valid all the time, so each is accepted as soon as possible
            lister.lines.response = lambda beat: None
            lister.lines.reads.on_beat = lambda beat: None
            drive(dut, s_line_valid=1)
            starts = read.latency + 1 + line.latency  # a read counts one cycle after its request
        for cycle in range(starts + count + done.latency):
            await ReadOnly()
            due = 0 <= cycle - read.latency < pieces * read.interval
            assert dut.m_line_valid.value == int(due), (listed, cycle)
            due = 0 <= cycle - starts < count * page.interval
            assert dut.m_mtt_valid.value == int(due), (listed, cycle)
            assert dut.m_done.value == int(cycle == starts + count - 1 + done.latency)
            await RisingEdge(dut.clk)
            dut.s_start.value = 0
        dut.s_line_valid.value = 0
        await ClockCycles(dut.clk, 3)


@cocotb.test()
async def the_cycles_of_chunks(dut):
    """admin.pbl_load.time: Chunk requests meet their specified interval, and a list that ends early
    its latency."""
    piece, run = timing("efa_pbl_fetch", "piece"), timing("efa_pbl_fetch", "run")
    early = timing("efa_pbl_load", "early")
    if int(dut.ENTRIES.value) != 8:
        return
    lister = Lister(dut)
    await clock_and_reset(dut)
    chunked = Chunked(dut, rng_for("time"), [4096] * 24, spread=0.0)
    chunked.memory[chunked.steps[18][1]] |= 1  # the last pointer
    lister.begin([4096] * 24, 12, 0, True, chunked.at, chunked)
    requests, lines, cycle = [], [], 0
    while True:
        await ReadOnly()
        if dut.m_line_valid.value == 1 and dut.m_line_ready.value == 1:
            requests.append(cycle)
        if dut.s_line_valid.value == 1 and dut.s_line_ready.value == 1:
            lines.append(cycle)
        if dut.m_done.value == 1:
            break
        assert cycle < 200
        await RisingEdge(dut.clk)
        dut.s_start.value = 0
        cycle += 1
    assert len(requests) == 3 and requests[2] - requests[1] == piece.interval + run.interval, (
        requests
    )
    assert cycle - lines[-1] == early.latency and dut.m_misaligned.value == 1


@cocotb.test()
async def a_list_that_ended_requests_no_more_pointers(dut):
    """admin.pbl_load.stopped: After an invalid pointer no further piece of pointers is requested,
    even when the next piece would replace the invalid pointer."""
    if int(dut.ENTRIES.value) != 8:
        return
    lister = Lister(dut)
    await clock_and_reset(dut)
    count = 8 * int(dut.POINTERS.value)
    chunked = Chunked(dut, rng_for("stopped"), [4096] * count, spread=0.0)
    pointers = [at for kind, at, _ in chunked.steps if kind == "pointer"]
    assert chunked.at % 64 == 0
    chunked.memory[pointers[7]] |= 1
    lister.begin([4096] * count, 12, 0, True, chunked.at, chunked)
    assert await lister.status(count) == (1, 0)
    await ClockCycles(dut.clk, 20)
    sizes = [size for addr, size in lister.lines.requested if addr in pointers]
    assert sizes == [64, 64]


@cocotb.test()
@cocotb.parametrize(misaligned=[0, 1])
async def the_first_fault_is_reported(dut, misaligned):
    """admin.pbl_load.first_fault: Of a misaligned pointer and a failed read of pointers, the first
    one in list order is the reported cause."""
    if int(dut.ENTRIES.value) != 8:
        return
    lister = Lister(dut)
    await clock_and_reset(dut)
    count = 8 * int(dut.POINTERS.value)
    chunked = Chunked(dut, rng_for("first_fault"), [4096] * count, spread=0.0)
    pointers = [at for kind, at, _ in chunked.steps if kind == "pointer"]
    # The last pointer of the first piece and the first pointer of the second piece.
    wrong, lister.lines.failed = pointers[7:9] if misaligned else pointers[8:6:-1]
    chunked.memory[wrong] |= 1
    lister.begin([4096] * count, 12, 0, True, chunked.at, chunked)
    assert await lister.status(count) == (misaligned, 1 - misaligned)
    # The next region has its pages in the command.
    lister.table.beats.clear()
    lister.lines.requested.clear()
    await lister.take_in(4, 12, 0)


@cocotb.test()
async def the_largest_region(dut):
    """admin.pbl_load.largest: A list in chunks of as many pages as a region may have is loaded."""
    if int(dut.ENTRIES.value) != 8:
        return
    lister = Lister(dut)
    await clock_and_reset(dut)
    await take_in_chunks(lister, POOL)


@cocotb.test()
async def reads_one_by_one(dut):
    """admin.pbl_load.single: Lists in chunks are loaded when a read is accepted only after the line
    of the read before it, with don't-care bits between lines."""
    if int(dut.ENTRIES.value) != 8:
        return
    lister = Lister(dut, stalls=periodic(11, 1))
    rng = rng_for("single")
    await clock_and_reset(dut)

    async def between_lines():
        while True:
            await FallingEdge(dut.clk)
            if dut.s_line_valid.value == 0:
                dut.s_line_data.value = rng.getrandbits(512)
                dut.s_line_err.value = rng.getrandbits(1)

    cocotb.start_soon(between_lines())
    # With this share, a link often replaces the link of the chunk before in the FIFO of reads.
    await take_in_chunks(lister, 20 * 8 * int(dut.POINTERS.value), spread=0.4)


@cocotb.test()
async def a_read_is_valid_without_ready(dut):
    """admin.pbl_load.valid: A read does not wait for ready."""
    lister = Lister(dut, stalls=lambda: True)
    await clock_and_reset(dut)
    lister.begin([4096] * 8, 12, 0, True)
    await ClockCycles(dut.clk, timing("efa_pbl_load", "read").latency + 1)
    assert dut.m_line_valid.value == 1


@cocotb.test()
async def a_list_ends_behind_its_last_piece(dut):
    """admin.pbl_load.last: A stalled piece before the invalid pointer is read and loaded before
    done."""
    if int(dut.ENTRIES.value) != 8:
        return
    stopped = True
    lister = Lister(dut, stalls=lambda: stopped and len(lister.lines.requested) == 1)
    await clock_and_reset(dut)
    chunked = Chunked(dut, rng_for("last"), [4096] * 16, spread=0.0)
    chunked.memory[chunked.steps[9][1]] |= 1  # the second pointer
    lister.begin([4096] * 16, 12, 0, True, chunked.at, chunked)
    await RisingEdge(dut.clk)
    dut.s_start.value = 0
    for _ in range(40):
        await RisingEdge(dut.clk)
        assert dut.m_done.value == 0, "done before the request of the last piece"
    stopped = False
    assert await lister.status(16) == (1, 0)
    assert len(lister.table.beats) == 8


@cocotb.test()
@cocotb.parametrize(idle=[1, 2, 3])
async def a_link_is_requested_in_its_cycle(dut, idle):
    """admin.pbl_load.link: The link is requested in the first free request slot after the pointers
    of its chunk."""
    if int(dut.ENTRIES.value) != 8:
        return
    lister = Lister(dut, stalls=periodic(idle, 1))
    await clock_and_reset(dut)
    count = 3 * 8 * int(dut.POINTERS.value)
    chunked = Chunked(dut, rng_for(f"link{idle}"), [4096] * count)
    lister.begin([4096] * count, 12, 0, True, chunked.at, chunked)
    done = cocotb.start_soon(lister.status(2 * idle * count))
    shown = []  # per cycle: end of the requested piece or None; whether it may leave
    while not done.done():
        await RisingEdge(dut.clk)
        there = dut.m_line_valid.value == 1
        end = int(dut.m_line_addr.value) + int(dut.m_line_len.value) if there else None
        shown.append((end, not there or dut.m_line_ready.value == 1))
    assert done.result() == (0, 0)
    links = [at for kind, at, _ in chunked.steps if kind == "link"]
    assert len(links) == 2
    for link in links:
        pointers = next(at for at, (end, _) in enumerate(shown) if end == link - 4)
        space = next(at for at in range(pointers + 1, len(shown)) if shown[at][1])
        assert shown[space + 1][0] == link + 4, shown[pointers : space + 4]


@cocotb.test()
async def reset_in_a_list(dut):
    """admin.pbl_load.reset: A reset during a list stops reads and writes; the next list loads
    correctly."""
    lister, rng = Lister(dut, gaps=0.5, stalls=0.5), rng_for("reset")
    await clock_and_reset(dut)
    for turn in range(12):
        pages = [4096] * rng.randrange(20, 200)
        chunked = Chunked(dut, rng, pages) if turn % 2 else None
        lister.begin(pages, 12, 0, 1, chunked.at if chunked else 72, chunked)
        await RisingEdge(dut.clk)
        dut.s_start.value = 0
        await ClockCycles(dut.clk, rng.randrange(1, 6 if turn % 3 else 60))
        lister.lines.responses.clear()
        await reset(dut)
        lister.lines.responses.clear()
        lister.lines.requested.clear()
        await ClockCycles(dut.clk, 6)
        assert dut.m_line_valid.value == 0 and dut.m_mtt_valid.value == 0
        assert not lister.lines.requested
        lister.table.beats.clear()
        await lister.take_in(11, 12, 1)
