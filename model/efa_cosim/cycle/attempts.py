# SPDX-License-Identifier: Apache-2.0
"""Holds the transmissions of a run in which messages are sent again, one message at a time.

The fabric loses packets and acknowledgements: a transmission may not arrive, and its
acknowledgement may not come back. A packet that arrives again is acknowledged again. A packet that
arrives before its receive was posted is refused, and sent again later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from efa_cosim.boundary.events import field, of_kind, where
from efa_cosim.cycle.timelines import (
    MILESTONES,
    NEVER,
    PAYLOAD_CLIENT,
    RECEIVE,
    SEND,
    Ints,
    MessageTimelines,
    TimelineError,
    opcode_of,
)
from efa_cosim.layouts import defs

if TYPE_CHECKING:
    from efa_cosim.cycle.workload import Workload

# Milestones of each transmission; those behind the first may be missing.
SENDING = ("check", "rd", "rd_cpl", "tx_first", "tx_last")
ARRIVING = {"rx_first": "tx_last", "rx_last": "rx_first", "rx_validated": "rx_last",
            "ackout": "rx_last", "ack": "ackout"}  # fmt: skip


@dataclass(frozen=True)
class Attempts:
    """All transmissions in order: the message of each, its milestones in cycles, NEVER for a
    transmission or an acknowledgement that was lost, and whether its packet was refused."""

    message: Ints
    table: dict[str, Ints]
    refused: NDArray[np.bool_]

    def of(self, message: int) -> Ints:
        """Returns the numbers of the transmissions of a message, in order."""
        return np.flatnonzero(self.message == message)

    def first(self, name: str, message: int) -> int:
        """Returns the number of the first transmission of a message that has a milestone and was
        not refused; raises TimelineError."""
        for attempt in self.of(message).tolist():
            if self.table[name][attempt] != NEVER and not self.refused[attempt]:
                return int(attempt)
        raise TimelineError(f"message {message}: no '{name}' of any transmission")


def sent_again(
    work: Workload, events: NDArray[Any], timestamps: Ints, reads: int
) -> tuple[MessageTimelines, Attempts]:
    """Returns the MessageTimelines of an RTL run in which messages are sent again, and its
    Attempts. Raises TimelineError.

    reads  host reads of the payload of a message

    The milestones of a message until its receive completion are those of the first transmission
    that arrived; `ackout` and `ack` are those of the first acknowledgement that came.
    """
    if max(work.queues, work.depth, work.batch) > 1:
        raise TimelineError(f"loss {work.loss} with queues {work.queues} and depth {work.depth}: "
                            "expected one message at a time, whose events tell its transmissions "
                            "apart")
    base = int(timestamps[0])
    cycles = {
        "db": where(events, "db", kind=0), "wqe": of_kind(events, "wqe"),
        **{name: of_kind(events, name) for name in ("check", "tx_first", "tx_last", "ackout",
                                                    "rx_validated", "rx_data_done")},
        **{name: where(events, name, opcode=opcode_of(work)) for name in ("rx_first", "rx_last")},
        "ack": where(events, "rx_last", opcode=int(defs.PktOpcode.SRD_ACK)),
        "cqe": where(events, "cqe", q_type=RECEIVE), "done": where(events, "cqe", q_type=SEND),
        "rd": where(events, "rd", client=PAYLOAD_CLIENT),
        "rd_cpl": where(events, "rd_cpl", client=PAYLOAD_CLIENT),
    }  # fmt: skip
    at = {name: found["cycle"].astype(np.int64) - base for name, found in cycles.items()}
    at["bell"] = np.asarray(timestamps, np.int64) - base
    once = ("bell", "db", "wqe", "rx_data_done", "done",
            *(("cqe",) if work.receives else ()))
    for name in once:
        if len(at[name]) != work.total:
            raise TimelineError(f"{len(at[name])} events '{name}', expected {work.total}, one per "
                                "message")
    count = len(at["check"])
    for name in ("tx_first", "tx_last"):
        if len(at[name]) != count:
            raise TimelineError(f"{len(at[name])} events '{name}', expected {count}, one per "
                                "'check'")
    for name in ("rd", "rd_cpl"):
        if len(at[name]) != count * reads:
            raise TimelineError(f"{len(at[name])} events '{name}', expected {count * reads}, "
                                f"{reads} per 'check'")
        at[name] = (at[name].reshape(count, reads).max(1) if reads
                    else np.full(count, NEVER, np.int64))
    message = np.searchsorted(at["db"], at["check"], side="right") - 1
    table = {name: at[name] for name in SENDING}
    # Each arrives before the next transmission leaves.
    refused = np.zeros(count, np.bool_)
    for name, before in ARRIVING.items():
        column = table[name] = np.full(count, NEVER, np.int64)
        sent = np.flatnonzero(table[before] != NEVER)
        place = sent[np.searchsorted(table[before][sent], at[name], side="right") - 1]
        column[place] = at[name]
        if name == "rx_validated":
            refused[place] = field(cycles[name], name, "status") != 0
        if len(np.unique(place)) != len(place):
            raise TimelineError(f"{len(place)} events '{name}', expected at most one for each "
                                f"'{before}'")
    attempts = Attempts(message, table, refused)
    first = np.array([attempts.first("rx_validated", one) for one in range(work.total)], np.int64)
    last = np.array([attempts.first("ack", one) for one in range(work.total)], np.int64)
    found = {name: np.full(work.total, NEVER, np.int64) for name in MILESTONES}
    found |= {name: at[name] for name in once}
    found |= {name: table[name][last if name in ("ackout", "ack") else first] for name in table}
    return MessageTimelines(work, found), attempts
