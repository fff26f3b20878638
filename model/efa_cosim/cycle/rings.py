# SPDX-License-Identifier: Apache-2.0
"""Prefetches receive descriptors (see efa_cosim.cycle.sending)."""

from __future__ import annotations

from efa_cosim.cycle import engine
from efa_cosim.cycle.costs import Costs
from efa_cosim.cycle.state import AT_READS, AT_VALIDATE, FAR, NOW, R  # fmt: skip
from efa_cosim.cycle.timelines import Ints

REQ_TAIL, FETCH_WAITS, FETCH_RING = R["req_tail"], R["fetch_waits"], R["fetch_ring"]
FETCH_AT, FETCH_TURN, MOVED, MOVED_AT = R["fetch_at"], R["fetch_turn"], R["moved"], R["moved_at"]
ARRIVED, ARRIVED_N, USED_HEAD, USED_TAIL = (
    R["arrived"],
    R["arrived_n"],
    R["used_head"],
    R["used_tail"],
)
AGAIN_HEAD, AGAIN_TAIL = R["again_head"], R["again_tail"]
NONE = -1


@engine
def _look_at(
    now: int, c: Costs, r: Ints, used: Ints, used_due: Ints, in_used: Ints, again: Ints,
    again_due: Ints, in_again: Ints
) -> tuple[int, int]:
    """Returns the ring to examine now, round robin of both kinds, or -1 and the cycle of the next.
    """
    if r[FETCH_WAITS] == 1:
        return NONE, FAR
    if r[FETCH_RING] >= 0:
        return (r[FETCH_RING], now) if r[FETCH_AT] <= now else (NONE, r[FETCH_AT])
    first = again_due[r[AGAIN_HEAD] % c.queues] if r[AGAIN_HEAD] < r[AGAIN_TAIL] else FAR
    second = used_due[r[USED_HEAD] % c.queues] if r[USED_HEAD] < r[USED_TAIL] else FAR
    due = max(r[FETCH_AT], min(first, second))
    if due > now:
        return NONE, due
    if first <= now and (second > now or r[FETCH_TURN] == 0):
        ring = again[r[AGAIN_HEAD] % c.queues]
        in_again[ring] = 0
        r[AGAIN_HEAD] += 1
        r[FETCH_TURN] = 1
    else:
        ring = used[r[USED_HEAD] % c.queues]
        in_used[ring] = 0
        r[USED_HEAD] += 1
        r[FETCH_TURN] = 0
    return ring, now


@engine
def fetch(
    now: int,
    c: Costs,
    r: Ints,
    requested: Ints,
    moved_n: Ints,
    used: Ints,
    used_due: Ints,
    in_used: Ints,
    again: Ints,
    again_due: Ints,
    in_again: Ints,
    req_ring: Ints,
    req_block: Ints,
    req_at: Ints,
    req_end: Ints,
    wake: Ints,
) -> int:
    """Examines rings, one at a time: rings with a new consumer index, and rings whose read ended.
    """
    look, later = _look_at(now, c, r, used, used_due, in_used, again, again_due, in_again)
    if r[MOVED] >= 0:
        if r[MOVED_AT] <= now:
            ring = r[MOVED]
            r[MOVED] = NONE
            if in_used[ring] == 0:
                in_used[ring] = 1
                place = r[USED_TAIL] % c.queues
                used[place], used_due[place] = ring, now + c.shown
                r[USED_TAIL] += 1
                later = min(later, now + c.shown)
        else:
            later = min(later, r[MOVED_AT])
    while r[ARRIVED_N] < r[REQ_TAIL]:
        end = req_end[r[ARRIVED_N]]
        if end > now:
            later = min(later, end)
            break
        r[ARRIVED] = min(r[ARRIVED], now + 1)
        wake[AT_VALIDATE] = NOW
        ring = req_ring[r[ARRIVED_N]]
        if in_again[ring] == 0:
            in_again[ring] = 1
            place = r[AGAIN_TAIL] % c.queues
            again[place], again_due[place] = ring, now + c.shown
            r[AGAIN_TAIL] += 1
            later = min(later, now + c.shown)
        r[ARRIVED_N] += 1
    if look < 0:
        return later
    number = min(c.read_descriptors, c.per_queue - requested[look])
    if number > 0 and requested[look] - moved_n[look] + number <= c.descriptors:
        tail = r[REQ_TAIL]
        req_ring[tail] = look
        req_block[tail] = requested[look] // c.read_descriptors
        req_at[tail] = now + c.look_read
        req_end[tail] = FAR
        requested[look] += number
        r[REQ_TAIL] += 1
        r[FETCH_WAITS] = 1
        r[FETCH_RING] = look
        wake[AT_READS] = NOW
        return later
    r[FETCH_RING] = NONE
    due = now + c.look
    r[FETCH_AT] = due
    return min(later, due)
