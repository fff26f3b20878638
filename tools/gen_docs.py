# SPDX-License-Identifier: Apache-2.0
"""Writes the reference pages: the position of each bit and its names in Verilog and Python."""

import textwrap

from gen_python import camel, named_unions
from gen_verilog import TITLE, bit_range, literal_widths, scalar_macros, struct_macro
from spec_model import sub_field_name

INTRODUCTION = """
A bit range selects from the whole entry as one little-endian number: byte 0 is bits 7:0. Names
follow the public headers where those have a name. The literal of an enum is as wide as its widest
field. `_W<n>` exists for each other width in use and for the smallest width that holds all values.
"""

COMMANDS = """
Statuses of every admin command with their reasons, in the order of the checks, then the tests that
show them. A refused command changes no state: each of these tests compares the whole state.
`make lint` checks that statuses and tests match by name, `test_statuses.py` that each test produces
its statuses.
"""

NAMING = [
    ("struct", "EFA_IO_TX_META_DESC__BYTES, ..__BITS", "IoTxMetaDesc.SIZE, .pack(), .unpack()"),
    ("field", "EFA_IO_TX_META_DESC__REQ_ID", "meta.req_id"),
    ("bits of a field", "EFA_IO_TX_META_DESC__OP_TYPE", "meta.op_type"),
    ("bits, name used twice in the struct", "EFA_IO_TX_BUF_DESC__LKEY__LKEY", "buf.lkey__lkey"),
    ("single bit: its index", "EFA_IO_TX_META_DESC__PHASE", "meta.phase"),
    (
        "nested",
        "EFA_ADMIN_CREATE_QP_CMD__QP_ALLOC_SIZE__SEND_QUEUE_DEPTH",
        "cmd.qp_alloc_size.send_queue_depth",
    ),
    ("union member", "EFA_IO_TX_WQE__DATA__INLINE_DATA", "wqe.data.inline_data"),
    ("element, if at most 8", "EFA_IO_TX_WQE__DATA__SGL__1__LENGTH", "wqe.data.sgl[1].length"),
    ("enum value", "EFA_IO_COMP_STATUS__OK", "IoCompStatus.OK"),
    ("enum value in another width", "EFA_ADMIN_QP_STATE__RTS_W3", ""),
    ("register", "EFA_REG__AQ_CAPS, ..__RESET", "Reg.AQ_CAPS, REG_RESET[Reg.AQ_CAPS]"),
    ("register field", "EFA_REG__AQ_CAPS__AQ_DEPTH", "REG_BITS.AQ_CAPS.pack(AQ_DEPTH=32)"),
    ("doorbell field", "EFA_CQ_DB__ARM", "DOORBELL_BITS.CQ_DB.unpack(value).ARM"),
    ("limit", "EFA_LIMITS__MTT_W", "LIMITS.mtt_w"),
    ("profile value", "EFA_PROFILE__MTU(width, profile)", "PROFILES.default.mtu"),
    ("internal bus", "EFA_QPC__STATE, EFA_QPC__W", "INTERNAL.qpc.pack(state=3)"),
    ("event", "EFA_EV__WQE, EFA_EV__COUNT", "Ev.WQE, codec.decode_event(kind, data)"),
    ("event field", "EFA_EV_WQE__QPN, EFA_EV_WQE__W", "EVENTS.wqe.unpack(data).qpn"),
]


def text(value):
    """Escapes a description for a table cell."""
    return str(value or "").replace("|", "\\|").replace("<", "&lt;")


def table(*head):
    """Returns the first two lines of a table."""
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]


def row(*cells):
    """Returns one line of a table."""
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def reserved(bits, width):
    """Returns the named bits and the reserved ranges between them, sorted by position."""
    rows, position = [], 0
    for item in [*sorted(bits, key=lambda b: b.lsb), None]:
        lsb = item.lsb if item else width
        if lsb > position:
            rows.append((position, lsb - position, None))
        if item:
            rows.append((item.lsb, item.width, item))
            position = item.lsb + item.width
    return rows


