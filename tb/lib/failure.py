# SPDX-License-Identifier: Apache-2.0
"""Names the field of a failed comparison and ends the report of a run with five lines.

    field:    common.status of efa_io_tx_cdesc, device 0, cycle 812: completion ring 3.0
    expected: OK (0)
    found:    FLUSHED (1)
    waves:    sim/out/run/.../dump.fst
    repeat:   .venv/bin/python -m tb.runner system send --sim verilator --seed 7

The first three lines travel as the end of an exception's text, since cocotb reports only the text.
"""

import re
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from efa_cosim.layouts.layout import BitField, Nested, NestedArray, NumberArray, Struct

MOST_BYTES = 32
MOST_CHARACTERS = 240
_THREE = re.compile(r"^field: +(.*)\nexpected: +(.*)\nfound: +(.*)", re.MULTILINE)
# Texts of checks that name no field: a sentence, and an assertion that cocotb has rewritten.
_LINES = re.compile(r"(.*?)\n\s*expected (.*?)(?:\n\s*got\s+(.*?))?$", re.DOTALL)
_SENTENCE = re.compile(r"(.*?),? expected (.*?),? found (.*)", re.DOTALL)
_ASSERTION = re.compile(r"(.*?)\bassert (.*?) == (.*?)(?:\n|$)", re.DOTALL)


class Named(NamedTuple):
    """A field by name, its expected and its found value."""

    field: str
    expected: str
    found: str

    def __str__(self) -> str:
        return "\n".join(f"{name + ':':9} {_one_line(value)}" for name, value in zip(
            ("field", "expected", "found"), self, strict=True))  # fmt: skip


def _one_line(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= MOST_CHARACTERS else flat[:MOST_CHARACTERS] + " ..."


def shown(value: object) -> str:
    """Returns a field's value as text: enum members by name, bytes in hexadecimal digits."""
    if isinstance(value, IntEnum):
        return f"{value.name} ({int(value)})"
    if isinstance(value, int):
        return str(value) if value < 10 else f"{value} ({value:#x})"
    # No integer: what is left are bytes or values that can become bytes.
    data = bytes(value)  # type: ignore[call-overload]
    return data[:MOST_BYTES].hex() + ("..." if len(data) > MOST_BYTES else "")


def leaves(entry: Struct, before: str = "") -> Iterator[tuple[str, object]]:
    """Yields the fields of an entry as (path, value); bit fields replace the number they are in."""
    split = {one.container for one in entry.FIELDS.values() if isinstance(one, BitField)}
    for name, attribute in entry.FIELDS.items():
        value = getattr(entry, name)
        if name in split:
            continue
        if isinstance(attribute, Nested):
            yield from leaves(value, f"{before}{name}.")
        elif isinstance(attribute, NestedArray):
            for number in range(len(value)):
                yield from leaves(value[number], f"{before}{name}[{number}].")
        elif isinstance(attribute, NumberArray):
            for number in range(len(value)):
                yield f"{before}{name}[{number}]", value[number]
        else:
            yield before + name, value


def field_of(layout: type[Struct], expected: bytes, found: bytes) -> Named:
    """Returns the first field of a layout in which two entries differ.

    Bytes after the layout are the field "byte N" of the entry.
    """
    size = layout.SIZE
    if min(len(expected), len(found)) >= size and expected[:size] != found[:size]:
        pairs = zip(leaves(layout.unpack(expected)), leaves(layout.unpack(found)), strict=True)
        for (path, want), (_, got) in pairs:
            if want != got:
                return Named(f"{path} of {layout.NAME}", shown(want), shown(got))
    length = min(len(expected), len(found))
    at = next((n for n in range(length) if expected[n] != found[n]), length)
    if at == length:
        return Named(f"length of {layout.NAME}", f"{len(expected)} bytes", f"{len(found)} bytes")
    part = slice(at, at + MOST_BYTES)
    where = f"byte {at} of {layout.NAME}"
    return Named(where, expected[part].hex() or "nothing", found[part].hex() or "nothing")


def named(text: str, test: str = "") -> Named:
    """Returns field, expected and found value of an exception's text.

    A text without them is the found value, where the expected one is a passed test.
    """
    lines = _THREE.findall(text)
    if lines:
        return Named(*lines[-1])
    text = text.strip()
    if (match := _LINES.fullmatch(text)) is not None:
        return Named(match[1], match[2], match[3] or "another output")
    if (match := _SENTENCE.fullmatch(text)) is not None:
        return Named(*match.groups())
    if (match := _ASSERTION.match(text)) is not None:
        what = match[1].strip().removesuffix("AssertionError:").rstrip(":\n ")
        return Named(f"{what or 'assertion'} of {test}", match[3], match[2])
    return Named(test or "test", "passed", text or "an exception without text")


def five_lines(what: Named, waves: str, repeat: str) -> str:
    """Returns the last five lines of the report of a failed run."""
    return f"{what}\nwaves:    {waves}\nrepeat:   {repeat}"
