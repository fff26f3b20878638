# SPDX-License-Identifier: Apache-2.0
"""Attributes the cycles of every message of a run to service and named waits, stage by stage.

Service is the time on an idle device by spec/stages.yaml. Waits are derived by replaying each stage
(attribution.replay_*) from its inputs, from the other messages and the descriptors at the same
ports, and from the depths and latencies of spec/timing.yaml, without the recorded departure of the
message itself. A replay must match that departure to the cycle, for every message. Otherwise the
run is refused and the error names the stage; there is no category for unexplained cycles.

RTL and cycle model use the same replays (efa_cosim.cycle.record).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from efa_cosim.attribution import retransmitted
from efa_cosim.attribution.gaps import Ends, Gap, Services, Wrong
from efa_cosim.attribution.reads import (
    MIDDLE,
    PredictionError,
    completed,
    idle_read,
    of_responses,
    packet_services,
)
from efa_cosim.attribution.replay_complete import Completing
from efa_cosim.attribution.replay_receive import Receiving
from efa_cosim.attribution.replay_send import Sending
from efa_cosim.attribution.replay_transport import Transport
from efa_cosim.attribution.rows import Bools, Rows, rows_of
from efa_cosim.cycle.record import Record, idle
from efa_cosim.cycle.stages import Stage, Stages, standard
from efa_cosim.cycle.timelines import NEVER, Ints, MessageTimelines
from efa_cosim.cycle.workload import PACKET_BYTES


class WaterfallError(Exception):
    """A message leaves a stage in another cycle than replayed; names stage, message, cycles."""


@dataclass(frozen=True)
class Part:
    """One stage of all messages: begin, service and each wait in cycles, an array each.

    first: name of the part before `rest`, the Stage that ends this stage in `ends_with` cycles."""

    start: str
    end: str
    doc: str
    place: str
    begins: Ints
    service: Ints
    waits: dict[str, Ints]
    first: str | None = None
    rest: Stage | None = None
    ends_with: int = 0

    @property
    def wait(self) -> Ints:
        """Returns the sum of the waits of each message."""
        return sum(self.waits.values(), np.zeros(len(self.begins), np.int64))


@dataclass(frozen=True)
class Attribution:
    """An attributed run: a Part for each stage between a message's doorbell and its last
    completion, and the replayed values of device counters (spec/perf_counters.yaml).

    stalls      cycles in which a beat waited, by stream (defs.PerfStream); {} of a run with losses
    open_sends  [(cycle, message contexts in use or reserved from then on)]
    """

    parts: list[Part]
    stalls: dict[str, int]
    open_sends: list[tuple[int, int]]


def attribute(record: Record, table: Stages | None = None) -> Attribution:
    """Returns the Attribution of a Record.

    Raises WaterfallError for a read of 0 bytes, if a replay does not match the recording, the parts
    do not sum to the latency of a message, or the table's services differ from the replays on an
    idle device.
    """
    table = table or standard()
    work = record.timelines.work
    if work.reads and not work.parts:
        raise WaterfallError(f"operation {work.operation} of 0 bytes: expected a response, whose "
                             "stages end the read")
    alone = replace(work, size=min(work.size, PACKET_BYTES), loss=0, late=0)
    if work.reads:
        try:
            record, quiet = completed(record), completed(idle_read(alone))
        except PredictionError as error:
            raise WaterfallError(str(error)) from None
    else:
        quiet = idle(alone, table)
    for part in _attribute(quiet, table).parts:
        for cause, cycles in part.waits.items():
            raise WaterfallError(f"spec/timing.yaml: '{part.doc}' ({part.start} to {part.end}) "
                                 f"waits {cycles[0]} cycles on an idle device, expected 0: {cause}")
    found, timelines = _attribute(record, table), record.timelines
    parts = [part for part in found.parts if part.start != "bell"
             and (part.end != "done" or timelines.work.kind == "SRD")]
    total = sum((part.service + part.wait for part in parts),
                np.zeros(len(timelines.latency), np.int64))  # fmt: skip
    wrong = np.flatnonzero(total != timelines.latency)
    if len(wrong):
        raise WaterfallError(f"message {wrong[0]}: stages sum to {total[wrong[0]]} cycles, the "
                             f"latency is {timelines.latency[wrong[0]]}")
    return replace(found, parts=parts)


def _attribute(record: Record, table: Stages) -> Attribution:
    timelines, work = record.timelines, record.timelines.work
    rows = rows_of(work, record.made)
    stages = [stage for stage in table.passed(record.made) if stage.end != "seen"]
    _present(timelines, stages, rows)
    services: Services = {
        (stage.start, stage.end): table.cycles(stage, work, record.made) for stage in stages
    }
    if work.reads:
        services = packet_services(services, work, table, rows)
    found: list[tuple[int, int, Stage, str]] = []
    if record.attempts is None:
        replays = _replay(record, table, services, rows)
        gaps, stalls, open_sends = replays.gaps, replays.stalls, replays.sending.open_sends
        differences = [(seen, row, stage, f"a transfer at the host's port is in cycle {seen}, the "
                        f"replay in cycle {replayed}")
                       for (_, end), row, replayed, seen in replays.wrong
                       for stage in stages if stage.end == end]
    else:
        gaps, wrong = retransmitted.replay(record, table, services)
        stalls, open_sends = {}, [(0, 0)]
        differences = [(seen, message, stage, text) for seen, message, ends, text in wrong
                       for stage in stages if (stage.start, stage.end) == ends]
    for stage in stages:
        gap, stamps = gaps[stage.start, stage.end], _milestone(timelines, stage.end)
        for cause, cycles in gap.waits.items():
            if cause not in stage.waits and cycles[rows.at(stage.end)].any():
                raise WaterfallError(f"spec/stages.yaml: '{stage.doc}' ({stage.start} to "
                                     f"{stage.end}) has no wait {cause!r}")
        differs: Bools = (gap.ends != stamps) & (stamps != NEVER) & (gap.begins != NEVER)
        if stage.end == "done" or {stage.start, stage.end} & set(MIDDLE):
            compared = np.zeros(rows.count, np.bool_)
            compared[rows.at(stage.end)] = True
            differs &= compared
        found += [(int(stamps[row]), int(row), stage, f"ends in cycle {stamps[row]}, "
                   f"the replay in cycle {gap.ends[row]}")
                  for row in np.flatnonzero(differs)]
    found += differences
    if found:
        _, row, stage, text = min(found, key=lambda one: one[:2])
        who = f"message {row // rows.packets}" if row >= 0 else "receive descriptors"
        raise WaterfallError(f"{who}: '{stage.doc}' ({stage.start} to {stage.end}) "
                             f"{text}; the first of {len(found)} differences")
    parts = []
    for stage in stages:
        gap, rest = gaps[stage.start, stage.end], table.rest(stage)
        mine = rows.at(stage.end)
        waits = {cause: cycles[mine] for cause, cycles in gap.waits.items() if cycles[mine].any()}
        parts.append(Part(stage.start, stage.end, stage.doc, stage.place, gap.begins[mine],
                          gap.service[mine], waits, stage.first, rest,
                          table.cycles(rest, work, record.made) if rest else 0))
    return Attribution(parts, stalls, open_sends)


def _milestone(timelines: MessageTimelines, name: str) -> Ints:
    return timelines[MIDDLE.get(name, name)]


def _present(timelines: MessageTimelines, stages: Iterable[Stage], rows: Rows) -> None:
    for stage in stages:
        begins, ends = (_milestone(timelines, name)[rows.at(name)]
                        for name in (stage.start, stage.end))
        for name, stamps in ((stage.start, begins), (stage.end, ends)):
            missing = np.flatnonzero(stamps == NEVER)
            if len(missing):
                raise WaterfallError(f"message {missing[0]}: '{stage.doc}' ({stage.start} to "
                                     f"{stage.end}) has no '{name}'")
        back = np.flatnonzero(ends < begins)
        if len(back):
            raise WaterfallError(f"message {back[0]}: '{stage.doc}' ({stage.start} to {stage.end}) "
                                 "ends before it begins")


@dataclass(frozen=True)
class _Replays:
    """The replays of all stages, and the gap of each stage."""

    sending: Sending
    receiving: Receiving
    completing: Completing
    gaps: dict[Ends, Gap]

    @property
    def wrong(self) -> list[Wrong]:
        """Returns the transfers at the host's ports that differ from the recording."""
        return self.sending.wrong + self.receiving.wrong

    @property
    def stalls(self) -> dict[str, int]:
        """Returns the cycles in which a beat waited, by stream."""
        return {**self.completing.stalls, "RD_TX": self.sending.read_stalls,
                "S_NET": self.receiving.flit_stalls, "WR_RX": self.receiving.write_stalls}


