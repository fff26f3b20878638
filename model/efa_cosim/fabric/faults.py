# SPDX-License-Identifier: Apache-2.0
"""Draws the faults of the packets of one link.

Each fault has a generator of its own. The faults of packet n therefore depend on the seed, the
link, n and the description of this fault alone, not on time, other links or other faults.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from efa_cosim.fabric.description import (
    CYCLES,
    PACKETS,
    FixedBurst,
    PathProperties,
    RandomBurst,
)

LOSS, BURST, CORRUPT, DOWN, BUFFER = "loss", "burst", "corrupt", "down", "buffer"
# What loses a packet, in the order in which one of several causes is counted.
CAUSES = (BUFFER, DOWN, BURST, LOSS, CORRUPT)


class Hold(NamedTuple):
    """How long a packet is held: until `depth` later packets passed (None: any number), or `delay`
    cycles are over."""

    depth: int | None
    delay: int


class Fate(NamedTuple):
    """The faults of one packet: cause of its loss, cycles until its copy follows, its hold."""

    cause: str | None
    copy_delay: int | None
    hold: Hold | None


class Faults:
    """The faults of one link; `link` identifies it within the seed."""

    def __init__(self, path: PathProperties, link: str) -> None:
        def draws(name: str) -> Callable[[], float]:
            # A text as seed gives the same numbers on every machine and Python version.
            return Random(f"{link} {name}").random

        self._path = path
        self._loss = draws(LOSS) if path.loss else None
        self._corrupt = draws(CORRUPT) if path.corrupt else None
        self._burst = draws(BURST) if isinstance(path.burst, RandomBurst) else None
        self._duplicate = draws("duplicate") if path.duplicate else None
        self._reorder = draws("reorder") if path.reorder else None
        self._in_burst = False
        self._number = 0
        self._down_packets = [one for one in path.down if one.unit == PACKETS]
        self._down_cycles = [one for one in path.down if one.unit == CYCLES]

    @staticmethod
    def possible(path: PathProperties) -> bool:
        """Returns True if a path can lose, copy or reorder packets behind its buffer."""
        return bool(path.loss or path.burst or path.corrupt or path.duplicate or path.reorder
                    or path.down)

    def next(self) -> Fate:
        """Returns the Fate of the next packet, but for intervals in cycles."""
        path, number = self._path, self._number
        self._number += 1
        cause = None
        if self._corrupt is not None and self._corrupt() < path.corrupt:
            cause = CORRUPT
        if self._loss is not None and self._loss() < path.loss:
            cause = LOSS
        if path.burst is not None and self._loses_in_burst(number):
            cause = BURST
        for down in self._down_packets:
            if down.first <= number and (down.end is None or number < down.end):
                cause = DOWN
        return Fate(cause, self._draw_copy(), self._draw_hold())

    def is_down(self, first: int, last: int) -> bool:
        """Returns True if the path is down in one of the cycles `first` to `last`."""
        return any(down.first <= last and (down.end is None or first < down.end)
                   for down in self._down_cycles)

    def _loses_in_burst(self, number: int) -> bool:
        burst, draw = self._path.burst, self._burst
        if isinstance(burst, FixedBurst):
            return burst.at <= number < burst.at + burst.packets
        assert burst is not None and draw is not None
        if not self._in_burst:
            self._in_burst = draw() < burst.enter
        if not self._in_burst:
            return False
        lost = draw() < burst.loss
        self._in_burst = draw() >= 1 / burst.length
        return lost

    def _draw_copy(self) -> int | None:
        duplicate, draw = self._path.duplicate, self._duplicate
        if duplicate is None or draw is None or draw() >= duplicate.probability:
            return None
        return int(draw() * (duplicate.delay + 1))

    def _draw_hold(self) -> Hold | None:
        reorder, draw = self._path.reorder, self._reorder
        if reorder is None or draw is None or draw() >= reorder.probability:
            return None
        delay = 1 + int(draw() * reorder.delay)
        return Hold(reorder.depth and 1 + int(draw() * reorder.depth), delay)
