# SPDX-License-Identifier: Apache-2.0
"""Tests efa_sq_flush: halted queues, error reports, and the rounds that flush them."""

from itertools import product

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import QpError
from tb.lib.stream import clock_and_reset, cycle, pauses, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, high, pulse, steady, until, zero
from tb.unit.queue_bench import lanes

# Error inputs of a queue and their cause in a report; the lowest pending cause is reported.
ERRORS = {"posted": QpError.SQ_DOORBELL, "incomplete": QpError.INCOMPLETE_WQE,
          "store": QpError.POSTED_STORE, "read": QpError.PAYLOAD_READ}  # fmt: skip
EVENTS = (*(f"s_{name}_err" for name in ERRORS), "s_notice", "s_clear")
INPUTS = (
    *(f"s_{name}_err_valid" for name in ERRORS),
    "s_notice_valid",
    "s_clear_valid",
    "s_ah_gone",
    "m_qperr_ready",
    "m_fence_ready",
    "s_fence_done",
    "m_scan_ready",
    "m_again_ready",
    "halted_rd_addr",
    "flush_ok_rd_addr",
    "scan_set_rd_addr",
)
IDLE, MARK, PASS, WALK, AGAIN = range(5)


def queues_of(dut):
    """Returns the number of queues."""
    return 1 << len(dut.s_clear_qpn)


def some(rng, numbers, most):
    """Returns all numbers, or a random choice with the first and the last if there are more than
    `most`."""
    numbers = list(numbers)
    if len(numbers) <= most:
        return numbers
    return [numbers[0], *sorted(rng.sample(numbers[1:-1], most - 2)), numbers[-1]]


