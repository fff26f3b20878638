# SPDX-License-Identifier: Apache-2.0
"""The configuration space of a PCI function, as spec/pci_config.yaml describes it."""

from __future__ import annotations

from typing import NamedTuple

from efa_cosim.layouts import defs

CONFIG_BYTES = 4096  # without extended capabilities: their first header is zero
BUS_MASTER = 1 << 2
START_FLR = 1 << 15


class Field(NamedTuple):
    """A field: byte offset, size in bytes, value after a reset, and the bits that the host changes.
    """

    offset: int
    size: int
    value: int
    writable: int


def bar_bytes(limits: defs.Limits) -> dict[int, int]:
    """Returns the size in bytes of each BAR, by its index."""
    return {
        defs.EFA_REG_BAR: limits.bar0_bytes,
        defs.EFA_MEM_BAR: limits.llq_bytes,
        limits.db_bar: limits.db_page_bytes << limits.uar_w,
    }


class ConfigSpace:
    """The configuration space of one function; a write has effect through its properties."""

    def __init__(self, profile: defs.Profile, limits: defs.Limits) -> None:
        self._fields: dict[str, Field] = {}
        for name, offset, size, value, writable in defs.CONFIG_SPACE:
            if isinstance(value, str):
                value = _value(value, profile, limits)
            if isinstance(writable, str):
                bar = int(name.removeprefix("bar"))
                writable = -bar_bytes(limits)[bar] & (1 << 8 * size) - 1
            self._fields[name] = Field(offset, size, value, writable)
        self._mask = bytearray(CONFIG_BYTES)
        for field in self._fields.values():
            self._put(self._mask, field, field.writable)
        self.reset()

    def reset(self) -> None:
        """Restores the values after a reset."""
        self._data = bytearray(CONFIG_BYTES)
        for field in self._fields.values():
            self._put(self._data, field, field.value)

    def read(self, offset: int, size: int) -> bytes:
        """Returns bytes; the range is inside CONFIG_BYTES."""
        return bytes(self._data[offset : offset + size])

    def image(self) -> bytes:
        """Returns the present values, then the bits that the host changes: 2 CONFIG_BYTES."""
        return bytes(self._data + self._mask)

    def write(self, offset: int, data: bytes) -> bool:
        """Changes the writable bits of a range; returns True if the write starts an FLR."""
        for at, byte in enumerate(data, offset):
            self._data[at] = self._data[at] & ~self._mask[at] | byte & self._mask[at]
        high = self._fields["device_control"].offset + 1
        return offset <= high < offset + len(data) and bool(data[high - offset] & START_FLR >> 8)

    @property
    def bus_master(self) -> bool:
        """Bus master enable of the command register."""
        return bool(self.value("command") & BUS_MASTER)

    def value(self, name: str) -> int:
        """Returns the value of a field of the spec."""
        field = self._fields[name]
        return int.from_bytes(self.read(field.offset, field.size), "little")

    @staticmethod
    def _put(data: bytearray, field: Field, value: int) -> None:
        data[field.offset : field.offset + field.size] = value.to_bytes(field.size, "little")


def _value(source: str, profile: defs.Profile, limits: defs.Limits) -> int:
    """Returns the value that a source of the spec names."""
    if source == "last_vector":
        return limits.msix_vectors - 1
    table, _, key = source.partition(".")
    found: int = getattr(profile if table == "profile" else limits, key)
    return found
