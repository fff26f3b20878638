# SPDX-License-Identifier: Apache-2.0
"""Drives efa_srd_receiver and compares it with the receiver of the reference model.

The model processes a packet when the result of its check is visible at the outputs, and an outcome
at its handshake. An acknowledgement may be built some cycles before it is visible, so the bench
checks it against two states: it shows nothing that the model does not show now, and everything
that the model showed a few cycles before the acknowledgement was built.
"""

from collections import Counter, defaultdict, deque

import cocotb
from cocotb.triggers import RisingEdge

from efa_cosim.layouts.defs import INTERNAL, IoCompStatus, PktOpcode, SrdAck, SrdHdr
from efa_cosim.layouts.fields import SrdAckFields, SrdHdrFields
from efa_cosim.transport.endpoint import Endpoint
from efa_cosim.transport.packets import (
    BITMAP_BYTES,
    PSN_MASK,
    Start,
    constants_with,
    psn_distance,
)
from efa_cosim.transport.sender import REFUSALS
from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.waits import high, until, zero

ABORT = IoCompStatus.REMOTE_ERROR_ABORT
STATUSES = sorted(REFUSALS - {ABORT})
OPCODES = [PktOpcode.SRD_SEND, PktOpcode.RDMA_WRITE, PktOpcode.READ_REQUEST,
           PktOpcode.READ_RESPONSE]  # fmt: skip
PATHS = 256
# A duplicate waits at most this long between its check and its look-up of the outcome.
LOOKUP_CYCLES = 4
# An acknowledgement shows an outcome that is at least this much older than its choice.
STORE_CYCLES = 2


class _Silence:
    """A network that carries nothing: the bench takes the packets of the model directly."""

    now = 0

    def attach(self, node, receive):
        pass

    def at(self, cycle, function):
        pass


class _Endpoint(Endpoint):
    """A node whose quiet time is an input and whose replies the bench takes."""

    is_quiet = False

    def __init__(self, *args, **fields):
        self.taken = []
        super().__init__(_Silence(), *args, **fields)

    def reply(self, packet):
        self.taken.append(packet)


def header(packet):
    """Returns the header of a packet as the integer that the RTL receives."""
    return int.from_bytes(packet[: SrdHdr.SIZE], "little")


def outcome(data, status, **fields):
    """Returns the outcome of a packet, for s_outcome."""
    known = {"node": data.src_node, "src_qpn": data.src_qpn, "dst_qpn": data.dst_qpn,
             "psn": data.psn, "session": data.session, "path": data.path,
             "status": status}  # fmt: skip
    return INTERNAL.srd_outcome.pack(**known | fields)


