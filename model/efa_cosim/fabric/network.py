# SPDX-License-Identifier: Apache-2.0
"""Carries packets between nodes in cycles, over paths with rates, queues and faults.

    network = Network(read_fabric("fabric.yaml"))
    network.attach(1, device.receive)
    device.on_packet = network.send
    network.run()

A packet passes the link of its path, the latency of the path and the port of its destination. Each
pair of nodes has a link of its own on each path; all packets to a node share its port.
"""

from __future__ import annotations

import struct
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Protocol

from efa_cosim.fabric.description import Buffer, FabricDescription, Node, PathProperties
from efa_cosim.fabric.event_queue import EventQueue, Timer
from efa_cosim.fabric.faults import CAUSES, DOWN, Faults, Hold
from efa_cosim.layouts import defs
from efa_cosim.layouts.wire import precompiled

FLIT_BYTES = 64
_HEADER = precompiled(defs.PktHdr, "src_node", "dst_node", "path")


@dataclass(slots=True)
class Counters:
    """Packets of a link, a path or a port.

    - `sent`: packets that entered; `delivered`: packets and copies that left
    - `buffer`, `down`, `burst`, `loss`, `corrupt`: lost packets by cause
    - `duplicated`: copies that the path added
    - `reordered`: held packets that at least one later packet passed
    - `largest_queue`: most packets that waited at the same time
    """

    sent: int = 0
    delivered: int = 0
    buffer: int = 0
    down: int = 0
    burst: int = 0
    loss: int = 0
    corrupt: int = 0
    duplicated: int = 0
    reordered: int = 0
    largest_queue: int = 0

    @property
    def lost(self) -> int:
        """Lost packets of all causes."""
        return sum(getattr(self, cause) for cause in CAUSES)

    def lose(self, cause: str) -> None:
        """Counts a lost packet."""
        setattr(self, cause, getattr(self, cause) + 1)

    def add(self, other: Counters) -> None:
        """Adds the packets of another link; `largest_queue` becomes that of the fuller one."""
        largest = max(self.largest_queue, other.largest_queue)
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))
        self.largest_queue = largest


