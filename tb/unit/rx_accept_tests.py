# SPDX-License-Identifier: Apache-2.0
"""Tests efa_rx_accept: packets become jobs in the order of their queue, also beside parked ones."""

from collections import defaultdict, deque

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge, Timer

from efa_cosim.layouts.defs import (
    INTERNAL,
    LIMITS,
    AdminQpState,
    IoCompStatus,
    IoRxDesc,
    IoSendOpType,
    PktHdr,
    PktOpcode,
    PktRdma,
    QpError,
)
from tb.lib.bundles import Bundles
from tb.lib.dont_care import dont_care
from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import high, pulse, until, zero
from tb.unit.data_bench import Moments, Raw, RawMonitor

STATUS = IoCompStatus
NO_AH = LIMITS.reserved_ah
INPUTS = ("s_open", "qpc_rd_data", "s_ah_valid", "s_mr_valid", "s_cfg_profile", "m_claim_ready",
          "s_rsp_valid", "s_rsp_data", "s_arrived", "m_look_ready", "s_found", "s_found_read",
          "m_request_ready")  # fmt: skip
RECORDED = 1  # strap of the profile that reports RDMA
PACKET = timing("efa_rx_accept", "packet")
# Some nodes lie outside the fabric.
NODES = (0, 1, 17, 30, 63, 64, 64 + 17, 1 << 15)


class Rings:
    """Models the ring owner and the QP contexts, once per cycle: a response one cycle after its
    claim. The WQEs of a queue in `late` are missing; those of a queue in `endless` have no last
    descriptor."""

    def __init__(self, bench):
        self.bench, self.dut = bench, bench.dut
        self.late, self.endless = set(), set()
        self.cancel()
        cocotb.start_soon(self._run())

    def cancel(self):
        self.heads = defaultdict(int)
        self.second, self.missing, self.arrived, self.unfinished = None, False, False, 0
        self.leaves, self.responses = False, deque()

    async def _run(self):
        dut, bench = self.dut, self.bench
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value == 1:
                self.cancel()
                zero(dut, "m_claim_ready", "s_rsp_valid", "s_arrived")
                continue
            self._edge()
            dut.s_arrived.value, self.arrived = int(self.arrived), False
            dut.s_rsp_valid.value = int(self.second is not None)
            if self.second:
                self._respond()
            await Timer(1, "ns")
            self.leaves = self.second is not None and dut.s_rsp_ready.value == 1
            ready = dut.m_claim_hold.value == 0 and (self.second is None or self.leaves)
            if dut.m_claim_valid.value == 1:
                behind = self.second and self.second["qpn"] == int(dut.m_claim_qpn.value)
                ready = ready and not (behind and dut.m_claim_skip.value == 0)
                ready = ready and bench.rng.random() >= bench.slow
            dut.m_claim_ready.value = int(ready)

    def _edge(self):
        dut = self.dut
        looked_up = dut.qpc_rd_addr.value
        qpn = int(looked_up) if looked_up.is_resolvable else 0
        dut.qpc_rd_data.value = INTERNAL.qpc.pack(**self.bench.context(qpn))
        if dut.m_claim_done.value == 1:
            assert self.unfinished, "a job without a response"
            self.unfinished -= 1
        if self.leaves:
            second = self.second
            parks = second["blocked"] or self.missing
            self.unfinished += not parks
            self.heads[second["qpn"]] += not (parks or second["skip"])
            if not parks:
                self.responses.append((second["need"], self.descs))
            self.second = None
        if dut.m_claim_valid.value == 1 and dut.m_claim_ready.value == 1:
            self.second = {name: int(getattr(dut, f"m_claim_{name}").value)
                           for name in ("qpn", "skip", "blocked", "need")}  # fmt: skip
            assert self.second["skip"] or not self.second["blocked"]
        self.leaves = False

    def _respond(self):
        dut, rng, qpn = self.dut, self.bench.rng, self.second["qpn"]
        self.missing = not self.second["skip"] and qpn in self.late
        need = self.second["need"]
        first = rng.choice((0, min(1, need), need, rng.randrange(need + 1)))
        count = 1 if first == need else 2
        ids = self.bench.ids[qpn, self.heads[qpn]], rng.getrandbits(16)
        self.descs = []
        for number, size in zip(ids, (first, need - first + rng.randrange(9)), strict=True):
            desc = IoRxDesc.unpack(rng.randbytes(16))
            desc.req_id, desc.length = number, size
            self.descs.append(int.from_bytes(desc.pack(), "little"))
        dut.s_rsp_skipped.value, dut.s_rsp_missing.value = self.second["skip"], int(self.missing)
        dut.s_rsp_complete.value, dut.s_rsp_count.value = int(qpn not in self.endless), count
        dut.s_rsp_descs.value = self.descs[0] | self.descs[1] << 128
        self.descs = self.descs[:count]


