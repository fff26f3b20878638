# SPDX-License-Identifier: Apache-2.0
"""Models the write-combining store buffer between provider code and the bus.

A CPU collects stores to write-combined memory in a few 64-byte lines. A line is evicted when its
buffer entry is needed, when it is full, at a fence, or at any other time; whole or in pieces, and
in any order among lines. A store to uncached memory (a doorbell) may pass collected stores. A
StoreBuffer selects the behaviour; the seed makes a run repeatable.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

from efa_cosim.boundary.backend import Store
from efa_cosim.layouts import defs

# Offset in a line and contiguous bytes.
_Run: TypeAlias = tuple[int, bytes]

LINE_BYTES = 64
DWORD_BYTES = 4
STORE_BYTES = 8
MOST_LINES = 64
MOST_CUTS = 3
DRAINING = "drains"
OVERTAKING = "overtakes"


@dataclass(frozen=True)
class Policy:
    """How lines are evicted.

    full: a full line is evicted at once; tear: probability that a line is evicted in pieces;
    early: probability, at each store, of an early eviction; shuffle: lines are evicted in random
    order, else the oldest first; partial: an early eviction may leave pieces of the line behind.
    """

    full: bool = False
    tear: float = 0.0
    early: float = 0.0
    shuffle: bool = False
    partial: bool = False


POLICIES = {
    # Best case: every full line is one 64-byte write.
    "ideal": Policy(full=True),
    # Lines are evicted at a fence or when a buffer entry is needed, in order.
    "in_order": Policy(),
    # As in_order, in random order.
    "random": Policy(shuffle=True),
    # Other code on the CPU needs lines: early eviction in pieces.
    "pressure": Policy(tear=0.7, early=0.1),
    # All effects together, with pieces of different lines interleaved.
    "adversarial": Policy(tear=0.7, early=0.1, shuffle=True, partial=True),
}


@dataclass(frozen=True)
class StoreBuffer:
    """The store buffer of one CPU: eviction policy, number of lines, order of uncached stores.

    - `policy`: `ideal`, `in_order`, `random`, `pressure` or `adversarial`
    - `lines`: number of 64-byte lines, 1 to 64
    - `overtakes`: uncached stores (doorbells) overtake the collected ones

    The text of a buffer is POLICY or POLICY/LINES/overtakes or POLICY/LINES/drains. Raises
    ValueError for another policy or number of lines.
    """

    policy: str = "ideal"
    lines: int = 10
    overtakes: bool = True

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ValueError(f"unknown store buffer policy {self.policy}: expected one of "
                             f"{', '.join(POLICIES)}")
        if not 1 <= self.lines <= MOST_LINES:
            raise ValueError(f"store buffer with {self.lines} lines: expected 1 to {MOST_LINES}")

    def __str__(self) -> str:
        uncached = OVERTAKING if self.overtakes else DRAINING
        return f"{self.policy}/{self.lines}/{uncached}"

    @classmethod
    def of(cls, value: StoreBuffer | str) -> StoreBuffer:
        """Returns a StoreBuffer unchanged, or one from its text; raises ValueError."""
        if isinstance(value, StoreBuffer):
            return value
        policy, *more = value.split("/")
        if not more:
            return cls(policy)
        if len(more) != 2 or not more[0].isdigit() or more[1] not in (
                OVERTAKING, DRAINING):
            raise ValueError(f"store buffer {value}: expected POLICY/LINES/{OVERTAKING} or "
                             f"POLICY/LINES/{DRAINING}")
        return cls(policy, int(more[0]), more[1] == OVERTAKING)

    @classmethod
    def drawn(cls, seed: object) -> Self:
        """Returns a random buffer, determined by the seed."""
        rng = random.Random(f"store buffer {seed}")
        return cls(rng.choice(list(POLICIES)), rng.choice((2, 4, 8, 12)), rng.random() < 0.5)


class WcBuffer:
    """Stores of one CPU to one write-combined BAR, and its uncached stores.

    `sink` receives lists of (bar, offset, bytes). No store remains collected after `flush`, the
    fence.
    """

    def __init__(
        self,
        sink: Callable[[list[Store]], object],
        buffer: StoreBuffer | str = "ideal",
        seed: float = 0,
        bar: int = defs.EFA_MEM_BAR,
    ) -> None:
        self.kind = StoreBuffer.of(buffer)
        self._sink = sink
        self._policy = POLICIES[self.kind.policy]
        self._bar = bar
        self._random = random.Random(seed)
        self._lines: dict[int, list[bytes | None]] = {}  # dwords by offset of the line
        self._whole = self._policy == POLICIES["ideal"]

    def copy(self, offset: int, data: bytes) -> None:
        """Copies as the provider does: 8-byte stores in ascending address order."""
        if offset % STORE_BYTES or len(data) % STORE_BYTES:
            raise ValueError(f"copy of {len(data)} bytes to {offset:#x}: offset and size must be "
                             "multiples of 8, for 8-byte stores")
        if self._whole and not self._lines and not (offset | len(data)) % LINE_BYTES:
            self._sink([(self._bar, offset + at, data[at : at + LINE_BYTES])
                        for at in range(0, len(data), LINE_BYTES)])
            return
        for at in range(0, len(data), STORE_BYTES):
            self.store(offset + at, data[at : at + STORE_BYTES])

    def store(self, offset: int, data: bytes) -> None:
        """One store inside a line, made of whole dwords."""
        line, at = offset - offset % LINE_BYTES, offset % LINE_BYTES
        if at + len(data) > LINE_BYTES or at % DWORD_BYTES or len(data) % DWORD_BYTES:
            raise ValueError(f"store of {len(data)} bytes at {offset:#x}: expected whole dwords "
                             f"inside one {LINE_BYTES}-byte line")
        if line not in self._lines:
            if len(self._lines) >= self.kind.lines:
                self._evict([self._victim()])
            self._lines[line] = [None] * (LINE_BYTES // DWORD_BYTES)
        dwords = self._lines[line]
        for index in range(0, len(data), DWORD_BYTES):
            dwords[(at + index) // DWORD_BYTES] = data[index : index + DWORD_BYTES]
        if self._policy.full and None not in dwords:
            self._evict([line])
        elif self._policy.early and self._random.random() < self._policy.early:
            self._evict([self._victim()], early=True)

    def uncached(self, bar: int, offset: int, data: bytes) -> None:
        """A store to uncached memory: after the collected stores, unless this CPU overtakes."""
        if not self.kind.overtakes:
            self.flush()
        self._sink([(bar, offset, data)])

    def flush(self) -> None:
        """The fence: all earlier stores reach the sink before any later store."""
        lines = list(self._lines)
        if self._policy.shuffle:
            self._random.shuffle(lines)
        if lines:
            self._evict(lines)

    def _victim(self) -> int:
        lines = list(self._lines)
        return self._random.choice(lines) if self._policy.shuffle else lines[0]

    def _evict(self, lines: Iterable[int], early: bool = False) -> None:
        pieces: list[Store] = []
        for line in lines:
            runs = _runs(self._lines.pop(line))
            if self._random.random() < self._policy.tear:
                runs = [part for run in runs for part in self._incomplete(run)]
                if early and self._policy.partial:
                    runs = self._left_behind(line, runs)
            pieces += [(self._bar, line + at, data) for at, data in runs]
        if self._policy.tear and self._policy.shuffle:
            self._random.shuffle(pieces)
        self._sink(pieces)

    def _left_behind(self, line: int, runs: list[_Run]) -> list[_Run]:
        """The pieces of a line that are evicted, at least one; the others stay collected."""
        leaving = self._random.randint(1, len(runs))
        if leaving < len(runs):
            dwords = self._lines[line] = [None] * (LINE_BYTES // DWORD_BYTES)
            for at, data in runs[leaving:]:
                for index in range(0, len(data), DWORD_BYTES):
                    dwords[(at + index) // DWORD_BYTES] = data[index : index + DWORD_BYTES]
        return runs[:leaving]

    def _incomplete(self, run: _Run) -> list[_Run]:
        """A run of bytes cut at random dword borders; the pieces shuffled if lines are."""
        start, data = run
        borders = range(DWORD_BYTES, len(data), DWORD_BYTES)
        count = self._random.randint(0, min(MOST_CUTS, len(borders)))
        edges = [0, *sorted(self._random.sample(borders, count)), len(data)]
        parts = [(start + a, data[a:b]) for a, b in zip(edges, edges[1:], strict=False)]
        if self._policy.shuffle:
            self._random.shuffle(parts)
        return parts


def _runs(dwords: Sequence[bytes | None]) -> list[_Run]:
    """The written dwords of a line as (offset, bytes) of contiguous runs."""
    runs: list[_Run] = []
    for index, dword in enumerate(dwords):
        if dword is None:
            continue
        if index and dwords[index - 1] is not None:
            start, data = runs[-1]
            runs[-1] = (start, data + dword)
        else:
            runs.append((index * DWORD_BYTES, dword))
    return runs
