# SPDX-License-Identifier: Apache-2.0
"""Drives efa_srd_sender: a user of contexts, a payload read, a fabric, receivers of the model.

A transmission becomes a packet after its payload read. The fabric carries the packet to an
Endpoint of the reference model, whose acknowledgements return to the sender. Each handshake goes to
the rules of srd_sender_rules, which check every test.
"""

from collections import Counter, defaultdict, deque

import cocotb
from cocotb.triggers import RisingEdge

from efa_cosim.fabric.description import (
    FabricDescription,
    Node,
    Outage,
    Override,
    PathProperties,
)
from efa_cosim.fabric.network import Network
from efa_cosim.layouts.defs import EVENTS, INTERNAL, TRANSPORT, IoCompStatus, PacketKind, PktOpcode
from efa_cosim.layouts.fields import SrdAckFields, SrdHdrFields
from efa_cosim.transport.endpoint import Endpoint
from efa_cosim.transport.packets import BITMAP_BYTES, PSN_MASK, Start, constants_with, flits
from efa_cosim.transport.sender import REFUSALS
from tb.lib.bundles import Bundles
from tb.lib.stream import (
    POWER_ON,
    StreamDriver,
    StreamMonitor,
    clock_and_reset,
    pauses,
    reset,
    rng_for,
)
from tb.lib.waits import high, until, zero
from tb.unit.srd_sender_rules import GONE, OK, RNR, Job, Rules, key_of

ABORT = IoCompStatus.REMOTE_ERROR_ABORT
STATUSES = sorted(REFUSALS - {ABORT})
# Longer than a packet stays in the fabrics of these tests, with the queue of the port.
QUIET_TICKS = 250
# Transmissions that the port of the sender has stored, in flits, until it takes no more.
PORT_FLITS = 128
# Acknowledgements that wait for the sender; further ones are lost.
ACK_ROOM = 64
# Cycles between two acknowledgements of a receiver (decision 0011).
ACK_GAP = 16


class Held:
    """A pause that a test switches."""

    def __init__(self, on=False):
        self.on = on

    def __call__(self):
        return self.on


class Trace:
    """Remembers the last packets of each peer, and which of them the fabric has dropped."""

    def __init__(self, node, length=160):
        self.node, self.length = node, length
        self._packets = defaultdict(deque)
        self._by_packet = {}

    def sent(self, now, packet):
        """Takes a packet that enters the fabric."""
        if packet[0] == PktOpcode.SRD_ACK:
            ack = SrdAckFields.read(packet)
            peer = ack.src_node
            bits = int.from_bytes(ack.bitmap, "little")
            text = (f"ack session {ack.session} psn {ack.psn:#x} bits {bits:#x} at "
                    f"{ack.bitmap_psn:#x} path {ack.path} status {ack.status} "
                    f"{ack.refused_psn:#x}")  # fmt: skip
        else:
            data = SrdHdrFields.read(packet)
            peer = data.dst_node
            text = (f"data session {data.session} psn {data.psn:#x} behind {data.behind} path "
                    f"{data.path} incarnation {data.incarnation}")  # fmt: skip
        entries = self._packets[peer]
        entry = [now, text, packet, []]
        entries.append(entry)
        self._by_packet[id(packet)] = entry
        if len(entries) > self.length:
            old = entries.popleft()
            if self._by_packet.get(id(old[2])) is old:
                del self._by_packet[id(old[2])]

    def delivered(self, now, packet):
        """Takes a packet that leaves the fabric."""
        entry = self._by_packet.get(id(packet))
        if entry is not None:
            entry[3].append(f"arrives in {now}")

    def taken(self, now, packet, what):
        """Adds what has become of an acknowledgement."""
        entry = self._by_packet.get(id(packet))
        if entry is not None:
            entry[3].append(f"{what} in {now}")

    def reset(self, now, node):
        """Notes a reset of a peer."""
        self._packets[node].append([now, "reset", b"", [""]])

    def of(self, node, since=0):
        """Returns the packets of a peer as text, a line each."""
        return "\n".join(
            f"  cycle {now}: {text}: {', '.join(fate) or 'dropped by the fabric or on its way'}"
            for now, text, _, fate in self._packets[node] if now >= since)  # fmt: skip


