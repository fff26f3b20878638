"""efa_aq: ring set-up, every doorbell judged, the messages that INTR_MASK holds back."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa.defs import LIMITS, REG_BITS, Reg
from tb.lib.stream import StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, high, until

ODD_AQ = 1


class Aq:
    def __init__(self, dut, stalls=0.0):
        self.dut = dut
        drive(dut, reg_wr_valid=0, reg_wr_offset=0, reg_wr_data=0, aq_taken=0, s_note_valid=0,
              s_aenq_valid=0, aenq_vector=0)  # fmt: skip
        self.irq = StreamMonitor(dut, "irq", stalls, ["vector"])
        self.odd = StreamMonitor(dut, "ev_odd", fields=["data"])

    async def store(self, register, value):
        drive(self.dut, reg_wr_valid=1, reg_wr_offset=int(register), reg_wr_data=value)
        await RisingEdge(self.dut.clk)
        self.dut.reg_wr_valid.value = 0

    async def ring_up(self, depth=16, size=64):
        await self.store(Reg.AQ_CAPS, REG_BITS.AQ_CAPS.pack(AQ_DEPTH=depth, AQ_ENTRY_SIZE=size))

    async def answer_ring_up(self, depth=16, size=64, vector=0):
        await self.store(Reg.ACQ_CAPS, REG_BITS.ACQ_CAPS.pack(
            ACQ_DEPTH=depth, ACQ_ENTRY_SIZE=size, ACQ_MSIX_VECTOR=vector))  # fmt: skip

    async def note(self, vector):
        """A response was written; the ring's vector is this one."""
        await self.answer_ring_up(vector=vector)
        self.dut.s_note_valid.value = 1
        await RisingEdge(self.dut.clk)
        self.dut.s_note_valid.value = 0

    async def event(self, vector):
        drive(self.dut, s_aenq_valid=1, aenq_vector=vector)
        await RisingEdge(self.dut.clk)
        self.dut.s_aenq_valid.value = 0

    async def taken(self, count):
        self.dut.aq_taken.value = 1
        await ClockCycles(self.dut.clk, count)
        self.dut.aq_taken.value = 0

    async def settled(self):
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
    for depth, size, legal in ((16, 64, 1), (24, 64, 0), (1, 64, 1), (0, 64, 0), (16, 128, 1),
                               (8, 192, 0),
                               (LIMITS.max_aq_depth, 64, 1), (2 * LIMITS.max_aq_depth, 64, 0),
                               (32768, 64, 0), (16, 0, 0), (2, 64, 1)):  # fmt: skip
        await aq.ring_up(depth, size)
        await aq.answer_ring_up(depth, size & 0xFF, 5)
        assert dut.aq_start.value == legal and dut.rings_on.value == 0
        await RisingEdge(dut.clk)
        assert dut.acq_start.value == (legal and size == 64) and dut.aq_start.value == 0
        await RisingEdge(dut.clk)
        assert dut.acq_start.value == 0
        of_acq = legal and size == 64
        assert (dut.rings_on.value, dut.acq_on.value) == (of_acq, of_acq), (depth, size)
        if legal:
            assert dut.aq_wide.value == (size == 128) and 1 << int(dut.aq_log.value) == depth
        if of_acq:
            assert 1 << int(dut.aq_log.value) == 1 << int(dut.acq_log.value) == depth
            assert int(dut.aq_base.value) == 0x0004_4567_89AB_C000
            assert int(dut.acq_base.value) == 0x7_1234_5000
        await aq.ring_up(0)
        await aq.settled()
        assert dut.rings_on.value == 0 and dut.acq_on.value == of_acq
        await aq.answer_ring_up(0)
    await aq.store(Reg.AQ_BASE_LO, 0)
    await aq.settled()
    assert int(dut.aq_base.value) == 0x0004_4567_89AB_C000, "latched with AQ_CAPS only"


@cocotb.test()
async def doorbells_by_the_rule(dut):
    """admin.aq.doorbell: random counts against the formula; a refused one moves nothing."""
    aq, rng = Aq(dut), rng_for("aq")
    await clock_and_reset(dut)
    await aq.store(Reg.AQ_PROD_DB, 1)
    assert (await aq.odd.take())[0]["data"] == ODD_AQ | 1 << 4, "no ring yet"
    assert int(dut.aq_producer.value) == 0
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
            beat = (await aq.odd.take())[0]["data"]
            assert beat == ODD_AQ | value << 4, hex(beat)
        await RisingEdge(dut.clk)
        assert int(dut.aq_producer.value) == producer
        waiting = (producer - fetched) % 65536
        if waiting and rng.random() < 0.7:
            count = rng.randrange(1, waiting + 1)
            await aq.taken(count)
            fetched = (fetched + count) % 65536
    assert refused > 50 and not aq.odd.beats


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
        await aq.taken(depth)
        assert int(dut.aq_producer.value) == turn * depth % 65536
    await aq.settled()
    assert len(aq.odd.beats) == 65536 // depth + 2, "one beyond a full ring, each time"
    await aq.ring_up(depth)
    await aq.settled()
    assert int(dut.aq_producer.value) == 0


@cocotb.test()
async def responses_and_events_share_the_mask(dut):
    """admin.aq.events: masked one message a vector is held, whoever it is for; none is lost."""
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
    for _ in range(60):
        vector = rng.randrange(8)
        await aq.answer_ring_up(vector=vector)
        drive(dut, s_note_valid=1, s_aenq_valid=1, aenq_vector=7 - vector)
        await RisingEdge(dut.clk)
        drive(dut, s_note_valid=0, s_aenq_valid=0)
        sent = [beat["vector"] for beat in await aq.irq.take(2)]
        assert sorted(sent) == sorted([vector, 7 - vector])
    await aq.irq.none(10)


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
    await aq.answer_ring_up(vector=5)
    await aq.store(Reg.INTR_MASK, 0)
    assert (await aq.irq.take()) == [{"vector": 5}], "the one that is set up when it leaves"
    await aq.irq.none(20)
    notes = 40
    for _ in range(notes):
        await aq.note(2)
        await RisingEdge(dut.clk)
    await ClockCycles(dut.clk, 30)
    assert 1 <= len(aq.irq.beats) <= notes


@cocotb.test()
async def its_cycles(dut):
    """admin.aq.time"""
    aq = Aq(dut)
    await clock_and_reset(dut)
    await aq.ring_up()
    await aq.store(Reg.AQ_PROD_DB, 1)
    assert await until(dut, high(dut.aq_producer)) == timing("efa_aq", "ring").latency
    await aq.note(1)
    assert await until(dut, high(dut.irq_valid)) == timing("efa_aq", "note").latency


@cocotb.test()
async def reset_forgets_rings_and_messages(dut):
    """admin.aq.reset"""
    aq = Aq(dut, stalls=1.0)
    await clock_and_reset(dut)
    await aq.ring_up()
    await aq.answer_ring_up()
    await aq.store(Reg.AQ_PROD_DB, 5)
    await aq.note(1)
    await aq.store(Reg.INTR_MASK, 1)
    await aq.note(1)
    await reset(dut)
    assert (dut.rings_on.value, dut.irq_valid.value, int(dut.aq_producer.value)) == (0, 0, 0)
    await aq.answer_ring_up()
    await aq.ring_up()
    await aq.settled()
    assert int(dut.aq_base.value) == 0 and dut.irq_valid.value == 0
    await aq.note(6)
    await until(dut, high(dut.irq_valid), cycles=4)
    assert dut.irq_vector.value == 6
