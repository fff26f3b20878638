# SPDX-License-Identifier: Apache-2.0
"""Tests bring-up on the device (scenarios: tb/scenarios)."""

import pyuvm

from tb.env.nic_env import NicTest
from tb.scenarios import bringup


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class ProbeAndRemoveInBothFlavours(NicTest):
    """bringup.probe"""

    work = staticmethod(bringup.both_flavours)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class RegistersCompleteReadsOfBothKinds(NicTest):
    """bringup.registers"""

    work = staticmethod(bringup.registers)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class RegistersOfTheRecordedProfile(NicTest):
    """bringup.registers.recorded"""

    work = staticmethod(bringup.registers)
    profile = "recorded"


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class ReservedPcieSizesMeanTheGreatest(NicTest):
    """bringup.sizes.reserved"""

    work = staticmethod(bringup.long_message)
    knobs = {"mps": 7, "mrrs": 6}


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class MaskedAdminInterruptIsHeldAndSentOnce(NicTest):
    """bringup.intr_mask"""

    work = staticmethod(bringup.masked_admin_interrupt)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class MaskedVectorIsPendingUntilUnmasked(NicTest):
    """bringup.msix_mask"""

    work = staticmethod(bringup.masked_vector)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class MaskedFunctionIsPendingUntilUnmasked(NicTest):
    """bringup.msix_mask.function"""

    work = staticmethod(bringup.masked_function)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class FunctionLevelResetClearsEverything(NicTest):
    """bringup.flr"""

    work = staticmethod(bringup.function_level_reset)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class IgnoredAccessesAreShown(NicTest):
    """bringup.ignored"""

    work = staticmethod(bringup.ignored_by_the_device)
