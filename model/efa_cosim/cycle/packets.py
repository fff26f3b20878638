# SPDX-License-Identifier: Apache-2.0
"""Executes the send engines after the scheduler (see sending.py): checks, host reads, packets.
"""

from __future__ import annotations

from efa_cosim.cycle import engine
from efa_cosim.cycle.costs import Costs
from efa_cosim.cycle.fetching import incoming
from efa_cosim.cycle.parts import flits_of, gathers, is_request
from efa_cosim.cycle.record import DESCRIPTORS as RING_READS
from efa_cosim.cycle.record import ENTRIES as ENTRY_READS
from efa_cosim.cycle.resolving import departs
from efa_cosim.cycle.state import (
    ACKOUT,
    AT_CHECKS,
    AT_COMPLETIONS,
    AT_ENTRIES,
    AT_FETCH,
    AT_HOST,
    AT_LINK,
    AT_NETWORK,
    AT_READS,
    AT_SHOW,
    AT_TRANSMIT,
    CHECK,
    FAR,
    FIRST_KEPT,
    KEPT,
    NOW,
    RD,
    RD_CPL,
    READY,
    SEEN,
    TX_FIRST,
    TX_LAST,
    R,
    Recovery,
)  # fmt: skip
from efa_cosim.cycle.timelines import Ints

CHECK_PT, CHECK_STUCK = R["check_pt"], R["check_stuck"]
INTO_CHECK_N, CHECK_N = R["into_check_n"], R["check_n"]
SPACE_N, SPACE_FREE, LINES, SLOTS = R["space_n"], R["space_free"], R["lines"], R["slots"]
FREED_N, READ_N, READ_PIECE = R["freed_n"], R["read_n"], R["read_piece"]
READ_BUS, READ_COUNT, TAG = R["read_bus"], R["read_count"], R["tag"]
CUT_1, CUT_3, CUT_AT, CUT_PIECE = R["cut_1"], R["cut_3"], R["cut_at"], R["cut_piece"]
CUT_STUCK, RANGES, RANGE_OUT = R["cut_stuck"], R["ranges"], R["range_out"]
RANGE_SECOND, RANGE_DIRECT = R["range_second"], R["range_direct"]
READ_TURN, REQ_HEAD, REQ_TAIL, SEND_N = (
    R["read_turn"],
    R["req_head"],
    R["req_tail"],
    R["send_n"],
)
NET_FREE, NET_TURN = R["net_free"], R["net_turn"]
LISTED_N, TX, TX_AT = R["listed_n"], R["tx"], R["tx_at"]
TX_FREE, OUT, OUT_AT, OUT_FREE = R["tx_free"], R["out"], R["out_at"], R["out_free"]
LINK_TAIL, FETCH_WAITS, FETCH_AT = R["link_tail"], R["fetch_waits"], R["fetch_at"]
RECALLED = R["recalled"]
HALF, LEFT_N, LOOKED_AT = R["half"], R["left_n"], R["looked_at"]
BUILT, BUILT_AT, OUT_SHOWN_N = R["built"], R["built_at"], R["out_shown_n"]
UNSEEN_HEAD, UNSEEN_TAIL = R["unseen_head"], R["unseen_tail"]
ENTRY_QUEUE, ENTRY_AT, ENTRY_LINES = R["entry_queue"], R["entry_at"], R["entry_lines"]
DESCRIPTORS, PAYLOAD, SEND_ENTRIES = range(3)  # Clients of the host reads, in round-robin order.
DEPARTED_N = R["departed_n"]
PAST = -1  # left_at of a message that bypassed the list.


@engine
def _range(now: int, c: Costs, r: Ints, wake: Ints) -> bool:
    """Passes a buffer range to the cut stage, by bypass or through the queue; returns False if
    full."""
    if r[CUT_1] == 0 and r[CUT_STUCK] == 0:
        r[CUT_1] = 1
    elif r[RANGES] + (1 if r[RANGE_OUT] == now else 0) < c.ranges:
        r[RANGES] += 1
    else:
        return False
    wake[AT_READS] = NOW
    return True


