# SPDX-License-Identifier: Apache-2.0
"""Tests efa_rq: heads held by packets, neighbours of a failed ring, operations, wrap of the
counts."""

from collections import deque

import cocotb
from cocotb.triggers import RisingEdge

from efa_cosim.layouts.defs import INTERNAL, AdminQpState
from tb.lib.bundles import Bundles
from tb.lib.stream import clock_and_reset, rng_for
from tb.lib.waits import high, hold, until, zero
from tb.unit.rq_bench import context
from tb.unit.rq_tests import INIT, INPUTS, Env, some_lasts, take_all

STATES = AdminQpState


class Held(Env):
    """Models held packets: `line` waits for its lookup, `first` claims, `taking` accepts one
    response."""

    def __init__(self, dut):
        super().__init__(dut, 1.0, 1.0, 1.0)
        self.line, self.inside, self.taking, self.finish = deque(), deque(), False, False
        self.first, self.looked_up = None, False
        self.last = None  # ring and WQE size of the last packet with a response
        dut.m_rsp_ready.value = 0

    def _packets_out(self):
        dut = self.dut
        if dut.m_rsp_valid.value == 1 and dut.m_rsp_ready.value == 1:
            assert self.last is None
            ring = self.inside.popleft()
            self.last = ring, self._respond(ring)
            self.taking = False
        if dut.s_claim_valid.value == 1 and dut.s_claim_ready.value == 1:
            self.inside.append(self.first)
            self.first = None
        elif self.looked_up:
            self.first = self.line.popleft()

    def _packet_done(self):
        self._use(*self.last)
        self.last = None

    def _packets_in(self):
        dut, ending = self.dut, self.finish
        dut.s_claim_valid.value = int(self.first is not None)
        self.looked_up = self.first is None and bool(self.line)
        if self.first or self.line:
            ring = self.first or self.line[0]
            dut.s_next_qpn.value = dut.s_claim_qpn.value = ring.qpn
        dut.s_claim_need.value = 0
        dut.m_rsp_ready.value, dut.s_claim_done.value = int(self.taking), int(ending)
        self.finish = False
        return ending


@cocotb.test()
async def heads_that_packets_hold_stay(dut):
    """queue.rq.held: A packet at each of three stages blocks the flush of its own ring and of no
    other ring."""
    env = Held(dut)
    await env.start()
    rng, wide = env.rng, len(dut.s_rqdb_qpn)
    for _ in range(16):
        first = rng.randrange(1 << wide)
        bits = rng.sample(range(wide), 3)
        rings = [await env.make(qpn, 3) for qpn in (first, *[first ^ 1 << bit for bit in bits])]
        for ring in rings:
            env.post(ring, 1, 1, 1)
        await env.rest(30)

        async def flushed(*numbers, rings=rings):
            await env.cycles(100)
            assert [ring.cons for ring in rings] == list(numbers)

        consumed, responded, waiting, free = rings
        env.line.extend((consumed, responded, waiting))
        env.taking = True
        await env.cycles(12)
        assert env.last[0] is consumed
        assert list(env.inside) == [responded] and env.first is waiting
        for ring in rings:
            env.to(ring, STATES.ERR)
        await flushed(0, 0, 0, 3)
        env.finish = True
        await flushed(3, 0, 0, 3)
        env.taking = True
        await flushed(3, 0, 0, 3)
        env.finish = True
        await flushed(3, 3, 0, 3)
        env.taking = True
        await flushed(3, 3, 0, 3)
        env.finish = True
        await flushed(3, 3, 3, 3)
        for ring in rings:
            env.to(ring, STATES.RESET)
        await env.rest(20)


@cocotb.test()
async def only_the_ring_whose_read_failed_is_broken(dut):
    """queue.rq.broken: A failed read breaks only its own ring; rings whose number differs in one
    bit continue."""
    env = Env(dut, 1.0, 1.0, 1.0)
    await env.start()
    wide = len(dut.s_rqdb_qpn)
    for number in (0, (1 << wide) - 1, *env.rng.sample(range(1, (1 << wide) - 1), 3)):
        rings = [await env.make(number ^ (1 << bit if bit < wide else 0), 3)
                 for bit in range(wide + 1)]  # fmt: skip
        *fine, failed = rings
        env.fail, before = {number}, env.counts["failed"]
        for ring in rings:
            env.post(ring, 1, 0, 1)
        await env.rest(30)
        failed.state = STATES.RTS
        for _ in range(1000):
            if env.counts["failed"] > before and not env.claim:
                break
            env.check(failed, 1.0)
            await env.cycle()
        assert env.counts["failed"] > before, "the claim of a broken ring does not end"
        for ring in fine:
            await take_all(env, ring)
            assert ring.cons == 3
        assert env.counts["failed"] == before + 1 and failed.cons == 0
        await env.rest(20)


