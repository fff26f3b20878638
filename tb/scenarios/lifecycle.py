# SPDX-License-Identifier: Apache-2.0
"""Ends device sessions at random moments in every possible way; no output may follow an end.

At its end each session has commands, data, events and interrupts in flight. After the end host
memory stays unchanged, no message leaves, and the next driver finds a new device.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from efa_cosim.host.alloc import PAGE_BYTES
from efa_cosim.host.driver import FLAVOURS
from efa_cosim.host.endpoints import QKEY, UD, Endpoint, Node, pattern
from efa_cosim.host.queue_pair import Sge
from efa_cosim.layouts import defs
from tb.scenarios.peer import SILENT, Peer
from tb.scenarios.send import changed, exchange, raw

if TYPE_CHECKING:
    from random import Random

REASONS = tuple(defs.RegsResetReasonTypes)
QUIET_CYCLES = 3000
OPCODE = defs.PktOpcode
FINISHED = defs.REG_BITS.DEV_STS.pack(RESET_FINISHED=1)
NO_HANDLE = 0xFFFF  # AH of an unknown sender, in a completion


@dataclass
class SessionKnobs:
    """Sets the number of sessions and the maximum cycles from work to end."""

    sessions: int = 12
    longest: int = 2500


def nothing_remains(backends: Sequence[Any], rng: Random) -> None:
    """Checks that keys and AHs from before a reset are refused after it; new objects work."""
    backend, status = backends[0], defs.IoCompStatus
    for end in (end_by_reset, end_by_flr):
        old = Node(backend)
        regions = [old.pd.reg_mr(4096) for _ in range(12)]
        gids = [old.driver.gid[:-2] + bytes([0, number]) for number in range(12)]
        handles = [old.driver.create_ah(old.pd.number, gid) for gid in gids]
        exchange(Endpoint(old), Endpoint(old), b"before")
        end(old, rng)
        node = Node(backend)
        a, b = Endpoint(node), Endpoint(node)
        exchange(a, b, b"as new")
        good = a.qp.sends(1, **a.towards(b), sges=[(a.buffer.addr, 64, a.buffer.l_key)])
        # The first of each number are in use again.
        keys = [changed(a, good, sgl0_lkey=one.l_key, sgl0_buf_addr_lo=one.addr & 0xFFFFFFFF,
                        sgl0_buf_addr_hi=one.addr >> 32) for one in regions[4:]]  # fmt: skip
        assert raw(a, keys) == [status.LOCAL_ERROR_INVALID_LKEY] * len(keys)
        peers = [changed(a, good, ah=handle) for handle in handles[4:]]
        assert raw(a, peers) == [status.LOCAL_ERROR_INVALID_AH] * len(peers)
        b.qp.post_recv([Sge(regions[5].addr, 64, regions[5].l_key)], wr_id=2)
        a.send(b, b"refused", inline=True)
        assert a.cq.wait_for(1)[0]["status"] == status.REMOTE_ERROR_BAD_STATUS
        assert b.cq.wait_for(1)[0]["status"] == status.LOCAL_ERROR_INVALID_LKEY
        exchange(a, b, b"goes on")
        node.driver.reset(REASONS[0])


def arrives(node: Any, end: Endpoint, opcode: int, data: bytes = b"", **fields: Any) -> None:
    """Injects a packet from a peer's queue pair 5 to an endpoint."""
    header = defs.PktHdr(opcode=opcode, length=len(data), dst_qpn=end.qp.number, src_qpn=5,
                         dst_node=node.backend.node_id, **fields)  # fmt: skip
    node.backend.inject(header.pack() + data)
    node.backend.settle()


def peers_of_an_earlier_session(backends: Sequence[Any], _rng: Random) -> None:
    """Checks that AHs from before a reset do not name the senders of later datagrams.

    A new AH of the peer is reported as soon as it exists.
    """
    backend, peers = backends[0], range(20, 32)
    old = Node(backend)
    for peer in peers:
        old.ah_of(peer)
    Endpoint(old)
    old.driver.reset(REASONS[0])
    node = Node(backend)
    end = Endpoint(node, UD)

    def sender(peer: int) -> int:
        """Returns the AH in the completion of a datagram from this peer."""
        end.receive(64)
        backend.settle()
        arrives(node, end, OPCODE.UD_SEND, b"peer", qkey=QKEY, src_node=peer)
        [done] = end.cq.poll_array()
        return done["ah"]

    assert [sender(peer) for peer in peers] == [NO_HANDLE] * len(peers)
    for peer in reversed(peers):
        assert sender(peer) == NO_HANDLE
        assert node.ah_of(peer) == sender(peer)


def sends(node: Node, count: int) -> Endpoint:
    """Returns a new endpoint with sends to SILENT, which never responds."""
    end = Endpoint(node)
    post(node, end, count)
    return end


