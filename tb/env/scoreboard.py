# SPDX-License-Identifier: Apache-2.0
"""Compares the outputs of the devices with those of the reference models.

Stores reach the models when they are posted, a reset when the device begins it. Packets reach them
when the destination device has accepted them, so that both see the same order. The rules:

- Order holds within a queue; between queues any order is valid.
- Payload is written before its completion, a completion before its EQE, an entry before the message
  that reports it.
- A ring entry is in the right slot with the right phase; host memory is equal.
- No output is outstanding at the end, and at least one output was compared.
- During a reset no output is required, but each output must be due.

A violation fails at once, an outstanding output at the end.
"""

from collections import Counter, defaultdict, deque
from functools import cache

import numpy as np

from efa import defs
from efa.expectation import ADMIN_RESPONSE, ASYNC_EVENT, COMPLETION
from tb.env.notification import AdminMessages
from tb.env.predictor import (
    PAGE_BYTES,
    SEND_QUEUE,
    Predictor,
    clear_checksum,
    clear_phase,
    clear_time,
    completion_key,
    is_keep_alive,
    psn_of,
    route_of,
    same_packet,
    time_of,
)

LAST_FLIT, RESET, ASYNC = defs.Ev.RX_LAST, defs.Ev.RESET, defs.Ev.AENQ
KEEP_ALIVE = defs.AdminAenqGroup.KEEP_ALIVE
BEGUN, DRAINED, DONE = range(3)
(_OP_LSB, _OP_MASK), (_SRC_LSB, _SRC_MASK), (_DST_LSB, _DST_MASK) = (
    (lsb, (1 << width) - 1)
    for lsb, width, _ in map(defs.EVENTS.rx_last.fields.get, ("opcode", "src_qpn", "dst_qpn"))
)
ADMIN_VECTOR = 0
_EVENT_TYPE = defs.AdminEqeEventType.COMPLETION
_IN_PROGRESS = defs.REG_BITS.DEV_STS.pack(READY=1, RESET_IN_PROGRESS=1)
_FINISHED = defs.REG_BITS.DEV_STS.pack(READY=1, RESET_FINISHED=1)
PAGE_MASK = np.uint64(-PAGE_BYTES & (1 << 64) - 1)


class Difference(AssertionError):
    """Device and model disagree; the text names device, cycle, expected and received output."""


# Plain integers: a comparison of enum members dominates the cost here.
_STATUS_AT = defs.IoCdescCommon.status.offset
_FLUSHED = int(defs.IoCompStatus.FLUSHED)
_SRD_SEND = int(defs.PktOpcode.SRD_SEND)


def differs(where, text):
    """Returns the Difference at (device, cycle); builds the text only on a difference."""
    device, cycle = where
    return Difference(f"device {device}, cycle {cycle}: {text}")


def _flushed_before(owed, at):
    """True for a flushed send that is not the oldest one: a flush keeps the posting order."""
    return owed[at][_STATUS_AT] == _FLUSHED and any(
        entry[_STATUS_AT] == _FLUSHED for entry in owed[:at]
    )


@cache
def event_of(cqn):
    """Returns the EQE of a CQ, without its phase bit."""
    comp_event = defs.AdminCompEvent(cqn=cqn)
    return defs.AdminEqe(event_type=_EVENT_TYPE, u=defs.AdminEqeU(comp_event=comp_event)).pack()


