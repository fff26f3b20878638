# SPDX-License-Identifier: Apache-2.0
"""Nodes of the transport on a network with faults, and the measurements of its targets.

    PYTHONPATH=model .venv/bin/python model/tests/transport_bench.py 200000

prints goodput and retransmissions beside go-back-N with that number of packets.
"""

import sys
import time
from collections import defaultdict

from lossy_network import LossyNetwork, lose

from efa_cosim.layouts import defs
from efa_cosim.layouts.fields import SrdHdrFields
from efa_cosim.transport.endpoint import Endpoint
from efa_cosim.transport.go_back_n import GoBackN
from efa_cosim.transport.message import Message
from efa_cosim.transport.monitor import Monitor
from efa_cosim.transport.packets import Start

OK = defs.IoCompStatus.OK
TICK = defs.TRANSPORT.tick_cycles
PAYLOAD = 4096
FLITS = 65  # of a packet of 4 KB with its header
# With this delay, a round trip is that of 128 packets of 4 KB.
LONG = 4100
LONG_RTT = 2 * LONG + FLITS + 1


def name_of(packet):
    return int.from_bytes(packet[defs.SrdHdr.SIZE : defs.SrdHdr.SIZE + 8], "little")


class Watched(Endpoint):
    """An endpoint that reports what it receives, and its outcomes, to the observer of its
    network."""

    def __init__(self, network, node, nodes, execute, **settings):
        self.monitor, self.place, self.clock = network.observer, node, network

        def observed(packet):
            status = execute(packet)
            if status is not None:
                self.monitor.executed(self.clock.now, packet, status)
            return status

        super().__init__(network, node, nodes, observed, **settings)

    def receive(self, packet):
        self.monitor.delivered(self.clock.now, packet, self.place)
        super().receive(packet)

    def executed(self, packet, status):
        self.monitor.executed(self.clock.now, packet, status)
        super().executed(packet, status)


class Bench:
    """Nodes 0 to `nodes` - 1; keeps each execution and each completion.

    - `executed`: by packet name, (cycle, incarnation of the receiver, status) of each execution
    - `done`: by message, (cycle, status) of each completion
    - `posted`: by message, (cycle, source, names of its packets)
    - `judge`: returns the status of a packet from its node, its name and its bytes
    - `monitor`: checks each packet of an Endpoint, of the class `watch`; None without one
    """

    def __init__(self, nodes=2, *, delay=500, faults=(), seed=1, most=None, engine=Endpoint,
                 watch=Monitor, **settings):  # fmt: skip
        self.net = LossyNetwork(delay, faults, seed, most)
        self.monitor = None
        if watch is not None and engine is Endpoint:
            engine = Watched
            known = {name: settings[name] for name in ("constants", "paths") if name in settings}
            self.monitor = self.net.observer = watch(
                nodes=range(nodes), start=settings.get("start", Start()), outcomes=True,
                message_of=self.message_of, **known)  # fmt: skip
        self._messages = {}
        self.executed, self.done = defaultdict(list), defaultdict(list)
        self.posted, self.anomalies = {}, defaultdict(list)
        self.judge = lambda node, name, packet: OK
        self._names = 0
        self.nodes = [
            engine(self.net, node, nodes, self._execute(node), anomaly=self._anomaly(node),
                   **settings)
            for node in range(nodes)
        ]  # fmt: skip

    def _execute(self, node):
        def execute(packet):
            name = name_of(packet)
            status = self.judge(node, name, packet)
            incarnation = getattr(self.nodes[node], "incarnation", 1)
            self.executed[name].append((self.net.now, incarnation, status))
            return status

        return execute

    def message_of(self, packet):
        return self._messages.get(name_of(packet))

    def _anomaly(self, node):
        return lambda cause, packet: self.anomalies[node].append(cause)

    def post(self, source=0, node=1, packets=1, size=PAYLOAD, then=None, **fields):
        """Posts a message whose packets begin with their names; returns the message."""
        names = range(self._names, self._names + packets)
        self._names += packets
        pad = bytes(size - 8)

        def done(message, status):
            self.done[message].append((self.net.now, status))
            if self.monitor is not None:
                self.monitor.completed(self.net.now, source, message, status)
            if then is not None:
                then(message, status)

        message = Message(node, [n.to_bytes(8, "little") + pad for n in names], done, **fields)
        self.posted[message] = self.net.now, source, names
        self._messages.update(dict.fromkeys(names, message))
        self.nodes[source].post(message)
        return message

    def status(self, message):
        """The status of the one completion of a message."""
        ((_, status),) = self.done[message]
        return status

    def check(self, status=OK):
        """Checks that each message has completed once with a status, each packet executed once."""
        assert all(len(self.done[message]) == 1 for message in self.posted)
        if status is not None:
            assert {self.status(message) for message in self.posted} <= {status}
        if status == OK:
            assert all(len(self.executed[name]) == 1 for name in range(self._names))

    @property
    def completions(self):
        """Cycles of the completions, in order."""
        return sorted(cycle for ends in self.done.values() for cycle, _ in ends)

    def sent(self, source=0):
        return self.nodes[source].counters


