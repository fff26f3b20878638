# SPDX-License-Identifier: Apache-2.0
"""Gives every field of descriptors, packets and addresses any value that it can have."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from efa_cosim.host.alloc import PAGE_BYTES, HostAllocator
from efa_cosim.host.completion_counter import SENDS
from efa_cosim.host.driver import Driver
from efa_cosim.host.endpoints import SRD, UD, Endpoint, Node, pattern
from efa_cosim.host.verbs import Context, gid_of
from efa_cosim.layouts import defs
from efa_cosim.transport.sender import REFUSALS
from tb.lib.at_once import at_once
from tb.scenarios.peer import SILENT, Peer, await_quiet_end
from tb.scenarios.send import exchange

if TYPE_CHECKING:
    from random import Random

OPCODE = defs.PktOpcode
PEERS = 32  # invented nodes, the lower half
LINE_BYTES, WINDOW_BYTES = 64, 1 << 25
# With 1,024 queue pairs a number has 6 bits that count the queue pairs before. All are set after:
EARLIER_QPS = (1 << 6) - 1
COUNTED = 24  # processes with a completion counter
LONGEST_MODERATION = (1 << 16) - 1  # cycles
LATENCIES = 2000  # cycles


def each_handle_again(
    backends: Sequence[Any], _rng: Random, times: int = 17, rounds: int | None = None
) -> None:
    """Creates and destroys all address handles of the device, more often than a handle has
    generations.

    With `rounds`, so many times are of all handles; the others are of those of one PD.
    """
    node = Node(backends[0])
    driver, most = node.driver, 1 << defs.LIMITS.ah_w
    pds = [node.pd.number, *(node.context.alloc_pd().number for _ in range(most // PEERS - 1))]
    all_of_them = [(pd, gid_of(peer)) for pd in pds for peer in range(PEERS)]
    for turn in range(times):
        wanted = all_of_them if rounds is None or times - turn <= rounds else all_of_them[:PEERS]
        handles = [response.ah for response in in_turn(driver, [
            defs.AdminCreateAhCmd(pd=pd, dest_addr=gid) for pd, gid in wanted])]  # fmt: skip
        # The device gives the lowest free handle.
        assert sorted(handles) == list(range(len(wanted)))
        in_turn(driver, [defs.AdminDestroyAhCmd(ah=number, pd=pd)
                         for number, (pd, _) in zip(handles, wanted, strict=True)])  # fmt: skip


def in_turn(driver: Driver, commands: Sequence[Any], at_once: int = 16) -> list[Any]:
    """Submits commands, some at once; returns their responses."""
    responses = []
    for first in range(0, len(commands), at_once):
        some = [driver.submit(command) for command in commands[first : first + at_once]]
        responses += [driver.finish(command) for command in some]
    return responses


class Lines(HostAllocator):
    """Allocates anywhere below 2^64; with `inside`, blocks begin at any 64-byte line of a page."""

    inside = False

    def __init__(self, memory: Any, seed: int) -> None:
        # A window without fixed bits, so that all bits above it are drawn.
        super().__init__(memory, PAGE_BYTES, WINDOW_BYTES - PAGE_BYTES, seed, address_bits=64)
        self._lines = random.Random(seed)

    def alloc(self, size: int, zero: bool = True) -> int:
        if not self.inside:
            return super().alloc(size, zero)
        at = LINE_BYTES * self._lines.randrange(PAGE_BYTES // LINE_BYTES)
        return super().alloc(size + PAGE_BYTES, zero) + at

    def free(self, address: int) -> None:
        super().free(address - address % PAGE_BYTES)


def messages_with_any_values(
    backends: Sequence[Any],
    rng: Random,
    processes: int = 48,
    rounds: int = 6,
    spare: int = 40,
) -> None:
    """Exchanges messages of any size between queue pairs of many processes, with any request id,
    immediate and Q_Key; rings and buffers lie anywhere below 2^64.

    Each process has up to `spare` CQs besides its own, some have a completion counter, and some
    queue pair numbers were in use before.
    """
    backend = backends[0]
    allocator = Lines(backend.memory, rng.randrange(1 << 30))
    node = Node(backend, allocator=allocator)
    most, ends, counters = 8000, [], []
    earlier = node.context.create_cq(4)
    for _ in range(EARLIER_QPS):
        create = partial(node.pd.create_qp, earlier, earlier, SRD)
        qps = at_once(node.driver, [create] * 4)
        at_once(node.driver, [qp.destroy for qp in qps])
    earlier.destroy()
    room = node.driver.queue_attr.max_cq // processes - 1
    for number in range(processes):
        context = Context(node.driver, seed=number)
        spared = rng.randrange(min(spare, room))
        at_once(node.driver, [partial(context.create_cq, 4)] * spared)
        pd = context.alloc_pd()
        cq = context.create_cq(64, entry_bytes=32)
        kind, qkey = rng.choice((UD, SRD)), rng.getrandbits(32)
        allocator.inside = True
        qp = pd.create_qp(cq, cq, kind, max_send_wr=1 << rng.randrange(2, 7),
                          max_recv_wr=1 << rng.randrange(2, 7)).to_rts(qkey)  # fmt: skip
        allocator.inside = False
        buffer = pd.reg_mr(2 * most, scattered=True)
        ends.append((qp, cq, buffer, qkey, pd.create_ah(gid_of(backend.node_id)).number))
        if number < COUNTED:
            counters.append(context.create_counter())
            counters[-1].attach(qp, SENDS)
    for _ in range(rounds):
        for qp, cq, buffer, qkey, handle in ends:
            skip = defs.LIMITS.grh_bytes if qp.kind == UD else 0
            size = rng.randrange(1, 4000)
            buffer.write(0, pattern(size, size))
            ids = np.array([rng.getrandbits(48)], "u8")
            qp.post_recv_many([rng.getrandbits(16)], buffer.addr + most, size + skip, buffer.l_key)
            qp.post_send_many(ids, ah=handle, dest_qp=qp.number, qkey=qkey,
                              imm=rng.getrandbits(32),
                              sges=[(buffer.addr, size, buffer.l_key)])  # fmt: skip
            done = cq.wait_for(2)
            assert not done["status"].any()
            assert buffer.read(most + skip, size) == pattern(size, size)
    for counter in counters:
        # The default binds this counter; mypy infers no lambda with defaults.
        node.driver.wait(lambda counter=counter: counter.value == rounds)  # type: ignore[misc]


def any_header(backends: Sequence[Any], rng: Random, count: int = 4000) -> None:
    """Receives packets of an untrusted peer: any header, or one to an own queue pair with any
    values. The receives have valid or any descriptors. Messages between other queue pairs arrive.
    """
    backend = backends[0]
    node = Node(backend)
    await_quiet_end(backend)
    ends = []
    for kind in (UD, SRD, SRD):
        cq = node.context.create_cq(1024)
        qkey = rng.getrandbits(32)
        ends.append((node.pd.create_qp(cq, cq, kind, max_recv_wr=512).to_rts(qkey), cq, qkey))
    buffer = node.pd.reg_mr(1 << 16)
    for number in range(count):
        qp, cq, qkey = rng.choice(ends)
        if rng.random() < 0.5 and qp.rq.outstanding < 256:
            valid = buffer.addr, 4096, buffer.l_key
            drawn = tuple(rng.getrandbits(bits) for bits in (64, 16, 24))
            qp.post_recv_many([rng.getrandbits(16)], *rng.choice((valid, drawn)))
        backend.inject(packet(rng, qp, qkey, backend.node_id, number))
        if number % 64 == 63:
            backend.settle()
            for _, one, _ in ends:
                one.poll_array()
    exchange(Endpoint(node), Endpoint(node), b"arrives")


def longest_moderation(backends: Sequence[Any], _rng: Random) -> None:
    """Checks that interrupts of commands are the longest time of moderation apart, within a few
    latencies of the host."""
    backend = backends[0]
    driver, ended = Driver(backend).probe(), []
    backend.link.native.knobs(backend.device, moderation=LONGEST_MODERATION)
    for _ in range(2):
        driver.execute(defs.AdminAllocPdCmd())
        ended.append(backend.cycles)
    assert abs(ended[1] - ended[0] - LONGEST_MODERATION) < LATENCIES


def any_acknowledgement(backends: Sequence[Any], rng: Random, sends: int = 48) -> None:
    """Accepts and refuses sends, with any reason: each completes once, with the status that came.
    """
    backend = backends[0]
    node, peer = Node(backend), Peer(backend)
    end = Endpoint(node)
    backend.link.record = True
    end.qp.post_send_many(range(sends), ah=node.ah_of(SILENT), dest_qp=5, qkey=1, inline=b"a")
    backend.settle()
    session = defs.SrdHdr.unpack(backend.packets()[0]).session
    statuses = sorted(REFUSALS - {defs.IoCompStatus.REMOTE_ERROR_ABORT})
    given = [rng.choice((0, *statuses)) for _ in range(sends)]
    for psn, status in enumerate(given):
        peer.acknowledge(session, psn if status else psn + 1, status)
        backend.settle()
    done = end.cq.wait_for(sends)
    assert list(done["wr_id"]) == list(range(sends)) and not len(end.cq.poll_array())
    assert list(done["status"]) == given


def packet(rng: Random, qp: Any, qkey: int, node_id: int, number: int) -> bytes:
    """Draws a packet of a peer; `number` is that of the packet.

    Most SRD packets are in sessions of their own, with a header that the transport accepts.
    """
    if rng.random() < 0.2:
        return rng.randbytes(1 + rng.randrange(3 * defs.PktHdr.SIZE))
    length = rng.choice((0, rng.randrange(64), rng.randrange(3000)))
    opcode = rng.choice((OPCODE.SRD_ACK, OPCODE.UD_SEND, OPCODE.SRD_SEND, OPCODE.SRD_SEND))
    data = b"" if opcode == OPCODE.SRD_ACK else rng.randbytes(length)
    if opcode == OPCODE.SRD_SEND and rng.random() < 0.8:
        sources = [node for node in range(1 << defs.LIMITS.node_w) if node != node_id]
        srd = defs.SrdHdr(
            opcode=opcode, length=len(data), flags=rng.getrandbits(1), src_qpn=rng.getrandbits(16),
            dst_qpn=qp.number if rng.random() < 0.9 else rng.getrandbits(16),
            qkey=qkey if rng.random() < 0.9 else rng.getrandbits(32),
            psn=rng.getrandbits(32), behind=rng.getrandbits(8), session=1 + number,
            path=rng.getrandbits(3), imm=rng.getrandbits(32), src_node=rng.choice(sources),
            dst_node=node_id,
        )  # fmt: skip
        return srd.pack() + data
    header = defs.PktHdr(
        opcode=opcode, length=len(data), flags=rng.getrandbits(8), src_qpn=rng.getrandbits(16),
        dst_qpn=qp.number if rng.random() < 0.9 else rng.getrandbits(16),
        qkey=qkey if rng.random() < 0.9 else rng.getrandbits(32), psn=rng.getrandbits(32),
        msg_id=rng.getrandbits(32), imm=rng.getrandbits(32), src_node=rng.getrandbits(16),
        dst_node=node_id, path=rng.getrandbits(8), status=rng.getrandbits(8),
        reserved=rng.getrandbits(16),
    )  # fmt: skip
    return header.pack() + data
