# SPDX-License-Identifier: Apache-2.0
"""Watches send queues from outside: what crosses the bus against the rules providers must keep.

It sees a trace (efa.lab.trace): stores, doorbells, what the device shows. It does not see the
provider, its switches or the store buffer. What it finds is evidence; efa.lab.verdict names it.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from efa import defs
from efa.lab.trace import GONE, LLQ, RUNG, SHOWN, WATCHED

DWORD_BYTES, UNIT_BYTES = 4, 64
COUNTER = 1 << 16
# What the evidence of one queue may be; TORN and RANG_WHOLE speak of doorbells.
REWRITTEN, REPEATED, BACK, BACK_A_LAP = "rewritten", "repeated", "back", "back a lap"
BEYOND, BESIDE, IN_FLIGHT = "beyond the ring", "beside the ring", "slot in flight"
LARGE, PHASE, NEVER_RUNG = "large batch", "phase", "never rung"
LEFT_OUT = "left out"
_META = defs.IoTxMetaDesc
_PHASE_DWORD, _PHASE_BYTE = divmod(_META.ctrl2.offset, DWORD_BYTES)


@dataclass
class Announced:
    """One doorbell: entries first to end, and of each what was missing then, as dword masks.

    late: what of it has not come since. followed: all that was missing came as the very next.
    """

    shape: object
    first: int
    end: int
    missing: dict
    late: dict
    followed: bool = True

    @property
    def only_last_store(self):
        """True when exactly the last eight bytes were missing."""
        dwords = self.shape.entry_bytes // DWORD_BYTES
        return self.missing == {self.end - 1: 3 << dwords - 2}


@dataclass
class Findings:
    """Everything found in a trace: how often what, first in words, doorbells, device errors."""

    counts: dict = field(default_factory=lambda: defaultdict(int))
    first: dict = field(default_factory=dict)
    doorbells: list = field(default_factory=list)
    device: dict = field(default_factory=lambda: defaultdict(int))

    def add(self, kind, text):
        """One more piece of evidence."""
        self.counts[kind] += 1
        self.first.setdefault(kind, text)

    @property
    def torn(self):
        """Doorbells that came before all they announce."""
        return [one for one in self.doorbells if one.missing]


class _Watch:
    """One queue: what was rung, what stands in the slots since, what is owed."""

    def __init__(self, shape, findings):
        self.shape, self.findings = shape, findings
        self.rung = self.completed = 0
        self.whole = (1 << shape.entry_bytes // DWORD_BYTES) - 1
        self.stored = defaultdict(int)
        self.owed = {}
        self.first_phase = None

    def found(self, kind, text):
        self.findings.add(kind, f"queue {self.shape.index}: {text}")

    def store(self, offset, data):
        """Stored dwords, which lie in one slot; True when all of it was owed."""
        shape = self.shape
        slot, inside = divmod(offset - shape.llq, shape.entry_bytes)
        mask = (1 << len(data) // DWORD_BYTES) - 1 << inside // DWORD_BYTES
        number = self.rung + (slot - self.rung) % shape.depth
        announced = self.owed.get(number - shape.depth)
        if announced and not mask & ~announced.late.get(number - shape.depth, 0):
            self._owed_comes(announced, number - shape.depth, mask)
            return True
        if number - self.completed >= shape.depth:
            self.found(IN_FLIGHT, f"slot {slot} is stored for entry {number}, {self.completed} "
                                  f"of {self.rung} are completed")
        if self.stored[number] & mask:
            self.found(REWRITTEN, f"entry {number}: dwords {self.stored[number] & mask:#x} are "
                                  "stored a second time before their doorbell")
        self.stored[number] |= mask
        if mask >> _PHASE_DWORD & 1:
            at = _META.ctrl2.offset - inside
            self._phase(number, data[at] >> _META.phase.lsb & 1)
        return False

    def _owed_comes(self, announced, number, mask):
        announced.late[number] &= ~mask
        if not announced.late[number]:
            del announced.late[number], self.owed[number]

    def _phase(self, number, phase):
        """The first entry teaches the phase of its lap."""
        first = (phase - number // self.shape.depth) % 2
        if self.first_phase is None:
            self.first_phase = first
        elif first != self.first_phase:
            self.found(PHASE, f"entry {number} has phase {phase} in lap "
                              f"{number // self.shape.depth}")

    def ring(self, value):
        """A doorbell; gives what it announces, None where it announces nothing legal."""
        shape = self.shape
        ready = self.rung
        while self.stored.get(ready) == self.whole:
            ready += 1
        new = (value - self.rung) % COUNTER
        if ready >= shape.depth and ready != self.rung and value == ready % shape.depth \
                and value != ready % COUNTER:
            self.found(BACK_A_LAP, f"doorbell {value} where {ready % COUNTER} is due: counted "
                                   f"modulo {shape.depth}")
            self._go_on(ready)
        elif new == 0:
            self.found(REPEATED, f"doorbell {value} a second time")
        elif new > COUNTER // 2:
            self.found(BACK, f"doorbell {value} behind {self.rung % COUNTER}")
        elif self.rung + new - self.completed > shape.depth:
            self.found(BEYOND, f"doorbell for {new} entries, the ring has room for "
                               f"{shape.depth - self.rung + self.completed}")
            self._go_on(self.rung + new)
        else:
            return self._announce(self.rung + new)
        return None

    def _go_on(self, end):
        """The device refuses this doorbell; the host believes that it counted."""
        for number in [number for number in self.stored if number < end]:
            del self.stored[number]
        self._nothing_left_out(end)
        self.rung = end

    def _nothing_left_out(self, end):
        """One thread announces all that it stored; another one's stores would be beyond."""
        left = sorted(self.stored)
        if left:
            slots = ", ".join(str(number % self.shape.depth) for number in left)
            self.found(LEFT_OUT, f"slots {slots} were stored, the doorbell ends before entry {end}")
            self.stored.clear()

    def _announce(self, end):
        shape = self.shape
        units = (end - self.rung) * shape.entry_bytes // UNIT_BYTES
        if shape.most_units and units > shape.most_units:
            self.found(LARGE, f"{units} units of {UNIT_BYTES} bytes before a doorbell, "
                              f"{shape.most_units} are allowed")
        missing = {n: self.whole & ~self.stored.pop(n, 0) for n in range(self.rung, end)}
        missing = {n: mask for n, mask in missing.items() if mask}
        announced = Announced(shape, self.rung, end, missing, dict(missing))
        self.findings.doorbells.append(announced)
        self.owed |= dict.fromkeys(missing, announced)
        self._nothing_left_out(end)
        self.rung = end
        return announced

    def leave(self):
        """The queue goes: what is whole in it was never announced."""
        unrung = [n for n, mask in self.stored.items() if mask == self.whole]
        if unrung:
            self.found(NEVER_RUNG, f"{len(unrung)} entries from {min(unrung)} on were stored and "
                                   "never announced")


