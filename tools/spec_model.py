# SPDX-License-Identifier: Apache-2.0
"""Defines the parts of the description and their names."""

from dataclasses import dataclass, field

MAX_NAMED_ELEMENTS = 8
# The rows of command_statuses that are valid for every command.
EVERY_COMMAND = "every"


class SpecError(Exception):
    """Reports contradictions in the description; the text names each place."""


@dataclass
class Bits:
    """A bit range: part of a register, of a field, of a bus or of an event."""

    name: str
    lsb: int
    width: int
    desc: str = ""
    enum: str | None = None


@dataclass
class Field:
    """A field of a byte layout; count is None for a single value."""

    name: str
    offset: int
    size: int
    element_bytes: int
    count: int | None
    struct: str | None
    endian: str
    union: str | None
    enum: str | None
    desc: str
    bits: list[Bits] = field(default_factory=list)

    @property
    def is_bytes(self):
        """Returns True for a byte string, which has no numeric meaning."""
        return self.endian == "bytes" or (self.endian == "be" and self.count is not None)


@dataclass
class Struct:
    """A byte layout at the interface of the device."""

    name: str
    size: int
    desc: str
    source: str
    fields: list[Field] = field(default_factory=list)
    raw: dict = field(default_factory=dict)


@dataclass
class Layout:
    """Bits packed into one number: a register, a doorbell, an internal bus or an event."""

    name: str
    width: int
    desc: str
    source: str
    bits: list[Bits] = field(default_factory=list)
    raw: dict = field(default_factory=dict)


@dataclass
class EnumValue:
    """One named value; `full` is the name in the public headers, `short` the name in this project.
    """

    full: str
    short: str
    value: int
    desc: str


@dataclass
class Enum:
    """A set of named values and the field widths it is used with, widest first."""

    name: str
    desc: str
    source: str
    values: list[EnumValue]
    widths: list[int] = field(default_factory=list)


@dataclass
class Flat:
    """One addressable bit range of a layout without nesting."""

    path: str
    lsb: int
    width: int


@dataclass
class Spec:
    """The contents of spec/, in the order of the files."""

    structs: dict[str, Struct] = field(default_factory=dict)
    enums: dict[str, Enum] = field(default_factory=dict)
    constants: dict[str, dict] = field(default_factory=dict)
    registers: list[Layout] = field(default_factory=list)
    doorbells: list[Layout] = field(default_factory=list)
    internal: list[Layout] = field(default_factory=list)
    events: list[Layout] = field(default_factory=list)
    commands: list[dict] = field(default_factory=list)
    features: list[dict] = field(default_factory=list)
    command_statuses: dict = field(default_factory=dict)
    pci: dict = field(default_factory=dict)
    config_space: list[dict] = field(default_factory=list)
    crc16: dict = field(default_factory=dict)
    limits: dict = field(default_factory=dict)
    profiles: dict = field(default_factory=dict)
    transport: dict = field(default_factory=dict)

    def flat(self, struct):
        """Returns every named bit range of a struct; nested structures become paths."""
        result = []
        for item in struct.fields:
            name = item.name.replace(".", "__")
            result.append(Flat(name, item.offset * 8, item.size * 8))
            for bits in item.bits:
                path = sub_field_name(struct, item, bits)
                result.append(Flat(path, item.offset * 8 + bits.lsb, bits.width))
            if item.count is None:
                result += self._nested(item, name, item.offset)
            elif item.count <= MAX_NAMED_ELEMENTS:
                for index in range(item.count):
                    offset = item.offset + index * item.element_bytes
                    path = f"{name}__{index}"
                    result.append(Flat(path, offset * 8, item.element_bytes * 8))
                    result += self._nested(item, path, offset)
        return result

    def _nested(self, item, path, offset):
        if item.struct is None:
            return []
        inner = self.flat(self.structs[item.struct])
        return [Flat(f"{path}__{f.path}", offset * 8 + f.lsb, f.width) for f in inner]

    def structs_inner_first(self):
        """Returns the structs in an order in which each struct follows the structs it contains."""
        done = {}

        def visit(struct):
            for item in struct.fields:
                if item.struct and item.struct not in done:
                    visit(self.structs[item.struct])
            done.setdefault(struct.name, struct)

        for struct in self.structs.values():
            visit(struct)
        return list(done.values())


def bare(name):
    """Returns the name without the efa_ prefix of the public names."""
    return name.removeprefix("efa_")


def sub_field_name(struct, item, bits):
    """Returns the name of a bit sub-field: its own where that is unique in the struct, else
    field__sub."""
    taken = [f.name.split(".")[0] for f in struct.fields]
    taken += [b.name for f in struct.fields for b in f.bits]
    if taken.count(bits.name) > 1:
        return f"{item.name.replace('.', '__')}__{bits.name}"
    return bits.name


def short_names(enum_name, names):
    """Returns value names without the part that repeats the enum or is shared by all values."""
    prefix = ""
    if all(name.startswith("EFA_") for name in names):
        parts = [name.split("_")[:-1] for name in names]
        if len(names) == 1:
            parts.append(enum_name.upper().split("_"))
        shared = []
        for column in zip(*parts, strict=False):
            if len(set(column)) > 1:
                break
            shared.append(column[0])
        prefix = "_".join(shared) + "_"
    return [name.removeprefix(prefix) for name in names]
