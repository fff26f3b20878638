# SPDX-License-Identifier: Apache-2.0
"""Provides building blocks of the replays: a gap with its waits, pipelines with a common stall."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from efa_cosim.cycle.timelines import Ints

# A stage: the milestones before and after it.
Ends: TypeAlias = tuple[str, str]
# The cycles of each stage on an idle device, of all messages or of each.
Services: TypeAlias = dict[Ends, "int | Ints"]


class Wrong(NamedTuple):
    """A transfer at the host's port that differs from the recording; -1 is no message."""

    stage: Ends
    message: int
    replayed: int
    recorded: int


class Gap:
    """One stage of every message: its begin, its service, then named waits until its end."""

    def __init__(self, begins: Sequence[int] | Ints, service: int | Sequence[int] | Ints) -> None:
        """begins: cycle in which each message enters; service: its cycles on an idle device."""
        self.begins: Ints = np.asarray(begins, np.int64)
        cycles: Ints = np.asarray(service, np.int64)
        self.service = np.broadcast_to(cycles, self.begins.shape).copy()
        self._ends: list[int] = (self.begins + self.service).tolist()
        self.waits: dict[str, Ints] = {}

    def at(self, message: int) -> int:
        """Returns the current end of this message."""
        return self._ends[message]

    def faster(self, message: int, cycles: int) -> None:
        """Makes the service of a message so many cycles shorter, if positive."""
        if cycles > 0:
            self.service[message] -= cycles
            self._ends[message] -= cycles

    def until(self, message: int, cycle: int, cause: str) -> None:
        """Books a wait until `cycle` for this cause, if `cycle` is later than the end so far."""
        more = cycle - self._ends[message]
        if more > 0:
            self.book(message, more, cause)

    def book(self, message: int, cycles: int, cause: str) -> None:
        """Books a wait of so many cycles for this cause."""
        if not cycles:
            return
        if cause not in self.waits:
            self.waits[cause] = np.zeros(len(self._ends), np.int64)
        self.waits[cause][message] += cycles
        self._ends[message] += cycles

    def add(self, other: Gap, rows: Ints | None = None) -> None:
        """Books all waits of another gap; rows: those of the other gap, default the same."""
        for cause, cycles in other.waits.items():
            mine = cycles if rows is None else cycles[rows]
            for message in np.flatnonzero(mine).tolist():
                self.book(message, int(mine[message]), cause)

    def repeated(self, packets: int) -> Gap:
        """Returns the gap with each message so many times: once for each of its packets."""
        if packets == 1:
            return self
        gap = Gap(self.begins.repeat(packets), self.service.repeat(packets))
        gap.waits = {cause: cycles.repeat(packets) for cause, cycles in self.waits.items()}
        gap._ends = np.array(self._ends, np.int64).repeat(packets).tolist()
        return gap

    @property
    def ends(self) -> Ints:
        """Returns the replayed cycle in which each message leaves."""
        return np.array(self._ends, np.int64)

    @property
    def wait(self) -> Ints:
        """Returns the sum of the waits of each message."""
        return sum(self.waits.values(), np.zeros(len(self._ends), np.int64))


class Ledger:
    """The activity of a unit in each cycle, with fast counts over intervals."""

    def __init__(self, did: Mapping[int, int], kinds: Sequence[int]) -> None:
        """did: {cycle: kind}; kinds: all kinds; cycles not in `did` count as the last kind."""
        self._begin = min(did, default=0)
        cycles = np.fromiter(did.keys(), np.int64, len(did)) - self._begin
        what = np.fromiter(did.values(), np.int64, len(did))
        length = int(cycles.max(initial=0)) + 1
        dense = np.full(length, kinds[-1], np.int64)
        dense[cycles] = what
        self._sums = {kind: np.concatenate([[0], np.cumsum(dense == kind)]) for kind in kinds[:-1]}
        self._rest, self._length = kinds[-1], length

    def count(self, begin: int, end: int) -> dict[int, int]:
        """Returns {kind: cycles} of [begin, end)."""
        if end <= begin:
            return {}
        first, last = (min(max(cycle - self._begin, 0), self._length) for cycle in (begin, end))
        counts = {kind: int(sums[last] - sums[first]) for kind, sums in self._sums.items()}
        counts[self._rest] = end - begin - sum(counts.values())
        return counts


class Pipe:
    """A pipeline whose stages all stall while the last stage holds its item.

    Items pass in order: `ready` and `enter` insert an item, `leave` reports how long the last stage
    held the item, which must be known before the next `ready`.
    """

    def __init__(self, stages: int) -> None:
        self._stages = stages
        self._still: list[tuple[int, int]] = []
        self._entered: int | None = None

    def _moves(self, cycle: int) -> int:
        for begin, end in self._still[-self._stages - 1 :]:
            if begin <= cycle < end:
                cycle = end
        return cycle

    def ready(self, cycle: int) -> int:
        """Returns the first cycle from `cycle` on in which an item can be inserted."""
        if self._entered is not None:
            cycle = max(cycle, self._entered + 1)
        return self._moves(cycle)

    def enter(self, cycle: int) -> int:
        """Inserts an item in a cycle returned by `ready`; returns the cycle at the output."""
        self._entered = cycle
        for _ in range(self._stages - 1):
            cycle = self._moves(cycle + 1)
        return cycle + 1

    def leave(self, shown: int, left: int) -> None:
        """Records the oldest item: cycle at the output and cycle of its consumption."""
        if left > shown:
            self._still.append((shown, left))


class Busy:
    """Cycles in which a port is occupied."""

    def __init__(self, cycles: Iterable[int]) -> None:
        self._order = sorted(cycles)
        self._set = set(self._order)

    def __contains__(self, cycle: int) -> bool:
        return cycle in self._set

    def free(self, cycle: int) -> int:
        """Returns the first cycle from `cycle` on in which the port is free."""
        while cycle in self._set:
            cycle += 1
        return cycle

    def count(self, begin: int, end: int) -> int:
        """Returns the number of occupied cycles in [begin, end)."""
        return bisect_left(self._order, end) - bisect_left(self._order, begin)
