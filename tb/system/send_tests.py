# SPDX-License-Identifier: Apache-2.0
"""Tests the send path on the device (scenarios: tb/scenarios)."""

import pyuvm

from tb.env.nic_env import ROUGH, NicTest
from tb.scenarios import send


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EverySizeArrives(NicTest):
    """send.sizes"""

    work = staticmethod(send.every_size)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class InlineInBothWqeSizes(NicTest):
    """send.inline"""

    work = staticmethod(send.inline_forms)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class AnyStoreBufferDeliversCompleteWqes(NicTest):
    """send.llq"""

    work = staticmethod(send.store_buffers)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class BatchesOverSeveralQueues(NicTest):
    """send.batches"""

    work = staticmethod(send.batches)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EveryLocalErrorIsNamed(NicTest):
    """send.errors"""

    work = staticmethod(send.local_errors)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class UntrustedStoresHarmNoOtherTenant(NicTest):
    """send.isolation"""

    work = staticmethod(send.stores_of_others)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EveryBitOfARequestIdComesBack(NicTest):
    """send.long_ids"""

    work = staticmethod(send.request_ids)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class IncompleteWqeBreaksOnlyItsQueue(NicTest):
    """send.incomplete"""

    work = staticmethod(send.incomplete_entry)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class StoreToAPostedSlotBreaksOnlyItsQueue(NicTest):
    """send.posted_slot"""

    work = staticmethod(send.posted_slot_is_closed)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class DrainedAndFlushed(NicTest):
    """send.states"""

    work = staticmethod(send.drained_and_flushed)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class FailedPayloadReadBreaksOnlyItsQueue(NicTest):
    """send.read_error"""

    work = staticmethod(send.payload_read_fails)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class LostPayloadReadBreaksOnlyItsQueue(NicTest):
    """send.read_error.lost"""

    work = staticmethod(send.payload_read_is_lost)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EverySizeArrivesOnARoughHost(NicTest):
    """send.sizes.rough"""

    work = staticmethod(send.every_size)
    knobs = ROUGH


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class BatchesOnARoughHost(NicTest):
    """send.batches.rough"""

    work = staticmethod(send.batches)
    knobs = ROUGH


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EverySizeWithSmallReadRequests(NicTest):
    """host.request_sizes.reads"""

    work = staticmethod(send.every_size)
    sizes = 4096, 128


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EverySizeWithSmallPayloads(NicTest):
    """host.request_sizes.writes"""

    work = staticmethod(send.every_size)
    sizes = 128, 4096


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class QueuesRecreatedDuringTraffic(NicTest):
    """send.recreated"""

    work = staticmethod(send.recreated_in_traffic)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class FlushesDuringDrains(NicTest):
    """send.flush_drain"""

    work = staticmethod(send.flushes_during_drains)
