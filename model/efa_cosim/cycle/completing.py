# SPDX-License-Identifier: Apache-2.0
"""Executes the engines after packet validation: payload scatter, completion queues, host write
stream (see efa_cosim.cycle.sending)."""

from __future__ import annotations

from efa_cosim.cycle import engine
from efa_cosim.cycle.costs import Costs
from efa_cosim.cycle.parts import claims, is_request
from efa_cosim.cycle.segmenting import ENDED_N, PLACED_HEAD, PLACED_TAIL
from efa_cosim.cycle.state import (
    AT_COMPLETIONS,
    AT_HOST,
    AT_LINK,
    AT_NETWORK,
    AT_SCATTER,
    AT_SCHEDULER,
    AT_SHOW,
    AT_TRANSMIT,
    AT_VALIDATE,
    AT_WRITES,
    CQE,
    DONE,
    FAR,
    NOW,
    RING,
    RX_DATA_DONE,
    SEEN,
    TX_LAST,
    R,
    Recovery,
)  # fmt: skip
from efa_cosim.cycle.timelines import Ints

CREDITS, SEND_N = R["credits"], R["send_n"]
COUNTED_QUEUE, COUNTED_AT = R["counted_queue"], R["counted_at"]
JOB_N, RETIRE_N, SC_JOB, SC_PIECE = R["job_n"], R["retire_n"], R["sc_job"], R["sc_piece"]
SCAN_1, SCAN_2, SCAN_3 = R["walk_1"], R["walk_2"], R["walk_3"]
SCAN_END, LEFT_BEATS, ISSUED = R["scan_end"], R["left_beats"], R["issued"]
TAKEN, WRITE_FREE, WRITE_PACKET = R["taken_beats"], R["write_free"], R["write_packet"]
WRITE_JOB, WRITE_TURN, CQ1, CQ2 = R["write_job"], R["write_turn"], R["cq1"], R["cq2"]
CQ2_AT, CQ_HELD, CQ_TURN, CQE_N = R["cq2_at"], R["cq_held"], R["cq_turn"], R["cqe_n"]
C1, C2, C3, STORE_HEAD = R["srd1"], R["srd2"], R["srd3"], R["store_head"]
STORE_TAIL, STORE_AT, ACKED_N, LEFT_N = R["store_tail"], R["store_at"], R["acked_n"], R["left_n"]
FREED_AT, RETIRED_AT, CHECKED_N = R["freed_at"], R["retired_at"], R["checked_n"]
LOOKED_AT = R["looked_at"]
PEND_HEAD, PEND_TAIL, LAST_OUTCOME = R["pend_head"], R["pend_tail"], R["last_outcome"]
ENTRIES_N, ENTRIES_OUT = R["entries_n"], R["entries_out"]
UNSEEN_TAIL, OUTCOME_N = R["unseen_tail"], R["outcome_n"]
RECEIVE = 1  # Low bit of a completion, next to the message number.
MASK = RING - 1


@engine
def _issue(c: Costs, r: Ints, issued_at: Ints, taken_at: Ints) -> int:
    """Issues the beats of the piece at the end of the scan, as far as free space is known."""
    end: int = r[SCAN_END]
    left, n = r[LEFT_BEATS], r[ISSUED]
    before = n + left - 1 - c.store_beats
    if left > 0 and (before < 0 or (before < r[TAKEN] and taken_at[before & MASK] < end + left)):
        # Free space for the last beat in time implies free space for all.
        for beat in range(left):
            issued_at[n + beat & MASK] = end + 1 + beat
        end += left
        r[LEFT_BEATS], r[ISSUED], r[SCAN_END] = 0, n + left, end
        return end
    while r[LEFT_BEATS] > 0:
        n = r[ISSUED]
        at = r[SCAN_END] + 1
        if n >= c.store_beats:
            if n - c.store_beats >= r[TAKEN]:
                return FAR
            at = max(at, taken_at[n - c.store_beats & MASK] + 1)
        issued_at[n & MASK] = at
        r[SCAN_END] = at
        r[ISSUED] += 1
        r[LEFT_BEATS] -= 1
    scanned: int = r[SCAN_END]
    return scanned


