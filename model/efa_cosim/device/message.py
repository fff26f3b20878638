# SPDX-License-Identifier: Apache-2.0
"""Work requests of a send queue after their checks."""

from __future__ import annotations

from dataclasses import dataclass

from efa_cosim.device.objects import Ah, Qp
from efa_cosim.layouts import defs
from efa_cosim.layouts.fields import IoTxMetaDescFields

_REQ_ID_BITS = 8 * defs.IoTxMetaDesc.req_id.size


@dataclass(slots=True, eq=False)
class Message:
    """A reliable work request without its completion yet; msg is its number on its queue."""

    qp: Qp
    msg: int
    req_id: int
    length: int
    ah: Ah
    op: int


def request_id(qp: Qp, meta: IoTxMetaDescFields) -> int:
    """Request id of a WQE; without 64-bit ids the upper 48 bits are reserved and ignored."""
    upper = int.from_bytes(meta.req_id_ex, "little") if qp.long_ids else 0
    return upper << _REQ_ID_BITS | meta.req_id
