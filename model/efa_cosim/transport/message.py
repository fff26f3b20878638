# SPDX-License-Identifier: Apache-2.0
"""Describes a message: the packets that complete together, once, with one status."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from efa_cosim.layouts import defs

NO_END = 7


class PayloadGone(Exception):
    """A payload cannot be read any more; `status` is that of its message."""

    def __init__(self, status: int) -> None:
        super().__init__(str(status))
        self.status = status


@dataclass(slots=True, eq=False)
class Message:
    """A message of a node, and how far it has come.

    - `node`: its destination
    - `payloads`: bytes of each packet, at least one packet; read for each transmission, may raise
      PayloadGone
    - `done`: called once with the message and its status (efa_io_comp_status)
    - `src_qpn`, `dst_qpn`, `qkey`, `opcode`, `flags`, `imm`: header fields of all packets
    - `rnr_retry`: packets that are sent again after RNR, 0 to 7; 7 has no end
    """

    node: int
    payloads: Sequence[bytes]
    done: Callable[[Message, int], None]
    src_qpn: int = 0
    dst_qpn: int = 0
    qkey: int = 0
    opcode: int = defs.PktOpcode.SRD_SEND
    flags: int = 0
    imm: int = 0
    rnr_retry: int = NO_END

    # Packets that have had a PSN, PSNs that are not resolved, packets that wait after RNR.
    sent: int = field(default=0, init=False)
    unresolved: int = field(default=0, init=False)
    backing_off: int = field(default=0, init=False)
    retries: int = field(default=0, init=False)
    status: int = field(default=defs.IoCompStatus.OK, init=False)
    ended: bool = field(default=False, init=False)

    @property
    def finished(self) -> bool:
        """True if all packets that will ever be sent are sent and resolved."""
        if self.unresolved:
            return False
        if self.status:
            return True
        return self.sent == len(self.payloads) and not self.backing_off

    def end(self, status: int) -> None:
        """Reports the completion; no effect on a message that has ended."""
        if not self.ended:
            self.ended = True
            self.status = status
            self.done(self, status)
