# SPDX-License-Identifier: Apache-2.0
"""Tests efa_rx_park: parked packets keep the order of their queue and block no other queue."""

from collections import defaultdict, deque

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge, Timer

from efa_cosim.layouts.defs import INTERNAL, PktHdr
from tb.lib.bundles import Bundles
from tb.lib.stream import clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import high, pulse, until, zero

QPNS, GROUP, HEADER, CYCLES = 64, 8, 32, 3000
INPUTS = ("s_pkt_valid", "m_pkt_ready", "blocked_rd_addr", "s_step", "s_end_valid", "s_end_parked",
          "s_empty", "s_arrived")  # fmt: skip
WAIT = timing("efa_rx_park", "list")


def bundles(dut):
    """Returns the design with the fields of its packets as ports."""
    packet = INTERNAL.rx_pkt
    return Bundles(dut, s_pkt=packet, m_pkt=packet, s_end=packet)


async def start(dut):
    """Returns the bundles of a design after its initialisation."""
    zero(dut, *INPUTS)
    await clock_and_reset(dut)
    await until(dut, high(dut.m_init_done), cycles=2 << int(dut.QPN_W.value))
    return bundles(dut)


def raw(header):
    """Returns a header as a number."""
    return int.from_bytes(header.pack(), "little")


