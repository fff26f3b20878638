# SPDX-License-Identifier: Apache-2.0
"""Reads what the comparison with the cycle model needs of RTL runs with losses.

Several messages may be outstanding, and each may be transmitted several times. The request id of a
completion names its message. No event names the message of the other milestones, so these are left
out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from efa_cosim.boundary.events import field, where
from efa_cosim.cycle.timelines import (
    MILESTONES,
    NEVER,
    SEND,
    MessageTimelines,
    TimelineError,
    order,
)

if TYPE_CHECKING:
    from efa_cosim.cycle.workload import Workload
    from tb.cycle.timed import Timed

REQUEST_IDS = 1 << 16


def completed(work: Workload, run: Timed) -> MessageTimelines:
    """Returns the MessageTimelines of a run with losses: doorbells and send completions only.
    Raises TimelineError."""
    rings, ends = where(run.events, "db", kind=0), where(run.events, "cqe", q_type=SEND)
    if len(ends) != work.total or len(rings) != work.rounds * work.queues:
        raise TimelineError(f"{len(ends)} send completions and {len(rings)} doorbells, expected "
                            f"{work.total} and {work.rounds * work.queues}")
    if work.per_queue > REQUEST_IDS:
        raise TimelineError(f"{work.per_queue} messages of a queue: expected at most "
                            f"{REQUEST_IDS}, whose request ids tell them apart")
    queue, place = order(work)
    message = np.empty((work.queues, work.per_queue), np.int64)
    message[queue, place] = np.arange(work.total)
    number = np.argsort(run.queues)[np.searchsorted(np.sort(run.queues),
                                                    field(ends, "cqe", "qpn"))]
    mine = message[number, field(ends, "cqe", "req_id")]
    base, post = int(run.timestamps[0]), np.arange(work.total) // work.batch
    table = {name: np.full(work.total, NEVER, np.int64) for name in MILESTONES}
    table["bell"] = run.timestamps.astype(np.int64)[post] - base
    table["db"] = rings["cycle"].astype(np.int64)[post] - base
    table["done"][mine] = ends["cycle"].astype(np.int64) - base
    if (table["done"] == NEVER).any():
        raise TimelineError(f"message {np.argmin(table['done'])} has no send completion, another "
                            "one has two")
    return MessageTimelines(work, table)
