# SPDX-License-Identifier: Apache-2.0
"""The consumer side of a ring that the device writes."""


from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from efa_cosim.boundary.memory import CpuMemory
    from efa_cosim.layouts.layout import Struct

_Entry = TypeVar("_Entry", bound="Struct")


class ConsumerRing(Generic[_Entry]):
    """Entries of one size; the phase bit, which toggles at each wrap, marks new ones."""

    def __init__(
        self,
        memory: CpuMemory,
        base: int,
        depth: int,
        entry: type[_Entry],
        phase_of: Callable[[_Entry], int],
    ) -> None:
        """`entry` is the layout, `phase_of` reads the phase bit from an entry of it."""
        self.memory, self.base, self.depth = memory, base, depth
        self._entry, self._phase_of = entry, phase_of
        self.consumed = 0

    @property
    def bytes(self) -> int:
        """Size of the ring."""
        return self.depth * self._entry.SIZE

    def take(self) -> _Entry | None:
        """Consumes the next entry; None if the device has not written it yet."""
        wrap, slot = divmod(self.consumed, self.depth)
        address = self.base + slot * self._entry.SIZE
        entry = self._entry.unpack(self.memory.read(address, self._entry.SIZE))
        if self._phase_of(entry) != 1 - wrap % 2:
            return None
        self.consumed += 1
        return entry
