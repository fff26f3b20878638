"""efa_recv: packets of all sizes into receive entries of all forms, and every way to be refused."""

import cocotb
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge

from efa.defs import INTERNAL, LIMITS, AdminQpState, IoCompStatus, IoRxDesc, PktHdr, PktOpcode
from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, rng_for

NODE = 3
PEER = 5
QKEY = 0xABCD
PD = 7
MR_BASE, IOVA, MR_BYTES = 0x50_0000_0000, 0x7F00_0000_0000, 1 << 20
RING = 0x9000_0000
PAGES = MR_BYTES >> 12
STATUS = IoCompStatus
INIT, CLEAR, FREE = 0, 1, 2


class Bench:
    """Everything around efa_recv: contexts, host memory, descriptor reads, acknowledgements."""

    def __init__(self, dut, stalls=0.0):
        self.dut = dut
        self.rng = rng_for("recv")
        self.memory = {}
        self.rings = {}
        self.contexts = {}
        self.key = 0x1 << LIMITS.mr_w | 9
        self.failing = set()
        for name in (
            "mr_valid", "mtt_valid", "ah_valid", "rqop_valid", "drain_recv_valid",
            "rqdb_valid", "rxdone_valid", "qpchg_recv_valid", "rdc_rq_valid", "qperr_recv_ready",
        ):  # fmt: skip
            getattr(dut, name).value = 0
        dut.core_rst.value = 1
        dut.quiesce.value = 0
        dut.s_cfg_node_id.value = NODE
        dut.mps_log.value = dut.mrrs_log.value = 9
        self.net = StreamDriver(dut, "s_net", 0.2 if stalls else 0, ["data", "keep", "last"])
        self.wr = StreamMonitor(dut, "wr_rx", stalls, on_beat=self._write)
        self.rxc = StreamMonitor(dut, "rxc", stalls, on_beat=self._completed)
        self.acko = StreamMonitor(dut, "acko", stalls, on_beat=self._acked)
        self.acki = StreamMonitor(dut, "acki", stalls)
        self.order = []
        self.errors = []
        self._offset = 0
        self._done = 0
        self._reads = []

    def _write(self, beat):
        data = beat["data"].to_bytes(64, "little")
        count = min(64, beat["len"] - self._offset)
        assert beat["last"] == (self._offset + count == beat["len"])
        first, end = beat["addr"], beat["addr"] + beat["len"] - 1
        assert first >> 9 == end >> 9, "write across a payload boundary"
        for number in range(count):
            self.memory[beat["addr"] + self._offset + number] = data[number]
        self._offset = 0 if beat["last"] else self._offset + count
        self.order.append("write")

    def _completed(self, beat):
        self.order.append("cpl")
        self._done += 1

    def _acked(self, beat):
        self.order.append("ack")

    async def start(self):
        await clock_and_reset(self.dut)
        cocotb.start_soon(self._contexts())
        cocotb.start_soon(self._host())
        await ClockCycles(self.dut.clk, 5)
        self.dut.core_rst.value = 0
        while self.dut.recv_init_done.value != 1:
            await RisingEdge(self.dut.clk)
        await self.pulse("mr_valid", mr_index=9, mr_data=INTERNAL.mrc.pack(
            live=1, key=self.key, pd=PD, local_write=1, shift=12, mtt=100, iova=IOVA,
            length=MR_BYTES))  # fmt: skip
        self.pages = list(range(PAGES))
        self.rng.shuffle(self.pages)
        for number, page in enumerate(self.pages):
            await self.pulse("mtt_valid", mtt_index=100 + number,
                             mtt_data=(MR_BASE >> 12) + page)  # fmt: skip
        await self.pulse("ah_valid", ah_index=33, ah_data=INTERNAL.ahc.pack(
            live=1, pd=PD, fabric=1, node=PEER))  # fmt: skip

    async def pulse(self, valid, **values):
        for name, value in values.items():
            getattr(self.dut, name).value = value
        getattr(self.dut, valid).value = 1
        await RisingEdge(self.dut.clk)
        getattr(self.dut, valid).value = 0

    async def hold(self, valid, ready, **values):
        for name, value in values.items():
            getattr(self.dut, name).value = value
        getattr(self.dut, valid).value = 1
        while True:
            await RisingEdge(self.dut.clk)
            if getattr(self.dut, ready).value == 1:
                break
        getattr(self.dut, valid).value = 0

    async def _contexts(self):
        """The QP context RAM: two ports, one cycle."""
        width, bits = INTERNAL.qpc.width, len(self.dut.qpc_recv_addr) // 2
        while True:
            await ReadOnly()
            asked = str(self.dut.qpc_recv_addr.value)
            await RisingEdge(self.dut.clk)
            data = 0
            # An address nobody drives yet reads as a dead context.
            for port, address in enumerate((asked[bits:], asked[:bits])):
                known = set(address) <= {"0", "1"}
                data |= (self.contexts.get(int(address, 2), 0) if known else 0) << (width * port)
            self.dut.qpc_recv_data.value = data

    async def _host(self):
        """Descriptor reads in any order, rxdone some time after a completion, error reports."""
        dut = self.dut
        dut.rd_rq_ready.value = 1
        dut.qperr_recv_ready.value = 1
        while True:
            await RisingEdge(dut.clk)
            if dut.rd_rq_valid.value == 1 and dut.rd_rq_ready.value == 1:
                self._reads.append((int(dut.rd_rq_addr.value), int(dut.rd_rq_len.value),
                                    int(dut.rd_rq_cookie.value)))  # fmt: skip
            if dut.qperr_recv_valid.value == 1 and dut.qperr_recv_ready.value == 1:
                await self._broken(int(dut.qperr_recv_qpn.value), int(dut.qperr_recv_cause.value))
            dut.rd_rq_ready.value = int(self.rng.random() < 0.8)
            dut.rxdone_valid.value = 0
            if self._done and self.rng.random() < 0.3:
                self._done -= 1
                dut.rxdone_valid.value = 1
                self.order.append("entry")
            dut.rdc_rq_valid.value = 0
            if self._reads and self.rng.random() < 0.2:
                addr, size, cookie = self._reads.pop(self.rng.randrange(len(self._reads)))
                assert addr >> 9 == (addr + size - 1) >> 9
                await self._answer(addr, size, cookie)

    async def _answer(self, addr, size, cookie):
        at = 0
        failed = addr in self.failing
        while at < size:
            count = 1 if failed else min(64 - (addr + at) % 64, size - at)
            data = bytes(self.memory.get(addr + at + n, 0) for n in range(count))
            self.dut.rdc_rq_valid.value = 1
            self.dut.rdc_cookie.value = cookie
            self.dut.rdc_offset.value = at
            self.dut.rdc_bytes.value = count
            self.dut.rdc_data.value = int.from_bytes(data, "little")
            self.dut.rdc_err.value = int(failed)
            at = size if failed else at + count
            self.dut.rdc_last.value = int(at == size)
            await RisingEdge(self.dut.clk)
            if self.dut.rd_rq_valid.value == 1 and self.dut.rd_rq_ready.value == 1:
                self._reads.append((int(self.dut.rd_rq_addr.value), int(self.dut.rd_rq_len.value),
                                    int(self.dut.rd_rq_cookie.value)))  # fmt: skip
            self.dut.rdc_rq_valid.value = 0
            self.dut.rxdone_valid.value = 0

    async def _broken(self, qpn, cause):
        self.errors.append((qpn, cause))
        cocotb.start_soon(self.set_state(qpn, AdminQpState.ERR))

    async def set_state(self, qpn, state):
        fields = {**self.rings[qpn]["fields"], "state": state}
        self.rings[qpn]["fields"] = fields
        self.contexts[qpn] = INTERNAL.qpc.pack(**fields)
        await self.hold("qpchg_recv_valid", "qpchg_recv_ready", qpchg_qpn=qpn, qpchg_state=state)

    async def qp(self, qpn, srd=1, log=4, state=AdminQpState.RTS):
        fields = {"live": 1, "state": state, "srd": srd, "pd": PD, "qp_num": qpn + 0x440,
                  "qkey": QKEY, "rcqn": qpn + 1, "rq_live": 1,
                  "rq_base": (RING + 0x10000 * qpn) >> 6, "rq_log": log}  # fmt: skip
        self.contexts[qpn] = INTERNAL.qpc.pack(**fields)
        self.rings[qpn] = {"fields": fields, "log": log, "produced": 0}
        await self.hold("rqop_valid", "rqop_ready", rqop_kind=INIT, rqop_qpn=qpn,
                        rqop_qpc=self.contexts[qpn])  # fmt: skip

    def put(self, qpn, addr, length, req_id, last, key=None):
        ring = self.rings[qpn]
        desc = IoRxDesc(req_id=req_id, length=length, buf_addr_lo=addr & 0xFFFFFFFF,
                        buf_addr_hi=addr >> 32)  # fmt: skip
        image = bytearray(desc.pack())
        word = (self.key if key is None else key) | last << 31
        image[12:16] = word.to_bytes(4, "little")
        at = RING + 0x10000 * qpn + 16 * (ring["produced"] % (1 << ring["log"]))
        for number, byte in enumerate(image):
            self.memory[at + number] = byte
        ring["produced"] += 1

    async def ring(self, qpn, value=None):
        produced = self.rings[qpn]["produced"] if value is None else value
        await self.pulse("rqdb_valid", rqdb_qpn=qpn, rqdb_value=produced & 0xFFFF)

    def send(self, qpn, payload, opcode=PktOpcode.SRD_SEND, **changes):
        header = PktHdr(opcode=opcode, length=len(payload), src_qpn=0x99, dst_qpn=qpn + 0x440,
                        qkey=QKEY, psn=1, msg_id=0x1234, src_node=PEER, dst_node=NODE)  # fmt: skip
        for name, value in changes.items():
            setattr(header, name, value)
        packet = header.pack() + payload
        for at in range(0, len(packet), 64):
            part = packet[at : at + 64]
            self.net.post({"data": int.from_bytes(part, "little"), "keep": (1 << len(part)) - 1,
                           "last": int(at + 64 >= len(packet))})  # fmt: skip

    def at(self, addr):
        """Host address of an IOVA."""
        offset = addr - IOVA
        return MR_BASE + (self.pages[offset >> 12] << 12) + offset % 4096

    def read(self, addr, size):
        return bytes(self.memory.get(self.at(addr + n), 0) for n in range(size))

    async def completion(self):
        return INTERNAL.cpl.unpack((await self.rxc.take(1, 20000))[0]["data"])

    async def ack(self):
        return INTERNAL.acko.unpack((await self.acko.take(1, 20000))[0]["data"])


