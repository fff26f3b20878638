# SPDX-License-Identifier: Apache-2.0
"""Checks what a sender sends to one peer against what the peer has shown to it."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from efa_cosim.layouts import defs
from efa_cosim.layouts.fields import SrdAckFields, SrdHdrFields
from efa_cosim.transport.monitor_bounds import Congestion, Extent, RoundTrips, Sample
from efa_cosim.transport.monitor_history import Recent
from efa_cosim.transport.monitor_records import (
    NEVER,
    Content,
    PathView,
    Place,
    Record,
    content_of,
    may_repeat,
)
from efa_cosim.transport.monitor_rules import ProtocolFault, Rule, Settings
from efa_cosim.transport.packets import PSN_MASK, number_distance, psn_distance

_ABORT = defs.IoCompStatus.REMOTE_ERROR_ABORT


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
        self._reaction, self._handling = settings.reaction, settings.handling
        self.reset()

    def _clear(self, psn: int) -> None:
        """Sets the state of a new session. PSNs inside the class do not wrap.

        The state contains all acknowledgements that have arrived. What the sender may not know yet
        is held beside it: values that were replaced (Recent), and records of resolved PSNs.
        """
        constants, reaction = self._settings.constants, self._reaction
        self._since = -NEVER  # of the last packet: those after it were decided later
        self._over: int | None = None  # cycle of the end of the session
        self._next = self._oldest = psn
        self._known_oldest = Recent(psn, reaction)
        self._waiting = 0  # bit i: PSN oldest + i is sent and not resolved
        self._records: dict[int, Record] = {}
        # (cycle, record) of resolved PSNs.
        self._resolved: dict[int, tuple[int, Record]] = {}
        self._open: dict[Hashable, set[int]] = {}  # PSNs of messages that are not resolved
        self._paths = [PathView(reaction) for _ in range(self._settings.paths)]
        self._trips = RoundTrips(constants, reaction > 0)
        self._known_shortest = Recent(self._trips.shortest, reaction)
        self._extent = Extent(constants, reaction > 0)
        self._known_extent = Recent(self._extent.value, reaction)
        self._congestion = Congestion(constants, self._handling)
        self._serial = 0
        self._latest_once = -1  # greatest serial of a resolved packet that was sent once
        # Packets sent before these cycles may have been lost by case 2 and by a timeout.
        self._age_limit = self._timeout_limit = -NEVER
        # Packets before this serial may be lost by the quiet time; these wait since this cycle.
        self._quiet_serial = -1
        self._quiet: set[int] = set()
        self._quiet_since = 0
        # First cycles in which the peer may be lossy, and a path unusable.
        self._lossy = self._unusable = NEVER
        self._probed = -NEVER  # `since` of the last packet that can only be a probe
        # The timer: its last restart, the first cycle of the next timeout, timeouts for sure.
        self._restarted = 0
        self._next_timeout = NEVER
        self._timeouts = 0
        self._timeout_seen = -1
        self._may_be_dead = False

    def reset(self) -> None:
        """The node forgets sessions and incarnations."""
        self.session: int | None = None
        self._incarnation = Recent(0, self._reaction)
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
        # The packet was decided in cycle `since` or later.
        since = max(self._since, now - self._settings.transmit)
        known = self._known(since, now)
        if data.session != self.session:
            self._begin(now, data)
        elif self._over is not None and self._over <= known:
            self._fault(Rule.SESSION, now, data.psn, "a new session after ABORT",
                        "a packet of the session that has ended")
            return
        psn = self._next + psn_distance(data.psn, self._next & PSN_MASK)
        oldest = psn - data.behind
        if data.incarnation not in self._incarnation.all(known):
            self._fault(Rule.INCARNATION, now, psn, self._incarnation.value, data.incarnation)
        if ended:
            self._fault(Rule.ENDED, now, psn, "no packet of a completed message", "a packet")
        if not self._known_oldest.all(known)[0] <= oldest <= self._oldest:
            if oldest < self._oldest or self._settings.cancels_are_known:
                self._fault(Rule.BEHIND, now, psn, f"behind {psn - self._oldest}", data.behind)
                return
            # PSNs of canceled messages count as resolved.
            self._resolve_before(now, oldest)
        # What a packet shows had arrived when it was decided.
        self._since = since = self._known_oldest.passed(oldest, since)
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
        content = content_of(packet, data)
        if not data.incarnation and self._incarnation.value and self._quiet_serial >= 0:
            # The packet was in flight when the sender found its peer in the quiet time.
            self._quiet_serial = self._serial + 1
        if psn == self._next:
            self._sent_new(since, now, psn, data.path, content, message)
        else:
            self._sent_again(since, now, psn, data, content)

    def _known(self, since: int, now: int) -> int:
        """Returns the cycle up to which a packet that was decided in `since` or later, and leaves
        in `now`, knows all that has arrived."""
        return max(since - self._handling, now - self._reaction)

    def _begin(self, now: int, data: SrdHdrFields) -> None:
        error = self._counter_passed(data.session)
        if error:
            self._fault(Rule.NUMBER, now, data.psn, error, f"session {data.session}")
        if self.session is not None and self._over is None:
            self._update(now)
            if not self._may_be_dead:
                self._fault(Rule.SESSION, now, data.psn, f"session {self.session}, which goes on",
                            f"session {data.session}")  # fmt: skip
        start = self._settings.start
        first = data.psn if start is None else start.psn
        self.session = data.session
        self._clear(first)

    def _sent_new(
        self, since: int, now: int, psn: int, path: int, content: Content,
        message: Hashable | None,
    ) -> None:  # fmt: skip
        if (
            self._quiet
            and self._settings.cancels_are_known
            and self._quiet_since <= self._known(since, now)
        ):
            self._fault(Rule.LOST_FIRST, now, psn,
                        f"PSN {min(self._quiet) & PSN_MASK}, lost by the quiet time, before",
                        "a new packet")
        self._next = psn + 1
        place = self._place(since, now, path)
        if not self._waiting:
            self._restart(since)
        self._waiting |= 1 << psn - self._oldest
        self._records[psn] = Record(content, message, place)
        if message is not None:
            self._open.setdefault(message, set()).add(psn)
        if len(self._records) > self._congestion.window:
            self._check_congestion(since, now, psn)

    def _place(self, since: int, now: int, path: int) -> Place:
        """Returns the transmission that leaves now and counts it."""
        view = self._paths[path]
        place = Place(path, view.order, view.sure, since, now, self._serial)
        view.order += 1
        view.sure += 1
        self._serial += 1
        if self._lossy == NEVER:
            view.silent.append(place)
        return place

    def _sent_again(
        self, since: int, now: int, psn: int, data: SrdHdrFields, content: Content
    ) -> None:
        record = self._records.get(psn)
        if record is None and psn in self._resolved:
            cycle, resolved = self._resolved[psn]
            record = resolved if self._known(since, now) < cycle else None
        if record is None:
            self._fault(Rule.RESOLVED, now, psn, "no transmission of a resolved PSN", "one more")
            return
        if not may_repeat(record.content, content):
            self._fault(Rule.CONTENT, now, psn, record.content, content)
        record.content = content
        self._update(now)
        self._update_paths(self._known(since, now))
        path = self._paths[data.path]
        timeout, other = self._causes(record)
        spacing = (self._settings.constants.path_probe - 1) * self._tick
        probe = now > self._unusable + spacing and now >= self._probed + spacing
        if record.once and psn in self._resolved:
            self._forget(now, self._paths[record.places[0].path])
        if not timeout and not other:
            if not probe:
                self._fault(Rule.CAUSE, now, psn, "a cause of loss, or a probe that is due",
                            self._why(record, now))  # fmt: skip
            # A probe changes neither path nor time of the packet.
            self._probed = since
            record.once = False
            return
        record.once = False
        self._quiet.discard(psn)
        if probe:
            place = Place(data.path, path.order, path.sure, since, now, self._serial)
            path.order += 1
            self._serial += 1
            record.places.append(place)
            return
        if timeout and not other:
            self._timed_out(now, record)
        record.places = [self._place(since, now, data.path)]
        if len(self._records) > self._congestion.window:
            self._check_congestion(since, now, psn)

    def _why(self, record: Record, now: int) -> str:
        place = record.places[-1]
        path = self._paths[place.path]
        return (
            f"path {place.path}, order {place.order} of {path.order}, newest {path.newest}, extent "
            f"{self._extent.value} or more, age {now - place.since} cycles, longest time "
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

    def _update_paths(self, known: int) -> None:
        """Finds out the same from the paths, as the sender has known them since cycle `known`."""
        extent = min(self._known_extent.all(known))
        for path in self._paths:
            path.limit = max(path.limit, path.newest - extent)
            self._silent(path)

    def _become_lossy(self, cycle: int) -> None:
        if cycle < self._lossy:
            self._lossy = cycle
            self._unusable = min(self._unusable, cycle)

    def _silent(self, path: PathView) -> None:
        """Finds out whether the sender may have found a silent path by case 2."""
        if self._lossy != NEVER or not path.silent or not self._extent.first_period_is_over:
            return
        first = path.silent[0]
        if first.since < self._age_limit and first.serial < self._latest_once:
            path.silent_limit = self._age_limit
            self._become_lossy(first.since)

    def _causes(self, record: Record) -> tuple[bool, bool]:
        """Returns whether a timeout may have lost a packet, and whether another case may have."""
        timeout = other = False
        for place in record.places:
            path = self._paths[place.path]
            timeout = timeout or place.since <= self._timeout_limit
            aged = place.since < self._age_limit and place.serial < self._latest_once
            silent = place.order > path.newest or place.since < path.silent_limit
            other = (
                other
                or place.serial < self._quiet_serial
                or (self._lossy != NEVER and (place.order < path.limit or aged))
                or (aged and silent and self._extent.first_period_is_over)
            )
        return timeout, other

    def _restart(self, now: int) -> None:
        """Restarts the timer. The sender also restarts it later, when one packet is in flight."""
        self._restarted = now
        self._timeouts, self._timeout_seen = 0, -1
        self._next_timeout = now + int((self._trips.rto - 1) * self._tick)

    def _timed_out(self, now: int, record: Record) -> None:
        """Counts the timeout that alone can have lost a packet, unless it is a known one."""
        place = record.places[-1]
        if self._timeouts and place.cycle < self._timeout_seen:
            return
        if now < self._next_timeout:
            # A timeout before the last restart has lost the packet.
            return
        self._timeouts += 1
        self._timeout_seen = now
        rto = int((self._trips.rto - 1) * self._tick)
        first = max(self._next_timeout, place.since + rto)
        backoff = min(self._timeouts, self._settings.constants.rto_backoff_max)
        self._next_timeout = first + (rto << backoff)
        if self._timeouts > 1:
            self._congestion.collapse()

    def _check_congestion(self, since: int, now: int, psn: int) -> None:
        """Checks the packets in flight: those that cannot have been found lost."""
        self._update(now)
        self._update_paths(self._known(since, now))
        flying = sum(not any(self._causes(one)) for one in self._records.values())
        window = self._congestion.window
        if flying > window:
            self._fault(Rule.CONGESTION, now, psn, f"at most {window} packets in flight", flying)

    # Acknowledgements that arrive.

    def acknowledged(self, now: int, ack: SrdAckFields) -> None:
        """Takes what an acknowledgement shows; it has passed the checks of its fields."""
        if ack.session != self.session or self._over is not None:
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
        incarnation = self._incarnation.value
        if incarnation and ack.incarnation != incarnation:
            if number_distance(ack.incarnation, incarnation) > 0:
                self._incarnation.set(now, ack.incarnation)
                self._end(now)
            return
        shown = bits << base - oldest if base >= oldest else bits >> oldest - base
        if first > oldest:
            shown |= (1 << first - oldest) - 1
        # Until it handles this acknowledgement, the sender knows what has arrived before.
        known = now - self._handling
        self._update(now + self._handling)
        if self._reaction:
            self._update_paths(known)
        if 0 in self._incarnation.all(known):
            if not shown and not ack.status:
                self._quiet_serial = self._serial
                self._unusable = min(self._unusable, now)
                if not incarnation:
                    self._quiet, self._quiet_since = set(self._records), now
            elif self._reaction:
                # The sender may handle this one first.
                self._quiet.clear()
        self._incarnation.set(now, ack.incarnation)
        shown &= self._waiting
        if ack.status and refused >= oldest:
            shown |= 1 << refused - oldest & self._waiting
        if shown:
            self._resolve(now, shown)
        if ack.status == _ABORT:
            self._end(now)

    def _in_past(self, ack: SrdAckFields, bits: int) -> bool:
        """True if each bit is of a PSN before the next one, as 32-bit numbers."""
        following = self._next & PSN_MASK
        return all(psn_distance(ack.bitmap_psn + bit & PSN_MASK, following) < 0
                   for bit in range(bits.bit_length()) if bits >> bit & 1)  # fmt: skip

    def _end(self, now: int) -> None:
        """Ends the session; its messages have no packet in flight any more."""
        self._over = now
        self._open.clear()
        self._quiet.clear()

    def _resolve(self, now: int, shown: int) -> None:
        """Resolves the PSNs of the bits, which wait, and learns from their times."""
        records, oldest = self._records, self._oldest
        known = now - self._handling
        self._waiting &= ~shown
        once: list[Place] = []
        doubted: list[Place] = []
        count = 0
        while shown:
            low = shown & -shown
            shown ^= low
            psn = oldest + low.bit_length() - 1
            record = records.pop(psn)
            count += 1
            self._settle(now, psn, record)
            if not record.once:
                continue
            place = record.places[0]
            if self._reaction and any(self._causes(record)):
                # The sender may have sent it again before it handles the acknowledgement.
                record.once = False
                doubted.append(place)
                continue
            once.append(place)
            d = self._paths[place.path].newest_sure.all(known)[0] - place.sure
            if d > 0:
                self._extent.add(d)
        before = self._extent.value
        self._extent.acknowledged += count
        self._known_extent.set(now, self._extent.value)
        self._pass(now, once, doubted, min(before, *self._known_extent.all(known)))
        if once or doubted:
            self._measure(now, once, doubted)
        self._restart(now)
        self._move(now)

    def _sample(self, now: int, place: Place) -> Sample:
        least, most = now - place.cycle, now + self._handling - place.since
        return Sample(max(1, least // self._tick), max(1, -(-most // self._tick)))

    def _measure(self, now: int, once: list[Place], doubted: list[Place]) -> None:
        """Adds the times of one acknowledgement to all that is derived from them."""
        trips = self._trips
        samples = [self._sample(now, place) for place in once]
        doubtful = [self._sample(now, place) for place in doubted]
        shortest = max(self._known_shortest.all(now - self._handling))
        if shortest == NEVER:
            # The first time of a session is the shortest one itself.
            shortest = max(one.high for one in samples + doubtful)
        self._congestion.add(now, samples, doubtful, shortest)
        for one in doubtful:
            trips.doubt(one)
        if samples:
            trips.add(now, samples)
            self._known_shortest.set(now, trips.shortest)
        if trips.most > 2 * trips.least:
            self._unusable = min(self._unusable, now)

    def _forget(self, now: int, path: PathView) -> None:
        """Takes back what a resolved packet of a path has shown: it was not sent once."""
        self._trips.restart()
        self._known_shortest.set(now, self._trips.shortest)
        self._extent.restart()
        self._known_extent.set(now, self._extent.value)
        path.newest_sure.set(now, -1)

    def _pass(self, now: int, once: list[Place], doubted: list[Place], extent: int) -> None:
        """Moves `newest` of the paths to packets that were sent once, for sure or perhaps."""
        latest = self._latest_once
        for place in once + doubted:
            path = self._paths[place.path]
            if place.order > path.newest:
                path.newest = place.order
                path.limit = max(path.limit, place.order - extent)
            latest = max(latest, place.serial)
        for place in once:
            path = self._paths[place.path]
            if place.sure > path.newest_sure.value:
                if self._lossy == NEVER:
                    # Until now the path was silent for the packets before this one.
                    self._silent(path)
                    silent = path.silent
                    while silent and silent[0].order <= place.order:
                        silent.popleft()
                path.newest_sure.set(now, place.sure)
        self._latest_once = latest

    def _settle(self, now: int, psn: int, record: Record) -> None:
        self._quiet.discard(psn)
        resolved, since = self._resolved, now - self._reaction
        while resolved and resolved[first := next(iter(resolved))][0] <= since:
            del resolved[first]
        if self._reaction:
            resolved[psn] = now, record
        if record.message is not None:
            self._open[record.message].discard(psn)

    def _move(self, now: int) -> None:
        """Moves oldest to the first PSN that is not resolved."""
        waiting = self._waiting
        step = (waiting & -waiting).bit_length() - 1 if waiting else self._next - self._oldest
        self._oldest += step
        self._known_oldest.set(now, self._oldest)
        self._waiting = waiting >> step

    def _resolve_before(self, now: int, oldest: int) -> None:
        """Takes PSNs before a later oldest as resolved."""
        for psn in range(self._oldest, min(oldest, self._next)):
            self._cancel(now, psn)
        self._waiting >>= oldest - self._oldest
        self._oldest = oldest
        self._known_oldest.set(now, oldest)
        self._next = max(self._next, oldest)

    def _cancel(self, now: int, psn: int) -> None:
        record = self._records.pop(psn, None)
        if record is not None:
            self._settle(now, psn, record)
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
            self._cancel(now, psn)
        del self._open[message]
        self._move(now)
