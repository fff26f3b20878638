# SPDX-License-Identifier: Apache-2.0
"""Executes RDMA reads and writes: the initiator's transfers and the responder's checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from efa_cosim.boundary.memory import HostReadError
from efa_cosim.device.admin_rules import capable
from efa_cosim.device.link import NO_NODE, Gone
from efa_cosim.device.message import Message, request_id
from efa_cosim.device.objects import Checked, Mr, Qp
from efa_cosim.layouts import defs
from efa_cosim.layouts.fields import IoTxMetaDescFields, PktHdrFields, PktRdmaFields
from efa_cosim.layouts.wire import mask, precompiled

if TYPE_CHECKING:
    from efa_cosim.device.datapath import Datapath
    from efa_cosim.device.device import Device

# Packets of a write in flight: the fabric of the model stores them.
WRITE_PACKETS = defs.TRANSPORT.write_packets
# Bytes of a read request, and of all requests of a read whose responses are outstanding.
READ_REQUEST_BYTES = 1 << defs.TRANSPORT.read_request_log
READ_BYTES = 4 * READ_REQUEST_BYTES

_Status = defs.IoCompStatus
_Op = defs.IoSendOpType
_Opcode = defs.PktOpcode
_Anomaly = defs.TransportAnomaly
_SRD = defs.AdminQpType.SRD

_EXTENSION_AT = defs.PktHdr.SIZE
_EXTENSION_BYTES = defs.PktRdma.SIZE
_DATA_AT = _EXTENSION_AT + _EXTENSION_BYTES
_REMOTE = precompiled(defs.IoRemoteMemAddr, "length", "rkey", "buf_addr_lo", "buf_addr_hi")
_BUFFER = precompiled(defs.IoTxBufDesc, "length", "lkey", "buf_addr_lo", "buf_addr_hi")
_REMOTE_AT = defs.IoTxWqe.data.offset
_LOCAL_AT = _REMOTE_AT + defs.IoRdmaReq.local_mem.offset
_KEY_MASK = mask(defs.IoTxBufDesc.lkey__lkey)
_INLINE = mask(defs.IoTxMetaDesc.inline_msg)
_WQE_HAS_IMM = mask(defs.IoTxMetaDesc.has_imm)
_PKT_HAS_IMM = mask(defs.PktHdr.has_imm)
_CAPABILITY = {_Op.RDMA_READ: "rdma_read", _Op.RDMA_WRITE: "rdma_write"}
_OPERATION: dict[int, _Op] = {
    _Opcode.RDMA_WRITE: _Op.RDMA_WRITE, _Opcode.READ_REQUEST: _Op.RDMA_READ,
}  # fmt: skip


@dataclass(slots=True, eq=False)
class Transfer(Message):
    """An RDMA operation until its completion. Its bytes are:

    sent: written or requested; received: placed by read responses, which began at the offsets in
    placed. open counts its packets without acknowledgement. A status other than OK ends the
    transfer when no packet is open. progress: received at the last check; stalls: checks since
    then.
    """

    node: int
    dest: int
    qkey: int
    imm: int | None
    remote: int
    rkey: int
    address: int
    lkey: int
    inline: bytes | None
    sent: int = 0
    received: int = 0
    placed: set[int] = field(default_factory=set)
    progress: int = 0
    stalls: int = 0
    open: int = 0
    begun: bool = False
    # Of a peer, so any number.
    status: int = _Status.OK


class Initiator:
    """Sends the packets of RDMA operations and places the responses of reads."""

    def __init__(self, device: Device, datapath: Datapath) -> None:
        self.device, self.datapath = device, datapath
        profile = device.profile
        self._most = profile.max_rdma_size
        self._most_buffers = profile.max_wr_rdma_sges
        self._inline = {defs.IoTxWqe.SIZE: 0, defs.IoTxWqe128.SIZE: device.limits.inline_128}
        self._capable = _capabilities(device)

    def executes(self, qp: Qp, op: int) -> bool:
        """True for an RDMA operation that the queue pair and the device support."""
        return qp.type == _SRD and self._capable.get(op, False)

    def check(
        self, qp: Qp, wqe: bytes, meta: IoTxMetaDescFields, msg: int, op: int
    ) -> tuple[_Status, Checked[Transfer]]:
        """Status of an RDMA WQE whose control bits are right, and its transfer if that is OK."""
        length, inline, write = meta.length, meta.ctrl1 & _INLINE, op == _Op.RDMA_WRITE
        if inline and not write or length > (
            self._inline[qp.wqe_bytes] if inline else self._most_buffers
        ):
            return _Status.LOCAL_ERROR_QP_INTERNAL_ERROR, None
        ah = self.device.objects.ahs.get(meta.ah)
        if ah is None or ah.pd != qp.pd:
            return _Status.LOCAL_ERROR_INVALID_AH, None
        total, rkey, low, high = _REMOTE.unpack_from(wqe, _REMOTE_AT)
        size = lkey = address = 0
        content = None
        if inline:
            size, content = length, wqe[_LOCAL_AT : _LOCAL_AT + length]
        elif length:
            size, lkey, local_low, local_high = _BUFFER.unpack_from(wqe, _LOCAL_AT)
            address = local_high << 32 | local_low
        if size != total or total > self._most:
            return _Status.LOCAL_ERROR_BAD_LENGTH, None
        node = NO_NODE if ah.node is None else ah.node
        transfer = Transfer(
            qp, msg, request_id(qp, meta), total, ah, op, node, meta.dest_qp_num, meta.qkey,
            meta.immediate_data if write and meta.ctrl1 & _WQE_HAS_IMM else None,
            high << 32 | low, rkey, address, lkey & _KEY_MASK, content,
        )  # fmt: skip
        if self._region(transfer, address, size) is None:
            return _Status.LOCAL_ERROR_INVALID_LKEY, None
        if node == NO_NODE:
            return _Status.LOCAL_ERROR_UNREACH_REMOTE, None
        return _Status.OK, transfer

    def _region(self, transfer: Transfer, address: int, size: int) -> list[tuple[int, int]] | None:
        """Host ranges of local bytes, None if the local region does not permit the operation."""
        if not size or transfer.inline is not None:
            return []
        mr = self.device.objects.mr_by_key(transfer.lkey)
        if mr is None or mr.pd != transfer.qp.pd or not mr.covers(address, size):
            return None
        if transfer.op == _Op.RDMA_READ and not mr.local_write:
            return None
        return mr.pieces(address, size)

    def count(self, op: int, status: int, length: int) -> None:
        """Counts a completed operation in the statistics of its kind."""
        stats = self.device.stats
        name = "read" if op == _Op.RDMA_READ else "write"
        done: dict[str, int] = {f"{name}_wr_err": 1}
        if status == _Status.OK:
            done = {f"{name}_wrs": 1, f"{name}_bytes": length}
        for key, value in done.items():
            setattr(stats, key, getattr(stats, key) + value)

    # Packets of the initiator.

    def advance(self, message_id: int, transfer: Transfer) -> None:
        """Sends what may be in flight now; ends the transfer when nothing is left."""
        step = self._request if transfer.op == _Op.RDMA_READ else self._write
        while transfer.status == _Status.OK and not self._all_sent(transfer):
            if not step(message_id, transfer):
                break
        done = transfer.op == _Op.RDMA_WRITE or transfer.received == transfer.length
        if not transfer.open and (transfer.status != _Status.OK or
                                  self._all_sent(transfer) and done):
            self.datapath.sends.end(message_id, transfer.status)

    @staticmethod
    def _all_sent(transfer: Transfer) -> bool:
        # An operation without bytes has one packet.
        return transfer.begun and transfer.sent == transfer.length

    def _request(self, message_id: int, transfer: Transfer) -> bool:
        """Sends the next read request; returns False if enough bytes are outstanding."""
        count = min(READ_REQUEST_BYTES, transfer.length - transfer.sent)
        if transfer.sent - transfer.received + count > READ_BYTES:
            return False
        if not transfer.begun:
            self.datapath.link.watch(message_id)
        self._transmit(message_id, transfer, _Opcode.READ_REQUEST, count, b"")
        return True

    def _write(self, message_id: int, transfer: Transfer) -> bool:
        """Sends the next packet of a write; returns False if enough packets are outstanding.

        The region is checked again for each packet: it may have gone.
        """
        at, count = transfer.sent, min(self.device.rdma_bytes, transfer.length - transfer.sent)
        # The packet with the immediate follows the acknowledgements of all others.
        last = transfer.imm is not None and at + count == transfer.length
        if transfer.open >= (1 if last else WRITE_PACKETS):
            return False
        if transfer.inline is not None:
            payload = transfer.inline[at : at + count]
        else:
            pieces = self._region(transfer, transfer.address + at, count)
            if pieces is None:
                transfer.status = _Status.LOCAL_ERROR_INVALID_LKEY
                return False
            try:
                payload = b"".join(self.device.memory.read(*piece) for piece in pieces)
            except HostReadError:
                self.datapath.sends.end(message_id, _Status.LOCAL_ERROR_QP_INTERNAL_ERROR)
                self.datapath.fail(transfer.qp, defs.QpError.PAYLOAD_READ)
                return False
        self._transmit(message_id, transfer, _Opcode.RDMA_WRITE, 0, payload)
        return True

    def _transmit(
        self, message_id: int, transfer: Transfer, opcode: _Opcode, count: int, payload: bytes
    ) -> None:
        at, total = transfer.sent, transfer.length
        transfer.begun, transfer.sent = True, at + (count or len(payload))
        transfer.open += 1
        imm = transfer.imm if self._all_sent(transfer) else None
        read_id = message_id if opcode == _Opcode.READ_REQUEST else 0
        extension = PktRdmaFields.pack(
            remote_addr=transfer.remote, rkey=transfer.rkey, total=total, offset=at, count=count,
            read_id=read_id,
        )  # fmt: skip
        again: Callable[[], bytes] | None = None
        if payload and transfer.inline is None:
            again = lambda: extension + self._read_again(transfer, at, len(payload))  # noqa: E731
        self.device.stats.tx_pkts += 1
        self.device.stats.tx_bytes += len(payload)
        self.datapath.link.transmit(
            opcode, transfer.qp.number, transfer.dest, transfer.qkey, imm, transfer.node,
            extension + payload, message_id, again, transfer.qp.rnr_retry,
        )  # fmt: skip

    def _read_again(self, transfer: Transfer, at: int, count: int) -> bytes:
        """Reads bytes of a write for a retransmission."""
        pieces = self._region(transfer, transfer.address + at, count)
        if pieces is None:
            raise Gone(_Status.LOCAL_ERROR_INVALID_LKEY)
        return self.datapath.sends.read(transfer.qp, pieces)

    def check_progress(self, message_id: int, most: int) -> bool:
        """Asks the responder of a read without progress; returns False if the read has ended.

        The answer ends the read if the responder has been reset or is dead. After `most` answers
        without progress the responder has given the read up.
        """
        transfer = self.datapath.sends.messages.get(message_id)
        if not isinstance(transfer, Transfer):
            return False
        if transfer.received != transfer.progress:
            transfer.progress, transfer.stalls = transfer.received, 0
        elif not transfer.open and transfer.status == _Status.OK:
            transfer.stalls += 1
            if transfer.stalls > most:
                self.datapath.sends.end(message_id, _Status.LOCAL_ERROR_UNRESP_REMOTE)
                return False
            self._transmit(message_id, transfer, _Opcode.READ_REQUEST, 0, b"")
        return True

    def acknowledged(self, message_id: int, transfer: Transfer, status: int) -> None:
        """A packet of the transfer has its outcome; the first error is that of the transfer."""
        if not transfer.open:
            self.device.event("anomaly_net", what=_Anomaly.MESSAGE, detail=message_id)
            return
        transfer.open -= 1
        if transfer.status == _Status.OK:
            transfer.status = status
        self.advance(message_id, transfer)

    def place(self, packet: bytes) -> None:
        """Places the bytes of a read response; one that fits no read is dropped."""
        header = PktHdrFields.read(packet)
        extension = PktRdmaFields.read(packet, _EXTENSION_AT)
        at, message_id, status = extension.offset, extension.read_id, extension.status
        size = header.length - _EXTENSION_BYTES
        transfer = self.datapath.sends.messages.get(message_id)
        if (
            not isinstance(transfer, Transfer)
            or transfer.op != _Op.RDMA_READ
            or (transfer.qp.number, transfer.node) != (header.dst_qpn, header.src_node)
            or at in transfer.placed
            or at + size > transfer.sent
            or transfer.status != _Status.OK
        ):
            self.device.stats.rx_drops += 1
            self.device.event("anomaly_net", what=_Anomaly.MESSAGE, detail=message_id)
            return
        pieces = self._region(transfer, transfer.address + at, size)
        if status or pieces is None:
            transfer.status = status or _Status.LOCAL_ERROR_INVALID_LKEY
        else:
            transfer.placed.add(at)
            self.device.stats.rx_pkts += 1
            self.device.stats.rx_bytes += size
            scatter(self.device, pieces, packet[_DATA_AT:])
            transfer.received += size
        self.advance(message_id, transfer)


class Responder:
    """Executes the RDMA packets of other nodes."""

    def __init__(self, device: Device, datapath: Datapath) -> None:
        self.device, self.datapath = device, datapath
        self._capable = _capabilities(device)
        # A device without RDMA does not know the opcodes.
        self.enabled = any(self._capable.values())

    def deliver(self, packet: bytes) -> _Status:
        """Executes a write packet or a read request; returns its outcome."""
        header = PktHdrFields.read(packet)
        opcode = header.opcode
        qp: Checked[Qp] = self.device.objects.qp_by_number(header.dst_qpn)
        gid = self.device.limits.gid_prefix + header.src_node.to_bytes(2, "big")
        status = self.datapath.receives.admit(qp, _SRD, header.qkey)
        if status == _Status.OK and not self._capable[_OPERATION[opcode]]:
            status = _Status.REMOTE_ERROR_FEATURE_MISMATCH
        if status == _Status.OK and (qp.pd, gid) not in self.device.objects.ah_of:
            status = _Status.REMOTE_ERROR_UNKNOWN_PEER
        if status == _Status.OK and opcode == _Opcode.RDMA_WRITE:
            status = self._write(qp, packet, header, gid)
        elif status == _Status.OK:
            status = self._read(qp, packet, header)
        if status != _Status.OK:
            self.device.stats.rx_drops += 1
        return status

    def _target(
        self, qp: Qp, packet: bytes, size: int, write: bool
    ) -> list[tuple[int, int]] | None:
        """Host ranges of the bytes that a packet names, None if it may not access them.

        The whole operation must be inside the region. An operation without bytes needs no key.
        """
        extension = PktRdmaFields.read(packet, _EXTENSION_AT)
        remote, total, offset = extension.remote_addr, extension.total, extension.offset
        if offset + size > total:
            return None
        if not total:
            return []
        mr: Checked[Mr] = self.device.objects.mr_by_key(extension.rkey)
        if mr is None or mr.pd != qp.pd or not mr.covers(remote, total):
            return None
        if not (mr.remote_write if write else mr.remote_read):
            return None
        return mr.pieces(remote + offset, size)

    def _write(self, qp: Qp, packet: bytes, header: PktHdrFields, gid: bytes) -> _Status:
        total = PktRdmaFields.read(packet, _EXTENSION_AT).total
        size, has_imm = header.length - _EXTENSION_BYTES, header.flags & _PKT_HAS_IMM
        pieces = self._target(qp, packet, size, write=True)
        if pieces is None:
            return _Status.REMOTE_ERROR_BAD_ADDRESS
        receives, req_id = self.datapath.receives, 0
        if has_imm and not qp.unsolicited:
            status, req_id = receives.consume(qp)
            if status != _Status.OK:
                return status
        stats = self.device.stats
        stats.rx_pkts += 1
        stats.rx_bytes += size
        stats.write_recv_bytes += size
        scatter(self.device, pieces, packet[_DATA_AT:])
        if has_imm:
            self.datapath.completions.receive(
                qp, req_id, total, gid, header.src_qpn, header.imm, op=_Op.RDMA_WRITE,
                unsolicited=qp.unsolicited)
        return _Status.OK

    def _read(self, qp: Qp, packet: bytes, header: PktHdrFields) -> _Status:
        """Sends the responses of a read request; returns its outcome."""
        request = PktRdmaFields.read(packet, _EXTENSION_AT)
        count, read_id = request.count, request.read_id
        bad = _Status.REMOTE_ERROR_BAD_ADDRESS
        pieces = self._target(qp, packet, count, write=False)
        if pieces is None or count > READ_REQUEST_BYTES or header.length != _EXTENSION_BYTES:
            return bad
        try:
            data = b"".join(self.device.memory.read(*piece) for piece in pieces)
        except HostReadError:
            return bad
        self.device.stats.read_resp_bytes += count
        for at in range(0, count, self.device.rdma_bytes):
            part = data[at : at + self.device.rdma_bytes]
            total, offset = request.total, request.offset + at
            extension = PktRdmaFields.pack(total=total, offset=offset, read_id=read_id)
            failed = PktRdmaFields.pack(total=total, offset=offset, read_id=read_id, status=bad)
            again = partial(
                self._respond_again, qp, qp.resets, packet, at, len(part), extension, failed)
            self.device.stats.tx_pkts += 1
            self.device.stats.tx_bytes += len(part)
            self.datapath.link.transmit(
                _Opcode.READ_RESPONSE, qp.number, header.src_qpn, 0, None, header.src_node,
                extension + part, None, again)  # fmt: skip
        return _Status.OK

    def _respond_again(
        self, qp: Qp, resets: int, request: bytes, at: int, count: int, extension: bytes,
        failed: bytes,
    ) -> bytes:  # fmt: skip
        """Body of a response that is sent again: memory may have changed or gone since, and so may
        the QP."""
        same = qp.resets == resets
        pieces = self._target(qp, request, at + count, write=False) if same else None
        if pieces is None:
            return failed
        try:
            data = b"".join(self.device.memory.read(*piece) for piece in pieces)
        except HostReadError:
            return failed
        return extension + data[at:]


def _capabilities(device: Device) -> dict[int, bool]:
    """Whether the device supports each operation."""
    return {op: capable(device, name) for op, name in _CAPABILITY.items()}


def scatter(device: Device, pieces: list[tuple[int, int]], data: bytes) -> None:
    """Writes bytes to host ranges (address, size)."""
    done = 0
    for address, count in pieces:
        device.dma_write(address, data[done : done + count])
        done += count
