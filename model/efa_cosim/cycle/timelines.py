# SPDX-License-Identifier: Apache-2.0
"""Holds the timelines of all messages of a run as one table: a row per packet, a column per
milestone.

A message has one packet, unless it is an RDMA operation of more. Its rows follow each other, and
all of them show the milestones of the message.

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
# Milestones of a message, not of a packet.
ONCE = ("bell", "db", "wqe", "done")
NEVER = -1
UNKNOWN = -1
# Message numbers of a send queue, as in events.
NUMBERS = 1 << 16
PAYLOAD_CLIENT = 2
SEND, RECEIVE = 1, 2


class TimelineError(Exception):
    """The events do not cover every message; the text names what is missing."""


@dataclass(frozen=True)
class Clocks:
    """Counters of the device that never stop, in the cycle of the first doorbell store: cycles
    since the end of the reset, and since power-on; the message context of the first message, or
    UNKNOWN."""

    since_reset: int
    since_power_on: int
    context: int = UNKNOWN

    def before(self, cycles: int) -> Clocks:
        """Returns the counters so many cycles earlier."""
        return Clocks(self.since_reset - cycles, self.since_power_on - cycles, self.context)


class MessageTimelines:
    """Milestones in cycles, NEVER where a packet does not pass a milestone.

    table[name] is an array of all packets, by message in the order of the host's program.
    """

    def __init__(self, work: Workload, table: dict[str, Ints]) -> None:
        self.work, self.table = work, table

    def __getitem__(self, name: str) -> Ints:
        return self.table[name]

    def last(self, name: str) -> Ints:
        """Returns a milestone of the last packet of each message."""
        packets = self.work.packets
        return self[name][packets - 1 :: packets]

    @property
    def end(self) -> Ints:
        """Returns the cycle of the last milestone of each message: the send completion, or the
        receive completion if later (datagrams)."""
        return np.maximum(self.last("done"), self.last("cqe"))

    @property
    def latency(self) -> Ints:
        """Returns the cycles from the validated doorbell to the send completion (SRD) or the
        receive completion (UD)."""
        return self.last("done" if self.work.kind == "SRD" else "cqe") - self.last("db")


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
    packets = work.packets
    if packets > 1 and work.per_queue > NUMBERS:
        raise TimelineError(f"{work.per_queue} messages of {packets} packets in a queue: expected "
                            f"at most {NUMBERS}, whose numbers tell their packets apart")
    queue, place = order(work)
    # Rows of the packets of each queue, by message.
    rows = [((np.flatnonzero(queue == q)[np.argsort(place[queue == q], kind="stable")] * packets)[
        :, None] + np.arange(packets)).ravel() for q in range(work.queues)]
    srd = work.kind == "SRD"
    peer = np.roll(np.arange(work.queues), -1)
    table = {name: np.full(work.total * packets, NEVER, np.int64) for name in MILESTONES}

    def fill(
        name: str, found: NDArray[Any], which: str, key: str, keys: Sequence[int] | Ints,
        once: bool = False, numbered: bool = False, arrived: bool = False,
    ) -> None:
        """Fills a column with events in order per queue; keys[q] identifies queue q.

        once: one event per message; numbered: the events have the number of their message; arrived:
        the events are in the order in which the packets were sent
        """
        shown = field(found, which, key) if len(found) else np.zeros(0)
        for q in range(work.queues):
            own = found[shown == keys[q]]
            wanted = work.per_queue * (1 if once else packets)
            if len(own) != wanted:
                raise TimelineError(f"queue {q}: {len(own)} events '{name}', expected {wanted}, "
                                    f"one per {'packet' if wanted > work.per_queue else 'message'}")
            mine, goal = own["cycle"].astype(np.int64), rows[q]
            if packets > 1 and once:
                mine = np.repeat(mine, packets)
            elif packets > 1 and numbered:
                mine = mine[np.argsort(field(own, which, "msg"), kind="stable")]
            elif packets > 1 and arrived:
                goal = goal[np.argsort(table["tx_first"][goal], kind="stable")]
            table[name][goal] = mine

    index = np.asarray(indices)
    fill("wqe", of_kind(events, "wqe"), "wqe", "qpn", index, once=True)
    if work.reads:
        _packets_of_reads(table, events, work, rows, index, np.asarray(numbers))
    for name in () if work.reads else ("check", "tx_first", "tx_last"):
        fill(name, of_kind(events, name), name, "qpn", index, numbered=True)
    for name in () if work.reads else ("rx_first", "rx_last"):
        fill(name, where(events, name, opcode=opcode_of(work)), name, "src_qpn", numbers,
             arrived=True)
    for name in () if work.reads else ("rx_validated", "rx_data_done"):
        fill(name, of_kind(events, name), name, "qpn", index[peer], arrived=True)
    if work.receives:
        fill("cqe", where(events, "cqe", q_type=RECEIVE), "cqe", "qpn", index[peer], once=True)
        # The last packet completes the receive.
        table["cqe"].reshape(work.total, packets)[:, :-1] = NEVER
    elif len(where(events, "cqe", q_type=RECEIVE)):
        raise TimelineError(f"a receive completion in a run with operation {work.operation}: "
                            "expected none")
    fill("done", where(events, "cqe", q_type=SEND), "cqe", "qpn", index, once=True)
    if srd:
        _first_acknowledgements(table, events)
    post = np.arange(work.total * packets) // packets // work.batch
    rings = where(events, "db", kind=0)
    if len(rings) != work.rounds * work.queues or len(timestamps) != len(rings):
        raise TimelineError(
            f"{len(rings)} doorbell events and {len(timestamps)} recorded stores, expected "
            f"{work.rounds * work.queues} of each"
        )
    table["db"] = rings["cycle"].astype(np.int64)[post]
    table["bell"] = np.asarray(timestamps, np.int64)[post]
    if not work.inline:
        _reads(table, events, work)
    base = int(table["bell"][0])
    for column in table.values():
        column[column != NEVER] -= base
    return MessageTimelines(work, table)


def in_order(work: Workload, table: dict[str, Ints]) -> None:
    """Orders the responses to the reads of each queue by their transmission, as from_events does:
    no event tells the responses to two reads of a queue apart. Removes what no event reports."""
    first = np.arange(work.total * work.packets) % work.packets == 0
    table["check"][~first] = NEVER
    queue = np.repeat(order(work)[0], work.packets)
    for q in range(work.queues):
        rows = np.flatnonzero(~first & (queue == q))
        sent = rows[np.argsort(table["tx_first"][rows], kind="stable")]
        for name in set(table) - set(ONCE):
            table[name][rows] = table[name][sent]


def _packets_of_reads(
    table: dict[str, Ints], events: NDArray[Any], work: Workload, rows: list[Ints], index: Ints,
    numbers: Ints,
) -> None:
    """Fills the columns of the packets of reads. Packets arrive in the order of their transmission,
    and are validated in that order, too. The responses of a queue are in this order."""
    cycle = {name: of_kind(events, name)["cycle"].astype(np.int64)
             for name in ("tx_first", "tx_last", "rx_validated", "rx_data_done")}
    sent = of_kind(events, "tx_first")
    opcodes = (int(defs.PktOpcode.READ_REQUEST), int(defs.PktOpcode.READ_RESPONSE))
    came = {}
    for name in ("rx_first", "rx_last"):
        found = of_kind(events, name)
        came[name] = found[np.isin(field(found, name, "opcode"), opcodes)]
        cycle[name] = came[name]["cycle"].astype(np.int64)
    total = work.total * work.packets
    for name, wanted in (("tx_first", total), ("tx_last", total), ("rx_first", total),
                         ("rx_last", total), ("rx_validated", total),
                         ("rx_data_done", total)):
        if len(cycle[name]) != wanted:
            raise TimelineError(f"{len(cycle[name])} events '{name}', expected {wanted}, one per "
                                "packet")
    response = field(came["rx_first"], "rx_first", "opcode") == opcodes[1]
    # A response comes from the next queue of the ring.
    source = field(came["rx_first"], "rx_first", "src_qpn")
    place = np.empty(total, np.int64)
    for q, own in enumerate(rows):
        mine = own.reshape(-1, work.packets)
        checks = where(events, "check", qpn=int(index[q]))["cycle"].astype(np.int64)
        for name, which, goal in (
                ("check", checks, mine[:, 0]),
                ("rx_first", np.flatnonzero(~response & (source == numbers[q])), mine[:, 0]),
                ("rx_first", np.flatnonzero(response & (source == numbers[(q + 1) % len(rows)])),
                 mine[:, 1:].ravel())):  # fmt: skip
            if len(which) != len(goal):
                raise TimelineError(f"queue {q}: {len(which)} events '{name}', expected "
                                    f"{len(goal)}, one per packet")
            if name == "check":
                table[name][goal] = which
            else:
                place[which] = goal
    answers = field(sent, "tx_first", "length") > 0
    wrong = np.flatnonzero(answers != response)
    if len(wrong):
        raise TimelineError(f"packet {wrong[0]}: the one that left is not the one that came")
    for name, cycles in cycle.items():
        table[name][place] = cycles


def opcode_of(work: Workload) -> int:
    """Returns the opcode of the packets of a workload, not of reads."""
    if work.operation == "SEND":
        return int(defs.PktOpcode.SRD_SEND if work.kind == "SRD" else defs.PktOpcode.UD_SEND)
    return int(defs.PktOpcode.RDMA_WRITE)


def _first_acknowledgements(table: dict[str, Ints], events: NDArray[Any]) -> None:
    """Assigns to each packet the first acknowledgement that shows it."""
    from efa_cosim.cycle.acknowledgements import first_of, outcomes, shown

    left = of_kind(events, "ackout")["cycle"].astype(np.int64)
    acks = where(events, "rx_last", opcode=int(defs.PktOpcode.SRD_ACK))
    if len(acks) != len(left):
        raise TimelineError(f"{len(left)} events 'ackout', {len(acks)} acknowledgements arrived: "
                            "expected equal numbers")
    known = outcomes(table)
    in_order = np.argsort(known, kind="stable")
    first = first_of(shown(known[in_order], left), len(in_order))
    table["ackout"][in_order] = left[first]
    table["ack"][in_order] = acks["cycle"].astype(np.int64)[first]


def _reads(table: dict[str, Ints], events: NDArray[Any], work: Workload) -> None:
    """Assigns payload reads to packets in the order of their checks, equally many to each."""
    requested = where(events, "rd", client=PAYLOAD_CLIENT)
    responded = where(events, "rd_cpl", client=PAYLOAD_CLIENT)
    # Packets leave in the order of their checks. The request of a read has no payload.
    payload = np.flatnonzero(np.arange(len(table["tx_first"])) % work.packets >= work.reads)
    by_check = payload[np.argsort(table["tx_first"][payload], kind="stable")]
    total = len(payload)
    if len(requested) != len(responded) or len(requested) % total:
        raise TimelineError(
            f"{len(requested)} payload read requests, {len(responded)} completions, "
            f"{total} packets: expected equally many per packet"
        )
    each = len(requested) // total
    # The n-th use of a tag is completed by its n-th completion.
    tags, response_tags = field(requested, "rd", "tag"), field(responded, "rd_cpl", "tag")
    end = np.empty(len(requested), np.int64)
    end[np.argsort(tags, kind="stable")] = responded["cycle"][
        np.argsort(response_tags, kind="stable")
    ].astype(np.int64)
    table["rd"][by_check] = requested["cycle"].astype(np.int64).reshape(total, each).max(1)
    table["rd_cpl"][by_check] = end.reshape(total, each).max(1)
