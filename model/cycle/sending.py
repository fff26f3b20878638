"""The sending engines, a cycle at a time: host, scheduler, checks, reads, packets.

Each function does what its engine does in cycle `now` and returns the next cycle in which it
could do more by itself; what another engine must do first brings it back anyway.
"""

from cycle import engine
from cycle.state import (
    ACKOUT,
    BELL,
    CHECK,
    DB,
    FAR,
    RD,
    RDC,
    READY,
    SEEN,
    TXF,
    TXL,
    WQE,
    R,
)

HOST_POST, HOST_FREE = R["host_post"], R["host_free"]
RING_POST, COUNT_POST = R["ring_post"], R["count_post"]
LAST, IN_SET, CREDITS = R["last"], R["in_set"], R["credits"]
VISIT, VISIT_LEFT, VISIT_FLITS = R["visit"], R["visit_left"], R["visit_flits"]
SQ_PT, ISSUED, ITEM_N = R["sq_pt"], R["issued"], R["item_n"]
CHECK_PT, INTO_CHECK_N, CHECK_N = R["check_pt"], R["into_check_n"], R["check_n"]
SQ_STUCK, CHECK_STUCK = R["sq_stuck"], R["check_stuck"]
ROOM_N, ROOM_FREE, LINES, SLOTS, FREED_N = (
    R["room_n"], R["room_free"], R["lines"], R["slots"], R["freed_n"])  # fmt: skip
READ_N, READ_PIECE, READ_FREE, READ_BUS = (
    R["read_n"], R["read_piece"], R["read_free"], R["read_bus"])  # fmt: skip
READS, READ_TURN, ASK_HEAD, ASK_TAIL = R["reads"], R["read_turn"], R["ask_head"], R["ask_tail"]
SEND_N, NET_FREE, NET_TURN = R["send_n"], R["net_free"], R["net_turn"]
ACK_HEAD, ACK_TAIL, LINK_TAIL = R["ack_head"], R["ack_tail"], R["link_tail"]
ACTED = R["acted"]


