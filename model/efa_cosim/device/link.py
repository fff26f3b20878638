# SPDX-License-Identifier: Apache-2.0
"""Connects the data path with a fabric that keeps order and loses nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from efa_cosim.layouts import defs
from efa_cosim.layouts.fields import PktHdrFields
from efa_cosim.layouts.wire import mask, precompiled
from efa_cosim.transport.packets import MOST_BYTES, fits

if TYPE_CHECKING:
    from efa_cosim.device.datapath import Datapath
    from efa_cosim.device.device import Device

# Destination of a packet to a GID outside the fabric.
NO_NODE = 0xFFFF

_COUNT_MASK = 0xFFFFFFFF
MAX_RNR_RETRY = 7  # no limit
_HAS_IMM = mask(defs.PktHdr.has_imm)
_HEADER_BYTES = defs.PktHdr.SIZE
_Anomaly = defs.TransportAnomaly
_Opcode = defs.PktOpcode
_ACKNOWLEDGED = frozenset({_Opcode.SRD_SEND, _Opcode.RDMA_WRITE, _Opcode.READ_REQUEST})
_ROUTE = precompiled(defs.PktHdr, "opcode", "length", "dst_node")
_ACK = precompiled(defs.PktHdr, "dst_qpn", "psn", "msg_id", "src_node", "status")
_RNR = defs.IoCompStatus.REMOTE_ERROR_RNR


class Gone(Exception):
    """Host memory cannot be read again for a retransmission; `status` is that of its message."""

    def __init__(self, status: defs.IoCompStatus) -> None:
        super().__init__(status.name)
        self.status = status


class Link(Protocol):
    """What the data path uses of its connection to the fabric."""

    def transmit(
        self,
        opcode: int,
        src_qpn: int,
        dst_qpn: int,
        qkey: int,
        imm: int | None,
        node: int,
        body: bytes,
        message_id: int | None = None,
        read_again: Callable[[], bytes] | None = None,
        rnr_retry: int = 0,
    ) -> None:
        """Sends a packet: its header fields and what follows the header.

        `Sends.outcome` gets its outcome if it has a message. `read_again` returns the body for a
        later transmission, from host memory; it raises Gone if the memory has gone. Without it, the
        body is stored. `rnr_retry` is that of MODIFY_QP.
        """

    def receive(self, packet: bytes) -> None:
        """Receives a packet from the fabric."""

    def cancel(self, message_id: int) -> None:
        """A message needs no outcome any more."""

    def retry(self) -> None:
        """Sends all packets again that met no receive, on a fabric without time."""

    def watch(self, message_id: int) -> None:
        """Calls `Initiator.check_progress` for a read in regular intervals."""

    def snapshot(self) -> object:
        """State as plain values."""


class _Packet(NamedTuple):
    """A packet of a message that is sent again after RNR, as `transmit` takes it.

    `header` are the values from `opcode` to `node`.
    """

    header: tuple[int, int, int, int, int | None, int]
    body: bytes
    read_again: Callable[[], bytes] | None


def report_drop(device: Device, what: defs.TransportAnomaly, packet: bytes) -> None:
    """Counts and reports a packet that a device drops."""
    device.stats.rx_drops += 1
    device.event("anomaly_net", what=what, detail=int.from_bytes(packet[:4], "little"))


class DirectLink:
    """Sends each packet once and acknowledges it by the id of its message.

    This link has no time. After RNR a message with endless retries waits for `retry`; any other one
    ends, as its retries take no time.
    """

    def __init__(self, device: Device, datapath: Datapath) -> None:
        self.device, self.datapath = device, datapath
        self.next_psn: dict[int, int] = {}
        # Of messages with endless retries: packets in flight by PSN, and packets after RNR.
        self._sent: dict[int, dict[int, _Packet]] = {}
        self._not_ready: dict[int, list[_Packet]] = {}

    def transmit(
        self,
        opcode: int,
        src_qpn: int,
        dst_qpn: int,
        qkey: int,
        imm: int | None,
        node: int,
        body: bytes,
        message_id: int | None = None,
        read_again: Callable[[], bytes] | None = None,
        rnr_retry: int = 0,
    ) -> None:
        device, psn = self.device, 0
        if opcode in _ACKNOWLEDGED:
            psn = self.next_psn.get(node, 0)
            self.next_psn[node] = (psn + 1) & _COUNT_MASK
            if rnr_retry == MAX_RNR_RETRY and message_id is not None:
                self._sent.setdefault(message_id, {})[psn] = _Packet(
                    (opcode, src_qpn, dst_qpn, qkey, imm, node), body, read_again
                )
        if device.on_packet is not None:
            device.on_packet(PktHdrFields.pack(
                opcode=opcode, flags=0 if imm is None else _HAS_IMM, length=len(body),
                src_qpn=src_qpn, dst_qpn=dst_qpn, qkey=qkey, psn=psn, msg_id=message_id or 0,
                imm=imm or 0, src_node=device.node_id, dst_node=node,
            ) + body)  # fmt: skip

    def receive(self, packet: bytes) -> None:
        if len(packet) < _HEADER_BYTES:
            report_drop(self.device, _Anomaly.LENGTH, packet)
            return
        opcode, length, dst_node = _ROUTE.unpack_from(packet)
        if opcode != _Opcode.SRD_ACK and opcode not in MOST_BYTES:
            report_drop(self.device, _Anomaly.OPCODE, packet)
        elif dst_node != self.device.node_id:
            report_drop(self.device, _Anomaly.NODE, packet)
        elif not fits(packet, length):
            report_drop(self.device, _Anomaly.LENGTH, packet)
        elif opcode == _Opcode.SRD_ACK:
            self._acknowledged(packet)
        else:
            status = self.datapath.execute(packet, opcode)
            if status is not None and opcode in _ACKNOWLEDGED:
                self._acknowledge(packet, status)

    def cancel(self, message_id: int) -> None:
        self._sent.pop(message_id, None)
        self._not_ready.pop(message_id, None)

    def retry(self) -> None:
        """Sends all packets again that met no receive."""
        if not self._not_ready:
            return
        waiting, self._not_ready = self._not_ready, {}
        for message_id, packets in waiting.items():
            for one in packets:
                try:
                    body = one.body if one.read_again is None else one.read_again()
                except Gone as gone:
                    self.datapath.sends.outcome(message_id, gone.status)
                    continue
                self.transmit(*one.header, body, message_id, one.read_again, MAX_RNR_RETRY)

    def watch(self, message_id: int) -> None:
        """Nothing is lost, so nothing is late."""

    def snapshot(self) -> object:
        return dict(self.next_psn), sorted(self._not_ready)

    def _acknowledged(self, packet: bytes) -> None:
        sends = self.datapath.sends
        dst_qpn, psn, message_id, src_node, status = _ACK.unpack_from(packet)
        message = sends.messages.get(message_id)
        if message is None or message.qp.number != dst_qpn or message.ah.node != src_node:
            self.device.event("anomaly_net", what=_Anomaly.MESSAGE, detail=message_id)
            return
        sent = self._sent.get(message_id)
        if sent is not None:
            one = sent.pop(psn, None)
            if not sent:
                del self._sent[message_id]
            if one is not None and status == _RNR:
                self._not_ready.setdefault(message_id, []).append(one)
                return
        sends.outcome(message_id, status)

    def _acknowledge(self, packet: bytes, status: int) -> None:
        header, device = PktHdrFields.read(packet), self.device
        if device.on_event is not None:
            device.event(
                "ackout", dst_qpn=header.src_qpn, status=int(status), msg_id=header.msg_id
            )
        if device.on_packet is not None:
            device.on_packet(PktHdrFields.pack(
                opcode=_Opcode.SRD_ACK, src_qpn=header.dst_qpn, dst_qpn=header.src_qpn,
                psn=header.psn, msg_id=header.msg_id, src_node=device.node_id,
                dst_node=header.src_node, path=header.path, status=status,
            ))  # fmt: skip
