# SPDX-License-Identifier: Apache-2.0
"""Measures every row of the performance table on the whole device (make perf).

    python -m tb.perf.run [--row 'inline*' ...] [--sim verilator] [--out FOLDER]

Exit status 0 if every target is met, 1 on a missed target or a wrong message, 2 on usage or
environment.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from efa_cosim.boundary.backend import BackendUnavailable, DeviceTimeout
from efa_cosim.jobs.progress import Progress
from efa_cosim.layouts import defs
from efa_cosim.measure.origin import origin
from efa_cosim.measure.record import Mismatch, stamped
from tb.lib.backends import open_simulator
from tb.lib.host import RtlBackend
from tb.perf import curves
from tb.perf.queues import DMA_LATENCY, REQUEST_BYTES, Device, PerfError
from tb.perf.records import built, of_row
from tb.perf.rows import (
    ALL_ROWS,
    KEPT,
    LARGE_ROWS,
    PARAMETERS,
    ROWS,
    SQ_HOST_ROWS,
    Row,
    llq_bytes,
)
from tb.perf.work import Measured
from tb.simulators import ROOT, SIMULATORS, simulator_missing

OUT = ROOT / "reports/perf"
COMMAND = "make perf"
TITLE = "Rates and latencies of the whole device against their targets"
ROUNDING = 1e-9
MOST_CHARACTERS = 300
# A row or a point of summary.json.
Entry: TypeAlias = dict[str, Any]
# Errors that fail one row and do not end the others.
ROW_FAILS = (PerfError, BackendUnavailable, DeviceTimeout, AssertionError, RuntimeError, OSError,
             Mismatch)


def as_dict(row: Row, target: float | None, measured: Measured, seconds: float) -> Entry:
    """Returns a row of summary.json, with its `records`; raises Mismatch if it is beyond its limit.
    """
    value, limit = measured.value, row.limit
    met = None
    if target is not None:
        met = bool(value >= target - ROUNDING if row.least else value <= target)
    return {
        "key": row.key, "what": row.what, "value": value, "unit": row.unit,
        "target": target, "target_is": "at least" if row.least else "at most",
        "limit": limit, "limit_set_by": row.sets,
        "ratio_to_limit": None if limit is None else round(value / limit, 4),
        "met": met, "messages": measured.messages, "seconds": round(seconds, 2), **measured.more,
        "records": of_row(row, target, measured),
    }  # fmt: skip


def failed(row: Row, error: object) -> Entry:
    """Returns a row of summary.json without a measurement."""
    return {
        "key": row.key, "what": row.what, "value": None, "unit": row.unit, "target": row.target,
        "target_is": "at least" if row.least else "at most", "limit": row.limit,
        "limit_set_by": row.sets, "ratio_to_limit": None, "met": False, "messages": 0,
        "error": " ".join(str(error).split())[:MOST_CHARACTERS],
    }  # fmt: skip


class Source:
    """Opens fresh devices of one build in one simulation; a new simulation after a failure."""

    def __init__(self, sim: str, seed: int, build: str = "default") -> None:
        self._options: dict[str, Any] = {"sim": sim, "seed": seed, "params": PARAMETERS[build]}
        self._seed, self._llq_bytes = seed, llq_bytes(build)
        self._sq_host = bool(PARAMETERS[build].get("SQ_HOST"))
        self._backend: RtlBackend | None = None
        self._reason: BackendUnavailable | None = None

    def __call__(self, **knobs: int) -> Device:
        """Returns a Device after power-on; raises BackendUnavailable after a failed build."""
        if self._reason is not None:
            raise self._reason
        if self._backend is None:
            try:
                self._backend = open_simulator(**self._options)
            except BackendUnavailable as error:
                self._reason = error
                raise
        return Device(self._backend, self._seed, self._llq_bytes, sq_host=self._sq_host, **knobs)

    def renew(self) -> None:
        """Ends the simulation; the next device starts a new one."""
        backend, self._backend = self._backend, None
        if backend is not None:
            backend.abort()

    def close(self) -> None:
        """Ends the simulation; raises RuntimeError if the simulation failed."""
        backend, self._backend = self._backend, None
        if backend is not None:
            backend.close()


def measure(
    source: Source, rows: Iterable[Row], values: dict[str, float], progress: Progress
) -> list[Entry]:
    """Measures rows; returns dictionaries and stores the values in `values` by key. Each row is one
    item of `progress`.

    A failed row has `error` and is not met.
    """
    found: list[Entry] = []
    for row in rows:
        started = time.monotonic()
        try:
            measured = row.measure(source)
            target = row.target if row.base is None else round(KEPT * values[row.base], 4)
            found.append(as_dict(row, target, measured, time.monotonic() - started))
            values[row.key] = measured.value
        except KeyError:
            found.append(failed(row, f"no rate of {row.base} to compare with"))
        except ROW_FAILS as error:
            source.renew()
            found.append(failed(row, error))
        progress.advance(note=f"{row.what}: {reported(found[-1])}",
                         failed=found[-1]["met"] is False)
    return found


def reported(row: Entry) -> str:
    """Returns the report line of a row."""
    if "error" in row:
        return f"FAILED: {row['error']}"
    target = "no target" if row["target"] is None else f"{row['target_is']} {row['target']:g}"
    limit = "" if row["limit"] is None else f", limit {row['limit']:.4g}"
    status = {None: "", True: ": met", False: ": MISSED"}[row["met"]]
    return (f"{row['value']:.4g} {row['unit']} ({target}{limit}; {row['messages']} messages)"
            f"{status}")


def status(rows: Sequence[Entry], wrong: str = "") -> str:
    """Returns the report line of all rows; `wrong` names failures outside the rows."""
    missed = [row for row in rows if row["met"] is False]
    if not missed:
        met = sum(row["met"] is True for row in rows)
        return f"failed: {wrong}" if wrong else f"passed: all {met} rows meet their targets"
    names = "; ".join(
        f"{row['key']} {row['error']}" if "error" in row
        else f"{row['key']} {row['value']:.4g} of {row['target']:g}" for row in missed
    )  # fmt: skip
    names += f"; {wrong}" if wrong else ""
    return f"failed: {len(missed)} of {len(rows)} rows miss their targets: {names}"


def chosen(patterns: Sequence[str]) -> dict[str, list[Row]]:
    """Returns the matching rows of each build, and the base rows of the large build."""
    def matching(rows: Iterable[Row]) -> list[Row]:
        return [row for row in rows if any(fnmatch.fnmatch(row.key, one) for one in patterns)]

    large = matching(LARGE_ROWS)
    wanted = {row.key for row in matching(ROWS)} | {row.base for row in large}
    return {"default": [row for row in ROWS if row.key in wanted], "large": large,
            "sq_host": matching(SQ_HOST_ROWS)}


class AllMeasured(NamedTuple):
    """Rows, points of the curves, the records of both, and the failures outside the rows."""

    rows: list[Entry]
    points: list[Entry]
    records: list[dict[str, Any]]
    wrong: str


def measure_all(
    rows: Mapping[str, Sequence[Row]], options: argparse.Namespace, progress: Progress
) -> AllMeasured:
    """Measures all rows by build, and the curves if all rows are wanted."""
    found: list[Entry] = []
    points: list[Entry] = []
    records: list[dict[str, Any]] = []
    wrong: list[str] = []
    values: dict[str, float] = {}
    for build, mine in rows.items():
        if not mine:
            continue
        progress.say(f"building the {build} device for {options.sim}")
        source = Source(options.sim, options.seed, build)
        try:
            found += measure(source, mine, values, progress)
            records += _records(found, options, build)
            if build == "default" and options.row is None:
                points = curves.measure(source, progress)
                records += _records(points, options, build)
            source.close()
        except ROW_FAILS as error:
            source.renew()
            wrong.append(f"{build} build: {' '.join(str(error).split())[:MOST_CHARACTERS]}")
    return AllMeasured(found, points, records, "; ".join(wrong))


def _records(
    rows: Iterable[Entry], options: argparse.Namespace, build: str
) -> list[dict[str, Any]]:
    """Takes the records of rows or points of one build."""
    return [record for row in rows
            for record in built(row.pop("records", ()), options.sim, options.seed, build)]


def main(arguments: Sequence[str] | None = None) -> int:
    keys = [row.key for row in ALL_ROWS]
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], epilog=f"rows: {', '.join(keys)}")
    parser.add_argument("--row", action="append", metavar="PATTERN",
                        help="only rows that match, such as 'inline*'; may be repeated")
    parser.add_argument("--sim", choices=SIMULATORS, default="verilator")
    parser.add_argument("--seed", type=int, default=1, help="of the host's choices (default: 1)")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the report")
    options = parser.parse_args(arguments)
    rows = chosen(options.row or ["*"])
    if not any(rows.values()):
        parser.error(f"no row matches {', '.join(options.row)}; there are {', '.join(keys)}")
    reason = simulator_missing(options.sim)
    if reason is not None:
        print(f"make perf: {reason}", file=sys.stderr)
        return 2
    started = time.monotonic()
    total = sum(map(len, rows.values())) + (0 if options.row else len(curves.ALL))
    with Progress("perf", total) as progress:
        found = measure_all(rows, options, progress)
    line = status(found.rows, found.wrong)
    summary = {
        "verdict": line, "command": COMMAND, "seed": options.seed, "origin": origin(),
        "rows": found.rows, "curves": found.points,
        "measurements": stamped(found.records, COMMAND),
        "conditions": {"messages": "SRD", "DMA latency in cycles": DMA_LATENCY,
                       "payload and read request size": REQUEST_BYTES,
                       "queue pairs of the build": 1 << defs.LIMITS.qpn_w,
                       "simulator": options.sim},
    }  # fmt: skip
    # The import takes a second, which a usage error need not wait for.
    from tb.perf.page import write

    page = write(options.out, summary, TITLE)
    print(f"{line} ({time.monotonic() - started:.0f} s), report: {page}")
    return 0 if line.startswith("passed") else 1


if __name__ == "__main__":
    sys.exit(main())
