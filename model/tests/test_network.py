# SPDX-License-Identifier: Apache-2.0
"""Tests the fabric with time: exact cycles, queues, each fault, counters, timers, seeds."""

import math
import random
from collections import Counter, defaultdict
from fractions import Fraction

import pytest
from rig import SRD, Comp, Pair

from efa_cosim.fabric.description import parse_fabric
from efa_cosim.fabric.network import Network
from efa_cosim.layouts import defs

FLIT = 64
HEADER_BYTES = defs.PktHdr.SIZE


def packet(number, destination=1, source=0, path=0, flits=1):
    """Returns a packet of this many flits whose psn is `number`."""
    header = defs.PktHdr(psn=number, src_node=source, dst_node=destination, path=path)
    return header.pack() + bytes(flits * FLIT - HEADER_BYTES)


def number_of(data):
    return defs.PktHdr.unpack(data).psn


class Run:
    """A network whose nodes note (cycle, packet number) of what they receive."""

    def __init__(self, text):
        self.network = Network(parse_fabric(text))
        self.received = defaultdict(list)
        for node in self.network.description.nodes:
            self.network.attach(node.number, self._receiver(node.number))

    def _receiver(self, node):
        return lambda data: self.received[node].append((self.network.now, number_of(data)))

    def train(self, count, gap=0, first=0, **where):
        """Sends `count` packets, `gap` cycles apart, the first in cycle `first`."""
        for number in range(count):
            data = packet(number, **where)
            self.network.at(first + number * gap, lambda data=data: self.network.send(data))
        return self

    def run(self):
        self.network.run()
        assert self.network.idle
        return self

    def numbers(self, node=1):
        return [number for _, number in self.received[node]]

    def path(self, path=0):
        return self.network.path_counters()[path]

    def port(self, node=1):
        return self.network.port_counters()[node]


def faulty(properties, count=2000, gap=1, seed=1):
    """Returns a Run of a train from node 0 to node 1 on a path with these properties."""
    text = f"nodes: 2\nseed: {seed}\npaths: {{default: {{{properties}}}}}"
    return Run(text).train(count, gap).run()


def lost_numbers(run, count):
    return sorted(set(range(count)) - set(run.numbers()))


# Time.


def test_a_packet_takes_link_latency_and_port():
    run = Run("nodes: 2\nport: {rate: 1/3}\npaths: {default: {latency: 70, rate: 0.5}}")
    run.train(1, first=5, flits=4).run()
    assert run.received[1] == [(5 + 8 + 70 + 12, 0)]


def test_a_train_has_exactly_the_rate_of_its_link():
    run = Run("nodes: 2\npaths: {default: {latency: 9, rate: 3/7}}").train(3000, flits=2).run()
    ends = [math.ceil(Fraction(2 * (number + 1) * 7, 3)) for number in range(3000)]
    assert run.received[1] == [(end + 9 + 2, number) for number, end in enumerate(ends)]


@pytest.mark.parametrize("seed", range(4))
def test_random_traffic_arrives_in_the_cycles_of_two_queues_in_a_row(seed):
    rng = random.Random(seed)
    rates = {node: Fraction(rng.randint(1, 9), 9) for node in range(5)}
    latencies = [rng.randint(0, 60) for _ in range(3)]
    rate = Fraction(rng.randint(1, 7), 7)
    nodes = ", ".join(f"{{node: {node}, port: {{rate: {one}}}}}" for node, one in rates.items())
    overrides = ", ".join(f"{{path: {path}, latency: {one}}}"
                          for path, one in enumerate(latencies))  # fmt: skip
    run = Run(f"nodes: [{nodes}]\npaths: {{count: 3, default: {{rate: {rate}}}, "
              f"overrides: [{overrides}]}}")  # fmt: skip
    sends = sorted((rng.randrange(3000), number) for number in range(2000))
    free, arrivals = defaultdict(Fraction), []
    for order, (cycle, number) in enumerate(sends):
        source, destination, path, flits = (rng.randrange(5), rng.randrange(5), rng.randrange(3),
                                            rng.randint(1, 65))  # fmt: skip
        data = packet(number, destination, source, path, flits)
        run.network.at(cycle, lambda data=data: run.network.send(data))
        link = source, destination, path
        free[link] = max(free[link], Fraction(cycle)) + flits / rate
        arrivals.append((math.ceil(free[link]) + latencies[path], order, number, destination,
                         flits))  # fmt: skip
    run.run()
    expected, busy = defaultdict(list), defaultdict(Fraction)
    for arrival, _, number, destination, flits in sorted(arrivals):
        busy[destination] = max(busy[destination], Fraction(arrival)) + flits / rates[destination]
        expected[destination].append((math.ceil(busy[destination]), number))
    # Packets that reach a port in the same cycle are in the order in which they were sent.
    assert run.received == expected
    assert sum(len(rows) for rows in run.received.values()) == 2000
    assert run.network.dropped == 0