async def random_messages(dut, stalls, count=60):
    bench = Bench(dut, stalls)
    await bench.start()
    rng = bench.rng
    kinds = {2: 1, 5: 0, 63: 1}
    for qpn, srd in kinds.items():
        await bench.qp(qpn, srd, log=rng.choice((2, 4)))
    wanted = {qpn: [] for qpn in kinds}
    for number in range(count):
        qpn = rng.choice(list(kinds))
        srd = kinds[qpn]
        size = rng.choice((0, 1, 31, 32, 33, 64, 100, 500, 1500, 4096))
        total = size + (0 if srd else 40)
        slack = rng.choice((0, 0, 70))
        first = rng.randrange(0, total + 1)
        two = rng.random() < 0.5
        addr = IOVA + 12000 * number + rng.randrange(100)
        if two:
            bench.put(qpn, addr, first, number, 0)
            bench.put(qpn, addr + 6000, total - first + slack, 0, 1)
            spread = [(addr, first), (addr + 6000, total - first)]
        else:
            bench.put(qpn, addr, total + slack, number, 1)
            spread = [(addr, total)]
        await bench.ring(qpn)
        payload = rng.randbytes(size)
        opcode = PktOpcode.SRD_SEND if srd else PktOpcode.UD_SEND
        bench.send(qpn, payload, opcode, has_imm=number % 2, imm=number)
        grh = bytes(8) + LIMITS.gid_prefix + bytes([0, PEER]) + LIMITS.gid_prefix + bytes([0, NODE])
        wanted[qpn].append((number, spread, payload if srd else grh + payload))
        got = await bench.completion()
        number, spread, content = wanted[got.qpn].pop(0)
        assert (got.req_id, got.status) == (number, STATUS.OK), got
        assert (got.length, got.ah, got.src_qpn) == (len(content), 33, 0x99)
        data = b"".join(bench.read(addr, size) for addr, size in spread)
        assert data == content, f"message {number}: payload differs"
        if kinds[got.qpn]:
            ack = await bench.ack()
            assert (ack.status, ack.dst_qpn, ack.src_qpn) == (0, 0x99, got.qp_num)
            assert (ack.msg_id, ack.dst_node) == (0x1234, PEER)
    assert not bench.errors


