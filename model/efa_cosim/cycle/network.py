# SPDX-License-Identifier: Apache-2.0
"""Runs the network of stages: from a workload to the milestones of each message.

    timelines = simulate(Workload(size=64, queues=8, depth=64, batch=16, messages=10_000))
    timelines["done"] - timelines["db"]

Time advances from one cycle with engine activity to the next; an activity of many cycles, such as
a packet of many flits, is one step. All numbers come from the tables, through costs.py.
"""

from __future__ import annotations

from functools import cache
from typing import cast

import numpy as np

from efa_cosim.cycle import compiled, engine
from efa_cosim.cycle.completing import CQE_N, completions, scatter, writes
from efa_cosim.cycle.costs import Costs, costs, packed
from efa_cosim.cycle.fetching import entries
from efa_cosim.cycle.packets import CHECK_PT, CHECK_STUCK, checks, network, reads
from efa_cosim.cycle.receiving import link, validate
from efa_cosim.cycle.record import Acknowledgements, Reads, Record
from efa_cosim.cycle.resolving import resolve, show
from efa_cosim.cycle.rings import fetch
from efa_cosim.cycle.sending import host, scheduler
from efa_cosim.cycle.stages import Stages, shape
from efa_cosim.cycle.state import (
    ACCEPTED,
    AT_CHECKS,
    AT_COMPLETIONS,
    AT_ENTRIES,
    AT_FETCH,
    AT_HOST,
    AT_LINK,
    AT_NETWORK,
    AT_READS,
    AT_RESOLVE,
    AT_SCATTER,
    AT_SCHEDULER,
    AT_SHOW,
    AT_TRANSMIT,
    AT_VALIDATE,
    AT_WRITES,
    ENGINES,
    FAR,
    FIRST_KEPT,
    KEPT,
    R,
    Recovery,
    State,
    new_recovery,
    new_state,
)
from efa_cosim.cycle.timelines import (
    MILESTONES,
    NEVER,
    ONCE,
    Clocks,
    Ints,
    MessageTimelines,
    in_order,
)
from efa_cosim.cycle.transmitting import transmit
from efa_cosim.cycle.workload import LOSS_SHARE, Workload, store_beats

RESOLVED_N, DEPARTED_N, TRANSMITTED_N = R["resolved_n"], R["departed_n"], R["transmitted_n"]
STUCK, FULL = -1, -2  # Of a run that is not complete.
# Transmissions and acknowledgements of a packet, at least.
LEAVES, MORE_LEAVES = 4, 1024
# The counters of the device in cycle 0, unless they are those of an RTL run.
FIRST_CYCLE = Clocks(-1, 0)


class Stuck(Exception):
    """No engine can act but messages are missing: an error of the model."""


class Retransmission(Exception):
    """The device sends packets again, in a way that the model does not: for another reason than
    losses of the fabric, or until the peer is dead."""


@engine
def _first(wake: Ints) -> int:
    # Pairwise minima: no operation depends on the one directly before it.
    early: int = min(min(min(wake[0], wake[1]), min(wake[2], wake[3])), min(wake[4], wake[5]))
    late: int = min(min(min(wake[6], wake[7]), min(wake[8], wake[9])), min(wake[10], wake[11]))
    last: int = min(min(wake[12], wake[13]), wake[14])
    return min(early, min(late, last))