def test_without_faults_no_packet_is_lost_or_reordered():
    run = faulty("latency: 40", count=20_000, gap=0)
    assert run.numbers() == list(range(20_000))
    counters = run.path()
    assert (counters.sent, counters.delivered, counters.lost) == (20_000, 20_000, 0)
    assert counters.largest_queue == 20_000 - 1


def test_directions_and_overrides_have_their_own_latency():
    run = Run("""
nodes: 3
paths:
  count: 2
  default: {latency: 10}
  overrides:
    - {path: 1, latency: 20}
    - {source: 0, destination: 1, direction: both, latency: 30}
    - {path: 1, source: 0, destination: 1, latency: 40}
""")
    cases = {(0, 0, 1): 30, (0, 1, 0): 30, (1, 0, 1): 40, (1, 1, 0): 30, (0, 0, 2): 10,
             (1, 2, 0): 20, (1, 2, 2): 20}  # fmt: skip
    for number, ((path, source, destination), latency) in enumerate(cases.items()):
        run.network.send(packet(number, destination, source, path))
        start = run.network.now
        run.run()
        assert run.received[destination][-1] == (start + latency + 2, number)


# Queues.


@pytest.mark.parametrize(("limit", "kept"), [
    ("packets: 3", 4), ("packets: 0", 1), ("flits: 7", 4), ("flits: 1", 1),
    ("packets: 5, flits: 4", 3)])  # fmt: skip
def test_a_full_queue_of_a_link_drops_the_newest_packets(limit, kept):
    run = Run(f"nodes: 2\npaths: {{default: {{buffer: {{{limit}}}}}}}")
    run.train(10, flits=2)
    # Two more when the last packet has left, and a full queue again when the link is idle.
    run.train(2, first=2 * kept, flits=2).train(kept, first=100, flits=2).run()
    assert run.numbers() == [*range(kept), *range(min(2, kept)), *range(kept)]
    counters = run.path()
    assert counters.largest_queue == kept - 1
    assert counters.buffer == counters.lost == 10 - kept + (kept == 1)


def test_the_largest_queue_is_that_of_the_whole_run():
    run = Run("nodes: 2").train(5).train(3, first=100).run()
    assert run.path().largest_queue == 4


def test_a_full_queue_of_a_port_drops_the_newest_packets():
    run = Run("nodes: 2\nport: {rate: 1/2, buffer: {packets: 3}}").train(100).run()
    counters = run.port()
    assert run.path().delivered == counters.sent == 100
    assert counters.delivered == len(run.numbers()) == 100 - counters.buffer
    # A packet every cycle, of which the port sends every other one: the queue fills and stays full.
    assert counters.largest_queue == 3 and 45 < counters.buffer < 50
    assert run.numbers() == sorted(run.numbers())


def test_sixteen_senders_share_the_port_of_their_receiver():
    text = "nodes: 17\nport: {rate: 1}\npaths: {count: 4, default: {latency: 50}}"
    run = Run(text)
    for source in range(1, 17):
        run.train(100, gap=4, destination=0, source=source, path=source % 4, flits=4)
    run.run()
    cycles = [cycle for cycle, _ in run.received[0]]
    assert cycles == list(range(4 + 50 + 4, 4 + 50 + 4 + 4 * 1600, 4)), "the port is never idle"
    # When the last packets arrive, the port has begun 100; no packet waits at a link.
    assert run.port(0).largest_queue == 1600 - 100
    assert all(one.largest_queue == 0 for one in run.network.path_counters())


