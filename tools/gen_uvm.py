# SPDX-License-Identifier: Apache-2.0
"""Writes the UVM register model of the bench from spec/regs.yaml."""

from typing import NamedTuple

from gen_verilog import TITLE

START = '''# SPDX-License-Identifier: Apache-2.0
# {title}
"""Register model of BAR 0: registers with offset, access, reset value and fields."""

from typing import NamedTuple

from pyuvm import uvm_endianness_e, uvm_reg, uvm_reg_block, uvm_reg_field

WIDTH = {width}


class Field(NamedTuple):
    """Bits of a register, with their reset value."""

    name: str
    lsb: int
    width: int
    reset: int


class BarRegisters(uvm_reg_block):
    """The registers of BAR {bar}; `build` creates them and their address map."""

    def build(self) -> None:
        """Creates registers and fields; bits without a name are fields `reserved_LSB`."""
        little = uvm_endianness_e.UVM_LITTLE_ENDIAN
        self.bar = self.create_map("bar{bar}", 0, WIDTH // 8, little)
'''
END = '''        self.lock_model()

    def _add(self, name: str, offset: int, access: str, *fields: Field) -> uvm_reg:
        """Adds a register."""
        register = uvm_reg(name, WIDTH)
        register.configure(self)
        for one in fields:
            part = uvm_reg_field(one.name)
            part.configure(
                register, one.width, one.lsb, access, False, one.reset, True, False, False
            )
        # Every register completes reads and ignores stores that its access does not permit.
        self.bar.add_reg(register, offset, "RW")
        return register
'''


class Field(NamedTuple):
    """A bit range of a register, with its reset value."""

    name: str
    lsb: int
    width: int
    reset: int


def fields_of(register, width):
    """Returns the Field of each bit range, with the bits without a name."""
    reset, rows, at = register.raw["reset"], [], 0
    named = sorted((bits.lsb, bits.width, bits.name) for bits in register.bits)
    for lsb, size, name in [*named, (width, 0, None)]:
        if lsb > at:
            rows.append(("value" if not named else f"reserved_{at}", at, lsb - at))
        if name is not None:
            rows.append((name, lsb, size))
        at = lsb + size
    return [Field(name, lsb, size, reset >> lsb & (1 << size) - 1) for name, lsb, size in rows]


def registers(spec):
    """Returns the text of tb/env/register_model.py."""
    width = spec.registers[0].width if spec.registers else 32
    lines = []
    for register in spec.registers:
        access = register.raw["access"].upper()
        name, offset = register.name, register.raw["offset"]
        lines.append(f"        self.{name} = self._add(")
        lines.append(f'            "{name}", 0x{offset:02X}, "{access}",')
        lines += [
            f'            Field("{one.name}", {one.lsb}, {one.width}, 0x{one.reset:X}),'
            for one in fields_of(register, width)
        ]
        lines.append("        )  # fmt: skip")
    bar = spec.constants.get("EFA_REG_BAR", {"value": 0})["value"]
    start = START.format(title=TITLE, width=width, bar=bar)
    return start + "\n".join(lines) + "\n" + END
