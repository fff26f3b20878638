# SPDX-License-Identifier: Apache-2.0
"""Tests completions and events on the device (scenarios: tb/scenarios)."""

import pyuvm

from tb.env.nic_env import ROUGH, NicTest
from tb.env.shown import KINDS
from tb.scenarios import completion


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class QueuesShareACompletionQueue(NicTest):
    """cq.shared"""

    work = staticmethod(completion.shared_queue)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EventsWhenRequested(NicTest):
    """cq.events"""

    work = staticmethod(completion.events)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class OtherRegistersArmNothing(NicTest):
    """cq.events.register"""

    work = staticmethod(completion.armed_by_its_register_alone)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EventsOnARoughHost(NicTest):
    """cq.events.rough"""

    work = staticmethod(completion.events)
    knobs = ROUGH


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EventsInFlight(NicTest):
    """cq.events.flight"""

    work = staticmethod(completion.events_in_flight)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EventsInFlightOnARoughHost(NicTest):
    """cq.events.flight.rough"""

    work = staticmethod(completion.events_in_flight)
    knobs = ROUGH


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class SubQueuesOfTheRecordedProfile(NicTest):
    """cq.sub_queues"""

    work = staticmethod(completion.sub_queues)
    profile = "recorded"


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class LargestPackets(NicTest):
    """cq.mtu"""

    work = staticmethod(completion.large_datagrams)
    profile = "recorded"


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class OverflowIsShownOfItsQueueOnly(NicTest):
    """cq.wrap.overflow"""

    work = staticmethod(completion.more_than_fits)
    shown = (*KINDS, "cqe")
