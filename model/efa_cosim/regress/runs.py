# SPDX-License-Identifier: Apache-2.0
"""Reads lists of tests: tests x seeds x simulators in YAML, expanded to independent runs.

Every error names file, line and key, and the permitted values. The benches register the tests that
a list may name, as the entry point `tests` of the group `efa_cosim.benches`: a module with `KINDS`
and `repeat`.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, TypeAlias

import yaml  # type: ignore[import-untyped]  # the library has no types

from efa_cosim.jobs.job import Limits
from efa_cosim.sweep.grid import GridError
from efa_cosim.yaml_file import Allowed, Range, YamlFile

BENCHES = "efa_cosim.benches"
MOST_RUNS = 100_000
MOST_SEED = (1 << 31) - 1
DEFAULTS: dict[str, tuple[Any, ...]] = {"seeds": (1,), "seconds": (1800,), "megabytes": (8192,)}



class Bench(Protocol):
    """A test as the benches register it: its parameter sets, and the simulators that run it."""

    @property
    def variants(self) -> tuple[dict[str, int], ...]: ...

    @property
    def simulators(self) -> tuple[str, ...]: ...


Kinds: TypeAlias = Mapping[str, Mapping[str, Bench]]


@dataclass(frozen=True)
class Run:
    """A job: one test with one parameter set on one simulator with one seed.

    - `kind`: `unit`, `system` or `isolation_fuzz`
    - `name`: unit of tb/unit/units.py, area of tb/system, or length of the fuzz
    - `parameters`: (name, value) pairs of the build
    - `attempt`: 2 for the second run of a test that failed
    """

    kind: str
    name: str
    parameters: tuple[tuple[str, int], ...]
    simulator: str
    seed: int
    attempt: int = 1

    @property
    def test(self) -> str:
        """The test with its parameters, without simulator and seed."""
        more = " ".join(f"{name}={value}" for name, value in self.parameters)
        return f"{self.kind} {self.name}" + (f" {more}" if more else "")

    def __str__(self) -> str:
        again = ", second run" if self.attempt > 1 else ""
        return f"{self.test}, {self.simulator}, seed {self.seed}{again}"

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values for JSON."""
        return {**asdict(self), "parameters": dict(self.parameters)}


@dataclass(frozen=True)
class TestList:
    """A list of tests: its runs in the order of the list, and the limits of each run."""

    runs: tuple[Run, ...]
    limits: Limits

    def from_seed(self, first: int) -> TestList:
        """Returns the list with the seeds first, first + 1, ...; a test keeps its number of seeds.
        """
        counts: dict[Run, int] = {}
        runs = []
        for run in self.runs:
            key = replace(run, seed=0)
            runs.append(replace(run, seed=(first + counts.get(key, 0)) % (MOST_SEED + 1)))
            counts[key] = counts.get(key, 0) + 1
        return replace(self, runs=tuple(runs))


@dataclass(frozen=True)
class Words:
    """Permitted words, of which an unknown one is answered with the closest."""

    words: tuple[str, ...]
    what: str

    def __str__(self) -> str:
        return self.what

    def read(self, node: yaml.ScalarNode) -> str:
        """The value of a YAML scalar; raises ValueError if not permitted."""
        if node.value in self.words:
            word: str = node.value
            return word
        close = difflib.get_close_matches(node.value, self.words, 1)
        known = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(self.words)}"
        raise ValueError(known)


def benches() -> ModuleType:
    """Returns the module of the benches; raises GridError if none is registered.

    `KINDS`: {kind: {name: Bench}}, where a Bench has `variants`, a tuple of parameter sets, and
    `simulators`. `repeat(run)`: the command line that repeats a run.
    """
    found = entry_points(group=BENCHES, name="tests")
    if not found:
        raise GridError("no benches are registered: run `make setup`")
    module: ModuleType = next(iter(found)).load()
    return module


def read_list(path: str | Path, kinds: Kinds) -> TestList:
    """Returns the TestList of a file (YAML); raises GridError. `kinds` is KINDS of benches()."""
    file = YamlFile(path, "a test list", GridError)
    root = file.read()
    simulators = sorted({one for names in kinds.values() for bench in names.values()
                         for one in bench.simulators})
    allowed: dict[str, Allowed] = {
        "seeds": Range(0, MOST_SEED),
        "seconds": Range(1, 86_400),
        "megabytes": Range(64, 1 << 20),
        "simulators": Words(tuple(simulators), f"one of {', '.join(simulators)}"),
    }
    top = {"simulators": ("verilator",), **DEFAULTS}
    tests = None
    for name, key, node in _pairs(file, root, [*allowed, "tests"]):
        if name == "tests":
            tests = node
        else:
            top[name] = file.values(name, node, allowed[name])
            if name in ("seconds", "megabytes") and len(top[name]) > 1:
                raise file.at(key, f"{name}: expected one value")
    if not isinstance(tests, yaml.SequenceNode) or not tests.value:
        raise file.at(tests or root, "`tests` must be a list, such as `- unit: [fifo, skid]`")
    runs = [run for node in tests.value for run in _entry(file, node, kinds, allowed, top)]
    twice = min((str(run) for run, count in Counter(runs).items() if count > 1), default=None)
    if twice:
        raise file.at(tests, f"{twice} is in the list twice")
    if len(runs) > MOST_RUNS:
        raise file.at(tests, f"{len(runs)} runs, at most {MOST_RUNS} are allowed")
    return TestList(tuple(runs), Limits(float(top["seconds"][0]), top["megabytes"][0]))


def _entry(
    file: YamlFile,
    node: yaml.Node,
    kinds: Kinds,
    allowed: Mapping[str, Allowed],
    top: Mapping[str, tuple[Any, ...]],
) -> Iterator[Run]:
    """Yields the runs of one entry: a kind with names, and optionally its seeds and simulators."""
    values, chosen, kind = dict(top), None, None
    for name, key, value in _pairs(file, node, [*kinds, "seeds", "simulators"]):
        if name in kinds:
            if kind:
                raise file.at(key, f"{name!r} beside {kind!r}; write an entry for each")
            kind, chosen = name, value
        else:
            values[name] = file.values(name, value, allowed[name])
    if kind is None:
        raise file.at(node, f"the entry names no test; expected one of {', '.join(kinds)}")
    known = kinds[kind]
    words = Words(tuple(known), f"a test of kind {kind}")
    for name in file.values(kind, chosen, words):
        bench = known[name]
        wrong = [one for one in values["simulators"] if one not in bench.simulators]
        if wrong:
            raise file.at(node, f"{kind} {name} does not run on {wrong[0]}; write `simulators: "
                          f"[{', '.join(bench.simulators)}]` into its entry")
        for variant in bench.variants:
            for simulator in values["simulators"]:
                for seed in values["seeds"]:
                    yield Run(kind, name, tuple(sorted(variant.items())), simulator, seed)


def _pairs(
    file: YamlFile, node: yaml.Node, known: Collection[str]
) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
    return file.pairs(node, known, f"with keys of {', '.join(known)}")