def test_an_incast_fills_a_bounded_port_queue():
    run = Run("nodes: 17\nport: {buffer: {packets: 32}}")
    for source in range(1, 17):
        run.train(100, gap=4, destination=0, source=source, flits=4)
    run.run()
    counters = run.port(0)
    assert counters.sent == 1600 and counters.largest_queue == 32
    assert counters.delivered == len(run.received[0]) == 1600 - counters.buffer
    # The port begins a packet in each of the 100 rounds; the queue is full at the end.
    assert counters.delivered == 100 + 32
    cycles = [cycle for cycle, _ in run.received[0]]
    assert {later - cycle for cycle, later in zip(cycles, cycles[1:], strict=False)} == {4}


# Faults.


def within_bounds(count, trials, probability):
    """Returns True if a count is within five standard deviations of a binomial distribution."""
    deviation = math.sqrt(trials * probability * (1 - probability))
    return abs(count - trials * probability) <= 5 * deviation


@pytest.mark.parametrize("probability", ["1e-3", "0.01", "1/4"])
@pytest.mark.parametrize("cause", ["loss", "corrupt"])
def test_losses_have_their_probability_and_their_counter(cause, probability):
    run = faulty(f"{cause}: {probability}", 40_000)
    counters = run.path()
    assert counters.lost == getattr(counters, cause) == 40_000 - len(run.numbers())
    assert within_bounds(counters.lost, 40_000, float(Fraction(probability)))
    assert run.numbers() == sorted(run.numbers())


@pytest.mark.parametrize(("probability", "delivered"), [("0", 500), ("1", 0)])
def test_the_ends_of_a_probability_are_never_and_always(probability, delivered):
    assert len(faulty(f"loss: {probability}", 500).numbers()) == delivered


def test_bursts_have_their_mean_length_and_frequency():
    count = 100_000
    run = faulty("burst: {enter: 0.005, length: 10}", count)
    lost = lost_numbers(run, count)
    assert run.path().burst == run.path().lost == len(lost)
    runs = len(set(lost) - {number + 1 for number in lost})
    # Of the bursts, one in 200 begins right behind another one.
    assert len(lost) / runs == pytest.approx(10, rel=0.15)
    assert runs == pytest.approx(count * 0.005 / (1 + 0.005 * 10), rel=0.15)


def test_a_burst_loses_a_part_of_its_packets():
    run = faulty("burst: {enter: 1, length: 1000000, loss: 0.5}", 20_000)
    assert within_bounds(run.path().burst, 20_000, 0.5)


def test_a_burst_at_a_packet_number_is_exact():
    run = faulty("burst: {at: 100, packets: 8}", 300)
    assert lost_numbers(run, 300) == list(range(100, 108))
    assert run.path().burst == 8


def test_copies_follow_their_packet():
    run = faulty("duplicate: {probability: 0.1}", 20_000)
    copies = Counter(run.numbers())
    assert set(copies) == set(range(20_000)) and set(copies.values()) == {1, 2}
    counters = run.path()
    assert counters.duplicated == sum(copies.values()) - 20_000
    assert counters.delivered == run.port().delivered == 20_000 + counters.duplicated
    assert within_bounds(counters.duplicated, 20_000, 0.1)
    assert run.numbers() == sorted(run.numbers()) and counters.reordered == 0


def test_a_copy_is_late_by_at_most_its_delay():
    run = faulty("latency: 10, duplicate: {probability: 1, delay: 30}", 2000, gap=200)
    cycles = defaultdict(list)
    for cycle, number in run.received[1]:
        cycles[number].append(cycle - number * 200 - 12)
    late = {later for first, later in cycles.values()}
    assert all(first == 0 for first, _ in cycles.values())
    # A copy right behind its packet waits one cycle at the port.
    assert late == set(range(1, 31))


