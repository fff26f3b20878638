# SPDX-License-Identifier: Apache-2.0
"""Agents of the host and of the fabric: sequencer, driver and monitors.

Sequences of the host agent are host software (driver and verbs calls), whose accesses are items.
Transactors and their timing are native.
"""

from __future__ import annotations

from pyuvm import ConfigDB, uvm_agent, uvm_driver, uvm_sequencer

from tb.env.items import HostAccess
from tb.env.monitors import (
    ArrivalMonitor,
    HostInputMonitor,
    HostMemoryMonitor,
    HostOutputMonitor,
    PacketMonitor,
)


class HostDriver(uvm_driver):
    """Posts accesses and asynchronous events; the transactors determine the timing."""

    async def run_phase(self) -> None:
        native = ConfigDB().get(self, "", "NATIVE")
        while True:
            item = await self.seq_item_port.get_next_item()
            if isinstance(item, HostAccess):
                native.post(item.device, item.requests)
            else:
                native.request_event(item.device, item.group, item.syndrome, item.data)
            self.seq_item_port.item_done()


class HostAgent(uvm_agent):
    """The hosts of all devices: PCIe and host memory."""

    def build_phase(self) -> None:
        self.sequencer = uvm_sequencer("sequencer", self)
        self.driver = HostDriver.create("driver", self)
        self.input_monitor = HostInputMonitor.create("input_monitor", self)
        self.memory_monitor = HostMemoryMonitor.create("memory_monitor", self)
        self.output_monitor = HostOutputMonitor.create("output_monitor", self)

    def connect_phase(self) -> None:
        self.driver.seq_item_port.connect(self.sequencer.seq_item_export)


class NetDriver(uvm_driver):
    """Injects packets; the fabric determines the timing."""

    async def run_phase(self) -> None:
        native = ConfigDB().get(self, "", "NATIVE")
        while True:
            item = await self.seq_item_port.get_next_item()
            native.inject(item.device, item.packet)
            self.seq_item_port.item_done()


class NetAgent(uvm_agent):
    """The fabric: a peer that sends arbitrary packets, and the packets of the devices."""

    def build_phase(self) -> None:
        self.sequencer = uvm_sequencer("sequencer", self)
        self.driver = NetDriver.create("driver", self)
        self.monitor = PacketMonitor.create("monitor", self)
        self.arrival_monitor = ArrivalMonitor.create("arrival_monitor", self)

    def connect_phase(self) -> None:
        self.driver.seq_item_port.connect(self.sequencer.seq_item_export)