@cocotb.test()
async def messages_arrive_byte_for_byte(dut):
    """recv.unit.smooth"""
    await random_messages(dut, 0.0)


@cocotb.test()
async def messages_arrive_on_a_slow_host(dut):
    """recv.unit.stalls"""
    await random_messages(dut, 0.6)


@cocotb.test()
async def acknowledgement_follows_the_entry(dut):
    """recv.unit.order"""
    bench = Bench(dut)
    await bench.start()
    await bench.qp(1)
    for number in range(8):
        bench.put(1, IOVA + 4096 * number, 300, number, 1)
    await bench.ring(1)
    for _ in range(8):
        bench.send(1, bytes(200))
    await bench.acko.take(8, 20000)
    seen = {"write": 0, "cpl": 0, "entry": 0, "ack": 0}
    for what in bench.order:
        seen[what] += 1
        assert seen["ack"] <= seen["entry"] <= seen["cpl"] <= seen["write"]


@cocotb.test()
async def refusals_name_their_reason(dut):
    """recv.unit.refusals"""
    bench = Bench(dut)
    await bench.start()
    await bench.qp(1)
    await bench.qp(2, srd=0)
    await bench.qp(3, state=AdminQpState.INIT)

    async def refused(status, qpn=1, payload=bytes(20), **changes):
        bench.send(qpn, payload, **changes)
        assert (await bench.ack()).status == status
        assert not bench.rxc.beats

    bad_qpn = STATUS.REMOTE_ERROR_BAD_DEST_QPN
    await refused(bad_qpn, dst_qpn=0x7FF)
    await refused(bad_qpn, dst_qpn=0x441 + 64)
    await refused(bad_qpn, qpn=2)
    await refused(bad_qpn, qpn=3)
    await refused(bad_qpn, qkey=1)
    await refused(STATUS.REMOTE_ERROR_RNR)
    bench.put(1, IOVA, 10, 1, 0)
    await bench.ring(1)
    await refused(STATUS.REMOTE_ERROR_RNR)
    bench.put(1, IOVA + 100, 9, 1, 1)
    await bench.ring(1)
    await refused(STATUS.REMOTE_ERROR_BAD_LENGTH)
    bench.send(1, bytes(19))
    assert (await bench.completion()).req_id == 1
    assert (await bench.ack()).status == 0
    bench.put(1, IOVA, 100, 2, 1, key=bench.key + 1)
    await bench.ring(1)
    bench.send(1, bytes(19))
    assert (await bench.completion()).status == STATUS.LOCAL_ERROR_INVALID_LKEY
    assert (await bench.ack()).status == STATUS.REMOTE_ERROR_BAD_STATUS
    for number in (7, 8):
        bench.put(1, IOVA, 100, number, 0)
    bench.put(1, IOVA, 100, 9, 1)
    await bench.ring(1)
    bench.send(1, bytes(19))
    got = await bench.completion()
    assert (got.status, got.req_id) == (STATUS.LOCAL_ERROR_QP_INTERNAL_ERROR, 7)
    assert (await bench.ack()).status == STATUS.REMOTE_ERROR_BAD_STATUS
    got = await bench.completion()
    assert (got.status, got.req_id) == (STATUS.FLUSHED, 9)
    assert bench.errors == [(1, 7)]


