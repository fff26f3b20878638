# SPDX-License-Identifier: Apache-2.0
"""Tests efa_rx_validate: the order of refusals of decisions 0001 and 0010, and the WQE that a
packet consumes."""

from collections import Counter, deque

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge, Timer

from efa_cosim.boundary.backend import profile_strap
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
from tb.lib.waits import high, pulse, until, zero
from tb.unit.data_bench import Moments, Raw, RawMonitor, Regions, consumed

RDMA = (PktOpcode.RDMA_WRITE, PktOpcode.READ_REQUEST, PktOpcode.READ_RESPONSE)
STATUS = IoCompStatus
QKEY, GRH, NO_AH = 0xABCD, LIMITS.grh_bytes, LIMITS.reserved_ah
STATES = AdminQpState
TAKES = (STATES.RTR, STATES.RTS, STATES.SQD, STATES.SQE)
REQUEST_MOST = 1 << 16  # bytes of a read request
RECORDED, BASIC = profile_strap("recorded"), profile_strap("basic")
FIELDS = ["header", "rdma", "line", "slot"]


class Claims:
    """Models efa_rq_pop: a packet at stage 1 with its context, a packet at stage 2 with its
    response.

    Now and then the queue at stage 1 is blocked, or descriptors are missing. A queue is not blocked
    any more once a read response of it is looked up. Models also the table of reads.
    """

    def __init__(self, bench):
        self.bench, self.dut = bench, bench.dut
        self.cancel()
        cocotb.start_soon(self._run())

    def cancel(self):
        self.first, self.second, self.wait, self.blocked = None, None, 0, 0
        self.leaves = self.step = self.looks = self.looked_up = False
        self.look_age = 0

    async def _run(self):
        dut, bench = self.dut, self.bench
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value == 1:
                self.cancel()
                zero(dut, "m_claim_ready", "s_rsp_valid", "m_look_ready")
                continue
            self._look()
            self._edge()
            # Contexts and responses come from registers; the other inputs depend on them.
            dut.qpc_rd_data.value = INTERNAL.qpc.pack(**bench.qps.get(self.first, {}))
            shut = bench.rng.random() < bench.parks and not (self.looks or self.looked_up)
            self.blocked = dut.blocked_rd_data.value = int(shut)
            responses = self.second is not None and self.wait == 0
            dut.s_rsp_valid.value = int(responses)
            if responses:
                self._respond()
            else:
                # Without valid, a response is don't-care.
                for name in ("skipped", "failed", "none", "missing", "complete", "short"):
                    getattr(dut, f"s_rsp_{name}").value = bench.rng.getrandbits(1)
            await Timer(1, "ns")
            self.leaves = responses and dut.s_rsp_ready.value == 1
            behind = self.second is not None and self.second[0] == self.first
            ready = (not behind and dut.m_claim_hold.value == 0
                     and (self.second is None or self.leaves))  # fmt: skip
            dut.m_claim_ready.value = int(ready)
            self.step = self.first is not None and ready
            assert dut.m_claim_valid.value == int(self.first is not None)
            assert dut.m_empty.value == int(self.first is None and self.second is None)
            if self.first is not None:
                assert dut.m_claim_qpn.value == self.first
                assert dut.m_claim_blocked.value == self.blocked
            # A blocked packet is parked, even when it would be refused.
            skip = int(dut.m_claim_skip.value) if self.step else 0
            assert skip or not (self.step and self.blocked)
            need = int(dut.m_claim_need.value) if self.step else 0
            self.looked = (self.first, skip, self.blocked, need)
            assert dut.m_end_valid.value == int(self.leaves)
            if responses and (self.second[2] or self.missing):
                assert self.leaves and dut.m_end_parked.value == 1
            elif responses:
                assert dut.m_end_parked.value == 0
            self.parked = self.leaves and dut.m_end_parked.value == 1

    def _look(self):
        """Ends the look of a read response at this edge, or in the next cycle."""
        dut, bench = self.dut, self.bench
        valid, ready = dut.m_look_valid.value == 1, dut.m_look_ready.value == 1
        assert valid or not self.looks, "a look ends by itself"
        if valid and ready:
            bench.look(INTERNAL.read_look.unpack(int(dut.m_look_data.value)))
            self.looked_up = True
        self.looks = valid and not ready
        self.look_age = self.look_age + 1 if self.looks else 0
        answers = self.look_age >= bench.look_cycles and bench.rng.random() >= bench.look_stalls
        dut.m_look_ready.value = int(answers)
        dut.s_found.value = bench.rng.getrandbits(1)
        if answers:
            look = INTERNAL.read_look.unpack(int(dut.m_look_data.value))
            read = bench.found(look.id)
            dut.s_found.value = int(read is not None)
            # The read stays until the next look.
            dut.s_found_read.value = INTERNAL.read_ctx.pack(
                **dont_care(INTERNAL.read_ctx, bench.rng, **(read or {})))  # fmt: skip

    def _edge(self):
        """Models what this edge does with the packets."""
        dut, bench = self.dut, self.bench
        assert dut.m_claim_done.value == (dut.m_job_valid.value and dut.m_job_ready.value)
        assert dut.m_step.value == int(self.step)
        bench.ended += int(dut.m_claim_done.value)
        if self.leaves:
            qpn, skip, _, _ = self.second
            if self.parked:
                bench.park({name: int(getattr(dut, f"m_end_{name}").value) for name in FIELDS})
            else:
                bench.responses.append(None if skip else self.reported)
                if self.reported and not skip and self.reported[0] in ("endless", "complete"):
                    bench.rings[qpn].popleft()
            self.second = None
        elif self.second is not None and self.wait:
            self.wait -= 1
        if self.step:
            self.second, self.first = self.looked, None
            self.looked_up = False
            self.wait = bench.rng.randrange(1, 20) if bench.rng.random() < bench.late else 0
        if dut.s_pkt_valid.value == 1 and dut.s_pkt_ready.value == 1:
            header = int(dut.s_pkt_header.value).to_bytes(PktHdr.SIZE, "little")
            self.first = PktHdr.unpack(header).dst_qpn % 64
            assert dut.qpc_rd_addr.value == self.first
        elif self.first is not None:
            assert dut.qpc_rd_addr.value == self.first
        self.leaves = self.step = False

    def _respond(self):
        dut = self.dut
        qpn, skip, _, need = self.second
        rings = self.bench.rings.get(qpn)
        self.reported = None
        # Descriptors that are missing in this cycle may be present in the next one.
        self.missing = not skip and self.bench.rng.random() < self.bench.parks
        dut.s_rsp_skipped.value, dut.s_rsp_missing.value = skip, int(self.missing)
        if skip:
            # The other response fields are don't-care when the claim is skipped.
            for name in ("failed", "none", "complete", "short"):
                getattr(dut, f"s_rsp_{name}").value = self.bench.rng.getrandbits(1)
            return
        kind, count, descs, sizes = rings[0]
        short = kind == "complete" and sum(sizes) < need
        self.reported = ("short" if short else kind), count, descs, sizes
        dut.s_rsp_none.value = int(kind == "none" and not self.missing)
        dut.s_rsp_failed.value = int(kind == "failed" and not self.missing)
        # The rest of the response is don't-care for an empty or failed ring.
        empty = kind in ("none", "failed")
        dont_care = self.bench.rng.getrandbits(2) if empty else 0
        dut.s_rsp_complete.value = dont_care & 1 if empty else int(kind == "complete")
        dut.s_rsp_short.value = dont_care >> 1 if empty else int(short)
        dut.s_rsp_count.value, dut.s_rsp_descs.value = count, descs


