# SPDX-License-Identifier: Apache-2.0
"""Connects a node to the network: its numbers, its peers, its port and the checks of packets."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from efa_cosim.layouts import defs
from efa_cosim.layouts.fields import SrdAckFields, SrdHdrFields
from efa_cosim.transport.message import Message
from efa_cosim.transport.network import Network
from efa_cosim.transport.packets import BITMAP_BYTES, NUMBER_MASK, Start, fits, number_distance
from efa_cosim.transport.port import Port
from efa_cosim.transport.receiver import PeerReceiver
from efa_cosim.transport.sender import REFUSALS, PeerSender

# Executes a data packet: 0 if it has taken effect, the status of its refusal, or None if
# Endpoint.executed gives the outcome later.
Execute: TypeAlias = Callable[[bytes], int | None]
# Takes the cause of a dropped packet and the packet.
Report: TypeAlias = Callable[[defs.TransportAnomaly, bytes], object]

_Anomaly = defs.TransportAnomaly
_ACK = defs.PktOpcode.SRD_ACK
_DATA = frozenset({
    defs.PktOpcode.SRD_SEND, defs.PktOpcode.RDMA_WRITE, defs.PktOpcode.READ_REQUEST,
    defs.PktOpcode.READ_RESPONSE,
})  # fmt: skip
_DATAGRAM = defs.PktOpcode.UD_SEND


@dataclass(slots=True)
class Counters:
    """Events of a node since it was created.

    - `sent`: data packets, with retransmissions and probes
    - `lost`: packets that the sender found to be lost
    - `retransmitted`, `probes`: packets that were sent again
    - `timeouts`: timeouts
    - `duplicates`: data packets that had arrived before
    - `stale`: packets of the past, dropped
    - `anomalies`: packets that no correct peer sends, dropped
    """

    sent: int = 0
    lost: int = 0
    retransmitted: int = 0
    probes: int = 0
    timeouts: int = 0
    duplicates: int = 0
    stale: int = 0
    anomalies: int = 0


class Endpoint:
    """A node of the reliable transport.

    - `network`: carries its packets
    - `node`, `nodes`: its number, and the number of nodes; others do not exist
    - `execute`: executes a data packet and returns its status
    - `datagram`: called with each packet of the opcode UD_SEND that passes the checks; None: the
      opcode is unknown
    - `anomaly`: called with the cause and the packet for each packet that no correct peer sends
    - `paths`: paths of the fabric, default 2^`paths_w`
    - `constants`: those of spec/transport.yaml
    - `start`: first numbers
    """

    def __init__(
        self,
        network: Network,
        node: int,
        nodes: int,
        execute: Execute,
        *,
        anomaly: Report | None = None,
        datagram: Callable[[bytes], object] | None = None,
        paths: int | None = None,
        constants: defs.Transport = defs.TRANSPORT,
        start: Start = Start(),  # noqa: B008 - immutable
    ) -> None:
        self.network, self.node, self.nodes = network, node, nodes
        self.execute, self._anomaly, self._datagram = execute, anomaly, datagram
        self.constants, self.start = constants, start
        self.paths = paths or 1 << constants.paths_w
        self._window = 1 << constants.psn_window_w
        self._quiet_cycles = constants.quiet_ticks * constants.tick_cycles
        self._most_replies = constants.replies
        self.counters = Counters()
        self.incarnation = self._number = start.number
        self._quiet_until = 0
        self.senders: dict[int, PeerSender] = {}
        self.receivers: dict[int, PeerReceiver] = {}
        # Senders that may have a packet, receivers with a due acknowledgement, other replies.
        self._ready: deque[PeerSender] = deque()
        self._due: deque[PeerReceiver] = deque()
        self._replies: deque[bytes] = deque()
        self._datagrams: deque[bytes] = deque()
        self._datagram_turn = False
        self.port = Port(network, self._next_acknowledgement, self._next_data)
        network.attach(node, self.receive)

    # Messages.

    def post(self, message: Message) -> None:
        """Sends a message; its `done` is called once unless the node is reset before.

        Raises ValueError if the message has no packet or its destination does not exist.
        """
        if not message.payloads or not 0 <= message.node < self.nodes:
            raise ValueError(
                f"expected at least one packet to a node below {self.nodes}, found "
                f"{len(message.payloads)} packets to node {message.node}"
            )
        sender = self.senders.get(message.node)
        if sender is None:
            sender = self.senders[message.node] = PeerSender(self, message.node)
        sender.post(message)

    def send_datagram(self, packet: bytes) -> None:
        """Sends a packet without transport, in turn with the peers."""
        self._datagrams.append(packet)
        self.port.wake()

    def cancel(self, message: Message, status: int = defs.IoCompStatus.FLUSHED) -> None:
        """Ends a message with a status; packets in the fabric may still take effect."""
        if not message.ended:
            self.senders[message.node].cancel(message, status)

    def reset(self) -> None:
        """Forgets all peers and messages, without completions, and begins an incarnation."""
        self.network.reset(self.node)
        for sender in self.senders.values():
            sender.drop()
        self.senders.clear()
        self.receivers.clear()
        for queue in (self._ready, self._due, self._replies, self._datagrams):
            queue.clear()
        self.incarnation = self.next_number()
        self._quiet_until = self.network.now + self._quiet_cycles

    @property
    def is_quiet(self) -> bool:
        """True in the time after a reset in which packets from before it may arrive."""
        return self.network.now < self._quiet_until

    def next_number(self) -> int:
        """Takes the next number for an incarnation or a session."""
        self._number = self._number + 1 & NUMBER_MASK or 1
        return self._number

    def is_new_number(self, number: int) -> bool:
        """True if this node has not given this number yet."""
        return number_distance(number, self._number) > 0

    # Packets from the network.

    def receive(self, packet: bytes) -> None:
        """Processes a packet; a malformed one changes nothing and is reported."""
        if len(packet) < defs.SrdHdr.SIZE:
            cause: defs.TransportAnomaly | None = _Anomaly.LENGTH
        elif packet[0] == _ACK:
            cause = self._receive_ack(packet)
        elif packet[0] in _DATA:
            cause = self._receive_data(packet)
        elif packet[0] == _DATAGRAM and self._datagram is not None:
            cause = self._receive_datagram(packet)
        else:
            cause = _Anomaly.OPCODE
        if cause is not None:
            self.counters.anomalies += 1
            if self._anomaly is not None:
                self._anomaly(cause, packet)

    def _receive_datagram(self, packet: bytes) -> defs.TransportAnomaly | None:
        head = SrdHdrFields.read(packet)
        if head.dst_node != self.node:
            return _Anomaly.NODE
        if not fits(packet, head.length):
            return _Anomaly.LENGTH
        assert self._datagram is not None
        self._datagram(packet)
        return None

    def _receive_data(self, packet: bytes) -> defs.TransportAnomaly | None:
        data = SrdHdrFields.read(packet)
        if data.dst_node != self.node or data.src_node >= self.nodes:
            return _Anomaly.NODE
        if (
            data.path >= self.paths
            or data.status
            or not data.session
            or data.behind >= self._window
        ):
            return _Anomaly.FIELD
        if not fits(packet, data.length):
            return _Anomaly.LENGTH
        receiver = self.receivers.get(data.src_node)
        if receiver is None:
            receiver = self.receivers[data.src_node] = PeerReceiver(self, data.src_node)
        receiver.receive(data, packet)
        return None

    def _receive_ack(self, packet: bytes) -> defs.TransportAnomaly | None:
        # A short packet has all fields that are checked before its length.
        ack = SrdAckFields.read(packet.ljust(defs.SrdAck.SIZE, b"\0"))
        if ack.dst_node != self.node or ack.src_node >= self.nodes:
            return _Anomaly.NODE
        if (
            ack.path >= self.paths
            or ack.flags
            or ack.reserved
            or not ack.session
            or not ack.incarnation
            or (ack.status and ack.status not in REFUSALS)
        ):
            return _Anomaly.FIELD
        if len(packet) != defs.SrdAck.SIZE or ack.length != BITMAP_BYTES:
            return _Anomaly.LENGTH
        sender = self.senders.get(ack.src_node)
        if sender is None:
            if self.is_new_number(ack.session):
                return _Anomaly.SESSION
            self.counters.stale += 1
            return None
        return sender.acknowledge(ack)

    def executed(self, packet: bytes, status: int) -> None:
        """Gives the outcome of a packet for which `execute` returned None.

        A reset cancels the packets in execution: they have no outcome.
        """
        data = SrdHdrFields.read(packet)
        receiver = self.receivers.get(data.src_node)
        if receiver is not None:
            receiver.executed(data, status)

    # Packets for the port.

    def wake(self, sender: PeerSender) -> None:
        """Queues a sender that may have a packet."""
        if not sender.queued:
            sender.queued = True
            self._ready.append(sender)
        self.port.wake()

    def acknowledge(self, receiver: PeerReceiver) -> None:
        """Queues a receiver whose acknowledgement is due."""
        self._due.append(receiver)
        self.port.wake()

    def reply(self, packet: bytes) -> None:
        """Queues a refusal or another reply; without space it is lost as in the fabric."""
        if len(self._replies) < self._most_replies:
            self._replies.append(packet)
            self.port.wake()

    def _next_acknowledgement(self) -> bytes | None:
        if self._replies:
            return self._replies.popleft()
        while self._due:
            packet = self._due.popleft().acknowledgement()
            if packet is not None:
                return packet
        return None

    def _next_data(self) -> bytes | None:
        # A datagram has the turn after each packet of the transport.
        if self._datagrams and not (self._ready and self._datagram_turn):
            self._datagram_turn = True
            return self._datagrams.popleft()
        self._datagram_turn = False
        while self._ready:
            sender = self._ready.popleft()
            packet = sender.next_packet()
            if packet is not None:
                self._ready.append(sender)
                return packet
            sender.queued = False
        return None
