# SPDX-License-Identifier: Apache-2.0
"""Runs a thousand device sessions that end at random moments in every way: make reset-soak."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyuvm

from tb.env.nic_env import ROUGH, NicTest
from tb.scenarios.lifecycle import SessionKnobs, random_ends

if TYPE_CHECKING:
    from random import Random


def half_a_thousand(backends: Sequence[Any], rng: Random) -> None:
    """Runs sessions and their ends."""
    random_ends(backends, rng, SessionKnobs(sessions=500))


@pyuvm.test(timeout_time=400, timeout_unit="ms")
class FiveHundredSessions(NicTest):
    """reset.ends.long"""

    work = staticmethod(half_a_thousand)
    shown = ()


@pyuvm.test(timeout_time=400, timeout_unit="ms")
class FiveHundredSessionsOnARoughHost(NicTest):
    """reset.ends.long.rough"""

    work = staticmethod(half_a_thousand)
    shown = ()
    knobs = ROUGH
