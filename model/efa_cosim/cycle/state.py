# SPDX-License-Identifier: Apache-2.0
"""Holds the state of the network between cycles: named registers, queues as counters and arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from efa_cosim.cycle.costs import Costs
from efa_cosim.cycle.stages import Shape
from efa_cosim.cycle.timelines import MILESTONES, Ints

FAR = 1 << 60
# Rows of State.at: the milestones, and further times that engines pass on.
(
    BELL,
    DB,
    WQE,
    CHECK,
    RD,
    RD_CPL,
    TX_FIRST,
    TX_LAST,
    RX_FIRST,
    RX_LAST,
    RX_VALIDATED,
    RX_DATA_DONE,
    CQE,
    ACKOUT,
    ACK,
    DONE,
) = range(len(MILESTONES))
ROWS = (*MILESTONES, "ready", "seen", "accepted")
READY, SEEN, ACCEPTED = range(len(MILESTONES), len(ROWS))
# With losses, behind these rows: the milestones of the transmission that arrives first.
KEPT = (CHECK, RD, RD_CPL, TX_FIRST, TX_LAST)
FIRST_KEPT = len(ROWS)
FIRST_PATHS = 2

# Engines, by their index in `wake`, which holds the next cycle of each. An engine that changes an
# input of another engine wakes it at once or, if known, in the first cycle of an effect.
ENGINES = 15
(AT_LINK, AT_WRITES, AT_SCATTER, AT_COMPLETIONS, AT_FETCH, AT_VALIDATE, AT_NETWORK, AT_READS,
 AT_CHECKS, AT_SCHEDULER, AT_HOST, AT_ENTRIES, AT_SHOW, AT_RESOLVE,
 AT_TRANSMIT) = range(ENGINES)  # fmt: skip
NOW = 0  # Before any cycle.

# Registers. _PT: local time of a pipeline that stalls as a whole; the time stops while the last
# stage holds its item. _N: number of items passed.
REGISTERS = (
    "host_post",
    "host_free",
    "want_post",
    "call_post",
    "entry_queue",
    "entry_lines",
    "entry_at",
    "entry_last",
    "entry_inside",
    "entry_next",
    "entry_put",
    "entry_n",
    "news_n",
    "ring_post",
    "count_post",
    "last",
    "inside",
    "credits",
    "counted_queue",
    "p_queue",
    "p_over",
    "a_queue",
    "a_second",
    "a_left",
    "a_over",
    "s_queue",
    "s_deducts",
    "s_first",
    "s_end",
    "s_quantum",
    "c_queue",
    "c_first",
    "c_flits",
    "c_quantum",
    "c_left",
    "d_queue",
    "item_n",
    "popped",
    "check_pt",
    "into_check_n",
    "check_stuck",
    "check_n",
    "space_n",
    "space_free",
    "lines",
    "slots",
    "freed_n",
    "read_n",
    "read_piece",
    "cut_1",
    "cut_3",
    "cut_at",
    "cut_piece",
    "cut_stuck",
    "ranges",
    "range_out",
    "range_second",
    "range_direct",
    "read_bus",
    "read_count",
    "tag",
    "read_turn",
    "req_head",
    "req_tail",
    "send_n",
    "net_free",
    "net_turn",
    "listed_n",
    "tx",
    "tx_at",
    "tx_free",
    "out",
    "out_at",
    "out_free",
    "link_head",
    "link_tail",
    "link_free",
    "link_flits",
    "stored",
    "in_lines",
    "gone_n",
    "gone_at",
    "fetch_waits",
    "fetch_ring",
    "fetch_at",
    "fetch_turn",
    "moved",
    "moved_at",
    "arrived",
    "arrived_n",
    "used_head",
    "used_tail",
    "again_head",
    "again_tail",
    "front_n",
    "packet_n",
    "j1",
    "j2",
    "j2_blocked",
    "j2_index",
    "j3",
    "check_free",
    "checked_n",
    "job_n",
    "write_n",
    "retire_n",
    "park_head",
    "park_tail",
    "park_at",
    "park_full",
    "pass",
    "pass_left",
    "pass_rest",
    "sc_job",
    "sc_piece",
    "walk_1",
    "walk_2",
    "walk_3",
    "scan_end",
    "left_beats",
    "issued",
    "taken_beats",
    "write_free",
    "write_packet",
    "write_job",
    "write_turn",
    "cq1",
    "cq2",
    "cq2_at",
    "cq_held",
    "cq_turn",
    "cqe_n",
    "srd1",
    "srd2",
    "srd3",
    "store_head",
    "store_tail",
    "store_at",
    "acked_n",
    "left_n",
    "looked_at",
    "half",
    "freed_at",
    "counted_at",
    "retired_at",
    "unseen_head",
    "unseen_tail",
    "routed_n",
    "posted_packet",
    "turn_1",
    "turn_2",
    "woken_1",
    "woken_2",
    "turns",
    "empty",
    "sent_n",
    "queued",
    "recall_1",
    "recall_2",
    "recalled",
    "looked",
    "limits_at",
    "show_oldest",
    "show_settled",
    "show_window",
    "old_oldest",
    "old_settled",
    "old_window",
    "window_n",
    "outcome_n",
    "cause_n",
    "stored_n",
    "due",
    "build_1",
    "build_2",
    "built",
    "built_at",
    "out_shown_n",
    "in_shown_n",
    "joined_n",
    "ack_come_n",
    "waiting_ack",
    "waiting_seen",
    "waits",
    "join_1",
    "join_seen",
    "offered_ack",
    "offered_seen",
    "state",
    "state_count",
    "event",
    "event_turn",
    "reload",
    "walk",
    "look",
    "taken_ack",
    "taken_seen",
    "shown_n",
    "todo_n",
    "todo",
    "record",
    "more",
    "join",
    "some",
    "in_order",
    "in_order_k",
    "last_ticks",
    "space_sent",
    "resolved_n",
    "oldest",
    "timer",
    "timer_ticks",
    "aging",
    "age_ticks",
    "armed",
    "set_ticks",
    "sets_at",
    "set_at",
    "next_armed",
    "next_ticks",
    "left_first",
    "left_before",
    "left_last",
    "defers",
    "defer_ticks",
    "timeouts",
    "act_kind",
    "act_row",
    "note_row",
    "note_at",
    "note_next",
    "pop_head",
    "pop_tail",
    "post_n",
    "ended_n",
    "looked_up",
    "found_at",
    "placed_head",
    "placed_tail",
    "request_row",
    "request_at",
    "response_row",
    "response_at",
    "responding",
    "overflows",
    "visit",
    "live_n",
    "post_turn",
    "post_held",
    "pend_head",
    "pend_tail",
    "entries_n",
    "entries_out",
    "last_outcome",
    "pace_window",
    "pace_wide",
    "pace_slow",
    "pace_round",
    "pace_shortest",
    "pace_until",
    "time_known",
    "time_srtt",
    "time_variance",
    "time_period",
    "time_shortest",
    "time_shortest_0",
    "time_longest",
    "time_longest_0",
    "transmitted_n",
    "departed_n",
    "space_transmitted",
    "space_turn",
    "settled_n",
    "lost_n",
    "again_n",
    "again_request",
    "again_turn",
    "again_k",
    "again_path",
    "served_turn",
    "served_at",
    "served",
    "show_waits",
    "show_request",
    "show_turn",
    "show_k",
    "old_waits",
    "old_request",
    "old_turn",
    "old_k",
    "lossy",
    "backoff",
    "expired_n",
    "search_ticks",
    "first_checked",
    "latest_known",
    "latest_ticks",
    "learned",
    "extent_before",
    "extent",
    "extent_n",
    "unusable_n",
    "path_turn",
    "best_path",
    "best_time",
    "stale",
    "busy_until",
    "duplicate_head",
    "duplicate_tail",
    "came_oldest",
    "dead",
)
EMPTY = ("entry_queue", "entry_next", "entry_put", "p_queue", "a_queue", "s_queue", "c_queue",
         "d_queue", "popped", "range_out", "fetch_ring", "moved", "j1", "j2", "j3", "sc_job",
         "walk_1", "walk_2", "walk_3", "cq1", "cq2", "cq_held", "srd1", "srd2", "srd3", "tx", "out",
         "freed_at", "counted_at", "looked_at", "retired_at", "posted_packet", "record",
         "sets_at", "set_at", "limits_at", "pace_until", "note_row", "note_next", "request_row",
         "response_row", "post_held", "served_at", "busy_until")
RING = 32
BLOCK = 16  # Arrays per allocated block.
R = {name: number for number, name in enumerate(REGISTERS)}


class State(NamedTuple):
    """Registers and arrays, all numpy int64.

    at        ROWS x packets: the resulting table. A packet's column is message * packets of a
              message + number of the packet; what a message has once is in that of its first packet
    items     messages in the order of the scheduler
    sent      columns of packets in the order of their posts; arrived: in the order of arrival
    """

    r: Ints
    at: Ints
    beats: Ints
    post_at: Ints
    # Scheduler input per queue: doorbells or fetched WQEs; lines to be fetched
    news_at: Ints
    news_queue: Ints
    news_count: Ints
    want: Ints
    read_slot: Ints
    want_free: Ints
    waiting: Ints
    entry_free: Ints
    read_beats: Ints
    write_beats: Ints
    # Scheduler: queues with work, posted, consumed and completed WQEs, deficit in flits
    inside: Ints
    posted: Ints
    consumed: Ints
    counted: Ints
    deficit: Ints
    items: Ints
    sent: Ints
    skid_in: Ints
    check_due: Ints
    # Cycle in which a message enters the list, and in which its place is free again
    listed_at: Ints
    left_at: Ints
    tag_free: Ints
    # Descriptors: numbers claimed, requested and consumed per ring; arrival of each read; rings
    # to examine
    claimed: Ints
    requested: Ints
    moved_n: Ints
    here: Ints
    used: Ints
    used_due: Ints
    in_used: Ints
    again: Ints
    again_due: Ints
    in_again: Ints
    req_ring: Ints
    req_block: Ints
    req_at: Ints
    req_end: Ints
    # Network: packets on the link
    link_msg: Ints
    link_ack: Ints
    link_due: Ints
    arrived: Ints
    gone_at: Ints
    # Validation: ring of each message; packets in front, jobs in order, parked packets
    ring_of: Ints
    front_due: Ints
    jobs: Ints
    job_at: Ints
    places: Ints
    out_at: Ints
    parked: Ints
    park_due: Ints
    blocked: Ints
    # Scatter: beats issued and consumed
    issued_at: Ints
    taken_at: Ints
    # Completions: received acknowledgements; stored sends
    incoming: Ints
    store: Ints
    store_due: Ints
    # Reliable transport, packets by their number in the order of their posts: its number of each
    # column; cycle in which it joined the list of the peer, in which its first flit left, in which
    # it was resolved; marks of those of a walk
    number_of: Ints
    pushed_at: Ints
    departed_at: Ints
    resolved_at: Ints
    todo: Ints
    # Segmenter, by context: packets posted, packets without an outcome, whether one is posted and
    # not sent, responses that are not placed; columns of packets that were sent, and of placed
    # responses, each with the cycle in which the segmenter knows; by message: end of its context
    seg_next: Ints
    seg_open: Ints
    seg_posted: Ints
    seg_left: Ints
    live_until: Ints
    pop_row: Ints
    pop_due: Ints
    placed: Ints
    placed_at: Ints
    # Outcomes at the receiver in order: cycle and packet; received acknowledgements: outcomes that
    # they show, cycle; cycles of the completions in `incoming`; packets behind the receive window
    outcome_at: Ints
    outcome_k: Ints
    # Retired RDMA packets whose outcome is not known yet: column, first cycle of the outcome
    pending: Ints
    pending_at: Ints
    ack_shows: Ints
    ack_in_at: Ints
    note_due: Ints
    window_due: Ints
    # Sends with a written completion that a read may make visible earlier
    unseen: Ints
    # With `log`, the activity at the host's ports: reads as (request, completion, beats, message
    # or -1 minus the ring of receive descriptors), and the cycle in which each payload beat was
    # handed over
    read_log: Ints
    beat_log: Ints
    # Columns of transmissions in order: `sent` itself without losses.
    outgoing: Ints


class Recovery(NamedTuple):
    """Arrays of a run with losses, all numpy int64; None in their place compiles the engines
    without any code for losses.

    - by transmission in order: oldest PSN at it; the same of packets on the link
    - loses_at: what the fabric loses, in the order of leaving
    - by packet: path and order number of the last transmission; whether it was sent again, is lost,
      has arrived
    - by path: usable; transmissions, those not in flight, the newest acknowledged one, losses in a
      row, eight times the smoothed round-trip time
    - limits that are shown of the paths, the latest ones and those before
    - duplicate_at: cycles in which packets arrive again; done_n: send completions of each queue
    """

    out_oldest: Ints
    link_oldest: Ints
    loses_at: Ints
    path_of: Ints
    order_of: Ints
    sent_again: Ints
    is_lost: Ints
    came: Ints
    usable: Ints
    path_sent: Ints
    path_settled: Ints
    path_newest: Ints
    path_losses: Ints
    path_time: Ints
    shown_usable: Ints
    shown_settled: Ints
    duplicate_at: Ints
    done_n: Ints



def new_recovery(costs: Costs, losses: Ints, r: Ints) -> Recovery:
    """The state of a run with losses before the first cycle; losses: 1 for what the fabric loses,
    in the order of leaving, as long as transmissions and acknowledgements may be; r: registers."""
    count, packets, paths = len(losses), costs.total * costs.packets + 1, costs.paths

    def zeros(size: int) -> Ints:
        return np.zeros(size, np.int64)

    # The first packet of the session was sent twice, as a reset precedes it: on the first paths.
    sent = zeros(paths)
    sent[:FIRST_PATHS] = 1
    r[R["path_turn"]], r[R["extent_n"]], r[R["extent_before"]] = FIRST_PATHS, 1, costs.psns
    return Recovery(
        out_oldest=zeros(count), link_oldest=zeros(2 * count), loses_at=losses,
        path_of=zeros(packets), order_of=zeros(packets), sent_again=zeros(packets),
        is_lost=zeros(packets), came=zeros(packets),
        usable=np.ones(paths, np.int64), path_sent=sent, path_settled=sent.copy(),
        path_newest=np.full(paths, -1, np.int64), path_losses=zeros(paths),
        path_time=zeros(paths), shown_usable=np.ones((2, paths), np.int64),
        shown_settled=np.array([sent, sent]), duplicate_at=zeros(count),
        done_n=zeros(costs.queues),
    )  # fmt: skip


def new_state(costs: Costs, made: Shape, beats: Ints, leaves: int = 0) -> State:
    """The state before the first cycle; leaves: with losses, the number of transmissions and
    acknowledgements that there may be."""
    n, q = costs.total, costs.queues
    p = n * costs.packets
    t = leaves or p
    most = np.full

    # Arrays are parts of a few large blocks: with small pages, a page costs as much as a message.
    block = np.zeros(0, np.int64)

    def zeros(size: int) -> Ints:
        nonlocal block
        if size > len(block):
            block = np.zeros(max(size, BLOCK * p), np.int64)
        found, block = block[:size], block[size:]
        return found

    here = most((q, -(-costs.per_queue // costs.read_descriptors)), FAR, np.int64)
    first = min(costs.descriptors, costs.per_queue)
    here[:, : -(-first // costs.read_descriptors)] = 0
    reads = p * len(made.reads) + n * costs.sq_host + here.size
    registers = zeros(len(REGISTERS))
    for name in EMPTY:
        registers[R[name]] = -1
    registers[R["cq_turn"]] = 1
    registers[R["left_first"]] = FAR
    # The session is open, and one packet was acknowledged in it.
    registers[R["empty"]] = registers[R["event_turn"]] = 1
    for name in ("pace_window", "show_window", "old_window"):
        registers[R[name]] = costs.cwnd_initial
    registers[R["last"]] = registers[R["entry_last"]] = q - 1
    registers[R["credits"]] = costs.contexts if costs.srd else FAR
    sent = zeros(p)
    return State(
        r=registers,
        at=most((len(ROWS) + len(KEPT) * (leaves > 0), p), FAR, np.int64),
        beats=np.ascontiguousarray(beats, np.int64),
        post_at=zeros(costs.posts),
        news_at=zeros(n), news_queue=zeros(n), news_count=zeros(n),
        want=zeros(q), read_slot=zeros(q), want_free=zeros(q),
        waiting=zeros(q), entry_free=zeros(costs.reads_out),
        read_beats=np.array(made.reads or (0,), np.int64),
        write_beats=np.array(made.writes or (0,), np.int64),
        deficit=zeros(q),
        inside=zeros(q),
        posted=zeros(q),
        consumed=zeros(q),
        counted=zeros(q),
        items=zeros(n),
        sent=sent,
        skid_in=zeros(n),
        check_due=zeros(t),
        listed_at=zeros(t), left_at=zeros(t),
        tag_free=zeros(costs.tags),
        claimed=zeros(q),
        requested=most(q, first, np.int64),
        moved_n=zeros(q),
        here=here,
        used=zeros(q), used_due=zeros(q), in_used=zeros(q),
        again=zeros(q), again_due=zeros(q), in_again=zeros(q),
        req_ring=zeros(here.size + 1),
        req_block=zeros(here.size + 1),
        req_at=zeros(here.size + 1),
        req_end=zeros(here.size + 1),
        link_msg=zeros(2 * t),
        link_ack=zeros(2 * t),
        link_due=zeros(2 * t),
        arrived=zeros(p),
        gone_at=zeros(p),
        ring_of=(np.arange(p) // costs.packets // costs.batch + 1) % q,
        front_due=zeros(2),
        jobs=zeros(p),
        job_at=zeros(p),
        places=zeros(p),
        out_at=zeros(p),
        parked=zeros(costs.parked_places), park_due=zeros(costs.parked_places), blocked=zeros(q),
        issued_at=zeros(RING), taken_at=zeros(RING),
        incoming=zeros(p),
        store=zeros(n),
        store_due=zeros(n),
        number_of=zeros(p),
        pushed_at=most(p + 1, FAR, np.int64),
        departed_at=most(p + 1, FAR, np.int64),
        resolved_at=most(p + 1, FAR, np.int64),
        todo=zeros(p + 1),
        seg_next=zeros(2 * n), seg_open=zeros(2 * n), seg_posted=zeros(2 * n),
        seg_left=zeros(2 * n), live_until=zeros(n),
        pop_row=zeros(p), pop_due=zeros(p), placed=zeros(p), placed_at=zeros(p),
        outcome_at=zeros(p), outcome_k=zeros(p),
        pending=zeros(p), pending_at=zeros(p),
        ack_shows=zeros(t), ack_in_at=zeros(t),
        note_due=zeros(p),
        window_due=zeros(2),
        unseen=zeros(n if costs.pushes else 1),
        read_log=np.zeros((reads if costs.log else 1, 4), np.int64),
        beat_log=zeros(p * sum(made.writes) if costs.log else 1),
        outgoing=zeros(t) if leaves else sent,
    )
