# SPDX-License-Identifier: Apache-2.0
"""Provides valid/ready agents for unit benches, found by port prefix.

    clock_and_reset(dut)                      clk at 4 ns, rst low again after four cycles
    clock_and_reset(dut, resets=POWER_ON)     the same for a module with two resets
    src = StreamDriver(dut, "s_req", gaps=0.3)
    snk = StreamMonitor(dut, "m_rsp", stalls=0.5)
    src.post({"addr": 64, "len": 8}); beats = await snk.take(1)

`gaps` and `stalls` are the share of cycles without valid or ready, or a function that is called
once per cycle and returns True for a pause. Random choices come from the run's seed and the prefix.
The monitor also checks the stream rules: a waiting valid stays, its payload stays, an accepted beat
has no unknown bit.
"""

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.simtime import get_sim_time
from cocotb.triggers import ClockCycles, Event, RisingEdge, SimTimeoutError, Timer, with_timeout
from cocotb.utils import get_sim_steps

from tb.lib import bundles, fast_tasks, fast_values
from tb.lib.bundles import Slice
from tb.lib.fast_values import reader

fast_tasks.install()
fast_values.install()

PERIOD_NS = 4
MOST_CYCLES = 600_000  # twice the longest unit test
POWER_ON = ("rst_por", "rst")  # a power-on reset is also an engine reset
Pause = float | Callable[[], bool]


def run_seed() -> int:
    return int(cocotb.RANDOM_SEED)


def rng_for(name: str) -> random.Random:
    return random.Random(f"{run_seed()}/{name}")


def pauses(pause: Pause, name: str) -> Callable[[], bool]:
    """Returns a function that decides on a pause each cycle, from a share or from a function."""
    if callable(pause):
        return pause
    if pause == 0:
        return lambda: False
    rng = rng_for(name)
    return lambda: rng.random() < pause


def periodic(idle: int, busy: int) -> Callable[[], bool]:
    """Returns a pattern that pauses for `idle` cycles and runs for `busy` cycles, repeated."""
    state = {"at": 0}

    def decide() -> bool:
        at = state["at"]
        state["at"] = (at + 1) % (idle + busy)
        return at < idle

    return decide


def cycle() -> int:
    """Returns the number of the present clock cycle."""
    return int(get_sim_time("step")) // _period_steps()


@cache
def _period_steps() -> int:
    return get_sim_steps(PERIOD_NS, "ns")


def start_clock(clk: Any) -> None:
    """Starts the clock of a unit test, which fails after MOST_CYCLES."""
    # mypy infers no result type for a task without a result.
    cocotb.start_soon(Clock(clk, PERIOD_NS, unit="ns", impl="gpi").start())  # type: ignore[arg-type]
    cocotb.start_soon(_fail_late())


async def _fail_late() -> None:
    await Timer(MOST_CYCLES * PERIOD_NS, "ns")
    raise AssertionError(f"no end after {MOST_CYCLES} cycles: a condition never holds")


class Ports:
    """Presents a design with some ports under other names, for agents that find ports by prefix.

    Ports(dut, m_job_data="m_job")
    Ports(dut, rst="rst_por")       # agents whose streams only a power-on reset interrupts
    """

    def __init__(self, dut: Any, **names: str) -> None:
        self._dut, self._names = dut, names

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._dut, self._names.get(name, name))
        # Later reads find the port without a call.
        self.__dict__[name] = found
        return found

    def __iter__(self) -> Iterator[Any]:
        return iter(self._dut)


async def clock_and_reset(
    dut: Any, cycles: int = 4, resets: tuple[str, ...] = ("rst",)
) -> None:
    start_clock(dut.clk)
    await reset(dut, cycles, resets)


async def reset(dut: Any, cycles: int = 4, resets: tuple[str, ...] = ("rst",)) -> None:
    """Drives the resets of a module together; also used within traffic."""
    for name in resets:
        getattr(dut, name).value = 1
    await ClockCycles(dut.clk, cycles)
    for name in resets:
        getattr(dut, name).value = 0
    await RisingEdge(dut.clk)


