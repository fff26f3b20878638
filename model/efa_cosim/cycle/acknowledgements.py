# SPDX-License-Identifier: Apache-2.0
"""Finds which packets the acknowledgements of the reliable transport show.

An acknowledgement shows every packet whose outcome its receiver has stored. One may therefore be
the first of many packets, and no event tells which ones. The cycles of the outcomes and of the
acknowledgements determine it: this file replays efa_ack_build for one peer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from efa_cosim.cycle.costs import reported
from efa_cosim.cycle.stages import Stages, standard
from efa_cosim.cycle.timelines import NEVER, Ints, TimelineError

# The state is read one cycle after its choice. It has the outcomes that were stored before.
STATE_READ = 1


def one_a_cycle(ready: Ints) -> Ints:
    """Returns the cycles of events that follow each other in order, one a cycle, from the cycles
    in which each may be."""
    place = np.arange(len(ready))
    found: Ints = np.maximum.accumulate(ready - place) + place
    return found


def outcomes(timelines: Mapping[str, Ints], table: Stages | None = None) -> Ints:
    """Returns the cycle in which efa_rx_retire reports the outcome of each packet, by its
    milestones."""
    entry, job = reported(table or standard())
    done, cqe = timelines["rx_data_done"], timelines["cqe"]
    order = np.argsort(done, kind="stable")
    due = np.maximum(done + job, np.where(cqe == NEVER, NEVER, cqe + entry))
    found = np.empty(len(order), np.int64)
    # In the order of the jobs.
    found[order] = one_a_cycle(due[order])
    return found


def build(
    known: Ints, may_leave: Callable[[int], bool], table: Stages
) -> list[tuple[int, int]]:
    """Returns for each acknowledgement the cycle in which it leaves, and the number of packets that
    it shows, until one shows all of them.

    known      cycles of the outcomes of packets, in order; all of one peer
    may_leave  of a cycle: True if the network sends the acknowledgement at the output
    """
    out = table.latency("efa_net_tx.flit")
    due_after = table.latency("efa_rx_outcome.due") + 1
    stored_after = due_after - 1 + STATE_READ
    came: list[int] = known.tolist()
    built: list[tuple[int, int]] = []
    # Packets that have made an acknowledgement due, and those in the state that is read.
    causes = stored = 0
    # Each stage has the number of packets that its acknowledgement shows, 0 without one.
    due, chosen, middle, output = False, False, 0, 0
    cycle = came[0]
    while not built or built[-1][1] < len(came):
        if not (due or chosen or middle or output):
            cycle = max(cycle, came[causes] + due_after)
        while causes < len(came) and came[causes] + due_after <= cycle:
            due, causes = True, causes + 1
        if output and may_leave(cycle + out):
            built.append((cycle + out, output))
            output = 0
        if not output:
            while stored < len(came) and came[stored] + stored_after <= cycle:
                stored += 1
            output, middle = middle, stored if chosen else 0
            chosen, due = due, False
        cycle += 1
    return built


def shown(known: Ints, left: Ints, table: Stages | None = None) -> Ints:
    """Returns the number of packets that each acknowledgement shows; see `build`.

    left  cycles in which acknowledgements left, in order

    Raises TimelineError if the acknowledgements cannot be those of the completions.
    """
    cycles, last = set(left.tolist()), int(left.max(initial=-1))

    def may_leave(cycle: int) -> bool:
        if cycle > last:
            raise TimelineError(f"no 'ackout' after cycle {last}: expected an acknowledgement of "
                                f"each of {len(known)} packets")
        return cycle in cycles

    built = np.array(build(known, may_leave, table or standard()), np.int64)
    wrong = np.flatnonzero(left[: len(built)] != built[:, 0])
    if len(wrong):
        raise TimelineError(f"'ackout' in cycle {left[wrong[0]]}: expected an acknowledgement in "
                            f"cycle {built[wrong[0], 0]}")
    # Later ones show nothing new.
    more = np.full(len(left) - len(built), len(known), np.int64)
    return np.concatenate([built[:, 1], more])


def first_of(shows: Ints, total: int) -> Ints:
    """Returns for each packet the number of the first acknowledgement that shows it."""
    return np.searchsorted(shows, np.arange(total), side="right")
