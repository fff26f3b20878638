# SPDX-License-Identifier: Apache-2.0
"""Tests efa_net_tx: flit order, acknowledgements between packets, completion after the last
flit."""

from collections import deque

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import EVENTS, INTERNAL, PktHdr, PktOpcode, SrdAck
from tb.lib.dont_care import dont_care
from tb.lib.stream import (
    StreamDriver,
    StreamMonitor,
    clock_and_reset,
    cycle,
    periodic,
    reset,
    rng_for,
)
from tb.lib.timing import timing
from tb.lib.waits import high, steady, until
from tb.unit.data_bench import Moments, consumed

PACKET, DONE, BARRIER = range(3)
NET = ["data", "keep", "last"]


def is_again(message):
    """True for a retransmission, whose bytes are not counted again."""
    return message["sent"] and INTERNAL.srd_send.unpack(message["send"]).again


class Bench:
    def __init__(self, dut, stalls=0.0, gaps=0.0, done=0.0):
        self.dut, self.rng = dut, rng_for("net_tx")
        dut.s_quiesce.value = 0
        self.source = StreamDriver(
            dut, "s", gaps, ["net", "done", "first", "last", "msg", *NET[:2]]
        )
        self.acks = StreamDriver(dut, "s_ack_tx", gaps, ["data"])
        self.net = StreamMonitor(dut, "m_net", stalls, NET, on_beat=self._flit)
        self.done = StreamMonitor(dut, "m_done", done, ["msg"])
        self.seen = {name: StreamMonitor(dut, f"ev_{name}", 0, ["data"])
                     for name in ("tx_first", "tx_last", "ackout")}  # fmt: skip
        self.stat = StreamMonitor(dut, "st_tx", 0, ["bytes"])
        self.left = StreamMonitor(dut, "m_left", 0, ["send"], on_beat=self._left)
        self.begun, self.left_at = [], []  # cycles of first flits
        self.flits, self.wanted_acks, self.wanted_done = deque(), deque(), []
        self.kinds, self.messages, self.acked, self.inside = [], [], [], False

    async def start(self):
        await clock_and_reset(self.dut)

    def message(self, kind=PACKET):
        fields = dont_care(INTERNAL.tx_msg, self.rng, kind=kind)
        return fields, INTERNAL.tx_msg.pack(**fields)

    def packet(self, count, done=0):
        """Posts a data packet; with `done` its last flit also carries a completion."""
        fields, msg = self.message()
        for number in range(count):
            last = int(number == count - 1)
            least = 1 if number else 32  # the first flit contains the header
            byte_count = self.rng.randrange(least, 65) if last else 64
            flit = {
                "data": self.rng.getrandbits(512),
                "last": last,
                "keep": (1 << byte_count) - 1,
            }
            self.flits.append(flit)
            self.source.post({**flit, "net": 1, "first": int(number == 0), "done": done and last,
                              "msg": msg})  # fmt: skip
        self.messages.append(fields)
        if done:
            self.wanted_done.append(msg)

    def other(self, kind):
        """Posts a completion without a packet, or a barrier."""
        _, msg = self.message(kind)
        self.source.post({"net": 0, "first": 1, "last": 1, "done": int(kind == DONE), "msg": msg})
        self.wanted_done.append(msg)

    def ack(self):
        """Posts an acknowledgement, a flit with any bits behind its opcode."""
        flit = bytes([PktOpcode.SRD_ACK]) + self.rng.randbytes(SrdAck.SIZE - 1)
        data = int.from_bytes(flit, "little")
        self.acks.post({"data": data})
        header = PktHdr.unpack(flit[: PktHdr.SIZE])
        self.wanted_acks.append((header, {"data": data, "keep": (1 << 64) - 1, "last": 1}))

    def _flit(self, beat):
        """Checks a flit against the next packet flit or, between two packets, the next
        acknowledgement."""
        if not self.inside and self.wanted_acks and beat == self.wanted_acks[0][1]:
            self.acked.append(self.wanted_acks.popleft()[0])
            self.kinds.append("ack")
            return
        assert beat == self.flits.popleft()
        if not self.inside:
            self.kinds.append("packet")
            self.begun.append(cycle())
        self.inside = not beat["last"]

    def _left(self, beat):  # noqa: ARG002 - the interface of a monitor
        self.left_at.append(cycle())

    async def settle(self):
        await consumed(self.source)
        await consumed(self.acks)
        await until(self.dut, lambda: not (self.flits or self.wanted_acks), "flits", 20000)
        wanted, self.wanted_done = self.wanted_done, []
        assert [b["msg"] for b in await self.done.take(len(wanted))] == wanted
        await ClockCycles(self.dut.clk, 5)
        assert not self.done.beats
        reported = [EVENTS.tx_first.unpack(beat["data"]) for beat in self.seen["tx_first"].beats]
        assert [(e.qpn, e.msg, e.length) for e in reported] == [
            (m["qpn"], m["msg"], m["length"]) for m in self.messages]  # fmt: skip
        reported = [EVENTS.tx_last.unpack(beat["data"]) for beat in self.seen["tx_last"].beats]
        assert [(e.qpn, e.msg) for e in reported] == [(m["qpn"], m["msg"]) for m in self.messages]
        reported = [EVENTS.ackout.unpack(beat["data"]) for beat in self.seen["ackout"].beats]
        assert [(e.dst_qpn, e.status, e.msg_id) for e in reported] == [
            (header.dst_qpn, header.status, header.msg_id) for header in self.acked]  # fmt: skip
        assert [b["bytes"] for b in self.stat.beats] == [
            m["length"] for m in self.messages if not is_again(m)]  # fmt: skip
        assert [beat["send"] for beat in self.left.beats] == [
            m["send"] for m in self.messages if m["sent"]]  # fmt: skip
        assert self.left_at == [
            at for at, m in zip(self.begun, self.messages, strict=True) if m["sent"]]  # fmt: skip
        self.cancel()

    def cancel(self):
        for noted in (
            self.flits,
            self.wanted_acks,
            self.wanted_done,
            self.messages,
            self.kinds,
            self.acked,
            self.done.beats,
            self.stat.beats,
            self.left.beats,
            self.begun,
            self.left_at,
            *(s.beats for s in self.seen.values()),
        ):
            noted.clear()  # fmt: skip
        self.inside = False


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0, 0.0), (0.5, 0.0, 0.0), (0.0, 0.4, 0.7), (0.4, 0.3, 0.9)])
async def everything_leaves_in_order(dut, pace):
    """transport.net_tx.order: Packets, completions and acknowledgements leave in order at any
    rate."""
    bench = Bench(dut, *pace)
    await bench.start()
    for _ in range(200):
        dice = bench.rng.random()
        if dice < 0.3:
            bench.ack()
        elif dice < 0.5:
            bench.other(bench.rng.choice((DONE, BARRIER)))
        else:
            bench.packet(bench.rng.choice((1, 1, 2, bench.rng.randrange(1, 9))),
                         bench.rng.getrandbits(1))  # fmt: skip
    await bench.settle()