def overtaken(numbers):
    """Returns {number: later packets that arrived before it} of those with at least one."""
    found = {}
    for place, number in enumerate(numbers):
        before = sum(1 for one in numbers[max(0, place - 400) : place] if one > number)
        if before:
            found[number] = before
    return found


@pytest.mark.parametrize("depth", [1, 2, 8, 64])
def test_at_most_depth_later_packets_pass_a_held_packet(depth):
    run = faulty(f"reorder: {{probability: 0.05, depth: {depth}, delay: 100000}}", 20_000)
    assert sorted(run.numbers()) == list(range(20_000))
    found = overtaken(run.numbers())
    assert max(found.values()) == depth
    assert set(found.values()) >= set(range(1, min(depth, 8) + 1))
    counters = run.path()
    assert counters.reordered == len(found) and within_bounds(len(found), 20_000, 0.05)
    assert counters.lost == 0


def test_a_held_packet_continues_without_later_packets():
    run = faulty("latency: 10, reorder: {probability: 1, depth: 5, delay: 40}", 2000, gap=100)
    delays = {cycle - number * 100 - 12 for cycle, number in run.received[1]}
    assert delays == set(range(1, 41))
    assert run.numbers() == list(range(2000)) and run.path().reordered == 0


def test_without_depth_the_delay_alone_reorders():
    run = faulty("latency: 10, reorder: {probability: 0.1, delay: 50}", 20_000)
    found = overtaken(run.numbers())
    assert sorted(run.numbers()) == list(range(20_000))
    assert 40 < max(found.values()) <= 50 and run.path().reordered == len(found)


def test_packets_released_by_their_delay_pass_earlier_packets_only():
    run = faulty("reorder: {probability: 1, depth: 1, delay: 1000}", 2000, gap=100)
    found = overtaken(run.numbers())
    assert set(found.values()) == {1} and run.path().reordered == len(found)
    assert sorted(run.numbers()) == list(range(2000))


def test_a_path_is_down_for_what_is_on_it_in_the_interval():
    # A packet is on its path from cycle n to n + 1 + 10.
    run = faulty("latency: 10, down: [{from: 200, to: 300}, {from: 500, to: 501}]", 1000)
    lost = [*range(200 - 11, 300), *range(500 - 11, 501)]
    assert lost_numbers(run, 1000) == lost
    assert run.path().down == run.path().lost == len(lost)


def test_a_path_without_end_of_its_failure_stays_down():
    assert faulty("latency: 0, down: [{from: 700}]", 1000).numbers() == list(range(699))


def test_a_path_is_down_for_packet_numbers_of_each_link():
    run = Run("nodes: 3\npaths: {default: {down: [{from: 20, to: 30, unit: packets}]}}")
    run.train(100, gap=3).train(100, gap=1, source=2).run()
    kept = [*range(20), *range(30, 100)]
    assert Counter(run.numbers()) == dict.fromkeys(kept, 2)
    assert run.path().down == 20


def test_one_path_of_eight_fails_and_heals():
    run = Run("nodes: 2\npaths: {count: 8, overrides: [{path: 3, down: [{from: 100, to: 400}]}]}")
    for path in range(8):
        run.train(1000, gap=1, path=path)
    run.run()
    lost = [one.lost for one in run.network.path_counters()]
    assert lost == [0, 0, 0, 400, 0, 0, 0, 0] and run.path(3).down == 400


def test_a_lost_packet_counts_once_and_occupies_its_link():
    everything = ("loss: 1, corrupt: 1, burst: {at: 0, packets: 9}, "
                  "down: [{from: 0, to: 3, unit: packets}]")  # fmt: skip
    run = faulty(everything, 20, gap=0)
    counters = run.path()
    assert (counters.down, counters.burst, counters.loss, counters.corrupt) == (3, 6, 11, 0)
    assert counters.largest_queue == 19
    run = faulty("latency: 5, burst: {at: 0, packets: 10}", 11, gap=0)
    assert run.received[1] == [(11 + 5 + 1, 10)]