class Bench:
    def __init__(self, dut, gaps=0.0, stalls=0.0, late=0.0, err_stalls=0.0, parks=0.0,
                 look_stalls=0.0):  # fmt: skip
        self.dut = dut = Bundles(
            dut, s_pkt=INTERNAL.rx_pkt, m_claim=INTERNAL.rx_claim, s_rsp=INTERNAL.rx_claim_rsp,
            m_end=INTERNAL.rx_pkt,
        ).bundle("m_job_check", "m_job", INTERNAL.rx_check)  # fmt: skip
        self.rng, self.late = rng_for("rx_validate"), late
        self.qps, self.rings, self.handles = {}, {}, {}
        self.wanted, self.responses, self.wrong_keys, self.wanted_errs = (
            deque(),
            deque(),
            [0, 0],
            [],
        )
        self.ended, self.jobs_seen, self.parks, self.waited = 0, 0, parks, 0
        self.profile = dut.s_cfg_profile.value = RECORDED
        self.regions, self.outcomes = Regions(self.rng), set()
        self.look_stalls, self.look_cycles = look_stalls, 1
        # Read responses by read_id: their header, and their read if there is one.
        self.responded, self.read_id = {}, self.rng.getrandbits(31)
        self.placed, self.seen_responses = {}, Counter()
        self.wanted_requests, self.requested = [], []
        zero(dut, "m_look_ready", "s_found", "s_found_read")
        zero(dut, "s_open", "s_ah_valid", "s_mr_valid", "m_claim_ready", "s_rsp_valid",
             "s_rsp_data", "blocked_rd_data", "qpc_rd_data")  # fmt: skip
        self.packets = StreamDriver(dut, "s_pkt", gaps, FIELDS)
        self.jobs = RawMonitor(dut, "m_job", stalls, ["data", "req", "descs", "pd"],
                               on_beat=self._job)  # fmt: skip
        self.requests = StreamMonitor(dut, "m_request", stalls, ["data"], on_beat=self._request)
        self.errs = StreamMonitor(dut, "m_err", stalls or err_stalls, ["qpn", "cause"])

    async def start(self):
        await clock_and_reset(self.dut)
        await until(self.dut, high(self.dut.m_init_done))
        self.dut.s_open.value = 1
        self.claims = Claims(self)
        cocotb.start_soon(self._keys())

    def qp(self, qpn, state=STATES.RTS, srd=1, pd=3, **fields):
        fields = {"live": 1, "state": state, "srd": srd, "pd": pd, "qp_num": qpn + 0x440,
                  "qkey": QKEY, "rcqn": qpn + 9, "rsub": qpn & 1, **fields}  # fmt: skip
        self.qps[qpn] = dont_care(INTERNAL.qpc, self.rng, **fields)
        self.rings[qpn] = deque()

    async def handle(self, index, pd, node, live=1, fabric=1):
        if fabric:
            self.handles[pd, node] = index if live else None
        images = (INTERNAL.ahc.pack(**dont_care(INTERNAL.ahc, self.rng, **fields)) for fields in (
            {"live": live, "pd": pd, "fabric": fabric, "node": node},
            {"fabric": 1, "pd": pd, "node": self.rng.randrange(8)}))  # fmt: skip
        await pulse(self.dut, "s_ah_valid", s_ah_index=index, s_ah_data=next(images))
        # Only data with valid counts.
        self.dut.s_ah_data.value = next(images)

    def post(self, qpn, kind, *sizes):
        """Sets the head of a ring: a complete WQE, "none", "failed" or "endless"."""
        descs = 0
        for number in range(2):
            size = sizes[number] if number < len(sizes) else self.rng.getrandbits(16)
            desc = IoRxDesc.unpack(self.rng.randbytes(16))
            desc.length = size
            descs |= int.from_bytes(desc.pack(), "little") << 128 * number
        self.rings[qpn].append((kind, len(sizes) if kind == "complete" else 2, descs, sizes))

    def send(self, qpn, length, rdma=None, read=None, **fields):
        """Sends a packet; its expected result follows from the rings at its claim.

        - `rdma`: fields of the RDMA header, of which the header shows `length` bytes behind
        - `read`: fields of the read of a response; without them there is none
        """
        rng = self.rng
        header = PktHdr(**{
            "opcode": PktOpcode.SRD_SEND, "length": length, "has_imm": rng.getrandbits(1),
            "src_qpn": rng.getrandbits(16), "dst_qpn": qpn + 0x440, "qkey": QKEY,
            "psn": rng.getrandbits(32), "msg_id": rng.getrandbits(32), "imm": rng.getrandbits(32),
            "src_node": rng.randrange(8), "dst_node": rng.getrandbits(16),
            "path": rng.getrandbits(8), **fields})  # fmt: skip
        line, slot = rng.getrandbits(9), rng.getrandbits(8)
        second = PktRdma.unpack(rng.randbytes(PktRdma.SIZE))
        for name, value in (rdma or {}).items():
            setattr(second, name, value)
        if header.opcode == PktOpcode.READ_RESPONSE:
            self.read_id = (self.read_id + 1) % (1 << 32)
            second.read_id = self.read_id
            self.responded[self.read_id] = (header, second, read)
        raw = {"header": int.from_bytes(header.pack(), "little"),
               "rdma": int.from_bytes(second.pack(), "little"),
               "line": line, "slot": slot}  # fmt: skip
        self.packets.post(raw)
        self.wanted.append((header, second, raw))

    def found(self, read_id):
        """Returns the fields of the read of a response, None if there is none."""
        return self.responded[read_id][2]

    def look(self, look):
        """Checks the look of a response, which is not repeated."""
        header, rdma, read = self.responded.pop(look.id)
        assert (look.node, look.qp_num, look.offset, look.bytes) == (
            header.src_node, header.dst_qpn, rdma.offset, header.length - PktRdma.SIZE)  # fmt: skip
        if read is not None:
            self.placed[look.id] = read

    def knows(self, header, *opcodes):
        """True for an RDMA packet of a peer with one of the opcodes that the device knows."""
        return header.opcode in opcodes and self.profile == RECORDED

    def writes(self, header):
        """True for an RDMA write of a peer that the device knows."""
        return self.knows(header, PktOpcode.RDMA_WRITE)

    def _refused(self, qp, header, rdma):
        """Returns the status of a refused RDMA write or read request behind the checks of its QP,
        else OK."""
        requests = header.opcode == PktOpcode.READ_REQUEST
        size, right = header.length - PktRdma.SIZE, "remote_write"
        if requests:
            size = 1 << 33 if rdma.count > REQUEST_MOST or size else rdma.count
            right = "remote_read"
        if self.handles.get((qp["pd"], header.src_node)) is None:
            return STATUS.REMOTE_ERROR_UNKNOWN_PEER
        if rdma.offset + size > rdma.total:
            return STATUS.REMOTE_ERROR_BAD_ADDRESS
        region = self.regions.table.get(rdma.rkey & 0xFF, {})
        if not rdma.total or (
            self.regions.allows(rdma.rkey, qp["pd"], rdma.remote_addr, rdma.total)
            and region[right]
        ):
            return STATUS.OK
        return STATUS.REMOTE_ERROR_BAD_ADDRESS

    def _status(self, header, rdma, entry):
        """Returns (status, need) of a packet whose claim returned this WQE; None means skipped."""
        srd = header.opcode != PktOpcode.UD_SEND
        qpn = header.dst_qpn % 64
        qp = self.qps.get(qpn, {"live": 0})
        need = header.length + (0 if srd else GRH)
        if self.knows(header, PktOpcode.READ_RESPONSE):
            # One that is of no read is dropped, and needs no outcome.
            assert entry is None
            return STATUS.OK, need
        write = self.knows(header, PktOpcode.RDMA_WRITE, PktOpcode.READ_REQUEST)
        if header.opcode in RDMA and not write:
            assert entry is None
            return STATUS.REMOTE_ERROR_FEATURE_MISMATCH, need
        if write and header.length < PktRdma.SIZE:
            assert entry is None
            return STATUS.REMOTE_ERROR_BAD_STATUS, need
        there = (qp["live"] and qp["qp_num"] == header.dst_qpn and qp["srd"] == srd
                 and qp["state"] in TAKES)  # fmt: skip
        if there and qp["qkey"] != header.qkey:
            self.wrong_keys[0] += 1
        if write and there and qp["qkey"] == header.qkey:
            status, need = self._refused(qp, header, rdma), 0
            claims = self.writes(header) and header.has_imm and not qp["unsolicited"]
            if status != STATUS.OK or not claims:
                assert entry is None, "a write claims without a reason"
                return status, need
        else:
            assert (entry is None) == (not there or qp["qkey"] != header.qkey)
        if entry is None or entry[0] == "failed":
            return STATUS.REMOTE_ERROR_BAD_DEST_QPN, need
        if entry[0] == "none":
            return STATUS.REMOTE_ERROR_RNR, need
        if entry[0] == "endless":
            self.wanted_errs.append({"qpn": qpn, "cause": QpError.NO_LAST})
            return STATUS.REMOTE_ERROR_BAD_STATUS, need
        if sum(entry[3]) < need:
            return STATUS.REMOTE_ERROR_BAD_LENGTH, need
        return STATUS.OK, need

    def _job(self, beat):
        header, rdma, raw = self.wanted.popleft()
        qpn = header.dst_qpn % 64
        entry = self.responses.popleft()
        self.jobs_seen += 1
        status, need = self._status(header, rdma, entry)
        self.outcomes.add((header.opcode, status))
        write = self.writes(header) and header.length >= PktRdma.SIZE
        srd = header.opcode != PktOpcode.UD_SEND
        job = Raw(INTERNAL.rx_job, beat["data"])
        ack_tx, cpl = Raw(INTERNAL.ack_tx, job.raw("ack_tx")), Raw(INTERNAL.cpl, job.raw("cpl"))
        done = status == STATUS.OK
        request = self.knows(header, PktOpcode.READ_REQUEST)
        response = self.knows(header, PktOpcode.READ_RESPONSE)
        silent = (write and not header.has_imm) or request or response
        complete = entry is not None and status == STATUS.REMOTE_ERROR_BAD_STATUS or (
            done and not silent)  # fmt: skip
        assert ack_tx.status == status
        assert (job.packet, job.ack, job.complete) == (1, int(srd), int(complete))
        assert (job.line, job.slot) == (raw["line"], raw["slot"])
        payload = header.length - (PktRdma.SIZE if write else 0)
        if request and done and rdma.count:
            self._requested(header, rdma)
        if response:
            self._response(job, header, rdma)
        else:
            assert (job.rdma, job.read, job.drop) == (int(write and done), 0, 0)
            sizes = (0, 0) if request else (payload if write else need, payload)
            assert job.write == int(done and sizes[0] > 0)
            assert job.length == sizes[1] or request or not done
        assert (
            ack_tx.dst_node,
            ack_tx.dst_qpn,
            ack_tx.src_qpn,
            ack_tx.psn,
            ack_tx.msg_id,
            ack_tx.path,
        ) == (
            header.src_node,
            header.src_qpn,
            header.dst_qpn,
            header.psn,
            header.msg_id,
            header.path,
        )
        assert cpl.qpn == qpn
        if write and done:
            self._written(job, cpl, header, rdma, entry)
        elif complete:
            kind, count, descs, sizes = entry
            qp = self.qps[qpn]
            first = IoRxDesc.unpack((descs & (1 << 128) - 1).to_bytes(16, "little"))
            assert job.count == count and int(beat["pd"], 2) == qp["pd"]
            assert (cpl.rx, cpl.qp_num, cpl.cqn, cpl.sub, cpl.req_id) == (
                1, header.dst_qpn, qp["rcqn"], qp["rsub"], first.req_id)  # fmt: skip
            assert cpl.op_type == IoSendOpType.SEND
            wanted = STATUS.OK if kind == "complete" else STATUS.LOCAL_ERROR_QP_INTERNAL_ERROR
            assert cpl.status == wanted
            assert (cpl.unsolicited, cpl.length_hi, cpl.req_id_ex) == (0, 0, 0)
        if done and not (write or request or response):
            known = self.handles.get((qp["pd"], header.src_node))
            assert cpl.ah == (NO_AH if known is None else known)
            assert (cpl.has_imm, cpl.imm, cpl.src_qpn, cpl.src_node, cpl.length) == (
                header.has_imm, header.imm, header.src_qpn, header.src_node, need)  # fmt: skip
            assert job.grh == int(not srd) and job.size0 == sizes[0]
            assert job.size1 == (sizes[1] if count == 2 else 0)
            requests = [need > 0 and sizes[0] > 0, need > sizes[0]]
            found = int(beat["req"], 2)
            assert found == requests[0] + 2 * requests[1], (found, need, sizes)
            descs_seen = int(beat["descs"], 2)
            for number in (0, 1):
                if requests[number]:
                    assert (descs_seen ^ descs) >> 128 * number & (1 << 128) - 1 == 0
        else:
            assert int(beat["req"], 2) == 0

    def _written(self, job, cpl, header, rdma, entry):
        """Checks the job of an RDMA write that is executed."""
        qp = self.qps[header.dst_qpn % 64]
        assert (job.grh, job.offset) == (0, rdma.offset)
        assert job.size0 == job.length
        if rdma.total:
            assert job.sge0_loc == INTERNAL.mr_loc.pack(
                **self.regions.loc(rdma.rkey, rdma.remote_addr))  # fmt: skip
        if not header.has_imm:
            return
        unsolicited = entry is None
        assert job.count == (0 if unsolicited else entry[1])
        first = None if unsolicited else entry[2] & (1 << 128) - 1
        req_id = 0 if first is None else IoRxDesc.unpack(first.to_bytes(16, "little")).req_id
        assert (cpl.rx, cpl.qp_num, cpl.cqn, cpl.sub, cpl.req_id, cpl.status, cpl.op_type) == (
            1, header.dst_qpn, qp["rcqn"], qp["rsub"], req_id, STATUS.OK, IoSendOpType.RDMA_WRITE
        )  # fmt: skip
        assert cpl.length | cpl.length_hi << 16 == rdma.total
        assert cpl.ah == self.handles[qp["pd"], header.src_node]
        assert (cpl.unsolicited, cpl.has_imm, cpl.imm, cpl.src_qpn, cpl.req_id_ex) == (
            int(unsolicited), 1, header.imm, header.src_qpn, 0)  # fmt: skip

    def _response(self, job, header, rdma):
        """Checks the job of a read response: its bytes are placed, or it ends its read, or it is
        dropped."""
        read = self.placed.pop(rdma.read_id, None)
        self.seen_responses["no read" if read is None else "read"] += 1
        # One that is too short has no look.
        self.responded.pop(rdma.read_id, None)
        assert job.read == int(read is not None)
        status = None
        if read is not None:
            status = rdma.status
            size = header.length - PktRdma.SIZE
            if not status and not self.regions.allows(
                    read["lkey"], read["pd"], read["addr"], read["total"], write=True):  # fmt: skip
                status = STATUS.LOCAL_ERROR_INVALID_LKEY
            assert job.placed == INTERNAL.read_placed.pack(
                id=read["id"], slot=rdma.offset // REQUEST_MOST % 4, bytes=size, status=status)
            self.seen_responses[f"status {min(status, 15)}"] += 1
        places = status == STATUS.OK
        assert (job.rdma, job.drop) == (int(places), int(read is None))
        assert job.write == int(places and size > 0)
        if places:
            assert (job.grh, job.offset, job.length, job.size0) == (0, rdma.offset, size, size)
            assert job.sge0_loc == INTERNAL.mr_loc.pack(
                **self.regions.loc(read["lkey"], read["addr"]))  # fmt: skip

    def _requested(self, header, rdma):
        """Adds an accepted read request to those that must leave."""
        qpn = header.dst_qpn % 64
        self.wanted_requests.append(INTERNAL.read_job.pack(
            node=header.src_node, qpn=qpn, qp_num=header.dst_qpn, dst_qpn=header.src_qpn,
            pd=self.qps[qpn]["pd"], rkey=rdma.rkey & 0xFFFFFF, addr=rdma.remote_addr,
            total=rdma.total, offset=rdma.offset, count=rdma.count, read_id=rdma.read_id))

    def _request(self, beat):
        self.requested.append(beat["data"])

    def park(self, raw):
        """Models a parked packet: it is offered again behind the other packets."""
        # Packets before it that have not left yet are validated already.
        found = next(n for n, one in enumerate(self.wanted) if one[-1] == raw)
        assert found <= 1
        self.wanted.append(self.wanted[found])
        del self.wanted[found]
        self.packets.post(raw)
        self.waited += 1

    async def _keys(self):
        while True:
            await RisingEdge(self.dut.clk)
            self.wrong_keys[1] += int(self.dut.st_qkey_valid.value == 1)

    async def settle(self):
        await consumed(self.packets)
        await until(self.dut, lambda: not self.wanted, "jobs", 20000)
        await until(self.dut, lambda: len(self.errs.beats) == len(self.wanted_errs), "errors")
        await ClockCycles(self.dut.clk, 8)
        assert list(self.errs.beats) == self.wanted_errs
        assert self.wrong_keys[0] == self.wrong_keys[1]
        await until(self.dut, lambda: len(self.requested) == len(self.wanted_requests), "requests")
        assert self.requested == self.wanted_requests
        assert not self.placed, "a response that was found has no job"
        assert self.ended == self.jobs_seen and not self.responses


def random_entry(bench, qpn):
    rng = bench.rng
    kind = rng.choice(("complete",) * 6 + ("none", "failed", "endless"))
    if kind == "complete":
        sizes = [rng.choice((0, 1, 40, 72, rng.randrange(9000))) for _ in range(rng.choice((1, 2)))]
        bench.post(qpn, kind, *sizes)
    else:
        bench.post(qpn, kind)


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0, 0.0), (0.5, 0.5, 0.3), (0.0, 0.7, 1.0)])
async def statuses_match_the_rule(dut, pace):
    """data.rx_validate.rule: QPs of every state and type, keys, and WQEs of every kind and size
    give the specified status."""
    bench = Bench(dut, *pace)
    await bench.start()
    rng = bench.rng
    for qpn in range(12):
        bench.qp(qpn, STATES(qpn % 7) if qpn < 7 else STATES.RTS, int(rng.random() < 0.6), qpn % 3)
    bench.qps[11]["live"] = 0
    for number in range(40):
        await bench.handle(number, rng.randrange(3), rng.randrange(8))
    for _ in range(300):
        qpn = rng.choice((*range(12), 7, 8, 9, 10, 7, 8, 9, 10))
        while len(bench.rings[qpn]) < 2:
            random_entry(bench, qpn)
        kind, _, _, sizes = bench.rings[qpn][0]
        srd = int(bench.qps[qpn]["srd"]) ^ (rng.random() < 0.05)
        space = max(0, sum(sizes) - 40 * (not srd))
        length = min(8928, rng.choice((0, 1, 1 << rng.randrange(14), space, space + 1,
                                       rng.randrange(9000))))  # fmt: skip
        fields = {"opcode": PktOpcode.SRD_SEND if srd else PktOpcode.UD_SEND}
        if srd and rng.random() < 0.1:
            fields["opcode"] = rng.choice(RDMA)
        if rng.random() < 0.1:
            fields["qkey"] = QKEY ^ 1 << rng.randrange(32)
        if rng.random() < 0.05:
            fields["dst_qpn"] = (qpn + 0x440) ^ 64 << rng.randrange(10)
        if rng.random() < 0.1:
            fields["src_node"] = rng.choice((64, 0xFFFF, 0x103))
        bench.send(qpn, length, **fields)
        # The head of the ring must not move between the claim of a packet and its prediction.
        await bench.settle()
        if kind in ("none", "failed") and bench.rings[qpn] and rng.random() < 0.7:
            bench.rings[qpn].popleft()
    assert bench.wanted_errs and bench.wrong_keys[1] > 3


