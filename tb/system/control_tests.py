"""Random commands and registers against the device (sequences: tb/env/control.py)."""

import pyuvm

from tb.env import control
from tb.env.nic_env import ROUGH, NicTest
from tb.seq import notices

KNOBS = control.CommandKnobs(commands=600, lives=3)


class Commands(control.RandomCommands):
    """As many as a simulation of seconds takes."""

    def __init__(self, backends, seed):
        super().__init__(backends, seed, KNOBS)


@pyuvm.test(timeout_time=80, timeout_unit="ms")
class RandomCommandsInVersionOne(NicTest):
    """admin.random"""

    sequence = Commands
    interface = 1
    least = 500


@pyuvm.test(timeout_time=80, timeout_unit="ms")
class RandomCommandsInVersionTwo(NicTest):
    """admin.random"""

    sequence = Commands
    interface = 2
    knobs = ROUGH
    least = 500


@pyuvm.test(timeout_time=80, timeout_unit="ms")
class RandomCommandsInVersionThree(NicTest):
    """admin.random"""

    sequence = Commands
    interface = 3
    least = 500


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EntriesThatCannotBeReadAreAnswered(NicTest):
    """admin.random"""

    sequence = control.UnreadEntries
    interface = 3


@pyuvm.test(timeout_time=80, timeout_unit="ms")
class RegistersInAnyOrder(NicTest):
    """admin.random"""

    sequence = control.RandomRegisters
    least = 100


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class CountersCountBeforeTheirEvents(NicTest):
    """admin.counters"""

    work = staticmethod(notices.counted)
    knobs = ROUGH


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class EventsReachTheirRing(NicTest):
    """admin.events"""

    work = staticmethod(notices.asynchronous)
    knobs = ROUGH


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class KeepAlivesComeAtTheirPeriod(NicTest):
    """admin.events"""

    work = staticmethod(notices.alive)
    knobs = {"keep_alive": 900}


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class ModeratedMessagesAnnounceEverything(NicTest):
    """admin.moderation"""

    work = staticmethod(notices.counted)
    interface = 3
    moderation = 2000


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class ChainedListsAreRead(NicTest):
    """admin.regions"""

    work = staticmethod(notices.chained)
