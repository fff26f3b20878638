# SPDX-License-Identifier: Apache-2.0
"""Executes events in the order of their cycles; those of one cycle in the order of insertion."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any


class Timer:
    """A call in a later cycle, which can be cancelled.

    - `cycle`: the cycle of the call
    - `function`: what is called, without arguments; None after the call and after `cancel`
    """

    __slots__ = ("_queue", "cycle", "function")

    def __init__(self, queue: EventQueue, cycle: int, function: Callable[[], object]) -> None:
        self._queue, self.cycle = queue, cycle
        self.function: Callable[[], object] | None = function

    def cancel(self) -> None:
        """Prevents the call; has no effect after the call."""
        if self.function is not None:
            self.function = None
            self._queue.cancelled += 1


class EventQueue:
    """Events in integer cycles.

    - `now`: the present cycle; 0 at first
    - `cancelled`: number of cancelled timers that are still in the queue
    """

    def __init__(self) -> None:
        self.now = 0
        self.cancelled = 0
        # (cycle, number, function, argument): the number keeps the order of insertion. Function
        # None: the argument is a Timer.
        self._heap: list[tuple[int, int, Callable[[Any], object] | None, Any]] = []
        self._numbers = count()
        self._running = False

    def __len__(self) -> int:
        return len(self._heap) - self.cancelled

    @property
    def next_cycle(self) -> int | None:
        """The cycle of the next event, None without one."""
        heap = self._heap
        while heap and heap[0][2] is None and heap[0][3].function is None:
            heappop(heap)
            self.cancelled -= 1
        return heap[0][0] if heap else None

    def push(self, cycle: int, function: Callable[[Any], object], argument: object) -> None:
        """Adds the call function(argument) in a cycle from `now` on."""
        heappush(self._heap, (cycle, next(self._numbers), function, argument))

    def at(self, cycle: int, function: Callable[[], object]) -> Timer:
        """Adds the call function() in a cycle; returns its Timer. Raises ValueError if the cycle is
        over."""
        self._check(cycle)
        timer = Timer(self, cycle, function)
        heappush(self._heap, (cycle, next(self._numbers), None, timer))
        return timer

    def run(self, until: int | None = None, limit: int | None = None) -> int:
        """Executes events up to and with cycle `until`, at most `limit`; returns their number.

        Afterwards `now` is `until`; without `until`, or if `limit` ends the call, the cycle of the
        last event. Raises ValueError if cycle `until` is over, RuntimeError inside an event.
        """
        if until is not None:
            self._check(until)
        if self._running:
            raise RuntimeError("expected one run() at a time; found run() inside an event: let the "
                               "event return")
        heap, done, last = self._heap, 0, math.inf if until is None else until
        self._running = True
        try:
            while heap and done != limit and heap[0][0] <= last:
                cycle, _, function, argument = heappop(heap)
                if function is not None:
                    self.now = cycle
                    function(argument)
                elif argument.function is not None:
                    self.now = cycle
                    call, argument.function = argument.function, None
                    call()
                else:
                    self.cancelled -= 1
                    continue
                done += 1
        finally:
            self._running = False
        if until is not None and done != limit:
            self.now = until
        return done

    def _check(self, cycle: int) -> None:
        if cycle < self.now:
            raise ValueError(f"expected a cycle from {self.now} on, the present one; found "
                             f"{cycle}: give a later cycle")
