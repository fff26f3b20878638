# SPDX-License-Identifier: Apache-2.0
"""MSI-X: table, masks and pending bits of BAR 0, and the messages that leave."""

from struct import Struct

_ENTRY = Struct("<IIII")
_ADDRESS_LO, _ADDRESS_HI, _DATA, _CONTROL = range(4)
_WRITABLE = (0xFFFFFFFC, 0xFFFFFFFF, 0xFFFFFFFF, 0x00000001)
_MASKED = 1
ENTRY_BYTES = _ENTRY.size


class Interrupts:
    """The vectors of one function; send(vector, address, data) delivers a message, missing(vector)
    hears of one whose vector is not there.

    Moderated, a message closes its vector: what comes before release() is held, merged into one.
    """

    def __init__(self, vectors, send, missing, moderated=False):
        self.vectors, self.moderated = vectors, moderated
        self._send, self._missing = send, missing
        self.enabled, self.function_mask = True, False
        self.clear()

    def clear(self):
        """Power-on and FLR: every vector masked, nothing pending."""
        self.table = [[0, 0, 0, _MASKED] for _ in range(self.vectors)]
        self.forget_pending()

    def forget_pending(self):
        """A register reset keeps the table and owes no message any more."""
        self.pending = 0
        self._closed, self._held = set(), set()

    def configure(self, enabled, function_mask):
        """The capability's enable and function mask; unmasking sends what is pending."""
        self.enabled, self.function_mask = enabled, function_mask
        self.send_pending()

    def raise_vector(self, vector):
        """One message, or its pending bit while masked; lost while MSI-X is disabled."""
        if vector >= self.vectors:
            self._missing(vector)
            return
        if not self.enabled:
            return
        low, high, data, control = self.table[vector]
        if vector in self._closed:
            self._held.add(vector)
        elif self.function_mask or control & _MASKED:
            self.pending |= 1 << vector
        else:
            if self.moderated:
                self._closed.add(vector)
            self._send(vector, high << 32 | low, data)

    def release(self):
        """The least time between two messages is over for all; True when one was held."""
        held, self._held = sorted(self._held), set()
        self._closed.clear()
        for vector in held:
            self.raise_vector(vector)
        return bool(held)

    def send_pending(self):
        """Messages of the vectors that are pending and not masked any more, ascending."""
        if not self.pending or not self.enabled or self.function_mask:
            return
        for vector, entry in enumerate(self.table):
            bit = 1 << vector
            if self.pending & bit and not entry[_CONTROL] & _MASKED:
                self.pending &= ~bit
                self.raise_vector(vector)

    def read_table(self, offset):
        """A dword of the table, None beyond its end."""
        vector, word = offset // ENTRY_BYTES, offset % ENTRY_BYTES // 4
        return self.table[vector][word] if vector < self.vectors else None

    def write_table(self, offset, value):
        """Stores a dword of the table."""
        vector, word = offset // ENTRY_BYTES, offset % ENTRY_BYTES // 4
        self.table[vector][word] = value & _WRITABLE[word]
        self.send_pending()

    def read_pending(self, offset):
        """A dword of the pending bits, None beyond their end."""
        words = (self.vectors + 63) // 64 * 2
        word = offset // 4
        return self.pending >> 32 * word & 0xFFFFFFFF if word < words else None
