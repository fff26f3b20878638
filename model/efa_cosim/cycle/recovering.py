# SPDX-License-Identifier: Apache-2.0
"""Recovers from losses: efa_tx_loss, efa_tx_extent, efa_tx_paths and efa_tx_requests, and the
retransmissions of efa_tx_space (see resolving.py and transmitting.py).

Packets are those of one peer, by their number in the order of their posts, which is the PSN. All
functions are for workloads with losses. The model has no probes: a path that has become unusable
stays so until all are.
"""

from __future__ import annotations

from efa_cosim.cycle import engine
from efa_cosim.cycle.costs import Costs
from efa_cosim.cycle.pacing import LEAST_WINDOW, timeout
from efa_cosim.cycle.state import FAR, READY, R, Recovery
from efa_cosim.cycle.timelines import Ints

TRANSMITTED_N, SPACE_TRANSMITTED, SPACE_TURN, SETTLED = (
    R["transmitted_n"], R["space_transmitted"], R["space_turn"], R["settled_n"])  # fmt: skip
LOST_N, AGAIN_N, LOSSY, UNUSABLE_N = R["lost_n"], R["again_n"], R["lossy"], R["unusable_n"]
REQUEST, TURN, AGAIN_K, AGAIN_PATH = (
    R["again_request"], R["again_turn"], R["again_k"], R["again_path"])  # fmt: skip
SERVED_TURN, SERVED_AT, SERVED = R["served_turn"], R["served_at"], R["served"]
SHOW_WAITS, SHOW_REQUEST, SHOW_TURN, SHOW_K = (
    R["show_waits"], R["show_request"], R["show_turn"], R["show_k"])  # fmt: skip
OLD_WAITS, OLD_REQUEST, OLD_TURN, OLD_K = (
    R["old_waits"], R["old_request"], R["old_turn"], R["old_k"])  # fmt: skip
BACKOFF, EXPIRED_N, DEAD = R["backoff"], R["expired_n"], R["dead"]
FIRST_CHECKED, LATEST_KNOWN, LATEST_TICKS = (
    R["first_checked"], R["latest_known"], R["latest_ticks"])  # fmt: skip
LEARNED, EXTENT_BEFORE, EXTENT, EXTENT_N = (
    R["learned"], R["extent_before"], R["extent"], R["extent_n"])  # fmt: skip
PATH_TURN, BEST_PATH, BEST_TIME, STALE, BUSY_UNTIL = (
    R["path_turn"], R["best_path"], R["best_time"], R["stale"], R["busy_until"])  # fmt: skip
AGING, AGE_TICKS, TIMER_TICKS, DEFERS = R["aging"], R["age_ticks"], R["timer_ticks"], R["defers"]
SHORTEST, SHORTEST_0, LONGEST, LONGEST_0 = (
    R["time_shortest"], R["time_shortest_0"], R["time_longest"], R["time_longest_0"])  # fmt: skip
KNOWN, SRTT_8 = R["time_known"], R["time_srtt"]
WINDOW, SLOW = R["pace_window"], R["pace_slow"]
EIGHT = 3  # log2 of the factor of a smoothed time of a path.
BEST_FOUND = 3  # Cycles from the end of a walk to the best path.
LATEST, BEFORE = range(2)  # Limits that are shown.
NONE, OPEN, CANCELED = range(3)  # Requests of a retransmission.


@engine
def show_recovery(r: Ints, v: Recovery) -> None:
    """Shows to efa_tx_space what it needs of losses."""
    r[OLD_WAITS], r[OLD_REQUEST], r[OLD_TURN], r[OLD_K] = (
        r[SHOW_WAITS], r[SHOW_REQUEST], r[SHOW_TURN], r[SHOW_K])  # fmt: skip
    r[SHOW_WAITS], r[SHOW_REQUEST] = r[LOST_N], 1 if r[REQUEST] == OPEN else 0
    r[SHOW_TURN], r[SHOW_K] = r[TURN], r[AGAIN_K]
    for path in range(len(v.usable)):
        v.shown_usable[BEFORE, path] = v.shown_usable[LATEST, path]
        v.shown_settled[BEFORE, path] = v.shown_settled[LATEST, path]
        v.shown_usable[LATEST, path] = v.usable[path]
        v.shown_settled[LATEST, path] = v.path_settled[path]


