"""Writes the description as Python classes on top of model/efa/layout.py."""

from gen_verilog import TITLE
from spec_model import bare, sub_field_name


def camel(name):
    """Class name of a struct or enum."""
    return "".join(part.capitalize() for part in bare(name).split("_"))


def union_class(struct, group):
    """Class name of a union that has a name of its own."""
    return camel(struct.name) + camel(group)


def named_unions(struct):
    """Fields of each union written as group.member, by group."""
    groups = {}
    for item in struct.fields:
        if "." in item.name:
            groups.setdefault(item.name.split(".")[0], []).append(item)
    return groups


def attribute(item, name, base):
    """The line that declares one field; base is where its class starts in the struct."""
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


def class_lines(spec, name, public_name, size, desc, rows):
    """A class from its already written rows."""
    title = f"{desc} ({size} bytes)." if desc else f"{size} bytes."
    return [
        "",
        "",
        f"class {name}(Struct):",
        f'    """{title}"""',
        "",
        "    __slots__ = ()",
        f'    NAME = "{public_name}"',
        f"    SIZE = {size}",
        *rows,
    ]


def struct_lines(spec, struct):
    """The classes of a struct: one for each named union, then its own."""
    lines, unions, placed = [], named_unions(struct), set()
    for group, items in unions.items():
        base = items[0].offset
        size = max(item.offset + item.size for item in items) - base
        rows = [attribute(item, item.name.split(".")[1], base) for item in items]
        lines += class_lines(spec, union_class(struct, group), f"{struct.name}.{group}", size,
                             f"Alternatives in {struct.name}", rows)
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
            enum = f", enum={camel(bits.enum)}" if bits.enum else ""
            rows.append(f"    {sub_field_name(struct, item, bits)} = "
                        f'BitField("{item.name}", {bits.lsb}, {bits.width}{enum})')
    return lines + class_lines(spec, camel(struct.name), struct.name, struct.size, struct.desc, rows)


def enum_lines(enum):
    """An IntEnum."""
    lines = ["", "", f"class {camel(enum.name)}(IntEnum):"]
    lines += [f'    """{enum.desc or enum.name}."""', ""]
    return lines + [f"    {value.short} = {value.value}" for value in enum.values]


def layout_line(layout):
    """A BitLayout as one expression on several lines."""
    fields = []
    for bits in layout.bits:
        enum = f", {camel(bits.enum)}" if bits.enum else ""
        fields.append(f'        ("{bits.name}", {bits.lsb}, {bits.width}{enum}),')
    return [f'    BitLayout("{layout.name}", {layout.width}, (', *fields, "    )),"]


def layout_table(name, layouts):
    """A read-only table of BitLayouts by name."""
    lines = ["", f"{name} = layouts("]
    for layout in layouts:
        lines += layout_line(layout)
    return [*lines, ")"]


def tree_lines(tree, indent):
    """Nested numbers as a literal; strings of hex digits become bytes."""
    pad = " " * indent
    for key, value in tree.items():
        if isinstance(value, dict):
            yield f'{pad}"{key}": {{'
            yield from tree_lines(value, indent + 4)
            yield f"{pad}}},"
        elif isinstance(value, str):
            yield f'{pad}"{key}": bytes.fromhex("{value}"),'
        else:
            shown = hex(value) if isinstance(value, int) and value > 0xFFFF else repr(value)
            yield f'{pad}"{key}": {shown},'


def table_lines(spec):
    """Constants, registers, limits, internal buses, events and the command tables."""
    lines = ["", ""]
    lines += [f"{name} = {c['value']:#x}" if c["value"] > 0xFFFF else f"{name} = {c['value']}"
              for name, c in spec.constants.items()]
    for name in ("poly", "init", "xorout"):
        if spec.crc16:
            lines.append(f"CRC16_{name.upper()} = 0x{spec.crc16[name]:04x}")
    if spec.registers:
        lines += ["", "", "class Reg(IntEnum):", '    """Byte offsets in the register BAR."""', ""]
        lines += [f"    {r.name} = 0x{r.raw['offset']:02x}" for r in spec.registers]
        lines += ["", "", "REG_RESET = {"]
        lines += [f"    Reg.{r.name}: 0x{r.raw['reset']:08x}," for r in spec.registers]
        lines += ["}"]
    lines += layout_table("REG_BITS", [r for r in spec.registers if r.bits])
    lines += layout_table("DOORBELL_BITS", [d for d in spec.doorbells if d.bits])
    lines += layout_table("INTERNAL", spec.internal)
    if spec.events:
        lines += ["", "", "class Ev(IntEnum):", '    """Kinds of observed events."""', ""]
        lines += [f"    {e.name.upper()} = {i}" for i, e in enumerate(spec.events)]
        lines += ["", ""]
    lines += layout_table("EVENTS", spec.events)
    for name, tree in (("LIMITS", spec.limits), ("PROFILES", spec.profiles)):
        lines += ["", f"{name} = Constants({{", *tree_lines(tree, 4), "})"]
    if spec.commands:
        lines += ["", "COMMANDS = {"]
        lines += [f"    AdminAqOpcode.{c['name']}: ({camel(c['request'])}, {camel(c['response'])}),"
                  for c in spec.commands]
        lines += ["}", "", "FEATURES = {"]
        lines += [f"    AdminAqFeatureId.{f['name']}: ({camel(f['get'] or 'none')}, "
                  f"{camel(f['set'] or 'none')})," for f in spec.features]
        lines += ["}"]
    lines += ["", "STRUCTS = {", "    cls.NAME: cls", "    for cls in ("]
    lines += [f"        {camel(s.name)}," for s in spec.structs.values()]
    return [*lines, "    )", "}"]


def module(spec):
    """Text of model/efa/defs.py."""
    lines = [
        f'"""{TITLE}."""',
        "",
        "from enum import IntEnum",
        "",
        "from efa.layout import (",
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
