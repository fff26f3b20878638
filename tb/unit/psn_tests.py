# SPDX-License-Identifier: Apache-2.0
"""Tests efa_psn: the next packet sequence number of each peer node; its cycles."""

import cocotb
from cocotb.triggers import RisingEdge, Timer

from efa_cosim.layouts.defs import LIMITS
from tb.lib.stream import PERIOD_NS, clock_and_reset, cycle, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, high, low, span, until, zero

NODES = 1 << LIMITS.node_w
READ = timing("efa_psn", "read")


def psn_at(dut, sent):
    """Returns the sequence number of a packet after `sent` others to its node; it wraps after
    PSN_LEFT."""
    return (sent - int(dut.PSN_LEFT.value)) % (1 << 32)


class RefModel:
    """Counts packets per node, drives reads and takes, and checks the number in every cycle."""

    def __init__(self, dut, name="psn"):
        self.dut, self.rng = dut, rng_for(name)
        self.sent, self.node = {}, None  # the node read last
        self.checked = self.taken = 0

    async def start(self):
        zero(self.dut, "psn_rd_en", "psn_rd_addr", "s_take")
        await clock_and_reset(self.dut)
        await until(self.dut, high(self.dut.m_init_done))

    def invalidate(self):
        self.sent.clear()
        self.node = None

    async def step(self, node=None, take=0):
        """Drives one cycle: a read of `node`, if any, and a take of the node read before."""
        address = self.rng.randrange(NODES) if node is None else node
        drive(self.dut, psn_rd_en=int(node is not None), psn_rd_addr=address, s_take=take)
        await RisingEdge(self.dut.clk)
        # The edge samples the inputs; the number before it is that of the previous cycle.
        if self.node is not None:
            wanted = psn_at(self.dut, self.sent.get(self.node, 0))
            assert self.dut.psn_rd_data.value == wanted, f"node {self.node}"
            self.checked += 1
        if take:
            self.sent[self.node] = self.sent.get(self.node, 0) + 1
            self.taken += 1
        if node is not None:
            self.node = node


@cocotb.test()
@cocotb.parametrize(pace=[(1.0, 1.0), (0.8, 0.5), (0.3, 0.6)], nodes=[2, 5, NODES])
async def numbers_of_each_node_increase_by_one(dut, pace, nodes):
    """transport.psn.count: The number of a node rises by one for each packet to it, and changes at
    no other time; reads and packets come in any pattern."""
    model = RefModel(dut, f"psn {pace} {nodes}")
    await model.start()
    reads, takes = pace
    some = model.rng.sample(range(NODES), nodes)
    for _ in range(3000):
        node = model.rng.choice(some) if model.rng.random() < reads else None
        take = int(model.node is not None and model.rng.random() < takes)
        await model.step(node, take)
    await model.step()
    assert model.taken > 500 and model.checked > 2500


@cocotb.test()
async def back_to_back_packets_to_one_node(dut):
    """transport.psn.forward: A read in the cycle of a take has the number after it, of the same
    node only."""
    model = RefModel(dut)
    await model.start()
    for node in model.rng.sample(range(NODES), NODES):
        near = node ^ 1 << model.rng.randrange(LIMITS.node_w)
        await model.step(node)
        for then in (node, node, near, node, near, near, node):
            await model.step(then, take=1)
        # Without a further read the number advances, too.
        for _ in range(3):
            await model.step(take=1)
        await model.step()
        await model.step(near)
    await model.step()


@cocotb.test()
async def numbers_over_powers_of_two(dut):
    """transport.psn.wide: Numbers increase by one over many powers of two and through their wrap,
    with a packet to another node between them."""
    model = RefModel(dut)
    await model.start()
    usual, other = 33, 34
    await model.step(usual)
    first = cycle()
    # All inputs are constant: only time advances.
    drive(dut, psn_rd_en=1, psn_rd_addr=usual, s_take=1)
    for bits in range(4, 19):
        await Timer(((1 << bits) - 3 - (cycle() - first)) * PERIOD_NS - 2, "ns")
        model.sent[usual] = cycle() - first - (bits - 4)
        for at in range(6):
            await model.step(other if at == 3 else usual, take=1)
    assert model.sent[other] == 15 and model.sent[usual] > 1 << 17
    assert READ.interval == 1


@cocotb.test()
async def a_read_takes_its_time(dut):
    """transport.psn.time: A number follows its read with the stated latency, and the sweep takes a
    cycle per node."""
    model = RefModel(dut)
    await model.start()
    for count, node in enumerate((5, 6, 5, 5)):
        await model.step(node)
        await model.step(take=1)
        assert READ.latency == 1
        assert model.checked == 2 * count + 1
    drive(dut, psn_rd_en=0, s_take=0)
    cocotb.start_soon(reset(dut))
    await until(dut, high(dut.rst))
    assert await span(dut, low(dut.rst), high(dut.m_init_done)) == NODES


@cocotb.test()
async def reset_restarts_every_node(dut):
    """transport.psn.reset: A reset in the middle of traffic restarts the numbers of all nodes, also
    of the node of the last packet; a reset restarts the sweep."""
    model = RefModel(dut)
    await model.start()
    for turn in range(4):
        for node in range(NODES):
            await model.step(node)
            await model.step(take=1)
        last = model.rng.randrange(NODES)
        await model.step(last)
        # The reset begins with a packet, with a read, or with both.
        drive(dut, psn_rd_en=turn & 1, psn_rd_addr=last, s_take=turn >> 1)
        dut.rst.value = 1
        await RisingEdge(dut.clk)
        zero(dut, "psn_rd_en", "s_take")
        await reset(dut)
        model.invalidate()
        if turn == 2:
            for _ in range(NODES // 2):
                assert dut.m_init_done.value == 0
                await RisingEdge(dut.clk)
            await reset(dut)
        assert dut.m_init_done.value == 0
        await until(dut, high(dut.m_init_done))
        for node in (last, *model.rng.sample(range(NODES), NODES)):
            await model.step(node)
        await model.step()


@cocotb.test()
@cocotb.parametrize(ahead=[-1, 1])
async def the_sweep_passes_one_node_per_cycle(dut, ahead):
    """transport.psn.sweep: The sweep restarts the nodes in ascending order: it has passed the node
    before its position and not the node behind."""
    model = RefModel(dut)
    await model.start()
    for node in range(NODES):
        await model.step(node)
        await model.step(take=1)
    await model.step()
    drive(dut, psn_rd_en=1, s_take=0)
    await reset(dut)
    # The first edge without reset has restarted node 0.
    wanted = None
    for position in range(1, NODES):
        node = (position + ahead) % NODES
        dut.psn_rd_addr.value = node
        await RisingEdge(dut.clk)
        assert dut.m_init_done.value == 0
        if wanted is not None:
            assert dut.psn_rd_data.value == wanted, f"node before {node}"
        # Behind the last node comes node 0, which is passed.
        wanted = psn_at(dut, int(node > position))