async def peers_and_regions(bench, domains):
    """Creates handles and regions in each protection domain; the QPs are created before."""
    rng = bench.rng
    for number in range(40):
        await bench.handle(number, rng.choice(domains), rng.randrange(8))
    for index in rng.sample(range(256), 24):
        phys = rng.getrandbits(1)
        # A contiguous region has a length of more than 32 bits, so that all bits of `total` count.
        bench.regions.make(
            index, rng.choice(domains), 1 << rng.randrange(40, 60) if phys else 1 << 17,
            phys=phys, shift=rng.randrange(12, 30), remote_write=int(rng.random() < 0.8),
            remote_read=rng.getrandbits(1), local_write=rng.getrandbits(1))  # fmt: skip
    await bench.regions.report(bench.dut, pages=False)


def random_write(bench, qpn, opcode=PktOpcode.RDMA_WRITE):
    """Sends an RDMA write or read request to a QP: most are right, the others have one wrong
    value."""
    rng = bench.rng
    qp = bench.qps[qpn]
    requests = opcode == PktOpcode.READ_REQUEST
    right = "remote_read" if requests else "remote_write"
    regions = list(bench.regions.table.values())
    own = [one for one in regions if one["pd"] == qp["pd"] and one[right]]
    region = rng.choice(own or regions)
    total = min(region["length"], rng.choice((0, 1, 8928, rng.getrandbits(16) + 1,
                                              rng.getrandbits(32))))  # fmt: skip
    size = min(total, rng.choice((0, 1, 32, 8928, rng.randrange(8929))))
    if requests:
        size = min(total, rng.choice((0, 1, 4096, 65_535, 65_536, rng.randrange(65_537))))
    offset = rng.choice((0, total - size, rng.randrange(total - size + 1)))
    space = region["length"] - total
    addr = region["iova"] + rng.choice((0, space, rng.randrange(space + 1)))
    known = [node for (pd, node), index in bench.handles.items()
             if pd == qp["pd"] and index is not None]  # fmt: skip
    rdma = {"remote_addr": addr, "rkey": region["key"], "total": total, "offset": offset}
    fields = {"src_node": rng.choice(known or [1])}
    length = PktRdma.SIZE + size
    if requests:
        rdma["count"], length = size, PktRdma.SIZE
    fault = rng.randrange(22)
    other = rng.choice(regions)
    if fault == 0:
        rdma["rkey"] ^= 1 << rng.randrange(32)
    elif fault == 1:
        rdma |= {"rkey": other["key"], "remote_addr": other["iova"]}
    elif fault == 2:
        rdma["remote_addr"] = region["iova"] + space + 1
    elif fault == 3:
        rdma["remote_addr"] = region["iova"] - 1
    elif fault == 4:
        rdma["offset"] = (offset + total - size + 1) % (1 << 32)
    elif fault == 5:
        rdma["offset"] = 0xFFFF_FFFF
    elif fault == 6:
        fields["src_node"] = rng.choice((64 + fields["src_node"], rng.randrange(8)))
    elif fault == 7:
        length = rng.randrange(PktRdma.SIZE)
    elif fault == 8:
        fields["qkey"] = QKEY ^ 1 << rng.randrange(32)
    elif fault == 9:
        fields["dst_qpn"] = (qpn + 0x440) ^ 64 << rng.randrange(10)
    elif fault == 10:
        fields["opcode"] = rng.choice(RDMA)
    elif fault == 11:
        fields["opcode"], length = PktOpcode.SRD_SEND, rng.randrange(8929)
    elif fault == 12 and requests:
        # One byte too much for a request, and not for its operation.
        rdma |= {"count": rng.choice((65_537, 1 << 17, 1 << rng.randrange(17, 32))), "offset": 0}
    elif fault == 13 and requests:
        length += rng.choice((1, 64))
    bench.send(qpn, length, rdma, **{"opcode": opcode, **fields})