class RefModel:
    """Models the expected outputs at each edge from the pins, and drives the responses of the
    engines."""

    def __init__(self, dut, stalls=0.0):
        self.dut = dut
        self.pause = pauses(stalls, "sq_flush")
        self.held = set()  # engines that stall
        self.rng, self.width = rng_for("lookups"), len(dut.s_clear_qpn)
        self.readers = len(dut.halted_rd_data)
        self.driven = None  # queues of the lookups in this cycle
        self.look = None  # the queue of every lookup; None: any, often one with a recent event
        self.recent = [0]
        self.cancel()

    def cancel(self):
        self.down, self.flush_ok = set(), set()
        self.errors, self.reports = [], []  # (edge, queue, cause)
        self.noticed = set()  # queues with a notice since their last clear
        self.notices = []  # (edge, queue) of the first such notice, not yet served
        self.causes = []  # edges of notices and destroyed handles since the last round
        self.asked = None  # queues of the lookups in the previous cycle
        self.phase, self.round, self.rounds, self.waiting = IDLE, set(), [], False

    async def run(self):
        while True:
            await RisingEdge(self.dut.clk)
            if self.dut.rst.value == 1:
                self.cancel()
            else:
                self.lookups()
                self.outputs()
                self.inputs()
            self.ask()
            for name in ("m_qperr_ready", "m_fence_ready", "m_scan_ready", "m_again_ready"):
                ready = name not in self.held and not self.pause()
                getattr(self.dut, name).value = int(ready)

    def ask(self):
        """Drives the lookups of the next cycle."""
        queues = [self.look if self.look is not None
                  else self.rng.choice(self.recent) if self.rng.random() < 0.7
                  else self.rng.randrange(1 << self.width)
                  for _ in range(self.readers + 2)]  # fmt: skip
        self.dut.halted_rd_addr.value = lanes(queues[2:], self.width)
        self.dut.flush_ok_rd_addr.value, self.dut.scan_set_rd_addr.value = queues[:2]
        self.asked, self.driven = self.driven, queues

    def lookups(self):
        """Checks the lookups of the previous cycle: they know all inputs up to that cycle."""
        dut = self.dut
        if self.asked is not None:
            flush_ok, scan_set, *halted = self.asked
            assert dut.halted_rd_data.value == lanes([int(qpn in self.down) for qpn in halted], 1)
            assert dut.flush_ok_rd_data.value == int(flush_ok in self.flush_ok)
            if dut.m_scan_valid.value == 1:
                assert dut.scan_set_rd_data.value == int(scan_set in self.round)

    def outputs(self):
        dut = self.dut
        if dut.m_qperr_valid.value == 1:
            report = int(dut.m_qperr_qpn.value), int(dut.m_qperr_cause.value)
            if not self.waiting:
                self.reported(*report)
            assert report == self.reports[-1][1:], "a stalled report changed"
            self.waiting = dut.m_qperr_ready.value != 1
        else:
            assert not self.waiting, "a stalled report was withdrawn"
        if dut.m_fence_valid.value == 1:
            if self.phase == IDLE:
                self.begin()
            assert self.phase == MARK
            self.phase = PASS if dut.m_fence_ready.value == 1 else MARK
        elif dut.s_fence_done.value == 1:
            assert self.phase == PASS
            self.phase = WALK
        assert (dut.m_scan_valid.value == 1) <= (self.phase == WALK)
        if dut.m_scan_valid.value == 1:
            if dut.m_scan_ready.value == 1:
                self.phase = AGAIN if self.round else IDLE
        elif dut.m_again_valid.value == 1:
            qpn = int(dut.m_again_qpn.value)
            assert self.phase == AGAIN and qpn in self.round
            self.flush_ok.add(qpn)
            if dut.m_again_ready.value == 1:
                self.round.remove(qpn)
        if self.phase == AGAIN and not self.round:
            self.phase = IDLE

    def reported(self, qpn, cause):
        """Checks a report: it covers the errors of two or more edges before."""
        message = [one for one in self.errors if one[1] == qpn and one[0] <= cycle() - 2]
        causes = [one[2] for one in message]
        assert message and cause == min(causes), f"cause {cause} of queue {qpn}, known: {causes}"
        self.reports.append((cycle(), qpn, cause))
        self.errors = [one for one in self.errors if one not in message]

    def begin(self):
        """Begins a round: it serves all notices of two or more edges before."""
        self.round = {qpn for at, qpn in self.notices if at <= cycle() - 2}
        assert any(at <= cycle() - 2 for at in self.causes), "no cause"
        self.notices = [one for one in self.notices if one[0] > cycle() - 2]
        self.causes = [at for at in self.causes if at > cycle() - 2]
        self.phase = MARK
        self.rounds.append(set(self.round))

    def inputs(self):
        dut = self.dut
        for name in EVENTS:
            if getattr(dut, name + "_valid").value == 1:
                self.recent = [*self.recent[-3:], int(getattr(dut, name + "_qpn").value)]
        for name, cause in ERRORS.items():
            if getattr(dut, f"s_{name}_err_valid").value == 1:
                qpn = int(getattr(dut, f"s_{name}_err_qpn").value)
                self.down.add(qpn)
                self.errors.append((cycle(), qpn, cause))
        cleared = int(dut.s_clear_qpn.value) if dut.s_clear_valid.value == 1 else None
        if dut.s_notice_valid.value == 1:
            qpn = int(dut.s_notice_qpn.value)
            self.down.add(qpn)
            if qpn not in self.noticed:
                self.notices.append((cycle(), qpn))
            self.noticed.add(qpn)
            if qpn != cleared:
                self.causes.append(cycle())
        if dut.s_ah_gone.value == 1:
            self.causes.append(cycle())
        if cleared is not None:
            qpn = cleared
            self.notices = [one for one in self.notices if one[1] != qpn]
            self.errors = [one for one in self.errors if one[1] != qpn]
            for group in (self.down, self.flush_ok, self.round, self.noticed):
                group.discard(qpn)
            if self.phase == AGAIN and not self.round:
                self.phase = IDLE

    async def rest(self):
        """Waits until every input has been reported and served."""
        await ClockCycles(self.dut.clk, 2)
        await until(self.dut, self.quiet, "rest", 8000)

    def quiet(self):
        return self.phase == IDLE and not (self.errors or self.causes or self.waiting)


async def ready(dut):
    """Waits until the tables are initialised."""
    await until(dut, high(dut.m_init_done), cycles=queues_of(dut) + 1)


async def start(dut, stalls=0.0):
    zero(dut, *INPUTS)
    await clock_and_reset(dut)
    await ready(dut)
    account = RefModel(dut, stalls)
    cocotb.start_soon(account.run())
    return account


async def barriers(dut, account, rng):
    """Reports each fence as passed some cycles after it entered."""
    while True:
        passing = lambda: account.phase == PASS and "barrier" not in account.held  # noqa: E731
        await until(dut, passing, "a pass", 1 << 20)
        await ClockCycles(dut.clk, rng.randrange(1, 12))
        if account.phase == PASS:
            await pulse(dut, "s_fence_done")
        await RisingEdge(dut.clk)