def post(node: Node, end: Endpoint, count: int) -> None:
    """Posts sends of an endpoint to SILENT."""
    there = {"ah": node.ah_of(SILENT), "dest_qp": 5, "qkey": QKEY}
    end.qp.post_send_many(range(count), **there, inline=b"to nobody")
    node.backend.settle()


def completed(node: Node, end: Endpoint, sessions: Iterable[int], psn: int) -> int:
    """Returns the number of sends that acknowledgements of SILENT complete, one for each session.

    `psn` is the first packet that they do not acknowledge.
    """
    for session in sessions:
        Peer(node.backend).acknowledge(session, psn)
        node.backend.settle()
    return len(end.cq.poll_array())


def acknowledgements_of_an_earlier_session(backends: Sequence[Any], _rng: Random) -> None:
    """Checks that acknowledgements of sends before a reset complete no later send.

    The later sends use the same queue pair number and the same peer.
    """
    backend, most = backends[0], 64
    old = Node(backend)
    end = sends(old, 3)
    session = next(number for number in range(1, most) if completed(old, end, [number], 3))
    old.driver.reset(REASONS[0])
    new = Node(backend)
    end = sends(new, 3)
    assert completed(new, end, range(1, session + 1), 3) == 0
    assert completed(new, end, range(session + 1, most), 3) == 3


def acknowledgements_before_their_send(
    backends: Sequence[Any], _rng: Random, early: int = 32
) -> None:
    """Acknowledges a message before it is sent: only an acknowledgement that follows it counts.

    `early` acknowledgements are more than the device can store.
    """
    node, most = Node(backends[0]), 64
    end = sends(node, 1)
    session = next(number for number in range(1, most) if completed(node, end, [number], 1))
    assert completed(node, end, [session] * early, 2) == 0
    post(node, end, 1)
    assert len(end.cq.poll_array()) == 0
    assert completed(node, end, [session], 2) == 1


def counts_of_an_earlier_session(backends: Sequence[Any], rng: Random) -> None:
    """Checks that statistics begin at 0 after a reset, and that old queue pairs are gone.

    A datagram with a wrong Q_Key counts as a violation only if its queue pair is there.
    """
    backend, kinds = backends[0], defs.AdminGetStatsType
    for end in (end_by_reset, end_by_flr):
        node = Node(backend)
        a, b = Endpoint(node, UD), Endpoint(node, UD)
        exchange(a, b, b"before")
        for current, violations in ((node, 1), (None, 0)):
            if current is None:
                end(node, rng)
                node = Node(backend)
            arrives(node, b, OPCODE.UD_SEND, b"wrong key", qkey=QKEY ^ 1, src_node=20)
            basic, counted = node.driver.get_stats(), node.driver.get_stats(kinds.MESSAGES)
            messages = violations
            assert (basic.tx_pkts, basic.rx_pkts) == (messages, messages)
            assert (basic.rx_drops, basic.qkey_viol) == (1, violations)
            assert (counted.send_wrs, counted.recv_wrs) == (messages, messages)
        node.driver.reset(REASONS[0])


def stores_in_a_function_reset(backends: Sequence[Any], _rng: Random) -> None:
    """Checks that register stores during a function-level reset have no effect.

    There is no response to a read through memory and no further reset; the MSI-X table has its
    reset values.
    """
    backend = backends[0]
    node = Node(backend)
    page = node.driver.allocator.alloc(PAGE_BYTES)
    before = node.driver.memory.read(page, PAGE_BYTES)
    stores = [(defs.Reg.MMIO_RESP_HI, page >> 32), (defs.Reg.MMIO_RESP_LO, page & 0xFFFF_FFFF),
              (defs.Reg.MMIO_REG_READ, int(defs.Reg.VERSION)), (defs.Reg.DEV_CTL, 1)]  # fmt: skip
    backend.settle()
    backend.begin_flr()
    # From the begin of the reset into the init sweeps after its drain.
    for _ in range(10):
        for register, value in stores:
            node.driver.write_register(register, value)
        backend.pause(100)
    backend.await_flr()
    backend.settle()
    for vector in range(defs.LIMITS.msix_vectors):
        entry = backend.load(0, defs.LIMITS.msix_table_offset + 16 * vector, 16)
        assert entry == bytes(12) + (1).to_bytes(4, "little"), f"vector {vector} is not as new"
    assert node.driver.memory.read(page, PAGE_BYTES) == before
    # A second reset would have set RESET_FINISHED.
    assert not int.from_bytes(backend.load(0, int(defs.Reg.DEV_STS), 4), "little") & FINISHED
    backend.flr()
    node = Node(backend)
    exchange(Endpoint(node), Endpoint(node), b"as new")


