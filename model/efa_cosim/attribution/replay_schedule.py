# SPDX-License-Identifier: Apache-2.0
"""Replays the scheduler: from doorbells and free places after it to the cycle of each WQE.

The inputs are the cycles of the doorbells, of the stalls of the next stage and of freed message
contexts, not the cycles in which WQEs were consumed. The replayed cycle of each WQE is compared
with the recording; the activity in each cycle gives the wait causes of the others.
"""

from collections import deque

TAKES, PLACE, CONTEXTS, DEFICITS, HALVES, SWITCHES = range(6)


def schedule(bells, batch, flits, lines, quantum, most, contexts, blocked, freed):
    """Returns the WQEs in the order of consumption, and the activity of each cycle.

    bells    (cycle, queue) of each doorbell, in order; each for `batch` messages of `flits` flits
    lines    64-byte lines of a WQE, one a cycle
    quantum  in flits; most: maximum number of WQEs of a visit
    contexts number of message contexts, None if messages need none
    blocked  of a cycle: True if the next stage has no space
    freed    cycles in which a context is freed, in order
    Returns [(cycle, queue)], {cycle: activity} without idle cycles, and [(cycle, contexts in use or
    reserved from then on)].
    """
    bells, freed = deque(bells), deque(freed)
    total = len(bells) * batch
    queues = 1 + max(queue for _, queue in bells)
    counted = contexts is not None
    credits = contexts if counted else most
    posted, consumed, deficit = ([0] * queues for _ in range(3))
    inside, last = set(), (1 << 30)
    # Pipeline stages of efa_sq_sched: the queue looked up; the rest of a visit as [queue, WQEs
    # left, more than the visit consumes, second half next]; the line being read and whether it ends
    # a WQE; the WQE counted one and two cycles ago.
    looked, fresh = None, False
    visit = None
    read, whole, read_queue, first, its_quantum, deducts = False, True, None, False, quantum, False
    counts = noted = None
    left = quantum
    entries, did, in_use = [], {}, [(bells[0][0], 0)]
    cycle = bells[0][0]
    while len(entries) < total:
        if not (inside or looked is not None or visit or read or deducts or counts):
            if not bells:
                break
            cycle = max(cycle, bells[0][0])
        now = bells.popleft()[1] if bells and bells[0][0] <= cycle else None
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
        kill_visit = bool(ends and visit and visit[0] == queue)
        moves = not blocked(cycle)
        go = moves and not (kill_read or kill_visit)
        late = looked is not None and (
            (visit and visit[0] == looked) or ((read or deducts) and read_queue == looked)
            or (counts and counts[0] == looked) or noted == looked)
        looks = looked is not None and fresh and not visit and not late and go
        waiting = posted[looked] - consumed[looked] if looks else 0
        stalls = waiting > 0 and counted and credits == 0
        owes = waiting > 0 and not stalls and shows and deficit[looked] >= quantum
        consumes = waiting > 0 and not stalls and not owes
        limit = min(most, credits) if counted else most
        several = min(waiting, limit)
        issues = visit is not None and go
        ends_entry = issues and (visit[3] or lines == 1)
        commit = read and whole and moves and not kill_read
        did[cycle] = (TAKES if commit else PLACE if not moves
                      else DEFICITS if deducts else HALVES if read and not kill_read
                      else CONTEXTS if counted and credits == 0 else SWITCHES)
        if commit:
            entries.append((cycle, read_queue))
        # State of the next cycle.
        back = None
        if kill_read or kill_visit:
            back = queue
        elif ends_entry and visit[1] == 1 and visit[2]:
            back = visit[0]
        elif looks and (stalls or owes or (
                consumes and waiting > limit and several == 1 and lines == 1)):
            back = looked
        were = credits
        while freed and freed[0] <= cycle:
            # A context freed in a skipped idle interval counts from its own cycle on.
            back_at = freed.popleft()
            credits += counted
            if back_at < cycle and counted:
                in_use.append((back_at + 1, contexts - credits))
                were = credits
        if counted:
            credits += (visit[1] if kill_visit else 0) + (1 if kill_read and whole else 0)
            credits -= several if consumes else 0
            if credits != were:
                in_use.append((cycle + 1, contexts - credits))
        counted_now = None
        if commit:
            consumed[read_queue] += 1
            counted_now = (read_queue, first, flits, its_quantum)
        elif deducts and moves:
            counted_now = (read_queue, first, 0, its_quantum)
        noted = None
        if counts:
            noted = queue
            deficit[queue] = max(0, -rest)
            left = quantum if rest <= 0 else rest
        if moves:
            first = looks or (first and not (read and whole))
            if looks:
                its_quantum = quantum - (deficit[looked] if shows else 0)
            if visit:
                read_queue = visit[0]
            elif looked is not None:
                read_queue = looked
            read, deducts = bool(consumes or issues), owes
            whole = lines == 1 or bool(issues and visit[3])
        elif kill_read:
            read = False
        if looks:
            wide = lines > 1
            visit = None
            if consumes and (wide or several > 1):
                visit = [looked, several if wide else several - 1, waiting > limit, wide]
        elif kill_visit or (ends_entry and visit[1] == 1):
            visit = None
        elif issues:
            visit[1] -= ends_entry
            visit[3] = lines > 1 and not visit[3]
        counts = counted_now
        accepts = looked is None or looks
        fresh = not accepts or shows
        if accepts:
            looked = head if shows else None
            if shows:
                inside.discard(head)
                last = head
        if back is not None:
            inside.add(back)
        if now is not None:
            posted[now] += batch
            if some or not accepts:
                inside.add(now)
        cycle += 1
    for back_at in freed:
        credits += counted
        in_use.append((back_at + 1, contexts - credits if counted else 0))
    return entries, did, in_use
