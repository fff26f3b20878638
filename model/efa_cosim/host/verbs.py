# SPDX-License-Identifier: Apache-2.0
"""Provider half of the host software: what libefa does in user space, without the kernel.

A Context is one process that opened the device. It owns a UAR and one store buffer; all objects
of the process belong to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from efa_cosim.host import arguments
from efa_cosim.host.alloc import PAGE_BYTES
from efa_cosim.host.completion_counter import CompletionCounter
from efa_cosim.host.completion_queue import RX_ENTRY, CompletionQueue
from efa_cosim.host.driver_objects import LOCAL_ACCESS, Access
from efa_cosim.host.memory_region import FIRST_IOVA, PAGE_SHIFT, MemoryRegion
from efa_cosim.host.provider import Provider
from efa_cosim.host.queue_pair import QueuePair
from efa_cosim.host.wc import StoreBuffer, WcBuffer
from efa_cosim.layouts import defs

if TYPE_CHECKING:
    from efa_cosim.boundary.backend import Store
    from efa_cosim.host.driver import Driver


def gid_of(node_id: int) -> bytes:
    """Returns the GID of a fabric node, 16 bytes."""
    prefix = defs.LIMITS.gid_prefix
    return prefix + node_id.to_bytes(len(defs.AdminCreateAhCmd().dest_addr) - len(prefix), "big")


class Context:
    """One opened device: a process with its UAR and its store buffer.

    - `driver`: the driver, after probe()
    - `buffer`: how the CPU combines stores, a `StoreBuffer` or its text; None: the default of the
      backend
    - `seed`: seed of the random choices of the store buffer
    - `provider`: converts WQEs into stores; by default the correct one

    Attributes: `driver`, `backend`, `uar`, `qps` (queue pairs by number).
    """

    def __init__(
        self,
        driver: Driver,
        buffer: StoreBuffer | str | None = None,
        seed: int = 0,
        provider: Provider | None = None,
    ) -> None:
        self.driver, self.backend = driver, driver.backend
        self.provider = provider or Provider()
        self.qps: dict[int, QueuePair] = {}
        self._posted: list[Store] = []
        self._cpus: list[WcBuffer] = []
        self.buffer = StoreBuffer.of(buffer or self.backend.store_buffer)
        self.wc = self.cpu(seed)
        self._next_iova = FIRST_IOVA
        self.uar = driver.alloc_uar()

    def alloc_pd(self) -> ProtectionDomain:
        """Allocates a protection domain; returns a `ProtectionDomain`."""
        return ProtectionDomain(self)

    def create_cq(self, depth: int, **options: Any) -> CompletionQueue:
        """Creates a `CompletionQueue` with at least `depth` entries in each sub-queue.

        The options are those of CompletionQueue. Raises VerbsError or DriverError.
        """
        arguments.whole("the depth of the completion queue", depth, 32)
        if "entry_bytes" in options:
            arguments.entry_bytes(options["entry_bytes"], RX_ENTRY)
        return CompletionQueue(self, depth, **options)

    def create_counter(self) -> CompletionCounter:
        """Creates a `CompletionCounter`, not attached to a queue pair; raises DriverError."""
        return CompletionCounter(self)

    def close(self) -> None:
        """Closes the device; all its objects must be destroyed before."""
        self.driver.dealloc_uar(self.uar)

    def new_iova(self, length: int, offset: int) -> int:
        """Allocates a unique user address range, offset bytes into a page."""
        iova = self._next_iova + offset
        pages = -(-(offset + length) // PAGE_BYTES)
        self._next_iova += (pages + 1) * PAGE_BYTES
        return iova

    # Stores: collected during a call, posted together at its end.

    def cpu(self, seed: float) -> WcBuffer:
        """Adds a CPU that runs this process; returns its store buffer."""
        self._cpus.append(WcBuffer(self._posted.extend, self.buffer, seed))
        return self._cpus[-1]

    def enter_kernel(self) -> None:
        """System call: flushes the CPUs' store buffers before the kernel acts on a queue."""
        for cpu in self._cpus:
            cpu.flush()
        self.push()

    def ring(self, offset: int, value: int) -> None:
        """Writes a doorbell: a 32-bit store to uncached memory at an offset of the doorbell BAR.
        push() posts it."""
        self.wc.uncached(self.driver.db_bar, offset, value.to_bytes(4, "little"))

    def push(self) -> None:
        """Posts the collected stores to the bus."""
        if self._posted:
            items, self._posted[:] = list(self._posted), []
            self.backend.stores(items)


