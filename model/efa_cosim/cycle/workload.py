# SPDX-License-Identifier: Apache-2.0
"""Defines the host's behaviour: the workload that RTL and cycle model both run.

A ring of queue pairs on one device: queue q sends to queue q + 1, or writes into its memory, and
every message passes the network port and the fabric. One CPU serves the queues in turn, with one
doorbell per `batch` WQEs. A queue with `depth` outstanding messages waits for the completion that
frees a slot. All receives are posted before the first send; a WRITE needs none.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from efa_cosim.cycle.timelines import Ints
from efa_cosim.host.wc import POLICIES, WcBuffer
from efa_cosim.layouts import defs

FLIT_BYTES = 64
# Maximum number of inline bytes in a send WQE of each size.
INLINE = {64: defs.LIMITS.inline_64, 128: defs.LIMITS.inline_128}
STORED_BYTES = 1024  # Maximum bytes of WQEs per doorbell.
SAMPLED_POSTS = 512
LOSS_SHARE = 1 << 16
KINDS = ("SRD", "UD")
OPERATIONS = ("SEND", "WRITE", "WRITE_IMM", "READ")
# Payload bytes of a packet of an RDMA operation, with the MTU of the profile `default`.
PACKET_BYTES = 4096
# Maximum bytes of a message. An RDMA operation has at most as many packets as the initial
# congestion window.
MOST_BYTES = {"SEND": 4096, **dict.fromkeys(
    OPERATIONS[1:], defs.TRANSPORT.cwnd_initial * PACKET_BYTES)}  # fmt: skip
LIMITS = {
    "size": (0, max(MOST_BYTES.values())), "queues": (1, 64), "depth": (1, 1024), "batch": (1, 16),
    "messages": (1, 1 << 24), "read_latency": (1, 100_000), "write_latency": (1, 100_000),
    "net_latency": (1, 100_000), "buffers": (1, 2), "gap": (0, 1 << 20), "seed": (0, (1 << 31) - 1),
    "cq_batch": (0, 1024), "sq_host": (0, 1), "loss": (0, LOSS_SHARE // 2),
    "late": (0, 1 << 20),
}  # fmt: skip


class WorkloadError(ValueError):
    """These values are not a valid workload; the text names the value and the limits."""


@dataclass(frozen=True)
class Workload:
    """One point: sizes in bytes, times in cycles.

    operation  SEND; WRITE, WRITE_IMM: RDMA write without and with immediate; READ: RDMA read; of
              one packet with payload or of whole ones of PACKET_BYTES
    depth     maximum number of outstanding messages of a queue
    batch     WQEs per doorbell, at most depth
    messages  of all queues together; rounded down to whole rounds of all queues
    gap       0: closed loop, the host stores as soon as slots are free. Else open loop: the
              stores of a doorbell begin `gap` cycles after those of the one before
    buffers   1, or 2 that share the bytes, the first in whole lines
    entry_bytes  size of a send WQE: 64 or 128
    cq_batch  send completions of a queue per doorbell of its completion queue; 0: no doorbell
    policy    eviction policy of the CPU's store buffer (efa_cosim.host.wc.POLICIES)
    sq_host   1: WQEs are in host memory, from where the device fetches them; their stores do not
              use the bus, so the policy has no effect
    loss      packets and acknowledgements that the fabric loses, of 65,536; not 0: sends and writes
              of kind SRD, of one packet
    late      not 0: the host posts the receive of a message so many cycles after the time of its
              doorbell (open loop only, sends, one message at a time); the cycle model refuses it
    """

    kind: str = "SRD"
    size: int = 64
    queues: int = 1
    depth: int = 1
    batch: int = 1
    messages: int = 1024
    buffers: int = 1
    policy: str = "ideal"
    read_latency: int = 125
    write_latency: int = 60
    net_latency: int = 50
    gap: int = 0
    seed: int = 1
    entry_bytes: int = 64
    cq_batch: int = 0
    sq_host: int = 0
    loss: int = 0
    late: int = 0
    operation: str = "SEND"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise WorkloadError(f"kind {self.kind!r}: expected one of {', '.join(KINDS)}")
        if self.policy not in POLICIES:
            raise WorkloadError(f"policy {self.policy!r}: expected one of {', '.join(POLICIES)}")
        for name, (least, most) in LIMITS.items():
            value = getattr(self, name)
            if not isinstance(value, int) or not least <= value <= most:
                raise WorkloadError(f"{name} {value!r}: expected a whole number, {least} to {most}")
        if self.entry_bytes not in INLINE:
            raise WorkloadError(f"entry_bytes {self.entry_bytes!r}: expected 64 or 128")
        if isinstance(self.batch, int) and self.batch * self.entry_bytes > STORED_BYTES:
            raise WorkloadError(f"batch {self.batch} with entry_bytes {self.entry_bytes}: expected "
                                f"at most {STORED_BYTES // self.entry_bytes}")
        self._check_operation()
        if self.buffers == 2 and self.size <= 2 * FLIT_BYTES:
            raise WorkloadError(f"buffers 2 with size {self.size}: expected at least "
                                f"{2 * FLIT_BYTES + 1} bytes")
        if self.batch > self.depth:
            raise WorkloadError(f"batch {self.batch} with depth {self.depth}: expected at most the "
                                "depth")
        self._check_again()
        if self.messages < self.queues * self.batch:
            raise WorkloadError(
                f"messages {self.messages}: expected at least one doorbell for each queue, "
                f"{self.queues * self.batch}"
            )

    def _check_again(self) -> None:
        if self.again and (self.kind != "SRD" or self.reads or self.packets > 1):
            raise WorkloadError(f"loss {self.loss} and late {self.late} with kind {self.kind}, "
                                f"operation {self.operation} and {self.packets} packets: expected "
                                "sends or writes of kind SRD, of one packet")
        if self.late and max(self.queues, self.depth, self.batch) > 1:
            raise WorkloadError(f"late {self.late} with queues {self.queues} and depth "
                                f"{self.depth}: expected one message at a time")
        if self.late and (self.loss or not self.gap or self.operation != "SEND"):
            raise WorkloadError(f"late {self.late} with loss {self.loss}, gap {self.gap} and "
                                f"operation {self.operation}: expected sends in an open loop "
                                "without loss")

    def _check_operation(self) -> None:
        if self.operation not in OPERATIONS:
            raise WorkloadError(f"operation {self.operation!r}: expected one of "
                                f"{', '.join(OPERATIONS)}")
        if self.size > MOST_BYTES[self.operation]:
            raise WorkloadError(f"size {self.size} with operation {self.operation}: expected at "
                                f"most {MOST_BYTES[self.operation]}")
        if self.operation == "SEND":
            return
        if self.kind != "SRD" or self.buffers != 1:
            raise WorkloadError(f"operation {self.operation} with kind {self.kind} and buffers "
                                f"{self.buffers}: expected kind SRD and one buffer")
        if self.size > PACKET_BYTES and self.size % PACKET_BYTES:
            raise WorkloadError(f"size {self.size} with operation {self.operation}: expected at "
                                f"most {PACKET_BYTES}, or a multiple of it: all packets of a "
                                "workload have the same length")

    @property
    def again(self) -> bool:
        """Returns True if messages may be sent again: after losses, or before their receives."""
        return self.loss > 0 or self.late > 0

    @property
    def rounds(self) -> int:
        """Returns the number of doorbells of each queue."""
        return self.messages // (self.queues * self.batch)

    @property
    def total(self) -> int:
        """Returns the number of messages actually sent."""
        return self.rounds * self.queues * self.batch

    @property
    def per_queue(self) -> int:
        """Returns the number of messages of one queue."""
        return self.rounds * self.batch

    @property
    def pieces(self) -> tuple[int, ...]:
        """Returns the bytes of each buffer of a message from host memory."""
        if self.buffers == 1:
            return (self.size,)
        first = -(-self.size // 2 // FLIT_BYTES) * FLIT_BYTES or self.size
        return (first, self.size - first)

    @property
    def receives(self) -> bool:
        """Returns True if a message, with its last packet, completes a receive."""
        return self.operation in ("SEND", "WRITE_IMM")

    @property
    def reads(self) -> bool:
        """Returns True if a message is a request, which is its first packet, and its responses."""
        return self.operation == "READ"

    @property
    def parts(self) -> int:
        """Returns the number of packets that carry the payload of a message. An empty one is such a
        packet, too, but a read of 0 bytes has no response."""
        return -(-self.size // PACKET_BYTES) or int(not self.reads)

    @property
    def packets(self) -> int:
        """Returns the number of packets of a message."""
        return self.parts + self.reads

    @property
    def inline(self) -> bool:
        """Returns True if no payload is read from host memory: it is inline in the send WQE, or the
        message is empty."""
        if self.reads or (self.operation != "SEND" and self.entry_bytes == min(INLINE)):
            return self.size == 0
        return self.size <= INLINE[self.entry_bytes]

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values for JSON."""
        return asdict(self)

    def setting(self) -> dict[str, Any]:
        """Returns the values as the configuration of a Measurement (efa_cosim.measure.record)."""
        names = ("kind", "size", "queues", "depth", "batch", "sq_host", "seed")
        renamed = {"host_read_latency": self.read_latency, "store_buffer": self.policy}
        own = ("operation", "buffers", "write_latency", "net_latency", "gap", "entry_bytes",
               "cq_batch")
        return {**{name: getattr(self, name) for name in names}, **renamed,
                "loss": self.loss / LOSS_SHARE,
                "configuration": {name: getattr(self, name) for name in own}}

    def __str__(self) -> str:
        own = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if getattr(self, field.name) != field.default or field.name in ("kind", "size")
        }
        return ", ".join(f"{name} {value}" for name, value in own.items())


def consumer_index(workload: Workload, must: int) -> int:
    """Returns the consumer index of the CQ doorbell before a post that waited for `must`
    completions of its queue; 0 if there is no CQ doorbell."""
    if workload.cq_batch == 0 or must <= 0:
        return 0
    seen, before = must // workload.cq_batch, (must - workload.batch) // workload.cq_batch
    return seen * workload.cq_batch if seen > max(0, before) else 0


def store_beats(workload: Workload) -> Ints:
    """Returns the bus beats of the stores of each doorbell, without the doorbell itself.

    An array to be used cyclically: the result of the policy for SAMPLED_POSTS posts by one CPU.
    """
    if workload.sq_host:
        return np.zeros(1, np.int64)
    lines = workload.batch * workload.entry_bytes // FLIT_BYTES
    counts, beats = [], []
    buffer = WcBuffer(lambda pieces: counts.append(len(pieces)), workload.policy, workload.seed)
    posts = min(workload.rounds * workload.queues, SAMPLED_POSTS)
    for post in range(posts):
        buffer.copy(post * lines * FLIT_BYTES, bytes(lines * FLIT_BYTES))
        buffer.flush()
        beats.append(sum(counts))
        counts.clear()
    return np.array(beats, np.int64)
