"""Send entries in host memory: read as they are rung, known to the scheduler as they come."""

from cycle import engine
from cycle.state import FAR, READS, SCHEDULER, R

HOST_POST, WANT_POST, NEWS_N = R["host_post"], R["want_post"], R["news_n"]
ENTRY_QUEUE, ENTRY_AT, ENTRY_LAST = R["entry_queue"], R["entry_at"], R["entry_last"]
ENTRY_LINES, STIR = R["entry_lines"], R["stir"]


@engine
def entries(now, c, r, post_at, want, read_slot, want_free):
    """A read for a queue with lines rung and not read, the queues in turn, a read a cycle."""
    if not c.sq_host:
        return FAR
    while r[WANT_POST] < r[HOST_POST] and post_at[r[WANT_POST]] + c.ask <= now:
        want[r[WANT_POST] % c.queues] += c.batch * c.lines
        r[WANT_POST] += 1
    later = post_at[r[WANT_POST]] + c.ask if r[WANT_POST] < r[HOST_POST] else FAR
    if r[ENTRY_QUEUE] >= 0:
        return later
    queue = r[ENTRY_LAST]
    for _ in range(c.queues):
        queue = queue + 1 if queue + 1 < c.queues else 0
        if want[queue] == 0:
            continue
        if want_free[queue] > now:
            later = min(later, want_free[queue])
            continue
        at = read_slot[queue]
        lines = min(want[queue], min(c.read_lines - at % c.read_lines, c.ring_lines - at))
        want[queue] -= lines
        read_slot[queue] = at + lines if at + lines < c.ring_lines else 0
        want_free[queue] = now + c.ask_again
        r[ENTRY_LAST] = r[ENTRY_QUEUE] = queue
        r[ENTRY_LINES], r[ENTRY_AT] = lines, now + 1
        r[STIR] |= READS
        return later
    return later


@engine
def come(c, r, first, news_at, news_queue, news_count):
    """The read that is asked for has its first beat in cycle `first`: an entry comes when its
    last line does."""
    for line in range(c.lines - 1, r[ENTRY_LINES], c.lines):
        n = r[NEWS_N]
        news_at[n] = first + line + c.beat_back + c.publish
        news_queue[n], news_count[n] = r[ENTRY_QUEUE], 1
        r[NEWS_N] += 1
    r[ENTRY_QUEUE] = -1
    r[STIR] |= SCHEDULER
