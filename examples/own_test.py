# SPDX-License-Identifier: Apache-2.0
"""Runs your own sequence on the RTL; the bench compares every output with the model.

    .venv/bin/python -m tb.runner system examples/own_test.py
    .venv/bin/python -m tb.runner system examples/own_test.py --sim icarus --seed 7

WAVES=1 in front of a command writes a trace.
"""

import random

import pyuvm

from efa_cosim.host.endpoints import Endpoint, Node, pattern
from tb.env.items import HostSequence
from tb.env.nic_env import ROUGH, NicTest

MESSAGES = 20


class RandomPingPong(HostSequence):
    """Sends messages of random size from each of two queue pairs to the other in turn."""

    def __init__(self, backends, seed):
        super().__init__("random_ping_pong")
        self.backend, self.random = backends[0], random.Random(seed)

    async def body(self):
        # Host software blocks: do() runs it, and each of its accesses becomes an item.
        a, b = await self.do(self.set_up)
        for number in range(MESSAGES):
            await self.do(self.exchange, a, b, pattern(self.random.randrange(4097), number))
            a, b = b, a

    def set_up(self):
        node = Node(self.backend)
        return Endpoint(node), Endpoint(node)

    @staticmethod
    def exchange(a, b, data):
        b.receive(len(data))
        a.send(b, data)
        for end in (a, b):
            assert end.cq.wait_for(1)[0]["status"] == 0
        assert b.buffer.read(0, len(data)) == data


@pyuvm.test(timeout_time=40, timeout_unit="ms")
class OwnTraffic(NicTest):
    """example.own: the traffic of the sequence, on a host with random latencies and stalls"""

    sequence = RandomPingPong
    knobs = ROUGH
    least = 5 * MESSAGES
