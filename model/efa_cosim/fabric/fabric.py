# SPDX-License-Identifier: Apache-2.0
"""Connects devices: delivers each packet to its destination node, in order of transmission."""

from collections import deque

from efa_cosim.layouts import defs
from efa_cosim.layouts.wire import precompiled

_DESTINATION = precompiled(defs.PktHdr, "dst_node")


class Fabric:
    """A lossless fabric without time, for devices of the reference model.

    Attributes:

    - `dropped`: number of packets to nodes that do not exist
    - `on_packet`: None or a function that is called with each packet (bytes) before its delivery
    """

    def __init__(self, devices=()):
        self._devices = {}
        self._packets = deque()
        self.dropped = 0
        self.on_packet = None
        for device in devices:
            self.attach(device)

    def attach(self, device):
        """Adds a device; raises ValueError if its node number is in use."""
        if device.node_id in self._devices:
            raise ValueError(f"node {device.node_id} is already attached: "
                             "give each device its own node_id")
        self._devices[device.node_id] = device
        device.on_packet = self._packets.append

    def run(self, limit=None):
        """Delivers packets until none is left, or at most `limit`; returns their number."""
        count = 0
        while self._packets and count != limit:
            packet = self._packets.popleft()
            count += 1
            if self.on_packet is not None:
                self.on_packet(packet)
            target = self._devices.get(_DESTINATION.unpack_from(packet)[0])
            if target is None:
                self.dropped += 1
            else:
                target.receive(packet)
        return count

    def store(self, device, bar, offset, data):
        """Executes a host store and delivers all packets that result from it."""
        device.store(bar, offset, data)
        self.run()

    def __len__(self):
        return len(self._packets)
