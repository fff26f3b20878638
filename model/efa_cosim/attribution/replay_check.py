# SPDX-License-Identifier: Apache-2.0
"""Replays packet validation: arrival of packets, claims of descriptors, the line of jobs.

A packet whose descriptor has not arrived is parked, with all later packets of its ring. The list
of parked packets is examined after each descriptor read and every PERIOD cycles.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from efa_cosim.cycle.receiving import WINDOW_PLACES

OPEN, QUIET, PASSING = range(3)
# Parked packets that stop new packets, and the period of passes over the list in cycles.
MANY, PERIOD = 58, 64
FRONT = 2


class _Store:
    """A RAM FIFO with output register: an item is visible two cycles after its arrival."""

    def __init__(self) -> None:
        self._stored: deque[int] = deque()
        self.head: int | None = None

    @property
    def level(self) -> int:
        return len(self._stored) + (self.head is not None)

    def step(self, consumed: bool, item: int | None) -> None:
        """Executes one cycle; consumed: the output is consumed, item: the input or None."""
        if self._stored and (self.head is None or consumed):
            self.head = self._stored.popleft()
        elif consumed:
            self.head = None
        if item is not None:
            self._stored.append(item)


class Way:
    """Cycles of each step of a packet.

    front    arrival at the front of the validation; past: the packet bypassed the store
    parked   cycle of parking, None if not parked; here: arrival of the packet's descriptor
    found    end of the look-up; late: cycles by which it was late, as reads began in its cycles
    claim, step, response, job  last claim accepted, looked up, responded; move to the checks
    """

    __slots__ = ("front", "past", "first", "parked", "here", "claim", "found", "late", "step",
                 "response", "job")

    front: int
    past: bool
    first: int | None
    parked: int | None
    here: int
    claim: int
    found: int
    late: int
    step: int
    response: int
    job: int

    def __init__(self) -> None:
        self.first = self.parked = None
        self.late = 0


class Validated(NamedTuple):
    """A replay: the ways, the order of their jobs, {cycle: state} in which the list came first."""

    ways: dict[int, Way]
    order: list[int]
    held: dict[int, int]


def validate(
    enters: Sequence[tuple[int, int]],
    ring_of: Sequence[int],
    here: Callable[[int, int], int],
    passes: int,
    over: Iterable[int],
    verdicts: Sequence[int],
    places: int,
    window: int,
    look: Sequence[int],
    claims: Sequence[bool],
    look_late: Callable[[int, int], int],
    held_until: Callable[[int], int],
) -> Validated:
    """Replays packet validation; returns {message: Way}, messages in the order of their jobs, and
    {cycle: state} of the cycles in which older packets stopped new packets.

    enters    [(cycle of the last flit, message)] in order
    here      of (ring, number of the packet in its ring): cycle in which its descriptor is visible
    passes    cycle, modulo PERIOD, of the periodic pass over the list
    over      cycles in which a descriptor read has ended
    verdicts  of a message: cycle in which it left the checks; at most `places` are in the checks
    window    cycles of a packet in efa_rx_window
    look      of a message: cycles of the look-up of region and peer, or of its read, before the
              claim; 0: none
    claims    of a message: it claims a descriptor
    look_late of (message, cycle): cycles by which a look-up that begins then is late
    held_until  of a message: cycle in which the read request before it moves on; -1: none
    """
    ways = {message: Way() for _, message in enters}
    arrivals, ends_of_reads = deque(enters), deque(over)
    store, waiting = _Store(), _Store()
    front: deque[int] = deque()
    # Packets in efa_rx_window, each with its cycle at the output.
    passed: deque[tuple[int, int]] = deque()
    # Stages: claim to look up, response to the claim, job.
    one: int | None = None
    two: int | None = None
    job: int | None = None
    looked: int | None = None  # End of the look-up of the packet in `one`.
    stopped = False  # The packet in `two` is behind parked packets of its ring.
    claimed: dict[int, int] = {}
    number_of: dict[int, int] = {}
    blocked: set[int] = set()
    inside: deque[int] = deque()
    order: list[int] = []
    held: dict[int, int] = {}
    state, full, due, left, rest = OPEN, False, True, 0, 0
    total, cycle = len(arrivals), arrivals[0][0]
    while len(order) < total:
        if not (front or passed or store.level or waiting.level or one is not None
                or two is not None or job is not None):
            # No packet present: skip idle cycles, with the effects of the timers.
            idle = max(0, arrivals[0][0] - cycle)
            due = due or (passes - cycle) % PERIOD < idle
            rest, cycle = max(0, rest - idle), cycle + idle
        while inside and verdicts[inside[0]] < cycle:
            inside.popleft()
        consumed = job is not None and len(inside) < places
        parks = two is not None and (stopped or (
            claims[two] and here(ring_of[two], number_of[two]) > cycle))
        leaves = two is not None and (parks or job is None or consumed)
        behind = (one is not None and two is not None and ring_of[one] == ring_of[two]
                  and ring_of[one] not in blocked)
        steps = one is not None and not behind and (two is None or leaves)
        stands = one is not None and ring_of[one] in blocked
        if one is not None and look[one] and not stands:
            # A look-up begins behind the packet in front.
            if looked is None and two is None:
                ways[one].late = look_late(one, cycle)
                looked = cycle + look[one] + ways[one].late
            steps = looked is not None and looked <= cycle
            steps = steps and held_until(one) < cycle
        ready = one is None or steps
        is_open = state == OPEN and not full
        if not is_open:
            held[cycle] = state
        new = passed[0][0] if passed and passed[0][1] <= cycle else None
        offered = waiting.head if state == PASSING else new if is_open else None
        offers = offered is not None and not ready
        begins = state == QUIET and one is None and two is None
        comes_in = arrivals.popleft()[1] if arrivals and arrivals[0][0] == cycle else None
        # State of the next cycle.
        level = waiting.level
        following = state
        if state == OPEN:
            if due and level and (not rest or full) and not offers:
                following = QUIET
        elif state == QUIET:
            following = PASSING if begins else QUIET
        elif offered is not None and ready and left == 1:
            following = OPEN
        if not offers:
            full = level >= MANY
        ends = bool(ends_of_reads) and ends_of_reads[0] + 1 <= cycle
        while ends_of_reads and ends_of_reads[0] + 1 <= cycle:
            ends_of_reads.popleft()
        due = ends or cycle % PERIOD == passes or (due and not begins)
        if begins:
            left = rest = level
            blocked = set()
        else:
            if state == PASSING and offered is not None and ready:
                left -= 1
            if state == OPEN and rest:
                rest -= 1
            if parks:
                assert two is not None
                blocked = blocked | {ring_of[two]}
        waiting.step(state == PASSING and ready, two if parks else None)
        if consumed:
            assert job is not None
            order.append(job)
            inside.append(job)
            ways[job].job = cycle
            job = None
        if leaves:
            assert two is not None
            way = ways[two]
            if parks:
                if way.parked is None:
                    way.parked = cycle
            else:
                way.response = cycle
                claimed[ring_of[two]] = number_of[two] + claims[two]
                job = two
            two = None
        if steps:
            assert one is not None
            two, stopped = one, stands
            number_of[two] = claimed.get(ring_of[two], 0)
            way = ways[two]
            way.step, way.found = cycle, cycle if looked is None else looked
            way.here = here(ring_of[two], number_of[two]) if claims[two] else cycle
            one = None
        if ready and offered is not None:
            one, looked = offered, None
            way = ways[one]
            way.claim = cycle
            if way.first is None:
                way.first = cycle
        taken_front = ready and offered is not None and state != PASSING
        bypass = not store.level
        space = len(front) < FRONT
        moved = None
        if comes_in is not None and bypass and space:
            moved, ways[comes_in].past = comes_in, True
            store.step(False, None)
        else:
            if comes_in is not None:
                ways[comes_in].past = False
            if not bypass and store.head is not None and space:
                moved = store.head
            store.step(not bypass and space, comes_in)
        if taken_front:
            passed.popleft()
        if front and len(passed) < WINDOW_PLACES:
            passed.append((front.popleft(), cycle + window))
        if moved is not None:
            front.append(moved)
            ways[moved].front = cycle
        state = following
        cycle += 1
    return Validated(ways, order, held)
