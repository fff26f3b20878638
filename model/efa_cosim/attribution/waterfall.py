# SPDX-License-Identifier: Apache-2.0
"""Attributes the cycles of every message of a run to service and named waits, stage by stage.

Service is the time on an idle device by spec/stages.yaml. Waits are derived by replaying each stage
(cycle.replay_*) from its inputs, from the other messages and the descriptors at the same ports, and
from the depths and latencies of spec/timing.yaml, without the recorded departure of the message
itself. A replay must match that departure to the cycle, for every message. Otherwise the run is
refused and the error names the stage; there is no category for unexplained cycles.

RTL and cycle model use the same replays (efa_cosim.cycle.record).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from efa_cosim.attribution.gaps import Ends, Gap, Services
from efa_cosim.attribution.replay_complete import Completing
from efa_cosim.attribution.replay_receive import Receiving
from efa_cosim.attribution.replay_send import Sending
from efa_cosim.attribution.replay_transport import Transport
from efa_cosim.cycle.record import Record, idle
from efa_cosim.cycle.stages import Stage, Stages, standard
from efa_cosim.cycle.timelines import NEVER, Ints, MessageTimelines


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

    stalls      cycles in which a beat waited, by stream (defs.PerfStream)
    open_sends  [(cycle, message contexts in use or reserved from then on)]
    """

    parts: list[Part]
    stalls: dict[str, int]
    open_sends: list[tuple[int, int]]


def attribute(record: Record, table: Stages | None = None) -> Attribution:
    """Returns the Attribution of a Record.

    Raises WaterfallError for a read or a message of several packets, if a replay does not match the
    recording, the parts do not sum to the latency of a message, or the table's services differ from
    the replays on an idle device.
    """
    table = table or standard()
    work = record.timelines.work
    if work.reads or work.packets > 1:
        raise WaterfallError(f"operation {work.operation}, {work.packets} packets of a message: "
                             "expected a send or a write of one packet, whose stages the waterfall "
                             "replays; the cycle model predicts others")
    for part in _attribute(idle(record.timelines.work, table), table).parts:
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
    timelines = record.timelines
    stages = [stage for stage in table.passed(record.made) if stage.end != "seen"]
    _present(timelines, stages)
    services: Services = {
        (stage.start, stage.end): table.cycles(stage, timelines.work, record.made)
        for stage in stages
    }
    replays = _replay(record, table, services)
    sending, receiving, gaps = replays.sending, replays.receiving, replays.gaps
    found = []
    for stage in stages:
        for cause in gaps[stage.start, stage.end].waits:
            if cause not in stage.waits:
                raise WaterfallError(f"spec/stages.yaml: '{stage.doc}' ({stage.start} to "
                                     f"{stage.end}) has no wait {cause!r}")
        gap, stamps = gaps[stage.start, stage.end], timelines[stage.end]
        found += [(int(stamps[message]), int(message), stage, f"ends in cycle {stamps[message]}, "
                   f"the replay in cycle {gap.ends[message]}")
                  for message in np.flatnonzero(gap.ends != stamps)]
    for (start, end), message, replayed, seen in sending.wrong + receiving.wrong:
        stage = next(one for one in stages if (one.start, one.end) == (start, end))
        found.append((seen, message, stage, f"a transfer at the host's port is in cycle {seen}, "
                      f"the replay in cycle {replayed}"))
    if found:
        _, message, stage, text = min(found, key=lambda one: one[:2])
        who = f"message {message}" if message >= 0 else "receive descriptors"
        raise WaterfallError(f"{who}: '{stage.doc}' ({stage.start} to {stage.end}) "
                             f"{text}; the first of {len(found)} differences")
    parts = []
    for stage in stages:
        gap, rest = gaps[stage.start, stage.end], table.rest(stage)
        parts.append(Part(stage.start, stage.end, stage.doc, stage.place, gap.begins, gap.service,
                          gap.waits, stage.first, rest,
                          table.cycles(rest, timelines.work, record.made) if rest else 0))
    stalls = {**replays.completing.stalls, "RD_TX": sending.read_stalls,
              "S_NET": receiving.flit_stalls, "WR_RX": receiving.write_stalls}  # fmt: skip
    return Attribution(parts, stalls, sending.open_sends)


def _present(timelines: MessageTimelines, stages: Iterable[Stage]) -> None:
    for stage in stages:
        for name in (stage.start, stage.end):
            missing = np.flatnonzero(timelines[name] == NEVER)
            if len(missing):
                raise WaterfallError(f"message {missing[0]}: '{stage.doc}' ({stage.start} to "
                                     f"{stage.end}) has no '{name}'")
        back = np.flatnonzero(timelines[stage.end] < timelines[stage.start])
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


def _replay(record: Record, table: Stages, services: Services) -> _Replays:
    """Executes the replays in the order of their dependencies."""
    timelines = record.timelines
    receiving = Receiving(record, table, services)
    receiving.validate()
    receiving.fabric()
    transport = Transport(record, table)
    completing = Completing(record, table, receiving, transport)
    sending = Sending(record, table, services, completing.looked_at, transport)
    begins = sending.responses() if timelines.work.sq_host or not timelines.work.inline else ()
    sending.checks()
    gaps = {(start, end): Gap(timelines[start], services[start, end])
            for start, end in services if (start, end) not in sending.gaps | receiving.gaps}
    gaps |= receiving.gaps
    if ("ack", "done") in gaps:
        transport.resolve(gaps["ack", "done"])
    completing.attribute(gaps)
    for begin in ("cqe", "rx_data_done"):
        if (begin, "ackout") in gaps:
            receiving.acknowledge(gaps[begin, "ackout"])
    sending.scheduler(completing.freed, begins)
    return _Replays(sending, receiving, completing, gaps | sending.gaps)