class RefModel:
    """The model's receiver and what the acknowledgements of the RTL may and must show."""

    def __init__(self, node, nodes, window_w, incarnation):
        self.passed = None  # the packet that the model executes
        constants = constants_with(psn_window_w=window_w)
        self.endpoint = _Endpoint(
            node, nodes, self._execute, datagram=self._execute, anomaly=self._anomaly, paths=PATHS,
            constants=constants, start=Start(number=incarnation))  # fmt: skip
        self.window = 1 << window_w
        # By (node, session): PSNs ever accepted, oldest.
        self.accepted, self.oldest = defaultdict(set), {}
        # By node: (cycle, session, oldest, bits) after each change.
        self.states = defaultdict(deque)
        # By node: (cycle, session, path) of each cause that no acknowledgement has shown, and of
        # the last cause.
        self.causes, self.latest = defaultdict(list), {}
        # By node: cycle of the last acknowledgement without a status; (session, psn, bits) of the
        # last one with the state.
        self.sent, self.shown = {}, {}
        # Refusals: that must come, that may come.
        self.refusals, self.optional = Counter(), Counter()
        self.stateless = deque()
        # By (node, session, psn): (cycle, data) of duplicates before the outcome.
        self.early = defaultdict(list)
        self.acks = self.refused = 0

    def _execute(self, packet):
        self.passed = packet

    @staticmethod
    def _anomaly(cause, packet):
        raise AssertionError(f"the bench sends a malformed packet: {cause!r}, {packet.hex()}")

    @staticmethod
    def _key(data, status):
        return (data.src_node, data.session, data.psn, data.path, data.dst_qpn, data.src_qpn,
                status)  # fmt: skip

    def receive(self, packet, quiet, cycle):
        """Processes a packet; returns True if it is executed."""
        self.endpoint.is_quiet, self.passed = quiet, None
        duplicates = self.endpoint.counters.duplicates
        self.endpoint.receive(packet)
        if packet[0] == PktOpcode.UD_SEND:
            return True
        data = SrdHdrFields.read(packet)
        reported = False
        if self.endpoint.taken:
            reply = self.endpoint.taken.pop()
            status = SrdAckFields.read(reply).status
            if status in (0, ABORT):
                self.stateless.append(reply)
                return False
            self.refusals[self._key(data, status)] += 1
            reported = True
        reported |= self._due(data, cycle)
        if duplicates != self.endpoint.counters.duplicates and not reported:
            self.early[data.src_node, data.session, data.psn].append((cycle, data))
        self._record(data, cycle)
        return self.passed is not None

    def executed(self, packet, status, cycle):
        """Processes an outcome."""
        data = SrdHdrFields.read(packet)
        key = data.src_node, data.session, data.psn
        self.endpoint.executed(packet, status)
        early = [copy for at, copy in self.early.pop(key, ()) if cycle - at <= LOOKUP_CYCLES]
        if self.endpoint.taken:
            ack = SrdAckFields.read(self.endpoint.taken.pop())
            fields = ack.src_qpn, ack.dst_qpn, ack.refused_psn, ack.path, ack.status
            wanted = data.dst_qpn, data.src_qpn, data.psn, data.path, status
            assert fields == wanted, (fields, wanted)
            self.refusals[self._key(data, status)] += 1
            for copy in early:
                self.optional[self._key(copy, status)] += 1
        elif self._due(data, cycle):
            self.accepted[data.src_node, data.session].add(data.psn)
            for copy in early:
                self._cause(data.src_node, (cycle, data.session, copy.path))
        self._record(data, cycle)

    def _due(self, data, cycle):
        """Takes the due acknowledgement from the model; returns True if there is one."""
        receiver = self.endpoint.receivers.get(data.src_node)
        if receiver is None or receiver.due is None:
            return False
        receiver.due = None
        self._cause(data.src_node, (cycle, receiver.session, data.path))
        return True

    def _cause(self, node, cause):
        self.causes[node].append(cause)
        self.latest[node] = cause

    def _record(self, data, cycle):
        receiver = self.endpoint.receivers.get(data.src_node)
        if receiver is not None:
            self.oldest[data.src_node, receiver.session] = receiver.oldest
            states = self.states[data.src_node]
            states.append((cycle, receiver.session, receiver.oldest, receiver.accepted))
            while len(states) > 400:
                states.popleft()

    def acknowledged(self, raw, cycle, chosen):
        """Checks an acknowledgement that is visible in a cycle and was chosen in `chosen`."""
        ack = SrdAckFields.read(raw)
        endpoint = self.endpoint
        if self.stateless and raw == self.stateless[0]:
            self.stateless.popleft()
            return
        context = f"cycle {cycle}: {ack}"
        assert ack.status != ABORT, f"{context}; expected {self.stateless and self.stateless[0]}"
        fixed = (ack.opcode, ack.flags, ack.length, ack.reserved, ack.src_node, ack.incarnation)
        assert fixed == (PktOpcode.SRD_ACK, 0, BITMAP_BYTES, 0, endpoint.node,
                         endpoint.incarnation), context  # fmt: skip
        key = ack.dst_node, ack.session
        assert key in self.oldest, f"{context}: no such session"
        bits = int.from_bytes(ack.bitmap, "little")
        self._check_truth(ack, bits, context)
        self._check_age(ack, bits, chosen, context)
        self.shown[ack.dst_node] = ack.session, ack.psn, bits
        if ack.status:
            self._match_refusal(ack, context)
        else:
            assert not (ack.src_qpn or ack.dst_qpn or ack.refused_psn), context
            self._match_due(ack, cycle, context)
            self.sent[ack.dst_node] = cycle
            self.acks += 1

    def _check_truth(self, ack, bits, context):
        """Checks that nothing is shown that the model has not accepted."""
        key = ack.dst_node, ack.session
        accepted = self.accepted[key]
        ahead = psn_distance(ack.psn, self.oldest[key])
        for at in range(ahead):
            psn = self.oldest[key] + at & PSN_MASK
            assert psn in accepted, f"{context}: psn {psn:#x} is not accepted"
        base = psn_distance(ack.bitmap_psn, ack.psn)
        assert base == 0 or (base > 0 and ack.bitmap_psn % 256 == 0 and bits), context
        for at in range(bits.bit_length()):
            psn = ack.bitmap_psn + at & PSN_MASK
            assert not bits >> at & 1 or psn in accepted, f"{context}: bit {at} is not accepted"

    def _check_age(self, ack, bits, chosen, context):
        """Checks that the state is not older than the choice of the acknowledgement."""
        known = [state for state in self.states[ack.dst_node] if state[0] <= chosen - STORE_CYCLES]
        if not known:
            return
        _, session, oldest, accepted = known[-1]
        ahead = psn_distance(ack.psn, oldest)
        assert session == ack.session, f"{context}: session {session:#x} has begun"
        assert ahead >= 0, f"{context}: oldest was {oldest:#x}"
        missing = accepted >> ahead & ~bits
        assert not missing, f"{context}: bits {missing:#x} are missing"

    def _match_refusal(self, ack, context):
        key = (ack.dst_node, ack.session, ack.refused_psn, ack.path, ack.src_qpn, ack.dst_qpn,
               ack.status)  # fmt: skip
        expected = self.refusals if self.refusals[key] else self.optional
        assert expected[key], f"{context}: refusal without a cause"
        assert psn_distance(ack.refused_psn, ack.psn) >= 0, f"{context}: oldest has passed it"
        expected[key] -= 1
        self.refused += 1

    def _match_due(self, ack, cycle, context):
        """Finds the cause of an acknowledgement; all causes before it have joined it."""
        causes = self.causes[ack.dst_node]
        for cause in causes:
            at, session, path = cause
            if (session, path) == (ack.session, ack.path) and at < cycle:
                # A duplicate may be looked up after an outcome that has come later.
                self.causes[ack.dst_node] = [
                    one for one in causes if one is not cause and one[0] >= at - LOOKUP_CYCLES]
                return
        raise AssertionError(f"{context}: no cause with its session and path in {causes[:9]}")

    def check_end(self, lossy=False):
        """Checks, after all outcomes and acknowledgements, that nothing is missing."""
        receivers = self.endpoint.receivers
        if not lossy:
            assert not self.stateless, SrdAckFields.read(self.stateless[0])
            for key, count in self.refusals.items():
                node, session, psn = key[:3]
                passed = psn_distance(psn, receivers[node].oldest) < 0
                assert not count or session != receivers[node].session or passed, (
                    f"refusal {key} was not sent")  # fmt: skip
        for node, (due, session, _) in self.latest.items():
            receiver = receivers[node]
            if session != receiver.session:
                continue
            sent = self.sent.get(node, -1)
            assert sent > due, f"node {node}: due in cycle {due}, last sent in {sent}"
            session, psn, bits = self.shown[node]
            assert session == receiver.session, f"node {node}: {session:#x} is the last one shown"
            ahead = psn_distance(psn, receiver.oldest)
            assert ahead >= 0 and not receiver.accepted >> ahead & ~bits, f"node {node}"


