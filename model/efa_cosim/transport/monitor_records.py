# SPDX-License-Identifier: Apache-2.0
"""Holds what the monitor knows of the transmissions of a sender and of their paths."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import NamedTuple, TypeAlias

from efa_cosim.layouts import defs
from efa_cosim.layouts.fields import SrdHdrFields
from efa_cosim.transport.monitor_history import Recent

NEVER = 1 << 62
_RESPONSE = defs.PktOpcode.READ_RESPONSE
_RDMA = (defs.PktOpcode.RDMA_WRITE, defs.PktOpcode.READ_REQUEST)
_DATA_BYTES, _RDMA_BYTES = defs.SrdHdr.SIZE, defs.PktRdma.SIZE

# Fields that all transmissions of a packet have in common, and the RDMA header.
Content: TypeAlias = tuple[int, int, int, int, int, int, int, bytes]


def content_of(packet: bytes, data: SrdHdrFields) -> Content:
    """Returns the content of a data packet with the header `data`."""
    header = packet[_DATA_BYTES : _DATA_BYTES + _RDMA_BYTES] if data.opcode in _RDMA else b""
    return (data.opcode, data.flags, data.length, data.src_qpn, data.dst_qpn, data.qkey, data.imm,
            header)  # fmt: skip


def may_repeat(before: Content, content: Content) -> bool:
    """Returns whether a later transmission may have this content."""
    if content == before:
        return True
    # The memory of a read response may have gone: then it has no payload.
    hollow = content[0] == _RESPONSE and content[2] == _RDMA_BYTES
    return hollow and before[:2] + before[3:] == content[:2] + content[3:]


class Place(NamedTuple):
    """A transmission that the sender may have recorded as the last one.

    - `order`: an order number that counts probes, too; `sure`: one that leaves out what may be one
    - `since`: cycle from which on it may have been decided; `cycle`: in which it has left
    - `serial`: number of the transmission among those of the session
    """

    path: int
    order: int
    sure: int
    since: int
    cycle: int
    serial: int


class Record:
    """A PSN that is not resolved."""

    __slots__ = ("content", "message", "once", "places")

    def __init__(self, content: Content, message: Hashable | None, place: Place) -> None:
        self.content, self.message = content, message
        self.once = True
        # Two or more: the monitor cannot distinguish a probe from a retransmission.
        self.places = [place]


class PathView:
    """Order numbers of a path; differences of `order` are upper bounds, those of `sure` lower.

    `newest` may be the newest one, `newest_sure` is not above it.
    """

    __slots__ = ("limit", "newest", "newest_sure", "order", "silent", "silent_limit", "sure")

    def __init__(self, reaction: int) -> None:
        self.order = self.sure = 0
        self.newest = -1
        self.newest_sure = Recent(-1, reaction)
        # A packet with an order below `limit` may have been lost by case 1.
        self.limit = -NEVER
        # Transmissions after `newest`; those before `silent_limit` may have been lost as silent.
        self.silent: deque[Place] = deque()
        self.silent_limit = -NEVER
