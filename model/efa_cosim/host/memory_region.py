# SPDX-License-Identifier: Apache-2.0
"""Holds a registered buffer: its host pages and its keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from efa_cosim.host import arguments
from efa_cosim.host.alloc import PAGE_BYTES

if TYPE_CHECKING:
    from efa_cosim.boundary.memory import CpuMemory

# A typical user-space address, as the software's target machines have.
FIRST_IOVA = 0x7F00_0000_0000
PAGE_SHIFT = PAGE_BYTES.bit_length() - 1


class MemoryRegion:
    """A user buffer with its page list; `write` and `read` act as the program itself.

    `pages` are DMA addresses, `iova` is the first user address, `length` is in bytes. The
    registration sets the keys `l_key` and `r_key`.
    """

    l_key: int
    r_key: int

    def __init__(
        self, memory: CpuMemory, pages: Sequence[int], iova: int, length: int
    ) -> None:
        self.memory, self.pages = memory, pages
        self.iova, self.length = iova, length

    @property
    def addr(self) -> int:
        """First user address, as the program and work requests use it."""
        return self.iova

    def pieces(self, offset: int, size: int) -> Iterator[tuple[int, int]]:
        """Yields DMA address and size of each contiguous piece of a range, ascending; raises
        ValueError outside the buffer."""
        if offset < 0 or offset + size > self.length:
            raise ValueError(f"range of {size} bytes at offset {offset} is outside the "
                             f"{self.length}-byte memory region")
        start, end = self.iova % PAGE_BYTES + offset, self.iova % PAGE_BYTES + offset + size
        while start < end:
            page, inside = divmod(start, PAGE_BYTES)
            take = min(PAGE_BYTES - inside, end - start)
            yield self.pages[page] + inside, take
            start += take

    def write(self, offset: int, data: bytes) -> None:
        """Writes bytes into the buffer; raises ValueError outside of it, VerbsError for anything
        but bytes."""
        data, done = arguments.content("data", data), 0
        for address, size in self.pieces(offset, len(data)):
            self.memory.write(address, data[done : done + size])
            done += size

    def read(self, offset: int, size: int) -> bytes:
        """Returns `size` bytes of the buffer; raises ValueError outside of it."""
        return b"".join(self.memory.read(a, n) for a, n in self.pieces(offset, size))