class Bench:
    def __init__(self, dut, gaps=0.0, stalls=0.0, slow=0.0):
        self.dut = dut = Bundles(
            dut, s_pkt=INTERNAL.rx_pkt, m_claim=INTERNAL.rx_claim, s_rsp=INTERNAL.rx_claim_rsp
        ).bundle("m_job_check", "m_job", INTERNAL.rx_check)  # fmt: skip
        self.rng, self.slow, self.bits = rng_for("rx_accept"), slow, int(dut.QPN_W.value)
        zero(dut, *INPUTS)
        self.packets = StreamDriver(dut, "s_pkt", gaps, ["header", "rdma", "line", "slot"])
        self.jobs = RawMonitor(dut, "m_job", stalls, ["data", "req", "descs", "pd"],
                               on_beat=self._job)  # fmt: skip
        self.errs = StreamMonitor(dut, "m_err", 0.6, ["qpn", "cause"])
        self.qps, self.known = {}, {}
        self.begin()

    def begin(self):
        self.sent, self.left, self.posted, self.wrong_keys = {}, [], 0, 0
        self.looks = []  # read_id of each look of a response
        # The request id of each WQE of a queue.
        self.ids = defaultdict(lambda: self.rng.getrandbits(16))

    async def start(self):
        await clock_and_reset(self.dut)
        least = max(1 << 8, 1 << self.bits)
        await ClockCycles(self.dut.clk, least - 4)
        assert self.dut.m_init_done.value == 0
        await until(self.dut, high(self.dut.m_init_done), cycles=8)
        assert self.dut.s_pkt_ready.value == 0
        self.dut.s_open.value = 1
        self.rings = Rings(self)

    def context(self, qpn):
        """Returns the context of a queue; each has its own type, domain, key and CQ."""
        if qpn not in self.qps:
            rng = self.rng
            pd, number = rng.randrange(1 << LIMITS.pd_w), rng.getrandbits(16 - self.bits)
            self.qps[qpn] = dont_care(INTERNAL.qpc, rng, live=1, state=AdminQpState.RTS, pd=pd,
                                      qp_num=number << self.bits | qpn)  # fmt: skip
        return self.qps[qpn]

    async def handles(self, number):
        """Creates and destroys address handles of the domains in use."""
        rng, pds = self.rng, [qp["pd"] for qp in self.qps.values()]
        for _ in range(number):
            node, index = rng.choice(NODES), rng.getrandbits(LIMITS.ah_w)
            ahc = {"pd": rng.choice(pds), "node": node, "live": int(rng.random() < 0.8),
                   "fabric": int(node < 1 << LIMITS.node_w and rng.random() < 0.9)}  # fmt: skip
            if ahc["fabric"]:
                self.known[ahc["pd"], node] = index if ahc["live"] else None
            data = INTERNAL.ahc.pack(**ahc)
            await pulse(self.dut, "s_ah_valid", s_ah_index=index, s_ah_data=data)
            # Without valid, the data is don't-care.
            self.dut.s_ah_index.value = rng.getrandbits(LIMITS.ah_w)
            other = {"pd": rng.choice(pds), "node": rng.choice(NODES[:5]), "fabric": 1}
            self.dut.s_ah_data.value = INTERNAL.ahc.pack(**dont_care(INTERNAL.ahc, rng, **other))

    def send(self, qpn, refused=False):
        """Sends a packet; a refused one has a wrong QKey."""
        rng, qp, number = self.rng, self.context(qpn), self.posted
        header = PktHdr(
            opcode=PktOpcode.SRD_SEND if qp["srd"] else PktOpcode.UD_SEND,
            length=rng.choice((0, 1, 100, rng.randrange(LIMITS.max_mtu))), dst_qpn=qp["qp_num"],
            qkey=qp["qkey"] ^ (refused << rng.randrange(32)),
            psn=rng.getrandbits(16) << 16 | number, has_imm=rng.getrandbits(1),
            imm=rng.getrandbits(32), src_qpn=rng.getrandbits(16),
            src_node=rng.choice(NODES), dst_node=rng.getrandbits(16), msg_id=rng.getrandbits(32),
            path=rng.getrandbits(8), status=rng.getrandbits(8), reserved=rng.getrandbits(16),
            reserved_flags=rng.getrandbits(7))  # fmt: skip
        line, slot = rng.getrandbits(9), rng.getrandbits(8)
        self.sent[number] = qpn, refused, line, slot, header
        self.packets.post({"header": int.from_bytes(header.pack(), "little"), "line": line,
                           "slot": slot})  # fmt: skip
        self.posted += 1

    def respond(self, qpn):
        """Sends a read response without bytes."""
        rng, qp, number = self.rng, self.context(qpn), self.posted
        header = PktHdr(opcode=PktOpcode.READ_RESPONSE, length=PktRdma.SIZE, dst_qpn=qp["qp_num"],
                        psn=number, src_node=rng.choice(NODES))  # fmt: skip
        rdma = PktRdma(read_id=number)
        line, slot = rng.getrandbits(9), rng.getrandbits(8)
        self.sent[number] = qpn, None, line, slot, header
        self.packets.post({"header": int.from_bytes(header.pack(), "little"),
                           "rdma": int.from_bytes(rdma.pack(), "little"), "line": line,
                           "slot": slot})  # fmt: skip
        self.posted += 1

    async def look(self):
        """Ends looks of responses after some cycles; those with an even number are of a read."""
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            valid, ready = dut.m_look_valid.value == 1, dut.m_look_ready.value == 1
            if valid and ready:
                self.looks.append(INTERNAL.read_look.unpack(int(dut.m_look_data.value)).id)
            answers = valid and not ready and self.rng.random() < 0.4
            dut.m_look_ready.value = int(answers)
            if answers:
                found = INTERNAL.read_look.unpack(int(dut.m_look_data.value)).id % 2 == 0
                dut.s_found.value = int(found)

    def _job(self, beat):
        """Checks a job: a packet once, its WQE in the order of its queue, and all its fields."""
        job = Raw(INTERNAL.rx_job, beat["data"])
        ack_tx, cpl = Raw(INTERNAL.ack_tx, job.raw("ack_tx")), Raw(INTERNAL.cpl, job.raw("cpl"))
        number = ack_tx.psn & 0xFFFF
        qpn, refused, line, slot, header = self.sent[number]
        qp = self.qps[qpn]
        before = [n for n, *_ in self.left if self.sent[n][:2] == (qpn, False)]
        assert all(n != number for n, _ in self.left), "a packet left twice"
        assert (job.packet, job.line, job.slot, cpl.qpn) == (1, line, slot, qpn)
        assert job.ack == (1 if refused is None else qp["srd"])
        assert refused is None or job.length == header.length
        assert (ack_tx.dst_node, ack_tx.dst_qpn, ack_tx.src_qpn) == (
            header.src_node, header.src_qpn, header.dst_qpn)  # fmt: skip
        assert (ack_tx.psn, ack_tx.msg_id, ack_tx.path) == (header.psn, header.msg_id, header.path)
        assert self.rings.responses, "a job without a response"
        need, descs = self.rings.responses.popleft()
        if refused is None:
            found = int(number % 2 == 0)
            assert (job.read, job.drop, job.rdma, job.write, job.complete, ack_tx.status) == (
                found, 1 - found, found, 0, 0, STATUS.OK)  # fmt: skip
            assert all(n < number for n, at in self.left if at == qpn), "a response was overtaken"
            self.left.append((number, qpn))
            return
        assert need == header.length + (0 if qp["srd"] else LIMITS.grh_bytes)
        endless = qpn in self.rings.endless and not refused
        if refused or endless:
            status = STATUS.REMOTE_ERROR_BAD_DEST_QPN if refused else STATUS.REMOTE_ERROR_BAD_STATUS
            assert ack_tx.status == status
            assert (job.complete, job.write) == (int(endless), 0) and int(beat["req"], 2) == 0
        if not refused:
            assert not before or before[-1] < number, "packets of a queue were reordered"
            assert job.count == len(descs)
            assert (cpl.rx, cpl.qp_num, cpl.cqn, cpl.sub, cpl.req_id, cpl.op_type) == (
                1, header.dst_qpn, qp["rcqn"], qp["rsub"], self.ids[qpn, len(before)],
                IoSendOpType.SEND)  # fmt: skip
            assert (cpl.unsolicited, cpl.length_hi, cpl.req_id_ex) == (0, 0, 0)
            wanted = STATUS.LOCAL_ERROR_QP_INTERNAL_ERROR if endless else STATUS.OK
            assert cpl.status == wanted and int(beat["pd"], 2) == qp["pd"]
        if not (refused or endless):
            assert (ack_tx.status, job.complete, job.write) == (STATUS.OK, 1, int(need > 0))
            known = self.known.get((qp["pd"], header.src_node))
            assert cpl.ah == (NO_AH if known is None else known)
            assert (cpl.has_imm, cpl.imm, cpl.src_qpn, cpl.src_node, cpl.length) == (
                header.has_imm, header.imm, header.src_qpn, header.src_node, need)  # fmt: skip
            sizes = [IoRxDesc.unpack(desc.to_bytes(16, "little")).length for desc in descs]
            assert (job.grh, job.size0) == (int(not qp["srd"]), sizes[0])
            assert job.size1 == (sizes[1] if len(sizes) == 2 else 0)
            requests = [need > 0 and sizes[0] > 0, need > sizes[0]]
            assert int(beat["req"], 2) == requests[0] + 2 * requests[1]
            for place, desc in enumerate(descs):
                seen = int(beat["descs"], 2) >> 128 * place & (1 << 128) - 1
                assert seen == desc or not requests[place]
        self.left.append((number, qpn))
        self.wrong_keys += self.dut.st_qkey_valid.value == 1

    async def settle(self, limit=6000):
        await until(self.dut, lambda: len(self.left) == self.posted, "jobs", limit)
        refused = sum(bool(wrong) for _, wrong, *_ in self.sent.values())
        assert self.wrong_keys == refused
        await ClockCycles(self.dut.clk, 4)
        assert self.rings.unfinished == 0


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0, 0.0), (0.4, 0.0, 0.3), (0.0, 0.5, 0.0)])
async def packets_of_a_queue_keep_their_order(dut, pace):
    """data.rx_accept.order: Each packet becomes one job, those of a queue in order with its WQEs in
    order, whatever is missing, refused or stalled."""
    bench = Bench(dut, *pace)
    await bench.start()
    rng, rings = bench.rng, bench.rings
    queues = rng.sample(range(1 << bench.bits), 6)
    for qpn in queues:
        bench.context(qpn)
    await bench.handles(60)
    most = 0
    for _ in range(2500):
        if len(bench.packets.waiting) < 3:
            bench.send(rng.choice(queues), rng.random() < 0.1)
        if rng.random() < 0.05:
            rings.late ^= {rng.choice(queues)}
            rings.arrived = rng.random() < 0.7
        most = max(most, bench.packets.sent - len(bench.left))
        await RisingEdge(dut.clk)
    rings.late.clear()
    await bench.settle()
    assert bench.posted > 400 and most > 20, (bench.posted, most)


