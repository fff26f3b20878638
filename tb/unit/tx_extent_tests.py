# SPDX-License-Identifier: Apache-2.0
"""Tests efa_tx_extent: how far packets overtake each other, in two periods."""

import cocotb
from cocotb.triggers import RisingEdge

from efa_cosim.layouts.defs import INTERNAL, TRANSPORT
from tb.lib.stream import rng_for, start_clock
from tb.lib.timing import timing
from tb.lib.waits import drive, zero

PERIOD = TRANSPORT.extent_period
STATE = INTERNAL.tx_extent


class RefModel:
    """Models the extent of decision 0009; checks the outputs at each edge."""

    def __init__(self, dut):
        self.dut, self.window = dut, 1 << int(dut.WINDOW_W.value)
        self.clear()

    def clear(self):
        self.learned, self.previous, self.current, self.acked = 0, self.window, 0, 0

    @property
    def extent(self):
        return 2 * max(self.previous, self.current)

    def state(self):
        return {name: getattr(self, name) for name in ("learned", "previous", "current", "acked")}

    async def start(self):
        zero(self.dut, "s_load", "s_state", "s_acked", "s_distance_valid", "s_distance", "s_late")
        drive(self.dut, s_clear=1)
        start_clock(self.dut.clk)
        for _ in range(3):
            await RisingEdge(self.dut.clk)
        self.dut.s_clear.value = 0

    async def step(self, distance=None, late=0, acked=1, clear=0, load=None):
        """Acknowledges a packet: sent once with its distance, or again, in time or late."""
        dut = self.dut
        drive(dut, s_acked=acked, s_distance_valid=int(distance is not None), s_late=late,
              s_distance=(distance or 0) & 0xFFFF, s_clear=clear, s_load=int(load is not None),
              s_state=STATE.pack(**load) if load else 0)  # fmt: skip
        await RisingEdge(dut.clk)
        assert vars(STATE.unpack(int(dut.m_state.value))) == self.state()
        assert dut.m_learned.value == self.learned and dut.m_extent.value == self.extent
        if distance is not None:
            self.current = max(self.current, distance)
        if late:
            self.current = max(self.current, min(self.extent + 1, self.window))
        self.acked += acked
        if self.acked == PERIOD:
            self.learned, self.previous, self.current, self.acked = 1, self.current, 0, 0
        if clear:
            self.clear()
        if load is not None:
            vars(self).update(load)

    async def idle(self):
        await self.step(acked=0)


@cocotb.test()
async def two_periods(dut):
    """transport.tx_extent.periods: The extent is twice the largest distance of the current and the
    previous period of acknowledged packets, and that of the window before the first period."""
    ref, rng = RefModel(dut), rng_for("periods")
    await ref.start()
    for largest in (3, 9, 2, 0, 0):
        place = rng.choice((0, PERIOD - 1, rng.randrange(PERIOD)))
        for at in range(PERIOD):
            distance = largest if at == place else rng.randrange(-600, largest + 1)
            await ref.step(None if at % 5 == 1 and at != place else distance)
            if at % 8 == 0:
                await ref.idle()
    assert ref.extent == 0 and ref.learned
    assert timing("efa_tx_extent", "state") == (1, 1, None)


@cocotb.test()
async def late_packets(dut):
    """transport.tx_extent.late: A packet that was late, not lost, extends the extent by one packet
    beyond it, at most to the window."""
    ref = RefModel(dut)
    await ref.start()
    for most in range(ref.window + 2):
        await ref.step(load={"learned": 1, "previous": most, "current": 0, "acked": 0}, acked=0)
        for _ in range(4):
            await ref.step(late=1)
        await ref.idle()
    # Negative distances, and one of the whole range.
    for distance in (-1, -0x8000, 1, 0x7FFF):
        await ref.step(distance)
    await ref.idle()


@cocotb.test()
async def random_packets(dut):
    """transport.tx_extent.random: Random packets, new sessions and other peers."""
    ref, rng = RefModel(dut), rng_for("random")
    await ref.start()
    for _ in range(5000):
        load = None
        if rng.random() < 0.005:
            load = {"learned": rng.getrandbits(1), "previous": rng.randrange(ref.window + 1),
                    "current": rng.randrange(ref.window + 1),
                    "acked": PERIOD - rng.randrange(1, 40)}  # fmt: skip
        kind = rng.random()
        distance = rng.randrange(-9, rng.choice((4, ref.window)))
        await ref.step(distance if kind < 0.7 else None, late=int(kind > 0.95),
                       clear=int(rng.random() < 0.003), load=load)  # fmt: skip


@cocotb.test()
async def late_packet_below_the_largest_distance(dut):
    """transport.tx_extent.largest: A late packet does not reduce the largest distance."""
    ref = RefModel(dut)
    await ref.start()
    await ref.step(ref.window + 40)
    await ref.step(late=1)
    await ref.idle()
