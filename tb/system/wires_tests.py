# SPDX-License-Identifier: Apache-2.0
"""Tests that each effect belongs to the object that caused it (scenarios: tb/scenarios)."""

from typing import Any

import cocotb
import pyuvm

from efa_cosim.layouts import defs
from tb.env.nic_env import NicTest
from tb.env.raced import race
from tb.lib.native import Native
from tb.scenarios import wires, wires_admin, wires_recv, wires_send

LATE = 2 * defs.LIMITS.completion_timeout_cycles  # of the response to a read


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EventsHaveTheirTimes(NicTest):
    """control.events.times"""

    work = staticmethod(wires.times_of_events)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EachQueueHasItsCounter(NicTest):
    """control.counters.queues"""

    work = staticmethod(wires.counters_of_each_queue)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EachQueueDrainsByItself(NicTest):
    """send.draining.queues"""

    work = staticmethod(wires.draining_of_each_queue)
    knobs = {"net_latency_min": 10_000, "net_latency_max": 10_000}


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EachPeerHasItsNumbers(NicTest):
    """send.numbers"""

    work = staticmethod(wires.numbers_of_each_peer)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class PagesOfADestroyedQueueHaveNoOwner(NicTest):
    """send.pages.destroyed"""

    work = staticmethod(wires.pages_of_a_destroyed_queue)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class IncompleteWqesLeaveOtherQueues(NicTest):
    """send.incomplete.others"""

    work = staticmethod(wires.incomplete_beside_a_stored_queue)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def counters_go_under_sends(dut: Any) -> None:
    """admin.released.counters"""
    await race(dut, wires.counters_go_under_sends, wr_stall=50_000)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def no_message_without_msix(dut: Any) -> None:
    """bringup.msix_enable"""
    await race(dut, wires.no_message_without_msix)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def each_packet_has_its_events(dut: Any) -> None:
    """send.packet_events"""
    await race(dut, wires.events_of_each_packet)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def acknowledgements_wait_for_the_network(dut: Any) -> None:
    """recv.acknowledgements.wait"""
    await race(dut, wires.acknowledgements_wait, net_stall=64_000)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def a_clear_sets_the_counters_to_zero(dut: Any) -> None:
    """bench.perf_counters.clear"""
    native = Native(dut)
    native.start(int(cocotb.RANDOM_SEED), 1, cnt_run=1)
    await native.run([], 1000)
    # Counting stops at the first read.
    counted, _ = await native.perf_counters()
    native.knobs(0, cnt_clear=1)
    await native.run([], 20)
    native.knobs(0, cnt_clear=0)
    cleared, _ = await native.perf_counters()
    assert any(counted) and not any(cleared), (counted, cleared)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def the_table_holds_under_bursts(dut: Any) -> None:
    """bringup.msix_table.bursts"""
    await race(dut, wires.table_in_bursts)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def a_reset_waits_for_packets(dut: Any) -> None:
    """reset.packets"""
    await race(dut, wires.reset_waits_for_packets, net_stall=63_000)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def late_reads_are_reported_by_tag(dut: Any) -> None:
    """bringup.late_reads"""
    # A timeout before the late completion would read the payload again.
    await race(
        dut, wires.late_reads_have_their_tags, rd_late=LATE, tick=defs.TRANSPORT.tick_cycles
    )


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def acknowledgements_follow_completions(dut: Any) -> None:
    """recv.acknowledgements.order"""
    await race(dut, wires.acknowledgements_follow_completions, wr_stall=62_000)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class PagesOfAnEarlierSessionHaveNoOwner(NicTest):
    """reset.cleared.pages"""

    work = staticmethod(wires_send.pages_of_an_earlier_session)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def a_new_queue_has_its_pages_beside_an_error(dut: Any) -> None:
    """send.pages.error"""
    await race(dut, wires_send.pages_beside_an_error, rd_latency_min=40, rd_latency_max=40)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def a_reset_clears_the_expected_phase(dut: Any) -> None:
    """send.phase.reset"""
    await race(dut, wires_send.phases_begin_anew, rd_latency_min=1200, rd_latency_max=1200)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def nothing_is_consumed_behind_an_error(dut: Any) -> None:
    """send.incomplete.behind"""
    await race(dut, wires_send.nothing_consumed_behind_an_error)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def one_missing_dword_is_seen(dut: Any) -> None:
    """send.incomplete.dword"""
    await race(dut, wires_send.one_missing_dword)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def a_handle_is_destroyed_again_and_again(dut: Any) -> None:
    """send.ah_destroyed.again"""
    await race(dut, wires_send.handles_under_sends, rd_latency_min=2000, rd_latency_max=2000)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def nothing_follows_a_reset(dut: Any) -> None:
    """admin.released.completions"""
    await race(dut, wires_recv.nothing_after_a_reset, wr_stall=65_300)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def nothing_follows_a_reset_in_error(dut: Any) -> None:
    """admin.released.flushes"""
    await race(dut, wires_recv.nothing_after_a_reset_in_error)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def regions_go_under_payload(dut: Any) -> None:
    """admin.released.receives"""
    await race(dut, wires_recv.regions_go_under_receives, wr_stall=60_000)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def flushed_receives_share_with_messages(dut: Any) -> None:
    """recv.flush.share"""
    await race(dut, wires_recv.flushes_beside_receives, wr_stall=60_000)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def completions_leave_at_full_rate(dut: Any) -> None:
    """cq.rate"""
    await race(dut, wires_recv.completions_at_full_rate)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def receive_rings_beside_errors(dut: Any) -> None:
    """recv.rings.errors"""
    await race(dut, wires_recv.rings_beside_errors)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def responses_outlive_the_aq(dut: Any) -> None:
    """admin.rings.aq"""
    await race(dut, wires_admin.responses_outlive_the_aq)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def commands_end_with_a_reset(dut: Any) -> None:
    """reset.commands"""
    await race(dut, wires_admin.commands_end_with_a_reset)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def anomalies_of_one_cycle_are_reported(dut: Any) -> None:
    """admin.anomalies.together"""
    await race(dut, wires_admin.anomalies_of_one_cycle)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def a_counter_counts_from_the_response_on(dut: Any) -> None:
    """control.counters.attached"""
    await race(dut, wires_admin.counted_from_the_response_on)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def events_precede_the_end_of_their_cq(dut: Any) -> None:
    """admin.released.events"""
    await race(dut, wires_admin.events_of_destroyed_cqs)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def events_precede_the_end_of_their_group(dut: Any) -> None:
    """control.events.disabled"""
    await race(dut, wires_admin.events_of_a_disabled_group)
