# SPDX-License-Identifier: Apache-2.0
"""A queue pair: posts sends to LLQ memory or a host ring, receives to a ring in host memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from efa_cosim.host import arguments
from efa_cosim.host.completion_queue import COUNTER_MASK, VerbsError, round_up_pow2
from efa_cosim.host.work_queue import WorkQueue
from efa_cosim.layouts import defs
from efa_cosim.layouts.codec import set_column

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from efa_cosim.host.completion_queue import CompletionQueue
    from efa_cosim.host.verbs import AddressHandle, ProtectionDomain

State = defs.AdminQpState
_Op = defs.IoSendOpType
WQE: dict[int, type[defs.IoTxWqe] | type[defs.IoTxWqe128]] = {
    64: defs.IoTxWqe, 128: defs.IoTxWqe128,
}
INLINE_64 = defs.EFA_IO_TX_DESC_INLINE_MAX_SIZE
MAX_DESCRIPTOR_BYTES = 0xFFFF


@dataclass
class Sge:
    """A range of registered memory.

    - `addr`: first user address
    - `length`: bytes
    - `l_key`: local key of the memory region
    """

    addr: int
    length: int
    l_key: int


@dataclass
class SendWr:
    """One SEND work request: inline bytes, or up to two memory ranges.

    - `ah`: an address handle or its number
    - `dest_qp`, `qkey`: number and Q_Key of the receiving queue pair
    - `sges`: memory ranges, at most the MTU in sum
    - `inline`: the message itself, at most `max_inline` bytes, instead of `sges`
    - `imm`: immediate data of 32 bits, None without
    - `wr_id`: number of 64 bits that the completion returns
    """

    ah: AddressHandle | int
    dest_qp: int
    qkey: int
    sges: list[Sge] = field(default_factory=list)
    inline: bytes | None = None
    imm: int | None = None
    wr_id: int = 0


@dataclass
class RdmaWr:
    """One RDMA READ or WRITE work request: memory of the peer, and inline bytes or one local range.

    - `ah`: an address handle or its number
    - `dest_qp`, `qkey`: number and Q_Key of the queue pair that has the right to the remote memory
    - `remote_addr`, `r_key`: first address and remote key of the peer's memory region
    - `sges`: the local range: source of a write, target of a read; none for no bytes
    - `inline`: the bytes of a write, at most `max_inline`, instead of `sges`; only for a queue pair
      with WQEs of 128 bytes
    - `imm`: immediate data of a write, 32 bits; the peer then gets a receive completion
    - `wr_id`: number of 64 bits that the completion returns
    """

    ah: AddressHandle | int
    dest_qp: int
    qkey: int
    remote_addr: int
    r_key: int
    sges: list[Sge] = field(default_factory=list)
    inline: bytes | None = None
    imm: int | None = None
    wr_id: int = 0


class _Content(NamedTuple):
    """Checked content of a work request: metadata, and inline bytes or memory ranges."""

    meta: defs.IoTxMetaDesc
    sges: Sequence[Sge]
    inline: bytes | None


class QueuePair:
    """A queue pair; ProtectionDomain.create_qp creates it in state RESET.

    - `send_cq`, `recv_cq`: completion queues of sends and receives; one may be both
    - `kind`: AdminQpType.SRD or AdminQpType.UD
    - `max_send_wr`, `max_recv_wr`: outstanding work requests, rounded up to a power of two
    - `max_recv_sge`: memory ranges of a receive
    - `max_inline`: inline bytes of a send, by default 32; above 32 WQEs have 128 bytes
    - `ring_offset`: bytes into its first page at which a send ring in host memory starts; only for
      a device that fetches send WQEs from there
    - `long_ids`: request ids of 64 bits if the device supports them, as in libefa
    - `unsolicited`: a write with immediate from a peer consumes no receive

    Attributes: `number`, `handle`, `state` (defs.AdminQpState), `sq_depth` in WQEs,
    `rq_descriptors` (size of the receive ring), `sq_db` and `rq_db` (offsets in the doorbell BAR),
    `llq` (offset of its LLQ memory), `sq` and `rq` (outstanding work requests).
    """

    def __init__(
        self,
        pd: ProtectionDomain,
        send_cq: CompletionQueue,
        recv_cq: CompletionQueue,
        kind: defs.AdminQpType = defs.AdminQpType.SRD,
        max_send_wr: int = 64,
        max_recv_wr: int = 64,
        max_recv_sge: int = 1,
        max_inline: int = INLINE_64,
        ring_offset: int = 0,
        long_ids: bool = True,
        unsolicited: bool = False,
    ) -> None:
        self.pd, self.context, self.driver = pd, pd.context, pd.driver
        self.send_cq, self.recv_cq = send_cq, recv_cq
        if max_inline > self.driver.inline_bytes:
            raise VerbsError(
                f"max_inline is {max_inline} bytes, the device supports at most "
                f"{self.driver.inline_bytes}: reduce max_inline")
        self.kind, self.max_recv_sge, self.max_inline = kind, max_recv_sge, max_inline
        self.long_ids = long_ids and self.driver.long_ids
        self.unsolicited = unsolicited
        self.wqe = WQE[64 if max_inline <= INLINE_64 else 128]
        sq_depth = round_up_pow2(max(max_send_wr, self.driver.queue_attr.min_sq_depth))
        self.rq_descriptors = round_up_pow2(max(1, max_recv_wr * max_recv_sge))
        self._rq_bytes = self.rq_descriptors * defs.IoRxDesc.SIZE
        self._rq_base = self.driver.allocator.alloc(self._rq_bytes)
        self._sq_block = None
        if self.context.backend.sq_host:
            self._sq_block = self.driver.allocator.alloc(ring_offset + sq_depth * self.wqe.SIZE)
        self.sq_base = 0 if self._sq_block is None else self._sq_block + ring_offset
        try:
            response = self._create(send_cq, recv_cq, sq_depth)
        except Exception:
            self.free_rings()
            raise
        self.number, self.handle = response.qp_num, response.qp_handle
        self.sq_db, self.rq_db = response.sq_db_offset, response.rq_db_offset
        self.llq = response.llq_descriptors_offset
        self.state = State.RESET
        generation = self.number
        self.sq_depth = sq_depth
        self.sq = self.context.provider.work_queue(sq_depth, generation, self.long_ids)
        self.rq = WorkQueue(max(1, self.rq_descriptors // max_recv_sge), generation)
        self.first_phase = 0
        self.batch = self.driver.queue_attr.max_tx_batch * 64 // self.wqe.SIZE or sq_depth
        self.context.qps[self.number] = self

    @property
    def receive_ring(self) -> int:
        """DMA address of the receive ring."""
        return self._rq_base

    def _create(
        self, send_cq: CompletionQueue, recv_cq: CompletionQueue, sq_depth: int
    ) -> defs.AdminCreateQpResp:
        return self.driver.create_qp(
            pd=self.pd.number, qp_type=self.kind, uar=self.context.uar,
            send_cq_idx=send_cq.number, recv_cq_idx=recv_cq.number,
            sq_base_addr=self.sq_base, rq_base_addr=self._rq_base,
            sq_64_bit_req_id=self.long_ids, unsolicited_write_recv=self.unsolicited,
            qp_alloc_size={
                "send_queue_ring_size": sq_depth * self.wqe.SIZE, "send_queue_depth": sq_depth,
                "recv_queue_ring_size": self._rq_bytes,
                "recv_queue_depth": self.rq_descriptors // self.max_recv_sge})

    def destroy(self) -> None:
        """Destroys the queue pair; outstanding work is cancelled without completions. Raises
        DriverError."""
        self.context.enter_kernel()
        self.driver.destroy_qp(self.handle)
        del self.context.qps[self.number]
        self.free_rings()

    def free_rings(self) -> None:
        """Frees the rings of a queue pair that the device has destroyed."""
        self.driver.allocator.free(self._rq_base)
        if self._sq_block is not None:
            self.driver.allocator.free(self._sq_block)

    # States

    def modify(self, state: defs.AdminQpState, **attributes: int) -> None:
        """Changes the state; the command carries the current state, as in every verbs call.

        - `state`: defs.AdminQpState
        - `attributes`: `qkey`, `sq_psn`, `rnr_retry`

        Raises DriverError if the device refuses.
        """
        self.context.enter_kernel()
        self.driver.modify_qp(self.handle, qp_state=state, cur_qp_state=self.state, **attributes)
        self.state = state
        if state == State.RESET:
            # As in libefa, the phase continues over a reset; only the indices restart.
            self.first_phase = (self.first_phase + self.sq.produced // self.sq_depth) % 2
            self.sq.clear()
            self.rq.clear()

    def to_rts(self, qkey: int, sq_psn: int = 0, rnr_retry: int | None = None) -> Self:
        """Moves from RESET through INIT and RTR to RTS; returns itself.

        - `qkey`: Q_Key of 32 bits that a sender must name
        - `sq_psn`: sequence number of the first packet
        - `rnr_retry`: retries after RNR, 7 without end; None: those that the device begins with

        Raises VerbsError for a wrong argument, DriverError if the device refuses.
        """
        self.modify(State.INIT, qkey=arguments.whole("qkey", qkey, 32))
        self.modify(State.RTR)
        retries = {} if rnr_retry is None else {"rnr_retry": rnr_retry}
        self.modify(State.RTS, sq_psn=sq_psn, **retries)
        return self

    def query(self) -> defs.AdminQueryQpResp:
        """Returns the QUERY_QP response of the device, with `qp_state`; raises DriverError."""
        return self.driver.query_qp(self.handle)

    # Sending

    def post_send(self, *requests: SendWr) -> None:
        """Posts SENDs in one call, each a `SendWr`.

        Raises VerbsError for a wrong argument, a full queue, or a state other than RTS and SQD.
        """
        self._post([self._entry(request) for request in requests], requests)

    def post_write(self, *requests: RdmaWr) -> None:
        """Posts RDMA WRITEs in one call, each a `RdmaWr`; raises VerbsError as post_send does."""
        self._post([self._rdma_entry(_Op.RDMA_WRITE, one) for one in requests], requests)

    def post_read(self, *requests: RdmaWr) -> None:
        """Posts RDMA READs in one call, each a `RdmaWr`; raises VerbsError as post_send does."""
        self._post([self._rdma_entry(_Op.RDMA_READ, one) for one in requests], requests)

    def _post(self, entries: list[bytes], requests: Sequence[SendWr | RdmaWr]) -> None:
        wqes = np.frombuffer(b"".join(entries), self.wqe.DTYPE).copy()
        self.post_wqes(wqes, np.array([request.wr_id for request in requests], "u8"))

    def _content(self, request: SendWr | RdmaWr, most: int) -> _Content:
        """Checks a request, which has at most so many memory ranges."""
        inline = None
        sges = arguments.ranges(request.sges)
        if request.inline is not None:
            inline = arguments.content("inline", request.inline)
        if inline is not None and len(inline) > self.max_inline:
            raise VerbsError(f"{len(inline)} inline bytes exceed the {self.max_inline} of "
                             f"QP {self.number}: create it with a larger max_inline")
        most = most if inline is None else 0
        if len(sges) > most:
            raise VerbsError(f"{len(sges)} memory pieces, a work request has at most "
                             f"{most}: use fewer SGEs, none with inline data")
        meta = meta_desc(
            ah=arguments.handle(request.ah),
            dest_qp_num=arguments.whole("dest_qp", request.dest_qp, 16),
            qkey=arguments.whole("qkey", request.qkey, 32), has_imm=request.imm is not None,
            immediate_data=arguments.whole("imm", request.imm or 0, 32),
            inline_msg=inline is not None, length=len(sges) if inline is None else len(inline))
        return _Content(meta, sges, inline)

    def _entry(self, request: SendWr) -> bytes:
        arguments.request(request, SendWr)
        most = self.driver.queue_attr.max_wr_send_sges
        meta, sges, inline = self._content(request, most)
        entry = self.wqe(meta=meta)
        if inline is not None:
            entry.data.inline_data = inline
        else:
            entry.data.sgl = [_buffer(sge) for sge in sges]
        return entry.pack()

    def _rdma_entry(self, op: defs.IoSendOpType, request: RdmaWr) -> bytes:
        name = op.name.replace("_", " ")
        if not getattr(self.driver.device_attr, op.name.lower()):
            raise VerbsError(f"the device does not offer {name}: open it with a profile that "
                             "reports the capability")
        arguments.request(request, RdmaWr)
        read = op == _Op.RDMA_READ
        if read and (request.inline is not None or request.imm is not None):
            raise VerbsError(f"an {name} has inline bytes or an immediate: only a write can")
        if request.inline is not None and self.wqe is not defs.IoTxWqe128:
            raise VerbsError(f"an {name} with inline bytes needs WQEs of 128 bytes: create QP "
                             f"{self.number} with max_inline above {INLINE_64}")
        meta, sges, inline = self._content(request, self.driver.queue_attr.max_wr_rdma_sges)
        meta.op_type = op
        entry = self.wqe(meta=meta)
        rdma = entry.data.rdma_req
        if inline is not None:
            assert isinstance(rdma, defs.IoRdmaReq128)
            rdma.inline_data = inline
        elif sges:
            rdma.local_mem = [_buffer(sges[0])]
        address = arguments.whole("remote_addr", request.remote_addr, 64)
        rdma.remote_mem = {
            "length": sum(sge.length for sge in sges) if inline is None else len(inline),
            "rkey": arguments.whole("r_key", request.r_key, 32),
            "buf_addr_lo": address & 0xFFFF_FFFF, "buf_addr_hi": address >> 32}
        return entry.pack()

    def sends(
        self,
        count: int,
        ah: ArrayLike,
        dest_qp: ArrayLike,
        qkey: ArrayLike,
        inline: bytes | NDArray[np.uint8] | None = None,
        sges: Sequence[tuple[ArrayLike, ArrayLike, ArrayLike]] = (),
        imm: ArrayLike | None = None,
    ) -> NDArray[Any]:
        """Returns an array of WQEs for `count` SENDs; each value is a scalar or an array.

        - `inline`: one bytes value or an array of rows
        - `sges`: up to two of (addr, length, l_key)
        - other values: as in `SendWr`

        Raises VerbsError if `inline` is too long.
        """
        wqes: NDArray[Any] = np.zeros(count, self.wqe.DTYPE)
        wqes[:] = np.frombuffer(self.wqe(meta=meta_desc()).pack(), self.wqe.DTYPE)
        columns: dict[str, ArrayLike] = {
            "ah": ah, "dest_qp_num": dest_qp, "qkey": qkey, "length": len(sges)}
        if imm is not None:
            columns |= {"has_imm": 1, "immediate_data": imm}
        if inline is not None:
            if isinstance(inline, bytes):
                inline = np.frombuffer(inline, "u1")
            rows = np.atleast_2d(inline)
            if rows.shape[1] > self.max_inline:
                raise VerbsError(f"{rows.shape[1]} inline bytes exceed the {self.max_inline} of "
                                 f"QP {self.number}: create it with a larger max_inline")
            columns |= {"inline_msg": 1, "length": rows.shape[1]}
            wqes["data"]["inline_data"][:, : rows.shape[1]] = rows
        for name, values in columns.items():
            set_column(self.wqe, wqes, f"meta.{name}", np.broadcast_to(values, count))
        for index, (addr, length, l_key) in enumerate(sges):
            piece = wqes["data"]["sgl"][:, index]
            addr = np.broadcast_to(np.asarray(addr, "u8"), count)
            piece["length"], piece["lkey"] = length, l_key
            piece["buf_addr_lo"], piece["buf_addr_hi"] = addr & 0xFFFF_FFFF, addr >> np.uint64(32)
        return wqes

    def writes(self, count: int, request: RdmaWr) -> NDArray[Any]:
        """Returns an array of WQEs for `count` equal RDMA WRITEs; raises VerbsError for a wrong
        argument."""
        entry = self._rdma_entry(_Op.RDMA_WRITE, request)
        return np.frombuffer(entry * count, self.wqe.DTYPE).copy()

    def reads(self, count: int, request: RdmaWr) -> NDArray[Any]:
        """Returns an array of WQEs for `count` equal RDMA READs; raises VerbsError for a wrong
        argument."""
        entry = self._rdma_entry(_Op.RDMA_READ, request)
        return np.frombuffer(entry * count, self.wqe.DTYPE).copy()

    def post_send_many(self, wr_ids: Sequence[int] | NDArray[Any], **values: Any) -> None:
        """Posts one SEND per wr_id; values are those of sends(). Raises VerbsError as post_send
        does."""
        self.post_wqes(self.sends(len(wr_ids), **values), np.asarray(wr_ids, "u8"))

    def post_wqes(self, wqes: NDArray[Any], wr_ids: NDArray[np.uint64]) -> None:
        """Posts WQEs of any content (an array, as sends() returns it); writes a doorbell after each
        batch that the device allows.

        Raises VerbsError for a full queue, or a state other than RTS and SQD.
        """
        if self.state not in (State.RTS, State.SQD):
            raise VerbsError(f"QP {self.number} is in {self.state.name}, it cannot send: "
                             "move it to RTS")
        if len(wqes):
            self.name(wqes, wr_ids)
            self.context.provider.post(self, wqes)
        self.context.push()

    def name(self, wqes: NDArray[Any], wr_ids: NDArray[np.uint64]) -> None:
        """Sets the request ids of WQEs, 64 bits wide if the device supports that."""
        words = self.sq.take(wr_ids).astype("<u8").view("<u2").reshape(-1, 4)
        meta = wqes["meta"]
        meta["req_id"], meta["req_id_ex"]["w"] = words[:, 0], words[:, 1:]

    # Receiving

    def post_recv(self, sges: Sequence[Sge], wr_id: int = 0) -> None:
        """Posts one receive of 1 to max_recv_sge memory ranges, a list of `Sge`.

        The receive of a datagram (UD) begins with the GRH of 40 bytes. Raises VerbsError for a
        wrong argument, a full queue, or in RESET and ERR.
        """
        if not 0 < len(arguments.ranges(sges)) <= self.max_recv_sge:
            raise VerbsError(f"{len(sges)} memory pieces, QP {self.number} takes 1 to "
                             f"{self.max_recv_sge}: create it with a larger max_recv_sge")
        descriptors = np.zeros(len(sges), defs.IoRxDesc.DTYPE)
        for name in ("addr", "length", "l_key"):
            values = np.array([getattr(sge, name) for sge in sges], "u8")
            self._fill(descriptors, name, values)
        flags = np.zeros(len(sges), "u4")
        flags[0] = 1
        set_column(defs.IoRxDesc, descriptors, "first", flags)
        set_column(defs.IoRxDesc, descriptors, "last", flags[::-1])
        descriptors["req_id"][0] = self._take_receives(np.array([wr_id], "u8"))[0]
        self.post_descriptors(descriptors)

    def post_recv_many(
        self,
        wr_ids: Sequence[int] | NDArray[Any],
        addrs: ArrayLike,
        lengths: ArrayLike,
        l_keys: ArrayLike,
    ) -> None:
        """Posts one receive of one memory range per wr_id; addresses, lengths and keys are scalars
        or arrays. Raises VerbsError as post_recv does."""
        descriptors = np.zeros(len(wr_ids), defs.IoRxDesc.DTYPE)
        for name, values in (("addr", addrs), ("length", lengths), ("l_key", l_keys)):
            self._fill(descriptors, name, np.broadcast_to(np.asarray(values, "u8"), len(wr_ids)))
        for name in ("first", "last"):
            set_column(defs.IoRxDesc, descriptors, name, np.ones(len(wr_ids), "u4"))
        descriptors["req_id"] = self._take_receives(np.asarray(wr_ids, "u8"))
        self.post_descriptors(descriptors)

    def _take_receives(self, wr_ids: NDArray[np.uint64]) -> NDArray[np.uint64]:
        if self.state in (State.RESET, State.ERR):
            raise VerbsError(f"QP {self.number} is in {self.state.name}, it cannot receive: "
                             "move it to INIT, RTR or RTS")
        return self.rq.take(wr_ids)

    @staticmethod
    def _fill(descriptors: NDArray[Any], name: str, values: NDArray[np.uint64]) -> None:
        if name == "addr":
            descriptors["buf_addr_lo"] = values & np.uint64(0xFFFF_FFFF)
            descriptors["buf_addr_hi"] = values >> np.uint64(32)
        elif name == "length":
            # The length field has 16 bits; libefa truncates larger buffers.
            descriptors["length"] = np.minimum(values, MAX_DESCRIPTOR_BYTES)
        else:
            set_column(defs.IoRxDesc, descriptors, "lkey", values)

    def post_descriptors(self, descriptors: NDArray[Any]) -> None:
        """Writes receive descriptors (an array of defs.IoRxDesc) to the ring and writes the
        doorbell."""
        data, size = descriptors.tobytes(), defs.IoRxDesc.SIZE
        slot = self.rq.produced % self.rq_descriptors
        first = min(len(descriptors), self.rq_descriptors - slot)
        self.driver.memory.write(self._rq_base + slot * size, data[: first * size])
        if first < len(descriptors):
            self.driver.memory.write(self._rq_base, data[first * size :])
        self.rq.produced += len(descriptors)
        self.context.ring(self.rq_db, self.rq.produced & COUNTER_MASK)
        self.context.push()


def _buffer(sge: Sge) -> dict[str, int]:
    """A memory range as a buffer of a WQE."""
    return {"length": sge.length, "lkey": sge.l_key, "buf_addr_lo": sge.addr & 0xFFFF_FFFF,
            "buf_addr_hi": sge.addr >> 32}


def meta_desc(**values: Any) -> defs.IoTxMetaDesc:
    """The metadata of a WQE, with the flags that libefa always sets."""
    return defs.IoTxMetaDesc(
        op_type=defs.IoSendOpType.SEND, meta_desc=1, first=1, last=1, comp_req=1, **values)
