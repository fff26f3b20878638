# SPDX-License-Identifier: Apache-2.0
"""Executes the reliable transport behind the network: the acknowledgements that efa_ack_build
makes, efa_ack_join, efa_tx_resolve and efa_tx_timer (see sending.py).

An acknowledgement is the number of outcomes that it shows, with the time of its arrival in ticks.
What follows from losses is in recovering.py; without losses no packet is sent again.
"""

from __future__ import annotations

from efa_cosim.cycle import engine
from efa_cosim.cycle.costs import Costs
from efa_cosim.cycle.pacing import pace, round_trip, timeout
from efa_cosim.cycle.recovering import (
    AGAIN_N,
    BACKOFF,
    BUSY_UNTIL,
    CANCELED,
    FIRST_CHECKED,
    LATEST_KNOWN,
    LOSSY,
    LOST_N,
    SERVED,
    SERVED_AT,
    SETTLED,
    SPACE_TRANSMITTED,
    UNUSABLE_N,
    check_loss,
    expire,
    find_best,
    load_sent,
    request,
    resolve_sent,
    show_recovery,
    synchronize,
    time_path,
)
from efa_cosim.cycle.recovering import REQUEST as REQUESTED
from efa_cosim.cycle.segmenting import (
    NOTE_NEXT,
    RESPONDING,
    ends,
    is_long,
    notes,
)
from efa_cosim.cycle.state import (
    AT_NETWORK,
    AT_RESOLVE,
    AT_TRANSMIT,
    FAR,
    NOW,
    R,
    Recovery,
)  # fmt: skip
from efa_cosim.cycle.timelines import Ints

OUTCOME_N, CAUSE_N, STORED_N = R["outcome_n"], R["cause_n"], R["stored_n"]
DUE, BUILD_1, BUILD_2, BUILT, BUILT_AT = (
    R["due"], R["build_1"], R["build_2"], R["built"], R["built_at"])  # fmt: skip
JOINED_N, ACK_COME_N, WAITING, WAITS = R["joined_n"], R["ack_come_n"], R["waiting_ack"], R["waits"]
JOIN_1, OFFERED = R["join_1"], R["offered_ack"]
WAITING_SEEN, JOIN_SEEN, OFFERED_SEEN, TAKEN_SEEN = (
    R["waiting_seen"], R["join_seen"], R["offered_seen"], R["taken_seen"])  # fmt: skip
DUPLICATE_HEAD, DUPLICATE_TAIL = R["duplicate_head"], R["duplicate_tail"]
SEARCH_TICKS = R["search_ticks"]
STATE, COUNT, EVENT, RELOAD, WALK = (
    R["state"], R["state_count"], R["event"], R["reload"], R["walk"])  # fmt: skip
LOOK, EVENT_TURN, TAKEN, SHOWN_N = R["look"], R["event_turn"], R["taken_ack"], R["shown_n"]
TODO_N, TODO, RECORD, MORE, JOIN = R["todo_n"], R["todo"], R["record"], R["more"], R["join"]
SOME, IN_ORDER = R["some"], R["in_order"]
IN_ORDER_K, LAST_TICKS, SPACE_SENT = R["in_order_k"], R["last_ticks"], R["space_sent"]
RESOLVED_N, OLDEST, SENT_N = R["resolved_n"], R["oldest"], R["sent_n"]
LIMITS_AT, EMPTY = R["limits_at"], R["empty"]
TIMER, TIMER_TICKS, AGING, AGE_TICKS = R["timer"], R["timer_ticks"], R["aging"], R["age_ticks"]
ARMED, SET_TICKS, SETS_AT = R["armed"], R["set_ticks"], R["sets_at"]
SET_AT, NEXT_ARMED, NEXT_TICKS = R["set_at"], R["next_armed"], R["next_ticks"]
LEFT_FIRST, LEFT_BEFORE, LEFT_LAST = R["left_first"], R["left_before"], R["left_last"]
DEFERS, DEFER_TICKS = R["defers"], R["defer_ticks"]
PACE_UNTIL, PACE_WINDOW, PACE_WIDE = R["pace_until"], R["pace_window"], R["pace_wide"]
TIMEOUTS = R["timeouts"]
LONGEST, LONGEST_0 = R["time_longest"], R["time_longest_0"]
SHOW_OLDEST, SHOW_SETTLED, SHOW_WINDOW = R["show_oldest"], R["show_settled"], R["show_window"]
OLD_OLDEST, OLD_SETTLED, OLD_WINDOW = R["old_oldest"], R["old_settled"], R["old_window"]
# States of efa_tx_resolve.
IDLE, LOAD, SYNC, MASK, ACK, LOOKS, WALKS, ADVANCE, SEARCH, REQUEST, STORE, AGAIN = range(
    12)
