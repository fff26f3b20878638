# SPDX-License-Identifier: Apache-2.0
"""Replays the scheduler: from doorbells and free places after it to the cycle of each WQE.

The inputs are the cycles of the doorbells, of the stalls of the next stage and of freed message
contexts, not the cycles in which WQEs were consumed. The replayed cycle of each WQE is compared
with the recording; the activity in each cycle gives the wait causes of the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from efa_cosim.layouts.defs import TRANSPORT

TAKES, PLACE, CONTEXTS, DEFICITS, HALVES, SWITCHES = range(6)


class Scheduled(NamedTuple):
    """A replay: [(cycle, queue)] of the WQEs, {cycle: activity} without idle cycles, and [(cycle,
    contexts in use or reserved from then on)]."""

    entries: list[tuple[int, int]]
    did: dict[int, int]
    in_use: list[tuple[int, int]]


class _Counted(NamedTuple):
    """A WQE, or a deducted deficit, that is counted against the quantum of a visit."""

    queue: int
    opens: bool
    used: int
    quantum: int


@dataclass
class _Visit:
    """The rest of a visit: its queue, WQEs left, whether the queue has more than the visit
    consumes, whether the second half of a WQE is next."""

    queue: int
    left: int
    more: bool
    second: bool


def schedule(
    bells: Sequence[tuple[int, int]],
    batch: int,
    flits: int,
    lines: int,
    quantum: int,
    most: int,
    contexts: int | None,
    blocked: Callable[[int], bool],
    freed: Iterable[int],
    completed: Iterable[tuple[int, int]],
) -> Scheduled:
    """Returns the WQEs in the order of consumption, and the activity of each cycle.

    bells    (cycle, queue) of each doorbell, in order; each for `batch` messages of `flits` flits
    lines    64-byte lines of a WQE, one a cycle
    quantum  in flits; most: maximum number of WQEs of a visit
    contexts number of message contexts, None if messages need none
    blocked  of a cycle: True if the next stage has no space
    freed    cycles in which a context is freed, in order
    completed (cycle, queue) of each send that is counted as completed, in order
    """
    doorbells, returns, ended = deque(bells), deque(freed), deque(completed)
    total = len(bells) * batch
    queues = 1 + max(queue for _, queue in bells)
    counted = contexts is not None
    pool = most if contexts is None else contexts
    credits = pool
    posted, consumed, counted_as, deficit = ([0] * queues for _ in range(4))
    inside: set[int] = set()
    lacking: set[int] = set()  # Queues whose last visit found no context.
    last = 1 << 30
    # Pipeline stages of efa_sq_sched: the queue looked up; the rest of a visit; the line being read
    # and whether it ends a WQE; the WQE counted one and two cycles ago.
    looked: int | None = None
    fresh = False
    visit: _Visit | None = None
    read, whole, first, its_quantum, deducts = False, True, False, quantum, False
    read_queue: int | None = None
    counts: _Counted | None = None
    noted: int | None = None
    left = quantum
    head: int | None
    entries: list[tuple[int, int]] = []
    did: dict[int, int] = {}
    in_use = [(bells[0][0], 0)]
    cycle = bells[0][0]
    while len(entries) < total:
        if not (inside or looked is not None or visit or read or deducts or counts):
            if not doorbells:
                break
            cycle = max(cycle, doorbells[0][0])
        now = doorbells.popleft()[1] if doorbells and doorbells[0][0] <= cycle else None
        some = bool(inside)
        shows = some or now is not None
        if some:
            head = min((queue for queue in inside if queue > last), default=None)
            head = min(inside) if head is None else head
        else:
            head = now
        ends = False
        if counts:
            queue, opens, used, visit_quantum = counts
            rest = (visit_quantum if opens else left) - used
            ends = rest <= 0 and (shows or (looked is not None and looked != queue))
        kill_read = ends and read and read_queue == queue
        kill_visit = bool(ends and visit and visit.queue == queue)
        moves = not blocked(cycle)
        go = moves and not (kill_read or kill_visit)
        late = looked is not None and (
            (visit and visit.queue == looked) or ((read or deducts) and read_queue == looked)
            or (counts and counts.queue == looked) or noted == looked)
        visited = looked if fresh and not visit and not late and go else None
        waiting = 0 if visited is None else posted[visited] - consumed[visited]
        deficit_there = 0 if visited is None else deficit[visited]
        limit, stalls = most, False
        if counted and visited is not None:
            open_sends = consumed[visited] - counted_as[visited]
            shared = credits - TRANSPORT.guaranteed_sends
            room = shared - (open_sends >> TRANSPORT.send_share_w)
            limit = min(most, max(1, room // 2))
            stalls = waiting > 0 and room <= 0 and (open_sends > 0 or credits == 0)
            (lacking.add if stalls else lacking.discard)(visited)
        owes = waiting > 0 and not stalls and shows and deficit_there >= quantum
        consumes = waiting > 0 and not stalls and not owes
        several = min(waiting, limit)
        issued = visit if go else None
        ends_entry = issued is not None and (issued.second or lines == 1)
        ends_visit = issued is not None and ends_entry and issued.left == 1
        commit = read and whole and moves and not kill_read
        did[cycle] = (TAKES if commit else PLACE if not moves
                      else DEFICITS if deducts else HALVES if read and not kill_read
                      else CONTEXTS if lacking else SWITCHES)
        if commit:
            assert read_queue is not None
            entries.append((cycle, read_queue))
        # State of the next cycle.
        back = None
        if kill_read or kill_visit:
            back = queue
        elif issued is not None and ends_visit and issued.more:
            back = issued.queue
        elif visited is not None and (stalls or owes or (
                consumes and waiting > limit and several == 1 and lines == 1)):
            back = visited
        while ended and ended[0][0] <= cycle:
            counted_as[ended.popleft()[1]] += 1
        were = credits
        while returns and returns[0] <= cycle:
            # A context freed in a skipped idle interval counts from its own cycle on.
            back_at = returns.popleft()
            credits += counted
            if back_at < cycle and counted:
                in_use.append((back_at + 1, pool - credits))
                were = credits
        if counted:
            credits += visit.left if visit and kill_visit else 0
            credits += 1 if kill_read and whole else 0
            credits -= several if consumes else 0
            if credits != were:
                in_use.append((cycle + 1, pool - credits))
        counted_now = None
        if commit:
            assert read_queue is not None
            consumed[read_queue] += 1
            counted_now = _Counted(read_queue, first, flits, its_quantum)
        elif deducts and moves:
            assert read_queue is not None
            counted_now = _Counted(read_queue, first, 0, its_quantum)
        noted = None
        if counts:
            noted = queue
            deficit[queue] = max(0, -rest)
            left = quantum if rest <= 0 else rest
        if moves:
            first = visited is not None or (first and not (read and whole))
            if visited is not None:
                its_quantum = quantum - (deficit[visited] if shows else 0)
            if visit:
                read_queue = visit.queue
            elif looked is not None:
                read_queue = looked
            read, deducts = bool(consumes or issued), owes
            whole = lines == 1 or bool(issued and issued.second)
        elif kill_read:
            read = False
        if visited is not None:
            wide = lines > 1
            visit = None
            if consumes and (wide or several > 1):
                visit = _Visit(visited, several if wide else several - 1, waiting > limit, wide)
        elif kill_visit or ends_visit:
            visit = None
        elif issued is not None:
            issued.left -= ends_entry
            issued.second = lines > 1 and not issued.second
        counts = counted_now
        accepts = looked is None or visited is not None
        fresh = not accepts or shows
        if accepts:
            looked = head if shows else None
            if looked is not None:
                inside.discard(looked)
                last = looked
        if back is not None:
            inside.add(back)
        if now is not None:
            posted[now] += batch
            if some or not accepts:
                inside.add(now)
        cycle += 1
    for back_at in returns:
        credits += counted
        in_use.append((back_at + 1, pool - credits if counted else 0))
    return Scheduled(entries, did, in_use)
