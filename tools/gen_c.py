# SPDX-License-Identifier: Apache-2.0
"""Writes the description as C constants for the transactors of the bench."""

from gen_verilog import LICENCE, TITLE, scalars, struct_macro
from spec_model import bare


def literal(value):
    """Formats a number, or a byte string as an initialiser."""
    if isinstance(value, str):
        return "{" + ", ".join(f"0x{byte:02x}" for byte in bytes.fromhex(value)) + "}"
    value = int(value)
    return f"0x{value:x}ull" if value >> 32 else f"{value}u"


def place(prefix, lsb, width):
    """Returns the lowest bit and the width of a field."""
    yield f"{prefix}__LSB", f"{lsb}u"
    yield f"{prefix}__WIDTH", f"{width}u"


def defines(spec):
    """Yields name and value of every constant; an empty name starts a group."""
    yield "", "numbers of this device"
    for name, constant in spec.constants.items():
        yield name, literal(constant["value"])
    for name, value in scalars("EFA_LIMITS", spec.limits):
        yield name, literal(value)
    for name, value in scalars("EFA_TRANSPORT", spec.transport):
        yield name, literal(value)
    yield "", "registers and doorbells"
    for register in spec.registers:
        prefix = f"EFA_REG__{register.name}"
        yield prefix, f"0x{register.raw['offset']:02x}u"
        yield f"{prefix}__RESET", f"0x{register.raw['reset']:08x}u"
        for bits in register.bits:
            yield from place(f"{prefix}__{bits.name}", bits.lsb, bits.width)
    for doorbell in spec.doorbells:
        for bits in doorbell.bits:
            yield from place(f"EFA_{doorbell.name}__{bits.name}", bits.lsb, bits.width)
    yield "", "enums"
    for enum in spec.enums.values():
        for value in enum.values:
            yield f"{struct_macro(enum.name)}__{value.short}", literal(value.value)
    yield "", "layouts: bit positions in the little-endian image of the struct"
    for struct in spec.structs.values():
        prefix = struct_macro(struct.name)
        yield f"{prefix}__BYTES", f"{struct.size}u"
        for flat in spec.flat(struct):
            yield from place(f"{prefix}__{flat.path.upper()}", flat.lsb, flat.width)
    yield "", "events"
    for index, event in enumerate(spec.events):
        yield f"EFA_EV__{event.name.upper()}", f"{index}u"
    yield "EFA_EV__COUNT", f"{len(spec.events)}u"
    for event in spec.events:
        for bits in event.bits:
            prefix = f"EFA_EV_{bare(event.name).upper()}__{bits.name.upper()}"
            yield from place(prefix, bits.lsb, bits.width)


def header(spec):
    """Returns the text of tb/native/efa_defs.h."""
    lines = [f"// {LICENCE}", f"/* {TITLE} */", "#ifndef EFA_DEFS_H", "#define EFA_DEFS_H"]
    for name, value in defines(spec):
        lines += [f"#define {name} {value}"] if name else ["", f"/* {value} */"]
    return "\n".join([*lines, "", "#endif", ""])