EVENT_ACK, EVENT_LOOK = 0, 1
RESOLVE, LOSS, TIMEOUT = range(3)  # Kinds of walks.
JOIN_SHOWN = 4  # Cycles from the acceptance of an acknowledgement that joins a walk to its slots.
DEPARTED = 2  # Cycles from the first flit of a packet to a walk that sees that it has left.
OLDEST_MOVES = 3  # Cycles from a resolved packet to the oldest one behind it.
SET = 2  # Cycles from the time of the next look to its store in the timer.
REQUESTS = 3  # Cycles from the request of a retransmission to its packet and record.
SHOWS = 8  # Cycles between two changes of the limits in a walk.
STATE_READ = 1  # As in acknowledgements.py.
NONE = -1


@engine
def show(
    now: int, c: Costs, r: Ints, outcome_at: Ints, recovery: Recovery | None, wake: Ints
) -> int:
    """Builds acknowledgements: a choice, the stored outcomes, the output. All stages wait while the
    network does not take the output."""
    while r[CAUSE_N] < r[OUTCOME_N] and outcome_at[r[CAUSE_N]] + c.due + 1 <= now:
        r[DUE] = 1
        r[CAUSE_N] += 1
    again = FAR
    if recovery is not None:
        while (r[DUPLICATE_HEAD] < r[DUPLICATE_TAIL]
               and recovery.duplicate_at[r[DUPLICATE_HEAD]] + c.due + 1 <= now):
            r[DUE] = 1
            r[DUPLICATE_HEAD] += 1
        if r[DUPLICATE_HEAD] < r[DUPLICATE_TAIL]:
            again = recovery.duplicate_at[r[DUPLICATE_HEAD]] + c.due + 1
    if r[BUILT] > 0:
        return FAR
    while r[STORED_N] < r[OUTCOME_N] and outcome_at[r[STORED_N]] + c.due + STATE_READ <= now:
        r[STORED_N] += 1
    r[BUILT] = r[BUILD_2]
    if r[BUILT] > 0:
        r[BUILT_AT] = now + 1
        wake[AT_NETWORK] = min(wake[AT_NETWORK], now + 1)
    r[BUILD_2] = r[STORED_N] if r[BUILD_1] == 1 else 0
    r[BUILD_1], r[DUE] = r[DUE], 0
    if r[BUILD_1] == 1 or r[BUILD_2] > 0:
        return now + 1
    if r[CAUSE_N] < r[OUTCOME_N]:
        due: int = min(outcome_at[r[CAUSE_N]] + c.due + 1, again)
        return due
    return again


@engine
def _limits(
    now: int, r: Ints, resolved_at: Ints, recovery: Recovery | None, wake: Ints
) -> None:
    """Shows the limits to efa_tx_space, which sees them in the next cycle."""
    while r[OLDEST] < r[SPACE_SENT] and resolved_at[r[OLDEST]] + OLDEST_MOVES <= now:
        r[OLDEST] += 1
    r[OLD_OLDEST], r[OLD_SETTLED], r[OLD_WINDOW] = r[SHOW_OLDEST], r[SHOW_SETTLED], r[SHOW_WINDOW]
    r[SHOW_OLDEST], r[SHOW_SETTLED] = r[OLDEST], r[RESOLVED_N]
    r[SHOW_WINDOW] = r[PACE_WINDOW] if now > r[PACE_UNTIL] else r[PACE_WIDE]
    r[LIMITS_AT] = now
    if recovery is not None:
        r[SHOW_SETTLED] = r[SETTLED]
        show_recovery(r, recovery)
    if r[EMPTY] == 0 or r[REQUESTED] > 0:
        wake[AT_TRANSMIT] = NOW


