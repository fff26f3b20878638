# SPDX-License-Identifier: Apache-2.0
"""Compares ring entries that the device wrote with recorded ones, after translation of numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from efa_cosim.layouts import defs
from efa_cosim.layouts.wire import mask
from efa_cosim.session.regions import (
    ADMIN_RESPONSE,
    COMPLETION,
    EVENT,
    REGISTER_RESPONSE,
    Region,
    Slot,
)
from efa_cosim.session.result import Difference, PlayResult

if TYPE_CHECKING:
    from efa_cosim.layouts.layout import Bytes, Struct
    from efa_cosim.session.device_state import DeviceState

EVENT_PHASE = mask(defs.AdminEqe.phase)  # of its first byte


class EntryComparison:
    """Compares the entries of one device.

    - `state`: that of the device; a compared admin response changes it
    - `result`: counts the compared entries
    """

    def __init__(self, state: DeviceState, result: PlayResult) -> None:
        self._state, self._result = state, result

    def compare(self, expected: Slot, came: Slot) -> None:
        """Raises Difference unless an entry is as recorded; learns from an admin response."""
        image = self._translated(expected, came)
        kind = expected.region.kind
        if kind == ADMIN_RESPONSE:
            self._compare_response(expected, bytes(came.image))
            self._result.admin_responses += 1
            return
        if kind == REGISTER_RESPONSE:
            layout = defs.AdminMmioReqReadLessResp
            want, got = layout.unpack(image), layout.unpack(came.image)
            same = (want.req_id, want.reg_off) == (got.req_id, got.reg_off)
            shown = (repr(want), repr(got))
            self._result.register_responses += 1
        elif kind == COMPLETION:
            same = completion_matches(image, came.image)
            shown = (decode_completion(image), decode_completion(came.image))
            self._result.completions += 1
        else:
            same = image == came.image
            shown = (repr(defs.AdminEqe.unpack(image)), repr(defs.AdminEqe.unpack(came.image)))
            self._result.events += 1
        if not same:
            raise Difference(expected.line, f"{kind} at {expected.address:#x}: "
                             f"expected {image.hex()} {shown[0]}, "
                             f"got {came.image.hex()} {shown[1]}")

    def events_in_recorded_order(
        self, expected: Mapping[int, Slot], came: Mapping[int, Slot]
    ) -> dict[int, Slot]:
        """Returns {address: slot} of the events that came, sorted as recorded.

        CQs share an event queue, and the order of the events of different CQs is free. The phase
        belongs to the place.

        - `expected`, `came`: {address: slot} of all entries
        """
        rings: defaultdict[Region, list[int]] = defaultdict(list)
        found: dict[int, Slot] = {}
        for address, slot in sorted(expected.items()):
            if slot.region.kind == EVENT:
                rings[slot.region].append(address)
        for region, addresses in rings.items():
            bodies = [_body(came[address].image) for address in addresses]
            for address in addresses:
                body = _body(self._translated(expected[address], came[address]))
                if body in bodies:
                    bodies.remove(body)
                    phase = came[address].image[0] & EVENT_PHASE
                    found[address] = Slot(region, address)
                    found[address].put(0, bytes([body[0] | phase, *body[1:]]))
        return found

    def _translated(self, slot: Slot, came: Slot) -> bytearray:
        """Returns the recorded entry as the current device should write it.

        A CQE need not name the node of the source, so the source QP of the entry that came is right
        if any node has it.
        """
        translation = self._state.translation
        image = bytearray(slot.image)
        if slot.region.kind == COMPLETION:
            common = defs.IoCdescCommon.over(image)
            common.qp_num = translation.number("qp_num", common.qp_num)
            if common.q_type == defs.IoQueueType.RECV_QUEUE:
                entry = defs.IoRxCdesc.over(image)
                sources = translation.sources(entry.src_qp_num)
                if sources:
                    got = defs.IoRxCdesc.unpack(came.image).src_qp_num
                    entry.src_qp_num = got if got in sources else sources[0]
        elif slot.region.kind == EVENT:
            event = defs.AdminEqe.over(image).u.comp_event
            event.cqn = translation.number("cq", event.cqn)
        return image

    def _compare_response(self, expected: Slot, came: bytes) -> None:
        translation = self._state.translation
        recorded = bytes(expected.image)
        differences = translation.response_differences(recorded, came)
        if differences:
            command_id = defs.AdminAcqCommonDesc.unpack(recorded).command_id
            pending = translation.pending[command_id]
            raise Difference(
                expected.line, f"response to {pending.opcode.name}: {'; '.join(differences)}; "
                f"expected {recorded.hex()}, got {came.hex()}; the command was {pending.ours!r}")
        self._state.complete(recorded, came)


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
        compared = _SEND_MASK
    else:
        write = common.op_type == defs.IoSendOpType.RDMA_WRITE
        compared = _WIDE_MASK if write else _RECEIVE_MASK
    difference = int.from_bytes(expected, "little") ^ int.from_bytes(came, "little")
    return not difference & compared


def decode_completion(image: Bytes) -> str:
    """A CQE as readable text."""
    common = defs.IoCdescCommon.unpack(image)
    if common.q_type == defs.IoQueueType.RECV_QUEUE:
        return repr(defs.IoRxCdesc.unpack(image))
    return repr(defs.IoTxCdesc.unpack(image))


def _body(image: bytearray) -> bytes:
    """An event without its phase."""
    return bytes([image[0] & ~EVENT_PHASE, *image[1:]])
