"""Where the cycles of every message of a run went: service and named waits, stage by stage.

The service of a stage is what spec/stages.yaml says of an idle device; what a message spends there
beyond it is the stage's wait, which the same file names. Of overlapped reads the last one counts.
A wait is so what remains of a gap: it is not found independently of the stamps, and that the parts
sum to the latency shows that the stages meet, not that the cause of a wait is the true one.
RTL (cycle.lifelines.from_events) and cycle model (cycle.network.simulate) alike.
"""

import json
from dataclasses import dataclass

import numpy as np

from cycle.lifelines import NEVER
from cycle.stages import Stages, shape

MICROSECONDS_PER_CYCLE = 0.004  # 250 MHz


class WaterfallError(Exception):
    """The stages do not add up to a message's latency; the text names message and stage."""


@dataclass(frozen=True)
class Part:
    """One stage of all messages: begin, service and wait in cycles, an array each."""

    start: str
    end: str
    doc: str
    place: str
    cause: str
    begins: np.ndarray
    service: np.ndarray
    wait: np.ndarray


def attribute(lives, table=None):
    """A Part for each stage between a message's doorbell and its last completion.

    A gap shorter than its service counts as service as a whole. Raises WaterfallError when the
    stages of a message do not meet, one ends before it begins, or a wait has no name."""
    table = table or Stages()
    work = lives.work
    made = shape(work)
    parts, total = [], np.zeros(work.total, np.int64)
    for stage in table.passed(made):
        if stage.start == "bell" or stage.end == "seen":
            continue
        if work.kind == "UD" and stage.end == "done":
            continue
        begins, ends = lives[stage.start], lives[stage.end]
        if (begins == NEVER).any() or (ends == NEVER).any():
            raise WaterfallError(f"a message lacks '{stage.start}' or '{stage.end}'")
        service = np.full(work.total, table.cycles(stage, work, made), np.int64)
        gap = ends - begins
        # What overlaps with a neighbour may be shorter here: it is service all the same.
        service = np.minimum(service, gap)
        wait = gap - service
        if not stage.wait and wait.any():
            raise WaterfallError(f"{stage.start} to {stage.end}: a wait without a name")
        if (gap < 0).any():
            raise WaterfallError(f"'{stage.doc}' ends before it begins")
        parts.append(Part(stage.start, stage.end, stage.doc, stage.place, stage.wait, begins,
                          service, wait))
        total += gap
    wrong = np.flatnonzero(total != lives.latency)
    if len(wrong):
        raise WaterfallError(f"message {wrong[0]}: stages sum to {total[wrong[0]]} cycles, the "
                             f"latency is {lives.latency[wrong[0]]}")
    return parts


def message_at(lives, percent):
    """The message whose latency is the percentile's, the first of several."""
    wanted = np.percentile(lives.latency, percent, method="nearest")
    return int(np.flatnonzero(lives.latency == wanted)[0])


def of_message(parts, number):
    """Rows of one message: stage, service and wait in cycles, cause of the wait."""
    return [{"stage": part.doc, "place": part.place, "service": int(part.service[number]),
             "wait": int(part.wait[number]), "cause": part.cause} for part in parts]


def shares(parts):
    """Mean service and wait of each stage, in cycles."""
    return [{"stage": part.doc, "place": part.place, "service": float(part.service.mean()),
             "wait": float(part.wait.mean()), "cause": part.cause} for part in parts]


def trace(lives, parts, most=2000):
    """JSON trace events (Perfetto, chrome://tracing) of the first messages: a track a queue pair
    and place in its window, a slice a stage, its wait inside it."""
    work, events = lives.work, []
    for number in range(min(most, work.total)):
        queue = number // work.batch % work.queues
        row = number // (work.batch * work.queues) * work.batch + number % work.batch
        for part in parts:
            begin = int(part.begins[number])
            wait, service = int(part.wait[number]), int(part.service[number])
            for name, at, cycles in ((f"wait: {part.cause}", begin, wait),
                                     (part.doc, begin + wait, service)):
                if cycles:
                    events.append({"name": name, "cat": part.place, "ph": "X", "pid": queue,
                                   "tid": row % work.depth, "ts": at * MICROSECONDS_PER_CYCLE,
                                   "dur": cycles * MICROSECONDS_PER_CYCLE,
                                   "args": {"message": number, "cycles": cycles}})
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})