@engine
def _in_flight(r: Ints, recovery: Recovery | None) -> int:
    """Returns the number of packets in flight, as far as efa_tx_space has sent them."""
    count: int = r[SPACE_SENT] - r[RESOLVED_N]
    if recovery is not None:
        count = r[SPACE_TRANSMITTED] - r[SETTLED]
    return count


@engine
def _pause(r: Ints, in_flight: int) -> int:
    """Returns the least number of ticks between two searches for losses."""
    longest = max(r[LONGEST], r[LONGEST_0])
    pause: int = max(longest // 8, in_flight // 8, 1)
    return pause


@engine
def _set(now: int, r: Ints) -> None:
    """Computes the time of the next look at the peer, which the timer stores later."""
    r[SET_AT] = now + SET
    r[NEXT_ARMED] = 1 if r[TIMER] == 1 or r[AGING] == 1 else 0
    r[NEXT_TICKS] = FAR
    if r[TIMER] == 1:
        r[NEXT_TICKS] = r[TIMER_TICKS]
    if r[AGING] == 1:
        r[NEXT_TICKS] = min(r[NEXT_TICKS], r[AGE_TICKS])


@engine
def _add(r: Ints, outcome_k: Ints, todo: Ints) -> None:
    """Adds the packets that an acknowledgement shows to the walk."""
    while r[SHOWN_N] < r[TAKEN]:
        k = outcome_k[r[SHOWN_N]]
        r[SHOWN_N] += 1
        todo[k] = 1
        if r[TODO_N] == 0 or k < r[TODO]:
            r[TODO] = k
        r[TODO_N] += 1


@engine
def departs(c: Costs, r: Ints, k: int, at: int, departed_at: Ints, wake: Ints) -> None:
    """Notes the cycle in which the first flit of a packet leaves."""
    departed_at[k] = at
    r[LEFT_BEFORE], r[LEFT_LAST] = r[LEFT_LAST], at
    if r[LEFT_FIRST] == FAR:
        r[LEFT_FIRST] = at
    if r[ARMED] == 0:
        wake[AT_RESOLVE] = min(wake[AT_RESOLVE], next_scan(at, c))


@engine
def _next(now: int, r: Ints, k: int, resolved_at: Ints, recovery: Recovery | None) -> int:
    """Finds the next packet in flight of a walk, from k on; returns the following state."""
    if recovery is None:
        while k < r[SPACE_SENT] and resolved_at[k] < now:
            k += 1
    else:
        while k < r[SPACE_SENT] and (resolved_at[k] < now or recovery.is_lost[k] == 1):
            k += 1
    if k == r[SPACE_SENT]:
        return REQUEST
    r[RECORD] = k
    return WALKS


@engine
def _check_age(
    now: int, c: Costs, r: Ints, k: int, seen: int, departed_at: Ints, resolved_at: Ints,
    recovery: Recovery | None
) -> int:
    """Checks the age of a packet in flight in a walk; returns the following state."""
    r[RECORD] = NONE
    age, left = 0, now + c.ticks >> c.tick_log
    if departed_at[k] + DEPARTED <= now:
        left = departed_at[k] + c.ticks >> c.tick_log
        age = max(0, seen - left)
    if recovery is not None:
        ticks, departed = now + c.ticks >> c.tick_log, departed_at[k] + DEPARTED <= now
        if r[WALK] == LOSS:
            if check_loss(c, r, k, departed, left, seen, ticks, recovery):
                return REQUEST
        elif departed:
            if age >= timeout(c, r):
                expire(c, r, k, ticks, recovery)
            if r[DEFER_TICKS] == FAR:
                r[DEFER_TICKS] = left
        return _next(now, r, k + 1, resolved_at, recovery)
    if r[WALK] == LOSS:
        longest = max(r[LONGEST], r[LONGEST_0])
        limit = longest + longest // 4
        if age <= limit:
            r[AGING], r[AGE_TICKS] = 1, left + limit + 1
        return REQUEST
    if departed_at[k] + DEPARTED <= now:
        if age >= timeout(c, r):
            r[TIMEOUTS] += 1
        if r[DEFER_TICKS] == FAR:
            r[DEFER_TICKS] = left
    return _next(now, r, k + 1, resolved_at, recovery)


@engine
def _walk(
    now: int, c: Costs, r: Ints, sent: Ints, departed_at: Ints, resolved_at: Ints, incoming: Ints,
    note_due: Ints, todo: Ints, outcome_k: Ints, recovery: Recovery | None, wake: Ints
) -> int:
    """Executes a cycle of a walk; returns the following state."""
    ticks = now + c.ticks >> c.tick_log
    seen = r[TAKEN_SEEN] if r[EVENT] == EVENT_ACK else ticks
    k = r[RECORD]
    does = k >= 0 and now > r[PACE_UNTIL] and r[NOTE_NEXT] < 0
    if r[WALK] != RESOLVE:
        if k < 0:
            # The first packet that is not resolved.
            return _next(now, r, r[OLDEST], resolved_at, recovery)
        if not does:
            return WALKS
        return _check_age(now, c, r, k, seen, departed_at, resolved_at, recovery)
    joins = r[JOIN] == 0 and r[MORE] == 1 and r[LOOK] == 0
    found = r[TODO_N] > 0
    over = (k < 0 or does) and not found and r[JOIN] == 0 and not joins
    if (now + c.clock) % SHOWS == SHOWS - 1:
        in_flight = _in_flight(r, recovery)
        _limits(now, r, resolved_at, recovery, wake)
        longest = max(r[LONGEST], r[LONGEST_0])
        if r[SOME] == 1:
            r[SETS_AT] = now + 1
            r[TIMER], r[TIMER_TICKS] = 1, ticks + timeout(c, r)
            later = r[LAST_TICKS] + longest + longest // 4 + 1
            if r[IN_ORDER] == 1 and r[AGING] == 1 and later > r[AGE_TICKS] and r[LOSSY] == 0:
                r[AGE_TICKS] = later
            r[SOME] = 0
        if r[AGING] == 0:
            r[AGING], r[AGE_TICKS] = 1, ticks + _pause(r, in_flight)
    if does:
        resolved_at[k] = now
        r[SOME] = 1
        if k != r[IN_ORDER_K]:
            r[IN_ORDER] = 0
        r[IN_ORDER_K] += 1
        r[LAST_TICKS] = departed_at[k] + c.ticks >> c.tick_log
        trip = max(1, seen - r[LAST_TICKS])
        once = True
        if recovery is not None:
            once = resolve_sent(c, r, k, departed_at[k] + DEPARTED <= now, r[LAST_TICKS], seen,
                                recovery)
            if once:
                time_path(c, r, k, trip, recovery)
            if not once:
                r[IN_ORDER] = 0
        if once:
            pace(now, c, r, trip)
            round_trip(c, r, trip, ticks)
        r[RESOLVED_N] += 1
        if not c.segments:
            ends(r, sent[k], incoming, note_due, now + 1 + c.tracked, wake)
        else:
            notes(r, sent[k], now + 1)
            if not is_long(c, sent[k]):
                r[RESPONDING] -= 1
            wake[AT_TRANSMIT] = min(wake[AT_TRANSMIT], now + 1)
    if k < 0 or does:
        r[RECORD] = NONE
        if found:
            r[RECORD] = r[TODO]
            todo[r[TODO]] = 0
            r[TODO_N] -= 1
            if r[TODO_N] > 0:
                while todo[r[TODO]] == 0:
                    r[TODO] += 1
    if joins:
        r[JOIN], r[TAKEN], r[SPACE_SENT] = 1, r[OFFERED], r[SENT_N]
        r[TAKEN_SEEN], r[OFFERED] = r[OFFERED_SEEN], 0
        if recovery is not None:
            load_sent(r)
    elif r[JOIN] == JOIN_SHOWN:
        r[JOIN] = 0
        _add(r, outcome_k, todo)
    elif r[JOIN] > 0:
        r[JOIN] += 1
    return ADVANCE if over else WALKS


@engine
def _scan(now: int, c: Costs, r: Ints) -> int:
    """Returns the next cycle in which the timer finds the peer, as far as known."""
    if r[ARMED] == 1:
        ready = (r[SET_TICKS] << c.tick_log) - c.ticks
        return next_scan(max(now, ready - 1), c) if r[SET_TICKS] < FAR else FAR
    return next_scan(max(now, r[LEFT_FIRST]), c) if r[LEFT_FIRST] < FAR else FAR


@engine
def next_scan(now: int, c: Costs) -> int:
    """Returns the next cycle after this one in which efa_tx_timer compares the time of the peer."""
    return now + 1 + (c.scan - now - 1 - c.clock) % c.scan_every


@engine
def resolve(
    now: int, c: Costs, r: Ints, sent: Ints, departed_at: Ints, resolved_at: Ints, incoming: Ints,
    note_due: Ints, todo: Ints, outcome_k: Ints, ack_shows: Ints, ack_in_at: Ints,
    recovery: Recovery | None, wake: Ints
) -> int:
    """Handles one acknowledgement or look at a time; acknowledgements that wait join."""
    ticks = now + c.ticks >> c.tick_log
    waits = r[WAITS] == 1 or r[JOIN_1] > 0 or r[OFFERED] > 0
    finds = not waits and (now + c.clock) % c.scan_every == c.scan and (
        ticks >= r[SET_TICKS] if r[ARMED] == 1 else r[LEFT_FIRST] < now)
    timer_over = r[TIMER] == 1 and ticks >= r[TIMER_TICKS]
    if r[SET_AT] == now:
        r[ARMED], r[SET_TICKS] = r[NEXT_ARMED], r[NEXT_TICKS]
    if r[SETS_AT] == now:
        _set(now, r)
    offered, look, state, begins = r[OFFERED], r[LOOK], r[STATE], False
    follows = state
    r[COUNT] += 1
    stored = state == STORE and now > max(r[PACE_UNTIL], r[BUSY_UNTIL])
    if stored:
        _limits(now, r, resolved_at, recovery, wake)
        _set(now, r)
        follows = IDLE
    in_flight = _in_flight(r, recovery)
    none_due = not timer_over and (
        r[AGING] == 0 or ticks - r[AGE_TICKS] <= in_flight // 8)
    late = stored and r[EVENT] == EVENT_ACK and timer_over and in_flight > 0
    if late:
        r[TIMEOUTS] += 1
    if recovery is not None and (late or (stored and r[REQUESTED] == CANCELED)):
        # The look at the peer follows at once.
        follows, r[EVENT], r[RELOAD] = LOAD, EVENT_LOOK, 1
    elif state == IDLE or stored:
        # Round robin.
        if offered > 0 and (look == 0 or r[EVENT_TURN] == EVENT_ACK):
            r[EVENT], r[EVENT_TURN], r[TAKEN], r[OFFERED] = EVENT_ACK, EVENT_LOOK, offered, 0
            r[TAKEN_SEEN] = r[OFFERED_SEEN]
            follows = LOAD
        elif look == 1:
            r[EVENT], r[EVENT_TURN], r[LOOK] = EVENT_LOOK, EVENT_ACK, 0
            follows = LOAD
        begins = follows == LOAD
        if begins:
            # A packet that leaves in this cycle needs another look.
            r[LEFT_FIRST] = (r[LEFT_BEFORE] if r[LEFT_BEFORE] >= now
                             else r[LEFT_LAST] if r[LEFT_LAST] >= now else FAR)
            r[RELOAD] = 1 if stored else 0
    elif state == LOAD:
        r[SPACE_SENT], r[SOME] = r[SENT_N], 0
        if recovery is not None:
            load_sent(r)
        if r[COUNT] > r[RELOAD]:
            follows = SYNC
    elif state == SYNC:
        follows = MASK if r[EVENT] == EVENT_ACK else LOOKS
        if recovery is not None:
            synchronize(r, recovery)
    elif state == MASK:
        if r[COUNT] == 2:
            follows = ACK
    elif state == ACK:
        while r[OLDEST] < r[SPACE_SENT] and resolved_at[r[OLDEST]] < now:
            r[OLDEST] += 1
        r[IN_ORDER] = 1 if r[RESOLVED_N] == r[OLDEST] and r[AGAIN_N] == 0 else 0
        r[IN_ORDER_K] = r[OLDEST]
        _add(r, outcome_k, todo)
        r[WALK], r[RECORD], follows = RESOLVE, NONE, WALKS
    elif state == LOOKS:
        follows = REQUEST
        if in_flight > 0 and timer_over:
            r[DEFERS], r[DEFER_TICKS] = 1, FAR
            r[WALK], r[RECORD], follows = TIMEOUT, NONE, WALKS
        elif in_flight > 0 and r[AGING] == 1 and ticks >= r[AGE_TICKS]:
            r[AGING], r[WALK], r[RECORD], follows = 0, LOSS, NONE, WALKS
            r[SEARCH_TICKS], r[FIRST_CHECKED] = ticks + _pause(r, in_flight), 0
    elif state == WALKS:
        follows = _walk(now, c, r, sent, departed_at, resolved_at, incoming, note_due, todo,
                        outcome_k, recovery, wake)
        if recovery is not None and follows != WALKS:
            find_best(now, r, recovery)
    elif state == ADVANCE:
        follows = SEARCH
    elif state == SEARCH:
        if r[SOME] == 1:
            r[TIMER], r[TIMER_TICKS] = 1, ticks + timeout(c, r)
        follows = REQUEST
        pause = _pause(r, in_flight)
        if in_flight > 0 and (ticks >= r[SEARCH_TICKS] if r[LOSSY] == 1
                              else r[AGING] == 0 or ticks >= r[AGE_TICKS]):
            r[AGING], r[WALK], r[RECORD], follows = 0, LOSS, NONE, WALKS
            r[SEARCH_TICKS], r[FIRST_CHECKED] = ticks + pause, 0
        elif r[LOSSY] == 1 and (r[AGING] == 0 or not 0 <= r[AGE_TICKS] - ticks <= pause):
            r[AGING], r[AGE_TICKS] = 1, r[SEARCH_TICKS]
    elif state == REQUEST:
        if r[DEFERS] == 1:
            # The timer is over, and no packet is as old.
            r[DEFERS] = 0
            r[TIMER_TICKS] = min(ticks, r[DEFER_TICKS]) + (timeout(c, r) << r[BACKOFF])
        if in_flight == 0:
            r[TIMER] = r[AGING] = r[LATEST_KNOWN] = 0
        elif r[TIMER] == 0:
            r[TIMER], r[TIMER_TICKS] = 1, ticks + (timeout(c, r) << r[BACKOFF])
        follows = STORE
        if recovery is not None and r[REQUESTED] == 0 and r[LOST_N] > 0:
            request(r, r[OLDEST], recovery)
            follows = AGAIN
    elif state == AGAIN and r[COUNT] == REQUESTS:
        follows = STORE
    if follows != state:
        r[COUNT] = 0
    r[STATE] = follows
    r[MORE] = 1 if offered > 0 and none_due else 0
    if recovery is not None and (r[LOSSY] == 1 or r[LOST_N] > 0 or r[UNUSABLE_N] > 0):
        r[MORE] = 0
    # The next acknowledgement that waits.
    stores = r[JOINED_N] < r[ACK_COME_N] and ack_in_at[r[JOINED_N]] + c.join <= now
    if stores:
        r[WAITING] = ack_shows[r[JOINED_N]]
        r[WAITING_SEEN] = now - 1 + c.ticks >> c.tick_log
        r[JOINED_N] += 1
    taken = offered == 0 or r[OFFERED] == 0
    if r[JOIN_1] > 0:
        r[OFFERED], r[OFFERED_SEEN], r[JOIN_1] = r[JOIN_1], r[JOIN_SEEN], 0
    elif taken and r[WAITS] == 1:
        r[JOIN_1], r[JOIN_SEEN], r[WAITS] = r[WAITING], r[WAITING_SEEN], 0
    if stores:
        r[WAITS] = 1
    if recovery is not None:
        # A served request is another look if one waits, unless a look at the peer begins.
        served = r[SERVED] == 1 or r[SERVED_AT] == now - 1
        finds = finds or (served and r[LOOK] == 0)
        r[SERVED] = 1 if served and r[LOOK] == 1 and not begins else 0
    if finds:
        r[LOOK] = 1
    if follows != IDLE or r[OFFERED] > 0 or r[WAITS] == 1 or r[JOIN_1] > 0 or r[LOOK] == 1:
        return now + 1
    if r[SET_AT] > now:
        return now + 1
    later = _scan(now, c, r)
    if r[JOINED_N] < r[ACK_COME_N]:
        later = min(later, ack_in_at[r[JOINED_N]] + c.join)
    return later
