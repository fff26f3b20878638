# SPDX-License-Identifier: Apache-2.0
"""Tests efa_ack_mask: slots of an acknowledgement, and the check of its PSNs."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import INTERNAL
from efa_cosim.transport.packets import PSN_MASK
from tb.lib.dont_care import dont_care
from tb.lib.stream import rng_for, start_clock
from tb.lib.timing import timing
from tb.lib.waits import drive

STARTS = (0, 5, (1 << 32) - 3, (1 << 32) - 256, (1 << 31) - 2, 1 << 31)


class Bench:
    def __init__(self, dut, name):
        self.dut, self.rng, self.window = dut, rng_for(name), len(dut.m_shown)
        self.latency = timing("efa_ack_mask", "ack").latency

    async def start(self):
        start_clock(self.dut.clk)
        # The clock may rise before the first inputs take effect.
        await RisingEdge(self.dut.clk)

    async def check(self, oldest, count, psn, at=0, bits=0, refused=None):
        """Checks an acknowledgement; `psn`, `at` (of the bitmap) and `refused` are distances from
        `oldest`, `count` packets are sent."""
        dut, window = self.dut, self.window
        ack = dont_care(INTERNAL.tx_ack, self.rng, psn=oldest + psn & PSN_MASK, bitmap=bits,
                        bitmap_psn=oldest + at & PSN_MASK, status=0)  # fmt: skip
        if refused is not None:
            ack |= {"status": self.rng.choice((7, 8, 12, 128)),
                    "refused_psn": oldest + refused & PSN_MASK}  # fmt: skip
        drive(dut, s_oldest=oldest, s_next=oldest + count & PSN_MASK,
              s_ack=INTERNAL.tx_ack.pack(**ack))  # fmt: skip
        await ClockCycles(dut.clk, 1 + self.latency)
        shown = set(range(min(psn, window)))
        shown |= {at + bit for bit in range(256) if bits >> bit & 1 and at + bit >= 0}
        bad = psn > count or max(shown, default=-1) >= count
        bad = bad or (refused is not None and refused >= count)
        what = f"oldest {oldest:#x}, {count} sent, {psn} {at} {bits:#x} {refused}"
        assert dut.m_bad.value == bad, what
        if not bad:
            slots = sum(1 << (oldest + one) % window for one in shown)
            assert dut.m_shown.value == slots, f"{what}: {int(dut.m_shown.value):#x}"
            assert dut.m_refused.value == (refused is not None and refused >= 0), what
        return bad


@cocotb.test()
async def psn_and_refusal(dut):
    """transport.ack_mask.front: PSNs before `psn` are shown, none if `psn` is before oldest; a
    refusal counts from oldest on. Both are checked against the next PSN, over every wrap."""
    bench = Bench(dut, "front")
    await bench.start()
    window = bench.window
    far = ((1 << 31) - 1, -(1 << 31))
    for oldest in STARTS:
        for count in (0, 1, window // 2, window):
            for psn in {-1, 0, 1, count - 1, count, count + 1, -window, *far}:
                assert await bench.check(oldest, count, psn) == (psn > count)
            for refused in {-1, 0, count - 1, count, count + 1, *far}:
                bad = await bench.check(oldest, count, 0, refused=refused)
                assert bad == (refused >= count)


@cocotb.test()
async def each_bit(dut):
    """transport.ack_mask.bitmap: Each bit shows its PSN, wherever the bitmap begins: bits before
    oldest are left out, a bit of a PSN that was never sent is found."""
    bench = Bench(dut, "bitmap")
    await bench.start()
    window = bench.window
    for oldest in STARTS:
        for count in (0, 1, window - 1, window):
            for at in {0, 1, -1, count, count - 1, -255, -256, -257, 255, 1 << 30, -(1 << 30)}:
                for bit in {0, 255, -at, -at - 1, count - at, count - at - 1}:
                    if 0 <= bit < 256:
                        bad = await bench.check(oldest, count, 0, at, 1 << bit)
                        assert bad == (at + bit >= count)
                await bench.check(oldest, count, 0, at, 0)


@cocotb.test()
async def random_acknowledgements(dut):
    """transport.ack_mask.random: Random valid and wrong acknowledgements."""
    bench = Bench(dut, "random")
    await bench.start()
    rng, window, wrong = bench.rng, bench.window, 0
    for _ in range(800):
        count = rng.randrange(window + 1)
        psn = rng.randrange(-window, count + 1)
        at = rng.choice((psn, rng.randrange(-300, 300)))
        bits = rng.getrandbits(256)
        if rng.random() < 0.8:
            bits &= (1 << max(0, min(256, count - at))) - 1
        refused = rng.choice((None, None, rng.randrange(-window, count + 1)))
        wrong += await bench.check(rng.getrandbits(32), count, psn, at, bits, refused)
    assert 50 < wrong < 600


@cocotb.test()
async def cycles(dut):
    """transport.ack_mask.time: The slots of a bitmap follow in the specified cycles."""
    bench = Bench(dut, "time")
    await bench.start()
    await bench.check(0, bench.window, 0, at=-256)
    ack = INTERNAL.tx_ack.pack(bitmap=2)
    drive(dut, s_ack=ack, s_oldest=0)
    for waited in range(bench.latency + 1):
        await RisingEdge(dut.clk)
        assert (dut.m_shown.value == 2) == (waited == bench.latency), waited
