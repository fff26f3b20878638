# SPDX-License-Identifier: Apache-2.0
"""Work queues of the data path: doorbells, LLQ memory, QP states, dispatch of packets."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from efa_cosim.device.completion import Completions
from efa_cosim.device.host_wqes import HostWqes
from efa_cosim.device.link import DirectLink, Link, report_drop
from efa_cosim.device.objects import Cq, Qp
from efa_cosim.device.rdma import Responder
from efa_cosim.device.receive import Receives
from efa_cosim.device.reliable_link import ReliableLink
from efa_cosim.device.ring import COUNTER_MASK, WorkRing
from efa_cosim.device.send import Sends
from efa_cosim.layouts import defs

if TYPE_CHECKING:
    from efa_cosim.device.device import Device

SQ, RQ, CQ = range(3)
TAKEN, FOREIGN, BEYOND, WRONG_STATE = range(4)
NO_OWNER, POSTED, PARTIAL = 1, 2, 3
DOORBELL_BYTES = 4
QP_DOORBELL_BYTES = 2 * DOORBELL_BYTES
LINE_SHIFT = 6
LINE_BYTES = 1 << LINE_SHIFT
LINE_WRITTEN = (1 << LINE_BYTES // 4) - 1

_State = defs.AdminQpState
_Error = defs.QpError
_Anomaly = defs.TransportAnomaly
_Status = defs.IoCompStatus
_Opcode = defs.PktOpcode
_DATA: dict[int, defs.AdminQpType] = {
    _Opcode.UD_SEND: defs.AdminQpType.UD, _Opcode.SRD_SEND: defs.AdminQpType.SRD,
}  # fmt: skip
_RDMA = (_Opcode.RDMA_WRITE, _Opcode.READ_REQUEST, _Opcode.READ_RESPONSE)
_RDMA_BYTES = defs.PktHdr.SIZE + defs.PktRdma.SIZE


class Datapath:
    """Work queues of all QPs, in the state after a reset."""

    def __init__(self, device: Device) -> None:
        limits = device.limits
        self.device, self.objects = device, device.objects
        self._page_shift = limits.llq_page_bytes.bit_length() - 1
        self._llq = bytearray(limits.llq_bytes)
        self._written = array("H", bytes(2 * (limits.llq_bytes >> LINE_SHIFT)))
        self._in_host = HostWqes(device.memory) if limits.sq_host else None
        self.completions = Completions(device)
        self.link: Link = (
            DirectLink(device, self) if device.transport is None
            else ReliableLink(device, self, device.transport))
        self.sends = Sends(device, self)
        self.receives = Receives(device, self)
        self.responder = Responder(device, self)

    def snapshot(self) -> dict[str, Any]:
        """State outside the objects: LLQ memory and the send side."""
        return {
            "llq": bytes(self._llq),
            "written": self._written.tolist(),
            "sends": self.sends.snapshot(),
            "link": self.link.snapshot(),
        }

    def written_map(self) -> bytes:
        """Map of the LLQ dwords written and not consumed, as bytes."""
        return self._written.tobytes()

    def node_of(self, gid: bytes) -> int | None:
        """Fabric node of a GID, None for a GID outside the fabric."""
        limits = self.device.limits
        node = int.from_bytes(gid[-2:], "big")
        inside = gid[:-2] == limits.gid_prefix and not node >> limits.node_w
        return node if inside else None

    # Doorbells.

    def qp_doorbells(self, qp: Qp) -> tuple[int, int]:
        """Offsets of the SQ and RQ doorbells of a QP."""
        start = qp.uar * self.device.limits.db_page_bytes + qp.index * QP_DOORBELL_BYTES
        return start, start + DOORBELL_BYTES

    def cq_doorbell(self, cq: Cq) -> int:
        """Offset of the doorbell of a CQ."""
        limits = self.device.limits
        return cq.uar * limits.db_page_bytes + limits.db_cq_base + cq.index * DOORBELL_BYTES

    def ring(self, offset: int, value: int) -> None:
        """Executes a store to the doorbell BAR; the address selects the queue."""
        limits, objects = self.device.limits, self.objects
        owner: Any  # Cq or Qp, by kind; None if there is none
        uar, inside = divmod(offset, limits.db_page_bytes)
        if inside >= limits.db_cq_base:
            kind, number = CQ, (inside - limits.db_cq_base) // DOORBELL_BYTES
            owner = objects.cqs.get(number)
        else:
            number, word = divmod(inside // DOORBELL_BYTES, 2)
            kind = RQ if word else SQ
            owner = objects.qps.get(number)
        if owner is None or owner.uar != uar:
            status = FOREIGN
        elif kind == CQ:
            status = TAKEN
        else:
            status = self._check(owner, owner.sq if kind == SQ else owner.rq, value)
        self.device.event("db", kind=kind, status=status, num=number, value=value)
        if status == TAKEN and kind == CQ:
            self.completions.ring(owner, value)
        elif status == TAKEN:
            self.device.when_master(lambda: self._work(owner, kind))
        elif status == BEYOND:
            self.fail(owner, _Error.SQ_DOORBELL if kind == SQ else _Error.RQ_DOORBELL)

    def _check(self, qp: Qp, ring: WorkRing, value: int) -> int:
        if qp.state == _State.RESET:
            return WRONG_STATE
        return TAKEN if ring.ring(value & COUNTER_MASK) else BEYOND

    def _work(self, qp: Qp, kind: int) -> None:
        if kind == SQ:
            self._work_sends(qp)
        else:
            self.device.receives_changed = True
            if qp.state == _State.ERR:
                self.receives.flush(qp)

    def _work_sends(self, qp: Qp) -> None:
        """Processes posted WQEs; fetches those in host memory first."""
        intact = self._in_host is None or self._in_host.fetch(qp)
        self.sends.work(qp)
        if not intact:
            self.fail(qp, _Error.WQE_READ)

    # LLQ memory.

    def store_llq(self, offset: int, data: bytes) -> None:
        """Stores a part of a WQE, inside one 64-byte line."""
        event, line, end = self.device.event, offset >> LINE_SHIFT, offset + len(data)
        start, stop = (offset + 3) & ~3, end & ~3
        dwords = max(0, stop - start) >> 2
        mask = ((1 << dwords) - 1) << ((start & (LINE_BYTES - 1)) >> 2)
        page = offset >> self._page_shift
        qp = self.objects.llq.owner[page] if offset < len(self._llq) else None
        inside = offset - qp.llq_base if qp else 0
        if self._in_host or qp is None or inside >= qp.sq.depth * qp.wqe_bytes:
            event("llq", status=NO_OWNER, line=line, dwords=mask)
            return
        partial = start != offset or stop != end
        if dwords and qp.sq.is_waiting(inside // qp.wqe_bytes):
            event("llq", status=POSTED, line=line, dwords=mask)
            self.fail(qp, _Error.POSTED_STORE)
            return
        event("llq", status=PARTIAL if partial else TAKEN, line=line, dwords=mask)
        if not dwords:
            return
        self._llq[start:stop] = data[start - offset : stop - offset]
        self._written[line] |= mask

    def take_wqe(self, qp: Qp) -> tuple[bytes, bool]:
        """Consumes the next WQE; returns it and whether it was complete, clears its written map."""
        if self._in_host:
            return self._in_host.take(qp), True
        start = qp.llq_base + qp.sq.take() * qp.wqe_bytes
        wqe = bytes(self._llq[start : start + qp.wqe_bytes])
        whole = True
        for at in range(0, qp.wqe_bytes, LINE_BYTES):
            line = (start + at) >> LINE_SHIFT
            mask = self._written[line]
            self._written[line] = 0
            if mask != LINE_WRITTEN:
                whole = False
                wqe = _blanked(wqe, at, mask)
        return wqe, whole

    def next_is_broken(self, qp: Qp) -> bool:
        """True if the next WQE is in host memory and its fetch failed; it is never sent."""
        return self._in_host is not None and self._in_host.broken(qp)

    def unwrite(self, qp: Qp) -> None:
        """Clears the written map of the QP's ring."""
        first = qp.llq_base >> LINE_SHIFT
        count = qp.sq.depth * qp.wqe_bytes >> LINE_SHIFT
        self._written[first : first + count] = array("H", bytes(2 * count))

    # QP states.

    def move(self, qp: Qp, state: int) -> None:
        """Moves a QP to a state already checked as permitted, with all effects."""
        qp.state = state
        self.device.receives_changed = True
        if state == _State.RESET:
            qp.resets += 1
            self.sends.cancel(qp)
            qp.sq.clear()
            qp.rq.clear()
            qp.rq_failed, qp.first_phase = False, None
            qp.fetched.clear()
            self.unwrite(qp)
        elif state == _State.ERR:
            self.device.when_master(lambda: self._flush(qp))
        elif state == _State.RTS:
            self.device.when_master(lambda: self._work_sends(qp))

    def fail(self, qp: Qp, cause: defs.QpError) -> None:
        """Moves a QP to ERR because of a device-detected cause."""
        if qp.state != _State.ERR:
            self.device.event("qperr", qpn=qp.index, cause=cause)
            self.move(qp, _State.ERR)

    def _flush(self, qp: Qp) -> None:
        if qp.state == _State.ERR:
            if self._in_host:
                self._in_host.fetch(qp)
            self.sends.flush(qp)
            self.receives.flush(qp)

    # Packets.

    def execute(self, packet: bytes, opcode: int) -> defs.IoCompStatus | None:
        """Executes a packet for this node; returns its outcome, None if it was dropped."""
        if opcode in _DATA:
            return self.receives.deliver(packet, _DATA[opcode])
        if opcode not in _RDMA or not self.responder.enabled:
            report_drop(self.device, _Anomaly.OPCODE, packet)
            return None
        if len(packet) < _RDMA_BYTES:
            report_drop(self.device, _Anomaly.LENGTH, packet)
            return None
        if opcode == _Opcode.READ_RESPONSE:
            self.sends.place(packet)
            return _Status.OK
        return self.responder.deliver(packet)


def _blanked(wqe: bytes, at: int, mask: int) -> bytes:
    """The WQE with the unwritten dwords of one line set to zero."""
    image = bytearray(wqe)
    for dword in range(LINE_BYTES // 4):
        if not mask >> dword & 1:
            image[at + 4 * dword : at + 4 * dword + 4] = bytes(4)
    return bytes(image)
