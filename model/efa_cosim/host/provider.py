# SPDX-License-Identifier: Apache-2.0
"""Converts work requests into stores, as libefa does between the caller and the CPU.

The order is mandatory: WQEs to LLQ memory, a fence, the doorbell. A batch is a list of steps of a
CPU, so that the write-combine laboratory can plant bugs and interleave threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from efa_cosim.host.completion_queue import COUNTER_MASK
from efa_cosim.host.work_queue import WorkQueue
from efa_cosim.layouts.codec import set_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from efa_cosim.host.queue_pair import QueuePair
    from efa_cosim.host.wc import WcBuffer


class Copy(NamedTuple):
    """Bytes into the send ring: LLQ memory, written by ascending 8-byte stores to write-combined
    memory, or host memory, where offset is an address."""

    offset: int
    data: bytes


class Fence(NamedTuple):
    """All earlier stores reach the bus before any later store."""


class Doorbell(NamedTuple):
    """The producer index of the send queue, stored to uncached memory."""

    value: int


Step: TypeAlias = Copy | Fence | Doorbell


class Provider:
    """The correct provider. A queue pair uses its bookkeeping and its steps of a post."""

    def work_queue(self, depth: int, generation: int, long_ids: bool) -> WorkQueue:
        """Creates the bookkeeping of a send queue with depth slots."""
        return WorkQueue(depth, generation, long_ids)

    def post(self, qp: QueuePair, wqes: NDArray[Any]) -> None:
        """Stores WQEs and writes doorbells, step by step on the CPU of the process."""
        for step in self.steps(qp, wqes):
            self.do(qp, qp.context.wc, step)

    @staticmethod
    def do(qp: QueuePair, cpu: WcBuffer, step: Step) -> None:
        """Executes one step on one CPU."""
        if isinstance(step, Copy) and qp.sq_base:
            qp.driver.memory.write(step.offset, step.data)
        elif isinstance(step, Copy):
            cpu.copy(step.offset, step.data)
        elif isinstance(step, Fence):
            cpu.flush()
        else:
            cpu.uncached(qp.driver.db_bar, qp.sq_db, step.value.to_bytes(4, "little"))

    def steps(self, qp: QueuePair, wqes: NDArray[Any]) -> Iterator[Step]:
        """Steps of a post, with a doorbell after each batch that the device allows."""
        first, count, size = qp.sq.produced, len(wqes), qp.wqe.SIZE
        phases = self.phases(qp, first + np.arange(count))
        set_column(qp.wqe, wqes, "meta.phase", phases)
        data, done = wqes.tobytes(), 0
        while done < count:
            run = min(self.batch(qp, first + done), count - done)
            yield from self.one_batch(qp, first + done, data[done * size : (done + run) * size])
            done += run
            qp.sq.produced = first + done

    def one_batch(self, qp: QueuePair, number: int, data: bytes) -> Iterator[Step]:
        """Steps of one batch: WQEs from `number` on, a fence, the doorbell."""
        yield from self.copies(qp, number, data)
        yield Fence()
        yield self.doorbell(qp, number + len(data) // qp.wqe.SIZE)

    def phases(self, qp: QueuePair, numbers: NDArray[Any]) -> NDArray[Any]:
        """Phase bit of each WQE; it toggles at each wrap of the ring."""
        return (qp.first_phase + numbers // qp.sq_depth) % 2

    def batch(self, qp: QueuePair, _number: int) -> int:
        """Maximum number of WQEs that may be stored now before a doorbell."""
        return qp.batch

    def copies(self, qp: QueuePair, number: int, data: bytes) -> Iterator[Copy]:
        """Copies of WQEs into their slots, in two parts if the ring wraps between them."""
        size, slot = qp.wqe.SIZE, number % qp.sq_depth
        ahead = (qp.sq_depth - slot) * size
        ring = qp.sq_base or qp.llq
        yield Copy(ring + slot * size, data[:ahead])
        if len(data) > ahead:
            yield Copy(ring, data[ahead:])

    def doorbell(self, _qp: QueuePair, number: int) -> Doorbell:
        """The doorbell that posts all WQEs below a number."""
        return Doorbell(number & COUNTER_MASK)
