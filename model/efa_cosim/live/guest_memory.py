# SPDX-License-Identifier: Apache-2.0
"""Memory of a client that the device reads and writes; access to any other address fails."""

from __future__ import annotations

import fcntl
import mmap
import os
from bisect import bisect_right, insort
from collections.abc import Callable
from typing import NamedTuple, Protocol

from efa_cosim.boundary.memory import HostMemory, HostReadError

ADDRESSES = 1 << 64
WORD_BYTES = 8
MOST_RANGES = (1 << 16) - 1


class MapError(Exception):
    """A range cannot be mapped or unmapped; the text names range and reason."""


class MapExists(MapError):
    """The range overlaps a mapped range."""


class _Bytes(Protocol):
    """Content of a range, from its first byte."""

    def read(self, offset: int, size: int) -> bytes: ...

    def write(self, offset: int, data: bytes) -> None: ...

    def close(self) -> None: ...


class _Mapped:
    """A range in a file that cannot shrink, in the address space of this process."""

    def __init__(self, fd: int, offset: int, size: int, writable: bool) -> None:
        access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        # The offset of a range is a multiple of a page of the client, which may be smaller.
        start = offset - offset % mmap.ALLOCATIONGRANULARITY
        self._map = mmap.mmap(fd, size + offset - start, mmap.MAP_SHARED, access, offset=start)
        self._start = offset - start

    def read(self, offset: int, size: int) -> bytes:
        at = self._start + offset
        return self._map[at : at + size]

    def write(self, offset: int, data: bytes) -> None:
        # A guest polls the phase in the first word of an entry: that word becomes visible last.
        at, first = self._start + offset, min(WORD_BYTES, len(data))
        self._map[at + first : at + len(data)] = data[first:]
        self._map[at : at + first] = data[:first]

    def close(self) -> None:
        self._map.close()


class _File:
    """A range in a file that its owner may shrink: a mapping would end this process then."""

    def __init__(self, fd: int, offset: int) -> None:
        self._fd, self._offset = os.dup(fd), offset

    def read(self, offset: int, size: int) -> bytes:
        data = os.pread(self._fd, size, self._offset + offset)
        return data + bytes(size - len(data))

    def write(self, offset: int, data: bytes) -> None:
        at, first = self._offset + offset, min(WORD_BYTES, len(data))
        if data[first:]:
            os.pwrite(self._fd, data[first:], at + first)
        os.pwrite(self._fd, data[:first], at)

    def close(self) -> None:
        os.close(self._fd)


class Range(NamedTuple):
    """A mapped range: bus address, size in bytes, access of the device, content."""

    address: int
    size: int
    readable: bool
    writable: bool
    content: _Bytes | None

    @property
    def end(self) -> int:
        """The address after the last byte."""
        return self.address + self.size


class _Piece(NamedTuple):
    """Bytes of one mapped range, from an offset in its content."""

    content: _Bytes
    offset: int
    size: int


