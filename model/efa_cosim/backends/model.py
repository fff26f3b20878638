# SPDX-License-Identifier: Apache-2.0
"""The reference model as a backend: one device without time, its host memory and its fabric."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from efa_cosim.boundary.backend import (
    DEFAULT_TIMEOUT_CYCLES,
    Backend,
    BackendUnavailable,
    DeviceTimeout,
    Store,
    Word,
    msix_table_stores,
)
from efa_cosim.boundary.memory import HostMemory, Memory
from efa_cosim.device.device import Device
from efa_cosim.fabric.description import FabricDescription, read_fabric
from efa_cosim.fabric.fabric import Fabric
from efa_cosim.fabric.network import Network, Observer

# Most steps of a network between two checks of a condition, and the cycles that they may span.
STEPS = 64
NEAR = 1000
_Item = TypeVar("_Item")


class HostView:
    """Host memory for its owner: injected read failures affect the device only."""

    def __init__(self, memory: HostMemory) -> None:
        self.read, self.write = memory.peek, memory.poke


class _Recorded:
    """A network that shows the packets of one device to its backend."""

    def __init__(self, network: Network, sent: Callable[[bytes], object]) -> None:
        self._network, self._sent = network, sent
        self.at, self.attach, self.reset = network.at, network.attach, network.reset

    @property
    def now(self) -> int:
        return self._network.now

    def send(self, packet: bytes) -> None:
        self._sent(packet)
        self._network.send(packet)


class ModelBackend(Backend):
    """The reference model of one device, without time; its fabric moves only during a wait.

    With a `Network` as its fabric, packets take time and are lost and reordered as the network
    describes, and the device sends them by the reliable transport. The device itself has no time.

    - `node_id`, `profile`, `record`: as for `open_backend`
    - `memory`: the HostMemory of the device, by default a new `Memory`
    - `fabric`: the `Fabric` or `Network` of the device, by default a new Fabric
    - `limits`: limits of the build that differ from `spec/limits.yaml`, by name
    - `straps`: `interface`, the minor interface version (0: that of the profile); `moderated`, True
      for interrupt moderation; `tick`, cycles of a tick of the transport's timers

    Attributes besides those of Backend: `device_memory`, the memory as the device reads it, with
    `fail` and `heal`; `fabric`; `device`, the model itself.

    Raises ValueError for an unknown limit.
    """

    name = "model"
    max_rounds = 1_000_000

    def __init__(
        self,
        node_id: int = 1,
        profile: str = "default",
        memory: HostMemory | None = None,
        fabric: Fabric | Network | None = None,
        record: bool = False,
        limits: Mapping[str, Any] | None = None,
        **straps: Any,
    ) -> None:
        self.node_id, self.record = node_id, record
        self.device_memory = Memory() if memory is None else memory
        self.memory = HostView(self.device_memory)
        self._interrupts: list[int] = []
        self._writes: list[tuple[int, bytes]] = []
        self._packets: list[bytes] = []
        self._activity = 0
        self.fabric: Fabric | Network = Fabric() if fabric is None else fabric
        network, paths = None, None
        if isinstance(self.fabric, Network):
            network = _Recorded(self.fabric, self._on_sent)
            paths = self.fabric.description.paths
        self.device = Device(self.device_memory, node_id=node_id, profile=profile, limits=limits,
                             network=network, paths=paths, **straps)
        self.sq_host = bool(self.device.limits.sq_host)
        self.tick_cycles = straps.get("tick", self.tick_cycles)
        self.device.on_interrupt = self._on_interrupt
        self.device.on_dma_write = self._on_write
        if isinstance(self.fabric, Fabric):
            self.fabric.attach(self.device)
            assert self.device.on_packet is not None  # by attach
            self._deliver, self.device.on_packet = self.device.on_packet, self._on_packet
        self._set_up_msix()

    def _set_up_msix(self) -> None:
        self.device.set_msix(True, False)
        self.stores(msix_table_stores())

    def _on_interrupt(self, vector: int, _address: int, _data: int) -> None:
        self._activity += 1
        self._interrupts.append(vector)

    def _on_write(self, address: int, data: bytes) -> None:
        self._activity += 1
        if self.record:
            self._writes.append((address, bytes(data)))

    def _on_packet(self, packet: bytes) -> None:
        self._on_sent(packet)
        self._deliver(packet)

    def _on_sent(self, packet: bytes) -> None:
        if self.record:
            self._packets.append(bytes(packet))

    def stores(self, items: Iterable[Store]) -> None:
        self._activity += 1
        for bar, offset, data in items:
            self.device.store(bar, offset, data)

    def load(self, bar: int, offset: int, size: int) -> bytes:
        return self.device.load(bar, offset, size)

    def wait(
        self,
        condition: Callable[[], object],
        timeout_cycles: int = DEFAULT_TIMEOUT_CYCLES,
        word: Word | None = None,
    ) -> None:
        begin = self.cycles
        for _ in range(min(timeout_cycles, self.max_rounds)):
            before = self._activity
            if condition():
                return
            if self.cycles - begin > timeout_cycles:
                raise DeviceTimeout(f"the awaited condition is still false after {timeout_cycles:,}"
                                    " cycles")
            moved = self._move() or self.device.let_time_pass()
            if not moved and self._activity == before:
                break
        raise DeviceTimeout("the device is idle, and the awaited condition is still false")

    def settle(self) -> None:
        end = self.cycles + DEFAULT_TIMEOUT_CYCLES
        while self.cycles < end and (self._move(settles=True) or self.device.let_time_pass()):
            pass

    def advance(self, cycles: int) -> None:
        """Lets so many cycles of a network pass; without one, all that is in flight arrives."""
        if isinstance(self.fabric, Fabric):
            self.settle()
            return
        self.fabric.run(self.fabric.now + cycles)
        while self.device.let_time_pass():
            pass

    def _move(self, settles: bool = False) -> int:
        """Delivers packets; returns the number of steps. A condition is checked in between.
        `settles`: an idle network is not waited for."""
        if isinstance(self.fabric, Fabric):
            return self.fabric.run()
        steps = self.fabric.run(self.fabric.now + NEAR, STEPS)
        if steps or (settles and self.fabric.idle):
            return steps
        # A jump to a distant timer is a step of its own.
        return self.fabric.run(limit=1)

    def interrupts(self) -> list[int]:
        return _drain(self._interrupts)

    def writes(self) -> list[tuple[int, bytes]]:
        return _drain(self._writes)

    def packets(self) -> list[bytes]:
        return _drain(self._packets)

    def flr(self) -> None:
        self.device.flr()
        self._set_up_msix()

    def set_bus_master(self, on: bool) -> None:
        self.device.set_bus_master(on)

    def set_function_mask(self, on: bool) -> None:
        self.device.set_msix(True, on)

    @property
    def cycles(self) -> int:
        return 0 if isinstance(self.fabric, Fabric) else self.fabric.now


def _drain(items: list[_Item]) -> list[_Item]:
    consumed = list(items)
    items.clear()
    return consumed


def open_model(
    nodes: int | None = None,
    waves: bool = False,
    fabric: str | Path | FabricDescription | None = None,
    observer: Observer | None = None,
    **options: Any,
) -> ModelBackend | list[ModelBackend]:
    """Opens the reference model; several nodes are a list that shares one fabric.

    - `nodes`: number of devices, by default 1, with `fabric` its nodes
    - `fabric`: a fabric file or its `FabricDescription`; the devices are its nodes
    - `observer`: with `fabric`, sees all packets, such as a `Monitor`
    - `options`: those of `ModelBackend`

    Raises BackendUnavailable if waves are requested, FabricFileError for a wrong file, ValueError
    for another number of nodes than that of the file.
    """
    if waves:
        raise BackendUnavailable("the reference model has no waves: open verilator or icarus")
    if fabric is not None:
        if not isinstance(fabric, FabricDescription):
            fabric = read_fabric(fabric)
        numbers = [node.number for node in fabric.nodes]
        if nodes not in (None, len(numbers)):
            raise ValueError(f"{nodes} nodes and a fabric of {len(numbers)}: leave out nodes")
        network = Network(fabric, observer)
        return [ModelBackend(node_id=number, fabric=network, **options) for number in numbers]
    if nodes in (None, 1):
        return ModelBackend(**options)
    lossless = Fabric()
    return [ModelBackend(node_id=1 + n, fabric=lossless, **options) for n in range(nodes)]