class Peer:
    """Generates the packets of a sender that loses acknowledgements and cancels messages."""

    def __init__(self, bench, node, session=None, psn=None):
        self.bench, self.rng, self.node = bench, bench.rng, node
        rng = self.rng
        # Close to the wrap of each number.
        self.session = rng.choice((1, 0x7FF0, 0xFFF0)) + rng.randrange(14)
        if session is not None:
            self.session = session
        self.begin(rng.choice((0, -40, 1 << 31, (1 << 31) - 40)) if psn is None else psn)
        self.history = deque(maxlen=60)

    def begin(self, psn):
        self.oldest = self.next = psn & PSN_MASK

    def new_session(self, step=1):
        """Begins a newer session with another PSN."""
        self.session = (self.session + step) % (1 << 16) or 1
        self.begin(self.rng.choice((0, self.next, self.rng.getrandbits(32))))

    def packet(self, psn=None, **fields):
        """Returns a packet with a PSN, the next one by default; other fields are random."""
        rng, bench = self.rng, self.bench
        if psn is None:
            psn = self.next
            self.next = self.next + 1 & PSN_MASK
        known = {
            "opcode": rng.choice(OPCODES), "flags": rng.getrandbits(8),
            "length": rng.randrange(4096), "src_qpn": rng.getrandbits(16),
            "dst_qpn": rng.getrandbits(16), "qkey": rng.getrandbits(32), "psn": psn & PSN_MASK,
            "session": self.session, "incarnation": rng.choice((0, bench.incarnation)),
            "imm": rng.getrandbits(32), "src_node": self.node, "dst_node": bench.node,
            "path": rng.randrange(PATHS), "status": 0, "behind": psn - self.oldest & PSN_MASK,
        }  # fmt: skip
        known |= fields
        found = SrdHdrFields.pack(**known) + bytes(known["length"])
        self.history.append(found)
        return found

    def datagram(self):
        rng = self.rng
        return self.packet(
            rng.getrandbits(32), opcode=PktOpcode.UD_SEND, session=rng.getrandbits(16),
            incarnation=rng.getrandbits(16), src_node=rng.getrandbits(16),
            behind=rng.getrandbits(16), status=rng.getrandbits(8))  # fmt: skip

    def any(self, aborts=0.02, sessions=0.004):
        """Returns any packet of such a sender."""
        rng, window = self.rng, self.bench.window
        if rng.random() < sessions:
            self.new_session(rng.randrange(1, 4))
        if rng.random() < aborts:
            return self.packet(self.oldest, incarnation=rng.choice(
                (1, 0xFFFF, self.bench.incarnation ^ 1 << rng.randrange(16))) or 1)  # fmt: skip
        draw = rng.random()
        sent = self.next - self.oldest & PSN_MASK
        if draw < 0.04:
            return self.datagram()
        if draw < 0.18 and self.history:
            return rng.choice(self.history)
        if draw < 0.36 and sent:
            return self.packet(self.oldest + rng.randrange(sent))
        if draw < 0.4:
            self.oldest = self.oldest + rng.randrange(sent + 1) & PSN_MASK
        elif draw < 0.41:
            self.begin(self.next + rng.choice((0, 1, window - 1, window, 3 * window, 1 << 20)))
        if draw > 0.9:
            self.next = self.next + rng.randrange(1, 4) & PSN_MASK  # lost packets
        if (self.next - self.oldest & PSN_MASK) >= window:
            self.oldest = self.next - rng.randrange(window) & PSN_MASK
        return self.packet()


