# SPDX-License-Identifier: Apache-2.0
"""Tells the packets of a message apart, by their column of State.at.

A read begins with its request, one flit without payload; its responses follow. All other packets of
a workload have the same length.
"""

from __future__ import annotations

from efa_cosim.cycle import engine
from efa_cosim.cycle.costs import Costs


@engine
def is_request(c: Costs, row: int) -> bool:
    """Returns True if a packet is the request of a read."""
    request: bool = c.reading and row % c.packets == 0
    return request


@engine
def flits_of(c: Costs, row: int) -> int:
    """Returns the flits of a packet."""
    flits: int = 1 if is_request(c, row) else c.flits
    return flits


@engine
def gathers(c: Costs, row: int) -> bool:
    """Returns True if a packet has payload from host memory."""
    has: bool = not c.inline and not is_request(c, row)
    return has


@engine
def writes(c: Costs, row: int) -> bool:
    """Returns True if a packet has payload for host memory."""
    has: bool = c.written and not is_request(c, row)
    return has


@engine
def claims(c: Costs, row: int) -> bool:
    """Returns True if a packet claims a receive WQE and completes it: the last one of a message."""
    last: bool = c.receives and row % c.packets == c.packets - 1
    return last
