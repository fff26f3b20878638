# SPDX-License-Identifier: Apache-2.0
"""Tests the receive path on the device (scenarios: tb/scenarios)."""

import pyuvm

from tb.env.nic_env import ROUGH, NicTest
from tb.scenarios import recv
from tb.scenarios.untrusted_peer import malformed_packets


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class TwoBuffersCutAnywhere(NicTest):
    """recv.scatter"""

    work = staticmethod(recv.two_buffers)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class DirectPathDescriptors(NicTest):
    """recv.direct"""

    work = staticmethod(recv.direct_path_descriptors)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EveryRefusalReachesTheSender(NicTest):
    """recv.refusals"""

    work = staticmethod(recv.refused_srd)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class ReceivesInErrFlush(NicTest):
    """recv.err"""

    work = staticmethod(recv.receives_in_err)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class BuffersOfAnotherDomainAreRefused(NicTest):
    """recv.domains"""

    work = staticmethod(recv.two_domains)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class DatagramsWithoutReceiverAreDropped(NicTest):
    """recv.drops"""

    work = staticmethod(recv.dropped_ud)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class MalformedPacketsAreReported(NicTest):
    """recv.causes"""

    work = staticmethod(malformed_packets)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class DeepRingWraps(NicTest):
    """recv.ring"""

    work = staticmethod(recv.deep_ring)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class FailedDescriptorReadBreaksOnlyItsQueue(NicTest):
    """recv.read_error"""

    work = staticmethod(recv.descriptor_read_fails)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class LostDescriptorReadBreaksOnlyItsQueue(NicTest):
    """recv.read_error.lost"""

    work = staticmethod(recv.descriptor_read_is_lost)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class TwoBuffersOnARoughHost(NicTest):
    """recv.scatter.rough"""

    work = staticmethod(recv.two_buffers)
    knobs = ROUGH


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class DeepRingOnARoughHost(NicTest):
    """recv.ring.rough"""

    work = staticmethod(recv.deep_ring)
    knobs = ROUGH
