# SPDX-License-Identifier: Apache-2.0
"""Gives the verdict of the reference model on a packet, as far as no state of a peer counts.

    checks = Checks(node, nodes=64, window_w=8, paths=0xFF)
    assert checks.cause(packet) is TransportAnomaly.FIELD

The model has paths from 0 on, and `paths` is a mask. So the model sees path 0 instead of a path of
the mask, and path 255 instead of any other.
"""

from __future__ import annotations

from typing import Any

from efa_cosim.layouts.defs import LIMITS, TRANSPORT, SrdHdr, TransportAnomaly
from efa_cosim.transport.endpoint import Endpoint
from efa_cosim.transport.packets import BY_SENDER, constants_with

PATH_AT = SrdHdr.path.offset


class _Nowhere:
    """A network without time that carries nothing."""

    now = 0

    def attach(self, _node: int, _receive: object) -> None:
        """No packet arrives."""

    def at(self, _cycle: int, _work: object) -> None:
        """No time passes."""

    def send(self, _packet: bytes) -> None:
        """The packet is lost."""


class Checks:
    """The checks of decision 0009 for a node. `paths` is the mask of the paths that exist."""

    def __init__(self, node: int, nodes: int = 1 << LIMITS.node_w,
                 window_w: int = TRANSPORT.psn_window_w, paths: int = 0xFF) -> None:  # fmt: skip
        self._node, self._nodes, self._paths = node, nodes, paths
        self._constants = constants_with(psn_window_w=window_w)
        self._network: Any = _Nowhere()

    def cause(self, packet: bytes) -> TransportAnomaly | None:
        """Returns why a packet is dropped; None if it passes, or if a block behind drops it."""
        found: list[TransportAnomaly] = []

        # Each packet meets an endpoint without state.
        endpoint = Endpoint(
            self._network, self._node, self._nodes, lambda packet: 0, paths=1,
            datagram=lambda packet: None, anomaly=lambda cause, packet: found.append(cause),
            constants=self._constants)  # fmt: skip
        path = packet[PATH_AT] if len(packet) > PATH_AT else 0
        shown = 0 if path < 8 and self._paths >> path & 1 else 255
        endpoint.receive(packet[:PATH_AT] + bytes([shown]) + packet[PATH_AT + 1 :])
        return found[0] if found and found[0] not in BY_SENDER else None
