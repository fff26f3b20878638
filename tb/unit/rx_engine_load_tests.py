# SPDX-License-Identifier: Apache-2.0
"""Tests efa_rx_engine under load: many queues at once, queues in error, deadlock candidates."""

from collections import Counter

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import LIMITS, AdminQpState, IoCompStatus, PktOpcode
from tb.lib.stream import StreamMonitor
from tb.unit.rx_engine_bench import CLEAR, FREE, INIT, IOVA, NODE, PEER, Bench

STATUS = IoCompStatus
GRH = bytes(8) + LIMITS.gid_prefix + bytes([0, PEER]) + LIMITS.gid_prefix + bytes([0, NODE])
BAD_DEST = STATUS.REMOTE_ERROR_BAD_DEST_QPN
AREA = 1 << 15  # bytes of the region for each queue
BUFFER = 1 << 10


class Queue:
    """Models one queue: posted WQEs and their completions, in order."""

    def __init__(self, bench, qpn, srd, log, place):
        self.bench, self.qpn, self.srd, self.log = bench, qpn, srd, log
        self.area = IOVA + AREA * place
        self.serial = 0
        self.begin()

    def begin(self):
        self.posted = []  # (req_id, descriptors, buffers)
        self.reported = 0
        self.used = 0
        self.packets = []  # payloads that may still arrive, in order
        self.count = 0
        self.good = 0

    def free(self):
        return (1 << self.log) - (self.count - self.used)

    def post(self):
        """Posts one receive WQE of one or two descriptors; returns False when the ring is full."""
        rng = self.bench.rng
        two = self.log > 0 and rng.random() < 0.4
        if self.free() < 1 + two:
            return False
        req_id = self.serial & 0xFFFF
        at = self.area + (self.serial * BUFFER) % AREA
        space = rng.choice((600, 700, BUFFER))
        self.serial += 1
        if two:
            cut = rng.randrange(space)
            buffers = [(at, cut), (at + cut, space - cut)]
        else:
            buffers = [(at, space)]
        for number, (addr, size) in enumerate(buffers):
            self.bench.put(self.qpn, addr, size, req_id if number == 0 else 0xDEAD,
                           int(number == len(buffers) - 1))  # fmt: skip
        self.posted.append((req_id, len(buffers), buffers))
        self.count += len(buffers)
        return True

    def send(self):
        rng = self.bench.rng
        self.serial_sent = getattr(self, "serial_sent", 0) + 1
        size = rng.choice((4, 31, 32, 33, 64, 200, 500))
        payload = self.serial_sent.to_bytes(4, "little") + rng.randbytes(size - 4)
        self.packets.append(payload)
        opcode = PktOpcode.SRD_SEND if self.srd else PktOpcode.UD_SEND
        # A retransmission now and then has no effect.
        self.bench.send(self.qpn, payload, opcode, copies=1 + (self.srd and rng.random() < 0.1))

    def complete(self, got):
        """Checks the completion of the next WQE: posting order and the payload of a sent packet."""
        assert self.reported < len(self.posted), f"QP {self.qpn}: completion without a WQE {got}"
        req_id, used, buffers = self.posted[self.reported]
        self.reported += 1
        self.used += used
        assert got.req_id == req_id, f"QP {self.qpn}: {got.req_id} instead of {req_id}"
        if got.status == STATUS.FLUSHED:
            return
        assert got.status == STATUS.OK, got
        head = b"" if self.srd else GRH
        data, left = b"", got.length
        for addr, size in buffers:
            data += self.bench.read(addr, min(size, left))
            left -= min(size, left)
        assert data[: len(head)] == head
        content = data[len(head) :]
        assert content in self.packets, f"QP {self.qpn}: bytes of no sent packet"
        while self.packets.pop(0) != content:
            pass
        self.good += 1


