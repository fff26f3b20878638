# SPDX-License-Identifier: Apache-2.0
"""Tests efa_rx_mr_check: each job leaves once and in order, with buffer addresses or a refusal."""

from collections import deque

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import EVENTS, INTERNAL, LIMITS, IoCompStatus, IoRxDesc
from tb.lib.bundles import Bundles
from tb.lib.dont_care import dont_care
from tb.lib.stream import StreamDriver, clock_and_reset, pauses, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import high, until, zero
from tb.unit.data_bench import Moments, Raw, Regions, consumed

STATUS = IoCompStatus


class Bench:
    def __init__(self, dut, stalls=0.0, gaps=0.0):
        self.dut, self.rng = dut, rng_for("rx_mr_check")
        self.regions, self.wanted = Regions(self.rng), deque()
        zero(dut, "s_mr_valid", "m_write_ready", "m_retire_ready")
        pins = Bundles(dut).bundle("s_job_check", "s_job", INTERNAL.rx_check)
        self.jobs = StreamDriver(pins, "s_job", gaps, ["data", "req", "descs", "pd"])
        self.pause = {name: pauses(stalls, name) for name in ("m_write", "m_retire")}
        self.consumed = 0

    async def start(self):
        await clock_and_reset(self.dut)
        await until(self.dut, high(self.dut.m_init_done))
        rng = self.rng
        domain = rng.getrandbits(10)
        self.domains = domain, domain ^ 0x3FF
        # Each domain has two writable regions and a read-only one; a contiguous region has the
        # maximum length, so that every length bit counts.
        self.mine = [[self.regions.make(index, pd, (1 << 62) - 1 if number == 1 else 1 << 14,
                                        local_write=int(number < 2), phys=number & 1,
                                        shift=rng.randrange(12, 34))
                      for number, index in enumerate(rng.sample(range(turn, 256, 2), 3))]
                     for turn, pd in enumerate(self.domains)]  # fmt: skip
        await self.regions.report(self.dut, pages=False)
        self.dut.s_mr_index.value = self.mine[1][0]["key"] % (1 << LIMITS.mr_w)
        cocotb.start_soon(self._watch())

    def descriptor(self, turn, good):
        """Returns (image, allowed, location) of a receive descriptor."""
        rng = self.rng
        size = rng.choice((0, 1, 64, rng.randrange(9000)))
        region, pd = self.mine[turn][rng.randrange(2)], self.domains[turn]
        key = region["key"]
        last = region["length"] - size
        addr = region["iova"] + rng.choice((0, last, rng.randrange(last + 1)))
        if not good:
            fault = rng.randrange(4)
            if fault == 0:
                key ^= 1 << rng.randrange(24)
            elif fault == 1:
                region = self.mine[1 - turn][0]
                key, addr = region["key"], region["iova"]
            elif fault == 2:
                region = self.mine[turn][2]
                key, addr = region["key"], region["iova"]
            else:
                addr = region["iova"] + last + 1
        desc = IoRxDesc(req_id=rng.getrandbits(16), length=size, buf_addr_lo=addr & 0xFFFFFFFF,
                        buf_addr_hi=addr >> 32)  # fmt: skip
        image = int.from_bytes(desc.pack(), "little") | (key | rng.getrandbits(1) << 31) << 96
        allowed = self.regions.allows(key, pd, addr, size, write=True)
        known = allowed and size
        loc = INTERNAL.mr_loc.pack(**self.regions.loc(key, addr)) if known else None
        return image, allowed, loc

    def job(self, request, good=(1, 1), **fields):
        """Posts a job with the requested descriptors and records the expected output."""
        rng = self.rng
        turn = rng.randrange(2)
        both = [self.descriptor(turn, one) for one in good]
        fields.setdefault("packet", int(request != 0 or rng.random() < 0.7))
        status = 0 if request else rng.choice((0, 1 << rng.randrange(8)))
        cpl, ack_tx = dont_care(INTERNAL.cpl, rng), dont_care(INTERNAL.ack_tx, rng, status=status)
        fields = {"write": int(request != 0 or rng.random() < 0.3), "complete": int(status == 0),
                  "rdma": int(request == 0 and rng.random() < 0.5), **fields}  # fmt: skip
        fields = dont_care(INTERNAL.rx_job, rng, **fields)
        image = INTERNAL.rx_job.pack(
            **fields | {"cpl": INTERNAL.cpl.pack(**cpl), "ack_tx": INTERNAL.ack_tx.pack(**ack_tx)}
        )
        # An RDMA write brings its location.
        if not fields["rdma"]:
            del fields["sge0_loc"]
        del fields["sge1_loc"]
        self.jobs.post({"data": image, "req": request, "descs": both[0][0] | both[1][0] << 128,
                        "pd": self.domains[turn]})  # fmt: skip
        refused = any(request >> n & 1 and not both[n][1] for n in (0, 1))
        if refused:
            cpl["status"] = STATUS.LOCAL_ERROR_INVALID_LKEY
            ack_tx["status"] = STATUS.REMOTE_ERROR_BAD_STATUS
            fields["write"] = 0
        locs = [None if refused or not request >> n & 1 else both[n][2] for n in (0, 1)]
        self.wanted.append(
            (
                {
                    **fields,
                    "cpl": INTERNAL.cpl.pack(**cpl),
                    "ack_tx": INTERNAL.ack_tx.pack(**ack_tx),
                },
                locs,
                cpl,
                ack_tx,
            )
        )
        return refused

    async def _watch(self):
        dut, left = self.dut, {"m_write": False, "m_retire": False}
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value == 1:
                left = dict.fromkeys(left, False)
                continue
            now = {name for name in left if getattr(dut, name + "_valid").value
                   == getattr(dut, name + "_ready").value == 1}  # fmt: skip
            for name in now:
                assert not left[name], f"{name}: a job leaves twice"
                left[name] = True
                self._equal(dut.m_job_data)
            writes = self.wanted and self.wanted[0][0]["write"]
            assert writes or not left["m_write"], "a job without a write is written"
            if ("m_write" if writes else "m_retire") in now:
                self._validated()
            else:
                assert dut.m_drop.value == dut.ev_rx_validated_valid.value == 0
            if left["m_retire"] and (left["m_write"] or not writes):
                self.wanted.popleft()
                self.consumed += 1
                left = dict.fromkeys(left, False)
            for name, pause in self.pause.items():
                getattr(dut, name + "_ready").value = int(not pause())

    def _equal(self, image):
        """Compares an output job with the oldest expected job."""
        fields, locs, _, _ = self.wanted[0]
        job = Raw(INTERNAL.rx_job, str(image.value))
        for name, value in fields.items():
            assert getattr(job, name) == value, name
        for name, loc in zip(("sge0_loc", "sge1_loc"), locs, strict=True):
            assert loc is None or getattr(job, name) == loc, name

    def _validated(self):
        """Checks drop and event of a job in the cycle in which its write begins, or it retires."""
        dut = self.dut
        fields, _, cpl, ack_tx = self.wanted[0]
        assert (dut.ev_rx_validated_valid.value == 1) == bool(fields["packet"])
        assert (dut.m_drop.value == 1) == bool(
                    fields["packet"] and (fields["drop"] or ack_tx["status"]))  # fmt: skip
        if fields["packet"]:
            event = EVENTS.rx_validated.unpack(int(dut.ev_rx_validated_data.value))
            assert (event.qpn, event.status, event.req_id, event.length, event.drop) == (
                cpl["qpn"], ack_tx["status"], cpl["req_id"], fields["length"],
                1 - fields["complete"])  # fmt: skip

    async def settle(self):
        await consumed(self.jobs)
        await until(self.dut, lambda: not self.wanted, "jobs")
        before = self.consumed
        await ClockCycles(self.dut.clk, 12)
        assert self.consumed == before


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0), (0.6, 0.0), (0.0, 0.5), (0.3, 0.3)])
async def jobs_leave_checked(dut, pace):
    """data.rx_mr_check.rule: Jobs with zero, one or two buffers are checked for key, domain, range
    and local write."""
    bench = Bench(dut, *pace)
    await bench.start()
    refused = 0
    for _ in range(300):
        good = [bench.rng.random() < 0.8 for _ in range(2)]
        refused += bench.job(bench.rng.randrange(4), good)
    await bench.settle()
    assert refused > 10


