# SPDX-License-Identifier: Apache-2.0
"""Runs random commands until the control plane bins of the device are hit: make cover-control."""

from functools import partial

import pyuvm

from tb.env.control import CommandKnobs, RandomCommands, UnreadEntries
from tb.env.nic_env import NicTest

MANY = partial(RandomCommands, knobs=CommandKnobs(commands=24_000, sessions=10))


@pyuvm.test(timeout_time=400, timeout_unit="ms")
class ManyCommandsAtVersion1(NicTest):
    """control.cover.v1"""

    sequence = MANY
    interface = 1


@pyuvm.test(timeout_time=400, timeout_unit="ms")
class ManyCommandsAtVersion2(NicTest):
    """control.cover.v2"""

    sequence = MANY
    interface = 2


@pyuvm.test(timeout_time=400, timeout_unit="ms")
class ManyCommandsAtVersion3(NicTest):
    """control.cover.v3"""

    sequence = MANY
    interface = 3


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class UnreadEntriesAtVersion1(NicTest):
    """control.cover.unread.v1"""

    sequence = UnreadEntries
    interface = 1


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class UnreadEntriesAtVersion2(NicTest):
    """control.cover.unread.v2"""

    sequence = UnreadEntries
    interface = 2


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class UnreadEntriesAtVersion3(NicTest):
    """control.cover.unread.v3"""

    sequence = UnreadEntries
    interface = 3
