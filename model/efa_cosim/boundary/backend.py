# SPDX-License-Identifier: Apache-2.0
"""Defines the interface of host software to one device and the memory shared with it.

All backends offer the same synchronous calls; driver, verbs and player use no other access to the
device. Software calls `wait` to wait, never a loop of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Self, TypeAlias

from efa_cosim.layouts import defs

# BAR, offset, bytes.
Store: TypeAlias = tuple[int, int, bytes]

MSIX_ADDRESS = 0xFEE0_0000
MSIX_ADDRESS_STEP = 16
MSIX_ENTRY_BYTES = 16
DEFAULT_TIMEOUT_CYCLES = 1_000_000


class WatchedWord(NamedTuple):
    """A word of host memory that a wait watches: complete when `value` is in the bits of `mask`."""

    address: int
    mask: int
    value: int


# The word to watch now, None if there is none.
Word: TypeAlias = Callable[[], WatchedWord | None]


class DeviceTimeout(Exception):
    """The condition that the host waits for did not become true in time."""


class BackendUnavailable(Exception):
    """The backend cannot run here; the text names what is missing."""


class Backend(ABC):
    """One device and its host memory; `open_backend` returns it.

    Attributes:

    - `name`: name of the backend
    - `memory`: host memory as the CPU sees it, with read(address, size) and write(address, data);
      on the RTL also with fail(address, size) and heal(), as in `HostMemory`
    - `node_id`: number of the device in the fabric
    - `store_buffer`: how the CPUs of this host combine stores, a `StoreBuffer` or its text
    - `sq_host`: True if the device fetches send WQEs from host memory (build option SQ_HOST); host
      software cannot discover it
    - `tick_cycles`: device cycles of a tick of the transport's timers; not discoverable either
    """

    name = "backend"
    memory: Any = None
    node_id: int = 0
    # How the CPUs of this host combine stores (efa_cosim.host.wc.StoreBuffer or its text).
    store_buffer: Any = "ideal"
    # The device fetches send WQEs from host memory (build option SQ_HOST); not discoverable.
    sq_host = False
    tick_cycles: int = defs.TRANSPORT.tick_cycles

    @abstractmethod
    def stores(self, items: Iterable[Store]) -> None:
        """Executes posted host stores (bar, offset, bytes) in order; each is inside one 64-byte
        line."""

    @abstractmethod
    def load(self, bar: int, offset: int, size: int) -> bytes:
        """Returns `size` bytes of a BAR at `offset`."""

    @abstractmethod
    def wait(
        self,
        condition: Callable[[], object],
        timeout_cycles: int = DEFAULT_TIMEOUT_CYCLES,
        word: Word | None = None,
    ) -> None:
        """Runs the device until condition() is true.

        - `timeout_cycles`: limit in device cycles; the model counts rounds of its fabric instead
        - `word`: function that returns a word of host memory (address, mask, value) that must match
          before condition() can be true, or None; a backend that watches the word calls condition()
          less often

        Raises DeviceTimeout at the limit, or when the device is idle and condition() is still
        false.
        """

    @abstractmethod
    def settle(self) -> None:
        """Runs device and fabric until nothing is outstanding."""

    @abstractmethod
    def interrupts(self) -> list[int]:
        """Returns the MSI-X vectors that arrived since the last call, in order."""

    @abstractmethod
    def writes(self) -> list[tuple[int, bytes]]:
        """Returns the DMA writes (address, bytes) since the last call, in order and without
        interrupts; none unless the backend records."""

    @abstractmethod
    def packets(self) -> list[bytes]:
        """Returns the packets that left the device since the last call, as bytes; none unless the
        backend records."""

    @abstractmethod
    def flr(self) -> None:
        """Does a function-level reset; the PCI core then initializes the MSI-X table again."""

    @abstractmethod
    def set_bus_master(self, on: bool) -> None:
        """Sets or clears bus master enable of the PCI command register."""

    @abstractmethod
    def set_function_mask(self, on: bool) -> None:
        """Sets or clears the function mask of the MSI-X capability; the device must be idle."""

    @property
    @abstractmethod
    def cycles(self) -> int:
        """Device cycles so far; 0 for a backend without time."""

    def store(self, bar: int, offset: int, data: bytes) -> None:
        """Executes one posted host store of 1 to 64 bytes inside one 64-byte line."""
        self.stores([(bar, offset, data)])

    def close(self) -> None:  # noqa: B027 - most backends hold nothing
        """Releases the resources of the backend: a simulator, shared memory."""

    def abort(self) -> None:
        """Releases the resources at once, without a check for errors."""
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_exc: object) -> None:
        if kind is None:
            self.close()
            return
        try:
            self.abort()
        except (OSError, RuntimeError):
            # The first error is reported; a simulator failure during the cleanup adds nothing.
            return


def msix_table_stores(vectors: int | None = None) -> list[Store]:
    """Stores of the PCI core software that initialize the MSI-X table, all vectors unmasked."""
    stores = []
    for vector in range(defs.LIMITS.msix_vectors if vectors is None else vectors):
        address = MSIX_ADDRESS + vector * MSIX_ADDRESS_STEP
        entry = address.to_bytes(8, "little") + vector.to_bytes(4, "little") + bytes(4)
        offset = defs.LIMITS.msix_table_offset + vector * MSIX_ENTRY_BYTES
        stores += [(defs.EFA_REG_BAR, offset + at, entry[at : at + 4]) for at in range(0, 16, 4)]
    return stores


def profile_strap(name: str) -> int:
    """Returns the value of the port s_cfg_profile for a profile of spec/limits.yaml.

    Raises ValueError for another name."""
    return tuple(defs.PROFILES).index(name)
