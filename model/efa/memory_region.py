# SPDX-License-Identifier: Apache-2.0
"""A registered buffer: where its bytes are in host memory, and its keys."""

from efa.host_alloc import PAGE_BYTES

# User addresses look like this on the machines the software was written for.
FIRST_IOVA = 0x7F00_0000_0000
PAGE_SHIFT = PAGE_BYTES.bit_length() - 1


class MemoryRegion:
    """A user buffer with its page list; `write` and `read` are what the program itself does."""

    def __init__(self, memory, pages, iova, length):
        self.memory, self.pages = memory, pages
        self.iova, self.length = iova, length
        self.l_key = self.r_key = None

    @property
    def addr(self):
        """First address as the program and the device's work requests know it."""
        return self.iova

    def pieces(self, offset, size):
        """Host memory addresses and sizes of a range, ascending."""
        if offset < 0 or offset + size > self.length:
            raise ValueError(f"{size} bytes at {offset} are outside the {self.length} bytes")
        start, end = self.iova % PAGE_BYTES + offset, self.iova % PAGE_BYTES + offset + size
        while start < end:
            page, inside = divmod(start, PAGE_BYTES)
            take = min(PAGE_BYTES - inside, end - start)
            yield self.pages[page] + inside, take
            start += take

    def write(self, offset, data):
        """Puts bytes into the buffer."""
        done = 0
        for address, size in self.pieces(offset, len(data)):
            self.memory.write(address, bytes(data[done : done + size]))
            done += size

    def read(self, offset, size):
        """Bytes of the buffer."""
        return b"".join(self.memory.read(a, n) for a, n in self.pieces(offset, size))
