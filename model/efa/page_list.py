# SPDX-License-Identifier: Apache-2.0
"""Page lists of memory regions in host memory, as the kernel hands them to a device.

Where the kernel got the list in one piece that is it. Else its pages lie anywhere, and chunks,
blocks with their addresses and a link to the next block, say where.
"""

from efa import defs

ADDRESS_BYTES = 8
PAGE_BYTES = defs.EFA_CHUNK_PAYLOAD_SIZE
CHUNK_BYTES = defs.EFA_CHUNK_SIZE
POINTERS = defs.EFA_PTRS_PER_CHUNK
LINK = defs.PblChunk.next


def mem_addr(address):
    """A DMA address as its two halves."""
    return {"mem_addr_low": address & 0xFFFF_FFFF, "mem_addr_high": address >> 32}


class PageList:
    """Memory of one list; `start` is what the command says of it, free() gives it back."""

    def __init__(self, memory, allocator, pages, most_in_one_piece):
        self._memory, self._allocator = memory, allocator
        data = b"".join(page.to_bytes(ADDRESS_BYTES, "little") for page in pages)
        self.indirect = len(data) > most_in_one_piece
        self._blocks = []
        if self.indirect:
            length, address = self._chunks(self._scattered(data))
        else:
            length, address = len(data), self._written(data)
        self.start = {"length": length, "address": mem_addr(address)}

    def free(self):
        """The device has read it."""
        for block in self._blocks:
            self._allocator.free(block)

    def _written(self, data):
        block = self._allocator.alloc(len(data))
        self._blocks.append(block)
        self._memory.write(block, data)
        return block

    def _scattered(self, data):
        """The list on single pages in no order; their addresses."""
        pages = self._allocator.scattered(-(-len(data) // PAGE_BYTES))
        self._blocks += pages
        for number, page in enumerate(pages):
            self._memory.write(page, data[number * PAGE_BYTES : (number + 1) * PAGE_BYTES])
        return pages

    def _chunks(self, pages):
        """Length and address of the first chunk, written from the last one back.

        The last chunk's length is that of its pointers and link, with the pages counted modulo a
        chunk's worth: 12 when the last chunk is full, as Linux has it.
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
