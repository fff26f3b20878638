# SPDX-License-Identifier: Apache-2.0
"""Sends packets to one peer: windows, acknowledgements, loss, times, congestion, paths."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from efa_cosim.layouts import defs
from efa_cosim.layouts.fields import SrdAckFields, SrdHdrFields
from efa_cosim.transport.message import NO_END, Message, PayloadGone
from efa_cosim.transport.network import Timer
from efa_cosim.transport.packets import NUMBER_MASK, PSN_MASK, number_distance, psn_distance

if TYPE_CHECKING:
    from efa_cosim.transport.endpoint import Endpoint

_Anomaly = defs.TransportAnomaly
_Status = defs.IoCompStatus
# Statuses that a receiver may give: it has refused the packet.
REFUSALS = frozenset({
    _Status.REMOTE_ERROR_BAD_ADDRESS, _Status.REMOTE_ERROR_ABORT,
    _Status.REMOTE_ERROR_BAD_DEST_QPN, _Status.REMOTE_ERROR_RNR, _Status.REMOTE_ERROR_BAD_LENGTH,
    _Status.REMOTE_ERROR_BAD_STATUS, _Status.REMOTE_ERROR_UNKNOWN_PEER,
    _Status.REMOTE_ERROR_FEATURE_MISMATCH,
})  # fmt: skip
# States of a PSN.
_IN_FLIGHT, _LOST, _RESOLVED = range(3)


class Record:
    """A PSN of the window: its packet and its latest transmission."""

    __slots__ = ("again", "index", "message", "order", "path", "psn", "state", "time")

    def __init__(self, psn: int, message: Message, index: int) -> None:
        self.psn, self.message, self.index = psn, message, index
        self.state = _RESOLVED
        self.again = False
        self.time = self.order = 0
        self.path: Path


class Path:
    """What a sender knows of a path to its peer. Times are ticks.

    - `order`: order number of the next transmission
    - `newest`: highest order number of an acknowledged packet that was sent once
    - `time8`: eight times the smoothed round-trip time, 0 before the first measurement
    - `losses`: lost packets since the last acknowledged packet
    - `probe`: time of a probe without its acknowledgement, None if there is none
    - `sent`: transmissions in their order, each with its order number
    """

    __slots__ = (
        "in_flight", "losses", "newest", "number", "order", "probe", "sent", "time8", "usable",
    )  # fmt: skip

    def __init__(self, number: int, order: int) -> None:
        self.number, self.order = number, order
        self.newest = order - 1 & NUMBER_MASK
        self.in_flight = self.time8 = self.losses = 0
        self.usable = True
        self.probe: int | None = None
        self.sent: deque[tuple[Record, int]] = deque()


class PeerSender:
    """State of a sender for one peer. Bit i of a bitmap is PSN `oldest` + i."""

    def __init__(self, endpoint: Endpoint, node: int) -> None:
        self.endpoint, self.node = endpoint, node
        constants = endpoint.constants
        self._window = 1 << constants.psn_window_w
        self._tick = constants.tick_cycles
        self._rto_initial, self._rto_margin = constants.rto_initial, constants.rto_margin
        self._backoff_max, self._retries = constants.rto_backoff_max, constants.rto_retries
        self._cwnd_initial = constants.cwnd_initial
        self._queue_target = constants.queue_target
        self._time_period = constants.time_period
        self._path_probe, self._path_losses = constants.path_probe, constants.path_losses
        self._extent_period = constants.extent_period
        self._round_packets = constants.round_packets
        self._rnr_cycles = constants.rnr_ticks * constants.tick_cycles
        self._rnr_backoff_max = constants.rnr_backoff_max
        self.incarnation = 0
        self.answered = False
        # True while the port may take a packet of this peer.
        self.queued = False
        self.messages: deque[Message] = deque()
        self._timer: Timer | None = None
        self._timer_at = 0
        self._age_timer: Timer | None = None
        self._forget()

    def _forget(self) -> None:
        """Sets all that belongs to a session to its state before the first packet."""
        start = self.endpoint.start
        self.session = 0
        self.next = self.oldest = start.psn
        self.resolved = 0
        # Records of the PSNs that are not resolved, in the order of PSNs.
        self._records: dict[int, Record] = {}
        # Messages with a packet in the session.
        self._open: dict[Message, None] = {}
        self._lost: deque[Record] = deque()
        # Packets that RNR refused, after their back-off.
        self._again: deque[tuple[Message, int]] = deque()
        self.in_flight = 0
        self.paths = [Path(number, start.order) for number in range(self.endpoint.paths)]
        self._best = self.paths[0]
        self._next_path = 0
        self._unusable = 0
        self._next_probe = 0
        # Transmissions in their order, each with its time; the latest time of a resolved one.
        self._sent: deque[tuple[Record, int]] = deque()
        self._resolved_time = -1
        # True after the first period; true once a packet was lost.
        self._learned = False
        self.lossy = False
        # Largest number of packets that overtook one, in the previous and the current period.
        self._overtaken_before, self._overtaken = self._window, 0
        # Acknowledged packets of the current period.
        self._acknowledged = 0
        # Eight times the smoothed round-trip time, four times its mean deviation.
        self._srtt8 = self._rttvar4 = 0
        self.shortest = self.longest = 0
        # Shortest and longest time of the previous and of the current period.
        self._before = self._current = (0, 0)
        self._period_end = 0
        self.cwnd = self._cwnd_initial
        self._slow_start = True
        # Of the current round: number of times, the shortest one.
        self._round = self._round_time = 0
        self.backoff = self.timeouts = 0
        self._deadline = 0
        for timer in (self._timer, self._age_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._age_timer = None

    # New packets.

    def post(self, message: Message) -> None:
        """Queues a message behind those before it."""
        self.messages.append(message)
        self._wake()

    def next_packet(self) -> bytes | None:
        """Returns the next packet for the port, None if there is none to send now."""
        if self._unusable and self.in_flight:
            probe = self._probe()
            if probe is not None:
                return probe
        if self.in_flight >= self.cwnd:
            return None
        while self._lost:
            record = self._lost.popleft()
            if record.state == _LOST:
                record.again = True
                self.endpoint.counters.retransmitted += 1
                packet = self._transmit(record)
                if packet is not None:
                    return packet
        if (self.next - self.oldest & PSN_MASK) >= self._window:
            return None
        while self._again:
            message, index = self._again.popleft()
            message.backing_off -= 1
            if not message.status and not message.ended:
                packet = self._send(message, index)
                if packet is not None:
                    return packet
        while self.messages:
            message = self.messages[0]
            index = message.sent
            if message.status or message.ended:
                self.messages.popleft()
                continue
            message.sent = index + 1
            if index + 1 == len(message.payloads):
                self.messages.popleft()
            packet = self._send(message, index)
            if packet is not None:
                return packet
        return None

    def _send(self, message: Message, index: int) -> bytes | None:
        """Gives a packet the next PSN and returns it, None if its payload has gone."""
        if not self.session:
            self.session = self.endpoint.next_number()
        psn = self.next
        self.next = psn + 1 & PSN_MASK
        message.unresolved += 1
        self._open[message] = None
        record = self._records[psn] = Record(psn, message, index)
        return self._transmit(record)

    def _transmit(self, record: Record) -> bytes | None:
        """Chooses a path, stores the transmission and returns the packet.

        Returns None if its payload has gone: then its message has ended.
        """
        payload = self._payload(record)
        if payload is None:
            return None
        path = self._choose()
        now = self.endpoint.network.now // self._tick
        record.state, record.path, record.order, record.time = _IN_FLIGHT, path, path.order, now
        path.sent.append((record, path.order))
        self._sent.append((record, now))
        path.order = path.order + 1 & NUMBER_MASK
        path.in_flight += 1
        self.in_flight += 1
        if self.in_flight == 1:
            self._restart()
        return self._pack(record, path.number, payload)

    def _payload(self, record: Record) -> bytes | None:
        """Reads the payload of a packet; ends its message and returns None if it has gone."""
        try:
            return record.message.payloads[record.index]
        except PayloadGone as gone:
            self.cancel(record.message, gone.status)
            return None

    def _pack(self, record: Record, path: int, payload: bytes) -> bytes:
        message, psn = record.message, record.psn
        self.endpoint.counters.sent += 1
        return SrdHdrFields.pack(
            opcode=message.opcode, flags=message.flags, length=len(payload),
            src_qpn=message.src_qpn, dst_qpn=message.dst_qpn, qkey=message.qkey, psn=psn,
            session=self.session, incarnation=self.incarnation, imm=message.imm,
            src_node=self.endpoint.node, dst_node=self.node, path=path,
            behind=psn - self.oldest & PSN_MASK,
        ) + payload  # fmt: skip

    # Acknowledgements.

    def acknowledge(self, ack: SrdAckFields) -> defs.TransportAnomaly | None:
        """Processes an acknowledgement of this peer; returns the cause if it is not valid."""
        if ack.session != self.session:
            if self.endpoint.is_new_number(ack.session):
                return _Anomaly.SESSION
            self.endpoint.counters.stale += 1
            return None
        count = self.next - self.oldest & PSN_MASK
        shown = self._shown(ack, count)
        if shown is None or (ack.status and psn_distance(ack.refused_psn, self.oldest) >= count):
            return _Anomaly.PSN
        if self.incarnation and ack.incarnation != self.incarnation:
            if number_distance(ack.incarnation, self.incarnation) > 0:
                self._abort(ack.incarnation)
            else:
                self.endpoint.counters.stale += 1
            return None
        if ack.status == _Status.REMOTE_ERROR_ABORT:
            self._abort(ack.incarnation)
            return None
        if not self.incarnation and not shown and not ack.status:
            # The peer is within its quiet time: it has taken none of these packets.
            for record in self._records.values():
                if record.state == _IN_FLIGHT:
                    self._lose(record)
        self.incarnation = ack.incarnation
        self.answered = True
        self._answer_probe(ack.path)
        refused = self._records.get(ack.refused_psn) if ack.status else None
        self._resolve(shown & ~self.resolved, refused, ack.status)
        self._wake()
        return None

    def _shown(self, ack: SrdAckFields, count: int) -> int | None:
        """Bitmap of the PSNs that are shown as accepted; None if one of them was never sent."""
        front = psn_distance(ack.psn, self.oldest)
        bits = int.from_bytes(ack.bitmap, "little")
        shown = 0
        if bits:
            at = psn_distance(ack.bitmap_psn, self.oldest)
            if at + bits.bit_length() > count:
                return None
            shown = bits << at if at >= 0 else bits >> -at
        if front > count:
            return None
        if front > 0:
            shown |= (1 << front) - 1
        return shown

    def _resolve(self, accepted: int, refused: Record | None, status: int) -> None:
        """Resolves accepted PSNs and a refused one, then draws the conclusions."""
        resolved: list[Record] = []
        records, oldest = self._records, self.oldest
        while accepted:
            low = accepted & -accepted
            accepted ^= low
            self.resolved |= low
            resolved.append(records.pop(oldest + low.bit_length() - 1 & PSN_MASK))
        if refused is not None and refused.psn in records:
            self.resolved |= 1 << psn_distance(refused.psn, oldest)
            resolved.append(records.pop(refused.psn))
            self._refuse(refused, status)
        if not resolved:
            return
        now = self.endpoint.network.now // self._tick
        once = [record for record in resolved if not record.again]
        for record in once:
            self._note_order(record)
            self._measure(record.path, now - record.time, now)
        for record in resolved:
            self._settle(record, now)
        self._advance()
        self.backoff = self.timeouts = 0
        self._restart()
        # Records of one acknowledgement may have arrived in any order among themselves.
        for record in once:
            path = record.path
            if number_distance(record.order, path.newest) > 0:
                path.newest = record.order
            if record.time > self._resolved_time:
                self._resolved_time = record.time
            self._check_order(path)
        self._check_age()
        for message in dict.fromkeys(record.message for record in resolved):
            if message.finished:
                self._end(message, message.status)

    def _settle(self, record: Record, now: int) -> None:
        """Counts a packet as acknowledged."""
        path = record.path
        record.message.unresolved -= 1
        path.losses = 0
        if record.state == _IN_FLIGHT:
            path.in_flight -= 1
            self.in_flight -= 1
            if record.again and now - record.time < self.shortest:
                # The first transmission arrived: it was late, not lost.
                late = min(self.extent + 1, self._window)
                self._overtaken = max(self._overtaken, late)
        record.state = _RESOLVED
        self._acknowledged += 1
        if self._acknowledged >= self._extent_period:
            self._learned = True
            self._overtaken_before, self._overtaken = self._overtaken, 0
            self._acknowledged = 0

    def _advance(self) -> None:
        """Moves oldest to the first PSN that is not resolved."""
        resolved = self.resolved
        count = (~resolved & resolved + 1).bit_length() - 1
        if count:
            self.oldest = self.oldest + count & PSN_MASK
            self.resolved = resolved >> count

    def _end(self, message: Message, status: int) -> None:
        self._open.pop(message, None)
        message.end(status)

    # Refusals and ends.

    def _refuse(self, record: Record, status: int) -> None:
        """Stores the refusal of a packet, or sends it again later."""
        message = record.message
        retries_left = message.rnr_retry == NO_END or message.retries < message.rnr_retry
        if status == _Status.REMOTE_ERROR_RNR and retries_left and not message.status:
            back_off = self._rnr_cycles << min(message.retries, self._rnr_backoff_max)
            message.retries += 1
            message.backing_off += 1
            network = self.endpoint.network

            def again() -> None:
                self._again.append((message, record.index))
                self._wake()

            network.at(network.now + back_off, again)
        elif not message.status:
            message.status = status

    def _abort(self, incarnation: int) -> None:
        """Ends the session: the peer has been reset."""
        messages = list(self._open)
        self._forget()
        self.incarnation = incarnation
        self.answered = True
        self._wake()
        for message in messages:
            message.end(_Status.REMOTE_ERROR_ABORT)

    def _die(self) -> None:
        """Ends all messages: the peer is dead."""
        messages = dict.fromkeys([*self._open, *self.messages])
        self._forget()
        self.messages.clear()
        status = (
            _Status.LOCAL_ERROR_UNRESP_REMOTE
            if self.answered
            else _Status.LOCAL_ERROR_UNREACH_REMOTE
        )
        for message in messages:
            message.end(status)

    def cancel(self, message: Message, status: int) -> None:
        """Ends a message at once; its PSNs count as resolved."""
        for psn in [psn for psn, record in self._records.items() if record.message is message]:
            record = self._records.pop(psn)
            if record.state == _IN_FLIGHT:
                record.path.in_flight -= 1
                self.in_flight -= 1
            record.state = _RESOLVED
            self.resolved |= 1 << psn_distance(psn, self.oldest)
        message.unresolved = 0
        self._advance()
        self._end(message, status)
        self._wake()

    def drop(self) -> None:
        """Forgets everything without a completion: the node is reset."""
        for message in [*self._open, *self.messages]:
            message.ended = True
        self._forget()
        self.messages.clear()

    # Loss.

    def _note_order(self, record: Record) -> None:
        """Learns how far packets overtake each other from a packet that was sent once."""
        overtaken = number_distance(record.path.newest, record.order)
        if overtaken > self._overtaken:
            self._overtaken = overtaken

    @property
    def extent(self) -> int:
        """Packets of its path that may overtake a packet before it is lost."""
        return 2 * max(self._overtaken_before, self._overtaken)

    def _check_order(self, path: Path) -> None:
        """Finds the packets that too many later ones of their path have overtaken."""
        sent, limit = path.sent, path.newest - self.extent
        while sent:
            record, order = sent[0]
            if record.state == _IN_FLIGHT and record.order == order and record.path is path:
                if not self.lossy or number_distance(limit, order) <= 0:
                    return
                self._lose(record)
            sent.popleft()

    def _check_age(self) -> None:
        """Finds the packets that are older than any round-trip time.

        Until a packet was lost, a packet that others of its path have overtaken may only be late.
        """
        now = self.endpoint.network.now // self._tick
        sent, limit = self._sent, self.longest + (self.longest >> 2)
        while sent:
            record, time = sent[0]
            if record.state == _IN_FLIGHT and record.time == time:
                path = record.path
                silent = number_distance(path.newest, record.order) < 0
                if time >= self._resolved_time or not (self.lossy or silent and self._learned):
                    return
                if now - time <= limit:
                    if self._age_timer is None:
                        cycle = (time + limit + 1) * self._tick
                        self._age_timer = self.endpoint.network.at(cycle, self._age)
                    return
                self.lossy = True
                self._lose(record)
                if silent:
                    self._disable(path)
            sent.popleft()

    def _age(self) -> None:
        self._age_timer = None
        self._check_age()
        self._wake()

    def _lose(self, record: Record) -> None:
        """Queues a packet in flight for retransmission."""
        path = record.path
        record.state = _LOST
        path.in_flight -= 1
        self.in_flight -= 1
        self._lost.append(record)
        self.endpoint.counters.lost += 1
        path.losses += 1
        if path.losses >= self._path_losses:
            self._disable(path)

    # Timeout.

    @property
    def rto(self) -> int:
        """Ticks of a timeout without backoff."""
        if not self._srtt8:
            return self._rto_initial
        srtt = self._srtt8 >> 3
        time = srtt + self._rttvar4
        return max(min(max(time, srtt + (srtt >> 1)), 3 * srtt), srtt + self._rto_margin)

    def _restart(self) -> None:
        """Restarts the timer."""
        network = self.endpoint.network
        self._deadline = network.now + (self.rto << self.backoff) * self._tick
        if self._timer is not None:
            # A timer that ends too early looks at the deadline.
            if self._timer_at <= self._deadline:
                return
            self._timer.cancel()
        self._timer_at = self._deadline
        self._timer = network.at(self._deadline, self._timeout)

    def _timeout(self) -> None:
        self._timer = None
        if not self.in_flight:
            return
        network = self.endpoint.network
        if network.now < self._deadline:
            self._timer_at = self._deadline
            self._timer = network.at(self._deadline, self._timeout)
            return
        latest = network.now // self._tick - self.rto
        expired = [record for record in self._records.values()
                   if record.state == _IN_FLIGHT and record.time <= latest]
        if not expired:
            self._restart()
            return
        self.endpoint.counters.timeouts += 1
        self.timeouts += 1
        if self.timeouts >= self._retries:
            self._die()
            return
        self.lossy = True
        paths = {}
        for record in expired:
            paths[record.path.number] = record.path
            self._lose(record)
        for path in paths.values():
            self._disable(path)
        if self.backoff:
            self.cwnd = 2
            self._slow_start = True
        self.backoff = min(self.backoff + 1, self._backoff_max)
        self._restart()
        self._wake()

    # Times, congestion window, paths.

    def _measure(self, path: Path, ticks: int, now: int) -> None:
        """Adds a round-trip time to all that is derived from it."""
        time = max(ticks, 1)
        if self._srtt8:
            error = time - (self._srtt8 >> 3)
            self._srtt8 += error
            self._rttvar4 += abs(error) - (self._rttvar4 >> 2)
        else:
            self._srtt8, self._rttvar4 = time << 3, time << 1
        if now >= self._period_end:
            self._before = self._current if self._period_end else (time, time)
            self._current = (time, time)
            self._period_end = now + self._time_period
        elif time < self._current[0] or time > self._current[1]:
            self._current = min(time, self._current[0]), max(time, self._current[1])
        self.shortest = min(self._before[0], self._current[0])
        self.longest = max(self._before[1], self._current[1])
        if not path.time8:
            # The first time of a path alone would say little about it.
            path.time8 = self._srtt8
        path.time8 += time - (path.time8 >> 3)
        if path.usable:
            if path is self._best or path.time8 < self._best.time8 or not self._best.time8:
                self._find_best()
            elif path.time8 > self._late8:
                self._disable(path)
        self._pace(time)

    def _pace(self, time: int) -> None:
        """Adds a time to the round; its shortest one changes the congestion window."""
        target = self.shortest + (self.shortest >> 3) + self._queue_target
        if self._slow_start and time <= target:
            self.cwnd = min(self.cwnd + 1, self._window)
        if not self._round or time < self._round_time:
            self._round_time = time
        self._round += 1
        packets = self._round_packets
        if self._round < (packets if self._slow_start else max(self.cwnd, packets)):
            return
        time, self._round = self._round_time, 0
        if time > target:
            self._slow_start = False
            self.cwnd = max(2, self.cwnd - self.cwnd * (time - target) // (2 * time))
        elif not self._slow_start:
            self.cwnd = min(self.cwnd + 1, self._window)

    def _choose(self) -> Path:
        """Returns the usable path with the fewest packets in flight."""
        paths, first = self.paths, self._next_path
        best: Path | None = None
        for path in paths[first:] + paths[:first]:
            if path.usable and (best is None or path.in_flight < best.in_flight):
                best = path
        assert best is not None
        self._next_path = (best.number + 1) % len(paths)
        return best

    @property
    def _late8(self) -> int:
        """Eight times the longest time of a path that is not slow beside the best one."""
        best8 = self._best.time8
        return best8 + max(best8, self._queue_target << 3)

    def _find_best(self) -> None:
        """Stores the usable path with the shortest time."""
        measured = [path for path in self.paths if path.usable and path.time8]
        if measured:
            self._best = min(measured, key=_time_of)

    def _disable(self, path: Path) -> None:
        """Makes a path unusable; if none is left, all are usable."""
        path.losses = 0
        if not path.usable:
            return
        self._unusable += 1
        path.usable, path.probe = False, None
        if self._unusable == 1:
            self._next_probe = self.endpoint.network.now // self._tick + self._path_probe
        if self._unusable == len(self.paths):
            self._unusable = 0
            for other in self.paths:
                other.usable = True
        self._find_best()

    def _probe(self) -> bytes | None:
        """Returns a copy of the oldest packet for the next unusable path once that is due."""
        now = self.endpoint.network.now // self._tick
        if now < self._next_probe:
            return None
        self._next_probe = now + self._path_probe
        first = self._next_path
        path = next(one for one in self.paths[first:] + self.paths[:first] if not one.usable)
        record = next(iter(self._records.values()))
        payload = self._payload(record)
        if payload is None:
            return None
        path.probe = now
        record.again = True
        self.endpoint.counters.probes += 1
        return self._pack(record, path.number, payload)

    def _answer_probe(self, number: int) -> None:
        """Makes an unusable path usable if a packet came through it in good time."""
        path = self.paths[number]
        if path.probe is None:
            return
        time = self.endpoint.network.now // self._tick - path.probe
        if time >= self.shortest:
            path.probe = None
            if not path.usable and time << 3 <= self._late8:
                path.usable = True
                path.time8 = time << 3
                path.losses = 0
                self._unusable -= 1

    def _wake(self) -> None:
        self.endpoint.wake(self)


def _time_of(path: Path) -> int:
    return path.time8
