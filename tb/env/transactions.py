# SPDX-License-Identifier: Apache-2.0
"""Defines the transactions that monitors publish: what a pin saw, in which cycle, at which device.

| transaction | direction | to |
|---|---|---|
| HostStore, PinChange, AsyncRequest | input | predictor |
| MemoryWrite, MemoryFault | host memory, written by the CPU | predictor |
| Packet | network output of one device, input of another | predictor, scoreboard |
| Arrival | network input of a device with the reliable transport | predictor |
| Event | ev_* report | predictor, scoreboard, coverage |
| DmaWrite, PayloadRun, Message | output to the host | scoreboard |
"""

from typing import NamedTuple


class HostStore(NamedTuple):
    """A store of the CPU that the device has accepted."""

    cycle: int
    device: int
    bar: int
    offset: int
    data: bytes


class PinChange(NamedTuple):
    """A change of pin bme or msix_fmask, or the begin of flr."""

    cycle: int
    device: int
    pin: str
    value: int


class AsyncRequest(NamedTuple):
    """An asynchronous event of the management side that the device has accepted."""

    cycle: int
    device: int
    group: int
    syndrome: int
    data: bytes


class MemoryWrite(NamedTuple):
    """A write of the CPU to host memory, behind everything that the pins saw in this cycle."""

    cycle: int
    device: int
    address: int
    data: bytes


class MemoryFault(NamedTuple):
    """A range of host memory whose reads fail from now on."""

    cycle: int
    device: int
    address: int
    size: int


class Packet(NamedTuple):
    """A packet that has left a device."""

    cycle: int
    device: int
    data: bytes


class Arrival(NamedTuple):
    """A packet that a device has accepted from the fabric, well formed or not."""

    cycle: int
    device: int
    data: bytes


class Event(NamedTuple):
    """An ev_* report of a device: kind (defs.Ev) and data."""

    cycle: int
    device: int
    kind: int
    data: int


class DmaWrite(NamedTuple):
    """One DMA write: a ring entry, a register response, or a short payload."""

    cycle: int
    device: int
    address: int
    data: bytes


class PayloadRun(NamedTuple):
    """`count` DMA writes to contiguous addresses, the last one in this cycle, the first one in the
    cycle `begun`."""

    cycle: int
    device: int
    address: int
    data: bytes
    # The field hides tuple.count, which has no user here.
    count: int  # type: ignore[assignment]
    begun: int


class Message(NamedTuple):
    """An MSI-X message; the model as the device gives a vector and no address."""

    cycle: int
    device: int
    data: int
    address: int | None = None


PREDICTED = {HostStore, PinChange, AsyncRequest, MemoryWrite, MemoryFault, Packet, Arrival, Event}
COMPARED = {Packet, Event, DmaWrite, PayloadRun, Message}
