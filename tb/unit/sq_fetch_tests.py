# SPDX-License-Identifier: Apache-2.0
"""Tests efa_sq_fetch: WQEs are fetched once and in order after their doorbell, and published in
order."""

import itertools
from collections import deque

import cocotb
from cocotb.triggers import RisingEdge, Timer

from efa_cosim.layouts.defs import INTERNAL, AdminQpState
from tb.lib.dont_care import dont_care
from tb.lib.stream import clock_and_reset, cycle, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import zero

STATES = AdminQpState
OPEN = (STATES.RTS, STATES.SQD, STATES.SQE, STATES.ERR)
READ, AGAIN, DRAIN, WAITS = (
    timing("efa_sq_fetch", path) for path in ("read", "again", "drain", "waits")
)
BEAT, LATER, LATER_SMALL = (
    timing("efa_sq_reorder", path) for path in ("beat", "later", "later_small")
)
INPUTS = (
    "s_doorbell_valid",
    "s_doorbell_qpn",
    "s_chg_valid",
    "s_chg_qpn",
    "qpc_rd_data",
    "prod_rd_data",
    "s_clear_valid",
    "s_clear_qpn",
    "s_clear_made",
    "s_clear_base",
    "s_drain",
    "s_waits",
    "m_rd_ready",
    "s_rd_cpl_valid",
    "s_rd_cpl_cookie",
    "s_rd_cpl_offset",
    "s_rd_cpl_bytes",
    "s_rd_cpl_last",
    "s_rd_cpl_err",
    "count_rd_addr",
)
LINE = 64


class Queue:
    """Models a send queue as seen by host and scheduler; counts exceed 16 bits."""

    def __init__(self, qpn, base, log, wide=0, page=None, state=STATES.RTS):
        self.qpn, self.base, self.log, self.wide, self.state = qpn, base, log, wide, state
        self.line = LINE * (qpn if page is None else page)
        self.live, self.rest = 1, dont_care(INTERNAL.qpc, rng_for(f"queue{qpn}"))
        self.begin()

    def begin(self):
        """Resets the counts: posted and published WQEs, requested and arrived lines."""
        self.prod = self.seen = self.requested = self.arrived = 0
        self.there, self.failed, self.reported, self.heard, self.began = set(), [], 0, 0, None

    @property
    def image(self):
        fields = {"live": self.live, "state": self.state, "sq_line": self.line, "sq_log": self.log,
                  "wqe128": self.wide}  # fmt: skip
        return INTERNAL.qpc.pack(**(self.rest | fields))

    @property
    def lines(self):
        return 1 << self.log + self.wide

    def space(self):
        return (1 << self.log) - (self.prod - self.seen)


class Read:
    """Models an outstanding read of lines [first, first + count) of a queue.

    `there` stays the set of arrived lines at the time of the read, also after a restart of the
    ring.
    """

    def __init__(self, queue, cookie, first, count):
        self.queue, self.cookie, self.first, self.count = queue, cookie, first, count
        self.done, self.there, self.fails_at = 0, queue.there, None


