# SPDX-License-Identifier: Apache-2.0
"""Defines the planted provider bugs, each a subclass of the provider.

    Node(backend, provider=planted("no_fence", seed))

The checker does not use these names; its verdicts have a separate list.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from efa_cosim.host.provider import Copy, Doorbell, Fence, Provider, Step
from efa_cosim.host.wc import STORE_BYTES, WcBuffer
from efa_cosim.host.work_queue import WorkQueue

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from efa_cosim.host.queue_pair import QueuePair

# Maximum number of steps of a thread before the other thread may run.
MOST_SLICE = 12


class NoFence(Provider):
    """Omits the fence before the doorbell."""

    def one_batch(self, qp: QueuePair, number: int, data: bytes) -> Iterator[Step]:
        for step in super().one_batch(qp, number, data):
            if not isinstance(step, Fence):
                yield step


class FenceTooEarly(Provider):
    """Places the fence before the last WQE."""

    def one_batch(self, qp: QueuePair, number: int, data: bytes) -> Iterator[Step]:
        size = qp.wqe.SIZE
        last = number + len(data) // size - 1
        if last > number:
            yield from self.copies(qp, number, data[:-size])
        yield Fence()
        yield from self.copies(qp, last, data[-size:])
        yield self.doorbell(qp, last + 1)


class DoorbellBeforeLastStore(Provider):
    """Moves the last 8-byte store of a batch after its doorbell, with a fence after it."""

    def one_batch(self, qp: QueuePair, number: int, data: bytes) -> Iterator[Step]:
        *before, last = self.copies(qp, number, data)
        yield from before
        cut = len(last.data) - STORE_BYTES
        yield Copy(last.offset, last.data[:cut])
        yield Fence()
        yield self.doorbell(qp, number + len(data) // qp.wqe.SIZE)
        yield Copy(last.offset + cut, last.data[cut:])
        yield Fence()


class BatchTooLarge(Provider):
    """Ignores max_tx_batch."""

    def batch(self, qp: QueuePair, _number: int) -> int:
        return qp.sq_depth


class SlotReused(Provider):
    """Assumes twice the ring depth in its bookkeeping."""

    def work_queue(self, depth: int, generation: int, long_ids: bool) -> WorkQueue:
        return WorkQueue(2 * depth, generation, long_ids)


class WrapWrong(Provider):
    """Counts the doorbell modulo the ring, or writes a batch beyond the end of the ring."""

    def __init__(self, rng: random.Random) -> None:
        self._masks = rng.random() < 0.5

    def doorbell(self, qp: QueuePair, number: int) -> Doorbell:
        if self._masks:
            return Doorbell(number % qp.sq_depth)
        return super().doorbell(qp, number)

    def copies(self, qp: QueuePair, number: int, data: bytes) -> Iterator[Copy]:
        if self._masks:
            yield from super().copies(qp, number, data)
        else:
            yield Copy(qp.llq + number % qp.sq_depth * qp.wqe.SIZE, data)


class StalePhase(Provider):
    """Keeps the phase bit of the first pass after a wrap."""

    def phases(self, qp: QueuePair, numbers: NDArray[Any]) -> NDArray[Any]:
        return np.full(len(numbers), qp.first_phase)


class HalfEntry(Provider):
    """Copies only the first half of each WQE."""

    def copies(self, qp: QueuePair, number: int, data: bytes) -> Iterator[Copy]:
        size = qp.wqe.SIZE
        for at in range(0, len(data), size):
            slot = (number + at // size) % qp.sq_depth
            yield Copy(qp.llq + slot * size, data[at : at + size // 2])


class DoorbellCoalesced(Provider):
    """Delays the doorbell until a batch is full; the WQEs of the last part are never posted."""

    def __init__(self, _rng: random.Random) -> None:
        self._rung: dict[QueuePair, int] = {}

    def batch(self, qp: QueuePair, number: int) -> int:
        return qp.batch - (number - self._rung.get(qp, 0))

    def one_batch(self, qp: QueuePair, number: int, data: bytes) -> Iterator[Step]:
        end = number + len(data) // qp.wqe.SIZE
        whole = end - self._rung.get(qp, 0) == qp.batch
        for step in super().one_batch(qp, number, data):
            if whole or not isinstance(step, Doorbell):
                yield step
        if whole:
            self._rung[qp] = end


class TwoThreads(Provider):
    """Posts with two threads on two CPUs on one queue, without a lock."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._other: WcBuffer | None = None

    def post(self, qp: QueuePair, wqes: NDArray[Any]) -> None:
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


def _stores(steps: Iterable[Step]) -> Iterator[Step]:
    """Splits copies into the single stores of which they consist."""
    for step in steps:
        if isinstance(step, Copy):
            for at in range(0, len(step.data), STORE_BYTES):
                yield Copy(step.offset + at, step.data[at : at + STORE_BYTES])
        else:
            yield step


_PLAIN: dict[str, type[Provider]] = {
    "no_fence": NoFence, "fence_early": FenceTooEarly, "doorbell_early": DoorbellBeforeLastStore,
    "batch_over": BatchTooLarge, "slot_reused": SlotReused, "stale_phase": StalePhase,
    "half_entry": HalfEntry,
}  # fmt: skip
_SEEDED: dict[str, Callable[[random.Random], Provider]] = {
    "wrap_wrong": WrapWrong, "doorbell_lost": DoorbellCoalesced, "two_threads": TwoThreads,
}  # fmt: skip
BUGS = (
    "no_fence", "fence_early", "doorbell_early", "batch_over", "slot_reused", "wrap_wrong",
    "stale_phase", "half_entry", "doorbell_lost", "two_threads",
)  # fmt: skip


def planted(bug: str | None, seed: int) -> Provider:
    """Returns a provider with one bug, or the correct provider for None."""
    if bug is None:
        return Provider()
    if bug in _PLAIN:
        return _PLAIN[bug]()
    return _SEEDED[bug](random.Random(f"{bug} {seed}"))
