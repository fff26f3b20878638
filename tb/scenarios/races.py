# SPDX-License-Identifier: Apache-2.0
"""Destroys objects under traffic at random moments and checks what holds at any timing.

Statuses depend on time, so the backends are those of tb/env/raced.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from efa_cosim.host.admin_queue import DriverError
from efa_cosim.host.driver import EventQueue
from efa_cosim.host.endpoints import QKEY, SRD, UD, Endpoint, Node, pattern
from efa_cosim.host.verbs import gid_of
from efa_cosim.layouts import defs
from tb.scenarios.collisions import beyond_sq, moved

if TYPE_CHECKING:
    from random import Random

    from efa_cosim.host.driver import Driver

STATUS, STATE = defs.IoCompStatus, defs.AdminQpState
MESSAGES = 12
ROOM = 4352  # bytes from one buffer to the next
EVENTS = defs.LIMITS.event_counter_events
LONGEST = 1500  # cycles from the posting of work to its end


class Tenant:
    """A process with its own protection domain on a node; endpoints use it as their node."""

    def __init__(self, node: Node) -> None:
        self.backend, self.driver, self.context = node.backend, node.driver, node.context
        self.pd = node.context.alloc_pd()
        self.ah = self.pd.create_ah(gid_of(node.backend.node_id))
        driver = node.driver
        # A separate event queue, in addition to the driver's per-CPU event queues.
        self._events = driver.allocator.alloc(64 * defs.AdminEqe.SIZE)
        self.eq = driver.create_eq(64, 1, self._events)
        # The scenario reads the entries itself, so this event queue has no reader.
        driver.eqs.append(EventQueue(self.eq, 1, None))  # type: ignore[arg-type]
        self._counts = driver.allocator.alloc(8)
        self.counter = driver.create_event_counter(node.context.uar, self._counts)

    def close(self) -> None:
        """Returns the memory to the host."""
        self.driver.eqs.pop()
        self.driver.allocator.free(self._events)
        self.driver.allocator.free(self._counts)

    def count(self, end: Endpoint) -> None:
        """Counts all completions of an endpoint."""
        self.driver.attach_event_counter(self.counter, end.qp.handle, EVENTS)

    def ah_of(self, _node_id: int) -> int:
        """Returns the number of the only address handle."""
        return self.ah.number


def busy(ends: Sequence[Endpoint], rng: Random) -> None:
    """Posts receives and sends on all endpoints: SRD to the other SRD endpoint, UD to itself."""
    peers = dict(zip(ends, (ends[1], ends[0], ends[2]), strict=True))
    for end in ends:
        for number in range(MESSAGES):
            end.receive(4000, wr_id=number, offset=number * ROOM)
    for number in range(MESSAGES):
        for end, peer in peers.items():
            size = rng.choice((8, 700, 4000))
            end.send(peer, pattern(size, number), wr_id=number, offset=(MESSAGES + number) * ROOM)


def destroys(tenant: Any, ends: Sequence[Endpoint], rng: Random) -> list[Any]:
    """Returns commands that destroy queue pairs, regions and the AH, in random order."""
    requests: list[Any] = [defs.AdminDestroyAhCmd(ah=tenant.ah.number, pd=tenant.pd.number)]
    for end in ends:
        requests.append(defs.AdminDestroyQpCmd(qp_handle=end.qp.handle))
        requests.append(defs.AdminDeregMrCmd(l_key=end.buffer.l_key))
    rng.shuffle(requests)
    return requests


def behind(tenant: Any, ends: Sequence[Endpoint]) -> list[Any]:
    """Returns commands that destroy the objects which the first commands used."""
    return [*(defs.AdminDestroyCqCmd(cq_idx=end.cq.number) for end in ends),
            defs.AdminDestroyEqCmd(eqn=tenant.eq),
            defs.AdminDestroyEventCounterCmd(cntr_handle=tenant.counter),
            defs.AdminDeallocPdCmd(pd=tenant.pd.number)]  # fmt: skip


def carry_out(driver: Driver, requests: Iterable[Any]) -> None:
    """Posts all commands at once; each must succeed."""
    commands = [driver.submit(request) for request in requests]
    for command in commands:
        driver.finish(command)


def entries(end: Endpoint) -> bytes:
    """Returns the bytes of an endpoint's completion queue."""
    cq = end.cq
    return cq.driver.memory.read(cq.base, cq.depth * cq.entry.SIZE)


def give_back(tenant: Any, ends: Sequence[Endpoint]) -> None:
    """Removes destroyed endpoints from the library and returns their memory to the host."""
    for end in ends:
        del tenant.context.qps[end.qp.number]
        end.qp.free_rings()
        end.buffer.free()
    tenant.close()


def flushed(done: Any, where: object) -> None:
    """Checks that each work request completes once; flushed ones in posting order on each side."""
    for receive in (True, False):
        side = [one for one in done if bool(one["receive"]) == receive]
        ids = [int(one["wr_id"]) for one in side]
        assert sorted(ids) == list(range(MESSAGES)), f"{where}: completed {ids}"
        ids = [int(one["wr_id"]) for one in side if one["status"] == STATUS.FLUSHED]
        assert ids == sorted(ids), f"{where}: flushed in the order {ids}"