ALL_FAULTS = """
nodes: 4
seed: %d
port: {buffer: {packets: 20}}
paths:
  count: 3
  default:
    latency: 30
    rate: 2/3
    buffer: {packets: 6, flits: 900}
    loss: 0.02
    burst: {enter: 0.01, length: 4, loss: 0.7}
    duplicate: {probability: 0.03, delay: 90}
    reorder: {probability: 0.05, depth: 6, delay: 200}
    corrupt: 0.01
    down: [{from: 1000, to: 1300}, {from: 50, to: 60, unit: packets}]
"""


def loaded(seed):
    """Returns a Run with every fault under random traffic between all nodes."""
    run, rng = Run(ALL_FAULTS % seed), random.Random(5)
    for number in range(6000):
        data = packet(number, rng.randrange(4), rng.randrange(4), rng.randrange(3),
                      rng.randint(1, 9))  # fmt: skip
        # In rounds, which fill the queues of the links.
        run.network.at(400 * rng.randrange(10), lambda data=data: run.network.send(data))
    return run.run()


def test_each_packet_and_copy_is_delivered_or_has_a_cause():
    run = loaded(3)
    paths, ports = run.network.path_counters(), run.network.port_counters()
    for one in [*paths, *run.network.link_counters().values()]:
        assert one.sent + one.duplicated == one.delivered + one.lost
    assert all(one.sent == one.delivered + one.buffer for one in ports.values())
    assert sum(one.delivered for one in paths) == sum(one.sent for one in ports.values())
    for node, one in ports.items():
        assert one.delivered == len(run.received[node])
    for name in ("buffer", "down", "burst", "loss", "corrupt", "duplicated", "reordered"):
        assert sum(getattr(one, name) for one in paths) > 0, name


def test_a_seed_repeats_its_run_and_another_seed_does_not():
    first, again, other = loaded(3), loaded(3), loaded(4)
    assert first.received == again.received
    assert first.network.link_counters() == again.network.link_counters()
    assert first.received != other.received


def test_faults_of_a_link_do_not_depend_on_other_links():
    text = "nodes: 3\npaths: {count: 2, default: {loss: 0.1, reorder: {probability: 0.1}}}"
    alone = Run(text).train(2000, gap=100).run()
    busy = Run(text).train(2000, gap=100)
    for where in ({"path": 1}, {"source": 2}, {"destination": 0, "source": 1}):
        busy.train(500, gap=7, first=3, **where)
    busy.run()
    counters = [run.network.link_counters()[0, 0, 1] for run in (alone, busy)]
    assert counters[0] == counters[1]


def test_each_link_has_faults_of_its_own():
    text = "nodes: 3\npaths: {count: 2, default: {loss: 0.1}}"
    received = set()
    for where in ({}, {"path": 1}, {"source": 2}, {"destination": 2}, {"source": 1},
                  {"source": 1, "destination": 0}):  # fmt: skip
        run = Run(text).train(1000, **where).run()
        received.add(tuple(run.numbers(where.get("destination", 1))))
    assert len(received) == 6


def test_faults_of_a_packet_depend_on_its_number_and_not_on_time_or_other_faults():
    quick, slow = faulty("loss: 0.1", gap=1), faulty("loss: 0.1", gap=9)
    assert quick.numbers() == slow.numbers()
    more = faulty("loss: 0.1, duplicate: {probability: 0.5}, corrupt: 0.2")
    assert more.path().loss == quick.path().loss
    assert set(more.numbers()) < set(quick.numbers())


# The interface.


def test_packets_without_a_way_are_dropped():
    network = Network(parse_fabric("nodes: [1, 2, 3]\npaths: {count: 2}"))
    network.attach(1, lambda data: pytest.fail("no packet has a way"))
    for where in ({"destination": 0xFFFF}, {"destination": 4}, {"destination": 2, "source": 1},
                  {"destination": 1, "source": 9}, {"source": 2, "path": 2}):  # fmt: skip
        network.send(packet(0, **where))
    assert network.dropped == 5 and network.idle and network.run() == 0
    assert network.link_counters() == {}


