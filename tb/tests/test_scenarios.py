# SPDX-License-Identifier: Apache-2.0
"""Runs every scenario of tb/scenarios on the model as the device, before RTL runs them."""

import random

import pytest

from efa_cosim.host.wc import StoreBuffer
from tb.env.model_dut import ModelDut
from tb.scenarios import (
    admin,
    async_events,
    bringup,
    completion,
    counters,
    lifecycle,
    recv,
    regions,
    send,
    sq_host,
    stress,
)

ONE_DEVICE = [
    bringup.both_flavours, bringup.registers, bringup.masked_admin_interrupt,
    bringup.masked_vector, bringup.masked_function, bringup.function_level_reset,
    admin.every_object, admin.every_refusal,
    admin.everything_taken, admin.many_commands, admin.dependent_commands,
    regions.long_page_list, regions.chained,
    send.every_size, send.inline_forms, send.store_buffers, send.batches, send.local_errors,
    send.stores_of_others, send.request_ids, send.incomplete_entry, send.posted_slot_is_closed,
    send.drained_and_flushed, send.payload_read_fails,
    recv.two_buffers, recv.direct_path_descriptors, recv.refused_srd, recv.dropped_ud,
    recv.deep_ring, recv.descriptor_read_fails, completion.shared_queue, completion.events,
    completion.events_in_flight, completion.armed_by_its_register_alone, lifecycle.nothing_remains,
    stress.resets_under_load, stress.every_queue, stress.everything, async_events.events,
    lifecycle.random_ends, async_events.full_ring, async_events.groups,
    async_events.events_and_commands, async_events.overrun, counters.counted,
    counters.modified_at_once, counters.recreated_at_once,
]  # fmt: skip
RECORDED = [completion.sub_queues, completion.large_datagrams, stress.everything]
IN_HOST = [
    send.every_size, send.inline_forms, send.batches, send.local_errors, send.drained_and_flushed,
    send.payload_read_fails, send.request_ids, recv.refused_srd, recv.dropped_ud,
    stress.resets_under_load, stress.every_queue, stress.everything,
    sq_host.rings_anywhere, sq_host.created_where_valid, sq_host.llq_stores_change_nothing,
    sq_host.posted_before_rts, sq_host.entry_read_fails, sq_host.others_pass_queues_that_wait,
    sq_host.cancelled_in_flight,
]  # fmt: skip
TWO_DEVICES = [send.two_devices, recv.unknown_peer, stress.everything]


def run(scenario, seed, count=1, profile="basic", limits=None):
    devices = ModelDut.several(count, profile, limits=limits)
    for device in devices:
        device.store_buffer = StoreBuffer.drawn(seed)
    scenario(devices, random.Random(seed))
    devices[0].settle()
    assert devices[0].board.check(least=20)


@pytest.mark.parametrize("scenario", ONE_DEVICE, ids=lambda one: one.__name__)
def test_one_device(scenario, seed):
    run(scenario, seed)


@pytest.mark.parametrize("scenario", RECORDED, ids=lambda one: one.__name__)
def test_recorded_profile(scenario, seed):
    run(scenario, seed, profile="recorded")


@pytest.mark.parametrize("scenario", TWO_DEVICES, ids=lambda one: one.__name__)
def test_two_devices(scenario, seed):
    run(scenario, seed, count=2)


@pytest.mark.parametrize("scenario", IN_HOST, ids=lambda one: one.__name__)
def test_send_queues_in_host_memory(scenario, seed):
    run(scenario, seed, limits={"sq_host": 1})