async def machine(dut, queues, cycles, breaks, **options):
    """Runs random posts, packets and errors; every posted WQE must complete."""
    bench = Bench(dut, **options)
    dut = bench.dut
    await bench.start()
    rng = bench.rng
    table = {}
    for place, (qpn, srd, log) in enumerate(queues):
        await bench.qp(qpn, srd, log)
        table[qpn] = Queue(bench, qpn, srd, log, place)

    def collect():
        while bench.rxc.beats:
            got = bench.unpack_cpl(bench.rxc.beats.popleft()["data"])
            table[got.qpn].complete(got)

    for cycle in range(cycles):
        await RisingEdge(dut.clk)
        collect()
        queue = rng.choice(list(table.values()))
        dice = rng.random()
        if dice < 0.15 and bench.state(queue.qpn) != AdminQpState.ERR:
            if queue.post() and rng.random() < 0.5:
                await bench.ring(queue.qpn)
        elif dice < 0.2:
            await bench.ring(queue.qpn)
        elif dice < 0.35 and len(bench.net.waiting) < 40 and bench.window():
            queue.send()
        elif breaks and cycle % 500 == 499:
            await bench.set_state(queue.qpn, AdminQpState.ERR)

    await bench.net.idle()
    for qpn in table:
        await bench.ring(qpn)
        await bench.set_state(qpn, AdminQpState.ERR)
    for _ in range(60000):
        await RisingEdge(dut.clk)
        collect()
        if all(queue.reported == len(queue.posted) for queue in table.values()):
            break
    await ClockCycles(dut.clk, 3000)
    collect()
    good = [psn for psn, status in bench.outcomes.items() if status == STATUS.OK]
    accepted = Counter(bench.sent[psn] - 0x440 for psn in good)
    assert len(bench.outcomes) == bench.psn, "a packet without an outcome"
    for queue in table.values():
        assert queue.reported == len(queue.posted), f"QP {queue.qpn}: WQEs without completion"
        assert not queue.srd or accepted[queue.qpn] == queue.good
    assert sum(queue.good for queue in table.values()) > cycles // 200
    assert not bench.errors


MANY = [(0, 1, 4), (1, 1, 2), (7, 0, 6), (20, 0, 1), (33, 1, 12), (62, 1, 6), (63, 0, 3)]


@cocotb.test()
async def many_queues_on_a_fast_host(dut):
    """rx_engine.load.fast: Many queues complete all WQEs with a fast host."""
    await machine(dut, MANY, 6000, False, latency=0.9)


@cocotb.test()
async def many_queues_on_a_slow_host(dut):
    """rx_engine.load.slow: Many queues complete all WQEs with a slow host."""
    await machine(dut, MANY, 6000, False, stalls=0.5, latency=0.03)


@cocotb.test()
@cocotb.parametrize(latency=[0.9, 0.1])
async def queues_break_in_traffic(dut, latency):
    """rx_engine.load.breaks: Queues that enter ERR during traffic complete all WQEs."""
    await machine(dut, MANY, 4000, True, latency=latency)


@cocotb.test()
async def one_queue_breaks_at_every_moment(dut):
    """rx_engine.load.every_moment: A queue that enters ERR in any cycle after its doorbell
    completes each WQE exactly once."""
    bench = Bench(dut, latency=0.9)
    dut = bench.dut
    await bench.start()
    qpn = 5
    await bench.qp(qpn)
    for wait in range(90):
        queue = Queue(bench, qpn, 1, 4, 0)
        bench.rings[qpn]["produced"] = 0
        await bench.set_state(qpn, AdminQpState.RTS)
        while queue.post():
            pass
        queue.send()
        queue.send()
        # The head of the ring is claimed while the state changes.
        await bench.ring(qpn)
        await ClockCycles(dut.clk, wait)
        await bench.set_state(qpn, AdminQpState.ERR)
        while queue.reported < len(queue.posted):
            queue.complete(await bench.completion())
        await bench.rest()
        assert not bench.rxc.beats, f"a WQE completed twice, {wait} cycles after the doorbell"
        await bench.set_state(qpn, AdminQpState.RESET)
        await bench.drain()
        await bench.queue_op(qpn, CLEAR)


@cocotb.test()
async def packet_behind_a_wqe_without_end_is_refused(dut):
    """rx_engine.load.endless: A packet behind a WQE without a last descriptor is refused, and the
    queue is flushed."""
    bench = Bench(dut, latency=0.9)
    await bench.start()
    await bench.qp(1)
    for last in (0, 0, 1, 1):
        bench.put(1, IOVA, 100, 7 + last, last)
    await bench.ring(1)
    await bench.rest()
    for _ in range(3):
        bench.send(1, bytes(5))
    wanted = [STATUS.REMOTE_ERROR_BAD_STATUS, BAD_DEST, BAD_DEST]
    assert [await bench.ack() for _ in wanted] == wanted
    got = [(await bench.completion()).status for _ in range(3)]
    assert got == [STATUS.LOCAL_ERROR_QP_INTERNAL_ERROR, STATUS.FLUSHED, STATUS.FLUSHED]


