# SPDX-License-Identifier: Apache-2.0
"""Finds the first acknowledgement that shows a packet of the reliable transport.

An acknowledgement shows every packet whose outcome its receiver has stored. One may therefore be
the first of many packets, and no event tells which ones. The cycles of the outcomes and of the
acknowledgements determine it: this file replays efa_ack_build for one peer.
"""

from __future__ import annotations

from efa_cosim.cycle.stages import Stages, standard
from efa_cosim.cycle.timelines import Ints, TimelineError

# The state is read one cycle after its choice. It has the outcomes that were stored before.
STATE_READ = 1


def first_shown(completed: Ints, left: Ints, table: Stages | None = None) -> list[int]:
    """Returns for each receive completion the number of the first acknowledgement that shows it.

    completed  cycles in which receive completions were written, in order; all of one peer
    left       cycles in which acknowledgements left, in order

    Raises TimelineError if the acknowledgements cannot be those of the completions.
    """
    table = table or standard()
    reported = table.latency("efa_cq.commit") + table.latency("efa_rx_retire.entry")
    due_after = table.latency("efa_rx_outcome.due") + 1
    stored_after = table.latency("efa_rx_outcome.due") + STATE_READ
    taken = (left - table.latency("efa_net_tx.flit")).tolist()
    came: list[int] = (completed + reported).tolist()
    shown: list[int] = []
    # Outcomes that have made an acknowledgement due, and those in the state that is read.
    causes = stored = number = 0
    # Each stage has the number of outcomes that its acknowledgement shows, 0 without one.
    due, chosen, middle, output = False, False, 0, 0
    cycle = came[0] if came else 0
    while len(shown) < len(came):
        if not (due or chosen or middle or output):
            cycle = max(cycle, came[causes] + due_after)
        while causes < len(came) and came[causes] + due_after <= cycle:
            due, causes = True, causes + 1
        leaves = number < len(taken) and taken[number] == cycle
        if leaves != (output > 0) and (leaves or number == len(taken)):
            raise TimelineError(f"an acknowledgement leaves in cycle {cycle}: expected "
                                f"{output > 0}, found {leaves}")
        if leaves:
            shown += [number] * (output - len(shown))
            number += 1
        if leaves or not output:
            while stored < len(came) and came[stored] + stored_after <= cycle:
                stored += 1
            output, middle = middle, stored if chosen else 0
            chosen, due = due, False
        cycle += 1
    return shown
