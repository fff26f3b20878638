# SPDX-License-Identifier: Apache-2.0
"""Tests efa_tx_paths: usable paths, their orders, times and losses, and probes."""

import copy

import cocotb
from cocotb.triggers import RisingEdge

from efa_cosim.layouts.defs import INTERNAL, TRANSPORT
from efa_cosim.transport.packets import NUMBER_MASK, number_distance
from tb.lib.stream import clock_and_reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, low, until, zero

TICKS = 0xFFFFFF
EVENTS = ("s_settle", "s_lose", "s_acked", "s_once", "s_disable", "s_answer", "s_probe")


class Path:
    """What decision 0009 says of a path; `probe` is the time of a probe without answer."""

    def __init__(self, exists, order):
        self.usable, self.settled, self.newest = exists, order, order - 1 & NUMBER_MASK
        self.time8 = self.losses = 0
        self.probe = None


class RefModel:
    """Models the paths to a peer; checks the outputs after each event."""

    def __init__(self, dut, rng, cfg=0xFF):
        self.dut, self.rng, self.cfg = dut, rng, cfg
        self.now, self.shortest, self.srtt8 = rng.getrandbits(24), 10, 800
        self.period = int(dut.PATH_PROBE.value)
        self.search = timing("efa_tx_paths", "search").latency
        self.count = {"slow": 0, "healed": 0, "all": 0, "probes": 0, "searches": 0}
        self.clear()

    def clear(self):
        first = -int(self.dut.ORDER_LEFT.value) & NUMBER_MASK
        self.paths = [Path(bool(self.cfg >> one & 1), first) for one in range(8)]
        self.next_probe = self.first_probe = 0
        self.best = None

    async def start(self):
        zero(self.dut, *EVENTS, "s_clear", "s_find", "s_path", "s_order", "s_time")
        # A new session leaves the times of probes as they are.
        state = self.rng.getrandbits(INTERNAL.tx_paths.width)
        drive(self.dut, s_load=1, s_state=state, s_cfg_paths=self.cfg, s_ticks=self.now,
              s_shortest=0, s_srtt8=0)  # fmt: skip
        await clock_and_reset(self.dut)
        self.dut.s_load.value = 0
        await self.clears()

    @property
    def unusable(self):
        return [one for one in range(8) if self.cfg >> one & 1 and not self.paths[one].usable]

    @property
    def next_path(self):
        return min(self.unusable, key=lambda one: (one - self.first_probe) % 8)

    @property
    def due(self):
        return bool(self.unusable) and self.now >= self.next_probe

    async def check(self):
        """Finds the best path and checks the state, the next probe and the newest numbers."""
        dut = self.dut
        drive(dut, s_find=1, s_ticks=self.now & TICKS)
        await RisingEdge(dut.clk)
        drive(dut, s_find=0)
        await RisingEdge(dut.clk)
        assert dut.m_busy.value == 1
        busy = await until(dut, low(dut.m_busy))
        if busy > 1:
            self.count["searches"] += 1
            assert busy == self.search
        found, paths = INTERNAL.tx_paths.unpack(int(dut.m_state.value)), self.paths
        assert found.usable == sum(path.usable << at for at, path in enumerate(paths))
        assert found.probing == sum((path.probe is not None) << at for at, path in enumerate(paths))
        for name, width in (("settled", 16), ("newest", 16), ("times8", 27), ("losses", 4)):
            wanted = [getattr(path, "time8" if name == "times8" else name) for path in paths]
            packed = sum(value << width * at for at, value in enumerate(wanted))
            assert getattr(found, name) == packed, f"{name}: not {wanted}"
        for at, path in enumerate(paths):
            if path.probe is not None:
                assert found.probe_ticks >> 24 * at & TICKS == path.probe & TICKS
        # Of equal paths, each may be the best one.
        times = [path.time8 for path in paths if path.usable and path.time8]
        assert found.best_time8 == min(times, default=0), times
        if times:
            assert paths[found.best].usable and paths[found.best].time8 == found.best_time8
        self.best = found.best if times else None
        assert dut.m_unusable.value == bool(self.unusable)
        assert dut.m_probe_due.value == self.due, f"{self.next_probe - self.now} ticks left"
        if self.unusable:
            assert dut.m_probe_path.value == self.next_path
        return found

    def _disable(self, path):
        path.losses = 0
        if not path.usable:
            return
        if not self.unusable:
            self.next_probe = self.now + self.period
        path.usable, path.probe = False, None
        if not any(one.usable for one in self.paths):
            self.count["all"] += 1
            for at, one in enumerate(self.paths):
                one.usable = bool(self.cfg >> at & 1)

    async def event(self, number, after=0, order=None, time=None, waited=0, **events):
        """Applies events of a path, `after` ticks later: acked (sent once if it has a time),
        settle, lose, disable or answer, which came `waited` ticks before."""
        dut, path = self.dut, self.paths[number]
        self.now += after
        best8 = self.paths[self.best].time8 if self.best is not None else 0
        late8 = best8 + max(best8, 8 * TRANSPORT.queue_target)
        events = {f"s_{name}": 1 for name in events}
        if time is not None:
            events["s_once"] = 1
        noise = self.rng.getrandbits(16)
        came = self.now - waited if "s_answer" in events else self.rng.getrandbits(24)
        drive(dut, s_path=number, s_ticks=self.now & TICKS, s_time=time or noise,
              s_answer_ticks=came & TICKS, s_order=noise if order is None else order,
              s_shortest=self.shortest, s_srtt8=self.srtt8, **events)  # fmt: skip
        await RisingEdge(dut.clk)
        zero(dut, *events)
        if "s_settle" in events:
            path.settled = path.settled + 1 & NUMBER_MASK
        if "s_acked" in events:
            path.losses = 0
        if time is not None:
            if number_distance(order, path.newest) > 0:
                path.newest = order
            before = path.time8 or self.srtt8
            path.time8 = before + time - before // 8
            slower = self.best not in (None, number) and path.time8 > late8
            if path.usable and slower:
                self.count["slow"] += 1
                self._disable(path)
        if "s_lose" in events:
            path.losses += 1
        if "s_disable" in events or path.losses >= TRANSPORT.path_losses:
            self._disable(path)
        if "s_answer" in events and path.probe is not None:
            passed = came - path.probe
            if passed >= max(0, self.shortest):
                path.probe = None
                if not path.usable and 8 * passed <= late8:
                    self.count["healed"] += 1
                    path.usable, path.time8, path.losses = True, 8 * passed, 0
        return await self.check()

    async def ack(self, number, time=None, step=1, after=0):
        """Acknowledges a packet, sent once with `time`, `step` orders past the newest one."""
        order = self.paths[number].newest + step & NUMBER_MASK
        await self.event(number, after, order, time, acked=1, settle=1)

    async def probe(self, after=0):
        """Sends the next probe, `after` ticks later; returns its path."""
        self.now += after
        number = self.next_path
        drive(self.dut, s_probe=1, s_ticks=self.now & TICKS)
        await RisingEdge(self.dut.clk)
        drive(self.dut, s_probe=0)
        self.paths[number].probe, self.first_probe = self.now, number + 1
        self.next_probe = self.now + self.period
        self.count["probes"] += 1
        await self.check()
        return number

    async def clears(self):
        drive(self.dut, s_clear=1, s_cfg_paths=self.cfg)
        await RisingEdge(self.dut.clk)
        drive(self.dut, s_clear=0)
        self.clear()
        await self.check()


