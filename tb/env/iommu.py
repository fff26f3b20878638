# SPDX-License-Identifier: Apache-2.0
"""Maps the memory of live objects in the IOMMU of a simulated host.

A reference device that executes only what the host posts reports the live objects. It executes a
command when its doorbell is posted, as an operating system maps memory before it names it to the
device. The admin response that confirms the removal of the object releases the memory
(tb/native/iommu.h): a later access fails the run.

| owner | rights |
|---|---|
| AQ | read |
| ACQ, AENQ, CQ, EQ, event counters, register responses | write |
| receive and host send rings of a queue pair outside RESET | read |
| memory region, while a queue pair of its protection domain is outside RESET | read, write |
| page lists and control buffers, until their command has its response | read |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

from efa_cosim.boundary.memory import HostMemory
from efa_cosim.device.device import Device
from efa_cosim.layouts import defs

if TYPE_CHECKING:
    from efa_cosim.device.objects import Counter, Cq, Eq, Mr, Qp
    from tb.lib.native import NativeIommu

ENTRY = defs.AdminAcqEntry.SIZE
RESPONSE_BYTES = defs.AdminMmioReqReadLessResp.SIZE
COUNTER_BYTES = 8
READ, WRITE = 1, 2
RESET = defs.AdminQpState.RESET
# Name of the owner, its ranges (address, size) and the rights of the device.
Owned: TypeAlias = tuple[str, list[tuple[int, int]], int]
OP = defs.AdminAqOpcode
# Commands that create or remove objects or change their access rights.
CHANGING = {
    OP.CREATE_QP, OP.MODIFY_QP, OP.DESTROY_QP, OP.REG_MR, OP.ALLOC_MR, OP.DEREG_MR, OP.CREATE_CQ,
    OP.DESTROY_CQ, OP.CREATE_EQ, OP.DESTROY_EQ, OP.CREATE_EVENT_COUNTER, OP.DESTROY_EVENT_COUNTER,
}  # fmt: skip


def merged(pieces: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Joins adjacent ranges (address, size); the order is kept."""
    result: list[tuple[int, int]] = []
    for address, size in pieces:
        if result and sum(result[-1]) == address:
            result[-1] = (result[-1][0], result[-1][1] + size)
        else:
            result.append((address, size))
    return result


def queue_pair(qp: Qp) -> Owned:
    """Returns the ranges that a queue pair outside RESET reads."""
    ranges = [(qp.rq_base, qp.rq.depth * defs.IoRxDesc.SIZE)]
    if qp.sq_base:
        ranges.append((qp.sq_base, qp.sq.depth * qp.wqe_bytes))
    return f"rings of queue pair {qp.number:#x}", ranges, READ


def region(mr: Mr) -> Owned:
    """Returns the ranges of a memory region."""
    rights = READ | WRITE if mr.local_write else READ
    return f"memory region {mr.key:#x}", merged(mr.pieces(mr.iova, mr.length)), rights


def completion_queue(cq: Cq) -> Owned:
    """Returns the range of a CQ: its rings are contiguous."""
    size = sum(ring.depth for ring in cq.rings) * cq.entry_bytes
    return f"completion queue {cq.index}", [(cq.base, size)], WRITE


def event_queue(eq: Eq) -> Owned:
    """Returns the range of an EQ ring."""
    return f"event queue {eq.index}", [(eq.base, eq.ring.depth * defs.AdminEqe.SIZE)], WRITE


def counter(one: Counter) -> Owned:
    """Returns the range of an event counter value."""
    return f"event counter {one.index}", [(one.address, COUNTER_BYTES)], WRITE


class HostView(HostMemory):
    """Host memory as the host sees it; what the reference device writes is dropped."""

    def __init__(self, memory: Any) -> None:
        super().__init__()
        # Replaces the method on this object: reads are those of the given memory.
        self.peek = memory.read  # type: ignore[method-assign]

    def poke(self, address: int, data: bytes) -> None:
        """Drops a write."""


class IommuDriver:
    """Maps and releases the memory of the objects that a host creates and removes.

    `live` is LiveMemory or a deliberately wrong variant; `options` are those of device.Device.
    """

    def __init__(
        self,
        iommu: NativeIommu,
        memory: Any,
        node_id: int,
        live: type[LiveMemory] | None = None,
        **options: Any,
    ) -> None:
        self._device = Device(HostView(memory), node_id=node_id, **options)
        self._live = (live or LiveMemory)(iommu, self._device)

    def store(self, bar: int, offset: int, data: bytes) -> None:
        """Follows a store that the host is about to post."""
        if bar == defs.EFA_REG_BAR:
            with self._live.commands():
                self._device.store(bar, offset, data)

    def set_bus_master(self, on: bool) -> None:
        """Follows a switch of bus mastering: commands are held while it is off."""
        with self._live.commands():
            self._device.set_bus_master(bool(on))

    def flr(self) -> None:
        """Follows a function-level reset."""
        self._live.reset_posted()
        with self._live.commands():
            self._device.flr()

    def fail(self, address: int, size: int) -> None:
        """Follows a range of host memory whose reads fail from now on."""
        self._device.memory.fail(address, size)


