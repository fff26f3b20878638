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
from tb.lib.host import RELIABLE_DEAD_CYCLES, OuterLink, RtlBackend
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
    params = params or {}
    if fabric is not None:
        if not isinstance(fabric, FabricDescription):
            fabric = read_fabric(fabric)
        return _open_fabric(sim, fabric, simulated, model, profile, record, seed, params,
                            observer, knobs, waves)  # fmt: skip
    params = {**({"DEVICES": nodes} if nodes > 1 else {}), **params}
    link = OuterLink(
        sim, seed, params, nodes, [{"node": node_id + d, **knobs} for d in range(nodes)], waves
    )
    backends = _devices(link, sim, range(node_id, node_id + nodes), record, params)
    return backends[0] if nodes == 1 else backends


def _devices(
    link: OuterLink, sim: str, numbers: Sequence[int], record: bool, params: dict[str, int]
) -> list[RtlBackend]:
    link.record = record
    backends = [RtlBackend(link, sim, d, number, record) for d, number in enumerate(numbers)]
    for backend in backends:
        backend.sq_host = bool(params.get("SQ_HOST"))
        if params.get("RELIABLE"):
            backend.dead_cycles = RELIABLE_DEAD_CYCLES
    return backends


def _open_fabric(
    sim: str,
    description: FabricDescription,
    simulated: Sequence[int] | None,
    model: bool,
    profile: str,
    record: bool,
    seed: int,
    params: dict[str, int],
    observer: Observer | None,
    knobs: dict[str, int],
    waves: bool,
) -> list[Backend]:
    chosen = chosen_nodes(description, simulated)
    paths = (1 << description.paths) - 1
    build = {"RELIABLE": 1, **({"PATHS": paths} if paths != 0xFF else {}), **params}
    if len(chosen) > 1:
        build = {"DEVICES": len(chosen), **build}
    network = SimulatedNetwork(description, observer)
    link = FabricLink(sim, seed, build, chosen, network, knobs, waves)
    devices: dict[int, Backend] = {
        backend.node_id: backend for backend in _devices(link, sim, chosen, record, build)}
    for node in description.nodes:
        if model and node.number not in devices:
            devices[node.number] = ModelBackend(
                node_id=node.number, profile=profile, fabric=network, record=record)
    return [devices[node.number] for node in description.nodes if node.number in devices]


# Entry points of efa_cosim.backends.
open_verilator = partial(open_simulator, "verilator")
open_icarus = partial(open_simulator, "icarus")
