# SPDX-License-Identifier: Apache-2.0
"""Prints the unit benches of `make quick`: those of the changed blocks, as ids of pytest.

    python -m tb.changed

A bench is chosen if its test file or the RTL file of its top module differs from the last commit,
at most MOST of them, each with its first parameter set on Verilator. Without such a change, or
without git, the bench of DEFAULT is chosen. The benches that are left out are named on standard
error with the command that runs them.
"""

import subprocess
import sys
from pathlib import PurePath

from tb.simulators import ROOT
from tb.unit.units import UNITS

MOST = 2
DEFAULT = "skid"


def changed_files() -> list[str]:
    """Returns the paths that differ from the last commit, new files included; [] without git."""
    files: list[str] = []
    for words in (["diff", "--name-only", "HEAD"], ["ls-files", "--others", "--exclude-standard"]):
        try:
            done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
        except FileNotFoundError:
            return []
        files += done.stdout.splitlines()
    return files


def units_of(files: list[str]) -> list[str]:
    """Returns the names of the units whose test file or top module is in a list of paths."""
    stems = {PurePath(file).stem for file in files if file.startswith(("rtl/", "tb/unit/"))}
    return [name for name, unit in UNITS.items()
            if unit.top in stems or unit.module(name).rpartition(".")[2] in stems]  # fmt: skip


def case_of(name: str) -> str:
    """Returns the id of pytest of a unit's first parameter set on Verilator."""
    params = "".join(f"-{key}{value}" for key, value in UNITS[name].variants[0].items())
    return f"tb/unit/test_units.py::test_unit[verilator-{name}{params}]"


def main() -> int:
    units = units_of(changed_files())
    left = units[MOST:]
    if left:
        print(f"quick: {len(left)} more changed benches, run make unit UNIT='{' or '.join(left)}'",
              file=sys.stderr)  # fmt: skip
    print(*(case_of(name) for name in units[:MOST] or [DEFAULT]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