def random_response(bench, qpn):
    """Sends a read response to a QP, of a read or of none."""
    rng = bench.rng
    regions = list(bench.regions.table.values())
    writable = [one for one in regions if one["local_write"]]
    region = rng.choice(writable if writable and rng.random() < 0.8 else regions)
    total = min(region["length"], rng.choice((1, 8928, rng.getrandbits(16) + 1,
                                              rng.randrange(1, 1 << 30))))  # fmt: skip
    size = min(total, rng.choice((0, 1, 32, 8928, rng.randrange(8929))))
    addr = region["iova"] + rng.randrange(region["length"] - total + 1)
    read = dont_care(INTERNAL.read_ctx, rng, pd=region["pd"], lkey=region["key"], addr=addr,
                     total=total)  # fmt: skip
    fault = rng.randrange(12)
    if fault == 0:
        read["lkey"] ^= 1 << rng.randrange(24)
    elif fault == 1:
        read["pd"] ^= 1 << rng.randrange(10)
    elif fault == 2:
        read["addr"] = region["iova"] + region["length"] - total + 1
    elif fault == 3:
        read["addr"] = max(0, region["iova"] - 1)
    status = rng.choice((0,) * 6 + (STATUS.REMOTE_ERROR_BAD_ADDRESS, 1 << rng.randrange(8)))
    rdma = {"offset": rng.choice((0, total - size, rng.getrandbits(32))), "status": status}
    length = rng.randrange(PktRdma.SIZE) if fault == 4 else PktRdma.SIZE + size
    bench.send(qpn, length, rdma, read if rng.random() < 0.8 else None, qkey=0,
               opcode=PktOpcode.READ_RESPONSE, src_node=rng.choice((rng.randrange(8), 0x103)))


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0, 0.0, 0.0), (0.3, 0.4, 0.3, 0.2)])
async def writes_match_the_rule(dut, pace):
    """data.rx_validate.write: RDMA writes with every wrong value give the status of decision 0010;
    only a permitted one with an immediate claims, unless its QP has unsolicited receives."""
    *pace, parks = pace
    bench = Bench(dut, *pace, parks=parks)
    await bench.start()
    rng = bench.rng
    for qpn in range(12):
        state = STATES(qpn % 7) if qpn < 7 else STATES.RTS
        bench.qp(qpn, state, int(qpn != 8), qpn % 3, unsolicited=qpn >> 2 & 1)
    await peers_and_regions(bench, range(3))
    for turn in range(700):
        qpn = rng.choice((*range(12), 7, 9, 10, 11, 7, 9, 10, 11))
        while len(bench.rings[qpn]) < 2:
            random_entry(bench, qpn)
        kind = bench.rings[qpn][0][0]
        random_write(bench, qpn, PktOpcode.RDMA_WRITE if turn <= 600 else rng.choice(RDMA))
        # The head of the ring must not move between the claim of a packet and its prediction.
        await bench.settle()
        if kind in ("none", "failed") and bench.rings[qpn] and rng.random() < 0.7:
            bench.rings[qpn].popleft()
        if turn == 600:
            bench.profile = dut.s_cfg_profile.value = BASIC
    mismatch = STATUS.REMOTE_ERROR_FEATURE_MISMATCH
    assert {(code, mismatch) for code in RDMA} <= bench.outcomes
    found = {status for code, status in bench.outcomes if code == PktOpcode.RDMA_WRITE}
    assert found == {
        STATUS.OK, STATUS.REMOTE_ERROR_BAD_DEST_QPN, STATUS.REMOTE_ERROR_UNKNOWN_PEER,
        STATUS.REMOTE_ERROR_BAD_ADDRESS, STATUS.REMOTE_ERROR_RNR, mismatch,
        STATUS.REMOTE_ERROR_BAD_STATUS}  # fmt: skip


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0, 0.0, 0.0), (0.5, 0.5, 0.3, 0.0), (0.1, 0.3, 0.3, 0.2)])
async def requests_match_the_rule(dut, pace):
    """data.rx_validate.request: Read requests with every wrong value give the status of decision
    0010; an accepted one that is not empty leaves once, and none claims."""
    *pace, parks = pace
    bench = Bench(dut, *pace, parks=parks)
    await bench.start()
    rng = bench.rng
    for qpn in range(12):
        state = STATES(qpn % 7) if qpn < 7 else STATES.RTS
        bench.qp(qpn, state, int(qpn != 8), qpn % 3, unsolicited=qpn >> 2 & 1)
        # Some packets have another opcode, and may claim.
        for _ in range(60):
            bench.post(qpn, "complete", 9000)
    await peers_and_regions(bench, range(3))
    for turn in range(600):
        random_write(bench, rng.choice((*range(12), 7, 9, 10, 11, 7, 9, 10, 11)),
                     PktOpcode.READ_REQUEST)  # fmt: skip
        if rng.random() < 0.3:
            await bench.settle()
        if turn == 500:
            await bench.settle()
            bench.profile = dut.s_cfg_profile.value = BASIC
    await bench.settle()
    found = {status for code, status in bench.outcomes if code == PktOpcode.READ_REQUEST}
    assert found == {
        STATUS.OK, STATUS.REMOTE_ERROR_BAD_DEST_QPN, STATUS.REMOTE_ERROR_UNKNOWN_PEER,
        STATUS.REMOTE_ERROR_BAD_ADDRESS, STATUS.REMOTE_ERROR_FEATURE_MISMATCH,
        STATUS.REMOTE_ERROR_BAD_STATUS}  # fmt: skip
    assert len(bench.requested) > 50


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0, 0.0, 0.0, 0.0), (0.5, 0.5, 0.3, 0.0, 0.5),
                          (0.1, 0.3, 0.3, 0.2, 0.8)])  # fmt: skip
