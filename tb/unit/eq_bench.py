# SPDX-License-Identifier: Apache-2.0
"""Models the neighbours of efa_eq: contexts, commits, doorbells, EQE writes, interrupt requests."""

from cocotb.triggers import ClockCycles

from efa_cosim.layouts.defs import DOORBELL_BITS, INTERNAL, LIMITS, REG_BITS, AdminEqe
from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset
from tb.lib.waits import high, pulse, until

BASES = [0x7000_0000 + 0x10000 * number for number in range(1 << LIMITS.eqn_w)]


class Bench:
    """Drives contexts, commits and doorbells into efa_eq and monitors EQE writes and interrupts."""
    def __init__(self, dut, stalls=0.0):
        self.dut = dut
        # An arm of an EQ scans 32 CQs in 2 cycles.
        self.scan_cycles = 2 * (1 << len(dut.s_cqdb_cqn)) // 32
        for name in ("s_cqc_valid", "s_eqc_valid", "s_cqdb_valid", "s_eqdb_valid",
                     "s_drain_valid", "s_drained"):  # fmt: skip
            getattr(dut, name).value = 0
        self.totals = {}
        self.order = []
        self.commits = StreamDriver(dut, "s_commit")
        self.wr = StreamMonitor(dut, "m_wr", stalls, on_beat=lambda b: self.order.append("eqe"))
        self.irq = StreamMonitor(dut, "m_irq", stalls, on_beat=lambda b: self.order.append("irq"))

    async def start(self, eqs=(0,), log=2):
        await clock_and_reset(self.dut)
        await self.swept()
        await self.configure(eqs, log)

    async def swept(self):
        """Waits for the init sweep, 1 cycle for each CQ."""
        cqs = 1 << len(self.dut.s_cqdb_cqn)
        await until(self.dut, high(self.dut.m_init_done), "the init sweep", cycles=cqs + 10)

    async def configure(self, eqs=(0,), log=2):
        for eqn in eqs:
            ctx = INTERNAL.eqc.pack(live=1, base=BASES[eqn] >> 6, log=log, vector=eqn + 1)
            await pulse(self.dut, "s_eqc_valid", s_eqc_eqn=eqn, s_eqc_data=ctx)

    async def end(self, eqn):
        """Destroys the event queue."""
        await pulse(self.dut, "s_eqc_valid", s_eqc_eqn=eqn, s_eqc_data=INTERNAL.eqc.pack(live=0))

    async def cq(self, cqn, eqn=0, intr=1):
        ctx = INTERNAL.cqc.pack(live=1, intr=intr, eqn=eqn, log=4)
        self.totals[cqn] = 0
        await pulse(self.dut, "s_cqc_valid", s_cqc_cqn=cqn, s_cqc_data=ctx)
        await ClockCycles(self.dut.clk, 2)

    def commit(self, cqn):
        self.totals[cqn] += 1
        self.commits.post({"cqn": cqn, "total": self.totals[cqn]})

    async def arm_cq(self, cqn, consumed, arm=1):
        value = DOORBELL_BITS.CQ_DB.pack(CONSUMER_INDEX=consumed, ARM=arm)
        await pulse(self.dut, "s_cqdb_valid", s_cqdb_cqn=cqn, s_cqdb_value=value)

    async def arm_eq(self, eqn):
        await pulse(self.dut, "s_eqdb_valid", s_eqdb_value=REG_BITS.EQ_DB.pack(EQN=eqn, ARM=1))
        await ClockCycles(self.dut.clk, 32 + self.scan_cycles)

    async def settle(self):
        await ClockCycles(self.dut.clk, 52 + self.scan_cycles)

    async def completion(self, cqn):
        """Arms the CQ with consumer index 0, then commits a completion."""
        await self.arm_cq(cqn, 0)
        self.commit(cqn)
        await self.settle()

    def events(self):
        """Returns the CQ numbers of the EQEs written since the last call."""
        seen = []
        while self.wr.beats:
            data = self.wr.beats.popleft()["data"].to_bytes(16, "little")
            seen.append(AdminEqe.unpack(data).u.comp_event.cqn)
        return seen

    def interrupts(self):
        seen = [beat["vector"] for beat in self.irq.beats]
        self.irq.beats.clear()
        return seen
