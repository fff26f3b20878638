# SPDX-License-Identifier: Apache-2.0
"""Monitors of the pins, and the component that orders their batches by cycle.

The transactors log what the pins do. When the bench wakes Python, each monitor publishes the
records since the last wake as one batch of transactions (tb/env/transactions.py). Nothing runs per
clock.
"""

from __future__ import annotations

import bisect
import operator
from typing import Any

from pyuvm import ConfigDB, uvm_analysis_port, uvm_monitor, uvm_subscriber

from tb.env.transactions import (
    COMPARED,
    PREDICTED,
    Arrival,
    AsyncRequest,
    DmaWrite,
    Event,
    HostStore,
    MemoryFault,
    MemoryWrite,
    Message,
    Packet,
    PayloadRun,
    PinChange,
)
from tb.lib import requests as host

CYCLE = operator.itemgetter(0)
# No ring entry, register response or counter is longer; longer writes are payload.
LONGEST_ENTRY = 64
FIELDS = ("cycle", "addr", "be", "kind", "bar", "device")
EVENT_BYTES = 48


class LogMonitor(uvm_monitor):
    """Base of the monitors: `batch` returns the transactions of the log since the last call."""

    def build_phase(self) -> None:
        self.native = ConfigDB().get(self, "", "NATIVE")
        self.ap = uvm_analysis_port("ap", self)

    def batch(self) -> list[Any]:
        """Returns the new transactions, by cycle."""
        raise NotImplementedError

    def sample(self) -> None:
        """Publishes the new transactions."""
        batch = self.batch()
        if batch:
            self.ap.write(batch)


class HostInputMonitor(LogMonitor):
    """Publishes what the device accepts from the host: stores, pins, asynchronous events."""

    def batch(self) -> list[Any]:
        records = self.native.inputs()
        data = records["data"].tobytes()
        columns = (records[name].tolist() for name in FIELDS)
        return [
            self._transaction(data, host.LINE * number, *record)
            for number, record in enumerate(zip(*columns, strict=True))
        ]

    @staticmethod
    def _transaction(
        data: bytes,
        at: int,
        cycle: int,
        address: int,
        enables: int,
        kind: int,
        bar: int,
        device: int,
    ) -> HostStore | PinChange | AsyncRequest:
        """Returns the transaction of a record; `at` is the place of its line in the data."""
        if kind == host.IN_STORE:
            first = (enables & -enables).bit_length() - 1
            written = data[at + first : at + enables.bit_length()]
            return HostStore(cycle, device, bar, address + first, written)
        if kind == host.IN_PIN:
            return PinChange(cycle, device, host.PIN_NAMES[address], enables)
        return AsyncRequest(cycle, device, address, enables, data[at : at + EVENT_BYTES])


class HostMemoryMonitor(LogMonitor):
    """Publishes what the CPU does to host memory (see WatchedMemory)."""

    def build_phase(self) -> None:
        super().build_phase()
        self._seen: list[MemoryWrite | MemoryFault] = []

    def written(self, device: int, address: int, data: bytes) -> None:
        """Records a write of the CPU."""
        self._seen.append(MemoryWrite(self.native.cycle, device, address, data))

    def failing(self, device: int, address: int, size: int) -> None:
        """Records a range whose reads fail from now on."""
        self._seen.append(MemoryFault(self.native.cycle, device, address, size))

    def batch(self) -> list[Any]:
        seen, self._seen = self._seen, []
        return seen


class HostOutputMonitor(LogMonitor):
    """Publishes DMA writes and MSI-X messages; contiguous payload is one transaction."""

    def batch(self) -> list[Any]:
        writes = [
            DmaWrite(cycle, device, address, data) if single
            else PayloadRun(cycle, device, address, data, count, begun)
            for cycle, begun, device, address, single, count, data
            in self.native.write_runs(lambda records: records["len"] <= LONGEST_ENTRY)
        ]  # fmt: skip
        return writes + [
            Message(cycle, device, data, address)
            for cycle, address, data, device in self.native.interrupts().tolist()
        ]


def _with_bytes(kind: type[Packet | Arrival], records: Any, data: list[bytes]) -> list[Any]:
    """Returns a transaction for each record of a packet and its bytes."""
    return [
        kind(cycle, device, content)
        for cycle, device, content
        in zip(records["cycle"].tolist(), records["device"].tolist(), data, strict=True)
    ]


class PacketMonitor(LogMonitor):
    """Publishes packets that leave a device, in the cycle of their last flit."""

    def batch(self) -> list[Any]:
        return _with_bytes(Packet, *self.native.packets())


class ArrivalMonitor(LogMonitor):
    """Publishes packets that a device accepts, in the cycle of their last flit."""

    def batch(self) -> list[Any]:
        return _with_bytes(Arrival, *self.native.arrivals())


class EventMonitor(LogMonitor):
    """Publishes the ev_* reports of the devices."""

    def batch(self) -> list[Any]:
        return [
            Event(cycle, device, kind, data)
            for cycle, data, kind, device in self.native.events().tolist()
        ]


class CycleOrder(uvm_subscriber):
    """Merges the batches of all monitors by cycle; predictor and scoreboard see them in order.

    Within a cycle the order is that of the monitors. The log records a DMA write when it becomes
    visible, under its hand-over cycle: transactions that are not older than a write in flight are
    held back.
    """

    def build_phase(self) -> None:
        self.predicted = uvm_analysis_port("predicted", self)
        self.compared = uvm_analysis_port("compared", self)
        self._ahead: list[Any] = []

    def write(self, batch: list[Any]) -> None:
        """Adds the batch of one monitor."""
        self._ahead += batch

    def release(self, before: int | None = None) -> None:
        """Publishes all transactions, or those before a cycle."""
        self._ahead.sort(key=CYCLE)
        count = len(self._ahead)
        if before is not None:
            count = bisect.bisect_left(self._ahead, before, key=CYCLE)
        due, self._ahead = self._ahead[:count], self._ahead[count:]
        predict, compare = self.predicted.write, self.compared.write
        for one in due:
            kind = type(one)
            if kind in PREDICTED:
                predict(one)
            if kind in COMPARED:
                compare(one)