@engine
def _space(now: int, c: Costs, r: Ints, at: Ints, sent: Ints, listed_at: Ints, wake: Ints) -> int:
    """Inserts a message into the list when all of it has space; returns the cycle of the next
    attempt."""
    if r[RANGE_SECOND] == 1:
        if not _range(now, c, r, wake):
            return now + 1 if r[RANGE_OUT] == now else FAR
        r[RANGE_SECOND], r[SPACE_FREE] = 0, now + c.space_next - 1
        return now + 1
    k = r[SPACE_N]
    if k == r[CHECK_N]:
        return FAR
    due: int = max(at[CHECK, sent[k]] + 1, r[SPACE_FREE])
    if due > now:
        return due
    direct = r[RANGE_DIRECT] == 1
    message = sent[k]
    gather = gathers(c, message)
    space = c.space if gather else 0
    if not direct:
        if r[LINES] + space > c.space_lines or r[SLOTS] == c.space_messages:
            return FAR
        if gather and not _range(now, c, r, wake):
            return now + 1 if r[RANGE_OUT] == now else FAR
    r[RANGE_DIRECT] = 0
    r[LINES] += space
    r[SLOTS] += 1
    r[SPACE_FREE] = now + c.space_next
    listed_at[k] = now + 1
    if not gather:
        at[READY, message] = now
    elif c.two and direct and _range(now, c, r, wake):
        r[SPACE_FREE] = now + c.space_next - 1
    elif c.two:
        r[RANGE_SECOND], r[SPACE_FREE] = 1, FAR
    r[SPACE_N] += 1
    wake[AT_NETWORK] = NOW
    return now + 1


@engine
def checks(
    now: int, c: Costs, r: Ints, at: Ints, sent: Ints, check_due: Ints, listed_at: Ints,
    left_at: Ints, wake: Ints
) -> int:
    """Passes WQEs through the checks into the allocation stage, or by bypass."""
    idle = r[SPACE_N] == r[CHECK_N]
    listed = r[LISTED_N] < r[SPACE_N]
    later = _space(now, c, r, at, sent, listed_at, wake)
    # The checks output their oldest WQE when the allocation stage is empty.
    k = r[CHECK_N]
    r[CHECK_STUCK] = 0
    if k < r[INTO_CHECK_N]:
        wait = check_due[k] - r[CHECK_PT]
        if wait > 0:
            later = min(later, now + wait)
        elif r[SPACE_N] == k and r[SPACE_FREE] - 1 <= now:
            at[CHECK, sent[k]] = now
            r[CHECK_N] += 1
            gather = gathers(c, sent[k])
            if not gather and idle and not listed and r[TX] < 0 and r[TX_FREE] <= now:
                # No payload to gather and no message before it: bypass to the packet stage.
                at[READY, sent[k]] = now
                left_at[k] = PAST
                r[TX], r[TX_AT] = k, now + 1 + c.message
                r[SPACE_N] += 1
                r[LISTED_N] += 1
                wake[AT_NETWORK] = NOW
            elif (gather and idle and r[CUT_1] == 0 and r[CUT_STUCK] == 0
                  and 2 * r[LINES] <= c.space_lines and r[SLOTS] < c.space_messages):
                # Nothing is before it, and half of the ring is free.
                r[CUT_1] = r[RANGE_DIRECT] = 1
                wake[AT_READS] = NOW
            later = now + 1
        else:
            r[CHECK_STUCK] = 1
    # The transport enters WQEs (see transmitting.py).
    if r[RECALLED] == 1 and r[CHECK_STUCK] == 0:
        wake[AT_TRANSMIT] = NOW
    return later


