# SPDX-License-Identifier: Apache-2.0
"""Allocates pages of host memory for rings, buffers and page lists."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from efa_cosim.layouts import defs

if TYPE_CHECKING:
    from efa_cosim.boundary.memory import CpuMemory

PAGE_BYTES = 4096
DMA_ADDRESS_BITS = defs.PROFILES["default"].dma_addr_width
# Above the first megabytes, which a real machine uses otherwise.
DEFAULT_BASE = 0x0100_0000
DEFAULT_BYTES = 0x3000_0000
SCATTER_POOL = 4


class OutOfHostMemory(Exception):
    """The window of host memory is exhausted."""


class HostAllocator:
    """Page-granular allocator over a window of host memory; freed blocks are reused by size.

    The window has the low bits of the addresses. Each new block draws its high bits, so that the
    blocks lie anywhere below 2^`address_bits`, as on a large server.
    """

    def __init__(
        self,
        memory: CpuMemory,
        base: int = DEFAULT_BASE,
        size: int = DEFAULT_BYTES,
        seed: int = 0,
        address_bits: int = DMA_ADDRESS_BITS,
    ) -> None:
        if base % PAGE_BYTES or size % PAGE_BYTES:
            raise ValueError(f"host memory window {base:#x} + {size:#x} is not page-aligned: "
                             f"use multiples of {PAGE_BYTES}")
        self.memory = memory
        self._next, self._end = base, base + size
        self._low_bits = (base + size - 1).bit_length()
        self._high_bits = max(0, address_bits - self._low_bits)
        self._free: dict[int, list[int]] = {}  # blocks by number of pages
        self._live: dict[int, int] = {}  # number of pages by block
        self._random = random.Random(seed)

    def alloc(self, size: int, zero: bool = True) -> int:
        """Address of a page-aligned, contiguous block; zeroed, as a kernel's coherent memory is."""
        pages = max(1, -(-size // PAGE_BYTES))
        blocks = self._free.get(pages)
        address = blocks.pop() if blocks else self._extend(pages)
        self._live[address] = pages
        if zero:
            self.memory.write(address, bytes(pages * PAGE_BYTES))
        return address

    def scattered(self, count: int) -> list[int]:
        """Addresses of single pages in random order and with gaps, as user memory has them."""
        singles = self._free.setdefault(1, [])
        if len(singles) < count * SCATTER_POOL:
            start = self._extend(count * SCATTER_POOL)
            singles += [start + i * PAGE_BYTES for i in range(count * SCATTER_POOL)]
        pages = self._random.sample(singles, count)
        consumed = set(pages)
        self._free[1] = [page for page in singles if page not in consumed]
        for page in pages:
            self._live[page] = 1
        return pages

    def free(self, address: int) -> None:
        """Frees a block or a scattered page; ValueError if it is not allocated."""
        pages = self._live.pop(address, None)
        if pages is None:
            raise ValueError(f"{address:#x} is not allocated")
        self._free.setdefault(pages, []).append(address)

    def pages(self) -> set[int]:
        """Addresses of all pages allocated now."""
        return {
            address + n * PAGE_BYTES for address, count in self._live.items() for n in range(count)
        }

    def _extend(self, pages: int) -> int:
        address = self._next
        if address + pages * PAGE_BYTES > self._end:
            raise OutOfHostMemory(f"{pages} pages do not fit: window ends at {self._end:#x}; "
                                  "free buffers or enlarge the window")
        self._next += pages * PAGE_BYTES
        return self._random.getrandbits(self._high_bits) << self._low_bits | address
