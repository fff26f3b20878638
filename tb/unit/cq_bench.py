# SPDX-License-Identifier: Apache-2.0
"""Models the counters' side of efa_cq for its benches."""

from cocotb.triggers import RisingEdge


async def serve_counted(dut, counted):
    """Answers each lookup one cycle later with `counted(qpn)`; the answer stays until the next
    lookup."""
    while True:
        await RisingEdge(dut.clk)
        if dut.counted_rd_en.value == 1:
            dut.counted_rd_data.value = int(counted(int(dut.counted_rd_addr.value)))