def _replay(record: Record, table: Stages, services: Services, rows: Rows) -> _Replays:
    """Executes the replays in the order of their dependencies."""
    timelines, work = record.timelines, record.timelines.work
    transport = Transport(record, table, rows)
    receiving = Receiving(record, table, services, transport, rows)
    receiving.validate()
    receiving.fabric()
    completing = Completing(record, table, receiving, transport, rows)
    sending = Sending(record, table, services, completing.looked_at, transport, rows)
    begins = sending.responses() if work.sq_host or not work.inline else ()
    sending.checks()
    made = sending.gaps | receiving.gaps
    gaps = {(start, end): Gap(timelines[start], services[start, end])
            for start, end in services
            if (start, end) not in made and not {start, end} & set(MIDDLE)}
    gaps |= receiving.gaps
    if work.reads:
        transport.place(gaps["rx_data_done", "done"])
    elif work.kind == "SRD":
        transport.resolve(gaps["ack", "done"])
    completing.attribute(gaps)
    for begin in ("cqe", "rx_data_done"):
        if (begin, "ackout") in gaps:
            receiving.acknowledge(gaps[begin, "ackout"])
    sending.scheduler(completing.freed, completing.completed, begins)
    gaps |= sending.gaps
    if work.reads:
        gaps |= of_responses(gaps, receiving.accepts, rows, services)
    return _Replays(sending, receiving, completing, gaps)