class Env:
    """Models the packet buffer before the module and two validation stages behind it, once per
    cycle.

    A packet is validated when `opens` returns true for its queue and it is not blocked; otherwise
    the packet is parked. Packets of a queue must be validated in their order. A refused packet does
    not stall behind its queue and is not parked unless it is blocked. The queues that are blocked
    are compared in each cycle.
    """

    def __init__(self, dut, opens, gaps=0.0, stalls=0.0, holds=0.0):
        self.dut, self.rng, self.opens = bundles(dut), rng_for("rx_park"), opens
        self.gaps, self.stalls, self.holds = gaps, stalls, holds
        self.waiting, self.stages, self.checked, self.parks = deque(), [None, None], [], 0
        self.number, self.arrived, self.now, self.offered = 0, False, 0, None
        self.inside, self.bits = 0, int(dut.QPN_W.value)
        self.sent, self.consumed, self.refused = {}, defaultdict(list), set()
        self.blocking, self.pass_left = set(), 0

    async def start(self):
        await start(self.dut)

    def send(self, qpn, refused=False):
        above = self.rng.getrandbits(16) >> self.bits << self.bits
        # All other header bits are random, including the reserved ones.
        reported = raw(PktHdr(dst_qpn=above + qpn, psn=self.number))
        others = ~(raw(PktHdr(dst_qpn=0xFFFF, psn=0xFFFF)) ^ raw(PktHdr()))
        header = reported ^ self.rng.getrandbits(8 * HEADER) & others
        self.sent[self.number] = (header, self.rng.getrandbits(9), self.rng.getrandbits(8), qpn,
                                  self.number)  # fmt: skip
        self.waiting.append(self.sent[self.number])
        if refused:
            self.refused.add(self.number)
        self.number += 1

    async def cycles(self, count=1, step=None):
        for _ in range(count):
            if step:
                step()
            await self.cycle()

    async def cycle(self):
        dut, stages, rng = self.dut, self.stages, self.rng
        await RisingEdge(dut.clk)
        self.now += 1
        if dut.rst.value == 0:
            self._edge()
        # A packet that parks leaves the second stage at once; the first stage advances behind a
        # packet of another queue.
        first, second = stages
        self.parked = second is not None and (second[1] or not (
            self.opens(second[0][3]) or second[0][4] in self.refused))  # fmt: skip
        self.ends = second is not None and (self.parked or rng.random() >= self.holds)
        dut.s_end_valid.value = int(self.ends)
        # Without valid, the flag is don't-care.
        dut.s_end_parked.value = int(self.parked) if self.ends else rng.getrandbits(1)
        if second:
            dut.s_end_header.value, dut.s_end_line.value, dut.s_end_slot.value = second[0][:3]
        dut.s_empty.value = int(first is None and second is None)
        dut.s_arrived.value, self.arrived = int(self.arrived), False
        offered = self.waiting and (dut.s_pkt_valid.value == 1 or rng.random() >= self.gaps)
        dut.s_pkt_valid.value = int(bool(offered))
        if offered:
            dut.s_pkt_header.value, dut.s_pkt_line.value, dut.s_pkt_slot.value = self.waiting[0][:3]
        await Timer(1, "ns")
        self.blocked = first is not None and dut.blocked_rd_data.value == 1
        if first:
            assert self.blocked == (first[3] in self.blocking), f"queue {first[3]}"
        passes = self.blocked or (first and first[4] in self.refused)
        behind = first and second and first[3] == second[0][3] and not passes
        free = second is None or self.ends
        self.moves = first is not None and not behind and free and rng.random() >= self.stalls
        dut.m_pkt_ready.value = int(first is None or self.moves)
        dut.s_step.value = int(self.moves)
        await Timer(1, "ns")
        # The queue of stage 1 in the next cycle.
        if first and not self.moves:
            dut.blocked_rd_addr.value = first[3]
        elif dut.m_pkt_valid.value == 1:
            header = int(dut.m_pkt_header.value).to_bytes(HEADER, "little")
            dut.blocked_rd_addr.value = PktHdr.unpack(header).dst_qpn % (1 << self.bits)

    parked = moves = blocked = ends = False

    def _edge(self):
        dut, stages = self.dut, self.stages
        if self.ends:
            packet, _ = stages[1]
            self.inside += self.parked
            if self.parked:
                self.parks += 1
                self.blocking.add(packet[3])
            else:
                self.checked.append((packet[3], packet[4], self.now))
            stages[1] = None
        if self.moves:
            stages[:] = None, (stages[0], self.blocked)
        if dut.s_pkt_valid.value == 1 and dut.s_pkt_ready.value == 1:
            self.waiting.popleft()
        shown = None
        if dut.m_pkt_valid.value == 1:
            header = int(dut.m_pkt_header.value)
            fields = PktHdr.unpack(header.to_bytes(32, "little"))
            shown = (header, int(dut.m_pkt_line.value), int(dut.m_pkt_slot.value),
                     fields.dst_qpn % (1 << self.bits), fields.psn % (1 << 16))  # fmt: skip
            assert shown == self.sent[shown[4]]
        assert self.offered is None or self.offered == shown, "an offered packet disappeared"
        self.offered = None if dut.m_pkt_ready.value == 1 else shown
        if shown and dut.m_pkt_ready.value == 1:
            assert stages[0] is None
            if dut.s_pkt_ready.value == 0 or dut.s_pkt_valid.value == 0:
                # A traversal begins with no queue blocked and visits the packets parked before.
                if self.pass_left == 0:
                    self.blocking.clear()
                    self.pass_left = self.inside
                self.pass_left -= 1
                self.inside -= 1
            stages[0] = shown
            self.consumed[shown[4]].append(self.now)

    async def settle(self, limit=3000):
        for _ in range(limit):
            if len(self.checked) == self.number:
                break
            await self.cycle()
        assert len(self.checked) == self.number, "packets are lost"
        for qpn in range(64):
            numbers = [number for owner, number, _ in self.checked
                       if owner == qpn and number not in self.refused]  # fmt: skip
            assert numbers == sorted(numbers), f"packets of queue {qpn} were reordered"


@cocotb.test()
async def a_packet_bypasses_an_empty_list(dut):
    """data.rx_park.bypass: While no packet is parked, a packet bypasses the list in the cycle of
    its arrival, one per cycle."""
    promised = timing("efa_rx_park", "packet")
    assert (promised.latency, promised.interval) == (0, 1)
    dut = await start(dut)
    dut.m_pkt_ready.value = dut.s_pkt_valid.value = 1
    for number in range(16):
        header = raw(PktHdr(dst_qpn=number % 4, psn=number))
        dut.s_pkt_header.value, dut.s_pkt_line.value = header, number
        await Timer(1, "ns")
        assert dut.m_pkt_valid.value == dut.s_pkt_ready.value == 1
        assert (int(dut.m_pkt_header.value), int(dut.m_pkt_line.value)) == (header, number)
        await RisingEdge(dut.clk)


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0), (0.4, 0.0), (0.0, 0.5), (0.0, 0.0, 0.5)])
async def packets_of_a_queue_keep_their_order(dut, pace):
    """data.rx_park.order: Packets of a queue stay in order while queues open and close at
    random."""
    env = Env(dut, lambda qpn: qpn in state, *pace)
    await env.start()
    rng, state = env.rng, set(range(QPNS))
    queues = rng.sample(range(QPNS), QPNS)

    def step():
        first = env.now * QPNS // CYCLES // GROUP * GROUP
        if rng.random() < 0.1:
            state.update(queues[:first])
            state.symmetric_difference_update({rng.choice(queues[first : first + GROUP])})
            env.arrived = rng.random() < 0.5
        if len(env.waiting) < 4:
            env.send(rng.choice(queues[first : first + GROUP]), rng.random() < 0.1)

    await env.cycles(CYCLES - 1, step)
    state.update(range(QPNS))
    await env.settle()
    assert env.parks > 200 and env.number > 300


