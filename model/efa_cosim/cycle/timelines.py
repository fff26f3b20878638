# SPDX-License-Identifier: Apache-2.0
"""Holds the timelines of all messages of a run as one table: a row per message, a column per
milestone.

Milestones are events of the ev_* ports (spec/events.yaml), assigned by queue and order: each queue
of a workload sends to one neighbour, and all events of a queue keep their order. The cycle model
produces the same table, so consumers do not depend on the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from efa_cosim.boundary.events import field, of_kind, where
from efa_cosim.layouts import defs

if TYPE_CHECKING:
    from efa_cosim.cycle.workload import Workload

Ints: TypeAlias = NDArray[np.int64]

# In the order of a message's path. `bell`: its doorbell store is driven; `rd`, `rd_cpl`: request
# and completion of its last host read; `ack`: its acknowledgement arrived; `done`: send completion.
MILESTONES = (
    "bell",
    "db",
    "wqe",
    "check",
    "rd",
    "rd_cpl",
    "tx_first",
    "tx_last",
    "rx_first",
    "rx_last",
    "rx_validated",
    "rx_data_done",
    "cqe",
    "ackout",
    "ack",
    "done",
)
NEVER = -1
PAYLOAD_CLIENT = 2
SEND, RECEIVE = 1, 2


class TimelineError(Exception):
    """The events do not cover every message; the text names what is missing."""


@dataclass(frozen=True)
class Clocks:
    """Counters of the device that never stop, in the cycle of the first doorbell store: cycles
    since the end of the reset, and since power-on."""

    since_reset: int
    since_power_on: int

    def before(self, cycles: int) -> Clocks:
        """Returns the counters so many cycles earlier."""
        return Clocks(self.since_reset - cycles, self.since_power_on - cycles)


class MessageTimelines:
    """Milestones in cycles, NEVER where a message does not pass a milestone.

    table[name] is an array in the order of the host's program.
    """

    def __init__(self, work: Workload, table: dict[str, Ints]) -> None:
        self.work, self.table = work, table

    def __getitem__(self, name: str) -> Ints:
        return self.table[name]

    @property
    def end(self) -> Ints:
        """Returns the cycle of the last milestone of each message: the send completion, or the
        receive completion if later (datagrams)."""
        return np.maximum(self["done"], self["cqe"])

    @property
    def latency(self) -> Ints:
        """Returns the cycles from the validated doorbell to the send completion (SRD) or the
        receive completion (UD)."""
        return (self["done"] if self.work.kind == "SRD" else self["cqe"]) - self["db"]


def order(work: Workload) -> tuple[Ints, Ints]:
    """Returns queue of each message and its number within the queue, in the order of the host's
    program."""
    turns = np.arange(work.total) // (work.queues * work.batch)
    queue = np.arange(work.total) // work.batch % work.queues
    return queue, turns * work.batch + np.arange(work.total) % work.batch


def from_events(
    work: Workload,
    events: NDArray[Any],
    timestamps: Ints,
    indices: Sequence[int] | Ints,
    numbers: Sequence[int] | Ints,
) -> MessageTimelines:
    """Returns the MessageTimelines of an RTL run from events, cycles of the doorbell stores, index
    and number of each queue pair. Raises TimelineError."""
    queue, place = order(work)
    srd = work.kind == "SRD"
    data = int(defs.PktOpcode.SRD_SEND if srd else defs.PktOpcode.UD_SEND)
    peer = np.roll(np.arange(work.queues), -1)
    table = {name: np.full(work.total, NEVER, np.int64) for name in MILESTONES}

    def fill(
        name: str, found: NDArray[Any], which: str, key: str, keys: Sequence[int] | Ints
    ) -> None:
        """Fills a column with events in order per queue; keys[q] identifies queue q."""
        shown = field(found, which, key) if len(found) else np.zeros(0)
        for q in range(work.queues):
            mine = found["cycle"][shown == keys[q]].astype(np.int64)
            rows = queue == q
            if len(mine) != work.per_queue:
                raise TimelineError(
                    f"queue {q}: {len(mine)} events '{name}', expected {work.per_queue}, one per "
                    "message"
                )
            table[name][rows] = mine[place[rows]]

    index = np.asarray(indices)
    for name in ("wqe", "check", "tx_first", "tx_last"):
        fill(name, of_kind(events, name), name, "qpn", index)
    for name in ("rx_first", "rx_last"):
        fill(name, where(events, name, opcode=data), name, "src_qpn", numbers)
    fill("rx_validated", of_kind(events, "rx_validated"), "rx_validated", "qpn", index[peer])
    fill("rx_data_done", of_kind(events, "rx_data_done"), "rx_data_done", "qpn", index[peer])
    fill("cqe", where(events, "cqe", q_type=RECEIVE), "cqe", "qpn", index[peer])
    fill("done", where(events, "cqe", q_type=SEND), "cqe", "qpn", index)
    if srd:
        _first_acknowledgements(table, events)
    post = np.arange(work.total) // work.batch
    rings = where(events, "db", kind=0)
    if len(rings) != work.rounds * work.queues or len(timestamps) != len(rings):
        raise TimelineError(
            f"{len(rings)} doorbell events and {len(timestamps)} recorded stores, expected "
            f"{work.rounds * work.queues} of each"
        )
    table["db"] = rings["cycle"].astype(np.int64)[post]
    table["bell"] = np.asarray(timestamps, np.int64)[post]
    if not work.inline:
        _reads(table, events)
    base = int(table["bell"][0])
    for column in table.values():
        column[column != NEVER] -= base
    return MessageTimelines(work, table)


def _first_acknowledgements(table: dict[str, Ints], events: NDArray[Any]) -> None:
    """Assigns to each message the first acknowledgement that shows it."""
    from efa_cosim.cycle.acknowledgements import first_of, shown

    left = of_kind(events, "ackout")["cycle"].astype(np.int64)
    acks = where(events, "rx_last", opcode=int(defs.PktOpcode.SRD_ACK))
    if len(acks) != len(left):
        raise TimelineError(f"{len(left)} events 'ackout', {len(acks)} acknowledgements arrived: "
                            "expected equal numbers")
    by_cqe = np.argsort(table["cqe"], kind="stable")
    first = first_of(shown(table["cqe"][by_cqe], left), len(by_cqe))
    table["ackout"][by_cqe] = left[first]
    table["ack"][by_cqe] = acks["cycle"].astype(np.int64)[first]


def _reads(table: dict[str, Ints], events: NDArray[Any]) -> None:
    """Assigns payload reads to messages in the order of their checks, equally many to each."""
    requested = where(events, "rd", client=PAYLOAD_CLIENT)
    responded = where(events, "rd_cpl", client=PAYLOAD_CLIENT)
    total = len(table["check"])
    if len(requested) != len(responded) or len(requested) % total:
        raise TimelineError(
            f"{len(requested)} payload read requests, {len(responded)} completions, "
            f"{total} messages: expected equally many per message"
        )
    each = len(requested) // total
    # The n-th use of a tag is completed by its n-th completion.
    tags, response_tags = field(requested, "rd", "tag"), field(responded, "rd_cpl", "tag")
    end = np.empty(len(requested), np.int64)
    end[np.argsort(tags, kind="stable")] = responded["cycle"][
        np.argsort(response_tags, kind="stable")
    ].astype(np.int64)
    by_check = np.argsort(table["check"], kind="stable")
    table["rd"][by_check] = requested["cycle"].astype(np.int64).reshape(total, each).max(1)
    table["rd_cpl"][by_check] = end.reshape(total, each).max(1)
