# SPDX-License-Identifier: Apache-2.0
"""Records what a function and its clients exchange."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from efa_cosim.boundary.memory import HostReadError
from efa_cosim.device.device import Device
from efa_cosim.device.objects import Qp
from efa_cosim.device.receive import DESCRIPTOR_BYTES
from efa_cosim.device.ring import distance
from efa_cosim.layouts import defs
from efa_cosim.live.guest_memory import GuestMemory
from efa_cosim.session.writer import NodePart


class Recorder:
    """Writes what one device exchanges with its clients.

    - `part`: the part of the device in the sessions
    - `device`, `memory`: the device and the memory of its client

    A session begins with the first store of a client and ends when all clients have left.
    Keep-alives are left out, as they come from the clock. Receive descriptors stand under their
    doorbell, because another device may fetch them then.
    """

    def __init__(self, part: NodePart, device: Device, memory: GuestMemory) -> None:
        self._part, self._device, self._memory = part, device, memory
        self._paused = False
        self._produced: dict[int, int] = {}
        self._posted: dict[int, bytes] = {}  # receive descriptors in the file, by address
        memory.on_read, memory.on_write = self._read, self._write

    def reset(self) -> None:
        """The function is reset; a reset without stores before it is not recorded."""
        self._part.reset()
        self._posted.clear()

    def before(self, bar: int, offset: int, data: bytes) -> None:
        """The host stores; the device has not seen the store yet."""
        if bar == defs.EFA_REG_BAR and offset == defs.Reg.AENQ_CONS_DB and any(data):
            self._paused = True  # belongs to the keep-alives
            return
        self._part.store(bar, offset, data)
        if bar == self._device.limits.db_bar:
            self._produced = {number: qp.rq.produced
                              for number, qp in self._device.objects.qps.live.items()}

    def after(self) -> None:
        """The device has executed the store."""
        for number, before in self._produced.items():
            qp = self._device.objects.qps.get(number)
            if qp is not None and qp.rq.produced != before:
                self._describe(qp, before)
        self._produced = {}

    def settled(self) -> None:
        """The effects of the store are complete."""
        self._paused = False

    def interrupt(self, vector: int) -> None:
        """The device has sent a message."""
        if not self._paused:
            self._part.effect("i", vector)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """What happens inside is not recorded."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    def end(self) -> None:
        """The client has left."""
        self._posted.clear()
        self._part.end()

    def _describe(self, qp: Qp, first: int) -> None:
        """Adds the receive descriptors that a doorbell has posted."""
        for count in range(distance(qp.rq.produced, first)):
            slot = (first + count) & (qp.rq.depth - 1)
            address = qp.rq_base + slot * DESCRIPTOR_BYTES
            with contextlib.suppress(HostReadError):
                data = self._memory.peek(address, DESCRIPTOR_BYTES)
                self._part.effect("m", address, data)
                self._posted[address] = data

    def _read(self, address: int, data: bytes) -> None:
        if not self._paused and self._posted.pop(address, None) != data:
            self._part.effect("m", address, data)

    def _write(self, address: int, data: bytes) -> None:
        if not self._paused:
            self._part.effect("d", address, data)
