# SPDX-License-Identifier: Apache-2.0
"""Builds the pyuvm environment: agents, predictor, scoreboard, coverage; base of system tests."""

from __future__ import annotations

import gc
import json
import os
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import cocotb
from pyuvm import (
    ConfigDB,
    uvm_analysis_port,
    uvm_env,
    uvm_scoreboard,
    uvm_subscriber,
    uvm_test,
)

from efa_cosim.boundary.backend import profile_strap
from efa_cosim.layouts import defs
from tb.env import coverage
from tb.env.agents import HostAgent, NetAgent
from tb.env.checked import open_backends
from tb.env.items import HostSequence
from tb.env.monitors import CycleOrder, EventMonitor
from tb.env.predictors import Predictors
from tb.env.reliable_transport import ReliableTransport
from tb.env.scoreboard import Scoreboard
from tb.env.shown import KINDS, ShownEvents
from tb.lib.bridge import bridge
from tb.lib.host import SHORT_TICKS
from tb.lib.native import PCIE_SIZES, Native, drawn_sizes

TIMERS, TIMER_CYCLES = 64, 1000  # at most so many waits for a retransmission
# All disturbances at once: random latency, split and interleaved completions, stalls on all
# streams.
ROUGH = {
    "mmio_gap": 8000, "mcpl_stall": 16000,
    "rd_latency_min": 40, "rd_latency_max": 400, "rd_tail": 600, "rd_reorder": 1,
    "rd_interleave": 1, "rd_split": 20000, "rd_stall": 8000, "rd_gap": 8000,
    "wr_stall": 16000, "wr_latency_min": 5, "wr_latency_max": 90,
    "net_stall": 8000, "net_gap": 8000, "net_latency_min": 5, "net_latency_max": 120,
}  # fmt: skip


class NicCoverage(uvm_subscriber):
    """Samples functional coverage of all published items."""

    def write(self, seen: tuple[str, Any]) -> None:
        coverage.sample(*seen)

    def report_phase(self) -> None:
        folder = os.environ.get("EFA_COVERAGE")
        if folder:
            # One file per process: bins add up over the tests of the process.
            coverage.save(os.path.join(folder, f"{os.environ['EFA_SIM']}-{os.getpid()}.json"))


class NicPredictor(uvm_subscriber):
    """Applies what the input monitors saw to the reference models."""

    def build_phase(self) -> None:
        self.models = ConfigDB().get(self, "", "MODELS")

    def write(self, one: Any) -> None:
        self.models.predict(one)


class NicScoreboard(uvm_scoreboard):
    """Compares what the output monitors saw with the predictor; publishes what was compared.

    A run without comparisons fails.
    """

    class Outputs(uvm_subscriber):
        """Receives the transactions of the output monitors."""

        def build_phase(self) -> None:
            self.compare = ConfigDB().get(self, "", "BOARD").compare

        def write(self, one: Any) -> None:
            self.compare(one)

    def build_phase(self) -> None:
        self.board = ConfigDB().get(self, "", "BOARD")
        self.outputs = self.Outputs("outputs", self)
        self.ap = uvm_analysis_port("ap", self)
        self.board.listeners.append(lambda what, item: self.ap.write((what, item)))

    def check_phase(self) -> None:
        counts = self.board.check(least=ConfigDB().get(self, "", "LEAST"))
        shown = ConfigDB().get(self, "", "SHOWN").check()
        reported = ", ".join(f"{n} {what}" for what, n in counts.items())
        self.logger.info(f"compared: {reported}, {shown} shown events")


class Software(uvm_subscriber):
    """Hands compared messages to the host software."""

    link = None

    def write(self, one: Any) -> None:
        if self.link is not None:
            self.link.write(one)


class NicEnv(uvm_env):
    """Connects agents, predictor, scoreboard and coverage.

    monitors -> order -> predictor
                      -> scoreboard -> coverage
    """

    def build_phase(self) -> None:
        self.native = ConfigDB().get(self, "", "NATIVE")
        self.simulator = os.environ["EFA_SIM"]
        self.host = HostAgent.create("host", self)
        self.net = NetAgent.create("net", self)
        self.events = EventMonitor.create("events", self)
        self.order = CycleOrder.create("order", self)
        self.predictor = NicPredictor.create("predictor", self)
        self.scoreboard = NicScoreboard.create("scoreboard", self)
        self.software = Software.create("software", self)
        self.coverage = NicCoverage.create("coverage", self)

    def connect_phase(self) -> None:
        # Within a cycle: inputs before outputs, writes of the CPU after what the pins saw.
        self.monitors = (self.host.input_monitor, self.net.monitor, self.net.arrival_monitor,
                         self.host.output_monitor, self.events,
                         self.host.memory_monitor)  # fmt: skip
        for monitor in self.monitors:
            monitor.ap.connect(self.order.analysis_export)
        self.order.predicted.connect(self.predictor.analysis_export)
        self.order.compared.connect(self.scoreboard.outputs.analysis_export)
        self.order.compared.connect(self.software.analysis_export)
        self.scoreboard.ap.connect(self.coverage.analysis_export)
        self.native.watchers.append(self.sample)

    def sample(self) -> None:
        """Publishes what the pins did since the last wake, except for what is in flight."""
        for monitor in self.monitors:
            monitor.sample()
        self.order.release(self.native.logged_until)

    def flush(self) -> None:
        """Publishes all transactions of devices at rest."""
        for monitor in self.monitors:
            monitor.sample()
        self.order.release()