@engine
def _cut(now: int, c: Costs, r: Ints, pieces: int, granted: bool, wake: Ints) -> int:
    """Cuts ranges into reads; all stages stall while the last stage holds its read.

    Stage 1: the range to cut; stage 3: a read with its page. Returns the cycle in which a read is
    offered.
    """
    if r[CUT_3] == 1 and not granted:
        r[CUT_STUCK] = 1
        return FAR
    r[CUT_STUCK] = 0
    r[CUT_3] = r[CUT_1]
    if r[CUT_1] == 1:
        r[CUT_AT] = now + 1 + c.cut_more
        r[CUT_PIECE] = r[CUT_PIECE] + 1 if r[CUT_PIECE] + 1 < pieces else 0
        if r[CUT_PIECE] == 0 or (c.two and r[CUT_PIECE] == c.first_cuts):
            r[CUT_1] = 0
    if r[CUT_1] == 0 and r[RANGES] > 0:
        if r[RANGES] == c.ranges:
            wake[AT_CHECKS] = NOW
        r[CUT_1] = 1
        r[RANGES] -= 1
        r[RANGE_OUT] = now
    return now + 1 if r[CUT_3] == 1 or r[CUT_1] == 1 else FAR


@engine
def _push(c: Costs, r: Ints, at: Ints, unseen: Ints, responded: int, wake: Ints) -> None:
    """Makes earlier completion writes visible to the host at the latest when a read completes."""
    while r[UNSEEN_HEAD] < r[UNSEEN_TAIL]:
        message = unseen[r[UNSEEN_HEAD]] * c.packets
        r[UNSEEN_HEAD] += 1
        if at[SEEN, message] > responded:
            at[SEEN, message] = responded
            wake[AT_HOST] = NOW


@engine
def reads(
    now: int,
    c: Costs,
    r: Ints,
    at: Ints,
    read_beats: Ints,
    sent: Ints,
    tag_free: Ints,
    here: Ints,
    req_ring: Ints,
    req_block: Ints,
    req_at: Ints,
    req_end: Ints,
    read_log: Ints,
    news_at: Ints,
    news_queue: Ints,
    news_count: Ints,
    entry_free: Ints,
    unseen: Ints,
    wake: Ints,
) -> int:
    """Issues one host read a cycle, round robin over clients; the host completes in order."""
    payload = r[CUT_AT] if r[CUT_3] == 1 else FAR
    ring = req_at[r[REQ_HEAD]] if r[REQ_HEAD] < r[REQ_TAIL] else FAR
    tag = tag_free[r[TAG]]
    entry = max(r[ENTRY_AT], tag) if r[ENTRY_QUEUE] >= 0 else FAR
    payload, ring = max(payload, tag), max(ring, tag)
    client = r[READ_TURN]
    if payload > now and ring > now and entry > now:
        later: int = min(payload, min(ring, entry))
        return later if c.inline else min(later, _cut(now, c, r, len(read_beats), False, wake))
    while ((client == DESCRIPTORS and ring > now) or (client == PAYLOAD and payload > now)
           or (client == SEND_ENTRIES and entry > now)):
        client = client + 1 if client < SEND_ENTRIES else DESCRIPTORS
    r[READ_TURN] = client + 1 if client < SEND_ENTRIES else DESCRIPTORS
    if not c.inline:
        _cut(now, c, r, len(read_beats), client == PAYLOAD, wake)
    requested = now + c.request
    if client == PAYLOAD and c.reading:
        while is_request(c, sent[r[READ_N]]):
            r[READ_N] += 1
    if client == DESCRIPTORS:
        # The last read of a ring requests the remaining descriptors.
        number = min(c.read_descriptors,
                     c.per_queue - req_block[r[REQ_HEAD]] * c.read_descriptors)
        beats = (number + c.beat_descriptors - 1) // c.beat_descriptors
    else:
        beats = read_beats[r[READ_PIECE]] if client == PAYLOAD else r[ENTRY_LINES]
    first = max(requested + c.read_latency + c.bus, r[READ_BUS])
    r[READ_BUS] = first + beats
    if c.pushes:
        _push(c, r, at, unseen, first - c.bus, wake)
    end = first + beats - 1 + c.beat_back
    # The tag is free one cycle later, after the FIFO of free tags.
    tag_free[r[TAG]] = end + 1
    r[TAG] = r[TAG] + 1 if r[TAG] + 1 < c.tags else 0
    if c.log:
        log = read_log[r[READ_COUNT]]
        log[0], log[1], log[2] = requested, end, beats
        log[3] = (
            RING_READS - req_ring[r[REQ_HEAD]] if client == DESCRIPTORS else ENTRY_READS
        )
        if client == PAYLOAD:
            log[3] = sent[r[READ_N]]
    r[READ_COUNT] += 1
    if client == SEND_ENTRIES:
        incoming(c, r, first, news_at, news_queue, news_count, entry_free, wake)
        wake[AT_ENTRIES] = NOW
    elif client == DESCRIPTORS:
        ring = req_ring[r[REQ_HEAD]]
        block = req_block[r[REQ_HEAD]]
        here[ring, block] = end - beats + 1 + c.cached
        req_end[r[REQ_HEAD]] = end + 1
        r[REQ_HEAD] += 1
        r[FETCH_WAITS], r[FETCH_AT] = 0, now + c.look_again
        wake[AT_FETCH] = min(wake[AT_FETCH], min(r[FETCH_AT], end + 1))
    else:
        message = sent[r[READ_N]]
        r[READ_PIECE] += 1
        if r[READ_PIECE] == len(read_beats):
            at[RD, message] = requested
            at[RD_CPL, message] = end
            at[READY, message] = end + c.response - 1
            r[READ_PIECE] = 0
            r[READ_N] += 1
            wake[AT_NETWORK] = min(wake[AT_NETWORK], at[READY, message])
    return now + 1