def _payload(dut: Any, prefix: str, fields: list[str] | None) -> dict[str, Any]:
    """Returns payload signals by field name; a stream without payload has none."""
    if fields is None:
        start = prefix + "_"
        fields = [
            handle._name[len(start) :]
            for handle in dut
            if handle._name.startswith(start)
            and handle._name not in (start + "valid", start + "ready")
        ]
    return {name: getattr(dut, f"{prefix}_{name}") for name in sorted(fields)}


def _ports(signals: Iterable[Any]) -> list[tuple[Any, slice]]:
    """Returns the ports behind signals, with the place of their bits in the text of a value.

    Fields that are adjacent in a port are one entry, so that each port is read once.
    """
    found: list[tuple[Any, slice]] = []
    fields = [signal.place if isinstance(signal, Slice) else (signal, 0, len(signal) - 1)
              for signal in signals]  # fmt: skip
    for port, lsb, msb in sorted(fields, key=lambda field: (field[0]._path, -field[1])):
        width = len(port)
        bits = slice(width - 1 - msb, width - lsb)
        if found and found[-1][0] is port and found[-1][1].stop == bits.start:
            bits = slice(found.pop()[1].start, bits.stop)
        found.append((port, bits))
    return found


def _places(
    signals: dict[str, Any]
) -> tuple[list[Callable[[], str]], list[tuple[str, int, slice]]]:
    """Returns the readers of the ports behind signals, and of each signal its name, the number of
    the reader and the place of its bits in the text. Each port has one reader."""
    ports: list[Any] = []
    fields = []
    for name, signal in signals.items():
        port, lsb, msb = signal.place if isinstance(signal, Slice) else (signal, 0, None)
        at = next((number for number, known in enumerate(ports) if known is port), len(ports))
        if at == len(ports):
            ports.append(port)
        end = None if msb is None else len(port) - lsb
        begin = None if msb is None else len(port) - 1 - msb
        fields.append((name, at, slice(begin, end)))
    return [reader(port) for port in ports], fields


class StreamDriver:
    """Produces beats on a stream that the module consumes."""

    def __init__(
        self, dut: Any, prefix: str, gaps: Pause = 0, fields: list[str] | None = None
    ) -> None:
        self.dut = dut
        self.prefix = prefix
        self.valid = getattr(dut, prefix + "_valid")
        self.ready = getattr(dut, prefix + "_ready", None)
        self.payload = _payload(dut, prefix, fields)
        self._slices = [
            (name, one) for name, one in self.payload.items() if isinstance(one, Slice)
        ]
        self._whole = [
            (name, one) for name, one in self.payload.items() if not isinstance(one, Slice)
        ]
        self.waiting: deque[dict[str, int]] = deque()
        self.sent = 0
        self._pause = pauses(gaps, prefix)
        self._posted = Event()
        self._idle = Event()
        self._idle.set()
        self.valid.value = 0
        for signal in self.payload.values():
            signal.value = 0
        self._task = cocotb.start_soon(self._drive())

    def post(self, *beats: dict[str, int]) -> None:
        """Queues beats; fields that a beat does not name are driven 0."""
        for beat in beats:
            unknown = set(beat) - set(self.payload)
            assert not unknown, f"{self.prefix} has no {sorted(unknown)}"
        self.waiting.extend(beats)
        self._idle.clear()
        self._posted.set()

    async def send(self, *beats: dict[str, int]) -> None:
        """Queues beats and returns when the last one was accepted."""
        self.post(*beats)
        await self.idle()

    async def idle(self, timeout_cycles: int = 20_000) -> None:
        """Waits until all beats were accepted; fails if none is accepted in `timeout_cycles`."""
        while not self._idle.is_set():
            before = self.sent
            try:
                await with_timeout(self._idle.wait(), timeout_cycles * PERIOD_NS, "ns")
            except SimTimeoutError:
                assert self.sent > before, (
                    f"{self.prefix}: {len(self.waiting)} beats wait, none was taken in "
                    f"{timeout_cycles} cycles"
                )

    def clear(self) -> None:
        """Drops the pending beats, for a reset within traffic."""
        self.waiting.clear()
        self._task.cancel()
        self.valid.value = 0
        self._idle.set()
        self._task = cocotb.start_soon(self._drive())

    async def _drive(self) -> None:
        edge = RisingEdge(self.dut.clk)
        reset = reader(self.dut.rst)
        ready = None if self.ready is None else reader(self.ready)
        while True:
            if not self.waiting:
                self._idle.set()
                self._posted.clear()
                await self._posted.wait()
                await edge
            while self.waiting:
                while self._pause() or reset() == "1":
                    await edge
                beat = self.waiting[0]
                for name, signal in self._whole:
                    signal.value = beat.get(name, 0)
                bundles.drive([(one, int(beat.get(name, 0))) for name, one in self._slices])
                self.valid.value = 1
                await edge
                while ready is not None and ready() != "1":
                    await edge
                self.waiting.popleft()
                self.sent += 1
                self.valid.value = 0


