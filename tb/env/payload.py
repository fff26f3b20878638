# SPDX-License-Identifier: Apache-2.0
"""Payload that the predictor wrote and the device has to write: same places, same bytes.

A device may cut a message where it likes; messages that meet the same address keep their order
within a queue. Bytes count as written once they were compared.
"""

from collections import deque
from itertools import chain


class Message:
    """Bytes of one received message that the device has not written."""

    __slots__ = ("left",)

    def __init__(self):
        self.left = 0


class Piece:
    """A range of host memory and what must be written there, by `message` if by any."""

    __slots__ = ("address", "data", "message")

    def __init__(self, address, data, message):
        self.address, self.data, self.message = address, data, message


class DuePayload:
    """All pieces of one device that are due, by the address at which each begins."""

    def __init__(self):
        self._by_address = {}

    def __iter__(self):
        return chain.from_iterable(self._by_address.values())

    def clear(self):
        """Nothing is due any more."""
        self._by_address.clear()

    def add(self, address, data, message=None):
        """The predictor wrote these bytes."""
        if message is not None:
            message.left += len(data)
        self._put(Piece(address, data, message))

    def _put(self, piece, first=False):
        queue = self._by_address.setdefault(piece.address, deque())
        (queue.appendleft if first else queue.append)(piece)

    def write(self, address, data):
        """The device wrote these bytes; ValueError where they are not due."""
        while data:
            piece = self._find(address, data)
            size = min(len(piece.data), len(data))
            self._by_address[address].remove(piece)
            if not self._by_address[address]:
                del self._by_address[address]
            if piece.message is not None:
                piece.message.left -= size
            if size < len(piece.data):
                self._put(Piece(address + size, piece.data[size:], piece.message), first=True)
            address, data = address + size, data[size:]

    def _find(self, address, data):
        """The oldest piece at an address whose bytes these are."""
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

    def _split(self, address):
        """Cuts the pieces around an address where nothing begins, so that they begin there."""
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
