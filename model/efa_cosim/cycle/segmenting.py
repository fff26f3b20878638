# SPDX-License-Identifier: Apache-2.0
"""Executes efa_tx_segment and efa_read_responder: the packets of an operation, posted one after the
other, their outcomes, and the responses to reads (see sending.py). A message of one packet that is
no read only passes them.

An event takes two cycles, its choice and its effect. No new message is posted in the cycle of the
effect. Contexts: those of messages, and behind them those of the responses to their reads.
"""

from __future__ import annotations

from efa_cosim.cycle import engine
from efa_cosim.cycle.costs import Costs
from efa_cosim.cycle.parts import is_request
from efa_cosim.cycle.state import AT_COMPLETIONS, FAR, NOW, R
from efa_cosim.cycle.timelines import Ints

ACT_KIND, ACT_ROW = R["act_kind"], R["act_row"]
NOTE_ROW, NOTE_AT, NOTE_NEXT = R["note_row"], R["note_at"], R["note_next"]
POP_HEAD, POP_TAIL, ENDED_N = R["pop_head"], R["pop_tail"], R["ended_n"]
PLACED_HEAD, PLACED_TAIL = R["placed_head"], R["placed_tail"]
ROUTED_N = R["routed_n"]
REQUEST_ROW, REQUEST_AT = R["request_row"], R["request_at"]
RESPONSE_ROW, RESPONSE_AT, RESPONDING = R["response_row"], R["response_at"], R["responding"]
OVERFLOWS, VISIT, LIVE_N = R["overflows"], R["visit"], R["live_n"]
RESTS, POPPED, NOTED, PLACED, VISITED = range(5)  # Kinds of events.
RELEASED = 3  # Cycles from the choice of the last event of a message to the end of its context.
NONE = -1


@engine
def context_of(c: Costs, row: int) -> int:
    """Returns the context of a packet."""
    message: int = row // c.packets
    return message + c.total if c.reading and not is_request(c, row) else message


@engine
def first_of(c: Costs, context: int) -> int:
    """Returns the column of the first packet of a context."""
    first: int = (context - c.total) * c.packets + 1 if context >= c.total else context * c.packets
    return first


@engine
def packets_of(c: Costs, context: int) -> int:
    """Returns the packets of a context."""
    if not c.reading:
        return c.packets
    return c.packets - 1 if context >= c.total else 1


@engine
def is_long(c: Costs, row: int) -> bool:
    """Returns True if the segmenter acts on the events of a packet."""
    long: bool = packets_of(c, context_of(c, row)) > 1 or is_request(c, row)
    return long


@engine
def begins_context(c: Costs, r: Ints, row: int, seg_next: Ints, seg_open: Ints, seg_posted: Ints,
                   seg_left: Ints, live_until: Ints) -> None:  # fmt: skip
    """Notes that the first packet of a context is posted."""
    context = context_of(c, row)
    seg_next[context] = seg_open[context] = seg_posted[context] = 1
    seg_left[context] = c.packets - 1 if is_request(c, row) else 0
    if context < c.total:
        live_until[context] = FAR
        r[LIVE_N] += 1


@engine
def leaves(now: int, c: Costs, r: Ints, row: int, pop_row: Ints, pop_due: Ints) -> None:
    """Notes that a packet was sent: it has left the posted ones."""
    if is_long(c, row):
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
def notes(r: Ints, row: int, at: int) -> None:
    """Stores an outcome for the segmenter, behind the one that waits for it: two may wait."""
    if r[NOTE_ROW] < 0:
        r[NOTE_ROW], r[NOTE_AT] = row, at
    else:
        r[NOTE_NEXT] = row


@engine
def _noted(now: int, r: Ints) -> None:
    """Takes the outcome that waits; the next one follows in the next cycle."""
    r[NOTE_ROW], r[NOTE_AT], r[NOTE_NEXT] = r[NOTE_NEXT], now + 1, NONE


@engine
def responds(now: int, c: Costs, r: Ints) -> None:
    """Moves an accepted read request to the post of its responses, if none waits."""
    if r[REQUEST_ROW] >= 0 and r[REQUEST_AT] <= now and r[RESPONSE_ROW] < 0:
        r[RESPONSE_ROW], r[RESPONSE_AT] = r[REQUEST_ROW] + 1, now + c.responder
        r[REQUEST_ROW] = NONE
        r[RESPONDING] += 1
        if r[RESPONDING] >= c.responses:
            r[OVERFLOWS] += 1


