# SPDX-License-Identifier: Apache-2.0
"""Tests efa_tx_buffer: payload at any alignment, read completions in any order, one ready per
message, in time."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from tb.lib.stream import clock_and_reset, cycle, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import high, pulse, until, zero

BEAT = timing("efa_tx_buffer", "beat")


class Bench:
    def __init__(self, dut, name="tx_buffer"):
        self.dut, self.rng = dut, rng_for(name)
        self.slots = 1 << int(dut.SLOT_W.value)
        self.bytes = 64 << int(dut.LINE_W.value)
        self.next, self.at = 0, 0
        self.rose, self.due, self.failed = {}, {}, 0
        zero(dut, "s_rd_cpl_valid", "s_slot_valid", "s_slot_index", "line_rd_en", "line_rd_addr")

    async def start(self):
        await clock_and_reset(self.dut)
        await until(self.dut, high(self.dut.m_init_done))
        cocotb.start_soon(self._watch())

    async def _watch(self):
        """Records the cycle in which each slot becomes ready; ready and failed only fall when a
        message enters."""
        before = failed = 0
        while True:
            await RisingEdge(self.dut.clk)
            if self.dut.rst.value == 1:
                before = failed = 0
                continue
            now = int(self.dut.m_ready_slots.value)
            for slot in range(self.slots):
                if (now & ~before) >> slot & 1:
                    assert slot not in self.rose, f"slot {slot} ready twice"
                    self.rose[slot] = cycle()
            assert not before & ~now and not failed & ~int(self.dut.m_failed_slots.value)
            before, failed = now, int(self.dut.m_failed_slots.value)
            if self.dut.s_slot_valid.value == 1:
                others = ~(1 << int(self.dut.s_slot_index.value))
                before, failed = before & others, failed & others

    async def enter(self, reads):
        """Enters the next message, which waits for that many reads; returns its slot."""
        slot = self.next
        self.next = (slot + 1) % self.slots
        self.dut.s_slot_valid.value, self.dut.s_slot_reads.value = 1, reads
        await RisingEdge(self.dut.clk)
        self.dut.s_slot_valid.value, self.dut.s_slot_index.value = 0, self.next
        if reads == 0:
            self.due[slot] = cycle() + 1
        return slot

    def place(self, size):
        """Allocates ring space for a message."""
        at = self.at
        self.at = (at + size + self.rng.randrange(64)) % self.bytes
        return at

    def beats(self, slot, at, data, failed=False):
        """Returns the beats of one read completion, cut at random positions."""
        found, offset = [], 0
        while offset < len(data):
            count = min(self.rng.choice((1, 63, 64, 64, self.rng.randrange(1, 65))),
                        len(data) - offset)  # fmt: skip
            dont_care = self.rng.getrandbits(512) << 8 * count & (1 << 512) - 1
            last = offset + count == len(data)
            piece = int.from_bytes(data[offset : offset + count], "little")
            # Data and size of a failed beat are don't-care.
            reported = self.rng.randrange(1, 65) if failed and last else count
            found.append({"cookie": slot * self.bytes + at, "offset": offset,
                          "data": piece | dont_care, "bytes": reported, "last": int(last),
                          "err": int(failed and last)})  # fmt: skip
            offset += count
        return found

    async def response(self, beat):
        for name, value in beat.items():
            getattr(self.dut, f"s_rd_cpl_{name}").value = value
        self.dut.s_rd_cpl_valid.value = 1
        await RisingEdge(self.dut.clk)
        self.dut.s_rd_cpl_valid.value = 0

    async def take(self, slot):
        """Checks that the slot became ready once since its message entered, in the specified
        cycle."""
        await ClockCycles(self.dut.clk, 2)
        assert self.rose.pop(slot) == self.due.pop(slot)

    async def bytes_at(self, at, size):
        found, first = "", at // 64
        for line in range((at % 64 + size + 63) // 64):
            await pulse(self.dut, "line_rd_en", line_rd_addr=(first + line) % (self.bytes // 64))
            self.dut.line_rd_addr.value = self.rng.randrange(self.bytes // 64)
            await ClockCycles(self.dut.clk, timing("efa_tx_buffer", "read").latency)
            found = str(self.dut.line_rd_data.value) + found
        # Bytes never written may be unknown around the written bytes.
        end = len(found) - 8 * (at % 64)
        return int("0" + found[end - 8 * size : end], 2).to_bytes(size, "little")

    async def round(self, count, gaps=0.2):
        """Runs that many messages at once with interleaved completions; then each message is
        read."""
        rng, messages, waiting, left = self.rng, [], [], {}
        for _ in range(count):
            sizes = [rng.choice((1, 64, rng.randrange(1, 200))) for _ in range(rng.randrange(4))]
            slot = await self.enter(len(sizes))
            at = self.place(sum(sizes))
            failed = bool(sizes) and rng.random() < 0.2
            data = rng.randbytes(sum(sizes))
            messages.append((slot, at, data, failed))
            left[slot] = len(sizes)
            in_error, done = rng.randrange(len(sizes) or 1), 0
            for number, size in enumerate(sizes):
                waiting.append(self.beats(slot, (at + done) % self.bytes,
                                          data[done : done + size],
                                          failed and number == in_error))  # fmt: skip
                done += size
        while waiting:
            if rng.random() < gaps:
                await RisingEdge(self.dut.clk)
            response = rng.choice(waiting)
            beat = response.pop(0)
            if not response:
                waiting.remove(response)
            slot = beat["cookie"] // self.bytes
            await self.response(beat)
            left[slot] -= beat["last"]
            if left[slot] == 0 and beat["last"]:
                self.due[slot] = cycle() + BEAT.latency
        await ClockCycles(self.dut.clk, BEAT.latency + 1)
        for slot, _, _, failed in messages:
            self.failed = self.failed & ~(1 << slot) | failed << slot
        assert self.dut.m_failed_slots.value == self.failed
        for slot, at, data, failed in messages:
            if not failed:
                assert await self.bytes_at(at, len(data)) == data
            await self.take(slot)
        assert not self.due and not self.rose


@cocotb.test()
async def bytes_find_their_place(dut):
    """data.tx_buffer.place: Payload is stored at any alignment, over the end of the ring, with
    messages and completions interleaved."""
    bench = Bench(dut)
    await bench.start()
    for _ in range(30):
        await bench.round(bench.rng.randrange(1, 8))


@cocotb.test()
async def responses_are_counted_round_and_round(dut):
    """data.tx_buffer.wrap: The read counts of two slots exceed 256."""
    bench = Bench(dut, "wrap")
    await bench.start()
    for _ in range(3):
        both = [await bench.enter(150) for _ in range(2)]
        left = bench.rng.sample(both, 300, counts=(150, 150))
        while left:
            slot = left.pop()
            assert slot not in bench.rose
            await bench.response(bench.beats(slot, len(left), b"x")[0])
            if slot not in left:
                bench.due[slot] = cycle() + BEAT.latency
        await ClockCycles(dut.clk, 5)
        for slot in both:
            await bench.take(slot)
        for _ in range(bench.slots - 2):
            await bench.take(await bench.enter(0))


@cocotb.test()
async def each_slot_is_itself(dut):
    """data.tx_buffer.slots: Slots are independent: all are in use, complete at full rate, and fail
    in one of two rounds."""
    bench = Bench(dut, "slots")
    await bench.start()
    rng, slots = bench.rng, range(bench.slots)
    anomaly = rng.getrandbits(bench.slots)
    for turn in range(4):
        fails = {slot for slot in slots if (anomaly >> slot ^ turn) & 1}
        left = {slot: rng.randrange(int(slot in fails), 4) for slot in slots}
        for slot in slots:
            assert await bench.enter(left[slot]) == slot
        in_error = {slot: rng.randrange(left[slot]) for slot in fails}
        slot, open_ones = 0, [slot for slot in slots if left[slot]]
        while open_ones:
            # Often the same slot again, or a slot whose number differs in one bit.
            near = rng.choice((slot, slot ^ 1 << rng.randrange(bench.slots.bit_length() - 1)))
            slot = near if left[near] else rng.choice(open_ones)
            left[slot] -= 1
            failed = slot in fails and left[slot] == in_error[slot]
            await bench.response(bench.beats(slot, rng.randrange(bench.bytes), b"x", failed)[0])
            if not left[slot]:
                open_ones.remove(slot)
                bench.due[slot] = cycle() + BEAT.latency
        await ClockCycles(dut.clk, BEAT.latency + 1)
        assert dut.m_ready_slots.value == (1 << bench.slots) - 1
        assert dut.m_failed_slots.value == sum(1 << slot for slot in fails)
        for slot in slots:
            assert bench.rose.pop(slot) == bench.due.pop(slot)


@cocotb.test()
async def a_beat_each_cycle(dut):
    """data.tx_buffer.time: Full beats of neighbouring slots arrive without a gap, and each slot is
    ready in time."""
    bench = Bench(dut, "time")
    await bench.start()
    assert BEAT.interval == 1
    slots = [await bench.enter(2) for _ in range(6)]
    data = bench.rng.randbytes(64 * 12)
    dut.s_rd_cpl_valid.value, dut.s_rd_cpl_bytes.value = 1, 64
    dut.s_rd_cpl_offset.value = dut.s_rd_cpl_err.value = 0
    dut.s_rd_cpl_last.value = 1
    for number in range(12):
        slot = slots[number // 2]
        dut.s_rd_cpl_cookie.value = slot * bench.bytes + 37 + 64 * number
        dut.s_rd_cpl_data.value = int.from_bytes(data[64 * number :][:64], "little")
        await RisingEdge(dut.clk)
        bench.due[slot] = cycle() + BEAT.latency
    dut.s_rd_cpl_valid.value = 0
    await ClockCycles(dut.clk, 6)
    assert await bench.bytes_at(37, len(data)) == data
    for slot in slots:
        await bench.take(slot)


@cocotb.test()
async def a_line_each_cycle(dut):
    """data.tx_buffer.read: One line is read per cycle; read data holds without a read."""
    bench = Bench(dut, "read")
    await bench.start()
    promised = timing("efa_tx_buffer", "read")
    assert (promised.latency, promised.interval) == (1, 1)
    slot = await bench.enter(1)
    data = bench.rng.randbytes(64 * 8)
    for number in range(8):
        await bench.response({"cookie": slot * bench.bytes, "offset": 64 * number, "bytes": 64,
                            "data": int.from_bytes(data[64 * number :][:64], "little"),
                            "last": number == 7, "err": 0})  # fmt: skip
    await ClockCycles(dut.clk, 4)
    dut.line_rd_en.value = 1
    for line in range(9):
        dut.line_rd_addr.value = min(line, 7)
        dut.line_rd_en.value = int(line < 8)
        await RisingEdge(dut.clk)
        if line:
            found = int(dut.line_rd_data.value).to_bytes(64, "little")
            assert found == data[64 * (line - 1) :][:64]
    dut.line_rd_addr.value = 0
    await ClockCycles(dut.clk, 3)
    assert int(dut.line_rd_data.value).to_bytes(64, "little") == data[-64:]


@cocotb.test()
async def reset_in_the_middle_of_traffic(dut):
    """data.tx_buffer.reset: A reset clears the read counts of incomplete and failed slots."""
    bench = Bench(dut, "reset")
    await bench.start()
    for _ in range(3):
        for _ in range(4):
            slot = await bench.enter(3)
            await bench.response(bench.beats(slot, 0, b"x", True)[0])
            await bench.response(bench.beats(slot, 1, b"y")[0])
        await reset(dut)
        bench.next = 0
        bench.rose.clear()
        dut.s_slot_index.value = 0
        assert dut.m_ready_slots.value == 0 and dut.m_failed_slots.value == 0
        bench.failed = 0
        await until(dut, high(dut.m_init_done))
        await bench.round(min(8, bench.slots))
