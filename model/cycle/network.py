"""The network of stages, run: from a workload to the life of each of its messages.

    lives = simulate(Workload(size=64, queues=8, depth=64, batch=16, messages=10_000))
    lives["done"] - lives["db"]

Time goes from one cycle in which an engine acts to the next; what acts for many cycles, such as a
packet of many flits, is one step. Nothing here knows a number: cycle.costs has them from the table.
"""

import numpy as np

from cycle import compiled
from cycle.costs import costs
from cycle.lifelines import MILESTONES, NEVER, Lifelines
from cycle.receiving import (
    CQ_PT,
    CQ_STUCK,
    CQE_N,
    SRD_PT,
    SRD_STUCK,
    completions,
    judge,
    link,
    writes,
)
from cycle.record import Reads, Record
from cycle.sending import (
    ACTED,
    CHECK_PT,
    CHECK_STUCK,
    SQ_PT,
    SQ_STUCK,
    checks,
    host,
    network,
    reads,
    scheduler,
)
from cycle.stages import Stages, shape
from cycle.state import FAR, R, new_state
from cycle.workload import store_beats

# Engines by number, and whom each one's acting may concern, itself among them.
ENGINES = 9
(LINK, WRITES, COMPLETIONS, JUDGE, NETWORK, READS, CHECKS, SCHEDULER, HOST) = range(ENGINES)
EVERYBODY = (1 << ENGINES) - 1
STIRS_LINK = 1 << LINK | 1 << JUDGE | 1 << COMPLETIONS
STIRS_WRITES = 1 << WRITES | 1 << COMPLETIONS | 1 << NETWORK | 1 << HOST
STIRS_COMPLETIONS = 1 << COMPLETIONS | 1 << WRITES | 1 << JUDGE | 1 << LINK | 1 << SCHEDULER
STIRS_JUDGE = 1 << JUDGE | 1 << WRITES | 1 << COMPLETIONS | 1 << LINK | 1 << READS
STIRS_NETWORK = 1 << NETWORK | 1 << LINK | 1 << CHECKS | 1 << COMPLETIONS
STIRS_READS = 1 << READS | 1 << NETWORK | 1 << JUDGE | 1 << CHECKS
STIRS_CHECKS = 1 << CHECKS | 1 << SCHEDULER | 1 << READS | 1 << NETWORK
STIRS_SCHEDULER = 1 << SCHEDULER | 1 << CHECKS
STIRS_HOST = 1 << HOST | 1 << SCHEDULER


class Stuck(Exception):
    """No engine can act and messages are missing: a fault of the model."""


