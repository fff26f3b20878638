# SPDX-License-Identifier: Apache-2.0
"""Bench of efa_tx_engine: contexts, host memory, MMIO stores, the network and its peers."""

from collections import defaultdict, deque

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import (
    EVENTS,
    INTERNAL,
    LIMITS,
    TRANSPORT,
    AdminQpState,
    IoCompStatus,
    IoTxWqe128,
    PktOpcode,
    SrdAck,
    SrdHdr,
)  # fmt: skip
from tb.lib.bundles import Bundles
from tb.lib.stream import rng_for, start_clock
from tb.lib.waits import hold, pulse, until

NODE, PEER, PD, UAR = 3, 5, 7, 2
MR_INDEX, MR_BASE, IOVA, MR_BYTES, MTT = 9, 0x50_0000_0000, 0x7F00_0000_0040, 1 << 18, 100
PHYS_INDEX = 10
KEY = 0x1 << LIMITS.mr_w | MR_INDEX
PHYS_KEY = 0x2 << LIMITS.mr_w | PHYS_INDEX
AH, AH_FAR = 33, 34
WALK = 1 << 15  # cycles of the sweep of efa_llq after power-on
WINDOW, CWND = 1 << TRANSPORT.psn_window_w, TRANSPORT.cwnd_initial
PATHS = 0b10110101  # paths that exist
INCARNATION = 0x7654  # of all peers
MAKE, CLEAR, FREE, ASK = range(4)
OK = IoCompStatus.OK
PULSES = (
    "s_llq_valid",
    "s_db_valid",
    "s_rd_cpl_tx_valid",
    "s_qpchg_valid",
    "cqc_valid",
    "mr_valid",
    "mtt_valid",
    "ah_valid",
    "s_queue_op_valid",
    "s_drain_valid",
    "s_ack_tx_valid",
    "s_ack_rx_valid",
    "s_quiesce",
    "m_net_ready",
    "m_rd_tx_ready",
    "m_cpl_ready",
    "m_qperr_ready",
    "m_more_ready",
    "s_placed_valid",
    "s_job_valid",
)
SEEN = ("db", "llq", "wqe", "check", "tx_first", "tx_last", "ackout", "anomaly_ack")


class Queue:
    """Models one send queue as seen by its driver and its QP context."""

    def __init__(self, qpn, page, log, wide, srd):
        self.qpn, self.page, self.log, self.wide, self.srd = qpn, page, log, wide, srd
        self.produced = 0
        self.fields = {
            "live": 1, "state": AdminQpState.RTS, "srd": srd, "pd": PD, "uar": UAR,
            "qp_num": qpn + 0x440, "scqn": qpn + 1, "ssub": qpn & 1, "sq_line": page * 64,
            "sq_log": log, "wqe128": int(wide),
            "long_id": int(qpn % 3 != 0),
        }  # fmt: skip

    @property
    def image(self):
        return INTERNAL.qpc.pack(**self.fields)


def upper_id(req_id):
    """Returns bits 63:16 of the request id, as used by `entry`."""
    return 0x8001_0000_0001 + 0x0101_0301_0000 * (req_id & 0x3F)


def entry(wide=False, buffers=(), inline=None, **changes):
    """Returns a send WQE; `changes` override fields of the meta descriptor."""
    wqe = IoTxWqe128()
    meta = wqe.meta
    meta.meta_desc = meta.first = meta.last = meta.comp_req = 1
    meta.dest_qp_num, meta.ah, meta.qkey = 0x321, AH, 0xABCD
    if inline is not None:
        meta.inline_msg, meta.length = 1, len(inline)
        wqe.data.inline_data = inline
    else:
        meta.length = len(buffers)
        for number, (addr, length, key) in enumerate(buffers[:2]):
            sge = wqe.data.sgl[number]
            sge.length, sge.lkey = length, key
            sge.buf_addr_lo, sge.buf_addr_hi = addr & 0xFFFFFFFF, addr >> 32
    for name, value in changes.items():
        setattr(meta, name, value)
    meta.req_id_ex.w = [upper_id(meta.req_id) >> 16 * n & 0xFFFF for n in range(3)]
    return bytes(wqe.pack())[: 128 if wide else 64]