class Bench:
    """Feeds packets and returns outcomes; checks all outputs against the model.

    - `gaps`, `stalls`, `held`: pauses of packets and outcomes, of packets to execute, of
      acknowledgements
    - `wait`: most cycles between a packet and its outcome
    - `refuse`: share of refused packets
    """

    def __init__(self, dut, name, gaps=0.0, stalls=0.0, held=0.0, wait=60, refuse=0.15):
        self.dut, self.rng, self.wait, self.refuse = dut, rng_for(name), wait, refuse
        self.nodes, self.window = 1 << int(dut.NODE_W.value), 1 << int(dut.WINDOW_W.value)
        self.node, self.incarnation = 0, 1
        zero(dut, "s_quiet", "s_cfg_node_id", "s_cfg_incarnation")
        self.packets = StreamDriver(dut, "s_pkt", gaps, ["data"])
        self.outcomes = StreamDriver(dut, "s_outcome", gaps, ["data"])
        self.passes = StreamMonitor(dut, "m_pkt", stalls, ["data"])
        self.acks = StreamMonitor(dut, "m_ack", held, ["data"])
        self.judge = self._judge
        self.cycle = 0
        self.restart()

    def restart(self):
        """Begins an incarnation: with a new model."""
        rng = self.rng
        self.node = rng.randrange(1 << 16)
        self.incarnation = rng.randrange(2, 0xFFFF)
        self.dut.s_cfg_node_id.value = self.node
        self.dut.s_cfg_incarnation.value = self.incarnation
        self.model = RefModel(self.node, self.nodes, self.window.bit_length() - 1,
                              self.incarnation)  # fmt: skip
        self.sent, self.checked = deque(), deque()  # packets before and after the input
        self.executing, self.returned = [], deque()
        self.count = Counter()
        self.quiet = 0
        self.pass_is_new = self.ack_is_new = True
        self.moves = deque([0, 0], maxlen=2)
        self.since = 0  # cycles without a handshake

    async def start(self):
        await clock_and_reset(self.dut)
        cocotb.start_soon(self._watch())
        await until(self.dut, high(self.dut.m_init_done))

    def _judge(self, packet):
        """Returns the status of a packet."""
        return self.rng.choice(STATUSES) if self.rng.random() < self.refuse else 0

    def send(self, *packets):
        """Sends packets with random slots and lines."""
        for packet in packets:
            fields = {"line": self.rng.getrandbits(9), "slot": self.rng.getrandbits(8)}
            data = INTERNAL.rx_pkt.pack(header=header(packet), **fields)
            self.sent.append((packet, data, fields["slot"]))
            self.packets.post({"data": data})

    def finish(self, packet, status):
        """Returns the outcome of an executed packet."""
        self.returned.append((packet, status))
        self.outcomes.post({"data": outcome(SrdHdrFields.read(packet), status)})

    async def settle(self, cycles=200_000, lossy=False):
        """Waits until all packets have their outcome and their acknowledgement, and checks the
        end."""
        quiet = 40 + self.nodes
        await until(self.dut, lambda: not self.sent and not self.executing and self.since > quiet,
                    "the end of the traffic", cycles)  # fmt: skip
        assert not self.checked and not self.returned, (len(self.checked), len(self.returned))
        self.model.check_end(lossy)

    async def _watch(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            self.cycle += 1
            if dut.rst.value == 1:
                self.pass_is_new = self.ack_is_new = True
                continue
            self.since += 1
            self._checked()
            self._outcome()
            self._acknowledged()
            if dut.s_pkt_valid.value == 1 and dut.s_pkt_ready.value == 1:
                self.checked.append(self.sent.popleft())
                self.since = 0
            self.quiet = int(dut.s_quiet.value)
            self._execute()

    def _checked(self):
        """Takes a packet whose check is visible: it is executed, or its slot becomes free."""
        dut = self.dut
        passes = dut.m_pkt_valid.value == 1
        freed = dut.m_free_valid.value == 1
        if (passes and self.pass_is_new) or freed:
            assert self.checked, "a packet that was not sent"
            assert not (passes and self.pass_is_new and freed), "two packets in one cycle"
            packet, data, slot = self.checked.popleft()
            wanted = self.model.receive(packet, self.quiet, self.cycle)
            found = bool(passes and self.pass_is_new)
            assert found == wanted, f"passes: {found}, model: {wanted}, {SrdHdrFields.read(packet)}"
            if found:
                assert int(dut.m_pkt_data.value) == data, SrdHdrFields.read(packet)
                self.count["passed"] += 1
                self.head = packet
            else:
                assert int(dut.m_free_slot.value) == slot, SrdHdrFields.read(packet)
                self.count["freed"] += 1
        self.pass_is_new = not passes or dut.m_pkt_ready.value == 1
        if passes and self.pass_is_new and self.head[0] != PktOpcode.UD_SEND:
            after = self.rng.randrange(self.wait + 1)
            self.executing.append((self.cycle + after, self.head, self.judge(self.head)))

    def _outcome(self):
        if self.dut.s_outcome_valid.value == 1 and self.dut.s_outcome_ready.value == 1:
            packet, status = self.returned.popleft()
            self.model.executed(packet, status, self.cycle)
            self.count["outcomes"] += 1
            self.since = 0

    def _execute(self):
        """Returns outcomes whose time has come, in any order."""
        ready = [one for one in self.executing if one[0] <= self.cycle]
        self.rng.shuffle(ready)
        for one in ready:
            self.executing.remove(one)
            self.finish(*one[1:])

    def _acknowledged(self):
        dut = self.dut
        valid = dut.m_ack_valid.value == 1
        if valid and self.ack_is_new:
            raw = int(dut.m_ack_data.value).to_bytes(SrdAck.SIZE, "little")
            # Chosen two moves before the one that made it visible, and read again until it moved.
            self.model.acknowledged(raw, self.cycle, self.moves[0] - 1)
            self.count["acks"] += 1
        self.ack_is_new = not valid or dut.m_ack_ready.value == 1
        if self.ack_is_new:
            self.moves.append(self.cycle)
        if valid:
            self.since = 0

    async def reset(self):
        """Resets the device in the present cycle and begins an incarnation."""
        self.dut.rst.value = 1
        await RisingEdge(self.dut.clk)
        self.packets.clear()
        self.outcomes.clear()
        self.restart()
        await reset(self.dut)
        await until(self.dut, high(self.dut.m_init_done))
