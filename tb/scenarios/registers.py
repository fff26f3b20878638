# SPDX-License-Identifier: Apache-2.0
"""Stores to and reads registers at random: driver accesses in any order, and invalid accesses.

Rings always lie in memory that belongs to them, so that an enabled ring does no harm. Where the
device may act in either order, the bench waits until the device is idle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from efa_cosim.boundary.backend import MSIX_ENTRY_BYTES, msix_table_stores
from efa_cosim.host.alloc import PAGE_BYTES
from efa_cosim.host.driver import Driver
from efa_cosim.layouts import defs

if TYPE_CHECKING:
    from random import Random

REG, BAR = defs.Reg, defs.EFA_REG_BAR
LIMITS = defs.LIMITS
MOST_DEPTH = 16
READ_ONLY = (REG.VERSION, REG.CONTROLLER_VERSION, REG.CAPS, REG.DEV_STS)
UNKNOWN = (0x0C, 0x30, 0x44, 0x6C, 0x7C, 0x100, 0xFFC)
MASKED_AT = 12


class AdminRing(NamedTuple):
    """Registers of an admin ring: both halves of its base, and depth with entry size; the valid
    entry sizes in bytes."""

    low: defs.Reg
    high: defs.Reg
    caps: defs.Reg
    sizes: tuple[int, ...]


RINGS = (
    AdminRing(REG.AQ_BASE_LO, REG.AQ_BASE_HI, REG.AQ_CAPS, (64, 128)),
    AdminRing(REG.ACQ_BASE_LO, REG.ACQ_BASE_HI, REG.ACQ_CAPS, (64,)),
    AdminRing(REG.AENQ_BASE_LO, REG.AENQ_BASE_HI, REG.AENQ_CAPS, (64,)),
)


class Registers:
    """Makes stores to one device; `invalid` is the share of stores that no driver makes."""

    def __init__(self, backend: Any, rng: Random, invalid: float = 0.5) -> None:
        self.backend, self.rng, self.invalid = backend, rng, invalid
        self.driver = Driver(backend)
        backend.set_bus_master(True)
        self.driver.set_response_address()
        self.rings = self.driver.allocator.alloc(len(RINGS) * PAGE_BYTES)
        self.produced = 0

    def some(self, count: int) -> None:
        """Makes `count` random accesses; afterwards all vectors are unmasked."""
        valid = (self.read, self.load, self.base, self.ring, self.mask, self.vector, self.knock)
        anomaly = (self.partial, self.unknown, self.read_only, self.bad_ring, self.bad_doorbell,
               self.consumed, self.control)  # fmt: skip
        for _ in range(count):
            self.rng.choice(anomaly if self.rng.random() < self.invalid else valid)()
        self.store(REG.INTR_MASK, 0)
        for _, offset, data in msix_table_stores():
            self.backend.store(BAR, offset, data)
        self.backend.settle()

    def store(self, register: Any, value: int) -> None:
        """Stores a complete dword."""
        self.backend.store(BAR, int(register), value.to_bytes(4, "little"))

    # Accesses that drivers make, in any order

    def read(self) -> None:
        self.driver.read_register(self.rng.choice((*REG, *UNKNOWN)))

    def load(self) -> None:
        size = self.rng.choice((1, 2, 4, 8))
        self.backend.load(BAR, self.rng.randrange(0, 0x100, size), size)

    def base(self) -> None:
        number = self.rng.randrange(len(RINGS))
        ring = RINGS[number]
        place = self.rings + number * PAGE_BYTES + self.rng.choice((0, 0x40, 0x7F))
        stores = [(ring.low, place & 0xFFFF_FFFF), (ring.high, place >> 32)]
        self.rng.shuffle(stores)
        for register, value in stores:
            self.store(register, value)

    def ring(self) -> None:
        """Enables a ring, newly or again, while the device is idle."""
        ring = RINGS[self.rng.randrange(len(RINGS))]
        self.base()
        self.backend.settle()
        self.store(ring.caps, self.rng.choice(ring.sizes) << 16 | 1 << self.rng.randrange(5))
        self.backend.settle()

    def mask(self) -> None:
        self.backend.settle()
        self.store(REG.INTR_MASK, self.rng.getrandbits(1))
        self.backend.settle()

    def vector(self) -> None:
        """Masks or unmasks a vector."""
        self.backend.settle()
        place = LIMITS.msix_table_offset + MASKED_AT
        place += MSIX_ENTRY_BYTES * self.rng.randrange(LIMITS.msix_vectors)
        self.backend.store(BAR, place, self.rng.getrandbits(1).to_bytes(4, "little"))
        self.backend.settle()

    def knock(self) -> None:
        """Rings the AQ doorbell for zero AQEs, if the ring is enabled and has free space."""
        self.store(REG.AQ_PROD_DB, self.rng.randrange(1 + MOST_DEPTH))
        self.backend.settle()

    # Accesses that no driver makes

    def partial(self) -> None:
        """Stores less than a dword, or across dword boundaries."""
        size = self.rng.choice((1, 2, 3, 5, 6, 7))
        at = 4 * self.rng.randrange(0x70 // 4) + self.rng.randrange(1, 4)
        size = min(size, 3 if size < 4 else 4 - at % 4 + 3, 64 - at % 64)
        if at // 4 != (at + size - 1) // 4 or size < 4:
            self.backend.store(BAR, at, bytes(size))

    def unknown(self) -> None:
        self.backend.store(BAR, self.rng.choice(UNKNOWN), self.rng.randbytes(4))

    def read_only(self) -> None:
        self.store(self.rng.choice(READ_ONLY), self.rng.getrandbits(32))

    def bad_ring(self) -> None:
        """Stores an invalid depth or entry size, which disables the ring."""
        ring = self.rng.choice(RINGS)
        self.backend.settle()
        depth, size = self.rng.choice(((0, 64), (3, 64), (2048, 64), (16, 32), (16, 0), (24, 128)))
        self.store(ring.caps, size << 16 | depth)

    def bad_doorbell(self) -> None:
        """Stores a producer index far beyond any ring."""
        self.store(REG.AQ_PROD_DB, self.rng.randrange(0x2000, 0xE000))

    def consumed(self) -> None:
        """Consumes events that were never written."""
        self.store(REG.AENQ_CONS_DB, self.rng.choice((0, 1, 5, 0xFFFF_FFFF)))

    def control(self) -> None:
        """Stores the end of a reset that never began, or a bit without function."""
        self.store(REG.DEV_CTL, self.rng.choice((0, 2)))
