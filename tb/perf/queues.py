# SPDX-License-Identifier: Apache-2.0
"""Provides queues with plain addresses for traffic without Python in the loop, and their logs.

A Device is one simulated device after power-on and probe. The driver creates its queues. The
traffic is built ahead (tb/perf/traffic.py) and passed in one call to the native host, which also
waits for completions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from efa_cosim.host.alloc import PAGE_BYTES
from efa_cosim.host.driver import Driver
from efa_cosim.host.driver_objects import LOCAL_ACCESS, Access
from efa_cosim.host.memory_region import FIRST_IOVA, PAGE_SHIFT
from efa_cosim.host.queue_pair import WQE
from efa_cosim.host.verbs import Context, gid_of
from efa_cosim.layouts import defs
from tb.lib import requests as host
from tb.lib.host import OuterLink, RtlBackend

if TYPE_CHECKING:
    from efa_cosim.host.admin_queue import Request
    from efa_cosim.layouts.layout import Struct

SRD, UD = defs.AdminQpType.SRD, defs.AdminQpType.UD
State = defs.AdminQpState
NODE, PEER = 1, 9
QKEY = 0x1234
SESSION = 1  # of the peer's packets
# Attributes that a state change must name (sheet, 9.3).
STATE_NEEDS = {
    State.INIT: ("modify_mask__qp_state", "modify_mask__qkey"),
    State.RTR: ("modify_mask__qp_state",),
    State.RTS: ("modify_mask__qp_state", "modify_mask__sq_psn"),
}
# Cycles from the handshake of a read to that of the first beat of its completion. The bench's knob
# counts from the request to the edge after which the beat is driven.
DMA_LATENCY = 250
REQUEST_BYTES = 512  # maximum of payload and of read requests
PHASE = 1 << 8 * defs.IoCdescCommon.flags.offset + defs.IoCdescCommon.phase.lsb
IDLE_CYCLES = 64
RECEIVE_ENTRY: dict[int, type[Struct]] = {16: defs.IoRxCdesc, 32: defs.IoRxCdescEx}


class PerfError(Exception):
    """The measurement is invalid: a message is missing or wrong; the text names the message."""


@dataclass
class Completions:
    """One completion queue: its ring, and the number of work requests that complete there."""

    number: int
    base: int
    depth: int
    entry_bytes: int
    db_offset: int
    posted: int = 0
    doorbells: int = 0

    @property
    def end(self) -> int:
        """First address after the ring."""
        return self.base + self.depth * self.entry_bytes

    def visible(self, index: int) -> bytes:
        """Returns the host wait until CQE `index` (from 0, over all wraps) is written."""
        wrap, slot = divmod(index, self.depth)
        return host.wait_memory(
            self.base + slot * self.entry_bytes, PHASE, 0 if wrap % 2 else PHASE
        )


@dataclass
class Queue:
    """One queue pair in RTS, with the plain numbers that posting needs."""

    number: int
    depth: int
    wqe: type[defs.IoTxWqe] | type[defs.IoTxWqe128]
    llq: int
    sq_db: int
    rq_db: int
    rq_base: int
    rq_depth: int
    send_cq: Completions
    recv_cq: Completions
    sq_base: int = 0  # address of a send queue in host memory
    sent: int = 0
    received: int = 0

    @property
    def index(self) -> int:
        """Index in events: on a newly reset device this is the number itself."""
        return self.number


@dataclass
class Buffer:
    """Registered memory: contiguous for the host, in pages for the device."""

    base: int
    iova: int
    length: int
    l_key: int
    r_key: int


class Device:
    """A device after power-on and probe, in the simulation of `backend`."""

    def __init__(
        self,
        backend: RtlBackend,
        seed: int = 1,
        llq_bytes: int = defs.LIMITS.llq_bytes,
        dma_latency: int = DMA_LATENCY,
        sq_host: bool = False,
        **knobs: int,
    ) -> None:
        self.llq_bytes, self.dma_latency, self.sq_host = llq_bytes, dma_latency, sq_host
        # The device is in another process: open_simulator() makes no other link.
        self.link = cast(OuterLink, backend.link)
        size = (REQUEST_BYTES // 128).bit_length() - 1
        knobs = {"mps": size, "mrrs": size, "rd_latency_min": dma_latency - 1,
                 "rd_latency_max": dma_latency - 1,
                 "net_peer": PEER, "node": NODE, "pin_mask": 0x3F, **knobs}  # fmt: skip
        self.link.restart(seed, [knobs])
        self.backend = RtlBackend(self.link, backend.name, 0, NODE)
        self.memory = self.backend.memory
        self.driver = Driver(self.backend, seed=seed).probe()
        self.uar = Context(self.driver).uar
        self.pd = self.driver.alloc_pd()
        self.batch = self.driver.queue_attr.max_tx_batch
        self._iova = FIRST_IOVA

    def knobs(self, **values: int) -> None:
        """Changes knobs of the running bench."""
        self.link.call("knobs", 0, values)

    def address_of(self, node: int) -> int:
        """Returns the address handle of a node of the fabric."""
        return self.driver.create_ah(self.pd, gid_of(node))

    def buffer(self, length: int, access: Access = LOCAL_ACCESS) -> Buffer:
        """Returns a registered buffer, page aligned."""
        pages = -(-length // PAGE_BYTES)
        base = self.driver.allocator.alloc(pages * PAGE_BYTES)
        iova, self._iova = self._iova, self._iova + (pages + 1) * PAGE_BYTES
        found = self.driver.reg_mr(
            self.pd, iova, length, [base + n * PAGE_BYTES for n in range(pages)], PAGE_SHIFT,
            access,
        )  # fmt: skip
        return Buffer(base, iova, length, found.l_key, found.r_key)

    def completions(
        self, depth: int, entry_bytes: int = 16, eqn: int | None = None
    ) -> Completions:
        """Returns a CQ of exactly `depth` entries; `eqn` binds the CQ to an event queue."""
        base = self.driver.allocator.alloc(depth * entry_bytes)
        made = self.driver.create_cq(self.uar, depth, base, entry_bytes, eqn)
        return Completions(made.cq_idx, base, depth, entry_bytes, made.db_offset)

    def queue(self, send_cq: Completions, recv_cq: Completions, **options: Any) -> Queue:
        """Returns a queue pair in RTS; the options are those of queues()."""
        return self.queues([(send_cq, recv_cq)], **options)[0]

    def queues(
        self,
        rings: Sequence[tuple[Completions, Completions]],
        depth: int = 1024,
        rq_depth: int = 1,
        wqe_bytes: int = 64,
        kind: defs.AdminQpType = SRD,
    ) -> list[Queue]:
        """Returns a queue pair in RTS for each (send CQ, receive CQ); depths are powers of two."""
        bases = [self.driver.allocator.alloc(rq_depth * defs.IoRxDesc.SIZE) for _ in rings]
        posts = [self.driver.allocator.alloc(depth * wqe_bytes) if self.sq_host else 0
                 for _ in rings]  # fmt: skip
        sizes = {"send_queue_ring_size": depth * wqe_bytes, "send_queue_depth": depth,
                 "recv_queue_ring_size": rq_depth * defs.IoRxDesc.SIZE,
                 "recv_queue_depth": rq_depth}  # fmt: skip
        made = self._commands(
            defs.AdminCreateQpCmd(
                pd=self.pd, qp_type=kind, uar=self.uar, send_cq_idx=send.number,
                recv_cq_idx=recv.number, rq_base_addr=base, sq_base_addr=post, qp_alloc_size=sizes)
            for (send, recv), base, post in zip(rings, bases, posts, strict=True)
        )  # fmt: skip
        for state in (State.INIT, State.RTR, State.RTS):
            needed: dict[str, Any] = dict.fromkeys(STATE_NEEDS[state], 1)
            self._commands(
                defs.AdminModifyQpCmd(qp_handle=one.qp_handle, qp_state=state, qkey=QKEY, **needed)
                for one in made
            )  # fmt: skip
        return [
            Queue(one.qp_num, depth, WQE[wqe_bytes], one.llq_descriptors_offset,
                  one.sq_db_offset, one.rq_db_offset, base, rq_depth, send, recv, post)
            for one, (send, recv), base, post in zip(made, rings, bases, posts, strict=True)
        ]  # fmt: skip

    def _commands(self, requests: Iterable[Request]) -> list[Any]:
        """Returns the responses of commands that are posted together."""
        submitted = [self.driver.submit(request) for request in requests]
        return [self.driver.finish(command) for command in submitted]

    def post(self, requests: bytes | np.ndarray) -> None:
        """Posts host accesses (bytes or array), executed as fast as the device accepts them."""
        if isinstance(requests, bytes):
            requests = np.frombuffer(requests, host.REQUEST)
        self.link.call("post", 0, requests)

    def inject(self, packets: Sequence[bytes], delay: int = 1) -> None:
        """Injects packets from the fabric, back to back."""
        self.link.call("inject", 0, packets, delay)

    def incarnation(self) -> int:
        """Returns the incarnation of the device, from its reply to a packet of the peer.

        The quiet time after the reset must not be over: a packet without the incarnation is not
        taken then. A packet with the incarnation is.
        """
        self.cancel()
        self.inject([defs.SrdHdr(opcode=defs.PktOpcode.SRD_SEND, session=SESSION, src_node=PEER,
                                 dst_node=NODE).pack()])  # fmt: skip
        self.settle()
        _, (reply,) = self.link.log("packets")
        return defs.SrdAck.unpack(reply).incarnation

    def settle(self) -> None:
        """Waits until the device is idle."""
        self.backend.settle()

    def cancel(self) -> None:
        """Drops the contents of the logs."""
        for kind in ("pins", "events", "writes", "packets", "interrupts"):
            self.link.log(kind)

    def run_until(self, condition: host.Condition, cycles: int, what: str) -> None:
        """Runs the clock until a condition of tb.lib.requests holds; PerfError after `cycles`."""
        if self.link.run([condition], cycles) != 0:
            raise PerfError(f"{what}: not within {cycles} cycles")


# Returns a fresh device with these knobs.
Make: TypeAlias = Callable[..., Device]


def entries_of(queue: Queue, wqes: np.ndarray) -> np.ndarray:
    """Returns work requests as rows of 64-byte lines: (count, lines, 64)."""
    plain = np.ascontiguousarray(wqes).view(np.uint8)
    return plain.reshape(len(wqes), queue.wqe.SIZE // host.LINE, host.LINE)