@cocotb.test()
async def waiting_packet_sees_its_queue_end(dut):
    """rx_engine.load.waiting_packet: A packet that waits for descriptors is refused when its queue
    enters RESET or ERR."""
    bench = Bench(dut, latency=0.9)
    dut = bench.dut
    await bench.start()
    await bench.qp(3)
    for qpn, state in ((1, AdminQpState.RESET), (2, AdminQpState.ERR)):
        await bench.qp(qpn)
        bench.put(qpn, IOVA, 100, qpn, 0)
        await bench.ring(qpn)
        await bench.rest()
        # A read of another ring blocks the second half of this WQE.
        bench.reading = False
        bench.put(3, IOVA, 100, 3, 1)
        await bench.ring(3)
        await ClockCycles(dut.clk, 20)
        bench.put(qpn, IOVA + 100, 100, qpn, 1)
        await bench.ring(qpn)
        bench.send(qpn, bytes(150))
        await ClockCycles(dut.clk, 40)
        assert len(bench.outcomes) == bench.psn - 1
        await bench.set_state(qpn, state)
        bench.reading = True
        await bench.drain()
        assert await bench.ack() == BAD_DEST
        await bench.queue_op(qpn, CLEAR)


@cocotb.test()
async def ring_operation_does_not_wait_for_another_rings_packet(dut):
    """rx_engine.load.rq_ctrl: A ring operation does not wait for a packet of another ring."""
    bench = Bench(dut, latency=0.0)
    await bench.start()
    await bench.qp(1)
    bench.put(1, IOVA, 100, 1, 1)
    bench.send(1, bytes(50))
    cocotb.start_soon(bench.ring(1))
    for qpn in range(8, 24):
        await bench.qp(qpn)
    for qpn in range(8, 24):
        await bench.queue_op(qpn, FREE)
    bench.latency = 0.9
    await bench.ack()
    await bench.qp(1)
    for number in range(40):
        bench.put(1, IOVA, 100, number, 1)
    # Claims and ring operations at the same time.
    await bench.ring(1, 16)
    for _ in range(16):
        bench.send(1, bytes(50))
        await bench.queue_op(9, INIT)
    assert [await bench.ack() for _ in range(16)] == [STATUS.OK] * 16


@cocotb.test()
async def nothing_completes_behind_a_drain(dut):
    """rx_engine.load.drain: After a drain no completion of a destroyed queue follows, and all its
    packets have completed."""
    bench = Bench(dut, 0.8, latency=0.9)
    dut = bench.dut
    await bench.start()
    for turn in range(30):
        await bench.qp(1, log=6)
        await bench.qp(2)
        for qpn, number in ((1, 60), (2, 10)):
            for one in range(number):
                bench.put(qpn, IOVA + 1000 * one, 600, one, 1)
            await bench.ring(qpn)
        await bench.rest(60)
        bench.rxc.beats.clear()
        for _ in range(6):
            bench.send(2, bytes(600))
        await bench.net.idle()
        await bench.set_state(1, AdminQpState.ERR)
        await ClockCycles(dut.clk, 3 * turn)
        # The queue is destroyed during its flush, while packets of another queue are in flight.
        bench.contexts.pop(1)
        await bench.hold("s_qpchg_valid", "s_qpchg_ready", s_qpchg_qpn=1, s_qpchg_state=0)
        await bench.drain()
        await RisingEdge(dut.clk)
        reported = [bench.unpack_cpl(beat["data"]).qpn for beat in bench.rxc.beats]
        assert reported.count(2) == 6, f"turn {turn}: drained with packets inside"
        await bench.queue_op(1, FREE)
        await bench.rest()
        reported = [bench.unpack_cpl(beat["data"]).qpn for beat in bench.rxc.beats][len(reported) :]
        assert 1 not in reported, f"turn {turn}: a completion of a destroyed queue"
        await bench.queue_op(2, FREE)


@cocotb.test()
async def small_packets_pass_at_the_stated_rate(dut):
    """rx_engine.load.rate: Small packets are validated at the specified rate."""
    bench = Bench(dut, latency=1.0)
    await bench.start()
    await bench.qp(1, log=6)
    for number in range(60):
        bench.put(1, IOVA + 64 * number, 64, number, 1)
    await bench.ring(1)
    await bench.rest(200)
    checked = StreamMonitor(bench.pins, "ev_rx_validated")
    seen = bench.count("ev_rx_validated_valid")
    for _ in range(24):
        bench.send(1, bytes(32))
    await checked.take(24)
    gaps = [after - before for before, after in zip(seen, seen[1:], strict=False)]
    assert max(gaps) <= 6, gaps
