# SPDX-License-Identifier: Apache-2.0
"""Tests efa_tx: validated messages become packets in order, with any host completions and queue
states."""

from collections import deque

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import (
    INTERNAL,
    LIMITS,
    IoCompStatus,
    IoRemoteMemAddr,
    IoSendOpType,
    PktHdr,
    PktOpcode,
    PktRdma,
    SrdHdr,
)
from tb.lib.bundles import Bundles
from tb.lib.dont_care import dont_care
from tb.lib.stream import (
    StreamDriver,
    StreamMonitor,
    clock_and_reset,
    periodic,
    reset,
    rng_for,
)
from tb.lib.timing import timing
from tb.lib.waits import high, until, zero
from tb.unit.data_bench import Moments, RawMonitor, Regions, consumed
from tb.unit.queue_bench import Table
from tb.unit.tx_alloc_tests import sge

LOG = 9
PACKET, DONE, BARRIER = range(3)
FAILED, FLUSHED = IoCompStatus.LOCAL_ERROR_QP_INTERNAL_ERROR, IoCompStatus.FLUSHED
FIELDS = ["net", "done", "first", "last", "data", "keep", "msg"]
HEADER, RDMA_HEADERS = 32, 64
READ, WRITE = IoSendOpType.RDMA_READ, IoSendOpType.RDMA_WRITE
BAD_ADDRESS = IoCompStatus.REMOTE_ERROR_BAD_ADDRESS
UNIT = 8192  # bytes of a packet of a write, except the last one


