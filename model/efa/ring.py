# SPDX-License-Identifier: Apache-2.0
"""Counters of rings: free-running, 16 bits between host and device. The only modulo in Python."""

COUNTER_BITS = 16
COUNTER_MASK = (1 << COUNTER_BITS) - 1


def distance(later, earlier):
    """How far a 16-bit counter has run since it stood at earlier."""
    return (later - earlier) & COUNTER_MASK


def is_power_of_two(value, largest):
    """True for 1, 2, 4 .. largest."""
    return 0 < value <= largest and not value & (value - 1)


class WorkRing:
    """A ring that the host fills and the device empties: entries are rung, taken, then completed.

    The host reuses the slot of any completed entry, so room is counted from completed, not taken.
    """

    __slots__ = ("_mask", "completed", "depth", "produced", "taken")

    def __init__(self, depth):
        self.depth, self._mask = depth, depth - 1
        self.clear()

    def clear(self):
        """Back to the counters of a new ring."""
        self.produced = self.taken = self.completed = 0

    def ring(self, value):
        """Moves the producer to a doorbell's value; False, and nothing moved, beyond the room."""
        new = (value - self.produced) & COUNTER_MASK
        if new > self.depth - ((self.produced - self.completed) & COUNTER_MASK):
            return False
        self.produced = value & COUNTER_MASK
        return True

    @property
    def waiting(self):
        """Entries rung and not taken."""
        return (self.produced - self.taken) & COUNTER_MASK

    @property
    def unfinished(self):
        """Entries taken and not completed."""
        return (self.taken - self.completed) & COUNTER_MASK

    def slot(self, ahead=0):
        """Slot of the entry that is taken next, or of one behind it."""
        return (self.taken + ahead) & self._mask

    def take(self, count=1):
        """Slot of the entry taken now."""
        slot = self.taken & self._mask
        self.taken = (self.taken + count) & COUNTER_MASK
        return slot

    def complete(self, count=1):
        """Room for count more entries."""
        self.completed = (self.completed + count) & COUNTER_MASK

    def is_waiting(self, slot):
        """True for a slot whose entry is rung and not taken."""
        return ((slot - self.taken) & self._mask) < self.waiting


class EntryRing:
    """A ring that the device fills and the host polls by the phase bit: 1 on the first pass."""

    __slots__ = ("depth", "written")

    def __init__(self, depth):
        self.depth, self.written = depth, 0

    def reserve(self):
        """Slot and phase of the next entry."""
        slot = self.written & (self.depth - 1)
        phase = (self.written // self.depth & 1) ^ 1
        self.written += 1
        return slot, phase
