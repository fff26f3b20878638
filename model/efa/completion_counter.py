# SPDX-License-Identifier: Apache-2.0
"""Completion counters of the verbs: how many work requests ended, well and not, without polling."""

from efa import defs

COUNTER_BYTES = 8
_Events = defs.AdminEventCounterAttachQpEvents
_Modify = defs.AdminEventCounterModifyOps
SENDS, RECEIVES = ("send_comp",), ("recv_comp",)


def _mask(names):
    return sum(1 << getattr(_Events, name).lsb for name in names)


class CompletionCounter:
    """Two counters of the device in host memory, one of successes and one of errors."""

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
        """Work requests that ended well."""
        return self._read(0)

    @property
    def errors(self):
        """Work requests that ended otherwise, flushed ones too."""
        return self._read(1)

    def attach(self, qp, *operations):
        """Counts what ends on a queue pair; operations are SENDS, RECEIVES or both."""
        for handle, events in self._events(operations):
            self._driver.attach_event_counter(handle, qp.handle, events)

    def detach(self, qp, *operations):
        """Counts it no more."""
        for handle, events in self._events(operations):
            self._driver.detach_event_counter(handle, qp.handle, events)

    def set(self, value, errors=False):
        """Sets the count of successes, or of errors."""
        self._driver.modify_event_counter(self._handles[errors], _Modify.SET, value)

    def add(self, value, errors=False):
        """Adds to it, modulo 2^64."""
        self._driver.modify_event_counter(self._handles[errors], _Modify.ADD, value)

    def destroy(self):
        """Gives both back; they are attached nowhere."""
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
