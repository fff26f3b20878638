"""Asynchronous events as the driver sees them: groups, a full ring, its doorbell, its mask."""

from efa import defs
from efa.driver import Driver

FATAL, WARNING, NOTIFICATION = 1, 2, 3
DEPTH = defs.EFA_ASYNC_QUEUE_DEPTH


def told(driver):
    """(group, syndrome) of the events that the driver has taken, oldest first."""
    heads = [event.aenq_common_desc for event in driver.async_events]
    return [(int(head.group), head.syndrome) for head in heads]


def events(backends, rng):
    """Every group with its syndromes and data, in order, over several laps of the ring."""
    backend = backends[0]
    driver = Driver(backend).probe()
    wanted = []
    for number in range(5 * DEPTH):
        group, data = rng.choice((FATAL, WARNING, NOTIFICATION)), rng.randbytes(48)
        wanted.append((group, number))
        backend.raise_event(group, number, data)
        if not rng.randrange(4):
            driver.alloc_pd()
        driver.wait(lambda: told(driver) == wanted)
        place = defs.AdminAenqEntry.inline_data_w4.offset
        assert driver.async_events[-1].pack()[place:] == data
    driver.remove()


def full_ring(backends, _rng):
    """As many as the ring holds stay unread; the rest waits until the driver has read some."""
    backend = backends[0]
    driver = Driver(backend).probe()
    driver._mask_admin_interrupt(1)
    for number in range(DEPTH + 5):
        backend.raise_event(WARNING, number)
    backend.settle()
    assert backend.interrupts() == []
    driver._mask_admin_interrupt(0)
    driver.wait(lambda: len(driver.async_events) == DEPTH + 5)
    assert told(driver) == [(WARNING, number) for number in range(DEPTH + 5)]
    driver.remove()


def groups(backends, _rng):
    """What is not enabled or not there is dropped; what waits goes when its group is disabled."""
    backend = backends[0]
    driver = Driver(backend).probe()
    driver.set_aenq_groups(1 << NOTIFICATION)
    for group in (0, FATAL, WARNING, 5, 0xFFFF):
        backend.raise_event(group, 1)
    backend.raise_event(NOTIFICATION, 2)
    driver.wait(lambda: told(driver) == [(NOTIFICATION, 2)])
    driver.set_aenq_groups(0)
    backend.raise_event(NOTIFICATION, 3)
    backend.settle()
    driver.service()
    assert told(driver) == [(NOTIFICATION, 2)]
    driver.remove()


def events_and_commands(backends, rng):
    """Events, commands and resets at once."""
    backend = backends[0]
    for _ in range(4):
        driver = Driver(backend).probe()
        for number in range(30):
            backend.raise_event(rng.randrange(1, 4), number)
            commands = [driver.submit(defs.AdminAllocPdCmd()) for _ in range(rng.randrange(3))]
            for command in commands:
                driver.finish(command)
        driver.wait(lambda driver=driver: len(driver.async_events) == 30)
        driver.reset()
