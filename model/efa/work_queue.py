"""Bookkeeping of work requests in flight."""

import numpy as np

from efa.completion_queue import VerbsError

REQ_ID_BITS = 16


class WorkQueue:
    """Ids of work requests in flight: a pool of slots, a generation above them."""

    def __init__(self, depth, generation):
        self.depth = depth
        self._slot_bits = max(0, depth - 1).bit_length()
        self._generation = generation << self._slot_bits & (1 << REQ_ID_BITS) - 1
        self.wr_ids = np.zeros(depth, "u8")
        self.clear()

    def clear(self):
        """Forgets everything in flight."""
        self._free = np.arange(self.depth - 1, -1, -1, dtype="u2")
        self._free_count = self.depth
        self._live = np.zeros(self.depth, bool)
        self.produced = 0

    @property
    def room(self):
        """Work requests that may be posted now."""
        return self._free_count

    @property
    def outstanding(self):
        """Work requests posted and not completed."""
        return self.depth - self._free_count

    def take(self, wr_ids):
        """Request ids for new work requests."""
        count = len(wr_ids)
        if count > self._free_count:
            raise VerbsError(f"{count} work requests, room for {self._free_count}")
        self._free_count -= count
        slots = self._free[self._free_count : self._free_count + count][::-1]
        self.wr_ids[slots] = wr_ids
        self._live[slots] = True
        return slots | np.uint16(self._generation)

    def owns(self, req_ids):
        """Which of these ids belong to work requests in flight; repeats are strangers."""
        slots = req_ids & ((1 << self._slot_bits) - 1)
        known = (req_ids == (slots | self._generation)) & (slots < self.depth)
        known[known] = self._live[slots[known]]
        if len(set(req_ids.tolist())) == len(req_ids):
            return known
        first = np.zeros(len(req_ids), bool)
        first[np.unique(req_ids, return_index=True)[1]] = True
        return known & first

    def complete(self, req_ids):
        """Frees these ids, each of which owns() knows; gives their wr_ids."""
        slots = req_ids & ((1 << self._slot_bits) - 1)
        self._live[slots] = False
        self._free[self._free_count : self._free_count + len(slots)] = slots
        self._free_count += len(slots)
        return self.wr_ids[slots]
