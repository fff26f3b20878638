# SPDX-License-Identifier: Apache-2.0
"""Translates stores to the register BAR, and finds the admin rings and commands they announce."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from efa_cosim.layouts import defs
from efa_cosim.session.regions import ADMIN_RESPONSE, ASYNC_EVENT, REGISTER_RESPONSE, Region
from efa_cosim.session.result import Difference
from efa_cosim.session.translation import Unplayable

if TYPE_CHECKING:
    from efa_cosim.boundary.backend import Store
    from efa_cosim.session.device_state import DeviceState
    from efa_cosim.session.step import Step

Reg = defs.Reg


class MemoryImage(NamedTuple):
    """Bytes of host memory that the device reads."""

    address: int
    data: bytes


class RegisterStores:
    """The register BAR of one device, as its host has stored to it.

    - `state`: that of the device; register stores change its rings and its admin vector

    `in_reset` is True from a reset by DEV_CTL until the host clears DEV_CTL.
    """

    def __init__(self, state: DeviceState) -> None:
        self._state = state
        self._values: Counter[int] = Counter()
        self._aq_base = self._aq_depth = self._aq_produced = 0
        self.in_reset = False

    def reset(self) -> None:
        """Removes everything that the host has set up, as a device reset does."""
        self._state.reset()
        self._values.clear()
        self._aq_base = self._aq_depth = self._aq_produced = 0
        self.in_reset = False

    def translate(self, step: Step, data: bytes) -> Store | None:
        """Returns the store for the current device, None if it is not played; tracks its effect."""
        if len(data) != 4 or step.offset not in Reg._value2member_map_:
            return (step.bar, step.offset, data)
        register, value = Reg(step.offset), step.value
        previous, self._values[register] = self._values[register], value
        if register == Reg.AENQ_CONS_DB and value:
            return None
        if register in (Reg.MMIO_RESP_LO, Reg.MMIO_RESP_HI):
            self._set_ring(REGISTER_RESPONSE, Reg.MMIO_RESP_LO, Reg.MMIO_RESP_HI,
                           defs.AdminMmioReqReadLessResp.SIZE, 1)
        elif register == Reg.AQ_CAPS:
            aq = defs.REG_BITS.AQ_CAPS.unpack(value)
            if aq.AQ_ENTRY_SIZE != defs.AdminAqEntry.SIZE:
                raise Unplayable(f"admin queue entries of {aq.AQ_ENTRY_SIZE} bytes, only "
                                 f"{defs.AdminAqEntry.SIZE} are supported")
            self._aq_base = self._address(Reg.AQ_BASE_LO, Reg.AQ_BASE_HI)
            self._aq_depth, self._aq_produced = aq.AQ_DEPTH, 0
        elif register == Reg.ACQ_CAPS:
            acq = defs.REG_BITS.ACQ_CAPS.unpack(value)
            self._state.admin_vector = acq.ACQ_MSIX_VECTOR
            self._set_ring(ADMIN_RESPONSE, Reg.ACQ_BASE_LO, Reg.ACQ_BASE_HI, acq.ACQ_ENTRY_SIZE,
                           acq.ACQ_DEPTH)
        elif register == Reg.AENQ_CAPS:
            aenq = defs.REG_BITS.AENQ_CAPS.unpack(value)
            self._set_ring(ASYNC_EVENT, Reg.AENQ_BASE_LO, Reg.AENQ_BASE_HI, aenq.AENQ_ENTRY_SIZE,
                           aenq.AENQ_DEPTH)
        elif register == Reg.DEV_CTL:
            resets = bool(defs.REG_BITS.DEV_CTL.unpack(value).DEV_RESET)
            if resets:
                self.reset()
            self.in_reset = resets
        elif register == Reg.AQ_PROD_DB:
            self._aq_produced = previous
        elif register == Reg.EQ_DB:
            arm = defs.REG_BITS.EQ_DB.unpack(value)
            value = defs.REG_BITS.EQ_DB.pack(
                EQN=self._state.translation.number("eq", arm.EQN), ARM=arm.ARM)
        return (step.bar, step.offset, value.to_bytes(4, "little"))

    def commands(self, step: Step) -> list[MemoryImage]:
        """Returns the commands that an AQ doorbell posts, with translated numbers; none for another
        store."""
        if step.bar != defs.EFA_REG_BAR or step.offset != Reg.AQ_PROD_DB:
            return []
        if not self._aq_depth:
            raise Unplayable("AQ doorbell received before AQ_CAPS enabled the admin queue")
        size = defs.AdminAqEntry.SIZE
        # A device may read several commands at once.
        recorded = {address + at: (line, data[at : at + size])
                    for line, address, data in step.memory for at in range(0, len(data), size)}
        commands = []
        for count in range(self._aq_produced, step.value):
            address = self._aq_base + count % self._aq_depth * size
            line, data = recorded.get(address, (step.line, b""))
            if len(data) != size:
                raise Difference(line, f"the admin command at {address:#x} is not in the session")
            self._state.position.line = line
            commands.append(MemoryImage(address, self._state.translation.command(data)))
        return commands

    def in_aq(self, address: int) -> bool:
        """Returns True if an address is inside the admin queue."""
        return self._aq_base <= address < self._aq_base + self._aq_depth * defs.AdminAqEntry.SIZE

    def _address(self, low: Reg, high: Reg) -> int:
        return self._values[high] << 32 | self._values[low]

    def _set_ring(self, kind: str, low: Reg, high: Reg, entry_bytes: int, count: int) -> None:
        regions = self._state.regions
        regions.remove(kind)
        regions.add(Region(kind, self._address(low, high), entry_bytes, count))