def rate(cycles, first=0.25):
    """Share of the line that completions of packets of 4 KB take, after the first ones."""
    at = int(len(cycles) * first)
    return (len(cycles) - 1 - at) * FLITS / (cycles[-1] - cycles[at])


def stream(faults, packets, *, engine=Endpoint, paths=1, delay=LONG, seed=1, **settings):
    """Sends single packets of 4 KB as fast as the line; returns the bench after the last one."""
    bench = Bench(delay=delay, faults=faults, seed=seed, engine=engine, paths=paths, **settings)
    for _ in range(packets):
        bench.post()
    bench.net.run()
    return bench


def source_of(packet):
    return SrdHdrFields.read(packet).src_node


def incast(senders, packets, *, delay=500, paths=8, most=None):
    """Many nodes send to node 0 at once; returns the bench and the packets of each sender between
    1/8 of the time and its end, and the share of the line they take."""
    bench = Bench(senders + 1, delay=delay, paths=paths, most=most)
    arrivals = defaultdict(list)

    def judge(node, name, packet):
        arrivals[source_of(packet)].append(bench.net.now)
        return OK

    bench.judge = judge
    for _ in range(packets):
        for node in range(1, senders + 1):
            bench.post(node, 0)
    # No sender has finished before this cycle.
    end = packets * FLITS * senders // 2
    first = end // 8
    bench.net.run(end)
    counts = [sum(first <= cycle < end for cycle in arrivals[node]) for node in sorted(arrivals)]
    return bench, counts, sum(counts) * FLITS / (end - first)


def jain(values):
    """Jain's index of fairness: 1 if all values are equal, 1/n if only one is not 0."""
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values))


def measure(packets):
    """Prints goodput under loss beside go-back-N, and the speed of the program."""
    for engine in (Endpoint, GoBackN):
        for loss in (0, 1e-4, 1e-3, 1e-2):
            began = time.process_time()
            bench = stream([lose(loss)], packets, engine=engine)
            seconds = time.process_time() - began
            bench.check()
            counters = bench.sent()
            print(
                f"{engine.__name__:8} loss {loss:g}: goodput/((1-p) line) "
                f"{rate(bench.completions) / (1 - loss):.4f}, lost {bench.net.lost}, "
                f"retransmitted {counters.retransmitted}, timeouts {counters.timeouts}, "
                f"{packets / seconds:,.0f} packets/s"
            )
    for delay in (500, LONG):
        bench, counts, share = incast(16, packets // 32, delay=delay)
        print(f"16-to-1, delay {delay}: Jain {jain(counts):.4f}, goodput {share:.4f}, "
              f"deepest queue {bench.net.deepest} packets")  # fmt: skip


if __name__ == "__main__":
    measure(int(sys.argv[1]) if sys.argv[1:] else 50_000)
