"""Where the cycles of one message went, from what the device showed.

For a message on an otherwise idle device: every event between the doorbell and the last
completion is a milestone, each gap between neighbours is a stage, and the stages sum exactly to
the latency. A message whose milestones are not all there is refused.
"""

from dataclasses import dataclass

import numpy as np

from efa import defs
from efa.events import of_kind, where


class WaterfallError(Exception):
    """The events do not tell the whole way of a message; the text says what is missing."""


@dataclass(frozen=True)
class Stage:
    """Cycles between two milestones, and who spends them."""

    name: str
    start: int
    cycles: int
    where: str = ""


# Milestone: the stage that ends with it, and who is at work.
SENDER, HOST, FABRIC, RECEIVER = "sending device", "host", "fabric", "receiving device"
WAY = (
    ("wqe", "schedule, take the entry", SENDER),
    ("check", "check entry, keys, range", SENDER),
    ("rd", "ask the host for payload", SENDER),
    ("rdc", "host read, last answer", HOST),
    ("txf", "build header, first flit out", SENDER),
    ("txl", "rest of the packet out", SENDER),
    ("rxf", "to the receiver", FABRIC),
    ("rxl", "rest of the packet in", RECEIVER),
    ("rxv", "judge, claim a receive entry", RECEIVER),
    ("rxw", "payload written to the host", RECEIVER),
    ("cqe", "receive completion written", RECEIVER),
    ("ackout", "acknowledgement out", RECEIVER),
    ("ack", "back to the sender", FABRIC),
    ("done", "send completion written", SENDER),
)


def waterfall(events, qpn, peer, srd):
    """Stages of the only message in these events; qpn and peer are the indices of its queues.

    Returns a list of Stage, doorbell to send completion (SRD) or receive completion (UD)."""
    start = _one(where(events, "db", kind=0, verdict=0, num=qpn), "doorbell")
    at = {
        "wqe": _one(where(events, "wqe", qpn=qpn), "entry taken"),
        "check": _one(where(events, "check", qpn=qpn), "entry checked"),
        "txf": _one(where(events, "txf", qpn=qpn), "first flit out"),
        "txl": _one(where(events, "txl", qpn=qpn), "last flit out"),
        "rxv": _one(where(events, "rxv", qpn=peer), "packet judged"),
        "rxw": _one(where(events, "rxw", qpn=peer), "payload written"),
        "cqe": _one(where(events, "cqe", qpn=peer, q_type=2), "receive completion"),
    }
    reads = where(events, "rd", client=2)
    if len(reads):
        answers = where(events, "rdc", client=2)
        if len(answers) != len(reads):
            raise WaterfallError(f"{len(reads)} host reads, {len(answers)} answers")
        at["rd"] = int(reads["cycle"].max())
        at["rdc"] = int(answers["cycle"].max())
    data = int(defs.PktOpcode.SRD_SEND if srd else defs.PktOpcode.UD_SEND)
    at["rxf"] = _one(where(events, "rxf", opcode=data), "first flit in")
    at["rxl"] = _one(where(events, "rxl", opcode=data), "last flit in")
    if srd:
        at["ackout"] = _one(where(events, "ackout"), "acknowledgement out")
        at["ack"] = _one(
            where(events, "rxl", opcode=int(defs.PktOpcode.SRD_ACK)), "acknowledgement in"
        )
        at["done"] = _one(where(events, "cqe", qpn=qpn, q_type=1), "send completion")
    stages, before = [], start
    for name, text, place in WAY:
        if name not in at:
            continue
        # Two milestones may fall together or, across streams, change places by a cycle.
        if at[name] + 1 < before:
            raise WaterfallError(f"'{text}' ends {before - at[name]} cycles before it begins")
        now = max(at[name], before)
        stages.append(Stage(text, before - start, now - before, place))
        before = now
    end = at["done" if srd else "cqe"]
    if before != end:
        raise WaterfallError(f"stages sum to {before - start} cycles, the latency is {end - start}")
    return stages


def _one(found, what):
    if len(found) != 1:
        raise WaterfallError(f"{len(found)} events for '{what}', expected one")
    return int(found["cycle"][0])


def latencies(events, qpn, peer, srd):
    """Cycles from doorbell to the last completion for each message of a queue, one at a time."""
    rings = where(events, "db", kind=0, verdict=0, num=qpn)["cycle"]
    ends = where(events, "cqe", qpn=qpn if srd else peer, q_type=1 if srd else 2)["cycle"]
    if len(rings) != len(ends):
        raise WaterfallError(f"{len(rings)} doorbells, {len(ends)} completions")
    return (ends - rings).astype(np.int64)


def rate(events):
    """Messages per cycle of a burst, and how many they were.

    From the first flit out to the last completion, so that every beat of every message on every
    port behind the doorbell lies inside: what is measured so can never beat what a port allows.
    The way of the first message lies inside too, so a short burst shows less than a long one."""
    sent, done = of_kind(events, "txf"), of_kind(events, "cqe")
    messages = len(where(events, "cqe", q_type=2))
    if not messages or len(sent) != messages or len(done) != 2 * messages:
        raise WaterfallError(f"{len(sent)} messages out, {messages} received, "
                             f"{len(done)} completions")
    cycles = int(done["cycle"].max()) - int(sent["cycle"].min()) + 1
    return messages / cycles, messages
