# SPDX-License-Identifier: Apache-2.0
"""How work requests become stores: what libefa does between the caller and the CPU.

The order is the whole point: entries into LLQ memory, a fence, the doorbell. A batch is a list of
steps for the CPU, so that a laboratory can plant mistakes and interleave threads.
"""

from typing import NamedTuple

import numpy as np

from efa.codec import set_column
from efa.completion_queue import COUNTER_MASK
from efa.work_queue import WorkQueue


class Copy(NamedTuple):
    """Bytes into the ring of send entries: LLQ memory, in ascending 8-byte stores to
    write-combined memory, or host memory, where offset is an address."""

    offset: int
    data: bytes


class Fence(NamedTuple):
    """Everything stored before is on the bus before anything after."""


class Doorbell(NamedTuple):
    """The producer count of the send queue, to uncached memory."""

    value: int


class Provider:
    """The correct one. A queue pair asks it for the bookkeeping and for the steps of a post."""

    def work_queue(self, depth, generation, long_ids):
        """Bookkeeping of a send queue of so many slots."""
        return WorkQueue(depth, generation, long_ids)

    def post(self, qp, wqes):
        """Stores entries and rings: each step in its order on the process's CPU."""
        for step in self.steps(qp, wqes):
            self.do(qp, qp.context.wc, step)

    @staticmethod
    def do(qp, cpu, step):
        """One step on one CPU."""
        if isinstance(step, Copy) and qp.sq_base:
            qp.driver.memory.write(step.offset, step.data)
        elif isinstance(step, Copy):
            cpu.copy(step.offset, step.data)
        elif isinstance(step, Fence):
            cpu.flush()
        else:
            cpu.uncached(qp.driver.db_bar, qp.sq_db, step.value.to_bytes(4, "little"))

    def steps(self, qp, wqes):
        """A doorbell for each batch that the device allows."""
        first, count, size = qp.sq.produced, len(wqes), qp.wqe.SIZE
        phases = self.phases(qp, first + np.arange(count))
        set_column(qp.wqe, wqes, "meta.phase", phases)
        data, done = wqes.tobytes(), 0
        while done < count:
            run = min(self.batch(qp, first + done), count - done)
            yield from self.one_batch(qp, first + done, data[done * size : (done + run) * size])
            done += run
            qp.sq.produced = first + done

    def one_batch(self, qp, number, data):
        """Steps of the entries from a number on, up to their doorbell."""
        yield from self.copies(qp, number, data)
        yield Fence()
        yield self.doorbell(qp, number + len(data) // qp.wqe.SIZE)

    def phases(self, qp, numbers):
        """Phase bit of each entry: it changes with each pass over the ring."""
        return (qp.first_phase + numbers // qp.sq_depth) % 2

    def batch(self, qp, _number):
        """Most entries that may be stored now before a doorbell."""
        return qp.batch

    def copies(self, qp, number, data):
        """Entries into their slots, in two runs where the ring ends between them."""
        size, slot = qp.wqe.SIZE, number % qp.sq_depth
        ahead = (qp.sq_depth - slot) * size
        ring = qp.sq_base or qp.llq
        yield Copy(ring + slot * size, data[:ahead])
        if len(data) > ahead:
            yield Copy(ring, data[ahead:])

    def doorbell(self, _qp, number):
        """Announces everything below a number."""
        return Doorbell(number & COUNTER_MASK)
