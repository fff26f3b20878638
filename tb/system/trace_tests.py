# SPDX-License-Identifier: Apache-2.0
"""What crosses the boundary on a rough host, as one number (tb/system/test_digest.py)."""

import os
from pathlib import Path

import pyuvm
from pyuvm import ConfigDB

from tb.env.nic_env import ROUGH, NicTest
from tb.scenarios import stress


def short(backends, rng):
    """A few rounds over a few queues: what depends on the seed depends on it here too."""
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
