# SPDX-License-Identifier: Apache-2.0
"""Splits DMA writes of a device at the entries of the host rings.

Each host ring is a region of slots. Entries are assembled from the writes, independent of how they
are split; writes elsewhere are payload.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

REGISTER_RESPONSE = "register response"
ADMIN_RESPONSE = "admin response"
ASYNC_EVENT = "asynchronous event"
COMPLETION = "completion"
EVENT = "completion event"


@dataclass(frozen=True)
class Region:
    """A ring in host memory that the device writes; `tag` identifies one of several of a kind."""

    kind: str
    base: int
    entry_bytes: int
    count: int
    tag: object = None

    @property
    def end(self) -> int:
        """First address after the ring."""
        return self.base + self.entry_bytes * self.count


class Part(NamedTuple):
    """Bytes of a write from `offset` in the entry at address `slot` of a ring; without a ring,
    `slot` is their own address."""

    region: Region | None
    slot: int
    offset: int
    data: bytes


@dataclass(slots=True)
class Slot:
    """One entry: its bytes, the offsets not yet written, and its first line in the session.

    `line` is 0 for an entry that the current device writes.
    """

    region: Region
    address: int
    line: int = 0
    image: bytearray = field(init=False)
    missing: set[int] = field(init=False)

    def __post_init__(self) -> None:
        self.image = bytearray(self.region.entry_bytes)
        self.missing = set(range(self.region.entry_bytes))

    def put(self, at: int, data: bytes) -> None:
        """Adds written bytes."""
        self.image[at : at + len(data)] = data
        self.missing.difference_update(range(at, at + len(data)))


class Regions:
    """The current rings, by address."""

    def __init__(self) -> None:
        self._regions: list[Region] = []

    def add(self, region: Region) -> None:
        """Adds a ring; an older overlapping ring is removed."""
        self._regions = [r for r in self._regions if r.end <= region.base or region.end <= r.base]
        self._regions.append(region)

    def remove(self, kind: str, tag: object = None) -> None:
        """Removes all rings of a kind, or the one with the tag."""
        self._regions = [r for r in self._regions
                         if r.kind != kind or (tag is not None and r.tag != tag)]

    def clear(self) -> None:
        """Removes all rings."""
        self._regions = []

    def split(self, address: int, data: bytes) -> Iterator[Part]:
        """Splits a write at the entries of the rings."""
        while data:
            region = next((r for r in self._regions if r.base <= address < r.end), None)
            if region is None:
                ahead = [r.base - address for r in self._regions
                         if address < r.base < address + len(data)]
                take = min(ahead, default=len(data))
                yield Part(None, address, 0, data[:take])
            else:
                at = (address - region.base) % region.entry_bytes
                take = min(len(data), region.entry_bytes - at)
                yield Part(region, address - at, at, data[:take])
            address, data = address + take, data[take:]


def ring_address(words: Any) -> int:
    """Returns the base address of a ring from its field of an admin command."""
    return int(words.mem_addr_high) << 32 | int(words.mem_addr_low)
