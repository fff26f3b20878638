# SPDX-License-Identifier: Apache-2.0
"""The driver's admin queue: submits commands and matches responses by command id."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from efa_cosim.host.rings import ConsumerRing
from efa_cosim.layouts import defs
from efa_cosim.layouts.codec import crc16

if TYPE_CHECKING:
    from efa_cosim.boundary.memory import CpuMemory
    from efa_cosim.host.alloc import HostAllocator
    from efa_cosim.layouts.layout import Struct

CONTEXT_BITS = (defs.EFA_ADMIN_QUEUE_DEPTH - 1).bit_length()
COMMAND_ID_MASK = defs.AdminAqCommonDesc.command_id__command_id.mask
PRODUCER_MASK = 0xFFFF
OPCODES: dict[type[object], int] = {
    command: opcode for opcode, (command, _) in reversed(defs.COMMANDS.items())
}


class Request(Protocol):
    """An admin command as the driver builds it: one of defs.Admin...Cmd."""

    @property
    def aq_common(self) -> defs.AdminAqCommonDesc:
        """The header of the command."""

    def pack(self, size: int | None = None) -> bytes:
        """The bytes, padded with zeros to size if given."""


class DriverError(Exception):
    """The device refused a command or failed; `status` is the admin status, None without one."""

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


class Command:
    """One submitted command; `response` is set when the command completes."""

    def __init__(self, opcode: int, command_id: int, response_type: type[Struct]) -> None:
        self.opcode, self.command_id = opcode, command_id
        self.response_type = response_type
        self.response: Struct | None = None
        self.status: int | None = None

    @property
    def name(self) -> str:
        """Name of the opcode, or its number if it has no name."""
        return self.opcode.name if isinstance(self.opcode, defs.AdminAqOpcode) else (
            f"opcode {self.opcode}")

    @property
    def done(self) -> bool:
        """True once the response has arrived."""
        return self.status is not None

    def result(self) -> Struct:
        """The response; raises DriverError if the device refused the command."""
        if self.response is None:
            raise DriverError(f"{self.name} has not completed: wait for its response first")
        if self.status != defs.AdminAqCompletionStatus.SUCCESS:
            shown = getattr(self.status, "name", self.status)
            raise DriverError(f"{self.name}: {shown}", self.status)
        return self.response


class AdminQueue:
    """AQ and ACQ in host memory, up to `depth` commands outstanding (a power of two, at most 32).

    `write_register(reg, value)` writes a device register. `check_crc` and `wide` (128-byte
    entries) follow from the VERSION register.
    """

    def __init__(
        self,
        memory: CpuMemory,
        allocator: HostAllocator,
        write_register: Callable[[defs.Reg, int], object],
        check_crc: bool,
        wide: bool = False,
        depth: int = defs.EFA_ADMIN_QUEUE_DEPTH,
    ) -> None:
        self.depth = depth
        self._memory, self._write_register = memory, write_register
        self._check_crc = check_crc
        self.entry = defs.AdminAqEntryV2 if wide else defs.AdminAqEntry
        self.aq_base = allocator.alloc(self.depth * self.entry.SIZE)
        self._acq = ConsumerRing(
            memory, allocator.alloc(self.depth * defs.AdminAcqEntry.SIZE), self.depth,
            defs.AdminAcqEntry, lambda entry: entry.acq_common_descriptor.phase)
        self._allocator = allocator
        self._produced = 0
        self._contexts: list[Command | None] = [None] * self.depth
        self.strays: list[str] = []

    def enable_aq(self) -> None:
        """Writes the registers of the submission ring: base low, base high, then AQ_CAPS."""
        self._write_base(defs.Reg.AQ_BASE_LO, defs.Reg.AQ_BASE_HI, self.aq_base)
        self._write_register(defs.Reg.AQ_CAPS, defs.REG_BITS.AQ_CAPS.pack(
            AQ_DEPTH=self.depth, AQ_ENTRY_SIZE=self.entry.SIZE))

    def enable_acq(self) -> None:
        """Writes the registers of the completion ring, ACQ_CAPS last."""
        self._write_base(defs.Reg.ACQ_BASE_LO, defs.Reg.ACQ_BASE_HI, self._acq.base)
        self._write_register(defs.Reg.ACQ_CAPS, defs.REG_BITS.ACQ_CAPS.pack(
            ACQ_DEPTH=self.depth, ACQ_ENTRY_SIZE=defs.AdminAcqEntry.SIZE,
            ACQ_MSIX_VECTOR=defs.EFA_MGMNT_MSIX_VEC_IDX))

    def _write_base(self, low: defs.Reg, high: defs.Reg, address: int) -> None:
        self._write_register(low, address & 0xFFFF_FFFF)
        self._write_register(high, address >> 32)

    @property
    def outstanding(self) -> int:
        """Number of commands without a response."""
        return sum(context is not None for context in self._contexts)

    @property
    def full(self) -> bool:
        """True while no further command can be submitted."""
        return None not in self._contexts

    def submit(self, request: Request, corrupt: int | None = None) -> Command:
        """Writes a command to the ring, writes the doorbell and returns its Command.

        `corrupt` inverts the entry's byte at that offset after the checksum was computed.
        """
        # Two commands share a layout: such a request carries its opcode.
        opcode = request.aq_common.opcode or OPCODES[type(request)]
        slot = self._contexts.index(None)
        wrap, place = divmod(self._produced, self.depth)
        header = request.aq_common
        header.command_id = (slot | self._produced << CONTEXT_BITS) & COMMAND_ID_MASK
        header.opcode = opcode
        header.phase = 1 - wrap % 2
        _, response = defs.COMMANDS.get(opcode, (None, defs.AdminAcqEntry))
        command = Command(opcode, int(header.command_id), response)
        self._contexts[slot] = command
        image = request.pack(defs.AdminAqEntry.SIZE)
        if self.entry is defs.AdminAqEntryV2:
            image = widened(image)
        if corrupt is not None:
            image = image[:corrupt] + bytes([image[corrupt] ^ 0xFF]) + image[corrupt + 1 :]
        self._memory.write(self.aq_base + place * self.entry.SIZE, image)
        self._produced = self._produced + 1 & 0xFFFF_FFFF
        self._write_register(defs.Reg.AQ_PROD_DB, self._produced & PRODUCER_MASK)
        return command

    @property
    def place(self) -> int:
        """Slot of the next command in the ring."""
        return self._produced % self.depth

    def cancel(self, command: Command) -> None:
        """Releases the slot of a command whose response will not arrive."""
        self._contexts[self._contexts.index(command)] = None

    def drain(self) -> None:
        """Consumes every response that has arrived; unexpected ones go to `strays`."""
        while (entry := self._acq.take()) is not None:
            header = entry.acq_common_descriptor
            if self._check_crc and not crc_matches(entry):
                self.strays.append(f"response {header!r} with a wrong checksum")
                continue
            slot = header.command_id & self.depth - 1
            command = self._contexts[slot]
            if command is None or command.command_id != header.command_id:
                self.strays.append(f"response to unknown command {header.command_id:#x}")
                continue
            self._contexts[slot] = None
            command.response = command.response_type.unpack(entry.pack())
            command.status = header.status

    def free(self) -> None:
        """Frees the rings; the device must have been reset."""
        self._allocator.free(self.aq_base)
        self._allocator.free(self._acq.base)


def widened(image: bytes) -> bytes:
    """The 128-byte form of a 64-byte command: payload 8 bytes later, checksum over all bytes."""
    common = defs.AdminAqCommonDesc.SIZE
    wide = bytearray(defs.AdminAqEntryV2.SIZE)
    wide[:common] = image[:common]
    payload = defs.AdminAqEntryV2.request_payload.offset
    wide[payload : payload + len(image) - common] = image[common:]
    defs.AdminAqCommonDescV2.over(wide).checksum = crc16(wide)
    return bytes(wide)


def crc_matches(entry: defs.AdminAcqEntry) -> bool:
    """True if the checksum of an ACQ entry is correct."""
    clean = defs.AdminAcqEntry.unpack(entry.pack())
    clean.acq_common_descriptor.checksum = 0
    return crc16(clean.pack()) == entry.acq_common_descriptor.checksum
