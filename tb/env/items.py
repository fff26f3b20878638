# SPDX-License-Identifier: Apache-2.0
"""Defines items and sequences of the agents.

| item | transaction |
|---|---|
| HostAccess | accesses of one CPU in order: stores (doorbells, WQEs), loads, pin changes |
| AsyncRequestItem | an asynchronous event of the management side |
| PacketItem | a packet that no device sent |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pyuvm import uvm_sequence, uvm_sequence_item

from tb.lib.bridge import bridge

if TYPE_CHECKING:
    import numpy as np



class HostAccess(uvm_sequence_item):
    """Accesses of a CPU to one device, in order (tb/lib/requests.py)."""

    def __init__(self, device: int, requests: Iterable[bytes] | np.ndarray) -> None:
        super().__init__("host_access")
        self.device, self.requests = device, requests


class AsyncRequestItem(uvm_sequence_item):
    """An asynchronous event for one device."""

    def __init__(self, device: int, group: int, syndrome: int, data: bytes) -> None:
        super().__init__("async_request")
        self.device, self.group, self.syndrome, self.data = device, group, syndrome, data


class PacketItem(uvm_sequence_item):
    """A packet that no device sent, addressed to one device."""

    def __init__(self, packet: bytes, device: int) -> None:
        super().__init__("packet")
        self.packet, self.device = bytes(packet), device


class ItemSequence(uvm_sequence):
    """Sends items to a sequencer, each when the software requests it."""

    def __init__(self, sequencer: Any) -> None:
        super().__init__("items")
        self.sequencer = sequencer

    async def send(self, item: Any) -> None:
        """Sends an item and waits until the driver has taken it."""
        await self.start_item(item)
        await self.finish_item(item)


class HostSequence(uvm_sequence):
    """Runs host software as a sequence; `await self.do(function, ...)` runs one piece.

    One piece runs at a time, until it waits for the device. Each of its accesses is an item of the
    host sequencer, which arbitrates between the sequences that wait.
    """

    async def do(self, work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Returns the result of a piece of host software."""
        return await bridge(work)(*arguments, **named)
