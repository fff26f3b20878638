# SPDX-License-Identifier: Apache-2.0
"""Prefetch of receive descriptors (see cycle.sending)."""

from cycle import engine
from cycle.state import (
    AT_JUDGE,
    AT_READS,
    FAR,
    NOW,
    R,
)  # fmt: skip

ASK_TAIL, FETCH_WAITS, FETCH_RING = R["ask_tail"], R["fetch_waits"], R["fetch_ring"]
FETCH_AT, FETCH_TURN, MOVED, MOVED_AT = R["fetch_at"], R["fetch_turn"], R["moved"], R["moved_at"]
COME, COME_N, USED_HEAD, USED_TAIL = R["come"], R["come_n"], R["used_head"], R["used_tail"]
AGAIN_HEAD, AGAIN_TAIL = R["again_head"], R["again_tail"]
NONE = -1


@engine
def _look_at(now, c, r, used, used_due, in_used, again, again_due, in_again):
    """The ring to examine now, round robin of both kinds, or -1 and the cycle of the next."""
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
def fetch(now, c, r, asked, moved_n, used, used_due, in_used, again, again_due, in_again, ask_ring,
          ask_block, ask_at, ask_end, wake):
    """Examines rings, one at a time: those whose consumer index moved, those whose read ended."""
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
    while r[COME_N] < r[ASK_TAIL]:
        end = ask_end[r[COME_N]]
        if end > now:
            later = min(later, end)
            break
        r[COME] = min(r[COME], now + 1)
        wake[AT_JUDGE] = NOW
        ring = ask_ring[r[COME_N]]
        if in_again[ring] == 0:
            in_again[ring] = 1
            place = r[AGAIN_TAIL] % c.queues
            again[place], again_due[place] = ring, now + c.shown
            r[AGAIN_TAIL] += 1
            later = min(later, now + c.shown)
        r[COME_N] += 1
    if look < 0:
        return later
    number = min(c.read_descriptors, c.per_queue - asked[look])
    if number > 0 and asked[look] - moved_n[look] + number <= c.descriptors:
        tail = r[ASK_TAIL]
        ask_ring[tail] = look
        ask_block[tail] = asked[look] // c.read_descriptors
        ask_at[tail] = now + c.look_read
        ask_end[tail] = FAR
        asked[look] += number
        r[ASK_TAIL] += 1
        r[FETCH_WAITS] = 1
        r[FETCH_RING] = look
        wake[AT_READS] = NOW
        return later
    r[FETCH_RING] = NONE
    r[FETCH_AT] = now + c.look
    return min(later, r[FETCH_AT])
