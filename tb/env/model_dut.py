# SPDX-License-Identifier: Apache-2.0
"""Runs the model as the device; tests scoreboard and scenarios without a simulator.

`fault(kind, value)` may change or drop (None) an output of the device: "write", "packet" or
"interrupt"; with the reliable transport also hide an "arrival".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Self

from efa_cosim.backends.model import ModelBackend
from efa_cosim.boundary.backend import msix_table_stores
from efa_cosim.fabric.fabric import Fabric
from efa_cosim.fabric.network import Network
from efa_cosim.layouts import defs
from efa_cosim.transport.packets import BY_SENDER
from tb.env.checked import WatchedMemory
from tb.env.predictor import rdma_bytes
from tb.env.predictors import Predictors
from tb.env.rdma_packets import OPCODES
from tb.env.reliable_transport import ReliableTransport
from tb.env.scoreboard import Scoreboard
from tb.env.transactions import (
    COMPARED,
    PREDICTED,
    Arrival,
    AsyncRequest,
    DmaWrite,
    Event,
    HostStore,
    MemoryFault,
    MemoryWrite,
    Message,
    Packet,
    PinChange,
)

if TYPE_CHECKING:
    from efa_cosim.boundary.backend import Store
    from efa_cosim.fabric.description import FabricDescription


def no_fault(_kind: str, value: Any) -> Any:
    return value


class ModelDut(ModelBackend):
    """One model device under a scoreboard."""

    def __init__(
        self,
        number: int,
        fabric: Fabric | Network,
        profile: str = "basic",
        fault: Callable[[str, Any], Any] = no_fault,
        **options: Any,
    ) -> None:
        self.board: Any
        self.models: Any
        self.number, self.board, self.models = number, None, None
        self._fault, self._clock = fault, 0
        super().__init__(node_id=1 + number, profile=profile, fabric=fabric, **options)
        self.device.on_event = self._shown
        # Replaces the method on this object, to see each packet.
        self._receive, self.device.receive = self.device.receive, self._taken_in  # type: ignore[method-assign]

    @classmethod
    def several(
        cls,
        count: int,
        profile: str = "basic",
        fault: Callable[[str, Any], Any] = no_fault,
        **options: Any,
    ) -> list[Self]:
        """Returns devices on one fabric under one scoreboard; options are limits and straps."""
        fabric = Fabric()
        devices = [cls(number, fabric, profile, fault, **options) for number in range(count)]
        models = Predictors([device.memory for device in devices], profile, **options)
        board = Scoreboard(models)
        for device in devices:
            device.watch(models, board)
        return devices

    @classmethod
    def single(cls, fault: Callable[[str, Any], Any] = no_fault) -> Self:
        return cls.several(1, fault=fault)[0]

    def watch(self, models: Predictors, board: Scoreboard) -> None:
        """Starts the comparison of all outputs."""
        self.models, self.board = models, board
        models.devices[self.number].device.set_msix(True, False)
        self.memory = WatchedMemory(
            self.memory, lambda address, data: self.publish(MemoryWrite, address, data)
        )
        for item in msix_table_stores():
            self.publish(HostStore, *item)

    def publish(self, kind: type[Any], *values: Any) -> None:
        """Passes a transaction of this device to predictor and scoreboard, as the monitors do."""
        if self.board is None:
            return
        one = kind(self._tick() if kind in COMPARED else self._clock, self.number, *values)
        if kind in PREDICTED:
            self.models.predict(one)
        if kind in COMPARED:
            self.board.compare(one)

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    def stores(self, items: Iterable[Store]) -> None:
        for item in items:
            self.publish(HostStore, *item)
            super().stores([item])

    def set_bus_master(self, on: bool) -> None:
        self.publish(PinChange, "bme", int(on))
        super().set_bus_master(on)

    def set_function_mask(self, on: bool) -> None:
        self.publish(PinChange, "msix_fmask", int(on))
        super().set_function_mask(on)

    def flr(self) -> None:
        self.publish(PinChange, "flr", 1)
        self._shown("reset", {"step": defs.ResetStep.BEGUN})
        self._shown("reset", {"step": defs.ResetStep.DRAINED})
        super().flr()

    def fail_reads(self, address: int, size: int, responded: bool = True) -> None:
        """Makes DMA reads of the range fail, at once also without a response: there is no time."""
        self.device_memory.fail(address, size)
        self.publish(MemoryFault, address, size)

    def raise_event(self, group: int, syndrome: int = 0, data: bytes = b"") -> None:
        """Requests an asynchronous event as the management side."""
        self.publish(AsyncRequest, group, syndrome, data)
        self.device.raise_event(group, syndrome, data)

    def settle(self) -> None:
        super().settle()
        self.board.rest()

    def checkpoint(self) -> None:
        """Compares outstanding outputs and host memory; a reset would clear both."""
        self.settle()
        self.board.check(least=0)

    def pause(self, _cycles: int) -> None:
        """Does nothing: the model has no time."""

    def _shown(self, name: str, fields: dict[str, int]) -> None:
        if name == "aenq":
            self.publish(Event, defs.Ev.AENQ, defs.EVENTS.aenq.pack(**fields))
        # The end of a reset is not reported: this fabric holds its packets for any reset duration.
        if name == "reset" and fields["step"] != defs.ResetStep.DONE:
            self.publish(Event, defs.Ev.RESET, defs.EVENTS.reset.pack(**fields))

    def _taken_in(self, packet: bytes) -> None:
        head = defs.PktHdr.unpack(packet)
        seen = defs.EVENTS.rx_last.pack(
            opcode=head.opcode, src_qpn=head.src_qpn, dst_qpn=head.dst_qpn
        )
        self.publish(Event, defs.Ev.RX_LAST, seen)
        self._receive(packet)

    def _on_write(self, address: int, data: bytes) -> None:
        super()._on_write(address, data)
        data = self._fault("write", bytes(data))
        if self.board is not None and data is not None:
            self.device_memory.poke(address, data)
            self.publish(DmaWrite, address, data)

    def _on_interrupt(self, vector: int, address: int, data: int) -> None:
        super()._on_interrupt(vector, address, data)
        if self._fault("interrupt", vector) is not None:
            self.publish(Message, vector)

    def _on_packet(self, packet: bytes) -> None:
        changed = self._fault("packet", bytes(packet))
        if changed is not None:
            self.publish(Packet, changed)
        super()._on_packet(packet)


class ReliableDut(ModelDut):
    """A model with the reliable transport, on a fabric that loses, duplicates and reorders."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.device.rdma_bytes = rdma_bytes(self.device.profile.mtu)
        # A device on a network has a transport.
        endpoint: Any = self.device.transport.endpoint  # type: ignore[union-attr]
        self._endpoint_receive, self._malformed = endpoint.receive, False
        # Replaces methods on this object, to see each packet, its outcome and the cause of its
        # refusal.
        endpoint.receive, endpoint._anomaly = self._accepted, self._refused
        self._execute, endpoint.execute = endpoint.execute, self._executed

    @classmethod
    def on_fabric(
        cls,
        description: FabricDescription,
        fault: Callable[[str, Any], Any] = no_fault,
        profile: str = "basic",
    ) -> list[Self]:
        """Returns the devices of a fabric under one scoreboard; their nodes are 1, 2 and so on."""
        network = Network(description)
        devices = [
            cls(number, network, profile, fault) for number in range(len(description.nodes))
        ]
        memories = [device.memory for device in devices]
        models = Predictors(memories, profile, transport=ReliableTransport)
        board = Scoreboard(models)
        for device in devices:
            device.watch(models, board)
        return devices

    def flr(self) -> None:
        super().flr()
        self._shown("reset", {"step": defs.ResetStep.DONE})

    def _shown(self, name: str, fields: dict[str, int]) -> None:
        super()._shown(name, fields)
        if name == "reset" and fields["step"] == defs.ResetStep.DONE:
            self.publish(Event, defs.Ev.RESET, defs.EVENTS.reset.pack(**fields))

    def _tick(self) -> int:
        # Outputs of one cycle of the fabric have an order.
        self._clock = max(self._clock + 1, self.cycles)
        return self._clock

    def _on_sent(self, packet: bytes) -> None:
        changed = self._fault("packet", bytes(packet))
        if changed is not None:
            self.publish(Packet, changed)

    def _accepted(self, packet: bytes) -> None:
        self._tick()
        if self._fault("arrival", packet) is not None:
            self.publish(Arrival, packet)
        self._malformed = False
        self._endpoint_receive(packet)
        if not self._malformed:
            head = defs.PktHdr.unpack(packet)
            self.publish(Event, defs.Ev.RX_LAST, defs.EVENTS.rx_last.pack(
                opcode=head.opcode, src_qpn=head.src_qpn, dst_qpn=head.dst_qpn))  # fmt: skip

    def _executed(self, packet: bytes) -> int | None:
        before = self.device.stats.rx_bytes
        status: int | None = self._execute(packet)
        head = defs.PktHdr.unpack(packet)
        placed = packet[0] in OPCODES and self.device.stats.rx_bytes != before
        self.publish(Event, defs.Ev.RX_VALIDATED, defs.EVENTS.rx_validated.pack(
            qpn=head.dst_qpn & (1 << self.device.limits.qpn_w) - 1, status=status or 0,
            length=head.length - placed * defs.PktRdma.SIZE, drop=0, req_id=0))  # fmt: skip
        return status

    def _refused(self, cause: defs.TransportAnomaly, packet: bytes) -> None:
        self._malformed = cause not in BY_SENDER


