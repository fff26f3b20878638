# SPDX-License-Identifier: Apache-2.0
"""Gives the verdict of the reference model on a packet, as far as no state of a peer counts.

    checks = Checks(node, nodes=64, window_w=8, paths=0xFF)
    assert checks.cause(packet) is AnomalyNet.ACK

The model has paths from 0 on, and `paths` is a mask. So the model sees path 0 instead of a path of
the mask, and path 255 instead of any other.
"""

from __future__ import annotations

from unittest.mock import Mock

from efa_cosim.layouts.defs import AnomalyNet, PktOpcode, SrdHdr, TransportAnomaly
from efa_cosim.transport.endpoint import Endpoint
from efa_cosim.transport.packets import constants_with

PATH_AT = SrdHdr.path.offset
CAUSES = {
    TransportAnomaly.OPCODE: AnomalyNet.OPCODE,
    TransportAnomaly.NODE: AnomalyNet.NODE,
    TransportAnomaly.LENGTH: AnomalyNet.LENGTH,
    TransportAnomaly.FIELD: AnomalyNet.ACK,
    TransportAnomaly.PSN: AnomalyNet.ACK,
}


class Checks:
    """The checks of decision 0009 for a node. `paths` is the mask of the paths that exist."""

    def __init__(self, node: int, nodes: int, window_w: int, paths: int) -> None:
        self._paths, self._causes = paths, list[TransportAnomaly]()
        self._endpoint = Endpoint(
            Mock(now=0), node, nodes, lambda packet: 0, paths=1,
            anomaly=lambda cause, packet: self._causes.append(cause),
            constants=constants_with(psn_window_w=window_w))  # fmt: skip

    def cause(self, packet: bytes) -> AnomalyNet | None:
        """Returns why a packet is dropped; None if it passes, or if a block behind drops it."""
        assert packet[0] in (PktOpcode.SRD_SEND, PktOpcode.SRD_ACK), "belongs to no session"
        path = packet[PATH_AT]
        shown = 0 if path < 8 and self._paths >> path & 1 else 255
        self._causes.clear()
        self._endpoint.receive(packet[:PATH_AT] + bytes([shown]) + packet[PATH_AT + 1 :])
        # A session that has not begun is known to the sender only.
        found = [cause for cause in self._causes if cause is not TransportAnomaly.SESSION]
        return CAUSES[found[0]] if found else None