@engine
def requested(r: Ints, fresh: bool) -> int:
    """Returns the packet whose retransmission is requested, or -1."""
    if fresh:
        asks = r[SHOW_REQUEST] == 1 and r[SHOW_TURN] != r[SERVED_TURN]
        return r[SHOW_K] if asks else -1
    asks = r[OLD_REQUEST] == 1 and r[OLD_TURN] != r[SERVED_TURN]
    return r[OLD_K] if asks else -1


@engine
def departs_on_path(
    now: int, c: Costs, r: Ints, at: Ints, row: int, k: int, oldest: int, again: bool, fresh: bool,
    departed_at: Ints, outgoing: Ints, v: Recovery
) -> None:
    """Gives a transmission its path, the usable one with the fewest packets in flight, and its
    order number."""
    best, least, shown = 0, FAR, LATEST if fresh else BEFORE
    for number in range(c.paths):
        path = (r[PATH_TURN] + number) % c.paths
        in_flight = v.path_sent[path] - v.shown_settled[shown, path]
        if v.shown_usable[shown, path] == 1 and in_flight < least:
            best, least = path, in_flight
    v.path_of[k], v.order_of[k] = best, v.path_sent[best]
    v.path_sent[best] += 1
    r[PATH_TURN] = (best + 1) % c.paths
    departed_at[k] = FAR
    at[READY, row] = FAR
    outgoing[r[TRANSMITTED_N]], v.out_oldest[r[TRANSMITTED_N]] = row, oldest
    r[TRANSMITTED_N] += 1
    if again:
        r[SERVED_TURN], r[AGAIN_PATH], r[SERVED_AT] = 1 - r[SERVED_TURN], best, now


@engine
def load_sent(r: Ints) -> None:
    """Takes over the transmissions that efa_tx_space has made."""
    r[SPACE_TRANSMITTED], r[SPACE_TURN] = r[TRANSMITTED_N], r[SERVED_TURN]


@engine
def synchronize(r: Ints, v: Recovery) -> None:
    """Takes over whether the requested retransmission was sent."""
    served = r[TURN] == r[SPACE_TURN]
    if r[REQUEST] == OPEN and served:
        v.is_lost[r[AGAIN_K]] = 0
        r[LOST_N] -= 1
        r[REQUEST] = NONE
    elif r[REQUEST] == CANCELED:
        if served:
            r[SETTLED] += 1
            v.path_settled[r[AGAIN_PATH]] += 1
        r[REQUEST] = NONE


@engine
def request(r: Ints, oldest: int, v: Recovery) -> None:
    """Requests the retransmission of the first lost packet."""
    k = oldest
    while v.is_lost[k] == 0:
        k += 1
    r[REQUEST], r[TURN], r[AGAIN_K] = OPEN, 1 - r[SERVED_TURN], k
    if v.sent_again[k] == 0:
        v.sent_again[k] = 1
        r[AGAIN_N] += 1


@engine
def _disable(c: Costs, r: Ints, path: int, v: Recovery) -> None:
    v.path_losses[path] = 0
    if v.usable[path] == 0:
        return
    r[STALE] = 1
    v.usable[path] = 0
    r[UNUSABLE_N] += 1
    if r[UNUSABLE_N] == c.paths:
        r[UNUSABLE_N] = 0
        for number in range(c.paths):
            v.usable[number] = 1


@engine
def _lose(c: Costs, r: Ints, k: int, disables: bool, v: Recovery) -> None:
    """Counts a packet as lost: it is not in flight any more."""
    path = v.path_of[k]
    v.is_lost[k] = 1
    r[LOST_N] += 1
    r[SETTLED] += 1
    v.path_settled[path] += 1
    v.path_losses[path] += 1
    if disables or v.path_losses[path] >= c.path_losses:
        _disable(c, r, path, v)


