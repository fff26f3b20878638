# SPDX-License-Identifier: Apache-2.0
"""Tests two devices with the reliable transport (scenarios: tb/scenarios/reliable.py).

The build has RELIABLE=1. A share of packets is of 65536.
"""

from typing import Any

import cocotb
import pyuvm

from tb.env.nic_env import ROUGH, NicTest
from tb.env.raced import race
from tb.scenarios import rdma_pair, reliable
from tb.scenarios.length import is_short, shortened

LOSS_1 = {"net_loss": 655}
LOSS_10 = {"net_loss": 6554}
DUPLICATES = {"net_dup": 65536, "net_reorder_max": 4000}
REORDERING = {"net_reorder": 20000, "net_reorder_max": 3000}
ENDINGS = shortened(reliable.endings, rounds=4)
# PEER_RESETS has a reset by register and one by FLR. On a clean fabric the first one is enough.
PEER_RESETS = shortened(reliable.peer_resets, rounds=2)
PEER_RESET = shortened(reliable.peer_resets, rounds=1)
EVERYTHING = {"net_loss": 3000, "net_dup": 12000, **REORDERING}


class Exchange(NicTest):
    """Base of the tests: messages of 0 to 8,192 bytes in both directions."""

    work = staticmethod(shortened(reliable.exchange, rounds=1))
    profile = "recorded"
    least = 200 if is_short() else 500


@pyuvm.test(timeout_time=200, timeout_unit="ms")
class ReliableDevicesExchange(Exchange):
    """reliable.exchange"""


@pyuvm.test(timeout_time=200, timeout_unit="ms")
class ReliableDevicesExchangeOnRoughHosts(Exchange):
    """reliable.exchange.rough"""

    knobs = ROUGH


@pyuvm.test(timeout_time=200, timeout_unit="ms")
class OnePercentIsLost(Exchange):
    """reliable.loss"""

    knobs = LOSS_1


@pyuvm.test(timeout_time=200, timeout_unit="ms")
class TenPercentAreLost(Exchange):
    """reliable.loss.much"""

    knobs = LOSS_10


@pyuvm.test(timeout_time=200, timeout_unit="ms")
class EveryPacketComesTwice(Exchange):
    """reliable.duplicates"""

    knobs = DUPLICATES


@pyuvm.test(timeout_time=200, timeout_unit="ms")
class PacketsAreReordered(Exchange):
    """reliable.reordering"""

    knobs = REORDERING


@pyuvm.test(timeout_time=200, timeout_unit="ms")
class PacketsAreLostDuplicatedAndReordered(Exchange):
    """reliable.everything"""

    knobs = EVERYTHING


@pyuvm.test(timeout_time=200, timeout_unit="ms")
class PacketsAreLostDuplicatedAndReorderedOnRoughHosts(Exchange):
    """reliable.everything.rough"""

    knobs = ROUGH | EVERYTHING


@pyuvm.test(timeout_time=200, timeout_unit="ms")
class MessagesWaitForTheirReceives(NicTest):
    """reliable.rnr"""

    work = staticmethod(shortened(reliable.not_ready, rounds=1))
    profile = "default"
    least = 200


@pyuvm.test(timeout_time=200, timeout_unit="ms")
class MessagesWaitForTheirReceivesUnderLoss(MessagesWaitForTheirReceives):
    """reliable.rnr.loss"""

    work = staticmethod(shortened(reliable.not_ready, rounds=1))
    knobs = EVERYTHING


class Rdma(NicTest):
    """Base of the tests of RDMA operations between the devices."""

    profile = "recorded"
    least = 200


@pyuvm.test(timeout_time=200, timeout_unit="ms")
class RdmaOperationsAndSendsAreMixed(Rdma):
    """reliable.rdma"""

    work = staticmethod(shortened(rdma_pair.mixed, rounds=1))


@pyuvm.test(timeout_time=200, timeout_unit="ms")
class RdmaOperationsAndSendsAreMixedUnderLossOnRoughHosts(RdmaOperationsAndSendsAreMixed):
    """reliable.rdma.everything"""

    knobs = ROUGH | EVERYTHING


@pyuvm.test(timeout_time=200, timeout_unit="ms")
class WrongRdmaOperationsAreRefused(Rdma):
    """reliable.rdma.refused"""

    work = staticmethod(shortened(rdma_pair.refusals, rounds=1))


@pyuvm.test(timeout_time=200, timeout_unit="ms")
class WritesWithImmediateWaitForReceives(Rdma):
    """reliable.rdma.rnr"""

    work = staticmethod(shortened(rdma_pair.not_ready, rounds=1))
    profile = "default"


@pyuvm.test(timeout_time=200, timeout_unit="ms")
class WritesWithImmediateWaitForReceivesUnderLoss(WritesWithImmediateWaitForReceives):
    """reliable.rdma.rnr.loss"""

    work = staticmethod(shortened(rdma_pair.not_ready, rounds=1))
    knobs = EVERYTHING


@pyuvm.test(timeout_time=200, timeout_unit="ms")
class StatisticsOfAllOperationsAgree(Rdma):
    """reliable.rdma.statistics"""

    work = staticmethod(shortened(rdma_pair.statistics, rounds=1))
    least = 100


@pyuvm.test(timeout_time=200, timeout_unit="ms")
class RegionsGoWhileOperationsUseThem(Rdma):
    """reliable.rdma.regions"""

    work = staticmethod(shortened(rdma_pair.regions_go, rounds=2))


@pyuvm.test(timeout_time=200, timeout_unit="ms")
class RegionsGoWhileEverythingHappens(RegionsGoWhileOperationsUseThem):
    """reliable.rdma.regions.everything"""

    knobs = ROUGH | EVERYTHING


@cocotb.test(timeout_time=200, timeout_unit="ms")
async def objects_end_on_a_clean_fabric(dut: Any) -> None:
    """reliable.endings"""
    await race(dut, ENDINGS, devices=2)


@cocotb.test(timeout_time=200, timeout_unit="ms")
async def objects_end_while_packets_are_lost(dut: Any) -> None:
    """reliable.endings.loss"""
    await race(dut, ENDINGS, devices=2, **LOSS_10)


@cocotb.test(timeout_time=200, timeout_unit="ms")
async def objects_end_while_everything_happens(dut: Any) -> None:
    """reliable.endings.everything"""
    await race(dut, ENDINGS, devices=2, **ROUGH | EVERYTHING)


@cocotb.test(timeout_time=200, timeout_unit="ms")
async def a_peer_resets_on_a_clean_fabric(dut: Any) -> None:
    """reliable.reset"""
    await race(dut, PEER_RESET, devices=2)


@cocotb.test(timeout_time=200, timeout_unit="ms")
async def a_peer_resets_while_everything_happens(dut: Any) -> None:
    """reliable.reset.everything"""
    await race(dut, PEER_RESETS, devices=2, **ROUGH | EVERYTHING)
