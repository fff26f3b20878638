# SPDX-License-Identifier: Apache-2.0
"""Compares and delivers the packets of decision 0002: each is sent once and keeps its order."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from efa_cosim.layouts import defs
from tb.env.difference import Where, differs, not_due, packet_field
from tb.env.predictor import psn_of, route_of, same_packet
from tb.lib.failure import Named

if TYPE_CHECKING:
    from tb.env.predictor import Predictor
    from tb.env.transactions import Arrival, Event, Packet

_SRD_SEND = int(defs.PktOpcode.SRD_SEND)
# Packets in flight to a device, by opcode, sender and receiver.
Flying: TypeAlias = defaultdict[tuple[int, ...], deque[bytes]]
_REPORTED = (defs.EVENTS.rx_last.fields[name] for name in ("opcode", "src_qpn", "dst_qpn"))
_FIELDS = tuple((lsb, (1 << width) - 1) for lsb, width, _ in _REPORTED)


def reported_route(event: Event) -> tuple[int, ...]:
    """Returns opcode, sender and receiver of the packet of an rx_last event."""
    return tuple(event.data >> lsb & mask for lsb, mask in _FIELDS)


class Transport(Protocol):
    """What predictors and scoreboard use of the packets between the devices."""

    def departs(self, one: Packet) -> None:
        """Takes a packet that leaves a device, before its comparison."""

    def arrives(self, one: Arrival) -> None:
        """Takes a packet that a device accepts from the fabric."""

    def reported(self, one: Event) -> None:
        """Takes an rx_last event: the device has accepted a well-formed packet."""

    def drained(self, device: int, cycle: int) -> None:
        """A reset of a device has cancelled its work."""

    def done(self, device: int, cycle: int) -> None:
        """A reset of a device has ended."""

    def compare(self, where: Where, packet: bytes) -> str:
        """Compares a packet that leaves a device; returns the kind of the comparison."""

    def validated(self, one: Event) -> None:
        """Takes an rx_validated event: the device has validated a packet."""

    def ends(self, device: int, entry: bytes) -> None:
        """Ends an operation of the model with the CQE of its device, if the order is open."""

    def outstanding(self, device: int) -> list[str]:
        """Returns texts of what a device has not sent or reported."""


class DirectTransport:
    """Delivers each packet once, in the order of its route.

    The model of the destination receives the packet of the model of the sender, when the
    destination reports the packet of the sender.
    """

    def __init__(self, devices: Sequence[Predictor]) -> None:
        self._devices = devices
        self._by_node = {one.device.node_id: d for d, one in enumerate(devices)}
        self._flying: list[Flying] = [defaultdict(deque) for _ in devices]
        # Packets that were in flight to a device at its reset: the device may accept or drop them.
        self._doubtful: list[Flying] = [defaultdict(deque) for _ in devices]
        self._next_psn: Counter[tuple[int, int]] = Counter()

    def departs(self, one: Packet) -> None:
        """Puts the packet of the model in flight until the destination device accepts it.

        Fields that a device chooses differ, so the packet of the device is only compared.
        """
        route = route_of(one.data)
        target = self._by_node.get(route.dst_node)
        due = self._devices[one.device].packets.get(route)
        if due and target is not None:
            self._flying[target][route.opcode, route.src_qpn, route.dst_qpn].append(due[0])

    def arrives(self, one: Arrival) -> None:
        """Does nothing: the device reports the packet in the same cycle."""

    def reported(self, one: Event) -> None:
        """Delivers the oldest packet of the route to the model."""
        device, route = one.device, reported_route(one)
        waiting = self._doubtful[device].get(route) or self._flying[device].get(route)
        if waiting:
            self._devices[device].device.receive(waiting.popleft())

    def validated(self, one: Event) -> None:
        """Does nothing: the model has executed the packet when it came."""

    def ends(self, device: int, entry: bytes) -> None:
        """Does nothing: the model knows the outcome of each send."""

    def drained(self, device: int, cycle: int) -> None:
        """Begins the PSNs of a device at 0."""
        for route, packets in self._flying[device].items():
            self._doubtful[device][route].extend(packets)
        self._flying[device].clear()
        for to in [to for to in self._next_psn if to[0] == device]:
            del self._next_psn[to]

    def done(self, device: int, cycle: int) -> None:
        """By now the fabric holds no packet from before the reset."""
        self._doubtful[device].clear()

    def compare(self, where: Where, packet: bytes) -> str:
        """Compares a packet with the oldest one of its route, and its PSN."""
        device, route = where[0], route_of(packet)
        owed = self._devices[device].packets.get(route)
        if not owed:
            raise not_due(where, packet)
        wanted = owed.popleft()
        if not same_packet(packet, wanted):
            raise differs(
                where, f"packet\n  expected {wanted.hex()}\n  got      {packet.hex()}",
                packet_field(wanted, packet),
            )  # fmt: skip
        if route.opcode == _SRD_SEND:
            (psn,) = psn_of(packet)
            node = route.dst_node
            due = self._next_psn[device, node]
            if psn != due:
                raise differs(
                    where, f"psn {psn}, not {due}, to {node}",
                    Named("psn of efa_pkt_hdr", str(due), str(psn)),
                )  # fmt: skip
            self._next_psn[device, node] = due + 1 & 0xFFFFFFFF
        return "packets"

    def outstanding(self, device: int) -> list[str]:
        """Returns texts of packets that a device has not sent, or not accepted."""
        due = self._devices[device].packets.values()
        return [
            *(f"packet {packet[:32].hex()}" for packets in due for packet in packets),
            *(
                f"packet on its way: {route}"
                for route, packets in self._flying[device].items() if packets
            ),
        ]  # fmt: skip
