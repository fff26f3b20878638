# SPDX-License-Identifier: Apache-2.0
"""Compares and delivers the packets of decision 0009: lost, duplicated, reordered, sent again.

The models speak decision 0002. They differ from the devices in the following, which is done here:

- All transmissions of a packet are equal apart from path, behind and incarnation; the first one is
  compared with the packet of the model of the sender. Once an acknowledgement has shown a packet to
  its sender, the host may write its buffer again, while the payload for another transmission is
  read: that payload is free, as the receiver drops the packet. So is that of a read response that
  its receiver has executed.
- A device accepts a packet by the rules of the receiver (efa_cosim.transport.receiver). The model
  receives each packet that these rules execute, once, and its acknowledgement is the outcome.
- A packet of a message that has ended need not be sent.
- RDMA packets leave in the order of the device (tb/env/rdma_packets.py).
- The model of the sender receives this acknowledgement when an acknowledgement that the device
  accepts shows the packet. Each acknowledgement that leaves a device shows nothing but outcomes.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from efa_cosim.device.link import MAX_RNR_RETRY, report_drop
from efa_cosim.device.rdma import Transfer
from efa_cosim.layouts import defs
from efa_cosim.layouts.fields import PktHdrFields, SrdAckFields, SrdHdrFields
from efa_cosim.transport.endpoint import Endpoint
from efa_cosim.transport.packets import (
    BITMAP_BYTES,
    BY_SENDER,
    PSN_MASK,
    constants_with,
    number_distance,
    psn_distance,
)
from tb.env.difference import Where, differs, not_due
from tb.env.direct_transport import reported_route
from tb.env.late_packets import LatePackets
from tb.env.predictor import REQ_ID_MASK, Route, route_of
from tb.env.rdma_packets import OPCODES as RDMA
from tb.env.rdma_packets import REQUEST, RESPONSE, RdmaPackets, failed, is_failed, rdma_of
from tb.env.sessions import Outcomes, Peer, Sent, Session, accepted_bits
from tb.lib.failure import Named, field_of
from tb.lib.timing import timing

if TYPE_CHECKING:
    from tb.env.payload import Message
    from tb.env.predictor import Predictor
    from tb.env.transactions import Arrival, Event, Packet

_ACK, _SEND = int(defs.PktOpcode.SRD_ACK), int(defs.PktOpcode.SRD_SEND)
_RELIABLE = {_SEND, *RDMA}
_RNR, _ABORT = defs.IoCompStatus.REMOTE_ERROR_RNR, int(defs.IoCompStatus.REMOTE_ERROR_ABORT)
_MISMATCH = int(defs.IoCompStatus.REMOTE_ERROR_FEATURE_MISMATCH)
_INVALID_LKEY = int(defs.IoCompStatus.LOCAL_ERROR_INVALID_LKEY)
_BAD_STATUS = int(defs.IoCompStatus.REMOTE_ERROR_BAD_STATUS)
_WINDOW = 1 << defs.TRANSPORT.psn_window_w
_PATHS = 1 << defs.TRANSPORT.paths_w
_NODES = 1 << defs.LIMITS.node_w
_HEADER = defs.SrdHdr.SIZE
# The first tick of the quiet time begins behind the reset of the engines.
_RESET_CYCLES = cast(int, timing("efa_reset", "core").latency)


def same_transmission(packet: bytes, other: bytes) -> bool:
    """True for equal packets apart from path, behind and incarnation."""
    return packet[_HEADER:] == other[_HEADER:] and _packet_of(packet) == _packet_of(other)


def _packet_of(packet: bytes) -> SrdHdrFields:
    """Returns the header without what differs between transmissions."""
    return SrdHdrFields.read(packet)._replace(path=0, behind=0, incarnation=0)


def _content_of(packet: bytes) -> SrdHdrFields:
    """Returns the header without the fields that the device chooses."""
    return _packet_of(packet)._replace(psn=0, session=0)


def _field(expected: bytes, found: bytes, without: Callable[[bytes], SrdHdrFields]) -> Named:
    """Returns the first field in which two packets differ; `without` clears those that may."""
    due, got = without(expected), without(found)
    for name, one, other in zip(SrdHdrFields._fields, due, got, strict=True):
        if one != other:
            return Named(f"{name} of efa_srd_hdr", str(one), str(other))
    return field_of(defs.SrdHdr, expected, expected[:_HEADER] + found[_HEADER:])


class _Clock:
    """Stands in for a network: the receiver rules need its time only."""

    now = 0

    def attach(self, node: int, receive: Callable[[bytes], object]) -> None:
        """The transport passes the packets."""

    def send(self, packet: bytes) -> None:
        """The device sends its packets itself."""

    def reset(self, node: int) -> None:
        """The transport begins with a new receiver."""

    def at(self, cycle: int, function: Callable[[], object]) -> Any:
        """Never calls: the receiver rules have no timer."""


class _Receiver(Endpoint):
    """Accepts the packets for a device by the rules of the decision, and sends nothing.

    `replies` are those without state of the receiver: ABORT, and those of the quiet time.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.incarnation = 0  # until an acknowledgement of the device shows it
        self.replies: set[SrdAckFields] = set()

    def begin_quiet(self, now: int) -> None:
        """Begins the time after a reset."""
        self._quiet_until = now + self._quiet_cycles

    def reply(self, packet: bytes) -> None:
        """Takes note of a reply without state; the outcomes have all others."""
        ack = SrdAckFields.read(packet)
        if ack.status in (0, _ABORT):
            self.replies.add(ack._replace(incarnation=0))


