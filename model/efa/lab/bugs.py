# SPDX-License-Identifier: Apache-2.0
"""Mistakes that providers make, each a switch of the host's layer.

    Node(backend, provider=planted("no_fence", seed))

The checker never sees these names: it has a list of its own for its verdicts.
"""

import random

import numpy as np

from efa.provider import Copy, Doorbell, Fence, Provider
from efa.wc import STORE_BYTES
from efa.work_queue import WorkQueue

# A thread runs so many steps at most before the other has its turn.
MOST_SLICE = 12


class NoFence(Provider):
    """No fence before the doorbell."""

    def one_batch(self, qp, number, data):
        for step in super().one_batch(qp, number, data):
            if not isinstance(step, Fence):
                yield step


class FenceTooEarly(Provider):
    """The fence comes before the last entry."""

    def one_batch(self, qp, number, data):
        size = qp.wqe.SIZE
        last = number + len(data) // size - 1
        if last > number:
            yield from self.copies(qp, number, data[:-size])
        yield Fence()
        yield from self.copies(qp, last, data[-size:])
        yield self.doorbell(qp, last + 1)


class DoorbellBeforeLastStore(Provider):
    """The last 8-byte store of a batch is moved behind its doorbell, and fenced there."""

    def one_batch(self, qp, number, data):
        *before, last = self.copies(qp, number, data)
        yield from before
        cut = len(last.data) - STORE_BYTES
        yield Copy(last.offset, last.data[:cut])
        yield Fence()
        yield self.doorbell(qp, number + len(data) // qp.wqe.SIZE)
        yield Copy(last.offset + cut, last.data[cut:])
        yield Fence()


class BatchTooLarge(Provider):
    """max_tx_batch is not looked at."""

    def batch(self, qp, _number):
        return qp.sq_depth


class SlotReused(Provider):
    """The bookkeeping takes the ring for twice as long as it is."""

    def work_queue(self, depth, generation, long_ids):
        return WorkQueue(2 * depth, generation, long_ids)


class WrapWrong(Provider):
    """The doorbell counts modulo the ring, or a batch runs on behind the ring's end."""

    def __init__(self, rng):
        self._masks = rng.random() < 0.5

    def doorbell(self, qp, number):
        if self._masks:
            return Doorbell(number % qp.sq_depth)
        return super().doorbell(qp, number)

    def copies(self, qp, number, data):
        if self._masks:
            yield from super().copies(qp, number, data)
        else:
            yield Copy(qp.llq + number % qp.sq_depth * qp.wqe.SIZE, data)


class StalePhase(Provider):
    """The phase bit stays what it was in the first lap."""

    def phases(self, qp, numbers):
        return np.full(len(numbers), qp.first_phase)


class HalfEntry(Provider):
    """Only the first half of each entry is copied."""

    def copies(self, qp, number, data):
        size = qp.wqe.SIZE
        for at in range(0, len(data), size):
            slot = (number + at // size) % qp.sq_depth
            yield Copy(qp.llq + slot * size, data[at : at + size // 2])


class DoorbellCoalesced(Provider):
    """A doorbell waits until a batch is full; nobody rings for what is left in the end."""

    def __init__(self, _rng):
        self._rung = {}

    def batch(self, qp, number):
        return qp.batch - (number - self._rung.get(qp, 0))

    def one_batch(self, qp, number, data):
        end = number + len(data) // qp.wqe.SIZE
        whole = end - self._rung.get(qp, 0) == qp.batch
        for step in super().one_batch(qp, number, data):
            if whole or not isinstance(step, Doorbell):
                yield step
        if whole:
            self._rung[qp] = end


class TwoThreads(Provider):
    """Two threads, each on a CPU of its own, post on one queue without a lock."""

    def __init__(self, rng):
        self._rng, self._other = rng, None

    def post(self, qp, wqes):
        if len(wqes) < 2:
            super().post(qp, wqes)
            return
        if self._other is None:
            self._other = qp.context.cpu(self._rng.random())
        cut = self._rng.randrange(1, len(wqes))
        threads = [(qp.context.wc, _stores(self.steps(qp, wqes[:cut].copy()))),
                   (self._other, _stores(self.steps(qp, wqes[cut:].copy())))]
        while threads:
            turn = self._rng.choice(threads)
            cpu, steps = turn
            for _ in range(self._rng.randint(1, MOST_SLICE)):
                step = next(steps, None)
                if step is None:
                    threads.remove(turn)
                    break
                self.do(qp, cpu, step)


def _stores(steps):
    """Steps with copies as the single stores of which they are made."""
    for step in steps:
        if isinstance(step, Copy):
            for at in range(0, len(step.data), STORE_BYTES):
                yield Copy(step.offset + at, step.data[at : at + STORE_BYTES])
        else:
            yield step


_PLAIN = {
    "no_fence": NoFence, "fence_early": FenceTooEarly, "doorbell_early": DoorbellBeforeLastStore,
    "batch_over": BatchTooLarge, "slot_reused": SlotReused, "stale_phase": StalePhase,
    "half_entry": HalfEntry,
}  # fmt: skip
_SEEDED = {
    "wrap_wrong": WrapWrong, "doorbell_lost": DoorbellCoalesced, "two_threads": TwoThreads,
}  # fmt: skip
BUGS = (
    "no_fence", "fence_early", "doorbell_early", "batch_over", "slot_reused", "wrap_wrong",
    "stale_phase", "half_entry", "doorbell_lost", "two_threads",
)  # fmt: skip


def planted(bug, seed):
    """A provider with one bug, or the correct one for None."""
    if bug is None:
        return Provider()
    if bug in _PLAIN:
        return _PLAIN[bug]()
    return _SEEDED[bug](random.Random(f"{bug} {seed}"))