class Bench:
    def __init__(self, dut, stalls=0.0, gaps=0.0, rate=1.0, log=LOG, in_order=None):
        dut = Bundles(dut, m_rd=INTERNAL.dma_rd, s_rd_cpl=INTERNAL.dma_rd_cpl)
        self.dut, self.rng, self.rate = dut, rng_for("tx"), rate
        # Bit mask of the contexts in use.
        self.used = self.rng.getrandbits(len(dut.s_ctx_used))
        dut.s_ctx_used.value = self.used
        self.in_order = rate == 1 if in_order is None else in_order  # order of read completions
        self.regions = Regions(self.rng)
        self.memory, self.failed, self.responses = {}, set(), []
        self.wanted = deque()  # expected output: (bytes or None, message, done)
        self.down, self.pulses, self.wanted_pulses = set(), [], []
        self.got = b""
        zero(dut, "s_mtt_valid", "s_rd_cpl_valid", "halted_rd_data")
        Table(dut, "halted_rd_addr", "halted_rd_data", lambda qpn: int(qpn in self.down))
        self.node = self.rng.getrandbits(16)
        dut.s_cfg_node_id.value, dut.s_cfg_mrrs_log.value = self.node, log
        self.source = StreamDriver(dut, "s", gaps, ["msg", "first", "second", "inline"])
        self.out = RawMonitor(dut, "m", stalls, FIELDS, on_beat=self._flit)
        self.rd = StreamMonitor(dut, "m_rd", 0.0 if callable(stalls) else stalls,
                                ["addr", "len", "cookie"], on_beat=self._requested)  # fmt: skip

    async def start(self):
        await clock_and_reset(self.dut)
        await until(self.dut, high(self.dut.m_init_done))
        self.region = self.regions.make(0, 1, 1 << 16, phys=1)
        self.sources = [self.region, *(self.regions.make(at, 1, 1 << 16) for at in range(1, 4))]
        # With the largest pages, locations need all bits of their start.
        self.sources += [self.regions.make(at, 1, 1 << 37, shift=33) for at in range(4, 6)]
        await self.regions.report_pages(self.dut)
        cocotb.start_soon(self._run())

    def message(self, *sizes, kind=PACKET, srd=1, qpn=1, in_error=False, status=0, inline=None,
                at=None, remote=None, op_type=WRITE, **fields):  # fmt: skip
        """Posts a message and records its expected output. With a `remote` buffer it is a packet of
        an RDMA operation.

        The buffers begin anywhere, or at byte `at` of the small regions, where no other message has
        buffers.
        """
        rng = self.rng
        beat, payload = {}, b""
        for name, size in zip(("first", "second"), sizes, strict=False):
            region = rng.choice(self.sources if at is None else self.sources[:2])
            start = region["iova"]
            start += rng.randrange(region["length"] - LIMITS.max_mtu) if at is None else at
            loc = self.regions.loc(region["key"], start)
            data = rng.randbytes(size)
            where = [self.regions.host(loc, number) for number in range(size)]
            for host, byte in zip(where, data, strict=True):
                self.memory.setdefault(host, byte)
            payload += bytes(self.memory[host] for host in where)
            beat[name] = sge(loc, size)
            if in_error and size:
                self.failed.add(rng.choice(where))
        # Bytes of the WQE from its buffers on.
        entry = b"" if remote is None else bytes(remote.pack())
        if inline is not None:
            payload = inline
            entry += inline
        entry += rng.randbytes(96 - len(entry))
        beat["inline"] = int.from_bytes(entry, "little")
        # Only packets are of an operation that is known; those without RDMA are sends.
        if not remote:
            op_type = rng.randrange(8) if kind != PACKET else IoSendOpType.SEND
        node = rng.getrandbits(16)
        fields = {"kind": kind, "status": status, "qpn": qpn, "srd": srd, "node": node,
                  "length": len(payload), "inlined": int(inline is not None), "op_type": op_type,
                  "response": 0, **fields}  # fmt: skip
        sent = srd and (kind == PACKET or (kind == DONE and rng.random() < 0.5))
        fields = {"sent": int(sent), "send": self._transmission(node) if sent else 0, **fields}
        message = dont_care(INTERNAL.tx_msg, rng, **fields)
        message["imm"] = rng.getrandbits(32) if message["has_imm"] else 0
        beat["msg"] = INTERNAL.tx_msg.pack(**message)
        self.source.post(beat)
        self._want(message, payload, in_error, remote)

    def write(self, *sizes, inline=None, **fields):
        """Posts a packet of an RDMA write with a local buffer of this size, or inline bytes."""
        rng = self.rng
        bits = {name: rng.getrandbits(32)
                for name in ("length", "rkey", "buf_addr_lo", "buf_addr_hi")}  # fmt: skip
        if inline is None and not any(sizes):
            inline, sizes = b"", ()  # a packet without bytes gathers nothing
        if fields.get("op_type") != READ or fields.get("response"):
            fields["count"] = 0  # only a request has bytes to ask for
        # The first buffer is remote.
        local = (0, *sizes) if sizes else ()
        self.message(*local, inline=inline, remote=IoRemoteMemAddr(**bits), **fields)

    def _transmission(self, node):
        """Returns a random transmission to a node."""
        return INTERNAL.srd_send.pack(**dont_care(INTERNAL.srd_send, self.rng, node=node))

    def use(self, used):
        """Drives which contexts are in use; for the next messages."""
        self.used = self.dut.s_ctx_used.value = used

    def _is_used(self, message):
        """Returns True if the context of a transmission is in use."""
        send = INTERNAL.srd_send.unpack(message["send"])
        return bool(self.used >> send.id % len(self.dut.s_ctx_used) & 1)

    def request(self, **fields):
        """Posts a read request."""
        self.write(inline=b"", op_type=READ, **fields)

    def respond(self, *sizes, status=0, **fields):
        """Posts a read response with a buffer of this size; without payload it has a status."""
        self.write(*sizes, op_type=READ, response=1, has_imm=0, qkey=0, status=status, **fields)

    def _want(self, message, payload, in_error, remote):
        kind, srd, qpn = message["kind"], message["srd"], message["qpn"]
        if kind == BARRIER:
            self.wanted.append((None, message, 0))
        elif message["response"]:
            # It always leaves, without payload if that cannot be read.
            if in_error:
                message = {**message, "status": BAD_ADDRESS, "length": 0, "inlined": 1}
                payload = b""
            self.wanted.append((self._packet(message, payload, remote), message, 0))
        elif kind == DONE:
            self.wanted.append((None, message, 1))
            if srd and message["status"] != FLUSHED and not message["sent"]:
                self.wanted_pulses.append("unused")
        elif in_error:
            self.wanted.append((None, {**message, "status": FAILED}, 1))
            if not srd or self._is_used(message):
                self.wanted_pulses.append(("read_err", qpn))
        elif qpn in self.down:
            self.wanted.append((None, {**message, "status": FLUSHED}, 1))
        else:
            packet = self._packet(message, payload, remote)
            self.wanted.append((packet, message, 0 if srd else 1))

    def _packet(self, message, payload, remote):
        header = PktHdr(
            opcode=PktOpcode.UD_SEND, has_imm=message["has_imm"], length=len(payload),
            src_qpn=message["qp_num"], dst_qpn=message["dst_qpn"], qkey=message["qkey"],
            imm=message["imm"], src_node=self.node, dst_node=message["node"],
        )  # fmt: skip
        if message["sent"]:
            send = INTERNAL.srd_send.unpack(message["send"])
            opcode = PktOpcode.SRD_SEND
            if remote is not None:
                opcode, rdma = self._rdma(message, remote, send)
                payload = bytes(rdma.pack()) + payload
            header = SrdHdr(
                opcode=opcode, has_imm=message["has_imm"], length=len(payload),
                src_qpn=message["qp_num"], dst_qpn=message["dst_qpn"], qkey=message["qkey"],
                imm=message["imm"], src_node=self.node, dst_node=message["node"], psn=send.psn,
                session=send.session, incarnation=send.incarnation, path=send.path,
                behind=send.behind,
            )  # fmt: skip
        return bytes(header.pack()) + payload

    @staticmethod
    def _rdma(message, remote, send):
        """Returns the opcode and the RDMA header of a packet."""
        rdma = PktRdma(total=remote.length, offset=message["offset"])
        if message["response"]:
            rdma.read_id, rdma.status = remote.buf_addr_hi, message["status"]
            return PktOpcode.READ_RESPONSE, rdma
        rdma.remote_addr = remote.buf_addr_hi << 32 | remote.buf_addr_lo
        rdma.rkey, rdma.count = remote.rkey, message["count"]
        if message["op_type"] == READ:
            rdma.read_id = send.id
            return PktOpcode.READ_REQUEST, rdma
        return PktOpcode.RDMA_WRITE, rdma

    def _flit(self, beat):
        raw, message, done = self.wanted[0]
        # Only the data of packet flits is specified.
        beat = {name: int(value, 2) for name, value in beat.items() if name != "data" or raw}
        assert beat["net"] == int(raw is not None)
        assert beat["first"] == int(not self.got)
        assert beat["msg"] == INTERNAL.tx_msg.pack(**message)
        if raw is None:
            assert beat["last"] == 1 and beat["done"] == done
            self.wanted.popleft()
            return
        count = min(64, len(raw) - len(self.got))
        assert beat["keep"] == (1 << count) - 1
        data = beat["data"]
        assert data >> 8 * count == 0, "data behind the end of the packet"
        self.got += data.to_bytes(64, "little")[:count]
        assert beat["last"] == int(len(self.got) == len(raw))
        assert beat["done"] == int(beat["last"] and done)
        if beat["last"]:
            assert self.got == raw
            self.got = b""
            self.wanted.popleft()

    def _requested(self, beat):
        addr, size = beat["addr"], beat["len"]
        failed = any(addr <= at < addr + size for at in self.failed)
        self.responses.append([addr, size, beat["cookie"], 0, failed])

    async def _run(self):
        """Drives read completions; records pulses of messages that end without a
        packet."""
        dut, rng = self.dut, self.rng
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value == 1:
                self.responses.clear()
                dut.s_rd_cpl_valid.value = 0
                continue
            if dut.m_read_err_valid.value == 1:
                self.pulses.append(("read_err", int(dut.m_read_err_qpn.value)))
            if dut.m_unused_valid.value == 1:
                self.pulses.append("unused")
            dut.s_rd_cpl_valid.value = 0
            if self.responses and rng.random() < self.rate:
                self._respond(rng.choice(self.responses[:1] if self.in_order else self.responses))

    def _respond(self, response):
        addr, size, cookie, offset, failed = response
        count = min(64 - (addr + offset) % 64, size - offset)
        data = bytes(self.memory.get(addr + offset + n, 0) for n in range(count))
        last = failed or offset + count == size
        for name, value in (("valid", 1), ("cookie", cookie), ("offset", offset),
                            ("data", int.from_bytes(data, "little")), ("bytes", count),
                            ("last", int(last)), ("err", int(failed))):  # fmt: skip
            getattr(self.dut, f"s_rd_cpl_{name}").value = value
        response[3] += count
        if last:
            self.responses.remove(response)

    async def settle(self):
        await consumed(self.source)
        await until(self.dut, lambda: not self.wanted, f"{len(self.wanted)} to leave", 30000)
        await ClockCycles(self.dut.clk, 20)
        assert sorted(map(str, self.pulses)) == sorted(map(str, self.wanted_pulses))