@compiled
def _run(c: Costs, s: State, recovery: Recovery | None, wake: Ints) -> int:
    """Runs until every completion is written; returns the last cycle, STUCK in a deadlock, or FULL
    if more packets and acknowledgements leave than `loses_at` has."""
    # Arrays as local names: access through the tuple costs more than a cycle of an engine.
    (
        r,
        at,
        beats,
        post_at,
        news_at,
        news_queue,
        news_count,
        want,
        read_slot,
        want_free,
        waiting,
        entry_free,
        read_beats,
        write_beats,
        inside,
        posted,
        consumed,
        counted,
        deficit,
        items,
        sent,
        skid_in,
        check_due,
        listed_at,
        left_at,
        tag_free,
        claimed,
        requested,
        moved_n,
        here,
        used,
        used_due,
        in_used,
        again,
        again_due,
        in_again,
        req_ring,
        req_block,
        req_at,
        req_end,
        link_msg,
        link_ack,
        link_due,
        arrived,
        gone_at,
        ring_of,
        front_due,
        jobs,
        job_at,
        places,
        out_at,
        parked,
        park_due,
        blocked,
        issued_at,
        taken_at,
        incoming,
        store,
        store_due,
        number_of,
        pushed_at,
        departed_at,
        resolved_at,
        todo,
        seg_next,
        seg_open,
        seg_posted,
        seg_left,
        live_until,
        pop_row,
        pop_due,
        placed,
        placed_at,
        outcome_at,
        outcome_k,
        pending,
        pending_at,
        ack_shows,
        ack_in_at,
        note_due,
        window_due,
        unseen,
        read_log,
        beat_log,
        outgoing,
    ) = s
    # Cycle 0. A plain 0 would be a type of its own, for which numba compiles every engine twice.
    now = _first(wake)
    completions_n = 2 * c.total if c.receives else c.total
    # A read is complete before the acknowledgement of its last response.
    resolved_n = c.total * c.packets if c.reading else 0
    while r[CQE_N] < completions_n or r[RESOLVED_N] < resolved_n:
        # Downstream engines first: a place freed in this cycle can be used in it. The link is
        # the exception: space in the packet stores is visible one cycle later. An engine runs
        # when its own time has come or when an engine that it depends on has acted.
        if wake[AT_LINK] <= now:
            wake[AT_LINK] = link(now, c, r, at, sent, link_msg, link_ack, link_due, arrived,
                                 gone_at, outcome_k, ack_shows, ack_in_at, number_of, recovery,
                                 wake)
        if wake[AT_WRITES] <= now:
            wake[AT_WRITES] = writes(now, c, r, at, write_beats, issued_at, taken_at, jobs,
                                     out_at, number_of, outcome_at, outcome_k, pending, pending_at,
                                     unseen, beat_log, recovery, wake)
        if wake[AT_SCATTER] <= now:
            wake[AT_SCATTER] = scatter(now, c, r, write_beats, issued_at, taken_at, wake)
        if wake[AT_COMPLETIONS] <= now:
            wake[AT_COMPLETIONS] = completions(
                now, c, r, at, sent, incoming, note_due, jobs, out_at, gone_at, places, store,
                store_due, number_of, outcome_at, outcome_k, pending, pending_at, placed,
                placed_at, counted, wake
            )
        if wake[AT_FETCH] <= now:
            wake[AT_FETCH] = fetch(
                now,
                c,
                r,
                requested,
                moved_n,
                used,
                used_due,
                in_used,
                again,
                again_due,
                in_again,
                req_ring,
                req_block,
                req_at,
                req_end,
                wake,
            )
        if wake[AT_VALIDATE] <= now:
            wake[AT_VALIDATE] = validate(now, c, r, at, claimed, moved_n, here, arrived, ring_of,
                                         front_due, window_due, jobs, job_at, places, out_at,
                                         parked, park_due, blocked, wake)
        if wake[AT_NETWORK] <= now:
            wake[AT_NETWORK] = network(now, c, r, at, sent, outgoing, listed_at, left_at, link_msg,
                                       link_ack, link_due, outcome_k, departed_at, number_of,
                                       recovery, wake)
        if wake[AT_READS] <= now:
            wake[AT_READS] = reads(
                now,
                c,
                r,
                at,
                read_beats,
                outgoing,
                tag_free,
                here,
                req_ring,
                req_block,
                req_at,
                req_end,
                read_log,
                news_at,
                news_queue,
                news_count,
                entry_free,
                unseen,
                wake,
            )
        if wake[AT_CHECKS] <= now:
            wake[AT_CHECKS] = checks(now, c, r, at, outgoing, check_due, listed_at, left_at,
                                     wake)
        if wake[AT_SHOW] <= now:
            wake[AT_SHOW] = show(now, c, r, outcome_at, recovery, wake)
        if wake[AT_RESOLVE] <= now:
            wake[AT_RESOLVE] = resolve(now, c, r, sent, departed_at, resolved_at, incoming,
                                       note_due, todo, outcome_k, ack_shows, ack_in_at, recovery,
                                       wake)
        if wake[AT_TRANSMIT] <= now:
            wake[AT_TRANSMIT] = transmit(
                now, c, r, items, sent, number_of, skid_in, check_due, pushed_at,
                seg_next, seg_open, seg_posted, seg_left, live_until, pop_row, pop_due, placed,
                placed_at, incoming, note_due, at, departed_at, outgoing, recovery, wake)
        if wake[AT_SCHEDULER] <= now:
            wake[AT_SCHEDULER] = scheduler(now, c, r, at, news_at, news_queue, news_count, inside,
                                           posted, consumed, counted, deficit, items, skid_in, wake)
        if wake[AT_HOST] <= now:
            wake[AT_HOST] = host(now, c, r, at, beats, post_at, news_at, news_queue, news_count,
                                 wake)
        if wake[AT_ENTRIES] <= now:
            wake[AT_ENTRIES] = entries(now, c, r, post_at, want, read_slot, want_free, waiting,
                                       entry_free, wake)
        step = max(1, _first(wake) - now)
        if step >= FAR - now:
            return STUCK
        if recovery is not None and max(r[DEPARTED_N], r[TRANSMITTED_N]) >= len(recovery.loses_at):
            return FULL
        if r[CHECK_STUCK] == 0:
            r[CHECK_PT] += step
        now += step
    return now


@cache
def _table() -> Stages:
    return Stages()


