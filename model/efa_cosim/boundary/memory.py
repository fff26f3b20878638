# SPDX-License-Identifier: Apache-2.0
"""Host memory as seen by a device: bytes at 64-bit addresses, with injected read failures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

PAGE_BYTES = 4096
_PAGE_SHIFT = PAGE_BYTES.bit_length() - 1
_IN_PAGE = PAGE_BYTES - 1
_ADDRESS_MASK = (1 << 64) - 1


class CpuMemory(Protocol):
    """Host memory as the CPU reads and writes it, `Backend.memory`."""

    def read(self, address: int, size: int) -> bytes:
        """Returns bytes."""

    def write(self, address: int, data: bytes) -> None:
        """Stores bytes."""


class HostReadError(Exception):
    """A device read touched a range with an injected failure; has `address` and `size`."""

    def __init__(self, address: int, size: int) -> None:
        super().__init__(f"read of {size} bytes at {address:#x} failed")
        self.address, self.size = address, size


class HostMemory:
    """Base class of host memories; reads of chosen ranges fail for the device.

    `on_write` is None or a function that is called as on_write(address, data) after each write.
    Subclasses implement `peek` and `poke`.
    """

    def __init__(self) -> None:
        self._failing: list[tuple[int, int]] = []
        self.on_write: Callable[[int, bytes], object] | None = None

    def read(self, address: int, size: int) -> bytes:
        """Returns bytes as a device reads them; raises HostReadError in a failing range."""
        if self._failing:
            end = address + size
            for start, stop in self._failing:
                if address < stop and start < end:
                    raise HostReadError(address, size)
        return self.peek(address, size)

    def write(self, address: int, data: bytes) -> None:
        """Stores bytes, then calls on_write(address, data) if set."""
        self.poke(address, data)
        if self.on_write is not None:
            self.on_write(address, data)

    def fail(self, address: int, size: int) -> None:
        """Makes every device read that touches the range fail until heal()."""
        self._failing.append((address, address + size))

    def heal(self) -> None:
        """Removes all injected failures."""
        self._failing.clear()

    def peek(self, address: int, size: int) -> bytes:
        """Returns bytes without failures."""
        raise NotImplementedError

    def poke(self, address: int, data: bytes) -> None:
        """Stores bytes without a call of on_write."""
        raise NotImplementedError


class Memory(HostMemory):
    """Sparse host memory: the first write allocates a page, all other addresses read as zero."""

    def __init__(self) -> None:
        super().__init__()
        self._pages: dict[int, bytearray] = {}

    def peek(self, address: int, size: int) -> bytes:
        start = address & _IN_PAGE
        if start + size <= PAGE_BYTES:
            page = self._pages.get((address & _ADDRESS_MASK) >> _PAGE_SHIFT)
            return bytes(size) if page is None else bytes(memoryview(page)[start : start + size])
        head = PAGE_BYTES - start
        return self.peek(address, head) + b"".join(
            self.peek(address + done, min(PAGE_BYTES, size - done))
            for done in range(head, size, PAGE_BYTES)
        )

    def poke(self, address: int, data: bytes) -> None:
        start, size = address & _IN_PAGE, len(data)
        if start + size > PAGE_BYTES:
            head = PAGE_BYTES - start
            self.poke(address, data[:head])
            for done in range(head, size, PAGE_BYTES):
                self.poke(address + done, data[done : done + PAGE_BYTES])
            return
        number = (address & _ADDRESS_MASK) >> _PAGE_SHIFT
        page = self._pages.get(number)
        if page is None:
            page = self._pages[number] = bytearray(PAGE_BYTES)
        page[start : start + size] = data

    def pages(self) -> list[int]:
        """Returns the addresses of all pages ever written, ascending."""
        return [number << _PAGE_SHIFT for number in sorted(self._pages)]


class BufferMemory(HostMemory):
    """A window of host memory on a buffer with another owner, such as a simulator."""

    def __init__(self, buffer: bytearray | memoryview, base: int = 0) -> None:
        super().__init__()
        self._view = memoryview(buffer).cast("B")
        self._base = base

    def _place(self, address: int, size: int) -> slice:
        start = address - self._base
        if start < 0 or start + size > len(self._view):
            raise IndexError(f"{size} bytes at {address:#x} are outside this memory, which has "
                             f"{len(self._view)} bytes at {self._base:#x}")
        return slice(start, start + size)

    def peek(self, address: int, size: int) -> bytes:
        return bytes(self._view[self._place(address, size)])

    def poke(self, address: int, data: bytes) -> None:
        self._view[self._place(address, len(data))] = data
