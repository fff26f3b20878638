# SPDX-License-Identifier: Apache-2.0
"""Serves one simulated bench to the process that started the simulation (tb/lib/host.py)."""

import os
from multiprocessing.connection import Client

import cocotb

from tb.lib.native import BoundaryBroken, Native

ARENA_BYTES = 1 << 34


class Server:
    """Implements the calls of OuterLink, by name."""

    def __init__(self, dut):
        self.native = Native(dut)
        for name in ("post", "loads", "writes", "interrupts", "packets", "events", "counters",
                     "pins"):  # fmt: skip
            setattr(self, name, getattr(self.native, name))

    def start(self, seed, devices, knobs):
        self.native.start(seed, devices)
        for device, values in enumerate(knobs):
            self.native.knobs(device, **values)
        return self.native.cycle, self.native.activity

    def inject(self, device, packets, delay):
        for packet in packets:
            self.native.inject(device, packet, delay)

    def knobs(self, device, values):
        self.native.knobs(device, **values)

    def memory_file(self, device):
        return os.getpid(), self.native.library.efa_memory_fd(device), ARENA_BYTES

    def memory_map(self, device, address, size):
        return self.native.library.efa_memory_map(device, address, size)

    def memory_fail(self, device, address, size, fault):
        self.native.memory(device).fail(address, size, fault)

    def memory_heal(self, device):
        self.native.memory(device).heal()

    def digest(self):
        return self.native.digest

    async def run(self, until, cycles):
        woken = await self.native.run(until, cycles)
        return woken, self.native.cycle, self.native.activity


@cocotb.test()
async def serve(dut):
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
