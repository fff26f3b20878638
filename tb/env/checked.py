# SPDX-License-Identifier: Apache-2.0
"""Runs the RTL backend under a scoreboard, with the interface of RtlBackend.

    scoreboard, open_backends = checked(native)
    backends = await bridge(open_backends)()
    await bridge(software)(backends[0])
    scoreboard.check()
"""

import bisect
import gc
import operator
import os

from tb.env.iommu import LiveMemory
from tb.env.scoreboard import Scoreboard
from tb.lib import requests as host
from tb.lib.host import InnerLink, RtlBackend

CYCLE = operator.itemgetter(0)
# Longest time in which a device may work on an arm without visible output.
UNSEEN_CYCLES = 2000
LOGS = ("packets", "writes", "interrupts", "events")


class TappedLink(InnerLink):
    """Passes the outputs of the devices to the scoreboard by cycle, before software sees them."""

    def __init__(self, native):
        super().__init__(native)
        self.scoreboard = None
        self._ahead = []
        self._collected = -1

    def collect(self):
        """Merges all logs. A packet is ordered by the cycle of its departure, before its effects.

        The log records a write when the write becomes visible, under its hand-over cycle. Outputs
        that are not older than a write in flight are therefore held back.
        """
        native, board = self.native, self.scoreboard
        if native.cycle == self._collected:
            return
        self._collected = native.cycle
        idle, happened = native.idle, self._ahead
        records, data = native.packets()
        for record, content in zip(records.tolist(), data, strict=True):
            happened.append((record[0], board.packet, record[3], (content,)))
        happened += self._writes()
        for cycle, address, vector, device in native.interrupts().tolist():
            happened.append((cycle, board.interrupt, device, (vector, address)))
            self._kept[device]["interrupts"].append(vector)
        for cycle, value, kind, device in native.events().tolist():
            happened.append((cycle, board.event, device, (kind, value)))
        # A packet is matched when its last flit has left; its arrival may fall in the same cycle.
        happened.sort(key=CYCLE)
        count = bisect.bisect_left(happened, idle, key=CYCLE)
        self._ahead = happened[count:]
        for cycle, compare, device, what in happened[:count]:
            compare(device, cycle, *what)
            if self.record and compare == board.write:
                self._kept[device]["writes"].append(what)

    def _writes(self):
        """Returns DMA writes as collect() sorts them; adjacent payload writes are one run."""
        board = self.scoreboard

        def alone(records):
            return board.looks_at(records["device"], records["addr"]) | self.record

        return [
            (cycle, board.write, device, (address, data)) if single
            else (cycle, board.payload_writes, device, (address, data, count))
            for cycle, device, address, single, count, data in self.native.write_runs(alone)
        ]  # fmt: skip

    def log(self, kind):
        if kind in LOGS:
            raise RuntimeError(f"{kind} belong to the scoreboard")
        return super().log(kind)


class MirroredMemory:
    """Host memory of a device; CPU writes go to the model's copy too."""

    def __init__(self, memory, on_write):
        self._memory, self._on_write = memory, on_write
        self.read = memory.read

    def write(self, address, data):
        self._memory.write(address, data)
        self._on_write(address, bytes(data))


class CheckedBackend(RtlBackend):
    """Drives one device of a tapped simulation."""

    def __init__(self, link, device, node_id):
        self._board = link.scoreboard
        super().__init__(link, os.environ["EFA_SIM"], device, node_id)
        self.memory = MirroredMemory(
            self.memory, lambda address, data: self._board.host_write(device, address, data)
        )

    def stores(self, items):
        items = list(items)
        self.link.collect()
        cycle = self.link.cycle
        for bar, offset, data in items:
            self._board.store(self.device, bar, offset, data, cycle)
        super().stores(items)

    def wait(self, condition, timeout_cycles=1_000_000, word=None):
        def collected():
            self.link.collect()
            return condition()

        super().wait(collected, timeout_cycles, word)

    def settle(self):
        super().settle()
        self.link.collect()
        if self._board.missing():
            # Message moderation and an unseen queue scan may delay an output.
            self.pause(UNSEEN_CYCLES + self._board.moderation)
        self._board.rest()

    def set_bus_master(self, on):
        if not on:
            # The switch follows all earlier stores; outputs before it were still due.
            super().set_bus_master(on)
            self.link.run([host.drained(self.device)], 1_000_000)
            gone = self.link.native.cycle
            while self.link.native.idle <= gone:
                self.link.run([], 16)
        self.link.collect()
        self._board.bus_master(self.device, on)
        if on:
            super().set_bus_master(on)

    def set_function_mask(self, on):
        self.settle()
        self._board.function_mask(self.device, on)
        super().set_function_mask(on)

    def flr(self):
        self.link.collect()
        self._board.flr(self.device)
        super().flr()
        self.link.collect()

    def fail_reads(self, address, size, responded=True):
        """Makes DMA reads of the range fail on both sides, with or without a response."""
        fault = host.FAULT_ERROR if responded else host.FAULT_DROP
        self.link.native.memory(self.device).fail(address, size, fault)
        self._board.fail_reads(self.device, address, size)

    def raise_event(self, group, syndrome=0, data=b""):
        """Requests an asynchronous event as the management side."""
        self.link.collect()
        self._board.async_event(self.device, group, syndrome, data)
        self.link.native.request_event(self.device, group, syndrome, data)

    def checkpoint(self):
        """Waits until the device is idle, then compares pending outputs and host memory.

        A reset clears both, so the comparison comes before the reset.
        """
        self.settle()
        self._board.check(least=0)

    def pause(self, cycles):
        """Advances time by `cycles`."""
        self.link.run([], cycles)
        self.link.collect()


def checked(native, profile="default", limits=None, **straps):
    """Returns the scoreboard of a started bench and a function that opens its backends.

    The function blocks on the simulation, so it is called through `bridge`.
    """
    link = TappedLink(native)
    memories = [native.memory(d) for d in range(native.devices)]
    link.scoreboard = Scoreboard(memories, profile, limits=limits, **straps)
    for d, predictor in enumerate(link.scoreboard.predictors):
        predictor.live = LiveMemory(native.iommu(d), predictor.device)
    # The logs are long lists of tuples without reference cycles; the cyclic collector costs a tenth
    # of the time.
    gc.freeze()
    gc.set_threshold(200_000)
    for predictor in link.scoreboard.predictors:
        predictor.device.set_msix(True, False)
    return link.scoreboard, lambda: [CheckedBackend(link, d, 1 + d) for d in range(native.devices)]
