# SPDX-License-Identifier: Apache-2.0
"""Tests with any value of each field, on a device of 1,024 queue pairs (scenarios: tb/scenarios).
"""

from functools import partial
from typing import Any

import cocotb
import pyuvm

from tb.env.nic_env import NicTest
from tb.env.raced import race
from tb.scenarios import wide
from tb.scenarios.length import is_short, shortened


@pyuvm.test(timeout_time=400, timeout_unit="ms")
class EachHandleAgain(NicTest):
    """admin.handles.generations"""

    work = staticmethod(shortened(wide.each_handle_again, rounds=1))


@pyuvm.test(timeout_time=400, timeout_unit="ms")
class MessagesWithAnyValues(NicTest):
    """send.any_values"""

    work = staticmethod(shortened(wide.messages_with_any_values, processes=24, rounds=3))


@cocotb.test(timeout_time=400, timeout_unit="ms")
async def any_header_is_received(dut: Any) -> None:
    """recv.any_header"""
    await race(dut, partial(wide.any_header, count=1600 if is_short() else 4000))


@cocotb.test(timeout_time=400, timeout_unit="ms")
async def any_acknowledgement_completes_its_send(dut: Any) -> None:
    """send.any_acknowledgement"""
    await race(dut, wide.any_acknowledgement)