@cocotb.test()
async def order_numbers(dut):
    """transport.tx_paths.newest: Each path keeps its newest order number of packets that were sent
    once, over the wrap, and counts its settled transmissions."""
    ref = RefModel(dut, rng_for("newest"))
    await ref.start()
    for number in (0, 7, 3):
        for step in (1, 5, -1, -5, 0, 0x7FFF, 0x7FFF, -0x8000, 1, 30, 1):
            await ref.ack(number, 100, step)
            await ref.event(number, settle=1)
            # A retransmission has no time and says nothing about the order.
            await ref.ack(number, None, 4)
    assert timing("efa_tx_paths", "state") == (2, 1, None)


@cocotb.test()
async def slow_paths(dut):
    """transport.tx_paths.slow: A path whose smoothed time exceeds twice that of the best usable
    path becomes unusable; the best one is found again when it becomes slower or unusable."""
    ref = RefModel(dut, rng_for("slow"))
    await ref.start()
    for scale in (1, 30, 1000, 60_000):
        ref.srtt8 = 800 * scale
        await ref.clears()
        for number in range(8):
            await ref.ack(number, 100 * scale)
        while ref.paths[3].usable:
            await ref.ack(3, 210 * scale)
        for number in (5, 5, 5, 2, 2):
            await ref.ack(number, 60 * scale)
        for _ in range(8):
            await ref.ack(5, 130 * scale)
        await ref.event(ref.best, disable=1)
        for _ in range(30):
            await ref.ack(0, 12 * scale)
        for number in (1, 4, 6):
            await ref.ack(number, 100 * scale)
    assert ref.count["slow"] >= 16 and ref.count["searches"] >= 20


@cocotb.test()
async def losses(dut):
    """transport.tx_paths.losses: Losses in a row make a path unusable, an acknowledged packet in
    between does not; when no path is left, all paths that exist are usable."""
    for cfg in (0xFF, 0x01, 0x0F):
        ref = RefModel(dut, rng_for("losses"), cfg)
        await ref.start()
        last = TRANSPORT.path_losses - 1
        for number in (one for one in range(8) if cfg >> one & 1):
            for _ in range(last):
                await ref.event(number, lose=1, settle=1)
            await ref.ack(number)
            for at in range(last + 1):
                assert ref.paths[number].usable, at
                await ref.event(number, lose=1, settle=1)
            await ref.event(number, lose=1, disable=1, settle=1)
        assert ref.count["all"] >= 1


