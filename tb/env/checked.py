# SPDX-License-Identifier: Apache-2.0
"""Runs host software on the RTL under a scoreboard, with the interface of RtlBackend.

The backend drives only. The monitors publish what it posts when the device accepts it; host memory
reports the writes of the CPU to its monitor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tb.env.iommu import IommuDriver
from tb.env.items import AsyncRequestItem, HostAccess, ItemSequence, PacketItem
from tb.env.predictor import UNBOUND
from tb.env.raced import MappingBackend
from tb.env.transactions import Message
from tb.lib import requests as host
from tb.lib.bridge import resume
from tb.lib.host import WAIT_CYCLES, InnerLink

if TYPE_CHECKING:
    import numpy as np

    from tb.env.nic_env import NicEnv
    from tb.lib.native import Native

# Longest time in which a device may work on an arm without visible output.
UNSEEN_CYCLES = 2000


class CheckedLink(InnerLink):
    """Sends items to the sequencers; hands messages to software after their comparison."""

    def __init__(self, env: NicEnv) -> None:
        super().__init__(env.native)
        self._send = resume(ItemSequence(env.host.sequencer).send)
        self._send_packet = resume(ItemSequence(env.net.sequencer).send)

    def post(self, device: int, requests: Iterable[bytes] | np.ndarray) -> None:
        """Sends accesses as one item."""
        self._send(HostAccess(device, requests))

    def request_event(self, device: int, group: int, syndrome: int, data: bytes) -> None:
        """Sends an asynchronous event as one item."""
        self._send(AsyncRequestItem(device, group, syndrome, data))

    def inject(self, device: int, packet: bytes) -> None:
        """Sends a packet that no device sent as one item."""
        self._send_packet(PacketItem(packet, device))

    def write(self, one: Any) -> None:
        """Takes a transaction that the scoreboard has compared."""
        if isinstance(one, Message):
            self._kept[one.device]["interrupts"].append(one.data)

    def collect(self) -> None:
        """Does nothing: the monitors read the logs at each wake."""

    def log(self, kind: str) -> Any:
        if kind != "loads":
            raise RuntimeError(f"{kind} belong to the monitors")
        return super().log(kind)


class WatchedMemory:
    """Host memory of a device; `written(address, data)` is called for each write of the CPU."""

    def __init__(self, memory: Any, written: Callable[[int, bytes], None]) -> None:
        self._memory, self._written = memory, written
        self.read = memory.read

    def write(self, address: int, data: bytes) -> None:
        self._memory.write(address, data)
        self._written(address, bytes(data))


class CheckedBackend(MappingBackend):
    """Drives one device of a checked environment (tb/env/nic_env.py)."""

    link: CheckedLink

    def __init__(
        self, env: NicEnv, link: CheckedLink, device: int, node_id: int, iommu: IommuDriver
    ) -> None:
        self._env, self._board = env, env.scoreboard.board
        super().__init__(link, env.simulator, device, node_id, iommu)
        watch = env.host.memory_monitor
        self.memory = WatchedMemory(
            self.memory, lambda address, data: watch.written(device, address, data)
        )

    def settle(self) -> None:
        if self.link.native.events_waiting(self.device):
            # A device that is idle already would end the wait before it accepts the event.
            self.pause(host.PIN_CYCLES)
        super().settle()
        self._env.flush()
        if self._board.missing():
            # Message moderation and an unseen queue scan may delay an output.
            self.pause(UNSEEN_CYCLES + self._board.moderation)
            self._env.flush()
        self._board.accepts_events(self.device, self.link.native.events_waiting(self.device))
        self._board.rest()

    def set_bus_master(self, on: bool) -> None:
        super().set_bus_master(on)
        if not on:
            # The switch follows all earlier stores; outputs before it were still due.
            native = self.link.native
            self.link.run([host.drained(self.device)], WAIT_CYCLES)
            gone = native.cycle
            while native.logged_until <= gone:
                self.link.run([], 16)

    def set_function_mask(self, on: bool) -> None:
        self.settle()
        super().set_function_mask(on)

    def fail_reads(self, address: int, size: int, responded: bool = True) -> None:
        """Makes DMA reads of the range fail on both sides, with or without a response."""
        fault = host.FAULT_ERROR if responded else host.FAULT_DROP
        self.link.native.memory(self.device).fail(address, size, fault)
        self.iommu.fail(address, size)
        self._env.host.memory_monitor.failing(self.device, address, size)

    def raise_event(self, group: int, syndrome: int = 0, data: bytes = b"") -> None:
        """Requests an asynchronous event as the management side."""
        self.link.request_event(self.device, group, syndrome, data)

    def checkpoint(self) -> None:
        """Waits until the device is idle, then compares pending outputs and host memory.

        A reset clears both, so the comparison comes before the reset.
        """
        self.settle()
        self._board.check(least=0)


def open_backends(
    env: NicEnv,
    native: Native,
    nodes: Sequence[int],
    profile: str,
    limits: dict[str, int] | None,
    straps: dict[str, Any],
) -> list[CheckedBackend]:
    """Returns the backends of a started environment, called through `bridge`; `nodes` are the
    node numbers of the devices.

    Opening a backend writes the MSI-X table of its device.
    """
    link, backends = CheckedLink(env), []
    env.software.link = link
    for device, node in enumerate(nodes):
        iommu = IommuDriver(
            native.iommu(device), native.memory(device), node, profile=profile,
            limits={**(limits or {}), **UNBOUND}, **straps,
        )  # fmt: skip
        backends.append(CheckedBackend(env, link, device, node, iommu))
    return backends
