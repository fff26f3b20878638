# SPDX-License-Identifier: Apache-2.0
"""Tests efa_ec: counted completions, counter writes, uncounted completions, refused orders."""

import cocotb
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge

from efa_cosim.layouts.defs import LIMITS
from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, high, until

CREATE, DESTROY, ATTACH, DETACH, SET, ADD, FORGET = range(7)
OK, ILLEGAL, BUSY = range(3)
COUNTERS, WRAP = 1 << LIMITS.ec_w, 1 << 64


class Counters:
    """Models the counter rules sequentially: counters {number: [address, value]} and attachments
    {(qp, kind): number}; `due` lists the expected outputs in order."""

    def __init__(self):
        self.there, self.counts, self.due = {}, {}, []

    def write(self, number):
        self.due.append(("wr", *self.there[number]))

    def complete(self, beat):
        number = self.counts.get((beat["qpn"], beat["kind"]))
        if beat["counted"] and number is not None:
            self.there[number][1] = (self.there[number][1] + 1) % WRAP
            self.write(number)
        if beat["intr"]:
            self.due.append(("commit", beat["cqn"], beat["total"]))

    def order(self, op, number, qpn, events, value):
        """Applies an order; returns its response code."""
        named = [(qpn, kind) for kind in range(4) if events >> kind & 1]
        if op == CREATE:
            self.there[number] = [value & ~7, 0]
        elif op == DESTROY:
            return BUSY if number in self.counts.values() else OK
        elif op == ATTACH:
            if any(self.counts.get(one, number) != number for one in named):
                return BUSY
            self.counts.update(dict.fromkeys(named, number))
        elif op == DETACH:
            if any(self.counts.get(one) != number for one in named):
                return ILLEGAL
            for one in named:
                del self.counts[one]
        elif op == FORGET:
            self.counts = {one: n for one, n in self.counts.items() if one[0] != qpn}
        else:
            before = self.there[number][1] if op == ADD else 0
            self.there[number][1] = (before + value) % WRAP
            self.write(number)
        return OK


class Bench:
    """Drives orders and completions into efa_ec and compares all outputs with `Counters`."""

    def __init__(self, dut, gaps=0.0, stalls=0.0):
        self.dut, self.rng, self.rule, self.seen = dut, rng_for("ec"), Counters(), []
        self.qps = 1 << int(dut.QPN_W.value)
        drive(dut, s_ec_valid=0, s_ec_op=0, s_ec_counter=0, s_ec_qpn=0, s_ec_events=0, s_ec_value=0,
              counted_rd_en=0, counted_rd_addr=0, s_drain_valid=0, s_drained=0)  # fmt: skip
        self.commits = StreamDriver(dut, "s_commit", gaps)
        self.wr = StreamMonitor(dut, "m_wr", stalls, on_beat=self.wrote)
        self.out = StreamMonitor(dut, "m_commit", stalls, on_beat=self.reported)

    async def start(self):
        await clock_and_reset(self.dut)
        await self.swept()

    async def swept(self):
        """Waits for the init sweep, 1 cycle for each QP."""
        await until(self.dut, high(self.dut.m_init_done), "the init sweep", cycles=self.qps + 10)

    def wrote(self, beat):
        self.seen.append(("wr", beat["addr"], beat["data"]))

    def reported(self, beat):
        self.seen.append(("commit", beat["cqn"], beat["total"]))

    async def order(self, op, number=0, qpn=0, events=0, value=0):
        """Sends an order; returns its response after a check against the rules."""
        rng = self.rng
        drive(self.dut, s_ec_valid=1, s_ec_op=op, s_ec_counter=number, s_ec_qpn=qpn,
              s_ec_events=events, s_ec_value=value | (0 if op != CREATE else rng.randrange(8)),
              )  # fmt: skip
        for _ in range(400):
            await RisingEdge(self.dut.clk)
            if self.dut.s_ec_ready.value == 1:
                break
        else:
            raise AssertionError("no response to an order")
        code = int(self.dut.m_ec_code.value)
        self.dut.s_ec_valid.value = 0
        await RisingEdge(self.dut.clk)
        assert code == self.rule.order(op, number, qpn, events, value), (op, number, qpn, events)
        return code

    def complete(self, qpn, kind, counted=None, intr=None):
        rng = self.rng
        some = any(one[0] == qpn for one in self.rule.counts)
        counted = int(some or rng.random() < 0.1) if counted is None else counted
        intr = rng.getrandbits(1) if intr is None else intr
        beat = {"cqn": rng.randrange(2 * self.qps), "total": rng.getrandbits(16), "qpn": qpn,
                "kind": kind, "counted": counted, "intr": intr if counted else 1}  # fmt: skip
        self.commits.post(beat)
        self.rule.complete(beat)

    async def settle(self):
        await self.commits.idle()
        await ClockCycles(self.dut.clk, 60)
        assert self.seen == self.rule.due
        self.seen.clear()
        self.rule.due.clear()

    async def look(self):
        """Checks that exactly the QPs with an attached counter are looked up as counted."""
        assert timing("efa_ec", "lookup").latency == 1
        for qpn in self.rng.sample(range(self.qps), 16) + [one[0] for one in self.rule.counts][:16]:
            drive(self.dut, counted_rd_en=1, counted_rd_addr=qpn)
            await RisingEdge(self.dut.clk)
            # The flag stays until the next lookup.
            drive(self.dut, counted_rd_en=0, counted_rd_addr=self.rng.randrange(self.qps))
            some = any(one[0] == qpn for one in self.rule.counts)
            for _ in range(2):
                await ReadOnly()
                assert self.dut.counted_rd_data.value == some, qpn
                await RisingEdge(self.dut.clk)


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0), (0.5, 0.0), (0.1, 0.6)])
async def completions_and_orders_by_the_rule(dut, pace):
    """queue.ec.rule: random orders between bursts of completions give the expected values,
    addresses and responses."""
    bench = Bench(dut, *pace)
    rng = bench.rng
    await bench.start()
    numbers = [0, 1, COUNTERS - 1, rng.randrange(2, COUNTERS - 1)]
    qps = [0, bench.qps - 1, *rng.sample(range(1, bench.qps - 1), 3)]
    for number in numbers:
        await bench.order(CREATE, number, value=8 * rng.getrandbits(61))
    responses = set()
    for _ in range(240):
        op = rng.choice((ATTACH, ATTACH, ATTACH, DETACH, DETACH, DESTROY, SET, ADD, FORGET))
        value = rng.choice((1, WRAP - 1, rng.getrandbits(64)))
        events = rng.randrange(1, 16)
        number, qpn = rng.choice(numbers), rng.choice(qps)
        if op == DETACH and rng.random() < 0.6 and bench.rule.counts:
            (qpn, kind), number = rng.choice(sorted(bench.rule.counts.items()))
            events = 1 << kind
        if op == DESTROY and rng.random() < 0.5:
            number = rng.choice(sorted(set(numbers) - set(bench.rule.counts.values())) or numbers)
        code = await bench.order(op, number, qpn, events, value)
        responses.add((op, code))
        if op == DESTROY and code == OK:
            await bench.order(CREATE, number, value=8 * rng.getrandbits(61))
        for _ in range(rng.randrange(8)):
            bench.complete(rng.choice(qps), rng.randrange(4))
        await bench.settle()
    await bench.look()
    assert responses >= {(ATTACH, OK), (ATTACH, BUSY), (DETACH, OK), (DETACH, ILLEGAL),
                       (DESTROY, OK), (DESTROY, BUSY), (FORGET, OK)}, responses  # fmt: skip