@cocotb.test()
async def probes(dut):
    """transport.tx_paths.probes: Unusable paths get probes in turn, one in a period; an answer in
    time makes its path usable, one that is too early or too late does not."""
    ref = RefModel(dut, rng_for("probes"), 0x7F)
    await ref.start()
    for number in range(7):
        await ref.ack(number, 100)
    for number in (1, 4, 6):
        await ref.event(number, after=3, disable=1)
    await ref.event(0, after=ref.period - 7, answer=1)
    assert not ref.due
    await ref.event(0, after=1, settle=1)
    assert [await ref.probe(ref.period * (at > 0)) for at in range(4)] == [1, 4, 6, 1]
    ref.shortest = 90
    limit = ref.paths[ref.best].time8 // 4
    # Ticks since the probe, usable again.
    for after, heals in ((89, False), (90, True), (limit, True), (limit + 1, False)):
        number = await ref.probe(ref.period)
        await ref.event(number, after=after, answer=1)
        assert ref.paths[number].usable == heals
        # A second answer changes nothing, one after an early one may.
        await ref.event(number, after=2, answer=1)
        await ref.event(number, after=1, disable=1)
    # An answer counts from when it came; one that came before its probe left is none.
    for after, waited, heals in ((limit + 9, 9, True), (95, 6, False), (3, 4, False),
                                 (1, limit, False)):  # fmt: skip
        number = await ref.probe(ref.period)
        await ref.event(number, after=after, waited=waited, answer=1)
        assert ref.paths[number].usable == heals
        await ref.event(number, after=200, answer=1)
        await ref.event(number, after=1, disable=1)
    # A path that becomes unusable again has no open probe.
    number = await ref.probe(ref.period)
    while ref.unusable:
        await ref.event(next(one for one in range(7) if ref.paths[one].usable), disable=1)
    await ref.event(number, disable=1)
    await ref.event(number, after=100, answer=1)


@cocotb.test()
async def random_events(dut):
    """transport.tx_paths.random: Random events of several peers in turn, over the wrap of the
    ticks."""
    rng = rng_for("random")
    ref = RefModel(dut, rng)
    ref.now = (1 << 24) - 5000
    await ref.start()
    peers = {}
    for _ in range(1500):
        number, after = rng.randrange(8), rng.choice((0, 1, rng.randrange(60)))
        kind = rng.random()
        if ref.due and kind < 0.5:
            await ref.probe(after)
        elif kind < 0.5:
            time = rng.randrange(50, 150) if rng.random() < 0.97 else rng.randrange(1, 900)
            await ref.ack(number, time, rng.randrange(-9, 20), after)
        elif kind < 0.6:
            await ref.ack(number)
        elif kind < 0.8:
            also = {"disable": 1} if kind < 0.63 else {}
            await ref.event(number, after, lose=1, settle=1, **also)
        elif kind < 0.97:
            probed = [one for one in range(8) if ref.paths[one].probe is not None]
            waited = rng.choice((0, 0, rng.randrange(200)))
            await ref.event(rng.choice(probed or [number]), after, waited=waited, answer=1)
        elif kind < 0.975:
            await ref.clears()
        else:
            raw = int(dut.m_state.value)
            peers[rng.randrange(3)] = raw, copy.deepcopy(
                (ref.paths, ref.next_probe, ref.first_probe, ref.best))  # fmt: skip
            raw, state = copy.deepcopy(rng.choice([*peers.values()]))
            drive(dut, s_load=1, s_state=raw)
            await RisingEdge(dut.clk)
            drive(dut, s_load=0)
            ref.paths, ref.next_probe, ref.first_probe, ref.best = state
            await ref.check()
        ref.shortest, ref.srtt8 = rng.randrange(1, 60), rng.randrange(400, 1200)
    assert ref.count["slow"] and ref.count["healed"] and ref.count["probes"], ref.count


@cocotb.test()
async def find_with_a_change(dut):
    """transport.tx_paths.find: The best path is found again if it becomes unusable or slower in
    the cycle of s_find."""
    ref = RefModel(dut, rng_for("find"))
    await ref.start()
    for number, time in ((0, 100), (1, 60), (2, 80)):
        for _ in range(9):
            await ref.ack(number, time)
    drive(dut, s_path=1, s_disable=1, s_find=1)
    await RisingEdge(dut.clk)
    zero(dut, "s_disable", "s_find")
    await RisingEdge(dut.clk)
    await until(dut, low(dut.m_busy))
    found = INTERNAL.tx_paths.unpack(int(dut.m_state.value))
    assert found.usable == 0xFD and found.best_time8 == ref.paths[2].time8, found.best