@cocotb.test()
async def an_operation_does_not_wait_for_counts_that_move(dut):
    """queue.rq.op: An operation does not wait for count updates: beside doorbells of another ring
    in every cycle it takes as long as without them."""
    env = Env(dut, 1.0, 0.0, 1.0)
    await env.start()
    busy = await env.make(9, 12)
    times, qpns = {}, iter(range(20, 60))
    for doorbells in (0, 0, *range(20, 50, 3)):
        await env.cycles(5)
        for _ in range(doorbells):
            env.post(busy, 1)
        began = env.now
        await env.make(next(qpns), 3)
        times[doorbells] = env.times["op"][-1] - began
        await env.cycles(doorbells)
    assert set(times.values()) == {times[0]}, times


@cocotb.test()
async def counts_pass_their_end(dut):
    """queue.rq.wrap: More than 65,536 descriptors of a ring are delivered once, in order, at the
    right place."""
    dut = Bundles(dut, s_claim=INTERNAL.rx_claim, m_rsp=INTERNAL.rx_claim_rsp)
    zero(dut, *INPUTS)
    await clock_and_reset(dut)
    await until(dut, high(dut.m_init_done))
    rng = rng_for("wrap")
    qpn, log = rng.randrange(1 << len(dut.s_rqdb_qpn)), 10
    base, size = 5 << 30, 1 << log
    total, spread = 0x10000 + size, rng.getrandbits(16) | 1
    dut.qpc_rd_data.value = image = context(base, log)
    await hold(
        dut, "s_rq_ctrl_valid", "s_rq_ctrl_ready",
        s_rq_ctrl_kind=INIT, s_rq_ctrl_qpn=qpn, s_rq_ctrl_qpc=image,
    )  # fmt: skip

    def word(number):
        """Returns descriptor `number`; two descriptors make a WQE."""
        return number & 0xFFFF | (number * spread & 0xFFFF) << 64 | (number & 1) << 127

    prod = requested = arrived = offered = consumed = done = idle = pause = 0
    reads = deque()
    dut.s_next_qpn.value = dut.s_rqdb_qpn.value = dut.s_claim_qpn.value = dut.s_done_qpn.value = qpn
    dut.m_rd_ready.value = dut.m_rsp_ready.value = 1
    dut.s_done_count.value = 2
    edge = RisingEdge(dut.clk)
    while done < total:
        await edge
        if dut.m_rd_valid.value == 1:
            length = int(dut.m_rd_len.value)
            assert dut.m_rd_addr.value == base + 16 * (requested % size)
            reads.append([requested, length // 16, 0, int(dut.m_rd_cookie.value)])
            requested += length // 16
            assert requested <= prod
        if dut.s_claim_valid.value == 1 and dut.s_claim_ready.value == 1:
            offered += 2
        dut.s_done_valid.value = dut.s_claim_done.value
        done += 2 * int(dut.s_done_valid.value)
        dut.s_claim_done.value = reported = dut.m_rsp_valid.value
        if reported == 1:
            idle = 0
            flags = (dut.m_rsp_none, dut.m_rsp_missing, dut.m_rsp_failed, dut.m_rsp_short)
            assert not any(int(flag.value) for flag in flags), consumed
            assert dut.m_rsp_count.value == 2 and dut.m_rsp_complete.value == 1
            assert dut.m_rsp_descs.value == word(consumed + 1) << 128 | word(consumed), consumed
            consumed += 2
        idle += 1
        assert idle < 200, (consumed, "no further claim response")
        # Doorbells of any size with prefetch close behind; claims with pauses for arrived
        # descriptors.
        more = prod < total and prod - arrived < 64
        dut.s_rqdb_valid.value = int(more)
        if more:
            prod = min(total, prod + rng.randrange(1, 65))
            dut.s_rqdb_value.value = prod & 0xFFFF
        pause = pause - 1 if pause else 12 * (rng.random() < 0.01)
        here = offered + 2 <= (arrived if arrived == total else arrived - 8)
        dut.s_claim_valid.value = int(here and not pause)
        dut.s_rd_cpl_valid.value = int(bool(reads))
        if reads:
            first, number, at, cookie = reads[0]
            piece = min(number - at, 4 - (first + at) % 4)
            dut.s_rd_cpl_cookie.value, dut.s_rd_cpl_offset.value = cookie, 16 * at
            dut.s_rd_cpl_bytes.value = 16 * piece
            dut.s_rd_cpl_data.value = sum(word(first + at + n) << 128 * n for n in range(piece))
            dut.s_rd_cpl_last.value = int(at + piece == number)
            reads[0][2] += piece
            arrived += piece
            if at + piece == number:
                reads.popleft()
    assert not dut.m_err_valid.value


@cocotb.test()
async def all_of_a_long_ring_is_flushed(dut):
    """queue.rq.long: A flush covers a ring longer than the prefetch window, from any count, and
    stops when the ring is empty."""
    env = Env(dut, 1.0, 1.0, 1.0)
    await env.start()
    rng = env.rng
    for qpn, before in ((3, 0), (9, 140), (3, 200), (12, 333)):
        ring = await env.make(qpn, 10)
        while ring.cons < before:
            env.post(ring, *[1] * min(rng.randrange(1, 60), before - ring.cons))
            await take_all(env, ring)
        env.post(ring, *some_lasts(rng, 299), 1)
        env.to(ring, STATES.ERR)
        await env.rest()
        assert ring.cons == ring.prod
