# SPDX-License-Identifier: Apache-2.0
"""Checks what efa_srd_sender transmits and reports, against decision 0009.

The rules see handshakes only: packets that are posted, transmissions, acknowledgements,
transmissions that were not made, outcomes. They process an acknowledgement at its handshake; from
then on the sender may know it. The sender must know it `late` cycles after its work was done:

- Cycles in which an output waits do not count: `flow` is the number of the others.
- The work of the sender has a bound: `ACK_CYCLES` for each acknowledgement and PACKET_CYCLES for
  each packet without outcome, which is resolved or searched for losses. Acknowledgements of a peer
  join while they wait. The end of a session comes before all that. `idle` is the last flow
  without work.
- Of more than `replies` refusals that wait, the sender may lose some.
"""

from collections import Counter, deque
from dataclasses import dataclass, field

from efa_cosim.layouts.defs import TRANSPORT, IoCompStatus, PacketKind, TransportAnomaly
from efa_cosim.layouts.fields import SrdAckFields
from efa_cosim.transport.packets import NUMBER_MASK, PSN_MASK, number_distance, psn_distance

OK, RNR = IoCompStatus.OK, IoCompStatus.REMOTE_ERROR_RNR
ABORT = IoCompStatus.REMOTE_ERROR_ABORT
# Statuses of a dead peer: one that has answered, and one that never did.
DEAD = (IoCompStatus.LOCAL_ERROR_UNRESP_REMOTE, IoCompStatus.LOCAL_ERROR_UNREACH_REMOTE)
# Cycles of an acknowledgement, beside those of its packets.
ACK_CYCLES = 40
PACKET_CYCLES = 2
# Cycles from a post to the choice of the next packet of its peer.
CHOICE_CYCLES = 32
GONE = "gone"  # resolved since its message has ended
# Retransmissions within half of the shortest timeout belong to one timeout.
ROUND_CYCLES = TRANSPORT.rto_margin * TRANSPORT.tick_cycles // 2


def key_of(beat):
    """Returns the id of a packet with the kind of its context: a send, or a read response."""
    return beat["id"] | (beat["kind"] == PacketKind.RESPONSE) << 32


@dataclass(eq=False)
class Job:
    """A packet of the user: its name, destination, id, and number in its message.

    - `kind`: what it is to its message
    - `flight`: its present PSN, None before the first transmission
    - `status`: its last outcome
    - `again`: it was posted again after RNR; `ending`: status of its session, which has ended
    """

    name: int
    node: int
    id: int = 0
    part: int = 0
    kind: int = PacketKind.ALONE
    flight: "Flight | None" = None
    status: object = None
    cancelled: bool = False
    went: bool = False  # a transmission was not made
    again: bool = False
    ending: int | None = None

    @property
    def response(self):
        """Returns True for a packet of a read response, whose contexts have ids of their own."""
        return self.kind == PacketKind.RESPONSE

    @property
    def key(self):
        """Returns the id with the kind of its context."""
        return key_of({"kind": self.kind, "id": self.id})


@dataclass(eq=False)
class Flight:
    """A PSN of a session.

    - `paths`: of its transmissions, with their cycles
    - `resolved`: flow when an acknowledgement resolved it, with `status`
    - `lost`: flow when a quiet peer has shown that it was lost, until it is sent again
    - `sure`: False while the sender may have lost its refusal
    """

    session: "Session"
    psn: int
    job: Job
    paths: list = field(default_factory=list)
    resolved: int | None = None
    sure: bool = False
    lost: int | None = None
    status: object = None
    noted: bool = False


@dataclass(eq=False)
class Session:
    """A session of a peer.

    - `open`: packets without outcome
    - `closing`: None, ABORT or a status of DEAD; `closed`: flow of its beginning
    - `oldest`: the first PSN that may not be resolved; `passed`: the first that may be unresolved
      for the sender; `moves`: (flow, PSN before) of its last moves
    """

    number: int
    next: int
    oldest: int
    passed: int
    acknowledged: int = 0
    open: int = 0
    measured: bool = False
    closing: object = None
    closed: int = 0
    flights: dict = field(default_factory=dict)
    unresolved: dict = field(default_factory=dict)
    moves: deque = field(default_factory=deque)


