# SPDX-License-Identifier: Apache-2.0
"""Holds what the reliable transport measures of a peer: efa_tx_pace and efa_tx_times."""

from __future__ import annotations

from efa_cosim.cycle import engine
from efa_cosim.cycle.costs import Costs
from efa_cosim.cycle.state import R
from efa_cosim.cycle.timelines import Ints

WINDOW, WIDE, SLOW, ROUND = R["pace_window"], R["pace_wide"], R["pace_slow"], R["pace_round"]
ROUND_SHORTEST, UNTIL = R["pace_shortest"], R["pace_until"]
KNOWN, SRTT_8, VARIANCE_4, PERIOD_END = (
    R["time_known"], R["time_srtt"], R["time_variance"], R["time_period"])  # fmt: skip
SHORTEST, SHORTEST_0, LONGEST, LONGEST_0 = (
    R["time_shortest"], R["time_shortest_0"], R["time_longest"], R["time_longest_0"])  # fmt: skip
LEAST_WINDOW = 2


@engine
def pace(now: int, c: Costs, r: Ints, trip: int) -> None:
    """Changes the congestion window by a round-trip time in ticks."""
    shortest = min(r[SHORTEST], r[SHORTEST_0])
    if r[KNOWN] == 0 or trip < shortest:
        shortest = trip
    target = shortest + shortest // 8 + c.queue_target
    window, slow = r[WINDOW], r[SLOW] == 1
    wider = min(window + 1, c.psns)
    if not slow and trip <= target:
        r[WINDOW] = wider
    least = trip if r[ROUND] == 0 else min(trip, r[ROUND_SHORTEST])
    r[ROUND_SHORTEST] = least
    r[ROUND] += 1
    if r[ROUND] < (max(window, c.round_packets) if slow else c.round_packets):
        return
    r[ROUND] = 0
    if least > target:
        r[SLOW] = 1
        # The division takes some cycles, in which the window stays.
        r[WIDE] = r[WINDOW]
        r[WINDOW] = max(LEAST_WINDOW, r[WINDOW] - r[WINDOW] * (least - target) // (2 * least))
        r[UNTIL] = now + c.pace_divides
    elif slow:
        r[WINDOW] = wider


@engine
def round_trip(c: Costs, r: Ints, trip: int, ticks: int) -> None:
    """Stores a round-trip time in ticks."""
    if r[KNOWN] == 0 or ticks >= r[PERIOD_END]:
        known = r[KNOWN] == 1
        r[SHORTEST_0] = r[SHORTEST] if known else trip
        r[LONGEST_0] = r[LONGEST] if known else trip
        r[SHORTEST] = r[LONGEST] = trip
        r[PERIOD_END] = ticks + c.time_period
    else:
        r[SHORTEST] = min(r[SHORTEST], trip)
        r[LONGEST] = max(r[LONGEST], trip)
    if r[KNOWN] == 0:
        r[KNOWN], r[SRTT_8], r[VARIANCE_4] = 1, 8 * trip, 2 * trip
    else:
        error = trip - r[SRTT_8] // 8
        r[SRTT_8] += error
        r[VARIANCE_4] += abs(error) - r[VARIANCE_4] // 4


@engine
def timeout(c: Costs, r: Ints) -> int:
    """Returns the timeout in ticks."""
    if r[KNOWN] == 0:
        first: int = c.rto_initial
        return first
    srtt = r[SRTT_8] // 8
    within = min(max(srtt + r[VARIANCE_4], srtt + srtt // 2), 3 * srtt)
    later: int = max(within, srtt + c.rto_margin)
    return later
