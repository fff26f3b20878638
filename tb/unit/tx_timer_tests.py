# SPDX-License-Identifier: Apache-2.0
"""Tests efa_tx_timer: ticks, and when each peer is looked at."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from tb.lib.stream import POWER_ON, StreamMonitor, clock_and_reset, cycle, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, high, pulse, ticks, until, zero

TICKS = 0xFFFFFF
TICK_CYCLES = 5


class Bench:
    """Drives the times of peers and takes looks; `held` blocks the looks."""

    def __init__(self, dut, name, stalls=None):
        self.dut, self.rng, self.held = dut, rng_for(name), False
        self.nodes = 1 << int(dut.NODE_W.value)
        # The specified cycles are those of 64 peers.
        self.scan = timing("efa_tx_timer", "scan").latency - 64 + self.nodes
        zero(dut, "s_tick", "s_set_valid", "s_set_node", "s_set_armed", "s_set_ticks",
             "s_begin_valid", "s_begin_node", "s_left_valid", "s_left_node",
             "s_served_valid", "s_served_node", "s_waits")  # fmt: skip
        self.looks = StreamMonitor(dut, "m_look", stalls or (lambda: self.held), ["node"])

    async def start(self):
        cocotb.start_soon(ticks(self.dut, TICK_CYCLES))
        await clock_and_reset(self.dut, resets=POWER_ON)

    @property
    def now(self):
        return int(self.dut.m_ticks.value)

    async def set(self, node, ticks=None):
        """Sets the time of a peer, None for never."""
        value = self.rng.getrandbits(24) if ticks is None else ticks & TICKS
        return await pulse(self.dut, "s_set_valid", s_set_node=node, s_set_ticks=value,
                           s_set_armed=int(ticks is not None))  # fmt: skip

    async def left(self, node):
        return await pulse(self.dut, "s_left_valid", s_left_node=node)

    async def served(self, node):
        return await pulse(self.dut, "s_served_valid", s_served_node=node)

    async def begin(self, node):
        await pulse(self.dut, "s_begin_valid", s_begin_node=node)

    async def found(self, cycles=None):
        """Returns the peers that are looked at within a scan."""
        await ClockCycles(self.dut.clk, cycles or self.scan + 2)
        found = {beat["node"] for beat in self.looks.beats}
        self.looks.beats.clear()
        return found

    async def quiet(self, *nodes):
        """Ends what is due of the peers, and discards looks of before."""
        for node in nodes:
            await self.set(node)
            await self.begin(node)
        await self.found(4)


@cocotb.test()
async def ticks_count_through_resets(dut):
    """transport.tx_timer.ticks: The ticks are counted from power-on, through a reset and over
    their wrap."""
    bench = Bench(dut, "ticks")
    start_at = -int(dut.TICKS_LEFT.value)
    drive(dut, rst_por=1, rst=1)
    await clock_and_reset(dut, resets=POWER_ON)
    # The last edge has sampled the first cycle without reset.
    counted = 0
    for passed in range(300):
        tick = bench.rng.random() < 0.5
        drive(dut, s_tick=int(tick), rst=int(passed in (5, 6) or 200 < passed < 220))
        await RisingEdge(dut.clk)
        assert bench.now == start_at + counted & TICKS, passed
        counted += tick
    assert counted > 60
    drive(dut, rst_por=1, rst=1)
    await ClockCycles(dut.clk, 3)
    assert bench.now == start_at & TICKS


@cocotb.test()
async def a_time_comes(dut):
    """transport.tx_timer.time: A peer is looked at when its time has come, within a scan, and not
    before; never without a time; each place of the range of ticks counts."""
    bench = Bench(dut, "time")
    await bench.start()
    for node in (0, bench.nodes - 1, 1):
        when = bench.now + 3 + (2 * bench.scan) // TICK_CYCLES & TICKS
        await bench.set(node, when)
        while bench.now != when:
            assert not bench.looks.beats
            await RisingEdge(dut.clk)
        assert await bench.found() == {node}
        # Its time has come until there is another one.
        assert await bench.found() == {node}
        await bench.quiet(node)
        assert await bench.found() == set()
        for ahead, comes in ((0, True), (-1, True), (-(1 << 23), True), ((1 << 23) - 1, False),
                             (1 << 22, False), (-3 * bench.scan, True)):  # fmt: skip
            await bench.set(node, bench.now + ahead + (ahead == -(1 << 23)) * 40)
            assert await bench.found() == ({node} if comes else set()), ahead
            await bench.quiet(node)


@cocotb.test()
async def cycles(dut):
    """transport.tx_timer.scan: From each place of the scan, a peer whose time has come is found;
    the longest way has the specified cycles."""
    bench = Bench(dut, "scan")
    await bench.start()
    waits = []
    for place in range(bench.nodes):
        while cycle() % bench.nodes != place:
            await RisingEdge(dut.clk)
        begin = await bench.set(1, bench.now)
        await until(dut, high(dut.m_look_valid))
        waits.append(cycle() - begin)
        await bench.quiet(1)
    assert max(waits) == bench.scan and min(waits) == 2, waits


@cocotb.test()
async def a_packet_to_a_peer_without_time_has_left(dut):
    """transport.tx_timer.left: A peer to which a packet has left is looked at if it has no time; a
    look ends that, but not if a packet leaves in the same cycle."""
    bench = Bench(dut, "left")
    await bench.start()
    for node in (0, bench.nodes - 1):
        await bench.left(node)
        assert await bench.found() == {node}
        await bench.begin(node)
        await bench.found(4)
        assert await bench.found() == set()
        await bench.set(node, bench.now + (1 << 22))
        await bench.left(node)
        assert await bench.found() == set()
        await bench.set(node)
        assert await bench.found() == {node}
        drive(dut, s_left_valid=1, s_left_node=node)
        await bench.begin(node)
        zero(dut, "s_left_valid")
        assert await bench.found() == {node}
        await bench.quiet(node)


@cocotb.test()
async def a_peer_that_waits_is_passed_over(dut):
    """transport.tx_timer.waits: A peer whose acknowledgement waits is not found, with a time or
    after a packet, and others are; a served request is found."""
    bench = Bench(dut, "waits")
    await bench.start()
    last = bench.nodes - 1
    for node in (0, last):
        drive(dut, s_waits=1 << node)
        await bench.set(node, bench.now)
        await bench.set(last - node, bench.now)
        assert await bench.found() == {last - node}
        zero(dut, "s_waits")
        assert await bench.found() == {node, last - node}
        await bench.quiet(node, last - node)
        drive(dut, s_waits=1 << node)
        await bench.left(node)
        assert await bench.found() == set()
        await bench.served(node)
        assert await bench.found() == {node}
        zero(dut, "s_waits")
        await bench.quiet(node)


@cocotb.test()
async def a_request_is_served(dut):
    """transport.tx_timer.served: A served request leads to a look in the specified cycles, also
    with a time ahead; peers that wait are each looked at once, before others."""
    bench = Bench(dut, "served")
    await bench.start()
    for node in range(min(bench.nodes, 8)):
        await bench.set(node, bench.now + (1 << 22))
        await bench.found(4)
        sent = await bench.served(node)
        await until(dut, high(dut.m_look_valid))
        assert cycle() - sent == timing("efa_tx_timer", "served").latency
        assert await bench.found() == {node}
        await bench.begin(node)
        assert await bench.found() == set()
    bench.held = True
    await bench.found(3)
    for node in range(bench.nodes):
        await bench.set(node, bench.now + (1 << 22))
        await bench.served(node)
    bench.held = False
    await ClockCycles(dut.clk, bench.nodes + 6)
    seen = [beat["node"] for beat in bench.looks.beats]
    assert sorted(seen) == list(range(bench.nodes))


@cocotb.test()
async def reset_ends_all(dut):
    """transport.tx_timer.reset: After a reset, no peer has a time, a served request or a
    packet that has left."""
    bench = Bench(dut, "reset")
    await bench.start()
    for _ in range(3):
        bench.held = True
        await bench.found(3)
        for node in range(min(bench.nodes, 4)):
            await bench.set(node, bench.now)
            await (bench.served if node % 2 else bench.left)(node)
        await reset(dut, 2)
        bench.looks.beats.clear()
        bench.held = False
        assert await bench.found() == set()


@cocotb.test()
@cocotb.parametrize(stalls=[0.0, 0.6])
async def random_peers(dut, stalls):
    """transport.tx_timer.random: Random times, packets and requests: each look has a reason, and
    each reason leads to a look in time."""
    bench = Bench(dut, f"random {stalls}", stalls)
    await bench.start()
    rng = bench.rng
    nodes = rng.sample(range(bench.nodes), min(bench.nodes, 12))
    times, left, served = {}, set(), set()
    due, past = dict.fromkeys(nodes, 0), dict.fromkeys(nodes, -99)
    looks = 0
    for at in range(1, 6000):
        zero(dut, "s_set_valid", "s_begin_valid", "s_left_valid", "s_served_valid")
        begun = changed = goes = request = None
        if bench.looks.beats:
            begun = bench.looks.beats.popleft()["node"]
            # A reason may end while its look waits.
            assert at - past[begun] < 30, f"{begun} has no reason"
            due[begun], looks = at, looks + 1
            drive(dut, s_begin_valid=1, s_begin_node=begun)
            changed = begun
        elif rng.random() < 0.02:
            changed = rng.choice(nodes)
        if changed is not None:
            ahead = rng.choice((None, rng.randrange(-3, 60)))
            when = None if ahead is None else bench.now + ahead & TICKS
            drive(dut, s_set_valid=1, s_set_node=changed, s_set_armed=int(when is not None),
                  s_set_ticks=when or 0)  # fmt: skip
        if rng.random() < 0.03:
            goes = rng.choice(nodes)
            drive(dut, s_left_valid=1, s_left_node=goes)
        if rng.random() < 0.02:
            request = rng.choice(nodes)
            drive(dut, s_served_valid=1, s_served_node=request)
        await RisingEdge(dut.clk)
        # What held in the cycle before this edge.
        for node in nodes:
            time = times.get(node)
            if node in served or (
                node in left if time is None else (bench.now - time & TICKS) < 1 << 23
            ):
                due[node], past[node] = due[node] or at, at
            else:
                due[node] = 0
            late = at - due[node] if due[node] else 0
            assert late < (4 if stalls else 2) * bench.scan + 100, f"{node} waits {late} cycles"
        left.discard(begun)
        served.discard(begun)
        if changed is not None:
            times[changed] = when
        if goes is not None:
            left.add(goes)
        if request is not None:
            served.add(request)
    assert looks > 100