def test_a_packet_without_a_header_is_refused():
    network = Network(parse_fabric("nodes: 2"))
    with pytest.raises(ValueError, match="packet of 31 bytes: expected a header of 32 bytes"):
        network.send(bytes(31))


def test_a_node_has_one_device():
    network = Network(parse_fabric("nodes: 2"))
    network.attach(0, print)
    with pytest.raises(ValueError, match="node 0 is already attached"):
        network.attach(0, print)
    with pytest.raises(ValueError, match="node 2 is not in the description: use one of 0, 1"):
        network.attach(2, print)


def test_timers_run_in_their_cycle_in_the_order_of_the_calls():
    network, calls = Network(parse_fabric("nodes: 1")), []
    for cycle, name in ((5, "a"), (3, "b"), (5, "c"), (0, "d")):
        network.at(cycle, lambda name=name: calls.append((network.now, name)))
    network.at(3, lambda: network.at(3, lambda: calls.append((network.now, "same cycle"))))
    assert network.run() == 6
    assert calls == [(0, "d"), (3, "b"), (3, "same cycle"), (5, "a"), (5, "c")]
    with pytest.raises(ValueError, match="expected a cycle from 5 on, the present one; found 4"):
        network.at(4, print)


def test_a_cancelled_timer_does_not_run_and_takes_no_time():
    network, calls = Network(parse_fabric("nodes: 1")), []
    first, second = (network.at(cycle, lambda: calls.append(network.now)) for cycle in (10, 20))
    second.cancel()
    second.cancel()
    assert not network.idle and network.run() == 1
    assert (calls, network.now) == ([10], 10) and network.idle
    first.cancel()
    assert network.idle and network.run() == 0


def test_a_timer_cancels_another_one_of_the_same_cycle():
    network, calls = Network(parse_fabric("nodes: 1")), []
    network.at(4, lambda: later.cancel())
    later = network.at(4, lambda: calls.append("later"))
    assert network.run() == 1 and calls == [] and network.idle


def test_a_run_ends_at_a_cycle_or_after_a_number_of_events():
    network, calls = Network(parse_fabric("nodes: 1")), []
    for cycle in (1, 2, 2, 7):
        network.at(cycle, lambda: calls.append(network.now))
    assert network.run(limit=2) == 2 and network.now == 2 and calls == [1, 2]
    assert network.run(until=6) == 1 and network.now == 6 and not network.idle
    assert network.run(until=6) == 0
    with pytest.raises(ValueError, match="expected a cycle from 6 on"):
        network.run(until=5)
    assert network.run(until=7) == 1 and network.now == 7 and network.idle
    assert network.run(until=100) == 0 and network.now == 100


def test_a_limit_before_the_last_cycle_leaves_the_time_at_its_event():
    network = Network(parse_fabric("nodes: 1"))
    network.at(3, lambda: None)
    network.at(5, lambda: None)
    assert network.run(until=9, limit=1) == 1 and network.now == 3
    assert network.run(until=9, limit=2) == 1 and network.now == 9


def test_an_event_that_fails_or_runs_the_network_leaves_the_others():
    network, calls = Network(parse_fabric("nodes: 1")), []
    network.at(1, network.run)
    network.at(2, lambda: calls.append(network.now))
    with pytest.raises(RuntimeError, match="found run\\(\\) inside an event"):
        network.run()
    assert network.run() == 1 and calls == [2]


def test_devices_exchange_messages_in_the_time_of_the_network():
    pair = Pair(SRD, two=True)
    network = Network(parse_fabric("nodes: [1, 2]\npaths: {default: {latency: 250}}"))
    for host in (pair.a, pair.b):
        network.attach(host.device.node_id, host.device.receive)
        host.device.on_packet = network.send
    data = bytes(range(200))
    pair.fill(0, data)
    pair.rx.post(pair.sink(0x1000, 4096))
    pair.tx.send(pair.wqe(pair.buffer(0, len(data))))
    network.run()
    assert pair.received(0x1000, len(data)) == data
    assert pair.status() == Comp.OK
    # Four flits there and an acknowledgement of one flit back, each over a link and a port.
    assert network.now == (4 + 250 + 4) + (1 + 250 + 1)
