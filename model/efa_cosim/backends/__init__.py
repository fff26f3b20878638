# SPDX-License-Identifier: Apache-2.0
"""Backends by name: the reference model, and those that other packages register.

A package registers functions as entry points, by the name of the backend:

- group `efa_cosim.backends`: takes the options of open_backend; returns a Backend, or a list for
  several nodes
- group `efa_cosim.servers`: takes a number of devices and a function that is called with lines of
  text; returns the program that serves the devices over vfio-user
- group `efa_cosim.workloads`: takes workloads of the cycle model and a seed; returns their results
"""

from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from efa_cosim.boundary.backend import Backend, BackendUnavailable
from efa_cosim.layouts.defs import PROFILES

BACKENDS = "efa_cosim.backends"
SERVERS = "efa_cosim.servers"
WORKLOADS = "efa_cosim.workloads"


def backend_names(group: str = BACKENDS) -> tuple[str, ...]:
    """Returns the names of all backends, the reference model first."""
    return tuple(sorted(entry_points(group=group).names, key=lambda name: (name != "model", name)))


def open_backend(name: str, **options: Any) -> Backend | list[Backend]:
    """Opens a device by the name of its backend: `model`, `verilator`, `icarus`.

    `with open_backend(...) as device:` closes the device at the end. The options are those of
    `open_model` for `model`, and those of `open_simulator` for `verilator` and `icarus`. Both have
    these:

    - `nodes`: number of devices on one fabric; above 1 the result is a list with a Backend for each
    - `node_id`: number of a single device in the fabric, default 1
    - `profile`: attributes that the device reports, `default`, `recorded` (those of the device of
      the recorded sessions), `cosim` (more page translations, long timeouts) or `basic` (neither
      RDMA nor RNR retry)
    - `interface`: minor interface version that the device reports, default that of the profile
    - `fabric`: a fabric file with paths, loss and other faults (docs/fabric.md); its nodes are the
      devices
    - `record`: keep DMA writes and packets for `writes()` and `packets()`, default False

    The options of the simulators besides these:

    - `seed`: seed of every random choice, default 1
    - `params`: parameters of the build by name, such as `{"SQ_HOST": 1}`
    - `waves`: write the waves of the run and print their path at the end, default False
    - knobs of host and fabric, such as `rd_latency_min` and `rd_latency_max` in cycles: EFA_KNOBS
      in `tb/native/common.h`

    Raises BackendUnavailable if there is no such backend or profile, or it cannot run here.
    """
    profile = options.get("profile", "default")
    if profile not in tuple(PROFILES):
        raise BackendUnavailable(f"no profile {profile!r}: expected one of {', '.join(PROFILES)}")
    interface = options.pop("interface", 0)
    if interface:
        # The strap of the model is a pin of the simulated device.
        options["interface" if name == "model" else "version"] = interface
    opened: Backend | list[Backend] = _loaded(BACKENDS, name)(**options)
    return opened


def run_workloads(name: str, works: Sequence[Any], seed: int) -> list[Any]:
    """Runs workloads of the cycle model on a backend with time; returns one result for each, with
    the attributes of tb.cycle.timed.Timed.

    Raises BackendUnavailable as open_backend does, RuntimeError if a workload fails.
    """
    results: list[Any] = _loaded(WORKLOADS, name)(works, seed)
    return results


def server_program(name: str, say: Callable[[str], object]) -> Path:
    """Returns the program that serves devices of a backend, built if necessary; `say` is
    called with lines about the build.

    Raises BackendUnavailable as open_backend does.
    """
    found: Path = _loaded(SERVERS, name)(say)
    return found


def _loaded(group: str, name: str) -> Callable[..., Any]:
    found = entry_points(group=group, name=name)
    if not found:
        names = ", ".join(backend_names(group)) or "none, run `make setup` to register them"
        raise BackendUnavailable(f"no backend {name!r}: expected one of {names}")
    try:
        function: Callable[..., Any] = next(iter(found)).load()
    except (ImportError, AttributeError) as error:
        raise BackendUnavailable(f"backend {name} cannot be opened here: {error}") from error
    return function
