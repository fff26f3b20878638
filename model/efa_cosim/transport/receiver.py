# SPDX-License-Identifier: Apache-2.0
"""Receives the packets of one peer: places each packet once and remembers its outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

from efa_cosim.layouts import defs
from efa_cosim.layouts.fields import SrdAckFields, SrdHdrFields
from efa_cosim.transport.packets import BITMAP_BYTES, PSN_MASK, number_distance, psn_distance

if TYPE_CHECKING:
    from efa_cosim.transport.endpoint import Endpoint

_ABORT = defs.IoCompStatus.REMOTE_ERROR_ABORT
_OPCODE = defs.PktOpcode.SRD_ACK


class PeerReceiver:
    """State of a receiver for one peer. Bit i of a bitmap is PSN `oldest` + i."""

    __slots__ = ("accepted", "due", "endpoint", "node", "oldest", "refused", "seen", "session")

    def __init__(self, endpoint: Endpoint, node: int) -> None:
        self.endpoint, self.node = endpoint, node
        self.session = 0
        self.oldest = self.seen = self.accepted = 0
        # Status of each refused PSN.
        self.refused: dict[int, int] = {}
        # Path of the packet that made an acknowledgement due, None if none is due.
        self.due: int | None = None

    def receive(self, data: SrdHdrFields, packet: bytes) -> None:
        """Applies the rules of the decision, in their order, to a well-formed packet."""
        endpoint, psn = self.endpoint, data.psn
        oldest = psn - data.behind & PSN_MASK
        if data.incarnation not in (0, endpoint.incarnation):
            endpoint.reply(self._without_state(data, oldest, _ABORT))
            return
        if not data.incarnation and endpoint.is_quiet:
            endpoint.reply(self._without_state(data, oldest, 0))
            return
        if data.session != self.session:
            if self.session and number_distance(data.session, self.session) < 0:
                endpoint.counters.stale += 1
                return
            self.session, self.oldest = data.session, oldest
            self.seen = self.accepted = 0
            self.refused.clear()
            self.due = None
        self._advance(oldest)
        at = psn_distance(psn, self.oldest)
        if at < 0:
            endpoint.counters.stale += 1
            return
        bit = 1 << at
        if self.seen & bit:
            endpoint.counters.duplicates += 1
            if self.accepted & bit:
                self._owe(data.path, replaces=True)
            elif psn in self.refused:
                endpoint.reply(self._refusal(data, self.refused[psn]))
            return
        self.seen |= bit
        status = endpoint.execute(packet)
        # The execution may have reset the node.
        if status is not None and endpoint.receivers.get(self.node) is self:
            self.executed(data, status)

    def executed(self, data: SrdHdrFields, status: int) -> None:
        """Stores the outcome of a packet and reports it; no effect once oldest has passed it."""
        at = psn_distance(data.psn, self.oldest)
        if data.session != self.session or at < 0:
            return
        if status:
            self.refused[data.psn] = status
            self.endpoint.reply(self._refusal(data, status))
        else:
            self.accepted |= 1 << at
            self._owe(data.path)

    def acknowledgement(self) -> bytes | None:
        """Returns the acknowledgement that is due, with the whole state; None if none is due."""
        path, self.due = self.due, None
        return None if path is None else self._pack(path=path)

    def _advance(self, oldest: int) -> None:
        """Moves oldest to a newer PSN."""
        count = psn_distance(oldest, self.oldest)
        if count > 0:
            self.oldest = oldest
            self.seen >>= count
            self.accepted >>= count
            if self.refused:
                self.refused = {
                    psn: status
                    for psn, status in self.refused.items()
                    if psn_distance(psn, oldest) >= 0
                }

    def _owe(self, path: int, replaces: bool = False) -> None:
        """Makes an acknowledgement due. A duplicate replaces the path: it may be a probe."""
        if self.due is None:
            self.due = path
            self.endpoint.acknowledge(self)
        elif replaces:
            self.due = path

    def _pack(
        self,
        *,
        path: int,
        src_qpn: int = 0,
        dst_qpn: int = 0,
        refused_psn: int = 0,
        status: int = 0,
    ) -> bytes:
        """Returns an acknowledgement; its bitmap begins at the first PSN that is not accepted."""
        accepted = self.accepted
        count = (~accepted & accepted + 1).bit_length() - 1
        psn = self.oldest + count & PSN_MASK
        return SrdAckFields.pack(
            opcode=_OPCODE, length=BITMAP_BYTES, src_qpn=src_qpn, dst_qpn=dst_qpn,
            refused_psn=refused_psn, psn=psn, session=self.session,
            incarnation=self.endpoint.incarnation, bitmap_psn=psn, src_node=self.endpoint.node,
            dst_node=self.node, path=path, status=status,
            bitmap=(accepted >> count).to_bytes(BITMAP_BYTES, "little"),
        )  # fmt: skip

    def _refusal(self, data: SrdHdrFields, status: int) -> bytes:
        return self._pack(
            path=data.path, src_qpn=data.dst_qpn, dst_qpn=data.src_qpn, refused_psn=data.psn,
            status=status,
        )  # fmt: skip

    def _without_state(self, data: SrdHdrFields, oldest: int, status: int) -> bytes:
        """Returns the reply to a packet for another incarnation; shows nothing as accepted."""
        return SrdAckFields.pack(
            opcode=_OPCODE, length=BITMAP_BYTES, src_qpn=data.dst_qpn if status else 0,
            dst_qpn=data.src_qpn if status else 0, refused_psn=data.psn if status else 0,
            psn=oldest, session=data.session, incarnation=self.endpoint.incarnation,
            bitmap_psn=oldest, src_node=self.endpoint.node, dst_node=self.node, path=data.path,
            status=status,
        )  # fmt: skip
