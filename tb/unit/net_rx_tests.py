# SPDX-License-Identifier: Apache-2.0
"""Tests efa_net_rx: packet storage, drops with their reports, and reads of the packet buffer. The
reference model gives the verdict on the fields of decision 0009."""

import itertools
from collections import deque

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import (
    EVENTS,
    INTERNAL,
    LIMITS,
    TRANSPORT,
    PktHdr,
    PktOpcode,
    PktRdma,
    SrdHdr,
    TransportAnomaly,
)
from efa_cosim.transport.packets import BITMAP_BYTES
from efa_cosim.transport.sender import REFUSALS
from tb.lib.bundles import Bundles
from tb.lib.srd_checks import Checks
from tb.lib.stream import (
    POWER_ON,
    Ports,
    StreamDriver,
    StreamMonitor,
    clock_and_reset,
    reset,
    rng_for,
)
from tb.lib.timing import timing
from tb.lib.waits import high, pulse, steady, until, zero
from tb.unit.data_bench import Moments, consumed

NODES = 1 << LIMITS.node_w
WINDOW = 1 << TRANSPORT.psn_window_w
CHECKED = {"path": 8, "status": 8, "flags": 8, "session": 16, "incarnation": 16, "behind": 16}
LINES = timing("efa_net_rx", "line").depth
RDMA = [PktOpcode.RDMA_WRITE, PktOpcode.READ_REQUEST, PktOpcode.READ_RESPONSE]


