# SPDX-License-Identifier: Apache-2.0
"""Reads the completions of an RTL run with losses, for sweeps and for the comparison with the cycle
model.

Several messages may be outstanding, and each may be transmitted several times. The request id of a
completion names its message. No event names the message of the other milestones, so these are left
out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from efa_cosim.boundary.events import field, where
from efa_cosim.cycle.timelines import (
    MILESTONES,
    NEVER,
    SEND,
    Ints,
    MessageTimelines,
    TimelineError,
    from_events,
    order,
)

if TYPE_CHECKING:
    from efa_cosim.cycle.workload import Workload

REQUEST_IDS = 1 << 16


def of_run(work: Workload, run: Any) -> MessageTimelines:
    """Returns the MessageTimelines of an RTL run with the attributes of tb.cycle.timed.Timed: those
    of `completed` for a workload with losses. Raises TimelineError."""
    if work.loss:
        return completed(work, run.events, run.timestamps, run.queues)
    return from_events(work, run.events, run.timestamps, run.queues, run.numbers)


def completed(
    work: Workload, events: NDArray[Any], timestamps: Ints, indices: Sequence[int] | Ints
) -> MessageTimelines:
    """Returns the MessageTimelines of a run with losses: doorbells and send completions only.

    events, timestamps, indices: as for `from_events`. Raises TimelineError.
    """
    rings, ends = where(events, "db", kind=0), where(events, "cqe", q_type=SEND)
    if len(ends) != work.total or len(rings) != work.rounds * work.queues:
        raise TimelineError(f"{len(ends)} send completions and {len(rings)} doorbells, expected "
                            f"{work.total} and {work.rounds * work.queues}")
    if work.per_queue > REQUEST_IDS:
        raise TimelineError(f"{work.per_queue} messages of a queue: expected at most "
                            f"{REQUEST_IDS}, whose request ids tell them apart")
    queue, place = order(work)
    message = np.empty((work.queues, work.per_queue), np.int64)
    message[queue, place] = np.arange(work.total)
    number = np.argsort(indices)[np.searchsorted(np.sort(indices), field(ends, "cqe", "qpn"))]
    mine = message[number, field(ends, "cqe", "req_id")]
    base, post = int(timestamps[0]), np.arange(work.total) // work.batch
    table = {name: np.full(work.total, NEVER, np.int64) for name in MILESTONES}
    table["bell"] = timestamps.astype(np.int64)[post] - base
    table["db"] = rings["cycle"].astype(np.int64)[post] - base
    table["done"][mine] = ends["cycle"].astype(np.int64) - base
    if (table["done"] == NEVER).any():
        raise TimelineError(f"message {np.argmin(table['done'])} has no send completion, another "
                            "one has two")
    return MessageTimelines(work, table)
