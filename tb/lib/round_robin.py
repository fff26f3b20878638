# SPDX-License-Identifier: Apache-2.0
"""Whose turn it is among several that request one thing, as an arbiter in turn has to give it.

turns = RoundRobin(4)
assert turns.next(0b1010) == 1 and turns.next(0b1011) == 3 and turns.next(0b1011) == 0
"""


class RoundRobin:
    """Round robin among `count`: who was served is behind all others; a reset begins at 0."""

    def __init__(self, count, first=0):
        self.count, self.first = count, first

    def reset(self):
        """As after a reset."""
        self.first = 0

    def next(self, requested):
        """Serve one of those whose bit in `requested` is set (not 0) and return its number."""
        after = requested >> self.first
        low, base = (after, self.first) if after else (requested, 0)
        served = base + (low & -low).bit_length() - 1
        self.first = (served + 1) % self.count
        return served
