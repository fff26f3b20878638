# SPDX-License-Identifier: Apache-2.0
"""The life of every message of a run as one table: a row a message, a column a milestone.

Milestones are the ev_* ports' moments (spec/events.yaml), found by queue and order: queues of a
workload send to one neighbour each, and everything of one queue keeps its order. The cycle model
gives the same table, so that whoever reads it does not ask where it came from.
"""

import numpy as np

from efa import defs
from efa.events import field, of_kind, where

# In the order of a message's way. `bell`: its doorbell store is driven; `rd`, `rdc`: its last
# host read asked and answered; `ack`: its acknowledgement came in; `done`: its send completion.
MILESTONES = ("bell", "db", "wqe", "check", "rd", "rdc", "txf", "txl", "rxf", "rxl", "rxv", "rxw",
              "cqe", "ackout", "ack", "done")  # fmt: skip
NEVER = -1
PAYLOAD_CLIENT = 2
SEND, RECEIVE = 1, 2


class LifelineError(Exception):
    """The events do not tell the life of every message; the text says what is missing."""


class Lifelines:
    """Milestones in cycles, NEVER where a message does not pass one.

    table[name] is an array in the order of the host's program; reads: host reads a message needs.
    """

    def __init__(self, work, table):
        self.work, self.table = work, table

    def __getitem__(self, name):
        return self.table[name]

    @property
    def end(self):
        """Cycle of each message's last milestone: its completion at the sender, or at the
        receiver where that is later (datagrams)."""
        return np.maximum(self["done"], self["cqe"])

    @property
    def latency(self):
        """Cycles from the doorbell, as judged, to the send completion (SRD) or the receive
        completion (UD)."""
        return (self["done"] if self.work.kind == "SRD" else self["cqe"]) - self["db"]


def order(work):
    """Queue and number within it of each message, in the order of the host's program."""
    turns = np.arange(work.total) // (work.queues * work.batch)
    queue = np.arange(work.total) // work.batch % work.queues
    return queue, turns * work.batch + np.arange(work.total) % work.batch


def from_events(work, events, marks, indices, numbers):
    """Lifelines of an RTL run: events, cycles of the doorbell stores, index and number of each
    queue pair. Raises LifelineError."""
    queue, place = order(work)
    srd = work.kind == "SRD"
    data = int(defs.PktOpcode.SRD_SEND if srd else defs.PktOpcode.UD_SEND)
    peer = np.roll(np.arange(work.queues), -1)
    table = {name: np.full(work.total, NEVER, np.int64) for name in MILESTONES}

    def fill(name, found, which, key, keys):
        """Events in order per queue become a column; keys[q] is how queue q shows."""
        shown = field(found, which, key) if len(found) else np.zeros(0)
        for q in range(work.queues):
            mine = found["cycle"][shown == keys[q]].astype(np.int64)
            rows = queue == q
            if len(mine) != work.per_queue:
                raise LifelineError(
                    f"queue {q}: {len(mine)} of '{name}', {work.per_queue} messages"
                )
            table[name][rows] = mine[place[rows]]

    index = np.asarray(indices)
    for name in ("wqe", "check", "txf", "txl"):
        fill(name, of_kind(events, name), name, "qpn", index)
    for name in ("rxf", "rxl"):
        fill(name, where(events, name, opcode=data), name, "src_qpn", numbers)
    fill("rxv", of_kind(events, "rxv"), "rxv", "qpn", index[peer])
    fill("rxw", of_kind(events, "rxw"), "rxw", "qpn", index[peer])
    fill("cqe", where(events, "cqe", q_type=RECEIVE), "cqe", "qpn", index[peer])
    fill("done", where(events, "cqe", q_type=SEND), "cqe", "qpn", index)
    if srd:
        fill("ackout", of_kind(events, "ackout"), "ackout", "dst_qpn", numbers)
        acks = where(events, "rxl", opcode=int(defs.PktOpcode.SRD_ACK))
        fill("ack", acks, "rxl", "dst_qpn", numbers)
    post = np.arange(work.total) // work.batch
    rings = where(events, "db", kind=0)
    if len(rings) != work.rounds * work.queues or len(marks) != len(rings):
        raise LifelineError(
            f"{len(rings)} doorbells, {len(marks)} marks, {work.rounds * work.queues} were stored"
        )
    table["db"] = rings["cycle"].astype(np.int64)[post]
    table["bell"] = np.asarray(marks, np.int64)[post]
    if not work.inline:
        _reads(table, events)
    base = int(table["bell"][0])
    for column in table.values():
        column[column != NEVER] -= base
    return Lifelines(work, table)


def _reads(table, events):
    """Payload reads belong to messages in the order of their checks, the same number to each."""
    asked = where(events, "rd", client=PAYLOAD_CLIENT)
    answered = where(events, "rdc", client=PAYLOAD_CLIENT)
    total = len(table["check"])
    if len(asked) != len(answered) or len(asked) % total:
        raise LifelineError(
            f"{len(asked)} payload reads, {len(answered)} answers, {total} messages"
        )
    each = len(asked) // total
    # The n-th use of a tag is answered by its n-th answer.
    tags, answer_tags = field(asked, "rd", "tag"), field(answered, "rdc", "tag")
    end = np.empty(len(asked), np.int64)
    end[np.argsort(tags, kind="stable")] = answered["cycle"][
        np.argsort(answer_tags, kind="stable")
    ].astype(np.int64)
    by_check = np.argsort(table["check"], kind="stable")
    table["rd"][by_check] = asked["cycle"].astype(np.int64).reshape(total, each).max(1)
    table["rdc"][by_check] = end.reshape(total, each).max(1)
