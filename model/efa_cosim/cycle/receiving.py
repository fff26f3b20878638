# SPDX-License-Identifier: Apache-2.0
"""Executes the receive engines, cycle by cycle (see sending.py): link and packet validation."""

from __future__ import annotations

from efa_cosim.cycle import engine
from efa_cosim.cycle.costs import Costs
from efa_cosim.cycle.parts import claims, flits_of, is_request, writes
from efa_cosim.cycle.segmenting import REQUEST_AT, REQUEST_ROW
from efa_cosim.cycle.state import (
    ACCEPTED,
    ACK,
    AT_COMPLETIONS,
    AT_FETCH,
    AT_LINK,
    AT_RESOLVE,
    AT_SCATTER,
    AT_SHOW,
    AT_TRANSMIT,
    AT_VALIDATE,
    FAR,
    NOW,
    RX_FIRST,
    RX_LAST,
    RX_VALIDATED,
    R,
    Recovery,
)  # fmt: skip
from efa_cosim.cycle.timelines import Ints

LINK_HEAD, LINK_TAIL, LINK_FREE = R["link_head"], R["link_tail"], R["link_free"]
LINK_FLITS, STORED, IN_LINES = R["link_flits"], R["stored"], R["in_lines"]
GONE_N, GONE_AT, MOVED, MOVED_AT = R["gone_n"], R["gone_at"], R["moved"], R["moved_at"]
ARRIVED, FRONT_N, PACKET_N, J1, J2 = R["arrived"], R["front_n"], R["packet_n"], R["j1"], R["j2"]
J2_BLOCKED, J2_INDEX, J3, CHECK_FREE = R["j2_blocked"], R["j2_index"], R["j3"], R["check_free"]
CHECKED_N, JOB_N, RETIRE_N, PARK_HEAD = R["checked_n"], R["job_n"], R["retire_n"], R["park_head"]
PARK_TAIL, PARK_AT, PARK_FULL, PASS = R["park_tail"], R["park_at"], R["park_full"], R["pass"]
PASS_LEFT, PASS_REST, SC_JOB = R["pass_left"], R["pass_rest"], R["sc_job"]
LOOKED_UP, FOUND_AT = R["looked_up"], R["found_at"]
SC_PIECE, RETIRED_AT, WRITE_N = R["sc_piece"], R["retired_at"], R["write_n"]
IN_SHOWN_N, ACK_COME_N, WINDOW_N = R["in_shown_n"], R["ack_come_n"], R["window_n"]
CAME_OLDEST, DUPLICATE_TAIL = R["came_oldest"], R["duplicate_tail"]
OPEN, QUIET, PASSING = 0, 1, 2
NONE = -1
WINDOW_PLACES = 2