class Peer(Endpoint):
    """A receiver: executes packets after a while and acknowledges at a limited rate.

    - `silent`: packets get lost at its port
    - `accepted`: by incarnation, names of the packets that it has accepted
    """

    def __init__(self, bench, node, paths, constants):
        self.bench, self.silent, self.accepted = bench, False, defaultdict(set)
        self.ack_gap, self._ack_from = bench.ack_gap, 0
        number = bench.rng.choice((1, 0x7FFF, 0xFFFE, 0xFFFF))
        super().__init__(
            bench.network, node, bench.node + 1, self._run, anomaly=self._rejects, paths=paths,
            constants=constants, start=Start(number=number))  # fmt: skip

    def _rejects(self, cause, packet):
        raise AssertionError(f"node {self.node} rejects a packet with {cause!r}: "
                             f"{SrdHdrFields.read(packet)}")  # fmt: skip

    def receive(self, packet):
        """Receives a packet, unless the node is silent."""
        if not self.silent:
            super().receive(packet)

    def _run(self, packet):
        bench = self.bench
        name = int.from_bytes(packet[-8:], "little")
        job = bench.jobs[name]
        assert job.node == self.node, f"packet {name} of node {job.node} at node {self.node}"
        status = bench.judge(job)
        bench.executed[name].append((self.incarnation, status))
        if status == OK:
            accepted = self.accepted[self.incarnation]
            # A peer that forges RNR for a packet that it has executed gets the packet again.
            forged = job.again and self.node in bench.rules.lax
            assert name not in accepted or forged, f"node {self.node} executes packet {name} twice"
            accepted.add(name)
        wait = bench.wait()
        if not wait:
            return status
        incarnation = self.incarnation

        def done():
            if self.incarnation == incarnation:
                self.executed(packet, status)

        bench.network.at(bench.network.now + wait, done)
        return None

    def _next_acknowledgement(self):
        now = self.network.now
        if now < self._ack_from:
            return None
        packet = super()._next_acknowledgement()
        if packet is not None:
            packet = self.bench.show(self, packet)
            self._ack_from = now + self.ack_gap
            self.network.at(self._ack_from, self.port.wake)
        return packet


