# SPDX-License-Identifier: Apache-2.0
"""Tests efa_rx_outcome: outcomes are stored before they are reported, duplicates report them."""

from collections import deque

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import INTERNAL
from efa_cosim.transport.packets import PSN_MASK, psn_distance
from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import high, until, zero
from tb.unit.data_bench import Moments, consumed
from tb.unit.length import grid

READ = timing("efa_rx_outcome", "read")


class State:
    """Place of the window of a peer, and the stored outcomes: PSN to status, for one session."""

    def __init__(self, rng):
        self.session, self.oldest = rng.randrange(1, 1 << 15), rng.getrandbits(32)
        self.stored, self.of, self.begun = {}, None, 0


class Bench:
    """Models the windows, drives outcomes and duplicates, checks all outputs in their order."""

    def __init__(self, dut, name, gaps=0.0, stalls=0.0):
        self.dut, self.rng = dut, rng_for(name)
        self.nodes, self.window = 1 << int(dut.NODE_W.value), 1 << int(dut.WINDOW_W.value)
        zero(dut, "window_rd_data", "accepted_rd_addr")
        self.inputs = {name: StreamDriver(dut, f"s_{name}", gaps, ["data"])
                       for name in ("outcome", "again")}  # fmt: skip
        self.due = StreamMonitor(dut, "m_due", 0, ["data"])
        self.replies = StreamMonitor(dut, "m_reply", stalls, ["data"])
        self.moving = 0.0  # share of cycles in which a window moves
        self.restart()

    def restart(self):
        self.states = {node: State(self.rng) for node in range(self.nodes)}
        self.pending, self.wanted_due, self.wanted_reply = None, deque(), deque()
        self.bits = None
        self.open = {node: [] for node in self.states}  # PSNs without an outcome
        self.causes = 0

    async def start(self):
        await clock_and_reset(self.dut)
        await until(self.dut, high(self.dut.m_init_done))
        cocotb.start_soon(self._watch())

    def post(self, node, psn, status=0, again=0, session=None):
        rng = self.rng
        fields = {
            "again": again, "node": node, "psn": psn & PSN_MASK, "status": status,
            "session": self.states[node].session if session is None else session,
            "src_qpn": rng.getrandbits(16), "dst_qpn": rng.getrandbits(16),
            "path": rng.getrandbits(8),
        }  # fmt: skip
        self.inputs["again" if again else "outcome"].post(
            {"data": INTERNAL.srd_outcome.pack(**fields)})  # fmt: skip

    async def _watch(self):
        dut = self.dut
        looked_up = read = 0
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value == 1 or dut.m_init_done.value == 0:
                self.pending = self.bits = None
                continue
            self._compare()
            if self.bits is not None:
                assert dut.accepted_rd_data.value == self.bits
            # The stage of the outcome moves unless a reply waits.
            moves = dut.m_reply_valid.value == 0 or dut.m_reply_ready.value == 1
            # The data of this edge belongs to the addresses driven before the last one.
            self.bits = self._bits(int(dut.accepted_rd_addr.value))
            if self.pending is not None and moves:
                self._outcome(self.pending, looked_up)
                self.pending = None
            for name in self.inputs:
                valid, ready = (getattr(dut, f"s_{name}_{one}") for one in ("valid", "ready"))
                if valid.value == 1 and ready.value == 1:
                    data = int(getattr(dut, f"s_{name}_data").value)
                    self.pending = INTERNAL.srd_outcome.unpack(data)
                    self.causes += 1
            # The table of the windows: read at this edge, then a window moves.
            state = self.states[int(dut.window_rd_addr.value) % self.nodes]
            looked_up = state.session, state.oldest
            dut.window_rd_data.value = INTERNAL.rx_window.pack(
                session=state.session, oldest=state.oldest)  # fmt: skip
            if self.rng.random() < self.moving:
                self._move(self.rng.choice(list(self.states.values())))
            read = self.rng.randrange(self.nodes)
            dut.accepted_rd_addr.value = read

    def _move(self, state):
        if self.rng.random() < 0.05:
            state.session = state.session % 0xFFFF + 1
            state.oldest = self.rng.choice((state.oldest, self.rng.getrandbits(32)))
            for node, other in self.states.items():
                if other is state:
                    self.open[node].clear()
        else:
            step = self.rng.choice((1, 2, self.window // 4, self.window, self.window + 3))
            state.oldest = state.oldest + step & PSN_MASK

    def _bits(self, node):
        """Returns the stored bits of a peer with their oldest and session."""
        state, accepted = self.states[node], 0
        if state.of is None:
            return 0
        for psn, status in state.stored.items():
            accepted |= (status == 0) << psn % self.window
        return accepted << INTERNAL.rx_window.width | INTERNAL.rx_window.pack(
            session=state.of, oldest=state.begun)  # fmt: skip

    def _outcome(self, one, place):
        """Processes an outcome against the window that was looked up."""
        session, oldest = place
        state = self.states[one.node]
        if one.session != session or not 0 <= psn_distance(one.psn, oldest) < self.window:
            return
        begins = state.of != session
        if begins:
            state.stored.clear()
        state.of, state.begun = session, oldest
        state.stored = {psn: status for psn, status in state.stored.items()
                        if psn_distance(psn, oldest) >= 0}  # fmt: skip
        if not one.again:
            state.stored[one.psn] = one.status
        status = state.stored.get(one.psn)
        if status == 0 or begins:
            self.wanted_due.append(INTERNAL.srd_due.pack(
                node=one.node, path=one.path, session=session, due=int(status == 0),
                again=one.again, begins=int(begins)))  # fmt: skip
        if status:
            self.wanted_reply.append(INTERNAL.srd_reply.pack(
                stateless=0, node=one.node, src_qpn=one.dst_qpn, dst_qpn=one.src_qpn,
                refused_psn=one.psn, psn=0, session=session, path=one.path,
                status=status))  # fmt: skip

    def _compare(self):
        for monitor, wanted in ((self.due, self.wanted_due), (self.replies, self.wanted_reply)):
            while monitor.beats:
                beat = monitor.beats.popleft()["data"]
                assert wanted, f"{monitor.prefix}: unexpected {beat:#x}"
                assert beat == wanted.popleft(), monitor.prefix

    async def settle(self):
        for driver in self.inputs.values():
            await consumed(driver)
        await ClockCycles(self.dut.clk, 60)
        assert not self.wanted_due and not self.wanted_reply and self.causes


@cocotb.test()
@grid(pace=[(0.0, 0.0), (0.4, 0.0), (0.1, 0.7)], nodes=[1, 3, 64])
async def outcomes_of_moving_windows(dut, pace, nodes):
    """transport.rx_outcome.random: Outcomes and duplicates of any peers are stored and reported
    against the window of their moment, while windows move, sessions begin and replies wait."""
    bench = Bench(dut, f"random {pace} {nodes}", *pace)
    await bench.start()
    rng = bench.rng
    bench.moving = 0.1
    some = rng.sample(range(bench.nodes), min(nodes, bench.nodes))
    given = {}
    for _ in range(120):
        for _ in range(8):
            node = rng.choice(some)
            state = bench.states[node]
            # Only one outcome for each PSN of a session.
            psn = state.oldest + rng.randrange(-2, bench.window) & PSN_MASK
            key = node, state.session, psn
            if rng.random() < 0.5 and key not in given:
                given[key] = rng.choice((0, 0, rng.randrange(1, 32)))
                bench.post(node, psn, given[key])
            elif given:
                node, session, psn = rng.choice(list(given)[-30:])
                bench.post(node, psn, again=1, session=session)
        for driver in bench.inputs.values():
            await consumed(driver)
    await bench.settle()
    assert bench.causes > 600


@cocotb.test()
async def each_status_at_each_place(dut):
    """transport.rx_outcome.status: Each status of five bits is stored for each place of the window
    of each peer and repeated; outcomes and duplicates one after another see each other."""
    bench = Bench(dut, "status")
    await bench.start()
    rng = bench.rng
    for node in rng.sample(range(bench.nodes), min(bench.nodes, 8)):
        oldest = bench.states[node].oldest
        for at in range(bench.window):
            bench.post(node, oldest + at, rng.randrange(32))
        await bench.settle()
        for at in rng.sample(range(bench.window), bench.window):
            bench.post(node, oldest + at, again=1)
        await bench.settle()
    # A duplicate in the cycle after its outcome, and of its neighbour.
    state = bench.states[0]
    state.session += 1
    for at in range(min(31, bench.window - 1)):
        bench.post(0, state.oldest + at, at + 1)
        await RisingEdge(dut.clk)
        bench.post(0, state.oldest + at, again=1)
        bench.post(0, state.oldest + at + 1, again=1)
        await ClockCycles(dut.clk, rng.randrange(1, 5))
    await bench.settle()


@cocotb.test()
async def cycles(dut):
    """transport.rx_outcome.time: Due acknowledgements, refusals and reads meet their specified
    cycles; outcomes and duplicates take turns."""
    bench = Bench(dut, "time")
    await bench.start()
    seen = Moments(dut, "s_outcome", "s_again", "m_due", "m_reply")
    state = bench.states[0]
    for path, out, status in (("due", "m_due", 0), ("refusal", "m_reply", 5)):
        state.session += 1
        seen.clear()
        # The first outcome of a session is reported in any case.
        first = 8 * (status != 0)
        for at in range(8):
            bench.post(0, state.oldest + first + at, status)
        await bench.settle()
        seen.hold("efa_rx_outcome", path, "s_outcome", out)
    for at in range(8):
        bench.post(0, state.oldest + at, 0)
        bench.post(0, state.oldest + 8 + at, again=1)
    seen.clear()
    await bench.settle()
    both = sorted(seen["s_outcome"] + seen["s_again"])
    assert both[-1] - both[0] == 15 and READ == (1, 1, None)
    assert seen.intervals("s_outcome") == {2} == seen.intervals("s_again")


@cocotb.test()
async def reset_with_a_waiting_reply(dut):
    """transport.rx_outcome.reset: A reset discards outcomes, also while a reply waits, and forgets
    all stored outcomes."""
    held = {"on": False}
    bench = Bench(dut, "reset", stalls=lambda: held["on"])
    await bench.start()
    for turn in range(6):
        held["on"] = turn % 2 == 1
        await RisingEdge(dut.clk)
        sent = {node: bench.states[node].oldest for node in range(min(bench.nodes, 4))}
        for node, oldest in sent.items():
            bench.post(node, oldest, turn % 3)
        await ClockCycles(dut.clk, 4 + turn)
        dut.rst.value = 1
        await RisingEdge(dut.clk)
        for driver in bench.inputs.values():
            driver.clear()
        bench.due.beats.clear()
        bench.replies.beats.clear()
        before = bench.states
        bench.restart()
        for node, state in bench.states.items():
            state.session, state.oldest = before[node].session, before[node].oldest
        await reset(dut)
        held["on"] = False
        assert dut.m_due_valid.value == 0 and dut.m_reply_valid.value == 0
        await until(dut, high(dut.m_init_done))
        # Duplicates find nothing; the first one begins the session.
        for node, oldest in sent.items():
            bench.post(node, oldest, again=1)
        await bench.settle()
