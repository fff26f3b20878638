# SPDX-License-Identifier: Apache-2.0
"""Decides whether correct code, with some store buffer, can produce a bus trace.

Correct code has a fence before each doorbell. With every store buffer, the stores between two
doorbells of a queue are therefore exactly the WQEs that the second doorbell posts, in any order and
pieces. This rule is implemented independently of the checker: if the trace of a planted bug
satisfies the rule, no observer of the bus can distinguish the trace from that of correct code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from efa_cosim.layouts import defs
from efa_cosim.wclab.trace import DB, GONE, LLQ, SHOWN, WATCHED, Item, Shape

DWORD = 4
_PHASE, _PHASE_AT = defs.IoTxMetaDesc.phase, defs.IoTxMetaDesc.ctrl2.offset


class _Queue:
    """Checks the rule for one queue between two of its doorbells."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.posted = self.completed = 0
        self.stored: Counter[tuple[int, int]] = Counter()
        self.phases: dict[int, int] = {}
        self.first_phase: int | None = None

    def number(self, slot: int) -> int:
        """Returns the next WQE that may be stored into a slot."""
        return self.posted + (slot - self.posted) % self.shape.depth

    def store(self, offset: int, data: bytes) -> str | None:
        """Returns the violation of a store inside the ring, None if there is none."""
        shape = self.shape
        for at in range(offset - shape.llq, offset - shape.llq + len(data), DWORD):
            slot, inside = divmod(at, shape.entry_bytes)
            number = self.number(slot)
            if number - self.completed >= shape.depth:
                return f"WQE {number} stored while {number - shape.depth} is outstanding"
            self.stored[number, inside] += 1
            if self.stored[number, inside] > 1:
                return f"WQE {number}: dword {inside // DWORD} stored twice"
            byte = _PHASE_AT - inside
            if 0 <= byte < DWORD:
                start = at - (offset - shape.llq) + byte
                self.phases[number] = data[start] >> _PHASE.lsb & 1
        return None

    def ring(self, value: int) -> str | None:
        """Returns the violation of a doorbell, None if there is none."""
        shape, new = self.shape, (value - self.posted) & 0xFFFF
        end = self.posted + new
        if not new:
            return "a doorbell without a new WQE"
        if new * shape.entry_bytes // 64 > (shape.most_units or 1 << 16):
            return f"{new} WQEs before a doorbell, more than the maximum batch"
        if end - self.completed > shape.depth:
            return f"a doorbell for {new} WQEs, more than the free slots of the ring"
        due = {(number, inside) for number in range(self.posted, end)
               for inside in range(0, shape.entry_bytes, DWORD)}
        if self.stored.keys() != due:
            return f"{len(due - self.stored.keys())} dwords missing at a doorbell, " \
                   f"{len(self.stored.keys() - due)} too many"
        for number, phase in self.phases.items():
            first = (phase - number // shape.depth) % 2
            if self.first_phase not in (None, first):
                return f"WQE {number} has the phase of another pass over the ring"
            self.first_phase = first
        self.stored.clear()
        self.phases.clear()
        self.posted = end
        return None


def breach(items: Iterable[Item]) -> str | None:
    """Returns the first violation in a trace, None if correct code can produce the trace."""
    queues: dict[Shape, _Queue] = {}
    for item in items:
        wrong = None
        if item.kind == WATCHED:
            queues[item.what] = _Queue(item.what)
        elif item.kind == GONE:
            queue = queues.pop(item.what)
            wrong = "stored and never posted" if queue.stored else None
        elif item.kind == LLQ:
            owner = [q for s, q in queues.items() if s.llq <= item.what < s.end]
            inside = owner and item.what + len(item.data) <= owner[0].shape.end
            wrong = owner[0].store(item.what, item.data) if inside else "a store outside all rings"
        elif item.kind == DB:
            wrong = queues[item.what].ring(item.data)
        elif item.kind == SHOWN and item.what == "cqe":
            for shape, queue in queues.items():
                sent = item.data["q_type"] == defs.IoQueueType.SEND_QUEUE
                queue.completed += shape.index == item.data["qpn"] and sent
        if wrong:
            return wrong
    return None
