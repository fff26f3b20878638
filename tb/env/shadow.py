"""The reference model beside one simulated device: fed with the same stores, asked what is due.

Its outputs are sorted into what the scoreboard can compare whatever the device's timing: admin
responses by command id, completions by queue pair, packets by sender and receiver.
"""

from collections import Counter, defaultdict, deque

import numpy as np

from efa import defs
from efa.admin_engine import CRC_VERSION
from efa.codec import crc16
from efa.device import Device
from efa.expectation import ADMIN_RESPONSE, ASYNC_EVENT, COMPLETION, EVENT
from efa.memory import Memory
from efa.wire import precompiled

PAGE_BYTES = 4096
# Which queue gets a message context when all are in use is a matter of time: here none ever waits.
UNBOUND = {"msg_w": 24}


def pages(start, end):
    """Addresses of the pages that a range touches."""
    return range(start // PAGE_BYTES * PAGE_BYTES, end, PAGE_BYTES)


class Ring:
    """A ring the device writes, and how many entries of it were written so far."""

    def __init__(self, kind, number, sub, base, entry_bytes, depth):
        self.kind, self.number, self.sub = kind, number, sub
        self.base, self.entry_bytes, self.depth = base, entry_bytes, depth
        self.end = base + entry_bytes * depth
        self.written = 0
        self.place = number, sub

    def __repr__(self):
        return f"{self.kind} ring {self.number}.{self.sub}"


_PHASE_AT = {ADMIN_RESPONSE: 3, COMPLETION: 3, EVENT: 0, ASYNC_EVENT: 4}
_TIME = slice(8, 16)


def clear_phase(kind, entry):
    """The entry without its phase bit, and the bit."""
    at = _PHASE_AT[kind]
    byte = entry[at]
    if byte & 1:
        return entry[:at] + bytes((byte & 0xFE,)) + entry[at + 1 :], 1
    return entry, 0


def clear_time(entry):
    """An asynchronous event without its time, which is the device's own."""
    return entry[: _TIME.start] + bytes(8) + entry[_TIME.stop :]


def is_keep_alive(entry):
    """True for an asynchronous event of the device's own."""
    return int.from_bytes(entry[:2], "little") == defs.AdminAenqGroup.KEEP_ALIVE


def time_of(entry):
    """When an asynchronous event was, in cycles of the device."""
    return int.from_bytes(entry[_TIME], "little")


def clear_checksum(entry, version):
    """An admin response without its checksum; raises ValueError where that is wrong."""
    bare = defs.AdminAcqEntry.unpack(entry)
    head = bare.acq_common_descriptor
    checksum, head.checksum = head.checksum, 0
    wanted = crc16(bare.pack()) if version >= CRC_VERSION else 0
    if checksum != wanted:
        raise ValueError(f"checksum {checksum:#06x}, should be {wanted:#06x}")
    return bare.pack()


_ROUTE = precompiled(defs.PktHdr, "opcode", "src_qpn", "dst_qpn", "src_node", "dst_node")
_ENTRY = precompiled(defs.IoCdescCommon, "flags", "qp_num")
_ANSWER_BYTES = defs.AdminMmioReqReadLessResp.SIZE
_Q_TYPE_LSB = defs.IoCdescCommon.q_type.lsb
_PSN = defs.PktHdr.psn.offset
_MSG_ID_END = defs.PktHdr.msg_id.offset + defs.PktHdr.msg_id.size
_PATH = defs.PktHdr.path.offset


# (opcode, src_qpn, dst_qpn, src_node, dst_node) of a packet: packets of one route keep their order,
# everything else may pass each other.
route_of = _ROUTE.unpack_from
psn_of = precompiled(defs.PktHdr, "psn").unpack_from


def same_packet(one, other):
    """Equal but for what a device chooses for itself: psn, msg_id, path."""
    return one == other or (
        one[:_PSN] == other[:_PSN]
        and one[_MSG_ID_END:_PATH] == other[_MSG_ID_END:_PATH]
        and one[_PATH + 1 :] == other[_PATH + 1 :]
    )


class Shadow:
    """One reference device and what it still owes."""

    def __init__(self, node_id, profile, limits=None, **straps):
        self.memory = Memory()
        self._by_page = defaultdict(list)
        self.device = Device(
            self.memory, node_id=node_id, profile=profile, limits={**(limits or {}), **UNBOUND},
            **straps,
        )
        self.device.on_dma_write = self._on_write
        self.device.on_packet = self._on_packet
        self.device.on_interrupt = self._on_interrupt
        self.responses = defaultdict(deque)
        self.async_events = deque()
        self.completions = defaultdict(list)
        self.events = Counter()
        self.event_seen = set()
        self.answers = deque()
        self.packets = defaultdict(deque)
        self.interrupts = Counter()
        self.touched = set()
        # Between the host's reset and its end in the device: what still leaves is not compared.
        self.dying = False
        self.rings, self._acq = {}, None
        self.ring_pages = set()
        self.ring_page_array = np.empty(0, np.uint64)

    def store(self, bar, offset, data):
        """A host store, and the rings that came to be by it."""
        was_in_reset = self.device.in_reset
        self.device.store(bar, offset, data)
        if bar == defs.EFA_REG_BAR:
            self.dying |= self.device.in_reset and not was_in_reset
            self._find_rings()

    def flr(self):
        """Function-level reset."""
        self.device.flr()
        self.dying = True

    def reborn(self, memory):
        """The device has drained: nothing of before is due, and nothing of it may come any more.

        How far it got is its own affair, so memory is as the device left it."""
        self.dying = False
        for owed in (self.responses, self.completions, self.events, self.packets,
                     self.async_events):  # fmt: skip
            owed.clear()
        self.event_seen.clear()
        for page in self.touched:
            self.memory.poke(page, memory.read(page, PAGE_BYTES))

    def _find_rings(self):
        """Rings appear with the commands and registers that name them."""
        device, seen = self.device, {}
        admin = device.admin
        self._acq = admin.acq
        if admin.acq is not None:
            seen[id(admin.acq)] = (
                ADMIN_RESPONSE,
                0,
                0,
                admin.acq_base,
                defs.AdminAcqEntry.SIZE,
                admin.acq.depth,
            )
        if admin.events.ring is not None:
            ring = admin.events.ring
            size = defs.AdminAenqEntry.SIZE
            seen[id(ring)] = (ASYNC_EVENT, 0, 0, admin.events.base, size, ring.depth)
        for cq in device.objects.cqs.values():
            for sub, ring in enumerate(cq.rings):
                base = cq.base + sub * ring.depth * cq.entry_bytes
                seen[id(ring)] = (COMPLETION, cq.index, sub, base, cq.entry_bytes, ring.depth)
        for eq in device.objects.eqs.values():
            seen[id(eq.ring)] = (EVENT, eq.index, 0, eq.base, defs.AdminEqe.SIZE, eq.ring.depth)
        for name, place in seen.items():
            if name not in self.rings or self.rings[name][0] != place:
                ring = Ring(*place)
                self.rings[name] = (place, ring)
                for page in pages(ring.base, ring.end):
                    self._by_page[page // PAGE_BYTES].insert(0, ring)
                self.ring_pages.update(pages(ring.base, ring.end))
                self.ring_page_array = np.array(sorted(self.ring_pages), np.uint64)
        self.rings = {name: entry for name, entry in self.rings.items() if name in seen}

    def in_ring_pages(self, addresses):
        """Which of these page addresses hold ring entries (arrays); pages of rings are few."""
        pages_of_rings = self.ring_page_array
        if not len(pages_of_rings):
            return np.zeros(len(addresses), bool)
        found = np.searchsorted(pages_of_rings, addresses)
        return pages_of_rings[np.minimum(found, len(pages_of_rings) - 1)] == addresses

    def ring_of(self, address, size):
        """The ring that a device's write goes to, None elsewhere; ValueError for a part of one."""
        for ring in self._by_page.get(address // PAGE_BYTES, ()):
            # The youngest ring that the address lies in.
            if ring.base <= address < ring.end:
                if (address - ring.base) % ring.entry_bytes or size != ring.entry_bytes:
                    raise ValueError(f"{ring}: {size} bytes at {address:#x} are no whole entry")
                return ring
        return None

    def touch(self, address, size):
        """Somebody wrote here: what both sides hold is compared in the end."""
        page, last = address & -PAGE_BYTES, address + size - 1
        self.touched.add(page)
        if last - page >= PAGE_BYTES:
            self.touched.update(pages(address, last + 1))

    def _on_write(self, address, data):
        if self.device.admin.acq is not self._acq:
            # Commands that were rung before are answered by the very store that enables the ring.
            self._find_rings()
        size = len(data)
        self.touch(address, size)
        ring = self.ring_of(address, size)
        if ring is None:
            if size == _ANSWER_BYTES and self._is_answer(address):
                self.answers.append((address, bytes(data)))
            return
        entry, _ = clear_phase(ring.kind, data)
        if ring.kind == COMPLETION:
            self.completions[completion_key(ring, entry)].append(entry)
        elif ring.kind == ADMIN_RESPONSE:
            bare = defs.AdminAcqEntry.unpack(entry)
            head = bare.acq_common_descriptor
            head.checksum = 0
            what = self._command_of(head)
            self.responses[head.command_id].append((bare.pack(), what))
        elif ring.kind == ASYNC_EVENT:
            self.async_events.append(clear_time(entry))
        else:
            self.events[ring.number, entry] += 1

    def _command_of(self, head):
        """The command behind a response: opcode, status, slot, depth of the ring, version."""
        admin = self.device.admin
        opcode, slot = admin.current
        return opcode, int(head.status), slot, admin.aq.depth, self.device.version

    def _is_answer(self, address):
        device = self.device
        return address == device.register_pair(defs.Reg.MMIO_RESP_LO, defs.Reg.MMIO_RESP_HI)

    def _on_packet(self, packet):
        self.packets[route_of(packet)].append(packet)

    def _on_interrupt(self, vector, _address, _data):
        self.interrupts[vector] += 1


def completion_key(ring, entry):
    """Completions of one key are compared with each other."""
    flags, qp_num = _ENTRY.unpack_from(entry)
    return ring.place, qp_num, flags >> _Q_TYPE_LSB & 3
