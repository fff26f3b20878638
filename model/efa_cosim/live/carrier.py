# SPDX-License-Identifier: Apache-2.0
"""Carries the packets of simulated devices over a fabric file, for the program of tb/live.

The program waits for the answer to each packet and stops at each event of the network, so a packet
takes the cycles that the fabric file says. The formats are those of tb/live/fabric.cpp.
"""

from __future__ import annotations

import socket
import struct
from functools import partial

from efa_cosim.fabric.network import Network

_DEPARTURE = struct.Struct("<QI")  # cycle, bytes of the packet that follows
_ARRIVALS = struct.Struct("<QI")  # cycle of the next event, number of packets that follow
_ARRIVAL = struct.Struct("<II")  # device, bytes
_NEVER = (1 << 64) - 1


class Carrier:
    """A network whose nodes are the devices of the program, and whose time is that of the program.

    - `network`: each of its nodes becomes a device, in the order of the description
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._arrived: list[tuple[int, bytes]] = []
        for device, node in enumerate(network.description.nodes):
            network.attach(node.number, partial(self._arrive, device))

    def _arrive(self, device: int, packet: bytes) -> None:
        self._arrived.append((device, packet))

    def run(self, channel: socket.socket) -> None:
        """Carries packets until the program closes its end of the channel."""
        with channel, channel.makefile("rb") as departures:
            while len(head := departures.read(_DEPARTURE.size)) == _DEPARTURE.size:
                cycle, size = _DEPARTURE.unpack(head)
                channel.sendall(self._answer(cycle, departures.read(size)))

    def _answer(self, cycle: int, packet: bytes) -> bytes:
        """Sends a packet in its cycle, if there is one; returns what has arrived until then."""
        network = self._network
        network.run(until=cycle)
        if packet:
            network.send(packet)
        arrived, self._arrived = self._arrived, []
        following = network.next_cycle
        parts = [_ARRIVALS.pack(_NEVER if following is None else following, len(arrived))]
        for device, content in arrived:
            parts += (_ARRIVAL.pack(device, len(content)), content)
        return b"".join(parts)
