# SPDX-License-Identifier: Apache-2.0
"""Derives latencies and rates from the events of a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from efa_cosim.boundary.events import of_kind, where

if TYPE_CHECKING:
    from numpy.typing import NDArray


class EventsMissing(Exception):
    """The events do not cover every message; the text names the counts."""


def latencies(events: NDArray[Any], qpn: int, peer: int, srd: bool) -> NDArray[np.int64]:
    """Cycles from doorbell to completion, per message of a queue with one message at a time.

    SRD: to the send completion, UD: to the receive completion. Raises EventsMissing."""
    rings = where(events, "db", kind=0, status=0, num=qpn)["cycle"]
    ends = where(events, "cqe", qpn=qpn if srd else peer, q_type=1 if srd else 2)["cycle"]
    if len(rings) != len(ends):
        raise EventsMissing(f"{len(rings)} doorbells, {len(ends)} completions: "
                            "expected one completion per doorbell")
    cycles: NDArray[np.int64] = (ends - rings).astype(np.int64)
    return cycles


def rate(events: NDArray[Any]) -> tuple[float, int]:
    """Messages per cycle of a burst, and their number. Raises EventsMissing.

    The interval extends from the first transmitted flit to the last completion. It contains every
    beat of every message on every port after the doorbell, so the rate cannot exceed a port limit.
    It also contains the latency of the first message, so a short burst has a lower rate."""
    sent, done = of_kind(events, "tx_first"), of_kind(events, "cqe")
    messages = len(where(events, "cqe", q_type=2))
    if not messages or len(sent) != messages or len(done) != 2 * messages:
        raise EventsMissing(f"{len(sent)} messages out, {messages} received, {len(done)} "
                            "completions: expected equal numbers and two completions per message")
    cycles = int(done["cycle"].max()) - int(sent["cycle"].min()) + 1
    return messages / cycles, messages