class WorkSequence(HostSequence):
    """Runs one scenario of tb/scenarios as a sequence."""

    def __init__(self, work: Callable[..., Any], backends: Sequence[Any], seed: int) -> None:
        super().__init__(work.__name__)
        self.work, self.backends, self.random = work, backends, random.Random(seed)

    async def body(self) -> None:
        await self.do(self.work, self.backends, self.random)


def limits_of(params: dict[str, int]) -> dict[str, int]:
    """Returns the model limits of a device built with these parameters."""
    limits: dict[str, int] = {}
    if "QPN_W" in params:
        limits |= {"qpn_w": params["QPN_W"], "cqn_w": params["QPN_W"] + 1}
    if "LLQ_AW" in params:
        limits["llq_bytes"] = 1 << params["LLQ_AW"]
    if "SQ_HOST" in params:
        limits["sq_host"] = params["SQ_HOST"]
    return limits


def drawn_nodes(seed: int, test: str, count: int) -> list[int]:
    """Draws the node numbers of the devices of one test from the upper half; peers that scenarios
    invent are in the lower half.
    """
    last = 1 << defs.LIMITS.node_w
    return random.Random(f"nodes {seed} {test}").sample(range(last // 2, last), count)


class NicTest(uvm_test):
    """Base of the system tests: a subclass names scenario, profile, straps and timing.

    - `work`: the scenario (tb/scenarios).
    - `sequence`: a sequence of tb/env/control.py that runs instead of a scenario.
    - `least`: the minimum number of comparisons.
    - `shown`: the kinds of ev_* events compared in the default build (tb/env/shown.py).
    - `sizes`: (max payload size, max read request size) in bytes of all devices; without `sizes`
      each test draws its own pair from the seed.
    - `tick`: cycles of a tick of the transport; without it each test draws a short one, so that
      timeouts cost few cycles.

    The run draws from its seed the node numbers and how the hosts' CPUs combine stores.
    """

    work: Any
    sequence: Any
    work = sequence = None
    # Without RNR retry: most scenarios want each refusal at once.
    profile = "basic"
    interface = moderation = 0
    sizes: tuple[int, int] | None = None
    tick: int | None = None
    knobs: dict[str, int] = {}
    shown: Sequence[str] = KINDS
    least = 20

    def build_phase(self) -> None:
        params = json.loads(os.environ.get("EFA_PARAMS", "{}"))
        self.params, self.limits = params, limits_of(params)
        self.native = Native(cocotb.top)
        self.native.start(int(cocotb.RANDOM_SEED), params.get("DEVICES", 1))
        sizes = self.sizes or drawn_sizes(int(cocotb.RANDOM_SEED), type(self).__name__)
        self.logger.info("max payload size %d, max read request size %d bytes", *sizes)
        self.tick_cycles = self.tick or random.Random(
            f"tick {cocotb.RANDOM_SEED} {type(self).__name__}").choice(SHORT_TICKS)  # fmt: skip
        self.logger.info("a tick of the transport is %d cycles", self.tick_cycles)
        mps, mrrs = map(PCIE_SIZES.index, sizes)
        self.nodes = drawn_nodes(int(cocotb.RANDOM_SEED), type(self).__name__, self.native.devices)
        for device, node in enumerate(self.nodes):
            pins = {"node": node, "profile": profile_strap(self.profile), "version": self.interface,
                    "moderation": self.moderation, "mps": mps, "mrrs": mrrs,
                    "tick": self.tick_cycles, "in_log": 1, "arrive_log": 1}  # fmt: skip
            self.native.knobs(device, **pins | self.knobs)
        self.straps: dict[str, Any] = {"interface": self.interface}
        memories = [self.native.memory(d) for d in range(self.native.devices)]
        models = Predictors(
            memories, self.profile, self.nodes, self.limits,
            partial(ReliableTransport, tick_cycles=self.tick_cycles), **self.straps,
        )
        for predictor in models.devices:
            predictor.device.set_msix(True, False)
        board = Scoreboard(models, self.moderation)
        shown = ShownEvents(board, () if params else self.shown)
        # The logs are long lists of tuples without reference cycles; the cyclic collector costs a
        # tenth of the time.
        gc.freeze()
        gc.set_threshold(200_000)
        for name, value in (("NATIVE", self.native), ("MODELS", models), ("BOARD", board),
                            ("LEAST", self.least), ("SHOWN", shown)):  # fmt: skip
            ConfigDB().set(None, "*", name, value)
        self.env = NicEnv.create("env", self)

    async def run_phase(self) -> None:
        self.raise_objection()
        backends = await bridge(open_backends)(
            self.env, self.native, self.nodes, self.profile, self.limits, self.straps
        )
        for backend in backends:
            backend.store_buffer = os.environ["EFA_STORE_BUFFER"]
            backend.built_with(self.params)
            backend.tick_cycles = self.tick_cycles
        self.logger.info(f"store buffer {backends[0].store_buffer}")
        seed = int(cocotb.RANDOM_SEED)
        own = type(self).sequence
        sequence = own(backends, seed) if own else WorkSequence(self.work, backends, seed)
        await sequence.start(self.env.host.sequencer)
        await bridge(backends[0].settle)()
        # No host waits for a read response that was lost: its timer sends it again.
        board = ConfigDB().get(self, "", "BOARD")
        for _ in range(TIMERS):
            if not board.in_flight():
                break
            await bridge(backends[0].pause)(TIMER_CYCLES)
        self.drop_objection()