@engine
def resolve_sent(
    c: Costs, r: Ints, k: int, departed: bool, left: int, seen: int, v: Recovery
) -> bool:
    """Counts a packet as acknowledged; returns True if its time is a round-trip time."""
    path = v.path_of[k]
    again, lost = v.sent_again[k] == 1, v.is_lost[k] == 1
    if lost:
        v.is_lost[k] = 0
        r[LOST_N] -= 1
    else:
        r[SETTLED] += 1
        v.path_settled[path] += 1
    if again:
        r[AGAIN_N] -= 1
    if r[REQUEST] == OPEN and k == r[AGAIN_K]:
        r[REQUEST] = CANCELED
    r[BACKOFF] = r[EXPIRED_N] = 0
    once: bool = departed and not again
    far = 0
    if once:
        far = v.path_newest[path] - v.order_of[k]
        v.path_newest[path] = max(v.path_newest[path], v.order_of[k])
        if r[LATEST_KNOWN] == 0 or left >= r[LATEST_TICKS]:
            r[LATEST_KNOWN], r[LATEST_TICKS] = 1, left
    elif again and not lost and (
            not departed or max(0, seen - left) < min(r[SHORTEST], r[SHORTEST_0])):
        # It was late, not lost.
        far = min(c.psns, 2 * max(r[EXTENT], r[EXTENT_BEFORE]) + 1)
    r[EXTENT] = max(r[EXTENT], far)
    r[EXTENT_N] += 1
    if r[EXTENT_N] == c.extent_period:
        r[LEARNED], r[EXTENT_BEFORE], r[EXTENT], r[EXTENT_N] = 1, r[EXTENT], 0, 0
    v.path_losses[path] = 0
    return once


@engine
def check_loss(
    c: Costs, r: Ints, k: int, departed: bool, left: int, seen: int, ticks: int, v: Recovery
) -> bool:
    """Decides whether a packet in flight is lost by order or age; returns True if no later one can
    be."""
    longest = max(r[LONGEST], r[LONGEST_0])
    limit = longest + longest // 4
    behind = v.path_newest[v.path_of[k]] - v.order_of[k]
    lossy = r[LOSSY] == 1
    silent = behind < 0
    old = departed and seen - left > limit
    later = r[LATEST_KNOWN] == 1 and left < r[LATEST_TICKS]
    aged = old and later and (lossy or (silent and r[LEARNED] == 1))
    if aged or (lossy and behind > 2 * max(r[EXTENT], r[EXTENT_BEFORE])):
        _lose(c, r, k, aged and silent, v)
    elif not departed or not old:
        due = left + limit + 1 if departed else ticks + limit + 1
        if r[FIRST_CHECKED] == 0 or (departed and due < r[AGE_TICKS]):
            r[AGING], r[AGE_TICKS] = 1, due
        r[FIRST_CHECKED] = 1
    if aged:
        r[LOSSY] = 1
    stops: bool = not lossy and r[AGAIN_N] == 0 and not aged
    return stops


@engine
def expire(c: Costs, r: Ints, k: int, ticks: int, v: Recovery) -> None:
    """Counts a packet as lost by a timeout; the first one of a walk backs off."""
    _lose(c, r, k, True, v)
    if r[DEFERS] == 0:
        return
    r[DEFERS], r[LOSSY] = 0, 1
    if r[EXPIRED_N] + 1 >= c.rto_retries:
        r[DEAD] = 1
    if r[BACKOFF] > 0:
        r[WINDOW], r[SLOW] = LEAST_WINDOW, 0
    r[EXPIRED_N] += 1
    r[BACKOFF] = min(r[BACKOFF] + 1, c.rto_backoff_max)
    r[TIMER_TICKS] = ticks + (timeout(c, r) << r[BACKOFF])


@engine
def time_path(c: Costs, r: Ints, k: int, trip: int, v: Recovery) -> None:
    """Stores a round-trip time of a path, before that of the peer: a slow path becomes unusable."""
    path = v.path_of[k]
    before = v.path_time[path]
    if before == 0:
        before = r[SRTT_8] if r[KNOWN] == 1 else trip << EIGHT
    time = before + trip - (before >> EIGHT)
    v.path_time[path] = time
    best = r[BEST_TIME]
    is_best = best == 0 or path == r[BEST_PATH] or time < best
    if v.usable[path] == 1 and is_best:
        if time > best:
            r[STALE] = 1
        r[BEST_PATH], r[BEST_TIME] = path, time
    elif time > best + max(best, c.queue_target << EIGHT):
        _disable(c, r, path, v)


@engine
def find_best(now: int, r: Ints, v: Recovery) -> None:
    """Finds the best path at the end of a walk, if it may be another one than before."""
    if r[STALE] == 0:
        return
    r[STALE], r[BUSY_UNTIL], best = 0, now + BEST_FOUND, 0
    for path in range(len(v.usable)):
        time = v.path_time[path]
        if v.usable[path] == 1 and time > 0 and (best == 0 or time < best):
            best, r[BEST_PATH] = time, path
    r[BEST_TIME] = best
