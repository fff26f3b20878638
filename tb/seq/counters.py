"""Event counters whose values change faster than they can be written."""

from efa import defs
from efa.driver import Driver

SET = defs.AdminEventCounterModifyOps.SET
ADD = defs.AdminEventCounterModifyOps.ADD


def modified_at_once(backends, rng, laps=12):
    """As many changes as the admin ring holds, of few counters and of many, all at once; each
    value is in host memory when its command is answered."""
    driver = Driver(backends[0]).probe()
    uar = driver.alloc_uar()
    count = driver.queue_attr_2.max_event_counters or 64
    page = driver.allocator.alloc(8 * count)
    handles = [driver.create_event_counter(uar, page + 8 * n) for n in range(count)]
    values = [0] * count
    for lap in range(laps):
        some = rng.sample(range(count), rng.choice((1, 2, 3, 30)))
        changes = []
        for _ in range(driver.admin.depth):
            which, value = rng.choice(some), rng.getrandbits(64)
            operation = rng.choice((SET, ADD))
            values[which] = value + (values[which] if operation == ADD else 0) & (1 << 64) - 1
            changes.append(driver.submit(defs.AdminModifyEventCounterCmd(
                cntr_handle=handles[which], operation=operation, value=value)))  # fmt: skip
        for change in changes:
            driver.finish(change)
        for which in some:
            held = driver.memory.read(page + 8 * which, 8)
            assert int.from_bytes(held, "little") == values[which], f"lap {lap}, counter {which}"
    for handle in handles:
        driver.destroy_event_counter(handle)
    driver.dealloc_uar(uar)


def reborn_at_once(backends, rng, laps=12):
    """Counters are changed, destroyed, made again elsewhere and changed, all in the ring at once:
    each value is where its counter was."""
    driver = Driver(backends[0]).probe()
    uar = driver.alloc_uar()
    page = driver.allocator.alloc(1 << 16)
    handles = [driver.create_event_counter(uar, page + 8 * n) for n in range(4)]
    place = len(handles)
    for _ in range(laps):
        commands, wanted = [], {}
        for _ in range(driver.admin.depth // 4):
            which = rng.choice(handles)
            for _ in range(rng.randrange(3)):
                commands.append(driver.submit(defs.AdminModifyEventCounterCmd(
                    cntr_handle=rng.choice(handles), operation=ADD, value=1)))  # fmt: skip
            commands.append(driver.submit(defs.AdminDestroyEventCounterCmd(cntr_handle=which)))
            commands.append(driver.submit(defs.AdminCreateEventCounterCmd(
                uar=uar, paddr=page + 8 * place)))  # fmt: skip
            value = rng.getrandbits(64)
            commands.append(driver.submit(defs.AdminModifyEventCounterCmd(
                cntr_handle=which, operation=SET, value=value)))  # fmt: skip
            wanted[which] = place, value
            place += 1
        for command in commands:
            driver.finish(command)
        backends[0].settle()
    assert place
