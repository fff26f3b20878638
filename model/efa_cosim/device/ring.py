# SPDX-License-Identifier: Apache-2.0
"""Ring indices: free-running counters, 16 bits wide between host and device."""

COUNTER_BITS = 16
COUNTER_MASK = (1 << COUNTER_BITS) - 1


def distance(later: int, earlier: int) -> int:
    """Increments of a 16-bit counter from `earlier` to `later`."""
    return (later - earlier) & COUNTER_MASK


def is_power_of_two(value: int, largest: int) -> bool:
    """True for 1, 2, 4 .. largest."""
    return 0 < value <= largest and not value & (value - 1)


class WorkRing:
    """A ring that the host fills and the device consumes: posted, consumed, then completed.

    The host reuses the slot of any completed entry, so free space counts from `completed`.
    """

    __slots__ = ("_mask", "completed", "depth", "produced", "consumed")

    def __init__(self, depth: int) -> None:
        self.depth, self._mask = depth, depth - 1
        self.clear()

    def clear(self) -> None:
        """Resets all counters."""
        self.produced = self.consumed = self.completed = 0

    def ring(self, value: int) -> bool:
        """Sets the producer index from a doorbell; False and unchanged beyond the free space."""
        new = (value - self.produced) & COUNTER_MASK
        if new > self.depth - ((self.produced - self.completed) & COUNTER_MASK):
            return False
        self.produced = value & COUNTER_MASK
        return True

    @property
    def waiting(self) -> int:
        """Entries posted and not consumed."""
        return (self.produced - self.consumed) & COUNTER_MASK

    @property
    def unfinished(self) -> int:
        """Entries consumed and not completed."""
        return (self.consumed - self.completed) & COUNTER_MASK

    def slot(self, ahead: int = 0) -> int:
        """Slot of the next entry to consume, or of the entry `ahead` behind it."""
        return (self.consumed + ahead) & self._mask

    def take(self, count: int = 1) -> int:
        """Consumes count entries; returns the slot of the first."""
        slot = self.consumed & self._mask
        self.consumed = (self.consumed + count) & COUNTER_MASK
        return slot

    def complete(self, count: int = 1) -> None:
        """Completes count entries, which frees their slots."""
        self.completed = (self.completed + count) & COUNTER_MASK

    def is_waiting(self, slot: int) -> bool:
        """True if the entry of the slot is posted and not consumed."""
        return ((slot - self.consumed) & self._mask) < self.waiting


class EntryRing:
    """A ring that the device writes and the host polls by phase bit, which is 1 at first."""

    __slots__ = ("depth", "written")

    def __init__(self, depth: int) -> None:
        self.depth, self.written = depth, 0

    def reserve(self) -> tuple[int, int]:
        """Allocates the next entry; returns its slot and phase."""
        slot = self.written & (self.depth - 1)
        phase = (self.written // self.depth & 1) ^ 1
        self.written += 1
        return slot, phase
