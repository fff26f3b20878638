# SPDX-License-Identifier: Apache-2.0
"""Runs event counters together with completions and events, and with fast changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from efa_cosim.host.completion_counter import RECEIVES, SENDS
from efa_cosim.host.driver import Driver
from efa_cosim.host.endpoints import SRD, UD, Endpoint, Node, pattern
from efa_cosim.layouts import defs
from tb.scenarios.admin import refused

if TYPE_CHECKING:
    from random import Random

SET = defs.AdminEventCounterModifyOps.SET
ADD = defs.AdminEventCounterModifyOps.ADD
WRAP = 1 << 64


def counted(backends: Sequence[Any], rng: Random) -> None:
    """Counts completions: each receive value is in memory before its event.

    Several queues share one counter; another one counts errors and flushes; counters are detached
    and set in between.
    """
    node = Node(backends[0], cpus=4)
    ends = [Endpoint(node, kind, events=True) for kind in (SRD, SRD, UD, UD)]
    counters = [node.context.create_counter() for _ in range(3)]
    for end in ends:
        counters[0].attach(end.qp, SENDS)
        counters[1].attach(end.qp, RECEIVES)
    for turn in range(16):
        pair = rng.choice((ends[:2], ends[2:]))
        a, b = rng.sample(pair, 2)
        b.cq.req_notify()
        b.receive(100, wr_id=turn)
        a.send(b, pattern(60, turn))
        b.cq.get_event()
        assert counters[1].value == turn + 1, "the event came before the value"
        b.cq.wait_for(1)
        a.cq.wait_for(1)
    # The value of a send follows its completion.
    node.driver.wait(lambda: (counters[0].value, counters[0].errors) == (16, 0))
    refused(defs.AdminAqCompletionStatus.RESOURCE_BUSY, counters[0].destroy)
    a, b = ends[0], ends[1]
    # The peer has no receive WQE and refuses the send.
    a.send(b, pattern(8, 1))
    a.cq.wait_for(1)
    node.driver.wait(lambda: (counters[0].value, counters[0].errors) == (16, 1))
    for _ in range(3):
        b.receive(64)
    b.qp.modify(defs.AdminQpState.ERR)
    b.cq.wait_for(3)
    node.driver.wait(lambda: counters[1].errors == 3)
    counters[0].set(1 << 40)
    counters[0].add(WRAP - 1, errors=True)
    assert (counters[0].value, counters[0].errors) == (1 << 40, 0)
    counters[0].detach(a.qp, SENDS)
    counters[2].attach(a.qp, SENDS)
    a.send(b, pattern(8, 2))
    a.cq.wait_for(1)
    node.driver.wait(lambda: (counters[0].value, counters[2].errors) == (1 << 40, 1))
    for end in ends:
        end.qp.destroy()
    for counter in counters:
        counter.destroy()
    backends[0].settle()


def modified_at_once(backends: Sequence[Any], rng: Random, wraps: int = 12) -> None:
    """Changes few or many counters with a full admin ring of commands at once.

    Each value is in host memory before the response of its command.
    """
    driver = Driver(backends[0]).probe()
    uar = driver.alloc_uar()
    count = driver.queue_attr_2.max_event_counters or 64
    page = driver.allocator.alloc(8 * count)
    handles = [driver.create_event_counter(uar, page + 8 * n) for n in range(count)]
    values = [0] * count
    for wrap in range(wraps):
        some = rng.sample(range(count), rng.choice((1, 2, 3, 30)))
        changes = []
        # A driver after probe() has an admin queue.
        for _ in range(driver.admin.depth):  # type: ignore[union-attr]
            which, value = rng.choice(some), rng.getrandbits(64)
            operation = rng.choice((SET, ADD))
            values[which] = value + (values[which] if operation == ADD else 0) & WRAP - 1
            changes.append(driver.submit(defs.AdminModifyEventCounterCmd(
                cntr_handle=handles[which], operation=operation, value=value)))  # fmt: skip
        for change in changes:
            driver.finish(change)
        for which in some:
            held = driver.memory.read(page + 8 * which, 8)
            assert int.from_bytes(held, "little") == values[which], f"wrap {wrap}, counter {which}"
    for handle in handles:
        driver.destroy_event_counter(handle)
    driver.dealloc_uar(uar)


def recreated_at_once(backends: Sequence[Any], rng: Random, wraps: int = 12) -> None:
    """Changes, destroys, recreates and changes counters with commands that are posted together.

    Each value is at the address that the counter had at that time.
    """
    driver = Driver(backends[0]).probe()
    uar = driver.alloc_uar()
    page = driver.allocator.alloc(1 << 16)
    handles = [driver.create_event_counter(uar, page + 8 * n) for n in range(4)]
    where = dict(zip(handles, range(len(handles)), strict=True))
    values = [0] * len(handles)  # by address; the value of a destroyed counter stays
    for wrap in range(wraps):
        commands = []
        # A driver after probe() has an admin queue.
        for _ in range(driver.admin.depth // 4):  # type: ignore[union-attr]
            which = rng.choice(handles)
            for _ in range(rng.randrange(3)):
                other = rng.choice(handles)
                values[where[other]] = values[where[other]] + 1 & WRAP - 1
                commands.append(driver.submit(defs.AdminModifyEventCounterCmd(
                    cntr_handle=other, operation=ADD, value=1)))  # fmt: skip
            commands.append(driver.submit(defs.AdminDestroyEventCounterCmd(cntr_handle=which)))
            where[which] = len(values)
            commands.append(driver.submit(defs.AdminCreateEventCounterCmd(
                uar=uar, paddr=page + 8 * where[which])))  # fmt: skip
            values.append(rng.getrandbits(64))
            commands.append(driver.submit(defs.AdminModifyEventCounterCmd(
                cntr_handle=which, operation=SET, value=values[-1])))  # fmt: skip
        for command in commands:
            driver.finish(command)
        backends[0].settle()
        held = driver.memory.read(page, 8 * len(values))
        for place, value in enumerate(values):
            found = int.from_bytes(held[8 * place : 8 * place + 8], "little")
            assert found == value, f"wrap {wrap}, place {place}"