@cocotb.test()
async def uncounted_completions_pass_unchanged(dut):
    """queue.ec.pass: uncounted completions pass in the same cycle at one per cycle, also during
    an order."""
    assert timing("efa_ec", "pass").latency == 0
    bench = Bench(dut)
    await bench.start()
    await bench.order(CREATE, 3, value=64)
    for _ in range(40):
        bench.complete(5, 0, counted=0)
    start = bench.out.consumed
    await RisingEdge(dut.clk)
    worker = cocotb.start_soon(bench.order(ATTACH, 3, 9, 1))
    await ClockCycles(dut.clk, 30)
    assert bench.out.consumed - start >= 28
    await worker
    await bench.settle()


@cocotb.test()
async def an_entry_waits_behind_a_counted_one(dut):
    """queue.ec.order: an uncounted completion behind a counted completion does not overtake the
    counter write."""
    bench = Bench(dut)
    await bench.start()
    await bench.order(CREATE, 1, value=4096)
    await bench.order(ATTACH, 1, 2, 0xF)
    bench.wr._pause = lambda: True  # the host is stalled
    bench.complete(2, 0, counted=1, intr=1)
    bench.complete(3, 0, counted=0)
    await ClockCycles(dut.clk, 40)
    assert not bench.seen and dut.m_commit_valid.value == 0
    bench.wr._pause = lambda: False
    await bench.settle()


@cocotb.test()
async def orders_and_completions_starve_neither(dut):
    """queue.ec.fair: ADD orders and a stream of completions do not starve each other and lose no
    count."""
    bench = Bench(dut, stalls=0.2)
    await bench.start()
    await bench.order(CREATE, 7, value=512)
    await bench.order(ATTACH, 7, 1, 0b1001)
    beats = 60
    for number in range(beats):
        bench.commits.post({"cqn": 1, "total": number, "qpn": 1, "kind": 3 * (number % 2),
                            "counted": 1, "intr": 1})  # fmt: skip
    for _ in range(12):
        drive(dut, s_ec_valid=1, s_ec_op=ADD, s_ec_counter=7, s_ec_value=1000)
        for _ in range(60):
            await RisingEdge(dut.clk)
            if dut.s_ec_ready.value == 1:
                break
        else:
            raise AssertionError("an order starved")
        dut.s_ec_valid.value = 0
        await RisingEdge(dut.clk)
    await bench.commits.idle()
    await ClockCycles(dut.clk, 40)
    values = [one[2] for one in bench.seen if one[0] == "wr"]
    assert values[-1] == 12 * 1000 + beats and len(values) == 12 + beats
    assert all(b - a in (1, 1000) for a, b in zip(values, values[1:], strict=False))
    assert [one[2] for one in bench.seen if one[0] == "commit"] == list(range(beats))


