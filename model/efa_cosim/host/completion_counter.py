# SPDX-License-Identifier: Apache-2.0
"""Completion counters of the verbs: count completed work requests without polling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from efa_cosim.layouts import defs

if TYPE_CHECKING:
    from efa_cosim.host.queue_pair import QueuePair
    from efa_cosim.host.verbs import Context

COUNTER_BYTES = 8
_Events = defs.AdminEventCounterAttachQpEvents
_Modify = defs.AdminEventCounterModifyOps
SENDS, RECEIVES = ("send_comp",), ("recv_comp",)


def _mask(names: Iterable[str]) -> int:
    return sum(1 << getattr(_Events, name).lsb for name in names)


class CompletionCounter:
    """Two event counters in host memory: successful and failed work requests.

    Context.create_counter creates it. The methods raise DriverError if the device refuses.
    """

    def __init__(self, context: Context) -> None:
        self._driver = driver = context.driver
        self._address = driver.allocator.alloc(2 * COUNTER_BYTES)
        self._handles: list[int] = []
        try:
            for place in (self._address, self._address + COUNTER_BYTES):
                self._handles.append(driver.create_event_counter(context.uar, place))
        except Exception:
            self.destroy()
            raise

    @property
    def value(self) -> int:
        """Number of work requests completed with success."""
        return self._read(0)

    @property
    def errors(self) -> int:
        """Number of work requests completed with an error, flushed ones included."""
        return self._read(1)

    def attach(self, qp: QueuePair, *operations: tuple[str, ...]) -> None:
        """Counts the completions of a queue pair; operations are SENDS, RECEIVES or both."""
        for handle, events in self._events(operations):
            self._driver.attach_event_counter(handle, qp.handle, events)

    def detach(self, qp: QueuePair, *operations: tuple[str, ...]) -> None:
        """Stops counting these completions."""
        for handle, events in self._events(operations):
            self._driver.detach_event_counter(handle, qp.handle, events)

    def set(self, value: int, errors: bool = False) -> None:
        """Sets the count of successes, or of errors if errors is true."""
        self._driver.modify_event_counter(self._handles[errors], _Modify.SET, value)

    def add(self, value: int, errors: bool = False) -> None:
        """Adds to the count of successes, or of errors, modulo 2^64."""
        self._driver.modify_event_counter(self._handles[errors], _Modify.ADD, value)

    def destroy(self) -> None:
        """Destroys both counters; they must be detached from all queue pairs."""
        for handle in self._handles:
            self._driver.destroy_event_counter(handle)
        self._driver.allocator.free(self._address)

    def _events(self, operations: Iterable[tuple[str, ...]]) -> Iterator[tuple[int, int]]:
        names = [name for operation in operations for name in operation]
        good, bad = _mask(names), _mask(f"{name}_err" for name in names)
        return zip(self._handles, (good, bad), strict=True)

    def _read(self, which: int) -> int:
        place = self._address + which * COUNTER_BYTES
        return int.from_bytes(self._driver.memory.read(place, COUNTER_BYTES), "little")
