# SPDX-License-Identifier: Apache-2.0
"""Executes send WQEs: validates, gathers the payload, sends one packet, completes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from efa_cosim.boundary.memory import HostReadError
from efa_cosim.device.link import NO_NODE, Gone
from efa_cosim.device.message import Message, request_id
from efa_cosim.device.objects import Ah, Checked, Qp
from efa_cosim.device.rdma import Initiator, Transfer
from efa_cosim.layouts import defs
from efa_cosim.layouts.fields import IoTxMetaDescFields
from efa_cosim.layouts.wire import mask, precompiled

if TYPE_CHECKING:
    from efa_cosim.device.datapath import Datapath
    from efa_cosim.device.device import Device

# Bytes of the WQE, or address and size in host memory.
Piece: TypeAlias = bytes | tuple[int, int]

_COUNT_MASK = 0xFFFFFFFF

_State = defs.AdminQpState
_Error = defs.QpError
_Status = defs.IoCompStatus
_Meta = defs.IoTxMetaDesc
_SRD = defs.AdminQpType.SRD
_SEND = defs.IoSendOpType.SEND

_BUFFER = precompiled(defs.IoTxBufDesc, "length", "lkey", "buf_addr_lo", "buf_addr_hi")
_BUFFERS_AT = defs.IoTxWqe.data.offset
_KEY_MASK = mask(defs.IoTxBufDesc.lkey__lkey)

_CQE_OP_TYPE = (1 << defs.IoCdescCommon.op_type.width) - 1
_OP_TYPE = mask(_Meta.op_type)
_HAS_IMM = mask(_Meta.has_imm)
_INLINE = mask(_Meta.inline_msg)
_MUST1 = mask(_Meta.meta_desc)
_MUST_NOT1 = mask(_Meta.meta_extension)
_MUST2 = mask(_Meta.first) | mask(_Meta.last) | mask(_Meta.comp_req)
_PHASE = mask(_Meta.phase)
_MUST_NOT2 = mask(_Meta.reserved25) | mask(_Meta.reserved29)


def _completed_op(meta: IoTxMetaDescFields) -> int:
    """Operation as reported in the CQE: the lower three of four bits."""
    return meta.ctrl1 & _CQE_OP_TYPE


class _Validated(NamedTuple):
    """Result of the checks of a send WQE: address handle and payload pieces only with status OK."""

    status: _Status
    ah: Checked[Ah] = None
    pieces: Checked[list[Piece]] = None


class Sends:
    """The send side of the data path; all QPs share the message contexts."""

    def __init__(self, device: Device, datapath: Datapath) -> None:
        self.device, self.datapath = device, datapath
        self.completions = datapath.completions
        self._shared = 1 << device.limits.msg_w
        self._inline = {
            defs.IoTxWqe.SIZE: device.limits.inline_64,
            defs.IoTxWqe128.SIZE: device.limits.inline_128,
        }
        self._most_buffers, self._mtu = device.limits.max_send_sges, device.profile.mtu
        self.rdma = Initiator(device, datapath)
        self.messages: dict[int, Message] = {}
        self._blocked: dict[int, Qp] = {}
        self._next_message = 0

    def snapshot(self) -> dict[str, Any]:
        return {
            "messages": sorted(self.messages),
            "next": self._next_message,
        }

    def message_id(self, qp_index: int, msg: int) -> int | None:
        """Packet message id of send number msg of a QP while outstanding, None otherwise."""
        for message_id, message in self.messages.items():
            if message.qp.index == qp_index and message.msg == msg:
                return message_id
        return None

    # Work.

    def work(self, qp: Qp) -> None:
        """Processes posted WQEs: sends in RTS, flushes in ERR, leaves them in other states."""
        sq = qp.sq
        while sq.waiting:
            if qp.state == _State.ERR:
                self._flush_next(qp)
            elif qp.state != _State.RTS or self.datapath.next_is_broken(qp):
                return
            elif qp.type == _SRD and not self._may_open(qp):
                self._blocked[qp.index] = qp
                return
            else:
                self._send_next(qp)

    def _flush_next(self, qp: Qp) -> None:
        wqe, _ = self.datapath.take_wqe(qp)
        meta = IoTxMetaDescFields.read(wqe)
        self._complete(qp, request_id(qp, meta), _Status.FLUSHED, op=_completed_op(meta))

    def _send_next(self, qp: Qp) -> None:
        device, msg = self.device, qp.sq.consumed
        wqe, whole = self.datapath.take_wqe(qp)
        meta = IoTxMetaDescFields.read(wqe)
        wrong_phase = whole and self._wrong_phase(qp, msg, meta.ctrl2 & _PHASE)
        if device.on_event is not None:
            device.event(
                "wqe", qpn=qp.index, msg=msg, req_id=meta.req_id, wrong_phase=int(wrong_phase)
            )
        cause: _Error | None
        payload: bytes | None
        ah: Ah | None
        transfer: Transfer | None
        cause = payload = ah = transfer = None
        op = meta.ctrl1 & _OP_TYPE
        if not whole:
            status, cause = _Status.LOCAL_ERROR_QP_INTERNAL_ERROR, _Error.INCOMPLETE_WQE
        elif op != _SEND and self._controls(meta) and self.rdma.executes(qp, op):
            status, transfer = self.rdma.check(qp, wqe, meta, msg, op)
        else:
            status, ah, pieces = self._validate(qp, wqe, meta)
            if status == _Status.OK:
                try:
                    payload = b"".join(
                        piece if isinstance(piece, bytes) else device.memory.read(*piece)
                        for piece in pieces
                    )
                except HostReadError:
                    status, cause = _Status.LOCAL_ERROR_QP_INTERNAL_ERROR, _Error.PAYLOAD_READ
        if device.on_event is not None:
            device.event("check", qpn=qp.index, msg=msg, status=int(status))
        if transfer is not None:
            message_id = self._open(transfer)
            self.rdma.advance(message_id, transfer)
            return
        if status == _Status.OK:
            again = None if meta.ctrl1 & _INLINE else lambda: self._read_again(qp, wqe, meta)
            # With this status, neither is None.
            self._transmit(qp, msg, meta, ah, payload, again)  # type: ignore[arg-type]
            return
        self._complete(qp, request_id(qp, meta), status, op=_completed_op(meta))
        if cause is not None:
            self.datapath.fail(qp, cause)

    def _read_again(self, qp: Qp, wqe: bytes, meta: IoTxMetaDescFields) -> bytes:
        """Reads the payload of a consumed WQE for a retransmission."""
        status, _, pieces = self._validate(qp, wqe, meta)
        if status != _Status.OK:
            raise Gone(status)
        return self.read(qp, pieces)

    def read(self, qp: Qp, pieces: list[Any]) -> bytes:
        """Reads host ranges again; a failed read moves the QP to ERR."""
        try:
            return b"".join(self.device.memory.read(*piece) for piece in pieces)
        except HostReadError:
            self.datapath.fail(qp, _Error.PAYLOAD_READ)
            raise Gone(_Status.LOCAL_ERROR_QP_INTERNAL_ERROR) from None

    @staticmethod
    def _wrong_phase(qp: Qp, number: int, phase: int) -> bool:
        """True if a phase bit is not that of its wrap; the first complete WQE sets the start."""
        wrap = number // qp.sq.depth & 1
        if qp.first_phase is None:
            qp.first_phase = phase ^ wrap
        return phase ^ wrap != qp.first_phase

    @staticmethod
    def _controls(meta: IoTxMetaDescFields) -> bool:
        """True if the control bits of a WQE are as they must be."""
        return (
            meta.ctrl1 & (_MUST1 | _MUST_NOT1) == _MUST1
            and meta.ctrl2 & (_MUST2 | _MUST_NOT2) == _MUST2
        )  # fmt: skip

    def _validate(self, qp: Qp, wqe: bytes, meta: IoTxMetaDescFields) -> _Validated:
        """Checks a complete send WQE of any operation."""
        length, objects = meta.length, self.device.objects
        if not self._controls(meta):
            return _Validated(_Status.LOCAL_ERROR_QP_INTERNAL_ERROR)
        if meta.ctrl1 & _OP_TYPE != _SEND:
            return _Validated(_Status.LOCAL_ERROR_UNSUPPORTED_OP)
        inline = meta.ctrl1 & _INLINE
        if length > (self._inline[qp.wqe_bytes] if inline else self._most_buffers):
            return _Validated(_Status.LOCAL_ERROR_QP_INTERNAL_ERROR)
        ah = objects.ahs.get(meta.ah)
        if ah is None or ah.pd != qp.pd:
            return _Validated(_Status.LOCAL_ERROR_INVALID_AH)
        buffers: list[tuple[int, int, int]]
        pieces: list[Piece]
        buffers, pieces, total = [], [], 0
        if inline:
            pieces, total = [wqe[_BUFFERS_AT : _BUFFERS_AT + length]], length
        else:
            for at in range(_BUFFERS_AT, _BUFFERS_AT + length * _BUFFER.size, _BUFFER.size):
                size, lkey, low, high = _BUFFER.unpack_from(wqe, at)
                buffers.append((high << 32 | low, size, lkey & _KEY_MASK))
                total += size
        if total > self._mtu:
            return _Validated(_Status.LOCAL_ERROR_BAD_LENGTH)
        for address, size, key in buffers:
            if size:
                mr = objects.mr_by_key(key)
                if mr is None or mr.pd != qp.pd or not mr.covers(address, size):
                    return _Validated(_Status.LOCAL_ERROR_INVALID_LKEY)
                pieces += mr.pieces(address, size)
        if ah.node is None and qp.type == _SRD:
            return _Validated(_Status.LOCAL_ERROR_UNREACH_REMOTE)
        return _Validated(_Status.OK, ah, pieces)

    def _transmit(
        self,
        qp: Qp,
        msg: int,
        meta: IoTxMetaDescFields,
        ah: Ah,
        payload: bytes,
        read_again: Callable[[], bytes] | None,
    ) -> None:
        req_id, length = request_id(qp, meta), len(payload)
        node = NO_NODE if ah.node is None else ah.node
        opcode, message_id = defs.PktOpcode.UD_SEND, None
        if qp.type == _SRD:
            opcode = defs.PktOpcode.SRD_SEND
            message_id = self._open(Message(qp, msg, req_id, length, ah, _SEND))
        device = self.device
        if device.on_event is not None:
            device.event("tx_first", qpn=qp.index, msg=msg, length=length)
            device.event("tx_last", qpn=qp.index, msg=msg)
        device.stats.tx_pkts += 1
        device.stats.tx_bytes += length
        self.datapath.link.transmit(
            opcode, qp.number, meta.dest_qp_num, meta.qkey,
            meta.immediate_data if meta.ctrl1 & _HAS_IMM else None, node, payload, message_id,
            read_again, qp.rnr_retry,
        )  # fmt: skip
        if qp.type != _SRD:
            self._complete(qp, req_id, _Status.OK, length)

    def _may_open(self, qp: Qp) -> bool:
        """True if there is a message context for the next send of a QP: a shared one, while enough
        of these are free for its share, or its guaranteed one."""
        free = self._shared - len(self.messages)
        if not qp.outstanding:
            return free > -defs.TRANSPORT.guaranteed_sends
        return free > len(qp.outstanding) >> defs.TRANSPORT.send_share_w

    def _open(self, message: Message) -> int:
        """Adds a reliable message to those without completion; returns its id."""
        message_id = self._next_message
        self._next_message = (message_id + 1) & _COUNT_MASK
        self.messages[message_id] = message.qp.outstanding[message_id] = message
        return message_id

    # Completion and flush.

    def outcome(self, message_id: int, status: int) -> None:
        """A packet of a message has its outcome: completes a send, counts a packet of RDMA."""
        message = self.messages.get(message_id)
        if isinstance(message, Transfer):
            self.rdma.acknowledged(message_id, message, status)
        elif message is not None:
            self._finish(message_id, status)
        self._resume()

    def place(self, packet: bytes) -> None:
        """Places the bytes of a read response."""
        self.rdma.place(packet)
        self._resume()

    def flush(self, qp: Qp) -> None:
        """QP in ERR: flushes outstanding sends, then posted WQEs."""
        for message_id in list(qp.outstanding):
            self.end(message_id, _Status.FLUSHED)
        self._blocked.pop(qp.index, None)
        self.work(qp)
        self._resume()

    def flush_ah(self, ah: Ah) -> None:
        """Flushes the sends outstanding to a destroyed address handle; their QPs continue."""
        for message_id in [i for i, message in self.messages.items() if message.ah is ah]:
            self.end(message_id, _Status.FLUSHED)
        self._resume()

    def cancel(self, qp: Qp) -> None:
        """RESET and destroy: cancels sends without completion; late ACKs match no message."""
        for message_id in qp.outstanding:
            self.datapath.link.cancel(message_id)
            del self.messages[message_id]
        qp.outstanding.clear()
        self._blocked.pop(qp.index, None)
        self._resume()

    def end(self, message_id: int, status: int) -> None:
        """Completes a message; what still arrives for it is dropped."""
        self.datapath.link.cancel(message_id)
        self._finish(message_id, status)

    def _finish(self, message_id: int, status: int) -> None:
        message = self.messages.pop(message_id)
        del message.qp.outstanding[message_id]
        self._complete(message.qp, message.req_id, status, message.length, message.op)

    def _resume(self) -> None:
        """Resumes the QPs blocked on message contexts, in the order in which they blocked."""
        while ready := [qp for qp in self._blocked.values() if self._may_open(qp)]:
            del self._blocked[ready[0].index]
            self.work(ready[0])

    def _complete(
        self,
        qp: Qp,
        req_id: int,
        status: int,
        length: int = 0,
        op: int = _SEND,
    ) -> None:
        qp.sq.complete()
        stats = self.device.stats
        if op == _SEND:
            if status == _Status.OK:
                stats.send_wrs += 1
                stats.send_bytes += length
        elif self.rdma.executes(qp, op):
            self.rdma.count(op, status, length)
        self.completions.send(qp, req_id, status, op)