@cocotb.test()
async def a_drain_sees_what_is_inside_out(dut):
    """queue.ec.drain: a drain waits for exactly the completions in the module and passes
    immediately without any."""
    bench = Bench(dut)
    await bench.start()
    await bench.order(CREATE, 0, value=8)
    await bench.order(ATTACH, 0, 0, 15)
    drive(dut, s_drain_valid=1, s_drained=1)
    await ReadOnly()
    assert dut.m_drained.value == 1
    await RisingEdge(dut.clk)
    drive(dut, s_drain_valid=0, s_drained=0)
    bench.wr._pause = lambda: True
    for _ in range(6):
        bench.complete(0, 1, counted=1, intr=1)
    await ClockCycles(dut.clk, 10)
    drive(dut, s_drain_valid=1, s_drained=1)
    await RisingEdge(dut.clk)
    dut.s_drained.value = 0
    for _ in range(10):
        await RisingEdge(dut.clk)
        assert dut.m_drained.value == 0
    bench.wr._pause = lambda: False
    for _ in range(10):
        await RisingEdge(dut.clk)
        if dut.m_drained.value == 1:
            break
    else:
        raise AssertionError("the drain did not complete")
    assert [one[0] for one in bench.seen] == ["wr", "commit"]
    dut.s_drain_valid.value = 0
    await bench.settle()


@cocotb.test()
async def its_cycles(dut):
    """queue.ec.time"""
    count, commit = timing("efa_ec", "count"), timing("efa_ec", "commit")
    bench = Bench(dut)
    await bench.start()

    async def span(done, **order):
        """Returns the cycles from an order until `done` is true."""
        drive(dut, s_ec_valid=1, **order)
        cycles = accepted = None
        for cycle in range(100):
            await ReadOnly()
            cycles = cycle if cycles is None and done() else cycles
            accepted = cycles is not None and dut.s_ec_ready.value == 1
            if accepted:
                break
            await RisingEdge(dut.clk)
        assert accepted, f"an order did not end: {order}"
        await RisingEdge(dut.clk)
        dut.s_ec_valid.value = 0
        await RisingEdge(dut.clk)
        return cycles

    responded = lambda: dut.s_ec_ready.value == 1  # noqa: E731
    promised = timing("efa_ec", "order").latency
    assert await span(responded, s_ec_op=CREATE, s_ec_counter=1, s_ec_value=64) == promised
    assert await span(responded, s_ec_op=ATTACH, s_ec_qpn=4, s_ec_events=0b11) == promised
    written = lambda: dut.m_wr_valid.value == 1  # noqa: E731
    promised = timing("efa_ec", "change").latency
    assert await span(written, s_ec_op=SET, s_ec_value=5) == promised
    for _ in range(8):
        bench.commits.post({"cqn": 1, "total": 1, "qpn": 4, "kind": 1, "counted": 1, "intr": 1})
    consumed, writes, commits = [], [], []
    for cycle in range(80):
        await ReadOnly()
        if dut.s_commit_valid.value == 1 and dut.s_commit_ready.value == 1:
            consumed.append(cycle)
        if dut.m_wr_valid.value == 1:
            writes.append(cycle)
        if dut.m_commit_valid.value == 1:
            commits.append(cycle)
        await RisingEdge(dut.clk)
    assert writes[0] - consumed[0] == count.latency and writes[2] - writes[1] == count.interval
    assert commits[0] - writes[0] == commit.latency
    cancel, event = timing("efa_ec", "invalidate").latency, timing("efa_ec", "invalidated").interval
    assert await span(responded, s_ec_op=FORGET, s_ec_qpn=4) == cancel + 2 * event
    assert await span(responded, s_ec_op=FORGET, s_ec_qpn=5) == cancel


@cocotb.test()
async def reset_clears_every_counter(dut):
    """queue.ec.reset"""
    bench = Bench(dut, stalls=0.5)
    await bench.start()
    for turn in range(8):
        await bench.order(CREATE, 2, value=8)
        await bench.order(ATTACH, 2, 6, 15)
        for _ in range(4):
            bench.complete(6, 2, counted=1, intr=1)
        await ClockCycles(dut.clk, 3 + turn)
        bench.commits.clear()
        await reset(dut)
        await bench.swept()
        bench.commits.clear()
        bench.rule = Counters()
        await bench.look()
        bench.seen.clear()
        await bench.order(CREATE, 2, value=8)
        await bench.order(ATTACH, 2, 6, 1)
        bench.complete(6, 0, counted=1, intr=1)
        await bench.settle()
        await bench.order(FORGET, 0, 6)