@cocotb.test()
@cocotb.parametrize(stalls=[0.0, 0.5, 0.9])
async def broken_queues_are_reported_and_flushed(dut, stalls):
    """queue.sq_flush.random: Random errors, notices, clears and destroyed handles are reported and
    flushed."""
    account = await start(dut, stalls)
    rng, count = rng_for("sq_flush"), queues_of(dut)
    cocotb.start_soon(barriers(dut, account, rng))
    names = [f"s_{name}_err" for name in ERRORS] + ["s_notice"]
    for span in range(12):
        # With few queues, events of one queue collide; with many, events meet the scan pointer.
        group = rng.sample(range(count), rng.choice((2, 5, count)))
        rate = rng.choice((0.01, 0.1, 0.4))
        for _ in range(120):
            for name in names:
                getattr(dut, name + "_valid").value = int(rng.random() < rate)
                getattr(dut, name + "_qpn").value = rng.choice(group)
            dut.s_clear_valid.value = int(rng.random() < rate / 3)
            dut.s_clear_qpn.value = rng.choice(group)
            dut.s_ah_gone.value = int(rng.random() < 0.01)
            await RisingEdge(dut.clk)
        zero(dut, *(name + "_valid" for name in names), "s_clear_valid", "s_ah_gone")
        if span % 4 == 3:
            await account.rest()
    assert len(account.rounds) > 3 and {cause for _, _, cause in account.reports} == {1, 3, 4, 5}


async def scan_at(dut, qpn):
    """Waits until the scan pointer is about at the queue; clears and stalled reports delay it."""
    count = queues_of(dut)
    await until(dut, lambda: (cycle() - qpn) % count == 0, "the scan pointer", count + 1)


async def clear(dut, *queues):
    """Clears queues, one per cycle."""
    for qpn in queues:
        await pulse(dut, "s_clear_valid", s_clear_qpn=qpn)


@cocotb.test()
async def a_round_serves_what_broke_during_the_last(dut):
    """queue.sq_flush.rounds: A round serves all queues that failed during the previous one, each
    once between two clears; a destroyed handle gets its own round."""
    account = await start(dut)
    cocotb.start_soon(barriers(dut, account, rng_for("sq_flush")))
    last = queues_of(dut) - 1
    for engine in ("barrier", "m_scan_ready", "m_again_ready"):
        account.rounds.clear()
        account.held.add(engine)
        await pulse(dut, "s_notice_valid", s_notice_qpn=0)
        await ClockCycles(dut.clk, 20)
        for qpn in (0, 9, last):
            await pulse(dut, "s_notice_valid", s_notice_qpn=qpn)
        await ClockCycles(dut.clk, 20)
        account.held.clear()
        await account.rest()
        assert account.rounds == [{0}, {9, last}]
        await clear(dut, 0, 9, last)
    account.rounds.clear()
    await pulse(dut, "s_ah_gone")
    await account.rest()
    assert account.rounds == [set()]
    for engine in ("", "m_fence_ready", "barrier", "m_scan_ready", "m_again_ready"):
        await ClockCycles(dut.clk, queues_of(dut) + 2)  # the previous round has ended
        account.rounds.clear()
        account.held.add(engine)
        await clear(dut, 0)
        await pulse(dut, "s_notice_valid", s_notice_qpn=0)
        await ClockCycles(dut.clk, 20)
        await pulse(dut, "s_ah_gone")
        await ClockCycles(dut.clk, 20)
        account.held.clear()
        await account.rest()
        assert account.rounds == [{0}, set()], engine


@cocotb.test()
async def a_queue_that_restarts_in_a_round_waits_for_the_next(dut):
    """queue.sq_flush.restart: A queue that is cleared and fails again during its round is not in
    this round but in the next; a queue that is only cleared is in none."""
    account = await start(dut)
    cocotb.start_soon(barriers(dut, account, rng_for("sq_flush")))
    account.look = 9
    engines = ("m_fence_ready", "barrier", "m_scan_ready", "m_again_ready")
    cases = list(product(engines, (1, 2), (0, 1, 2, 3, 8)))
    for engine, clears, gap in some(rng_for("restart"), cases, 40 if queues_of(dut) < 1024 else 6):
        await ClockCycles(dut.clk, queues_of(dut) + 2)  # the previous round has ended
        account.rounds.clear()
        account.held.add(engine)
        await pulse(dut, "s_notice_valid", s_notice_qpn=9)
        await ClockCycles(dut.clk, 30)
        for _ in range(clears):
            await clear(dut, 9)
            await ClockCycles(dut.clk, gap)
            await pulse(dut, "s_notice_valid", s_notice_qpn=9)
        await ClockCycles(dut.clk, 4)
        account.held.clear()
        await account.rest()
        assert account.rounds == [{9}, {9}], (engine, clears, gap)
        await pulse(dut, "s_ah_gone")
        await account.rest()
        assert account.rounds[2:] == [set()]
        await clear(dut, 9)


