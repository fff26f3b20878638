# SPDX-License-Identifier: Apache-2.0
"""efa-cosim test: runs the project's tests, all or a selection, on the named simulators."""

from __future__ import annotations

import argparse
import subprocess
import sys

from efa_cosim.cli.options import Commands, seed
from efa_cosim.tree import INSTALLED, ROOT

NOTHING_SELECTED = 5


def add_command(commands: Commands) -> None:
    """Adds the command to the program."""
    parser = commands.add_parser("test", help="run the tests", description=__doc__)
    parser.add_argument("what", nargs="?", default="", help="select tests, as with pytest -k")
    parser.add_argument("--sim", default="verilator,icarus",
                        choices=("verilator", "icarus", "verilator,icarus"),
                        help="simulators for simulated tests (default: %(default)s)")
    parser.add_argument("--seed", type=seed, help="seed of every random choice")
    parser.set_defaults(work=work)


def work(options: argparse.Namespace) -> int:
    """Runs pytest on the project; returns 0 if passed, 1 if failed, 2 for wrong usage."""
    if INSTALLED:
        print("efa-cosim: an installed package has no tests; use a checkout of the project",
              file=sys.stderr)
        return 2
    command = [sys.executable, "-m", "pytest", "-q", "--sim", options.sim, "model/tests", "tb"]
    command += ["-k", options.what] if options.what else ["--plan"]
    command += ["--seed", str(options.seed)] if options.seed is not None else []
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    if code == NOTHING_SELECTED:
        print(f"efa-cosim: no test matches {options.what!r}; use an expression of pytest -k",
              file=sys.stderr)
    return code if code in (0, 1) else 2
