"""The sending engines, a cycle at a time: host, scheduler, checks, reads, packets.

Each function does what its engine does in cycle `now` and returns the next cycle in which it
could do more by itself; what another engine must do first brings it back anyway.
"""

from cycle import engine
from cycle.fetching import come
from cycle.state import (
    ACKOUT,
    BELL,
    CHECK,
    CHECKS,
    COMPLETIONS,
    DB,
    ENTRIES,
    FAR,
    FETCH,
    LINK,
    NETWORK,
    RD,
    RDC,
    READS,
    READY,
    SCHEDULER,
    SEEN,
    TXF,
    TXL,
    WQE,
    R,
)

HOST_POST, HOST_FREE = R["host_post"], R["host_free"]
RING_POST, COUNT_POST, NEWS_N = R["ring_post"], R["count_post"], R["news_n"]
ENTRY_QUEUE, ENTRY_AT, ENTRY_LINES = R["entry_queue"], R["entry_at"], R["entry_lines"]
LAST, INSIDE, CREDITS, ITEM_N, POPPED = (
    R["last"], R["inside"], R["credits"], R["item_n"], R["popped"])  # fmt: skip
P_QUEUE, P_OVER = R["p_queue"], R["p_over"]
A_QUEUE, A_SECOND, A_LEFT, A_OVER = R["a_queue"], R["a_second"], R["a_left"], R["a_over"]
S_QUEUE, S_PAYS, S_FIRST, S_END, S_TURN = (
    R["s_queue"], R["s_pays"], R["s_first"], R["s_end"], R["s_turn"])  # fmt: skip
C_QUEUE, C_FIRST, C_FLITS, C_TURN, C_LEFT, D_QUEUE = (
    R["c_queue"], R["c_first"], R["c_flits"], R["c_turn"], R["c_left"], R["d_queue"])  # fmt: skip
CHECK_PT, INTO_CHECK_N, CHECK_N = R["check_pt"], R["into_check_n"], R["check_n"]
CHECK_STUCK = R["check_stuck"]
ROOM_N, ROOM_FREE, LINES, SLOTS, FREED_N = (
    R["room_n"], R["room_free"], R["lines"], R["slots"], R["freed_n"])  # fmt: skip
READ_N, READ_PIECE, READ_FREE, READ_BUS = (
    R["read_n"], R["read_piece"], R["read_free"], R["read_bus"])  # fmt: skip
DESCRIPTORS, PAYLOAD, SEND_ENTRIES = range(3)  # clients of the reads, in their turn
READ_COUNT, READ_TURN, ASK_HEAD, ASK_TAIL = (
    R["read_count"], R["read_turn"], R["ask_head"], R["ask_tail"])  # fmt: skip
SEND_N, NET_FREE, NET_TURN = R["send_n"], R["net_free"], R["net_turn"]
LISTED_N, TX, TX_AT, TX_FREE, OUT, OUT_AT, OUT_FREE = (
    R["listed_n"], R["tx"], R["tx_at"], R["tx_free"], R["out"], R["out_at"], R["out_free"])  # fmt: skip
PAST = -1  # of a message that never was in the list
ACK_HEAD, ACK_TAIL, LINK_TAIL = R["ack_head"], R["ack_tail"], R["link_tail"]
FREED_AT, FETCH_WAITS, FETCH_AT = R["freed_at"], R["fetch_waits"], R["fetch_at"]
STIR = R["stir"]


@engine
def host(now, c, r, at, beats, post_at, news_at, news_queue, news_count):
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
        if c.sq_host:
            r[STIR] |= ENTRIES
        else:
            news_at[post], news_queue[post], news_count[post] = bell + c.ring, queue, c.batch
            r[NEWS_N] = r[HOST_POST]
            r[STIR] |= SCHEDULER
    return FAR


