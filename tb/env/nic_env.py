# SPDX-License-Identifier: Apache-2.0
"""Builds the pyuvm environment: agents, scoreboard, coverage, and the base class of system tests.

The items of the host agent are pieces of host software (driver and verbs calls), which run against
the device in the simulation. Its monitor publishes all outputs of the device. The network agent
injects packets that no device sent. Transactors and their timing are native.
"""

import json
import os
import random

import cocotb
from cocotb.task import bridge
from pyuvm import (
    ConfigDB,
    uvm_agent,
    uvm_analysis_port,
    uvm_driver,
    uvm_env,
    uvm_monitor,
    uvm_scoreboard,
    uvm_sequence_item,
    uvm_sequencer,
    uvm_subscriber,
    uvm_test,
)

from tb.env import coverage
from tb.env.checked import checked
from tb.env.items import HostSequence
from tb.env.shown import KINDS, ShownEvents
from tb.lib.native import Native

# Values of max payload size and max read request size; the strap is the index.
PCIE_SIZES = (128, 256, 512, 1024, 2048, 4096)

# All disturbances at once: random latency, split and interleaved completions, stalls on all
# streams.
ROUGH = {
    "mmio_gap": 8000, "mcpl_stall": 16000,
    "rd_latency_min": 40, "rd_latency_max": 400, "rd_tail": 600, "rd_reorder": 1,
    "rd_interleave": 1, "rd_split": 20000, "rd_stall": 8000, "rd_gap": 8000,
    "wr_stall": 16000, "wr_latency_min": 5, "wr_latency_max": 90,
    "net_stall": 8000, "net_gap": 8000, "net_latency_min": 5, "net_latency_max": 120,
}  # fmt: skip


class HostDriver(uvm_driver):
    """Runs items one after the other, in a thread that blocks the simulation."""

    async def run_phase(self):
        while True:
            item = await self.seq_item_port.get_next_item()
            item.result = await bridge(item.work)()
            self.seq_item_port.item_done()


class BoundaryMonitor(uvm_monitor):
    """Publishes the scoreboard's reports: packets, completions, responses, ev_* events."""

    def build_phase(self):
        self.ap = uvm_analysis_port("ap", self)
        board = ConfigDB().get(self, "", "BOARD")
        board.listeners.append(lambda what, item: self.ap.write((what, item)))


class HostAgent(uvm_agent):
    """The host of one device."""

    def build_phase(self):
        self.sequencer = uvm_sequencer("sequencer", self)
        self.driver = HostDriver("driver", self)
        self.monitor = BoundaryMonitor("monitor", self)

    def connect_phase(self):
        self.driver.seq_item_port.connect(self.sequencer.seq_item_export)


class PacketItem(uvm_sequence_item):
    """A packet that no device sent, addressed to one device."""

    def __init__(self, packet, device=0):
        super().__init__("packet")
        self.packet, self.device = bytes(packet), device


class NetDriver(uvm_driver):
    """Injects packets; the fabric determines the timing."""

    async def run_phase(self):
        native = ConfigDB().get(self, "", "NATIVE")
        while True:
            item = await self.seq_item_port.get_next_item()
            native.inject(item.device, item.packet)
            self.seq_item_port.item_done()


class NetAgent(uvm_agent):
    """A peer on the fabric that sends arbitrary packets."""

    def build_phase(self):
        self.sequencer = uvm_sequencer("sequencer", self)
        self.driver = NetDriver("driver", self)

    def connect_phase(self):
        self.driver.seq_item_port.connect(self.sequencer.seq_item_export)


class NicCoverage(uvm_subscriber):
    """Samples functional coverage of all published items."""

    def write(self, seen):
        coverage.sample(*seen)

    def report_phase(self):
        folder = os.environ.get("EFA_COVERAGE")
        if folder:
            # One file per process: bins add up over the tests of the process.
            coverage.save(os.path.join(folder, f"{os.environ['EFA_SIM']}-{os.getpid()}.json"))


class NicScoreboard(uvm_scoreboard):
    """Holds the comparison; a run without comparisons fails."""

    def build_phase(self):
        self.board = ConfigDB().get(self, "", "BOARD")

    def check_phase(self):
        counts = self.board.check(least=ConfigDB().get(self, "", "LEAST"))
        shown = ConfigDB().get(self, "", "SHOWN").check()
        reported = ", ".join(f"{n} {what}" for what, n in counts.items())
        self.logger.info(f"compared: {reported}, {shown} shown events")