@cocotb.test()
async def they_take_turns(dut):
    """transport.net_tx.quanta: Packets and acknowledgements alternate; a packet counts as one
    grant."""
    bench = Bench(dut, periodic(8, 1))
    await bench.start()
    for number in range(12):
        bench.ack()
        bench.packet(1 + number % 3)
    await until(dut, lambda: len(bench.kinds) == 24, "packets")
    # The first grant is arbitrary; the following ones alternate strictly.
    assert all(one != other for one, other in zip(bench.kinds[1:], bench.kinds[2:-1], strict=False))
    await bench.settle()


@cocotb.test()
async def nobody_takes_completions(dut):
    """transport.net_tx.done_full: Flits stop before a completion is lost; acknowledgements
    continue."""
    held = {"on": True}
    bench = Bench(dut, done=lambda: held["on"])
    await bench.start()
    for _ in range(30):
        bench.packet(1, 1)
    await ClockCycles(dut.clk, 60)
    assert dut.s_ready.value == 0
    assert 30 - len(bench.flits) == timing("efa_net_tx", "done").depth
    for _ in range(5):
        bench.ack()
    await until(dut, lambda: not bench.wanted_acks, "acknowledgements")
    held["on"] = False
    await bench.settle()


@cocotb.test()
async def quiet_between_packets(dut):
    """transport.net_tx.quiesce: After `quiesce` the current packet ends; only completions and
    barriers follow."""
    bench = Bench(dut, 0.3)
    await bench.start()
    for turn in range(12):
        assert dut.m_net_quiet.value == 0
        bench.packet(4, 1)
        bench.other(BARRIER)
        bench.packet(3)
        bench.ack()
        await ClockCycles(dut.clk, 2 + turn)
        dut.s_quiesce.value = 1
        await RisingEdge(dut.clk)
        await until(dut, high(dut.m_net_quiet))
        assert not bench.inside
        kinds = len(bench.kinds)
        bench.ack()
        bench.packet(1)
        await ClockCycles(dut.clk, 20)
        assert len(bench.kinds) == kinds and dut.m_net_quiet.value == 1
        dut.s_quiesce.value = 0
        await ClockCycles(dut.clk, 2)
        await bench.settle()
    dut.s_quiesce.value = 1
    await ClockCycles(dut.clk, 3)
    bench.other(DONE)
    bench.other(BARRIER)
    await steady(dut, 8, m_net_quiet=1)
    await bench.settle()


@cocotb.test()
async def a_network_that_takes_nothing(dut):
    """transport.net_tx.stalled: Completions without a packet leave while the network stalls."""
    held = {"on": True}
    bench = Bench(dut, lambda: held["on"])
    await bench.start()
    await ClockCycles(dut.clk, 3)
    for _ in range(3):
        bench.other(DONE)
        bench.other(BARRIER)
    await until(dut, lambda: len(bench.done.beats) == 6, "completions", 50)
    bench.packet(1)
    held["on"] = False
    await bench.settle()


@cocotb.test()
async def cycles(dut):
    """transport.net_tx.time: Flits, acknowledgements and completions meet their specified
    cycles."""
    bench = Bench(dut)
    await bench.start()
    moments = Moments(dut, "s", "s_ack_tx", "m_net", "m_done")
    for _ in range(10):
        bench.packet(2)
    await bench.settle()
    moments.hold("efa_net_tx", "flit", "s", "m_net")
    moments.clear()
    for _ in range(10):
        bench.ack()
    await bench.settle()
    moments.hold("efa_net_tx", "flit", "s_ack_tx", "m_net")
    moments.clear()
    for _ in range(10):
        bench.other(DONE)
    await bench.settle()
    moments.hold("efa_net_tx", "done", "s", "m_done")


@cocotb.test()
async def reset_in_the_middle_of_traffic(dut):
    """transport.net_tx.reset: A reset during traffic discards all pending items; the next packet
    leaves intact."""
    bench = Bench(dut, 0.5)
    await bench.start()
    for turn in range(4):
        for _ in range(10):
            bench.ack()
            bench.packet(5, 1)
            bench.other(DONE)
        await ClockCycles(dut.clk, 30 + turn)
        bench.source.clear()
        bench.acks.clear()
        await reset(dut)
        bench.cancel()
        before = bench.net.consumed
        await ClockCycles(dut.clk, 5)
        assert bench.net.consumed == before and not bench.done.beats
        bench.ack()
        bench.packet(2, 1)
        await bench.settle()
