# SPDX-License-Identifier: Apache-2.0
"""Sends the packets of a node one after the other: the network port."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from efa_cosim.transport.network import Network
from efa_cosim.transport.packets import flits

# Returns the next packet, None if there is none to send now.
Source: TypeAlias = Callable[[], bytes | None]


class Port:
    """A port that takes packets from its two sources in turn; a packet of n flits takes n cycles.

    A source without a packet gives its turn to the other one.
    """

    def __init__(self, network: Network, acknowledgements: Source, data: Source) -> None:
        self._network = network
        self._sources = acknowledgements, data
        self._turn = 0
        self._busy = False

    def wake(self) -> None:
        """Reports that a source may have a packet."""
        if not self._busy:
            # The next packet is chosen after the caller has changed all of its state.
            self._busy = True
            self._network.at(self._network.now, self._next)

    def _next(self) -> None:
        turn = self._turn
        packet = self._sources[turn]()
        if packet is None:
            turn ^= 1
            packet = self._sources[turn]()
            if packet is None:
                self._busy = False
                return
        self._turn = turn ^ 1
        self._network.send(packet)
        self._network.at(self._network.now + flits(packet), self._next)
