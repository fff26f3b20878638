# SPDX-License-Identifier: Apache-2.0
"""Holds each packet of a run to docs/decisions/0009-reliable-transport.md (docs/monitor.md).

    monitor = Monitor()
    network = Network(description, observer=monitor)
    network.run()
    monitor.finish(network.now)
    print(monitor.packets)

The monitor knows a node only by the packets that it receives and sends. A check is exact where
these packets decide it; elsewhere it permits what some sender or receiver of the decision may do.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable

from efa_cosim.layouts import defs
from efa_cosim.layouts.fields import SrdAckFields, SrdHdrFields
from efa_cosim.transport.monitor_receiver import ReceiverView
from efa_cosim.transport.monitor_rules import ProtocolFault, Rule, Settings, raise_fault
from efa_cosim.transport.monitor_sender import SenderView
from efa_cosim.transport.packets import BITMAP_BYTES, NUMBER_MASK, Start, number_distance

_ACK = int(defs.PktOpcode.SRD_ACK)
_STATUS = defs.IoCompStatus
_OPCODES = frozenset({
    defs.PktOpcode.SRD_SEND, defs.PktOpcode.RDMA_WRITE, defs.PktOpcode.READ_REQUEST,
    defs.PktOpcode.READ_RESPONSE})  # fmt: skip
# Of the execution of a packet; its message waits for all of its packets.
_REFUSALS = frozenset({
    _STATUS.REMOTE_ERROR_BAD_ADDRESS, _STATUS.REMOTE_ERROR_BAD_DEST_QPN, _STATUS.REMOTE_ERROR_RNR,
    _STATUS.REMOTE_ERROR_BAD_LENGTH, _STATUS.REMOTE_ERROR_BAD_STATUS,
    _STATUS.REMOTE_ERROR_UNKNOWN_PEER, _STATUS.REMOTE_ERROR_FEATURE_MISMATCH})  # fmt: skip
_ACK_STATUSES = _REFUSALS | {_STATUS.OK, _STATUS.REMOTE_ERROR_ABORT}


class _Node:
    """A node: its counter, its incarnation, and its state for each peer.

    - `incarnation`: None until an acknowledgement has shown it
    - `newest`: the newest number that the node has used, None before the first one
    - `first`: the first session since the last reset, None before it
    - `before`: `newest` at the last reset; `reset`: cycle of the last reset, None without one
    """

    __slots__ = ("before", "ended", "first", "incarnation", "newest", "receivers", "reset",
                 "senders")

    def __init__(self) -> None:
        self.incarnation: int | None = None
        self.newest: int | None = None
        self.first: int | None = None
        self.before: int | None = None
        self.reset: int | None = None
        self.senders: dict[int, SenderView] = {}
        self.receivers: dict[int, ReceiverView] = {}
        self.ended: dict[Hashable, int] = {}  # cycle of the completion

    def session(self, number: int) -> str | None:
        """Takes the number of a new session; returns what was expected if it is wrong."""
        newest = self.newest
        if newest is not None and number_distance(number, newest) <= 0:
            return f"a number newer than {newest}"
        self.newest = number
        if self.first is None:
            self.first = number
        return None

    def learn(self, number: int) -> str | None:
        """Takes an incarnation that the node shows; returns what was expected if it is wrong."""
        if self.incarnation is not None:
            return None if number == self.incarnation else str(self.incarnation)
        if self.before is not None and number_distance(number, self.before) <= 0:
            return f"a number newer than {self.before}"
        if self.first is not None and number_distance(number, self.first) >= 0:
            return f"a number older than session {self.first}"
        self.incarnation = number
        if self.newest is None or number_distance(number, self.newest) > 0:
            self.newest = number
        return None

    def restart(self, now: int) -> None:
        """Resets the node: only its counter continues."""
        self.before, self.reset = self.newest, now
        self.incarnation = self.first = None
        for sender in self.senders.values():
            sender.reset()
        for receiver in self.receivers.values():
            receiver.reset()


class Monitor:
    """Checks each packet of the reliable transport on a network.

    - `packets`: number of packets that were checked when they were sent
    - `report`: called with each ProtocolFault; without it the first fault is raised
    - `nodes`: numbers of the nodes that exist, None for all
    - `paths`, `constants`: as those of the nodes; `start`: first PSN of sessions, None for any
    - `outcomes`: True if each outcome is reported to `executed`
    - `cancels`: False if no message is canceled without a report to `completed`
    - `message_of`: returns the message of a data packet, or None; each completion of a message is
      then reported to `completed`, and `cancels` has no effect
    - `untrusted`: nodes that may send anything
    - `reaction`: most cycles from an arrival at a node to its effect in a data packet that leaves,
      0 if nodes react at once
    - `handling`: the part of `reaction` until decisions know of the arrival, and most cycles to its
      effect in an acknowledgement; None: any part

    Raises ValueError for a negative time, a handling above the reaction, and a reaction with
    outcomes.
    """

    def __init__(
        self,
        *,
        report: Callable[[ProtocolFault], object] = raise_fault,
        nodes: Container[int] | None = None,
        paths: int = 1 << defs.TRANSPORT.paths_w,
        constants: defs.Transport = defs.TRANSPORT,
        start: Start | None = None,
        outcomes: bool = False,
        cancels: bool = True,
        message_of: Callable[[bytes], Hashable | None] | None = None,
        untrusted: Container[int] = (),
        reaction: int = 0,
        handling: int | None = None,
    ) -> None:
        transmit = reaction - (handling or 0)
        if handling is None:
            handling = reaction
        if not 0 <= handling <= reaction or (reaction and outcomes):
            raise ValueError(
                f"reaction {reaction}, handling {handling}: expected a reaction from 0 on, 0 with "
                "outcomes=True, and a handling up to the reaction")
        self.packets = 0
        cancels_are_known = message_of is not None or not cancels
        self._settings = Settings(constants, paths, start, cancels_are_known, outcomes, report,
                                  reaction, handling, transmit)
        self._exist, self._message_of, self._untrusted = nodes, message_of, untrusted
        self._nodes: dict[int, _Node] = {}
        self._tick = self._settings.tick
        self._quiet = constants.quiet_ticks * self._tick

    # Observations, in the order of time.

    def sent(self, now: int, packet: bytes) -> None:
        """Checks a packet whose first flit leaves a node in cycle `now`."""
        opcode = packet[0] if packet else 0
        if opcode == defs.PktOpcode.UD_SEND:
            return
        self.packets += 1
        if len(packet) < defs.SrdHdr.SIZE:
            expected = f"{defs.SrdHdr.SIZE} bytes or more"
            self._wrong_field(now, (0, 0, None, None), expected, len(packet))
            return
        if opcode == _ACK:
            self._sent_ack(now, packet)
            return
        data = SrdHdrFields.read(packet)
        node, peer = data.src_node, data.dst_node
        if node in self._untrusted:
            return
        wrong = self._wrong_data(packet, data)
        if wrong:
            self._wrong_field(now, (node, peer, data.session, data.psn), *wrong)
            return
        own = self._node(node)
        sender = own.senders.get(peer)
        if sender is None:
            sender = own.senders[peer] = SenderView(node, peer, self._settings, own.session)
        message = None if self._message_of is None else self._message_of(packet)
        end = None if message is None else own.ended.get(message)
        ended = end is not None and end <= now - self._settings.reaction
        sender.sent(now, packet, data, message, ended)

    def delivered(self, now: int, packet: bytes, node: int | None = None) -> None:
        """Takes a packet before a node receives it in cycle `now`; without `node`, its destination.
        """
        if len(packet) < defs.SrdHdr.SIZE:
            return
        if packet[0] != _ACK:
            self._delivered_data(now, packet, node)
            return
        if len(packet) != defs.SrdAck.SIZE:
            return
        ack = SrdAckFields.read(packet)
        if (node is not None and ack.dst_node != node) or self._wrong_ack(ack):
            return
        sender = self._node(ack.dst_node).senders.get(ack.src_node)
        if sender is not None:
            sender.acknowledged(now, ack)

    def reset(self, now: int, node: int) -> None:
        """Takes a reset of a node; the packets from before have left."""
        self._node(node).restart(now)

    def executed(self, now: int, packet: bytes, status: int) -> None:
        """Takes the outcome of a packet at its destination, before that reports the outcome.

        No effect without `outcomes`.
        """
        if not self._settings.outcomes_are_known:
            return
        data = SrdHdrFields.read(packet)
        receiver = self._node(data.dst_node).receivers.get(data.src_node)
        if receiver is not None:
            receiver.executed(now, data, status)

    def completed(self, now: int, node: int, message: Hashable, status: int) -> None:
        """Checks the completion of a message of a node."""
        own = self._node(node)
        own.ended.setdefault(message, now)
        waits = status == _STATUS.OK or status in _REFUSALS
        for sender in own.senders.values():
            sender.completed(now, message, waits)

    def finish(self, now: int) -> None:
        """Checks that nothing is missing in cycle `now`, when no packet is on its way."""
        for node in self._nodes.values():
            for receiver in node.receivers.values():
                receiver.finish(now)

    # Fields.

    def _node(self, node: int) -> _Node:
        found = self._nodes.get(node)
        if found is None:
            found = self._nodes[node] = _Node()
        return found

    def _wrong_field(
        self, now: int, where: tuple[int, int, int | None, int | None], expected: object,
        found: object,
    ) -> None:  # fmt: skip
        self._settings.report(ProtocolFault(Rule.FIELD, now, *where, str(expected), str(found)))

    def _wrong_data(self, packet: bytes, data: SrdHdrFields) -> tuple[str, object] | None:
        """Returns what was expected and found in a wrong header, None if the header is good."""
        if data.opcode not in _OPCODES:
            return "a known opcode", data.opcode
        if len(packet) != defs.SrdHdr.SIZE + data.length:
            return f"{defs.SrdHdr.SIZE + data.length} bytes", len(packet)
        if self._exist is not None and not (
            data.src_node in self._exist and data.dst_node in self._exist
        ):
            return "nodes that exist", f"{data.src_node} to {data.dst_node}"
        if data.path >= self._settings.paths:
            return f"a path below {self._settings.paths}", data.path
        if not data.session or data.status:
            return "a session and status 0", f"session {data.session}, status {data.status}"
        if data.flags > 1 or (data.imm and not data.flags):
            return "flag has_imm, or imm 0", f"flags {data.flags}, imm {data.imm}"
        return None

    def _wrong_ack(self, ack: SrdAckFields) -> tuple[str, object] | None:
        if ack.length != BITMAP_BYTES:
            return f"length {BITMAP_BYTES}", ack.length
        if self._exist is not None and not (
            ack.src_node in self._exist and ack.dst_node in self._exist
        ):
            return "nodes that exist", f"{ack.src_node} to {ack.dst_node}"
        if ack.path >= self._settings.paths:
            return f"a path below {self._settings.paths}", ack.path
        if not ack.session or not ack.incarnation:
            return "numbers other than 0", f"session {ack.session}, incarnation {ack.incarnation}"
        if ack.flags or ack.reserved:
            return "flags and reserved 0", f"{ack.flags}, {ack.reserved}"
        if ack.status not in _ACK_STATUSES:
            return "0 or the status of a refusal", ack.status
        return None

    # Receivers.

    def _sent_ack(self, now: int, packet: bytes) -> None:
        if len(packet) != defs.SrdAck.SIZE:
            self._wrong_field(now, (0, 0, None, None), f"{defs.SrdAck.SIZE} bytes", len(packet))
            return
        ack = SrdAckFields.read(packet)
        node, peer = ack.src_node, ack.dst_node
        if node in self._untrusted:
            return
        wrong = self._wrong_ack(ack)
        if wrong is None and not ack.status and (ack.src_qpn or ack.dst_qpn or ack.refused_psn):
            wrong = "QPs and refused_psn 0", (ack.src_qpn, ack.dst_qpn, ack.refused_psn)
        if wrong:
            self._wrong_field(now, (node, peer, ack.session, None), *wrong)
            return
        own = self._node(node)
        error = own.learn(ack.incarnation)
        if error:
            self._settings.report(ProtocolFault(
                Rule.NUMBER, now, node, peer, ack.session, None, error,
                f"incarnation {ack.incarnation}"))  # fmt: skip
            return
        self._receiver(own, node, peer).acknowledged(now - self._settings.handling, now, ack)

    def _receiver(self, own: _Node, node: int, peer: int) -> ReceiverView:
        receiver = own.receivers.get(peer)
        if receiver is None:
            receiver = own.receivers[peer] = ReceiverView(node, peer, self._settings)
        return receiver

    def _delivered_data(self, now: int, packet: bytes, node: int | None) -> None:
        data = SrdHdrFields.read(packet)
        if (node is not None and data.dst_node != node) or self._wrong_received(packet, data):
            return
        own = self._node(data.dst_node)
        receiver = self._receiver(own, data.dst_node, data.src_node)
        number, incarnation = data.incarnation, own.incarnation
        if number and number != incarnation:
            receiver.returned(data, abort=True)
            if incarnation is not None or self._is_past(own, number):
                return
            # A number that no peer can know yet: rule 1, or by chance the incarnation.
        elif not number and own.reset is not None:
            # The cycle of the reset may be anywhere in its tick.
            since, doubt = now - own.reset, self._tick + self._settings.handling
            if since <= self._quiet + doubt:
                receiver.returned(data, abort=False)
                if since < self._quiet - doubt:
                    return
        receiver.received(now, data)

    def _wrong_received(self, packet: bytes, data: SrdHdrFields) -> bool:
        # A receiver ignores flags that it does not know.
        if data.behind >= self._settings.window:
            return True
        return self._wrong_data(packet, data._replace(flags=0, imm=0)) is not None

    @staticmethod
    def _is_past(own: _Node, number: int) -> bool:
        """True if the node has used a number before its last reset."""
        return own.before is not None and number_distance(number & NUMBER_MASK, own.before) <= 0
