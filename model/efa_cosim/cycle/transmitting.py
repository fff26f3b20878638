# SPDX-License-Identifier: Apache-2.0
"""Executes the reliable transport between scheduler and checks: efa_tx_route, efa_tx_space,
efa_tx_recall (see sending.py). Datagrams only pass it.

All packets go to one peer and keep the order of their posts, so the stages hold consecutive numbers
of packets.
"""

from __future__ import annotations

from efa_cosim.cycle import engine
from efa_cosim.cycle.costs import Costs
from efa_cosim.cycle.recovering import (
    OLD_WAITS,
    REQUEST,
    SHOW_WAITS,
    TRANSMITTED_N,
    departs_on_path,
    requested,
)
from efa_cosim.cycle.segmenting import (
    ACT_KIND,
    RESPONSE_AT,
    RESPONSE_ROW,
    RESTS,
    begins_context,
    leaves,
    next_event,
    responds,
    segment,
)
from efa_cosim.cycle.state import AT_CHECKS, AT_RESOLVE, AT_SCHEDULER, FAR, NOW, R, Recovery
from efa_cosim.cycle.timelines import Ints

ITEM_N, POPPED, ROUTED_N = R["item_n"], R["popped"], R["routed_n"]
INTO_CHECK_N, CHECK_STUCK, CHECK_PT = R["into_check_n"], R["check_stuck"], R["check_pt"]
POSTED, TURN_1, TURN_2 = R["posted_packet"], R["turn_1"], R["turn_2"]
WOKEN_1, WOKEN_2, TURNS, EMPTY = R["woken_1"], R["woken_2"], R["turns"], R["empty"]
SENT_N, QUEUED, RECALL_1, RECALL_2 = R["sent_n"], R["queued"], R["recall_1"], R["recall_2"]
RECALLED, LOOKED, LIMITS_AT = R["recalled"], R["looked"], R["limits_at"]
OLDEST, SETTLED, WINDOW = R["show_oldest"], R["show_settled"], R["show_window"]
OLDEST_0, SETTLED_0, WINDOW_0 = R["old_oldest"], R["old_settled"], R["old_window"]
POST_N = R["post_n"]
NONE = -1
TURN, DIRECT = 1, 2  # Kinds of decisions: of the first packet of the list, of one just posted.
# A packet that joins the list is found this much later.
LISTED = 3
POST_TURN, POST_HELD, MESSAGE, RESPONSE = R["post_turn"], R["post_held"], 0, 1
FOUND_AT, LOOKED_UP = R["found_at"], R["looked_up"]
SPACE = 4  # Transmissions that wait for efa_tx_recall.
RECALL = 4  # Stages of a transmission that waits: one in front of efa_tx_recall, three in it.


@engine
def _check(now: int, c: Costs, r: Ints, check_due: Ints, wake: Ints) -> None:
    check_due[r[INTO_CHECK_N]] = r[CHECK_PT] + c.check
    r[INTO_CHECK_N] += 1
    wake[AT_CHECKS] = min(wake[AT_CHECKS], now + c.check)


@engine
def _offered(now: int, c: Costs, r: Ints, skid_in: Ints) -> int:
    """Returns the cycle, from this one on, in which the skid offers the next WQE."""
    k = r[ROUTED_N]
    if k == r[ITEM_N]:
        return FAR
    due: int = max(now, skid_in[k] + c.skid + c.route)
    return due


@engine
def _leaves_skid(now: int, r: Ints, wake: Ints) -> None:
    r[ROUTED_N] += 1
    r[POPPED] = now
    wake[AT_SCHEDULER] = NOW


@engine
def space_left(r: Ints) -> bool:
    """Returns True if another transmission has space, also behind the decision of this cycle."""
    left: bool = r[QUEUED] < SPACE - 1 or (r[QUEUED] == SPACE - 1 and r[TURN_2] == 0)
    return left


