# SPDX-License-Identifier: Apache-2.0
"""What crosses the bus and what the device shows, in the host's order, for one or more queues.

A Tap stands between the host's software and a backend. It knows the shape of the queues that it
watches, as a bus analyser is told them; of policy and provider it knows nothing.
"""

from dataclasses import dataclass
from typing import NamedTuple

from efa import defs
from efa.codec import decode_event

LLQ, RUNG, SHOWN, WATCHED, GONE = "llq", "rung", "shown", "watched", "gone"

# Events that say something of a send queue.
KEPT = {"db", "llq", "wqe", "txl", "check", "cqe", "qperr"}


@dataclass(frozen=True)
class Shape:
    """A send queue: where it is, how many entries of how many bytes, units between doorbells."""

    index: int
    llq: int
    depth: int
    entry_bytes: int
    doorbell: int
    most_units: int

    @classmethod
    def of(cls, qp):
        """The shape of a queue pair as it was made."""
        attr = qp.driver.queue_attr
        index = qp.number & ((1 << defs.LIMITS.qpn_w) - 1)
        return cls(index, qp.llq, qp.sq_depth, qp.wqe.SIZE, qp.sq_db, attr.max_tx_batch)

    @property
    def end(self):
        """First offset behind the ring."""
        return self.llq + self.depth * self.entry_bytes


class Item(NamedTuple):
    """One thing seen: LLQ (offset, bytes), RUNG (offset, value), SHOWN (name, fields), else a
    Shape."""

    kind: str
    what: object
    data: object = None


class Tap:
    """A backend that writes down what passes; everything else is the backend's."""

    def __init__(self, backend):
        self._backend = backend
        self.items = []
        self._watched = {}
        self._db_bar = defs.LIMITS.db_bar
        device = getattr(backend, "device", None)
        self._at_once = hasattr(device, "on_event")
        if self._at_once:
            device.on_event = self._shown
        else:
            backend.events()

    def __getattr__(self, name):
        return getattr(self._backend, name)

    def watch(self, qp):
        """From here on this send queue is looked at; its Shape."""
        self.look()
        shape = Shape.of(qp)
        self._watched[shape.doorbell] = shape
        self.items.append(Item(WATCHED, shape))
        return shape

    def leave(self, shape):
        """The queue goes."""
        self.look()
        del self._watched[shape.doorbell]
        self.items.append(Item(GONE, shape))

    def look(self):
        """Takes over what the device has shown so far: before stores that may rely on it."""
        if self._at_once:
            return
        for record in self._backend.events():
            name, fields = decode_event(int(record["kind"]), int(record["data"]))
            self._shown(name, {**vars(fields), "cycle": int(record["cycle"])})

    def stores(self, items):
        """Posted host stores, written down where a watched queue may be meant."""
        self.look()
        if not self._watched:
            self._backend.stores(items)
            return
        # The model acts at once: what it shows of a store comes behind that store.
        for group in [[item] for item in items] if self._at_once else [items]:
            for item in group:
                self._note(*item)
            self._backend.stores(group)

    def _note(self, bar, offset, data):
        if bar == defs.EFA_MEM_BAR:
            self.items.append(Item(LLQ, offset, bytes(data)))
        elif bar == self._db_bar and offset in self._watched:
            value = int.from_bytes(data, "little")
            self.items.append(Item(RUNG, self._watched[offset], value))

    def _shown(self, name, fields):
        if self._watched and name in KEPT:
            self.items.append(Item(SHOWN, name, fields))
