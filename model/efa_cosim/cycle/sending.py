# SPDX-License-Identifier: Apache-2.0
"""Executes the send engines, cycle by cycle: host and scheduler.

Each function executes its engine in cycle `now` and returns the next cycle in which the engine can
act without another engine; an engine on which it depends wakes it. A register visible only in the
next cycle is modelled by the order of calls: downstream engines run first.
"""

from __future__ import annotations

from efa_cosim.cycle import engine
from efa_cosim.cycle.costs import Costs
from efa_cosim.cycle.state import (
    AT_ENTRIES,
    AT_SCHEDULER,
    AT_TRANSMIT,
    BELL,
    DB,
    FAR,
    NOW,
    SEEN,
    WQE,
    R,
)  # fmt: skip
from efa_cosim.cycle.timelines import Ints

HOST_POST, HOST_FREE, RING_POST = R["host_post"], R["host_free"], R["ring_post"]
COUNT_POST, LAST, INSIDE, CREDITS = R["count_post"], R["last"], R["inside"], R["credits"]
P_QUEUE, P_OVER, A_QUEUE, A_SECOND = R["p_queue"], R["p_over"], R["a_queue"], R["a_second"]
A_LEFT, A_OVER, S_QUEUE, S_DEDUCTS = R["a_left"], R["a_over"], R["s_queue"], R["s_deducts"]
S_FIRST, S_END, S_QUANTUM, C_QUEUE = R["s_first"], R["s_end"], R["s_quantum"], R["c_queue"]
C_FIRST, C_FLITS, C_QUANTUM, C_LEFT = R["c_first"], R["c_flits"], R["c_quantum"], R["c_left"]
D_QUEUE, ITEM_N, POPPED, ROUTED_N = R["d_queue"], R["item_n"], R["popped"], R["routed_n"]
FREED_AT, NEWS_N = R["freed_at"], R["news_n"]
COUNTED_QUEUE, COUNTED_AT = R["counted_queue"], R["counted_at"]