@cocotb.test()
async def doorbell_beyond_the_ring_breaks_the_queue(dut):
    """recv.unit.overrun"""
    bench = Bench(dut)
    await bench.start()
    await bench.qp(4, log=2)
    for number in range(4):
        bench.put(4, IOVA, 10, number, 1)
    await bench.ring(4)
    await bench.ring(4)
    await ClockCycles(dut.clk, 20)
    assert bench.errors == []
    await bench.ring(4, 5)
    flushed = [await bench.completion() for _ in range(4)]
    assert [one.req_id for one in flushed] == [0, 1, 2, 3]
    assert {one.status for one in flushed} == {STATUS.FLUSHED}
    assert bench.errors == [(4, 2)]


@cocotb.test()
async def failed_descriptor_read_breaks_the_queue(dut):
    """recv.unit.read_error"""
    bench = Bench(dut)
    await bench.start()
    await bench.qp(6)
    bench.failing.add(RING + 0x10000 * 6)
    bench.put(6, IOVA, 10, 1, 1)
    await bench.ring(6)
    bench.send(6, bytes(5))
    assert (await bench.ack()).status == STATUS.REMOTE_ERROR_BAD_DEST_QPN
    assert bench.errors == [(6, 6)]


@cocotb.test()
async def malformed_packets_vanish(dut):
    """recv.unit.malformed"""
    bench = Bench(dut)
    await bench.start()
    await bench.qp(1)
    bench.put(1, IOVA, 4096, 1, 1)
    await bench.ring(1)
    drops = []

    async def watch():
        while True:
            await RisingEdge(dut.clk)
            if dut.st_drop_valid.value == 1:
                drops.append(1)

    cocotb.start_soon(watch())
    bench.send(1, bytes(10), opcode=0x77)
    bench.send(1, bytes(10), dst_node=NODE + 1)
    bench.send(1, bytes(200), length=300)
    bench.send(1, bytes(300), length=200)
    bench.send(1, bytes(10), length=9)
    bench.send(1, bytes(9000))
    bench.send(1, bytes(7))
    assert (await bench.completion()).length == 7
    await ClockCycles(dut.clk, 10)
    assert len(drops) == 6