class PeerView:
    """What the rules know of a peer.

    - `progress`: cycle since which its timer may run; `rounds`: retransmissions since then that
      are a timeout apart, with the cycle of the last one
    """

    def __init__(self):
        self.sessions, self.retired = deque(), None
        self.incarnation, self.learned, self.before = 0, 0, 0
        self.answered = None  # flow
        self.progress, self.rounds, self.round_at = 0, 0, -ROUND_CYCLES
        self.joined = 0  # flow when the work of its last acknowledgement begins
        self.fresh, self.again = deque(), deque()  # (job, flow) that wait for a PSN

    @property
    def current(self):
        """Returns the session that acknowledgements belong to, None if there is none."""
        if self.sessions and self.sessions[-1].closing is None:
            return self.sessions[-1]
        return None


class Rules:
    """Checks the transmissions and outcomes of a sender.

    - `executed`: function of a job, returns True if its peer has accepted its packet
    - `explain`: function of a node, returns what happened to its packets, as text
    - `on_gone`: called with a job that ends without an outcome
    - `lax`: nodes whose acknowledgements are forged: only the structure is checked
    - `mortal`: nodes that may be declared dead
    """

    def __init__(self, *, window, paths, retries, rto_initial, psn, executed, explain,
                 on_gone):  # fmt: skip
        self.window, self.paths, self.retries = window, paths, retries
        self.rto_initial, self.first_psn = rto_initial, psn
        self.executed, self.explain, self.on_gone = executed, explain, on_gone
        self.lax, self.mortal = set(), set()
        self.late = 64 + 2 * window
        self.cycle = self.flow = self.idle = self._busy = self._held = 0
        self._refusals = deque()  # flow when the work of each refusal is done
        self.count = Counter()
        self.most_rounds = 0
        self.lags = Counter()  # greatest delays seen, by kind
        # (cycle, node, path, first transmission)
        self.transmissions = []
        self.anomalies = deque()  # expected, then to be seen
        self.reset(0)

    def reset(self, number):
        """Forgets all: the sender has taken a number as its incarnation."""
        self.newest = number
        self.peers, self.by_id, self.gone_ids = {}, {}, {}
        self.unsent = {}  # by key: packets that have ended without an outcome, without their note
        self.anomalies.clear()

    def peer(self, node):
        """Returns the view of a peer."""
        if node not in self.peers:
            self.peers[node] = PeerView()
        return self.peers[node]

    def tick(self, flows):
        """Begins a cycle; `flows` is False if an output waits."""
        self.cycle += 1
        self.flow += flows
        if self._busy <= self.flow:
            self.idle = self.flow

    def _work(self, peer, ack, session):
        """Adds the work of an acknowledgement; returns False if it may get lost."""
        if not ack.status:
            if peer.joined > self.flow:
                return True
            peer.joined = max(self._busy, self.flow)
        packets = 0 if session is None else session.open
        self._busy = max(self._busy, self.flow) + ACK_CYCLES + PACKET_CYCLES * packets
        if not ack.status:
            return True
        while self._refusals and self._refusals[0] <= self.flow:
            self._refusals.popleft()
        self._refusals.append(self._busy)
        return len(self._refusals) <= TRANSPORT.replies

    def _hold_up(self):
        """Adds the time since the last outcome of a session that ends: other work waits."""
        held = self.flow - self._held
        if held <= ACK_CYCLES:
            self._busy += held
        self._held = self.flow
        self._busy = max(self._busy, self.flow + ACK_CYCLES)

    def _late(self, flow):
        """Returns True if the sender has had the time to see what came in `flow`."""
        return flow + self.late < self.idle

    def _check(self, node, condition, what):
        if not condition and node not in self.lax:
            raise AssertionError(
                f"cycle {self.cycle}, node {node}: {what() if callable(what) else what}")

    # Inputs.

    def posted(self, job, again):
        """Takes a packet that the sender has accepted."""
        peer = self.peer(job.node)
        job.flight = None
        if not again:
            assert job.key not in self.by_id, f"the bench posts id {job.id:#x} twice"
        self.by_id[job.key] = job
        (peer.again if again else peer.fresh).append((job, self.flow))

    def gone(self, node, number, psn):
        """Takes a transmission that was not made, at its handshake."""
        session = next((one for one in self.peer(node).sessions if one.number == number), None)
        flight = None if session is None else session.flights.get(psn)
        if flight is None:
            return
        # The acknowledgement of an earlier transmission may be handled later.
        flight.job.went = True
        if psn not in session.unresolved:
            return
        # The end of a session and this input may come in any order.
        if session.closing is None:
            self._busy = max(self._busy, self.flow) + ACK_CYCLES
            self._resolve(session, flight, GONE)
            flight.sure = True
            self._advance(session)
            self._end_gone(flight)

    def left(self, job):
        """Takes a posted packet that leaves without a PSN, since its message has ended."""
        peer = self.peer(job.node)
        for queue in (peer.fresh, peer.again):
            for one in [one for one in queue if one[0] is job]:
                queue.remove(one)
        job.status = GONE
        self.by_id.pop(job.key, None)
        self.gone_ids[job.key] = job, self.flow
        self.on_gone(job)

    def _end_gone(self, flight):
        """Ends a packet without an outcome."""
        job = flight.job
        job.status, flight.noted = GONE, True
        self.unsent[job.key] = job
        flight.session.open -= 1
        self.by_id.pop(job.key, None)
        self.gone_ids[job.key] = job, self.flow
        self.count["gone"] += 1
        self.on_gone(job)

    def acknowledged(self, raw):
        """Takes an acknowledgement that the sender has accepted."""
        ack = SrdAckFields.read(raw)
        node = ack.src_node
        peer = self.peer(node)
        session = peer.current
        sure = self._work(peer, ack, session)
        if session is None or ack.session != session.number:
            if number_distance(ack.session, self.newest) > 0:
                self._expect(TransportAnomaly.SESSION, node)
            self.count["stale"] += 1
            return
        window = session.next - session.passed & PSN_MASK
        shown = self._shown(ack, session.passed, window)
        refused = psn_distance(ack.refused_psn, session.passed) if ack.status else -1
        if shown is None or refused >= window:
            self._expect(TransportAnomaly.PSN, node)
            return
        if peer.incarnation and ack.incarnation != peer.incarnation:
            if number_distance(ack.incarnation, peer.incarnation) > 0:
                self._abort(peer, session, ack.incarnation)
            else:
                self.count["older incarnation"] += 1
            return
        if ack.status == ABORT:
            self._abort(peer, session, ack.incarnation)
            return
        if not peer.incarnation and not shown and not ack.status:
            self.count["quiet"] += 1
            for flight in session.unresolved.values():
                flight.lost = self.flow
        self._learn(peer, ack.incarnation)
        for psn in [session.passed + at & PSN_MASK for at in range(shown.bit_length())
                    if shown >> at & 1]:  # fmt: skip
            self._succeed(peer, session, session.flights[psn], OK, sure)
        if ack.status and refused >= 0:
            self._succeed(peer, session, session.flights[ack.refused_psn], ack.status, sure)
        self._advance(session)

    @staticmethod
    def _shown(ack, oldest, window):
        """Returns the accepted PSNs as bits from oldest on, None if one was never sent."""
        front, bits = psn_distance(ack.psn, oldest), int.from_bytes(ack.bitmap, "little")
        shown = 0
        if bits:
            at = psn_distance(ack.bitmap_psn, oldest)
            if at + bits.bit_length() > window:
                return None
            shown = bits << at if at >= 0 else bits >> -at
        if front > window:
            return None
        return shown | (1 << front) - 1 if front > 0 else shown

    def _learn(self, peer, incarnation):
        if incarnation != peer.incarnation:
            peer.before, peer.incarnation, peer.learned = peer.incarnation, incarnation, self.flow
        if peer.answered is None:
            peer.answered = self.flow

    def _abort(self, peer, session, incarnation):
        session.closing, session.closed = ABORT, self.flow
        self._learn(peer, incarnation)
        self.count["aborts"] += 1

    def _succeed(self, peer, session, flight, status, sure):
        if flight.sure:
            return
        if len(flight.paths) == 1:
            session.measured = True
        if flight.resolved is None:
            self._resolve(session, flight, status)
            session.acknowledged += 1
        flight.sure = sure
        if sure:
            flight.resolved = self.flow
            peer.progress, peer.rounds, peer.round_at = self.cycle, 0, -ROUND_CYCLES
        else:
            self.count["refusals that may be lost"] += 1

    def _resolve(self, session, flight, status):
        flight.resolved, flight.status = self.flow, status
        del session.unresolved[flight.psn]

    def _advance(self, session):
        while session.oldest != session.next and session.oldest not in session.unresolved:
            session.oldest = session.oldest + 1 & PSN_MASK
        before = session.passed
        while session.passed != session.next and session.flights[session.passed].sure:
            session.passed = session.passed + 1 & PSN_MASK
        if session.passed != before:
            session.moves.append((self.flow, before))

    def _expect(self, cause, node):
        self.anomalies.append((int(cause), node))
        self.count["anomalies expected"] += 1

    # Outputs.

    def anomaly(self, cause, node):
        """Takes a reported anomaly of a peer."""
        self.count["anomalies"] += 1
        if self.lax:
            return
        assert self.anomalies, f"cycle {self.cycle}: anomaly {cause} of {node} without a cause"
        wanted = self.anomalies.popleft()
        found = cause, node
        assert found == wanted, f"cycle {self.cycle}: anomaly {found}, expected {wanted}"

    def sent(self, beat):
        """Takes a transmission."""
        node, number, psn = beat["node"], beat["session"], beat["psn"]
        peer = self.peer(node)
        session = next((one for one in peer.sessions if one.number == number), None)
        if session is None and peer.retired is not None and peer.retired.number == number:
            session = peer.retired
        if session is None:
            session = self._begin(peer, node, number, psn)
        flight = session.flights.get(psn)
        first = flight is None
        if first:
            flight = self._first(peer, node, session, beat)
        else:
            self._repeat(peer, node, session, flight, beat)
        flight.paths.append((self.cycle, beat["path"]))
        self.transmissions.append((self.cycle, node, beat["path"], first))
        self._check(node, self.paths >> beat["path"] & 1,
                    f"path {beat['path']}, expected one of {self.paths:#x}")  # fmt: skip
        self._behind(node, session, beat)
        known = {peer.incarnation}
        if not self._late(peer.learned):
            known.add(peer.before)
        if session is not peer.retired and session.closing is None:
            self._check(node, beat["incarnation"] in known,
                        f"incarnation {beat['incarnation']}, expected one of {known}")  # fmt: skip
        self.count["sent"] += 1

    def _begin(self, peer, node, number, psn):
        """Begins a session with its first transmission."""
        step = number_distance(number, self.newest)
        self._check(node, 0 < step < 8 and number,
                    f"session {number}, expected the number after {self.newest}")  # fmt: skip
        self.newest = number
        if peer.sessions:
            before = peer.sessions[-1]
            self._check(node, before.closing is not None,
                        lambda: f"session {number} begins, session {before.number} has not ended, "
                        + self.explain(node))  # fmt: skip
        self._check(node, psn == self.first_psn,
                    f"first psn {psn:#x} of session {number}, expected {self.first_psn:#x}")
        session = Session(number, psn, psn, psn)
        peer.sessions.append(session)
        peer.progress, peer.rounds, peer.round_at = self.cycle, 0, -ROUND_CYCLES
        self.count["sessions"] += 1
        return session

    def _first(self, peer, node, session, beat):
        """Checks the first transmission of a PSN; returns its Flight."""
        psn = beat["psn"]
        self._check(node, session in peer.sessions, f"psn {psn:#x} of a session that has ended")
        self._check(node, psn == session.next,
                    lambda: f"new psn {psn:#x}, expected {session.next:#x}, {beat}")  # fmt: skip
        job = self.by_id.get(key_of(beat))
        self._check(node, job is not None and job.node == node,
                    lambda: f"id {beat['id']:#x} is not posted for this node, {beat}")  # fmt: skip
        if job is None:  # of a lax node
            job = Job(-1, node, beat["id"], beat["part"], beat["kind"])
        self._check(node, beat["part"] == job.part,
                    f"packet {beat['part']} of id {job.id:#x}, expected {job.part}")  # fmt: skip
        self._kind(node, beat, job)
        if not session.unresolved:
            peer.progress, peer.rounds, peer.round_at = self.cycle, 0, -ROUND_CYCLES
        self._order(peer, node, job)
        lost = [one for one in session.unresolved.values() if one.lost is not None]
        self._check(node, not lost or not self._late(lost[0].lost), lambda: (
            f"new psn {psn:#x} before psn {lost[0].psn:#x}, which a quiet peer has not taken"))
        flight = Flight(session, psn, job)
        session.flights[psn] = session.unresolved[psn] = flight
        session.next = psn + 1 & PSN_MASK
        session.open += 1
        job.flight = flight
        most = min(self.window, TRANSPORT.cwnd_initial + session.acknowledged)
        self._check(node, len(session.unresolved) <= most,
                    lambda: f"{len(session.unresolved)} packets in flight, expected up to {most}: "
                    f"{session.acknowledged} were acknowledged")  # fmt: skip
        return flight

    def _order(self, peer, node, job):
        """Checks that packets of a peer leave in the order of their posts, after RNR first."""
        queue = peer.again if any(one is job for one, _ in peer.again) else peer.fresh
        self._check(node, queue, f"id {job.id:#x} does not wait for a psn")
        if not queue:
            return
        self._check(node, queue[0][0] is job, lambda: (
            f"id {job.id:#x} leaves before id {queue[0][0].id:#x}, which was posted before"))
        if queue is peer.fresh and peer.again:
            waits = self.flow - peer.again[0][1]
            self._check(node, waits <= CHOICE_CYCLES, lambda: (
                f"id {job.id:#x} leaves; id {peer.again[0][0].id:#x} waits after RNR since "
                f"{waits} cycles"))  # fmt: skip
        while queue and queue.popleft()[0] is not job:
            pass

    def _repeat(self, peer, node, session, flight, beat):
        """Checks a further transmission of a PSN."""
        job = flight.job
        self._check(node, (beat["id"], beat["part"]) == (job.id, job.part), lambda: (
            f"id {beat['id']:#x}, packet {beat['part']} of psn {beat['psn']:#x}, expected id "
            f"{job.id:#x}, packet {job.part}"))  # fmt: skip
        self._kind(node, beat, job)
        self.count["again"] += 1
        flight.lost = None
        since = None
        if flight.sure:
            since = flight.resolved
        elif session.closing is not None:
            since = session.closed
        if since is not None:
            self.count["after its resolution"] += 1
            self._lag("transmission after resolution", since)
            self._check(node, not self._late(since), lambda: (
                f"psn {flight.psn:#x} is transmitted {self.flow - since} cycles after its "
                f"resolution with {flight.status}, session {session.closing}"))
        elif self.cycle - peer.round_at > ROUND_CYCLES:
            peer.rounds, peer.round_at = peer.rounds + 1, self.cycle
            self.most_rounds = max(self.most_rounds, peer.rounds)

    def _lag(self, name, since):
        """Records the greatest delay of a kind, without backlog."""
        if since <= self.idle:
            self.lags[name] = max(self.lags[name], self.flow - since)

    def _behind(self, node, session, beat):
        """Checks oldest of a transmission: not after the resolved PSNs, and not of long ago."""
        behind = beat["behind"]
        self._check(node, behind < self.window, f"behind {behind}, window {self.window}")
        oldest = beat["psn"] - behind & PSN_MASK
        ahead = psn_distance(oldest, session.oldest)
        self._check(node, ahead <= 0, lambda: (
            f"psn {beat['psn']:#x} behind {behind}: oldest {oldest:#x}, not resolved from "
            f"{session.oldest:#x} on"))  # fmt: skip
        moves = session.moves
        while moves and self._late(moves[0][0]):
            moves.popleft()
        least = moves[0][1] if moves else session.passed
        self._check(node, psn_distance(oldest, least) >= 0, lambda: (
            f"psn {beat['psn']:#x} behind {behind}: oldest {oldest:#x} was passed more than "
            f"{self.late} cycles ago, expected {least:#x} or later"))  # fmt: skip

    def noted(self, beat):
        """Takes an outcome; returns its job, None for the end of a session or a late outcome."""
        node, status = beat["node"], beat["status"]
        peer = self.peer(node)
        if beat["ended"]:
            self._ended(peer, node, beat)
            return None
        job = self.by_id.get(key_of(beat))
        self._check(node, not beat["own"], f"error of this device, {beat}")
        self._check(node, not (beat["gone"] and status), f"not sent, with a status, {beat}")
        if job is None and key_of(beat) in self.gone_ids:
            gone, at = self.gone_ids.pop(key_of(beat))
            self._check(node, not self._late(at),
                        f"outcome {status} of id {gone.id:#x} long after its end")  # fmt: skip
            self._check(node, not beat["gone"] or gone.key in self.unsent,
                        f"id {gone.id:#x} was not sent, and had no psn")  # fmt: skip
            if gone.key in self.unsent:
                del self.unsent[gone.key]
                self._kind(node, beat, gone)
            return None
        assert job is not None, f"cycle {self.cycle}: outcome of an id without a packet, {beat}"
        assert job.node == node, f"cycle {self.cycle}: {beat}, expected node {job.node}"
        flight = job.flight
        if flight is not None:
            self._kind(node, beat, job)
        if beat["gone"]:
            # The transmission was not made, and the session is about to end.
            self._check(node, job.went and flight is not None and not flight.noted, lambda: (
                f"id {job.id:#x} was sent, and has no outcome"))  # fmt: skip
            self._end_gone(flight)
            del self.unsent[job.key]
            return None
        if status in (ABORT, *DEAD):
            self._hold_up()
        if status in DEAD:
            self._dead(peer, node, job, status)
        elif status == ABORT:
            self._aborted(peer, node, job)
        else:
            found = None if flight is None else flight.status
            self._check(node, found == status, lambda: (
                f"id {job.id:#x} has status {status}, expected {found}"))
            if flight is not None and flight.resolved is not None:
                self._lag("outcome", flight.resolved)
            self._check(node, status or self.executed(job), lambda: (
                f"id {job.id:#x} has success, its peer has not accepted it"))  # fmt: skip
        if flight is not None:
            self._check(node, not flight.noted, f"second outcome of id {job.id:#x}")
            flight.noted = flight.sure = True
            flight.session.open -= 1
            self._advance(flight.session)
        else:
            for queue in (peer.fresh, peer.again):
                for one in list(queue):
                    if one[0] is job:
                        queue.remove(one)
        job.status = status
        if status != RNR or job.response:
            del self.by_id[job.key]
        self.count["outcomes"] += 1
        return job

    def _kind(self, node, beat, job):
        self._check(node, beat["kind"] == job.kind,
                    f"kind {beat['kind']} of id {job.id:#x}, expected {job.kind}")  # fmt: skip

    def _session_of(self, peer, job):
        """Returns the session that ends with an outcome of a job, None if there is none."""
        if job.flight is not None:
            return job.flight.session
        return peer.sessions[0] if peer.sessions else None

    def _overtaken(self, node, job, status):
        """Checks that a packet was not resolved long before its session ended."""
        flight = job.flight
        if flight is not None and flight.resolved is not None:
            self._check(node, not (flight.sure and self._late(flight.resolved)), lambda: (
                f"id {job.id:#x} has status {status}, was resolved with {flight.status} "
                f"{self.flow - flight.resolved} cycles before"))  # fmt: skip

    def _aborted(self, peer, node, job):
        session = self._session_of(peer, job)
        self._check(node, session is not None and session.closing == ABORT, lambda: (
            f"id {job.id:#x} has ABORT without a new incarnation"))  # fmt: skip
        self._overtaken(node, job, "ABORT")

    def _dead(self, peer, node, job, status):
        session = self._session_of(peer, job)
        if session is None:
            self._check(node, False, f"id {job.id:#x} has status {status} without a session")
            return
        self._overtaken(node, job, status)
        if session.closing is None:
            self._die(peer, node, session, status)
        self._check(node, session.closing == status,
                    f"id {job.id:#x} has status {status}, expected {session.closing}")  # fmt: skip

    def _die(self, peer, node, session, status):
        """Checks the death of a peer at its first outcome."""
        session.closing, session.closed = status, self.flow
        rto = TRANSPORT.rto_margin if session.measured else self.rto_initial
        ticks = sum(rto << min(at, TRANSPORT.rto_backoff_max) for at in range(self.retries))
        least = (ticks - 2 * self.retries) * TRANSPORT.tick_cycles
        elapsed = self.cycle - peer.progress
        story = f"{elapsed} cycles and {peer.rounds} retransmissions after its last answer"
        self._check(node, elapsed >= least, lambda: (
            f"dead {story}, expected {least} cycles or more; {self.explain(node)}"))  # fmt: skip
        self._check(node, peer.rounds >= self.retries - 1, lambda: (
            f"dead {story}, expected {self.retries - 1} retransmissions; {self.explain(node)}"))
        self._check(node, node in self.mortal, lambda: (
            f"a live peer is dead {story}; {self.explain(node)}"))  # fmt: skip
        answered, unreached = DEAD
        wanted = {unreached if peer.answered is None else answered}
        if peer.answered is not None and not self._late(peer.answered):
            wanted.add(unreached)
        self._check(node, status in wanted, f"dead with status {status}, expected {wanted}")
        self.count["dead"] += 1

    def _ended(self, peer, node, beat):
        self._check(node, beat["id"] == 0, f"id of an end: {beat}")
        session = peer.sessions[0] if peer.sessions else None
        self._check(node, session is not None and session.closing == beat["status"], lambda: (
            f"{beat} ends session {session and session.number}, which has "
            f"{session and session.closing}"))  # fmt: skip
        if session is None:
            return
        peer.sessions.popleft()
        peer.retired = session
        left = [flight for flight in session.flights.values()
                if not flight.noted or flight.job.key in self.unsent]  # fmt: skip
        self._check(node, not left, lambda: (
            f"session {session.number} has ended without an outcome of {len(left)} packets, "
            f"psn {left[0].psn:#x}, id {left[0].job.id:#x}"))  # fmt: skip
        if beat["status"] in DEAD:
            old = [job for job, at in (*peer.fresh, *peer.again) if at < session.closed - self.late]
            self._check(node, not old, lambda: (
                f"session {session.number} has ended, {len(old)} posted packets wait, "
                f"id {old[0].id:#x}"))  # fmt: skip
        for flight in session.flights.values():
            flight.resolved = self.flow if flight.resolved is None else flight.resolved
        self.count["ended"] += 1

    def check_end(self):
        """Checks that nothing is missing after the traffic."""
        assert not self.by_id, f"no outcome of ids {[hex(one) for one in self.by_id][:9]}"
        unsent = [hex(job.id) for job in self.unsent.values() if job.node not in self.lax]
        assert not unsent, f"no note of ids that were not sent: {unsent[:9]}"
        assert not self.anomalies or self.lax, f"anomalies {list(self.anomalies)} were not reported"
        for node, peer in self.peers.items():
            for session in peer.sessions:
                self._check(node, session.closing is None,
                            f"session {session.number} has not ended: {session.closing}")


def number_after(number):
    """Returns the number after a session or incarnation."""
    return number + 1 & NUMBER_MASK or 1
