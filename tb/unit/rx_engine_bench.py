# SPDX-License-Identifier: Apache-2.0
"""Bench of efa_rx_engine: contexts, host memory, descriptor reads, acknowledgements."""

import cocotb
from cocotb.triggers import ClockCycles, Lock, ReadOnly, RisingEdge

from efa_cosim.layouts.defs import (
    INTERNAL,
    LIMITS,
    TRANSPORT,
    AdminQpState,
    IoCompStatus,
    IoRxDesc,
    PktOpcode,
    SrdAck,
    SrdHdr,
)  # fmt: skip
from tb.lib.bundles import Bundles
from tb.lib.stream import Ports, StreamDriver, StreamMonitor, clock_and_reset, rng_for
from tb.lib.waits import high, hold, pulse, until

NODE = 3
PEER = 5
QKEY = 0xABCD
PD = 7
MR_BASE, IOVA, MR_BYTES = 0x50_0000_0000, 0x7F00_0000_0000, 1 << 20
RING = 0x9000_0000
PAGES = MR_BYTES >> 12
INIT, CLEAR, FREE = 0, 1, 2
WINDOW = 1 << TRANSPORT.psn_window_w
PATHS = 0b10110101  # paths that exist
OK = IoCompStatus.OK
SRC_QPN = 0x99


