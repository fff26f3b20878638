# SPDX-License-Identifier: Apache-2.0
"""Connects simulated devices and devices of the reference model by one `Network` of a fabric file.

The simulation stops for each packet that leaves a device and for each event of the network, so a
packet takes the cycles that the fabric file says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from efa_cosim.boundary.events import field, of_kind
from efa_cosim.fabric.description import FabricDescription
from efa_cosim.fabric.network import Network
from efa_cosim.layouts import defs
from tb.lib import requests as host
from tb.lib.host import IDLE_CYCLES, OuterLink, dead_cycles

_IDLE = host.idle()[0]
# Devices of one simulation (kMaxDevices of tb/native/pins.h).
MOST_SIMULATED = 2


class SimulatedNetwork(Network):
    """A network whose time is that of a simulation: `run` runs both.

    `link` carries the packets of the simulated devices; set by FabricLink. `executed`: events of
    the network so far.
    """

    link: FabricLink
    executed = 0

    def run(self, until: int | None = None, limit: int | None = None) -> int:
        """Runs simulation and network up to cycle `until`, without `until` up to the next event of
        the network, write to a host or packet of a simulated device.

        Ends early if nothing is on its way. Returns 0 if nothing has happened, else 1; `limit` is
        not used.
        """
        before = self.link.activity, self.executed
        if until is None:
            following = self.next_cycle
            step = (dead_cycles(self.link.tick_cycles) if following is None
                    else max(following - self.now, 1))
            self.link.run(self.link.news(), step)
        else:
            self.link.run([host.idle(IDLE_CYCLES)], until - self.now)
        return int(not self.idle or (self.link.activity, self.executed) != before)

    def follow(self, cycle: int) -> None:
        """Executes the events up to and with a cycle of the simulation."""
        self.executed += super().run(cycle)


class FabricLink(OuterLink):
    """A link whose devices are nodes of a network; `run` moves the packets of both.

    `network` carries their packets; the other parameters are those of OuterLink, with the number
    of each node among the knobs. `tick_cycles` are those of the slowest ticks.
    """

    def __init__(
        self,
        sim: str,
        seed: int,
        params: dict[str, int],
        knobs: list[dict[str, int]],
        network: SimulatedNetwork,
        waves: bool = False,
    ) -> None:
        self.network = network
        self.tick_cycles = max(one.get("tick", defs.TRANSPORT.tick_cycles) for one in knobs)
        self._nodes = [one["node"] for one in knobs]
        self._sent = [0] * len(knobs)
        self._seen: list[tuple[Any, bytes]] = []
        self._resets = [0] * len(knobs)  # steps of resets
        self._events: list[Any] = []  # that nobody has asked for
        super().__init__(sim, seed, params, [{**one, "net_far": 1} for one in knobs], waves)
        network.link = self
        for device, one in enumerate(knobs):
            network.attach(one["node"], partial(self._deliver, device))
        network.follow(self.cycle)

    @property
    def activity(self) -> tuple[int, int]:
        """Writes to hosts, and packets that have left the simulated devices."""
        return self.writes_seen(), sum(self._sent)

    def news(self) -> list[host.Condition]:
        """The conditions for the next write to a host or packet of a simulated device."""
        return [host.writes_are(self.writes_seen() + 1), *self._next_packets()]

    def _next_packets(self) -> list[host.Condition]:
        return [host.packets_are(count + 1, device) for device, count in enumerate(self._sent)]

    def run(self, until: Iterable[host.Condition], cycles: int) -> int:
        """Runs simulation and network; an idle condition holds only while the network is idle."""
        conditions = list(until)
        end = self.cycle + cycles
        while True:
            active = [place for place, one in enumerate(conditions)
                      if one[0] != _IDLE or self.network.idle]  # fmt: skip
            packets = self._next_packets()
            resets = [host.events_are(defs.Ev.RESET, count + 1, device)
                      for device, count in enumerate(self._resets)]  # fmt: skip
            step, following = end - self.cycle, self.network.next_cycle
            if following is not None:
                step = min(step, max(following - self.cycle, 1))
            others = [*packets, *resets]
            woken = super().run([*(conditions[place] for place in active), *others], step)
            self._carry()
            if woken >= len(active) + len(packets):
                self._note_resets()
            if 0 <= woken < len(active):
                place = active[woken]
                if conditions[place][0] != _IDLE or self.network.idle:
                    return place
            if self.cycle >= end:
                return -1

    def log(self, kind: str) -> Any:
        """Returns log records of the simulation; its packets are those that `run` has carried."""
        if kind == "events":
            self._note_resets()
            events, self._events = self._events, []
            return np.concatenate(events)
        if kind != "packets":
            return super().log(kind)
        seen, self._seen = self._seen, []
        return [record for record, _ in seen], [content for _, content in seen]

    def _carry(self) -> None:
        """Gives the packets that have left a device to the network, each in its cycle."""
        records, contents = super().log("packets")
        for place in np.argsort(records["cycle"], kind="stable"):
            record, content = records[place], contents[place]
            self._sent[record["device"]] += 1
            if self.record:
                self._seen.append((record, content))
            self.network.follow(max(int(record["cycle"]), self.network.now))
            self.network.send(content)
        self.network.follow(max(self.cycle, self.network.now))

    def _note_resets(self) -> None:
        """Tells the network which devices have drained: no packet from before a reset follows."""
        events = super().log("events")
        self._events.append(events)
        steps = of_kind(events, "reset")
        for device, step in zip(steps["device"], field(steps, "reset", "step"), strict=True):
            self._resets[device] += 1
            if step == defs.ResetStep.DRAINED:
                self.network.reset(self._nodes[device])

    def _deliver(self, device: int, packet: bytes) -> None:
        self.call("inject", device, [packet], 0)


def chosen_nodes(description: FabricDescription, simulated: Sequence[int] | None) -> list[int]:
    """Returns the numbers of the nodes to simulate; the other ones are of the reference model.

    - `simulated`: these numbers; None: the nodes that the fabric file gives another backend than
      `model`, all nodes if it gives none

    Raises ValueError for a node that the fabric does not have, and for more nodes than a simulation
    holds.
    """
    numbers = [node.number for node in description.nodes]
    named = [node.number for node in description.nodes if node.backend != "model"]
    chosen = named or numbers if simulated is None else list(simulated)
    for number in chosen:
        if number not in numbers:
            raise ValueError(f"no node {number} in the fabric: expected one of {numbers}")
    if not 1 <= len(set(chosen)) == len(chosen) <= MOST_SIMULATED:
        raise ValueError(
            f"{len(chosen)} simulated nodes: name 1 to {MOST_SIMULATED} different ones with "
            f"`simulated`, the others are of the reference model")
    return chosen
