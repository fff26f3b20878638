# SPDX-License-Identifier: Apache-2.0
"""MSI-X: holds the table, masks and pending bits of BAR 0; sends the messages."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

_ENTRY = Struct("<IIII")
_ADDRESS_LO, _ADDRESS_HI, _DATA, _CONTROL = range(4)
_WRITABLE = (0xFFFFFFFC, 0xFFFFFFFF, 0xFFFFFFFF, 0x00000001)
_MASKED = 1
ENTRY_BYTES = _ENTRY.size


class Interrupts:
    """The vectors of one function; send(vector, address, data) sends a message, missing(vector)
    reports a message to a vector that does not exist.

    With moderation, a message closes its vector: later ones are merged into one and held until
    release().
    """

    _closed: set[int]
    _held: set[int]

    def __init__(
        self,
        vectors: int,
        send: Callable[[int, int, int], object],
        missing: Callable[[int], object],
        moderated: bool = False,
    ) -> None:
        self.vectors, self.moderated = vectors, moderated
        self._send, self._missing = send, missing
        self.enabled, self.function_mask = True, False
        self.clear()

    def clear(self) -> None:
        """Power-on and FLR: masks every vector, clears all pending bits."""
        self.table = [[0, 0, 0, _MASKED] for _ in range(self.vectors)]
        self.cancel_pending()

    def cancel_pending(self) -> None:
        """Register reset: keeps the table, cancels pending and held messages."""
        self.pending = 0
        self._closed, self._held = set(), set()

    def configure(self, enabled: bool, function_mask: bool) -> None:
        """Sets enable and function mask of the capability; unmasking sends pending messages."""
        self.enabled, self.function_mask = enabled, function_mask
        self.send_pending()

    def raise_vector(self, vector: int) -> None:
        """Sends a message, or sets the pending bit while masked; lost while MSI-X is disabled."""
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

    def release(self) -> bool:
        """Moderation interval elapsed: sends held messages; True if there were any."""
        held, self._held = sorted(self._held), set()
        self._closed.clear()
        for vector in held:
            self.raise_vector(vector)
        return bool(held)

    def send_pending(self) -> None:
        """Sends the messages of pending vectors that are no longer masked, ascending."""
        if not self.pending or not self.enabled or self.function_mask:
            return
        for vector, entry in enumerate(self.table):
            bit = 1 << vector
            if self.pending & bit and not entry[_CONTROL] & _MASKED:
                self.pending &= ~bit
                self.raise_vector(vector)

    def read_table(self, offset: int) -> int | None:
        """A dword of the table, None beyond its end."""
        vector, word = offset // ENTRY_BYTES, offset % ENTRY_BYTES // 4
        return self.table[vector][word] if vector < self.vectors else None

    def write_table(self, offset: int, value: int) -> None:
        """Stores a dword of the table."""
        vector, word = offset // ENTRY_BYTES, offset % ENTRY_BYTES // 4
        self.table[vector][word] = value & _WRITABLE[word]
        self.send_pending()

    def read_pending(self, offset: int) -> int | None:
        """A dword of the pending bit array, None beyond its end."""
        words = (self.vectors + 63) // 64 * 2
        word = offset // 4
        return self.pending >> 32 * word & 0xFFFFFFFF if word < words else None