@compiled
def _run(c, s):
    """Until every completion is written; the last cycle, or -1 when nothing can go on."""
    # By name once: taking an array out of the tuple costs more than a cycle of an engine.
    (r, at, beats, post_at, read_beats, write_beats, shows, in_set, rung, taken, debt, rests, sent,
     item_due, skid_in, check_due, tag_free, claimed, asked, claim_free, here, ask_ring, ask_block,
     ask_at, ack_msg, ack_at, link_msg, link_ack, link_due, arrived, job_at, come, come_at,
     srd_msg, srd_due, cq_msg, cq_receive, cq_due, read_log, write_log) = s
    now, stir, wake = 0, EVERYBODY, np.zeros(ENGINES, np.int64)
    while r[CQE_N] < 2 * c.total:
        # Downstream first: a place that is left in this cycle can be taken in it. But the link
        # before all: what leaves the stores of packets makes room a cycle later. An engine is
        # asked when its own time has come or when one that it depends on did something.
        if stir >> LINK & 1 or wake[LINK] <= now:
            stir &= ~(1 << LINK)
            r[ACTED] = 0
            wake[LINK] = link(now, c, r, at, link_msg, link_ack, link_due, arrived, come)
            if r[ACTED] == 1:
                stir |= STIRS_LINK
        if stir >> WRITES & 1 or wake[WRITES] <= now:
            stir &= ~(1 << WRITES)
            r[ACTED] = 0
            wake[WRITES] = writes(now, c, r, at, write_beats, ack_msg, ack_at, arrived, cq_msg,
                                  cq_receive, cq_due, write_log)
            if r[ACTED] == 1:
                stir |= STIRS_WRITES
        if stir >> COMPLETIONS & 1 or wake[COMPLETIONS] <= now:
            stir &= ~(1 << COMPLETIONS)
            r[ACTED] = 0
            wake[COMPLETIONS] = completions(now, c, r, at, sent, arrived, come, srd_msg, srd_due,
                                            cq_msg, cq_receive, cq_due)
            if r[ACTED] == 1:
                stir |= STIRS_COMPLETIONS
        if stir >> JUDGE & 1 or wake[JUDGE] <= now:
            stir &= ~(1 << JUDGE)
            r[ACTED] = 0
            wake[JUDGE] = judge(now, c, r, at, claimed, asked, claim_free, here, ask_ring,
                                ask_block, ask_at, arrived, job_at)
            if r[ACTED] == 1:
                stir |= STIRS_JUDGE
        if stir >> NETWORK & 1 or wake[NETWORK] <= now:
            stir &= ~(1 << NETWORK)
            r[ACTED] = 0
            wake[NETWORK] = network(now, c, r, at, sent, ack_msg, ack_at, link_msg, link_ack,
                                    link_due)
            if r[ACTED] == 1:
                stir |= STIRS_NETWORK
        if stir >> READS & 1 or wake[READS] <= now:
            stir &= ~(1 << READS)
            r[ACTED] = 0
            wake[READS] = reads(now, c, r, at, read_beats, sent, tag_free, here, ask_ring,
                                ask_block, ask_at, read_log)
            if r[ACTED] == 1:
                stir |= STIRS_READS
        if stir >> CHECKS & 1 or wake[CHECKS] <= now:
            stir &= ~(1 << CHECKS)
            r[ACTED] = 0
            wake[CHECKS] = checks(now, c, r, at, sent, item_due, skid_in, check_due)
            if r[ACTED] == 1:
                stir |= STIRS_CHECKS
        if stir >> SCHEDULER & 1 or wake[SCHEDULER] <= now:
            stir &= ~(1 << SCHEDULER)
            r[ACTED] = 0
            wake[SCHEDULER] = scheduler(now, c, r, post_at, shows, in_set, rung, taken, debt,
                                        rests, sent, item_due)
            if r[ACTED] == 1:
                stir |= STIRS_SCHEDULER
        if stir >> HOST & 1 or wake[HOST] <= now:
            stir &= ~(1 << HOST)
            r[ACTED] = 0
            wake[HOST] = host(now, c, r, at, beats, post_at)
            if r[ACTED] == 1:
                stir |= STIRS_HOST
        step = 1 if stir else wake.min() - now
        if step >= FAR - now:
            return -1
        if r[SQ_STUCK] == 0:
            r[SQ_PT] += step
        if r[CHECK_STUCK] == 0:
            r[CHECK_PT] += step
        if r[SRD_STUCK] == 0:
            r[SRD_PT] += step
        if r[CQ_STUCK] == 0:
            r[CQ_PT] += step
        now += step
    return now


def simulate(work, beats=None, table=None):
    """Lifelines of a Workload, cycle 0 being its first doorbell's store.

    beats: bus beats of the stores before each doorbell, to be used in turn (default: those that
    the store-buffer policy makes); table: Stages. Raises Stuck."""
    return _simulate(work, beats, table)[0]


def recorded(work, beats=None, table=None):
    """What cycle.record.from_rtl gives of the RTL, of the model: see `simulate`."""
    made = shape(work)
    lives, state, base = _simulate(work, beats, table)
    log = state.read_log[: state.r[R["reads"]]]
    reads = Reads(log[:, 0] - base, log[:, 1] - base, log[:, 2], log[:, 3])
    within = np.concatenate([np.arange(beats) for beats in made.writes or (0,)])
    each = np.repeat(state.write_log - base, np.tile(made.writes, work.total).astype(np.int64))
    payload = each + np.tile(within, work.total) if made.writes else each
    return Record(lives, made, reads, payload)


def _simulate(work, beats, table):
    table = table or Stages()
    numbers = costs(table, work)
    state = new_state(numbers, shape(work), store_beats(work) if beats is None else beats)
    if _run(numbers, state) < 0:
        raise Stuck(f"{work}: nothing can happen any more")
    found = dict(zip(MILESTONES, state.at, strict=False))
    base = int(found["bell"][0])
    for column in found.values():
        never = column == FAR
        column -= base
        column[never] = NEVER
    table = {name: np.asarray(column) for name, column in found.items()}
    return Lifelines(work, table), state, base
