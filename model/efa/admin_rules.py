# SPDX-License-Identifier: Apache-2.0
"""How an admin command is refused: the checks that commands are made of."""

from efa import defs

_Status = defs.AdminAqCompletionStatus
_CAPS = defs.AdminFeatureDeviceAttrDesc


class Refusal(Exception):
    """A command ends with this status and has changed nothing."""

    def __init__(self, status):
        super().__init__(status.name)
        self.status = status


def commands(table):
    """A mark for functions that carry out an opcode: it puts them into the table."""

    def command(opcode):
        def mark(function):
            table[opcode] = function
            return function

        return mark

    return command


def well_formed(condition):
    """Refuses what sets flags that this device does not know how to follow."""
    if not condition:
        raise Refusal(_Status.MALFORMED_REQUEST)


def legal(condition):
    """Refuses a parameter."""
    if not condition:
        raise Refusal(_Status.ILLEGAL_PARAMETER)


def unused(condition):
    """Refuses to take away what another object names."""
    if not condition:
        raise Refusal(_Status.RESOURCE_BUSY)


def granted(resource):
    """Refuses when there is nothing left to give; returns what was found."""
    if resource is None:
        raise Refusal(_Status.RESOURCE_ALLOCATION_FAILURE)
    return resource


def capable(device, capability):
    """True when the device reports a capability of device_caps."""
    field = getattr(_CAPS, capability)
    return bool(device.profile.device_caps >> field.lsb & field.mask)


def aligned(address, alignment):
    """True for an address on a multiple of a power of two."""
    return not address & (alignment - 1)


def address_of(words):
    """The 64-bit address in two words."""
    return words.mem_addr_high << 32 | words.mem_addr_low
