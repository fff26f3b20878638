# SPDX-License-Identifier: Apache-2.0
"""Collects all output of a device during a session and compares the output of two devices.

Rules of the comparison, where timing is free:

- register responses: all, in order; of repeated reads of DEV_STS during a reset, the last;
- rings: entry n of a ring is in the same slot with the same phase. Admin responses agree per
  command id (they may pass each other), completions per queue pair and direction in order (SRD
  sends in any order: acknowledgements may pass each other), events per CQ;
- payload: every byte of host memory is written equally often, with the same values in the same
  order. The split into writes and the order of addresses are free;
- packets: per opcode, sender and receiver in order, except psn, msg_id and path, which the device
  chooses (decision 0002). The psn of SRD increments by one per destination node;
- interrupts: the number per vector. The player waits at each recorded step for all its effects, so
  the recording determines which events share a message;
- host memory at the end: every page that host or device wrote, byte for byte, except rings, which
  are compared per entry.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from efa_cosim.layouts import defs
from efa_cosim.session.regions import (
    ADMIN_RESPONSE,
    COMPLETION,
    EVENT,
    REGISTER_RESPONSE,
    Part,
    Region,
)
from efa_cosim.session.text import first_bytes

if TYPE_CHECKING:
    from efa_cosim.boundary.memory import CpuMemory

PAGE_BYTES = 4096
SHOWN_BYTES = 16
_PHASE_AT = {ADMIN_RESPONSE: 3, COMPLETION: 3, EVENT: 0}
_RESPONSE = defs.AdminMmioReqReadLessResp


class _Entry(NamedTuple):
    """Bytes that the device wrote, and the session line at which they were collected."""

    line: int
    address: int
    image: bytes


class _Place(NamedTuple):
    """A ring; `earlier` counts the earlier rings of that kind at that base."""

    kind: str
    base: int
    earlier: int


class _Value(NamedTuple):
    """A value to compare, and the session line at which it was collected."""

    line: int
    value: bytes | str


class _Packet(NamedTuple):
    """A transmitted packet, and the session line at which it was collected."""

    line: int
    image: bytes


class Outputs:
    """Output of one device; `line` is the session line at which it was collected."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.writes = 0
        self.responses: list[_Entry] = []
        self.rings: dict[int, tuple[_Place, list[_Entry]]] = {}
        self.payload: defaultdict[int, bytearray] = defaultdict(bytearray)
        self.packets: list[_Packet] = []
        self.interrupts: Counter[int] = Counter()
        self.memory: dict[int, bytes] = {}
        self._touched: set[int] = set()
        self._regions: list[Region] = []

    def write(self, line: int, address: int, data: bytes, parts: Iterable[Part]) -> None:
        """Adds a DMA write; `parts` is its split by Regions.split."""
        self.writes += 1
        self.touch(address, len(data))
        for part in parts:
            if part.region is None:
                for number, value in enumerate(part.data, part.slot):
                    self.payload[number].append(value)
                continue
            entry = _Entry(line, part.slot + part.offset, bytes(part.data))
            if part.region.kind == REGISTER_RESPONSE:
                self._respond(entry)
            else:
                self._ring(part.region).append(entry)

    def touch(self, address: int, size: int) -> None:
        """Marks a range written by host or device, for the comparison at the end."""
        self._touched.update(range(address // PAGE_BYTES, (address + size - 1) // PAGE_BYTES + 1))

    def packet(self, line: int, packet: bytes) -> None:
        """Adds a transmitted packet."""
        self.packets.append(_Packet(line, bytes(packet)))

    def interrupt(self, vector: int) -> None:
        """Adds an MSI-X message."""
        self.interrupts[vector] += 1

    def finish(self, memory: CpuMemory) -> None:
        """Copies the marked pages of host memory, without the rings."""
        for number in sorted(self._touched):
            base = number * PAGE_BYTES
            image = bytearray(memory.read(base, PAGE_BYTES))
            for region in self._regions:
                first, end = max(region.base, base), min(region.end, base + PAGE_BYTES)
                if first < end:
                    image[first - base : end - base] = bytes(end - first)
            self.memory[base] = bytes(image)

    def counts(self) -> dict[str, int]:
        """The number of DMA writes, packets and interrupts to compare."""
        return {"dma_writes": self.writes, "packets": len(self.packets),
                "interrupts": self.interrupts.total()}

    def _respond(self, response: _Entry) -> None:
        last = self.responses[-1] if self.responses else None
        whole = len(response.image) == _RESPONSE.SIZE
        if last is not None and last.address == response.address and whole:
            before, now = (_RESPONSE.unpack(one.image) for one in (last, response))
            if (before.req_id, before.reg_off) == (now.req_id, defs.Reg.DEV_STS):
                self.responses.pop()
        self.responses.append(response)

    def _ring(self, region: Region) -> list[_Entry]:
        """Entries of a ring; a new ring at the same address is a separate ring."""
        known = next((at for at, one in enumerate(self._regions) if one is region), None)
        if known is None:
            known = len(self._regions)
            self._regions.append(region)
            same = sum(one.base == region.base and one.kind == region.kind
                       for one in self._regions)
            self.rings[known] = _Place(region.kind, region.base, same), []
        return self.rings[known][1]


def differences(wanted: Outputs, came: Outputs) -> list[str]:
    """Texts of the first difference of each kind, with place and both values."""
    checks = (_responses, _rings, _payload, _packets, _psn, _interrupts, _memory)
    found = (check(wanted, came) for check in checks)
    return [text for text in found if text is not None]


def _reported(what: str, wanted: Outputs, value: object, came: Outputs, other: object) -> str:
    return f"{what}: {wanted.name} {_shown(value)}, {came.name} {_shown(other)}"


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    return first_bytes(value, SHOWN_BYTES) if isinstance(value, bytes) else str(value)


def _in_order(
    what: str,
    wanted: Outputs,
    came: Outputs,
    first: Sequence[_Value],
    second: Sequence[_Value],
) -> str | None:
    """The first difference of two lists, as text."""
    for number, (a, b) in enumerate(zip_longest(first, second)):
        if a is not None and b is not None and a.value == b.value:
            continue
        where = f"{what} {number}, session line {(a or b).line}"
        left, right = (None if one is None else one.value for one in (a, b))
        if isinstance(left, bytes) and isinstance(right, bytes):
            at, left, right = _from_first_byte(left, right)
            where += f", byte {at}"
        return _reported(where, wanted, left, came, right)
    return None


def _from_first_byte(first: bytes, second: bytes) -> tuple[int, bytes, bytes]:
    """Offset of the first differing byte, and both images from there on."""
    at = next((i for i, (x, y) in enumerate(zip(first, second, strict=False)) if x != y),
              min(len(first), len(second)))
    return at, first[at:], second[at:]


def _responses(wanted: Outputs, came: Outputs) -> str | None:
    addresses = [[_Value(entry.line, hex(entry.address)) for entry in one.responses]
                 for one in (wanted, came)]
    images = [[_Value(entry.line, entry.image) for entry in one.responses]
              for one in (wanted, came)]
    return (_in_order("address of register response", wanted, came, *addresses)
            or _in_order("register response", wanted, came, *images))


def _rings(wanted: Outputs, came: Outputs) -> str | None:
    rings = [dict(one.rings.values()) for one in (wanted, came)]
    srd = _srd_senders(wanted) | _srd_senders(came)
    for place in sorted(rings[0].keys() | rings[1].keys()):
        kind, base = place.kind, place.base
        entries = [one.get(place, []) for one in rings]
        if len(entries[0]) != len(entries[1]):
            return _reported(f"number of entries of {kind} ring {base:#x}", wanted, len(entries[0]),
                         came, len(entries[1]))
        slots = [[_Value(entry.line, _slot(kind, entry)) for entry in some] for some in entries]
        text = _in_order(f"{kind} ring {base:#x}: slot and phase of entry", wanted, came, *slots)
        sorted_by = [_by_owner(kind, some, srd) for some in entries]
        for owner in sorted(sorted_by[0].keys() | sorted_by[1].keys(), key=repr):
            text = text or _in_order(f"{kind} ring {base:#x}: entry of {owner}", wanted, came,
                                     *(some.get(owner, []) for some in sorted_by))
        if text is not None:
            return text
    return None


def _srd_senders(outputs: Outputs) -> set[int]:
    heads = (defs.PktHdr.unpack(packet.image) for packet in outputs.packets)
    return {head.src_qpn for head in heads if head.opcode == defs.PktOpcode.SRD_SEND}


def _slot(kind: str, entry: _Entry) -> str:
    phase_at, image = _PHASE_AT.get(kind), entry.image
    phase = image[phase_at] & 1 if phase_at is not None and len(image) > phase_at else 0
    return f"{entry.address:#x}, {len(image)} bytes, phase {phase}"


def _by_owner(
    kind: str, entries: Iterable[_Entry], srd: set[int]
) -> defaultdict[str, list[_Value]]:
    """Entries without phase and checksum, grouped by their owner."""
    found: defaultdict[str, list[_Value]] = defaultdict(list)
    for entry in entries:
        image = bytearray(entry.image)
        if kind in _PHASE_AT and len(image) > _PHASE_AT[kind]:
            image[_PHASE_AT[kind]] &= 0xFE
        owner = "the ring"
        if kind == ADMIN_RESPONSE and len(image) == defs.AdminAcqEntry.SIZE:
            # The checksum covers the phase; the player has already checked it.
            response = defs.AdminAcqCommonDesc.over(image)
            response.checksum = 0
            owner = f"command {response.command_id:#x}"
        elif kind == COMPLETION and len(image) >= defs.IoCdescCommon.SIZE:
            head = defs.IoCdescCommon.unpack(image)
            sends = head.q_type != defs.IoQueueType.RECV_QUEUE
            owner = f"queue pair {head.qp_num:#x}, {'sends' if sends else 'receives'}"
            if sends and head.qp_num in srd:
                owner += f", {bytes(image).hex()}"
        elif kind == EVENT and len(image) == defs.AdminEqe.SIZE:
            owner = f"CQ {defs.AdminEqe.unpack(image).u.comp_event.cqn}"
        found[owner].append(_Value(entry.line, bytes(image)))
    return found


def _payload(wanted: Outputs, came: Outputs) -> str | None:
    for address in sorted(wanted.payload.keys() | came.payload.keys()):
        first, second = (bytes(one.payload.get(address, b"")) for one in (wanted, came))
        if first != second:
            at, first, second = _from_first_byte(first, second)
            return _reported(f"payload byte at {address:#x}, write {at}", wanted, first or None,
                         came, second or None)
    return None


def _packets(wanted: Outputs, came: Outputs) -> str | None:
    queues = []
    for one in (wanted, came):
        # By opcode, sender, and node and number of the receiver.
        by_queue: defaultdict[tuple[int, int, int, int], list[_Value]] = defaultdict(list)
        for packet in one.packets:
            image = bytearray(packet.image)
            head = defs.PktHdr.over(image)
            head.psn = head.msg_id = head.path = 0
            key = int(head.opcode), head.src_qpn, head.dst_node, head.dst_qpn
            by_queue[key].append(_Value(packet.line, bytes(image)))
        queues.append(by_queue)
    for key in sorted(queues[0].keys() | queues[1].keys()):
        opcode, source, node, target = key
        text = _in_order(f"packet (opcode {opcode}, queue pair {source:#x} to {target:#x} of node "
                         f"{node})", wanted, came, *(one.get(key, []) for one in queues))
        if text is not None:
            return text
    return None


def _psn(wanted: Outputs, came: Outputs) -> str | None:
    for one in (wanted, came):
        following: dict[int, int] = {}
        for packet in one.packets:
            head = defs.PktHdr.unpack(packet.image)
            if head.opcode != defs.PktOpcode.SRD_SEND:
                continue
            due = following.get(head.dst_node, 0)
            # The psn restarts after a reset.
            if head.psn not in (due, 0):
                return (f"psn to node {head.dst_node}, session line {packet.line}: {one.name} "
                        f"{head.psn}, expected {due}")
            following[head.dst_node] = head.psn + 1 & 0xFFFFFFFF
    return None


def _interrupts(wanted: Outputs, came: Outputs) -> str | None:
    for vector in sorted(wanted.interrupts.keys() | came.interrupts.keys()):
        if wanted.interrupts[vector] != came.interrupts[vector]:
            return _reported(f"interrupts of vector {vector}", wanted, wanted.interrupts[vector],
                         came, came.interrupts[vector])
    return None


def _memory(wanted: Outputs, came: Outputs) -> str | None:
    for base in sorted(wanted.memory.keys() | came.memory.keys()):
        first, second = (one.memory.get(base) for one in (wanted, came))
        if first == second:
            continue
        if first is None or second is None:
            return _reported(f"host memory page {base:#x} was written by one device only", wanted,
                         first, came, second)
        at, first, second = _from_first_byte(first, second)
        return _reported(f"host memory at the end, {base + at:#x}", wanted, first, came, second)
    return None