async def responses_match_the_rule(dut, pace):
    """data.rx_validate.response: A read response is looked up once. Bytes of a read go to its local
    region if that permits it, another status ends the read, and one of no read is dropped. None
    claims, whatever the state of its QP."""
    *pace, parks, look_stalls = pace
    bench = Bench(dut, *pace, parks=parks, look_stalls=look_stalls)
    await bench.start()
    rng = bench.rng
    for qpn in range(12):
        bench.qp(qpn, STATES(qpn % 7), int(qpn != 8), qpn % 3)
    await peers_and_regions(bench, range(3))
    for turn in range(400):
        random_response(bench, rng.randrange(14))
        if rng.random() < 0.1:
            await bench.settle()
        if turn == 350:
            await bench.settle()
            bench.profile = dut.s_cfg_profile.value = BASIC
    await bench.settle()
    seen = bench.seen_responses
    assert min(seen[f"status {status}"] for status in (0, 5, 7)) > 5, seen
    assert seen["no read"] > 20 and seen["read"] > 20


@cocotb.test()
async def writes_and_sends_follow_each_other(dut):
    """data.rx_validate.mixed: Back-to-back writes, read requests, responses and sends of several
    queues keep their order and their fields, some of them parked."""
    bench = Bench(dut, 0.1, 0.3, 0.2, parks=0.1, look_stalls=0.3)
    await bench.start()
    rng = bench.rng
    for qpn in range(4):
        bench.qp(qpn, pd=qpn % 2, unsolicited=qpn >> 1)
        for _ in range(200):
            bench.post(qpn, "complete", 9000)
    await peers_and_regions(bench, range(2))
    for _ in range(300):
        qpn = rng.randrange(4)
        kind = rng.random()
        if kind < 0.3:
            bench.send(qpn, rng.randrange(2000), src_node=rng.randrange(8))
        elif kind < 0.5:
            random_response(bench, qpn)
        else:
            random_write(bench, qpn, rng.choice((PktOpcode.RDMA_WRITE, PktOpcode.READ_REQUEST)))
    await bench.settle()
    assert bench.ended == 300


