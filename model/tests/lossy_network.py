# SPDX-License-Identifier: Apache-2.0
"""A network with faults for the tests of the transport: one event queue, one seed.

    network = LossyNetwork(delay=500, faults=[lose(0.01), duplicate(0.1)], seed=7)

A packet arrives `delay` cycles after its last flit, and passes the port of its destination, which
takes a packet of n flits every n cycles. A fault is a function of network, packet and its copies
(extra delays in cycles); it returns the copies that are left.
"""

import heapq
import random

from efa_cosim.layouts import defs
from efa_cosim.transport.packets import flits

_DST, _PATH = defs.SrdHdr.dst_node.offset, defs.SrdHdr.path.offset
_ACK = defs.PktOpcode.SRD_ACK


class Event:
    """A call in the future."""

    __slots__ = ("function",)

    def __init__(self, function):
        self.function = function

    def cancel(self):
        self.function = None


class LossyNetwork:
    """A network; `lost` counts the data packets that faults removed, `deepest` is the greatest
    number of packets in a queue to a port; `observer` sees each packet that is
    sent."""

    def __init__(self, delay=500, faults=(), seed=0, most=None):
        self.now, self.delay, self.faults, self.most = 0, delay, list(faults), most
        self.random = random.Random(seed)
        self.lost = self.lost_acks = self.deepest = 0
        self.observer = None
        self._events, self._count = [], 0
        self._nodes, self._free, self._queued = {}, {}, {}

    def attach(self, node, receive):
        self._nodes[node] = receive
        self._free[node] = self._queued[node] = 0

    def reset(self, node):
        if self.observer is not None:
            self.observer.reset(self.now, node)

    def at(self, cycle, function):
        assert cycle >= self.now, f"cycle {cycle} is before {self.now}"
        event = Event(function)
        self._count += 1
        heapq.heappush(self._events, (cycle, self._count, event))
        return event

    def run(self, until=None):
        events = self._events
        while events and (until is None or events[0][0] <= until):
            self.now, _, event = heapq.heappop(events)
            if event.function is not None:
                event.function()
        if until is not None:
            self.now = max(self.now, until)
        elif self.observer is not None:
            self.observer.finish(self.now)

    def send(self, packet):
        if self.observer is not None:
            self.observer.sent(self.now, packet)
        copies = [0]
        for fault in self.faults:
            copies = fault(self, packet, copies)
        if not copies:
            if packet[0] == _ACK:
                self.lost_acks += 1
            else:
                self.lost += 1
        arrival = self.now + flits(packet) + self.delay
        for extra in copies:
            self.at(arrival + int(extra), lambda: self._arrive(packet))

    def _arrive(self, packet):
        node = packet[_DST] | packet[_DST + 1] << 8
        if node not in self._nodes:
            return
        free = self._free[node]
        if free <= self.now:
            self._free[node] = self.now + flits(packet)
            self._nodes[node](packet)
            return
        if self.most is not None and self._queued[node] >= self.most:
            self.lost += packet[0] != _ACK
            return
        self._queued[node] += 1
        self.deepest = max(self.deepest, self._queued[node])
        self._free[node] = free + flits(packet)
        self.at(free, lambda: self._deliver(node, packet))

    def _deliver(self, node, packet):
        self._queued[node] -= 1
        self._nodes[node](packet)


def is_ack(packet):
    return packet[0] == _ACK


def path_of(packet):
    return packet[_PATH]


def lose(rate, only=lambda packet: True):
    """Loses packets independently of each other."""

    def fault(network, packet, copies):
        return [one for one in copies if not (only(packet) and network.random.random() < rate)]

    return fault


def lose_between(first, last, only=lambda packet: True):
    """Loses every packet from cycle `first` to before cycle `last`."""

    def fault(network, packet, copies):
        return [] if first <= network.now < last and only(packet) else copies

    return fault


def lose_burst(first, count):
    """Loses `count` data packets in a row from data packet number `first` on."""
    seen = [0]

    def fault(network, packet, copies):
        if is_ack(packet):
            return copies
        seen[0] += 1
        return [] if first < seen[0] <= first + count else copies

    return fault


def delay_randomly(cycles, only=lambda packet: not is_ack(packet)):
    """Delays each copy by 0 to `cycles`."""

    def fault(network, packet, copies):
        return [one + network.random.random() * cycles if only(packet) else one for one in copies]

    return fault


def delay_path(path, cycles):
    """Delays all packets of a path."""

    def fault(network, packet, copies):
        return [one + cycles if path_of(packet) == path else one for one in copies]

    return fault


def duplicate(rate, apart=200):
    """Repeats packets up to `apart` cycles later."""

    def fault(network, packet, copies):
        return [
            copy
            for one in copies
            for copy in ([one, one + network.random.random() * apart]
                         if network.random.random() < rate else [one])
        ]  # fmt: skip

    return fault