@engine
def host(
    now: int, c: Costs, r: Ints, at: Ints, beats: Ints, post_at: Ints, news_at: Ints,
    news_queue: Ints, news_count: Ints, wake: Ints
) -> int:
    """Stores the WQEs of each doorbell in order, once the host sees free slots or at the scheduled
    time."""
    while r[HOST_POST] < c.posts:
        post = r[HOST_POST]
        queue, turn = post % c.queues, post // c.queues
        start: int = r[HOST_FREE]
        must = (turn + 1) * c.batch - c.depth
        if must > 0:
            before = must - 1
            message = (before // c.batch * c.queues + queue) * c.batch + before % c.batch
            seen = at[SEEN, message * c.packets]
            if seen == FAR:
                return FAR
            start = max(start, seen)
        if c.gap > 0:
            start = max(start, post * c.gap)
        if start > now:
            return start
        bell = start + beats[post % len(beats)]
        if c.report_every > 0 and must > 0:
            # Consumer index first, if enough completions were seen since the last CQ doorbell.
            before = max(0, must - c.batch)
            if must // c.report_every > before // c.report_every:
                bell += 1
        r[HOST_FREE] = bell + 1
        post_at[post] = bell + c.ring
        for message in range(post * c.batch, (post + 1) * c.batch):
            at[BELL, message * c.packets] = bell
            at[DB, message * c.packets] = bell + c.ring
        r[HOST_POST] += 1
        if c.sq_host:
            wake[AT_ENTRIES] = min(wake[AT_ENTRIES], post_at[post] + c.call)
        else:
            news_at[post], news_queue[post], news_count[post] = bell + c.ring, queue, c.batch
            r[NEWS_N] = r[HOST_POST]
            wake[AT_SCHEDULER] = min(wake[AT_SCHEDULER], news_at[post] + c.hear)
    return FAR


@engine
def _rung(
    now: int, c: Costs, r: Ints, news_at: Ints, news_queue: Ints, news_count: Ints, posted: Ints
) -> tuple[int, int]:
    """Counts visible doorbells and WQEs; returns the cycle of the next effect, and its queue if
    that is now."""
    while r[COUNT_POST] < r[NEWS_N] and news_at[r[COUNT_POST]] + c.count < now:
        posted[news_queue[r[COUNT_POST]]] += news_count[r[COUNT_POST]]
        r[COUNT_POST] += 1
    if r[RING_POST] == r[NEWS_N]:
        return FAR, -1
    due = news_at[r[RING_POST]] + c.hear
    if due > now:
        return due, -1
    queue = news_queue[r[RING_POST]]
    r[RING_POST] += 1
    return now, queue


@engine
def _next_queue(r: Ints, c: Costs, inside: Ints) -> int:
    """Returns the next queue with work after the last one, round robin by number; -1 if none."""
    if r[INSIDE] == 0:
        return -1
    queue = r[LAST]
    for _ in range(c.queues):
        queue = queue + 1 if queue + 1 < c.queues else 0
        if inside[queue] == 1:
            return queue
    return -1


@engine
def _put(r: Ints, inside: Ints, queue: int) -> None:
    if inside[queue] == 0:
        inside[queue] = 1
        r[INSIDE] += 1


@engine
def scheduler(
    now: int,
    c: Costs,
    r: Ints,
    at: Ints,
    news_at: Ints,
    news_queue: Ints,
    news_count: Ints,
    inside: Ints,
    posted: Ints,
    consumed: Ints,
    counted: Ints,
    deficit: Ints,
    items: Ints,
    skid_in: Ints,
    wake: Ints,
) -> int:
    """Reads one line a cycle; a quantum lets a queue send `quantum` flits minus its deficit.

    P: the next queue with its counts; A: the rest of a visit; S: the line being read; C: a consumed
    WQE, counted against its quantum; D: the deficit being written.
    """
    due, fresh = _rung(now, c, r, news_at, news_queue, news_count, posted)
    busy = r[P_QUEUE] >= 0 or r[A_QUEUE] >= 0 or r[S_QUEUE] >= 0 or r[C_QUEUE] >= 0
    if not busy and r[INSIDE] == 0 and fresh < 0:
        r[D_QUEUE] = -1
        return due
    held = r[ITEM_N] - r[ROUTED_N] + (1 if r[POPPED] == now else 0)
    move = held < c.skid_depth
    picked = _next_queue(r, c, inside)
    offered = picked if picked >= 0 else fresh
    p, a, s, k = r[P_QUEUE], r[A_QUEUE], r[S_QUEUE], r[C_QUEUE]
    # Rest of the quantum after the last WQE; a queue alone in the set has no deficit.
    left = (r[C_QUANTUM] if r[C_FIRST] == 1 else r[C_LEFT]) - r[C_FLITS]
    ends = k >= 0 and left <= 0 and (offered >= 0 or (p >= 0 and p != k))
    kill_s = ends and s == k and r[S_DEDUCTS] == 0
    kill_a = ends and a == k
    go = move and not (kill_s or kill_a)
    late = p >= 0 and (a == p or s == p or k == p or r[D_QUEUE] == p)
    p_go = p >= 0 and a < 0 and not late and go
    p_take, p_stalls, p_deducts, put = False, False, False, -1
    count, quantum = 0, 0
    if kill_s or kill_a:
        put = k
    if p_go:
        waiting = posted[p] - consumed[p]
        most = c.visit
        if c.srd:
            # A context freed or a send counted in this cycle does not count yet.
            credits = r[CREDITS] - (1 if r[FREED_AT] == now else 0)
            late_one = r[COUNTED_AT] == now and r[COUNTED_QUEUE] == p
            open_sends = consumed[p] - counted[p] + (1 if late_one else 0)
            room = credits - c.guaranteed - (open_sends >> c.share)
            most = min(c.visit, max(1, room // 2))
            p_stalls = waiting > 0 and room <= 0 and (open_sends > 0 or credits == 0)
        count = min(waiting, most)
        p_deducts = waiting > 0 and offered >= 0 and deficit[p] >= c.quantum and not p_stalls
        p_take = waiting > 0 and not p_stalls and not p_deducts
        quantum = c.quantum - (deficit[p] if offered >= 0 else 0)
        if p_stalls or p_deducts or (p_take and waiting > most and count == 1 and c.lines == 1):
            put = p
        r[P_OVER] = 1 if waiting > most else 0
    a_issue = a >= 0 and go
    a_end = a_issue and (r[A_SECOND] == 1 or c.lines == 1)
    a_last = a_end and r[A_LEFT] == 1
    if a_last and r[A_OVER] == 1:
        put = a
    commit = s >= 0 and move and not kill_s and r[S_DEDUCTS] == 0 and r[S_END] == 1
    deducted = s >= 0 and move and r[S_DEDUCTS] == 1
    next_ready = p < 0 or p_go
    # Reserved contexts of WQEs that are not consumed now are released.
    if kill_a:
        r[CREDITS] += r[A_LEFT]
    if kill_s and r[S_END] == 1:
        r[CREDITS] += 1
    if p_take:
        r[CREDITS] -= count
    if commit:
        message = consumed[s] // c.batch * c.queues * c.batch + s * c.batch + consumed[s] % c.batch
        n = r[ITEM_N]
        items[n] = message
        at[WQE, message * c.packets] = now
        skid_in[n] = now
        consumed[s] += 1
        r[ITEM_N] += 1
        wake[AT_TRANSMIT] = NOW
    r[D_QUEUE] = k
    if k >= 0:
        deficit[k] = -left if left <= 0 else 0
        r[C_LEFT] = c.quantum if left <= 0 else left
    r[C_QUEUE] = s if commit or deducted else -1
    if commit or deducted:
        r[C_FIRST], r[C_QUANTUM] = r[S_FIRST], r[S_QUANTUM]
        r[C_FLITS] = 0 if deducted else c.quantum_flits
    if move:
        ended = r[S_END] == 1 or s < 0
        r[S_DEDUCTS] = 1 if p_deducts else 0
        if p_go and (p_take or p_deducts):
            r[S_QUEUE], r[S_FIRST], r[S_QUANTUM] = p, 1, quantum
            r[S_END] = 1 if c.lines == 1 else 0
        elif a_issue:
            r[S_FIRST] = 1 if r[S_FIRST] == 1 and not ended else 0
            r[S_QUEUE] = a
            r[S_END] = 1 if a_end else 0
        else:
            r[S_QUEUE] = -1
    elif kill_s:
        r[S_QUEUE] = -1
    if p_go:
        r[A_QUEUE] = p if p_take and (c.lines > 1 or count > 1) else -1
        r[A_SECOND] = 1 if c.lines > 1 else 0
        r[A_LEFT] = count if c.lines > 1 else count - 1
        r[A_OVER] = r[P_OVER]
    elif kill_a or a_last:
        r[A_QUEUE] = -1
    elif a_issue:
        if a_end:
            r[A_LEFT] -= 1
        r[A_SECOND] = 1 if c.lines > 1 and r[A_SECOND] == 0 else 0
    if next_ready:
        r[P_QUEUE] = offered
        if offered >= 0:
            r[LAST] = offered
            if picked >= 0:
                inside[offered] = 0
                r[INSIDE] -= 1
    if fresh >= 0 and (picked >= 0 or not next_ready):
        _put(r, inside, fresh)
    if put >= 0:
        _put(r, inside, put)
    if not move and p >= 0 and k < 0 and r[POPPED] < now:
        # No progress until there is a place before the checks.
        return due if due > now else now + 1
    return now + 1
