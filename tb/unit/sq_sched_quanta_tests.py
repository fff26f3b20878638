# SPDX-License-Identifier: Apache-2.0
"""Tests efa_sq_sched: deficit round robin to the flit, and the bounds of its delays."""

from itertools import groupby, permutations

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import INTERNAL, IoTxWqe128
from tb.lib.stream import clock_and_reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import hold, pulse, until, zero
from tb.unit.queue_bench import Pulses, Table
from tb.unit.sq_sched_bench import (
    ALL,
    INPUTS,
    RTS,
    Bench,
    ConsumedCounts,
    Queue,
    message,
    share_of_one,
)


class Backlog:
    """Models queues with permanent work, each with messages of its own size; records the consumed
    WQEs.

    Queue n has ring n of 512 lines, so a line identifies its queue; a WQE has the parity of its
    wrap. WQEs of queues in `wide` take two lines each.
    """

    LOG = 9

    def __init__(self, dut, flits, stalled=None, wide=()):
        self.dut, self.flits, self.wide = dut, flits, wide
        self.rng = rng_for("backlog")
        self.images = {
            qpn: INTERNAL.qpc.pack(live=1, state=RTS, sq_line=qpn << self.LOG,
                                   sq_log=self.LOG - (qpn in wide), wqe128=int(qpn in wide),
                                   srd=int(qpn == stalled))
            for qpn in flits
        }  # fmt: skip
        self.data = {qpn: [message(self.rng, size) for _ in range(5)]
                     for qpn, size in flits.items()}  # fmt: skip
        self.consumed = dict.fromkeys(flits, 0)
        self.trace = []

    async def start(self):
        dut = self.dut
        zero(dut, *INPUTS)
        dut.prod_rd_data.value, dut.m_void_ready.value = 0x7FFF, 1
        dut.m_item_ready.value = 0
        Table(dut, "qpc_rd_addr", "qpc_rd_data", lambda qpn: self.images.get(qpn, 0))
        ConsumedCounts(dut)
        await clock_and_reset(dut)
        for qpn in self.flits:
            await pulse(dut, "s_clear_valid", s_clear_qpn=qpn)
        cocotb.start_soon(self.memory())
        dut.m_item_ready.value = 1

    async def stalls(self, share):
        """Stalls the output in that share of the cycles."""
        while True:
            await RisingEdge(self.dut.clk)
            self.dut.m_item_ready.value = int(self.rng.random() >= share)

    async def looks(self, share):
        """Reschedules a queue that does not exist in about that share of the cycles."""
        absent = next(qpn for qpn in range(1 << len(self.dut.s_work_qpn)) if qpn not in self.flits)
        while True:
            await RisingEdge(self.dut.clk)
            if self.rng.random() < share:
                await hold(self.dut, "s_again_valid", "s_again_ready", s_again_qpn=absent)

    async def memory(self):
        dut, edge = self.dut, RisingEdge(self.dut.clk)
        field = INTERNAL.wqe_in.unpack
        while True:
            await edge
            if dut.m_item_valid.value == 1 and dut.m_item_ready.value == 1:
                item = field(int(dut.m_item_data.value))
                assert item.msg == self.consumed[item.qpn] and not item.incomplete
                self.consumed[item.qpn] += 1
                self.trace.append(item.qpn)
            if dut.line_rd_en.value == 1 and dut.line_rd_addr.value.is_resolvable:
                qpn, slot = divmod(int(dut.line_rd_addr.value), 1 << self.LOG)
                if qpn in self.consumed:
                    consumed, wide = self.consumed[qpn], qpn in self.wide
                    log, slot = self.LOG - wide, slot >> wide
                    count = consumed + (slot - consumed) % (1 << log)
                    dut.line_rd_data.value = self.data[qpn][slot % 5]
                    dut.line_rd_parity.value = ALL * (count >> log & 1)

    async def sent(self, flits):
        """Returns the trace of at least that many flits."""
        done, total = 0, 0
        while total < flits:
            await ClockCycles(self.dut.clk, 64)
            total += sum(self.flits[qpn] for qpn in self.trace[done:])
            done = len(self.trace)
        return self.trace


MIX = (1, 65, 2, 3, 65, 5, 9, 17, 33, 1)  # flits: 8 bytes to 4 KB


