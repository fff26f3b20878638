# SPDX-License-Identifier: Apache-2.0
"""Writes the layouts of packets and WQEs as named tuples, read and packed in one step.

An attribute of a struct of model/efa_cosim/layouts/defs.py costs a function call at each access.
The named tuples are for the layouts that the model reads for each message.
"""

from gen_python import camel, statement
from gen_verilog import LICENCE, TITLE
from spec_model import bare

# Names of structs; the model packs those of PACKED, too.
READ = ("efa_io_tx_meta_desc",)
PACKED = ("efa_pkt_hdr", "efa_pkt_rdma", "efa_srd_hdr", "efa_srd_ack")
_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}
# Attributes of a tuple that have the name of a field.
_OF_A_TUPLE = ("count", "index")


def _is_bytes(item):
    """Returns True for a byte string or a nested struct."""
    return item.is_bytes or item.struct is not None


def _format_name(struct):
    """Returns the name of the constant that holds the format of a struct."""
    return f"_{bare(struct.name).upper()}"


def _codes(struct):
    """Returns the format of a struct, for the module struct."""
    codes, end = "<", 0
    for item in struct.fields:
        padding = f"{item.offset - end}x" if item.offset > end else ""
        codes += padding + (f"{item.size}s" if _is_bytes(item) else _CODES[item.size])
        end = item.offset + item.size
    return codes + (f"{struct.size - end}x" if struct.size > end else "")


def _field(item):
    """Returns the declaration of a field."""
    hidden = item.name in _OF_A_TUPLE
    reason = f"  # type: ignore[assignment]  # hides tuple.{item.name}" if hidden else ""
    return f"{item.name}: {'bytes' if _is_bytes(item) else 'int'}{reason}"


def _argument(item):
    """Returns the declaration of an argument; without a value, a field is zero."""
    return f'{item.name}: bytes = b""' if _is_bytes(item) else f"{item.name}: int = 0"


def _pack_lines(struct, codes):
    """Formats the method that packs. Its arguments do not become a named tuple: that takes four
    times as long."""
    return [
        "",
        "    @staticmethod",
        *statement(4, "def pack(", ["*", *map(_argument, struct.fields)], ") -> bytes:"),
        f'        """Returns the {struct.size} bytes; a field without a value is zero."""',
        *statement(8, f"return {codes}.pack(", [item.name for item in struct.fields], ")"),
    ]


def _class(struct, packed):
    """Formats the named tuple of a struct."""
    name, codes = f"{camel(struct.name)}Fields", _format_name(struct)
    return [
        "",
        "",
        f"class {name}(NamedTuple):",
        f'    """Fields of {struct.name} ({struct.size} bytes)."""',
        "",
        *(f"    {_field(item)}" for item in struct.fields),
        "",
        "    @classmethod",
        "    def read(cls, image: Bytes, at: int = 0) -> Self:",
        '        """Reads the fields from offset `at` of an image."""',
        f"        return cls._make({codes}.unpack_from(image, at))",
        *(_pack_lines(struct, codes) if packed else []),
    ]


def module(spec):
    """Returns the text of model/efa_cosim/layouts/fields.py."""
    structs = [spec.structs[name] for name in (*READ, *PACKED) if name in spec.structs]
    lines = [
        f"# {LICENCE}",
        f'"""{TITLE}."""',
        "",
        "from struct import Struct",
        "from typing import NamedTuple, Self",
        "",
        "from efa_cosim.layouts.layout import Bytes",
        "",
        *(f'{_format_name(struct)} = Struct("{_codes(struct)}")' for struct in structs),
    ]
    for struct in structs:
        lines += _class(struct, struct.name in PACKED)
    return "\n".join(lines) + "\n"