@engine
def scatter(
    now: int, c: Costs, r: Ints, write_beats: Ints, issued_at: Ints, taken_at: Ints, wake: Ints
) -> int:
    """Splits jobs into writes: a three-stage pipeline that stalls as a whole, then the beats."""
    if r[SCAN_3] >= 0:
        end = _issue(c, r, issued_at, taken_at)
        if end > now:
            return end
    pieces = len(write_beats)
    busy = r[SC_JOB] >= 0
    one = r[SCAN_1]
    fresh = -1
    # The next part follows the last piece of the previous part; the GRH of a datagram is a part.
    last_of_part = one == pieces - 1 or (c.grh and one == 0)
    if busy and (one < 0 or last_of_part):
        fresh = r[SC_PIECE]
        r[SC_PIECE] = 1
        if fresh == 1 or not c.grh or pieces == 1:
            r[SC_JOB] = -1
            if r[JOB_N] < r[CHECKED_N]:
                wake[AT_VALIDATE] = NOW
    elif one >= 0 and not last_of_part:
        fresh = one + 1
    r[SCAN_3] = r[SCAN_2]
    r[SCAN_2] = one
    r[SCAN_1] = fresh
    if r[SCAN_3] >= 0:
        r[LEFT_BEATS] = write_beats[r[SCAN_3]]
        r[SCAN_END] = now
        idle = r[TAKEN] == r[ISSUED]
        end = _issue(c, r, issued_at, taken_at)
        if idle:
            due = max(issued_at[r[TAKEN] & MASK] + c.store, r[WRITE_FREE])
            wake[AT_WRITES] = min(wake[AT_WRITES], due)
        return end
    if r[SCAN_1] >= 0 or r[SCAN_2] >= 0 or r[SC_JOB] >= 0:
        return now + 1
    return FAR


@engine
def writes(
    now: int, c: Costs, r: Ints, at: Ints, write_beats: Ints, issued_at: Ints, taken_at: Ints,
    jobs: Ints, out_at: Ints, number_of: Ints, outcome_at: Ints, outcome_k: Ints, pending: Ints,
    pending_at: Ints, unseen: Ints, beat_log: Ints, recovery: Recovery | None, wake: Ints
) -> int:
    """Executes the host write stream: round robin of payload and completions, packet by packet."""
    payload, entry = FAR, FAR
    if r[TAKEN] < r[ISSUED]:
        payload = max(issued_at[r[TAKEN] & MASK] + c.store, r[WRITE_FREE])
    if r[CQ2] >= 0:
        entry = max(r[CQ2_AT], r[WRITE_FREE])
    if payload > now and entry > now:
        return min(payload, entry)
    if payload <= now and (entry > now or r[WRITE_TURN] == 1):
        r[WRITE_TURN] = 0
        if r[LEFT_BEATS] > 0:
            # A consumed beat frees space for the rest of a piece.
            _issue(c, r, issued_at, taken_at)
            wake[AT_SCATTER] = NOW
        first, beats = r[TAKEN], write_beats[r[WRITE_PACKET]]
        consumed = now - 1
        if issued_at[first + beats - 1 & MASK] - issued_at[first & MASK] == beats - 1:
            # No beat was issued later than the cycle after the beat before.
            for beat in range(beats):
                taken_at[first + beat & MASK] = now + beat
            consumed += beats
        else:
            for beat in range(beats):
                consumed = max(consumed + 1, issued_at[first + beat & MASK] + c.store)
                taken_at[first + beat & MASK] = consumed
        if c.log:
            for beat in range(beats):
                beat_log[first + beat] = taken_at[first + beat & MASK]
        r[TAKEN] = first + beats
        r[WRITE_FREE] = consumed + 1
        r[WRITE_PACKET] += 1
        if r[WRITE_PACKET] == len(write_beats):
            while is_request(c, jobs[r[WRITE_JOB]]):
                r[WRITE_JOB] += 1
            out_at[r[WRITE_JOB]] = consumed + c.handed
            r[WRITE_PACKET] = 0
            r[WRITE_JOB] += 1
            wake[AT_COMPLETIONS] = min(wake[AT_COMPLETIONS], consumed + c.handed + c.retire)
        return consumed + 1
    r[WRITE_TURN] = 1
    r[WRITE_FREE] = now + 1
    message, kind = r[CQ2] >> 1, r[CQ2] & 1
    r[CQ2] = -1
    r[CQE_N] += 1
    wake[AT_COMPLETIONS] = NOW
    if kind == RECEIVE:
        at[CQE, message] = now
        if c.srd:
            if c.looks:
                r[ENTRIES_N] += 1
                _outcomes(now, c, r, number_of, outcome_at, outcome_k, pending, pending_at, wake)
            else:
                _outcome(now + c.outcome, c, r, number_of[message], outcome_at, outcome_k, wake)
    else:
        at[DONE, message * c.packets] = now
        if recovery is not None:
            # The host waits for a number of completions of the queue, of any messages.
            queue = message // c.batch % c.queues
            turn, place = recovery.done_n[queue] // c.batch, recovery.done_n[queue] % c.batch
            message = (turn * c.queues + queue) * c.batch + place
            recovery.done_n[queue] += 1
        at[SEEN, message * c.packets] = now + c.visible
        if c.pushes:
            unseen[r[UNSEEN_TAIL]] = message
            r[UNSEEN_TAIL] += 1
        wake[AT_HOST] = min(wake[AT_HOST], now + c.visible)
    return now + 1


