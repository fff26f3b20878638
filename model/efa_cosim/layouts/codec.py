# SPDX-License-Identifier: Apache-2.0
"""CRC of admin entries, event decoding, and bit columns in arrays of entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from efa_cosim.layouts import defs
from efa_cosim.layouts.layout import BitField, Bytes, Struct, checked

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def _reflected(value: int, width: int) -> int:
    return int(f"{value:0{width}b}"[::-1], 2)


def _crc16_table() -> tuple[int, ...]:
    poly = _reflected(defs.CRC16_POLY, 16)
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ (poly if crc & 1 else 0)
        table.append(crc)
    return tuple(table)


_CRC16_TABLE = _crc16_table()


def crc16(data: Bytes) -> int:
    """CRC-16 of an admin entry whose checksum field is zero."""
    crc = defs.CRC16_INIT
    for byte in bytes(data):
        crc = crc >> 8 ^ _CRC16_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ defs.CRC16_XOROUT


def decode_event(kind: int, data: int) -> tuple[str, Any]:
    """Name and fields of an event, from its number and its 64 data bits."""
    name = defs.Ev(kind).name.lower()
    return name, defs.EVENTS[name].unpack(data)


def _column(cls: type[Struct], records: NDArray[Any], path: str) -> tuple[Any, NDArray[Any]]:
    *outer, last = path.split(".")
    for name in outer:
        cls, records = cls.FIELDS[name].cls, records[name]
    attribute = cls.FIELDS[last]
    return attribute, records[attribute.container if isinstance(attribute, BitField) else last]


def get_column(cls: type[Struct], records: NDArray[Any], path: str) -> NDArray[Any]:
    """One field of every entry of an array of cls.DTYPE; dots in the path descend."""
    attribute, column = _column(cls, records, path)
    if isinstance(attribute, BitField):
        return column >> attribute.lsb & attribute.mask
    return column


def set_column(
    cls: type[Struct], records: NDArray[Any], path: str, values: ArrayLike
) -> None:
    """Sets one field of every entry of an array of cls.DTYPE; ValueError if a value is too wide."""
    import numpy as np

    attribute, column = _column(cls, records, path)
    values = np.asarray(values)
    if not isinstance(attribute, BitField):
        if values.dtype.kind in "iu" and values.size and column.dtype.kind == "u":
            for extreme in (values.min(), values.max()):
                checked(attribute.place, extreme, column.dtype.itemsize * 8)
        column[...] = values
        return
    for extreme in (values.min(), values.max()) if values.size else ():
        checked(attribute.place, extreme, attribute.width)
    keep = column.dtype.type(np.iinfo(column.dtype).max ^ attribute.mask << attribute.lsb)
    column[...] = column & keep | values.astype(column.dtype) << attribute.lsb
