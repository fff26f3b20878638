# SPDX-License-Identifier: Apache-2.0
"""Lengths and numbers of the packets of the reliable transport."""

from __future__ import annotations

from typing import Any, NamedTuple

from efa_cosim.layouts import defs
from efa_cosim.layouts.layout import Constants

FLIT_BYTES = 64
NUMBER_MASK = 0xFFFF
PSN_MASK = 0xFFFFFFFF
_PSN_HALF = 1 << 31
_NUMBER_HALF = 1 << 15

BITMAP_BYTES = defs.SrdAck.bitmap.size
# Causes of a malformed acknowledgement that depend on what its receiver has sent.
BY_SENDER = (defs.TransportAnomaly.SESSION, defs.TransportAnomaly.PSN)
# What follows the header, at most; the RDMA header is no payload.
MOST_BYTES: dict[int, int] = {
    defs.PktOpcode.UD_SEND: defs.LIMITS.max_mtu,
    defs.PktOpcode.SRD_SEND: defs.LIMITS.max_mtu,
    defs.PktOpcode.RDMA_WRITE: defs.PktRdma.SIZE + defs.LIMITS.max_mtu,
    defs.PktOpcode.READ_REQUEST: defs.PktRdma.SIZE + defs.LIMITS.max_mtu,
    defs.PktOpcode.READ_RESPONSE: defs.PktRdma.SIZE + defs.LIMITS.max_mtu,
}


class Start(NamedTuple):
    """First numbers of a node; the numbers are unsigned and wrap.

    - `number`: of the counter of incarnations and sessions, 16 bits, not 0
    - `psn`: of each session, 32 bits
    - `order`: of each path, 16 bits
    """

    number: int = 1
    psn: int = 0
    order: int = 0


def constants_with(**changes: int) -> defs.Transport:
    """Returns the constants of spec/transport.yaml with other values for some, by name."""
    changed: Any = Constants({**defs.TRANSPORT, **changes})
    found: defs.Transport = changed
    return found


def fits(packet: bytes, length: int) -> bool:
    """True if a data packet or datagram has the size of its field `length`, and not too many
    bytes."""
    size = len(packet) - defs.SrdHdr.SIZE
    return size == length and size <= MOST_BYTES.get(packet[0], 0)


def flits(packet: bytes) -> int:
    """Cycles of a packet at a port."""
    return (len(packet) + FLIT_BYTES - 1) // FLIT_BYTES


def psn_distance(a: int, b: int) -> int:
    """a - b of two PSNs, negative if a is older."""
    return (a - b + _PSN_HALF & PSN_MASK) - _PSN_HALF


def number_distance(a: int, b: int) -> int:
    """a - b of two sessions, incarnations or order numbers, negative if a is older."""
    return (a - b + _NUMBER_HALF & NUMBER_MASK) - _NUMBER_HALF
