# SPDX-License-Identifier: Apache-2.0
"""Tests a device of 1,024 queue pairs, set by parameter (scenarios: tb/scenarios)."""

import pyuvm

from tb.env.nic_env import NicTest
from tb.scenarios import stress
from tb.scenarios.length import shortened


@pyuvm.test(timeout_time=400, timeout_unit="ms")
class EveryQueueOfALargeDevice(NicTest):
    """stress.large"""

    work = staticmethod(shortened(stress.every_queue, share=4))
