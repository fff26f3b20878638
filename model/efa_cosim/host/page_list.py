# SPDX-License-Identifier: Apache-2.0
"""Builds page lists of memory regions in host memory, as the kernel passes them to a device.

A list that fits one contiguous block is passed directly. A longer list lies on scattered pages,
and chunks hold the addresses of these pages and a link to the next chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from efa_cosim.layouts import defs

if TYPE_CHECKING:
    from efa_cosim.boundary.memory import CpuMemory
    from efa_cosim.host.alloc import HostAllocator

ADDRESS_BYTES = 8
PAGE_BYTES = defs.EFA_CHUNK_PAYLOAD_SIZE
CHUNK_BYTES = defs.EFA_CHUNK_SIZE
POINTERS = defs.EFA_PTRS_PER_CHUNK
LINK = defs.PblChunk.next


def mem_addr(address: int) -> dict[str, int]:
    """A DMA address as low and high half."""
    return {"mem_addr_low": address & 0xFFFF_FFFF, "mem_addr_high": address >> 32}


class PageList:
    """The memory of one list; `start` is the command's buffer field, free() frees the memory."""

    def __init__(
        self,
        memory: CpuMemory,
        allocator: HostAllocator,
        pages: Sequence[int],
        most_in_one_piece: int,
    ) -> None:
        self._memory, self._allocator = memory, allocator
        data = b"".join(page.to_bytes(ADDRESS_BYTES, "little") for page in pages)
        self.indirect = len(data) > most_in_one_piece
        self._blocks: list[int] = []
        if self.indirect:
            length, address = self._chunks(self._scattered(data))
        else:
            length, address = len(data), self._written(data)
        self.start = {"length": length, "address": mem_addr(address)}

    def free(self) -> None:
        """Frees the list; the device must have read it."""
        for block in self._blocks:
            self._allocator.free(block)

    def _written(self, data: bytes) -> int:
        block = self._allocator.alloc(len(data))
        self._blocks.append(block)
        self._memory.write(block, data)
        return block

    def _scattered(self, data: bytes) -> list[int]:
        """Writes the list to scattered single pages; returns their addresses."""
        pages = self._allocator.scattered(-(-len(data) // PAGE_BYTES))
        self._blocks += pages
        for number, page in enumerate(pages):
            self._memory.write(page, data[number * PAGE_BYTES : (number + 1) * PAGE_BYTES])
        return pages

    def _chunks(self, pages: Sequence[int]) -> tuple[int, int]:
        """Length and address of the first chunk; chunks are written from the last to the first.

        The length of the last chunk covers pointers and link, with the pointers counted modulo a
        full chunk, as in Linux: a full last chunk has length 12.
        """
        length, address = 0, 0
        groups = [pages[at : at + POINTERS] for at in range(0, len(pages), POINTERS)]
        for group in reversed(groups):
            chunk = bytearray(CHUNK_BYTES)
            chunk[: len(group) * ADDRESS_BYTES] = b"".join(
                page.to_bytes(ADDRESS_BYTES, "little") for page in group)
            if address:
                link = defs.AdminCtrlBuffInfo(length=length, address=mem_addr(address))
                chunk[LINK.offset : LINK.offset + LINK.size] = link.pack()
            length = defs.EFA_CHUNK_USED_SIZE if address else (
                len(group) % POINTERS * ADDRESS_BYTES + defs.EFA_CHUNK_PTR_SIZE)
            address = self._written(bytes(chunk))
        return length, address
