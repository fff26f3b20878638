# SPDX-License-Identifier: Apache-2.0
"""Runs a test on a copy of the RTL without a protection check; prints the failed tests as JSON.

    python -m tb.check_mutation_job '{"name": "mmio.llq_bar", "kind": "unit", "bench": "mmio", ...}'
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from efa_cosim.boundary.backend import BackendUnavailable
from efa_cosim.measure.process import answer, serve
from tb import runner
from tb.simulators import ROOT, simulator_missing
from tb.system.test_system import BUILDS
from tb.system_run import run_system
from tb.unit.units import UNITS

OUT = ROOT / "sim/out/check_mutation"

# The failed tests, each with its reason, and the error that prevented the run.
Verdict: TypeAlias = tuple[list[tuple[str, str]], str]


@dataclass(frozen=True)
class Trial:
    """A job: a test, or all tests of a bench, on the RTL with some changes.

    - `name`: the check, or the test on the unmodified RTL; the folder below OUT of a changed RTL
    - `kind`, `bench`, `module`: `unit` or `system`, the unit or area, its Python module
    - `test`: the test; None for all tests of the bench
    - `params`: (name, value) pairs of the build of a unit; empty for those of `mutated`
    - `changes`: (file, old text, new text) of each change
    """

    name: str
    kind: str
    bench: str
    module: str
    test: str | None
    params: tuple[tuple[str, Any], ...]
    changes: tuple[tuple[str, str, str], ...]
    simulator: str
    seed: int

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values for JSON."""
        return asdict(self)


def planted(changes: Iterable[tuple[str, str, str]], folder: Path) -> list[str]:
    """Writes the changed files below `folder`; returns their paths relative to the project."""
    texts: dict[str, str] = {}
    for file, old, new in changes:
        text = texts.get(file) or (ROOT / file).read_text()
        if text.count(old) != 1:
            raise RuntimeError(f"{file} has {text.count(old)} times {old!r}, expected once")
        texts[file] = text.replace(old, new)
    paths = []
    for name, text in texts.items():
        path = folder / Path(name).name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        paths.append(path.relative_to(ROOT).as_posix())
    return paths


def attempt(trial: Trial) -> Verdict:
    """Runs a Trial. Returns the failed tests as (test, reason), and the error that prevented the
    run; raises BackendUnavailable."""
    reason = simulator_missing(trial.simulator)
    if reason is not None:
        raise BackendUnavailable(reason)
    if not trial.changes:
        return _run(trial, [])
    # Builds and runs of the modified RTL are deleted with their folder.
    folder = runner.OUT = OUT / trial.name
    shutil.rmtree(folder, ignore_errors=True)
    failed, error = _run(trial, planted(trial.changes, folder))
    if trial.test is None:
        shutil.rmtree(folder, ignore_errors=True)
    elif failed:
        shutil.rmtree(folder / "build", ignore_errors=True)
    return failed, error


def _run(trial: Trial, files: Sequence[str]) -> Verdict:
    test = trial.test and rf"\b{trial.test}\b"
    try:
        if trial.kind == "unit":
            unit = UNITS[trial.bench]
            sources = [path.relative_to(ROOT).as_posix() for path in
                       runner.closure(unit.top, tuple(files))]  # fmt: skip
            runner.run_unit(trial.bench, unit.top, sources, trial.module, trial.simulator,
                            trial.seed, dict(trial.params) or unit.mutated, test)  # fmt: skip
        else:
            run_system(trial.module, trial.simulator, trial.seed, dict(BUILDS)[trial.bench], test,
                       extra=tuple(files))  # fmt: skip
    except runner.RunFailed as error:
        if not error.wrong:
            return [], str(error)
        # Only the log contains the message of an EFA_CHECK.
        said = re.search(r"CHECK FAILED .*", str(error))
        lines = [line.partition(": ") for line in error.wrong]
        kinds = {one: why.partition(" ")[0] for one, _, why in lines}
        if set(kinds.values()) - {"failure", "error"} or "simulator" in kinds:
            return [], str(error)  # tests did not run, or the simulator crashed
        return [(one, said.group() if said else why.partition(" ")[2]) for one, _, why in lines], ""
    return [], ""


def main(argument: str) -> int:
    """Prints failed tests and error of a run; returns the exit code."""
    return answer(lambda values: [attempt(Trial(**values))], argument)


if __name__ == "__main__":
    serve(main)
