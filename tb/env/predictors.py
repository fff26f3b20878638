# SPDX-License-Identifier: Apache-2.0
"""Feeds the reference models of all devices with what the input monitors saw.

A store reaches a model when the device has accepted it, a reset when the device begins it. A packet
reaches the model of its destination when that device has accepted it, so that both see the same
order.
"""

from collections import defaultdict, deque

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
(_OP_LSB, _OP_MASK), (_SRC_LSB, _SRC_MASK), (_DST_LSB, _DST_MASK) = (
    (lsb, (1 << width) - 1)
    for lsb, width, _ in map(defs.EVENTS.rx_last.fields.get, ("opcode", "src_qpn", "dst_qpn"))
)


class Predictors:
    """The predictors of all devices of a fabric, by number, and the packets between them.

    `memories` are the host memories that the devices write, `nodes` their node numbers.
    """

    def __init__(self, memories, profile="default", nodes=range(1, 3), limits=None, **straps):
        self.memories = memories
        self.devices = [
            Predictor(node, profile, limits, **straps)
            for node, _ in zip(nodes, memories, strict=False)
        ]
        self._by_node = {one.device.node_id: d for d, one in enumerate(self.devices)}
        self._flying = [defaultdict(deque) for _ in memories]
        # Packets that were in flight to a device at its reset: the device may accept or drop them.
        self._doubtful = [defaultdict(deque) for _ in memories]
        self._actions = {
            HostStore: self._store, PinChange: self._pin, AsyncRequest: self._async_request,
            MemoryWrite: self._memory_write, MemoryFault: self._memory_fault,
            Packet: self._departs, Event: self._event,
        }  # fmt: skip

    def predict(self, one):
        """Applies a transaction of a monitor to the model of its device."""
        self._actions[type(one)](one)

    def in_flight(self, number):
        """Returns the routes of packets that have left for a device and not arrived."""
        return [route for route, packets in self._flying[number].items() if packets]

    def _store(self, one):
        self.devices[one.device].store(one.bar, one.offset, one.data, one.cycle)

    def _pin(self, one):
        predictor = self.devices[one.device]
        if one.pin == "bme":
            predictor.set_bus_master(bool(one.value))
        elif one.pin == "msix_fmask":
            predictor.set_function_mask(bool(one.value))
        elif one.pin == "flr":
            predictor.flr()

    def _async_request(self, one):
        self.devices[one.device].device.raise_event(one.group, one.syndrome, one.data)

    def _memory_write(self, one):
        self.devices[one.device].memory.poke(one.address, one.data)

    def _memory_fault(self, one):
        self.devices[one.device].memory.fail(one.address, one.size)

    def _departs(self, one):
        """Puts the packet of the model in flight until the destination device accepts it.

        Fields that a device chooses differ, so the packet of the device is only compared.
        """
        route = route_of(one.data)
        opcode, source, destination, _, node = route
        target, due = self._by_node.get(node), self.devices[one.device].packets.get(route)
        if due and target is not None:
            self._flying[target][opcode, source, destination].append(due[0])

    def _event(self, one):
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

    def _reset(self, one, step):
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
