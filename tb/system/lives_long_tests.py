# SPDX-License-Identifier: Apache-2.0
"""A thousand lives of the device, ended at random moments in every way there is: make lives."""

import pyuvm

from tb.env.nic_env import ROUGH, NicTest
from tb.seq.lifecycle import LifeKnobs, random_ends


def half_a_thousand(backends, rng):
    """Lives and their ends."""
    random_ends(backends, rng, LifeKnobs(lives=500))


@pyuvm.test(timeout_time=400, timeout_unit="ms")
class FiveHundredLives(NicTest):
    """reset.ends.long"""

    work = staticmethod(half_a_thousand)
    shown = ()


@pyuvm.test(timeout_time=400, timeout_unit="ms")
class FiveHundredLivesOnARoughHost(NicTest):
    """reset.ends.long.rough"""

    work = staticmethod(half_a_thousand)
    shown = ()
    knobs = ROUGH
