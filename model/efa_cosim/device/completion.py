# SPDX-License-Identifier: Apache-2.0
"""Writes CQEs, raises completion events (EQEs) and the interrupts of event queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from efa_cosim.device.admin_counters import change
from efa_cosim.device.objects import Cq, Eq, Qp
from efa_cosim.device.ring import distance
from efa_cosim.layouts import defs
from efa_cosim.layouts.wire import mask, precompiled

if TYPE_CHECKING:
    from efa_cosim.device.device import Device

_Common = defs.IoCdescCommon
_Queue = defs.IoQueueType
_ENTRY = precompiled(
    defs.IoRxCdesc, "common.req_id", "common.status", "common.flags", "common.qp_num",
    "length", "ah", "src_qp_num", "imm",
)  # fmt: skip
_SOURCE_AT = defs.IoRxCdescEx.u.offset
_HAS_IMM = mask(_Common.has_imm)
_UNSOLICITED = mask(_Common.unsolicited)
_SEND = defs.IoSendOpType.SEND
_LENGTH_HIGH_BYTES = defs.IoRxCdescRdmaWrite.SIZE
_SEND_FLAGS = _Queue.SEND_QUEUE << _Common.q_type.lsb
_RECV_FLAGS = _Queue.RECV_QUEUE << _Common.q_type.lsb
_WORD = 0xFFFF
_OP_TYPE_LSB = _Common.op_type.lsb
_CONSUMER = defs.DOORBELL_BITS.CQ_DB
_Events = defs.AdminEventCounterAttachQpEvents
_SEND_COMP, _SEND_COMP_ERR = _Events.send_comp.lsb, _Events.send_comp_err.lsb
_RECV_COMP, _RECV_COMP_ERR = _Events.recv_comp.lsb, _Events.recv_comp_err.lsb


class Completions:
    """All CQs and EQs of a device."""

    def __init__(self, device: Device) -> None:
        self.device = device

    # CQEs. A failed or flushed receive has zeros after the QP number.

    def send(self, qp: Qp, req_id: int, status: int, op: int) -> None:
        """Writes the CQE of a send; its operation is reported with every status."""
        flags = _SEND_FLAGS | op << _OP_TYPE_LSB
        # Bits 63:16 of the id use the fields length, AH and source QP of a receive.
        low, *upper = (req_id >> at & _WORD for at in (0, 16, 32, 48))
        self._write(qp.send_cq, 0, qp, low, status, flags, (*upper, 0), b"")

    def receive_error(self, qp: Qp, req_id: int, status: int) -> None:
        cq = qp.recv_cq
        self._write(cq, len(cq.rings) - 1, qp, req_id, status, _RECV_FLAGS, (0, 0, 0, 0), b"")

    def receive(
        self,
        qp: Qp,
        req_id: int,
        length: int,
        gid: bytes,
        src_qpn: int,
        imm: int | None,
        op: int = _SEND,
        unsolicited: bool = False,
    ) -> None:
        """Writes the CQE of a received message; imm is None without an immediate.

        A write (op) may be longer than 16 bits show: a 32-byte CQE holds the rest.
        """
        cq, limits = qp.recv_cq, self.device.limits
        ah = self.device.objects.ah_of.get((qp.pd, gid))
        number = limits.reserved_ah if ah is None else ah.index
        source = gid if ah is None and cq.set_src_addr else b""
        if op != _SEND:
            source = (length >> _WORD.bit_length()).to_bytes(_LENGTH_HIGH_BYTES, "little")
        flags = _RECV_FLAGS if imm is None else _RECV_FLAGS | _HAS_IMM
        flags |= op << _OP_TYPE_LSB | (_UNSOLICITED if unsolicited else 0)
        details = (length & _WORD, number, src_qpn, imm or 0)
        status = defs.IoCompStatus.OK
        self._write(cq, len(cq.rings) - 1, qp, req_id, status, flags, details, source)

    def _write(
        self,
        cq: Cq,
        sub: int,
        qp: Qp,
        req_id: int,
        status: int,
        flags: int,
        details: tuple[int, ...],
        source: bytes,
    ) -> None:
        ring = cq.rings[sub]
        slot, phase = ring.reserve()
        image = _ENTRY.pack(req_id, status, flags | phase, qp.number, *details)
        if cq.entry_bytes > _SOURCE_AT:
            image = (image + source).ljust(cq.entry_bytes, b"\0")
        cq.written += 1
        device = self.device
        if device.on_event is not None:
            unread = distance(cq.written, cq.consumer_index)
            device.event(
                "cqe", cqn=cq.index, sub=sub, q_type=flags >> _Common.q_type.lsb & 3,
                qpn=qp.index, req_id=req_id, status=int(status),
                overflow=int(unread > ring.depth * len(cq.rings)),
            )  # fmt: skip
        device.dma_write(cq.base + (sub * ring.depth + slot) * cq.entry_bytes, image)
        if qp.counters:
            self._count(qp, flags, status)
        if cq.armed:
            cq.armed = False
            self._event(cq)

    def _count(self, qp: Qp, flags: int, status: int) -> None:
        """Increments the event counter: written after the CQE, before its completion event."""
        receive = flags & _RECV_FLAGS == _RECV_FLAGS
        good, bad = (_RECV_COMP, _RECV_COMP_ERR) if receive else (_SEND_COMP, _SEND_COMP_ERR)
        counter = qp.counters.get(good if status == defs.IoCompStatus.OK else bad)
        if counter is not None:
            change(self.device, counter, counter.value + 1)

    # Doorbells of CQs and EQs.

    def ring(self, cq: Cq, value: int) -> None:
        """CQ doorbell: sets the consumer index and may arm the CQ for one event."""
        doorbell = _CONSUMER.unpack(value)
        cq.consumer_index = doorbell.CONSUMER_INDEX
        if doorbell.ARM and cq.eq is not None:
            if distance(cq.written, cq.consumer_index):
                cq.armed = False
                self.device.when_master(lambda: self._event(cq))
            else:
                cq.armed = True

    def arm_eq(self, number: int) -> None:
        """EQ doorbell: sends a message now if EQEs are unreported, else at the next EQE."""
        eq = self.device.objects.eqs.get(number)
        if eq is None:
            return
        eq.armed = True
        self._report(eq)
        cqs = [cq for cq in self.device.objects.cqs.values() if cq.eq is eq]
        for cq in cqs:
            cq.posted = False
        for cq in cqs:
            if cq.pending:
                cq.pending = False
                # The default binds this CQ; mypy infers no lambda with defaults.
                self.device.when_master(lambda cq=cq: self._event(cq))  # type: ignore[misc]

    def _event(self, cq: Cq) -> None:
        """Writes one EQE per CQ between two arms of its EQ, so the EQ cannot overflow."""
        if cq.posted:
            cq.pending = True
            return
        cq.posted = True
        eq: Eq
        # Only a CQ with an EQ is armed.
        eq, device = cq.eq, self.device  # type: ignore[assignment]
        slot, phase = eq.ring.reserve()
        entry = defs.AdminEqe(
            phase=phase, event_type=defs.AdminEqeEventType.COMPLETION,
            u=defs.AdminEqeU(comp_event=defs.AdminCompEvent(cqn=cq.index)),
        )  # fmt: skip
        device.event("eqe", eqn=eq.index, cqn=cq.index)
        device.dma_write(eq.base + slot * entry.SIZE, entry.pack())
        eq.new = True
        self._report(eq)

    def _report(self, eq: Eq) -> None:
        if eq.armed and eq.new:
            eq.armed = eq.new = False
            self.device.interrupts.raise_vector(eq.vector)