class Bench:
    def __init__(self, dut, gaps=0.0, stalls=0.0, hold=lambda: False):
        self.dut, self.rng = dut, rng_for("net_rx")
        zero(dut, "s_quiesce", "s_win_pos", "s_free_valid", "s_free_slot", "s_full")
        self.node = self.rng.randrange(NODES)
        dut.s_cfg_node_id.value = self.node
        paths = self.rng.randrange(1, 256)
        dut.s_cfg_paths.value = paths
        self.paths = [path for path in range(8) if paths >> path & 1]
        self.checks = Checks(self.node, NODES, TRANSPORT.psn_window_w, paths)
        pins = Ports(dut, rst="rst_por")
        self.net = StreamDriver(pins, "s_net", gaps, ["data", "keep", "last"])
        hold = stalls if stalls else hold
        packets = Bundles(pins, m_pkt=INTERNAL.rx_pkt)
        self.pkt = StreamMonitor(packets, "m_pkt", hold, ["header", "rdma", "line", "slot"])
        self.ack_rx = StreamMonitor(pins, "m_ack_rx", hold, ["data"])
        self.anomaly = StreamMonitor(pins, "ev_anomaly_net", 0, ["data"])
        self.rx_first = StreamMonitor(pins, "ev_rx_first", 0, ["data"])
        self.rx_last = StreamMonitor(pins, "ev_rx_last", 0, ["data"])
        self.moments = Moments(
            dut, "s_net", "m_pkt", "m_ack_rx", "s_free", "m_drop", "m_stored",
            "m_released")  # fmt: skip
        self.wanted, self.wanted_acks = deque(), deque()
        # Opcodes that differ from a known one in a single bit.
        known = [PktOpcode.UD_SEND, PktOpcode.SRD_SEND, PktOpcode.SRD_ACK, *RDMA]
        unknown = {code ^ 1 << bit for code in known for bit in range(8)} - set(known)
        self.unknown = itertools.cycle(self.rng.sample(sorted(unknown), len(unknown)))

    async def start(self):
        await clock_and_reset(self.dut, resets=POWER_ON)
        await RisingEdge(self.dut.clk)
        self.moments.clear()

    def header(self, size, **fields):
        rng = self.rng
        header = PktHdr.unpack(rng.randbytes(PktHdr.SIZE))
        header.opcode = rng.choice((PktOpcode.UD_SEND, PktOpcode.SRD_SEND))
        header.length, header.dst_node = size, self.node
        for name, value in fields.items():
            setattr(header, name, value)
        return self.srd(header)

    def srd(self, header):
        """Returns the header with true values of the checked fields; a datagram keeps its own."""
        rng, srd = self.rng, SrdHdr.unpack(bytes(header.pack()))
        if header.opcode == PktOpcode.UD_SEND:
            return srd
        srd.src_node, srd.path = rng.randrange(NODES), rng.choice(self.paths)
        srd.session = rng.randrange(1, 1 << 16)
        srd.behind, srd.status = rng.randrange(WINDOW), 0
        if header.opcode == PktOpcode.SRD_ACK:
            srd.flags = srd.behind = 0
            srd.incarnation = rng.randrange(1, 1 << 16)
            srd.status = rng.choice((0, *REFUSALS))
        return srd

    def verdict(self, raw):
        """Returns the cause for which the model drops a packet, None if it passes."""
        return self.checks.cause(raw)

    def flits(self, raw):
        return [{"data": int.from_bytes(raw[at : at + 64], "little"),
                 "keep": (1 << len(raw[at : at + 64])) - 1, "last": int(at + 64 >= len(raw))}
                for at in range(0, len(raw), 64)]  # fmt: skip

    def send(self, size, **fields):
        """Sends a valid packet, which the device must store."""
        header, payload = self.header(size, **fields), self.rng.randbytes(size)
        self.store(bytes(header.pack()) + payload)

    def store(self, raw):
        """Sends a packet that the device must store."""
        assert self.verdict(raw) is None
        self.net.post(*self.flits(raw))
        self.wanted.append(raw)

    def ack(self):
        header = self.header(BITMAP_BYTES, opcode=PktOpcode.SRD_ACK)
        raw = bytes(header.pack()) + self.rng.randbytes(BITMAP_BYTES)
        assert self.verdict(raw) is None
        self.net.post(*self.flits(raw))
        self.wanted_acks.append(int.from_bytes(raw, "little"))

    def failed(self, what, size=None):
        """Returns (anomaly cause, flits) of a packet with one fault."""
        rng = self.rng
        size = rng.choice((0, 5, 32, 33, 96, rng.randrange(600))) if size is None else size
        header, payload = self.header(size), rng.randbytes(size)
        if what == "opcode":
            header.opcode = next(self.unknown)
        elif what == "node":
            header.dst_node = self.node ^ rng.choice((1, 256, 0x8000, 0xFFFF))
        elif what == "short":
            header.length = size + rng.choice((1, 64, 200))
        elif what == "long":
            payload += bytes(rng.choice((1, 64, 200)))
        elif what == "mtu":
            payload = bytes(LIMITS.max_mtu + 1)
            header.length = len(payload)
        elif what == "acknowledgement":
            size = rng.choice((0, 1, 31, 33, 64, 96))  # all but the length of its bitmap
            header = self.header(size, opcode=PktOpcode.SRD_ACK)
            payload = rng.randbytes(size)
        raw = bytes(header.pack()) + payload
        if what == "cut":
            raw = raw[: rng.randrange(1, PktHdr.SIZE)]
        # No packet of bytes has a wrong keep.
        cause = TransportAnomaly.LENGTH if what in ("keep", "hole") else self.verdict(raw)
        assert cause is not None, what
        flits = self.flits(raw)
        if what == "cut":
            # Bytes behind the end count for nothing.
            flits[0]["data"] |= rng.getrandbits(512) << 8 * len(raw) & (1 << 512) - 1
        elif what == "keep":
            flits[-1]["keep"] ^= 1
        elif what == "hole":
            flits = self.flits(bytes(header.pack()) + bytes(200))
            header.length = 200
            flits[0]["data"] = int.from_bytes(header.pack(), "little")
            flits[1]["keep"] ^= 1 << 63
        return cause, flits

    def falsify(self, header, name):
        """Gives a field a false value, in a header that has no fault of another kind."""
        rng = self.rng
        limits = {"behind": (WINDOW, 0xFFFF), "path": range(256), "status": range(256)}
        single = [1 << bit for bit in range(CHECKED[name])]
        values = {0, *single, *limits.get(name, ()), rng.getrandbits(CHECKED[name])}
        payload = bytes(header.length)
        for value in rng.sample(sorted(values), len(values)):
            setattr(header, name, value)
            if self.verdict(bytes(header.pack()) + payload) is TransportAnomaly.FIELD:
                return
        raise AssertionError(f"{name} has no false value in {header}")

    def damaged(self, opcode, *faults):
        """Returns (anomaly cause, flits) of a packet with one or more faults: names of fields,
        and those of failed()."""
        rng = self.rng
        size = BITMAP_BYTES if opcode == PktOpcode.SRD_ACK else rng.choice((0, 32, 33, 200))
        header, payload = self.header(size, opcode=opcode), rng.randbytes(size)
        for what in sorted(faults, key=lambda what: what not in CHECKED):
            if what in CHECKED:
                self.falsify(header, what)
            elif what == "stranger":
                header.src_node = rng.choice((NODES, header.src_node | 0x8000, 0xFFFF))
            elif what == "node":
                header.dst_node ^= rng.choice((1, 256, 0x8000))
            else:
                more = rng.choice((1, 32, 64, 200))
                payload += bytes(more)
                header.length += 2 * more if what == "short" else 0
        raw = bytes(header.pack()) + payload
        cause = self.verdict(raw)
        assert cause is not None, faults
        return cause, self.flits(raw)

    async def window(self, at):
        """Reads 64 bytes of the packet buffer."""
        self.dut.s_win_pos.value = at % (64 * LINES)
        await ClockCycles(self.dut.clk, timing("efa_net_rx", "window").latency + 1)
        return str(self.dut.m_win_data.value)

    async def check(self, beat, look=2):
        """Checks the header and random payload windows of a stored packet; returns its slot."""
        raw = self.wanted.popleft()
        assert beat["header"] == int.from_bytes(raw[:32], "little")
        if raw[0] in RDMA and len(raw) >= PktHdr.SIZE + PktRdma.SIZE:
            assert beat["rdma"] == int.from_bytes(raw[32:64], "little")
        for _ in range(look):
            at = self.rng.randrange(len(raw))
            size = min(64, len(raw) - at)
            bits = await self.window(64 * beat["line"] + at)
            assert int(bits[512 - 8 * size :], 2).to_bytes(size, "little") == raw[at : at + size]
        return beat["slot"]

    async def free(self, slot):
        await pulse(self.dut, "s_free_valid", s_free_slot=slot)

    def lose(self, size=PktRdma.SIZE, node=None):
        """Sends a valid read request, which the device must lose without a report."""
        header = self.header(size, opcode=PktOpcode.READ_REQUEST)
        if node is not None:
            header.src_node = node
        self.net.post(*self.flits(bytes(header.pack()) + self.rng.randbytes(size)))

    async def complete(self):
        """Shows that no line is lost: packets as large as the whole buffer fit at once."""
        for _ in range(4):
            self.send(64 * (LINES // 4) - 32)
        for slot in [await self.check(beat, 1) for beat in await self.pkt.take(4)]:
            await self.free(slot)
        await self.drained()

    async def drained(self):
        await consumed(self.net)
        await ClockCycles(self.dut.clk, 6)
        assert not self.wanted and not self.pkt.beats
        while self.wanted_acks:
            assert (await self.ack_rx.take(1))[0]["data"] == self.wanted_acks.popleft()


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0), (0.3, 0.0), (0.0, 0.6), (0.3, 0.5)])
async def packets_are_stored_and_seen(dut, pace):
    """transport.net_rx.store: Valid packets of all sizes are stored over several buffer wraps, with
    acknowledgements between them."""
    bench = Bench(dut, *pace)
    await bench.start()
    rng, pending, sent = bench.rng, deque(), 0
    for _ in range(12):
        for _ in range(8):
            bench.send(rng.choice((0, 1, 32, 33, 96, 97, rng.randrange(1200))))
            sent += 1
            if rng.random() < 0.4:
                bench.ack()
        bench.send(rng.choice((8928, 8927, 8865, 8864)))
        sent += 1
        while bench.wanted:
            pending.append(await bench.check((await bench.pkt.take(1))[0]))
            while len(pending) > rng.randrange(4):
                # Slots return in any order; the lines of a packet become free after those of all
                # older packets.
                pending.rotate(rng.randrange(4))
                await bench.free(pending.popleft())
        await bench.drained()
    assert not bench.anomaly.beats and len(bench.moments["m_stored"]) == sent
    while pending:
        await bench.free(pending.popleft())
    await ClockCycles(dut.clk, 20)
    assert len(bench.moments["m_released"]) == sent
    assert len(bench.rx_last.beats) == len(bench.rx_first.beats) >= sent


