# SPDX-License-Identifier: Apache-2.0
"""Writes the types of model/efa_cosim/layouts/defs.py as a stub for type checkers.

The stub is a file of its own: defs.py contains values alone, and an import reads no annotation.
"""

from gen_python import attribute, camel, named_unions, statement, union_class
from gen_verilog import LICENCE, TITLE
from spec_model import sub_field_name


def _argument(item):
    """Returns the type of the values that a field accepts."""
    if item.struct and item.count is None:
        return f"{camel(item.struct)} | Mapping[str, Any]"
    if item.struct:
        return f"Iterable[{camel(item.struct)} | Mapping[str, Any]]"
    if item.is_bytes:
        return "Bytes"
    return "SupportsIndex" if item.count is None else "Iterable[SupportsIndex]"


def _view(item):
    """Returns the descriptor of a field, with the struct that it holds."""
    kind = attribute(item, "", 0).split(" = ")[1].split("(")[0]
    return f"{kind}[{camel(item.struct)}]" if item.struct else kind


def _class(name, rows):
    """Formats a struct: (name, descriptor, accepted values) of its fields, and its constructor."""
    lines = ["", f"class {name}(Struct):"]
    lines += [f"    {field}: {view}" for field, view, _ in rows]
    arguments = [f"{field}: {value} = ..." for field, _, value in rows]
    return lines + statement(4, "def __init__(", ["self", "*", *arguments], ") -> None: ...")


def _struct_lines(struct):
    """Formats a struct and its named unions."""
    lines, rows, unions = [], [], named_unions(struct)
    for group, items in unions.items():
        members = [(item.name.split(".")[1], _view(item), _argument(item)) for item in items]
        lines += _class(union_class(struct, group), members)
    for item in struct.fields:
        group = item.name.split(".")[0]
        if group not in unions:
            rows.append((item.name, _view(item), _argument(item)))
            rows += [(sub_field_name(struct, item, bits), "BitField", "SupportsIndex")
                     for bits in item.bits]
        elif item is unions[group][0]:
            inner = union_class(struct, group)
            rows.append((group, f"Nested[{inner}]", f"{inner} | Mapping[str, Any]"))
    return lines + _class(camel(struct.name), rows)


def _enum_lines(name, members):
    return ["", f"class {name}(IntEnum):", *(f"    {key} = {value}" for key, value in members)]


def _table_lines(name, layouts):
    """Formats a table of BitLayouts: the fields of each layout, then the names of the table."""
    lines, prefix = [], "_" + camel(name)
    for layout in layouts:
        lines += ["", f"class {prefix}{camel(layout.name)}:"]
        lines += [f"    {bits.name}: int" for bits in layout.bits]
    lines += ["", f"class {prefix}(_Names[BitLayout[Any]]):"]
    for layout in layouts:
        lines.append(f"    {layout.name}: BitLayout[{prefix}{camel(layout.name)}]")
    if not layouts:
        lines.append("    pass")
    return [*lines, "", f"{name}: {prefix}"]


def _value_lines(name, base, values):
    """Formats a class for constants by name."""
    kinds = {key: "bytes" if isinstance(value, str) else "int" for key, value in values.items()}
    rows = [f"    {key}: {kind} = ..." for key, kind in kinds.items()]
    return ["", f"class {name}({base}):", *(rows or ["    pass"])]


def _constant_lines(spec):
    """Formats the constants, registers, buses, events and command tables."""
    lines = [""]
    for name, constant in spec.constants.items():
        lines.append(f"{name}: {type(constant['value']).__name__}")
    if spec.crc16:
        lines += [f"CRC16_{name.upper()}: int" for name in ("poly", "init", "xorout")]
    if spec.registers:
        lines += _enum_lines("Reg", [(r.name, r.raw["offset"]) for r in spec.registers])
        lines += ["", "REG_RESET: dict[int, int]"]
    lines += _table_lines("REG_BITS", [r for r in spec.registers if r.bits])
    lines += _table_lines("DOORBELL_BITS", [d for d in spec.doorbells if d.bits])
    lines += _table_lines("INTERNAL", spec.internal)
    if spec.events:
        lines += _enum_lines("Ev", [(e.name.upper(), i) for i, e in enumerate(spec.events)])
        lines += ["", "EV_ENGINES: dict[str, tuple[Ev, ...]]"]
    lines += _table_lines("EVENTS", spec.events)
    # A device has its own object with the names of LIMITS, hence a protocol.
    lines += _value_lines("Limits", "Protocol", spec.limits)
    lines += ["", "class _Limits(_Names[Any], Limits): ...", "", "LIMITS: _Limits"]
    values = {key: value for tree in spec.profiles.values() for key, value in tree.items()}
    lines += _value_lines("Profile", "_Names[int]", values)
    lines += ["", "class _Profiles(_Names[Profile]):"]
    lines += [f"    {name}: Profile" for name in spec.profiles] or ["    pass"]
    lines += ["", "PROFILES: _Profiles"]
    lines += _value_lines("Transport", "_Names[int]", spec.transport)
    lines += ["", "TRANSPORT: Transport", ""]
    if spec.config_space:
        lines.append("CONFIG_SPACE: tuple[tuple[str, int, int, int | str, int | str], ...]")
    if spec.commands:
        lines.append("COMMANDS: dict[int, tuple[type[Struct], type[Struct]]]")
    if spec.command_statuses:
        lines.append("COMMAND_STATUSES: dict[int, list[AdminAqCompletionStatus]]")
    if spec.features:
        lines.append("FEATURES: dict[int, tuple[type[Struct] | None, type[Struct] | None]]")
    return [*lines, "STRUCTS: dict[str, type[Struct]]"]


def module(spec):
    """Returns the text of model/efa_cosim/layouts/defs.pyi."""
    lines = [
        f"# {LICENCE}",
        f'"""{TITLE}."""',
        "",
        "from collections.abc import Iterable, Iterator, Mapping",
        "from enum import IntEnum",
        "from typing import Any, Protocol, SupportsIndex, TypeVar",
        "",
        "from efa_cosim.layouts.layout import (",
        "    BitField,",
        "    BitLayout,",
        "    Bytes,",
        "    ByteString,",
        "    Nested,",
        "    NestedArray,",
        "    Number,",
        "    NumberArray,",
        "    Struct,",
        ")",
        "",
        '_Value = TypeVar("_Value")',
        "",
        "# Constants without __getattr__: here, a wrong name is an error.",
        "class _Names(Mapping[str, _Value]):",
        "    def __getitem__(self, name: str) -> _Value: ...",
        "    def __iter__(self) -> Iterator[str]: ...",
        "    def __len__(self) -> int: ...",
    ]
    for enum in spec.enums.values():
        lines += _enum_lines(camel(enum.name), [(v.short, v.value) for v in enum.values])
    for struct in spec.structs_inner_first():
        lines += _struct_lines(struct)
    return "\n".join([*lines, *_constant_lines(spec)]) + "\n"
