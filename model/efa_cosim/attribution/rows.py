# SPDX-License-Identifier: Apache-2.0
"""Holds the packets of a run by their rows: which have payload, which complete a receive, and which
packet the stages of a message are those of.

Rows are those of MessageTimelines: the packets of message m begin at m * packets of a message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from efa_cosim.cycle.stages import Shape
from efa_cosim.cycle.timelines import Ints
from efa_cosim.cycle.workload import Workload

Bools: TypeAlias = NDArray[np.bool_]
# Milestones of the request of a read, and of the WQE.
OF_REQUEST = ("bell", "db", "wqe", "check", "req_out", "req_in")


@dataclass(frozen=True)
class Rows:
    """Properties of each packet, an array of all rows each.

    total, packets  messages, packets of a message
    request  the packet is the request of a read
    gathers  it has payload from host memory; written: payload for host memory
    claims   it claims a receive WQE and completes it
    flits    its flits
    message, part  its message, its number in the message
    """

    total: int
    packets: int
    request: Bools
    gathers: Bools
    written: Bools
    claims: Bools
    flits: Ints
    message: Ints
    part: Ints

    @property
    def count(self) -> int:
        """Returns the number of rows."""
        return self.total * self.packets

    def at(self, milestone: str) -> Ints:
        """Returns the row of each message whose packet has a milestone of the message's path: the
        request of a read until it arrives, else the last packet."""
        asks = self.request.any() and milestone in OF_REQUEST
        return np.arange(self.total) * self.packets + (0 if asks else self.packets - 1)


def rows_of(work: Workload, made: Shape) -> Rows:
    """Returns the Rows of a workload; made: its Shape."""
    packets = work.packets
    message, part = np.divmod(np.arange(work.total * packets), packets)
    request = (part == 0) & work.reads
    return Rows(work.total, packets, request, ~request & (not work.inline),
                ~request & ("empty" not in made.facts), (part == packets - 1) & work.receives,
                np.where(request, 1, made.flits).astype(np.int64), message, part)