@engine
def _place(now: int, c: Costs, r: Ints, at: Ints, sent: Ints) -> bool:
    """Returns True if a datagram has a place until its completion is consumed."""
    used = r[SEND_N] - r[LEFT_N]
    if r[LOOKED_AT] == now:
        used += 1
    if r[SEND_N] > 0 and at[TX_LAST, sent[r[SEND_N] - 1]] >= now:
        used -= 1
    free: bool = used < c.places
    return free


@engine
def _leave(
    now: int, c: Costs, r: Ints, at: Ints, sent: Ints, outgoing: Ints, left_at: Ints,
    link_msg: Ints, link_ack: Ints, link_due: Ints, outcome_k: Ints, departed_at: Ints,
    number_of: Ints, recovery: Recovery | None, wake: Ints
) -> int:
    """Sends a packet or an acknowledgement, round robin, when the output is free; returns when."""
    data = r[OUT_AT] if r[OUT] >= 0 else FAR
    if not c.srd and data <= now and not _place(now, c, r, at, outgoing):
        return now + 1 if r[LOOKED_AT] == now else FAR
    ack = r[BUILT_AT] if r[BUILT] > 0 else FAR
    data, ack = max(data, r[NET_FREE]), max(ack, r[NET_FREE])
    if data > now and ack > now:
        due: int = min(data, ack)
        return due
    is_ack = ack <= now and (data > now or r[NET_TURN] == 0)
    r[NET_TURN] = 1 if is_ack else 0
    tail = r[LINK_TAIL]
    lost = False
    if recovery is not None:
        lost = recovery.loses_at[r[DEPARTED_N]] == 1
        r[DEPARTED_N] += 1
    if is_ack:
        # The number of outcomes that it shows.
        message, flits = r[BUILT], 1
        while r[OUT_SHOWN_N] < message and not lost:
            at[ACKOUT, sent[outcome_k[r[OUT_SHOWN_N]]]] = now + c.out
            r[OUT_SHOWN_N] += 1
        r[BUILT] = 0
        wake[AT_SHOW] = NOW
    else:
        k = r[OUT]
        message = outgoing[k]
        flits = flits_of(c, message) - r[HALF]
        if r[HALF] == 0:
            at[TX_FIRST, message] = now + c.out
            if c.srd:
                number = k if recovery is None else number_of[message]
                departs(c, r, number, now + c.out, departed_at, wake)
        # A datagram that follows another one may stop behind its first flit.
        half = not c.srd and r[HALF] == 0 and flits > 1 and r[SEND_N] - r[LEFT_N] >= c.places
        if flits > 1 and not (half and flits > 2):
            # The last flit enters the stage when the flit before it leaves.
            r[TX], r[TX_FREE] = -1, now + flits - 2
            if left_at[k] != PAST:
                left_at[k] = r[TX_FREE] + c.freed
        r[HALF] = 1 if half else 0
        if half:
            r[NET_FREE] = now + 1
            return now + 1
        at[TX_LAST, message] = now + c.out + flits - 1
        r[SEND_N] += 1
        r[OUT], r[OUT_FREE] = -1, now + flits - 1
        if not c.srd:
            wake[AT_COMPLETIONS] = NOW
        if recovery is not None:
            recovery.link_oldest[tail] = recovery.out_oldest[k]
            if not lost and at[FIRST_KEPT, message] == FAR:
                for number in range(len(KEPT)):
                    at[FIRST_KEPT + number, message] = at[KEPT[number], message]
    if lost:
        r[NET_FREE] = now + flits
        return now + flits
    link_msg[tail] = message
    link_ack[tail] = 1 if is_ack else 0
    link_due[tail] = now + c.out + flits - 1 + c.net_latency + c.bus
    r[LINK_TAIL] += 1
    r[NET_FREE] = now + flits
    wake[AT_LINK] = min(wake[AT_LINK], link_due[tail])
    return now + flits


