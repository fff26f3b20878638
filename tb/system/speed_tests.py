# SPDX-License-Identifier: Apache-2.0
"""Measures the simulation speed of the whole device: clocks only, and checked traffic.

This file tests no function of the device: `make bench-sim` runs it and reads its measurements.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import cocotb
import numpy as np
import pyuvm
from pyuvm import uvm_factory

from efa_cosim.boundary.backend import Backend
from efa_cosim.host.endpoints import SRD, UD, Destination, Endpoint, Node, pattern
from efa_cosim.layouts import defs
from tb.env.nic_env import NicCoverage, NicEnv, NicTest
from tb.env.scoreboard import Scoreboard
from tb.lib.host import RtlBackend
from tb.lib.native import Native

if TYPE_CHECKING:
    from random import Random

CLOCKS = 100_000
PER_QUEUE = 30
ROUNDS = 6
SIZES = (64, 1024, 4096)  # bytes; used in rotation by the queues
ROOM = 4096 + 64
Awaiting: TypeAlias = Coroutine[Any, Any, Any]


def keep(**measurements: Any) -> None:
    """Adds measurements to the file that tb/bench_sim.py reads from the run's folder."""
    path, known = "speed.json", {}
    if os.path.exists(path):
        with open(path) as stream:
            known = json.load(stream)
    with open(path, "w") as stream:
        json.dump({**known, **measurements}, stream)


@cocotb.test()
async def clocks_only(dut: Any) -> None:
    """bench.speed.clocks"""
    native = Native(dut)
    native.start(1)
    await native.run([], 20_000)
    scale = 1 if os.environ["EFA_SIM"] == "verilator" else 20
    before, started = native.cycle, time.process_time()
    await native.run([], CLOCKS // scale)
    cycles = native.cycle - before
    keep(clocks_only=cycles / (time.process_time() - started), clocks_only_cycles=cycles)


class End(Endpoint):
    """An endpoint of the ring of queues: the message size, and its neighbours on both sides."""

    size: int
    to: Destination
    source: End


def traffic(backend: RtlBackend, board: Scoreboard, shares: Shares, rounds: int) -> None:
    """Sends from every queue of the device to its neighbour, in rounds, under the scoreboard."""
    node = Node(backend)
    queues = 1 << defs.LIMITS.qpn_w
    ends = [End(node, UD if n % 4 == 0 else SRD, depth=64) for n in range(queues)]
    peers: dict[End, End] = {}
    for kind in (UD, SRD):
        same = [end for end in ends if end.kind == kind]
        peers |= dict(zip(same, same[1:] + same[:1], strict=True))
    ids = np.arange(PER_QUEUE)
    for number, end in enumerate(ends):
        end.size = SIZES[number % len(SIZES)]
        end.buffer.write(0, pattern(end.size, end.qp.number))
        end.to = end.towards(peers[end])
        peers[end].source = end
    backend.settle()
    before, started = backend.cycles, time.process_time()
    parts, wall = dict(shares.seconds), time.perf_counter()
    for _ in range(rounds):
        for end in ends:
            at = end.buffer.addr + 8192 + ROOM * ids
            end.qp.post_recv_many(ids, at, end.skip + end.source.size, end.buffer.l_key)
        for end in ends:
            what = (end.buffer.addr, end.size, end.buffer.l_key)
            end.qp.post_send_many(ids, **end.to, sges=[what])
        for end in ends:
            done = end.cq.wait_for(2 * PER_QUEUE)
            assert not done["status"].any()
    backend.settle()
    cycles = backend.cycles - before
    compared = sum(board.check().values())
    seconds = time.process_time() - started
    keep(traffic=cycles / seconds, traffic_cycles=cycles, seconds=seconds, queues=queues,
         messages=rounds * queues * PER_QUEUE, compared=compared,
         shares=shares.since(parts, time.perf_counter() - wall))  # fmt: skip


class Shares:
    """CPU seconds of each part of a run: simulator, monitors, predictor, scoreboard."""

    def __init__(self, native: Native, env: NicEnv) -> None:
        self.seconds = dict.fromkeys(("run", "publish", "monitors", "predictor", "scoreboard"), 0.0)
        # Replaces the method on this object, to measure its time.
        native.run = self._timed_run(native.run)  # type: ignore[method-assign]
        native.watchers[:] = [self._timed("publish", one) for one in native.watchers]
        for monitor in env.monitors:
            monitor.sample = self._timed("monitors", monitor.sample)
        for name, port in (("predictor", env.order.predicted), ("scoreboard", env.order.compared)):
            port.write = self._timed(name, port.write)

    def _timed(self, name: str, function: Callable[..., Any]) -> Callable[..., None]:
        seconds, clock = self.seconds, time.perf_counter

        def timed(*arguments: Any) -> None:
            started = clock()
            function(*arguments)
            seconds[name] += clock() - started

        return timed

    def _timed_run(self, run: Callable[..., Awaiting]) -> Callable[..., Awaiting]:
        async def timed(*arguments: Any, **named: Any) -> Any:
            started = time.perf_counter()
            try:
                return await run(*arguments, **named)
            finally:
                self.seconds["run"] += time.perf_counter() - started

        return timed

    def since(self, before: Mapping[str, float], elapsed: float) -> dict[str, float]:
        """Returns the share of each part of `elapsed` seconds since a copy of `seconds`."""
        spent = {name: value - before[name] for name, value in self.seconds.items()}
        parts = {name: spent[name] for name in ("monitors", "predictor", "scoreboard")}
        parts["order"] = spent["publish"] - sum(parts.values())
        parts["simulator"] = spent["run"] - spent["publish"]
        parts["host software"] = elapsed - spent["run"]
        return {name: value / elapsed for name, value in parts.items()}


class NoCoverage(NicCoverage):
    """Takes the place of the coverage collector: coverage is not part of the measured bench."""

    def write(self, seen: tuple[str, Any]) -> None:
        """Samples nothing."""


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class TrafficOnAllQueues(NicTest):
    """bench.speed.traffic"""

    sizes = 512, 512
    tick = defs.TRANSPORT.tick_cycles
    shown = ()
    knobs = {"ev_mask": sum(1 << int(defs.Ev[name]) for name in ("RX_LAST", "RESET"))}

    def build_phase(self) -> None:
        uvm_factory().set_type_override_by_type(NicCoverage, NoCoverage)
        super().build_phase()

    def end_of_elaboration_phase(self) -> None:
        self.shares = Shares(self.native, self.env)

    def work(self, backends: Sequence[RtlBackend], _rng: Random) -> None:
        """Measures the traffic; the store buffer is that of every such run."""
        backends[0].store_buffer = Backend.store_buffer
        rounds = ROUNDS if os.environ["EFA_SIM"] == "verilator" else 1
        traffic(backends[0], self.env.scoreboard.board, self.shares, rounds)
