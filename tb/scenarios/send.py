# SPDX-License-Identifier: Apache-2.0
"""Runs the send path: sizes and forms, every send completion status, foreign stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from efa_cosim.host.endpoints import QKEY, SRD, UD, Endpoint, Node, create_all_handles, pattern
from efa_cosim.host.wc import POLICIES
from efa_cosim.layouts import defs
from efa_cosim.layouts.codec import set_column

if TYPE_CHECKING:
    from random import Random

STATUS = defs.IoCompStatus
OP = defs.IoSendOpType
SIZES = (0, 1, 31, 32, 33, 63, 64, 65, 96, 97, 255, 512, 1000, 2048, 4000, 4096)


def exchange(a: Endpoint, b: Endpoint, data: bytes, **how: Any) -> tuple[Any, Any]:
    """Sends one message from a to b; returns both completions."""
    b.receive(len(data), wr_id=1)
    a.send(b, data, wr_id=2, **how)
    got = b.cq.wait_for(1)[0]
    sent = a.cq.wait_for(1)[0] if a.cq is not b.cq else got
    assert (got["status"], sent["status"]) == (STATUS.OK, STATUS.OK)
    assert got["byte_len"] == b.skip + len(data)
    assert b.buffer.read(b.skip, len(data)) == data
    return got, sent


def every_size(backends: Sequence[Any], rng: Random) -> None:
    """Sends UD and SRD from one and two buffers, at odd addresses, with and without immediate."""
    node = Node(backends[0])
    for kind in (UD, SRD):
        a, b = Endpoint(node, kind), Endpoint(node, kind)
        for turn, size in enumerate(SIZES):
            split = rng.randrange(size + 1) if turn % 2 else None
            exchange(a, b, pattern(size, turn), offset=8192 * 2 - rng.randrange(100),
                     split=split, imm=turn if turn % 3 else None)  # fmt: skip


def inline_forms(backends: Sequence[Any], _rng: Random) -> None:
    """Sends inline data up to 32 bytes in 64-byte WQEs and up to 80 bytes in 128-byte WQEs."""
    node = Node(backends[0])
    for max_inline in (32, 80):
        for kind in (UD, SRD):
            a, b = Endpoint(node, kind, max_inline=max_inline), Endpoint(node, kind)
            for size in (0, 1, 31, 32, *([33, 64, 79, 80] if max_inline > 32 else [])):
                exchange(a, b, pattern(size, size), inline=True, imm=size)
            exchange(a, b, pattern(700, 1), split=300)


def store_buffers(backends: Sequence[Any], _rng: Random) -> None:
    """Stores WQEs in the pieces and orders of each CPU store buffer policy."""
    for seed, policy in enumerate(POLICIES):
        node = Node(backends[0], policy, seed=seed)
        a, b = Endpoint(node, max_inline=80), Endpoint(node)
        for turn in range(12):
            exchange(a, b, pattern(60, turn), inline=True)
        backends[0].settle()


def two_devices(backends: Sequence[Any], rng: Random) -> None:
    """Exchanges messages between two devices in both directions at once."""
    nodes = [Node(backend, seed=7 + n) for n, backend in enumerate(backends)]
    create_all_handles(nodes)
    for kind in (UD, SRD):
        a, b = (Endpoint(node, kind) for node in nodes)
        for turn in range(20):
            size = rng.choice(SIZES)
            for right in (a, b):
                right.receive(size, wr_id=turn, offset=100_000)
            for left, right in ((a, b), (b, a)):
                left.send(right, pattern(size, turn), wr_id=turn, offset=turn)
            for side in (a, b):
                done = side.cq.wait_for(2)
                assert set(done["status"]) == {STATUS.OK}
            assert a.buffer.read(100_000 + a.skip, size) == pattern(size, turn)


def batches(backends: Sequence[Any], rng: Random) -> None:
    """Posts many WQEs per doorbell on several queues; rings wrap within a batch."""
    node = Node(backends[0])
    ends = [Endpoint(node, depth=1 << rng.randrange(2, 7)) for _ in range(6)]
    for _ in range(15):
        for end in ends:
            peer = rng.choice(ends)
            count = rng.randrange(1, end.depth)
            ids = np.arange(count)
            base = peer.buffer.addr
            batch = min(count, peer.depth - 1)
            peer.qp.post_recv_many(ids[:batch], base + 64 * ids[:batch], 64, peer.buffer.l_key)
            values = {**end.towards(peer), "inline": pattern(24, count)}
            end.qp.post_send_many(ids[:batch], **values)
            done = 0
            while done < batch:
                done += len(end.cq.wait_for(1))
            if peer is not end:
                peer.cq.wait_for(batch)
            else:
                end.cq.wait_for(batch)
            backends[0].settle()


def raw(end: Endpoint, wqes: Any) -> list[Any]:
    """Posts WQEs of any content in one batch; returns their completion statuses in their order.

    Sends that are refused here complete before those that have reached the peer.
    """
    # Joined as bytes: numpy would change the layout of a dtype with unions.
    wqes = np.frombuffer(b"".join(wqe.tobytes() for wqe in wqes), end.qp.wqe.DTYPE).copy()
    # numpy's default integers are request ids, too.
    end.qp.post_wqes(wqes, np.arange(len(wqes)))  # type: ignore[arg-type]
    done = end.cq.wait_for(len(wqes))
    return [STATUS(int(s)) for s in done["status"][np.argsort(done["wr_id"])]]


def changed(end: Endpoint, wqe: Any, **fields: Any) -> Any:
    """Returns the WQEs with changed meta fields (or SGE fields, as sgl0_length)."""
    wqe = wqe.copy()
    for name, value in fields.items():
        if name.startswith("sgl"):
            index, field = int(name[3]), name[5:]
            if field == "lkey":
                wqe["data"]["sgl"][:, index]["lkey"] = value
            else:
                wqe["data"]["sgl"][:, index][field] = value
        else:
            set_column(end.qp.wqe, wqe, f"meta.{name}", np.full(len(wqe), value))
    return wqe


def local_errors(backends: Sequence[Any], _rng: Random) -> None:
    """Violates each check of a work request, in check order; the queue works after each."""
    node = Node(backends[0])
    foreign = node.context.alloc_pd()
    foreign_mr = foreign.reg_mr(8192)
    foreign_ah = node.driver.create_ah(foreign.number, node.driver.gid)
    outside = node.driver.create_ah(node.pd.number, bytes(16))
    for kind in (UD, SRD):
        a, b = Endpoint(node, kind), Endpoint(node, kind)
        to = a.towards(b)
        piece = (a.buffer.addr, 64, a.buffer.l_key)
        good = a.qp.sends(1, **to, sges=[piece, piece])
        inline = a.qp.sends(1, **to, inline=b"abc")
        internal = STATUS.LOCAL_ERROR_QP_INTERNAL_ERROR
        lkey = STATUS.LOCAL_ERROR_INVALID_LKEY
        cases = [
            (internal, changed(a, good, meta_desc=0)), (internal, changed(a, good, first=0)),
            (internal, changed(a, good, last=0)), (internal, changed(a, good, comp_req=0)),
            (internal, changed(a, good, meta_extension=1)),
            (internal, changed(a, good, reserved25=1)), (internal, changed(a, good, reserved29=5)),
            (STATUS.LOCAL_ERROR_UNSUPPORTED_OP, changed(a, good, op_type=1)),
            (STATUS.LOCAL_ERROR_UNSUPPORTED_OP, changed(a, good, op_type=2)),
            (STATUS.LOCAL_ERROR_UNSUPPORTED_OP, changed(a, good, op_type=15)),
            (internal, changed(a, good, length=3)), (internal, changed(a, inline, length=33)),
            (STATUS.LOCAL_ERROR_INVALID_AH, changed(a, good, ah=foreign_ah)),
            (STATUS.LOCAL_ERROR_INVALID_AH, changed(a, good, ah=0xFFFF)),
            (STATUS.LOCAL_ERROR_INVALID_AH, changed(a, good, ah=77)),
            (STATUS.LOCAL_ERROR_BAD_LENGTH, changed(a, good, sgl0_length=4033)),
            (STATUS.LOCAL_ERROR_BAD_LENGTH, changed(a, good, sgl1_length=0xFFFFFFFF)),
            (lkey, changed(a, good, sgl0_lkey=0)), (lkey, changed(a, good, sgl1_lkey=0x12345)),
            # The address is inside that region, so that only the protection domain is wrong.
            (lkey, changed(a, good, sgl0_lkey=foreign_mr.l_key,
                           sgl0_buf_addr_lo=foreign_mr.addr & 0xFFFFFFFF,
                           sgl0_buf_addr_hi=foreign_mr.addr >> 32)),
            (lkey, changed(a, good, sgl1_buf_addr_hi=0xFFFFFFFF)),
            (lkey, changed(a, good, sgl0_buf_addr_lo=(a.buffer.addr - 1) & 0xFFFFFFFF)),
        ]  # fmt: skip
        if kind == SRD:
            cases.append((STATUS.LOCAL_ERROR_UNREACH_REMOTE, changed(a, good, ah=outside)))
        assert raw(a, [wqe for _, wqe in cases]) == [status for status, _ in cases]
        exchange(a, b, b"still alive")
        if kind == UD:
            assert raw(a, [changed(a, inline, ah=outside)]) == [STATUS.OK]


def stores_of_others(backends: Sequence[Any], _rng: Random) -> None:
    """Rings doorbells through foreign pages, for invalid queues and beyond the ring."""
    node = Node(backends[0])
    driver, backend = node.driver, backends[0]
    other_uar = driver.alloc_uar()
    a, b = Endpoint(node), Endpoint(node)
    page = defs.LIMITS.db_page_bytes
    own = a.qp.sq_db
    one = (1).to_bytes(4, "little")
    for offset in (
        own + page * (other_uar - node.context.uar),
        own + 8 * 40,
        a.qp.rq_db + page * 63,
        own % page + defs.LIMITS.db_cq_base + 4 * 90,
    ):
        backend.store(driver.db_bar, offset, one)
    backend.store(driver.db_bar, own, b"\x01\x00")
    exchange(a, b, b"unharmed")
    # Stores to LLQ memory without an owner, and partial dwords.
    backend.store(2, defs.LIMITS.llq_bytes - 64, bytes(64))
    backend.store(2, a.qp.llq + 1, b"\xff" * 3)
    exchange(a, b, b"unharmed still")
    # The device ignores doorbells of a queue in RESET.
    fresh = node.pd.create_qp(a.cq, a.cq, SRD)
    for offset in (fresh.sq_db, fresh.rq_db):
        backend.store(driver.db_bar, offset, one)
    backend.settle()
    assert fresh.query().qp_state == defs.AdminQpState.RESET
    # A receive doorbell beyond the ring breaks only that queue, which flushes its posted WQEs.
    c = Endpoint(node)
    c.receive(64, wr_id=5)
    backend.store(driver.db_bar, c.qp.rq_db, (1 + 64).to_bytes(4, "little"))
    assert c.cq.wait_for(1)[0]["status"] == STATUS.FLUSHED
    backend.settle()
    assert c.qp.query().qp_state == defs.AdminQpState.ERR
    # A send doorbell beyond the ring moves only that queue to ERR.
    backend.store(driver.db_bar, own, (a.qp.sq.produced + 65).to_bytes(4, "little"))
    backend.settle()
    assert a.qp.query().qp_state == defs.AdminQpState.ERR
    exchange(b, Endpoint(node), b"the others go on")


def request_ids(backends: Sequence[Any], rng: Random) -> None:
    """Checks that completions return request ids of 64 or 16 bits, for any send status."""
    node = Node(backends[0])

    def post(end: Endpoint, **values: Any) -> None:
        wqes = end.qp.sends(3, inline=b"named", **values)
        # numpy's default integers are request ids, too.
        end.qp.name(wqes, np.arange(3))  # type: ignore[arg-type]
        if not end.qp.long_ids:
            # Reserved bits: the library checks that completions do not return them.
            wqes["meta"]["req_id_ex"]["w"] = [rng.getrandbits(16) for _ in range(3)]
        end.context.provider.post(end.qp, wqes)
        end.context.push()

    def ended(end: Endpoint, *statuses: Any) -> None:
        assert set(end.cq.wait_for(3)["status"]) == set(statuses)

    for kind, sent in ((UD, STATUS.OK), (SRD, STATUS.REMOTE_ERROR_RNR)):
        for long_ids in (True, False):
            for entry_bytes in (16, 32):
                a = Endpoint(node, kind, depth=4, entry_bytes=entry_bytes, long_ids=long_ids)
                b = Endpoint(node, kind)
                exchange(a, b, b"named", inline=True)
                post(a, **a.towards(b))
                ended(a, sent)
                post(a, **{**a.towards(b), "ah": 0xFFFE})
                ended(a, STATUS.LOCAL_ERROR_INVALID_AH)
                a.qp.modify(defs.AdminQpState.SQD)
                post(a, **a.towards(b))
                a.qp.modify(defs.AdminQpState.ERR)
                ended(a, STATUS.FLUSHED)


def incomplete_entry(backends: Sequence[Any], _rng: Random) -> None:
    """Posts a WQE with a missing dword: an internal error breaks its queue, no packet leaves."""
    node = Node(backends[0])
    driver, backend = node.driver, backends[0]
    for missing in (0, 5, 6, 7, 15):
        a, b = Endpoint(node), Endpoint(node)
        wqe = a.qp.sends(1, **a.towards(b), inline=b"torn")
        a.qp.name(wqe, np.array([9]))
        image = wqe.tobytes()
        for dword in range(16):
            if dword != missing:
                at = 4 * dword
                backend.store(2, a.qp.llq + at, image[at : at + 4])
        backend.store(driver.db_bar, a.qp.sq_db, (1).to_bytes(4, "little"))
        backend.settle()
        assert a.qp.query().qp_state == defs.AdminQpState.ERR


def posted_slot_is_closed(backends: Sequence[Any], _rng: Random) -> None:
    """Stores to posted slots in SQD: that queue breaks, others work."""
    state = defs.AdminQpState
    node = Node(backends[0])
    backend = backends[0]
    for slot, dwords in ((0, 1), (2, 16), (3, 2)):
        a, b = Endpoint(node, depth=4), Endpoint(node)
        exchange(a, b, b"goes out")
        # In SQD the device consumes no further WQE, so these slots are pending.
        a.qp.modify(state.SQD)
        for turn in range(4):
            a.send(b, pattern(20, turn), wr_id=turn, inline=True)
        backend.settle()
        assert a.qp.query().qp_state == state.SQD and not len(a.cq.poll_array())
        backend.store(2, a.qp.llq + 64 * slot, bytes(4 * dwords))
        assert set(a.cq.wait_for(4)["status"]) == {STATUS.FLUSHED}
        backend.settle()
        assert a.qp.query().qp_state == state.ERR
        exchange(Endpoint(node), b, b"the others go on")


def drained_and_flushed(backends: Sequence[Any], _rng: Random) -> None:
    """Holds sends in SQD, sends them in RTS, flushes in ERR, clears in RESET."""
    state = defs.AdminQpState
    node = Node(backends[0])
    a, b = Endpoint(node), Endpoint(node)
    for turn in range(4):
        b.receive(64, wr_id=turn)
    a.qp.modify(state.SQD)
    a.send(b, b"later", wr_id=1, inline=True)
    backends[0].settle()
    assert a.qp.query().sq_draining == 0 and not len(a.cq.poll_array())
    a.qp.modify(state.RTS)
    assert a.cq.wait_for(1)[0]["status"] == STATUS.OK
    b.cq.wait_for(1)
    a.qp.modify(state.SQD)
    a.send(b, b"never", wr_id=2, inline=True)
    a.receive(64, wr_id=3)
    a.receive(64, wr_id=4)
    a.qp.modify(state.ERR)
    flushed = a.cq.wait_for(3)
    assert set(flushed["status"]) == {STATUS.FLUSHED} and flushed["receive"].sum() == 2
    a.qp.modify(state.RESET)
    a.qp.to_rts(QKEY)
    exchange(a, b, b"as new")
    backends[0].settle()


def payload_read_fails(backends: Sequence[Any], _rng: Random, responded: bool = True) -> None:
    """Fails a payload read: its work request ends with an error, that queue breaks, others work.

    With responded=False the read gets no response.
    """
    node = Node(backends[0])
    a, b, c = Endpoint(node), Endpoint(node), Endpoint(node)
    page = next(iter(a.buffer.pieces(0, 64)))[0] & ~4095
    backends[0].fail_reads(page, 4096, responded)
    b.receive(64)
    a.send(b, pattern(64, 1))
    assert a.cq.wait_for(1)[0]["status"] == STATUS.LOCAL_ERROR_QP_INTERNAL_ERROR
    backends[0].settle()
    assert a.qp.query().qp_state == defs.AdminQpState.ERR
    exchange(c, b, b"goes on")


def payload_read_is_lost(backends: Sequence[Any], rng: Random) -> None:
    """Drops the response of a payload read; see payload_read_fails."""
    payload_read_fails(backends, rng, responded=False)


def recreated_in_traffic(backends: Sequence[Any], rng: Random) -> None:
    """Reuses a QP number while another queue completes: the new QP has all its credit."""
    node = Node(backends[0])
    busy, peer = Endpoint(node, UD, depth=256), Endpoint(node, UD)
    absent = {**busy.towards(peer), "dest_qp": 0xFFF0}
    for turn in range(8):
        old = Endpoint(node, UD, depth=4)
        old.qp.post_send_many(range(3), **{**old.towards(peer), "dest_qp": 0xFFF0, "inline": b"x"})
        assert set(old.cq.wait_for(3)["status"]) == {STATUS.OK}
        # The destruction of the old queue and the creation of the new one both clear its counts.
        busy.qp.post_send_many(range(rng.randrange(60, 120)), **absent, inline=pattern(20, turn))
        old.qp.destroy()
        busy.qp.post_send_many(range(rng.randrange(60, 120)), **absent, inline=pattern(20, turn))
        new = Endpoint(node, UD, depth=4, cq=old.cq)
        new.qp.post_send_many(range(4), **{**new.towards(peer), "dest_qp": 0xFFF0, "inline": b"y"})
        assert set(new.cq.wait_for(4)["status"]) == {STATUS.OK}
        busy.cq.wait_for(busy.qp.sq.outstanding)
        new.qp.destroy()
    backends[0].settle()


def flushes_during_drains(backends: Sequence[Any], rng: Random) -> None:
    """Flushes queues while commands wait for a drain of the engines; all of them end."""
    node = Node(backends[0])
    state, driver = defs.AdminQpState, node.driver
    for turn in range(6):
        ends = [Endpoint(node, depth=8) for _ in range(4)]
        gone = [node.context.create_cq(4) for _ in ends]
        for end in ends:
            end.qp.modify(state.SQD)
            for number in range(4):
                end.send(ends[0], pattern(20, number), wr_id=number, inline=True)
        backends[0].settle()
        commands = []
        for end, cq in zip(ends, gone, strict=True):
            # A store to a posted slot breaks the queue; the command needs a drain of everything.
            backends[0].store(2, end.qp.llq + 64 * rng.randrange(4), bytes(4))
            commands.append(driver.submit(defs.AdminDestroyCqCmd(cq_idx=cq.number)))
        for end in ends:
            assert set(end.cq.wait_for(4)["status"]) == {STATUS.FLUSHED}
        # The default binds this list; mypy infers no lambda with defaults.
        driver.wait(lambda given=commands: all(command.done for command in given))  # type: ignore[misc]
        assert {command.status for command in commands} == {0}, turn
        for end in ends:
            end.qp.destroy()
            end.cq.destroy()
    a, b = Endpoint(node), Endpoint(node)
    exchange(a, b, b"all others go on")