@cocotb.test()
async def two_events_of_a_queue_collide(dut):
    """queue.sq_flush.collisions: Any two events of a queue, in the same cycle or up to four cycles
    apart, act as one after the other, on a queue that is running, halted, flushed or cleared."""
    account = await start(dut)
    cocotb.start_soon(barriers(dut, account, rng_for("sq_flush")))
    rng = rng_for("collisions")
    qpn = account.look = queues_of(dut) - 1
    before = ((), ("s_notice",), ("s_store_err", "s_notice"), ("s_posted_err", "s_clear"))
    cases = list(product(before, EVENTS, EVENTS, range(5)))
    for events, first, second, gap in some(rng, cases, 800 if queues_of(dut) < 1024 else 24):
        for name in events:
            await pulse(dut, name + "_valid", **{name + "_qpn": qpn})
            await account.rest()
        # The visits of the report scan come at any distance.
        await ClockCycles(dut.clk, rng.randrange(8))
        if gap:
            await pulse(dut, first + "_valid", **{first + "_qpn": qpn})
            await ClockCycles(dut.clk, gap - 1)
        else:
            drive(dut, **{first + "_valid": 1, first + "_qpn": qpn})
        await pulse(dut, second + "_valid", **{second + "_qpn": qpn})
        zero(dut, first + "_valid")
        await account.rest()
        await clear(dut, qpn)
        await ClockCycles(dut.clk, 2)
    # The flags of other queues are unchanged.
    account.look = None
    await ClockCycles(dut.clk, 200)


@cocotb.test()
async def events_of_two_queues_do_not_collide(dut):
    """queue.sq_flush.two: Two events in the same cycle, of queues whose numbers differ in one bit,
    each act on their own queue alone."""
    account = await start(dut)
    cocotb.start_soon(barriers(dut, account, rng_for("sq_flush")))
    rng, count, width = rng_for("two"), queues_of(dut), len(dut.s_clear_qpn)
    cases = list(product(EVENTS, EVENTS, range(width)))
    for first, second, bit in some(rng, cases, len(cases) if count < 1024 else 24):
        if first == second:
            continue
        qpn = rng.randrange(count)
        other = qpn ^ 1 << bit
        drive(dut, **{first + "_valid": 1, first + "_qpn": qpn})
        await pulse(dut, second + "_valid", **{second + "_qpn": other})
        zero(dut, first + "_valid")
        for account.look in (qpn, other):
            await ClockCycles(dut.clk, 2)
        await account.rest()
        await clear(dut, qpn)
        await ClockCycles(dut.clk, 2)
        await clear(dut, other)
        await ClockCycles(dut.clk, 2)


@cocotb.test()
async def an_error_meets_its_report(dut):
    """queue.sq_flush.repeat: A second error of a queue, at any distance from the first, is in the
    report of the first or gets its own, also while another report stalls the scan pointer."""
    account = await start(dut)
    rng, count = rng_for("repeat"), queues_of(dut)
    for first, second in product(ERRORS, ERRORS):
        for gap in some(rng, range(1, count + 4), 24 if count < 1024 else 3):
            account.reports.clear()
            # The visit of the report scan is up to 8 cycles before or after the second error.
            if rng.random() < 0.7:
                await scan_at(dut, 9 - gap - 2 + rng.randrange(-8, 9))
            await pulse(dut, f"s_{first}_err_valid", **{f"s_{first}_err_qpn": 9})
            await ClockCycles(dut.clk, gap - 1)
            await pulse(dut, f"s_{second}_err_valid", **{f"s_{second}_err_qpn": 9})
            await account.rest()
            assert len(account.reports) in (1, 2)
        await clear(dut, 9)
    # A report that is not accepted stalls the scan pointer at the queue of both errors.
    for first, second in product(ERRORS, ERRORS):
        for gap in some(rng, range(1, 5), 4 if count < 1024 else 2):
            account.held.add("m_qperr_ready")
            await pulse(dut, "s_posted_err_valid", s_posted_err_qpn=8)
            await until(dut, high(dut.m_qperr_valid), "a report", count + 2)
            await pulse(dut, f"s_{first}_err_valid", **{f"s_{first}_err_qpn": 9})
            await ClockCycles(dut.clk, gap - 1)
            await pulse(dut, f"s_{second}_err_valid", **{f"s_{second}_err_qpn": 9})
            await ClockCycles(dut.clk, 3)
            account.held.clear()
            await account.rest()
            assert account.reports[-1][1] == 9
            await clear(dut, 8, 9)


