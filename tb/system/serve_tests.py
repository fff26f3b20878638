# SPDX-License-Identifier: Apache-2.0
"""Serves one simulated bench to the process that started the simulation (tb/lib/host.py)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from multiprocessing.connection import Client
from typing import Any

import cocotb

from tb.lib.native import BoundaryBroken, Native
from tb.lib.requests import Condition

ARENA_BYTES = 1 << 34


class Server:
    """Implements the calls of OuterLink, by name."""

    def __init__(self, dut: Any) -> None:
        self.native = Native(dut)
        for name in ("post", "loads", "writes", "interrupts", "packets", "events", "counters",
                     "pins"):  # fmt: skip
            setattr(self, name, getattr(self.native, name))

    def start(
        self, seed: int, devices: int, knobs: Sequence[Mapping[str, int]]
    ) -> tuple[int, int]:
        self.native.start(seed, devices)
        for device, values in enumerate(knobs):
            self.native.knobs(device, **values)
        return self.native.cycle, self.native.activity

    def inject(self, device: int, packets: Iterable[bytes], delay: int) -> None:
        for packet in packets:
            self.native.inject(device, packet, delay)

    def knobs(self, device: int, values: Mapping[str, int]) -> None:
        self.native.knobs(device, **values)

    def memory_file(self, device: int) -> tuple[int, int, int]:
        return os.getpid(), self.native.library.efa_memory_fd(device), ARENA_BYTES

    def memory_map(self, device: int, address: int, size: int) -> int:
        return self.native.library.efa_memory_map(device, address, size)

    def memory_fail(self, device: int, address: int, size: int, fault: int) -> None:
        self.native.memory(device).fail(address, size, fault)

    def memory_heal(self, device: int) -> None:
        self.native.memory(device).heal()

    def digest(self) -> int:
        return self.native.digest

    async def run(self, until: Iterable[Condition], cycles: int) -> tuple[int, int, int]:
        woken = await self.native.run(until, cycles)
        return woken, self.native.cycle, self.native.activity


@cocotb.test()
async def serve(dut: Any) -> None:
    """bench.serve"""
    server = Server(dut)
    with Client(os.environ["EFA_SOCKET"], family="AF_UNIX") as connection:
        while True:
            try:
                name, arguments = connection.recv()
            except EOFError:
                return
            if name == "close":
                server.native.check()
                return
            try:
                result = getattr(server, name)(*arguments)
                if name == "run":
                    result = await result
            except BoundaryBroken as error:
                connection.send((False, str(error)))
                raise
            except Exception as error:
                connection.send((False, repr(error)))
            else:
                connection.send((True, result))