@engine
def host(now, c, r, at, beats, post_at):
    """Stores of each doorbell in turn, as soon as the host sees room or its time has come."""
    while r[HOST_POST] < c.posts:
        post = r[HOST_POST]
        queue, turn = post % c.queues, post // c.queues
        start = r[HOST_FREE]
        must = (turn + 1) * c.batch - c.depth
        if must > 0:
            before = must - 1
            message = (before // c.batch * c.queues + queue) * c.batch + before % c.batch
            if at[SEEN, message] == FAR:
                return FAR
            start = max(start, at[SEEN, message])
        if c.gap > 0:
            start = max(start, post * c.gap)
        if start > now:
            return start
        bell = start + beats[post % len(beats)]
        r[HOST_FREE] = bell + 1
        post_at[post] = bell + c.ring
        for message in range(post * c.batch, (post + 1) * c.batch):
            at[BELL, message] = bell
            at[DB, message] = bell + c.ring
        r[HOST_POST] += 1
        r[ACTED] = 1
    return FAR


@engine
def _next_queue(r, c, now, in_set, shows, rests):
    """The first queue behind the one taken last, in a circle, that shows; or -1 and the first
    cycle in which one will."""
    later = FAR
    for step in range(1, c.queues + 1):
        queue = (r[LAST] + step) % c.queues
        if in_set[queue] == 1:
            due = max(shows[queue], rests[queue])
            if due <= now:
                return queue, now
            later = min(later, due)
    return -1, later


@engine
def _rung(now, c, r, post_at, shows, in_set, rung):
    """Doorbells that take effect by now: their queues get work; when the next one will."""
    later = FAR
    while r[RING_POST] < r[HOST_POST]:
        due = post_at[r[RING_POST]]
        if due > now:
            later = due
            break
        queue = r[RING_POST] % c.queues
        if in_set[queue] == 0:
            in_set[queue] = 1
            shows[queue] = due if r[IN_SET] == 0 and r[VISIT] < 0 else due + c.turn
            r[IN_SET] += 1
        r[RING_POST] += 1
    while r[COUNT_POST] < r[RING_POST] and post_at[r[COUNT_POST]] + c.count <= now:
        rung[r[COUNT_POST] % c.queues] += c.batch
        r[COUNT_POST] += 1
    return later


@engine
def scheduler(now, c, r, post_at, shows, in_set, rung, taken, debt, rests, sent, item_due):
    """Takes an entry a cycle; a turn lets a queue send `quantum` flits, less what it owes."""
    later = _rung(now, c, r, post_at, shows, in_set, rung)
    if r[SQ_STUCK] == 1:
        return later
    if r[VISIT] < 0:
        if r[IN_SET] == 0:
            return later
        queue, shown = _next_queue(r, c, now, in_set, shows, rests)
        if queue < 0:
            return min(later, shown)
        r[VISIT] = queue
        r[LAST] = queue
        in_set[queue] = 0
        r[IN_SET] -= 1
        # What is rung later in the turn has put the queue into the set again.
        r[VISIT_LEFT] = rung[queue] - taken[queue]
        r[VISIT_FLITS] = c.quantum if r[IN_SET] == 0 else c.quantum - debt[queue]
        r[ACTED] = 1
    queue = r[VISIT]
    if r[VISIT_LEFT] > 0 and r[VISIT_FLITS] > 0:
        if r[CREDITS] == 0:
            return later
        place = taken[queue]
        message = (place // c.batch * c.queues + queue) * c.batch + place % c.batch
        sent[r[ISSUED]] = message
        item_due[r[ISSUED]] = r[SQ_PT] + c.take
        r[ISSUED] += 1
        taken[queue] += 1
        r[CREDITS] -= 1
        r[VISIT_LEFT] -= 1
        r[VISIT_FLITS] -= c.flits
        rests[queue] = now + c.again
    if r[VISIT_FLITS] <= 0 and r[VISIT_LEFT] > 0 and r[IN_SET] == in_set[queue]:
        # Alone, it owes nothing and goes on.
        r[VISIT_FLITS] = c.quantum
    if r[VISIT_LEFT] == 0 or r[VISIT_FLITS] <= 0:
        r[VISIT] = -1
        debt[queue] = max(0, -r[VISIT_FLITS])
        if r[VISIT_LEFT] > 0 and in_set[queue] == 0:
            in_set[queue] = 1
            shows[queue] = now + c.turn
            r[IN_SET] += 1
    r[ACTED] = 1
    return now + 1


@engine
def checks(now, c, r, at, sent, item_due, skid_in, check_due):
    """Entries through the skid and the checks into the room's one place."""
    later = FAR
    # The room: an entry leaves for the list of messages when all of it has room.
    k = r[ROOM_N]
    if k < r[CHECK_N]:
        due = max(at[CHECK, sent[k]] + 1, r[ROOM_FREE])
        if due > now:
            later = due
        elif (
            r[LINES] + c.flits <= c.room_lines
            and r[SLOTS] < c.room_messages
            and (c.inline or k - r[READ_N] < c.ranges)
        ):
            message = sent[k]
            r[LINES] += c.flits
            r[SLOTS] += 1
            r[ROOM_FREE] = now + c.room_next
            if c.inline:
                at[READY, message] = now + c.message - 1
            else:
                at[RD, message] = now + c.first_read - 1
            r[ROOM_N] += 1
            r[ACTED] = 1
    # The checks give their oldest entry away when the room's place is empty.
    k = r[CHECK_N]
    r[CHECK_STUCK] = 0
    if k < r[INTO_CHECK_N]:
        wait = check_due[k] - r[CHECK_PT]
        if wait > 0:
            later = min(later, now + wait)
        elif r[ROOM_N] == k:
            at[CHECK, sent[k]] = now
            r[CHECK_N] += 1
            r[ACTED] = 1
        else:
            r[CHECK_STUCK] = 1
    held = r[ITEM_N] - r[INTO_CHECK_N]
    if held > 0 and r[CHECK_STUCK] == 0:
        k = r[INTO_CHECK_N]
        if skid_in[k] + c.skid <= now:
            check_due[k] = r[CHECK_PT] + c.check
            r[INTO_CHECK_N] += 1
            r[ACTED] = 1
        else:
            later = min(later, skid_in[k] + c.skid)
    # The scheduler's oldest entry goes on when the skid had a place at the start of this cycle.
    k = r[ITEM_N]
    r[SQ_STUCK] = 0
    if k < r[ISSUED]:
        wait = item_due[k] - r[SQ_PT]
        if wait > 0:
            later = min(later, now + wait)
        elif held < c.skid_depth:
            at[WQE, sent[k]] = now
            skid_in[k] = now
            r[ITEM_N] += 1
            r[ACTED] = 1
        else:
            r[SQ_STUCK] = 1
    return later


@engine
def reads(now, c, r, at, read_beats, sent, tag_free, here, ask_ring, ask_block, ask_at,
          read_log):
    """One host read a cycle, payload and descriptors in turn; the host answers in their order."""
    payload = FAR
    if not c.inline and r[READ_N] < r[ROOM_N]:
        payload = max(at[RD, sent[r[READ_N]]], r[READ_FREE])
    ring = ask_at[r[ASK_HEAD]] if r[ASK_HEAD] < r[ASK_TAIL] else FAR
    tag = tag_free[r[READS] % c.tags]
    payload, ring = max(payload, tag), max(ring, tag)
    if payload > now and ring > now:
        return min(payload, ring)
    descriptors = ring <= now and (payload > now or r[READ_TURN] == 0)
    r[READ_TURN] = 1 if descriptors else 0
    asked = now + c.request
    beats = c.descriptor_beats if descriptors else read_beats[r[READ_PIECE]]
    first = max(asked + c.read_latency + c.bus, r[READ_BUS])
    r[READ_BUS] = first + beats
    end = first + beats - 1 + c.beat_back
    tag_free[r[READS] % c.tags] = end
    log = read_log[r[READS]]
    log[0], log[1], log[2] = asked, end, beats
    log[3] = -1 - ask_ring[r[ASK_HEAD]] if descriptors else sent[r[READ_N]]
    r[READS] += 1
    r[ACTED] = 1
    if descriptors:
        ring = ask_ring[r[ASK_HEAD]]
        block = ask_block[r[ASK_HEAD]]
        here[ring, block] = end + c.cached
        r[ASK_HEAD] += 1
    else:
        message = sent[r[READ_N]]
        r[READ_FREE] = now + 1
        r[READ_PIECE] += 1
        if r[READ_PIECE] == len(read_beats):
            at[RD, message] = asked
            at[RDC, message] = end
            at[READY, message] = end + c.answer
            r[READ_PIECE] = 0
            r[READ_N] += 1
    return now + 1


@engine
def network(now, c, r, at, sent, ack_msg, ack_at, link_msg, link_ack, link_due):
    """Packets out, one flit a cycle; data and acknowledgements take turns."""
    while r[FREED_N] < r[SEND_N] and at[TXL, sent[r[FREED_N]]] <= now:
        r[LINES] -= c.flits
        r[SLOTS] -= 1
        r[FREED_N] += 1
        r[ACTED] = 1
    later = at[TXL, sent[r[FREED_N]]] if r[FREED_N] < r[SEND_N] else FAR
    data = FAR
    if r[SEND_N] < r[ROOM_N]:
        data = at[READY, sent[r[SEND_N]]]
    ack = ack_at[r[ACK_HEAD]] if r[ACK_HEAD] < r[ACK_TAIL] else FAR
    data, ack = max(data, r[NET_FREE]), max(ack, r[NET_FREE])
    if data > now and ack > now:
        return min(later, min(data, ack))
    is_ack = ack <= now and (data > now or r[NET_TURN] == 0)
    r[NET_TURN] = 1 if is_ack else 0
    tail = r[LINK_TAIL]
    if is_ack:
        message, flits = ack_msg[r[ACK_HEAD]], 1
        at[ACKOUT, message] = now + c.out
        r[ACK_HEAD] += 1
    else:
        message, flits = sent[r[SEND_N]], c.flits
        at[TXF, message] = now + c.out
        at[TXL, message] = now + c.out + flits - 1
        r[SEND_N] += 1
        later = min(later, at[TXL, message])
    link_msg[tail] = message
    link_ack[tail] = 1 if is_ack else 0
    link_due[tail] = now + c.out + flits - 1 + c.net_latency + c.bus
    r[LINK_TAIL] += 1
    r[NET_FREE] = now + flits
    r[ACTED] = 1
    return min(later, now + flits)
