# SPDX-License-Identifier: Apache-2.0
"""Tests efa_rq_index: doorbell validation, count reads, rings that restart."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge, Timer

from tb.lib.stream import clock_and_reset, cycle, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, high, pulse, until, zero
from tb.unit.queue_bench import Pulses, RefCounts, lanes

DOORBELL, READ = (timing("efa_rq_index", path) for path in ("doorbell", "read"))
WRAP = 65536


class Ring:
    """Models a ring with unbounded counts; size 0 means no ring."""

    def __init__(self, size):
        self.size = size
        self.prod = self.cons = self.done = 0

    def check(self, value):
        """Validates a doorbell as in decision 0001 (new <= depth - (producer - completed)) and
        applies it."""
        new = (value - self.prod) % WRAP
        valid = new <= self.size - (self.prod - self.done)
        if valid:
            self.prod += new
        return valid, valid and new > 0


class RefModel:
    """Models the rings: checks each doorbell against the reports of earlier cycles, and both
    readers."""

    def __init__(self, dut):
        self.dut, self.wide = dut, len(dut.s_rqdb_qpn)
        self.forget()
        self.seen = {"move": 0, "wrong": 0, "same": 0, "clear": 0}

    def forget(self):
        """Sets the state after a reset."""
        self.rings, self.pipe, self.requested, self.taken = {}, [], None, None
        self.prods, self.conss = RefCounts(), RefCounts()

    async def run(self):
        while True:
            await RisingEdge(self.dut.clk)
            if self.dut.rst.value == 1 or self.dut.m_init_done.value == 0:
                self.forget()
            else:
                self._cycle()

    def _cycle(self):
        dut = self.dut
        # Outputs of earlier inputs.
        due = self.pipe.pop(0) if len(self.pipe) == DOORBELL.latency else None
        move, wrong, qpn, _ = due or (False, False, 0, 0)
        assert (dut.m_move_valid.value, dut.m_wrong_valid.value) == (int(move), int(wrong)), cycle()
        if move or wrong:
            assert dut.m_doorbell_qpn.value == qpn
        if self.requested is not None:
            got = int(dut.prod_rd_data.value), int(dut.cons_rd_data.value)
            assert got == self.requested, cycle()
        # A moved index is readable in the cycle of its report, a claim one cycle later.
        moved, taken, self.taken = due[2:] if move else None, self.taken, None
        # Inputs of this edge.
        message = cleared = None
        if dut.s_rqdb_valid.value == 1:
            at = int(dut.s_rqdb_qpn.value)
            valid, moves = self.rings[at].check(int(dut.s_rqdb_value.value))
            message = moves, not valid, at, self.rings[at].prod % WRAP
            self.seen["move" if moves else "same" if valid else "wrong"] += 1
        self.pipe.append(message)
        if dut.s_done_valid.value == 1:
            self.rings[int(dut.s_done_qpn.value)].done += int(dut.s_done_count.value)
        if dut.s_take_valid.value == 1:
            at = int(dut.s_take_qpn.value)
            ring = self.rings[at]
            ring.cons += (int(dut.s_take_value.value) - ring.cons) % WRAP
            self.taken = at, ring.cons % WRAP
        if dut.s_clear_valid.value == 1:
            cleared = at = int(dut.s_clear_qpn.value)
            size = self.rings[at].size if at in self.rings else 0
            if dut.s_clear_sized.value == 1:
                size = int(dut.s_clear_live.value) << int(dut.s_clear_log.value)
            self.rings[at] = Ring(size)
            if self.taken and self.taken[0] == at:
                self.taken = None
            self.seen["clear"] += 1
        self.prods.update(moved, cleared)
        self.conss.update(taken, cleared)
        requested = int(dut.ring_rd_addr.value)
        rings = [requested >> self.wide * lane & (1 << self.wide) - 1 for lane in range(2)]
        self.requested = tuple(lanes([counts[ring] for ring in rings], 16)
                               for counts in (self.prods, self.conss))  # fmt: skip


async def start(dut, watched=True):
    zero(dut, "s_rqdb_valid", "s_take_valid", "s_done_valid", "s_clear_valid", "ring_rd_addr")
    await clock_and_reset(dut)
    await until(dut, high(dut.m_init_done))
    account = RefModel(dut)
    if watched:
        cocotb.start_soon(account.run())
    return account


async def clear(dut, qpn, log=None, live=1):
    """Clears a ring, with its old size or a new one, and waits for the reference model."""
    dut.s_clear_sized.value, dut.s_clear_live.value = int(log is not None), live
    dut.s_clear_log.value = log or 0
    await pulse(dut, "s_clear_valid", s_clear_qpn=qpn)
    # Without valid the other fields are don't-care.
    rng = rng_for(f"cleared{qpn}")
    drive(dut, s_clear_sized=1, s_clear_live=rng.getrandbits(1), s_clear_log=rng.randrange(13))
    await RisingEdge(dut.clk)


@cocotb.test()
@cocotb.parametrize(rate=[0.3, 0.9])
async def doorbells_are_checked_by_the_rule(dut, rate):
    """queue.rq_index.rule: Random doorbells, consumption, completions and clears follow the rule,
    with two readers beside."""
    account = await start(dut)
    rng = rng_for("rq_index")
    sizes = {0: 0, 3: 1, 4: 2, 5: 8, 6: 64, 62: 4096, 63: 4096}
    for qpn, size in sizes.items():
        await clear(dut, qpn, max(0, size.bit_length() - 1), int(size > 0))
    held, cycles_to_clear = None, 0
    for _ in range(4000):
        # A ring gets no traffic before and during its clear.
        if held is None and rng.random() < 0.02:
            held, cycles_to_clear = rng.choice(list(sizes)), 3
        qpn = rng.choice(list(sizes)) if rng.random() < 0.3 else 5 + 58 * rng.getrandbits(1)
        ring = account.rings[qpn]
        space = ring.size - (ring.prod - ring.done)
        step = rng.choice((0, 1, 2, space, space, space + 1, rng.randrange(space + 1), -1,
                           rng.randrange(WRAP)))  # fmt: skip
        dut.s_rqdb_valid.value = int(rng.random() < rate and qpn != held)
        dut.s_rqdb_qpn.value, dut.s_rqdb_value.value = qpn, (ring.prod + step) % WRAP
        for name in ("s_take", "s_done"):
            at = rng.choice((3, 4, 5, 5, 6, 62, 63, 63))
            ring = account.rings[at]
            left = ring.prod - ring.cons if name == "s_take" else ring.cons - ring.done
            count = min(left, rng.randrange(1, 4000 if name == "s_take" else 4))
            go = rng.random() < rate and at != held and count > 0
            getattr(dut, name + "_valid").value = int(go)
            getattr(dut, name + "_qpn").value = at
            if name == "s_take":
                dut.s_take_value.value = (ring.cons + count) % WRAP
            else:
                dut.s_done_count.value = count
        dut.ring_rd_addr.value = rng.choice(list(sizes)) << account.wide | rng.choice((5, 63, 62))
        if held is not None:
            cycles_to_clear -= 1
            if cycles_to_clear == 0:
                dut.s_clear_sized.value = resized = rng.getrandbits(1)
                size = sizes[held] if resized else 0
                dut.s_clear_valid.value, dut.s_clear_qpn.value = 1, held
                dut.s_clear_live.value = int(size > 0)
                dut.s_clear_log.value = max(0, size.bit_length() - 1)
        await RisingEdge(dut.clk)
        # The reference model samples the same inputs first.
        await Timer(1, "ns")
        if held is not None and dut.s_clear_valid.value == 1:
            held, dut.s_clear_valid.value = None, 0
    assert min(account.seen.values()) > 20, account.seen


@cocotb.test()
async def a_ring_fills_to_its_last_entry(dut):
    """queue.rq_index.full: A ring of every size accepts doorbells up to its depth and refuses one
    more, at any count and beside completions."""
    account = await start(dut)
    rng = rng_for("full")
    for log in range(13):
        await clear(dut, 3 * log, log)
        for value in (1 << log, (1 << log) + 1):
            await pulse(dut, "s_rqdb_valid", s_rqdb_qpn=3 * log, s_rqdb_value=value)
            await ClockCycles(dut.clk, 3)
    assert (account.seen["move"], account.seen["wrong"]) == (13, 13)
    ring = account.rings[36]
    dut.s_done_qpn.value = dut.s_rqdb_qpn.value = 36
    dut.s_done_valid.value = dut.s_rqdb_valid.value = 1
    for _ in range(11000):
        dut.s_done_count.value = min(rng.choice((0, 3, 3)), ring.prod - ring.done)
        dut.s_rqdb_value.value = (ring.done + 4096 + rng.choice((-2, -1, 0, 0, 1))) % WRAP
        await RisingEdge(dut.clk)
        await Timer(1, "ns")
    assert ring.done > 1 << 14


@cocotb.test()
async def counts_go_through_their_wrap(dut):
    """queue.rq_index.wrap: All three counts wrap; the depth limit stays exact."""
    await start(dut, watched=False)
    await clear(dut, 9, 12)
    done = 0
    dut.s_done_qpn.value, dut.s_done_count.value = 9, 3
    dut.ring_rd_addr.value = 9 << len(dut.s_rqdb_qpn) | 9
    while done < WRAP + 6000:
        top = done + 4096
        for value, moves in ((top + 1, 0), (top, 1), (top - 1, 0), (top, 0)):
            await pulse(dut, "s_rqdb_valid", s_rqdb_qpn=9, s_rqdb_value=value % WRAP)
            await ClockCycles(dut.clk, DOORBELL.latency)
            assert dut.m_move_valid.value == moves
            assert dut.m_wrong_valid.value == int(value != top)
        await pulse(dut, "s_take_valid", s_take_qpn=9, s_take_value=top % WRAP)
        dut.s_done_valid.value = 1
        await ClockCycles(dut.clk, 1300)
        dut.s_done_valid.value = 0
        done += 3 * 1300
        await ClockCycles(dut.clk, 2)
        for counts in (dut.prod_rd_data, dut.cons_rd_data):
            assert int(counts.value) == top % WRAP << 16 | top % WRAP


@cocotb.test()
async def doorbells_and_reads_take_their_time(dut):
    """queue.rq_index.cycles: Doorbells of one ring are validated one per cycle, and a completion
    counts for a doorbell one cycle later; a clear does not wait for other traffic."""
    account = await start(dut)
    moves = Pulses(dut, "m_move")
    await clear(dut, 1, 3)
    assert account.seen["clear"] == 1
    started = cycle() + 1
    for number in range(8):
        dut.s_rqdb_valid.value, dut.s_rqdb_qpn.value, dut.s_rqdb_value.value = 1, 1, number + 1
        await RisingEdge(dut.clk)
    # The ring is full: a doorbell one cycle after the completion that frees a place is the first
    # valid doorbell.
    dut.s_done_count.value = 1
    dut.s_done_qpn.value, dut.s_done_valid.value = 1, 1
    dut.s_rqdb_value.value = 9
    await RisingEdge(dut.clk)
    dut.s_done_valid.value = 0
    await RisingEdge(dut.clk)
    zero(dut, "s_rqdb_valid")
    await ClockCycles(dut.clk, 4)
    first = started + DOORBELL.latency
    assert [at for at, *_ in moves.seen] == [
        *range(first, first + 8 * DOORBELL.interval, DOORBELL.interval), first + 9]  # fmt: skip
    assert account.seen["wrong"] == 1
    # Reads: one ring per cycle; the reference model checks the latency of one cycle.
    assert READ.latency == READ.interval == 1
    # Rings are cleared in cycles with consumption, completions and doorbells of another ring; the
    # reference model checks the counts of both.
    dut.s_clear_sized.value = 0
    dut.s_take_qpn.value = dut.s_done_qpn.value = dut.s_rqdb_qpn.value = 1
    dut.s_take_valid.value = dut.s_done_valid.value = dut.s_rqdb_valid.value = 1
    for number in range(1, 5):
        dut.ring_rd_addr.value = 1 << account.wide | 2
        dut.s_take_value.value, dut.s_rqdb_value.value = number, 9 + number
        dut.s_clear_valid.value, dut.s_clear_qpn.value = number % 2, 2
        await RisingEdge(dut.clk)
    zero(dut, "s_take_valid", "s_done_valid", "s_rqdb_valid", "s_clear_valid")
    await ClockCycles(dut.clk, 4)


@cocotb.test()
async def a_claim_in_the_cycle_of_a_clear(dut):
    """queue.rq_index.clear: A clear drops a claim of its ring in its cycle and in the one before,
    and no claim of a ring whose number differs in one bit."""
    account = await start(dut)
    rng, wide = rng_for("clear"), account.wide
    rings = range(1 << wide)
    for qpn in rings:
        await clear(dut, qpn, 4)
    dut.s_clear_sized.value = 0
    for at in range(40 * wide):
        one = rng.choice(rings)
        other = one ^ 1 << at % wide
        dut.ring_rd_addr.value = other << wide | one
        for lead in range(3):
            dut.s_take_valid.value = int(rng.random() < 0.8)
            dut.s_take_qpn.value = rng.choice((one, other))
            dut.s_take_value.value = rng.randrange(1, WRAP)
            dut.s_clear_valid.value, dut.s_clear_qpn.value = int(lead == 1), one
            await RisingEdge(dut.clk)
        zero(dut, "s_take_valid")
        await ClockCycles(dut.clk, 2)


@cocotb.test()
async def reset_clears_what_was_under_way(dut):
    """queue.rq_index.reset: A reset discards doorbells in progress; rings restart when cleared."""
    account = await start(dut)
    for lead in range(4):
        dut.ring_rd_addr.value = 7 << account.wide | 7
        await clear(dut, 7, 4)
        dut.s_rqdb_valid.value, dut.s_rqdb_qpn.value = 1, 7
        dut.s_rqdb_value.value = 5 + 20 * (lead % 2)
        dut.s_done_valid.value, dut.s_done_qpn.value, dut.s_done_count.value = 1, 7, lead
        dut.s_take_valid.value, dut.s_take_qpn.value, dut.s_take_value.value = 1, 7, 3
        await ClockCycles(dut.clk, 1 + lead // 2)
        # The reset ends in the cycle after the last inputs.
        dut.rst.value = 1
        await RisingEdge(dut.clk)
        dut.rst.value = 0
        zero(dut, "s_rqdb_valid", "s_done_valid", "s_take_valid")
        await RisingEdge(dut.clk)
        for _ in range(4):
            assert dut.m_move_valid.value == dut.m_wrong_valid.value == 0
            await RisingEdge(dut.clk)
        await until(dut, high(dut.m_init_done))
        # The reference model checks that the counts are 0 before the ring is cleared too.
        await clear(dut, 8, 4)
        await clear(dut, 7, 4)
        for value in (16, 17):
            await pulse(dut, "s_rqdb_valid", s_rqdb_qpn=7, s_rqdb_value=value)
        await ClockCycles(dut.clk, 4)
    assert account.seen["wrong"] >= 4
