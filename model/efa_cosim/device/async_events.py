# SPDX-License-Identifier: Apache-2.0
"""Asynchronous events: enabled groups, flow control of the AENQ, and pending events."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from efa_cosim.device.ring import EntryRing
from efa_cosim.layouts import defs
from efa_cosim.layouts.layout import Bytes

if TYPE_CHECKING:
    from efa_cosim.device.device import Device

ENTRY_BYTES = defs.AdminAenqEntry.SIZE
COUNT_MASK = 0xFFFFFFFF

_Group = defs.AdminAenqGroup
_GROUPS = range(_Group.FATAL_ERROR, _Group.AENQ_GROUPS_NUM)


class AsyncEvents:
    """The AENQ of a device after a reset; report() is called after each entry is written."""

    def __init__(self, device: Device, report: Callable[[], object]) -> None:
        self.device, self._report = device, report
        self.ring: EntryRing | None = None
        self.base = self.vector = 0
        self.consumed = 0
        self.enabled_groups = 0
        self.waiting: deque[tuple[int, int, bytes]] = deque()

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values; two are equal if and only if nothing changed."""
        ring = (self.ring.depth, self.ring.written) if self.ring else None
        return {
            "ring": ring, "base": self.base, "vector": self.vector, "consumed": self.consumed,
            "enabled_groups": self.enabled_groups, "waiting": list(self.waiting),
        }  # fmt: skip

    def configure(self, depth: int | None, base: int, vector: int) -> None:
        """AENQ_CAPS: starts a new ring, or disables the AENQ if depth is None."""
        self.ring = None if depth is None else EntryRing(depth)
        self.base, self.vector, self.consumed = base, vector, 0
        self._serve()

    def enable(self, groups: int) -> None:
        """SET_FEATURE: sets the groups that are reported from now on."""
        self.enabled_groups = groups
        self._serve()

    def consume(self, value: int) -> None:
        """AENQ_CONS_DB: total number of events that the host has consumed."""
        read = (value - self.consumed) & COUNT_MASK
        if read > self._unread():
            self.device.event("anomaly_admin", what=defs.AnomalyAdmin.AENQ_CONSUMER, detail=value)
            return
        self.consumed = value
        self._serve()

    def raise_event(self, group: int, syndrome: int = 0, data: Bytes = b"") -> None:
        """Queues an event of the management side; pending, in order, while the ring is full."""
        self.waiting.append((int(group), int(syndrome), bytes(data)))
        self._serve()

    def keep_alive(self) -> None:
        """The keep-alive period has expired; the event is dropped if the ring is full."""
        self._take(_Group.KEEP_ALIVE, 0, b"")

    def _enabled(self, group: int) -> int:
        return group in _GROUPS and self.enabled_groups >> group & 1

    def _unread(self) -> int:
        return 0 if self.ring is None else (self.ring.written - self.consumed) & COUNT_MASK

    def _full(self) -> bool:
        return self.ring is not None and self._unread() == self.ring.depth

    def _serve(self) -> None:
        """Processes pending events in order until one finds the ring full."""
        while self.waiting:
            group = self.waiting[0][0]
            if self._enabled(group) and self._full() and group != _Group.KEEP_ALIVE:
                return
            self._take(*self.waiting.popleft())

    def _take(self, group: int, syndrome: int, data: bytes) -> None:
        device = self.device
        if group == _Group.KEEP_ALIVE and not self._enabled(group):
            return  # Decision 0004: a disabled keep-alive is not reported as dropped.
        if not self._enabled(group) or self.ring is None:
            dropped = group | syndrome << 16
            device.event("anomaly_admin", what=defs.AnomalyAdmin.AENQ_DROPPED, detail=dropped)
            return
        if self._full():
            return
        slot, phase = self.ring.reserve()
        entry = defs.AdminAenqEntry(
            aenq_common_desc={"group": group, "syndrome": syndrome, "phase": phase}
        )
        place = defs.AdminAenqEntry.inline_data_w4
        entry.image[place.offset : place.offset + len(data)] = data
        address, image = self.base + slot * ENTRY_BYTES, entry.pack()

        def write() -> None:
            device.event("aenq", group=group, syndrome=syndrome)
            device.dma_write(address, image)
            self._report()

        device.when_master(write)
