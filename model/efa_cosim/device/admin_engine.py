# SPDX-License-Identifier: Apache-2.0
"""Executes the admin queue: consumes commands, writes responses, raises their interrupts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from efa_cosim.boundary.memory import HostReadError
from efa_cosim.device import admin, admin_counters, admin_regions
from efa_cosim.device.admin_rules import AdminError
from efa_cosim.device.async_events import AsyncEvents
from efa_cosim.device.ring import EntryRing, WorkRing, is_power_of_two
from efa_cosim.layouts import defs
from efa_cosim.layouts.codec import crc16
from efa_cosim.layouts.layout import Struct

if TYPE_CHECKING:
    from efa_cosim.device.device import Device

ENTRY_BYTES = defs.AdminAqEntry.SIZE
WIDE_ENTRY_BYTES = defs.AdminAqEntryV2.SIZE
CRC_VERSION = 2

_Anomaly = defs.AnomalyAdmin

COMMANDS = admin.COMMANDS | admin_regions.COMMANDS | admin_counters.COMMANDS

_Status = defs.AdminAqCompletionStatus


class AdminQueues:
    """AQ, ACQ and AENQ of a device, in the state after a reset."""

    aq: WorkRing | None
    acq: EntryRing | None
    # Opcode and slot of the command in execution; the opcode is None if its read failed.
    current: tuple[int | None, int]

    def __init__(self, device: Device) -> None:
        self.device = device
        self.aq = self.acq = None
        self.aq_base = self.acq_base = self.acq_vector = 0
        self.aq_entry_bytes = ENTRY_BYTES
        self.masked = self.held = self.held_event = False
        self.current = (None, 0)
        self.events = AsyncEvents(device, self._report_event)

    def _depth(self, depth: int, entry_bytes: int, *sizes: int) -> int | None:
        """The depth of a valid ring, None for an invalid one."""
        valid = entry_bytes in sizes and is_power_of_two(depth, self.device.limits.max_aq_depth)
        return depth if valid else None

    def _base(self, low: int, high: int) -> int:
        """Ring base, aligned down to the entry size: the low bits are ignored."""
        return self.device.register_pair(low, high) & -ENTRY_BYTES

    def configure_aq(self, value: int) -> None:
        """AQ_CAPS: enables the ring at its base address, or disables it."""
        caps = defs.REG_BITS.AQ_CAPS.unpack(value)
        depth = self._depth(caps.AQ_DEPTH, caps.AQ_ENTRY_SIZE, ENTRY_BYTES, WIDE_ENTRY_BYTES)
        self.aq = WorkRing(depth) if depth else None
        self.aq_entry_bytes = caps.AQ_ENTRY_SIZE
        self.aq_base = self._base(defs.Reg.AQ_BASE_LO, defs.Reg.AQ_BASE_HI)

    def configure_acq(self, value: int) -> None:
        """ACQ_CAPS: enables or disables the ring; executes commands that were pending for it."""
        caps = defs.REG_BITS.ACQ_CAPS.unpack(value)
        depth = self._depth(caps.ACQ_DEPTH, caps.ACQ_ENTRY_SIZE, ENTRY_BYTES)
        self.acq = EntryRing(depth) if depth else None
        self.acq_base = self._base(defs.Reg.ACQ_BASE_LO, defs.Reg.ACQ_BASE_HI)
        self.acq_vector = caps.ACQ_MSIX_VECTOR
        self.device.when_master(self._serve)

    def configure_aenq(self, value: int) -> None:
        """AENQ_CAPS: enables or disables the ring."""
        caps = defs.REG_BITS.AENQ_CAPS.unpack(value)
        depth = self._depth(caps.AENQ_DEPTH, caps.AENQ_ENTRY_SIZE, ENTRY_BYTES)
        base = self._base(defs.Reg.AENQ_BASE_LO, defs.Reg.AENQ_BASE_HI)
        self.events.configure(depth, base, caps.AENQ_MSIX_VECTOR)

    def ring(self, value: int) -> None:
        """AQ_PROD_DB: advances the producer index and executes the posted commands."""
        if self.aq is None or not self.aq.ring(value):
            self.device.event("anomaly_admin", what=_Anomaly.AQ_DOORBELL, detail=value)
        else:
            self.device.when_master(self._serve)

    def mask(self, value: int) -> None:
        """INTR_MASK: clearing the mask sends the messages that were held, one per vector."""
        self.masked = bool(defs.REG_BITS.INTR_MASK.unpack(value).EN)
        if not self.masked:
            vectors = {self.acq_vector} if self.held else set()
            vectors |= {self.events.vector} if self.held_event else set()
            self.held = self.held_event = False
            for vector in sorted(vectors):
                self.device.interrupts.raise_vector(vector)

    def snapshot(self) -> dict[str, Any]:
        """State that commands and events change; the ring indices are left out."""
        return {"masked": self.masked, "events": self.events.snapshot()}

    def _report_event(self) -> None:
        if self.masked:
            self.held_event = True
        else:
            self.device.interrupts.raise_vector(self.events.vector)

    def _serve(self) -> None:
        while self.aq is not None and self.acq is not None and self.aq.waiting:
            # The phase toggles at each wrap. A wrong phase is reported; the doorbell decides.
            phase = self.aq.consumed // self.aq.depth & 1 ^ 1
            slot = self.aq.take()
            self.aq.complete()
            size = self.aq_entry_bytes
            self.current = (None, slot)
            try:
                entry = self.device.memory.read(self.aq_base + slot * size, size)
            except HostReadError:
                self.device.event("anomaly_admin", what=_Anomaly.AQ_READ, detail=slot)
                self._respond(0, _Status.UNKNOWN_ERROR, None)
                continue
            self._execute(entry, phase, slot)

    def _execute(self, entry: bytes, phase: int, slot: int) -> None:
        device = self.device
        device.receives_changed = True
        common = defs.AdminAqCommonDesc.unpack(entry)
        self.current = (common.opcode, slot)
        command_id = common.command_id__command_id
        device.event("aqcmd", cmd_id=command_id, opcode=int(common.opcode))
        if common.phase != phase:
            device.event("anomaly_admin", what=_Anomaly.AQ_PHASE, detail=command_id)
        status, response = _Status.SUCCESS, None
        try:
            if len(entry) == WIDE_ENTRY_BYTES:
                entry = self._narrowed(entry)
            function = COMMANDS.get(common.opcode)
            if function is None:
                raise AdminError(_Status.UNSUPPORTED_OPCODE)
            response = function(device, defs.COMMANDS[common.opcode][0].unpack(entry))
        except AdminError as refusal:
            status = refusal.status
        except HostReadError:
            status = _Status.UNKNOWN_ERROR
        self._respond(command_id, status, response)

    def _narrowed(self, entry: bytes) -> bytes:
        """The 64-byte form of a 128-byte entry; refuses a wrong checksum or payload version."""
        image = bytearray(entry)
        header = defs.AdminAqCommonDescV2.over(image)
        checksum, header.checksum = header.checksum, 0
        if checksum != crc16(image) or header.payload_ver:
            command_id = header.common.command_id__command_id
            self.device.event("anomaly_admin", what=_Anomaly.AQ_CHECKSUM, detail=command_id)
            raise AdminError(_Status.MALFORMED_REQUEST)
        common, wide = defs.AdminAqCommonDesc.SIZE, defs.AdminAqCommonDescV2.SIZE
        return entry[:common] + entry[wide : wide + ENTRY_BYTES - common]

    def _respond(self, command_id: int, status: int, response: Struct | None) -> None:
        # A command is executed only while the ACQ is enabled.
        slot, phase = self.acq.reserve()  # type: ignore[union-attr]
        image = bytearray(response.pack(ENTRY_BYTES) if response else ENTRY_BYTES)
        header = defs.AdminAcqCommonDesc.over(image)
        header.command_id, header.status, header.phase = command_id, status, phase
        device = self.device
        if device.version >= CRC_VERSION:
            header.checksum = crc16(image)
        device.event("acq", cmd_id=command_id, status=int(status))
        device.dma_write(self.acq_base + slot * ENTRY_BYTES, bytes(image))
        if self.masked:
            self.held = True
        else:
            self.device.interrupts.raise_vector(self.acq_vector)
