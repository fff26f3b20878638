# SPDX-License-Identifier: Apache-2.0
"""Fast access to few fields of a generated layout: one precompiled struct.

The caller names the values where it unpacks them. For many fields, use the named tuples of
efa_cosim.layouts.fields.
"""

from __future__ import annotations

from struct import Struct

from efa_cosim.layouts import layout
from efa_cosim.layouts.layout import BitField, Number

_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}


def _place(cls: type[layout.Struct], path: str) -> tuple[int, int, str]:
    """Offset, size and format of a field; dots in the path descend into nested layouts."""
    offset = 0
    *outer, last = path.split(".")
    for name in outer:
        offset += cls.FIELDS[name].offset
        cls = cls.FIELDS[name].cls
    field = cls.FIELDS[last]
    code = _CODES[field.size] if isinstance(field, Number) else f"{field.size}s"
    return offset + field.offset, field.size, code


def precompiled(cls: type[layout.Struct], *paths: str, size: int | None = None) -> Struct:
    """A struct.Struct of these fields, in ascending order; other bytes are padding."""
    text, end = "<", 0
    for path in paths:
        offset, field_bytes, code = _place(cls, path)
        if offset < end:
            raise ValueError(f"{cls.NAME}.{path} must follow the field named before it")
        text += f"{offset - end}x{code}"
        end = offset + field_bytes
    return Struct(f"{text}{(size or cls.SIZE) - end}x")


def mask(field: BitField) -> int:
    """Mask of a bit field within its container number."""
    assert isinstance(field, BitField)
    return field.mask << field.lsb