def some_message(bench, largest):
    """Posts a random message of any kind."""
    rng = bench.rng
    dice, srd, qpn = rng.random(), rng.getrandbits(1), rng.randrange(6)
    if dice < 0.1:
        bench.message(kind=BARRIER, srd=srd)
    elif dice < 0.25:
        status = rng.choice((FLUSHED, rng.randrange(2, 256)))
        bench.message(kind=DONE, srd=srd, status=status, qpn=qpn)
    elif dice < 0.5:
        bench.message(inline=rng.randbytes(rng.choice((0, 1, 31, 32, 33, 80))), srd=srd, qpn=qpn)
    elif dice < 0.6:
        bench.write(inline=rng.randbytes(rng.choice((0, 1, 63, 64, 65, 79, 80))), qpn=qpn)
    elif dice < 0.65:
        bench.request(qpn=qpn)
    elif dice < 0.7:
        size = rng.choice((0, 1, 64, rng.randrange(1, largest)))
        bench.respond(size, status=0 if size else BAD_ADDRESS, qpn=qpn)
    elif dice < 0.8:
        bench.write(rng.choice((0, 1, 63, 64, 65, rng.randrange(2 * largest))), qpn=qpn)
    else:
        first = rng.choice((0, 1, 31, 32, 33, 64, 96, rng.randrange(largest)))
        bench.message(first, rng.choice((0, 1, 64, rng.randrange(1, largest))) + (first == 0),
                      srd=srd, qpn=qpn)  # fmt: skip


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0, 1.0, 400), (0.4, 0.3, 0.6, 400), (0.1, 0.0, 0.9, 4400)])
async def packets_leave_in_order(dut, pace):
    """data.tx.order: Gathered and inline packets, completions and barriers leave in order, with
    the numbers of their transmissions."""
    bench = Bench(dut, *pace[:3], log=rng_for("log").choice((7, 8, 10, 12)))
    await bench.start()
    for _ in range(30 if pace[3] > 1000 else 150):
        some_message(bench, pace[3])
    await bench.settle()


