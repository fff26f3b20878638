# SPDX-License-Identifier: Apache-2.0
"""Mixes sends and RDMA operations of several queue pairs in both directions, valid and refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from efa_cosim.host.driver_objects import Access
from efa_cosim.host.endpoints import QKEY, UD, Endpoint, Node
from efa_cosim.host.queue_pair import RdmaWr, Sge, meta_desc
from efa_cosim.host.verbs import gid_of
from efa_cosim.layouts import defs
from tb.scenarios.rdma_load import ALL, INLINE
from tb.scenarios.reliable import PATIENCE, STATE, STATUS, back_off, nodes_of

if TYPE_CHECKING:

    from efa_cosim.host.queue_pair import QueuePair

STATISTICS = defs.AdminGetStatsType
READ, WRITE = defs.IoSendOpType.RDMA_READ, defs.IoSendOpType.RDMA_WRITE
PAGE = 4096
# Around the bytes of a flit, of inline bytes, of a page, of a packet, of a read request and of all
# requests of a read.
SMALL = (0, 1, 31, 32, 33, 63, 64, 65, 80, 81, 1000)
SIZES = (*SMALL, *(
    size + more for size in (PAGE, 2 * PAGE, 16 * PAGE) for more in (-1, 0, 1)
), 3 * PAGE, 70_000, 80_001, 131_072)  # fmt: skip
LARGEST = (16 * PAGE * 4 + 1, 16 * PAGE * 5 - 1)
# A refused operation of so many bytes stops before it has sent all of its packets.
LONG = 160 * PAGE
# Bytes of the ranges that operations read, and of those that they change.
SPACE = 1 << 20
DEPTH = 64
MESSAGE_BYTES = 8928
SLOT_BYTES = 9088
SLOTS = 24


class Pair:
    """Queue pairs `a` and `b` of two nodes; `a` sends to `b` and works on its memory.

    The first half of each region has the bytes that operations read, the second half those that
    they change. `open` are the permitted statuses of the operations without a completion.

    - `inline`: inline bytes of `a`
    - `unsolicited`: of `b`
    - `events`, `entry_bytes`: of both completion queues
    """

    def __init__(
        self, near: Node, far: Node, rng: Random, inline: int = 32, unsolicited: bool = False,
        events: bool = False, entry_bytes: int = 32,
    ) -> None:  # fmt: skip
        self.rng, self.events = rng, events
        queues: dict[str, Any] = {"depth": DEPTH, "events": events, "entry_bytes": entry_bytes}
        self.a = Endpoint(near, max_inline=inline, **queues)
        self.b = Endpoint(far, unsolicited=unsolicited, **queues)
        self.near = near.pd.reg_mr(2 * SPACE, ALL, scattered=True)
        self.far = far.pd.reg_mr(2 * SPACE, ALL, scattered=True)
        self.number = self.posted = self.receives = 0
        self.open: dict[int, set[int]] = {}
        self.begin()

    def begin(self) -> None:
        """Begins to use memory and slots again; no operation is open."""
        self.at, self.slot = self.rng.randrange(200), 0

    def rdma(
        self, op: int, size: int, imm: bool = False, statuses: Sequence[int] = (STATUS.OK,),
        change: Callable[[Any], None] | None = None, **values: Any,
    ) -> int:  # fmt: skip
        """Posts an operation; returns its number.

        - `statuses`: permitted for its completion
        - `change`: alters the WQE before it is posted
        - `values`: override those of the work request
        """
        read, rng, number, at = op == READ, self.rng, self._next(statuses), self.at
        if rng.random() < 0.3:
            # Begins or ends at a page.
            at = -(-at // PAGE) * PAGE + rng.choice((0, -size % PAGE, PAGE - 1))
        self.at = at + size
        assert self.at <= SPACE, "the operations of a round need more memory"
        data = rng.randbytes(size)
        (self.far if read else self.near).write(at, data)
        request: dict[str, Any] = {
            **self.a.towards(self.b), "r_key": self.far.r_key, "wr_id": number,
            "remote_addr": self.far.addr + at + SPACE * (not read),
        }  # fmt: skip
        if not read and size <= self.a.qp.max_inline > 32 and rng.random() < 0.7:
            request["inline"] = data
        elif size:
            request["sges"] = [Sge(self.near.addr + at + SPACE * read, size, self.near.l_key)]
        if imm:
            request["imm"] = number
        wr = RdmaWr(**{**request, **values})
        if change is None:
            (self.a.qp.post_read if read else self.a.qp.post_write)(wr)
        else:
            post_changed(self.a.qp, op, wr, change)
        return number

    def send(self, size: int) -> None:
        """Sends a message."""
        number, slot = self._next((STATUS.OK,)), self.slot
        self.slot += 1
        inline = size <= min(32, self.a.qp.max_inline) and self.rng.random() < 0.5
        self.a.send(self.b, self.rng.randbytes(size), wr_id=number, offset=slot * SLOT_BYTES,
                    inline=inline, imm=number)  # fmt: skip

    def _next(self, statuses: Sequence[int]) -> int:
        self.number += 1
        self.open[self.number] = set(statuses)
        return self.number

    def receive(self, count: int = SLOTS) -> None:
        """Posts receives for messages and immediates, until so many are posted."""
        for number in range(self.receives, self.receives + count - self.posted):
            slot = number % SLOTS
            self.b.receive(MESSAGE_BYTES, wr_id=slot, offset=slot * SLOT_BYTES)
            self.receives += 1
        self.posted = count

    def received(self) -> None:
        """Takes the completions of receives."""
        for one in self.b.cq.poll_array():
            assert one["status"] == STATUS.OK, f"receive: status {one['status']}"
            self.posted -= not one["unsolicited"]

    def any_of(self, sizes: Sequence[int] = SIZES) -> None:
        """Posts a valid operation or a send."""
        kind = self.rng.choice(("send", "read", "read", "write", "write", "immediate"))
        if kind == "send":
            self.send(self.rng.choice((*SMALL, PAGE, 2 * PAGE, MESSAGE_BYTES)))
        else:
            op = READ if kind == "read" else WRITE
            self.rdma(op, self.rng.choice(sizes), kind == "immediate")

    def request_events(self) -> None:
        """Arms the completion queues, if they have an event queue."""
        if self.events:
            self.a.cq.req_notify()
            self.b.cq.req_notify()

    def finish(self) -> None:
        """Waits for the completions of all operations; each comes once with a permitted status."""
        while self.open:
            for one in self.a.cq.wait_for(1, **PATIENCE):
                number, status = int(one["wr_id"]), int(one["status"])
                assert number in self.open, f"operation {number} completed twice"
                permitted = self.open.pop(number)
                assert status in permitted, f"operation {number}: status {status}, not {permitted}"


def post_changed(qp: QueuePair, op: int, wr: RdmaWr, change: Callable[[Any], None]) -> None:
    """Posts the WQE of an operation that has one local range, after a change."""
    [local] = wr.sges
    meta = meta_desc(ah=wr.ah, dest_qp_num=wr.dest_qp, qkey=wr.qkey, length=1)
    meta.op_type = op
    entry = qp.wqe(meta=meta)
    rdma = entry.data.rdma_req
    rdma.local_mem = [{"lkey": local.l_key, **range_of(local.addr, local.length)}]
    rdma.remote_mem = {"rkey": wr.r_key, **range_of(wr.remote_addr, local.length)}
    change(entry)
    wqes = np.frombuffer(entry.pack(), qp.wqe.DTYPE).copy()
    qp.post_wqes(wqes, np.array([wr.wr_id], "u8"))


def range_of(address: int, length: int) -> dict[str, int]:
    """Returns the fields of a range of memory."""
    return {"length": length, "buf_addr_lo": address & 0xFFFF_FFFF, "buf_addr_hi": address >> 32}


def settle(backends: Sequence[Any], pairs: Sequence[Pair]) -> None:
    """Waits until the devices are idle, and takes the completions of all receives."""
    for backend in backends:
        backend.settle()
    for pair in pairs:
        pair.received()


def mixed(backends: Sequence[Any], rng: Random, rounds: int = 3, count: int = 8) -> None:
    """Sends, writes with and without immediate or inline bytes, and reads, of all sizes; on three
    queue pairs in each direction."""
    near, far = nodes_of(backends)
    pairs = [
        Pair(way[0], way[1], rng, *options)
        for way in ((near, far), (far, near))
        for options in (
            (32, False, False, 16), (INLINE, False, True, 32), (INLINE, True, False, 32),
        )
    ]  # fmt: skip
    for turn in range(rounds):
        for pair in pairs:
            pair.begin()
            pair.receive()
        for _ in range(count):
            for pair in pairs:
                pair.any_of()
        for pair in pairs:
            pair.request_events()
        if turn == 0:
            rng.choice(pairs).rdma(rng.choice((READ, WRITE)), rng.choice(LARGEST))
        for pair in pairs:
            pair.finish()
        settle(backends, pairs)


class Wrong(NamedTuple):
    """A refused operation: status of its completion, values of the work request, change of the WQE,
    and the operation if only one is refused so."""

    status: int
    values: dict[str, Any] = {}
    change: Callable[[Any], None] | None = None
    only: int | None = None


def wrong_operations(pair: Pair, size: int) -> list[Wrong]:
    """Returns one operation of `size` bytes for each kind of refusal."""
    near, far = pair.a.node, pair.b.node
    second = far.context.alloc_pd()
    foreign = second.reg_mr(40 * PAGE, access=ALL)
    no_read = far.pd.reg_mr(40 * PAGE, access=Access(local_write=True, remote_write=True))
    no_write = far.pd.reg_mr(40 * PAGE, access=Access(remote_read=True))
    fixed = near.pd.reg_mr(40 * PAGE, access=Access(local_write=False))
    gone = far.pd.reg_mr(40 * PAGE, ALL)
    gone_near = near.pd.reg_mr(40 * PAGE, ALL)
    cq = far.context.create_cq(8)
    unknown = second.create_qp(cq, cq, max_send_wr=4, max_recv_wr=4).to_rts(QKEY)
    near_foreign = near.context.alloc_pd()
    other_ah = near_foreign.create_ah(gid_of(far.backend.node_id))
    outside = near.pd.create_ah(bytes(range(16)))
    local, end = pair.near, pair.far.addr + 2 * SPACE
    address, lkey = STATUS.REMOTE_ERROR_BAD_ADDRESS, STATUS.LOCAL_ERROR_INVALID_LKEY
    internal = STATUS.LOCAL_ERROR_QP_INTERNAL_ERROR
    length, unsupported = STATUS.LOCAL_ERROR_BAD_LENGTH, STATUS.LOCAL_ERROR_UNSUPPORTED_OP
    cases = [
        Wrong(address, {"r_key": pair.far.r_key ^ 1 << bit}) for bit in (0, 9, 19, 24, 31)
    ]
    cases += [
        Wrong(address, {"remote_addr": pair.far.addr - 1}),
        Wrong(address, {"remote_addr": end - size + 1}),
        Wrong(address, {"remote_addr": (1 << 64) - 1}),
        Wrong(address, {"r_key": foreign.r_key, "remote_addr": foreign.addr}),
        Wrong(address, {"r_key": gone.r_key, "remote_addr": gone.addr}),
        Wrong(address, {"r_key": no_read.r_key, "remote_addr": no_read.addr}, only=READ),
        Wrong(address, {"r_key": no_write.r_key, "remote_addr": no_write.addr}, only=WRITE),
        Wrong(STATUS.REMOTE_ERROR_BAD_DEST_QPN, {"dest_qp": 0x7FFF}),
        Wrong(STATUS.REMOTE_ERROR_BAD_DEST_QPN, {"qkey": QKEY + 1}),
        Wrong(STATUS.REMOTE_ERROR_UNKNOWN_PEER, {"dest_qp": unknown.number}),
        Wrong(STATUS.LOCAL_ERROR_INVALID_AH, {"ah": other_ah.number}),
        Wrong(STATUS.LOCAL_ERROR_INVALID_AH, {"ah": 0xF0}),
        Wrong(STATUS.LOCAL_ERROR_UNREACH_REMOTE, {"ah": outside.number}),
        Wrong(lkey, {"sges": [Sge(local.addr, size, local.l_key ^ 1 << 19)]}),
        Wrong(lkey, {"sges": [Sge(local.addr + 2 * SPACE - size + 1, size, local.l_key)]}),
        Wrong(lkey, {"sges": [Sge(gone_near.addr, size, gone_near.l_key)]}),
        Wrong(lkey, {"sges": [Sge(fixed.addr, size, fixed.l_key)]}, only=READ),
        Wrong(unsupported, change=lambda wqe: setattr(wqe.meta, "op_type", 5)),
        Wrong(internal, change=lambda wqe: setattr(wqe.meta, "length", 2)),
        Wrong(internal, change=lambda wqe: setattr(wqe.meta, "comp_req", 0)),
        Wrong(internal, change=lambda wqe: setattr(wqe.meta, "inline_msg", 1), only=READ),
        Wrong(length, change=lambda wqe: shift_length(wqe, 1)),
        Wrong(length, change=lambda wqe: shift_length(wqe, -1)),
    ]
    near.driver.dereg_mr(gone_near.l_key)
    far.driver.dereg_mr(gone.l_key)
    return cases


def shift_length(wqe: Any, by: int) -> None:
    """Changes the length of the remote range only."""
    wqe.data.rdma_req.remote_mem.length += by


def refusals(backends: Sequence[Any], rng: Random, rounds: int = 2) -> None:
    """Refused operations of each kind and size between valid ones, all at once.

    With `rounds` 1, each refusal occurs in one of the two directions. A refused write with
    immediate consumes no receive.
    """
    near, far = nodes_of(backends)
    seed = rng.getrandbits(32)
    for direction, way in enumerate(((near, far), (far, near))):
        pair, other = Pair(*way, rng), Pair(*way, rng, INLINE)
        cases = {size: wrong_operations(pair, size) for size in (1, 2 * PAGE + 1, 40 * PAGE)}
        todo = [
            (op, size, case)
            for size, wrong in cases.items() for case in wrong for op in (READ, WRITE)
            if case.only in (None, op)
        ]  # fmt: skip
        if rounds == 1:
            # In the same order in both directions: what one leaves out, the other one has.
            Random(seed).shuffle(todo)
            todo = todo[direction::2]
        rng.shuffle(todo)
        while todo:
            for one in (pair, other):
                one.begin()
                one.receive()
            for _ in range(2):
                for op, size, case in todo[:2]:
                    imm = op == WRITE and case.change is None and rng.random() < 0.5
                    pair.rdma(op, size, imm, (case.status,), case.change, **case.values)
                del todo[:2]
                pair.any_of((*SMALL, 3 * PAGE))
                other.any_of((*SMALL, 2 * PAGE))
            for one in (pair, other):
                one.finish()
            settle(backends, (pair, other))
        pair.begin()
        pair.rdma(
            WRITE, LONG, statuses=(STATUS.REMOTE_ERROR_BAD_ADDRESS,), r_key=pair.far.r_key ^ 2
        )
        pair.finish()
        datagrams = Endpoint(way[0], UD, depth=4)
        for post in (datagrams.qp.post_read, datagrams.qp.post_write):
            post(RdmaWr(
                **datagrams.towards(pair.b), remote_addr=pair.far.addr, r_key=pair.far.r_key,
                sges=[Sge(pair.near.addr, 8, pair.near.l_key)]))  # fmt: skip
        for one in datagrams.cq.wait_for(2, **PATIENCE):
            assert one["status"] == STATUS.LOCAL_ERROR_UNSUPPORTED_OP


def statistics(backends: Sequence[Any], rng: Random, rounds: int = 2) -> None:
    """Reads the statistics of both devices after sends, reads and writes, valid and refused."""
    near, far = nodes_of(backends)
    pair = Pair(near, far, rng)
    for _ in range(rounds):
        pair.begin()
        pair.receive()
        for _ in range(6):
            pair.send(rng.choice(SMALL))
            for op in (READ, WRITE):
                pair.rdma(op, rng.choice(SIZES), imm=op == WRITE and rng.random() < 0.5)
                pair.rdma(op, 5 * PAGE, statuses=(STATUS.REMOTE_ERROR_BAD_ADDRESS,), r_key=7)
        pair.finish()
        settle(backends, (pair,))
        for node in (near, far):
            for kind in STATISTICS:
                node.driver.get_stats(kind)


def not_ready(backends: Sequence[Any], rng: Random, rounds: int = 2) -> None:
    """Writes with immediate wait for their receives, or end with RNR after as many retries as the
    queue pair has; operations without an immediate wait for none."""
    near, far = nodes_of(backends)
    patient, hasty, back = Pair(near, far, rng), Pair(near, far, rng), Pair(far, near, rng)
    hasty.a.qp.modify(STATE.RTS, rnr_retry=2)
    for _ in range(rounds):
        for pair in (patient, hasty, back):
            pair.begin()
        sizes = [rng.choice(SIZES) for _ in range(5)]
        for size in sizes:
            patient.rdma(WRITE, size, imm=True)
            hasty.rdma(WRITE, size, imm=True, statuses=(STATUS.REMOTE_ERROR_RNR,))
            for pair in (hasty, back):
                pair.rdma(rng.choice((READ, WRITE)), rng.choice(SIZES))
        for pair in (hasty, back):
            pair.finish()
        backends[0].pause(back_off(backends[0], rng))
        patient.receive(len(sizes))
        patient.finish()
        settle(backends, (patient, hasty, back))


def regions_go(backends: Sequence[Any], rng: Random, rounds: int = 12) -> None:
    """Deregisters a region of either side while operations use it: each operation completes once,
    with OK or the error of its region; operations on other regions complete with OK."""
    near, far = nodes_of(backends)
    lasting = Pair(near, far, rng)
    lasting.receive()
    for turn in range(rounds):
        pair = Pair(near, far, rng)
        for one in (pair, lasting):
            one.begin()
        remote = turn % 2 == 0
        error = STATUS.REMOTE_ERROR_BAD_ADDRESS if remote else STATUS.LOCAL_ERROR_INVALID_LKEY
        for _ in range(6):
            op = rng.choice((READ, WRITE))
            pair.rdma(op, rng.choice((5000, 20_000, 70_000)), statuses=(STATUS.OK, error))
            lasting.rdma(rng.choice((READ, WRITE)), rng.choice((*SMALL, 3 * PAGE)))
        for node in (near, far):
            node.context.enter_kernel()
        backends[0].pause(rng.randrange(rng.choice((500, 2000, 5000))))
        if remote:
            far.driver.dereg_mr(pair.far.l_key)
        else:
            near.driver.dereg_mr(pair.near.l_key)
        pair.finish()
        lasting.finish()
        settle(backends, (lasting,))
        pair.a.qp.destroy()
        pair.b.qp.destroy()