@cocotb.test()
@cocotb.parametrize((("count", "quanta"), [(2, 100), (7, 100), (63, 8)]))
async def queues_share_the_wire_in_flits(dut, count, quanta):
    """queue.sq_sched.fair: Queues with mixed sizes share the wire within 1 % of 100 quanta, beside
    a queue without contexts."""
    quantum = int(dut.QUANTUM.value)
    stalled = count
    flits = {qpn: MIX[qpn % len(MIX)] for qpn in range(count)}
    backlog = Backlog(dut, {**flits, stalled: 1}, stalled)
    await backlog.start()
    # The stalled queue gets its share of the contexts, none of which is freed.
    own = share_of_one()
    await pulse(dut, "s_work_valid", s_work_qpn=stalled)
    await until(dut, lambda: backlog.consumed[stalled] == own, "its contexts", 3000)
    for qpn in flits:
        await pulse(dut, "s_work_valid", s_work_qpn=qpn)
    window = quanta * count * quantum
    trace = await backlog.sent(own + window + 2 * quantum * count)
    assert backlog.consumed[stalled] == own
    start = own + backlog.rng.randrange(count * quantum // 8)
    order = np.array(trace[start:])
    size = np.array([flits.get(qpn, 0) for qpn in range(count + 1)])[order]
    size = size[: np.searchsorted(np.cumsum(size), window) + 1]
    sent = np.array([np.cumsum(size * (order[: len(size)] == qpn)) for qpn in flits])
    off = sent[:, -1] - quanta * quantum
    dut._log.info("%d queues, flits from their share: %s", count, off)
    assert abs(off).max() <= quantum, off
    # Between any two queues the difference in sent flits stays within the specified bound, over any
    # interval.
    bound = quantum // 10 + 2 * (max(flits.values()) - 1)
    assert bound <= quantum, "more than 1 % of 100 quanta"
    for one, other in permutations(range(count), 2):
        ahead = sent[one] - sent[other]
        gained = (ahead - np.minimum.accumulate(ahead)).max()
        assert gained <= bound, (one, other, gained)


def turns_of(flits, turn, entries):
    """Returns the order of service of queues with permanent work: each quantum is reduced by the
    deficit of its queue, then WQEs are consumed until the quantum is used up."""
    deficits, order = dict.fromkeys(flits, 0), []
    while len(order) < entries:
        for qpn, size in flits.items():
            left = turn - deficits[qpn]
            while left > 0:
                order.append(qpn)
                left -= size
            deficits[qpn] = -left
    return order[:entries]


@cocotb.test()
@cocotb.parametrize(
    (("stalls", "draw", "looks"),
     [(0.0, 1, 0), (0.0, 2, 0), (0.4, 3, 0), (0.4, 4, 0), (0.0, 5, 0.3)])
)  # fmt: skip
async def turns_are_as_long_as_promised(dut, stalls, draw, looks):
    """queue.sq_sched.exact: WQEs of any size, narrow and wide, are consumed in the exact order of
    deficit round robin.

    A rescheduled queue may arrive between the two lines of a wide WQE.
    """
    rng = rng_for(f"exact{draw}")
    turn = int(dut.QUANTUM.value) // 10
    numbers = sorted(rng.sample(range(1 << len(dut.s_work_qpn)), 6))
    flits = {qpn: rng.choice((1, 2, 7, turn, turn + 1, 2 * turn + 4, 65, rng.randrange(1, 66)))
             for qpn in numbers}  # fmt: skip
    # The first queue has work before the others, so its messages are short.
    flits[numbers[0]] = 1
    backlog = Backlog(dut, flits, wide=rng.sample(numbers[1:], 3))
    await backlog.start()
    dut.m_item_ready.value = 0
    for qpn in numbers:
        await pulse(dut, "s_work_valid", s_work_qpn=qpn)
    await ClockCycles(dut.clk, 10)
    dut.m_item_ready.value = 1
    if stalls:
        cocotb.start_soon(backlog.stalls(stalls))
    if looks:
        cocotb.start_soon(backlog.looks(looks))
    await until(dut, lambda: len(backlog.trace) >= 600, "WQEs", 4000)
    assert backlog.trace[:600] == turns_of(flits, turn, 600)


@cocotb.test()
async def turns_alternate_between_two_queues(dut):
    """queue.sq_sched.pairs: Two queues whose numbers differ in one bit alternate with equal quanta,
    for each bit."""
    bench = Bench(dut)
    await bench.start()
    turn = int(dut.QUANTUM.value) // 10
    width = len(dut.s_work_qpn)
    for qpn in (0, (1 << width) - 1):
        for bit in range(width):
            pair = Queue(qpn, 0, 6, srd=0), Queue(qpn ^ 1 << bit, 64, 6, srd=0)
            for queue in pair:
                await bench.make(queue)
            before = len(bench.order)
            for queue in pair:
                await bench.post(queue, 3 * turn, flits=1)
            await bench.finished()
            runs = [len(list(group)) for _, group in groupby(bench.order[before:])]
            assert runs == [turn] * 6, (qpn, bit, runs)


@cocotb.test()
async def a_message_that_is_too_long_counts_as_one_flit(dut):
    """queue.sq_sched.long: A message with any length bit beyond the MTU, in either buffer, counts
    as one flit."""
    bench = Bench(dut)
    await bench.start()
    turn = int(dut.QUANTUM.value) // 10
    tops = range(13, 32)
    for place in range(2):
        bad, other = Queue(3, 0, 5, srd=0), Queue(4, 64, 5, srd=0)
        for queue in (bad, other):
            await bench.make(queue)
        before = len(bench.order)
        for top in tops:
            wqe = IoTxWqe128()
            wqe.meta.length = place + 1
            # Bits below 13 alone encode a valid length of many flits.
            wqe.data.sgl[place].length = 1 << top | 0x1000
            bench.write(bad, first=int.from_bytes(bytes(wqe.pack())[:64], "little"))
        await bench.ring(bad)
        await bench.post(other, 2 * turn, flits=1)
        await bench.finished()
        runs = [(n, len(list(group))) for n, group in groupby(bench.order[before:])]
        left = len(tops) - turn
        assert runs == [(3, turn), (4, turn), (3, left), (4, turn)], (place, runs)


@cocotb.test()
async def a_flush_takes_its_turns(dut):
    """queue.sq_sched.flush: A flushed WQE counts as one flit against the quantum of its queue."""
    bench = Bench(dut)
    await bench.start()
    turn = int(dut.QUANTUM.value) // 10
    dead, other = Queue(6, 0, 7, srd=0), Queue(7, 256, 7, srd=0)
    for queue in (dead, other):
        await bench.make(queue)
    bench.fail(dead)
    await until(dut, lambda: dead.flushing, "the flush", 500)
    await bench.post(other, 100, flits=1)
    await bench.post(dead, 100)
    before = len(bench.order)
    await bench.finished()
    runs = [(n, len(list(group))) for n, group in groupby(bench.order[before:])]
    assert max(length for _, length in runs[1:-2]) == turn


@cocotb.test()
async def no_queue_waits_longer_than_its_bound(dut):
    """queue.sq_sched.wait: Every queue waits at most for the specified bound, with long and short
    messages on all queues."""
    turn = int(dut.QUANTUM.value) // 10
    count = 1 << len(dut.s_work_qpn)
    longest = 65
    flits = {qpn: longest if qpn % 4 else 1 for qpn in range(count)}
    backlog = Backlog(dut, flits)
    await backlog.start()
    for qpn in flits:
        await pulse(dut, "s_work_valid", s_work_qpn=qpn)
    rounds = 1 + -(-(longest - 1) // turn)
    bound = count * rounds * (2 * turn + 6)
    seen, last, worst = 0, dict.fromkeys(flits, 0), 0
    for now in range(4 * bound // rounds):
        await RisingEdge(dut.clk)
        for qpn in backlog.trace[seen:]:
            worst = max(worst, now - last[qpn])
            last[qpn] = now
        seen = len(backlog.trace)
    worst = max(worst, *(now - at for at in last.values()))
    dut._log.info("longest wait %d cycles of at most %d", worst, bound)
    assert 2 * count < worst <= bound
    # Quanta that only reduce a deficit do not delay the other queues.
    turns = [a for a, b in zip(backlog.trace, [None, *backlog.trace], strict=False) if a != b]
    assert turns.count(0) >= 4


@cocotb.test()
async def a_queue_alone_is_not_held_up(dut):
    """queue.sq_sched.alone: A queue without competitors is never delayed by its deficit; with a
    competitor the deficit applies."""
    bench = Bench(dut)
    await bench.start()
    beats = Pulses(dut, "m_item", "data")
    numbers = bench.rng.sample(range(1 << len(dut.s_work_qpn)), 2)
    alone, other = (Queue(n, 128 * at, 6, srd=0) for at, n in enumerate(numbers))
    for queue in (alone, other):
        await bench.make(queue)
    await bench.post(alone, 40, flits=65)
    await bench.finished()
    cycles = [beat[0] for beat in beats.seen]
    assert cycles[-1] - cycles[0] == 39
    for _ in range(3):
        beats.seen.clear()
        doorbells = await bench.post(alone, 1, flits=65)
        await bench.finished()
        assert beats.seen[0][0] - doorbells == timing("efa_sq_sched", "entry").latency
    # The deficit is 64 flits, that is four quanta of the other queue.
    await bench.post(other, 64, flits=1)
    await bench.post(other, 0)
    before = len(bench.order)
    await until(dut, lambda: len(bench.order) > before + 2, "the quantum of the other queue")
    await bench.post(alone, 2, flits=65)
    await bench.finished()
    assert bench.order[before:].count(other.qpn) == 64 and bench.order[-1] == alone.qpn


@cocotb.test()
async def a_queue_made_anew_owes_nothing(dut):
    """queue.sq_sched.deficit: A restarted queue has no deficit, even when cleared beside WQEs of
    another queue."""
    bench = Bench(dut)
    await bench.start()
    turn = int(dut.QUANTUM.value) // 10
    other = Queue(5, 1024, 9, srd=0)
    await bench.make(other)
    for wait in range(8):
        queue = Queue(9, 0, 3, srd=0)
        await bench.make(queue)
        await bench.post(other, bench.space(other), flits=1)
        await bench.post(queue, 1, flits=65)
        await until(dut, lambda queue=queue: queue.consumed == 1, "the long message")
        await ClockCycles(dut.clk, wait)
        await bench.make(queue)
        before = len(bench.order)
        await bench.post(queue, 1, flits=1)
        await until(dut, lambda queue=queue: queue.consumed == 1, "its first WQE")
        assert len(bench.order) - before < 2 * turn
    await bench.finished()


@cocotb.test()
async def a_queue_that_ran_empty_owes_nothing(dut):
    """queue.sq_sched.empty: A queue whose last visit did not use up its quantum has a whole quantum
    in the next one."""
    bench = Bench(dut)
    await bench.start()
    turn = int(dut.QUANTUM.value) // 10
    pair = [Queue(n, 512 * n, 8, srd=0) for n in (3, 4)]
    for queue in pair:
        await bench.make(queue)
    for _ in range(6):
        for queue in pair:
            await bench.post(queue, bench.rng.randrange(1, turn), flits=1)
            await bench.finished()
        before = len(bench.order)
        for queue in pair:
            await bench.post(queue, 4 * turn, flits=1)
        await bench.finished()
        # The first queue was alone for some cycles.
        turns = [len(list(group)) for _, group in groupby(bench.order[before:])]
        assert turns[1:-2] == [turn] * len(turns[1:-2]) and len(turns) >= 6, turns


@cocotb.test()
async def a_doorbell_within_the_visit_waits_for_its_deficit(dut):
    """queue.sq_sched.doorbell: A queue with a doorbell during its visit starts the next visit with
    the deficit of the one that just ended, if another queue waits by then."""
    bench = Bench(dut)
    await bench.start()
    turn, latency = int(dut.QUANTUM.value) // 10, timing("efa_sq_sched", "entry").latency
    one, other = Queue(3, 0, 6, srd=0), Queue(4, 512, 7, srd=0)
    for between, wait in ((0, 0), (0, 1), (1, 0)):
        for queue in (one, other):
            await bench.make(queue)
        await ClockCycles(dut.clk, 10)
        before = len(bench.order)
        first = await bench.post(one, 1, flits=4 * turn + 1)
        for _ in range(between):
            await RisingEdge(dut.clk)
        await bench.post(one, 1, flits=1)
        for _ in range(64):
            bench.write(other, 0, 1)
        for _ in range(wait):
            await RisingEdge(dut.clk)
        assert await bench.ring(other) - first <= latency
        await bench.finished()
        order = bench.order[before:]
        # The deficit is three quanta and a flit: the first is that of the visit.
        assert order[0] == one.qpn and order[1:].index(one.qpn) == 3 * turn, (between, wait)


@cocotb.test()
async def turns_go_around(dut):
    """queue.sq_sched.quanta: Quanta of TURN flits alternate in round robin; a late queue waits at
    most one round."""
    bench = Bench(dut)
    await bench.start()
    turn = int(dut.QUANTUM.value) // 10
    queues = [Queue(n, 128 * n, 6, srd=0) for n in range(4)]
    for queue in queues:
        await bench.make(queue)
    for queue in queues:
        await bench.post(queue, turn + 1, flits=1)
    late = Queue(9, 1024, 0, srd=0)
    await bench.make(late)
    for wrap in range(3):
        await until(dut, lambda wrap=wrap: len(bench.order) >= 4 * turn * wrap + 9, "a round")
        for queue in queues:
            await bench.post(queue, turn, flits=1)
    posted = len(bench.order)
    await bench.post(late, 1, flits=1)
    await bench.finished()
    at = bench.order.index(9)
    assert posted < at <= posted + 6 * turn
    bench.order.remove(9)
    turns = [(n, len(list(group))) for n, group in groupby(bench.order)]
    assert all(length <= turn for _, length in turns)
    assert [n for n, _ in turns[:16]] == [*range(4)] * 4