@engine
def network(
    now: int, c: Costs, r: Ints, at: Ints, sent: Ints, outgoing: Ints, listed_at: Ints,
    left_at: Ints, link_msg: Ints, link_ack: Ints, link_due: Ints, outcome_k: Ints,
    departed_at: Ints, number_of: Ints, recovery: Recovery | None, wake: Ints
) -> int:
    """Outputs packets, one flit a cycle: TX is the current message, OUT its next flit."""
    while r[FREED_N] < r[LISTED_N] and (
            left_at[r[FREED_N]] == PAST or left_at[r[FREED_N]] <= now):
        if left_at[r[FREED_N]] != PAST:
            r[LINES] -= c.space if gathers(c, outgoing[r[FREED_N]]) else 0
            r[SLOTS] -= 1
            wake[AT_CHECKS] = NOW
        r[FREED_N] += 1
    later = _leave(now, c, r, at, sent, outgoing, left_at, link_msg, link_ack, link_due, outcome_k,
                   departed_at, number_of, recovery, wake)
    if r[FREED_N] < r[LISTED_N]:
        later = min(later, left_at[r[FREED_N]])
    k = r[TX]
    if k >= 0 and r[OUT] < 0:
        due = max(r[OUT_FREE], max(r[TX_AT], at[READY, outgoing[k]]))
        if due <= now:
            r[OUT], r[OUT_AT] = k, now + 1
            later = min(later, now + 1)
            if flits_of(c, outgoing[k]) == 1:
                r[TX], r[TX_FREE] = -1, now
                if left_at[k] != PAST:
                    left_at[k] = now + c.freed
        else:
            later = min(later, due)
    if r[TX] < 0 and r[LISTED_N] < r[SPACE_N]:
        due = max(listed_at[r[LISTED_N]], r[TX_FREE])
        if due <= now:
            r[TX], r[TX_AT] = r[LISTED_N], now + 1
            left_at[r[TX]] = FAR
            r[LISTED_N] += 1
            later = min(later, now + 1)
        else:
            later = min(later, due)
    return later