@cocotb.test()
async def drain_waits_for_packets_and_fetches(dut):
    """recv.unit.drain"""
    bench = Bench(dut, 0.9)
    await bench.start()
    await bench.qp(1)
    for number in range(8):
        bench.put(1, IOVA + 4096 * number, 2000, number, 1)
    await bench.ring(1)
    for _ in range(8):
        bench.send(1, bytes(2000))
    await bench.net.idle()
    await ClockCycles(dut.clk, 4)
    await bench.hold("drain_recv_valid", "drain_recv_ready")
    assert bench.rxc.taken == 8, "drained with packets inside"
    await bench.hold("rqop_valid", "rqop_ready", rqop_kind=FREE, rqop_qpn=1,
                     rqop_qpc=bench.contexts[1])  # fmt: skip


@cocotb.test()
async def reset_in_the_middle_of_a_packet(dut):
    """recv.unit.reset"""
    bench = Bench(dut, 0.3)
    await bench.start()
    for _ in range(2):
        await bench.qp(1)
        bench.put(1, IOVA, 4096, 1, 1)
        await bench.ring(1)
        bench.send(1, bytes(3000))
        await ClockCycles(dut.clk, 20)
        dut.core_rst.value = 1
        await ClockCycles(dut.clk, 8)
        dut.core_rst.value = 0
        await bench.net.idle()
        for monitor in (bench.rxc, bench.acko, bench.wr):
            monitor.beats.clear()
        bench._done = bench._offset = 0
        bench._reads.clear()
        while dut.recv_init_done.value != 1:
            await RisingEdge(dut.clk)
        await bench.pulse("mr_valid", mr_index=9, mr_data=INTERNAL.mrc.pack(
            live=1, key=bench.key, pd=PD, local_write=1, shift=12, mtt=100, iova=IOVA,
            length=MR_BYTES))  # fmt: skip
        await bench.qp(1)
        bench.put(1, IOVA, 4096, 2, 1)
        await bench.ring(1)
        bench.send(1, b"after")
        assert (await bench.completion()).length == 5
        assert bench.read(IOVA, 5) == b"after"
