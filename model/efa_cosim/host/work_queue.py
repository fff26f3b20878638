# SPDX-License-Identifier: Apache-2.0
"""Tracks outstanding work requests by request id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from efa_cosim.host.completion_queue import VerbsError

if TYPE_CHECKING:
    from numpy.typing import NDArray

REQ_ID_BITS = 16
REQ_ID_MASK = (1 << REQ_ID_BITS) - 1
# An odd constant without a pattern: its multiples differ in all upper bits.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class WorkQueue:
    """Ids of outstanding work requests: a slot number with a generation above; the upper 48 bits
    of a long id hold a number unique to the request."""

    def __init__(self, depth: int, generation: int, long_ids: bool = False) -> None:
        self.depth, self.long_ids = depth, long_ids
        self._slot_mask = (1 << max(0, depth - 1).bit_length()) - 1
        self._generation = np.uint64(generation * (self._slot_mask + 1) & REQ_ID_MASK)
        self.wr_ids, self._ids = np.zeros(depth, "u8"), np.zeros(depth, "u8")
        # Starts at 1, so the upper bits of an id are never all zero.
        self._next = 1
        self.clear()

    def clear(self) -> None:
        """Cancels all outstanding work requests."""
        self._free = np.arange(self.depth - 1, -1, -1, dtype="u2")
        self._free_count = self.depth
        self._live = np.zeros(self.depth, bool)
        self.produced = 0

    @property
    def space(self) -> int:
        """Number of work requests that can be posted now."""
        return self._free_count

    @property
    def outstanding(self) -> int:
        """Number of work requests posted and not completed."""
        return self.depth - self._free_count

    def take(self, wr_ids: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Allocates 64-bit request ids for work requests; VerbsError if the queue is full."""
        count = len(wr_ids)
        if count > self._free_count:
            raise VerbsError(f"{count} work requests posted, space for {self._free_count}: "
                             "poll completions first or create a deeper queue")
        self._free_count -= count
        slots = self._free[self._free_count : self._free_count + count][::-1]
        self.wr_ids[slots] = wr_ids
        self._live[slots] = True
        ids = slots | self._generation
        if self.long_ids:
            numbers = np.arange(self._next, self._next + count, dtype="u8")
            ids |= numbers * _SPREAD & np.uint64(~REQ_ID_MASK & (1 << 64) - 1)
            self._next += count
        self._ids[slots] = ids
        return ids

    def owns(self, req_ids: NDArray[np.uint64]) -> NDArray[np.bool]:
        """Boolean array: ids of outstanding work requests, all bits compared; a repeated id counts
        once."""
        slots = self._slots(req_ids)
        known = slots < self.depth
        inside = slots[known]
        known[known] = self._live[inside] & (self._ids[inside] == req_ids[known])
        if len(set(req_ids.tolist())) == len(req_ids):
            return known
        first = np.zeros(len(req_ids), bool)
        first[np.unique(req_ids, return_index=True)[1]] = True
        return known & first

    def _slots(self, req_ids: NDArray[np.uint64]) -> NDArray[np.intp]:
        return (req_ids & np.uint64(self._slot_mask)).astype(np.intp)

    def complete(self, req_ids: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Frees these ids, for which owns() must be true; returns their wr_ids."""
        slots = self._slots(req_ids)
        self._live[slots] = False
        self._free[self._free_count : self._free_count + len(slots)] = slots
        self._free_count += len(slots)
        return self.wr_ids[slots]
