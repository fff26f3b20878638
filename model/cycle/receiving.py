"""The receiving and completing engines, a cycle at a time (see cycle.sending)."""

from cycle import engine
from cycle.state import ACK, CQE, DONE, FAR, RXF, RXL, RXV, RXW, SEEN, TXL, R

LINK_HEAD, LINK_TAIL, LINK_FREE = R["link_head"], R["link_tail"], R["link_free"]
STORED, ACKS_IN, IN_LINES = R["stored"], R["acks_in"], R["in_lines"]
JUDGE_N, JUDGE_FREE, JOB_N, JOBS_N = R["judge_n"], R["judge_free"], R["job_n"], R["jobs_n"]
ASK_TAIL = R["ask_tail"]
WRITE_NEXT, WRITTEN = R["write_next"], R["written"]
WRITE_N, WRITE_PACKET, WRITE_FREE, WRITE_TURN = (
    R["write_n"], R["write_packet"], R["write_free"], R["write_turn"])  # fmt: skip
RETIRE_N = R["retire_n"]
SRD_PT, SRD_STUCK, SRD_HEAD, SRD_TAIL = (
    R["srd_pt"], R["srd_stuck"], R["srd_head"], R["srd_tail"])  # fmt: skip
ACKED_N, LEFT_N, SEND_N, CREDITS = R["acked_n"], R["left_n"], R["send_n"], R["credits"]
CQ_PT, CQ_STUCK, CQ_HEAD, CQ_TAIL, CQ_TURN = (
    R["cq_pt"], R["cq_stuck"], R["cq_head"], R["cq_tail"], R["cq_turn"])  # fmt: skip
ACK_TAIL, CQE_N, ACTED = R["ack_tail"], R["cqe_n"], R["acted"]


@engine
def link(now, c, r, at, link_msg, link_ack, link_due, arrived, come):
    """Packets in, in the order they left; all of it waits while a store of packets is full."""
    head = r[LINK_HEAD]
    if head == r[LINK_TAIL]:
        return FAR
    due = max(link_due[head], r[LINK_FREE])
    if due > now:
        return due
    if r[STORED] - r[JUDGE_N] >= c.packets_wait or r[ACKS_IN] - r[ACKED_N] >= c.acks_wait:
        return FAR
    message = link_msg[head]
    if link_ack[head] == 1:
        at[ACK, message] = now
        come[r[ACKS_IN]] = message
        r[ACKS_IN] += 1
        r[LINK_FREE] = now + 1
    else:
        if r[IN_LINES] + c.flits > c.lines_wait:
            return FAR
        at[RXF, message] = now
        at[RXL, message] = now + c.flits - 1
        arrived[r[STORED]] = message
        r[STORED] += 1
        r[IN_LINES] += c.flits
        r[LINK_FREE] = now + c.flits
    r[LINK_HEAD] += 1
    r[ACTED] = 1
    return r[LINK_FREE]


@engine
def _claim(now, c, r, claimed, asked, ask_ring, ask_block, ask_at, ring):
    """A descriptor is used up; when a read's worth of places is free, more are asked for."""
    claimed[ring] += 1
    room = c.descriptors - (asked[ring] - claimed[ring])
    if asked[ring] < c.per_queue and room >= c.read_descriptors:
        tail = r[ASK_TAIL]
        ask_ring[tail] = ring
        ask_block[tail] = asked[ring] // c.read_descriptors
        ask_at[tail] = now + c.look
        r[ASK_TAIL] += 1
        asked[ring] = min(c.per_queue, asked[ring] + c.read_descriptors)


