# SPDX-License-Identifier: Apache-2.0
"""Latencies and rates from what the device showed of itself."""

import numpy as np

from efa.events import of_kind, where


class EventsMissing(Exception):
    """The events do not tell of every message; the text says what is missing."""


def latencies(events, qpn, peer, srd):
    """Cycles from doorbell to the last completion for each message of a queue, one at a time."""
    rings = where(events, "db", kind=0, verdict=0, num=qpn)["cycle"]
    ends = where(events, "cqe", qpn=qpn if srd else peer, q_type=1 if srd else 2)["cycle"]
    if len(rings) != len(ends):
        raise EventsMissing(f"{len(rings)} doorbells, {len(ends)} completions")
    return (ends - rings).astype(np.int64)


def rate(events):
    """Messages per cycle of a burst, and how many they were.

    From the first flit out to the last completion, so that every beat of every message on every
    port behind the doorbell lies inside: what is measured so can never beat what a port allows.
    The way of the first message lies inside too, so a short burst shows less than a long one."""
    sent, done = of_kind(events, "txf"), of_kind(events, "cqe")
    messages = len(where(events, "cqe", q_type=2))
    if not messages or len(sent) != messages or len(done) != 2 * messages:
        raise EventsMissing(f"{len(sent)} messages out, {messages} received, "
                             f"{len(done)} completions")
    cycles = int(done["cycle"].max()) - int(sent["cycle"].min()) + 1
    return messages / cycles, messages