@cocotb.test()
async def largest_packets(dut):
    """data.tx.mtu: Packets of MTU size leave; the ring holds three of them and wraps."""
    bench = Bench(dut)
    await bench.start()
    for number in range(8):
        cut = bench.rng.randrange(LIMITS.max_mtu)
        bench.message(cut, LIMITS.max_mtu - cut - number % 2, srd=number & 1)
    await bench.settle()


@cocotb.test()
async def packets_of_every_magnitude(dut):
    """data.tx.flits: Packets end with a full flit, a flit of one byte, or a flit that lacks one
    byte."""
    bench = Bench(dut)
    await bench.start()
    for bits in range(6, 14):
        for more in (-1, 0, 1):
            bench.message((1 << bits) - HEADER + more, srd=more & 1)
    await bench.settle()


@cocotb.test()
@cocotb.parametrize(stalls=[0.0, 0.4])
async def packets_of_writes(dut, stalls):
    """data.tx.rdma: An RDMA write has both headers in its first flit and its payload, gathered or
    inline, from the second one on, back to back with sends."""
    bench = Bench(dut, stalls)
    await bench.start()
    rng = bench.rng
    for count in range(81):
        bench.write(inline=rng.randbytes(count))
        if count % 3 == 0:
            bench.message(inline=rng.randbytes(count))
    for bits in range(14):
        for more in (-1, 0, 1):
            bench.write(min((1 << bits) + more, UNIT))
            if more:
                bench.message(rng.randrange(1, 99), srd=rng.getrandbits(1))
    await bench.settle()


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0, 1.0), (0.3, 0.2, 0.7)])
async def requests_and_responses(dut, pace):
    """data.tx.read: A read request is one flit with its count; a read response has the payload from
    the second flit on. A response always leaves: if its payload cannot be read, as one flit with
    BAD_ADDRESS, and on a halted queue, too. No error is reported for its queue."""
    bench = Bench(dut, *pace)
    await bench.start()
    rng = bench.rng
    bench.down = {3}
    await ClockCycles(dut.clk, 2)
    for number in range(200):
        kind = rng.randrange(4)
        qpn = rng.randrange(5)
        if kind == 0:
            bench.request(qpn=qpn)
        elif kind == 1:
            bench.message(rng.randrange(1, 99), qpn=qpn, at=208 * number)
        elif kind == 2:
            bench.respond(0, status=BAD_ADDRESS, qpn=qpn)
        else:
            bench.respond(rng.randrange(1, 200), qpn=qpn, at=208 * number,
                          in_error=rng.random() < 0.4)  # fmt: skip
    await bench.settle()
    # The lines of the largest ones that fail are free for others.
    for number in range(8):
        bench.failed.clear()
        bench.respond(UNIT, in_error=bool(number & 1), at=number * 512)
        bench.message(60, qpn=1, at=number * 512 + UNIT)
        await bench.settle()


