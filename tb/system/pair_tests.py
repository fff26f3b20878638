# SPDX-License-Identifier: Apache-2.0
"""Tests two devices back to back (scenarios: tb/scenarios)."""

import pyuvm

from tb.env.nic_env import NicTest
from tb.scenarios import recv, send, stress
from tb.scenarios.length import shortened


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class BackToBack(NicTest):
    """pair.exchange"""

    work = staticmethod(send.two_devices)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class UnknownPeersAreNamed(NicTest):
    """pair.unknown"""

    work = staticmethod(recv.unknown_peer)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EverythingBetweenTwo(NicTest):
    """pair.stress"""

    work = staticmethod(shortened(stress.everything, rounds=10))
