# SPDX-License-Identifier: Apache-2.0
"""Executes received data packets: validates, scatters, completes, acknowledges."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from efa_cosim.boundary.memory import HostReadError
from efa_cosim.device.objects import Checked, Mr, Qp
from efa_cosim.layouts import defs
from efa_cosim.layouts.fields import PktHdrFields
from efa_cosim.layouts.wire import mask, precompiled

if TYPE_CHECKING:
    from efa_cosim.device.datapath import Datapath
    from efa_cosim.device.device import Device

DESCRIPTOR_BYTES = defs.IoRxDesc.SIZE
GID_BYTES = len(defs.LIMITS.gid_prefix) + 2
GRH_SOURCE, GRH_DESTINATION = 8, 24

_State = defs.AdminQpState
_Error = defs.QpError
_Status = defs.IoCompStatus
_READY = {_State.RTR, _State.RTS, _State.SQD, _State.SQE}
_SRD = defs.AdminQpType.SRD
_HAS_IMM = mask(defs.PktHdr.has_imm)
_DESCRIPTOR = precompiled(
    defs.IoRxDesc, "buf_addr_lo", "buf_addr_hi", "req_id", "length", "lkey_ctrl"
)
_KEY_MASK = mask(defs.IoRxDesc.lkey)
_LAST = mask(defs.IoRxDesc.last)


class Entry:
    """A posted receive WQE: its descriptors, consumed together."""

    __slots__ = ("buffers", "count", "req_id", "space", "whole")

    buffers: list[tuple[int, int, int]]
    req_id: Checked[int]

    def __init__(self) -> None:
        self.buffers, self.count, self.req_id, self.space, self.whole = [], 0, None, 0, False

    def add(self, low: int, high: int, req_id: int, length: int, lkey_ctrl: int) -> None:
        """Adds the next descriptor; the first one carries the request id."""
        if not self.count:
            self.req_id = req_id
        self.buffers.append((high << 32 | low, length, lkey_ctrl & _KEY_MASK))
        self.count += 1
        self.space += length
        self.whole = bool(lkey_ctrl & _LAST)


class _Claim(NamedTuple):
    """Result of the checks of a data packet.

    status: for the sender; entry: the claimed receive WQE; failed: its status if it gets no data;
    cause: why the queue pair goes to ERR.
    """

    status: _Status
    entry: Entry | None = None
    failed: _Status | None = None
    cause: _Error | None = None


class Receives:
    """The receive side of the data path."""

    def __init__(self, device: Device, datapath: Datapath) -> None:
        self.device, self.datapath = device, datapath
        self.completions = datapath.completions
        self._gid_prefix = device.limits.gid_prefix
        self._most_descriptors = device.limits.max_recv_sges

    def deliver(self, packet: bytes, qp_type: int) -> _Status:
        """Processes a well-formed data packet for this node; returns its outcome."""
        header, device = PktHdrFields.read(packet), self.device
        length = header.length
        qp: Checked[Qp] = device.objects.qp_by_number(header.dst_qpn)
        status, entry, failed, cause = self._claim(qp, qp_type, header.qkey, length)
        if device.on_event is not None:
            device.event(
                "rx_validated",
                qpn=qp.index if qp else 0,
                status=int(status),
                req_id=entry.req_id if entry else 0,
                length=length,
                drop=int(entry is None),
            )
        if entry is not None:
            qp.rq.take(entry.count)
            if failed is None:
                reported = self._scatter(qp, entry, packet, header.src_node)
                qp.rq.complete(entry.count)
                stats = device.stats
                stats.rx_pkts += 1
                stats.rx_bytes += length
                stats.recv_wrs += 1
                stats.recv_bytes += length
                gid = self._gid_prefix + header.src_node.to_bytes(2, "big")
                imm = header.imm if header.flags & _HAS_IMM else None
                self.completions.receive(
                    qp, entry.req_id, reported, gid, header.src_qpn, imm
                )
            else:
                qp.rq.complete(entry.count)
                self.completions.receive_error(qp, entry.req_id, failed)
        if status != _Status.OK:
            device.stats.rx_drops += 1
        if cause is not None:
            self.datapath.fail(qp, cause)
        return status

    def flush(self, qp: Qp) -> None:
        """QP in ERR: flushes every complete posted receive, in order."""
        try:
            while (entry := self._next(qp)) is not None:
                qp.rq.take(entry.count)
                qp.rq.complete(entry.count)
                self.completions.receive_error(qp, entry.req_id, _Status.FLUSHED)
        except HostReadError:
            qp.rq_failed = True

    def _prefix_bytes(self, qp_type: int) -> int:
        return 0 if qp_type == _SRD else self.device.limits.grh_bytes

    def admit(self, qp: Qp | None, qp_type: int, qkey: int) -> _Status:
        """Status of a packet for a queue pair that may not receive it, else OK."""
        if qp is None or qp.type != qp_type or qp.state not in _READY:
            return _Status.REMOTE_ERROR_BAD_DEST_QPN
        if qkey != qp.qkey:
            self.device.stats.qkey_viol += 1
            return _Status.REMOTE_ERROR_BAD_DEST_QPN
        return _Status.OK

    def consume(self, qp: Qp) -> tuple[_Status, Checked[int]]:
        """Consumes a receive for a write with immediate; returns the outcome and the request id."""
        try:
            entry = self._next(qp)
        except HostReadError:
            qp.rq_failed = True
            self.datapath.fail(qp, _Error.DESC_READ)
            return _Status.REMOTE_ERROR_BAD_DEST_QPN, None
        if entry is None:
            return _Status.REMOTE_ERROR_RNR, None
        qp.rq.take(entry.count)
        qp.rq.complete(entry.count)
        if entry.whole:
            return _Status.OK, entry.req_id
        self.completions.receive_error(qp, entry.req_id, _Status.LOCAL_ERROR_QP_INTERNAL_ERROR)
        self.datapath.fail(qp, _Error.NO_LAST)
        return _Status.REMOTE_ERROR_BAD_STATUS, None

    def _claim(self, qp: Qp | None, qp_type: int, qkey: int, length: int) -> _Claim:
        """Checks a data packet and claims the receive WQE at the head of the ring."""
        status = self.admit(qp, qp_type, qkey)
        if qp is None or status != _Status.OK:
            return _Claim(status)
        try:
            entry = self._next(qp)
        except HostReadError:
            qp.rq_failed = True
            return _Claim(_Status.REMOTE_ERROR_BAD_DEST_QPN, cause=_Error.DESC_READ)
        if entry is None:
            return _Claim(_Status.REMOTE_ERROR_RNR)
        bad = _Status.REMOTE_ERROR_BAD_STATUS
        if not entry.whole:
            failed = _Status.LOCAL_ERROR_QP_INTERNAL_ERROR
            return _Claim(bad, entry, failed, _Error.NO_LAST)
        needed = length + self._prefix_bytes(qp_type)
        if entry.space < needed:
            return _Claim(_Status.REMOTE_ERROR_BAD_LENGTH)
        for address, size, key in entry.buffers:
            if needed and size:
                mr = self.device.objects.mr_by_key(key)
                if (
                    mr is None
                    or mr.pd != qp.pd
                    or not mr.local_write
                    or not mr.covers(address, size)
                ):
                    return _Claim(bad, entry, _Status.LOCAL_ERROR_INVALID_LKEY)
                needed -= min(needed, size)
        return _Claim(_Status.OK, entry)

    def _next(self, qp: Qp) -> Entry | None:
        """The receive at the head of the ring, None while incomplete; raises HostReadError."""
        if qp.rq_failed:
            return None
        rq, entry, memory = qp.rq, Entry(), self.device.memory
        waiting = rq.waiting
        while not entry.whole and entry.count < self._most_descriptors:
            if entry.count >= waiting:
                return None
            address = qp.rq_base + rq.slot(entry.count) * DESCRIPTOR_BYTES
            entry.add(*_DESCRIPTOR.unpack(memory.read(address, DESCRIPTOR_BYTES)))
        return entry

    def _scatter(self, qp: Qp, entry: Entry, packet: bytes, src_node: int) -> int:
        """Writes the message to its buffers; returns the bytes written, including the GRH."""
        device = self.device
        data = packet[defs.PktHdr.SIZE :]
        if qp.type != _SRD:
            data = self._grh(src_node) + data
        done, total = 0, len(data)
        for address, size, key in entry.buffers:
            size = min(size, total - done)
            if not size:
                continue
            mr: Checked[Mr] = device.objects.mr_by_key(key)
            for host_address, count in mr.pieces(address, size):
                device.dma_write(host_address, data[done : done + count])
                done += count
        if device.on_event is not None:
            device.event("rx_data_done", qpn=qp.index, req_id=entry.req_id)
        return total

    def _grh(self, src_node: int) -> bytes:
        """The 40-byte GRH of a datagram: both GIDs at their IB offsets, other bytes zero."""
        device = self.device
        image = bytearray(device.limits.grh_bytes)
        source = self._gid_prefix + src_node.to_bytes(2, "big")
        image[GRH_SOURCE : GRH_SOURCE + GID_BYTES] = source
        image[GRH_DESTINATION : GRH_DESTINATION + GID_BYTES] = device.gid
        return bytes(image)
