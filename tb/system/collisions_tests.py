# SPDX-License-Identifier: Apache-2.0
"""Tests rare collisions on the device (scenarios: tb/scenarios)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import cocotb
import pyuvm
from pyuvm import ConfigDB

from efa_cosim.host.endpoints import Endpoint, Node
from efa_cosim.layouts import defs
from tb.env.iommu import LiveMemory
from tb.env.nic_env import ROUGH, NicTest
from tb.env.raced import race
from tb.env.shown import KINDS
from tb.lib.native import BoundaryBroken
from tb.scenarios import collisions, lifecycle, races
from tb.scenarios.length import shortened
from tb.scenarios.send import exchange

if TYPE_CHECKING:
    from random import Random

LONG_READS = {"rd_latency_min": 150, "rd_latency_max": 1200, "rd_reorder": 1}
# A packet is in flight for longer than a few admin commands last.
IN_FLIGHT = {"net_latency_min": 6000, "net_latency_max": 6000}
TEARDOWN = shortened(races.teardown, rounds=6)
BARRIERS = shortened(races.barriers_meet, rounds=6)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class DrainingShowsUntilAcknowledged(NicTest):
    """send.draining"""

    work = staticmethod(collisions.draining_shows)
    knobs = IN_FLIGHT


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class ManyBreakAtOnce(NicTest):
    """send.at_once"""

    work = staticmethod(collisions.broken_at_once)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class AHandleGoesUnderItsSends(NicTest):
    """send.ah_destroyed"""

    work = staticmethod(collisions.handle_goes_under_sends)
    knobs = IN_FLIGHT


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class OtherHandlesGoUnderSends(NicTest):
    """send.ah_destroyed.others"""

    work = staticmethod(collisions.other_handles_go_under_sends)
    knobs = IN_FLIGHT


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class OneBreaksWhileAnotherGoes(NicTest):
    """send.at_once.destroyed"""

    work = staticmethod(shortened(collisions.breaks_while_another_goes, rounds=8))
    knobs = IN_FLIGHT


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class ForgottenSendsFreeTheirContexts(NicTest):
    """send.contexts_used_up.cleared"""

    work = staticmethod(collisions.contexts_come_back)
    knobs = {"net_latency_min": 12_000, "net_latency_max": 12_000}


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class DestroyedWhileDescriptorsAreRead(NicTest):
    """admin.released.descriptors"""

    work = staticmethod(collisions.destroyed_while_fetching)
    # A doorbell may arrive before the destruction takes effect, so doorbells are not compared.
    shown = tuple(kind for kind in KINDS if kind != "db")
    knobs = LONG_READS


def all_causes(backends: Sequence[Any], rng: Random) -> None:
    """Runs the scenario; EveryCauseIsReportedOnce reads the expected causes."""
    EXPECTED.clear()
    collisions.causes(backends, rng, EXPECTED)


EXPECTED: list[tuple[int, int]] = []


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EveryCauseIsReportedOnce(NicTest):
    """queue.causes"""

    work = staticmethod(all_causes)
    # The device prefetches descriptors, so qperr is compared with the scenario, not with the model.
    shown = ("anomaly_host", "anomaly_admin", "anomaly_net")

    def build_phase(self) -> None:
        super().build_phase()
        self.reported: list[tuple[int, int]] = []
        ConfigDB().get(self, "", "BOARD").listeners.append(self.note)

    def note(self, what: str, item: Any) -> None:
        """Records (queue pair, cause) of each ev_qperr."""
        if what == "event" and item.kind == defs.Ev.QPERR:
            event = defs.EVENTS.qperr.unpack(item.data)
            self.reported.append((event.qpn, event.cause))

    def check_phase(self) -> None:
        assert sorted(self.reported) == sorted(EXPECTED), (
            f"causes of queue pairs in ERR: expected {sorted(EXPECTED)}, "
            f"found {sorted(self.reported)}"
        )


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def objects_go_under_traffic(dut: Any) -> None:
    """admin.released.races"""
    await race(dut, TEARDOWN)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def objects_go_under_traffic_on_a_rough_host(dut: Any) -> None:
    """admin.released.races.rough"""
    await race(dut, TEARDOWN, **{**ROUGH, "rd_latency_max": 1200})


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def objects_go_while_acknowledgements_are_out(dut: Any) -> None:
    """admin.released.races.network"""
    await race(dut, TEARDOWN, net_latency_min=1500, net_latency_max=4000)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def barriers_of_a_flush_and_a_drain_meet(dut: Any) -> None:
    """send.at_once.barriers"""
    await race(dut, BARRIERS, **LONG_READS)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def peers_are_cancelled_by_a_reset(dut: Any) -> None:
    """reset.cleared.peers"""
    await race(dut, lifecycle.peers_of_an_earlier_session)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def old_acknowledgements_complete_nothing(dut: Any) -> None:
    """reset.cleared.acknowledgements"""
    await race(dut, lifecycle.acknowledgements_of_an_earlier_session)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def early_acknowledgements_complete_nothing(dut: Any) -> None:
    """send.acknowledged_early"""
    await race(dut, lifecycle.acknowledgements_before_their_send)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def counts_begin_at_zero_after_a_reset(dut: Any) -> None:
    """reset.cleared.counts"""
    await race(dut, lifecycle.counts_of_an_earlier_session)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def an_error_meets_a_change_of_its_queue_pair(dut: Any) -> None:
    """send.at_once.changes"""
    await race(dut, races.changes_meet_errors, rd_latency_min=40, rd_latency_max=40)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def stores_in_a_function_reset_do_nothing(dut: Any) -> None:
    """reset.function.stores"""
    await race(dut, lifecycle.stores_in_a_function_reset)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def a_broken_queue_sends_no_more(dut: Any) -> None:
    """send.broken.quiet"""
    await race(dut, collisions.nothing_leaves_of_a_broken_queue, rd_latency_min=3000,
               rd_latency_max=3000)  # fmt: skip


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def a_query_follows_a_reset_at_once(dut: Any) -> None:
    """send.reset.query"""
    await race(dut, collisions.reset_beside_a_query, **IN_FLIGHT)


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def waiting_receives_end_with_a_reset(dut: Any) -> None:
    """reset.receives"""
    await race(dut, lifecycle.reset_behind_waiting_receives, wr_stall=60_000)


class Hasty(LiveMemory):
    """Releases the memory of a queue pair at its move to RTS, which is deliberately wrong."""

    idle_states = (defs.AdminQpState.RESET, defs.AdminQpState.RTS)


def one_exchange(backends: Sequence[Any], _rng: Random) -> None:
    """Sends a message from one queue pair to another."""
    node = Node(backends[0])
    exchange(Endpoint(node), Endpoint(node), b"one message")


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def access_to_released_memory_fails(dut: Any) -> None:
    """bench.iommu"""
    try:
        await race(dut, one_exchange, Hasty)
    except BoundaryBroken as error:
        text = str(error)
    else:
        raise AssertionError("expected a broken boundary rule, found none")
    assert "DMA read of" in text and "released by the response to command" in text, text
