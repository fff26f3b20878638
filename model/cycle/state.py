"""What the network holds between two cycles: registers by name, queues as counters over arrays."""

from typing import NamedTuple

import numpy as np

from cycle.lifelines import MILESTONES

FAR = 1 << 60
# Rows of State.at: the milestones, and moments between them that the engines hand on.
(BELL, DB, WQE, CHECK, RD, RDC, TXF, TXL, RXF, RXL, RXV, RXW, CQE, ACKOUT, ACK, DONE) = range(
    len(MILESTONES)
)
ROWS = (*MILESTONES, "ready", "seen")
READY, SEEN = len(MILESTONES), len(MILESTONES) + 1

# Registers. _PT: a pipeline that waits as a whole keeps a time of its own, which stands still
# while its last stage cannot give its item away; _N counters say how many items went by.
REGISTERS = (
    "host_post", "host_free",
    "ring_post", "count_post", "last", "in_set", "visit", "visit_left", "visit_flits", "credits",
    "sq_pt", "issued", "sq_stuck", "item_n", "check_pt", "into_check_n", "check_stuck", "check_n",
    "room_n", "room_free", "lines", "slots", "freed_n",
    "read_n", "read_piece", "read_free", "read_bus", "reads", "read_turn", "ask_head", "ask_tail",
    "send_n", "net_free", "net_turn", "ack_head", "ack_tail",
    "link_head", "link_tail", "link_free", "stored", "acks_in",
    "judge_n", "judge_free", "job_n", "jobs_n", "check_free", "in_lines",
    "write_n", "write_packet", "written", "write_free", "write_next", "write_turn", "retire_n",
    "srd_pt", "srd_stuck", "srd_head", "srd_tail", "acked_n", "left_n",
    "cq_pt", "cq_stuck", "cq_head", "cq_tail", "cq_turn", "cqe_n",
    "acted",
)  # fmt: skip
R = {name: number for number, name in enumerate(REGISTERS)}


class State(NamedTuple):
    """Registers and arrays, all of numpy's int64.

    at        ROWS x messages: the table that comes out
    sent      messages in the order the scheduler took them; arrived: as judged
    """

    r: np.ndarray
    at: np.ndarray
    beats: np.ndarray
    post_at: np.ndarray
    read_beats: np.ndarray
    write_beats: np.ndarray
    # Scheduler: when each queue with work shows, entries rung and taken, flits owed,
    # the cycle before which it gets no further turn
    shows: np.ndarray
    in_set: np.ndarray
    rung: np.ndarray
    taken: np.ndarray
    debt: np.ndarray
    rests: np.ndarray
    sent: np.ndarray
    item_due: np.ndarray
    skid_in: np.ndarray
    check_due: np.ndarray
    tag_free: np.ndarray
    # Descriptors: how many of a ring were claimed and asked for, when each read's are here
    claimed: np.ndarray
    asked: np.ndarray
    claim_free: np.ndarray
    here: np.ndarray
    ask_ring: np.ndarray
    ask_block: np.ndarray
    ask_at: np.ndarray
    # Network: acknowledgements due; packets on the link
    ack_msg: np.ndarray
    ack_at: np.ndarray
    link_msg: np.ndarray
    link_ack: np.ndarray
    link_due: np.ndarray
    arrived: np.ndarray
    job_at: np.ndarray
    # Completions: what the SRD stage and the completion engine hold
    come: np.ndarray
    come_at: np.ndarray
    srd_msg: np.ndarray
    srd_due: np.ndarray
    cq_msg: np.ndarray
    cq_receive: np.ndarray
    cq_due: np.ndarray
    # What was seen at the host's ports: reads as (asked, answered, beats, message, or -1
    # less the ring of receive descriptors), the cycle
    # in which the first beat of each write of payload was handed over
    read_log: np.ndarray
    write_log: np.ndarray


def new_state(costs, made, beats):
    """The state before the first cycle."""
    n, q = costs.total, costs.queues
    most = np.full

    def zeros(size):
        return np.zeros(size, np.int64)

    here = most((q, -(-costs.per_queue // costs.read_descriptors)), FAR, np.int64)
    first = min(costs.descriptors, costs.per_queue)
    here[:, : -(-first // costs.read_descriptors)] = 0
    registers = zeros(len(REGISTERS))
    registers[R["visit"]] = -1
    registers[R["last"]] = q - 1
    registers[R["credits"]] = costs.contexts if costs.srd else FAR
    return State(
        r=registers,
        at=most((len(ROWS), n), FAR, np.int64),
        beats=np.ascontiguousarray(beats, np.int64),
        post_at=zeros(costs.posts),
        read_beats=np.array(made.reads or (0,), np.int64),
        write_beats=np.array(made.writes or (0,), np.int64),
        debt=zeros(q), rests=zeros(q),
        shows=zeros(q),
        in_set=zeros(q),
        rung=zeros(q),
        taken=zeros(q),
        sent=zeros(n),
        item_due=zeros(n),
        skid_in=zeros(n),
        check_due=zeros(n),
        tag_free=zeros(costs.tags),
        claimed=zeros(q),
        asked=most(q, first, np.int64),
        claim_free=zeros(q),
        here=here,
        ask_ring=zeros(here.size + 1),
        ask_block=zeros(here.size + 1),
        ask_at=zeros(here.size + 1),
        ack_msg=zeros(n),
        ack_at=zeros(n),
        link_msg=zeros(2 * n),
        link_ack=zeros(2 * n),
        link_due=zeros(2 * n),
        arrived=zeros(n),
        job_at=zeros(n),
        come=zeros(n),
        come_at=zeros(n),
        srd_msg=zeros(n),
        srd_due=zeros(n),
        cq_msg=zeros(2 * n),
        cq_receive=zeros(2 * n),
        cq_due=zeros(2 * n),
        read_log=np.zeros((n * len(made.reads) + here.size, 4), np.int64),
        write_log=zeros(n * len(made.writes)),
    )