def bits_rows(prefix, layout):
    """Yields one table row per range of bits."""
    for lsb, width, item in reserved(layout.bits, layout.width):
        if item is None:
            yield row(bit_range(lsb, width), "reserved", "", "")
            continue
        note = f"{item.desc or ''} {f'({item.enum})' if item.enum else ''}".strip()
        macro = f"`{prefix}__{item.name.upper()}`"
        yield row(bit_range(lsb, width), f"`{item.name}`", macro, text(note))


def shown(value, size):
    """Formats the value of a field of so many bytes, or its source."""
    return f"`{value}`" if isinstance(value, str) else f"`{value:#0{2 + 2 * size}x}`"


def registers(spec):
    """Returns the text of docs/registers.md."""
    lines = [f"<!-- {TITLE} -->", "# Registers and doorbells", ""]
    if spec.pci:
        lines += [
            f"PCI vendor `{spec.pci['vendor_id']:#06x}`, class "
            f"`{spec.pci['class_code']['value']:#08x}`.",
            "",
        ]
        lines += table("BAR", "content", "mapping", "notes")
        lines += [
            row(b["index"], b["name"], b["mapping"], text(b["note"])) for b in spec.pci["bars"]
        ]
    if spec.config_space:
        lines += ["", "## Configuration space", ""]
        lines += table("offset", "field", "after a reset", "writable", "meaning")
        lines += [
            row(f"`{r['offset']:#04x}`", f"`{r['name']}`", shown(r["value"], r["size"]),
                shown(r.get("writable", 0), r["size"]), text(r["doc"]))
            for r in spec.config_space
        ]  # fmt: skip
        lines += ["", "## Registers"]
    lines += ["", *table("offset", "register", "access", "reset", "meaning")]
    lines += [
        row(
            f"`0x{r.raw['offset']:02x}`",
            f"`{r.name}`",
            r.raw["access"],
            f"`0x{r.raw['reset']:08x}`",
            text(r.desc),
        )
        for r in spec.registers
    ]
    for register in spec.registers:
        if register.bits:
            lines += ["", f"## {register.name}", "", *table("bits", "field", "Verilog", "meaning")]
            lines += bits_rows(f"EFA_REG__{register.name}", register)
    for doorbell in spec.doorbells:
        lines += ["", f"## {doorbell.name}", ""]
        lines += [
            f"{doorbell.width} bits at `{doorbell.raw['offset']}` in BAR "
            f"`{doorbell.raw['bar']}`. {text(doorbell.desc)}".rstrip()
        ]
        if doorbell.bits:
            lines += ["", *table("bits", "field", "Verilog", "meaning")]
            lines += bits_rows(f"EFA_{doorbell.name}", doorbell)
    return "\n".join(lines) + "\n"


def enum_lines(enum):
    """Returns heading and table of an enum."""
    macro = f"{struct_macro(enum.name)}__{enum.values[0].short}"
    widths = literal_widths(enum)
    others = "".join(f", `.._W{width}`" for width in widths[1:])
    lines = ["", f"### {enum.name}", "", f"{text(enum.desc)}. " if enum.desc else ""]
    lines[-1] += f"Verilog `{macro}` ({widths[0]} bits){others}, Python `{camel(enum.name)}`."
    lines += ["", *table("value", "name", "public name", "meaning")]
    return lines + [row(v.value, f"`{v.short}`", f"`{v.full}`", text(v.desc)) for v in enum.values]


def kind(item):
    """Returns the type of a field, with a link if it is a struct."""
    many = f"[{item.count}]" if item.count is not None else ""
    if item.struct:
        return f"[{item.struct}](#{item.struct}){many}"
    order = ", big endian" if item.endian == "be" else ""
    return f"u{item.element_bytes * 8}{many}{order}"


