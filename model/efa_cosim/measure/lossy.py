# SPDX-License-Identifier: Apache-2.0
"""Measures the reliable transport on fabrics with faults, beside go-back-N on the same fabric."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from efa_cosim.fabric.description import parse_fabric
from efa_cosim.fabric.network import Network
from efa_cosim.layouts import defs
from efa_cosim.measure.record import Measurement, Mismatch
from efa_cosim.transport.endpoint import Endpoint
from efa_cosim.transport.go_back_n import GoBackN
from efa_cosim.transport.message import Message
from efa_cosim.transport.monitor import Monitor
from efa_cosim.transport.monitor_rules import ProtocolFault
from efa_cosim.transport.packets import Start

Engine: TypeAlias = type[Endpoint] | type[GoBackN]
ENGINES: dict[str, Engine] = {"reliable transport": Endpoint, "go-back-N": GoBackN}

PAYLOAD = 4096
FLITS = 65  # of a packet with its header: cycles on a full line
LOSSES = (0.0, 1e-4, 1e-3, 1e-2)
# Goodput of each loss rate as a share of (1 - loss) x line, and the other targets.
GOODPUT = {1e-4: 0.99, 1e-3: 0.98, 1e-2: 0.95}
SENT_AGAIN, FAIRNESS, INCAST, RECOVERED = 1.1, 0.95, 0.95, 0.8
RECOVERY_TRIPS, LATE_TRIPS = 10, 1.5
# A round trip is that of 128 packets, as many as the window must have in flight.
LONG_LATENCY = 4000
SHORT_LATENCY = 500
# Of a packet on the long path: link and port of both ends, and the acknowledgement.
ROUND_TRIP = 2 * LONG_LATENCY + 2 * FLITS + 2
SENDERS = 16
PATHS = 8
RELIABLE, TWIN = ENGINES
_OK = int(defs.IoCompStatus.OK)
_SOURCE = defs.SrdHdr.src_node.offset


@dataclass(frozen=True)
class Curve:
    """Points of a picture: a title, x and y."""

    title: str
    x: list[float]
    y: list[float]


class Bench:
    """Nodes of one engine on the fabric of a YAML text; keeps the cycles of all completions.

    - `completions`: cycles in which messages completed, `times`: cycles from post to completion
    - `arrivals`: by source node, cycles in which its packets were executed
    - `monitor`: checks each packet of the reliable transport; None for another engine
    """

    def __init__(self, fabric: dict[str, Any], engine: Engine) -> None:
        description = parse_fabric(str(fabric))
        self.monitor = None
        if engine is Endpoint:
            self.monitor = Monitor(nodes=[node.number for node in description.nodes],
                                   paths=description.paths, start=Start(), outcomes=True,
                                   cancels=False)  # fmt: skip
        self.network = Network(description, self.monitor)
        self.completions: list[int] = []
        self.times: list[int] = []
        self.arrivals: dict[int, list[int]] = {node.number: [] for node in description.nodes}
        self.wrong = 0
        self.nodes = [
            engine(self.network, node.number, len(description.nodes), self._execute,
                   paths=description.paths)
            for node in description.nodes
        ]  # fmt: skip

    def _execute(self, packet: bytes) -> int:
        source = int.from_bytes(packet[_SOURCE : _SOURCE + 2], "little")
        self.arrivals[source].append(self.network.now)
        if self.monitor is not None:
            self.monitor.executed(self.network.now, packet, _OK)
        return _OK

    def post(self, source: int, destination: int, delay: int = 0) -> None:
        """Posts a message of one packet of 4 KB, now or so many cycles later."""
        posted = self.network.now + delay

        def done(_: Message, status: int) -> None:
            self.completions.append(self.network.now)
            self.times.append(self.network.now - posted)
            self.wrong += status != _OK

        message = Message(destination, [bytes(PAYLOAD)], done)
        self.network.at(posted, lambda: self.nodes[source].post(message))

    def run(self, until: int | None = None) -> None:
        """Runs the network up to a cycle or until it is idle.

        Raises Mismatch if a packet breaks a rule of the transport.
        """
        try:
            self.network.run(until)
            if self.monitor is not None and until is None:
                self.monitor.finish(self.network.now)
        except ProtocolFault as fault:
            raise Mismatch(str(fault)) from None

    @property
    def checked(self) -> dict[str, int]:
        """The number of packets that the monitor has checked, for the configuration of a row."""
        return {} if self.monitor is None else {"checked_packets": self.monitor.packets}

    @property
    def counters(self) -> Any:
        """Counters of the first node, which sends."""
        return self.nodes[0].counters


def goodput(packets: int, engine: str, loss: float, seed: int) -> Measurement:
    """Share of the line that messages take on one path that loses packets, both ways.

    The line has 128 packets in flight. The first quarter of the packets is left out.
    """
    bench = Bench(_fabric(2, 1, {"latency": LONG_LATENCY, "loss": loss}, seed), ENGINES[engine])
    for _ in range(packets):
        bench.post(0, 1)
    bench.run()
    _check(bench, packets, f"goodput, {engine}, loss {loss:g}")
    ends = bench.completions
    first = len(ends) // 4
    share = (len(ends) - 1 - first) * FLITS / (ends[-1] - ends[first]) / (1 - loss)
    target = GOODPUT.get(loss) if engine == RELIABLE else None
    lost = bench.network.link_counters()[0, 0, 1].lost
    return _row("goodput", "mean", share, "of (1 - loss) x line", packets, target, engine, seed,
                loss=loss, lost=lost, sent_again=bench.counters.retransmitted,
                timeouts=bench.counters.timeouts, **bench.checked)  # fmt: skip


def sent_again(measured: Measurement) -> Measurement:
    """Packets sent again for each lost data packet, of a measurement of `goodput`."""
    values = measured.configuration
    return _row("packets sent again", "mean", values["sent_again"] / max(1, values["lost"]),
                "of lost packets", measured.messages, SENT_AGAIN, measured.subject, measured.seed,
                loss=values["loss"])  # fmt: skip


def completion_times(
    packets: int, engine: str, loss: float, seed: int
) -> tuple[list[Measurement], Curve]:
    """Times from post to completion on 8 paths at half of the line, and their distribution."""
    bench = Bench(_fabric(2, PATHS, {"latency": LONG_LATENCY, "loss": loss}, seed),
                  ENGINES[engine])
    for number in range(packets):
        bench.post(0, 1, number * FLITS * 2)
    bench.run()
    _check(bench, packets, f"{engine}, loss {loss:g}")
    # The window grows in the first quarter.
    times, trip = sorted(bench.times[packets // 4 :]), ROUND_TRIP
    points = [0.5, 0.9, 0.99, 0.999]
    target = (1 + LATE_TRIPS) * trip if engine == RELIABLE and loss else None
    rows = [_row("completion time", f"p{point * 100:g}", times[int(point * (len(times) - 1))],
                 "cycles", packets, target if point == 0.999 else None, engine, seed, loss=loss,
                 round_trip=trip, **(bench.checked if point == points[0] else {}))
            for point in points]  # fmt: skip
    steps = [at * (len(times) - 1) // 400 for at in range(401)]
    title = f"{engine}, loss {loss:g}"
    return rows, Curve(title, [times[at] / trip for at in steps],
                       [at / (len(times) - 1) for at in steps])  # fmt: skip


def path_failure(packets: int, engine: str, seed: int) -> tuple[Measurement, Curve]:
    """Round trips until the rate is back at 0.8 of the line after one of eight paths has failed,
    and the rate over time: the path fails in the second third of the run and heals."""
    trip = ROUND_TRIP
    fails = max(packets * FLITS // 3, 20 * trip) // trip * trip
    heals = 2 * fails
    fabric = _fabric(2, PATHS, {"latency": LONG_LATENCY}, seed, [
        {"path": 3, "down": [{"from": fails, "to": heals}]}])
    bench = Bench(fabric, ENGINES[engine])
    for number in range(3 * fails // FLITS):
        bench.post(0, 1, number * FLITS)
    bench.run()
    _check(bench, 3 * fails // FLITS, f"{engine}, path failure")
    counts = [0] * (3 * fails // trip)
    for cycle in bench.arrivals[0]:
        if cycle // trip < len(counts):
            counts[cycle // trip] += 1
    rates = [count * FLITS / trip for count in counts]
    first = fails // trip
    low = [at for at in range(first, heals // trip) if rates[at] < RECOVERED]
    row = _row("recovery after a path failure", "longest", max(low) + 1 - first if low else 0,
               "round trips", len(bench.times), RECOVERY_TRIPS if engine == RELIABLE else None,
               engine, seed, fails=fails, heals=heals, **bench.checked)  # fmt: skip
    return row, Curve(engine, [float(at) for at in range(len(rates))], rates)


def incast(packets: int, engine: str, seed: int) -> tuple[list[Measurement], list[float]]:
    """Fairness, goodput and largest queue when 16 nodes send to one, and the share of each."""
    bench = Bench(_fabric(SENDERS + 1, PATHS, {"latency": SHORT_LATENCY}, seed), ENGINES[engine])
    each = max(64, packets // SENDERS)
    for _ in range(each):
        for node in range(1, SENDERS + 1):
            bench.post(node, 0)
    # No sender has finished before the end, and all have adapted before the begin.
    end = each * FLITS * SENDERS // 2
    begin = end // 4
    bench.run(end)
    counts = [sum(begin <= cycle < end for cycle in bench.arrivals[node])
              for node in range(1, SENDERS + 1)]  # fmt: skip
    total = sum(counts)
    fairness = total**2 / (SENDERS * sum(count * count for count in counts))
    queue = bench.network.port_counters()[0].largest_queue
    ours = engine == RELIABLE
    rows = [
        _row("fairness of 16 senders", "Jain", fairness, "", each * SENDERS,
             FAIRNESS if ours else None, engine, seed, **bench.checked),
        _row("goodput of 16 senders", "mean", total * FLITS / (end - begin), "of the line",
             each * SENDERS, INCAST if ours else None, engine, seed),
        _row("queue at the receiver", "largest", queue, "packets", each * SENDERS, None, engine,
             seed),
    ]  # fmt: skip
    return rows, [count / total for count in counts]


def misses(rows: Sequence[Measurement]) -> list[str]:
    """Returns a line for each measurement that misses its target."""
    found = []
    for row in rows:
        if row.target is None:
            continue
        least = row.metric.startswith(("goodput", "fairness"))
        if row.value < row.target if least else row.value > row.target:
            found.append(f"{row.metric} ({row.statistic}), {row.subject}, "
                         f"{row.configuration}: {row.value:.4g} {row.unit}, target "
                         f"{'at least' if least else 'at most'} {row.target:.4g}")  # fmt: skip
    return found


@dataclass(frozen=True)
class Results:
    """All measurements, and the curves of the pictures."""

    rows: list[Measurement]
    times: list[Curve]
    failure: list[Curve]
    shares: dict[str, list[float]]

    @property
    def checked_packets(self) -> int:
        """Packets that the monitor has checked in all runs."""
        return sum(row.configuration.get("checked_packets", 0) for row in self.rows)


def measure(packets: int, seed: int, report: Callable[[str], object]) -> Results:
    """Measures everything with about so many packets each; `report` is called before each part."""
    found = Results([], [], [], {})
    for engine in ENGINES:
        for loss in LOSSES:
            report(f"goodput, {engine}, loss {loss:g}")
            row = goodput(packets, engine, loss, seed)
            found.rows.append(row)
            if loss == 1e-3 and engine == RELIABLE:
                found.rows.append(sent_again(row))
        for loss in (0.0, 1e-3):
            report(f"completion times, {engine}, loss {loss:g}")
            rows, curve = completion_times(packets // 2, engine, loss, seed)
            found.rows.extend(rows)
            found.times.append(curve)
        report(f"path failure, {engine}")
        row, curve = path_failure(packets // 4, engine, seed)
        found.rows.append(row)
        found.failure.append(curve)
        report(f"incast, {engine}")
        rows, found.shares[engine] = incast(packets // 2, engine, seed)
        found.rows.extend(rows)
    return found


def _fabric(
    nodes: int, paths: int, properties: dict[str, Any], seed: int,
    overrides: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """Returns a fabric file as plain values."""
    return {"seed": seed, "nodes": nodes,
            "paths": {"count": paths, "default": properties, "overrides": list(overrides)}}


def _check(bench: Bench, packets: int, name: str) -> None:
    """Refuses a run in which a message has not completed once and well, or was executed twice."""
    executed = sum(map(len, bench.arrivals.values()))
    if bench.wrong or len(bench.times) != packets or executed != packets:
        raise Mismatch(f"{name}: {packets} messages, expected as many completions and executions; "
                       f"got {len(bench.times)} completions, {bench.wrong} with an error, and "
                       f"{executed} executions")


def _row(
    metric: str, statistic: str, value: float, unit: str, messages: int, target: float | None,
    engine: str, seed: int, **configuration: Any,
) -> Measurement:
    return Measurement(metric, statistic, float(value), unit, messages, None, target, engine, "SRD",
                       PAYLOAD, configuration=configuration, seed=seed, backend="model")