class TamperedDut(ModelDut):
    """A model whose outputs reach the scoreboard at the end of each store and packet.

    `tamper(outputs)` returns the outputs to report, as (name, values): a key of `kinds`, and the
    values of its transaction after cycle and device. The host sees the unchanged outputs.
    """

    kinds = {"write": DmaWrite, "interrupt": Message, "packet": Packet, "event": Event}

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.outputs: list[tuple[Any, ...]]
        self.tamper: Callable[[list[tuple[Any, ...]]], list[tuple[Any, ...]]]
        self.outputs, self.tamper = [], list
        super().__init__(*arguments, **options)

    def show(self) -> None:
        """Passes the outputs of a step to the scoreboard."""
        outputs, self.outputs = self.outputs, []
        for what, *values in self.tamper(outputs):
            self.publish(self.kinds[what], *values)

    def stores(self, items: Iterable[Store]) -> None:
        for item in items:
            super().stores([item])
            self.show()

    def _taken_in(self, packet: bytes) -> None:
        super()._taken_in(packet)
        self.show()

    def _on_write(self, address: int, data: bytes) -> None:
        ModelBackend._on_write(self, address, data)
        self.outputs.append(("write", address, bytes(data)))

    def _on_interrupt(self, vector: int, address: int, data: int) -> None:
        ModelBackend._on_interrupt(self, vector, address, data)
        self.outputs.append(("interrupt", vector, address))

    def _on_packet(self, packet: bytes) -> None:
        self.outputs.append(("packet", bytes(packet)))
        ModelBackend._on_packet(self, packet)

    def _shown(self, name: str, fields: dict[str, int]) -> None:
        if name == "reset" and fields["step"] != defs.ResetStep.DONE:
            event = defs.EVENTS.reset.pack(**fields)
            self.outputs.append(("event", defs.Ev.RESET, event))
            if fields["step"] == defs.ResetStep.BEGUN:
                self.show()
