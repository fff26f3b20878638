# SPDX-License-Identifier: Apache-2.0
"""Executes efa_tx_segment: the packets of an operation, posted one after the other, and their
outcomes (see sending.py). A message of one packet only passes it.

An event takes two cycles, its choice and its effect. No new message is posted in the cycle of the
effect.
"""

from __future__ import annotations

from efa_cosim.cycle import engine
from efa_cosim.cycle.costs import Costs
from efa_cosim.cycle.state import AT_COMPLETIONS, FAR, R
from efa_cosim.cycle.timelines import Ints

ACT_KIND, ACT_ROW = R["act_kind"], R["act_row"]
NOTE_ROW, NOTE_AT = R["note_row"], R["note_at"]
POP_HEAD, POP_TAIL, ENDED_N = R["pop_head"], R["pop_tail"], R["ended_n"]
RESTS, POPPED, NOTED = 0, 1, 2  # Kinds of events.
NONE = -1


@engine
def begins_message(message: int, seg_next: Ints, seg_open: Ints, seg_posted: Ints) -> None:
    """Notes that the first packet of a message is posted."""
    seg_next[message] = seg_open[message] = seg_posted[message] = 1


@engine
def leaves(now: int, c: Costs, r: Ints, row: int, pop_row: Ints, pop_due: Ints) -> None:
    """Notes that a packet was sent: it has left the posted ones."""
    tail = r[POP_TAIL]
    pop_row[tail], pop_due[tail] = row, now + c.popped
    r[POP_TAIL] += 1


@engine
def ends(r: Ints, message: int, incoming: Ints, note_due: Ints, due: int, wake: Ints) -> None:
    """Reports the outcome of a message, which reaches efa_send_tracker in cycle `due`."""
    incoming[r[ENDED_N]], note_due[r[ENDED_N]] = message, due
    r[ENDED_N] += 1
    wake[AT_COMPLETIONS] = min(wake[AT_COMPLETIONS], due)


@engine
def note_free(r: Ints) -> bool:
    """Returns True if the segmenter takes an outcome in this cycle, or none waits for it."""
    free: bool = r[NOTE_ROW] < 0 or r[ACT_KIND] == NOTED
    return free


@engine
def segment(
    now: int, c: Costs, r: Ints, seg_next: Ints, seg_open: Ints, seg_posted: Ints, pop_row: Ints,
    pop_due: Ints, incoming: Ints, note_due: Ints, wake: Ints
) -> int:
    """Executes a cycle; returns the column of the packet that is posted, or -1."""
    kind = r[ACT_KIND]
    r[ACT_KIND] = RESTS
    if kind == RESTS:
        if r[POP_HEAD] < r[POP_TAIL] and pop_due[r[POP_HEAD]] <= now:
            r[ACT_KIND], r[ACT_ROW] = POPPED, pop_row[r[POP_HEAD]]
            r[POP_HEAD] += 1
        elif r[NOTE_ROW] >= 0 and r[NOTE_AT] <= now:
            r[ACT_KIND], r[ACT_ROW] = NOTED, r[NOTE_ROW]
        if r[ACT_KIND] != RESTS:
            # The last event of a message is known to be it.
            message = r[ACT_ROW] // c.packets
            open_after = seg_open[message] - (1 if r[ACT_KIND] == NOTED else 0)
            posted = seg_posted[message] == 1 and r[ACT_KIND] == NOTED
            if seg_next[message] == c.packets and open_after == 0 and not posted:
                ends(r, message, incoming, note_due, now + 1 + c.noted + c.tracked, wake)
        return NONE
    message = r[ACT_ROW] // c.packets
    if kind == POPPED:
        seg_posted[message] = 0
    else:
        seg_open[message] -= 1
        # The next outcome may have come in this cycle.
        if r[NOTE_ROW] == r[ACT_ROW]:
            r[NOTE_ROW] = NONE
    if seg_posted[message] == 1:
        return NONE
    part = seg_next[message]
    # The packet with the immediate waits for the outcomes of all others.
    held = c.waits and part == c.packets - 1 and seg_open[message] > 0
    if part < c.packets and seg_open[message] < c.write_packets and not held:
        seg_next[message] += 1
        seg_open[message] += 1
        seg_posted[message] = 1
        posts: int = message * c.packets + part
        return posts
    return NONE


@engine
def next_event(now: int, r: Ints, pop_due: Ints) -> int:
    """Returns the next cycle after this one in which an event may begin or have its effect."""
    if r[ACT_KIND] != RESTS or r[NOTE_ROW] >= 0:
        return now + 1
    if r[POP_HEAD] < r[POP_TAIL]:
        due: int = max(now + 1, pop_due[r[POP_HEAD]])
        return due
    return FAR