@engine
def judge(
    now, c, r, at, claimed, asked, claim_free, here, ask_ring, ask_block, ask_at, arrived, job_at
):
    """Packets judged one after the other, each with the next descriptor of its ring."""
    later = FAR
    # Buffers are checked: `jobs` of them in `jobs_cycles`, and only as the line has room.
    j = r[JOB_N]
    if j < r[JUDGE_N]:
        due = job_at[j]
        if j >= c.jobs:
            due = max(due, job_at[j - c.jobs] + c.jobs_cycles)
        if due > now:
            later = min(later, due)
        elif j - r[RETIRE_N] < c.line:
            job_at[j] = now
            message = arrived[j]
            at[RXV, message] = now + c.job_check
            if c.written == 0:
                at[RXW, message] = now + c.job_check + c.nothing
            r[JOB_N] += 1
            r[ACTED] = 1
    a = r[JUDGE_N]
    if a < r[STORED]:
        message = arrived[a]
        ring = (message // c.batch + 1) % c.queues
        due = max(at[RXL, message] + c.packet_in, max(r[JUDGE_FREE], claim_free[ring]))
        there = here[ring, claimed[ring] // c.read_descriptors]
        if due > now:
            later = min(later, due)
        elif there > now:
            later = min(later, there)
        elif a - r[JOB_N] < c.judge:
            _claim(now, c, r, claimed, asked, ask_ring, ask_block, ask_at, ring)
            claim_free[ring] = now + c.claim_ring
            job_at[a] = now + c.judge
            r[JUDGE_FREE] = now + c.judge_next
            r[JUDGE_N] += 1
            r[ACTED] = 1
            later = min(later, now + c.judge_next)
    return later


@engine
def writes(
    now, c, r, at, write_beats, ack_msg, ack_at, arrived, cq_msg, cq_receive, cq_due, write_log
):
    """The host write stream: payload and completions in turn, packet by packet."""
    made, payload, entry, shows = FAR, FAR, FAR, FAR
    if c.written and r[WRITE_N] < r[JOB_N]:
        made = max(at[RXV, arrived[r[WRITE_N]]] + c.write, r[WRITE_NEXT])
        payload = max(made, r[WRITE_FREE])
    r[CQ_STUCK] = 0
    head = r[CQ_HEAD]
    if head < r[CQ_TAIL]:
        shows = now + max(0, cq_due[head] - r[CQ_PT])
        entry = max(shows, r[WRITE_FREE])
    if payload > now and entry > now:
        if shows > now:
            return min(payload, shows)
        r[CQ_STUCK] = 1
        return min(payload, entry)
    is_entry = entry <= now and (payload > now or r[WRITE_TURN] == 0)
    r[WRITE_TURN] = 1 if is_entry else 0
    r[ACTED] = 1
    if not is_entry:
        beats = write_beats[r[WRITE_PACKET]]
        write_log[r[WRITTEN]] = now
        r[WRITTEN] += 1
        r[WRITE_FREE] = now + beats
        r[WRITE_PACKET] += 1
        if r[WRITE_PACKET] == len(write_beats):
            at[RXW, arrived[r[WRITE_N]]] = now + beats - 1 + c.handed
            r[WRITE_NEXT] = made + c.write_next
            r[WRITE_PACKET] = 0
            r[WRITE_N] += 1
        if shows > now:
            return min(now + beats, shows)
        r[CQ_STUCK] = 1
        return now + beats
    r[WRITE_FREE] = now + 1
    message = cq_msg[head]
    r[CQ_HEAD] += 1
    r[CQE_N] += 1
    if cq_receive[head] == 1:
        at[CQE, message] = now
        if c.srd:
            tail = r[ACK_TAIL]
            ack_msg[tail] = message
            ack_at[tail] = now + c.acknowledge - c.out
            r[ACK_TAIL] += 1
    else:
        at[DONE, message] = now
        at[SEEN, message] = now + c.visible
    return now + 1


@engine
def completions(now, c, r, at, sent, arrived, come, srd_msg, srd_due, cq_msg, cq_receive, cq_due):
    """Finished sends and receives into the completion engine, in turn."""
    later = FAR
    send, receive = FAR, FAR
    head = r[SRD_HEAD]
    r[SRD_STUCK] = 0
    if head < r[SRD_TAIL]:
        send = now + max(0, srd_due[head] - r[SRD_PT])
    if r[RETIRE_N] < r[JOB_N]:
        receive = at[RXW, arrived[r[RETIRE_N]]]
        if receive < FAR:
            receive += c.retire
    if r[CQ_STUCK] == 0:
        is_receive = receive <= now and (send > now or r[CQ_TURN] == 0)
        tail = r[CQ_TAIL]
        if is_receive:
            cq_msg[tail] = arrived[r[RETIRE_N]]
            # Its bytes count as written when the completion may follow.
            at[RXW, arrived[r[RETIRE_N]]] = now - c.retire
            cq_receive[tail] = 1
            r[IN_LINES] -= c.flits
            r[RETIRE_N] += 1
        elif send <= now:
            cq_msg[tail] = srd_msg[head]
            r[SRD_HEAD] += 1
            r[CREDITS] += 1
        if is_receive or send <= now:
            cq_due[tail] = r[CQ_PT] + c.entry
            r[CQ_TAIL] += 1
            r[CQ_TURN] = 1 if is_receive else 0
            r[ACTED] = 1
            if send <= now and is_receive:
                r[SRD_STUCK] = 1
    elif send <= now:
        r[SRD_STUCK] = 1
    if send > now:
        later = send
    if receive > now:
        later = min(later, receive)
    # What finished a send: its acknowledgement, or that a datagram has left.
    if r[SRD_STUCK] == 0:
        tail = r[SRD_TAIL]
        if c.srd and r[ACKED_N] < r[ACKS_IN]:
            message = come[r[ACKED_N]]
            due = at[ACK, message] + c.ack_in
            if due <= now:
                srd_msg[tail] = message
                srd_due[tail] = r[SRD_PT] + c.srd_ack
                r[ACKED_N] += 1
                r[SRD_TAIL] += 1
                r[ACTED] = 1
            else:
                later = min(later, due)
        elif not c.srd and r[LEFT_N] < r[SEND_N]:
            message = sent[r[LEFT_N]]
            due = at[TXL, message] - c.out + c.leave
            if due <= now:
                srd_msg[tail] = message
                srd_due[tail] = r[SRD_PT] + c.srd_done
                r[LEFT_N] += 1
                r[SRD_TAIL] += 1
                r[ACTED] = 1
            else:
                later = min(later, due)
    return later
