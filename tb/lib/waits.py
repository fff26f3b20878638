# SPDX-License-Identifier: Apache-2.0
"""Drives single ports of a design and waits for others.

    drive(dut, s_need=4, s_find=1)                       # set inputs;  zero(dut, "a", "b"): to 0
    at = await pulse(dut, "db_valid", db_offset=8)       # one cycle of valid with its payload
    first, done = await hold(dut, "s_op_valid", "s_op_ready", s_op_kind=2)    # until accepted
    await until(dut, high(dut.init_done))                # or any condition, with its name
    assert await span(dut, high(dut.s_valid, dut.s_ready), high(dut.m_valid)) == promised.latency
    await rises(dut, dut.m_valid, promised.latency)      # 0 for `latency` cycles, then 1
    await steady(dut, 60, rst=0, quiesce=1)              # these values at each of 60 edges

Cycles are counted at rising edges: an input has the number of the edge that samples it, an output
that of the edge at which it is first visible. Their difference is a latency of spec/timing.yaml. A
condition sees a driven value from the next edge on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cocotb.triggers import ClockCycles, RisingEdge

from tb.lib.fast_values import reader
from tb.lib.stream import cycle


def drive(dut: Any, **values: int) -> None:
    """Sets inputs by name."""
    for name, value in values.items():
        getattr(dut, name).value = value


def zero(dut: Any, *names: str) -> None:
    """Drives inputs to 0."""
    drive(dut, **dict.fromkeys(names, 0))


async def pulse(dut: Any, valid: str, **values: int) -> int:
    """Drives valid for one cycle with its payload; returns the cycle of the sampling edge."""
    drive(dut, **values, **{valid: 1})
    await RisingEdge(dut.clk)
    zero(dut, valid)
    return cycle()


async def hold(
    dut: Any, valid: str, ready: str, cycles: int = 10000, **values: int
) -> tuple[int, int]:
    """Drives valid until accepted; returns the first cycle of valid and that of the handshake."""
    first = await pulse(dut, valid, **values)
    drive(dut, **{valid: 1})
    await until(dut, high(getattr(dut, ready)), f"{ready} for {valid}", cycles)
    zero(dut, valid)
    return first, cycle()


async def ticks(dut: Any, cycles: int) -> None:
    """Drives `s_tick` for ever: high in the last cycle of each tick of so many cycles."""
    while True:
        drive(dut, s_tick=int(cycles == 1))
        await ClockCycles(dut.clk, max(cycles - 1, 1))
        drive(dut, s_tick=1)
        await RisingEdge(dut.clk)


class Level:
    """A condition: all of the one-bit signals have this value."""

    def __init__(self, value: int, signals: Sequence[Any]) -> None:
        self.value, self.signals = value, signals
        readers = [reader(signal) for signal in signals]
        # Most signals have one bit; a wider one has this number.
        self._shown = [(shown, f"{value:0{len(shown())}b}") for shown in readers]

    def __call__(self) -> bool:
        for shown, text in self._shown:  # noqa: SIM110 - a generator costs more than the reads
            if shown() != text:
                return False
        return True

    def __str__(self) -> str:
        return " and ".join(f"{signal._name} = {self.value}" for signal in self.signals)


def high(*signals: Any) -> Level:
    """Returns a condition for until() and span(): all signals are 1."""
    return Level(1, signals)


def low(*signals: Any) -> Level:
    """Returns a condition for until() and span(): all signals are 0."""
    return Level(0, signals)


async def until(
    dut: Any, condition: Callable[[], object], what: str = "", cycles: int = 10000
) -> int:
    """Returns the edges until the condition holds, 0 if it holds now; fails after `cycles` edges.

    The failure names `what`; a high() or low() has a name, any other condition needs one.
    """
    assert what or isinstance(condition, Level), "a condition without a name"
    for waited in range(cycles):
        if condition():
            return waited
        await RisingEdge(dut.clk)
    raise AssertionError(f"{what or condition} did not come within {cycles} cycles")


async def span(
    dut: Any, first: Callable[[], object], then: Callable[[], object], cycles: int = 10000
) -> int:
    """Returns the cycles from the edge where `first` holds to the edge where `then` holds."""
    await until(dut, first, "the beginning", cycles)
    return await until(dut, then, "the end", cycles)


async def rises(dut: Any, signal: Any, latency: int) -> None:
    """Checks that a one-bit output is 0 for `latency` cycles and 1 after them."""
    for waited in range(latency):
        assert signal.value == 0, f"{signal._name}: after {waited} cycles, not {latency}"
        await RisingEdge(dut.clk)
    assert signal.value == 1, f"{signal._name}: not after {latency} cycles"


async def steady(dut: Any, cycles: int, **values: int) -> None:
    """Checks that outputs have these values at each of the next `cycles` edges."""
    for at in range(cycles):
        await RisingEdge(dut.clk)
        for name, value in values.items():
            found = getattr(dut, name).value
            assert found == value, f"{name} is {found} after {at + 1} of {cycles} cycles"
