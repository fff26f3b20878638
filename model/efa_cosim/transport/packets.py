# SPDX-License-Identifier: Apache-2.0
"""Packs and unpacks the packets of the reliable transport, and compares their numbers."""

from __future__ import annotations

from typing import NamedTuple

from efa_cosim.layouts import defs
from efa_cosim.layouts.wire import precompiled

FLIT_BYTES = 64
NUMBER_MASK = 0xFFFF
PSN_MASK = 0xFFFFFFFF
_PSN_HALF = 1 << 31
_NUMBER_HALF = 1 << 15

DATA = precompiled(
    defs.SrdHdr, "opcode", "flags", "length", "src_qpn", "dst_qpn", "qkey", "psn", "session",
    "incarnation", "imm", "src_node", "dst_node", "path", "status", "behind",
)  # fmt: skip
ACK = precompiled(
    defs.SrdAck, "opcode", "flags", "length", "src_qpn", "dst_qpn", "refused_psn", "psn",
    "session", "incarnation", "bitmap_psn", "src_node", "dst_node", "path", "status", "reserved",
    "bitmap",
)  # fmt: skip
BITMAP_BYTES = defs.SrdAck.bitmap.size


class Data(NamedTuple):
    """Header of a data packet, fields of efa_srd_hdr."""

    opcode: int
    flags: int
    length: int
    src_qpn: int
    dst_qpn: int
    qkey: int
    psn: int
    session: int
    incarnation: int
    imm: int
    src_node: int
    dst_node: int
    path: int
    status: int
    behind: int


class Ack(NamedTuple):
    """An acknowledgement, fields of efa_srd_ack."""

    opcode: int
    flags: int
    length: int
    src_qpn: int
    dst_qpn: int
    refused_psn: int
    psn: int
    session: int
    incarnation: int
    bitmap_psn: int
    src_node: int
    dst_node: int
    path: int
    status: int
    reserved: int
    bitmap: bytes


class Start(NamedTuple):
    """First numbers of a node; the numbers are unsigned and wrap.

    - `number`: of the counter of incarnations and sessions, 16 bits, not 0
    - `psn`: of each session, 32 bits
    - `order`: of each path, 16 bits
    """

    number: int = 1
    psn: int = 0
    order: int = 0


def read_data(packet: bytes) -> Data:
    """Reads the header of a data packet of at least 32 bytes."""
    return Data._make(DATA.unpack_from(packet))


def read_ack(packet: bytes) -> Ack:
    """Reads an acknowledgement of 64 bytes."""
    return Ack._make(ACK.unpack_from(packet))


def flits(packet: bytes) -> int:
    """Cycles of a packet at a port."""
    return (len(packet) + FLIT_BYTES - 1) // FLIT_BYTES


def psn_distance(a: int, b: int) -> int:
    """a - b of two PSNs, negative if a is older."""
    return (a - b + _PSN_HALF & PSN_MASK) - _PSN_HALF


def number_distance(a: int, b: int) -> int:
    """a - b of two sessions, incarnations or order numbers, negative if a is older."""
    return (a - b + _NUMBER_HALF & NUMBER_MASK) - _NUMBER_HALF