@cocotb.test()
async def a_parked_packet_delays_no_other_queue(dut):
    """data.rx_accept.pass: Packets of other queues bypass one per cycle; the parked ones follow in
    their order when their descriptors arrive."""
    bench = Bench(dut)
    await bench.start()
    bench.rings.late = {1}
    for number in range(40):
        bench.send(1 if number < 10 else 2 + number % 2)
    moments = Moments(dut, "m_job")
    await ClockCycles(dut.clk, 60)
    assert [number for number, _ in bench.left] == list(range(10, 40))
    assert moments.intervals("m_job") == {PACKET.interval}
    # A refused packet of the same queue waits as well: the queue is blocked.
    bench.send(1, refused=True)
    await ClockCycles(dut.clk, 20)
    assert len(bench.left) == 30
    bench.rings.late.clear()
    bench.rings.arrived = True
    await bench.settle()
    assert [number for number, _ in bench.left[30:]] == [*range(10), 40]


@cocotb.test()
async def a_refused_packet_unblocks_nothing(dut):
    """data.rx_accept.refused: A refused packet directly behind a parked packet of its queue does
    not let the next one pass."""
    bench = Bench(dut)
    await bench.start()
    bench.rings.late = {7}
    for refused in (False, True, False, True, False):
        bench.send(7, refused)
    await ClockCycles(dut.clk, 12)
    # Its descriptors are there, but the queue waits for the traversal of the parked packets.
    bench.rings.late.clear()
    bench.send(7)
    bench.send(8)
    await bench.settle()
    numbers = [number for number, _ in bench.left]
    assert numbers[:2] == [1, 6], numbers
    assert numbers[2:] == [0, 2, 3, 4, 5], numbers


