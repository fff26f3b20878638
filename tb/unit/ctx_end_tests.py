# SPDX-License-Identifier: Apache-2.0
"""Tests efa_ctx_end: merges outcomes of packets with errors of transmissions that failed here."""

from collections import deque

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge, Timer

from efa_cosim.layouts.defs import INTERNAL, IoCompStatus, TxKind
from tb.lib.dont_care import dont_care
from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, until, zero
from tb.unit.data_bench import Moments, consumed

FLUSHED = IoCompStatus.FLUSHED
NOTE = INTERNAL.srd_note
INPUTS = {"s_done": "msg", "s_note": "data", "s_gone": "data"}


class Bench:
    """Posts to all inputs and checks each output against the items that wait for it.

    An outcome and a transmission that was not made may each come from two inputs, and the items of
    an input leave in order.
    """

    def __init__(self, dut, name, gaps=0.0, done=0.0, note=0.0, gone=0.0):
        self.dut, self.rng = dut, rng_for(name)
        self.inputs = {prefix: StreamDriver(dut, prefix, gaps, [payload])
                       for prefix, payload in INPUTS.items()}  # fmt: skip
        self.done = StreamMonitor(dut, "m_done", done, ["msg"], on_beat=self._done)
        self.notes = StreamMonitor(dut, "m_note", note, ["data"], on_beat=self._note)
        self.gone = StreamMonitor(dut, "m_gone", gone, ["data"], on_beat=self._gone)
        self.sources = []  # of each outcome that has left: s_done or s_note
        self.cancel()

    async def start(self):
        await clock_and_reset(self.dut)

    def cancel(self):
        """Forgets all that was posted, for a reset."""
        for driver in self.inputs.values():
            driver.clear()
        # Items of s_done in order: the message, or what is left of a failed transmission.
        self.messages = deque()
        self.wanted_notes = {"s_done": deque(), "s_note": deque()}
        self.wanted_gone = {"s_done": deque(), "s_gone": deque()}

    def message(self):
        """Posts a message without a context, or a fence."""
        rng = self.rng
        kind = rng.choice(list(TxKind))
        msg = INTERNAL.tx_msg.pack(**dont_care(INTERNAL.tx_msg, rng, sent=0, kind=kind))
        self.inputs["s_done"].post({"msg": msg})
        self.messages.append(msg)

    def failure(self, status=None):
        """Posts a transmission that fails in this device."""
        rng = self.rng
        if status is None:
            status = rng.choice((FLUSHED, rng.choice(list(IoCompStatus))))
        send = dont_care(INTERNAL.srd_send, rng)
        fields = dont_care(INTERNAL.tx_msg, rng, sent=1, status=status,
                           send=INTERNAL.srd_send.pack(**send))  # fmt: skip
        self.inputs["s_done"].post({"msg": INTERNAL.tx_msg.pack(**fields)})
        left = set()
        if status != FLUSHED:
            # The bundle of the error has no other field.
            note = NOTE.pack(node=send["node"], id=send["id"], kind=send["kind"], status=status,
                             own=1)  # fmt: skip
            self.wanted_notes["s_done"].append((note, left))
            left.add("note")
        gone = INTERNAL.srd_gone.pack(
            node=send["node"], session=send["session"], psn=send["psn"])  # fmt: skip
        self.wanted_gone["s_done"].append((gone, left))
        left.add("gone")
        self.messages.append(left)

    def note(self):
        """Posts the outcome of a packet."""
        note = NOTE.pack(**dont_care(NOTE, self.rng, ended=0, own=0))
        self.inputs["s_note"].post({"data": note})
        self.wanted_notes["s_note"].append((note, set()))

    def not_made(self):
        gone = self.rng.getrandbits(INTERNAL.srd_gone.width)
        self.inputs["s_gone"].post({"data": gone})
        self.wanted_gone["s_gone"].append((gone, set()))

    def _done(self, beat):
        # A failed transmission before it has left both outputs.
        while self.messages and self.messages[0] == set():
            self.messages.popleft()
        assert beat["msg"] == self.messages.popleft(), "a message overtakes, or differs"

    def _note(self, beat):
        for source, waiting in self.wanted_notes.items():
            if waiting and waiting[0][0] == beat["data"]:
                self.sources.append(source)
                waiting.popleft()[1].discard("note")
                return
        found = NOTE.unpack(beat["data"])
        raise AssertionError(f"outcome that nobody posted, or not in order: {found}")

    def _gone(self, beat):
        for waiting in self.wanted_gone.values():
            if waiting and waiting[0][0] == beat["data"]:
                waiting.popleft()[1].discard("gone")
                return
        raise AssertionError(f"transmission that nobody posted, or not in order: {beat}")

    async def settle(self):
        for driver in self.inputs.values():
            await consumed(driver)
        await ClockCycles(self.dut.clk, 3)
        for waiting in (*self.wanted_notes.values(), *self.wanted_gone.values()):
            assert not waiting, f"did not leave: {waiting}"
        assert not [one for one in self.messages if one != set()]

    def random(self, count):
        for _ in range(count):
            self.rng.choice((self.message, self.failure))()
            self.note()
            self.not_made()


PACES = [(0.0, 0.0, 0.0, 0.0), (0.5, 0.0, 0.0, 0.0), (0.0, 0.8, 0.2, 0.2), (0.0, 0.2, 0.8, 0.2),
         (0.0, 0.2, 0.2, 0.8), (0.4, 0.5, 0.5, 0.5)]  # fmt: skip