@cocotb.test()
async def every_queue_and_peer_is_itself(dut):
    """data.rx_validate.each: Every queue, domain and node is distinguished, with the fields of its
    packets."""
    bench = Bench(dut, 0.0, 0.2, 0.1)
    await bench.start()
    rng = bench.rng
    domains = rng.sample(range(64), 12)
    for qpn in range(64):
        bench.qp(qpn, srd=rng.getrandbits(1), pd=rng.choice(domains), rcqn=rng.getrandbits(12),
                 rsub=rng.getrandbits(1), qkey=rng.getrandbits(32),
                 qp_num=qpn + 64 * rng.getrandbits(10))  # fmt: skip
    for _ in range(2):
        for pd in domains:
            for node in rng.sample(range(64), 60):
                await bench.handle(rng.getrandbits(8), pd, node, live=int(rng.random() < 0.8))
        for _ in range(400):
            qpn = rng.randrange(64)
            qp = bench.qps[qpn]
            random_entry(bench, qpn)
            known = [node for pd, node in bench.handles if pd == qp["pd"]]
            bench.send(qpn, rng.choice((0, 1, 32, 60)), src_node=rng.choice((*known, 70)),
                       dst_qpn=qp["qp_num"], qkey=qp["qkey"],
                       opcode=PktOpcode.SRD_SEND if qp["srd"] else PktOpcode.UD_SEND)  # fmt: skip
        await bench.settle()