class _Transmitter:
    """Sends packets one after another at a rate; those that wait are in a queue of limited size."""

    __slots__ = ("_counters", "_flits", "_free", "_most_flits", "_most_packets", "_queue",
                 "_ticks", "_ticks_of_flit")

    def __init__(self, rate: tuple[int, int], buffer: Buffer, counters: Counters) -> None:
        # Time in ticks, of which a cycle has as many as the numerator of the rate: exact sums.
        self._ticks, self._ticks_of_flit = rate
        self._most_packets = sys.maxsize if buffer.packets is None else buffer.packets
        self._most_flits = sys.maxsize if buffer.flits is None else buffer.flits
        self._counters = counters
        self._free = 0
        self._queue: deque[tuple[int, int]] = deque()  # (tick of its start, flits)
        self._flits = 0

    def send(self, now: int, flits: int) -> int:
        """Returns the cycle in which the packet is sent, or -1 if the queue is full."""
        tick, start, queue = now * self._ticks, self._free, self._queue
        if start <= tick:
            start = tick
            if queue:
                queue.clear()
                self._flits = 0
        else:
            while queue and queue[0][0] <= tick:
                self._flits -= queue.popleft()[1]
            if len(queue) >= self._most_packets or self._flits + flits > self._most_flits:
                self._counters.buffer += 1
                return -1
            queue.append((start, flits))
            self._flits += flits
            if len(queue) > self._counters.largest_queue:
                self._counters.largest_queue = len(queue)
        self._free = end = start + flits * self._ticks_of_flit
        return -(-end // self._ticks)


class _Port:
    """The link to a node, shared by all paths and senders."""

    __slots__ = ("_events", "_receive", "_transmitter", "counters")

    def __init__(self, node: Node, events: EventQueue, receive: Callable[[bytes], object]) -> None:
        self.counters = Counters()
        self._events, self._receive = events, receive
        port = node.port
        self._transmitter = _Transmitter(port.rate.as_integer_ratio(), port.buffer, self.counters)

    def send(self, packet: bytes) -> None:
        """Sends a packet to the node, or drops the packet if the queue is full."""
        self.counters.sent += 1
        end = self._transmitter.send(self._events.now, -(-len(packet) // FLIT_BYTES))
        if end >= 0:
            self._events.push(end, self._deliver, packet)

    def _deliver(self, packet: bytes) -> None:
        self.counters.delivered += 1
        self._receive(packet)


class _Link:
    """One path from one node to another, without faults."""

    def __init__(self, path: PathProperties, events: EventQueue, port: _Port) -> None:
        self.counters = Counters()
        self._events, self._port, self._latency = events, port, path.latency
        self._transmitter = _Transmitter(path.rate.as_integer_ratio(), path.buffer, self.counters)

    def send(self, packet: bytes) -> None:
        """Sends a packet, or drops the packet if the queue is full."""
        self.counters.sent += 1
        end = self._transmitter.send(self._events.now, -(-len(packet) // FLIT_BYTES))
        if end >= 0:
            self._events.push(end + self._latency, self._pass, packet)

    def _pass(self, packet: bytes) -> None:
        """Hands a packet to the port of the destination."""
        self.counters.delivered += 1
        self._port.send(packet)


@dataclass(slots=True)
class _Held:
    """A held packet: what it waits for, and the later packets that have passed it."""

    number: int
    packet: bytes
    hold: Hold
    timer: Timer
    passed: int = 0


class _FaultyLink(_Link):
    """One path from one node to another, with faults."""

    def __init__(
        self, path: PathProperties, events: EventQueue, port: _Port, faults: Faults
    ) -> None:
        super().__init__(path, events, port)
        self._faults = faults
        self._held: dict[int, _Held] = {}  # by packet number

    def send(self, packet: bytes) -> None:
        """Sends a packet with its faults; a lost packet occupies the link as any other."""
        counters, events = self.counters, self._events
        number = counters.sent
        counters.sent += 1
        fate = self._faults.next()
        end = self._transmitter.send(events.now, -(-len(packet) // FLIT_BYTES))
        if end < 0:
            return
        arrival = end + self._latency
        cause = DOWN if self._faults.is_down(events.now, arrival) else fate.cause
        if cause is not None:
            counters.lose(cause)
            return
        events.push(arrival, self._arrive, (number, packet, fate.hold))
        if fate.copy_delay is not None:
            counters.duplicated += 1
            events.push(arrival + fate.copy_delay, self._pass, packet)

    def _arrive(self, arrived: tuple[int, bytes, Hold | None]) -> None:
        number, packet, hold = arrived
        if hold is None:
            self._pass_others(number, packet)
            return
        timer = self._events.at(self._events.now + hold.delay, lambda: self._release(held))
        held = self._held[number] = _Held(number, packet, hold, timer)

    def _pass_others(self, number: int, packet: bytes) -> None:
        """Hands a packet to the port and releases held packets that it passed as the last one."""
        self._pass(packet)
        # A release in this loop may release further packets, which then have reached their depth.
        for held in list(self._held.values()):
            if held.number < number:
                held.passed += 1
                if held.passed == held.hold.depth:
                    self._release(held)

    def _release(self, held: _Held) -> None:
        held.timer.cancel()
        del self._held[held.number]
        self.counters.reordered += held.passed > 0
        self._pass_others(held.number, held.packet)


class Observer(Protocol):
    """Sees what devices and network do, in the order of time; `now` is the present cycle."""

    def sent(self, now: int, packet: bytes) -> None:
        """Called when a device has sent a packet, also one that the network drops."""

    def delivered(self, now: int, packet: bytes) -> None:
        """Called before a device receives a packet."""

    def reset(self, now: int, node: int) -> None:
        """Called when a device is reset."""


class Network:
    """A fabric with time: devices send packets, the network delivers them in later cycles.

    `dropped`: number of packets whose source, destination or path does not exist, or whose
    destination has no device.

    The same description and the same sends give the same run. Devices are attached before the
    first packet to them is sent.
    """

    def __init__(self, description: FabricDescription, observer: Observer | None = None) -> None:
        """`description` as `read_fabric` returns it; `observer` sees all packets."""
        self.description = description
        self._observer = observer
        self.dropped = 0
        self._events = EventQueue()
        self._nodes = {node.number: node for node in description.nodes}
        self._ports: dict[int, _Port] = {}
        self._links: dict[tuple[int, int, int], _Link] = {}

    def attach(self, node: int, receive: Callable[[bytes], object]) -> None:
        """Connects a device: receive(packet) is called when a packet to the node has arrived.

        Raises ValueError if the node does not exist or has a device.
        """
        if node not in self._nodes:
            known = ", ".join(map(str, self._nodes))
            raise ValueError(f"node {node} is not in the description: use one of {known}")
        if node in self._ports:
            raise ValueError(f"node {node} is already attached: give each device its own node")
        observer = self._observer
        if observer is not None:
            device = receive

            def receive(packet: bytes) -> None:
                observer.delivered(self._events.now, packet)
                device(packet)

        self._ports[node] = _Port(self._nodes[node], self._events, receive)

    def send(self, packet: bytes) -> None:
        """Sends a packet in the present cycle to the node and on the path of its header.

        Raises ValueError if the packet is shorter than its header.
        """
        try:
            key = source, destination, path = _HEADER.unpack_from(packet)
        except struct.error:
            raise ValueError(f"packet of {len(packet)} bytes: expected a header of "
                             f"{defs.PktHdr.SIZE} bytes and the payload") from None
        if self._observer is not None:
            self._observer.sent(self._events.now, packet)
        link = self._links.get(key) or self._connect(source, destination, path)
        if link is None:
            self.dropped += 1
        else:
            link.send(packet)

    def reset(self, node: int) -> None:
        """Tells the observer that the device of a node is reset."""
        if self._observer is not None:
            self._observer.reset(self._events.now, node)

    def at(self, cycle: int, function: Callable[[], object]) -> Timer:
        """Returns a Timer that calls function() in a cycle; its `cancel()` prevents the call.

        The call follows the events that were added before it for the same cycle. Raises ValueError
        if the cycle is over.
        """
        return self._events.at(cycle, function)

    @property
    def now(self) -> int:
        """The present cycle, from 0."""
        return self._events.now

    @property
    def idle(self) -> bool:
        """True if no packet is on its way and no timer is active."""
        return not self._events

    @property
    def next_cycle(self) -> int | None:
        """The cycle of the next event, None without one."""
        return self._events.next_cycle

    def run(self, until: int | None = None, limit: int | None = None) -> int:
        """Executes events up to and with cycle `until`, at most `limit`; returns their number.

        An event is a call of a timer or a step of a packet. Afterwards `now` is `until`; without
        `until`, or if `limit` ends the call, the cycle of the last event. Raises ValueError if
        cycle `until` is over, RuntimeError inside an event.
        """
        return self._events.run(until, limit)

    def link_counters(self) -> dict[tuple[int, int, int], Counters]:
        """Returns the Counters of each link that was used, by (path, source, destination)."""
        return {(path, source, destination): link.counters
                for (source, destination, path), link in sorted(self._links.items())}

    def path_counters(self) -> list[Counters]:
        """Returns the Counters of each path: the sum of its links, `largest_queue` of the fullest.
        """
        found = [Counters() for _ in range(self.description.paths)]
        for (_, _, path), link in self._links.items():
            found[path].add(link.counters)
        return found

    def port_counters(self) -> dict[int, Counters]:
        """Returns the Counters of the port of each node that has a device."""
        return {node: port.counters for node, port in sorted(self._ports.items())}

    def _connect(self, source: int, destination: int, path: int) -> _Link | None:
        """Returns the new link of a pair of nodes on a path, None if one of them does not exist."""
        port = self._ports.get(destination)
        if port is None or source not in self._nodes or path >= self.description.paths:
            return None
        properties = self.description.path(path, source, destination)
        if Faults.possible(properties):
            name = f"{self.description.seed} {path} {source} {destination}"
            link: _Link = _FaultyLink(properties, self._events, port, Faults(properties, name))
        else:
            link = _Link(properties, self._events, port)
        self._links[source, destination, path] = link
        return link
