# SPDX-License-Identifier: Apache-2.0
"""Go-back-N with the interface of Endpoint, for comparison: one path and a receiver in order.

The port, the window and the timeout are those of the reliable transport. A packet behind a gap is
dropped; the first one causes a negative acknowledgement. The sender then repeats everything from
the gap on. Nodes are not reset and peers do not die.
"""

from __future__ import annotations

from collections import deque

from efa_cosim.layouts import defs
from efa_cosim.layouts.fields import SrdAckFields, SrdHdrFields
from efa_cosim.transport.endpoint import Counters, Execute, Report
from efa_cosim.transport.message import Message
from efa_cosim.transport.network import Network, Timer
from efa_cosim.transport.packets import BITMAP_BYTES, PSN_MASK, psn_distance
from efa_cosim.transport.port import Port

_ACK = defs.PktOpcode.SRD_ACK
_SESSION = 1
# Of efa_srd_ack: marks a negative acknowledgement of this transport.
_NEGATIVE = 1


class _Sender:
    """State of a sender for one peer."""

    def __init__(self, endpoint: GoBackN, node: int) -> None:
        self.endpoint, self.node = endpoint, node
        self.queued = False
        self.oldest = self.next = self.newest = 0
        self.messages: deque[Message] = deque()
        # From oldest to newest: packets, and the cycle of the only transmission, else None.
        self.packets: deque[tuple[Message, int]] = deque()
        self.times: deque[int | None] = deque()
        self.srtt = self.rttvar = 0
        self.backoff = 0
        self._timer: Timer | None = None
        self._timer_at = self._deadline = 0

    def next_packet(self) -> bytes | None:
        at = self.next - self.oldest
        now = self.endpoint.network.now
        if self.next < self.newest:
            self.endpoint.counters.retransmitted += 1
            self.times[at] = None
        elif at < self.endpoint.window and self.messages:
            message = self.messages[0]
            self.packets.append((message, message.sent))
            self.times.append(now)
            message.sent += 1
            message.unresolved += 1
            if message.sent == len(message.payloads):
                self.messages.popleft()
            self.newest += 1
        else:
            return None
        if not at:
            self._restart()
        message, index = self.packets[at]
        psn, payload = self.next & PSN_MASK, message.payloads[index]
        self.next += 1
        self.endpoint.counters.sent += 1
        return SrdHdrFields.pack(
            opcode=message.opcode, flags=message.flags, length=len(payload),
            src_qpn=message.src_qpn, dst_qpn=message.dst_qpn, qkey=message.qkey, psn=psn,
            session=_SESSION, imm=message.imm, src_node=self.endpoint.node, dst_node=self.node,
        ) + payload  # fmt: skip

    def acknowledge(self, ack: SrdAckFields) -> None:
        count = psn_distance(ack.psn, self.oldest & PSN_MASK)
        if 0 < count <= len(self.packets):
            self._resolve(count)
        if ack.reserved == _NEGATIVE and count >= 0:
            self.next = self.oldest
        self.endpoint.wake(self)

    def _resolve(self, count: int) -> None:
        finished = []
        for _ in range(count):
            message, _index = self.packets.popleft()
            time = self.times.popleft()
            if time is not None:
                self._measure(self.endpoint.network.now - time)
            message.unresolved -= 1
            if message.finished:
                finished.append(message)
        self.oldest += count
        self.next = max(self.next, self.oldest)
        self.backoff = 0
        self._restart()
        for message in finished:
            message.end(defs.IoCompStatus.OK)

    def _measure(self, time: int) -> None:
        if not self.srtt:
            self.srtt, self.rttvar = time, time // 2
        self.rttvar += (abs(time - self.srtt) - self.rttvar) // 4
        self.srtt += (time - self.srtt) // 8

    def _restart(self) -> None:
        network, constants = self.endpoint.network, self.endpoint.constants
        rto = constants.rto_initial * constants.tick_cycles
        if self.srtt:
            rto = min(max(self.srtt + 4 * self.rttvar, 3 * self.srtt // 2), 3 * self.srtt)
            rto = max(rto, self.srtt + constants.rto_margin * constants.tick_cycles)
        self._deadline = network.now + (rto << self.backoff)
        if self._timer is not None:
            if self._timer_at <= self._deadline:
                return
            self._timer.cancel()
        self._arm()

    def _arm(self) -> None:
        self._timer_at = self._deadline
        self._timer = self.endpoint.network.at(self._deadline, self._timeout)

    def _timeout(self) -> None:
        self._timer = None
        if not self.packets:
            return
        if self.endpoint.network.now < self._deadline:
            self._arm()
            return
        self.endpoint.counters.timeouts += 1
        self.backoff = min(self.backoff + 1, self.endpoint.constants.rto_backoff_max)
        self.next = self.oldest
        self._restart()
        self.endpoint.wake(self)


class _Receiver:
    """State of a receiver for one peer: the next PSN, and whether its gap was reported."""

    def __init__(self, node: int) -> None:
        self.node, self.expected = node, 0
        self.reported = self.due = self.negative = False


class GoBackN:
    """A node that uses go-back-N; the arguments are those of Endpoint."""

    def __init__(
        self,
        network: Network,
        node: int,
        nodes: int,
        execute: Execute,
        *,
        anomaly: Report | None = None,
        paths: int | None = None,
        constants: defs.Transport = defs.TRANSPORT,
    ) -> None:
        self.network, self.node, self.constants = network, node, constants
        self._execute = execute
        self.window = 1 << constants.psn_window_w
        self.counters = Counters()
        self._senders: dict[int, _Sender] = {}
        self._receivers: dict[int, _Receiver] = {}
        self._ready: deque[_Sender] = deque()
        self._due: deque[_Receiver] = deque()
        self.port = Port(network, self._next_acknowledgement, self._next_data)
        network.attach(node, self.receive)

    def post(self, message: Message) -> None:
        """Sends a message; its `done` is called once."""
        sender = self._senders.setdefault(message.node, _Sender(self, message.node))
        sender.messages.append(message)
        self.wake(sender)

    def receive(self, packet: bytes) -> None:
        """Processes a packet of a correct peer."""
        if packet[0] == _ACK:
            ack = SrdAckFields.read(packet)
            self._senders[ack.src_node].acknowledge(ack)
            return
        data = SrdHdrFields.read(packet)
        receiver = self._receivers.setdefault(data.src_node, _Receiver(data.src_node))
        distance = psn_distance(data.psn, receiver.expected)
        if not distance:
            receiver.expected = receiver.expected + 1 & PSN_MASK
            receiver.reported = receiver.negative = False
            self._execute(packet)
        elif distance > 0:
            if receiver.reported:
                return
            receiver.reported = receiver.negative = True
        else:
            self.counters.duplicates += 1
        if not receiver.due:
            receiver.due = True
            self._due.append(receiver)
        self.port.wake()

    def wake(self, sender: _Sender) -> None:
        """Queues a sender that may have a packet."""
        if not sender.queued:
            sender.queued = True
            self._ready.append(sender)
        self.port.wake()

    def _next_acknowledgement(self) -> bytes | None:
        if not self._due:
            return None
        receiver = self._due.popleft()
        negative = _NEGATIVE if receiver.negative else 0
        receiver.due = receiver.negative = False
        return SrdAckFields.pack(
            opcode=_ACK, length=BITMAP_BYTES, psn=receiver.expected, session=_SESSION,
            incarnation=1, bitmap_psn=receiver.expected, src_node=self.node,
            dst_node=receiver.node, reserved=negative,
        )  # fmt: skip

    def _next_data(self) -> bytes | None:
        while self._ready:
            sender = self._ready.popleft()
            packet = sender.next_packet()
            if packet is not None:
                self._ready.append(sender)
                return packet
            sender.queued = False
        return None
