# SPDX-License-Identifier: Apache-2.0
"""Runs the completion side: entry sizes, shared queues, sub-queues, events and arming."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from efa_cosim.host.endpoints import SRD, UD, Endpoint, Node, pattern
from efa_cosim.layouts import defs
from tb.scenarios.send import exchange

if TYPE_CHECKING:
    from random import Random

STATUS = defs.IoCompStatus


def shared_queue(backends: Sequence[Any], rng: Random) -> None:
    """Completes several queue pairs of both kinds into one CQ, over many wraps."""
    node = Node(backends[0])
    cq = node.context.create_cq(32, entry_bytes=16)
    ends = [Endpoint(node, kind, depth=8, cq=cq) for kind in (UD, SRD, SRD, UD)]
    for turn in range(60):
        a = rng.choice(ends)
        b = rng.choice([end for end in ends if end.kind == a.kind])
        b.receive(100, wr_id=turn)
        a.send(b, pattern(50, turn), wr_id=1000 + turn)
        done = cq.wait_for(2)
        assert sorted(int(one["wr_id"]) for one in done) == [turn, 1000 + turn]


def events(backends: Sequence[Any], rng: Random) -> None:
    """Arms a CQ before or after the completion; one event follows each arm."""
    node = Node(backends[0], cpus=4)
    ends = [Endpoint(node, events=True) for _ in range(3)]
    for turn in range(12):
        a, b = rng.sample(ends, 2)
        early = rng.random() < 0.5
        if early:
            b.cq.req_notify()
        b.receive(64, wr_id=turn)
        a.send(b, pattern(30, turn), inline=True)
        if not early:
            backends[0].settle()
            b.cq.req_notify()
        b.cq.get_event()
        assert b.cq.wait_for(1)[0]["wr_id"] == turn
        a.cq.wait_for(1)
        backends[0].settle()


def armed_by_its_register_alone(backends: Sequence[Any], _rng: Random) -> None:
    """Stores the arm value to other registers: none arms an EQ that has an unreported EQE."""
    node, backend = Node(backends[0], cpus=1), backends[0]
    a, ends = Endpoint(node), [Endpoint(node, events=True) for _ in range(2)]
    for end in ends:
        end.cq.req_notify()
        end.receive(64)
    for end in ends:
        a.send(end, b"one message, two entries", inline=True)
    backend.settle()
    eqn = node.driver.eqs[0].number
    arm = defs.REG_BITS.EQ_DB.pack(EQN=eqn, ARM=1).to_bytes(4, "little")
    for register in (defs.Reg.MMIO_RESP_LO, defs.Reg.MMIO_RESP_HI):
        backend.store(0, int(register), arm)
        backend.settle()
    node.driver.set_response_address()
    for end in ends:
        end.cq.get_event()
        end.cq.wait_for(1)
    a.cq.wait_for(2)


def events_in_flight(backends: Sequence[Any], rng: Random, rounds: int = 60) -> None:
    """Arms CQs and EQs while completions are in flight, also repeatedly."""
    node = Node(backends[0], cpus=3)
    ends = [Endpoint(node, rng.choice((UD, SRD)), events=True) for _ in range(5)]
    owed = dict.fromkeys(ends, 0)
    for turn in range(rounds):
        a = rng.choice(ends)
        b = rng.choice([end for end in ends if end.kind == a.kind])
        for number in range(rng.randrange(1, 5)):
            if rng.random() < 0.5:
                rng.choice((a, b)).cq.req_notify()
            b.receive(64, wr_id=number, offset=4096 * number)
            a.send(b, pattern(30, turn), wr_id=number, inline=True)
            owed[a] += 1
            owed[b] += 1
        backends[0].pause(rng.randrange(300))
        node.driver.service()
        for end in rng.sample(ends, 3):
            owed[end] -= len(end.cq.poll_array())
        if not turn % 8:
            for end, count in owed.items():
                end.cq.wait_for(count)
                owed[end] = 0
    for end, count in owed.items():
        end.cq.wait_for(count)
    backends[0].settle()
    # Pending events follow when the handlers have armed their EQs again.
    for _ in range(3):
        node.driver.service()
        backends[0].settle()


def sub_queues(backends: Sequence[Any], rng: Random) -> None:
    """Uses the recorded profile: two sub-queues, one for sends, one for receives."""
    node = Node(backends[0])
    a, b = Endpoint(node), Endpoint(node)
    for turn in range(30):
        exchange(a, b, pattern(rng.randrange(200), turn))


def large_datagrams(backends: Sequence[Any], _rng: Random) -> None:
    """Sends messages up to the MTU of the recorded profile."""
    node = Node(backends[0])
    for kind in (UD, SRD):
        a, b = Endpoint(node, kind), Endpoint(node, kind)
        for size in (4097, 8000, 8928):
            exchange(a, b, pattern(size, size), offset=33, split=4000)


def more_than_fits(backends: Sequence[Any], _rng: Random) -> None:
    """Overruns a CQ: completions overwrite the oldest unread ones, other CQs stay intact."""
    node = Node(backends[0], cpus=4)
    a, b = (Endpoint(node, UD, depth=32, events=True) for _ in range(2))
    small = node.context.create_cq(16, events=True)
    c = Endpoint(node, UD, depth=32, cq=small)
    for turn in range(3):
        exchange(a, c, pattern(20, turn))
    # The CQ doorbell arrives while another CQ has a higher count.
    for turn in range(5):
        exchange(a, b, pattern(30, turn))
    small.req_notify()
    for number in range(20):
        c.receive(20, wr_id=number)
    # The third message of four goes to b, whose CQ is consumed continuously.
    for number in range(20):
        if number % 4 == 2:
            exchange(a, b, pattern(40, number))
        a.send(c, pattern(20, number), inline=True)
        a.cq.wait_for(1)
        backends[0].settle()