class LiveMemory:
    """Follows one reference device and maps the memory of its objects; `iommu` is a NativeIommu."""

    # States in which a queue pair owns no memory.
    idle_states: tuple[defs.AdminQpState, ...] = (RESET,)

    def __init__(self, iommu: NativeIommu, device: Device) -> None:
        self.iommu, self.device = iommu, device
        self._idents = count(1)
        self._objects: Any
        self._mapped: dict[Any, int]
        self._rings: dict[str, tuple[int, int, int]]
        self._objects, self._reset_posted = None, False
        self._responses: set[int] = set()
        self._reads: list[tuple[int, int]]
        self._reads, self._noting = [], False
        self._write, device.on_dma_write = device.on_dma_write, self._on_write
        # Replaces the method on this object, to see each read of the device.
        self._read, device.memory.read = device.memory.read, self._on_read  # type: ignore[method-assign]
        iommu.enable()
        self._restart()

    @contextmanager
    def commands(self) -> Iterator[None]:
        """Encloses host actions that may execute commands, enable rings or begin a reset."""
        self._reads, self._noting = [], True
        yield
        self._noting = False
        self._follow()

    def reset_posted(self) -> None:
        """Records a posted reset; the present mappings end when the device has drained."""
        self.iommu.reset()
        self._reset_posted = True

    def _follow(self) -> None:
        if self.device.objects is not self._objects:
            if not self._reset_posted:
                self.iommu.reset()
            self._reset_posted = False
            self._restart()
        self._find_queues()

    def _restart(self) -> None:
        self._objects, self._mapped = self.device.objects, {}
        self._rings = {}

    # Model activity during a command.

    def _on_read(self, address: int, size: int) -> bytes:
        if self._noting:
            self._reads.append((address, size))
        return self._read(address, size)

    def _on_write(self, address: int, data: bytes) -> None:
        admin = self.device.admin
        if self.device.objects is not self._objects:
            self._follow()
        if admin.acq is not None and len(data) == ENTRY:
            offset = address - admin.acq_base
            if 0 <= offset < ENTRY * admin.acq.depth:
                self._find_queues()
                self._responded(int.from_bytes(data[:2], "little"))
        if self._write is not None:
            self._write(address, data)

    def _responded(self, command: int) -> None:
        """Releases at the response what the command read and the objects that it removed."""
        gone = self._update() if self.device.admin.current[0] in CHANGING else []
        if self._reads:
            ident = next(self._idents)
            self.iommu.map(ident, "what a command names", self._reads, READ)
            gone.append(ident)
            self._reads = []
        self.iommu.release_at(command, gone)

    def _update(self) -> list[int]:
        """Maps new objects; returns the identifiers of removed objects."""
        objects = self._objects
        pairs = [qp for qp in objects.qps.live.values() if qp.state not in self.idle_states]
        domains = {qp.pd for qp in pairs}
        live: dict[Any, Callable[[Any], Owned]]
        live = dict.fromkeys(pairs, queue_pair)
        live |= {mr: region for mr in objects.mrs.live.values() if mr.pd in domains}
        for table, describe in ((objects.cqs, completion_queue), (objects.eqs, event_queue),
                                (objects.counters, counter)):  # fmt: skip
            live |= dict.fromkeys(table.live.values(), describe)
        for item in live.keys() - self._mapped.keys():
            self._mapped[item] = ident = next(self._idents)
            self.iommu.map(ident, *live[item](item))
        return [self._mapped.pop(item) for item in self._mapped.keys() - live.keys()]

    # Registers name the rings of the admin queues; the rings stay mapped until a reset.

    def _find_queues(self) -> None:
        device, admin = self.device, self.device.admin
        rings = {}
        if admin.aq is not None:
            rings["admin queue"] = admin.aq_base, admin.aq_entry_bytes * admin.aq.depth, READ
        if admin.acq is not None:
            rings["admin completion queue"] = admin.acq_base, ENTRY * admin.acq.depth, WRITE
        if admin.events.ring is not None:
            size = defs.AdminAenqEntry.SIZE * admin.events.ring.depth
            rings["asynchronous event queue"] = admin.events.base, size, WRITE
        for name, place in rings.items():
            if self._rings.get(name) != place:
                self._rings[name] = place
                *span, rights = place
                # A span is address and size; mypy loses their number at the star.
                self.iommu.map(next(self._idents), name, [tuple(span)], rights)  # type: ignore[list-item]
                if name == "admin completion queue":
                    self.iommu.responses(*span)
        response = (
            device.register_pair(defs.Reg.MMIO_RESP_LO, defs.Reg.MMIO_RESP_HI) & -RESPONSE_BYTES
        )
        if response not in self._responses:
            # Register responses survive a reset and may follow a change of the address.
            self._responses.add(response)
            self.iommu.map(
                0, "register responses", [(response, RESPONSE_BYTES)], WRITE, forever=True
            )