class Bench:
    def __init__(self, dut, stalls=0.0, latency=0.2):
        self.dut = dut = Bundles(
            dut, m_rd_rq=INTERNAL.dma_rd, m_wr_rx=INTERNAL.dma_wr, s_rd_cpl=INTERNAL.dma_rd_cpl,
            s_qpchg=INTERNAL.qpchg, m_qperr=INTERNAL.qperr, s_queue_op=INTERNAL.queue_op,
            s_net=INTERNAL.flit,
            s_rqdb=INTERNAL.rqdb,
        ).events("rx").tables("s_table").lanes(
            "m_st", ("rx", "recv_write", "placed", "drop", "qkey"), valid_only=True)  # fmt: skip
        self.pins = Ports(dut, rst="rst_por")
        self.latency = latency  # chance per cycle that a descriptor read completes
        self.reading = True  # read requests are accepted
        self.locks = {}
        self.rng = rng_for("recv")
        self.memory = {}
        self.rings = {}
        self.contexts = {}
        self.key = 0x1 << LIMITS.mr_w | 9
        self.failing = set()
        for name in (
            "mr_valid", "mtt_valid", "ah_valid", "s_queue_op_valid", "s_drain_valid",
            "s_rqdb_valid", "s_rxdone_valid", "s_qpchg_valid", "s_rd_cpl_rq_valid",
            "m_qperr_ready", "s_full", "s_ctx_used", "s_read_valid", "s_more_valid",
        ):  # fmt: skip
            getattr(dut, name).value = 0
        dut.rst.value = 1
        dut.s_quiesce.value = 0
        dut.s_cfg_node_id.value, dut.s_cfg_paths.value = NODE, PATHS
        dut.s_cfg_tick.value = TRANSPORT.tick_cycles
        dut.s_cfg_mps_log.value, dut.s_cfg_profile.value = 9, 1
        dut.m_placed_ready.value = dut.m_request_ready.value = 1
        self.incarnation = self.session = 0x123
        self.begin()
        self.net = StreamDriver(self.pins, "s_net", 0.2 if stalls else 0, ["data", "keep", "last"])
        self.wr = StreamMonitor(dut, "m_wr_rx", stalls, on_beat=self._write)
        self.rxc = StreamMonitor(dut, "m_cpl", stalls, on_beat=self._completed)
        self.ack_tx = StreamMonitor(dut, "m_ack_tx", stalls, on_beat=self._acked)
        self.ack_rx = StreamMonitor(dut, "m_ack_rx", stalls)
        self.order = []
        self.errors = []
        self._offset = 0
        self._done = 0
        self._reads = []

    def begin(self):
        """Begins a session of the peer, in the current incarnation of the receiver."""
        self.session += 1
        self.dut.s_cfg_incarnation.value = self.incarnation
        self.psn = self.oldest = 0  # the next one, and the first one without an outcome
        self.sent = {}  # destination, by PSN
        self.outcomes = {}  # by PSN
        self.accepted = 0  # a bit for each PSN
        self._asked = 0

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
        """Takes the outcomes of an acknowledgement, which must show all before."""
        ack = SrdAck.unpack(beat["data"].to_bytes(64, "little"))
        assert (ack.opcode, ack.flags, ack.length) == (PktOpcode.SRD_ACK, 0, WINDOW // 8)
        assert (ack.src_node, ack.dst_node, ack.reserved) == (NODE, PEER, 0)
        assert (ack.session, ack.incarnation) == (self.session, self.incarnation)
        assert PATHS >> ack.path & 1 and ack.psn == ack.bitmap_psn <= max(self.psn - 1, 0)
        known = self.accepted >> ack.psn << ack.psn
        shown = int.from_bytes(ack.bitmap, "little") << ack.psn
        assert shown & known == known, "an accepted packet is not shown any more"
        self.accepted |= shown
        for psn in range(ack.psn, self.psn):
            if (shown & ~known) >> psn & 1:
                assert psn not in self.outcomes, f"PSN {psn} was refused and is accepted"
                self.outcomes[psn] = OK
                self.order.append("ack")
        assert shown >> self.psn == 0, "a packet is accepted that was not sent"
        if ack.status:
            refused = ack.refused_psn
            assert (ack.src_qpn, ack.dst_qpn) == (self.sent[refused], SRC_QPN)
            assert self.outcomes.setdefault(refused, ack.status) == ack.status
        else:
            assert (ack.refused_psn, ack.src_qpn, ack.dst_qpn) == (0, 0, 0)

    async def start(self):
        await clock_and_reset(self.pins)
        cocotb.start_soon(self._contexts())
        cocotb.start_soon(self._host())
        cocotb.start_soon(self._reports())
        await ClockCycles(self.dut.clk, 5)
        self.dut.rst.value = 0
        await until(self.dut, high(self.dut.m_init_done))
        await self.region()
        self.pages = list(range(PAGES))
        self.rng.shuffle(self.pages)
        for number, page in enumerate(self.pages):
            await self.pulse("mtt_valid", mtt_index=100 + number,
                             mtt_data=(MR_BASE >> 12) + page)  # fmt: skip
        await self.pulse("ah_valid", ah_index=33, ah_data=INTERNAL.ahc.pack(
            live=1, pd=PD, fabric=1, node=PEER))  # fmt: skip

    async def region(self):
        await self.pulse("mr_valid", mr_index=9, mr_data=INTERNAL.mrc.pack(
            live=1, key=self.key, pd=PD, local_write=1, shift=12, mtt=100, iova=IOVA,
            length=MR_BYTES))  # fmt: skip

    async def core_reset(self, cycles=8):
        """Resets the core as efa_host does; the state of the bench is cleared too."""
        self.dut.s_quiesce.value = 1
        await ClockCycles(self.dut.clk, cycles)
        self.dut.rst.value = 1
        await ClockCycles(self.dut.clk, cycles)
        self.dut.s_quiesce.value = 0
        for monitor in (self.rxc, self.ack_tx, self.ack_rx, self.wr):
            monitor.beats.clear()
        self._done = self._offset = 0
        self._reads.clear()
        self.errors.clear()
        self.incarnation += 1
        self.begin()
        self.dut.rst.value = 0
        await until(self.dut, high(self.dut.m_init_done))
        await self.region()

    async def queue_op(self, qpn, kind):
        image = self.contexts.get(qpn, 0)
        await self.hold(
            "s_queue_op_valid", "s_queue_op_ready", s_queue_op_kind=kind, s_queue_op_qpn=qpn,
            s_queue_op_qpc=image,
        )

    async def rest(self, cycles=300):
        """Runs until nothing has happened for `cycles` cycles."""
        await self.net.idle()
        quiet = 0
        while quiet < cycles:
            before = (len(self._reads), self.rxc.consumed, self.ack_tx.consumed, self.wr.consumed)
            await RisingEdge(self.dut.clk)
            after = (len(self._reads), self.rxc.consumed, self.ack_tx.consumed, self.wr.consumed)
            quiet = quiet + 1 if before == after and not self._done else 0

    async def drain(self):
        await self.hold("s_drain_valid", "s_drain_ready")

    async def pulse(self, valid, **values):
        async with self.locks.setdefault(valid, Lock()):
            await pulse(self.dut, valid, **values)

    async def hold(self, valid, ready, cycles=20000, **values):
        """Holds a request until it is accepted; callers of the same request queue up."""
        async with self.locks.setdefault(valid, Lock()):
            await hold(self.dut, valid, ready, cycles, **values)

    async def _contexts(self):
        """Models the QP context RAM: two ports, one cycle."""
        width, bits = INTERNAL.qpc.width, len(self.dut.qpc_rd_addr) // 2
        while True:
            await ReadOnly()
            requested = str(self.dut.qpc_rd_addr.value)
            data = 0
            # An undriven address reads as a dead context.
            for port, address in enumerate((requested[bits:], requested[:bits])):
                known = set(address) <= {"0", "1"}
                data |= (self.contexts.get(int(address, 2), 0) if known else 0) << (width * port)
            await RisingEdge(self.dut.clk)
            self.dut.qpc_rd_data.value = data

    async def _host(self):
        """Models the host: read completions in any order, rxdone after a completion."""
        dut = self.dut
        dut.m_rd_rq_ready.value = 1
        dut.m_qperr_ready.value = 1
        while True:
            await RisingEdge(dut.clk)
            self._requested()
            dut.m_rd_rq_ready.value = int(self.reading and self.rng.random() < 0.8)
            dut.s_rxdone_valid.value = 0
            if self._done and self.rng.random() < 0.3:
                self._done -= 1
                dut.s_rxdone_valid.value = 1
                self.order.append("entry")
            dut.s_rd_cpl_rq_valid.value = 0
            if self._reads and self.rng.random() < self.latency:
                addr, size, cookie = self._reads.pop(self.rng.randrange(len(self._reads)))
                assert addr >> 9 == (addr + size - 1) >> 9
                await self._respond(addr, size, cookie)

    def _requested(self):
        """Records a read request that is accepted in this cycle."""
        dut = self.dut
        if dut.m_rd_rq_valid.value == 1 and dut.m_rd_rq_ready.value == 1:
            self._reads.append((int(dut.m_rd_rq_addr.value), int(dut.m_rd_rq_len.value),
                                int(dut.m_rd_rq_cookie.value)))  # fmt: skip

    async def _respond(self, addr, size, cookie):
        at = 0
        failed = addr in self.failing
        while at < size:
            count = 1 if failed else min(64 - (addr + at) % 64, size - at)
            data = bytes(self.memory.get(addr + at + n, 0) for n in range(count))
            self.dut.s_rd_cpl_rq_valid.value = 1
            self.dut.s_rd_cpl_cookie.value = cookie
            self.dut.s_rd_cpl_offset.value = at
            self.dut.s_rd_cpl_bytes.value = count
            self.dut.s_rd_cpl_data.value = int.from_bytes(data, "little")
            self.dut.s_rd_cpl_err.value = int(failed)
            at = size if failed else at + count
            self.dut.s_rd_cpl_last.value = int(at == size)
            await RisingEdge(self.dut.clk)
            self._requested()
            self.dut.s_rd_cpl_rq_valid.value = 0
            self.dut.s_rxdone_valid.value = 0

    async def _reports(self):
        """Receives error reports, also while the host delivers the beats of a read."""
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            if dut.m_qperr_valid.value == 1 and dut.m_qperr_ready.value == 1:
                self._broken(int(dut.m_qperr_qpn.value), int(dut.m_qperr_cause.value))

    def _broken(self, qpn, cause):
        self.errors.append((qpn, cause))
        if self.state(qpn) not in (AdminQpState.RESET, AdminQpState.ERR):
            cocotb.start_soon(self._to_err(qpn))

    async def _to_err(self, qpn):
        """Moves a QP to ERR as the owner of contexts does: checked in one cycle, visible in the
        next."""
        await RisingEdge(self.dut.clk)
        await self.set_state(qpn, AdminQpState.ERR)

    def state(self, qpn):
        return self.rings[qpn]["fields"]["state"]

    def contexts_only(self, qpn, state):
        fields = {**self.rings[qpn]["fields"], "state": state}
        self.rings[qpn]["fields"] = fields
        self.contexts[qpn] = INTERNAL.qpc.pack(**fields)

    async def set_state(self, qpn, state):
        self.contexts_only(qpn, state)
        await self.hold("s_qpchg_valid", "s_qpchg_ready", s_qpchg_qpn=qpn, s_qpchg_state=state)

    async def qp(self, qpn, srd=1, log=4, state=AdminQpState.RTS):
        fields = {"live": 1, "state": state, "srd": srd, "pd": PD, "qp_num": qpn + 0x440,
                  "qkey": QKEY, "rcqn": qpn + 1, "rq_live": 1,
                  "rq_base": (RING + 0x10000 * qpn) >> 6, "rq_log": log}  # fmt: skip
        self.contexts[qpn] = INTERNAL.qpc.pack(**fields)
        self.rings[qpn] = {"fields": fields, "log": log, "produced": 0}
        await self.queue_op(qpn, INIT)

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
        await self.pulse("s_rqdb_valid", s_rqdb_qpn=qpn, s_rqdb_value=produced & 0xFFFF)

    def send(self, qpn, payload, opcode=PktOpcode.SRD_SEND, copies=1, **changes):
        """Sends a packet, an SRD packet with the next PSN of the session."""
        header = SrdHdr(opcode=opcode, length=len(payload), src_qpn=SRC_QPN, dst_qpn=qpn + 0x440,
                        qkey=QKEY, src_node=PEER, dst_node=NODE)  # fmt: skip
        if opcode == PktOpcode.SRD_SEND:
            while self.oldest in self.outcomes:
                self.oldest += 1
            header.session, header.incarnation = self.session, self.incarnation
            header.psn, header.behind = self.psn, min(self.psn - self.oldest, WINDOW - 1)
            header.path = self.rng.choice([path for path in range(8) if PATHS >> path & 1])
            self.sent[self.psn] = changes.get("dst_qpn", header.dst_qpn)
            self.psn += 1
        for name, value in changes.items():
            setattr(header, name, value)
        for _ in range(copies):
            self.flits(header.pack() + payload)

    def flits(self, packet):
        """Gives the flits of a packet to the engine."""
        for at in range(0, len(packet), 64):
            part = packet[at : at + 64]
            self.net.post({"data": int.from_bytes(part, "little"), "keep": (1 << len(part)) - 1,
                           "last": int(at + 64 >= len(packet))})  # fmt: skip

    def window(self):
        """Returns True if the sender may send another packet."""
        return self.psn - self.oldest < WINDOW

    def at(self, addr):
        """Returns the host address of an IOVA."""
        offset = addr - IOVA
        return MR_BASE + (self.pages[offset >> 12] << 12) + offset % 4096

    def read(self, addr, size):
        return bytes(self.memory.get(self.at(addr + n), 0) for n in range(size))

    def count(self, name):
        """Returns a list that grows by the cycle number whenever the signal is high."""
        seen = []

        async def watch():
            cycle = 0
            while True:
                await RisingEdge(self.dut.clk)
                cycle += 1
                if self.dut.rst.value == 0 and getattr(self.dut, name).value == 1:
                    seen.append(cycle)

        cocotb.start_soon(watch())
        return seen

    unpack_cpl = staticmethod(INTERNAL.cpl.unpack)

    async def completion(self):
        return self.unpack_cpl((await self.rxc.take(1, 20000))[0]["data"])

    async def ack(self):
        """Returns the outcome of the next SRD packet, in the order of their PSNs."""
        self._asked += 1
        await until(self.dut, lambda: self._asked - 1 in self.outcomes, "an outcome", 20000)
        return self.outcomes[self._asked - 1]