@cocotb.test()
async def a_clear_meets_the_return_of_its_queue(dut):
    """queue.sq_flush.returned: A clear at any cycle around the return of its queue leaves the queue
    unflushed, and its next failure is flushed."""
    account = await start(dut)
    cocotb.start_soon(barriers(dut, account, rng_for("sq_flush")))
    qpn = account.look = queues_of(dut) - 2
    cases = list(product(("at once", "held", "cleared first"), range(8)))
    for offer, gap in some(rng_for("returned"), cases, 24 if queues_of(dut) < 1024 else 12):
        account.rounds.clear()
        if offer != "at once":
            account.held.add("m_again_ready")
        await pulse(dut, "s_notice_valid", s_notice_qpn=qpn)
        await until(dut, high(dut.m_scan_valid), "a scan", 60)
        if offer == "at once":
            await ClockCycles(dut.clk, qpn - 4 + gap)  # the queue is returned four cycles later
        else:
            await until(dut, high(dut.m_again_valid), "the queue", queues_of(dut))
            await ClockCycles(dut.clk, 2)
        if offer == "held":
            account.held.clear()
            await ClockCycles(dut.clk, gap)
        await clear(dut, qpn)
        await ClockCycles(dut.clk, gap)
        account.held.clear()
        await account.rest()
        assert account.rounds == [{qpn}] and qpn not in account.flush_ok | account.down
        await ClockCycles(dut.clk, 6)
        await pulse(dut, "s_notice_valid", s_notice_qpn=qpn)
        await account.rest()
        assert qpn in account.flush_ok
        await ClockCycles(dut.clk, 6)
        await clear(dut, qpn)


@cocotb.test()
async def every_queue_is_known_by_each_cause(dut):
    """queue.sq_flush.each: Each cause is reported for its queue alone, and one notice starts one
    round."""
    account = await start(dut)
    cocotb.start_soon(barriers(dut, account, rng_for("sq_flush")))
    rng, count = rng_for("each"), queues_of(dut)
    for name, cause in ERRORS.items():
        account.reports.clear()
        for qpn in rng.sample(range(count), count):
            await pulse(dut, f"s_{name}_err_valid", **{f"s_{name}_err_qpn": qpn})
        await account.rest()
        assert sorted(report[1:] for report in account.reports) == [
            (qpn, cause) for qpn in range(count)
        ]
    served = some(rng, range(count), 64 if count < 1024 else 8)
    for qpn in served:
        await pulse(dut, "s_notice_valid", s_notice_qpn=qpn)
        await account.rest()
    assert account.rounds == [{qpn} for qpn in served]
    # Reports and returned queues are offered before they are accepted.
    account.held |= {"m_qperr_ready", "m_again_ready"}
    await clear(dut, count - 1)
    await ClockCycles(dut.clk, 2)
    await pulse(dut, "s_posted_err_valid", s_posted_err_qpn=5)
    await until(dut, high(dut.m_qperr_valid), "a report", count + 2)
    await pulse(dut, "s_notice_valid", s_notice_qpn=count - 1)
    await until(dut, high(dut.m_scan_valid), "a scan", 40)
    await until(dut, high(dut.m_again_valid), "a returned queue", count + 2)
    account.held.clear()
    await account.rest()


@cocotb.test()
async def a_clear_takes_back_what_is_not_yet_reported(dut):
    """queue.sq_flush.clear: A clear cancels an error that is not yet reported, at any position of
    the scan pointer, for every cause."""
    account = await start(dut)
    rng, count = rng_for("clear"), queues_of(dut)
    for name in ERRORS:
        for cycles in some(rng, range(count + 3), 80 if count < 1024 else 10):
            await pulse(dut, f"s_{name}_err_valid", **{f"s_{name}_err_qpn": 9})
            await ClockCycles(dut.clk, cycles)
            await clear(dut, 9)
            await account.rest()
        # The error comes when the scan pointer is just before its queue.
        for before in range(8):
            await scan_at(dut, 9 - before)
            await pulse(dut, f"s_{name}_err_valid", **{f"s_{name}_err_qpn": 9})
            await ClockCycles(dut.clk, rng.randrange(4))
            await clear(dut, 9)
            await account.rest()