@cocotb.test()
async def others_pass_those_that_wait(dut):
    """data.rx_park.pass: Packets of other queues bypass at one per cycle; parked packets follow
    when their read completes."""
    env = Env(dut, lambda qpn: qpn not in late)
    await env.start()
    late = {1, 2}
    for number in range(40):
        env.send(1 + number % 2 if number < 6 else 3 + number % 4)
    await env.cycles(50)
    assert [owner for owner, _, _ in env.checked] == [3 + n % 4 for n in range(6, 40)]
    times = [at for _, _, at in env.checked]
    assert times[-1] - times[0] == len(times) - 1, "packets of other queues were delayed"
    late.clear()
    env.arrived = True
    began = env.now
    await env.cycles(20)
    assert [number for _, number, _ in env.checked[34:]] == list(range(6))
    assert env.checked[34][2] - began <= WAIT.latency + 4


@cocotb.test()
async def those_that_wait_are_looked_at_now_and_then(dut):
    """data.rx_park.timer: Without a completed read, a list traversal starts at the specified
    interval."""
    env = Env(dut, lambda qpn: qpn not in late)
    await env.start()
    late = {5}
    env.send(5)
    await env.cycles(100)
    parks = env.parks
    await env.cycles(10 * timing("efa_rx_park", "again").interval)
    assert env.parks - parks == 10
    late.clear()
    await env.settle(80)


@cocotb.test()
async def a_pass_gives_others_as_long_as_it_took(dut):
    """data.rx_park.rest: After a traversal, new packets get at least its duration, however early
    the next traversal is requested."""
    env = Env(dut, lambda qpn: False)
    await env.start()

    def step():
        env.arrived = env.consumed[0][-1:] == [env.now]

    for many in (3, 4, 5, 8, 15, 16, 33, 50):
        while env.number < many:
            env.send(env.number)
        await env.cycles(300, step)
        env.consumed[0].clear()
        # Also where the timer requests a traversal: its request is later.
        await env.cycles(12 * many, step)
        times = env.consumed[0]
        # Each traversal takes two more cycles to start.
        assert {b - a for a, b in zip(times, times[1:], strict=False)} == {2 * many + 2}
    # With a full list no new packet can enter, so traversals follow at once.
    while env.number < WAIT.depth:
        env.send(env.number)
    await env.cycles(600, step)
    times = env.consumed[0][-4:]
    assert all(b - a < WAIT.depth + 8 for a, b in zip(times, times[1:], strict=False))


@cocotb.test()
async def it_closes_while_nothing_is_offered(dut):
    """data.rx_park.close: The input closes for a traversal although no packet was offered or could
    be accepted."""
    dut = await start(dut)
    dut.s_end_parked.value = 1
    await pulse(dut, "s_end_valid", s_end_header=0, s_end_line=1, s_end_slot=1)
    await pulse(dut, "s_arrived")
    await ClockCycles(dut.clk, 4)
    dut.s_pkt_valid.value = dut.m_pkt_ready.value = 1
    for _ in range(4):
        await RisingEdge(dut.clk)
        assert dut.s_pkt_ready.value == 0 and dut.m_pkt_valid.value == 0
    dut.s_empty.value = 1
    await until(dut, high(dut.m_pkt_valid), cycles=3)
    assert dut.m_pkt_slot.value == 1 and dut.s_pkt_ready.value == 0


