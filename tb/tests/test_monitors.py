# SPDX-License-Identifier: Apache-2.0
"""Tests that monitors publish what the logs hold, and that the order holds transactions back."""

from itertools import count

import numpy as np
import pytest
from pyuvm import ConfigDB

from efa_cosim.layouts import defs
from tb.env.monitors import CycleOrder, HostInputMonitor, HostMemoryMonitor
from tb.env.transactions import (
    AsyncRequest,
    DmaWrite,
    Event,
    HostStore,
    MemoryWrite,
    Packet,
    PinChange,
)
from tb.lib import requests as host

names = map("monitor{}".format, count())


class Logs:
    """Stands in for the native bench: an input log and a cycle."""

    def __init__(self, *records):
        self.cycle = 7
        self._records = np.zeros(len(records), host.INPUT)
        for row, values in zip(self._records, records, strict=True):
            for name, value in values.items():
                row[name] = value

    def inputs(self):
        records, self._records = self._records, self._records[:0]
        return records


def built(kind, logs):
    """Returns a component behind a log and the list of what its port publishes."""
    ConfigDB().set(None, "*", "NATIVE", logs)
    component, seen = kind(next(names), None), []
    component.build_phase()
    return component, seen


def line(at, data):
    return np.frombuffer(bytes(at) + data + bytes(host.LINE - at - len(data)), "u1")


def test_a_store_is_cut_out_of_its_line():
    logs = Logs(
        {"cycle": 5, "bar": 2, "addr": 0x1040, "be": 0b1111 << 8, "data": line(8, b"wqes")},
        {"cycle": 6, "device": 1, "addr": 0x80, "be": (1 << 64) - 1, "data": line(0, bytes(64))},
    )
    monitor, seen = built(HostInputMonitor, logs)
    monitor.ap.write = seen.append
    monitor.sample()
    assert seen == [[HostStore(5, 0, 2, 0x1048, b"wqes"), HostStore(6, 1, 0, 0x80, bytes(64))]]
    monitor.sample()
    assert len(seen) == 1


def test_pins_and_asynchronous_events_are_inputs():
    logs = Logs(
        {"cycle": 5, "kind": host.IN_PIN, "addr": host.PIN_NAMES.index("bme"), "be": 1},
        {"cycle": 9, "kind": host.IN_ASYNC, "addr": 3, "be": 8, "data": line(0, b"why")},
    )
    monitor, seen = built(HostInputMonitor, logs)
    monitor.ap.write = seen.extend
    monitor.sample()
    assert seen == [PinChange(5, 0, "bme", 1), AsyncRequest(9, 0, 3, 8, b"why".ljust(48, b"\0"))]


def test_a_write_of_the_cpu_is_behind_its_cycle():
    logs = Logs()
    monitor, seen = built(HostMemoryMonitor, logs)
    monitor.ap.write = seen.extend
    monitor.written(0, 0x1000, b"new")
    logs.cycle = 8
    monitor.sample()
    assert seen == [MemoryWrite(7, 0, 0x1000, b"new")]


@pytest.fixture
def order():
    component, seen = built(CycleOrder, None)
    component.predicted.write = lambda one: seen.append(("predict", one))
    component.compared.write = lambda one: seen.append(("compare", one))
    return component, seen


STORE = HostStore(4, 0, 0, 0, b"....")
LEFT = Packet(6, 0, b"packet")
WRITE = DmaWrite(5, 0, 0x1000, b"late")
REPORT = Event(5, 0, int(defs.Ev.CQE), 0)


def test_batches_are_merged_by_cycle(order):
    component, seen = order
    for batch in ([STORE], [LEFT], [WRITE], [REPORT]):
        component.write(batch)
    component.release()
    assert seen == [
        ("predict", STORE), ("compare", WRITE), ("predict", REPORT), ("compare", REPORT),
        ("predict", LEFT), ("compare", LEFT),
    ]  # fmt: skip


def test_nothing_passes_a_write_in_flight(order):
    component, seen = order
    component.write([STORE, LEFT])
    component.release(before=5)
    assert seen == [("predict", STORE)]
    # The write of cycle 5 becomes visible after the packet of cycle 6.
    component.write([WRITE])
    component.release(before=7)
    assert seen[1:] == [("compare", WRITE), ("predict", LEFT), ("compare", LEFT)]