@engine
def _rung(now, c, r, news_at, news_queue, news_count, rung):
    """News whose counts show by now; when the next one takes effect, and its queue if now."""
    while r[COUNT_POST] < r[NEWS_N] and news_at[r[COUNT_POST]] + c.count < now:
        rung[news_queue[r[COUNT_POST]]] += news_count[r[COUNT_POST]]
        r[COUNT_POST] += 1
    if r[RING_POST] == r[NEWS_N]:
        return FAR, -1
    due = news_at[r[RING_POST]] + c.hear
    if due > now:
        return due, -1
    queue = news_queue[r[RING_POST]]
    r[RING_POST] += 1
    return now, queue


@engine
def _next_queue(r, c, inside):
    """The first queue with work behind the one looked at last, in a circle, or -1."""
    if r[INSIDE] == 0:
        return -1
    queue = r[LAST]
    for _ in range(c.queues):
        queue = queue + 1 if queue + 1 < c.queues else 0
        if inside[queue] == 1:
            return queue
    return -1


@engine
def _put(r, inside, queue):
    if inside[queue] == 0:
        inside[queue] = 1
        r[INSIDE] += 1


@engine
def scheduler(now, c, r, at, news_at, news_queue, news_count, inside, rung, taken, debt, sent,
              skid_in):
    """Takes a line a cycle; a turn lets a queue send `quantum` flits, less what it owes.

    P: the next queue, its counts read; A: the rest of a visit; S: a line that is being read;
    C: an entry taken, counted against its turn; D: what it owes is being written."""
    due, fresh = _rung(now, c, r, news_at, news_queue, news_count, rung)
    busy = r[P_QUEUE] >= 0 or r[A_QUEUE] >= 0 or r[S_QUEUE] >= 0 or r[C_QUEUE] >= 0
    if not busy and r[INSIDE] == 0 and fresh < 0:
        r[D_QUEUE] = -1
        return due
    held = r[ITEM_N] - r[INTO_CHECK_N] + (1 if r[POPPED] == now else 0)
    move = held < c.skid_depth
    picked = _next_queue(r, c, inside)
    offered = picked if picked >= 0 else fresh
    p, a, s, k = r[P_QUEUE], r[A_QUEUE], r[S_QUEUE], r[C_QUEUE]
    # What its last entry leaves of a visit's turn; who is alone owes nothing.
    left = (r[C_TURN] if r[C_FIRST] == 1 else r[C_LEFT]) - r[C_FLITS]
    ends = k >= 0 and left <= 0 and (offered >= 0 or (p >= 0 and p != k))
    kill_s = ends and s == k and r[S_PAYS] == 0
    kill_a = ends and a == k
    go = move and not (kill_s or kill_a)
    late = p >= 0 and (a == p or s == p or k == p or r[D_QUEUE] == p)
    p_go = p >= 0 and a < 0 and not late and go
    p_take, p_pays, put = False, False, -1
    count, turn = 0, 0
    if kill_s or kill_a:
        put = k
    if p_go:
        waiting = rung[p] - taken[p]
        # What was freed in this very cycle does not count yet.
        credits = r[CREDITS] - (1 if r[FREED_AT] == now else 0)
        most = min(credits, c.visit)
        count = min(waiting, most)
        p_stalls = waiting > 0 and credits == 0
        p_pays = waiting > 0 and offered >= 0 and debt[p] >= c.quantum and not p_stalls
        p_take = waiting > 0 and not p_stalls and not p_pays
        turn = c.quantum - (debt[p] if offered >= 0 else 0)
        if p_stalls or p_pays or (p_take and waiting > most and count == 1 and c.lines == 1):
            put = p
        r[P_OVER] = 1 if waiting > most else 0
    a_issue = a >= 0 and go
    a_end = a_issue and (r[A_SECOND] == 1 or c.lines == 1)
    a_last = a_end and r[A_LEFT] == 1
    if a_last and r[A_OVER] == 1:
        put = a
    commit = s >= 0 and move and not kill_s and r[S_PAYS] == 0 and r[S_END] == 1
    paid = s >= 0 and move and r[S_PAYS] == 1
    next_ready = p < 0 or p_go
    # What was set aside for entries that are not taken now.
    if kill_a:
        r[CREDITS] += r[A_LEFT]
    if kill_s and r[S_END] == 1:
        r[CREDITS] += 1
    if p_take:
        r[CREDITS] -= count
    if commit:
        message = taken[s] // c.batch * c.queues * c.batch + s * c.batch + taken[s] % c.batch
        n = r[ITEM_N]
        sent[n] = message
        at[WQE, message] = now
        skid_in[n] = now
        taken[s] += 1
        r[ITEM_N] += 1
        r[STIR] |= CHECKS
    r[D_QUEUE] = k
    if k >= 0:
        debt[k] = -left if left <= 0 else 0
        r[C_LEFT] = c.quantum if left <= 0 else left
    r[C_QUEUE] = s if commit or paid else -1
    if commit or paid:
        r[C_FIRST], r[C_TURN] = r[S_FIRST], r[S_TURN]
        r[C_FLITS] = 0 if paid else c.flits
    if move:
        ended = r[S_END] == 1 or s < 0
        r[S_PAYS] = 1 if p_pays else 0
        if p_go and (p_take or p_pays):
            r[S_QUEUE], r[S_FIRST], r[S_TURN] = p, 1, turn
            r[S_END] = 1 if c.lines == 1 else 0
        elif a_issue:
            r[S_FIRST] = 1 if r[S_FIRST] == 1 and not ended else 0
            r[S_QUEUE] = a
            r[S_END] = 1 if a_end else 0
        else:
            r[S_QUEUE] = -1
    elif kill_s:
        r[S_QUEUE] = -1
    if p_go:
        r[A_QUEUE] = p if p_take and (c.lines > 1 or count > 1) else -1
        r[A_SECOND] = 1 if c.lines > 1 else 0
        r[A_LEFT] = count if c.lines > 1 else count - 1
        r[A_OVER] = r[P_OVER]
    elif kill_a or a_last:
        r[A_QUEUE] = -1
    elif a_issue:
        if a_end:
            r[A_LEFT] -= 1
        r[A_SECOND] = 1 if c.lines > 1 and r[A_SECOND] == 0 else 0
    if next_ready:
        r[P_QUEUE] = offered
        if offered >= 0:
            r[LAST] = offered
            if picked >= 0:
                inside[offered] = 0
                r[INSIDE] -= 1
    if fresh >= 0 and (picked >= 0 or not next_ready):
        _put(r, inside, fresh)
    if put >= 0:
        _put(r, inside, put)
    if not move and p >= 0 and k < 0 and r[POPPED] < now:
        # Nothing goes on until there is a place in front of the checks.
        return due if due > now else now + 1
    return now + 1