class Checker:
    """Findings of a trace: check(items)."""

    def __init__(self):
        self.findings = Findings()
        self._queues = {}
        self._last = None

    def check(self, items):
        """Looks at everything in its order; the Findings."""
        for item in items:
            if item.kind == LLQ:
                self._store(item.what, item.data)
            elif item.kind == RUNG:
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

    def _store(self, offset, data):
        for shape, queue in self._queues.items():
            if shape.llq <= offset < shape.end:
                self._settle(queue.store(offset, data))
                return
        self.findings.add(BESIDE, f"a store of {len(data)} bytes at {offset:#x}, where no ring is")

    def _settle(self, owed):
        """Whether what the last doorbell left out follows it directly."""
        last = self._last
        if last is not None and not owed:
            last.followed = bool(last.missing) and not last.late
            self._last = None

    def _shown(self, name, fields):
        queue = next((q for s, q in self._queues.items()
                      if s.index == fields.get("qpn", fields.get("num"))), None)
        if queue is None:
            if name == "llq" and fields["verdict"]:
                self.findings.device[f"LLQ store refused: {_LLQ[fields['verdict']]}"] += 1
            return
        if name == "cqe" and fields["q_type"] == defs.IoQueueType.SEND_QUEUE:
            queue.completed += 1
            if fields["status"]:
                status = defs.IoCompStatus(fields["status"])
                self.findings.device[f"completed {status.name}"] += 1
        elif name == "db" and fields["kind"] == 0 and fields["verdict"]:
            self.findings.device["doorbell refused"] += 1
        elif name == "qperr":
            self.findings.device[f"QP to ERR: {_CAUSES.get(fields['cause'], 'other')}"] += 1
        elif name == "wqe" and fields.get("odd_phase"):
            self.findings.device["phase reported"] += 1


_LLQ = {1: "no owner", 2: "slot rung and not taken", 3: "partial dwords"}
_CAUSES = {1: "doorbell beyond the ring", 3: "unwritten dword", 4: "store to a rung slot"}
