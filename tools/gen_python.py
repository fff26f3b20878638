# SPDX-License-Identifier: Apache-2.0
"""Writes the description as Python classes on top of model/efa_cosim/layouts/layout.py."""

import textwrap

from gen_verilog import LICENCE, TITLE, WIDTH
from spec_model import EVERY_COMMAND, bare, sub_field_name


def camel(name):
    """Returns the class name of a struct or enum."""
    return "".join(part.capitalize() for part in bare(name).split("_"))


def union_class(struct, group):
    """Returns the class name of a union that has a name of its own."""
    return camel(struct.name) + camel(group)


def named_unions(struct):
    """Returns the fields of each union written as group.member, by group."""
    groups = {}
    for item in struct.fields:
        if "." in item.name:
            groups.setdefault(item.name.split(".")[0], []).append(item)
    return groups


def attribute(item, name, base):
    """Returns the line that declares one field; base is the offset of its class in the struct."""
    offset = item.offset - base
    if item.struct and item.count is None:
        value = f"Nested({offset}, {camel(item.struct)})"
    elif item.struct:
        value = f"NestedArray({offset}, {camel(item.struct)}, {item.count})"
    elif item.is_bytes:
        value = f"ByteString({offset}, {item.size})"
    elif item.count is not None:
        value = f"NumberArray({offset}, {item.element_bytes}, {item.count})"
    else:
        order = ', order="big"' if item.endian == "be" else ""
        enum = f", enum={camel(item.enum)}" if item.enum else ""
        value = f"Number({offset}, {item.size}{enum}{order})"
    return f"    {name} = {value}"


def docstring(sentence):
    """Formats a docstring inside a class."""
    line = f'    """{sentence}"""'
    if len(line) <= WIDTH:
        return [line]
    first, *rest = textwrap.wrap(sentence, WIDTH - 8)
    return [f'    """{first}', *(f"    {part}" for part in rest), '    """']


def statement(indent, opening, parts, closing):
    """Formats an expression in one line, or one part per line if the line is too long."""
    pad = " " * indent
    line = f"{pad}{opening}{', '.join(parts)}{closing}"
    if len(line) <= WIDTH:
        return [line]
    return [pad + opening, *(f"{pad}    {part}," for part in parts), pad + closing]


def class_lines(name, public_name, size, desc, rows):
    """Formats a class from its already written rows."""
    title = f"{desc} ({size} bytes)." if desc else f"{size} bytes."
    return [
        "",
        "",
        f"class {name}(Struct):",
        *docstring(title),
        "",
        "    __slots__ = ()",
        f'    NAME = "{public_name}"',
        f"    SIZE = {size}",
        *rows,
    ]


def struct_lines(spec, struct):
    """Formats the classes of a struct: one for each named union, then its own."""
    lines, unions, placed = [], named_unions(struct), set()
    for group, items in unions.items():
        base = items[0].offset
        size = max(item.offset + item.size for item in items) - base
        rows = [attribute(item, item.name.split(".")[1], base) for item in items]
        lines += class_lines(
            union_class(struct, group),
            f"{struct.name}.{group}",
            size,
            f"Alternatives in {struct.name}",
            rows,
        )
    rows = []
    for item in struct.fields:
        group = item.name.split(".")[0]
        if group in unions:
            if group not in placed:
                placed.add(group)
                rows.append(f"    {group} = Nested({item.offset}, {union_class(struct, group)})")
            continue
        rows.append(attribute(item, item.name, 0))
        for bits in item.bits:
            enum = [f"enum={camel(bits.enum)}"] if bits.enum else []
            opening = f"{sub_field_name(struct, item, bits)} = BitField("
            parts = [f'"{item.name}"', str(bits.lsb), str(bits.width), *enum]
            rows += statement(4, opening, parts, ")")
    return lines + class_lines(camel(struct.name), struct.name, struct.size, struct.desc, rows)


def enum_lines(enum):
    """Formats an IntEnum."""
    lines = ["", "", f"class {camel(enum.name)}(IntEnum):"]
    lines += [*docstring(f"{enum.desc or enum.name}."), ""]
    return lines + [f"    {value.short} = {value.value}" for value in enum.values]


def layout_line(layout):
    """Formats a BitLayout, one field a line."""
    lines = ["    BitLayout(", f'        "{layout.name}",', f"        {layout.width},"]
    fields = []
    for bits in layout.bits:
        enum = [camel(bits.enum)] if bits.enum else []
        parts = [f'"{bits.name}"', str(bits.lsb), str(bits.width), *enum]
        fields += statement(12, "(", parts, "),")
    if len(layout.bits) == 1:
        return [*lines, f"        ({fields[0].strip()}),", "    ),"]
    return [*lines, "        (", *fields, "        ),", "    ),"]


def layout_table(name, layouts):
    """Formats a read-only table of BitLayouts by name."""
    lines = ["", f"{name} = layouts("]
    for layout in layouts:
        lines += layout_line(layout)
    return [*lines, ")"]


def shown(value):
    """Formats a scalar as Python source, large numbers in hex."""
    if isinstance(value, int) and value > 0xFFFF:
        return f"0x{value:X}"
    return repr(value)