@engine
def _room(now, c, r, at, sent, listed_at):
    """A message enters the list when all of it has room; when the next one may."""
    k = r[ROOM_N]
    if k == r[CHECK_N]:
        return FAR
    due = max(at[CHECK, sent[k]] + 1, r[ROOM_FREE])
    if due > now:
        return due
    if (r[LINES] + c.room > c.room_lines or r[SLOTS] == c.room_messages
            or (not c.inline and k - r[READ_N] >= c.ranges)):
        return FAR
    message = sent[k]
    r[LINES] += c.room
    r[SLOTS] += 1
    r[ROOM_FREE] = now + c.room_next
    listed_at[k] = now + 1
    if c.inline:
        at[READY, message] = now
    else:
        at[RD, message] = now + c.first_read - 1
    r[ROOM_N] += 1
    r[STIR] |= NETWORK | READS
    return now + 1


@engine
def checks(now, c, r, at, sent, skid_in, check_due, listed_at, left_at):
    """Entries through the skid and the checks into the room's one place, or past it."""
    idle = r[ROOM_N] == r[CHECK_N]
    listed = r[LISTED_N] < r[ROOM_N]
    later = _room(now, c, r, at, sent, listed_at)
    # The checks give their oldest entry away when the room's place is empty.
    k = r[CHECK_N]
    r[CHECK_STUCK] = 0
    if k < r[INTO_CHECK_N]:
        wait = check_due[k] - r[CHECK_PT]
        if wait > 0:
            later = min(later, now + wait)
        elif r[ROOM_N] == k and r[ROOM_FREE] - 1 <= now:
            at[CHECK, sent[k]] = now
            r[CHECK_N] += 1
            if c.inline and idle and not listed and r[TX] < 0 and r[TX_FREE] <= now:
                # Nothing to gather and nobody in front: straight to its packet.
                at[READY, sent[k]] = now
                left_at[k] = PAST
                r[TX], r[TX_AT] = k, now + 1 + c.message
                r[ROOM_N] += 1
                r[LISTED_N] += 1
                r[STIR] |= NETWORK
            later = now + 1
        else:
            r[CHECK_STUCK] = 1
    held = r[ITEM_N] - r[INTO_CHECK_N]
    if held > 0 and r[CHECK_STUCK] == 0:
        k = r[INTO_CHECK_N]
        if skid_in[k] + c.skid <= now:
            check_due[k] = r[CHECK_PT] + c.check
            r[INTO_CHECK_N] += 1
            r[POPPED] = now
            r[STIR] |= SCHEDULER
            later = now + 1
        else:
            later = min(later, skid_in[k] + c.skid)
    return later


