# SPDX-License-Identifier: Apache-2.0
"""Tests efa_doorbell: validation by UAR page, QP state and free space; new indices; timing."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import EVENTS, INTERNAL, LIMITS, AdminQpState
from tb.lib.dont_care import dont_care
from tb.lib.stream import clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import high, pulse, until, zero
from tb.unit.queue_bench import Pulses, RefCounts, Table

TAKEN, FOREIGN, BEYOND, STATE = range(4)
SQ, RQ, CQ = range(3)


class Bench:
    """Drives the ports of efa_doorbell, models the expected result of each store and the producer
    indices of efa_sq_index."""

    def __init__(self, dut):
        self.dut = dut
        self.rng = rng_for("contexts")
        self.qps, self.cqs, self.produced, self.completed = {}, {}, {}, {}
        self.dead = dont_care(INTERNAL.qpc, self.rng, live=0)
        self.index = RefCounts()
        self.expected = {"ev": [], "prod": [], "work": [], "err": [], "rqdb": [], "cqdb": []}

    async def start(self):
        dut = self.dut
        zero(dut, "s_db_valid", "s_cqc_valid", "prod_rd_data")
        context = lambda qpn: INTERNAL.qpc.pack(**self.qps.get(qpn, self.dead))  # noqa: E731
        Table(dut, "qpc_rd_addr", "qpc_rd_data", context)
        Table(dut, "qpc_rd_addr", "completed_rd_data", lambda n: self.completed.get(n, 0))
        await clock_and_reset(dut)
        await until(dut, high(dut.m_init_done), cycles=5000)
        cocotb.start_soon(self.indices())
        self.prod = Pulses(dut, "m_prod", "qpn", "count")
        self.ev = Pulses(dut, "ev_db", "data")
        self.work, self.err = Pulses(dut, "m_work", "qpn"), Pulses(dut, "m_err", "qpn")
        self.rqdb = Pulses(dut, "m_rqdb", "qpn", "value")
        self.cqdb = Pulses(dut, "m_cqdb", "cqn", "value")

    async def indices(self):
        """Models the producer indices of efa_sq_index."""
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value == 0 and dut.m_prod_valid.value == 1:
                self.index.update((int(dut.m_prod_qpn.value), int(dut.m_prod_count.value)))
            requested = dut.qpc_rd_addr.value
            dut.prod_rd_data.value = self.index[int(requested)] if requested.is_resolvable else 0

    async def qp(self, qpn, uar=1, log=4, state=AdminQpState.RTS):
        self.qps[qpn] = dont_care(INTERNAL.qpc, self.rng, live=1, uar=uar, sq_log=log, state=state)
        self.produced[qpn] = self.completed[qpn] = 0
        self.index.update(cleared=qpn)

    async def cq(self, cqn, uar=1, live=1):
        self.cqs[cqn] = uar if live else None
        context = dont_care(INTERNAL.cqc, self.rng, live=live, uar=uar)
        await pulse(self.dut, "s_cqc_valid", s_cqc_cqn=cqn, s_cqc_data=INTERNAL.cqc.pack(**context))

    def validate(self, uar, kind, num, value):
        """Returns the outcome of a store by decision 0001 and records the expected reports."""
        outcome = TAKEN
        if kind == CQ:
            outcome = TAKEN if self.cqs.get(num) == uar else FOREIGN
        else:
            qp = self.qps.get(num)
            if qp is None or qp["uar"] != uar:
                outcome = FOREIGN
            elif qp["state"] == AdminQpState.RESET:
                outcome = STATE
            elif kind == SQ:
                produced = self.produced[num]
                new = (value - produced) & 0xFFFF
                space = (1 << qp["sq_log"]) - ((produced - self.completed[num]) & 0xFFFF)
                outcome = TAKEN if new <= space else BEYOND
        self.expected["ev"].append((kind, outcome, num, value))
        if outcome == TAKEN and kind == SQ:
            self.expected["prod"].append((num, value & 0xFFFF))
            if self.produced[num] != value & 0xFFFF:
                self.expected["work"].append(num)
            self.produced[num] = value & 0xFFFF
        if outcome == BEYOND:
            self.expected["err"].append(num)
        if outcome == TAKEN and kind == RQ:
            self.expected["rqdb"].append((num, value & 0xFFFF))
        if outcome == TAKEN and kind == CQ:
            self.expected["cqdb"].append((num, value))
        return outcome

    async def store(self, uar, kind, num, value):
        offset = {SQ: 8 * num, RQ: 8 * num + 4, CQ: LIMITS.db_cq_base + 4 * num}[kind]
        self.validate(uar, kind, num, value)
        return await pulse(self.dut, "s_db_valid", s_db_data=value,
                           s_db_offset=uar * LIMITS.db_page_bytes + offset)  # fmt: skip

    async def check(self):
        await ClockCycles(self.dut.clk, 6)
        seen = [EVENTS.db.unpack(raw) for raw in self.ev.values()]
        got = [(e.kind, e.status, e.num, e.value) for e in seen]
        assert got == self.expected["ev"], next(
            pair for pair in zip(got, self.expected["ev"], strict=False) if pair[0] != pair[1])
        for name in ("prod", "work", "err", "rqdb", "cqdb"):
            assert getattr(self, name).values() == self.expected[name], name


@cocotb.test()
@cocotb.parametrize(gaps=[0.0, 0.6])
async def every_store_is_checked_by_page_state_and_ring(dut, gaps):
    """queue.doorbell.statuses: random stores of all kinds, back to back and with gaps, have the
    expected outcomes."""
    bench = Bench(dut)
    await bench.start()
    rng = rng_for("doorbell")
    last_qp, last_cq = (1 << len(dut.m_work_qpn)) - 1, (1 << len(dut.m_cqdb_cqn)) - 1
    queues = (
        (0, 0, AdminQpState.RTS), (5, 3, AdminQpState.INIT), (9, 4, AdminQpState.RESET),
        (last_qp, 10, AdminQpState.ERR),
    )  # fmt: skip
    for qpn, log, state in queues:
        await bench.qp(qpn, uar=qpn & 1, log=log, state=state)
    for cqn in (0, 3, last_cq):
        await bench.cq(cqn, uar=cqn & 1)
    await bench.cq(4)
    await bench.cq(4, live=0)
    for _ in range(12):
        for _ in range(50):
            kind = rng.choice((SQ, SQ, SQ, RQ, CQ))
            if kind == CQ:
                num = rng.choice((0, 3, 4, last_cq, (last_cq + 1) & 0x1FFF, 6))
            else:
                num = rng.choice((0, 5, 9, last_qp, 7, (last_qp + 1) & 0xFFF))
            near = bench.produced.get(num, 0) + rng.choice((0, 1, 1, 2, 5, -1, 0x8000))
            value = rng.getrandbits(16) << 16 | near & 0xFFFF
            await bench.store(rng.choice((num & 1, num & 1, num & 1, 1 - (num & 1), 1 << 12)),
                              kind, num, value)  # fmt: skip
            while rng.random() < gaps:
                await RisingEdge(dut.clk)
        await ClockCycles(dut.clk, 6)
        for qpn, produced in bench.produced.items():
            left = rng.choice((0, 0, 1, (produced - bench.completed[qpn]) & 0xFFFF))
            if left <= (produced - bench.completed[qpn]) & 0xFFFF:
                bench.completed[qpn] = (produced - left) & 0xFFFF
        for qp in bench.qps.values():
            qp["state"] = rng.choice((AdminQpState.RTS, rng.choice(list(AdminQpState))))
    await bench.check()
    assert {outcome for _, outcome, _, _ in bench.expected["ev"]} == {0, 1, 2, 3}


@cocotb.test()
async def every_bit_of_a_page_and_every_depth_count(dut):
    """queue.doorbell.page: a page or a queue number that differs in one bit is refused as
    foreign."""
    bench = Bench(dut)
    await bench.start()
    qpn_w, cqn_w = len(dut.m_work_qpn), len(dut.m_cqdb_cqn)
    pages = (1 << 32) // LIMITS.db_page_bytes
    for number in range(22):
        uar, log = bench.rng.randrange(1 << 10), number % 11
        await bench.qp(number, uar=uar, log=log)
        await bench.cq(number, uar=uar)
        others = [(uar ^ 1 << bit, kind, number)
                  for bit in range(pages.bit_length() - 1) for kind in (SQ, RQ, CQ)]  # fmt: skip
        for kind, first, bits in ((SQ, qpn_w, 12), (RQ, qpn_w, 12), (CQ, cqn_w, 13)):
            others += [(uar, kind, number | 1 << bit) for bit in range(first, bits)]
        for other in others:
            await bench.store(*other, 1)
            assert bench.expected["ev"][-1][1] == FOREIGN
        for kind in (SQ, RQ, CQ):
            await bench.store(uar, kind, number, 1 << log)
        await bench.store(uar, SQ, number, (1 << log) + 1)
        assert [event[1] for event in bench.expected["ev"][-4:]] == [TAKEN] * 3 + [BEYOND]
    await bench.check()


@cocotb.test()
async def a_queue_pair_that_is_gone_is_not_posted(dut):
    """queue.doorbell.gone: a destroyed QP refuses doorbells through its former UAR page, even
    with a valid state."""
    bench = Bench(dut)
    bench.dead = dont_care(INTERNAL.qpc, bench.rng, live=0, uar=3, state=AdminQpState.RTS)
    await bench.start()
    for kind in (SQ, RQ):
        await bench.store(3, kind, 5, 1)
        assert bench.expected["ev"][-1][1] == FOREIGN
    await bench.check()


@cocotb.test()
async def counts_scan_anywhere(dut):
    """queue.doorbell.scan: producer indices move forward, backward and beyond the free space, on
    one and several QPs, and from 0 after a clear"""
    bench = Bench(dut)
    await bench.start()
    rng, wide = bench.rng, len(dut.m_work_qpn)
    queues = {qpn: rng.choice((10, 9, 8, 3)) for qpn in range(1 << wide)[:: (1 << wide) // 64]}
    for qpn, log in queues.items():
        await bench.qp(qpn, uar=qpn, log=log)
    for _ in range(150):
        some = [rng.choice(list(queues)) for _ in range(3)]
        some[1] = some[0] ^ rng.choice((0, 1 << wide - 1)) if rng.random() < 0.5 else some[1]
        for _ in range(16):
            qpn = rng.choice(some)
            depth, done = 1 << queues[qpn], bench.completed[qpn]
            posted = bench.produced[qpn] - done & 0xFFFF
            on = rng.randrange(posted, depth + 1)
            to = rng.choice((posted, on, on, depth, depth + 1, rng.randrange(posted + 1),
                             posted ^ 1 << rng.randrange(16)))  # fmt: skip
            value = rng.getrandbits(16) << 16 | done + to & 0xFFFF
            await bench.store(qpn, SQ, qpn, value)
            for _ in range(rng.choice((0, 0, 0, 1, 2))):
                await RisingEdge(dut.clk)
        await ClockCycles(dut.clk, 6)
        for qpn in some:
            posted = bench.produced[qpn] - bench.completed[qpn] & 0xFFFF
            bench.completed[qpn] = bench.completed[qpn] + rng.randrange(posted + 1) & 0xFFFF
    await bench.check()
    for cleared in ((), list(queues)[1::2], list(queues)[::2]):
        for qpn in cleared:
            await bench.qp(qpn, uar=qpn, log=queues[qpn])
        for qpn, log in queues.items():
            await bench.store(qpn, SQ, qpn, bench.completed[qpn] + (1 << log) & 0xFFFF)
        await bench.check()


@cocotb.test()
async def the_count_wraps(dut):
    """queue.doorbell.wrap: the producer index wraps; in each step the full ring is accepted and
    one more WQE is refused."""
    bench = Bench(dut)
    await bench.start()
    await bench.qp(2, log=10)
    for wrap in range(70):
        full = (bench.produced[2] + 1024) & 0xFFFF
        await bench.store(1, SQ, 2, full)
        await bench.store(1, SQ, 2, (full + 1) & 0xFFFF)
        await bench.store(1, SQ, 2, (full - 1) & 0xFFFF)
        await ClockCycles(dut.clk, 5)
        assert [outcome for _, outcome, _, _ in bench.expected["ev"][-3:]] == [0, 2, 2], wrap
        bench.completed[2] = full
    await bench.check()


@cocotb.test()
async def effect_comes_in_time_and_back_to_back(dut):
    """queue.doorbell.cycles: the effect has the latency and interval of spec/timing.yaml, for
    one queue and for two alternating queues."""
    bench = Bench(dut)
    await bench.start()
    promised = timing("efa_doorbell", "store")
    for qpn in (3, 4):
        await bench.qp(qpn, log=10)
    stores = []
    for number in range(60):
        qpn = 3 if number < 30 else 3 + number % 2
        stores.append(await bench.store(1, SQ, qpn, bench.produced[qpn] + 1))
    await bench.check()
    assert [b - a for a, b in zip(stores, stores[1:], strict=False)] == [promised.interval] * 59
    for effects in (bench.work, bench.prod):
        assert [beat[0] for beat in effects.seen] == [at + promised.latency for at in stores]
    # efa_sq_index returns a new index in the cycle of its update, one cycle after the lookup.
    count = timing("efa_doorbell", "count").latency
    assert count == promised.latency + timing("efa_sq_index", "lookup").latency
    # Doorbells beyond the free space, back to back: the next doorbell is checked against the
    # unchanged producer index.
    for value in range(bench.produced[4] + 1020 - 44, bench.produced[4] + 1040):
        await bench.store(1, SQ, 4, value & 0xFFFF)
    await bench.check()
    assert bench.expected["err"]


@cocotb.test()
async def reset_clears_completion_queues_and_stores_under_way(dut):
    """queue.doorbell.reset"""
    bench = Bench(dut)
    await bench.start()
    await bench.qp(1)
    for cqn in range(1 << len(dut.m_cqdb_cqn)):
        await bench.cq(cqn)
    await bench.store(1, CQ, 8, 77)
    await bench.check()
    latency = timing("efa_doorbell", "store").latency
    for cycles in range(latency + 1):
        await pulse(dut, "s_db_valid", s_db_offset=LIMITS.db_page_bytes + 8, s_db_data=9)
        await ClockCycles(dut.clk, cycles)
        await reset(dut, 1)
        await ClockCycles(dut.clk, 2)
        if cycles < latency:
            assert len(bench.ev.seen) == 1, (
                f"a store took effect although a reset followed {cycles} cycles later"
            )
            await until(dut, high(dut.m_init_done), cycles=5000)
    assert dut.m_init_done.value == 0
    await until(dut, high(dut.m_init_done), cycles=5000)
    bench.cqs.clear()
    bench.ev.seen.clear()
    bench.work.seen.clear()
    bench.prod.seen.clear()
    bench.expected.update(ev=[], work=[], prod=[])
    await bench.qp(1)
    for cqn in range(1 << len(dut.m_cqdb_cqn)):
        await bench.store(1, CQ, cqn, 78)
    await bench.store(1, SQ, 1, 3)
    await bench.cq(8)
    await bench.store(1, CQ, 8, 79)
    await bench.check()