def teardown(backends: Sequence[Any], rng: Random, rounds: int = 12) -> None:
    """Ends a tenant's objects under traffic in three ways; all messages of a neighbour arrive.

    - Destroyed at once: no access to their memory follows a response.
    - To ERR: every work request completes exactly once, flushed ones in posting order.
    - To RESET: no completion follows the response.
    """
    node, backend = Node(backends[0]), backends[0]
    driver = node.driver
    left, right = Endpoint(node), Endpoint(node)
    for turn in range(rounds):
        tenant, way = Tenant(node), turn % 3
        cqs = [node.context.create_cq(64, events=True, eq=len(driver.eqs) - 1) for _ in range(3)]
        kinds = zip((SRD, SRD, UD), cqs, strict=True)
        # A tenant has all that an endpoint reads of its node.
        ends = [Endpoint(tenant, kind, depth=16, cq=cq) for kind, cq in kinds]  # type: ignore[arg-type]
        for end in ends:
            end.cq.req_notify()
            tenant.count(end)
        # Unused regions: DEREG_MR drains the engines.
        spare = [tenant.pd.reg_mr(64) for _ in range(6 * (way == 1))]
        busy(ends, rng)
        for number in range(4):
            right.receive(64, wr_id=number)
            left.send(right, pattern(40, number), wr_id=number, inline=False)
        node.context.enter_kernel()
        backend.pause(rng.randrange(LONGEST))
        if way == 1:
            requests = [moved(end, STATE.ERR) for end in ends]
            requests += [defs.AdminDeregMrCmd(l_key=region.l_key) for region in spare]
            rng.shuffle(requests)
            carry_out(driver, requests)
            for region in spare:
                region.free()
            for end in ends:
                flushed(end.cq.wait_for(2 * MESSAGES), f"round {turn}")
            backend.settle()
            for end in ends:
                assert not len(end.cq.poll_array()), f"round {turn}: a second completion"
        elif way == 2:
            carry_out(driver, [moved(end, STATE.RESET) for end in ends])
            before = [entries(end) for end in ends]
            backend.settle()
            assert before == [entries(end) for end in ends], f"round {turn}: completion after RESET"
        flushing = [moved(end, STATE.ERR) for end in ends if not way and rng.random() < 0.5]
        carry_out(driver, [*flushing, *destroys(tenant, ends, rng), *behind(tenant, ends)])
        give_back(tenant, ends)
        for end in (left, right):
            assert not end.cq.wait_for(4)["status"].any(), f"round {turn}: the neighbour"
        backend.settle()


def changes_meet_errors(
    backends: Sequence[Any],
    _rng: Random,
    longest: int = 400,
    step: int = 2,
) -> None:
    """Breaks a queue pair while MODIFY_QP changes it, with each distance between the two.

    The queue pair is in ERR afterwards. The latencies of host and network must be constant.
    """
    node, backend = Node(backends[0]), backends[0]
    changed = 0
    end = Endpoint(node)
    for at in range(0, longest, step):
        node.context.enter_kernel()
        request = defs.AdminModifyQpCmd(qp_handle=end.qp.handle, qkey=QKEY ^ at)
        request.modify_mask__qkey = 1
        command = node.driver.submit(request)
        backend.pause(at)
        backend.stores([beyond_sq(end)])
        try:
            node.driver.finish(command)
            changed += 1
        except DriverError:
            pass  # the queue pair was already in ERR
        backend.settle()
        query: Any = node.driver.execute(defs.AdminQueryQpCmd(qp_handle=end.qp.handle))
        assert query.qp_state == STATE.ERR, f"after {at} cycles in state {query.qp_state}"
        end.qp.modify(STATE.RESET)
        end.qp.to_rts(QKEY)
    assert 0 < changed, "no change was accepted"


def barriers_meet(
    backends: Sequence[Any],
    rng: Random,
    rounds: int = 24,
    steps: int = 60,
    batch: Any = 2,
) -> None:
    """Breaks a queue pair while DEREG_MR drains the send engine, in either order, during sends.

    No payload read of the region follows the response, and each work request completes exactly
    once. The host's read latency must be long.
    """
    node, backend = Node(backends[0]), backends[0]
    driver = node.driver
    for turn in range(rounds):
        lasting, breaking = ends = [Endpoint(node, depth=256) for _ in range(2)]
        node.context.enter_kernel()
        command = driver.submit(defs.AdminDeregMrCmd(l_key=lasting.buffer.l_key))
        at = rng.randrange(steps)
        for step in range(steps):
            if step == at:
                backend.stores([beyond_sq(breaking)])
            for end in ends:
                piece = end.buffer.addr, 64, end.buffer.l_key
                ids: Any = range(step * batch, (step + 1) * batch)
                end.qp.post_send_many(ids, **end.towards(end), sges=[piece])
            backend.pause(rng.randrange(60))
        driver.finish(command)
        for end in ends:
            ids = sorted(int(one["wr_id"]) for one in end.cq.wait_for(steps * batch))
            assert ids == list(range(steps * batch)), f"round {turn}: completed {ids}"
        backend.settle()
        for end in ends:
            assert not len(end.cq.poll_array()), f"round {turn}: a second completion"
            end.qp.destroy()
            end.cq.destroy()
        lasting.buffer.free()
        breaking.buffer.dereg()
