# SPDX-License-Identifier: Apache-2.0
"""Compares the cycle counts of fixed scenarios on a smooth host with tb/perf/golden.yaml.

    python -m tb.perf.golden            writes the file anew and prints the changes
    python -m tb.perf.golden --check    prints differences; exit status 1 on a difference
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

# PyYAML has no types of its own.
import yaml  # type: ignore[import-untyped]

from efa_cosim.jobs.files import atomic_write
from efa_cosim.jobs.progress import Progress
from tb.lib.backends import open_simulator
from tb.lib.host import RtlBackend
from tb.perf.queues import Device
from tb.perf.scenarios import SCENARIOS, Cycles, Scenario
from tb.simulators import ROOT, SIMULATORS

FILE = ROOT / "tb/perf/golden.yaml"
HEAD = """\
# SPDX-License-Identifier: Apache-2.0
# Cycles of fixed scenarios on the whole device: written by `make golden`, reviewed like code.
# One message: cycles of each stage, from the doorbell's handshake (or the first flit in) on.
# Bursts: handshakes since the first store (or the first flit in), each but the first of a list
# as the gap to the one before.
"""
LINE_COLUMNS = 96
MOST_PLACES = 3


def measure(backend: RtlBackend, scenario: Scenario) -> Cycles:
    """Returns the present cycle counts of a scenario."""
    return scenario.run(Device(backend))


def differences(name: str, old: Cycles | None, new: Cycles) -> list[str]:
    """Returns lines that name scenario and stage with old and new counts; empty if unchanged."""
    if old is None:
        return [f"{name}: new"]
    found = []
    for stage in [*old, *(stage for stage in new if stage not in old)]:
        before, now = old.get(stage), new.get(stage)
        if before == now:
            continue
        if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
            places = [n for n, pair in enumerate(zip(before, now, strict=True)) if len({*pair}) > 1]
            reported = ", ".join(f"number {n}: {before[n]} cycles became {now[n]}"
                             for n in places[:MOST_PLACES])  # fmt: skip
            more = f" and {len(places) - MOST_PLACES} more" if len(places) > MOST_PLACES else ""
            found.append(
                f"{name}: {stage}, {reported}{more} (all: {sum(before)} became {sum(now)})"
            )
        else:
            found.append(f"{name}: {stage}: {before} cycles became {now}")
    return found


def read() -> dict[str, Cycles]:
    """Returns the golden values by scenario."""
    return yaml.safe_load(FILE.read_text()) if FILE.exists() else {}


def text(values: Mapping[str, Cycles]) -> str:
    """Returns the text of the file: one line per stage, lists in rows."""
    lines = [HEAD]
    for name, stages in values.items():
        lines.append(f"{name}:\n")
        for stage, cycles in stages.items():
            lines.append(_line(stage, cycles))
    return "".join(lines)


def _line(stage: str, cycles: int | list[int]) -> str:
    shown = f"  {stage}: {cycles}"
    if isinstance(cycles, int) or len(shown) <= LINE_COLUMNS:
        return shown + "\n"
    rows, row = [], f"  {stage}: ["
    for number, value in enumerate(cycles):
        part = f"{value}{',' if number + 1 < len(cycles) else ']'}"
        if len(row) + len(part) + 1 > LINE_COLUMNS:
            rows.append(row)
            row = "   "
        row += part if row.endswith("[") else " " + part
    return "\n".join([*rows, row]) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare only, do not write")
    parser.add_argument("--sim", choices=SIMULATORS, default="verilator")
    options = parser.parse_args(arguments)
    old = read()
    new: dict[str, Cycles] = {}
    changed: list[str] = []
    with Progress("golden") as progress, open_simulator(options.sim) as backend:
        progress.phase("golden", len(SCENARIOS))
        for scenario in SCENARIOS:
            new[scenario.name] = measure(backend, scenario)
            lines = differences(scenario.name, old.get(scenario.name), new[scenario.name])
            print("\n".join(lines or [f"{scenario.name}: as before"]), flush=True)
            changed += lines
            progress.advance()
    gone = [f"{name}: gone" for name in old if name not in new]
    print("\n".join([*gone, f"{len(changed) + len(gone)} differences"]))
    if not options.check:
        atomic_write(FILE, text(new))
        print(f"written: {FILE.relative_to(ROOT)}")
    return int(options.check and bool(changed + gone))


if __name__ == "__main__":
    sys.exit(main())
