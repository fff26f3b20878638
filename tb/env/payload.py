# SPDX-License-Identifier: Apache-2.0
"""Compares the payload that the device writes with the predictor's: same addresses, same bytes.

A device may split a message at any byte. Messages to the same address keep their order within a
queue. Bytes count as written after their comparison.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import chain


class Message:
    """Bytes of one received message: `left` are those that the device has not written.

    `shown` is the cycle in which an acknowledgement has shown that they are written, if any.
    """

    __slots__ = ("left", "shown")

    def __init__(self) -> None:
        self.left = 0
        self.shown: int | None = None


class Joined:
    """The messages that one completion reports: the responses of a read."""

    def __init__(self) -> None:
        self.parts: list[Message] = []

    @property
    def left(self) -> int:
        """Returns how many of their bytes the device has not written."""
        return sum(part.left for part in self.parts)


class Piece:
    """A host memory range, its expected bytes, and the `message` that they belong to, if any."""

    __slots__ = ("address", "data", "message")

    def __init__(self, address: int, data: bytes, message: Message | None) -> None:
        self.address, self.data, self.message = address, data, message


class DuePayload:
    """All outstanding pieces of one device, by start address."""

    def __init__(self) -> None:
        self._by_address: dict[int, deque[Piece]] = {}

    def __iter__(self) -> Iterator[Piece]:
        return chain.from_iterable(self._by_address.values())

    def clear(self) -> None:
        """Drops all outstanding pieces."""
        self._by_address.clear()

    def add(self, address: int, data: bytes, message: Message | None = None) -> None:
        """Adds bytes that the predictor wrote."""
        if message is not None:
            message.left += len(data)
        self._put(Piece(address, data, message))

    def _put(self, piece: Piece, first: bool = False) -> None:
        queue = self._by_address.setdefault(piece.address, deque())
        (queue.appendleft if first else queue.append)(piece)

    def write(self, address: int, data: bytes, begun: int = 0) -> None:
        """Removes bytes that the device wrote, from the cycle `begun` on.

        Raises ValueError if they are not due, or if an acknowledgement came first.
        """
        while data:
            piece = self._find(address, data)
            size = min(len(piece.data), len(data))
            self._by_address[address].remove(piece)
            if not self._by_address[address]:
                del self._by_address[address]
            message = piece.message
            if message is not None:
                message.left -= size
                if message.shown is not None and begun > message.shown:
                    raise ValueError(
                        f"payload at {address:#x}\n  expected its write before its "
                        f"acknowledgement in cycle {message.shown}\n  got      the write later"
                    )
            if size < len(piece.data):
                self._put(Piece(address + size, piece.data[size:], piece.message), first=True)
            address, data = address + size, data[size:]

    def _find(self, address: int, data: bytes) -> Piece:
        """Returns the oldest piece at an address that holds these bytes."""
        queue = self._by_address.get(address)
        if queue is None:
            queue = self._split(address)
        for piece in queue:
            size = min(len(piece.data), len(data))
            if piece.data[:size] == data[:size]:
                return piece
        piece = queue[0]
        size = min(len(piece.data), len(data))
        at = next(n for n in range(size) if piece.data[n] != data[n])
        raise ValueError(
            f"payload at {address + at:#x}\n"
            f"  expected {piece.data[at : at + 32].hex()}\n  got      {data[at : at + 32].hex()}"
        )

    def _split(self, address: int) -> deque[Piece]:
        """Splits the pieces that enclose `address` so that a piece starts there."""
        around = [
            piece for piece in self if piece.address < address < piece.address + len(piece.data)
        ]
        if not around:
            raise ValueError(f"write at {address:#x}\n  expected nothing there")
        for piece in around:
            at = address - piece.address
            self._put(Piece(address, piece.data[at:], piece.message))
            piece.data = piece.data[:at]
        return self._by_address[address]