@engine
def reads(now, c, r, at, read_beats, sent, tag_free, here, ask_ring, ask_block, ask_at, ask_end,
          news_at, news_queue, news_count):
    """One host read a cycle, of each client in turn; the host answers in their order."""
    payload = FAR
    if not c.inline and r[READ_N] < r[ROOM_N]:
        payload = max(at[RD, sent[r[READ_N]]], r[READ_FREE])
    ring = ask_at[r[ASK_HEAD]] if r[ASK_HEAD] < r[ASK_TAIL] else FAR
    tag = tag_free[r[READ_COUNT] % c.tags]
    entry = max(r[ENTRY_AT], tag) if r[ENTRY_QUEUE] >= 0 else FAR
    payload, ring = max(payload, tag), max(ring, tag)
    if payload > now and ring > now and entry > now:
        return min(payload, min(ring, entry))
    client = r[READ_TURN]
    while ((client == DESCRIPTORS and ring > now) or (client == PAYLOAD and payload > now)
           or (client == SEND_ENTRIES and entry > now)):
        client = client + 1 if client < SEND_ENTRIES else DESCRIPTORS
    r[READ_TURN] = client + 1 if client < SEND_ENTRIES else DESCRIPTORS
    asked = now + c.request
    if client == DESCRIPTORS:
        beats = c.descriptor_beats
    else:
        beats = read_beats[r[READ_PIECE]] if client == PAYLOAD else r[ENTRY_LINES]
    first = max(asked + c.read_latency + c.bus, r[READ_BUS])
    r[READ_BUS] = first + beats
    end = first + beats - 1 + c.beat_back
    tag_free[r[READ_COUNT] % c.tags] = end
    r[READ_COUNT] += 1
    if client == SEND_ENTRIES:
        come(c, r, first, news_at, news_queue, news_count)
        r[STIR] |= ENTRIES
    elif client == DESCRIPTORS:
        ring = ask_ring[r[ASK_HEAD]]
        block = ask_block[r[ASK_HEAD]]
        here[ring, block] = end - beats + 1 + c.cached
        ask_end[r[ASK_HEAD]] = end + 1
        r[ASK_HEAD] += 1
        r[FETCH_WAITS], r[FETCH_AT] = 0, now + c.look_again
        r[STIR] |= FETCH
    else:
        message = sent[r[READ_N]]
        r[READ_FREE] = now + 1
        r[READ_PIECE] += 1
        if r[READ_PIECE] == len(read_beats):
            at[RD, message] = asked
            at[RDC, message] = end
            at[READY, message] = end + c.answer - 1
            r[READ_PIECE] = 0
            r[READ_N] += 1
            r[STIR] |= NETWORK | CHECKS
    return now + 1


