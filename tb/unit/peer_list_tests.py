# SPDX-License-Identifier: Apache-2.0
"""Tests efa_peer_list: a list of message contexts for each peer, with user bits."""

from collections import Counter, defaultdict, deque
from itertools import islice
from typing import NamedTuple

import cocotb
from cocotb.triggers import RisingEdge

from tb.lib.stream import clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, high, until, zero
from tb.unit.length import rounds


class Entry(NamedTuple):
    """A context in a list: its id and its user bits."""

    id: int
    user: int


class Look(NamedTuple):
    """A look at the list of `node`: `pushed` contexts have been pushed before, and `more` in the
    same cycle."""

    node: int
    pushed: int
    more: int


class RefModel:
    """Models the lists; checks each look two cycles later."""

    def __init__(self, dut, rng):
        self.dut, self.rng = dut, rng
        self.nodes, self.contexts = 1 << len(dut.s_push_node), 1 << int(dut.CTX_W.value)
        self.clear()

    def clear(self):
        self.lists, self.free = defaultdict(deque), list(range(self.contexts))
        self.looks = deque([None, None])
        self.pushed, self.popped = Counter(), Counter()

    async def start(self):
        zero(self.dut, "s_push_valid", "s_push_node", "s_push_id", "s_push_user", "s_look_node",
             "s_pop")  # fmt: skip
        await clock_and_reset(self.dut)
        await until(self.dut, high(self.dut.m_init_done))

    def context(self):
        """Returns a free context with random user bits."""
        self.rng.shuffle(self.free)
        high_bits = self.rng.getrandbits(len(self.dut.s_push_id)) // self.contexts
        return Entry(high_bits * self.contexts + self.free.pop(),
                     self.rng.getrandbits(len(self.dut.s_push_user)))  # fmt: skip

    async def step(self, look=0, push=None, pop=True):
        """Looks at a list, pushes a context to node `push`, and pops the one that was found two
        cycles ago."""
        dut, seen = self.dut, self.looks.popleft()
        waits = 0 if seen is None else seen.pushed - self.popped[seen.node]
        pops = pop and waits > 0
        pushed = None if push is None else self.context()
        drive(dut, s_look_node=look, s_pop=int(pops), s_push_valid=int(push is not None),
              s_push_node=push or 0, s_push_id=pushed.id if pushed else 0,
              s_push_user=pushed.user if pushed else 0)  # fmt: skip
        await RisingEdge(dut.clk)
        if seen is not None:
            waiting = self.lists[seen.node]
            allowed = {waiting[0]} if waits else {None, *islice(waiting, seen.more)}
            found = None
            if dut.m_found.value == 1:
                found = Entry(int(dut.m_id.value), int(dut.m_user.value))
            assert found in allowed, f"list of {seen.node}: found {found}, not {allowed}"
        if pops:
            self.popped[seen.node] += 1
            self.free.append(self.lists[seen.node].popleft().id % self.contexts)
        self.looks.append(Look(look, self.pushed[look], int(push == look)))
        if push is not None:
            self.lists[push].append(pushed)
            self.pushed[push] += 1

    async def drain(self):
        """Pops all contexts."""
        for _ in range(4):
            await self.step()
        while any(self.lists.values()):
            node = self.rng.choice([node for node, one in self.lists.items() if one])
            await self.step(node)


@cocotb.test()
async def one_list_with_all_contexts(dut):
    """transport.peer_list.full: A list holds all contexts and returns them in order, one per cycle;
    then the list of another peer does."""
    ref = RefModel(dut, rng_for("full"))
    await ref.start()
    for node in (0, ref.nodes - 1, 1):
        count = min(ref.contexts, 300)
        for _ in range(count):
            await ref.step(push=node, pop=False)
        for _ in range(count + 4):
            await ref.step(node)
        assert len(ref.free) == ref.contexts


@cocotb.test()
async def short_lists(dut):
    """transport.peer_list.short: Pushes in each distance from a look and a pop of a list with no
    context, one, or two."""
    ref = RefModel(dut, rng_for("short"))
    await ref.start()
    node = 1
    for before in range(3):
        for pattern in ref.rng.sample(range(1 << 8), rounds(1 << 8, 1 << 6)):
            for _ in range(before):
                await ref.step(push=node, pop=False)
            for at in range(8):
                await ref.step(node, node if pattern >> at & 1 and ref.free else None, pop=at > 3)
            if pattern % 8 == 7 or len(ref.free) < 8:
                await ref.drain()
        await ref.drain()


@cocotb.test()
async def cycles(dut):
    """transport.peer_list.time: A pushed context is found in the specified cycles."""
    ref = RefModel(dut, rng_for("time"))
    await ref.start()
    push, look = (timing("efa_peer_list", path) for path in ("push", "look"))
    for _ in range(4):
        await ref.step(1, pop=False)
    for at in range(6):
        await ref.step(1, 1 if at == 0 else None, pop=False)
        assert dut.m_found.value == (at >= push.latency), at
    for at in range(6):
        await ref.step(1 if at else 2, pop=False)
        assert at < 2 or dut.m_found.value == (at != look.latency), at


@cocotb.test()
async def reset_empties_the_lists(dut):
    """transport.peer_list.reset: A reset empties each list, after one cycle for each peer."""
    ref = RefModel(dut, rng_for("reset"))
    await ref.start()
    for _ in range(3):
        for at in range(min(2 * ref.nodes, ref.contexts)):
            await ref.step(at % ref.nodes, at % ref.nodes, pop=at % 3 == 0)
        zero(dut, "s_push_valid", "s_pop")
        await reset(dut)
        assert await until(dut, high(dut.m_init_done), cycles=ref.nodes + 1) == ref.nodes
        ref.clear()
        for node in range(ref.nodes):
            await ref.step(node)
        for at in range(8):
            await ref.step(at % 3, at % 2)
        await ref.drain()


@cocotb.test()
@cocotb.parametrize(peers=[1, 2, None])
async def random_lists(dut, peers):
    """transport.peer_list.random: Random pushes, looks and pops of one, two or all peers."""
    rng = rng_for(f"random {peers}")
    ref = RefModel(dut, rng)
    await ref.start()
    nodes = rng.sample(range(ref.nodes), peers or ref.nodes)
    for _ in range(10):
        rate, pops = rng.random(), rng.random()
        for _ in range(150):
            push = rng.choice(nodes) if ref.free and rng.random() < rate else None
            look = push if push is not None and rng.random() < 0.3 else rng.choice(nodes)
            await ref.step(look, push, rng.random() < pops)
    await ref.drain()