class StreamMonitor:
    """Consumes beats of a stream that the module produces and checks the stream rules.

    Without `ready` (an observation port) every valid cycle is a beat.
    """

    def __init__(
        self,
        dut: Any,
        prefix: str,
        stalls: Pause = 0,
        fields: list[str] | None = None,
        on_beat: Callable[[dict[str, int]], None] | None = None,
    ) -> None:
        self.dut = dut
        self.prefix = prefix
        self.valid = getattr(dut, prefix + "_valid")
        self.ready = getattr(dut, prefix + "_ready", None)
        self.payload = _payload(dut, prefix, fields)
        self.beats: deque[dict[str, int]] = deque()
        self.consumed = 0
        self.on_beat = on_beat
        self._ports = [(reader(port), bits) for port, bits in _ports(self.payload.values())]
        self._texts, self._fields = _places(self.payload)
        self._pause = pauses(stalls, prefix)
        self._arrived = Event()
        if self.ready is not None:
            self.ready.value = 0
        self._task = cocotb.start_soon(self._watch())

    def _read(self) -> dict[str, int]:
        texts = [text() for text in self._texts]
        if not any(text.strip("01") for text in texts):
            return {name: int(texts[at][bits], 2) for name, at, bits in self._fields}
        # Another field of a port may be unknown.
        beat = {}
        for name, signal in self.payload.items():
            value = signal.value
            assert value.is_resolvable, f"{self.prefix}_{name} has unknown bits: {value}"
            beat[name] = int(value)
        return beat

    def _raw(self) -> list[str]:
        return [text()[bits] for text, bits in self._ports]

    async def _watch(self) -> None:
        edge = RisingEdge(self.dut.clk)
        reset, shown = reader(self.dut.rst), reader(self.valid)
        is_ready = self.ready is None
        held: list[str] | None = None
        while True:
            await edge
            if reset() != "0":
                held, is_ready = None, self.ready is None
                if self.ready is not None:
                    self.ready.value = 0
                continue
            bit = shown()
            valid = bit == "1"
            assert valid or bit in "0LH", f"{self.prefix}_valid is unknown outside of reset"
            if held is not None:
                assert valid, f"{self.prefix}_valid fell before ready"
                now = self._raw()
                assert now == held, f"{self.prefix} payload changed while waiting: {held} {now}"
            held = None
            if valid and is_ready:
                beat = self._read()
                self.consumed += 1
                self.beats.append(beat)
                if self.on_beat is not None:
                    self.on_beat(beat)
                self._arrived.set()
            elif valid:
                held = self._raw()
            if self.ready is not None:
                was_ready, is_ready = is_ready, not self._pause()
                # The signal has the former value, unless a test has set it.
                if is_ready != was_ready:
                    self.ready.value = int(is_ready)

    async def take(self, count: int = 1, timeout_cycles: int = 10000) -> list[dict[str, int]]:
        """Returns the next `count` beats in order; fails on a timeout."""
        try:
            return await with_timeout(self._take(count), timeout_cycles * PERIOD_NS, "ns")
        except SimTimeoutError:
            raise AssertionError(
                f"{self.prefix}: {len(self.beats)} of {count} beats in {timeout_cycles} cycles"
            ) from None

    async def _take(self, count: int) -> list[dict[str, int]]:
        while len(self.beats) < count:
            self._arrived.clear()
            await self._arrived.wait()
        return [self.beats.popleft() for _ in range(count)]

    async def none(self, cycles: int) -> None:
        """Checks that no beat arrives in `cycles`."""
        await ClockCycles(self.dut.clk, cycles)
        assert not self.beats, f"{self.prefix}: unexpected {self.beats[0]}"
