# SPDX-License-Identifier: Apache-2.0
"""Tests resets within traffic on the device (scenarios: tb/scenarios).

The events of a device during a reset are not specified, so no events are compared.
"""

import pyuvm

from tb.env.nic_env import ROUGH, NicTest
from tb.scenarios import lifecycle, stress


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class ResetsInTheMiddleOfTraffic(NicTest):
    """reset.traffic"""

    work = staticmethod(stress.resets_under_load)
    shown = ()


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class ResetsOnARoughHost(NicTest):
    """reset.traffic.rough"""

    work = staticmethod(stress.resets_under_load)
    shown = ()
    knobs = ROUGH


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class NothingRemains(NicTest):
    """reset.cleared"""

    work = staticmethod(lifecycle.nothing_remains)
    shown = ()


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EndsAtRandomMoments(NicTest):
    """reset.ends"""

    work = staticmethod(lifecycle.random_ends)
    shown = ()


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EndsOfARoughHost(NicTest):
    """reset.ends.rough"""

    work = staticmethod(lifecycle.random_ends)
    shown = ()
    knobs = ROUGH
