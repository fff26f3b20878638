# SPDX-License-Identifier: Apache-2.0
"""Tests admin commands on the device (scenarios: tb/scenarios)."""

import pyuvm

from tb.env.nic_env import NicTest
from tb.scenarios import admin, regions


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EveryObjectIsMadeAndUnmade(NicTest):
    """admin.objects"""

    work = staticmethod(admin.every_object)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EveryRuleIsEnforced(NicTest):
    """admin.refusals"""

    work = staticmethod(admin.every_refusal)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class NumbersRunOutAndComeBack(NicTest):
    """admin.limits"""

    work = staticmethod(admin.everything_taken)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class ThirtyCommandsAtOnce(NicTest):
    """admin.concurrent"""

    work = staticmethod(admin.many_commands)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class DependentCommandsAtOnce(NicTest):
    """admin.dependent"""

    work = staticmethod(admin.dependent_commands)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class LongPageListIsRead(NicTest):
    """admin.page_list"""

    work = staticmethod(regions.long_page_list)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class LongPageListInSmallReadRequests(NicTest):
    """host.request_sizes.page_list"""

    work = staticmethod(regions.long_page_list)
    sizes = 4096, 128


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class StatisticsAreThoseOfTheTraffic(NicTest):
    """admin.statistics"""

    work = staticmethod(admin.statistics)
