# SPDX-License-Identifier: Apache-2.0
"""Compares the outputs of the devices with those of the reference models.

The predictors (tb/env/predictors.py) have seen the inputs that led to an output. The rules:

- Order holds within a queue; between queues any order is valid.
- Payload is written before its completion, a completion before its EQE, an entry before the message
  that reports it.
- A ring entry is in the right slot with the right phase; host memory is equal.
- No output is outstanding at the end, and at least one output was compared.
- During a reset no output is required, but each output must be due.

A violation fails at once, an outstanding output at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from efa_cosim.layouts import defs
from efa_cosim.session.regions import ADMIN_RESPONSE, ASYNC_EVENT, COMPLETION
from tb.env.difference import (
    Difference,
    Where,
    completion_layout,
    differs,
    register_field,
    response_layout,
)
from tb.env.notification import AdminMessages
from tb.env.predictor import (
    PAGE_BYTES,
    SEND_QUEUE,
    clear_checksum,
    clear_phase,
    clear_time,
    completion_key,
    is_keep_alive,
    time_of,
)
from tb.env.transactions import DmaWrite, Event, Message, Packet, PayloadRun
from tb.lib.failure import Named, field_of

if TYPE_CHECKING:
    from tb.env.predictor import Predictor, Ring
    from tb.env.predictors import Predictors

RESET, DRAINED = defs.Ev.RESET, defs.ResetStep.DRAINED
ADMIN_VECTOR = 0
_EVENT_TYPE = defs.AdminEqeEventType.COMPLETION
_IN_PROGRESS = defs.REG_BITS.DEV_STS.pack(READY=1, RESET_IN_PROGRESS=1)
_FINISHED = defs.REG_BITS.DEV_STS.pack(READY=1, RESET_FINISHED=1)
# Plain integers: a comparison of enum members dominates the cost here.
_STATUS_AT = defs.IoCdescCommon.status.offset
_FLUSHED = int(defs.IoCompStatus.FLUSHED)


def _flushed_before(owed: Sequence[bytes], at: int) -> bool:
    """True for a flushed send that is not the oldest one: a flush keeps the posting order."""
    return owed[at][_STATUS_AT] == _FLUSHED and any(
        entry[_STATUS_AT] == _FLUSHED for entry in owed[:at]
    )


@cache
def event_of(cqn: int) -> bytes:
    """Returns the EQE of a CQ, without its phase bit."""
    comp_event = defs.AdminCompEvent(cqn=cqn)
    return defs.AdminEqe(event_type=_EVENT_TYPE, u=defs.AdminEqeU(comp_event=comp_event)).pack()


class Scoreboard:
    """Compares devices with models.

    `models` are the predictors of all devices; `moderation` is the minimum number of cycles between
    two messages of a vector.
    """

    def __init__(self, models: Predictors, moderation: int = 0) -> None:
        self.predictors, self.memories = models.devices, models.memories
        self._transport = models.transport
        self.moderation = moderation
        self._event_times: Counter[int] = Counter()
        self.compared: Counter[str] = Counter()
        self.listeners: list[Callable[[str, Any], object]] = []
        self._admin_interrupts: Counter[int] = Counter()
        self._comparisons = {
            DmaWrite: lambda one: self.write(one.device, one.cycle, one.address, one.data),
            PayloadRun: lambda one: self.payload_writes(
                one.device, one.cycle, one.address, one.data, one.count, one.begun
            ),
            Message: lambda one: self.interrupt(one.device, one.cycle, one.data, one.address),
            Packet: lambda one: self.packet(one.device, one.cycle, one.data),
            Event: self.event,
        }

    def compare(self, one: Any) -> None:
        """Compares a transaction of an output monitor; the predictor has seen its cause before."""
        self._comparisons[type(one)](one)

    # Outputs of the devices, in cycle order

    def write(self, device: int, cycle: int, address: int, data: bytes) -> None:
        """Compares a DMA write of a device."""
        predictor = self.predictors[device]
        where = device, cycle
        try:
            ring = predictor.ring_of(address, len(data))
        except ValueError as error:
            raise differs(where, error) from None
        if ring is None:
            self._plain_write(predictor, where, address, data, 1, cycle)
            return
        entry, phase = clear_phase(ring.kind, data)
        slot = (address - ring.base) // ring.entry_bytes
        wrap, wanted_slot = divmod(ring.written, ring.depth)
        if slot != wanted_slot or phase != 1 - wrap % 2:
            raise differs(
                where,
                f"{ring} got slot {slot} phase {phase}, "
                f"entry {ring.written} belongs in slot {wanted_slot} with phase {1 - wrap % 2}",
                Named("slot", str(wanted_slot), str(slot)) if slot != wanted_slot
                else Named("phase", str(1 - wrap % 2), str(phase)),
            )  # fmt: skip
        ring.written += 1
        if ring.kind == COMPLETION:
            self._completion(predictor, where, ring, entry)
        elif ring.kind == ADMIN_RESPONSE:
            self._response(predictor, where, ring, entry, phase)
        elif ring.kind == ASYNC_EVENT:
            self._async_event(predictor, where, ring, entry)
        else:
            self._event(predictor, where, ring, entry)

    def payload_writes(
        self,
        device: int,
        cycle: int,
        address: int,
        data: bytes,
        count: int,
        begun: int,
    ) -> None:
        """Compares `count` contiguous DMA writes to no ring, the last one in this cycle, the first
        one in the cycle `begun`."""
        predictor = self.predictors[device]
        if predictor.in_ring_page(address):
            # The ring was created in the same batch as this write.
            size = len(data) // count
            for at in range(0, len(data), size):
                self.write(device, cycle, address + at, data[at : at + size])
        else:
            self._plain_write(predictor, (device, cycle), address, data, count, begun)

    def _plain_write(
        self,
        predictor: Predictor,
        where: Where,
        address: int,
        data: bytes,
        count: int,
        begun: int,
    ) -> None:
        if predictor.register_responses and predictor.register_responses[0][0] == address:
            _, wanted, resetting = predictor.register_responses.popleft()
            if data != wanted and not (resetting and self._not_finished(data, wanted)):
                raise differs(
                    where, f"register response {data.hex()}, not {wanted.hex()}",
                    register_field(wanted, data),
                )  # fmt: skip
            self.compared["register responses"] += 1
            return
        try:
            predictor.payload.write(address, data, begun)
        except ValueError as error:
            raise differs(where, error) from None
        self.compared["payload writes"] += count

    @staticmethod
    def _not_finished(data: bytes, wanted: bytes) -> bool:
        """True for a reset in progress in the device that the model has finished.

        The duration of a reset is up to the device.
        """
        due = defs.AdminMmioReqReadLessResp.unpack(wanted)
        if due.reg_off != defs.Reg.DEV_STS or due.reg_val != _FINISHED:
            return False
        due.reg_val = _IN_PROGRESS
        return data == due.pack()

    def _response(
        self, predictor: Predictor, where: Where, ring: Ring, entry: bytes, phase: int
    ) -> None:
        image = bytearray(entry)
        image[3] |= phase
        try:
            bare = clear_checksum(bytes(image), predictor.device.version)
        except ValueError as error:
            found, _, due = str(error).removeprefix("checksum ").partition(", should be ")
            raise differs(
                where, f"admin response {image.hex()}: {error}",
                Named("checksum of efa_admin_acq_common_desc", due, found),
            ) from None  # fmt: skip
        bare, _ = clear_phase(ADMIN_RESPONSE, bare)
        command_id = defs.AdminAcqEntry.unpack(bare).acq_common_descriptor.command_id
        owed = predictor.responses.get(command_id)
        if not owed:
            raise differs(
                where, f"response to command {command_id:#x}, which is not open",
                Named("command_id", "that of an open command", f"{command_id:#x}"),
            )  # fmt: skip
        wanted, command = owed.popleft()
        if bare != wanted:
            raise differs(
                where,
                f"response to command {command_id:#x}\n"
                f"  expected {wanted.hex()}\n  got      {bare.hex()}",
                field_of(response_layout(command.opcode), wanted, bare),
            )
        predictor.leaving.pop(command_id, None)
        ring.bounds.entry(where[1])
        self.compared["admin responses"] += 1
        self._report("response", bare)
        self._report("command", command)

    def _async_event(self, predictor: Predictor, where: Where, ring: Ring, entry: bytes) -> None:
        """Compares an AENQ entry: requested events keep their order, keep-alives may mix in."""
        bare, time = clear_time(entry), time_of(entry)
        owed, alive = predictor.async_events, is_keep_alive(bare)
        wanted = next((one for one in owed if is_keep_alive(one) == alive), None)
        if bare != wanted:
            expected = wanted.hex() if wanted else "nothing"
            raise differs(
                where, f"asynchronous event\n  expected {expected}\n  got      {bare.hex()}",
                field_of(defs.AdminAenqEntry, wanted, bare) if wanted else None,
            )  # fmt: skip
        if time < self._event_times[where[0]]:
            raise differs(where, f"asynchronous event of cycle {time}, after one of a later cycle")
        owed.remove(wanted)
        self._event_times[where[0]] = time
        ring.bounds.entry(where[1])
        self.compared["asynchronous events"] += 1

    def _completion(self, predictor: Predictor, where: Where, ring: Ring, entry: bytes) -> None:
        key = completion_key(ring, entry)
        owed = predictor.completions.get(key, [])
        # SRD acknowledges in any order, so the search covers all sends; receives keep their order.
        _, qp_num, queue = key
        if entry not in owed and queue == SEND_QUEUE:
            self._transport.ends(where[0], entry)
            owed = predictor.completions.get(key, [])
        try:
            at = owed.index(entry)
        except ValueError:
            at = -1
        if at and (at < 0 or queue != SEND_QUEUE or _flushed_before(owed, at)):
            expected = "\n           ".join(one.hex() for one in owed[:3]) or "nothing"
            raise differs(
                where,
                f"{ring}, queue pair {qp_num:#x}\n  expected {expected}\n  got      {entry.hex()}",
                field_of(completion_layout(owed[0]), owed[0], entry) if owed else None,
            )
        del owed[at]
        message = predictor.messages[key].pop(at)
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

    def _event(self, predictor: Predictor, where: Where, ring: Ring, entry: bytes) -> None:
        device, cycle = where
        cqn = defs.AdminEqe.unpack(entry).u.comp_event.cqn
        bounds = predictor.completion_queues.get(cqn)
        wanted = event_of(cqn)
        if entry != wanted:
            raise differs(
                where, f"{ring}\n  expected {wanted.hex()}\n  got      {entry.hex()}",
                field_of(defs.AdminEqe, wanted, entry),
            )  # fmt: skip
        refusal: str | None = f"none: CQ {cqn} has no EQ"
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

    def packet(self, device: int, cycle: int, packet: bytes) -> None:
        """Compares a packet that left a device."""
        self.compared[self._transport.compare((device, cycle), packet)] += 1
        if self.listeners:
            self._report("packet", packet)

    def event(self, one: Event) -> None:
        """Processes an ev_* event; the end of a session clears what its outputs depended on."""
        if one.kind == RESET and defs.EVENTS.reset.unpack(one.data).step == DRAINED:
            device = one.device
            self._admin_interrupts[device] = self.predictors[device].interrupts[ADMIN_VECTOR]
        if self.listeners:
            self._report("event", one)

    def interrupt(self, device: int, cycle: int, vector: int, address: int | None = None) -> None:
        """Compares an MSI-X message: its data, and its address if known."""
        predictor = self.predictors[device]
        where = device, cycle
        vectors = predictor.vectors
        if address is not None:
            message = address, vector
            # None stands for an unknown message, reported below.
            vector = vectors.of_message.get(message)  # type: ignore[assignment]
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

    def _report(self, what: str, item: Any) -> None:
        for listener in self.listeners:
            listener(what, item)

    # At rest and at the end

    def missing(self) -> list[str]:
        """Returns texts of the events and messages that devices at rest have not sent."""
        return [
            f"device {number}: {text}"
            for number, predictor in enumerate(self.predictors)
            for text in predictor.missing()
        ]

    def accepts_events(self, device: int, waiting: int) -> None:
        """Fails if asynchronous events wait at the pins of a device at rest that has free space."""
        if waiting and self.predictors[device].accepts_events():
            raise Difference(
                f"device {device}: s_aenq stalls",
                Named("asynchronous events at s_aenq", "0, at rest", str(waiting)),
            )

    def rest(self) -> None:
        """Ends the open bounds of devices at rest; fails on a missing event or message."""
        missing = self.missing()
        if missing:
            listed = "\n  ".join(missing[:8])
            raise Difference(
                f"at rest {len(missing)} outputs are missing\n  expected {listed}",
                Named("output at rest", missing[0], "nothing"),
            )
        for predictor in self.predictors:
            predictor.rest()

    def in_flight(self) -> bool:
        """True while a packet of a device waits for its acknowledgement."""
        return any(self._transport.outstanding(number) for number in range(len(self.predictors)))

    def check(self, least: int = 1) -> dict[str, int]:
        """Fails on any outstanding output; returns the numbers of comparisons."""
        self.rest()
        for number, predictor in enumerate(self.predictors):
            self._nothing_owed(number, predictor)
            self._memory_equal(number, predictor)
        total = sum(self.compared.values())
        if total < least:
            raise Difference(
                f"only {total} things were compared, at least {least} were planned",
                Named("number of comparisons", f"at least {least}", str(total)),
            )
        return dict(self.compared)

    def _nothing_owed(self, number: int, predictor: Predictor) -> None:
        owed = [
            *(f"response to command {c:#x}" for c, due in predictor.responses.items() for _ in due),
            *(
                f"completion {entry.hex()}"
                for due in predictor.completions.values()
                for entry in due
            ),
            *(f"asynchronous event {entry[:24].hex()}" for entry in predictor.async_events),
            *(f"register response at {address:#x}" for address, *_ in predictor.register_responses),
            *(f"{len(piece.data)} bytes at {piece.address:#x}" for piece in predictor.payload),
            *("reset that the device has not begun" for _ in list(predictor.waiting)[:1]),
            *self._transport.outstanding(number),
        ]
        wanted, got = predictor.interrupts[ADMIN_VECTOR], self._admin_interrupts[number]
        # Moderated messages merge; software detects a missing last one.
        merged = self.moderation and 0 < got <= wanted
        if got != wanted and not merged:
            owed.append(f"{wanted} admin interrupts, got {got}")
        if owed:
            listed = "\n  ".join(owed[:8])
            raise Difference(
                f"device {number} has {len(owed)} outputs outstanding:\n  {listed}",
                Named("outstanding output", owed[0], "nothing"),
            )

    def _memory_equal(self, number: int, predictor: Predictor) -> None:
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
