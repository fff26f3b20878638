# SPDX-License-Identifier: Apache-2.0
"""Feeds the reference models of all devices with what the input monitors saw.

A store reaches a model when the device has accepted it, a reset when the device begins it. A packet
reaches the model of its destination when that device has accepted it, so that both see the same
order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from efa_cosim.layouts import defs
from tb.env.difference import Difference, differs
from tb.env.direct_transport import DirectTransport, Transport
from tb.env.predictor import Predictor
from tb.env.transactions import (
    Arrival,
    AsyncRequest,
    Event,
    HostStore,
    MemoryFault,
    MemoryWrite,
    Packet,
    PinChange,
)
from tb.lib.failure import Named

LAST_FLIT, RESET, ASYNC = defs.Ev.RX_LAST, defs.Ev.RESET, defs.Ev.AENQ
VALIDATED = defs.Ev.RX_VALIDATED
KEEP_ALIVE = defs.AdminAenqGroup.KEEP_ALIVE
STEP = defs.ResetStep


class Predictors:
    """The predictors of all devices of a fabric, by number, and the packets between them.

    `memories` are the host memories that the devices write, `nodes` their node numbers; `transport`
    compares and delivers the packets.
    """

    def __init__(
        self,
        memories: Sequence[Any],
        profile: str = "basic",
        nodes: Iterable[int] = range(1, 3),
        limits: dict[str, int] | None = None,
        transport: Callable[[Sequence[Predictor]], Transport] = DirectTransport,
        **straps: Any,
    ) -> None:
        self.memories = memories
        self.devices = [
            Predictor(node, profile, limits, **straps)
            for node, _ in zip(nodes, memories, strict=False)
        ]
        self.transport = transport(self.devices)
        self._actions = {
            HostStore: self._store, PinChange: self._pin, AsyncRequest: self._async_request,
            MemoryWrite: self._memory_write, MemoryFault: self._memory_fault,
            Packet: self.transport.departs, Arrival: self.transport.arrives,
            Event: self._event,
        }  # fmt: skip

    def predict(self, one: Any) -> None:
        """Applies a transaction of a monitor to the model of its device."""
        self._actions[type(one)](one)

    def _store(self, one: Any) -> None:
        self.devices[one.device].store(one.bar, one.offset, one.data, one.cycle)

    def _pin(self, one: Any) -> None:
        predictor = self.devices[one.device]
        if one.pin == "bme":
            predictor.set_bus_master(bool(one.value))
        elif one.pin == "msix_fmask":
            predictor.set_function_mask(bool(one.value))
        elif one.pin == "flr":
            predictor.flr()

    def _async_request(self, one: Any) -> None:
        self.devices[one.device].device.raise_event(one.group, one.syndrome, one.data)

    def _memory_write(self, one: Any) -> None:
        self.devices[one.device].memory.poke(one.address, one.data)

    def _memory_fault(self, one: Any) -> None:
        self.devices[one.device].memory.fail(one.address, one.size)

    def _event(self, one: Any) -> None:
        predictor = self.devices[one.device]
        if one.kind == LAST_FLIT:
            self.transport.reported(one)
        elif one.kind == VALIDATED:
            self.transport.validated(one)
        elif one.kind == ASYNC:
            # The end of the period depends on the device; the free space of the ring does not.
            if defs.EVENTS.aenq.unpack(one.data).group == KEEP_ALIVE:
                predictor.device.keep_alive()
        elif one.kind == RESET:
            self._reset(one, defs.EVENTS.reset.unpack(one.data).step)

    def _reset(self, one: Any, step: int) -> None:
        device, predictor = one.device, self.devices[one.device]
        if step == STEP.BEGUN and not predictor.reset_begun():
            raise differs((device, one.cycle), "reset\n  expected none\n  got      its begin")
        if step == STEP.DRAINED:
            if not predictor.resetting:
                raise Difference(
                    f"device {device} reset itself", Named("reset", "none", "its drained step")
                )
            predictor.restart(self.memories[device])
            self.transport.drained(device, one.cycle)
        elif step == STEP.DONE:
            self.transport.done(device, one.cycle)
            predictor.unfinished = False
