# SPDX-License-Identifier: Apache-2.0
"""Walks the register model on the device: reset values, access rights, side effects.

The register model is generated from spec/regs.yaml (tb/env/register_model.py). The profile and the
strap of the interface version replace reset values of read-only registers, as decision 0001 states.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from efa_cosim.host.driver import Driver
from efa_cosim.layouts import defs
from tb.env.difference import Difference
from tb.env.items import HostSequence
from tb.env.register_model import BarRegisters
from tb.lib.failure import Named

BAR = defs.EFA_REG_BAR
UNKNOWN_OFFSETS = (0x0C, 0x30, 0x44, 0x6C, 0x7C)
UNKNOWN_VALUE = 0xFFFF_FFFF
POLL_CYCLES, POLLS = 2000, 100
# Stores without effect on a device whose rings are disabled; a missing register accepts any value.
HARMLESS = {
    "AQ_CAPS": (3, 64 << 16 | 3), "ACQ_CAPS": (3, 64 << 16 | 3), "AENQ_CAPS": (3, 64 << 16 | 3),
    "AQ_PROD_DB": (0x2000, 0xDFFF), "AENQ_CONS_DB": (1, 0xFFFF_FFFF), "INTR_MASK": (1, 0),
    "DEV_CTL": (2, 0), "EQ_DB": (7, 0xFFFF),
}  # fmt: skip
# A store to these has an effect that its own check covers.
CHECKED_ALONE = ("MMIO_REG_READ",)


def registers_of(profile: str = "default", interface: int = 0) -> BarRegisters:
    """Returns the register model of a device with these straps."""
    block = BarRegisters("registers")
    block.build()
    values, caps = defs.PROFILES[profile], defs.REG_BITS.CAPS
    resets = {
        "VERSION": interface or values.version,
        "CONTROLLER_VERSION": values.controller_version,
        "CAPS": caps.pack(
            CONTIGUOUS_QUEUE_REQUIRED=1, RESET_TIMEOUT=values.reset_timeout,
            DMA_ADDR_WIDTH=values.dma_addr_width, ADMIN_CMD_TO=values.admin_cmd_to,
        ),
    }  # fmt: skip
    for name, value in resets.items():
        for field in block.get_reg_by_name(name).get_fields():
            field.set_reset(value >> field.get_lsb_pos())
    return block


def readable(register: Any) -> bool:
    """True for a register that the host can read; all others read 0."""
    return register.get_fields()[0].get_access() == "RO"


class RegisterWalk(HostSequence):
    """Checks every register of the model, in a random order drawn from the seed."""

    def __init__(
        self,
        backends: Sequence[Any],
        seed: int,
        profile: str = "default",
        interface: int = 0,
    ) -> None:
        super().__init__("register_walk")
        self.backend, self.random = backends[0], random.Random(seed)
        self.block = registers_of(profile, interface)
        self.registers = self.block.get_registers()
        self.expected = {one: one.get_reset() if readable(one) else 0 for one in self.registers}
        self.driver = Driver(self.backend)

    async def body(self) -> None:
        await self.do(self.backend.set_bus_master, True)
        await self.do(self.unchanged, "at power-on")
        await self.do(self.driver.set_response_address)
        order = self.random.sample(self.registers, len(self.registers))
        for register in order:
            await self.do(self.access, register)
        await self.do(self.unknown_offsets)
        await self.do(self.driver.set_response_address)
        for register in order:
            await self.do(self.read_less, register)
        await self.do(self.reset)
        await self.do(self.function_reset)

    def read(self, register: Any) -> int:
        """Returns the value of a register by a load."""
        size = register.get_n_bytes()
        return int.from_bytes(self.backend.load(BAR, self.place(register), size), "little")

    def write(self, register: Any, value: int) -> None:
        """Stores a value to a register."""
        size = register.get_n_bytes()
        self.backend.store(BAR, self.place(register), value.to_bytes(size, "little"))

    def place(self, register: Any) -> int:
        """Returns the offset of a register in its BAR."""
        return self.block.bar.get_reg_map_info(register).offset

    def compare(self, register: Any, found: int, when: str) -> None:
        """Fails with the first field of a register that differs from the model."""
        expected = self.expected[register]
        if found == expected:
            return
        for field in register.get_fields():
            mask, lsb = (1 << field.get_n_bits()) - 1, field.get_lsb_pos()
            pair = [f"{value >> lsb & mask:#x}" for value in (expected, found)]
            if pair[0] != pair[1]:
                raise Difference(
                    f"register {register.get_name()} {when}: {found:#010x}, not {expected:#010x}",
                    Named(f"{register.get_name()}.{field.get_name()}", *pair),
                )

    def unchanged(self, when: str) -> None:
        """Compares every register with the model."""
        for register in self.registers:
            self.compare(register, self.read(register), when)

    def access(self, register: Any) -> None:
        """Stores both values of each bit; no register that the host can read changes."""
        name = register.get_name()
        if name in CHECKED_ALONE:
            return
        drawn = self.random.getrandbits(32)
        for value in HARMLESS.get(name, (drawn, drawn ^ 0xFFFF_FFFF)):
            self.write(register, value)
            self.compare(register, self.read(register), f"after a store of {value:#x}")
        # A part of a dword has no effect either.
        self.backend.store(BAR, self.place(register) + 1, b"\xff")
        self.backend.settle()
        self.unchanged(f"after the stores to {name}")

    def unknown_offsets(self) -> None:
        """Stores to and reads offsets without a register."""
        for offset in UNKNOWN_OFFSETS:
            self.backend.store(BAR, offset, self.random.randbytes(4))
            found = int.from_bytes(self.backend.load(BAR, offset, 4), "little")
            if found != UNKNOWN_VALUE:
                raise Difference(
                    f"offset {offset:#x} without a register",
                    Named(f"offset {offset:#x}", f"{UNKNOWN_VALUE:#x}", f"{found:#x}"),
                )
        self.unchanged("after stores to unknown offsets")

    def read_less(self, register: Any) -> None:
        """Reads a register through host memory."""
        found = self.driver.read_register(self.place(register))
        self.compare(register, found, "by a read-less read")

    def status(self, when: str, **bits: int) -> None:
        """Waits until DEV_STS has these bits, then compares all registers."""
        register = self.block.get_reg_by_name("DEV_STS")
        self.expected[register] = defs.REG_BITS.DEV_STS.pack(READY=1, **bits)
        for _ in range(POLLS):
            if self.read(register) == self.expected[register]:
                break
            self.backend.pause(POLL_CYCLES)
        self.unchanged(when)

    def reset(self) -> None:
        """Resets through DEV_CTL: DEV_STS shows the steps, and the response address is cleared."""
        store = self.driver.write_register
        self.backend.settle()
        store(defs.Reg.DEV_CTL, defs.REG_BITS.DEV_CTL.pack(DEV_RESET=1))
        self.status("during a reset", RESET_IN_PROGRESS=1)
        store(defs.Reg.DEV_CTL, 0)
        self.status("after a reset", RESET_FINISHED=1)
        ident = self.random.getrandbits(16)
        request = defs.REG_BITS.MMIO_REG_READ.pack(REQ_ID=ident, REG_OFF=int(defs.Reg.CAPS))
        store(defs.Reg.MMIO_REG_READ, request)
        self.backend.settle()
        layout = defs.AdminMmioReqReadLessResp
        found = layout.unpack(self.backend.memory.read(0, layout.SIZE))
        if (found.req_id, found.reg_off) != (ident, defs.Reg.CAPS):
            raise Difference(
                "response address after a reset",
                Named("MMIO_RESP", f"0, response {ident:#x}", f"response {found.req_id:#x} at 0"),
            )
        caps = self.block.get_reg_by_name("CAPS")
        self.compare(caps, found.reg_val, "by a read-less read after a reset")

    def function_reset(self) -> None:
        """Does a function-level reset: all registers have their reset values again."""
        self.backend.flr()
        self.status("after a function-level reset")
