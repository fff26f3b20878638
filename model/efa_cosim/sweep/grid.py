# SPDX-License-Identifier: Apache-2.0
"""Reads sweep files: a grid of values in YAML, expanded to independent jobs.

Every error names file, line and key, and the permitted values.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol

import yaml  # type: ignore[import-untyped]  # the library has no types

from efa_cosim.host.wc import POLICIES
from efa_cosim.layouts import defs

MOST_FILE_BYTES = 1 << 20
MOST_JOBS = 1000
LATENCY, RATE = "latency", "rate"
CYCLE = "cycle"
# Host parameters. A grid with one of these, with several backends or with the cycle model runs
# efa_cosim.cycle.workload on each backend; else the driver posts all messages at once.
HOST_DEFAULTS: dict[str, Any] = {"depth": 64, "batch": 16, "store_buffer": "ideal", "sq_host": 0}
MOST_BURST_QUEUES = 16
MOST_MODEL_JOBS = 20_000


class GridError(Exception):
    """The file is no valid sweep; the text names file, line and error."""


@dataclass(frozen=True)
class Job:
    """One job: a message size on one device, host and seed.

    - `backend`: `verilator`, `icarus` or `cycle`, the cycle model
    - `kind`: `UD` or `SRD`
    - `size`: bytes
    - `host_read_latency`: cycles
    - `seed`: seed of every random choice
    - `queues`: queue counts of the rates
    - `measure`: `latency`, `rate` or both
    - `depth`: outstanding messages per queue; 0: all messages are posted at once, without batch and
      store buffer
    - `batch`: WQEs per doorbell
    - `store_buffer`: eviction policy of the CPU's store buffer
    - `sq_host`: 1: the build with send queues in host memory
    """

    backend: str
    kind: str
    size: int
    host_read_latency: int
    seed: int
    queues: tuple[int, ...]
    measure: tuple[str, ...]
    depth: int = 0
    batch: int = 0
    store_buffer: str = ""
    sq_host: int = 0

    @property
    def kind_number(self) -> defs.AdminQpType:
        """The queue pair type as the number of the device."""
        return defs.AdminQpType[self.kind]

    def __str__(self) -> str:
        host = ""
        if self.depth:
            host = f", depth {self.depth}, batch {self.batch}, {self.store_buffer}"
            host += ", send queues in host memory" if self.sq_host else ""
        device = "cycle model, " if self.backend == CYCLE else ""
        return (f"{device}{self.kind}, {self.size} bytes, host read latency "
                f"{self.host_read_latency}, seed {self.seed}{host}")

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values for JSON."""
        return asdict(self)


class Allowed(Protocol):
    """The permitted values of a key; its text completes "must be"."""

    def read(self, node: yaml.ScalarNode) -> Any:
        """The value of a YAML scalar; raises ValueError if not permitted."""


@dataclass(frozen=True)
class Range:
    """Permitted whole numbers, from least to most."""

    least: int
    most: int

    def __str__(self) -> str:
        return f"a whole number, {self.least} to {self.most}"

    def read(self, node: yaml.ScalarNode) -> int:
        """The value of a YAML scalar; raises ValueError if not permitted."""
        value = int(node.value, 0) if node.tag.endswith(":int") else None
        if value is None or not self.least <= value <= self.most:
            raise ValueError
        return value


@dataclass(frozen=True)
class Choice:
    """Permitted words."""

    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"one of {', '.join(self.words)}"

    def read(self, node: yaml.ScalarNode) -> str:
        """The value of a YAML scalar; raises ValueError if not permitted."""
        if node.value not in self.words:
            raise ValueError
        word: str = node.value
        return word


@dataclass(frozen=True)
class Grid:
    """The values of a sweep; every combination is measured.

    The fields are the keys of a sweep file and those of `Job`, each with several values; `efa-cosim
    sweep --help` lists the permitted ones.
    """

    sizes: tuple[int, ...]
    queues: tuple[int, ...] = (1,)
    kinds: tuple[str, ...] = ("UD", "SRD")
    host_read_latency: tuple[int, ...] = (125,)
    seeds: tuple[int, ...] = (1,)
    measure: tuple[str, ...] = (LATENCY, RATE)
    backend: tuple[str, ...] = ("verilator",)
    depth: tuple[int, ...] = ()
    batch: tuple[int, ...] = ()
    store_buffer: tuple[str, ...] = ()
    sq_host: tuple[int, ...] = ()

    def jobs(self) -> list[Job]:
        """Returns one `Job` per combination of values; queue counts share a job."""
        found = []
        chosen = itertools.product(*(getattr(self, name) or (usual,)
                                     for name, usual in HOST_DEFAULTS.items()))
        # A batch is limited to the depth; WQEs in host memory pass no store buffer.
        ideal = HOST_DEFAULTS["store_buffer"]
        host = dict.fromkeys((depth, min(batch, depth), ideal if sq_host else cpu, sq_host)
                             for depth, batch, cpu, sq_host in chosen)
        for backend, kind, wait, size, seed, more in itertools.product(
                self.backend, self.kinds, self.host_read_latency, self.sizes, self.seeds,
                host if self.has_host_parameters else [()]):
            # A rate is measured by payload beats, so there is no rate at 0 bytes.
            measure = tuple(what for what in self.measure if size or what == LATENCY)
            if measure:
                found.append(Job(backend, kind, size, wait, seed, self.queues, measure, *more))
        return found

    @property
    def has_host_parameters(self) -> bool:
        """True if host parameters are part of the sweep."""
        several = len(self.backend) > 1 or CYCLE in self.backend
        return several or any(getattr(self, name) for name in HOST_DEFAULTS)


