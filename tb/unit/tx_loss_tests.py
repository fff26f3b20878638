# SPDX-License-Identifier: Apache-2.0
"""Tests efa_tx_loss: loss by order and by age, as in decision 0009."""

from itertools import product

import cocotb
from cocotb.triggers import Timer

from efa_cosim.layouts.defs import INTERNAL
from efa_cosim.transport.packets import number_distance
from tb.lib.dont_care import dont_care
from tb.lib.stream import rng_for
from tb.lib.waits import drive

TICKS = 0xFFFFFF


class Case:
    """A packet in flight, young and not overtaken, of a peer without losses.

    - `behind`: `newest` of its path - its order number
    - `later`: time of a resolved packet - its own, None: no packet was resolved
    - `departed`: it has left the device
    """

    def __init__(self, dut, rng, **values):
        self.dut, self.rng = dut, rng
        self.behind, self.extent, self.age, self.longest, self.later = 0, 4, 0, 100, 1
        self.learned, self.lossy, self.departed = 0, 0, 1
        self.order, self.sent = rng.getrandbits(16), rng.getrandbits(24)
        vars(self).update(values)

    async def check(self):
        later = self.rng.randrange(-5000, 5000) if self.later is None else self.later
        record = dont_care(INTERNAL.tx_record, self.rng, order=self.order)
        newest = self.order + self.behind & 0xFFFF
        drive(self.dut, s_record=INTERNAL.tx_record.pack(**record), s_newest=newest,
              s_departed=self.departed, s_left_ticks=self.sent,
              s_seen_ticks=self.sent + self.age & TICKS, s_extent=self.extent,
              s_learned=self.learned, s_lossy=self.lossy, s_limit=self.longest + self.longest // 4,
              s_resolved=int(self.later is not None),
              s_resolved_ticks=self.sent + later & TICKS)  # fmt: skip
        await Timer(1, "ns")
        limit = self.longest + self.longest // 4
        silent = number_distance(newest, self.order) < 0
        aged = (self.departed and self.age > limit and (self.later or 0) > 0
                and bool(self.lossy or (silent and self.learned)))  # fmt: skip
        overtaken = bool(self.lossy) and self.behind > self.extent
        aged = bool(aged)
        wanted = {"silent": silent, "aged": aged, "lost": aged or overtaken,
                  "young": bool(self.departed) and self.age <= limit}  # fmt: skip
        found = {name: self.dut[f"m_{name}"].value == 1 for name in wanted}
        shown = {name: value for name, value in vars(self).items() if name not in ("dut", "rng")}
        assert found == wanted, f"{shown}: {found}, not {wanted}"
        assert self.dut.m_age_ticks.value == (self.sent + limit + 1 & TICKS), shown
        return wanted["lost"]


@cocotb.test()
async def loss_by_order(dut):
    """transport.tx_loss.order: A packet of a lossy peer is lost once more than the extent of
    packets have overtaken it, over wraps of the order numbers."""
    rng = rng_for("order")
    for order in (0, 1, 0x7FFF, 0x8000, 0xFFFF, 0xFFF0, rng.getrandbits(16)):
        for extent in (0, 1, 5, 256, 512, 600):
            for over in (-0x4000, -1, 0, 1, 2, 0x3000):
                for lossy in (0, 1):
                    lost = await Case(dut, rng, order=order, extent=extent, behind=extent + over,
                                      lossy=lossy).check()  # fmt: skip
                    assert lost == (lossy and over > 0)


@cocotb.test()
async def loss_by_age(dut):
    """transport.tx_loss.age: A packet is lost past 5/4 of the longest time if a later one is
    resolved, and the peer is lossy or the path is silent after the first period; over wraps. A
    packet that left after an acknowledgement came has no age for it, one in the device none."""
    rng = rng_for("age")
    for sent in (0, TICKS, TICKS - 100, 0x7FFFFF, 0x800000, rng.getrandbits(24)):
        for longest in (0, 1, 3, 4, 100, 65_537):
            limit = longest + longest // 4
            for state in range(16):
                for age in (-1, -3000, limit, limit + 1, limit + 3000):
                    await Case(dut, rng, sent=sent, longest=longest, age=age, lossy=state & 1,
                               learned=state >> 1 & 1, behind=-(state >> 2 & 1),
                               later=(0, 1)[state >> 3]).check()  # fmt: skip
            for later, departed in product((None, -1, -5000, 0, 1, 5000), (0, 1)):
                lost = await Case(dut, rng, sent=sent, longest=longest, age=limit + 1, lossy=1,
                                  later=later, departed=departed).check()  # fmt: skip
                assert lost == (bool(departed) and later is not None and later > 0)


@cocotb.test()
async def random_packets(dut):
    """transport.tx_loss.random: Random orders, ages and states of the peer."""
    rng, lost = rng_for("random"), 0
    for _ in range(3000):
        longest = rng.choice((rng.randrange(400), rng.randrange(1 << 20), rng.randrange(6 << 20)))
        lost += await Case(
            dut, rng, behind=rng.randrange(-600, 1200), extent=rng.randrange(520), longest=longest,
            age=rng.randrange(rng.choice((-9, -(1 << 23))), min(2 * longest + 2, 1 << 23)),
            learned=rng.getrandbits(1),
            lossy=rng.getrandbits(1), later=rng.choice((None, rng.randrange(-500, 500))),
            departed=int(rng.random() < 0.8)).check()
    assert 200 < lost < 2800
