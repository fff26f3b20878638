# SPDX-License-Identifier: Apache-2.0
"""Checks what a sender sends to one peer against what the peer has shown to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import NamedTuple, TypeAlias

from efa_cosim.layouts import defs
from efa_cosim.layouts.fields import SrdAckFields, SrdHdrFields
from efa_cosim.transport.monitor_bounds import Congestion, Extent, RoundTrips, Sample
from efa_cosim.transport.monitor_rules import ProtocolFault, Rule, Settings
from efa_cosim.transport.packets import PSN_MASK, number_distance, psn_distance

_ABORT = defs.IoCompStatus.REMOTE_ERROR_ABORT
_RESPONSE = defs.PktOpcode.READ_RESPONSE
_RDMA = (defs.PktOpcode.RDMA_WRITE, defs.PktOpcode.READ_REQUEST)
_DATA_BYTES, _RDMA_BYTES = defs.SrdHdr.SIZE, defs.PktRdma.SIZE
_NEVER = 1 << 62

# Fields that all transmissions of a packet have in common, and the RDMA header.
_Content: TypeAlias = tuple[int, int, int, int, int, int, int, bytes]


class _Place(NamedTuple):
    """A transmission that the sender may have recorded as the last one.

    - `order`: an order number that counts probes, too; `sure`: one that leaves out what may be one
    - `serial`: number of the transmission among those of the session
    """

    path: int
    order: int
    sure: int
    cycle: int
    serial: int


class _Record:
    """A PSN that is not resolved."""

    __slots__ = ("content", "message", "once", "places")

    def __init__(self, content: _Content, message: Hashable | None, place: _Place) -> None:
        self.content, self.message = content, message
        self.once = True
        # Two or more: the monitor cannot distinguish a probe from a retransmission.
        self.places = [place]


class _Path:
    """Order numbers of a path; differences of `order` are upper bounds, those of `sure` lower."""

    __slots__ = ("limit", "newest", "newest_sure", "order", "silent", "silent_limit", "sure")

    def __init__(self) -> None:
        self.order = self.sure = 0
        self.newest = self.newest_sure = -1
        # A packet with an order below `limit` may have been lost by case 1.
        self.limit = -_NEVER
        # Transmissions after `newest`; those before `silent_limit` may have been lost as silent.
        self.silent: deque[_Place] = deque()
        self.silent_limit = -1


class SenderView:
    """A sender and one peer.

    - `counter_passed`: called with a new session number, returns an error text or None
    """

    def __init__(
        self, node: int, peer: int, settings: Settings,
        counter_passed: Callable[[int], str | None],
    ) -> None:  # fmt: skip
        self.node, self.peer = node, peer
        self._settings = settings
        self._counter_passed = counter_passed
        self._tick, self._window = settings.tick, settings.window
        self.session: int | None = None
        self._incarnation = 0
        self._over = False
        self._clear(0)

    def _clear(self, psn: int) -> None:
        """Sets the state of a new session. PSNs inside the class do not wrap."""
        constants = self._settings.constants
        self._next = self._oldest = psn
        self._waiting = 0  # bit i: PSN oldest + i is sent and not resolved
        self._records: dict[int, _Record] = {}
        self._open: dict[Hashable, set[int]] = {}  # PSNs of messages that are not resolved
        self._paths = [_Path() for _ in range(self._settings.paths)]
        self._trips = RoundTrips(constants)
        self._extent = Extent(constants)
        self._congestion = Congestion(constants)
        self._serial = 0
        self._latest_once = -1  # greatest serial of a resolved packet that was sent once
        # Packets sent before these cycles may have been lost by case 2 and by a timeout.
        self._age_limit = self._timeout_limit = -1
        # Packets before this serial are lost by the quiet time, of which these wait.
        self._quiet_serial = -1
        self._quiet: set[int] = set()
        # First cycles in which the peer may be lossy, and a path unusable.
        self._lossy = self._unusable = _NEVER
        self._probed = -_NEVER  # cycle of the last packet that can only be a probe
        # The timer: its last restart, the first cycle of the next timeout, timeouts for sure.
        self._restarted = 0
        self._next_timeout = _NEVER
        self._timeouts = 0
        self._timeout_seen = -1
        self._may_be_dead = False

    def reset(self) -> None:
        """The node forgets sessions and incarnations."""
        self.session, self._incarnation, self._over = None, 0, False
        self._clear(0)

    def _fault(
        self, rule: Rule, now: int, psn: int | None, expected: object, found: object
    ) -> None:
        wire = None if psn is None else psn & PSN_MASK
        self._settings.report(ProtocolFault(rule, now, self.node, self.peer, self.session, wire,
                                            str(expected), str(found)))

    # Packets that leave.

    def sent(
        self, now: int, packet: bytes, data: SrdHdrFields, message: Hashable | None, ended: bool
    ) -> None:
        """Checks a data packet; `ended` is True if the completion of its message was reported."""
        if data.session != self.session:
            self._begin(now, data)
        elif self._over:
            self._fault(Rule.SESSION, now, data.psn, "a new session after ABORT",
                        "a packet of the session that has ended")
            return
        psn = self._next + psn_distance(data.psn, self._next & PSN_MASK)
        oldest = psn - data.behind
        if data.incarnation != self._incarnation:
            self._fault(Rule.INCARNATION, now, psn, self._incarnation, data.incarnation)
        if ended:
            self._fault(Rule.ENDED, now, psn, "no packet of a completed message", "a packet")
        if oldest != self._oldest:
            if oldest < self._oldest or self._settings.cancels_are_known:
                self._fault(Rule.BEHIND, now, psn, f"behind {psn - self._oldest}", data.behind)
                return
            # PSNs of canceled messages count as resolved.
            self._resolve_before(oldest)
        if psn - oldest >= self._window:
            self._fault(Rule.WINDOW, now, psn, f"less than {self._window} after oldest",
                        psn - oldest)  # fmt: skip
            return
        if psn > self._next and not self._settings.cancels_are_known:
            # A PSN is left out if its message was canceled when its packet should be sent.
            self._next = psn
        if psn > self._next:
            self._fault(Rule.PSN, now, psn, f"PSN {self._next & PSN_MASK}", data.psn)
            return
        opcode = data.opcode
        header = (packet[_DATA_BYTES : _DATA_BYTES + _RDMA_BYTES] if opcode in _RDMA else b"")
        content = (opcode, data.flags, data.length, data.src_qpn, data.dst_qpn, data.qkey,
                   data.imm, header)  # fmt: skip
        if psn == self._next:
            self._sent_new(now, psn, data.path, content, message)
        else:
            self._sent_again(now, psn, data, content)

    def _begin(self, now: int, data: SrdHdrFields) -> None:
        error = self._counter_passed(data.session)
        if error:
            self._fault(Rule.NUMBER, now, data.psn, error, f"session {data.session}")
        if self.session is not None and not self._over:
            self._update(now)
            if not self._may_be_dead:
                self._fault(Rule.SESSION, now, data.psn, f"session {self.session}, which goes on",
                            f"session {data.session}")  # fmt: skip
        start = self._settings.start
        first = data.psn if start is None else start.psn
        self.session, self._over = data.session, False
        self._clear(first)

    def _sent_new(
        self, now: int, psn: int, path: int, content: _Content, message: Hashable | None
    ) -> None:
        if self._quiet:
            self._fault(Rule.LOST_FIRST, now, psn,
                        f"PSN {min(self._quiet) & PSN_MASK}, lost by the quiet time, before",
                        "a new packet")
        self._next = psn + 1
        place = self._place(now, path)
        if not self._waiting:
            self._restart(now)
        self._waiting |= 1 << psn - self._oldest
        self._records[psn] = _Record(content, message, place)
        if message is not None:
            self._open.setdefault(message, set()).add(psn)
        if len(self._records) > self._congestion.window:
            self._check_congestion(now, psn)

    def _place(self, now: int, path: int) -> _Place:
        """Returns the transmission that leaves now and counts it."""
        view = self._paths[path]
        place = _Place(path, view.order, view.sure, now, self._serial)
        view.order += 1
        view.sure += 1
        self._serial += 1
        if self._lossy == _NEVER:
            view.silent.append(place)
        return place

    def _sent_again(self, now: int, psn: int, data: SrdHdrFields, content: _Content) -> None:
        record = self._records.get(psn)
        if record is None:
            self._fault(Rule.RESOLVED, now, psn, "no transmission of a resolved PSN", "one more")
            return
        if content != record.content:
            # The memory of a read response may have gone: then it has no payload.
            before, response = record.content, content[0] == _RESPONSE
            if not response or content[2] != _RDMA_BYTES or before[:2] + before[3:] != (
                content[:2] + content[3:]
            ):
                self._fault(Rule.CONTENT, now, psn, before, content)
            record.content = content
        self._update(now)
        path = self._paths[data.path]
        timeout, other = self._causes(record)
        spacing = (self._settings.constants.path_probe - 1) * self._tick
        probe = now > self._unusable + spacing and now >= self._probed + spacing
        if not timeout and not other:
            if not probe:
                self._fault(Rule.CAUSE, now, psn, "a cause of loss, or a probe that is due",
                            self._why(record, now))  # fmt: skip
            # A probe changes neither path nor time of the packet.
            self._probed = now
            record.once = False
            return
        record.once = False
        self._quiet.discard(psn)
        if probe:
            place = _Place(data.path, path.order, path.sure, now, self._serial)
            path.order += 1
            self._serial += 1
            record.places.append(place)
            return
        if timeout and not other:
            self._timed_out(now, record)
        record.places = [self._place(now, data.path)]
        if len(self._records) > self._congestion.window:
            self._check_congestion(now, psn)

    def _why(self, record: _Record, now: int) -> str:
        place = record.places[-1]
        path = self._paths[place.path]
        return (
            f"path {place.path}, order {place.order} of {path.order}, newest {path.newest}, extent "
            f"{self._extent.value} or more, age {now - place.cycle} cycles, longest time "
            f"{self._trips.longest * self._tick} or more, next timeout at {self._next_timeout} or "
            f"later, lossy {self._lossy <= now}"
        )

    # Causes of a loss. Each is True if some sender that follows the decision may have found it.

    def _update(self, now: int) -> None:
        """Finds out what may have been lost until now; time changes nothing else."""
        trips, tick = self._trips, self._tick
        trips.forget(now)
        # The age in ticks, rounded up, is above 5/4 of the longest time, rounded down.
        age_limit = now - 5 * trips.longest // 4 * tick
        if age_limit > self._age_limit:
            self._age_limit = age_limit
        if now >= self._next_timeout and self._records:
            rto = trips.rto * tick
            self._timeout_limit = max(self._timeout_limit, int(now - rto) + tick)
            self._become_lossy(int(self._next_timeout))
            if self._timeouts or now >= self._next_timeout + 2 * rto:
                self._congestion.restart()
            constants = self._settings.constants
            most = constants.rto_backoff_max
            sum_of_backoffs = sum(1 << min(n, most) for n in range(constants.rto_retries))
            if now >= self._restarted + (sum_of_backoffs * trips.rto - 1) * tick:
                self._may_be_dead = True

    def _become_lossy(self, cycle: int) -> None:
        if cycle < self._lossy:
            self._lossy = cycle
            self._unusable = min(self._unusable, cycle)

    def _silent(self, path: _Path) -> None:
        """Finds out whether the sender may have found a silent path by case 2."""
        if self._lossy != _NEVER or not path.silent or not self._extent.first_period_is_over:
            return
        first = path.silent[0]
        if first.cycle < self._age_limit and first.serial < self._latest_once:
            path.silent_limit = self._age_limit
            self._become_lossy(first.cycle)

    def _causes(self, record: _Record) -> tuple[bool, bool]:
        """Returns whether a timeout may have lost a packet, and whether another case may have."""
        for path in self._paths:
            path.limit = max(path.limit, path.newest - self._extent.value)
            self._silent(path)
        timeout = other = False
        for place in record.places:
            path = self._paths[place.path]
            timeout = timeout or place.cycle <= self._timeout_limit
            aged = place.cycle < self._age_limit and place.serial < self._latest_once
            silent = place.order > path.newest or place.cycle < path.silent_limit
            other = (
                other
                or place.serial < self._quiet_serial
                or (self._lossy != _NEVER and (place.order < path.limit or aged))
                or (aged and silent and self._extent.first_period_is_over)
            )
        return timeout, other

    def _restart(self, now: int) -> None:
        """Restarts the timer. The sender also restarts it later, when one packet is in flight."""
        self._restarted = now
        self._timeouts, self._timeout_seen = 0, -1
        self._next_timeout = now + int((self._trips.rto - 1) * self._tick)

    def _timed_out(self, now: int, record: _Record) -> None:
        """Counts the timeout that alone can have lost a packet, unless it is a known one."""
        cycle = record.places[-1].cycle
        if self._timeouts and cycle < self._timeout_seen:
            return
        if now < self._next_timeout:
            # A timeout before the last restart has lost the packet.
            return
        self._timeouts += 1
        self._timeout_seen = now
        rto = int((self._trips.rto - 1) * self._tick)
        first = max(self._next_timeout, cycle + rto)
        backoff = min(self._timeouts, self._settings.constants.rto_backoff_max)
        self._next_timeout = first + (rto << backoff)
        if self._timeouts > 1:
            self._congestion.collapse()

    def _check_congestion(self, now: int, psn: int) -> None:
        """Checks the packets in flight: those that cannot have been found lost."""
        self._update(now)
        flying = sum(not any(self._causes(one)) for one in self._records.values())
        window = self._congestion.window
        if flying > window:
            self._fault(Rule.CONGESTION, now, psn, f"at most {window} packets in flight", flying)

    # Acknowledgements that arrive.

    def acknowledged(self, now: int, ack: SrdAckFields) -> None:
        """Takes what an acknowledgement shows; it has passed the checks of its fields."""
        if ack.session != self.session or self._over:
            return
        oldest = self._oldest
        first = oldest + psn_distance(ack.psn, oldest & PSN_MASK)
        base = oldest + psn_distance(ack.bitmap_psn, oldest & PSN_MASK)
        refused = oldest + psn_distance(ack.refused_psn, oldest & PSN_MASK)
        bits = int.from_bytes(ack.bitmap, "little")
        if first > self._next or (ack.status and refused >= self._next):
            return
        if bits and base + bits.bit_length() > self._next:
            if not self._in_past(ack, bits):
                return
            bits = 0
        if self._incarnation and ack.incarnation != self._incarnation:
            if number_distance(ack.incarnation, self._incarnation) > 0:
                self._incarnation = ack.incarnation
                self._end()
            return
        shown = bits << base - oldest if base >= oldest else bits >> oldest - base
        if first > oldest:
            shown |= (1 << first - oldest) - 1
        self._update(now)
        if not self._incarnation and not shown and not ack.status:
            self._quiet_serial = self._serial
            self._quiet = set(self._records)
            self._unusable = min(self._unusable, now)
        self._incarnation = ack.incarnation
        shown &= self._waiting
        if ack.status and refused >= oldest:
            shown |= 1 << refused - oldest & self._waiting
        if shown:
            self._resolve(now, shown)
        if ack.status == _ABORT:
            self._end()

    def _in_past(self, ack: SrdAckFields, bits: int) -> bool:
        """True if each bit is of a PSN before the next one, as 32-bit numbers."""
        following = self._next & PSN_MASK
        return all(psn_distance(ack.bitmap_psn + bit & PSN_MASK, following) < 0
                   for bit in range(bits.bit_length()) if bits >> bit & 1)  # fmt: skip

    def _end(self) -> None:
        """Ends the session; its messages have no packet in flight any more."""
        self._over = True
        self._open.clear()
        self._records.clear()
        self._waiting = 0
        self._quiet.clear()

    def _resolve(self, now: int, shown: int) -> None:
        """Resolves the PSNs of the bits, which wait, and learns from their times."""
        records, tick, oldest = self._records, self._tick, self._oldest
        self._waiting &= ~shown
        samples: list[Sample] = []
        once: list[_Place] = []
        count = 0
        while shown:
            low = shown & -shown
            shown ^= low
            psn = oldest + low.bit_length() - 1
            record = records.pop(psn)
            count += 1
            self._settle(psn, record)
            place = record.places[0]
            if record.once:
                age = now - place.cycle
                samples.append(Sample(max(1, age // tick), max(1, -(-age // tick))))
                once.append(place)
                d = self._paths[place.path].newest_sure - place.sure
                if d > 0:
                    self._extent.add(d)
        before = self._extent.value
        self._extent.acknowledged += count
        self._pass(once, min(before, self._extent.value))
        if samples:
            self._congestion.add(samples, self._shortest(samples))
            self._trips.add(now, samples)
            if self._trips.most > 2 * self._trips.least:
                self._unusable = min(self._unusable, now)
        self._restart(now)
        self._move()

    def _shortest(self, samples: list[Sample]) -> int:
        """An upper bound of the shortest time while these samples are judged."""
        shortest = self._trips.shortest
        # The first time of a session is the shortest one itself.
        return shortest if shortest != _NEVER else max(one.high for one in samples)

    def _pass(self, once: list[_Place], extent: int) -> None:
        """Moves `newest` of the paths to packets that were sent once."""
        latest = self._latest_once
        for place in once:
            path = self._paths[place.path]
            if place.order > path.newest:
                if self._lossy == _NEVER:
                    # Until now the path was silent for the packets before this one.
                    self._silent(path)
                    silent = path.silent
                    while silent and silent[0].order <= place.order:
                        silent.popleft()
                path.newest, path.newest_sure = place.order, place.sure
                path.limit = max(path.limit, place.order - extent)
            latest = max(latest, place.serial)
        self._latest_once = latest

    def _settle(self, psn: int, record: _Record) -> None:
        self._quiet.discard(psn)
        if record.message is not None:
            self._open[record.message].discard(psn)

    def _move(self) -> None:
        """Moves oldest to the first PSN that is not resolved."""
        waiting = self._waiting
        step = (waiting & -waiting).bit_length() - 1 if waiting else self._next - self._oldest
        self._oldest += step
        self._waiting = waiting >> step

    def _resolve_before(self, oldest: int) -> None:
        """Takes PSNs before a later oldest as resolved."""
        for psn in range(self._oldest, min(oldest, self._next)):
            self._cancel(psn)
        self._waiting >>= oldest - self._oldest
        self._oldest = oldest
        self._next = max(self._next, oldest)

    def _cancel(self, psn: int) -> None:
        record = self._records.pop(psn, None)
        if record is not None:
            self._settle(psn, record)
            self._waiting &= ~(1 << psn - self._oldest)
            if record.once:
                self._latest_once = max(self._latest_once, record.places[0].serial)

    # Completions.

    def completed(self, now: int, message: Hashable, waits: bool) -> None:
        """Takes the completion of a message; `waits`: its status waits for all of its packets."""
        left = self._open.pop(message, None)
        if not left:
            return
        if waits:
            self._fault(Rule.COMPLETION, now, min(left), "a completion after all PSNs are resolved",
                        f"{len(left)} PSNs not resolved")  # fmt: skip
        self._update(now)
        self._open[message] = left
        for psn in list(left):
            self._cancel(psn)
        del self._open[message]
        self._move()
