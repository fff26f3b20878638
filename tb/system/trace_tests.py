# SPDX-License-Identifier: Apache-2.0
"""Digests the boundary activity of each test on a rough host (tb/system/test_digest.py)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyuvm
from pyuvm import ConfigDB

from tb.env.nic_env import ROUGH, NicTest
from tb.env.parallel import Processes
from tb.scenarios import stress

if TYPE_CHECKING:
    from random import Random


def short(backends: Sequence[Any], rng: Random) -> None:
    """Runs a few rounds over a few queues; the seed affects these as it affects a long run."""
    stress.everything(backends, rng, rounds=3, queues=4)


class Traced(NicTest):
    """Adds the digest of the test to the file that EFA_TRACE names."""

    sizes = 512, 512
    knobs = ROUGH

    def report_phase(self) -> None:
        digest = ConfigDB().get(self, "", "NATIVE").digest
        with Path(os.environ["EFA_TRACE"]).open("a") as trace:
            trace.write(f"{digest:016x}\n")


@pyuvm.test(timeout_time=4, timeout_unit="ms")
class TraceOfARoughHost(Traced):
    """bench.trace"""

    work = staticmethod(short)


@pyuvm.test(timeout_time=4, timeout_unit="ms")
class TraceOfTwoProcesses(Traced):
    """bench.trace: half the cycles of TraceOfProcesses, for Icarus."""

    sequence = partial(Processes, processes=2, messages=2)


@pyuvm.test(timeout_time=4, timeout_unit="ms")
class TraceOfProcesses(Traced):
    """bench.trace: the order of the pieces that one event wakes is part of the trace."""

    sequence = partial(Processes, processes=6, messages=5)
