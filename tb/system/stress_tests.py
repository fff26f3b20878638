# SPDX-License-Identifier: Apache-2.0
"""Tests traffic of all kinds at once on the device (scenarios: tb/scenarios)."""

from functools import partial

import pyuvm

from tb.env.nic_env import ROUGH, NicTest
from tb.env.parallel import Processes
from tb.scenarios import stress
from tb.scenarios.length import shortened


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EverythingAtOnce(NicTest):
    """stress.smooth"""

    work = staticmethod(shortened(stress.everything, rounds=10))


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EverythingOnARoughHost(NicTest):
    """stress.rough"""

    work = staticmethod(shortened(stress.everything, rounds=10))
    knobs = ROUGH


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EveryQueueAtOnce(NicTest):
    """stress.queues"""

    work = staticmethod(stress.every_queue)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class ProcessesShareTheSequencer(NicTest):
    """stress.processes"""

    sequence = Processes


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class ProcessesOnARoughHost(NicTest):
    """stress.processes.rough"""

    sequence = partial(Processes, processes=6, messages=15)
    knobs = ROUGH


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EverythingInTheRecordedProfile(NicTest):
    """stress.recorded"""

    work = staticmethod(shortened(stress.everything, rounds=10))
    profile = "recorded"
