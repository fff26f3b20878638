# SPDX-License-Identifier: Apache-2.0
"""efa_sq_fetch: entries fetched once, in order, after their doorbell; published as they come."""

import itertools
from collections import deque

import cocotb
from cocotb.triggers import RisingEdge, Timer

from efa.defs import INTERNAL, AdminQpState
from tb.lib.noise import noise
from tb.lib.stream import clock_and_reset, cycle, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import zero

STATES = AdminQpState
OPEN = (STATES.RTS, STATES.SQD, STATES.SQE, STATES.ERR)
READ, AGAIN, DRAIN, WAITS = (
    timing("efa_sq_fetch", path) for path in ("read", "again", "drain", "waits")
)
BEAT, LATER, LATER_SMALL = (
    timing("efa_sq_order", path) for path in ("beat", "later", "later_small")
)
INPUTS = ("rung_valid", "rung_qpn", "s_chg_valid", "s_chg_qpn", "qpc_data", "prod_data",
          "s_clear_valid", "s_clear_qpn", "s_clear_made", "s_clear_base", "s_drain", "s_waits",
          "m_rd_ready", "rdc_valid", "rdc_cookie", "rdc_offset", "rdc_bytes", "rdc_last", "rdc_err",
          "count_addr")  # fmt: skip
LINE = 64


class Queue:
    """A send queue as the host and the scheduler know it; counts are not cut to 16 bits."""

    def __init__(self, qpn, base, log, wide=0, page=None, state=STATES.RTS):
        self.qpn, self.base, self.log, self.wide, self.state = qpn, base, log, wide, state
        self.line = LINE * (qpn if page is None else page)
        self.live, self.rest = 1, noise(INTERNAL.qpc, rng_for(f"queue{qpn}"))
        self.begin()

    def begin(self):
        """Rung and seen by the scheduler, in entries; asked for and come, in lines."""
        self.prod = self.seen = self.asked = self.come = 0
        self.there, self.failed, self.told, self.heard, self.began = set(), [], 0, 0, None

    @property
    def image(self):
        fields = {"live": self.live, "state": self.state, "sq_line": self.line, "sq_log": self.log,
                  "wqe128": self.wide}  # fmt: skip
        return INTERNAL.qpc.pack(**(self.rest | fields))

    @property
    def lines(self):
        return 1 << self.log + self.wide

    def room(self):
        return (1 << self.log) - (self.prod - self.seen)


class Read:
    """A read that is out: lines [first, first + count) of a queue, `life` of it."""

    def __init__(self, queue, cookie, first, count):
        self.queue, self.cookie, self.first, self.count = queue, cookie, first, count
        self.done, self.there, self.fails_at = 0, queue.there, None