def reset_behind_waiting_receives(backends: Sequence[Any], rng: Random, messages: int = 48) -> None:
    """Resets the device while received messages wait for the host write port.

    No packet leaves after the reset, and the next session has none of the messages. The host must
    accept writes slowly.
    """
    backend = backends[0]
    for _ in range(6):
        node = Node(backend)
        a, b = Endpoint(node), Endpoint(node)
        for number in range(messages):
            b.receive(700, wr_id=number)
        piece = a.buffer.addr, 700, a.buffer.l_key
        a.qp.post_send_many(range(messages), **a.towards(b), sges=[piece])
        backend.pause(1500 + rng.randrange(1000))
        node.driver.reset(REASONS[0])
        backend.settle()
        sent = backend.counters()["packets"]
        node = Node(backend)
        a, b = Endpoint(node), Endpoint(node)
        backend.settle()
        assert backend.counters()["packets"] == sent, "a packet of an earlier session"
        exchange(a, b, b"as new")
        node.driver.reset(REASONS[0])


def work(node: Node, rng: Random) -> None:
    """Starts every kind of work that a device can have in flight."""
    driver = node.driver
    # The only key is kind; mypy takes each key for any argument.
    ends = [Endpoint(node, events=bool(n), **kind) for n, kind in enumerate(({}, {"kind": UD}))]  # type: ignore[arg-type]
    for end in ends:
        end.cq.req_notify() if end is ends[1] else None
        for number in range(12):
            end.receive(4000, wr_id=number, offset=number * 4352)
        for number in range(12):
            size = rng.choice((8, 700, 4000))
            end.send(end, pattern(size, number), wr_id=number, offset=(12 + number) * 4352)
    for number in range(rng.randrange(20)):
        driver.submit(rng.choice((
            lambda: defs.AdminAllocPdCmd(), lambda: defs.AdminAllocUarCmd(),
            lambda: defs.AdminGetFeatureCmd(feature_common={"feature_id": 1}),
            lambda: defs.AdminAllocMrCmd(pd=node.pd.number, max_pages=3),
        ))())  # fmt: skip
        if hasattr(node.backend, "raise_event") and not number % 4:
            node.backend.raise_event(rng.randrange(1, 4), number)


def memory_of(node: Node) -> bytes:
    """Returns a digest of all memory that the device may write."""
    read = node.driver.memory.read
    digest = sha256()
    for page in sorted(node.driver.allocator.pages()):
        digest.update(read(page, PAGE_BYTES))
    return digest.digest()


def end_by_reset(node: Node, rng: Random) -> None:
    node.driver.reset(rng.choice(REASONS))


def end_by_resets(node: Node, rng: Random) -> None:
    """Resets the device twice."""
    node.driver.reset(rng.choice(REASONS))
    node.driver.write_register(defs.Reg.DEV_CTL, 0)
    node.driver.reset(rng.choice(REASONS))


def end_by_flr(node: Node, _rng: Random) -> None:
    node.backend.flr()


def end_without_bus(node: Any, rng: Random) -> None:
    """Switches bus mastering off, which holds all outputs; the FLR clears the held work."""
    node.backend.set_bus_master(False)
    node.driver.submit(defs.AdminAllocPdCmd())
    node.backend.pause(rng.randrange(200))
    node.backend.flr()


def pause_of_the_bus(node: Any, rng: Random) -> None:
    """Switches bus mastering off and on; then resets the device."""
    node.backend.set_bus_master(False)
    node.driver.submit(defs.AdminAllocPdCmd())
    node.backend.pause(rng.randrange(600))
    node.backend.set_bus_master(True)
    node.backend.pause(rng.randrange(200))
    end_by_reset(node, rng)


ENDS = (end_by_reset, end_by_resets, end_by_flr, end_without_bus, pause_of_the_bus)


def random_ends(backends: Sequence[Any], rng: Random, knobs: Any = None) -> None:
    """Runs sessions and their ends; raises AssertionError if an output follows an end."""
    backend, knobs = backends[0], knobs or SessionKnobs()
    for session in range(knobs.sessions):
        node = Node(backend, seed=session, flavour=rng.choice(FLAVOURS))
        assert (node.pd.number, node.context.uar) == (0, 0)
        work(node, rng)
        backend.pause(rng.randrange(knobs.longest))
        end = ENDS[session % len(ENDS)]
        end(node, rng)
        backend.interrupts()
        before = memory_of(node)
        backend.set_bus_master(True)
        backend.pause(QUIET_CYCLES)
        backend.settle()
        assert backend.interrupts() == [], f"session {session}, {end.__name__}: message after end"
        assert memory_of(node) == before, f"session {session}, {end.__name__}: write after end"
