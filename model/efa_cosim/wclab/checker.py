# SPDX-License-Identifier: Apache-2.0
"""Checks send queues from outside: the bus trace against the rules for providers.

The input is a trace (trace.py): stores, doorbells, device events. The checker does not depend
on the provider, its bug or the store buffer. Its findings are evidence; verdict.py names the
bug.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from efa_cosim.layouts import defs
from efa_cosim.wclab.trace import DB, GONE, LLQ, SHOWN, WATCHED, Item, Shape

DWORD_BYTES, UNIT_BYTES = 4, 64
COUNTER = 1 << 16
# Kinds of evidence about one queue.
REWRITTEN, REPEATED, BACK, BACK_A_WRAP = "rewritten", "repeated", "back", "back a wrap"
BEYOND, OUTSIDE, IN_FLIGHT = "beyond the ring", "outside the ring", "slot in flight"
LARGE, PHASE, NEVER_POSTED = "large batch", "phase", "never posted"
LEFT_OUT = "left out"
_META = defs.IoTxMetaDesc
_PHASE_DWORD, _PHASE_BYTE = divmod(_META.ctrl2.offset, DWORD_BYTES)


@dataclass
class Announced:
    """One doorbell: posts WQEs first to end - 1. missing: their unwritten dwords, as masks.

    late: missing dwords not stored since. followed: the next store wrote all missing dwords.
    """

    shape: Shape
    first: int
    end: int
    missing: dict[int, int]
    late: dict[int, int]
    followed: bool = True

    @property
    def only_last_store(self) -> bool:
        """Returns True if exactly the last eight bytes were missing."""
        dwords = self.shape.entry_bytes // DWORD_BYTES
        return self.missing == {self.end - 1: 3 << dwords - 2}


@dataclass
class Findings:
    """All findings of a trace: count and first text per kind, doorbells, device errors."""

    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    first: dict[str, str] = field(default_factory=dict)
    doorbells: list[Announced] = field(default_factory=list)
    device: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, kind: str, text: str) -> None:
        """Adds one piece of evidence."""
        self.counts[kind] += 1
        self.first.setdefault(kind, text)

    @property
    def incomplete(self) -> list[Announced]:
        """Returns the doorbells that posted incomplete WQEs."""
        return [one for one in self.doorbells if one.missing]


class _Watch:
    """State of one queue: posted WQEs, stores to its slots since, missing dwords."""

    def __init__(self, shape: Shape, findings: Findings) -> None:
        self.shape, self.findings = shape, findings
        self.posted = self.completed = 0
        self.whole = (1 << shape.entry_bytes // DWORD_BYTES) - 1
        self.stored: defaultdict[int, int] = defaultdict(int)
        self.owed: dict[int, Announced] = {}
        self.first_phase: int | None = None

    def found(self, kind: str, text: str) -> None:
        self.findings.add(kind, f"queue {self.shape.index}: {text}")

    def store(self, offset: int, data: bytes) -> bool:
        """Adds a store inside one slot; returns True if all its dwords were missing at a doorbell.
        """
        shape = self.shape
        slot, inside = divmod(offset - shape.llq, shape.entry_bytes)
        mask = (1 << len(data) // DWORD_BYTES) - 1 << inside // DWORD_BYTES
        number = self.posted + (slot - self.posted) % shape.depth
        announced = self.owed.get(number - shape.depth)
        if announced and not mask & ~announced.late.get(number - shape.depth, 0):
            self._owed_comes(announced, number - shape.depth, mask)
            return True
        if number - self.completed >= shape.depth:
            self.found(IN_FLIGHT, f"slot {slot} is stored for WQE {number} while {self.completed} "
                                  f"of {self.posted} posted WQEs are completed")
        if self.stored[number] & mask:
            self.found(REWRITTEN, f"WQE {number}: dwords {self.stored[number] & mask:#x} are "
                                  "stored twice before their doorbell")
        self.stored[number] |= mask
        if mask >> _PHASE_DWORD & 1:
            at = _META.ctrl2.offset - inside
            self._phase(number, data[at] >> _META.phase.lsb & 1)
        return False

    def _owed_comes(self, announced: Announced, number: int, mask: int) -> None:
        announced.late[number] &= ~mask
        if not announced.late[number]:
            del announced.late[number], self.owed[number]

    def _phase(self, number: int, phase: int) -> None:
        """Checks a phase bit; the first WQE defines the phase of the first pass."""
        first = (phase - number // self.shape.depth) % 2
        if self.first_phase is None:
            self.first_phase = first
        elif first != self.first_phase:
            self.found(PHASE, f"WQE {number} has phase {phase} after "
                              f"{number // self.shape.depth} wraps")

    def ring(self, value: int) -> Announced | None:
        """Checks a doorbell; returns the posted WQEs, None if the doorbell is invalid."""
        shape = self.shape
        ready = self.posted
        while self.stored.get(ready) == self.whole:
            ready += 1
        new = (value - self.posted) % COUNTER
        if ready >= shape.depth and ready != self.posted and value == ready % shape.depth \
                and value != ready % COUNTER:
            self.found(BACK_A_WRAP, f"doorbell {value}, expected {ready % COUNTER}: counted modulo "
                                   f"the depth {shape.depth}")
            self._go_on(ready)
        elif new == 0:
            self.found(REPEATED, f"doorbell {value} is repeated")
        elif new > COUNTER // 2:
            self.found(BACK, f"doorbell {value} is behind {self.posted % COUNTER}")
        elif self.posted + new - self.completed > shape.depth:
            self.found(BEYOND, f"doorbell for {new} WQEs, the ring has "
                               f"{shape.depth - self.posted + self.completed} free slots")
            self._go_on(self.posted + new)
        else:
            return self._announce(self.posted + new)
        return None

    def _go_on(self, end: int) -> None:
        """Skips a doorbell that the device refuses and the host considers posted."""
        for number in [number for number in self.stored if number < end]:
            del self.stored[number]
        self._nothing_left_out(end)
        self.posted = end

    def _nothing_left_out(self, end: int) -> None:
        """Reports stores beyond the doorbell: a single thread posts everything it stored."""
        left = sorted(self.stored)
        if left:
            slots = ", ".join(str(number % self.shape.depth) for number in left)
            self.found(LEFT_OUT, f"slots {slots} were stored, the doorbell ends before WQE {end}")
            self.stored.clear()

    def _announce(self, end: int) -> Announced:
        shape = self.shape
        units = (end - self.posted) * shape.entry_bytes // UNIT_BYTES
        if shape.most_units and units > shape.most_units:
            self.found(LARGE, f"{units} units of {UNIT_BYTES} bytes before a doorbell, at most "
                              f"{shape.most_units} are allowed")
        missing = {n: self.whole & ~self.stored.pop(n, 0) for n in range(self.posted, end)}
        missing = {n: mask for n, mask in missing.items() if mask}
        announced = Announced(shape, self.posted, end, missing, dict(missing))
        self.findings.doorbells.append(announced)
        self.owed |= dict.fromkeys(missing, announced)
        self._nothing_left_out(end)
        self.posted = end
        return announced

    def leave(self) -> None:
        """Ends the queue: complete WQEs in its slots were never posted."""
        unrung = [n for n, mask in self.stored.items() if mask == self.whole]
        if unrung:
            self.found(NEVER_POSTED, f"{len(unrung)} WQEs from {min(unrung)} on were stored and "
                                   "never posted")


class Checker:
    """Checks a trace: check(items)."""

    def __init__(self) -> None:
        self.findings = Findings()
        self._queues: dict[Shape, _Watch] = {}
        self._last: Announced | None = None

    def check(self, items: Iterable[Item]) -> Findings:
        """Checks all items in order; returns the Findings."""
        for item in items:
            if item.kind == LLQ:
                self._store(item.what, item.data)
            elif item.kind == DB:
                self._settle(None)
                self._last = self._queues[item.what].ring(item.data)
            elif item.kind == SHOWN:
                self._shown(item.what, item.data)
            elif item.kind == WATCHED:
                self._queues[item.what] = _Watch(item.what, self.findings)
            elif item.kind == GONE:
                self._queues.pop(item.what).leave()
        self._settle(None)
        return self.findings

    def _store(self, offset: int, data: bytes) -> None:
        for shape, queue in self._queues.items():
            if shape.llq <= offset < shape.end:
                self._settle(queue.store(offset, data))
                return
        self.findings.add(OUTSIDE, f"store of {len(data)} bytes at {offset:#x}, outside all rings")

    def _settle(self, owed: bool | None) -> None:
        """Records whether the missing dwords of the last doorbell follow it directly."""
        last = self._last
        if last is not None and not owed:
            last.followed = bool(last.missing) and not last.late
            self._last = None

    def _shown(self, name: str, fields: dict[str, Any]) -> None:
        queue = next((q for s, q in self._queues.items()
                      if s.index == fields.get("qpn", fields.get("num"))), None)
        if queue is None:
            if name == "llq" and fields["status"]:
                self.findings.device[f"LLQ store refused: {_LLQ[fields['status']]}"] += 1
            return
        if name == "cqe" and fields["q_type"] == defs.IoQueueType.SEND_QUEUE:
            queue.completed += 1
            if fields["status"]:
                status = defs.IoCompStatus(fields["status"])
                self.findings.device[f"completed {status.name}"] += 1
        elif name == "db" and fields["kind"] == 0 and fields["status"]:
            self.findings.device["doorbell refused"] += 1
        elif name == "qperr":
            self.findings.device[f"QP to ERR: {_CAUSES.get(fields['cause'], 'other')}"] += 1
        elif name == "wqe" and fields.get("wrong_phase"):
            self.findings.device["phase reported"] += 1


_LLQ = {1: "no owner", 2: "slot posted and not taken", 3: "partial dwords"}
_CAUSES = {1: "doorbell beyond the ring", 3: "unwritten dword", 4: "store to a posted slot"}
