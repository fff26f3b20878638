# SPDX-License-Identifier: Apache-2.0
"""Checks the order in which a recorded device changed the memory of its host.

The host must find the payload of a message when it finds its CQE, a CQE when it finds the EQE of
its CQ, and the entry of a ring when the interrupt of that ring arrives. The lines of a session have
the order in which writes and interrupts reached the host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from efa_cosim.layouts import defs
from efa_cosim.session.regions import (
    ADMIN_RESPONSE,
    ASYNC_EVENT,
    COMPLETION,
    EVENT,
    Region,
    Regions,
    Slot,
    ring_address,
)
from efa_cosim.session.step import Step

Op = defs.AdminAqOpcode


class OrderFault(Exception):
    """An output came before what it announces; has `line` (of the session)."""

    def __init__(self, line: int, what: str, expected: str, got: str) -> None:
        super().__init__(f"{what}: expected {expected}, got {got}")
        self.line = line


@dataclass
class _Cq:
    """A CQ: its number, CQEs so far, and those since its last EQE; `early` is True after an arm for
    CQEs that were there already."""

    number: int
    written: int = 0
    fresh: int = 0
    early: bool = False


class Order:
    """Follows the outputs of a session.

    - `is_datagram`: called with a CQE; True if it is that of a received datagram
    """

    def __init__(self, is_datagram: Callable[[bytes], bool]) -> None:
        self._is_datagram = is_datagram
        self.reset()

    def reset(self) -> None:
        """Forgets all rings, as a reset of the device does."""
        self._slots: dict[int, Slot] = {}  # entries of which some bytes are missing
        self._payload = 0  # bytes that no CQE has announced
        self._cqs: dict[int, _Cq] = {}  # by number
        self._cq_at: dict[int, _Cq] = {}  # by address of the ring
        self._arms: dict[tuple[int, int], _Cq] = {}  # by doorbell: BAR and offset
        self._vectors: dict[int, int] = {}  # of event queues, by address of the ring
        # Entries without an interrupt, by vector: before the last store, and since.
        self._old: Counter[int] = Counter()
        self._new: Counter[int] = Counter()

    def created(self, opcode: Op, command: Any, response: Any, db_bar: int | None) -> None:
        """Adds the ring of a successful command; `db_bar` is the BAR of the doorbells."""
        if opcode == Op.CREATE_EQ:
            self._vectors[ring_address(command.ba)] = command.msix_vec
        elif opcode == Op.CREATE_CQ:
            cq = _Cq(response.cq_idx)
            self._cqs[cq.number] = self._cq_at[ring_address(command.cq_ba)] = cq
            if response.db_valid and db_bar is not None:
                self._arms[db_bar, response.db_offset] = cq

    def check(self, step: Step, regions: Regions, admin_vector: int) -> None:
        """Checks the outputs of a step; raises OrderFault."""
        self._old += self._new
        self._new.clear()
        self._arm(step)
        for line, where, data in step.effects():
            if data is None:
                self._interrupt(line, where)
                continue
            for region, address, at, part in regions.split(where, data):
                if region is None:
                    self._payload += len(part)
                    continue
                slot = self._slots.setdefault(address, Slot(region, address, line))
                slot.put(at, part)
                if not slot.missing:
                    del self._slots[address]
                    self._entry(line, region, slot, admin_vector)

    def _arm(self, step: Step) -> None:
        cq = self._arms.get((step.bar, step.offset))
        if cq is None or step.data is None:
            return
        doorbell = defs.DOORBELL_BITS.CQ_DB.unpack(step.value)
        if doorbell.ARM and (cq.written - doorbell.CONSUMER_INDEX) % (1 << 16):
            cq.early = True

    def _entry(self, line: int, region: Region, slot: Slot, admin_vector: int) -> None:
        """All bytes of an entry are in memory."""
        image = bytes(slot.image)
        if region.kind == COMPLETION:
            self._completion(line, region, slot.address, image)
        elif region.kind == EVENT:
            number = defs.AdminEqe.unpack(image).u.comp_event.cqn
            cq = self._cqs.get(number)
            if cq is not None and not cq.fresh and not cq.early:
                raise OrderFault(line, f"order of completion event at {slot.address:#x}",
                                 f"a completion of CQ {number} before it", "none")
            if cq is not None:
                cq.fresh, cq.early = 0, False
            self._new[self._vectors.get(region.base, -1)] += 1
        elif region.kind in (ADMIN_RESPONSE, ASYNC_EVENT):
            self._new[admin_vector] += 1

    def _completion(self, line: int, region: Region, address: int, image: bytes) -> None:
        cq = self._cq_at.get(region.base)
        if cq is not None:
            cq.written, cq.fresh = cq.written + 1, cq.fresh + 1
        common = defs.IoCdescCommon.unpack(image)
        if (common.q_type != defs.IoQueueType.RECV_QUEUE or common.status
                or common.op_type != defs.IoSendOpType.SEND):
            return
        length = defs.IoRxCdesc.unpack(image).length
        # A device may leave out the header of a datagram.
        least = length
        if self._is_datagram(image):
            least = max(0, length - defs.LIMITS.grh_bytes)
        if self._payload < least:
            raise OrderFault(line, f"order of completion at {address:#x}",
                             f"{least} bytes of payload before it", str(self._payload))
        self._payload -= min(length, self._payload)

    def _interrupt(self, line: int, vector: int) -> None:
        if self._new[vector]:
            self._new[vector] -= 1
        elif self._old[vector]:
            self._old[vector] = 0  # A message announces all entries that waited for it.
        else:
            raise OrderFault(line, f"order of interrupt {vector}",
                             "an entry in a ring of this vector before it", "none")