class World:
    """Doorbells, host and scheduler around the module, once a cycle."""

    def __init__(self, dut, answers=0.7, ready=0.8, reorder=True, mrrs=9, fail=0.0):
        self.dut, self.rng = dut, rng_for("sq_fetch")
        self.answers, self.ready, self.reorder, self.fail = answers, ready, reorder, fail
        self.fail_below = 0
        self.mrrs, self.slots = mrrs, 1 << int(dut.SLOT_W.value)
        self.queues, self.doorbells, self.chgs, self.reads = {}, deque(), deque(), []
        self.clear, self.drain, self.waits, self.polled, self.work = None, False, False, None, None
        self.times = {name: [] for name in ("rung", "offer", "read", "work", "beat", "err")}
        self.times |= {"wish": None, "drained": None}
        self.order, self.lengths, self.offered, self.stays = [], [], False, None

    async def start(self):
        zero(self.dut, *INPUTS)
        self.dut.mrrs_log.value = self.mrrs
        await clock_and_reset(self.dut)
        await self.initialised()

    async def initialised(self):
        for cycles in range(2 * self.slots + 8):
            if self.dut.init_done.value == 1:
                assert cycles >= self.slots - 1, "no time to initialise"
                return
            await RisingEdge(self.dut.clk)
            assert (self.dut.work_valid.value, self.dut.err_valid.value) == (0, 0)
        raise AssertionError("it is not initialised")

    async def make(self, *queues, made=1):
        for queue in queues:
            self.queues[queue.qpn] = queue
            self.clear = queue, made
            for _ in range(400):
                if self.clear:
                    await self.cycle()
            assert not self.clear, "the clear does not end"

    def ring(self, queue, entries=1):
        self.doorbells.append((queue, entries))

    def ring_one_of(self, queues):
        """A doorbell of one of them for some or all of the entries it has room for."""
        queue = self.rng.choice(queues)
        room = queue.room() - sum(entries for other, entries in self.doorbells if other is queue)
        if room > 0:
            self.ring(queue, self.rng.randint(1, room))

    def to(self, queue, state):
        queue.state = state
        self.chgs.append(queue.qpn)

    async def cycles(self, count=1, step=None):
        for _ in range(count):
            if step:
                step()
            await self.cycle()

    async def cycle(self):
        dut = self.dut
        await RisingEdge(dut.clk)
        asked = dut.qpc_addr.value
        queue = self.queues.get(int(asked)) if asked.is_resolvable else None
        dut.qpc_data.value = queue.image if queue else 0
        dut.prod_data.value = queue.prod & 0xFFFF if queue else 0
        self._outputs()
        self._inputs()
        await Timer(1, "ns")
        # The scheduler asks for the count in the cycle in which it hears of it.
        self.work = int(dut.work_qpn.value) if dut.work_valid.value == 1 else None
        at = self.work if self.work is not None else self.rng.choice([*self.queues, 0])
        dut.count_addr.value = at
        self._fill()

    def _outputs(self):
        dut = self.dut
        pins = (dut.m_rd_addr, dut.m_rd_len, dut.m_rd_cookie) if dut.m_rd_valid.value == 1 else ()
        read = tuple(int(pin.value) for pin in pins)
        assert self.stays in (None, read), "a read that was offered is another one"
        self.stays = read if read and dut.m_rd_ready.value == 0 else None
        if read:
            if not self.offered:
                self.times["offer"].append(cycle())
            self.offered = dut.m_rd_ready.value == 0
            if not self.offered:
                self._read(int(dut.m_rd_addr.value), int(dut.m_rd_len.value))
        if dut.err_valid.value == 1:
            queue = self.queues[int(dut.err_qpn.value)]
            self.times["err"].append(cycle())
            assert len(queue.failed) > queue.told, "nothing failed"
            assert queue.failed[queue.told] <= queue.come, "told before its turn"
            queue.told += 1
        self._count()
        if dut.work_valid.value == 1:
            self.times["work"].append(cycle())
        self.polled = int(dut.count_addr.value), self.work
        if dut.m_drained.value == 1:
            assert dut.s_drain.value == 1
            self.times["drained"] = self.times["drained"] or cycle()
        if dut.s_clear_valid.value == 1 and dut.s_clear_ready.value == 1:
            self.clear[0].begin()
            self.clear[0].began = cycle()
            self.clear = None
        if dut.s_chg_valid.value == 1 and dut.s_chg_ready.value == 1:
            self.chgs.popleft()

    def _count(self):
        """What the scheduler reads is no more than what came, in order; and it never shrinks."""
        if self.polled is None or self.polled[0] not in self.queues:
            return
        at, heard = self.polled
        queue, told = self.queues[at], self.dut.count_data.value
        # The count of a queue is known from the cycle after it was cleared.
        if queue.began is None or cycle() < queue.began + 2 or queue.state == STATES.RESET:
            return
        count = queue.seen + ((int(told) - queue.seen) & 0xFFFF)
        assert count << queue.wide <= queue.come, (at, count, queue.come, queue.wide)
        ends = sum(end <= count << queue.wide for end in queue.failed)
        assert ends <= queue.told
        # Without work the scheduler does not look.
        if heard is None:
            assert count == queue.seen, "published, and nobody told"
            return
        assert self.reorder or count > queue.seen or ends > queue.heard, "told of nothing"
        queue.seen, queue.heard = count, ends

    def _read(self, addr, size):
        queue = next(q for q in self.queues.values()
                     if q.base <= addr < q.base + LINE * q.lines and q.asked >> q.wide < q.prod
                     and (addr - q.base) // LINE == q.asked % q.lines)  # fmt: skip
        count, at = size // LINE, (addr - queue.base) // LINE
        assert size % LINE == 0 and 0 < size <= 1 << self.mrrs
        assert addr >> self.mrrs == addr + size - 1 >> self.mrrs, "over a read request's boundary"
        assert at + count <= queue.lines, "over the ring's end"
        assert queue.asked + count <= queue.prod << queue.wide, "beyond the doorbell"
        read = Read(queue, int(self.dut.m_rd_cookie.value), queue.asked, count)
        queue.asked += count
        if self.rng.random() < self.fail:
            read.fails_at = self.rng.randrange(count)
        if queue.prod < self.fail_below:
            read.fails_at = 0
        self.reads.append(read)
        assert len(self.reads) <= self.slots
        self.order.append(queue.qpn)
        self.lengths.append(count)
        self.times["read"].append(cycle())

    def _inputs(self):
        dut, rng = self.dut, self.rng
        queue, entries = self.doorbells.popleft() if self.doorbells else (None, 0)
        dut.rung_valid.value = int(queue is not None)
        if queue is not None:
            queue.prod += entries
            self.times["rung"].append(cycle() + 1)
            dut.rung_qpn.value = queue.qpn
        dut.s_chg_valid.value = int(bool(self.chgs))
        if self.chgs:
            dut.s_chg_qpn.value = self.chgs[0]
        dut.s_clear_valid.value = int(self.clear is not None)
        if self.clear:
            queue, made = self.clear
            dut.s_clear_qpn.value, dut.s_clear_made.value = queue.qpn, made
            # Whoever does not make a queue has no address.
            dut.s_clear_base.value = queue.base >> 6 if made else rng.getrandbits(58)
        if self.drain:
            self.times["wish"] = self.times["wish"] or cycle() + 1
        dut.s_drain.value, dut.s_waits.value = int(self.drain), int(self.waits)
        dut.m_rd_ready.value = int(rng.random() < self.ready)
        self._answer()

    def _answer(self):
        """A beat of one of the reads that are out; the bus is shared: without valid it is noise."""
        dut, rng = self.dut, self.rng
        dut.rdc_valid.value, self.beat = 0, None
        dut.rdc_err.value, dut.rdc_last.value = rng.getrandbits(1), rng.getrandbits(1)
        dut.rdc_cookie.value = rng.getrandbits(32)
        if not self.reads or rng.random() >= self.answers:
            return
        last = {"last": -1, False: 0}.get(self.reorder)
        read = rng.choice(self.reads) if last is None else self.reads[last]
        failed = read.done == read.fails_at
        last = failed or read.done + 1 == read.count
        dut.rdc_valid.value, dut.rdc_cookie.value = 1, read.cookie
        dut.rdc_offset.value = LINE * read.done
        dut.rdc_bytes.value = 0 if failed else 64
        dut.rdc_last.value, dut.rdc_err.value = int(last), int(failed)
        self.beat = read, read.done, failed
        self.times["beat"].append(cycle() + 1)
        if failed:
            read.there |= set(range(read.first, read.first + read.count))
            read.queue.failed = sorted([*read.queue.failed, read.first + read.count])
        else:
            read.there.add(read.first + read.done)
        read.done += 1
        if last:
            self.reads.remove(read)
        while read.queue.come in read.queue.there:
            read.queue.there.remove(read.queue.come)
            read.queue.come += 1

    def _fill(self):
        """Where the line of this cycle's beat goes."""
        dut = self.dut
        good = self.beat is not None and not self.beat[2]
        assert dut.fill_valid.value == int(good)
        if good:
            read, index, _ = self.beat
            count, queue = read.first + index, read.queue
            assert dut.fill_line.value == queue.line + count % queue.lines
            assert dut.fill_parity.value == count // queue.lines & 1

    async def rest(self, limit=20_000):
        """Until all that was rung has been seen."""

        def busy():
            return (
                self.doorbells
                or self.chgs
                or self.reads
                or any(q.seen < q.prod for q in self.queues.values() if q.state in OPEN)
            )

        for _ in range(limit):
            if not busy():
                break
            await self.cycle()
        assert not busy(), [(q.qpn, q.prod, q.asked, q.come, q.seen) for q in self.queues.values()]
        await self.cycles(12)
        for queue in self.queues.values():
            if queue.state in OPEN:
                assert queue.asked == queue.come == queue.prod << queue.wide
                assert queue.told == len(queue.failed)


def some_queues(world, numbers, logs=range(7)):
    """Queues of any size anywhere in host memory; their lines from both ends of those there are."""
    rng, pages = world.rng, max(1, (2 << max(logs)) // LINE)
    last = (1 << len(world.dut.fill_line)) // LINE - pages
    return [
        Queue(qpn, (rng.getrandbits(27) << 37 | n << 31) + LINE * rng.randrange(1 << 24),
              rng.choice(list(logs)), rng.getrandbits(1),
              page=last - pages * n if n % 2 else pages * n)
        for n, qpn in enumerate(numbers)
    ]  # fmt: skip


def numbers_of(dut, count):
    """Queue numbers: the first, the last, others."""
    last = (1 << int(dut.QPN_W.value)) - 1
    return [0, last, *range(1, count - 1)]


@cocotb.test()
async def every_entry_once_and_in_order(dut):
    """queue.sq_fetch.order: any answers, splits, sizes, stalls; failed reads told in their turn"""
    for mrrs, answers, ready, fail in ((9, 0.7, 0.8, 0.0), (7, 0.9, 0.3, 0.1), (12, 1.0, 1.0, 0.05),
                                       (8, 0.2, 1.0, 0.0)):  # fmt: skip
        world = World(dut, answers, ready, mrrs=mrrs, fail=fail)
        await world.start()
        queues = some_queues(world, numbers_of(dut, 12), range(6))
        await world.make(*queues)

        def step(world=world, queues=queues):
            if world.rng.random() < 0.8:
                world.ring_one_of(queues)

        for _ in range(12):
            await world.cycles(500, step)
            if sum(q.prod >> q.log for q in queues) > 3 * len(queues):
                break
        world.answers = world.ready = 1.0
        await world.rest()
        assert sum(q.prod >> q.log for q in queues) > 3 * len(queues)
        assert bool(world.times["err"]) == (fail > 0)


# Queues, their sizes, the longest read; what is answered while they are filled, and then; failures,
# and which read is answered.
MANY = (60, range(3, 6), 7, 0.1, 1.0, 0.1, True)
FEW = (2, range(4, 7), 8, 0.5, 0.5, 0.0, True)
LONG = (6, range(8, 9), 12, 0.9, 0.9, 0.05, True)
LAST = (6, range(8, 9), 12, 0.0, 1.0, 0.05, "last")


@cocotb.test()
@cocotb.parametrize(load=[MANY, FEW, LONG, LAST])
async def reads_of_any_queues_meet(dut, load):
    """queue.sq_fetch.meet: many of many queues, few of few, long ones; any may come first"""
    count, logs, mrrs, first, then, fail, reorder = load
    world = World(dut, first, 1.0, reorder, mrrs=mrrs, fail=fail)
    await world.start()
    every = range(min(1 << int(dut.QPN_W.value), 1 << 10))
    queues = some_queues(world, world.rng.sample(every, count), logs)
    await world.make(*queues)

    for answers in (first, then) * 2:
        world.answers = answers
        await world.cycles(900, lambda: world.ring_one_of(queues))
    world.answers = 1.0
    await world.rest()


@cocotb.test()
async def counts_wrap(dut):
    """queue.sq_fetch.wrap: more than 65,536 entries of a queue, narrow and wide"""
    world = World(dut, 1.0, 1.0, reorder=False, mrrs=12)
    await world.start()
    queues = [Queue(3, 1 << 30, 10, 0, page=0), Queue(4, 1 << 31, 10, 1, page=32)]
    await world.make(*queues)
    # A read that fails at once is over in one beat: so the counts come near their ends.
    world.fail_below = 64_000

    def step():
        for queue in queues:
            if queue.prod < 66_000 and queue.room() == 1 << queue.log and not world.doorbells:
                # A look at a queue of which nothing is left finds nothing.
                if world.rng.random() < 0.9 and not world.chgs:
                    world.to(queue, STATES.RTS)
                else:
                    world.ring(queue, queue.room())

    for _ in range(400):
        await world.cycles(100, step)
        if all(q.prod > 66_000 for q in queues):
            break
    await world.rest()
    assert all(q.prod > 66_000 for q in queues)


@cocotb.test()
async def only_open_queues_are_fetched_for(dut):
    """queue.sq_fetch.states: doorbells in INIT and RTR wait for RTS; SQD and ERR go on"""
    world = World(dut, 1.0, 1.0)
    await world.start()
    numbers = range(1 << int(dut.QPN_W.value))
    for state in (STATES.RESET, STATES.INIT, STATES.RTR):
        for then in OPEN * 2:
            qpn, another = world.rng.sample(numbers, 2)
            world.queues.clear()
            queue = Queue(qpn, 1 << 20, 4, 1, page=0, state=state)
            other = Queue(another, 1 << 25, 4, 0, page=32)
            await world.make(queue, other)
            world.ring(queue, 5)
            world.ring(other, 5)
            await world.cycles(40)
            assert queue.asked == 0 and other.seen == 5
            world.to(queue, then)
            await world.rest()
            assert queue.seen == 5
    queue.live = 0
    world.ring(queue, 3)
    await world.cycles(40)
    assert queue.asked == 10


@cocotb.test()
async def changes_are_heard_whatever_comes_again(dut):
    """queue.sq_fetch.changes: queues open while others are put back, in any cycle"""
    world = World(dut, 1.0, 1.0, mrrs=7)
    await world.start()
    numbers = world.rng.sample(range(1 << int(dut.QPN_W.value)), 8)
    others = [Queue(n, n + 1 << 24, 6, 0, page=at) for at, n in enumerate(numbers[:5])]
    await world.make(*others)
    for wait in range(12):
        opening = [Queue(n, n + 1 << 40, 4, 0, page=40 + n % 8, state=STATES.INIT)
                   for n in numbers[5:]]  # fmt: skip
        await world.make(*opening)
        for queue in (*others, *opening):
            world.ring(queue, min(queue.room(), 64))
        await world.cycles(14 + wait)
        for queue in opening:
            world.to(queue, STATES.RTS)
        await world.rest()
        assert all(queue.seen == 16 for queue in opening)


@cocotb.test()
@cocotb.parametrize(mrrs=[7, 9, 12])
async def reads_are_as_long_as_they_can_be(dut, mrrs):
    """queue.sq_fetch.lengths: to the end of a request, of the ring, or of what was rung"""
    world = World(dut, 1.0, 1.0, mrrs=mrrs)
    await world.start()
    block = 1 << mrrs - 6
    for log, wide in ((10, 1), (10, 0), (6, 1), (3, 0), (0, 1)):
        world.queues.clear()
        queue = Queue(world.rng.randrange(1 << int(dut.QPN_W.value)),
                      LINE * world.rng.getrandbits(40), log, wide, page=0)  # fmt: skip
        await world.make(queue)
        for _ in range(4):
            entries = world.rng.choice((1, 2, 5, 1 << log, world.rng.randrange(1 << log) + 1))
            entries, at, wanted = min(entries, 1 << log), queue.asked, []
            end = at + (entries << wide)
            while at < end:
                place = queue.base // LINE + at % queue.lines
                wanted.append(min(end - at, queue.lines - at % queue.lines, block - place % block))
                at += wanted[-1]
            world.lengths.clear()
            world.ring(queue, entries)
            await world.rest()
            assert world.lengths == wanted, (log, wide)


@cocotb.test()
async def any_number_of_reads_is_drained(dut):
    """queue.sq_fetch.drains: while others begin and end; of none it is over at once"""
    world = World(dut, reorder=False)
    await world.start()
    rng = world.rng
    queues = some_queues(world, numbers_of(dut, 20), range(3, 6))
    await world.make(*queues)

    def step():
        world.ring_one_of(queues)

    for _ in range(15):
        world.answers = 0.0
        await world.cycles(rng.randrange(80), step)
        world.answers, world.drain, before = rng.choice((0.7, 1.0)), True, list(world.reads)
        await world.cycles(1, step)
        for _ in range(4000):
            await world.cycles(1, step)
            if dut.m_drained.value == 1:
                break
        assert dut.m_drained.value == 1 and not any(read in world.reads for read in before)
        world.drain, world.answers = False, 1.0
        await world.rest()
        world.drain = True
        await world.cycles(DRAIN.latency + 4)
        assert dut.m_drained.value == 1
        world.drain = False
        await world.cycles(3)


@cocotb.test()
async def a_queue_that_ends_is_forgotten(dut):
    """queue.sq_fetch.drain: drained when its last read is over, whatever others do; then as new"""
    world = World(dut, 0.4, 0.7, fail=0.05)
    await world.start()
    numbers = numbers_of(dut, 8)
    queues = some_queues(world, numbers, range(2, 6))
    await world.make(*queues)
    lives, victim, ends = 0, None, None

    def step():
        nonlocal lives, victim, ends
        queue = world.rng.choice(queues)
        if queue.state == STATES.RTS and queue.room() and not world.doorbells:
            world.ring(queue, world.rng.randint(1, queue.room()))
        if victim is None:
            victim = world.rng.choice(queues)
            if any(q is victim for q, _ in world.doorbells):
                victim = None
                return
            world.to(victim, STATES.RESET)
            ends = cycle() + 2
        elif ends is not None and cycle() > ends and not world.drain and not world.clear:
            world.drain, world.times["drained"] = True, None
            ends = None
        elif world.drain and world.times["drained"]:
            assert not any(read.queue is victim for read in world.reads), "a read is still out"
            world.drain = False
            # RESET leaves the ring where it is; a new life has its address told.
            world.clear = victim, world.rng.getrandbits(1)
        elif ends is None and not world.drain and world.clear is None:
            victim.state = STATES.RTS
            victim, lives = None, lives + 1

    await world.cycles(6000, step)
    world.answers = world.ready = 1.0
    for _ in range(1200):
        if victim is None:
            break
        await world.cycles(1, step)
    await world.rest()
    assert lives > 4, lives


@cocotb.test()
async def a_full_host_holds_nothing_else_up(dut):
    """queue.sq_fetch.room: without places for reads doorbells wait inside, then all are served"""
    world = World(dut, 0.0, 1.0)
    await world.start()
    queues = [Queue(n, n + 1 << 24, 8, 0, page=8 * n) for n in range(12)]
    await world.make(*queues)
    for _ in range(300):
        for queue in queues:
            if queue.room() > 0:
                world.ring(queue)
        await world.cycles(len(queues))
    assert len(world.reads) == world.slots
    assert all(queue.prod > 200 for queue in queues)
    world.answers = 1.0
    await world.rest()


@cocotb.test()
async def whoever_waits_gets_a_cycle(dut):
    """queue.sq_fetch.waits: who waits for a cycle without beats: reads stop and go on again"""
    world = World(dut, 1.0, 1.0, reorder=False)
    await world.start()
    queues = [Queue(n, n + 1 << 24, 6, 0, page=2 * n) for n in range(8)]
    await world.make(*queues)

    def step():
        queue = world.rng.choice(queues)
        if queue.room() > 8 and not world.doorbells:
            world.ring(queue, 8)

    await world.cycles(300, step)
    world.waits = True
    await world.cycles(WAITS.latency + 4, step)
    before = len(world.times["read"])
    assert world.times["read"][-1] > cycle() - 16
    await world.cycles(600, step)
    assert len(world.times["read"]) == before and not world.reads
    world.waits = False
    await world.cycles(100, step)
    assert len(world.times["read"]) > before + 4
    await world.rest()


@cocotb.test()
async def every_queue_keeps_its_order(dut):
    """queue.sq_fetch.each: two reads of each are out, the second one comes first"""
    world = World(dut, 0.0, 1.0, "last")
    await world.start()
    for qpn in world.rng.sample(range(1 << int(dut.QPN_W.value)), 64):
        queue = Queue(qpn, 1 << 30, 2, page=0)
        world.queues.clear()
        await world.make(queue)
        for _ in range(2):
            world.ring(queue)
            await world.cycles(8)
        assert len(world.reads) == 2
        world.answers = 1.0
        await world.rest()
        world.answers = 0.0


@cocotb.test()
async def reads_of_others_change_no_order(dut):
    """queue.sq_fetch.others: between two reads of a queue each of the others has one

    The second read of each is answered first; what it brings waits for the first one."""
    world = World(dut, 0.0, 1.0)
    await world.start()
    numbers = world.rng.sample(range(1 << int(dut.QPN_W.value)), 64)
    queues = [Queue(n, n + 1 << 30, 2, page=at) for at, n in enumerate(numbers)]
    await world.make(*queues)
    size = max(1, (world.slots - 2) // 2)
    for begin in range(0, min(64, 10 * size), size):
        group = queues[begin : begin + size]
        for queue in group:
            world.ring(queue)
        await world.cycles(len(group) + 8)
        assert len(world.reads) == len(group)
        firsts, world.reads, world.answers = world.reads, [], 1.0
        for queue in queues:
            if queue not in group:
                world.ring(queue)
        await world.cycles(4 * len(queues))
        assert all(queue.seen == queue.prod for queue in queues if queue not in group)
        world.answers = 0.0
        for queue in group:
            world.ring(queue)
        await world.cycles(len(group) + 8)
        assert len(world.reads) == len(group)
        world.answers = 1.0
        await world.cycles(len(group) + 8)
        assert not world.reads and all(queue.seen == queue.prod - 2 for queue in group)
        world.reads = firsts
        await world.rest()
        world.answers = 0.0


@cocotb.test()
async def lines_that_come_as_their_turn_does(dut):
    """queue.sq_fetch.meets: the last of them in any cycle around the end of the read before"""
    world = World(dut, 0.0, 1.0, reorder=False)
    await world.start()
    for early, gap in itertools.product((1, 2), range(5)):
        world.queues.clear()
        queue = Queue(world.rng.randrange(1 << int(dut.QPN_W.value)), 1 << 30, 3, page=0)
        await world.make(queue)
        for entries in (1, 3):
            world.ring(queue, entries)
            await world.cycles(8)
        assert len(world.reads) == 2
        for lines, pause in ((early, 3), (1, gap), (3 - early, 20)):
            world.reads.reverse()
            world.answers = 1.0
            await world.cycles(lines)
            world.answers = 0.0
            await world.cycles(pause)
        assert queue.seen == 4 and not world.reads


@cocotb.test()
async def what_came_early_gets_its_cycle(dut):
    """queue.sq_fetch.early: though beats of others come without end"""
    world, queues, lone = await timed(dut)

    def step():
        for queue in queues:
            if queue.room() > 8 and len(world.doorbells) < 2:
                world.ring(queue, 8)

    for _ in range(2):
        world.ring(lone)
        await world.cycles(8)
    world.reads.reverse()
    await world.cycles(40, step)
    world.answers = 1.0
    for _ in range(WAITS.latency + 8 * world.slots + 40):
        if lone.seen == 2:
            break
        await world.cycles(1, step)
    assert lone.seen == 2
    # So does a queue that begins.
    world.clear = Queue(9, 9 << 24, 2, page=72), 1
    world.queues[9] = world.clear[0]
    await world.cycles(WAITS.latency + 8 * world.slots + 40, step)
    assert not world.clear
    await world.cycles(100, step)
    await world.rest()


async def timed(dut):
    """A world whose host answers in order, when it is told to; eight queues, and a ninth."""
    world = World(dut, 0.0, 1.0, reorder=False)
    await world.start()
    await world.make(*[Queue(n, n + 1 << 24, 8, 0, page=8 * n) for n in range(9)])
    await world.cycles(8)
    return world, [world.queues[n] for n in range(8)], world.queues[8]


@cocotb.test()
async def reads_and_counts_take_their_time(dut):
    """queue.sq_fetch.cycles: of one line, of one that waits for another, of a drain"""
    world, _, queue = await timed(dut)
    # It is offered whether or not somebody takes it.
    world.ready = 0.0
    world.ring(queue)
    await world.cycles(9)
    assert world.times["offer"] == [world.times["rung"][-1] + READ.latency]
    world.ready = 1.0
    await world.cycles(2)
    world.answers = 1.0
    await world.cycles(8)
    assert world.times["work"] == [world.times["beat"][-1] + BEAT.latency]
    # Two reads of one queue, the second one answered first.
    world.answers = 0.0
    for _ in range(2):
        world.ring(queue)
        await world.cycles(8)
    world.reads.reverse()
    world.answers = 1.0
    await world.cycles(12)
    later = LATER if world.slots > 32 else LATER_SMALL
    assert world.times["work"][-1] - world.times["beat"][-1] == later.latency
    world.drain = True
    await world.cycles(11)
    assert world.times["drained"] - world.times["wish"] == DRAIN.latency


@cocotb.test()
async def what_came_early_waits_in_its_own_cycle_only(dut):
    """queue.sq_fetch.beside: for the line of another queue's read in that cycle, not before it"""
    world, queues, lone = await timed(dut)
    later = LATER if world.slots > 32 else LATER_SMALL

    async def answer(read):
        world.reads, world.answers = [read], 1.0
        await world.cycles(1)
        world.answers = 0.0

    for gap in range(6):
        for queue in (lone, lone, queues[0]):
            world.ring(queue)
            await world.cycles(8)
        first, second, other = world.reads
        await answer(second)
        await world.cycles(6)
        world.times["work"].clear()
        await answer(first)
        end = world.times["beat"][-1]
        await world.cycles(gap)
        await answer(other)
        await world.cycles(16)
        in_turn = later.latency - BEAT.latency  # where a line of another read takes its cycle
        wanted = [end + BEAT.latency, end + 1 + gap + BEAT.latency,
                  end + later.latency + (1 + gap == in_turn)]  # fmt: skip
        assert world.times["work"] == sorted(wanted), gap


@cocotb.test()
async def reads_and_lines_follow_each_other(dut):
    """queue.sq_fetch.rate: queues in turn a read a cycle, a line a cycle, each at once an entry"""
    world, queues, lone = await timed(dut)
    entries = 8 if world.slots > len(queues) else 1
    queues = queues[: min(len(queues), world.slots)]
    for queue in queues:
        world.ring(queue, entries)
    await world.cycles(len(queues) + 8)
    offers, last = world.times["read"], len(queues) - 1
    assert len(offers) == last + 1 and offers[-1] - offers[0] == last * READ.interval
    world.answers = 1.0
    await world.cycles(80)
    beats, works = world.times["beat"], world.times["work"]
    assert len(beats) == entries * len(queues) and beats[-1] - beats[0] == len(beats) - 1
    assert [at + BEAT.latency for at in beats] == works
    # One queue: what is left comes again.
    world.ring(lone, 32)
    await world.cycles(60)
    offers = world.times["read"][-4:]
    assert [b - a for a, b in zip(offers, offers[1:], strict=False)] == [AGAIN.interval] * 3
    await world.rest()


@cocotb.test()
async def queues_take_turns(dut):
    """queue.sq_fetch.turns: one with much rung does not keep others waiting"""
    world = World(dut, 1.0, 0.5, mrrs=7)
    await world.start()
    queues = [Queue(n, n + 1 << 24, 9, 0, page=8 * n) for n in range(5)]
    await world.make(*queues)
    for queue in queues:
        world.ring(queue, 400)
    await world.cycles(300)
    assert len(world.order) > 60
    for at in range(20, len(world.order) - 10):
        assert set(world.order[at : at + 10]) == set(range(5)), world.order[at : at + 10]
    await world.rest()


@cocotb.test()
async def reset_in_the_middle_of_traffic(dut):
    """queue.sq_fetch.reset: nothing of before is asked or told; then it is as new"""
    for wait in (1, 3, 7, 20, 61):
        world = World(dut, 0.5, 0.5, fail=0.2)
        if wait == 1:
            await world.start()
        else:
            zero(dut, *INPUTS)
            await reset(dut)
            await world.initialised()
        queues = some_queues(world, numbers_of(dut, 8), range(3, 7))
        await world.make(*queues)
        for queue in queues:
            world.ring(queue, queue.room())
        world.drain = wait % 2 == 0
        await world.cycles(wait)
        zero(dut, *INPUTS)
        await reset(dut)
        await world.initialised()
        world = World(dut, 1.0, 1.0)
        dut.mrrs_log.value = world.mrrs
        for name in ("m_rd_valid", "work_valid", "err_valid", "m_drained"):
            assert getattr(dut, name).value == 0, name
        await world.cycles(30)
        assert not world.times["offer"] and not world.times["work"] and not world.times["err"]
        queues = some_queues(world, numbers_of(dut, 8), range(3, 7))
        await world.make(*queues)
        for queue in queues:
            world.ring(queue, queue.room())
        await world.rest()