@cocotb.test()
async def what_is_seen_comes_in_time(dut):
    """queue.sq_flush.cycles: A queue is halted at once; reports and the steps of a round meet their
    specified cycles."""
    account = await start(dut)
    count = queues_of(dut)
    promised = {path: timing("efa_sq_flush", path).latency
                for path in ("halted", "report", "fence", "scan", "again", "round")}  # fmt: skip
    # These two are given for 64 queues.
    promised["report"] += count - 64
    promised["round"] += count - 64
    waits = []
    for qpn in some(rng_for("cycles"), range(count), 64 if count < 1024 else 12):
        account.look = qpn
        await ClockCycles(dut.clk, 2)
        put = await pulse(dut, "s_read_err_valid", s_read_err_qpn=qpn)
        halted = (1 << account.readers) - 1
        await until(dut, lambda: dut.halted_rd_data.value == halted, "the halt")  # noqa: B023
        assert cycle() - put == promised["halted"]
        # Another distance to the scan pointer each time.
        await until(dut, lambda: account.quiet() and cycle() % count == 0, "rest", 4 * count)
        waits.append(account.reports[-1][0] - put)
    assert max(waits) <= promised["report"]
    account.look = None
    await pulse(dut, "s_incomplete_err_valid", s_incomplete_err_qpn=1)
    await account.rest()
    # The scan pointer leaves the queue in this cycle: a whole wrap, and each clear adds one cycle.
    for clears in (0, 1, 5):
        wraps = 2 * count if not clears else 3 * count
        await ClockCycles(dut.clk, wraps + account.reports[-1][0] - 2 - cycle())
        put = await pulse(dut, "s_incomplete_err_valid", s_incomplete_err_qpn=1)
        await clear(dut, *[7] * clears)
        await account.rest()
        assert account.reports[-1][0] - put == promised["report"] + clears
    for qpn in (0, count - 1):
        put = await pulse(dut, "s_notice_valid", s_notice_qpn=qpn)
        await until(dut, high(dut.m_fence_valid))
        assert cycle() - put == promised["fence"]
        await RisingEdge(dut.clk)
        done = await pulse(dut, "s_fence_done")
        await until(dut, high(dut.m_scan_valid))
        scanned = cycle()
        assert scanned - done == promised["scan"]
        await pulse(dut, "s_notice_valid", s_notice_qpn=qpn)
        await until(dut, high(dut.m_again_valid))
        assert cycle() - scanned == promised["again"] + qpn
        await until(dut, high(dut.m_fence_valid))
        assert cycle() - scanned == promised["round"]
        await RisingEdge(dut.clk)
        await pulse(dut, "s_fence_done")
        await account.rest()
        await ClockCycles(dut.clk, count + 2)


@cocotb.test()
async def reset_clears_every_queue(dut):
    """queue.sq_flush.reset: A reset in each step of a round, with a report pending, clears every
    queue within one cycle per queue; no queue is halted or flushed meanwhile."""
    account = await start(dut)
    rng, count = rng_for("sq_flush"), queues_of(dut)
    cocotb.start_soon(barriers(dut, account, rng))
    for engine in ("m_fence_ready", "barrier", "m_scan_ready", "m_again_ready", "m_qperr_ready"):
        account.held |= {engine, "m_qperr_ready"}
        for qpn in (3, 4, 50, count - 1):
            for name in EVENTS[:-1]:
                await pulse(dut, name + "_valid", **{name + "_qpn": qpn})
        await pulse(dut, "s_ah_gone")
        await ClockCycles(dut.clk, 100)
        await pulse(dut, "s_read_err_valid", s_read_err_qpn=60)
        account.look = 3
        await ClockCycles(dut.clk, 3)
        await reset(dut, rng.randrange(1, 4))
        quiet = dict.fromkeys(("m_init_done", "halted_rd_data", "flush_ok_rd_data",
                               "m_qperr_valid", "m_fence_valid", "m_again_valid"), 0)  # fmt: skip
        await steady(dut, count - 2, **quiet)
        assert await until(dut, high(dut.m_init_done), cycles=3) == 2
        account.held.clear()
        for qpn in (*some(rng, range(count), 70), 3, 4, 50, count - 1):
            account.look = qpn
            await RisingEdge(dut.clk)
        account.look = None
        await ClockCycles(dut.clk, 2 * count)
        assert account.quiet() and not account.reports and not account.rounds
        await pulse(dut, "s_notice_valid", s_notice_qpn=7)
        await account.rest()
        assert account.rounds == [{7}]
