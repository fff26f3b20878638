# SPDX-License-Identifier: Apache-2.0
"""Runs asynchronous events as the driver sees them: groups, full ring, doorbell, mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from efa_cosim.host.driver import Driver
from efa_cosim.layouts import defs

if TYPE_CHECKING:
    from random import Random

FATAL, WARNING, NOTIFICATION, KEEP_ALIVE = 1, 2, 3, 4
DEPTH = defs.EFA_ASYNC_QUEUE_DEPTH


def contents(driver: Driver) -> list[tuple[int, int, bytes]]:
    """Returns (group, syndrome, data) of the events that the driver has consumed, oldest first."""
    place = defs.AdminAenqEntry.inline_data_w4.offset
    return [
        (int(event.aenq_common_desc.group), event.aenq_common_desc.syndrome, event.pack()[place:])
        for event in driver.async_events
    ]


def reported(driver: Driver) -> list[tuple[int, ...]]:
    """Returns (group, syndrome) of the consumed events."""
    return [content[:2] for content in contents(driver)]


def events(backends: Sequence[Any], rng: Random) -> None:
    """Raises events of every group with syndromes and data, in order, over several ring wraps."""
    backend = backends[0]
    driver = Driver(backend).probe()
    wanted = []
    for number in range(5 * DEPTH):
        group, data = rng.choice((FATAL, WARNING, NOTIFICATION)), rng.randbytes(48)
        wanted.append((group, number))
        backend.raise_event(group, number, data)
        if not rng.randrange(4):
            driver.alloc_pd()
        driver.wait(lambda: reported(driver) == wanted)
        assert contents(driver)[-1][2] == data
    driver.remove()


def full_ring(backends: Sequence[Any], _rng: Random) -> None:
    """Fills the ring with unread events; later events stay pending until the driver reads some."""
    backend = backends[0]
    driver = Driver(backend).probe()
    driver.mask_admin_interrupt(1)
    for number in range(DEPTH + 5):
        backend.raise_event(WARNING, number)
    backend.settle()
    assert backend.interrupts() == []
    driver.mask_admin_interrupt(0)
    driver.wait(lambda: len(driver.async_events) == DEPTH + 5)
    assert reported(driver) == [(WARNING, number) for number in range(DEPTH + 5)]
    driver.remove()


def groups(backends: Sequence[Any], _rng: Random) -> None:
    """Drops events of disabled or unknown groups; a pending event is dropped with its group."""
    backend = backends[0]
    driver = Driver(backend).probe()
    driver.set_aenq_groups(1 << NOTIFICATION)
    for group in (0, FATAL, WARNING, KEEP_ALIVE, 5, 0xFFFF):
        backend.raise_event(group, 1)
    backend.raise_event(NOTIFICATION, 2)
    driver.wait(lambda: reported(driver) == [(NOTIFICATION, 2)])
    driver.set_aenq_groups(0)
    backend.raise_event(NOTIFICATION, 3)
    backend.settle()
    driver.service()
    assert reported(driver) == [(NOTIFICATION, 2)]
    driver.remove()


def events_and_commands(backends: Sequence[Any], rng: Random) -> None:
    """Runs events, commands and resets at the same time."""
    backend = backends[0]
    for _ in range(4):
        driver = Driver(backend).probe()
        for number in range(30):
            backend.raise_event(rng.randrange(1, 4), number)
            commands = [driver.submit(defs.AdminAllocPdCmd()) for _ in range(rng.randrange(3))]
            for command in commands:
                driver.finish(command)
        # The default binds this driver; mypy infers no lambda with defaults.
        driver.wait(lambda driver=driver: len(driver.async_events) == 30)  # type: ignore[misc]
        driver.reset()


def overrun(backends: Sequence[Any], rng: Random) -> None:
    """Raises events of every group among commands, more than the ring holds unread."""
    backend = backends[0]
    driver = Driver(backend).probe()
    raised = []

    def request(group: int) -> None:
        syndrome, data = rng.getrandbits(16), rng.randbytes(48)
        backend.raise_event(group, syndrome, data)
        if 1 <= group < KEEP_ALIVE:
            raised.append((group, syndrome, data))

    for group in (1, 2, 3, 0, 5, 0xFFFF, 2):
        request(group)
        driver.alloc_pd()
    for _ in range(40):
        request(rng.randrange(1, KEEP_ALIVE))
    driver.wait(lambda: len(driver.async_events) == len(raised))
    assert contents(driver) == raised
    backend.settle()
    driver.remove()


def alive(backends: Sequence[Any], _rng: Random) -> None:
    """Runs commands with keep-alives at the strap's period; a driver that reads loses none."""
    driver = Driver(backends[0]).probe()
    for _ in range(20):
        driver.dealloc_pd(driver.alloc_pd())
    driver.wait(lambda: driver.aenq_events[KEEP_ALIVE] >= 30)
    driver.set_aenq_groups(0)
    backends[0].settle()
    driver.remove()