@cocotb.test()
async def packets_follow_each_other(dut):
    """data.rx_validate.stream: Back-to-back packets of one queue consume its WQEs in order, with
    packets of another queue between them."""
    bench = Bench(dut, 0.0, 0.3, 0.2)
    await bench.start()
    for qpn in (1, 2):
        bench.qp(qpn)
        for _ in range(60):
            bench.post(qpn, "complete", 100)
    for number in range(80):
        bench.send(1 + (number % 3 == 0), 101 if number % 5 == 0 else 100)
    await bench.settle()
    assert bench.ended == 80


@cocotb.test()
async def packets_that_cannot_be_checked_step_aside(dut):
    """data.rx_validate.park: Packets that are blocked or lack descriptors are parked and have no
    other effect."""
    bench = Bench(dut, 0.1, 0.4, 0.2, parks=0.3)
    await bench.start()
    for qpn in (1, 2, 3):
        bench.qp(qpn)
        for _ in range(200):
            bench.post(qpn, "complete", 100)
    for number in range(200):
        bench.send(1 + number % 4, 101 if number % 5 == 0 else 100)
        if number % 40 == 0:
            await bench.settle()
    await bench.settle()
    assert bench.ended == 200 and bench.waited > 60


@cocotb.test()
async def handles_come_and_go(dut):
    """data.rx_validate.handles: The completion carries the address handle of the sender in the
    domain of the QP, or none."""
    bench = Bench(dut)
    await bench.start()
    bench.qp(1, pd=5)
    bench.qp(2, pd=6)

    async def both(node):
        for qpn in (1, 2):
            bench.post(qpn, "complete", 64)
            bench.send(qpn, 8, src_node=node)
        await bench.settle()

    await both(3)
    await bench.handle(77, 5, 3)
    await both(3)
    await bench.handle(78, 6, 3)
    await bench.handle(79, 5, 9, fabric=0)
    for node in (3, 9, 3 + 64, 0x300):
        await both(node)
    await bench.handle(77, 5, 3, live=0)
    await both(3)
    for bit in range(6, 16):
        await bench.handle(90 + bit, 5, 20 | 1 << bit)
        await both(20)
    await bench.handle(255, 5, 63)
    await both(63)
    dut.s_open.value = 0
    await consumed(bench.packets)
    await reset(dut)
    await until(dut, high(dut.m_init_done))
    bench.handles.clear()
    dut.s_open.value = 1
    await both(3)


@cocotb.test()
async def a_report_keeps_its_queue(dut):
    """data.rx_validate.report: A report that waits names its queue, while the packet of another
    queue follows."""
    bench = Bench(dut, err_stalls=0.8)
    await bench.start()
    for qpn in (1, 2):
        bench.qp(qpn)
    for _ in range(30):
        bench.post(1, "endless")
        bench.post(2, "complete", 64)
        bench.send(1, 8)
        bench.send(2, 8)
        await bench.settle()


