# SPDX-License-Identifier: Apache-2.0
"""Names the tests that a regression may run, and runs one of them in a process of its own.

    python -m tb.regress '{"kind": "unit", "name": "fifo", "simulator": "icarus", "seed": 1, ...}'

Prints the result as JSON: verdict, machine and the first failure in one line.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from efa_cosim.backends import backend_names
from efa_cosim.boundary.backend import BackendUnavailable
from efa_cosim.measure.failures import one_line
from efa_cosim.measure.process import answer, serve
from tb.runner import RunFailed, repeat_line, run_unit
from tb.simulators import SIMULATORS, simulator_missing
from tb.system.test_system import BUILDS
from tb.system_run import run_system
from tb.unit.units import UNITS

if TYPE_CHECKING:
    from efa_cosim.regress.runs import Run

STORES = {"short": 10_000, "long": 1_000_000}


@dataclass(frozen=True)
class Bench:
    """A test: its parameter sets, and the simulators on which it runs."""

    variants: tuple[dict[str, Any], ...]
    simulators: tuple[str, ...] = SIMULATORS


KINDS = {
    "unit": {name: Bench(tuple(unit.variants)) for name, unit in UNITS.items()},
    "system": {area: Bench((params,)) for area, params in BUILDS},
    "isolation_fuzz": {name: Bench(({},), backend_names()) for name in STORES},
}


def repeat(run: Run) -> str:
    """Returns the command line that repeats a Run of efa_cosim.regress.runs."""
    if run.kind == "isolation_fuzz":
        return (f".venv/bin/python -m tb.isolation_fuzz --stores {STORES[run.name]} "
                f"--backend {run.simulator} --seed {run.seed}")
    return repeat_line(run.kind, run.name, run.simulator, run.seed, dict(run.parameters), None)


def _run(
    kind: str, name: str, parameters: dict[str, Any], simulator: str, seed: int
) -> None:
    """Runs a test; raises RunFailed or BackendUnavailable."""
    if kind == "isolation_fuzz":
        from tb.isolation_fuzz import fuzz

        result = fuzz(simulator, seed, STORES[name])
        if result["verdict"] != "passed":
            raise RunFailed(result["reason"], (result["reason"],))
        return
    reason = simulator_missing(simulator)
    if reason is not None:
        raise BackendUnavailable(reason)
    if kind == "unit":
        unit = UNITS[name]
        run_unit(name, unit.top, unit.sources, unit.module(name), simulator, seed, parameters)
    else:
        run_system(f"tb.system.{name}_tests", simulator, seed, parameters)


def _result(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = {"verdict": "passed", "machine": socket.gethostname(), "reason": ""}
    try:
        _run(values["kind"], values["name"], values["parameters"], values["simulator"],
             values["seed"])
    except RunFailed as error:
        if not error.wrong:
            raise RuntimeError(str(error)) from error  # It does not build.
        found |= {"verdict": "failed", "reason": one_line(RuntimeError(error.wrong[0]))}
    return [found]


def main(argument: str) -> int:
    """Prints the result of a run; returns the exit code."""
    return answer(_result, argument)


if __name__ == "__main__":
    serve(main)