@engine
def _stands(r: Ints) -> bool:
    """Returns True if no stage can move before the checks take the WQE at the output."""
    last = r[RECALLED] == 1 and (r[RECALL_2] == 1 or (r[RECALL_1] == 0 and r[QUEUED] == 0))
    turns = (r[TURN_1] == 1 and not space_left(r)) or (r[TURN_1] == 0 and r[TURNS] == 0)
    fresh = r[POSTED] >= 0 or r[TURN_2] > 0
    stands: bool = last and (r[RECALL_1] == 1 or r[QUEUED] == 0) and turns and not fresh
    return stands


@engine
def _granted(r: Ints, message: bool, response: bool, takes: bool) -> tuple[bool, bool]:
    """Returns which post is granted, round robin: a message, or the responses to a read. A grant
    stays until the segmenter takes it."""
    which = r[POST_HELD]
    if which < 0:
        if message and (r[POST_TURN] == MESSAGE or not response):
            which = MESSAGE
        elif response:
            which = RESPONSE
    if which >= 0:
        r[POST_TURN] = RESPONSE if which == MESSAGE else MESSAGE
    r[POST_HELD] = NONE if takes else which
    return which == MESSAGE, which == RESPONSE


@engine
def transmit(
    now: int, c: Costs, r: Ints, items: Ints, sent: Ints, number_of: Ints, skid_in: Ints,
    check_due: Ints, pushed_at: Ints, seg_next: Ints, seg_open: Ints,
    seg_posted: Ints, seg_left: Ints, live_until: Ints, pop_row: Ints, pop_due: Ints, placed: Ints,
    placed_at: Ints, incoming: Ints, note_due: Ints, at: Ints, departed_at: Ints, outgoing: Ints,
    recovery: Recovery | None, wake: Ints
) -> int:
    """Gives packets to the checks: at once if none waits and the limits permit it, else through the
    list of the peer and efa_tx_recall. The limits are those of the cycle before."""
    offered = _offered(now, c, r, skid_in) == now
    row = NONE  # The column of the packet that is posted in this cycle.
    if c.segments:
        rests = r[ACT_KIND] == RESTS
        responds_now = r[RESPONSE_ROW] >= 0 and r[RESPONSE_AT] <= now
        if c.reading:
            responds(now, c, r)
            offered, responds_now = _granted(r, offered, responds_now, rests)
        offered = offered and rests
        row = segment(now, c, r, items, seg_next, seg_open, seg_posted, seg_left, live_until,
                      pop_row, pop_due, placed, placed_at, incoming, note_due, wake)
        if responds_now and rests:
            row = r[RESPONSE_ROW]
            r[RESPONSE_ROW] = NONE
            begins_context(c, r, row, seg_next, seg_open, seg_posted, seg_left, live_until)
    if offered and c.srd:
        row = items[r[ROUTED_N]] * c.packets
        if c.segments:
            begins_context(c, r, row, seg_next, seg_open, seg_posted, seg_left, live_until)
        if c.reading and r[FOUND_AT] == now:
            # The table of reads is written, so a look at it ends a cycle later.
            r[FOUND_AT] += 1
            r[LOOKED_UP] += 1
    posts = row >= 0
    moves = r[CHECK_STUCK] == 0
    output_free = r[RECALLED] == 0 or moves
    if r[RECALLED] == 1 and moves:
        _check(now, c, r, check_due, wake)
    if not c.srd:
        if output_free:
            r[RECALLED] = 1 if offered else 0
            if offered:
                sent[r[ROUTED_N]] = items[r[ROUTED_N]]
                number_of[items[r[ROUTED_N]]] = r[ROUTED_N]
                _leaves_skid(now, r, wake)
        if r[RECALLED] == 1:
            return now + 1 if moves else FAR
        return _offered(now + 1, c, r, skid_in)
    # The decision for one packet.
    k, kind, level, space = r[SENT_N], r[TURN_2], r[QUEUED], space_left(r)
    fresh = r[LIMITS_AT] < now
    oldest, settled, window = ((r[OLDEST], r[SETTLED], r[WINDOW]) if fresh
                               else (r[OLDEST_0], r[SETTLED_0], r[WINDOW_0]))
    found = kind == DIRECT or (kind == TURN and pushed_at[k] + LISTED <= now)
    goes = kind == TURN or (kind == DIRECT and r[EMPTY] == 1)
    again = NONE
    if recovery is not None:
        may = r[TRANSMITTED_N] - settled < window
        if goes and may:
            again = requested(r, fresh)
        waits = r[SHOW_WAITS] if fresh else r[OLD_WAITS]
        may = may and waits == 0 and again < 0
    else:
        may = k - settled < window
    begins = found and goes and may and k - oldest < c.psns
    direct = begins and kind == DIRECT
    # efa_tx_recall.
    none_waits = r[RECALL_1] == 0 and r[RECALL_2] == 0
    # efa_tx_recall has the WQE of a message that was posted in the cycle before.
    fresh_wqe = direct and (not c.segments or sent[k] % c.packets == 0)
    at_once = fresh_wqe and level == 0 and r[LOOKED] == 1 and none_waits and r[RECALLED] == 0
    second_free = r[RECALL_2] == 0 or output_free
    first_free = r[RECALL_1] == 0 or second_free
    if output_free:
        r[RECALLED] = r[RECALL_2]
    if at_once:
        if moves:
            _check(now, c, r, check_due, wake)
        else:
            r[RECALLED] = 1
    if second_free:
        r[RECALL_2] = r[RECALL_1]
    if first_free:
        r[RECALL_1] = 1 if level > 0 else 0
        r[QUEUED] -= r[RECALL_1]
    if recovery is not None and (begins or again >= 0):
        number = k if begins else again
        departs_on_path(now, c, r, at, sent[number], number, oldest, again >= 0, fresh,
                        departed_at, outgoing, recovery)
        if again >= 0:
            r[QUEUED] += 1
            wake[AT_RESOLVE] = min(wake[AT_RESOLVE], now + 1)
    if begins:
        if not at_once:
            r[QUEUED] += 1
        r[SENT_N] += 1
        if c.segments:
            leaves(now, c, r, sent[k], pop_row, pop_due)
    # Turns of the peer.
    push = r[POSTED] >= 0 and not direct
    limits_wake = not fresh and (r[EMPTY] == 0 or r[REQUEST] > 0)
    cause = 1 if r[POSTED] >= 0 or limits_wake else 0
    sleeps = kind == TURN and not begins and again < 0 and r[WOKEN_2] == 0
    stays = r[TURN_1] == 1 and not space
    first_woken = 1 if r[WOKEN_1] == 1 or cause == 1 else 0
    r[TURN_2] = 0
    if r[TURN_1] == 1 and space:
        r[TURN_2] = TURN
    elif posts and r[TURN_1] == 0 and space:
        r[TURN_2] = DIRECT
    r[WOKEN_2] = first_woken
    r[WOKEN_1] = first_woken if stays else cause
    r[TURN_1] = 1 if stays or r[TURNS] == 1 else 0
    if sleeps:
        r[TURNS] = 0
        if not found:
            r[EMPTY] = 1
    if push:
        pushed_at[r[POSTED]] = now
        r[EMPTY] = 0
    if push or limits_wake:
        r[TURNS] = 1
    r[LOOKED] = 1 if none_waits else 0
    r[POSTED] = NONE
    if posts:
        r[POSTED] = r[POST_N]
        sent[r[POST_N]], number_of[row] = row, r[POST_N]
        r[POST_N] += 1
    if offered:
        _leaves_skid(now, r, wake)
    later = _offered(now + 1, c, r, skid_in)
    if c.segments:
        later = min(later, next_event(now, c, r, pop_due, placed_at))
    if not moves and _stands(r):
        return later
    if (r[POSTED] >= 0 or r[TURN_1] == 1 or r[TURN_2] > 0 or r[TURNS] == 1
            or r[QUEUED] > 0 or r[RECALL_1] == 1 or r[RECALL_2] == 1 or r[RECALLED] == 1):
        return now + 1
    return later
