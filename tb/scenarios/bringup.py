# SPDX-License-Identifier: Apache-2.0
"""Bring-up: probe as old and new drivers do it, resets, registers, interrupts masked and not."""

from efa import defs
from efa.driver import FLAVOURS, Driver
from efa.endpoints import Endpoint, Node, pattern
from efa.queue_pair import SendWr, Sge

UNKNOWN_OFFSET = 0x7C


def both_flavours(backends, _rng):
    """Probe and remove, twice each: the second finds a device that remembers nothing."""
    for flavour in FLAVOURS * 2:
        driver = Driver(backends[0], flavour=flavour).probe()
        assert driver.gid[-2:] == backends[0].node_id.to_bytes(2, "big")
        uar, pd = driver.alloc_uar(), driver.alloc_pd()
        assert (uar, pd) == (0, 0)
        driver.remove()


def registers(backends, _rng):
    """Read-less reads of every register; unknown and write-only ones; loads say the same."""
    driver = Driver(backends[0])
    backends[0].set_bus_master(True)
    driver._set_response_address()
    for register in defs.Reg:
        value = driver.read_register(register)
        assert value == int.from_bytes(backends[0].load(0, int(register), 4), "little")
    assert backends[0].load(0, UNKNOWN_OFFSET, 4) == b"\xff" * 4
    assert backends[0].load(2, 0, 8) == bytes(8)
    # A store without all four bytes of a dword, one to a read-only register: nothing happens.
    backends[0].store(0, int(defs.Reg.DEV_CTL), b"\x01")
    backends[0].store(0, int(defs.Reg.VERSION), b"\xff" * 4)
    assert driver.read_register(defs.Reg.VERSION) == driver.read_register(defs.Reg.VERSION) == 2


def masked_admin_interrupt(backends, _rng):
    """A response under the mask is announced once when it is lifted; polling needs no vector."""
    driver = Driver(backends[0]).probe()
    driver._mask_admin_interrupt(1)
    backends[0].settle()
    backends[0].interrupts()
    driver.alloc_pd()
    driver.alloc_pd()
    backends[0].settle()
    assert backends[0].interrupts() == []
    driver._mask_admin_interrupt(0)
    backends[0].settle()
    assert backends[0].interrupts() == [0]


def masked_vector(backends, _rng):
    """A masked vector sets its pending bit, and fires when the mask goes."""
    backend = backends[0]
    driver = Driver(backend).probe()
    control = defs.LIMITS.msix_table_offset + 12
    pending_under(driver, lambda on: backend.store(0, control, int(on).to_bytes(4, "little")))


def masked_function(backends, _rng):
    """Under the function mask a vector sets its pending bit; it fires when the mask goes."""
    backend = backends[0]
    driver = Driver(backend).probe()
    backend.settle()
    backend.interrupts()
    pending_under(driver, backend.set_function_mask)


def pending_under(driver, mask):
    """A response's message is pending between mask(True) and mask(False), and leaves then."""
    backend = driver.backend
    mask(True)
    command = driver.submit(defs.AdminAllocPdCmd())
    backend.settle()
    assert backend.interrupts() == []
    assert backend.load(0, defs.LIMITS.msix_pba_offset, 1)[0] & 1
    mask(False)
    driver.finish(command)
    assert not backend.load(0, defs.LIMITS.msix_pba_offset, 1)[0] & 1


def function_level_reset(backends, _rng):
    """FLR clears everything; the driver comes up as on a new device."""
    for _ in range(3):
        node = Node(backends[0])
        assert node.pd.number == 0
        node.pd.reg_mr(10_000)
        backends[0].settle()
        backends[0].flr()


def ignored_by_the_device(backends, rng):
    """Accesses that the device ignores and shows: doorbells beyond their ring, missing vectors."""
    backend = backends[0]
    driver = Driver(backend).probe()
    # No ring is as long, no consumer as far ahead.
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


def long_message(backends, _rng):
    """A message through a region without pages, whose requests only their greatest size ends."""
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