@engine
def _leave(now, c, r, at, sent, left_at, ack_msg, ack_at, link_msg, link_ack, link_due):
    """A packet or an acknowledgement, in turn, when the way out is free; when it could be one."""
    data = r[OUT_AT] if r[OUT] >= 0 else FAR
    ack = ack_at[r[ACK_HEAD]] if r[ACK_HEAD] < r[ACK_TAIL] else FAR
    data, ack = max(data, r[NET_FREE]), max(ack, r[NET_FREE])
    if data > now and ack > now:
        return min(data, ack)
    is_ack = ack <= now and (data > now or r[NET_TURN] == 0)
    r[NET_TURN] = 1 if is_ack else 0
    tail = r[LINK_TAIL]
    if is_ack:
        message, flits = ack_msg[r[ACK_HEAD]], 1
        at[ACKOUT, message] = now + c.out
        r[ACK_HEAD] += 1
    else:
        k, flits = r[OUT], c.flits
        message = sent[k]
        at[TXF, message] = now + c.out
        at[TXL, message] = now + c.out + flits - 1
        r[SEND_N] += 1
        r[OUT], r[OUT_FREE] = -1, now + flits - 1
        if flits > 1:
            # Its last flit stands behind the one before it that leaves.
            r[TX], r[TX_FREE] = -1, now + flits - 2
            if left_at[k] != PAST:
                left_at[k] = r[TX_FREE] + c.freed
        if not c.srd:
            r[STIR] |= COMPLETIONS
    link_msg[tail] = message
    link_ack[tail] = 1 if is_ack else 0
    link_due[tail] = now + c.out + flits - 1 + c.net_latency + c.bus
    r[LINK_TAIL] += 1
    r[NET_FREE] = now + flits
    r[STIR] |= LINK
    return now + flits


@engine
def network(now, c, r, at, sent, listed_at, left_at, ack_msg, ack_at, link_msg, link_ack,
            link_due):
    """Packets out, one flit a cycle: TX is the message in turn, OUT its flit that leaves next."""
    while r[FREED_N] < r[SEND_N] and (
            left_at[r[FREED_N]] == PAST or left_at[r[FREED_N]] <= now):
        if left_at[r[FREED_N]] != PAST:
            r[LINES] -= c.room
            r[SLOTS] -= 1
            r[STIR] |= CHECKS
        r[FREED_N] += 1
    later = _leave(now, c, r, at, sent, left_at, ack_msg, ack_at, link_msg, link_ack, link_due)
    if r[FREED_N] < r[SEND_N]:
        later = min(later, left_at[r[FREED_N]])
    k = r[TX]
    if k >= 0 and r[OUT] < 0:
        due = max(r[OUT_FREE], max(r[TX_AT], at[READY, sent[k]]))
        if due <= now:
            r[OUT], r[OUT_AT] = k, now + 1
            later = min(later, now + 1)
            if c.flits == 1:
                r[TX], r[TX_FREE] = -1, now
                if left_at[k] != PAST:
                    left_at[k] = now + c.freed
        else:
            later = min(later, due)
    if r[TX] < 0 and r[LISTED_N] < r[ROOM_N]:
        due = max(listed_at[r[LISTED_N]], r[TX_FREE])
        if due <= now:
            r[TX], r[TX_AT] = r[LISTED_N], now + 1
            left_at[r[TX]] = FAR
            r[LISTED_N] += 1
            later = min(later, now + 1)
        else:
            later = min(later, due)
    return later
