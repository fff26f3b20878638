# SPDX-License-Identifier: Apache-2.0
"""Holds what two devices know of a session (decision 0009): sent packets, outcomes, the sender."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from efa_cosim.layouts import defs
from efa_cosim.layouts.fields import SrdAckFields, SrdHdrFields
from efa_cosim.transport.packets import BITMAP_BYTES, PSN_MASK, number_distance, psn_distance
from tb.env.payload import Message

_ABORT = int(defs.IoCompStatus.REMOTE_ERROR_ABORT)


@dataclass(slots=True)
class Sent:
    """A packet that a device has sent.

    - `first`: its first transmission
    - `model`: the packet of the model
    """

    first: bytes
    model: bytes


@dataclass(slots=True)
class Session:
    """The packets of a session by PSN; `next` is the PSN after the newest one, `open` are those
    that no acknowledgement has shown to the sender."""

    number: int
    next: int = 0
    over: bool = False
    sent: dict[int, Sent] = field(default_factory=dict)
    open: dict[int, Sent] = field(default_factory=dict)


@dataclass(slots=True)
class Outcomes:
    """Statuses of the executed packets of a session by PSN.

    - `oldest`: the newest lowest unresolved PSN that the sender has shown to the receiver
    - `accepted`: all PSNs before are accepted or before `oldest`
    - `placed`: payload of accepted RDMA packets that no acknowledgement has shown
    - `refused`: sending and receiving QP of refused packets by PSN
    """

    oldest: int
    accepted: int
    status: dict[int, int] = field(default_factory=dict)
    placed: dict[int, Message] = field(default_factory=dict)
    refused: dict[int, tuple[int, int]] = field(default_factory=dict)

    def note(self, head: SrdHdrFields, status: int) -> None:
        """Takes the outcome of a packet."""
        self.status[head.psn] = status
        if status:
            self.refused[head.psn] = head.src_qpn, head.dst_qpn

    def all_before(self) -> int:
        """Returns the first PSN that may not be shown as accepted."""
        if psn_distance(self.oldest, self.accepted) > 0:
            self.accepted = self.oldest
        while self.status.get(self.accepted) == 0:
            self.accepted = self.accepted + 1 & PSN_MASK
        return self.accepted


class Peer:
    """The sender of one device to one node: what acknowledgements have shown to it."""

    def __init__(self, resolve: Callable[[Sent, int], None]) -> None:
        self._resolve = resolve
        self.sessions: dict[int, Session] = {}
        self.current: Session | None = None
        self.incarnation = 0

    def acknowledge(self, ack: SrdAckFields) -> defs.TransportAnomaly | None:
        """Gives new outcomes to the model, by the rules of the sender."""
        session = self.current
        if session is None or ack.session != session.number or session.over:
            newest = 0 if session is None else session.number
            new = session is None or number_distance(ack.session, newest) > 0
            return defs.TransportAnomaly.SESSION if new else None
        bits = accepted_bits(ack)
        if (psn_distance(ack.psn, session.next) > 0 or not bits <= session.sent.keys()
                or (ack.status and psn_distance(ack.refused_psn, session.next) >= 0)):
            return defs.TransportAnomaly.PSN
        distance = number_distance(ack.incarnation, self.incarnation) if self.incarnation else 0
        if distance < 0:
            return None
        if distance > 0 or ack.status == _ABORT:
            session.over = True
            for psn in list(session.open):
                self._resolve(session.open.pop(psn), _ABORT)
        elif ack.status and ack.refused_psn in session.open:
            outcomes = dict.fromkeys(self._shown(session, ack, bits), 0)
            outcomes.setdefault(ack.refused_psn, ack.status)
            self._end(session, outcomes)
        else:
            self._end(session, dict.fromkeys(self._shown(session, ack, bits), 0))
        self.incarnation = ack.incarnation
        return None

    @staticmethod
    def _shown(session: Session, ack: SrdAckFields, bits: set[int]) -> list[int]:
        """Returns the open PSNs that an acknowledgement shows as accepted."""
        return [psn for psn in session.open if psn_distance(psn, ack.psn) < 0 or psn in bits]

    def _end(self, session: Session, outcomes: dict[int, int]) -> None:
        for psn, status in outcomes.items():
            self._resolve(session.open.pop(psn), status)


def accepted_bits(ack: SrdAckFields) -> set[int]:
    """Returns the PSNs whose bit is set."""
    bits = int.from_bytes(ack.bitmap, "little")
    return {ack.bitmap_psn + at & PSN_MASK for at in range(8 * BITMAP_BYTES) if bits >> at & 1}
