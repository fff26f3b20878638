# SPDX-License-Identifier: Apache-2.0
"""Tests efa_aq_unpack: one-line AQEs pass through, two-line AQEs are assembled and validated."""

import cocotb
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge

from efa_cosim.layouts.codec import crc16
from efa_cosim.layouts.defs import AdminAqEntryV2
from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive


def wide_entry(rng, version=0, wrong=0):
    """Returns the image of a 128-byte AQE; `wrong` flips one bit after the checksum is computed."""
    entry = AdminAqEntryV2(request_payload=[rng.getrandbits(32) for _ in range(29)])
    header = entry.aq_common_descriptor
    header.common.command_id__command_id = rng.getrandbits(12)
    header.common.opcode, header.common.flags = rng.getrandbits(8), rng.getrandbits(8)
    header.reserved = rng.randbytes(5)
    header.payload_ver = version
    image = bytearray(entry.pack())
    image[4:6] = crc16(bytes(image)).to_bytes(2, "little")
    if wrong:
        image[rng.randrange(128)] ^= 1 << rng.randrange(8)
    return bytes(image)


class Join:
    """Drives AQE requests, completes each line read and records the expected AQEs in `due`."""

    def __init__(self, dut, gaps=0.0, stalls=0.0):
        self.rng, self.due, self.lines, self.kinds = rng_for("aq_unpack"), [], {}, set()
        self.requests = StreamDriver(dut, "s_req", gaps)
        self.responses = StreamDriver(dut, "s_line", gaps)
        self.reads = StreamMonitor(dut, "m_line", stalls, on_beat=self.response)
        self.entries = StreamMonitor(dut, "m_entry", stalls)

    def response(self, beat):
        assert beat["len"] == 64
        data, err = self.lines.pop(beat["addr"])
        self.responses.post({"data": int.from_bytes(data, "little"), "err": err})

    def request(self, wide, share=0.0):
        rng = self.rng
        place = 64 * (rng.getrandbits(57) if rng.random() < 0.9 else (1 << 26) - 1)
        while place in self.lines or place + 64 in self.lines:
            place = 64 * rng.getrandbits(57)
        err, wrong, version = (int(rng.random() < share) for _ in range(3))
        self.requests.post({"addr": place, "wide": wide})
        if not wide:
            image = rng.randbytes(64)
            self.lines[place] = image, err
            self.due.append({"data": int.from_bytes(image, "little"), "err": err, "bad": 0})
            return
        image = wide_entry(rng, version * rng.randrange(1, 256), wrong)
        at = rng.randrange(2)
        for half in range(2):
            self.lines[place + 64 * half] = image[64 * half :][:64], int(err and at == half)
        short = image[:4] + image[12:72]
        bad = int(wrong or version)
        self.kinds.add((err, wrong, version))
        self.due.append({"data": int.from_bytes(short, "little"), "err": err, "bad": bad})


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0), (0.6, 0.0), (0.0, 0.7), (0.3, 0.3)])
async def entries_of_both_forms(dut, pace):
    """admin.aq_unpack.entries: AQEs of both formats leave in request order, with faults of each
    kind."""
    join = Join(dut, *pace)
    await clock_and_reset(dut)
    for wide in (0, 1, None):
        for _ in range(80):
            join.request(join.rng.getrandbits(1) if wide is None else wide, 0.4)
        got = await join.entries.take(80)
        for beat, due in zip(got, join.due, strict=True):
            assert beat == due
        join.due.clear()
    assert len(join.kinds) == 8 and not join.lines


@cocotb.test()
async def every_bit_is_under_the_checksum(dut):
    """admin.aq_unpack.checksum"""
    join = Join(dut)
    await clock_and_reset(dut)
    image = wide_entry(join.rng)
    for bit in range(1024):
        wrong = bytearray(image)
        wrong[bit // 8] ^= 1 << bit % 8
        join.lines = {0: (bytes(wrong[:64]), 0), 64: (bytes(wrong[64:]), 0)}
        join.requests.post({"addr": 0, "wide": 1})
        assert (await join.entries.take())[0]["bad"] == 1, bit


@cocotb.test()
async def its_cycles(dut):
    """admin.aq_unpack.time"""
    narrow, wide = timing("efa_aq_unpack", "line"), timing("efa_aq_unpack", "two_lines")
    drive(dut, s_req_valid=0, s_req_addr=0, s_req_wide=0, m_line_ready=1, s_line_valid=0,
          s_line_data=0, s_line_err=0, m_entry_ready=1)  # fmt: skip
    await clock_and_reset(dut)
    for path, form in ((narrow, 0), (wide, 1)):
        drive(dut, s_req_valid=1, s_req_wide=form)
        await ReadOnly()
        assert dut.m_line_valid.value == 1
        await ClockCycles(dut.clk, 12)
        dut.s_req_valid.value = 0
        await ClockCycles(dut.clk, 3)
        dut.s_line_valid.value = 1
        consumed, entries = [], []
        for cycle in range(40):
            await ReadOnly()
            if dut.s_line_ready.value == 1 and dut.s_line_valid.value == 1:
                consumed.append(cycle)
            if dut.m_entry_valid.value == 1:
                entries.append(cycle)
            await RisingEdge(dut.clk)
        dut.s_line_valid.value = 0
        last = consumed[form]
        assert entries[0] - last == path.latency
        assert entries[3] - entries[2] == path.interval, entries
        await ClockCycles(dut.clk, 3)


@cocotb.test()
async def reset_in_traffic(dut):
    """admin.aq_unpack.reset"""
    join = Join(dut, gaps=0.4, stalls=0.4)
    await clock_and_reset(dut)
    for turn in range(12):
        for _ in range(4):
            join.request(turn % 3 != 0)
        await ClockCycles(dut.clk, 3 + turn)
        join.requests.clear()
        join.responses.clear()
        await reset(dut)
        join.requests.clear()
        join.responses.clear()
        await ClockCycles(dut.clk, 2)
        assert dut.m_line_valid.value == 0 and dut.m_entry_valid.value == 0
        join.lines.clear()
        join.due.clear()
        join.entries.beats.clear()
        join.request(1)
        assert await join.entries.take() == join.due
        join.due.clear()
