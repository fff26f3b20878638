# SPDX-License-Identifier: Apache-2.0
"""Tests efa_aq: ring set-up, doorbell validation, messages masked by INTR_MASK."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import LIMITS, REG_BITS, AnomalyAdmin, Reg
from tb.lib.stream import StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, high, pulse, until


class Aq:
    """Drives register stores, notes and events into efa_aq and monitors messages and anomaly
    reports."""

    def __init__(self, dut, stalls=0.0):
        self.dut = dut
        drive(dut, s_reg_wr_valid=0, s_reg_wr_offset=0, s_reg_wr_data=0, s_aq_consumed=0,
              s_note_valid=0, s_aenq_valid=0, s_cfg_aenq_vector=0)  # fmt: skip
        self.irq = StreamMonitor(dut, "m_irq", stalls, ["vector"])
        self.anomaly = StreamMonitor(dut, "ev_anomaly", fields=["data"])

    async def store(self, register, value):
        drive(self.dut, s_reg_wr_valid=1, s_reg_wr_offset=int(register), s_reg_wr_data=value)
        await RisingEdge(self.dut.clk)
        self.dut.s_reg_wr_valid.value = 0

    async def ring_up(self, depth=16, size=64):
        await self.store(Reg.AQ_CAPS, REG_BITS.AQ_CAPS.pack(AQ_DEPTH=depth, AQ_ENTRY_SIZE=size))

    async def response_ring_up(self, depth=16, size=64, vector=0):
        await self.store(Reg.ACQ_CAPS, REG_BITS.ACQ_CAPS.pack(
            ACQ_DEPTH=depth, ACQ_ENTRY_SIZE=size, ACQ_MSIX_VECTOR=vector))  # fmt: skip

    async def note(self, vector):
        """Sets the vector of the ACQ and pulses the note of a written ACQE."""
        await self.response_ring_up(vector=vector)
        self.dut.s_note_valid.value = 1
        await RisingEdge(self.dut.clk)
        self.dut.s_note_valid.value = 0

    async def event(self, vector):
        drive(self.dut, s_aenq_valid=1, s_cfg_aenq_vector=vector)
        await RisingEdge(self.dut.clk)
        self.dut.s_aenq_valid.value = 0

    async def consumed(self, count):
        self.dut.s_aq_consumed.value = 1
        await ClockCycles(self.dut.clk, count)
        self.dut.s_aq_consumed.value = 0

    async def idle(self):
        await ClockCycles(self.dut.clk, 2)


@cocotb.test()
async def rings_are_set_up_or_not(dut):
    """admin.aq.setup"""
    aq = Aq(dut)
    await clock_and_reset(dut)
    await aq.store(Reg.AQ_BASE_LO, 0x89AB_C000)
    await aq.store(Reg.AQ_BASE_HI, 0x0004_4567)
    await aq.store(Reg.ACQ_BASE_LO, 0x1234_5000)
    await aq.store(Reg.ACQ_BASE_HI, 0x7)
    for depth, size, allowed in ((16, 64, 1), (24, 64, 0), (1, 64, 1), (0, 64, 0), (16, 128, 1),
                               (8, 192, 0),
                               (LIMITS.max_aq_depth, 64, 1), (2 * LIMITS.max_aq_depth, 64, 0),
                               (32768, 64, 0), (16, 0, 0), (2, 64, 1)):  # fmt: skip
        await aq.ring_up(depth, size)
        await aq.response_ring_up(depth, size & 0xFF, 5)
        assert dut.m_aq_start.value == allowed and dut.m_cfg_rings_on.value == 0
        await RisingEdge(dut.clk)
        assert dut.m_acq_start.value == (allowed and size == 64) and dut.m_aq_start.value == 0
        await RisingEdge(dut.clk)
        assert dut.m_acq_start.value == 0
        of_acq = allowed and size == 64
        assert (dut.m_cfg_rings_on.value, dut.m_cfg_acq_on.value) == (of_acq, of_acq), (depth, size)
        if allowed:
            assert dut.m_cfg_aq_wide.value == (size == 128)
            assert 1 << int(dut.m_cfg_aq_log.value) == depth
        if of_acq:
            assert 1 << int(dut.m_cfg_aq_log.value) == 1 << int(dut.m_cfg_acq_log.value) == depth
            assert int(dut.m_cfg_aq_base.value) == 0x0004_4567_89AB_C000
            assert int(dut.m_cfg_acq_base.value) == 0x7_1234_5000
        await aq.ring_up(0)
        await aq.idle()
        assert dut.m_cfg_rings_on.value == 0 and dut.m_cfg_acq_on.value == of_acq
        await aq.response_ring_up(0)
    await aq.store(Reg.AQ_BASE_LO, 0)
    await aq.idle()
    assert int(dut.m_cfg_aq_base.value) == 0x0004_4567_89AB_C000, (
        "the base must be latched by AQ_CAPS only"
    )


def allowed(depth, size, sizes):
    """Returns whether a ring may have this depth and entry size."""
    return depth in [1 << log for log in range(LIMITS.max_aq_depth.bit_length())] and size in sizes


@cocotb.test()
async def any_register_at_any_time(dut):
    """admin.aq.registers: random stores match the register model; offsets that differ in one bit
    from a register have no effect."""
    aq, rng = Aq(dut), rng_for("registers")
    await clock_and_reset(dut)
    known = {int(reg): 0 for reg in (Reg.AQ_BASE_LO, Reg.AQ_BASE_HI, Reg.ACQ_BASE_LO,
                                     Reg.ACQ_BASE_HI, Reg.AQ_CAPS, Reg.ACQ_CAPS)}  # fmt: skip
    rings = {"aq": (0, 0, 0, 0), "acq": (0, 0, 0, 0)}

    def caps(register):
        depth, log = 0, rng.randrange(16)
        for _ in range(rng.choice((0, 1, 1, 1, 1, 2))):
            depth |= 1 << log
            log = rng.randrange(16)
        size = rng.choice((64, 64, 64, 128, 128, 64 ^ 1 << rng.randrange(16),
                           128 ^ 1 << rng.randrange(16), 192, 0))  # fmt: skip
        if register == Reg.AQ_CAPS:
            return REG_BITS.AQ_CAPS.pack(AQ_DEPTH=depth, AQ_ENTRY_SIZE=size)
        return REG_BITS.ACQ_CAPS.pack(
            ACQ_DEPTH=depth, ACQ_ENTRY_SIZE=size & 0xFF, ACQ_MSIX_VECTOR=rng.getrandbits(8)
        )

    beside_only = [Reg.AQ_PROD_DB, Reg.INTR_MASK]
    for _ in range(1500):
        register = rng.choice([*known, *beside_only])
        value = caps(register) if register in (Reg.AQ_CAPS, Reg.ACQ_CAPS) else rng.getrandbits(32)
        ours = register not in beside_only and rng.random() >= 0.25
        offset = register if ours else register ^ 1 << rng.randrange(16)
        if not ours and offset in list(Reg):
            continue
        await aq.store(offset, value)
        starts = {"aq": 0, "acq": 0}
        if ours:
            known[register] = value
        if ours and register == Reg.AQ_CAPS:
            reported = REG_BITS.AQ_CAPS.unpack(value)
            starts["aq"] = int(allowed(reported.AQ_DEPTH, reported.AQ_ENTRY_SIZE, (64, 128)))
            base = known[Reg.AQ_BASE_HI] << 32 | known[Reg.AQ_BASE_LO]
            rings["aq"] = starts["aq"], base, reported.AQ_DEPTH, reported.AQ_ENTRY_SIZE == 128
        elif ours and register == Reg.ACQ_CAPS:
            reported = REG_BITS.ACQ_CAPS.unpack(value)
            starts["acq"] = int(allowed(reported.ACQ_DEPTH, reported.ACQ_ENTRY_SIZE, (64,)))
            base = known[Reg.ACQ_BASE_HI] << 32 | known[Reg.ACQ_BASE_LO]
            rings["acq"] = starts["acq"], base, reported.ACQ_DEPTH, reported.ACQ_MSIX_VECTOR
        await RisingEdge(dut.clk)
        found = {"aq": dut.m_aq_start.value, "acq": dut.m_acq_start.value}
        assert found == starts, (hex(offset), hex(value))
        assert dut.m_cfg_rings_on.value == (rings["aq"][0] and rings["acq"][0])
        assert dut.m_cfg_acq_on.value == rings["acq"][0]
        if rings["aq"][0]:
            base, log = int(dut.m_cfg_aq_base.value), int(dut.m_cfg_aq_log.value)
            assert (base, 1 << log, dut.m_cfg_aq_wide.value) == rings["aq"][1:]
        if rings["acq"][0]:
            base, log = int(dut.m_cfg_acq_base.value), int(dut.m_cfg_acq_log.value)
            assert (base, 1 << log) == rings["acq"][1:3]
            if starts["acq"]:
                drive(dut, s_note_valid=1)
                await RisingEdge(dut.clk)
                dut.s_note_valid.value = 0
                assert await aq.irq.take() == [{"vector": rings["acq"][3]}]
    assert not aq.anomaly.beats


@cocotb.test()
async def two_bits_are_no_depth(dut):
    """admin.aq.depth: both rings refuse a depth that is not a power of two or is too large."""
    aq = Aq(dut)
    await clock_and_reset(dut)
    for first in range(16):
        for second in range(first + 1):
            depth = 1 << first | 1 << second
            await aq.ring_up(depth)
            await aq.response_ring_up(depth)
            on = allowed(depth, 64, (64,))
            assert dut.m_aq_start.value == on, depth
            await RisingEdge(dut.clk)
            assert dut.m_acq_start.value == on, depth


@cocotb.test()
async def every_depth_has_its_space(dut):
    """admin.aq.space: for every depth, producer indices near the free space limit or one bit off
    are accepted or refused by the rule."""
    aq, rng = Aq(dut), rng_for("room")
    await clock_and_reset(dut)
    for log in range(LIMITS.max_aq_depth.bit_length()):
        depth = 1 << log
        await aq.ring_up(depth)
        producer = fetched = 0
        for _ in range(120):
            most = (fetched + depth) % 65536
            step = rng.randrange(depth + 1)
            near = rng.choice((most, most + 1, most ^ 1 << rng.randrange(16), producer,
                               producer ^ 1 << rng.randrange(16), fetched + step))  # fmt: skip
            new = near % 65536
            await aq.store(Reg.AQ_PROD_DB, new | rng.getrandbits(16) << 16)
            held = (new - producer) % 65536 > depth - (producer - fetched) % 65536
            await ClockCycles(dut.clk, 2)
            assert bool(aq.anomaly.beats) == held, (depth, producer, fetched, new)
            aq.anomaly.beats.clear()
            producer = producer if held else new
            assert int(dut.m_aq_producer.value) == producer
            waiting = (producer - fetched) % 65536
            if waiting and rng.random() < 0.5:
                count = rng.choice((waiting, rng.randrange(1, waiting + 1)))
                await aq.consumed(count)
                fetched = (fetched + count) % 65536


@cocotb.test()
async def doorbells_by_the_rule(dut):
    """admin.aq.doorbell: random doorbells follow the free space formula; a refused doorbell
    changes no index."""
    aq, rng = Aq(dut), rng_for("aq")
    await clock_and_reset(dut)
    await aq.store(Reg.AQ_PROD_DB, 1)
    assert (await aq.anomaly.take())[0]["data"] == AnomalyAdmin.AQ_DOORBELL | 1 << 4, (
        "a doorbell without a ring must be reported"
    )
    assert int(dut.m_aq_producer.value) == 0
    depth = 8
    await aq.ring_up(depth)
    producer = fetched = refused = 0
    for _ in range(600):
        new = (producer + rng.choice((0, 1, 3, depth - producer + fetched, depth, depth + 1,
                                      -1, 0x8000))) % 65536  # fmt: skip
        value = new | rng.getrandbits(16) << 16
        await aq.store(Reg.AQ_PROD_DB, value)
        if (new - producer) % 65536 <= depth - (producer - fetched) % 65536:
            producer = new
        else:
            refused += 1
            beat = (await aq.anomaly.take())[0]["data"]
            assert beat == AnomalyAdmin.AQ_DOORBELL | value << 4, hex(beat)
        await RisingEdge(dut.clk)
        assert int(dut.m_aq_producer.value) == producer
        waiting = (producer - fetched) % 65536
        if waiting and rng.random() < 0.7:
            count = rng.randrange(1, waiting + 1)
            await aq.consumed(count)
            fetched = (fetched + count) % 65536
    assert refused > 50 and not aq.anomaly.beats


@cocotb.test()
async def the_count_wraps(dut):
    """admin.aq.wrap"""
    aq = Aq(dut)
    await clock_and_reset(dut)
    depth = LIMITS.max_aq_depth
    await aq.ring_up(depth)
    for turn in range(1, 65536 // depth + 3):
        await aq.store(Reg.AQ_PROD_DB, turn * depth % 65536)
        await aq.store(Reg.AQ_PROD_DB, (turn * depth + 1) % 65536)
        await aq.consumed(depth)
        assert int(dut.m_aq_producer.value) == turn * depth % 65536
    await aq.idle()
    assert len(aq.anomaly.beats) == 65536 // depth + 2, (
        "each doorbell beyond a full ring must be reported once"
    )
    await aq.ring_up(depth)
    await aq.idle()
    assert int(dut.m_aq_producer.value) == 0


@cocotb.test()
async def responses_and_events_share_the_mask(dut):
    """admin.aq.events: while masked, one message per vector is held for responses and events;
    none is lost."""
    aq, rng = Aq(dut, stalls=0.3), rng_for("events")
    await clock_and_reset(dut)
    for both in (3, 4):
        await aq.store(Reg.INTR_MASK, 1)
        for _ in range(3):
            await aq.note(3)
            await aq.event(both)
        await aq.irq.none(10)
        await aq.store(Reg.INTR_MASK, 0)
        sent = [beat["vector"] for beat in await aq.irq.take(both - 2)]
        assert sorted(sent) == sorted({3, both})
        await aq.irq.none(10)
    for _ in range(120):
        vector = rng.getrandbits(8)
        other = vector ^ rng.choice((0, 1 << rng.randrange(8), rng.getrandbits(8)))
        await aq.response_ring_up(vector=vector)
        drive(dut, s_note_valid=1, s_aenq_valid=1, s_cfg_aenq_vector=other)
        await RisingEdge(dut.clk)
        drive(dut, s_note_valid=0, s_aenq_valid=0)
        due = {vector, other}
        sent = [beat["vector"] for beat in await aq.irq.take(len(due))]
        assert sorted(sent) == sorted(due)
        await aq.irq.none(6)


@cocotb.test()
async def the_mask_holds_one_message(dut):
    """admin.aq.mask"""
    aq = Aq(dut, stalls=0.5)
    await clock_and_reset(dut)
    await aq.note(3)
    assert (await aq.irq.take()) == [{"vector": 3}]
    await aq.store(Reg.INTR_MASK, 1)
    for _ in range(5):
        await aq.note(4)
    await aq.irq.none(20)
    await aq.response_ring_up(vector=5)
    await aq.store(Reg.INTR_MASK, 0)
    assert (await aq.irq.take()) == [{"vector": 5}], (
        "the message must use the vector valid when it leaves"
    )
    await aq.irq.none(20)
    notes = 40
    for _ in range(notes):
        await aq.note(2)
        await RisingEdge(dut.clk)
    await ClockCycles(dut.clk, 30)
    assert 1 <= len(aq.irq.beats) <= notes


@cocotb.test()
@cocotb.parametrize(valid=["s_note_valid", "s_aenq_valid"])
async def one_comes_as_the_message_before_it_leaves(dut, valid):
    """admin.aq.beside: a write before the pending message leaves shares it; a write in that
    cycle or later gets its own message."""
    aq = Aq(dut)
    await clock_and_reset(dut)
    await aq.response_ring_up(vector=3)
    dut.s_cfg_aenq_vector.value = 4
    reported = []
    for cycles in range(5):
        await aq.store(Reg.INTR_MASK, 1)
        await pulse(dut, valid)
        await aq.irq.none(4)
        # The first message leaves in the cycle after this store.
        drive(dut, s_reg_wr_valid=1, s_reg_wr_offset=int(Reg.INTR_MASK), s_reg_wr_data=0)
        for cycle in range(6):
            getattr(dut, valid).value = int(cycle == cycles)
            await RisingEdge(dut.clk)
            dut.s_reg_wr_valid.value = 0
        await ClockCycles(dut.clk, 6)
        reported.append(len(aq.irq.beats))
        aq.irq.beats.clear()
    assert reported == [1, 2, 2, 2, 2]


@cocotb.test()
async def its_cycles(dut):
    """admin.aq.time"""
    aq = Aq(dut)
    await clock_and_reset(dut)
    await aq.ring_up()
    await aq.store(Reg.AQ_PROD_DB, 1)
    assert await until(dut, high(dut.m_aq_producer)) == timing("efa_aq", "ring").latency
    await aq.note(1)
    assert await until(dut, high(dut.m_irq_valid)) == timing("efa_aq", "note").latency


@cocotb.test()
async def reset_clears_rings_and_messages(dut):
    """admin.aq.reset"""
    aq = Aq(dut, stalls=1.0)
    await clock_and_reset(dut)
    await aq.ring_up()
    await aq.response_ring_up()
    await aq.store(Reg.AQ_PROD_DB, 5)
    await aq.note(1)
    await aq.store(Reg.INTR_MASK, 1)
    await aq.note(1)
    await reset(dut)
    assert (dut.m_cfg_rings_on.value, dut.m_irq_valid.value) == (0, 0)
    assert dut.m_aq_producer.value == 0
    await aq.response_ring_up()
    await aq.ring_up()
    await aq.idle()
    assert int(dut.m_cfg_aq_base.value) == 0 and dut.m_irq_valid.value == 0
    await aq.note(6)
    await until(dut, high(dut.m_irq_valid), cycles=4)
    assert dut.m_irq_vector.value == 6
