# SPDX-License-Identifier: Apache-2.0
"""Predicts the outputs of one device: a reference model that receives the same stores.

The outputs are sorted so that the comparison does not depend on the device's timing: admin
responses by command id, completions by queue pair, packets by sender and receiver, payload by
address. A reset takes effect in the model when the device reports its begin; later stores wait for
it.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from efa_cosim.boundary.memory import Memory
from efa_cosim.device.admin_counters import COUNTER_BYTES
from efa_cosim.device.admin_engine import CRC_VERSION
from efa_cosim.device.async_events import COUNT_MASK
from efa_cosim.device.device import Device
from efa_cosim.device.interrupts import ENTRY_BYTES
from efa_cosim.layouts import defs
from efa_cosim.layouts.codec import crc16
from efa_cosim.layouts.wire import precompiled
from efa_cosim.session.regions import ADMIN_RESPONSE, ASYNC_EVENT, COMPLETION, EVENT
from tb.env.notification import AdminMessages, CompletionQueue, EventQueue
from tb.env.payload import DuePayload, Joined, Message

if TYPE_CHECKING:
    from efa_cosim.device.completion import Completions
    from efa_cosim.device.interrupts import Interrupts
    from efa_cosim.device.objects import Cq, Mr
    from efa_cosim.device.rdma import Transfer
    from efa_cosim.device.ring import EntryRing

PAGE_BYTES = 4096
# Allocation of the last free message context depends on time: here the model never runs out.
UNBOUND = {"msg_w": 24}
# Place of the ring, QP number and queue type.
CompletionKey: TypeAlias = tuple[tuple[int, int], int, int]


class Command(NamedTuple):
    """An admin command that has ended; `opcode` is None if the entry could not be read, `slot` is
    that of the entry in its ring."""

    opcode: int | None
    status: int
    slot: int
    depth: int
    version: int


class Route(NamedTuple):
    """Opcode, sender and receiver of a packet. Packets of one route keep their order; packets of
    different routes may be reordered."""

    opcode: int
    src_qpn: int
    dst_qpn: int
    src_node: int
    dst_node: int


class RingGeometry(NamedTuple):
    """A ring that the device writes: kind, number of its queue, subqueue, address and sizes."""

    kind: str
    number: int
    sub: int
    base: int
    entry_bytes: int
    depth: int


def pages(start: int, end: int) -> range:
    """Returns the addresses of the pages that a range touches."""
    return range(start // PAGE_BYTES * PAGE_BYTES, end, PAGE_BYTES)


def rdma_bytes(mtu: int) -> int:
    """Returns the payload of the RDMA packets of a device: a power of two (decision 0011)."""
    return 1 << mtu.bit_length() - 1


class Ring:
    """A ring that the device writes, and the number of entries written so far.

    `bounds` limits the events or messages that its entries permit (tb/env/notification.py).
    """

    bounds: Any = None

    def __init__(self, geometry: RingGeometry) -> None:
        self.kind, self.number, self.sub = geometry.kind, geometry.number, geometry.sub
        self.base, self.depth = geometry.base, geometry.depth
        self.entry_bytes = geometry.entry_bytes
        self.end = self.base + self.entry_bytes * self.depth
        self.written = 0
        self.place = self.number, self.sub

    def __repr__(self) -> str:
        return f"{self.kind} ring {self.number}.{self.sub}"


_PHASE_AT = {ADMIN_RESPONSE: 3, COMPLETION: 3, EVENT: 0, ASYNC_EVENT: 4}
_TIME = slice(8, 16)


def clear_phase(kind: str, entry: bytes) -> tuple[bytes, int]:
    """Returns the entry without its phase bit, and the bit."""
    at = _PHASE_AT[kind]
    byte = entry[at]
    if byte & 1:
        return entry[:at] + bytes((byte & 0xFE,)) + entry[at + 1 :], 1
    return entry, 0


def clear_time(entry: bytes) -> bytes:
    """Returns an AENQ entry with its time cleared: each device has its own clock."""
    return entry[: _TIME.start] + bytes(8) + entry[_TIME.stop :]


def is_keep_alive(entry: bytes) -> bool:
    """True for a keep-alive, which the device sends on its own."""
    return int.from_bytes(entry[:2], "little") == defs.AdminAenqGroup.KEEP_ALIVE


def time_of(entry: bytes) -> int:
    """Returns the time of an AENQ entry, in cycles of the device."""
    return int.from_bytes(entry[_TIME], "little")


def clear_checksum(entry: bytes, version: int) -> bytes:
    """Returns an ACQE without its checksum; raises ValueError if the checksum is wrong."""
    bare = defs.AdminAcqEntry.unpack(entry)
    head = bare.acq_common_descriptor
    checksum, head.checksum = head.checksum, 0
    wanted = crc16(bare.pack()) if version >= CRC_VERSION else 0
    if checksum != wanted:
        raise ValueError(f"checksum {checksum:#06x}, should be {wanted:#06x}")
    return bare.pack()


_ROUTE = precompiled(defs.PktHdr, *Route._fields)
_ENTRY = precompiled(defs.IoCdescCommon, "flags", "qp_num")
_ENTRY_HEAD = precompiled(defs.IoCdescCommon, "req_id", "status")
REQ_ID_MASK = (1 << 8 * defs.IoCdescCommon.req_id.size) - 1
_RESPONSE_BYTES = defs.AdminMmioReqReadLessResp.SIZE
_Q_TYPE_LSB = defs.IoCdescCommon.q_type.lsb
_ARM_LSB, _CONSUMER_MASK = 31, 0xFFFF
SEND_QUEUE = int(defs.IoQueueType.SEND_QUEUE)
_PSN = defs.PktHdr.psn.offset
_MSG_ID_END = defs.PktHdr.msg_id.offset + defs.PktHdr.msg_id.size
_PATH = defs.PktHdr.path.offset


psn_of = precompiled(defs.PktHdr, "psn").unpack_from


def route_of(packet: bytes) -> Route:
    """Returns the route of a packet."""
    return Route(*_ROUTE.unpack_from(packet))


def same_packet(one: bytes, other: bytes) -> bool:
    """True for packets equal except for the fields that a device chooses: psn, msg_id, path."""
    return one == other or (
        one[:_PSN] == other[:_PSN]
        and one[_MSG_ID_END:_PATH] == other[_MSG_ID_END:_PATH]
        and one[_PATH + 1 :] == other[_PATH + 1 :]
    )


class Vectors:
    """Decides which messages the MSI-X table permits, now or at the time of the message."""

    def __init__(self, interrupts: Interrupts) -> None:
        self._interrupts = interrupts
        self.of_message: dict[tuple[int, int], int] = {}
        # Vectors that were masked when the device was at rest, and not unmasked since.
        self.masked: set[int]
        self.masked, self.admin_masked = set(), False
        write_table = interrupts.write_table

        def noted(offset: int, value: int) -> None:
            write_table(offset, value)
            vector = offset // ENTRY_BYTES
            low, high, data, control = interrupts.table[vector]
            self.of_message[high << 32 | low, data] = vector
            if not control & 1:
                self.masked.discard(vector)

        # Replaces the method on this object, to see each write of the table.
        interrupts.write_table = noted  # type: ignore[method-assign]

    def blocks(self, vector: int) -> bool:
        """True if a message of this vector may be pending or lost.

        A vector beyond the table has no messages.
        """
        interrupts = self._interrupts
        return (
            not interrupts.enabled or interrupts.function_mask or vector >= interrupts.vectors
            or bool(interrupts.table[vector][3] & 1)
        )  # fmt: skip

    def opened(self) -> None:
        """Updates the masked vectors after a possible clear of the function mask."""
        self.masked = set(filter(self.blocks, self.masked))

    def admin_opened(self, masked: bool) -> None:
        """Records the value of INTR_MASK."""
        self.admin_masked &= masked

    def rest(self, admin_masked: bool) -> None:
        """The device is at rest: a masked vector sends no message until it is unmasked."""
        self.masked = set(filter(self.blocks, range(self._interrupts.vectors)))
        self.admin_masked = admin_masked


class Predictor:
    """One reference device and its outstanding outputs."""

    def __init__(
        self,
        node_id: int,
        profile: str,
        limits: dict[str, int] | None = None,
        **straps: Any,
    ) -> None:
        self.memory = Memory()
        self._by_page: defaultdict[int, list[Ring]] = defaultdict(list)
        self.device = Device(
            self.memory,
            node_id=node_id,
            profile=profile,
            limits={**(limits or {}), **UNBOUND},
            **straps,
        )
        self.device.rdma_bytes = rdma_bytes(self.device.profile.mtu)
        self.device.on_dma_write = self._on_write
        self.device.on_packet = self._on_packet
        self.device.on_interrupt = self._on_interrupt
        self.responses: defaultdict[int, deque[tuple[bytes, Command]]] = defaultdict(deque)
        self.async_events: deque[bytes] = deque()
        # Entries of each key, and the payload that the device writes before each entry, if any.
        self.completions: defaultdict[CompletionKey, list[bytes]] = defaultdict(list)
        self.messages: defaultdict[CompletionKey, list[Message | Joined | None]]
        self.messages = defaultdict(list)
        # Payload of open reads by QP number and request id.
        self.reads: dict[tuple[int, int], Joined] = {}
        # Deregistered regions by the id of their command, until the device has responded.
        self.leaving: dict[int, Mr] = {}
        self._regions: dict[int, Mr] = {}
        self.payload = DuePayload()
        self._message: Message | None = None
        self.register_responses: deque[tuple[int, bytes, bool]] = deque()
        self.packets: defaultdict[Route, deque[bytes]] = defaultdict(deque)
        self.interrupts: Counter[int] = Counter()
        self.touched: set[int] = set()
        # A reset that the host posted and the device has not begun, with the host's later actions.
        # Between begin and end of a reset, outstanding entries may leave or not.
        self.waiting: deque[Callable[[], object]] = deque()
        self.resetting = self._cancels_responses = False
        # The device may report a reset in progress that the model has finished.
        self.unfinished = False
        self.cycle, self.bus_master = 0, True
        self.vectors = Vectors(self.device.interrupts)
        self._observed: Completions | None = None
        self._cancel_rings()
        self._observe()

    def store(self, bar: int, offset: int, data: bytes, cycle: int = 0) -> None:
        """Applies a host store accepted in `cycle` and finds the rings that it created."""
        if self.waiting:
            self.waiting.append(lambda: self.store(bar, offset, data, cycle))
        elif bar == defs.EFA_REG_BAR and self._resets(offset, data):
            self.waiting.append(lambda: self._store(bar, offset, data, cycle))
        else:
            self._store(bar, offset, data, cycle)

    def _store(self, bar: int, offset: int, data: bytes, cycle: int) -> None:
        self.cycle = cycle
        if bar != defs.EFA_REG_BAR:
            self.device.store(bar, offset, data)
        else:
            self.device.store(bar, offset, data)
            self._observe()
            self._find_rings()
            self.vectors.admin_opened(self.device.admin.masked)

    def _resets(self, offset: int, data: bytes) -> int:
        """True for a store that begins a reset."""
        at = defs.Reg.DEV_CTL - offset
        return 0 <= at <= len(data) - 4 and data[at] & 1 and not self.device.in_reset

    def flr(self) -> None:
        """Posts a function-level reset."""
        self.waiting.append(self._flr)

    def _flr(self) -> None:
        self._cancels_responses = True
        self.device.flr()
        self._observe()

    def set_bus_master(self, on: bool) -> None:
        """Switches bus mastering after all earlier stores."""
        if self.waiting:
            self.waiting.append(lambda: self.set_bus_master(on))
        else:
            self.bus_master = on
            self.device.set_bus_master(on)

    def set_function_mask(self, on: bool) -> None:
        """Sets the function mask of MSI-X, at rest."""
        self.device.set_msix(True, on)
        self.vectors.opened()

    def reset_begun(self) -> bool:
        """Applies the posted reset that the device has begun; False if no reset is posted."""
        if not self.waiting:
            # A function-level reset takes over a reset that has not drained.
            return self.resetting
        actions, self.waiting = self.waiting, deque()
        flr = max((at for at, action in enumerate(actions) if action == self._flr), default=0)
        self.resetting = self.unfinished = True
        for at, action in enumerate(actions):
            if at >= flr:
                action()
        return True

    def restart(self, memory: Any) -> None:
        """Clears all outstanding outputs after the drain; an earlier output is now an error.

        The progress of the device at the reset is not predicted, so memory is copied from the
        device.
        """
        self.resetting = False
        for owed in (self.responses, self.completions, self.messages, self.reads, self.leaving,
                     self._regions, self.payload, self.packets, self.async_events):  # fmt: skip
            owed.clear()
        self._cancel_rings()
        if self._cancels_responses:
            self.register_responses.clear()
        self._cancels_responses = False
        for page in self.touched:
            self.memory.poke(page, memory.read(page, PAGE_BYTES))

    def place(self, packet: bytes, reads: Transfer | None) -> Message:
        """Gives an RDMA packet to the model; returns the payload that it writes.

        `reads` is the read that the packet belongs to.
        """
        message = Message()
        if reads is not None:
            key = reads.qp.number, reads.req_id & REQ_ID_MASK
            self.reads.setdefault(key, Joined()).parts.append(message)
        self.write_for(message, lambda: self.device.receive(packet))
        return message

    def write_for(self, message: Message, action: Callable[[], object]) -> None:
        """Calls `action`; the payload that it writes belongs to `message`."""
        self._message = message
        action()
        self._message = None

    def replace_status(self, entry: bytes) -> None:
        """Gives the outstanding CQE of the same operation the status of this one."""
        found, status_at = defs.IoCdescCommon.unpack(entry), defs.IoCdescCommon.status.offset
        for key, owed in self.completions.items():
            if key[1:] != (found.qp_num, SEND_QUEUE):
                continue
            for at, one in enumerate(owed):
                if _ENTRY_HEAD.unpack_from(one) == (found.req_id, 0):
                    image = bytearray(one)
                    image[status_at] = entry[status_at]
                    owed[at] = bytes(image)
                    self.messages[key][at] = None
                    return

    def leaving_keys(self) -> set[int]:
        """Returns the keys of regions that the device may have or not."""
        return {region.key for region in self.leaving.values()}

    @contextmanager
    def with_region(self, key: int, there: bool) -> Iterator[None]:
        """Brings a region that leaves back for the duration of a context, if it is `there`."""
        live = self.device.objects.mrs.live
        found = [one for one in self.leaving.values() if one.key == key and one.index not in live]
        for region in found if there else ():
            live[region.index] = region
        try:
            yield
        finally:
            for region in found if there else ():
                del live[region.index]

    def accepts_events(self) -> bool:
        """False if an asynchronous event has to wait: the AENQ is full, or DMA is off."""
        if self.waiting or self.resetting or self.device.in_reset or not self.bus_master:
            return False
        events = self.device.admin.events.snapshot()
        if events["waiting"] or events["ring"] is None:
            return not events["waiting"]
        depth, written = events["ring"]
        return written - events["consumed"] & COUNT_MASK != depth

    def missing(self) -> list[str]:
        """Returns texts of the events and messages that a device at rest has not sent."""
        device = self.device
        if self.waiting or self.resetting or not self.bus_master:
            return []
        objects, owed = device.objects, []
        for bounds in self.completion_queues.values():
            if objects.cqs.get(bounds.number) is bounds.model:
                owed.append(bounds.missing())
        for vector, sources in self.sources.items():
            if not self.vectors.blocks(vector):
                owed += [one.missing() for one in sources if self._may_report(one)]
        return [one for one in owed if one]

    def _may_report(self, source: AdminMessages | EventQueue) -> object:
        """False for messages that INTR_MASK holds and for messages of a destroyed EQ."""
        if isinstance(source, AdminMessages):
            return not self.device.admin.masked
        number = source.number
        return self.event_queues[number] is source and self.device.objects.eqs.get(number)

    def rest(self) -> None:
        """At rest every arm has taken effect and no further output follows."""
        device = self.device
        if self.waiting or self.resetting or not self.bus_master:
            return
        for bounds in self.completion_queues.values():
            bounds.rest()
        admin_masked = device.admin.masked
        for vector, sources in self.sources.items():
            blocked = self.vectors.blocks(vector)
            for source in sources:
                source.rest(blocked or (isinstance(source, AdminMessages) and admin_masked))
        self.vectors.rest(admin_masked)

    def _cancel_rings(self) -> None:
        self.rings: dict[int, tuple[EntryRing, RingGeometry, Any]]
        self._acq: EntryRing | None
        self.rings, self._acq = {}, None
        self._by_page = defaultdict(list)
        self.ring_pages: set[int] = set()
        # Sources of messages by vector; EQs and CQs in interrupt mode by number.
        self.sources: defaultdict[int, list[AdminMessages | EventQueue]] = defaultdict(list)
        self.event_queues: dict[int, EventQueue]
        self.completion_queues: dict[int, CompletionQueue]
        self.event_queues, self.completion_queues = {}, {}

    def _observe(self) -> None:
        """Records arms as the model executes them; a reset replaces the data path."""
        completions = self.device.datapath.completions
        if completions is self._observed:
            return
        self._observed = completions
        ring, arm_eq = completions.ring, completions.arm_eq

        def ring_noted(cq: Cq, value: int) -> None:
            if cq.eq is not None and value >> _ARM_LSB & 1:
                bounds = self.completion_queues.get(cq.index)
                if bounds is None or bounds.model is not cq:
                    # The CQ was created when bus mastering was switched on again.
                    self._find_rings()
                    bounds = self.completion_queues[cq.index]
                bounds.arm(self.cycle, value & _CONSUMER_MASK)
            ring(cq, value)

        def arm_eq_noted(number: int) -> None:
            if self.device.objects.eqs.get(number) is not None:
                self._find_rings()
                self.event_queues[number].arm(self.cycle)
            arm_eq(number)

        # Replaces the methods on this object, to see each doorbell.
        completions.ring, completions.arm_eq = ring_noted, arm_eq_noted  # type: ignore[method-assign]

    def _find_rings(self) -> None:
        """Finds the rings that commands and registers have named."""
        seen: dict[int, tuple[EntryRing, RingGeometry, Any]]
        device, seen = self.device, {}
        admin = device.admin
        self._acq = admin.acq
        if admin.acq is not None:
            size = defs.AdminAcqEntry.SIZE
            acq = RingGeometry(ADMIN_RESPONSE, 0, 0, admin.acq_base, size, admin.acq.depth)
            seen[id(admin.acq)] = admin.acq, acq, admin.acq_vector
        if admin.events.ring is not None:
            ring = admin.events.ring
            size = defs.AdminAenqEntry.SIZE
            aenq = RingGeometry(ASYNC_EVENT, 0, 0, admin.events.base, size, ring.depth)
            seen[id(ring)] = ring, aenq, admin.events.vector
        for eq in device.objects.eqs.values():
            own = RingGeometry(EVENT, eq.index, 0, eq.base, defs.AdminEqe.SIZE, eq.ring.depth)
            seen[id(eq.ring)] = eq.ring, own, eq.vector
        for cq in device.objects.cqs.values():
            for sub, ring in enumerate(cq.rings):
                base = cq.base + sub * ring.depth * cq.entry_bytes
                own = RingGeometry(COMPLETION, cq.index, sub, base, cq.entry_bytes, ring.depth)
                seen[id(ring)] = ring, own, cq
        known = self.rings
        for name, (_, geometry, owner) in seen.items():
            if name not in known or known[name][1] != geometry:
                self._add_ring(Ring(geometry), owner)
        # The model's rings stay referenced, so that no other object gets the same id().
        self.rings = seen

    def _add_ring(self, ring: Ring, owner: Any) -> None:
        """Adds a ring; `owner` is the model's CQ for completions, else the reporting vector."""
        if ring.kind == COMPLETION:
            ring.bounds = self._bounds_of(owner)
        elif ring.kind == EVENT:
            ring.bounds = self.event_queues[ring.number] = EventQueue(ring.number, owner)
            self.sources[owner].append(ring.bounds)
        else:
            same = [one for one in self.sources[owner] if isinstance(one, AdminMessages)]
            ring.bounds = same[0] if same else AdminMessages(owner)
            if not same:
                self.sources[owner].append(ring.bounds)
        for page in pages(ring.base, ring.end):
            self._by_page[page // PAGE_BYTES].insert(0, ring)
        self.ring_pages.update(pages(ring.base, ring.end))

    def _bounds_of(self, cq: Cq) -> CompletionQueue | None:
        """Returns the bounds of a CQ's events, None in polled mode."""
        if cq.eq is None:
            return None
        known = self.completion_queues.get(cq.index)
        if known is None or known.model is not cq:
            eq = self.event_queues[cq.eq.index]
            known = self.completion_queues[cq.index] = CompletionQueue(cq.index, eq, cq, known)
        return known

    def in_ring_page(self, address: int) -> bool:
        """True if the page of an address holds ring entries."""
        return address & -PAGE_BYTES in self.ring_pages

    def ring_of(self, address: int, size: int) -> Ring | None:
        """Returns the ring of a DMA write, None elsewhere; ValueError for a partial entry."""
        for ring in self._by_page.get(address // PAGE_BYTES, ()):
            # The newest ring that holds the address comes first.
            if ring.base <= address < ring.end:
                if (address - ring.base) % ring.entry_bytes or size != ring.entry_bytes:
                    raise ValueError(f"{ring}: {size} bytes at {address:#x} are a partial entry")
                return ring
        return None

    def touch(self, address: int, size: int) -> None:
        """Marks the pages of a write: device and model contents are compared at the end."""
        page, last = address & -PAGE_BYTES, address + size - 1
        self.touched.add(page)
        if last - page >= PAGE_BYTES:
            self.touched.update(pages(address, last + 1))

    def _on_write(self, address: int, data: bytes) -> None:
        if self.device.admin.acq is not self._acq:
            # The store that enables the ring also executes commands posted before.
            self._find_rings()
        size = len(data)
        self.touch(address, size)
        ring = self.ring_of(address, size)
        if ring is None:
            if size == _RESPONSE_BYTES and self._is_response(address):
                self.register_responses.append((address, bytes(data), self.unfinished))
            elif size == COUNTER_BYTES and self._is_counter(address):
                self.payload.add(address, bytes(data))
            else:
                if self._message is None:
                    self._message = Message()
                self.payload.add(address, bytes(data), self._message)
            return
        entry, _ = clear_phase(ring.kind, data)
        if ring.kind == COMPLETION:
            key = completion_key(ring, entry)
            self.completions[key].append(entry)
            if key[2] != SEND_QUEUE:
                # The payload that the model has just written belongs to this completion.
                self.messages[key].append(self._message)
                self._message = None
            else:
                req_id, status = _ENTRY_HEAD.unpack_from(entry)
                read = self.reads.pop((key[1], req_id), None)
                self.messages[key].append(None if status else read)
        elif ring.kind == ADMIN_RESPONSE:
            bare = defs.AdminAcqEntry.unpack(entry)
            head = bare.acq_common_descriptor
            head.checksum = 0
            what = self._command_of(head)
            self.responses[head.command_id].append((bare.pack(), what))
            self._note_regions(head.command_id)
        elif ring.kind == ASYNC_EVENT:
            self.async_events.append(clear_time(entry))

    def _note_regions(self, command_id: int) -> None:
        """Finds the region that a command has removed."""
        live = self.device.objects.mrs.live
        for index, region in self._regions.items():
            if live.get(index) is not region:
                self.leaving[command_id] = region
        self._regions = dict(live)

    def _command_of(self, head: Any) -> Command:
        """Returns the command of a response."""
        admin: Any = self.device.admin
        opcode, slot = admin.current
        return Command(opcode, int(head.status), slot, admin.aq.depth, self.device.version)

    def _is_response(self, address: int) -> bool:
        device = self.device
        return address == device.register_pair(defs.Reg.MMIO_RESP_LO, defs.Reg.MMIO_RESP_HI)

    def _is_counter(self, address: int) -> bool:
        return any(one.address == address for one in self.device.objects.counters.live.values())

    def _on_packet(self, packet: bytes) -> None:
        self.packets[route_of(packet)].append(packet)

    def _on_interrupt(self, vector: int, _address: int, _data: int) -> None:
        self.interrupts[vector] += 1


def completion_key(ring: Ring, entry: bytes) -> CompletionKey:
    """Returns the key of a completion; completions of one key are compared with each other."""
    flags, qp_num = _ENTRY.unpack_from(entry)
    return ring.place, qp_num, flags >> _Q_TYPE_LSB & 3