@cocotb.test()
async def failed_reads_of_writes(dut):
    """data.tx.rdma_error: A write whose payload cannot be read sends no packet and completes with
    QP_INTERNAL_ERROR; on a halted queue it completes FLUSHED."""
    bench = Bench(dut, 0.2)
    await bench.start()
    for number in range(100):
        bench.write(bench.rng.randrange(1, 200), qpn=number % 5, at=208 * number,
                    in_error=bench.rng.random() < 0.4)  # fmt: skip
        if number % 4 == 0:
            bench.write(inline=b"goes on", qpn=number % 3)
    await bench.settle()
    assert len(bench.wanted_pulses) > 10
    bench.down = {1, 3}
    await ClockCycles(dut.clk, 2)
    for number in range(40):
        bench.write(number, qpn=number % 5)
        bench.write(inline=bench.rng.randbytes(number), qpn=number % 5)
    await bench.settle()


@cocotb.test()
async def failed_reads_send_nothing(dut):
    """data.tx.read_error: A failed read sends no packet: it completes with QP_INTERNAL_ERROR, is
    reported for its queue, for a transmission only if its context is in use."""
    bench = Bench(dut, 0.3, 0.0, 0.7)
    await bench.start()
    for number in range(300):
        bench.message(
            bench.rng.randrange(1, 150),
            bench.rng.randrange(50),
            srd=number & 1,
            qpn=number % 7,
            in_error=bench.rng.random() < 0.4,
            at=208 * number,
        )
    await bench.settle()
    assert len(bench.pulses) > 40