class Scoreboard:
    """Compares devices with models.

    `memories` are the host memories that the devices write; `moderation` is the minimum number of
    cycles between two messages of a vector.
    """

    def __init__(self, memories, profile="default", first_node=1, limits=None, moderation=0,
                 **straps):  # fmt: skip
        self.memories, self.moderation = memories, moderation
        self.predictors = [
            Predictor(first_node + d, profile, limits, **straps) for d in range(len(memories))
        ]
        self._event_times = Counter()
        self.by_node = {predictor.device.node_id: d for d, predictor in enumerate(self.predictors)}
        self.compared = Counter()
        self.listeners = []
        self._flying = [defaultdict(deque) for _ in memories]
        # Packets that were in flight to a device at its reset: the device may accept or drop them.
        self._doubtful = [defaultdict(deque) for _ in memories]
        self._admin_interrupts = Counter()
        self._next_psn = Counter()

    # Actions of the host, in order

    def store(self, device, bar, offset, data, cycle=0):
        """Passes a host store that was posted in `cycle`."""
        self.predictors[device].store(bar, offset, data, cycle)

    def host_write(self, device, address, data):
        """Copies a CPU write to the model's memory."""
        self.predictors[device].memory.poke(address, data)

    def bus_master(self, device, on):
        """Switches bus mastering of one device."""
        self.predictors[device].set_bus_master(bool(on))

    def function_mask(self, device, on):
        """Sets or clears the MSI-X function mask of one device, which is at rest."""
        self.predictors[device].set_function_mask(bool(on))

    def async_event(self, device, group, syndrome, data):
        """Requests an asynchronous event as the management side of a device."""
        self.predictors[device].device.raise_event(group, syndrome, data)

    def fail_reads(self, device, address, size):
        """Makes host reads of a range fail from now on."""
        self.predictors[device].memory.fail(address, size)

    def flr(self, device):
        """Posts a function-level reset of one device."""
        self.predictors[device].flr()

    # Outputs of the devices, in cycle order

    def write(self, device, cycle, address, data):
        """Compares a DMA write of a device."""
        predictor = self.predictors[device]
        where = device, cycle
        try:
            ring = predictor.ring_of(address, len(data))
        except ValueError as error:
            raise differs(where, error) from None
        if ring is None:
            self._plain_write(predictor, where, address, data, 1)
            return
        entry, phase = clear_phase(ring.kind, data)
        slot = (address - ring.base) // ring.entry_bytes
        wrap, wanted_slot = divmod(ring.written, ring.depth)
        if slot != wanted_slot or phase != 1 - wrap % 2:
            raise differs(
                where,
                f"{ring} got slot {slot} phase {phase}, "
                f"entry {ring.written} belongs in slot {wanted_slot} with phase {1 - wrap % 2}",
            )
        ring.written += 1
        if ring.kind == COMPLETION:
            self._completion(predictor, where, ring, entry)
        elif ring.kind == ADMIN_RESPONSE:
            self._response(predictor, where, ring, entry, phase)
        elif ring.kind == ASYNC_EVENT:
            self._async_event(predictor, where, ring, entry)
        else:
            self._event(predictor, where, ring, entry)

    def looks_at(self, devices, addresses):
        """Marks the DMA writes that go to rings or to register responses (arrays)."""
        looked = np.zeros(len(addresses), bool)
        for device, predictor in enumerate(self.predictors):
            special = predictor.in_ring_pages(addresses & PAGE_MASK)
            for address, *_ in predictor.register_responses:
                special |= addresses == address
            looked |= (devices == device) & special
        return looked

    def payload_writes(self, device, cycle, address, data, count=1):
        """Compares `count` contiguous DMA writes to no ring, the last one in this cycle."""
        predictor = self.predictors[device]
        if predictor.in_ring_page(address):
            # The ring was created in the same batch as this write.
            size = len(data) // count
            for at in range(0, len(data), size):
                self.write(device, cycle, address + at, data[at : at + size])
        else:
            self._plain_write(predictor, (device, cycle), address, data, count)

    def _plain_write(self, predictor, where, address, data, count):
        if predictor.register_responses and predictor.register_responses[0][0] == address:
            _, wanted, resetting = predictor.register_responses.popleft()
            if data != wanted and not (resetting and self._not_finished(data, wanted)):
                raise differs(where, f"register response {data.hex()}, not {wanted.hex()}")
            self.compared["register responses"] += 1
            return
        try:
            predictor.payload.write(address, data)
        except ValueError as error:
            raise differs(where, error) from None
        self.compared["payload writes"] += count

    @staticmethod
    def _not_finished(data, wanted):
        """True for a reset in progress in the device that the model has finished.

        The duration of a reset is up to the device.
        """
        due = defs.AdminMmioReqReadLessResp.unpack(wanted)
        if due.reg_off != defs.Reg.DEV_STS or due.reg_val != _FINISHED:
            return False
        due.reg_val = _IN_PROGRESS
        return data == due.pack()

    def _response(self, predictor, where, ring, entry, phase):
        image = bytearray(entry)
        image[3] |= phase
        try:
            bare = clear_checksum(bytes(image), predictor.device.version)
        except ValueError as error:
            raise differs(where, f"admin response {image.hex()}: {error}") from None
        bare, _ = clear_phase(ADMIN_RESPONSE, bare)
        command_id = defs.AdminAcqEntry.unpack(bare).acq_common_descriptor.command_id
        owed = predictor.responses.get(command_id)
        if not owed:
            raise differs(where, f"response to command {command_id:#x}, which is not open")
        wanted, command = owed.popleft()
        if bare != wanted:
            raise differs(
                where,
                f"response to command {command_id:#x}\n"
                f"  expected {wanted.hex()}\n  got      {bare.hex()}",
            )
        ring.bounds.entry(where[1])
        self.compared["admin responses"] += 1
        self._report("response", bare)
        self._report("command", command)

    def _async_event(self, predictor, where, ring, entry):
        """Compares an AENQ entry: requested events keep their order, keep-alives may mix in."""
        bare, time = clear_time(entry), time_of(entry)
        owed, alive = predictor.async_events, is_keep_alive(bare)
        wanted = next((one for one in owed if is_keep_alive(one) == alive), None)
        if bare != wanted:
            expected = wanted.hex() if wanted else "nothing"
            raise differs(
                where, f"asynchronous event\n  expected {expected}\n  got      {bare.hex()}"
            )
        if time < self._event_times[where[0]]:
            raise differs(where, f"asynchronous event of cycle {time}, after one of a later cycle")
        owed.remove(wanted)
        self._event_times[where[0]] = time
        ring.bounds.entry(where[1])
        self.compared["asynchronous events"] += 1

    def _completion(self, predictor, where, ring, entry):
        key = completion_key(ring, entry)
        owed = predictor.completions.get(key, [])
        # SRD acknowledges in any order, so the search covers all sends; receives keep their order.
        _, qp_num, queue = key
        try:
            at = owed.index(entry)
        except ValueError:
            at = -1
        if at and (at < 0 or queue != SEND_QUEUE or _flushed_before(owed, at)):
            expected = "\n           ".join(one.hex() for one in owed[:3]) or "nothing"
            raise differs(
                where,
                f"{ring}, queue pair {qp_num:#x}\n  expected {expected}\n  got      {entry.hex()}",
            )
        del owed[at]
        if queue != SEND_QUEUE:
            message = predictor.messages[key].pop(0)
            if message is not None and message.left:
                raise differs(
                    where,
                    f"{ring}, queue pair {qp_num:#x}: CQE was written before its payload\n"
                    f"  expected {message.left} more bytes first\n  got      {entry.hex()}",
                )
        if ring.bounds is not None:
            ring.bounds.completion(where[1])
        self.compared["completions"] += 1
        if self.listeners:
            self._report("completion", entry)

    def _event(self, predictor, where, ring, entry):
        device, cycle = where
        cqn = defs.AdminEqe.unpack(entry).u.comp_event.cqn
        bounds = predictor.completion_queues.get(cqn)
        wanted = event_of(cqn)
        if entry != wanted:
            raise differs(where, f"{ring}\n  expected {wanted.hex()}\n  got      {entry.hex()}")
        refusal = f"none: CQ {cqn} has no EQ"
        while bounds is not None:
            # A destroyed CQ may have led to this EQE, until the device was at rest.
            refusal = bounds.refusal(cycle) if bounds.eq is ring.bounds else "one on another EQ"
            bounds = bounds.before if refusal else None
        if refusal:
            raise differs(
                where, f"{ring}, event of CQ {cqn}\n  expected {refusal}\n  got      {entry.hex()}"
            )
        ring.bounds.entry(cycle)
        self.compared["events"] += 1

    def packet(self, device, cycle, packet):
        """Compares a packet that left a device."""
        where = device, cycle
        route = route_of(packet)
        owed = self.predictors[device].packets.get(route)
        if not owed:
            raise differs(where, f"packet {packet[:64].hex()} is not due")
        wanted = owed.popleft()
        if not same_packet(packet, wanted):
            raise differs(where, f"packet\n  expected {wanted.hex()}\n  got      {packet.hex()}")
        opcode, _, _, _, node = route
        if opcode == _SRD_SEND:
            (psn,) = psn_of(packet)
            due = self._next_psn[device, node]
            if psn != due:
                raise differs(where, f"psn {psn}, not {due}, to {node}")
            self._next_psn[device, node] = due + 1 & 0xFFFFFFFF
        self.compared["packets"] += 1
        if self.listeners:
            self._report("packet", packet)
        self._fly(route, wanted)

    def _fly(self, route, packet):
        """Puts a packet in flight until the destination device accepts it."""
        opcode, source, destination, _, node = route
        target = self.by_node.get(node)
        if target is not None:
            self._flying[target][opcode, source, destination].append(packet)

    def event(self, device, cycle, kind, data):
        """Processes an ev_* event; a packet that the device accepts goes to the model."""
        if kind == LAST_FLIT:
            opcode = data >> _OP_LSB & _OP_MASK
            key = opcode, data >> _SRC_LSB & _SRC_MASK, data >> _DST_LSB & _DST_MASK
            waiting = self._doubtful[device].get(key) or self._flying[device].get(key)
            if waiting:
                self.predictors[device].device.receive(waiting.popleft())
        elif kind == ASYNC:
            # The end of the period depends on the device; the free space of the ring does not.
            if defs.EVENTS.aenq.unpack(data).group == KEEP_ALIVE:
                self.predictors[device].device.keep_alive()
        elif kind == RESET:
            step = defs.EVENTS.reset.unpack(data).step
            if step == BEGUN and not self.predictors[device].reset_begun():
                raise differs((device, cycle), "reset\n  expected none\n  got      its begin")
            if step == DRAINED:
                self._reborn(device)
            elif step == DONE:
                # By now the fabric holds no packet from before the reset.
                self._doubtful[device].clear()
                self.predictors[device].unfinished = False
        if self.listeners:
            self._report("event", (device, cycle, kind, data))

    def interrupt(self, device, cycle, vector, address=None):
        """Compares an MSI-X message: its data, and its address if known."""
        predictor = self.predictors[device]
        where = device, cycle
        vectors = predictor.vectors
        if address is not None:
            message = address, vector
            vector = vectors.of_message.get(message)
            if vector is None:
                raise differs(
                    where,
                    f"message of {message[1]:#x} to {address:#x}\n"
                    "  expected address and data of a vector\n  got      those of none",
                )
        sources = predictor.sources[vector]
        permitted = vector not in vectors.masked and any(
            one.message(cycle)
            for one in sources
            if not (vectors.admin_masked and isinstance(one, AdminMessages))
        )
        if not permitted:
            raise differs(
                where,
                f"message of vector {vector}\n  expected none: no entry that it could report is "
                "new, or its mask holds it back\n  got      one",
            )
        for one in sources:
            one.last_message = cycle
        if vector == ADMIN_VECTOR:
            self._admin_interrupts[device] += 1
        self.compared["interrupts"] += 1

    def _reborn(self, device):
        predictor = self.predictors[device]
        if not predictor.resetting:
            raise Difference(f"device {device} reset itself")
        predictor.reborn(self.memories[device])
        self._admin_interrupts[device] = predictor.interrupts[ADMIN_VECTOR]
        for key, packets in self._flying[device].items():
            self._doubtful[device][key].extend(packets)
        self._flying[device].clear()
        for to in [to for to in self._next_psn if to[0] == device]:
            del self._next_psn[to]

    def _report(self, what, item):
        for listener in self.listeners:
            listener(what, item)

    # At rest and at the end

    def missing(self):
        """Returns texts of the events and messages that devices at rest have not sent."""
        return [
            f"device {number}: {text}"
            for number, predictor in enumerate(self.predictors)
            for text in predictor.missing()
        ]

    def rest(self):
        """Ends the open bounds of devices at rest; fails on a missing event or message."""
        missing = self.missing()
        if missing:
            shown = "\n  ".join(missing[:8])
            raise Difference(f"at rest {len(missing)} outputs are missing\n  expected {shown}")
        for predictor in self.predictors:
            predictor.rest()

    def check(self, least=1):
        """Fails on any outstanding output; returns the numbers of comparisons."""
        self.rest()
        for number, predictor in enumerate(self.predictors):
            self._nothing_owed(number, predictor)
            self._memory_equal(number, predictor)
        total = sum(self.compared.values())
        if total < least:
            raise Difference(f"only {total} things were compared, at least {least} were planned")
        return dict(self.compared)

    def _nothing_owed(self, number, predictor):
        owed = [
            *(f"response to command {c:#x}" for c, due in predictor.responses.items() for _ in due),
            *(
                f"completion {entry.hex()}"
                for due in predictor.completions.values()
                for entry in due
            ),
            *(f"asynchronous event {entry[:24].hex()}" for entry in predictor.async_events),
            *(
                f"packet {packet[:32].hex()}"
                for due in predictor.packets.values()
                for packet in due
            ),
            *(f"register response at {address:#x}" for address, *_ in predictor.register_responses),
            *(f"{len(piece.data)} bytes at {piece.address:#x}" for piece in predictor.payload),
            *("reset that the device has not begun" for _ in list(predictor.waiting)[:1]),
            *(f"packet on its way: {key}" for key, due in self._flying[number].items() if due),
        ]
        wanted, got = predictor.interrupts[ADMIN_VECTOR], self._admin_interrupts[number]
        # Moderated messages merge; software detects a missing last one.
        merged = self.moderation and 0 < got <= wanted
        if got != wanted and not merged:
            owed.append(f"{wanted} admin interrupts, got {got}")
        if owed:
            shown = "\n  ".join(owed[:8])
            raise Difference(f"device {number} has {len(owed)} outputs outstanding:\n  {shown}")

    def _memory_equal(self, number, predictor):
        """Compares every page that device or model wrote; ring entries were compared before."""
        for page in sorted(predictor.touched - predictor.ring_pages):
            wanted = predictor.memory.peek(page, PAGE_BYTES)
            got = self.memories[number].read(page, PAGE_BYTES)
            if wanted != got:
                at = next(i for i in range(PAGE_BYTES) if wanted[i] != got[i])
                raise Difference(
                    f"device {number}: host memory differs from {page + at:#x} on\n"
                    f"  expected {wanted[at : at + 32].hex()}\n  got      {got[at : at + 32].hex()}"
                )
            self.compared["memory pages"] += 1
