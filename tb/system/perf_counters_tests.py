# SPDX-License-Identifier: Apache-2.0
"""Compares the device's counters with the bench's own, under traffic on a rough host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyuvm

from efa_cosim.layouts.defs import Perf, PerfStream
from tb.env.nic_env import ROUGH, NicTest
from tb.scenarios import stress

if TYPE_CHECKING:
    from random import Random

BUCKETS = 16
# Streams at the pins, which the bench counts itself; the inner streams add up to these.
OUTSIDE = ("S_MMIO", "M_MMIO_CPL", "M_DMA_RD", "S_DMA_RD_CPL", "M_DMA_WR", "M_NET", "S_NET")
# Streams that a rough host stalls.
STALLED = ("M_DMA_RD", "M_DMA_WR", "M_NET")


def traffic(backends: Sequence[Any], rng: Random) -> None:
    """Runs a few rounds over a few queues."""
    stress.everything(backends, rng, rounds=3, queues=4)


@pyuvm.test(timeout_time=4, timeout_unit="ms")
class CountersAgreeWithTheBench(NicTest):
    """bench.perf_counters"""

    work = staticmethod(traffic)
    knobs = ROUGH

    async def run_phase(self) -> None:
        self.raise_objection()
        # The device is idle after reset: from here both sides count the same cycles.
        await self.native.run([], 20)
        self.native.knobs(0, cnt_run=1)
        await super().run_phase()
        interrupts = self.native.counters()["interrupts"]
        shown, own = await self.native.perf_counters()
        inside = {stream.name: shown[beats(stream)] for stream in PerfStream}
        for stream in map(PerfStream.__getitem__, OUTSIDE):
            for index in (beats(stream), beats(stream) + 1):
                assert shown[index] == own[index], f"{stream.name}: {shown[index]}, {own[index]}"
        assert all(shown[beats(PerfStream[name]) + 1] for name in STALLED)
        for first in (Perf.RD_LATENCY, Perf.RD_OUT):
            assert shown[first : first + BUCKETS] == own[first : first + BUCKETS], first.name
            assert sum(map(bool, shown[first : first + BUCKETS])) > 1
        reads = shown[Perf.RD_LATENCY : Perf.RD_LATENCY + BUCKETS]
        assert sum(reads) == inside["M_DMA_RD"]
        assert sum(inside[name] for name in ("RD_ADM", "RD_RQ", "RD_TX")) == inside["M_DMA_RD"]
        writes = sum(inside[name] for name in ("WR_ADM", "WR_RX", "WR_CQ", "WR_EQ"))
        # Messages and register responses enter the stream directly, not through one of these.
        assert writes + interrupts <= inside["M_DMA_WR"]
        open_sends = shown[Perf.SENDS_OPEN : Perf.SENDS_OPEN + BUCKETS]
        assert sum(open_sends) == sum(shown[Perf.RD_OUT : Perf.RD_OUT + BUCKETS])
        assert (sum(map(bool, open_sends)) > 1) == bool(inside["ACK_RX"])
        self.drop_objection()


def beats(stream: PerfStream) -> int:
    """Returns the index of a stream's beats; the index of its waits is one higher."""
    return Perf.STREAM + 2 * stream
