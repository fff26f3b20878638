# SPDX-License-Identifier: Apache-2.0
"""Derives the expected effects of a session step and compares them with the device's output.

Writes are compared as assembled entries, independent of how they are split. Each host ring is a
region of slots; writes elsewhere are payload.
"""

from collections import Counter
from dataclasses import dataclass, field

from efa_cosim.layouts import defs

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
    def end(self):
        """First address after the ring."""
        return self.base + self.entry_bytes * self.count


@dataclass(slots=True)
class Slot:
    """One entry: its bytes, the offsets not yet written, and its first line in the session."""

    region: Region
    address: int
    line: int | None = None
    image: bytearray = None
    missing: set = None

    def __post_init__(self):
        self.image = bytearray(self.region.entry_bytes)
        self.missing = set(range(self.region.entry_bytes))

    def put(self, at, data):
        """Adds written bytes."""
        self.image[at : at + len(data)] = data
        self.missing.difference_update(range(at, at + len(data)))


class Regions:
    """The current rings, by address."""

    def __init__(self):
        self._regions = []

    def add(self, region):
        """Adds a ring; an older overlapping ring is removed."""
        self._regions = [r for r in self._regions if r.end <= region.base or region.end <= r.base]
        self._regions.append(region)

    def remove(self, kind, tag=None):
        """Removes all rings of a kind, or the one with the tag."""
        self._regions = [r for r in self._regions
                         if r.kind != kind or (tag is not None and r.tag != tag)]

    def clear(self):
        """Removes all rings."""
        self._regions = []

    def split(self, address, data):
        """Splits a write into (region, slot address, offset in slot, bytes); region may be None."""
        while data:
            region = next((r for r in self._regions if r.base <= address < r.end), None)
            if region is None:
                ahead = [r.base - address for r in self._regions
                         if address < r.base < address + len(data)]
                take = min(ahead, default=len(data))
                yield None, address, 0, data[:take]
            else:
                at = (address - region.base) % region.entry_bytes
                take = min(len(data), region.entry_bytes - at)
                yield region, address - at, at, data[:take]
            address, data = address + take, data[take:]


@dataclass
class Payload:
    """Payload bytes that must be written to host memory."""

    line: int
    address: int
    data: bytes
    left: int = 0

    def __post_init__(self):
        self.left = len(self.data)


@dataclass
class Expectation:
    """All expected effects of one step."""

    slots: dict = field(default_factory=dict)
    payload: list = field(default_factory=list)
    interrupts: Counter = field(default_factory=Counter)

    def __bool__(self):
        return bool(self.slots or self.payload or self.interrupts)


def expect(step, regions, wanted, admin_vector):
    """The expected effects of a step; `wanted(kind, vector)` is false for what is not played."""
    result = Expectation()
    happened = sorted(
        [(line, address, data) for line, address, data in step.writes]
        + [(line, vector, None) for line, vector in step.interrupts],
        key=lambda item: item[0])
    last_kind = None
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


def _field_mask(layout, size, paths):
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


def completion_matches(expected, came):
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


def decode_completion(image):
    """A CQE as readable text."""
    common = defs.IoCdescCommon.unpack(image)
    if common.q_type == defs.IoQueueType.RECV_QUEUE:
        return repr(defs.IoRxCdesc.unpack(image))
    return repr(defs.IoTxCdesc.unpack(image))
