# SPDX-License-Identifier: Apache-2.0
"""Derives the expected effects of a session step and compares them with the device's output.

Writes are compared as assembled entries, independent of how they are split. Each host ring is a
region of slots; writes elsewhere are payload.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from efa_cosim.layouts import defs

if TYPE_CHECKING:
    from efa_cosim.layouts.layout import Bytes, Struct
    from efa_cosim.session.recording import Step

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


@dataclass
class Payload:
    """Payload bytes that must be written to host memory."""

    line: int
    address: int
    data: bytes
    left: int = 0

    def __post_init__(self) -> None:
        self.left = len(self.data)


@dataclass
class Expectation:
    """All expected effects of one step."""

    slots: dict[int, Slot] = field(default_factory=dict)
    payload: list[Payload] = field(default_factory=list)
    interrupts: Counter[int] = field(default_factory=Counter)

    def __bool__(self) -> bool:
        return bool(self.slots or self.payload or self.interrupts)


def expect(
    step: Step,
    regions: Regions,
    wanted: Callable[[str | None, int | None], bool],
    admin_vector: int,
) -> Expectation:
    """The expected effects of a step; `wanted(kind, vector)` is false for what is not played."""
    result = Expectation()
    # Writes, and interrupts without bytes.
    happened: list[tuple[int, int, bytes | None]] = [*step.writes]
    happened += [(line, vector, None) for line, vector in step.interrupts]
    happened.sort(key=lambda item: item[0])
    last_kind: str | None = None
    for line, where, data in happened:
        if data is None:
            own_clock = where == admin_vector and last_kind == ASYNC_EVENT
            if not own_clock and wanted(None, where):
                result.interrupts[where] += 1
            last_kind = None
            continue
        for region, address, at, part in regions.split(where, data):
            last_kind = region.kind if region else None
            if region is None:
                if wanted(None, None):
                    result.payload.append(Payload(line, address, part))
            elif region.kind != ASYNC_EVENT and wanted(region.kind, None):
                slot = result.slots.setdefault(address, Slot(region, address, line))
                slot.put(at, part)
    return result


def _field_mask(layout: type[Struct], size: int, paths: Iterable[str]) -> int:
    """A mask of the named fields of a layout as a number; dots in a path descend."""
    image = bytearray(size)
    for path in paths:
        cls, base = layout, 0
        *outer, last = path.split(".")
        for name in outer:
            base += cls.FIELDS[name].offset
            cls = cls.FIELDS[name].cls
        attribute = cls.FIELDS[last]
        start = base + attribute.offset
        image[start : start + attribute.size] = b"\xff" * attribute.size
    return int.from_bytes(image, "little")


_COMMON = ("base.common.req_id", "base.common.status", "base.common.flags", "base.common.qp_num")
_ENTRY = defs.IoRxCdescEx
_SEND_MASK = _field_mask(_ENTRY, _ENTRY.SIZE, _COMMON) | _field_mask(
    defs.IoTxCdesc, _ENTRY.SIZE, ("req_id_ex",))
_RECEIVE_MASK = _field_mask(
    _ENTRY, _ENTRY.SIZE, (*_COMMON, "base.length", "base.src_qp_num", "base.imm"))
_WIDE_MASK = _RECEIVE_MASK | _field_mask(_ENTRY, _ENTRY.SIZE, ("u.rdma_write.length_hi",))


def completion_matches(expected: Bytes, came: Bytes) -> bool:
    """True if two CQEs agree in all compared fields."""
    entry = _ENTRY.unpack(bytes(expected).ljust(_ENTRY.SIZE, b"\0"))
    common = entry.base.common
    if common.q_type != defs.IoQueueType.RECV_QUEUE:
        mask = _SEND_MASK
    else:
        write = common.op_type == defs.IoSendOpType.RDMA_WRITE
        mask = _WIDE_MASK if write else _RECEIVE_MASK
    difference = int.from_bytes(expected, "little") ^ int.from_bytes(came, "little")
    return not difference & mask


def decode_completion(image: Bytes) -> str:
    """A CQE as readable text."""
    common = defs.IoCdescCommon.unpack(image)
    if common.q_type == defs.IoQueueType.RECV_QUEUE:
        return repr(defs.IoRxCdesc.unpack(image))
    return repr(defs.IoTxCdesc.unpack(image))