def quoted(value):
    """Formats a number in hex or a text in double quotes."""
    return f'"{value}"' if isinstance(value, str) else f"0x{value:X}"


def tree_lines(tree, indent):
    """Formats nested numbers as a literal; strings of hex digits become bytes."""
    pad = " " * indent
    for key, value in tree.items():
        if isinstance(value, dict):
            yield f'{pad}"{key}": {{'
            yield from tree_lines(value, indent + 4)
            yield f"{pad}}},"
        elif isinstance(value, str):
            yield f'{pad}"{key}": bytes.fromhex("{value}"),'
        else:
            yield f'{pad}"{key}": {shown(value)},'


def table_lines(spec):
    """Formats constants, registers, limits, internal buses, events and the command tables."""
    lines = ["", ""]
    lines += [f"{name} = {shown(c['value'])}" for name, c in spec.constants.items()]
    for name in ("poly", "init", "xorout"):
        if spec.crc16:
            lines.append(f"CRC16_{name.upper()} = 0x{spec.crc16[name]:04X}")
    if spec.registers:
        lines += ["", "", "class Reg(IntEnum):", '    """Byte offsets in the register BAR."""', ""]
        lines += [f"    {r.name} = 0x{r.raw['offset']:02X}" for r in spec.registers]
        lines += ["", "", "REG_RESET = {"]
        lines += [f"    Reg.{r.name}: 0x{r.raw['reset']:08X}," for r in spec.registers]
        lines += ["}"]
    lines += layout_table("REG_BITS", [r for r in spec.registers if r.bits])
    lines += layout_table("DOORBELL_BITS", [d for d in spec.doorbells if d.bits])
    lines += layout_table("INTERNAL", spec.internal)
    if spec.events:
        lines += ["", "", "class Ev(IntEnum):", '    """Kinds of observed events."""', ""]
        lines += [f"    {e.name.upper()} = {i}" for i, e in enumerate(spec.events)]
        engines = {}
        for event in spec.events:
            engines.setdefault(event.raw["engine"], []).append(f"Ev.{event.name.upper()}")
        lines += ["", "", "# Events of each engine: one range of ev_valid and of ev_data."]
        lines += ["EV_ENGINES = {"]
        lines += [f'    "{name}": ({", ".join(kinds)},),' for name, kinds in engines.items()]
        lines += ["}", ""]
    lines += layout_table("EVENTS", spec.events)
    trees = (("LIMITS", spec.limits), ("PROFILES", spec.profiles), ("TRANSPORT", spec.transport))
    for name, tree in trees:
        lines += ["", f"{name} = Constants(", "    {", *tree_lines(tree, 8), "    }", ")"]
    if spec.config_space:
        # Name, offset, bytes, value after a reset or its source, writable bits.
        lines += ["", "CONFIG_SPACE = ("]
        for row in spec.config_space:
            parts = (row["name"], row["offset"], row["size"], row["value"], row.get("writable", 0))
            lines.append(f"    ({', '.join(quoted(part) for part in parts)}),")
        lines += [")"]
    if spec.commands:
        lines += ["", "COMMANDS = {"]
        for command in spec.commands:
            classes = [camel(command["request"]), camel(command["response"])]
            lines += statement(4, f"AdminAqOpcode.{command['name']}: (", classes, "),")
        lines += ["}"]
    if spec.command_statuses:
        # Statuses of a command, in the order of its checks.
        lines += ["", "COMMAND_STATUSES = {"]
        for name, rows in spec.command_statuses.items():
            if name != EVERY_COMMAND:
                named = [f"AdminAqCompletionStatus.{status}" for status in rows]
                lines += statement(4, f"AdminAqOpcode.{name}: [", named, "],")
        lines += ["}"]
    if spec.features:
        lines += ["", "FEATURES = {"]
        for feature in spec.features:
            classes = [camel(feature[way]) if feature[way] else "None" for way in ("get", "set")]
            lines += statement(4, f"AdminAqFeatureId.{feature['name']}: (", classes, "),")
        lines += ["}"]
    lines += ["", "STRUCTS = {", "    cls.NAME: cls", "    for cls in ("]
    lines += [f"        {camel(s.name)}," for s in spec.structs.values()]
    return [*lines, "    )", "}"]


def module(spec):
    """Returns the text of model/efa_cosim/layouts/defs.py."""
    lines = [
        f"# {LICENCE}",
        f'"""{TITLE}."""',
        "",
        "from enum import IntEnum",
        "",
        "from efa_cosim.layouts.layout import (",
        "    BitField,",
        "    BitLayout,",
        "    ByteString,",
        "    Constants,",
        "    Nested,",
        "    NestedArray,",
        "    Number,",
        "    NumberArray,",
        "    Struct,",
        "    layouts,",
        ")",
    ]
    for enum in spec.enums.values():
        lines += enum_lines(enum)
    for struct in spec.structs_inner_first():
        lines += struct_lines(spec, struct)
    lines += table_lines(spec)
    return "\n".join(lines) + "\n"
