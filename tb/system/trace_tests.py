# SPDX-License-Identifier: Apache-2.0
"""Digests the boundary activity on a rough host into one number (tb/system/test_digest.py)."""

import os
from pathlib import Path

import pyuvm
from pyuvm import ConfigDB

from tb.env.nic_env import ROUGH, NicTest
from tb.scenarios import stress


def short(backends, rng):
    """Runs a few rounds over a few queues; the seed affects these as it affects a long run."""
    stress.everything(backends, rng, rounds=3, queues=4)


@pyuvm.test(timeout_time=4, timeout_unit="ms")
class TraceOfARoughHost(NicTest):
    """bench.trace"""

    work = staticmethod(short)
    sizes = 512, 512
    knobs = ROUGH

    def report_phase(self):
        digest = ConfigDB().get(self, "", "NATIVE").digest
        Path(os.environ["EFA_TRACE"]).write_text(f"{digest:016x}\n")
