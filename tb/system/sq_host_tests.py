# SPDX-License-Identifier: Apache-2.0
"""Tests send queues in host memory, build option SQ_HOST (scenarios: tb/scenarios)."""

import pyuvm

from tb.env.nic_env import ROUGH, NicTest
from tb.scenarios import send, sq_host, stress
from tb.scenarios.length import shortened


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class SizesFromARingInHostMemory(NicTest):
    """sq_host.sizes"""

    work = staticmethod(send.every_size)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class BothWqeSizesFromHostMemory(NicTest):
    """sq_host.inline"""

    work = staticmethod(send.inline_forms)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class BatchesFromHostMemory(NicTest):
    """sq_host.batches"""

    work = staticmethod(send.batches)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class BatchesFromARoughHost(NicTest):
    """sq_host.batches.rough"""

    work = staticmethod(send.batches)
    knobs = ROUGH


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class RingsOnAnyLine(NicTest):
    """sq_host.rings"""

    work = staticmethod(sq_host.rings_anywhere)


@pyuvm.test(timeout_time=80, timeout_unit="ms")
class RingsOnAnyLineOfARoughHost(NicTest):
    """sq_host.rings.rough"""

    work = staticmethod(sq_host.rings_anywhere)
    knobs = ROUGH


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class RingsAreValidatedWhenCreated(NicTest):
    """sq_host.create"""

    work = staticmethod(sq_host.created_where_valid)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class StoresToLlqMemoryReachNoQueue(NicTest):
    """sq_host.llq"""

    work = staticmethod(sq_host.llq_stores_change_nothing)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EveryLocalErrorOfFetchedWqes(NicTest):
    """sq_host.errors"""

    work = staticmethod(send.local_errors)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class UnreadableWqesBreakOnlyTheirQueue(NicTest):
    """sq_host.read_error"""

    work = staticmethod(sq_host.entry_read_fails)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class DoorbellsBeforeReadyToSend(NicTest):
    """sq_host.early"""

    work = staticmethod(sq_host.posted_before_rts)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class DrainedAndFlushedFromHostMemory(NicTest):
    """sq_host.states"""

    work = staticmethod(send.drained_and_flushed)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class WaitingQueuesBlockNoOtherQueue(NicTest):
    """sq_host.waiting"""

    work = staticmethod(sq_host.others_pass_queues_that_wait)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class FetchesInFlightAreForgotten(NicTest):
    """sq_host.clear"""

    work = staticmethod(sq_host.cancelled_in_flight)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class FetchesOfARoughHostAreForgotten(NicTest):
    """sq_host.clear.rough"""

    work = staticmethod(sq_host.cancelled_in_flight)
    knobs = ROUGH


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class ResetsWhileWqesAreFetched(NicTest):
    """sq_host.reset"""

    work = staticmethod(stress.resets_under_load)
    knobs = ROUGH


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EveryQueueFromHostMemory(NicTest):
    """sq_host.queues"""

    work = staticmethod(stress.every_queue)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EverythingFromARoughHostsMemory(NicTest):
    """sq_host.stress"""

    work = staticmethod(shortened(stress.everything, rounds=16))
    knobs = ROUGH


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class RequestIdsFromHostMemory(NicTest):
    """send.long_ids"""

    work = staticmethod(send.request_ids)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class BatchesInSmallReadRequests(NicTest):
    """host.request_sizes.fetch"""

    work = staticmethod(send.batches)
    sizes = 4096, 128
