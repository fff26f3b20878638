# SPDX-License-Identifier: Apache-2.0
"""Tests the control plane on the device: random commands and registers, asynchronous events."""

from functools import partial

import pyuvm

from tb.env.control import (
    CommandKnobs,
    RandomCommands,
    RandomRegisters,
    RegisterKnobs,
    UnreadEntries,
)
from tb.env.nic_env import ROUGH, NicTest
from tb.env.register_walk import RegisterWalk
from tb.scenarios import async_events, counters, regions, wide
from tb.scenarios.length import is_short

COMMANDS = partial(RandomCommands, knobs=CommandKnobs(commands=300 if is_short() else 600,
                                                      sessions=4))  # fmt: skip
KEEP_ALIVE_CYCLES = 5000


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class RandomCommandsAtVersion1(NicTest):
    """control.commands.v1"""

    sequence = COMMANDS
    interface = 1


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class RandomCommandsAtVersion2(NicTest):
    """control.commands.v2"""

    sequence = COMMANDS
    interface = 2


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class RandomCommandsAtVersion3(NicTest):
    """control.commands.v3"""

    sequence = COMMANDS
    interface = 3


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class RandomCommandsOnARoughHost(NicTest):
    """control.commands.rough"""

    sequence = COMMANDS
    interface = 3
    knobs = ROUGH


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class RandomCommandsInTheRecordedProfile(NicTest):
    """control.commands.recorded"""

    sequence = COMMANDS
    profile = "recorded"


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class ModeratedCommands(NicTest):
    """control.moderation"""

    sequence = COMMANDS
    moderation = 1000


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class CommandsWithTheLongestModeration(NicTest):
    """control.moderation.longest"""

    work = staticmethod(wide.longest_moderation)
    # The scenario sets the moderation of the device after the probe, which would last long.
    knobs = {"keep_alive": (1 << 32) - 1, "moderation": 0}
    moderation = wide.LONGEST_MODERATION


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EntriesThatCannotBeRead(NicTest):
    """control.unread"""

    sequence = UnreadEntries


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class WideEntriesThatCannotBeRead(NicTest):
    """control.unread.wide"""

    sequence = UnreadEntries
    interface = 3


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class RandomRegisterStores(NicTest):
    """control.registers"""

    sequence = partial(RandomRegisters, knobs=RegisterKnobs(stores=300, sessions=3))


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EveryRegisterFollowsItsModel(NicTest):
    """control.registers.walk"""

    sequence = RegisterWalk


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EveryRegisterOfTheRecordedProfile(NicTest):
    """control.registers.walk.recorded"""

    sequence = partial(RegisterWalk, profile="recorded")
    profile = "recorded"


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EveryRegisterOnARoughHost(NicTest):
    """control.registers.walk.rough"""

    sequence = partial(RegisterWalk, interface=3)
    interface = 3
    knobs = ROUGH


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EventsOfEveryGroup(NicTest):
    """control.events"""

    work = staticmethod(async_events.events)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EventsFillTheirRing(NicTest):
    """control.events.full"""

    work = staticmethod(async_events.full_ring)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EventsOfGroupsThatAreNotEnabled(NicTest):
    """control.events.groups"""

    work = staticmethod(async_events.groups)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EventsCommandsAndKeepAlives(NicTest):
    """control.events.mixed"""

    work = staticmethod(async_events.events_and_commands)
    knobs = {**ROUGH, "keep_alive": KEEP_ALIVE_CYCLES}
    # The time of the device's own keep-alive decides whether a consumer index is ahead.
    shown = ("anomaly_host", "anomaly_net", "qperr")


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class CountersCountBeforeTheirEvents(NicTest):
    """admin.counters"""

    work = staticmethod(counters.counted)
    knobs = ROUGH


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EventsReachTheirRing(NicTest):
    """admin.events"""

    work = staticmethod(async_events.overrun)
    knobs = ROUGH


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class KeepAlivesComeAtTheirPeriod(NicTest):
    """admin.events"""

    work = staticmethod(async_events.alive)
    knobs = {"keep_alive": 900}


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class ModeratedMessagesAnnounceEverything(NicTest):
    """admin.moderation"""

    work = staticmethod(counters.counted)
    interface = 3
    moderation = 2000


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class ChainedListsAreRead(NicTest):
    """admin.regions"""

    work = staticmethod(regions.chained)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class CountersChangedAtOnce(NicTest):
    """control.counters.burst"""

    work = staticmethod(counters.modified_at_once)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class CountersChangedAtOnceOnARoughHost(NicTest):
    """control.counters.rough"""

    work = staticmethod(counters.modified_at_once)
    knobs = ROUGH


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class CountersRecreatedAtOnce(NicTest):
    """control.counters.recreated"""

    work = staticmethod(counters.recreated_at_once)


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class CountersRecreatedOnARoughHost(NicTest):
    """control.counters.recreated.rough"""

    work = staticmethod(counters.recreated_at_once)
    knobs = ROUGH
