# SPDX-License-Identifier: Apache-2.0
"""Collects the output of a device and compares it with the expected effects of the steps."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NoReturn

from efa_cosim.boundary.backend import Backend, DeviceTimeout
from efa_cosim.layouts import defs
from efa_cosim.session.entries import EntryComparison
from efa_cosim.session.payload import PayloadWrite, compare_payload
from efa_cosim.session.regions import ASYNC_EVENT, COMPLETION, REGISTER_RESPONSE, Slot
from efa_cosim.session.result import Difference, PlayResult
from efa_cosim.session.text import first_bytes

if TYPE_CHECKING:
    from efa_cosim.session.device_state import DeviceState
    from efa_cosim.session.expectation import Expectation
    from efa_cosim.session.outputs import Outputs
    from efa_cosim.session.step import Step

SHOWN_BYTES = 32


class Scoreboard:
    """Holds the output of one device that no step has matched.

    - `state`: that of the device
    - `result`: counts the compared output
    - `outputs`: receives all output, for a comparison with another device
    """

    def __init__(
        self, backend: Backend, state: DeviceState, result: PlayResult, outputs: Outputs | None
    ) -> None:
        self._backend, self._state, self._result = backend, state, result
        self._outputs = outputs
        self._entries = EntryComparison(state, result)
        self._slots: dict[int, Slot] = {}
        self._payload: list[PayloadWrite] = []
        self._interrupts: Counter[int] = Counter()
        self._async_events = 0  # each may have an interrupt, at any time

    def wait(self, step: Step, wanted: Expectation) -> None:
        """Waits for the effects of a step; raises Difference for the first one that is missing."""
        try:
            # The last interrupt by itself: a backend that looks for several outputs at once finds
            # it late while another device of its fabric is never idle, as in a reset.
            if wanted.interrupts:
                self._backend.wait(lambda: self._missing(wanted) <= 1)
            self._backend.wait(lambda: not self._missing(wanted))
        except DeviceTimeout as error:
            self._report_missing(step, wanted, error)

    def accept(self, wanted: Expectation) -> None:
        """Compares and removes the effects of a step; any other output is a difference."""
        datagrams = 0
        events = self._entries.events_in_recorded_order(wanted.slots, self._slots)
        for address, slot in sorted(wanted.slots.items(), key=lambda item: item[1].line):
            came = self._slots.pop(address)
            self._entries.compare(slot, events.get(address, came))
            if slot.region.kind == COMPLETION:
                datagrams += self._state.is_datagram(slot.image)
        self._check_slots()
        self._compare_payload(wanted, defs.LIMITS.grh_bytes * datagrams)
        self._interrupts -= wanted.interrupts
        self._result.interrupts += wanted.interrupts.total()
        self._check_nothing_left()

    def check_silent(self) -> None:
        """Collects the output so far, and raises Difference if there is any."""
        self._collect()
        self._check_nothing_left()

    def status_differs(self, wanted: Expectation) -> bool:
        """Returns True if a read of DEV_STS returned a state other than the recorded one.

        The host waits for states of DEV_STS: no other register value determines its next step.
        """
        for address, slot in wanted.slots.items():
            if slot.region.kind != REGISTER_RESPONSE:
                continue
            layout = defs.AdminMmioReqReadLessResp
            want, got = layout.unpack(slot.image), layout.unpack(self._slots[address].image)
            if want.reg_off == got.reg_off == defs.Reg.DEV_STS:
                bits = defs.REG_BITS.DEV_STS
                was, now = bits.unpack(want.reg_val), bits.unpack(got.reg_val)
                return (was.READY, was.RESET_IN_PROGRESS) != (now.READY, now.RESET_IN_PROGRESS)
        return False

    def image(self, address: int) -> bytearray:
        """Returns the bytes of the entry at an address."""
        return self._slots[address].image

    def drop_entries(self) -> None:
        """Removes all entries."""
        self._slots.clear()

    def _collect(self) -> None:
        """Collects the output of the device since the last call."""
        line = self._state.position.line
        writes = [(address, data, list(self._state.regions.split(address, data)))
                  for address, data in self._backend.writes()]
        for _, _, parts in writes:
            for region, start, at, part in parts:
                if region is None:
                    self._payload.append(PayloadWrite(start, part))
                    continue
                slot = self._slots.setdefault(start, Slot(region, start))
                slot.put(at, part)
                if region.kind == ASYNC_EVENT and not slot.missing:
                    del self._slots[start]
                    self._async_events += 1
        interrupts, packets = self._backend.interrupts(), self._backend.packets()
        self._interrupts.update(interrupts)
        self._result.packets += len(packets)
        if self._outputs is not None:
            for address, data, parts in writes:
                self._outputs.write(line, address, data, parts)
            for vector in interrupts:
                self._outputs.interrupt(vector)
            for packet in packets:
                self._outputs.packet(line, packet)

    def _missing(self, wanted: Expectation) -> int:
        """Returns how many entries and interrupts are missing, and 1 more for payload."""
        self._collect()
        entries = sum(a not in self._slots or bool(self._slots[a].missing) for a in wanted.slots)
        interrupts = sum(max(0, n - self._interrupts[v]) for v, n in wanted.interrupts.items())
        bytes_left = (sum(p.left for p in wanted.payload)
                      - sum(len(d) for _, d in self._payload))
        return entries + interrupts + (bytes_left > 0)

    def _report_missing(
        self, step: Step, wanted: Expectation, error: DeviceTimeout
    ) -> NoReturn:
        for address, slot in wanted.slots.items():
            came = self._slots.get(address)
            if came is None or came.missing:
                shown = came.image.hex() if came else "nothing"
                raise Difference(slot.line, f"{slot.region.kind} at {address:#x} did not arrive: "
                                 f"expected {slot.image.hex()}, got {shown} ({error})")
            self._entries.compare(slot, came)
        for vector, count in wanted.interrupts.items():
            if self._interrupts[vector] < count:
                line = next(n for n, v in step.interrupts if v == vector)
                raise Difference(line, f"interrupt {vector}: expected {count}, "
                                 f"got {self._interrupts[vector]} ({error})")
        self._compare_payload(wanted)
        raise Difference(step.line, str(error))

    def _compare_payload(self, wanted: Expectation, header_bytes: int = 0) -> None:
        compare_payload(wanted.payload, self._payload, self._state.position.line, header_bytes)
        self._result.payload_bytes += sum(len(one.data) for one in wanted.payload)
        self._payload = []

    def _check_slots(self) -> None:
        for slot in self._slots.values():
            raise Difference(self._state.position.line, f"{slot.region.kind} at "
                             f"{slot.address:#x} was not expected here: got {slot.image.hex()}")

    def _check_nothing_left(self) -> None:
        self._check_slots()
        line = self._state.position.line
        for address, data in self._payload:
            raise Difference(line, f"write of {len(data)} bytes at {address:#x} was not "
                             f"expected here: got {first_bytes(data, SHOWN_BYTES)}")
        for vector, count in self._interrupts.items():
            allowed = self._async_events if vector == self._state.admin_vector else 0
            if count > allowed:
                raise Difference(line, f"interrupt {vector} was not expected here: "
                                 f"got {count}, {allowed} allowed")