@cocotb.test()
@cocotb.parametrize(turn=[0, 1, 2])
async def each_queue_is_blocked_for_itself(dut, turn):
    """data.rx_park.blocked: A queue is blocked exactly when one of its packets is parked; queues
    whose number differs in one bit are not."""
    env = Env(dut, lambda qpn: qpn not in late)
    await env.start()
    rng = rng_for(f"blocked {turn}")
    late = set(rng.sample(range(1 << env.bits), 24))
    near = {qpn ^ 1 << rng.randrange(env.bits) for qpn in late} - late
    for qpn in late:
        env.send(qpn)
    await env.cycles(200)
    both = [*late, *near]
    rng.shuffle(both)
    for qpn in both:
        env.send(qpn)
    await env.cycles(300)
    assert {owner for owner, _, _ in env.checked} == near
    assert env.blocking == late
    late = set()
    await env.settle()


@cocotb.test()
async def a_refused_packet_unblocks_nothing(dut):
    """data.rx_park.refused: A refused packet that leaves directly behind a parked packet of its
    queue leaves the queue blocked, also in a list traversal."""
    env = Env(dut, lambda qpn: qpn not in late)
    await env.start()
    late = {5}
    for refused in (False, True, True, False, False, True, False):
        env.send(5, refused)
    for _ in range(8):
        await env.cycles(60)
        env.send(5, True)
        env.send(5)
        env.arrived = True
    assert {number for _, number, _ in env.checked} <= env.refused
    assert env.checked, "no refused packet left"
    late = set()
    await env.settle()


@cocotb.test()
async def a_full_list_keeps_all_waiting(dut):
    """data.rx_park.full: A full list stalls the input and loses no packet."""
    env = Env(dut, lambda qpn: qpn not in late, stalls=0.2)
    await env.start()
    late = set(range(32))
    for number in range(100):
        env.send(number % 32 if number < 90 else 40)
    await env.cycles(900)
    # The limit acts a cycle after the last packet parked, and the two stages hold packets.
    entered = env.number - len(env.waiting)
    assert not env.checked and entered in (WAIT.depth + 2, WAIT.depth + 3), entered
    late.clear()
    await env.settle()


@cocotb.test()
async def new_packets_get_their_turn(dut):
    """data.rx_park.fair: New packets bypass while reads complete all the time and parked packets
    park again."""
    env = Env(dut, lambda qpn: qpn != 9)
    await env.start()

    def step():
        env.arrived = True
        if len(env.waiting) < 4:
            env.send(9 if env.number < 40 else 10 + env.number % 4)

    await env.cycles(1000, step)
    assert len(env.checked) > 400, len(env.checked)


@cocotb.test()
async def a_pass_takes_its_time(dut):
    """data.rx_park.time: A traversal meets its specified cycles."""
    env = Env(dut, lambda qpn: qpn not in late)
    await env.start()
    late = {1, 2, 3}
    for number in range(9):
        env.send(1 + number % 3)
    await env.cycles(120)
    for _ in range(1000):
        if dut.s_empty.value == 1 and dut.m_pkt_valid.value == 0:
            break
        await env.cycle()
    else:
        raise AssertionError("the traversal does not end")
    late.clear()
    env.checked.clear()
    env.arrived = True
    await env.cycle()
    began = env.now + 1
    await env.cycles(30)
    times = [at for _, _, at in env.checked]
    # Two validation stages follow the module.
    assert times[0] - began == WAIT.latency + 2, (began, times)
    assert {b - a for a, b in zip(times, times[1:], strict=False)} == {WAIT.interval}


@cocotb.test()
async def reset_clears_who_waits(dut):
    """data.rx_park.reset: A reset at any moment, also during a traversal, clears the list."""
    env = Env(dut, lambda qpn: qpn not in late)
    await env.start()
    for wait in range(4, 40, 5):
        late = {1, 2}
        for number in range(12):
            env.send(1 + number % 2)
        await env.cycles(wait)
        env.arrived = True
        await env.cycles(wait % 7)
        zero(dut, *INPUTS)
        await reset(dut)
        await until(dut, high(dut.m_init_done), cycles=2 << env.bits)
        env.waiting.clear()
        env.checked.clear()
        env.stages[:], env.offered, env.number = [None, None], None, 0
        env.parked = env.moves = env.ends = False
        env.blocking, env.pass_left, env.inside = set(), 0, 0
        late = set()
        for number in range(20):
            env.send(number % 3)
        await env.settle(60)
