# SPDX-License-Identifier: Apache-2.0
"""Derives the expected effects of a session step: ring entries, payload and interrupts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from efa_cosim.layouts import defs
from efa_cosim.session.regions import ASYNC_EVENT, COMPLETION, Regions, Slot
from efa_cosim.session.result import Difference
from efa_cosim.session.text import spans

if TYPE_CHECKING:
    from efa_cosim.layouts.layout import Bytes
    from efa_cosim.session.step import Step


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
    last_kind: str | None = None
    for line, where, data in step.effects():
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


def leave_out_headers(wanted: Expectation, is_datagram: Callable[[Bytes], bool]) -> None:
    """Takes the headers of datagrams out of the expected payload.

    They hold numbers of the device. Some recorded devices write them with the payload, others
    write the payload only.

    - `is_datagram`: called with a CQE; True if it is that of a received datagram
    """
    happened: list[tuple[int, Payload | Slot]] = [(one.line, one) for one in wanted.payload]
    happened += [(slot.line, slot) for slot in wanted.slots.values() if _is_receive(slot)]
    before: list[Payload] = []  # payload since the last completion of a receive
    for _, one in sorted(happened, key=lambda item: item[0]):
        if not isinstance(one, Slot):
            before.append(one)
            continue
        length = defs.IoRxCdesc.unpack(one.image).length
        if is_datagram(one.image) and sum(len(part.data) for part in before) == length:
            left = defs.LIMITS.grh_bytes
            for part in before:
                cut = min(left, len(part.data))
                part.address, part.data = part.address + cut, part.data[cut:]
                part.left, left = len(part.data), left - cut
        before = []
    wanted.payload = [one for one in wanted.payload if one.data]


def check_complete(wanted: Expectation) -> None:
    """Refuses a recorded entry without some of its bytes: they would count as zeros."""
    for slot in wanted.slots.values():
        if slot.missing:
            missing = ", ".join(spans(sorted(slot.missing)))
            raise Difference(slot.line, f"the recorded {slot.region.kind} at "
                             f"{slot.address:#x} is incomplete: expected "
                             f"{slot.region.entry_bytes} bytes, found no 'd' line for "
                             f"{missing}; record the session again or restore the line")


def _is_receive(slot: Slot) -> bool:
    if slot.region.kind != COMPLETION:
        return False
    return defs.IoCdescCommon.unpack(slot.image).q_type == defs.IoQueueType.RECV_QUEUE