def struct_lines(struct):
    """Returns heading and table of a struct."""
    lines = ["", f"### {struct.name}", ""]
    title = f"{text(struct.desc)}. " if struct.desc else ""
    macro = f"{struct_macro(struct.name)}__*"
    lines += [f"{title}{struct.size} bytes. Verilog `{macro}`, Python `{camel(struct.name)}`.", ""]
    lines += table("byte", "bits", "Verilog", "Python", "type", "meaning")
    unions = named_unions(struct)
    for item in struct.fields:
        group = item.name.split(".")[0]
        note = f"{item.desc} {f'(union {group})' if group in unions else ''}".strip()
        if item.enum:
            note = f"{note} [{item.enum}](#{item.enum})".strip()
        macro = item.name.replace(".", "__").upper()
        lines.append(
            row(
                item.offset,
                bit_range(item.offset * 8, item.size * 8),
                f"`{macro}`",
                f"`{item.name}`",
                kind(item),
                text(note),
            )
        )
        rows = reserved(item.bits, item.size * 8) if item.bits else []
        for lsb, width, bits in rows:
            place = bit_range(item.offset * 8 + lsb, width)
            if bits is None:
                lines.append(row("", place, "reserved", "", "", ""))
                continue
            path = sub_field_name(struct, item, bits)
            note = f"{bits.desc} {f'[{bits.enum}](#{bits.enum})' if bits.enum else ''}".strip()
            lines.append(
                row("", place, f"`{path.upper()}`", f"`{path}`", f"{width} bits", text(note))
            )
    return lines


def layouts(spec):
    """Returns the text of docs/layouts.md."""
    lines = [f"<!-- {TITLE} -->", "# Layouts", *INTRODUCTION.splitlines(), ""]
    lines += table("item", "Verilog", "Python (`efa_cosim.layouts.defs`)")
    lines += [row(what, f"`{macro}`", f"`{name}`" if name else "") for what, macro, name in NAMING]
    lines += ["", "## Enums"]
    for enum in spec.enums.values():
        lines += enum_lines(enum)
    sources = list(dict.fromkeys(struct.source for struct in spec.structs.values()))
    for source in sources:
        lines += ["", f"## Structs of {source}"]
        for struct in spec.structs.values():
            if struct.source == source:
                lines += struct_lines(struct)
    lines += ["", "## Buses inside the RTL"]
    for layout in spec.internal:
        lines += ["", f"### {layout.name}", "", f"{text(layout.desc)}. {layout.width} bits.", ""]
        lines += table("bits", "field", "Verilog", "meaning")
        lines += bits_rows(struct_macro(layout.name), layout)
    lines += ["", "## Events"]
    for number, event in enumerate(spec.events):
        lines += ["", f"### {number} {event.name}", "", f"{text(event.desc)}.", ""]
        lines += table("bits", "field", "Verilog", "meaning")
        lines += bits_rows(f"EFA_EV_{event.name.upper()}", event)
    lines += ["", "## Numbers", "", *table("Verilog", "value")]
    lines += [row(f"`{name}`", constant["value"]) for name, constant in spec.constants.items()]
    lines += [row(f"`{name}`", value) for name, value in scalar_macros("EFA_LIMITS", spec.limits)]
    for name, value in scalar_macros("EFA_TRANSPORT", spec.transport):
        lines.append(row(f"`{name}`", value))
    if spec.profiles:
        lines += ["", "## Profiles", "", *table("Verilog", *spec.profiles)]
        for key in next(iter(spec.profiles.values())):
            values = (tree[key] for tree in spec.profiles.values())
            lines.append(row(f"`EFA_PROFILE__{key.upper()}`", *values))
    return "\n".join(lines) + "\n"


def commands(spec):
    """Returns the text of docs/commands.md."""
    lines = [f"<!-- {TITLE} -->", "# Admin commands and their statuses", *COMMANDS.splitlines(), ""]
    opcodes = {command["name"]: command["opcode"] for command in spec.commands}
    lines += table("command", "opcode", "status", "reason")
    shown = []
    for name, rows in spec.command_statuses.items():
        head = (f"`{name}`", opcodes[name]) if name in opcodes else (f"{name} command", "")
        shown += ["", f"### {head[0]}"]
        for status, item in rows.items():
            lines.append(row(*head, f"`{status}`", text(item.get("when"))))
            tests = ", ".join(f"`{test}`" for test in item["tests"]) or "no test of its own"
            shown += textwrap.wrap(f"- `{status}`: {tests}", 120, subsequent_indent="  ")
            head = ("", "")
    for name in sorted(opcodes.keys() - spec.command_statuses.keys()):
        lines.append(row(f"`{name}`", opcodes[name], "`UNSUPPORTED_OPCODE`", "always"))
    lines += ["", "## Tests", "Those of the model (`model/tests`), by command and status.", *shown]
    return "\n".join(lines) + "\n"
