# SPDX-License-Identifier: Apache-2.0
"""Holds a registered buffer: its host pages and its keys."""

from efa_cosim.host import arguments
from efa_cosim.host.alloc import PAGE_BYTES

# A typical user-space address, as the software's target machines have.
FIRST_IOVA = 0x7F00_0000_0000
PAGE_SHIFT = PAGE_BYTES.bit_length() - 1


class MemoryRegion:
    """A user buffer with its page list; `write` and `read` act as the program itself.

    `pages` are DMA addresses, `iova` is the first user address, `length` is in bytes.
    """

    def __init__(self, memory, pages, iova, length):
        self.memory, self.pages = memory, pages
        self.iova, self.length = iova, length
        self.l_key = self.r_key = None

    @property
    def addr(self):
        """First user address, as the program and work requests use it."""
        return self.iova

    def pieces(self, offset, size):
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

    def write(self, offset, data):
        """Writes bytes into the buffer; raises ValueError outside of it, VerbsError for anything
        but bytes."""
        data, done = arguments.content("data", data), 0
        for address, size in self.pieces(offset, len(data)):
            self.memory.write(address, data[done : done + size])
            done += size

    def read(self, offset, size):
        """Returns `size` bytes of the buffer; raises ValueError outside of it."""
        return b"".join(self.memory.read(a, n) for a, n in self.pieces(offset, size))
