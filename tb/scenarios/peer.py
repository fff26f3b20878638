# SPDX-License-Identifier: Apache-2.0
"""Plays a node of the fabric that has no device: its packets and its acknowledgements."""

from __future__ import annotations

from typing import Any

from efa_cosim.host.endpoints import QKEY, Endpoint
from efa_cosim.layouts import defs
from efa_cosim.transport.packets import BITMAP_BYTES

SILENT = 20  # a node that never responds
_OPCODE = defs.PktOpcode
_WINDOW = 1 << defs.TRANSPORT.psn_window_w


def await_quiet_end(backend: Any) -> None:
    """Waits until the device takes packets of peers that do not know its incarnation."""
    backend.pause(defs.TRANSPORT.quiet_ticks * backend.tick_cycles)


class Peer:
    """A node without a device.

    - `backend`: the device that receives its packets
    - `node`: its number
    """

    def __init__(self, backend: Any, node: int = SILENT) -> None:
        self.backend, self.node, self._psn = backend, node, 0

    def send(self, end: Endpoint, data: bytes = b"") -> None:
        """Sends a message to a queue pair, as if no acknowledgement of an earlier one had come."""
        header = defs.SrdHdr(
            opcode=_OPCODE.SRD_SEND, length=len(data), dst_qpn=end.qp.number, src_qpn=5, qkey=QKEY,
            psn=self._psn, behind=min(self._psn, _WINDOW - 1), session=1, src_node=self.node,
            dst_node=self.backend.node_id,
        )  # fmt: skip
        self.backend.inject(header.pack() + data)
        self._psn += 1

    def acknowledge(self, session: int, psn: int, status: int = 0) -> None:
        """Accepts all packets of a session before a PSN; with a status it refuses that packet."""
        ack = defs.SrdAck(opcode=_OPCODE.SRD_ACK, length=BITMAP_BYTES, psn=psn, bitmap_psn=psn,
                          session=session, incarnation=1, src_node=self.node, status=status,
                          refused_psn=psn if status else 0,
                          dst_node=self.backend.node_id)  # fmt: skip
        self.backend.inject(ack.pack())
