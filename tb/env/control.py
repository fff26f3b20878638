# SPDX-License-Identifier: Apache-2.0
"""Defines random register and admin sequences in pyuvm, with knobs, for any backend.

In a simulation the accesses of a sequence are items of the host agent's sequencer; `run_direct`
runs the sequence on the model, without a simulation.

    RandomCommands(backends, seed, CommandKnobs(invalid=0.5))
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from efa_cosim.host.alloc import PAGE_BYTES, HostAllocator
from efa_cosim.host.driver import Driver
from efa_cosim.layouts import defs
from tb.env.items import HostSequence
from tb.scenarios.commands import Commands, all_themes
from tb.scenarios.registers import Registers

DEPTHS = (1, 2, 4, 8, 32)
WIDE = defs.AdminAqEntryV2.SIZE


@dataclass
class CommandKnobs:
    """Sets the number of commands, the invalid and corrupted shares and the number of sessions.

    `corrupted` is the share of 128-byte AQEs with one changed byte. `sessions` is the number of
    driver sessions; each session uses another ring depth.
    """

    commands: int = 2000
    invalid: float = 0.35
    corrupted: float = 0.02
    sessions: int = 5
    flavour: str = "newest"


class RandomCommands(HostSequence):
    """Sends random admin commands, in batches of up to the ring depth."""

    def __init__(
        self,
        backends: Sequence[Any],
        seed: int,
        knobs: CommandKnobs | None = None,
    ) -> None:
        super().__init__("random_commands")
        self.backend, self.random = backends[0], random.Random(seed)
        self.knobs = knobs or CommandKnobs()
        self.refused = self.responded = 0
        self.themes = all_themes(self.random)
        self.allocator = HostAllocator(self.backend.memory)
        self.unreadable = self.allocator.alloc(PAGE_BYTES)

    async def body(self) -> None:
        knobs = self.knobs
        await self.do(self.backend.fail_reads, self.unreadable, PAGE_BYTES)
        for session in range(knobs.sessions):
            depth = DEPTHS[(session + self.random.randrange(len(DEPTHS))) % len(DEPTHS)]
            driver, commands = await self.do(self.bring_up, depth)
            left = knobs.commands // knobs.sessions
            while left > 0:
                count = self.random.randrange(1, depth + 1)
                await self.do(self.batch, driver, commands, count)
                left -= count
            await self.do(self.backend.checkpoint)
            # The rings stay mapped: the device may still write outstanding entries.
            await self.do(driver.reset)

    def bring_up(self, depth: int) -> tuple[Driver, Commands]:
        """Returns a driver with admin rings of this depth, and a command generator for it."""
        driver = Driver(self.backend, flavour=self.knobs.flavour, allocator=self.allocator)
        driver.admin_depth = depth
        driver.probe()
        knobs = self.knobs
        return driver, Commands(driver, self.random, knobs.invalid, self.unreadable, self.themes)

    def batch(self, driver: Any, commands: Commands, count: int) -> None:
        """Posts `count` commands back to back and waits for all responses."""
        given = []
        for _ in range(count):
            request, corrupt = commands.draw(), None
            if driver.admin.entry.SIZE == WIDE and self.random.random() < self.knobs.corrupted:
                # The first four bytes hold the command id by which the driver finds the command.
                corrupt = self.random.randrange(4, WIDE)
            given.append((request, driver.submit(request, corrupt)))
        driver.wait(lambda: all(command.done for _, command in given))
        for request, command in given:
            commands.learn(request, command.status, command.response)
            self.refused += command.status != defs.AdminAqCompletionStatus.SUCCESS
        self.responded += count


class UnreadEntries(HostSequence):
    """Posts commands whose AQE cannot be read, in the first, a middle and the last slot."""

    def __init__(self, backends: Sequence[Any], seed: int) -> None:
        super().__init__("unread_entries")
        self.backend, self.random = backends[0], random.Random(seed)
        self.allocator = HostAllocator(self.backend.memory)

    async def body(self) -> None:
        for slot in (0, 1, 3):
            await self.do(self.one_slot, slot)

    def one_slot(self, slot: int) -> None:
        """Makes one of four AQEs unreadable; all other commands get responses."""
        driver = Driver(self.backend, allocator=self.allocator)
        driver.admin_depth = 4
        driver.probe()
        admin: Any = driver.admin
        self.backend.fail_reads(admin.aq_base + slot * admin.entry.SIZE, admin.entry.SIZE)
        for _ in range(8):
            place = admin.place
            command = driver.submit(defs.AdminAllocPdCmd())
            if place == slot:
                before = len(admin.strays)
                # The default binds this count; mypy infers no lambda with defaults.
                driver.wait(lambda before=before: len(admin.strays) > before)  # type: ignore[misc]
                admin.cancel(command)
            else:
                driver.finish(command)
        driver.reset()


@dataclass
class RegisterKnobs:
    """Sets the number of register stores and the share of stores that no driver makes."""

    stores: int = 500
    invalid: float = 0.5
    sessions: int = 4


class RandomRegisters(HostSequence):
    """Stores and reads registers in any order and size, then brings the driver up."""

    def __init__(
        self,
        backends: Sequence[Any],
        seed: int,
        knobs: RegisterKnobs | None = None,
    ) -> None:
        super().__init__("random_registers")
        self.backend, self.random = backends[0], random.Random(seed)
        self.knobs = knobs or RegisterKnobs()

    async def body(self) -> None:
        for _ in range(self.knobs.sessions):
            registers = await self.do(Registers, self.backend, self.random, self.knobs.invalid)
            for _ in range(self.knobs.stores // 25):
                await self.do(registers.some, 25)
            driver = Driver(self.backend, flavour=self.random.choice(("newest", "3.1.0")))
            await self.do(driver.probe)
            await self.do(self.comes_up, driver)
            await self.do(driver.remove)

    @staticmethod
    def comes_up(driver: Driver) -> None:
        """Checks that the earlier stores left no state in the device."""
        assert (driver.alloc_pd(), driver.alloc_uar()) == (0, 0)
        driver.dealloc_pd(0)
        driver.dealloc_uar(0)


def run_direct(sequence: Any) -> Any:
    """Runs a sequence without a simulation, on a backend without time."""

    async def do(work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        return work(*arguments, **named)

    sequence.do = do
    body = sequence.body()
    try:
        body.send(None)
    except StopIteration:
        return sequence
    body.close()
    raise RuntimeError(f"{sequence.get_name()} requires a simulation")