class ReliableTransport:
    """Compares and delivers the packets of devices with the reliable transport."""

    def __init__(
        self, devices: Sequence[Predictor], tick_cycles: int = defs.TRANSPORT.tick_cycles
    ) -> None:
        self._devices = devices
        self._constants = constants_with(tick_cycles=tick_cycles)
        self._clock = _Clock()
        self._receivers = [self._receiver(device) for device in range(len(devices))]
        # Accepted packets that the device has not reported, by opcode, sender and receiver.
        self._unreported: list[Counter[tuple[int, ...]]] = [Counter() for _ in devices]
        self._outcomes: list[dict[tuple[int, int], Outcomes]] = [{} for _ in devices]
        # Packets that the model holds while bus mastering is off.
        self._held: list[deque[SrdHdrFields]] = [deque() for _ in devices]
        # Packets of the models that were refused by RNR and are sent again.
        self._again: list[defaultdict[Route, deque[bytes]]] = [defaultdict(deque) for _ in devices]
        self._retries: list[Counter[int]] = [Counter() for _ in devices]
        self._by_node = {one.device.node_id: d for d, one in enumerate(devices)}
        self._rdma = RdmaPackets(devices)
        self._late = [self._late_packets(device) for device in range(len(devices))]
        # Operations that ended with OK after their local region had gone, by QP number and
        # request id.
        self._doubtful: list[set[tuple[int, int]]] = [set() for _ in devices]

    def _receiver(self, device: int) -> _Receiver:
        return _Receiver(
            self._clock, self._devices[device].device.node_id, _NODES,
            lambda packet: self._execute(device, packet),
            datagram=lambda packet: self._receive_datagram(device, packet),
            anomaly=lambda cause, packet: self._malformed(device, cause, packet),
            constants=self._constants,
        )  # fmt: skip

    def _late_packets(self, device: int) -> LatePackets:
        return LatePackets(self._devices[device], device, self._rdma)

    def _receive_datagram(self, device: int, packet: bytes) -> None:
        self._late[device].count(packet)
        self._devices[device].device.receive(packet)

    def _peer(self, device: int, node: int) -> Peer:
        peers: dict[int, Any] = self._receivers[device].senders
        if node not in peers:
            peers[node] = Peer(lambda sent, status: self._resolve(device, sent, status))
        return peers[node]

    # Packets that leave a device.

    def departs(self, one: Packet) -> None:
        """Does nothing: the comparison finds the packet of the model."""

    def compare(self, where: Where, packet: bytes) -> str:
        """Compares a packet by its kind."""
        if packet[0] == _ACK:
            self._check_acknowledgement(where, packet)
            return "acknowledgements"
        if packet[0] not in _RELIABLE:
            self._due(where, packet)
            return "packets"
        head = SrdHdrFields.read(packet)
        self._check_header(where, head)
        peer = self._peer(where[0], head.dst_node)
        session = peer.sessions.get(head.session)
        if session is None:
            self._check_session(where, peer, head)
            session = peer.current = peer.sessions[head.session] = Session(head.session)
        sent = session.sent.get(head.psn)
        if sent is not None:
            # The acknowledgement of a response ends its context while it is sent again.
            ended = self._has_response(head)
            if is_failed(packet) and (ended or self._rdma.may_fail(where[0], sent.model)):
                packet = packet[:_HEADER] + failed(sent.first)[_HEADER:]
                sent = replace(sent, first=failed(sent.first))
            elif head.psn not in session.open or ended:
                packet = packet[:_HEADER] + sent.first[_HEADER : len(packet)]
            if not same_transmission(packet, sent.first):
                raise differs(
                    where, f"transmission of PSN {head.psn} again\n"
                    f"  expected {sent.first.hex()}\n  got      {packet.hex()}",
                    _field(sent.first, packet, _packet_of),
                )  # fmt: skip
            return "retransmissions"
        # The PSN of a cancelled message may be left out.
        if psn_distance(head.psn, session.next) < 0:
            raise differs(
                where, f"new packet with PSN {head.psn}, after {session.next - 1}",
                Named("psn of efa_srd_hdr", f"{session.next} or later", str(head.psn)),
            )  # fmt: skip
        sent = Sent(packet, self._due(where, packet))
        session.sent[head.psn] = session.open[head.psn] = sent
        session.next = head.psn + 1 & PSN_MASK
        return "packets"

    def _has_response(self, head: SrdHdrFields) -> bool:
        """True for a read response that its receiver has executed: the read may be complete, so the
        responder's host may write the bytes again."""
        target = self._by_node.get(head.dst_node)
        if head.opcode != RESPONSE or target is None:
            return False
        outcomes = self._outcomes[target].get((head.src_node, head.session))
        return outcomes is not None and head.psn in outcomes.status

    def _due(self, where: Where, packet: bytes) -> bytes:
        """Returns the packet of the model that a device sends for the first time."""
        route = route_of(packet)
        again, owed = self._again[where[0]][route], self._devices[where[0]].packets.get(route)
        if packet[0] in RDMA:
            return self._due_rdma(where, packet, again)
        # The back-off after RNR doubles for each message on its own, so its order is free.
        for wanted in again:
            if self._equal(wanted, packet):
                again.remove(wanted)
                return wanted
        while owed:
            wanted = owed.popleft()
            if self._equal(wanted, packet):
                return wanted
            if self._is_open(where[0], wanted):
                owed.appendleft(wanted)
                break
        if not owed:
            raise not_due(where, packet)
        raise differs(
            where, f"packet\n  expected {owed[0].hex()}\n  got      {packet.hex()}",
            _field(owed[0], packet, _content_of),
        )  # fmt: skip

    def _due_rdma(self, where: Where, packet: bytes, again: deque[bytes]) -> bytes:
        """Returns the packet of the model that a device sends in its own order."""
        device = where[0]
        wanted = self._rdma.find(where, packet, again)
        if wanted is None:
            self._rdma.ask(device, packet)
            wanted = self._rdma.find(where, packet, again)
        owed = self._devices[device].packets.get(route_of(packet), deque())
        if wanted is None:
            due = [one for one in (*again, *owed) if self._is_open(device, one)]
            if not due:
                raise not_due(where, packet)
            nearest = self._rdma.as_sent(device, self._rdma.nearest(due, packet), packet)
            raise differs(
                where, f"packet\n  expected {nearest.hex()}\n  got      {packet.hex()}",
                _field(nearest, packet, _content_of),
            )  # fmt: skip
        due_one, sent = wanted
        (again if due_one in again else owed).remove(due_one)
        return sent

    def _is_open(self, device: int, packet: bytes) -> bool:
        """False for a packet of a message that has ended: the device need not send it."""
        if packet[0] in RDMA:
            return self._rdma.is_due(device, packet)
        messages = self._devices[device].device.datapath.sends.messages
        return packet[0] != _SEND or PktHdrFields.read(packet).msg_id in messages

    @staticmethod
    def _equal(wanted: bytes, packet: bytes) -> bool:
        return wanted[_HEADER:] == packet[_HEADER:] and _content_of(wanted) == _content_of(packet)

    def _check_header(self, where: Where, head: SrdHdrFields) -> None:
        """Checks the fields of a data packet that the model does not have."""
        target = self._by_node.get(head.dst_node)
        known = {0} if target is None else {0, self._receivers[target].incarnation}
        for name, good, expected in (
            ("session", head.session != 0, "a number"),
            ("status", head.status == 0, "0"),
            ("path", head.path < _PATHS, f"below {_PATHS}"),
            ("behind", head.behind < _WINDOW, f"below {_WINDOW}"),
            ("incarnation", head.incarnation in known, f"one of {known}"),
        ):
            if not good:
                found = getattr(head, name)
                raise differs(
                    where, f"{name} {found} of PSN {head.psn} to node {head.dst_node}",
                    Named(f"{name} of efa_srd_hdr", expected, str(found)),
                )  # fmt: skip

    def _check_session(self, where: Where, peer: Peer, head: SrdHdrFields) -> None:
        """Checks that a session is newer than the one before, which is over."""
        before = peer.current
        if before is None:
            return
        if not before.over or number_distance(head.session, before.number) < 0:
            raise differs(
                where, f"session {head.session} to node {head.dst_node}, after {before.number}",
                Named("session of efa_srd_hdr", str(before.number), str(head.session)),
            )  # fmt: skip

    # Acknowledgements that leave a device.

    def _check_acknowledgement(self, where: Where, packet: bytes) -> None:
        """Checks the fields of an acknowledgement and that it shows nothing but outcomes."""
        receiver = self._receivers[where[0]]
        if len(packet) != defs.SrdAck.SIZE:
            raise self._lie(where, "length", defs.SrdAck.SIZE, f"{len(packet)} bytes")
        ack = SrdAckFields.read(packet)
        wanted = {"src_node": receiver.node, "length": BITMAP_BYTES, "flags": 0, "reserved": 0}
        if not ack.status:
            wanted |= {"src_qpn": 0, "dst_qpn": 0, "refused_psn": 0}
        self._check_fields(where, ack, wanted)
        if not ack.incarnation or receiver.incarnation not in (0, ack.incarnation):
            raise self._lie(
                where, "incarnation", receiver.incarnation or "a number", ack.incarnation
            )
        receiver.incarnation = ack.incarnation
        if ack._replace(incarnation=0) in receiver.replies:
            return
        self._take_held(where[0])
        outcomes = self._outcomes[where[0]].get((ack.dst_node, ack.session))
        if outcomes is None:
            raise self._lie(where, "session", "one of an accepted packet", ack.session)
        self._check_truth(where, ack, outcomes)
        if ack.status:
            self._check_refusal(where, ack, outcomes)

    def _check_truth(self, where: Where, ack: SrdAckFields, outcomes: Outcomes) -> None:
        before = outcomes.all_before()
        if psn_distance(ack.psn, before) > 0:
            raise self._lie(
                where, "psn", f"up to {before}, which is not accepted", ack.psn,
            )  # fmt: skip
        for psn in accepted_bits(ack):
            status = outcomes.status.get(psn)
            if status != 0:
                state = "not executed" if status is None else f"refused with {status}"
                raise self._lie(where, "bitmap", f"PSN {psn}, which is {state}, as not accepted",
                                "accepted")  # fmt: skip
        # The bytes of an RDMA packet are written before. The write may be part of a later run.
        bits = accepted_bits(ack)
        for psn in [p for p in outcomes.placed if psn_distance(p, ack.psn) < 0 or p in bits]:
            outcomes.placed.pop(psn).shown = where[1]

    def _check_refusal(self, where: Where, ack: SrdAckFields, outcomes: Outcomes) -> None:
        status = outcomes.status.get(ack.refused_psn)
        if status != ack.status:
            raise self._lie(where, "status", f"{status} for PSN {ack.refused_psn}", ack.status)
        # A refusal goes back to the sending QP.
        sending, receiving = outcomes.refused[ack.refused_psn]
        self._check_fields(where, ack, {"dst_qpn": sending, "src_qpn": receiving})

    def _check_fields(self, where: Where, ack: SrdAckFields, wanted: dict[str, int]) -> None:
        for name, value in wanted.items():
            if getattr(ack, name) != value:
                raise self._lie(where, name, value, getattr(ack, name))

    def _lie(self, where: Where, name: str, expected: object, found: object) -> Exception:
        return differs(
            where, f"acknowledgement with {name} {found}",
            Named(f"{name} of efa_srd_ack", str(expected), str(found)),
        )  # fmt: skip

    # Packets that a device accepts.

    def arrives(self, one: Arrival) -> None:
        """Executes a packet if the rules of the receiver pass it, or takes an acknowledgement."""
        device, packet = one.device, one.data
        predictor = self._devices[device]
        if predictor.unfinished:  # a reset; no packet enters
            return
        self._clock.now = one.cycle
        self._unreported[device][_reported(packet)] += 1
        self._receivers[device].receive(packet)
        self._show_oldest(device, packet)

    def _show_oldest(self, device: int, packet: bytes) -> None:
        """Takes the oldest PSN that a packet has shown to the receiver."""
        if len(packet) >= _HEADER and packet[0] != _ACK:
            head = SrdHdrFields.read(packet)
            peer = self._receivers[device].receivers.get(head.src_node)
            outcomes = self._outcomes[device].get((head.src_node, head.session))
            if peer is not None and outcomes is not None and peer.session == head.session:
                outcomes.oldest = peer.oldest

    def _malformed(self, device: int, cause: defs.TransportAnomaly, packet: bytes) -> None:
        """The device reports an anomaly instead of a received packet, or afterwards."""
        if cause not in BY_SENDER:
            self._unreported[device][_reported(packet)] -= 1
            report_drop(self._devices[device].device, cause, packet)

    def reported(self, one: Event) -> None:
        """Takes the report of an accepted packet."""
        self._unreported[one.device][reported_route(one)] -= 1

    def _execute(self, device: int, packet: bytes) -> int | None:
        """Gives a packet to the model; returns its outcome, None if it waits for its report."""
        self._take_held(device)
        head = SrdHdrFields.read(packet)
        if self._late[device].hold(packet, self._model(packet, head)):
            return None
        return self._executed(device, packet, head)

    def validated(self, one: Event) -> None:
        """Takes the report of a packet; a packet that has waited for it takes effect, or not."""
        device = one.device
        for late, effect in self._late[device].report(one):
            head = SrdHdrFields.read(late.packet)
            extension = rdma_of(late.model)
            key = extension.rkey
            if head.opcode == RESPONSE:
                read = self._rdma.read_of(device, extension.read_id)
                key = read.lkey if read is not None else 0
            with self._devices[device].with_region(key, effect):
                status = self._executed(device, late.packet, head, effect)
            peer = self._receivers[device].receivers.get(head.src_node)
            if peer is not None and status is not None:
                peer.executed(head, status)

    def ends(self, device: int, entry: bytes) -> None:
        """Ends an operation whose local region has gone, with the status of its device.

        The device finds out when it sends a packet of the operation, also when it sends one again
        that its peer has accepted.
        """
        predictor = self._devices[device]
        head = defs.IoCdescCommon.unpack(entry)
        if head.status != _INVALID_LKEY:
            return
        objects, sends = predictor.device.objects, predictor.device.datapath.sends
        for number, message in list(sends.messages.items()):
            if (
                isinstance(message, Transfer) and message.status in (0, _INVALID_LKEY)
                and message.qp.number == head.qp_num
                and message.req_id & REQ_ID_MASK == head.req_id
                and message.inline is None and message.length
                and objects.mr_by_key(message.lkey) is None
            ):  # fmt: skip
                sends.end(number, _INVALID_LKEY)
                return
        if (head.qp_num, head.req_id) in self._doubtful[device]:
            predictor.replace_status(entry)

    def _note_end(self, device: int, number: int, transfer: object) -> None:
        """Takes note of an operation that may have ended after its local region had gone.

        The device may have tried to send a packet again before it learned the outcome.
        """
        objects = self._devices[device].device.objects
        messages = self._devices[device].device.datapath.sends.messages
        if not isinstance(transfer, Transfer) or number in messages:
            return
        operation = transfer.qp.number, transfer.req_id & REQ_ID_MASK
        # A later operation may have the same request id.
        self._doubtful[device].discard(operation)
        local = transfer.length and transfer.inline is None
        if local and objects.mr_by_key(transfer.lkey) is None:
            self._doubtful[device].add(operation)

    def _executed(
        self, device: int, packet: bytes, head: SrdHdrFields, effect: bool = False
    ) -> int | None:
        """Returns the outcome of a packet in the model.

        `effect`: the device has placed a response, although its read has failed in the model.
        """
        status: int | None = _MISMATCH
        placed: Message | None = None
        if head.opcode == _SEND:
            self._devices[device].device.receive(self._model(packet, head))
            status = self._acknowledged(device, head)
            if status is None:
                self._held[device].append(head)
        elif head.opcode in RDMA and self._devices[device].device.datapath.responder.enabled:
            status, placed = self._execute_rdma(device, packet, head, effect)
        if status is not None:
            outcomes = self._outcomes_of(device, head)
            outcomes.note(head, status)
            if placed is not None:
                outcomes.placed[head.psn] = placed
        return status

    def _outcomes_of(self, device: int, head: SrdHdrFields) -> Outcomes:
        key, oldest = (head.src_node, head.session), head.psn - head.behind & PSN_MASK
        return self._outcomes[device].setdefault(key, Outcomes(oldest, oldest))

    def _take_held(self, device: int) -> None:
        """Takes the outcomes of packets that the model has executed with bus mastering on again."""
        held = self._held[device]
        while held and (status := self._acknowledged(device, held[0])) is not None:
            head = held.popleft()
            self._outcomes_of(device, head).note(head, status)
            peer = self._receivers[device].receivers.get(head.src_node)
            if peer is not None:
                peer.executed(head, status)

    def _execute_rdma(
        self, device: int, packet: bytes, head: SrdHdrFields, effect: bool
    ) -> tuple[int, Message | None]:
        """Returns the outcome of an RDMA packet, and the payload that it writes."""
        predictor, model = self._devices[device], self._model(packet, head)
        if len(packet) < _HEADER + defs.PktRdma.SIZE:
            # The model has no outcome for a packet without its whole RDMA header.
            predictor.device.receive(model)
            return _BAD_STATUS, None
        if head.opcode == REQUEST:
            self._rdma.requested(device, model)
        if head.opcode != RESPONSE:
            placed = predictor.place(model, None)
            status = self._acknowledged(device, head)
            return _BAD_STATUS if status is None else status, placed
        ended = self._late[device].place_ended(model) if effect else None
        if ended is not None:
            return 0, ended
        number = rdma_of(model).read_id
        message = predictor.device.datapath.sends.messages.get(number)
        placed = predictor.place(model, message if isinstance(message, Transfer) else None)
        self._rdma.withdraw(device, number, ())
        self._note_end(device, number, message)
        return 0, placed

    def _model(self, packet: bytes, head: SrdHdrFields) -> bytes:
        """Returns the packet of the model for a packet that a device accepts."""
        sent = self._sent(head)
        if sent is not None and same_transmission(packet, sent.first):
            return sent.model
        if sent is not None and is_failed(packet) and head.opcode == RESPONSE:
            return failed(sent.model)
        # No device has sent this packet: its message has no id.
        bare = PktHdrFields.read(packet)._replace(psn=0, msg_id=0, path=0, reserved=0)
        return PktHdrFields.pack(**bare._asdict()) + packet[_HEADER:]

    def _acknowledged(self, device: int, head: SrdHdrFields) -> int | None:
        """Returns the status of the acknowledgement of the model, None without one."""
        predictor = self._devices[device]
        route = Route(_ACK, head.dst_qpn, head.src_qpn, head.dst_node, head.src_node)
        acks = predictor.packets.get(route)
        return PktHdrFields.read(acks.popleft()).status if acks else None

    def _sent(self, head: SrdHdrFields) -> Sent | None:
        source = self._by_node.get(head.src_node)
        if source is None:
            return None
        session = self._peer(source, head.dst_node).sessions.get(head.session)
        return None if session is None else session.sent.get(head.psn)

    def _resolve(self, device: int, sent: Sent, status: int) -> None:
        """Gives an outcome to the model of the sender, or the packet again after RNR."""
        if sent.model[0] == RESPONSE:
            return
        predictor, head = self._devices[device], PktHdrFields.read(sent.model)
        message = predictor.device.datapath.sends.messages.get(head.msg_id)
        if message is None:
            return
        retries = message.qp.rnr_retry
        if status == _RNR and self._retries[device][head.msg_id] < retries:
            self._retries[device][head.msg_id] += retries != MAX_RNR_RETRY
            self._again[device][route_of(sent.model)].append(sent.model)
            return
        predictor.device.receive(PktHdrFields.pack(
            opcode=_ACK, src_qpn=head.dst_qpn, dst_qpn=head.src_qpn, psn=head.psn,
            msg_id=head.msg_id, src_node=head.dst_node, dst_node=head.src_node, status=status,
        ))  # fmt: skip
        if sent.model[0] in RDMA:
            again = self._again[device][route_of(sent.model)]
            self._rdma.withdraw(device, head.msg_id, again)
            self._note_end(device, head.msg_id, message)

    # Resets and the end.

    def drained(self, device: int, cycle: int) -> None:
        """Forgets sessions and outcomes of a device; its quiet time begins."""
        self._receivers[device] = self._receiver(device)
        self._receivers[device].begin_quiet(cycle + _RESET_CYCLES)
        self._outcomes[device].clear()
        self._held[device].clear()
        self._unreported[device].clear()
        self._again[device].clear()
        self._rdma.forget(device)
        self._late[device] = self._late_packets(device)
        self._doubtful[device].clear()

    def done(self, device: int, cycle: int) -> None:
        """Does nothing: the quiet time began when the device had cancelled its work."""

    def outstanding(self, device: int) -> list[str]:
        """Returns texts of unreported arrivals, and of packets without an acknowledgement."""
        late = self._late[device].outstanding()
        owed = [f"rx_validated of {late} packets"] if late else []
        owed += [
            f"report of {count} packets of opcode, sender and receiver {route}"
            for route, count in self._unreported[device].items() if count
        ]  # fmt: skip
        peers: dict[int, Any] = self._receivers[device].senders
        for node, peer in peers.items():
            # A node without a device owes nothing.
            owed += [] if node not in self._by_node else [
                f"acknowledgement of PSN {psn} of session {session.number} to node {node}"
                for session in peer.sessions.values() for psn, sent in session.open.items()
                if self._is_open(device, sent.model)
            ]  # fmt: skip
        return owed + [
            f"packet {packet[:_HEADER].hex()}"
            for queues in (self._devices[device].packets, self._again[device])
            for route, packets in queues.items() if route.dst_node in self._by_node
            for packet in packets if self._is_open(device, packet)
        ]  # fmt: skip


def _reported(packet: bytes) -> tuple[int, ...]:
    """Returns opcode, sender and receiver of a packet, as the device reports them."""
    route = route_of(packet) if len(packet) >= _HEADER else Route(0, 0, 0, 0, 0)
    return route.opcode, route.src_qpn, route.dst_qpn