@cocotb.test()
async def the_largest_fail(dut):
    """data.tx.lines: The lines of a message with a failed read are freed for later messages."""
    bench = Bench(dut)
    await bench.start()
    for number in range(3):
        at = 3 * number * LIMITS.max_mtu // 2
        bench.message(LIMITS.max_mtu >> number, in_error=True, at=at)
        bench.message(LIMITS.max_mtu // 2, at=at + LIMITS.max_mtu)
    await bench.settle()


@cocotb.test()
async def each_slot_keeps_how_its_reads_ended(dut):
    """data.tx.slots: Each slot keeps the result of its reads: all reads complete before the first
    message leaves."""
    held = {"on": True}
    bench = Bench(dut, lambda: held["on"], rate=0.9)
    await bench.start()
    slots = timing("efa_tx_alloc", "message").depth
    failing = {0, *bench.rng.sample(range(slots), slots // 2)}
    for turn in range(2):
        held["on"] = True
        for _ in range(2):
            bench.message(inline=b"past")
        for slot in range(slots):
            bench.message(1 + slot % HEADER, at=64 * slot, srd=slot & 1,
                          in_error=(slot in failing) == bool(turn))  # fmt: skip
        await consumed(bench.source)
        await until(dut, lambda: not bench.responses, "read completions")
        await ClockCycles(dut.clk, 3)
        assert len(bench.wanted) == slots + 2
        held["on"] = False
        await bench.settle()
        bench.failed.clear()
    # Messages that bypass the list use no slot result.
    bench.message(inline=b"past")
    await bench.settle()


@cocotb.test()
async def slots_are_answered_in_any_order(dut):
    """data.tx.any: Slots complete in any order, nearly all in use at any time."""
    bench = Bench(dut, periodic(300, 60), rate=0.6)
    await bench.start()
    for number in range(700):
        bench.message(1 + number % HEADER, at=64 * number, srd=number & 1,
                      in_error=bench.rng.random() < 0.3)  # fmt: skip
    await bench.settle()


@cocotb.test()
@cocotb.parametrize(rate=[0.05, 0.5])
async def each_slot_waits_for_its_reads(dut, rate):
    """data.tx.waits: Each slot waits for its reads, which complete or fail at about the time when
    it becomes first."""
    bench = Bench(dut, rate=rate, in_order=True)
    await bench.start()
    for number in range(2 * timing("efa_tx_alloc", "message").depth):
        bench.message(1 + number % 64, srd=number & 1, at=64 * number,
                      in_error=bench.rng.random() < 0.3)  # fmt: skip
    await bench.settle()


@cocotb.test()
async def a_slot_does_not_depend_on_others(dut):
    """data.tx.apart: Messages with completed reads leave while later messages wait for their reads.

    All slots are in use. Two slot numbers differ in at least one bit, so in one of the rounds
    exactly one of the two has completed. Each round begins with another slot.
    """
    held = {"on": False}
    bench = Bench(dut, lambda: held["on"])
    await bench.start()
    slots = timing("efa_tx_alloc", "message").depth
    width = slots.bit_length() - 1
    assert slots == 1 << width
    first = 0
    for bit in range(width):
        held["on"], bench.rate = True, 0.0
        for place in range(slots):
            bench.message(1 + place % HEADER, at=64 * place, srd=0)
        await until(dut, lambda: len(bench.responses) == slots, "all reads")
        ended = [(first + place) >> bit & 1 for place in range(slots)]
        later = [response for response, one in zip(bench.responses, ended, strict=True) if not one]
        bench.responses = [
            response for response, one in zip(bench.responses, ended, strict=True) if one
        ]
        bench.rate = 1.0
        await until(dut, lambda: not bench.responses, "read completions")
        bench.responses, held["on"] = later, False
        await bench.settle()
        for _ in range(slots // width):
            bench.message(1, srd=0)
        await bench.settle()
        first += slots // width


@cocotb.test()
async def what_goes_past_the_list_is_itself(dut):
    """data.tx.past: A message that bypasses the list has its own payload, and not the read result
    of the message behind it."""
    held = {"on": False}
    bench = Bench(dut, lambda: held["on"])
    await bench.start()
    for number in range(40):
        bench.message(inline=bench.rng.randbytes(80), srd=number & 1)
    await bench.settle()
    for in_error in (True, False):
        held["on"] = True
        for srd in (0, 1):
            bench.message(inline=bench.rng.randbytes(80), srd=srd)
        await consumed(bench.source)
        bench.message(64, in_error=in_error, at=0)
        await ClockCycles(dut.clk, 40)
        assert not bench.responses and len(bench.wanted) == 3
        held["on"] = False
        await bench.settle()
        bench.failed.clear()


@cocotb.test()
@cocotb.parametrize(pace=[(0.3, 0.2, 0.8), (0.0, 0.0, 1.0)])
async def broken_queues_send_nothing(dut, pace):
    """data.tx.down: A message of a halted queue completes FLUSHED without a packet; other queues
    continue."""
    bench = Bench(dut, *pace)
    await bench.start()
    for down in (set(), {1, 3}, {63}, set()):
        bench.down = down
        await ClockCycles(dut.clk, 2)
        for number in range(40):
            bench.message(number % 5, 70, srd=number // 2 & 1, qpn=(1, 2, 3, 63)[number % 4])
        await bench.settle()
    paced, stopped = bench.out._pause, False
    bench.out._pause = lambda: stopped or paced()
    for bit in range(6):
        bench.down = {qpn for qpn in range(64) if qpn >> bit & 1}
        await ClockCycles(dut.clk, 2)
        for qpn in bench.rng.sample(range(64), 64) * 2:
            inline = bench.rng.randbytes(bench.rng.choice((4, 80)))
            bench.message(inline=inline, srd=bench.rng.getrandbits(1), qpn=qpn)
        await bench.settle()
        # All payload is read before the first message leaves, so messages follow back to back.
        stopped = True
        for qpn in bench.rng.sample(range(64), 40):
            bench.message(8, srd=0, qpn=qpn)
        await ClockCycles(dut.clk, 400)
        assert dut.m_valid.value == 1 and len(bench.wanted) == 40
        stopped = False
        await bench.settle()


@cocotb.test()
async def a_completion_crosses_an_idle_engine(dut):
    """data.tx.idle: A completion without a packet leaves an idle engine with all its fields, for
    every status."""
    bench = Bench(dut)
    await bench.start()
    for status in IoCompStatus:
        for _ in range(4):
            bench.message(kind=DONE, status=int(status), srd=bench.rng.getrandbits(1))
            await bench.settle()


@cocotb.test()
async def a_packet_that_began_ends(dut):
    """data.tx.begun: A packet that has begun ends although its queue is halted."""
    bench = Bench(dut, 0.3)
    await bench.start()
    for srd in (0, 1) * 4:
        bench.message(1000, srd=srd, qpn=4)
        await until(dut, lambda: bench.got, "first flit")
        bench.down = {4}
        await bench.settle()
        bench.down = set()
        await ClockCycles(dut.clk, 2)


@cocotb.test()
async def contexts_end_during_their_reads(dut):
    """data.tx.ended: A failed read is reported for its queue if the context of its transmission is
    in use when the message leaves, not when its read began."""
    bench = Bench(dut)
    await bench.start()
    contexts = len(dut.s_ctx_used)
    bench.use(0)
    for place in (0, contexts - 1, *bench.rng.sample(range(contexts), 20)):
        for used in (0, 1 << place, (1 << contexts) - 1 ^ 1 << place, (1 << contexts) - 1):
            # Until the read has begun, the set is the opposite.
            dut.s_ctx_used.value = used ^ (1 << contexts) - 1
            bench.used, bench.rate = used, 0.0
            send = bench._transmission(3)
            send = send & ~(contexts - 1) | place
            bench.message(64, in_error=True, at=0, node=3, send=send)
            await until(dut, lambda: bench.responses, "the read")
            await ClockCycles(dut.clk, 4)
            bench.use(used)
            await ClockCycles(dut.clk, 2)
            bench.rate = 1.0
            await bench.settle()
            bench.failed.clear()


@cocotb.test()
async def cycles(dut):
    """data.tx.time: Messages, payload and flits meet their specified cycles."""
    bench = Bench(dut)
    await bench.start()
    moments = Moments(dut, "s", "m", "s_rd_cpl_valid")
    for _ in range(20):
        bench.message(inline=bytes(32))
    await bench.settle()
    moments.hold("efa_tx", "message", "s", "m")
    bench.message(inline=bytes(80))
    await bench.settle()
    moments.clear()
    bench.sources = [bench.region]
    bench.message(1)
    await bench.settle()
    assert moments.latency("s_rd_cpl_valid", "m") == timing("efa_tx", "data").latency
    moments.clear()
    bench.rate = 0.0
    bench.message(3000, srd=0)
    for _ in range(10):
        bench.message(100, srd=0)
    await ClockCycles(dut.clk, 40)
    bench.rate = 1.0
    await bench.settle()
    assert len(moments["m"]) == 48 + 30 and moments["m"][47] - moments["m"][0] == 47
    moments.clear()
    for _ in range(20):
        bench.write(inline=bytes(80))
    await bench.settle()
    assert len(moments["m"]) == 60 and moments.intervals("m") == {1}
    assert timing("efa_tx", "flit").interval == 1


@cocotb.test()
async def reset_in_the_middle_of_traffic(dut):
    """data.tx.reset: A reset discards begun packets; later packets are whole."""
    bench = Bench(dut, 0.4, 0.0, 0.7)
    await bench.start()
    for turn in range(3):
        for _ in range(60):
            some_message(bench, 900)
        await ClockCycles(dut.clk, 300 + 7 * turn)
        bench.source.clear()
        await reset(dut)
        bench.wanted.clear()
        for noted in (bench.pulses, bench.wanted_pulses):
            noted.clear()
        bench.got = b""
        await until(dut, high(dut.m_init_done))
        for _ in range(10):
            some_message(bench, 900)
        await bench.settle()
