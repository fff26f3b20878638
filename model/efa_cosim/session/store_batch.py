# SPDX-License-Identifier: Apache-2.0
"""Collects translated stores and posts them to the device in batches, LLQ stores as whole WQEs."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from efa_cosim.layouts import defs
from efa_cosim.session.translation import SendRing, Translation, Unplayable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from efa_cosim.boundary.backend import Backend, Store
    from efa_cosim.session.outputs import Outputs
    from efa_cosim.session.register_stores import MemoryImage
    from efa_cosim.session.step import Step

MAX_STORES = 256


class _Wqe(NamedTuple):
    """Identifies a send WQE: its ring, and its offset in the ring."""

    ring_id: int
    start: int


class LlqStore(NamedTuple):
    """A store to a send WQE: its ring, offset in the ring, and size."""

    ring: SendRing
    start: int
    size: int

    @property
    def wqe(self) -> _Wqe:
        """The WQE that the store belongs to."""
        return _Wqe(id(self.ring), self.start - self.start % self.ring.entry.SIZE)


class SqDoorbell(NamedTuple):
    """A store to the doorbell of a send ring."""

    ring: SendRing
    store: Store


class StoreBatch:
    """The stores and memory contents for one device that have not been posted.

    - `translation`: that of the device
    - `outputs`: receives the ranges of host memory that change
    """

    def __init__(
        self, backend: Backend, translation: Translation, outputs: Outputs | None
    ) -> None:
        self._backend, self._translation, self._outputs = backend, translation, outputs
        self._stores: list[Store | LlqStore | SqDoorbell] = []
        self._memory: dict[int, bytes] = {}  # that the stores in the batch let the device read

    def translate(self, step: Step, data: bytes) -> Store | LlqStore | SqDoorbell:
        """Returns a store to a doorbell or an LLQ ring for the current device.

        The bytes of an LlqStore are filled in later, when the whole WQE is known.
        """
        doorbell = self._translation.doorbells.get((step.bar, step.offset))
        if doorbell is not None:
            store = (*doorbell, data)
            ring = self._translation.doorbell_ring(step.bar, step.offset)
            return store if ring is None else SqDoorbell(ring, store)
        if step.bar != defs.EFA_MEM_BAR:
            raise Unplayable(f"store to BAR {step.bar} offset {step.offset:#x}: the session has "
                             "no doorbell there")
        ring = self._translation.send_ring(step.offset)
        start = step.offset - ring.recorded
        ring.image[start : start + len(data)] = data
        return LlqStore(ring, start, len(data))

    def put_memory(self, memory: Iterable[MemoryImage]) -> None:
        """Writes host memory that the next store lets the device read.

        Stores that need other bytes at an address are posted before.
        """
        memory = list(memory)
        for address, data in memory:
            if self._memory.get(address, data) != data:
                self.flush()
        for address, data in memory:
            self._memory[address] = data
            self._backend.memory.write(address, data)
            if self._outputs is not None:
                self._outputs.touch(address, len(data))

    def add(self, store: Store | LlqStore | SqDoorbell) -> None:
        """Adds a store."""
        self._stores.append(store)

    @property
    def full(self) -> bool:
        """True if the stores are to be posted, even if the next step has no effects."""
        return len(self._stores) >= MAX_STORES

    def clear(self) -> None:
        """Removes the LLQ stores that wait for the rest of their WQE."""
        self._stores = []

    def flush(self) -> None:
        """Posts the collected stores to the device, LLQ stores with translated numbers.

        An LLQ store stays until its WQE is complete or its doorbell follows: the translation needs
        the whole WQE, and other threads may store between the LLQ stores.
        """
        entries: dict[_Wqe, bytes] = {}
        items: list[Store] = []
        held: list[LlqStore] = []
        ready = self._ready_wqes()
        for place, store in enumerate(self._stores):
            if isinstance(store, SqDoorbell):
                items.append(store.store)
            elif not isinstance(store, LlqStore):
                items.append(store)
            elif place > ready.get(store.wqe, -1):
                held.append(store)
            else:
                wqe = store.wqe
                if wqe not in entries:
                    entries[wqe] = self._translation.work_request(store.ring, wqe.start)
                at = store.start - wqe.start
                items.append((defs.EFA_MEM_BAR, store.ring.ours + store.start,
                              entries[wqe][at : at + store.size]))
        # A ring that another one has replaced gets no more stores.
        self._stores = [store for store in held if self._translation.holds(store.ring)]
        self._memory = {}
        if items:
            self._backend.stores(items)

    def _ready_wqes(self) -> dict[_Wqe, int]:
        """Returns, for each WQE, the last place in the batch up to which its stores can be posted.
        """
        ready: dict[_Wqe, int] = {}
        stored: Counter[_Wqe] = Counter()
        waiting: defaultdict[int, set[_Wqe]] = defaultdict(set)
        for place, store in enumerate(self._stores):
            if isinstance(store, LlqStore):
                stored[store.wqe] += store.size
                waiting[id(store.ring)].add(store.wqe)
                if stored[store.wqe] >= store.ring.entry.SIZE:
                    ready[store.wqe] = place
            elif isinstance(store, SqDoorbell):
                for wqe in waiting.pop(id(store.ring), ()):
                    ready[wqe] = place
        return ready