@engine
def _choose(now: int, c: Costs, r: Ints, pop_row: Ints, pop_due: Ints, placed: Ints,
            placed_at: Ints) -> None:  # fmt: skip
    """Chooses the next event."""
    head, note = r[POP_HEAD], r[NOTE_ROW]
    noted = note >= 0 and r[NOTE_AT] <= now
    if noted and not is_long(c, note):
        _noted(now, r)
        noted = False
    if head < r[POP_TAIL] and pop_due[head] <= now:
        r[ACT_KIND], r[ACT_ROW] = POPPED, pop_row[head]
        r[POP_HEAD] += 1
    elif noted:
        r[ACT_KIND], r[ACT_ROW] = NOTED, note
    elif r[PLACED_HEAD] < r[PLACED_TAIL] and placed_at[r[PLACED_HEAD]] <= now:
        r[ACT_KIND] = PLACED
        # The event is one of the read, which has the context of its request.
        r[ACT_ROW] = placed[r[PLACED_HEAD]] // c.packets * c.packets
    elif r[VISIT] == 1:
        r[ACT_KIND], r[VISIT] = VISITED, 0


@engine
def _visit(now: int, c: Costs, r: Ints, items: Ints, live_until: Ints) -> None:
    """Begins a visit of the next context, one a period, if it is that of an open message."""
    if not c.visits or (now + c.visit_from) % c.visit_every > 0:
        return
    period = (now + c.visit_from) // c.visit_every - 1
    number = (period - c.context) % c.message_contexts
    while number < r[ROUTED_N]:
        if live_until[items[number]] > now:
            r[VISIT] = 1
        number += c.message_contexts


@engine
def segment(
    now: int, c: Costs, r: Ints, items: Ints, seg_next: Ints, seg_open: Ints, seg_posted: Ints,
    seg_left: Ints, live_until: Ints, pop_row: Ints, pop_due: Ints, placed: Ints, placed_at: Ints,
    incoming: Ints, note_due: Ints, wake: Ints
) -> int:
    """Executes a cycle; returns the column of the packet that is posted, or -1."""
    kind = r[ACT_KIND]
    r[ACT_KIND] = RESTS
    if kind == RESTS:
        _choose(now, c, r, pop_row, pop_due, placed, placed_at)
        kind = r[ACT_KIND]
        _visit(now, c, r, items, live_until)
        if kind != RESTS and kind != VISITED:
            # The last event of a message is known to be it.
            context = context_of(c, r[ACT_ROW])
            over = (seg_next[context] == packets_of(c, context)
                    and seg_open[context] == (1 if kind == NOTED else 0)
                    and seg_left[context] == (1 if kind == PLACED else 0)
                    and (seg_posted[context] == 0 or kind == POPPED))
            if over and context < c.total:
                ends(r, context, incoming, note_due, now + 1 + c.noted + c.tracked, wake)
                live_until[context] = now + RELEASED
                r[LIVE_N] -= 1
            elif over:
                r[RESPONDING] -= 1
        return NONE
    _visit(now, c, r, items, live_until)
    if kind == VISITED:
        return NONE
    context = context_of(c, r[ACT_ROW])
    if kind == POPPED:
        seg_posted[context] = 0
    elif kind == PLACED:
        seg_left[context] -= 1
        r[PLACED_HEAD] += 1
        wake[AT_COMPLETIONS] = NOW
    else:
        seg_open[context] -= 1
        _noted(now, r)
    if seg_posted[context] == 1:
        return NONE
    part, packets = seg_next[context], packets_of(c, context)
    # The packet with the immediate waits for the outcomes of all others.
    held = c.waits and part == packets - 1 and seg_open[context] > 0
    if part < packets and seg_open[context] < c.write_packets and not held:
        seg_next[context] += 1
        seg_open[context] += 1
        seg_posted[context] = 1
        posts: int = first_of(c, context) + part
        return posts
    return NONE


@engine
def next_event(now: int, c: Costs, r: Ints, pop_due: Ints, placed_at: Ints) -> int:
    """Returns the next cycle after this one in which an event may begin or have its effect."""
    if r[ACT_KIND] != RESTS or r[NOTE_ROW] >= 0 or r[VISIT] == 1:
        return now + 1
    due = FAR
    if c.visits and r[LIVE_N] > 0:
        due = now + 1 + (-now - 1 - c.visit_from) % c.visit_every
    if r[POP_HEAD] < r[POP_TAIL]:
        due = min(due, pop_due[r[POP_HEAD]])
    if r[PLACED_HEAD] < r[PLACED_TAIL]:
        due = min(due, placed_at[r[PLACED_HEAD]])
    if r[REQUEST_ROW] >= 0:
        due = min(due, r[REQUEST_AT])
    if r[RESPONSE_ROW] >= 0:
        due = min(due, r[RESPONSE_AT])
    return max(now + 1, due)