class Bench:
    """A sender with its user, its fabric and its peers.

    - `paths`: paths of the fabric that exist, at most those of the sender
    - `stalls`, `note_stalls`: pauses of transmissions and of outcomes; `gaps`: of posts
    - `read`: most cycles of a payload read; `run`: most cycles of an execution
    - `ack_gap`: cycles between two acknowledgements of a peer; `ack_room`: those that may wait
    - `size`: payload bytes of a packet, a number or a list to choose from
    - `overrides`, other names: properties of the paths (efa_cosim.fabric)

    Results:

    - `judge`: returns the status with which a peer executes a job
    - `lose`: returns True if an acknowledgement gets lost
    - `jobs`, `done`: by name, each Job, and its status: an outcome, or GONE
    - `executed`: by name, (incarnation, status) of each execution
    """

    def __init__(self, dut, name, *, paths=8, nodes=None, stalls=0.0, note_stalls=0.0, gaps=0.0,
                 read=30, run=20, ack_gap=ACK_GAP, ack_room=ACK_ROOM, size=(8, 64, 200),
                 back_off=300, overrides=(), **properties):  # fmt: skip
        self.dut, self.rng = dut, rng_for(name)
        self.window, self.nodes = 1 << int(dut.WINDOW_W.value), 1 << int(dut.NODE_W.value)
        self.path_count = min(paths, len(dut.s_cfg_paths))
        self.retries, self.rto_initial = int(dut.RTO_RETRIES.value), int(dut.RTO_INITIAL.value)
        self.contexts = 1 << int(dut.CTX_W.value)
        self.read, self.ack_gap, self.ack_room = read, ack_gap, ack_room
        self.sizes = (size,) if isinstance(size, int) else size
        self.back_off, self.judge, self.lose = back_off, lambda job: OK, lambda packet: False
        self.run_cycles = run
        # The number of the sender itself is behind those of its peers.
        self.node = self.nodes
        self._reading = pauses(stalls, "payload")
        self._ports(gaps, note_stalls)
        self._fabric(min(nodes or self.nodes, self.nodes), properties, overrides)
        self.rules = Rules(
            window=self.window, paths=(1 << self.path_count) - 1, retries=self.retries,
            rto_initial=self.rto_initial, psn=-int(dut.PSN_LEFT.value) & PSN_MASK,
            executed=self._accepted, explain=self._explain, on_gone=self._gone)  # fmt: skip
        self.jobs, self.done, self.executed = {}, {}, defaultdict(list)
        # Upper bits of the next id of each context.
        bits = 32 - int(dut.CTX_W.value)
        self.generation = [self.rng.getrandbits(bits) for _ in range(2 * self.contexts)]
        self.count = Counter()
        self.ends = False
        self.cycle = 0
        self.number = -int(dut.NUMBERS_LEFT.value) & 0xFFFF or 1
        self._restart()

    def _ports(self, gaps, note_stalls):
        dut = self.dut
        zero(dut, "s_cfg_paths", "s_ended", "s_purge", "s_left_valid", "s_left_send")
        dut.s_cfg_tick.value = TRANSPORT.tick_cycles
        self.pins = Bundles(dut, s_post=INTERNAL.srd_post, m_send=INTERNAL.srd_send,
                            s_gone=INTERNAL.srd_gone, m_note=INTERNAL.srd_note)  # fmt: skip
        fields = ["again", "node", "id", "part", "kind", "rnr_retry", "last", "waits"]
        self.posts = StreamDriver(self.pins, "s_post", gaps, fields)
        self.gones = StreamDriver(self.pins, "s_gone", 0, ["node", "session", "psn"])
        self.acks = StreamDriver(dut, "s_ack", 0, ["data"])
        fields = ["id", "part", "kind", "node", "psn", "session", "incarnation", "path", "behind",
                  "again", "probe", "order"]  # fmt: skip
        self.sends = StreamMonitor(self.pins, "m_send", self._full, fields, on_beat=self._send)
        fields = ["ended", "node", "id", "status", "kind", "gone", "own"]
        self.notes = StreamMonitor(self.pins, "m_note", note_stalls, fields, on_beat=self._note)

    def _fabric(self, peers, properties, overrides):
        properties = {"latency": 60, **properties}
        nodes = tuple(Node(number) for number in (*range(peers), self.node))
        self.trace = Trace(self.node)
        self.network = Network(FabricDescription(
            nodes, self.rng.randrange(1 << 31), self.path_count, PathProperties(**properties),
            tuple(overrides)), self.trace)  # fmt: skip
        constants = constants_with(
            psn_window_w=int(self.dut.WINDOW_W.value), quiet_ticks=QUIET_TICKS
        )
        self.peers = {
            node: Peer(self, node, self.path_count, constants) for node in range(peers)
        }
        self.network.attach(self.node, self._arrive)
        self.port_free = 0

    def _restart(self):
        """Forgets all of the user, at the beginning and after a reset."""
        # Contexts of sends, and of read responses.
        self.free = deque(range(self.contexts)), deque(range(self.contexts, 2 * self.contexts))
        self.backlog = deque()  # jobs without a context
        self.given = deque()  # (job, again) and their beats, in the order of s_post
        self.acks_given, self.gones_given = deque(), deque()
        self.shown = {}  # by node: incarnation of its last acknowledgement, and flow
        self.backing_off = {}  # job: its timer
        self.active = {}  # by key, jobs whose message has not ended
        self.seen = [one.sent for one in (self.posts, self.acks, self.gones)]
        self.posted = set()  # contexts that have not left the posted ones
        # Contexts whose messages have ended; a test switches `ends` on before its first post.
        self.ended, self.purge = (1 << self.contexts) - 1, False

    async def start(self, paths=None):
        """Powers the sender on; `paths`: bits of the paths that it may use."""
        dut = self.dut
        allowed = (1 << self.path_count) - 1 if paths is None else paths
        self.rules.paths = allowed
        dut.s_cfg_paths.value = allowed
        cocotb.start_soon(self._watch())
        await clock_and_reset(dut, resets=POWER_ON)
        await self._begin()

    async def _begin(self):
        dut = self.dut
        await until(dut, high(dut.m_init_done))
        found = int(dut.m_incarnation.value)
        assert found == self.number, f"incarnation {found}, expected {self.number}"
        self.rules.reset(self.number)
        self.running = True

    async def reset(self):
        """Resets the sender in its traffic: it forgets all packets."""
        self.running = False
        self.dut.rst.value = 1
        await RisingEdge(self.dut.clk)
        for stream in (self.posts, self.acks, self.gones):
            stream.clear()
        self.notes.beats.clear()
        for timer in self.backing_off.values():
            timer.cancel()
        for job in (*self.active.values(), *self.backlog):
            self.done.setdefault(job.name, "reset")
        for job in self.jobs.values():
            self.done.setdefault(job.name, "reset")
        self._restart()
        # Numbers of sessions that were not seen may have been taken.
        await reset(self.dut)
        await until(self.dut, high(self.dut.m_init_done))
        found = int(self.dut.m_incarnation.value)
        step = found - self.rules.newest & 0xFFFF
        assert 0 < step < 4 + 2 * self.nodes and found, (
            f"incarnation {found}, expected a number after {self.rules.newest}")  # fmt: skip
        self.number = found
        await self._begin()

    # The user.

    def context(self, job):
        """Returns the number of the context of a job; those of read responses follow the others."""
        return job.id % self.contexts + self.contexts * job.response

    def post(self, node, count=1, response=False):
        """Queues packets to a node, or of read responses; returns their jobs."""
        jobs, kind = [], PacketKind.RESPONSE if response else PacketKind.ALONE
        for _ in range(count):
            job = Job(len(self.jobs), node, kind=kind)
            self.jobs[job.name] = job
            self.backlog.append(job)
            jobs.append(job)
        return jobs

    def cancel(self, job):
        """Ends the message of a job: its transmissions are no longer made."""
        assert not job.response, "only sends are canceled"
        if job.name in self.done or job.ending is not None:
            return
        job.cancelled = True
        if job in self.backlog:
            self.backlog.remove(job)
            self.done[job.name] = GONE
        elif job in self.backing_off:
            self.backing_off.pop(job).cancel()
            del self.rules.by_id[job.key]
            self._finish(job, GONE)
        else:
            self.active.pop(job.key, None)
            self._end_context(job)

    def _end_context(self, job):
        """Tells the sender that the message of a job has ended."""
        self.ended |= 1 << job.id % self.contexts
        self.purge = True

    def _pops(self):
        """Takes the context that leaves the posted ones, and drives what has ended."""
        dut = self.dut
        if dut.m_popped_valid.value == 1:
            index = int(dut.m_popped_index.value)
            assert index in self.posted, f"context {index} is not posted, or was popped before"
            self.posted.remove(index)
            if self.ends and index < self.contexts and int(dut.s_ended.value) >> index & 1:
                job = next(one for one in self.rules.by_id.values()
                           if self.context(one) == index)  # fmt: skip
                self.count["left unsent"] += 1
                self.rules.left(job)
        if self.ends:
            dut.s_ended.value, dut.s_purge.value = self.ended, int(self.purge)
            self.purge = False

    def _feed(self):
        """Posts jobs as long as contexts are free."""
        while self.backlog and len(self.given) < 3:
            free = self.free[self.backlog[0].response]
            if not free:
                break
            job, index = self.backlog.popleft(), free.popleft()
            # Ids of sends and of read responses may be equal.
            place = index % self.contexts
            job.id = self.generation[index] * self.contexts + place & 0xFFFFFFFF
            job.part = self.rng.getrandbits(18)
            if not job.response:
                job.kind = self.rng.choice((PacketKind.PART, PacketKind.ALONE))
                self.ended &= ~(1 << index)
            self.generation[index] += 1
            self.active[job.key] = job
            self._give(job, False)

    def _give(self, job, again):
        self.given.append((job, again))
        # Limits of the message are those of other modules.
        others = {"rnr_retry": self.rng.getrandbits(3), "last": self.rng.getrandbits(18),
                  "waits": self.rng.getrandbits(1)}  # fmt: skip
        self.posts.post({"again": int(again), "node": job.node, "id": job.id, "part": job.part,
                         "kind": job.kind, **others})  # fmt: skip

    def _finish(self, job, status):
        assert job.name not in self.done, f"second end of packet {job.name}: {status}"
        self.done[job.name] = status
        self.active.pop(job.key, None)
        index = self.context(job)
        if not job.response:
            self.ended |= 1 << index
        # An outcome of the past may still come.
        wait = self.rules.late if status == GONE or job.ending is not None else 1
        self.network.at(self.network.now + wait,
                        lambda free=self.free[job.response]: free.append(index))  # fmt: skip

    def _gone(self, job):
        self._finish(job, GONE if job.ending is None else job.ending)

    def _note(self, beat):
        job = self.rules.noted(beat)
        if beat["ended"]:
            self._end_session(beat["node"], beat["status"])
        elif job in self.active.values() and beat["status"] == RNR and not job.response:
            wait = self.rng.randrange(1, self.back_off + 1)
            self.count["back-off"] += 1
            self.backing_off[job] = self.network.at(
                self.network.now + wait, lambda: self._again(job))  # fmt: skip
        elif job is not None:
            self.rules.by_id.pop(job.key, None)
            self._finish(job, beat["status"] if job.ending is None else job.ending)

    def _end_session(self, node, status):
        """Ends the messages that have had a packet in a session: also those after RNR."""
        for job in [one for one in self.backing_off if one.node == node]:
            self.backing_off.pop(job).cancel()
            del self.rules.by_id[job.key]
            self._finish(job, status)
        for job in list(self.active.values()):
            if job.node == node and job.again and (job.flight is None or job.flight.noted):
                job.ending = status
                del self.active[job.key]
                self._end_context(job)

    def _again(self, job):
        job.again = True
        del self.backing_off[job]
        self._give(job, True)

    # The device behind the sender.

    def _full(self):
        return self.port_free - self.network.now > PORT_FLITS or self._reading()

    def _send(self, beat):
        # Its packet may have been posted in the cycle before.
        self._take_posts()
        self.rules.sent(beat)
        job = self.active.get(key_of(beat))
        now = self.network.now
        if job is None:
            # The transmission reads its context, which has ended.
            self.network.at(now + 1 + self.rng.randrange(self.read + 1), lambda: self.skip(beat))
            return
        payload = bytes(self.rng.choice(self.sizes) - 8) + job.name.to_bytes(8, "little")
        packet = SrdHdrFields.pack(
            opcode=PktOpcode.SRD_SEND, length=len(payload), src_qpn=job.id & 0xFFFF, dst_qpn=7,
            psn=beat["psn"], session=beat["session"], incarnation=beat["incarnation"],
            src_node=self.node, dst_node=beat["node"], path=beat["path"], behind=beat["behind"],
        ) + payload  # fmt: skip
        begin = max(self.port_free, now + 1 + self.rng.randrange(self.read + 1))
        self.port_free = begin + flits(packet)
        incarnation = self.number

        def leave():
            self.network.send(packet)
            if self.running and self.number == incarnation:
                self.dut.s_left_valid.value = 1
                self.dut.s_left_send.value = INTERNAL.srd_send.pack(**beat)

        self.network.at(begin, leave)

    def skip(self, beat):
        """Reports that a transmission was not made."""
        if self.running:
            gone = {name: beat[name] for name in ("node", "session", "psn")}
            self.gones_given.append(gone)
            self.gones.post(gone)

    def _arrive(self, packet):
        lost = self._replaces(packet) or self.lose(packet)
        if not self.running or len(self.acks_given) >= self.ack_room or lost:
            self.count["acknowledgements lost"] += 1
            self.trace.taken(self.network.now, packet, "lost at the input")
        else:
            self.acknowledge(packet)

    def _replaces(self, packet):
        """Returns True if the sender may take an acknowledgement in place of one that waits and has
        an older incarnation: the rules could not know which of them it has seen."""
        ack = SrdAckFields.read(packet)
        incarnation, flow = self.shown.get(ack.src_node, (ack.incarnation, 0))
        waits = self.rules.late + 40 * len(self.shown)
        if incarnation != ack.incarnation and self.rules.flow < flow + waits:
            return True
        self.shown[ack.src_node] = ack.incarnation, self.rules.flow
        return False

    def acknowledge(self, packet):
        """Gives an acknowledgement to the sender."""
        self.acks_given.append(packet)
        self.acks.post({"data": int.from_bytes(packet, "little")})

    def forge(self, node, **fields):
        """Gives a forged acknowledgement of a node to the sender."""
        bitmap = fields.pop("bits", 0).to_bytes(BITMAP_BYTES, "little")
        self.acknowledge(SrdAckFields.pack(**{
            "opcode": PktOpcode.SRD_ACK, "length": BITMAP_BYTES, "src_node": node,
            "dst_node": self.node, "bitmap": bitmap, **fields}))  # fmt: skip

    def show(self, peer, packet):  # noqa: ARG002 - for tests
        """Returns the acknowledgement that a peer sends instead of that of the model."""
        return packet

    def wait(self):
        """Returns the cycles of an execution."""
        return self.rng.randrange(self.run_cycles + 1)

    def _accepted(self, job):
        return any(status == OK for _, status in self.executed[job.name])

    def _explain(self, node):
        peer = self.rules.peer(node)
        story = self.trace.of(node, peer.progress - 3 * self.rto_initial)
        return (f"most retransmissions in a row: {self.rules.most_rounds}; packets since cycle "
                f"{peer.progress}, the last progress, and a while before:\n{story}")  # fmt: skip

    # Each cycle.

    async def _watch(self):
        dut, rules = self.dut, self.rules
        self.running = False
        edge = RisingEdge(dut.clk)
        outputs = [(dut.m_send_valid, dut.m_send_ready), (dut.m_note_valid, dut.m_note_ready)]
        anomaly = dut.ev_anomaly_ack_valid
        while True:
            await edge
            self.cycle += 1
            rules.tick(not any(valid.value == 1 and ready.value == 0 for valid, ready in outputs))
            if self.running:
                self._inputs()
                self._pops()
                if anomaly.value == 1:
                    found = EVENTS.anomaly_ack.unpack(int(dut.ev_anomaly_ack_data.value))
                    rules.anomaly(found.what, found.node)
                self._feed()
            dut.s_left_valid.value = 0
            self.network.run(self.cycle)

    def _take_posts(self):
        """Gives the handshakes of posts to the rules."""
        while self.posts.sent > self.seen[0]:
            self.seen[0] += 1
            index = self.context(self.given[0][0])
            assert index not in self.posted
            self.posted.add(index)
            self.rules.posted(*self.given.popleft())

    def _inputs(self):
        """Gives the handshakes of the inputs to the rules."""
        rules = self.rules
        self._take_posts()
        while self.acks.sent > self.seen[1]:
            self.seen[1] += 1
            packet = self.acks_given.popleft()
            self.trace.taken(self.cycle, packet, "taken by the sender")
            rules.acknowledged(packet)
        while self.gones.sent > self.seen[2]:
            self.seen[2] += 1
            rules.gone(**{"number" if name == "session" else name: value
                          for name, value in self.gones_given.popleft().items()})  # fmt: skip

    async def cycles(self, count):
        """Waits for a number of cycles."""
        for _ in range(count):
            await RisingEdge(self.dut.clk)

    async def finish(self, cycles=200_000, after=600):
        """Waits until each packet has its end, then checks that nothing else comes."""
        await self.all_done(cycles)
        await until(self.dut, lambda: not self.rules.by_id and not self.acks_given,
                    "the last outcomes", cycles)  # fmt: skip
        await self.cycles(after)
        assert not self.posted, f"contexts {sorted(self.posted)[:9]} have not left the posted ones"
        self.rules.check_end()

    async def all_done(self, cycles=200_000):
        """Waits until each packet has its end."""
        try:
            await until(self.dut, lambda: len(self.done) == len(self.jobs), "outcomes", cycles)
        except AssertionError as error:
            left = [job for job in self.jobs.values() if job.name not in self.done]
            some = [(hex(job.id), job.node, job.flight and hex(job.flight.psn)) for job in left[:5]]
            raise AssertionError(
                f"{error}: {len(left)} packets, (id, node, psn) {some}; "
                f"{self._explain(left[0].node)}" if left else str(error)) from None  # fmt: skip

    def statuses(self, jobs=None):
        """Returns how many of the packets ended with each status."""
        return Counter(self.done[job.name] for job in (jobs or self.jobs.values()))


def down(first, end=None, **others):
    """Returns an override with an outage from one cycle to another."""
    paths, pairs = others.pop("paths", None), others.pop("pairs", None)
    return Override(paths, pairs, {"down": (Outage(first, end),), **others})
