# SPDX-License-Identifier: Apache-2.0
"""The device's counters against the bench's own, over traffic on a rough host."""

import pyuvm

from efa.defs import Perf, PerfStream
from tb.env.nic_env import ROUGH, NicTest
from tb.scenarios import stress

BUCKETS = 16
# What the bench sees at the pins itself; the streams inside add up to those.
OUTSIDE = ("S_MMIO", "M_MMIO_CPL", "M_DMA_RD", "S_DMA_RD_CPL", "M_DMA_WR", "M_NET", "S_NET")
# A rough host lets these wait.
STALLED = ("M_DMA_RD", "M_DMA_WR", "M_NET")


def traffic(backends, rng):
    """A few rounds over a few queues."""
    stress.everything(backends, rng, rounds=3, queues=4)


@pyuvm.test(timeout_time=4, timeout_unit="ms")
class CountersAgreeWithTheBench(NicTest):
    """bench.perf_counters"""

    work = staticmethod(traffic)
    knobs = ROUGH

    async def run_phase(self):
        self.raise_objection()
        # Out of reset, with nothing under way: from there on both count the same cycles.
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
        # Messages and register responses join the stream without one of these in front.
        assert writes + interrupts <= inside["M_DMA_WR"]
        open_sends = shown[Perf.SENDS_OPEN : Perf.SENDS_OPEN + BUCKETS]
        assert sum(open_sends) == sum(shown[Perf.RD_OUT : Perf.RD_OUT + BUCKETS])
        assert (sum(map(bool, open_sends)) > 1) == bool(inside["ACK_RX"])
        self.drop_objection()


def beats(stream):
    """Index of a stream's beats; its waits follow."""
    return Perf.STREAM + 2 * stream