_QUEUES = Range(1, 64)
ALLOWED: dict[str, Allowed] = {
    "sizes": Range(0, 4096),
    "queues": _QUEUES,
    "kinds": Choice(("UD", "SRD")),
    "host_read_latency": Range(1, 10_000),
    "seeds": Range(0, (1 << 31) - 1),
    "measure": Choice((LATENCY, RATE)),
    "backend": Choice(("verilator", "icarus", CYCLE)),
    "depth": Range(1, 1024),
    "batch": Range(1, 16),
    "store_buffer": Choice(tuple(POLICIES)),
    "sq_host": Range(0, 1),
}


def read_grid(path: str | Path) -> Grid:
    """Returns the `Grid` of a sweep file (YAML); raises GridError."""
    return _grid(path, compose(path, "a sweep file"))


def compose(path: str | Path, what: str) -> yaml.Node | None:
    """Returns the root node of a YAML file, None if it is empty; raises GridError.

    `what` the file should be completes the refusal of a file that is too long.
    """
    path = Path(path)
    try:
        with path.open("rb") as stream:
            text = stream.read(MOST_FILE_BYTES + 1)
    except OSError as error:
        raise GridError(f"{path}: {error.strerror or error}") from None
    if len(text) > MOST_FILE_BYTES:
        raise GridError(f"{path}: more than {MOST_FILE_BYTES} bytes: not {what}")
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        why = getattr(error, "problem", None) or " ".join(str(error).split())
        raise GridError(f"{path}:{line}: no YAML: {why}") from None


def _grid(path: str | Path, root: yaml.Node | None) -> Grid:
    form = "of `key: values`, such as `sizes: [8, 64]`"
    values = {name: values_of(path, name, node, ALLOWED[name])
              for name, _, node in pairs_of(path, root, ALLOWED, form)}
    needed = [field.name for field in fields(Grid) if field.name == "sizes"]
    missing = [name for name in needed if name not in values]
    if missing:
        raise GridError(f"{path}:1: {missing[0]!r} is missing, such as `{missing[0]}: [8, 64]`")
    grid = Grid(**values)
    if not grid.has_host_parameters and max(grid.queues) > MOST_BURST_QUEUES:
        raise GridError(f"{path}:1: queues: at most {MOST_BURST_QUEUES} where all is posted at "
                        f"once; with one of {', '.join(HOST_DEFAULTS)} up to "
                        f"{_QUEUES.most}")
    count = len(grid.jobs())
    if not count:
        raise GridError(f"{path}:1: nothing to measure: there is no rate at 0 bytes; add a size "
                        "above 0 or measure latency")
    most = MOST_MODEL_JOBS if grid.backend == (CYCLE,) else MOST_JOBS
    if count > most:
        raise GridError(f"{path}:1: {count} jobs, at most {most} are allowed; "
                        "split the grid into several files")
    return grid


def pairs_of(
    path: str | Path, node: yaml.Node | None, known: Collection[str], form: str
) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
    """Yields (name, key, value) of a YAML mapping; raises GridError for an unknown or repeated key,
    and for a node that is no mapping, `form` of which completes the refusal."""
    if not isinstance(node, yaml.MappingNode):
        raise GridError(f"{path}:{line_of(node)}: expected a mapping {form}")
    found = set()
    for key, value in node.value:
        name = key.value if isinstance(key, yaml.ScalarNode) else "a nested value"
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
            raise GridError(f"{path}:{line_of(key)}: unknown key {name[:40]!r}; {hint}")
        if name in found:
            raise GridError(f"{path}:{line_of(key)}: {name!r} a second time")
        found.add(name)
        yield name, key, value


def line_of(node: yaml.Node | None) -> int:
    """Returns the line of a YAML node, 1 of an empty file."""
    return node.start_mark.line + 1 if node else 1


def values_of(path: str | Path, name: str, node: yaml.Node, allowed: Allowed) -> tuple[Any, ...]:
    """Returns the values of a key, given as a list or as a single value; raises GridError.

    `allowed` is a Range, a Choice or anything with their method `read`.
    """
    items = node.value if isinstance(node, yaml.SequenceNode) else [node]
    values = []
    for item in items:
        line = item.start_mark.line + 1
        try:
            if not isinstance(item, yaml.ScalarNode):
                raise ValueError
            value = allowed.read(item)
        except ValueError as error:
            shown = item.value[:40] if isinstance(item, yaml.ScalarNode) else "a nested value"
            hint = f"; {error}" if str(error) and item.value else ""
            raise GridError(f"{path}:{line}: {name}: {shown!r} is not allowed, "
                            f"must be {allowed}{hint}") from None
        if value in values:
            raise GridError(f"{path}:{line}: {name}: {value!r} a second time")
        values.append(value)
    if not values:
        raise GridError(f"{path}:{node.start_mark.line + 1}: {name}: the list is empty, "
                        f"must hold {allowed}")
    return tuple(values)