class GuestMemory(HostMemory):
    """Host memory of a function: the ranges that its client maps.

    A read outside raises HostReadError, as on a bus. A write outside is dropped. A range without a
    file descriptor is outside. Attributes: `failed_reads` and `dropped_writes`, their numbers, and
    `first_failure`, a text, empty before; `on_read` is None or called as on_read(address, data)
    after each read.
    """

    def __init__(self) -> None:
        super().__init__()
        self.on_read: Callable[[int, bytes], object] | None = None
        self._ranges: list[Range] = []
        self.clear()

    def clear(self) -> None:
        """Unmaps everything and sets the counts to zero."""
        for one in self._ranges:
            if one.content is not None:
                one.content.close()
        self._ranges = []
        self.failed_reads = self.dropped_writes = 0
        self.first_failure = ""

    def map(
        self, address: int, size: int, fd: int | None, offset: int = 0, *, readable: bool = True,
        writable: bool = True,
    ) -> None:
        """Maps `size` bytes at a bus address to a file from `offset` on; `fd` stays the caller's.

        Raises MapExists if the range overlaps another, and MapError.
        """
        if not size or address + size > ADDRESSES:
            raise MapError(f"map of {size:#x} bytes at {address:#x}; expected at least one byte, "
                           "all below 2^64")
        if len(self._ranges) == MOST_RANGES:
            raise MapError(f"more than {MOST_RANGES} ranges are mapped")
        at = bisect_right(self._ranges, address, key=lambda one: one.address)
        near = self._ranges[max(0, at - 1) : at + 1]
        if any(one.address < address + size and address < one.end for one in near):
            raise MapExists(f"map of {size:#x} bytes at {address:#x}: the range overlaps one that "
                            "is mapped")
        content = None if fd is None else _content(fd, offset, size, writable)
        insort(self._ranges, Range(address, size, readable, writable, content),
               key=lambda one: one.address)

    def unmap(self, address: int, size: int) -> None:
        """Unmaps a range that was mapped with this address and size; raises MapError otherwise."""
        for at, one in enumerate(self._ranges):
            if (one.address, one.size) == (address, size):
                del self._ranges[at]
                if one.content is not None:
                    one.content.close()
                return
        raise MapError(f"unmap of {size:#x} bytes at {address:#x}: no range was mapped with this "
                       "address and size")

    def read(self, address: int, size: int) -> bytes:
        """Returns bytes as the device reads them; raises HostReadError outside."""
        try:
            data = self.peek(address, size)
        except HostReadError:
            self.failed_reads += 1
            self._note("read", address, size)
            raise
        if self.on_read is not None:
            self.on_read(address, data)
        return data

    def peek(self, address: int, size: int) -> bytes:
        """Returns bytes as `read` does, uncounted."""
        pieces = self._pieces(address, size, writes=False)
        if pieces is None:
            raise HostReadError(address, size)
        return b"".join(content.read(offset, length) for content, offset, length in pieces)

    def write(self, address: int, data: bytes) -> None:
        """Stores bytes as the device writes them; a write outside is dropped as a whole."""
        pieces = self._pieces(address, len(data), writes=True)
        if pieces is None:
            self.dropped_writes += 1
            self._note("write", address, len(data))
            return
        # The last piece first: the first word of an entry becomes visible last.
        at = len(data)
        for content, offset, length in reversed(pieces):
            at -= length
            content.write(offset, data[at : at + length])
        if self.on_write is not None:
            self.on_write(address, data)

    def _pieces(self, address: int, size: int, writes: bool) -> list[_Piece] | None:
        """Returns the pieces of a range, None if a byte is outside."""
        pieces = []
        while size:
            at = bisect_right(self._ranges, address, key=lambda one: one.address) - 1
            if at < 0:
                return None
            found = self._ranges[at]
            granted = found.writable if writes else found.readable
            if address >= found.end or found.content is None or not granted:
                return None
            length = min(size, found.end - address)
            pieces.append(_Piece(found.content, address - found.address, length))
            address, size = address + length, size - length
        return pieces

    def _note(self, what: str, address: int, size: int) -> None:
        self.first_failure = self.first_failure or f"{what} of {size} bytes at {address:#x}"


def _content(fd: int, offset: int, size: int, writable: bool) -> _Bytes:
    """Opens the content of a range; raises MapError."""
    try:
        length = os.fstat(fd).st_size
        if offset + size > length:
            raise MapError(f"map of {size:#x} bytes at offset {offset:#x} of a file that has "
                           f"{length:#x} bytes")
        return _Mapped(fd, offset, size, writable) if _cannot_shrink(fd) else _File(fd, offset)
    except (OSError, ValueError, OverflowError) as error:
        raise MapError(f"map of {size:#x} bytes: {error}") from None


def _cannot_shrink(fd: int) -> bool:
    """Returns True for a memfd whose owner gave up the right to shrink it, as QEMU does."""
    try:
        return bool(fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK)
    except OSError:
        return False