@engine
def link(
    now: int, c: Costs, r: Ints, at: Ints, sent: Ints, link_msg: Ints, link_ack: Ints,
    link_due: Ints, arrived: Ints, gone_at: Ints, outcome_k: Ints, ack_shows: Ints,
    ack_in_at: Ints, number_of: Ints, recovery: Recovery | None, wake: Ints
) -> int:
    """Receives packets in the order of transmission; stalls while a packet store is full."""
    # Packets leave their store in order of arrival, one a cycle.
    later = FAR
    while r[GONE_N] < r[STORED] and gone_at[r[GONE_N]] < FAR:
        gone = max(gone_at[r[GONE_N]], r[GONE_AT]) + c.gone
        if gone + 1 > now:
            later = gone + 1
            break
        r[GONE_AT] = gone
        r[IN_LINES] -= flits_of(c, arrived[r[GONE_N]])
        r[GONE_N] += 1
    head = r[LINK_HEAD]
    if head == r[LINK_TAIL]:
        return later
    due: int = max(link_due[head], r[LINK_FREE])
    if due > now:
        return min(due, later)
    if (r[IN_LINES] >= c.lines_wait or r[STORED] - r[FRONT_N] >= c.packets_wait
            or r[STORED] - r[GONE_N] >= c.packets_stored):
        return later
    message = link_msg[head]
    r[LINK_FREE] = now + 1
    if link_ack[head] == 1:
        while r[IN_SHOWN_N] < message:
            at[ACK, sent[outcome_k[r[IN_SHOWN_N]]]] = now
            r[IN_SHOWN_N] += 1
        ack_shows[r[ACK_COME_N]], ack_in_at[r[ACK_COME_N]] = message, now
        r[ACK_COME_N] += 1
        r[LINK_HEAD] += 1
        wake[AT_RESOLVE] = min(wake[AT_RESOLVE], now + c.join)
        return now + 1
    if recovery is not None and r[LINK_FLITS] == 0:
        k = number_of[message]
        r[CAME_OLDEST] = max(r[CAME_OLDEST], recovery.link_oldest[head])
        if recovery.came[k] == 1:
            # Seen before: it takes no place, and is acknowledged again if the sender may wait.
            r[LINK_FREE] = now + flits_of(c, message)
            r[LINK_HEAD] += 1
            if k >= r[CAME_OLDEST]:
                due = r[LINK_FREE] - 1 + c.again
                recovery.duplicate_at[r[DUPLICATE_TAIL]] = due
                r[DUPLICATE_TAIL] += 1
                wake[AT_SHOW] = min(wake[AT_SHOW], due)
            again: int = r[LINK_FREE]
            return again
        recovery.came[k] = 1
    if r[LINK_FLITS] == 0:
        at[RX_FIRST, message] = now
    # All remaining flits at once, as far as lines are free.
    whole = flits_of(c, message)
    flits = min(whole - r[LINK_FLITS], c.lines_wait - r[IN_LINES])
    r[IN_LINES] += flits
    r[LINK_FLITS] += flits
    r[LINK_FREE] = now + flits
    if r[LINK_FLITS] == whole:
        at[RX_LAST, message] = now + flits - 1
        arrived[r[STORED]] = message
        gone_at[r[STORED]] = FAR
        r[STORED] += 1
        r[LINK_FLITS] = 0
        r[LINK_HEAD] += 1
        wake[AT_VALIDATE] = min(wake[AT_VALIDATE], at[RX_LAST, message])
    free: int = r[LINK_FREE]
    return free


@engine
def _checked(
    now: int, c: Costs, r: Ints, at: Ints, jobs: Ints, job_at: Ints, out_at: Ints, wake: Ints
) -> tuple[bool, int]:
    """Moves the oldest job out of the checks: its write begins when the scatter has space, and it
    leaves when the job line has space, too."""
    j = r[JOB_N]
    if j == r[CHECKED_N]:
        return False, FAR
    due = job_at[j] + c.job_check
    if due > now:
        return False, due
    written = writes(c, jobs[j])
    begins = written and r[WRITE_N] == j
    if begins:
        if r[SC_JOB] >= 0:
            return False, FAR
        at[RX_VALIDATED, jobs[j]] = now
        out_at[j] = FAR
        r[SC_JOB] = j
        r[SC_PIECE] = 0
        r[WRITE_N] = j + 1
        wake[AT_SCATTER] = NOW
    # A place freed in this cycle is visible in the next.
    held = j - r[RETIRE_N] + (1 if r[RETIRED_AT] == now else 0)
    if held >= c.line:
        return begins, now + 1 if r[RETIRED_AT] == now else FAR
    if not written:
        r[WRITE_N] = j + 1
        at[RX_VALIDATED, jobs[j]] = now
        out_at[j] = now + c.nothing
        wake[AT_COMPLETIONS] = NOW
    r[JOB_N] += 1
    return True, now


@engine
def _offered(
    now: int, c: Costs, r: Ints, window_due: Ints, parked: Ints
) -> int:
    """Returns the next packet to validate: from the list of parked packets during a pass, else a
    new packet; -1 if there is none."""
    if r[PASS] == PASSING:
        if r[PARK_HEAD] < r[PARK_TAIL] and r[PARK_AT] <= now:
            packet: int = parked[r[PARK_HEAD] % c.parked_places]
            return packet
        return NONE
    new = r[PACKET_N]
    shows = new < r[WINDOW_N] and window_due[new & 1] <= now
    return new if shows and r[PASS] == OPEN and r[PARK_FULL] == 0 else NONE


