# SPDX-License-Identifier: Apache-2.0
"""Completion counters of the verbs: count completed work requests without polling."""

from efa_cosim.layouts import defs

COUNTER_BYTES = 8
_Events = defs.AdminEventCounterAttachQpEvents
_Modify = defs.AdminEventCounterModifyOps
SENDS, RECEIVES = ("send_comp",), ("recv_comp",)


def _mask(names):
    return sum(1 << getattr(_Events, name).lsb for name in names)


class CompletionCounter:
    """Two event counters in host memory: successful and failed work requests.

    Context.create_counter creates it. The methods raise DriverError if the device refuses.
    """

    def __init__(self, context):
        self._driver = driver = context.driver
        self._address = driver.allocator.alloc(2 * COUNTER_BYTES)
        self._handles = []
        try:
            for place in (self._address, self._address + COUNTER_BYTES):
                self._handles.append(driver.create_event_counter(context.uar, place))
        except Exception:
            self.destroy()
            raise

    @property
    def value(self):
        """Number of work requests completed with success."""
        return self._read(0)

    @property
    def errors(self):
        """Number of work requests completed with an error, flushed ones included."""
        return self._read(1)

    def attach(self, qp, *operations):
        """Counts the completions of a queue pair; operations are SENDS, RECEIVES or both."""
        for handle, events in self._events(operations):
            self._driver.attach_event_counter(handle, qp.handle, events)

    def detach(self, qp, *operations):
        """Stops counting these completions."""
        for handle, events in self._events(operations):
            self._driver.detach_event_counter(handle, qp.handle, events)

    def set(self, value, errors=False):
        """Sets the count of successes, or of errors if errors is true."""
        self._driver.modify_event_counter(self._handles[errors], _Modify.SET, value)

    def add(self, value, errors=False):
        """Adds to the count of successes, or of errors, modulo 2^64."""
        self._driver.modify_event_counter(self._handles[errors], _Modify.ADD, value)

    def destroy(self):
        """Destroys both counters; they must be detached from all queue pairs."""
        for handle in self._handles:
            self._driver.destroy_event_counter(handle)
        self._driver.allocator.free(self._address)

    def _events(self, operations):
        names = [name for operation in operations for name in operation]
        good, bad = _mask(names), _mask(f"{name}_err" for name in names)
        return zip(self._handles, (good, bad), strict=True)

    def _read(self, which):
        place = self._address + which * COUNTER_BYTES
        return int.from_bytes(self._driver.memory.read(place, COUNTER_BYTES), "little")
