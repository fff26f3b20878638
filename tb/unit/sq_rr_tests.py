# SPDX-License-Identifier: Apache-2.0
"""Tests efa_sq_rr: round robin over queues with work."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from tb.lib.stream import clock_and_reset, cycle, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import pulse, until, zero

INPUTS = ("s_now_valid", "s_now_qpn", "s_valid", "s_qpn", "m_ready")


class RefModel:
    """Models the set from the pins at each edge, and the round-robin order."""

    def __init__(self, dut):
        self.dut, self.inside, self.last, self.out = dut, set(), 0, []

    def next(self, now):
        """Returns the queue that must be offered, or None."""
        behind = [qpn for qpn in self.inside if qpn > self.last]
        return min(behind) if behind else min(self.inside) if self.inside else now

    async def run(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value == 1:
                self.inside.clear()
                self.last = 0
                continue
            now = int(dut.s_now_qpn.value) if dut.s_now_valid.value == 1 else None
            offered = self.next(now)
            assert dut.m_valid.value == int(offered is not None)
            assert dut.s_ready.value == 1
            assert offered is None or dut.m_qpn.value == offered
            if offered is not None and dut.m_ready.value == 1:
                self.out.append(offered)
                self.last = offered
                if offered in self.inside:
                    self.inside.remove(offered)
                else:
                    now = None
            if now is not None:
                self.inside.add(now)
            if dut.s_valid.value == 1:
                self.inside.add(int(dut.s_qpn.value))


async def start(dut):
    zero(dut, *INPUTS)
    await clock_and_reset(dut)
    account = RefModel(dut)
    cocotb.start_soon(account.run())
    return account, 1 << len(dut.m_qpn)


@cocotb.test()
@cocotb.parametrize(rate=[0.1, 0.6, 1.0])
async def each_queue_once_in_its_turn(dut, rate):
    """queue.sq_rr.order: Random traffic on both inputs with few queues is granted in round-robin
    order at any output rate."""
    account, count = await start(dut)
    rng = rng_for("set")
    few = [rng.randrange(count) for _ in range(6)]
    for _ in range(1500):
        for name in ("s_now", "s"):
            getattr(dut, name + "_valid").value = int(rng.random() < 0.5)
            getattr(dut, name + "_qpn").value = rng.choice(few)
        dut.m_ready.value = int(rng.random() < rate)
        await RisingEdge(dut.clk)
    zero(dut, "s_now_valid", "s_valid")
    dut.m_ready.value = 1
    await ClockCycles(dut.clk, 20)
    assert not account.inside and len(account.out) > 50
    await RisingEdge(dut.clk)
    assert dut.m_valid.value == 0


@cocotb.test()
async def any_set_of_queues(dut):
    """queue.sq_rr.all: Sets from no queue to all queues are granted, and each queue alone."""
    account, count = await start(dut)
    rng = rng_for("all")
    for _ in range(8):
        for rate, puts in ((0.1, 0.9), (0.9, 0.1)):
            for _ in range(2 * count):
                for name in ("s_now", "s"):
                    getattr(dut, name + "_valid").value = int(rng.random() < puts)
                    getattr(dut, name + "_qpn").value = rng.randrange(count)
                dut.m_ready.value = int(rng.random() < rate)
                await RisingEdge(dut.clk)
    zero(dut, "s_now_valid", "s_valid")
    dut.m_ready.value = 1
    await ClockCycles(dut.clk, count + 4)
    assert not account.inside
    dut.m_ready.value = 0
    for qpn in range(count):
        await pulse(dut, "s_valid", s_qpn=qpn)
        await ClockCycles(dut.clk, 2)
        await pulse(dut, "m_ready")
        await ClockCycles(dut.clk, 2)
        assert account.out[-1] == qpn and not account.inside


@cocotb.test()
async def holds_every_queue(dut):
    """queue.sq_rr.full: The set holds all queues; each is inserted again as it leaves, for three
    wraps."""
    account, count = await start(dut)
    for qpn in range(count):
        await pulse(dut, "s_now_valid", s_now_qpn=qpn)
    await ClockCycles(dut.clk, 3)
    dut.m_ready.value = 1
    for number in range(1, 3 * count + 1):
        dut.s_now_valid.value, dut.s_now_qpn.value = 1, number % count
        await RisingEdge(dut.clk)
        assert len(account.inside) == count
    dut.s_now_valid.value = 0
    await ClockCycles(dut.clk, count + 3)
    assert account.out == [*range(1, count), 0] * 4


@cocotb.test()
async def a_queue_shows_up_in_time(dut):
    """queue.sq_rr.cycles: An inserted queue appears in its specified time; full throughput is one
    queue per cycle."""
    account, count = await start(dut)
    for name, path in (("s_now", "now"), ("s", "queue")):
        promised = timing("efa_sq_rr", path)
        dut.m_ready.value = 0
        getattr(dut, name + "_qpn").value = 1
        getattr(dut, name + "_valid").value = 1
        await RisingEdge(dut.clk)
        put = cycle()
        getattr(dut, name + "_valid").value = 0
        await until(dut, lambda: dut.m_valid.value == 1, 10)
        assert cycle() - put == promised.latency
        dut.m_ready.value = 1
        await ClockCycles(dut.clk, 2)
    # Full throughput: one insertion per input and one removal per cycle.
    account.out.clear()
    dut.s_now_valid.value = dut.s_valid.value = 1
    for number in range(40):
        dut.s_now_qpn.value = number % count
        dut.s_qpn.value = (number + 3) % count
        await RisingEdge(dut.clk)
        assert len(account.out) == number // promised.interval
    zero(dut, "s_now_valid", "s_valid")


@cocotb.test()
async def reset_empties_it(dut):
    """queue.sq_rr.reset: A reset empties the set."""
    account, count = await start(dut)
    for _ in range(3):
        for qpn in range(count):
            await pulse(dut, "s_now_valid", s_now_qpn=qpn)
        await reset(dut)
        assert dut.m_valid.value == 0
        await pulse(dut, "s_valid", s_qpn=count - 1)
        dut.m_ready.value = 1
        await ClockCycles(dut.clk, 5)
        assert account.out == [count - 1]
        account.out.clear()
        dut.m_ready.value = 0
