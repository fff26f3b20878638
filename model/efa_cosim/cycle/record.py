# SPDX-License-Identifier: Apache-2.0
"""Holds the record of a run for the waterfall: milestones, host reads and host writes.

The source is the RTL (events and handshakes at the pins) or the cycle model (its own log).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from efa_cosim.boundary.events import field, of_kind, where
from efa_cosim.cycle.attempts import Attempts, sent_again
from efa_cosim.cycle.costs import SCAN
from efa_cosim.cycle.stages import LINE, Shape, Stages, shape
from efa_cosim.cycle.timelines import (
    MILESTONES,
    NEVER,
    PAYLOAD_CLIENT,
    Clocks,
    Ints,
    MessageTimelines,
    TimelineError,
    from_events,
)
from efa_cosim.layouts import defs

if TYPE_CHECKING:
    from efa_cosim.cycle.workload import Workload

READ_PORT, WRITE_PORT = 1, 3
PERIOD = 64
DESCRIPTORS, ENTRIES = -1, -1 << 20
ENTRY_CLIENT = 3


@dataclass(frozen=True)
class Reads:
    """Host reads in the order of their requests.

    requested    cycle of the request at the pins
    ended    cycle in which the completion reaches the requester
    beats    beats of the completion
    message  row of the packet of a payload read; DESCRIPTORS minus the ring (number of the
             receiving queue) of a read of receive descriptors; ENTRIES of a read of send WQEs
    """

    requested: Ints
    ended: Ints
    beats: Ints
    message: Ints

    @property
    def of_entries(self) -> NDArray[np.bool_]:
        """Returns True for reads of send WQEs."""
        which: NDArray[np.bool_] = self.message == ENTRIES
        return which

    @property
    def of_rings(self) -> NDArray[np.bool_]:
        """Returns True for reads of receive descriptors."""
        return (self.message < 0) & ~self.of_entries


@dataclass(frozen=True)
class Acknowledgements:
    """Acknowledgements in order: cycles in which each left and arrived, and the number of packets
    that it shows."""

    left: Ints
    came: Ints
    shows: Ints


@dataclass(frozen=True)
class Record:
    """One run: milestones, host reads, payload writes.

    payload  cycles in which beats of received payload were handed to the host write stream
    clocks   counters of the device in cycle 0
    acks     none in a run of UD
    beats    bus beats of the stores before each doorbell, used cyclically
    accepted cycle in which each read request was accepted, by its row; NEVER: not known, or none
    attempts transmissions of a run with losses, else None
    """

    timelines: MessageTimelines
    made: Shape
    reads: Reads
    payload: Ints
    clocks: Clocks
    acks: Acknowledgements
    beats: Ints
    accepted: Ints
    attempts: Attempts | None = None

    @property
    def passes(self) -> int:
        """Returns the cycle, modulo 64, in which packets that wait for descriptors are examined
        again."""
        return (-self.clocks.since_reset - 1) % PERIOD


class Run(Protocol):
    """What a record needs of a run on the RTL; see tb.cycle.timed.Timed."""

    @property
    def events(self) -> NDArray[Any]: ...

    @property
    def pins(self) -> NDArray[Any]: ...

    @property
    def beats(self) -> Ints: ...

    @property
    def rings(self) -> Ints: ...

    @property
    def clocks(self) -> Clocks: ...

    @property
    def timestamps(self) -> Ints: ...

    @property
    def queues(self) -> Ints: ...

    @property
    def numbers(self) -> Ints: ...


def from_rtl(work: Workload, run: Run) -> Record:
    """Returns the Record of a tb.cycle.timed.Timed; raises TimelineError if events are missing."""
    made, base = shape(work), int(run.timestamps[0])
    attempts = None
    if work.again:
        timelines, attempts = sent_again(work, run.events, run.timestamps, len(made.reads))
    else:
        timelines = from_events(work, run.events, run.timestamps, run.queues, run.numbers)
    return Record(timelines, made, _reads(timelines, made, run, base, attempts),
                  _payload(timelines, made, run.pins, base), run.clocks,
                  _acknowledgements(timelines, run, base), run.beats, _none(timelines),
                  attempts)


def idle(work: Workload, table: Stages) -> Record:
    """Returns the Record of a single message on an idle device, from the tables of Stages."""
    work = replace(work, queues=1, depth=1, batch=1, messages=1, gap=0)
    made, at = shape(work), table.moments(work)
    timelines = MessageTimelines(work, {name: np.array([at.get(name, NEVER)], np.int64)
                             for name in MILESTONES})
    beats = np.array(made.reads, np.int64)
    number = np.arange(len(beats))
    requested = timelines["rd"][0] - len(beats) + 1 + number
    ended = timelines["rd_cpl"][0] - beats.sum() + np.cumsum(beats)
    message = 0 * number
    if work.sq_host:
        lines = work.entry_bytes // LINE
        first = at["db"] + table.latency("efa_sq_fetch.read") + table.latency("efa_dma_rd.request")
        last = (first + work.read_latency + table.parameters["bus"] + lines - 1
                + table.latency("efa_dma_rd.beat"))
        requested, ended, beats, message = (
            np.concatenate([[own], rest]) for own, rest in
            ((first, requested), (last, ended), (lines, beats), (ENTRIES, message)))
    payload = timelines["rx_data_done"][0] - sum(made.writes) + np.arange(sum(made.writes))
    count = int(work.kind == "SRD")
    acks = Acknowledgements(timelines["ackout"][:count], timelines["ack"][:count],
                            np.ones(count, np.int64))
    return Record(timelines, made, Reads(requested, ended, beats, message), payload,
                  undisturbed(at, table), acks, np.full(1, at["bell"]), _none(timelines))


def _none(timelines: MessageTimelines) -> Ints:
    return np.full(len(timelines["db"]), NEVER, np.int64)


def undisturbed(at: dict[str, int], table: Stages) -> Clocks:
    """Returns clocks with which the timer finds the peer as soon as it has sent, so that its look
    is over before the acknowledgement."""
    sent = (at["wqe"] + table.latency("efa_skid.beat") + table.latency("efa_tx_route.item")
            + table.latency("efa_srd_sender.packet"))
    return Clocks(SCAN - sent - 1, 0)


def _acknowledgements(timelines: MessageTimelines, run: Run, base: int) -> Acknowledgements:
    left = of_kind(run.events, "ackout")["cycle"].astype(np.int64) - base
    came = where(run.events, "rx_last", opcode=int(defs.PktOpcode.SRD_ACK))["cycle"]
    shows = np.searchsorted(np.sort(timelines["ackout"]), left, side="right")
    return Acknowledgements(left, came.astype(np.int64) - base, shows)


def _reads(
    timelines: MessageTimelines, made: Shape, run: Run, base: int, attempts: Attempts | None
) -> Reads:
    requested, ended = of_kind(run.events, "rd"), of_kind(run.events, "rd_cpl")
    if len(requested) != len(ended):
        raise TimelineError(
            f"{len(requested)} host read requests, {len(ended)} completions: expected equal numbers"
        )
    # The n-th use of a tag is completed by its n-th completion.
    end = np.empty(len(requested), np.int64)
    end[np.argsort(field(requested, "rd", "tag"), kind="stable")] = ended["cycle"][
        np.argsort(field(ended, "rd_cpl", "tag"), kind="stable")].astype(np.int64)
    client = field(requested, "rd", "client")
    payload = client == PAYLOAD_CLIENT
    # Requests at the pins are in the order of their events; the address identifies the ring.
    where = run.pins["a"][run.pins["port"] == READ_PORT].astype(np.int64)
    if len(where) != len(requested):
        raise TimelineError(
            f"{len(requested)} host read events, {len(where)} requests at the pins: "
            "expected equal numbers"
        )
    rings = np.asarray(run.rings, np.int64)
    ring = np.argsort(rings)[np.searchsorted(np.sort(rings), where, "right") - 1]
    message = np.where(client == ENTRY_CLIENT, ENTRIES, DESCRIPTORS - ring)
    if made.reads:
        message[payload] = np.repeat(payload_rows(timelines) if attempts is None
                                     else attempts.message, len(made.reads))
    beats = -(-field(requested, "rd", "len").astype(np.int64) // 64)
    return Reads(requested["cycle"].astype(np.int64) - base, end - base, beats, message)


def payload_rows(timelines: MessageTimelines) -> Ints:
    """Returns the rows of packets with payload, in the order of their transmission."""
    work = timelines.work
    rows = np.arange(len(timelines["tx_first"]))
    rows = rows[rows % work.packets >= int(work.reads)]
    found: Ints = rows[np.argsort(timelines["tx_first"][rows], kind="stable")]
    return found


def _payload(timelines: MessageTimelines, made: Shape, pins: NDArray[Any], base: int) -> Ints:
    """Returns the beats of the write port that are not CQEs; a beat is at the pins one cycle after
    its handover."""
    handed = pins["cycle"][pins["port"] == WRITE_PORT].astype(np.int64) - base - 1
    entries = np.concatenate([timelines["cqe"], timelines["done"]])
    entries = entries[entries != NEVER]
    missing = np.setdiff1d(entries, handed)
    if len(missing):
        raise TimelineError(f"the completion handed over in cycle {missing[0]} is not at the pins "
                            "one cycle later: the host's write port must not stall")
    found = np.setdiff1d(handed, entries)
    wanted = sum(made.writes) * timelines.work.total * timelines.work.parts
    if len(found) != wanted:
        raise TimelineError(f"{len(found)} beats of received payload, expected {wanted}")
    return found
