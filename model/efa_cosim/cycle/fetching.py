# SPDX-License-Identifier: Apache-2.0
"""Fetches send WQEs from host memory when posted; the scheduler sees each WQE on its arrival."""

from __future__ import annotations

from efa_cosim.cycle import engine
from efa_cosim.cycle.costs import Costs
from efa_cosim.cycle.state import AT_READS, AT_SCHEDULER, FAR, NOW, R
from efa_cosim.cycle.timelines import Ints

HOST_POST, WANT_POST, CALL_POST = R["host_post"], R["want_post"], R["call_post"]
ENTRY_QUEUE, ENTRY_AT, ENTRY_LINES = R["entry_queue"], R["entry_at"], R["entry_lines"]
ENTRY_LAST, ENTRY_INSIDE, ENTRY_NEXT = R["entry_last"], R["entry_inside"], R["entry_next"]
ENTRY_PUT, ENTRY_N, NEWS_N = R["entry_put"], R["entry_n"], R["news_n"]


@engine
def entries(
    now: int, c: Costs, r: Ints, post_at: Ints, want: Ints, read_slot: Ints, want_free: Ints,
    waiting: Ints, entry_free: Ints, wake: Ints
) -> int:
    """Requests reads for queues with posted lines not yet read: round robin, one read a cycle.

    Next: the queue under examination; put: a queue whose last read left lines unread.
    """
    if not c.sq_host:
        return FAR
    while r[WANT_POST] < r[HOST_POST] and post_at[r[WANT_POST]] + c.count < now:
        want[r[WANT_POST] % c.queues] += c.batch * c.lines
        r[WANT_POST] += 1
    called = -1
    if r[CALL_POST] < r[HOST_POST] and post_at[r[CALL_POST]] + c.call <= now:
        called = r[CALL_POST] % c.queues
        r[CALL_POST] += 1
    later = post_at[r[CALL_POST]] + c.call if r[CALL_POST] < r[HOST_POST] else FAR
    looks, put = r[ENTRY_NEXT], r[ENTRY_PUT]
    r[ENTRY_PUT] = -1
    done = looks < 0
    if looks >= 0 and want_free[looks] > now:
        later = min(later, want_free[looks])
    elif looks >= 0 and want[looks] == 0:
        done = True
    elif looks >= 0 and r[ENTRY_QUEUE] < 0:
        if entry_free[r[ENTRY_N] % c.reads_out] > now:
            later = min(later, entry_free[r[ENTRY_N] % c.reads_out])
        else:
            done = True
            at = read_slot[looks]
            lines = min(want[looks], min(c.read_lines - at % c.read_lines, c.ring_lines - at))
            want[looks] -= lines
            read_slot[looks] = at + lines if at + lines < c.ring_lines else 0
            want_free[looks] = now + c.request_again
            r[ENTRY_QUEUE], r[ENTRY_LINES], r[ENTRY_AT] = looks, lines, now + 1
            r[ENTRY_PUT] = looks if want[looks] > 0 else -1
            wake[AT_READS] = NOW
    some = r[ENTRY_INSIDE] > 0
    if done:
        follows = called
        if some:
            follows = r[ENTRY_LAST]
            while True:
                follows = follows + 1 if follows + 1 < c.queues else 0
                if waiting[follows] == 1:
                    break
            waiting[follows] = 0
            r[ENTRY_INSIDE] -= 1
        r[ENTRY_NEXT] = follows
        if follows >= 0:
            r[ENTRY_LAST] = follows
    if called >= 0 and (some or not done):
        _enter(r, waiting, called)
    if put >= 0:
        _enter(r, waiting, put)
    if r[ENTRY_PUT] >= 0 or (done and (r[ENTRY_NEXT] >= 0 or r[ENTRY_INSIDE] > 0)):
        return now + 1
    return later


@engine
def _enter(r: Ints, waiting: Ints, queue: int) -> None:
    if waiting[queue] == 0:
        waiting[queue] = 1
        r[ENTRY_INSIDE] += 1


@engine
def incoming(
    c: Costs, r: Ints, first: int, news_at: Ints, news_queue: Ints, news_count: Ints,
    entry_free: Ints, wake: Ints
) -> None:
    """Schedules the data of a read whose first beat arrives in cycle `first`: a WQE arrives with
    its last line; the place of the read is free after the last line."""
    for line in range(c.lines - 1, r[ENTRY_LINES], c.lines):
        n = r[NEWS_N]
        news_at[n] = first + line + c.beat_back + c.publish
        news_queue[n], news_count[n] = r[ENTRY_QUEUE], 1
        r[NEWS_N] += 1
    over = first + r[ENTRY_LINES] - 1 + c.beat_back + c.publish
    entry_free[r[ENTRY_N] % c.reads_out] = over + c.place_back
    r[ENTRY_N] += 1
    r[ENTRY_QUEUE] = -1
    wake[AT_SCHEDULER] = NOW
