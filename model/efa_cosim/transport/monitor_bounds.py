# SPDX-License-Identifier: Apache-2.0
"""Bounds of what a sender derives from acknowledgements: times, extent, congestion window.

A bound is on the side that permits more to the sender. The monitor knows times in cycles, a sender
in ticks: the difference of two times is one of two numbers of ticks. A sender with a reaction
measures up to that much more, may handle acknowledgements together, and may find a packet lost that
is acknowledged before its retransmission leaves: a doubtful time, which it may not have measured.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from efa_cosim.layouts import defs

_NEVER = 1 << 62
_PARTS = 4


class Sample(NamedTuple):
    """A round-trip time: its least and its greatest number of ticks."""

    low: int
    high: int


class RoundTrips:
    """Round-trip times of a session.

    - `shortest`: not below the shortest time of the sender, in ticks
    - `longest`: not above the longest time of the sender, in ticks
    - `least`, `most`: bounds of all times of the session
    - `rto`: not above the timeout of the sender, in ticks
    """

    def __init__(self, constants: defs.Transport, late: bool) -> None:
        self._period = constants.time_period * constants.tick_cycles
        self._late_sender = late
        # Each part is (first cycle, shortest, longest). A sender looks back one to two periods; the
        # parts that began in the last period are in both.
        self._parts: deque[tuple[int, int, int]] = deque()
        self._rto_margin = constants.rto_margin
        self.shortest, self.longest = _NEVER, 0
        self.least, self.most = _NEVER, 0
        self._low = self._high = self._deviation = 0.0
        self.rto = float(constants.rto_initial - 1)

    def forget(self, now: int) -> None:
        """Leaves out the times that the sender may have left out."""
        parts = self._parts
        if parts and parts[0][0] < now - self._period:
            while parts and parts[0][0] < now - self._period:
                parts.popleft()
            self.shortest = min((part[1] for part in parts), default=_NEVER)
            self.longest = max((part[2] for part in parts), default=0)

    def restart(self) -> None:
        """Leaves out all times: the sender may not have measured one of them."""
        self._parts.clear()
        self.shortest, self.longest = _NEVER, 0

    def doubt(self, one: Sample) -> None:
        """Adds a time that the sender may have learned."""
        self.least, self.most = min(self.least, one.low), max(self.most, one.high)
        self._bound_rto()

    def add(self, now: int, samples: list[Sample]) -> None:
        """Adds times that the sender learned from one acknowledgement, in unknown order."""
        parts, length = self._parts, self._period // _PARTS
        first = now - now % length
        if not parts or parts[-1][0] != first:
            parts.append((first, _NEVER, 0))
        _, shortest, longest = parts[-1]
        for low, high in samples:
            shortest, longest = min(shortest, high), max(longest, low)
            self.least, self.most = min(self.least, low), max(self.most, high)
        parts[-1] = first, shortest, longest
        self.shortest, self.longest = min(self.shortest, shortest), max(self.longest, longest)
        if self._late_sender:
            self._bound_rto()
        else:
            self._smooth(samples)

    def _bound_rto(self) -> None:
        # The order of the times is not known: the smoothed one is not below the least.
        least = max(1.5 * self.least, self.least + self._rto_margin)
        self.rto = min(self.rto, float(least - 1))

    def _smooth(self, samples: list[Sample]) -> None:
        if not self._high:
            self._low, self._high = min(samples)[0], max(one.high for one in samples)
            self._deviation = self._low / 2 if len(samples) == 1 else 0.0
        elif len(samples) == 1:
            ((low, high),) = samples
            gap = max(0.0, low - self._high, self._low - high)
            self._deviation += (gap - self._deviation) / 4
            self._low += (low - self._low) / 8
            self._high += (high - self._high) / 8
        else:
            # The last sample counts most: the order that gives the lowest, and the highest result.
            for low in sorted((one.low for one in samples), reverse=True):
                self._low += (low - self._low) / 8
                self._deviation *= 3 / 4
            for high in sorted(one.high for one in samples):
                self._high += (high - self._high) / 8
        least = self._low
        rto = max(1.5 * least, min(3 * least, least + 4 * self._deviation),
                  least + self._rto_margin)
        # A tick for the rounding of the sender.
        self.rto = rto - 1


class Extent:
    """Lower bound of the extent of a peer, and the exact number of acknowledged packets."""

    def __init__(self, constants: defs.Transport, late: bool) -> None:
        self._period = int(constants.extent_period)
        self._window: int = 1 << constants.psn_window_w
        # A packet may count earlier, with those of another acknowledgement.
        self._kept = self._period - (self._window if late else 0)
        self._late: deque[tuple[int, int]] = deque()  # (number of the packet, d), d decreasing
        self.acknowledged = 0

    @property
    def first_period_is_over(self) -> bool:
        """True if extent is known."""
        return self.acknowledged >= self._period

    @property
    def value(self) -> int:
        """The extent of the last `extent_period` packets: a part of those of the sender."""
        if not self.first_period_is_over:
            return 2 * self._window
        late = self._late
        while late and late[0][0] < self.acknowledged - self._kept:
            late.popleft()
        return 2 * late[0][1] if late else 0

    def add(self, d: int) -> None:
        """Adds a late packet, one of those that are counted next in `acknowledged`."""
        late = self._late
        while late and late[-1][1] <= d:
            late.pop()
        late.append((self.acknowledged, d))

    def restart(self) -> None:
        """Leaves out all late packets: the sender may not have counted one of them."""
        self._late.clear()


class Congestion:
    """Upper bound of the congestion window of a peer.

    The rounds of the sender are as long as its window, so the monitor does not know where they
    begin. A row of times above the target that is as long as two rounds has a whole round in it. A
    time may be handled before or after those of the last `reaction` cycles: it is no part of a row
    while one of these may break the row.
    """

    def __init__(self, constants: defs.Transport, reaction: int) -> None:
        self._round = constants.round_packets
        self._queue = constants.queue_target
        self._reaction = reaction
        self._most: int = 1 << constants.psn_window_w
        self._value = float(min(constants.cwnd_initial, self._most))
        self._fast = True
        self._since = 0  # times since the last growth
        self._good = -_NEVER  # cycle of the last time that is not above the target
        # Later parts of the row: (cycle from which they count, number, shortest time).
        self._coming: deque[tuple[int, int, int]] = deque()
        self._above = 0  # times above the target in a row
        self._time = _NEVER  # the shortest of them

    @property
    def window(self) -> int:
        """Most packets in flight after a transmission."""
        # Growth of the sender may be up to a round earlier: one packet.
        return min(self._most, int(-(-self._value // 1)) + 1)

    def restart(self) -> None:
        """The window may grow fast again, after timeouts that the monitor cannot exclude."""
        self._fast = True
        self._end_row()

    def _end_row(self) -> None:
        self._coming.clear()
        self._above = 0

    def collapse(self) -> None:
        """Two timeouts in a row: the window was 2, and grows fast."""
        self.restart()
        self._value = 2.0

    def add(self, now: int, samples: list[Sample], doubtful: list[Sample], shortest: int) -> None:
        """Adds times of one acknowledgement; `shortest` is not below that of the sender."""
        target = 9 * shortest / 8 + self._queue
        times = samples + doubtful
        good = sum(low <= target for low, _ in times)
        if good:
            # The order inside an acknowledgement is not known: the good one may be the last.
            self._end_row()
            self._time, self._good = _NEVER, now
        elif samples and now >= self._good + self._reaction:
            self._coming.append((now + self._reaction, len(samples), min(times).low))
        coming = self._coming
        while coming and coming[0][0] <= now:
            _, number, time = coming.popleft()
            self._above += number
            self._time = min(self._time, time)
        value = self._value
        if self._fast:
            value += good
            self._fast = self._above < 2 * self._round
        else:
            self._since += len(times)
            while self._since >= max(self._round, int(value)):
                self._since -= max(self._round, int(value))
                value += 1
        if self._above:
            length = max(self._round, int(value) + 1)
            if self._above >= 2 * length:
                self._above -= length
                value *= 1 - (self._time - target) / self._time / 2
        self._value = min(float(self._most), max(2.0, value))