@cocotb.test()
async def a_refused_packet_waits_behind_a_parked_one(dut):
    """data.rx_accept.waits: A refused packet that waits for its job behind a parked packet of its
    queue leaves the queue blocked."""
    bench = Bench(dut, stalls=0.7)
    await bench.start()
    rng, rings = bench.rng, bench.rings
    for _ in range(40):
        rings.late = {7}
        for qpn, refused in ((8, False), (9, False), (7, False), (7, True)):
            bench.send(qpn, refused)
        await ClockCycles(dut.clk, rng.randrange(8, 30))
        rings.late = set()
        bench.send(7)
        await ClockCycles(dut.clk, rng.randrange(20))
        rings.arrived = True
        await bench.settle()


@cocotb.test()
async def responses_wait_with_their_queue(dut):
    """data.rx_accept.response: A read response behind a parked packet of its queue waits with it.
    Each response is looked up once and becomes one job."""
    bench = Bench(dut, 0.1, 0.3)
    await bench.start()
    dut.s_cfg_profile.value = RECORDED
    cocotb.start_soon(bench.look())
    rng, rings = bench.rng, bench.rings
    queues = rng.sample(range(1 << bench.bits), 4)
    responses = 0
    for _ in range(2500):
        if len(bench.packets.waiting) < 3:
            if rng.random() < 0.4:
                bench.respond(rng.choice(queues))
                responses += 1
            else:
                bench.send(rng.choice(queues), rng.random() < 0.1)
        if rng.random() < 0.05:
            rings.late ^= {rng.choice(queues)}
            rings.arrived = rng.random() < 0.7
        await RisingEdge(dut.clk)
    rings.late.clear()
    rings.arrived = True
    await bench.settle()
    assert len(bench.looks) == len(set(bench.looks)) == responses > 50


