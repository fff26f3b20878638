# SPDX-License-Identifier: Apache-2.0
"""Runs bring-up: probes of old and new drivers, resets, registers, interrupt masks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from efa_cosim.host.driver import FLAVOURS, Driver
from efa_cosim.host.endpoints import Endpoint, Node, pattern
from efa_cosim.host.queue_pair import SendWr, Sge
from efa_cosim.layouts import defs

if TYPE_CHECKING:
    from random import Random

UNKNOWN_OFFSET = 0x7C


def both_flavours(backends: Sequence[Any], _rng: Random) -> None:
    """Probes and removes each driver twice; the device holds no state of an earlier driver."""
    for flavour in FLAVOURS * 2:
        driver = Driver(backends[0], flavour=flavour).probe()
        assert driver.gid[-2:] == backends[0].node_id.to_bytes(2, "big")
        uar, pd = driver.alloc_uar(), driver.alloc_pd()
        assert (uar, pd) == (0, 0)
        driver.remove()


def registers(backends: Sequence[Any], _rng: Random) -> None:
    """Reads every register through memory and by loads, with equal values; tests ignored stores."""
    driver = Driver(backends[0])
    backends[0].set_bus_master(True)
    driver.set_response_address()
    for register in defs.Reg:
        value = driver.read_register(register)
        assert value == int.from_bytes(backends[0].load(0, int(register), 4), "little")
    assert backends[0].load(0, UNKNOWN_OFFSET, 4) == b"\xff" * 4
    assert backends[0].load(2, 0, 8) == bytes(8)
    # The device ignores a store of a partial dword and a store to a read-only register.
    backends[0].store(0, int(defs.Reg.DEV_CTL), b"\x01")
    backends[0].store(0, int(defs.Reg.VERSION), b"\xff" * 4)
    assert driver.read_register(defs.Reg.VERSION) == driver.read_register(defs.Reg.VERSION) == 2


def masked_admin_interrupt(backends: Sequence[Any], _rng: Random) -> None:
    """Unmasks the admin vector after two polled responses, which leads to one message."""
    driver = Driver(backends[0]).probe()
    driver.mask_admin_interrupt(1)
    backends[0].settle()
    backends[0].interrupts()
    driver.alloc_pd()
    driver.alloc_pd()
    backends[0].settle()
    assert backends[0].interrupts() == []
    driver.mask_admin_interrupt(0)
    backends[0].settle()
    assert backends[0].interrupts() == [0]


def masked_vector(backends: Sequence[Any], _rng: Random) -> None:
    """Masks a vector: a message sets its pending bit, the unmask sends the message."""
    backend = backends[0]
    driver = Driver(backend).probe()
    control = defs.LIMITS.msix_table_offset + 12
    pending_under(driver, lambda on: backend.store(0, control, int(on).to_bytes(4, "little")))


def masked_function(backends: Sequence[Any], _rng: Random) -> None:
    """Sets the function mask: a message sets its pending bit, the unmask sends the message."""
    backend = backends[0]
    driver = Driver(backend).probe()
    backend.settle()
    backend.interrupts()
    pending_under(driver, backend.set_function_mask)


def pending_under(driver: Driver, mask: Callable[[bool], None]) -> None:
    """Checks that a response's message is pending from mask(True) to mask(False), then leaves."""
    backend = driver.backend
    mask(True)
    command = driver.submit(defs.AdminAllocPdCmd())
    backend.settle()
    assert backend.interrupts() == []
    assert backend.load(0, defs.LIMITS.msix_pba_offset, 1)[0] & 1
    mask(False)
    driver.finish(command)
    assert not backend.load(0, defs.LIMITS.msix_pba_offset, 1)[0] & 1


def function_level_reset(backends: Sequence[Any], _rng: Random) -> None:
    """Clears the device by FLR three times; each time the driver finds a new device."""
    for _ in range(3):
        node = Node(backends[0])
        assert node.pd.number == 0
        node.pd.reg_mr(10_000)
        backends[0].settle()
        backends[0].flr()


def ignored_by_the_device(backends: Sequence[Any], rng: Random) -> None:
    """Makes accesses that the device ignores and reports: excess doorbells, a missing vector."""
    backend = backends[0]
    driver = Driver(backend).probe()
    # Both values exceed the ring depth.
    driver.write_register(defs.Reg.AQ_PROD_DB, 0x4000 + rng.randrange(0x4000))
    driver.write_register(defs.Reg.AENQ_CONS_DB, 0x5000 + rng.randrange(0x4000))
    backend.settle()
    vector = rng.randrange(defs.LIMITS.msix_vectors, 256)
    driver.write_register(defs.Reg.AENQ_CAPS, defs.REG_BITS.AENQ_CAPS.pack(
        AENQ_DEPTH=defs.EFA_ASYNC_QUEUE_DEPTH, AENQ_ENTRY_SIZE=defs.AdminAenqEntry.SIZE,
        AENQ_MSIX_VECTOR=vector))  # fmt: skip
    backend.settle()
    backend.interrupts()
    for syndrome in range(2):
        backend.raise_event(2, syndrome)
        backend.settle()
    assert backend.interrupts() == []
    driver.alloc_pd()


def long_message(backends: Sequence[Any], _rng: Random) -> None:
    """Sends a message through a region without pages; only the size limit splits its requests."""
    node, size, at = Node(backends[0]), 4096, 1000
    driver, a, b = node.driver, Endpoint(node), Endpoint(node)
    key = driver.reg_mr_physical(node.pd.number).l_key
    source, sink = (driver.allocator.alloc(size + at) for _ in range(2))
    driver.memory.write(source + at, pattern(size, 1))
    b.qp.post_recv([Sge(sink + at, size, key)], wr_id=1)
    a.qp.post_send(SendWr(**a.towards(b), sges=[Sge(source + at, size, key)], wr_id=2))
    for end in (a, b):
        assert end.cq.wait_for(1)[0]["status"] == defs.IoCompStatus.OK
    assert driver.memory.read(sink + at, size) == pattern(size, 1)
