# SPDX-License-Identifier: Apache-2.0
"""Runs workloads of the cycle model on the RTL and stores their events for the comparison.

This file tests no function of the device: tb/cycle/timed.py selects the workloads and reads the
stored events.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cocotb
import numpy as np

from efa_cosim.boundary.events import where
from efa_cosim.cycle.workload import INLINE, Workload, consumer_index
from efa_cosim.host.completion_queue import PHASE
from efa_cosim.host.driver_objects import Access
from efa_cosim.host.endpoints import QKEY, SRD, Endpoint, Node, pattern
from efa_cosim.host.queue_pair import RdmaWr, Sge
from efa_cosim.layouts import defs
from tb.lib import requests as host
from tb.lib.at_once import at_once
from tb.lib.bridge import bridge, resume
from tb.lib.host import IDLE_CYCLES, WAIT_CYCLES, RtlBackend, in_simulation
from tb.lib.native import Native

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from efa_cosim.boundary.backend import Store
    from efa_cosim.host.queue_pair import QueuePair
    from efa_cosim.host.verbs import RegisteredRegion

KINDS = {"SRD": defs.AdminQpType.SRD, "UD": defs.AdminQpType.UD}
LEAD_CYCLES = 64  # open loop: from the posting of the program to its first store
PHASE_CYCLES = 4096  # a multiple of each period of the device
# Latencies outside a workload: short, so that a set-up ends within a phase.
SETUP = {"read_latency": 20, "write_latency": 10, "net_latency": 10}
RECEIVE_SPACE = 1 << 16  # offset of received bytes, after the sent bytes
TIMESTAMP_BASE = 1 << 32
ENDLESS = 7  # retries after RNR: no limit
# Of a message that is sent again: a timeout before the first measurement of a round-trip time, or
# back-offs.
AGAIN_CYCLES = 4 * defs.TRANSPORT.rto_initial * defs.TRANSPORT.tick_cycles
EVERY_PORT = 0x3F


class EndlessIds:
    """Request ids of a queue whose outstanding messages the host program counts."""

    def __init__(self, depth: int) -> None:
        self.depth, self.produced = depth, 0

    def take(self, wr_ids: ArrayLike) -> np.ndarray:
        """Returns the ids, truncated to the field of a WQE."""
        return (np.asarray(wr_ids) & 0xFFFF).astype("u2")


class Recorder:
    """Records stores in place of a bus, and CPU writes in place of host memory."""

    def __init__(self) -> None:
        self.items: list[Store]
        self.written: list[bytes]
        self.items, self.written = [], []

    def stores(self, items: Iterable[Store]) -> None:
        """Records the stores of one call of the provider."""
        self.items += items

    def write(self, address: int, data: bytes) -> None:
        """Records WQEs of a send queue in host memory, line by line."""
        self.written += [host.host_write(address + at, data[at : at + host.LINE])
                         for at in range(0, len(data), host.LINE)]


class End:
    """A queue pair with a completion queue for each direction and a registered buffer."""

    def __init__(
        self, node: Node, work: Workload, number: int, qp: QueuePair, buffer: RegisteredRegion
    ) -> None:
        self.node, self.number, self.qp, self.buffer = node, number, qp, buffer
        self.scq, self.rcq = qp.send_cq, qp.recv_cq
        self.skip = defs.LIMITS.grh_bytes if work.kind == "UD" else 0
        self.buffer.write(0, pattern(max(1, work.size), work.seed + number))
        # Replaces the queue on this object: the program counts what is outstanding.
        self.qp.sq = EndlessIds(self.qp.sq.depth)  # type: ignore[assignment]

    def receive(self, work: Workload) -> None:
        """Posts all receives; all of them use the same buffer. An RDMA write with immediate writes
        nothing to it, one without needs no receive."""
        if work.receives and not work.late:
            length = self.skip + work.size if work.operation == "SEND" else 1
            self.qp.post_recv_many(np.arange(work.per_queue), self.buffer.addr + RECEIVE_SPACE,
                                   length, self.buffer.l_key)

    def receive_one(self, work: Workload, number: int) -> None:
        """Posts one receive."""
        self.qp.post_recv_many(np.array([number]), self.buffer.addr + RECEIVE_SPACE, work.size,
                               self.buffer.l_key)

    def pieces(self, work: Workload) -> list[tuple[int, int, int]]:
        """Returns the buffers of a message, back to back."""
        at = np.cumsum((0, *work.pieces[:-1])) + self.buffer.addr
        return [(where, length, self.buffer.l_key)
                for where, length in zip(at.tolist(), work.pieces, strict=True)]

    def wqes(self, work: Workload, peer: End) -> np.ndarray:
        """Returns the WQEs of a doorbell. A queue reads what the next one would send."""
        ah = self.node.ah_of(1)
        inline = pattern(work.size, work.seed + self.number) if work.inline else None
        if work.operation == "SEND":
            how: dict[str, Any] = {"sges": self.pieces(work)} if inline is None else {
                "inline": inline}
            return self.qp.sends(work.batch, ah, peer.qp.number, QKEY, **how)
        if work.reads:
            request = RdmaWr(ah, peer.qp.number, QKEY, peer.buffer.addr, peer.buffer.r_key)
            if work.size:
                request.sges = [Sge(self.buffer.addr + RECEIVE_SPACE, work.size,
                                    self.buffer.l_key)]  # fmt: skip
            return self.qp.reads(work.batch, request)
        request = RdmaWr(ah, peer.qp.number, QKEY, peer.buffer.addr + RECEIVE_SPACE,
                         peer.buffer.r_key, imm=1 if work.operation == "WRITE_IMM" else None)
        # A WQE of 64 bytes has no inline bytes of a write. An empty write has no buffer.
        if inline is None:
            request.sges = [Sge(*piece) for piece in self.pieces(work)]
        elif work.entry_bytes == max(INLINE):
            request.inline = inline
        return self.qp.writes(work.batch, request)

    def completed(self, count: int) -> bytes:
        """Returns the host wait for `count` send completions of this queue."""
        at = self.scq.base + (count - 1) % self.scq.depth * self.scq.entry.SIZE
        wrap = (count - 1) // self.scq.depth
        return host.wait_memory(at, PHASE, 0 if wrap % 2 else PHASE)

    def report(self, consumed: int) -> None:
        """Rings the doorbell of the send completion queue."""
        self.scq.skip(consumed - self.scq.consumed)
        self.scq.ring()

    def destroy(self) -> None:
        """Destroys queue pair, completion queues and region."""
        self.qp.destroy()
        self.scq.destroy()
        self.rcq.destroy()
        self.buffer.dereg()


def new_ends(node: Node, work: Workload) -> list[End]:
    """Returns the queue pairs of a workload, in RTS. Many commands are outstanding at once, so that
    the set-up of many queue pairs does not take longer than their messages."""
    run = partial(at_once, node.driver)
    cqs = iter(run([partial(node.context.create_cq, work.per_queue, entry_bytes=32)]
                   * (2 * work.queues)))  # fmt: skip
    create = partial(node.pd.create_qp, kind=KINDS[work.kind], max_send_wr=max(2, work.depth),
                     max_recv_wr=work.per_queue, max_inline=INLINE[work.entry_bytes])
    qps = run([partial(create, *pair) for pair in zip(cqs, cqs, strict=True)])
    retries = ENDLESS if work.late else None
    run([partial(qp.to_rts, QKEY, rnr_retry=retries) for qp in qps])
    rights = Access(remote_write=True, remote_read=True)
    buffers = run([partial(node.pd.reg_mr, 2 * RECEIVE_SPACE, rights)] * work.queues)
    return [End(node, work, number, *both)
            for number, both in enumerate(zip(qps, buffers, strict=True))]


def program(ends: list[End], work: Workload, start: int) -> tuple[list[bytes], list[int]]:
    """Returns every host access of the workload in order, and the bus beats of each post."""
    node = ends[0].node
    # Replaces bus and host memory while WQEs are posted; the provider calls no other methods.
    recorder: Any = Recorder()
    real, node.context.backend = node.context.backend, recorder
    memory, node.driver.memory = node.driver.memory, recorder
    accesses: list[bytes]
    beats: list[int]
    accesses, beats = [], []
    for turn in range(work.rounds):
        ids: np.ndarray = np.arange(turn * work.batch, (turn + 1) * work.batch)
        for end, peer in zip(ends, ends[1:] + ends[:1], strict=True):
            wqes = end.wqes(work, peer)
            must = int(ids[-1]) + 1 - work.depth
            consumed = consumer_index(work, must)
            if consumed:
                end.report(consumed)
            end.qp.post_wqes(wqes, ids)
            items, recorder.items = recorder.items, []
            if work.gap:
                accesses.append(host.until_cycle(start + len(beats) * work.gap))
            if must > 0:
                accesses.append(end.completed(must))
            accesses += recorder.written + [host.store(*item) for item in items[:-1]]
            recorder.written = []
            accesses += [host.timestamp(TIMESTAMP_BASE + len(beats)), host.store(*items[-1])]
            if work.late:
                # Its descriptor is in host memory from the beginning.
                node.driver.memory = memory
                peer.receive_one(work, int(ids[0]))
                node.driver.memory = recorder
                accesses.append(host.until_cycle(start + len(beats) * work.gap + work.late))
                accesses += [host.store(*item) for item in recorder.items]
                recorder.items = []
            beats.append(len(items) - 1 - bool(consumed))
    if work.again:
        # The device is idle while it waits to send a message again.
        accesses += [end.completed(work.per_queue) for end in ends]
    node.context.backend, node.driver.memory = real, memory
    return accesses, beats


def open_session(node: Node) -> None:
    """Sends one message to the own node. The session to the node then exists, and the incarnation
    of the node is known: the first packet after a reset meets its quiet time."""
    end = Endpoint(node, SRD, depth=2)
    end.receive(1)
    end.send(end, b"1", inline=True)
    assert not end.cq.wait_for(2)["status"].any(), "the message that opens the session failed"
    end.qp.destroy()
    end.cq.destroy()
    end.buffer.dereg()
    node.backend.settle()


def begin_phase(native: Native, backend: RtlBackend) -> None:
    """Waits for the next phase. Ticks count from power-on and scans from the reset: if the reset
    and the first store of a workload both follow such a wait, earlier workloads change nothing."""
    turn = (native.cycle // PHASE_CYCLES + 1) * PHASE_CYCLES
    native.post(0, [host.until_cycle(turn)])
    assert backend.link.run([host.idle(1)], 2 * PHASE_CYCLES) >= 0


def set_latencies(native: Native, read_latency: int, write_latency: int, net_latency: int) -> None:
    """Sets the latencies of host and fabric, in cycles."""
    native.knobs(0, rd_latency_min=read_latency, rd_latency_max=read_latency,
                 wr_latency_min=write_latency, wr_latency_max=write_latency,
                 net_latency_min=net_latency, net_latency_max=net_latency)  # fmt: skip


def measure(native: Native, node: Node, work: Workload) -> dict[str, np.ndarray]:
    """Runs one workload; returns its events and timestamps."""
    backend = node.backend
    assert isinstance(backend, RtlBackend)
    node.ah_of(1)
    ends = new_ends(node, work)
    for end in ends:
        end.receive(work)
    backend.settle()
    backend.events()
    native.packets()
    read_counters = resume(native.perf_counters)
    before = np.array(read_counters(), np.int64)
    native.pins()
    set_latencies(native, work.read_latency, work.write_latency, work.net_latency)
    native.knobs(0, net_loss=work.loss, pin_mask=EVERY_PORT, cnt_run=1)
    begin_phase(native, backend)
    start = backend.cycles + LEAD_CYCLES
    accesses, beats = program(ends, work, start)
    began, cycle = time.process_time(), native.cycle
    native.post(0, accesses)
    # Messages one by one take longer than `settle` waits.
    limit = WAIT_CYCLES + work.total * (
        2 * (work.read_latency + work.net_latency) + work.write_latency + work.gap
        + (AGAIN_CYCLES if work.again else 0))
    idle = backend.link.run([host.idle(IDLE_CYCLES)], limit)
    assert idle >= 0, f"{work}: not complete within {limit} cycles"
    seconds = time.process_time() - began
    cycles = native.cycle - cycle
    native.knobs(0, pin_mask=0, cnt_run=0, net_loss=0)
    set_latencies(native, **SETUP)
    events, timestamps, pins = backend.events(), native.loads(), native.pins()
    lost = native.packets()[0]["fate"] == host.FATE_LOST
    perf_counters = np.array(read_counters(), np.int64) - before
    for end, peer in zip(ends, ends[1:] + ends[:1], strict=True):
        if work.reads:
            end, peer = peer, end
        want = pattern(work.size, work.seed + end.number)
        got = peer.buffer.read(RECEIVE_SPACE + peer.skip, work.size)
        assert got == want, f"{work}: queue {end.number} did not deliver its bytes"
    queues = [end.qp.number & (1 << defs.LIMITS.qpn_w) - 1 for end in ends]
    numbers = [end.qp.number for end in ends]
    at_once(node.driver, [end.destroy for end in ends])
    return {
        "events": events,
        "pins": pins,
        "lost": lost,
        "timestamps": timestamps["cycle"].astype("u8"),
        "beats": np.array(beats),
        "queues": np.array(queues),
        "numbers": np.array(numbers),
        "perf_counters": perf_counters,
        "rings": np.array([end.qp.receive_ring for end in ends]),
        "seconds": np.array(seconds),
        "cycles": np.array(cycles),
    }


@cocotb.test()
async def workloads(dut: Any) -> None:
    """bench.timed"""
    wanted = [Workload(**values) for values in json.loads(Path(os.environ["EFA_WORKLOADS"])
                                                          .read_text())]
    folder = Path(os.environ["EFA_TIMED"])
    native = Native(dut)
    native.start(1)
    set_latencies(native, **SETUP)
    backend = in_simulation(native)[0]
    # All workloads of a run use the same build.
    backend.sq_host = bool(wanted[0].sq_host)

    def run() -> None:
        # Messages of SRD since power-on: each takes the next context.
        sent = 0
        for number, work in enumerate(wanted):
            begin_phase(native, backend)
            # The transport learns from what it sends, and begins again after a reset.
            node = Node(backend)
            drained = where(backend.events(), "reset", step=1)["cycle"][-1]
            open_session(node)
            context = node.context
            context.wc = type(context.wc)(context.wc._sink, work.policy, work.seed)
            found: dict[str, Any]
            first = (sent + 1) % (2 << defs.LIMITS.msg_w)
            found = measure(native, node, work) | {"reset": np.array(drained),
                                                   "context": np.array(first)}
            sent += 1 + work.total * (work.kind == "SRD")
            np.savez(folder / f"{number:04d}.part.npz", **found)
            (folder / f"{number:04d}.part.npz").rename(folder / f"{number:04d}.npz")

    await bridge(run)()