@cocotb.test()
async def a_wqe_without_end_is_reported(dut):
    """data.rx_accept.endless: A WQE without a last descriptor completes its packet and is reported
    with its queue."""
    bench = Bench(dut)
    await bench.start()
    queues = bench.rng.sample(range(1 << bench.bits), 24)
    bench.rings.endless = set(queues[::2])
    for qpn in queues:
        bench.send(qpn)
    await bench.settle()
    wanted = [{"qpn": qpn, "cause": QpError.NO_LAST} for qpn in queues[::2]]
    await until(dut, lambda: len(bench.errs.beats) == len(wanted), "reports")
    assert list(bench.errs.beats) == wanted


@cocotb.test()
async def packets_take_their_time(dut):
    """data.rx_accept.time: Packets meet their specified cycles, new ones and parked ones."""
    bench = Bench(dut)
    await bench.start()
    moments = Moments(dut, "s_pkt", "s_arrived", "m_job")
    for number in range(12):
        bench.send(1 + number % 2)
    await bench.settle()
    moments.hold("efa_rx_accept", "packet", "s_pkt", "m_job")
    bench.rings.late = {1, 2}
    for number in range(8):
        bench.send(1 + number % 2)
    await ClockCycles(dut.clk, 20)
    # After a traversal without a read, the next one begins with the read.
    await until(dut, high(dut.m_claim_valid), "traversal", 100)
    await ClockCycles(dut.clk, 30)
    bench.rings.late.clear()
    moments.clear()
    bench.rings.arrived = True
    await bench.settle()
    moments.hold("efa_rx_accept", "list", "s_arrived", "m_job")


@cocotb.test()
async def reset_discards_parked_packets(dut):
    """data.rx_accept.reset: A reset at any moment discards all packets, also parked ones; their
    queues are free afterwards."""
    bench = Bench(dut)
    await bench.start()
    for wait in (2, 3, 5, 8, 40, 75):
        bench.rings.late = {1}
        for number in range(12):
            bench.send(1 + number % 3)
        await ClockCycles(dut.clk, wait)
        bench.packets.clear()
        dut.s_open.value = 0
        await reset(dut)
        assert dut.m_job_valid.value == 0 and dut.m_claim_valid.value == 0
        bench.begin()
        bench.rings.late = set()
        await until(dut, high(dut.m_init_done), cycles=300 + (1 << bench.bits))
        dut.s_open.value = 1
        for number in range(12):
            bench.send(1 + number % 3)
        await bench.settle(60)
