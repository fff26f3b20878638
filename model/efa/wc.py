"""The write-combining store buffer between provider code and the bus.

A CPU collects stores to write-combined memory in a few 64-byte lines and sends a line when it is
full, when another line needs its place or when a fence asks for it: whole or in pieces, and in
any order among lines. A policy says how unkind this CPU is; the seed makes it repeatable.
"""

import random
from dataclasses import dataclass

from efa import defs

LINE_BYTES = 64
DWORD_BYTES = 4
STORE_BYTES = 8


@dataclass(frozen=True)
class Policy:
    """How lines leave: chance to be torn and to be evicted early, order, and lines at hand."""

    lines: int
    tear: float = 0.0
    early: float = 0.0
    shuffle: bool = False


POLICIES = {
    # Full lines leave at once and in order: what the hardware designer hopes for.
    "ideal": Policy(lines=1 << 30),
    # Lines leave in order, but each in pieces.
    "split": Policy(lines=10, tear=1.0),
    # Whole lines, in any order among those that are open.
    "reorder": Policy(lines=10, shuffle=True),
    # Few lines, evicted half full, torn, and in any order.
    "adversarial": Policy(lines=4, tear=0.7, early=0.2, shuffle=True),
}


class WcBuffer:
    """One CPU's buffer in front of one write-combined BAR.

    `sink` takes a list of (bar, offset, bytes); nothing leaves behind `flush`, the fence.
    """

    def __init__(self, sink, policy="ideal", seed=0, bar=defs.EFA_MEM_BAR):
        if policy not in POLICIES:
            raise ValueError(f"unknown policy {policy}: one of {', '.join(POLICIES)}")
        self._sink = sink
        self._policy = POLICIES[policy]
        self._bar = bar
        self._random = random.Random(seed)
        self._lines = {}
        self._in_order = policy == "ideal"

    def copy(self, offset, data):
        """Copies as the provider does: 8-byte stores in ascending address order."""
        if offset % STORE_BYTES or len(data) % STORE_BYTES:
            raise ValueError(f"copy of {len(data)} bytes to {offset:#x}: not 8-byte stores")
        if self._in_order and not self._lines and not (offset | len(data)) % LINE_BYTES:
            self._sink([(self._bar, offset + at, data[at : at + LINE_BYTES])
                        for at in range(0, len(data), LINE_BYTES)])
            return
        for at in range(0, len(data), STORE_BYTES):
            self.store(offset + at, data[at : at + STORE_BYTES])

    def store(self, offset, data):
        """One store inside a line, of whole dwords."""
        line, at = offset - offset % LINE_BYTES, offset % LINE_BYTES
        if at + len(data) > LINE_BYTES or at % DWORD_BYTES or len(data) % DWORD_BYTES:
            raise ValueError(f"store of {len(data)} bytes at {offset:#x}: not dwords of a line")
        if line not in self._lines:
            self._make_room()
            self._lines[line] = [None] * (LINE_BYTES // DWORD_BYTES)
        dwords = self._lines[line]
        for index in range(0, len(data), DWORD_BYTES):
            dwords[(at + index) // DWORD_BYTES] = data[index : index + DWORD_BYTES]
        full = None not in dwords
        if (full and not self._policy.shuffle) or self._random.random() < self._policy.early:
            self._evict([line])

    def flush(self):
        """The fence: everything stored so far leaves before anything that follows."""
        lines = list(self._lines)
        if self._policy.shuffle:
            self._random.shuffle(lines)
        self._evict(lines)

    def _make_room(self):
        if len(self._lines) < self._policy.lines:
            return
        lines = list(self._lines)
        self._evict([self._random.choice(lines) if self._policy.shuffle else lines[0]])

    def _evict(self, lines):
        pieces = []
        for line in lines:
            runs = _runs(self._lines.pop(line))
            if self._random.random() < self._policy.tear:
                runs = [part for run in runs for part in self._torn(run)]
            pieces += [(self._bar, line + at, data) for at, data in runs]
        if self._policy.tear and self._policy.shuffle:
            self._random.shuffle(pieces)
        if pieces:
            self._sink(pieces)

    def _torn(self, run):
        """A run of bytes cut at random dword borders; the pieces in any order."""
        start, data = run
        borders = range(DWORD_BYTES, len(data), DWORD_BYTES)
        cuts = sorted(self._random.sample(borders, self._random.randint(0, min(3, len(borders)))))
        edges = [0, *cuts, len(data)]
        parts = [(start + a, data[a:b]) for a, b in zip(edges, edges[1:], strict=False)]
        self._random.shuffle(parts)
        return parts


def _runs(dwords):
    """The written dwords of a line as (offset, bytes) of contiguous pieces."""
    runs = []
    for index, dword in enumerate(dwords):
        if dword is None:
            continue
        if index and dwords[index - 1] is not None:
            start, data = runs[-1]
            runs[-1] = (start, data + dword)
        else:
            runs.append((index * DWORD_BYTES, dword))
    return runs