@engine
def _front(
    now: int, c: Costs, r: Ints, at: Ints, arrived: Ints, front_due: Ints, places: int, wake: Ints
) -> tuple[bool, int]:
    """Moves a packet to the two front places, from the store or by bypass."""
    n = r[FRONT_N]
    if n == r[STORED]:
        return False, FAR
    came = at[RX_LAST, arrived[n]]
    if came > now:
        return False, came
    if places >= 2:
        return False, FAR
    if came != now and came + c.behind > now:
        return False, came + c.behind
    front_due[n & 1] = now + c.packet_in
    r[FRONT_N] += 1
    wake[AT_LINK] = NOW
    return True, now


@engine
def _pass(now: int, c: Costs, r: Ints, front_due: Ints, window_due: Ints) -> bool:
    """Moves a packet from the front into efa_rx_window, which holds two; returns False if none."""
    n = r[WINDOW_N]
    if n == r[FRONT_N] or front_due[n & 1] > now or n - r[PACKET_N] >= WINDOW_PLACES:
        return False
    window_due[n & 1] = now + c.window
    r[WINDOW_N] += 1
    return True


@engine
def validate(
    now: int, c: Costs, r: Ints, at: Ints, claimed: Ints, moved_n: Ints, here: Ints, arrived: Ints,
    ring_of: Ints, front_due: Ints, window_due: Ints, jobs: Ints, job_at: Ints, places: Ints,
    out_at: Ints, parked: Ints, park_due: Ints, blocked: Ints, wake: Ints
) -> int:
    """Validates packets one by one, each with the next descriptor of its ring. A packet whose
    descriptor has not arrived is parked, together with all later packets of its ring."""
    waiting = r[CHECKED_N] - r[JOB_N]
    changed, later = _checked(now, c, r, at, jobs, job_at, out_at, wake)
    level = r[PARK_TAIL] - r[PARK_HEAD]
    front = r[FRONT_N] - r[WINDOW_N]
    offered = _offered(now, c, r, window_due, parked)
    empty = r[J1] < 0 and r[J2] < 0
    # The job moves to the checks.
    if r[J3] >= 0 and waiting < c.jobs:
        message = arrived[r[J3]]
        n = r[CHECKED_N]
        jobs[n], job_at[n], places[n] = message, now, r[J3]
        if not c.looks or claims(c, message):
            ring = ring_of[message]
            moved_n[ring] += 1
            r[MOVED], r[MOVED_AT] = ring, now + c.used
            wake[AT_FETCH] = min(wake[AT_FETCH], r[MOVED_AT])
        r[CHECKED_N] += 1
        r[J3] = NONE
        changed = True
    # Response to the claim.
    two = r[J2]
    two_ring = ring_of[arrived[two]] if two >= 0 else NONE
    parks = NONE
    if two >= 0:
        claim = not c.looks or claims(c, arrived[two])
        seen = now
        if claim:
            index = r[J2_INDEX]
            seen = here[two_ring, index // c.read_descriptors]
            seen += index % c.read_descriptors // c.beat_descriptors
        if r[J2_BLOCKED] == 1 or seen > now:
            parks = two
            r[J2] = NONE
            changed = True
        elif r[J3] < 0:
            r[J3] = two
            if claim:
                claimed[two_ring] += 1
            r[J2] = NONE
            changed = True
    # A claim stalls behind an earlier claim of its own ring.
    one = r[J1]
    if one >= 0:
        ring = ring_of[arrived[one]]
        looks = c.looks and blocked[ring] == 0
        request = is_request(c, arrived[one])
        # A request of 0 bytes has no response.
        asks = request and c.packets > 1
        # The look-up of region and peer, or of the read of a response, begins when no packet is in
        # front.
        if looks and r[LOOKED_UP] == FAR and two < 0:
            r[LOOKED_UP] = now + c.look_up
            if c.reading and not request:
                r[FOUND_AT], r[LOOKED_UP] = now + c.found, now + c.look_up_read
        if looks and r[LOOKED_UP] > now:
            if r[LOOKED_UP] < FAR:
                later = min(later, r[LOOKED_UP])
        elif asks and r[REQUEST_ROW] >= 0:
            # The request before has not left for its responses.
            changed = True
        elif r[J2] < 0 and (ring != two_ring or blocked[ring] == 1):
            r[J2], r[J2_INDEX], r[J2_BLOCKED] = one, claimed[ring], blocked[ring]
            r[J1] = NONE
            changed = True
            if asks:
                r[REQUEST_ROW], r[REQUEST_AT] = arrived[one], now + c.accepts
                at[ACCEPTED, arrived[one]] = now
                wake[AT_TRANSMIT] = min(wake[AT_TRANSMIT], r[REQUEST_AT])
    ready = r[J1] < 0 and r[CHECK_FREE] <= now
    if ready and offered >= 0:
        r[J1], r[LOOKED_UP] = offered, FAR
        r[CHECK_FREE] = now + c.check_next
        changed = True
        if r[PASS] == PASSING:
            r[PARK_HEAD] += 1
            r[PASS_LEFT] -= 1
            if r[PARK_HEAD] < r[PARK_TAIL]:
                r[PARK_AT] = max(park_due[r[PARK_HEAD] % c.parked_places], now + 1)
        else:
            r[PACKET_N] += 1
    if _pass(now, c, r, front_due, window_due):
        changed = True
    came, due = _front(now, c, r, at, arrived, front_due, front, wake)
    changed, later = changed or came, min(later, due)
    # Parked packets, and the pass over them after the arrival of descriptors.
    offers = offered >= 0 and not ready
    begins = False
    if r[PASS] == PASSING:
        if r[PASS_LEFT] == 0:
            r[PASS] = OPEN
            r[PASS_REST] += now + 1
        changed = True
    elif r[PASS] == QUIET:
        if empty:
            begins = True
            r[PASS], r[PASS_LEFT], r[PASS_REST] = PASSING, level, level
            # The next pass starts at the next read completion or at the next period, which may be
            # those of this cycle.
            if r[ARRIVED] != now + 1:
                r[ARRIVED] = now + 1 + (-now - 1 - c.clock) % c.pass_again
        changed = True
    elif level > 0:
        if r[ARRIVED] <= now and (r[PASS_REST] <= now or r[PARK_FULL] == 1) and not offers:
            r[PASS] = QUIET
            changed = True
        else:
            later = min(
                later,
                max(r[ARRIVED], r[PASS_REST]) if r[ARRIVED] > now or r[PASS_REST] > now else FAR,
            )
    if not offers:
        full = 1 if level >= c.parked else 0
        changed = changed or full != r[PARK_FULL]
        r[PARK_FULL] = full
    if begins:
        for ring in range(c.queues):
            blocked[ring] = 0
    if parks >= 0:
        tail = r[PARK_TAIL]
        parked[tail % c.parked_places] = parks
        park_due[tail % c.parked_places] = now + c.listed
        if r[PARK_HEAD] == tail:
            r[PARK_AT] = now + c.listed
        r[PARK_TAIL] += 1
        blocked[two_ring] = 1
    if changed:
        return now + 1
    if r[CHECK_FREE] > now:
        later = min(later, r[CHECK_FREE])
    if r[PACKET_N] < r[WINDOW_N] and window_due[r[PACKET_N] & 1] > now:
        later = min(later, window_due[r[PACKET_N] & 1])
    if r[WINDOW_N] < r[FRONT_N] and front_due[r[WINDOW_N] & 1] > now:
        later = min(later, front_due[r[WINDOW_N] & 1])
    return later
