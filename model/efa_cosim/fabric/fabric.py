# SPDX-License-Identifier: Apache-2.0
"""Connects devices: delivers each packet to its destination node, in order of transmission."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from efa_cosim.layouts import defs
from efa_cosim.layouts.wire import precompiled

_DESTINATION = precompiled(defs.PktHdr, "dst_node")


class Attachable(Protocol):
    """A device as its fabric uses it."""

    node_id: int
    on_packet: Callable[[bytes], object] | None
    receives_changed: bool

    def receive(self, packet: bytes) -> None:
        """Receives a packet from the fabric."""

    def store(self, bar: int, offset: int, data: bytes) -> None:
        """Executes a host store."""

    def retry(self) -> None:
        """Sends again what met no receive."""


class Fabric:
    """A lossless fabric without time, for devices of the reference model.

    A message that met no receive is sent again when a queue pair may have got one.

    Attributes:

    - `dropped`: number of packets to nodes that do not exist
    - `on_packet`: None or a function that is called with each packet (bytes) before its delivery
    """

    def __init__(self, devices: Iterable[Attachable] = ()) -> None:
        self._devices: dict[int, Attachable] = {}
        self._packets: deque[bytes] = deque()
        self.dropped = 0
        self.on_packet: Callable[[bytes], object] | None = None
        for device in devices:
            self.attach(device)

    def attach(self, device: Attachable) -> None:
        """Adds a device; raises ValueError if its node number is in use."""
        if device.node_id in self._devices:
            raise ValueError(f"node {device.node_id} is already attached: "
                             "give each device its own node_id")
        self._devices[device.node_id] = device
        device.on_packet = self._packets.append

    def run(self, limit: int | None = None) -> int:
        """Delivers packets until none is left, or at most `limit`; returns their number."""
        count = 0
        while (self._packets or self._retry()) and count != limit:
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

    def store(self, device: Attachable, bar: int, offset: int, data: bytes) -> None:
        """Executes a host store and delivers all packets that result from it."""
        device.store(bar, offset, data)
        self.run()

    def _retry(self) -> bool:
        """Sends again what met no receive, if a queue pair may have one now; True if a packet
        left. No packet is in flight, so each refusal has come back."""
        changed = [one for one in self._devices.values() if one.receives_changed]
        for device in changed:
            device.receives_changed = False
        if changed:
            for device in self._devices.values():
                device.retry()
        return bool(self._packets)

    def __len__(self) -> int:
        return len(self._packets)