@cocotb.test()
async def each_power_of_two_is_written(dut):
    """data.rx_validate.powers: A packet of any power of two in bytes is written."""
    bench = Bench(dut)
    await bench.start()
    bench.qp(1)
    for bit in range(14):
        bench.post(1, "complete", 8929)
        bench.send(1, 1 << bit)
    await bench.settle()


@cocotb.test()
async def reset_in_the_middle_of_traffic(dut):
    """data.rx_validate.reset: A reset discards a packet in any stage, also one that waits for its
    response."""
    bench = Bench(dut, late=1.0)
    await bench.start()
    bench.qp(1)
    for turn in range(8):
        for _ in range(6):
            bench.post(1, "complete", 64)
            bench.send(1, 8)
        await ClockCycles(dut.clk, 6 + 5 * turn)
        bench.packets.clear()
        dut.s_open.value = 0
        await reset(dut, 1 + turn % 2)
        for noted in (bench.wanted, bench.responses, bench.rings[1]):
            noted.clear()
        bench.ended = bench.jobs_seen
        await until(dut, high(dut.m_init_done))
        dut.s_open.value = 1
        bench.post(1, "complete", 64)
        bench.send(1, 8)
        await bench.settle()


@cocotb.test()
async def closed_until_all_is_ready(dut):
    """data.rx_validate.closed: No packet is accepted before `s_open`."""
    bench = Bench(dut)
    await bench.start()
    dut.s_open.value = 0
    bench.qp(1)
    bench.post(1, "complete", 64)
    bench.send(1, 8)
    await ClockCycles(dut.clk, 20)
    assert bench.packets.sent == 0
    dut.s_open.value = 1
    await bench.settle()


@cocotb.test()
async def a_wqe_without_end_stops_the_next(dut):
    """data.rx_validate.endless: The report of a WQE without a last descriptor takes effect before
    the next packet is validated."""
    held = {"on": True}
    bench = Bench(dut, err_stalls=lambda: held["on"])
    await bench.start()
    bench.qp(1)
    bench.post(1, "endless")
    bench.post(1, "complete", 64)
    bench.send(1, 8)
    bench.send(1, 8)
    await ClockCycles(dut.clk, 60)
    assert len(bench.wanted) == 1
    # The owner of contexts checks the report in one cycle; the change is visible in the next.
    held["on"] = False
    await bench.errs.take(1)
    bench.wanted_errs.clear()
    await RisingEdge(dut.clk)
    await Timer(1, "ns")
    bench.qps[1]["state"] = STATES.ERR
    await bench.settle()
    assert bench.rings[1], "the next packet consumed a WQE of a queue in ERR"


@cocotb.test()
async def cycles(dut):
    """data.rx_validate.time: Packets meet their specified cycles."""
    bench = Bench(dut)
    await bench.start()
    moments = Moments(dut, "s_pkt", "m_job", "m_request")
    bench.qp(1)
    bench.qp(2)
    for absent in (0, 4):
        for number in range(12):
            qpn = 1 + number % 2
            bench.post(qpn, "complete", 64)
            bench.send(qpn + absent, 8)
        await bench.settle()
        moments.hold("efa_rx_validate", "packet", "s_pkt", "m_job")
        moments.clear()
    await peers_and_regions(bench, [3])
    moments.clear()
    region = next(one for one in bench.regions.table.values() if one["remote_write"])
    node = next(node for (pd, node), index in bench.handles.items() if index is not None)
    rdma = {"rkey": region["key"], "remote_addr": region["iova"], "total": 64, "offset": 0}
    for _ in range(12):
        bench.send(1, PktRdma.SIZE + 64, rdma, opcode=PktOpcode.RDMA_WRITE, has_imm=0,
                   src_node=node)  # fmt: skip
    await bench.settle()
    moments.hold("efa_rx_validate", "write", "s_pkt", "m_job")
    moments.clear()
    region = next(one for one in bench.regions.table.values() if one["remote_read"])
    rdma |= {"rkey": region["key"], "remote_addr": region["iova"], "count": 64}
    for _ in range(12):
        bench.send(1, PktRdma.SIZE, rdma, opcode=PktOpcode.READ_REQUEST, src_node=node)
    await bench.settle()
    moments.hold("efa_rx_validate", "write", "s_pkt", "m_job")
    moments.hold("efa_rx_validate", "request", "s_pkt", "m_request")
    moments.clear()
    region = next(one for one in bench.regions.table.values() if one["local_write"])
    read = dont_care(INTERNAL.read_ctx, bench.rng, pd=region["pd"], lkey=region["key"],
                     addr=region["iova"], total=64)  # fmt: skip
    # As efa_read_table does.
    bench.look_cycles = 2
    for _ in range(12):
        bench.send(1, PktRdma.SIZE + 64, {"offset": 0, "status": 0}, read,
                   opcode=PktOpcode.READ_RESPONSE, src_node=node)  # fmt: skip
    await bench.settle()
    moments.hold("efa_rx_validate", "response", "s_pkt", "m_job")


@cocotb.test()
async def reset_in_the_middle_of_a_packet(dut):
    """data.rx_validate.reset: A reset at every stage of a packet discards it; the next packet is
    validated correctly."""
    bench = Bench(dut)
    await bench.start()
    bench.qp(1)
    for wait in (0, 1, 2, 3, 5, 6, 8):
        bench.rings[1].clear()
        bench.post(1, "endless" if wait % 2 else "complete", 64)
        bench.send(1, 8)
        await until(dut, lambda sent=bench.packets.sent: bench.packets.sent > sent, "packet")
        await ClockCycles(dut.clk, wait)
        dut.s_open.value = 0
        await reset(dut)
        for noted in (bench.wanted, bench.responses, bench.wanted_errs, bench.errs.beats):
            noted.clear()
        bench.ended = bench.jobs_seen = 0
        await until(dut, high(dut.m_init_done))
        assert dut.m_job_valid.value == 0 and dut.m_claim_valid.value == 0
        dut.s_open.value = 1
        bench.rings[1].clear()
        bench.post(1, "complete", 20, 30)
        bench.send(1, 40)
        await bench.settle()