@cocotb.test()
async def one_side_waits(dut):
    """data.rx_mr_check.sides: The outputs leave independently; the next job waits for both of a job
    with a write, and for the retire output of any other."""
    bench = Bench(dut)
    await bench.start()
    bench.pause["m_write"] = lambda: True
    await ClockCycles(dut.clk, 2)
    bench.job(0, write=0)
    bench.job(3)
    bench.job(0, write=0)
    await ClockCycles(dut.clk, 20)
    assert bench.consumed == 1
    assert dut.m_retire_valid.value == 0 and dut.m_write_valid.value == 1
    bench.pause = {"m_write": lambda: False, "m_retire": lambda: True}
    await ClockCycles(dut.clk, 20)
    assert bench.consumed == 2
    assert dut.m_retire_valid.value == 1 and dut.m_write_valid.value == 0
    bench.pause["m_retire"] = lambda: False
    await bench.settle()
    assert bench.consumed == 3


@cocotb.test()
async def nobody_takes_jobs(dut):
    """data.rx_mr_check.full: The module stalls at its specified depth and loses no check result."""
    bench = Bench(dut, 1.0)
    await bench.start()
    for _ in range(10):
        bench.job(3)
    await ClockCycles(dut.clk, 60)
    assert bench.jobs.sent == timing("efa_rx_mr_check", "job").depth
    bench.pause = {name: (lambda: False) for name in bench.pause}
    await bench.settle()


@cocotb.test()
async def cycles(dut):
    """data.rx_mr_check.time: Jobs meet their specified cycles."""
    bench = Bench(dut)
    await bench.start()
    await ClockCycles(dut.clk, 2)
    moments = Moments(dut, "s_job", "m_retire")
    for request, path in ((1, "job"), (2, "job"), (3, "two_buffers"), (0, "no_buffer")):
        for _ in range(17):
            bench.job(request)
        await bench.settle()
        moments.hold("efa_rx_mr_check", path, "s_job", "m_retire")
        moments.clear()


@cocotb.test()
async def reset_in_the_middle_of_traffic(dut):
    """data.rx_mr_check.reset: A reset leaves no half-checked job, and no old check result meets a
    new job."""
    bench = Bench(dut, 0.5)
    await bench.start()
    for turn in range(8):
        for _ in range(12):
            bench.job(3)
        await ClockCycles(dut.clk, 6 + turn)
        bench.jobs.clear()
        await reset(dut)
        bench.wanted.clear()
        await until(dut, high(dut.m_init_done))
        if turn % 2:
            for live in (0, 1):
                for region in bench.regions.table.values():
                    region["live"] = live
                if not live:
                    bench.job(1)
                    bench.job(2)
            await bench.settle()
        await bench.regions.report(dut, pages=False)
        bench.job(1)
        bench.job(3, (0, 1))
        bench.job(2)
        await bench.settle()
