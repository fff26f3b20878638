# SPDX-License-Identifier: Apache-2.0
"""The consumer side of a ring that the device writes."""


class ConsumerRing:
    """Entries of one size; the phase bit, which toggles at each wrap, marks new ones."""

    def __init__(self, memory, base, depth, entry, phase_of):
        """`entry` is the layout, `phase_of` reads the phase bit from an entry of it."""
        self.memory, self.base, self.depth = memory, base, depth
        self._entry, self._phase_of = entry, phase_of
        self.consumed = 0

    @property
    def bytes(self):
        """Size of the ring."""
        return self.depth * self._entry.SIZE

    def take(self):
        """Consumes the next entry; None if the device has not written it yet."""
        wrap, slot = divmod(self.consumed, self.depth)
        address = self.base + slot * self._entry.SIZE
        entry = self._entry.unpack(self.memory.read(address, self._entry.SIZE))
        if self._phase_of(entry) != 1 - wrap % 2:
            return None
        self.consumed += 1
        return entry