class NicEnv(uvm_env):
    """Connects agents, scoreboard and coverage."""

    def build_phase(self):
        self.host = HostAgent("host", self)
        self.net = NetAgent("net", self)
        self.scoreboard = NicScoreboard("scoreboard", self)
        self.coverage = NicCoverage("coverage", self)

    def connect_phase(self):
        self.host.monitor.ap.connect(self.coverage.analysis_export)


class WorkSequence(HostSequence):
    """Runs one scenario of tb/scenarios as a sequence."""

    def __init__(self, work, backends, seed):
        super().__init__(work.__name__)
        self.work, self.backends, self.random = work, backends, random.Random(seed)

    async def body(self):
        await self.do(self.work, self.backends, self.random)


def drawn_sizes(seed, test):
    """Draws max payload size and max read request size in bytes, independently, for one test."""
    draw = random.Random(f"{seed} {test}")
    return draw.choice(PCIE_SIZES), draw.choice(PCIE_SIZES)


def limits_of(params):
    """Returns the model limits of a device built with these parameters."""
    limits = {}
    if "QPN_W" in params:
        limits |= {"qpn_w": params["QPN_W"], "cqn_w": params["QPN_W"] + 1}
    if "LLQ_AW" in params:
        limits["llq_bytes"] = 1 << params["LLQ_AW"]
    if "SQ_HOST" in params:
        limits["sq_host"] = params["SQ_HOST"]
    return limits


class NicTest(uvm_test):
    """Base of the system tests: a subclass names scenario, profile, straps and timing.

    - `work`: the scenario (tb/scenarios).
    - `sequence`: a sequence of tb/env/control.py that runs instead of a scenario.
    - `least`: the minimum number of comparisons.
    - `shown`: the kinds of ev_* events compared in the default build (tb/env/shown.py).
    - `sizes`: (max payload size, max read request size) in bytes of all devices; without `sizes`
      each test draws its own pair from the seed.

    The run draws from its seed how the hosts' CPUs combine stores.
    """

    work = sequence = None
    profile = "default"
    interface = moderation = 0
    sizes = None
    knobs = {}
    shown = KINDS
    least = 20

    def build_phase(self):
        params = json.loads(os.environ.get("EFA_PARAMS", "{}"))
        self.limits = limits_of(params)
        self.native = Native(cocotb.top)
        self.native.start(int(cocotb.RANDOM_SEED), params.get("DEVICES", 1))
        sizes = self.sizes or drawn_sizes(int(cocotb.RANDOM_SEED), type(self).__name__)
        self.logger.info("max payload size %d, max read request size %d bytes", *sizes)
        mps, mrrs = map(PCIE_SIZES.index, sizes)
        for device in range(self.native.devices):
            recorded = int(self.profile == "recorded")
            pins = {"node": 1 + device, "profile": recorded, "version": self.interface,
                    "moderation": self.moderation, "mps": mps, "mrrs": mrrs}  # fmt: skip
            self.native.knobs(device, **pins | self.knobs)
        straps = {"interface": self.interface, "moderation": self.moderation}
        board, self.open_backends = checked(self.native, self.profile, self.limits, **straps)
        shown = ShownEvents(board, () if params else self.shown)
        for name, value in (("NATIVE", self.native), ("BOARD", board), ("LEAST", self.least),
                            ("SHOWN", shown)):  # fmt: skip
            ConfigDB().set(None, "*", name, value)
        self.env = NicEnv("env", self)

    async def run_phase(self):
        self.raise_objection()
        backends = await bridge(self.open_backends)()
        for backend in backends:
            backend.store_buffer = os.environ["EFA_STORE_BUFFER"]
            backend.sq_host = bool(self.limits.get("sq_host"))
        self.logger.info(f"store buffer {backends[0].store_buffer}")
        seed = int(cocotb.RANDOM_SEED)
        own = type(self).sequence
        sequence = own(backends, seed) if own else WorkSequence(type(self).work, backends, seed)
        await sequence.start(self.env.host.sequencer)
        await bridge(backends[0].settle)()
        self.drop_objection()