@cocotb.test()
@cocotb.parametrize(pace=PACES)
async def each_leaves_once(dut, pace):
    """transport.ctx_end.order: Messages without a context leave in order, behind what failed
    before them. Outcomes and transmissions that were not made leave once each, with any stalls."""
    bench = Bench(dut, f"order {pace}", *pace)
    await bench.start()
    bench.random(250)
    await bench.settle()


@cocotb.test()
async def each_status(dut):
    """transport.ctx_end.status: A failed transmission is an error of this device with its status.
    With FLUSHED it is none. In both cases it was not made."""
    bench = Bench(dut, "status", 0.2, 0.3, 0.3, 0.3)
    await bench.start()
    for _ in range(3):
        for status in bench.rng.sample(list(IoCompStatus), len(IoCompStatus)):
            before = len(bench.sources)
            bench.failure(status)
            await bench.settle()
            assert len(bench.sources) - before == (status != FLUSHED)


@cocotb.test()
async def one_output_stalls(dut):
    """transport.ctx_end.stall: An output that stalls does not hold the others. A failed
    transmission leaves each output once, whatever the other one does."""
    held = dict.fromkeys(("done", "note", "gone"), False)
    bench = Bench(dut, "stall", **{name: lambda name=name: held[name] for name in held})
    await bench.start()
    for name in held:
        held[name] = True
        await ClockCycles(dut.clk, 2)
        bench.failure(IoCompStatus.LOCAL_ERROR_INVALID_LKEY)
        bench.message()
        for _ in range(5):
            bench.note()
            bench.not_made()
        await ClockCycles(dut.clk, 30)
        waiting = {"done": sum(one != set() for one in bench.messages),
                   "note": sum(map(len, bench.wanted_notes.values())),
                   "gone": sum(map(len, bench.wanted_gone.values()))}  # fmt: skip
        # The message is behind the failed transmission.
        free = set(waiting) - {name, "done"}
        assert waiting[name] and not any(waiting[one] for one in free), waiting
        held[name] = False
        await bench.settle()


@cocotb.test()
async def outcomes_take_turns(dut):
    """transport.ctx_end.quanta: Under load both sources of outcomes alternate."""
    bench = Bench(dut, "quanta")
    await bench.start()
    for _ in range(40):
        bench.failure(IoCompStatus.LOCAL_ERROR_BAD_LENGTH)
        bench.note()
        bench.not_made()
    moments = Moments(dut, "m_note", "m_gone")
    await bench.settle()
    pairs = zip(bench.sources, bench.sources[1:], strict=False)
    assert all(one != other for one, other in pairs), bench.sources
    for name in ("m_note", "m_gone"):
        assert moments.intervals(name) == {timing("efa_ctx_end", "end").interval}


@cocotb.test()
async def same_cycle(dut):
    """transport.ctx_end.time: Each item passes in the same cycle."""
    for prefix, payload in INPUTS.items():
        zero(dut, f"{prefix}_valid", f"{prefix}_{payload}")
    zero(dut, "m_done_ready", "m_note_ready", "m_gone_ready")
    await clock_and_reset(dut)
    assert timing("efa_ctx_end", "end").latency == 0
    failed = INTERNAL.tx_msg.pack(sent=1, status=IoCompStatus.LOCAL_ERROR_BAD_LENGTH)
    for prefix, payload, outputs in (("s_done", 0, {"done"}), ("s_done", failed, {"note", "gone"}),
                                     ("s_note", 0, {"note"}), ("s_gone", 0, {"gone"})):  # fmt: skip
        await RisingEdge(dut.clk)
        await Timer(1, "ns")
        drive(dut, **{f"{prefix}_valid": 1, f"{prefix}_{INPUTS[prefix]}": payload})
        await Timer(100, "ps")
        found = {name for name in ("done", "note", "gone")
                 if getattr(dut, f"m_{name}_valid").value == 1}  # fmt: skip
        assert found == outputs and getattr(dut, f"{prefix}_ready").value == 0
        drive(dut, m_done_ready=1, m_note_ready=1, m_gone_ready=1)
        await Timer(100, "ps")
        assert getattr(dut, f"{prefix}_ready").value == 1
        await RisingEdge(dut.clk)
        zero(dut, f"{prefix}_valid", "m_done_ready", "m_note_ready", "m_gone_ready")


@cocotb.test()
async def reset_in_the_middle_of_traffic(dut):
    """transport.ctx_end.reset: A reset forgets that a part of a failed transmission has left."""
    held = {"note": False, "gone": False}
    bench = Bench(dut, "reset", note=lambda: held["note"], gone=lambda: held["gone"])
    await bench.start()
    for name in ("note", "gone") * 3:
        held[name] = True
        await ClockCycles(dut.clk, 2)
        bench.failure(IoCompStatus.LOCAL_ERROR_BAD_LENGTH)
        other = bench.wanted_gone if name == "note" else bench.wanted_notes
        await until(dut, lambda other=other: not other["s_done"], "the other part")
        bench.cancel()
        await reset(dut)
        held[name] = False
        bench.failure(IoCompStatus.LOCAL_ERROR_BAD_LENGTH)
        bench.random(5)
        await bench.settle()