@engine
def _outcome(
    due: int, c: Costs, r: Ints, k: int, outcome_at: Ints, outcome_k: Ints, wake: Ints
) -> None:
    """Reports that a received packet is complete."""
    tail = r[OUTCOME_N]
    outcome_at[tail], outcome_k[tail] = due, k
    r[OUTCOME_N] += 1
    wake[AT_SHOW] = min(wake[AT_SHOW], outcome_at[tail] + c.due + 1)


@engine
def _outcomes(
    now: int, c: Costs, r: Ints, number_of: Ints, outcome_at: Ints, outcome_k: Ints, pending: Ints,
    pending_at: Ints, wake: Ints
) -> None:
    """Reports the outcomes of retired RDMA packets, in order, one a cycle: a packet waits for its
    receive completion, if it has one, and for the packets before it."""
    while r[PEND_HEAD] < r[PEND_TAIL]:
        row, due = pending[r[PEND_HEAD]], max(pending_at[r[PEND_HEAD]], r[LAST_OUTCOME] + 1)
        if claims(c, row):
            if r[ENTRIES_OUT] == r[ENTRIES_N]:
                return
            # The completion is that of this cycle: it was the last thing to wait for.
            due = max(due, now + c.outcome)
            r[ENTRIES_OUT] += 1
        r[PEND_HEAD] += 1
        r[LAST_OUTCOME] = due
        _outcome(due, c, r, number_of[row], outcome_at, outcome_k, wake)


@engine
def _retire(
    now: int, c: Costs, r: Ints, at: Ints, jobs: Ints, gone_at: Ints, places: Ints, wake: Ints
) -> int:
    """Retires the oldest job, whose data is out; returns the column of its packet."""
    row: int = jobs[r[RETIRE_N]]
    at[RX_DATA_DONE, row] = now - c.retire
    gone_at[places[r[RETIRE_N]]] = now
    r[RETIRE_N] += 1
    r[RETIRED_AT] = now
    wake[AT_LINK] = NOW
    if r[JOB_N] - r[RETIRE_N] + 1 >= c.line:
        wake[AT_VALIDATE] = NOW
    return row


@engine
def _pend(now: int, c: Costs, r: Ints, row: int, pending: Ints, pending_at: Ints) -> None:
    """Adds a retired packet to those whose outcome follows."""
    pending[r[PEND_TAIL]], pending_at[r[PEND_TAIL]] = row, now + c.outcome_job
    r[PEND_TAIL] += 1


@engine
def _finished(
    now: int, c: Costs, r: Ints, at: Ints, sent: Ints, incoming: Ints, note_due: Ints, inside: int,
    wake: Ints
) -> tuple[int, int]:
    """Returns the next finished send, by its outcome or the departure of its datagram: (message,
    cycle), or (-1, cycle of the next)."""
    if c.srd:
        if r[ACKED_N] == r[ENDED_N]:
            return -1, FAR
        message = incoming[r[ACKED_N]]
        due = note_due[r[ACKED_N]]
        if due > now:
            return -1, due
        r[ACKED_N] += 1
        return message, now
    if r[LEFT_N] == r[SEND_N]:
        return -1, FAR
    if inside >= c.finished:
        return -1, now + 1
    message = sent[r[LEFT_N]]
    due = at[TX_LAST, message] + c.left
    if due > now:
        return -1, due
    r[LEFT_N] += 1
    r[LOOKED_AT] = now
    wake[AT_NETWORK] = NOW
    return message, now


