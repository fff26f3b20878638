# SPDX-License-Identifier: Apache-2.0
"""Tests efa_qp_ctx: the owner of QP state and its read ports."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import EVENTS, INTERNAL, AdminQpState
from tb.lib.bundles import Bundles
from tb.lib.dont_care import dont_care
from tb.lib.stream import cycle, rng_for, start_clock
from tb.lib.timing import timing
from tb.lib.waits import drive, high, hold, steady, until

QPC, QPCHG = INTERNAL.qpc, INTERNAL.qpchg
SIDES = ("send", "recv")


class Bench:
    def __init__(self, dut):
        dut = Bundles(dut, s_qpc_admin=INTERNAL.qpc_admin)
        dut.lanes("m_qpchg", SIDES).lanes("s_qperr", SIDES, INTERNAL.qperr)
        self.dut, self.rng = dut, rng_for("contexts")
        self.contexts = {}
        self.notices = {side: [] for side in SIDES}
        self.errors = []
        dut.s_qpc_admin_valid.value = dut.s_qpc_admin_lock.value = dut.rst.value = 0
        dut.qpc_rd_addr.value = 0
        for side in SIDES:
            getattr(dut, f"s_qperr_{side}_valid").value = 0
            getattr(dut, f"m_qpchg_{side}_ready").value = 0

    async def start(self, ready=1.0):
        start_clock(self.dut.clk)
        await self.reset()
        cocotb.start_soon(self.watch(ready))

    async def reset(self):
        self.dut.rst.value = 1
        await ClockCycles(self.dut.clk, 4)
        self.dut.rst.value = 0
        await RisingEdge(self.dut.clk)
        await until(self.dut, high(self.dut.m_init_done))

    async def watch(self, ready):
        rng, done = rng_for("notice"), False
        while True:
            await RisingEdge(self.dut.clk)
            if self.dut.rst.value == 1:
                done = False
                continue
            assert self.dut.m_init_done.value == 1 or not done, "init_done fell without a reset"
            done = self.dut.m_init_done.value == 1
            for side in SIDES:
                consumed = getattr(self.dut, f"m_qpchg_{side}_ready")
                if getattr(self.dut, f"m_qpchg_{side}_valid").value == 1 and consumed.value == 1:
                    notice = QPCHG.unpack(int(self.dut.m_qpchg_data.value))
                    self.notices[side].append((notice.qpn, notice.state))
                consumed.value = int(rng.random() < ready)
            if self.dut.ev_qperr_valid.value == 1:
                event = EVENTS.qperr.unpack(int(self.dut.ev_qperr_data.value))
                self.errors.append((event.qpn, event.cause))

    async def write(self, qpn, **fields):
        self.contexts[qpn] = dont_care(QPC, self.rng, **fields)
        await hold(
            self.dut,
            "s_qpc_admin_valid",
            "s_qpc_admin_ready",
            s_qpc_admin_write=1,
            s_qpc_admin_qpn=qpn,
            s_qpc_admin_wdata=QPC.pack(**self.contexts[qpn]),
        )

    async def read(self, qpn, **changed):
        """Reads a context and checks it against the last write plus `changed` fields."""
        if qpn in self.contexts:
            self.contexts[qpn] |= changed
        await hold(
            self.dut,
            "s_qpc_admin_valid",
            "s_qpc_admin_ready",
            s_qpc_admin_write=0,
            s_qpc_admin_qpn=qpn,
        )
        await RisingEdge(self.dut.clk)
        await until(self.dut, high(self.dut.m_qpc_admin_rvalid), cycles=100)
        got = QPC.unpack(int(self.dut.m_qpc_admin_rdata.value))
        assert got == QPC.unpack(QPC.pack(**self.contexts.get(qpn, {})))
        return got

    async def error(self, side, qpn, cause):
        await hold(self.dut,
            f"s_qperr_{side}_valid",
            f"s_qperr_{side}_ready",
            **{f"s_qperr_{side}_qpn": qpn, f"s_qperr_{side}_cause": cause},
        )

    async def settle(self):
        await ClockCycles(self.dut.clk, 20)


@cocotb.test()
async def every_context_is_dead_after_reset(dut):
    """qp_ctx.reset: A reset clears every context and blocks all ports until the clear is done."""
    bench = Bench(dut)
    dut = bench.dut
    await bench.start()
    for qpn in range(64):
        await bench.write(qpn, live=1, state=AdminQpState.RTS)
    await bench.settle()
    bench.contexts.clear()
    dut.rst.value = 1
    await ClockCycles(dut.clk, 4)
    dut.rst.value = 0
    drive(dut, s_qpc_admin_valid=1, s_qpc_admin_write=0, s_qpc_admin_qpn=5)
    await steady(dut, 64, m_init_done=0, s_qpc_admin_ready=0, s_qperr_send_ready=0)
    await RisingEdge(dut.clk)
    assert dut.m_init_done.value == 1 and dut.s_qpc_admin_ready.value == 1
    dut.s_qpc_admin_valid.value = 0
    for qpn in range(64):
        await bench.read(qpn)
        drive(dut, qpc_rd_addr=0x41041041 * qpn)
        await ClockCycles(dut.clk, 2)
        assert dut.qpc_rd_data.value == 0


@cocotb.test()
async def a_write_is_read_back_and_reported_to_both_sides(dut):
    """qp_ctx.write: A written context is read back, and its state change is reported to both
    sides."""
    bench = Bench(dut)
    dut = bench.dut
    await bench.start(ready=0.3)
    wanted = {}
    rng = rng_for("write")
    for qpn in (0, 7, 21, 42, 63):
        wanted[qpn] = rng.randrange(7)
        await bench.write(qpn, live=1, state=wanted[qpn])
    for qpn in wanted:
        await bench.read(qpn)
    await bench.settle()
    reported = list(wanted.items())
    assert bench.notices == {"send": reported, "recv": reported}
    assert bench.errors == []


@cocotb.test()
async def every_port_reads_its_own_address_each_cycle(dut):
    """qp_ctx.readers: Every read port returns the context of its own address in every cycle."""
    bench = Bench(dut)
    dut = bench.dut
    await bench.start()
    for qpn in range(64):
        await bench.write(qpn)
    await bench.settle()
    rng = rng_for("readers")
    promised, request_log = timing("efa_qp_ctx", "reader"), []
    assert promised.interval == 1
    for _ in range(50):
        requested = [rng.randrange(64) for _ in range(6)]
        dut.qpc_rd_addr.value = sum(qpn << (6 * port) for port, qpn in enumerate(requested))
        await RisingEdge(dut.clk)
        if len(request_log) >= promised.latency:
            data = int(dut.qpc_rd_data.value)
            for port, qpn in enumerate(request_log[-promised.latency]):
                image = (data >> (port * QPC.width)) & ((1 << QPC.width) - 1)
                assert image == QPC.pack(**bench.contexts[qpn])
        request_log.append(requested)


@cocotb.test()
async def an_error_moves_only_a_live_queue_out_of_reset(dut):
    """qp_ctx.error: An error moves only a live QP outside RESET and ERR to ERR, and is reported
    once."""
    bench = Bench(dut)
    dut = bench.dut
    await bench.start(ready=0.5)
    for state in AdminQpState:
        await bench.write(int(state), live=1, state=state)
        await bench.write(int(state) | 56, live=1, state=state)
    await bench.write(20, live=0, state=AdminQpState.RTS)
    await bench.settle()
    for side in SIDES:
        bench.notices[side].clear()
    states = [int(state) for state in AdminQpState]
    for number in [*states, 20]:
        await bench.error(SIDES[number % 2], number, number % 7 + 1)
    for number in states:
        await bench.error(SIDES[1 - number % 2], number | 56, 15 - number)
    await bench.settle()
    breakable = [1, 2, 3, 4, 5, 57, 58, 59, 60, 61]
    causes = [number % 7 + 1 for number in range(1, 6)] + [15 - number for number in range(1, 6)]
    assert bench.errors == list(zip(breakable, causes, strict=True))
    assert bench.notices["send"] == [(qpn, AdminQpState.ERR) for qpn in breakable]
    assert bench.notices["recv"] == bench.notices["send"]
    for qpn in (0, 6, 20):
        await bench.read(qpn)
    for qpn in breakable:
        await bench.read(qpn, state=AdminQpState.ERR)


@cocotb.test()
async def sides_take_turns(dut):
    """qp_ctx.quanta: Errors of both sides alternate; the side that was granted last waits first."""
    bench = Bench(dut)
    dut = bench.dut
    await bench.start()
    for wrap in range(2):
        for qpn in range(32):
            await bench.write(qpn, live=1, state=AdminQpState.RTS)

        async def reports(side, first, cause):
            for number in range(8):
                await bench.error(side, first + number, cause + number % 4)

        await bench.error("send" if wrap else "recv", 31, 1)
        await bench.settle()
        bench.errors.clear()
        both = [cocotb.start_soon(reports("send", 0, 4)), cocotb.start_soon(reports("recv", 8, 8))]
        for task in both:
            await task
        await bench.settle()
        sent = [(number, 4 + number % 4) for number in range(8)]
        received = [(8 + number, 8 + number % 4) for number in range(8)]
        order = (received, sent) if wrap else (sent, received)
        assert [bench.errors[at::2] for at in (0, 1)] == [list(side) for side in order]


@cocotb.test()
async def the_lock_holds_errors_off(dut):
    """qp_ctx.lock: The admin lock blocks error reports until it is released."""
    bench = Bench(dut)
    dut = bench.dut
    await bench.start()
    for number, side in enumerate(SIDES):
        await bench.write(4, live=1, state=AdminQpState.RTS)
        await bench.settle()
        dut.s_qpc_admin_lock.value = 1
        task = cocotb.start_soon(bench.error(side, 4, 3))
        await bench.settle()
        assert not task.done()
        await bench.write(4, live=1, state=AdminQpState.SQD)
        dut.s_qpc_admin_lock.value = 0
        await bench.settle()
        assert task.done() and bench.errors == [(4, 3)] * (number + 1)
        await bench.read(4, state=AdminQpState.ERR)


@cocotb.test()
async def changes_are_reported_and_seen_in_time(dut):
    """queue.qp_ctx.cycles: Back-to-back writes, reads and errors meet their specified cycles."""
    bench = Bench(dut)
    dut = bench.dut
    await bench.start()
    await bench.settle()
    dut.qpc_rd_addr.value = 9
    edges = {name: [] for name in ("accepted", "rsp", "notice", "seen")}
    state = None

    async def watch():
        while True:
            await RisingEdge(dut.clk)
            ports = ("s_qpc_admin", "s_qperr_send", "s_qperr_recv")
            if any(
                getattr(dut, p + "_valid").value & getattr(dut, p + "_ready").value for p in ports
            ):
                edges["accepted"].append(cycle())
            if dut.m_qpc_admin_rvalid.value == 1:
                edges["rsp"].append(cycle())
            if dut.m_qpchg_send_valid.value == 1:
                edges["notice"].append(cycle())
                assert dut.m_qpchg_recv_valid.value == 1
            image = int(dut.qpc_rd_data.value) & (1 << QPC.width) - 1
            if state is not None and QPC.unpack(image).state == state:
                edges["seen"].append(cycle())

    cocotb.start_soon(watch())

    def check(path, outcome, late):
        promised = timing("efa_qp_ctx", path)
        consumed = edges["accepted"]
        assert len(consumed) == 8, path
        assert [b - a for a, b in zip(consumed, consumed[1:], strict=False)] == [
            promised.interval
        ] * 7
        assert edges[outcome] == [edge + promised.latency for edge in consumed], path
        if late is not None:
            assert edges["seen"][0] == consumed[0] + timing("efa_qp_ctx", "seen").latency + late, (
                path
            )
        for seen in edges.values():
            seen.clear()

    state = AdminQpState.RTS
    dut.s_qpc_admin_valid.value, dut.s_qpc_admin_write.value, dut.s_qpc_admin_qpn.value = 1, 1, 9
    dut.s_qpc_admin_wdata.value = QPC.pack(live=1, state=state)
    await until(dut, lambda: len(edges["accepted"]) == 8, "8 accesses")
    dut.s_qpc_admin_valid.value = 0
    await bench.settle()
    check("write", "notice", 0)
    state = None
    dut.s_qpc_admin_valid.value, dut.s_qpc_admin_write.value = 1, 0
    await until(dut, lambda: len(edges["accepted"]) == 8, "8 accesses")
    dut.s_qpc_admin_valid.value = 0
    await bench.settle()
    check("read", "rsp", None)
    for qpn in range(2, 10):
        await bench.write(qpn, live=1, state=AdminQpState.RTS)
    await bench.settle()
    for seen in edges.values():
        seen.clear()
    state = AdminQpState.ERR
    dut.s_qperr_recv_valid.value, dut.s_qperr_recv_cause.value = 1, 5
    for number in range(8):
        dut.s_qperr_recv_qpn.value = 9 - number
        await until(dut, lambda number=number: len(edges["accepted"]) > number, "the next access")
    dut.s_qperr_recv_valid.value = 0
    await bench.settle()
    check("error", "notice", 1)