class Flow:
    """Models the receiver of a session: the packets that it has seen, and bits of the accepted."""

    def __init__(self):
        self.seen, self.accepted, self.oldest, self.answered = {}, 0, 0, False


class Bench:
    def __init__(self, dut, stalls=0.0, auto_ack=True):
        self.dut = Bundles(
            dut, s_rd_cpl=INTERNAL.dma_rd_cpl, s_llq=INTERNAL.llq, s_db=INTERNAL.db,
            m_rqdb=INTERNAL.rqdb, m_cqdb=INTERNAL.cqdb,
            s_qpchg=INTERNAL.qpchg, m_qperr=INTERNAL.qperr, s_queue_op=INTERNAL.queue_op,
            m_net=INTERNAL.flit,
        ).events("tx").tables("s_table")
        self.dut.lanes("m_rd", ("tx", "sq"), INTERNAL.dma_rd)
        self.dut.lanes("s_rd_cpl", ("tx", "sq"), valid_only=True)
        self.dut.lanes("m_st", ("tx",), valid_only=True, bytes=32)
        self.dut.lanes("m_st", ("ack_drop", "read_err", "write_err", "tx", "send"), valid_only=True)
        self.stalls, self.auto_ack = stalls, auto_ack
        self.rng = rng_for("send")
        self.contexts, self.queues, self.memory = {}, {}, {}
        self.stores, self.reads = deque(), []
        self.flood = None  # returns the store of a cycle without another store
        self.acks, self.notices = deque(), deque()
        # `packets` has no retransmissions.
        self.packets, self.ack_packets, self.done, self.errors = [], [], [], []
        self.flows = defaultdict(Flow)  # by node and session
        self.events = {name: [] for name in SEEN}
        self.rqdb, self.cqdb = [], []
        self.sent_bytes = self.sent = self.completed = self.ack_drops = 0
        self.failing = set()
        self.next_page = 0
        self.hold_reads = self.hold_net = self.hold_cpl = False
        self.read_rate = 0.4 if stalls else 1.0
        self.cycle = 0
        self._flits = []
        self._held = {}

    async def start(self):
        dut = self.dut
        for name in PULSES:
            getattr(dut, name).value = 0
        dut.qpc_rd_data.value = 0
        dut.s_cfg_node_id.value, dut.s_cfg_paths.value = NODE, PATHS
        dut.s_cfg_tick.value = TRANSPORT.tick_cycles
        dut.s_cfg_profile.value, dut.s_cfg_mrrs_log.value = 1, 9
        dut.rst.value = dut.rst_por.value = 1
        start_clock(dut.clk)
        await ClockCycles(dut.clk, 5)
        cocotb.start_soon(self._run())
        await self.init()

    async def init(self):
        """Ends the reset and creates the objects that every test uses."""
        self.dut.rst.value = self.dut.rst_por.value = 0
        while self.dut.m_init_done.value != 1:
            await RisingEdge(self.dut.clk)
        await self.region(MR_INDEX, key=KEY, shift=12, mtt=MTT, iova=IOVA, length=MR_BYTES)
        await self.region(PHYS_INDEX, key=PHYS_KEY, phys=1, iova=0x4_0000_0000, length=1 << 30)
        pages = list(range((MR_BYTES + 0x40 + 4095) >> 12))
        self.rng.shuffle(pages)
        self.pages = pages
        for number, page in enumerate(pages):
            await pulse(self.dut, "mtt_valid", mtt_index=MTT + number,
                             mtt_data=(MR_BASE >> 12) + page)  # fmt: skip
        await self.handle(AH, PEER)
        await self.handle(AH_FAR, 0x1234, fabric=0)

    async def region(self, index, **fields):
        await pulse(self.dut, "mr_valid", mr_index=index,
                         mr_data=INTERNAL.mrc.pack(live=1, pd=PD, **fields))  # fmt: skip

    async def handle(self, index, node, live=1, fabric=1):
        await pulse(self.dut, "ah_valid", ah_index=index, ah_data=INTERNAL.ahc.pack(
            live=live, pd=PD, fabric=fabric, node=node))  # fmt: skip

    def fill(self, addr, data):
        """Writes host memory behind a virtual address of the paged region."""
        for number, byte in enumerate(data):
            at = addr + number - (IOVA & ~0xFFF)
            self.memory[MR_BASE + self.pages[at >> 12] * 4096 + (at & 0xFFF)] = byte

    async def op(self, queue, kind):
        await hold(
            self.dut,
            "s_queue_op_valid",
            "s_queue_op_ready",
            s_queue_op_kind=kind,
            s_queue_op_qpn=queue.qpn,
            s_queue_op_qpc=queue.image,
            cycles=WALK + 10000,
        )
        return int(self.dut.m_queue_op_busy.value) if kind == ASK else None

    async def drain(self):
        await hold(self.dut, "s_drain_valid", "s_drain_ready")

    async def qp(self, qpn, page=None, log=6, wide=False, srd=1, **fields):
        if page is None:
            # Lowest pages first, as the admin side allocates: high pages wait for the sweep after
            # power-on.
            lines = 1 << log + wide
            page, self.next_page = self.next_page, self.next_page + max(lines >> 6, 1)
        queue = Queue(qpn, page, log, wide, srd)
        queue.fields.update(fields)
        self.queues[qpn] = queue
        self.contexts[qpn] = queue.image
        await self.op(queue, MAKE)
        return queue

    def set_state(self, queue, state):
        queue.fields["state"] = state
        self.contexts[queue.qpn] = queue.image
        self.notices.append((queue.qpn, int(state)))

    async def clear(self, queue):
        """Moves a queue to RESET as the admin side does."""
        self.set_state(queue, AdminQpState.RESET)
        await self.drain()
        await self.op(queue, CLEAR)
        queue.produced = 0

    # Stores, in bus order

    def store(self, line, dwen, data, part=0):
        self.stores.append(("llq", line, dwen, data, part))

    def put(self, queue, image, slot=None, pieces=1, skip=0):
        """Writes one WQE in pieces of whole dwords; the dwords of `skip` stay unwritten."""
        slot = queue.produced if slot is None else slot
        slot %= 1 << queue.log
        lines = len(image) // 64
        stores = []
        for number in range(lines):
            data = int.from_bytes(image[64 * number : 64 * number + 64], "little")
            left = 0xFFFF & ~(skip >> 16 * number)
            for piece in range(pieces):
                mask = left if piece == pieces - 1 else left & self.rng.getrandbits(16)
                if mask:
                    noise = self.rng.getrandbits(512)
                    keep = sum(0xFFFFFFFF << 32 * n for n in range(16) if mask >> n & 1)
                    stores.append((queue.page * 64 + slot * lines + number, mask,
                                   data & keep | noise & ~keep & (1 << 512) - 1))  # fmt: skip
                left &= ~mask
        self.rng.shuffle(stores)
        for line, mask, data in stores:
            self.store(line, mask, data)

    def post(self, queue, *images, pieces=1, ring=True):
        for image in images:
            self.put(queue, image, pieces=pieces)
            queue.produced += 1
        if ring:
            self.ring(queue)

    def ring(self, queue, value=None, uar=UAR, upper=0):
        value = queue.produced if value is None else value
        self.doorbell(uar * LIMITS.db_page_bytes + 8 * queue.qpn, upper << 16 | value & 0xFFFF)

    def doorbell(self, offset, value):
        self.stores.append(("db", offset, value))

    # Activity of every cycle

    def _sometimes(self):
        return not self.stalls or self.rng.random() > self.stalls

    async def _run(self):
        edge = RisingEdge(self.dut.clk)
        while True:
            await edge
            self.cycle += 1
            if self.dut.rst.value == 1:
                self._held.clear()
                self._flits = []
                continue
            self._contexts()
            self._mmio()
            self._payload()
            self._network()
            self._completions()
            self._watch()

    def _contexts(self):
        dut = self.dut
        width, bits = INTERNAL.qpc.width, len(dut.qpc_rd_addr) // 4
        requested = str(dut.qpc_rd_addr.value)
        data = 0
        for port in range(4):
            address = requested[bits * (3 - port) : bits * (4 - port)]
            known = set(address) <= {"0", "1"}
            image = self.contexts.get(int(address, 2), 0) if known else 0
            data |= image << width * port
        dut.qpc_rd_data.value = data
        if self._held.get("notice") and dut.s_qpchg_ready.value == 1:
            self.notices.popleft()
            dut.s_qpchg_valid.value = 0
            self._held["notice"] = False
        elif self.notices and not self._held.get("notice"):
            dut.s_qpchg_valid.value = 1
            dut.s_qpchg_qpn.value, dut.s_qpchg_state.value = self.notices[0]
            self._held["notice"] = True
        if dut.m_qperr_valid.value == 1 and self._held.get("qperr"):
            qpn = int(dut.m_qperr_qpn.value)
            self.errors.append((qpn, int(dut.m_qperr_cause.value)))
            queue = self.queues.get(qpn)
            if queue and queue.fields["state"] not in (AdminQpState.RESET, AdminQpState.ERR):
                self.set_state(queue, AdminQpState.ERR)
        self._held["qperr"] = self._sometimes()
        dut.m_qperr_ready.value = int(self._held["qperr"])

    def _mmio(self):
        dut = self.dut
        dut.s_llq_valid.value = dut.s_db_valid.value = 0
        if self.stores and self._sometimes():
            kind, *values = self.stores.popleft()
        elif self.flood:
            kind, *values = self.flood()
        else:
            return
        if kind == "llq":
            dut.s_llq_valid.value = 1
            dut.s_llq_line.value, dut.s_llq_dwen.value, dut.s_llq_data.value = values[:3]
            dut.s_llq_part.value = values[3]
        else:
            dut.s_db_valid.value = 1
            dut.s_db_offset.value, dut.s_db_data.value = values

    def _payload(self):
        """Completes reads in any order, with interleaved beats and any alignment."""
        dut = self.dut
        if dut.m_rd_tx_valid.value == 1 and self._held.get("rd"):
            addr, size = int(dut.m_rd_tx_addr.value), int(dut.m_rd_tx_len.value)
            assert size and addr >> 9 == (addr + size - 1) >> 9, "read across a boundary"
            self.reads.append([addr, size, int(dut.m_rd_tx_cookie.value), 0])
        self._held["rd"] = self._sometimes()
        dut.m_rd_tx_ready.value = int(self._held["rd"])
        dut.s_rd_cpl_tx_valid.value = 0
        if self.hold_reads or not self.reads or self.rng.random() >= self.read_rate:
            return
        at = self.rng.randrange(min(len(self.reads), 16)) if self.stalls else 0
        addr, size, cookie, offset = self.reads[at]
        failed = addr in self.failing
        count = min(64 - (addr + offset) % 64, size - offset)
        data = bytes(self.memory.get(addr + offset + n, 0) for n in range(count))
        noise = self.rng.getrandbits(8 * (64 - count)) if count < 64 else 0
        last = failed or offset + count == size
        dut.s_rd_cpl_tx_valid.value = 1
        dut.s_rd_cpl_cookie.value, dut.s_rd_cpl_offset.value = cookie, offset
        dut.s_rd_cpl_data.value = int.from_bytes(data, "little") | noise << 8 * count
        dut.s_rd_cpl_bytes.value, dut.s_rd_cpl_last.value = count, int(last)
        dut.s_rd_cpl_err.value = int(failed)
        if last:
            self.reads.pop(at)
        else:
            self.reads[at][3] = offset + count

    def _network(self):
        dut = self.dut
        if dut.m_net_valid.value == 1:
            beat = (int(dut.m_net_data.value), int(dut.m_net_keep.value),
                    int(dut.m_net_last.value))  # fmt: skip
            before = self._held.get("flit")
            assert before in (None, beat), "m_net changed during a stall"
            self._held["flit"] = beat
            if self._held.get("net"):
                self._held["flit"] = None
                self._flit(*beat)
        else:
            assert self._held.get("flit") is None, "m_net_valid fell"
        self._held["net"] = not self.hold_net and self._sometimes()
        dut.m_net_ready.value = int(self._held["net"])
        if self._held.get("ack_rx") and dut.s_ack_rx_ready.value == 1:
            self.acks.popleft()
            self._held["ack_rx"] = False
        if self.acks and (self._held.get("ack_rx") or self._sometimes()):
            dut.s_ack_rx_data.value = self.acks[0]
            self._held["ack_rx"] = True
        dut.s_ack_rx_valid.value = int(bool(self._held.get("ack_rx")))

    def _flit(self, data, keep, last):
        count = keep.bit_count()
        assert keep == (1 << count) - 1 and (last or count == 64), f"keep {keep:x}"
        self._flits.append(data.to_bytes(64, "little")[:count])
        if not last:
            return
        raw = b"".join(self._flits)
        self._flits = []
        header = SrdHdr.unpack(raw[:32])
        assert len(raw) == 32 + header.length
        if header.opcode == PktOpcode.SRD_ACK:
            self.ack_packets.append(raw)
            return
        assert header.src_node == NODE
        if header.opcode == PktOpcode.UD_SEND:
            self.packets.append((header, raw[32:]))
        elif self._is_new(header, raw):
            self.packets.append((header, raw[32:]))
            if self.auto_ack:
                self.ack(header)

    def _is_new(self, header, raw):
        """Checks the fields of a session; a retransmission must repeat all others."""
        flow = self.flows[header.dst_node, header.session]
        assert header.session and PATHS >> header.path & 1 and header.behind < WINDOW, header
        assert header.incarnation == 0 or header.incarnation == INCARNATION and flow.answered
        flow.oldest = max(flow.oldest, header.psn - header.behind)
        # Without incarnation, path and behind.
        same = raw[:18], raw[20:28], raw[29], raw[32:]
        assert flow.seen.setdefault(header.psn, same) == same, f"PSN {header.psn} has changed"
        return flow.seen[header.psn] is same

    def ack(self, header, status=OK, **changes):
        """Gives the outcome of a packet, with all that its peer has accepted in the session.

        With other fields, the packet keeps having no outcome.
        """
        flow = self.flows[header.dst_node, header.session]
        refusal = {"status": status, "refused_psn": header.psn} if status else {}
        accepted = flow.accepted | (not status) << header.psn
        if not changes:
            flow.answered, flow.accepted = True, accepted
        fields = {
            "opcode": PktOpcode.SRD_ACK, "length": WINDOW // 8, "psn": flow.oldest,
            "bitmap_psn": flow.oldest, "session": header.session, "incarnation": INCARNATION,
            "src_node": header.dst_node, "dst_node": NODE, "path": header.path, **refusal,
        }  # fmt: skip
        ack = SrdAck(**{**fields, **changes})
        ack.bitmap = (accepted >> flow.oldest & (1 << WINDOW) - 1).to_bytes(32, "little")
        self.acks.append(int.from_bytes(ack.pack(), "little"))

    def _completions(self):
        dut = self.dut
        if dut.m_cpl_valid.value == 1:
            raw = int(dut.m_cpl_data.value)
            before = self._held.get("cpl")
            assert before in (None, raw), "txc changed during a stall"
            self._held["cpl"] = raw
            if self._held.get("txc"):
                self._held["cpl"] = None
                self.done.append(INTERNAL.cpl.unpack(raw))
        self._held["txc"] = not self.hold_cpl and self._sometimes()
        dut.m_cpl_ready.value = int(self._held["txc"])

    def _watch(self):
        dut = self.dut
        for name in SEEN:
            if getattr(dut, f"ev_{name}_valid").value == 1:
                raw = int(getattr(dut, f"ev_{name}_data").value)
                self.events[name].append(getattr(EVENTS, name).unpack(raw))
        if dut.m_rqdb_valid.value == 1:
            self.rqdb.append((int(dut.m_rqdb_qpn.value), int(dut.m_rqdb_value.value)))
        if dut.m_cqdb_valid.value == 1:
            self.cqdb.append((int(dut.m_cqdb_cqn.value), int(dut.m_cqdb_value.value)))
        if dut.m_st_tx_valid.value == 1:
            self.sent += 1
            self.sent_bytes += int(dut.m_st_tx_bytes.value)
        if dut.m_st_send_valid.value == 1:
            self.completed += 1
        if dut.m_st_ack_drop_valid.value == 1:
            self.ack_drops += 1

    async def finished(self, count, cycles=20000):
        """Returns the next `count` completions, oldest first."""
        await until(self.dut, lambda: len(self.done) >= count,
                         f"{count} completions", cycles)  # fmt: skip
        consumed, self.done = self.done[:count], self.done[count:]
        return consumed

    async def stored(self):
        """Waits until every store has taken effect."""
        await until(self.dut, lambda: not self.stores, "stores")
        await ClockCycles(self.dut.clk, 20)