def simulate(
    work: Workload,
    beats: Ints | None = None,
    table: Stages | None = None,
    clocks: Clocks | None = None,
    losses: Ints | None = None,
) -> MessageTimelines:
    """Returns the MessageTimelines of a Workload; cycle 0 is its first doorbell store.

    beats: bus beats of the stores before each doorbell, used cyclically (default: those of the
    store buffer policy); table: Stages; clocks: those of an RTL run; losses: 1 for each packet or
    acknowledgement that the fabric loses, in the order of leaving (default: drawn from the seed of
    the workload). Raises Stuck and Retransmission.
    """
    return _simulate(work, beats, table, clocks, losses=losses)[0]


def recorded(
    work: Workload,
    beats: Ints | None = None,
    table: Stages | None = None,
    clocks: Clocks | None = None,
) -> Record:
    """Returns the Record of a model run, like record.from_rtl for the RTL; see `simulate`; raises
    as it does."""
    if work.loss:
        raise Retransmission(f"{work}: a record of the cycle model has no transmissions that are "
                             "lost or sent again; a run on the RTL has them, of one message at a "
                             "time")
    timelines, state, base = _simulate(work, beats, table, clocks, log=True)
    log = state.read_log[: state.r[R["read_count"]]]
    reads = Reads(log[:, 0] - base, log[:, 1] - base, log[:, 2], log[:, 3])
    count = state.r[R["link_tail"]]
    acks = state.link_ack[:count] == 1
    way = work.net_latency + (table or _table()).parameters["bus"]
    return Record(timelines, shape(work), reads, state.beat_log - base,
                  clocks or FIRST_CYCLE.before(-base),
                  Acknowledgements(state.link_due[:count][acks] - way - base,
                                   state.ack_in_at[: int(acks.sum())] - base,
                                   state.link_msg[:count][acks]),
                  store_beats(work) if beats is None else beats,
                  np.full(len(timelines["db"]), NEVER, np.int64))


def identified(
    work: Workload, beats: Ints, table: Stages, clocks: Clocks
) -> tuple[MessageTimelines, Ints]:
    """Returns MessageTimelines with what no event reports, and the cycle in which each read request
    was accepted, by its row; raises as `simulate`.

    Every response to a read is in a row of its own message, and has the cycle of its check.
    """
    timelines, state, base = _simulate(work, beats, table, clocks, apart=True)
    accepted = state.at[ACCEPTED]
    return timelines, np.where(accepted == FAR, NEVER, accepted - base)


def _lost(work: Workload, count: int, losses: Ints | None) -> Ints:
    """Returns which of the first packets and acknowledgements the fabric loses, in the order of
    leaving; none behind given ones."""
    if losses is not None:
        found = np.zeros(count, np.int64)
        found[: len(losses)] = losses[:count]
        return found
    draws = np.random.default_rng(work.seed).integers(0, LOSS_SHARE, count)
    return np.asarray(draws < work.loss, np.int64)


def _simulate(
    work: Workload,
    beats: Ints | None,
    table: Stages | None,
    clocks: Clocks | None,
    log: bool = False,
    apart: bool = False,
    losses: Ints | None = None,
) -> tuple[MessageTimelines, State, int]:
    if work.late:
        raise Retransmission(f"{work}: packets arrive before their receives and are sent again; "
                             "the cycle model has no RNR")
    table = table or _table()
    beats = store_beats(work) if beats is None else beats
    # The stores of the first doorbell begin in cycle 0.
    numbers = costs(table, work, log, clocks.before(int(beats[0])) if clocks else FIRST_CYCLE)
    leaves, ended, recovery = 0, FULL, None
    while ended == FULL:
        if work.loss:
            leaves = 2 * leaves or work.total * LEAVES + MORE_LEAVES
        state = new_state(numbers, shape(work), beats, leaves)
        if work.loss:
            recovery = new_recovery(numbers, _lost(work, leaves, losses), state.r)
        # Compiled code reads the fields of the record by their names.
        given = cast(Costs, packed(numbers)), state, recovery
        ended = _run(*given, np.zeros(ENGINES, np.int64))
    if ended == STUCK:
        raise Stuck(f"{work}: no engine can act, but completions are missing")
    if state.r[R["dead"]]:
        raise Retransmission(f"{work}: {numbers.rto_retries} timeouts in a row, with which the "
                             "device ends the messages to the peer; the cycle model does not")
    if state.r[R["timeouts"]] and not work.loss:
        raise Retransmission(f"{work}: packets wait longer than the timeout of the transport; the "
                             "cycle model has no retransmissions without `loss`")
    if state.r[R["overflows"]]:
        raise Retransmission(f"{work}: more read requests than the device has contexts for; it "
                             "drops some, and the cycle model has no retransmissions")
    found = dict(zip(MILESTONES, state.at, strict=False))
    if work.loss:
        found |= {MILESTONES[row]: state.at[FIRST_KEPT + place] for place, row in enumerate(KEPT)}
    base = int(found["bell"][0])
    for column in found.values():
        never = column == FAR
        column -= base
        column[never] = NEVER
    columns = {name: np.asarray(column) for name, column in found.items()}
    for name in ONCE:
        columns[name] = np.repeat(columns[name][:: work.packets], work.packets)
    if work.reads and not apart:
        in_order(work, columns)
    return MessageTimelines(work, columns), state, base
