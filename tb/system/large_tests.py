# SPDX-License-Identifier: Apache-2.0
"""Tests a device of 1,024 queue pairs, set by parameter (scenarios: tb/scenarios)."""

import pyuvm

from tb.env.nic_env import NicTest
from tb.scenarios import stress


@pyuvm.test(timeout_time=400, timeout_unit="ms")
class EveryQueueOfALargeDevice(NicTest):
    """stress.large"""

    work = staticmethod(stress.every_queue)
