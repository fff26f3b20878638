# SPDX-License-Identifier: Apache-2.0
"""Bounds completion events and interrupts by host stores and written entries.

An arm takes effect some time after the host posted it, so the order of an arm and a completion is
open while both are in flight. The rules:

- Each EQE needs an arm of its CQ that no earlier EQE used, a CQE that this arm did not cover, and
  an arm of the EQ since the last EQE of that CQ.
- Each message needs an arm of its EQ that no earlier message used, and an entry that no earlier
  message reported.

Every entry and message uses the oldest arm that permits it, which leaves the most for later ones: a
refused output is valid in no order. At rest every arm has taken effect, so the bounds are tightened
and a missing event or message is reported.

A cycle is the one in which the host posted a store or the device handed over an entry or message.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from efa_cosim.device.objects import Cq

_COUNT_MASK = 0xFFFF
NEVER = -1


class AdminMessages:
    """Bounds messages of the admin vector; a message reports one or more ACQEs or AENQ entries."""

    def __init__(self, vector: int) -> None:
        self.vector = vector
        self.unreported: deque[int] = deque()
        self.last_entry = self.last_message = NEVER

    def __repr__(self) -> str:
        return f"vector {self.vector} of the admin queues"

    def entry(self, cycle: int) -> None:
        """Records a written admin response or asynchronous event."""
        self.unreported.append(cycle)
        self.last_entry = cycle

    def message(self, cycle: int) -> bool:
        """Consumes the entry that permits a message in this cycle; False without such an entry."""
        if not self.unreported or self.unreported[0] >= cycle:
            return False
        self.unreported.popleft()
        return True

    def missing(self) -> str | None:
        """Returns the text of the message that is missing at rest, or None."""
        if self.last_entry <= self.last_message:
            return None
        return f"message of {self}: entry of cycle {self.last_entry} was not reported"

    def rest(self, blocked: int) -> None:
        """At rest every entry is reported, except for a message that a mask holds back."""
        while len(self.unreported) > blocked:
            self.unreported.popleft()


class EventQueue:
    """Bounds one EQ: arms by the host, EQEs and messages by the device."""

    def __init__(self, number: int, vector: int) -> None:
        self.number, self.vector = number, vector
        self.arms: list[int] = []
        self.open_arms: deque[int] = deque()
        self.unreported: deque[int] = deque()
        self.last_entry = self.last_message = NEVER

    def __repr__(self) -> str:
        return f"vector {self.vector} of EQ {self.number}"

    @property
    def last_arm(self) -> int:
        """Cycle of the newest arm."""
        return self.arms[-1] if self.arms else NEVER

    def arm(self, cycle: int) -> None:
        """Records an arm posted by the host."""
        self.arms.append(cycle)
        self.open_arms.append(cycle)

    def entry(self, cycle: int) -> None:
        """Records a written EQE."""
        self.unreported.append(cycle)
        self.last_entry = cycle

    def message(self, cycle: int) -> bool:
        """Consumes the arm and the EQE that permit a message in this cycle; False without them."""
        arms, entries = self.open_arms, self.unreported
        if not arms or arms[0] >= cycle or not entries or entries[0] >= cycle:
            return False
        armed = arms.popleft()
        entries.popleft()
        # EQEs from before the arm are covered by the message that the arm led to.
        while entries and entries[0] <= armed:
            entries.popleft()
        return True

    def missing(self) -> str | None:
        """Returns the text of the message that is missing at rest, or None."""
        if self.last_message >= min(self.last_arm, self.last_entry):
            return None
        return (
            f"message of {self}: armed in cycle {self.last_arm}, "
            f"entry of cycle {self.last_entry} was not reported"
        )

    def rest(self, blocked: int) -> None:
        """At rest the EQ has an arm or a new EQE, not both, unless a mask holds a message back."""
        if not blocked and self.last_arm > self.last_message:
            self.unreported.clear()
        if not blocked and self.last_entry > self.last_message:
            self.open_arms.clear()
        for left in (self.unreported, self.open_arms):
            while len(left) > 1 + blocked:
                left.popleft()


class Arm:
    """An arm of a CQ: its cycle, its consumer index and the number of CQEs written before it."""

    __slots__ = ("consumer", "cycle", "written")

    def __init__(self, cycle: int, consumer: int, written: int) -> None:
        self.cycle, self.consumer, self.written = cycle, consumer, written


class CompletionQueue:
    """Bounds one CQ in interrupt mode: arms by the host, CQEs and EQEs by the device."""

    def __init__(
        self,
        number: int,
        eq: EventQueue,
        model: Cq,
        before: CompletionQueue | None = None,
    ) -> None:
        self.number, self.eq, self.model, self.before = number, eq, model, before
        self.written = 0
        self.arms: deque[Arm] = deque()
        self.last_arm: Arm | None = None
        self.last_event = NEVER
        # Arms of the EQ before this one are used by the EQEs that followed them.
        self.free, self.next_arm = True, len(eq.arms)

    def arm(self, cycle: int, consumer: int) -> None:
        """Records an arm posted by the host that covers `consumer` CQEs."""
        self.last_arm = Arm(cycle, consumer, self.written)
        self.arms.append(self.last_arm)

    def completion(self, cycle: int) -> None:
        """Records a written CQE."""
        self.written += 1
        for arm in self.arms:
            # The host posted the arm after this CQE, before the logs were read.
            if arm.cycle >= cycle:
                arm.written = self.written

    def refusal(self, cycle: int) -> str | None:
        """Consumes the arm that permits an EQE; returns None, or the expected output instead."""
        eq_arms, at = self.eq.arms, self.next_arm
        if not self.free and not (at < len(eq_arms) and eq_arms[at] < cycle):
            return f"none before EQ {self.eq.number} is armed again"
        while self.arms and self.arms[0].cycle < cycle:
            if self._fulfilled(self.arms.popleft()):
                self.next_arm += not self.free
                self.free, self.last_event = False, cycle
                return None
        return f"none: no arm is open that the {self.written} CQEs written so far fulfil"

    def _fulfilled(self, arm: Arm) -> bool:
        """True when the arm may have found a CQE that it does not cover."""
        return arm.written != self.written or arm.consumer != self.written & _COUNT_MASK

    def missing(self) -> str | None:
        """Returns the text of the EQE that is missing at rest, or None."""
        if self.last_arm is None:
            return None
        cycle, consumer = self.last_arm.cycle, self.last_arm.consumer
        if consumer == self.written & _COUNT_MASK or self.last_event > min(cycle, self.eq.last_arm):
            return None
        return (
            f"event of CQ {self.number} on EQ {self.eq.number}: armed in cycle {cycle} behind "
            f"{consumer} CQEs, {self.written} are written"
        )

    def rest(self) -> None:
        """At rest only the newest arm may be open, and one event may wait for an arm of the EQ."""
        if not self.free and self.next_arm < len(self.eq.arms):
            self.free = True
        if self.free:
            self.next_arm = len(self.eq.arms)
        arms = self.arms
        youngest = arms.pop() if arms else None
        held = next(filter(self._fulfilled, arms), None)
        arms.clear()
        if held and not self.free:
            arms.append(held)
        if youngest:
            arms.append(youngest)
        self.before = None