class ProtectionDomain:
    """A protection domain: owns memory regions, address handles and queue pairs. `number` is its
    number."""

    def __init__(self, context: Context) -> None:
        self.context, self.driver = context, context.driver
        self.number = self.driver.alloc_pd()

    def dealloc(self) -> None:
        """Deallocates the domain."""
        self.driver.dealloc_pd(self.number)

    def reg_mr(
        self,
        length: int,
        access: Access = LOCAL_ACCESS,
        offset: int = 0,
        scattered: bool = False,
    ) -> RegisteredRegion:
        """Allocates and registers a buffer; returns a `RegisteredRegion`.

        - `length`: bytes
        - `access`: access rights, an `Access`
        - `offset`: bytes into its first page at which the buffer starts
        - `scattered`: single pages in random order instead of contiguous ones

        Raises VerbsError for a wrong argument, DriverError if the device refuses, OutOfHostMemory
        if no host memory is left.
        """
        length = arguments.whole("the length of the memory region", length, 64)
        access = arguments.access(access)
        allocator = self.driver.allocator
        count = max(1, -(-(offset + length) // PAGE_BYTES))
        if scattered:
            pages = allocator.scattered(count)
            blocks = list(pages)
        else:
            base = allocator.alloc(count * PAGE_BYTES)
            pages = [base + i * PAGE_BYTES for i in range(count)]
            blocks = [base]
        iova = self.context.new_iova(length, offset)
        region = RegisteredRegion(self.driver, blocks, pages, iova, length)
        region.register(self.number, access)
        return region

    def create_ah(self, gid: bytes) -> AddressHandle:
        """Creates an `AddressHandle` for a GID of 16 bytes, as gid_of returns it.

        Raises VerbsError for anything else, DriverError if the device refuses.
        """
        return AddressHandle(self, arguments.gid(gid))

    def create_qp(
        self,
        send_cq: CompletionQueue,
        recv_cq: CompletionQueue,
        kind: defs.AdminQpType = defs.AdminQpType.SRD,
        **options: Any,
    ) -> QueuePair:
        """Creates a `QueuePair` in state RESET; options are those of QueuePair.

        Raises VerbsError for a wrong argument or too many inline bytes, DriverError if the device
        refuses.
        """
        arguments.queue("send_cq", send_cq)
        arguments.queue("recv_cq", recv_cq)
        for name in ("max_send_wr", "max_recv_wr", "max_recv_sge", "max_inline"):
            arguments.whole(name, options.get(name, 1), 32)
        return QueuePair(self, send_cq, recv_cq, arguments.kind(kind), **options)


class RegisteredRegion(MemoryRegion):
    """A buffer registered by the driver; ProtectionDomain.reg_mr returns it.

    `addr` is its first address in work requests, `length` its size in bytes; `l_key` and `r_key`
    are its keys.
    """

    def __init__(
        self,
        driver: Driver,
        blocks: Sequence[int],
        pages: Sequence[int],
        iova: int,
        length: int,
    ) -> None:
        super().__init__(driver.memory, pages, iova, length)
        self._driver, self._blocks = driver, blocks

    def register(self, pd: int, access: Access) -> None:
        """Executes REG_MR; frees the memory if the registration is refused."""
        try:
            response = self._driver.reg_mr(
                pd, self.iova, self.length, self.pages, PAGE_SHIFT, access)
        except Exception:
            self.free()
            raise
        self.l_key, self.r_key = response.l_key, response.r_key

    def dereg(self) -> None:
        """Executes DEREG_MR and frees the memory."""
        self._driver.dereg_mr(self.l_key)
        self.free()

    def free(self) -> None:
        """Frees the memory of a region that the device has deregistered."""
        for block in self._blocks:
            self._driver.allocator.free(block)


class AddressHandle:
    """The destination of a send; ProtectionDomain.create_ah returns it. `number` is its number."""

    def __init__(self, pd: ProtectionDomain, gid: bytes) -> None:
        self._pd = pd
        self.gid = gid
        self.number = pd.driver.create_ah(pd.number, gid)

    def destroy(self) -> None:
        """Destroys the handle."""
        self._pd.driver.destroy_ah(self._pd.number, self.number)