@cocotb.test()
async def malformed_packets_are_dropped(dut):
    """transport.net_rx.malformed: Each malformed packet is reported once, occupies no line and
    leaves its neighbours intact."""
    bench = Bench(dut, 0.1)
    await bench.start()
    faults = ["opcode", "opcode", "node", "short", "long", "mtu", "acknowledgement", "keep", "hole",
              "cut"]  # fmt: skip
    lines = line = 0
    for turn in range(12):
        if turn % 4 == 2:
            await bench.complete()  # the write pointer wraps
        causes = []
        for what in bench.rng.sample(faults, len(faults)):
            cause, flits = bench.failed(what)
            causes.append(cause)
            lines += len(flits)
            bench.net.post(*flits)
            if bench.rng.random() < 0.5:
                bench.send(bench.rng.randrange(300))
            if bench.rng.random() < 0.3:
                bench.ack()
        await consumed(bench.net)
        while bench.wanted:
            (beat,) = await bench.pkt.take(1)
            assert beat["line"] == line, "a dropped packet occupies lines"
            line = (line + (len(bench.wanted[0]) + 63) // 64) % LINES
            await bench.free(await bench.check(beat))
        await bench.drained()
        seen = [EVENTS.anomaly_net.unpack(beat["data"]).what for beat in bench.anomaly.beats]
        assert seen == causes
        bench.anomaly.beats.clear()
        assert len(bench.moments["m_drop"]) == len(faults) * (turn + 1)
    assert lines > LINES // 2
    await bench.complete()


@cocotb.test()
async def full_of_lines(dut):
    """transport.net_rx.full: The buffer accepts packets up to its last line and stalls until lines
    become free."""
    bench = Bench(dut)
    await bench.start()
    big = LINES // 4
    for _ in range(3):
        bench.send(64 * big - 32)
    for _ in range(8):
        bench.send(64 * big // 8 - 32)
    bench.send(100)
    packets = await bench.pkt.take(11)
    await ClockCycles(dut.clk, 20)
    assert dut.s_net_ready.value == 0 and len(bench.net.waiting) == 3
    slots = [await bench.check(beat) for beat in packets]
    for slot in slots[:0:-1]:
        await bench.free(slot)
    await ClockCycles(dut.clk, 20)
    assert len(bench.net.waiting) == 3 and not bench.moments["m_released"], "oldest packet held"
    await bench.free(slots[0])
    await bench.check((await bench.pkt.take(1))[0])
    assert len(bench.moments["m_released"]) == len(slots)
    await bench.drained()


@cocotb.test()
async def full_at_any_line(dut):
    """transport.net_rx.exact: The buffer holds exactly its lines wherever its oldest packet
    begins."""
    bench = Bench(dut)
    await bench.start()
    for lines in (1, 2, 5, 16, 131, 3):
        bench.send(64 * lines - 32)
        await bench.free(await bench.check((await bench.pkt.take(1))[0]))
        await bench.drained()
        for count in (128, 128, 128, 127):
            bench.send(64 * count - 32)
        oldest = bench.wanted[0]
        packets = await bench.pkt.take(4)
        slots = [await bench.check(beat) for beat in packets]
        bench.send(0)
        bench.send(0)
        (last,) = await bench.pkt.take(1)
        slots.append(await bench.check(last))
        await steady(dut, 12, s_net_ready=0, m_pkt_valid=0)
        # The flit at the input does not overwrite the oldest line.
        bits = await bench.window(64 * packets[0]["line"])
        assert int(bits, 2).to_bytes(64, "little") == oldest[:64]
        for slot in slots:
            await bench.free(slot)
        await bench.free(await bench.check((await bench.pkt.take(1))[0]))
        await bench.drained()


@cocotb.test()
async def full_of_packets(dut):
    """transport.net_rx.depth: The device accepts the specified number of packets and
    acknowledgements while the consumer stalls."""
    held = {"on": True}
    bench = Bench(dut, hold=lambda: held["on"])
    await bench.start()
    sizes = [bench.rng.choice((0, 31, 33, 160, 600)) for _ in range(70)]
    sizes[bench.rng.randrange(10, 60)] = LIMITS.max_mtu
    for size in sizes:
        bench.send(size)
    await ClockCycles(dut.clk, LINES + 150)
    stored = len(bench.moments["m_stored"])
    assert stored == timing("efa_net_rx", "packet").depth and dut.s_net_ready.value == 0
    held["on"] = False
    for beat in await bench.pkt.take(70):
        await bench.check(beat, 0)
    held["on"] = True
    await ClockCycles(dut.clk, 3)
    before = bench.net.sent
    for _ in range(20):
        bench.ack()
    await ClockCycles(dut.clk, 50)
    promised = timing("efa_net_rx", "acknowledgement").depth
    assert bench.net.sent - before == promised and dut.s_net_ready.value == 0
    held["on"] = False
    await bench.drained()


@cocotb.test()
async def full_of_slots(dut):
    """transport.net_rx.slots: The device stores at most the specified number of packets, whatever
    their size."""
    bench = Bench(dut)
    await bench.start()
    depth = timing("efa_net_rx", "slot").depth
    for _ in range(depth + 20):
        bench.send(0)
    slots = [await bench.check(beat, 0) for beat in await bench.pkt.take(depth)]
    await ClockCycles(dut.clk, 20)
    assert len(bench.net.waiting) == 20 and sorted(slots) == list(range(depth))
    bench.moments.clear()
    for slot in slots:
        await bench.free(slot)
    await ClockCycles(dut.clk, 6)
    freed, gone = list(bench.moments["s_free"]), list(bench.moments["m_released"])
    promised = timing("efa_net_rx", "slot")
    slots = [await bench.check(beat, 0) for beat in await bench.pkt.take(20)]
    assert len(gone) == depth and gone[0] - freed[0] == promised.latency
    assert {b - a for a, b in itertools.pairwise(gone)} == {
        promised.interval}  # fmt: skip
    # Freed in any order, slots are released in the order of their packets.
    for reach in (1, 1, *[8] * 3, *[64] * 3, *[depth] * 6):
        for _ in range(depth - len(slots)):
            bench.send(0)
        slots += [await bench.check(beat, 0) for beat in await bench.pkt.take(depth - len(slots))]
        bench.moments.clear()
        free, released = set(), 0
        for at in sorted(range(depth), key=lambda at: at + reach * bench.rng.random()):
            await bench.free(slots[at])
            free.add(slots[at])
            # In order, the wait is long enough to show the release of the next slot, too.
            wait = bench.rng.randrange(3) if reach > 1 else promised.latency + 3
            await ClockCycles(dut.clk, wait)
            while released < depth and slots[released] in free:
                released += 1
            now = len(bench.moments["m_released"])
            assert now <= released, "a slot in use was released"
        await ClockCycles(dut.clk, depth + 4)
        assert len(bench.moments["m_released"]) == depth
        slots = []
    await bench.drained()


@cocotb.test()
async def quiet_before_a_reset(dut):
    """transport.net_rx.quiesce: While `quiesce` is set, every flit is accepted and dropped without
    a report."""
    bench = Bench(dut)
    await bench.start()
    for cut in range(1, 6):
        bench.send(500)
        bench.send(64)
        bench.net.post(*bench.failed("opcode")[1])
        bench.ack()
        await until(dut, lambda at=bench.net.sent + cut: bench.net.sent >= at, "flits")
        dut.s_quiesce.value = 1
        await ClockCycles(dut.clk, 2)
        begun = len(bench.rx_first.beats)
        await consumed(bench.net)
        await ClockCycles(dut.clk, 4)
        assert len(bench.rx_first.beats) == begun
        assert not bench.pkt.beats and not bench.ack_rx.beats and not bench.anomaly.beats
        dut.rst.value = 1
        await ClockCycles(dut.clk, 3)
        dut.rst.value = dut.s_quiesce.value = 0
        await RisingEdge(dut.clk)
        bench.wanted.clear()
        bench.wanted_acks.clear()
        bench.send(300)
        bench.ack()
        beat = (await bench.pkt.take(1))[0]
        assert beat["line"] == 0
        await bench.check(beat)
        await bench.drained()


@cocotb.test()
async def reset_of_the_core_in_a_packet(dut):
    """transport.net_rx.core_reset: A core reset within a packet discards its remaining flits; the
    following packet is stored intact."""
    bench = Bench(dut)
    await bench.start()
    for cut in range(1, 9):
        bench.send(480)
        bench.wanted.clear()
        await until(dut, lambda at=bench.net.sent + cut: bench.net.sent >= at, "flits")
        dut.rst.value = 1
        await ClockCycles(dut.clk, 2)
        dut.rst.value = 0
        bench.anomaly.beats.clear()
        bench.pkt.beats.clear()
        bench.send(70)
        beat = (await bench.pkt.take(1))[0]
        await bench.free(await bench.check(beat))
        assert not bench.anomaly.beats
        await bench.complete()


@cocotb.test()
async def reset_of_the_core_in_a_gap(dut):
    """transport.net_rx.gap: A reset in a gap of a packet produces no output; the remaining flits
    are discarded."""
    held = {"at": None}
    bench = Bench(dut, lambda: bench.net.sent == held["at"])
    await bench.start()
    for cut in range(1, 8):
        for signal in (dut.rst, dut.s_quiesce):
            held["at"] = bench.net.sent + cut
            bench.send(480)
            bench.wanted.clear()
            await until(dut, lambda: bench.net.sent == held["at"], "flits")
            await ClockCycles(dut.clk, 3)
            signal.value = 1
            await ClockCycles(dut.clk, 3)
            dut.rst.value = 1
            await ClockCycles(dut.clk, 2)
            dut.rst.value = dut.s_quiesce.value = 0
            await ClockCycles(dut.clk, 2)
            held["at"] = None
            bench.send(70)
            await bench.free(await bench.check((await bench.pkt.take(1))[0]))
            await bench.drained()
            assert not bench.anomaly.beats


@cocotb.test()
async def power_on_reset_in_a_packet(dut):
    """transport.net_rx.reset: A power-on reset restarts the stream at a packet boundary and at line
    0."""
    bench = Bench(dut, 0.0, 0.5)
    await bench.start()
    for cut in (1, 3):
        bench.send(480)
        bench.ack()
        await until(dut, lambda at=bench.net.sent + cut: bench.net.sent >= at, "flits")
        bench.net.clear()
        await reset(dut, resets=POWER_ON)
        await RisingEdge(dut.clk)
        for noted in (bench.wanted, bench.wanted_acks, bench.pkt.beats, bench.ack_rx.beats):
            noted.clear()
        bench.send(70)
        beat = (await bench.pkt.take(1))[0]
        assert beat["line"] == 0
        await bench.check(beat)
        await bench.drained()


@cocotb.test()
async def cycles(dut):
    """transport.net_rx.time: Packets, acknowledgements and window reads meet their specified
    cycles."""
    bench = Bench(dut)
    await bench.start()
    seen = bench.moments
    seen.clear()
    for _ in range(20):
        bench.send(32)
    packets = await bench.pkt.take(20)
    seen.hold("efa_net_rx", "packet", "s_net", "m_pkt")
    seen.clear()
    for _ in range(20):
        bench.ack()
    await bench.ack_rx.take(20)
    seen.hold("efa_net_rx", "acknowledgement", "s_net", "m_ack_rx")
    promised = timing("efa_net_rx", "window")
    assert promised.interval == 1
    lines = [beat["line"] for beat in packets]
    for cycle in range(20 + promised.latency):
        dut.s_win_pos.value = 64 * lines[min(cycle, 19)]
        await RisingEdge(dut.clk)
        if cycle >= promised.latency:
            assert int(dut.m_win_data.value).to_bytes(64, "little") == bench.wanted.popleft()
    await until(dut, high(dut.s_net_ready))


@cocotb.test()
async def any_field_of_a_datagram(dut):
    """transport.net_rx.datagram: A datagram is stored with any values of the fields of the
    reliable transport."""
    bench = Bench(dut, 0.1, 0.3)
    await bench.start()
    rng = bench.rng
    for _ in range(60):
        fields = {name: rng.choice((0, (1 << width) - 1, rng.getrandbits(width)))
                  for name, width in CHECKED.items()}  # fmt: skip
        size = rng.choice((0, 32, 33, 200))
        header = SrdHdr(
            opcode=PktOpcode.UD_SEND, length=size, dst_node=bench.node,
            src_node=rng.choice((NODES, 0xFFFF, rng.getrandbits(16))), **fields)  # fmt: skip
        bench.store(bytes(header.pack()) + rng.randbytes(size))
        await bench.free(await bench.check((await bench.pkt.take(1))[0]))
    await bench.drained()
    assert not bench.anomaly.beats


FALSE = [(PktOpcode.SRD_SEND, ("path", "status", "session", "behind", "stranger", "node")),
         (PktOpcode.SRD_ACK, (*CHECKED, "stranger", "node", "short", "long"))]  # fmt: skip


@cocotb.test()
async def false_fields_are_dropped(dut):
    """transport.net_rx.fields: A packet with one false field is dropped and reported
    with the cause of the model. Its neighbours pass."""
    bench = Bench(dut, 0.1)
    await bench.start()
    faults = [(opcode, what) for opcode, names in FALSE for what in names]
    for turn in range(4):
        causes = []
        for opcode, what in bench.rng.sample(faults, len(faults)):
            cause, flits = bench.damaged(opcode, what)
            causes.append(cause)
            bench.net.post(*flits)
            bench.rng.choice((bench.ack, lambda: bench.send(bench.rng.randrange(200))))()
        await consumed(bench.net)
        while bench.wanted:
            await bench.free(await bench.check((await bench.pkt.take(1))[0]))
        await bench.drained()
        seen = [EVENTS.anomaly_net.unpack(beat["data"]).what for beat in bench.anomaly.beats]
        assert seen == causes
        bench.anomaly.beats.clear()
        assert len(bench.moments["m_drop"]) == len(faults) * (turn + 1)
    await bench.complete()


@cocotb.test()
async def several_faults_are_one_report(dut):
    """transport.net_rx.several: A packet with several faults is reported once, with
    the first cause of decision 0009."""
    bench = Bench(dut)
    await bench.start()
    rng, wanted = bench.rng, []
    for _ in range(150):
        opcode, names = rng.choice(FALSE)
        # A second fault of the nodes or of the length may undo the first one.
        names = {*names, "long"} - {rng.choice(("short", "long")), rng.choice(("stranger", "node"))}
        cause, flits = bench.damaged(opcode, *rng.sample(sorted(names), rng.randrange(2, 4)))
        wanted.append(cause)
        bench.net.post(*flits)
    await bench.drained()
    seen = [EVENTS.anomaly_net.unpack(beat["data"]).what for beat in bench.anomaly.beats]
    assert seen == wanted
    await bench.complete()


@cocotb.test()
async def false_packets_across_a_reset(dut):
    """transport.net_rx.false_reset: The rest of a false packet that a core reset cuts is discarded
    without a report. The following packets are intact."""
    bench = Bench(dut)
    await bench.start()
    for cut in range(1, 6):
        header = bench.header(600, opcode=PktOpcode.SRD_SEND)
        bench.falsify(header, bench.rng.choice(("path", "status", "session", "behind")))
        bench.net.post(*bench.flits(bytes(header.pack()) + bench.rng.randbytes(600)))
        await until(dut, lambda at=bench.net.sent + cut: bench.net.sent >= at, "flits")
        dut.rst.value = 1
        await ClockCycles(dut.clk, 1 + cut % 2)
        dut.rst.value = 0
        bench.ack()
        bench.send(70)
        beat = (await bench.pkt.take(1))[0]
        await bench.free(await bench.check(beat))
        await bench.drained()
        assert not bench.anomaly.beats
        await bench.complete()


@cocotb.test()
async def longest_packets(dut):
    """transport.net_rx.longest: The longest packet of each kind is stored, one byte more is
    dropped. RDMA packets have a header of their own beside the payload."""
    bench = Bench(dut)
    await bench.start()
    longest = dict.fromkeys((PktOpcode.UD_SEND, PktOpcode.SRD_SEND), LIMITS.max_mtu)
    longest |= dict.fromkeys(RDMA, LIMITS.max_mtu + PktRdma.SIZE)
    for opcode, size in longest.items():
        header = bench.header(size + 1, opcode=opcode)
        bench.net.post(*bench.flits(bytes(header.pack()) + bench.rng.randbytes(size + 1)))
        bench.send(size, opcode=opcode)
        beat = (await bench.pkt.take(1))[0]
        await bench.free(await bench.check(beat))
        await bench.drained()
        causes = [EVENTS.anomaly_net.unpack(one["data"]).what for one in bench.anomaly.beats]
        assert causes == [TransportAnomaly.LENGTH]
        bench.anomaly.beats.clear()
    await bench.complete()


@cocotb.test()
async def requests_without_a_place_are_lost(dut):
    """transport.net_rx.place: A read request of a node that has no place is lost without a report
    and occupies no line. All other packets of the node are stored, and its malformed requests are
    reported."""
    bench = Bench(dut, 0.1)
    await bench.start()
    rng, line = bench.rng, 0
    for turn in range(40):
        kind = rng.choice((0, 1, 2, 3))
        full = (0, (1 << NODES) - 1, 1 << rng.randrange(NODES), rng.getrandbits(NODES))[kind]
        dut.s_full.value = full
        causes = []
        for _ in range(12):
            what = rng.choice(("send", "ack", "request", "request", "other", "wrong"))
            if what == "ack":
                bench.ack()
            elif what == "send":
                bench.send(rng.randrange(300))
            elif what == "other":
                bench.send(rng.randrange(32, 300), opcode=rng.choice((RDMA[0], RDMA[2])))
            elif what == "wrong":
                header = bench.header(PktRdma.SIZE, opcode=PktOpcode.READ_REQUEST)
                header.dst_node ^= 1 << rng.randrange(16)
                bench.net.post(*bench.flits(bytes(header.pack()) + bytes(PktRdma.SIZE)))
                causes.append(TransportAnomaly.NODE)
            else:
                node = rng.randrange(NODES)
                # A request with payload is refused later.
                size = PktRdma.SIZE + rng.choice((0, 0, 64, 200))
                if full >> node & 1:
                    bench.lose(size, node)
                else:
                    header = bench.header(size, opcode=PktOpcode.READ_REQUEST)
                    header.src_node = node
                    bench.store(bytes(header.pack()) + rng.randbytes(size))
        await consumed(bench.net)
        while bench.wanted:
            (beat,) = await bench.pkt.take(1)
            assert beat["line"] == line, "a lost packet occupies lines"
            line = (line + (len(bench.wanted[0]) + 63) // 64) % LINES
            await bench.free(await bench.check(beat, 1))
        await bench.drained()
        seen = [EVENTS.anomaly_net.unpack(beat["data"]).what for beat in bench.anomaly.beats]
        assert seen == causes, f"turn {turn}"
        bench.anomaly.beats.clear()
    dut.s_full.value = 0
    await bench.complete()


@cocotb.test()
async def a_node_is_full_within_a_request(dut):
    """transport.net_rx.within: A read request with payload whose node is full from any of its flits
    on leaves no part of itself."""
    bench = Bench(dut)
    await bench.start()
    for delay in range(6):
        bench.lose(PktRdma.SIZE + 256, node=5)
        await ClockCycles(dut.clk, delay)
        dut.s_full.value = 1 << 5
        await consumed(bench.net)
        await ClockCycles(dut.clk, 6)
        dut.s_full.value = 0
        for beat in list(bench.pkt.beats):
            # All of it came before.
            await bench.free(beat["slot"])
        bench.pkt.beats.clear()
        bench.send(100)
        await bench.free(await bench.check((await bench.pkt.take(1))[0]))
        await bench.drained()
    assert not bench.anomaly.beats
    await bench.complete()
