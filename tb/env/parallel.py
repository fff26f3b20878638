# SPDX-License-Identifier: Apache-2.0
"""Runs several processes of a host at the same time: one sequence each, on one sequencer."""

from __future__ import annotations

import random
from collections.abc import Sequence
from copy import copy
from typing import Any

import cocotb

from efa_cosim.host.endpoints import SRD, UD, Endpoint, Node, pattern
from efa_cosim.host.verbs import Context
from tb.env.items import HostSequence
from tb.scenarios.send import SIZES, exchange


class Process(HostSequence):
    """Exchanges messages between two endpoints of its own; other processes do the same."""

    def __init__(
        self, number: int, ends: tuple[Endpoint, Endpoint], seed: int, messages: int
    ) -> None:
        super().__init__(f"process{number}")
        self.ends, self.random, self.messages = ends, random.Random(f"{seed} {number}"), messages

    async def body(self) -> None:
        for number in range(self.messages):
            await self.do(exchange, *self.ends, pattern(self.random.choice(SIZES), number))


class Processes(HostSequence):
    """Starts the processes together and waits for all of them."""

    def __init__(
        self,
        backends: Sequence[Any],
        seed: int,
        processes: int = 4,
        messages: int = 25,
    ) -> None:
        super().__init__("processes")
        self.backend, self.seed = backends[0], seed
        self.processes, self.messages = processes, messages

    async def body(self) -> None:
        pairs = await self.do(self.endpoints)
        started = [
            cocotb.start_soon(Process(number, ends, self.seed, self.messages).start(self.sequencer))
            for number, ends in enumerate(pairs)
        ]
        for process in started:
            await process

    def endpoints(self) -> list[tuple[Endpoint, Endpoint]]:
        """Returns two endpoints for each process, in a context and a domain of its own."""
        node, pairs = Node(self.backend), []
        for number in range(self.processes):
            node.context = Context(node.driver, None, self.seed + number, None)
            node.use(node.context.alloc_pd())
            kind = (UD, SRD)[number % 2]
            own = copy(node)
            pairs.append((Endpoint(own, kind), Endpoint(own, kind)))
        return pairs
