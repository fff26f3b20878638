# SPDX-License-Identifier: Apache-2.0
"""Joins devices: each packet goes to the node it names, in the order in which it left."""

from collections import deque

from efa import defs
from efa.wire import precompiled

_DESTINATION = precompiled(defs.PktHdr, "dst_node")


class Fabric:
    """A lossless fabric without time. A packet to nowhere vanishes, as dropped says."""

    def __init__(self, devices=()):
        self._devices = {}
        self._packets = deque()
        self.dropped = 0
        self.on_packet = None
        for device in devices:
            self.attach(device)

    def attach(self, device):
        """Adds a device; its node number must be new."""
        if device.node_id in self._devices:
            raise ValueError(f"node {device.node_id} is there already")
        self._devices[device.node_id] = device
        device.on_packet = self._packets.append

    def run(self, limit=None):
        """Delivers until nothing is under way, or limit packets; returns how many."""
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
        """A host store and everything that follows from it on all devices."""
        device.store(bar, offset, data)
        self.run()

    def __len__(self):
        return len(self._packets)
