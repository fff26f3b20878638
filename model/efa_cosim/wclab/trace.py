# SPDX-License-Identifier: Apache-2.0
"""Records the stores of the host and the events of the device, in the host's order.

A Tap is placed between the host software and a backend. It has the shape of the observed queues,
as a bus analyser does; it does not depend on store buffer policy or provider.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from efa_cosim.layouts import defs
from efa_cosim.layouts.codec import decode_event

if TYPE_CHECKING:
    from efa_cosim.boundary.backend import Backend, Store
    from efa_cosim.host.queue_pair import QueuePair

LLQ, DB, SHOWN, WATCHED, GONE = "llq", "db", "shown", "watched", "gone"

# Events about send queues.
EVENTS = {"db", "llq", "wqe", "tx_last", "check", "cqe", "qperr"}


@dataclass(frozen=True)
class Shape:
    """A send queue: offsets, depth, WQE size, and 64-byte units allowed between doorbells."""

    index: int
    llq: int
    depth: int
    entry_bytes: int
    doorbell: int
    most_units: int

    @classmethod
    def of(cls, qp: QueuePair) -> Shape:
        """Returns the shape of a queue pair."""
        attr = qp.driver.queue_attr
        index = qp.number & ((1 << defs.LIMITS.qpn_w) - 1)
        return cls(index, qp.llq, qp.sq_depth, qp.wqe.SIZE, qp.sq_db, attr.max_tx_batch)

    @property
    def end(self) -> int:
        """Returns the first offset after the ring."""
        return self.llq + self.depth * self.entry_bytes


class Item(NamedTuple):
    """One observation: LLQ (offset, bytes), DB (shape, value), SHOWN (name, fields), WATCHED and
    GONE (shape)."""

    kind: str
    what: Any
    data: Any = None


class Tap:
    """A backend that records stores and events; all other calls pass through."""

    def __init__(self, backend: Backend) -> None:
        # Also has the events of its device, which are no part of the interface.
        self._backend = cast(Any, backend)
        self.items: list[Item] = []
        self._watched: dict[int, Shape] = {}
        self._db_bar = defs.LIMITS.db_bar
        device: Any = getattr(backend, "device", None)
        self._at_once = hasattr(device, "on_event")
        if self._at_once:
            device.on_event = self._shown
        else:
            self._backend.events()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def watch(self, qp: QueuePair) -> Shape:
        """Starts the observation of a send queue; returns its Shape."""
        self.look()
        shape = Shape.of(qp)
        self._watched[shape.doorbell] = shape
        self.items.append(Item(WATCHED, shape))
        return shape

    def leave(self, shape: Shape) -> None:
        """Ends the observation of a queue."""
        self.look()
        del self._watched[shape.doorbell]
        self.items.append(Item(GONE, shape))

    def look(self) -> None:
        """Collects new events of the device, before stores that may depend on them."""
        if self._at_once:
            return
        for record in self._backend.events():
            name, fields = decode_event(int(record["kind"]), int(record["data"]))
            self._shown(name, {**vars(fields), "cycle": int(record["cycle"])})

    def stores(self, items: Iterable[Store]) -> None:
        """Posts host stores and records those to LLQ memory and to observed doorbells."""
        self.look()
        if not self._watched:
            self._backend.stores(items)
            return
        # The model executes a store at once: its events are recorded after that store.
        for group in [[item] for item in items] if self._at_once else [items]:
            for item in group:
                self._note(*item)
            self._backend.stores(group)

    def _note(self, bar: int, offset: int, data: bytes) -> None:
        if bar == defs.EFA_MEM_BAR:
            self.items.append(Item(LLQ, offset, bytes(data)))
        elif bar == self._db_bar and offset in self._watched:
            value = int.from_bytes(data, "little")
            self.items.append(Item(DB, self._watched[offset], value))

    def _shown(self, name: str, fields: dict[str, Any]) -> None:
        if self._watched and name in EVENTS:
            self.items.append(Item(SHOWN, name, fields))
