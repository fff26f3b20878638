# SPDX-License-Identifier: Apache-2.0
"""Feeds the reference models of all devices with what the input monitors saw.

A store reaches a model when the device has accepted it, a reset when the device begins it. A packet
reaches the model of its destination when that device has accepted it, so that both see the same
order.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from efa_cosim.layouts import defs
from tb.env.difference import Difference, differs
from tb.env.predictor import Predictor, route_of
from tb.env.transactions import (
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
KEEP_ALIVE = defs.AdminAenqGroup.KEEP_ALIVE
STEP = defs.ResetStep
# Packets in flight to a device, by opcode, sender and receiver.
Flying: TypeAlias = defaultdict[tuple[int, ...], deque[bytes]]
# The event has these fields, so that get() never returns None.
(_OP_LSB, _OP_MASK), (_SRC_LSB, _SRC_MASK), (_DST_LSB, _DST_MASK) = (  # type: ignore[misc]
    (lsb, (1 << width) - 1)
    for lsb, width, _ in map(defs.EVENTS.rx_last.fields.get, ("opcode", "src_qpn", "dst_qpn"))
)


class Predictors:
    """The predictors of all devices of a fabric, by number, and the packets between them.

    `memories` are the host memories that the devices write, `nodes` their node numbers.
    """

    def __init__(
        self,
        memories: Sequence[Any],
        profile: str = "default",
        nodes: Iterable[int] = range(1, 3),
        limits: dict[str, int] | None = None,
        **straps: Any,
    ) -> None:
        self.memories = memories
        self.devices = [
            Predictor(node, profile, limits, **straps)
            for node, _ in zip(nodes, memories, strict=False)
        ]
        self._by_node = {one.device.node_id: d for d, one in enumerate(self.devices)}
        self._flying: list[Flying] = [defaultdict(deque) for _ in memories]
        # Packets that were in flight to a device at its reset: the device may accept or drop them.
        self._doubtful: list[Flying] = [defaultdict(deque) for _ in memories]
        self._actions = {
            HostStore: self._store, PinChange: self._pin, AsyncRequest: self._async_request,
            MemoryWrite: self._memory_write, MemoryFault: self._memory_fault,
            Packet: self._departs, Event: self._event,
        }  # fmt: skip

    def predict(self, one: Any) -> None:
        """Applies a transaction of a monitor to the model of its device."""
        self._actions[type(one)](one)

    def in_flight(self, number: int) -> list[tuple[int, ...]]:
        """Returns the routes of packets that have left for a device and not arrived."""
        return [route for route, packets in self._flying[number].items() if packets]

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

    def _departs(self, one: Any) -> None:
        """Puts the packet of the model in flight until the destination device accepts it.

        Fields that a device chooses differ, so the packet of the device is only compared.
        """
        route = route_of(one.data)
        target = self._by_node.get(route.dst_node)
        due = self.devices[one.device].packets.get(route)
        if due and target is not None:
            self._flying[target][route.opcode, route.src_qpn, route.dst_qpn].append(due[0])

    def _event(self, one: Any) -> None:
        device, predictor = one.device, self.devices[one.device]
        if one.kind == LAST_FLIT:
            route = (one.data >> _OP_LSB & _OP_MASK, one.data >> _SRC_LSB & _SRC_MASK,
                     one.data >> _DST_LSB & _DST_MASK)  # fmt: skip
            waiting = self._doubtful[device].get(route) or self._flying[device].get(route)
            if waiting:
                predictor.device.receive(waiting.popleft())
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
            for route, packets in self._flying[device].items():
                self._doubtful[device][route].extend(packets)
            self._flying[device].clear()
        elif step == STEP.DONE:
            # By now the fabric holds no packet from before the reset.
            self._doubtful[device].clear()
            predictor.unfinished = False
