# SPDX-License-Identifier: Apache-2.0
"""Replays the fetch of send WQEs from host memory: from doorbells to the arrival of each WQE.

Requests are replayed from the doorbells, the depths and the other requests at the host port; the
cycles of completions are those of Sending.responses.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from efa_cosim.attribution.gaps import Gap, Wrong
from efa_cosim.cycle.stages import LINE, REQUEST_BYTES

if TYPE_CHECKING:
    from efa_cosim.attribution.replay_send import Sending

OWN = "earlier WQE reads"
PLACES = "no free WQE read slot"
TAGS = "no free read tag"
ANSWERS = "completions of earlier reads"
LINES = "earlier lines of the same read"


class Fetching:
    """Replay of one run: `known` is (cycle, queue) of each WQE, in order of arrival."""

    def __init__(self, sending: Sending, gap: Gap, begins: Sequence[int]) -> None:
        """begins: cycle of the first beat of the completion of each host read."""
        record, table, work = sending.record, sending.table, sending.work
        self._work, self._gap, self._wrong, self._begins = work, gap, sending.wrong, begins
        self._others, self._reads = sending.others, record.reads
        self._places: list[int] = record.reads.of_entries.nonzero()[0].tolist()
        self._tags, self._out = (table.depth("efa_dma_rd.request"),
                                 table.latency("efa_dma_rd.request"))
        self._most, self._ask = table.depth("efa_sq_fetch.read"), table.latency("efa_sq_fetch.read")
        self._again = table.interval("efa_sq_fetch.again")
        self._back = table.latency("efa_dma_rd.beat")
        self._publish = table.latency("efa_sq_reorder.beat")
        self._place_back = self._publish + table.latency("efa_fifo.large")
        self._away = work.read_latency + table.parameters["bus"]
        self._lines = work.entry_bytes // LINE
        self._ring = self._lines << max(1, (work.depth - 1).bit_length())
        posts = range(0, work.total, work.batch)
        self._packets = sending.rows.packets
        db = sending.timelines["db"][:: self._packets]
        self._bells = deque((int(db[post]), post // work.batch % work.queues)
                            for post in posts)
        self.known: list[tuple[int, int]] = []
        self._rows: list[list[int]] = [[] for _ in range(work.queues)]
        for message in range(work.total):
            self._rows[message // work.batch % work.queues].append(message)
        self._number, self._free = 0, -1
        self._circle()
        self.known.sort()

    def _circle(self) -> None:
        """Scans queues with unread lines round robin, one queue a cycle."""
        work, queues = self._work, self._work.queues
        want, requested, late = [0] * queues, [0] * queues, [-1] * queues
        inside: set[int] = set()
        last = queues - 1
        looks: int | None = None
        left: int | None = None
        since: int | None = None
        total, done_lines = work.total * self._lines, 0
        cycle = self._bells[0][0]
        while done_lines < total:
            if looks is None and left is None and not inside and self._bells:
                cycle = max(cycle, self._bells[0][0])
            called = None
            if self._bells and self._bells[0][0] <= cycle:
                called = self._bells.popleft()[1]
            put, left = left, None
            moves = looks is None
            if looks is not None and late[looks] <= cycle:
                if want[looks] == 0:
                    moves = True
                elif self._free <= cycle:
                    since = cycle if since is None else since
                    if self._place_free() <= cycle:
                        bound = min(
                            REQUEST_BYTES // LINE - requested[looks] % (REQUEST_BYTES // LINE),
                            self._ring - requested[looks] % self._ring,
                        )
                        lines = min(want[looks], bound)
                        if not self._read(looks, requested[looks], lines, since, cycle):
                            return
                        want[looks] -= lines
                        requested[looks] += lines
                        done_lines += lines
                        late[looks] = cycle + self._again
                        left = looks if want[looks] else None
                        moves, since = True, None
            some = bool(inside)
            if moves:
                looks = called
                if some:
                    looks = min((one for one in inside if one > last), default=None)
                    looks = min(inside) if looks is None else looks
                    inside.discard(looks)
                if looks is not None:
                    last = looks
            if called is not None:
                want[called] += work.batch * self._lines
                if some or not moves:
                    inside.add(called)
            if put is not None:
                inside.add(put)
            cycle += 1

    def _place_free(self) -> int:
        """Returns the first cycle with a free place for the next read."""
        if self._number < self._most:
            return -1
        ended = self._reads.ended[self._places[self._number - self._most]]
        return int(ended) + self._place_back

    def _read(self, queue: int, first: int, lines: int, since: int, cycle: int) -> bool:
        """Replays one read; returns False if the run has no more reads. since: cycle in which the
        round robin selects the queue; cycle: cycle with a free place."""
        if self._number == len(self._places):
            return False
        place = self._places[self._number]
        self._number += 1
        granted, begin = int(self._reads.requested[place]) - self._out, int(self._begins[place])
        shown, mine = cycle + 1, range(first // self._lines, (first + lines) // self._lines)
        entries = [self._rows[queue][number] for number in mine]
        tag = int(self._reads.ended[place - self._tags]) + 1 if place >= self._tags else -1
        waits = [(since + 1, OWN), (shown, PLACES), (tag, TAGS)]
        free = max(shown, tag)
        while (cause := self._others.at(free, "entries")) is not None:
            free += 1
            waits.append((free, cause))
        if free != granted or lines != self._reads.beats[place]:
            self._wrong.append(Wrong(("db", "wqe"), entries[0] * self._packets, free + self._out,
                                     granted + self._out))  # fmt: skip
        waits.append((begin - self._away - self._out, ANSWERS))
        for number, message in zip(mine, entries, strict=True):
            line = (number + 1) * self._lines - 1 - first
            gap = self._gap
            due = int(gap.begins[message]) + self._ask
            service = int(gap.begins[message] + gap.service[message])
            for until, cause in waits:
                gap.until(message, service + until - due, cause)
            gap.until(message, service + begin + line - (self._lines - 1)
                      - self._away - self._out - due, LINES)
            self.known.append((begin + line + self._back + self._publish, queue))
        self._free = granted
        return True
