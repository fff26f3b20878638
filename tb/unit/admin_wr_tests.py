"""efa_admin_wr: two sources of 64-byte writes, each in its order, none starved."""

import cocotb
from cocotb.triggers import ReadOnly, RisingEdge

from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0), (0.7, 0.2), (0.2, 0.8)])
async def both_get_through_in_order(dut, pace):
    """admin.admin_wr.order: an offered write stays what it is."""
    gaps, stalls = pace
    rng = rng_for("admin_wr")
    sources = {n: StreamDriver(dut, f"s_{n}", max(gaps, 0.4)) for n in ("acq", "aenq")}
    out = StreamMonitor(dut, "m_wr", stalls)
    await clock_and_reset(dut)
    due = {name: [] for name in sources}
    for number, (name, source) in enumerate(sources.items()):
        for _ in range(150):
            beat = {"addr": 64 * (2 * rng.getrandbits(50) + number), "data": rng.getrandbits(512)}
            due[name].append(beat)
            source.post(beat)
    got = await out.take(300)
    assert [beat for beat in got if not beat["addr"] & 64] == due["acq"]
    assert [beat for beat in got if beat["addr"] & 64] == due["aenq"]


@cocotb.test()
async def same_cycle_and_reset(dut):
    """admin.admin_wr.time: what was offered and is taken back by a reset leaves no trace."""
    assert timing("efa_admin_wr", "write").latency == 0
    drive(dut, s_acq_valid=0, s_acq_addr=0, s_acq_data=0, s_aenq_valid=0, s_aenq_addr=64,
          s_aenq_data=0, m_wr_ready=0)  # fmt: skip
    await clock_and_reset(dut)
    dut.s_aenq_valid.value = 1
    await ReadOnly()
    assert dut.m_wr_valid.value == 1 and int(dut.m_wr_addr.value) == 64
    await RisingEdge(dut.clk)
    dut.s_aenq_valid.value = 0
    await reset(dut)
    drive(dut, s_acq_valid=1, s_aenq_valid=1)
    await ReadOnly()
    assert dut.m_wr_valid.value == 1 and int(dut.m_wr_addr.value) == 0