class Env:
    """Models doorbells, host and scheduler around the module, once per cycle."""

    def __init__(self, dut, responses=0.7, ready=0.8, reorder=True, mrrs=9, fail=0.0):
        self.dut, self.rng = dut, rng_for("sq_fetch")
        self.responses, self.ready, self.reorder, self.fail = responses, ready, reorder, fail
        self.fail_below = 0
        self.mrrs, self.slots = mrrs, 1 << int(dut.SLOT_W.value)
        self.queues, self.doorbells, self.chgs, self.reads = {}, deque(), deque(), []
        self.clear, self.drain, self.waits, self.polled, self.work = None, False, False, None, None
        self.times = {name: [] for name in ("posted", "offer", "read", "work", "beat", "err")}
        self.times |= {"wish": None, "drained": None}
        self.order, self.lengths, self.offered, self.stays = [], [], False, None

    async def start(self):
        zero(self.dut, *INPUTS)
        self.dut.s_cfg_mrrs_log.value = self.mrrs
        await clock_and_reset(self.dut)
        await self.initialised()

    async def initialised(self):
        for cycles in range(2 * self.slots + 8):
            if self.dut.m_init_done.value == 1:
                assert cycles >= self.slots - 1, "init_done is too early"
                return
            await RisingEdge(self.dut.clk)
            assert (self.dut.m_work_valid.value, self.dut.m_err_valid.value) == (0, 0)
        raise AssertionError("init_done stays low")

    async def make(self, *queues, made=1):
        for queue in queues:
            self.queues[queue.qpn] = queue
            self.clear = queue, made
            for _ in range(400):
                if self.clear:
                    await self.cycle()
            assert not self.clear, "the clear did not end"

    def ring(self, queue, entries=1):
        self.doorbells.append((queue, entries))

    def ring_one_of(self, queues):
        """Rings a doorbell of a random queue for some or all of its free WQEs."""
        queue = self.rng.choice(queues)
        space = queue.space() - sum(entries for other, entries in self.doorbells if other is queue)
        if space > 0:
            self.ring(queue, self.rng.randint(1, space))

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
        requested = dut.qpc_rd_addr.value
        queue = self.queues.get(int(requested)) if requested.is_resolvable else None
        dut.qpc_rd_data.value = queue.image if queue else 0
        dut.prod_rd_data.value = queue.prod & 0xFFFF if queue else 0
        self._outputs()
        self._inputs()
        await Timer(1, "ns")
        # The scheduler requests the count in the cycle of the work pulse.
        self.work = int(dut.m_work_qpn.value) if dut.m_work_valid.value == 1 else None
        at = self.work if self.work is not None else self.rng.choice([*self.queues, 0])
        dut.count_rd_addr.value = at
        self._fill()

    def _outputs(self):
        dut = self.dut
        pins = (dut.m_rd_addr, dut.m_rd_len, dut.m_rd_cookie) if dut.m_rd_valid.value == 1 else ()
        read = tuple(int(pin.value) for pin in pins)
        assert self.stays in (None, read), "an offered read changed"
        self.stays = read if read and dut.m_rd_ready.value == 0 else None
        if read:
            if not self.offered:
                self.times["offer"].append(cycle())
            self.offered = dut.m_rd_ready.value == 0
            if not self.offered:
                self._read(int(dut.m_rd_addr.value), int(dut.m_rd_len.value))
        if dut.m_err_valid.value == 1:
            queue = self.queues[int(dut.m_err_qpn.value)]
            self.times["err"].append(cycle())
            assert len(queue.failed) > queue.reported, "error report without a failed read"
            assert queue.failed[queue.reported] <= queue.arrived, "error reported out of order"
            queue.reported += 1
        self._count()
        if dut.m_work_valid.value == 1:
            self.times["work"].append(cycle())
        self.polled = int(dut.count_rd_addr.value), self.work
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
        """Checks the published count: arrived in order, announced by a work pulse, never
        decreasing."""
        if self.polled is None or self.polled[0] not in self.queues:
            return
        at, heard = self.polled
        queue, reported = self.queues[at], self.dut.count_rd_data.value
        # The count of a queue is valid from the cycle after its clear.
        if queue.began is None or cycle() < queue.began + 2 or queue.state == STATES.RESET:
            return
        count = queue.seen + ((int(reported) - queue.seen) & 0xFFFF)
        assert count << queue.wide <= queue.arrived, (at, count, queue.arrived, queue.wide)
        ends = sum(end <= count << queue.wide for end in queue.failed)
        assert ends <= queue.reported
        # Without a work pulse the scheduler does not read the count.
        if heard is None:
            assert count == queue.seen, "published without a work pulse"
            return
        assert self.reorder or count > queue.seen or ends > queue.heard, "pulse without new WQEs"
        queue.seen, queue.heard = count, ends

    def _read(self, addr, size):
        queue = next(q for q in self.queues.values()
                     if q.base <= addr < q.base + LINE * q.lines and q.requested >> q.wide < q.prod
                     and (addr - q.base) // LINE == q.requested % q.lines)  # fmt: skip
        count, at = size // LINE, (addr - queue.base) // LINE
        assert size % LINE == 0 and 0 < size <= 1 << self.mrrs
        assert addr >> self.mrrs == addr + size - 1 >> self.mrrs, "read crosses a request boundary"
        assert at + count <= queue.lines, "a read crosses the end of the ring"
        assert queue.requested + count <= queue.prod << queue.wide, "a read beyond the doorbell"
        read = Read(queue, int(self.dut.m_rd_cookie.value), queue.requested, count)
        queue.requested += count
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
        dut.s_doorbell_valid.value = int(queue is not None)
        if queue is not None:
            queue.prod += entries
            self.times["posted"].append(cycle() + 1)
            dut.s_doorbell_qpn.value = queue.qpn
        dut.s_chg_valid.value = int(bool(self.chgs))
        if self.chgs:
            dut.s_chg_qpn.value = self.chgs[0]
        dut.s_clear_valid.value = int(self.clear is not None)
        if self.clear:
            queue, made = self.clear
            dut.s_clear_qpn.value, dut.s_clear_made.value = queue.qpn, made
            # Only a clear for a new ring carries an address.
            dut.s_clear_base.value = queue.base >> 6 if made else rng.getrandbits(58)
        if self.drain:
            self.times["wish"] = self.times["wish"] or cycle() + 1
        dut.s_drain.value, dut.s_waits.value = int(self.drain), int(self.waits)
        dut.m_rd_ready.value = int(rng.random() < self.ready)
        self._respond()

    def _respond(self):
        """Drives a beat of one outstanding read; without valid the shared bus is don't-care."""
        dut, rng = self.dut, self.rng
        dut.s_rd_cpl_valid.value, self.beat = 0, None
        dut.s_rd_cpl_err.value, dut.s_rd_cpl_last.value = rng.getrandbits(1), rng.getrandbits(1)
        dut.s_rd_cpl_cookie.value = rng.getrandbits(32)
        if not self.reads or rng.random() >= self.responses:
            return
        last = {"last": -1, False: 0}.get(self.reorder)
        read = rng.choice(self.reads) if last is None else self.reads[last]
        failed = read.done == read.fails_at
        last = failed or read.done + 1 == read.count
        dut.s_rd_cpl_valid.value, dut.s_rd_cpl_cookie.value = 1, read.cookie
        dut.s_rd_cpl_offset.value = LINE * read.done
        dut.s_rd_cpl_bytes.value = 0 if failed else 64
        dut.s_rd_cpl_last.value, dut.s_rd_cpl_err.value = int(last), int(failed)
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
        while read.queue.arrived in read.queue.there:
            read.queue.there.remove(read.queue.arrived)
            read.queue.arrived += 1

    def _fill(self):
        """Checks where the line of the current beat is filled."""
        dut = self.dut
        good = self.beat is not None and not self.beat[2]
        assert dut.m_fill_valid.value == int(good)
        if good:
            read, index, _ = self.beat
            count, queue = read.first + index, read.queue
            assert dut.m_fill_line.value == queue.line + count % queue.lines
            assert dut.m_fill_parity.value == count // queue.lines & 1

    async def rest(self, limit=20_000):
        """Runs until every posted WQE is published."""

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
        assert not busy(), [
            (q.qpn, q.prod, q.requested, q.arrived, q.seen) for q in self.queues.values()
        ]
        await self.cycles(12)
        for queue in self.queues.values():
            if queue.state in OPEN:
                assert queue.requested == queue.arrived == queue.prod << queue.wide
                assert queue.reported == len(queue.failed)


def some_queues(env, numbers, logs=range(7)):
    """Returns queues of any size anywhere in host memory, with lines from both ends of the
    buffer."""
    rng, pages = env.rng, max(1, (2 << max(logs)) // LINE)
    last = (1 << len(env.dut.m_fill_line)) // LINE - pages
    return [
        Queue(qpn, (rng.getrandbits(27) << 37 | n << 31) + LINE * rng.randrange(1 << 24),
              rng.choice(list(logs)), rng.getrandbits(1),
              page=last - pages * n if n % 2 else pages * n)
        for n, qpn in enumerate(numbers)
    ]  # fmt: skip


def numbers_of(dut, count):
    """Returns queue numbers: the first, the last, others."""
    last = (1 << int(dut.QPN_W.value)) - 1
    return [0, last, *range(1, count - 1)]


@cocotb.test()
async def every_wqe_once_and_in_order(dut):
    """queue.sq_fetch.order: Every WQE is fetched once and in order, with any completions, splits,
    sizes and stalls; failed reads are reported in order."""
    for mrrs, responses, ready, fail in (
        (9, 0.7, 0.8, 0.0),
        (7, 0.9, 0.3, 0.1),
        (12, 1.0, 1.0, 0.05),
        (8, 0.2, 1.0, 0.0),
    ):
        env = Env(dut, responses, ready, mrrs=mrrs, fail=fail)
        await env.start()
        queues = some_queues(env, numbers_of(dut, 12), range(6))
        await env.make(*queues)

        def step(env=env, queues=queues):
            if env.rng.random() < 0.8:
                env.ring_one_of(queues)

        for _ in range(12):
            await env.cycles(500, step)
            if sum(q.prod >> q.log for q in queues) > 3 * len(queues):
                break
        env.responses = env.ready = 1.0
        await env.rest()
        assert sum(q.prod >> q.log for q in queues) > 3 * len(queues)
        assert bool(env.times["err"]) == (fail > 0)


# Number of queues, their sizes, log2 of the read size, completion rate while posting and after,
# failure rate, completion order.
MANY = (60, range(3, 6), 7, 0.1, 1.0, 0.1, True)
FEW = (2, range(4, 7), 8, 0.5, 0.5, 0.0, True)
LONG = (6, range(8, 9), 12, 0.9, 0.9, 0.05, True)
LAST = (6, range(8, 9), 12, 0.0, 1.0, 0.05, "last")


@cocotb.test()
@cocotb.parametrize(load=[MANY, FEW, LONG, LAST])
async def reads_of_any_queues_meet(dut, load):
    """queue.sq_fetch.meet: Reads of many or few queues, short or long, complete in any order."""
    count, logs, mrrs, first, then, fail, reorder = load
    env = Env(dut, first, 1.0, reorder, mrrs=mrrs, fail=fail)
    await env.start()
    every = range(min(1 << int(dut.QPN_W.value), 1 << 10))
    queues = some_queues(env, env.rng.sample(every, count), logs)
    await env.make(*queues)

    for responses in (first, then) * 2:
        env.responses = responses
        await env.cycles(900, lambda: env.ring_one_of(queues))
    env.responses = 1.0
    await env.rest()


@cocotb.test()
async def counts_wrap(dut):
    """queue.sq_fetch.wrap: Counts of a queue wrap at 65,536, with narrow and wide WQEs."""
    env = Env(dut, 1.0, 1.0, reorder=False, mrrs=12)
    await env.start()
    queues = [Queue(3, 1 << 30, 10, 0, page=0), Queue(4, 1 << 31, 10, 1, page=32)]
    await env.make(*queues)
    # A read that fails at once takes one beat, so the counts approach their wrap quickly.
    env.fail_below = 64_000

    def step():
        for queue in queues:
            if queue.prod < 66_000 and queue.space() == 1 << queue.log and not env.doorbells:
                # A look at a queue without new WQEs finds nothing.
                if env.rng.random() < 0.9 and not env.chgs:
                    env.to(queue, STATES.RTS)
                else:
                    # The counts stop at multiples of the ring and anywhere between them.
                    env.ring(queue, env.rng.choice((queue.space(), env.rng.randint(1, 1023))))

    for _ in range(400):
        await env.cycles(100, step)
        if all(q.prod > 66_000 for q in queues):
            break
    await env.rest()
    assert all(q.prod > 66_000 for q in queues)


@cocotb.test()
async def only_open_queues_are_fetched_for(dut):
    """queue.sq_fetch.states: Doorbells in INIT and RTR are fetched at RTS; SQD and ERR continue to
    fetch."""
    env = Env(dut, 1.0, 1.0)
    await env.start()
    numbers = range(1 << int(dut.QPN_W.value))
    for state in (STATES.RESET, STATES.INIT, STATES.RTR):
        for then in OPEN * 2:
            qpn, another = env.rng.sample(numbers, 2)
            env.queues.clear()
            queue = Queue(qpn, 1 << 20, 4, 1, page=0, state=state)
            other = Queue(another, 1 << 25, 4, 0, page=32)
            await env.make(queue, other)
            env.ring(queue, 5)
            env.ring(other, 5)
            await env.cycles(40)
            assert queue.requested == 0 and other.seen == 5
            env.to(queue, then)
            await env.rest()
            assert queue.seen == 5
    queue.live = 0
    env.ring(queue, 3)
    await env.cycles(40)
    assert queue.requested == 10


@cocotb.test()
async def changes_are_applied_whatever_comes_again(dut):
    """queue.sq_fetch.changes: A queue that opens is fetched while other queues are rescheduled, in
    any cycle."""
    env = Env(dut, 1.0, 1.0, mrrs=7)
    await env.start()
    numbers = env.rng.sample(range(1 << int(dut.QPN_W.value)), 8)
    others = [Queue(n, n + 1 << 24, 6, 0, page=at) for at, n in enumerate(numbers[:5])]
    await env.make(*others)
    for wait in range(12):
        opening = [Queue(n, n + 1 << 40, 4, 0, page=40 + n % 8, state=STATES.INIT)
                   for n in numbers[5:]]  # fmt: skip
        await env.make(*opening)
        for queue in (*others, *opening):
            env.ring(queue, min(queue.space(), 64))
        await env.cycles(14 + wait)
        for queue in opening:
            env.to(queue, STATES.RTS)
        await env.rest()
        assert all(queue.seen == 16 for queue in opening)


@cocotb.test()
@cocotb.parametrize(mrrs=[7, 9, 12])
async def reads_are_as_long_as_they_can_be(dut, mrrs):
    """queue.sq_fetch.lengths: A read extends to the end of a request block, of the ring, or of the
    posted WQEs."""
    env = Env(dut, 1.0, 1.0, mrrs=mrrs)
    await env.start()
    block = 1 << mrrs - 6
    for log, wide in ((10, 1), (10, 0), (6, 1), (3, 0), (0, 1)):
        env.queues.clear()
        queue = Queue(env.rng.randrange(1 << int(dut.QPN_W.value)),
                      LINE * env.rng.getrandbits(40), log, wide, page=0)  # fmt: skip
        await env.make(queue)
        for _ in range(4):
            entries = env.rng.choice((1, 2, 5, 1 << log, env.rng.randrange(1 << log) + 1))
            entries, at, wanted = min(entries, 1 << log), queue.requested, []
            end = at + (entries << wide)
            while at < end:
                place = queue.base // LINE + at % queue.lines
                wanted.append(min(end - at, queue.lines - at % queue.lines, block - place % block))
                at += wanted[-1]
            env.lengths.clear()
            env.ring(queue, entries)
            await env.rest()
            assert env.lengths == wanted, (log, wide)


@cocotb.test()
async def any_number_of_reads_is_drained(dut):
    """queue.sq_fetch.drains: Any number of reads drains while others begin and end; without reads
    the drain ends at once."""
    env = Env(dut, reorder=False)
    await env.start()
    rng = env.rng
    queues = some_queues(env, numbers_of(dut, 20), range(3, 6))
    await env.make(*queues)

    def step():
        env.ring_one_of(queues)

    for _ in range(15):
        env.responses = 0.0
        await env.cycles(rng.randrange(80), step)
        env.responses, env.drain, before = rng.choice((0.7, 1.0)), True, list(env.reads)
        await env.cycles(1, step)
        for _ in range(4000):
            await env.cycles(1, step)
            if dut.m_drained.value == 1:
                break
        assert dut.m_drained.value == 1 and not any(read in env.reads for read in before)
        env.drain, env.responses = False, 1.0
        await env.rest()
        env.drain = True
        await env.cycles(DRAIN.latency + 4)
        assert dut.m_drained.value == 1
        env.drain = False
        await env.cycles(3)


@cocotb.test()
async def a_queue_that_ends_is_cancelled(dut):
    """queue.sq_fetch.drain: A queue is drained when its last read completes, whatever other queues
    do; it then restarts."""
    env = Env(dut, 0.4, 0.7, fail=0.05)
    await env.start()
    numbers = numbers_of(dut, 8)
    queues = some_queues(env, numbers, range(2, 6))
    await env.make(*queues)
    restarts, victim, ends = 0, None, None

    def step():
        nonlocal restarts, victim, ends
        queue = env.rng.choice(queues)
        if queue.state == STATES.RTS and queue.space() and not env.doorbells:
            env.ring(queue, env.rng.randint(1, queue.space()))
        if victim is None:
            victim = env.rng.choice(queues)
            if any(q is victim for q, _ in env.doorbells):
                victim = None
                return
            env.to(victim, STATES.RESET)
            ends = cycle() + 2
        elif ends is not None and cycle() > ends and not env.drain and not env.clear:
            env.drain, env.times["drained"] = True, None
            ends = None
        elif env.drain and env.times["drained"]:
            assert not any(read.queue is victim for read in env.reads), "its read is outstanding"
            env.drain = False
            # A reset keeps the address of the ring; a new ring gets a new one.
            env.clear = victim, env.rng.getrandbits(1)
        elif ends is None and not env.drain and env.clear is None:
            victim.state = STATES.RTS
            victim, restarts = None, restarts + 1

    await env.cycles(6000, step)
    env.responses = env.ready = 1.0
    for _ in range(1200):
        if victim is None:
            break
        await env.cycles(1, step)
    await env.rest()
    assert restarts > 4, restarts


@cocotb.test()
async def a_full_host_holds_nothing_else_up(dut):
    """queue.sq_fetch.space: Without free read slots doorbells stay pending inside; all are served
    when slots become free."""
    env = Env(dut, 0.0, 1.0)
    await env.start()
    queues = [Queue(n, n + 1 << 24, 8, 0, page=8 * n) for n in range(12)]
    await env.make(*queues)
    for _ in range(300):
        for queue in queues:
            if queue.space() > 0:
                env.ring(queue)
        await env.cycles(len(queues))
    assert len(env.reads) == env.slots
    assert all(queue.prod > 200 for queue in queues)
    env.responses = 1.0
    await env.rest()


@cocotb.test()
async def whoever_waits_gets_a_cycle(dut):
    """queue.sq_fetch.waits: While `s_waits` requests a cycle without beats, reads stop; they resume
    afterwards. Clears that are accepted stop no reads."""
    env = Env(dut, 1.0, 1.0, reorder=False)
    await env.start()
    queues = [Queue(n, n + 1 << 24, 6, 0, page=2 * n) for n in range(8)]
    await env.make(*queues)

    def step():
        queue = env.rng.choice(queues)
        if queue.space() > 8 and not env.doorbells:
            env.ring(queue, 8)

    await env.cycles(300, step)
    env.waits = True
    began = cycle()
    await env.cycles(WAITS.latency + 4, step)
    before = len(env.times["read"])
    # Reads go on while the request is young. The time between two reads depends on the doorbells.
    assert env.times["read"][-1] > began + WAITS.latency // 2
    await env.cycles(600, step)
    assert len(env.times["read"]) == before and not env.reads
    env.waits = False
    await env.cycles(100, step)
    assert len(env.times["read"]) > before + 4
    env.responses = 0.5
    env.queues[8] = Queue(8, 9 << 24, 6, 0, page=16)
    inputs = env._inputs

    def clear_again():
        env.clear = env.queues[8], 1
        inputs()

    env._inputs = clear_again
    await env.cycles(6 * WAITS.latency, step)
    assert env.times["read"][-1] > cycle() - WAITS.latency
    env._inputs = inputs
    await env.rest()


@cocotb.test()
async def every_queue_keeps_its_order(dut):
    """queue.sq_fetch.each: WQEs of each queue stay in order when the second of two reads completes
    first."""
    env = Env(dut, 0.0, 1.0, "last")
    await env.start()
    for qpn in range(1 << int(dut.QPN_W.value)):
        queue = Queue(qpn, 1 << 30, 2, page=0)
        env.queues.clear()
        await env.make(queue)
        for _ in range(2):
            env.ring(queue)
            await env.cycles(8)
        assert len(env.reads) == 2
        env.responses = 1.0
        await env.rest()
        env.responses = 0.0


@cocotb.test()
async def reads_of_others_change_no_order(dut):
    """queue.sq_fetch.others: Reads of other queues between two reads of a queue change no order.

    The second read of each queue completes first; its lines wait for the first read.
    """
    env = Env(dut, 0.0, 1.0)
    await env.start()
    numbers = env.rng.sample(range(1 << int(dut.QPN_W.value)), 64)
    queues = [Queue(n, n + 1 << 30, 2, page=at) for at, n in enumerate(numbers)]
    await env.make(*queues)
    size = max(1, (env.slots - 2) // 2)
    for begin in range(0, min(64, 10 * size), size):
        group = queues[begin : begin + size]
        for queue in group:
            env.ring(queue)
        await env.cycles(len(group) + 8)
        assert len(env.reads) == len(group)
        firsts, env.reads, env.responses = env.reads, [], 1.0
        for queue in queues:
            if queue not in group:
                env.ring(queue)
        await env.cycles(4 * len(queues))
        assert all(queue.seen == queue.prod for queue in queues if queue not in group)
        env.responses = 0.0
        for queue in group:
            env.ring(queue)
        await env.cycles(len(group) + 8)
        assert len(env.reads) == len(group)
        env.responses = 1.0
        await env.cycles(len(group) + 8)
        assert not env.reads and all(queue.seen == queue.prod - 2 for queue in group)
        env.reads = firsts
        await env.rest()
        env.responses = 0.0


@cocotb.test()
async def lines_that_come_as_their_turn_does(dut):
    """queue.sq_fetch.meets: Lines of a later read are published in order when the last of them
    arrives in any cycle around the end of the earlier read."""
    env = Env(dut, 0.0, 1.0, reorder=False)
    await env.start()
    for early, gap in itertools.product((1, 2), range(5)):
        env.queues.clear()
        queue = Queue(env.rng.randrange(1 << int(dut.QPN_W.value)), 1 << 30, 3, page=0)
        await env.make(queue)
        for entries in (1, 3):
            env.ring(queue, entries)
            await env.cycles(8)
        assert len(env.reads) == 2
        for lines, pause in ((early, 3), (1, gap), (3 - early, 20)):
            env.reads.reverse()
            env.responses = 1.0
            await env.cycles(lines)
            env.responses = 0.0
            await env.cycles(pause)
        assert queue.seen == 4 and not env.reads


@cocotb.test()
async def what_came_early_gets_its_cycle(dut):
    """queue.sq_fetch.early: Lines that arrived early are published within a bound although beats of
    other reads never pause."""
    env, queues, lone = await timed(dut)

    def step():
        for queue in queues:
            if queue.space() > 8 and len(env.doorbells) < 2:
                env.ring(queue, 8)

    for _ in range(2):
        env.ring(lone)
        await env.cycles(8)
    env.reads.reverse()
    await env.cycles(40, step)
    env.responses = 1.0
    for _ in range(WAITS.latency + 8 * env.slots + 40):
        if lone.seen == 2:
            break
        await env.cycles(1, step)
    assert lone.seen == 2
    # A clear of a new queue is served within the same bound.
    env.clear = Queue(9, 9 << 24, 2, page=72), 1
    env.queues[9] = env.clear[0]
    await env.cycles(WAITS.latency + 8 * env.slots + 40, step)
    assert not env.clear
    await env.cycles(100, step)
    await env.rest()


async def timed(dut):
    """Returns (bench, eight queues, a ninth queue); the host completes reads in order when the test
    sets `responses`."""
    env = Env(dut, 0.0, 1.0, reorder=False)
    await env.start()
    await env.make(*[Queue(n, n + 1 << 24, 8, 0, page=8 * n) for n in range(9)])
    await env.cycles(8)
    return env, [env.queues[n] for n in range(8)], env.queues[8]


@cocotb.test()
async def reads_and_counts_take_their_time(dut):
    """queue.sq_fetch.cycles: A read of one line, a read that waits for another and a drain meet
    their specified cycles."""
    env, _, queue = await timed(dut)
    # A read is offered whether or not it is accepted.
    env.ready = 0.0
    env.ring(queue)
    await env.cycles(9)
    assert env.times["offer"] == [env.times["posted"][-1] + READ.latency]
    env.ready = 1.0
    await env.cycles(2)
    env.responses = 1.0
    await env.cycles(8)
    assert env.times["work"] == [env.times["beat"][-1] + BEAT.latency]
    # Two reads of one queue, the second completes first.
    env.responses = 0.0
    for _ in range(2):
        env.ring(queue)
        await env.cycles(8)
    env.reads.reverse()
    env.responses = 1.0
    await env.cycles(12)
    later = LATER if env.slots > 32 else LATER_SMALL
    assert env.times["work"][-1] - env.times["beat"][-1] == later.latency
    env.drain = True
    await env.cycles(11)
    assert env.times["drained"] - env.times["wish"] == DRAIN.latency


@cocotb.test()
async def what_came_early_waits_in_its_own_cycle_only(dut):
    """queue.sq_fetch.beside: An early line waits for a line of another read only in the cycle in
    which both collide."""
    env, queues, lone = await timed(dut)
    later = LATER if env.slots > 32 else LATER_SMALL

    async def response(read):
        env.reads, env.responses = [read], 1.0
        await env.cycles(1)
        env.responses = 0.0

    for gap in range(6):
        for queue in (lone, lone, queues[0]):
            env.ring(queue)
            await env.cycles(8)
        first, second, other = env.reads
        await response(second)
        await env.cycles(6)
        env.times["work"].clear()
        await response(first)
        end = env.times["beat"][-1]
        await env.cycles(gap)
        await response(other)
        await env.cycles(16)
        in_turn = later.latency - BEAT.latency  # a line of another read uses this cycle
        wanted = [end + BEAT.latency, end + 1 + gap + BEAT.latency,
                  end + later.latency + (1 + gap == in_turn)]  # fmt: skip
        assert env.times["work"] == sorted(wanted), gap


@cocotb.test()
async def reads_and_lines_follow_each_other(dut):
    """queue.sq_fetch.rate: With queues in round robin there is one read and one line per cycle, and
    each line publishes a WQE at once."""
    env, queues, lone = await timed(dut)
    entries = 8 if env.slots > len(queues) else 1
    queues = queues[: min(len(queues), env.slots)]
    for queue in queues:
        env.ring(queue, entries)
    await env.cycles(len(queues) + 8)
    offers, last = env.times["read"], len(queues) - 1
    assert len(offers) == last + 1 and offers[-1] - offers[0] == last * READ.interval
    env.responses = 1.0
    await env.cycles(80)
    beats, works = env.times["beat"], env.times["work"]
    assert len(beats) == entries * len(queues) and beats[-1] - beats[0] == len(beats) - 1
    assert [at + BEAT.latency for at in beats] == works
    # One queue: the remaining WQEs are scheduled again.
    env.ring(lone, 32)
    await env.cycles(60)
    offers = env.times["read"][-4:]
    assert [b - a for a, b in zip(offers, offers[1:], strict=False)] == [AGAIN.interval] * 3
    await env.rest()


@cocotb.test()
async def queues_take_turns(dut):
    """queue.sq_fetch.quanta: A queue with many posted WQEs does not delay other queues."""
    env = Env(dut, 1.0, 0.5, mrrs=7)
    await env.start()
    queues = [Queue(n, n + 1 << 24, 9, 0, page=8 * n) for n in range(5)]
    await env.make(*queues)
    for queue in queues:
        env.ring(queue, 400)
    await env.cycles(300)
    assert len(env.order) > 60
    for at in range(20, len(env.order) - 10):
        assert set(env.order[at : at + 10]) == set(range(5)), env.order[at : at + 10]
    await env.rest()


@cocotb.test()
async def reset_in_the_middle_of_traffic(dut):
    """queue.sq_fetch.reset: A reset discards all reads and reports; fetching then works again."""
    for wait in (1, 3, 7, 20, 61):
        env = Env(dut, 0.5, 0.5, fail=0.2)
        if wait == 1:
            await env.start()
        else:
            zero(dut, *INPUTS)
            await reset(dut)
            await env.initialised()
        queues = some_queues(env, numbers_of(dut, 8), range(3, 7))
        await env.make(*queues)
        for queue in queues:
            env.ring(queue, queue.space())
        env.drain = wait % 2 == 0
        await env.cycles(wait)
        zero(dut, *INPUTS)
        await reset(dut)
        await env.initialised()
        env = Env(dut, 1.0, 1.0)
        dut.s_cfg_mrrs_log.value = env.mrrs
        for name in ("m_rd_valid", "m_work_valid", "m_err_valid", "m_drained"):
            assert getattr(dut, name).value == 0, name
        await env.cycles(30)
        assert not env.times["offer"] and not env.times["work"] and not env.times["err"]
        queues = some_queues(env, numbers_of(dut, 8), range(3, 7))
        await env.make(*queues)
        for queue in queues:
            env.ring(queue, queue.space())
        await env.rest()