@engine
def completions(
    now: int, c: Costs, r: Ints, at: Ints, sent: Ints, incoming: Ints, note_due: Ints, jobs: Ints,
    out_at: Ints, gone_at: Ints, places: Ints, store: Ints, store_due: Ints, number_of: Ints,
    outcome_at: Ints, outcome_k: Ints, pending: Ints, pending_at: Ints, placed: Ints,
    placed_at: Ints, counted: Ints, wake: Ints
) -> int:
    """Passes finished sends and receives to the completion engine, round robin. Packets of an RDMA
    write without immediate and of a read only have an outcome."""
    receive = out_at[r[RETIRE_N]] + c.retire if r[RETIRE_N] < r[JOB_N] else FAR
    quiet = c.looks and receive < FAR and not claims(c, jobs[r[RETIRE_N]])
    placed_space = r[PLACED_TAIL] - r[PLACED_HEAD] < c.placed_places
    if quiet and receive <= now and placed_space:
        row = _retire(now, c, r, at, jobs, gone_at, places, wake)
        _pend(now, c, r, row, pending, pending_at)
        _outcomes(now, c, r, number_of, outcome_at, outcome_k, pending, pending_at, wake)
        if c.reading and not is_request(c, row):
            placed[r[PLACED_TAIL]], placed_at[r[PLACED_TAIL]] = row, now + c.placed
            r[PLACED_TAIL] += 1
            wake[AT_TRANSMIT] = min(wake[AT_TRANSMIT], now + c.placed)
    if quiet:
        receive = FAR
    # The completion engine advances all stages together; an unaccepted choice stays.
    move = r[CQ2] < 0
    choice = r[CQ_HELD]
    if choice < 0:
        if receive <= now and (r[C3] < 0 or r[CQ_TURN] == 0):
            choice = RECEIVE
        elif r[C3] >= 0:
            choice = 0
    if choice >= 0:
        r[CQ_TURN] = choice
    handed = False
    if move:
        if r[CQ1] >= 0:
            r[CQ2] = r[CQ1]
            r[CQ2_AT] = now + 1 + c.entry
            wake[AT_WRITES] = min(wake[AT_WRITES], max(r[CQ2_AT], r[WRITE_FREE]))
        r[CQ1] = -1
        if choice == RECEIVE:
            row = _retire(now, c, r, at, jobs, gone_at, places, wake)
            r[CQ1] = 2 * row + RECEIVE
            if c.looks:
                _pend(now, c, r, row, pending, pending_at)
        elif choice == 0:
            r[CQ1] = 2 * r[C3]
            r[COUNTED_QUEUE] = r[C3] // c.batch % c.queues
            r[COUNTED_AT] = now
            counted[r[COUNTED_QUEUE]] += 1
            handed = True
        r[CQ_HELD] = -1
    else:
        r[CQ_HELD] = choice
    # Finished sends: stalled items are stored, so acknowledgements are never blocked.
    c1 = r[C1]
    inside = r[STORE_TAIL] - r[STORE_HEAD] + (1 if c1 >= 0 else 0)
    empty = r[STORE_HEAD] == r[STORE_TAIL]
    goes = -1
    if r[C3] < 0 or handed:
        if empty:
            goes = c1
            c1 = -1
        elif r[STORE_AT] <= now:
            goes = store[r[STORE_HEAD]]
            r[STORE_HEAD] += 1
            if r[STORE_HEAD] < r[STORE_TAIL]:
                r[STORE_AT] = max(store_due[r[STORE_HEAD]], now + 1)
        r[C3] = r[C2]
        r[C2] = goes
        if goes >= 0 and c.srd:
            r[CREDITS] += 1
            r[FREED_AT] = now
            wake[AT_SCHEDULER] = NOW
    if c1 >= 0:
        tail = r[STORE_TAIL]
        store[tail] = c1
        store_due[tail] = now + c.stored
        if r[STORE_HEAD] == tail:
            r[STORE_AT] = store_due[tail]
        r[STORE_TAIL] += 1
    r[C1], later = _finished(now, c, r, at, sent, incoming, note_due, inside, wake)
    # Items that move without another engine, and items still to be chosen.
    if r[C1] >= 0 or (r[C2] >= 0 and r[C3] < 0) or (r[CQ1] >= 0 and r[CQ2] < 0):
        return now + 1
    if r[STORE_HEAD] < r[STORE_TAIL] and r[C3] < 0:
        later = min(later, r[STORE_AT])
    if r[CQ_HELD] < 0 and r[C3] >= 0:
        return now + 1
    if (r[CQ_HELD] < 0 or c.looks) and r[RETIRE_N] < r[JOB_N]:
        later = min(later, out_at[r[RETIRE_N]] + c.retire)
    return max(later, now + 1)
