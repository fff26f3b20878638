# SPDX-License-Identifier: Apache-2.0
"""Runs one job of the mutation run: lists, tests or proves mutants; prints the result as JSON.

    python -m tb.mutant_job '{"work": "Trial", "design": {"rows": ["efa_psn"], ...}, ...}'

Each job writes and builds the netlists that it needs; the jobs of one checkout do so once. Several
`Proof` jobs of one row are a group (`efa_cosim.jobs.job.Group`) and share their preparation.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from efa_cosim.boundary.backend import BackendUnavailable
from efa_cosim.measure.process import answer, serve
from tb.runner import RunFailed
from tb.simulators import ROOT, SimulatorMissing

sys.path.insert(0, str(ROOT / "tools"))

import init_sweeps  # noqa: E402 - needs the path above
import mutant_proofs  # noqa: E402
import mutants as netlists  # noqa: E402
import wiring  # noqa: E402
from mutant_bench import Bench, SystemBench, own_parameters  # noqa: E402

WIRED = ".wiring"  # ends the name of a wiring row


def wired(row: str) -> str | None:
    """Returns the module of a wiring row, None for a block."""
    return row.removesuffix(WIRED) if row.endswith(WIRED) else None


@dataclass(frozen=True)
class Design:
    """A simulation with planted faults: those of a block, or of some wiring rows.

    - `rows`: the block, or the wiring rows
    - `benches`: the units of the block, or areas of tb/system
    - `count`, `seed`: of the draw of each row; `count` None for one fault of each connected input
    """

    rows: tuple[str, ...]
    benches: tuple[str, ...]
    count: int | None
    seed: int

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values for JSON."""
        return asdict(self)

    def of(self, row: str) -> Design:
        """Returns the Design of one row alone."""
        return Design((row,), self.benches, self.count, self.seed)

    def bench(self) -> Bench:
        """Returns the Bench of this design; writes its netlists."""
        if wired(self.rows[0]):
            blocks = [wired(row) for row in self.rows]
            return SystemBench(blocks, self.benches, self.count, self.seed)
        return Bench(self.rows[0], self.benches, self.count, self.seed)

    def faults(self) -> tuple[list[Any], list[Any]]:
        """Returns (drawn, possible) faults of the only row; writes its netlists."""
        (row,) = self.rows
        top = wired(row) or row
        below = netlists.files_below(top)
        if wired(row):
            drawn, _, possible = wiring.make(top, below, self.count, self.seed)
        else:
            own = own_parameters(top, self.benches)
            drawn, _, possible = netlists.make(top, own, below, self.count, self.seed)
        return drawn, possible

    def below(self) -> wiring.Below:
        """Returns the analysis of the modules in a wiring row."""
        top = wired(self.rows[0])
        return wiring.Below(top, netlists.files_below(top), sweeps=init_sweeps.Sweeps())


@dataclass(frozen=True)
class _Job:
    def as_dict(self) -> dict[str, Any]:
        """Returns plain values for JSON."""
        return {"work": type(self).__name__} | asdict(self)


@dataclass(frozen=True)
class Listing(_Job):
    """Writes the netlists of one row. Results: the numbers of drawn wiring faults that change
    nothing, since the drivers are the same."""

    design: Design

    def run(self) -> list[Any]:
        """Returns the results."""
        drawn, _ = self.design.faults()
        if not wired(self.design.rows[0]):
            return []
        below = self.design.below()
        return [fault.number for fault in drawn if below.same(fault)]


@dataclass(frozen=True)
class Reference(_Job):
    """Runs all tests on the unmutated design. Results: the limit of a mutant in seconds, and [test,
    seconds, limit in simulated ns] of each test."""

    design: Design

    def run(self) -> list[Any]:
        """Returns the results."""
        return list(self.design.bench().reference())


@dataclass(frozen=True)
class Trial(_Job):
    """Runs mutants until the first of some tests fails. Results: [number, verdict, test, message]
    of each.

    - `numbers`: the mutants
    - `tests`: (test, limit in simulated ns) in order
    - `seconds`: the limit of a mutant
    """

    design: Design
    numbers: tuple[int, ...]
    tests: tuple[tuple[str, int], ...]
    seconds: float

    def run(self) -> list[Any]:
        """Returns the results."""
        return self.design.bench().trial(self.numbers, self.tests, self.seconds)


@dataclass(frozen=True)
class Proof(_Job):
    """Examines whether a mutant of one row is equal to the unmutated module. Results: True, False,
    or None if the proof exceeded its time limit."""

    design: Design
    number: int

    def run(self) -> list[Any]:
        """Returns the results."""
        (row,) = self.design.rows
        (mutant,) = [one for one in _faults(self.design)[0] if one.number == self.number]
        if wired(row):
            return [_below(self.design).equal(mutant)]
        return [mutant_proofs.proved_equal(row, mutant)]


@cache
def _faults(design: Design) -> tuple[list[Any], list[Any]]:
    return design.faults()


@cache
def _below(design: Design) -> wiring.Below:
    return design.below()


def _decoded(values: dict[str, Any]) -> Listing | Reference | Trial | Proof:
    """Returns the job of the values of a JSON text."""
    kinds = {kind.__name__: kind for kind in (Listing, Reference, Trial, Proof)}
    design: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value
              for key, value in values["design"].items()}  # fmt: skip
    more = {key: value for key, value in values.items() if key not in ("work", "design")}
    return kinds[values["work"]](Design(**design), **more)


def _done(values: dict[str, Any]) -> list[Any]:
    """Returns the results of a job, or of each job of a group; raises RuntimeError and
    BackendUnavailable."""
    if "jobs" in values:
        return [{"measurements": _done(one)} for one in values["jobs"]]
    try:
        return _decoded(values).run()
    except SimulatorMissing as error:
        raise BackendUnavailable(str(error)) from error
    except (RunFailed, netlists.YosysFailed) as error:
        raise RuntimeError(str(error)) from error


def main(argument: str) -> int:
    """Prints the results of a job or a group; returns the exit code."""
    return answer(_done, argument)


if __name__ == "__main__":
    serve(main)
