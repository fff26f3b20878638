# SPDX-License-Identifier: Apache-2.0
"""Work requests of a send queue after their checks, and the fields of WQEs and packets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from efa_cosim.device.objects import Ah, Qp
from efa_cosim.layouts import defs
from efa_cosim.layouts.wire import precompiled

_Meta = defs.IoTxMetaDesc
META = precompiled(
    _Meta, "req_id", "ctrl1", "ctrl2", "dest_qp_num", "length", "immediate_data", "ah", "qkey",
    "req_id_ex",
)  # fmt: skip
# Fields of META, in that order.
WqeFields: TypeAlias = tuple[int, int, int, int, int, int, int, int, bytes]
HEADER = precompiled(
    defs.PktHdr, "opcode", "flags", "length", "src_qpn", "dst_qpn", "qkey", "psn", "msg_id",
    "imm", "src_node", "dst_node", "path", "status",
)  # fmt: skip

_REQ_ID_BITS = 8 * _Meta.req_id.size


@dataclass(slots=True, eq=False)
class Message:
    """A reliable work request without its completion yet; msg is its number on its queue."""

    qp: Qp
    msg: int
    req_id: int
    length: int
    ah: Ah
    op: int


def request_id(qp: Qp, meta: WqeFields) -> int:
    """Request id of a WQE; without 64-bit ids the upper 48 bits are reserved and ignored."""
    upper = int.from_bytes(meta[8], "little") if qp.long_ids else 0
    return upper << _REQ_ID_BITS | meta[0]
