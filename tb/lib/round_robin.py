# SPDX-License-Identifier: Apache-2.0
"""Models a round-robin arbiter.

    turns = RoundRobin(4)
    assert turns.next(0b1010) == 1 and turns.next(0b1011) == 3 and turns.next(0b1011) == 0
"""


class RoundRobin:
    """Round robin among `count`: the last winner has the lowest priority; a reset begins at 0."""

    def __init__(self, count: int, first: int = 0) -> None:
        self.count, self.first = count, first

    def reset(self) -> None:
        """Restores the state after a reset."""
        self.first = 0

    def next(self, requested: int) -> int:
        """Selects one of the set bits of `requested` (not 0) and returns its index."""
        after = requested >> self.first
        low, base = (after, self.first) if after else (requested, 0)
        served = base + (low & -low).bit_length() - 1
        self.first = (served + 1) % self.count
        return served
