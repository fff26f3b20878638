# SPDX-License-Identifier: Apache-2.0
"""Tests efa_queue_fifo_set: a FIFO that holds each queue at most once."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from tb.lib.stream import clock_and_reset, cycle, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import high, pulse, until, zero

INPUTS = ("s_now_valid", "s_now_qpn", "s_valid", "s_qpn", "m_ready")


class RefModel:
    """Models the set as a list, updated from the pins at each edge."""

    def __init__(self, dut):
        self.dut, self.order, self.out = dut, [], []

    async def run(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value == 1:
                self.order.clear()
                continue
            if dut.m_valid.value == 1:
                assert self.order, "output of an empty set"
                assert dut.m_qpn.value == self.order[0]
                if dut.m_ready.value == 1:
                    self.out.append(self.order.pop(0))
            assert int(dut.s_ready.value) == 1 - int(dut.s_now_valid.value)
            put = None
            if dut.s_now_valid.value == 1:
                put = int(dut.s_now_qpn.value)
            elif dut.s_valid.value == 1:
                put = int(dut.s_qpn.value)
            if put is not None and put not in self.order:
                self.order.append(put)


async def start(dut):
    zero(dut, *INPUTS)
    await clock_and_reset(dut)
    await until(dut, high(dut.m_init_done), cycles=5000)
    ref = RefModel(dut)
    cocotb.start_soon(ref.run())
    return ref, 1 << len(dut.m_qpn)


@cocotb.test()
@cocotb.parametrize(rate=[0.1, 0.6, 1.0], queues=[6, None])
async def each_queue_once_in_order(dut, rate, queues):
    """queue.queue_fifo_set.order: Random traffic on both inputs, with few or all queues, leaves in
    order, each queue once, at any output rate."""
    ref, count = await start(dut)
    rng = rng_for("set")
    used = rng.sample(range(count), queues or count)
    for _ in range(max(1500, 12 * len(used))):
        for name in ("s_now", "s"):
            getattr(dut, name + "_valid").value = int(rng.random() < 0.5)
            getattr(dut, name + "_qpn").value = rng.choice(used)
        dut.m_ready.value = int(rng.random() < rate)
        await RisingEdge(dut.clk)
    zero(dut, "s_now_valid", "s_valid")
    dut.m_ready.value = 1
    await ClockCycles(dut.clk, len(used) + 14)
    assert not ref.order and len(ref.out) > 50
    await RisingEdge(dut.clk)
    assert dut.m_valid.value == 0


@cocotb.test()
async def holds_every_queue(dut):
    """queue.queue_fifo_set.full: The set holds all queues; each is inserted again as it leaves, for
    three wraps."""
    ref, count = await start(dut)
    for qpn in range(count):
        await pulse(dut, "s_now_valid", s_now_qpn=qpn)
    await ClockCycles(dut.clk, 3)
    dut.m_ready.value = 1
    for number in range(3 * count):
        dut.s_now_valid.value, dut.s_now_qpn.value = 1, number % count
        await RisingEdge(dut.clk)
        assert len(ref.order) == count
    dut.s_now_valid.value = 0
    await ClockCycles(dut.clk, count + 3)
    assert ref.out == [*range(count)] * 4


@cocotb.test()
async def a_queue_shows_up_in_time(dut):
    """queue.queue_fifo_set.cycles: An inserted queue appears in its specified time; full throughput
    is one queue per cycle."""
    ref, count = await start(dut)
    promised = timing("efa_queue_fifo_set", "queue")
    for name in ("s_now", "s"):
        dut.m_ready.value = 0
        put = await pulse(dut, name + "_valid", **{name + "_qpn": 1})
        await RisingEdge(dut.clk)
        await until(dut, high(dut.m_valid), cycles=10)
        assert cycle() - put == promised.latency
        dut.m_ready.value = 1
        await ClockCycles(dut.clk, 2)
    # Full throughput: one insertion and one removal per cycle.
    ref.out.clear()
    dut.s_now_valid.value = 1
    for number in range(40):
        dut.s_now_qpn.value = number % count
        await RisingEdge(dut.clk)
        assert len(ref.out) == max(0, number // promised.interval - promised.latency)


@cocotb.test()
async def reset_empties_it(dut):
    """queue.queue_fifo_set.reset: A reset empties the set; a queue from before the reset can be
    inserted again."""
    ref, count = await start(dut)
    for _ in range(3):
        for qpn in range(count):
            await pulse(dut, "s_now_valid", s_now_qpn=qpn)
        await reset(dut)
        assert dut.m_valid.value == 0 and dut.m_init_done.value == 0
        assert await until(dut, high(dut.m_init_done), cycles=count + 1) == count
        await pulse(dut, "s_valid", s_qpn=count - 1)
        dut.m_ready.value = 1
        await ClockCycles(dut.clk, 5)
        assert ref.out == [count - 1]
        ref.out.clear()
        dut.m_ready.value = 0
