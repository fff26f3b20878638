# SPDX-License-Identifier: Apache-2.0
"""Checks of admin commands; each failed check raises AdminError with its status."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from efa_cosim.layouts import defs
from efa_cosim.layouts.layout import Struct

if TYPE_CHECKING:
    from efa_cosim.device.device import Device

Command: TypeAlias = "Callable[[Device, Any], Struct | None]"

_Command = TypeVar("_Command", bound="Command")
_Resource = TypeVar("_Resource")

_Status = defs.AdminAqCompletionStatus
_CAPS = defs.AdminFeatureDeviceAttrDesc


class AdminError(Exception):
    """Ends a command with this status; the command has changed no state."""

    def __init__(self, status: defs.AdminAqCompletionStatus) -> None:
        super().__init__(status.name)
        self.status = status


def commands(table: dict[int, Command]) -> Callable[[int], Callable[[_Command], _Command]]:
    """Returns a decorator that adds the function of an opcode to the table."""

    def command(opcode: int) -> Callable[[_Command], _Command]:
        def mark(function: _Command) -> _Command:
            table[opcode] = function
            return function

        return mark

    return command


def well_formed(condition: object) -> None:
    """Refuses unsupported or inconsistent flags (MALFORMED_REQUEST)."""
    if not condition:
        raise AdminError(_Status.MALFORMED_REQUEST)


def valid(condition: object) -> None:
    """Refuses an invalid parameter (ILLEGAL_PARAMETER)."""
    if not condition:
        raise AdminError(_Status.ILLEGAL_PARAMETER)


def unused(condition: object) -> None:
    """Refuses to destroy an object that another object refers to (RESOURCE_BUSY)."""
    if not condition:
        raise AdminError(_Status.RESOURCE_BUSY)


def granted(resource: _Resource | None) -> _Resource:
    """Refuses if no resource is free (RESOURCE_ALLOCATION_FAILURE); returns the resource."""
    if resource is None:
        raise AdminError(_Status.RESOURCE_ALLOCATION_FAILURE)
    return resource


def capable(device: Device, capability: str) -> bool:
    """True if the device reports the capability in device_caps."""
    field = getattr(_CAPS, capability)
    return bool(device.profile.device_caps >> field.lsb & field.mask)


def aligned(address: int, alignment: int) -> bool:
    """True if the address is a multiple of the alignment (a power of two)."""
    return not address & (alignment - 1)


def address_of(words: defs.CommonMemAddr) -> int:
    """The 64-bit address in a low and a high word."""
    return words.mem_addr_high << 32 | words.mem_addr_low
