# SPDX-License-Identifier: Apache-2.0
"""Opens simulated devices for software of this process."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from efa_cosim.backends.model import ModelBackend
from efa_cosim.boundary.backend import Backend, BackendUnavailable, profile_strap
from efa_cosim.fabric.description import FabricDescription, read_fabric
from efa_cosim.fabric.network import Observer
from tb.lib.fabric_link import FabricLink, SimulatedNetwork, chosen_nodes
from tb.lib.host import OuterLink, RtlBackend
from tb.simulators import simulator_missing


def open_simulator(
    sim: str,
    profile: str = "default",
    record: bool = False,
    nodes: int = 1,
    node_id: int = 1,
    seed: int = 1,
    params: dict[str, int] | None = None,
    waves: bool = False,
    fabric: str | Path | FabricDescription | None = None,
    simulated: Sequence[int] | None = None,
    model: bool = True,
    observer: Observer | None = None,
    **knobs: int,
) -> Any:
    """Opens a simulated device for software of this process; returns a list for several nodes.

    - `waves`: write the waves of the run and print their path at the end; this build is a separate
      one
    - `fabric`: a fabric file or its `FabricDescription`; the result is a list with a device for
      each of its nodes, which send by the reliable transport
    - `simulated`: with `fabric`, numbers of the simulated nodes, at most two, by default those with
      `backend: verilator` in the file, or all; the others are devices of the reference model;
      without `model`, they have no device
    - `observer`: with `fabric`, sees all packets, such as a `Monitor`

    The other options are those of `open_backend`. Raises BackendUnavailable if the simulator or the
    profile is missing, FabricFileError for a wrong file, ValueError for wrong simulated nodes.
    """
    reason = simulator_missing(sim)
    if reason is not None:
        raise BackendUnavailable(reason)
    knobs = {"profile": profile_strap(profile), **knobs}
    network = None
    numbers: Sequence[int] = range(node_id, node_id + nodes)
    build: dict[str, int] = {}
    if fabric is not None:
        if not isinstance(fabric, FabricDescription):
            fabric = read_fabric(fabric)
        numbers = chosen_nodes(fabric, simulated)
        network = SimulatedNetwork(fabric, observer)
        knobs["paths"] = (1 << fabric.paths) - 1
    if len(numbers) > 1:
        build = {"DEVICES": len(numbers), **build}
    build |= params or {}
    own = [{"node": number, **knobs} for number in numbers]
    link = (OuterLink(sim, seed, build, own, waves) if network is None
            else FabricLink(sim, seed, build, own, network, waves))  # fmt: skip
    link.record = record
    backends = {number: RtlBackend(link, sim, device, number, record)
                for device, number in enumerate(numbers)}  # fmt: skip
    for backend in backends.values():
        backend.built_with(build)
        backend.tick_cycles = knobs.get("tick", backend.tick_cycles)
    if network is None:
        return backends[node_id] if nodes == 1 else list(backends.values())
    found: list[Backend] = []
    for node in network.description.nodes:
        if node.number in backends:
            found.append(backends[node.number])
        elif model:
            found.append(ModelBackend(
                node_id=node.number, profile=profile, fabric=network, record=record,
                tick=knobs.get("tick", Backend.tick_cycles)))
    return found


# Entry points of efa_cosim.backends.
open_verilator = partial(open_simulator, "verilator")
open_icarus = partial(open_simulator, "icarus")
