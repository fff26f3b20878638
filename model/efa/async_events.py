# SPDX-License-Identifier: Apache-2.0
"""Asynchronous events: who may be told, how many may be unread, and what waits at the port."""

from collections import deque

from efa import defs
from efa.ring import EntryRing

ENTRY_BYTES = defs.AdminAenqEntry.SIZE
COUNT_MASK = 0xFFFFFFFF
ODD_CONSUMER, ODD_DROPPED = 2, 5

_Group = defs.AdminAenqGroup
_GROUPS = range(_Group.FATAL_ERROR, _Group.AENQ_GROUPS_NUM)


class AsyncEvents:
    """The AENQ of a device, as it is after a reset; tell() is called behind each entry's write."""

    def __init__(self, device, tell):
        self.device, self._tell = device, tell
        self.ring = None
        self.base = self.vector = 0
        self.consumed = 0
        self.enabled_groups = 0
        self.waiting = deque()

    def snapshot(self):
        """Plain values, equal exactly when nothing changed."""
        ring = (self.ring.depth, self.ring.written) if self.ring else None
        return {
            "ring": ring, "base": self.base, "vector": self.vector, "consumed": self.consumed,
            "enabled_groups": self.enabled_groups, "waiting": list(self.waiting),
        }  # fmt: skip

    def configure(self, depth, base, vector):
        """AENQ_CAPS: a ring at its beginning, or none (depth None)."""
        self.ring = None if depth is None else EntryRing(depth)
        self.base, self.vector, self.consumed = base, vector, 0
        self._serve()

    def enable(self, groups):
        """SET_FEATURE: the groups that are told from now on."""
        self.enabled_groups = groups
        self._serve()

    def consume(self, value):
        """AENQ_CONS_DB: how many events the host has read, in all."""
        read = (value - self.consumed) & COUNT_MASK
        if read > self._unread():
            self.device.event("odd_admin", what=ODD_CONSUMER, detail=value)
            return
        self.consumed = value
        self._serve()

    def raise_event(self, group, syndrome=0, data=b""):
        """An event of the management side; what finds no room waits, and others behind it."""
        self.waiting.append((int(group), int(syndrome), bytes(data)))
        self._serve()

    def keep_alive(self):
        """The period is over."""
        self._take(_Group.KEEP_ALIVE, 0, b"")

    def _enabled(self, group):
        return group in _GROUPS and self.enabled_groups >> group & 1

    def _unread(self):
        return 0 if self.ring is None else (self.ring.written - self.consumed) & COUNT_MASK

    def _full(self):
        return self.ring is not None and self._unread() == self.ring.depth

    def _serve(self):
        """Takes what waits, in order, until one has to wait for room."""
        while self.waiting:
            group = self.waiting[0][0]
            if self._enabled(group) and self._full() and group != _Group.KEEP_ALIVE:
                return
            self._take(*self.waiting.popleft())

    def _take(self, group, syndrome, data):
        device = self.device
        if group == _Group.KEEP_ALIVE and not self._enabled(group):
            return  # no event, by decision 0004
        if not self._enabled(group) or self.ring is None:
            device.event("odd_admin", what=ODD_DROPPED, detail=group | syndrome << 16)
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

        def write():
            device.event("aenq", group=group, syndrome=syndrome)
            device.dma_write(address, image)
            self._tell()

        device.when_master(write)
