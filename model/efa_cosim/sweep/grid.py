# SPDX-License-Identifier: Apache-2.0
"""Reads sweep files: a grid of values in YAML, expanded to independent jobs.

Every error names file, line and key, and the permitted values.
"""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Any

from efa_cosim.host.wc import POLICIES
from efa_cosim.layouts import defs
from efa_cosim.yaml_file import Allowed, Choice, Number, Range, YamlFile

MOST_JOBS = 1000
LATENCY, RATE = "latency", "rate"
CYCLE = "cycle"
# Parameters of host and fabric. A grid with one of these, with several backends or with the cycle
# model runs efa_cosim.cycle.workload on each backend; else the driver posts all messages at once.
HOST_DEFAULTS: dict[str, Any] = {"depth": 64, "batch": 16, "store_buffer": "ideal", "sq_host": 0,
                                 "loss": 0.0}  # fmt: skip
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
    - `loss`: share of packets and acknowledgements that the fabric loses
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
    loss: float = 0.0

    @property
    def kind_number(self) -> defs.AdminQpType:
        """The queue pair type as the number of the device."""
        return defs.AdminQpType[self.kind]

    def __str__(self) -> str:
        host = ""
        if self.depth:
            host = f", depth {self.depth}, batch {self.batch}, {self.store_buffer}"
            host += ", send queues in host memory" if self.sq_host else ""
            host += f", loss {self.loss:g}" if self.loss else ""
        device = "cycle model, " if self.backend == CYCLE else ""
        return (f"{device}{self.kind}, {self.size} bytes, host read latency "
                f"{self.host_read_latency}, seed {self.seed}{host}")

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values for JSON."""
        return asdict(self)


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
    loss: tuple[float, ...] = ()

    def jobs(self) -> list[Job]:
        """Returns one `Job` per combination of values; queue counts share a job."""
        found = []
        chosen = itertools.product(*(getattr(self, name) or (usual,)
                                     for name, usual in HOST_DEFAULTS.items()))
        # A batch is limited to the depth; WQEs in host memory pass no store buffer.
        ideal = HOST_DEFAULTS["store_buffer"]
        host = dict.fromkeys((depth, min(batch, depth), ideal if sq_host else cpu, sq_host, loss)
                             for depth, batch, cpu, sq_host, loss in chosen)
        for backend, kind, wait, size, seed, more in itertools.product(
                self.backend, self.kinds, self.host_read_latency, self.sizes, self.seeds,
                host if self.has_host_parameters else [()]):
            # A rate is measured by payload beats, so there is no rate at 0 bytes.
            measure = tuple(what for what in self.measure if size or what == LATENCY)
            job = Job(backend, kind, size, wait, seed, self.queues, measure, *more)
            # A lost datagram has no receive completion.
            if measure and not (job.loss and kind == "UD"):
                found.append(job)
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
    "loss": Number(0, Fraction(1, 2)),
}


def read_grid(path: str | Path) -> Grid:
    """Returns the `Grid` of a sweep file (YAML); raises GridError."""
    file = YamlFile(path, "a sweep file", GridError)
    form = "of `key: values`, such as `sizes: [8, 64]`"
    values = {name: file.values(name, node, ALLOWED[name])
              for name, _, node in file.pairs(file.read(), ALLOWED, form)}
    if "loss" in values:
        values["loss"] = tuple(map(float, values["loss"]))
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
        raise GridError(f"{path}:1: nothing to measure: there is no rate at 0 bytes, and no "
                        "datagram with loss; add a size above 0, measure latency or add SRD")
    most = MOST_MODEL_JOBS if grid.backend == (CYCLE,) else MOST_JOBS
    if count > most:
        raise GridError(f"{path}:1: {count} jobs, at most {most} are allowed; "
                        "split the grid into several files")
    return grid
